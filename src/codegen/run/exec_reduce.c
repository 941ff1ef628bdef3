/* exec_reduce.c: runs kernels that reduce.
 *
 * Called by task_kernel.c, and by exec_group.c for groups. Sums and products of floats in NumPy's graphs have NumPy's order
 * (order.c), and what exec_columns.c and exec_few.c don't take of them is exec_ordered.c's. All others have this one: the reduced
 * elements of one result, in C order of the reduced axes, are cut into blocks of DYN_BLOCK. In a block, element i goes to
 * accumulator i % DYN_REDUCE_LANES; the accumulators are combined in a fixed tree (lanes.c), and the blocks' partial results
 * pairwise, like a binary counter counts. That order depends on the number of elements alone: not on strides, threads or where
 * the elements stand. Two ways to the same bits: along contiguous elements of one result, or, where neighbours in memory belong
 * to neighbouring results, a lane for each result and a set of accumulators for each of them. */
#include "codegen/run/lanes.h"
#include "codegen/run/par.h"
#include <stdlib.h>

#define LANES DYN_REDUCE_LANES
#define ROW_BYTES (LANES * DYN_MAX_SIZE) /* room for lanes of any type */

/* ---- partial results */

typedef struct Cascade {
    uint64_t count; /* bit k: level k is taken */
    DynPart level[56];
} Cascade;

static void cascade_push(Cascade *c, const DynInsn *r, DynPart v) {
    int level = 0;
    for (uint64_t count = c->count++; count & 1; count >>= 1, level++) {
        DynPart sum = c->level[level];
        if (r->op == DYN_OP_SUM && r->compute == DYN_F64) {
            sum.f64 += v.f64;
        } else {
            dyn_part_combine(r->op, r->compute, &sum, &v);
        }
        v = sum;
    }
    c->level[level] = v;
}

static DynPart cascade_end(const Cascade *c, const DynInsn *r) {
    int level = __builtin_ctzll(c->count);
    DynPart v = c->level[level];
    for (uint64_t rest = c->count >> (level + 1); rest; rest >>= 1) {
        level++;
        if (rest & 1) {
            DynPart sum = c->level[level];
            dyn_part_combine(r->op, r->compute, &sum, &v);
            v = sum;
        }
    }
    return v;
}

void dyn_reduce_results(const DynKernel *k, DynResults *r) {
    r->n = 0;
    r->any_order = dyn_kernel_any_order(k);
    r->in_turn = r->any_order || k->ordered;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = &k->insns.at[i];
        if (insn->kind == DYN_L_REDUCE) {
            uint8_t size = dyn_dtypes[insn->compute].size;
            r->combine[r->n] = dyn_lanes_combine(insn->op, insn->compute);
            r->tree[r->n] = dyn_lanes_tree(insn->op, insn->compute);
            r->bytes[r->n] = (size_t)LANES * size;
            r->identity[r->n] = dyn_part_identity(insn->op, insn->compute);
            dyn_lanes_copy(r->start[r->n], (const char *)&r->identity[r->n], size, 0, LANES, size);
            r->insn[r->n++] = insn;
        }
    }
}

/* Lanes of result i before anything was added. A copy of known size would be a string instruction, which is slow to start. */
static void start_lanes(const DynResults *r, int i, char *to) { memcpy(to, r->start[i], r->bytes[i]); }

/* ---- along the elements of one result */

typedef struct Accumulators {
    _Alignas(64) char lanes[DYN_MAX_RESULTS][ROW_BYTES];
} Accumulators;

static void set_identity(const DynResults *r, Accumulators *acc, char **p) {
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        start_lanes(r, i, acc->lanes[i]);
        p[op] = acc->lanes[i];
    }
}

