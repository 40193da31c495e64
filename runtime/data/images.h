// A data set whose images are resized, padded, cropped, flipped and normalised, by the threads of the loader.
//
// What is random depends on seed, epoch and the item's number alone: batches are the same for any number of threads.
#ifndef TN_RUNTIME_DATA_IMAGES_H
#define TN_RUNTIME_DATA_IMAGES_H

#include "runtime/data/dataset.h"

enum { RT_IMAGE_SIDE = 1 << 16 };  // at most, also with its padding

typedef struct {
  const char *field;        // f32 [height, width] or [channels, height, width]; becomes [channels, height, width]
  int64_t resize[2];        // height, width; 0: as they are
  int64_t padding;          // zeros on each side
  int64_t crop[2];          // height, width; 0: as they are
  bool random_crop;         // else from the middle
  bool random_flip;         // left to right, every other time
  double scale;             // 0: 1
  const float *mean, *std;  // [n_channels]; NULL: 0 and 1. y = (x scale - mean) / std
  uint32_t n_channels;      // 1: the same for all channels
  uint64_t seed;
} RtImageOptions;

// Arrays of the options are copied; d is retained.
RtDataset *rt_dataset_images(RtDataset *d, const RtImageOptions *o, char *error, size_t error_size);

#endif
