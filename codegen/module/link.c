// Linking: relocatable ELF files of one program become an image, which a process only has to copy.
//
//   files:  .text .rodata.cst32 .data.rel.ro .bss, relocations, symbols
//   image:  CgImageHead | code and constants, data | addresses | symbols | names
//
// Sections that are not written stand first, written ones begin a page of their own, those without contents come last
// and take no room in the image. Code is position-independent, so that the distance of two places is all that most
// relocations ask for. A word that holds an address holds its offset in the image instead, and is listed: loading adds
// the base. Generated code calls nothing outside of the program: a symbol that no file defines is an error.
#include "codegen/module/link.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const unsigned char *bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sections;
  const Elf64_Sym *symbols;
  size_t n_symbols;
  const char *names;
  uint64_t *place;  // of each section in the image; NOT_PLACED
} File;

typedef struct {
  RtArena *mem;
  RtText *why;
  File *files;
  uint32_t n_files;
  CgImageSymbol *symbols;  // that the files share
  uint32_t n_symbols, cap_symbols;
  RtText names;
  uint64_t *addresses;
  uint32_t n_addresses, cap_addresses;
  uint32_t *table;  // 1 + index of a symbol, by hash
  uint32_t n_table;
  unsigned char *bytes;
  CgImageHead head;
} Link;

#define NOT_PLACED UINT64_MAX

// ---- files
static bool open_file(Link *l, const CgObject *object, File *f) {
  *f = (File){.bytes = object->bytes, .head = object->bytes};
  if (object->size < sizeof *f->head || memcmp(f->head->e_ident, ELFMAG, SELFMAG) || f->head->e_type != ET_REL)
    return rt_text_add(l->why, "LLVM gave no relocatable ELF file"), false;
  f->sections = (const void *)(f->bytes + f->head->e_shoff);
  f->place = rt_alloc(l->mem, f->head->e_shnum * sizeof *f->place);
  for (uint32_t k = 0; k < f->head->e_shnum; k++) {
    const Elf64_Shdr *s = &f->sections[k];
    f->place[k] = NOT_PLACED;
    if (s->sh_type != SHT_SYMTAB) continue;
    f->symbols = (const void *)(f->bytes + s->sh_offset);
    f->n_symbols = s->sh_size / sizeof *f->symbols;
    f->names = (const char *)(f->bytes + f->sections[s->sh_link].sh_offset);
  }
  return true;
}

// ---- layout
typedef enum { READ_ONLY, WRITTEN, WITHOUT_CONTENTS, N_KINDS } SectionKind;

static SectionKind kind_of(const Elf64_Shdr *s) {
  if (s->sh_type == SHT_NOBITS) return WITHOUT_CONTENTS;
  return s->sh_flags & SHF_WRITE ? WRITTEN : READ_ONLY;
}

static uint64_t align(uint64_t n, uint64_t unit) { return unit > 1 ? (n + unit - 1) / unit * unit : n; }

static uint64_t place_kind(Link *l, SectionKind kind, uint64_t at) {
  for (uint32_t i = 0; i < l->n_files; i++)
    for (uint32_t k = 0; k < l->files[i].head->e_shnum; k++) {
      const Elf64_Shdr *s = &l->files[i].sections[k];
      if (!(s->sh_flags & SHF_ALLOC) || kind_of(s) != kind) continue;
      l->files[i].place[k] = align(at, s->sh_addralign);
      at = l->files[i].place[k] + s->sh_size;
    }
  return at;
}

static void place_sections(Link *l) {
  CgImageHead *h = &l->head;
  h->read_only = align(place_kind(l, READ_ONLY, 0), CG_IMAGE_PAGE);
  h->filled = place_kind(l, WRITTEN, h->read_only);
  h->total = align(place_kind(l, WITHOUT_CONTENTS, h->filled), CG_IMAGE_PAGE);
  if (h->total == h->read_only) h->filled = place_kind(l, READ_ONLY, 0);  // the rest of the page is zero anyway
}

static void copy_sections(Link *l) {
  l->bytes = rt_alloc(l->mem, l->head.filled + 1);
  for (uint32_t i = 0; i < l->n_files; i++)
    for (uint32_t k = 0; k < l->files[i].head->e_shnum; k++) {
      const Elf64_Shdr *s = &l->files[i].sections[k];
      if (l->files[i].place[k] == NOT_PLACED || s->sh_type == SHT_NOBITS) continue;
      memcpy(l->bytes + l->files[i].place[k], l->files[i].bytes + s->sh_offset, s->sh_size);
    }
}

