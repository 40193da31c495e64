#!/usr/bin/env bash
# tools/bench: a page or a table with every workload that was asked for, several peers in turn, and what it says of wrong options.
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

# what the machine allows: by a workload's own figures, or as the compiler counts it
"$bench" tiny --steps 5 --rounds 1 >"$dir/out" 2>&1 || fail "status of tiny"
grep -Eq '^arithmetic +[0-9.]+ kFLOP: .* at peak, reached ' "$dir/out" || fail "arithmetic of tiny"
grep -Eq '^limit +(arithmetic|memory), as the compiler counts the step: ' "$dir/out" || fail "the limit of tiny"
for workload in tiny vowels softmax; do
  "$bench" $workload --steps 1 --rounds 1 --json --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of $workload"
  grep -Eq '"limit": "(arithmetic|memory)", "reached": [0-9.]*[1-9]' "$dir/out" || fail "$workload has no limit"
done

# each way of a peer has its own settings, and all of them
cat >"$dir/peer" <<'EOF'
#!/bin/sh
echo "$MALLOC_MMAP_MAX_ $MALLOC_TRIM_THRESHOLD_ $THP_MEM_ALLOC_ENABLE $TENURE_PEER_LAYOUT $TENURE_PEER_FORM" >>"${0%/*}/ways"
EOF
chmod +x "$dir/peer"
ways() {  # WORKLOAD CASE WANTED
  rm -f "$dir/ways"
  "$bench" "$1" --case "$2" --vs torch --python "$dir/peer" --steps 1 --rounds 1 --root "$TENURE_SOURCE" >"$dir/out" 2>&1
  [[ $(LC_ALL=C sort "$dir/ways" | tr '\n' '|') == "$3" ]] || fail "settings of the peer's ways of $1: $(cat "$dir/ways")"
}
tuned="0 30000000000 1"
ways packed_attention "short training" "$tuned  loop|$tuned  nested|$tuned  padded|"
ways pool "forward global 4 2048 7x7 1 1 0" "    |   first |$tuned  |$tuned first |"

# cases that are not listed: lengths of sequences
for workload in "packed_attention short training causal" "packed_transformer short causal"; do
  "$bench" ${workload%% *} --case "${workload#* }" --steps 1 --rounds 1 --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of $workload"
  grep -Eq '^limit +(arithmetic|memory), by the workload.s own figures: ' "$dir/out" || fail "$workload has no limit"
done

# the table in a Markdown page: what stands around it stays, an older table goes
table() { "$bench" --report "$dir/page.md" --steps 5 --rounds 1 --root "$TENURE_SOURCE" "$@" tiny >"$dir/out" 2>&1; }
printf '%s\n' before '<!-- bench table: written by tools/bench --report -->' old '<!-- end of bench table -->' after >"$dir/page.md"
table --commit abc123 || fail "status of a table"
grep -q '^Commit abc123, [0-9]* threads. Probe, .* GFLOP/s .* GB/s.$' "$dir/page.md" || fail "commit and probe above the table"
grep -Eq '^\| `tiny` \| [0-9.]+ us \| \| \| \| \| [0-9.e+-]+ % of the (FMA peak|bandwidth) \|.* ms \| [0-9]+ MB \|$' "$dir/page.md" || fail "a row of the table"
[[ $(head -n 1 "$dir/page.md") == before && $(tail -n 1 "$dir/page.md") == after ]] || fail "what stands around the table"
grep -q '^old$' "$dir/page.md" && fail "the old table is still there"
table || fail "status of a second table"
[[ $(grep -c '^| workload ' "$dir/page.md") == 1 ]] || fail "one table after two reports"
printf 'no place\n' >"$dir/page.md"
table && fail "a page without a place for the table passes"
grep -q "page.md lacks the lines '<!-- bench table" "$dir/out" || fail "message for a page without a place"
[[ $(cat "$dir/page.md") == "no place" ]] || fail "a page without a place is changed"
rm "$dir/page.md"
table && fail "a Markdown page that is not there passes"
grep -q 'page.md cannot be read' "$dir/out" || fail "message for a Markdown page that is not there"

# refuses TEXT OPTION..: it fails before it measures anything, and says TEXT
refuses() {
  local text=$1
  shift
  "$bench" "$@" --root "$TENURE_SOURCE" >"$dir/out" 2>&1 && fail "passes: $*"
  grep -q -- "$text" "$dir/out" || fail "$*: no '$text' in: $(cat "$dir/out")"
}

refuses "gemm has no case '3 4'" gemm --case "3 4"
refuses "tiny has no cases" tiny --case x
refuses "vowels has no peer jax; it has torch torch-compile" vowels --vs jax
refuses "tiny has no peer openblas" tiny --vs torch,openblas
refuses "gave no answer" tiny --steps 5 --rounds 1 --vs torch --python /bin/false
refuses "/nowhere/python cannot be run" tiny --steps 5 --rounds 1 --vs torch --python /nowhere/python
refuses "rounds wants a number from 1 to 1000, not 'x'" tiny --rounds x
"$bench" tiny --steps >"$dir/out" 2>&1 && fail "an option without a value passes"
grep -q "steps wants a value" "$dir/out" || fail "message for an option without a value"
refuses "no option --frob" tiny --frob 1
refuses "one workload at a time" tiny chain

