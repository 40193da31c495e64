// Faults of the passes that order instructions and form kernels.
#include "ir/intern.h"
#include "ir/passes/plan.h"
#include "ir/rewrite.h"
#include "ir/storage.h"
#include "tests/faults.h"
#include <string.h>

// ---- kernels
// Kernels k and k + 1 become one.
static void merge(Fn *f, uint32_t k) {
  Kernel *a = &f->kernels[k];
  a->n += f->kernels[k + 1].n;
  memmove(a + 1, a + 2, (f->n_kernels - k - 2) * sizeof *a);
  f->n_kernels--;
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (f->kernel_of[i] != UINT32_MAX && f->kernel_of[i] > k) f->kernel_of[i]--;
}

static bool are_neighbours(const Fn *f, uint32_t k) {
  return k + 1 < f->n_kernels && end_of(&f->kernels[k]) == f->kernels[k + 1].first;
}

static bool have_one_shape(const Fn *f, uint32_t k) {
  return f->ins[f->kernels[k].first].shape.i == f->ins[f->kernels[k + 1].first].shape.i;
}

static bool are_pointwise(const Fn *f, uint32_t k) {
  return are_neighbours(f, k) && f->kernels[k].cls == CLASS_POINTWISE && f->kernels[k + 1].cls == CLASS_POINTWISE;
}

// An instruction of kernel k + 1 reads what kernel k makes by its strides.
static bool reads_by_strides(const Fn *f, uint32_t k) {
  for (uint32_t i = f->kernels[k + 1].first; i < end_of(&f->kernels[k + 1]); i++)
    for (uint32_t j = 0; j < n_operands(f, i); j++)
      if (class_at(f, i) == CLASS_INDEX && f->kernel_of[arg(f, i, j)] == k) return true;
  return false;
}

