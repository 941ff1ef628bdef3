/* own_loops.h: the loops of exec_own.c over whole numbers that np.bincount counts, for each_isa.h. */

/* The lowest and the highest of n, and of those before. */
#define EXTREMES(N, T)                                                                    \
    TARGET static void LOOP(extremes_##N)(const void *at, int64_t n, int64_t *extremes) { \
        const T *x = at;                                                                  \
        T low = x[0], high = x[0];                                                        \
        for (int64_t i = 0; i < n; i++) {                                                 \
            low = x[i] < low ? x[i] : low;                                                \
            high = x[i] > high ? x[i] : high;                                             \
        }                                                                                 \
        extremes[0] = (int64_t)low < extremes[0] ? (int64_t)low : extremes[0];            \
        extremes[1] = (int64_t)high > extremes[1] ? (int64_t)high : extremes[1];          \
    }
COUNTED(EXTREMES)
#undef EXTREMES

#define ROW(N, T) [DYN_##N] = LOOP(extremes_##N),
static ExtremesFn *const LOOP(extremes)[DYN_DTYPE_COUNT] = {COUNTED(ROW)};
#undef ROW
