/* exec.c: runs elementwise kernels, and groups of kernels row by row.
 *
 * Called by artifact.c. A generated function takes contiguous lanes, a multiple of so many at a time. Here axes are ordered and joined, memory
 * that is contiguous is handed over as it is, anything else is gathered into scratch blocks and scattered back, and the last lanes are padded
 * with copies of a valid element (so that no floating-point flag is raised for nothing). Every element thus goes through the same
 * instructions, wherever it lies. */
#include "codegen/exec.h"

int dyn_exec_bind(const DynKernel *k, DynKernelFn fn, const DynGeom *geoms, const DynScalar *sym, DynBound *b) {
    b->k = k;
    b->fn = fn;
    b->ndim = k->ndim;
    b->nops = (int)k->operands.n;
    for (int d = 0; d < k->ndim; d++) {
        b->dims[d] = sym[k->shape[d]].i;
    }
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &k->operands.at[i];
        const DynGeom *g = &geoms[o->place];
        b->base[i] = g->data;
        b->size[i] = dyn_dtypes[o->dtype].size;
        for (int d = 0; d < k->ndim; d++) {
            int axis = o->axis[d];
            bool walks = axis >= 0 && g->dims[axis] != 1;
            if (walks && g->dims[axis] != b->dims[d]) {
                return -1;
            }
            b->strides[i][d] = walks ? g->strides[axis] : 0;
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

static void copy_strided(char *to, const char *from, int64_t to_step, int64_t from_step, int64_t n, uint8_t size) {
#define LOOP(T)                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                  \
        memcpy(to + i * to_step, from + i * from_step, sizeof(T));                     \
    }                                                                                  \
    break;
    switch (size) {
    case 1:
        LOOP(uint8_t)
    case 2:
        LOOP(uint16_t)
    case 4:
        LOOP(uint32_t)
    default:
        LOOP(uint64_t)
    }
#undef LOOP
}

void dyn_lanes_pad(char *at, uint8_t size, int64_t n, int64_t full) {
    for (int64_t i = n; i < full; i++) {
        memcpy(at + i * size, at + (n - 1) * size, size);
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
            copy_strided(at, lanes, strides[last], size, piece, size);
        } else {
            copy_strided(lanes, at, size, strides[last], piece, size);
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
    case DYN_SPAN_DIRECT:
        memcpy(to, from + pos * size, (size_t)(n * size));
        break;
    case DYN_SPAN_SPLAT:
        copy_strided(to, from, size, 0, n, size);
        break;
    case DYN_SPAN_STRIDED:
        copy_strided(to, from + pos * s->stride[op], size, s->stride[op], n, size);
        break;
    default:
        move_lanes(b, s, op, (char *)from, pos, n, to, false);
    }
}

void dyn_span_scatter(const DynBound *b, const DynSpan *s, int op, char *to, int64_t pos, int64_t n, const char *from) {
    uint8_t size = b->size[op];
    switch (s->mode[op]) {
    case DYN_SPAN_DIRECT:
        memcpy(to + pos * size, from, (size_t)(n * size));
        break;
    case DYN_SPAN_GATHER:
        move_lanes(b, s, op, to, pos, n, (char *)from, true);
        break;
    default: /* SPLAT: one element, written by its last lane */
        copy_strided(to + pos * s->stride[op], from, s->stride[op], size, n, size);
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
        if (s->n == 1) {
            s->mode[i] = DYN_SPAN_DIRECT;
        }
        s->direct = s->direct && s->mode[i] == DYN_SPAN_DIRECT;
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
    b->fn(p, full, b->params);
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
            p[i] = at[i] + from * b->size[i];
        }
        b->fn(p, whole, b->params);
        from += whole;
        if (from < to && !b->k->in_place) { /* the last lanes once more, together with some that are done */
            for (int i = 0; i < b->nops; i++) {
                p[i] = at[i] + (to - lanes) * b->size[i];
            }
            b->fn(p, lanes, b->params);
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
    int outer;      /* leading axes walked here; the span takes the rest */
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

/* Axes in the order in which memory is walked, largest steps first; those walked backwards by what is written are turned round. */
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

#define SHORT_AXIS 64    /* rows shorter than this are walked several at a time, through scratch */
#define CHUNK_COST 200000 /* tenths of a nanosecond for one chunk of a parallel loop */

int dyn_exec_elementwise(DynBound *b) {
    Elementwise e = {.b = b, .nouter = 1};
    int axes[DYN_MAX_NDIM];
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

/* ---- groups */

typedef struct Group {
    DynBound *b;
    DynSpan *spans;
    int n, outer;
    int64_t nrows, chunk;
    char *row_base, *copies;
    size_t rows;
} Group;

static void group_rows(const Group *g, int64_t from, int64_t to, ptrdiff_t shift, DynScratch *scratch) {
    char *at[DYN_MAX_OPERANDS];
    for (int64_t row = from; row < to; row++) {
        for (int k = 0; k < g->n; k++) {
            const DynBound *b = &g->b[k];
            for (int i = 0; i < b->nops; i++) {
                bool own = b->base[i] >= g->row_base && b->base[i] < g->row_base + g->rows;
                at[i] = b->base[i] + (own ? shift : 0);
            }
            int64_t rest = row;
            for (int d = g->outer; d-- > 0;) {
                int64_t index = rest % b->dims[d];
                rest /= b->dims[d];
                for (int i = 0; i < b->nops; i++) {
                    at[i] += index * b->strides[i][d];
                }
            }
            if (b->k->reduced) {
                dyn_reduce_run(b, &g->spans[k], at, scratch);
            } else {
                dyn_span_run(b, &g->spans[k], at, scratch);
            }
        }
    }
}

static void group_chunk(void *ctx, int64_t chunk) {
    const Group *g = ctx;
    DynScratch scratch;
    int64_t from = chunk * g->chunk, to = from + g->chunk < g->nrows ? from + g->chunk : g->nrows;
    ptrdiff_t shift = chunk ? g->copies + (size_t)(chunk - 1) * g->rows - g->row_base : 0;
    group_rows(g, from, to, shift, &scratch);
}

int dyn_exec_group(DynBound *b, int n, int outer, char *row_base, size_t rows) {
    DynSpan few[4];
    Group g = {.b = b, .spans = few, .n = n, .outer = outer, .nrows = 1, .row_base = row_base, .rows = rows};
    int axes[DYN_MAX_NDIM];
    int64_t cost = 0;
    for (int d = 0; d < DYN_MAX_NDIM; d++) {
        axes[d] = d;
    }
    if (n > 4 && (g.spans = PyMem_RawMalloc(sizeof(*g.spans) * (size_t)n)) == NULL) {
        return -1;
    }
    for (int k = 0; k < n; k++) {
        cost += dyn_exec_cost(&b[k]);
        dyn_span_make(&b[k], axes + outer, b[k].ndim - outer, &g.spans[k]);
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
    int failed = nchunks > 1 && rows && !g.copies ? -1 : 0;
    if (!failed && nchunks == 1) {
        group_chunk(&g, 0);
    } else if (!failed && nchunks > 1) {
        dyn_par_for(group_chunk, &g, nchunks);
    }
    PyMem_RawFree(g.copies);
    if (g.spans != few) {
        PyMem_RawFree(g.spans);
    }
    return failed;
}
