#include "codegen/bundle/hole.h"

#include <string.h>

#include <llvm-c/Object.h>

// Mach-O's symbols have a _ before the name.
static bool is_named(const char *symbol, const char *name) {
  return symbol && (!strcmp(symbol, name) || (*symbol == '_' && !strcmp(symbol + 1, name)));
}

static size_t offset_in(LLVMBinaryRef file, LLVMSymbolIteratorRef symbol, const char *start, size_t n) {
  size_t offset = SIZE_MAX;
  LLVMSectionIteratorRef home = LLVMObjectFileCopySectionIterator(file);
  LLVMMoveToContainingSection(home, symbol);
  if (!LLVMObjectFileIsSectionIteratorAtEnd(file, home)) {
    const char *contents = LLVMGetSectionContents(home);
    uint64_t at = LLVMGetSymbolAddress(symbol) - LLVMGetSectionAddress(home), size = LLVMGetSectionSize(home);
    if (contents && at <= size && n <= size - at) offset = (size_t)(contents - start) + (size_t)at;
  }
  LLVMDisposeSectionIterator(home);
  return offset;
}

// What has no bytes in the file, as zerofill of Mach-O, would lie at its beginning.
static bool is_hole(LLVMMemoryBufferRef object, size_t offset, size_t n) {
  const char *at = LLVMGetBufferStart(object);
  size_t size = LLVMGetBufferSize(object);
  if (offset > size || n > size - offset) return false;
  for (size_t k = 0; k < n; k++)
    if (at[offset + k]) return false;
  return true;
}

size_t cg_hole_offset(LLVMContextRef ctx, LLVMMemoryBufferRef object, const char *name, size_t n) {
  char *error = NULL;
  size_t offset = SIZE_MAX;
  LLVMBinaryRef file = LLVMCreateBinary(object, ctx, &error);
  if (!file) return LLVMDisposeMessage(error), offset;
  LLVMSymbolIteratorRef s = LLVMObjectFileCopySymbolIterator(file);
  for (; offset == SIZE_MAX && !LLVMObjectFileIsSymbolIteratorAtEnd(file, s); LLVMMoveToNextSymbol(s))
    if (is_named(LLVMGetSymbolName(s), name)) offset = offset_in(file, s, LLVMGetBufferStart(object), n);
  LLVMDisposeSymbolIterator(s);
  if (offset != SIZE_MAX && !is_hole(object, offset, n)) offset = SIZE_MAX;
  LLVMDisposeBinary(file);
  return offset;
}
