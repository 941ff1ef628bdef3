/* graph_verify.c: holds a graph to its invariants. Called after recording in debug builds and tests, and by the graph parser.
 *
 *   1. Operands that are nodes stand earlier; operands that are symbols exist.
 *   2. A row's arity, when it has one, is the number of operands; only FULL and EXTERN have absent ones.
 *   3. dtype and compute are rows of dtype.def; LOGICAL and COMPARE rows and BOOL rows give BOOL, LOGICAL ones compute in BOOL.
 *   4. Every size is an int symbol that exists, with a hint that is not negative.
 *   5. A node owns its storage, but a view (and RESHAPE only where it is one) has its operand's, and STORE its destination's.
 *      View rows carry DYN_NODE_VIEW, or RESHAPE DYN_NODE_CONTIG_COPY; nothing else carries either.
 *   6. NumPy scalars have rank 0.
 *   7. Elementwise: each operand's sizes are the result's or 1 (by hint), aligned at the end. Reduce: aux is keepdims and sorted
 * axes, and the result has the sizes that are left. COPY: the operand's sizes. SCAN: aux is an axis and keepdims, and the rank is
 * what they leave. STORE, SCATTER: the destination's sizes, dtype; the value broadcasts to them, of SCATTER to those that its
 * places have in the place of the first axis.
 *   8. SLICE: aux and operands fit the base's rank; PERMUTE: aux is a permutation; BROADCAST: sizes are equal or 1; RESHAPE: the
 *      number of elements is the same (by hint); AFFINE: operands and aux fit the ranks, and its first and last elements are the
 *      base's; AS_DTYPE: the sizes of axes are the base's, but the last, whose bytes are.
 *   9. INPUT nodes are the ones in `inputs`, in order, with a source; outputs exist; EXTERN nodes have their row (where there are
 * rows).
 *  10. RESULT nodes stand behind the EXTERN node of their call; what is checked are bool symbols that are late.
 *  11. The layout's permutation is one of the node's axes. */
#include "ir/graph.h"

typedef struct Check {
    const DynGraph *g;
    uint32_t id;
    DynStr *error;
} Check;

static int bad(Check *c, const char *what) {
    const DynNode *n = dyn_graph_node(c->g, c->id);
    dyn_str_printf(c->error, "%%%u (%s): %s", c->id, n->op < DYN_OP_COUNT ? dyn_ops[n->op].text : "?", what);
    return -1;
}

static int64_t hint(const DynGraph *g, uint32_t sym) { return dyn_sym_at(g->syms, sym)->hint.i; }

/* Is the first operand of such operators a node? */
static bool begins_with_node(DynOpKind kind) {
    switch (kind) {
    case DYN_K_REDUCE:
    case DYN_K_VIEW:
    case DYN_K_COPY:
    case DYN_K_STORE:
    case DYN_K_SCAN:
    case DYN_K_GATHER: return true;
    default: return false;
    }
}

static int check_operands(Check *c, const DynNode *n) {
    const DynOpInfo *row = &dyn_ops[n->op];
    if (row->arity >= 0 && n->nargs != row->arity) {
        return bad(c, "wrong number of operands");
    }
    for (int i = 0; i < n->nargs; i++) {
        const DynArg *a = &n->args[i];
        if (a->kind == DYN_ARG_NODE && a->id >= c->id) {
            return bad(c, "operand does not stand earlier");
        }
        if (a->kind == DYN_ARG_NODE && dyn_node_stores(dyn_graph_node(c->g, a->id))) {
            return bad(c, "operand is a store, which has no value");
        }
        if (a->kind == DYN_ARG_SYM && a->id >= c->g->syms->v.n) {
            return bad(c, "operand is no symbol");
        }
        if (a->kind == DYN_ARG_SOURCE && (!dyn_node_calls(n) || a->id >= c->g->sources->v.n)) {
            return bad(c, "operand is no source");
        }
        if (a->kind > DYN_ARG_NONE) {
            return bad(c, "unknown kind of operand");
        }
        if (a->kind == DYN_ARG_NONE && n->op != DYN_OP_FULL && !dyn_node_calls(n)) {
            return bad(c, "operand is absent");
        }
    }
    if (begins_with_node(row->kind) && (n->nargs == 0 || n->args[0].kind != DYN_ARG_NODE)) {
        return bad(c, "first operand is no node");
    }
    for (int i = 0; i < n->nargs && (n->op == DYN_OP_SCALAR || n->op == DYN_OP_COMPLEX); i++) {
        if (n->args[i].kind != DYN_ARG_SYM) {
            return bad(c, "operand is no symbol");
        }
    }
    return 0;
}

