// Tenure, decoding: sequences of different lengths go on side by side, each from a prompt of its own. A cache of keys and
// values has slots, one for a sequence; a run takes the sequences that it names and leaves the others alone.
//
//   tn_module *slots = tn_slots(net, "slots", 32, 512);              // 32 sequences of up to 512 steps
//   tn_module *cache = tn_slot_cache(attn, "cache", slots, 12, 64);  // of each attention: 12 heads of 64
//
// Prompts come packed, in one run; then each run adds a step to those sequences that go on. The calls between are the same:
//
//   tn_tensor slot = tn_input(f, "slot", TN_I64, TN_SHAPE(B));                // which slot each sequence has
//   tn_slot_run run = tn_slots_prefill(slots, slot, tn_pack_padded(ids, lengths));
//   h = tn_add(tn_call(embedding, run.ids), tn_call(places, run.steps));      // [rows, E]; in a step [B, E]
//   y = tn_slot_attend(cache, run, q, k, v);                                  // q, k, v [rows, 12, 64]
//   logits = tn_call(head, tn_packed_last(tn_packed_with_data(run.rows, h))); // in a step tn_call(head, h)
//
//   tn_slot_run next = tn_slots_step(slots, where, ids);                      // a step: where and ids i64 [B]
//   tn_sampled s = tn_sample_tokens(logits, seeds, next.held, .temperature = 0.8, .top_k = 40);
//
// Prompts begin anew in their slots, whatever these held. A sequence ends where no run names its slot any more, and another
// one may take it. What is computed of a sequence does not depend on the others of the run: the same bits alone and in a batch.
#ifndef TN_DECODE_H
#define TN_DECODE_H

#include "module.h"
#include "packed.h"

#ifdef __cplusplus
extern "C" {
#endif

// n slots of `steps` steps: how many steps each holds, and its text; kept between runs, in no file. Each in [1, 2^24], and their
// product too, else E003.
TN_API tn_module *tn_slots(tn_module *parent, const char *name, int64_t n, int64_t steps, tn_site at);
// Keys and values of these slots, of so many heads of `size` numbers: f32 [n * steps, 2, heads, size], or what tn_store_as says. E003
// sizes, and a module that has no slots.
TN_API tn_module *tn_slot_cache(tn_module *parent, const char *name, tn_module *slots, int64_t heads, int64_t size,
                                tn_site at);

// A cache "cache" for each multi-head attention of m and below; E003 where there is none. Their calls, and those of the transformers
// that they are part of, take the run as an option:
//
//   tn_slot_caches(block, slots);
//   h = tn_encoder_call(block, h, .slots = &run);  // [rows, E] -> [rows, E]: each row sees its own sequence up to itself
TN_API void tn_slot_caches(tn_module *m, tn_module *slots, tn_site at);

// What one run adds to slots. The user reads it, and changes nothing.
typedef struct tn_slot_run {
  tn_module *slots;
  tn_tensor where;   // i64 [B]: the slot of each sequence
  tn_tensor ids;     // i64 [rows]: what is added; of a step [B]
  tn_packed rows;    // the same with its layout; of a step empty handles
  tn_tensor steps;   // i64 [rows]: the place of each in its sequence, from 0 on
  tn_tensor held;    // i64 [B]: how many steps each sequence has after this run
  tn_tensor places;  // i64 [rows]: its row in the caches
  tn_tensor seen;    // i64 [n]: how many keys the query of each slot sees; of prompts an empty handle
} tn_slot_run;
// Prompts i64 [rows], sequence b in slot where[b], i64 [B]. Slots are emptied first. A prompt may be empty. At most `steps` steps
// (E004). The run is refused before anything is written where a slot is not in [0, n), or two sequences have one.
TN_API tn_slot_run tn_slots_prefill(tn_module *slots, tn_tensor where, tn_packed ids, tn_site at);
// One more step of each sequence: ids i64 [B], where i64 [B] (E004); B may be a size of the run, and 0. Refused likewise, and where a
// slot is full.
TN_API tn_slot_run tn_slots_step(tn_module *slots, tn_tensor where, tn_tensor ids, tn_site at);

typedef struct {
  double scale;    // 0: 1 / sqrt(size)
  int64_t window;  // a query sees the last so many steps up to its own; 0: all
  tn_site at;
} tn_slot_options;
// Writes keys and values of the run's rows into the cache, and lets each query see those of its own sequence up to its own step.
// q f32 [rows, H, size], k and v [rows, heads, size], H a multiple of heads -> [rows, H, size]; rows are those of the run, in its
// order (E111, E004). One call for each cache and run.
TN_API tn_tensor tn_slot_attend(tn_module *cache, tn_slot_run run, tn_tensor q, tn_tensor k, tn_tensor v,
                                tn_slot_options o);
// i64 [B, steps]: the text of each sequence with what the run adds, -1 behind its end
TN_API tn_tensor tn_slots_text(tn_slot_run run, tn_site at);
// Slot to[k] becomes what slot from[k] was before, i64 [m] each: steps, text, and all caches made up to here. Several may be copies of
// one: a step of beam search. Two of one number in `to`, or one that is no slot, are refused before anything is written.
//
//   tn_slots_copy(f, slots, parents, where);  // behind the step whose best continuations have these parents
TN_API void tn_slots_copy(tn_function *f, tn_module *slots, tn_tensor from, tn_tensor to, tn_site at);

// ---- the next tokens
typedef struct {
  double temperature;         // 0: the likeliest token
  tn_tensor temperatures;     // f32 [B], of each sequence; else the number
  int64_t top_k;              // the likeliest so many; 0: all
  double top_p;               // of those the likeliest, up to this part of their probability, in (0, 1]; 0: all
  tn_tensor top_ps;           // f32 [B]; else the number
  double repetition_penalty;  // logits of tokens of the history are divided by it, and multiplied below 0; 0: 1
  tn_tensor penalties;        // f32 [B]; else the number
  tn_tensor history;          // i64 [B, n], -1: none; TN_NONE: no penalty
  const int64_t *stop;        // tokens that end a text
  uint32_t n_stop;
  tn_site at;
} tn_sample_options;
typedef struct {
  tn_tensor tokens;   // i64 [B]
  tn_tensor stopped;  // bool [B]: it is one of `stop`
} tn_sampled;
// One token of each row of logits f32 [B, words]. The draw is a function of seeds[b] and counters[b], i64 [B], such as the steps that
// are held, and of row b alone: no batch, no other run and no number of workers changes it. E003 options, E004 shapes, E005 dtypes.
TN_API tn_sampled tn_sample_tokens(tn_tensor logits, tn_tensor seeds, tn_tensor counters, tn_sample_options o);
// f32 uniform in [0, 1), a multiple of 2^-24: a function of the two numbers, i64 of shapes that broadcast, in every program alike
TN_API tn_tensor tn_rand_at(tn_tensor seeds, tn_tensor counters, tn_site at);

#ifdef __cplusplus
}
#endif

#endif
