# Debian packages: `cpack` in the build folder, or cmake --build --preset release --target package. tests/test_packages.sh
# installs them, builds against them and removes them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tenure)
set(CPACK_PACKAGE_CONTACT "Tenure maintainers <maintainers@tenure.invalid>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL libtenure-runtime0 libtenure-runtime-dev libtenure0 libtenure-dev tenure)
if(TARGET tenure_mpi)
  list(APPEND CPACK_COMPONENTS_ALL libtenure-mpi0 libtenure-mpi-dev)
endif()
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION TRUE)
set(version "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# package NAME SECTION DEPENDS SYNOPSIS TEXT: a package of the component NAME. What its programs and libraries link is found by
# dpkg-shlibdeps; DEPENDS: our own packages, which belong to one build.
function(package name section depends synopsis text)
  string(TOUPPER ${name} id)
  set(CPACK_DEBIAN_${id}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${id}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${id}_PACKAGE_DEPENDS "${depends}" PARENT_SCOPE)
  set(CPACK_DEBIAN_${id}_DESCRIPTION "${synopsis}\n${text}" PARENT_SCOPE)
  if(NOT section STREQUAL libdevel)
    set(CPACK_DEBIAN_${id}_PACKAGE_SHLIBDEPS ON PARENT_SCOPE)
  endif()
  set(multiarch same)
  if(name STREQUAL tenure)
    set(multiarch foreign)
  endif()
  if(CMAKE_INSTALL_LIBDIR MATCHES /)  # a folder of the architecture (CMakeLists.txt)
    set(CPACK_DEBIAN_${id}_PACKAGE_MULTIARCH ${multiarch} PARENT_SCOPE)
  endif()
  install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} RENAME copyright COMPONENT ${name} EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_BINARY_DIR}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${name} EXCLUDE_FROM_ALL)
endfunction()

set(about "Tenure compiles neural networks, training steps included, to native CPU\ncode.")
package(libtenure-runtime0 libs "" "runs compiled neural networks (shared library)"
        "${about} This package runs models that were compiled before, reads data sets\nand feeds batches, without compiler and LLVM.")
package(libtenure-runtime-dev libdevel "libtenure-runtime0 ${version}" "runs compiled neural networks (development files)"
        "${about} This package has what programs need that run models compiled before:\nheaders, the static library, files for pkg-config and CMake.")
package(libtenure0 libs "libtenure-runtime0 ${version}" "compiler of neural networks (shared library)"
        "${about} This package has the compiler as a library.")
package(libtenure-dev libdevel "libtenure0 ${version}, libtenure-runtime-dev ${version}" "compiler of neural networks (development files)"
        "${about} This package has what programs need that build and compile models:\nheaders, the static library, files for pkg-config and CMake.")
package(tenure devel "" "compiler of neural networks (command)"
        "${about} This package has the command: it checks, explains and compares\nprograms as text.")
if(TARGET tenure_mpi)
  set(mpi_dev libopenmpi-dev)
  if(MPI_C_LIB_NAMES MATCHES mpich)
    set(mpi_dev libmpich-dev)
  endif()
  package(libtenure-mpi0 libs "" "several processes train one neural network (shared library)"
          "${about} This package lets processes over MPI share a training step.")
  package(libtenure-mpi-dev libdevel "libtenure-mpi0 ${version}, libtenure-runtime-dev ${version}, ${mpi_dev}"
          "several processes train one neural network (development files)"
          "${about} This package has the header of the transport over MPI, files for\npkg-config and CMake.")
endif()
set(CPACK_DEBIAN_LIBTENURE-RUNTIME-DEV_PACKAGE_SUGGESTS "zlib1g-dev, libpng-dev, libjpeg62-turbo-dev")  # for the static libraries
set(CPACK_DEBIAN_LIBTENURE-DEV_PACKAGE_SUGGESTS "llvm-19-dev, libopenblas-serial-dev")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_BINARY_DIR})
execute_process(COMMAND gzip -9nc ${CMAKE_SOURCE_DIR}/cmake/debian/changelog OUTPUT_FILE ${CMAKE_BINARY_DIR}/changelog.Debian.gz)
include(CPack)
