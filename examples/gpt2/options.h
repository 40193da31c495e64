// What gpt2 is told on its command line.
#ifndef GPT2_OPTIONS_H
#define GPT2_OPTIONS_H

#include "examples/gpt2/model.h"
#include "examples/gpt2/sample.h"

enum { MOST_TEXTS = 64 };

typedef struct {
  Gpt2 size;  // of a model without a file
  Sampling sampling;
  const char *checkpoint, *folder, *prompt;
  const char *texts[MOST_TEXTS];
  int n_texts;
  long epochs, n_tokens;
  double lr;
  bool resumes;
} Options;
// Sets what the arguments say; ends the program where they are wrong, or ask for help
void read_options(int argc, char **argv, Options *o);
#endif
