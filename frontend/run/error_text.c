// What calls on models and loaders say, by thread: a sentence is the calling thread's own copy, so that it can be read
// while other threads make calls. A thread keeps one for each of the last few models and loaders that it used.
#include "frontend/run/run.h"
#include "runtime/format.h"
#include <pthread.h>
#include <string.h>

enum { MOST = 8, WARNING_SIZE = RT_WARNING_SIZE };

typedef struct ThreadError {
  struct ThreadError *next;  // the one that was used before it
  uint64_t id;               // of the FeCallLock
  char error[RT_ERROR_SIZE], warning[WARNING_SIZE];
} ThreadError;

static _Thread_local ThreadError *newest;
static pthread_key_t ends_with_thread;
static pthread_once_t has_key = PTHREAD_ONCE_INIT;

static void free_all(void *list) {
  newest = NULL;
  for (ThreadError *s = list, *next; s; s = next) {
    next = s->next;
    rt_free(s);
  }
}

static void make_key(void) { pthread_key_create(&ends_with_thread, free_all); }

// Taken out of the list; NULL: there is none.
static ThreadError *take(uint64_t id) {
  for (ThreadError **at = &newest; *at; at = &(*at)->next) {
    ThreadError *s = *at;
    if (s->id != id) continue;
    *at = s->next;
    return s;
  }
  return NULL;
}

static ThreadError *take_oldest(void) {
  uint32_t n = 0;
  const ThreadError *last = NULL;
  for (const ThreadError *s = newest; s; s = s->next) last = s, n++;
  return n < MOST ? NULL : take(last->id);
}

static ThreadError *fresh(uint64_t id) {
  ThreadError *s = take_oldest();
  if (!s && !(s = rt_malloc(sizeof *s))) return NULL;
  s->id = id;
  s->error[0] = s->warning[0] = 0;
  return s;
}

// Of this thread, found or made; NULL: out of memory.
static ThreadError *said_of(const FeCallLock *l) {
  ThreadError *s = take(l->id);
  if (!s && !(s = fresh(l->id))) return NULL;
  s->next = newest;
  newest = s;
  pthread_once(&has_key, make_key);
  pthread_setspecific(ends_with_thread, newest);
  return s;
}

static const ThreadError *find(const FeCallLock *l) {
  const ThreadError *s = newest;
  while (s && s->id != l->id) s = s->next;
  return s;
}

static void copy(char *to, size_t size, const char *from) {
  size_t n = strlen(from);
  if (n >= size) n = size - 1;
  memcpy(to, from, n);
  to[n] = 0;
}

// ---- by calls
void fe_say(const FeCallLock *l, const char *fmt, ...) {
  ThreadError *s = said_of(l);
  va_list args;
  va_start(args, fmt);
  if (s) rt_vformat(s->error, sizeof s->error, fmt, args);
  va_end(args);
}

void fe_say_nothing(const FeCallLock *l) {
  if (find(l)) said_of(l)->error[0] = 0;
}

// Makes the thread's entry in any case: its calls that fail later allocate nothing.
void fe_keep_error(const FeCallLock *l) {
  ThreadError *s = newest && newest->id == l->id ? newest : said_of(l);
  if (s) copy(s->error, sizeof s->error, l->error);
}

// ---- by those who ask
const char *fe_error_text(FeCallLock *l, FeCall call) {
  const ThreadError *kept = find(l);
  if (kept) return kept->error;
  FE_WAIT(l, call);
  ThreadError *s = l->error[0] ? said_of(l) : NULL;
  if (s) copy(s->error, sizeof s->error, l->error);
  return s ? s->error : l->error;
}

const char *fe_warning_text(FeCallLock *l, FeCall call) {
  FE_WAIT(l, call);
  ThreadError *s = l->warning[0] ? said_of(l) : NULL;
  if (s) copy(s->warning, sizeof s->warning, l->warning);
  return s ? s->warning : "";
}
