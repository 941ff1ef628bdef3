/* exec_ordered.c: sums and products of floats in NumPy's order.
 *
 * Called by exec_reduce.c, for kernels whose order is data (order.c), where exec_columns.c and exec_few.c aren't the better way.
 * Native code adds whole pieces pairwise where they lie, or makes products in turn. Everything else goes through values: a part
 * of a piece is laid out, the kernel's values of it are left in a block, and the loops of lanes.c reduce that. Results of short
 * lines that are summed in turn are made side by side. Owns the partial sums of what threads share. */
#include "codegen/run/lanes.h"
#include "codegen/run/par.h"

#define LANES DYN_REDUCE_LANES
#define PART DYN_SCRATCH_LANES /* elements that are laid out at a time: at least what is added without a split */

typedef struct Values { /* of the kernel's results, lane by lane */
    _Alignas(64) char at[DYN_MAX_RESULTS][PART * DYN_MAX_SIZE];
} Values;

/* ---- a part of the elements, at most PART, that is laid out */

/* Where each operand of elements pos … pos + n stands: in memory where whole groups lie there, or in scratch. Where it isn't
 * `fresh`, scratch has the part before, which was no shorter and had whole rounds. */
static void lay_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool fresh,
                     DynScratch *scratch, char **p) {
    int64_t full = (n + LANES - 1) / LANES * LANES;
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        bool direct = s->mode[i] == DYN_SPAN_DIRECT && full == n;
        if (o->result || s->mode[i] == DYN_SPAN_SCALAR || direct) {
            p[i] = at[i] + (direct && !o->result ? pos * b->size[i] : 0);
            continue;
        }
        p[i] = scratch->lanes[i];
        if (!o->out) {
            if (fresh || (s->mode[i] != DYN_SPAN_SPLAT && s->mode[i] != DYN_SPAN_ROUND)) {
                dyn_span_gather(b, s, i, at, pos, n, p[i]);
            }
            dyn_lanes_pad(p[i], b->size[i], n, full);
        }
    }
}

static void keep_stores(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, char *const *p) {
    for (int i = 0; i < b->nops; i++) {
        const DynOperand *o = &b->k->operands.at[i];
        bool in_place = s->mode[i] == DYN_SPAN_DIRECT && n % LANES == 0;
        if (o->out && !o->result && !in_place) {
            dyn_span_scatter(b, s, i, at[i], pos, n, p[i]);
        }
    }
}

/* The kernel's values of n elements: each is reduced alone, from the identity. */
static void run_values(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool fresh,
                       const DynResults *r, DynScratch *scratch, Values *values) {
    static const char *const start[DYN_MAX_OPERANDS];
    static const int64_t row_step[DYN_MAX_OPERANDS];
    char *p[DYN_MAX_OPERANDS];
    int64_t groups = (n + LANES - 1) / LANES;
    lay_part(b, s, at, pos, n, fresh, scratch, p);
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        uint8_t size = (uint8_t)(r->bytes[i] / LANES);
        dyn_lanes_copy(values->at[i], (const char *)&r->identity[i], size, 0, groups * LANES, size);
        p[op] = values->at[i];
    }
    DynColumnsArgs args = {
        .operands = p, .row_step = row_step, .start = start, .n = LANES, .groups = groups, .scalars = b->params};
    dyn_bound_columns(b, &args);
    keep_stores(b, s, at, pos, n, p);
}

/* ---- results of a row */

typedef struct Row {
    const DynBound *b;
    const DynSpan *s;
    char *const *at;
    const DynResults *r;
    DynScratch *scratch;
    bool native, direct; /* native code reduces pieces; where they lie */
} Row;

static bool is_in_turn(const DynInsn *insn, const DynOrder *o) { return o->in_turn && dyn_insn_is_inexact(insn); }

