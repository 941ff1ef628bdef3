/* exec_reduce.c: runs kernels that reduce.
 *
 * Called by artifact.c, and by exec.c for groups. The reduced elements of one result, in C order of the reduced axes, are cut into blocks of
 * DYN_BLOCK; a kernel makes one partial result of a block, and partial results are combined pairwise like a binary counter counts. That
 * order depends on the number of elements alone: not on strides, threads or where the elements stand. */
#include "codegen/exec.h"
#include <math.h>
#include <stdlib.h>

#define CHUNK (64 * DYN_BLOCK) /* reduced elements of one parallel chunk: a power of two of blocks, so that pairs stay pairs */
#define CHUNK_COST 200000      /* tenths of a nanosecond for one chunk of a parallel loop over results */
#define COLUMNS 16             /* results made side by side where neighbours in memory belong to different results */

/* ---- combining partial results */

typedef union Part {
    double f64;
    float f32;
    uint64_t u64;
    int64_t i64;
    char bytes[8];
} Part;

#define COMBINE(T, expression)            \
    {                                     \
        T x, y;                           \
        memcpy(&x, to, sizeof(T));        \
        memcpy(&y, from, sizeof(T));      \
        x = (T)(expression);              \
        memcpy(to, &x, sizeof(T));        \
        return;                           \
    }
#define INTEGER_TYPES(X) \
    X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)
#define FLOAT_TYPES(X) X(F32, float) X(F64, double)

/* Integers wrap: sums and products in unsigned 64 bits. */
static void combine(uint16_t op, uint8_t dtype, void *to, const void *from) {
    switch (op) {
#define SUM_INTEGER(N, T) case DYN_##N: COMBINE(T, (uint64_t)x + (uint64_t)y)
#define SUM_FLOAT(N, T) case DYN_##N: COMBINE(T, x + y)
    case DYN_OP_SUM:
        switch (dtype) { INTEGER_TYPES(SUM_INTEGER) FLOAT_TYPES(SUM_FLOAT) }
        return;
#define PROD_INTEGER(N, T) case DYN_##N: COMBINE(T, (uint64_t)x * (uint64_t)y)
#define PROD_FLOAT(N, T) case DYN_##N: COMBINE(T, x * y)
    case DYN_OP_PROD:
        switch (dtype) { INTEGER_TYPES(PROD_INTEGER) FLOAT_TYPES(PROD_FLOAT) }
        return;
#define MAX_INTEGER(N, T) case DYN_##N: COMBINE(T, x > y ? x : y)
#define MAX_FLOAT(N, T) case DYN_##N: COMBINE(T, isgreater(x, y) || x != x ? x : y) /* quiet about nan */
    case DYN_OP_MAX:
        switch (dtype) { INTEGER_TYPES(MAX_INTEGER) FLOAT_TYPES(MAX_FLOAT) case DYN_BOOL: COMBINE(uint8_t, x | y) }
        return;
#define MIN_INTEGER(N, T) case DYN_##N: COMBINE(T, x < y ? x : y)
#define MIN_FLOAT(N, T) case DYN_##N: COMBINE(T, isless(x, y) || x != x ? x : y)
    case DYN_OP_MIN:
        switch (dtype) { INTEGER_TYPES(MIN_INTEGER) FLOAT_TYPES(MIN_FLOAT) case DYN_BOOL: COMBINE(uint8_t, x & y) }
        return;
    case DYN_OP_ANY:
        COMBINE(uint8_t, x | y)
    case DYN_OP_ALL:
        COMBINE(uint8_t, x & y)
    default:
        return;
    }
}

/* Of no elements at all. MAX and MIN never come here: eager raises, and a guard says so. */
static void put_empty(uint16_t op, uint8_t dtype, char *to) {
    Part one = {.u64 = 0};
    if (op == DYN_OP_PROD || op == DYN_OP_ALL) {
        switch (dtype) {
        case DYN_F64:
            one.f64 = 1;
            break;
        case DYN_F32:
            one.f32 = 1;
            break;
        default:
            one.u64 = 1;
        }
    }
    memcpy(to, &one, dyn_dtypes[dtype].size);
}