static int check_types(Check *c, const DynNode *n) {
    const DynOpInfo *row = &dyn_ops[n->op];
    if (n->dtype >= DYN_DTYPE_COUNT || n->compute >= DYN_DTYPE_COUNT) {
        return bad(c, "no such dtype");
    }
    bool is_bool = row->dtype == DYN_DT_COMPARE || row->dtype == DYN_DT_LOGICAL || row->dtype == DYN_DT_BOOL;
    if (is_bool && n->dtype != DYN_BOOL) {
        return bad(c, "result is not bool");
    }
    if (row->dtype == DYN_DT_LOGICAL && n->compute != DYN_BOOL) {
        return bad(c, "does not compute in bool");
    }
    if ((n->flags & DYN_NODE_OR_NOTHING) && (row->kind != DYN_K_REDUCE || row->guard != DYN_G_NONEMPTY)) {
        return bad(c, "not an operator of which nothing has no value");
    }
    if ((n->flags & DYN_NODE_NPSCALAR) && n->ndim != 0) {
        return bad(c, "NumPy scalar of a rank");
    }
    for (int i = 0; i < n->ndim; i++) {
        if (n->shape[i] >= c->g->syms->v.n || dyn_sym_at(c->g->syms, n->shape[i])->type != DYN_T_INT) {
            return bad(c, "size is no int symbol");
        }
        if (hint(c->g, n->shape[i]) < 0) {
            return bad(c, "negative size");
        }
    }
    uint32_t seen = 0;
    for (int i = 0; i < n->ndim; i++) {
        if (n->layout.perm[i] >= n->ndim || (seen >> n->layout.perm[i] & 1u)) {
            return bad(c, "layout is no permutation of the axes");
        }
        if (n->layout.kind == DYN_LAYOUT_C && n->layout.perm[i] != i) {
            return bad(c, "C layout with another order of axes");
        }
        seen |= 1u << n->layout.perm[i];
    }
    return 0;
}

static int check_storage(Check *c, const DynNode *n) {
    bool view = (n->flags & DYN_NODE_VIEW) != 0, copy = (n->flags & DYN_NODE_CONTIG_COPY) != 0;
    if (dyn_ops[n->op].kind == DYN_K_VIEW ? view == copy : view || copy) {
        return bad(c, "flags are not those of its kind");
    }
    if (copy && n->op != DYN_OP_RESHAPE) {
        return bad(c, "only a reshape can be a copy");
    }
    if (n->op == DYN_OP_RESULT && n->storage >= n->args[0].id &&
        n->storage < c->id) { /* lies in the memory of an earlier result */
        return 0;
    }
    uint32_t want = view || dyn_node_stores(n) ? dyn_graph_node(c->g, n->args[0].id)->storage : c->id;
    return n->storage == want ? 0 : bad(c, "wrong storage");
}

/* Does shape a broadcast to the sizes of n (by hint)? */
static bool broadcasts(Check *c, const DynNode *a, const DynNode *n) {
    if (a->ndim > n->ndim) {
        return false;
    }
    for (int i = 0; i < a->ndim; i++) {
        int64_t h = hint(c->g, a->shape[i]);
        if (h != 1 && h != hint(c->g, n->shape[n->ndim - a->ndim + i])) {
            return false;
        }
    }
    return true;
}

