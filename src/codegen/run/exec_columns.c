/* exec_columns.c: reductions where neighbours in memory belong to neighbouring results: a lane for each result.
 *
 * Called by exec_reduce.c, and gives the bits of its order: element i of a block goes to accumulator i % DYN_REDUCE_LANES, and
 * accumulators are combined in a tree. Here the tree is walked depth first: an accumulator is begun when it is needed and is used
 * up at once, so that one for each level of the tree is enough. Results are made in strips so wide that those stay in the
 * first-level cache, and memory is read in long pieces of rows.
 *
 * Lines of fewer than DYN_REDUCE_LANES results have all accumulators side by side instead: DYN_REDUCE_LANES rows are one. What
 * doesn't lie side by side is laid out before each row. Where rows are to be added in turn, they are. */
#include "codegen/run/builtin.h"
#include "codegen/run/lanes.h"
#include <stdlib.h>

#define LANES DYN_REDUCE_LANES
#define TREE 6 /* accumulators that live at one time: the depth of a tree of LANES, and one */

/* The tree of a block's accumulators. */
typedef struct Tree {
    DynOrderStep at[LANES];
    int n; /* The number of steps. */
} Tree;

typedef struct Columns {
    DynReduce *e;
    int last;      /* the axis that the lanes lie along */
    bool flat;     /* LANES rows side by side */
    bool native;   /* there is native code, which combines accumulators too */
    bool laid_any; /* one row at a time */
    bool walked[DYN_MAX_OPERANDS], laid[DYN_MAX_OPERANDS];
    bool still[DYN_MAX_OPERANDS]; /* flat: the same in all rows, and laid out once */
    int64_t n, nlines;            /* results of a line */
    int64_t per_strip, strips;    /* groups of a strip; of a line */
    int64_t per_part, nparts;     /* reduced elements of one unit; units of a strip: 1, or partial results are kept */
    int levels;
    size_t size[DYN_MAX_RESULTS];
    size_t lane, laid_lane, still_lane; /* bytes of a lane of all results; of all that is laid out */
    char *parts;
    Tree whole, last_block; /* of blocks of DYN_BLOCK rows, and of the rest */
} Columns;

/* Results that are made at one time, and their memory. */
typedef struct Strip {
    const Columns *c;
    int64_t first, count;  /* which of the line's results */
    int64_t groups, lanes; /* of an accumulator */
    int64_t back;          /* lanes by which the last group lies before its place: in part they are the ones before too */
    char *at[DYN_MAX_OPERANDS];
    char *acc, *level, *laid, *still[DYN_MAX_OPERANDS];
    size_t acc_bytes, level_bytes;
} Strip;

static char *acc_at(const Strip *s, int slot, int result) {
    char *at = s->acc + (size_t)slot * s->acc_bytes;
    for (int i = 0; i < result; i++) {
        at += (size_t)s->lanes * s->c->size[i] + DYN_BUFFERS_APART;
    }
    return at;
}

/* Partial results of the blocks: as many lanes as there are results. */
static int64_t level_lanes(const Strip *s) { return s->c->flat ? s->c->n : s->lanes; }
static char *level_at(const Strip *s, char *levels, int64_t level, int result) {
    char *at = levels + (size_t)level * s->level_bytes;
    for (int i = 0; i < result; i++) {
        at += (size_t)level_lanes(s) * s->c->size[i];
    }
    return at;
}

/* Before anything was added, and one combined with another: native code does both while it adds rows. */
static void start(const Strip *s, int slot) {
    const DynResults *r = &s->c->e->results;
    for (int i = 0; i < r->n; i++) {
        dyn_lanes_copy(acc_at(s, slot, i), r->start[i], (int64_t)s->c->size[i], 0, s->lanes, (uint8_t)s->c->size[i]);
    }
}

static void combine(const Strip *s, int to, int from) {
    const DynResults *r = &s->c->e->results;
    for (int i = 0; i < r->n; i++) {
        if (!dyn_builtin_combine(r->insn[i], acc_at(s, to, i), acc_at(s, from, i), s->lanes)) {
            r->combine[i](acc_at(s, to, i), acc_at(s, from, i), (int)s->lanes);
        }
    }
}

