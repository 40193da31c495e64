// How far a long loop is: one line redrawn on a terminal, about ten plain lines elsewhere.
//
//   epoch [==========>         ]  52%  21/40  18.3/s  ETA 00:01  loss 0.12
#ifndef TN_RUNTIME_PROGRESS_H
#define TN_RUNTIME_PROGRESS_H

#include "runtime/base.h"

typedef struct RtProgress RtProgress;

RtProgress *rt_progress_begin(FILE *out, const char *what, size_t total);  // total 0: unknown. NULL when out of memory
void rt_progress_resume(RtProgress *p, size_t done);  // so many were done before it began: rates do not count them
// `done` items of the total; fmt (may be NULL) is shown behind. All calls take NULL and then do nothing.
void rt_progress_step(RtProgress *p, size_t done, const char *fmt, ...) RT_PRINTF(3, 4);
void rt_progress_vstep(RtProgress *p, size_t done, const char *fmt, va_list args) RT_PRINTF(3, 0);
void rt_progress_end(RtProgress *p);  // leaves the last state on a line of its own

#endif
