// A program with one of each: a weight with two names, a buffer, one that is not saved, optimizer state, checks on
// labels, ids below sorted lengths, dropout; and its bundle's tables, over the code of a model in this process.
#ifndef TN_TESTS_BUNDLE_CASE_H
#define TN_TESTS_BUNDLE_CASE_H

#include "codegen/bundle/facts.h"
#include "frontend/graph/program.h"
#include "frontend/run/run.h"
#include "frontend/tenure.h"
#include "runtime/exec/instance.h"
#include "tests/check.h"
#include "tests/report.h"
#include <stdlib.h>
#include <string.h>

enum { CASE_BATCH = 6, CASE_TIME = 5, CASE_WORDS = 11 };

static inline void case_function(tn_program *p, const char *name, bool is_training) {
  tn_dim B = tn_dim_bounded(p, "batch", CASE_BATCH), T = tn_dim_bounded(p, "time", CASE_TIME);
  tn_module *root = tn_root(p);
  tn_function *f = tn_function_begin(p, name);
  tn_eval(f, !is_training);
  tn_tensor ids = tn_input(f, "ids", TN_I64, TN_SHAPE(B, T)), lengths = tn_input(f, "lengths", TN_I64, TN_SHAPE(B));
  tn_tensor x = tn_add(tn_call(tn_child(root, "emb"), ids), tn_param_value(f, root, "shift"));
  x = tn_mul(x, tn_param_value(f, root, "scale"));
  tn_rnn_output r = tn_rnn_call(tn_child(root, "rnn"), tn_pack_padded(x, lengths));
  tn_tensor y = tn_call(tn_child(root, "head"), tn_dropout(tn_last_hidden(r), 0.2));
  if (is_training) {
    tn_tensor loss = tn_cross_entropy(y, tn_input(f, "label", TN_I64, TN_SHAPE(B)));
    tn_backward(loss);
    tn_adamw(f, root, .lr = 1e-2);
    tn_output(f, "loss", loss);
  } else {
    tn_output(f, "logits", y);
  }
  tn_function_end(f);
}

static inline tn_program *case_program(void) {
  tn_program *p = tn_program_create("words");
  tn_module *root = tn_root(p);
  tn_embedding(root, "emb", CASE_WORDS, 6);
  tn_lstm(root, "rnn", 6, 6);
  tn_linear(root, "head", 6, CASE_WORDS);
  tn_share(root, "head.weight", root, "emb.weight");
  tn_buffer(root, "shift", TN_SHAPE(6), (tn_init){TN_INIT_UNIFORM, -1, 1});
  tn_transient_buffer(root, "scale", TN_SHAPE(6), (tn_init){TN_INIT_CONSTANT, 1, 0});
  case_function(p, "train_step", true);
  case_function(p, "predict", false);
  return p;
}

static inline tn_model *case_compile(tn_program *p) {
  tn_model *m = tn_compile(p, .n_workers = 1, .seed = 3, .no_packed_weights = true);
  if (!CHECK(m != NULL)) printf("%s\n", report_of(p)), exit(1);
  return m;
}

static inline TnBundle case_bundle(RtArena *mem, const tn_model *m, const char *name) {
  TnBundle b;
  Target *host = rt_alloc(mem, sizeof *host);
  const Target **targets = rt_alloc(mem, sizeof *targets);
  const RtPlan **plans = rt_alloc(mem, sizeof *plans);
  RtText why = {.mem = mem};
  CHECK(cg_target_host(host, &(RtText){.mem = mem}));
  *targets = host, *plans = m->code->plan;
  CHECK(cg_bundle_facts(
      mem, &(CgBundleFacts){.name = name, .hash = 0x5c1e09f2a7d4, .plans = plans, .targets = targets, .n_targets = 1},
      &b, &why));
  return b;
}

static inline void *case_block(size_t bytes) {
  void *block = aligned_alloc(TN_ALIGN, (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN + TN_ALIGN);
  if (!block) exit(1);
  memset(block, 0x5a, bytes);
  return block;
}

// Initialised; free() it
static inline void *case_state(const TnBundle *b, uint64_t seed) {
  const RtPlan *p = b->about->plans[0];
  void *state = case_block(b->about->state_bytes);
  size_t n = p->init == RT_NO_FUNCTION ? 0 : (size_t)p->functions[p->init].arena_bytes;
  void *arena = case_block(n);
  CHECK(tn_bundle_init(b, state, arena, n, seed) == TN_BUNDLE_OK);
  free(arena);
  return state;
}

// Are the parameters of both the same, byte by byte?
static inline bool case_same(const TnBundle *b, const void *state, const tn_model *m) {
  for (uint32_t k = 0; k < b->about->n_tensors; k++) {
    const TnBundleTensor *t = &b->about->tensors[k];
    const RtParam *p = &m->code->plan->params[k];
    if (memcmp((const char *)state + t->offset, rt_instance_block(m->inst) + p->offset, t->bytes)) return false;
  }
  const TnBundleState *s = state;
  return s->seed == rt_instance_seed(m->inst) && s->counter == rt_instance_counter(m->inst);
}

#endif
