/* exec_reduce.c: runs kernels that reduce.
 *
 * Called by run.c, and by exec.c for groups. The reduced elements of one result, in C order of the reduced axes, are cut into
 * blocks of DYN_BLOCK. In a block, element i goes to accumulator i % DYN_REDUCE_LANES; the accumulators are combined in a fixed
 * tree (lanes.c), and the blocks' partial results pairwise, like a binary counter counts. That order depends on the number of
 * elements alone: not on strides, threads or where the elements stand. Two ways to the same bits: along contiguous elements of
 * one result, or, where neighbours in memory belong to neighbouring results, a lane for each result and a set of accumulators for
 * each of them. */
#include "codegen/lanes.h"
#include <stdatomic.h>
#include <stdlib.h>

#define CHUNK (64 * DYN_BLOCK) /* reduced elements of one parallel chunk: a power of two of blocks, so that pairs stay pairs */
#define CHUNK_COST 200000      /* tenths of a nanosecond for one chunk of a parallel loop over results */
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
    char *q[2 * DYN_MAX_OPERANDS];
    memcpy(q, p, sizeof(*p) * 2 * (size_t)b->nops);
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
    char *p[2 * DYN_MAX_OPERANDS];
    const DynKernel *k = b->k;
    int64_t rest = n % LANES, whole = n - rest;
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

void dyn_reduce_run(const DynBound *b, const DynSpan *s, char *const *at, const DynResults *r, DynScratch *scratch) {
    DynPart parts[DYN_MAX_RESULTS];
    if (s->n == 0) { /* MAX and MIN never come here: eager raises, and a guard says so */
        put_results(b, at, r, r->identity);
        return;
    }
    run_part(b, s, at, 0, s->n, r, parts, scratch);
    put_results(b, at, r, parts);
}

/* ---- a kernel over its whole space */

typedef struct Reduce {
    const DynBound *b;
    DynSpan span;
    DynResults results;
    int kept[DYN_MAX_NDIM], nkept; /* axes, the one with the smallest step last */
    int64_t nouter, chunk;
    int side_by_side;
    int64_t nlines, columns; /* lanes are results: positions of the kept axes but the last, and size of the last */
    char *const *at;         /* chunks of one result: its operands, and where partial results go */
    DynPart *parts;
    int levels;         /* of partial results, where lanes are results */
    atomic_bool failed; /* memory ran out */
} Reduce;

