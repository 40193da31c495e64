// Numbers of the rooms gemm, conv and product that were found by measuring on the AVX-512 machine, and that another machine may
// want otherwise: one table for each file, one row for each number. Sizes of caches and registers are in the row of a CPU
// (codegen/target.h); what the form of the code fixes stays in its file.
//
//   X(name, value, page, meaning)    page: of docs/experiments, that found the value or measures what it steers; 0: none yet
//
// A file writes `enum { TUNED_TILED(TUNE) };`.
#ifndef TN_CODEGEN_TUNING_H
#define TN_CODEGEN_TUNING_H

#define TUNE(name, value, page, meaning) name = (value),

// clang-format off
#define TUNED_PRODUCT(X)                                                                                                  \
  X(SMALL_FMAS, 32 * 1024, 2, "below, worker 0 computes the product alone: a barrier costs more than it wins (018 too)")  \
  X(PREPACKED_ROWS, 4, 16, "with fewer rows a weight is read once in any case")                                           \
  X(PREPACKED_MOST_ROWS, 256, 16, "with more, packing the weight in every run costs next to nothing")                     \
  X(PREPACKED_ELEMENTS, 1024, 16, "of a weight: a smaller one is not prepacked")                                          \
  X(L2_PART, 8, 28, "an A that every worker computes for itself takes at most this part of L2")                           \
  X(PRIVATE_WORK, 64 * 1024, 28, "and at most so many operations: 2 us, where a barrier takes one")

#define TUNED_TILED(X)                                                                                                    \
  X(UNITS_WANTED, 24, 27, "macro tiles, so that shares are even")                                                         \
  X(PRIVATE_UNITS, 16, 23, "likewise where each further MC block packs B again")                                          \
  X(FEW_UNITS, 8, 54, "likewise for few rows")                                                                            \
  X(FEW_ROWS, 256, 54, "products with fewer rows want FEW_UNITS")                                                         \
  X(STRIP_ROWS, 128, 26, "rows of sums that stay in L1 for the epilogue")                                                 \
  X(PRIVATE_ROWS, 1024, 23, "rows that pass by a panel's block which their worker packed")                                \
  X(SUM_ROWS, 512, 23, "likewise where their sums stay on the stack for all KC blocks")                                   \
  X(OUTER_ROWS, 256, 81, "at most, of an MC block whose KC blocks stay in L2 while panels pass by")                       \
  X(PACKED_A_TILES, 4, 25, "microkernels of rows in an MC block of A_PACKED (046 too)")                                   \
  X(L2_PART, 8, 28, "part of L2 that rows of a prologue's A take")                                                        \
  X(NC_L2_PART, 2, 90, "part of L2 for NC columns of B, past which micropanels of a packed A go")                         \
  X(CHAINS, 8, 29, "accumulators that hide the latency of additions")                                                     \
  X(CHAINED_K, 64, 29, "from sums of this length on")                                                                     \
  X(CHAINED_ROWS, 4, 29, "of products with fewer rows than a prepacked one, which has the sums of others")                \
  X(ONCE_L2_PART, 2, 128, "part of L2 that operands exceed which one tile of all rows reads once")                        \
  X(WAYS, 16, 128, "at most, rows of such a tile that are pages apart")                                                   \
  X(FAR_COLUMNS, 128, 23, "from which on rows of B are too far apart to be read in place")                                \
  X(FAR_K, 16, 23, "by at least so many of them")                                                                         \
  X(TWICE_K, 512, 143, "at most, of a B that two tiles of rows read in place")                                            \
  X(TWICE_LLC_PART, 2, 143, "part of the LLC that such a B takes at most")                                                \
  X(LONG_K, 4096, 23, "from which on k is cut even where nothing is packed")                                              \
  X(SHARED_PANELS, 12, 22, "of B; with fewer a packed A costs more than it wins (091 too)")                               \
  X(SHARED_K, 64, 91, "a shorter sum does not pay for the barrier")                                                       \
  X(WINDOW_LLC_PART, 8, 104, "part of the LLC that a window of a packed A takes")                                         \
  X(WINDOW_UNITS, 16, 104, "macro tiles of a window, at least, so that shares are even")                                  \
  X(MANY_TILES, 4, 91, "of rows, for which A is packed whatever its stride, and B by several panels")                     \
  X(NC_PANELS, 4, 91, "at most, of a block")                                                                              \
  X(NC_LEAST_PANELS, 2, 91, "at least, for which KC leaves room")                                                         \
  X(PAD_L2_PART, 2, 65, "part of L2 that the copied rows of an MC block take at least")                                   \
  X(PAD_ROWS, 28, 65, "copied rows of an MC block, at least")                                                             \
  X(TALL_L1_PART, 2, 77, "part of L1 for rows of an MC block of a tall product")                                          \
  X(WRITE_K, 16, 97, "k of sums that memory takes longer to write than a core to make")                                   \
  X(TALL_L2_PART, 2, 77, "part of L2 for all of its B")                                                                   \
  X(PROLOGUE_ROWS, 64, 28, "of an MC block whose rows a prologue computes, at least")                                     \
  X(PROLOGUE_PANELS, 2, 28, "that they pass by, at most")

