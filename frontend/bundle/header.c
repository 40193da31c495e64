// NAME.h: what a caller of the object declares. C99, C11 and C++17; includes nothing but <stdint.h> and <stddef.h>.
#include "frontend/bundle/texts.h"
#include "runtime/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const FeBundleText *t;
  const TnBundleAbout *about;
  FeBundleNames n;
  RtText *out;
} Header;

#define ADD(h, ...) rt_text_add((h)->out, __VA_ARGS__)

// Text of the program in a comment: nothing in it ends the line or goes on in the next one.
static const char *plain(const Header *h, const char *s) {
  char *text = rt_strdup(h->out->mem, s);
  for (char *c = text; *c; c++)
    if (!rt_is_alnum(*c) && !strchr(" _.:;,-+*/()[]<>='@", *c)) *c = '_';
  return text;
}

static const char *shape_of(const Header *h, const TnBundleArray *a) {
  return rt_printf(h->out->mem, "%s %s", rt_dtype_name(a->dtype), plain(h, a->shape));
}

static bool has_init_arena(const Header *h) { return cg_bundle_init_arena(h->t->b) > 0; }

// ---- the top
static uint32_t first_function(const Header *h) {  // that trains, if there is one
  for (uint32_t k = 0; k < h->about->n_functions; k++)
    if (!fe_bundle_function(h->t, k)->only_reads) return k;
  return 0;
}

static void put_example_call(const Header *h, uint32_t k) {
  const TnBundleFunction *f = &h->about->functions[k];
  const FeFunctionNames *n = &h->n.functions[k];
  const char *name = h->n.name;
  if (f->n_inputs) {
    ADD(h, "//   %s_%s_in in = {", name, n->name);
    for (uint32_t d = 0; d < f->n_dims; d++) ADD(h, ".%s = %s, ", n->dims[d], n->dims[d]);
    for (uint32_t i = 0; i < f->n_inputs; i++)
      ADD(h, ".%s = %s%s", n->inputs[i], n->inputs[i], i + 1 < f->n_inputs ? ", " : "");
    ADD(h, "};\n");
  }
  if (f->n_outputs) {
    ADD(h, "//   %s_%s_out out = {", name, n->name);
    for (uint32_t i = 0; i < f->n_outputs; i++)
      ADD(h, ".%s = %s%s", n->outputs[i], n->outputs[i], i + 1 < f->n_outputs ? ", " : "");
    ADD(h, "};\n");
  }
  ADD(h, "//   status = %s_%s(&state, arena, sizeof arena%s%s);\n", name, n->name, f->n_inputs ? ", &in" : "",
      f->n_outputs ? ", &out" : "");
}

static void put_top(const Header *h) {
  const char *name = h->n.name, *macro = h->n.macro;
  const TnBundleAbout *a = h->about;
  ADD(h, "// %s: a neural network, compiled to %s.%s by %s for", name, fe_bundle_file(h->t), h->t->is_c ? "c" : "o",
      a->compiler);
  for (uint32_t k = 0; k < a->n_targets; k++) ADD(h, "%s %s", k ? "," : "", a->targets[k]);
  ADD(h,
      ". Written by the compiler.\n//\n"
      "// Link the %s and call it: it needs no library%s, allocates nothing and has no variables of its own. All\n"
      "// memory is yours:\n"
      "//\n"
      "//   state   parameters%s: lives on between calls, is saved and loaded\n"
      "//   arena   scratch of one call: what it holds may be lost between calls\n//\n",
      h->t->is_c ? "C" : "object", h->t->is_c ? " but C's (-lm)" : "",
      h->t->b->about->n_functions ? ", buffers and what optimizers keep" : "");
  ADD(h, "//   static %s_state state;\n//   %s_ALIGNED static unsigned char arena[%s_ARENA_BYTES];\n", name, macro,
      macro);
  if (has_init_arena(h)) {
    ADD(h, "//   %s_ALIGNED static unsigned char scratch[%s_INIT_ARENA_BYTES];\n", macro, macro);
    ADD(h, "//   int status = %s_init(&state, scratch, sizeof scratch, 1);\n", name);
  } else {
    ADD(h, "//   int status = %s_init(&state, 1);\n", name);
  }
  if (a->n_functions) put_example_call(h, first_function(h));
  ADD(h, "//   if (status) puts(%s_error(status));\n//\n", name);
  ADD(h,
      "// First %s_init, or %s_init and then %s_load; then any calls in any order. Calls on one state or with one\n"
      "// arena come one at a time; two states are two independent networks.\n//\n"
      "// Calls give 0 or a status, which %s_error puts into words. Everything is checked before anything is written:\n"
      "// a call that is refused changes neither state nor outputs.\n",
      name, name, name, name);
}

