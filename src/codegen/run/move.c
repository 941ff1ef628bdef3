/* move.c: moves elements between memory and blocks of lanes: one element to all lanes, elements that lie a few apart (channels
 * of an image, real and imaginary parts) or backwards to lanes side by side, anything else one by one.
 *
 * Called by exec*.c and builtin.c. What is needed often is compiled for each instruction set, and chosen when it is first asked
 * for. Owns nothing. */
#include "codegen/run/isa.h"
#include "codegen/run/exec.h"

/* ---- vectors: n elements at a time, as long as there are so many; what they did is told */

typedef int64_t MoveFn(char *to, const char *from, int64_t n);

/* Places of one vector's elements among those of the two that are loaded; -1: whatever. A third of three vectors takes two steps.
 */
#define EVEN_2 0, 2
#define EVEN_4 EVEN_2, 4, 6
#define EVEN_8 EVEN_4, 8, 10, 12, 14
#define EVEN_16 EVEN_8, 16, 18, 20, 22, 24, 26, 28, 30
#define THIRD_2 0, 3
#define THIRD_4 0, 3, 6, -1
#define THIRD_8 0, 3, 6, 9, 12, 15, -1, -1
#define THIRD_16 0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, -1, -1, -1, -1, -1
#define REST_2 0, 1
#define REST_4 0, 1, 2, 5
#define REST_8 0, 1, 2, 3, 4, 5, 10, 13
#define REST_16 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29
#define BACK_2 1, 0
#define BACK_4 3, 2, BACK_2
#define BACK_8 7, 6, 5, 4, BACK_4
#define BACK_16 15, 14, 13, 12, 11, 10, 9, 8, BACK_8

#define LOAD(V, at)                                          \
    ({                                                       \
        V loaded_;                                           \
        memcpy(&loaded_, from + (at)*SIZE_OF(V), sizeof(V)); \
        loaded_;                                             \
    })
#define SIZE_OF(V) (int64_t)sizeof(V)
/* Loads go up to the element behind those that are taken, which is so always there. */
#define MOVE(NAME, TARGET, V, LANES, STEP, expression)                  \
    TARGET static int64_t NAME(char *to, const char *from, int64_t n) { \
        int64_t done = 0;                                               \
        for (; done + (LANES) < n; done += LANES, to += sizeof(V)) {    \
            V v = expression;                                           \
            memcpy(to, &v, sizeof(V));                                  \
            from += (STEP)*SIZE_OF(V);                                  \
        }                                                               \
        return done;                                                    \
    }
