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
# Sanitizers do not watch generated code: there, and in guarded arenas, it is made in half the time. The same tests run optimized
# code in release.
if(TENURE_SANITIZE OR TENURE_TSAN OR CMAKE_BUILD_TYPE STREQUAL Quick)
  list(APPEND test_env TN_LLVM=O0)
endif()

function(tenure_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY ${scratch} ENVIRONMENT "${test_env}" TIMEOUT 600)
endfunction()
function(tenure_label label)  # LABEL TEST ..
  foreach(name ${ARGN})
    set_property(TEST ${name} APPEND PROPERTY LABELS ${label})
  endforeach()
endfunction()

# The subject of a program is the first line that its name fits; what fits none is of `calls`.
set(test_subjects
  "threads:threads|probe_views|team|one_run|loaders|feed_.*|packed_weights|ranks|owned"
  "alone:compile_faults|compile_memory|model|trust|kill|bundle_wide"
  "ops:placement|schedule|orders|recompute|checkpoint.*|pointwise|ops|ops_jit|grad_table|grad_edges|text|verify_rules|misuse|misuse_calls|random|random_reach|golden|folds|shapes|rules"
  "random:inplace_random|bundle_random|mutants|faults|select_shapes|draw|self_check|scan_random|image_random"
  "bundles:bundle_.*|open_bundle|constants|constant_sizes|code_size|link"
  "packed:packed.*|pack_.*|buckets|conv_packed"
  "loops:rnn.*|scan.*|linear_scan|fuse_rnn_input"
  "data:bigdata|image.*|media_files|readers|streams|disk_full|stored|cache"
  "products:gemm|winograd|depthwise|conv_.*|amx|attention|triangular|lu|values|whole|concat|transpose|fuse_.*|moments|norm.*|rope"
  "kernels:row_kernels|sum_order|pool_sizes|vector_math|dtypes|targets|arena_guards|growth|run_sizes|probes|nan_check"
  "models:gpt2|resnet|vowels|train|optimizers|module_.*|tied.*|loss.*|counters|sparse_updates|sampling|second_grad.*|shard.*|cluster")
