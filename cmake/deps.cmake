# LLVM 19 (shared library, C API only), OpenBLAS (codegen/gemm/sgemm.c only), zlib (runtime/data/zip.c, gzip.c), threads; libpng and
# libjpeg-turbo (runtime/data/png.c, jpeg.c) where they are installed.
# Debian 12: llvm-19-dev, libopenblas-serial-dev, zlib1g-dev, libpng-dev, libjpeg62-turbo-dev.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# LLVM's version file takes 19.1 but not plain 19.
set(CMAKE_MESSAGE_LOG_LEVEL WARNING)  # what LLVM itself was linked with is no news
find_package(LLVM 19.1 CONFIG QUIET HINTS /usr/lib/llvm-19/lib/cmake/llvm)
unset(CMAKE_MESSAGE_LOG_LEVEL)
if(NOT LLVM_FOUND)
  message(FATAL_ERROR "LLVM 19.1 is missing: Debian 12's package is llvm-19-dev; elsewhere pass -DLLVM_DIR=.../lib/cmake/llvm")
endif()
if(NOT TARGET LLVM)
  message(FATAL_ERROR "LLVM ${LLVM_PACKAGE_VERSION} at ${LLVM_DIR} has no shared library libLLVM")
endif()
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} at ${LLVM_DIR}")
add_library(tenure_llvm INTERFACE)
target_include_directories(tenure_llvm SYSTEM INTERFACE $<BUILD_INTERFACE:${LLVM_INCLUDE_DIRS}>)
target_link_libraries(tenure_llvm INTERFACE LLVM)

# The serial build first: our workers are the only threads.
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-serial openblas openblas-pthread)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-serial openblas openblas-pthread)
if(NOT OPENBLAS_INCLUDE OR NOT OPENBLAS_LIBRARY)
  message(FATAL_ERROR "OpenBLAS is missing: Debian's package is libopenblas-serial-dev")
endif()
add_library(tenure_blas INTERFACE)
target_link_libraries(tenure_blas INTERFACE $<BUILD_INTERFACE:${OPENBLAS_LIBRARY}> $<INSTALL_INTERFACE:openblas>)

# By file, not as a target: an installed package then needs no find_package(ZLIB).
find_path(TENURE_ZLIB_INCLUDE zlib.h)
find_library(TENURE_ZLIB z)
if(NOT TENURE_ZLIB_INCLUDE OR NOT TENURE_ZLIB)
  message(FATAL_ERROR "zlib is missing: Debian's package is zlib1g-dev")
endif()
add_library(tenure_zlib INTERFACE)
target_include_directories(tenure_zlib SYSTEM INTERFACE $<BUILD_INTERFACE:${TENURE_ZLIB_INCLUDE}>)
target_link_libraries(tenure_zlib INTERFACE $<BUILD_INTERFACE:${TENURE_ZLIB}> $<INSTALL_INTERFACE:z>)

# Optional, by file for the same reason. Without them, files of these formats are refused with a sentence.
add_library(tenure_image_codecs INTERFACE)
function(tenure_image_codec name header)  # name: of the library; PNG or JPEG in upper case
  string(TOUPPER ${name} upper)
  find_path(TENURE_${upper}_INCLUDE ${header})
  find_library(TENURE_${upper} ${name})
  if(NOT TENURE_${upper}_INCLUDE OR NOT TENURE_${upper})
    message(STATUS "no ${header}: ${upper} files are not read")
    return()
  endif()
  target_include_directories(tenure_image_codecs SYSTEM INTERFACE $<BUILD_INTERFACE:${TENURE_${upper}_INCLUDE}>)
  target_compile_definitions(tenure_image_codecs INTERFACE $<BUILD_INTERFACE:TN_HAS_${upper}>)
  target_link_libraries(tenure_image_codecs INTERFACE $<BUILD_INTERFACE:${TENURE_${upper}}> $<INSTALL_INTERFACE:${name}>)
  set(TENURE_IMAGE_LIBS "${TENURE_IMAGE_LIBS}-l${name} " PARENT_SCOPE)  # for pkg-config
endfunction()
tenure_image_codec(png png.h)
tenure_image_codec(jpeg jpeglib.h)
