// The image of a program: what linking makes (link.c), the object cache keeps and loading copies (jit.c).
#ifndef TN_CODEGEN_MODULE_LINK_H
#define TN_CODEGEN_MODULE_LINK_H

#include "codegen/module/compile.h"

#define CG_IMAGE_PAGE 65536  // the largest page of the CPUs in the table
#define cg_image_magic "TNIMAGE"

// Offsets count from the base, the address at which the image is loaded.
typedef struct {
  char magic[8];
  uint64_t read_only;    // [0, read_only): code and constants, whole pages
  uint64_t filled;       // [0, filled): in the image, the rest is zero
  uint64_t total;        // [0, total): in memory, whole pages
  uint64_t n_addresses;  // u64 offsets of words to which the base is added
  uint64_t n_symbols;    // CgImageSymbol
  uint64_t names;        // bytes of 0-terminated names
} CgImageHead;
typedef struct {
  uint64_t at, name;  // offsets in the program and among the names
} CgImageSymbol;

// n relocatable ELF files become out, from rt_malloc; false: why.
bool cg_link(RtArena *mem, const CgObject *file, uint32_t n, CgObject *out, RtText *why);

#endif
