#!/usr/bin/env bash
# The chain frontend -> codegen -> ir -> runtime holds: no upward include, llvm-c only in codegen, cblas.h only in
# runtime/exec/blas.c, random streams are numbered in one place (frontend/graph/scan.c knows how many the steps of a scan need), and
# libtenure.so exports tn_ symbols only. Ends by breaking each rule in a copy, to see that it is caught.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build_dir=${TENURE_BUILD:-$source_dir/build/release}
folders=(runtime ir codegen frontend) # bottom first

includes() { grep -nE '^[[:space:]]*#[[:space:]]*include' -r "$@" --include='*.c' --include='*.h' --include='*.def' || true; }

# check_tree ROOT: prints every offending line.
check_tree() (
  cd "$1"
  local above=("${folders[@]}" tests tools examples bench) pattern
  for folder in "${folders[@]}"; do
    above=("${above[@]:1}")
    pattern=$(IFS='|' && echo "${above[*]}")
    includes "$folder" | grep -E "[\"<](\.\./)*($pattern)/" | sed "s/^/upward include from $folder: /" || true
    includes "$folder" | grep -E '"\.\.?/' | sed 's/^/include path not from the root: /' || true
  done
  includes "${folders[@]}" | grep -E '[<"]llvm(-c)?/' | grep -v '^codegen/' | sed 's/^/LLVM outside codegen: /' || true
  grep -nE '\b(next_id|ir_new_streams)\b' -r "${folders[@]}" --include='*.c' --include='*.h' --include='*.def' |
    grep -vE '^(ir/(ir\.h|intern\.c|text/parse\.c)|frontend/graph/scan\.c):' | sed 's/^/random streams not taken by fe_stream: /' || true
  includes "${folders[@]}" | grep 'cblas' | grep -v '^runtime/exec/blas\.c:' | sed 's/^/BLAS outside runtime\/exec\/blas.c: /' || true
)

# check_exports LIBRARY: prints every exported name that is neither ours nor the linker's own.
check_exports() {
  nm -D --defined-only "$1" | awk '{ print $NF }' | sed 's/@.*//' |
    grep -vE '^(tn_|_edata$|_end$|__bss_start$|_init$|_fini$|__((start|stop)_)?(asan|ubsan|odr_asan)_)' | sed 's/^/exported without tn_: /' || true
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
offences=$(check_tree "$source_dir")
[[ -f $build_dir/libtenure.so ]] || offences+=$'\nno '"$build_dir/libtenure.so"
[[ -n "$(nm -D --defined-only "$build_dir/libtenure.so" | grep ' tn_' || true)" ]] || offences+=$'\nnothing is exported'
offences+=$(check_exports "$build_dir/libtenure.so")
if [[ -n "$offences" ]]; then
  echo "$offences"
  exit 1
fi

# expect_offence FILE LINE: the rule that LINE in FILE breaks is seen.
expect_offence() {
  rm -rf "$scratch/tree"
  mkdir -p "$scratch/tree"
  cp -r "${folders[@]/#/$source_dir/}" "$scratch/tree"
  echo "$2" >"$scratch/tree/$1"
  [[ -n "$(check_tree "$scratch/tree")" ]] || { echo "not caught: $2 in $1" && exit 1; }
}
expect_offence runtime/new.c '#include "ir/ir.h"'
expect_offence ir/new.h '#  include "codegen/cg.h"'
expect_offence ir/new.c '#include "../frontend/tenure.h"'
expect_offence codegen/new.c '#include "frontend/tenure.h"'
expect_offence frontend/new.c '#include <llvm-c/Core.h>'
expect_offence runtime/new.c '#include <cblas.h>'
expect_offence frontend/new.c '#include "tests/check.h"'
expect_offence frontend/new.c 'uint32_t take(Prog *p) { return p->next_id++; }'
expect_offence frontend/new.c 'uint32_t take(Prog *p) { return ir_new_streams(p, 1); }'
echo 'int tn_good(void); int leaked_name(void); int tn_good(void) { return 1; } int leaked_name(void) { return 2; }' >"$scratch/x.c"
"${TENURE_CC:-cc}" -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"
[[ "$(check_exports "$scratch/x.so")" == *leaked_name* ]] || { echo "an exported name was not caught" && exit 1; }
