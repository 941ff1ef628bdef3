/* exec_reduce.c: runs kernels that reduce.
 *
 * Called by run.c, and by exec.c for groups. The reduced elements of one result, in C order of the reduced axes, are cut into
 * blocks of DYN_BLOCK. In a block, element i goes to accumulator i % DYN_REDUCE_LANES; the accumulators are combined in a fixed
 * tree (lanes.c), and the blocks' partial results pairwise, like a binary counter counts. That order depends on the number of
 * elements alone: not on strides, threads or where the elements stand. Two ways to the same bits: along contiguous elements of
 * one result, or, where neighbours in memory belong to neighbouring results, a lane for each result and a set of accumulators for
 * each of them. */
#include "codegen/lanes.h"
#include <stdlib.h>

#define LANES DYN_REDUCE_LANES
#define ROW_BYTES (LANES * DYN_MAX_SIZE) /* room for lanes of any type */
#define COLUMNS 16                       /* results made side by side when elements are gathered */

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

/* The last lanes, fewer than a group: padded copies, of which only the valid ones count. */
static void run_rest(const DynBound *b, const DynSpan *s, char **p, char *const *at, int64_t pos, int64_t n, const DynResults *r,
                     Accumulators *whole, DynScratch *scratch) {
    Accumulators acc;
    char *q[DYN_MAX_POINTERS];
    memcpy(q, p, sizeof(*p) * (2 * (size_t)b->nops + DYN_REDUCE_TAIL));
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
    dyn_bound_run(b, q, LANES);
    for (int i = 0; i < r->n; i++) {
        r->combine[i](whole->lanes[i], acc.lanes[i], (int)n);
    }
    for (int i = 0; i < b->nops; i++) {
        if (b->k->operands.at[i].out && s->mode[i] == DYN_SPAN_DIRECT && !b->k->operands.at[i].result) {
            memcpy(at[i] + pos * b->size[i], q[i], (size_t)(n * b->size[i]));
        }
    }
}

