#!/usr/bin/env bash
# Installs into a scratch folder and builds outside projects from it: CMake (shared and static) and pkg-config, C and C++.
set -euo pipefail
build=${TENURE_BUILD:?run by ctest} cc=${TENURE_CC:-cc}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
cmake --install "$build" --prefix "$prefix" >"$scratch/log"
lib=$(dirname "$(find "$prefix" -name libtenure.so)")
sanitize=$(grep -q '^TENURE_SANITIZE:BOOL=ON' "$build/CMakeCache.txt" && echo "-fsanitize=address,undefined" || true)

mkdir "$scratch/outside"
cat >"$scratch/outside/main.c" <<'END'
#include <stdio.h>
#include <tenure.h>

int main(void) {
  tn_program *p = tn_program_create("outside");
  tn_module *fc = tn_linear(tn_root(p), "fc", 8, 3);
  tn_function *f = tn_function_begin(p, "predict");
  tn_tensor x = tn_input(f, "x", TN_F32, TN_SHAPE(tn_dim_bounded(p, "batch", 4), 8));
  tn_output(f, "y", tn_call(fc, x));
  tn_function_end(f);
  tn_model *m = tn_compile(p);
  float xs[2 * 8] = {1}, ys[2 * 3];
  tn_status s = m ? tn_run(m, "predict", TN_IN(tn_f32(xs, 2, 8)), TN_OUT(tn_f32(ys, 2, 3))) : TN_ERR_BUILD;
  printf("%s\n", tn_status_text(s));
  tn_model_free(m);
  tn_program_free(p);
  return s != TN_OK;
}
END
cat >"$scratch/outside/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(outside C)
find_package(tenure 0.1 REQUIRED COMPONENTS static)
add_executable(shared main.c)
target_link_libraries(shared PRIVATE tenure::tenure)
add_executable(static main.c)
target_link_libraries(static PRIVATE tenure::static)
END

cmake -G Ninja -S "$scratch/outside" -B "$scratch/outside/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_C_FLAGS="$sanitize" >>"$scratch/log"
cmake --build "$scratch/outside/build" >>"$scratch/log"
"$scratch/outside/build/shared"
"$scratch/outside/build/static"
readelf -d "$scratch/outside/build/shared" | grep -q 'libtenure\.so\.0' || { echo "soname is not libtenure.so.0" && exit 1; }

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  # shellcheck disable=SC2046
  "$cc" $sanitize "$scratch/outside/main.c" -o "$scratch/with_pc" $(pkg-config --cflags --libs tenure)
  LD_LIBRARY_PATH=$lib "$scratch/with_pc"
fi
# The C++ example, by every compiler there is, as strict C++17 and, for options by name, C++20.
sed 's|"frontend/tenure.hpp"|<tenure.hpp>|' "${TENURE_SOURCE:?run by ctest}/examples/mlp.cpp" >"$scratch/mlp.cpp"
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
  $cxx -std=c++17 $strict "$scratch/mlp.cpp" -o "$scratch/mlp" -L "$lib" -ltenure
  LD_LIBRARY_PATH=$lib "$scratch/mlp"
  # shellcheck disable=SC2086
  $cxx -std=c++20 $strict -Wno-missing-field-initializers "$scratch/named.cpp" -o "$scratch/named" -L "$lib" -ltenure
  (cd "$scratch" && LD_LIBRARY_PATH=$lib ./named)
  grep -q 'named.cpp:9: error' "$scratch/report.txt" || { cat "$scratch/report.txt" && exit 1; }
  n_compilers=$((n_compilers + 1))
done
((n_compilers)) || { echo "no C++ compiler: g++ or clang++-19" && exit 1; }
[[ -x $prefix/bin/tenure ]] || { echo "the tenure command is not installed" && exit 1; }
"$prefix/bin/tenure" --version
