/* exec_gather.c: indirect operands: elements of a table that stand where an array of integers says (a[index], np.take).
 *
 * Called by run.c, which has places looked at before anything that can be seen is done, and by exec.c and exec_reduce.c for the
 * lanes of such an operand, which report what isn't there. A kernel that has a function of its own for it takes tables as they
 * lie: to look up a block, then to compute it, is half as fast, as no stream is read ahead across the lookups between. Where the
 * index is the same for a whole stretch of lanes (rows of a table) they are handed over as they lie. Another thread may write the
 * index meanwhile, as it may while NumPy looks things up: a place that isn't there any more is read as the last. */
#include "codegen/run/isa.h"
#include "codegen/run/exec.h"

#define BLOCK DYN_SCRATCH_LANES

#define LOOPS "codegen/run/gather_loops.h"
#include "codegen/run/each_isa.h"

typedef struct Loops {
    int64_t (*wrong)(const void *at, int64_t n, uint8_t dtype, int64_t extent);
    int64_t (*find)(int64_t *to, const void *at, int64_t n, uint8_t dtype, int64_t extent);
} Loops;

static Loops loops(void) {
#define LEVEL(isa, target) {wrong_##isa, find_##isa},
    static const Loops levels[] = {DYN_EACH_ISA(LEVEL)};
#undef LEVEL
    return levels[dyn_isa_number()];
}

/* ---- are all places there? */

static bool line_is_there(Loops l, const char *at, int64_t step, int64_t n, uint8_t dtype, int64_t extent) {
    _Alignas(64) char room[BLOCK * sizeof(int64_t)];
    uint8_t size = dyn_dtypes[dtype].size;
    if (step == size) {
        return l.wrong(at, n, dtype, extent) >= 0;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        int64_t m = n - i < BLOCK ? n - i : BLOCK;
        dyn_lanes_copy(room, at + i * step, size, step, m, size);
        if (l.wrong(room, m, dtype, extent) < 0) {
            return false;
        }
    }
    return true;
}

bool dyn_exec_check(const DynGeom *index, int ndim, uint8_t dtype, int64_t extent) {
    int64_t at[DYN_MAX_NDIM] = {0}, n = 1, step = dyn_dtypes[dtype].size;
    const char *line = index->data;
    Loops l = loops();
    int outer = ndim;
    for (int d = 0; d < ndim; d++) {
        if (index->dims[d] == 0) {
            return true;
        }
    }
    for (; outer > 0 && (outer == ndim || index->strides[outer - 1] == step * n); outer--) { /* axes that join to one line */
        step = outer == ndim ? index->strides[outer - 1] : step;
        n *= index->dims[outer - 1];
    }
    for (;;) {
        if (!line_is_there(l, line, step, n, dtype, extent)) {
            return false;
        }
        int d = outer - 1;
        for (; d >= 0 && ++at[d] == index->dims[d]; d--) {
            line -= (at[d] - 1) * index->strides[d];
            at[d] = 0;
        }
        if (d < 0) {
            return true;
        }
        line += index->strides[d];
    }
}

/* ---- lanes of an indirect operand */

static void report(const DynBound *b, int64_t wrong) {
    if (wrong < 0 && b->missed != NULL) {
        atomic_store_explicit(b->missed, true, memory_order_relaxed);
    }
}

void dyn_lookup_run(const DynBound *b, char *const *at, int64_t n) {
    long wrong = 0;
    b->native->lookup(&(DynLookupArgs){.operands = at, .extent = b->extent, .missed = &wrong, .n = n, .scalars = b->params});
    report(b, wrong);
}

int64_t dyn_exec_places(int64_t *to, const char *index, int64_t step, int64_t n, uint8_t dtype, int64_t extent) {
    _Alignas(64) int64_t room[BLOCK];
    uint8_t size = dyn_dtypes[dtype].size;
    if (step != size && n > 1) {
        dyn_lanes_copy((char *)room, index, size, step, n, size);
        index = (const char *)room;
    }
    return loops().find(to, index, n, dtype, extent);
}

/* Where operand op stands for n lanes, BLOCK at most. */
static void find_places(const DynBound *b, int op, const char *index, int64_t stride, int64_t n, int64_t *place) {
    uint8_t dtype = b->k->operands.at[b->k->operands.at[op].by].dtype;
    report(b, dyn_exec_places(place, index, stride, n, dtype, b->extent[op]));
}

/* Elements that lie side by side in the table, and elements that lie anywhere. */
#define TAKE(T)                                                                                          \
    if (step == sizeof(T) && stride == 0) {                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                \
            memcpy(to + i * (int64_t)sizeof(T), from + place[i * each] * (int64_t)sizeof(T), sizeof(T)); \
        }                                                                                                \
    } else {                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                \
            memcpy(to + i * (int64_t)sizeof(T), from + place[i * each] * step + i * stride, sizeof(T));  \
        }                                                                                                \
    }                                                                                                    \
    break;
/* each: from one lane's place to the next; step: bytes between the table's elements; stride: and between lanes besides. */
static void take(char *to, const char *from, const int64_t *place, int64_t each, int64_t n, int64_t step, int64_t stride,
                 uint8_t size) {
    switch (size) {
    case 1: TAKE(uint8_t)
    case 2: TAKE(uint16_t)
    case 4: TAKE(uint32_t)
    case 8: TAKE(uint64_t)
    default: TAKE(double _Complex)
    }
}
#undef TAKE

