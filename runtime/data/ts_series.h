// Multivariate time series with classes or targets from a UEA/UCR .ts file.
//
//   @dimensions 2
//   @classLabel true left right
//   @data
//   0.1,0.2,0.3:5,6,?:left        two dimensions of three steps each, then the class; `?`: a missing value
//
// With `@targetLabel true` instead of classes the last field is a number, the target of a regression.
#ifndef TN_RUNTIME_DATA_TS_SERIES_H
#define TN_RUNTIME_DATA_TS_SERIES_H

#include "runtime/base.h"

typedef struct RtSeries RtSeries;

typedef enum { RT_MISSING_REFUSE, RT_MISSING_NAN, RT_MISSING_MASK } RtMissing;  // as tn_missing
typedef struct {
  RtMissing missing;  // what becomes of `?` and `NaN`: an error, NaN, or 0 with a mask
} RtSeriesOptions;

// NULL: `error` says "file:line: what was found". Values must be finite numbers; all dimensions of a case equally long.
// o NULL: zeros.
RtSeries *rt_series_read(const char *path, const RtSeriesOptions *o, char *error, size_t error_size);
RtSeries *rt_series_parse(const char *name, const void *bytes, size_t n, const RtSeriesOptions *o, char *error,
                          size_t error_size);
void rt_series_free(RtSeries *s);  // NULL: nothing
size_t rt_series_count(const RtSeries *s);
uint32_t rt_series_features(const RtSeries *s);
uint32_t rt_series_max_length(const RtSeries *s);
uint32_t rt_series_classes(const RtSeries *s);  // 0: of a regression
bool rt_series_has_mask(const RtSeries *s);
const char *rt_series_class_name(const RtSeries *s, uint32_t label);  // NULL: no such class
// Of case k; 0, 0 and NULL when there is no such case.
uint32_t rt_series_length(const RtSeries *s, size_t k);
uint32_t rt_series_label(const RtSeries *s, size_t k);       // 0-based, in the order of the header's class list
float rt_series_target(const RtSeries *s, size_t k);         // of a regression; else 0
const float *rt_series_values(const RtSeries *s, size_t k);  // [length, features]
const float *rt_series_mask(const RtSeries *s, size_t k);    // the same: 0 where a value is missing, else 1; NULL: none

#endif
