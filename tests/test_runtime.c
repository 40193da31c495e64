// The runtime's parts, each alone: memory, diagnostics, files, team, BLAS, random numbers, progress, .ts, safetensors.
// Instances and checkpoints stand in tests/test_instance.c.
#include "codegen/gemm/sgemm.h"
#include "runtime/abi.h"
#include "runtime/base.h"
#include "runtime/data/dataset.h"
#include "runtime/data/ts_series.h"
#include "runtime/exec/plan.h"
#include "runtime/names.h"
#include "runtime/progress.h"
#include "runtime/rng.h"
#include "runtime/store/file.h"
#include "runtime/store/safetensors.h"
#include "tests/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[64];  // scratch of this run

static const char *in_folder(const char *name) {
  static char path[256];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

// ---- base

static void test_arena(void) {
  RtArena *a = rt_arena_new();
  unsigned char *kept = rt_alloc(a, 100), *zero = rt_alloc(a, 0);
  CHECK(kept && zero && (uintptr_t)kept % 16 == 0 && (uintptr_t)zero % 16 == 0);
  memset(kept, 7, 100);
  bool clean = true;
  for (size_t n = 1; n < 3000; n += 7) {
    unsigned char *p = rt_alloc(a, n);
    for (size_t i = 0; i < n; i++) clean &= p[i] == 0;
    memset(p, 0xee, n);
  }
  CHECK(clean);
  for (int i = 0; i < 100; i++) clean &= kept[i] == 7;
  CHECK(clean && rt_arena_bytes(a) > 3000u * 3000 / 14);
  uint32_t *list = NULL, n = 0, cap = 0;
  for (uint32_t i = 0; i < 5000; i++) *RT_PUSH(a, list, n, cap) = i;
  for (uint32_t i = 0; i < 5000; i++) clean &= list[i] == i;
  CHECK(clean && n == 5000);
  CHECK(!strcmp(rt_strndup(a, "abcdef", 3), "abc") && !strcmp(rt_printf(a, "%d-%s", 7, "x"), "7-x"));
  RtText t = {.mem = a};
  for (int i = 0; i < 300; i++) rt_text_add(&t, "%d,", i);
  rt_text_put(&t, "\0z", 2);
  CHECK(t.len == 10 * 2 + 90 * 3 + 200 * 4 + 2 && t.text[t.len] == 0 && t.text[t.len - 1] == 'z');
  rt_arena_free(a);
  rt_arena_free(NULL);
}

// Small pages of [p, p + bytes) that have memory.
static size_t pages_in_memory(void *p, size_t bytes) {
  static unsigned char has[1 << 16];
  size_t page = (size_t)sysconf(_SC_PAGESIZE), n = 0;
  if (!CHECK(bytes / page <= sizeof has && mincore(p, bytes, has) == 0)) return SIZE_MAX;
  for (size_t k = 0; k < bytes / page; k++) n += has[k] & 1;
  return n;
}

// A large block takes no memory before it is used; every block is zero, aligned, and can be refused.
static void test_blocks(void) {
  static const int64_t sizes[] = {
      0, 1, 100, (1 << 20) - 1, 1 << 20, (2 << 20) - 1, 2 << 20, (3 << 20) + 5, (4 << 20) - 1, 64 << 20};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    int64_t n = sizes[k];
    unsigned char *p = rt_block_new(n);
    if (!CHECK(p != NULL)) return;
    CHECK((uintptr_t)p % (n < 1 << 20 ? TN_ALIGN : 2 << 20) == 0);
    if (n >= 1 << 20) CHECK(pages_in_memory(p, (size_t)n) == 0);
    for (int64_t at = 0; at < n; at += 4000) CHECK(p[at] == 0);
    if (n) p[0] = p[n - 1] = 1;
    rt_block_free(p, n);
    rt_malloc_fail_at(1);
    CHECK(rt_block_new(n) == NULL);
  }
  CHECK(rt_block_new(-1) == NULL && rt_block_new(INT64_MAX) == NULL && rt_block_new(INT64_C(1) << 60) == NULL);
  rt_block_free(NULL, 5);
  rt_block_free(NULL, INT64_MAX / 2);
}

static void test_out_of_memory(void) {
  jmp_buf oom;
  RtArena *a = rt_arena_new();
  volatile bool jumped = false;
  rt_arena_on_oom(a, &oom);
  if (setjmp(oom)) {
    jumped = true;
  } else {
    rt_malloc_fail_at(2);
    for (int i = 0; i < 1000; i++) rt_alloc(a, 1000);
  }
  rt_malloc_fail_at(0);
  CHECK(jumped);
  if (!setjmp(oom)) {
    rt_alloc(a, SIZE_MAX - 8);
    CHECK(!"reached");
  }
  CHECK(rt_alloc(a, 10) != NULL);
  rt_arena_free(a);
  uint64_t before = rt_malloc_count();
  rt_free(rt_realloc(rt_malloc(3), 5));
  CHECK(rt_malloc_count() == before + 2);
}

