// The first pass that goes wrong is what self_check finds; which application of a rewrite rule does it is found by halving
// the number of applications that are allowed.
#include "tools/bisect.h"

#include <string.h>

static const char *const what_of[] = {[CHECK_SAME] = "the same results",
                                      [CHECK_REFUSED] = "the program has errors",
                                      [CHECK_NO_INPUTS] = "no inputs were found that the function takes",
                                      [CHECK_PASS_FAILS] = "a pass fails",
                                      [CHECK_PASS_DIFFERS] = "a pass changes what is computed",
                                      [CHECK_CODE_FAILS] = "there is no code that runs",
                                      [CHECK_CODE_DIFFERS] = "compiled code differs",
                                      [CHECK_CRASH] = "a crash"};

const char *bisect_what(CheckVerdict v) { return what_of[v]; }

static bool same_place(const Finding *a, const Finding *b) {
  return a->verdict == b->verdict && !strcmp(a->pass, b->pass) && !strcmp(a->function, b->function);
}

Culprit bisect_find(SelfCheck c) {
  Culprit k = {.found = self_check(&c)};
  const Finding whole = k.found;
  bool in_pass = whole.verdict == CHECK_PASS_FAILS || whole.verdict == CHECK_PASS_DIFFERS;
  if (!in_pass || !*whole.pass || !whole.n_rules) return k;
  c.function = whole.function;
  c.no_rules = true;
  Finding f = self_check(&c);
  if (same_place(&f, &whole)) return k;
  c.no_rules = false;
  uint64_t good = 0, bad = whole.n_rules;
  while (bad - good > 1) {
    c.rule_limit = good + (bad - good) / 2;
    f = self_check(&c);
    if (same_place(&f, &whole)) bad = c.rule_limit;
    else good = c.rule_limit;
  }
  c.rule_limit = bad;
  k.found = self_check(&c);
  k.is_rule = true;
  k.rule_number = bad;
  return k;
}
