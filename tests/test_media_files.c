// Files of images and sound: IDX, CIFAR, WAV; values and mistakes. tests/make_reader_corpus.py made the files of
// tests/corpus.
#include "tests/reader.h"

#include <math.h>
#include <stdlib.h>

static tn_batch all_of(tn_dataset *d) {
  if (!CHECK(d != NULL)) fprintf(stderr, "%s\n", why);
  return whole(d);
}

// ---- IDX
static tn_dataset *idx(const char *name, tn_dtype dtype) {
  char path[200];
  snprintf(path, sizeof path, "tests/corpus/idx/%s", name);
  return tn_dataset_idx(&(tn_column){.name = path, .field = "x", .dtype = dtype}, 1, why, sizeof why);
}

static void test_idx_numbers(void) {
  static const char *const names[] = {"u1", "i1", "i2", "i4", "f4", "f8"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    for (int as_f32 = 0; as_f32 < 2; as_f32++) {
      tn_batch b = all_of(idx(names[k], as_f32 ? TN_F32 : 0));
      tn_array a = tn_batch_array(b, "x");
      CHECK(a.dtype == (names[k][0] == 'f' || as_f32 ? TN_F32 : TN_I64));
      CHECK(a.rank == 2 && a.dims[0] == 4 && a.dims[1] == 3);
      for (int i = 0; i < 12 && a.data; i++) {
        int want = names[k][0] == 'u' ? i : i - 5;
        CHECK(a.dtype == TN_F32 ? ((float *)a.data)[i] == (float)want : ((int64_t *)a.data)[i] == want);
      }
      tn_batch_release(b);
    }
}

// As they are, and as they are downloaded: here of two streams and padding
static void test_idx_pair(const char *images) {
  const tn_column files[] = {{.name = images, .dtype = TN_F32}, {.name = "tests/corpus/idx/labels", .field = "label"}};
  tn_batch b = all_of(tn_dataset_idx(files, 2, why, sizeof why));
  tn_array x = tn_batch_array(b, "images"), y = tn_batch_array(b, "label");
  CHECK(x.rank == 3 && x.dims[0] == 2 && x.dims[1] == 3 && x.dims[2] == 4 && y.rank == 1 && y.dims[0] == 2);
  for (int i = 0; i < 24 && x.data; i++) CHECK(((float *)x.data)[i] == (float)i);
  CHECK(y.data && ((int64_t *)y.data)[0] == 7 && ((int64_t *)y.data)[1] == 3);
  tn_batch_release(b);
}

static void test_idx_mistakes(void) {
  expect(idx("truncated", 0), "make 12 numbers of 1 bytes, and there are 11 bytes of data");
  expect(idx("longer", 0), "make 12 numbers of 1 bytes, and there are 13 bytes of data");
  expect(idx("huge", 0), "make more than 2^64 numbers");
  expect(idx("type", 0), "type 10 of an IDX file is unknown");
  expect(idx("rank", 0), "an array of 9 axes, 1 to 8 are read");
  expect(idx("cut_sizes", 0), "12 bytes are needed at byte 4");
  expect(idx("head.gz", 0), "head.gz: the packed file ends too early");
  expect(idx("cut.gz", 0), "cut.gz: the packed file ends too early");
  expect(idx("damaged.gz", 0), "damaged.gz: the packed file is damaged");
  expect(idx("other", 0), "its first two bytes are not 0");
  expect(idx("empty", 0), "not an IDX file: it has 0 bytes");
  expect(idx("f4", TN_I64), "holds floats, which are not read as i64");
  const tn_column files[] = {{.name = "tests/corpus/idx/images"}, {.name = "tests/corpus/idx/u1"}};
  expect(tn_dataset_idx(files, 2, why, sizeof why), "E111: array 'u1' has 4 rows and the first array has 2");
  expect(tn_dataset_idx(NULL, 1, why, sizeof why), "no files are given");
}

// ---- CIFAR: the files of the corpus have one byte in front, for the fuzzer
static tn_dataset *cifar(const char *name, tn_cifar kind) {
  static unsigned char bytes[1 << 14];
  char path[200];
  snprintf(path, sizeof path, "tests/corpus/cifar/%s", name);
  FILE *from = fopen(path, "rb"), *to = fopen("media.bin", "wb");
  size_t n = from ? fread(bytes, 1, sizeof bytes, from) : 0;
  CHECK(n > 0 && to && fwrite(bytes + 1, 1, n - 1, to) == n - 1);
  if (from) fclose(from);
  if (to) fclose(to);
  return tn_dataset_cifar("media.bin", kind, why, sizeof why);
}

static void test_cifar(void) {
  tn_batch b = all_of(cifar("ten", TN_CIFAR10));
  tn_array x = tn_batch_array(b, "image"), y = tn_batch_array(b, "label");
  CHECK(x.rank == 4 && x.dims[0] == 2 && x.dims[1] == 3 && x.dims[2] == 32 && x.dims[3] == 32 && x.dtype == TN_F32);
  for (int i = 0; i < 3072 && x.data; i++)
    CHECK(((float *)x.data)[i] == (float)(i * 7 % 256) && ((float *)x.data)[3072 + i] == (float)((3071 - i) * 7 % 256));
  CHECK(y.data && ((int64_t *)y.data)[0] == 9 && ((int64_t *)y.data)[1] == 0);
  CHECK(tn_batch_array(b, "coarse").data == NULL);
  tn_batch_release(b);
  b = all_of(cifar("hundred", TN_CIFAR100));
  y = tn_batch_array(b, "label");
  tn_array coarse = tn_batch_array(b, "coarse");
  CHECK(y.data && *(int64_t *)y.data == 99 && coarse.data && *(int64_t *)coarse.data == 19);
  tn_batch_release(b);
  tn_dataset *empty = cifar("empty", TN_CIFAR10);
  CHECK(empty && tn_dataset_count(empty) == 0);
  tn_dataset_free(empty);
}

static void test_cifar_mistakes(void) {
  expect(cifar("label", TN_CIFAR10), "byte 0: image 0 has label 10, there are 10");
  expect(cifar("coarse", TN_CIFAR100), "byte 0: image 0 has coarse label 20, there are 20");
  expect(cifar("truncated", TN_CIFAR10), "3072 bytes are no whole number of images: CIFAR-10 has 3073 bytes for each");
  expect(tn_dataset_cifar("media.bin", 0, why, sizeof why), "TN_CIFAR10 or TN_CIFAR100");
  expect(tn_dataset_cifar(NULL, TN_CIFAR10, why, sizeof why), "no path is given");
  expect(tn_dataset_cifar("no/such", TN_CIFAR10, why, sizeof why), "no/such: No such file");
  // Written anew behind the reader's back: the label is checked again.
  tn_dataset *d = cifar("ten", TN_CIFAR10);
  tn_dataset_free(cifar("label", TN_CIFAR10));
  CHECK(!all_of(d).number);
  CHECK_HAS(why, "item 0: media.bin: byte 0: image 0 has label 10");
  remove("media.bin");
}

// ---- WAV
static tn_dataset *wav(const char *name, const tn_wav_options *o) {
  char path[200];
  snprintf(path, sizeof path, "tests/corpus/wav/%s", name);
  return tn_dataset_wav(&(tn_wav_file){path, 3}, 1, o, why, sizeof why);
}

static void test_wav_numbers(void) {
  static const char *const names[] = {"pcm8", "pcm16", "pcm24", "pcm32", "float32", "float64", "extensible"};
  static const float want[] = {0, 1, -1, 64, 127, -128};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    tn_batch b = all_of(wav(names[k], NULL));
    tn_array x = tn_batch_array(b, "wave"), n = tn_batch_array(b, "wave.lengths"), y = tn_batch_array(b, "label");
    CHECK(x.rank == 3 && x.dims[0] == 1 && x.dims[1] == 3 && x.dims[2] == 2);
    for (int i = 0; i < 6 && x.data; i++) CHECK(((float *)x.data)[i] == want[i] / 128);
    CHECK(n.data && *(int64_t *)n.data == 3 && y.data && *(int64_t *)y.data == 3);
    tn_batch_release(b);
  }
}

