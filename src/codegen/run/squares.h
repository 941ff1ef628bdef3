/* squares.h: squares of vectors turned: as many vectors as one has elements, rows to columns. For exec_tiles.c and records.c. */
#ifndef DYN_SQUARES_H
#define DYN_SQUARES_H

#define LOWER_2 0, 2
#define UPPER_2 1, 3
#define LOWER_4 0, 4, 1, 5
#define UPPER_4 2, 6, 3, 7
#define LOWER_8 0, 8, 1, 9, 2, 10, 3, 11
#define UPPER_8 4, 12, 5, 13, 6, 14, 7, 15
#define EACH(n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)
/* A round interleaves each vector with the one half a square behind. After as many rounds as N has factors of two columns are
 * rows: of v, in w. */
#define ROUND(N, x, y)                                                           \
    EACH((N) / 2) {                                                              \
        y[2 * i] = __builtin_shufflevector(x[i], x[i + (N) / 2], LOWER_##N);     \
        y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + (N) / 2], UPPER_##N); \
    }
#define ROUNDS_2 ROUND(2, v, w)
#define ROUNDS_4 ROUND(4, v, w) ROUND(4, w, v) EACH(4) w[i] = v[i];
#define ROUNDS_8 ROUND(8, v, w) ROUND(8, w, v) ROUND(8, v, w)
/* Four of 8 bytes: halves of vectors stay where they are until the end. */
#define ROUNDS_HALVES                                                               \
    EACH(2) {                                                                       \
        w[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 4, 2, 6);     \
        w[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 1, 5, 3, 7); \
    }                                                                               \
    EACH(2) {                                                                       \
        v[i] = __builtin_shufflevector(w[i], w[i + 2], 0, 1, 4, 5);                 \
        v[i + 2] = __builtin_shufflevector(w[i], w[i + 2], 2, 3, 6, 7);             \
    }                                                                               \
    EACH(4)                                                                         \
    w[i] = v[i];
#endif
