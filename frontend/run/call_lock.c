// One call at a time on a model or a loader, as frontend/run/calls.def says for each.
//
//   FE_MODEL_CALL(m, tn_save, TN_ERR_ARGUMENT);     // m is the caller's until this function returns
//
// Who has it is one word, so that a refusal never reads half of what another thread writes:
//
//   process (32 bits) | call (8) | function of tn_run, plus 1 (24)       0: nobody
//
// The process is in it since the child of a fork has none of the parent's threads: what they held is free there.
#include "frontend/run/run.h"
#include "runtime/exec/thread_team.h"
#include <sched.h>
#include <time.h>

enum { CALL_BIT = 24, PROCESS_BIT = 32, FUNCTION_MASK = (1 << CALL_BIT) - 1 };

static const char *const call_name[] = {
    "",
#define MODEL_CALL(name, class) #name,
#define LOADER_CALL(name, class) #name,
#include "frontend/run/calls.def"
};

typedef enum { FREE, REFUSED, WAITS } Class;
static const Class call_class[] = {
    FREE,
#define MODEL_CALL(name, class) class,
#define LOADER_CALL(name, class) class,
#include "frontend/run/calls.def"
};

static _Thread_local char of_this_thread;  // its address tells threads apart

void fe_lock_init(FeCallLock *l, const RtPlan *plan, char *error, const char *warning) {
  static atomic_uint_fast64_t last_id;
  l->id = atomic_fetch_add(&last_id, 1) + 1;
  l->plan = plan, l->error = error, l->warning = warning;
  rt_team_process();  // from here on forks are counted
}

static uint64_t word_of(FeCall call, uint32_t function) {
  return (uint64_t)rt_team_process() << PROCESS_BIT | (uint64_t)call << CALL_BIT | (function & FUNCTION_MASK);
}

// *word: whose call is under way
static bool try_lock(FeCallLock *l, FeCall call, uint64_t *word) {
  *word = atomic_load_explicit(&l->word, memory_order_relaxed);
  do
    if (*word >> PROCESS_BIT == rt_team_process()) return false;
  while (!atomic_compare_exchange_weak_explicit(&l->word, word, word_of(call, 0), memory_order_acquire,
                                                memory_order_relaxed));
  atomic_store_explicit(&l->thread, &of_this_thread, memory_order_relaxed);
  return true;
}

static FeCall call_of(uint64_t word) { return word >> CALL_BIT & 0xff; }

// A call of a data set inside tn_loader_next, what a probe calls, or a signal handler: who waited for itself would wait
// for ever.
static bool is_mine(const FeCallLock *l) {
  return atomic_load_explicit(&l->word, memory_order_relaxed) >> PROCESS_BIT == rt_team_process() &&
         atomic_load_explicit(&l->thread, memory_order_relaxed) == &of_this_thread;
}

// Into the text of `speaker`, which the caller has unless it is the one that it did not get.
static void refuse(const FeCallLock *l, FeCall call, uint64_t word, const FeCallLock *speaker) {
  char text[512];
  uint32_t function = word & FUNCTION_MASK;
  const char *what = l->plan ? "model" : "loader", *name = function ? l->plan->functions[function - 1].name : "";
  const char *way_out = is_mine(l) ? "call it after that has returned"
                        : l->plan  ? "wait for it, or give each thread an instance of its own (tn_instance)"
                                   : "one thread asks a loader";
  snprintf(text, sizeof text, "%s: %s%s%.200s%s is running in %s thread on %s %s; %s", call_name[call],
           call_name[call_of(word)], function ? " of '" : "", name, function ? "'" : "",
           is_mine(l) ? "this very" : "another", speaker == l ? "this" : "another", what, way_out);
  if (speaker == l) fe_say(l, "%s", text);
  else rt_fail(speaker->error, RT_ERROR_SIZE, "%s", text);
}

static void pause_before(uint32_t try) {
  enum { YIELDS = 100, PAUSE_NS = 100 * 1000 };
  if (try < YIELDS) sched_yield();
  else nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

// Calls that wait are over in no time: nobody is refused because of them.
bool fe_lock(FeCallLock *l, FeCall call, FeCallLock *speaker) {
  uint64_t word;
  for (uint32_t k = 0; !try_lock(l, call, &word); k++) {
    if (call_class[call_of(word)] != WAITS || is_mine(l)) return refuse(l, call, word, speaker), false;
    pause_before(k);
  }
  return true;
}

bool fe_begin_call(FeCallLock *l, FeCall call, FeCallLock *speaker) {
  if (!fe_lock(l, call, speaker)) return false;
  l->error[0] = 0;
  return true;
}

void fe_lock_names(FeCallLock *l, uint32_t function) {
  FeCall call = call_of(atomic_load_explicit(&l->word, memory_order_relaxed));
  atomic_store_explicit(&l->word, word_of(call, function + 1), memory_order_relaxed);
}

// The word is the last thing that a call touches, so that tn_model_free may free it right then: nobody is woken. The
// thread goes first: who takes the word next names itself a moment later, and until then this thread must not take that
// call for its own.
void fe_unlock(FeCallLock *l) {
  atomic_store_explicit(&l->thread, NULL, memory_order_relaxed);
  atomic_store_explicit(&l->word, 0, memory_order_release);
}

void fe_end_call(FeCallLock *l) {
  fe_keep_error(l);
  fe_unlock(l);
}

bool fe_lock_wait(FeCallLock *l, FeCall call) {
  uint64_t word;
  if (is_mine(l)) return false;
  for (uint32_t k = 0; !try_lock(l, call, &word); k++) pause_before(k);
  return true;
}

void fe_end_wait(FeCallLock **l) {
  if (*l) fe_unlock(*l);
}

void fe_end_model_call(tn_model **m) {
  if (*m) fe_end_call(&(*m)->lock);
}
