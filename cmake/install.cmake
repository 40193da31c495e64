# Header, libraries, command, tenure.pc and a CMake package; tests/test_install.sh builds an outside project from them.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tenure)
install(FILES frontend/tenure.h frontend/tenure.hpp ${TENURE_GENERATED}/include/tenure_ops.h
        ${TENURE_GENERATED}/include/tenure_site.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY frontend/tenure DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(TARGETS tenure EXPORT tenureTargets)
install(TARGETS tenure_static tenure_llvm tenure_blas tenure_zlib EXPORT tenureStaticTargets)
install(TARGETS tenure_tool EXPORT tenureTargets)
set_target_properties(tenure_tool PROPERTIES EXPORT_NAME command)
set_target_properties(tenure_static PROPERTIES EXPORT_NAME static)
install(EXPORT tenureTargets NAMESPACE tenure:: DESTINATION ${package_dir})
install(EXPORT tenureStaticTargets NAMESPACE tenure:: DESTINATION ${package_dir})
configure_package_config_file(cmake/tenureConfig.cmake.in tenureConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(tenureConfigVersion.cmake COMPATIBILITY SameMinorVersion)
# The .pc file finds its prefix from where it lies: an installed folder may be moved.
file(RELATIVE_PATH up /x/${CMAKE_INSTALL_LIBDIR}/pkgconfig /x)
configure_file(cmake/tenure.pc.in tenure.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/tenureConfig.cmake ${CMAKE_BINARY_DIR}/tenureConfigVersion.cmake
        cmake/tenureBundle.cmake DESTINATION ${package_dir})
install(FILES ${CMAKE_BINARY_DIR}/tenure.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
