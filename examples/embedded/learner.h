// What learner.c and the part that knows the machine want of each other.
#ifndef LEARNER_H
#define LEARNER_H

enum { STACK = 16 << 10, GUARD = 4 << 10, PAINT = 0xa7 };

int learn(void);             // 0: it learnt
void say(const char *text);  // of the machine

void paint_stack(volatile unsigned char *low, const volatile unsigned char *high);
// Says how deep it was; 1: into the guard
int say_stack(const unsigned char *low, const unsigned char *guard_end, const unsigned char *high);

#endif