/* n lanes that lie side by side, to accumulators, which go on with what they hold. */
static void run_columns(const DynBound *b, char *const *p, int64_t n) {
    static const char *const start[DYN_MAX_OPERANDS];
    int64_t row_step[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        row_step[i] = LANES * b->size[i];
    }
    DynColumnsArgs args = {.operands = p, .row_step = row_step, .start = start, .n = n, .groups = 1, .scalars = b->params};
    dyn_bound_columns(b, &args);
}

/* The last lanes, fewer than a group: padded copies, of which only the valid ones count. */
static void run_rest(const DynBound *b, const DynSpan *s, char **p, char *const *at, int64_t pos, int64_t n, const DynResults *r,
                     Accumulators *whole, DynScratch *scratch) {
    Accumulators acc;
    char *q[DYN_MAX_OPERANDS];
    memcpy(q, p, sizeof(*p) * (size_t)b->nops);
    for (int i = 0; i < b->nops; i++) {
        if (s->mode[i] == DYN_SPAN_DIRECT && !b->k->operands.at[i].result) {
            q[i] = scratch->tail[i];
            if (!b->k->operands.at[i].out) {
                memcpy(q[i], at[i] + pos * b->size[i], (size_t)(n * b->size[i]));
                dyn_lanes_pad(q[i], b->size[i], n, LANES);
            }
        }
    }
    set_identity(r, &acc, q);
    run_columns(b, q, LANES);
    for (int i = 0; i < r->n; i++) {
        r->combine[i](whole->lanes[i], acc.lanes[i], (int)n);
    }
    for (int i = 0; i < b->nops; i++) {
        if (b->k->operands.at[i].out && s->mode[i] == DYN_SPAN_DIRECT && !b->k->operands.at[i].result) {
            memcpy(at[i] + pos * b->size[i], q[i], (size_t)(n * b->size[i]));
        }
    }
}

void dyn_reduce_native(const DynBound *b, int64_t n, char *const *at, const int64_t *step, int64_t rows, const DynResults *r,
                       const DynPart *start) {
    const char *starts[DYN_MAX_OPERANDS];
    for (int i = 0; i < r->n; i++) {
        starts[r->insn[i]->a[0]] = (const char *)&start[i];
    }
    DynRowsArgs args = {.operands = at, .row_step = step, .start = starts, .rows = rows, .n = n, .scalars = b->params};
    if (n == b->length) {
        b->rows_of_length(&args);
    } else {
        b->native->rows(&args);
    }
}

/* Does it keep nothing but results? Then what isn't side by side can be laid out and left. */
static bool only_reads(const DynBound *b) {
    bool reads = true;
    for (int i = 0; i < b->nops; i++) {
        reads = reads && (!b->k->operands.at[i].out || b->k->operands.at[i].result);
    }
    return reads;
}

/* As many rows as scratch has room for, laid out one behind the other, by native code. */
static void run_laid(const DynBound *b, const DynSpan *s, char *const *at, const int64_t *step, int64_t pos, int64_t n,
                     int64_t rows, bool first, const DynResults *r, DynPart *parts, DynScratch *scratch) {
    char *p[DYN_MAX_OPERANDS], *row[DYN_MAX_OPERANDS];
    int64_t steps[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        bool laid = s->mode[i] > DYN_SPAN_SCALAR;
        p[i] = s->mode[i] == DYN_SPAN_DIRECT ? at[i] + pos * b->size[i] : at[i];
        steps[i] = step[i];
        if (laid) {
            p[i] = scratch->lanes[i];
            steps[i] = n * b->size[i];
        }
    }
    memcpy(row, at, sizeof(*row) * (size_t)b->nops);
    for (int64_t k = 0; k < rows; k++) {
        for (int i = 0; i < b->nops; i++) {
            if (s->mode[i] > DYN_SPAN_SCALAR && (first || s->mode[i] != DYN_SPAN_SPLAT)) {
                dyn_span_gather(b, s, i, row, pos, n, p[i] + k * steps[i]);
            }
        }
        for (int i = 0; i < b->nops; i++) {
            row[i] += step[i];
        }
    }
    for (int i = 0; i < r->n && parts != NULL; i++) {
        p[r->insn[i]->a[0]] = (char *)&parts[i];
    }
    dyn_reduce_native(b, n, p, steps, rows, r, r->identity);
}

