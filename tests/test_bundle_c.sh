#!/usr/bin/env bash
# A bundle as C99: gcc compiles it as strict C99 without a warning, and its selftest finds the values of this machine; what it
# computes is no undefined behaviour of C. Kernels of every room, integers of all widths, large angles, several threads; the
# same training with pointers of 32 bits, where there is a machine of such.
source "${TENURE_SOURCE:?run by ctest}/tests/bundles.sh"
strict=(-std=c99 -Wall -Wextra -Wpedantic -Werror -Wno-unused-parameter -fno-sanitize-recover=all)

network 40 32 >net.tir
cat >rooms.tir <<'TIR'
program @rooms
dim n <= 70
func @products(%a: f32[n,90], %b: f32[90,37], %c: i64[3,n,20], %d: i64[20,7], %e: u8[n,50], %g: u8[50,4]) {
  %x = matmul %a, %b
  %s = softmax %x
  %y = matmul %c, %d
  %z = matmul %e, %g
  output %s {name="s", index=0}
  output %y {name="y", index=1}
  output %z {name="z", index=2}
}
func @fourier(%x: f32[n,90], %w: f32[2,n,34]) {
  %r = rfft %x
  %b = rfft_grad %r {size=90, weighted}
  %q = rfft %w {bins_first}
  output %b {name="b", index=0}
  output %q {name="q", index=1}
}
func @image(%x: f32[2,9,9,3], %k: f32[4,3,3,3], %g: f32[2,9,9,4]) {
  %c = conv %x, %k {stride=[1,1], pad=[1,1,1,1], dilation=[1,1], groups=1}
  %w = conv_weight_grad %x, %g {stride=[1,1], pad=[1,1,1,1], dilation=[1,1], groups=1, shape=[3,3]}
  %e = exp %c
  output %e {name="e", index=0}
  output %w {name="w", index=1}
}
func @numbers(%x: f32[7,30], %big: f32[50]) {
  %c = cumsum %x {axis=1}
  %a = argmax %x
  %s = sin %big
  %r = erf %c
  %t = cast %c {dtype=i32}
  %h = cast %c {dtype=bf16}
  %u = cast %h {dtype=f32}
  %m = sum %u {axes=[1]}
  output %r {name="r", index=0}
  output %a {name="a", index=1}
  output %s {name="sines", index=2}
  output %t {name="t", index=3}
  output %m {name="m", index=4}
}
func @order(%x: f32[6,300], %at: i64[6,9], %n: i64[2,300]) {
  %o, %p = sort %n {axis=1, descending}
  %v, %i = topk %x {axis=1, size=5, descending}
  %s, %j = sort %x {axis=1}
  %g = gather %s, %at {axis=1}
  output %v {name="v", index=0}
  output %i {name="i", index=1}
  output %j {name="j", index=2}
  output %g {name="g", index=3}
  output %o {name="o", index=4}
  output %p {name="p", index=5}
}
func @layers(%q: f32[1,2,7,8], %k: f32[1,2,7,8], %v: f32[1,2,7,8], %x: f32[32,20], %w: f32[20,5], %image: f32[2,8,8,4]) {
  %y, %lse = sdpa %q, %k, %v
  %layout = dense_layout {dim=8, time=4}
  %rows, %h, %c, %all, %states, %gates = rnn_seq %x, %layout, %w {cell="lstm"}
  %pooled, %from = max_pool %image {shape=[4,4], kernel=[2,2], stride=[2,2], pad=[0,0], dilation=[1,1]}
  output %y {name="y", index=0}
  output %rows {name="rows", index=1}
  output %pooled {name="pooled", index=2}
}
TIR

