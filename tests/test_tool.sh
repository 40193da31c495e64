#!/bin/bash
# The `tenure` command: what it prints and with which status.
set -u
tenure=$TENURE_BUILD/bin/tenure
n_failed=0
program=$'program @p\nfunc @f(%x: f32[4]) {\n  %y = relu %x\n  output %y {index=0, name="y"}\n}\n'

# check STATUS TEXT ARGS..: runs the command on $program; its output (both streams) must contain TEXT
check() {
  local want=$1 text=$2 out status
  shift 2
  out=$(printf %s "$program" | "$tenure" "$@" 2>&1)
  status=$?
  if [[ $status != "$want" || $out != *"$text"* ]]; then
    echo "tenure $*: status $status (expected $want), expected to contain: $text"
    echo "$out"
    n_failed=$((n_failed + 1))
  fi
}

check 0 '%y = relu %x : f32[4]' opt -
check 0 '// <stdin>:3' opt - --locs
check 0 'kernels' opt - --passes=all --facts
check 0 '// after check_scopes' opt - --passes=check_scopes,simplify --dump-after=check_scopes
check 0 '' opt - --verify
check 2 'unknown option --nothing' opt - --nothing
check 2 'not one: nothing' opt - --passes=nothing
check 0 'fold_permute (simplify)' opt --rules
check 0 'identity_element (simplify)' opt --rules=list
check 0 '%y = relu %x : f32[4]' opt - --passes=check_scopes,simplify --rules=-fold_copy,-fold_full
check 1 "there is no rule 'nothing'" opt - --rules=nothing
check 1 "there is no rule 'nothing'" opt - --passes=check_scopes --dump-after=rule:nothing
check 1 'names rules to apply and rules to leave out' opt - --rules=-fold_copy,fold_full
check 1 'pass assign_buffers of @f comes before a pass that gives what it needs: every instruction' opt - --passes=check_scopes,assign_buffers
check 2 'not one: rule:fold_copy' opt - --passes=rule:fold_copy
check 2 'opt needs a file' opt
check 2 '`tenure opt --help` says more' opt
check 2 'is too many' opt - -
check 1 'No such file' opt does-not-exist.tir
check 0 'USE_AFTER_SCOPE' explain E103
check 0 'SYNTAX' explain 1
check 0 'USE_AFTER_SCOPE' explain e103
check 0 'E103 USE_AFTER_SCOPE' explain use_after_scope
check 1 'no diagnostic E999' explain E999
check 1 "no diagnostic e13; did you mean 'E103'?" explain e13
check 1 "no diagnostic 13; did you mean '103'?" explain 13
check 1 "no diagnostic use_after_scop; did you mean 'USE_AFTER_SCOPE'?" explain use_after_scop
check 2 'explain needs' explain
check 2 'explain needs a value of p.tir' explain p.tir
check 0 'leaky_relu' ops
check 0 'verify_plan' passes
check 0 'usage: tenure' --help
check 0 'fold_permute (simplify)' rules
for command in $("$tenure" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p'); do
  [[ $command == tenure ]] && continue
  check 0 "usage: tenure $command" "$command" --help
  check 0 'examples' help "$command"
  check 0 'exit status' "$command" --help
  check 2 "unknown option --hepl; did you mean '--help'?" "$command" --hepl
done
check 2 '--passes needs a value: LIST' opt - --passes
check 2 '--facts takes no value' opt - --facts=1
check 0 '%y = relu %x' opt - --passes check_scopes
check 2 'ops takes no operand: x' ops x
check 2 "no completion for 'bahs'; did you mean 'bash'?" completion bahs
check 0 '.SH EXIT STATUS' man
for list in ops passes rules; do
  "$tenure" $list --json | "$TENURE_BUILD/bin/json_query" - || { echo "$list --json is no JSON" && n_failed=$((n_failed + 1)); }
done
"$tenure" completion bash >completion.bash
words() { # what bash offers for the last word of a command line
  bash -c 'source ./completion.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _tenure tenure "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    echo "${COMPREPLY[*]}"' _ "$@"
}
offers() { # offers TEXT WORDS..: the words are offered
  local text=$1 found
  shift
  found=$(words "$@")
  [[ $found == "$text" ]] || { echo "completion of '$*' offers '$found', not '$text'" && n_failed=$((n_failed + 1)); }
}
offers 'explain' tenure ex
offers '--dump-after' tenure opt --du
offers 'check_scopes check_rows check_starts' tenure opt --passes check
offers 'zsh' tenure completion z
printf %s "$program" >completion.tir
offers 'f' tenure explain completion.tir %y --function ''
! command -v zsh >/dev/null || zsh -n <("$tenure" completion zsh) || n_failed=$((n_failed + 1))
! command -v fish >/dev/null || fish -n <("$tenure" completion fish) || n_failed=$((n_failed + 1))
! command -v mandoc >/dev/null || "$tenure" man | mandoc -T lint -W error || n_failed=$((n_failed + 1))
check 0 'tenure ' --version
check 2 'no such command: dance' dance
check 2 'a command is missing'
check 2 "no such command: raport; did you mean 'report'?" raport
check 2 "unknown option --fatcs; did you mean '--facts'?" opt - --fatcs
check 2 "not one: fuze; did you mean 'fuse'?" opt - --passes=grad,fuze
check 1 "there is no rule 'fold_cpoy'; did you mean 'fold_copy'?" opt - --rules=fold_cpoy
check 0 'Right:' explain E103
for command in ops passes --help 'explain E103'; do
  if "$tenure" $command >/dev/full 2>/dev/null; then
    echo "tenure $command on a full disk: status 0"
    n_failed=$((n_failed + 1))
  fi
done
for command in 'explain E103' 'opt -'; do
  said=$(printf 'program @p\nfunc @f(%%x: f32[4]) {\n}\n' | "$tenure" $command 2>&1 >/dev/full || true)
  if [[ $said != *'No space left on device'* ]]; then
    echo "tenure $command on a full disk says '$said'"
    n_failed=$((n_failed + 1))
  fi
done
program=$'program @p\nfunc @f(%x: f32[4]) {\n  %c = copy %x\n  %y = relu %c\n  output %y {index=0, name="y"}\n}\n'
check 0 $'// rule fold_copy of @f\n  %c = copy %x : f32[4]  // <stdin>:3\n->\n  %x\n' opt - --passes=check_scopes,simplify --dump-after=rule:fold_copy
check 0 '%c = copy %x' opt - --passes=check_scopes,simplify --rules=-fold_copy
program=$'program @p\nfunc @f(%x: f32[4]) {\n  %y = rleu %x\n}\n'
check 1 "<stdin>:3:8: error[E001]: expected an operation, found 'rleu'; did you mean 'relu'?" opt -
program=''
check 1 "expected 'program @name' first" opt -
exit $((n_failed != 0))
