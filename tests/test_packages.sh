#!/usr/bin/env bash
# The Debian packages: built by cpack, sane, installed by dpkg into a scratch system that knows what is installed here, used by
# the outside projects, removed without a trace. The packages of the run-time part are enough for programs that have no compiler.
set -Eeuo pipefail
build=${TENURE_BUILD:?run by ctest} source_dir=${TENURE_SOURCE:?run by ctest} cc=${TENURE_CC:-cc}
skip() { echo "skipped: $*" && exit 77; }
fail() { echo "$*" && exit 1; }
for program in dpkg dpkg-deb dpkg-shlibdeps file pkg-config; do
  command -v $program >/dev/null || skip "there is no $program (Debian's packages dpkg-dev, file, pkg-config)"
done
! grep -qE '^TENURE_(SANITIZE|TSAN):BOOL=ON' "$build/CMakeCache.txt" || skip "a build with sanitizers is not packaged"
as_root=()
if ((EUID != 0)); then
  command -v fakeroot >/dev/null || skip "dpkg wants root or fakeroot"
  as_root=(fakeroot)
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'echo "line $LINENO: $BASH_COMMAND" >&2; tail -n 20 log >&2' ERR
cd "$scratch"

# ---- building
cpack --config "$build/CPackConfig.cmake" -B "$scratch/packages" >log 2>&1 || { tail -n 30 log && fail "cpack failed"; }
names=(libtenure-runtime0 libtenure-runtime-dev libtenure0 libtenure-dev tenure)
mpi=()
[[ ! -e $build/libtenure_mpi.so ]] || mpi=(libtenure-mpi0 libtenure-mpi-dev)
names+=("${mpi[@]}")
mapfile -t debs < <(find packages -maxdepth 1 -name '*.deb' | sort)
((${#debs[@]} == ${#names[@]})) || fail "cpack made ${debs[*]:-nothing}"
deb_of() { find packages -maxdepth 1 -name "$1_*.deb"; }
field() { dpkg-deb -f "$(deb_of "$1")" "$2"; }

# ---- what is in them
# By a trigger, or by a script where cpack is older (3.25).
runs_ldconfig() { dpkg-deb -I "$1" triggers 2>>log | grep ldconfig >>log || dpkg-deb -I "$1" postinst 2>>log | grep ldconfig >>log; }
check_package() {
  local name=$1 tree=$scratch/unpacked/$1 deb
  deb=$(deb_of "$name")
  mkdir -p "$tree"
  dpkg-deb -x "$deb" "$tree"
  [[ -f $tree/usr/share/doc/$name/copyright && -f $tree/usr/share/doc/$name/changelog.Debian.gz ]] || echo "$name has no copyright or changelog"
  find "$tree" -mindepth 1 -maxdepth 1 ! -name usr -printf "$name: %p outside of usr\n"
  [[ -z "$(find "$tree/usr" -mindepth 1 -maxdepth 1 -name local)" ]] || echo "$name has files in usr/local"
  dpkg-deb -c "$deb" | awk '$2 != "root/root" { print "not of root: " $0 }'
  field "$name" Description | awk 'length > 80 { print "long line in the description: " $0 }'
  for wanted in Maintainer Section Priority Architecture Installed-Size; do
    [[ -n "$(field "$name" $wanted)" ]] || echo "$name has no $wanted"
  done
  while read -r binary; do
    ! readelf -d "$binary" | grep -E 'R(UN)?PATH' || echo "$name: $binary has a path of its own"
    ! grep -q '\.debug_info' < <(readelf -S "$binary") || echo "$name: $binary is not stripped"
  done < <(find "$tree/usr" -type f \( -path '*/bin/*' -o -name '*.so.*' \))
  [[ $name != lib*0 ]] || grep -q "^libtenure.* $name " < <(dpkg-deb -I "$deb" shlibs) || echo "$name has no shlibs"
  [[ $name != lib*0 ]] || runs_ldconfig "$deb" || echo "$name does not run ldconfig"
}
offences=$(for name in "${names[@]}"; do check_package "$name"; done)
[[ -z "$offences" ]] || fail "$offences"
for text in man/man1/tenure.1 bash-completion/completions/tenure zsh/vendor-completions/_tenure fish/vendor_completions.d/tenure.fish; do
  [[ -s unpacked/tenure/usr/share/$text ]] || fail "the package of the command has no $text"
done
synopses=$(for name in "${names[@]}"; do field "$name" Description | sed -n 1p; done | sort | uniq -d)
[[ -z "$synopses" ]] || fail "two packages are described as '$synopses'"
! field libtenure-runtime0 Depends | grep -iE 'llvm|blas' || fail "libtenure-runtime0 wants a compiler"
grep -q 'libllvm19' < <(field libtenure0 Depends) || fail "libtenure0 does not name LLVM: $(field libtenure0 Depends)"
grep -qF "libtenure-runtime0 (= $(field libtenure0 Version))" < <(field libtenure0 Depends) || fail "libtenure0 does not want its own runtime"

((${#mpi[@]} == 0)) || grep -qE 'libopenmpi3|libmpich12' < <(field libtenure-mpi0 Depends) || fail "libtenure-mpi0 does not name its MPI"
! grep -q mpi < <(field libtenure0 Depends) || fail "libtenure0 wants MPI"

# ---- a scratch system: the packages that are installed here are in its list, without their files
root=$scratch/root
mkdir -p "$root/var/lib/dpkg/"{info,updates} "$root/etc"
cp /var/lib/dpkg/status "$root/var/lib/dpkg/status"
# libopenblas0 has no files, and depends on any build of the library: here one is installed by its own name.
if ! grep -qx 'Package: libopenblas0' /var/lib/dpkg/status; then
  printf '\nPackage: libopenblas0\nStatus: install ok installed\nMaintainer: none\nArchitecture: %s\nMulti-Arch: same\nVersion: 99\nDescription: none\n\n' \
    "$(dpkg --print-architecture)" >>"$root/var/lib/dpkg/status"
fi
# Scripts of packages run outside of the scratch system, which has no shell; their ldconfig stays within it.
mkdir bin
printf '#!/bin/sh\nexec /sbin/ldconfig -r "$DPKG_ROOT"\n' >bin/ldconfig
chmod +x bin/ldconfig
dpkg_in() {
  "${as_root[@]}" env PATH="$scratch/bin:$PATH" dpkg --root="$root" --log=/dev/null --force-not-root --force-script-chrootless "$@" >>log 2>&1
}
files() { (cd "$root" && find . -path ./var/lib/dpkg -prune -o -print | LC_ALL=C sort); }
install_in() {
  local name list=()
  for name; do list+=("$(deb_of "$name")"); done
  dpkg_in -i "${list[@]}" || { tail -n 20 log && fail "dpkg does not install $*"; }
  lib=$(dirname "$(find "$root/usr" -name libtenure_runtime.so.0)")
  /sbin/ldconfig -r "$root" 2>>log || true
}
purge_in() { dpkg_in --purge "$@" || { tail -n 20 log && fail "dpkg does not remove $*"; }; }
# build_outside NAME COMPONENTS TARGETS: both outside projects against the scratch system
build_outside() {
  local pc=(PKG_CONFIG_PATH="$lib/pkgconfig" PKG_CONFIG_SYSTEM_INCLUDE_PATH=/none PKG_CONFIG_SYSTEM_LIBRARY_PATH=/none)
  cp -r "$source_dir/tests/outside" "$1"
  "$cc" -I "$source_dir" -c "$1/bundle_by_hand.c" -o "$1/net.o"
  cmake -G Ninja -S "$1" -B "$1/build" -DCMAKE_PREFIX_PATH="$root/usr" -DCMAKE_C_COMPILER="$cc" -DCOMPONENTS="$2" >>log
  cmake --build "$1/build" >>log
  env "${pc[@]}" make -s -C "$1" CC="$cc" $3
}
files >before
install_in libtenure-runtime0 libtenure-runtime-dev
build_outside part runtime runtime
for program in part/build/runtime part/runtime; do LD_LIBRARY_PATH=$lib $program; done
install_in libtenure0 libtenure-dev tenure
build_outside all "compiler;runtime" "compiler runtime"
for program in all/build/shared all/build/runtime all/compiler all/runtime; do LD_LIBRARY_PATH=$lib $program; done
LD_LIBRARY_PATH=$lib "$root/usr/bin/tenure" --version
! dpkg_in --purge libtenure-runtime0 || fail "libtenure-runtime0 was removed below libtenure0"
if ((${#mpi[@]})) && command -v mpirun >/dev/null; then
  install_in "${mpi[@]}"
  build_outside mpi "runtime;mpi" mpi
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  for program in mpi/build/mpi mpi/mpi; do LD_LIBRARY_PATH=$lib mpirun -n 2 $program | grep -x 'rank 1 of 2'; done
  purge_in "${mpi[@]}"
fi
purge_in tenure libtenure-dev libtenure0 libtenure-runtime-dev libtenure-runtime0
rm -f "$root/etc/ld.so.cache" "$root/var/cache/ldconfig/aux-cache"
left=$(files | LC_ALL=C comm -13 before - | grep -vE '^\./var(/cache(/ldconfig)?)?$' || true)
[[ -z "$left" ]] || fail "left behind: $left"
ls -l packages/*.deb | awk '{ printf "%8.1f KiB  %s\n", $5 / 1024, $NF }'