/* Elements pos … pos + n of a piece, at most PART: where it is taken in turn, `parts` goes on, else it is made anew. */
static void sum_part(const Row *w, int64_t pos, int64_t n, DynPart *parts) {
    const DynBound *b = w->b;
    const DynResults *r = w->r;
    if (w->native) {
        static const int64_t still[DYN_MAX_OPERANDS];
        char *p[DYN_MAX_OPERANDS];
        DynPart start[DYN_MAX_RESULTS], made[DYN_MAX_RESULTS];
        lay_part(b, w->s, w->at, pos, n, true, w->scratch, p);
        for (int i = 0; i < r->n; i++) {
            start[i] = is_in_turn(r->insn[i], &b->order) ? parts[i] : r->identity[i];
            p[r->insn[i]->a[0]] = (char *)&made[i];
        }
        dyn_reduce_native(b, n, p, still, 1, r, start);
        keep_stores(b, w->s, w->at, pos, n, p);
        for (int i = 0; i < r->n; i++) {
            bool joins = b->order.in_turn && !is_in_turn(r->insn[i], &b->order);
            if (joins) {
                dyn_part_combine(r->insn[i]->op, r->insn[i]->compute, &parts[i], &made[i]);
            } else {
                parts[i] = made[i];
            }
        }
        return;
    }
    Values values;
    run_values(b, w->s, w->at, pos, n, true, r, w->scratch, &values);
    for (int i = 0; i < r->n; i++) {
        const DynInsn *insn = r->insn[i];
        bool pairwise = dyn_insn_is_inexact(insn) && !b->order.in_turn;
        if (pairwise) {
            dyn_lanes_pairwise(insn->compute)(&parts[i], values.at[i], (int)n);
            continue;
        }
        parts[i] = b->order.in_turn ? parts[i] : r->identity[i];
        if (b->order.fuses && b->order.across) {
            for (int64_t k = 0; k < n; k++) {
                r->combine[i](&parts[i], values.at[i] + (size_t)k * (r->bytes[i] / LANES), 1);
            }
        } else {
            dyn_lanes_in_turn(insn->op, insn->compute)(&parts[i], values.at[i], (int)n);
        }
    }
}

static void combine_parts(const DynResults *r, DynPart *to, const DynPart *from) {
    for (int i = 0; i < r->n; i++) {
        dyn_part_combine(r->insn[i]->op, r->insn[i]->compute, &to[i], &from[i]);
    }
}

/* Elements pos … pos + n, a piece or a part of one that the order has: added pairwise, from nothing. */
static void sum_pairwise(const Row *w, int64_t pos, int64_t n, DynPart *parts) {
    static const int64_t still[DYN_MAX_OPERANDS];
    const DynBound *b = w->b;
    if (w->native && w->direct) {
        char *p[DYN_MAX_OPERANDS];
        for (int i = 0; i < b->nops; i++) {
            p[i] = w->at[i] + (w->s->mode[i] == DYN_SPAN_SCALAR ? 0 : pos * b->size[i]);
        }
        for (int i = 0; i < w->r->n; i++) {
            p[w->r->insn[i]->a[0]] = (char *)&parts[i];
        }
        dyn_reduce_native(b, n, p, still, 1, w->r, w->r->identity);
        return;
    }
    if (n <= PART) {
        sum_part(w, pos, n, parts);
        return;
    }
    DynPart sums[64][DYN_MAX_RESULTS];
    DynParts split;
    int64_t part;
    int top = 0, joins;
    dyn_parts_begin(&split, n, b->order.lanes);
    while (dyn_parts_next(&split, PART, &part, &joins)) {
        sum_part(w, pos, part, sums[top++]);
        pos += part;
        for (; joins > 0; joins--, top--) {
            combine_parts(w->r, sums[top - 2], sums[top - 1]);
        }
    }
    memcpy(parts, sums[0], sizeof(sums[0]));
}

static int64_t piece_at(const DynOrder *o, int64_t pos, int64_t n) {
    int64_t stop = pos - pos % o->run + o->run, end = pos + o->piece;
    end = end < stop ? end : stop;
    return (end < n ? end : n) - pos;
}

