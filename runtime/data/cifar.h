// CIFAR's binary files: records of labels and an image, one behind the other.
//
//   CIFAR-10:  <label> <1024 red> <1024 green> <1024 blue>              3,073 bytes
//   CIFAR-100: <coarse label> <fine label> <the same 3,072 bytes>       3,074 bytes
//
// Fields image f32 [3, 32, 32], 0 to 255, and label i64 []; of CIFAR-100 also coarse i64 [] behind them. Records are read
// from the file where a batch needs them; all labels are checked when it is opened.
#ifndef TN_RUNTIME_DATA_CIFAR_H
#define TN_RUNTIME_DATA_CIFAR_H

#include "runtime/data/dataset.h"
#include "runtime/store/byte_source.h"

typedef enum { RT_CIFAR10 = 10, RT_CIFAR100 = 100 } RtCifar;  // as tn_cifar
// Takes the source over when it succeeds.
RtDataset *rt_dataset_cifar(RtSource *s, RtCifar kind, char *error, size_t error_size);

#endif
