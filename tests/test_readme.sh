#!/usr/bin/env bash
# The README's example compiles without a warning, runs, and learns what it is shown.
set -euo pipefail
source_dir=${TENURE_SOURCE:?run by ctest} build=${TENURE_BUILD:?run by ctest}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" && mkdir build && ln -s "$source_dir/frontend" frontend && ln -s "$build" build/release  # a tree as the reader has it
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source_dir/README.md" >model.c
command=$(sed -n 's/^    cc //p' "$source_dir/README.md")
[[ -n $command ]] || { echo "the README does not say how to compile its example" && exit 1; }
sanitize=$(grep -q '^TENURE_SANITIZE:BOOL=ON' "$build/CMakeCache.txt" && echo "-fsanitize=address,undefined" || true)
eval "${TENURE_CC:-cc} -std=gnu17 -Wall -Wextra -Werror $sanitize $command"
./model >"$scratch/out"
head -n 1 "$scratch/out" | grep -E '^loss 0\.0' || { head -n 5 "$scratch/out" && exit 1; }
