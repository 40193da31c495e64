// Memory, growable arrays and diagnostics: what every folder stands on.
//
// A build arena owns everything that belongs to one program: nobody frees a node, whoever made the arena
// frees it whole. When the system is out of memory an arena jumps to the handler set by the public call
// that is running (rt_arena_on_oom), so that code which builds never checks for NULL.
#ifndef TN_RUNTIME_BASE_H
#define TN_RUNTIME_BASE_H

#include "runtime/api.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define RT_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define RT_PRINTF(fmt, first)
#endif

// ---- build arena
typedef struct RtArena RtArena;
RT_API RtArena *rt_arena_new(void);  // NULL when out of memory
RT_API void rt_arena_free(RtArena *a);
RT_API jmp_buf *rt_arena_on_oom(RtArena *a, jmp_buf *handler);  // NULL: abort; gives the handler before
RT_API void *rt_alloc(RtArena *a, size_t bytes);                // zeroed, 16-byte aligned, never NULL
RT_API void *rt_grow(RtArena *a, void *old, size_t old_bytes, size_t new_bytes);
RT_API char *rt_strdup(RtArena *a, const char *s);
RT_API char *rt_strndup(RtArena *a, const char *s, size_t n);
RT_API char *rt_printf(RtArena *a, const char *fmt, ...) RT_PRINTF(2, 3);
size_t rt_arena_bytes(const RtArena *a);  // held from the system, but for what is left of the newest block

// Appends one element to a {pointer, count, capacity} triple that lives in an arena; yields the new element's address.
#define RT_PUSH(arena, ptr, n, cap)                                                                              \
  ((n) == (cap)                                                                                                  \
       ? (void)((ptr) = rt_grow((arena), (ptr), sizeof *(ptr) * (cap), sizeof *(ptr) * ((cap) ? (cap) * 2 : 8)), \
                (cap) = (cap) ? (cap) * 2 : 8)                                                                   \
       : (void)0,                                                                                                \
   &(ptr)[(n)++])

// ---- growable text in an arena
typedef struct {
  RtArena *mem;
  char *text;  // always 0-terminated once something was added
  size_t len, cap;
} RtText;
RT_API void rt_text_add(RtText *t, const char *fmt, ...) RT_PRINTF(2, 3);
RT_API void rt_text_put(RtText *t, const char *bytes, size_t n);

RT_API size_t rt_utf8_length(const void *s, size_t n);  // bytes of the valid UTF-8 sequence at s, at most n; 0: none

// ---- diagnostics: collected; whoever made the list prints it
typedef enum { RT_NOTE, RT_HINT, RT_WARNING, RT_ERROR } RtSeverity;
typedef struct {
  RtSeverity severity;
  uint16_t id;       // 103 of E103 / W108; 0 for notes and hints
  uint32_t line;     // 0: none
  uint32_t column;   // 0: none
  const char *file;  // NULL: none
  const char *text;
  bool is_shown;  // by rt_diags_show; of what begins a report
} RtDiag;
typedef struct RtDiags {
  RtArena *mem;
  RtDiag *list;  // notes and hints follow the error that they belong to
  uint32_t n, cap;
  uint32_t n_errors, n_warnings;
} RtDiags;
RT_API void rt_diag(RtDiags *d, RtSeverity severity, uint16_t id, const char *file, uint32_t line, const char *fmt, ...)
    RT_PRINTF(6, 7);
// file:line: error[E103]: text. What came again with other numbers alone, as a mistake in a loop does, is printed once:
// error[E103] (x 100)
RT_API void rt_diags_print(const RtDiags *d, FILE *out);
RT_API void rt_diags_print_json(const RtDiags *d, FILE *out);  // one array, likewise
// Prints reports of at least this severity, with their notes and hints, that it did not print before.
RT_API void rt_diags_show(RtDiags *d, RtSeverity least, FILE *out);
void rt_diags_clear(RtDiags *d);

// ---- one sentence in the caller's buffer, for calls that report one mistake
RT_API bool rt_fail(char *error, size_t error_size, const char *fmt, ...)
    RT_PRINTF(3, 4);  // always false; error may be NULL

// ---- hashing
RT_API uint64_t rt_hash(const void *bytes, size_t n, uint64_t seed);

// ---- counting allocator hook: number of heap allocations made through rt_malloc since the start
RT_API void *rt_malloc(size_t bytes);  // NULL when out of memory; counted
void *rt_realloc(void *p, size_t bytes);
void *rt_malloc_aligned(size_t align, size_t bytes);  // align: a power of two >= 16; released by rt_free
RT_API void rt_free(void *p);
bool rt_malloc_refused(void);  // counts one allocation that is made otherwise; true: a test wants it to fail
uint64_t rt_malloc_count(void);
void rt_malloc_fail_at(uint64_t n);  // tests: the n-th allocation from now on fails, once; 0: none

#endif
