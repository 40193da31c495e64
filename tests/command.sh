# What tests of the `tenure` command share; sourced. They work in a folder of their own.
set -u
tenure=$TENURE_BUILD/bin/tenure
n_failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1

fail() { echo "$*" && n_failed=$((n_failed + 1)); }

# check STATUS TEXT ARGS..: runs the command; its output (both streams) must contain TEXT
check() {
  local want=$1 text=$2 out status
  shift 2
  out=$("$tenure" "$@" 2>&1 </dev/null)
  status=$?
  [[ $status == "$want" && $out == *"$text"* ]] && return 0
  fail "tenure $*: status $status (expected $want), expected to contain: $text"
  echo "$out"
}

# check_json STATUS STATEMENTS ARGS..: its standard output is JSON, of which they hold (tests/json_query.c says how they look)
check_json() {
  local want=$1 expression=$2 status
  shift 2
  "$tenure" "$@" >out.json 2>err.txt </dev/null
  status=$?
  [[ $status == "$want" ]] || { fail "tenure $*: status $status (expected $want)" && cat err.txt; }
  "$TENURE_BUILD/bin/json_query" out.json "$expression" && return 0
  fail "tenure $*: not true of its JSON: $expression"
  head -c 2000 out.json
}

# sums_hold JSON NAME: what tenure explain --peak --json says, of each function: all sums and the padding are the arena
sums_hold() {
  local k=0 by statements
  while "$TENURE_BUILD/bin/json_query" "$1" ".$k.function"; do
    statements=".$k.function"
    for by in values kinds modules lines; do
      statements+=" and sum .$k.peak.$by.*.bytes + .$k.peak.padding_and_holes = .$k.peak.bytes"
    done
    "$TENURE_BUILD/bin/json_query" "$1" "$statements" || fail "the peak of $2, function $k, is not the sum of its parts"
    k=$((k + 1))
  done 2>/dev/null
  ((k)) || fail "$2 has no function"
}

# A training step: two products, a scope, a loss, an update.
cat >step.tir <<'TIR'
program @small
dim batch <= 8
param @w : f32[32,32] trainable
func @step(%x: f32[batch,32], %y: i64[batch]) {  // m.c:1
  scope forward {                                // m.c:2
    %w = param @w                                // m.c:3
    %h = matmul %x, %w                           // m.c:4
    %a = relu %h                                 // m.c:5
    %z = matmul %a, %w                           // m.c:6
    move %z {scope=0}                            // m.c:7
  }                                              // m.c:8
  %loss, %lse = cross_entropy_rows %z, %y        // m.c:9
  %sum = sum %loss {axes=[0]}                    // m.c:10
  output %sum {name="loss", index=0}             // m.c:11
  %g = grad_of %sum, %w                          // m.c:12
  %next = sub %w, %g                             // m.c:13
  %new = assign %w, %next                        // m.c:14
}                                                // m.c:15
TIR
printf 'program @bad\nfunc @f(%%x: f32[4]) {\n  %%y = rleu %%x\n}\n' >bad.tir
