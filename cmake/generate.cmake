# What tools/gen writes from the tables of ir/: headers, built before everything that includes them, and reference pages.
#   generated/include   tenure_ops.h, tenure_site.h (installed)
#   generated/private   pointwise_calls.h; explain_pages.h, for the command; pointwise_list.h and diagnostic_programs.h, for tests
# cmake --build --preset release --target pages: the pages in docs/, which are checked in (tests/test_generate.sh)
file(GLOB gen_sources CONFIGURE_DEPENDS tools/gen/*.c)
add_executable(tenure_gen ${gen_sources})
target_include_directories(tenure_gen PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(tenure_gen PRIVATE tenure_flags)

set(TENURE_GENERATED ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${TENURE_GENERATED}/include ${TENURE_GENERATED}/private)
function(tenure_generate output what)
  add_custom_command(OUTPUT ${TENURE_GENERATED}/${output} COMMAND tenure_gen ${what} ${TENURE_GENERATED}/${output} ${ARGN}
                     DEPENDS tenure_gen ${ARGN} VERBATIM)
endfunction()
file(GLOB site_headers CONFIGURE_DEPENDS frontend/tenure/*.h)
tenure_generate(include/tenure_ops.h calls-header)
tenure_generate(include/tenure_site.h sites ${TENURE_GENERATED}/include/tenure_ops.h ${site_headers})
tenure_generate(private/pointwise_calls.h calls)
tenure_generate(private/pointwise_list.h call-list)
file(GLOB diag_pages CONFIGURE_DEPENDS docs/diagnostics/*.md)
foreach(what explain-pages:explain_pages.h diag-programs:diagnostic_programs.h)
  string(REPLACE : ";" what ${what})
  list(GET what 1 header)
  list(GET what 0 what)
  add_custom_command(OUTPUT ${TENURE_GENERATED}/private/${header} COMMAND tenure_gen ${what} ${TENURE_GENERATED}/private/${header}
                     ${CMAKE_SOURCE_DIR} DEPENDS tenure_gen ${diag_pages} VERBATIM)
endforeach()
add_custom_target(tenure_diag_pages DEPENDS ${TENURE_GENERATED}/private/explain_pages.h
                  ${TENURE_GENERATED}/private/diagnostic_programs.h)
add_custom_target(tenure_headers DEPENDS ${TENURE_GENERATED}/include/tenure_ops.h
                  ${TENURE_GENERATED}/include/tenure_site.h ${TENURE_GENERATED}/private/pointwise_calls.h
                  ${TENURE_GENERATED}/private/pointwise_list.h)
add_custom_target(pages COMMAND tenure_gen pages ${CMAKE_SOURCE_DIR} VERBATIM)