static int check_reduce(Check *c, const DynNode *n, const DynNode *a) {
    uint32_t axes = 0;
    if (n->naux < 1 || (n->aux[0] != 0 && n->aux[0] != 1)) {
        return bad(c, "aux does not begin with keepdims");
    }
    for (int i = 1; i < n->naux; i++) {
        int64_t least = i > 1 ? n->aux[i - 1] + 1 : 0;
        if (n->aux[i] < least || n->aux[i] >= a->ndim) {
            return bad(c, "axes are not sorted axes of the operand");
        }
        axes |= 1u << n->aux[i];
    }
    int k = 0;
    for (int i = 0; i < a->ndim; i++) {
        bool gone = axes >> i & 1u;
        if (gone && !n->aux[0]) {
            continue;
        }
        if (k >= n->ndim || hint(c->g, n->shape[k]) != (gone ? 1 : hint(c->g, a->shape[i]))) {
            return bad(c, "sizes are not those that are left");
        }
        k++;
    }
    return k == n->ndim ? 0 : bad(c, "sizes are not those that are left");
}

static bool is_f32_or_f64(const DynNode *n) { return n->dtype == DYN_F64 || n->dtype == DYN_F32; }

static int check_histogram(Check *c, const DynNode *n, const DynNode *a) {
    for (int i = 0; i < n->nargs; i++) {
        if (n->nargs > 3 || n->args[i].kind != DYN_ARG_NODE) {
            return bad(c, "operands are not those of a histogram");
        }
    }
    const DynNode *edges = n->nargs > 1 ? dyn_graph_node(c->g, n->args[1].id) : NULL;
    const DynNode *weights = n->nargs > 2 ? dyn_graph_node(c->g, n->args[2].id) : NULL;
    if (edges == NULL || edges->dtype != DYN_F64 || !is_f32_or_f64(a) || n->compute != DYN_F64) {
        return bad(c, "dtypes are not those of a histogram");
    }
    if (weights != NULL && !is_f32_or_f64(weights)) {
        return bad(c, "dtypes are not those of a histogram");
    }
    if (n->dtype != (weights == NULL ? DYN_I64 : weights->dtype)) {
        return bad(c, "dtypes are not those of a histogram");
    }
    if (weights != NULL && (weights->ndim != 1 || hint(c->g, weights->shape[0]) != hint(c->g, a->shape[0]))) {
        return bad(c, "sizes are not those of a histogram");
    }
    bool vectors = n->ndim == 1 && a->ndim == 1 && edges->ndim == 1;
    if (!vectors || hint(c->g, edges->shape[0]) != hint(c->g, n->shape[0]) + 1) {
        return bad(c, "sizes are not those of a histogram");
    }
    return 0;
}

/* The rank of a running value or a position: `axis` < 0 stands for an array taken flat. */
static int rank_of_scan(bool position, int64_t axis, bool keepdims, int ndim) {
    if (!position) {
        return axis < 0 ? 1 : ndim;
    }
    if (keepdims) {
        return ndim;
    }
    return axis < 0 ? 0 : ndim - 1;
}

static int check_scan(Check *c, const DynNode *n, const DynNode *a) {
    if (n->op == DYN_OP_HISTOGRAM) {
        return check_histogram(c, n, a);
    }
    bool position = n->op == DYN_OP_ARGMAX || n->op == DYN_OP_ARGMIN;
    bool has_keepdims = n->naux == 2 && (n->aux[1] == 0 || n->aux[1] == 1);
    if (!has_keepdims || n->aux[0] < -1 || n->aux[0] >= a->ndim) {
        return bad(c, "aux is not an axis and keepdims");
    }
    if (a->dtype != n->compute || n->dtype != (position ? DYN_I64 : n->compute)) {
        return bad(c, "dtypes are not the operand's");
    }
    int rank = rank_of_scan(position, n->aux[0], n->aux[1], a->ndim);
    return n->ndim == rank ? 0 : bad(c, "rank does not fit the operand's");
}

