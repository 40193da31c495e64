// The names that the examples in docstrings use without declaring them; where two headers mean something else by a name, IN_
// and the header's.
#include "frontend/tenure.h"
static tn_program *p;
static tn_function *f;
static tn_module *net, *root, *parent, *fc, *block, *in, *hidden, *dec, *cache, *lstm, *rnn;
static tn_model *m;
static tn_tensor a, b, c, g, h, h0, k, lr, lengths, logits, loss, memory, q, row, source, t, table, target, token, u, v,
    w, w2;
static tn_tensor words, x, y;
static tn_dim B, H, T, W;
static tn_dataset *cifar;
#ifdef IN_loader
static tn_loader *loader;
#elif defined IN_data
static int64_t *document_lengths;
static size_t n_documents;
#endif
static const tn_image_file *files;
static size_t n;
#ifdef IN_decode
static tn_module *attn, *slots, *embedding, *places, *head;
static tn_tensor ids, seeds, where, parents;
static tn_slot_run run;
#endif
static const tn_transport *transport;
static const int net_about;
static float xs[32], mean[3], std[3];
static int64_t labels[4];
static char why[512];
#ifdef IN_packed
static tn_packed s;
#elif defined IN_scope
static tn_scope *s;
#else
static tn_packed seq;
#endif
