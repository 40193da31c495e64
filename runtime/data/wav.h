// WAV files: sound as numbers, frame by frame.
//
//   RIFF <size> WAVE { <id> <size> <bytes, padded to even> }..     `fmt ` says how, `data` has the frames
//
// PCM of 8 (unsigned), 16, 24 and 32 bits becomes [-1, 1]: the integer divided by 2^(bits - 1), rounded; floats of 32 and 64 bits
// stay as they are. Any bytes are taken: what is wrong gives one sentence with the byte, and all frames lie inside.
#ifndef TN_RUNTIME_DATA_WAV_H
#define TN_RUNTIME_DATA_WAV_H

#include "runtime/data/dataset.h"
#include "runtime/store/byte_source.h"

enum { RT_WAV_CHANNELS = 1024 };  // at most

typedef struct {
  uint32_t rate;      // frames a second
  uint16_t channels;  // numbers of a frame
  uint8_t bytes;      // of a number
  bool is_float;
  uint64_t data_at, n_frames;
} RtWav;

bool rt_wav_parse(const RtSource *s, RtWav *out, char *error, size_t error_size);
// Frames first .. first + n - 1, which the file has, as [n, channels]
bool rt_wav_read(const RtSource *s, const RtWav *w, uint64_t first, size_t n, float *out, char *error,
                 size_t error_size);

// ---- a data set of files
typedef struct __attribute__((may_alias)) {  // layout of tn_wav_file, which is read as one
  const char *path;
  int64_t label;
} RtWavFile;
typedef struct {
  uint32_t rate, channels;  // 0: those of the first file; others are errors
  uint64_t max_frames;      // 0: the longest file's; longer ones are errors
} RtWavOptions;
// Fields wave f32 [<= frames, channels] and label i64 []. Headers are read now, frames where a batch needs them.
RtDataset *rt_dataset_wav(const RtWavFile *files, size_t n, const RtWavOptions *o, char *error, size_t error_size);

#endif
