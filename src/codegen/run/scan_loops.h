/* scan_loops.h: the loops of exec_scan.c for each operator and type, for each_isa.h. The compiler makes vectors of what goes side
 * by side. */

#define RUNNING(NAME, T, expression)                                                                                        \
    TARGET static void LOOP(NAME##_columns)(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t rows,   \
                                            int64_t n) {                                                                    \
        memcpy(to, from, sizeof(T) * (size_t)n);                                                                            \
        for (int64_t row = 1; row < rows; row++) {                                                                          \
            const T *restrict b = (const T *)(from + row * from_step), *restrict a = (const T *)(to + (row - 1) * to_step); \
            T *restrict c = (T *)(to + row * to_step);                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                               \
                T x = a[i], y = b[i];                                                                                       \
                c[i] = (T)(expression);                                                                                     \
            }                                                                                                               \
        }                                                                                                                   \
    }
/* better: x is, and y is not, of two that are no nan; is_nan: of x; odd_bits: 0, or others if x is nan or infinite; last: nothing
 * is better than `top`; I: an integer of T's size. The best of a stretch is found in lanes of a group, and its place is looked
 * for when all stretches are done: in the one that it is from. The last group may have elements of the one before once more,
 * which does no harm. */
#define LANES_OF(n) _Pragma("GCC unroll 1") for (int j = 0; j < (n); j++)
#define EACH_OF(n)                                                                                               \
    for (int j = 0; j < (n); j++) /* so many that they become vectors, and those are unrolled, kept in registers \
                                   */
#define HALF(T, better, n)                \
    LANES_OF(n) {                         \
        T x = most[(n) + j], y = most[j]; \
        most[j] = (better) ? x : y;       \
    }
