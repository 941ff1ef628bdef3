/* exec.c: runs elementwise kernels, and groups of kernels row by row.
 *
 * Called by run.c. A generated function takes contiguous lanes, a multiple of so many at a time. Here axes are ordered and
 * joined, memory that is contiguous is handed over as it is, anything else is gathered into scratch blocks and scattered back,
 * and the last lanes are padded with copies of a valid element (so that no floating-point flag is raised for nothing). Every
 * element thus goes through the same instructions, wherever it lies. */
#include "codegen/lanes.h"

int dyn_exec_bind(const DynKernel *k, const DynNativeTable *table, const DynGeom *geoms, const DynScalar *sym, DynBound *b) {
    b->k = k;
    b->fn = table == NULL ? NULL : table->kernels[k->number].lanes;
    b->one = table == NULL ? NULL : table->kernels[k->number].one;
    b->ndim = k->ndim;
    b->nops = (int)k->operands.n;
    bool none = false;
    for (int d = 0; d < k->ndim; d++) {
        b->dims[d] = sym[k->shape[d]].i;
        none = none || b->dims[d] == 0;
    }
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &k->operands.at[i];
        const DynGeom *g = &geoms[o->place];
        b->base[i] = g->data;
        b->size[i] = dyn_dtypes[o->dtype].size;
        for (int d = 0; d < k->ndim; d++) {
            int axis = o->axis[d];
            bool walks = axis >= 0 && (o->window || g->dims[axis] != 1);
            if (walks && !none && (o->window ? g->dims[axis] - o->at[d] < b->dims[d] : g->dims[axis] != b->dims[d])) {
                return -1;
            }
            b->strides[i][d] = walks ? g->strides[axis] : 0;
            b->base[i] += walks ? o->at[d] * g->strides[axis] : 0;
        }
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynScalar v = sym[k->params.at[i].sym];
        bool to_float = dyn_dtypes[k->params.at[i].dtype].kind == 'f', is_float = k->params.at[i].is_float;
        if (to_float && !is_float) {
            v.f = (double)v.i;
        } else if (!to_float && is_float) {
            v.i = k->params.at[i].dtype == DYN_BOOL ? v.f != 0 : (int64_t)v.f;
        }
        b->params[i] = v;
    }
    return 0;
}

int64_t dyn_exec_cost(const DynBound *b) {
    double n = b->k->cost;
    for (int d = 0; d < b->ndim; d++) {
        n *= (double)b->dims[d];
    }
    return n > 1e15 ? (int64_t)1e15 : (int64_t)n;
}

/* ---- lanes of one operand */

void dyn_lanes_copy(char *to, const char *from, int64_t to_step, int64_t from_step, int64_t n, uint8_t size) {
    if (to_step == size && from_step == size) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    /* One element again and again, elements to side by side, and any step: the compiler makes the best of each. */
#define LOOP(T)                                                                 \
    {                                                                           \
        T v;                                                                    \
        if (from_step == 0 && to_step == sizeof(T) && n > 0) {                  \
            memcpy(&v, from, sizeof(T));                                        \
            int64_t i = 0;                                                      \
            for (; i + 16 <= n; i += 16) { /* a count that is known: vectors */ \
                for (int j = 0; j < 16; j++) {                                  \
                    memcpy(to + (i + j) * (int64_t)sizeof(T), &v, sizeof(T));   \
                }                                                               \
            }                                                                   \
            for (; i < n; i++) {                                                \
                memcpy(to + i * (int64_t)sizeof(T), &v, sizeof(T));             \
            }                                                                   \
        } else if (to_step == sizeof(T)) {                                      \
            for (int64_t i = 0; i < n; i++, from += from_step) {                \
                memcpy(&v, from, sizeof(T));                                    \
                memcpy(to + i * (int64_t)sizeof(T), &v, sizeof(T));             \
            }                                                                   \
        } else {                                                                \
            for (int64_t i = 0; i < n; i++) {                                   \
                memcpy(to + i * to_step, from + i * from_step, sizeof(T));      \
            }                                                                   \
        }                                                                       \
        break;                                                                  \
    }
    switch (size) {
    case 1: LOOP(uint8_t)
    case 2: LOOP(uint16_t)
    case 4: LOOP(uint32_t)
    case 8: LOOP(uint64_t)
    default: LOOP(double _Complex)
    }
#undef LOOP
}

