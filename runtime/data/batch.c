#include "runtime/data/batch.h"

#include "runtime/data/dataset.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static RtBatchOwner *owners;
static uint64_t last_id;

// Another thread may have the lock when one forks; the list is whole at every moment.
static pthread_once_t forks_are_watched = PTHREAD_ONCE_INIT;
static void renew_lock(void) { pthread_mutex_init(&lock, NULL); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, renew_lock); }

void rt_batch_register(RtBatchOwner *o) {
  pthread_once(&forks_are_watched, watch_forks);
  pthread_mutex_lock(&lock);
  o->id = ++last_id;
  o->next = owners;
  owners = o;
  pthread_mutex_unlock(&lock);
}

static void unlink_owner(const RtBatchOwner *o) {
  for (RtBatchOwner **at = &owners; *at; at = &(*at)->next)
    if (*at == o) {
      *at = o->next;
      return;
    }
}

void rt_batch_unregister(RtBatchOwner *o) {
  pthread_mutex_lock(&lock);
  unlink_owner(o);
  pthread_mutex_unlock(&lock);
}

RtBatch rt_batch_publish(RtBatchOwner *o, uint64_t number) {
  pthread_mutex_lock(&lock);
  o->live = number;
  pthread_mutex_unlock(&lock);
  return (RtBatch){o->id, number};
}

static RtBatchOwner *find_live(RtBatch b) {
  for (RtBatchOwner *o = owners; o && b.number; o = o->next)
    if (o->id == b.owner) return o->live == b.number ? o : NULL;
  return NULL;
}

bool rt_batch_find(RtBatch b, RtBatchOwner *out) {
  pthread_mutex_lock(&lock);
  const RtBatchOwner *o = find_live(b);
  *out = o ? *o : (RtBatchOwner){0};
  pthread_mutex_unlock(&lock);
  return o != NULL;
}

// ---- copies: one block holds the owner, its arrays, names and indices, and the data
typedef struct {
  RtBatchOwner owner;
  RtArray arrays[RT_MAX_BATCH_ARRAYS];
  char names[RT_MAX_BATCH_ARRAYS][RT_ARRAY_NAME];
} Copy;

static size_t bytes_of(const RtArray *a) {
  size_t n = rt_dtype_bytes(a->dtype);
  for (uint32_t d = 0; d < a->rank; d++) n *= (size_t)a->dims[d];
  return n;
}

static size_t aligned(size_t n) { return (n + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; }

static size_t copy_bytes(const RtBatchOwner *o) {
  size_t n = aligned(sizeof(Copy)) + aligned(o->n_items * sizeof *o->index);
  for (uint32_t k = 0; k < o->n_arrays; k++) n += aligned(bytes_of(&o->arrays[k]));
  return n;
}

static void fill_copy(Copy *c, const RtBatchOwner *from) {
  unsigned char *at = (unsigned char *)c + aligned(sizeof *c);
  c->owner = *from;
  c->owner.arrays = c->arrays;
  c->owner.names = (const char(*)[RT_ARRAY_NAME])c->names;
  c->owner.is_copy = true;
  if (from->index) c->owner.index = memcpy(at, from->index, from->n_items * sizeof *from->index);
  at += aligned(from->n_items * sizeof *from->index);
  for (uint32_t k = 0; k < from->n_arrays; k++) {
    size_t n = bytes_of(&from->arrays[k]);
    c->arrays[k] = from->arrays[k];
    c->arrays[k].data = n ? memcpy(at, from->arrays[k].data, n) : at;
    memcpy(c->names[k], from->names[k], RT_ARRAY_NAME);
    at += aligned(n);
  }
}

RtBatch rt_batch_retain(RtBatch b) {
  RtBatchOwner from;
  Copy *c = rt_batch_find(b, &from) ? rt_malloc_aligned(TN_ALIGN, copy_bytes(&from)) : NULL;
  if (!c) return (RtBatch){0};
  fill_copy(c, &from);
  c->owner.live = 1;
  rt_batch_register(&c->owner);
  return (RtBatch){c->owner.id, 1};
}

void rt_batch_release(RtBatch b) {
  pthread_mutex_lock(&lock);
  RtBatchOwner *o = find_live(b);
  bool is_copy = o && o->is_copy;
  if (is_copy) unlink_owner(o);
  pthread_mutex_unlock(&lock);
  if (is_copy) rt_free(o);
}
