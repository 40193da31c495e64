# What tests of bundles share; sourced. They work in a folder of their own.
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tenure=$build/bin/tenure
fail() { echo "failed: $*" && exit 1; }
has() { command -v "$1" >/dev/null || { echo "skipped, no $1: $2" && return 1; }; }
cd "$scratch"

# network CLASSES WIDTH: a program that trains a layer behind an embedding
network() {
  cat <<TIR
program @net
dim batch <= 6
param @w : f32[$1,$2] trainable
param @table : f32[5,$2] trainable
func @init() {
  %w = param @w
  %u = uniform {lo=-0.5, hi=0.5, id=1, shape=[$1,$2]}
  %a = assign %w, %u
}
func @train_step(%x: f32[batch,$2], %id: i64[batch], %label: u8[batch]) {
  %w = param @w
  %t = param @table
  %e = embedding %t, %id
  %s = add %x, %e
  %z = linear %s, %w
  %l = cast %label {dtype=i64}
  %y, %lse = cross_entropy_rows %z, %l
  %sum = sum %y {axes=[0]}
  %n = dim_size {dim=batch}
  %loss = div %sum, %n
  output %loss {name="loss", index=0}
  %g = grad_of %sum, %w
  %next = sub %w, %g
  %new = assign %w, %next
}
TIR
}
