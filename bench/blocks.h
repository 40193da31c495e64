// Blocks of known networks, each a module: rows of bench/sweep.def. bench/peers/torch_blocks.py has the same, under the same names.
#ifndef TN_BENCH_BLOCKS_H
#define TN_BENCH_BLOCKS_H

#include "frontend/tenure.h"

// Adds its modules to `net` and returns that; then x, of as many channels as it was made for, goes through it.
typedef struct {
  tn_module *(*make)(tn_module *net);
  tn_tensor (*call)(tn_module *net, tn_tensor x, tn_tensor other);  // other: of two inputs
} Block;

extern const Block block_inverted, block_dense, block_shuffle, block_unet, block_inception, block_grouped, block_next,
    block_mixer, block_windows, block_diffusion, block_pixels, block_stem, block_wave, block_conformer;
#endif
