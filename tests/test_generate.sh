#!/usr/bin/env bash
# tools/gen: the pages in docs/ are what the tables say, and a page or a part that is stale is named; call-site macros are
# made for every form of prototype, and compile as strict C17.
set -euo pipefail
source_dir=${TENURE_SOURCE:?run by ctest} build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
gen=$build/bin/tenure_gen
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$*" && exit 1; }

# ---- pages
"$gen" check-pages "$source_dir"
mkdir -p "$scratch/tree/tests"
cp -r "$source_dir/docs" "$scratch/tree/docs"
cp -r "$source_dir/tests/op_cases" "$scratch/tree/tests/op_cases"
expect_stale() { # PAGE SED: after this edit of the page
  cp "$source_dir/docs/$1" "$scratch/tree/docs/$1"
  sed -i "$2" "$scratch/tree/docs/$1"
  ! "$gen" check-pages "$scratch/tree" 2>"$scratch/said" || fail "not caught: $2 in $1"
  grep -q "^docs/$1 " "$scratch/said" || fail "another page is named: $(cat "$scratch/said")"
  "$gen" pages "$scratch/tree"
  cmp "$source_dir/docs/$1" "$scratch/tree/docs/$1" || fail "$1 is not written again"
}
expect_stale ops.md 's/`relu`/`rleu`/'
expect_stale ops.md '/^| `tn_softmax` /d'
expect_stale diagnostics.md '/E103/d'
expect_stale diagnostics/E103.md '1s/scope/room/'
expect_stale ir.md '/^| `slope` /d'
expect_stale how-to-add-a-pass.md 's/^| `fuse` .*/| |/'

# ---- call sites
cat >"$scratch/calls.h" <<'END_OF_HEADER'
#ifdef __cplusplus
extern "C" {
#endif
#define TN_API
typedef struct { const char *file; int line; } tn_site;
#ifndef TN_SITE
#define TN_SITE ((tn_site){__FILE__, __LINE__})
#endif
typedef struct { double rate; int steps; tn_site at; } tn_plan_options;
typedef int (*tn_hook_fn)(int a, int b);
TN_API int tn_no_site(int a);
TN_API int tn_only(tn_site at);
TN_API int tn_one(int a, tn_site at);  // a comment; with, commas
TN_API int tn_list(const int *v, /* of them */ int n,
                   tn_site at);
TN_API int tn_called(int (*f)(int, int), int a, tn_site at);
TN_API int (tn_plain)(int a, tn_site at);
TN_API int tn_plan(tn_plan_options o);
TN_API int tn_named(const char *name, tn_plan_options o);
TN_API int tn_more(int a, const char *name, long n, tn_plan_options o);
TN_API int tn_both(const int *v, int n, tn_plan_options o);
TN_API void tn_nothing(int a, tn_plan_options o);
TN_API int tn_by_pointer(int a, const tn_plan_options *o, tn_site at);
#ifdef __cplusplus
}
#endif
END_OF_HEADER
cat >"$scratch/calls.c" <<'END_OF_C'
#include "calls.h"
#include "site.h"
#define LIST(...) ((const int[]){__VA_ARGS__}), sizeof((const int[]){__VA_ARGS__}) / sizeof(int)
int (tn_no_site)(int a) { return a; }
int (tn_only)(tn_site at) { return at.line; }
int (tn_one)(int a, tn_site at) { return a + at.line; }
int (tn_list)(const int *v, int n, tn_site at) { return v[n - 1] + at.line; }
int (tn_called)(int (*f)(int, int), int a, tn_site at) { return f(a, at.line); }
int (tn_plain)(int a, tn_site at) { return a + at.line; }
int (tn_plan)(tn_plan_options o) { return (int)o.rate + o.steps + o.at.line; }
int (tn_named)(const char *name, tn_plan_options o) { return name[0] - 'a' + o.steps + o.at.line; }
int (tn_more)(int a, const char *name, long n, tn_plan_options o) { return a + name[0] - 'a' + (int)n + o.steps + o.at.line; }
int (tn_both)(const int *v, int n, tn_plan_options o) { return v[n - 1] + o.steps + o.at.line; }
void (tn_nothing)(int a, tn_plan_options o) { (void)a, (void)o; }
int (tn_by_pointer)(int a, const tn_plan_options *o, tn_site at) { return a + o->steps + at.line; }
static int add(int a, int b) { return a + b; }
int main(void) {
  int bad = 0;
#line 100
  bad |= tn_only() != 100, bad |= tn_one(tn_one(1)) != 201, bad |= tn_list((const int[]){1, 2, 3}, 3) != 103;
  bad |= tn_called(add, 5) != 106, bad |= tn_plain(1) != 102, bad |= (tn_one)(1, (tn_site){"", 7}) != 8;
  bad |= tn_plan(.steps = 2, .rate = 3) != 107, bad |= tn_named("b") != 103, bad |= tn_named("b", .steps = 4) != 107;
  bad |= tn_more(1, "b", 3) != 108, bad |= tn_more(1, "b", 3, .rate = 9, .steps = tn_one(0)) != 211;
  bad |= tn_by_pointer(1, &(tn_plan_options){.steps = 2}) != 107;
  bad |= tn_both(LIST(1, 2)) != 107, bad |= tn_both(LIST(1, 2, 3), .steps = 4) != 112, tn_nothing(1), tn_nothing(1, .steps = 2);
  return bad;
}
END_OF_C
cat >"$scratch/plus.cc" <<'END_OF_CC'
#define TN_SITE (tn_site{__FILE__, __LINE__})
#include "calls.h"
#include "site.h"
int main() {
  tn_plan_options o{};
  o.steps = 4;
  bool bad = false;
  const int list[] = {1, 2};
#line 100
  bad |= tn_only() != 100, bad |= tn_one(tn_one(1)) != 201, bad |= tn_plan(o) != 104;
  bad |= tn_named("b") != 102, bad |= tn_named("b", o) != 106, bad |= tn_more(1, "b", 3) != 106;
  bad |= tn_both(list, 2) != 104, bad |= tn_both(list, 2, o) != 108, tn_nothing(1), tn_nothing(1, o);
  return bad;
}
END_OF_CC
"$gen" sites "$scratch/site.h" "$scratch/calls.h"
"$cc" -std=c17 -Wall -Wextra -pedantic -Werror -I "$scratch" "$scratch/calls.c" -o "$scratch/calls"
"$scratch/calls" || fail "a call does not get its site or its options"
if command -v clang++-19 >/dev/null; then
  "$cc" -std=c17 -Dmain=unused -c -I "$scratch" "$scratch/calls.c" -o "$scratch/calls.o"
  clang++-19 -std=c++17 -Wall -Wextra -pedantic -Werror -I "$scratch" "$scratch/plus.cc" "$scratch/calls.o" -o "$scratch/plus"
  "$scratch/plus" || fail "a call from C++ does not get its site or its options"
fi
! grep -q tn_no_site "$scratch/site.h" || fail "a call without a site has a macro"
echo 'TN_API int tn_broken(int a, (;' >>"$scratch/calls.h"
! "$gen" sites "$scratch/site.h" "$scratch/calls.h" 2>/dev/null || fail "a prototype that does not parse is not reported"
[[ ! -e $scratch/site.h ]] || fail "a header that is not whole is left"

# ---- the command line
! "$gen" 2>/dev/null || fail "no arguments are no error"
! "$gen" sites "$scratch/site.h" "$scratch/none.h" 2>/dev/null || fail "a missing header is no error"
