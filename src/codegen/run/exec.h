/* exec.h: running kernels over memory: shared by run.c (who calls), geometry.c, exec.c, exec_reduce.c. */
#ifndef DYN_EXEC_H
#define DYN_EXEC_H
#include "codegen/loops/loops.h"
#include <stdatomic.h>

/* The elements of a place at run time. */
typedef struct DynGeom {
    char *data;
    int64_t dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM]; /* strides in bytes */
} DynGeom;

/* geometry.c. -1: the view can't be made of these strides, or a size is not what the graph says. */
DYN_HIDDEN int dyn_geom_view(const DynGraph *g, uint32_t node, const DynScalar *sym, const DynGeom *from, DynGeom *out);
/* Where eager has the elements of a node, whether it is in memory here or not; `data` says nothing. */
DYN_HIDDEN int dyn_geom_eager(const DynLoops *p, uint32_t node, const DynScalar *sym, const DynGeom *geoms, DynGeom *out);
DYN_HIDDEN int64_t dyn_geom_dense(const DynMem *m, const DynScalar *sym,
                                  DynGeom *out); /* dims, dense strides in its order; bytes, -1: too many */
/* The array of a TURNED node: what it finds lies in C order with the places' axes in front of the others. */
DYN_HIDDEN PyObject *dyn_geom_turned(const DynGraph *g, uint32_t node, const int64_t *dims);

/* The order in which NumPy reduces the elements of one result (order.c): the reduced axes as they are walked, the innermost
 * last. Of the elements in that order, each `run` is cut into pieces of `piece` elements, of which the last may be shorter. A
 * piece is added up pairwise, and pieces are added in turn; or, where `in_turn`, all elements are. */
typedef struct DynOrder {
    int naxes, axes[DYN_MAX_NDIM];
    int64_t run, piece;
    bool in_turn;
    bool across; /* the innermost axis of eager's array is kept: its loop makes many results side by side */
    bool fuses;  /* that loop rounds otherwise than one for a single result: products of complex numbers */
    int lanes;   /* sums side by side */
} DynOrder;

/* A kernel bound to memory: for each axis of its space a size, for each operand a stride. */
typedef struct DynBound {
    const DynKernel *k;
    DynKernelFn fn, block, few;  /* NULL: there is none yet; two for reductions (native.h) */
    DynKernelFn lookup, still;   /* for lookups, for operands that stand still */
    DynRowsFn rows, rows_of_one; /* for reductions: rows of any length, of length `one` */
    int64_t one;                 /* 0: there is none */
    int nops, ndim;
    DynOrder order; /* of a kernel that is `ordered` */
    int64_t dims[DYN_MAX_NDIM];
    int64_t strides[DYN_MAX_OPERANDS][DYN_MAX_NDIM];
    char *base[DYN_MAX_OPERANDS];
    uint8_t size[DYN_MAX_OPERANDS];
    atomic_bool *missed; /* set where an index says a place that isn't there; NULL: somebody has looked */
    bool indirect;       /* one of them is; of such, elements and bytes from one to the next along its axis: */
    int64_t extent[DYN_MAX_OPERANDS], step[DYN_MAX_OPERANDS];
    DynScalar params[64];
} DynBound;

/* Of a function whose loops are to be vectors: at -O2 GCC makes none of loops whose counts it does not know. */
#if defined(__clang__)
#define DYN_VECTORS
#else
#define DYN_VECTORS __attribute__((optimize("O3")))
#endif
/* X(name, attributes) for each instruction set (isa.c) in the order of levels. */
#if defined(__x86_64__)
#define DYN_AVX2 DYN_VECTORS __attribute__((target("avx2")))
#define DYN_AVX512 DYN_VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define DYN_EACH_ISA(X) X(base, DYN_VECTORS) X(avx2, DYN_AVX2) X(avx512, DYN_AVX512)
#else
#define DYN_EACH_ISA(X) X(base, DYN_VECTORS)
#endif

#define DYN_MAX_POINTERS (2 * DYN_MAX_OPERANDS + DYN_REDUCE_TAIL)
/* What a reduction has behind its operands and steps. */
static inline void dyn_bound_tail(char **p, int nops, int64_t groups, int how, int64_t back) {
    p[2 * nops] = (char *)(intptr_t)groups;
    p[2 * nops + 1] = (char *)(intptr_t)how;
    p[2 * nops + 2] = (char *)(intptr_t)back;
}

/* n lanes: by native code, or by the built-in tier where there is none yet. */
static inline void dyn_bound_run(const DynBound *b, char *const *p, int64_t n) {
    if (b->fn != NULL) {
        b->fn(p, n, b->params);
    } else {
        dyn_builtin_run(b->k, p, n, b->params);
    }
}

