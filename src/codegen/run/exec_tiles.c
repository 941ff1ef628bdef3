/* exec_tiles.c: elementwise kernels that read memory across the order in which they write: tiles of such an operand are turned
 * into a buffer first, so that lines of memory are read whole.
 *
 * Called by exec.c. An operand is turned if its neighbours in memory lie along the axis before the last. A band of DYN_TILE_ROWS
 * rows is walked tile by tile; bands are what threads share. Owns nothing: the buffer is on the stack.
 *
 * The sizes are measured (1000 x 1000 of 4 bytes, Cascade Lake): a tile as long as the buffer allows keeps the streams of what is
 * read and written directly long, 64 rows are four lines of each column at a time, which are asked for eight columns ahead, as
 * no processor foresees the next page. Rows of the buffer must not be a power of two apart: they would fall into the same few
 * sets of the first-level cache, which costs as much as all the rest. */
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include "codegen/run/lanes.h"
#include "codegen/run/squares.h"

#define LINE 64
#define MAX_TURNED 4

static bool is_turned(const DynBound *b, const DynSpan *row, int op) {
    int inner = b->ndim - 1;
    if (b->k->operands.at[op].out || row->mode[op] != DYN_SPAN_STRIDED) {
        return false;
    }
    return b->strides[op][inner - 1] == b->size[op] && b->strides[op][inner] >= DYN_TILE_APART;
}

bool dyn_tiles_wanted(const DynBound *b, const DynSpan *row) {
    int inner = b->ndim - 1, n = 0;
    if (b->indirect || b->dims[inner - 1] < DYN_TILE_SIDE || b->dims[inner] < DYN_TILE_SIDE) {
        return false;
    }
    for (int i = 0; i < b->nops; i++) {
        n += is_turned(b, row, i);
    }
    return n > 0 && n <= MAX_TURNED;
}

/* The axis that a tile takes beside the last, if it isn't the one before the last, is moved there. */
void dyn_tiles_order(DynBound *b) {
    int inner = b->indirect ? 0 : b->ndim - 1, axis = inner;
    for (int i = 0; i < b->nops && inner > 1 && b->dims[inner] >= DYN_TILE_SIDE; i++) {
        for (int d = 0; d < inner && !b->k->operands.at[i].out && b->strides[i][inner] >= DYN_TILE_APART; d++) {
            axis = b->strides[i][d] == b->size[i] && b->dims[d] >= DYN_TILE_SIDE ? d : axis;
        }
    }
    for (; axis < inner - 1; axis++) {
        dyn_bound_swap(b, axis, axis + 1);
    }
}

/* ---- one operand of one tile */

/* As many columns as a square has, down their rows, square by square: to[r][c] = from[c][r]. */
typedef void StripFn(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows);

#define STRIP(NAME, TARGET, T, N, ROUNDS)                                                                   \
    typedef T NAME##_row __attribute__((vector_size(sizeof(T) * (N))));                                     \
    TARGET static void NAME(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t rows) { \
        NAME##_row v[N], w[N];                                                                              \
        for (int64_t r = 0; r < rows; r += N, from += sizeof(*v), to += (N)*to_step) {                      \
            EACH(N)                                                                                         \
            memcpy(&v[i], from + i * from_step, sizeof(*v));                                                \
            ROUNDS                                                                                          \
            EACH(N)                                                                                         \
            memcpy(to + i * to_step, &w[i], sizeof(*w));                                                    \
        }                                                                                                   \
    }
#define ANY
STRIP(strip_u8, ANY, uint8_t, 8, ROUNDS_8)
STRIP(strip_u16, ANY, uint16_t, 8, ROUNDS_8)
STRIP(strip_u32, ANY, uint32_t, 4, ROUNDS_4)
STRIP(strip_u64, ANY, uint64_t, 2, ROUNDS_2)
#if defined(__x86_64__)
STRIP(strip_avx2, __attribute__((target("avx2"))), uint64_t, 4, ROUNDS_HALVES)
#endif

typedef struct Square {
    int64_t side; /* 1: there is none */
    StripFn *strip;
} Square;

static Square square_of(uint8_t size) {
    static const Square squares[] = {{8, strip_u8}, {8, strip_u16}, {4, strip_u32}, {2, strip_u64}};
#if defined(__x86_64__)
    if (size == 8 && dyn_isa_number() > 0) {
        return (Square){4, strip_avx2};
    }
#endif
    return size > 8 ? (Square){1, NULL} : squares[__builtin_ctz(size)];
}

/* rows x columns elements whose columns are contiguous in memory, row by row to `to`. */
static void turn_tile(char *to, int64_t pitch, const char *from, int64_t step, int64_t rows, int64_t columns, uint8_t size) {
    Square square = square_of(size);
    int64_t side = square.side, whole_rows = side > 1 ? rows / side * side : 0, whole = columns / side * side;
    for (int64_t c = 0; c < columns; c += side) {
        for (int64_t k = c + DYN_TILE_AHEAD; k < c + DYN_TILE_AHEAD + side && k < columns; k++) {
            for (int64_t byte = 0; byte < rows * size; byte += LINE) {
                __builtin_prefetch(from + k * step + byte);
            }
        }
        int64_t done = c < whole ? whole_rows : 0;
        if (done > 0) {
            square.strip(to + c * size, pitch, from + c * step, step, done);
        }
        for (int64_t k = c; done < rows && k < c + side && k < columns; k++) {
            dyn_lanes_copy(to + done * pitch + k * size, from + k * step + done * size, pitch, size, rows - done, size);
        }
    }
}

/* ---- tiles and bands */