/* One block: partial results to `parts`, values that the kernel stores to where they belong. */
static void run_block(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool first,
                      const DynResults *r, DynPart *parts, DynScratch *scratch) {
    Accumulators acc;
    char *p[DYN_MAX_OPERANDS];
    const DynKernel *k = b->k;
    int64_t rest = n % LANES, whole = n - rest;
    static const int64_t still[DYN_MAX_OPERANDS];
    if (b->native->rows != NULL && only_reads(b)) {
        run_laid(b, s, at, still, pos, n, 1, first, r, parts, scratch);
        return;
    }
    for (int i = 0; i < b->nops; i++) {
        uint8_t size = b->size[i];
        if (s->mode[i] == DYN_SPAN_SCALAR) {
            p[i] = at[i];
            continue;
        }
        p[i] = s->mode[i] == DYN_SPAN_DIRECT ? at[i] + pos * size : scratch->lanes[i];
        bool lays = s->mode[i] != DYN_SPAN_DIRECT && !k->operands.at[i].out;
        if (lays && (first || s->mode[i] != DYN_SPAN_SPLAT)) {
            dyn_span_gather(b, s, i, at, pos, n, p[i]);
            dyn_lanes_pad(p[i], size, n, whole + (rest ? LANES : 0));
        }
    }
    set_identity(r, &acc, p);
    if (whole) {
        run_columns(b, p, whole);
    }
    if (rest) {
        for (int i = 0; i < b->nops; i++) {
            p[i] += s->mode[i] == DYN_SPAN_SCALAR ? 0 : whole * b->size[i];
        }
        run_rest(b, s, p, at, pos + whole, rest, r, &acc, scratch);
    }
    for (int i = 0; i < r->n; i++) {
        r->tree[i](acc.lanes[i]);
        memcpy(&parts[i], acc.lanes[i], sizeof(parts[i]));
    }
    for (int i = 0; i < b->nops; i++) {
        if (k->operands.at[i].out && s->mode[i] != DYN_SPAN_DIRECT && !b->k->operands.at[i].result) {
            dyn_span_scatter(b, s, i, at[i], pos, n, scratch->lanes[i]);
        }
    }
}

/* Some elements of one result. */
static void run_whole(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t n, const DynResults *r,
                      DynPart *parts) {
    static const int64_t still[DYN_MAX_OPERANDS];
    char *p[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        p[i] = at[i] + (s->mode[i] == DYN_SPAN_SCALAR ? 0 : from * b->size[i]);
    }
    for (int i = 0; i < r->n; i++) {
        p[r->insn[i]->a[0]] = (char *)&parts[i];
    }
    dyn_reduce_native(b, n, p, still, 1, r, r->identity);
}

/* Elements from … to of a span, to one partial result for each result. */
static void run_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, const DynResults *r,
                     DynPart *parts, DynScratch *scratch) {
    Cascade c[DYN_MAX_RESULTS];
    char *now[DYN_MAX_OPERANDS];
    at = s->looked_up ? dyn_span_look_up(b, s, at, now) : at;
    if (s->direct && b->native->rows != NULL) {
        run_whole(b, s, at, from, to - from, r, parts);
        return;
    }
    if (to - from <= DYN_BLOCK || (s->direct && r->any_order)) {
        run_block(b, s, at, from, to - from, true, r, parts, scratch);
        return;
    }
    for (int i = 0; i < r->n; i++) {
        c[i].count = 0;
    }
    for (int64_t pos = from; pos < to; pos += DYN_BLOCK) {
        int64_t n = to - pos < DYN_BLOCK ? to - pos : DYN_BLOCK;
        run_block(b, s, at, pos, n, pos == from, r, parts, scratch);
        for (int i = 0; i < r->n; i++) {
            cascade_push(&c[i], r->insn[i], parts[i]);
        }
    }
    for (int i = 0; i < r->n; i++) {
        parts[i] = cascade_end(&c[i], r->insn[i]);
    }
}

