// Training that is killed with SIGKILL at random moments, of steps and of checkpoint writing: each restart goes on from
// a whole checkpoint, and the losses are bit for bit those of a training that nobody killed.
//
//   test_kill [KILLS]      default: $TENURE_KILLS, else 10
//
// The child trains for ever (or to a given step) on a shuffled loader, writes every loss at its place in a file, and
// saves model, random stream and the loader's position every third step. Steps after the last checkpoint are done again
// by the next child: their losses must not change either.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BATCH = 6, TIME = 9, WORDS = 3000, WIDTH = 16, HIDDEN = 24, ITEMS = 50, SAVE_EVERY = 3, MAX_STEPS = 1 << 20 };

// ---- the child
static tn_model *build(void) {
  tn_program *p = tn_program_create("killed");
  tn_dim B = tn_dim_bounded(p, "batch", BATCH), T = tn_dim_bounded(p, "time", TIME);
  tn_module *root = tn_root(p), *words = tn_embedding(root, "words", WORDS, WIDTH);
  tn_module *rnn = tn_gru(root, "rnn", WIDTH, HIDDEN), *head = tn_linear(root, "head", HIDDEN, 1);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(B, T)), len = tn_input(f, "len", TN_I64, TN_SHAPE(B));
  tn_tensor e = tn_dropout(tn_call(words, x), 0.2);
  tn_rnn_output r = tn_rnn_call(rnn, tn_pack_padded(e, len));
  tn_tensor y = tn_call(head, tn_dropout(tn_last_hidden(r), 0.3));
  tn_tensor loss = tn_mse(y, tn_randn(f, TN_SHAPE(B, 1)));  // the state of random numbers shows in each loss
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_clip_grad_norm(f, root, 1.0);
  tn_adamw(f, root);
  tn_function_end(f);
  tn_model *m = tn_compile(p, .seed = 11, .n_workers = 2);
  if (!m) tn_report(p, stderr);
  tn_program_free(p);
  return m;
}

// Item k of the data: a few words
static bool get_item(void *ctx, size_t k, tn_item *to) {
  int64_t n = 1 + (int64_t)(k * 7 % TIME);
  for (int64_t t = 0; t < n; t++) ((int64_t *)to->data[0])[t] = (int64_t)((k * 131 + (size_t)t * 977) % WORDS);
  to->length[0] = n;
  return (void)ctx, true;
}

static tn_loader *make_loader(void) {
  char why[512];
  const tn_field field = {.name = "x", .dtype = TN_I64, .is_variable = true, .rank = 1, .dims = {TIME}};
  const tn_loader_options o = {.batch_size = BATCH, .workers = 2, .seed = 5, .sampler = {.kind = TN_SHUFFLED}};
  tn_dataset *d = tn_dataset_new(&(tn_dataset_type){.get = get_item}, NULL, &field, 1, ITEMS, why, sizeof why);
  tn_loader *l = tn_loader_new(d, &o, why, sizeof why);
  tn_dataset_free(d);
  return l;
}

static int refuse(const char *what, const char *why) { return fprintf(stderr, "child: %s: %s\n", what, why), 1; }

static tn_status next_batch(tn_loader *l, tn_batch *b) {
  tn_status status = tn_loader_next(l, b);
  return status || b->number ? status : tn_loader_next(l, b);  // behind the end of an epoch
}

static int train(tn_model *m, tn_loader *l, const char *checkpoint, int losses, size_t last, int ready) {
  tn_loader_state at;
  tn_extra extra = {"loader", &at, sizeof at};
  float loss;
  tn_batch b;
  bool resumed = access(checkpoint, F_OK) == 0;
  if (resumed && tn_load_with(m, checkpoint, true, &extra, 1)) return refuse("load", tn_error_text(m));
  if (resumed && tn_loader_set_state(l, at)) return refuse("position", tn_loader_error(l));
  at = tn_loader_get_state(l);
  for (size_t step = at.epoch * tn_loader_count(l) + at.position; step < last; step++) {
    if (next_batch(l, &b)) return refuse("next", tn_loader_error(l));
    if (tn_run_batch(m, "step", b, TN_OUT(tn_f32_scalar(&loss)))) return refuse("train", tn_error_text(m));
    if (pwrite(losses, &loss, sizeof loss, (off_t)(step * sizeof loss)) != sizeof loss) return refuse("losses", "?");
    if (ready >= 0 && write(ready, &resumed, 1) == 1) ready = -1;
    if ((step + 1) % SAVE_EVERY && step + 1 < last) continue;
    at = tn_loader_get_state(l);
    if (tn_save_with(m, checkpoint, true, &extra, 1)) return refuse("save", tn_error_text(m));
  }
  return 0;
}

