// Programs for bundles, as text: spiral.tir (which of three arms of a spiral a point lies on) and speaker.tir (who of nine
// says a vowel; one function predicts and learns from one utterance). examples/vowels.c writes vowels.tir.
//
//   models DIR && tenure bundle DIR/spiral.tir -o spiral
#include "frontend/tenure.h"

#include <stdlib.h>
#include <string.h>

enum { FEATURES = 12, TIME = 29, SPEAKERS = 9, HIDDEN = 24, ARMS = 3 };

static tn_tensor spiral_logits(tn_function *f, tn_program *p) {
  tn_module *net = tn_root(p);
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "batch", 300), 2));
  tn_tensor h = tn_tanh(tn_call(tn_child(net, "in"), x));
  return tn_call(tn_child(net, "out"), tn_tanh(tn_call(tn_child(net, "hidden"), h)));
}

static tn_program *spiral(void) {
  tn_program *p = tn_program_create("spiral");
  tn_linear(tn_root(p), "in", 2, 48);
  tn_linear(tn_root(p), "hidden", 48, 48);
  tn_linear(tn_root(p), "out", 48, ARMS);
  tn_function *step = tn_function_begin(p, "train_step");
  tn_tensor y = spiral_logits(step, p);
  tn_tensor label = tn_input(step, "label", TN_I64, TN_SHAPE(tn_dim_bounded(p, "batch", 300)));
  tn_tensor loss = tn_cross_entropy(y, label);
  tn_backward(loss);
  tn_adamw(step, tn_root(p), .lr = 1e-2);
  tn_output(step, "loss", loss);
  tn_function_end(step);
  tn_function *predict = tn_function_begin(p, "predict");
  tn_output(predict, "arm", tn_argmax_axis(spiral_logits(predict, p), -1, false));
  tn_function_end(predict);
  return p;
}

static tn_program *speaker(void) {
  tn_program *p = tn_program_create("speaker");
  tn_module *gru = tn_gru(tn_root(p), "gru", FEATURES, HIDDEN);
  tn_module *head = tn_linear(tn_root(p), "head", HIDDEN, SPEAKERS);
  tn_function *f = tn_function_begin(p, "learn");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(1, tn_dim_bounded(p, "time", TIME), FEATURES));
  tn_tensor lengths = tn_input(f, "length", TN_I64, TN_SHAPE(1)), label = tn_input(f, "label", TN_I64, TN_SHAPE(1));
  tn_tensor y = tn_call(head, tn_last_hidden(tn_rnn_call(gru, tn_pack_padded(x, lengths))));
  tn_tensor loss = tn_cross_entropy(y, label);
  tn_output(f, "loss", loss);
  tn_output(f, "predicted", tn_argmax_axis(y, -1, false));  // before it learns
  tn_backward(loss);
  tn_clip_grad_norm(f, tn_root(p), 1.0);
  tn_adamw(f, tn_root(p), .lr = 5e-3);
  tn_function_end(f);
  return p;
}

static bool write_text(tn_program *p, const char *dir, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.tir", dir, name);
  tn_model *m = tn_compile(p);
  if (!m) tn_report(p, stderr);
  FILE *out = m ? fopen(path, "w") : NULL;
  bool good = out && tn_dump(p, out, TN_DUMP_IR) == TN_OK && fclose(out) == 0;
  if (!good) fprintf(stderr, "%s was not written\n", path);
  tn_model_free(m);
  tn_program_free(p);
  return good;
}

int main(int argc, char **argv) {
  bool asks = argc == 2 && !strcmp(argv[1], "--help");
  if (asks || argc != 2) return fprintf(asks ? stdout : stderr, "models DIR\n"), asks ? 0 : 2;
  return !write_text(spiral(), argv[1], "spiral") || !write_text(speaker(), argv[1], "speaker");
}
