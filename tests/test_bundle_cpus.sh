#!/usr/bin/env bash
# Bundles for CPUs that are named: their objects have no instruction that the CPU lacks, NAME_cpu says what a CPU lacks, and what
# an emulator knows runs.
source "${TENURE_SOURCE:?run by ctest}/tests/bundles.sh"
source "$TENURE_SOURCE/tests/sample.sh"
network 3 4 >net.tir

# ---- instructions
lacking() {  # OBJECT OBJDUMP'S OPTIONS..: instructions that the CPU does not know; words between them are constants
  llvm-objdump-19 -d --no-show-raw-insn "${@:2}" "$1" | grep -c '<unknown>' || true
}
k=0
pair() {  # TARGET OBJDUMP'S OPTIONS..
  is_sampled $((k++)) 3 || return 0
  "$tenure" bundle net.tir -o net --target="$1" || fail "$1"
  if has llvm-objdump-19 "instructions of $1"; then
    n=$(lacking net.o "${@:2}")
    [[ $n == 0 ]] || fail "$1: $n instructions that it lacks: $(llvm-objdump-19 -d "${@:2}" net.o | grep -m 3 '<unknown>')"
  fi
}
never() {  # TARGET PATTERN: no such operand or instruction is there, as of vectors that the CPU lacks
  if ! has llvm-objdump-19 "instructions of $1"; then return; fi
  "$tenure" bundle net.tir -o net --target="$1"
  llvm-objdump-19 -d --no-show-raw-insn --mattr="${3:-}" net.o >code
  if grep -E -m 3 "$2" code; then fail "$1 has $2"; fi
}
# Every CPU of a triple: by what the disassembler knows of it
while read -r triple cpus; do
  case $triple in
  riscv64) words=,features=-v ;;
  riscv32*) words=,features=+f ;;
  *) words= ;;
  esac
  for cpu in $cpus; do pair "$triple$words,cpu=$cpu" --mcpu="${cpu%%,*}"; done
done <<'CPUS'
thumbv7em-none-eabihf cortex-m4 cortex-m7
thumbv8m.main-none-eabihf cortex-m33
thumbv8.1m.main-none-eabihf cortex-m55 cortex-m85
armv7-unknown-linux-gnueabihf cortex-a5 cortex-a9 cortex-a15
aarch64 cortex-a53 cortex-a76 cortex-x4 neoverse-v1 a64fx ampere1 apple-m1
aarch64-none-elf cortex-r82
arm64-apple-macosx apple-m1
riscv64 generic-rv64 sifive-u74 sifive-p450,features=-unaligned-vector-mem sifive-x280 veyron-v1,features=-xventanacondops
riscv32-unknown-elf sifive-e24 sifive-e76
CPUS
pair riscv64 --mattr=+m,+a,+f,+d,+c,+v
pair riscv64,features=-c --mattr=+m,+a,+f,+d,+v
pair riscv64,features=-v --mattr=+m,+a,+f,+d,+c
pair riscv32-unknown-elf,features=+m,+a,+f --mattr=+m,+a,+f
pair riscv32-unknown-elf,features=+m,+a,+f,+c,abi=ilp32 --mattr=+m,+a,+f,+c
pair riscv64,features=-v,abi=lp64 --mattr=+m,+a,+f,+d,+c

# x86's disassembler knows all instructions of all CPUs: by operands and names. What a level lacks, the levels below lack.
avx='[yz]mm|\bv(mul|add|mov|sub|div|broadcast)' avx2='\bv(fn?m(add|sub)|perm[dqp]|pbroadcast|p?gather|cvtph2ps)|\b(shlx|shrx|sarx|mulx|rorx|pdep|pext|bzhi|andn|blsr|blsi|bextr|lzcnt|movbe)\b'
avx512='zmm|%k[0-7]|[xy]mm(1[6-9]|2[0-9]|3[01])' newer='\bv(pdp|dpbf16|cvtne|cvtps2phx|addph|mulph|fmadd[123]*ph)|%r(1[6-9]|2[0-9]|3[01])\b'
level() {  # PATTERN LEVEL CPUS..
  for cpu in "${@:3}"; do
    if is_sampled $((k++)) 2; then never "$2,cpu=$cpu" "$1"; fi
  done
}
level "$avx|$avx2|$avx512|$newer" x86-64-v2 nehalem goldmont
level "$avx2|$avx512|$newer" x86_64-linux-gnu sandybridge btver2
level "$avx512|$newer" x86-64-v3 haswell skylake alderlake znver3
level "$newer" x86-64-v4 skylake-avx512
level "$avx|$avx2|$avx512|$newer" i686-unknown-linux-gnu pentium4
level "$avx|$avx2|$avx512|$newer|-0x[0-9a-f]+\(%rsp\)" x86_64-none-elf x86-64  # the last: no red zone
level "$avx512|$newer|-0x[0-9a-f]+\(%rsp\)" x86_64-none-elf haswell
never thumbv7em-none-eabihf,cpu=cortex-m4 '\.f64' +vfp4

