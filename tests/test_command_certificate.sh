#!/usr/bin/env bash
# tenure certificate and verify-plan: plans of examples and of shards hold, also by the awk program of docs/certificate.md; a fault
# in each part of a certificate is found, and by awk where that looks at the part.
source tests/command.sh

awk '/^```awk/ { on = 1; next } /^```/ { on = 0 } on' "$TENURE_SOURCE/docs/certificate.md" >check.awk
(($(wc -l <check.awk) <= 30)) || fail "the awk program of certificate.md is no longer one of 30 lines"
cat >net.tir <<'TIR'
program @net
dim batch <= 64
param @w : f32[64,64] trainable
param @v : f32[64,64] trainable
func @step(%x: f32[batch,64], %t: i64[batch]) {
  %w = param @w
  %v = param @v
  %a = matmul %x, %w
  %b = relu %a
  %c = matmul %b, %v
  %s = cumsum %b {axis=1}
  %d = add %c, %s
  %loss, %lse = cross_entropy_rows %d, %t
  %sum = sum %loss {axes=[0]}
  %g = grad_of %sum, %w
  %h = grad_of %sum, %v
  %w1 = sub %w, %g
  %v1 = sub %v, %h
  %x1 = assign %w, %w1
  %x2 = assign %v, %v1
  output %sum {name="loss", index=0}
}
func @empty() {
}
TIR
"$tenure" certificate net.tir -o net.plan
check 0 '2 functions hold' verify-plan net.plan
awk -f check.awk net.plan || fail "awk finds a fault"
check 0 'function step ' certificate net.tir
n_held=0 n_kept=0
for file in "$TENURE_SOURCE"/tests/golden/{exchange,fuse,assign_buffers,plan_memory}/*.tir; do
  sed '/^#/d; /^----/,$d' "$file" >one.tir
  "$tenure" certificate one.tir -o one.plan 2>/dev/null || continue # programs of diagnostics
  check 0 'hold' verify-plan one.plan
  awk -f check.awk one.plan || fail "awk finds a fault in $file"
  grep -q ' kept ' one.plan && n_kept=$((n_kept + 1)) && cp one.plan kept.plan
  n_held=$((n_held + 1))
done
((n_held >= 15 && n_kept >= 2)) || fail "$n_held certificates, $n_kept with sums that are kept"

# planted NAME SENTENCE BY-AWK AWK-PROGRAM [PLAN]: edits the certificate; the sentence is among the faults
planted() {
  local plan=${5:-net.plan}
  awk "$4" "$plan" >bad.plan
  cmp -s "$plan" bad.plan && fail "$1: nothing is planted"
  check 1 "$2" verify-plan bad.plan
  [[ $3 == no ]] && return
  if awk -f check.awk bad.plan >/dev/null; then fail "$1: awk finds nothing"; fi
}
first='$1 == "buffer" && $3 == "arena" && !n++'
planted size 'overlap' yes '$1 == "buffer" && $3 == "arena" { $4 *= 4 } 1'
planted offset 'overlap' yes '$1 == "buffer" && $3 == "arena" { $5 = 0 } 1'
planted align 'is not aligned' yes "$first { \$5 += 8 } 1"
planted first 'kernels use it from' yes "$first { \$6 += 1 } 1"
planted last 'kernels use it from' yes "$first { \$7 += 1 } 1"
planted end 'behind the arena' yes "$first { \$5 += 1048576 } 1"
planted arena 'its buffers end at' yes '$1 == "function" && $3 { $4 += 64 } 1'
planted live 'are said to live at' yes '$1 == "function" && $3 { $5 += 64 } 1'
planted where 'are said to live at' yes '$1 == "function" && $3 { $6 = 0 } 1'
planted orders 'no order is said to need less' no '$1 == "function" && $3 { $7 = $5 + 64 } 1'
planted kernel 'no order is said to need less' no '$1 == "function" && $3 { $8 = $3 - 1 } 1'
planted pair 'takes over' yes '$1 == "buffer" && $3 == "arena" && $8 { $8 = $2 } 1'
planted unpaired 'overlap' yes '$1 == "buffer" && $3 == "arena" { $8 = 0 } 1'
planted use 'which is not listed' no '$1 == "kernel" && !n++ { $0 = $0 " 9999" } 1'
planted reader 'kernels use it from' yes '$1 == "kernel" { sub(/ reads.* writes/, " reads writes") } 1'
planted unwritten 'is read before it is written' yes '$1 == "kernel" && !n++ { sub(/ writes/, ""); $0 = $0 " writes" } 1'
planted kept 'is kept from' yes '$1 == "buffer" && $3 == "kept" { $6 = $7 } 1' kept.plan
planted missing 'are listed' no '$1 == "kernel" { line = $0; next } 1'
planted digest 'the digest is not' no '$1 == "end" { $2 = "0123456789abcdef" } 1'
planted name 'the digest is not' no '$1 == "program" { $2 = "other" } 1'

# kernels that run again are marked; one that writes what is none of the arena is found
sed 's/^func @step/checkpoint 1 @m\nfunc @step/; s/%[bc] = .*/& checkpoint=1/' net.tir >again.tir
"$tenure" certificate again.tir -o again.plan
grep -q '^kernel .* again reads' again.plan || fail "no kernel is marked"
check 0 'hold' verify-plan again.plan
awk -f check.awk again.plan || fail "awk finds a fault where kernels run again"
grep -q ' again ' net.plan && fail "a kernel is marked that runs once"
planted again 'runs again and writes buffer' yes '$1 == "kernel" { $4 = $4 " again" } 1'

