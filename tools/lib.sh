# Read by tools/demo, tools/check and tools/bench: the tree's root, timed stages, quiet builds.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${TENURE_JOBS:-2}
logs=$root/build/log
mkdir -p "$logs"
exec </dev/null

# stage NAME COMMAND..: output goes to build/log/NAME.log; prints one line with the time, and the log's end on failure.
stage() {
  local name=$1 log=$logs/${1// /-}.log start=$EPOCHREALTIME rc=0
  shift
  "$@" >"$log" 2>&1 || rc=$?
  printf '%-28s %7.1f s  %s\n' "$name" "$(seconds_since "$start")" "$( ((rc == 0)) && echo ok || echo "FAILED (status $rc)")"
  if ((rc != 0)); then
    tail -n "${TENURE_LOG_LINES:-30}" "$log" | sed 's/^/  | /'
    printf '  | whole log: %s\n' "$log"
  fi
  return $rc
}

seconds_since() { awk -v a="$1" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f", b - a }'; }

# build PRESET: configures once (CMake itself sees later changes), then builds what changed.
build() {
  cd "$root"
  (
    flock 9 || true  # two scripts at once: one builds, the other waits
    [[ -f build/$1/build.ninja ]] || cmake --preset "$1"
    cmake --build --preset "$1" -- -j "$jobs"
  ) 9>"$root/build/lock"
}
