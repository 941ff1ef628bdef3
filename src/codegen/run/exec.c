/* exec.c: runs elementwise kernels.
 *
 * Called by task_kernel.c. A generated function takes contiguous lanes, a multiple of so many at a time. Here axes are ordered
 * and joined, memory that is contiguous is handed over as it is, anything else is gathered into scratch blocks and scattered
 * back, and the last lanes are padded with copies of a valid element (so that no floating-point flag is raised for nothing).
 * Every element thus goes through the same instructions, wherever it lies. */
#include "codegen/run/lanes.h"
#include "codegen/run/par.h"

/* The functions of a kernel that has no native code yet. */
static const DynNativeKernel no_functions;

DynScalar dyn_exec_param(const DynParam *p, const DynScalar *sym) {
    DynScalar v = sym[p->sym];
    bool to_float = dyn_dtypes[p->dtype].kind == 'f';
    if (to_float && !p->is_float) {
        v.f = (double)v.i;
    } else if (!to_float && p->is_float) {
        v.i = p->dtype == DYN_BOOL ? v.f != 0 : (int64_t)v.f;
    }
    return v;
}

int dyn_exec_bind(const DynKernel *k, const DynNativeTable *table, const DynGeom *geoms, const DynScalar *sym, DynBound *b) {
    b->k = k;
    b->native = table == NULL ? &no_functions : &table->kernels[k->number];
    b->length = 0;
    b->ndim = k->ndim;
    b->nops = (int)k->operands.n;
    b->indirect = false;
    b->missed = NULL;
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
        b->extent[i] = o->indirect ? g->dims[o->along] : 0;
        if (o->indirect && b->extent[i] == 0 && !none) {
            return -1; /* whatever the index says isn't there */
        }
        b->step[i] = o->indirect ? g->strides[o->along] : 0;
        b->indirect |= o->indirect;
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        b->params[i] = dyn_exec_param(&k->params.at[i], sym);
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

static void move_piece(char *memory, int64_t along, char *lanes, int64_t apart, int64_t n, uint8_t size, bool out) {
    if (out) {
        dyn_lanes_copy(memory, lanes, along, apart, n, size);
    } else {
        dyn_lanes_copy(lanes, memory, apart, along, n, size);
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
        int64_t piece = s->dims[last] - index[last], rows = 1;
        piece = piece < n ? piece : n;
        if (last > 0 && piece == s->dims[last] && piece < (strides[last] == size ? DYN_TINY_PIECE : DYN_SHORT_PIECE)) {
            int64_t left = s->dims[last - 1] - index[last - 1];
            rows = n / piece < left ? n / piece : left;
        }
        if (rows == 1) {
            move_piece(at, strides[last], lanes, size, piece, size, out);
        } else {
            for (int64_t i = 0; i < piece; i++) {
                move_piece(at + i * strides[last], strides[last - 1], lanes + i * size, piece * size, rows, size, out);
            }
        }
        lanes += rows * piece * size;
        n -= rows * piece;
        at -= index[last] * strides[last];
        index[last] = 0;
        for (int d = last - 1; d >= 0; d--) {
            int64_t steps = d == last - 1 ? rows : 1;
            at += steps * strides[d];
            if ((index[d] += steps) < s->dims[d]) {
                break;
            }
            at -= s->dims[d] * strides[d];
            index[d] = 0;
        }
    }
}

void dyn_span_gather(const DynBound *b, const DynSpan *s, int op, char *const *at, int64_t pos, int64_t n, char *to) {
    uint8_t size = b->size[op];
    const char *from = at[op];
    switch (s->mode[op]) {
    case DYN_SPAN_INDIRECT: dyn_span_take(b, s, op, at, pos, n, to); break;
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

bool dyn_bound_joins(const DynBound *b, int outer, int inner, int64_t inner_size) {
    for (int i = 0; i < b->nops; i++) {
        if (b->strides[i][outer] != b->strides[i][inner] * inner_size) {
            return false;
        }
    }
    return true;
}

/* Lanes after which an operand begins again, 0: it doesn't. */
static int64_t round_of(const DynSpan *s, int op) {
    int64_t n = 1;
    int d = s->ndim;
    for (; d > 0 && s->strides[op][d - 1] != 0; d--) {
        n *= s->dims[d - 1];
    }
    for (; d > 0 && s->strides[op][d - 1] == 0; d--) {
    }
    return d == 0 && n > 1 && n < s->n ? n : 0;
}

static int64_t block_of(const DynSpan *s, int64_t unit) {
    int64_t lanes = DYN_SCRATCH_LANES;
    for (uint32_t left = s->records[0] | s->records[1]; left != 0; left &= left - 1) {
        int64_t most = DYN_RECORD_BYTES / s->stride[__builtin_ctz(left)];
        lanes = most < lanes ? most : lanes;
    }
    return lanes < unit ? unit : lanes / unit * unit;
}

/* Blocks of whole rounds, if they fit. */
static void span_rounds(const DynBound *b, DynSpan *s) {
    int64_t unit = b->k->lanes; /* a multiple of it and of all rounds so far */
    for (int i = 0; i < b->nops; i++) {
        int64_t n = s->mode[i] == DYN_SPAN_GATHER && !b->k->operands.at[i].out ? round_of(s, i) : 0, all = n;
        while (all != 0 && all <= DYN_SCRATCH_LANES && all % unit != 0) {
            all += n;
        }
        if (all != 0 && all <= DYN_SCRATCH_LANES) {
            s->mode[i] = DYN_SPAN_ROUND;
            unit = all;
        }
    }
    s->block = block_of(s, unit);
}

static bool is_looked_up(const DynBound *b, const DynSpan *s, int op) {
    bool one = b->k->operands.at[op].indirect;
    for (int d = 0; d < s->ndim && one; d++) {
        one = s->strides[b->k->operands.at[op].by][d] == 0;
    }
    return one;
}

/* Can the kernel's own function look up all that is indirect, and take the rest as it lies? */
static bool has_lookup(const DynBound *b, DynSpan *s) {
    bool open = !s->direct && !s->looked_up;
    bool can = b->native->lookup != NULL && open && s->ndim == 1;
    for (int i = 0; i < b->nops && can; i++) {
        uint16_t by = b->k->operands.at[i].by;
        if (s->mode[i] == DYN_SPAN_INDIRECT) {
            can = s->strides[i][0] == 0 && b->step[i] == b->size[i] && s->strides[by][0] == b->size[by];
            s->lane[by] = b->size[by];
        } else {
            can = s->mode[i] <= DYN_SPAN_SCALAR;
        }
    }
    return can;
}

/* Does form ROW_CONSTANT take the span as it lies: what isn't one element lies side by side? Then it runs. */
static void find_row_constant(const DynBound *b, DynSpan *s) {
    bool can = b->native->row_constant != NULL && !s->direct && s->ndim == 1;
    for (int i = 0; i < b->nops && can; i++) {
        can = b->k->operands.at[i].still ? s->mode[i] == DYN_SPAN_SPLAT : s->mode[i] <= DYN_SPAN_SCALAR;
    }
    for (int i = 0; i < b->nops && can; i++) {
        s->mode[i] = b->k->operands.at[i].still ? DYN_SPAN_SCALAR : s->mode[i];
    }
    s->row_constant = can;
    s->direct |= can;
}

/* Does the kernel load its one operand and store it, of one dtype? */
static bool only_copies(const DynKernel *k) {
    if (k->operands.n != 2 || k->insns.n != 2 || k->reduced) {
        return false;
    }
    const DynOperand *from = &k->operands.at[0], *to = &k->operands.at[1];
    bool moves = k->insns.at[0].kind == DYN_L_LOAD && k->insns.at[1].kind == DYN_L_STORE;
    return moves && !from->out && to->out && from->dtype == to->dtype;
}

/* Does the kernel nothing but copy, and can both sides be walked for that? Elements keep their bits, as eager's do. */
static bool is_copy(const DynBound *b, const DynSpan *s) {
    bool copies = only_copies(b->k);
    for (int i = 0; i < b->nops && copies; i++) {
        copies = s->mode[i] != DYN_SPAN_SCALAR && s->mode[i] != DYN_SPAN_INDIRECT;
    }
    return copies && s->mode[1] != DYN_SPAN_SPLAT;
}

/* How operand i lies along the span, if its element stands still nowhere; its one step in bytes, where it has one. */
static DynSpanMode mode_in_memory(const DynBound *b, DynSpan *s, int i) {
    bool one = true, zero = true;
    int64_t step = s->ndim ? s->strides[i][s->ndim - 1] : b->size[i], expect = step;
    for (int d = s->ndim; d-- > 0;) {
        one = one && s->strides[i][d] == expect;
        zero = zero && s->strides[i][d] == 0;
        expect *= s->dims[d];
    }
    s->stride[i] = one ? step : 0;
    if ((one && step == b->size[i]) || s->n == 1) {
        return DYN_SPAN_DIRECT;
    }
    if (zero) {
        return DYN_SPAN_SPLAT;
    }
    return one ? DYN_SPAN_STRIDED : DYN_SPAN_GATHER;
}

/* As mode_in_memory; an indirect operand is looked up once for the span, or lane by lane. */
static DynSpanMode mode_of(const DynBound *b, DynSpan *s, int i) {
    const DynOperand *o = &b->k->operands.at[i];
    bool looked_up = o->indirect && is_looked_up(b, s, i);
    s->looked_up |= looked_up ? 1u << i : 0;
    if (o->scalar || o->result) {
        s->stride[i] = 0;
        return DYN_SPAN_SCALAR;
    }
    DynSpanMode mode = mode_in_memory(b, s, i);
    return o->indirect && !looked_up ? DYN_SPAN_INDIRECT : mode;
}

void dyn_span_modes(const DynBound *b, DynSpan *s) {
    s->direct = true;
    s->looked_up = 0;
    for (int i = 0; i < b->nops; i++) {
        s->mode[i] = mode_of(b, s, i);
        s->direct = s->direct && s->mode[i] <= DYN_SPAN_SCALAR;
        s->lane[i] = s->mode[i] == DYN_SPAN_DIRECT ? b->size[i] : 0;
    }
    s->copies = !s->looked_up && is_copy(b, s);
    s->lookup = false;
    s->row_constant = false;
    s->records[0] = s->records[1] = 0;
    if (s->direct) {
        s->block = block_of(s, b->k->lanes);
        return;
    }
    s->lookup = has_lookup(b, s);
    find_row_constant(b, s);
    if (!s->direct) {
        s->records[0] = dyn_records_find(b, s, false);
        s->records[1] = dyn_records_find(b, s, true);
    }
    span_rounds(b, s);
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
        if (top >= 0 && dyn_bound_joins(b, top, d, size)) {
            s->dims[s->ndim - 1] *= size;
        } else {
            s->dims[s->ndim++] = size;
        }
        top = d;
        for (int i = 0; i < b->nops; i++) {
            s->strides[i][s->ndim - 1] = b->strides[i][d];
        }
    }
    dyn_span_modes(b, s);
}

static void run_taken(const DynBound *b, const DynSpan *s, char *const *at, int64_t n) {
    if (s->row_constant) {
        b->native->row_constant(&(DynLanesArgs){.operands = at, .n = n, .scalars = b->params});
    } else {
        dyn_bound_lanes(b, at, n);
    }
}

/* n lanes from pos on, n at most a scratch block: whatever is not contiguous or not whole goes through scratch. fresh: what is
 * the same in all blocks isn't there yet. */
static void run_block(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool fresh,
                      DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS];
    const DynKernel *k = b->k;
    int64_t lanes = k->lanes, full = (n + lanes - 1) & -lanes;
    uint32_t moved = s->records[0] != 0 ? dyn_records_move(b, s, false, at, pos, n, scratch) : 0;
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
        bool moves = s->mode[i] != DYN_SPAN_SPLAT && s->mode[i] != DYN_SPAN_ROUND;
        if (!out && (fresh || moves)) {
            if (!(moved >> i & 1)) {
                dyn_span_gather(b, s, i, at, pos, n, p[i]);
            }
            dyn_lanes_pad(p[i], b->size[i], n, full);
        }
    }
    run_taken(b, s, p, full);
    moved = s->records[1] != 0 ? dyn_records_move(b, s, true, at, pos, n, scratch) : 0;
    for (int i = 0; i < b->nops; i++) {
        if (k->operands.at[i].out && p[i] == scratch->lanes[i] && !(moved >> i & 1)) {
            dyn_span_scatter(b, s, i, at[i], pos, n, p[i]);
        }
    }
}

