#ifndef RESNET_OPTIONS_H
#define RESNET_OPTIONS_H

#include "examples/resnet/data.h"

enum { MOST_PHOTOS = 64 };

typedef struct {
  const char *weights, *out, *files[MOST_FILES];  // files: of CIFAR
  tn_image_file photos[MOST_PHOTOS];
  uint32_t n_files, n_photos;
  int depth;
  long epochs;
  int64_t side, classes;
  double lr, expect;
} Options;

// Sets what the arguments say; ends the program where they are wrong, or ask for help
void read_options(int argc, char **argv, Options *o);
#endif
