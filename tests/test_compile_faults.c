// A compiler that runs out of memory, crashes, hangs or is interrupted: tn_compile says so, this process goes on, and
// nothing of the compiler stays behind. The test stands between the library and LLVM (LLVMRunPasses), and between all of
// them and malloc: what it counts and does lies in memory that a forked compiler shares.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum { NOTHING, CRASH, COMPLAIN, HANG, INTERRUPT } Fault;
typedef struct {
  atomic_long n_mallocs;
  atomic_long fail_from, fail_to;  // allocations [from, to) fail; counted from 1
  atomic_int compiler;             // process that is in LLVM
  Fault fault;
} Shared;
static Shared *shared;

// ---- malloc
#if !IS_SANITIZED && defined(__GLIBC__)
#define SEEN __attribute__((visibility("default")))  // by the libraries
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static bool is_refused(void) {
  if (!shared) return false;
  long n = atomic_fetch_add(&shared->n_mallocs, 1) + 1;
  if (n < atomic_load(&shared->fail_from) || n >= atomic_load(&shared->fail_to)) return false;
  errno = ENOMEM;
  return true;
}

SEEN void *malloc(size_t n) { return is_refused() ? NULL : __libc_malloc(n); }
SEEN void *calloc(size_t n, size_t size) { return is_refused() ? NULL : __libc_calloc(n, size); }
SEEN void *realloc(void *p, size_t n) { return is_refused() ? NULL : __libc_realloc(p, n); }
SEEN void *memalign(size_t align, size_t n) { return is_refused() ? NULL : __libc_memalign(align, n); }
SEEN void *aligned_alloc(size_t align, size_t n) { return memalign(align, n); }
SEEN int posix_memalign(void **p, size_t align, size_t n) { return (*p = memalign(align, n)) ? 0 : ENOMEM; }
#define COUNTS_MALLOCS 1
#endif

// ---- LLVM
typedef void *RunPasses(void *module, const char *passes, void *machine, void *options);
RunPasses LLVMRunPasses;

void *LLVMRunPasses(void *module, const char *passes, void *machine, void *options) {
  static const char words[] = "LLVM ERROR: Cannot select: f32 = nonsense\n";
  atomic_store(&shared->compiler, getpid());
  switch (shared->fault) {
  case NOTHING: break;
  case CRASH: raise(SIGSEGV); break;
  case COMPLAIN:
    if (write(STDERR_FILENO, words, sizeof words - 1) > 0) abort();
    break;
  case HANG:
    for (;;) pause();
  case INTERRUPT: kill(0, SIGINT); break;
  }
  RunPasses *real = NULL;
  void *found = dlsym(RTLD_NEXT, "LLVMRunPasses");
  memcpy(&real, &found, sizeof real);
  return real(module, passes, machine, options);
}

// ---- one program
static tn_program *build(void) {
  tn_program *p = tn_program_create("small");
  if (!p) return NULL;
  tn_function *f = tn_function_begin(p, "sum");
  tn_output(f, "y", tn_sum(tn_input(f, "x", TN_F32, TN_SHAPE(4))));
  tn_function_end(f);
  return p;
}

static bool runs(tn_model *m) {
  float x[4] = {1, 2, 3, 4}, y = 0;
  return !tn_run(m, "sum", TN_IN(tn_f32(x, 4)), TN_OUT(tn_f32_scalar(&y))) && y == 10;
}

static bool compiles(void) {
  tn_program *p = build();
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1);
  bool good = m && runs(m);
  if (!m) tn_report(p, stdout);
  tn_model_free(m);
  tn_program_free(p);
  return good;
}

static int count_files(void) {
  int n = 0;
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d && (e = readdir(d));) n++;
  if (d) closedir(d);
  return n;
}

static bool leaves_no_child(void) { return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD; }

// ---- memory
#ifdef COUNTS_MALLOCS
static tn_status status_failing(long from, long to) {
  long now = atomic_load(&shared->n_mallocs);
  atomic_store(&shared->fail_to, to < LONG_MAX ? now + to : LONG_MAX);
  atomic_store(&shared->fail_from, now + from);
  tn_program *p = build();
  tn_model *m = p ? tn_compile(p, .cache_dir = "", .n_workers = 1) : NULL;
  tn_status s = !p ? TN_ERR_MEMORY : m && runs(m) ? TN_OK : tn_report(p, NULL);
  atomic_store(&shared->fail_from, LONG_MAX);
  if (!m && p && s != TN_ERR_MEMORY) tn_report(p, stdout);
  tn_model_free(m);
  tn_program_free(p);
  return s;
}

// One allocation fails, or all from one on.
static void test_out_of_memory(void) {
  enum { POINTS = 30 };
  long before = atomic_load(&shared->n_mallocs);
  CHECK(compiles());
  long all = atomic_load(&shared->n_mallocs) - before;
  int n_memory = 0, files = count_files();
  for (long k = 0; k < POINTS; k++) {
    long at = k < 6 ? k + 1 : 6 + (all - 6) * (k - 6) / (POINTS - 6);
    tn_status once = status_failing(at, at + 1), rest = status_failing(at, LONG_MAX);
    n_memory += (once == TN_ERR_MEMORY) + (rest == TN_ERR_MEMORY);
    CHECK(once == TN_ERR_MEMORY || once == TN_OK);
    CHECK(rest == TN_ERR_MEMORY);
  }
  printf("%ld allocations in a compilation; %d of %d times out of memory\n", all, n_memory, 2 * POINTS);
  CHECK(n_memory >= 48);
  CHECK(count_files() == files && leaves_no_child());
  CHECK(compiles());
}

