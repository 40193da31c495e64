# Compiler flags of everything in the project; users of the library get none of them.
include(CheckCCompilerFlag)
file(RELATIVE_PATH from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
add_library(tenure_flags INTERFACE)
# The object cache knows the code generator by its build id.
target_link_options(tenure_flags INTERFACE LINKER:--build-id=sha1)
target_compile_options(tenure_flags INTERFACE
  -Wall -Wextra              # the usual mistakes
  -Wshadow                   # an inner `n` that hides an outer `n` is a bug waiting for an edit
  -Wstrict-prototypes        # f() takes anything: write f(void)
  -Wmissing-prototypes       # a function that no header declares should be static
  -Wpointer-arith            # arithmetic on void *: cast to bytes first
  -Wundef                    # a misspelt macro in #if is 0 without it
  -Wvla                      # stack use must not depend on input
  -ffp-contract=off          # the interpreter's doubles are the same with every compiler
  -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=  # call sites read examples/vowels.c:20 wherever the tree lies
  -fmacro-prefix-map=${from_build}=         # also where a compiler cache made the path a relative one
  -fno-common)               # one definition per object, at link time
if(TENURE_WERROR)
  target_compile_options(tenure_flags INTERFACE -Werror)
endif()
set(CMAKE_EXE_LINKER_FLAGS "${CMAKE_EXE_LINKER_FLAGS} -Wl,--as-needed")
if(TENURE_SANITIZE)
  # -fsanitize=function reads a signature in front of the callee; generated machine code has none.
  check_c_compiler_flag(-fno-sanitize=function TENURE_HAS_SANITIZE_FUNCTION)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
  if(TENURE_HAS_SANITIZE_FUNCTION)
    list(APPEND sanitize -fno-sanitize=function)
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL Clang)  # the fuzzers are of this build: their coverage is counted in all of it
    set(TENURE_FUZZERS ON)
    list(APPEND sanitize -fsanitize=fuzzer-no-link)
  endif()
  target_compile_options(tenure_flags INTERFACE ${sanitize})
  target_link_options(tenure_flags INTERFACE ${sanitize})
endif()
if(TENURE_TSAN)
  target_compile_options(tenure_flags INTERFACE -fsanitize=thread)
  target_link_options(tenure_flags INTERFACE -fsanitize=thread)
endif()
# Debug information of many programs: the usual linker takes longer for them than the compiler.
find_program(TENURE_LLD ld.lld-19)
if((TENURE_SANITIZE OR TENURE_TSAN) AND TENURE_LLD AND CMAKE_C_COMPILER_ID STREQUAL Clang)
  target_link_options(tenure_flags INTERFACE -fuse-ld=lld)
endif()
