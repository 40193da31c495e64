// TN_* variables whose value means nothing: said when a program is compiled, with the values that mean something.
// Of TN_TARGET, TN_RULES and rules in TN_DUMP a wrong name is an error, where it is looked up.
#include "frontend/compile/compile.h"
#include "runtime/near.h"
#include <stdlib.h>
#include <string.h>

// `words`: with commas between; is_list: the value is some of them, with commas between, else one
typedef struct {
  const char *name, *words;
  bool is_list;
} Variable;
static const Variable variables[] = {{"TN_GEMM", "own,blas,auto", false}, {"TN_CONV", "exact,winograd,auto", false},
                                     {"TN_LLVM", "O0,O2", false},         {"TN_TEAM", "pin,fixed", true},
                                     {"TN_CHECK", "arena,nan", true},     {"TN_PROFILE", "0,1", false}};

static const char *next(const char *list) {
  size_t n = strcspn(list, ",");
  return list + n + (list[n] == ',');
}

static const char *first_word(tn_program *p, const char *list) { return rt_strndup(p->mem, list, strcspn(list, ",")); }

static void warn(tn_program *p, const char *name, const char *word, const char *accepted, RtNear *near, Loc at) {
  fe_diag(p, RT_WARNING, E_ENVIRONMENT, at, "%s has the value '%.60s', which means nothing%s", name, word,
          rt_near_text(near));
  fe_hint(p, "accepted: %s", accepted);
}

static void check_word(tn_program *p, const Variable *v, const char *word, Loc at) {
  RtNear near = {.wanted = word};
  for (const char *w = v->words; *w; w = next(w)) {
    const char *accepted = first_word(p, w);
    if (!strcmp(accepted, word)) return;
    rt_near_offer(&near, accepted);
  }
  warn(p, v->name, word, v->words, &near, at);
}

static void check_variable(tn_program *p, const Variable *v, Loc at) {
  const char *value = getenv(v->name);
  if (!value || !*value) return;
  if (!v->is_list) check_word(p, v, value, at);
  for (const char *w = value; v->is_list && *w; w = next(w)) check_word(p, v, first_word(p, w), at);
}

// Passes, and rules that ir_trace_rules looks up.
static void check_dump(tn_program *p, Loc at) {
  const char *value = getenv("TN_DUMP");
  for (const char *w = value ? value : ""; *w; w = next(w)) {
    const char *word = first_word(p, w);
    RtNear near = {.wanted = word};
    bool known = !strncmp(word, "rule:", 5);
    for (uint32_t k = 0; k < ir_n_passes && !known; k++) {
      known = !strcmp(ir_passes[k].name, word);
      rt_near_offer(&near, ir_passes[k].name);
    }
    if (!known) warn(p, "TN_DUMP", word, "the passes that `tenure passes` lists, and rule:NAME", &near, at);
  }
}

void fe_check_environment(tn_program *p, Loc at) {
  for (size_t k = 0; k < sizeof variables / sizeof *variables; k++) check_variable(p, &variables[k], at);
  check_dump(p, at);
}