void dyn_lanes_pad(char *at, uint8_t size, int64_t n, int64_t full) {
    if (full > n) { /* from a step of 0: the last element is read once */
        dyn_lanes_copy(at + n * size, at + (n - 1) * size, size, 0, full - n, size);
    }
}

/* Lanes pos … pos + n of a span in pieces that lie along its last axis. */
static void move_lanes(const DynBound *b, const DynSpan *s, int op, char *memory, int64_t pos, int64_t n, char *lanes, bool out) {
    int64_t index[DYN_MAX_NDIM], rest = pos;
    uint8_t size = b->size[op];
    const int64_t *strides = s->strides[op];
    char *at = memory;
    for (int d = s->ndim; d-- > 0;) {
        index[d] = rest % s->dims[d];
        rest /= s->dims[d];
        at += index[d] * strides[d];
    }
    int last = s->ndim - 1;
    while (n > 0) {
        int64_t piece = s->dims[last] - index[last];
        piece = piece < n ? piece : n;
        if (out) {
            dyn_lanes_copy(at, lanes, strides[last], size, piece, size);
        } else {
            dyn_lanes_copy(lanes, at, size, strides[last], piece, size);
        }
        lanes += piece * size;
        n -= piece;
        at -= index[last] * strides[last];
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            at += strides[d];
            if (++index[d] < s->dims[d]) {
                break;
            }
            at -= s->dims[d] * strides[d];
            index[d] = 0;
        }
    }
}

void dyn_span_gather(const DynBound *b, const DynSpan *s, int op, const char *from, int64_t pos, int64_t n, char *to) {
    uint8_t size = b->size[op];
    switch (s->mode[op]) {
    case DYN_SPAN_DIRECT: memcpy(to, from + pos * size, (size_t)(n * size)); break;
    case DYN_SPAN_SPLAT: dyn_lanes_copy(to, from, size, 0, n, size); break;
    case DYN_SPAN_STRIDED: dyn_lanes_copy(to, from + pos * s->stride[op], size, s->stride[op], n, size); break;
    default: move_lanes(b, s, op, (char *)from, pos, n, to, false);
    }
}

void dyn_span_scatter(const DynBound *b, const DynSpan *s, int op, char *to, int64_t pos, int64_t n, const char *from) {
    uint8_t size = b->size[op];
    switch (s->mode[op]) {
    case DYN_SPAN_DIRECT: memcpy(to + pos * size, from, (size_t)(n * size)); break;
    case DYN_SPAN_GATHER: move_lanes(b, s, op, to, pos, n, (char *)from, true); break;
    default: /* SPLAT: one element, written by its last lane */
        dyn_lanes_copy(to + pos * s->stride[op], from, s->stride[op], size, n, size);
    }
}

/* ---- spans */

static bool joins(const DynBound *b, int outer, int inner, int64_t inner_size) {
    for (int i = 0; i < b->nops; i++) {
        if (b->strides[i][outer] != b->strides[i][inner] * inner_size) {
            return false;
        }
    }
    return true;
}

static void span_modes(const DynBound *b, DynSpan *s) {
    s->direct = true;
    for (int i = 0; i < b->nops; i++) {
        bool one = true, zero = true;
        int64_t step = s->ndim ? s->strides[i][s->ndim - 1] : b->size[i], expect = step;
        for (int d = s->ndim; d-- > 0;) {
            one = one && s->strides[i][d] == expect;
            zero = zero && s->strides[i][d] == 0;
            expect *= s->dims[d];
        }
        s->stride[i] = one ? step : 0;
        s->mode[i] = one && step == b->size[i] ? DYN_SPAN_DIRECT
                     : zero                    ? DYN_SPAN_SPLAT
                     : one                     ? DYN_SPAN_STRIDED
                                               : DYN_SPAN_GATHER;
        const DynOperand *o = &b->k->operands.at[i];
        if (o->scalar || o->result) {
            s->mode[i] = DYN_SPAN_SCALAR;
            s->stride[i] = 0;
        } else if (s->n == 1) {
            s->mode[i] = DYN_SPAN_DIRECT;
        }
        s->direct = s->direct && s->mode[i] <= DYN_SPAN_SCALAR;
    }
}

