#!/usr/bin/env bash
# Seeing a plan: what `tenure explain`, `tenure diff` and `tenure report` say of small programs, and with which status.
set -u
tenure=$TENURE_BUILD/bin/tenure
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n_failed=0

cat >"$dir/a.tir" <<'TIR'
program @p
dim batch <= 8
param @w : f32[4,4] trainable
func @step(%x: f32[3,batch,4], %y: i64[batch]) {  // m.c:1
  scope forward {                               // m.c:2
    %w = param @w                               // m.c:3
    %q = matmul %x, %w                          // m.c:3
    %h = sum %q {axes=[0]}                      // m.c:4
    %a = relu %h                                // m.c:5
    %dead = exp %a                              // m.c:6
    %z = matmul %a, %w                          // m.c:7
    move %z {scope=0}                           // m.c:8
  }                                             // m.c:9
  %loss, %lse = cross_entropy_rows %z, %y                 // m.c:10
  %sum = sum %loss {axes=[0]}                   // m.c:11
  output %sum {name="loss", index=0}            // m.c:12
  %g = grad_of %sum, %w                         // m.c:13
  %lr = const {value=0.1}                       // m.c:14
  %step = mul %g, %lr                           // m.c:15
  %next = sub %w, %step                         // m.c:15
  %new = assign %w, %next                       // m.c:15
}                                               // m.c:16
func @predict(%x: f32[batch,4]) {               // m.c:20
  %w = param @w                                 // m.c:21
  %h = matmul %x, %w                            // m.c:22
  output %h {name="h", index=0}                 // m.c:23
}                                               // m.c:24
TIR

cat >"$dir/reg.tir" <<'TIR'
program @r
func @f(%x: f32[4]) {
  %2 = const {value=2}              // r.c:1
  %3 = mul %x, %2                   // r.c:2
  %4 = exp %3                       // r.c:3
  output %4 {name="y", index=0}     // r.c:4
}
TIR

cat >"$dir/write.tir" <<'TIR'
program @w
func @f(%x: f32[4,4]) {               // w.c:1
  %h = matmul %x, %x                  // w.c:2
  %c = clone %h                       // w.c:3
  %e = exp %c                         // w.c:4
  write %c, %e                        // w.c:4
  %p = slice %c {axis=1, start=1, count=2}  // w.c:5
  %k = const {value=2}                // w.c:5
  %b = expand %k {shape=[4,2]}        // w.c:5
  write %p, %b                        // w.c:5
  %y = matmul %c, %h                  // w.c:6
  output %y {name="y", index=0}       // w.c:7
}
TIR

# check STATUS TEXT ARGS..: the output (both streams) must contain every line of TEXT.
check() {
  local want=$1 text=$2 out status line bad=0
  shift 2
  out=$(cd "$dir" && "$tenure" "$@" 2>&1)
  status=$?
  [[ $status == "$want" ]] || bad=1
  while IFS= read -r line; do
    [[ $out == *"$line"* ]] || { bad=1 && echo "missing: $line"; }
  done <<<"$text"
  ((bad)) || return 0
  echo "tenure $*: status $status (expected $want)"
  echo "$out"
  n_failed=$((n_failed + 1))
}

# ---- explain
# Writes in place: no gradient is asked for, so that nothing is of a backward; a clone and a view are names.
check 0 "Pass grad removed it: it is another name for bytes of the value that it was made of." explain write.tir %c
check 0 "Pass simplify removed it: it is another name for bytes of the value that it was made of." explain write.tir %p
check 0 " = slice_assign at w.c:5 (kernel" explain write.tir %e

check 0 "@step: %a is f32[batch,4], made by relu at m.c:5.
It was made in scope 'forward', which ends at m.c:9.
the backward of m.c:
saved for backward
after its owner, scope 'forward', closed at m.c:9.
It lies in arena+
It isn't live at the arena's peak, kernel
It takes over in place the slot of %h (sum at m.c:4)" explain a.tir %a
check 0 "It is live at the peak, kernel" explain a.tir %21 --function step --planned
check 0 "Its slot is taken over in place by %a (relu at m.c:5) in kernel " explain a.tir %h --function step
check 0 "@step: %z is f32[batch,4], made by matmul at m.c:7.
It was made in scope 'forward' and moved to the function's own scope at m.c:8, which ends at m.c:16." explain a.tir %z
check 0 "Pass simplify removed it: no output, parameter update or gradient needs it." explain a.tir dead
check 0 "Pass grad replaced it by the backward computation.
in the backward of m.c:" explain a.tir %g
check 0 "It is a number in the code: no memory." explain a.tir %lr
check 0 "@f: %3 is f32[4], made by mul at r.c:2.
It stays in a register inside kernel 0: it is never stored." explain reg.tir %3
check 0 "@f: %2 is f32[], made by const at r.c:1.
It is a number in the code: no memory." explain reg.tir 2
check 0 "It lies in the caller's memory, input 0, 384 B
The caller owns it: an input." explain a.tir %x --function=step
check 0 "@step: %w is f32[4,4], made by param at m.c:3: the parameter @w.
The program owns it: a parameter or state entry lives as long as the model.
It shares its bytes with %new (a version, assign at m.c:15).
@predict: %w is f32[4,4]" explain a.tir @w
check 0 "@predict: %h is f32[batch,4]" explain a.tir %h --function @predict
check 1 "a.tir has no value %nothing" explain a.tir %nothing
check 1 "a.tir has no value %a in @predict" explain a.tir %a --function predict
check 1 "a.tir has no value @nothing" explain a.tir @nothing
check 1 "a.tir has no function @nothing" explain a.tir %a --function nothing
check 1 "b.tir: No such file" explain b.tir %a
# What report prints, lines, modules, the peak
largest=$("$tenure" report "$dir/a.tir" --text | sed -n 's/^  tenure explain .* \(%[^ ]*\) --planned .*/\1/p')
check 0 "It is live at the peak" explain a.tir "${largest:-%none}" --planned
for name in $("$tenure" report "$dir/a.tir" --text | sed -n 's/^ *[0-9.]* [KM]*i*B  \(%[^ ]*\) .*/\1/p'); do
  check 0 "It is live at the peak" explain a.tir "$name" --planned
