// Names that may have been meant: the nearest to one that is not there, of all that are.
//
//   RtNear near = {.wanted = "stepp"};
//   for (..) rt_near_offer(&near, name[k]);
//   rt_fail(error, size, "no function '%s'%s", near.wanted, rt_near_text(&near));     ..; did you mean 'step'?
#ifndef TN_RUNTIME_NEAR_H
#define TN_RUNTIME_NEAR_H

#include "runtime/api.h"

#include <stdbool.h>
#include <stdint.h>

enum { RT_NEAR_SIZE = 480, RT_NEAR_LISTED = 6 };
typedef struct {
  const char *wanted;
  const char *name;  // the nearest of those offered so far; NULL: none is near enough to be meant
  uint32_t distance;
  const char *offered[RT_NEAR_LISTED];  // the first ones
  uint32_t n_offered;
  char text[RT_NEAR_SIZE];
} RtNear;

// Letters left out, added, replaced or swapped, up to a third of the name; upper case for lower; the end of a path.
RT_API void rt_near_offer(RtNear *n, const char *name);
RT_API const char *rt_near_text(RtNear *n);  // "; did you mean 'step'?", or ""; lives in *n
// The same, or the names that were offered, where none is near: "; there is 'step'", "; there are 'x', 'y' and 3 more"
RT_API const char *rt_near_or_all(RtNear *n);

#endif
