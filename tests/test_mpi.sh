#!/usr/bin/env bash
# Processes over MPI: one file of parameters, state and losses for any number of them and for one without MPI, of a dense model and
# of one of packed sequences whose items each process reads by shards; a process that is
# killed ends the others within 10 seconds, the file it leaves is whole, and another number of processes goes on from it to
# the same file. Skipped (77) where there is no MPI.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build_dir=${TENURE_BUILD:-$source_dir/build/release}
train=$build_dir/examples/charlm_mpi
if [[ ! -x $train ]] || ! command -v mpirun >/dev/null; then
  echo "skipped: no MPI here (Debian 12: libopenmpi-dev, openmpi-bin; tools/setup check installs them)"
  exit 77
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI loses memory in plugins that it has unloaded at the end, which no suppression can name.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
folder=$(mktemp -d)
# What a job that was ended leaves behind still writes for a moment.
clean() { for ((k = 0; k < 100; k++)); do rm -rf "$folder" 2>/dev/null && return; sleep 0.1; done; }
trap clean EXIT
export TN_CACHE=$folder/cache TMPDIR=$folder
mkdir -m 700 "$TN_CACHE"
text=$source_dir/docs/design.md
failed=0
say() { printf '%s\n' "$*"; }
check() { [[ $1 == "$2" ]] || { say "failed: $3: found '$1', expected '$2'"; failed=$((failed + 1)); }; }
run() { # N ARGUMENTS..: as many processes, however few CPUs there are
  mpirun --oversubscribe --mca btl self,vader --mca btl_vader_single_copy_mechanism none -n "$1" "$train" "${@:2}" "$text"
}
hash_of() { sha256sum <"$1" | cut -d' ' -f1; }

steps=${TENURE_MPI_STEPS:-200}
"$train" --alone --steps "$steps" --checkpoint "$folder/alone" "$text" >"$folder/log"
expected=$(hash_of "$folder/alone")
for n in 1 2 3 4 5 8; do
  run "$n" --steps "$steps" --checkpoint "$folder/$n" >"$folder/log"
  check "$(hash_of "$folder/$n")" "$expected" "the file of $n processes"
  rm "$folder/$n"
done

# Another n goes on, from another n's file.
run 3 --steps $((steps / 2)) --checkpoint "$folder/half" >"$folder/log"
run 2 --steps "$steps" --checkpoint "$folder/half" --resume >"$folder/log"
check "$(hash_of "$folder/half")" "$expected" "the file of 3 processes, gone on with by 2"

# Packed sequences
vowels=$build_dir/examples/vowels_mpi
data=$source_dir/data/japanese_vowels
packed() { # N ARGUMENTS..
  mpirun --oversubscribe --mca btl self,vader --mca btl_vader_single_copy_mechanism none -n "$1" "$vowels" --data "$data" "${@:2}" \
    >"$folder/log"
}
"$vowels" --alone --data "$data" --steps "$steps" --checkpoint "$folder/alone" >"$folder/log"
expected_packed=$(hash_of "$folder/alone")
for n in 1 2 3 4 5 8; do
  packed "$n" --steps "$steps" --checkpoint "$folder/$n"
  check "$(hash_of "$folder/$n")" "$expected_packed" "the file of packed sequences of $n processes"
  rm "$folder/$n"
done
packed 3 --steps $((steps / 2)) --checkpoint "$folder/half"
packed 5 --steps "$steps" --checkpoint "$folder/half" --resume
check "$(hash_of "$folder/half")" "$expected_packed" "the file of 3 processes of packed sequences, gone on with by 5"

# One is killed.
run 4 --steps 1000000 --every 5 --checkpoint "$folder/killed" >"$folder/log" 2>"$folder/errors" &
launcher=$!
for ((k = 0; k < 600; k++)); do [[ -s $folder/killed ]] && break || sleep 0.1; done
victim=$(pgrep -P "$launcher" | tail -n 1 || true)
[[ -n $victim ]] || victim=$(pgrep -P "$(pgrep -P "$launcher" | head -n 1)" | tail -n 1)
begin=$SECONDS
kill -9 "$victim"
status=0
wait "$launcher" || status=$?
took=$((SECONDS - begin))
((status != 0)) || check "$status" "not 0" "the status of a job one of whose processes was killed"
((took <= 10)) || check "$took s" "10 s at most" "the end of the others"
[[ -s $folder/errors ]] || check "nothing" "a sentence" "what the job says"
# The launcher may end before those that it ends: a process of theirs must not write the file that the next job reads.
for ((k = 0; k < 100; k++)); do pgrep -f "$folder/killed" >"$folder/left" && sleep 0.1 || break; done
[[ ! -s $folder/left ]] || check "$(<"$folder/left")" "" "processes left"
run 2 --steps 300000 --every 1 --checkpoint "$folder/killed" --resume >"$folder/log" 2>&1 &
launcher=$!
for ((k = 0; k < 600; k++)); do grep -q '^step' "$folder/log" && break || sleep 0.1; done
kill "$launcher" 2>/dev/null || true
wait "$launcher" 2>/dev/null || true
grep -q '^step' "$folder/log" || check "$(<"$folder/log")" "steps" "going on from the file of a killed job"

say "one hash for 1 to 8 processes and for one alone: ${expected:0:16}..; killed: ended after $took s; $failed failed"
((failed == 0))