static int check_gather(Check *c, const DynNode *n, const DynNode *a) {
    bool has_axis = n->naux == 1 && n->aux[0] >= 0 && n->aux[0] < a->ndim;
    if (n->args[1].kind != DYN_ARG_NODE || !has_axis || n->dtype != a->dtype) {
        return bad(c, "operands are not a table and places along one of its axes");
    }
    const DynNode *index = dyn_graph_node(c->g, n->args[1].id);
    if (dyn_dtypes[index->dtype].kind != 'i' && dyn_dtypes[index->dtype].kind != 'u') {
        return bad(c, "places are no integers");
    }
    if (n->ndim != a->ndim - 1 + index->ndim) {
        return bad(c, "rank does not fit the operands'");
    }
    for (int i = 0, axis = (int)n->aux[0]; i < n->ndim; i++) {
        bool placed = i >= axis && i < axis + index->ndim;
        int of_table = i < axis ? i : i - index->ndim + 1;
        if (hint(c->g, n->shape[i]) != hint(c->g, placed ? index->shape[i - axis] : a->shape[of_table])) {
            return bad(c, "sizes are not the operands'");
        }
    }
    return 0;
}

static int check_scatter(Check *c, const DynNode *n, const DynNode *a) {
    bool of_nodes = n->args[1].kind == DYN_ARG_NODE && n->args[2].kind == DYN_ARG_NODE;
    if (!of_nodes || n->naux != 1 || a->ndim == 0) {
        return bad(c, "operands are not a destination, a value and places");
    }
    const DynNode *value = dyn_graph_node(c->g, n->args[1].id), *index = dyn_graph_node(c->g, n->args[2].id);
    bool operates = n->aux[0] >= 0 && n->aux[0] < DYN_OP_COUNT && dyn_ops[n->aux[0]].kind == DYN_K_ELEMENTWISE;
    if (!operates && n->aux[0] != -1) {
        return bad(c, "aux is no operator");
    }
    if (dyn_dtypes[index->dtype].kind != 'i' && dyn_dtypes[index->dtype].kind != 'u') {
        return bad(c, "places are no integers");
    }
    int rank = index->ndim + a->ndim - 1;
    bool rank_fits = index->ndim > 0 && rank <= DYN_MAX_NDIM && value->ndim <= rank;
    if (!rank_fits || value->dtype != n->dtype) {
        return bad(c, "value does not fit the destination");
    }
    for (int i = 0; i < value->ndim; i++) {
        int at = rank - value->ndim + i;
        int64_t into = hint(c->g, at < index->ndim ? index->shape[at] : a->shape[at - index->ndim + 1]);
        if (hint(c->g, value->shape[i]) != 1 && hint(c->g, value->shape[i]) != into) {
            return bad(c, "value does not broadcast to the places");
        }
    }
    return 0;
}

static int check_slice(Check *c, const DynNode *n, const DynNode *a) {
    int axis = 0, rank = 0, arg = 1;
    for (int i = 0; i < n->naux; i++) {
        if (n->aux[i] < 0 || n->aux[i] > 2) {
            return bad(c, "unknown code in aux");
        }
        axis += n->aux[i] != 2;
        rank += n->aux[i] != 1;
        arg += n->aux[i] == 0 ? 3 : n->aux[i] == 1;
    }
    if (axis != a->ndim || rank != n->ndim || arg != n->nargs) {
        return bad(c, "index does not fit the base");
    }
    for (int i = 1; i < n->nargs; i++) {
        if (n->args[i].kind != DYN_ARG_SYM) {
            return bad(c, "bound is no symbol");
        }
    }
    return 0;
}

