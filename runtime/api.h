// RT_API: what libtenure calls of libtenure_runtime besides the public functions. Both are always of one build: such symbols
// have the version TENURE_PRIVATE, and no program takes them (tests/test_abi.sh).
#ifndef TN_RUNTIME_API_H
#define TN_RUNTIME_API_H

#if defined(__GNUC__)
#define RT_API __attribute__((visibility("default")))
#else
#define RT_API
#endif

#endif
