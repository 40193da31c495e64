#!/usr/bin/env bash
# Two processes of a job under valgrind, with Open MPI's own suppressions and tests/valgrind.supp: nothing that was not written is read,
# nothing is written outside of its array, and the file is that of one process. Skipped (77) without MPI, valgrind or the suppressions.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/mpi.sh"
suppressions=${TENURE_MPI_SUPPRESSIONS:-/usr/share/openmpi/openmpi-valgrind.supp}
if ! command -v valgrind >/dev/null || [[ ! -r $suppressions ]]; then
  echo "skipped: no valgrind, or no $suppressions (Debian 12: valgrind, openmpi-common)"
  exit 77
fi
export TN_TARGET=x86-64-v2 TN_GEMM=own  # valgrind knows no AVX-512, and computes each FMA by a call
for example in charlm_mpi:$text vowels_mpi:$vowels; do
  name=${example%%:*} input=${example#*:}
  "$build_dir/examples/$name" --alone --steps 3 --checkpoint "$folder/alone" "$input" >"$folder/log"
  status=0
  "$mpiexec" -n 2 valgrind --suppressions="$suppressions" --suppressions="$source_dir/tests/valgrind.supp" --error-exitcode=9 \
    --log-file="$folder/valgrind.%p" "$build_dir/examples/$name" --steps 3 --checkpoint "$folder/two" "$input" >"$folder/log" 2>&1 || status=$?
  check "$status" 0 "the status of two processes of $name under valgrind"
  ((status == 0)) || tail -n 60 "$folder/log" "$folder"/valgrind.*
  check "$(hash_of "$folder/two")" "$(hash_of "$folder/alone")" "the file of two processes of $name under valgrind"
  rm -f "$folder/two" "$folder"/valgrind.*
done
say "$failed failed"
((failed == 0))