static void stand_behind(const DynBound *b, const DynSpan *s, char *const *at, int64_t n, char **p) {
    for (int i = 0; i < b->nops; i++) {
        p[i] = at[i] + n * s->lane[i];
    }
}

static void run_lanes(const DynBound *b, const DynSpan *s, char *const *at, int64_t n) {
    if (s->lookup) {
        dyn_lookup_run(b, at, n);
    } else {
        run_taken(b, s, at, n);
    }
}

/* n lanes as they lie in memory, at least as many as the kernel takes at a time. The last once more, together with some that are
 * done, where n is no multiple of that. */
static void run_direct(const DynBound *b, const DynSpan *s, char *const *at, int64_t n) {
    char *p[DYN_MAX_OPERANDS];
    int64_t lanes = b->k->lanes, whole = n & -lanes; /* a power of two */
    run_lanes(b, s, at, whole);
    if (whole < n) {
        stand_behind(b, s, at, n - lanes, p);
        run_lanes(b, s, p, lanes);
    }
}

/* As run_direct, for a kernel that reads what it writes: the last lanes are computed from what was there before, so that it
 * doesn't matter that some of them are computed twice. */
static void run_in_place(const DynBound *b, const DynSpan *s, char *const *at, int64_t n, DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS];
    int64_t lanes = b->k->lanes, whole = n & -lanes;
    for (int i = 0; whole < n && i < b->nops; i++) {
        p[i] = at[i] + (n - lanes) * s->lane[i];
        if (s->lane[i] != 0 && !b->k->operands.at[i].out) {
            p[i] = memcpy(scratch->tail[i], p[i], (size_t)(lanes * s->lane[i]));
        }
    }
    run_lanes(b, s, at, whole);
    if (whole < n) {
        run_lanes(b, s, p, lanes);
    }
}

