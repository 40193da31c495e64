#!/usr/bin/env bash
# Installs into a scratch folder and builds outside projects from it: CMake and Makefile, with the compiler and with the run-time
# part alone, shared and static, C and C++. A component that is not installed is said to be missing.
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
cmake --install "$build" --prefix "$prefix" >"$scratch/log"
lib=$(dirname "$(find "$prefix" -name libtenure.so)")
sanitize=$(grep -q '^TENURE_SANITIZE:BOOL=ON' "$build/CMakeCache.txt" && echo "-fsanitize=address,undefined" || true)

outside=$scratch/outside
cp -r "${TENURE_SOURCE:?run by ctest}/tests/outside" "$outside"
"$cc" $sanitize -I "$TENURE_SOURCE" -c "$outside/bundle_by_hand.c" -o "$outside/net.o"
fail() { echo "$*" && exit 1; }
needs() { readelf -d "$1" | grep NEEDED; }

cmake -G Ninja -S "$outside" -B "$outside/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_FLAGS="$sanitize" >>"$scratch/log"
cmake --build "$outside/build" >>"$scratch/log"
for program in shared static runtime runtime_static; do (cd "$outside/build" && ./$program); done
grep -q 'libtenure\.so\.0' < <(needs "$outside/build/shared") || fail "soname is not libtenure.so.0"
grep -q 'libtenure_runtime\.so\.0' < <(needs "$outside/build/runtime") || fail "soname is not libtenure_runtime.so.0"
for program in runtime runtime_static; do
  ! ldd "$outside/build/$program" | grep -E 'LLVM|blas|libtenure\.' || fail "$program is linked with the compiler"
done

# Of an installation of the run-time part alone
cmake --install "$build" --prefix "$scratch/part" --component libtenure-runtime0 >>"$scratch/log"
cmake --install "$build" --prefix "$scratch/part" --component libtenure-runtime-dev >>"$scratch/log"
part() { cmake -G Ninja -S "$outside" -B "$outside/$1" -DCMAKE_PREFIX_PATH="$scratch/part" -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="$sanitize" -DCOMPONENTS="$2" >"$outside/$1.log" 2>&1; }
part part "runtime;static" && cmake --build "$outside/part" >>"$scratch/log" && (cd "$outside/part" && ./runtime && ./runtime_static)
! part none "compiler" || fail "a compiler that is not installed was found"
grep -q 'only the run-time part of tenure is' "$outside/none.log" || { cat "$outside/none.log" && exit 1; }

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  make -s -C "$outside" CC="$cc" CFLAGS="$sanitize" runtime compiler
  for program in runtime compiler; do (cd "$outside" && LD_LIBRARY_PATH=$lib ./$program); done
  grep -qw -e -lz < <(pkg-config --libs --static tenure-runtime) || fail "tenure-runtime.pc lacks what static programs want"
fi
# The C++ example, by every compiler there is, as strict C++17 and, for options by name, C++20.
sed 's|"frontend/tenure.hpp"|<tenure.hpp>|' "$TENURE_SOURCE/examples/mlp.cpp" >"$scratch/mlp.cpp"
cat >"$scratch/named.cpp" <<'END'
#include <tenure.hpp>
int main() {
  tenure::program p(tn_program_create("named"));
  tn_module *net = tn_root(p), *fc = tn_linear(net, "fc", 8, 3, {.no_bias = true});
  tn_function *f = tn_function_begin(p, "predict");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "batch", 4), 8));
  tn_output(f, "y", tn_permute(tn_concat(1, {tn_call(fc, x), tn_mul_scalar(tn_call(fc, x), 2)}), {1, 0}));
  tn_function_end(f);
  tn_linear(fc, "wrong", 0, 1);  // line 9
  FILE *out = fopen("report.txt", "w");
  tn_report(p, out);
  return fclose(out);
}
END
n_compilers=0
for cxx in g++ clang++-19; do
  command -v $cxx >/dev/null || continue
  [[ -n $sanitize && $cxx == g++ ]] && continue  # the library wants the runtime of clang's sanitizers
  strict="-Wall -Wextra -pedantic -Werror $sanitize -I $prefix/include"
  # shellcheck disable=SC2086
  $cxx -std=c++17 $strict "$scratch/mlp.cpp" -o "$scratch/mlp" -L "$lib" -ltenure -ltenure_runtime
  LD_LIBRARY_PATH=$lib "$scratch/mlp"
  # shellcheck disable=SC2086
  $cxx -std=c++20 $strict -Wno-missing-field-initializers "$scratch/named.cpp" -o "$scratch/named" -L "$lib" -ltenure -ltenure_runtime
  (cd "$scratch" && LD_LIBRARY_PATH=$lib ./named)
  grep -q 'named.cpp:9: error' "$scratch/report.txt" || { cat "$scratch/report.txt" && exit 1; }
  n_compilers=$((n_compilers + 1))
done
((n_compilers)) || { echo "no C++ compiler: g++ or clang++-19" && exit 1; }
[[ -x $prefix/bin/tenure ]] || { echo "the tenure command is not installed" && exit 1; }
"$prefix/bin/tenure" --version