static void test_diagnostics(void) {
  RtDiags d = {.mem = rt_arena_new()};
  rt_diag(&d, RT_ERROR, 103, "train.c", 47, "%%%d is used", 12);
  rt_diag(&d, RT_NOTE, 0, "train.c", 41, "made here");
  rt_diag(&d, RT_HINT, 0, NULL, 0, "keep it");
  rt_diag(&d, RT_WARNING, 108, NULL, 0, "a \"b\"\n\x01\xff\xc3\xa9");
  rt_diag(&d, RT_ERROR, 1, "m.tir", 3, "x");
  d.list[4].column = 9;
  CHECK(d.n == 5 && d.n_errors == 2 && d.n_warnings == 1);
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  rt_diags_print(&d, f);
  rt_diags_print_json(&d, f);
  fclose(f);
  CHECK_HAS(text, "train.c:47: error[E103]: %12 is used\ntrain.c:41: note: made here\nhint: keep it\nwarning[W108]: a");
  CHECK_HAS(text, "\nm.tir:3:9: error[E001]: x\n[");
  CHECK_HAS(text, "{\"severity\": \"warning\", \"id\": \"W108\", \"text\": \"a \\\"b\\\"\\n\\u0001\\ufffd\xc3\xa9\"}");
  CHECK_HAS(text, "\"id\": \"E001\", \"file\": \"m.tir\", \"line\": 3, \"column\": 9, \"text\": \"x\"}\n]\n");
  rt_diags_clear(&d);
  CHECK(d.n == 0 && d.n_errors == 0 && d.n_warnings == 0);
  free(text);
  rt_arena_free(d.mem);
}

static void test_hash(void) {
  unsigned char b[64] = {0};
  uint64_t seen[66];
  bool differ = true;
  for (int i = 0; i <= 64; i++) seen[i] = rt_hash(b, (size_t)i, 0);
  seen[65] = rt_hash(b, 64, 1);
  for (int i = 0; i < 66; i++)
    for (int k = 0; k < i; k++) differ &= seen[i] != seen[k];
  for (int i = 0; i < 64; i++) {
    b[i] ^= 1;
    differ &= rt_hash(b, 64, 0) != seen[64];
    b[i] ^= 1;
  }
  CHECK(differ && rt_hash(b, 64, 0) == seen[64]);
}

// ---- files

static int count_files(const char *path) {
  int n = 0;
  DIR *d = opendir(path);
  while (d && readdir(d)) n++;
  if (d) closedir(d);
  return n;
}

static void test_files(void) {
  char error[500] = "", path[256];
  RtFile f;
  CHECK(!rt_file_read(in_folder("none"), &f, error, sizeof error));
  CHECK_HAS(error, "none: No such file or directory");
  CHECK(!rt_file_read(folder, &f, error, sizeof error));
  CHECK_HAS(error, "not a regular file");
  CHECK(!mkdir(in_folder("a"), 0700) && !mkdir(in_folder("a/b"), 0700) && !mkdir(in_folder("a/b/c"), 0700));
  snprintf(path, sizeof path, "%s", in_folder("a/b/file"));
  CHECK(rt_file_write(path, (RtPiece[]){{"hello ", 6}, {NULL, 0}, {"you", 3}}, 3, error, sizeof error));
  CHECK(rt_file_read(path, &f, error, sizeof error) && f.size == 9 && !strcmp((const char *)f.bytes, "hello you"));
  rt_file_close(&f);
  CHECK(rt_file_write(path, NULL, 0, error, sizeof error));
  CHECK(rt_file_read(path, &f, error, sizeof error) && f.size == 0 && f.bytes);
  rt_file_close(&f);
  CHECK(!rt_file_write(in_folder("no/such/file"), NULL, 0, error, sizeof error));
  CHECK_HAS(error, "No such file or directory");
  CHECK(!rt_file_write(in_folder("a"), NULL, 0, error, sizeof error));
  CHECK(!rt_file_write("/dev/null", NULL, 0, error, sizeof error));
  CHECK_HAS(error, "/dev/null: not a regular file");
  char link_path[256];
  snprintf(link_path, sizeof link_path, "%s", in_folder("a/b/link"));
  struct stat st;
  CHECK(symlink("file", link_path) == 0 && rt_file_write(link_path, (RtPiece[]){{"x", 1}}, 1, error, sizeof error));
  CHECK(lstat(link_path, &st) == 0 && S_ISLNK(st.st_mode) && stat(path, &st) == 0 && st.st_size == 1);
  CHECK(count_files(in_folder("a/b")) == 5);  // . .. c file link: no temporary file stays
}

// A link stays one, and what it names is made: beside it, in another folder, by way of another link.
static void test_dangling_links(void) {
  char error[500], link[256], name[256];
  struct stat st;
  CHECK(mkdir(in_folder("links"), 0755) == 0 && mkdir(in_folder("links/far"), 0755) == 0);
  snprintf(name, sizeof name, "%s", in_folder("links/far/absolute"));
  const char *const to[][2] = {
      {"made", "links/made"}, {"far/made", "links/far/made"}, {name, "links/far/absolute"}, {"0", "links/made"}};
  for (int k = 0; k < 4; k++) {
    char base[32];
    snprintf(base, sizeof base, "links/%d", k);
    snprintf(link, sizeof link, "%s", in_folder(base));
    if (k == 3) CHECK(unlink(in_folder("links/made")) == 0);
    CHECK(symlink(to[k][0], link) == 0);
    CHECK(rt_file_write(link, (RtPiece[]){{"abc", 3}}, 1, error, sizeof error));
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode) && lstat(in_folder(to[k][1]), &st) == 0 && S_ISREG(st.st_mode) &&
          st.st_size == 3);
  }
  snprintf(link, sizeof link, "%s", in_folder("links/lost"));
  CHECK(symlink("no/folder", link) == 0 && !rt_file_write(link, NULL, 0, error, sizeof error));
  CHECK_HAS(error, "links/lost: No such file or directory");
  CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
  snprintf(link, sizeof link, "%s", in_folder("links/round"));
  CHECK(symlink("round", link) == 0 && !rt_file_write(link, NULL, 0, error, sizeof error));
  CHECK_HAS(error, "links/round: Too many levels of symbolic links");
  static const char *const left[] = {"0",    "1",     "2",   "3", "made", "far/made", "far/absolute",
                                     "lost", "round", "far", ""};
  for (size_t k = 0; k < sizeof left / sizeof *left; k++) {
    char base[32];
    snprintf(base, sizeof base, "links/%s", left[k]);
    CHECK(remove(in_folder(base)) == 0);
  }
}

