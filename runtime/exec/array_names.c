// Either all arrays of a list have names or none has: what a position means among names, nobody could say.
#include "runtime/exec/array_names.h"
#include "runtime/near.h"

#include <inttypes.h>
#include <string.h>

typedef struct {
  const RtFunction *f;
  const RtPort *ports;
  uint32_t n_ports;
  const char *kind;  // "input", "output"
  char *error;
  size_t error_size;
} Ports;

// A count may be larger than its list, and then it is not what the function takes: arrays that are too many are never read.
static size_t count_read(size_t n, uint32_t n_ports) { return n < n_ports ? n : n_ports; }

bool rt_any_named(const RtFunction *f, bool outputs, const RtArray *a, size_t n) {
  n = count_read(n, outputs ? f->n_outputs : f->n_inputs);
  for (size_t k = 0; k < n; k++)
    if (a[k].name) return true;
  return false;
}

static bool has_name(const RtArray *a, const char *name) { return a->name && !strcmp(a->name, name); }

static bool refuse_unknown(const Ports *p, const char *name) {
  RtNear near = {.wanted = name};
  for (uint32_t k = 0; k < p->n_ports; k++) rt_near_offer(&near, p->ports[k].name);
  return rt_fail(p->error, p->error_size, "%s: there is no %s '%.80s'%s", p->f->name, p->kind, name,
                 rt_near_or_all(&near));
}

static bool check_names(const Ports *p, const RtArray *given, size_t n) {
  for (size_t k = 0; k < n; k++) {
    uint32_t port = 0;
    if (!given[k].name)
      return rt_fail(p->error, p->error_size, "%s: %s %zu has no name, and others have: name all of them, or none",
                     p->f->name, p->kind, k + 1);
    while (port < p->n_ports && strcmp(p->ports[port].name, given[k].name)) port++;
    if (port == p->n_ports) return refuse_unknown(p, given[k].name);
    for (size_t i = 0; i < k; i++)
      if (has_name(&given[i], given[k].name))
        return rt_fail(p->error, p->error_size, "%s: %s '%.80s' is given twice", p->f->name, p->kind, given[k].name);
  }
  return true;
}

bool rt_order_by_name(const RtFunction *f, bool outputs, const RtArray *given, size_t n, RtArray *ordered, char *error,
                      size_t error_size) {
  const Ports p = {f,
                   outputs ? f->outputs : f->inputs,
                   outputs ? f->n_outputs : f->n_inputs,
                   outputs ? "output" : "input",
                   error,
                   error_size};
  if (!check_names(&p, given, count_read(n, p.n_ports))) return false;
  if (n > p.n_ports)
    return rt_fail(error, error_size, "%s: takes %" PRIu32 " %ss, got %zu", f->name, p.n_ports, p.kind, n);
  for (uint32_t port = 0; port < p.n_ports; port++) {
    size_t k = 0;
    while (k < n && !has_name(&given[k], p.ports[port].name)) k++;
    if (k == n) return rt_fail(error, error_size, "%s: %s '%.80s' is missing", f->name, p.kind, p.ports[port].name);
    ordered[port] = given[k];
  }
  return true;
}
