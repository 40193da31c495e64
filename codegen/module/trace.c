// TN_TRACE=FILE: entries also record the first kernel calls of each worker with time stamps, written to FILE in Chrome's
// trace event format when the program is unloaded (chrome://tracing, Perfetto, speedscope).
#include "codegen/module/module.h"
#include "runtime/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  WORKERS = 64,
  EVENTS = 8192,
  FIELDS = 4,
  LANE = (EVENTS + 1) * FIELDS
};  // in 64-bit words; event 0 is the count
enum { EVENT_ROW, EVENT_BEFORE, EVENT_START, EVENT_END };
static const char lanes_name[] = "tenure_trace";

bool cg_trace_wanted(void) {
  const char *path = getenv("TN_TRACE");
  return path && *path;
}

// ---- code
static LLVMValueRef lanes_of(Cg *c) {
  LLVMValueRef lanes = LLVMGetNamedGlobal(c->mod, lanes_name);
  if (lanes) return lanes;
  LLVMTypeRef type = LLVMArrayType2(c->i64, (uint64_t)WORKERS * LANE);
  lanes = LLVMAddGlobal(c->mod, type, lanes_name);
  LLVMSetInitializer(lanes, LLVMConstNull(type));
  LLVMSetAlignment(lanes, 64);
  return lanes;
}

// Kernel call number `row` of the program: arrival at its barrier `before`, begin `start`, `end`.
void cg_trace_add(Cg *c, uint32_t row, LLVMValueRef worker, LLVMValueRef before, LLVMValueRef start, LLVMValueRef end) {
  LLVMValueRef lane = cg_at(c, c->i64, lanes_of(c), cg_mul(c, worker, cg_i64(c, LANE))), n = cg_load(c, c->i64, lane);
  If room;
  cg_if(c, &room, LLVMBuildICmp(c->b, LLVMIntULT, n, cg_i64(c, EVENTS), ""));
  LLVMValueRef next = cg_add(c, n, cg_i64(c, 1)), at = cg_at(c, c->i64, lane, cg_mul(c, next, cg_i64(c, FIELDS)));
  const LLVMValueRef field[FIELDS] = {cg_i64(c, row), before, start, end};
  for (uint32_t k = 0; k < FIELDS; k++) cg_store(c, field[k], cg_at(c, c->i64, at, cg_i64(c, k)));
  cg_store(c, next, lane);
  cg_endif(c, &room);
}

// ---- file
typedef struct {
  FILE *out;
  const char *text;  // of cg_profile_text
  uint64_t origin;
  double rate;  // cycles per microsecond
} Trace;

static const char *line_at(const char *text, uint64_t row) {
  while (row--) text = strchr(text, '\n') + 1;
  return text;
}

static void put_event(const Trace *t, const uint64_t *e, uint32_t worker) {
  const char *line = line_at(t->text, e[EVENT_ROW]), *tab = strchr(line, '\t'), *end = strchr(tab + 1, '\t');
  double before = (double)(e[EVENT_BEFORE] - t->origin) / t->rate,
         start = (double)(e[EVENT_START] - t->origin) / t->rate;
  double stop = (double)(e[EVENT_END] - t->origin) / t->rate;
  if (start - before > 0.05)
    rt_fformat(t->out,
               "{\"name\": \"wait\", \"cat\": \"wait\", \"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"ts\": %.3f, \"dur\": "
               "%.3f},\n",
               worker, before, start - before);
  rt_fformat(
      t->out,
      "{\"name\": \"%.*s\", \"cat\": \"%.*s\", \"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f},\n",
      (int)(end - tab - 1), tab + 1, (int)(tab - line), line, worker, start, stop - start);
}

static uint64_t first_time(const uint64_t *lanes) {
  uint64_t first = UINT64_MAX;
  for (uint32_t w = 0; w < WORKERS; w++)
    if (lanes[(size_t)w * LANE] && lanes[(size_t)w * LANE + FIELDS + EVENT_BEFORE] < first)
      first = lanes[(size_t)w * LANE + FIELDS + EVENT_BEFORE];
  return first;
}

void cg_trace_write(CgJit *j, const char *text, double cycles_per_us) {
  const uint64_t *lanes = cg_trace_wanted() ? cg_jit_find(j, lanes_name) : NULL;
  FILE *out = lanes ? fopen(getenv("TN_TRACE"), "w") : NULL;
  if (!out) return;
  Trace t = {out, text, first_time(lanes), cycles_per_us};
  fprintf(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
  for (uint32_t w = 0; w < WORKERS; w++) {
    const uint64_t *lane = lanes + (size_t)w * LANE;
    for (uint64_t k = 1; k <= lane[0]; k++) put_event(&t, lane + k * FIELDS, w);
  }
  fprintf(out, "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"tenure\"}}\n]}\n");
  if (fclose(out)) remove(getenv("TN_TRACE"));
}
