/* lanes.h: accumulators and partial results of reductions, for exec_reduce.c. */
#ifndef DYN_LANES_H
#define DYN_LANES_H
#include "codegen/exec.h"

typedef union DynPart { /* one partial result of any type, at its start */
    double f64;
    float f32;
    double _Complex c128;
    float _Complex c64;
    int64_t i64;
} DynPart;
/* to[i] = to[i] op from[i] for i < n. Raises no flag for nan in MAX and MIN. */
typedef void DynLanesFn(void *to, const void *from, int n);
DYN_HIDDEN DynLanesFn *dyn_lanes_combine(uint16_t op, uint8_t dtype);
DYN_HIDDEN void dyn_part_combine(uint16_t op, uint8_t dtype, DynPart *to, const DynPart *from);
DYN_HIDDEN DynPart dyn_part_identity(uint16_t op,
                                     uint8_t dtype); /* where accumulators start; also the result of nothing at all */
DYN_HIDDEN void dyn_lanes_fill(void *to, DynPart value, uint8_t size, int n);
#endif
