/* order.c: the order in which the elements of a result are reduced, as data.
 *
 * Called by run.c, which binds a kernel, and by whoever then reduces: native code and the built-in tier follow the same lists of
 * steps. Owns nothing. Accumulators of a block are combined in a tree. Sums and products of floats in NumPy's graphs are made in
 * NumPy's order instead. NumPy walks what it reduces as it lies in
 * memory: axes by decreasing step, axes that go on in one another as one. Where the innermost axis is kept, rows are added in
 * turn to as many results. Where it is reduced, what lies along it is added pairwise: up to 128 numbers by eight sums side by
 * side, more in two halves; and what comes of it is added in turn. Several reduced axes that don't go on in one another are
 * copied to NumPy's buffer first, as many whole rows as it has room for, and are added pairwise from there. Products are made in
 * turn.
 *
 * Read off NumPy's results (2.4 and 2.5); tests/py/test_numpy_order.py compares bits of all layouts and axes. */
#include "codegen/run/exec.h"

#define BUFFER 8192 /* elements of NumPy's buffer */

/* ---- pairwise sums */

void dyn_parts_begin(DynParts *p, int64_t n, int lanes) {
    p->left[0] = n;
    p->joins[0] = 0;
    p->n = 1;
    p->lanes = lanes;
}

bool dyn_parts_next(DynParts *p, int64_t most, int64_t *part, int *joins) {
    if (p->n == 0) {
        return false;
    }
    int64_t n = p->left[--p->n];
    *joins = p->joins[p->n];
    while (n > most) {
        int64_t half = n / 2;
        half -= half % p->lanes;
        p->left[p->n] = n - half;
        p->joins[p->n++] = *joins + 1;
        n = half;
        *joins = 0;
    }
    *part = n;
    return true;
}

/* ---- axes */

typedef struct Axes {
    int at[DYN_MAX_NDIM], n; /* the innermost first */
} Axes;

/* Axes by increasing step; those between which no step decides stay in C order. What NumPy's iterator does with the steps of one
 * operand: an axis goes in front of those with larger steps, over any that the operand stands still along. */
static Axes sort_axes(const DynGeom *like, int ndim) {
    Axes a = {.n = 0};
    for (int d = ndim; d-- > 0;) {
        int64_t step = llabs(like->strides[d]);
        int place = a.n;
        if (like->dims[d] == 1) {
            continue;
        }
        for (int i = a.n; i-- > 0 && step != 0;) {
            int64_t other = llabs(like->strides[a.at[i]]);
            if (other != 0 && other <= step) {
                break;
            }
            place = other != 0 ? i : place;
        }
        memmove(&a.at[place + 1], &a.at[place], sizeof(*a.at) * (size_t)(a.n - place));
        a.at[place] = d;
        a.n++;
    }
    return a;
}

/* Sizes of the reduced axes that lie innermost, those that go on in one another as one; how many. */
static int join_inner(const DynGeom *like, const Axes *a, uint32_t reduced, int64_t *sizes) {
    int n = 0, last = -1;
    for (int i = 0; i < a->n && (reduced >> a->at[i] & 1); i++) {
        int d = a->at[i];
        bool joins = n > 0 && like->strides[d] == like->strides[last] * like->dims[last];
        n += !joins;
        sizes[n - 1] = joins ? sizes[n - 1] * like->dims[d] : like->dims[d];
        last = d;
    }
    return n;
}

/* Elements that are added pairwise: what lies along one axis, if it isn't converted, or what the buffer holds of several. */
static int64_t piece_of(const int64_t *sizes, int n, int64_t run, bool converts) {
    int64_t core = sizes[0];
    if (n == 1 && !converts) {
        return run;
    }
    if (core > BUFFER) {
        return converts ? BUFFER : core;
    }
    for (int i = 1; i < n && core * sizes[i] <= BUFFER; i++) {
        core *= sizes[i];
    }
    int64_t piece = BUFFER / core * core;
    return piece < run ? piece : run;
}