/* The same by native code: as many rows as none. */
static void join(const Strip *s, int to, int from) {
    const DynBound *b = s->c->e->b;
    const DynResults *r = &s->c->e->results;
    char *p[DYN_MAX_OPERANDS];
    const char *begin[DYN_MAX_OPERANDS];
    static const int64_t row_step[DYN_MAX_OPERANDS];
    if (!s->c->native) {
        combine(s, to, from);
        return;
    }
    memcpy(p, s->at, sizeof(*p) * (size_t)b->nops);
    for (int i = 0; i < r->n; i++) {
        p[r->insn[i]->a[0]] = acc_at(s, to, i);
        begin[r->insn[i]->a[0]] = acc_at(s, from, i);
    }
    b->native->columns(&(DynColumnsArgs){.operands = p,
                                         .row_step = row_step,
                                         .start = begin,
                                         .groups = s->groups,
                                         .back = s->back,
                                         .start_by_lane = 1,
                                         .combine = 1,
                                         .scalars = b->params});
}

/* ---- rows */

static void find_row(const Columns *c, int64_t row, int op, char **at) {
    const DynSpan *span = &c->e->span;
    if (span->ndim == 1) {
        *at += row * span->strides[op][0];
        return;
    }
    for (int d = span->ndim; d-- > 0; row /= span->dims[d]) {
        *at += row % span->dims[d] * span->strides[op][d];
    }
}

/* Rows row … row + n of an operand, lane by lane to `to`. */
static void lay_rows(const Strip *s, int op, int64_t row, int64_t n, char *to) {
    const Columns *c = s->c;
    uint8_t size = c->e->b->size[op];
    int64_t stride = c->e->b->strides[op][c->last], lead = c->flat || s->groups > 1 ? 0 : s->back;
    for (int64_t k = 0; k < n; k++) {
        char *from = s->at[op];
        find_row(c, row + k, op, &from);
        dyn_lanes_copy(to + (k * c->n - lead) * size, from - lead * stride, size, stride, s->count + lead, size);
    }
}

/* What has to be laid out of a row (all: everything), and where it is. */
static void lay(const Strip *s, int64_t row, int64_t n, bool all, char **laid) {
    const DynBound *b = s->c->e->b;
    char *to = s->laid;
    for (int i = 0; i < b->nops; i++) {
        laid[i] = NULL;
        if (s->c->laid[i] || (all && s->c->walked[i])) {
            to += LANES * b->size[i]; /* room in front for a group that lies before its place */
            lay_rows(s, i, row, n, to);
            laid[i] = to;
            to += s->lanes * b->size[i] + DYN_BUFFERS_APART;
        }
    }
}

static void lay_still(Strip *s, char *to) {
    for (int i = 0; i < s->c->e->b->nops; i++) {
        if (s->c->still[i]) {
            lay_rows(s, i, 0, LANES, to);
            s->still[i] = to;
            to += s->lanes * s->c->e->b->size[i] + DYN_BUFFERS_APART;
        }
    }
}

typedef enum Begin { GO_ON, ANEW, INTO } Begin; /* INTO: anew, and combined with what accumulators held */

/* n rows from `row` on, `step` apart, to an accumulator; those that are laid out lie in `laid`. */
static void run_rows(const Strip *s, char *const *laid, int64_t row, int64_t n, int64_t step, int slot, Begin begin) {
    const Columns *c = s->c;
    const DynBound *b = c->e->b;
    const DynResults *r = &c->e->results;
    char *p[DYN_MAX_OPERANDS];
    const char *from[DYN_MAX_OPERANDS];
    int64_t row_step[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        p[i] = s->at[i];
        row_step[i] = step * c->e->span.stride[i];
        if (laid != NULL && laid[i] != NULL) {
            p[i] = laid[i];
        } else if (c->still[i]) {
            p[i] = s->still[i];
        } else if (c->walked[i]) {
            find_row(c, row, i, &p[i]);
        }
    }
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        p[op] = acc_at(s, slot, i);
        from[op] = begin == GO_ON ? NULL : r->start[i];
    }
    DynColumnsArgs args = {.operands = p,
                           .row_step = row_step,
                           .start = from,
                           .n = n * LANES,
                           .groups = s->groups,
                           .back = s->back,
                           .combine = begin == INTO,
                           .scalars = b->params};
    dyn_bound_columns(b, &args);
}