// Who may read a file may read what replaces it, and nobody else.
static void test_file_modes(void) {
  static const mode_t modes[] = {0600, 0640, 0644, 0444, 0777};
  char error[500], path[256];
  struct stat st;
  mode_t mask = umask(022);
  snprintf(path, sizeof path, "%s", in_folder("private"));
  CHECK(rt_file_write(path, NULL, 0, error, sizeof error) && stat(path, &st) == 0 && (st.st_mode & 0777) == 0644);
  for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
    CHECK(chmod(path, modes[k]) == 0 && rt_file_write(path, (RtPiece[]){{"x", 1}}, 1, error, sizeof error));
    CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == modes[k] && st.st_size == 1);
  }
  umask(mask);
  CHECK(unlink(path) == 0);
}

// What killed writers left behind goes with the next write; a living writer's temporary file and other names stay.
static void test_stale_files(void) {
  static const char *const names[] = {"s/t.12-0.tmp", "s/t.7-31.tmp", "s/t.12-.tmp", "s/t.x-0.tmp",
                                      "s/t.1-0.tmp2", "s/tt.1-0.tmp", "s/t.9-1.tmp"};
  char error[500], path[256];
  CHECK(mkdir(in_folder("s"), 0700) == 0);
  int fd = -1;
  for (uint32_t k = 0; k < 7; k++) {
    if (fd >= 0) close(fd);
    fd = open(in_folder(names[k]), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  }
  CHECK(fd >= 0 && rt_file_claim(fd));  // the last one is being written
  snprintf(path, sizeof path, "%s", in_folder("s/t"));
  CHECK(rt_file_write(path, (RtPiece[]){{"x", 1}}, 1, error, sizeof error));
  for (uint32_t k = 0; k < 7; k++) CHECK((access(in_folder(names[k]), F_OK) == 0) == (k >= 2));
  CHECK(unlink(in_folder(names[6])) == 0 && !rt_file_claim(fd));
  close(fd);
  for (uint32_t k = 2; k < 6; k++) CHECK(unlink(in_folder(names[k])) == 0);
  CHECK(unlink(path) == 0 && rmdir(in_folder("s")) == 0);
}

// ---- BLAS

static float value(uint32_t i) { return (float)((i * 2654435761u) >> 20) / 4096 - 0.5f; }

static double check_sgemm(int ta, int tb, int64_t m, int64_t n, int64_t k, float beta) {
  static float a[4000], b[4000], c[4000], before[4000];
  int64_t lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
  for (uint32_t i = 0; i < 4000; i++)
    a[i] = value(i), b[i] = value(i + 9999), c[i] = before[i] = beta == 0 ? NAN : value(i + 77);
  cg_sgemm(ta, tb, m, n, k, a, lda, b, ldb, beta, c, ldc);
  double worst = 0;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = beta == 0 ? 0 : (double)beta * (double)before[i * ldc + j];
      for (int64_t l = 0; l < k; l++)
        sum += (double)(ta ? a[l * lda + i] : a[i * lda + l]) * (double)(tb ? b[j * ldb + l] : b[l * ldb + j]);
      double e = fabs(sum - (double)c[i * ldc + j]);
      if (!(e <= worst)) worst = e;
    }
  for (int64_t i = 0; i < m; i++)
    if (memcmp(&c[i * ldc + n], &before[i * ldc + n], 8)) return INFINITY;  // between the rows
  return worst;
}

static void *multiply_often(void *arg) {
  bool *ok = arg;
  float a[35], b[35], c[25], first[25];
  for (uint32_t i = 0; i < 35; i++) a[i] = value(i), b[i] = value(i + 50);
  cg_sgemm(0, 0, 5, 5, 7, a, 7, b, 5, 0, first, 5);
  for (int i = 0; i < 2000; i++) {
    cg_sgemm(0, 0, 5, 5, 7, a, 7, b, 5, 0, c, 5);
    *ok &= !memcmp(c, first, sizeof c);
  }
  return NULL;
}

static void test_blas(void) {
  static const int64_t sizes[] = {0, 1, 2, 7, 17, 33};
  for (int t = 0; t < 4; t++)
    for (int m = 0; m < 6; m++)
      for (int n = 0; n < 6; n++)
        for (int k = 0; k < 6; k++)
          for (int b = 0; b < 2; b++)
            CHECK(check_sgemm(t & 1, t >> 1, sizes[m], sizes[n], sizes[k], (float)b * 0.5f) < 1e-4);
  bool ok[2] = {true, true};
  pthread_t other;
  if (!CHECK(pthread_create(&other, NULL, multiply_often, &ok[1]) == 0)) return;
  multiply_often(&ok[0]);
  pthread_join(other, NULL);
  CHECK(ok[0] && ok[1]);
}

// ---- random numbers

