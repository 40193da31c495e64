#!/usr/bin/env bash
# tools/check_names: docs and comments of the tree name what exists, and every rule is noticed when it is broken in a copy.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
"$source_dir/tools/check_names" "$source_dir"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
mkdir "$tree"
(cd "$source_dir" && cp -r README.md LICENSE data runtime ir codegen frontend mpi docs tests tools bench examples cmake CMakeLists.txt CMakePresets.json "$tree")

# breaks TEXT FILE LINE: LINE at the end of FILE makes the checker print TEXT.
wanted=()
breaks() {
  printf '%s\n' "$3" >>"$tree/$2"
  wanted+=("$1")
}
breaks 'docs/design.md:[0-9]*: cg_went_missing: no such name' docs/design.md 'What cg_went_missing does.'
breaks 'docs/design.md:[0-9]*: plain_gone: no such name' docs/design.md 'A word `plain_gone` in backticks.'
breaks 'docs/design.md:[0-9]*: relux: no such name' docs/design.md 'One word, `relux`.'
breaks 'docs/design.md:[0-9]*: codegen/abi.c: no such file' docs/design.md 'See codegen/abi.c.'
breaks 'docs/design.md:[0-9]*: E999: no such diagnostic' docs/design.md 'It is E999.'
breaks 'docs/design.md:[0-9]*: unroll: no such pass' docs/design.md 'Then pass `unroll` runs.'
breaks 'docs/design.md:[0-9]*: TN_GONE: no such name' docs/design.md 'Set TN_GONE=1.'
breaks 'docs/experiments/README.md:[0-9]*: gone.md: a link to no file' docs/experiments/README.md 'See [this](gone.md#part).'
breaks 'ir/build.c:[0-9]*: loop_bodies: no such name' ir/build.c '// What loop_bodies leaves.'
breaks 'ir/build.c:[0-9]*: gone.h: no such file' ir/build.c $'/* first\n   gone.h */ int unused_here;'
breaks 'ir/build.c:[0-9]*: TORNADO: no such class' ir/build.c 'int c; // of class TORNADO'
breaks 'ir/ops.def:[0-9]*: rt_gone: no such name' ir/ops.def '// rt_gone'
breaks 'tools/lib.sh:[0-9]*: TENURE_GONE: no such name' tools/lib.sh '# TENURE_GONE is read'
breaks 'docs/ir.md: no attribute gone_key' ir/attrs.def 'ATTR(gone_key, INT)'
breaks 'codegen/tuning.h:[0-9]*: no page 999 ' codegen/tuning.h '  X(ABSENT, 1, 999, "an experiment that there is not")'
mkdir "$tree/ir/newroom"
breaks 'ir/newroom: no README.md' ir/newroom/new.c 'int new_room;'
# and what is no name of ours is let through
printf '%s\n' 'Words like `0.5`, `%x`, `ratio-min`, tests/test_NAME.c and FILE.tir; %not_a_name.' >>"$tree/docs/design.md"
printf '%s\n' 'int f(void) { return "// tn_in_a_string" != 0; }' >>"$tree/ir/build.c"

if "$source_dir/tools/check_names" "$tree" >"$scratch/out"; then echo "a broken tree passes" && exit 1; fi
n_failed=0
for text in "${wanted[@]}"; do
  grep -q "$text" "$scratch/out" || { echo "not noticed: $text" && n_failed=1; }
done
[[ $(wc -l <"$scratch/out") == "${#wanted[@]}" ]] || { echo "more than was broken:" && cat "$scratch/out" && n_failed=1; }
exit "$n_failed"
