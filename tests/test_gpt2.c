// The model of examples/gpt2: loss and gradients at full width against PyTorch; reading a prompt and going on with the
// cache against computing the whole; a cache that is full; words and tokens.
#include "examples/gpt2/bpe.h"
#include "examples/gpt2/model.h"
#include "examples/gpt2/sample.h"
#include "tests/check.h"
#include "tests/golden_file.h"
#include "tests/models.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static double number(uint32_t k, uint32_t seed) {  // in [0, 1); as tests/make_gpt2_goldens.py
  uint32_t h = k * 2654435761u + seed * 40503u;
  h ^= h >> 15, h *= 2246822519u, h ^= h >> 13;
  return (h >> 8) * 0x1p-24;
}

// ---- against PyTorch
enum { TIME = 64, N_SHOWN = 8, N_PARAMETERS = 28 };
static GoldenArrays goldens;  // the loss, then of each parameter's gradient the norm and N_SHOWN elements
static const char *path_of(uint32_t k) { return goldens.at[k + 1].name; }

static tn_program *with_gradients(const Gpt2 *g) {
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, g);
  tn_function *f = tn_function_begin(p, "f");
  tn_tensor x = tn_input(f, "x", TN_I64, TN_SHAPE(1, TIME)), y = tn_input(f, "y", TN_I64, TN_SHAPE(1, TIME));
  tn_tensor loss = tn_cross_entropy(gpt2_logits(p, f, g, x), y);
  tn_output(f, "loss", loss);
  tn_backward(loss);
  for (uint32_t k = 0; k < N_PARAMETERS; k++) {
    char name[16];
    snprintf(name, sizeof name, "g%u", k);
    tn_output(f, name, tn_param_grad(f, tn_root(p), path_of(k)));
  }
  tn_function_end(f);
  return p;
}

static size_t set_weights(tn_model *m, uint32_t k, tn_array *out) {
  const char *path = path_of(k), *end = strrchr(path, '.');
  bool is_scale = strstr(path, ".ln_") && !strcmp(end, ".weight");
  for (uint32_t i = 0; i < tn_param_count(m); i++) {
    if (strcmp(tn_param_path(m, i), path)) continue;
    tn_array a = tn_param_at(m, i);
    size_t n = 1;
    for (uint32_t axis = 0; axis < a.rank; axis++) n *= (size_t)a.dims[axis];
    float *v = a.data;
    for (size_t j = 0; j < n; j++) v[j] = (float)((number((uint32_t)j, k) - 0.5) * 0.125 + is_scale);
    tn_param_end_write(m, i);
    *out = a, out->data = calloc(n, sizeof(float));
    return n;
  }
  CHECK(!path);
  return 0;
}

static void check_gradient(uint32_t k, const float *g, size_t n) {
  const double *want = golden_array(&goldens, path_of(k), 1 + N_SHOWN);
  double sum = 0, most = 0;
  for (size_t i = 0; i < n; i++) sum += (double)g[i] * g[i], most = fmax(most, fabs(g[i]));
  bool ok = CHECK(fabs(sqrt(sum) - want[0]) <= 1e-4 * want[0]);
  for (size_t i = 0; i < N_SHOWN; i++) ok &= CHECK(fabs(g[7919003 * i % n] - want[1 + i]) <= 1e-4 * most);
  if (!ok) printf("%s: norm %.9g, expected %.9g\n", path_of(k), sqrt(sum), want[0]);
}

static void test_gradients(void) {
  RtArena *mem = rt_arena_new();
  goldens = golden_arrays(mem, "tests/gpt2_goldens");
  const double *want = golden_array(&goldens, "loss", 1);
  CHECK(goldens.n == 1 + N_PARAMETERS);
  const Gpt2 g = {.words = 50257, .places = TIME, .width = 768, .layers = 2, .heads = 12};
  tn_model *m = model_alone(with_gradients(&g), .n_workers = 2);
  int64_t ids[TIME + 1];
  for (uint32_t k = 0; k <= TIME; k++) ids[k] = (int64_t)(50257 * number(k, 99));
  float loss = 0;
  tn_array out[N_PARAMETERS + 1] = {tn_f32_scalar(&loss)};
  size_t n[N_PARAMETERS] = {0};
  for (uint32_t k = 0; m && k < N_PARAMETERS; k++) n[k] = set_weights(m, k, &out[k + 1]);
  const tn_array in[] = {tn_i64(ids, 1, TIME), tn_i64(ids + 1, 1, TIME)};
  if (m && !CHECK(tn_run(m, "f", in, 2, out, N_PARAMETERS + 1) == TN_OK)) printf("%s\n", tn_error_text(m));
  CHECK(fabs(loss - *want) <= 1e-4 * *want);
  for (uint32_t k = 0; m && k < N_PARAMETERS; k++) check_gradient(k, out[k + 1].data, n[k]), free(out[k + 1].data);
  tn_model_free(m);
  rt_arena_free(mem);
}

