# The shared libraries. Exported are the public calls, version TENURE_0, and what libtenure calls of libtenure_runtime (RT_API),
# version TENURE_PRIVATE; tests/test_abi.sh compares both with tests/abi/.
function(tenure_shared name version_script)  # name SCRIPT OBJECTS .. NEEDS ..
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "OBJECTS;NEEDS")
  add_library(${name} SHARED ${arg_OBJECTS})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0
                        LINK_DEPENDS ${CMAKE_SOURCE_DIR}/${version_script})
  target_link_libraries(${name} PRIVATE ${arg_NEEDS} tenure_flags)
  # -Bsymbolic-functions: its own calls of exported functions are direct
  target_link_options(${name} PRIVATE LINKER:--as-needed LINKER:-Bsymbolic-functions
                      LINKER:--version-script=${CMAKE_SOURCE_DIR}/${version_script})
  if(NOT TENURE_SANITIZE AND NOT TENURE_TSAN)
    target_link_options(${name} PRIVATE LINKER:--no-undefined)
  endif()
  tenure_users(${name})
endfunction()
tenure_shared(tenure_runtime cmake/tenure_runtime.map OBJECTS ${runtime_objects} NEEDS ${runtime_needs})
tenure_shared(tenure cmake/tenure.map OBJECTS ${compiler_objects} NEEDS ${compiler_needs})
target_link_libraries(tenure PUBLIC tenure_runtime)  # a program calls both: the linker wants to see both
