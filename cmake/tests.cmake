# Tests run in build/*/scratch, where `data`, `docs`, `examples`, `frontend` and `tests` are links to the tree: relative paths work from there and
# what a test writes never lands in the tree.
#   tests/test_NAME.c   a program; status 0 passes
#   tests/test_NAME.sh  a bash script; gets TENURE_SOURCE, TENURE_BUILD, TENURE_CC
#   tests/op_cases/SUBJECT.def   a table of cases: test_op_cases_*
#   tests/fuzz_NAME.c   linked with tests/corpus_main.c: every file of tests/corpus/NAME once
#   examples/NAME.c     run with the arguments in its line `// ctest: ...` (none: not run)
set(scratch ${CMAKE_BINARY_DIR}/scratch)
file(MAKE_DIRECTORY ${scratch})
foreach(folder data docs examples frontend tests)
  file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${scratch}/${folder} SYMBOLIC)
endforeach()
set(test_env TN_CACHE=${CMAKE_BINARY_DIR}/cache TENURE_SOURCE=${CMAKE_SOURCE_DIR} TENURE_BUILD=${CMAKE_BINARY_DIR}
    TENURE_CC=${CMAKE_C_COMPILER} ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
    TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:print_suppressions=0:die_after_fork=0
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/lsan.supp:print_suppressions=0 UBSAN_OPTIONS=print_stacktrace=1)

function(tenure_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY ${scratch} ENVIRONMENT "${test_env}" TIMEOUT 600)
endfunction()

