#!/usr/bin/env bash
# The programs of examples/aot and examples/embedded, from text to numbers: trained from a bundle, vowels has the bits of the
# same training in this process; on other machines, which qemu emulates, its accuracy; learners without an operating system.
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} source=${TENURE_SOURCE:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tenure=$build/bin/tenure aot=$source/examples/aot embedded=$source/examples/embedded
data=$source/data/japanese_vowels
strict=(-O2 -Wall -Wextra -Wpedantic -Werror)
epochs=40 emulated=4  # qemu takes a hundred times as long

fail() { echo "failed: $*" && exit 1; }
has() { command -v "$1" >/dev/null || { echo "skipped, no $1: $2" && return 1; }; }
parameters() { tail -c "+$((9 + $(od -An -tu8 -N8 "$1")))" "$1"; }  # of a safetensors file, behind its header
accuracy() { sed -n 's/^test accuracy //p' "$1"; }
close_to() { awk -v a="$1" -v b="$2" 'BEGIN {exit !(a - b < 0.0051 && b - a < 0.0051)}' || fail "accuracies $1 and $2 ($3)"; }

cd "$scratch"
"$build/examples/vowels" --data "$data" --epochs 1 --seeds 1 --out . >log
"$build/examples/aot_models" .
"$build/examples/aot_data" "$data/JapaneseVowels_TRAIN.ts" train.bin
"$build/examples/aot_data" "$data/JapaneseVowels_TEST.ts" test.bin
"$tenure" bundle vowels.tir -o vowels
"$tenure" bundle spiral.tir -o spiral --workers

# ---- this machine
[[ $(wc -l <"$aot/vowels.c") -lt 80 ]] || fail "vowels.c has 80 lines or more"
"$cc" -std=c11 "${strict[@]}" -I. "$aot/vowels.c" vowels.o -o train
./train --help 2>usage && grep -q EPOCHS usage || fail "vowels --help"
[[ $(./train train.bin 2>/dev/null; echo $?) == 2 ]] || fail "vowels without a test set"
./train train.bin test.bin $epochs trained.safetensors | tee here
"$build/bin/bundle_vowels" vowels.tir train.bin $epochs trained.safetensors
"$cc" -std=c11 "${strict[@]}" -I. "$aot/two.c" vowels.o spiral.o -o two && ./two
"$cc" -std=c11 "${strict[@]}" -I. "$aot/threads.c" spiral.o -lpthread -lm -o threads && ./threads
for cxx in g++ clang++-19; do
  has $cxx "spiral.cpp" || continue
  $cxx -std=c++17 "${strict[@]}" -I. "$aot/spiral.cpp" spiral.o -o points && ./points
done

# ---- as an outside project
cmake --install "$build" --prefix "$scratch/prefix" >log
cmake -G Ninja -S "$aot" -B outside -DCMAKE_PREFIX_PATH="$scratch/prefix" -DMODELS="$scratch" -DCMAKE_C_COMPILER="$cc" >log
cmake --build outside >log || { cat log && exit 1; }
cmake --build outside --target vowels_selftest >log || { cat log && exit 1; }
outside/points && outside/two && outside/threads && outside/vowels_selftest
grep -q tenure < <(ldd outside/train) && fail "an outside program is linked with Tenure"

# ---- other machines, with a C library
for target in aarch64 riscv64; do
  if ! has $target-linux-gnu-gcc "$target" || ! has qemu-$target "$target"; then continue; fi
  cpu=(-cpu max) && [[ $target == riscv64 ]] && cpu=(-cpu rv64,v=true,vext_spec=v1.0,vlen=128)
  mkdir -p $target
  "$tenure" bundle vowels.tir -o $target/vowels --target=$target
  $target-linux-gnu-gcc -std=c11 "${strict[@]}" -static -I$target "$aot/vowels.c" $target/vowels.o -o $target/train
  $target-linux-gnu-gcc -std=c11 "${strict[@]}" -static -I$target $target/vowels_selftest.c $target/vowels.o -o $target/selftest
  qemu-$target "${cpu[@]}" $target/selftest
  [[ $target == aarch64 ]] || continue
  ./train train.bin test.bin $emulated here.safetensors >here
  qemu-$target "${cpu[@]}" $target/train train.bin test.bin $emulated there.safetensors | tee there
  if grep -qw fma /proc/cpuinfo; then  # where a b + d is rounded once, it is the same bits
    cmp <(parameters here.safetensors) <(parameters there.safetensors) || fail "$target trains other parameters"
    cmp here there || fail "$target has another loss"
  fi
  close_to "$(accuracy here)" "$(accuracy there)" $target
done

# ---- as C99, by any compiler
mkdir -p as_c
"$tenure" bundle vowels.tir -o as_c/vowels --emit=c
"$tenure" bundle spiral.tir -o as_c/spiral --emit=c --workers
"$cc" -std=c99 "${strict[@]}" -Wno-unused-parameter -c as_c/vowels.c -o as_c/vowels.o
"$cc" -std=c99 "${strict[@]}" -Wno-unused-parameter -c as_c/spiral.c -o as_c/spiral.o
"$cc" -std=c99 "${strict[@]}" -Ias_c "$aot/vowels.c" as_c/vowels.o -lm -o as_c/train
./train train.bin test.bin $emulated >here
as_c/train train.bin test.bin $emulated | tee there
close_to "$(accuracy here)" "$(accuracy there)" C99
"$cc" -std=c11 "${strict[@]}" -Ias_c "$aot/two.c" as_c/vowels.o as_c/spiral.o -lm -o as_c/two && as_c/two
"$cc" -std=c11 "${strict[@]}" -Ias_c "$aot/threads.c" as_c/spiral.o -lpthread -lm -o as_c/threads && as_c/threads

# ---- without a system
learner() {  # FOLDER TARGET FILES.. -- FLAGS..
  local folder=$1 target=$2 files=() && shift 2
  while [[ $1 != -- ]]; do files+=("$embedded/$1") && shift; done
  shift
  mkdir -p "$folder" && cp train.bin "$folder"
  "$tenure" bundle speaker.tir -o "$folder/speaker" --target="$target"
  (cd "$folder" && clang-19 "$@" -O2 -Wall -Wextra -Werror -ffreestanding -fno-stack-protector -nostdlib -static \
    -fuse-ld=lld -I. "${files[@]}" "$embedded/learner.c" "$embedded/data.S" speaker.o -o learner)
}
if has clang-19 learner && has ld.lld-19 learner && has qemu-aarch64 "learner of aarch64"; then
  learner bare aarch64 start_aarch64.c -- --target=aarch64-linux-gnu
  qemu-aarch64 bare/learner | tee said
  grep -q 'stack: .* of 16384 bytes' said || fail "the learner's stack"
fi
if has clang-19 learner && has ld.lld-19 learner && has qemu-system-arm "learner of Cortex-M55"; then
  learner m55 thumbv8.1m start_cortex_m55.c -- --target=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55 -mfloat-abi=hard \
    -T "$embedded/mps3.ld"
  timeout 500 qemu-system-arm -M mps3-an547 -nographic -semihosting -kernel m55/learner 2>&1 | tee said  # semihosting writes to stderr
  grep -q 'stack: .* of 16384 bytes' said || fail "the learner's stack"
fi
echo "all examples run"
