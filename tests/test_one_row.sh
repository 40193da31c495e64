#!/usr/bin/env bash
# One row is one row: `witch` is added to a copy of the tree, as one row of ir/ops.def and one literal, and is then a public
# call with a form in place, a line of the reference page, and an op in every test that walks the rows. Without the
# literal the tests fail.
set -euo pipefail
source_dir=${TENURE_SOURCE:?run by ctest} build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$*" && exit 1; }
tree=$scratch/tree
mkdir "$tree"
tar -C "$source_dir" -c --exclude=./build --exclude=./.git --exclude=./shared . | tar -C "$tree" -x

sed -i '/^UNARY(silu,/i UNARY(witch, div(a, add(K(1), square(a))),\
      mul(g, div(sub(K(1), square(a)), square(add(K(1), square(a))))), PURE, "y = a / (1 + a^2)")' \
  "$tree/ir/ops.def"
grep -q '^UNARY(witch' "$tree/ir/ops.def" || fail "the row is not in the copy"

tests=(test_pointwise test_ops test_grad_table test_text test_verify_rules test_misuse test_random)
# Others of the same binary need no compiling.
for other in folds golden grad_edges misuse_calls ops_jit random_reach rules shapes; do
  echo 'int main(int argc, char **argv) { return argc < 0 || !argv; }' >"$tree/tests/test_$other.c"
done
launcher=$(sed -n 's/^CMAKE_C_COMPILER_LAUNCHER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -G Ninja -S "$tree" -B "$scratch/build" -DCMAKE_BUILD_TYPE=None -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_COMPILER_LAUNCHER="$launcher" -DBUILD_TESTING=ON >"$scratch/log" 2>&1 || { tail "$scratch/log" && exit 1; }
rebuild() { cmake --build "$scratch/build" -j2 --target "$@" >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" && exit 1; }; }
run() { ctest --test-dir "$scratch/build" -j2 --output-on-failure -R "^($(IFS='|' && echo "$*"))\$" >"$scratch/ran" 2>&1; }

rebuild tenure_gen "${tests[@]}"
grep -q 'tn_witch_(tn_tensor a, tn_site at);' "$scratch/build/generated/include/tenure_ops.h" || fail "there is no call"
! run test_pointwise || fail "a row without a literal passes"
grep -q 'pointwise_literals.def has no line for witch' "$scratch/ran" || { cat "$scratch/ran" && fail "the missing literal is not named"; }

sed -i '/^LITERAL(silu,/i LITERAL(witch, "a / (1 + a * a)", A(0.75), 0.48, G(0.1792))' "$tree/tests/pointwise_literals.def"
! "$scratch/build/bin/tenure_gen" check-pages "$tree" 2>/dev/null || fail "a page without the row passes"
rebuild pages test_pointwise
"$scratch/build/bin/tenure_gen" check-pages "$tree"
grep -q '^| `witch` | a | .*`tn_witch` `tn_witch_`' "$tree/docs/ops.md" || fail "the page has no line for the row"
run "${tests[@]}" || { cat "$scratch/ran" && exit 1; }
