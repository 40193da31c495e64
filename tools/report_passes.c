// The page's way through the passes: a slider, the text of the function after each pass, what changed marked by the
// script. A text that is that of the pass before is not there twice.
#include "ir/passes/passes.h"
#include "tools/tool.h"

#include <string.h>

static void put(RtText *out, const char *s) { rt_text_put(out, s, strlen(s)); }

void tool_passes_card(const ToolFn *f, uint32_t index, RtText *out) {
  put(out, "<div class=\"card passes\"><div class=\"cardhead\"><h3>Passes</h3>");
  if (!f->n_texts) {
    put(out, "<p class=\"muted\">The function is too large to be listed after each pass: tenure opt --passes=all "
             "--dump-after=PASS prints it.</p></div></div>\n");
    return;
  }
  rt_text_add(out,
              "<p class=\"muted\"><output></output></p></div>\n"
              "<input type=\"range\" min=\"0\" max=\"%u\" value=\"0\" data-passes=\"%u\" aria-label=\"pass\">\n"
              "<pre tabindex=\"0\"></pre></div>\n",
              f->n_texts - 1, index);
}

// By function: [name of the pass, its text; null: that of the pass before]..; null where there are none
void tool_passes_data(const ToolPlan *t, RtText *out) {
  put(out, "<script type=\"application/json\" id=\"passes\">[");
  for (uint32_t k = 0; k < t->n_fns; k++) {
    const ToolFn *f = &t->fns[k];
    put(out, k ? ",\n" : "");
    put(out, f->n_texts ? "[" : "null");
    for (uint32_t i = 0; i < f->n_texts; i++) {
      put(out, i ? ",[" : "[");
      tool_json(out, i ? ir_passes[i - 1].name : "as written");
      put(out, ",");
      if (i && !strcmp(f->text[i], f->text[i - 1])) put(out, "null");
      else tool_json(out, f->text[i]);
      put(out, "]");
    }
    put(out, f->n_texts ? "]" : "");
  }
  put(out, "]</script>\n");
}
