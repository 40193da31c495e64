// The object cache: one file per program, named by a hash of its key.
//
// The key is the canonical text of everything that determines the object (module.c), and the build id of the code
// generator. A file repeats its key in full: the hash names the file, only equal text is a hit. Anything else (truncated,
// corrupt) is a miss, and is replaced by the next write. Writes are atomic (runtime/store/file.h), so processes may share
// a directory.
//
// What is read here is executed, and key and checksum are public: a file is believed because nobody but the user can
// have written it (runtime/store/private_folder.h). Layout:
//
//   "TNCACHE" 1 | u64 key size | u64 object size | u64 checksum of key and object | key | object
#define _GNU_SOURCE  // dl_iterate_phdr
#include "codegen/module/module.h"
#include "runtime/store/private_folder.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
  char magic[8];
  uint64_t key_size, object_size, checksum;
} Head;
static const char magic[8] = {'T', 'N', 'C', 'A', 'C', 'H', 'E', 1};

static uint64_t checksum_of(const void *key, size_t key_size, const void *object, size_t object_size) {
  return rt_hash(object, object_size, rt_hash(key, key_size, 0x7e6a));
}

// ---- identity of the code generator: build id of the library or program that this function is linked into
typedef struct {
  RtText *out;
  bool found;
} Self;

static bool contains(const struct dl_phdr_info *info, uintptr_t address) {
  for (int k = 0; k < info->dlpi_phnum; k++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[k];
    if (h->p_type == PT_LOAD && address - (info->dlpi_addr + h->p_vaddr) < h->p_memsz) return true;
  }
  return false;
}

static bool put_build_id(const unsigned char *at, size_t size, RtText *out) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    memcpy(&note, at, sizeof note);
    size_t name = (note.n_namesz + 3u) / 4 * 4, desc = (note.n_descsz + 3u) / 4 * 4, all = sizeof note + name + desc;
    if (all > size) return false;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(at + sizeof note, "GNU", 4)) {
      for (uint32_t k = 0; k < note.n_descsz; k++) rt_text_add(out, "%02x", at[sizeof note + name + k]);
      return true;
    }
    at += all, size -= all;
  }
  return false;
}

// Without a build id: size and modification time of the file.
static void put_file_time(const char *path, RtText *out) {
  struct stat s;
  if (stat(*path ? path : "/proc/self/exe", &s)) return;
  rt_text_add(out, "%lld bytes of %lld.%09ld", (long long)s.st_size, (long long)s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

static int visit_object(struct dl_phdr_info *info, size_t size, void *ctx) {
  (void)size;
  Self *self = ctx;
  if (!contains(info, (uintptr_t)&visit_object)) return 0;
  for (int k = 0; k < info->dlpi_phnum && !self->found; k++) {
    const ElfW(Phdr) *h = &info->dlpi_phdr[k];
    const unsigned char *at = (const unsigned char *)(uintptr_t)(info->dlpi_addr + h->p_vaddr);
    if (h->p_type == PT_NOTE) self->found = put_build_id(at, h->p_memsz, self->out);
  }
  if (!self->found) put_file_time(info->dlpi_name, self->out);
  return 1;
}

static RtText full_key(const RtText *key) {
  RtText full = {key->mem, NULL, 0, 0};
  rt_text_add(&full, "generator ");
  dl_iterate_phdr(visit_object, &(Self){&full, false});
  rt_text_add(&full, "\n");
  rt_text_put(&full, key->text, key->len);
  return full;
}

// ---- files
static const char *name_of(const RtText *full) {
  uint64_t a = rt_hash(full->text, full->len, 1), b = rt_hash(full->text, full->len, 2);
  return rt_printf(full->mem, "%016llx%016llx.tno", (unsigned long long)a, (unsigned long long)b);
}

static bool is_hit(const RtFile *file, const RtText *full, Head *h) {
  if (file->size < sizeof *h) return false;
  memcpy(h, file->bytes, sizeof *h);
  size_t rest = file->size - sizeof *h;
  if (memcmp(h->magic, magic, sizeof magic) || h->key_size != full->len || h->key_size > rest) return false;
  if (h->object_size != rest - h->key_size) return false;
  const unsigned char *key = file->bytes + sizeof *h, *object = key + h->key_size;
  return !memcmp(key, full->text, full->len) && checksum_of(key, h->key_size, object, h->object_size) == h->checksum;
}

static bool take_object(const RtFile *file, const RtText *full, CgObject *out) {
  Head h;
  bool hit = is_hit(file, full, &h);
  void *copy = hit ? rt_malloc(h.object_size ? h.object_size : 1) : NULL;
  if (!copy) return false;
  memcpy(copy, file->bytes + sizeof h + h.key_size, h.object_size);
  *out = (CgObject){copy, h.object_size};
  return true;
}

bool cg_cache_read(const char *dir, const RtText *key, CgObject *out, char *why, size_t why_size) {
  if (!dir || !*dir) return false;
  RtText full = full_key(key);  // allocates, which may jump: nothing is open yet
  const char *name = name_of(&full);
  int folder = rt_private_folder(dir, why, why_size);
  if (folder < 0) return false;
  RtFile file;
  char said[300];
  bool hit = rt_private_read(folder, name, &file, said, sizeof said) && take_object(&file, &full, out);
  if (*said) rt_fail(why, why_size, "%.200s/%s", dir, said);
  rt_file_close(&file);
  close(folder);
  return hit;
}

void cg_cache_write(const char *dir, const RtText *key, const CgObject *o) {
  if (!dir || !*dir) return;
  RtText full = full_key(key);
  const char *name = name_of(&full);
  Head h = {
      .key_size = full.len, .object_size = o->size, .checksum = checksum_of(full.text, full.len, o->bytes, o->size)};
  memcpy(h.magic, magic, sizeof magic);
  int folder = rt_private_folder(dir, NULL, 0);
  if (folder < 0) return;
  RtPiece piece[] = {{&h, sizeof h}, {full.text, full.len}, {o->bytes, o->size}};
  (void)rt_file_write_in(folder, name, piece, 3, NULL, 0);
  close(folder);
}