// Files of different lengths, one of them silent: padded with zeros.
static void test_wav_set(void) {
  const tn_wav_file files[] = {{"tests/corpus/wav/silent", 0}, {"tests/corpus/wav/mono", 1}};
  tn_dataset *d = tn_dataset_wav(files, 2, &(tn_wav_options){.max_frames = 9}, why, sizeof why);
  tn_field f = tn_dataset_field(d, 0);
  CHECK(f.is_variable && f.dims[0] == 9 && f.dims[1] == 1);
  tn_batch b = all_of(d);
  tn_array x = tn_batch_array(b, "wave"), n = tn_batch_array(b, "wave.lengths");
  static const float want[] = {0, 0, 0, 0, 0, 0, 0.5f, -1, 32767 / 32768.0f, 1 / 32768.0f};
  CHECK(x.rank == 3 && x.dims[0] == 2 && x.dims[1] == 5 && x.dims[2] == 1);
  for (int i = 0; i < 10 && x.data; i++) CHECK(((float *)x.data)[i] == want[i]);
  CHECK(n.data && ((int64_t *)n.data)[0] == 0 && ((int64_t *)n.data)[1] == 5);
  tn_batch_release(b);
  b = all_of(tn_dataset_wav(files, 1, NULL, why, sizeof why));  // nothing but silence
  CHECK(b.number && tn_batch_array(b, "wave").dims[1] == 0);
  tn_batch_release(b);
}

