#include "examples/resnet/options.h"
#include "examples/arguments.h"
#include "examples/resnet/model.h"

static int depth;

static bool read_depth(const char *v) {
  return sscanf(v, "%d%1s", &depth, (char[2]){0}) == 1 && resnet_of_depth(depth);
}

void read_options(int argc, char **argv, Options *o) {
  const char *photos[MOST_PHOTOS];
  int n_photos = 0, n_files = 0;
  long side = (long)o->side, classes = (long)o->classes;
  depth = o->depth;
  const Argument list[] = {{"--depth", "20|56|18|34|50|101|152", "layers", .read = read_depth},
                           {"--weights", "FILE", "a state_dict with torchvision's names", .text = &o->weights},
                           {"--cifar", "FILE", "CIFAR-10's binary files, one after the other", .text = o->files,
                            .n_texts = &n_files, .most = MOST_FILES},
                           {"--epochs", "N", "passes over the data", .whole = &o->epochs, .most = 1e9},
                           {"--side", "N", "height and width of images", .whole = &side, .least = 1, .most = 1e4},
                           {"--classes", "N", "that it tells apart", .whole = &classes, .least = 10, .most = 1e6},
                           {"--lr", "X", "rate of learning", .number = &o->lr, .above = true},
                           {"--out", "FILE", "where the weights are saved", .text = &o->out},
                           {"--expect", "SHARE", "of images right, else it fails", .number = &o->expect, .most = 1},
                           {NULL, "PHOTO..", "PNG and JPEG files, whose classes it names", .text = photos,
                            .n_texts = &n_photos, .most = MOST_PHOTOS}};
  read_arguments(argc, argv, "residual networks: trained, and naming classes of images", list,
                 sizeof list / sizeof *list);
  o->depth = depth, o->side = side, o->classes = classes;
  o->n_files = (uint32_t)n_files, o->n_photos = (uint32_t)n_photos;
  for (int k = 0; k < n_photos; k++) o->photos[k].path = photos[k];
}
