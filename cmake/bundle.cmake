# Support code of bundles as LLVM bitcode, for each architecture that has objects: freestanding C, built by the clang of the
# LLVM that reads it, and embedded in the library. runtime/bundle/bundle.h says what it is.
set(tenure_bundle_sources runtime/bundle/call.c runtime/bundle/cpu.c runtime/bundle/file.c runtime/bundle/load.c runtime/bundle/save.c
    runtime/bundle/memory.c runtime/bundle/arm.c runtime/bundle/wide.c runtime/exec/value_check.c)
# -Os: with -Oz a shift of 64 bits becomes a call of a library where it takes more than one instruction.
set(tenure_bundle_targets
    x86_64 "x86_64-unknown-linux-gnu"
    i686 "i686-unknown-linux-gnu -Os"
    aarch64 "aarch64-unknown-linux-gnu"
    armv7 "armv7-unknown-linux-gnueabihf -Os"
    thumbv7em "thumbv7em-none-eabihf -mcpu=cortex-m7 -Os"
    thumbv8m_main "thumbv8m.main-none-eabihf -Os"
    thumbv8_1m "thumbv8.1m.main-none-eabihf -mcpu=cortex-m55"
    riscv64 "riscv64-unknown-linux-gnu -march=rv64gc -mabi=lp64d"
    riscv32 "riscv32-unknown-elf -march=rv32imafdc -mabi=ilp32d -Os"
    powerpc64le "powerpc64le-unknown-linux-gnu"
    loongarch64 "loongarch64-unknown-linux-gnu"
    wasm32 "wasm32-unknown-unknown -Os")

find_program(TENURE_CLANG NAMES clang-${LLVM_VERSION_MAJOR} HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED)
find_program(TENURE_LLVM_AS NAMES llvm-as-${LLVM_VERSION_MAJOR} llvm-as HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED)
find_program(TENURE_LLVM_LINK NAMES llvm-link-${LLVM_VERSION_MAJOR} llvm-link HINTS ${LLVM_TOOLS_BINARY_DIR} REQUIRED)
set(bundle_dir ${TENURE_GENERATED}/bundle)
file(MAKE_DIRECTORY ${bundle_dir})
set(bundle_flags -std=c17 -Oz -ffreestanding -fno-builtin -fPIC -fno-stack-protector -fno-asynchronous-unwind-tables
    -fno-unwind-tables -fno-vectorize -fno-slp-vectorize -fvisibility=hidden -Wall -Wextra -DTN_BUNDLE_SUPPORT -I${CMAKE_SOURCE_DIR} -emit-llvm -c)
list(TRANSFORM tenure_bundle_sources PREPEND ${CMAKE_SOURCE_DIR}/)
set(bundle_rows "")
set(bundle_files "")
while(tenure_bundle_targets)
  list(POP_FRONT tenure_bundle_targets arch triple)
  separate_arguments(triple)
  set(parts "")
  foreach(source ${tenure_bundle_sources})
    get_filename_component(stem ${source} NAME_WE)
    set(part ${bundle_dir}/${arch}_${stem}.bc)
    add_custom_command(OUTPUT ${part} DEPFILE ${part}.d DEPENDS ${source} VERBATIM
                       COMMAND ${TENURE_CLANG} ${bundle_flags} -target ${triple} -MD -MF ${part}.d -MT ${part} ${source} -o ${part})
    list(APPEND parts ${part})
  endforeach()
  # A module's flags say the calling convention and the instruction set that clang was told: each object has those of its target.
  add_custom_command(OUTPUT ${bundle_dir}/${arch}.bc DEPENDS ${parts} VERBATIM
                     COMMAND ${TENURE_LLVM_LINK} ${parts} -S -o ${bundle_dir}/${arch}.flags.ll
                     COMMAND sed -e "s/!\"target-abi\"/!\"tenure.abi\"/" -e "s/!\"riscv-isa\"/!\"tenure.isa\"/" ${bundle_dir}/${arch}.flags.ll > ${bundle_dir}/${arch}.ll
                     COMMAND ${TENURE_LLVM_AS} ${bundle_dir}/${arch}.ll -o ${bundle_dir}/${arch}.bc)
  list(APPEND bundle_files ${bundle_dir}/${arch}.bc)
  string(APPEND bundle_rows "ROW(${arch})\n")
endwhile()
file(CONFIGURE OUTPUT ${bundle_dir}/architectures.def CONTENT "${bundle_rows}" @ONLY)
set_source_files_properties(codegen/c99/c99.c PROPERTIES OBJECT_DEPENDS "${CMAKE_SOURCE_DIR}/codegen/c99/prelude.h"
                            COMPILE_DEFINITIONS "PRELUDE=\"${CMAKE_SOURCE_DIR}/codegen/c99/prelude.h\"")
set_source_files_properties(codegen/bundle/support_code.c PROPERTIES OBJECT_DEPENDS "${bundle_files}"
                            COMPILE_DEFINITIONS "SUPPORT_CODE=\"${bundle_dir}\"" COMPILE_OPTIONS "-I${bundle_dir}")