static void test_random(void) {
  uint32_t out[4];  // the known answers of the paper's reference code
  rt_philox((uint32_t[]){0, 0, 0, 0}, (uint32_t[]){0, 0}, out);
  CHECK(out[0] == 0x6627e8d5 && out[1] == 0xe169c58d && out[2] == 0xbc57ac4c && out[3] == 0x9b00dbd8);
  rt_philox((uint32_t[]){0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, (uint32_t[]){0xa4093822, 0x299f31d0}, out);
  CHECK(out[0] == 0xd16cfe09 && out[1] == 0x94fdcceb && out[2] == 0x5001e420 && out[3] == 0x24126ea1);

  size_t a[100], b[100], first[5] = {0};
  rt_shuffle(a, 100, 1);
  rt_shuffle(b, 100, 1);
  CHECK(!memcmp(a, b, sizeof a));
  rt_shuffle(b, 100, 2);
  CHECK(memcmp(a, b, sizeof a) != 0);
  bool seen[100] = {false};
  for (int i = 0; i < 100; i++) seen[a[i]] = true;
  for (int i = 0; i < 100; i++) CHECK(seen[i]);
  rt_shuffle(a, 0, 1);
  rt_shuffle(a, 1, 1);
  CHECK(a[0] == 0);
  for (uint64_t seed = 0; seed < 5000; seed++) {
    rt_shuffle(a, 5, seed);
    first[a[0]]++;
  }
  for (int i = 0; i < 5; i++) CHECK(first[i] > 850 && first[i] < 1150);
}

// ---- progress

static size_t count_of(const char *text, char c) {
  size_t n = 0;
  for (; *text; text++) n += *text == c;
  return n;
}

static char *plain_run(size_t total, size_t steps, size_t by) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  RtProgress *p = rt_progress_begin(f, "epoch", total);
  for (size_t i = 1; i <= steps; i++) rt_progress_step(p, i * by, "loss %.2f\n", 1.0 / (double)i);
  rt_progress_end(p);
  fclose(f);
  return text;
}

static void test_progress(void) {
  static const size_t totals[] = {1, 2, 9, 10, 11, 40, 1000};
  for (int i = 0; i < 7; i++) {
    char *text = plain_run(totals[i], totals[i], 1);
    size_t lines = count_of(text, '\n');
    CHECK(lines >= 1 && lines <= 10 && lines >= (totals[i] < 5 ? totals[i] : 5));
    CHECK_HAS(text, "100%");
    CHECK(!strchr(text, '\r') && !strchr(text, '\x1b'));
    free(text);
  }
  char *text = plain_run(40, 21, 1);  // ends early
  CHECK_HAS(text, "epoch  52%  21/40  ");
  CHECK_HAS(text, "  loss 0.05 \n");
  free(text);
  text = plain_run(0, 100000, 1);  // unknown total
  CHECK(count_of(text, '\n') >= 3 && count_of(text, '\n') <= 10);
  free(text);
  text = plain_run(5, 0, 1);
  CHECK(!text[0]);
  free(text);
  rt_progress_step(NULL, 1, NULL);
  rt_progress_end(NULL);
}

// What was done before the beginning took none of its time.
static void test_progress_resumed(void) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  double rate = -1;
  RtProgress *p = rt_progress_begin(f, "epoch", 2000000);
  rt_progress_resume(p, 1000000);
  usleep(20000);
  rt_progress_step(p, 1000001, NULL);
  rt_progress_end(p);
  fclose(f);
  CHECK_HAS(text, "epoch  50%  1000001/2000000  ");
  const char *at = strstr(text, "2000000  ");
  CHECK(at && sscanf(at + 9, "%lf/s", &rate) == 1 && rate > 0 && rate < 51);
  CHECK_HAS(text, "ETA ");
  free(text);
  f = open_memstream(&text, &n);
  p = rt_progress_begin(f, "epoch", 10);
  rt_progress_resume(p, 10);
  rt_progress_end(p);
  fclose(f);
  CHECK(!text[0]);
  free(text);
}

static void test_progress_on_terminal(void) {
  int master = posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0 || grantpt(master) || unlockpt(master)) return;  // no terminals here
  FILE *f = fopen(ptsname(master), "w");
  if (!CHECK(f != NULL)) return;
  struct winsize size = {.ws_row = 24, .ws_col = 60};
  ioctl(fileno(f), TIOCSWINSZ, &size);
  setenv("TERM", "xterm", 1);
  RtProgress *p = rt_progress_begin(f, "epoch", 4);
  for (size_t i = 1; i <= 4; i++) {
    rt_progress_step(p, i, "%s", "a text that is far too long for sixty columns of a terminal, so it is cut");
    nanosleep(&(struct timespec){0, 60000000}, NULL);
  }
  rt_progress_end(p);
  char text[4096] = "";
  size_t n = 0;
  struct pollfd ready = {.fd = master, .events = POLLIN};
  while (!strchr(text, '\n') && n < sizeof text - 1 && poll(&ready, 1, 2000) == 1) {
    ssize_t got = read(master, text + n, sizeof text - 1 - n);
    if (got <= 0) break;
    n += (size_t)got;
  }
  CHECK(count_of(text, '\n') == 1 && text[n - 1] == '\n' && count_of(text, '\r') >= 4);
  CHECK_HAS(text, "epoch ");
  CHECK_HAS(text, "100%  4/4");
  size_t longest = 0;
  for (char *s = strtok(text, "\r\n"); s; s = strtok(NULL, "\r\n")) longest = strlen(s) > longest ? strlen(s) : longest;
  CHECK(longest <= 59 + 3);  // and "ESC [ K"
  fclose(f);
  close(master);
}

// ---- .ts

#define TS_HEAD "@problemName p\n@timeStamps false\n@dimensions 2\n@equalLength false\n@classLabel true a b\n@data\n"

static RtSeriesOptions series_options;