// ---- the cache
enum { WORDS = 50, PLACES = 24, N_IDS = 20 };

static void test_generation(void) {
  const Gpt2 g = {.words = WORDS, .places = PLACES, .width = 32, .layers = 2, .heads = 4};
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, &g);
  gpt2_add_generation(p, &g);
  tn_function *f = tn_function_begin(p, "whole");
  tn_output(f, "logits", gpt2_logits(p, f, &g, tn_input(f, "ids", TN_I64, TN_SHAPE(1, N_IDS))));
  tn_function_end(f);
  tn_model *m = model_alone(p, .n_workers = 2);
  int64_t ids[PLACES + 1];
  float whole[N_IDS * WORDS], last[WORDS];
  for (uint32_t k = 0; k <= PLACES; k++) ids[k] = (int64_t)(WORDS * number(k, 3));
  CHECK(m && tn_run(m, "whole", TN_IN(tn_i64(ids, 1, N_IDS)), TN_OUT(tn_f32(whole, 1, N_IDS, WORDS))) == TN_OK);
  for (int round = 0; m && round < 2; round++) {  // a prompt in two pieces, then one token after the other
    const int64_t pieces[] = {0, 7, 12, 13, 14, 15, 16, 17, 18, 19, N_IDS};
    CHECK(tn_run(m, "reset", NULL, 0, NULL, 0) == TN_OK);
    for (int k = 0; k + 1 < (int)(sizeof pieces / sizeof *pieces); k++) {
      int64_t n = pieces[k + 1] - pieces[k];
      CHECK(tn_run(m, n > 1 ? "prefill" : "decode", TN_IN(tn_i64(ids + pieces[k], 1, n)),
                   TN_OUT(tn_f32(last, WORDS))) == TN_OK);
      for (int w = 0; w < WORDS; w++) CHECK(fabs(last[w] - whole[(pieces[k + 1] - 1) * WORDS + w]) < 1e-5);
    }
  }
  // 4 places are left: 5 tokens are refused, and nothing has changed
  CHECK(m && tn_run(m, "prefill", TN_IN(tn_i64(ids, 1, 5)), TN_OUT(tn_f32(last, WORDS))) != TN_OK);
  if (m) CHECK_HAS(tn_error_text(m), "20");
  for (int k = 0; m && k < 4; k++)
    CHECK(tn_run(m, "decode", TN_IN(tn_i64(ids, 1, 1)), TN_OUT(tn_f32(last, WORDS))) == TN_OK);
  CHECK(m && tn_run(m, "decode", TN_IN(tn_i64(ids, 1, 1)), TN_OUT(tn_f32(last, WORDS))) != TN_OK);
  tn_model_free(m);
}

// Of a prompt only the last place has logits: the arena has no room for those of two.
static void test_prompt_arena(void) {
  const Gpt2 g = {.words = 50257, .places = 512, .width = 16, .layers = 1, .heads = 2};
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, &g);
  gpt2_add_generation(p, &g);
  tn_model *m = tn_compile(p, .no_init = true);
  tn_plan plan;
  if (CHECK(m && tn_plan_of(m, "prefill", &plan) == TN_OK)) CHECK(plan.peak_bytes < 2 * 4 * g.words);
  tn_model_free(m);
  tn_program_free(p);
}

// ---- words and tokens
static void check_words(const char *text, const char *cut) {  // cut: words, each with a | behind it
  char found[256] = "";
  for (size_t at = 0, n; text[at]; at += n) {
    n = bpe_word(text + at, strlen(text + at));
    strncat(found, text + at, n), strcat(found, "|");
  }
  if (!CHECK(!strcmp(found, cut))) printf("'%s', expected '%s'\n", found, cut);
}

static void test_words(void) {  // as the module regex cuts them
  check_words("Hello world, it's 1999!", "Hello| world|,| it|'s| 1999|!|");
  check_words("a  b\n\n c \n", "a| | b|\n\n| c| \n|");
  check_words("we'll're 'S x²½Ⅷ", "we|'ll|'re| '|S| x|²½Ⅷ|");
  check_words("a\xe1\xb2\x8a z 1\xf0\x90\xb5\x81 2", "a\xe1\xb2\x8a| z| 1\xf0\x90\xb5\x81| 2|");  // of Unicode 16
  check_words("naïve  中文é🙂!? \xc2\xa0z", "naïve| | 中文é|🙂!?| |\xc2\xa0|z|");
}