void dyn_span_make(const DynBound *b, const int *axes, int naxes, DynSpan *s) {
    int top = -1;
    s->ndim = 0;
    s->n = 1;
    for (int a = 0; a < naxes; a++) {
        int d = axes[a];
        int64_t size = b->dims[d];
        s->n *= size;
        if (size == 1) {
            continue;
        }
        if (top >= 0 && joins(b, top, d, size)) {
            s->dims[s->ndim - 1] *= size;
        } else {
            s->dims[s->ndim++] = size;
        }
        top = d;
        for (int i = 0; i < b->nops; i++) {
            s->strides[i][s->ndim - 1] = b->strides[i][d];
        }
    }
    span_modes(b, s);
}

/* n lanes from pos on, n at most a scratch block: whatever is not contiguous or not whole goes through scratch. */
static void run_block(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool first,
                      DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS];
    const DynKernel *k = b->k;
    int64_t lanes = k->lanes, full = (n + lanes - 1) / lanes * lanes;
    for (int i = 0; i < b->nops; i++) {
        bool out = k->operands.at[i].out;
        if (s->mode[i] == DYN_SPAN_SCALAR) {
            p[i] = at[i];
            continue;
        }
        if (s->mode[i] == DYN_SPAN_DIRECT && full == n) {
            p[i] = at[i] + pos * b->size[i];
            continue;
        }
        p[i] = scratch->lanes[i];
        if (!out && (first || s->mode[i] != DYN_SPAN_SPLAT)) {
            dyn_span_gather(b, s, i, at[i], pos, n, p[i]);
            dyn_lanes_pad(p[i], b->size[i], n, full);
        }
    }
    dyn_bound_run(b, p, full);
    for (int i = 0; i < b->nops; i++) {
        if (k->operands.at[i].out && p[i] == scratch->lanes[i]) {
            dyn_span_scatter(b, s, i, at[i], pos, n, p[i]);
        }
    }
}

static void run_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS];
    int64_t lanes = b->k->lanes, whole = (to - from) / lanes * lanes;
    if (s->direct && whole > 0) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = at[i] + (s->mode[i] == DYN_SPAN_SCALAR ? 0 : from * b->size[i]);
        }
        dyn_bound_run(b, p, whole);
        from += whole;
        if (from < to && !b->k->in_place) { /* the last lanes once more, together with some that are done */
            for (int i = 0; i < b->nops; i++) {
                p[i] = at[i] + (s->mode[i] == DYN_SPAN_SCALAR ? 0 : (to - lanes) * b->size[i]);
            }
            dyn_bound_run(b, p, lanes);
            return;
        }
    }
    for (int64_t pos = from; pos < to; pos += DYN_SCRATCH_LANES) {
        int64_t n = to - pos < DYN_SCRATCH_LANES ? to - pos : DYN_SCRATCH_LANES;
        run_block(b, s, at, pos, n, pos == from, scratch);
    }
}

void dyn_span_run(const DynBound *b, const DynSpan *s, char *const *at, DynScratch *scratch) {
    run_part(b, s, at, 0, s->n, scratch);
}

/* ---- an elementwise kernel over its whole space */

typedef struct Elementwise {
    const DynBound *b;
    DynSpan span;
    int outer;             /* leading axes walked here; the span takes the rest */
    int64_t nouter, chunk; /* rows, or lanes where there are no rows, of one chunk */
} Elementwise;

static void run_rows(const Elementwise *e, int64_t from, int64_t to, DynScratch *scratch) {
    const DynBound *b = e->b;
    char *at[DYN_MAX_OPERANDS];
    for (int64_t row = from; row < to; row++) {
        int64_t rest = row;
        memcpy(at, b->base, sizeof(*at) * (size_t)b->nops);
        for (int d = e->outer; d-- > 0;) {
            int64_t index = rest % b->dims[d];
            rest /= b->dims[d];
            for (int i = 0; i < b->nops; i++) {
                at[i] += index * b->strides[i][d];
            }
        }
        run_part(b, &e->span, at, 0, e->span.n, scratch);
    }
}

