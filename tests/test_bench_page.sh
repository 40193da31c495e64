#!/usr/bin/env bash
# tools/bench --report: a page with every workload that was asked for, and what it says of wrong options.
set -u
bench=$TENURE_BUILD/bin/tenure_bench
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n_failed=0

fail() {
  echo "failed: $1"
  n_failed=$((n_failed + 1))
}

"$bench" --report "$dir/page.html" --steps 5 --rounds 1 tiny >"$dir/out" 2>&1 || fail "status of a report"
grep -q 'page.html: 1 cases$' "$dir/out" || fail "last line of a report"
for want in '<h1>tenure bench</h1>' '<td>tiny' '<svg viewBox' 'not compared' '</html>'; do
  grep -q "$want" "$dir/page.html" || fail "page without $want"
done
grep -q 'src=\|href=' "$dir/page.html" && fail "the page reads other files"
"$bench" --report "$dir/page.html" nosuch >"$dir/out" 2>&1 && fail "an unknown workload passes"
grep -q 'no workload nosuch' "$dir/out" || fail "message for an unknown workload"
"$bench" --report >"$dir/out" 2>&1 && fail "a report without a file passes"
"$bench" --report "$dir/no/folder/page.html" --steps 5 --rounds 1 tiny >"$dir/out" 2>&1 && fail "a page that cannot be written passes"
grep -q 'cannot be written' "$dir/out" || fail "message for a page that cannot be written"
echo "$n_failed failed"
((n_failed == 0))