static void put_aligned(const Header *h) {
  ADD(h, "// Of the state and of arenas\n#define %s_ALIGN %" PRIu32 "\n", h->n.macro, h->about->align);
  ADD(h,
      "#if defined(__cplusplus)\n"
      "#define %1$s_ALIGNED alignas(%2$" PRIu32 ")\n"
      "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n"
      "#define %1$s_ALIGNED _Alignas(%2$" PRIu32 ")\n"
      "#elif defined(__GNUC__)\n"
      "#define %1$s_ALIGNED __attribute__((aligned(%2$" PRIu32 ")))\n"
      "#else\n"
      "#define %1$s_ALIGNED  // then it is up to you\n"
      "#endif\n\n",
      h->n.macro, h->about->align);
}

static bool is_given(const Header *h, const char *dim) {  // by a caller: others are found in the run
  for (uint32_t k = 0; k < h->about->n_functions; k++)
    for (uint32_t d = 0; d < h->about->functions[k].n_dims; d++)
      if (!strcmp(h->about->functions[k].dims[d], dim)) return true;
  return false;
}

static void put_sizes(const Header *h) {
  bool is_first = true;
  for (uint32_t k = 0; k < h->about->n_dims; k++) {
    if (!is_given(h, h->about->dims[k].name)) continue;
    ADD(h, "%s#define %s %" PRId64 "\n", is_first ? "// Largest sizes\n" : "", h->n.dim_max[k], h->about->dims[k].max);
    is_first = false;
  }
  ADD(h, is_first ? "" : "\n");
}

// What is not known has no macro.
static void put_stacks(const Header *h) {
  uint32_t n = h->about->n_functions;
  if (!fe_bundle_init_stack(h->t)) return;
  ADD(h, "// Of the stack, at most%s\n", h->t->has_workers ? "; your barrier takes its own" : "");
  ADD(h, "#define %s_INIT_STACK_BYTES %zu\n", h->n.macro, fe_bundle_init_stack(h->t));
  for (uint32_t k = 0; k < n; k++)
    if (fe_bundle_stack(h->t, k)) ADD(h, "#define %s %zu\n", h->n.functions[k].stack, fe_bundle_stack(h->t, k));
}

static void put_macros(const Header *h) {
  const TnBundleAbout *a = h->about;
  const char *macro = h->n.macro;
  ADD(h, "#define %s_ABI %" PRIu32 "  // of %s_info; changes with its structs\n", macro, a->abi, h->n.name);
  ADD(h, "#define %s_PLAN 0x%016" PRIx64 "u  // of program, options and targets; in every state and saved file\n",
      macro, a->plan);
  ADD(h, "#define %s_CERTIFICATE 0x%016" PRIx64 "u  // the digest of %s.plan, which tenure verify-plan checks\n\n",
      macro, h->t->certificate, fe_bundle_file(h->t));
  put_sizes(h);
  put_aligned(h);
  ADD(h, "// Bytes\n#define %s_STATE_BYTES %zu\n", macro, a->state_bytes);
  ADD(h, "#define %s_ARENA_BYTES %zu  // enough for every function\n", macro, a->arena_bytes);
  if (has_init_arena(h)) ADD(h, "#define %s_INIT_ARENA_BYTES %zu\n", macro, cg_bundle_init_arena(h->t->b));
  for (uint32_t k = 0; k < a->n_functions; k++)
    ADD(h, "#define %s %zu\n", h->n.functions[k].arena, a->functions[k].arena_bytes);
  put_stacks(h);
  ADD(h, "#define %s_FILE_BYTES %zu  // of what %s_save writes\n\n", macro, h->t->b->file_bytes, h->n.name);
}