/* All elements of one result. */
static void sum_row(const Row *w, DynPart *parts) {
    const DynOrder *o = &w->b->order;
    memcpy(parts, w->r->identity, sizeof(w->r->identity));
    for (int64_t pos = 0, n; pos < w->s->n; pos += n) {
        DynPart piece[DYN_MAX_RESULTS];
        if (o->in_turn) {
            n = w->s->n - pos < PART ? w->s->n - pos : PART;
            sum_part(w, pos, n, parts);
            continue;
        }
        n = piece_at(o, pos, w->s->n);
        sum_pairwise(w, pos, n, piece);
        combine_parts(w->r, parts, piece);
    }
}

/* Native code takes rows that are products in turn, or sums pairwise. */
static bool has_native(const DynBound *b, const DynResults *r) {
    bool can = b->native->rows != NULL && !(b->order.fuses && b->order.across);
    for (int i = 0; i < r->n; i++) {
        can = can && (!is_in_turn(r->insn[i], &b->order) || r->insn[i]->op == DYN_OP_PROD);
    }
    return can;
}

void dyn_ordered_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t rows,
                      const DynResults *r, DynScratch *scratch) {
    char *at[DYN_MAX_OPERANDS], *now[DYN_MAX_OPERANDS];
    bool native = has_native(b, r), direct = s->direct && !s->looked_up;
    if (native && direct && s->n > 0 && b->order.piece >= s->n) {
        dyn_reduce_native(b, s->n, from, step, rows, r, r->identity);
        return;
    }
    memcpy(at, from, sizeof(*at) * (size_t)b->nops);
    for (int64_t row = 0; row < rows; row++) {
        DynPart parts[DYN_MAX_RESULTS];
        Row w = {.b = b, .s = s, .at = at, .r = r, .scratch = scratch, .native = native, .direct = direct};
        w.at = s->looked_up ? dyn_span_look_up(b, s, at, now) : at;
        sum_row(&w, parts);
        dyn_reduce_put(b, at, r, parts);
        for (int i = 0; i < b->nops; i++) {
            at[i] += step[i];
        }
    }
}

/* ---- one result by all threads */

typedef struct Unit {
    int64_t at, n;
    int joins; /* of the sums before it, when it is there; -1: a piece ends, which is added to those before it */
} Unit;

typedef struct Shared {
    const DynReduce *e;
    char **at;
    Unit *units;
    DynPart *parts;
} Shared;

/* `units`: NULL: they are counted. */
static int64_t list_units(const DynReduce *e, Unit *units) {
    const DynOrder *o = &e->b->order;
    int64_t count = 0;
    for (int64_t pos = 0, n; pos < e->span.n; pos += n) {
        n = piece_at(o, pos, e->span.n);
        DynParts split;
        int64_t part, at = pos;
        int joins;
        dyn_parts_begin(&split, n, o->lanes);
        while (dyn_parts_next(&split, DYN_REDUCE_CHUNK, &part, &joins)) {
            if (units != NULL) {
                units[count] = (Unit){.at = at, .n = part, .joins = joins + (at + part == pos + n && pos > 0)};
            }
            at += part;
            count++;
        }
    }
    return count;
}

static void run_unit(void *ctx, int64_t unit) {
    const Shared *x = ctx;
    const DynReduce *e = x->e;
    DynScratch scratch;
    char *now[DYN_MAX_OPERANDS];
    Row w = {.b = e->b, .s = &e->span, .at = x->at, .r = &e->results, .scratch = &scratch};
    w.native = has_native(e->b, &e->results);
    w.direct = e->span.direct && !e->span.looked_up;
    w.at = e->span.looked_up ? dyn_span_look_up(e->b, &e->span, x->at, now) : x->at;
    sum_pairwise(&w, x->units[unit].at, x->units[unit].n, x->parts + unit * DYN_MAX_RESULTS);
}