/* Lanes of a kernel that copies: straight from one side to the other, by scratch only where neither has one step. */
static void copy_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, DynScratch *scratch) {
    uint8_t size = b->size[0];
    if (s->mode[1] == DYN_SPAN_DIRECT) {
        dyn_span_gather(b, s, 0, at, from, to - from, at[1] + from * size);
    } else if (s->mode[0] == DYN_SPAN_DIRECT) {
        dyn_span_scatter(b, s, 1, at[1], from, to - from, at[0] + from * size);
    } else if (s->mode[0] == DYN_SPAN_STRIDED && s->mode[1] == DYN_SPAN_STRIDED) {
        dyn_lanes_copy(at[1] + from * s->stride[1], at[0] + from * s->stride[0], s->stride[1], s->stride[0], to - from, size);
    } else {
        for (int64_t pos = from, n; pos < to; pos += n) {
            n = to - pos < DYN_SCRATCH_LANES ? to - pos : DYN_SCRATCH_LANES;
            dyn_span_gather(b, s, 0, at, pos, n, scratch->lanes[0]);
            dyn_span_scatter(b, s, 1, at[1], pos, n, scratch->lanes[0]);
        }
    }
}

/* May rows of a span go there without being looked at one by one? */
static bool is_plain(const DynBound *b, const DynSpan *s) {
    bool as_it_lies = s->direct && !s->copies && !s->looked_up;
    bool again = s->n % b->k->lanes != 0; /* some lanes are computed twice */
    return as_it_lies && !(again && b->k->in_place) && s->n >= b->k->lanes;
}

