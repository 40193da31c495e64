// A packed sequence is one value with several members. Who owns the members?
//
// In an eager framework the members once died with the scope in which they were made, though the sequence had been
// moved out; later each part could be torn out and disposed alone; and a sorted sequence counted two members that it
// does not have, for ever. Here a packed value is one entity of the graph: it is moved as one and ends as one, and its
// members are never anybody else's.
#define TN_STORY
#include "tests/ledger.h"
#include "tests/models.h"

static tn_program *p;
static tn_function *f;

static tn_packed pack(tn_tensor x, bool sorted) {
  const int64_t lengths[] = {3, 2, 1};
  const tn_pack_options options = {.enforce_sorted = sorted};
  return (tn_pack_constant)(x, lengths, 3, options);
}

// 1. Made in scope a, moved out, then to c: it survives a, and ends with c, whole.
static void it_moves_as_one(tn_tensor x) {
  tn_stats_reset(f);
  tn_scope *c = tn_scope_begin(f, "c"), *b = tn_scope_begin(f, "b"), *a = tn_scope_begin(f, "a");
  tn_packed s = pack(x, false);
  CHECK(tn_packed_n_members(s) == 4 && tn_scope_count(a) == 1);
  tn_packed_move_to_outer(s);
  tn_scope_end(a);
  CHECK(tn_is_alive(s.data) && tn_scope_count(b) == 1);
  tn_packed_move_to(s, c);
  tn_scope_end(b);
  CHECK(tn_is_alive(s.data) && tn_scope_count(c) == 1);
  TENSORS(f, 0, 0, 4, 0, 0, 4, 4);  // moving counts nothing
  PACKED(f, 0, 0, 1, 0, 0, 0, 1);
  tn_output(f, "padded", tn_pad_packed(s, -1, true));
  tn_scope_end(c);
  TENSORS(f, 0, 0, 5, 5, 0, 4, 0);  // four members, and the padded value
  PACKED(f, 0, 0, 1, 1, 0, 0, 0);
  CHECK(!tn_is_alive(s.data));
}

// 2. A sorted one has two members: what is absent is not counted.
static void it_has_what_it_has(tn_tensor x) {
  tn_stats_reset(f);
  tn_packed s = pack(x, true);
  TOTAL(f, 3, 0, 0, 0, 0, 0, 3);
  tn_packed_dispose(s);
  TOTAL(f, 3, 3, 0, 0, 0, 0, 0);
}

// 3. Pointwise operations work on the rows that exist; padding is never computed. A list of sequences packs directly.
static void it_computes(void) {
  tn_tensor list[] = {tn_constant(f, ((float[]){4, 5}), TN_SHAPE(2)), tn_constant(f, ((float[]){6}), TN_SHAPE(1)),
                      tn_constant(f, ((float[]){1, 2, 3}), TN_SHAPE(3))};
  tn_packed s = tn_pack_sequence(list, 3);
  tn_packed twice = TN_SCOPED_PACKED(f, tn_packed_zip("add", s, tn_packed_map("copy", s)));
  tn_output(f, "data", s.data);
  tn_output(f, "twice", tn_pad_packed(twice, 0, true));
}

static void run(void) {
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float x[9] = {1, 2, 3, 4, 5, 9, 6, 9, 9}, padded[9], data[6], twice[9];
  const float want[9] = {1, 2, 3, 4, 5, -1, 6, -1, -1}, packed[6] = {1, 4, 6, 2, 5, 3};
  const float want_twice[9] = {8, 10, 0, 12, 0, 0, 2, 4, 6};
  CHECK(m && tn_run(m, "run", TN_IN(tn_f32(x, 3, 3)),
                    TN_OUT(tn_f32(padded, 3, 3), tn_f32(data, 6), tn_f32(twice, 3, 3))) == TN_OK);
  CHECK(!memcmp(padded, want, sizeof want) && !memcmp(data, packed, sizeof packed));
  CHECK(!memcmp(twice, want_twice, sizeof want_twice));
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

// 4. A layer over packed data gives a packed value of its own.
static void layers(void) {
  p = tn_program_create("layers");
  tn_module *lstm = tn_lstm(tn_root(p), "lstm", 2, 5);
  f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 3, 2));
  tn_scope *outer = tn_scope_begin(f, "outer"), *s = tn_scope_begin(f, "s");
  tn_rnn_output r = tn_rnn_call(lstm, pack(x, false));
  TENSORS(f, 0, 0, 10, 0, 0, 8, 10);  // two packed values of four members, hidden and cell
  PACKED(f, 0, 0, 2, 0, 0, 0, 2);
  tn_packed_move_to_outer(r.out);
  tn_scope_end(s);  // the input and the states end, the output does not
  TENSORS(f, 0, 0, 10, 6, 0, 8, 4);
  PACKED(f, 0, 0, 2, 1, 0, 0, 1);
  tn_output(f, "y", tn_pad_packed(r.out, 0, true));
  tn_scope_end(outer);
  CHECK(tn_stats_total(f).live == 0);
  tn_function_end(f);
  tn_model *m = model_of(p);
  CHECK_REPORT(p, "");
  tn_model_free(m);
  tn_program_free(p);
}

// 5. A member is not torn out, and a packed value that ended is gone with all of its members.
static void mistakes(void) {
  p = tn_program_create("mistakes");
  f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 3));
  tn_scope *s = tn_scope_begin(f, "s");
  tn_packed a = (tn_pack_constant)(x, ((int64_t[]){3, 2, 1}), 3, (tn_pack_options){.at = at(10)});
  (tn_move_to_outer)(a.data, at(11));
  (tn_scope_end)(s, at(12));
  (tn_pad_packed)(a, 0, true, at(13));
  CHECK_REPORT(p, "user.c:11: error[E102]: the result of tn_pack_constant (f32[6]) is a member of a packed sequence: "
                  "it is not moved alone\n"
                  "user.c:10: note: the packed sequence was made here\n"
                  "hint: tn_packed_move_to_outer and the like work on the whole\n"
                  "user.c:13: error[E103]: the result of tn_pack_constant (f32[6]) is used after its scope closed\n"
                  "user.c:10: note: it was made here, in scope 's'\n"
                  "user.c:12: note: scope 's' closed here\n"
                  "hint: tn_move_to_outer before tn_scope_end keeps it\n");
  tn_program_free(p);
}

int main(void) {
  p = tn_program_create("packed");
  f = tn_function_begin(p, "run");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(3, 3));
  it_moves_as_one(x);
  it_has_what_it_has(x);
  it_computes();
  run();
  layers();
  mistakes();
  return check_report();
}