#define TUNED_AT_B(X)                                                                                                     \
  X(MOST_COLUMNS, 128, 54, "of the narrow operand")                                                                       \
  X(KC, 256, 54, "so that what all tiles of a panel read stays in L1")                                                    \
  X(LONG_K, 1024, 65, "from which on a narrow A is not packed")                                                           \
  X(L2_PART, 2, 65, "a wide operand that is larger than this part of L2 is prefetched")

#define TUNED_AXPY(X)                                                                                                     \
  X(MOST_ROWS, 4, 29, "of A")                                                                                             \
  X(MOST_AT_ONCE, 8, 29, "rows of B at a time")                                                                           \
  X(FEW_COLUMNS, 128, 29, "up to which a panel of strategy tiled has whole rows of B")                                    \
  X(STACK_PART, 16, 0, "part of the stack for sums")                                                                      \
  X(GRAIN, 4, 27, "vectors of columns: shares of workers are multiples")

#define TUNED_BLAS(X) \
  X(BLAS_FMAS, 64 * 64 * 64, 20, "below, no library call is worth it")

#define TUNED_DOT(X) \
  X(MOST_ROWS, 11, 16, "up to which nothing is packed")

#define TUNED_GEMV(X)                                                                                                     \
  X(MOST_ROWS, 4, 18, "of A")                                                                                             \
  X(N_ACC, 4, 18, "accumulators of a row: as many as an addition takes cycles")                                           \
  X(STREAM_UNITS, 4, 109, "of a stream, at least, where B is read as several")                                            \
  X(LLC_AHEAD, 256, 18, "elements of B that are prefetched where it is in LLC")                                           \
  X(LONG_K, 2048, 18, "from which on rows of B are a stream each, wherever B comes from")                                 \
  X(MOST_A, 16384, 18, "elements of A on the stack")                                                                      \
  X(MOST_K, 8192, 18, "elements of a row, where B is in LLC")

#define TUNED_SKINNY(X)                                                                                                   \
  X(MOST_COLUMNS, 8, 29, "of B")                                                                                          \
  X(CHAINS, 8, 29, "accumulator chains of a single number")                                                               \
  X(AHEAD_ROWS, 3, 21, "of A, from which on B's streams are too few for the hardware prefetcher")

#define TUNED_SPLIT_K(X)                                                                                                  \
  X(LEAST_K, 4096, 19, "of a slice: 4 us and more, where a barrier takes less than one")                                  \
  X(MOST_SLICES, 32, 19, "so that scratch is small")                                                                      \
  X(FEW_UNITS, 8, 19, "products with fewer units of work are cut")                                                        \
  X(MOST_ELEMENTS, 16384, 19, "of a product that is cut")                                                                 \
  X(PARTS_SLICES, 8, 87, "of products whose A every worker would pack for itself")                                        \
  X(PARTS_BLOCKS, 4, 87, "MC blocks of such a product, below which it is cut")                                            \
  X(PARTS_ELEMENTS, 1 << 20, 87, "elements of such a product, at most")