static RtSeries *parse_ts(const char *text, char *error, size_t error_size) {
  error[0] = 0;
  char *exact = malloc(strlen(text) + 1);  // no closing 0 inside the block that the parser is told of
  memcpy(exact, text, strlen(text) + 1);
  RtSeries *s = rt_series_parse("f.ts", exact, strlen(text), &series_options, error, error_size);
  free(exact);
  return s;
}

static void refuse_ts(const char *text, const char *why) {
  char error[500];
  RtSeries *s = parse_ts(text, error, sizeof error);
  CHECK(s == NULL);
  CHECK_HAS(error, why);
  rt_series_free(s);
}

static void test_series_values(void) {
  char error[500];
  RtSeries *s = parse_ts("# c\r\n\r\n" TS_HEAD "1,2,3:4.5,-5e-1, .5:a \r\n7:8.:b", error, sizeof error);
  if (!CHECK(s != NULL)) return;
  CHECK(rt_series_count(s) == 2 && rt_series_features(s) == 2 && rt_series_max_length(s) == 3 &&
        rt_series_classes(s) == 2);
  const float want[] = {1, 4.5f, 2, -0.5f, 3, 0.5f};
  CHECK(rt_series_length(s, 0) == 3 && !memcmp(rt_series_values(s, 0), want, sizeof want) &&
        rt_series_label(s, 0) == 0);
  CHECK(rt_series_length(s, 1) == 1 && rt_series_values(s, 1)[1] == 8 && rt_series_label(s, 1) == 1);
  CHECK(rt_series_values(s, 2) == NULL && rt_series_length(s, 2) == 0 && rt_series_label(s, 2) == 0);
  CHECK(!strcmp(rt_series_class_name(s, 1), "b") && !rt_series_class_name(s, 2));
  rt_series_free(s);
  rt_series_free(NULL);
}

static void test_series_refusals(void) {
  refuse_ts("", "f.ts: the file is empty");
  refuse_ts("\n\n", "f.ts:2: the file ends without @data");
  refuse_ts("@dimensions 2\n", "the file ends without @data");
  refuse_ts("@data\n", "f.ts:1: @data before @classLabel");
  refuse_ts(TS_HEAD, "the file ends without a case");
  refuse_ts("1,2:3,4:a\n", "f.ts:1: expected a property or @data, found '1,2:3,4:a'");
  refuse_ts("@dimension 0\n", "takes a number from 1");
  refuse_ts("@dimensions 99999999999999999999\n", "takes a number from 1");
  refuse_ts("@dimensions 2x\n", "found '2x'");
  refuse_ts("@dimensions 2\n@univariate true\n", "f.ts:2: 1 dimensions contradict the 2 said before");
  refuse_ts("@timeStamps maybe\n", "takes true or false, found 'maybe'");
  refuse_ts("@classLabel false\n@data\n", "f.ts:2: @classLabel false and no @targetLabel true: cases without classes");
  refuse_ts("@targetLabel false\n@data\n", "f.ts:2: @data before @classLabel or @targetLabel");
  refuse_ts("@classLabel true a\n@targetLabel true\n@data\n", "both @classLabel and @targetLabel are true");
  refuse_ts("@targetLabel true\n@data\n1,2:x\n", "f.ts:3: the target 'x' is no number that fits f32");
  refuse_ts("@targetLabel true\n@data\n1,2:nan\n", "f.ts:3: the target 'nan' is no number");
  refuse_ts("@targetLabel true\n@data\n1,2:\n", "f.ts:3: the line ends before the target");
  refuse_ts("@classLabel true\n", "lists no class");
  refuse_ts("@classLabel true a b a\n", "class 'a' is listed twice");
  refuse_ts("@colour red\n", "unknown property '@colour'");
  refuse_ts("@missing false x\n", "found 'x' after the value");
  refuse_ts(TS_HEAD "1,2:3,4:c\n", "f.ts:7: class 'c' is not listed");
  refuse_ts(TS_HEAD "1,2:3,4:a\n1,2:3,4\n",
            "f.ts:8: expected 2 dimensions and a class, found 2 fields: a truncated line?");
  refuse_ts(TS_HEAD "1,2\n", "found 1 field:");
  refuse_ts(TS_HEAD "1,2:3,4:\n", "f.ts:7: the line ends before the class");
  refuse_ts(TS_HEAD "1,2:3:a\n", "dimension 2 has 1 steps, dimension 1 has 2");
  refuse_ts(TS_HEAD "1,2::a\n", "dimension 2 is empty");
  refuse_ts(TS_HEAD "1,:3,4:a\n", "dimension 1 has no value at step 2");
  refuse_ts(TS_HEAD "1,nan:3,4:a\n", "dimension 1, step 2: expected a number, found 'nan'");
  refuse_ts("@missing true\n" TS_HEAD "1,?:3,4:a\n", "found '?': missing values are read by an option");
  refuse_ts(TS_HEAD "1,2:-inf,4:a\n", "found '-inf'");
  refuse_ts(TS_HEAD "1,2:0x1,4:a\n", "found '0x1'");
  refuse_ts(TS_HEAD "1,2:1e,4:a\n", "found '1e'");
  refuse_ts(TS_HEAD "1,2:.,4:a\n", "found '.'");
  refuse_ts(TS_HEAD "1,1e99:3,4:a\n", "'1e99' does not fit f32");
  refuse_ts("@seriesLength 3\n" TS_HEAD "1,2:3,4:a\n", "a case of 2 steps, @seriesLength says 3");
}