static void place(const Reduce *e, int naxes, int64_t outer, char **at) {
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
static void run_gathered(const Reduce *e, int64_t from, int n, DynScratch *scratch) {
    char *at[COLUMNS][DYN_MAX_OPERANDS];
    Cascade c[COLUMNS][DYN_MAX_RESULTS];
    DynPart parts[DYN_MAX_RESULTS];
    const DynResults *r = &e->results;
    for (int w = 0; w < n; w++) {
        place(e, e->nkept, from + w, at[w]);
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

static void run_outer(const Reduce *e, int64_t from, int64_t to, DynScratch *scratch) {
    char *at[DYN_MAX_OPERANDS];
    while (from < to) {
        if (e->side_by_side > 1 && e->span.n > 0) {
            int n = to - from < e->side_by_side ? (int)(to - from) : e->side_by_side;
            run_gathered(e, from, n, scratch);
            from += n;
        } else {
            place(e, e->nkept, from++, at);
            dyn_reduce_run(e->b, &e->span, at, &e->results, scratch);
        }
    }
}

static void outer_chunk(void *ctx, int64_t chunk) {
    const Reduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * e->chunk, to = from + e->chunk < e->nouter ? from + e->chunk : e->nouter;
    run_outer(e, from, to, &scratch);
}

/* ---- a lane for each result */

#define STRIP_BYTES 65536 /* accumulators of the results that are made side by side */
#define STRIP_ROWS 16     /* rows at a time where no order is asked for */

/* A block of rows for LANES neighbouring results: accumulator j of each is row j of `acc`. */
static void columns_block(const Reduce *e, char *const *at, const int64_t *stride, int64_t pos, int64_t n,
                          char (*acc)[LANES][ROW_BYTES]) {
    const DynBound *b = e->b;
    const DynResults *r = &e->results;
    char *p[2 * DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        p[b->nops + i] = (char *)(intptr_t)(LANES * stride[i]);
    }
    for (int64_t row = 0; row < LANES && row < n; row++) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = at[i] + (pos + row) * stride[i];
        }
        for (int i = 0; i < r->n; i++) {
            p[r->insn[i]->a[0]] = acc[i][row];
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

static void fill_accumulators(const Reduce *e, int64_t rows, char (*acc)[LANES][ROW_BYTES]) {
    for (int i = 0; i < e->results.n; i++) {
        for (int64_t row = 0; row < rows && row < LANES; row++) {
            start_lanes(&e->results, i, acc[i][row]);
        }
    }
}

/* Groups of LANES results side by side, so that rows are read in long pieces. Group g, result i have `rows` accumulators of
 * ROW_BYTES (one for each element of a block that is alike modulo LANES; one in all where no order is asked for), and `levels` of
 * partial results. */
typedef struct Strip {
    const Reduce *e;
    int groups, rows, levels;
    char *acc, *partial;
    char *at[DYN_MAX_OPERANDS];              /* of the first group */
    int64_t column[STRIP_BYTES / ROW_BYTES]; /* of each group, behind the first's */
} Strip;

static char *strip_acc(const Strip *s, int group, int result, int row) {
    return s->acc + ((size_t)(group * s->e->results.n + result) * (size_t)s->rows + (size_t)row) * ROW_BYTES;
}

static char *strip_level(const Strip *s, int group, int result, int level) {
    return s->partial + ((size_t)(group * s->e->results.n + result) * (size_t)s->levels + (size_t)level) * ROW_BYTES;
}

/* Rows pos, pos + step … below pos + n of all groups, to accumulators `row`. */
static void strip_rows(const Strip *s, int64_t pos, int64_t n, int64_t step, int row) {
    const DynBound *b = s->e->b;
    const DynResults *r = &s->e->results;
    char *p[2 * DYN_MAX_OPERANDS];
    int last = s->e->kept[s->e->nkept - 1];
    for (int i = 0; i < b->nops; i++) {
        p[b->nops + i] = (char *)(intptr_t)(step * s->e->span.stride[i]);
    }
    for (int g = 0; g < s->groups; g++) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = s->at[i] + s->column[g] * b->strides[i][last] + pos * s->e->span.stride[i];
        }
        for (int i = 0; i < r->n; i++) {
            p[r->insn[i]->a[0]] = strip_acc(s, g, i, row);
        }
        dyn_bound_run(b, p, (n + step - 1) / step * LANES);
    }
}

static void strip_clear(const Strip *s) {
    const DynResults *r = &s->e->results;
    for (int i = 0; i < r->n; i++) {
        for (int k = 0; k < s->groups * s->rows; k++) {
            start_lanes(r, i, strip_acc(s, k / s->rows, i, k % s->rows));
        }
    }
}

/* A block's accumulators to one, in the tree's order, and that to the partial results of the blocks before, as cascade_push. */
static void strip_push(const Strip *s, int64_t n, int64_t count) {
    const DynResults *r = &s->e->results;
    for (int g = 0; g < s->groups; g++) {
        for (int i = 0; i < r->n; i++) {
            for (int w = LANES / 2; w; w /= 2) {
                for (int row = 0; row < w && row + w < n; row++) { /* the others hold the identity */
                    r->combine[i](strip_acc(s, g, i, row), strip_acc(s, g, i, row + w), LANES);
                }
            }
            char *v = strip_acc(s, g, i, 0);
            int level = 0;
            for (int64_t rest = count; rest & 1; rest >>= 1, level++) {
                r->combine[i](strip_level(s, g, i, level), v, LANES);
                v = strip_level(s, g, i, level);
            }
            memcpy(strip_level(s, g, i, level), v, ROW_BYTES);
        }
    }
}

/* As cascade_end; the results to where they belong. */
static void strip_put(const Strip *s, int64_t count) {
    const DynBound *b = s->e->b;
    const DynResults *r = &s->e->results;
    int last = s->e->kept[s->e->nkept - 1];
    for (int g = 0; g < s->groups; g++) {
        for (int i = 0; i < r->n; i++) {
            uint32_t op = r->insn[i]->a[0];
            int level = count ? __builtin_ctzll((uint64_t)count) : 0;
            char *v = count ? strip_level(s, g, i, level) : strip_acc(s, g, i, 0);
            for (int64_t rest = count >> (level + 1); rest; rest >>= 1) {
                level++;
                if (rest & 1) {
                    r->combine[i](strip_level(s, g, i, level), v, LANES);
                    v = strip_level(s, g, i, level);
                }
            }
            dyn_lanes_copy(s->at[op] + s->column[g] * b->strides[op][last], v, b->strides[op][last], b->size[op], LANES,
                           b->size[op]);
        }
    }
}

static void columns_chunk(void *ctx, int64_t chunk) {
    Reduce *e = ctx;
    Strip s = {.e = e, .rows = e->results.any_order ? 1 : e->span.n < LANES ? (int)e->span.n : LANES, .levels = e->levels};
    int64_t per_line = (e->columns + LANES - 1) / LANES, strips = (per_line + e->chunk - 1) / e->chunk;
    int64_t first = chunk % strips * e->chunk, count = 0;
    s.groups = (int)(per_line - first < e->chunk ? per_line - first : e->chunk);
    size_t bytes = (size_t)(s.groups * e->results.n) * (size_t)(s.rows + s.levels) * ROW_BYTES;
    char *memory = PyMem_RawMalloc(bytes + 64);
    if (!memory) {
        atomic_store(&e->failed, true);
        return;
    }
    s.acc = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    s.partial = strip_acc(&s, s.groups, 0, 0);
    place(e, e->nkept - 1, chunk / strips, s.at);
    for (int g = 0; g < s.groups; g++) {
        int64_t column = (first + g) * LANES;
        s.column[g] = column + LANES > e->columns ? e->columns - LANES : column; /* some results twice */
    }
    strip_clear(&s);
    int64_t block = e->results.any_order ? STRIP_ROWS : DYN_BLOCK;
    for (int64_t pos = 0; pos < e->span.n; pos += block) {
        int64_t n = e->span.n - pos < block ? e->span.n - pos : block;
        if (e->results.any_order) {
            strip_rows(&s, pos, n, 1, 0);
            continue;
        }
        if (pos) {
            strip_clear(&s);
        }
        for (int row = 0; row < s.rows && row < n; row++) {
            strip_rows(&s, pos + row, n - row, LANES, row);
        }
        strip_push(&s, n < s.rows ? n : s.rows, count++);
    }
    strip_put(&s, count);
    PyMem_RawFree(memory);
}

/* How many groups of LANES results go side by side: as many as there is room for, but not so that threads have nothing to do. */
static int64_t count_strips(Reduce *e, int threads) {
    int64_t per_line = (e->columns + LANES - 1) / LANES, blocks = (e->span.n + DYN_BLOCK - 1) / DYN_BLOCK;
    int64_t rows = e->results.any_order ? 1 : e->span.n < LANES ? e->span.n : LANES;
    int64_t groups = STRIP_BYTES / ROW_BYTES / (rows * e->results.n), fair = per_line * e->nlines / (4 * threads);
    groups = groups > 16 ? 16 : groups;
    groups = threads > 1 && fair < groups ? fair : groups;
    e->levels = e->results.any_order ? 0 : 65 - __builtin_clzll((uint64_t)blocks);
    e->chunk = groups > 0 ? groups : 1;
    return e->nlines * ((per_line + e->chunk - 1) / e->chunk);
}

/* Do lanes along the last kept axis lie side by side in every operand, with one step for the reduced elements? */
static bool has_columns(Reduce *e) {
    const DynBound *b = e->b;
    if (b->indirect || e->nkept == 0 || e->span.ndim != 1 || e->span.n < 2) {
        return false;
    }
    int last = e->kept[e->nkept - 1];
    for (int i = 0; i < b->nops; i++) {
        bool one = e->span.mode[i] == DYN_SPAN_SCALAR; /* a result, or the same element for all */
        if (!one && b->strides[i][last] != b->size[i]) {
            return false;
        }
    }
    e->columns = b->dims[last];
    e->nlines = e->columns ? e->nouter / e->columns : 0;
    bool twice = e->columns % LANES != 0; /* the last group takes some of the lanes before it too */
    return e->columns >= LANES && !(twice && b->k->in_place);
}

/* Few elements of many results: the elements are laid out lane by lane first. Lines go side by side, piece by piece: what they
 * share stays in the cache, laid out once, and the results often lie side by side. */
#define FEW 32
#define FEW_GROUPS 16
#define FEW_COLUMNS (FEW_GROUPS * LANES)
#define FEW_BYTES 65536 /* of what lines share */
#define FEW_ROOM 65536  /* of everything, on the stack: threads may have a small one */

typedef struct Few {
    const Reduce *e;
    int last;                                              /* the axis that the lanes lie along */
    int64_t pitch;                                         /* from one element of a result to the next, where they are laid */
    char *at[DYN_MAX_OPERANDS];                            /* of the line */
    bool shared[DYN_MAX_OPERANDS], same[DYN_MAX_OPERANDS]; /* between lines; between columns */
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
static size_t few_start(const Reduce *e, Few *f, char *memory) {
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
    const Reduce *e = f->e;
    const DynBound *b = e->b;
    char *lanes[DYN_MAX_OPERANDS];
    int64_t stride[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        stride[i] = f->pitch;
        lanes[i] = f->laid[i] + (f->shared[i] ? group * e->span.n * f->pitch : 0);
        if (!b->k->operands.at[i].result && !f->same[i] && !f->shared[i]) {
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

static int64_t few_pieces(const Reduce *e) { return (e->columns + FEW_COLUMNS - 1) / FEW_COLUMNS * e->nlines; }

static void few_chunk(void *ctx, int64_t chunk) {
    Reduce *e = ctx;
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
        place(e, e->nkept - 1, piece % e->nlines, f.at);
        few_lay_ahead(&f, first, end, piece == begin || piece % e->nlines == 0);
        for (int64_t column = first; column < end; column += LANES) {
            few_group(&f, (column - first) / LANES, column, end - column < LANES ? end - column : LANES);
        }
    }
    PyMem_RawFree(memory);
}

/* Lanes are laid out whatever their step is, so a short last axis changes places with the longest. */
static void take_longest(Reduce *e) {
    const DynBound *b = e->b;
    int last = e->nkept - 1, longest = last;
    for (int a = 0; a < last && b->dims[e->kept[last]] < LANES / 2; a++) {
        longest = b->dims[e->kept[a]] > b->dims[e->kept[longest]] ? a : longest;
    }
    int d = e->kept[longest];
    e->kept[longest] = e->kept[last];
    e->kept[last] = d;
}

static bool has_few(Reduce *e) {
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
    const Reduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * CHUNK, to = from + CHUNK < e->span.n ? from + CHUNK : e->span.n;
    run_part(e->b, &e->span, e->at, from, to, &e->results, e->parts + chunk * e->results.n, &scratch);
}

static int run_inner_parallel(Reduce *e) {
    char *at[DYN_MAX_OPERANDS];
    int64_t nchunks = (e->span.n + CHUNK - 1) / CHUNK;
    int n = e->results.n;
    DynPart out[DYN_MAX_RESULTS];
    e->parts = PyMem_RawMalloc(sizeof(DynPart) * (size_t)(nchunks * n));
    if (!e->parts) {
        return -1;
    }
    e->at = at;
    for (int64_t outer = 0; outer < e->nouter; outer++) {
        place(e, e->nkept, outer, at);
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

static void split_axes(Reduce *e, int *reduced, int *nreduced) {
    const DynBound *b = e->b;
    for (int d = 0; d < b->ndim; d++) {
        if (b->k->reduced >> d & 1) {
            reduced[(*nreduced)++] = d;
            continue;
        }
        e->nouter *= b->dims[d];
        if (b->dims[d] == 1) {
            continue;
        }
        int a = e->nkept++;
        for (; a > 0 && llabs(b->strides[0][e->kept[a - 1]]) < llabs(b->strides[0][d]); a--) {
            e->kept[a] = e->kept[a - 1];
        }
        e->kept[a] = d;
    }
}

static void run_chunks(Reduce *e, void (*fn)(void *, int64_t), int64_t nchunks, int threads) {
    if (threads > 1 && nchunks > 1) {
        dyn_par_for(fn, e, nchunks);
        return;
    }
    for (int64_t chunk = 0; chunk < nchunks; chunk++) {
        fn(e, chunk);
    }
}

int dyn_exec_reduce(DynBound *b) {
    Reduce e = {.b = b, .nouter = 1};
    int reduced[DYN_MAX_NDIM], nreduced = 0;
    dyn_reduce_results(b->k, &e.results);
    split_axes(&e, reduced, &nreduced);
    dyn_span_make(b, reduced, nreduced, &e.span);
    bool along = e.span.mode[0] <= DYN_SPAN_SPLAT;
    e.side_by_side = along ? 1 : COLUMNS;
    int64_t cost = dyn_exec_cost(b);
    int threads = cost < DYN_PARALLEL_COST ? 1 : dyn_par_threads();
    if (!along && has_columns(&e)) {
        run_chunks(&e, columns_chunk, count_strips(&e, threads), threads);
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (has_few(&e)) {
        e.chunk = 32768 / ((e.columns < FEW_COLUMNS ? e.columns : FEW_COLUMNS) * e.span.n) + 1;
        run_chunks(&e, few_chunk, (few_pieces(&e) + e.chunk - 1) / e.chunk, threads);
        return atomic_load(&e.failed) ? -1 : 0;
    }
    if (threads > 1 && e.nouter >= 4 * threads) {
        int64_t per_outer = cost / e.nouter + 1;
        e.chunk = (CHUNK_COST / per_outer / e.side_by_side + 1) * e.side_by_side;
        dyn_par_for(outer_chunk, &e, (e.nouter + e.chunk - 1) / e.chunk);
        return 0;
    }
    if (threads > 1 && e.span.n >= 2 * CHUNK) {
        return run_inner_parallel(&e);
    }
    DynScratch scratch;
    run_outer(&e, 0, e.nouter, &scratch);
    return 0;
}