#define TUNED_PREFETCH(X)                                                                                                 \
  X(L2_PART, 2, 65, "operands and results larger than this part of L2 are not in L2 when their turn comes")               \
  X(MANY_TILES, 8, 81, "of rows, at least, so that most of them find the panel in L2")                                    \
  X(MOST_TILES, 40, 81, "of rows: with more, little is lost while the first of them waits for the panel")

#define TUNED_PACK_AHEAD(X) \
  X(AHEAD, 2, 87, "blocks from the one that is packed to the one that is prefetched")

#define TUNED_MICROKERNEL(X) \
  X(UNROLLED_K, 128, 90, "from which on a turn of several steps pays for its code")

#define TUNED_MOMENTS(X) \
  X(SLOT_ROWS, 32, 85, "of a slot, at least, on average: slots are an eighth of the rows")

#define TUNED_AMX(X)                                                                                                      \
  X(LEAST_K, 64, 86, "of products that are computed in parts")                                                            \
  X(LEAST_SIDE, 40, 86, "likewise: half of the harmonic mean of m and n")                                                 \
  X(SHARED_A_BYTES, 8 << 20, 87, "of all of A's parts in scratch")                                                        \
  X(SHARED_B_BYTES, 5 << 18, 87, "of all of B's parts: they stay in L2")                                                  \
  X(NC_BYTES, 3 << 18, 87, "of an NC block's parts in the worker's memory, two buffers where it is packed ahead")         \
  X(ACC_BYTES, 1 << 19, 87, "of an NC block's accumulators beside them, while KC blocks pass by")                         \
  X(KC, 256, 86, "of a KC block")                                                                                         \
  X(LONG_KC, 768, 87, "likewise, of a B stored [N, K]")                                                                   \
  X(PRIVATE_ROWS, 256, 87, "of an MC block whose A, or whose sums, are in the worker's memory")                           \
  X(MOST_ROWS, 1024, 87, "of an MC block")                                                                                \
  X(FEWEST_ROWS, 128, 87, "of an MC block")                                                                               \
  X(UNITS, 16, 87, "macro tiles, so that shares are even")

#define TUNED_CONV(X)                                                                                                     \
  X(MOST_ROWS, 16, 62, "rows of a tile")                                                                                  \
  X(FEW_COLUMNS, 16, 62, "columns of a band, at least")                                                                   \
  X(FEW_PIXELS, 48, 62, "of a unit: with fewer, weights that are larger than L2 are read faster than they come")          \
  X(UNITS_WANTED, 16, 62, "so that shares are even")

#define TUNED_BANDS(X)                                                                                                    \
  X(STRIP_BYTES, 64 << 10, 62, "of a strip of source rows")                                                               \
  X(L2_PART, 4, 62, "part of L2 that a band takes")

#define TUNED_DEPTHWISE(X)                                                                                                \
  X(BAND, 4, 58, "rows of a result in a band, at most")                                                                    \
  X(SUMS_BYTES, 32 << 10, 58, "of sums that wait for their epilogue")                                                     \
  X(STRIP_BYTES, 24 << 10, 58, "of a strip in L1, beside weights and sums")

#define TUNED_PLANES(X)                                                                                                   \
  X(BAND_ELEMENTS, 4096, 99, "results of a band of a plane with channels first, about")

#define TUNED_CONV_PLANES(X)                                                                                              \
  X(PIXELS, 256, 131, "of a unit, at most")                                                                               \
  X(LEAST_PIXELS, 64, 131, "of a unit, though shares are not even")                                                       \
  X(L2_PART, 4, 131, "part of L2 that a strip takes of which all channels are copied at once, and sums that wait (135)") \
  X(KC, 256, 131, "terms of sums, at most, of which a panel of pixels reads what stays in L1")                            \
  X(UNITS_WANTED, 8, 131, "so that shares are even")

#define TUNED_PLANES_WEIGHTS(X)                                                                                           \
  X(WIDE_SUMS, 25, 99, "of taps in registers, where there are 32 of these")                                               \
  X(FEW_SUMS, 9, 99, "in 16")

