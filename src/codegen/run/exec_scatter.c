/* exec_scatter.c: SCATTER nodes: elements written where an array of integers says (np.add.at, a[index] = value), one after the
 * other in C order of the index, so that the bits are eager's.
 *
 * Called by run.c. Where a place isn't there eager says so: all are looked at before anything is written that can be seen. Places
 * are found a block at a time; of what lies behind the first axis each element is done for a whole block of places where there
 * are few, and row by row where there are many. It is one thread's work: another order would give other bits. */
#include "codegen/run/isa.h"
#include "codegen/run/exec.h"
#include <fenv.h>

typedef void PointsFn(char *to, int64_t step, const int64_t *place, const char *value, int64_t value_step, int64_t n);
typedef void RowFn(char *restrict to, int64_t step, const char *restrict value, int64_t value_step, int64_t n);
typedef struct Row {
    PointsFn *points;
    RowFn *row;
} Row;

#define SIZES(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t) X(16, double _Complex)
/* Of a nan NumPy's loops over places raise a flag. */
static bool say_nan(void) {
    feraiseexcept(FE_INVALID);
    return true;
}
#define ODD(x, y) (__builtin_isunordered(x, y) && say_nan())
/* LOOPS_OF(name, type, the new element of the old one, x, and what is scattered, y) for each. */
#define WRAPPED_LOOPS(N, T)                         \
    LOOPS_OF(add_##N, T, (uint64_t)x + (uint64_t)y) \
    LOOPS_OF(sub_##N, T, (uint64_t)x - (uint64_t)y) \
    LOOPS_OF(mul_##N, T, (uint64_t)x *(uint64_t)y)
#define INTEGER_LOOPS(N, T)             \
    LOOPS_OF(max_##N, T, x > y ? x : y) \
    LOOPS_OF(min_##N, T, x < y ? x : y)
#define FLOAT_LOOPS(N, T)                                              \
    LOOPS_OF(add_##N, T, x + y)                                        \
    LOOPS_OF(sub_##N, T, x - y)                                        \
    LOOPS_OF(mul_##N, T, x *y)                                         \
    LOOPS_OF(max_##N, T, ODD(x, y) ? (x != x ? x : y) : x > y ? x : y) \
    LOOPS_OF(min_##N, T, ODD(x, y) ? (x != x ? x : y) : x < y ? x : y)
#define COMPLEX_LOOPS(N, T)     \
    LOOPS_OF(add_##N, T, x + y) \
    LOOPS_OF(sub_##N, T, x - y)
#define SIZE_LOOPS(N, T) LOOPS_OF(set_##N, T, y)
#define EACH_LOOP                \
    DYN_UNSIGNED(WRAPPED_LOOPS)  \
    DYN_INTEGERS(INTEGER_LOOPS)  \
    DYN_FLOATS(FLOAT_LOOPS)      \
    DYN_COMPLEXES(COMPLEX_LOOPS) \
    SIZES(SIZE_LOOPS)

#define POINTS(T, at, from, expression) \
    T *a = (T *)to;                     \
    const T *b = (const T *)value;      \
    for (int64_t i = 0; i < n; i++) {   \
        T x = a[at], y = b[from];       \
        (void)x;                        \
        a[at] = (T)(expression);        \
    }

/* One element at each place, one after the other: no vectors come of it, so that there is one for all instruction sets. */
#define LOOPS_OF(NAME, T, expression)                                                                                           \
    static void NAME##_points(char *to, int64_t step, const int64_t *place, const char *value, int64_t value_step, int64_t n) { \
        if (step == sizeof(T) && value_step == sizeof(T)) {                                                                     \
            POINTS(T, place[i], i, expression)                                                                                  \
        } else {                                                                                                                \
            for (int64_t i = 0; i < n; i++) {                                                                                   \
                T *at = (T *)(to + place[i] * step), x = *at, y = *(const T *)(value + i * value_step);                         \
                (void)x;                                                                                                        \
                *at = (T)(expression);                                                                                          \
            }                                                                                                                   \
        }                                                                                                                       \
    }
EACH_LOOP
#undef LOOPS_OF

#define LOOPS "codegen/run/scatter_loops.h"
#include "codegen/run/each_isa.h"

static int column_of(int64_t op) {
    static const int16_t columns[] = {DYN_OP_ADD, DYN_OP_SUBTRACT, DYN_OP_MULTIPLY, DYN_OP_MAXIMUM, DYN_OP_MINIMUM};
    for (size_t i = 0; i < DYN_COUNTOF(columns); i++) {
        if (columns[i] == op) {
            return (int)i;
        }
    }
    return -1;
}

static const Row *row_of(int64_t op, uint8_t dtype) {
#define LEVEL(isa, target) {table_##isa, sets_##isa},
    static const struct Level { const Row (*table)[5], *sets; } levels[] = {DYN_EACH_ISA(LEVEL)};
#undef LEVEL
    const struct Level *l = &levels[dyn_isa_number()];
    int column = column_of(op);
    const Row *row = NULL;
    if (op < 0) {
        row = &l->sets[dyn_dtypes[dtype].size];
    } else if (column >= 0) {
        row = &l->table[dtype][column];
    }
    return row != NULL && row->points != NULL ? row : NULL;
}

typedef struct Scatter {
    const Row *row;
    char *to;
    const char *value;
    int64_t step, value_step; /* from place to place */
    int ndim;                 /* of a row: what lies behind the first axis */
    int64_t dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM], value_strides[DYN_MAX_NDIM];
} Scatter;

/* On to the next element of a row, but for its last `inner` axes; false: there is none. */
static bool next_element(const Scatter *s, int inner, int64_t *at, int64_t *to, int64_t *value) {
    for (int d = s->ndim - inner; d-- > 0;) {
        *to += s->strides[d];
        *value += s->value_strides[d];
        if (++at[d] < s->dims[d]) {
            return true;
        }
        *to -= s->dims[d] * s->strides[d];
        *value -= s->dims[d] * s->value_strides[d];
        at[d] = 0;
    }
    return false;
}

static void scatter_columns(const Scatter *s, const int64_t *place, const char *value, int64_t n) {
    int64_t at[DYN_MAX_NDIM] = {0}, to = 0, from = 0;
    do {
        s->row->points(s->to + to, s->step, place, value + from, s->value_step, n);
    } while (next_element(s, 0, at, &to, &from));
}

static void scatter_rows(const Scatter *s, const int64_t *place, const char *value, int64_t n) {
    int last = s->ndim - 1;
    for (int64_t i = 0; i < n; i++, value += s->value_step) {
        int64_t at[DYN_MAX_NDIM] = {0}, to = place[i] * s->step, from = 0;
        do {
            s->row->row(s->to + to, s->strides[last], value + from, s->value_strides[last], s->dims[last]);
        } while (next_element(s, 1, at, &to, &from));
    }
}

/* The axes behind the first; those of size 1 go, and those that go on from each other become one. value: its own of them. */
static int64_t take_row(Scatter *s, const DynGeom *to, int ndim, const DynGeom *value, int value_ndim) {
    int64_t n = 1;
    for (int d = 1; d < ndim; d++) {
        int own = value_ndim - ndim + d, last = s->ndim - 1;
        int64_t size = to->dims[d], stride = to->strides[d], from = own < 0 || value->dims[own] == 1 ? 0 : value->strides[own];
        n *= size;
        if (size == 1) {
            continue;
        }
        if (last >= 0 && s->strides[last] == size * stride && s->value_strides[last] == size * from) {
            s->dims[last] *= size;
        } else {
            s->dims[++last] = size;
            s->ndim++;
        }
        s->strides[last] = stride;
        s->value_strides[last] = from;
    }
    return n;
}

/* Bytes from one place to the next: of rank 1 as they lie, of more they lie in C order. first: where its axes begin. */
static int64_t step_of(const DynGeom *g, int first, int ndim) {
    for (int d = first + ndim; d-- > first && d >= 0;) {
        if (g->dims[d] != 1) {
            return g->strides[d];
        }
    }
    return 0;
}

int dyn_exec_scatter(const DynScatter *x) {
    const DynGeom *index = x->index;
    int64_t n = 1, at_step = step_of(index, 0, x->index_ndim), place[DYN_SCRATCH_LANES];
    Scatter s = {.row = row_of(x->op, x->dtype), .to = x->to->data, .value = x->value->data, .step = x->to->strides[0]};
    for (int d = 0; d < x->index_ndim; d++) {
        n *= index->dims[d];
    }
    int64_t width = take_row(&s, x->to, x->ndim, x->value, x->value_ndim);
    bool look = x->look || width == 0; /* where there is nothing to write the places have to be there too */
    if (s.row == NULL || (look && !dyn_exec_check(index, x->index_ndim, x->index_dtype, x->to->dims[0]))) {
        return -1;
    }
    s.value_step = step_of(x->value, x->value_ndim - (x->ndim - 1) - x->index_ndim, x->index_ndim);
    for (int64_t pos = 0; pos < n && width > 0; pos += DYN_SCRATCH_LANES) {
        int64_t m = n - pos < DYN_SCRATCH_LANES ? n - pos : DYN_SCRATCH_LANES;
        if (dyn_exec_places(place, index->data + pos * at_step, at_step, m, x->index_dtype, x->to->dims[0]) < 0) {
            return -1;
        }
        (width < DYN_SCATTER_ROW ? scatter_columns : scatter_rows)(&s, place, s.value + pos * s.value_step, m);
    }
    return 0;
}