done
check 0 "@step: 4 values of m.c:5
  %4           f32[]                  const, backward            no memory
  %a           f32[batch,4]           relu                       arena+0, 128 B, kernels [2,7]" explain a.tir m.c:5
check 0 "128 B of them are live at the peak, kernel 8, of 576 B" explain a.tir m.c:5
check 0 "@step: 0 values of m.c:6
  %dead                               exp                        removed by pass simplify" explain a.tir m.c:6
check 0 "@predict: %w is f32[4,4], made by param at m.c:21" explain a.tir m.c:21
check 1 "a.tir has no value, line or module m.c:77" explain a.tir m.c:77
check 1 "a.tir has no value, line or module c:5" explain a.tir c:5
check 1 "a.tir has no value, line or module encoder" explain a.tir encoder
# A module whose name is a number, as of tn_sequential, goes before the value; %2 is the value.
cat > "$dir/number.tir" <<'END'
program @numbers
func @f(%1: f32[4]) {
  %2 = relu %1 // m.c:2
  %3 = neg %2 // m.c:3 in 2
  %4 = exp %3 // m.c:4 in 2.act
  output %4 {name="y", index=0}
}
func @g(%1: f32[4]) {
  %2 = tanh %1 // m.c:9
  output %2 {name="y", index=0}
}
END
check 0 "@f: 2 values of 2" explain number.tir 2
check 0 "@f: %4 is f32[4], made by exp at m.c:4" explain number.tir 2.act
check 0 "@f: %2 is f32[4], made by relu at m.c:2
@g: %2 is f32[4], made by tanh at m.c:9" explain number.tir %2
check 0 "@f: %3 is f32[4], made by neg at m.c:3" explain number.tir 3
check 0 "@step: 576 B at kernel 8 of 10: expand at m.c:4" explain a.tir --peak
check 2 "explain --peak needs a file alone" explain a.tir %a --peak
check 2 "unknown option --nothing" explain a.tir %a --nothing
check 2 "%b is too many" explain a.tir %a %b
check 0 "USE_AFTER_SCOPE" explain E103

# ---- a copy names the reader that forces it
cat >"$dir/copy.tir" <<'TIR'
program @p
func @f(%x: f32[4,4], %v: f32[1,4]) {
  %h = matmul %x, %x                         // m.c:1
  %n = slice_assign %h, %v {axis=0, start=0} // m.c:2
  %s = matmul %h, %n                         // m.c:3
  output %s {name="s", index=0}              // m.c:4
}
TIR
out=$("$tenure" opt "$dir/copy.tir" --passes=all --facts)
copy=$(grep -oE '%[0-9a-z]+ = copy' <<<"$out" | head -n 1 | cut -d ' ' -f 1)
check 0 "It is a copy of %h, forced by matmul m.c:3, which wants the content from before a write: 64 B are moved." \
  explain copy.tir "${copy:-%none}" --planned

# ---- equal layers are told apart by the paths of their modules
"$TENURE_BUILD/bin/test_module_paths" --text >"$dir/layers.tir" || n_failed=$((n_failed + 1))
for layer in 0 5 11; do
  value=$(grep -E "= (linear|matmul) .* in h\.$layer\.fc$" "$dir/layers.tir" | grep -oE '%[0-9a-z_]+' | head -n 1)
  check 0 " in h.$layer.fc" explain layers.tir "${value:-%none}" --function step
done
check 0 "@step: " explain layers.tir h.5
# Lines 4 and 5 of the first program in two modules: 384 + 128 of the 576 bytes at the peak
sed 's/m\.c:4$/m.c:4 in enc.sum/; s/m\.c:5$/m.c:5 in enc.act/' "$dir/a.tir" >"$dir/modules.tir"
modules="  by module:
         384 B  enc.sum
         128 B  enc.act
          64 B  outside of modules"