#define TUNED_DEPTHWISE_WEIGHTS(X)                                                                                        \
  X(MOST_SLICES, 16, 70, "of the pixels")                                                                                 \
  X(SLICE_BYTES, 4 << 20, 70, "of all slices' sums")                                                                      \
  X(L2_PART, 2, 70, "part of L2 that a band of x and g takes")                                                            \
  X(STRIP_COLUMNS, 64, 70, "of a strip, at least")                                                                        \
  X(STRIP_PIXELS, 256, 70, "and rows until it has so many pixels")

#define TUNED_WEIGHT_GRAD(X)                                                                                              \
  X(MOST_SLICES, 16, 78, "of the pixels")                                                                                 \
  X(SLICE_BYTES, 4 << 20, 78, "of all slices' sums")                                                                      \
  X(UNITS_WANTED, 16, 78, "so that shares are even")                                                                      \
  X(FEW_COLUMNS, 16, 78, "columns of a strip, at least")                                                                  \
  X(G_BYTES, 32 << 10, 83, "of a panel of g that a strip meets: it stays in L1")                                          \
  X(FEW_ROWS, 12, 78, "of tiles: with fewer, no smaller block is tried")

#define TUNED_WEIGHT_ROWS(X)                                                                                              \
  X(MOST_PIXELS, 8, 78, "that are read at a time")                                                                        \
  X(LEAST_SUMS, 16, 78, "twice what hides the latency of multiply-adds of two units")                                     \
  X(RUN_COLUMNS, 64, 78, "estimate of the pixels of a row whose length the run gives")

#define TUNED_WINOGRAD(X)                                                                                                 \
  X(STACK_PART, 13, 60, "sixteenths of a worker's stack for V and M")                                                     \
  X(MOST_TILES, 32, 60, "of a block")                                                                                     \
  X(FEW_TILES, 8, 60, "of a block, at least, so that U is read often enough from L1 and L2")                              \
  X(PRIVATE_TILES, 12, 60, "V is shared where the stack has room for fewer")                                              \
  X(MOST_ROWS, 16, 60, "of a tile of sums")                                                                               \
  X(CHUNK_BYTES, 4 << 20, 60, "of V in scratch, unless a block needs more")                                               \
  X(MOST_WEIGHT_BYTES, 64 << 20, 60, "of U in scratch")                                                                   \
  X(PARTS_WANTED, 8, 60, "of the tiles: work for a team")                                                                 \
  X(SOURCE_COST, 200, 60, "of a vector of channels of a source tile: loads, stores and arithmetic, in FMAs of a vector")  \
  X(RESULT_COST, 140, 60, "likewise, of a tile of results")                                                               \
  X(WEIGHT_COST, 500, 60, "of a vector of U, whose weights are not neighbours")                                           \
  X(LOAD_COST, 3, 60, "of reading a vector from the LLC")                                                                 \
  X(MEMORY_COST, 6, 60, "of reading one from memory, or writing it there")                                                \
  X(COPY_COST, 4, 165, "of copying a vector of a strip, for direct sums")                                                     \
  X(MATRIX_GAP, 16, 60, "elements between matrices, so that points of a tile map to different cache sets")                \
  X(GAIN, 125, 93, "per cent: a smaller one is no reason to round more")

#define TUNED_WINOGRAD_WEIGHTS(X)                                                                                         \
  X(MOST_SLICES, 8, 60, "of the tiles")                                                                                   \
  X(SLICE_BYTES, 4 << 20, 60, "of all slices' sums, unless there is one")                                                 \
  X(MOST_TILES, 48, 60, "of a block")                                                                                     \
  X(FEW_TILES, 6, 60, "of a block, at least")                                                                             \
  X(MOST_ROWS, 16, 60, "of a tile of sums")                                                                               \
  X(STACK_PART, 13, 60, "sixteenths of a worker's stack for V and D")                                                     \
  X(MATRIX_GAP, 16, 60, "elements between matrices, so that points of a tile map to different cache sets")                \
  X(SOURCE_COST, 200, 60, "of a vector of a source tile, in FMAs of a vector")                                            \
  X(GRADIENT_COST, 160, 60, "likewise, of a tile of g")                                                                   \
  X(SUMS_COST, 4, 60, "of loading and storing a vector of sums")                                                          \
  X(FINISH_COST, 600, 60, "of transforming one and storing it by elements")
// clang-format on

#endif