static void join_units(const Shared *x, int64_t count, DynPart *out) {
    DynPart sums[64][DYN_MAX_RESULTS];
    int top = 0;
    for (int64_t unit = 0; unit < count; unit++) {
        memcpy(sums[top++], x->parts + unit * DYN_MAX_RESULTS, sizeof(sums[0]));
        for (int joins = x->units[unit].joins; joins > 0; joins--, top--) {
            combine_parts(&x->e->results, sums[top - 2], sums[top - 1]);
        }
    }
    memcpy(out, x->e->results.identity, sizeof(sums[0]));
    combine_parts(&x->e->results, out, sums[0]);
}

static void run_shared(DynReduce *e) {
    char *at[DYN_MAX_OPERANDS];
    DynPart out[DYN_MAX_RESULTS];
    int64_t count = list_units(e, NULL);
    Shared x = {.e = e, .at = at, .units = PyMem_RawMalloc(sizeof(Unit) * (size_t)count)};
    x.parts = PyMem_RawMalloc(sizeof(DynPart) * DYN_MAX_RESULTS * (size_t)count);
    if (x.units == NULL || x.parts == NULL) {
        atomic_store(&e->failed, true);
    } else {
        list_units(e, x.units);
        for (int64_t outer = 0; outer < e->nouter; outer++) {
            dyn_reduce_place(e, e->nkept, outer, at);
            dyn_par_for(run_unit, &x, count);
            join_units(&x, count, out);
            dyn_reduce_put(e->b, at, &e->results, out);
        }
    }
    PyMem_RawFree(x.units);
    PyMem_RawFree(x.parts);
}

/* ---- results of short lines, in turn */

typedef struct Lines {
    DynReduce *e;
    DynSpan span; /* of the reduced axes and the last kept one */
    int64_t n;    /* results of a line */
    bool taken;   /* what is summed lies so in memory */
} Lines;

static void add_line(const DynResults *r, int i, char *sums, const char *values, int64_t rows, int64_t n) {
    DynRowsAddFn *add = dyn_rows_add(r->insn[i]->op, r->insn[i]->compute);
    size_t bytes = (size_t)n * (r->bytes[i] / LANES);
    if (add != NULL) {
        add(sums, values, rows, (int)n);
        return;
    }
    for (int64_t row = 0; row < rows; row++) {
        r->combine[i](sums, values + (size_t)row * bytes, (int)n);
    }
}

static void run_line(void *ctx, int64_t line) {
    const Lines *x = ctx;
    const DynReduce *e = x->e;
    const DynResults *r = &e->results;
    int last = e->kept[e->nkept - 1];
    char *at[DYN_MAX_OPERANDS];
    _Alignas(64) char sums[DYN_MAX_RESULTS][LANES * DYN_MAX_SIZE];
    int64_t most = x->span.block % x->n == 0 ? x->span.block : PART / x->n * x->n; /* whole rounds, which begin with lines */
    DynScratch scratch;
    Values values;
    dyn_reduce_place(e, e->nkept - 1, line, at);
    for (int i = 0; i < r->n; i++) {
        memcpy(sums[i], r->start[i], r->bytes[i]);
    }
    for (int64_t pos = 0, n; pos < x->span.n; pos += n) {
        n = x->taken ? x->span.n : x->span.n - pos < most ? x->span.n - pos : most;
        if (!x->taken) {
            run_values(e->b, &x->span, at, pos, n, pos == 0, r, &scratch, &values);
        }
        for (int i = 0; i < r->n; i++) {
            const char *from = x->taken ? at[e->b->k->insns.at[r->insn[i]->a[1]].a[0]] : values.at[i];
            add_line(r, i, sums[i], from, n / x->n, x->n);
        }
    }
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        uint8_t size = e->b->size[op];
        dyn_lanes_copy(at[op], sums[i], e->b->strides[op][last], size, x->n, size);
    }
}