void dyn_span_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS], *now[DYN_MAX_OPERANDS];
    if (s->copies) {
        copy_part(b, s, at, from, to, scratch);
        return;
    }
    at = s->looked_up ? dyn_span_look_up(b, s, at, now) : at;
    int64_t lanes = b->k->lanes, whole = (to - from) & -lanes;
    if ((s->direct || s->lookup) && whole > 0) {
        stand_behind(b, s, at, from, p);
        if (!b->k->in_place) {
            run_direct(b, s, p, to - from);
        } else {
            run_in_place(b, s, p, to - from, scratch);
        }
        return;
    }
    for (int64_t pos = from, n; pos < to; pos += n) {
        n = to - pos < s->block ? to - pos : s->block;
        if (n >= lanes) {
            n &= -lanes;
        } else if (to - from > lanes && !b->k->in_place) { /* as above: what is contiguous needs no scratch */
            pos = to - lanes;
            n = lanes;
        }
        run_block(b, s, at, pos, n, pos == from || (pos - from) % s->block != 0, scratch);
    }
}

void dyn_span_run(const DynBound *b, const DynSpan *s, char *const *at, DynScratch *scratch) {
    dyn_span_part(b, s, at, 0, s->n, scratch);
}

void dyn_span_run_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t n,
                       DynScratch *scratch) {
    char *at[DYN_MAX_OPERANDS];
    memcpy(at, from, sizeof(*at) * (size_t)b->nops);
    bool direct = is_plain(b, s);
    for (int64_t row = 0; row < n; row++) {
        if (direct) {
            run_direct(b, s, at, s->n);
        } else {
            dyn_span_run(b, s, at, scratch);
        }
        for (int i = 0; i < b->nops; i++) {
            at[i] += step[i];
        }
    }
}

