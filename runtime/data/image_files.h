// A data set of PNG and JPEG files, whatever their sizes: each is opened and decoded where a batch needs it, by the loader's
// threads, and resized to one size.
#ifndef TN_RUNTIME_DATA_IMAGE_FILES_H
#define TN_RUNTIME_DATA_IMAGE_FILES_H

#include "runtime/data/dataset.h"

enum { RT_IMAGE_FILE_SIDE = 1 << 14, RT_IMAGE_FILE_PIXELS = 1 << 26, RT_IMAGE_FILE_BYTES = 1 << 28 };

typedef struct __attribute__((may_alias)) {  // layout of tn_image_file, which is read as one
  const char *path;
  int64_t label;
} RtImageFile;
typedef struct {
  int64_t height, width;  // of every image
  uint32_t channels;      // 1 or 3
  uint64_t max_pixels;    // of a file
  bool stretch;           // to that size; else as far as it covers it, and the middle is kept
  bool as_stored;         // not turned as EXIF says
} RtImageFileOptions;
// Fields image f32 [channels, height, width], 0 to 255, and label i64 []
RtDataset *rt_dataset_image_files(const RtImageFile *files, size_t n, const RtImageFileOptions *o, char *error,
                                  size_t error_size);

#endif
