/* scatter_loops.h: the loops of exec_scatter.c for each operator and type, for each_isa.h. The compiler makes vectors of rows. */

/* Elements side by side. Steps are in bytes. */
#define LOOPS_OF(NAME, T, expression)                                                                                    \
    TARGET static void LOOP(NAME##_row)(char *restrict to, int64_t step, const char *restrict value, int64_t value_step, \
                                        int64_t n) {                                                                     \
        if (step == sizeof(T) && value_step == sizeof(T)) {                                                              \
            POINTS(T, i, i, expression)                                                                                  \
        } else {                                                                                                         \
            for (int64_t i = 0; i < n; i++) {                                                                            \
                T *at = (T *)(to + i * step), x = *at, y = *(const T *)(value + i * value_step);                         \
                (void)x;                                                                                                 \
                *at = (T)(expression);                                                                                   \
            }                                                                                                            \
        }                                                                                                                \
    }
EACH_LOOP

#define R(name) \
    { name##_points, LOOP(name##_row) }
#define ROW(N, W) [DYN_##N] = {R(add_##W), R(sub_##W), R(mul_##W), R(max_##N), R(min_##N)},
#define PART_ROW(N, T) [DYN_##N] = {R(add_##N), R(sub_##N)},
#define SIZE_ROW(N, T) [N] = R(set_##N),
static const Row LOOP(table)[DYN_DTYPE_COUNT][5] = {DYN_WRAPPED(ROW) DYN_COMPLEXES(PART_ROW)};
static const Row LOOP(sets)[DYN_MAX_SIZE + 1] = {SIZES(SIZE_ROW)};

#undef LOOPS_OF
#undef R
#undef ROW
#undef PART_ROW
#undef SIZE_ROW
