// Images of a data set: resized, padded, cropped, flipped, normalised; the same for any number of workers.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <stdlib.h>

static char why[512];
static float pixels[8 * 2 * 4 * 3];  // 8 images of 2 channels, 4 x 3
static int64_t labels[8];

static tn_dataset *images(tn_image_options o) {
  const tn_array arrays[] = {tn_f32(pixels, 8, 2, 4, 3), tn_i64(labels, 8)};
  const char *const names[] = {"image", "label"};
  tn_dataset *d = tn_dataset_arrays(arrays, 2, names, why, sizeof why);
  tn_dataset *made = tn_dataset_images(d, &o, why, sizeof why);
  tn_dataset_free(d);
  return made;
}

// The first batch of an epoch, of all items in order; frees d.
static tn_batch whole(tn_dataset *d, uint32_t workers, int epoch) {
  tn_batch b = {0}, kept = {0};
  tn_loader *l = tn_loader_new(d, &(tn_loader_options){.batch_size = 8, .workers = workers}, why, sizeof why);
  CHECK(l != NULL);
  for (int k = 0; l && k <= 2 * epoch; k++)
    CHECK(tn_loader_next(l, &b) == TN_OK);  // each ends by a batch without number
  if (b.number) kept = tn_batch_retain(b);
  tn_loader_free(l), tn_dataset_free(d);
  return kept;
}

static const float *image_of(tn_batch b, int64_t channels, int64_t height, int64_t width) {
  tn_array a = tn_batch_array(b, "image");
  CHECK(a.rank == 4 && a.dims[0] == 8 && a.dims[1] == channels && a.dims[2] == height && a.dims[3] == width);
  return a.data;
}

static void test_as_they_are(void) {
  tn_batch b = whole(images((tn_image_options){0}), 0, 0);
  const float *x = image_of(b, 2, 4, 3);
  for (int k = 0; k < 192 && x; k++) CHECK(x[k] == pixels[k]);
  const int64_t *y = tn_batch_array(b, "label").data;
  for (int k = 0; k < 8 && y; k++) CHECK(y[k] == k);
  tn_batch_release(b);
}

static void test_normalised(void) {
  const float mean[] = {1, 2}, std[] = {0.5f, 4};
  tn_batch b = whole(images((tn_image_options){.scale = 0.25, .mean = mean, .std = std, .n_channels = 2}), 0, 0);
  const float *x = image_of(b, 2, 4, 3);
  for (int k = 0; k < 192 && x; k++) {
    int c = k / 12 % 2;
    CHECK(x[k] == (pixels[k] * 0.25f - mean[c]) / std[c]);
  }
  tn_batch_release(b);
}

// Padded to 6 x 5, of which the middle 2 x 5 stay: two rows with a zero on each side.
static void test_crop(void) {
  tn_batch b = whole(images((tn_image_options){.padding = 1, .crop = {2, 5}}), 0, 0);
  const float *x = image_of(b, 2, 2, 5);
  for (int k = 0; k < 160 && x; k++) {
    int plane = k / 10, row = k / 5 % 2, column = k % 5;
    CHECK(x[k] == (column == 0 || column == 4 ? 0 : pixels[plane * 12 + (row + 1) * 3 + column - 1]));
  }
  tn_batch_release(b);
}

static bool is_window(const float *x, int item, int dy, int dx, bool flip) {
  for (int k = 0; k < 2 * 4 * 3; k++) {
    int c = k / 12, y = k / 3 % 4 + dy, j = (flip ? 2 - k % 3 : k % 3) + dx;
    float want = y < 0 || y > 3 || j < 0 || j > 2 ? 0 : pixels[item * 24 + c * 12 + y * 3 + j];
    if (x[k] != want) return false;
  }
  return true;
}