build() {  # FILE.tir NAME FLAG-OF-THE-COMPILER [OPTIONS]
  "$tenure" bundle "$1" -o "$2" --emit=c "${@:4}"
  "$cc" "$3" "${strict[@]}" -c "$2.c" -o "$2.o" || fail "$2.c is not C99"
  "$cc" "$3" -I. "$2_selftest.c" "$2.o" -lpthread -lm -o "$2" && "./$2" | tee log
  grep -q 'passed' log || fail "$2"
}
build net.tir net -O1 --workers
build rooms.tir rooms -fsanitize=undefined,float-cast-overflow --embed-weights
grep -q 'net_train_step_worker(' net.c || fail "no entry for threads"

# ---- pointers of 32 bits
refused() {  # SENTENCE OPTIONS..
  if "$tenure" bundle net.tir -o no "${@:2}" 2>log; then fail "${*:2} is taken"; fi
  grep -qF -- "$1" log && [[ ! -e no.c ]] || fail "${*:2}: $(cat log)"
}
refused "C is written for target 'c64' or 'c32'" --emit=c --target=x86-64-v3
refused "C is for any machine, objects and assembly are for one" --emit=c,o
refused "there is no target 'c64'" --target=c64
"$tenure" bundle net.tir -o small --emit=c --target=c32
if "$cc" -std=c99 -c small.c 2>log; then fail "pointers of 64 bits where 32 are expected"; fi
cat >run.c <<'END'
#include "model.h"
#include <string.h>
#ifdef __wasm__
void *memset(void *to, int byte, size_t n) { for (char *at = to; n--;) *at++ = (char)byte; return to; }
void *memcpy(void *to, const void *from, size_t n) { for (char *at = to; n--;) *at++ = *(const char *)from, from = (const char *)from + 1; return to; }
int memcmp(const void *a, const void *b, size_t n) { for (; n--; a = (const char *)a + 1, b = (const char *)b + 1) if (*(const char *)a != *(const char *)b) return 1; return 0; }
double ldexp(double x, int n) { for (; n > 0; n--) x *= 2; return x; }
#else
#include <stdio.h>
#endif
static net_state state;
NET_ALIGNED static unsigned char arena[NET_ARENA_BYTES + 64];
double run(void) {
  static float x[6 * 32];
  int64_t id[6];
  uint8_t label[6];
  float loss = 0;
  int status = net_init(&state, 1);
  for (int k = 0; k < 192; k++) x[k] = (float)(k * 37 % 101) / 101;
  for (int k = 0; k < 6; k++) id[k] = k % 5, label[k] = (uint8_t)(k * 7);
  net_train_step_in in = {6, x, id, label};
  net_train_step_out out = {&loss};
  for (int k = 0; k < 5; k++) status |= net_train_step(&state, arena, sizeof arena, &in, &out);
  return status ? -status : loss;
}
#ifndef __wasm__
int main(void) { return printf("%.4f\n", run()) < 0; }
#endif
END
cp net.h model.h && "$cc" -O1 -I. run.c net.o -lm -o run && ./run >here
if has clang-19 "C with pointers of 32 bits" && has node "it" && has wasm-ld-19 "it"; then
  "$tenure" bundle net.tir -o small --name=net --emit=c --target=c32
  cp small.h model.h
  mkdir -p include && for file in string.h math.h; do
    echo '#include <stddef.h>
void *memset(void *, int, size_t); void *memcpy(void *, const void *, size_t); void *memmove(void *, const void *, size_t); double ldexp(double, int);
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
float roundf(float); double round(double); float truncf(float); double trunc(double); float sqrtf(float); float fmodf(float, float);' >include/$file
  done
  clang-19 --target=wasm32 -std=c99 -O1 -ffreestanding -fno-math-errno -Wno-incompatible-library-redeclaration -nostdlib -Iinclude -I. \
    -Wl,--no-entry -Wl,--export=run small.c run.c -o run.wasm
  node -e 'WebAssembly.instantiate(require("fs").readFileSync("run.wasm"), {}).then(m => console.log(m.instance.exports.run().toFixed(4)))' >there
  diff here there || fail "other values with pointers of 32 bits"
fi
echo "passed: C of $(wc -c <rooms.c) bytes for five functions"
