// Hooks of recurrent modules: they see a sequence, packed or dense, with its states, and may replace any of them.
//
//   static tn_rnn_output scale(tn_module *m, tn_rnn_input in, tn_rnn_output out, void *ctx) {
//     out.hidden = tn_mul(out.hidden, tn_scalar(out.hidden.fn, 0.5));
//     return out;
//   }
#include "frontend/graph/ledger.h"
#include "frontend/graph/ops.h"
#include "frontend/graph/packed_rows.h"
#include "frontend/module/hook.h"
#include "frontend/module/rnn.h"

tn_hook *tn_rnn_hook_pre(tn_module *m, tn_rnn_pre_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.rnn_pre = fn, .ctx = ctx}, o);
}

tn_hook *tn_rnn_hook_post(tn_module *m, tn_rnn_post_hook fn, void *ctx, tn_hook_options o) {
  return fe_hook_add(m, (tn_hook){.rnn_post = fn, .ctx = ctx}, o);
}

// ---- the values of a sequence, in one order for what went in and for what came out of a hook
enum { N_VALUES = 5 };
typedef struct {
  tn_tensor v[N_VALUES];
  uint8_t dtype[N_VALUES];  // as given: a hook may end a value, or a function
  Shape shape[N_VALUES];
} Values;

static void note_types(Values *s) {
  for (uint32_t k = 0; k < N_VALUES; k++) {
    if (!fe_ok(s->v[k])) continue;
    s->dtype[k] = (uint8_t)fe_ins(s->v[k])->dtype;
    s->shape[k] = fe_shape_of(s->v[k]);
  }
}

static Values values_in(const tn_rnn_input *x) {
  return (Values){{x->seq.layout, x->seq.data, x->dense, x->initial.h0, x->initial.c0}, {0}, {{0}}};
}

static Values values_out(const tn_rnn_output *r) {
  return (Values){{r->out.layout, r->out.data, r->dense, r->hidden, r->cell}, {0}, {{0}}};
}

// What was given must be there still, of its type; what was not, an initial state, may be added and is checked by the
// call.
static bool fits(const tn_hook *h, const Values *old, const Values *now, bool may_add, tn_site at) {
  tn_function *f = fe_ok(old->v[1]) ? old->v[1].fn : old->v[2].fn;
  for (uint32_t k = 0; k < N_VALUES; k++) {
    bool added = !old->v[k].fn && now->v[k].fn;
    if (added && may_add && k >= 3) continue;
    if (!old->v[k].fn && !added) continue;
    if (k == 0 && now->v[0].v != old->v[0].v) added = true;
    if (added || !now->v[k].fn) {
      fe_error(f->p, E_HOOK_TYPE, at, "a hook of module '%s' %s", h->on->path,
               k == 0 ? "changes the layout of a packed sequence" : "adds or takes away a value");
      fe_note(f->p, h->loc, "the hook was registered here");
      fe_hint(f->p, "a hook returns what it was given, or that with values replaced");
      return false;
    }
    if (now->v[k].v != old->v[k].v &&
        !fe_hook_fits(h, h->rnn_pre ? "its input" : "its output", f, old->dtype[k], old->shape[k], now->v[k], at))
      return false;
  }
  return true;
}

bool fe_rnn_pre_hooks(tn_module *m, tn_rnn_input *in, tn_site at) {
  if (!fe_hook_may_run(m, at)) return false;
  FeHooks hooks = fe_hooks_of(m);
  for (uint32_t k = 0; k < hooks.n; k++) {
    tn_hook *h = hooks.list[k];
    if (h->removed || !h->rnn_pre) continue;
    Values old = values_in(in);
    note_types(&old);
    FeHookRun run = fe_hook_begins(h, m);
    *in = h->rnn_pre(m, *in, h->ctx);
    fe_hook_ended(&run);
    Values now = values_in(in);
    if (!fits(h, &old, &now, true, at)) return false;
  }
  return true;
}

FeTapCall *fe_rnn_tap_inputs(tn_module *m, tn_rnn_input *in, tn_site at) {
  FeHooks hooks = fe_hooks_of(m);
  tn_tensor *data = in->seq.data.fn ? &in->seq.data : &in->dense, v[] = {*data, in->initial.h0, in->initial.c0};
  FeTapCall *c = fe_tap_inputs(m, &hooks, v, fe_rnn_has_cell(m) ? 3 : 2, at);
  *data = v[0], in->initial.h0 = v[1], in->initial.c0 = v[2];
  return c;
}

// tn_last_hidden shows the final states that a hook put in place of the module's.
static void follow_hidden(const tn_module *m, tn_rnn_output *r, tn_site at) {
  uint32_t first = (m->config.n_layers - 1) * m->config.n_directions;
  for (uint32_t d = 0; d < m->config.n_directions; d++)
    r->last[d] = fe_without_batch(fe_slice(r->hidden, 0, first + d, 1, at), 0, at);
}

bool fe_rnn_post_hooks(tn_module *m, const tn_rnn_input *in, tn_rnn_output *out, tn_site at) {
  FeHooks hooks = fe_hooks_of(m);
  tn_rnn_output given = *out;
  for (uint32_t k = 0; k < hooks.n; k++) {
    tn_hook *h = hooks.list[k];
    if (h->removed || !h->rnn_post) continue;
    Values old = values_out(out);
    note_types(&old);
    FeHookRun run = fe_hook_begins(h, m);
    *out = h->rnn_post(m, *in, *out, h->ctx);
    fe_hook_ended(&run);
    Values now = values_out(out);
    if (!fits(h, &old, &now, false, at)) return false;
  }
  out->n_last = given.n_last;
  for (uint32_t d = 0; d < 2; d++) out->last[d] = given.last[d];
  if (out->hidden.v != given.hidden.v) follow_hidden(m, out, at);
  return true;
}

void fe_rnn_tap_outputs(FeTapCall *c, tn_module *m, tn_rnn_output *out, tn_site at) {
  tn_tensor *data = out->out.data.fn ? &out->out.data : &out->dense, v[] = {*data, out->hidden, out->cell};
  bool sorted = out->out.data.fn && tn_packed_n_members(out->out) == 2;
  fe_tap_outputs(c, v, fe_rnn_has_cell(m) ? 3 : 2, at);
  *data = v[0], out->hidden = v[1], out->cell = v[2];
  if (out->out.data.fn) out->out = fe_made_packed(out->out, sorted, at);
  else fe_made(out->dense, at);
  fe_made(out->hidden, at);
  fe_made(out->cell, at);
  follow_hidden(m, out, at);
}