#define POSITION(NAME, T, I, field, better, is_nan, odd_bits, known, last)                                                  \
    /* The first that is nan, or no worse than x; n: there is none. */                                                      \
    TARGET static int64_t LOOP(NAME##_place)(const T *v, int64_t n, T x, bool nan) {                                        \
        int64_t k = 0;                                                                                                      \
        while (n >= DYN_BEST_LOOKED_AT && k < n) {                                                                          \
            int64_t at = k + DYN_BEST_LOOKED_AT <= n ? k : n - DYN_BEST_LOOKED_AT;                                          \
            I any = 0, first = DYN_BEST_LOOKED_AT;                                                                          \
            EACH_OF(DYN_BEST_LOOKED_AT) {                                                                                   \
                T y = v[at + j];                                                                                            \
                any |= (nan ? y != y : !(better)) ? (I)1 : (I)0;                                                            \
            }                                                                                                               \
            if (any) {                                                                                                      \
                _Pragma("GCC unroll 1") for (I j = 0; j < DYN_BEST_LOOKED_AT; j++) {                                        \
                    T y = v[at + (int64_t)j];                                                                               \
                    I here = (nan ? y != y : !(better)) ? j : (I)DYN_BEST_LOOKED_AT;                                        \
                    first = here < first ? here : first;                                                                    \
                }                                                                                                           \
                return at + (int64_t)first;                                                                                 \
            }                                                                                                               \
            k = at + DYN_BEST_LOOKED_AT;                                                                                    \
        }                                                                                                                   \
        for (; k < n; k++) {                                                                                                \
            T y = v[k];                                                                                                     \
            if (nan ? y != y : !(better)) {                                                                                 \
                return k;                                                                                                   \
            }                                                                                                               \
        }                                                                                                                   \
        return n;                                                                                                           \
    }                                                                                                                       \
    /* The best of m elements and y. */                                                                                     \
    TARGET static T LOOP(NAME##_best)(const T *v, int64_t m, T y, bool *odd) {                                              \
        T most[GROUP];                                                                                                      \
        I bits[GROUP], any = 0;                                                                                             \
        int64_t k = 0;                                                                                                      \
        LANES_OF(GROUP) {                                                                                                   \
            most[j] = y;                                                                                                    \
            bits[j] = 0;                                                                                                    \
        }                                                                                                                   \
        if (m >= WIDE(T)) {                                                                                                 \
            T wide[WIDE(T)];                                                                                                \
            I wide_bits[WIDE(T)];                                                                                           \
            EACH_OF(WIDE(T)) {                                                                                              \
                wide[j] = y;                                                                                                \
                wide_bits[j] = 0;                                                                                           \
            }                                                                                                               \
            for (; k + WIDE(T) <= m; k += WIDE(T)) {                                                                        \
                EACH_OF(WIDE(T)) {                                                                                          \
                    T x = v[k + j], y = wide[j];                                                                            \
                    wide[j] = (better) ? x : y;                                                                             \
                    wide_bits[j] |= (I)(odd_bits);                                                                          \
                }                                                                                                           \
            }                                                                                                               \
            for (int w = 0; w < WIDE(T); w += GROUP) {                                                                      \
                LANES_OF(GROUP) {                                                                                           \
                    T x = wide[w + j], y = most[j];                                                                         \
                    most[j] = (better) ? x : y;                                                                             \
                    bits[j] |= wide_bits[w + j];                                                                            \
                }                                                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
        for (; m >= GROUP && k < m; k += GROUP) {                                                                           \
            const T *w = v + (k + GROUP <= m ? k : m - GROUP);                                                              \
            LANES_OF(GROUP) {                                                                                               \
                T x = w[j], y = most[j];                                                                                    \
                most[j] = (better) ? x : y;                                                                                 \
                bits[j] |= (I)(odd_bits);                                                                                   \
            }                                                                                                               \
        }                                                                                                                   \
        LANES_OF(GROUP) { any |= bits[j]; }                                                                                 \
        HALF(T, better, 8)                                                                                                  \
        HALF(T, better, 4)                                                                                                  \
        HALF(T, better, 2)                                                                                                  \
        HALF(T, better, 1)                                                                                                  \
        y = most[0];                                                                                                        \
        for (; k < m; k++) {                                                                                                \
            T x = v[k];                                                                                                     \
            y = (better) ? x : y;                                                                                           \
            any |= (I)(odd_bits);                                                                                           \
        }                                                                                                                   \
        *odd = any != 0;                                                                                                    \
        return y;                                                                                                           \
    }                                                                                                                       \
    TARGET static void LOOP(NAME##_find)(const char *from, int64_t n, int64_t at, Best *best) {                             \
        const T *v = (const T *)from;                                                                                       \
        if (known) { /* the first of those is it, and if there is none, all are the same */                                 \
            int64_t first = best->any && best->value.field == (last) ? n : LOOP(NAME##_place)(v, n, last, false);           \
            if (first < n || !best->any) {                                                                                  \
                best->index = at + (first < n ? first : 0);                                                                 \
                best->value.field = first < n ? (last) : !(last);                                                           \
            }                                                                                                               \
            best->any = true;                                                                                               \
            return;                                                                                                         \
        }                                                                                                                   \
        T top = best->any ? (T)best->value.field : v[0];                                                                    \
        int64_t in = best->any ? -1 : 0, most = n, step = DYN_BEST_STRETCH; /* in, most: the stretch that top is from */    \
        best->any = true;                                                                                                   \
        for (int64_t i = 0, m; i < n && !best->nan; i += m) {                                                               \
            int64_t where;                                                                                                  \
            bool odd;                                                                                                       \
            m = n - i < step ? n - i : step;                                                                                \
            T y = top, x = LOOP(NAME##_best)(v + i, m, y, &odd);                                                            \
            if (odd && (where = LOOP(NAME##_place)(v + i, m, x, true)) < m) {                                               \
                best->nan = true;                                                                                           \
                best->index = at + i + where;                                                                               \
                return;                                                                                                     \
            }                                                                                                               \
            most = (better) || i == 0 ? m : most;                                                                           \
            in = (better) ? i : in;                                                                                         \
            top = x;                                                                                                        \
            step = step < DYN_BEST_STRETCH_BYTES / (int64_t)sizeof(T) ? 2 * step : step;                                    \
        }                                                                                                                   \
        if (in >= 0 && !best->nan) {                                                                                        \
            best->index = at + in + LOOP(NAME##_place)(v + in, most, top, false);                                           \
        }                                                                                                                   \
        best->value.field = top;                                                                                            \
    }                                                                                                                       \
    TARGET static void LOOP(NAME##_find_columns)(const char *from, int64_t step, int64_t rows, int64_t n, int64_t *index) { \
        T most[DYN_SCAN_COLUMNS];                                                                                           \
        memcpy(most, from, sizeof(T) * (size_t)n);                                                                          \
        memset(index, 0, sizeof(*index) * (size_t)n);                                                                       \
        for (int64_t row = 1; row < rows; row++) {                                                                          \
            const T *v = (const T *)(from + row * step);                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                               \
                T x = v[i], y = most[i];                                                                                    \
                bool take = (better) | ((is_nan) & (y == y));                                                               \
                most[i] = take ? x : y;                                                                                     \
                index[i] = take ? row : index[i];                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
    }

#define INTEGER_ROWS(N, T)                             \
    POSITION(argmax_##N, T, T, i64, x > y, 0, 0, 0, 0) \
    POSITION(argmin_##N, T, T, i64, x < y, 0, 0, 0, 0)
/* Comparisons raise a flag for nan, which eager's do not: `quietly` takes it back. Those of running results raise none: flags of
 * sums beside them count. */
#define FLOAT_ROWS(N, T)                                                       \
    POSITION(argmax_##N, T, Odd##N, f64, x > y, x != x, odd_bits_##N(x), 0, 0) \
    POSITION(argmin_##N, T, Odd##N, f64, x < y, x != x, odd_bits_##N(x), 0, 0)
EACH_RUNNING
DYN_INTEGERS(INTEGER_ROWS)
DYN_FLOATS(FLOAT_ROWS)
POSITION(argmax_BOOL, uint8_t, uint8_t, i64, (x != 0) > (y != 0), 0, 0, 1, 1)
POSITION(argmin_BOOL, uint8_t, uint8_t, i64, (x != 0) < (y != 0), 0, 0, 1, 0)

#define R(name) \
    { .line = name##_line, .columns = LOOP(name##_columns) }
#define P(name) \
    { .find = LOOP(name##_find), .find_columns = LOOP(name##_find_columns) }
#define ROW(N, W) [DYN_##N] = {R(cumsum_##W), R(cumprod_##W), R(cummax_##N), R(cummin_##N), P(argmax_##N), P(argmin_##N)},
static const Row LOOP(table)[DYN_DTYPE_COUNT][6] = {DYN_WRAPPED(ROW)[DYN_BOOL] = {R(cummax_BOOL), R(cummin_BOOL), R(cummax_BOOL),
                                                                                  R(cummin_BOOL), P(argmax_BOOL),
                                                                                  P(argmin_BOOL)}};

#undef RUNNING
#undef POSITION
#undef HALF
#undef LANES_OF
#undef EACH_OF
#undef INTEGER_ROWS
#undef FLOAT_ROWS
#undef R
#undef P
#undef ROW
