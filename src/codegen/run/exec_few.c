/* exec_few.c: reductions of a few elements each: a lane for each result.
 *
 * Called by exec_reduce.c, and gives the bits of its order, or of NumPy's (order.c): element i of a result is accumulator i, and
 * the accumulators are combined in its tree. Native code walks that tree depth first, so that a few accumulators are enough and
 * stay in the first-level cache; the built-in tier has one for each element.
 *
 * Lines of results go side by side, piece by piece. Operands whose lanes don't lie side by side are laid out first, element by
 * element; what lines share is laid out once for all of them. Owns the memory that a piece is laid out in. */
#include "codegen/run/lanes.h"

#define LANES DYN_REDUCE_LANES
#define ROW_BYTES (LANES * DYN_MAX_SIZE) /* room for lanes of any type */
#define MOST DYN_SHORT_AXIS_MOST
#define COLUMNS (DYN_PIECE_GROUPS * LANES)
#define ROOM 65536 /* of everything, on the stack: threads may have a small one */

typedef enum Way {
    NONE,   /* a result, or an index alone */
    STILL,  /* the same for all lanes: copies of one */
    SHARED, /* the same in all lines */
    DENSE,  /* lanes lie side by side: they are read where they are */
    OWN
} Way;

typedef struct Few {
    DynReduce *e;
    int last; /* the axis that the lanes lie along */
    uint8_t way[DYN_MAX_OPERANDS];
    char *at[DYN_MAX_OPERANDS], *laid[DYN_MAX_OPERANDS]; /* of the line; where the operand is laid out, a row an element: */
    int64_t pitch[DYN_MAX_OPERANDS];                     /* from one to the next */
    int64_t batch;                                       /* groups of what is OWN that are laid out at a time */
    char (*acc)[LANES][ROW_BYTES];                       /* results of a batch; accumulators of the built-in tier */
    DynOrderStep order[MOST];                            /* of the elements, which are combined by it */
} Few;

/* Is the operand the same all along an axis? */
static bool stands(const DynBound *b, int op, int axis) {
    const DynOperand *o = &b->k->operands.at[op];
    return b->strides[op][axis] == 0 && (!o->indirect || b->strides[o->by][axis] == 0);
}

static bool is_shared(const Few *f, int op) {
    bool shared = f->e->nlines > 1;
    for (int a = 0; a < f->e->nkept - 1; a++) {
        shared = shared && stands(f->e->b, op, f->e->kept[a]);
    }
    return shared;
}

/* How each operand is read. */
static void find_ways(Few *f) {
    const DynBound *b = f->e->b;
    int64_t shared = 0, own = 0;
    for (int i = 0; i < b->nops; i++) {
        int64_t bytes = f->e->span.n * LANES * b->size[i];
        f->way[i] = OWN;
        if (!dyn_kernel_is_loaded(b->k, (uint32_t)i)) {
            f->way[i] = NONE;
        } else if (stands(b, i, f->last)) {
            f->way[i] = STILL;
        } else if (f->e->b->native->short_axis != NULL && !b->k->operands.at[i].indirect &&
                   b->strides[i][f->last] == b->size[i]) {
            f->way[i] = DENSE;
        } else if (is_shared(f, i) && shared + bytes * DYN_PIECE_GROUPS <= DYN_SHARED_BYTES) {
            f->way[i] = SHARED;
            shared += bytes * DYN_PIECE_GROUPS;
        } else {
            own += bytes;
        }
    }
    f->batch = 1;
    if (f->e->b->native->short_axis != NULL) {
        f->batch = own == 0 ? DYN_PIECE_GROUPS : dyn_clamp(DYN_OWN_BYTES / own, 1, DYN_PIECE_GROUPS);
    }
}

/* How many groups of an operand's elements are laid out at a time. */
static int64_t groups_laid(const Few *f, int operand) {
    switch (f->way[operand]) {
    case STILL:
    case DENSE: return 1;
    case SHARED: return DYN_PIECE_GROUPS;
    default: return f->batch;
    }
}

/* Places in `memory` (NULL: not yet); the bytes that they take. */
static size_t place_rows(Few *f, char *memory) {
    const DynBound *b = f->e->b;
    size_t used = (size_t)f->e->results.n * sizeof(f->acc[0]);
    f->acc = (void *)memory;
    for (int i = 0; i < b->nops; i++) {
        int64_t groups = groups_laid(f, i);
        f->pitch[i] = groups * LANES * b->size[i] + (groups > 1 ? DYN_BUFFERS_APART : 0);
        f->laid[i] = memory == NULL ? NULL : memory + used;
        used += f->way[i] == NONE ? 0 : (size_t)(f->e->span.n * f->pitch[i] + 63) & ~(size_t)63;
    }
    return used;
}

