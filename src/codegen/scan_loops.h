/* scan_loops.h: the loops of exec_scan.c for each operator and type, for each_isa.h. The compiler makes vectors of what goes side
 * by side. */

#define RUNNING(NAME, T, expression)                                                                                        \
    TARGET static void LOOP(NAME##_line)(const char *from, int64_t from_step, char *to, int64_t to_step, int64_t n,         \
                                         const char *before) {                                                              \
        T x = before ? *(const T *)before : *(const T *)from;                                                               \
        if (!before) {                                                                                                      \
            *(T *)to = x;                                                                                                   \
        }                                                                                                                   \
        for (int64_t i = !before; i < n; i++) {                                                                             \
            T y = *(const T *)(from + i * from_step);                                                                       \
            x = (T)(expression);                                                                                            \
            *(T *)(to + i * to_step) = x;                                                                                   \
        }                                                                                                                   \
    }                                                                                                                       \
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
/* better: x is, and y is not, of two that are no nan; is_nan: of x; I: an integer of T's size. Of a stretch of elements first the
 * best of each lane of a group is found, and whether there is a nan, then the place of the best, where it beats what was before.
 */
#define LANES_OF_GROUP _Pragma("GCC unroll 1") for (int j = 0; j < GROUP; j++)
#define POSITION(NAME, T, I, field, better, is_nan)                                                                         \
    TARGET static int64_t LOOP(NAME##_place)(const T *v, int64_t n, T x, bool nan) {                                        \
        for (int64_t k = 0; k < n; k += GROUP) {                                                                            \
            int64_t m = n - k < GROUP ? n - k : GROUP;                                                                      \
            I any = 0;                                                                                                      \
            if (m == GROUP) {                                                                                               \
                LANES_OF_GROUP {                                                                                            \
                    T y = v[k + j];                                                                                         \
                    any |= (I)(nan ? y != y : !(better));                                                                   \
                }                                                                                                           \
            }                                                                                                               \
            for (int64_t j = 0; (any || m < GROUP) && j < m; j++) {                                                         \
                T y = v[k + j];                                                                                             \
                if (nan ? y != y : !(better)) {                                                                             \
                    return k + j;                                                                                           \
                }                                                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
        return 0;                                                                                                           \
    }                                                                                                                       \
    TARGET static void LOOP(NAME##_find)(const char *from, int64_t n, int64_t at, Best *best) {                             \
        const T *v = (const T *)from;                                                                                       \
        T top = best->any ? (T)best->value.field : v[0], most[GROUP];                                                       \
        I odd[GROUP];                                                                                                       \
        best->index = best->any ? best->index : at;                                                                         \
        best->any = true;                                                                                                   \
        for (int64_t i = 0; i < n && !best->nan; i += STRETCH, v += STRETCH) {                                              \
            int64_t m = n - i < STRETCH ? n - i : STRETCH, k = 0;                                                           \
            T was = top;                                                                                                    \
            I any = 0;                                                                                                      \
            LANES_OF_GROUP {                                                                                                \
                most[j] = top;                                                                                              \
                odd[j] = 0;                                                                                                 \
            }                                                                                                               \
            for (; k + GROUP <= m; k += GROUP) {                                                                            \
                LANES_OF_GROUP {                                                                                            \
                    T x = v[k + j], y = most[j];                                                                            \
                    most[j] = (better) ? x : y;                                                                             \
                    odd[j] |= (I)(is_nan);                                                                                  \
                }                                                                                                           \
            }                                                                                                               \
            for (int j = 0; j < GROUP; j++) {                                                                               \
                T x = most[j], y = top;                                                                                     \
                top = (better) ? x : y;                                                                                     \
                any |= odd[j];                                                                                              \
            }                                                                                                               \
            for (; k < m; k++) {                                                                                            \
                T x = v[k], y = top;                                                                                        \
                top = (better) ? x : y;                                                                                     \
                any |= (I)(is_nan);                                                                                         \
            }                                                                                                               \
            T x = top, y = was;                                                                                             \
            if (any || (better)) {                                                                                          \
                best->nan = any != 0;                                                                                       \
                best->index = at + i + LOOP(NAME##_place)(v, m, top, best->nan);                                            \
            }                                                                                                               \
        }                                                                                                                   \
        best->value.field = top;                                                                                            \
    }                                                                                                                       \
    TARGET static void LOOP(NAME##_find_columns)(const char *from, int64_t step, int64_t rows, int64_t n, int64_t *index) { \
        T most[COLUMNS];                                                                                                    \
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

/* Integers wrap. */
#define INTEGER_ROWS(N, T)                            \
    RUNNING(cumsum_##N, T, (uint64_t)x + (uint64_t)y) \
    RUNNING(cumprod_##N, T, (uint64_t)x *(uint64_t)y) \
    RUNNING(cummax_##N, T, x > y ? x : y)             \
    RUNNING(cummin_##N, T, x < y ? x : y)             \
    POSITION(argmax_##N, T, T, i64, x > y, 0)         \
    POSITION(argmin_##N, T, T, i64, x < y, 0)
/* Comparisons raise a flag for nan, which eager's do not: `quietly` takes it back. Those of running results raise none: flags of
 * sums beside them count. */
#define FLOAT_ROWS(N, T)                                             \
    RUNNING(cumsum_##N, T, x + y)                                    \
    RUNNING(cumprod_##N, T, x *y)                                    \
    RUNNING(cummax_##N, T, (dyn_above_##N(x, y) | (x != x)) ? x : y) \
    RUNNING(cummin_##N, T, (dyn_above_##N(y, x) | (x != x)) ? x : y) \
    POSITION(argmax_##N, T, Odd##N, f64, x > y, x != x)              \
    POSITION(argmin_##N, T, Odd##N, f64, x < y, x != x)
INTEGERS(INTEGER_ROWS)
FLOATS(FLOAT_ROWS)
RUNNING(cummax_BOOL, uint8_t, (x | y) != 0)
RUNNING(cummin_BOOL, uint8_t, (x != 0) & (y != 0))
POSITION(argmax_BOOL, uint8_t, uint8_t, i64, (x != 0) > (y != 0), 0)
POSITION(argmin_BOOL, uint8_t, uint8_t, i64, (x != 0) < (y != 0), 0)

#define R(name) \
    { .line = LOOP(name##_line), .columns = LOOP(name##_columns) }
#define P(name) \
    { .find = LOOP(name##_find), .find_columns = LOOP(name##_find_columns) }
#define ROW(N, T) [DYN_##N] = {R(cumsum_##N), R(cumprod_##N), R(cummax_##N), R(cummin_##N), P(argmax_##N), P(argmin_##N)},
static const Row LOOP(table)[DYN_DTYPE_COUNT][6] = {
    INTEGERS(ROW)
        FLOATS(ROW)[DYN_BOOL] = {R(cummax_BOOL), R(cummin_BOOL), R(cummax_BOOL), R(cummin_BOOL), P(argmax_BOOL), P(argmin_BOOL)}};

#undef RUNNING
#undef POSITION
#undef LANES_OF_GROUP
#undef INTEGER_ROWS
#undef FLOAT_ROWS
#undef R
#undef P
#undef ROW