// ---- the state
static int by_offset(const void *a, const void *b) {
  const TnBundleTensor *x = *(const TnBundleTensor *const *)a, *y = *(const TnBundleTensor *const *)b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  if (!x->bytes != !y->bytes) return x->bytes ? 1 : -1;
  return (x > y) - (x < y);
}

static const char *const kinds[] = {
    [RT_WEIGHT] = "weight", [RT_BUFFER] = "buffer", [RT_STATE] = "optimizer", [RT_TRANSIENT] = "buffer, not saved"};

static void put_tensor(const Header *h, const TnBundleTensor *t) {
  const RtParam *p = &h->t->plan->params[t - h->about->tensors];
  ADD(h, t->bytes ? "  %s %s" : "  // %s %s", rt_dtype_c_type(t->dtype), t->field);
  for (uint32_t d = 0; d < t->rank; d++) ADD(h, "[%" PRId64 "]", t->sizes[d]);
  ADD(h, t->bytes ? ";  // %s %s: %s" : ": empty %s %s: %s", rt_dtype_name(t->dtype), kinds[t->kind],
      plain(h, t->path));
  if (p->file && t->kind != RT_STATE) ADD(h, ", %s:%" PRIu32, plain(h, p->file), p->line);
  ADD(h, "\n");
}

static void put_reserved(const Header *h, CgNames *fields, size_t bytes) {
  if (bytes) ADD(h, "  unsigned char %s[%zu];\n", cg_new_name(fields, "padding"), bytes);
}

static void put_tensors(const Header *h) {
  uint32_t n = h->about->n_tensors;
  CgNames fields = {.mem = h->out->mem};
  const TnBundleTensor **list = rt_alloc(h->out->mem, (n + 1) * sizeof *list);
  size_t at = sizeof(TnBundleState);
  for (uint32_t k = 0; k < n; k++) cg_new_name(&fields, h->about->tensors[k].field), list[k] = &h->about->tensors[k];
  if (n) qsort(list, n, sizeof *list, by_offset);
  for (uint32_t k = 0; k < n; k++) {
    if (list[k]->bytes) put_reserved(h, &fields, list[k]->offset - at), at = list[k]->offset + list[k]->bytes;
    put_tensor(h, list[k]);
  }
  put_reserved(h, &fields, h->about->state_bytes - at);
}

static void put_state(const Header *h) {
  const char *name = h->n.name, *macro = h->n.macro;
  ADD(h,
      "// Made by %s_init and %s_load, changed by functions that train. Parameters may be read and written between\n"
      "// calls.\n"
      "typedef struct %s_state {\n"
      "  %s_ALIGNED uint64_t plan;  // %s_PLAN, once it is initialised\n"
      "  uint64_t seed, counter;  // of the random numbers: the same two draw the same\n"
      "  uint32_t target;         // whose code runs\n"
      "  uint32_t reserved[9];\n",
      name, name, name, macro, macro);
  put_tensors(h);
  ADD(h, "} %s_state;\n", name);
  ADD(h,
      "#if defined(__cplusplus)\n"
      "static_assert(sizeof(%1$s_state) == %2$s_STATE_BYTES, \"layout\");\n"
      "#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L\n"
      "_Static_assert(sizeof(%1$s_state) == %2$s_STATE_BYTES, \"layout\");\n"
      "#else\n"
      "typedef char %2$s_CHECK_SIZE[sizeof(%1$s_state) == %2$s_STATE_BYTES ? 1 : -1];\n"
      "#endif\n\n",
      name, macro);
  if (!h->t->b->n_aliases) return;
  ADD(h, "// Second names of parameters: state.%s\n", h->n.aliases[0]);
  for (uint32_t a = 0; a < h->t->b->n_aliases; a++)
    ADD(h, "#define %s %s  // %s\n", h->n.aliases[a], h->about->tensors[h->t->b->alias_of[a]].field,
        plain(h, h->t->b->aliases[a]));
  ADD(h, "\n");
}

// ---- functions
static int64_t max_of(const Header *h, const char *dim) {
  for (uint32_t k = 0; k < h->about->n_dims; k++)
    if (!strcmp(h->about->dims[k].name, dim)) return h->about->dims[k].max;
  return 0;
}