static void elementwise_chunk(void *ctx, int64_t chunk) {
    const Elementwise *e = ctx;
    DynScratch scratch;
    int64_t n = e->outer ? e->nouter : e->span.n, from = chunk * e->chunk;
    int64_t to = from + e->chunk < n ? from + e->chunk : n;
    if (e->outer) {
        run_rows(e, from, to, &scratch);
    } else {
        run_part(e->b, &e->span, e->b->base, from, to, &scratch);
    }
}

/* ---- tiles: operands whose neighbours in memory lie along the axis before the last are turned, a band of rows at a time */

#define TILE_ROWS 16
#define TILE_COLUMNS 256
#define AHEAD 16
#define MAX_TURNED 4

static bool is_turned(const Elementwise *e, int op) {
    const DynBound *b = e->b;
    int inner = b->ndim - 1;
    return e->span.mode[op] == DYN_SPAN_STRIDED && b->strides[op][inner - 1] == b->size[op] && b->strides[op][inner] >= 256;
}

static bool needs_tiles(const Elementwise *e) {
    const DynBound *b = e->b;
    int inner = b->ndim - 1, n = 0;
    if (e->outer != inner || inner < 1 || b->dims[inner - 1] < TILE_ROWS || b->dims[inner] < TILE_ROWS) {
        return false;
    }
    for (int i = 0; i < b->nops; i++) {
        n += is_turned(e, i) && !b->k->operands.at[i].out;
    }
    return n > 0 && n <= MAX_TURNED;
}

typedef uint32_t Four __attribute__((vector_size(16)));
typedef uint64_t Two __attribute__((vector_size(16)));

/* to[r][c] = from[c][r] for a small square: 4 x 4 elements of 4 bytes, 2 x 2 of 8. */
static void turn_square(char *to, int64_t to_step, const char *from, int64_t from_step, uint8_t size) {
    if (size == 4) {
        Four a, b, c, d;
        memcpy(&a, from, 16);
        memcpy(&b, from + from_step, 16);
        memcpy(&c, from + 2 * from_step, 16);
        memcpy(&d, from + 3 * from_step, 16);
        Four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        Four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        a = __builtin_shufflevector(ab, cd, 0, 1, 4, 5);
        b = __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
        c = __builtin_shufflevector(ab2, cd2, 0, 1, 4, 5);
        d = __builtin_shufflevector(ab2, cd2, 2, 3, 6, 7);
        memcpy(to, &a, 16);
        memcpy(to + to_step, &b, 16);
        memcpy(to + 2 * to_step, &c, 16);
        memcpy(to + 3 * to_step, &d, 16);
        return;
    }
    Two a, b;
    memcpy(&a, from, 16);
    memcpy(&b, from + from_step, 16);
    Two x = __builtin_shufflevector(a, b, 0, 2), y = __builtin_shufflevector(a, b, 1, 3);
    memcpy(to, &x, 16);
    memcpy(to + to_step, &y, 16);
}

/* rows x columns elements whose columns are contiguous in memory, row by row to `to`. */
static void turn_tile(char *to, int64_t pitch, const char *from, int64_t step, int64_t rows, int64_t columns, uint8_t size) {
    int64_t side = size < 4 ? 1 : 16 / size, whole_rows = rows / side * side, whole = columns / side * side;
    for (int64_t c = 0; side > 1 && c < whole; c += side) {
        for (int64_t k = 0; k < side && c + AHEAD + k < columns; k++) { /* the next pages: no processor foresees those */
            __builtin_prefetch(from + (c + AHEAD + k) * step);
            __builtin_prefetch(from + (c + AHEAD + k) * step + (rows - 1) * size);
        }
        for (int64_t r = 0; r < whole_rows; r += side) {
            turn_square(to + r * pitch + c * size, pitch, from + c * step + r * size, step, size);
        }
    }
    for (int64_t c = 0; c < columns; c++) {
        int64_t done = side > 1 && c < whole ? whole_rows : 0;
        dyn_lanes_copy(to + done * pitch + c * size, from + c * step + done * size, pitch, size, rows - done, size);
    }
}