static void add_rows(const Strip *s, int64_t row, int64_t n, int64_t step, int slot, Begin begin) {
    char *laid[DYN_MAX_OPERANDS];
    bool by_blocks = !s->c->native || (s->c->laid_any && n > 1);
    bool later = begin == INTO && by_blocks;
    int to = slot + later;
    begin = later ? ANEW : begin;
    if (begin == ANEW && !s->c->native) {
        start(s, to);
    }
    if (!s->c->laid_any) {
        run_rows(s, NULL, row, n, step, to, begin);
    }
    for (int64_t k = 0; k < n && s->c->laid_any; k++) {
        lay(s, row + k * step, s->c->flat ? LANES : 1, false, laid);
        run_rows(s, laid, row + k * step, 1, step, to, k == 0 ? begin : GO_ON);
    }
    if (later) {
        combine(s, slot, to);
    }
}

/* ---- blocks of rows */

/* A block of n rows by single rows, in the order of its tree: `held` accumulators hold something, and a row that is combined at
 * once with the topmost of them goes into that. */
static void run_tree(const Strip *s, const Tree *tree, int64_t pos, int64_t n) {
    int held = 0;
    for (const DynOrderStep *o = tree->at; o < tree->at + tree->n; o++) {
        int64_t rows = (n - o->element + LANES - 1) / LANES;
        bool into = o->joins > 0;
        add_rows(s, pos + o->element, rows, LANES, held - into, into ? INTO : ANEW);
        held += !into;
        for (int joins = o->joins; joins > 1; joins--) {
            held--;
            join(s, held - 1, held);
        }
    }
}

/* The last rows, fewer than LANES of them: padded copies, of which only the valid ones count. */
static void flat_rest(const Strip *s, int64_t row, int64_t n) {
    const DynBound *b = s->c->e->b;
    const DynResults *r = &s->c->e->results;
    char *laid[DYN_MAX_OPERANDS];
    lay(s, row, n, true, laid);
    for (int i = 0; i < b->nops; i++) {
        if (laid[i] != NULL) {
            dyn_lanes_pad(laid[i], b->size[i], n * s->c->n, s->lanes);
        }
    }
    if (!s->c->native) {
        start(s, 1);
    }
    run_rows(s, laid, row, 1, 0, 1, ANEW);
    for (int i = 0; i < r->n; i++) {
        r->combine[i](acc_at(s, 0, i), acc_at(s, 1, i), (int)(n * s->c->n));
    }
}

static void flat_block(const Strip *s, int64_t pos, int64_t n) {
    const Columns *c = s->c;
    const DynResults *r = &c->e->results;
    int64_t rest = n % LANES;
    if (n > rest) {
        add_rows(s, pos, n / LANES, LANES, 0, ANEW);
    } else {
        start(s, 0);
    }
    if (rest) {
        flat_rest(s, pos + n - rest, rest);
    }
    for (int i = 0; i < r->n; i++) {
        for (int64_t w = LANES / 2; w; w /= 2) {
            char *acc = acc_at(s, 0, i);
            r->combine[i](acc, acc + (size_t)(w * c->n) * c->size[i], (int)(w * c->n));
        }
    }
}

/* The tree of a block of n rows. */
static void make_tree(Tree *tree, int64_t n) {
    tree->n = (int)(n < LANES ? n : LANES);
    dyn_order_tree(tree->n, tree->at);
}

static bool has_block(const Columns *c) { return c->e->b->native->block != NULL && !c->flat && !c->laid_any; }

static void native_block(const Strip *s, const Tree *tree, int64_t pos, int64_t n) {
    const Columns *c = s->c;
    const DynBound *b = c->e->b;
    const DynResults *r = &c->e->results;
    char *p[DYN_MAX_OPERANDS];
    const char *from[DYN_MAX_OPERANDS];
    for (int i = 0; i < b->nops; i++) {
        p[i] = s->at[i] + (c->walked[i] ? pos * c->e->span.stride[i] : 0);
    }
    for (int i = 0; i < r->n; i++) {
        uint32_t op = r->insn[i]->a[0];
        p[op] = acc_at(s, 0, i);
        from[op] = (const char *)&r->identity[i];
    }
    b->native->block(&(DynBlockArgs){.operands = p,
                                     .row_step = c->e->span.stride,
                                     .start = from,
                                     .order = tree->at,
                                     .steps = tree->n,
                                     .n = n,
                                     .groups = s->groups,
                                     .back = s->back,
                                     .pitch = (int64_t)s->acc_bytes,
                                     .scalars = b->params});
}

