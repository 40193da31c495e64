// Residual networks with torchvision's names: conv1, bn1, layer1.0.conv1, layer1.0.bn1, .., layer2.0.downsample.0 (a 1x1
// convolution), layer2.0.downsample.1 (its batch norm), .., fc. Of depth 20 and 56 for small images (He et al. 2015, table 6:
// CIFAR; the first convolution is 3x3, and there are three layers), of 18, 34, 50, 101 and 152 for large ones.
#ifndef RESNET_MODEL_H
#define RESNET_MODEL_H

#include "frontend/tenure.h"

typedef struct {
  int depth;
  bool is_small;      // of images: conv1 is 3x3 of stride 1 without a pool behind it
  bool has_neck;      // blocks are 1x1, 3x3, 1x1, four times as wide at their ends
  int64_t width;      // of layer1; each further layer is twice as wide
  int64_t blocks[4];  // of each layer; 0: there is none
} Resnet;

const Resnet *resnet_of_depth(int depth);  // NULL: there is none
// Adds its parameters to the program's root. Weights begin as torchvision's do (He et al., by outputs).
void resnet_make(tn_program *p, const Resnet *r, int64_t classes);
// x f32 [B,3,H,W] -> logits [B,classes]
tn_tensor resnet_logits(tn_program *p, const Resnet *r, tn_tensor x);
#endif