static void run_tile(const Elementwise *e, const DynSpan *span, char *const *at, int64_t rows, int64_t columns,
                     char (*turned)[TILE_ROWS * TILE_COLUMNS * DYN_MAX_SIZE], DynScratch *scratch) {
    const DynBound *b = e->b;
    char *p[DYN_MAX_OPERANDS], *buffer[DYN_MAX_OPERANDS];
    int inner = b->ndim - 1, n = 0;
    for (int i = 0; i < b->nops; i++) {
        buffer[i] = is_turned(e, i) && !b->k->operands.at[i].out ? turned[n++] : NULL;
        if (buffer[i]) {
            turn_tile(buffer[i], TILE_COLUMNS * b->size[i], at[i], b->strides[i][inner], rows, columns, b->size[i]);
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = buffer[i] ? buffer[i] + row * TILE_COLUMNS * b->size[i] : at[i] + row * b->strides[i][inner - 1];
        }
        run_part(b, span, p, 0, columns, scratch);
    }
}

/* One band of rows; bands of all outer axes are numbered through. */
static void tiles_chunk(void *ctx, int64_t chunk) {
    const Elementwise *e = ctx;
    const DynBound *b = e->b;
    DynScratch scratch;
    DynSpan span = e->span;
    _Alignas(64) char turned[MAX_TURNED][TILE_ROWS * TILE_COLUMNS * DYN_MAX_SIZE];
    char *line[DYN_MAX_OPERANDS], *at[DYN_MAX_OPERANDS];
    int inner = b->ndim - 1, row = inner - 1;
    span.direct = true;
    for (int i = 0; i < b->nops; i++) {
        span.mode[i] = is_turned(e, i) && !b->k->operands.at[i].out ? DYN_SPAN_DIRECT : span.mode[i];
        span.direct = span.direct && span.mode[i] <= DYN_SPAN_SCALAR;
    }
    int64_t bands = (b->dims[row] + TILE_ROWS - 1) / TILE_ROWS, first = chunk % bands * TILE_ROWS, rest = chunk / bands;
    int64_t rows = b->dims[row] - first < TILE_ROWS ? b->dims[row] - first : TILE_ROWS;
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
    for (int64_t column = 0; column < b->dims[inner]; column += TILE_COLUMNS) {
        int64_t columns = b->dims[inner] - column < TILE_COLUMNS ? b->dims[inner] - column : TILE_COLUMNS;
        for (int i = 0; i < b->nops; i++) {
            at[i] = line[i] + column * b->strides[i][inner];
        }
        run_tile(e, &span, at, rows, columns, turned, &scratch);
    }
}

static void run_tiles(Elementwise *e, bool parallel) {
    const DynBound *b = e->b;
    int row = b->ndim - 2;
    int64_t chunks = e->nouter / b->dims[row] * ((b->dims[row] + TILE_ROWS - 1) / TILE_ROWS);
    if (parallel) {
        dyn_par_for(tiles_chunk, e, chunks);
        return;
    }
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
        tiles_chunk(e, chunk);
    }
}

/* Axes in the order in which memory is walked, largest steps first; those walked backwards by what is written are turned round.
 */
static void order_axes(DynBound *b) {
    int first_out = 0;
    while (first_out < b->nops - 1 && !b->k->operands.at[first_out].out) {
        first_out++;
    }
    int n = 0;
    for (int d = 0; d < b->ndim; d++) {
        if (b->dims[d] == 1) {
            continue;
        }
        bool back = b->strides[first_out][d] < 0;
        b->dims[n] = b->dims[d];
        for (int i = 0; i < b->nops; i++) {
            int64_t stride = b->strides[i][d];
            b->base[i] += back ? stride * (b->dims[d] - 1) : 0;
            b->strides[i][n] = back ? -stride : stride;
        }
        n++;
    }
    b->ndim = n;
    for (int d = 1; d < n; d++) {
        for (int k = d; k > 0; k--) {
            int64_t x = b->strides[first_out][k - 1], y = b->strides[first_out][k];
            if (x >= y || x == 0 || y == 0) {
                break;
            }
            int64_t size = b->dims[k];
            b->dims[k] = b->dims[k - 1];
            b->dims[k - 1] = size;
            for (int i = 0; i < b->nops; i++) {
                int64_t stride = b->strides[i][k];
                b->strides[i][k] = b->strides[i][k - 1];
                b->strides[i][k - 1] = stride;
            }
        }
    }
}

