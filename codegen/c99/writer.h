// What the files of this room share. Expressions are texts in the arena; a failure is noted once, and the text goes on.
#ifndef TN_CODEGEN_C99_WRITER_H
#define TN_CODEGEN_C99_WRITER_H

#include "codegen/c99/c99.h"
#include <llvm-c/Target.h>

typedef struct {
  const char *key, *name;
} C99Named;
typedef struct {
  C99Named *list;
  uint32_t n, cap;
} C99Names;
typedef struct {
  RtArena *mem;
  LLVMModuleRef mod;
  LLVMTargetDataRef layout;
  uint32_t pointer_bits;
  RtText types, helpers, globals, prototypes, functions;
  C99Names struct_types, helper_names;
  uint32_t n_temporaries;
  RtText *why;
} C99;

typedef const char *Text;
#define C99_PRINT(...) rt_printf(c->mem, __VA_ARGS__)

Text c99_fail(C99 *c, const char *what, Text which);  // gives "0"

// ---- types.c
Text c99_type(C99 *c, LLVMTypeRef t);
Text c99_passed_type(C99 *c,
                     LLVMTypeRef t);  // of a parameter or a result: narrow integers are signed, as in the header
Text c99_memory_name(C99 *c, LLVMTypeRef t);  // "f32", "u64", "ptr": what loads and stores are called by
LLVMTypeRef c99_scalar(LLVMTypeRef t);        // of a vector its element, else t
uint32_t c99_lanes(LLVMTypeRef t);            // 0: no vector
bool c99_is_register(C99 *c, LLVMTypeRef t);  // a vector of 16 bytes
uint32_t c99_bits(LLVMTypeRef t);             // of an integer; else 0
uint32_t c99_words(LLVMTypeRef t);            // of an integer of more than 64 bits; else 0
Text c99_function_type(C99 *c, LLVMTypeRef t,
                       Text name);  // "void (*name)(char *, int32_t)"; name "f" without the star: "(f)"
// The name of the static inline function  result stem(parameters) { body }, which is written once.
Text c99_helper(C99 *c, Text stem, Text result, Text parameters, Text body);

// ---- values.c
Text c99_value(C99 *c, LLVMValueRef v);
Text c99_zero(C99 *c, LLVMTypeRef t);
bool c99_is_constant_int(LLVMValueRef v, uint64_t *value);

// ---- ops.c
// What computes an instruction or a constant expression; NULL: it is a statement
Text c99_expression(C99 *c, LLVMValueRef v);
// By lanes: n operands' texts in, the text of one lane out
typedef Text C99Lane(C99 *c, LLVMValueRef v, const Text *a);
Text c99_by_lanes(C99 *c, LLVMValueRef v, Text stem, uint32_t n, C99Lane *lane);
Text c99_signed(C99 *c, LLVMTypeRef t, Text x);
Text c99_wrap(C99 *c, LLVMTypeRef t, Text x);

// ---- calls.c
Text c99_call(C99 *c, LLVMValueRef call);  // NULL: nothing is left of it
bool c99_is_nothing(LLVMValueRef call);    // a hint
bool c99_is_pure_call(LLVMValueRef call);

// ---- memory.c
Text c99_load(C99 *c, LLVMValueRef load);
Text c99_store(C99 *c, LLVMValueRef store);
Text c99_masked(C99 *c, LLVMValueRef call, Text intrinsic);

// ---- globals.c, functions.c
void c99_globals(C99 *c);
void c99_functions(C99 *c);
bool c99_is_of_c(Text function);  // C has it: it is not written

#endif
