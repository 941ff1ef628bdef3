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

/* A kernel bound to memory. */
typedef struct DynBound {
    const DynKernel *k;
    const DynNativeKernel *native;                   /* Its functions; all are NULL where there is no native code yet. */
    void (*rows_of_length)(const DynRowsArgs *args); /* Form ROWS for rows of `length` lanes alone (build/sizes.c). */
    int64_t length;                                  /* 0: there is no such function. */
    int nops;                                        /* The number of operands. */
    int ndim;                                        /* The number of axes of the kernel's space. */
    DynOrder order;                                  /* NumPy's order of elements, where the kernel is `ordered`. */
    int64_t dims[DYN_MAX_NDIM];                      /* For each axis, its size. */
    int64_t strides[DYN_MAX_OPERANDS][DYN_MAX_NDIM]; /* For each operand, bytes from one position of each axis to the next. */
    char *base[DYN_MAX_OPERANDS];                    /* For each operand, its element at the first point of the space. */
    uint8_t size[DYN_MAX_OPERANDS];                  /* For each operand, bytes of an element. */
    atomic_bool *missed;              /* Set where an index names a place that isn't there; NULL: places were checked before. */
    bool indirect;                    /* Some operand stands where an index says. */
    int64_t extent[DYN_MAX_OPERANDS]; /* For each indirect operand, how many elements lie along the axis that is indexed. */
    int64_t step[DYN_MAX_OPERANDS];   /* For each indirect operand, bytes from one of those to the next. */
    DynScalar params[DYN_MAX_PARAMS]; /* The numbers that the kernel takes by value. */
} DynBound;

/* Of a function whose loops are to be vectors: at -O2 GCC makes none of loops whose counts it does not know. */
#if defined(__clang__)
#define DYN_VECTORS
#else
#define DYN_VECTORS __attribute__((optimize("O3")))
#endif
/* X(dtype, C's type) for each of a kind. */
#define DYN_UNSIGNED(X) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)
#define DYN_INTEGERS(X) X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t) DYN_UNSIGNED(X)
#define DYN_FLOATS(X) X(F32, float) X(F64, double)
#define DYN_COMPLEXES(X) X(C64, float _Complex) X(C128, double _Complex)
/* X(dtype, the one whose sums, differences and products have its bits): integers wrap, signed or not. */
#define DYN_WRAPPED(X) \
    X(I8, U8) X(I16, U16) X(I32, U32) X(I64, U64) X(U8, U8) X(U16, U16) X(U32, U32) X(U64, U64) X(F32, F32) X(F64, F64)
/* X(name, attributes) for each instruction set (isa.c) in the order of levels. */
#if defined(__x86_64__)
#define DYN_AVX2 DYN_VECTORS __attribute__((target("avx2")))
#define DYN_AVX512 DYN_VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define DYN_EACH_ISA(X) X(base, DYN_VECTORS) X(avx2, DYN_AVX2) X(avx512, DYN_AVX512)
#else
#define DYN_EACH_ISA(X) X(base, DYN_VECTORS)
#endif

/* n lanes of an elementwise kernel: by native code, or by the built-in tier where there is none yet. */
static inline void dyn_bound_lanes(const DynBound *b, char *const *operands, int64_t n) {
    DynLanesArgs args = {.operands = operands, .n = n, .scalars = b->params};
    if (b->native->lanes != NULL) {
        b->native->lanes(&args);
    } else {
        dyn_builtin_lanes(b->k, &args);
    }
}

/* Rows of lanes to accumulators, in the same way. The built-in tier goes on with what accumulators hold: it reads no `start`. */
static inline void dyn_bound_columns(const DynBound *b, const DynColumnsArgs *args) {
    if (b->native->columns != NULL) {
        b->native->columns(args);
    } else {
        dyn_builtin_columns(b->k, args);
    }
}

/* How lanes of an operand lie in a span. */
typedef enum DynSpanMode {
    DYN_SPAN_DIRECT,   /* Side by side: the operand is handed over as it lies. */
    DYN_SPAN_SCALAR,   /* The kernel takes one element. */
    DYN_SPAN_SPLAT,    /* One element, which is copied to every lane. */
    DYN_SPAN_STRIDED,  /* One step apart. */
    DYN_SPAN_ROUND,    /* The same row of elements again and again, which is gathered once for all blocks. */
    DYN_SPAN_INDIRECT, /* Where an index says. */
    DYN_SPAN_GATHER    /* Anything else. */
} DynSpanMode;

