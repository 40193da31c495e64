// A forked child with a pipe for its answer, a page that says what it is doing, and a file for its stderr.
#include "codegen/module/child.h"

#include "runtime/clock.h"
#include "runtime/format.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)  // clang
#define HAS_ASAN __has_feature(address_sanitizer)
#define HAS_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)  // gcc
#define HAS_ASAN 1
#define HAS_TSAN 0
#else
#define HAS_ASAN 0
#ifdef __SANITIZE_THREAD__
#define HAS_TSAN 1
#else
#define HAS_TSAN 0
#endif
#endif

enum { DOING = 512, SAID = 1024, LOOK_MS = 100 };

// The message of a child: head, then `size` bytes of data, or the text of a failure.
typedef struct {
  uint64_t failure, size;  // CgFailure; no padding, which would be sent without a value
} Head;

// Shared by parent and child
typedef struct {
  char doing[CG_CHILD_LANES][DOING];  // of each thread; "": nothing
} Board;

// In the parent: the child. In the child: its own ends.
typedef struct {
  pid_t pid;
  int answer;  // of the pipe
  int said;    // file for the child's stderr, where LLVM writes its last words; -1: none
  Board *board;
} Child;

static Child self;  // of this process, when it is a child; board NULL: it is none

// ---- in the child
static _Thread_local uint32_t lane;
static atomic_uint n_lanes = 1;

void cg_child_lane(void) { lane = atomic_fetch_add(&n_lanes, 1); }

void cg_child_doing(const char *fmt, ...) {
  if (!self.board || lane >= CG_CHILD_LANES) return;
  va_list args;
  va_start(args, fmt);
  rt_vformat(self.board->doing[lane], DOING, fmt, args);
  va_end(args);
}

void cg_child_done(void) {
  if (self.board && lane < CG_CHILD_LANES) self.board->doing[lane][0] = 0;
}

static void send_bytes(const void *bytes, size_t n) {
  const char *at = bytes;
  while (n) {
    ssize_t sent = write(self.answer, at, n);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) _exit(1);
    at += sent, n -= (size_t)sent;
  }
}

// Only the first thread that answers counts.
_Noreturn static void answer(CgFailure failure, const CgObject *piece, uint32_t n) {
  static atomic_flag has_answered = ATOMIC_FLAG_INIT;
  while (atomic_flag_test_and_set(&has_answered)) pause();
  Head head = {.failure = failure};
  for (uint32_t k = 0; k < n; k++) head.size += piece[k].size;
  send_bytes(&head, sizeof head);
  for (uint32_t k = 0; k < n; k++) send_bytes(piece[k].bytes, piece[k].size);
  _exit(0);
}

_Noreturn void cg_child_answer_pieces(const CgObject *piece, uint32_t n) { answer(CG_NO_FAILURE, piece, n); }

_Noreturn void cg_child_answer(const CgObject *data) { answer(CG_NO_FAILURE, data, 1); }

_Noreturn void cg_child_fail(CgFailure failure, const char *text) {
  answer(failure, &(CgObject){(void *)(uintptr_t)text, strlen(text)}, 1);
}

// Faults end the child, as they would in a program that handles none; what is meant for the program, Ctrl-C among it,
// stays blocked and is the parent's business: when that ends, so does the child.
static void set_signals(void) {
  static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGXCPU};
  sigset_t open;
  sigemptyset(&open);
  for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
    signal(faults[k], SIG_DFL);
    sigaddset(&open, faults[k]);
  }
  pthread_sigmask(SIG_UNBLOCK, &open, NULL);
}

// Bytes of address space that this process has; 0: unknown.
static rlim_t address_space(void) {
  char text[64] = "";
  int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  ssize_t n = read(file, text, sizeof text - 1);
  close(file);
  return n > 0 ? (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE) : 0;
}

static void limit_memory(size_t bytes) {
  struct rlimit r;
  rlim_t now = bytes ? address_space() : 0;
  if (!now || getrlimit(RLIMIT_AS, &r)) return;
  if (r.rlim_cur == RLIM_INFINITY || r.rlim_cur > now + bytes) r.rlim_cur = now + bytes;
  setrlimit(RLIMIT_AS, &r);
}