refused() {  # TARGET SENTENCE
  if "$tenure" bundle net.tir -o net --target="$1" 2>log; then fail "$1 is taken"; fi
  grep -qF -- "$2" log || fail "$1: $(cat log)"
}
refused thumbv7em-none-eabihf,cpu=cortex-m33 "cpu=cortex-m33 is no CPU of thumbv7em: its triple begins with thumbv8m.main"
refused thumbv8.1m.main-none-eabihf,cpu=cortex-m4 "its triple begins with thumbv7em"
refused arm64-apple-macosx,cpu=apple-m4 "a program could not ask whether its CPU has '"
refused riscv64,features=-v,abi=lp65 "lp65"
refused riscv64,cpu=veyron-v1 "a program could not ask whether its CPU has 'xventanacondops'"
refused riscv64,features=-v,+xtheadba "a program could not ask whether its CPU has 'xtheadba'"

# ---- NAME_cpu, and a step, on CPUs that an emulator knows
cat >run.c <<'END'
#include "net.h"
static net_state state;
NET_ALIGNED static unsigned char arena[NET_ARENA_BYTES + 64];
static int run(void) {  // 100: the CPU lacks something; 0: it runs
  static float x[8] = {1, 2, 3, 4}, loss;
  static int64_t id[2] = {4, 1};
  static uint8_t label[2] = {2, 0};
  net_train_step_in in = {2, x, id, label};
  net_train_step_out out = {&loss};
  if (net_cpu() < 0) return net_init(&state, 1) ? 100 : 1;
  int status = net_init(&state, 1);
  if (!status) status = net_train_step(&state, arena, sizeof arena, &in, &out);
  return status || !(loss > 0.1f && loss < 20) ? 2 : 0;
}
#if defined(__aarch64__)
__attribute__((naked)) void _start(void) { __asm__("bl start"); }
void start(void) {
  register long code __asm__("x0") = run(), number __asm__("x8") = 93;
  __asm__ volatile("svc 0" ::"r"(code), "r"(number));
}
#elif defined(__riscv)
__attribute__((naked)) void _start(void) { __asm__(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\ncall start"); }
void start(void) {
  register long code __asm__("a0") = run(), number __asm__("a7") = 93;
  __asm__ volatile("ecall" ::"r"(code), "r"(number));
}
#else
int main(void) { return run(); }
#endif
END
made=
emulated() {  # STATUS TARGET QEMU CPU
  if [[ $made != "$2" ]]; then
    "$tenure" bundle net.tir -o net --target="$2"
    case $2 in
    x86*) "$cc" -O1 -static -I. run.c net.o -o run ;;
    *) clang-19 --target="${2%%,*}-linux-gnu" -O1 -ffreestanding -fno-stack-protector -nostdlib -static -fuse-ld=lld -I. run.c net.o -o run ;;
    esac
    made=$2
  fi
  status=0
  "$3" -cpu "$4" ./run 2>log || status=$?
  [[ $status == "$1" ]] || fail "$2 on $4: status $status, not $1 $(cat log)"
}
if has qemu-x86_64 "x86-64"; then
  emulated 100 x86-64-v3,cpu=haswell qemu-x86_64 Nehalem
  emulated 0 x86-64-v3,cpu=haswell qemu-x86_64 Haswell
  emulated 100 x86-64-v2,cpu=skylake qemu-x86_64 Nehalem
  emulated 100 x86-64-v3,cpu=znver4 qemu-x86_64 Haswell
  emulated 0 x86-64-v2,cpu=nehalem qemu-x86_64 Nehalem
  emulated 100 x86-64-v2,features=+egpr qemu-x86_64 max
  emulated 100 x86_64-none-elf,cpu=haswell qemu-x86_64 Nehalem
  emulated 0 x86_64-none-elf,cpu=haswell qemu-x86_64 Haswell
fi
if has qemu-aarch64 AArch64 && has clang-19 AArch64 && has ld.lld-19 AArch64; then
  emulated 0 aarch64 qemu-aarch64 cortex-a53
  emulated 100 aarch64,features=+sve qemu-aarch64 cortex-a53
  emulated 0 aarch64,features=+sve qemu-aarch64 max
  emulated 100 aarch64,cpu=apple-m1 qemu-aarch64 cortex-a53
  emulated 0 aarch64,cpu=cortex-a76 qemu-aarch64 cortex-a76
fi
if has qemu-riscv64 RISC-V && has clang-19 RISC-V && has ld.lld-19 RISC-V; then
  emulated 100 riscv64 qemu-riscv64 rv64
  emulated 0 riscv64 qemu-riscv64 rv64,v=true,vext_spec=v1.0,vlen=128
  emulated 0 riscv64,features=-v qemu-riscv64 rv64
  emulated 100 riscv64,features=+zvl256b,lanes=8 qemu-riscv64 rv64,v=true,vext_spec=v1.0,vlen=128
  emulated 0 riscv64,features=+zvl256b,lanes=8 qemu-riscv64 rv64,v=true,vext_spec=v1.0,vlen=256
fi
echo "objects have what their CPUs have"