typedef struct Tiles {
    const DynBound *b;
    DynSpan span; /* of a part of a row; what is turned is contiguous there */
    uint8_t ops[MAX_TURNED];
    int n;
    int64_t columns; /* of a tile, at most */
    bool joined;     /* a tile has whole rows, and they lie one behind the other */
    int copied;      /* -1, or what the kernel only copies ops[0] to, which needs no buffer */
} Tiles;

/* Lines so many bytes apart fall into the same few sets of the first-level cache. */
#define SAME_SETS 512

/* The operand that is ops[0] turned and nothing else. */
static int find_copy(const Tiles *t) {
    const DynBound *b = t->b;
    const DynKernel *k = b->k;
    int out = 1 - t->ops[0], inner = b->ndim - 1;
    bool copies = b->nops == 2 && k->insns.n == 2 && k->insns.at[1].kind == DYN_L_STORE;
    if (!copies || k->in_place) {
        return -1;
    }
    bool dense = b->strides[out][inner] == b->size[out];
    return dense && b->strides[out][inner - 1] % SAME_SETS != 0 ? out : -1;
}

static bool is_joined(const Tiles *t) {
    const DynBound *b = t->b;
    int inner = b->ndim - 1;
    bool joined = b->dims[inner] <= t->columns;
    for (int i = 0; i < b->nops; i++) {
        bool turned = memchr(t->ops, i, (size_t)t->n) != NULL;
        joined = joined && (turned || b->strides[i][inner - 1] == b->dims[inner] * b->strides[i][inner]);
    }
    return joined;
}

static void run_tile(const Tiles *t, char *const *at, int64_t rows, int64_t columns, char *buffer, DynScratch *scratch) {
    const DynBound *b = t->b;
    char *p[DYN_MAX_OPERANDS];
    int64_t steps[DYN_MAX_OPERANDS];
    int inner = b->ndim - 1;
    if (t->copied >= 0) {
        int op = t->ops[0];
        turn_tile(at[t->copied], b->strides[t->copied][inner - 1], at[op], b->strides[op][inner], rows, columns, b->size[op]);
        return;
    }
    for (int i = 0; i < b->nops; i++) {
        p[i] = at[i];
        steps[i] = b->strides[i][inner - 1];
    }
    for (int k = 0; k < t->n; k++) {
        int op = t->ops[k];
        int64_t pitch = t->joined ? columns * b->size[op] : t->columns * b->size[op] + LINE;
        turn_tile(buffer, pitch, at[op], b->strides[op][inner], rows, columns, b->size[op]);
        p[op] = buffer;
        steps[op] = pitch;
        buffer += DYN_TILE_ROWS * pitch;
    }
    if (t->joined) {
        dyn_span_part(b, &t->span, p, 0, rows * columns, scratch);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        dyn_span_part(b, &t->span, p, 0, columns, scratch);
        for (int i = 0; i < b->nops; i++) {
            p[i] += steps[i];
        }
    }
}

/* One band of rows; bands of all outer axes are numbered through. */
static void tiles_chunk(void *ctx, int64_t chunk) {
    const Tiles *t = ctx;
    const DynBound *b = t->b;
    DynScratch scratch;
    _Alignas(64) char buffer[DYN_TILE_BYTES + MAX_TURNED * DYN_TILE_ROWS * LINE];
    char *line[DYN_MAX_OPERANDS], *at[DYN_MAX_OPERANDS];
    int inner = b->ndim - 1, row = inner - 1;
    int64_t bands = (b->dims[row] + DYN_TILE_ROWS - 1) / DYN_TILE_ROWS, first = chunk % bands * DYN_TILE_ROWS,
            rest = chunk / bands;
    int64_t rows = b->dims[row] - first < DYN_TILE_ROWS ? b->dims[row] - first : DYN_TILE_ROWS;
    for (int i = 0; i < b->nops; i++) {
        line[i] = b->base[i] + first * b->strides[i][row];
    }
    for (int d = row; d-- > 0;) {
        int64_t index = rest % b->dims[d];
        rest /= b->dims[d];
        for (int i = 0; i < b->nops; i++) {
            line[i] += index * b->strides[i][d];
        }
    }
    for (int64_t column = 0; column < b->dims[inner]; column += t->columns) {
        int64_t columns = b->dims[inner] - column < t->columns ? b->dims[inner] - column : t->columns;
        for (int i = 0; i < b->nops; i++) {
            at[i] = line[i] + column * b->strides[i][inner];
        }
        run_tile(t, at, rows, columns, buffer, &scratch);
    }
}

void dyn_tiles_run(const DynBound *b, const DynSpan *row, bool parallel) {
    Tiles t = {.b = b, .span = *row};
    int64_t bytes = 0, chunks = 1;
    t.span.direct = true;
    for (int i = 0; i < b->nops; i++) {
        if (is_turned(b, row, i)) {
            t.ops[t.n++] = (uint8_t)i;
            t.span.mode[i] = DYN_SPAN_DIRECT;
            t.span.lane[i] = b->size[i];
            bytes += DYN_TILE_ROWS * b->size[i];
        }
        t.span.direct = t.span.direct && t.span.mode[i] <= DYN_SPAN_SCALAR;
    }
    t.copied = find_copy(&t);
    t.columns = DYN_TILE_BYTES / bytes / DYN_TILE_COLUMNS * DYN_TILE_COLUMNS;
    t.joined = is_joined(&t);
    for (int d = 0; d < b->ndim - 1; d++) {
        chunks *= d == b->ndim - 2 ? (b->dims[d] + DYN_TILE_ROWS - 1) / DYN_TILE_ROWS : b->dims[d];
    }
    if (parallel) {
        dyn_par_for(tiles_chunk, &t, chunks);
        return;
    }
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        tiles_chunk(&t, chunk);
    }
}
