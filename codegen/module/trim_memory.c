// Releases memory that only compilation needs: a long training run does not keep the compiler resident.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "codegen/cg.h"

#include <link.h>
#include <llvm-c/Core.h>
#include <malloc.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

static bool holds(const struct dl_phdr_info *o, uintptr_t address) {
  for (int k = 0; k < o->dlpi_phnum; k++) {
    uintptr_t first = o->dlpi_addr + o->dlpi_phdr[k].p_vaddr;
    if (o->dlpi_phdr[k].p_type == PT_LOAD && address >= first && address - first < o->dlpi_phdr[k].p_memsz) return true;
  }
  return false;
}

// Clean file-backed pages are read again from the file on the next access.
static int drop_pages(struct dl_phdr_info *o, size_t size, void *address) {
  (void)size;
  if (!holds(o, (uintptr_t)address)) return 0;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  for (int k = 0; k < o->dlpi_phnum && o->dlpi_name[0]; k++) {
    const ElfW(Phdr) *h = &o->dlpi_phdr[k];
    if (h->p_type != PT_LOAD || h->p_flags & PF_W) continue;
    uintptr_t first = (o->dlpi_addr + h->p_vaddr + page - 1) & ~(page - 1);
    uintptr_t end = (o->dlpi_addr + h->p_vaddr + h->p_filesz) & ~(page - 1);
    if (first < end) madvise((void *)first, end - first, MADV_DONTNEED);
  }
  return 1;
}

void cg_trim_memory(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  dl_iterate_phdr(drop_pages, (void *)(uintptr_t)LLVMContextCreate);
}
