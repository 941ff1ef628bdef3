/* exec_scan.c: running sums and the like, and positions of extremes: elements taken one after the other, in eager's order, so
 * that the bits are eager's too.
 *
 * Called by run.c, for SCAN nodes, over memory that is there: a scan is a step of its own and is not generated. Along an axis
 * whose neighbours lie elsewhere, a block of neighbouring lines goes side by side, row by row. Positions in one long line are
 * looked for by all threads, a piece each: the first of the best is the same whoever finds it. */
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include "codegen/run/exec.h"
#include "codegen/run/lanes.h"
#include "codegen/native.h"
#include <fenv.h>
#include <math.h>

#define GROUP 16                       /* elements compared side by side */
#define WIDE(T) (int)(256 / sizeof(T)) /* as many as keep the processor busy, in lines that have them */

typedef struct Best { /* of the elements so far: the position, the element, and whether there was one */
    int64_t index;
    bool any, nan;
    union {
        double f64;
        int64_t i64;
    } value;
} Best;

/* One line. before: the element of the result that it goes on from, or NULL. */
typedef void LineFn(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n, const char *before);
typedef void ColumnsFn(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows, int64_t n);
/* n contiguous elements, of which the first has position `at`. */
typedef void FindFn(const char *from, int64_t n, int64_t at, Best *best);
/* Contiguous columns, row by row; position of each column's best to `index`, of which there are n. */
typedef void FindColumnsFn(const char *from, int64_t step, int64_t rows, int64_t n, int64_t *index);

/* ---- loops for each type */

typedef int32_t OddF32; /* integers of a float's size */
typedef int64_t OddF64;
/* 0 for a finite number: the difference of what is infinite or nan is nan. */
#define ODD_BITS(N, T)                       \
    static inline Odd##N odd_bits_##N(T x) { \
        Odd##N bits;                         \
        T zero = x - x;                      \
        memcpy(&bits, &zero, sizeof(bits));  \
        return bits;                         \
    }
DYN_FLOATS(ODD_BITS)
#undef ODD_BITS

typedef struct Row {
    LineFn *line;
    ColumnsFn *columns;
    FindFn *find;
    FindColumnsFn *find_columns;
} Row;