// Each is some window of the padded image, flipped or not; by seed and epoch, not by worker.
static void test_random(void) {
  const tn_image_options o = {.padding = 1, .crop = {4, 3}, .random_crop = true, .random_flip = true, .seed = 5};
  tn_image_options other = o;
  other.seed = 6;
  tn_batch a = whole(images(o), 0, 0), same = whole(images(o), 3, 0), later = whole(images(o), 0, 1),
           later_too = whole(images(o), 2, 1), seeded = whole(images(other), 0, 0);
  const float *x = image_of(a, 2, 4, 3);
  CHECK(!memcmp(x, image_of(same, 2, 4, 3), sizeof pixels));
  CHECK(!memcmp(image_of(later, 2, 4, 3), image_of(later_too, 2, 4, 3), sizeof pixels));
  CHECK(memcmp(x, image_of(later, 2, 4, 3), sizeof pixels) && memcmp(x, image_of(seeded, 2, 4, 3), sizeof pixels));
  int n_flipped = 0, n_moved = 0;
  for (int i = 0; i < 8; i++) {
    int n = 0;
    for (int k = 0; k < 18; k++)
      if (is_window(x + 24 * i, i, k / 6 - 1, k / 2 % 3 - 1, k % 2))
        n++, n_flipped += k % 2, n_moved += k / 6 != 1 || k / 2 % 3 != 1;
    CHECK(n == 1);
  }
  CHECK(n_flipped > 0 && n_flipped < 8 && n_moved > 0);
  tn_batch_release(a), tn_batch_release(same), tn_batch_release(later), tn_batch_release(later_too);
  tn_batch_release(seeded);
}

// torch.nn.functional.interpolate(x, (4, 4), mode="bilinear") of [[1, 2], [3, 4]]; an image of two axes gets a channel.
static void test_resize(void) {
  static const float from[] = {1, 2, 3, 4}, want[] = {1,    1.25f, 1.75f, 2,    1.5f, 1.75f, 2.25f, 2.5f,
                                                      2.5f, 2.75f, 3.25f, 3.5f, 3,    3.25f, 3.75f, 4};
  const tn_array array = tn_f32((void *)(uintptr_t)from, 1, 2, 2);
  tn_dataset *d = tn_dataset_arrays(&array, 1, (const char *const[]){"image"}, why, sizeof why);
  tn_dataset *large = tn_dataset_images(d, &(tn_image_options){.resize = {4, 4}}, why, sizeof why);
  tn_batch b = whole(large, 0, 0);
  tn_array a = tn_batch_array(b, "image");
  CHECK(a.rank == 4 && a.dims[1] == 1 && a.dims[2] == 4 && a.dims[3] == 4);
  for (int k = 0; k < 16 && a.data; k++) CHECK(((float *)a.data)[k] == want[k]);
  tn_batch_release(b);
  b = whole(tn_dataset_images(d, &(tn_image_options){.resize = {1, 1}}, why, sizeof why), 0, 0);
  CHECK(tn_batch_array(b, "image").data && *(float *)tn_batch_array(b, "image").data == 2.5f);
  tn_batch_release(b), tn_dataset_free(d);
}

static void refused(tn_image_options o, const char *text) {
  tn_dataset *d = images(o);
  CHECK(d == NULL);
  CHECK_HAS(why, text);
  tn_dataset_free(d);
}

static void test_mistakes(void) {
  const float one[] = {1, 1, 1}, zero[] = {0};
  refused((tn_image_options){.field = "x"}, "the data set has no field 'x'");
  refused((tn_image_options){.field = "label"}, "field 'label' is i64 with 0 axes");
  refused((tn_image_options){.crop = {5, 3}}, "the cropped height of images is 5, and with padding there are 4");
  refused((tn_image_options){.crop = {4, -1}}, "the cropped width of images is -1");
  refused((tn_image_options){.padding = -1}, "the padding of images is -1, 0 to 65536 are possible");
  refused((tn_image_options){.resize = {1 << 20, 2}}, "the height of images is 1048576, 1 to 65536 are possible");
  refused((tn_image_options){.mean = one, .n_channels = 3}, "mean and std are given for 3 channels, images have 2");
  refused((tn_image_options){.std = one}, "mean and std are given for 0 channels");
  refused((tn_image_options){.std = zero, .n_channels = 1}, "channel 0 make no finite number");
  CHECK(!tn_dataset_images(NULL, NULL, why, sizeof why));
}

int main(void) {
  for (int k = 0; k < 192; k++) pixels[k] = (float)(k + 1);
  for (int k = 0; k < 8; k++) labels[k] = k;
  test_as_they_are();
  test_normalised();
  test_crop();
  test_random();
  test_resize();
  test_mistakes();
  return check_report();
}
