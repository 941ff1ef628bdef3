/* cpy_region.h: what native loops need of CPython's insides, beside cpy.h. Used by tracer/region and codegen/region. */
#ifndef DYN_CPY_REGION_H
#define DYN_CPY_REGION_H
#include "base/cpy.h"

/* An exact iterator of a range whose numbers are C longs: the next, how many are left, the step.
 * It can be set to any state that it may come to. `new` is NULL with an exception where memory is out. */
DYN_HIDDEN bool dyn_cpy_range_iterator(PyObject *o, int64_t state[3]);
DYN_HIDDEN void dyn_cpy_range_iterator_set(PyObject *o, const int64_t state[3]);
DYN_HIDDEN PyObject *dyn_cpy_range_iterator_new(const int64_t state[3]);
/* A byte that isn't 0 while the eval breaker of the thread wants something. */
DYN_HIDDEN const volatile unsigned char *dyn_cpy_breaker(PyThreadState *ts);
#endif