/* RUNNING(name, type, the next result of the one before, x, and an element, y) for each. */
#define WRAPPED_RUNNING(N, T)                         \
    RUNNING(cumsum_##N, T, (uint64_t)x + (uint64_t)y) \
    RUNNING(cumprod_##N, T, (uint64_t)x *(uint64_t)y)
#define INTEGER_RUNNING(N, T)             \
    RUNNING(cummax_##N, T, x > y ? x : y) \
    RUNNING(cummin_##N, T, x < y ? x : y)
#define FLOAT_RUNNING(N, T)                                          \
    RUNNING(cumsum_##N, T, x + y)                                    \
    RUNNING(cumprod_##N, T, x *y)                                    \
    RUNNING(cummax_##N, T, (dyn_above_##N(x, y) | (x != x)) ? x : y) \
    RUNNING(cummin_##N, T, (dyn_above_##N(y, x) | (x != x)) ? x : y)
#define EACH_RUNNING              \
    DYN_UNSIGNED(WRAPPED_RUNNING) \
    DYN_INTEGERS(INTEGER_RUNNING) \
    DYN_FLOATS(FLOAT_RUNNING)     \
    RUNNING(cummax_BOOL, uint8_t, (x | y) != 0) RUNNING(cummin_BOOL, uint8_t, (x != 0) & (y != 0))

/* A line goes one element after the other, so that no vectors come of it: one for all instruction sets. */
#define RUNNING(NAME, T, expression)                                                                                         \
    static void NAME##_line(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n, const char *before) { \
        T x = before ? *(const T *)before : *(const T *)from;                                                                \
        if (!before) {                                                                                                       \
            *(T *)to = x;                                                                                                    \
        }                                                                                                                    \
        for (int64_t i = !before; i < n; i++) {                                                                              \
            T y = *(const T *)(from + i * from_step);                                                                        \
            x = (T)(expression);                                                                                             \
            *(T *)(to + i * to_step) = x;                                                                                    \
        }                                                                                                                    \
    }
EACH_RUNNING
#undef RUNNING

#define LOOPS "codegen/run/scan_loops.h"
#include "codegen/run/each_isa.h"

static const Row *row_of(const DynNode *node) {
#define LEVEL(isa, target) table_##isa,
    static const Row(*const levels[])[6] = {DYN_EACH_ISA(LEVEL)};
#undef LEVEL
    return &levels[dyn_isa_number()][node->compute][node->op - DYN_OP_CUMSUM];
}

/* ---- a node over its memory */

typedef struct Scan {
    const Row *row;
    bool position;
    uint8_t size, to_size;
    const char *from;
    char *to;
    int ndim; /* outer axes: what is walked line by line */
    int64_t dims[DYN_MAX_NDIM], from_strides[DYN_MAX_NDIM], to_strides[DYN_MAX_NDIM];
    int64_t n, from_step, to_step; /* along a line */
    int64_t columns;               /* lines side by side lie next to each other: so many; 0: line by line */
    bool laid;                     /* short lines: columns are laid side by side first, column_step and to_column apart */
    int64_t column_step, to_column;
    int64_t nlines, chunk; /* outer positions; items of one chunk */
    Best *pieces;          /* one line in pieces */
} Scan;

static void outer_place(const Scan *s, int64_t line, const char **from, char **to) {
    *from = s->from;
    *to = s->to;
    for (int d = s->ndim; d-- > 0;) {
        int64_t i = line % s->dims[d];
        line /= s->dims[d];
        *from += i * s->from_strides[d];
        *to += i * s->to_strides[d];
    }
}

/* n elements of a line from position `at` on: gathered where they are not contiguous. */
static void find_in_line(const Scan *s, const char *from, int64_t at, int64_t n, Best *best) {
    _Alignas(64) char gathered[DYN_SCAN_COLUMNS * 8];
    if (s->from_step == s->size) {
        s->row->find(from, n, at, best);
        return;
    }
    for (int64_t i = 0; i < n; i += DYN_SCAN_COLUMNS) {
        int64_t m = n - i < DYN_SCAN_COLUMNS ? n - i : DYN_SCAN_COLUMNS;
        dyn_lanes_copy(gathered, from + i * s->from_step, s->size, s->from_step, m, s->size);
        s->row->find(gathered, m, at + i, best);
    }
}

static void run_line(const Scan *s, int64_t line) {
    const char *from;
    char *to;
    outer_place(s, line, &from, &to);
    if (s->position) {
        Best best = {0};
        find_in_line(s, from, 0, s->n, &best);
        memcpy(to, &best.index, sizeof(best.index));
    } else {
        s->row->line(from, s->from_step, to, s->to_step, s->n, NULL);
    }
}

static void run_columns(const Scan *s, int64_t item) {
    int64_t per_line = (s->columns + DYN_SCAN_COLUMNS - 1) / DYN_SCAN_COLUMNS, first = item % per_line * DYN_SCAN_COLUMNS;
    int64_t n = s->columns - first < DYN_SCAN_COLUMNS ? s->columns - first : DYN_SCAN_COLUMNS, index[DYN_SCAN_COLUMNS];
    const char *from;
    char *to;
    outer_place(s, item / per_line, &from, &to);
    from += first * s->column_step;
    to += first * s->to_column;
    if (s->laid) {
        _Alignas(64) char lanes[DYN_BEST_SHORT * DYN_SCAN_COLUMNS * 8];
        for (int64_t row = 0; row < s->n; row++) {
            dyn_lanes_copy(lanes + row * DYN_SCAN_COLUMNS * s->size, from + row * s->from_step, s->size, s->column_step, n,
                           s->size);
        }
        s->row->find_columns(lanes, DYN_SCAN_COLUMNS * s->size, s->n, n, index);
        dyn_lanes_copy(to, (char *)index, s->to_column, sizeof(*index), n, sizeof(*index));
    } else if (s->position) {
        s->row->find_columns(from, s->from_step, s->n, n, index);
        memcpy(to, index, sizeof(*index) * (size_t)n);
    } else {
        s->row->columns(from, s->from_step, to, s->to_step, s->n, n);
    }
}

/* Before: the flag as it was. After: that again. */
static bool quietly(void) { return fetestexcept(FE_INVALID) != 0; }
static void quietly_end(bool was) {
    if (!was) {
        feclearexcept(FE_INVALID);
    }
}

static int64_t item_count(const Scan *s) {
    return s->columns ? s->nlines * ((s->columns + DYN_SCAN_COLUMNS - 1) / DYN_SCAN_COLUMNS) : s->nlines;
}

static void items_chunk(void *ctx, int64_t chunk) {
    const Scan *s = ctx;
    int64_t n = item_count(s), stop = (chunk + 1) * s->chunk < n ? (chunk + 1) * s->chunk : n;
    bool was = !s->position || quietly();
    for (int64_t item = chunk * s->chunk; item < stop; item++) {
        if (s->columns) {
            run_columns(s, item);
        } else {
            run_line(s, item);
        }
    }
    quietly_end(was);
}

static void piece_chunk(void *ctx, int64_t chunk) {
    const Scan *s = ctx;
    int64_t at = chunk * DYN_SCAN_PIECE, n = s->n - at < DYN_SCAN_PIECE ? s->n - at : DYN_SCAN_PIECE;
    bool was = quietly();
    s->pieces[chunk] = (Best){0};
    find_in_line(s, s->from + at * s->from_step, at, n, &s->pieces[chunk]);
    quietly_end(was);
}

/* The best of the pieces' best: each is asked for once more as an element, the earlier pieces first. */
static int run_pieces(Scan *s) {
    int64_t n = (s->n + DYN_SCAN_PIECE - 1) / DYN_SCAN_PIECE;
    Best best = {0};
    s->pieces = PyMem_RawMalloc(sizeof(Best) * (size_t)n);
    if (!s->pieces) {
        return -1;
    }
    dyn_par_for(piece_chunk, s, n);
    bool was = quietly();
    for (int64_t i = 0; i < n; i++) {
        int64_t at = s->pieces[i].index;
        find_in_line(s, s->from + at * s->from_step, at, 1, &best);
    }
    quietly_end(was);
    memcpy(s->to, &best.index, sizeof(best.index));
    PyMem_RawFree(s->pieces);
    return 0;
}

/* All elements in C order, line by line of what joins to lines: each goes on where the one before ended. */
static void run_joined(const Scan *s) {
    Best best = {0};
    char *to = s->to, *before = NULL;
    bool was = !s->position || quietly();
    for (int64_t line = 0; line < s->nlines; line++) {
        const char *from;
        char *unused;
        outer_place(s, line, &from, &unused);
        if (s->position) {
            find_in_line(s, from, line * s->n, s->n, &best);
            continue;
        }
        s->row->line(from, s->from_step, to, s->to_step, s->n, before);
        to += s->n * s->to_step;
        before = to - s->to_step;
    }
    if (s->position) {
        memcpy(s->to, &best.index, sizeof(best.index));
    }
    quietly_end(was);
}

/* Axes but `skip`, without those of size 1; those that walk on from each other become one. */
static void take_outer(Scan *s, const DynGeom *from, int ndim, int skip, const int64_t *to_strides) {
    for (int d = 0; d < ndim; d++) {
        if (d == skip || from->dims[d] == 1) {
            continue;
        }
        int last = s->ndim - 1;
        if (last >= 0 && s->from_strides[last] == from->strides[d] * from->dims[d] &&
            s->to_strides[last] == to_strides[d] * from->dims[d]) {
            s->dims[last] *= from->dims[d];
        } else {
            s->dims[++last] = from->dims[d];
            s->ndim++;
        }
        s->from_strides[last] = from->strides[d];
        s->to_strides[last] = to_strides[d];
    }
}

static void drop_axis(Scan *s, int axis) {
    for (int d = axis; d + 1 < s->ndim; d++) {
        s->dims[d] = s->dims[d + 1];
        s->from_strides[d] = s->from_strides[d + 1];
        s->to_strides[d] = s->to_strides[d + 1];
    }
    s->ndim--;
}

/* An outer axis along which both sides are contiguous becomes the columns, unless the lines themselves are; so does the longest
 * one where lines are so short that looking through one by one costs more than laying them out. */
static void find_columns(Scan *s) {
    int axis = -1;
    for (int d = 0; d < s->ndim && axis < 0 && s->from_step != s->size; d++) {
        bool both = s->from_strides[d] == s->size && s->to_strides[d] == s->to_size && s->dims[d] >= DYN_SCAN_COLUMNS_FROM;
        axis = both ? d : -1;
    }
    if (axis < 0 && s->position && s->n <= DYN_BEST_SHORT) {
        for (int d = 0; d < s->ndim; d++) {
            axis = s->dims[d] >= GROUP && (axis < 0 || s->dims[d] > s->dims[axis]) ? d : axis;
        }
        s->laid = axis >= 0;
    }
    if (axis >= 0) {
        s->columns = s->dims[axis];
        s->column_step = s->from_strides[axis];
        s->to_column = s->to_strides[axis];
        drop_axis(s, axis);
    }
}

static int run_flat(Scan *s, const DynGeom *from, int ndim, int64_t total, bool parallel) {
    int64_t none[DYN_MAX_NDIM] = {0};
    s->to_step = s->to_size;
    take_outer(s, from, ndim, -1, none);
    s->n = s->ndim ? s->dims[s->ndim - 1] : 1;
    s->from_step = s->ndim ? s->from_strides[s->ndim - 1] : s->size;
    s->ndim -= s->ndim > 0;
    s->nlines = s->n ? total / s->n : 0;
    if (parallel && s->position && s->nlines == 1) {
        return run_pieces(s);
    }
    run_joined(s);
    return 0;
}

int dyn_exec_scan(const DynNode *node, const DynGeom *from, int ndim, const DynGeom *to) {
    int axis = (int)node->aux[0];
    Scan s = {.row = row_of(node), .from = from->data, .to = to->data};
    s.position = s.row->find != NULL;
    s.size = dyn_dtypes[node->compute].size;
    s.to_size = dyn_dtypes[node->dtype].size;
    int64_t total = 1, to_strides[DYN_MAX_NDIM] = {0};
    for (int d = 0; d < ndim; d++) {
        total *= from->dims[d];
        bool gone = s.position && !node->aux[1] && d > axis;
        to_strides[d] = 0;
        if (axis >= 0 && d != axis) {
            to_strides[d] = to->strides[gone ? d - 1 : d];
        }
    }
    if (total == 0) {
        return 0;
    }
    bool parallel = total * 10 >= DYN_PARALLEL_COST && dyn_par_threads() > 1;
    if (axis < 0) {
        return run_flat(&s, from, ndim, total, parallel);
    }
    s.n = from->dims[axis];
    s.from_step = from->strides[axis];
    s.to_step = s.position ? 0 : to->strides[axis];
    take_outer(&s, from, ndim, axis, to_strides);
    if (parallel && s.position && s.ndim == 0) {
        return run_pieces(&s);
    }
    s.nlines = 1;
    find_columns(&s);
    for (int d = 0; d < s.ndim; d++) {
        s.nlines *= s.dims[d];
    }
    int64_t items = item_count(&s);
    s.chunk = parallel ? DYN_SCAN_CHUNK * items / total + 1 : items;
    int64_t nchunks = (items + s.chunk - 1) / s.chunk;
    if (parallel && nchunks > 1) {
        dyn_par_for(items_chunk, &s, nchunks);
        return 0;
    }
    for (int64_t chunk = 0; chunk < nchunks; chunk++) {
        items_chunk(&s, chunk);
    }
    return 0;
}
