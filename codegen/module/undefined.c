// Undefined symbols of an object, by its relocations: nothing but those that every linker defines.
#include "codegen/module/undefined.h"
#include "runtime/base.h"
#include <llvm-c/Core.h>

#include <string.h>

#include <llvm-c/Object.h>

// Tables and places that linkers make, and Windows' probe of the stack, which its C libraries have. Beginnings, since names
// in files for wasm have no end.
static const char *const by_linkers[] = {
    "_GLOBAL_OFFSET_TABLE_", ".TOC.",        "__linear_memory", "__stack_pointer", "__indirect_function_table",
    "__memory_base",         "__table_base", "__chkstk",        "___chkstk_ms"};

static bool is_by_linkers(const char *name) {
  for (size_t k = 0; k < sizeof by_linkers / sizeof *by_linkers; k++)
    if (!strncmp(by_linkers[k], name, strlen(by_linkers[k]))) return true;
  return false;
}

static bool is_undefined(LLVMBinaryRef file, LLVMSymbolIteratorRef symbol) {
  LLVMSectionIteratorRef home = LLVMObjectFileCopySectionIterator(file);
  LLVMMoveToContainingSection(home, symbol);
  bool nowhere = LLVMObjectFileIsSectionIteratorAtEnd(file, home);
  LLVMDisposeSectionIterator(home);
  return nowhere;
}

// The first name in a section's relocations; NULL: none.
static const char *of_section(LLVMBinaryRef file, LLVMSectionIteratorRef section) {
  const char *name = NULL;
  LLVMRelocationIteratorRef r = LLVMGetRelocations(section);
  for (; !name && !LLVMIsRelocationIteratorAtEnd(section, r); LLVMMoveToNextRelocation(r)) {
    LLVMSymbolIteratorRef symbol = LLVMGetRelocationSymbol(r);
    if (!LLVMObjectFileIsSymbolIteratorAtEnd(file, symbol) && is_undefined(file, symbol)) {
      const char *found = LLVMGetSymbolName(symbol);
      if (found && *found && !is_by_linkers(found)) name = found;
    }
    LLVMDisposeSymbolIterator(symbol);
  }
  LLVMDisposeRelocationIterator(r);
  return name;
}

const char *cg_first_undefined(LLVMContextRef ctx, LLVMMemoryBufferRef object) {
  char *error = NULL;
  const char *name = NULL;
  LLVMBinaryRef file = LLVMCreateBinary(object, ctx, &error);
  if (!file) return LLVMDisposeMessage(error), NULL;
  LLVMSectionIteratorRef s = LLVMObjectFileCopySectionIterator(file);
  for (; !name && !LLVMObjectFileIsSectionIteratorAtEnd(file, s); LLVMMoveToNextSection(s)) name = of_section(file, s);
  LLVMDisposeSectionIterator(s);
  return name;  // it lies in the object: the file is not disposed of
}
