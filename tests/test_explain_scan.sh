#!/usr/bin/env bash
# Seeing a scan: what `tenure explain` says of the values of its body.
set -u
tenure=$TENURE_BUILD/bin/tenure
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n_failed=0

cat >"$dir/scan.tir" <<'TIR'
program @p
func @f(%xs: f32[8,2,4], %h0: f32[2,4], %w: f32[4,4]) {
  scan_begin {scan=0, time=8, name="cell"}
  %x = scan_input %xs {scan=0}
  %h = scan_carry %h0 {scan=0, index=0}
  %p = matmul %x, %w
  %s = softmax %p
  %a = add %h, %s
  %n = tanh %a
  scan_next %n {scan=0, index=0}
  %ys = scan_output %n {scan=0, time=8}
  scan_end {scan=0}
  output %ys {index=0, name="ys"}
}
TIR

# check TEXT ARGS..: status 0, and the output contains TEXT.
check() {
  local text=$1 out
  shift
  out=$(cd "$dir" && "$tenure" "$@" 2>&1) && [[ $out == *"$text"* ]] && return 0
  echo "missing: $text; tenure $*: $out"
  n_failed=$((n_failed + 1))
}

check "In body @f.cell, which a scan runs in every step, it is add in kernel" explain scan.tir %a
check "it is matmul in kernel 0 of" explain scan.tir %p
check "it is input of the step: a slice, a carry or a captured value." explain scan.tir %h
check "%ys is f32[8,2,4], made by scan_output, now scan at" explain scan.tir %ys
check "body @f.cell(" opt scan.tir --passes=all --facts --dump-after=verify_plan
exit $((n_failed != 0))