check 0 "$modules" explain modules.tir --peak
check 0 "$modules" report modules.tir --text
check 0 "512 B of them are live at the peak, kernel 8, of 576 B" explain modules.tir enc
check 0 "128 B of them are live at the peak, kernel 8, of 576 B" explain modules.tir enc.act
check 1 "has no value, line or module en" explain modules.tir en
check 1 "layers.tir has no value, line or module h.50" explain layers.tir h.50
check 0 "" report layers.tir -o layers.html
for layer in {0..11}; do
  grep -q " in h\.$layer\.fc" "$dir/layers.html" || { echo "the page lacks h.$layer.fc" && n_failed=$((n_failed + 1)); }
done
# A value of some size, said in a unit that fits, exact where the pointer rests
cat >"$dir/size.tir" <<'TIR'
program @s
func @f(%x: f32[700,700]) {
  %h = matmul %x, %x
  %y = softmax %h
  output %y {name="y", index=0}
}
TIR
check 0 "1.9 MiB" explain size.tir %h
check 0 'title="1,960,000 B">1.9 MiB<' report size.tir -o -

# ---- diff
sed 's/%a = relu/%a = tanh/; s/f32\[4,4\] trainable/f32[4,4]/' "$dir/a.tir" >"$dir/op.tir"
sed 's/batch <= 8/batch <= 16/' "$dir/a.tir" >"$dir/big.tir"
sed '/^func @predict/,$d' "$dir/a.tir" >"$dir/less.tir"
check 0 "" diff a.tir a.tir
check 1 "--- a.tir
+++ op.tir
parameters
  ~ @w: param f32[4,4] trainable -> param f32[4,4]
@step
  - select m.c:5: 128 B at arena+
  + mul m.c:5: 128 B at arena+" diff a.tir op.tir
check 1 "@step
  arena
  ~ %a relu m.c:5: 128 -> 256 B
@predict
  ~ %x input m.c:20: 128 -> 256 B" diff a.tir big.tir
cat >"$dir/twice.tir" <<'TIR'
program @r
func @f(%x: f32[4,4], %n: f32[4,4]) {
  %1 = matmul %x, %x                // r.c:1
  %2 = matmul %n, %n                // r.c:1
  %3 = matmul %1, %2                // r.c:2
  output %3 {name="y", index=0}     // r.c:3
}
TIR
sed 's/4,4/8,8/g' "$dir/twice.tir" >"$dir/wide.tir"
check 1 "  ~ matmul r.c:1: 64 -> 256 B
  ~ matmul r.c:1 #2: 64 -> 256 B, arena+64 -> arena+256
  ~ output r.c:3" diff twice.tir wide.tir
check 1 "@predict
  - the whole function" diff a.tir less.tir
check 1 "@predict
  + the whole function" diff less.tir a.tir
check 2 "none.tir: No such file" diff a.tir none.tir
check 2 "diff needs A.tir B.tir" diff a.tir

# ---- report: the same bytes twice; foreign names are escaped; what cannot be written is said
check 0 "" report a.tir -o a.html
check 0 "" report a.tir -o b.html
cmp "$dir/a.html" "$dir/b.html" || n_failed=$((n_failed + 1))
cat >"$dir/odd.tir" <<'TIR'
program @"</script><b>&'"
param @"<w> \"&" : f32[4] trainable
func @"f<i>"(%1 "x<img src=x>": f32[4]) {  // "a<b>.c":1
  scope "s</style>" {                      // "a<b>.c":2
    %w = param @"<w> \"&"                  // "a<b>.c":3
    %s = mul %1, %w                        // "a<b>.c":4
    move %s {scope=0}
  }
  output %s {name="<o>", index=0}
}
TIR
check 0 "" report odd.tir -o odd.html
check 0 "<!doctype html>
&lt;/script&gt;&lt;b&gt;&amp;&#39;
\\u003cw\\u003e" report odd.tir -o -
if grep -qE '<b>&|<w>|<img|</style>"|<o>|a<b>|f<i>' "$dir/odd.html"; then
  echo "a name is not escaped:" && grep -nE '<b>&|<w>|<img|</style>"|<o>|a<b>|f<i>' "$dir/odd.html" | cut -c1-200
  n_failed=$((n_failed + 1))
fi
if grep -qE '(src|href)="?(https?:)?//|@import|url\(' "$dir/a.html"; then
  echo "the page asks for something outside" && n_failed=$((n_failed + 1))
fi
check 1 "No such file" report a.tir -o none/page.html
check 2 "report needs -o" report a.tir
check 2 "report needs FILE.tir" report
echo 'program @p' >"$dir/empty.tir"
check 0 "The program has no function." report empty.tir -o -
echo 'nonsense' >"$dir/bad.tir"
check 1 "bad.tir:1" report bad.tir -o bad.html
check 1 "bad.tir:1" explain bad.tir %a
check 2 "bad.tir:1" diff a.tir bad.tir
[[ ! -e $dir/bad.html ]] || { echo "a failed report left a file" && n_failed=$((n_failed + 1)); }
exit $((n_failed != 0))
