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
  if (!m) tn_report(p, stderr);
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
# No g++ needed: clang only reads the header.
printf '#include <tenure.h>\nint main() { return tn_status_text(TN_OK) == nullptr; }\n' >"$scratch/plus.cc"
clang-19 -x c++ -std=c++17 -Wall -Werror -fsyntax-only -I "$prefix/include" "$scratch/plus.cc"
[[ -x $prefix/bin/tenure ]] || { echo "the tenure command is not installed" && exit 1; }
"$prefix/bin/tenure" --version