// The header may say that values are missing where none is; a byte order mark is no text.
static void test_series_missing(void) {
  char error[500];
  const char *text = "\xef\xbb\xbf@missing true\n" TS_HEAD "1,?:3, NaN :a\n5,6:7,8:b\n";
  RtSeries *s = parse_ts("\xef\xbb\xbf@missing true\n" TS_HEAD "1,2:3,4:a\n", error, sizeof error);
  if (!CHECK(s && rt_series_count(s) == 1 && !rt_series_has_mask(s) && !rt_series_mask(s, 0))) printf("  %s\n", error);
  rt_series_free(s);
  refuse_ts(text, "f.ts:8: dimension 1, step 2: expected a number, found '?'");
  series_options.missing = RT_MISSING_NAN;
  s = parse_ts(text, error, sizeof error);
  const float *v = s ? rt_series_values(s, 0) : NULL;
  CHECK(v && v[0] == 1 && v[1] == 3 && isnan(v[2]) && isnan(v[3]) && !rt_series_mask(s, 0));
  rt_series_free(s);
  series_options.missing = RT_MISSING_MASK;
  s = parse_ts(text, error, sizeof error);
  const float want[] = {1, 3, 0, 0}, mask[] = {1, 1, 0, 0}, all[] = {1, 1, 1, 1};
  CHECK(s && !memcmp(rt_series_values(s, 0), want, sizeof want) && !memcmp(rt_series_mask(s, 0), mask, sizeof mask));
  CHECK(s && !memcmp(rt_series_mask(s, 1), all, sizeof all) && rt_series_has_mask(s) && !rt_series_mask(s, 2));
  rt_series_free(s);
  refuse_ts(TS_HEAD "1,inf:3,4:a\n", "found 'inf'");
  refuse_ts(TS_HEAD "1,:3,4:a\n", "dimension 1 has no value at step 2");
  series_options.missing = RT_MISSING_REFUSE;
}

static void test_series_targets(void) {
  char error[500];
  RtSeries *s = parse_ts("@classLabel false\n@targetlabel true\n@data\n1,2:3,4:-0.5e1\n5:7:2\n", error, sizeof error);
  if (!CHECK(s != NULL)) printf("  %s\n", error);
  if (!s) return;
  CHECK(rt_series_count(s) == 2 && rt_series_classes(s) == 0 && rt_series_features(s) == 2);
  CHECK(rt_series_target(s, 0) == -5 && rt_series_target(s, 1) == 2 && rt_series_target(s, 2) == 0);
  RtDataset *d = rt_dataset_series(s, error, sizeof error);
  float x[4], target = 0;
  RtItem item = {.data = {x, &target}, .error = error, .error_size = sizeof error};
  CHECK(d && d->n_fields == 2 && !strcmp(d->fields[1].name, "target") && d->fields[1].dtype == RT_F32);
  CHECK(d && rt_dataset_get(d, 0, &item) && target == -5 && x[1] == 3 && item.length[0] == 2);
  rt_dataset_release(d);
  rt_series_free(s);
}

// Twice the names take twice the steps.
static void test_series_classes(void) {
  enum { CLASSES = 60000 };
  char error[500], *text = malloc(CLASSES * 24);
  size_t n = (size_t)sprintf(text, "@classLabel true");
  for (int k = 0; k < CLASSES; k++) n += (size_t)sprintf(text + n, " c%d", k);
  n += (size_t)sprintf(text + n, "\n@data\n");
  for (int k = CLASSES; k-- > 0;) n += (size_t)sprintf(text + n, "1:c%d\n", k);
  uint64_t before = rt_names_probes();
  RtSeries *s = rt_series_parse("f.ts", text, n, NULL, error, sizeof error);
  uint64_t probes = rt_names_probes() - before;
  CHECK(s && rt_series_count(s) == CLASSES && rt_series_label(s, 0) == CLASSES - 1 &&
        rt_series_label(s, 9) == CLASSES - 10);
  if (!CHECK(probes >= 2 * CLASSES && probes < 16 * CLASSES)) printf("  %llu probes\n", (unsigned long long)probes);
  rt_series_free(s);
  free(text);
}

static void test_series_files(void) {
  static const struct {
    const char *path;
    size_t n;
  } files[] = {{"data/japanese_vowels/JapaneseVowels_TRAIN.ts", 270},
               {"data/japanese_vowels/JapaneseVowels_TEST.ts", 370}};
  char error[500] = "";
  for (int k = 0; k < 2; k++) {
    RtSeries *s = rt_series_read(files[k].path, NULL, error, sizeof error);
    if (!CHECK(s != NULL)) {
      printf("  %s\n", error);
      continue;
    }
    uint32_t shortest = UINT32_MAX;
    for (size_t i = 0; i < rt_series_count(s); i++)
      if (rt_series_length(s, i) < shortest) shortest = rt_series_length(s, i);
    CHECK(rt_series_count(s) == files[k].n && rt_series_features(s) == 12 && rt_series_classes(s) == 9);
    CHECK(shortest == 7 && rt_series_max_length(s) == (k ? 29 : 26));
    CHECK(k || (rt_series_values(s, 0)[0] == 1.860936f && rt_series_values(s, 0)[1] == -0.207383f));
    CHECK(rt_series_label(s, 0) == 0 && rt_series_label(s, files[k].n - 1) == 8);
    rt_series_free(s);
  }
  CHECK(!rt_series_read("data/none.ts", NULL, error, sizeof error));
  CHECK_HAS(error, "data/none.ts: No such file");
  RtSeries *s = NULL;
  uint64_t n = 0;
  while (!s && ++n < 100) {
    rt_malloc_fail_at(n);
    s = rt_series_read(files[0].path, NULL, error, sizeof error);
    rt_malloc_fail_at(0);
  }
  CHECK(s && n > 3);
  rt_series_free(s);
}