/* All of one block to accumulator 0. */
static void run_block(const Strip *s, int64_t pos, int64_t n) {
    const Tree *tree = n == DYN_BLOCK ? &s->c->whole : &s->c->last_block;
    if (s->c->flat) {
        flat_block(s, pos, n);
    } else if (has_block(s->c)) {
        native_block(s, tree, pos, n);
    } else {
        run_tree(s, tree, pos, n);
    }
}

/* ---- partial results of blocks: as cascade_push and cascade_end of exec_reduce.c */

static char *part_at(const Strip *s, char *parts, int64_t index, int result) {
    return parts == NULL ? acc_at(s, 0, result) : level_at(s, parts, index, result);
}

/* parts: where partial result `count` is; NULL: in accumulator 0. */
static void push(const Strip *s, char *parts, int64_t count) {
    for (int i = 0; i < s->c->e->results.n; i++) {
        char *v = part_at(s, parts, count, i);
        int level = 0;
        for (int64_t rest = count; rest & 1; rest >>= 1, level++) {
            char *sum = level_at(s, s->level, level, i);
            s->c->e->results.combine[i](sum, v, (int)level_lanes(s));
            v = sum;
        }
        memcpy(level_at(s, s->level, level, i), v, (size_t)level_lanes(s) * s->c->size[i]);
    }
}

/* Where result i of `count` partial results is. */
static char *finish(const Strip *s, int64_t count, int i) {
    int level = __builtin_ctzll((uint64_t)count);
    char *v = level_at(s, s->level, level, i);
    for (int64_t rest = count >> (level + 1); rest; rest >>= 1) {
        level++;
        if (rest & 1) {
            s->c->e->results.combine[i](level_at(s, s->level, level, i), v, (int)level_lanes(s));
            v = level_at(s, s->level, level, i);
        }
    }
    return v;
}

static int64_t run_part(const Strip *s, int64_t from, int64_t to) {
    int64_t count = 0;
    bool in_turn = s->c->e->results.in_turn && !s->c->flat;
    if (in_turn) {
        for (int64_t pos = from; pos < to; pos += DYN_TURN_ROWS) {
            int64_t rows = to - pos < DYN_TURN_ROWS ? to - pos : DYN_TURN_ROWS;
            add_rows(s, pos, rows, 1, 0, pos == from ? ANEW : GO_ON);
        }
        push(s, NULL, 0);
        return 1;
    }
    for (int64_t pos = from; pos < to; pos += DYN_BLOCK) {
        run_block(s, pos, to - pos < DYN_BLOCK ? to - pos : DYN_BLOCK);
        push(s, NULL, count++);
    }
    return count;
}

static void put(const Strip *s, int64_t count) {
    const Columns *c = s->c;
    const DynBound *b = c->e->b;
    for (int i = 0; i < c->e->results.n; i++) {
        uint32_t op = c->e->results.insn[i]->a[0];
        int64_t step = b->strides[op][c->last], whole = c->flat ? c->n : (s->groups - (s->back != 0)) * LANES;
        const char *v = finish(s, count, i);
        uint8_t size = b->size[op];
        dyn_lanes_copy(s->at[op], v, step, size, whole, size);
        if (s->back) {
            dyn_lanes_copy(s->at[op] + (s->count - LANES) * step, v + whole * size, step, size, LANES, size);
        }
    }
}

/* ---- strips */

static size_t slots_of(const Columns *c) {
    if (c->flat) {
        return 2;
    }
    return c->e->results.in_turn ? 1 : TREE;
}

/* Around what is laid out: room between operands, and in front for a group that lies before its place. */
#define LAID_APART ((DYN_BUFFERS_APART + LANES * DYN_MAX_SIZE) * DYN_MAX_OPERANDS)

