#!/usr/bin/env bash
# Constants in the objects of bundles: beside code and tables they take their bytes, once for two functions and three targets,
# in .rodata; compiling is bounded; called, they have the bits that the compiler has (NAME_selftest.c).
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "failed: $*" && exit 1; }
read_only() {  # of an object: bytes of .rodata
  readelf -SW "$1" | sed 's/^ *\[[ 0-9]*\] *//' | awk '$1 == ".rodata" {print $5}'
}

cd "$scratch"
"$build/bin/test_constant_sizes" WRITE . >log || fail "$(cat log)"
declare -A width=([f32]=4 [bf16]=2 [i64]=8 [u8]=1 [bool]=1)
for dtype in f32 bf16 i64 u8 bool; do
  for n in 4095 4096 4097 1000000; do
    targets=x86-64-v2
    ((n != 4097 && n != 1000000)) || targets=x86-64-v2,x86-64-v3,x86-64-v4
    timeout 300 "$build/bin/tenure" bundle "${dtype}_$n.tir" -o c --target=$targets || fail "$dtype $n: status $?"
    bytes=$((n * width[$dtype])) found=$((16#$(read_only c.o))) all=$(stat -c %s c.o)
    ((found >= bytes && found < bytes + 16384)) || fail "$dtype $n: $found bytes of .rodata for $bytes"
    ((all < bytes + 65536)) || fail "$dtype $n: an object of $all bytes for $bytes"
    [[ $n != 4097 && $n != 1000000 ]] || { "$cc" -O1 -I. c_selftest.c c.o -o selftest && ./selftest >log; } || fail "$dtype $n: $(cat log)"
  done
done
