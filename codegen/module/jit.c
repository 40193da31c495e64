// Loading the image of a program (link.h) into this process.
//
// Images come from the compiler process or the object cache; every number in one is checked before it is used. Memory is
// written first and executable afterwards, never both.
#include "codegen/module/link.h"
#include "codegen/module/module.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct CgJit {
  unsigned char *base;
  CgImageHead head;
  uint64_t *addresses;  // copies in one block: the table behind it too
  CgImageSymbol *symbols;
  char *names;
};

// ---- reading an image
static size_t table_bytes(const CgImageHead *h) {
  return h->n_addresses * sizeof(uint64_t) + h->n_symbols * sizeof(CgImageSymbol) + h->names;
}

static bool is_sound(const CgObject *o, CgImageHead *h) {
  if (o->size < sizeof *h) return false;
  memcpy(h, o->bytes, sizeof *h);
  size_t rest = o->size - sizeof *h;
  if (memcmp(h->magic, cg_image_magic, sizeof h->magic)) return false;
  if (h->filled > rest || h->n_addresses > rest / sizeof(uint64_t) || h->n_symbols > rest / sizeof(CgImageSymbol) ||
      h->names > rest || table_bytes(h) != rest - h->filled)
    return false;
  return h->total && h->total < UINT64_C(1) << 40 && h->total % CG_IMAGE_PAGE == 0 && h->read_only <= h->total &&
         h->read_only % CG_IMAGE_PAGE == 0 && h->filled <= h->total;
}

static bool copy_tables(CgJit *j, const unsigned char *from) {
  size_t n = table_bytes(&j->head);
  j->addresses = rt_malloc(n + 1);
  if (!j->addresses) return false;
  memcpy(j->addresses, from, n);
  j->symbols = (CgImageSymbol *)(j->addresses + j->head.n_addresses);
  j->names = (char *)(j->symbols + j->head.n_symbols);
  j->names[j->head.names] = 0;
  return true;
}

static bool tables_are_sound(const CgJit *j) {
  for (uint64_t k = 0; k < j->head.n_addresses; k++)
    if (j->head.total - sizeof(uint64_t) < j->addresses[k]) return false;
  for (uint64_t k = 0; k < j->head.n_symbols; k++)
    if (j->symbols[k].at >= j->head.total || j->symbols[k].name > j->head.names) return false;
  return true;
}

// ---- loading
static void add_base(CgJit *j) {
  for (uint64_t k = 0; k < j->head.n_addresses; k++) {
    uint64_t word;
    memcpy(&word, j->base + j->addresses[k], sizeof word);
    word += (uint64_t)(uintptr_t)j->base;
    memcpy(j->base + j->addresses[k], &word, sizeof word);
  }
}

static bool map(CgJit *j, const unsigned char *contents) {
  unsigned char *base = mmap(NULL, j->head.total, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return false;
  j->base = base;
  memcpy(base, contents, j->head.filled);
  add_base(j);
  __builtin___clear_cache((char *)base, (char *)base + j->head.read_only);
  if (mprotect(base, j->head.read_only, PROT_READ | PROT_EXEC) == 0) return true;
  munmap(base, j->head.total);
  j->base = NULL;
  return false;
}

static void *refuse(CgFailure *failure, CgFailure which, RtText *why, const char *text) {
  if (failure) *failure = which;
  rt_text_add(why, "%s", text);
  return NULL;
}

CgJit *cg_jit_load(const CgObject *o, CgFailure *failure, RtText *why) {
  static const char unsound[] = "this is no image of a program", no_memory[] = "out of memory";
  const unsigned char *at = o->bytes;
  CgImageHead head;
  if (!is_sound(o, &head)) return refuse(failure, CG_NO_CODE, why, unsound);
  CgJit *j = rt_malloc(sizeof *j);
  if (!j) return refuse(failure, CG_NO_MEMORY, why, no_memory);
  *j = (CgJit){.head = head};
  bool has_tables = copy_tables(j, at + sizeof head + head.filled), is_right = has_tables && tables_are_sound(j);
  if (is_right && map(j, at + sizeof head)) return j;
  cg_jit_free(j);
  return has_tables && !is_right ? refuse(failure, CG_NO_CODE, why, unsound)
                                 : refuse(failure, CG_NO_MEMORY, why, no_memory);
}

void *cg_jit_find(CgJit *j, const char *symbol) {
  for (uint64_t k = 0; k < j->head.n_symbols; k++)
    if (!strcmp(j->names + j->symbols[k].name, symbol)) return j->base + j->symbols[k].at;
  return NULL;
}

void cg_jit_free(CgJit *j) {
  if (!j) return;
  if (j->base) cg_profile_print(j);
  if (j->base) munmap(j->base, j->head.total);
  rt_free(j->addresses);
  rt_free(j);
}
