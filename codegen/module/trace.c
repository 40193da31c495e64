// TN_TRACE=FILE: entries also record the first kernel calls of each worker with time stamps, written to FILE in Chrome's
// trace event format when the program is unloaded (chrome://tracing, Perfetto, speedscope).
#include "codegen/module/module.h"
#include "runtime/format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
  WORKERS = 64,
  EVENTS = 8192,
  FIELDS = 5,
  LANE = (EVENTS + 1) * FIELDS
};  // in 64-bit words; event 0 is the count, of those that found no room too
enum { EVENT_ROW, EVENT_BEFORE, EVENT_START, EVENT_END, EVENT_FRAME };  // frame: of which instance
static const char lanes_name[] = "tenure_trace";

// NULL: none, and none in a process with more rights than the user who named it.
static const char *path_of_trace(void) {
  const char *path = secure_getenv("TN_TRACE");
  return path && *path ? path : NULL;
}

bool cg_trace_wanted(void) { return path_of_trace() != NULL; }

// ---- code
// Kernel call number `row` of the program: arrival at its barrier `before`, begin `start`, `end`.
void cg_trace_add(Cg *c, uint32_t row, V worker, V before, V start, V end) {
  V lane =
      cg_at(c, c->i64, cg_profile_cells(c, lanes_name, (uint64_t)WORKERS * LANE), cg_mul(c, worker, cg_i64(c, LANE)));
  V frame = LLVMBuildPtrToInt(c->b, LLVMGetParam(c->fn, 0), c->i64, "");
  V n = cg_profile_atomic(c, LLVMAtomicRMWBinOpAdd, lane, cg_i64(c, 1));  // other instances have such a worker too
  for (If room = cg_when(c, cg_below(c, n, cg_i64(c, EVENTS))); cg_then(&room);) {
    V at = cg_at(c, c->i64, lane, cg_mul(c, cg_add(c, n, cg_i64(c, 1)), cg_i64(c, FIELDS)));
    const V field[FIELDS] = {cg_i64(c, row), before, start, end, frame};
    for (uint32_t k = 0; k < FIELDS; k++) cg_put(c, field[k], at, cg_i64(c, k));
  }
}

// ---- file
enum { INSTANCES = 256 };  // further ones are shown as the last
typedef struct {
  FILE *out;
  const char *text;  // of cg_profile_text
  uint64_t origin;
  double rate;                // cycles per microsecond
  uint64_t frame[INSTANCES];  // of instances in the order of their first events: the trace's processes
  uint32_t n_frames;
} Trace;

static const char *line_at(const char *text, uint64_t row) {
  while (row--) text = strchr(text, '\n') + 1;
  return text;
}

static uint32_t process_of(Trace *t, uint64_t frame) {
  for (uint32_t k = 0; k < t->n_frames; k++)
    if (t->frame[k] == frame) return k + 1;
  if (t->n_frames < INSTANCES) t->frame[t->n_frames++] = frame;
  return t->n_frames;
}

static void put_event(Trace *t, const uint64_t *e, uint32_t worker) {
  uint32_t process = process_of(t, e[EVENT_FRAME]);
  const char *line = line_at(t->text, e[EVENT_ROW]), *tab = strchr(line, '\t'), *end = strchr(tab + 1, '\t');
  double before = (double)(e[EVENT_BEFORE] - t->origin) / t->rate,
         start = (double)(e[EVENT_START] - t->origin) / t->rate;
  double stop = (double)(e[EVENT_END] - t->origin) / t->rate;
  if (start - before > 0.05)
    rt_fformat(
        t->out,
        "{\"name\": \"wait\", \"cat\": \"wait\", \"ph\": \"X\", \"pid\": %u, \"tid\": %u, \"ts\": %.3f, \"dur\": "
        "%.3f},\n",
        process, worker, before, start - before);
  rt_fformat(t->out,
             "{\"name\": \"%.*s\", \"cat\": \"%.*s\", \"ph\": \"X\", \"pid\": %u, \"tid\": %u, \"ts\": %.3f, \"dur\": "
             "%.3f},\n",
             (int)(end - tab - 1), tab + 1, (int)(tab - line), line, process, worker, start, stop - start);
}

static uint64_t n_events(const uint64_t *lane) { return lane[0] < EVENTS ? lane[0] : EVENTS; }

static uint64_t first_time(const uint64_t *lanes) {
  uint64_t first = UINT64_MAX;
  for (uint32_t w = 0; w < WORKERS; w++) {
    const uint64_t *lane = lanes + (size_t)w * LANE;
    for (uint64_t k = 1; k <= n_events(lane); k++)  // of several instances they are not in order
      if (lane[k * FIELDS + EVENT_BEFORE] < first) first = lane[k * FIELDS + EVENT_BEFORE];
  }
  return first;
}

// A regular file, by its own name: a link that somebody planted is not followed, and no device is written.
static FILE *open_trace(const char *path) {
  struct stat st;
  int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
  bool is_file = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fd, 0) == 0;
  FILE *out = is_file ? fdopen(fd, "w") : NULL;
  if (!out) fprintf(stderr, "TN_TRACE: %s: %s\n", path, fd >= 0 ? "not a regular file" : strerror(errno));
  if (!out && fd >= 0) close(fd);
  return out;
}

void cg_trace_write(CgJit *j, const char *text, double cycles_per_us) {
  const char *path = path_of_trace();
  const uint64_t *lanes = path ? cg_jit_find(j, lanes_name) : NULL;
  FILE *out = lanes ? open_trace(path) : NULL;
  if (!out) return;
  Trace t = {.out = out, .text = text, .origin = first_time(lanes), .rate = cycles_per_us};
  fprintf(out, "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n");
  for (uint32_t w = 0; w < WORKERS; w++) {
    const uint64_t *lane = lanes + (size_t)w * LANE;
    for (uint64_t k = 1; k <= n_events(lane); k++) put_event(&t, lane + k * FIELDS, w);
  }
  for (uint32_t k = 1; k <= t.n_frames || k == 1; k++)
    fprintf(out, "%s{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %u, \"args\": {\"name\": \"instance %u\"}}",
            k > 1 ? ",\n" : "", k, k);
  fprintf(out, "\n]}\n");
  if (fclose(out)) remove(path);
}
