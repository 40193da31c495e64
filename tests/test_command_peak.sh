#!/usr/bin/env bash
# tenure explain --peak: sums of what is live there, by line, module and kind, and what lowers them, each by planning.
source tests/command.sh

# a mean over the batch of squared gelus: their derivative is saved, and no gradient
cat >gelu.tir <<'TIR'
program @gelu
dim batch <= 64
param @w : f32[32,32] trainable
param @v : f32[32,32] trainable
func @step(%x: f32[batch,32]) {          // m.c:1
  %w = param @w                          // m.c:2
  %v = param @v                          // m.c:2
  %h = matmul %x, %w                     // m.c:3 in enc
  %a = gelu %h                           // m.c:4 in enc
  %z = matmul %a, %v                     // m.c:5 in head
  %s = square %z                         // m.c:6
  %loss = mean %s {axes=[0,1]}           // m.c:7
  output %loss {name="loss", index=0}    // m.c:8
  %g = grad_of %loss, %w                 // m.c:9
  %k = grad_of %loss, %v                 // m.c:9
  %w1 = sub %w, %g                       // m.c:10
  %v1 = sub %v, %k                       // m.c:10
  %w2 = assign %w, %w1                   // m.c:10
  %v2 = assign %v, %v1                   // m.c:10
}                                        // m.c:11
TIR
cat >expected.txt <<'END'
@step: 32.1 KiB at kernel 2 of 8: matmul, square, mul x 2 at m.c:5, 6 in head
         8 KiB  %a               saved for backward gelu m.c:4 in enc
         8 KiB  %23              saved for backward add backward of m.c:4 in enc
         8 KiB  %s               activation         square m.c:6
         8 KiB  %27              gradient           mul backward of m.c:6
           4 B  %11              gradient           div backward of m.c:7
          60 B  padding, and unused by the placement here
  by line:             without it  lowered by
        16 KiB  m.c:4     -16 KiB  2 shards: -8 KiB
        16 KiB  m.c:6     -16 KiB  2 shards: -12 KiB
           4 B  m.c:7       -64 B
  by module:                        without it  lowered by
      16.0 KiB  outside of modules   -16.1 KiB  2 shards: -11.7 KiB
        16 KiB  enc                    -16 KiB  batch <= 32: -8 KiB
  by kind:                                       without it  lowered by
       8.0 KiB  gradient                           -8.1 KiB  batch <= 32: -4 KiB
         8 KiB  activation                           -8 KiB  2 shards: -8.0 KiB
         8 KiB  saved for the backward of m.c:4      -8 KiB  2 shards: -8 KiB
         8 KiB  saved for the backward of m.c:5      -8 KiB  2 shards: -4 KiB
  the arena, planned with one thing changed:
      28.4 KiB    -3.7 KiB  2 shards: tn_distributed(f, .n = 2, .batch = batch), where the loss is a mean over batch
      16.1 KiB     -16 KiB  batch <= 32: a bound of 32 instead of 64
  beside the arena: parameters and state 8 KiB, constants 0 B, packed weights 0 B, inputs 8 KiB, outputs 8 B
END
"$tenure" explain gelu.tir --peak >found.txt
diff expected.txt found.txt || fail "what stands at the peak is told otherwise"
check_json 0 'sum .0.peak.kinds.[kind="gradient"].bytes = 8196 and .0.peak.kinds.0.saves_at_most = 8256' \
  explain gelu.tir --peak --json
# a way is a plan: the same program, written so
sed 's/batch <= 64/batch <= 32/' gelu.tir >half.tir
sed 's/%\([gk]\) = grad_of/%\1_of = grad_of/; s/^ *%w1 = /  %n = dim_size {dim=batch}\n%g = shard_mean %g_of, %n {dim=batch, shards=2}\n%k = shard_mean %k_of, %n {dim=batch, shards=2}\n&/' \
  gelu.tir >shards.tir
arena_of() { "$tenure" budget "$1" --write && awk '$3 > most { most = $3 } END { print most }' "$1.budget"; }
check_json 0 ".0.peak.ways.0.arena = $(arena_of shards.tir) and .0.peak.ways.2.arena = $(arena_of half.tir)" \
  explain gelu.tir --peak --json
check_json 0 '.0.peak.ways.0.way = "4 shards" and .0.peak.ways.0.write has "instead of 2"' explain shards.tir --peak --json
sed 's/batch <= 64/other <= 64/; s/batch,/64,/' gelu.tir >fixed.tir
check 0 'neither recomputation, shards nor a lower bound of a dim lowers it' explain fixed.tir --peak
sed '/^dim/d; s/batch,/64,/' gelu.tir >nameless.tir
check 0 'nothing is planned that lowers it: recomputation does not; batches are cut' explain nameless.tir --peak

n=0
for file in "$TENURE_SOURCE"/tests/golden/{exchange,fuse,assign_buffers,plan_memory,grad,rematerialise,schedule}/*.tir; do
  sed '/^#/d; /^----/,$d' "$file" >one.tir
  "$tenure" explain one.tir --peak --json >peak.json 2>/dev/null || continue # programs of diagnostics
  sums_hold peak.json "$file"
  n=$((n + 1))
done
((n >= 30)) || fail "only $n programs"
exit $((n_failed > 0))