# peers: a program each, that answers in turn with the others
cat >"$dir/peer" <<'END'
#!/usr/bin/env bash
while read -r line; do
  if [[ $line == check ]]; then echo "loss 0.2435787"; else echo "1.5 2.5"; fi
done
END
chmod +x "$dir/peer"
"$bench" tiny --steps 5 --rounds 1 --vs torch,jax --python "$dir/peer" --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "two peers"
grep -q 'tiny against jax: ratio-min [0-9]' "$dir/out" || fail "a line for each peer"
tail -n 1 "$dir/out" | grep -Eqx 'tiny reaches [0-9.]+ % of its limit, ratio-min [0-9.]+ ratio-median [0-9.]+ beside (torch|jax) \((stock|tuned)\)' ||
  fail "the last line"
"$bench" tiny --steps 5 --rounds 1 --vs torch,jax --python "$dir/peer" --root "$TENURE_SOURCE" --json >"$dir/out" 2>&1 || fail "JSON"
grep -q '"peers": \[{"name": "torch", .*{"name": "jax", .*}\]}$' "$dir/out" || fail "peers in JSON"
"$bench" --report "$dir/page.html" --steps 5 --rounds 1 --vs torch,openblas --python "$dir/peer" --root "$TENURE_SOURCE" tiny >"$dir/out" 2>&1 || fail "a report with peers"
grep -q 'times; <small>torch' "$dir/page.html" || fail "a bar for the peer"
printf '%s\n' '<!-- bench table: written by tools/bench --report -->' '<!-- end of bench table -->' >"$dir/page.md"
table --vs torch,jax --python "$dir/peer" || fail "a table with peers"
grep -q '^| `tiny` | [0-9.]* us | jax | [0-9.]* ms | [0-9.]* | [0-9.]* |' "$dir/page.md" || fail "a row for each peer"

# of a peer's ways the fastest counts: this one is fast where it keeps its pages; --stock has it as it is installed
sed -i 's/^while/fast=${MALLOC_MMAP_MAX_:+1}\nwhile/; s/echo "1.5 2.5"/echo "${fast:-3}.5 4.5"/' "$dir/peer"
way() { "$bench" tiny --steps 5 --rounds 1 --vs torch --python "$dir/peer" --root "$TENURE_SOURCE" "$@" >"$dir/out" 2>&1; }
way || fail "a peer of two ways"
grep -Eq '^torch +min +1.500 ms ' "$dir/out" && grep -Eq '^best way +tuned$' "$dir/out" || fail "the fastest way"
way --stock || fail "a peer as installed"
grep -Eq '^torch +min +3.500 ms ' "$dir/out" && grep -Eq '^best way +stock$' "$dir/out" || fail "the way as installed"

# bytes of a step, and a step in parts of its arena, with the same bits
grep_row() { grep -Eq -- "^\| $1 \|\$" "$dir/out" || fail "no row '$1' in: $(cat "$dir/out")"; }
cat >"$dir/bytes" <<'END'
#!/usr/bin/env bash
while read -r line; do
  case $line in
  check) echo "loss 0.2435787" ;;
  peak) echo "1048576 3145728" ;;
  again) echo ok ;;
  *) echo "5 2.5" ;;
  esac
done
END
chmod +x "$dir/bytes"
"$bench" memory --case lstm64 --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of memory"
grep_row 'lstm64 \| tenure \| 1[0-9.]+ \| [0-9.]+ \| [0-9.]+ \| 1.00 \| 1.00 \| [0-9]+, 1.00'
grep_row 'lstm64 \| tenure --recompute \| [0-9.]+ \| [0-9.]+ \| [0-9.]+ \| 0.9[0-9] \| 0.9[0-9] \| [0-9]+, 0.9[0-9]'
"$bench" memory --case tiny --vs jax,torch --python "$dir/bytes" --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of memory with peers"
grep_row 'tiny \| jax \| 1.0 \| 3.0 \| 4.0 \| [0-9.]+ \| [0-9.]+ \|'
grep_row 'tiny \| torch \| 1.0 \| 3.0 \| 4.0 \| [0-9.]+ \| [0-9.]+ \| 2, [0-9.]+'
"$bench" curve --case lstm64 --steps 1 --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of a curve: $(cat "$dir/out")"
grep_row 'lstm64 \| 75 % \| [0-9.]+ \| [0-9]+, [1-9][0-9]* \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \| .* % \| same'
grep_row 'lstm64 \| 25 % \| refused: with kernels that run again [0-9.]+ MiB is the least that was found, [0-9.]+ MiB too much \|.*'
"$bench" curve --case tiny --vs torch --steps 1 --python "$dir/bytes" --root "$TENURE_SOURCE" >"$dir/out" 2>&1 || fail "status of a curve with a peer"
grep_row 'tiny \| torch again \| 1.0 \| \| \| 5.0 \| \| \|'
refuses "no workload nosuch" memory --case nosuch
refuses "gemm has no function with a plan" curve --case gemm
sed -i 's/0.2435787/0.2436/' "$dir/peer" "$dir/bytes"
refuses "results from the same weights differ" memory --case tiny --vs jax --python "$dir/bytes"
refuses "results from the same weights differ" tiny --steps 5 --rounds 1 --vs torch --python "$dir/peer"
echo "$n_failed failed"
((n_failed == 0))