/* Rows of `width` elements, a step apart, each where its place says. */
#define ROWS(T)                                                \
    for (int64_t r = 0; r < n; r++) {                          \
        const char *row = from + place[r] * step + r * stride; \
        for (int64_t i = 0; i < width; i++, to += sizeof(T)) { \
            memcpy(to, row + i * apart, sizeof(T));            \
        }                                                      \
    }                                                          \
    break;
static void take_rows(char *to, const char *from, const int64_t *place, int64_t n, int64_t step, int64_t stride, int64_t width,
                      int64_t apart, uint8_t size) {
    switch (size) {
    case 1: ROWS(uint8_t)
    case 2: ROWS(uint16_t)
    case 4: ROWS(uint32_t)
    case 8: ROWS(uint64_t)
    default: ROWS(double _Complex)
    }
}
#undef ROWS

/* A piece along the last axis of a span. */
static void take_piece(const DynBound *b, int op, const char *table, int64_t stride, const char *index, int64_t index_stride,
                       int64_t n, char *to) {
    _Alignas(64) int64_t place[BLOCK];
    uint8_t size = b->size[op];
    if (index_stride != 0) {
        find_places(b, op, index, index_stride, n, place);
        take(to, table, place, 1, n, b->step[op], stride, size);
    } else {
        find_places(b, op, index, 0, 1, place);
        dyn_lanes_copy(to, table + place[0] * b->step[op], size, stride, n, size);
    }
}

/* A walk through a span, in C order. */
typedef struct Walk {
    const DynSpan *s;
    const int64_t *strides, *index_strides;
    const char *table, *index;
    int64_t place[DYN_MAX_NDIM];
} Walk;

/* On to the next along axis d, of which it stands at the last: along the axes before. */
static void walk_on(Walk *w, int d, int64_t n) {
    for (int64_t by = n; d >= 0; d--, by = 1) {
        w->table += by * w->strides[d];
        w->index += by * w->index_strides[d];
        w->place[d] += by;
        if (w->place[d] < w->s->dims[d]) {
            break;
        }
        w->table -= w->s->dims[d] * w->strides[d];
        w->index -= w->s->dims[d] * w->index_strides[d];
        w->place[d] = 0;
    }
}

void dyn_span_take(const DynBound *b, const DynSpan *s, int op, char *const *at, int64_t pos, int64_t n, char *to) {
    int by = b->k->operands.at[op].by, last = s->ndim - 1; /* not none: the index goes on along some axis */
    Walk w = {.s = s, .strides = s->strides[op], .index_strides = s->strides[by], .table = at[op], .index = at[by]};
    int64_t rest = pos, width = s->dims[last];
    uint8_t size = b->size[op];
    for (int d = s->ndim; d-- > 0;) {
        w.place[d] = rest % s->dims[d];
        rest /= s->dims[d];
        w.table += w.place[d] * w.strides[d];
        w.index += w.place[d] * w.index_strides[d];
    }
    bool rows = last > 0 && w.index_strides[last] == 0 && width < DYN_GATHER_ROW;
    while (n > 0) {
        int64_t piece = width - w.place[last], nrows = 0;
        piece = piece < n ? piece : n;
        if (rows && w.place[last] == 0 && n >= width) {
            int64_t place[BLOCK], left = s->dims[last - 1] - w.place[last - 1];
            nrows = n / width < left ? n / width : left;
            find_places(b, op, w.index, w.index_strides[last - 1], nrows, place);
            take_rows(to, w.table, place, nrows, b->step[op], w.strides[last - 1], width, w.strides[last], size);
            piece = nrows * width;
            walk_on(&w, last - 1, nrows);
        } else {
            take_piece(b, op, w.table, w.strides[last], w.index, w.index_strides[last], piece, to);
            walk_on(&w, last, piece);
        }
        to += piece * size;
        n -= piece;
    }
}

#define LINE 64 /* bytes */

void dyn_block_take(const DynBound *b, int op, const char *table, const int64_t *strides, const char *index,
                    const int64_t *index_strides, int64_t n, int64_t rows, char *to, int64_t pitch) {
    _Alignas(64) int64_t place[BLOCK];
    uint8_t size = b->size[op], wide = b->size[b->k->operands.at[op].by];
    bool one = index_strides[1] == 0, dense = index_strides[1] == wide && index_strides[0] == rows * wide && rows * n <= BLOCK;
    if (one) {
        find_places(b, op, index, index_strides[0], n, place);
    } else if (dense) {
        find_places(b, op, index, wide, n * rows, place);
    }
    for (int64_t k = 0; k < rows; k++, to += pitch) {
        if (!one && !dense) {
            find_places(b, op, index + k * index_strides[1], index_strides[0], n, place);
        }
        for (int64_t i = 0; dense && i < n * wide; i += LINE) { /* what is between two blocks keeps it from being read ahead */
            __builtin_prefetch(index + (rows + k) * n * wide + i);
        }
        take(to, table + k * strides[1], dense ? place + k : place, dense ? rows : 1, n, b->step[op], strides[0], size);
        dyn_lanes_pad(to, size, n, DYN_REDUCE_LANES);
    }
}

char *const *dyn_span_look_up(const DynBound *b, const DynSpan *s, char *const *at, char **now) {
    memcpy(now, at, sizeof(*now) * (size_t)b->nops);
    for (uint32_t rest = s->n == 0 ? 0 : s->looked_up; rest; rest &= rest - 1) {
        int op = __builtin_ctz(rest);
        int64_t place;
        find_places(b, op, at[b->k->operands.at[op].by], 0, 1, &place);
        now[op] = at[op] + place * b->step[op];
    }
    return now;
}