# a bundle has the digest of its plan, of all targets
"$tenure" bundle net.tir -o two --target=x86-64-v2,x86-64-v3 || fail "no bundle"
check 0 '4 functions hold' verify-plan two.plan --bundle=two.h
awk -f check.awk two.plan || fail "awk finds a fault in a bundle's plan"
grep -q "\"certificate\": \"0x$(sed -n 's/^end //p' two.plan)\"" two.json || fail "two.json has another digest"
check 1 'the plan is not that of two.h, whose digest is' verify-plan net.plan --bundle=two.h
check 1 'it has no certificate' verify-plan two.plan --bundle=two.json
check 1 'none.h: No such file' verify-plan two.plan --bundle=none.h

bad() {  # SENTENCE CONTENTS
  printf "$2" >bad.plan
  check 1 "$1" verify-plan bad.plan
}
bad 'ends early' 'tenure-plan 1\nprogram a\n'
bad 'ends early' ''
bad 'bad.plan:1: no line' 'tenure-plan 2\n'
bad 'bad.plan:2: no line' 'tenure-plan 1\nbuffer 1 arena 64 0 0 0 0 a\n'
bad 'bad.plan:2: no line' 'tenure-plan 1\nfunction f -1 0 0 0 0 0\n'
bad 'bad.plan:3: no line' 'tenure-plan 1\nfunction f 1 0 0 0 0 0\nkernel 1 gemm 0 reads writes\n'
bad 'bad.plan:3: no line' 'tenure-plan 1\nend 0\nprogram p\n'
bad 'bad.plan:3: no line' 'tenure-plan 1\nfunction f 1 64 64 0 64 0\nbuffer 1 arena 9223372036854775744 64 0 0 0 a\n'
bad 'bad.plan:3: no line' 'tenure-plan 1\nfunction f 1 64 64 0 64 0\nbuffer 1 kept 64 0 -9000000000000000000 0 0 a\n'
bad 'is kept from' 'tenure-plan 1\nfunction f 1 64 64 0 64 0\nbuffer 1 kept 64 0 0 7 0 a\nkernel 0 gemm 0 reads writes\nend 0\n'
# two that take each other over; one that takes over a parameter, beside which another buffer lies on it
bad 'buffer 1 takes over 2, which is not made before it' 'tenure-plan 1\nfunction f 1 64 64 0 64 0\nbuffer 1 arena 64 0 0 0 2 a\nbuffer 2 arena 64 0 0 0 1 a\nkernel 0 gemm 0 reads writes 1 2\nend 0\n'
bad 'buffers 1 and 3 live at the same time and overlap' 'tenure-plan 1\nfunction f 2 64 64 0 64 0\nbuffer 1 arena 64 0 0 1 0 a\nbuffer 2 param 64 0 0 1 0 a\nbuffer 3 arena 64 0 1 1 2 a\nkernel 0 gemm 0 reads 2 writes 1\nkernel 1 gemm 0 reads 1 2 writes 3\nend 0\n'
check 1 'No such file' verify-plan none.plan

# 60,000 kernels in a row whose buffers live for 100 kernels in 128 slots: a check of all pairs would take 20 s
awk -v n=60000 'BEGIN {
  print "tenure-plan 1\nprogram big"
  printf "function f %d %d %d 200 0 0\n", n, 128 * 64, 101 * 64
  for (k = 0; k < n; k++) printf "buffer %d arena 64 %d %d %d 0 %%v x\n", k + 1, k % 128 * 64, k, k + 100 < n ? k + 100 : n - 1
  for (k = 0; k < n; k++) {
    printf "kernel %d pointwise 0 reads", k
    if (k) printf " %d", k
    if (k >= 100) printf " %d", k - 99
    for (j = n - 99; k == n - 1 && j < n; j++) printf " %d", j
    printf " writes %d\n", k + 1
  }
  print "end 0"
}' >big.plan
out=$(timeout 20 "$tenure" verify-plan big.plan 2>&1)
[[ $out == 'the digest is not that of the lines before it' ]] || fail "the large plan: $(head -3 <<<"$out")"
exit $((n_failed > 0))
