# tests/fuzz_NAME.c holds LLVMFuzzerTestOneInput; its seed corpus is tests/corpus/NAME.
file(GLOB fuzz_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE=)
  target_link_libraries(${name} PRIVATE tenure_static tenure_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endforeach()
