# What is installed, by component; a component is a Debian package (cmake/package.cmake), and `cmake --install` takes all.
#   libtenure-runtime0     libtenure_runtime.so.0: models from bundles, data sets, loaders
#   libtenure-runtime-dev  its headers, static library, tenure-runtime.pc and CMake package
#   libtenure0             libtenure.so.0: the compiler
#   libtenure-dev          the same of it
#   libtenure-mpi0         libtenure_mpi.so.0, where it is built, for the MPI that it is built for (cmake/mpi.cmake)
#   libtenure-mpi-dev      tenure_mpi.h, tenure-mpi.pc, the component `mpi` of the CMake package
#   tenure                 the command
# tests/test_install.sh builds outside projects from it.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenure)
set(include_dir ${CMAKE_INSTALL_INCLUDEDIR})
set(runtime_headers base data distributed loader model model_probe params run runtime)  # of frontend/tenure/; all that they declare is in libtenure_runtime
list(TRANSFORM runtime_headers REPLACE "(.+)" "frontend/tenure/\\1.h")
file(GLOB compiler_headers CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} frontend/tenure/*.h)
list(REMOVE_ITEM compiler_headers ${runtime_headers})
install(FILES ${runtime_headers} DESTINATION ${include_dir}/tenure COMPONENT libtenure-runtime-dev)
install(FILES ${compiler_headers} DESTINATION ${include_dir}/tenure COMPONENT libtenure-dev)
install(FILES frontend/tenure.h frontend/tenure.hpp ${TENURE_GENERATED}/include/tenure_ops.h
        ${TENURE_GENERATED}/include/tenure_site.h DESTINATION ${include_dir} COMPONENT libtenure-dev)

# ---- libraries, as CMake targets
set_target_properties(tenure_runtime PROPERTIES EXPORT_NAME runtime)
set_target_properties(tenure_runtime_static PROPERTIES EXPORT_NAME runtime_static)
set_target_properties(tenure_static PROPERTIES EXPORT_NAME static)
install(TARGETS tenure_runtime EXPORT tenureRuntimeTargets
        LIBRARY COMPONENT libtenure-runtime0 NAMELINK_COMPONENT libtenure-runtime-dev)
install(TARGETS tenure EXPORT tenureTargets LIBRARY COMPONENT libtenure0 NAMELINK_COMPONENT libtenure-dev)
install(TARGETS tenure_runtime_static tenure_zlib tenure_image_codecs EXPORT tenureRuntimeStaticTargets ARCHIVE COMPONENT libtenure-runtime-dev)
install(TARGETS tenure_static tenure_llvm tenure_blas EXPORT tenureStaticTargets ARCHIVE COMPONENT libtenure-dev)
foreach(set Runtime:libtenure-runtime-dev RuntimeStatic:libtenure-runtime-dev :libtenure-dev Static:libtenure-dev)
  string(REGEX MATCH "([A-Za-z]*):(.+)" set ${set})
  install(EXPORT tenure${CMAKE_MATCH_1}Targets NAMESPACE tenure:: DESTINATION ${package_dir} COMPONENT ${CMAKE_MATCH_2})
endforeach()
set(pc_files tenure:libtenure-dev tenure-runtime:libtenure-runtime-dev)
if(TARGET tenure_mpi)
  list(APPEND pc_files tenure-mpi:libtenure-mpi-dev)
  install(FILES mpi/tenure_mpi.h DESTINATION ${include_dir} COMPONENT libtenure-mpi-dev)
  install(TARGETS tenure_mpi EXPORT tenureMpiTargets LIBRARY COMPONENT libtenure-mpi0 NAMELINK_COMPONENT libtenure-mpi-dev)
  install(EXPORT tenureMpiTargets NAMESPACE tenure:: DESTINATION ${package_dir} COMPONENT libtenure-mpi-dev)
endif()
configure_package_config_file(cmake/tenureConfig.cmake.in tenureConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tenureConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tenureConfig.cmake ${CMAKE_BINARY_DIR}/tenureConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT libtenure-runtime-dev)

# ---- pkg-config: a .pc file finds its prefix from where it lies, so that an installed folder may be moved.
file(RELATIVE_PATH up /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
foreach(pc ${pc_files})
  string(REGEX MATCH "(.+):(.+)" pc ${pc})
  set(component ${CMAKE_MATCH_2})
  set(pc ${CMAKE_MATCH_1}.pc)
  configure_file(cmake/${pc}.in ${pc} @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${pc} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
endforeach()

# ---- the command; its manual and completions: cmake/command.cmake
install(TARGETS tenure_tool EXPORT tenureCommandTargets COMPONENT tenure)
set_target_properties(tenure_tool PROPERTIES EXPORT_NAME command)
install(EXPORT tenureCommandTargets NAMESPACE tenure:: DESTINATION ${package_dir} COMPONENT tenure)
install(FILES cmake/tenureBundle.cmake DESTINATION ${package_dir} COMPONENT tenure)  # tenure_bundle() of outside projects
include(cmake/package.cmake)