// The child closes the program's files, sockets included.
static void close_files(void) {
  enum { FIRST = 3 };
  int low = self.answer;
#ifdef SYS_close_range
  if (low > FIRST) syscall(SYS_close_range, FIRST, low - 1, 0);
  syscall(SYS_close_range, low + 1, ~0u, 0);
#else
  (void)low;
#endif
}

// Keeps a sanitizer's report for developers.
static bool prints_reports(void) { return HAS_ASAN || HAS_TSAN; }

// ThreadSanitizer starts none in a fork of a program that has threads.
bool cg_child_may_have_threads(void) { return !HAS_TSAN; }

_Noreturn static void be_child(const CgLimits *limits, pid_t parent, void (*work)(void *ctx), void *ctx) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  set_signals();
  setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  prctl(PR_SET_DUMPABLE, 0);  // a core would be the whole program's
  if (self.answer <= STDERR_FILENO) self.answer = fcntl(self.answer, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (self.said >= 0 && !prints_reports()) dup2(self.said, STDERR_FILENO);
  close_files();
  limit_memory(limits->bytes);
  work(ctx);
  _exit(1);
}

// ---- in the parent
// Text in place: nothing here takes memory of an arena, which may jump away while files are open.
typedef struct {
  char text[SAID + CG_CHILD_LANES * DOING + 256];
  size_t n;
} Reason;

static void add_reason(Reason *r, const char *fmt, ...) RT_PRINTF(2, 3);
static void add_reason(Reason *r, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = rt_vformat(r->text + r->n, sizeof r->text - r->n, fmt, args);
  va_end(args);
  r->n = n < 0 ? r->n : r->n + (size_t)n < sizeof r->text ? r->n + (size_t)n : sizeof r->text - 1;
}

static CgFailure failure_of(int error) { return error == ENOMEM ? CG_NO_MEMORY : CG_NO_PROCESS; }

