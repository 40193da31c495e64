#include "examples/gpt2/options.h"
#include <stdlib.h>
#include <string.h>

#define USAGE                                                                                                    \
  "gpt2 [--files DIR] [--size LAYERS,WIDTH,HEADS,PLACES] [--epochs N] [--lr X] [--checkpoint FILE] [--resume]\n" \
  "     [--prompt TEXT] [--tokens N] [--temperature X] [--top-k N] [--top-p X] [--seed N] [TEXT..]\n"

static bool read_size(const char *v, Gpt2 *g) {
  long n[4];
  if (sscanf(v, "%ld,%ld,%ld,%ld", &n[0], &n[1], &n[2], &n[3]) != 4) return false;
  g->layers = n[0], g->width = n[1], g->heads = n[2], g->places = n[3];
  return n[0] > 0 && n[1] > 0 && n[2] > 0 && n[1] % n[2] == 0 && n[3] > 0;
}

static bool set_option(Options *o, const char *name, const char *v) {
  char *end = "";
  if (!strcmp(name, "--size")) return read_size(v, &o->size);
  if (!strcmp(name, "--files")) o->folder = v;
  else if (!strcmp(name, "--prompt")) o->prompt = v;
  else if (!strcmp(name, "--checkpoint")) o->checkpoint = v;
  else if (!strcmp(name, "--epochs")) o->epochs = strtol(v, &end, 10);
  else if (!strcmp(name, "--tokens")) o->n_tokens = strtol(v, &end, 10);
  else if (!strcmp(name, "--lr")) o->lr = strtod(v, &end);
  else if (!strcmp(name, "--temperature")) o->sampling.temperature = strtod(v, &end);
  else if (!strcmp(name, "--top-k")) o->sampling.top_k = strtol(v, &end, 10);
  else if (!strcmp(name, "--top-p")) o->sampling.top_p = strtod(v, &end);
  else if (!strcmp(name, "--seed")) o->sampling.seed = strtoull(v, &end, 10);
  else return false;
  return *v && !*end && o->epochs >= 0 && o->n_tokens >= 0;
}

bool read_options(int argc, char **argv, Options *o) {
  for (int k = 1; k < argc; k++) {
    if (!strcmp(argv[k], "--resume")) o->resumes = true;
    else if (argv[k][0] != '-' && o->n_texts < 64) o->texts[o->n_texts++] = argv[k];
    else if (k + 1 < argc && set_option(o, argv[k], argv[k + 1])) k++;
    else return fputs(USAGE, stderr), false;
  }
  if (!o->n_texts) o->texts[o->n_texts++] = "docs/design.md";
  return true;
}
