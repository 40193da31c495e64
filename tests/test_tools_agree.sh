#!/usr/bin/env bash
# Every command that plans a program plans what tn_compile does: the figures of tn_plan_of, by program and function.
source tests/command.sh
unset TN_CHECK # a guarded arena is a larger one, and no command has it
names=$("$TENURE_BUILD/bin/plan_programs") || fail 'the programs were not made'
n=0
for name in $names; do
  check 0 '' budget "$name.tir" --write
  grep -v '^@init ' "$name.tir.budget" >found.txt # initial values: tn_plan_of has no such function
  cmp -s "$name.expected" found.txt || { fail "budget of $name" && diff "$name.expected" found.txt; }
  k=1 report=true budget=true
  while read -r function _ peak _ copies _ _; do
    report+=" and .functions.$k.name = \"${function#@}\" and .functions.$k.arena = $peak and .functions.$k.copies = $copies"
    budget+=" and .$k.function = \"${function#@}\" and .$k.peak.found = $peak"
    n=$((n + 1)) k=$((k + 1))
  done <"$name.expected"
  check_json 0 "${report#true and }" report "$name.tir" --json
  check_json 0 "${budget#true and }" budget "$name.tir" --peak 1GB --json
  "$tenure" explain "$name.tir" --peak --json >peak.json || fail "explain --peak of $name"
  sums_hold peak.json "$name"
  check 0 '' diff "$name.tir" "$name.tir"
  "$tenure" certificate "$name.tir" | cmp - "$name.plan" || fail "the certificate of $name"
  "$tenure" opt "$name.tir" --passes=all --facts >opt.txt || fail "opt of $name"
  [[ $(grep -c '^func' opt.txt) == "$k" ]] || fail "opt of $name has other functions"
done
((n == 18)) || fail "only $n functions"
# what explain says that shards would take is what tn_plan_of says of them
arena=$(awk '$3 > most { most = $3 } END { print most }' plain_in_2.expected)
check_json 0 ".0.peak.ways.0.way = \"2 shards\" and .0.peak.ways.0.arena = $arena" explain plain.tir --peak --function step --json
exit $((n_failed > 0))
