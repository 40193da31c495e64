// Learns on the device, from a stream: who of nine speakers says a vowel. Each utterance is first told, then learnt from. No
// C library, no heap, 16 KiB of stack; what a machine has to give is in start_MACHINE.c: say() and the stack.
//
// The data are the utterances of the training set, one after the other with speakers mixed.
#include "learner.h"
#include "speaker.h"

enum { FEATURES = 12, N = 270, STRIDE = 107 /* from one to the next: speakers lie together */, PASSES = 6 };
typedef struct {  // as examples/aot/data.c writes it
  int64_t label, length;
  float x[SPEAKER_TIME_MAX][FEATURES];
} sequence;
extern const sequence sequences[N];  // data.S

static speaker_state state;
SPEAKER_ALIGNED static unsigned char arena[SPEAKER_ARENA_BYTES];

static void say_number(uint32_t n) {
  char text[11];
  int at = 10;
  text[at] = 0;
  do text[--at] = (char)('0' + n % 10);
  while (n /= 10);
  say(text + at);
}

static int listen(const sequence *s, uint32_t *n_right) {
  float loss;
  int64_t predicted;
  speaker_learn_in in = {.time = s->length, .x = s->x[0], .length = &s->length, .label = &s->label};
  speaker_learn_out out = {.loss = &loss, .predicted = &predicted};
  int status = speaker_learn(&state, arena, sizeof arena, &in, &out);
  *n_right += !status && predicted == s->label;
  return status;
}

int learn(void) {
  int status = speaker_init(&state, 1);
  uint32_t n_right = 0;
  for (uint32_t pass = 0, at = 0; pass < PASSES && !status; pass++) {
    n_right = 0;
    for (uint32_t k = 0; k < N && !status; k++, at = (at + STRIDE) % N) status = listen(&sequences[at], &n_right);
    say("pass "), say_number(pass + 1), say(": "), say_number(n_right), say(" of "), say_number(N),
        say(" told right\n");
  }
  if (status) say(speaker_error(status)), say("\n");
  return status || n_right < N * 8 / 10;
}

// ---- the stack: painted before it is used; below its end lies a guard
void paint_stack(volatile unsigned char *low, const volatile unsigned char *high) {
  while (low < high) *low++ = PAINT;
}

int say_stack(const unsigned char *low, const unsigned char *guard_end, const unsigned char *high) {
  const unsigned char *at = low;
  while (at < high && *at == PAINT) at++;
  say("stack: "), say_number((uint32_t)(high - at)), say(" of "), say_number((uint32_t)(high - guard_end));
  say(at < guard_end ? " bytes: too deep\n" : " bytes\n");
  return at < guard_end;
}