/* Places in `memory` (NULL: not yet); the bytes that they take. */
static size_t place_buffers(const Columns *c, Strip *s, char *memory) {
    size_t lanes = (size_t)s->lanes, laid = c->laid_lane ? lanes * c->laid_lane + LAID_APART : 0;
    size_t still = c->still_lane ? lanes * c->still_lane + LAID_APART : 0;
    s->acc_bytes = lanes * c->lane + DYN_BUFFERS_APART * (size_t)c->e->results.n;
    s->level_bytes = (size_t)level_lanes(s) * c->lane;
    s->acc = (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    s->laid = s->acc + slots_of(c) * s->acc_bytes;
    s->level = s->laid + laid + still;
    return slots_of(c) * s->acc_bytes + laid + still + (size_t)c->levels * s->level_bytes + 64;
}

/* For any strip. */
static char *get_memory(const Columns *c) {
    Strip s = {.c = c, .lanes = (c->flat ? c->n : c->per_strip) * LANES};
    char *memory = PyMem_RawMalloc(place_buffers(c, &s, NULL));
    if (memory == NULL) {
        atomic_store(&c->e->failed, true);
    }
    return memory;
}

static void make_strip(const Columns *c, int64_t unit, char *memory, Strip *s) {
    const DynReduce *e = c->e;
    int64_t first = unit % c->strips * c->per_strip * LANES, most = c->per_strip * LANES;
    *s = (Strip){.c = c, .first = first, .count = c->n - first < most ? c->n - first : most, .groups = c->n};
    if (!c->flat) {
        s->groups = (s->count + LANES - 1) / LANES;
        s->back = s->groups * LANES - s->count;
    }
    s->lanes = s->groups * LANES;
    dyn_reduce_place(e, e->nkept - 1, unit / c->strips, s->at);
    for (int i = 0; i < e->b->nops; i++) {
        s->at[i] += s->first * e->b->strides[i][c->last];
    }
    place_buffers(c, s, memory);
    lay_still(s, s->laid + (size_t)s->lanes * c->laid_lane + LAID_APART);
}

/* Where the partial results of a unit go. */
static char *unit_parts(const Columns *c, int64_t unit) {
    return c->parts + (size_t)(unit * c->nparts) * (size_t)((c->flat ? c->n : c->per_strip * LANES)) * c->lane;
}

static void columns_chunk(void *ctx, int64_t chunk) {
    const Columns *c = ctx;
    DynReduce *e = c->e;
    int64_t units = c->nlines * c->strips * c->nparts, from = chunk * e->chunk;
    int64_t to = from + e->chunk < units ? from + e->chunk : units;
    char *memory = get_memory(c);
    for (int64_t unit = from; memory != NULL && unit < to; unit++) {
        Strip s;
        int64_t first = unit % c->nparts * c->per_part;
        make_strip(c, unit / c->nparts, memory, &s);
        int64_t count = run_part(&s, first, first + c->per_part < e->span.n ? first + c->per_part : e->span.n);
        if (c->nparts == 1) {
            put(&s, count);
            continue;
        }
        for (int i = 0; i < e->results.n; i++) {
            memcpy(level_at(&s, unit_parts(c, unit / c->nparts), unit % c->nparts, i), finish(&s, count, i),
                   (size_t)level_lanes(&s) * c->size[i]);
        }
    }
    PyMem_RawFree(memory);
}

static void join_parts(const Columns *c) {
    char *memory = get_memory(c);
    for (int64_t unit = 0; memory != NULL && unit < c->nlines * c->strips; unit++) {
        Strip s;
        make_strip(c, unit, memory, &s);
        for (int64_t k = 0; k < c->nparts; k++) {
            push(&s, unit_parts(c, unit), k);
        }
        put(&s, c->nparts);
    }
    PyMem_RawFree(memory);
}

/* ---- which reductions */

static bool is_walked(const DynBound *b, const DynSpan *span, int op) {
    return span->mode[op] != DYN_SPAN_SCALAR && !b->k->operands.at[op].result;
}

/* What has to be laid out; -1: this can't be. */
static int find_laid(Columns *c) {
    const DynBound *b = c->e->b;
    const DynSpan *span = &c->e->span;
    int n = 0;
    for (int i = 0; i < b->nops; i++) {
        bool dense = !c->flat || (span->ndim == 1 && span->stride[i] == c->n * b->size[i]);
        c->walked[i] = is_walked(b, span, i);
        if (!c->walked[i]) {
            continue;
        }
        bool still = c->flat;
        for (int d = 0; d < span->ndim; d++) {
            still = still && span->strides[i][d] == 0;
        }
        c->still[i] = still && !b->k->operands.at[i].out;
        c->still_lane += c->still[i] ? b->size[i] : 0;
        c->laid[i] = !c->still[i] && (b->strides[i][c->last] != b->size[i] || !dense);
        c->laid_lane += c->laid[i] || c->flat ? b->size[i] : 0;
        n += c->laid[i];
        bool padded = b->k->in_place && c->n % LANES != 0;
        if (b->k->operands.at[i].out && (c->laid[i] || c->flat || padded)) {
            return -1;
        }
    }
    c->laid_any = n > 0 || span->ndim != 1;
    return n;
}

/* Which way are more operands read in long pieces: across the results, or along the elements of one? */
static bool lies_across(const DynReduce *e) {
    const DynBound *b = e->b;
    int last = e->kept[e->nkept - 1], across = 0, along = 0;
    for (int i = b->nops; i-- > 0;) {
        int64_t down = e->span.ndim ? llabs(e->span.strides[i][e->span.ndim - 1]) : 0, side = llabs(b->strides[i][last]);
        if (is_walked(b, &e->span, i)) {
            across += 2 * (side == 0 || side == b->size[i]) + (i == 0 && side < down);
            along += 2 * (down == 0 || down == b->size[i]) + (i == 0 && down <= side);
        }
    }
    return across > along;
}

static void divide(Columns *c, int threads) {
    DynReduce *e = c->e;
    int64_t groups = c->flat ? 1 : (c->n + LANES - 1) / LANES, fair = (4 * threads + c->nlines - 1) / c->nlines;
    int64_t most = (int64_t)(DYN_STRIP_BYTES / LANES / (c->lane * slots_of(c) + c->laid_lane));
    most = dyn_clamp(most, 1, DYN_STRIP_GROUPS);
    c->strips = (groups + most - 1) / most;
    if (threads > 1 && c->strips < fair) {
        c->strips = fair < groups ? fair : groups;
    }
    c->per_strip = (groups + c->strips - 1) / c->strips;
    c->strips = (groups + c->per_strip - 1) / c->per_strip;
    bool splits = threads > 1 && !e->b->k->ordered;
    c->nparts = splits && c->strips * c->nlines < threads ? (e->span.n + DYN_REDUCE_CHUNK - 1) / DYN_REDUCE_CHUNK : 1;
    c->per_part = c->nparts > 1 ? DYN_REDUCE_CHUNK : e->span.n;
    c->levels = 65 - __builtin_clzll((uint64_t)((e->span.n + DYN_BLOCK - 1) / DYN_BLOCK));
}

static void run(Columns *c, int threads) {
    DynReduce *e = c->e;
    int64_t units = c->nlines * c->strips * c->nparts;
    if (c->nparts > 1) {
        c->parts = PyMem_RawMalloc((size_t)(units * (c->flat ? c->n : c->per_strip * LANES)) * c->lane);
        atomic_store(&e->failed, c->parts == NULL);
    }
    int64_t per_unit = dyn_exec_cost(e->b) / (units ? units : 1);
    e->chunk = DYN_CHUNK_COST / (per_unit + 1) + 1;
    if (!atomic_load(&e->failed)) {
        dyn_reduce_chunks(columns_chunk, c, (units + e->chunk - 1) / e->chunk, threads);
    }
    if (c->nparts > 1 && !atomic_load(&e->failed)) {
        join_parts(c);
    }
    PyMem_RawFree(c->parts);
}

bool dyn_reduce_columns(DynReduce *e, int threads, bool may_lay) {
    Columns c = {.e = e, .native = e->b->native->columns != NULL};
    const DynResults *r = &e->results;
    const DynOrder *o = &e->b->order;
    bool joins_along = o->fuses && !o->across;
    bool along = e->b->k->ordered && (!o->in_turn || joins_along);
    if (along || e->b->indirect) {
        return false;
    }
    if (e->nkept == 0 || e->span.n < 2 || !lies_across(e)) {
        return false;
    }
    c.last = e->kept[e->nkept - 1];
    c.n = e->b->dims[c.last];
    c.flat = c.n < LANES;
    if (c.flat && e->b->k->ordered) {
        return false; /* rows side by side are not in turn */
    }
    int laid = c.n > 1 && (!c.flat || e->span.n > LANES) ? find_laid(&c) : -1;
    if (laid < 0 || (laid > 0 && !may_lay)) {
        return false;
    }
    for (int i = 0; i < r->n; i++) {
        c.size[i] = r->bytes[i] / LANES;
        c.lane += c.size[i];
    }
    c.nlines = e->nouter / c.n;
    if (!c.flat && !r->in_turn) {
        make_tree(&c.whole, e->span.n < DYN_BLOCK ? 0 : DYN_BLOCK);
        make_tree(&c.last_block, e->span.n % DYN_BLOCK);
    }
    divide(&c, threads);
    run(&c, threads);
    return true;
}
