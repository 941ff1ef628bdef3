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
/* exec_reduce.c: all reduced axes (the span) of one output element, whose operands stand at `at`. */
typedef struct DynResults {
    const DynInsn *insn[DYN_MAX_RESULTS];
    DynLanesFn *combine[DYN_MAX_RESULTS];
    DynLanesTreeFn *tree[DYN_MAX_RESULTS];
    DynPart identity[DYN_MAX_RESULTS];
    size_t bytes[DYN_MAX_RESULTS];                                             /* of lanes */
    _Alignas(64) char start[DYN_MAX_RESULTS][DYN_REDUCE_LANES * DYN_MAX_SIZE]; /* lanes of the identity */
    int n;
    bool any_order; /* the same bits in whatever order: no blocks are needed */
} DynResults;
DYN_HIDDEN void dyn_reduce_results(const DynKernel *k, DynResults *r);
DYN_HIDDEN void dyn_reduce_run(const DynBound *b, const DynSpan *s, char *const *at, const DynResults *r, DynScratch *scratch);

/* Is x above y, without a flag for nan? The processors' comparisons raise one, so where one of them is nan two zeros are
 * compared. */
#define QUIET(N, T, I)                                \
    static inline bool dyn_above_##N(T x, T y) {      \
        I a, b, o = -(I)!__builtin_isunordered(x, y); \
        memcpy(&a, &x, sizeof(a));                    \
        memcpy(&b, &y, sizeof(b));                    \
        a &= o;                                       \
        b &= o;                                       \
        memcpy(&x, &a, sizeof(a));                    \
        memcpy(&y, &b, sizeof(b));                    \
        return x > y;                                 \
    }
QUIET(F32, float, int32_t)
QUIET(F64, double, int64_t)
#undef QUIET
#endif