static void write_file(const char *path, const char *text) {
  FILE *out = fopen(path, "w");
  if (CHECK(out)) fputs(text, out), fclose(out);
}

// Layers, width and places from the shapes of a file, heads from the config.json beside it
static void test_size_of_file(void) {
  const Gpt2 g = {.words = 11, .places = 7, .width = 6, .layers = 2, .heads = 3};
  tn_program *p = tn_program_create("gpt2");
  gpt2_make(p, &g);
  gpt2_add_generation(p, &g);
  tn_model *m = tn_compile(p);
  char folder[] = "gpt2_XXXXXX", weights[64], config[64], why[256];
  if (!CHECK(m && mkdtemp(folder))) return;
  snprintf(weights, sizeof weights, "%s/model.safetensors", folder);
  snprintf(config, sizeof config, "%s/config.json", folder);
  CHECK(tn_save(m, weights, false) == TN_OK);
  Gpt2 found = {0};
  CHECK(gpt2_size_of(weights, &found, why, sizeof why) && found.heads == 1);  // 64 wide
  CHECK(found.words == 11 && found.places == 7 && found.width == 6 && found.layers == 2);
  write_file(config, "{\n  \"n_embd\": 6,\n  \"n_head\": 3\n}\n");
  CHECK(gpt2_size_of(weights, &found, why, sizeof why) && found.heads == 3);
  write_file(config, "{\"n_head\":4}");
  CHECK(!gpt2_size_of(weights, &found, why, sizeof why));
  CHECK_HAS(why, "n_head of the config.json beside it does not divide 6");
  remove(config), remove(weights), rmdir(folder);
  tn_model_free(m);
  tn_program_free(p);
}

static void test_tokens(void) {
  char why[256], text[8192] = "{", merges[] = "#version: 0.2\nt h\nth e\n\xc4\xa0 the\n";
  for (int k = 0, n = 0; k < 256; k++) {  // the signs of all bytes, those that cannot be seen from U+0100 on
    bool is_seen = (k > 32 && k < 127) || (k > 160 && k != 173);
    snprintf(text + strlen(text), 32, "\"\\u%04x\": %d, ", is_seen ? k : 256 + n, k);
    n += !is_seen;
  }
  strcat(text, "\"th\": 256, \"the\": 257, \"\\u0120the\": 258}");
  write_file("gpt2_vocab.json", text), write_file("gpt2_merges.txt", merges);
  Bpe *b = bpe_open("gpt2_vocab.json", "gpt2_merges.txt", why, sizeof why);
  if (!CHECK(b)) printf("%s\n", why);
  int64_t ids[32];
  const char *said = "the the th\xff";
  CHECK(b && bpe_count(b) == 259 && bpe_encode(b, said, strlen(said), ids) == 5);
  CHECK(ids[0] == 257 && ids[1] == 258 && ids[2] == ' ' && ids[3] == 256 && ids[4] == 255);
  char back[32] = "";
  for (int k = 0; b && k < 5; k++) {
    size_t n;
    const char *bytes = bpe_bytes(b, ids[k], &n);
    strncat(back, bytes, n);
  }
  CHECK(!strcmp(back, said));
  bpe_free(b);
  write_file("gpt2_merges.txt", "t q\n");
  CHECK(!bpe_open("gpt2_vocab.json", "gpt2_merges.txt", why, sizeof why));
  CHECK_HAS(why, "gpt2_merges.txt:1: not two tokens that make a third");
  CHECK(!bpe_open("gpt2_merges.txt", "gpt2_merges.txt", why, sizeof why));
  CHECK_HAS(why, "not an object");
  remove("gpt2_vocab.json"), remove("gpt2_merges.txt");
}

static void test_sampling(void) {
  const float logits[] = {0, 3, 2, -1};
  Sampling greedy = {0}, of_two = {.temperature = 1, .top_k = 2, .top_p = 1, .seed = 7};
  Sampling likely = {.temperature = 1, .top_p = 0.69, .seed = 7}, again = of_two;
  int count[4] = {0};
  CHECK(sample_token(logits, 4, &greedy) == 1);
  for (int k = 0; k < 2000; k++) {
    int64_t id = sample_token(logits, 4, &of_two);
    count[id]++;
    CHECK(id == sample_token(logits, 4, &again) && sample_token(logits, 4, &likely) == 1);  // which has 0.696
  }
  CHECK(!count[0] && !count[3] && abs(count[1] - 1462) < 80);  // e / (1 + e) of them
}

int main(void) {
  test_words();
  test_size_of_file();
  test_tokens();
  test_sampling();
  test_generation();
  test_prompt_arena();
  test_gradients();
  return check_report();
}
