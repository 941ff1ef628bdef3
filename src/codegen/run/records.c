/* records.c: moves several fields of the same records (channels of an image, directions of a lattice: f[..., 0], f[..., 1] …)
 * between memory and lanes, a square of records at a time: their lines are read or written once, by vectors, where field after
 * field would walk all of them again for one element each.
 *
 * Called by exec.c and exec_few.c. Owns nothing. */
#include "codegen/run/exec.h"
#include "codegen/run/squares.h"

/* Side-by-side fields of as many records as a square has sides, and the next ones: to[k][record] = from[record][k]. What is left
 * over there is put together: the other way round. */
typedef void DealFn(char *const *to, const char *from, int64_t step, int64_t squares);
typedef void CollectFn(char *to, char *const *from, int64_t step, int64_t squares);

#define SQUARES(N, TARGET, T, SIDE, ROUNDS)                                                         \
    typedef T Row_##N __attribute__((vector_size(sizeof(T) * (SIDE))));                             \
    TARGET static void deal_##N(char *const *to, const char *from, int64_t step, int64_t squares) { \
        Row_##N v[SIDE], w[SIDE];                                                                   \
        for (int64_t at = 0, end = squares * SIZE_OF(v[0]); at < end; at += SIZE_OF(v[0])) {        \
            EACH(SIDE)                                                                              \
            memcpy(&v[i], from + i * step, sizeof(*v));                                             \
            ROUNDS                                                                                  \
            EACH(SIDE)                                                                              \
            memcpy(to[i] + at, &w[i], sizeof(*w));                                                  \
            from += (SIDE)*step;                                                                    \
        }                                                                                           \
    }                                                                                               \
    TARGET static void collect_##N(char *to, char *const *from, int64_t step, int64_t squares) {    \
        Row_##N v[SIDE], w[SIDE];                                                                   \
        for (int64_t at = 0, end = squares * SIZE_OF(v[0]); at < end; at += SIZE_OF(v[0])) {        \
            EACH(SIDE)                                                                              \
            memcpy(&v[i], from[i] + at, sizeof(*v));                                                \
            ROUNDS                                                                                  \
            EACH(SIDE)                                                                              \
            memcpy(to + i * step, &w[i], sizeof(*w));                                               \
            to += (SIDE)*step;                                                                      \
        }                                                                                           \
    }
#define SIZE_OF(v) (int64_t)sizeof(v)
#define ANY
SQUARES(u8, ANY, uint8_t, 8, ROUNDS_8)
SQUARES(u16, ANY, uint16_t, 8, ROUNDS_8)
SQUARES(u32, ANY, uint32_t, 4, ROUNDS_4)
#if defined(__x86_64__)
SQUARES(u64, __attribute__((target("avx2"))), uint64_t, 4, ROUNDS_HALVES)
#endif

#define MOST_SIDE 8
typedef struct Square {
    int64_t side; /* 0: there is none */
    DealFn *deal;
    CollectFn *collect;
} Square;

/* Squares of two are no faster than element by element. */
static Square square_of(uint8_t size) {
    static const Square squares[] = {{8, deal_u8, collect_u8}, {8, deal_u16, collect_u16}, {4, deal_u32, collect_u32}};
#if defined(__x86_64__)
    if (size == 8 && !dyn_lanes_base()) {
        return (Square){4, deal_u64, collect_u64};
    }
#endif
    return size >= 8 ? (Square){0} : squares[__builtin_ctz(size)];
}

bool dyn_records_wanted(int64_t step, uint8_t size) {
    Square q = square_of(size);
    if (q.side == 0 || step % size != 0) {
        return false;
    }
    return step > DYN_RECORD_NEAR * size && step + size >= q.side * size;
}

void dyn_records_deal(char *const *to, const int64_t *field, int nfields, const char *from, int64_t step, int64_t n,
                      uint8_t size) {
    _Alignas(64) char nobody[DYN_SCRATCH_LANES * 8];
    char *square[MOST_SIDE];
    Square q = square_of(size);
    int64_t squares = n <= DYN_SCRATCH_LANES ? (n - 1) / q.side : 0, done = squares * q.side, width = q.side * size;
    for (int k = 0, next; k < nfields; k = next) {
        /* The byte before the next record's first field ends what is there: squares end in front of the last record. */
        int64_t at = field[k] + width <= field[0] + step + size ? field[k] : field[0] + step + size - width;
        for (next = k + 1; next < nfields && field[next] < at + width; next++) {
        }
        bool alone = next - k <= q.side / 4 || squares == 0;
        for (int i = 0; i < q.side; i++) {
            square[i] = nobody;
        }
        for (int i = k; i < next; i++) {
            square[(field[i] - at) / size] = to[i];
        }
        if (!alone) {
            q.deal(square, from + at, step, squares);
        }
        for (int i = k; i < next; i++) {
            int64_t first = alone ? 0 : done;
            dyn_lanes_copy(to[i] + first * size, from + first * step + field[i], size, step, n - first, size);
        }
    }
}

