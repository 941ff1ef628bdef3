/* lanes.h: accumulators and partial results of reductions, for exec_reduce.c. */
#ifndef DYN_LANES_H
#define DYN_LANES_H
#include "codegen/run/exec.h"
#include <stdatomic.h>

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
/* One result of n values: to = (to op from[0]) op from[1] …; or, of a sum, by halves as NumPy does (order.c), from nothing. */
DYN_HIDDEN DynLanesFn *dyn_lanes_in_turn(uint16_t op, uint8_t dtype);
DYN_HIDDEN DynLanesFn *dyn_lanes_pairwise(uint8_t dtype);
/* Rows of n values, added to n sums in turn; NULL: there is no loop for it. */
typedef void DynRowsAddFn(void *to, const void *from, int64_t rows, int n);
DYN_HIDDEN DynRowsAddFn *dyn_rows_add(uint16_t op, uint8_t dtype);
DYN_HIDDEN void dyn_part_combine(uint16_t op, uint8_t dtype, DynPart *to, const DynPart *from);
DYN_HIDDEN DynPart dyn_part_identity(uint16_t op,
                                     uint8_t dtype); /* where accumulators start; also the result of nothing at all */
/* exec_reduce.c: all reduced axes (the span) of some output elements: operands of the first stand at `from`, those of the next
 * a step behind. */
typedef struct DynResults {
    const DynInsn *insn[DYN_MAX_RESULTS];
    DynLanesFn *combine[DYN_MAX_RESULTS];
    DynLanesTreeFn *tree[DYN_MAX_RESULTS];
    DynPart identity[DYN_MAX_RESULTS];
    size_t bytes[DYN_MAX_RESULTS];                                             /* of lanes */
    _Alignas(64) char start[DYN_MAX_RESULTS][DYN_REDUCE_LANES * DYN_MAX_SIZE]; /* lanes of the identity */
    int n;
    bool any_order; /* the same bits in whatever order */
    bool in_turn;   /* or element after element: no blocks are needed */
} DynResults;
/* A kernel that reduces, over its whole space. */
typedef struct DynReduce {
    const DynBound *b;
    DynSpan span; /* of the reduced axes */
    DynResults results;
    int kept[DYN_MAX_NDIM], nkept; /* axes, the one with the smallest step last; those of size 1 left out */
    int64_t nouter, chunk;         /* results in all; units of one parallel chunk */
    int side_by_side;
    int64_t nlines, columns; /* lanes are results: positions of the kept axes but the last, and size of the last */
    char *const *at;         /* chunks of one result: its operands, and where partial results go */
    DynPart *parts;
    atomic_bool failed; /* memory ran out */
} DynReduce;
/* Operands at a position of the first `naxes` kept axes. */
DYN_HIDDEN void dyn_reduce_place(const DynReduce *e, int naxes, int64_t outer, char **at);
DYN_HIDDEN void dyn_reduce_chunks(void (*fn)(void *, int64_t), void *ctx, int64_t nchunks, int threads);
/* exec_columns.c: does nothing and says false where a lane for each result isn't the best way. may_lay: also where operands have
 * to be laid out for it. */
DYN_HIDDEN bool dyn_reduce_columns(DynReduce *e, int threads, bool may_lay);
/* exec_few.c: the same, where each result is of more than a few elements. */
DYN_HIDDEN bool dyn_reduce_short_axis(DynReduce *e, int threads);
/* exec_ordered.c: a kernel that is `ordered`, over its whole space, and rows of it. */
DYN_HIDDEN void dyn_ordered_run(DynReduce *e, int threads);
DYN_HIDDEN void dyn_ordered_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t rows,
                                 const DynResults *r, DynScratch *scratch);
DYN_HIDDEN void dyn_reduce_results(const DynKernel *k, DynResults *r);
/* Rows of n elements by native code from beginning to end, from `start`; the results stand where `at` says. */
DYN_HIDDEN void dyn_reduce_native(const DynBound *b, int64_t n, char *const *at, const int64_t *step, int64_t rows,
                                  const DynResults *r, const DynPart *start);
DYN_HIDDEN void dyn_reduce_put(const DynBound *b, char *const *at, const DynResults *r, const DynPart *parts);
DYN_HIDDEN void dyn_reduce_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t rows,
                                const DynResults *r, DynScratch *scratch);

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
