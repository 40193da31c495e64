// Statistics of packed sequences. Tuples are (co, do, ci, di, at, de | live) of tensors, packed values, all.
#include "tests/ledger.h"

static tn_program *p;
static tn_function *f;

static void start(void) {
  p = tn_program_create("c");
  f = tn_function_begin(p, "run");
}

static void end(void) {
  tn_function_end(f);
  tn_program_free(p);
}

// Two sequences, packed, and disposed.
static tn_packed mk_as(bool sorted) {
  tn_tensor seq[] = {tn_constant_i64(f, ((int64_t[]){1, 2, 3, 4}), TN_SHAPE(4)),
                     tn_constant_i64(f, ((int64_t[]){5, 6}), TN_SHAPE(2))};
  tn_packed s =
      (tn_pack_sequence)(seq, 2, (tn_pack_options){.time_major = true, .enforce_sorted = sorted, .at = at(10)});
  tn_dispose(seq[0]);
  tn_dispose(seq[1]);
  return s;
}
static tn_packed mk(void) { return mk_as(false); }

SCENARIO(C01) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  mk();
  TENSORS(f, 0, 0, 6, 2, 0, 4, 4);
  PACKED(f, 0, 0, 1, 0, 0, 0, 1);
  TOTAL(f, 0, 0, 7, 2, 0, 4, 5);
  tn_scope_end(s);
  CHECK_REPORT(p, "");
  end();
}

SCENARIO(C02) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach_packed(s, mk());
  TENSORS(f, 0, 0, 6, 2, 0, 4, 4);
  PACKED(f, 0, 0, 1, 0, 0, 0, 1);
  TOTAL(f, 0, 0, 7, 2, 0, 4, 5);
  tn_scope_end(s);
  end();
}

SCENARIO(C03) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_detach_packed(s, mk());
  TENSORS(f, 0, 0, 6, 2, 0, 4, 4);
  PACKED(f, 0, 0, 1, 0, 0, 1, 1);
  TOTAL(f, 0, 0, 7, 2, 0, 5, 5);
  tn_scope_end(s);
  end();
}

SCENARIO(C04) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_packed ps = mk();
  (tn_packed_dispose)(ps, at(11));
  (tn_packed_dispose)(ps, at(12));
  TENSORS(f, 0, 0, 6, 6, 0, 4, 0);
  PACKED(f, 0, 0, 1, 1, 0, 0, 0);
  TOTAL(f, 0, 0, 7, 7, 0, 4, 0);
  tn_scope_end(s);
  TOTAL(f, 0, 0, 7, 7, 0, 4, 0);
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), "user.c:12: error[E101]");
  CHECK_HAS(report_of(p), "is disposed twice\nuser.c:10: note: it was made here, in scope 's'\n"
                          "user.c:11: note: it was disposed here first\n");
  end();
}

SCENARIO(C05) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  mk();
  tn_scope_end(s);
  TENSORS(f, 0, 0, 6, 6, 0, 4, 0);
  PACKED(f, 0, 0, 1, 1, 0, 0, 0);
  TOTAL(f, 0, 0, 7, 7, 0, 4, 0);
  end();
}

SCENARIO(C07) {
  start();
  mk();
  TENSORS(f, 6, 2, 0, 0, 0, 0, 4);
  PACKED(f, 1, 0, 0, 0, 0, 0, 1);
  TOTAL(f, 7, 2, 0, 0, 0, 0, 5);
  end();
}

SCENARIO(C08) {
  start();
  tn_packed ps = mk();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_attach_packed(s, ps);
  TENSORS(f, 6, 2, 0, 0, 0, 0, 4);
  PACKED(f, 1, 0, 0, 0, 1, 0, 1);
  TOTAL(f, 7, 2, 0, 0, 1, 0, 5);
  tn_scope_end(s);
  end();
}

SCENARIO(C09) {
  start();
  tn_packed ps = mk();
  tn_scope *s = tn_scope_begin(f, "s");
  (tn_scope_detach_packed)(s, ps, at(11));
  TENSORS(f, 6, 2, 0, 0, 0, 0, 4);
  PACKED(f, 1, 0, 0, 0, 0, 0, 1);
  TOTAL(f, 7, 2, 0, 0, 0, 0, 5);
  tn_scope_end(s);
  CHECK(tn_n_errors(p) == 1);
  CHECK_HAS(report_of(p), "user.c:11: error[E123]: scope 's' does not own");
  end();
}

SCENARIO(C10) {
  start();
  tn_packed ps = mk();
  tn_packed_dispose(ps);
  tn_packed_dispose(ps);
  TENSORS(f, 6, 6, 0, 0, 0, 0, 0);
  PACKED(f, 1, 1, 0, 0, 0, 0, 0);
  TOTAL(f, 7, 7, 0, 0, 0, 0, 0);
  end();
}

SCENARIO(C11) {
  start();
  tn_packed ps = mk();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_packed_dispose(tn_scope_attach_packed(s, ps));
  TENSORS(f, 6, 2, 0, 4, 0, 0, 0);
  PACKED(f, 1, 0, 0, 1, 1, 0, 0);
  TOTAL(f, 7, 2, 0, 5, 1, 0, 0);
  tn_scope_end(s);
  end();
}

SCENARIO(C13) {
  start();
  tn_packed ps = mk();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_scope_detach_packed(s, tn_scope_attach_packed(s, ps));
  TENSORS(f, 6, 2, 0, 0, 0, 0, 4);
  PACKED(f, 1, 0, 0, 0, 1, 1, 1);
  TOTAL(f, 7, 2, 0, 0, 1, 1, 5);
  tn_scope_end(s);
  end();
}

SCENARIO(C16) {
  for (int sorted = 0; sorted < 2; sorted++) {
    start();
    tn_scope *s = tn_scope_begin(f, "s");
    tn_packed ps = mk_as(sorted);
    CHECK(tn_scope_count(s) == 1 && owns(s, ps.data) && tn_is_alive(ps.data));
    CHECK(tn_packed_n_members(ps) == (sorted ? 2 : 4));
    tn_scope_end(s);
    end();
  }
}

SCENARIO(C17) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_packed ps = mk_as(true);
  TENSORS(f, 0, 0, 4, 2, 0, 2, 2);
  PACKED(f, 0, 0, 1, 0, 0, 0, 1);
  tn_packed_dispose(ps);
  TENSORS(f, 0, 0, 4, 4, 0, 2, 0);
  PACKED(f, 0, 0, 1, 1, 0, 0, 0);
  tn_scope_end(s);
  end();
}

SCENARIO(C21) {
  start();
  tn_scope *s = tn_scope_begin(f, "s");
  tn_packed_detach_from_scope(mk());
  CHECK(!strcmp(stats_text(tn_stats_packed(f)),
                "ThreadTotalLiveCount: 1; CreatedOutsideScopeCount: 0; DisposedOutsideScopeCount: 0; "
                "CreatedInScopeCount: 1; DisposedInScopeCount: 0; AttachedToScopeCount: 0; DetachedFromScopeCount: 1"));
  tn_scope_end(s);
  end();
  start();
  s = tn_scope_begin(f, "s");
  mk();
  CHECK(!strcmp(stats_text(tn_stats_total(f)),
                "ThreadTotalLiveCount: 5; CreatedOutsideScopeCount: 0; DisposedOutsideScopeCount: 0; "
                "CreatedInScopeCount: 7; DisposedInScopeCount: 2; AttachedToScopeCount: 0; DetachedFromScopeCount: 4"));
  tn_scope_end(s);
  end();
}
