#!/usr/bin/env bash
# The object of a bundle as linkers and loaders see it: no undefined symbols, no variables, position-independent, every shown
# symbol begins with the bundle's name; its header keeps wrong calls from compiling, and the rest gives a status.
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} source=${TENURE_SOURCE:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tenure=$build/bin/tenure
source "$source/tests/sample.sh"
strict=(-Wall -Wextra -Wpedantic -Werror)
fail() { echo "failed: $*" && exit 1; }
has() { command -v "$1" >/dev/null || { echo "skipped, no $1: $2" && return 1; }; }

cd "$scratch"
"$build/examples/vowels" --data "$source/data/japanese_vowels" --epochs 1 --seeds 1 --out . >log
"$build/examples/aot_models" .

# ---- every target, every form
k=0
check_object() {  # OBJECT NAME
  [[ -z $(nm -u "$1") ]] || fail "$1 has undefined symbols: $(nm -u "$1")"
  # .data.rel.ro: tables with addresses, which loaders make read-only
  readelf -SW "$1" | awk '$2 ~ /^\.(data|bss)$/ || $3 ~ /^\.(data|bss)$/ {size = $2 ~ /^\./ ? $6 : $7; if (size !~ /^0+$/) exit 1}' ||
    fail "$1 has variables"
  readelf -sW "$1" | awk -v name="$2_" '$5 != "LOCAL" && NR > 3 && $8 != "" && index($8, name) != 1 {print; bad = 1} END {exit bad}' ||
    fail "$1 shows symbols without its name"
}
read_only_bytes() {  # code and constants of an object; tables with addresses not
  local sum=0 size
  for size in $(readelf -SW "$1" | sed 's/^ *\[[ 0-9]*\] *//' | awk '$7 ~ /A/ && $7 !~ /W/ {print $5}'); do sum=$((sum + 16#$size)); done
  echo $sum
}
for target in x86-64-v2 x86-64-v3 x86-64-v4 aarch64 riscv64 thumbv8.1m aarch64,stack=4096; do
  for options in "" "--functions=predict" "--size --functions=predict" "--embed-weights --workers"; do
    is_sampled $((k++)) 4 || continue
    # shellcheck disable=SC2086
    "$tenure" bundle vowels.tir -o each --target=$target $options
    check_object each.o each
    bytes=$(read_only_bytes each.o) most=150
    case $options in *predict*) most=31 ;; *embed*) continue ;; esac
    ((bytes > 0 && bytes < most << 10)) || fail "$target $options: $bytes bytes of code and constants, $most KiB are the limit"
  done
done

# Products of whole numbers: of i64 on 32 bits, too
cat >products.tir <<'END'
program @products
dim n <= 70
func @f(%a: i64[3,n,90], %b: i64[90,37], %c: i32[61,80], %d: i32[80,1], %e: u8[n,50], %g: u8[50,41]) {
  %x = matmul %a, %b
  %y = matmul %c, %d
  %z = matmul %e, %g
  output %x {name="x", index=0}
  output %y {name="y", index=1}
  output %z {name="z", index=2}
}
END
for target in x86-64-v2 x86-64-v3 x86-64-v4 aarch64 riscv64 thumbv8.1m aarch64,stack=4096; do
  is_sampled $((k++)) 3 || continue
  "$tenure" bundle products.tir -o each --target=$target
  check_object each.o each
done

# ---- CPUs without a row, 32-bit ones above all: what compilers call there by themselves is in the object
undefined() { readelf -sW "$1" | awk '$7 == "UND" && $8 != "" && $8 != "_GLOBAL_OFFSET_TABLE_" && $8 != ".TOC." {print $8}'; }
for target in i686-unknown-linux-gnu armv7-unknown-linux-gnueabihf riscv32-unknown-elf,features=+m,+a,+f,+d,+c \
  thumbv7em-none-eabihf,cpu=cortex-m7 powerpc64le-unknown-linux-gnu i386-linux-gnu loongarch64-linux-gnu; do
  for options in "spiral.tir" "vowels.tir --size" "products.tir"; do
    is_sampled $((k++)) 4 || continue
    # shellcheck disable=SC2086
    "$tenure" bundle $options -o each --target=$target
    [[ -s each.o && -z $(undefined each.o) ]] || fail "$target $options has undefined symbols: $(undefined each.o)"
  done
done
"$tenure" bundle vowels.tir -o each --target=i386-linux-gnu,cpu=pentium --emit=s
grep -q 'addps' each.s || fail "i386 without SSE computes in more digits than f32 has"

# ---- other formats of objects; the compiler itself refuses what would have undefined symbols
for target in x86_64-pc-windows-gnu x86_64-pc-windows-msvc aarch64-pc-windows-msvc x86_64-apple-darwin arm64-apple-macosx \
  wasm32-unknown-unknown wasm32-wasi,features=+simd128; do
  is_sampled $((k++)) 2 || continue
  rm -f each.o
  "$tenure" bundle vowels.tir -o each --target=$target
  [[ -s each.o ]] || fail "no object for $target"
  rm -f each.o
  "$tenure" bundle vowels.tir -o each --target=$target --embed-weights --functions=predict
  [[ -s each.o ]] || fail "no object for $target with its weights"
done
refused() {  # TARGET SENTENCE
  rm -f each.o
  if "$tenure" bundle vowels.tir -o each --target="$1" 2>log; then fail "$1 is taken"; fi
  grep -qF -- "$2" log && [[ ! -e each.o ]] || fail "$1: $(cat log)"
}
refused riscv32-unknown-elf,features=+m,+f,+d "calls '__atomic_compare_exchange_4', which bundles do not have"
refused thumbv7em-none-eabihf "it has no instructions for floating point: cpu= or features= of one that has"
refused mips64el-linux-gnuabi64 "there are no bundles for 'mips64el-unknown-linux-gnuabi64': the architectures are x86_64, "
refused x86_64-unknown-none-elf,features=-sse2 "features=-sse2: code for x86_64 cannot do without it"
refused s390x-linux-gnu "its memory is big-endian"
refused quantum-linux-gnu "there is no target 'quantum-linux-gnu'"
refused x86_64-linux-gnux32 "its structs have another layout than the architecture's"
refused aarch64-linux-gnu_ilp32 "its structs have another layout than the architecture's"
refused x86-64-v2,aarch64 "is of another family than those before it"

for list in emit functions target; do
  if "$tenure" bundle vowels.tir -o each --$list= 2>log; then fail "an empty --$list is taken"; fi
  grep -q "the list of .* is empty" log || fail "--$list=: $(cat log)"
done

# ---- a bounded stack: what does not fit lies in the arena
"$tenure" bundle vowels.tir -o small --target=x86-64-v2,stack=4096 --workers
check_object small.o small
bytes() { sed -n "s/^#define $1_TRAIN_STEP_ARENA_BYTES \([0-9]*\).*/\1/p" "$2"; }
"$tenure" bundle vowels.tir -o large --target=x86-64-v2 --workers
(($(bytes SMALL small.h) > $(bytes LARGE large.h))) || fail "no blocks in the arena: $(bytes SMALL small.h)"
"$cc" -O2 -I. small_selftest.c small.o -lpthread -o selftest && ./selftest

# ---- links
"$tenure" bundle vowels.tir -o vowels --emit=o,a,so,s,ll,bc --target=x86-64-v2,x86-64-v3
"$tenure" bundle spiral.tir -o spiral --target=x86-64-v2,x86-64-v3  # what valgrind knows
for form in o a so s ll bc h json plan safetensors; do [[ -s vowels.$form ]] || fail "no vowels.$form"; done
check_object vowels.o vowels
"$cc" -shared -nostdlib -Wl,-z,defs -Wl,-z,text vowels.o spiral.o -o both.so
"$cc" -O2 -I. vowels_selftest.c vowels.o -o selftest && ./selftest
"$cc" -O2 -static-pie -fPIE -I. vowels_selftest.c vowels.o -o selftest 2>log && ./selftest
mkdir lib && cp vowels.a lib/libvowels.a
"$cc" -O2 -I. vowels_selftest.c -Llib -lvowels -o selftest && ./selftest
cp vowels.so lib/libvowels.so && rm lib/libvowels.a
"$cc" -O2 -I. vowels_selftest.c -Llib -lvowels -Wl,-rpath,"$PWD/lib" -o selftest && ./selftest
"$tenure" bundle vowels.tir -o each --embed-weights --section=.flash && grep -q ' \.flash ' < <(readelf -SW each.o) || fail "no .flash"

# ---- a name that is not the files'
mkdir q && "$tenure" bundle spiral.tir -o q/file --name=other
"$cc" -O2 -Iq q/file_selftest.c q/file.o -o selftest && ./selftest

# ---- embedding: what an optimizer keeps is 0 and takes no bytes; NAME_init has the arguments that it has without
"$tenure" bundle vowels.tir -o each && size=$(read_only_bytes each.o) weights=$(stat -c %s each.safetensors)
cp each.h plain.h
"$tenure" bundle vowels.tir -o each --embed-weights
(($(read_only_bytes each.o) - size < weights / 2)) || fail "zeros are embedded: $(read_only_bytes each.o) - $size of $weights bytes"
diff <(grep 'int each_init\|INIT_ARENA' plain.h) <(grep 'int each_init\|INIT_ARENA' each.h) || fail "--embed-weights changes NAME_init"
"$cc" -O2 -I. each_selftest.c each.o -o selftest && ./selftest

# ---- the CPU decides
if has qemu-x86_64 "which target a CPU takes"; then
  cat >which.c <<'END'
#include "vowels.h"
#include <stdio.h>
int main(void) {
  puts(vowels_cpu() < 0 ? "none" : vowels_about.targets[vowels_cpu()]);
  return 0;
}
END
  "$cc" -static -I. which.c vowels.o -o which
  for pair in Nehalem:x86-64-v2 Haswell:x86-64-v3 Conroe:none; do
    taken=$(qemu-x86_64 -cpu ${pair%:*} ./which 2>log) || true
    [[ $taken == "${pair#*:}" ]] || fail "${pair%:*} takes '$taken'"
  done
  "$cc" -static -O2 -I. vowels_selftest.c vowels.o -o selftest
  for cpu in Nehalem Haswell; do qemu-x86_64 -cpu $cpu ./selftest 2>log; done
fi

# ---- the header
printf '#include "vowels.h"\n#include "spiral.h"\nint main(void) { return 0; }\n' >only.c
cp only.c only.cpp
sed -n 's,^//   \(.*_state state;\|.*_ARENA_BYTES\];\)$,\1,p' vowels.h >>only.cpp  # as the header's comment has them
[[ $(grep -c ALIGNED only.cpp) == 1 ]] || fail "the header's comment has no arena"
for standard in c99 c11; do "$cc" -std=$standard "${strict[@]}" -I. -fsyntax-only only.c; done
has g++ C++ && g++ -std=c++17 "${strict[@]}" -Wno-unused -I. -fsyntax-only only.cpp
refuses() {  # code of main
  printf '#include "vowels.h"\nstatic vowels_state state;\nVOWELS_ALIGNED static char arena[VOWELS_ARENA_BYTES];\nint main(void) { %s }\n' "$1" >wrong.c
  if "$cc" -std=c11 -Werror -I. -fsyntax-only wrong.c 2>/dev/null; then fail "compiles: $1"; fi
}
refuses 'vowels_predict_in in = {.batch = 1, .tiem = 1}; return (int)in.batch;'
refuses 'vowels_predict_in in = {.label = 0}; return (int)in.batch;'
refuses 'return (int)state.rnn_weight_hh_l9[0][0];'
refuses 'const vowels_state s = state; return vowels_train_step(&s, arena, sizeof arena, 0, 0);'
refuses 'vowels_predict_in in = {0}; vowels_evaluate_out out = {0}; return vowels_predict(&state, arena, sizeof arena, &in, &out);'
grep -q 'float optimizer' vowels.h || fail "no optimizer in the state"

# ---- predict alone
"$tenure" bundle vowels.tir -o p --functions=predict
grep -q 'float optimizer\|p_train_step\|p_evaluate' p.h && fail "predict has a part of training"
grep -q 'p_load(p_state' p.h || fail "no p_load"
"$cc" -O2 -I. p_selftest.c p.o -o selftest && ./selftest

# ---- a part of a program: what initial values are computed from stays, though no function reads it
cat >keep.tir <<'END'
program @keep
param @a : f32[4] trainable
param @b : f32[4] trainable
param @c : f32[4] trainable
func @use_b(%x: f32[4]) {
  %b = param @b
  %y = mul %x, %b
  output %y {name="y", index=0}
}
func @use_c(%x: f32[4]) {
  %c = param @c
  %y = mul %x, %c
  output %y {name="y", index=0}
}
func @init() {
  %a = param @a
  %three = const {value=3}
  %r = full {value=2, shape=[2]}
  %v = slice %a {axis=0, start=1, count=2}
  write %v, %r {no_grad}
  %product = mul %a, %three
  %b = param @b
  write %b, %product {no_grad}
  %c = param @c
  %w = slice %c {axis=0, start=0, count=2}
  write %w, %r {no_grad}
}
END
first_values() { tail -c "$1" keep.safetensors | od -An -t f4 | tr -s ' \n' ' '; }
"$tenure" bundle keep.tir -o keep --functions=use_b
[[ $(first_values 32) == ' 0 2 2 0 0 6 6 0 ' ]] || fail "initial values of a part: $(first_values 32)"
"$tenure" bundle keep.tir -o keep --functions=use_c
[[ $(first_values 16) == ' 2 2 0 0 ' ]] || fail "initial values of one parameter: $(first_values 16)"
grep -q '"a"\|"b"' keep.safetensors && fail "parameters that nothing needs were kept"

# ---- wrong calls
"$cc" -std=c11 -g -O1 "${strict[@]}" -I. "$source/tests/bundle_misuse.c" vowels.o spiral.o -lpthread -o misuse
./misuse spiral.safetensors vowels.safetensors
"$cc" -std=c11 -g -O1 -fsanitize=address,undefined -I. "$source/tests/bundle_misuse.c" vowels.o spiral.o -lpthread -o checked
./checked spiral.safetensors vowels.safetensors
if has valgrind "memory"; then
  valgrind -q --error-exitcode=9 --leak-check=full ./misuse spiral.safetensors vowels.safetensors
fi

# ---- nothing is allocated: calls between two marks come to no malloc
cat >counted.c <<'END'
#include "vowels.h"
#include <stdio.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t n);
static int n_calls;
void *malloc(size_t n) { return n_calls++, __libc_malloc(n); }
void *calloc(size_t n, size_t m) { (void)n, (void)m; return abort(), NULL; }
void *realloc(void *p, size_t n) { (void)p, (void)n; return abort(), NULL; }
static vowels_state state;
VOWELS_ALIGNED static unsigned char arena[VOWELS_ARENA_BYTES], file[VOWELS_FILE_BYTES];
int main(void) {
  static const float x[24];
  static const int64_t length[1] = {2}, label[1] = {1};
  float loss, correct;
  int before = n_calls, status = vowels_init(&state, 1);
  for (int k = 0; k < 3 && !status; k++)
    status = vowels_train_step(&state, arena, sizeof arena, &(vowels_train_step_in){1, 2, x, length, label},
                               &(vowels_train_step_out){&loss, &correct});
  if (!status) status = vowels_save(&state, file, sizeof file, NULL);
  if (!status) status = vowels_load(&state, file, sizeof file);
  return status || n_calls != before;
}
END
"$cc" -std=gnu11 -I. counted.c vowels.o -o counted && ./counted || fail "a call allocates"
echo "objects are as they should be"
