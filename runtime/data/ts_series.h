// Labelled multivariate time series from a UEA/UCR .ts file.
//
//   @dimensions 2
//   @classLabel true left right
//   @data
//   0.1,0.2,0.3:5,6,7:left        two dimensions of three steps each, then the class
#ifndef TN_RUNTIME_DATA_TS_SERIES_H
#define TN_RUNTIME_DATA_TS_SERIES_H

#include "runtime/base.h"

typedef struct RtSeries RtSeries;

// NULL: `error` says "file:line: what was found". Values must be finite numbers; all dimensions of a case equally long.
RtSeries *rt_series_read(const char *path, char *error, size_t error_size);
RtSeries *rt_series_parse(const char *name, const void *bytes, size_t n, char *error, size_t error_size);
void rt_series_free(RtSeries *s);  // NULL: nothing
size_t rt_series_count(const RtSeries *s);
uint32_t rt_series_features(const RtSeries *s);
uint32_t rt_series_max_length(const RtSeries *s);
uint32_t rt_series_classes(const RtSeries *s);
const char *rt_series_class_name(const RtSeries *s, uint32_t label);  // NULL: no such class
// Of case k; 0, 0 and NULL when there is no such case.
uint32_t rt_series_length(const RtSeries *s, size_t k);
uint32_t rt_series_label(const RtSeries *s, size_t k);       // 0-based, in the order of the header's class list
const float *rt_series_values(const RtSeries *s, size_t k);  // [length, features]

#endif