// Written to a pipe: sizes that nobody could fill in. An odd byte behind the last frame is cut off.
static void test_wav_streams(void) {
  static const char *const names[] = {"pipe", "pipe_zero", "pipe_all", "pipe_head"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    tn_batch b = all_of(wav(names[k], NULL));
    tn_array x = tn_batch_array(b, "wave");
    if (!CHECK(x.rank == 3 && x.dims[1] == 4)) printf("  %s: %s\n", names[k], why);
    for (int i = 0; i < 4 && x.data; i++) CHECK(((float *)x.data)[i] == (float)(i + 1) / 32768);
    tn_batch_release(b);
  }
  tn_batch b = all_of(wav("silent_list", NULL));  // its sizes are true: what follows is no sound
  CHECK(b.number && tn_batch_array(b, "wave").dims[1] == 0);
  tn_batch_release(b);
}

static void test_wav_mistakes(void) {
  expect(wav("law", NULL), "format 7 of 8 bits is not read");
  expect(wav("short_fmt", NULL), "byte 20: 'fmt ' has 14 bytes, 16 are the least");
  expect(wav("channels", NULL), "0 channels at 8000 Hz");
  expect(wav("frame", NULL), "frames of 3 bytes, where 2 channels of 2 bytes make 4");
  expect(wav("odd", NULL), "'data' has 5 bytes, which are no whole number of frames of 4");
  expect(wav("no_fmt", NULL), "'data' stands before 'fmt '");
  expect(wav("no_data", NULL), "there is no 'data'");
  expect(wav("cut_data", NULL), "byte 36: a part of 4294967294 bytes, and 8 are left");
  expect(wav("truncated", NULL), "byte 36: a part of 12 bytes, and 11 are left: the file was cut short");
  expect(wav("cut_head", NULL), "8 bytes are needed at byte 36");
  expect(wav("other", NULL), "it does not begin with RIFF and WAVE");
  expect(wav("none", NULL), "none: No such file");
  expect(wav("mono", &(tn_wav_options){.rate = 16000}), "1 channels at 8000 Hz, and the data set has 1 at 16000 Hz");
  expect(wav("mono", &(tn_wav_options){.channels = 2}), "1 channels at 8000 Hz, and the data set has 2 at 8000 Hz");
  expect(wav("mono", &(tn_wav_options){.max_frames = 4}), "5 frames, at most 4 are allowed");
  const tn_wav_file files[] = {{"tests/corpus/wav/mono", 0}, {"tests/corpus/wav/rate", 0}, {NULL, 0}};
  expect(tn_dataset_wav(files, 2, NULL, why, sizeof why), "wav/rate: 1 channels at 16000 Hz");
  expect(tn_dataset_wav(files, 3, NULL, why, sizeof why), "a file has no path");
  expect(tn_dataset_wav(files, 0, NULL, why, sizeof why), "no files are given");
  expect(tn_dataset_wav(NULL, 1, NULL, why, sizeof why), "no files are given");
}

int main(void) {
  test_idx_numbers();
  test_idx_pair("tests/corpus/idx/images"), test_idx_pair("tests/corpus/idx/images.gz");
  test_idx_mistakes();
  test_cifar();
  test_cifar_mistakes();
  test_wav_numbers();
  test_wav_set();
  test_wav_streams(), test_wav_mistakes();
  return check_report();
}