typedef struct Cascade {
    uint64_t count; /* bit k: level k is taken */
    Part level[64];
} Cascade;

static void cascade_push(Cascade *c, const DynInsn *r, Part v) {
    int level = 0;
    uint64_t count = c->count++;
    for (; count & 1; count >>= 1, level++) {
        Part sum = c->level[level];
        if (r->op == DYN_OP_SUM && r->compute == DYN_F64) {
            sum.f64 += v.f64;
        } else {
            combine(r->op, r->compute, &sum, &v);
        }
        v = sum;
    }
    c->level[level] = v;
}

static Part cascade_end(const Cascade *c, const DynInsn *r) {
    int level = __builtin_ctzll(c->count);
    Part v = c->level[level];
    for (uint64_t rest = c->count >> (level + 1); rest; rest >>= 1) {
        level++;
        if (rest & 1) {
            Part sum = c->level[level];
            combine(r->op, r->compute, &sum, &v);
            v = sum;
        }
    }
    return v;
}

/* ---- blocks */

typedef struct Results {
    const DynInsn *insn[DYN_MAX_RESULTS];
    int n;
    uint32_t operands; /* bit i: operand i is a result, not a store */
} Results;

static void find_results(const DynKernel *k, Results *r) {
    r->n = 0;
    r->operands = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (k->insns.at[i].kind == DYN_L_REDUCE) {
            r->operands |= 1u << k->insns.at[i].a[0];
            r->insn[r->n++] = &k->insns.at[i];
        }
    }
}

/* One block: partial results to `parts`, values that the kernel stores to where they belong. */
static void run_block(const DynBound *b, const DynSpan *s, char *const *at, int64_t pos, int64_t n, bool first, const Results *r,
                      Part *parts, DynScratch *scratch) {
    char *p[2 * DYN_MAX_OPERANDS], **tail = p + b->nops;
    const DynKernel *k = b->k;
    int64_t rest = n % DYN_REDUCE_LANES, whole = n - rest, full = whole + (rest ? DYN_REDUCE_LANES : 0);
    for (int i = 0; i < b->nops; i++) {
        uint8_t size = b->size[i];
        bool out = k->operands.at[i].out;
        if (s->mode[i] == DYN_SPAN_DIRECT) {
            p[i] = at[i] + pos * size;
            tail[i] = scratch->tail[i];
            if (rest && !out) {
                memcpy(tail[i], p[i] + whole * size, (size_t)(rest * size));
                dyn_lanes_pad(tail[i], size, rest, DYN_REDUCE_LANES);
            }
            continue;
        }
        p[i] = scratch->lanes[i];
        tail[i] = p[i] + whole * size;
        if (!out && (first || s->mode[i] != DYN_SPAN_SPLAT)) {
            dyn_span_gather(b, s, i, at[i], pos, n, p[i]);
            dyn_lanes_pad(p[i], size, n, full);
        }
    }
    for (int i = 0; i < r->n; i++) {
        p[r->insn[i]->a[0]] = parts[i].bytes;
    }
    b->fn(p, n, b->params);
    for (int i = 0; i < b->nops; i++) {
        if (!k->operands.at[i].out || (r->operands >> i & 1)) {
            continue;
        }
        if (s->mode[i] != DYN_SPAN_DIRECT) {
            dyn_span_scatter(b, s, i, at[i], pos, n, p[i]);
        } else if (rest) {
            memcpy(p[i] + whole * b->size[i], tail[i], (size_t)(rest * b->size[i]));
        }
    }
}

