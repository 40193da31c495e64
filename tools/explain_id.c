// tenure explain E103: the row of a diagnostic and its page.
#include "tools/tool.h"

#include <stdlib.h>
#include <string.h>

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

int tool_explain_id(const CliArgs *a, const char *word) {
  const char *digits = word + (*word && strchr("EWNewn", *word) != NULL);
  char *end;
  unsigned long id = strtoul(digits, &end, 10);
  for (size_t k = 0; end != digits && !*end && k < sizeof diag_rows / sizeof *diag_rows; k++) {
    const DiagRow *row = &diag_rows[k];
    if (row->id != id) continue;
    printf("%c%03u %s: %s\n%s", row->letter, row->id, row->name, row->text, diag_pages[k]);
    return 0;
  }
  if (strpbrk(word, "./")) return cli_usage_error(a, "explain needs a value of %s", word);
  fprintf(stderr, "tenure: there is no diagnostic %s\n", word);
  return EXIT_ERRORS;
}