// ---- symbols that the files share
static uint32_t *slot_of(const Link *l, const char *name) {
  uint32_t at = (uint32_t)rt_hash(name, strlen(name), 0) & (l->n_table - 1);
  while (l->table[at] && strcmp(l->names.text + l->symbols[l->table[at] - 1].name, name))
    at = (at + 1) & (l->n_table - 1);
  return &l->table[at];
}

static bool is_shared(const File *f, const Elf64_Sym *s) {
  return ELF64_ST_BIND(s->st_info) == STB_GLOBAL && s->st_shndx != SHN_UNDEF && s->st_shndx < f->head->e_shnum &&
         f->place[s->st_shndx] != NOT_PLACED;
}

static bool add_symbol(Link *l, const File *f, const Elf64_Sym *s) {
  const char *name = f->names + s->st_name;
  uint32_t *slot = slot_of(l, name);
  if (*slot) return rt_text_add(l->why, "two modules define '%s'", name), false;
  CgImageSymbol *new = RT_PUSH(l->mem, l->symbols, l->n_symbols, l->cap_symbols);
  *new = (CgImageSymbol){f->place[s->st_shndx] + s->st_value, l->names.len};
  rt_text_put(&l->names, name, strlen(name) + 1);
  *slot = l->n_symbols;
  return true;
}

static bool collect_symbols(Link *l) {
  size_t n = 0;
  for (uint32_t i = 0; i < l->n_files; i++) n += l->files[i].n_symbols;
  for (l->n_table = 64; l->n_table < 2 * n;) l->n_table *= 2;
  l->table = rt_alloc(l->mem, l->n_table * sizeof *l->table);
  for (uint32_t i = 0; i < l->n_files; i++)
    for (size_t k = 0; k < l->files[i].n_symbols; k++) {
      const Elf64_Sym *s = &l->files[i].symbols[k];
      if (is_shared(&l->files[i], s) && !add_symbol(l, &l->files[i], s)) return false;
    }
  return true;
}

static bool find_symbol(const Link *l, const File *f, const Elf64_Sym *s, uint64_t *at) {
  if (s->st_shndx != SHN_UNDEF && s->st_shndx < f->head->e_shnum && f->place[s->st_shndx] != NOT_PLACED) {
    *at = f->place[s->st_shndx] + s->st_value;
    return true;
  }
  uint32_t found = *slot_of(l, f->names + s->st_name);
  if (!found)
    return rt_text_add(l->why, "generated code uses '%s', which nothing defines", f->names + s->st_name), false;
  *at = l->symbols[found - 1].at;
  return true;
}

// ---- relocations: the word at offset `at` of the image refers to offset `to`
typedef enum { DONE, TOO_FAR, UNKNOWN } Relocated;

static Relocated put_address(Link *l, uint64_t at, uint64_t to) {
  memcpy(l->bytes + at, &to, sizeof to);
  *RT_PUSH(l->mem, l->addresses, l->n_addresses, l->cap_addresses) = at;
  return DONE;
}

static Relocated put_distance(Link *l, uint64_t at, uint64_t to) {
  int64_t distance = (int64_t)(to - at);
  int32_t low = (int32_t)distance;
  memcpy(l->bytes + at, &low, sizeof low);
  return low == distance ? DONE : TOO_FAR;
}

// Bits [shift, shift + bits) of an instruction of AArch64 take the lowest of `value`.
static Relocated put_bits(Link *l, uint64_t at, uint64_t value, uint32_t shift, uint32_t bits) {
  uint32_t word, mask = ((UINT32_C(1) << bits) - 1) << shift;
  memcpy(&word, l->bytes + at, sizeof word);
  word = (word & ~mask) | ((uint32_t)(value << shift) & mask);
  memcpy(l->bytes + at, &word, sizeof word);
  return DONE;
}

static Relocated put_branch(Link *l, uint64_t at, uint64_t to) {
  int64_t words = (int64_t)(to - at) >> 2;
  put_bits(l, at, (uint64_t)words, 0, 26);
  return words >= -(1 << 25) && words < 1 << 25 ? DONE : TOO_FAR;
}

static Relocated put_page(Link *l, uint64_t at, uint64_t to) {
  int64_t pages = (int64_t)((to >> 12) - (at >> 12));
  put_bits(l, at, (uint64_t)pages & 3, 29, 2);
  put_bits(l, at, (uint64_t)pages >> 2, 5, 19);
  return pages >= -(1 << 20) && pages < 1 << 20 ? DONE : TOO_FAR;
}

static Relocated relocate_x86_64(Link *l, uint32_t kind, uint64_t at, uint64_t to) {
  switch (kind) {
  case R_X86_64_64: return put_address(l, at, to);
  case R_X86_64_PC32:
  case R_X86_64_PLT32: return put_distance(l, at, to);
  default: return UNKNOWN;
  }
}