/* n columns of an operand, padded to full groups. */
static void lay(const Few *f, int op, int64_t column, int64_t n) {
    const DynBound *b = f->e->b;
    const DynSpan *s = &f->e->span;
    int64_t stride = b->strides[op][f->last], full = (n + LANES - 1) / LANES * LANES;
    uint8_t size = b->size[op], by = (uint8_t)b->k->operands.at[op].by;
    char *to = f->laid[op];
    if (b->k->operands.at[op].indirect) {
        int64_t strides[2] = {stride, s->strides[op][0]}, index[2] = {b->strides[by][f->last], s->strides[by][0]};
        for (int64_t done = 0; done < n; done += LANES, to += LANES * size) {
            int64_t at = column + done, m = n - done < LANES ? n - done : LANES;
            dyn_block_take(b, op, f->at[op] + at * stride, strides, f->at[by] + at * index[0], index, m, s->n, to, f->pitch[op]);
        }
        return;
    }
    const char *from = f->at[op] + column * stride;
    char *rows[MOST];
    int64_t field[MOST];
    for (int64_t k = 0; k < s->n; k++) {
        rows[k] = to + k * f->pitch[op];
        field[k] = k * s->stride[op];
    }
    bool side_by_side = s->n > 1 && s->stride[op] == size && s->n * size <= stride;
    bool records = side_by_side && dyn_records_wanted(stride, size);
    if (records) {
        dyn_records_deal(rows, field, (int)s->n, from, stride, n, size);
    }
    for (int64_t k = 0; k < s->n; k++) {
        if (!records) {
            dyn_lanes_copy(rows[k], from + field[k], size, stride, n, size);
        }
        dyn_lanes_pad(rows[k], size, n, full);
    }
}

/* What a line, or the first line of a piece, needs before its groups. */
static void lay_ahead(const Few *f, int64_t first, int64_t end, bool new_piece) {
    for (int i = 0; i < f->e->b->nops; i++) {
        if (f->way[i] == STILL) {
            lay(f, i, 0, LANES);
        } else if (f->way[i] == SHARED && new_piece) {
            lay(f, i, first, end - first);
        }
    }
}

/* ---- groups by native code */

/* `groups` groups from `column` on, whose results go to `acc`, or to where they belong. */
static void run_native(const Few *f, int64_t first, int64_t column, int64_t n) {
    const DynReduce *e = f->e;
    const DynBound *b = e->b;
    char *p[DYN_MAX_OPERANDS];
    int64_t element_step[DYN_MAX_OPERANDS], group_step[DYN_MAX_OPERANDS];
    const char *start[DYN_MAX_OPERANDS];
    int64_t groups = (n + LANES - 1) / LANES;
    for (int i = 0; i < b->nops; i++) {
        bool in_place = f->way[i] == DENSE && n % LANES == 0;
        if (f->way[i] == NONE) {
            p[i] = f->at[i];
            continue;
        }
        if (f->way[i] == OWN || (f->way[i] == DENSE && !in_place)) {
            lay(f, i, column, n);
        }
        if (in_place) {
            p[i] = f->at[i] + column * b->size[i];
        } else {
            p[i] = f->laid[i] + (f->way[i] == SHARED ? (column - first) * b->size[i] : 0);
        }
        element_step[i] = in_place ? e->span.stride[i] : f->pitch[i];
        group_step[i] = f->way[i] == STILL ? 0 : LANES * b->size[i];
    }
    for (int i = 0; i < e->results.n; i++) {
        uint32_t op = e->results.insn[i]->a[0];
        bool in_place = b->strides[op][f->last] == b->size[op] && n % LANES == 0;
        p[op] = in_place ? f->at[op] + column * b->size[op] : f->acc[i][0];
        start[op] = e->results.start[i];
    }
    b->native->short_axis(&(DynShortAxisArgs){.operands = p,
                                              .element_step = element_step,
                                              .group_step = group_step,
                                              .start = start,
                                              .order = f->order,
                                              .n = e->span.n,
                                              .groups = groups,
                                              .scalars = b->params});
    for (int i = 0; i < e->results.n; i++) {
        uint32_t op = e->results.insn[i]->a[0];
        int64_t step = b->strides[op][f->last];
        if (p[op] == f->acc[i][0]) {
            dyn_lanes_copy(f->at[op] + column * step, p[op], step, b->size[op], n, b->size[op]);
        }
    }
}

/* Full groups of a piece, a batch at a time, then the lanes that are left. */
static void run_native_piece(const Few *f, int64_t first, int64_t end) {
    int64_t full = end - (end - first) % LANES;
    for (int64_t column = first; column < full; column += f->batch * LANES) {
        run_native(f, first, column, full - column < f->batch * LANES ? full - column : f->batch * LANES);
    }
    if (full < end) {
        run_native(f, first, full, end - full);
    }
}

/* ---- a group by the built-in tier: accumulator j of each lane is row j of `acc` */

static void fill_accumulators(const Few *f) {
    const DynResults *r = &f->e->results;
    for (int i = 0; i < r->n; i++) {
        for (int64_t row = 0; row < f->e->span.n; row++) {
            memcpy(f->acc[i][row], r->start[i], r->bytes[i]);
        }
    }
}

