# tenure_bundle(TARGET FILE.tir [OPTION..]): a program compiled ahead of time, as a library to link.
#
#   find_package(tenure 0.1 REQUIRED)
#   tenure_bundle(vowels models/vowels.tir --target=x86-64-v2,x86-64-v3 --functions=predict)
#   add_executable(app app.c)                  # includes vowels.h, calls vowels_predict
#   target_link_libraries(app PRIVATE vowels)  # nothing of Tenure is linked
#
# TARGET names the symbols and the files, too: TARGET.h, TARGET.o, TARGET.safetensors, TARGET.json, TARGET.plan and
# TARGET_selftest.c in ${CMAKE_CURRENT_BINARY_DIR}/TARGET.bundle, which is the library's include folder. Options are those of `tenure bundle`;
# the object is made again when FILE.tir, or a file of --weights=FILE, changes. TARGET_selftest, which `make` alone does not
# build, is a program that compares the object's numbers with those of the compiler's machine.
function(tenure_bundle target file)
  get_filename_component(file ${file} ABSOLUTE)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}.bundle)
  set(inputs ${file})
  foreach(option ${ARGN})
    if(option MATCHES "^--weights=(.*)$")
      get_filename_component(weights ${CMAKE_MATCH_1} ABSOLUTE)
      list(APPEND inputs ${weights})
    endif()
  endforeach()
  file(MAKE_DIRECTORY ${folder})
  set(object ${folder}/${target}.o)
  set(selftest ${folder}/${target}_selftest.c)
  add_custom_command(OUTPUT ${object} ${folder}/${target}.h ${folder}/${target}.safetensors ${folder}/${target}.json
                            ${folder}/${target}.plan ${selftest}
                     COMMAND tenure::command bundle ${file} -o ${folder}/${target} ${ARGN}
                     WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} DEPENDS ${inputs} COMMENT "Bundle ${target}" VERBATIM)
  add_custom_target(${target}_bundle DEPENDS ${object})
  add_library(${target} INTERFACE)
  add_dependencies(${target} ${target}_bundle)
  target_include_directories(${target} INTERFACE ${folder})
  target_link_libraries(${target} INTERFACE ${object})
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("C" IN_LIST languages)
    add_executable(${target}_selftest EXCLUDE_FROM_ALL ${selftest})
    target_link_libraries(${target}_selftest PRIVATE ${target})
  endif()
endfunction()