#define SHORT_AXIS 64     /* rows shorter than this are walked several at a time, through scratch */
#define CHUNK_COST 200000 /* tenths of a nanosecond for one chunk of a parallel loop */

int dyn_exec_elementwise(DynBound *b) {
    Elementwise e = {.b = b, .nouter = 1};
    int axes[DYN_MAX_NDIM] = {0};
    for (int d = 0; d < b->ndim; d++) {
        axes[d] = d;
        if (b->dims[d] == 0) {
            return 0;
        }
    }
    int64_t cost = dyn_exec_cost(b);
    if (b->ndim > 1) {
        order_axes(b);
    }
    dyn_span_make(b, axes, b->ndim, &e.span);
    if (e.span.ndim > 1) { /* does not join to one sequence: rows */
        int from = b->ndim - 1;
        int64_t n = b->dims[from];
        while (from > 0 && (joins(b, from - 1, from, b->dims[from]) || n < SHORT_AXIS)) {
            n *= b->dims[--from];
        }
        e.outer = from;
        for (int d = 0; d < from; d++) {
            e.nouter *= b->dims[d];
        }
        dyn_span_make(b, axes + from, b->ndim - from, &e.span);
    }
    if (needs_tiles(&e)) {
        run_tiles(&e, cost >= DYN_PARALLEL_COST && dyn_par_threads() > 1);
        return 0;
    }
    int64_t units = e.outer ? e.nouter : e.span.n;
    if (cost < DYN_PARALLEL_COST || units < 2 || dyn_par_threads() < 2) {
        DynScratch scratch;
        if (e.outer) {
            run_rows(&e, 0, e.nouter, &scratch);
        } else {
            run_part(b, &e.span, b->base, 0, e.span.n, &scratch);
        }
        return 0;
    }
    double per_unit = (double)cost / (double)units;
    e.chunk = (int64_t)(CHUNK_COST / per_unit) + 1;
    if (!e.outer) {
        e.chunk = (e.chunk + DYN_SCRATCH_LANES - 1) / DYN_SCRATCH_LANES * DYN_SCRATCH_LANES;
    }
    dyn_par_for(elementwise_chunk, &e, (units + e.chunk - 1) / e.chunk);
    return 0;
}

/* ---- outside of a box */

int dyn_exec_margin(const DynBound *b, const DynScalar *sym) {
    const DynKernel *k = b->k;
    DynBound part = *b;
    int failed = 0;
    for (int d = 0; d < b->ndim; d++) {
        int64_t from = k->box_at[d], to = from + sym[k->box_shape[d]].i, ends[2][2] = {{0, from}, {to, b->dims[d]}};
        if (to == from) { /* the box is empty: all is outside, whatever it says of where it begins */
            return dyn_exec_elementwise(&part);
        }
        if (to < from || to > b->dims[d]) {
            return -1;
        }
        for (int side = 0; side < 2 && !failed; side++) { /* within the box along the axes before, whole along those behind */
            DynBound slab = part;
            slab.dims[d] = ends[side][1] - ends[side][0];
            for (int i = 0; i < b->nops; i++) {
                slab.base[i] += ends[side][0] * b->strides[i][d];
            }
            failed = slab.dims[d] > 0 ? dyn_exec_elementwise(&slab) : 0;
        }
        part.dims[d] = to - from;
        for (int i = 0; i < b->nops; i++) {
            part.base[i] += from * b->strides[i][d];
        }
    }
    return failed;
}

/* ---- groups */

typedef struct Member {
    DynSpan span;
    DynResults results;
} Member;
typedef struct Start { /* of one kernel in one row */
    char *at[DYN_MAX_OPERANDS];
} Start;
typedef struct Group {
    DynBound *b;
    Member *members;
    int n, outer;
    int64_t nrows, chunk;
    Start *starts; /* of the chunks, one after the other */
    char *row_base, *copies;
    size_t rows;
} Group;

