#!/usr/bin/env bash
# tenure bisect and reduce on programs that are right, and on what is not; damage is found by test_self_check.
source tests/command.sh
check 0 'the same results after each pass: 1 functions' bisect step.tir
check 0 'the same results' bisect step.tir --seed 7 --function @step
check 0 'the same results' bisect step.tir --passes=check_scopes,functionalize,outline_scans,grad,simplify
check_json 0 '.same and .pass = null' bisect step.tir --json
# A pass that comes before what it needs fails
check 1 '@step: a pass fails: assign_buffers' bisect step.tir --passes=check_scopes,assign_buffers
check_json 1 'not .same and .pass = "assign_buffers" and .verdict = "a pass fails"' \
  bisect step.tir --passes=check_scopes,assign_buffers --json
out=$("$tenure" bisect - <step.tir) && [[ $out == *'the same results'* ]] || fail "standard input: $out"
check 1 "no function @stepp; did you mean 'step'?" bisect step.tir --function stepp
check 2 "not one: fuze; did you mean 'fuse'?" bisect step.tir --passes=fuze
check 1 "did you mean 'relu'?" bisect bad.tir

# ---- reduce
check 0 '' reduce step.tir --test='grep -q cross_entropy_rows' -o small.tir
[[ $(wc -l <small.tir) == 6 && $(<small.tir) == *'dim batch <= 1'* ]] || fail "reduced to $(<small.tir)"
check 0 '' opt small.tir --verify
cat >needs.sh <<'SH'
"$1" opt "$2" --passes=all --facts >out.txt 2>err.txt && grep -q 'cls\|gelu' out.txt
SH
check 1 'the command fails on the program as it is' reduce step.tir --test="bash needs.sh $tenure"
out=$("$tenure" reduce - --test='grep -q relu' <step.tir 2>err.txt) && [[ $out == *relu* && ${#out} -lt 120 ]] || fail "standard input: $out"
grep -q 'bytes from' err.txt || fail "reduce does not say how far it came"
check 1 'nothing differs' reduce step.tir --differs
check 2 'reduce needs either --test=CMD or --differs' reduce step.tir
check 2 'reduce needs either' reduce step.tir --differs --test=true
check 2 "unknown option --difers; did you mean '--differs'?" reduce step.tir --difers
check 1 "did you mean 'relu'?" reduce bad.tir --test=true
exit $((n_failed != 0))