static Relocated relocate_aarch64(Link *l, uint32_t kind, uint64_t at, uint64_t to) {
  uint64_t in_page = to & 0xfff;
  switch (kind) {
  case R_AARCH64_ABS64: return put_address(l, at, to);
  case R_AARCH64_PREL32: return put_distance(l, at, to);
  case R_AARCH64_JUMP26:
  case R_AARCH64_CALL26: return put_branch(l, at, to);
  case R_AARCH64_ADR_PREL_PG_HI21: return put_page(l, at, to);
  case R_AARCH64_ADD_ABS_LO12_NC:
  case R_AARCH64_LDST8_ABS_LO12_NC: return put_bits(l, at, in_page, 10, 12);
  case R_AARCH64_LDST16_ABS_LO12_NC: return put_bits(l, at, in_page >> 1, 10, 12);
  case R_AARCH64_LDST32_ABS_LO12_NC: return put_bits(l, at, in_page >> 2, 10, 12);
  case R_AARCH64_LDST64_ABS_LO12_NC: return put_bits(l, at, in_page >> 3, 10, 12);
  case R_AARCH64_LDST128_ABS_LO12_NC: return put_bits(l, at, in_page >> 4, 10, 12);
  default: return UNKNOWN;
  }
}

static bool relocate(Link *l, const File *f, uint64_t place, const Elf64_Rela *r) {
  const Elf64_Sym *s = &f->symbols[ELF64_R_SYM(r->r_info)];
  uint32_t kind = (uint32_t)ELF64_R_TYPE(r->r_info);
  uint64_t at = place + r->r_offset, to;
  if (!find_symbol(l, f, s, &to)) return false;
  to += (uint64_t)r->r_addend;
  Relocated done = f->head->e_machine == EM_X86_64    ? relocate_x86_64(l, kind, at, to)
                   : f->head->e_machine == EM_AARCH64 ? relocate_aarch64(l, kind, at, to)
                                                      : UNKNOWN;
  if (done == DONE) return true;
  rt_text_add(l->why, "a relocation of kind %u of machine %u %s", kind, f->head->e_machine,
              done == TOO_FAR ? "reaches too far" : "is unknown");
  return false;
}

static bool relocate_file(Link *l, const File *f) {
  for (uint32_t k = 0; k < f->head->e_shnum; k++) {
    const Elf64_Shdr *s = &f->sections[k];
    if (s->sh_type != SHT_RELA || f->place[s->sh_info] == NOT_PLACED) continue;
    const Elf64_Rela *list = (const void *)(f->bytes + s->sh_offset);
    for (size_t i = 0; i < s->sh_size / sizeof *list; i++)
      if (!relocate(l, f, f->place[s->sh_info], &list[i])) return false;
  }
  return true;
}

// ---- the image
static bool write_image(Link *l, CgObject *out) {
  CgImageHead *h = &l->head;
  memcpy(h->magic, cg_image_magic, sizeof h->magic);
  h->n_addresses = l->n_addresses;
  h->n_symbols = l->n_symbols;
  h->names = l->names.len;
  h->filled = align(h->filled, sizeof(uint64_t));
  size_t n_addresses = l->n_addresses * sizeof *l->addresses, n_symbols = l->n_symbols * sizeof *l->symbols;
  out->size = sizeof *h + h->filled + n_addresses + n_symbols + h->names;
  unsigned char *at = out->bytes = rt_malloc(out->size);
  if (!at) return rt_text_add(l->why, "out of memory"), false;
  memset(at, 0, out->size);
  memcpy(at, h, sizeof *h), at += sizeof *h;
  memcpy(at, l->bytes, h->filled), at += h->filled;
  if (n_addresses) memcpy(at, l->addresses, n_addresses), at += n_addresses;
  if (n_symbols) memcpy(at, l->symbols, n_symbols), at += n_symbols;
  if (h->names) memcpy(at, l->names.text, h->names);
  return true;
}

bool cg_link(RtArena *mem, const CgObject *file, uint32_t n, CgObject *out, RtText *why) {
  Link l = {.mem = mem, .why = why, .names = {.mem = mem}, .n_files = n};
  l.files = rt_alloc(mem, (n + 1) * sizeof *l.files);
  for (uint32_t k = 0; k < n; k++)
    if (!open_file(&l, &file[k], &l.files[k])) return false;
  place_sections(&l);
  copy_sections(&l);
  if (!collect_symbols(&l)) return false;
  for (uint32_t k = 0; k < n; k++)
    if (!relocate_file(&l, &l.files[k])) return false;
  return write_image(&l, out);
}