static int check_affine(Check *c, const DynNode *n, const DynNode *a) {
    int64_t total = 1;
    if (n->nargs != 1 + a->ndim || n->naux != a->ndim * n->ndim) {
        return bad(c, "operands do not fit the ranks");
    }
    for (int i = 0; i < n->ndim; i++) {
        total *= hint(c->g, n->shape[i]);
    }
    for (int k = 0; k < a->ndim; k++) {
        if (n->args[1 + k].kind != DYN_ARG_SYM) {
            return bad(c, "start is no symbol");
        }
        int64_t low = hint(c->g, n->args[1 + k].id), high = low;
        for (int i = 0; i < n->ndim; i++) {
            int64_t way = n->aux[k * n->ndim + i] * (hint(c->g, n->shape[i]) - 1);
            *(way < 0 ? &low : &high) += way;
        }
        if (total > 0 && (low < 0 || high >= hint(c->g, a->shape[k]))) {
            return bad(c, "leaves the base");
        }
    }
    return 0;
}

/* Sizes of the base, but along the last axis, which has as many bytes as the base's. */
static bool same_bytes(const Check *c, const DynNode *n, const DynNode *a) {
    int64_t size = dyn_dtypes[n->dtype].size, of_base = dyn_dtypes[a->dtype].size;
    bool same = size == of_base || n->ndim > 0;
    for (int i = 0; same && i < n->ndim; i++) {
        int64_t here = hint(c->g, n->shape[i]), there = hint(c->g, a->shape[i]);
        same = i == n->ndim - 1 ? here * size == there * of_base : here == there;
    }
    return same;
}

static int check_view(Check *c, const DynNode *n, const DynNode *a) {
    if (n->op == DYN_OP_AS_DTYPE) {
        bool data = dyn_graph_is_data(n) && n->aux[1] == 1 && n->dtype == a->dtype;
        bool names_dtype = (n->naux == 1 || data) && n->aux[0] == n->dtype;
        return names_dtype && n->ndim == a->ndim && same_bytes(c, n, a) ? 0 : bad(c, "other sizes");
    }
    if (n->op == DYN_OP_REAL || n->op == DYN_OP_IMAG) {
        if (n->dtype != dyn_dtype_real((DynDtype)a->dtype) || n->dtype == a->dtype) {
            return bad(c, "no part of a complex number");
        }
        return n->ndim == a->ndim && broadcasts(c, a, n) && broadcasts(c, n, a) ? 0 : bad(c, "sizes are not the operand's");
    }
    if (n->dtype != a->dtype) {
        return bad(c, "view of another dtype");
    }
    if (n->op == DYN_OP_SLICE) {
        return check_slice(c, n, a);
    }
    if (n->op == DYN_OP_AFFINE) {
        return check_affine(c, n, a);
    }
    if (n->op == DYN_OP_BROADCAST) {
        return broadcasts(c, a, n) ? 0 : bad(c, "does not broadcast");
    }
    if (n->op == DYN_OP_PERMUTE) {
        uint32_t seen = 0;
        if (n->naux != a->ndim || n->ndim != a->ndim) {
            return bad(c, "no permutation of the operand's axes");
        }
        for (int i = 0; i < n->naux; i++) {
            if (n->aux[i] < 0 || n->aux[i] >= a->ndim || (seen >> n->aux[i] & 1u)) {
                return bad(c, "no permutation of the operand's axes");
            }
            if (hint(c->g, n->shape[i]) != hint(c->g, a->shape[n->aux[i]])) {
                return bad(c, "sizes are not the operand's");
            }
            seen |= 1u << n->aux[i];
        }
        return 0;
    }
    int64_t have = 1, want = 1;
    for (int i = 0; i < a->ndim; i++) {
        have *= hint(c->g, a->shape[i]);
    }
    for (int i = 0; i < n->ndim; i++) {
        want *= hint(c->g, n->shape[i]);
    }
    return have == want ? 0 : bad(c, "number of elements changes");
}