/* One block: partial results to `parts`, values that the kernel stores to where they belong. */
static void run_block(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool first,
                      const DynResults *r, DynPart *parts, DynScratch *scratch) {
    Accumulators acc;
    char *p[DYN_MAX_POINTERS];
    const DynKernel *k = b->k;
    int64_t rest = n % LANES, whole = n - rest;
    dyn_bound_tail(p, b->nops, 1, 0, 0);
    for (int i = 0; i < b->nops; i++) {
        uint8_t size = b->size[i];
        if (s->mode[i] == DYN_SPAN_SCALAR) {
            p[i] = at[i];
            p[b->nops + i] = NULL;
            continue;
        }
        p[b->nops + i] = (char *)(intptr_t)(LANES * size);
        p[i] = s->mode[i] == DYN_SPAN_DIRECT ? at[i] + pos * size : scratch->lanes[i];
        if (s->mode[i] != DYN_SPAN_DIRECT && !k->operands.at[i].out && (first || s->mode[i] != DYN_SPAN_SPLAT)) {
            dyn_span_gather(b, s, i, at, pos, n, p[i]);
            dyn_lanes_pad(p[i], size, n, whole + (rest ? LANES : 0));
        }
    }
    set_identity(r, &acc, p);
    if (whole) {
        dyn_bound_run(b, p, whole);
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

/* The same by native code from beginning to end. */
static void run_whole(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t n, const DynResults *r,
                      DynPart *parts) {
    char *p[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        p[i] = at[i] + (s->mode[i] == DYN_SPAN_SCALAR ? 0 : from * b->size[i]);
    }
    for (int i = 0; i < r->n; i++) {
        parts[i] = r->identity[i];
        p[r->insn[i]->a[0]] = (char *)&parts[i];
    }
    b->one(p, n, b->params);
}

/* Elements from … to of a span, to one partial result for each result. */
static void run_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, const DynResults *r,
                     DynPart *parts, DynScratch *scratch) {
    Cascade c[DYN_MAX_RESULTS];
    char *now[DYN_MAX_OPERANDS];
    at = s->looked_up ? dyn_span_look_up(b, s, at, now) : at;
    if (s->direct && b->one != NULL) {
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

static void put_results(const DynBound *b, char *const *at, const DynResults *r, const DynPart *parts) {
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        memcpy(at[op], &parts[i], b->size[op]);
    }
}

/* A copy of a size that isn't known would be a call. */
static inline void put_part(char *to, const DynPart *v, uint8_t size) {
    switch (size) {
    case 8: memcpy(to, v, 8); break;
    case 4: memcpy(to, v, 4); break;
    case 16: memcpy(to, v, 16); break;
    case 2: memcpy(to, v, 2); break;
    default: memcpy(to, v, 1);
    }
}

/* By native code from beginning to end, as run_whole. */
static void run_whole_rows(const DynBound *b, int64_t n, char *const *at, const int64_t *step, int64_t rows,
                           const DynResults *r) {
    DynPart parts[DYN_MAX_RESULTS];
    char *p[DYN_MAX_OPERANDS], *to[DYN_MAX_RESULTS];
    memcpy(p, at, sizeof(*p) * (size_t)b->nops);
    for (int i = 0; i < r->n; i++) {
        to[i] = at[r->insn[i]->a[0]];
    }
    for (int64_t row = 0; row < rows; row++) {
        for (int i = 0; i < r->n; i++) {
            parts[i] = r->identity[i];
            p[r->insn[i]->a[0]] = (char *)&parts[i];
        }
        b->one(p, n, b->params);
        for (int i = 0; i < b->nops; i++) {
            p[i] += step[i];
        }
        for (int i = 0; i < r->n; i++) {
            put_part(to[i], &parts[i], (uint8_t)(r->bytes[i] / LANES));
            to[i] += step[r->insn[i]->a[0]];
        }
    }
}

void dyn_reduce_rows(const DynBound *b, const DynSpan *s, char *const *from, const int64_t *step, int64_t rows,
                     const DynResults *r, DynScratch *scratch) {
    DynPart parts[DYN_MAX_RESULTS];
    char *at[DYN_MAX_OPERANDS];
    if (s->direct && !s->looked_up && b->one != NULL && s->n > 0) {
        run_whole_rows(b, s->n, from, step, rows, r);
        return;
    }
    memcpy(at, from, sizeof(*at) * (size_t)b->nops);
    for (int64_t row = 0; row < rows; row++) {
        if (s->n > 0) {
            run_part(b, s, at, 0, s->n, r, parts, scratch);
        }
        put_results(b, at, r, s->n > 0 ? parts : r->identity); /* MAX and MIN of nothing never come here: a guard says so */
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
    char *at[COLUMNS][DYN_MAX_OPERANDS];
    Cascade c[COLUMNS][DYN_MAX_RESULTS];
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
        put_results(e->b, at[w], r, parts);
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
        if (e->side_by_side > 1 && e->span.n > 0) {
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

/* ---- a lane for each result */

/* A block of rows for LANES neighbouring results: accumulator j of each is row j of `acc`. */
static void columns_block(const DynReduce *e, char *const *at, const int64_t *stride, int64_t pos, int64_t n,
                          char (*acc)[LANES][ROW_BYTES]) {
    const DynBound *b = e->b;
    const DynResults *r = &e->results;
    char *p[DYN_MAX_POINTERS];
    for (int i = 0; i < b->nops; i++) {
        p[b->nops + i] = (char *)(intptr_t)(LANES * stride[i]);
    }
    dyn_bound_tail(p, b->nops, 1, 0, 0);
    for (int64_t row = 0; row < LANES && row < n; row++) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = at[i] + (pos + row) * stride[i];
        }
        for (int i = 0; i < r->n; i++) {
            p[r->insn[i]->a[0]] = acc[i][row];
            p[b->nops + (int)r->insn[i]->a[0]] = NULL;
        }
        dyn_bound_run(b, p, (n - row + LANES - 1) / LANES * LANES);
    }
    for (int i = 0; i < r->n; i++) {
        for (int w = LANES / 2; w; w /= 2) {
            for (int row = 0; row < w && row + w < n; row++) { /* the others hold the identity */
                r->combine[i](acc[i][row], acc[i][row + w], LANES);
            }
        }
    }
}

static void fill_accumulators(const DynReduce *e, int64_t rows, char (*acc)[LANES][ROW_BYTES]) {
    for (int i = 0; i < e->results.n; i++) {
        for (int64_t row = 0; row < rows && row < LANES; row++) {
            start_lanes(&e->results, i, acc[i][row]);
        }
    }
}

/* Few elements of many results: the elements are laid out lane by lane first. Lines go side by side, piece by piece: what they
 * share stays in the cache, laid out once, and the results often lie side by side. */
#define FEW 32
#define FEW_GROUPS 16
#define FEW_COLUMNS (FEW_GROUPS * LANES)
#define FEW_BYTES 65536 /* of what lines share */
#define FEW_ROOM 65536  /* of everything, on the stack: threads may have a small one */

typedef struct Few {
    const DynReduce *e;
    int last;                                              /* the axis that the lanes lie along */
    int64_t pitch;                                         /* from one element of a result to the next, where they are laid */
    char *at[DYN_MAX_OPERANDS];                            /* of the line */
    bool shared[DYN_MAX_OPERANDS], same[DYN_MAX_OPERANDS]; /* between lines; between columns */
    bool loaded[DYN_MAX_OPERANDS];                         /* no result, nor an index alone */
    char *laid[DYN_MAX_OPERANDS];                          /* shared: group after group */
    char (*acc)[LANES][ROW_BYTES];
} Few;

/* Is the operand the same all along an axis? */
static bool stands(const DynBound *b, int op, int axis) {
    const DynOperand *o = &b->k->operands.at[op];
    return b->strides[op][axis] == 0 && (!o->indirect || b->strides[o->by][axis] == 0);
}

/* Which operands are the same in all lines, and have room for all groups of a piece. Places in `memory` (NULL: not yet); the
 * bytes that they take. */
static size_t few_start(const DynReduce *e, Few *f, char *memory) {
    const DynBound *b = e->b;
    size_t shared = 0, used = (size_t)e->results.n * sizeof(f->acc[0]);
    f->e = e;
    f->acc = (void *)memory;
    f->last = e->kept[e->nkept - 1];
    f->pitch = ROW_BYTES;
    for (int i = 0; i < b->nops; i++) {
        bool fixed = e->nlines > 1;
        for (int a = 0; a < e->nkept - 1; a++) {
            fixed = fixed && stands(b, i, e->kept[a]);
        }
        size_t bytes = (size_t)e->span.n * ROW_BYTES;
        f->same[i] = stands(b, i, f->last);
        f->loaded[i] = dyn_kernel_is_loaded(b->k, (uint32_t)i);
        f->shared[i] = fixed && !f->same[i] && !b->k->operands.at[i].result && shared + bytes * FEW_GROUPS <= FEW_BYTES;
        bytes *= f->shared[i] ? FEW_GROUPS : 1;
        shared += f->shared[i] ? bytes : 0;
        f->laid[i] = memory == NULL ? NULL : memory + used;
        used += b->k->operands.at[i].result ? 0 : bytes;
    }
    return used;
}

static void few_lay(const Few *f, int op, int64_t column, int64_t n, char *to) {
    const DynBound *b = f->e->b;
    int64_t stride = b->strides[op][f->last];
    const DynSpan *s = &f->e->span;
    uint8_t size = b->size[op], by = (uint8_t)b->k->operands.at[op].by;
    if (b->k->operands.at[op].indirect) {
        int64_t strides[2] = {stride, s->strides[op][0]}, index[2] = {b->strides[by][f->last], s->strides[by][0]};
        dyn_block_take(b, op, f->at[op] + column * stride, strides, f->at[by] + column * index[0], index, n, s->n, to, f->pitch);
        return;
    }
    for (int64_t k = 0; k < s->n; k++, to += f->pitch) {
        dyn_lanes_copy(to, f->at[op] + column * stride + k * s->stride[op], size, stride, n, size);
        dyn_lanes_pad(to, size, n, LANES);
    }
}

/* What a line, or the first line of a piece, needs before its groups. */
static void few_lay_ahead(const Few *f, int64_t first, int64_t end, bool new_piece) {
    for (int i = 0; i < f->e->b->nops; i++) {
        if (f->e->b->k->operands.at[i].result) {
            continue;
        }
        if (f->same[i]) {
            few_lay(f, i, 0, LANES, f->laid[i]);
        }
        for (int64_t column = first; f->shared[i] && new_piece && column < end; column += LANES) {
            int64_t n = end - column < LANES ? end - column : LANES;
            few_lay(f, i, column, n, f->laid[i] + (column - first) / LANES * f->e->span.n * f->pitch);
        }
    }
}

static void few_group(const Few *f, int64_t group, int64_t column, int64_t n) {
    const DynReduce *e = f->e;
    const DynBound *b = e->b;
    char *lanes[DYN_MAX_OPERANDS];
    int64_t stride[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        stride[i] = f->pitch;
        lanes[i] = f->laid[i] + (f->shared[i] ? group * e->span.n * f->pitch : 0);
        if (!f->same[i] && !f->shared[i] && f->loaded[i]) {
            few_lay(f, i, column, n, lanes[i]);
        }
    }
    fill_accumulators(e, e->span.n, f->acc);
    columns_block(e, lanes, stride, 0, e->span.n, f->acc);
    for (int i = 0; i < e->results.n; i++) {
        uint32_t op = e->results.insn[i]->a[0];
        int64_t step = b->strides[op][f->last];
        dyn_lanes_copy(f->at[op] + column * step, f->acc[i][0], step, b->size[op], n, b->size[op]);
    }
}

static int64_t few_pieces(const DynReduce *e) { return (e->columns + FEW_COLUMNS - 1) / FEW_COLUMNS * e->nlines; }

static void few_chunk(void *ctx, int64_t chunk) {
    DynReduce *e = ctx;
    _Alignas(64) char room[FEW_ROOM];
    Few f;
    size_t bytes = few_start(e, &f, NULL);
    char *memory = bytes <= sizeof(room) ? NULL : PyMem_RawMalloc(bytes + 64);
    if (memory == NULL && bytes > sizeof(room)) {
        atomic_store(&e->failed, true);
        return;
    }
    few_start(e, &f, memory == NULL ? room : (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63));
    int64_t pieces = few_pieces(e), begin = chunk * e->chunk;
    for (int64_t piece = begin; piece < begin + e->chunk && piece < pieces; piece++) {
        int64_t first = piece / e->nlines * FEW_COLUMNS,
                end = first + FEW_COLUMNS < e->columns ? first + FEW_COLUMNS : e->columns;
        dyn_reduce_place(e, e->nkept - 1, piece % e->nlines, f.at);
        few_lay_ahead(&f, first, end, piece == begin || piece % e->nlines == 0);
        for (int64_t column = first; column < end; column += LANES) {
            few_group(&f, (column - first) / LANES, column, end - column < LANES ? end - column : LANES);
        }
    }
    PyMem_RawFree(memory);
}

/* Lanes are laid out whatever their step is, so a short last axis changes places with the longest. */
static void take_longest(DynReduce *e) {
    const DynBound *b = e->b;
    int last = e->nkept - 1, longest = last;
    for (int a = 0; a < last && b->dims[e->kept[last]] < LANES / 2; a++) {
        longest = b->dims[e->kept[a]] > b->dims[e->kept[longest]] ? a : longest;
    }
    int d = e->kept[longest];
    e->kept[longest] = e->kept[last];
    e->kept[last] = d;
}

static bool has_few(DynReduce *e) {
    const DynBound *b = e->b;
    if (e->nkept == 0 || e->span.ndim != 1 || e->span.n < 1 || e->span.n > FEW) {
        return false;
    }
    for (int i = 0; i < b->nops; i++) {
        if (b->k->operands.at[i].out && !b->k->operands.at[i].result) {
            return false; /* it stores the elements too */
        }
    }
    take_longest(e);
    e->columns = b->dims[e->kept[e->nkept - 1]];
    e->nlines = e->columns ? e->nouter / e->columns : 0;
    return e->columns >= LANES / 2;
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
        put_results(e->b, at, &e->results, out);
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

/* Results may be made in any order: what is walked backwards is turned round. */
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

static void split_axes(DynReduce *e, DynBound *b, int *reduced, int *nreduced) {
    int like = find_reference(b);
    for (int d = 0; d < b->ndim; d++) {
        if (b->k->reduced >> d & 1) {
            reduced[(*nreduced)++] = d;
            continue;
        }
        e->nouter *= b->dims[d];
        if (b->dims[d] == 1) {
            continue;
        }
        if (b->strides[like][d] < 0) {
            turn_round(b, d);
        }
        int a = e->nkept++;
        for (; a > 0 && b->strides[like][e->kept[a - 1]] < b->strides[like][d]; a--) {
            e->kept[a] = e->kept[a - 1];
        }
        e->kept[a] = d;
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
    e.side_by_side = e.span.mode[0] <= DYN_SPAN_SPLAT ? 1 : COLUMNS;
    if (e.nouter == 0) {
        return 0;
    }
    if (dyn_reduce_columns(&e, threads, false)) {
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (has_few(&e)) {
        e.chunk = 32768 / ((e.columns < FEW_COLUMNS ? e.columns : FEW_COLUMNS) * e.span.n) + 1;
        dyn_reduce_chunks(few_chunk, &e, (few_pieces(&e) + e.chunk - 1) / e.chunk, threads);
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (dyn_reduce_columns(&e, threads, true)) {
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (threads > 1 && e.nouter >= 4 * threads) {
        int64_t per_outer = cost / e.nouter + 1;
        e.chunk = (DYN_REDUCE_COST / per_outer / e.side_by_side + 1) * e.side_by_side;
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