/* Operands that lie side by side along a kept axis. */
static int count_dense(const DynBound *b, int axis) {
    int n = 0;
    for (int i = 0; i < b->nops; i++) {
        n += !b->k->operands.at[i].result && b->strides[i][axis] == b->size[i];
    }
    return n;
}

/* Which of the kept axes lines of results lie along: the last if it is short, or a short one that most operands lie side by side
 * along. -1: there is none. */
static int find_line(const DynReduce *e) {
    const DynBound *b = e->b;
    int best = -1, most = 0;
    for (int a = 0; a < e->nkept; a++) {
        int dense = b->dims[e->kept[a]] < LANES ? a == e->nkept - 1 ? DYN_MAX_OPERANDS : count_dense(b, e->kept[a]) : 0;
        best = dense > most ? a : best;
        most = dense > most ? dense : most;
    }
    return best;
}

/* false: lines aren't short, or what is summed doesn't lie so. */
static bool run_lines(DynReduce *e, int threads) {
    const DynBound *b = e->b;
    int axes[DYN_MAX_NDIM], n = b->order.naxes, last = e->nkept - 1, line = find_line(e);
    bool along = !b->order.in_turn || (b->order.fuses && !b->order.across);
    if (along || line < 0 || e->nkept + n > b->ndim) {
        return false;
    }
    int axis = e->kept[line];
    e->kept[line] = e->kept[last];
    e->kept[last] = axis;
    Lines x = {.e = e, .n = b->dims[e->kept[e->nkept - 1]]};
    memcpy(axes, b->order.axes, sizeof(*axes) * (size_t)n);
    axes[n] = e->kept[e->nkept - 1];
    dyn_span_make(b, axes, n + 1, &x.span);
    if (x.span.looked_up) {
        return false;
    }
    x.taken = dyn_kernel_only_takes(b->k);
    for (int i = 0; i < b->nops; i++) {
        x.taken = x.taken && (b->k->operands.at[i].result || x.span.mode[i] == DYN_SPAN_DIRECT);
    }
    dyn_reduce_chunks(run_line, &x, e->nouter / x.n, threads);
    return true;
}

/* ---- all results */

typedef struct Outer {
    DynReduce *e;
    int64_t line;
    int64_t step[DYN_MAX_OPERANDS];
} Outer;

static void run_chunk(void *ctx, int64_t chunk) {
    const Outer *x = ctx;
    const DynReduce *e = x->e;
    DynScratch scratch;
    char *at[DYN_MAX_OPERANDS];
    int64_t from = chunk * e->chunk, to = from + e->chunk < e->nouter ? from + e->chunk : e->nouter, n;
    for (; from < to; from += n) {
        n = x->line - from % x->line < to - from ? x->line - from % x->line : to - from;
        dyn_reduce_place(e, e->nkept, from, at);
        dyn_ordered_rows(e->b, &e->span, at, x->step, n, &e->results, &scratch);
    }
}

void dyn_ordered_run(DynReduce *e, int threads) {
    const DynBound *b = e->b;
    Outer x = {.e = e, .line = e->nkept ? b->dims[e->kept[e->nkept - 1]] : 1};
    if (run_lines(e, threads)) {
        return;
    }
    if (threads > 1 && e->nouter < DYN_RESULTS_EACH * threads && !b->order.in_turn && e->span.n >= 2 * DYN_REDUCE_CHUNK) {
        run_shared(e);
        return;
    }
    for (int i = 0; i < b->nops && e->nkept; i++) {
        x.step[i] = b->strides[i][e->kept[e->nkept - 1]];
    }
    e->chunk = threads > 1 ? DYN_CHUNK_COST / (dyn_exec_cost(b) / e->nouter + 1) + 1 : e->nouter;
    dyn_reduce_chunks(run_chunk, &x, (e->nouter + e->chunk - 1) / e->chunk, threads);
}
