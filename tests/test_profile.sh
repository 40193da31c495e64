#!/usr/bin/env bash
# TN_PROFILE prints a table of kernels, TN_TRACE writes their times as a JSON trace; without them neither happens. The table adds
# up, whatever number of workers ran, and tells equal layers apart.
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

# Two words of a kernel's name, calls, least and mean time, share: shares sum to 100 %, in descending order; no least time above
# its mean; initialisation stands below without a share.
sums() {
  sed -n '/^function /,$p' "$1" | awk -v what="$2" '
    $1 == "function" { end(); next }
    NF < 12 { next }
    $5 > $6 { print what ": least above mean: " $0; bad = 1 }
    $1 == "init" { if ($7 != "-") { print what ": a share of initialisation: " $0; bad = 1 } else n_init++; next }
    $8 == "%" {
      if (n_init || n && $7 > last) { print what ": out of order: " $0; bad = 1 }
      sum += last = $7; n++
    }
    function end() {
      if (n && (sum < 100 - 0.06 * n || sum > 100 + 0.06 * n)) { print what ": shares sum to " sum; bad = 1 }
      all += n; sum = n = n_init = 0
    }
    END { end(); exit bad || !all }'
}
sums "$dir/table" test_model || fail "the sums of the table"
for what in "1 8" "2 8" "2 64"; do # workers, width; the tiny one has work for one worker
  TN_PROFILE=1 "$TENURE_BUILD/bin/test_module_paths" --run $what >"$dir/tiny" 2>&1 || fail "a small model, $what"
  sums "$dir/tiny" "$what" || fail "the sums of a small model, $what"
  grep -q '^init ' "$dir/tiny" || fail "initialisation is not shown"
  for layer in {0..11}; do
    grep -Eq "^step .* test_module_paths.c:[0-9]+ in h\.$layer\.fc\$" "$dir/tiny" || fail "layer $layer is not named"
  done
done

# Two instances at once lose no count: every row has the calls of both.
TN_PROFILE=1 "$TENURE_BUILD/bin/test_module_paths" --two 20000 >"$dir/two" 2>&1 || fail "two instances"
wrong=$(grep '^step ' "$dir/two" | sed 's/^[^]]*\] *//' | awk '$1 != 40000' | wc -l)
(($(grep -c '^step ' "$dir/two") > 12 && wrong == 0)) || fail "calls of two instances: $wrong rows have others"
TN_TRACE=$dir/two.json "$TENURE_BUILD/bin/test_module_paths" --two 20 >/dev/null 2>&1 || fail "a trace of two instances"
for pid in 1 2; do
  (($(grep -c "\"ph\": \"X\", \"pid\": $pid, " "$dir/two.json") > 20 * 12)) || fail "instance $pid in the trace"
done

TN_TRACE=$dir/trace.json "$program" >"$dir/traced" 2>&1 || fail "the program with TN_TRACE"
grep -q 'GFLOP/s' "$dir/traced" && fail "a table beside the trace"
head -n 1 "$dir/trace.json" | grep -q '^{"displayTimeUnit": "ns", "traceEvents": \[$' || fail "the head of the trace"
tail -n 1 "$dir/trace.json" | grep -q '^\]}$' || fail "the end of the trace"
events=$(grep -c '"ph": "X"' "$dir/trace.json")
((events > 3)) || fail "$events events"
lines=$(($(grep -vc '"ph": "M"' "$dir/trace.json") - 2))
good=$(grep -Ec '^\{"name": "[^"]+", "cat": "[^"]+", "ph": "X", "pid": [0-9]+, "tid": [0-9]+, "ts": [0-9.]+, "dur": [0-9.]+\},$' "$dir/trace.json")
((good == lines)) || fail "$good of $lines lines are events"

TN_TRACE=$dir/no/such/folder/trace.json "$program" >/dev/null 2>&1 || fail "a trace that cannot be written stops the program"
echo "$n_failed failed"
((n_failed == 0))