static void test_memory_limit(void) {
  tn_program *p = build();
  CHECK(!tn_compile(p, .cache_dir = "", .memory_limit = 1));
  CHECK(tn_report(p, NULL) == TN_ERR_MEMORY && tn_n_errors(p) == 1);
  tn_program_free(p);
  p = build();
  tn_model *m = tn_compile(p, .cache_dir = "", .n_workers = 1, .memory_limit = (size_t)1 << 30);
  CHECK(m && runs(m));
  tn_model_free(m);
  tn_program_free(p);
}
#endif

// ---- crashes and limits
static void report_with(Fault fault, double seconds, char *text, size_t size) {
  tn_program *p = build();
  shared->fault = fault;
  CHECK(!tn_compile(p, .cache_dir = "", .time_limit = seconds));
  shared->fault = NOTHING;
  FILE *out = fmemopen(text, size, "w");
  CHECK(out && tn_report(p, out) == TN_ERR_BUILD);
  if (out) fclose(out);
  tn_program_free(p);
  CHECK(leaves_no_child());
}

static void test_crash(void) {
  char text[4096] = "";
  int files = count_files();
  report_with(CRASH, 0, text, sizeof text);
  CHECK_HAS(text, "error[E010]: the compiler crashed (signal 11");
  CHECK_HAS(text, "the largest is sum");
  report_with(COMPLAIN, 0, text, sizeof text);
  CHECK_HAS(text, "error[E010]: the compiler crashed (signal 6");
#if !IS_SANITIZED
  CHECK_HAS(text, "LLVM ERROR: Cannot select: f32 = nonsense");
#endif
  report_with(HANG, 0.05, text, sizeof text);
  CHECK_HAS(text, "error[E010]: compiling took longer than the limit, 0.05 seconds");
  CHECK(count_files() == files);
  CHECK(compiles());
}

// ---- a program with children of its own
static void test_ignored_children(void) {
  char text[4096] = "";
  signal(SIGCHLD, SIG_IGN);
  CHECK(compiles());
  report_with(CRASH, 0, text, sizeof text);
  CHECK_HAS(text, "error[E010]");
  signal(SIGCHLD, SIG_DFL);
}

// ---- no process for the compiler: as many as the user may have
static void report_without_process(char *text, size_t size) {
  tn_program *p = build();
  CHECK(!tn_compile(p, .cache_dir = "", .n_workers = 1));
  FILE *out = fmemopen(text, size, "w");
  CHECK(out && tn_report(p, out) == TN_ERR_BUILD);
  if (out) fclose(out);
  tn_program_free(p);
}

static void test_no_process(void) {
  enum { STRANGER = 65534 };  // limits of processes are none for root
  int status = -1;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    char text[4096] = "";
    bool is_limited = (getuid() || !setuid(STRANGER)) && !setrlimit(RLIMIT_NPROC, &(struct rlimit){0, 0});
    if (!is_limited) puts("no limit of processes can be set: not tested");
    if (!is_limited) exit(0);
    int files = count_files();
    report_without_process(text, sizeof text);
    CHECK_HAS(text, "error[E012]: a compiler process cannot be started: Resource temporarily unavailable");
    CHECK_HAS(text, "hint: a user or container may have so many processes");
    CHECK(count_files() == files && leaves_no_child());
    fflush(stdout);
    _exit(check_n_failed != 0);  // a sanitizer's look for leaks wants a process, too
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// ---- Ctrl-C, which the terminal sends to the whole group
static volatile sig_atomic_t n_interrupts;
static void on_interrupt(int sig) { n_interrupts += sig == SIGINT; }

static pid_t start_group(Fault fault, void (*handler)(int)) {
  shared->fault = fault;
  atomic_store(&shared->compiler, 0);
  pid_t pid = fork();
  if (pid) return pid;
  setpgid(0, 0);
  signal(SIGINT, handler);
  bool good = compiles();
  _exit(good && n_interrupts == 1 ? 0 : 1);
}

static void test_interrupted(void) {
  int status = 0;
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // the compiler of a program that ended is this one's to wait for
  pid_t program = start_group(HANG, SIG_DFL);
  while (!atomic_load(&shared->compiler)) usleep(1000);
  kill(-program, SIGINT);
  CHECK(waitpid(program, &status, 0) == program && WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
  CHECK(waitpid(shared->compiler, &status, 0) == shared->compiler && WIFSIGNALED(status));
  program = start_group(INTERRUPT, on_interrupt);
  CHECK(waitpid(program, &status, 0) == program && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  shared->fault = NOTHING;
  CHECK(leaves_no_child());
}

// ---- several at once
static void *compile_twice(void *good) {
  *(bool *)good = compiles() && compiles();
  return NULL;
}

static void test_threads(void) {
  enum { THREADS = 3 };
  pthread_t thread[THREADS];
  bool good[THREADS] = {0};
  for (int k = 0; k < THREADS; k++) CHECK(!pthread_create(&thread[k], NULL, compile_twice, &good[k]));
  for (int k = 0; k < THREADS; k++) CHECK(!pthread_join(thread[k], NULL) && good[k]);
}

int main(void) {
  Shared *block = mmap(NULL, sizeof *block, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return 2;
  atomic_store(&block->fail_from, LONG_MAX);
  shared = block;
  alarm(300);
#ifdef COUNTS_MALLOCS
  test_memory_limit();  // first: later there is memory that was taken and given back
  test_out_of_memory();
#endif
  test_crash();
  test_ignored_children();
  test_no_process();
  test_interrupted();
  test_threads();
  return check_report();
}
