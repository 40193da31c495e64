// A Cortex-M55 without anything: the vector table, the FPU and its vectors, semihosting for what it says. qemu-system-arm
// runs it as -M mps3-an547; memory is laid out by mps3.ld.
//
//   clang --target=thumbv8.1m.main-none-eabihf -mcpu=cortex-m55 -O2 -ffreestanding -nostdlib -T mps3.ld ...
#include "learner.h"

#include <stdint.h>

static long semihosting(long number, const void *argument) {
  register long r0 __asm__("r0") = number;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void say(const char *text) {
  enum { WRITE0 = 4 };
  semihosting(WRITE0, text);
}

extern unsigned char stack_low[], stack_high[];  // mps3.ld

__attribute__((used)) static void run(void) {
  enum { EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026 };
  int status = learn();
  status |= say_stack(stack_low, stack_low + GUARD, stack_high);
  const uint32_t how[2] = {APPLICATION_EXIT, (uint32_t)status};
  semihosting(EXIT_EXTENDED, how);
  for (;;) {}
}

// Paints everything below the few bytes that it uses itself.
void begin(void);
void begin(void) {
  volatile uint32_t *coprocessors = (volatile uint32_t *)0xe000ed88;  // CPACR: full access to the FPU, and MVE with it
  *coprocessors |= 0xfu << 20;
  __asm__ volatile("dsb\n isb" ::: "memory");
  paint_stack(stack_low, (unsigned char *)__builtin_frame_address(0) - 256);
  run();
}

static void fault(void) {
  say("a fault\n");
  for (;;) {}
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_high, (void *)begin, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault};
