// Where the fields of TnFrame lie on the target: pointers may have another size there than here. A field is named by its
// offset in this process, offsetof(TnFrame, dims); its place on the target is that of a C compiler for it, so that a
// program there declares the structure as runtime/abi.h does.
#include "codegen/cg.h"

#include <stddef.h>

typedef enum { POINTERS, WORDS_64, WORDS_32 } FieldKind;
typedef struct {
  size_t off;
  FieldKind kind;
  uint32_t n;
} Field;

#define FIELD(field, kind) {offsetof(TnFrame, field), kind, 1}
static const Field fields[] = {
    {offsetof(TnFrame, seg), POINTERS, N_SEGMENTS},
    FIELD(in, POINTERS),
    FIELD(out, POINTERS),
    FIELD(dims, POINTERS),
    FIELD(seed, WORDS_64),
    FIELD(counter, WORDS_64),
    FIELD(svc, POINTERS),
    FIELD(status, POINTERS),
    FIELD(team, POINTERS),
    FIELD(guarded_arena, POINTERS),
    FIELD(stale, POINTERS),
    FIELD(no_draws, WORDS_32),
    FIELD(blocks, POINTERS),
};
#undef FIELD
enum { N_FIELDS = sizeof fields / sizeof *fields };
_Static_assert(sizeof(TnFrame) == (N_SEGMENTS + 9) * sizeof(void *) + 2 * sizeof(uint64_t) + sizeof(uint64_t),
               "a field of TnFrame has no row");

static LLVMTypeRef frame_type(Cg *c) {
  LLVMTypeRef type[N_FIELDS], of[] = {[POINTERS] = c->ptr, [WORDS_64] = c->i64, [WORDS_32] = c->i32};
  for (uint32_t k = 0; k < N_FIELDS; k++) type[k] = LLVMArrayType2(of[fields[k].kind], fields[k].n);
  return LLVMStructTypeInContext(c->ctx, type, N_FIELDS, false);
}

V cg_frame_at(Cg *c, size_t field) {
  uint32_t k = N_FIELDS - 1;
  while (fields[k].off > field) k--;
  size_t element = (field - fields[k].off) / sizeof(void *);
  V index[] = {cg_i32(c, 0), cg_i32(c, (int32_t)k), cg_i32(c, (int32_t)element)};
  return LLVMBuildInBoundsGEP2(c->b, frame_type(c), c->frame, index, 3, "");
}

V cg_frame_ptr(Cg *c, size_t field) { return LLVMBuildLoad2(c->b, c->ptr, cg_frame_at(c, field), ""); }

V cg_service(Cg *c, size_t service) {
  V index = cg_i64(c, (int64_t)(service / sizeof(void (*)(void))));
  return LLVMBuildLoad2(c->b, c->ptr, cg_at(c, c->ptr, cg_frame_ptr(c, offsetof(TnFrame, svc)), index), "");
}
