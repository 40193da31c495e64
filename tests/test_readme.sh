#!/usr/bin/env bash
# The README's example compiles without a warning, runs, and learns what it is shown.
set -euo pipefail
source_dir=${TENURE_SOURCE:?run by ctest} build=${TENURE_BUILD:?run by ctest}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk '/^```c$/ { on = 1; next } /^```$/ { on = 0 } on' "$source_dir/README.md" >"$scratch/example.c"
sanitize=$(grep -q '^TENURE_SANITIZE:BOOL=ON' "$build/CMakeCache.txt" && echo "-fsanitize=address,undefined" || true)
"${TENURE_CC:-cc}" -std=gnu17 -Wall -Wextra -Werror $sanitize -I "$source_dir" -I "$build/generated/include" "$scratch/example.c" -o "$scratch/example" \
  -L "$build" -ltenure "-Wl,-rpath,$build"
"$scratch/example" >"$scratch/out"
head -n 1 "$scratch/out" | grep -E '^loss 0\.0' || { head -n 5 "$scratch/out" && exit 1; }
