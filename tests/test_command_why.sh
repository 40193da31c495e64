#!/usr/bin/env bash
# tenure why: the reasons by which fusion, reuse in place and copies were decided.
source tests/command.sh
cat >copy.tir <<'TIR'
program @p
func @f(%x: f32[4,4], %v: f32[1,4]) {
  %h = matmul %x, %x                         // m.c:1
  %n = slice_assign %h, %v {axis=0, start=0} // m.c:2
  %s = matmul %h, %n                         // m.c:3
  output %s {name="s", index=0}              // m.c:4
}
TIR
cat >points.tir <<'TIR'
program @p
func @f(%x: f32[8,64], %y: f32[4,128]) {
  %a = relu %x                        // p.c:1
  %t = reshape %a {shape=[4,128]}     // p.c:2
  %b = add %t, %y                     // p.c:3
  %c = exp %b                         // p.c:4
  output %a {name="a", index=0}
  output %c {name="c", index=1}
}
TIR
cat >siblings.tir <<'TIR'
program @p
func @f(%x: f32[1024,1024]) {
  %a = mul %x, %x : f32[1024,1024]           // s.c:1
  %b = exp %x : f32[1024,1024]               // s.c:2
  %c = sin %x : f32[1024,1024]               // s.c:3
  %r = cumsum %a {axis=0} : f32[1024,1024]   // s.c:4
  %s = cumsum %b {axis=0} : f32[1024,1024]   // s.c:5
  %t = cumsum %c {axis=0} : f32[1024,1024]   // s.c:6
  %u = sum %r {axes=[0,1]} : f32[]
  %v = sum %s {axes=[0,1]} : f32[]
  %w = sum %t {axes=[0,1]} : f32[]
  output %u {name="u", index=0} : f32[]
  output %v {name="v", index=1} : f32[]
  output %w {name="w", index=2} : f32[]
}
TIR
split='split so that less memory is needed: in one kernel the results of both would live at the peak'
check 0 "$split" why siblings.tir %a %b
check 0 "$split" why siblings.tir %c %b
check 0 '4 MiB  split        @f %b = exp s.c:2' why siblings.tir --missed
check_json 0 '.0.split = "in one kernel the results of both would live at the peak"' why siblings.tir %a %c --json
check_json 0 '.0.split = null' why siblings.tir %a %r --json
check 0 '%h = matmul m.c:4 and %a = relu m.c:5 are one kernel, 0.' why step.tir %h %a
check 0 'In place: %h is not stored' why step.tir %h %a
check 0 'kernel 1 begins with %z = matmul m.c:6: what follows in such a kernel is pointwise' why step.tir %a %z
check 0 '%z does not take over the slot of %a: an operation of its class reads operands while it writes' why step.tir %a %z
check 0 '%z does not take over the slot of %a' why step.tir %z %a
check 0 '%x is a leaf or a view' why step.tir %x %z
check 0 'What keeps each kernel between them apart' why step.tir %loss %new
check 0 'm.c:9: what follows in such a kernel is pointwise' why step.tir %z %loss
check 0 'kernel 1 begins with %b = add p.c:3: its shape is not that of the kernel' why points.tir %a %c
check 0 '%h is copied at m.c:2: matmul m.c:3 wants the content from before a write.' why copy.tir %h %s
check 0 '2 KiB  not fused    @step %loss = cross_entropy_rows m.c:9' why step.tir --missed
check 0 $'a later kernel still reads it\n' why step.tir --missed
check 0 'matmul m.c:3 wants the content from before a write' why copy.tir --missed
check_json 0 '.0.bytes >= .-1.bytes and some .*.kind = "not fused" and some .*.kind = "not in place" and .*.kind in ["not fused", "not in place"]' why step.tir --missed --json
check_json 0 'not .0.one_kernel and .0.boundaries.0.value.source = "m.c:6"' why step.tir %a %z --json
check_json 0 '.0.one_kernel and .0.boundaries = [] and .0.copies = []' why step.tir %h %a --json
check_json 0 '.0.copies = ["matmul m.c:3"]' why copy.tir %h %s --json
out=$("$tenure" why - --missed <step.tir) && [[ $out == *'not fused'* ]] || fail "standard input: $out"
check 1 'has no value %lss; did you mean' why step.tir %lss %a
check 1 "no function @stepp; did you mean 'step'?" why step.tir %h %a --function stepp
check 1 "did you mean 'relu'?" why bad.tir %x %y
check 2 'why needs a file and two values, or --missed' why step.tir %h
check 2 'why --missed needs a file alone' why step.tir %h %a --missed
check 2 "unknown option --mised; did you mean '--missed'?" why step.tir --mised
exit $((n_failed != 0))