/* Elements from … to of a span, to one partial result for each result. */
static void run_part(const DynBound *b, const DynSpan *s, char *const *at, int64_t from, int64_t to, const Results *r, Part *parts,
                     DynScratch *scratch) {
    Cascade c[DYN_MAX_RESULTS];
    if (to - from <= DYN_BLOCK) {
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

static void put_results(const DynBound *b, char *const *at, const Results *r, const Part *parts) {
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        memcpy(at[op], parts[i].bytes, b->size[op]);
    }
}

static void put_all_empty(char *const *at, const Results *r) {
    for (int i = 0; i < r->n; i++) {
        put_empty(r->insn[i]->op, r->insn[i]->dtype, at[r->insn[i]->a[0]]);
    }
}

void dyn_reduce_run(const DynBound *b, const DynSpan *s, char *const *at, DynScratch *scratch) {
    Results r;
    Part parts[DYN_MAX_RESULTS];
    find_results(b->k, &r);
    if (s->n == 0) {
        put_all_empty(at, &r);
        return;
    }
    run_part(b, s, at, 0, s->n, &r, parts, scratch);
    put_results(b, at, &r, parts);
}

/* ---- a kernel over its whole space */

typedef struct Reduce {
    const DynBound *b;
    DynSpan span;
    Results results;
    int kept[DYN_MAX_NDIM], nkept; /* axes, the one with the smallest step last */
    int64_t nouter, chunk;
    int side_by_side;
    char *const *at; /* chunks of one result: its operands, and where partial results go */
    Part *parts;
} Reduce;

static void place(const Reduce *e, int64_t outer, char **at) {
    const DynBound *b = e->b;
    memcpy(at, b->base, sizeof(*at) * (size_t)b->nops);
    for (int a = e->nkept; a-- > 0;) {
        int d = e->kept[a];
        int64_t index = outer % b->dims[d];
        outer /= b->dims[d];
        for (int i = 0; i < b->nops; i++) {
            at[i] += index * b->strides[i][d];
        }
    }
}

/* Some results at once, block by block, so that what one block's cache lines hold of the others is used. */
static void run_columns(const Reduce *e, int64_t from, int n, DynScratch *scratch) {
    char *at[COLUMNS][DYN_MAX_OPERANDS];
    Cascade c[COLUMNS][DYN_MAX_RESULTS];
    Part parts[DYN_MAX_RESULTS];
    const Results *r = &e->results;
    for (int w = 0; w < n; w++) {
        place(e, from + w, at[w]);
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
            run_columns(e, from, n, scratch);
            from += n;
        } else {
            place(e, from++, at);
            dyn_reduce_run(e->b, &e->span, at, scratch);
        }
    }
}

static void outer_chunk(void *ctx, int64_t chunk) {
    const Reduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * e->chunk, to = from + e->chunk < e->nouter ? from + e->chunk : e->nouter;
    run_outer(e, from, to, &scratch);
}

static void inner_chunk(void *ctx, int64_t chunk) {
    const Reduce *e = ctx;
    DynScratch scratch;
    int64_t from = chunk * CHUNK, to = from + CHUNK < e->span.n ? from + CHUNK : e->span.n;
    run_part(e->b, &e->span, e->at, from, to, &e->results, e->parts + chunk * e->results.n, &scratch);
}

/* One result after the other, each by all threads. */
static int run_inner_parallel(Reduce *e) {
    char *at[DYN_MAX_OPERANDS];
    int64_t nchunks = (e->span.n + CHUNK - 1) / CHUNK;
    int n = e->results.n;
    Part out[DYN_MAX_RESULTS];
    e->parts = PyMem_RawMalloc(sizeof(Part) * (size_t)(nchunks * n));
    if (!e->parts) {
        return -1;
    }
    e->at = at;
    for (int64_t outer = 0; outer < e->nouter; outer++) {
        place(e, outer, at);
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
        int a = e->nkept++;
        e->nouter *= b->dims[d];
        for (; a > 0 && llabs(b->strides[0][e->kept[a - 1]]) < llabs(b->strides[0][d]); a--) {
            e->kept[a] = e->kept[a - 1];
        }
        e->kept[a] = d;
    }
}

int dyn_exec_reduce(DynBound *b) {
    Reduce e = {.b = b, .nouter = 1};
    int reduced[DYN_MAX_NDIM], nreduced = 0;
    find_results(b->k, &e.results);
    split_axes(&e, reduced, &nreduced);
    dyn_span_make(b, reduced, nreduced, &e.span);
    e.side_by_side = e.span.mode[0] == DYN_SPAN_DIRECT || e.span.mode[0] == DYN_SPAN_SPLAT ? 1 : COLUMNS;
    int64_t cost = dyn_exec_cost(b);
    int threads = cost < DYN_PARALLEL_COST ? 1 : dyn_par_threads();
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