static void put_in_struct(const Header *h, uint32_t k) {
  const TnBundleFunction *f = &h->about->functions[k];
  const FeFunctionNames *n = &h->n.functions[k];
  if (!f->n_inputs) return;
  ADD(h, "typedef struct %s_%s_in {\n", h->n.name, n->name);
  for (uint32_t d = 0; d < f->n_dims; d++)
    ADD(h, "  int64_t %s;  // 0 .. %" PRId64 "\n", n->dims[d], max_of(h, f->dims[d]));
  for (uint32_t i = 0; i < f->n_inputs; i++) {
    const TnBundleArray *a = &f->inputs[i];
    const char *range = fe_bundle_range_text(h->out->mem, h->t->plan, fe_bundle_function(h->t, k), i);
    ADD(h, "  const %s *%s;  // %s%s%s\n", rt_dtype_c_type(a->dtype), n->inputs[i], shape_of(h, a), *range ? ": " : "",
        plain(h, range));
  }
  ADD(h, "} %s_%s_in;\n", h->n.name, n->name);
}

static void put_out_struct(const Header *h, uint32_t k) {
  const TnBundleFunction *f = &h->about->functions[k];
  const FeFunctionNames *n = &h->n.functions[k];
  if (!f->n_outputs) return;
  ADD(h, "typedef struct %s_%s_out {\n", h->n.name, n->name);
  for (uint32_t i = 0; i < f->n_outputs; i++)
    ADD(h, "  %s *%s;  // %s\n", rt_dtype_c_type(f->outputs[i].dtype), n->outputs[i], shape_of(h, &f->outputs[i]));
  ADD(h, "} %s_%s_out;\n", h->n.name, n->name);
}

static const char *signature(const Header *h, uint32_t k, const char *suffix) {
  const TnBundleFunction *f = &h->about->functions[k];
  const char *name = h->n.name, *fn = h->n.functions[k].name;
  bool only_reads = fe_bundle_function(h->t, k)->only_reads;
  RtText t = {.mem = h->out->mem};
  rt_text_add(&t, "int %s_%s%s(%s%s_state *state, void *arena, size_t arena_bytes", name, fn, suffix,
              only_reads ? "const " : "", name);
  rt_text_add(&t, f->n_inputs || f->n_outputs ? ",\n    " : "");
  if (f->n_inputs) rt_text_add(&t, "const %s_%s_in *in%s", name, fn, f->n_outputs ? ", " : "");
  if (f->n_outputs) rt_text_add(&t, "const %s_%s_out *out", name, fn);
  return t.text;
}

static void put_function(const Header *h, uint32_t k) {
  bool only_reads = fe_bundle_function(h->t, k)->only_reads;
  ADD(h, "// ---- %s: %s\n", plain(h, h->about->functions[k].name),
      only_reads ? "reads the state" : "changes the state");
  put_in_struct(h, k);
  put_out_struct(h, k);
  ADD(h, "%s);\n", signature(h, k, ""));
  if (h->t->has_workers)
    ADD(h,
        "%s,\n    int32_t worker, int32_t n_workers, void (*barrier)(void *ctx, int32_t which, int32_t count), void "
        "*ctx);\n",
        signature(h, k, "_worker"));
  ADD(h, "\n");
}

static void put_workers(const Header *h) {
  if (!h->t->has_workers) return;
  ADD(h,
      "// The _worker functions do one call with n_workers threads of yours, 1 .. %d: each calls with the same "
      "arguments and\n"
      "// its own number, 0 .. n_workers - 1, and gets the same status. barrier(ctx, which, count) comes back when "
      "`count`\n"
      "// threads called it with that `which`, 0 .. %d; others may wait with another one meanwhile. The bits do not\n"
      "// depend on the number of threads.\n\n",
      TN_N_BARRIERS, TN_N_BARRIERS - 1);
}