/* ---- an elementwise kernel over its whole space */

typedef struct Elementwise {
    const DynBound *b;
    DynSpan span;
    int outer;             /* leading axes walked here; the span takes the rest */
    int64_t nouter, chunk; /* rows, or lanes where there are no rows, of one chunk */
} Elementwise;

/* All operands so many steps along an axis. */
static void step_along(const DynBound *b, char **at, int axis, int64_t steps) {
    for (int i = 0; i < b->nops; i++) {
        at[i] += steps * b->strides[i][axis];
    }
}

static void run_rows(const Elementwise *e, int64_t from, int64_t to, DynScratch *scratch) {
    const DynBound *b = e->b;
    char *at[DYN_MAX_OPERANDS];
    int64_t index[DYN_MAX_NDIM], rest = from;
    memcpy(at, b->base, sizeof(*at) * (size_t)b->nops);
    for (int d = e->outer; d-- > 0; rest /= b->dims[d]) {
        index[d] = rest % b->dims[d];
        step_along(b, at, d, index[d]);
    }
    bool direct = is_plain(b, &e->span);
    for (int64_t row = from; row < to; row++) {
        if (direct) {
            run_direct(b, &e->span, at, e->span.n);
        } else {
            dyn_span_run(b, &e->span, at, scratch);
        }
        for (int d = e->outer; d-- > 0;) { /* no division for each row */
            step_along(b, at, d, 1);
            if (++index[d] < b->dims[d]) {
                break;
            }
            step_along(b, at, d, -index[d]);
            index[d] = 0;
        }
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
        dyn_span_part(e->b, &e->span, e->b->base, from, to, &scratch);
    }
}

