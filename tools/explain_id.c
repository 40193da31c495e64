// tenure explain E103: the row of a diagnostic and its page.
#include "runtime/format.h"
#include "runtime/near.h"
#include "tools/tool.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
  unsigned id;
  char letter;
  const char *name, *text;
} DiagRow;

#define LETTER_ERROR 'E'
#define LETTER_WARNING 'W'
#define LETTER_NOTE 'N'
#define DIAG(id, severity, name, text) {id, LETTER_##severity, #name, text},
static const DiagRow diag_rows[] = {
#include "ir/diag.def"
};

#include "explain_pages.h"

enum { N_DIAGS = sizeof diag_rows / sizeof *diag_rows };

// By number, with a letter or without, or by name, in any case; N_DIAGS: none
static size_t find_diag(const char *which) {
  char *end;
  const char *digits = which + (*which && strchr("EWNewn", *which) != NULL);
  unsigned long id = strtoul(digits, &end, 10);
  bool is_number = end != digits && !*end;
  for (size_t k = 0; k < N_DIAGS; k++)
    if (is_number ? diag_rows[k].id == id : !strcasecmp(diag_rows[k].name, which)) return k;
  return N_DIAGS;
}

static int no_diag(const char *which) {
  static char ids[N_DIAGS][sizeof "E001"];
  char wanted[40];
  RtNear near = {.wanted = wanted};
  size_t n = 0, from = rt_is_digit(*which);  // ids without their letter, where it has none
  for (; n + 1 < sizeof wanted && which[n]; n++) wanted[n] = (char)toupper((unsigned char)which[n]);
  wanted[n] = 0;
  for (size_t k = 0; k < N_DIAGS && !which[n]; k++) {
    snprintf(ids[k], sizeof ids[k], "%c%03u", diag_rows[k].letter, diag_rows[k].id % 1000);
    rt_near_offer(&near, ids[k] + from), rt_near_offer(&near, diag_rows[k].name);
  }
  fprintf(stderr, "tenure: there is no diagnostic %s%s\n", which, rt_near_text(&near));
  return EXIT_ERRORS;
}

int tool_explain_id(const CliArgs *a, const char *word) {
  size_t k = find_diag(word);
  if (k == N_DIAGS && strpbrk(word, "./")) return cli_usage_error(a, "explain needs a value of %s", word);
  if (k == N_DIAGS) return no_diag(word);
  const DiagRow *row = &diag_rows[k];
  printf("%c%03u %s: %s\n%s", row->letter, row->id, row->name, row->text, diag_pages[k]);
  return 0;
}