int dyn_order_find(const DynLoops *p, const DynGeom *geoms, const DynScalar *sym, DynBound *b) {
    const DynKernel *k = b->k;
    DynOrder *o = &b->order;
    DynGeom like;
    int64_t sizes[DYN_MAX_NDIM], all = 1;
    const DynInsn *insn = k->insns.at;
    if (!k->ordered) {
        return 0;
    }
    if (dyn_geom_eager(p, k->like, sym, geoms, &like) < 0) {
        return -1;
    }
    while (!dyn_insn_is_inexact(insn)) {
        insn++;
    }
    Axes a = sort_axes(&like, k->ndim);
    o->naxes = 0;
    for (int d = 0; d < k->ndim; d++) { /* those of size 1 have no say */
        if (k->reduced >> d & 1 && like.dims[d] == 1) {
            o->axes[o->naxes++] = d;
        }
    }
    for (int i = a.n; i-- > 0;) {
        if (k->reduced >> a.at[i] & 1) {
            o->axes[o->naxes++] = a.at[i];
            all *= like.dims[a.at[i]];
        }
    }
    int n = join_inner(&like, &a, k->reduced, sizes);
    o->run = 1;
    for (int i = 0; i < n; i++) {
        o->run *= sizes[i];
    }
    o->lanes = dyn_dtypes[insn->compute].kind == 'c' ? 4 : 8;
    o->across = n == 0;
    o->fuses = insn->op == DYN_OP_PROD && o->lanes == 4;
    o->in_turn = insn->op == DYN_OP_PROD || n == 0 || all == 0;
    if (o->in_turn) { /* where the pieces end makes no difference */
        o->run = o->piece = all;
    } else {
        o->piece = piece_of(sizes, n, o->run, dyn_graph_node(p->graph, k->like)->dtype != insn->compute);
    }
    return 0;
}

/* ---- lists of steps: elements, or accumulators, go on a stack, whose topmost parts are combined */

/* Accumulators j, j + w, j + 2 w … of n to one; how many steps there are then. */
static int put_tree(DynOrderStep *steps, int count, int64_t n, int j, int w) {
    if (w >= DYN_REDUCE_LANES) {
        steps[count] = (DynOrderStep){.element = (uint8_t)j};
        return count + 1;
    }
    count = put_tree(steps, count, n, j, 2 * w);
    if (j + w < n) {
        count = put_tree(steps, count, n, j + w, 2 * w);
        steps[count - 1].joins++;
    }
    return count;
}

void dyn_order_tree(int64_t n, DynOrderStep *steps) { put_tree(steps, 0, n, 0, 1); }

/* NumPy's order of elements from … to, a piece: `lanes` sums side by side, and then what is left, one by one. */
static int put_piece(DynOrderStep *steps, int count, int64_t from, int64_t to, int lanes) {
    int64_t whole = from + (to - from) / lanes * lanes;
    int first = count;
    for (int j = 0; j < lanes && whole > from; j++) {
        for (int64_t i = from + j; i < whole; i += lanes) {
            steps[count++] = (DynOrderStep){.element = (uint8_t)i, .joins = i > from + j};
        }
        steps[count - 1].joins += (uint8_t)__builtin_ctz((unsigned)j + 1); /* The sums are combined in pairs. */
    }
    for (int64_t i = whole; i < to; i++) {
        steps[count] = (DynOrderStep){.element = (uint8_t)i, .joins = count > first};
        count++;
    }
    steps[count - 1].joins += from > 0; /* The piece is added to those before it. */
    return count;
}

void dyn_order_elements(const DynBound *b, int64_t n, DynOrderStep *steps) {
    const DynOrder *o = &b->order;
    if (!b->k->ordered) {
        dyn_order_tree(n, steps);
        return;
    }
    int lanes = o->in_turn ? DYN_SHORT_AXIS_MOST + 1 : o->lanes, count = 0;
    for (int64_t from = 0, stop; from < n; from = stop) {
        int64_t run_ends = from - from % o->run + o->run;
        stop = from + o->piece < run_ends ? from + o->piece : run_ends;
        count = put_piece(steps, count, from, stop, lanes);
    }
}