void dyn_records_collect(char *to, int64_t step, char *const *from, const int64_t *field, int nfields, int64_t n, uint8_t size) {
    Square q = square_of(size);
    int64_t squares = n / q.side, done = squares * q.side;
    for (int k = 0, next; k < nfields; k = next) {
        for (next = k + 1; next < nfields && next < k + q.side && field[next] == field[k] + (next - k) * size; next++) {
        }
        bool whole = next == k + q.side && squares > 0;
        if (whole) {
            q.collect(to + field[k], from + k, step, squares);
        }
        for (int i = k; i < next; i++) {
            int64_t first = whole ? done : 0;
            dyn_lanes_copy(to + first * step + field[i], from[i] + first * size, step, size, n - first, size);
        }
    }
}

/* ---- operands of a span */

uint32_t dyn_records_find(const DynBound *b, const DynSpan *s, bool out) {
    uint32_t found = 0;
    for (int i = 0; i < b->nops; i++) {
        if (s->mode[i] != DYN_SPAN_STRIDED || b->k->operands.at[i].out != out || !dyn_records_wanted(s->stride[i], b->size[i])) {
            continue;
        }
        for (int j = 0; j < i; j++) {
            bool alike = s->mode[j] == DYN_SPAN_STRIDED && b->k->operands.at[j].out == out && s->stride[j] == s->stride[i];
            found |= alike && b->size[j] == b->size[i] ? 1u << i | 1u << j : 0;
        }
    }
    return found;
}

typedef struct Fields {
    int n, op[DYN_MAX_OPERANDS];
    char *first;
    int64_t at[DYN_MAX_OPERANDS]; /* from the first */
} Fields;

/* Those of `left` that lie in the record of its first operand, in their order; no two are one. It is asked for each row, so
 * nothing is cleared or divided: sizes of elements that squares are made of are powers of two. */
static Fields fields_of(const DynBound *b, const DynSpan *s, uint32_t left, char *const *at) {
    Fields f;
    int first = __builtin_ctz(left);
    int64_t step = s->stride[first], within = b->size[first] - 1;
    f.n = 0;
    for (uint32_t rest = left; rest != 0; rest &= rest - 1) {
        int i = __builtin_ctz(rest);
        bool same_steps = s->stride[i] == step && b->size[i] == b->size[first];
        if (!same_steps || ((at[i] - at[first]) & within) != 0) {
            continue;
        }
        int k = f.n;
        for (; k > 0 && at[f.op[k - 1]] > at[i]; k--) {
        }
        bool again = k > 0 && at[f.op[k - 1]] == at[i];
        bool near = f.n == 0 || (at[i] - at[f.op[0]] < step && at[f.op[f.n - 1]] - at[i] < step);
        if (!again && near) {
            memmove(&f.op[k + 1], &f.op[k], sizeof(*f.op) * (size_t)(f.n++ - k));
            f.op[k] = i;
        }
    }
    f.first = at[f.op[0]];
    for (int k = 0; k < f.n; k++) {
        f.at[k] = at[f.op[k]] - f.first;
    }
    return f;
}

uint32_t dyn_records_move(const DynBound *b, const DynSpan *s, bool out, char *const *at, int64_t pos, int64_t n,
                          DynScratch *scratch) {
    uint32_t moved = 0, which = s->records[out];
    while (which != 0) {
        Fields f = fields_of(b, s, which, at);
        int64_t step = s->stride[f.op[0]];
        uint8_t size = b->size[f.op[0]];
        char *row[DYN_MAX_OPERANDS];
        uint32_t these = 0;
        for (int k = 0; k < f.n; k++) {
            row[k] = scratch->lanes[f.op[k]];
            these |= 1u << f.op[k];
        }
        which &= ~these;
        if (f.n == 1) {
            continue;
        }
        if (out) {
            dyn_records_collect(f.first + pos * step, step, row, f.at, f.n, n, size);
        } else {
            dyn_records_deal(row, f.at, f.n, f.first + pos * step, step, n, size);
        }
        moved |= these;
    }
    return moved;
}
