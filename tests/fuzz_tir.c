// Any bytes: text that parses verifies or is refused with a sentence, and prints to text that parses and prints the
// same, with and without locations. Text that does not parse is refused with a place.
#include "ir/ir.h"
#include "ir/text/text.h"
#include "ir/verify.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void need(bool holds, const char *what, const char *text, const char *other) {
  if (holds) return;
  fprintf(stderr, "%s\n---- once\n%s---- again\n%s", what, text, other);
  abort();
}

static void check_refused(const RtDiags *d) {
  need(d->n_errors > 0, "refused without a report", "", "");
  for (uint32_t k = 0; k < d->n; k++)
    need(d->list[k].line > 0 && d->list[k].column > 0, "a report without a place", "", "");
}

static void check_round_trip(RtArena *mem, const Prog *p, uint32_t flags) {
  RtDiags d = {.mem = mem};
  RtText once = {.mem = mem}, again = {.mem = mem};
  ir_print(p, &once, flags);
  Prog *q = ir_parse(mem, once.text, once.len, "f.tir", &d);
  if (!q) rt_diags_print(&d, stderr);
  need(q != NULL, "what was printed does not parse", once.text, "");
  ir_print(q, &again, flags);
  need(!strcmp(once.text, again.text), "print, parse, print is no fixed point", once.text, again.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  RtArena *mem = rt_arena_new();
  if (!mem) return 0;
  RtDiags d = {.mem = mem};
  Prog *p = ir_parse(mem, (const char *)bytes, n, "f.tir", &d);
  if (p) {
    need(d.n_errors == 0 && p->diags.n_errors == 0, "taken in spite of errors", "", "");
    for (uint32_t k = 0; k < p->n_fns; k++) ir_verify(p->fns[k], &d);
    check_round_trip(mem, p, 0);
    check_round_trip(mem, p, PRINT_LOCS);
    check_round_trip(mem, p, PRINT_FACTS);
  } else {
    check_refused(&d);
  }
  rt_arena_free(mem);
  return 0;
}