file(GLOB test_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/test_*.c)
foreach(source ${test_sources})
  get_filename_component(name ${source} NAME_WE)
  set(subject calls)
  foreach(line ${test_subjects})
    string(REGEX MATCH "^([a-z]+):(.*)$" line ${line})
    set(word ${CMAKE_MATCH_1})
    if(name MATCHES "^test_(${CMAKE_MATCH_2})$")
      set(subject ${word})
      break()
    endif()
  endforeach()
  tenure_program(${name} ${subject} SOURCES ${source})
  tenure_test(${name} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
  tenure_label(${subject} ${name})
endforeach()
foreach(part gpt2/model gpt2/bpe gpt2/words gpt2/sample resnet/model)
  tenure_parts(models ${CMAKE_SOURCE_DIR}/examples/${part}.c)
endforeach()

# tests/op_cases/SUBJECT.def: public calls against PyTorch
file(GLOB case_tables CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/op_cases/*.def)
foreach(table ${case_tables})
  get_filename_component(subject ${table} NAME_WE)
  set(name test_op_cases_${subject})
  tenure_program(${name} op_cases SOURCES ${CMAKE_SOURCE_DIR}/tests/op_cases/op_cases.c
                 DEFINES CASES="tests/op_cases/${subject}.def" RESULTS="tests/op_cases/${subject}")
  tenure_test(${name} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name})
  tenure_label(op_cases ${name})
endforeach()
add_custom_target(op_cases DEPENDS tests_op_cases)

add_dependencies(test_diagnostic_pages_program tenure_diag_pages)

# test_self_check: the search of `tenure bisect` and `reduce`, with damage to find; test_draw: what bisect makes up as inputs
foreach(part self_check arrays bisect_find reduce_edits)
  tenure_parts(random ${CMAKE_SOURCE_DIR}/tools/${part}.c)
endforeach()
file(GLOB random_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/random_*.c)
set(trial_sources ${CMAKE_SOURCE_DIR}/tests/trial.c ${CMAKE_SOURCE_DIR}/tests/foreign.c)
file(GLOB fault_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/faults_*.c)
tenure_parts(ops ${random_sources} ${trial_sources})
tenure_parts(random ${random_sources} ${trial_sources} ${fault_sources} ${CMAKE_SOURCE_DIR}/tests/fuzz_run.c
             ${CMAKE_SOURCE_DIR}/tests/tir_mutate.c)
target_compile_definitions(test_targets_program PRIVATE TN_LLVM_MAJOR="${LLVM_VERSION_MAJOR}")

add_executable(json_query ${CMAKE_SOURCE_DIR}/tests/json_query.c)  # for tests/command.sh
target_compile_definitions(json_query PRIVATE _GNU_SOURCE=)
target_include_directories(json_query PRIVATE ${CMAKE_SOURCE_DIR})
target_link_libraries(json_query PRIVATE tenure_flags)

# Programs for other machines, run by qemu: skipped where its tools are missing (status 77). One of 16 cases of ops, and all of
# them where the label `all` is run.
tenure_program(foreign_ops random SOURCES ${CMAKE_SOURCE_DIR}/tests/foreign_ops.c)
foreach(target x86-64-v2 aarch64 riscv64)
  tenure_test(test_foreign_ops_${target} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/foreign_ops --every 16 ${target})
  tenure_test(test_foreign_ops_${target}_all ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/foreign_ops ${target})
  tenure_label(all test_foreign_ops_${target}_all)
  tenure_test(test_foreign_random_${target} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_random --on ${target} --count 40)
  tenure_test(test_foreign_selects_${target} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_select_shapes --on ${target})
  set_tests_properties(test_foreign_ops_${target} test_foreign_ops_${target}_all test_foreign_random_${target}
                       test_foreign_selects_${target} PROPERTIES
                       SKIP_RETURN_CODE 77 TIMEOUT 1200)
  tenure_label(once test_foreign_ops_${target} test_foreign_ops_${target}_all test_foreign_random_${target} test_foreign_selects_${target})
endforeach()
# A machine is booted for each case: every tenth here, all of them by `foreign_ops thumbv8.1m` in three minutes.
tenure_test(test_foreign_ops_thumbv8.1m ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/foreign_ops --every 10 thumbv8.1m)
set_tests_properties(test_foreign_ops_thumbv8.1m PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 1200)
tenure_label(once test_foreign_ops_thumbv8.1m)

file(GLOB once_different CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/corpus/random/*.tir)  # what it once found
tenure_test(test_random_corpus ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_random --file ${once_different})
tenure_test(test_placement_all ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_placement --all)
tenure_test(test_schedule_all ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_schedule --all)
tenure_test(test_orders_all ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_orders --all)
tenure_label(all test_placement_all test_schedule_all test_orders_all)
tenure_label(once test_placement_all test_schedule_all test_orders_all)
# The same training by a model of this process, for tests/test_bundle_examples.sh.
tenure_program(bundle_vowels bundles SOURCES ${CMAKE_SOURCE_DIR}/tests/bundle_vowels.c)

# What tests/test_tools_agree.sh compares plans of
tenure_program(plan_programs calls SOURCES ${CMAKE_SOURCE_DIR}/tests/plan_programs.c)

# Errors of results beside doubles, held to the bars of bench/accuracy.def: on the rows of CPUs for which they were measured.
function(tenure_accuracy name row flag)
  file(READ /proc/cpuinfo cpu)
  if(cpu MATCHES " ${flag} ")
    tenure_test(${name} ${CMAKE_COMMAND} -E env TN_TARGET=${row} $<TARGET_FILE:tenure_bench> accuracy --bars)
    tenure_label(once ${name})
  endif()
endfunction()
if(TARGET tenure_bench AND EXISTS /proc/cpuinfo)
  tenure_accuracy(test_accuracy avx512 avx512vl)
  tenure_accuracy(test_accuracy_avx2 avx2 avx2)
endif()

# What tests/test_probe_cost.sh counts the instructions of
tenure_program(probe_cost alone SOURCES ${CMAKE_SOURCE_DIR}/tests/probe_cost.c)

tenure_test(test_random_chains ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_random --chains --count 60 --seed 9010)
tenure_test(test_random_calls ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_random --calls --count 60 --seed 9020)
tenure_test(test_bundle_random_calls ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_bundle_random --calls --count 4 --seed 900)
tenure_test(test_random_guarded ${CMAKE_COMMAND} -E env TN_CHECK=arena ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_random --seed 1000)

file(GLOB test_scripts CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/test_*.sh)
foreach(script ${test_scripts})
  get_filename_component(name ${script} NAME_WE)
  tenure_test(${name} bash ${script})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
endforeach()
set_tests_properties(test_bundle_examples test_bundle_object test_probe_cost test_one_row PROPERTIES TIMEOUT 1800)
set_tests_properties(test_one_row PROPERTIES PROCESSORS 2)
if(TARGET tenure_mpi)
  set_property(TEST test_mpi test_mpi_kill test_mpi_valgrind APPEND PROPERTY ENVIRONMENT TENURE_MPIEXEC=${MPIEXEC_EXECUTABLE})
endif()
# Labels say which of tools/check's stages have a test.
# `once`: objects of bundles, packages, documentation and rules of the sources, which neither sanitizers nor a guarded arena change;
#   longer runs of what has a shorter one.
# `long`: four fifths of its time and more is that of LLVM, of its processes and of generated code, which no sanitizer watches;
#   `tools/check --all` runs it under sanitizers too.
# `plain`: its subject is what programs mean, not how LLVM optimizes them; tools/check runs it with TN_LLVM=O0 in release, and
#   `tools/check --all` with optimized code.
# `quick`: what `tools/check --quick` runs. `all`: what `tools/check --all` alone runs.
# `threads`: what threads do to each other, all that the preset tsan builds and runs.
tenure_label(once test_bundle_examples test_bundle_object test_probe_cost test_mpi_kill test_mpi_valgrind test_one_row test_names
             test_layers test_number_text test_report_page test_install test_packages test_abi test_bundle_cpus
             test_bundle_constants test_bundle_stack test_bench_page test_docstrings test_generate test_calls test_readme)
tenure_label(all test_one_row)
tenure_label(packages test_install test_packages test_abi)
tenure_label(long test_folds test_gemm test_winograd test_moments test_mpi test_ops_jit test_fuse_update test_examples
             test_triangular test_attention test_concat test_image_sizes test_image_random test_conv_padding test_bundle_random)
tenure_label(plain test_recompute test_checkpoint test_checkpoint_mixed test_module_cases test_second_grad test_second_grad_sequences
             test_ranks test_shards test_owned test_fuse_update test_image_sizes test_optimizers test_stored test_loss test_whole
             test_rnn_calls test_rnn_hooks test_rnn_zero_state test_scan_captures test_packed_along)
tenure_label(quick test_golden test_grad_edges test_grad_table test_misuse test_misuse_calls test_ops test_placement test_recompute test_schedule test_orders test_pointwise test_rules
             test_shapes test_text test_verify_rules)
add_custom_target(quick_tests DEPENDS tests_ops tests_scenarios)
# The slow ones first, so that none is left alone at the end.
set_tests_properties(test_folds test_gemm test_winograd test_moments test_mpi test_ops_jit test_one_row test_examples test_bundle_object
                     test_least test_faults test_recompute test_ranks PROPERTIES COST 100)

# tests/fuzz_NAME.c holds LLVMFuzzerTestOneInput; its seed corpus is tests/corpus/NAME. A fuzzer where the compiler has them,
# elsewhere a program that reads the corpus once.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  string(REPLACE fuzz_ "" corpus ${name})
  if(TENURE_FUZZERS)
    tenure_program(${name} alone SOURCES ${source})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    tenure_test(corpus_${corpus} ${name} -runs=0 ${CMAKE_SOURCE_DIR}/tests/corpus/${corpus})
  else()
    tenure_program(${name} corpora SOURCES ${CMAKE_SOURCE_DIR}/tests/corpus_main.c ${source}
                   DEFINES LLVMFuzzerTestOneInput=${name}_input COMPILED_OF=1)
    tenure_test(corpus_${corpus} ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${name} ${CMAKE_SOURCE_DIR}/tests/corpus/${corpus})
  endif()
endforeach()
if(TENURE_FUZZERS)
  target_sources(fuzz_run PRIVATE ${trial_sources} ${CMAKE_SOURCE_DIR}/tests/tir_mutate.c)
else()
  tenure_parts(corpora ${trial_sources} ${CMAKE_SOURCE_DIR}/tests/tir_mutate.c)
endif()

foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  file(STRINGS ${source} line REGEX "^// ctest:" LIMIT_COUNT 1)
  if(line)
    string(REGEX REPLACE "^// ctest: *" "" arguments "${line}")
    separate_arguments(arguments UNIX_COMMAND "${arguments}")
    tenure_test(example_${name} $<TARGET_FILE:${name}> ${arguments})
  endif()
endforeach()
tenure_label(long example_dqn example_gpt)

tenure_test(threads_profile ${CMAKE_COMMAND} -E env TN_PROFILE=1 TN_TRACE=threads_trace.json
            ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/test_threads)  # counts and traces kernels
tenure_label(threads threads_profile)
add_custom_target(thread_tests DEPENDS tests_threads)