void dyn_bound_swap(DynBound *b, int x, int y) {
    int64_t size = b->dims[x];
    b->dims[x] = b->dims[y];
    b->dims[y] = size;
    for (int i = 0; i < b->nops; i++) {
        int64_t stride = b->strides[i][x];
        b->strides[i][x] = b->strides[i][y];
        b->strides[i][y] = stride;
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
            dyn_bound_swap(b, k, k - 1);
        }
    }
}

/* Axes from here on make rows of so many lanes at least. */
static int row_axis(const DynBound *b, int64_t least) {
    int from = b->ndim - 1;
    int64_t n = b->dims[from];
    while (from > 0 && (dyn_bound_joins(b, from - 1, from, b->dims[from]) || n < least)) {
        n *= b->dims[--from];
    }
    return from;
}

/* Would native code take single rows as they lie in memory, but has to have them gathered where several make one span? Then a row
 * is worth a call as soon as it has enough lanes for one. */
static bool wants_rows(const DynBound *b, const DynSpan *joined) {
    int64_t lanes = b->k->lanes, row = b->dims[b->ndim - 1];
    bool fits = row == lanes || 2 * row >= 3 * lanes; /* else half of the lanes of two calls are the same */
    bool direct = b->native->lanes != NULL && !b->k->in_place, gathered = false;
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        int64_t step = b->strides[i][b->ndim - 1];
        bool row_constant = o->still && step == 0 && b->native->row_constant != NULL;
        bool one = o->scalar || (row_constant && fits), side_by_side = step == b->size[i] && !o->indirect;
        direct = direct && (one || side_by_side);
        gathered = gathered || joined->mode[i] == DYN_SPAN_GATHER;
    }
    return direct && gathered;
}

/* Rows, for a kernel that doesn't join to one sequence. */
static void make_rows(Elementwise *e, const int *axes) {
    const DynBound *b = e->b;
    e->outer = row_axis(b, DYN_SHORT_ROW);
    dyn_span_make(b, axes + e->outer, b->ndim - e->outer, &e->span);
    if (wants_rows(b, &e->span)) {
        e->outer = row_axis(b, b->k->lanes);
        dyn_span_make(b, axes + e->outer, b->ndim - e->outer, &e->span);
    }
    for (int d = 0; d < e->outer; d++) {
        e->nouter *= b->dims[d];
    }
}

int dyn_exec_elementwise(DynBound *b) {
    Elementwise e; /* the span is large, and is made below: no zeros for it */
    int axes[DYN_MAX_NDIM] = {0};
    e.b = b;
    e.outer = 0;
    e.nouter = 1;
    for (int d = 0; d < b->ndim; d++) {
        axes[d] = d;
        if (b->dims[d] == 0) {
            return 0;
        }
    }
    int64_t cost = dyn_exec_cost(b);
    if (b->ndim > 1) {
        order_axes(b);
        dyn_tiles_order(b);
    }
    dyn_span_make(b, axes, b->ndim, &e.span);
    if (e.span.ndim > 1) {
        DynSpan row;
        dyn_span_make(b, axes + b->ndim - 1, 1, &row);
        if (dyn_tiles_wanted(b, &row)) {
            dyn_tiles_run(b, &row, cost >= DYN_PARALLEL_COST && dyn_par_threads() > 1);
            return 0;
        }
        make_rows(&e, axes);
    }
    int64_t units = e.outer ? e.nouter : e.span.n;
    if (cost < DYN_PARALLEL_COST || units < 2 || dyn_par_threads() < 2) {
        DynScratch scratch;
        if (e.outer) {
            run_rows(&e, 0, e.nouter, &scratch);
        } else {
            dyn_span_run(b, &e.span, b->base, &scratch);
        }
        return 0;
    }
    double per_unit = (double)cost / (double)units;
    e.chunk = (int64_t)(DYN_CHUNK_COST / per_unit) + 1;
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