static int check_kind(Check *c, const DynNode *n) {
    const DynNode *a = n->nargs > 0 && n->args[0].kind == DYN_ARG_NODE ? dyn_graph_node(c->g, n->args[0].id) : NULL;
    switch (dyn_ops[n->op].kind) {
    case DYN_K_ELEMENTWISE:
        for (int i = 0; i < n->nargs; i++) {
            if (n->args[i].kind == DYN_ARG_NODE && !broadcasts(c, dyn_graph_node(c->g, n->args[i].id), n)) {
                return bad(c, "operand does not broadcast to the result");
            }
        }
        return 0;
    case DYN_K_REDUCE: return check_reduce(c, n, a);
    case DYN_K_VIEW: return check_view(c, n, a);
    case DYN_K_COPY:
    case DYN_K_STORE:
        if (a->ndim != n->ndim || !broadcasts(c, a, n) || !broadcasts(c, n, a)) {
            return bad(c, "sizes are not the operand's");
        }
        if (dyn_node_stores(n) && n->dtype != a->dtype) {
            return bad(c, "dtype is not the destination's");
        }
        if (n->op == DYN_OP_SCATTER) {
            return check_scatter(c, n, a);
        }
        if (n->op == DYN_OP_STORE && n->args[1].kind == DYN_ARG_NODE && !broadcasts(c, dyn_graph_node(c->g, n->args[1].id), a)) {
            return bad(c, "value does not broadcast to the destination");
        }
        return 0;
    case DYN_K_SCAN: return check_scan(c, n, a);
    case DYN_K_GATHER: return check_gather(c, n, a);
    case DYN_K_CREATE:
        if (n->op == DYN_OP_IOTA) {
            return n->ndim == 1 && n->dtype == DYN_I64 ? 0 : bad(c, "no list of places");
        }
        return (n->op == DYN_OP_SCALAR || n->op == DYN_OP_COMPLEX) && n->ndim != 0 ? bad(c, "scalar of a rank") : 0;
    case DYN_K_RESULT: return a == NULL || !dyn_node_calls(a) || n->args[0].id >= c->id ? bad(c, "operand is no extern call") : 0;
    case DYN_K_EXTERN: return c->g->externs.n > 0 && n->extern_index >= c->g->externs.n ? bad(c, "no such extern row") : 0;
    default: return n->source == DYN_NONE ? bad(c, "input without a source") : 0;
    }
}

static int check_lists(const DynGraph *g, DynStr *error) {
    uint32_t ninputs = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (g->nodes.at[i].op != DYN_OP_INPUT) {
            continue;
        }
        if (ninputs >= g->inputs.n || g->inputs.at[ninputs] != i) {
            dyn_str_printf(error, "%%%u is an input that is not in its place in the list of inputs", i);
            return -1;
        }
        ninputs++;
    }
    if (ninputs != g->inputs.n) {
        dyn_str_puts(error, "the list of inputs is longer than there are inputs");
        return -1;
    }
    for (uint32_t i = 0; i < g->checks.n; i++) {
        if (g->checks.at[i] >= g->syms->v.n || !dyn_sym_is_late(g->syms, g->checks.at[i]) ||
            dyn_sym_at(g->syms, g->checks.at[i])->type != DYN_T_BOOL) {
            dyn_str_printf(error, "check %u is no late bool", i);
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        if (g->outputs.at[i] >= g->nodes.n || dyn_node_stores(&g->nodes.at[g->outputs.at[i]])) {
            dyn_str_printf(error, "output %u is no node with a value", i);
            return -1;
        }
    }
    return 0;
}

int dyn_graph_verify(const DynGraph *g, DynStr *error) {
    Check c = {g, 0, error};
    for (; c.id < g->nodes.n; c.id++) {
        const DynNode *n = dyn_graph_node(g, c.id);
        if (n->op >= DYN_OP_COUNT) {
            return bad(&c, "no such operator");
        }
        if (check_operands(&c, n) < 0 || check_types(&c, n) < 0 || check_storage(&c, n) < 0 || check_kind(&c, n) < 0) {
            return -1;
        }
    }
    return check_lists(g, error);
}
