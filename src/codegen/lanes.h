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
/* DYN_REDUCE_LANES accumulators to the first of them: the upper half into the lower, and so on. */
typedef void DynLanesTreeFn(void *lanes);
DYN_HIDDEN DynLanesTreeFn *dyn_lanes_tree(uint16_t op, uint8_t dtype);
DYN_HIDDEN void dyn_part_combine(uint16_t op, uint8_t dtype, DynPart *to, const DynPart *from);
DYN_HIDDEN DynPart dyn_part_identity(uint16_t op,
                                     uint8_t dtype); /* where accumulators start; also the result of nothing at all */
/* Is x above y, without a flag for nan? Vectors of isgreater raise one where the processor has only comparisons that do, so the
 * bits are compared, those of negative numbers turned round. */
#define QUIET(N, T, I, most)                             \
    static inline bool dyn_above_##N(T x, T y) {         \
        I a, b;                                          \
        memcpy(&a, &x, sizeof(a));                       \
        memcpy(&b, &y, sizeof(b));                       \
        a ^= (a >> (8 * sizeof(a) - 1)) & most;          \
        b ^= (b >> (8 * sizeof(b) - 1)) & most;          \
        return (a > b) & (x != y) & (x == x) & (y == y); \
    }
QUIET(F32, float, int32_t, INT32_MAX)
QUIET(F64, double, int64_t, INT64_MAX)
#undef QUIET
#endif
