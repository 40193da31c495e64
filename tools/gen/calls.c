// The public calls of pointwise rows: prototypes with the row's sentence (tenure_ops.h), definitions (pointwise_calls.h).
//
//   UNARY(leaky_relu, .., "y = a where a > 0, else {slope} a")   and   TAKES(leaky_relu, slope, REQUIRED, FINITE)
//
//   // y = a where a > 0, else slope a
//   TN_API tn_tensor tn_leaky_relu(tn_tensor a, double slope, tn_site at);
//   TN_API tn_tensor tn_leaky_relu_(tn_tensor a, double slope, tn_site at);
#include "tools/gen/gen.h"

#include <string.h>

// ---- attributes are parameters after the operands
static const TakesRow *next_of(const TakesRow *t, const OpRow *op) {
  while (t->op && strcmp(t->op, op->name)) t++;
  return t;
}

#define EACH_ATTR(t, op)                      \
  const TakesRow *t = next_of(gen_takes, op); \
  t->op;                                      \
  t = next_of(t + 1, op)

static const char *type_of(const TakesRow *t) {
  const char *kind = gen_kind(t->key);
  if (strcmp(t->presence, "REQUIRED")) return NULL;
  return !strcmp(kind, "NUM") ? "double" : !strcmp(kind, "INT") ? "int64_t" : NULL;
}

static bool check_attrs(const OpRow *op) {
  for (EACH_ATTR(t, op)) {
    if (type_of(t)) continue;
    fprintf(stderr, "ir/ops.def: no call can be made from row %s: attribute %s is no required number; BY_HAND(%s)\n",
            op->name, t->key, op->name);
    return false;
  }
  return true;
}

static int n_attrs(const OpRow *op) {
  int n = 0;
  for (EACH_ATTR(t, op)) n++;
  return n;
}

// ---- text
static void put_doc(FILE *out, const char *doc) {
  for (; *doc; doc++)
    if (*doc != '{' && *doc != '}') fputc(*doc, out);
}

static void put_parameters(FILE *out, const OpRow *op) {
  for (int k = 0; k < op->n_operands; k++) fprintf(out, "tn_tensor %c, ", 'a' + k);
  for (EACH_ATTR(t, op)) fprintf(out, "%s %s, ", type_of(t), t->key);
  fprintf(out, "tn_site at)");
}

static void put_prototype(FILE *out, const OpRow *op, const char *suffix) {
  fprintf(out, "TN_API tn_tensor tn_%s%s(", op->name, suffix);
  put_parameters(out, op);
  fprintf(out, ";\n");
}

static void put_attrs(FILE *out, const OpRow *op) {
  const char *separator = "  const Attr attrs[] = {";
  for (EACH_ATTR(t, op)) {
    const char *make = strcmp(type_of(t), "double") ? "ir_a_int" : "ir_a_num";
    fprintf(out, "%s%s(KEY_%s, %s)", separator, make, t->key, t->key);
    separator = ", ";
  }
  fprintf(out, "};\n");
}

// The name stands in parentheses: the call-site macro of the same name does not apply.
static void put_definition(FILE *out, const OpRow *op, bool in_place) {
  const char *suffix = in_place ? "_" : "";
  fprintf(out, "\ntn_tensor(tn_%s%s)(", op->name, suffix);
  put_parameters(out, op);
  fprintf(out, " {\n  const tn_tensor operands[] = {");
  for (int k = 0; k < op->n_operands; k++) fprintf(out, "%s%c", k ? ", " : "", 'a' + k);
  fprintf(out, "};\n");
  if (n_attrs(op)) put_attrs(out, op);
  fprintf(out, "  return %s(OP_%s, operands, %d, %s, %d", in_place ? "fe_in_place" : "call_pointwise", op->name,
          op->n_operands, n_attrs(op) ? "attrs" : "NULL", n_attrs(op));
  if (in_place) fprintf(out, ", \"tn_%s_\"", op->name);
  fprintf(out, ", at);\n}\n");
}

bool gen_calls_header(FILE *out) {
  fprintf(out, "// Pointwise calls, one for each row of ir/ops.def: written by tools/gen. Operands broadcast as in "
               "NumPy; NAME_ writes\n"
               "// its result to `a`, whose shape it must have. Included by tenure.h.\n"
               "#ifndef TENURE_OPS_H\n#define TENURE_OPS_H\n\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (!gen_has_call(op)) continue;
    if (!check_attrs(op)) return false;
    fprintf(out, "// ");
    put_doc(out, op->doc);
    fprintf(out, "\n");
    put_prototype(out, op, "");
    if (gen_has_in_place(op)) put_prototype(out, op, "_");
  }
  fprintf(out, "\n#endif\n");
  return true;
}

bool gen_calls(FILE *out) {
  fprintf(
      out,
      "// Definitions of what tenure_ops.h declares: written by tools/gen, included by frontend/graph/pointwise.c.\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (!gen_has_call(op)) continue;
    if (!check_attrs(op)) return false;
    put_definition(out, op, false);
    if (gen_has_in_place(op)) put_definition(out, op, true);
  }
  return true;
}

// CALL1(neg) CALL2(add) CALL3(select), CALL1(leaky_relu, , POINTWISE_ATTR(slope)): one for each attribute.
bool gen_call_list(FILE *out) {
  fprintf(out, "// The calls of tenure_ops.h, by number of operands; those of one or two have a form in place. Written "
               "by tools/gen.\n");
  for (const OpRow *op = gen_ops; op->name; op++) {
    if (!gen_has_call(op)) continue;
    fprintf(out, "CALL%d(%s", op->n_operands, op->name);
    if (n_attrs(op)) fprintf(out, ", ");
    for (EACH_ATTR(t, op)) fprintf(out, ", POINTWISE_ATTR(%s)", t->key);
    fprintf(out, ")\n");
  }
  return true;
}
