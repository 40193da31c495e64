#!/usr/bin/env bash
# tenure report --text and --json, tenure kernels: a plan on a terminal, and what a kernel became.
source tests/command.sh

# ---- report
check 0 '@step: arena 7 KiB, lower bound 7 KiB (gap 0.0 %)' report step.tir --text
check 0 '+ 7 kernels, ^ the peak' report step.tir --text
check 0 'gradient           matmul backward of m.c:6' report step.tir --text
check 0 'operations and lines' report step.tir --text
"$tenure" report step.tir --text >report.txt
awk 'length > 80 { print "too wide: " $0; bad = 1 } END { exit bad }' report.txt || fail "the report is wider than 80 columns"
[[ $(grep -c '^ *[^|]* |.*|$' report.txt) == 16 ]] || fail "the map has not 16 rows"
[[ $(sed -n 's/^ *0 +\(-*\)^.*/\1/p' report.txt) == ----- ]] || fail "the peak is not marked at kernel 5"
# the upper half of the arena holds the gradient at the peak, in column 6 of the map
[[ $(grep '|$' report.txt | head -1 | sed 's/^[^|]*|//' | cut -c6) == g ]] || fail "the map shows no gradient at the peak"
check 0 '' report step.tir --text -o to.txt
cmp -s report.txt to.txt || fail "the report in a file is another one"
check_json 0 '.parameters = 4096 and .functions.0.arena = 7168 and .functions.0.kernels.# = 7' report step.tir --json
check_json 0 'sum .functions.0.peak.values.*.bytes + .functions.0.peak.padding_and_holes = 7168' report step.tir --json
check_json 0 'sum .functions.0.peak.modules.*.bytes + .functions.0.peak.padding_and_holes = 7168' report step.tir --json
check_json 0 '.0.function = "step" and .0.peak.bytes = 7168' explain step.tir --peak --json
check_json 0 '.# = 4 and .0.source = "m.c:5"' explain step.tir m.c:5 --json
check 0 'tenure explain step.tir --peak' report step.tir --text
check 0 '<!doctype html>' report step.tir -o -
check 2 'report needs -o PAGE.html' report step.tir
check 2 "unknown option --txt; did you mean '--text'?" report step.tir --txt
check 1 "did you mean 'relu'?" report bad.tir --text
printf 'program @empty\nfunc @f(%%x: f32[4]) {\n  output %%x {name="x", index=0}\n}\n' >empty.tir
check 0 '@f: arena 0 B' report empty.tir --text

# ---- kernels
check 0 'gemm' kernels step.tir
check 0 'matmul, le, select  f32[batch,32]  m.c:5, 6' kernels step.tir
check 0 '16.9 Kflop' kernels step.tir
check_json 0 '.0.kernels.# = 7 and .0.kernels.0.flops = 16640' kernels step.tir --json
check 0 'm.c:4' kernels step.tir --kernel 0
check 0 '%h = matmul %x, %w : f32[batch,32]' kernels step.tir --kernel 0
check 0 'define hidden void @' kernels step.tir --kernel 0 --llvm
check 0 '.globl' kernels step.tir --kernel 0 --asm
check_json 0 '.llvm has "define" and .asm has ".text" and .ir has "matmul" and .kernel = 0' \
  kernels step.tir --kernel 0 --llvm --asm --json
check 0 'tiled: macro tiles' kernels step.tir --kernel 0
cat >conv.tir <<'END'
program @p
func @f(%x: f32[8,16,16,32], %w: f32[32,32,3,3]) {
  %y = conv %x, %w {stride=[1,1], pad=[1,1,1,1], dilation=[1,1], groups=1}
  output %y {name="y", index=0}
}
END
check 0 "Winograd's algorithm: estimated at" kernels conv.tir --kernel 0
check_json 0 '.way has "of the time of direct sums"' kernels conv.tir --kernel 0 --json
# source lines are shown where the file is here
sed 's/m\.c/here.c/' step.tir >here.tir
printf 'line 1\n\n\n  int the_fourth_line;\n' >here.c
check 0 'here.c:4: int the_fourth_line;' kernels here.tir --kernel 0
check 0 '@step' kernels step.tir --function step
check 1 '@step has 7 kernels, numbered from 0: there is no 7' kernels step.tir --kernel 7
check 1 "no function @stepp; did you mean 'step'?" kernels step.tir --function stepp
check 1 "did you mean 'relu'?" kernels bad.tir
check 2 '--kernel wants a whole number' kernels step.tir --kernel x
check 2 '--llvm and --asm show one kernel' kernels step.tir --asm
check 2 "unknown option --lvm; did you mean '--llvm'?" kernels step.tir --lvm
out=$("$tenure" kernels - <step.tir) && [[ $out == *'gemm'* ]] || fail "standard input: $out"

# ---- explain and diff as JSON
check_json 0 '.0.name = "%a" and .0.kernel = 0 and .0.buffer.segment = "arena" and .0.text has "relu"' \
  explain step.tir %a --json
check_json 0 '.0.removed_by and .0.in_plan = null' explain step.tir %g --json
check_json 0 '.0.op = "param"' explain step.tir @w --json
check_json 0 '.id = "E103" and .name = "USE_AFTER_SCOPE"' explain E103 --json
check_json 0 '. = []' diff step.tir step.tir --json
check 2 'standard input is read once: one of the two files needs a name' diff - -
sed 's/batch <= 8/batch <= 16/' step.tir >more.tir
check_json 1 'some .* = {"in": "@step", "kind": "figure", "text": "arena 7168 -> 10240 B (+3072)"} and some .*.kind = "changed"' \
  diff step.tir more.tir --json
exit $((n_failed != 0))
