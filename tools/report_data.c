// What the page's script knows of each buffer, as JSON.
#include "ir/fn.h"
#include "ir/intern.h"
#include "ir/text/text.h"
#include "tools/tool.h"

static void field(RtText *out, const char *s) {
  rt_text_put(out, ",", 1);
  tool_json(out, s);
}

static const char *slot_text(const ToolFn *f, RtArena *mem, uint32_t buf) {
  uint32_t from = f->f->bufs[buf].reuses, to = tool_taker(f, buf);
  const char *takes = from ? rt_printf(mem, "takes over the slot of %s", tool_buf_name(f, mem, from)) : "";
  const char *gives = to ? rt_printf(mem, "slot taken over by %s", tool_buf_name(f, mem, to)) : "";
  return from && to ? rt_printf(mem, "%s; %s", takes, gives) : from ? takes : gives;
}

static const char *type_text(const ToolFn *f, RtArena *mem, Val v) {
  RtText t = {.mem = mem};
  ir_print_type(f->f, v, &t);
  return t.text;
}

static const char *owner_text(const ToolFn *f, RtArena *mem, const Buf *b) {
  if (b->scratch) return "its kernel";
  if (b->seg == SEG_PARAM) return "the program";
  if (b->seg == SEG_CONST) return "the constant pool";
  if (b->seg != SEG_ARENA) return "the caller";
  return tool_scope(f, mem, f->f->ins[b->head.i].scope);
}

// Outputs and parameters say more than their value's name.
static const char *what_text(const ToolFn *f, RtArena *mem, const Buf *b) {
  const Attr *name = ir_attr(f->f, b->head, KEY_name), *param = ir_attr(f->f, b->head, KEY_param);
  if (b->seg == SEG_PARAM && param)
    return rt_printf(mem, "@%s", ir_text(f->f->prog, f->f->prog->params[param->u.i].path));
  if (b->seg == SEG_OUT && name) return ir_text(f->f->prog, name->u.s);
  return "";
}

// [buf, name, kind, op, line, bytes, first, last, segment, offset, owner, type, name in the file, why it lives, slot,
// what]
static void put_buf(const ToolFn *f, uint32_t k, RtText *out) {
  const Buf *b = &f->f->bufs[k];
  RtArena *mem = out->mem;
  uint32_t from = f->from[b->head.i];
  rt_text_add(out, "[%u", k);
  field(out, tool_buf_name(f, mem, k));
  field(out, b->seg == SEG_ARENA ? tool_buf_kind[tool_kind(f, k)] : tool_seg_name[b->seg]);
  field(out, tool_op_name(f, b->head));
  field(out, tool_loc(f->f->prog, mem, f->f->ins[b->head.i].loc));
  rt_text_add(out, ",%lld,%d,%d", (long long)b->bytes, b->last < 0 ? -1 : b->first, b->last);
  field(out, tool_seg_name[b->seg]);
  rt_text_add(out, ",%lld", (long long)b->offset);
  field(out, owner_text(f, mem, b));
  field(out, b->scratch ? "" : type_text(f, mem, b->head));
  field(out, from && !b->scratch ? f->file[from].name : "");
  field(out, tool_keeps(f, mem, k));
  field(out, slot_text(f, mem, k));
  field(out, what_text(f, mem, b));
  rt_text_put(out, "]", 1);
}

void tool_data(const ToolFn *f, const Peak *peak, RtText *out) {
  rt_text_add(out, "{\"name\":");
  tool_json(out, tool_fn_name(f));
  rt_text_add(out, ",\"kernels\":%u,\"arena\":%lld,\"peak\":%u,\"bufs\":[", f->f->n_kernels,
              (long long)f->f->stats.peak_bytes, peak->kernel);
  for (uint32_t b = 1; b < f->f->n_bufs; b++) {
    if (b > 1) rt_text_put(out, ",\n", 2);
    put_buf(f, b, out);
  }
  rt_text_add(out, "]}");
}
