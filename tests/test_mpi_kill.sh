#!/usr/bin/env bash
# A process of a job is killed (-9) at a random moment, again and again: all others end within 10 seconds, the job says so, its
# file is none or a whole one, and another number of processes goes on from it. What the last of them leaves is the file of one
# process that was never killed. TENURE_MPI_KILLS=50 kills so many, TENURE_MPI_SEED chooses the moments. Skipped (77) without MPI.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
kills=${TENURE_MPI_KILLS:-6}
RANDOM=${TENURE_MPI_SEED:-$$}
file=$folder/killed slowest=0 numbers=(4 2 3 5 1 8)
resume=()

kill_one() { # KILL NUMBER: a rank goes on until it is killed
  kill -9 "$2" || check "ended by itself: $(tail -n 3 "$folder/errors")" "running" "rank $2 before kill $1"
}

start() { # N STEPS EVERY: in the background
  [[ ! -s $file ]] || resume=(--resume)
  : >"$folder/log" # here, lest who waits for a line finds one of the job before
  run "$1" charlm_mpi --steps "$2" --every "$3" --checkpoint "$file" "${resume[@]}" "$text" >"$folder/log" 2>"$folder/errors" &
  launcher=$!
}

end_of_job() { # KILL WHEN N: how long the others took, after the kill
  local begin=${EPOCHREALTIME/./} status=0 took
  wait_until 12 is_gone "$file" || check "$(processes "$file")" "" "processes left after kill $1, at $2 ms, of $3"
  took=$(((${EPOCHREALTIME/./} - begin) / 1000))
  ((took <= 10000)) || check "$took ms" "10000 ms at most" "the end of the others after kill $1, at $2 ms, of $3"
  wait "$launcher" || status=$?
  ((status != 0)) || check "$status" "not 0" "the status of a job after kill $1, at $2 ms, of $3"
  # MPICH's launcher says it on its standard output.
  [[ -s $folder/errors ]] || grep -q "signal 9" "$folder/log" || check "nothing" "a sentence" "what the job says after kill $1, at $2 ms, of $3"
  slowest=$((took > slowest ? took : slowest))
}

is_started() { (($(processes "$file" | wc -l) == $1)); }
for ((k = 0; k < kills; k++)); do
  n=${numbers[k % 6]} when=$((RANDOM % 2500))
  start "$n" 10000000 $((1 + RANDOM % 3))
  wait_until 60 is_started "$n" || check "$(processes "$file" | wc -l)" "$n" "processes begun"
  sleep "$((when / 1000)).$(printf %03d $((when % 1000)))"
  mapfile -t alive < <(processes "$file")
  kill_one "$k" "${alive[RANDOM % ${#alive[@]}]}"
  end_of_job "$k" "$when" "$n"
done
if [[ ! -s $file ]]; then say "no job came as far as a checkpoint" && exit 1; fi

# What is there is gone on with, killed once more, and compared behind 20 steps more.
start 3 10000000 1
wait_until 60 grep -q '^step' "$folder/log" || check "$(<"$folder/errors")" "steps" "going on from the last file"
mapfile -t alive < <(processes "$file")
kill_one last "${alive[0]}"
end_of_job last 0 3
steps=$(($(grep -o '^step [0-9]*' "$folder/log" | tail -n 1 | cut -d' ' -f2) + 20))
start 2 "$steps" 1000
wait "$launcher" || check "$(<"$folder/errors")" "" "going on to $steps steps"
"$build_dir/examples/charlm_mpi" --alone --steps "$steps" --every 1000000 --checkpoint "$folder/alone" "$text" >"$folder/log"
check "$(hash_of "$file")" "$(hash_of "$folder/alone")" "the file of killed jobs and that of one process, $steps steps"
say "$((kills + 1)) kills within $steps steps: the others ended within $slowest ms; $failed failed"
((failed == 0))
