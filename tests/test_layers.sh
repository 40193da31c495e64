#!/usr/bin/env bash
# The chain frontend -> codegen -> ir -> runtime holds: no upward include, llvm-c only in codegen, cblas.h only in
# codegen/gemm/sgemm.c, mpi.h only in mpi/; frontend/run and frontend/data stand on runtime alone, and so does libtenure_runtime, which is made of
# them: it knows no LLVM, no BLAS and nothing of libtenure. Random streams are numbered in one place (frontend/graph/scan.c knows how many the steps of a scan need), and
# both libraries export tn_ symbols only, but for those of runtime/api.h. Inside each folder the rooms (sub-folders, and the files beside them) have an order:
# a room includes and calls itself and the rooms before it, and no files call one another in a circle of more than six.
# No header inside of the library has more than 250 lines, and each compiles by itself.
# Ends by breaking each rule in a copy, to see that it is caught.
set -euo pipefail
source_dir=${TENURE_SOURCE:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}
build_dir=${TENURE_BUILD:-$source_dir/build/release}
folders=(runtime ir codegen frontend) # bottom first

# Rooms, bottom first; a+b: files beside the rooms that need each other. a/b: a room inside of a room.
declare -A rooms=(
  [runtime]="abi api clock thread base+format names near progress rng exec bundle store data"
  [ir]="tables plan ir ops intern expr optimizers fn product conv pool attention slice resize remarks scan packed_dims storage shape build table text rows verify rewrite keep_functions interp autodiff placement schedule passes/passes+passes/plan passes/cost passes/checks passes/facts passes/fusion passes/planning passes/rewrites passes/pipeline+passes/lowering passes"
  [codegen]="tuning cg+target+builder+loop+frame+blocks+masked emitters cpu_features+host transpose interleave lanes math dtype span pointwise memory packed order reduce gemm conv product linalg fourier attention rnn kernels module c99 bundle"
  [frontend]="tenure run data graph packed module compile bundle"
)
largest_circle=6

includes() { grep -nE '^[[:space:]]*#[[:space:]]*include' -r "$@" --include='*.c' --include='*.h' --include='*.def' || true; }

# check_tree ROOT: prints every offending line.
check_tree() (
  cd "$1"
  local above=("${folders[@]}" tests tools examples bench) pattern
  for folder in "${folders[@]}"; do
    above=("${above[@]:1}")
    pattern=$(IFS='|' && echo "${above[*]}")
    includes "$folder" | grep -E "[\"<](\.\./)*($pattern)/" | sed "s/^/upward include from $folder: /" || true
    includes "$folder" | grep -E '"\.\.?/' | sed 's/^/include path not from the root: /' || true
  done
  includes "${folders[@]}" | grep -E '[<"]llvm(-c)?/' | grep -v '^codegen/' | sed 's/^/LLVM outside codegen: /' || true
  grep -nE '\b(next_id|ir_new_streams)\b' -r "${folders[@]}" --include='*.c' --include='*.h' --include='*.def' |
    grep -vE '^(ir/(ir\.h|intern\.[ch]|text/parse\.c)|frontend/graph/scan\.c):' | sed 's/^/random streams not taken by fe_stream: /' || true
  includes "${folders[@]}" | grep 'cblas' | grep -v '^codegen/gemm/sgemm\.c:' | sed 's/^/BLAS outside codegen\/gemm\/sgemm.c: /' || true
  includes "${folders[@]}" | grep -E '[<"]mpi\.h' | sed 's/^/MPI outside mpi: /' || true
  includes frontend/run frontend/data | grep -E '"' | grep -vE '"(frontend/(tenure|run)|runtime)/' | sed 's/^/more than the runtime: /' || true
)

# check_room_includes ROOT: a header of a later room. Tables (.def) are lists that anyone may expand.
check_room_includes() (
  cd "$1"
  includes "${folders[@]}" | sed -nE 's|^([^:]*):[0-9]+:.*"([^"]+\.h)".*|\1 \2|p' | awk "$room_order"'
    { from = $1; to = $2; if (folder_of(from) == folder_of(to) && rank(from) < rank(to)) print "include of a later room: " from " " to }
    !rank($1) { print "no room in the order: " $1 }'
)

