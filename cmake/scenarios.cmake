# Scenario tables: tests/scenarios_*.c is a program each, and every SCENARIO(id) in it a case scenario_id, label `scenarios`.
# Story files: tests/story_*.c is a program each, label `stories`. Both work as the tests of cmake/tests.cmake do.
file(GLOB scenario_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/scenarios_*.c ${CMAKE_SOURCE_DIR}/tests/story_*.c)
foreach(source ${scenario_sources})
  get_filename_component(name ${source} NAME_WE)
  tenure_program(${name} scenarios SOURCES ${source})
  if(name MATCHES "^story_")
    tenure_test(${name} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
    set_tests_properties(${name} PROPERTIES LABELS stories)
    continue()
  endif()
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})  # a new case is a new test
  file(STRINGS ${source} lines REGEX "^SCENARIO\\(")
  foreach(line ${lines})
    string(REGEX REPLACE "^SCENARIO\\(([A-Za-z0-9_]+)\\).*" "\\1" id "${line}")
    tenure_test(scenario_${id} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} ${id})
    set_tests_properties(scenario_${id} PROPERTIES LABELS scenarios)
  endforeach()
endforeach()
