/* exec_group.c: runs the kernels of a group row by row, so that what one of them leaves in the cache is there for the next.
 *
 * Called by task_kernel.c; schedule.c says which kernels are a group. All kernels do a batch of rows before any of them does the
 * next; values that live for one row have memory for one batch, of which each chunk has its own. */
#include "codegen/run/lanes.h"
#include "codegen/run/par.h"

/* One kernel of a group. */
typedef struct Member {
    DynSpan span;                   /* The lanes of a row; of a kernel that runs `across`, those of a batch of rows. */
    DynResults results;             /* Its reductions. */
    int64_t step[DYN_MAX_OPERANDS]; /* For each operand, bytes from row to row. */
} Member;
/* Where the operands of one kernel stand in one row. */
typedef struct Start {
    char *at[DYN_MAX_OPERANDS];
} Start;
typedef struct Group {
    DynBound *b;     /* The kernels. */
    Member *members; /* What is known of each. */
    int n;           /* The number of kernels. */
    int outer;       /* So many leading axes are the rows. */
    int64_t nrows;   /* The number of rows. */
    int64_t chunk;   /* The number of rows of a chunk, which is one thread's work. */
    int64_t batch;   /* So many rows a kernel does before the next kernel does them. */
    Start *starts;   /* One for each kernel, for one chunk after the other. */
    char *row_base;  /* The plan's memory for what belongs to a row. */
    char *copies;    /* The same for the rows of a batch, for one chunk after the other. */
    size_t rows;     /* The bytes of one row. */
} Group;

/* Does an operand belong to a row? */
static bool is_own(const Group *g, const DynBound *b, int op) {
    return b->base[op] >= g->row_base && b->base[op] < g->row_base + g->rows;
}

static void stand_at(const Group *g, const DynBound *b, int64_t row, ptrdiff_t shift, char **at) {
    for (int i = 0; i < b->nops; i++) {
        at[i] = b->base[i] + (is_own(g, b, i) ? shift : 0);
    }
    for (int d = g->outer; d-- > 0; row /= b->dims[d]) {
        for (int i = 0; i < b->nops; i++) {
            at[i] += row % b->dims[d] * b->strides[i][d];
        }
    }
}

/* Rows as lanes. */
static void span_across(const DynBound *b, const Member *m, int64_t n, DynSpan *s) {
    s->ndim = 1;
    s->n = s->dims[0] = n;
    for (int i = 0; i < b->nops; i++) {
        s->strides[i][0] = m->step[i];
    }
    dyn_span_modes(b, s);
}

/* n rows of one kernel. */
static void member_run(const Group *g, int k, int64_t n, char *const *from, DynScratch *scratch) {
    const DynBound *b = &g->b[k];
    Member *m = &g->members[k];
    if (b->k->across) {
        DynSpan rest;
        if (n != g->batch) {
            span_across(b, m, n, &rest);
        }
        dyn_span_run(b, n == g->batch ? &m->span : &rest, from, scratch);
        return;
    }
    if (b->k->reduced) {
        dyn_reduce_rows(b, &m->span, from, m->step, n, &m->results, scratch);
        return;
    }
    dyn_span_run_rows(b, &m->span, from, m->step, n, scratch);
}

/* Rows along the last of the outer axes, a batch after the other. */
static void group_run(const Group *g, int64_t n, Start *starts, DynScratch *scratch) {
    for (int64_t row = 0; row < n; row += g->batch) {
        int64_t rows = n - row < g->batch ? n - row : g->batch;
        for (int k = 0; k < g->n; k++) {
            const DynBound *b = &g->b[k];
            member_run(g, k, rows, starts[k].at, scratch);
            for (int i = 0; i < b->nops; i++) { /* what belongs to rows is used again */
                starts[k].at[i] += rows * b->strides[i][g->outer - 1];
            }
        }
    }
}

