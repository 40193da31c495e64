// CPU time of this process, all threads, and of the compilers that it started: other programs use the machine too.
#ifndef TN_TESTS_CPU_TIME_H
#define TN_TESTS_CPU_TIME_H

#include <sys/resource.h>
#include <time.h>

static inline double cpu_ms_of(int who) {
  struct rusage r;
  if (getrusage(who, &r)) return 0;
  return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) * 1e3 +
         (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e3;
}

static inline double cpu_ms(void) { return cpu_ms_of(RUSAGE_SELF) + cpu_ms_of(RUSAGE_CHILDREN); }

// In seconds, of the calling thread alone
static inline double thread_cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
