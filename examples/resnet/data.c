#include "examples/resnet/data.h"
#include <string.h>

enum { SIDE = 8, PIXELS = SIDE * SIDE };

// 64 columns of a line as an image with three equal channels, 0 to 255
static bool to_image(void *ctx, size_t k, const tn_item *from, tn_item *to) {
  const float *gray = from->data[0];
  float *image = to->data[0];
  for (int i = 0; i < 3 * PIXELS; i++) image[i] = gray[i % PIXELS] * (255.0f / 16);
  memcpy(to->data[1], from->data[1], sizeof(int64_t));
  return (void)ctx, (void)k, true;
}

tn_dataset *open_digits(char *why, size_t n) {
  static char numbers[PIXELS + 1][4];
  const char *columns[PIXELS + 1];
  for (int k = 0; k <= PIXELS; k++) snprintf(numbers[k], sizeof numbers[k], "%d", k), columns[k] = numbers[k];
  const tn_csv_field fields[] = {
      {.name = "pixels", .columns = columns, .n_columns = PIXELS},
      {.name = "label", .dtype = TN_I64, .columns = columns + PIXELS, .n_columns = 1, .is_scalar = true}};
  const tn_field shown[] = {{.name = "image", .dtype = TN_F32, .rank = 3, .dims = {3, SIDE, SIDE}},
                            {.name = "label", .dtype = TN_I64}};
  tn_dataset *table = tn_dataset_csv("data/digits/digits.csv",
                                     &(tn_csv_options){.no_header = true, .fields = fields, .n_fields = 2}, why, n);
  tn_dataset *d = table ? tn_dataset_map(table, shown, 2, to_image, NULL, why, n) : NULL;
  return tn_dataset_free(table), d;
}

tn_dataset *open_cifar(const char *const *files, uint32_t n_files, char *why, size_t n) {
  tn_dataset *part[MOST_FILES] = {0}, *all = NULL;
  uint32_t opened = 0;
  while (opened < n_files && opened < MOST_FILES &&
         (part[opened] = tn_dataset_cifar(files[opened], TN_CIFAR10, why, n)))
    opened++;
  if (opened == n_files) all = tn_dataset_concat(part, opened, why, n);
  while (opened) tn_dataset_free(part[--opened]);
  return all;
}
