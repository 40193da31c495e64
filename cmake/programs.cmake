# Test programs. To link each by itself would take longer than to compile them all: the programs of a subject are one binary,
# bin/tests_<subject>, and bin/<name> is a link to it: tests/programs.c runs the program whose name it is called by. The target of
# a program builds that binary.
file(MAKE_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})

# tenure_program(NAME SUBJECT SOURCES .. [DEFINES ..]): a program of the library's insides; its first source has the `main`.
# SUBJECT `alone`: a binary of its own, for what replaces functions of the C library or LLVM.
function(tenure_program name subject)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "SOURCES;DEFINES")
  if(subject STREQUAL alone)
    add_executable(${name} ${arg_SOURCES})
    tenure_inside(${name} ${arg_DEFINES})
    return()
  endif()
  add_library(${name}_program OBJECT ${arg_SOURCES})
  tenure_inside(${name}_program "PROGRAM_MAIN=\"${name}_main\"" ${arg_DEFINES})
  target_compile_options(${name}_program PRIVATE -include ${CMAKE_SOURCE_DIR}/tests/program.h)
  set_property(GLOBAL APPEND PROPERTY TENURE_SUBJECTS ${subject})
  set_property(GLOBAL APPEND PROPERTY TENURE_PROGRAMS_${subject} ${name})
  add_custom_target(${name} DEPENDS tests_${subject})
  file(CREATE_LINK tests_${subject} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} SYMBOLIC)
endfunction()

# tenure_parts(SUBJECT SOURCE ..): what several programs of a subject share
function(tenure_parts subject)
  set_property(GLOBAL APPEND PROPERTY TENURE_PARTS_${subject} ${ARGN})
endfunction()

# Of tests no time is spent in their own code: it is compiled in two thirds of the time at -O1.
function(tenure_inside target)  # sees all of the library: TARGET DEFINITION ..
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${target} PRIVATE _GNU_SOURCE= ${ARGN})
  target_include_directories(${target} PRIVATE ${TENURE_GENERATED}/private)
  target_link_libraries(${target} PRIVATE tenure_static tenure_flags)
endfunction()

# Called once, behind the last program
function(tenure_test_binaries)
  get_property(subjects GLOBAL PROPERTY TENURE_SUBJECTS)
  list(REMOVE_DUPLICATES subjects)
  foreach(subject ${subjects})
    get_property(programs GLOBAL PROPERTY TENURE_PROGRAMS_${subject})
    get_property(parts GLOBAL PROPERTY TENURE_PARTS_${subject})
    list(REMOVE_DUPLICATES parts)
    set(lines "")
    set(objects "")
    foreach(name ${programs})
      string(APPEND lines "PROGRAM(${name})\n")
      list(APPEND objects $<TARGET_OBJECTS:${name}_program>)
    endforeach()
    file(CONFIGURE OUTPUT ${TENURE_GENERATED}/private/programs_${subject}.h CONTENT "${lines}")
    add_executable(tests_${subject} ${CMAKE_SOURCE_DIR}/tests/programs.c ${parts} ${objects})
    tenure_inside(tests_${subject} "PROGRAMS=\"programs_${subject}.h\"")
  endforeach()
endfunction()
