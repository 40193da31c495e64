// Images with their classes: fields image f32 [3,H,W], 0 to 255, and label i64 []. NULL: `why`
#ifndef RESNET_DATA_H
#define RESNET_DATA_H

#include "frontend/tenure.h"

enum { MOST_FILES = 16 };

tn_dataset *open_cifar(const char *const *files, uint32_t n_files, char *why,
                       size_t n);              // CIFAR-10's binary files, as one
tn_dataset *open_digits(char *why, size_t n);  // data/digits, 8 x 8 with three equal channels
#endif