static void stand_at(const Group *g, const DynBound *b, int64_t row, ptrdiff_t shift, char **at) {
    for (int i = 0; i < b->nops; i++) {
        bool own = b->base[i] >= g->row_base && b->base[i] < g->row_base + g->rows;
        at[i] = b->base[i] + (own ? shift : 0);
    }
    for (int d = g->outer; d-- > 0; row /= b->dims[d]) {
        for (int i = 0; i < b->nops; i++) {
            at[i] += row % b->dims[d] * b->strides[i][d];
        }
    }
}

/* Rows along the last of the outer axes, one after the other. */
static void group_run(const Group *g, int64_t n, Start *starts, DynScratch *scratch) {
    for (int64_t row = 0; row < n; row++) {
        for (int k = 0; k < g->n; k++) {
            const DynBound *b = &g->b[k];
            char **at = starts[k].at;
            if (b->k->reduced) {
                dyn_reduce_run(b, &g->members[k].span, at, &g->members[k].results, scratch);
            } else {
                dyn_span_run(b, &g->members[k].span, at, scratch);
            }
            for (int i = 0; i < b->nops; i++) {
                at[i] += b->strides[i][g->outer - 1];
            }
        }
    }
}

static void group_chunk(void *ctx, int64_t chunk) {
    const Group *g = ctx;
    DynScratch scratch;
    Start *starts = g->starts + chunk * g->n;
    int64_t to = (chunk + 1) * g->chunk < g->nrows ? (chunk + 1) * g->chunk : g->nrows, size = g->b[0].dims[g->outer - 1];
    ptrdiff_t shift = chunk ? g->copies + (size_t)(chunk - 1) * g->rows - g->row_base : 0;
    for (int64_t row = chunk * g->chunk; row < to;) {
        int64_t n = size - row % size < to - row ? size - row % size : to - row;
        for (int k = 0; k < g->n; k++) {
            stand_at(g, &g->b[k], row, shift, starts[k].at);
        }
        group_run(g, n, starts, &scratch);
        row += n;
    }
}

int dyn_exec_group(DynBound *b, int n, int outer, char *row_base, size_t rows) {
    Group g = {.b = b, .n = n, .outer = outer, .nrows = 1, .row_base = row_base, .rows = rows};
    int axes[DYN_MAX_NDIM];
    int64_t cost = 0;
    for (int d = 0; d < DYN_MAX_NDIM; d++) {
        axes[d] = d;
    }
    if ((g.members = PyMem_RawMalloc(sizeof(*g.members) * (size_t)n)) == NULL) {
        return -1;
    }
    for (int k = 0; k < n; k++) {
        cost += dyn_exec_cost(&b[k]);
        dyn_span_make(&b[k], axes + outer, b[k].ndim - outer, &g.members[k].span);
        dyn_reduce_results(b[k].k, &g.members[k].results);
    }
    for (int d = 0; d < outer; d++) {
        g.nrows *= b[0].dims[d];
    }
    int threads = cost < DYN_PARALLEL_COST || g.nrows < 2 ? 1 : dyn_par_threads();
    int64_t nchunks = threads < 2 ? 1 : g.nrows < 4 * threads ? g.nrows : 4 * threads;
    g.chunk = (g.nrows + nchunks - 1) / nchunks;
    nchunks = g.chunk ? (g.nrows + g.chunk - 1) / g.chunk : 0;
    if (nchunks > 1 && rows) {
        g.copies = PyMem_RawMalloc(rows * (size_t)(nchunks - 1));
    }
    g.starts = PyMem_RawMalloc(sizeof(*g.starts) * (size_t)(nchunks * n));
    int failed = !g.starts || (nchunks > 1 && rows && !g.copies) ? -1 : 0;
    if (!failed && nchunks == 1) {
        group_chunk(&g, 0);
    } else if (!failed && nchunks > 1) {
        dyn_par_for(group_chunk, &g, nchunks);
    }
    PyMem_RawFree(g.copies);
    PyMem_RawFree(g.starts);
    PyMem_RawFree(g.members);
    return failed;
}