file(GLOB test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/test_*.c)
foreach(source ${test_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
  target_link_libraries(${name} PRIVATE tenure_static tenure_flags)
  tenure_test(${name} ${name})
endforeach()
foreach(part model bpe words sample)
  target_sources(test_gpt2 PRIVATE ${CMAKE_SOURCE_DIR}/examples/gpt2/${part}.c)
endforeach()
target_sources(test_resnet PRIVATE ${CMAKE_SOURCE_DIR}/examples/resnet/model.c)

# tests/op_cases/SUBJECT.def: public calls against PyTorch
file(GLOB case_tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/op_cases/*.def)
add_custom_target(op_cases)
foreach(table ${case_tables})
  get_filename_component(subject ${table} NAME_WE)
  set(name test_op_cases_${subject})
  set(literals tests/op_cases/${subject}.literals)
  add_executable(${name} ${CMAKE_SOURCE_DIR}/tests/op_cases/op_cases.c)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE= CASES="tests/op_cases/${subject}.def" LITERALS="${literals}")
  target_link_libraries(${name} PRIVATE tenure_static tenure_flags)
  add_dependencies(op_cases ${name})
  tenure_test(${name} ${name})
endforeach()

foreach(name test_misuse test_misuse_calls test_pointwise test_diagnostic_pages)
  target_include_directories(${name} PRIVATE ${TENURE_GENERATED}/private)  # pointwise_list.h, diagnostic_programs.h
endforeach()
add_dependencies(test_diagnostic_pages tenure_diag_pages)

# The search of `tenure bisect` and `reduce`, with damage to find
target_sources(test_self_check PRIVATE ${CMAKE_SOURCE_DIR}/tools/self_check.c ${CMAKE_SOURCE_DIR}/tools/arrays.c
    ${CMAKE_SOURCE_DIR}/tools/bisect_find.c ${CMAKE_SOURCE_DIR}/tools/reduce_edits.c)

# What `tenure bisect` makes up as inputs
target_sources(test_draw PRIVATE ${CMAKE_SOURCE_DIR}/tools/self_check.c ${CMAKE_SOURCE_DIR}/tools/arrays.c)

file(GLOB random_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/random_*.c)
list(REMOVE_ITEM random_sources ${CMAKE_SOURCE_DIR}/tests/random_oracle.c)
set(trial_sources ${CMAKE_SOURCE_DIR}/tests/trial.c ${CMAKE_SOURCE_DIR}/tests/foreign.c)
target_sources(test_random PRIVATE ${random_sources} ${CMAKE_SOURCE_DIR}/tests/random_oracle.c ${trial_sources})

target_sources(test_random_reach PRIVATE ${random_sources})

target_compile_definitions(test_targets PRIVATE TN_LLVM_MAJOR="${LLVM_VERSION_MAJOR}")

target_sources(test_select_shapes PRIVATE ${trial_sources})

target_sources(test_bundle_random PRIVATE ${random_sources} ${trial_sources})

target_sources(test_mutants PRIVATE ${CMAKE_SOURCE_DIR}/tests/fuzz_run.c ${trial_sources}
    ${CMAKE_SOURCE_DIR}/tests/tir_mutate.c)

target_sources(test_faults PRIVATE ${CMAKE_SOURCE_DIR}/tests/faults_liveness.c ${CMAKE_SOURCE_DIR}/tests/faults_memory.c
    ${CMAKE_SOURCE_DIR}/tests/faults_order.c ${CMAKE_SOURCE_DIR}/tests/faults_verify.c ${CMAKE_SOURCE_DIR}/tests/faults_arena.c
    ${random_sources})

add_executable(json_query ${CMAKE_SOURCE_DIR}/tests/json_query.c)  # for tests/command.sh
target_compile_definitions(json_query PRIVATE _GNU_SOURCE=)
target_include_directories(json_query PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(json_query PRIVATE tenure_flags)

# Programs for other machines, run by qemu: skipped where its tools are missing (status 77).
add_executable(foreign_ops ${CMAKE_SOURCE_DIR}/tests/foreign_ops.c ${CMAKE_SOURCE_DIR}/tests/foreign.c)
target_compile_definitions(foreign_ops PRIVATE _GNU_SOURCE=)
target_link_libraries(foreign_ops PRIVATE tenure_static tenure_flags)
foreach(target x86-64-v2 aarch64 riscv64)
  tenure_test(test_foreign_ops_${target} foreign_ops ${target})
  tenure_test(test_foreign_random_${target} $<TARGET_FILE:test_random> --on ${target} --count 40)
  tenure_test(test_foreign_selects_${target} $<TARGET_FILE:test_select_shapes> --on ${target})
  set_tests_properties(test_foreign_ops_${target} test_foreign_random_${target} test_foreign_selects_${target} PROPERTIES
                       SKIP_RETURN_CODE 77 TIMEOUT 1200 LABELS once)
endforeach()
# A machine is booted for each case: every tenth here, all of them by `foreign_ops thumbv8.1m` in three minutes.
tenure_test(test_foreign_ops_thumbv8.1m foreign_ops --every 10 thumbv8.1m)
set_tests_properties(test_foreign_ops_thumbv8.1m PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200 LABELS once)

file(GLOB once_different CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/corpus/random/*.tir)  # what it once found
tenure_test(test_random_corpus test_random --file ${once_different})
# The same training by a model of this process, for tests/test_bundle_examples.sh.
add_executable(bundle_vowels ${CMAKE_SOURCE_DIR}/tests/bundle_vowels.c)
target_compile_definitions(bundle_vowels PRIVATE _GNU_SOURCE=)
target_link_libraries(bundle_vowels PRIVATE tenure_static tenure_flags)

# What tests/test_tools_agree.sh compares plans of
add_executable(plan_programs ${CMAKE_SOURCE_DIR}/tests/plan_programs.c)
target_compile_definitions(plan_programs PRIVATE _GNU_SOURCE=)
target_link_libraries(plan_programs PRIVATE tenure_static tenure_flags)

# Errors of results beside doubles, held to the bars of bench/accuracy.def
if(TARGET tenure_bench)
  tenure_test(test_accuracy $<TARGET_FILE:tenure_bench> accuracy --bars)
  set_tests_properties(test_accuracy PROPERTIES LABELS once)
endif()

# What tests/test_probe_cost.sh counts the instructions of
add_executable(probe_cost ${CMAKE_SOURCE_DIR}/tests/probe_cost.c)
target_compile_definitions(probe_cost PRIVATE _GNU_SOURCE=)
target_link_libraries(probe_cost PRIVATE tenure_static tenure_flags)

tenure_test(test_random_chains test_random --chains --count 60 --seed 9010)
tenure_test(test_random_guarded ${CMAKE_COMMAND} -E env TN_CHECK=arena $<TARGET_FILE:test_random> --seed 1000)

file(GLOB test_scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/test_*.sh)
foreach(script ${test_scripts})
  get_filename_component(name ${script} NAME_WE)
  tenure_test(${name} bash ${script})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
# The label `once`: objects, packages, and rules of the sources, which neither sanitizers nor a guarded arena change; tools/check
# runs them in release.
set_tests_properties(test_bundle_examples test_bundle_object PROPERTIES TIMEOUT 1800 LABELS once)  # qemu
set_tests_properties(test_probe_cost PROPERTIES TIMEOUT 1800 LABELS once)  # valgrind
if(TARGET tenure_mpi)
  set_property(TEST test_mpi test_mpi_kill test_mpi_valgrind APPEND PROPERTY ENVIRONMENT TENURE_MPIEXEC=${MPIEXEC_EXECUTABLE})
endif()
set_tests_properties(test_mpi_kill test_mpi_valgrind PROPERTIES LABELS once)
set_tests_properties(test_one_row PROPERTIES TIMEOUT 1800 PROCESSORS 2 LABELS once)  # builds the library
set_tests_properties(test_names test_layers test_number_text test_report_page PROPERTIES LABELS once)
set_tests_properties(test_install test_packages test_abi PROPERTIES LABELS "packages;once")

file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE fuzz_ "" corpus ${name})
  add_executable(${name} ${source} ${CMAKE_SOURCE_DIR}/tests/corpus_main.c)
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
  target_link_libraries(${name} PRIVATE tenure_static tenure_flags)
  tenure_test(corpus_${corpus} ${name} ${CMAKE_SOURCE_DIR}/tests/corpus/${corpus})
endforeach()
target_sources(fuzz_run PRIVATE ${trial_sources} ${CMAKE_SOURCE_DIR}/tests/tir_mutate.c)
target_compile_definitions(fuzz_run PRIVATE COMPILED_OF=1)

foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} line REGEX "^// ctest:" LIMIT_COUNT 1)
  if(line)
    string(REGEX REPLACE "^// ctest: *" "" arguments "${line}")
    separate_arguments(arguments UNIX_COMMAND "${arguments}")
    tenure_test(example_${name} $<TARGET_FILE:${name}> ${arguments})
  endif()
endforeach()

# What threads do to each other: the label `threads`, all that the preset tsan builds and runs. The last ones count and trace kernels.
set(thread_tests test_threads test_probe_views test_team test_one_run test_loaders test_feed_faults test_packed_weights test_ranks test_owned)
add_custom_target(thread_tests DEPENDS ${thread_tests})
tenure_test(threads_profile ${CMAKE_COMMAND} -E env TN_PROFILE=1 TN_TRACE=threads_trace.json $<TARGET_FILE:test_threads>)
set_tests_properties(${thread_tests} threads_profile PROPERTIES LABELS threads)