static void group_chunk(void *ctx, int64_t chunk) {
    const Group *g = ctx;
    DynScratch scratch;
    Start *starts = g->starts + chunk * g->n;
    int64_t to = (chunk + 1) * g->chunk < g->nrows ? (chunk + 1) * g->chunk : g->nrows, size = g->b[0].dims[g->outer - 1];
    bool own = g->batch == 1; /* the plan's memory has room for one row: the first chunk takes it */
    ptrdiff_t shift = own && chunk == 0 ? 0 : g->copies + (size_t)((chunk - own) * g->batch) * g->rows - g->row_base;
    for (int64_t row = chunk * g->chunk; row < to;) {
        int64_t n = size - row % size < to - row ? size - row % size : to - row;
        for (int k = 0; k < g->n; k++) {
            stand_at(g, &g->b[k], row, shift, starts[k].at);
        }
        group_run(g, n, starts, &scratch);
        row += n;
    }
}

/* Does an operand before operand op of kernel k begin at the same place? */
static bool is_counted(const Group *g, int k, int op) {
    for (int x = 0; x <= k; x++) {
        for (int i = 0; i < (x == k ? op : g->b[x].nops); i++) {
            if (g->b[x].base[i] == g->b[k].base[op]) {
                return true;
            }
        }
    }
    return false;
}

/* So many rows that what one kernel leaves in the cache is there for the next. */
static int64_t count_batch(const Group *g) {
    size_t bytes = g->rows + 1;
    for (int k = 0; k < g->n; k++) {
        for (int i = 0; i < g->b[k].nops; i++) {
            bool own = g->b[k].strides[i][g->outer - 1] != 0 && !is_counted(g, k, i);
            bytes += own ? (size_t)(g->members[k].span.n * g->b[k].size[i]) : 0;
        }
    }
    return dyn_clamp((int64_t)(DYN_GROUP_BYTES / bytes), 1, DYN_GROUP_ROWS);
}

static void make_members(Group *g) {
    int axes[DYN_MAX_NDIM];
    for (int d = 0; d < DYN_MAX_NDIM; d++) {
        axes[d] = d;
    }
    for (int k = 0; k < g->n; k++) {
        const DynBound *b = &g->b[k];
        Member *m = &g->members[k];
        if (b->k->ordered) {
            dyn_span_make(b, b->order.axes, b->order.naxes, &m->span);
        } else {
            dyn_span_make(b, axes + g->outer, b->ndim - g->outer, &m->span);
        }
        dyn_reduce_results(b->k, &m->results);
        for (int i = 0; i < b->nops; i++) {
            m->step[i] = is_own(g, b, i) ? (int64_t)g->rows : b->strides[i][g->outer - 1];
        }
    }
}

int dyn_exec_group(DynBound *b, int n, int outer, char *row_base, size_t rows) {
    Group g = {.b = b, .n = n, .outer = outer, .nrows = 1, .row_base = row_base, .rows = rows};
    int64_t cost = 0;
    if ((g.members = PyMem_RawMalloc(sizeof(*g.members) * (size_t)n)) == NULL) {
        return -1;
    }
    make_members(&g);
    for (int k = 0; k < n; k++) {
        cost += dyn_exec_cost(&b[k]);
    }
    for (int d = 0; d < outer; d++) {
        g.nrows *= b[0].dims[d];
    }
    int threads = cost < DYN_PARALLEL_COST || g.nrows < 2 ? 1 : dyn_par_threads();
    int64_t nchunks = 1;
    if (threads > 1) {
        nchunks = g.nrows < 4 * threads ? g.nrows : 4 * threads;
    }
    g.chunk = (g.nrows + nchunks - 1) / nchunks;
    g.batch = count_batch(&g);
    g.batch = g.chunk > 0 && g.chunk < g.batch ? g.chunk : g.batch; /* room for more rows than there are is for nothing */
    for (int k = 0; k < n; k++) {
        if (b[k].k->across) {
            span_across(&b[k], &g.members[k], g.batch, &g.members[k].span);
        }
    }
    nchunks = g.chunk ? (g.nrows + g.chunk - 1) / g.chunk : 0;
    g.copies = rows ? PyMem_RawMalloc(rows * (size_t)(nchunks * g.batch)) : NULL;
    g.starts = PyMem_RawMalloc(sizeof(*g.starts) * (size_t)(nchunks * n));
    int failed = !g.starts || (rows && !g.copies) ? -1 : 0;
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