static CgFailure open_child(Child *c, int ends[2], Reason *why) {
  *c = (Child){.answer = -1, .said = -1};
  c->board = mmap(NULL, sizeof *c->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (c->board == MAP_FAILED) c->board = NULL;
  if (!c->board || pipe2(ends, O_CLOEXEC)) {
    int error = errno;
    add_reason(why, "there is no memory or file for a compiler process: %s", strerror(error));
    if (c->board) munmap(c->board, sizeof *c->board);
    return failure_of(error);
  }
  c->said = memfd_create("tenure", MFD_CLOEXEC);
  return CG_NO_FAILURE;
}

static void close_child(Child *c) {
  if (c->answer >= 0) close(c->answer);
  if (c->said >= 0) close(c->said);
  munmap(c->board, sizeof *c->board);
}

// No handler of the program runs in the child, not even between fork and set_signals.
static CgFailure start_child(Child *c, const CgLimits *limits, void (*work)(void *ctx), void *ctx, Reason *why) {
  int ends[2];
  CgFailure failure = open_child(c, ends, why);
  if (failure) return failure;
  sigset_t all, before;
  sigfillset(&all);
  pid_t parent = getpid();
  pthread_sigmask(SIG_SETMASK, &all, &before);
  c->pid = fork();
  if (c->pid == 0) {
    self = (Child){.answer = ends[1], .said = c->said, .board = c->board};
    be_child(limits, parent, work, ctx);
  }
  int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(ends[1]);
  c->answer = ends[0];
  if (c->pid > 0) return CG_NO_FAILURE;
  close_child(c);
  add_reason(why, "a compiler process cannot be started: %s", strerror(error));
  return failure_of(error);
}

// The wait for a message and for the end of the child. A program that reaps children itself, or ignores SIGCHLD, takes
// the status of the end away, which then stays unknown.
typedef struct {
  const Child *child;
  double until;  // of rt_now_s
  bool is_late, has_ended;
  int status;  // of waitpid; 0: unknown
} Wait;

static void look_for_end(Wait *w, int flags) {
  pid_t ended;
  do ended = waitpid(w->child->pid, &w->status, flags);
  while (ended < 0 && errno == EINTR);
  w->has_ended = ended != 0;
}

// The end of the child is not always that of the pipe: another child of the program may have its other end too.
static bool receive(Wait *w, void *to, size_t n) {
  for (char *at = to; n;) {
    struct pollfd p = {.fd = w->child->answer, .events = POLLIN};
    bool is_ready = poll(&p, 1, w->has_ended ? 0 : LOOK_MS) > 0;
    ssize_t got = is_ready ? read(p.fd, at, n) : -1;
    if (got > 0) at += got, n -= (size_t)got;
    else if (is_ready ? got == 0 || errno != EINTR : w->has_ended) return false;
    else if (!is_ready) look_for_end(w, WNOHANG);
    w->is_late = n && rt_now_s() > w->until;
    if (w->is_late) return false;
  }
  return true;
}

static void end_child(Wait *w) {
  if (w->has_ended) return;
  kill(w->child->pid, SIGKILL);
  look_for_end(w, 0);
}

// ---- why there is no answer
static void words_of(const Child *c, char said[SAID]) {
  ssize_t n = c->said >= 0 ? pread(c->said, said, SAID - 1, 0) : 0;
  said[n > 0 ? n : 0] = 0;
}

static void add_doing(Board *b, Reason *why) {
  const char *before = " while ";
  for (uint32_t k = 0; k < CG_CHILD_LANES; k++) {
    b->doing[k][DOING - 1] = 0;
    if (!b->doing[k][0]) continue;
    add_reason(why, "%s%s", before, b->doing[k]);
    before = "; ";
  }
}

static CgFailure explain_end(const Wait *w, Reason *why) {
  char said[SAID];
  words_of(w->child, said);
  int number = WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
  bool is_memory = strstr(said, "bad_alloc") || strstr(said, "out of memory");
  said[strcspn(said, "\n")] = 0;
  if (is_memory) add_reason(why, "the compiler ran out of memory");
  else if (number == SIGKILL) add_reason(why, "the compiler was killed, as the system does when memory is short");
  else if (number) add_reason(why, "the compiler crashed (signal %d, %s)", number, strsignal(number));
  else add_reason(why, "the compiler ended without an answer (status %d)", WEXITSTATUS(w->status));
  add_doing(w->child->board, why);
  if (*said && !is_memory) add_reason(why, ": %s", said);
  return is_memory || number == SIGKILL ? CG_NO_MEMORY : CG_CRASHED;
}

static ChildAnswer take_answer(Wait *w, const CgLimits *limits, Reason *why) {
  Head head = {0};
  bool has_head = receive(w, &head, sizeof head);
  char *data = has_head ? rt_malloc(head.size + 1) : NULL;
  bool complete = data && receive(w, data, head.size);
  end_child(w);
  ChildAnswer a = {.failure = (CgFailure)head.failure, .size = head.size, .data = data};
  if (complete && head.failure == CG_NO_FAILURE) return a;
  if (complete) add_reason(why, "%.*s", (int)head.size, data);
  else a.failure = has_head && !data ? CG_NO_MEMORY : w->is_late ? CG_TOO_LONG : explain_end(w, why);
  if (a.failure == CG_TOO_LONG) add_reason(why, "compiling took longer than the limit, %g seconds", limits->seconds);
  rt_free(data);
  a.data = NULL;
  return a;
}

ChildAnswer cg_run_child(const CgLimits *limits, void (*work)(void *ctx), void *ctx, RtText *why) {
  Child c;
  Reason reason = {0};
  ChildAnswer a = {.failure = start_child(&c, limits, work, ctx, &reason)};
  if (!a.failure) {
    Wait w = {.child = &c, .until = limits->seconds > 0 ? rt_now_s() + limits->seconds : HUGE_VAL};
    a = take_answer(&w, limits, &reason);
    close_child(&c);
  }
  if (a.failure != CG_NO_FAILURE) rt_text_add(why, "%s", reason.n ? reason.text : "out of memory");
  return a;
}