static int child(const char *dir, size_t last, int ready) {
  char checkpoint[512], losses[512];
  snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", dir), snprintf(losses, sizeof losses, "%s/losses", dir);
  tn_model *m = build();
  tn_loader *l = make_loader();
  int out = open(losses, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  int status = m && l && out >= 0 ? train(m, l, checkpoint, out, last, ready) : refuse(losses, strerror(errno));
  tn_model_free(m), tn_loader_free(l);
  if (out >= 0) close(out);
  return status;
}

// ---- the parent
static uint64_t random_state = 88172645463325252u;
static uint64_t random_below(uint64_t n) {
  random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
  return random_state % n;
}

static pid_t start(const char *self, const char *dir, size_t last, int ready) {
  char steps[32], fd[32];
  snprintf(steps, sizeof steps, "%zu", last), snprintf(fd, sizeof fd, "%d", ready);
  pid_t pid = fork();
  if (pid == 0) {
    execl(self, self, "--child", dir, steps, fd, (char *)NULL);
    _exit(127);
  }
  return pid;
}

static bool ends_well(pid_t pid) {
  int status;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void sleep_us(uint64_t us) {
  struct timespec t = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  nanosleep(&t, NULL);
}

// Lets a child train for a random while, mostly counted from its first step on, and kills it. False: it ended before.
static bool kill_one(const char *self, const char *dir) {
  int ready[2], status;
  char byte;
  if (pipe(ready)) return false;
  pid_t pid = start(self, dir, MAX_STEPS, ready[1]);
  close(ready[1]);
  if (random_below(8)) (void)!read(ready[0], &byte, 1);
  sleep_us(random_below(120000));
  bool killed = pid > 0 && kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
  close(ready[0]);
  return killed;
}

static uint32_t count_temps(const char *dir) {
  uint32_t n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) n += strstr(e->d_name, ".tmp") != NULL;
  if (d) closedir(d);
  return n;
}

static float *read_losses(const char *dir, size_t *n) {
  char path[512];
  struct stat st;
  snprintf(path, sizeof path, "%s/losses", dir);
  int in = open(path, O_RDONLY | O_CLOEXEC);
  float *v = NULL;
  *n = 0;
  if (in >= 0 && fstat(in, &st) == 0 && (v = malloc((size_t)st.st_size + 1)) &&
      read(in, v, (size_t)st.st_size) == st.st_size)
    *n = (size_t)st.st_size / sizeof *v;
  if (in >= 0) close(in);
  return v;
}

// What `now` says again of steps that `before` knew must be the same.
static bool same_start(const float *before, size_t n_before, const float *now, size_t n_now) {
  return n_now >= n_before && (!n_before || !memcmp(before, now, n_before * sizeof *now));
}

static bool same_files(const char *a, const char *b) {
  FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
  int c = 0, d = 0;
  while (x && y && (c = getc(x)) == (d = getc(y)) && c != EOF) {}
  if (x) fclose(x);
  if (y) fclose(y);
  return x && y && c == d;
}

static void clear(const char *dir) {
  char path[1024];
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (e->d_name[0] != '.') unlink(path);
  }
  if (d) closedir(d);
  rmdir(dir);
}

static void killed_and_whole(const char *self, uint32_t kills, const char *dir, const char *whole) {
  char a[512], b[512];
  uint32_t n_killed = 0, n_in_save = 0;
  size_t n_before = 0, n = 0, n_whole;
  float *before = NULL;
  for (uint32_t k = 0; k < kills; k++) {
    n_killed += kill_one(self, dir);
    uint32_t temps = count_temps(dir);  // at most that of the child just killed: each save removes what is left
    n_in_save += temps > 0;
    CHECK(temps <= 1);
    float *now = read_losses(dir, &n);
    CHECK(same_start(before, n_before, now, n));
    free(before);
    before = now, n_before = n;
  }
  CHECK(n_killed == kills);
  CHECK(n > 0);
  CHECK(ends_well(start(self, dir, n + 7, -1)));
  CHECK(ends_well(start(self, whole, n + 7, -1)));
  CHECK(count_temps(dir) == 0);
  float *killed = read_losses(dir, &n), *expected = read_losses(whole, &n_whole);
  CHECK(n == n_whole && same_start(expected, n_whole, killed, n));
  snprintf(a, sizeof a, "%s/checkpoint", dir), snprintf(b, sizeof b, "%s/checkpoint", whole);
  CHECK(same_files(a, b));
  printf("%u kills in %zu steps, %u of them left a half-written checkpoint behind\n", n_killed, n, n_in_save);
  free(before), free(killed), free(expected);
}

int main(int argc, char **argv) {
  if (argc == 5 && !strcmp(argv[1], "--child")) return child(argv[2], strtoul(argv[3], NULL, 10), atoi(argv[4]));
  const char *kills = argc > 1 ? argv[1] : getenv("TENURE_KILLS");
  char self[512] = "", dir[] = "/tmp/tn_kill_XXXXXX", whole[] = "/tmp/tn_whole_XXXXXX";
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0 || !mkdtemp(dir) || !mkdtemp(whole)) return 2;
  killed_and_whole(self, kills && atoi(kills) > 0 ? (uint32_t)atoi(kills) : 10, dir, whole);
  clear(dir), clear(whole);
  return check_report();
}
