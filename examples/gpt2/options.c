#include "examples/gpt2/options.h"
#include "examples/arguments.h"

static Gpt2 size;

static bool read_size(const char *v) {
  long n[4];
  if (sscanf(v, "%ld,%ld,%ld,%ld%1s", &n[0], &n[1], &n[2], &n[3], (char[2]){0}) != 4) return false;
  size.layers = n[0], size.width = n[1], size.heads = n[2], size.places = n[3];
  return n[0] > 0 && n[1] > 0 && n[2] > 0 && n[1] % n[2] == 0 && n[3] > 0;
}

void read_options(int argc, char **argv, Options *o) {
  long seed = (long)o->sampling.seed, top_k = (long)o->sampling.top_k;
  size = o->size;
  Sampling *s = &o->sampling;
  const Argument list[] = {
      {"--files", "DIR", "model.safetensors, config.json, vocab.json and merges.txt, or some of them",
       .text = &o->folder},
      {"--size", "LAYERS,WIDTH,HEADS,PLACES", "of a new model", .read = read_size},
      {"--epochs", "N", "passes over the texts; 0: it writes only", .whole = &o->epochs},
      {"--lr", "X", "rate of learning", .number = &o->lr, .above = true},
      {"--checkpoint", "FILE", "where it saves", .text = &o->checkpoint},
      {"--resume", NULL, "goes on from the checkpoint", .flag = &o->resumes},
      {"--prompt", "TEXT", "what it goes on with", .text = &o->prompt},
      {"--tokens", "N", "that it writes", .whole = &o->n_tokens},
      {"--temperature", "X", "0: the likeliest token always", .number = &s->temperature},
      {"--top-k", "N", "draws among so many tokens; 0: all", .whole = &top_k},
      {"--top-p", "X", "among those that have this share together; 1: all", .number = &s->top_p, .most = 1},
      {"--seed", "N", "of what it draws", .whole = &seed},
      {NULL, "TEXT..", "what it learns from", .text = o->texts, .n_texts = &o->n_texts, .most = MOST_TEXTS}};
  read_arguments(argc, argv, "GPT-2, trained and writing", list, sizeof list / sizeof *list);
  o->size = size, o->sampling.seed = (uint64_t)seed, o->sampling.top_k = top_k;
  if (!o->n_texts) o->texts[o->n_texts++] = "docs/design.md";
}