/* A stretch of lanes: inner axes that are walked as one sequence, in C order of `dims`. */
typedef struct DynSpan {
    int ndim;                                        /* The number of axes, those that go on in one another being one. */
    int64_t n;                                       /* The number of lanes. */
    int64_t dims[DYN_MAX_NDIM];                      /* For each axis, its size. */
    int64_t strides[DYN_MAX_OPERANDS][DYN_MAX_NDIM]; /* For each operand, bytes from one position of each axis to the next. */
    uint8_t mode[DYN_MAX_OPERANDS];                  /* For each operand, a DynSpanMode. */
    int64_t stride[DYN_MAX_OPERANDS]; /* For each operand with one step all along the span, that step in bytes; else 0. */
    int64_t lane[DYN_MAX_OPERANDS];   /* For each operand that is handed over as it lies, bytes from lane to lane; else 0. */
    bool direct;                      /* All operands are DIRECT or SCALAR. */
    bool copies;                      /* The kernel copies its first operand to its second: elements are moved instead. */
    bool row_constant;                /* Form ROW_CONSTANT of the kernel runs: what is constant along the span is SCALAR. */
    bool lookup;                      /* Form LOOKUP of the kernel runs: operands are DIRECT, SCALAR or INDIRECT. */
    int64_t block;                    /* Lanes that go through scratch at a time: whole rounds of operands that are ROUND. */
    uint32_t records[2];              /* Bits of STRIDED operands that may be fields of one record: those read, those written. */
    uint32_t looked_up;               /* Bits of indirect operands that stand at one place, which is looked up first. */
} DynSpan;

typedef struct DynScratch {
    _Alignas(64) char lanes[DYN_MAX_OPERANDS]
                           [DYN_SCRATCH_LANES * DYN_MAX_SIZE + 64]; /* not a page apart: stores would look like the next loads */
    _Alignas(64) char tail[DYN_MAX_OPERANDS][64 * DYN_MAX_SIZE];
} DynScratch;

/* order.c. -1: a size is not what the graph says. */
DYN_HIDDEN int dyn_order_find(const DynLoops *p, const DynGeom *geoms, const DynScalar *sym, DynBound *b);
/* How n elements are added pairwise, from left to right: the next part, which has at most `most` elements, and how many times
 * the last two sums become one behind it. Up to 16 * `lanes` elements are added by `lanes` sums side by side; `most` is no less.
 */
typedef struct DynParts {
    int64_t left[64];
    int joins[64], n;
    int lanes;
} DynParts;
/* The order of accumulators 0 … n - 1: a tree, which combines i with i + DYN_REDUCE_LANES / 2, those with what is a quarter
 * behind, and so on; walked depth first, so that few partial results live at one time. n is at most DYN_REDUCE_LANES; the number
 * of steps is n. Form BLOCK follows it, the same by single rows (exec_columns.c), and results of a few elements. */
DYN_HIDDEN void dyn_order_tree(int64_t n, DynOrderStep *steps);
/* The order of the n elements of a result, at most DYN_SHORT_AXIS_MOST: NumPy's, or that tree. */
DYN_HIDDEN void dyn_order_elements(const DynBound *b, int64_t n, DynOrderStep *steps);
DYN_HIDDEN void dyn_parts_begin(DynParts *p, int64_t n, int lanes);
DYN_HIDDEN bool dyn_parts_next(DynParts *p, int64_t most, int64_t *part, int *joins);
DYN_HIDDEN DynScalar dyn_exec_param(const DynParam *p, const DynScalar *sym); /* as a kernel takes it */
DYN_HIDDEN int dyn_exec_bind(const DynKernel *k, const DynNativeTable *table, const DynGeom *geoms, const DynScalar *sym,
                             DynBound *out);
/* One kernel of its own over its whole space; threads where the work is worth it. */
DYN_HIDDEN int dyn_exec_elementwise(DynBound *b);
DYN_HIDDEN int dyn_exec_margin(const DynBound *b, const DynScalar *sym); /* of a kernel with a box: what lies outside */
DYN_HIDDEN int dyn_exec_reduce(DynBound *b);
/* exec_pair.c: a pair of reductions, by one walk over memory, if there is so much that this is worth it. divisor: what the sum is
 * divided by. 1: done, 0: not, -1: memory. */
DYN_HIDDEN int dyn_exec_pair(const DynBound *a, const DynBound *b, const DynPair *pair, int64_t divisor);
/* exec_group.c: kernels of one group, row by row. rows: bytes of memory for one row, or 0; operands whose base lies in
 * [row_base, row_base + rows) are moved to the thread's own copy. -1: memory. */
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

/* exec.c for exec_group.c, exec_reduce.c and exec_tiles.c */
DYN_HIDDEN void dyn_bound_swap(DynBound *b, int x, int y); /* two axes */
/* Do all operands go on along `outer` where `inner`, of that many elements, ends? */
DYN_HIDDEN bool dyn_bound_joins(const DynBound *b, int outer, int inner, int64_t inner_size);
DYN_HIDDEN void dyn_span_make(const DynBound *b, const int *axes, int naxes, DynSpan *out);
DYN_HIDDEN void dyn_span_modes(const DynBound *b, DynSpan *s); /* how each operand lies, for a span with axes and strides */
DYN_HIDDEN void dyn_span_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to,
                              DynScratch *scratch);
DYN_HIDDEN void dyn_span_run(const DynBound *b, const DynSpan *s, char *const *at, DynScratch *scratch);
/* n rows of a span, each operand `step` bytes further in each. */
DYN_HIDDEN void dyn_span_run_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t n,
                                  DynScratch *scratch);
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
#endif
