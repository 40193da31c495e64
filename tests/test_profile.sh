#!/usr/bin/env bash
# TN_PROFILE prints a table of kernels, TN_TRACE writes their times as a JSON trace; without them neither happens.
set -u
program=$TENURE_BUILD/bin/test_model
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n_failed=0

fail() {
  echo "failed: $1"
  n_failed=$((n_failed + 1))
}

export TN_CACHE=$dir/cache
"$program" >"$dir/plain" 2>&1 || fail "the program"
grep -q 'GFLOP/s' "$dir/plain" && fail "a table that nobody asked for"
TN_PROFILE=1 "$program" >"$dir/table" 2>&1 || fail "the program with TN_PROFILE"
grep -Eq '^function +kernel +calls +min us' "$dir/table" || fail "the head of the table"
grep -Eq '^[a-z_]+ +[a-z_,]+[^ ]* \[.*\] +[0-9]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ %' "$dir/table" || fail "rows of the table"

TN_TRACE=$dir/trace.json "$program" >"$dir/traced" 2>&1 || fail "the program with TN_TRACE"
grep -q 'GFLOP/s' "$dir/traced" && fail "a table beside the trace"
head -n 1 "$dir/trace.json" | grep -q '^{"displayTimeUnit": "ns", "traceEvents": \[$' || fail "the head of the trace"
tail -n 1 "$dir/trace.json" | grep -q '^\]}$' || fail "the end of the trace"
events=$(grep -c '"ph": "X"' "$dir/trace.json")
((events > 3)) || fail "$events events"
lines=$(($(wc -l <"$dir/trace.json") - 3))
good=$(grep -Ec '^\{"name": "[^"]+", "cat": "[^"]+", "ph": "X", "pid": 1, "tid": [0-9]+, "ts": [0-9.]+, "dur": [0-9.]+\},$' "$dir/trace.json")
((good == lines)) || fail "$good of $lines lines are events"

TN_TRACE=$dir/no/such/folder/trace.json "$program" >/dev/null 2>&1 || fail "a trace that cannot be written stops the program"
echo "$n_failed failed"
((n_failed == 0))
