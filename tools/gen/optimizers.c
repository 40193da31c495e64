// docs/optimizers.md: calls with their numbers, updates with their state and expressions, schedules.
#include "ir/tables.h"
#include "tools/gen/gen.h"

#include <string.h>

// ---- updates, as ir/optimizers.def states them
typedef struct {
  const char *name, *states, *numbers, *doc, *scalars, *elements;
} UpdateRow;
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define ARG(n, flags) " `" #n "`"
#define V(x) x
#define K(x) x
#define OPTION(key, absent) key
#define EITHER(key, absent) key
#define FLAG(key) key
#define LET(x, ...) "`" #x " = " TEXT(__VA_ARGS__) "`<br>"
#define UPDATE(row, row_states, row_numbers, either, n, text, row_scalars, ...) \
  {#row, "" row_states, "" row_numbers, text, "" row_scalars, "" __VA_ARGS__},
static const UpdateRow updates[] = {
#include "ir/optimizers.def"
    {0}};

// ---- calls, as frontend/module/optimizers.def has them
typedef struct {
  const char *call, *numbers;
} CallRow;
#define NUMBER(options, key, value, range) " `" #key "` " #value ","
#define OPTIMIZER(name, ...) {#name, "" __VA_ARGS__},
static const CallRow calls[] = {
#include "frontend/module/optimizers.def"
    {0}};

static const struct {
  const char *call, *peer;
} peers[] = {
    {"adamw", "`AdamW`, `Adam`: tn_adam adds the decay to the gradient; `amsgrad`. AdamW's own decay there is 1e-2"},
    {"sgd", "`SGD`, `nesterov`"},
    {"rmsprop", "`RMSprop`, `centered`"},
    {"adagrad", "`Adagrad`"},
    {"adadelta", "`Adadelta`"},
    {"adamax", "`Adamax`"},
    {"nadam", "`NAdam`, `decoupled_weight_decay`"},
    {"radam", "`RAdam`, `decoupled_weight_decay`"},
    {"lion", "none: Chen et al. 2023; decoupled decay"},
    {"lamb", "none: You et al. 2020; Adam's step times the ratio of the norms of a parameter and its step"}};

static const char *peer_of(const char *call) {
  for (size_t k = 0; k < sizeof peers / sizeof *peers; k++)
    if (!strcmp(peers[k].call, call)) return peers[k].peer;
  return "";
}

// ---- schedules
static const struct {
  const char *call, *rate;
} schedules[] = {
#define SCHEDULE(call, rate) {#call, rate},
#include "frontend/module/schedules.def"
};

static void put_schedules(FILE *out) {
  fprintf(out, "\n## Schedules\n\nPyTorch's of these names, as state that the step reads: %s",
          "the rate behind t calls of `tn_schedule_step` (of the last:\n`tn_plateau_step`). `one_cycle_lr` and "
          "`cyclic_lr` move momentum, or `beta1` for want of it, the other\nway: from `max_momentum` to "
          "`base_momentum`, where "
          "the rate is highest, and back; `no_cycle_momentum` leaves it alone.\n\n"
          "| call | rate |\n| --- | --- |\n");
  for (size_t k = 0; k < sizeof schedules / sizeof *schedules; k++)
    fprintf(out, "| `tn_%s` | %s |\n", schedules[k].call, schedules[k].rate);
}

static void put_row(FILE *out, const UpdateRow *u) {
  fprintf(out, "| `%s` |%s |%s | %s | %s%s |\n", u->name, u->states, u->numbers, u->doc, u->scalars, u->elements);
}

bool gen_put_optimizers(FILE *out, const char *source_dir) {
  (void)source_dir;  // its rows are compiled in
  fprintf(out,
          "# Optimizers\n\nWritten by tools/gen from `ir/optimizers.def` and `frontend/module/optimizers.def`. Calls, "
          "groups and schedules: `frontend/tenure/train.h`.\n\n"
          "## Calls\n\nA number that is 0 in the options is the default; a weight decay, momentum or dampening of 0 is "
          "none. What shall be 0, as a\n`beta1`, is 1e-30, which is nothing beside 1. `maximize` goes against the "
          "gradient's sign. Numbers that a run reads (below)\nare state, "
          "`optimizer.lr.GROUP` and so on, and change without compiling.\n\n"
          "| call | numbers and their defaults | in torch.optim |\n| --- | --- | --- |\n");
  for (const CallRow *c = calls; c->call; c++)
    fprintf(out, "| `tn_%s` |%.*s | %s |\n", c->call, (int)strlen(c->numbers) - 1, c->numbers, peer_of(c->call));
  fprintf(out,
          "\n## Updates\n\nWhat is kept beside a parameter has the name `optimizer.STATE.PATH`; `step` counts from 1. "
          "Rounded in PyTorch's order; 20 steps of each\nare within 1e-5 of PyTorch's (`tests/test_optimizers.c`). "
          "fma(a, b, "
          "c) = a b + c; lerp(a, b, w): from a to b by w; power(b, n) = b^n;\nselect(c, a, b): a where c is not 0.\n\n"
          "| update | state | numbers that a run reads | meaning | in this order |\n| --- | --- | --- | --- | --- |\n");
  for (const UpdateRow *u = updates; u->name; u++) put_row(out, u);
  put_schedules(out);
  return !ferror(out);
}
