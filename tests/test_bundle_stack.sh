#!/usr/bin/env bash
# NAME_f_STACK_BYTES beside what calls take: the stack is painted, the function is called, and what is no longer painted was used.
# No call takes more than its macro says, and no macro says much more than that.
source "${TENURE_SOURCE:?run by ctest}/tests/bundles.sh"
network 40 32 >net.tir
cat >>net.tir <<'TIR'
func @image(%x: f32[2,9,9,3], %k: f32[4,3,3,3]) {
  %c = conv %x, %k {stride=[1,1], pad=[1,1,1,1], dilation=[1,1], groups=1}
  %e = exp %c
  %p = softmax %e
  output %p {name="p", index=0}
}
func @count(%x: i64[7,300]) {
  %s = sum %x {axes=[1]}
  %c = cumsum %x {axis=1}
  output %s {name="s", index=0}
  output %c {name="c", index=1}
}
TIR

cat >run.c <<'END'
#include "net.h"
enum { SIZE = 1 << 16 };
static net_state state;
NET_ALIGNED static unsigned char arena[NET_ARENA_BYTES + 64];
static float x[6 * 32], loss, image[2 * 3 * 81], weight[4 * 27], p[2 * 4 * 81];
static int64_t id[6], numbers[2100], s[7], c[2100];
static uint8_t label[6];
static int status;

static void nothing(void) {}
static void init(void) { status |= net_init(&state, 1); }
static void train(void) {
  net_train_step_in in = {6, x, id, label};
  net_train_step_out out = {&loss};
  status |= net_train_step(&state, arena, sizeof arena, &in, &out);
}
static void convolve(void) {
  net_image_in in = {image, weight};
  net_image_out out = {p};
  status |= net_image(&state, arena, sizeof arena, &in, &out);
}
static void count(void) {
  net_count_in in = {numbers};
  net_count_out out = {s, c};
  status |= net_count(&state, arena, sizeof arena, &in, &out);
}

static __attribute__((noinline)) void paint(void) {
  volatile unsigned char bytes[SIZE];
  for (int k = 0; k < SIZE; k++) bytes[k] = 0x5a;
}
// Bytes below this frame that a call changes
static __attribute__((noinline)) long used(void (*volatile call)(void)) {
  volatile unsigned char *top = __builtin_frame_address(0), *at = top - SIZE + 1024;
  paint();
  call();
  while (at < top && *at == 0x5a) at++;
  return (long)(top - at);
}
// 0: the bound holds; 1: it is too low; 2: it is much too high. The callers above take some 100 bytes themselves.
static int check(void (*call)(void), long most) {
  long n = used(call) - used(nothing);
  return n > most + 128 ? 1 : most > 2 * n + 1024 ? 2 : 0;
}
static int run(void) {
  int wrong = check(init, NET_INIT_STACK_BYTES) | check(train, NET_TRAIN_STEP_STACK_BYTES) << 2 |
              check(convolve, NET_IMAGE_STACK_BYTES) << 4 | check(count, NET_COUNT_STACK_BYTES) << 6;
  return status ? 255 : wrong;
}
#if defined(HOSTED)
int main(void) { return run(); }
#else
#if defined(__aarch64__)
#define LEAVE(code) register long a __asm__("x0") = code, b __asm__("x8") = 93; __asm__ volatile("svc 0" ::"r"(a), "r"(b))
__attribute__((naked)) void _start(void) { __asm__("bl start"); }
#elif defined(__riscv)
#define LEAVE(code) register long a __asm__("a0") = code, b __asm__("a7") = 93; __asm__ volatile("ecall" ::"r"(a), "r"(b))
__attribute__((naked)) void _start(void) { __asm__(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\ncall start"); }
#elif defined(__arm__)
#define LEAVE(code) register long a __asm__("r0") = code, b __asm__("r7") = 1; __asm__ volatile("svc 0" ::"r"(a), "r"(b))
__attribute__((naked)) void _start(void) { __asm__("bl start"); }
#elif defined(__i386__)
#define LEAVE(code) __asm__ volatile("int $0x80" ::"a"(1), "b"(code))
__attribute__((naked)) void _start(void) { __asm__("and $-16, %esp\ncall start"); }
#endif
void start(void) {
  LEAVE(run());
  __builtin_trap();
}
#endif
END
measured() {  # TARGET COMMAND..: how the program is run
  local status=0 target=$1
  "$tenure" bundle net.tir -o net --target="$target"
  case $target in
  x86-64*) "$cc" -O1 -DHOSTED -static -I. run.c net.o -o run ;;
  *) clang-19 --target="${triple:-${target%%,*}-linux-gnu}" -O1 -ffreestanding -fno-stack-protector -fno-pic -nostdlib -static -fuse-ld=lld -I. run.c net.o -o run ;;
  esac
  "${@:2}" ./run || status=$?
  [[ $status == 0 ]] || fail "$target: status $status (two bits each of init, train_step, image, count; 1: too low, 2: too high): $(grep STACK net.h | tr '\n' ' ')"
}
measured x86-64-v2
if has qemu-x86_64 "x86-64-v3"; then measured x86-64-v3 qemu-x86_64 -cpu max; fi
if has clang-19 "other targets" && has ld.lld-19 "other targets"; then
  if has qemu-aarch64 AArch64; then measured aarch64 qemu-aarch64; fi
  if has qemu-riscv64 RISC-V; then measured riscv64,features=-v qemu-riscv64; fi
  if has qemu-arm Arm; then triple=armv7-linux-gnueabihf measured armv7-unknown-linux-gnueabihf qemu-arm; fi
  if has qemu-i386 i686; then triple=i686-linux-gnu measured i686-unknown-linux-gnu qemu-i386; fi
fi
grep -q '"stack_bytes": [1-9]' net.json || fail "no stack in the JSON"
"$tenure" bundle net.tir -o net --target=riscv64
if grep -q STACK_BYTES net.h; then fail "vectors of any size have no figure"; fi
echo "stacks are as said"
