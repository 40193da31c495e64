// Two bundles in one program, and two networks of one of them: nothing is shared.
//
//   cc two.c vowels.o spiral.o -lm -o two
#include "spiral.h"
#include "vowels.h"

#include <stdio.h>
#include <string.h>

static vowels_state vowels;
static spiral_state first, second;
VOWELS_ALIGNED static unsigned char
    arena[VOWELS_ARENA_BYTES > SPIRAL_ARENA_BYTES ? VOWELS_ARENA_BYTES : SPIRAL_ARENA_BYTES];

static int train_spiral(spiral_state *s, float *loss) {
  static const float x[4 * 2] = {0.5f, 0, -0.2f, 0.4f, -0.3f, -0.4f, 0.9f, 0.1f};
  static const int64_t label[4] = {0, 1, 2, 0};
  spiral_train_step_in in = {.batch = 4, .x = x, .label = label};
  return spiral_train_step(s, arena, sizeof arena, &in, &(spiral_train_step_out){.loss = loss});
}

static int train_vowels(float *loss) {
  static const float x[5 * 12] = {[0] = 1, [13] = 1, [26] = 1};
  static const int64_t length[1] = {5}, label[1] = {3};
  float correct;
  vowels_train_step_in in = {.batch = 1, .time = 5, .x = x, .lengths = length, .label = label};
  return vowels_train_step(&vowels, arena, sizeof arena, &in, &(vowels_train_step_out){loss, &correct});
}

int main(void) {
  float of_first = 0, of_second = 0, of_vowels = 0;
  if (vowels_init(&vowels, 1) || spiral_init(&first, 1) || spiral_init(&second, 2)) return 1;
  for (int k = 0; k < 50; k++) {
    int status = train_spiral(&first, &of_first);
    if (!status && k % 2) status = train_spiral(&second, &of_second);
    if (status) return puts(spiral_error(status)), 1;
    if ((status = train_vowels(&of_vowels))) return puts(vowels_error(status)), 1;
  }
  // A third network of the first one's seed, trained alone, is the first one in every bit.
  if (spiral_init(&second, 1)) return 1;
  for (int k = 0; k < 50; k++)
    if (train_spiral(&second, &of_second)) return 1;
  int same = !memcmp(&first, &second, sizeof first);
  printf("losses %.4f and %.4f; the same alone: %s\n", of_first, of_vowels, same ? "yes" : "no");
  return !same;
}
