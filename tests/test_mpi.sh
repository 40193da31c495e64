#!/usr/bin/env bash
# Processes over MPI: one file of parameters, state and losses for any number of them and for one without MPI, of a dense model, of
# one of packed sequences and of GPT-2; another number goes on from a file to the same file. TENURE_MPI_STEPS=200 makes so many
# steps. An item that one process alone cannot read ends all, each with its sentence. Skipped (77) where there is no MPI.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
steps=${TENURE_MPI_STEPS:-20} every=5

one_hash() { # EXAMPLE INPUT
  local n expected
  "$build_dir/examples/$1" --alone --steps "$steps" --every "$every" --checkpoint "$folder/alone" "$2" >"$folder/log"
  expected=$(hash_of "$folder/alone")
  for n in 1 2 3 4 5 8; do
    run "$n" "$1" --steps "$steps" --every "$every" --checkpoint "$folder/$n" "$2" >"$folder/log"
    check "$(hash_of "$folder/$n")" "$expected" "the file of $n processes of $1"
    rm "$folder/$n"
  done
  run 3 "$1" --steps $((steps / 2)) --checkpoint "$folder/half" "$2" >"$folder/log"
  run 5 "$1" --steps "$steps" --checkpoint "$folder/half" --resume "$2" >"$folder/log"
  check "$(hash_of "$folder/half")" "$expected" "the file of 3 processes of $1, gone on with by 5"
  say "$1, $steps steps, 1 2 3 4 5 8 processes, alone, 3 and then 5: $expected"
}
one_hash charlm_mpi "$text"
one_hash vowels_mpi "$vowels"
one_hash gpt2_mpi "$text"

# The last item of the text is cut off while they train: of three, one process reads it.
cp "$text" "$folder/text"
status=0
run 3 charlm_mpi --steps 100000 --every 5 --checkpoint "$folder/cut" "$folder/text" >"$folder/log" 2>"$folder/errors" &
launcher=$!
wait_until 60 test -s "$folder/cut" || check "nothing" "a file" "the checkpoint of a job"
size=$(stat -c %s "$folder/text")
truncate -s $(((size - 1) / 32 * 32)) "$folder/text"
wait_until 60 is_gone "$folder/cut" || check "$(processes "$folder/cut")" "" "processes left"
wait "$launcher" || status=$?
((status != 0)) || check "$status" "not 0" "the status of a job with an item that cannot be read"
sentences=$(grep -cE "^charlm_mpi, rank [0-2]: training: rank [0-2]: .*the text is shorter than it was" "$folder/errors" || true)
check "$sentences" 3 "processes that say why a job ended, which says $(<"$folder/errors")"
say "$failed failed"
((failed == 0))
