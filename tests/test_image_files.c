// Data sets of PNG and JPEG files: values against Pillow and PyTorch, damaged and huge files, what is random in the loader's
// threads. tests/make_image_corpus.py made the files of tests/corpus/image.
#include "frontend/tenure.h"
#include "tests/check.h"
#include "tests/golden_file.h"

#include <math.h>
#include <stdlib.h>

static char why[1024];

static const char *path_of(const char *name) {
  static char paths[8][200];
  static int k;
  char *p = paths[k++ % 8];
  return snprintf(p, sizeof paths[0], "tests/corpus/image/%s", name), p;
}

static tn_dataset *open_one(const char *name, tn_image_file_options o) {
  return tn_dataset_image_files(&(tn_image_file){path_of(name), 7}, 1, &o, why, sizeof why);
}

// The only batch of d, which is freed; number 0: why
static tn_batch first_batch(tn_dataset *d) {
  tn_batch b = {0}, kept = {0};
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 4, .workers = 1}, why, sizeof why);
  if (l && tn_loader_next(l, &b) == TN_OK) kept = tn_batch_retain(b);
  else if (l) snprintf(why, sizeof why, "%s", tn_loader_error(l));
  tn_loader_free(l), tn_dataset_free(d);
  return kept;
}

static bool has_codec(const char *name) {
  tn_batch b = first_batch(open_one(name, (tn_image_file_options){.height = 4, .width = 4}));
  bool has = b.number != 0;
  if (!has) CHECK_HAS(why, "this build reads no ");
  tn_batch_release(b);
  return has;
}

// A golden: height, width, channels, whether the image is stretched, then its values
static void check_values(const GoldenArray *g) {
  const int h = (int)g->v[0], w = (int)g->v[1], c = (int)g->v[2];
  const tn_image_file_options o = {.height = h, .width = w, .channels = (uint32_t)c, .stretch = g->v[3] != 0};
  tn_batch b = first_batch(open_one(g->name, o));
  tn_array image = tn_batch_array(b, "image"), label = tn_batch_array(b, "label");
  double worst = 0, most = strstr(g->name, ".jpg") ? 1 : 1e-3;  // decoders of JPEG may round differently
  if (CHECK(image.rank == 4 && image.dims[1] == c && image.dims[2] == h && image.dims[3] == w) &&
      CHECK(g->n == 4 + (uint32_t)(h * w * c))) {
    CHECK(((const int64_t *)label.data)[0] == 7);
    for (int i = 0; i < h * w * c; i++) worst = fmax(worst, fabs((double)((const float *)image.data)[i] - g->v[4 + i]));
  }
  if (!CHECK(worst <= most)) printf("%s to %d x %d x %d: off by %g\n", g->name, h, w, c, worst);
  if (!b.number) printf("%s\n", why);
  tn_batch_release(b);
}

static void refused(const char *name, const char *text) {
  tn_batch b = first_batch(open_one(name, (tn_image_file_options){.height = 4, .width = 4}));
  CHECK(!b.number);
  CHECK_HAS(why, name);
  CHECK_HAS(why, text);
  tn_batch_release(b);
}

static void test_damage(bool has_png, bool has_jpeg) {
  refused("other", "neither a PNG nor a JPEG file");
  refused("empty", "neither a PNG nor a JPEG file");
  refused("missing", "No such file");
  if (has_png) {
    refused("cut.png", "tests/corpus/image/cut.png: ");
    refused("damaged.png", "tests/corpus/image/damaged.png: ");
    refused("huge.png", "tests/corpus/image/huge.png: ");
    refused("large.png", "9000 x 9000 pixels, 1 to 67108864 in all are allowed");
    refused("none.png", "tests/corpus/image/none.png: ");
    refused("head.png", "tests/corpus/image/head.png: ");
    tn_batch b = first_batch(open_one("rgb.png", (tn_image_file_options){.height = 4, .width = 4, .max_pixels = 19}));
    CHECK(!b.number);
    CHECK_HAS(why, "4 x 5 pixels, 1 to 19 in all are allowed");
  }
  if (!has_jpeg) return;
  refused("cut.jpg", "remature end of JPEG file");
  refused("head.jpg", "remature end of JPEG file");
  refused("huge.jpg", "65500 x 65500 pixels, 1 to 67108864 in all are allowed");
}