# symbols_of FOLDER: what its objects make and want, as nm says it; of those whose sources are there.
symbols_of() {
  (cd "$build_dir/CMakeFiles" && find tn_*.dir -path "tn_*.dir/$1/*.o" | sort | while read -r object; do
    source=${object#*/}
    if [[ -f $source_dir/${source%.o} ]]; then echo "$object"; fi
  done | xargs nm -P -A | sed 's|^tn_[a-z]*\.dir/||')
}

# check_headers ROOT BUILD: a header inside of the library that is too long, or that needs another before it.
most_header_lines=250
check_headers() (
  cd "$1"
  find "${folders[@]}" -name '*.h' -not -path 'frontend/tenure/*' | xargs wc -l |
    awk -v most="$most_header_lines" '$2 != "total" && $1 > most { print "a header of " $1 " lines: " $2 }'
  find "${folders[@]}" -name '*.h' -not -path 'frontend/tenure/*' | xargs -P 2 -n 16 "${TENURE_CC:-cc}" -std=gnu17 -fsyntax-only -x c     -DTN_NO_SITE_MACROS= -D_GNU_SOURCE -I. -I"$2/generated/include" -I"$(llvm-config-19 --includedir)" 2>&1 | grep 'error:' |
    sed 's/^/not self-contained: /' || true
)

# check_calls FILE: a function or object of a later room of the same folder, by the symbols in FILE; files in a circle that is
# too large.
check_calls() {
  awk -v most="$largest_circle" "$room_order"'
    { file = substr($1, 1, length($1) - 3) }
    $3 ~ /^[TDRBVWC]$/ { made_in[$2] = file }
    $3 == "U" { user[++n] = file; used[n] = $2 }
    END {
      for (k = 1; k <= n; k++) {
        from = user[k]; to = made_in[used[k]]
        if (to == "" || to == from) continue
        if (rank(from) < rank(to)) print "call of a later room: " from " " to " " used[k]
        reach[from, to] = 1; is_file[from]; is_file[to]
      }
      for (k in is_file) for (i in is_file) if ((i, k) in reach) for (j in is_file) if ((k, j) in reach) reach[i, j] = 1
      for (i in is_file) {
        size = 1
        for (j in is_file) if (i != j && (i, j) in reach && (j, i) in reach) size++
        if (size > most) print "in a circle of " size " files: " i
      }
    }' "$1"
}

# awk functions over paths: the folder, and the place of the room in its order (0: none).
room_order='
  function folder_of(path) { split(path, part, "/"); return part[1] }
  function rank(path, part, n) {
    n = split(path, part, "/")
    sub(/\.[a-z]+$/, "", part[n])
    if (n > 2 && (part[1] "/" part[2] "/" part[3]) in place) return place[part[1] "/" part[2] "/" part[3]]
    return place[part[1] "/" part[2]]
  }
  BEGIN {
'
for folder in "${folders[@]}"; do
  read -ra list <<<"${rooms[$folder]}"
  for k in "${!list[@]}"; do
    for room in ${list[k]//+/ }; do room_order+="place[\"$folder/$room\"] = $((k + 1));"; done
  done
done
room_order+='}
'

# check_runtime LIBRARY..: what libtenure_runtime must not know.
check_runtime() {
  for library; do
    nm -P "$library" 2>/dev/null | awk '$2 == "U" { print $1 }' | grep -E '^(LLVM|cblas_|openblas_|ir_|cg_)' | sed "s|^|${library##*/} wants |" || true
  done
}

# check_exports LIBRARY: prints every exported name that is neither ours nor the linker's own.
check_exports() {
  nm -D --defined-only "$1" | awk '{ print $NF }' | grep -v '@@TENURE_PRIVATE$' | sed 's/@.*//' |
    grep -vE '^(tn_|TENURE_[A-Z0-9]+$|_edata$|_end$|__bss_start$|_init$|_fini$|__((start|stop)_)?(asan|ubsan|odr_asan)_)' | sed 's/^/exported without tn_: /' || true
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
offences=$(check_tree "$source_dir" && check_room_includes "$source_dir" && check_headers "$source_dir" "$build_dir")
mkdir "$scratch/symbols"
for folder in "${folders[@]}"; do
  symbols_of "$folder" >"$scratch/symbols/$folder"
  offences+=$(check_calls "$scratch/symbols/$folder")
done
for library in libtenure.so libtenure_runtime.so libtenure_runtime.a; do
  [[ -f $build_dir/$library ]] || offences+=$'\nno '"$build_dir/$library"
done
offences+=$(check_runtime "$build_dir"/libtenure_runtime.{a,so})
offences+=$(readelf -d "$build_dir/libtenure_runtime.so" | grep -E 'NEEDED.*(LLVM|blas|libtenure\.)' || true)
[[ -n "$(nm -D --defined-only "$build_dir/libtenure.so" | grep ' tn_' || true)" ]] || offences+=$'\nnothing is exported'
offences+=$(check_exports "$build_dir/libtenure.so")
offences+=$(check_exports "$build_dir/libtenure_runtime.so")
if [[ -n "$offences" ]]; then
  echo "$offences"
  exit 1
fi

# expect_offence FILE LINE: the rule that LINE in FILE, beside nothing else, breaks is seen.
expect_offence() {
  rm -rf "$scratch/tree"
  mkdir -p "${folders[@]/#/$scratch/tree/}" "$scratch"/tree/frontend/{run,data} "$scratch/tree/${1%/*}"
  echo "$2" >"$scratch/tree/$1"
  [[ -n "$(check_tree "$scratch/tree" && check_room_includes "$scratch/tree")" ]] || { echo "not caught: $2 in $1" && exit 1; }
}
expect_offence runtime/new.c '#include "ir/ir.h"'
expect_offence ir/new.h '#  include "codegen/cg.h"'
expect_offence ir/new.c '#include "../frontend/tenure.h"'
expect_offence codegen/new.c '#include "frontend/tenure.h"'
expect_offence frontend/new.c '#include <llvm-c/Core.h>'
expect_offence runtime/new.c '#include <cblas.h>'
expect_offence runtime/new.c '#include <mpi.h>'
expect_offence frontend/run/new.c '#include "ir/ir.h"'
expect_offence frontend/data/new.c '#include "frontend/graph/program.h"'
expect_offence frontend/new.c '#include "tests/check.h"'
expect_offence frontend/new.c 'uint32_t take(Prog *p) { return p->next_id++; }'
expect_offence frontend/new.c 'uint32_t take(Prog *p) { return ir_new_streams(p, 1); }'
echo 'int tn_good(void); int leaked_name(void); int tn_good(void) { return 1; } int leaked_name(void) { return 2; }' >"$scratch/x.c"
"${TENURE_CC:-cc}" -shared -fPIC -o "$scratch/x.so" "$scratch/x.c"
[[ "$(check_exports "$scratch/x.so")" == *leaked_name* ]] || { echo "an exported name was not caught" && exit 1; }

expect_offence codegen/math/new.c '#include "codegen/gemm/gemm.h"'
expect_offence runtime/exec/new.h '#include "runtime/data/loader.h"'
[[ "$(most_header_lines=20 check_headers "$source_dir" "$build_dir")" == *ir/ir.h* ]] || { echo "a long header was not caught" && exit 1; }
expect_offence ir/new.c '#include "runtime/base.h"' # beside the rooms, and in no order

# expect_call WORD FILE TEXT..: the calls of each pair FILE TEXT, beside those of the real objects, give an offence with WORD.
expect_call() {
  local word=$1 file symbols=$scratch/symbols.new
  shift
  cp "$scratch/symbols/${1%%/*}" "$symbols"
  while (($#)); do
    file=$1
    "${TENURE_CC:-cc}" -c -fPIC -o "$scratch/new.o" -x c - <<<"$2"
    nm -P -A "$scratch/new.o" | sed "s|^[^:]*:|$file.o:|" >>"$symbols"
    shift 2
  done
  [[ "$(check_calls "$symbols")" == *"$word"* ]] || { echo "not caught: $word by $file" && exit 1; }
}
expect_call 'later room: codegen/math/new.c' codegen/math/new.c 'void cg_emit_gemm(void); void cg_new(void); void cg_new(void) { cg_emit_gemm(); }'
expect_call 'later room: ir/shape/new.c' ir/shape/new.c 'void ir_pass_fuse(void); void ir_new(void); void ir_new(void) { ir_pass_fuse(); }'
expect_call 'later room: ir/passes/checks/new.c' ir/passes/checks/new.c 'void ir_pass_fuse(void); void ir_new(void); void ir_new(void) { ir_pass_fuse(); }'
expect_call 'later room: frontend/graph/new.c' frontend/graph/new.c 'void fe_plan(void); void fe_new(void); void fe_new(void) { fe_plan(); }'
expect_call 'later room: frontend/run/new.c' frontend/run/new.c 'void fe_error_at(void); void fe_new(void); void fe_new(void) { fe_error_at(); }'
expect_call 'later room: runtime/store/new.c' runtime/store/new.c 'void rt_dataset_csv(void); void rt_new(void); void rt_new(void) { rt_dataset_csv(); }'
"${TENURE_CC:-cc}" -c -fPIC -o "$scratch/x.o" -x c - <<<'void ir_print(void); void rt_x(void); void rt_x(void) { ir_print(); }'
[[ "$(check_runtime "$scratch/x.o")" == *ir_print* ]] || { echo "a call of the IR from the runtime library was not caught" && exit 1; }
circle=()
for k in {0..6}; do circle+=("codegen/math/new$k.c" "void cg_$k(void); void cg_$(((k + 1) % 7))(void); void cg_$k(void) { cg_$(((k + 1) % 7))(); }"); done
expect_call 'circle of 7 files: codegen/math/new' "${circle[@]}"