#define PAIR(V, LANES, at) __builtin_shufflevector(LOAD(V, at), LOAD(V, (at) + 1), EVEN_##LANES)
#define MOVES(N, TARGET, T, LANES)                                                                                               \
    typedef T V_##N __attribute__((vector_size(sizeof(T) * (LANES))));                                                           \
    MOVE(two_##N, TARGET, V_##N, LANES, 2, PAIR(V_##N, LANES, 0))                                                                \
    MOVE(three_##N, TARGET, V_##N, LANES, 3,                                                                                     \
         __builtin_shufflevector(__builtin_shufflevector(LOAD(V_##N, 0), LOAD(V_##N, 1), THIRD_##LANES), LOAD(V_##N, 2),         \
                                 REST_##LANES))                                                                                  \
    MOVE(four_##N, TARGET, V_##N, LANES, 4, __builtin_shufflevector(PAIR(V_##N, LANES, 0), PAIR(V_##N, LANES, 2), EVEN_##LANES)) \
    TARGET static int64_t back_##N(char *to, const char *from, int64_t n) {                                                      \
        int64_t done = 0;                                                                                                        \
        from += sizeof(T);                                                                                                       \
        for (; done + (LANES) <= n; done += LANES, to += sizeof(V_##N)) {                                                        \
            V_##N v = LOAD(V_##N, -1);                                                                                           \
            v = __builtin_shufflevector(v, v, BACK_##LANES);                                                                     \
            memcpy(to, &v, sizeof(v));                                                                                           \
            from -= sizeof(v);                                                                                                   \
        }                                                                                                                        \
        return done;                                                                                                             \
    }                                                                                                                            \
    TARGET static int64_t same_##N(char *to, const char *from, int64_t n) {                                                      \
        V_##N v;                                                                                                                 \
        T one;                                                                                                                   \
        int64_t done = 0;                                                                                                        \
        memcpy(&one, from, sizeof(one));                                                                                         \
        for (int i = 0; i < (LANES); i++) {                                                                                      \
            v[i] = one;                                                                                                          \
        }                                                                                                                        \
        for (; done + (LANES) <= n; done += LANES, to += sizeof(v)) {                                                            \
            memcpy(to, &v, sizeof(v));                                                                                           \
        }                                                                                                                        \
        return done;                                                                                                             \
    }

enum { BACK, SAME, TWO, THREE, FOUR, NMOVES };
#define ROW(N) \
    { back_##N, same_##N, two_##N, three_##N, four_##N }
typedef struct Moves {
    MoveFn *by_size[4][NMOVES]; /* elements of 1, 2, 4, 8 bytes; NULL: none */
} Moves;

#define ANY
MOVES(U32, ANY, uint32_t, 4)
MOVES(U64, ANY, uint64_t, 2)
static const Moves base = {{{NULL}, {NULL}, ROW(U32), ROW(U64)}};
#if defined(__x86_64__)
#define V3 __attribute__((target("avx2")))
MOVES(V3_U8, V3, uint8_t, 16)
MOVES(V3_U16, V3, uint16_t, 8)
MOVES(V3_U32, V3, uint32_t, 8)
MOVES(V3_U64, V3, uint64_t, 4)
static const Moves v3 = {{ROW(V3_U8), ROW(V3_U16), ROW(V3_U32), ROW(V3_U64)}};
#define V4 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
MOVES(V4_U8, V4, uint8_t, 16)
MOVES(V4_U16, V4, uint16_t, 16)
MOVES(V4_U32, V4, uint32_t, 16)
MOVES(V4_U64, V4, uint64_t, 8)
static const Moves v4 = {{ROW(V4_U8), ROW(V4_U16), ROW(V4_U32), ROW(V4_U64)}};
#endif

static const Moves *const levels[] = {
    &base,
#if defined(__x86_64__)
    &v3,
    &v4,
#endif
};
static _Atomic(const Moves *) chosen;

bool dyn_lanes_level(size_t level) {
    bool can = level <= dyn_isa_number();
    atomic_store_explicit(&chosen, levels[can ? level : dyn_isa_number()], memory_order_relaxed);
    return can;
}

static const Moves *moves_now(void) {
    const Moves *moves = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (moves == NULL) {
        moves = levels[dyn_isa_number()];
        atomic_store_explicit(&chosen, moves, memory_order_relaxed);
    }
    return moves;
}

bool dyn_lanes_base(void) { return moves_now() == &base; }

static MoveFn *find(int64_t step, uint8_t size) {
    const Moves *moves = moves_now();
    int64_t apart = step / size + 1; /* BACK … FOUR, but for 1: contiguous */
    bool has_loop = apart >= 0 && apart <= 5 && apart != 2;
    if (step % size != 0 || !has_loop || size > 8) {
        return NULL;
    }
    return moves->by_size[__builtin_ctz(size)][apart < 2 ? apart : apart - 1];
}

/* ---- any lanes */

typedef uint64_t Wide __attribute__((vector_size(16))); /* a complex number of doubles */

void dyn_lanes_copy(char *to, const char *from, int64_t to_step, int64_t from_step, int64_t n, uint8_t size) {
    if (to_step == size && from_step == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    MoveFn *move = to_step == size && n >= DYN_MOVE_LEAST ? find(from_step, size) : NULL;
    if (move != NULL) {
        int64_t done = move(to, from, n);
        to += done * size;
        from += done * from_step;
        n -= done;
    }
/* Four at a time, so that the next loads need not wait for stores. */
#define LOOP(T)                                                        \
    for (; n >= 4; n -= 4, from += 4 * from_step, to += 4 * to_step) { \
        T v, w, x, y;                                                  \
        memcpy(&v, from, sizeof(T));                                   \
        memcpy(&w, from + from_step, sizeof(T));                       \
        memcpy(&x, from + 2 * from_step, sizeof(T));                   \
        memcpy(&y, from + 3 * from_step, sizeof(T));                   \
        memcpy(to, &v, sizeof(T));                                     \
        memcpy(to + to_step, &w, sizeof(T));                           \
        memcpy(to + 2 * to_step, &x, sizeof(T));                       \
        memcpy(to + 3 * to_step, &y, sizeof(T));                       \
    }                                                                  \
    for (; n > 0; n--, from += from_step, to += to_step) {             \
        T v;                                                           \
        memcpy(&v, from, sizeof(T));                                   \
        memcpy(to, &v, sizeof(T));                                     \
    }                                                                  \
    break;
    switch (size) {
    case 1: LOOP(uint8_t)
    case 2: LOOP(uint16_t)
    case 4: LOOP(uint32_t)
    case 8: LOOP(uint64_t)
    default: LOOP(Wide)
    }
#undef LOOP
}

void dyn_lanes_pad(char *at, uint8_t size, int64_t n, int64_t full) {
    if (full > n) { /* from a step of 0: the last element is read once */
        dyn_lanes_copy(at + n * size, at + (n - 1) * size, size, 0, full - n, size);
    }
}
