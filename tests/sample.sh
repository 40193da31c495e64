# Samples of long sweeps, as tests/sample.h draws them: is_sampled K EVERY
is_sampled() { [[ -z ${TENURE_SAMPLE:-} ]] || (($1 % $2 == TENURE_SAMPLE % $2)); }
