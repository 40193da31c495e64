#!/usr/bin/env bash
# The examples in the docstrings of the public headers are C that compiles: each block of indented code, among the names that
# tests/docstrings.h declares. `..` stands for arguments of the reader's own.
set -euo pipefail
source_dir=${TENURE_SOURCE:?run by ctest}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# blocks HEADER: a function for each block; its own types and functions before it.
blocks() {
  awk -v header="$(basename "$1" .h)" '
    function flush() {
      if (body != "") printf "%s#line %d \"%s.h\"\nstatic int use_%s_%d(void) {\n%sreturn 0; }\n", own, first - 1, header, header, first, body
      body = own = ""; depth = 0
    }
    !/^\/\/   / { flush(); next }
    {
      line = substr($0, 6)
      if (body == "" && own == "") first = NR
      sub(/ +\/\/ .*/, "", line)
      if (line ~ /^#include/) next
      gsub(/, \.\.\)/, ", TN_IN(tn_f32(xs, 1)), TN_OUT(tn_f32(xs, 1)))", line)
      gsub(/\(\.\.\)/, "(tn_f32(xs, 1))", line)
      if (depth || line ~ /^(static|typedef) /) {
        own = own line "\n"
        depth += gsub(/{/, "{", line) - gsub(/}/, "}", line)
      } else body = body line "\n"
    }
    END { flush() }' "$1" | awk '
    # Lines of prose that only are indented have no semicolon.
    /^#line/ { if (keep) printf "%s", text; text = ""; keep = 0 }
    { text = text $0 "\n"; if (/;$/) keep = 1 }
    END { if (keep) printf "%s", text }'
}
n=0
for header in "$source_dir"/frontend/tenure/*.h; do
  name=$(basename "$header" .h)
  { echo "#define IN_$name"; echo '#include "tests/docstrings.h"'; blocks "$header"; } >"$scratch/$name.c"
  n=$((n + $(grep -c '^static int use_' "$scratch/$name.c" || true)))
  "${TENURE_CC:-cc}" -std=gnu17 -Wall -Wno-unused -Werror -fsyntax-only -I "$source_dir" -I "${TENURE_BUILD:?run by ctest}/generated/include" "$scratch/$name.c" || bad=1
done
((n >= 30)) || { echo "only $n examples were found" && exit 1; }
[[ -z ${bad:-} ]] || exit 1
echo "$n examples compile"