/* As native code does: what is combined stands where the first of it stood. Where the result stands. */
static int combine_accumulators(const Few *f) {
    const DynResults *r = &f->e->results;
    uint8_t stack[MOST];
    int top = 0;
    for (int64_t n = 0; n < f->e->span.n; n++) {
        stack[top++] = f->order[n].element;
        for (int joins = f->order[n].joins; joins > 0; joins--, top--) {
            for (int i = 0; i < r->n; i++) {
                r->combine[i](f->acc[i][stack[top - 2]], f->acc[i][stack[top - 1]], LANES);
            }
        }
    }
    return stack[0];
}

static void run_group(const Few *f, int64_t first, int64_t column, int64_t n) {
    const DynReduce *e = f->e;
    const DynBound *b = e->b;
    char *p[DYN_MAX_OPERANDS];
    const int64_t row_step[DYN_MAX_OPERANDS] = {0};
    for (int i = 0; i < b->nops; i++) {
        if (f->way[i] == OWN) {
            lay(f, i, column, n);
        }
    }
    fill_accumulators(f);
    for (int64_t row = 0; row < e->span.n; row++) {
        for (int i = 0; i < b->nops; i++) {
            p[i] = f->way[i] == NONE ? f->at[i] : f->laid[i] + row * f->pitch[i];
            p[i] += f->way[i] == SHARED ? (column - first) * b->size[i] : 0;
        }
        for (int i = 0; i < e->results.n; i++) {
            p[e->results.insn[i]->a[0]] = f->acc[i][row];
        }
        dyn_builtin_columns(
            b->k, &(DynColumnsArgs){.operands = p, .row_step = row_step, .n = LANES, .groups = 1, .scalars = b->params});
    }
    int made = combine_accumulators(f);
    for (int i = 0; i < e->results.n; i++) {
        uint32_t op = e->results.insn[i]->a[0];
        int64_t step = b->strides[op][f->last];
        dyn_lanes_copy(f->at[op] + column * step, f->acc[i][made], step, b->size[op], n, b->size[op]);
    }
}

/* ---- pieces */

static int64_t count_pieces(const DynReduce *e) { return (e->columns + COLUMNS - 1) / COLUMNS * e->nlines; }

static void run_pieces(Few *f, int64_t begin, int64_t stop) {
    const DynReduce *e = f->e;
    for (int64_t piece = begin; piece < stop; piece++) {
        int64_t first = piece / e->nlines * COLUMNS, end = first + COLUMNS < e->columns ? first + COLUMNS : e->columns;
        dyn_reduce_place(e, e->nkept - 1, piece % e->nlines, f->at);
        lay_ahead(f, first, end, piece == begin || piece % e->nlines == 0);
        if (e->b->native->short_axis != NULL) {
            run_native_piece(f, first, end);
            continue;
        }
        for (int64_t column = first; column < end; column += LANES) {
            run_group(f, first, column, end - column < LANES ? end - column : LANES);
        }
    }
}

static void run_chunk(void *ctx, int64_t chunk) {
    DynReduce *e = ctx;
    _Alignas(64) char room[ROOM];
    Few f = {.e = e, .last = e->kept[e->nkept - 1]};
    find_ways(&f);
    dyn_order_elements(e->b, e->span.n, f.order);
    size_t bytes = place_rows(&f, NULL);
    char *memory = bytes <= sizeof(room) ? NULL : PyMem_RawMalloc(bytes + 64);
    if (memory == NULL && bytes > sizeof(room)) {
        atomic_store(&e->failed, true);
        return;
    }
    place_rows(&f, memory == NULL ? room : (char *)(((uintptr_t)memory + 63) & ~(uintptr_t)63));
    int64_t pieces = count_pieces(e), begin = chunk * e->chunk;
    run_pieces(&f, begin, begin + e->chunk < pieces ? begin + e->chunk : pieces);
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

static bool can_take(DynReduce *e) {
    const DynBound *b = e->b;
    bool few = e->span.ndim == 1 && e->span.n >= 1 && e->span.n <= MOST;
    if (e->nkept == 0 || !few) {
        return false;
    }
    if (b->k->ordered && b->order.fuses && !b->order.across) {
        return false;
    }
    bool rows_as_they_lie = b->native->rows != NULL && e->span.direct && !e->span.looked_up;
    if (rows_as_they_lie && e->span.n >= DYN_ROWS_FROM) {
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

bool dyn_reduce_short_axis(DynReduce *e, int threads) {
    if (!can_take(e)) {
        return false;
    }
    e->chunk = 32768 / ((e->columns < COLUMNS ? e->columns : COLUMNS) * e->span.n) + 1;
    dyn_reduce_chunks(run_chunk, e, (count_pieces(e) + e->chunk - 1) / e->chunk, threads);
    return true;
}