void dyn_reduce_put(const DynBound *b, char *const *at, const DynResults *r, const DynPart *parts) {
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        memcpy(at[op], &parts[i], b->size[op]);
    }
}

static bool can_lay(const DynBound *b, const DynSpan *s) {
    bool fits = s->n > 0 && s->n <= DYN_SCRATCH_LANES;
    return fits && !s->looked_up && b->native->rows != NULL && only_reads(b);
}

void dyn_reduce_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t rows,
                     const DynResults *r, DynScratch *scratch) {
    DynPart parts[DYN_MAX_RESULTS];
    char *at[DYN_MAX_OPERANDS];
    if (b->k->ordered) {
        dyn_ordered_rows(b, s, from, step, rows, r, scratch);
        return;
    }
    bool as_it_lies = s->direct && !s->looked_up && s->n > 0;
    if (as_it_lies && b->native->rows != NULL) {
        dyn_reduce_native(b, s->n, from, step, rows, r, r->identity);
        return;
    }
    memcpy(at, from, sizeof(*at) * (size_t)b->nops);
    while (can_lay(b, s) && rows > 0) {
        int64_t some = DYN_SCRATCH_LANES / s->n < rows ? DYN_SCRATCH_LANES / s->n : rows;
        run_laid(b, s, at, step, 0, s->n, some, true, r, NULL, scratch);
        rows -= some;
        for (int i = 0; i < b->nops; i++) {
            at[i] += some * step[i];
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        if (s->n > 0) {
            run_part(b, s, at, 0, s->n, r, parts, scratch);
        }
        dyn_reduce_put(b, at, r, s->n > 0 ? parts : r->identity); /* MAX and MIN of nothing never come here: a guard says so */
        for (int i = 0; i < b->nops; i++) {
            at[i] += step[i];
        }
    }
}

/* ---- a kernel over its whole space */

void dyn_reduce_place(const DynReduce *e, int naxes, int64_t outer, char **at) {
    const DynBound *b = e->b;
    memcpy(at, b->base, sizeof(*at) * (size_t)b->nops);
    for (int a = naxes; a-- > 0;) {
        int d = e->kept[a];
        int64_t index = outer % b->dims[d];
        outer /= b->dims[d];
        for (int i = 0; i < b->nops; i++) {
            at[i] += index * b->strides[i][d];
        }
    }
}

/* Some results at once, block by block, so that what one block's cache lines hold of the others is used. */
static void run_gathered(const DynReduce *e, int64_t from, int n, DynScratch *scratch) {
    char *at[DYN_GATHERED_RESULTS][DYN_MAX_OPERANDS];
    Cascade c[DYN_GATHERED_RESULTS][DYN_MAX_RESULTS];
    DynPart parts[DYN_MAX_RESULTS];
    const DynResults *r = &e->results;
    for (int w = 0; w < n; w++) {
        dyn_reduce_place(e, e->nkept, from + w, at[w]);
        if (e->span.looked_up) {
            dyn_span_look_up(e->b, &e->span, at[w], at[w]);
        }
        for (int i = 0; i < r->n; i++) {
            c[w][i].count = 0;
        }
    }
    for (int64_t pos = 0; pos < e->span.n; pos += DYN_BLOCK) {
        int64_t m = e->span.n - pos < DYN_BLOCK ? e->span.n - pos : DYN_BLOCK;
        for (int w = 0; w < n; w++) {
            run_block(e->b, &e->span, at[w], pos, m, true, r, parts, scratch);
            for (int i = 0; i < r->n; i++) {
                cascade_push(&c[w][i], r->insn[i], parts[i]);
            }
        }
    }
    for (int w = 0; w < n; w++) {
        for (int i = 0; i < r->n; i++) {
            parts[i] = cascade_end(&c[w][i], r->insn[i]);
        }
        dyn_reduce_put(e->b, at[w], r, parts);
    }
}

static void run_outer(const DynReduce *e, int64_t from, int64_t to, DynScratch *scratch) {
    const DynBound *b = e->b;
    char *at[DYN_MAX_OPERANDS];
    int64_t step[DYN_MAX_OPERANDS] = {0}, line = e->nkept ? b->dims[e->kept[e->nkept - 1]] : 1;
    for (int i = 0; i < b->nops && e->nkept; i++) {
        step[i] = b->strides[i][e->kept[e->nkept - 1]];
    }
    while (from < to) {
        if (e->side_by_side > 1 && e->span.n > 0 && !can_lay(b, &e->span)) {
            int n = to - from < e->side_by_side ? (int)(to - from) : e->side_by_side;
            run_gathered(e, from, n, scratch);
            from += n;
        } else {
            int64_t n = line - from % line < to - from ? line - from % line : to - from;
            dyn_reduce_place(e, e->nkept, from, at);
            dyn_reduce_rows(b, &e->span, at, step, n, &e->results, scratch);
            from += n;
        }
    }
}

static void outer_chunk(void *ctx, int64_t chunk) {
    const DynReduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * e->chunk, to = from + e->chunk < e->nouter ? from + e->chunk : e->nouter;
    run_outer(e, from, to, &scratch);
}

/* ---- one result by all threads */

static void inner_chunk(void *ctx, int64_t chunk) {
    const DynReduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * DYN_REDUCE_CHUNK, to = from + DYN_REDUCE_CHUNK < e->span.n ? from + DYN_REDUCE_CHUNK : e->span.n;
    run_part(e->b, &e->span, e->at, from, to, &e->results, e->parts + chunk * e->results.n, &scratch);
}

static int run_inner_parallel(DynReduce *e) {
    char *at[DYN_MAX_OPERANDS];
    int64_t nchunks = (e->span.n + DYN_REDUCE_CHUNK - 1) / DYN_REDUCE_CHUNK;
    int n = e->results.n;
    DynPart out[DYN_MAX_RESULTS];
    e->parts = PyMem_RawMalloc(sizeof(DynPart) * (size_t)(nchunks * n));
    if (!e->parts) {
        return -1;
    }
    e->at = at;
    for (int64_t outer = 0; outer < e->nouter; outer++) {
        dyn_reduce_place(e, e->nkept, outer, at);
        dyn_par_for(inner_chunk, e, nchunks);
        for (int i = 0; i < n; i++) {
            Cascade c = {.count = 0};
            for (int64_t k = 0; k < nchunks; k++) {
                cascade_push(&c, e->results.insn[i], e->parts[k * n + i]);
            }
            out[i] = cascade_end(&c, e->results.insn[i]);
        }
        dyn_reduce_put(e->b, at, &e->results, out);
    }
    PyMem_RawFree(e->parts);
    return 0;
}

/* The operand whose steps say how memory is walked: the one that moves along most axes. */
static int find_reference(const DynBound *b) {
    int best = 0, most = -1;
    for (int i = 0; i < b->nops; i++) {
        int n = 0;
        for (int d = 0; d < b->ndim; d++) {
            n += b->dims[d] > 1 && b->strides[i][d] != 0;
        }
        best = n > most ? i : best;
        most = n > most ? n : most;
    }
    return best;
}

/* What is walked backwards is turned round: results may be made in any order, and where any order gives the same bits,
 * elements be taken in that of memory. */
static void turn_round(DynBound *b, int axis) {
    for (int i = 0; i < b->nops; i++) {
        b->base[i] += b->strides[i][axis] * (b->dims[axis] - 1);
        b->strides[i][axis] = -b->strides[i][axis];
    }
}

static void join_kept(DynReduce *e, DynBound *b) {
    int n = 0;
    for (int a = 0; a < e->nkept; a++) {
        if (n > 0 && dyn_bound_joins(b, e->kept[n - 1], e->kept[a], b->dims[e->kept[a]])) {
            b->dims[e->kept[a]] *= b->dims[e->kept[n - 1]];
            b->dims[e->kept[n - 1]] = 1;
            n--;
        }
        e->kept[n++] = e->kept[a];
    }
    e->nkept = n;
}

/* Axis d among n others, largest steps of operand `like` first. */
static void put_axis(const DynBound *b, int like, int *axes, int n, int d) {
    for (; n > 0 && b->strides[like][axes[n - 1]] < b->strides[like][d]; n--) {
        axes[n] = axes[n - 1];
    }
    axes[n] = d;
}

static void split_axes(DynReduce *e, DynBound *b, int *reduced, int *nreduced) {
    int like = find_reference(b);
    for (int d = 0; d < b->ndim; d++) {
        bool kept = !(b->k->reduced >> d & 1);
        bool backwards = b->strides[like][d] < 0 && b->dims[d] > 1;
        if (backwards && (kept || e->results.any_order)) {
            turn_round(b, d);
        }
        if (!kept && e->results.any_order) {
            put_axis(b, like, reduced, *nreduced, d);
        } else if (!kept) {
            reduced[*nreduced] = d;
        }
        *nreduced += !kept;
        if (!kept) {
            continue;
        }
        e->nouter *= b->dims[d];
        if (b->dims[d] > 1) {
            put_axis(b, like, e->kept, e->nkept++, d);
        }
    }
    if (b->k->ordered) {
        memcpy(reduced, b->order.axes, sizeof(b->order.axes));
    }
    join_kept(e, b);
}

void dyn_reduce_chunks(void (*fn)(void *, int64_t), void *ctx, int64_t nchunks, int threads) {
    if (threads > 1 && nchunks > 1) {
        dyn_par_for(fn, ctx, nchunks);
        return;
    }
    for (int64_t chunk = 0; chunk < nchunks; chunk++) {
        fn(ctx, chunk);
    }
}

int dyn_exec_reduce(DynBound *b) {
    DynReduce e = {.b = b, .nouter = 1};
    int reduced[DYN_MAX_NDIM], nreduced = 0;
    int64_t cost = dyn_exec_cost(b);
    int threads = cost < DYN_PARALLEL_COST ? 1 : dyn_par_threads();
    dyn_reduce_results(b->k, &e.results);
    split_axes(&e, b, reduced, &nreduced);
    dyn_span_make(b, reduced, nreduced, &e.span);
    e.side_by_side = e.span.mode[0] <= DYN_SPAN_SPLAT ? 1 : DYN_GATHERED_RESULTS;
    if (e.nouter == 0) {
        return 0;
    }
    if (dyn_reduce_columns(&e, threads, false) || dyn_reduce_short_axis(&e, threads) || dyn_reduce_columns(&e, threads, true)) {
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (b->k->ordered) {
        dyn_ordered_run(&e, threads);
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (threads > 1 && e.nouter >= 4 * threads) {
        int64_t per_outer = cost / e.nouter + 1;
        e.chunk = (DYN_CHUNK_COST / per_outer / e.side_by_side + 1) * e.side_by_side;
        dyn_par_for(outer_chunk, &e, (e.nouter + e.chunk - 1) / e.chunk);
        return 0;
    }
    if (threads > 1 && e.span.n >= 2 * DYN_REDUCE_CHUNK) {
        return run_inner_parallel(&e);
    }
    DynScratch scratch;
    run_outer(&e, 0, e.nouter, &scratch);
    return 0;
}
