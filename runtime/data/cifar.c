#include "runtime/data/cifar.h"

#include <inttypes.h>

enum { PIXELS = 3 * 32 * 32, MOST_RECORD = PIXELS + 2, COARSE_CLASSES = 20 };

typedef struct {
  RtSource source;
  RtCifar kind;
  uint32_t n_labels;  // bytes in front of the pixels; the last one is the class
} Cifar;

static size_t record_bytes(const Cifar *c) { return c->n_labels + PIXELS; }

static bool check_label(const Cifar *c, uint64_t k, uint32_t place, unsigned label, char *error, size_t error_size) {
  unsigned n = place + 1 == c->n_labels ? (unsigned)c->kind : COARSE_CLASSES;
  if (label < n) return true;
  return rt_fail(error, error_size, "%s: byte %" PRIu64 ": image %" PRIu64 " has %slabel %u, there are %u",
                 c->source.name, k * record_bytes(c) + place, k, n == COARSE_CLASSES ? "coarse " : "", label, n);
}

static bool check_labels(const Cifar *c, const unsigned char *record, uint64_t k, char *error, size_t error_size) {
  for (uint32_t i = 0; i < c->n_labels; i++)
    if (!check_label(c, k, i, record[i], error, error_size)) return false;
  return true;
}

// The file may have been written anew since it was opened.
static bool get_image(void *ctx, size_t k, RtItem *to) {
  const Cifar *c = ctx;
  unsigned char record[MOST_RECORD];
  if (!rt_source_read(&c->source, (uint64_t)k * record_bytes(c), record, record_bytes(c), to->error, to->error_size) ||
      !check_labels(c, record, k, to->error, to->error_size))
    return false;
  float *image = to->data[0];
  for (size_t i = 0; i < PIXELS; i++) image[i] = (float)record[c->n_labels + i];
  *(int64_t *)to->data[1] = record[c->n_labels - 1];
  if (c->n_labels == 2) *(int64_t *)to->data[2] = record[0];
  return true;
}

static void free_cifar(void *ctx) {
  Cifar *c = ctx;
  rt_source_close(&c->source);
  rt_free(c);
}

static const RtDatasetOps cifar_ops = {.get = get_image, .free = free_cifar};

static bool check_file(const Cifar *c, char *error, size_t error_size) {
  uint64_t n = c->source.size / record_bytes(c);
  if (c->source.size % record_bytes(c))
    return rt_fail(error, error_size,
                   "%s: %" PRIu64 " bytes are no whole number of images: CIFAR-%d has %zu bytes for each",
                   c->source.name, c->source.size, (int)c->kind, record_bytes(c));
  for (uint64_t k = 0; k < n; k++) {
    unsigned char labels[2] = {0};
    if (!rt_source_read(&c->source, k * record_bytes(c), labels, c->n_labels, error, error_size) ||
        !check_labels(c, labels, k, error, error_size))
      return false;
  }
  return true;
}

RtDataset *rt_dataset_cifar(RtSource *s, RtCifar kind, char *error, size_t error_size) {
  static const RtField fields[] = {{.name = "image", .dtype = RT_F32, .rank = 3, .dims = {3, 32, 32}},
                                   {.name = "label", .dtype = RT_I64},
                                   {.name = "coarse", .dtype = RT_I64}};
  Cifar *c = rt_malloc(sizeof *c);
  if (!c) {
    rt_fail(error, error_size, "%s: out of memory", s->name);
    return NULL;
  }
  *c = (Cifar){.source = *s, .kind = kind, .n_labels = kind == RT_CIFAR100 ? 2 : 1};
  size_t count = (size_t)(s->size / record_bytes(c));
  RtDataset *d = check_file(c, error, error_size)
                     ? rt_dataset_new(&cifar_ops, c, fields, 1 + c->n_labels, count, error, error_size)
                     : NULL;
  if (!d) rt_free(c);
  return d;
}
