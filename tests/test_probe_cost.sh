#!/usr/bin/env bash
# Instructions of a training step, counted by callgrind: with probes compiled in that are off at most 1,000 more than without.
# Skipped (status 77) where valgrind is not installed.
#
#   tests/test_probe_cost.sh                 prints instructions of a step, without probes and with probes that are off
set -euo pipefail
build=${TENURE_BUILD:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/build/release}
command -v valgrind >/dev/null || { echo "no valgrind: skipped"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# A target without FMA, which valgrind computes by calls, ten times as slowly as all else; what is compiled natively first is
# taken from the cache
export TN_TARGET=generic TN_GEMM=own TN_CACHE=$dir/cache
mkdir -m 700 "$TN_CACHE"

# Of tn_run and all that it calls
step() { # MODEL MODE
  local all
  all=$(valgrind --tool=callgrind --callgrind-out-file=/dev/null --instr-atstart=no --toggle-collect=tn_run \
    "$build/bin/probe_cost" "$1" "$2" 2 2>&1 >/dev/null | sed -n 's/.*Collected : *\([0-9]*\).*/\1/p')
  echo $((all / 2))
}

status=0
for model in vowels transformer; do
  for mode in plain off; do
    "$build/bin/probe_cost" $model $mode 1 >"$dir/out" || { echo "status of $model $mode"; exit 1; }
  done
  plain=$(step $model plain) off=$(step $model off)
  echo "$model: instructions of a step without probes $plain, with probes off $off"
  ((plain > 100000 && off - plain <= 1000)) || { echo "$model: probes that are off cost more than 1,000 instructions"; status=1; }
done
exit $status
