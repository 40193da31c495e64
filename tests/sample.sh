# Samples of long sweeps, as tests/sample.h draws them: is_sampled K EVERY
is_sampled() {
  local x
  [[ -n ${TENURE_SAMPLE:-} ]] || return 0
  x=$((($1 / $2 + 1) * 0x9E3779B97F4A7C15 ^ TENURE_SAMPLE * 0xD1B54A32D192ED03))
  x=$(((x ^ x >> 32 & 0xffffffff) * 0xBF58476D1CE4E5B9))
  (($1 % $2 == (x >> 33 & 0x7fffffff) % $2))
}