static void put_common(const Header *h) {
  const char *name = h->n.name;
  ADD(h,
      "// Which target's code this CPU runs, by its place in %s_about.targets; -1: it lacks instructions of all of "
      "them.\n"
      "int %s_cpu(void);\n",
      name, name);
  if (h->t->b->weights)
    ADD(h, "// The parameters that were compiled in; the seed is that of the random numbers of calls.\n");
  else
    ADD(h,
        "// Draws initial parameters: the same for the same seed. Never fails on memory that fits and is aligned, on a "
        "CPU\n"
        "// that %s_cpu accepts.\n",
        name);
  if (has_init_arena(h))
    ADD(h, "int %s_init(%s_state *state, void *arena, size_t arena_bytes, uint64_t seed);\n", name, name);
  else ADD(h, "int %s_init(%s_state *state, uint64_t seed);\n", name, name);
  ADD(h,
      "// A safetensors file that lies in memory, into a state that is initialised. Every weight and buffer must be in "
      "it,\n"
      "// of its dtype, or for an f32 one as F64, F16 or BF16; the optimizer's entries all, and then seed and counter "
      "are taken too, or none of "
      "them.\n"
      "int %1$s_load(%1$s_state *state, const void *bytes, size_t n);\n"
      "// All of it as a file of %2$s_FILE_BYTES bytes, which *needed gets too; NULL: not wanted. bytes NULL and n 0: "
      "only that.\n"
      "int %1$s_save(const %1$s_state *state, void *bytes, size_t n, size_t *needed);\n"
      "// A sentence about any status; never NULL.\n"
      "const char *%1$s_error(int status);\n\n",
      name, h->n.macro);
}

// ---- the same facts as data: runtime/bundle/about.h, field for field
static void put_info(const Header *h) {
  ADD(h,
      "// ---- the same facts as data, for dlopen and bindings. dtype: 1 f32, 2 i64, 3 i32, 4 u8, 5 bool, 6 f16, 7 "
      "bf16;\n"
      "// kind: 0 weight, 1 buffer, 2 optimizer, 3 buffer that is not saved\n"
      "typedef struct %1$s_dim {\n  const char *name;\n  int64_t max;\n} %1$s_dim;\n"
      "typedef struct %1$s_array {\n  const char *name;\n  const char *shape;\n  uint32_t dtype, rank;\n} %1$s_array;\n"
      "typedef struct %1$s_function {\n"
      "  const char *name;\n"
      "  size_t arena_bytes;\n"
      "  const %1$s_array *inputs, *outputs;\n"
      "  const char *const *dims;\n"
      "  uint32_t n_inputs, n_outputs, n_dims;\n"
      "  int (*call)(void *state, void *arena, size_t arena_bytes, const void *in, const void *out);\n"
      "} %1$s_function;\n"
      "typedef struct %1$s_tensor {\n"
      "  const char *path, *field;\n"
      "  uint32_t kind, dtype, rank;\n"
      "  int64_t sizes[%2$d];\n"
      "  size_t offset, bytes;\n"
      "} %1$s_tensor;\n",
      h->n.name, RT_MAX_RANK);
  ADD(h,
      "typedef struct %1$s_info {\n"
      "  uint32_t version, abi;\n"
      "  uint64_t plan;\n"
      "  const char *name, *compiler;\n"
      "  size_t state_bytes, arena_bytes;\n"
      "  uint32_t align, n_dims, n_functions, n_tensors, n_targets;\n"
      "  const %1$s_dim *dims;\n"
      "  const %1$s_function *functions;\n"
      "  const %1$s_tensor *tensors;\n"
      "  const char *const *targets;\n"
      "  int (*cpu)(void);\n"
      "  int (*init)(void *state, void *arena, size_t arena_bytes, uint64_t seed);\n"
      "  int (*load)(void *state, const void *bytes, size_t n);\n"
      "  int (*save)(const void *state, void *bytes, size_t n, size_t *needed);\n"
      "  const char *(*error)(int status);\n"
      "  const void *const *plans;  // for the compiler's own runtime\n"
      "} %1$s_info;\n"
      "extern const %1$s_info %1$s_about;\n\n",
      h->n.name);
}

void fe_bundle_header(const FeBundleText *t, RtText *out) {
  Header h = {t, t->b->about, fe_bundle_names(out->mem, t), out};
  put_top(&h);
  ADD(&h, "#ifndef %s_H\n#define %s_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n", h.n.macro, h.n.macro);
  put_macros(&h);
  ADD(&h, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  put_state(&h);
  put_common(&h);
  put_workers(&h);
  for (uint32_t k = 0; k < h.about->n_functions; k++) put_function(&h, k);
  put_info(&h);
  ADD(&h, "#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
}
