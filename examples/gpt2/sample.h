// The next token by its logits: the likeliest one, or one drawn.
#ifndef GPT2_SAMPLE_H
#define GPT2_SAMPLE_H

#include <stdint.h>

typedef struct {
  double temperature;  // of the softmax; 0: the likeliest token, and the others are not read
  int64_t top_k;       // of so many likeliest tokens; 0: all
  double top_p;        // of the fewest likeliest tokens that have this probability together; 1: all
  uint64_t seed;       // advanced by each draw
} Sampling;
int64_t sample_token(const float *logits, int64_t n, Sampling *s);
#endif
