# What tests of jobs over MPI share: a scratch folder, `run`, hashes, counts of failures. Status 77 where there is no MPI.
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build_dir=${TENURE_BUILD:-$source_dir/build/release}
mpiexec=${TENURE_MPIEXEC:-mpirun}
if [[ ! -x $build_dir/examples/charlm_mpi ]] || ! command -v "$mpiexec" >/dev/null; then
  echo "skipped: no MPI here (Debian 12: libopenmpi-dev, openmpi-bin; tools/setup check installs them)"
  exit 77
fi
# Open MPI loses memory in plugins that it has unloaded at the end, which no suppression can name.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
# It wants to be told that root may run, and that there may be more processes than CPUs; MPICH does not ask.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_btl=self,vader \
  OMPI_MCA_btl_vader_single_copy_mechanism=none
folder=$(mktemp -d)
# What a job that was ended leaves behind still writes for a moment.
clean() { for ((k = 0; k < 100; k++)); do rm -rf "$folder" 2>/dev/null && return; sleep 0.1; done; }
trap clean EXIT
export TN_CACHE=$folder/cache TMPDIR=$folder
mkdir -m 700 "$TN_CACHE"
text=$source_dir/docs/design.md vowels=$source_dir/data/japanese_vowels/JapaneseVowels_TRAIN.ts
failed=0
say() { printf '%s\n' "$*"; }
check() { [[ $1 == "$2" ]] || { say "failed: $3: found '$1', expected '$2'"; failed=$((failed + 1)); }; }
hash_of() { sha256sum <"$1" | cut -d' ' -f1; }
run() { # N EXAMPLE ARGUMENTS..: as many processes, however few CPUs there are
  "$mpiexec" -n "$1" "$build_dir/examples/$2" "${@:3}"
}
name_of() { cat "/proc/$1/comm" 2>/dev/null || true; }
# processes FILE: numbers of the ranks that keep FILE; not of what started them, nor of the child in which a rank compiles: that
# child has its rank's name and arguments and ends by itself. It is listed where its rank has died before it.
processes() {
  local p parent
  for p in $(pgrep -f -- "--checkpoint $1( |\$)" || true); do
    parent=$(cut -d' ' -f4 "/proc/$p/stat" 2>/dev/null || true)
    [[ $(name_of "$p") != *_mpi || $(name_of "${parent:-0}") == *_mpi ]] || say "$p"
  done
}
wait_until() { # SECONDS COMMAND..
  local end=$((SECONDS + $1))
  until "${@:2}"; do ((SECONDS < end)) && sleep 0.05 || return 1; done
}
is_gone() { [[ -z $(processes "$1") ]]; }