/* A stretch of lanes: inner axes walked as one sequence, in C order of `dims`. */
typedef struct DynSpan {
    int ndim;
    int64_t n;
    int64_t dims[DYN_MAX_NDIM];
    int64_t strides[DYN_MAX_OPERANDS][DYN_MAX_NDIM];
    uint8_t mode[DYN_MAX_OPERANDS];   /* SpanMode */
    int64_t stride[DYN_MAX_OPERANDS]; /* STRIDED */
    int64_t lane[DYN_MAX_OPERANDS];   /* bytes from lane to lane of what is handed over as it lies, or 0 */
    bool direct;                      /* all operands are DIRECT or SCALAR */
    bool copies;                      /* the kernel copies its first operand to its second: they are moved, not handed over */
    bool still;                       /* some SCALAR by the kernel's function for what stands still */
    bool lookup;                      /* or INDIRECT, and the kernel has a function that looks those up */
    int64_t block;                    /* lanes that go through scratch at a time: whole rounds of those that are ROUND */
    uint32_t records[2];              /* bits of STRIDED operands of which several may be fields of one record: read, written */
    uint32_t looked_up;               /* bit i: indirect operand i stands at one place for all lanes, looked up first */
} DynSpan;
typedef enum DynSpanMode {
    DYN_SPAN_DIRECT,   /* contiguous: handed over as it is */
    DYN_SPAN_SCALAR,   /* the kernel takes one element */
    DYN_SPAN_SPLAT,    /* one element, copied to every lane */
    DYN_SPAN_STRIDED,  /* one step */
    DYN_SPAN_ROUND,    /* the same row of elements again and again: gathered once for all blocks */
    DYN_SPAN_INDIRECT, /* where an index says */
    DYN_SPAN_GATHER    /* anything else */
} DynSpanMode;

#define DYN_SCRATCH_LANES 512 /* lanes of an operand that is gathered at a time; DYN_BLOCK, so that reductions fit */
typedef struct DynScratch {
    _Alignas(64) char lanes[DYN_MAX_OPERANDS]
                           [DYN_SCRATCH_LANES * DYN_MAX_SIZE + 64]; /* not a page apart: stores would look like the next loads */
    _Alignas(64) char tail[DYN_MAX_OPERANDS][64 * DYN_MAX_SIZE];
} DynScratch;

/* order.c. -1: a size is not what the graph says. */
DYN_HIDDEN int dyn_order_find(const DynLoops *p, const DynGeom *geoms, const DynScalar *sym, DynBound *b);
/* How n elements are added pairwise, from left to right: the next part, which has at most `most` elements, and how many times
 * the last two sums become one behind it. Up to `block` elements are added by `lanes` sums side by side; `most` is no less. */
typedef struct DynParts {
    int64_t left[64];
    int joins[64], n;
    int64_t block;
    int lanes;
} DynParts;
DYN_HIDDEN DynParts dyn_parts_of(int64_t n, int lanes);
DYN_HIDDEN bool dyn_parts_next(DynParts *p, int64_t most, int64_t *part, int *joins);
DYN_HIDDEN int dyn_exec_bind(const DynKernel *k, const DynNativeTable *table, const DynGeom *geoms, const DynScalar *sym,
                             DynBound *out);
/* One kernel of its own over its whole space; threads where the work is worth it. */
DYN_HIDDEN int dyn_exec_elementwise(DynBound *b);
DYN_HIDDEN int dyn_exec_margin(const DynBound *b, const DynScalar *sym); /* of a kernel with a box: what lies outside */
DYN_HIDDEN int dyn_exec_reduce(DynBound *b);
/* exec_pair.c: a pair of reductions, by one walk over memory, if there is so much that this is worth it. divisor: what the sum is
 * divided by. 1: done, 0: not, -1: memory. */
DYN_HIDDEN int dyn_exec_pair(const DynBound *a, const DynBound *b, const DynPair *pair, int64_t divisor);
/* Kernels of one group, row by row. rows: bytes of memory for one row, or 0; operands whose base lies in [row_base, row_base +
 * rows) are moved to the thread's own copy. -1: memory. */
DYN_HIDDEN int dyn_exec_group(DynBound *b, int n, int outer, char *row_base, size_t rows);
/* exec_scan.c: a SCAN node over its operand, of that rank. -1: memory. */
DYN_HIDDEN int dyn_exec_scan(const DynNode *node, const DynGeom *from, int ndim, const DynGeom *to);
/* exec_histogram.c: a HISTOGRAM node. -1: memory, or the edges are not equally far apart and growing. */
typedef struct DynHistogram {
    const DynGeom *from, *edges, *weights, *to; /* weights: NULL where elements are counted */
    bool single, single_weights;                /* float, not double */
} DynHistogram;
DYN_HIDDEN int dyn_exec_histogram(const DynHistogram *x);
/* exec_scatter.c: a SCATTER node over its memory. -1: a place isn't there. */
typedef struct DynScatter {
    int64_t op; /* DynOp, or -1: elements are replaced */
    uint8_t dtype, index_dtype;
    bool look; /* at all places before anything is written; another thread may change them then */
    int ndim, value_ndim, index_ndim;
    const DynGeom *to, *value, *index; /* value and index, where it has more axes than one, in C order, or one value for all */
} DynScatter;
DYN_HIDDEN int dyn_exec_scatter(const DynScatter *x);
/* exec_own.c: a call that is made here (DynOwnKind), its result where that of the call goes. false: the call has to be made. */
DYN_HIDDEN bool dyn_exec_own(const DynGraph *g, uint32_t node, const DynGeom *geoms, PyObject **arrays, DynScalar *sym);
/* exec_gather.c: n places of an array of integers, of which one is `step` bytes behind the other, counted from the beginning;
 * negative: one of them isn't there, and is the last. */
