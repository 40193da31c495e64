#!/usr/bin/env bash
# What both shared libraries export is what the lists in tests/abi/ say. A name that is gone breaks programs that were linked
# before: it wants a new soname (cmake/shared.cmake). A new one is only added to the list:
#
#   tests/test_abi.sh --update       # over build/release; read the diff
#
# The headers of the run-time part declare what libtenure_runtime has, and its private symbols are those that libtenure takes.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build=${TENURE_BUILD:-$source_dir/build/release}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "$*" && exit 1; }

exported() { nm -D --defined-only "$1" | awk '$NF ~ /@@/ { print $NF }' | LC_ALL=C sort; }
for library in libtenure libtenure_runtime; do
  exported "$build/$library.so" >"$scratch/$library.symbols"
  [[ "${1:-}" == --update ]] && cp "$scratch/$library.symbols" "$source_dir/tests/abi/"
done

# changes LIST SYMBOLS: what is gone and what is new
changes() {
  LC_ALL=C comm -23 "$1" "$2" | sed 's/^/gone: /'
  LC_ALL=C comm -13 "$1" "$2" | sed 's/^/new: /'
}
for library in libtenure libtenure_runtime; do
  offences=$(changes "$source_dir/tests/abi/$library.symbols" "$scratch/$library.symbols")
  [[ -z "$offences" ]] || fail "$library.so: $offences"$'\n'"(tests/test_abi.sh --update writes the lists anew; its head says when that is right)"
done

# declared HEADER..: public functions. C++ sees them as they are.
declared() { cat "$@" | tr '\n' ' ' | grep -oE 'TN_API [^;{]*\([^;]*\);' | sed -E 's/\(.*//; s/.*[ *]//' | LC_ALL=C sort; }
cd "$source_dir/frontend/tenure"
declared base.h distributed.h model.h model_probe.h params.h run.h data.h loader.h runtime.h >"$scratch/declared"
sed -n 's/@@TENURE_0$//p' "$scratch/libtenure_runtime.symbols" >"$scratch/public"
[[ -s $scratch/declared ]] || fail "no declarations were found"
offences=$(changes "$scratch/declared" "$scratch/public")
[[ -z "$offences" ]] || fail "the headers of the run-time part do not declare what libtenure_runtime.so has: $offences"

nm -D "$build/libtenure.so" | awk '$1 == "U" { print $2 }' | sed -n 's/@TENURE_PRIVATE$//p' | LC_ALL=C sort >"$scratch/taken"
sed -n 's/@@TENURE_PRIVATE$//p' "$scratch/libtenure_runtime.symbols" >"$scratch/private"
offences=$(changes "$scratch/taken" "$scratch/private")
[[ -z "$offences" ]] || fail "RT_API marks other functions than libtenure.so calls: $offences"

grep -v '^tn_run@' "$scratch/libtenure_runtime.symbols" >"$scratch/less"
[[ "$(changes "$scratch/libtenure_runtime.symbols" "$scratch/less")" == "gone: tn_run@@TENURE_0" ]] || fail "a lost symbol is not seen"
