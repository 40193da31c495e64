#!/usr/bin/env bash
# Every public call that is given a model or a loader has its row in frontend/run/calls.def, which says what it does
# while another call is under way, and tenure.h names those that wait. Ends by leaving a row out, to see that it is missed.
set -euo pipefail
cd "${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

rows() { sed -nE "s/^(MODEL|LOADER)_CALL\((tn_[a-z0-9_]+), ($1)\).*/\2/p" "$2" | LC_ALL=C sort; }

# missing TABLE: calls of the headers without a row, and rows without a call. tn_compile and tn_loader_new make what they give.
missing() {
  cat frontend/tenure/*.h | tr '\n' ' ' | grep -oE 'TN_API [^;{]*\([^;]*\);' |
    grep -E '\((.*[ (,])?(const )?(tn_model|tn_loader|tn_part) \*' | sed -E 's/\(.*//; s/.*[ *]//' | LC_ALL=C sort >"$scratch/calls"
  rows 'REFUSED|WAITS|FREE' "$1" >"$scratch/rows"
  LC_ALL=C comm -3 "$scratch/calls" "$scratch/rows"
}
found=$(missing frontend/run/calls.def)
[[ -z "$found" ]] || { echo "without a row, or without a call: $found" && exit 1; }
grep -vE 'CALL\(tn_save,' frontend/run/calls.def >"$scratch/calls.def"
[[ "$(missing "$scratch/calls.def")" == tn_save ]] || { echo "a row that is left out is not missed" && exit 1; }

threads=$(sed -n '/^\/\/ Threads\./,/^#ifndef/p' frontend/tenure.h)
for call in $(rows WAITS frontend/run/calls.def); do
  grep -qw "$call" <<<"$threads" || { echo "tenure.h does not say that $call waits" && exit 1; }
done