// As the file has its rows, of which the first is at the right of the scene (6) or the left (5)
static void test_as_stored(bool has_jpeg) {
  for (int k = 5; has_jpeg && k <= 6; k++) {
    const tn_image_file_options o = {.height = 12, .width = 17, .as_stored = true};
    tn_batch turned = first_batch(open_one(k == 5 ? "turned5.jpg" : "turned6.jpg", o));
    tn_batch photo = first_batch(open_one("photo.jpg", o));
    tn_array a = tn_batch_array(turned, "image"), b = tn_batch_array(photo, "image");
    CHECK(a.rank == 4 && b.rank == 4 && !memcmp(a.data, b.data, 12 * 17 * 3 * sizeof(float)));
    tn_batch_release(turned), tn_batch_release(photo);
  }
}

static void test_misuse(void) {
  const tn_image_file file = {path_of("rgb.png"), 0}, no_path = {0};
  const tn_image_file_options good = {.height = 4, .width = 4};
  CHECK(!tn_dataset_image_files(NULL, 0, &good, why, sizeof why));
  CHECK_HAS(why, "no files are given");
  CHECK(!tn_dataset_image_files(NULL, 3, &good, why, sizeof why));
  CHECK_HAS(why, "no files are given");
  CHECK(!tn_dataset_image_files(&no_path, 1, &good, why, sizeof why));
  CHECK_HAS(why, "a file has no path");
  CHECK(!tn_dataset_image_files(&file, 1, NULL, why, sizeof why));
  CHECK_HAS(why, "no size of the images is given");
  CHECK(!open_one("rgb.png", (tn_image_file_options){.height = 4}));
  CHECK_HAS(why, "images become 4 x 0 pixels: 1 to 16384 are possible");
  CHECK(!open_one("rgb.png", (tn_image_file_options){.height = 4, .width = 4, .channels = 2}));
  CHECK_HAS(why, "images have 2 channels: 1, gray, or 3, red, green and blue");
}

// Cut, mirrored and normalised behind the reader: the same with the same seed, however many threads there are.
static void test_random_parts(bool has_png) {
  enum { MOST_WORKERS = 4, FILES = 8, BATCH = 2, ITEM = 3 * 3 * 3 };
  float seen[MOST_WORKERS + 1][FILES * ITEM];
  for (uint32_t workers = 0; has_png && workers <= MOST_WORKERS; workers++) {
    tn_image_file files[FILES];
    for (int k = 0; k < FILES; k++) files[k] = (tn_image_file){path_of(k % 2 ? "rgb.png" : "clear.png"), k};
    tn_dataset *d =
        tn_dataset_image_files(files, FILES, &(tn_image_file_options){.height = 6, .width = 6}, why, sizeof why);
    const tn_image_options o = {
        .crop = {3, 3}, .random_crop = true, .random_flip = true, .scale = 1 / 255.0, .seed = 3};
    tn_dataset *images = tn_dataset_images(d, &o, why, sizeof why);
    const tn_loader_options how = {.batch_size = BATCH, .workers = workers};
    tn_loader *l = tn_loader_new(images, &how, why, sizeof why);
    for (int k = 0; k < FILES / BATCH && CHECK(l != NULL); k++) {
      tn_batch b = {0};
      CHECK(tn_loader_next(l, &b) == TN_OK);
      tn_array a = tn_batch_array(b, "image");
      if (CHECK(a.rank == 4 && a.dims[0] == BATCH && a.dims[3] == 3))
        memcpy(seen[workers] + k * BATCH * ITEM, a.data, BATCH * ITEM * sizeof(float));
    }
    tn_loader_free(l), tn_dataset_free(images), tn_dataset_free(d);
  }
  for (uint32_t workers = 1; has_png && workers <= MOST_WORKERS; workers++)
    CHECK(!memcmp(seen[0], seen[workers], sizeof seen[0]));
}

int main(void) {
  bool has_png = has_codec("rgb.png"), has_jpeg = has_codec("photo.jpg");
  RtArena *mem = rt_arena_new();
  const GoldenArrays goldens = golden_arrays(mem, "tests/image_goldens");
  CHECK(goldens.n == 41);
  for (uint32_t k = 0; k < goldens.n; k++)
    if (strstr(goldens.at[k].name, ".png") ? has_png : has_jpeg) check_values(&goldens.at[k]);
  test_damage(has_png, has_jpeg);
  test_as_stored(has_jpeg);
  test_misuse();
  test_random_parts(has_png);
  rt_arena_free(mem);
  return check_report();
}
