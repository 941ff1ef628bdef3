/* lanes.c: combines accumulators of reductions: the loops between the generated kernels, compiled with the extension, one for
 * each operator and type. Called by exec_reduce.c. */
#include "codegen/run/lanes.h"
#include "codegen/run/isa.h"
#include <limits.h>
#include <math.h>

/* A count that the compiler knows, so that it makes vectors of it. */
#define HALVE(T, w, expression)   \
    for (int i = 0; i < w; i++) { \
        T x = a[i], y = a[w + i]; \
        a[i] = (T)(expression);   \
    }
_Static_assert(DYN_REDUCE_LANES == 32, "the trees start with 16 and 16");
#define LANES(NAME, T, expression)                                                       \
    static void NAME(void *to, const void *from, int n) {                                \
        T *a = to;                                                                       \
        const T *b = from;                                                               \
        for (int i = 0; i < n; i++) {                                                    \
            T x = a[i], y = b[i];                                                        \
            a[i] = (T)(expression);                                                      \
        }                                                                                \
    }                                                                                    \
    __attribute__((unused)) static void NAME##_turn(void *to, const void *from, int n) { \
        T x = *(T *)to;                                                                  \
        const T *b = from;                                                               \
        for (int i = 0; i < n; i++) {                                                    \
            T y = b[i];                                                                  \
            x = (T)(expression);                                                         \
        }                                                                                \
        *(T *)to = x;                                                                    \
    }                                                                                    \
    static void NAME##_tree(void *lanes) {                                               \
        T *a = lanes;                                                                    \
        HALVE(T, 16, expression)                                                         \
        HALVE(T, 8, expression)                                                          \
        HALVE(T, 4, expression)                                                          \
        HALVE(T, 2, expression)                                                          \
        HALVE(T, 1, expression)                                                          \
    }

/* As dyn_rank_max_f32 and its like of ops_c.def: the order in which generated code takes extremes of floats. */
#define RANKS(N, T, I, U, nans)                                                     \
    static inline I rank_of_##N(T a, U offset) {                                    \
        I i;                                                                        \
        memcpy(&i, &a, sizeof(i));                                                  \
        return (I)((U)(i ^ (i >> (8 * sizeof(i) - 1) & (I)((U)-1 >> 1))) + offset); \
    }                                                                               \
    static inline I rank_max_##N(T a) { return rank_of_##N(a, -(U)(nans)); }        \
    static inline I rank_min_##N(T a) { return rank_of_##N(a, (U)(nans)); }
RANKS(F32, float, int32_t, uint32_t, 0x7fffff)
RANKS(F64, double, int64_t, uint64_t, 0xfffffffffffff)

