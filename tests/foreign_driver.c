// Runs one entry function on the machine that it was compiled for, without a C library: a run on stdin, its results on
// stdout, both as tests/foreign.h says. Compiled by clang for each target and linked with the object of a program.
#include "runtime/abi.h"
#include "tests/foreign_format.h"

#include <stddef.h>

void tenure_entry(TnFrame *f, int32_t worker, int32_t n_workers);  // the function, by --defsym
extern const int64_t tenure_block_bytes;                           // of its program, likewise

// ---- the system: read 0, write 1, exit
#if defined(__x86_64__)
enum { CALL_READ = 0, CALL_WRITE = 1, CALL_EXIT = 60 };
static long system_call(long number, long a, long b, long c) {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
enum { CALL_READ = 63, CALL_WRITE = 64, CALL_EXIT = 93 };
static long system_call(long number, long a, long b, long c) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}
#elif defined(__riscv)
enum { CALL_READ = 63, CALL_WRITE = 64, CALL_EXIT = 93 };
static long system_call(long number, long a, long b, long c) {
  register long a7 __asm__("a7") = number, a0 __asm__("a0") = a, a1 __asm__("a1") = b, a2 __asm__("a2") = c;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
  return a0;
}
#elif defined(__arm__)
// No system: the debugger's calls, as qemu answers them.
enum { CALL_OPEN = 0x01, CALL_WRITE = 0x05, CALL_READ = 0x06, CALL_EXIT = 0x20 };
static int ask_host(int number, void *arg) {
  register int r0 __asm__("r0") = number;
  register void *r1 __asm__("r1") = arg;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

static int file_of(int number) {
  static int file[2];  // 0: not open yet
  int write = number == CALL_WRITE,
      arg[] = {(int)(write ? "/dev/stdout" : "/dev/stdin"), write ? 5 : 1, write ? 11 : 10};
  if (!file[write]) file[write] = ask_host(CALL_OPEN, arg);
  return file[write];
}

// Bytes that were not moved are what the host answers.
static long system_call(long number, long a, long b, long c) {
  int exit[] = {0x20026, (int)a}, move[] = {0, (int)b, (int)c};
  if (number == CALL_EXIT) return ask_host(CALL_EXIT, exit);
  move[0] = file_of((int)number);
  return c - ask_host((int)number, move);
}
#endif

static void leave(int status) {
  for (;;) system_call(CALL_EXIT, status, 0, 0);
}

static void get(void *to, int64_t n) {
  for (unsigned char *at = to; n;) {
    long got = system_call(CALL_READ, 0, (long)at, (long)n);
    if (got <= 0) leave(3);
    at += got, n -= got;
  }
}

static void put(const void *from, int64_t n) {
  for (const unsigned char *at = from; n;) {
    long done = system_call(CALL_WRITE, 1, (long)at, (long)n);
    if (done <= 0) leave(4);
    at += done, n -= done;
  }
}

// ---- what a compiler may call. Products of 64 bits and more are instructions everywhere; quotients are not.
void *memcpy(void *to, const void *from, size_t n) {
  volatile unsigned char *a = to;
  for (const unsigned char *b = from; n; n--) *a++ = *b++;
  return to;
}
void *memset(void *to, int byte, size_t n) {
  for (volatile unsigned char *a = to; n; n--) *a++ = (unsigned char)byte;
  return to;
}
#if defined(__arm__)
void __aeabi_memcpy(void *to, const void *from, size_t n) { memcpy(to, from, n); }
void __aeabi_memcpy4(void *to, const void *from, size_t n) { memcpy(to, from, n); }
void __aeabi_memcpy8(void *to, const void *from, size_t n) { memcpy(to, from, n); }
void __aeabi_memclr(void *to, size_t n) { memset(to, 0, n); }
void __aeabi_memclr4(void *to, size_t n) { memset(to, 0, n); }
void __aeabi_memclr8(void *to, size_t n) { memset(to, 0, n); }

// Quotient in r0:r1, remainder in r2:r3: a structure of two would come back in memory.
__attribute__((used)) static uint64_t divide(uint64_t n, uint64_t d, uint64_t *rest) {
  uint64_t q = 0, r = 0;
  for (int bit = 63; bit >= 0; bit--) {
    r = r << 1 | (n >> bit & 1);
    q <<= 1;
    if (r >= d) r -= d, q |= 1;
  }
  *rest = r;
  return q;
}
__attribute__((naked)) void __aeabi_uldivmod(void) {
  __asm__("push {r6, lr}\n sub sp, sp, #16\n add r6, sp, #8\n str r6, [sp]\n bl divide\n"
          "ldr r2, [sp, #8]\n ldr r3, [sp, #12]\n add sp, sp, #16\n pop {r6, pc}");
}

static uint64_t bits_of(double x) {
  union {
    double f;
    uint64_t u;
  } v = {x};
  return v.u;
}
// Helpers of the runtime ABI take numbers in general registers, whatever the calls of a program do.
#define BASE_CALL __attribute__((pcs("aapcs")))
BASE_CALL uint64_t __aeabi_d2ulz(double x) {
  uint64_t bits = bits_of(x), significand = (bits & (~0ull >> 12)) | 1ull << 52;
  int exponent = (int)(bits >> 52 & 0x7ff) - 1075;
  if (exponent < -63 || bits >> 63) return 0;
  return exponent < 0 ? significand >> -exponent : significand << (exponent & 63);
}
BASE_CALL int64_t __aeabi_d2lz(double x) {
  int64_t n = (int64_t)__aeabi_d2ulz(x < 0 ? -x : x);
  return x < 0 ? -n : n;
}
BASE_CALL int64_t __aeabi_f2lz(float x) { return __aeabi_d2lz((double)x); }
BASE_CALL uint64_t __aeabi_f2ulz(float x) { return __aeabi_d2ulz((double)x); }
BASE_CALL double __aeabi_l2d(int64_t n) { return (double)(int32_t)(n >> 32) * 0x1p32 + (double)(uint32_t)n; }
BASE_CALL double __aeabi_ul2d(uint64_t n) { return (double)(uint32_t)(n >> 32) * 0x1p32 + (double)(uint32_t)n; }
// Rounded once: what a double cannot hold leaves a mark behind the bits that a float looks at.
BASE_CALL float __aeabi_ul2f(uint64_t n) {
  uint64_t rest = n & 0x7ff;
  if (n >> 53) n = (n & ~0x7ffull) | (rest ? 0x400 : 0);
  return (float)__aeabi_ul2d(n);
}
BASE_CALL float __aeabi_l2f(int64_t n) { return n < 0 ? -__aeabi_ul2f(0 - (uint64_t)n) : __aeabi_ul2f((uint64_t)n); }
#endif

// ---- blocks with guards behind them
enum { POOL = 24 << 20, N_BLOCKS = 2 * FOREIGN_PORTS + 16 };
static _Alignas(TN_ALIGN) unsigned char pool[POOL];
static int64_t pool_used;
static struct {
  unsigned char *at;
  int64_t bytes;
} blocks[N_BLOCKS];
static uint32_t n_blocks;

static void *new_block(int64_t bytes) {
  int64_t all = (bytes + FOREIGN_GUARD + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
  if (n_blocks == N_BLOCKS || POOL - pool_used < all) leave(5);
  unsigned char *at = pool + pool_used;
  pool_used += all;
  for (int64_t k = 0; k < bytes + FOREIGN_GUARD; k++) at[k] = k < bytes ? 0xff : 0xa5;
  blocks[n_blocks].at = at, blocks[n_blocks++].bytes = bytes;
  return at;
}

static int all_guards_hold(void) {
  for (uint32_t b = 0; b < n_blocks; b++)
    for (int k = 0; k < FOREIGN_GUARD; k++)
      if (blocks[b].at[blocks[b].bytes + k] != 0xa5) return 0;
  return 1;
}

// ---- how deep the stack goes: below this function it is painted, and what keeps the paint was not used
enum { PAINTED = 1 << 20, PAINT = 0x5b };
__attribute__((noinline)) static int64_t depth_of_run(TnFrame *f) {
  unsigned char *top = __builtin_frame_address(0);
  volatile unsigned char *low = top - PAINTED;
  for (int64_t k = 0; k < PAINTED - 512; k++) low[k] = PAINT;
  tenure_entry(f, 0, 1);
  int64_t untouched = 0;
  while (untouched < PAINTED && low[untouched] == PAINT) untouched++;
  return PAINTED - untouched;
}

// ---- the run
static ForeignHead head;
static TnKernelStatus status;
static TnFrame frame;

static void read_run(void **in, void **out) {
  frame.dims = new_block(head.n_dims * 8);
  get(frame.dims, head.n_dims * 8);
  frame.seg[SEG_PARAM] = new_block(head.param_bytes);
  get(frame.seg[SEG_PARAM], head.param_bytes);
  frame.seg[SEG_CONST] = new_block(head.const_bytes);
  get(frame.seg[SEG_CONST], head.const_bytes);
  frame.seg[SEG_ARENA] = new_block(head.arena_bytes);
  frame.blocks = new_block(tenure_block_bytes);
  for (int64_t k = 0; k < head.n_in; k++) {
    in[k] = new_block(head.in_bytes[k]);
    get(in[k], head.in_bytes[k]);
  }
  for (int64_t k = 0; k < head.n_out; k++) out[k] = new_block(head.out_bytes[k]);
}

static void write_results(int64_t depth, void **out) {
  ForeignTail tail = {.code = status.code,
                      .index = status.index,
                      .value = status.value,
                      .guards_hold = all_guards_hold(),
                      .stack_bytes = depth};
  put(&tail, sizeof tail);
  put(frame.dims, head.n_dims * 8);
  put(frame.seg[SEG_PARAM], head.param_bytes);
  for (int64_t k = 0; k < head.n_out; k++) put(out[k], head.out_bytes[k]);
}

__attribute__((used)) static void run(void) {
  static void *in[FOREIGN_PORTS], *out[FOREIGN_PORTS];
  get(&head, sizeof head);
  frame.in = in, frame.out = out, frame.status = &status;
  frame.seed = (uint64_t)head.seed, frame.counter = (uint64_t)head.counter;
  read_run(in, out);
  write_results(depth_of_run(&frame), out);
  leave(0);
}

#if defined(__x86_64__)
__asm__(".globl _start\n_start: and $-16, %rsp\n call run\n");
#elif defined(__riscv)
__asm__(".globl _start\n_start: andi sp, sp, -16\n call run\n");
#elif defined(__arm__)
// The vector table; the unit for floating point is switched on first.
__asm__(".section .vectors,\"a\"\n.word 0x7f000000\n.word _start\n.text\n"
        ".globl _start\n.thumb_func\n.type _start, %function\n_start: ldr r0, =0xE000ED88\n ldr r1, [r0]\n"
        "orr r1, r1, #0xf00000\n str r1, [r0]\n dsb\n isb\n bl run\n.pool\n");
#else
__asm__(".globl _start\n_start: bl run\n");
#endif
