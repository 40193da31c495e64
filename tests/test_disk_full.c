// A disk that is full while a checkpoint is written: a status and a sentence, the old checkpoint as it was, nothing
// left beside it. A limit of file sizes stands for the disk; it hits at every part of the file in turn.
#include "frontend/tenure.h"
#include "tests/check.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static tn_model *build(void) {
  tn_program *p = tn_program_create("full");
  tn_module *fc = tn_linear(tn_root(p), "fc", 64, 32);
  tn_function *f = tn_function_begin(p, "step");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(4, 64));
  tn_tensor loss = tn_mean(tn_square(tn_dropout(tn_call(fc, x), 0.5)));
  tn_output(f, "loss", loss);
  tn_backward(loss);
  tn_adamw(f, tn_root(p));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  if (!CHECK(m)) tn_report(p, stdout), exit(1);
  tn_program_free(p);
  return m;
}

static float step(tn_model *m) {
  float x[4 * 64], loss = 0;
  for (int k = 0; k < 4 * 64; k++) x[k] = (float)(k % 13) / 6 - 1;
  CHECK(!tn_run(m, "step", TN_IN(tn_f32(x, 4, 64)), TN_OUT(tn_f32_scalar(&loss))));
  return loss;
}

static int count_files(const char *dir) {
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static void limit_files(rlim_t bytes) {
  struct rlimit r;
  CHECK(!getrlimit(RLIMIT_FSIZE, &r));
  r.rlim_cur = bytes < r.rlim_max ? bytes : r.rlim_max;
  CHECK(!setrlimit(RLIMIT_FSIZE, &r));
}

int main(void) {
  char dir[] = "/tmp/tn_full_XXXXXX", path[64];
  struct stat st;
  if (!mkdtemp(dir)) return 2;
  snprintf(path, sizeof path, "%s/model.safetensors", dir);
  signal(SIGXFSZ, SIG_IGN);  // the limit's own signal; a full disk has none
  tn_model *m = build(), *other = tn_instance(m, 5);
  step(m);
  CHECK(!tn_save(m, path, true) && !stat(path, &st));
  float expected[3], found;
  for (int k = 0; k < 3; k++) expected[k] = step(m);
  for (rlim_t at = 0; at < (rlim_t)st.st_size; at += 1 + (rlim_t)st.st_size / 9) {
    limit_files(at);
    CHECK(tn_save(m, path, true) == TN_ERR_FILE);
    limit_files(RLIM_INFINITY);
    CHECK_HAS(tn_error_text(m), "model.safetensors: File too large");
    CHECK(count_files(dir) == 1);
    CHECK(!tn_load(other, path, true));
    for (int k = 0; k < 3; k++) found = step(other), CHECK(found == expected[k]);
  }
  CHECK(!tn_save(m, path, true) && count_files(dir) == 1);  // there is room again
  CHECK(!tn_load(other, path, true) && step(other) == step(m));
  tn_model_free(m), tn_model_free(other);
  CHECK(!remove(path) && !rmdir(dir));
  return check_report();
}