DYN_HIDDEN int64_t dyn_exec_places(int64_t *to, const char *index, int64_t step, int64_t n, uint8_t dtype, int64_t extent);
/* exec_gather.c: is each place that a GATHER node names there? */
DYN_HIDDEN bool dyn_exec_check(const DynGeom *index, int ndim, uint8_t dtype, int64_t extent);
/* `rows` rows, a pitch apart, of n lanes of an indirect operand, padded to DYN_REDUCE_LANES; strides: of lanes and of rows. */
DYN_HIDDEN void dyn_block_take(const DynBound *b, int op, const char *table, const int64_t *strides, const char *index,
                               const int64_t *index_strides, int64_t n, int64_t rows, char *to, int64_t pitch);
/* Where operands stand for all lanes of a span that has some to look up: `now`, filled. */
DYN_HIDDEN char *const *dyn_span_look_up(const DynBound *b, const DynSpan *s, char *const *at, char **now);
DYN_HIDDEN void dyn_lookup_run(const DynBound *b, char *const *at, int64_t n); /* n lanes by the kernel's own lookup */
DYN_HIDDEN void dyn_span_take(const DynBound *b, const DynSpan *s, int op, char *const *at, int64_t pos, int64_t n, char *to);
DYN_HIDDEN int64_t dyn_exec_cost(const DynBound *b); /* rough, in tenths of a nanosecond */

/* exec.c for exec_reduce.c and exec_tiles.c */
DYN_HIDDEN void dyn_bound_swap(DynBound *b, int x, int y); /* two axes */
/* Do all operands go on along `outer` where `inner`, of that many elements, ends? */
DYN_HIDDEN bool dyn_bound_joins(const DynBound *b, int outer, int inner, int64_t inner_size);
DYN_HIDDEN void dyn_span_make(const DynBound *b, const int *axes, int naxes, DynSpan *out);
DYN_HIDDEN void dyn_span_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to,
                              DynScratch *scratch);
DYN_HIDDEN void dyn_span_run(const DynBound *b, const DynSpan *s, char *const *at, DynScratch *scratch);
DYN_HIDDEN void dyn_span_gather(const DynBound *b, const DynSpan *s, int op, char *const *at, int64_t pos, int64_t n, char *to);
DYN_HIDDEN void dyn_span_scatter(const DynBound *b, const DynSpan *s, int op, char *to, int64_t pos, int64_t n, const char *from);

/* exec_tiles.c. The span is that of the last axis; axes are in the order in which they are walked. */
DYN_HIDDEN void dyn_tiles_order(DynBound *b);
DYN_HIDDEN bool dyn_tiles_wanted(const DynBound *b, const DynSpan *row);
DYN_HIDDEN void dyn_tiles_run(const DynBound *b, const DynSpan *row, bool parallel);

/* move.c. Elements so many bytes apart; memory that does not overlap. pad: the last of n lanes again, up to `full` of them. */
DYN_HIDDEN void dyn_lanes_copy(char *to, const char *from, int64_t to_step, int64_t from_step, int64_t n, uint8_t size);
DYN_HIDDEN void dyn_lanes_pad(char *at, uint8_t size, int64_t n, int64_t full);
DYN_HIDDEN bool dyn_lanes_level(
    size_t level);                    /* for tests: by an instruction set (isa.c); false: by the best, as it hasn't that */
DYN_HIDDEN bool dyn_lanes_base(void); /* by the lowest */

/* records.c: `n` records (at most a scratch block), `step` bytes apart, of which some fields are moved to or from lanes. Their
 * places from the first of them grow. */
DYN_HIDDEN bool dyn_records_wanted(int64_t step, uint8_t size);
DYN_HIDDEN void dyn_records_deal(char *const *to, const int64_t *field, int nfields, const char *from, int64_t step, int64_t n,
                                 uint8_t size);
DYN_HIDDEN void dyn_records_collect(char *to, int64_t step, char *const *from, const int64_t *field, int nfields, int64_t n,
                                    uint8_t size);
/* Operands of a span that are read, or written, for which it is worth looking whether they are fields of the same records; and
 * those among them that are, moved between memory and scratch blocks (the others aren't). */
DYN_HIDDEN uint32_t dyn_records_find(const DynBound *b, const DynSpan *s, bool out);
DYN_HIDDEN uint32_t dyn_records_move(const DynBound *b, const DynSpan *s, bool out, char *const *at, int64_t pos, int64_t n,
                                     DynScratch *scratch);

/* Estimates, in tenths of a nanosecond, and high ones: an addition of doubles in the cache takes a quarter of its. On two cores
 * of a Zen 4 that were busy with other things regions cost 4 to 9 us (three sizes of one polynomial). */
#define DYN_PARALLEL_COST 400000 /* work below this is done by the calling thread */
#define DYN_CHUNK_COST 200000    /* one chunk of a region */
#endif