// ---- safetensors

static void refuse_st(const char *header, size_t n_data, const char *why) {
  char error[400] = "";
  size_t length = strlen(header), n = 8 + length + n_data;
  unsigned char *bytes = calloc(1, n);
  for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(length >> (8 * i));
  memcpy(bytes + 8, header, length);
  RtArena *mem = rt_arena_new();
  RtSt st;
  CHECK(!rt_st_parse(mem, bytes, n, &st, error, sizeof error));
  CHECK_HAS(error, why);
  CHECK(!strncmp(error, "byte ", 5));
  rt_arena_free(mem);
  free(bytes);
}

#define ENTRY(name, offsets) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" offsets "}"

static void test_safetensors_refusals(void) {
  refuse_st("", 0, "byte 8: expected '{', found the end");
  refuse_st("[]", 0, "byte 8: expected '{', found '['");
  refuse_st("{}x", 0, "byte 10: expected nothing after");
  refuse_st("{}", 3, "byte 10: 3 bytes belong to no tensor");
  refuse_st("{\"a", 0, "byte 11: expected '\"' at the end of a string");
  refuse_st("{\"a\\x\":", 0, "expected an escape letter");
  refuse_st("{\"\\u12\":", 0, "four hexadecimal digits");
  refuse_st("{\"\\u0000\":", 0, "U+0000");
  refuse_st("{\"\\ud800x\":", 0, "low surrogate");
  refuse_st("{\"\\ude00\":", 0, "high surrogate");
  refuse_st("{\"\xc0\x80\":", 0, "expected UTF-8, found byte 0xc0");
  refuse_st("{\"a\n\":", 0, "no control character");
  refuse_st("{\"a\":3}", 0, "byte 13: expected '{'");
  refuse_st("{\"a\":{}}", 0, "tensor \"a\" has no dtype");
  refuse_st("{\"a\":{\"dtype\":\"F8\"}}", 0, "dtype \"F8\" is none of");
  refuse_st("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "second field \"dtype\"");
  refuse_st("{\"a\":{\"colour\":1}}", 0, "unknown field \"colour\"");
  refuse_st("{\"a\":{\"shape\":[-1]}}", 0, "expected a non-negative integer, found '-'");
  refuse_st("{\"a\":{\"shape\":[1.5]}}", 0, "expected a non-negative integer, found '.'");
  refuse_st("{\"a\":{\"shape\":[01]}}", 0, "expected a non-negative integer");
  refuse_st("{\"a\":{\"shape\":[9223372036854775808]}}", 0, "an integer below 2^63");
  refuse_st("{\"a\":{\"shape\":[1,1,1,1,1,1,1,1,1]}}", 0, "more than 8 numbers");
  refuse_st("{\"a\":{\"data_offsets\":[1]}}", 0, "two numbers in data_offsets");
  refuse_st("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]}}", 0,
            "more than 2^63 bytes");
  refuse_st("{" ENTRY("a", "[0,2]") "}", 1, "the file holds 1 bytes of data");
  refuse_st("{" ENTRY("a", "[2,0]") "}", 2, "data_offsets [2,0]");
  refuse_st("{" ENTRY("a", "[0,3]") "}", 3, "3 bytes by its offsets and 2 by its shape");
  refuse_st("{" ENTRY("a", "[1,3]") "}", 3, "comes after a hole");
  refuse_st("{" ENTRY("a", "[0,2]") "," ENTRY("b", "[1,3]") "}", 3, "overlaps the one before");
  refuse_st("{" ENTRY("a", "[0,2]") "," ENTRY("a", "[2,4]") "}", 4, "stands in the header twice");
  refuse_st("{" ENTRY("a", "[0,2]") ",}", 2, "a tensor name in quotes");
  refuse_st("{\"__metadata__\":{\"a\":1}}", 0, "a metadata value in quotes");
  refuse_st("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "a second __metadata__");
}

static void test_safetensors_lengths(void) {
  char error[400] = "";
  RtSt st;
  RtArena *mem = rt_arena_new();
  static const unsigned char huge[16] = {255, 255, 255, 255, 255, 255, 255, 255}, longer[16] = {9};
  CHECK(!rt_st_parse(mem, NULL, 0, &st, error, sizeof error));
  CHECK_HAS(error, "byte 0: the file ends inside");
  CHECK(!rt_st_parse(mem, huge, 16, &st, error, sizeof error));
  CHECK_HAS(error, "byte 0: a header of 18446744073709551615 bytes does not fit");
  CHECK(!rt_st_parse(mem, longer, 16, &st, error, sizeof error));
  CHECK_HAS(error, "the file is shorter");
  rt_arena_free(mem);
}

static void test_safetensors_round_trip(void) {
  char error[400] = "", path[256];
  snprintf(path, sizeof path, "%s", in_folder("x.safetensors"));
  RtArena *mem = rt_arena_new();
  static const float f[] = {1, -2, 3, 4, 5, 6};
  static const int64_t i[] = {7, -8};
  static const uint8_t u[] = {1, 2, 3};
  const RtStTensor t[] = {
      {"small", RT_ST_U8, 1, {3}, 3, u, 3, 0, NULL},
      {"w.\"q\"\\\x01\xc3\xa9", RT_ST_F32, 2, {2, 3}, 6, (const unsigned char *)f, 24, 0, NULL},
      {"ints", RT_ST_I64, 1, {2}, 2, (const unsigned char *)i, 16, 0, NULL},
      {"none", RT_ST_F32, 2, {0, 5}, 0, NULL, 0, 0, NULL},
  };
  const RtStMeta meta[] = {{"k\n", "v\"v"}};
  CHECK(rt_st_write(mem, path, t, 4, meta, 1, NULL, error, sizeof error));
  RtFile file;
  RtSt st;
  if (!CHECK(rt_file_read(path, &file, error, sizeof error))) return;
  CHECK(file.bytes[0] % 8 == 0 && rt_st_parse(mem, file.bytes, file.size, &st, error, sizeof error));
  CHECK(st.n_tensors == 4 && !strcmp(rt_st_meta(&st, "format"), "pt") && !strcmp(rt_st_meta(&st, "k\n"), "v\"v"));
  CHECK(!rt_st_meta(&st, "x") && !rt_st_find(&st, "x"));
  for (int k = 0; k < 4; k++) {
    const RtStTensor *got = rt_st_find(&st, t[k].name);
    if (!CHECK(got != NULL)) continue;
    CHECK(got->dtype == t[k].dtype && got->rank == t[k].rank && !memcmp(got->dims, t[k].dims, sizeof t[k].dims));
    CHECK(got->size == t[k].size && (!got->size || !memcmp(got->data, t[k].data, got->size)));
    CHECK((uintptr_t)got->data % rt_st_dtype_bytes[got->dtype] == 0);
  }
  rt_file_close(&file);
  CHECK(rt_st_write(mem, path, NULL, 0, NULL, 0, NULL, error, sizeof error));
  CHECK(rt_file_read(path, &file, error, sizeof error) &&
        rt_st_parse(mem, file.bytes, file.size, &st, error, sizeof error));
  CHECK(st.n_tensors == 0);
  rt_file_close(&file);
  rt_arena_free(mem);
}

// A header of many names: found by hash, as many steps and as much memory for each as for one of a few.
static void test_safetensors_many(void) {
  enum { TENSORS = 200000 };
  char error[400] = "", *file = malloc(TENSORS * 80 + 16);
  size_t n = 8;
  file[n++] = '{';
  for (int k = 0; k < TENSORS; k++)
    n += (size_t)sprintf(file + n, "%s\"layer.%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                         k ? "," : "", k, k, k + 1);
  file[n++] = '}';
  uint64_t length = n - 8;
  memcpy(file, &length, 8);
  RtArena *mem = rt_arena_new();
  RtSt st;
  uint64_t before = rt_names_probes();
  CHECK(rt_st_parse_header(mem, file, n, n + TENSORS, &st, error, sizeof error) && st.n_tensors == TENSORS);
  uint64_t probes = rt_names_probes() - before;
  if (!CHECK(probes >= TENSORS && probes < 8 * TENSORS)) printf("  %llu probes\n", (unsigned long long)probes);
  if (!CHECK(rt_arena_bytes(mem) < 10 * n)) printf("  %zu bytes for %zu\n", rt_arena_bytes(mem), n);
  const RtStTensor *t = rt_st_find(&st, "layer.123456");
  CHECK(t && t->offset == n + 123456 && !rt_st_find(&st, "layer.200000"));
  rt_arena_free(mem);
  free(file);
}

static void test_safetensors_values(void) {
  static const uint16_t half[] = {0x3c00, 0xc000, 0x0001, 0x8000, 0x7bff, 0x7c00, 0x03ff, 0x3555};
  static const float half_want[] = {1, -2, 0x1p-24f, -0.0f, 65504, INFINITY, 0x1.ff8p-15f, 0x1.554p-2f};
  static const uint16_t brain[] = {0x3f80, 0xc000, 0x7f80};
  static const float brain_want[] = {1, -2, INFINITY};
  static const double wide[] = {0.1, 1e300, -3};
  float out[8];
  rt_st_read_f32(&(RtStTensor){.dtype = RT_ST_F16, .n_elements = 8, .data = (const unsigned char *)half}, out);
  CHECK(!memcmp(out, half_want, sizeof half_want));
  rt_st_read_f32(&(RtStTensor){.dtype = RT_ST_BF16, .n_elements = 3, .data = (const unsigned char *)brain}, out);
  CHECK(!memcmp(out, brain_want, sizeof brain_want));
  rt_st_read_f32(&(RtStTensor){.dtype = RT_ST_F64, .n_elements = 3, .data = (const unsigned char *)wide}, out);
  CHECK(out[0] == 0.1f && isinf(out[1]) && out[2] == -3);
}

int main(void) {
  const char *tmp = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%.40s/tn_runtime_XXXXXX", tmp && strlen(tmp) < 40 ? tmp : "/tmp");
  if (!mkdtemp(folder)) return 2;
  test_arena();
  test_blocks();
  test_out_of_memory();
  test_diagnostics();
  test_hash();
  test_files();
  test_dangling_links();
  test_file_modes();
  test_stale_files();
  test_blas();
  test_random();
  test_progress();
  test_progress_resumed();
  test_progress_on_terminal();
  test_series_values();
  test_series_refusals();
  test_series_missing();
  test_series_targets();
  test_series_classes();
  test_series_files();
  test_safetensors_refusals();
  test_safetensors_lengths();
  test_safetensors_round_trip();
  test_safetensors_many();
  test_safetensors_values();
  static const char *const left[] = {"a/b/c", "a/b/file", "a/b/link", "a/b", "a", "x.safetensors", ""};
  for (int i = 0; i < 7; i++) CHECK(remove(in_folder(left[i])) == 0);
  return check_report();
}
