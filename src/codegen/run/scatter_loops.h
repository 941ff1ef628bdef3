/* scatter_loops.h: the loops of exec_scatter.c for each operator and type, for each_isa.h. The compiler makes vectors of rows. */

/* points: one element at each place; row: elements side by side. Steps are in bytes. */
#define LOOPS_OF(NAME, T, expression)                                                                                           \
    TARGET static void LOOP(NAME##_points)(char *to, int64_t step, const int64_t *place, const char *value, int64_t value_step, \
                                           int64_t n) {                                                                         \
        if (step == sizeof(T) && value_step == sizeof(T)) {                                                                     \
            POINTS(T, place[i], i, expression)                                                                                  \
        } else {                                                                                                                \
            for (int64_t i = 0; i < n; i++) {                                                                                   \
                T *at = (T *)(to + place[i] * step), x = *at, y = *(const T *)(value + i * value_step);                         \
                (void)x;                                                                                                        \
                *at = (T)(expression);                                                                                          \
            }                                                                                                                   \
        }                                                                                                                       \
    }                                                                                                                           \
    TARGET static void LOOP(NAME##_row)(char *restrict to, int64_t step, const char *restrict value, int64_t value_step,        \
                                        int64_t n) {                                                                            \
        if (step == sizeof(T) && value_step == sizeof(T)) {                                                                     \
            POINTS(T, i, i, expression)                                                                                         \
        } else {                                                                                                                \
            for (int64_t i = 0; i < n; i++) {                                                                                   \
                T *at = (T *)(to + i * step), x = *at, y = *(const T *)(value + i * value_step);                                \
                (void)x;                                                                                                        \
                *at = (T)(expression);                                                                                          \
            }                                                                                                                   \
        }                                                                                                                       \
    }
#define POINTS(T, at, from, expression) \
    T *a = (T *)to;                     \
    const T *b = (const T *)value;      \
    for (int64_t i = 0; i < n; i++) {   \
        T x = a[at], y = b[from];       \
        (void)x;                        \
        a[at] = (T)(expression);        \
    }

/* Integers wrap. */
#define INTEGER_ROWS(N, T)                          \
    LOOPS_OF(add_##N, T, (uint64_t)x + (uint64_t)y) \
    LOOPS_OF(sub_##N, T, (uint64_t)x - (uint64_t)y) \
    LOOPS_OF(mul_##N, T, (uint64_t)x *(uint64_t)y)  \
    LOOPS_OF(max_##N, T, x > y ? x : y)             \
    LOOPS_OF(min_##N, T, x < y ? x : y)
#define FLOAT_ROWS(N, T)                                               \
    LOOPS_OF(add_##N, T, x + y)                                        \
    LOOPS_OF(sub_##N, T, x - y)                                        \
    LOOPS_OF(mul_##N, T, x *y)                                         \
    LOOPS_OF(max_##N, T, ODD(x, y) ? (x != x ? x : y) : x > y ? x : y) \
    LOOPS_OF(min_##N, T, ODD(x, y) ? (x != x ? x : y) : x < y ? x : y)
#define COMPLEX_ROWS(N, T)      \
    LOOPS_OF(add_##N, T, x + y) \
    LOOPS_OF(sub_##N, T, x - y)
#define SIZE_ROWS(N, T) LOOPS_OF(set_##N, T, y)
INTEGERS(INTEGER_ROWS)
FLOATS(FLOAT_ROWS)
COMPLEXES(COMPLEX_ROWS)
SIZES(SIZE_ROWS)

#define R(name) \
    { LOOP(name##_points), LOOP(name##_row) }
#define ROW(N, T) [DYN_##N] = {R(add_##N), R(sub_##N), R(mul_##N), R(max_##N), R(min_##N)},
#define PART_ROW(N, T) [DYN_##N] = {R(add_##N), R(sub_##N)},
#define SIZE_ROW(N, T) [N] = R(set_##N),
static const Row LOOP(table)[DYN_DTYPE_COUNT][5] = {INTEGERS(ROW) FLOATS(ROW) COMPLEXES(PART_ROW)};
static const Row LOOP(sets)[DYN_MAX_SIZE + 1] = {SIZES(SIZE_ROW)};

#undef LOOPS_OF
#undef POINTS
#undef INTEGER_ROWS
#undef FLOAT_ROWS
#undef COMPLEX_ROWS
#undef SIZE_ROWS
#undef R
#undef ROW
#undef PART_ROW
#undef SIZE_ROW
