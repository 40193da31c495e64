#!/usr/bin/env bash
# tenure run: inputs from files and made up, outputs to files, parameters, times, the interpreter beside compiled code.
source tests/command.sh
cat >double.tir <<'TIR'
program @p
dim n <= 8
param @w : f32[3] trainable
func @twice(%x: f32[n,3], %k: i64[n]) {
  %y = add %x, %x
  %w = param @w
  %z = add %y, %w
  %next = add %w, %w
  %new = assign %w, %next
  output %z {index=0, name="z"}
}
TIR
# f32[2,3] of 0..5, and the same in Fortran order; i64[2]
npy() { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$1', 'fortran_order': $2, 'shape': ($3), }"; }
floats() { # little-endian f32 of 0 to 5
  local bits=('\0\0\0\0' '\0\0\x80\x3f' '\0\0\0\x40' '\0\0\x40\x40' '\0\0\x80\x40' '\0\0\xa0\x40')
  for x in "$@"; do printf '%b' "${bits[$x]}"; done
}
{ npy '<f4' False '2, 3' && floats 0 1 2 3 4 5; } >x.npy
{ npy '<f4' True '2, 3' && floats 0 3 1 4 2 5; } >fortran.npy
{ npy '<i8' False '2,' && printf '\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0'; } >k.npy
{ npy '<f4' False '9, 3' && head -c 108 /dev/zero; } >long.npy

check 0 $'z: f32[2,3]  min 0  mean 5  max 10\n  0 2 4 6 8 10\n' run double.tir twice --in x=x.npy --in k=k.npy
check 0 '0 2 4 6 8 10' run double.tir twice --in x=fortran.npy --in k=k.npy
check 0 '0 2 4 6 8 10' run double.tir @twice --in x=x.npy --in k=zeros --interpreter
check 0 'interpreter: 3 runs, min' run double.tir twice --in x=x.npy --in k=k.npy --interpreter --times 3
check 0 'compiled code: 3 runs, min' run double.tir twice --in=x=x.npy --in=k=random --times=3 --workers=1
check 0 'f32[5,3]' run double.tir twice --in '*=random' --dim n=5 --out z=z.npy
[[ $(head -c 6 z.npy | tail -c 5) == NUMPY && $(stat -c %s z.npy) == 188 ]] || fail "z.npy is no array of 15 f32"
check 0 'f32[5,3]' run double.tir twice --in x=z.npy --in k=zeros
sed 's/, name="z"//' double.tir >unnamed.tir
check 0 'out0: f32[8,3]' run unnamed.tir twice --in '*=zeros'
out=$("$tenure" run - twice --in '*=zeros' --dim n=1 <double.tir) && [[ $out == *'f32[1,3]'* ]] || fail "standard input: $out"

# parameters: drawn, saved, loaded; a run that changes them is seen by the next
check 0 '' run double.tir twice --in '*=zeros' --params random --seed 3 --save p.safetensors
for by in '' --interpreter; do
  check 0 '' run double.tir twice --in '*=zeros' --params p.safetensors --times 2 --save q.safetensors --out z=q.npy $by
  check 0 '' run double.tir twice --in '*=zeros' --params q.safetensors --out z=r.npy $by
  mv r.npy "r${by:---jit}.npy"
done
cmp -s r--jit.npy r--interpreter.npy || fail "interpreter and compiled code change parameters differently"
cmp -s q.npy r--jit.npy && fail "a second run with the saved parameters gives what the last one gave"

check_json 0 '.outputs.0.shape = [2, 3] and .outputs.0.first.1 = 2 and .times = 2 and .min_ms <= .median_ms' \
  run double.tir twice --in x=x.npy --in k=k.npy --times 2 --json
check_json 0 '.inputs.1.dtype = "i64" and .outputs.0.name = "loss"' run step.tir step --in '*=random' --json
check 0 'm.c:4' run step.tir step --in '*=random' --profile

check 1 'wants --in for x: f32[n,3] k: i64[n]' run double.tir twice
check 1 'wants --in for k: i64[n]' run double.tir twice --in x=random
check 1 "no function @twise; did you mean 'twice'?" run double.tir twise
check 1 "has no input 'X'; did you mean 'x'?" run double.tir twice --in X=zeros
check 1 "has no output 'zz'" run double.tir twice --in '*=zeros' --out zz=a.npy
check 1 "has no dim 'N'; did you mean 'n'?" run double.tir twice --in '*=zeros' --dim N=2
check 1 "there is no file randm; did you mean 'random'?" run double.tir twice --in x=randm --in k=zeros
check 1 'nothing.npy' run double.tir twice --in x=nothing.npy --in k=zeros
check 1 'input x gives n the size 9, which must lie in [1, 8]' run double.tir twice --in x=long.npy --in k=zeros
check 1 'input k gives n the size 2, which is 3 already' run double.tir twice --in x=random --in k=k.npy --dim n=3
check 1 'input x has 1 axes, it wants f32[n,3]' run double.tir twice --in x=k.npy --in k=zeros
check 1 "did you mean 'relu'?" run bad.tir f
check 1 'No such file' run none.tir f
check 1 'none.safetensors' run double.tir twice --in '*=zeros' --params none.safetensors
check 2 '--times wants a whole number from 1 to 1000000000, not' run double.tir twice --times 0
check 2 "not '4294967296'" run double.tir twice --in '*=zeros' --times 4294967296
check 2 "not '4294967297'" run double.tir twice --in '*=zeros' --workers 4294967297
check 2 "not '18446744073709551616'" run double.tir twice --in '*=zeros' --seed 18446744073709551616
check 2 '--in wants NAME=FILE.npy' run double.tir twice --in x
check 2 'run needs FILE.tir FUNCTION' run double.tir
# Inputs, entries and outputs of every dtype; bfloat16 lies in files as JAX writes it.
cat >types.tir <<'TIR'
program @p
buffer @seen : i32[2]
param @half : bf16[2]
func @f(%a: u8[2], %b: bool[2], %c: i32[2], %d: f16[2], %e: bf16[2]) {
  %s = param @seen
  %t = add %s, %c
  %u = assign %s, %t
  %v = add %a, %a
  output %v {index=0, name="v"}
  output %b {index=1, name="w"}
  output %t {index=2, name="t"}
  output %d {index=3, name="x"}
  output %e {index=4, name="y"}
}
TIR
{ npy '|u1' False '2,' && printf '\3\310'; } >a.npy
{ npy '|b1' False '2,' && printf '\0\1'; } >b.npy
{ npy '<i4' False '2,' && printf '\5\0\0\0\377\377\377\377'; } >c.npy
{ npy '<f2' False '2,' && printf '\0\74\0\300'; } >d.npy
{ npy '<V2' False '2,' && printf '\200\77\40\300'; } >e.npy
types=(run types.tir f --in a=a.npy --in b=b.npy --in c=c.npy --in d=d.npy)
for way in "" --interpreter; do
  check 0 $'v: u8[2]  min 6  mean 75  max 144\n  6 144\n' "${types[@]}" --in e=e.npy $way
  check 0 $'w: bool[2]  min 0  mean 0.5  max 1\n  0 1\n' "${types[@]}" --in e=e.npy $way
  check 0 $'t: i32[2]  min -1  mean 2  max 5\n  5 -1\n' "${types[@]}" --in e=e.npy $way
  check 0 $'x: f16[2]  min -2  mean -0.5  max 1\n  1 -2\n' "${types[@]}" --in e=e.npy --out y=y.npy --out x=x2.npy --out w=w.npy $way
  check 0 $'y: bf16[2]  min -2.5  mean -0.75  max 1\n  1 -2.5\n' "${types[@]}" --in d=x2.npy --in e=y.npy --in b=w.npy $way
done
# Whole numbers with all their digits, those beyond the doubles' too
cat >whole.tir <<'TIR'
program @p
func @f(%i: i64[2]) {
  output %i {index=0, name="y"}
}
TIR
{ npy '<i8' False '2,' && printf '\377\377\377\377\377\377\377\177\1\0\0\0\0\0\40\0'; } >i.npy
for way in "" --interpreter; do
  check 0 $'y: i64[2]  min 9007199254740993  mean 4.61619e+18  max 9223372036854775807\n  9223372036854775807 9007199254740993\n' \
    run whole.tir f --in i=i.npy $way
  check 0 '"min":9007199254740993,' run whole.tir f --in i=i.npy --json $way
done
check 0 'bf16' run types.tir f --in '*=random' --params random --save types.safetensors
check 0 'bf16' run types.tir f --in '*=random' --params types.safetensors
{ npy '|u1' False '2,' && printf '\3\2'; } >b.npy
check 1 'b.npy: element 0 does not fit bool' "${types[@]}" --in e=e.npy
# Random labels of another dtype are in range, too; inputs that are never valid are said to be so.
cat >labels.tir <<'TIR'
program @labels
func @f(%x: f32[64,2], %label: u8[64]) {
  %l = cast %label {dtype=i64}
  %y, %lse = cross_entropy_rows %x, %l
  output %y {index=0, name="y"}
}
func @never(%w: f32[3,2], %i: i64[4]) {
  %m = full {value=9, shape=[], dtype=i64}
  %k = max %i, %m
  %y = embedding %w, %k
  output %y {index=0, name="y"}
}
TIR
for way in "" --interpreter; do
  check 0 'y: f32[64]' run labels.tir f --in '*=random' $way
  check 1 'no random inputs were found that the function takes' run labels.tir never --in '*=random' $way
done
check 1 'no inputs were found that the function takes' bisect labels.tir
check 0 'the same results after each pass' bisect labels.tir --function f
check 1 'no inputs were found that the function takes' reduce labels.tir --differs -o reduced.tir
check 1 "the selftest cannot call 'never': no inputs were found that it takes: never: index 9" bundle labels.tir -o labels
check 0 '' bundle labels.tir -o labels --functions f

# Of the optimizer's entries, those that the function reads come from the file, or are missing; what it does not use is passed over.
cat >average.tir <<'TIR'
program @average
param @w : f32[2,3] trainable
state @optimizer.average : f32[2,3]
func @step(%x: f32[2,3]) {
  %w = param @w
  %next = add %w, %x
  %new = assign %w, %next
  %a = param @optimizer.average
  %sum = add %a, %x
  %moved = assign %a, %sum
  output %next {index=0, name="w"}
}
func @predict() {
  %a = param @optimizer.average
  output %a {index=0, name="y"}
}
TIR
sed 's/param @w :.*/&\nparam @head : f32[2] trainable/' average.tir >more.tir
check 0 '0 1 2 3 4 5' run more.tir step --in x=x.npy --save trained.safetensors
check 0 '0 1 2 3 4 5' run average.tir predict --params trained.safetensors
check 0 '0 2 4 6 8 10' run average.tir step --in x=x.npy --params trained.safetensors --save twice.safetensors
check 0 '0 1 2 3 4 5' run average.tir predict --params twice.safetensors  # a step begins with an optimizer of its own
sed 's/state @optimizer.average/state @optimizer.other/; s/param @optimizer.average/param @optimizer.other/' average.tir >other.tir
check 1 "'optimizer.other' is missing" run other.tir predict --params trained.safetensors
check 0 '0 2 4 6 8 10' run other.tir step --in x=x.npy --params trained.safetensors
exit $((n_failed != 0))
