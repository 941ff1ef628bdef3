/* times.h: what each step of an artifact takes (times.c), for run.c and artifact.c. */
#ifndef DYN_TIMES_H
#define DYN_TIMES_H
#include "codegen/run/call.h"

/* Steps first … last have run as one task, since `began` (dyn_watch_now). */
DYN_HIDDEN void dyn_times_step(DynCall *c, DynTaskId id, uint32_t first, uint32_t last, int64_t began);
/* A range of PyTorch's profiler for a step that is a kernel, begun; NULL: it is none. */
DYN_HIDDEN PyObject *dyn_times_range(const DynCall *c, uint32_t s);
DYN_HIDDEN void dyn_times_free(DynStepTimes *t);
#endif
