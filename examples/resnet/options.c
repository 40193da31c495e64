#include "examples/resnet/options.h"
#include "examples/resnet/model.h"
#include <stdlib.h>
#include <string.h>

static bool set_option(Options *o, const char *name, const char *v) {
  if (!strcmp(name, "--weights")) return o->weights = v, true;
  if (!strcmp(name, "--out")) return o->out = v, true;
  if (!strcmp(name, "--cifar")) return o->n_files < MOST_FILES && (o->files[o->n_files++] = v, true);
  if (!strcmp(name, "--depth")) return o->depth = atoi(v), resnet_of_depth(o->depth) != NULL;
  if (!strcmp(name, "--epochs")) return o->epochs = atoi(v), o->epochs >= 0;
  if (!strcmp(name, "--side")) return o->side = atoi(v), o->side > 0;
  if (!strcmp(name, "--classes")) return o->classes = atoi(v), o->classes > 9;
  if (!strcmp(name, "--lr")) return o->lr = atof(v), o->lr > 0;
  return !strcmp(name, "--expect") && (o->expect = atof(v), true);
}

bool read_options(int argc, char **argv, Options *o) {
  for (int k = 1; k < argc; k++) {
    if (argv[k][0] != '-' && o->n_photos < MOST_PHOTOS) o->photos[o->n_photos++].path = argv[k];
    else if (argv[k + 1] && set_option(o, argv[k], argv[k + 1])) k++;
    else
      return fputs("resnet [--depth 20|56|18|34|50|101|152] [--weights FILE] [--cifar FILE].. [--epochs N]\n"
                   "       [--side N] [--classes N] [--lr X] [--out FILE] [--expect SHARE] [PHOTO..]\n",
                   stderr),
             false;
  }
  return true;
}