bool fault_fuse_elements(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!are_pointwise(f, k) || !have_one_shape(f, k) || !reads_by_strides(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

// A concat may be one of columns, which stands in a kernel of their shape.
bool fault_fuse_shapes(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    bool is_concat = k + 1 < f->n_kernels && f->ins[f->kernels[k + 1].first].op == OP_concat;
    if (!are_pointwise(f, k) || have_one_shape(f, k) || is_concat || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

// Packed rows, and pointwise instructions of their shape: a kernel that there is, too.
static bool is_pack_with_reader(const Fn *f, uint32_t k) {
  bool is_pack = f->ins[f->kernels[k].first].op == OP_pack_padded;
  return is_pack && f->kernels[k + 1].cls == CLASS_POINTWISE && have_one_shape(f, k);
}

bool fault_fuse_classes(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    uint8_t cls = f->kernels[k].cls;
    bool groups =
        cls == CLASS_POINTWISE || cls == CLASS_ROW || cls == CLASS_GEMM || cls == CLASS_RNN || cls == CLASS_OPTIMIZER;
    if (!are_neighbours(f, k) || groups || is_pack_with_reader(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_fuse_lost(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    uint32_t last = end_of(&f->kernels[k]) - 1;
    if (f->kernels[k].n < 2 || op_at(f, last) == OP_result || !at(&site)) continue;
    f->kernels[k].n--;
    f->kernel_of[last] = UINT32_MAX;
    return true;
  }
  return false;
}

bool fault_fuse_twice(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    if (!are_neighbours(f, k) || !at(&site)) continue;
    f->kernels[k].n++;
    return true;
  }
  return false;
}

bool fault_fuse_swapped(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k + 1 < f->n_kernels; k++) {
    if (!at(&site)) continue;
    Kernel keep = f->kernels[k];
    f->kernels[k] = f->kernels[k + 1];
    f->kernels[k + 1] = keep;
    return true;
  }
  return false;
}

static bool shares_version(const Fn *f, uint32_t k) {
  for (uint32_t i = f->kernels[k + 1].first; i < end_of(&f->kernels[k + 1]); i++)
    for (uint32_t j = 0; j < n_operands(f, i); j++)
      if (f->kernel_of[arg(f, i, j)] == k) return true;
  return false;
}

bool fault_fuse_updates_chained(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    bool updates =
        are_neighbours(f, k) && f->kernels[k].cls == CLASS_OPTIMIZER && f->kernels[k + 1].cls == CLASS_OPTIMIZER;
    if (!updates || !shares_version(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

// The product in kernel k reads what the update in kernel k + 1 overwrites.
static bool reads_updated(const Fn *f, uint32_t k) {
  uint32_t product = ir_anchor(f, &f->kernels[k]).i, update = f->kernels[k + 1].first;
  for (uint32_t j = 0; j < 2; j++)
    if (ir_storage_root(f, (Val){arg(f, product, j)}).i == ir_storage_root(f, (Val){arg(f, update, 0)}).i) return true;
  return false;
}

bool fault_fuse_update_read(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    bool pair = are_neighbours(f, k) && f->kernels[k].cls == CLASS_GEMM && f->kernels[k + 1].cls == CLASS_OPTIMIZER;
    if (!pair || !reads_updated(f, k) || !at(&site)) continue;
    merge(f, k);
    return true;
  }
  return false;
}

bool fault_prologue_split(Fn *f, uint32_t site) {
  for (uint32_t k = 0; k < f->n_kernels; k++) {
    Kernel *a = &f->kernels[k];
    uint32_t lead = ir_anchor(f, a).i;
    if (a->cls != CLASS_GEMM || lead == a->first || !at(&site)) continue;
    Kernel *list = rt_alloc(f->prog->mem, (f->n_kernels + 1) * sizeof *list);
    memcpy(list, f->kernels, (k + 1) * sizeof *list);
    memcpy(list + k + 1, f->kernels + k, (f->n_kernels - k) * sizeof *list);
    list[k + 1].n = end_of(a) - lead, list[k + 1].first = lead, list[k].n = lead - a->first;
    for (uint32_t i = lead; i < f->n_ins; i++) f->kernel_of[i] += f->kernel_of[i] != UINT32_MAX;
    f->kernels = list;
    f->n_kernels++;
    return true;
  }
  return false;
}

// ---- order
// Instruction i, whose operands are made before instruction `to`, moves before it.
static bool move_before(Fn *f, uint32_t i, uint32_t to) {
  Rewrite e;
  for (uint32_t k = 0; k < n_operands(f, i); k++)
    if (arg(f, i, k) >= to) return false;
  ir_rewrite_begin(&e, f);
  for (uint32_t j = 1; j < e.n_old; j++) {
    if (j == to) ir_rewrite_copy(&e, (Val){i});
    if (j != i && e.old[j].op != OP_result) ir_rewrite_copy(&e, (Val){j});
  }
  ir_rewrite_end(&e);
  return true;
}

// What may fault comes before what is written, whatever their order.
static bool reads_old(const Fn *f, uint32_t reader, uint32_t write) {
  if (op_at(f, reader) == OP_result || ir_may_fault(f, (Val){reader})) return false;
  for (uint32_t k = 0; k < n_operands(f, reader); k++)
    if (class_at(f, reader) != CLASS_VIEW && arg(f, reader, k) == arg(f, write, 0)) return true;
  return false;
}

bool fault_schedule_write_early(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t r = 1; op_at(f, i) != OP_result && writes(f, i) && r < i; r++) {
      bool fits = reads_old(f, r, i);
      for (uint32_t k = 0; k < n_operands(f, i); k++) fits &= arg(f, i, k) < r;
      if (fits && at(&site)) return move_before(f, i, r);
    }
  return false;
}

static bool names_rows_of(const Fn *f, uint32_t i, uint32_t layout) {
  Dim rows = ir_dim_at(f->prog, f->ins[layout].shape, 2);
  for (uint32_t k = 0; k < ir_rank(f->prog, f->ins[i].shape); k++)
    if (ir_dim_at(f->prog, f->ins[i].shape, k).i == rows.i) return ir_dim_info(f->prog, rows)->kind == DIM_SYM;
  return false;
}

static bool input_names_rows_of(const Fn *f, uint32_t layout) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    if (op_at(f, i) == OP_input && names_rows_of(f, i, layout)) return true;
  return false;
}

bool fault_schedule_size_early(Fn *f, uint32_t site) {
  for (uint32_t l = 1; l < f->n_ins; l++)
    for (uint32_t i = l + 1; op_at(f, l) == OP_packed_layout && i < f->n_ins; i++) {
      bool fits = class_at(f, i) == CLASS_POINTWISE && names_rows_of(f, i, l) && !input_names_rows_of(f, l);
      for (uint32_t k = 0; k < n_operands(f, i); k++) fits &= arg(f, i, k) < l;
      if (fits && at(&site)) return move_before(f, i, l);
    }
  return false;
}

// What the copy c is there for: somebody reads it behind a write to the original, the write itself reads it or writes it
// beside the original, or it is written in the place of what is not the function's own.
typedef enum { COPY_NONE, COPY_READ, COPY_OVERLAP, COPY_OF_TARGET, COPY_OF_PARAM, COPY_OF_INPUT } CopyKind;
static CopyKind written_copy_kind(const Fn *f, uint32_t c, uint32_t root, uint32_t write) {
  if (op_at(f, root) == OP_input) return COPY_OF_INPUT;
  // Of what others read or write, assign_buffers would say so; of an update, it would be one of the parameter.
  bool read = op_at(f, root) != OP_param || class_at(f, write) != CLASS_SLICE_UPDATE;
  for (uint32_t i = c + 1; i < f->n_ins; i++)
    for (uint32_t k = 0; i != write && k < n_operands(f, i); k++)
      read |= arg(f, i, k) == c || ir_storage_root(f, (Val){arg(f, i, k)}).i == root;
  return read ? COPY_NONE : COPY_OF_PARAM;
}

static CopyKind copy_kind(const Fn *f, uint32_t c) {
  uint32_t root = ir_storage_root(f, (Val){arg(f, c, 0)}).i;
  bool wrote = false;
  for (uint32_t i = c + 1; i < f->n_ins; i++) {
    bool is_write = op_at(f, i) != OP_result && writes(f, i), reads = false;
    if (is_write && arg(f, i, 0) == c) return written_copy_kind(f, c, root, i);
    for (uint32_t k = 0; k < n_operands(f, i); k++) reads |= arg(f, i, k) == c;
    bool here = is_write && ir_storage_root(f, (Val){arg(f, i, 0)}).i == root;
    for (uint32_t k = 1; is_write && k < f->ins[i].n_res; k++)
      if (arg(f, i, k) == c) return here && op_at(f, root) != OP_param ? COPY_OF_TARGET : COPY_NONE;
    if (reads && wrote) return class_at(f, i) == CLASS_VIEW ? COPY_NONE : COPY_READ;
    if (reads && here) return COPY_OVERLAP;
    wrote |= here;
  }
  return COPY_NONE;
}

static bool lose_copy(Fn *f, uint32_t site, CopyKind kind) {
  for (uint32_t c = 1; c < f->n_ins; c++) {
    if (!ir_attr(f, (Val){c}, KEY_reader) || copy_kind(f, c) != kind || !at(&site)) continue;
    for (uint32_t i = c + 1; i < f->n_ins; i++)
      for (uint32_t k = 0; k < n_operands(f, i); k++)
        if (arg(f, i, k) == c) f->args[f->ins[i].args + k] = (Val){arg(f, c, 0)};
    return true;
  }
  return false;
}

bool fault_insert_copies_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_READ); }
bool fault_insert_copies_overlap_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OVERLAP); }
bool fault_insert_copies_target_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OF_TARGET); }
bool fault_insert_copies_param_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OF_PARAM); }
bool fault_insert_copies_input_lost(Fn *f, uint32_t site) { return lose_copy(f, site, COPY_OF_INPUT); }

bool fault_functionalize_leaf_written(Fn *f, uint32_t site) {
  for (uint32_t i = 1; i < f->n_ins; i++)
    for (uint32_t x = 1; op_at(f, i) != OP_result && writes(f, i) && x < i; x++) {
      uint32_t old = arg(f, i, 0);
      bool own = op_at(f, ir_storage_root(f, (Val){old}).i) != OP_param;  // of a parameter the verifier would say so
      bool same =
          op_at(f, x) == OP_input && f->ins[x].shape.i == f->ins[old].shape.i && f->ins[x].dtype == f->ins[old].dtype;
      if (!own || !same || !at(&site)) continue;
      f->args[f->ins[i].args] = (Val){x};
      return true;
    }
  return false;
}
