# Read by tools/demo, tools/check and tools/bench: the tree's root, timed stages, quiet builds.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${TENURE_JOBS:-2}
logs=$root/build/log
mkdir -p "$logs"
exec </dev/null

# stage NAME COMMAND..: output goes to build/log/NAME.log; prints one line with the time, and the log's end on failure.
stage() {
  local name=$1 log=$logs/${1// /-}.log start=$EPOCHREALTIME rc=0 watcher
  shift
  : >"$log"
  watch_stage "$name" "$log" &
  watcher=$!
  "$@" >"$log" 2>&1 || rc=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [[ -t 1 ]] && printf '\r\033[K'
  printf '%-28s %7.1f s  %s\n' "$name" "$(seconds_since "$start")" "$( ((rc == 0)) && echo ok || echo "FAILED (status $rc)")"
  if ((rc != 0)); then
    tail -n "${TENURE_LOG_LINES:-30}" "$log" | sed 's/^/  | /'
    printf '  | whole log: %s\n' "$log"
  fi
  return $rc
}

# What goes on, every second on a terminal, else every minute: how much of the stage is done by its log (ninja's [3/9], ctest's
# 3/9 Test), and what `time_left NAME PERCENT`, where a script has one, says to that.
watch_stage() {
  local name=$1 log=$2 start=$EPOCHREALTIME every=60 done=0 of=0 percent line
  trap 'kill $! 2>/dev/null; exit 0' TERM
  [[ -t 1 ]] && every=1
  while sleep "$every" >/dev/null & wait $!; do
    kill -0 $$ 2>/dev/null || exit 0
    read -r done of < <(tail -c 4096 "$log" 2>/dev/null | tr '\r' '\n' |
      sed -nE 's#^\[([0-9]+)/([0-9]+)\].*#\1 \2#p; s#^ *([0-9]+)/([0-9]+) Test .*#\1 \2#p' | tail -n 1) || true
    percent=$((${of:-0} > 0 ? 100 * done / of : 0))
    printf -v line '%-28s %7.1f s  %s' "$name" "$(seconds_since "$start")" "$( ((of > 0)) && echo "$done of $of")"
    if declare -F time_left >/dev/null; then line+="  $(time_left "$name" "$(seconds_since "$start")" "$percent")"; fi
    if [[ -t 1 ]]; then printf '\r\033[K%s' "$line"; else printf '%s\n' "$line"; fi
  done
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