/* Integers wrap. */
#define INTEGER_ROWS(N, T)                       \
    LANES(sum_##N, T, (uint64_t)x + (uint64_t)y) \
    LANES(prod_##N, T, (uint64_t)x *(uint64_t)y) \
    LANES(max_##N, T, x > y ? x : y)             \
    LANES(min_##N, T, x < y ? x : y)
#define FLOAT_ROWS(N, T)                                         \
    LANES(sum_##N, T, x + y)                                     \
    LANES(prod_##N, T, x *y)                                     \
    LANES(max_##N, T, rank_max_##N(x) > rank_max_##N(y) ? x : y) \
    LANES(min_##N, T, rank_min_##N(x) < rank_min_##N(y) ? x : y)
/* As the helpers of ops_c.def. Lanes of products are fused where generated code fuses them, below; in turn they aren't, as in
 * NumPy. */
#define REAL(x) (__real__(x))
#define IMAG(x) (__imag__(x))
#define ISNAN(x) ((x) != (x))
#define ABOVE_C64 (int)dyn_above_F32
#define ABOVE_C128 (int)dyn_above_F64
/* Is x nan, or high above low, which are x and y or y and x? */
#define BEYOND(above, x, high, low)                                                       \
    (ISNAN(x) | (above(REAL(high), REAL(low)) & !ISNAN(IMAG(high)) & !ISNAN(IMAG(low))) | \
     ((REAL(high) == REAL(low)) & above(IMAG(high), IMAG(low))))
#define COMPLEX_ROWS(N, T)                                                                                              \
    LANES(sum_##N, T, x + y)                                                                                            \
    LANES(prod_##N, T, __builtin_complex(REAL(x) * REAL(y) - IMAG(x) * IMAG(y), REAL(x) * IMAG(y) + IMAG(x) * REAL(y))) \
    LANES(max_##N, T, (BEYOND(ABOVE_##N, x, x, y) | (x == y)) ? x : y)                                                  \
    LANES(min_##N, T, (BEYOND(ABOVE_##N, x, y, x) | (x == y)) ? x : y)
DYN_INTEGERS(INTEGER_ROWS)
DYN_FLOATS(FLOAT_ROWS)
DYN_COMPLEXES(COMPLEX_ROWS)
LANES(fused_C64, float _Complex,
      __builtin_complex(fmaf(REAL(x), REAL(y), -(IMAG(x) * IMAG(y))), fmaf(REAL(x), IMAG(y), IMAG(x) * REAL(y))))
LANES(fused_C128, double _Complex,
      __builtin_complex(fma(REAL(x), REAL(y), -(IMAG(x) * IMAG(y))), fma(REAL(x), IMAG(y), IMAG(x) * REAL(y))))
LANES(any_BOOL, uint8_t, x | y)
LANES(all_BOOL, uint8_t, x &y)

typedef struct Combine {
    DynLanesFn *lanes, *turn;
    DynLanesTreeFn *tree;
} Combine;
#define BOTH(name) \
    { name, name##_turn, name##_tree }
#define ROW(N, T) [DYN_##N] = {BOTH(sum_##N), BOTH(prod_##N), BOTH(max_##N), BOTH(min_##N)},
static const Combine table[DYN_DTYPE_COUNT][4] = {DYN_INTEGERS(ROW) DYN_FLOATS(ROW) DYN_COMPLEXES(ROW)[DYN_BOOL] = {
                                                      BOTH(any_BOOL), BOTH(all_BOOL), BOTH(any_BOOL), BOTH(all_BOOL)}};

static const Combine fused[DYN_DTYPE_COUNT] = {
    [DYN_C64] = {fused_C64, prod_C64_turn, fused_C64_tree}, [DYN_C128] = {fused_C128, prod_C128_turn, fused_C128_tree}};

static const Combine *row_of(uint16_t op, uint8_t dtype) {
    if (op == DYN_OP_PROD && dyn_dtypes[dtype].kind == 'c' && strstr(dyn_isa_get()->flags, "-mfma") != NULL) {
        return &fused[dtype];
    }
    switch (op) {
    case DYN_OP_SUM:
    case DYN_OP_ANY: return &table[dtype][0];
    case DYN_OP_PROD:
    case DYN_OP_ALL: return &table[dtype][1];
    case DYN_OP_MAX: return &table[dtype][2];
    default: return &table[dtype][3];
    }
}

DynLanesFn *dyn_lanes_combine(uint16_t op, uint8_t dtype) { return row_of(op, dtype)->lanes; }
DynLanesFn *dyn_lanes_in_turn(uint16_t op, uint8_t dtype) { return row_of(op, dtype)->turn; }
DynLanesTreeFn *dyn_lanes_tree(uint16_t op, uint8_t dtype) { return row_of(op, dtype)->tree; }

/* ---- NumPy's pairwise sums */

/* At most a block. */
#define BLOCK(N, T, W)                                               \
    static T block_##N(const T *v, int64_t n) {                      \
        T sum = 0, r[W];                                             \
        int64_t whole = n - n % W;                                   \
        for (int j = 0; j < W && whole; j++) {                       \
            r[j] = v[j];                                             \
        }                                                            \
        for (int64_t i = W; i < whole; i += W) {                     \
            for (int j = 0; j < W; j++) {                            \
                r[j] += v[i + j];                                    \
            }                                                        \
        }                                                            \
        for (int w = 1; w < W && whole; w *= 2) {                    \
            for (int j = 0; j < W; j += 2 * w) {                     \
                r[j] += r[j + w];                                    \
            }                                                        \
        }                                                            \
        sum = whole ? r[0] : sum;                                    \
        for (int64_t i = whole; i < n; i++) {                        \
            sum += v[i];                                             \
        }                                                            \
        return sum;                                                  \
    }                                                                \
    static void pairwise_##N(void *to, const void *from, int n) {    \
        const int block = 16 * W; /* more are added in two halves */ \
        const T *v = from;                                           \
        if (n <= block) {                                            \
            *(T *)to = block_##N(v, n);                              \
            return;                                                  \
        }                                                            \
        DynParts parts;                                              \
        T sums[64];                                                  \
        int64_t part;                                                \
        int top = 0, joins;                                          \
        dyn_parts_begin(&parts, n, W);                               \
        while (dyn_parts_next(&parts, block, &part, &joins)) {       \
            sums[top++] = block_##N(v, part);                        \
            v += part;                                               \
            for (; joins > 0; joins--, top--) {                      \
                sums[top - 2] += sums[top - 1];                      \
            }                                                        \
        }                                                            \
        *(T *)to = sums[0];                                          \
    }
BLOCK(F32, float, 8)
BLOCK(F64, double, 8)
BLOCK(C64, float _Complex, 4)
BLOCK(C128, double _Complex, 4)

DynLanesFn *dyn_lanes_pairwise(uint8_t dtype) {
    switch (dtype) {
    case DYN_F32: return pairwise_F32;
    case DYN_F64: return pairwise_F64;
    case DYN_C64: return pairwise_C64;
    default: return pairwise_C128;
    }
}

/* Some columns of rows of n: their number is known, so that the sums stay in registers. */
#define KNOWN(T, W)                          \
    case W: {                                \
        T sum[W];                            \
        memcpy(sum, a, sizeof(sum));         \
        for (int64_t i = 0; i < rows; i++) { \
            for (int j = 0; j < W; j++) {    \
                sum[j] += b[i * n + j];      \
            }                                \
        }                                    \
        memcpy(a, sum, sizeof(sum));         \
        break;                               \
    }
#define ADD_ROWS(N, T)                                                                                    \
    DYN_VECTORS static void add_columns_##N(T *a, const T *b, int64_t rows, int64_t n, int columns) {     \
        switch (columns) {                                                                                \
            KNOWN(T, 1)                                                                                   \
            KNOWN(T, 2) KNOWN(T, 3) KNOWN(T, 4) KNOWN(T, 5) KNOWN(T, 6) KNOWN(T, 7) default : KNOWN(T, 8) \
        }                                                                                                 \
    }                                                                                                     \
    static void add_rows_##N(void *to, const void *from, int64_t rows, int n) {                           \
        for (int c = 0; c < n; c += 8) {                                                                  \
            add_columns_##N((T *)to + c, (const T *)from + c, rows, n, n - c < 8 ? n - c : 8);            \
        }                                                                                                 \
    }
ADD_ROWS(F32, float)
ADD_ROWS(F64, double)

DynRowsAddFn *dyn_rows_add(uint16_t op, uint8_t dtype) {
    if (op != DYN_OP_SUM) {
        return NULL;
    }
    if (dtype == DYN_F32) {
        return add_rows_F32;
    }
    return dtype == DYN_F64 ? add_rows_F64 : NULL;
}

void dyn_part_combine(uint16_t op, uint8_t dtype, DynPart *to, const DynPart *from) { dyn_lanes_combine(op, dtype)(to, from, 1); }

DynPart dyn_part_identity(uint16_t op, uint8_t dtype) {
    const DynDtypeInfo *d = &dyn_dtypes[dtype];
    bool one = op == DYN_OP_PROD || op == DYN_OP_ALL, high = op == DYN_OP_MIN, low = op == DYN_OP_MAX;
    DynPart v = {.i64 = one};
    double x = one ? 1 : 0;
    if (high || low) {
        x = high ? HUGE_VAL : -HUGE_VAL;
    }
    if (d->kind == 'c') { /* the lowest number in their order has both parts infinite */
        double _Complex z = __builtin_complex(x, high || low ? x : 0.0);
        if (dtype == DYN_C64) {
            v.c64 = (float _Complex)z;
        } else {
            v.c128 = z;
        }
    } else if (d->kind == 'f') {
        if (dtype == DYN_F32) {
            v.f32 = (float)x;
        } else {
            v.f64 = x;
        }
    } else if (dtype == DYN_BOOL) {
        v.i64 = one || high;
    } else if (d->kind == 'u') {
        v.i64 = high ? -1 : v.i64;
    } else if (high || low) { /* the lowest or highest of the signed type, in its low bytes */
        int64_t most = (int64_t)(UINT64_MAX >> 1) >> (64 - 8 * d->size);
        v.i64 = high ? most : -most - 1;
    }
    return v;
}
