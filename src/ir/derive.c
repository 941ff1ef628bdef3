/* derive.c: reverse mode: gradients of a graph as nodes of the same graph.
 *
 * Called by evalframe/follow.c for parts of graphs that autograd follows, with a copy of the part's nodes; dyn_derive_knows is
 * the recorder's question. Nodes are walked from the last to the first. The gradient of an elementwise node goes to its operands
 * by the row's expressions in ops.def (or by the formula of a whole, DynGraph.formulas), summed over what was broadcast and
 * converted to the operand's dtype; views hand it on by views. Where a view takes a part of its base, and where memory is
 * written (STORE), gradients meet in a buffer of the base's sizes: reading adds to it, a STORE takes from it what it wrote and
 * leaves zeros, which is exact for memory that changes, as the walk goes backwards through its states. Reductions, running sums,
 * products and lookups are derive_arrays.c. */
#include "ir/derive_part.h"
#include "ir/extern.h"
#include <ctype.h>
#include <stdlib.h>

static int64_t hint(const DynGraph *g, uint32_t sym) { return dyn_sym_at(g->syms, sym)->hint.i; }
static bool is_half(uint8_t dtype) { return dyn_dtype_is_half((DynDtype)dtype); }
static bool is_complex(uint8_t dtype) { return dyn_dtypes[dtype].kind == 'c'; }

/* Expressions of halves round each operator, as PyTorch does, which makes a call of each; but where one operator of PyTorch's
 * gives the gradient, it is computed in float. */
static uint8_t wide(uint8_t dtype) { return is_half(dtype) ? DYN_F32 : dtype; }

int dyn_graph_formula(DynGraph *g, uint32_t node, const DynArg *operands, const char *text) {
    DynFormula f = {.node = node, .text = dyn_arena_strdup(g->arena, text)};
    memcpy(f.operands, operands, sizeof(f.operands));
    return f.text == NULL ? -1 : dyn_vec_push(&g->formulas, f);
}

const DynFormula *dyn_graph_formula_of(const DynGraph *g, uint32_t node) {
    for (uint32_t i = g->formulas.n; i-- > 0 && g->formulas.at[i].node >= node;) {
        if (g->formulas.at[i].node == node) {
            return &g->formulas.at[i];
        }
    }
    return NULL;
}

int dyn_derive_fail(Derive *d, uint32_t id, const char *what) {
    d->failed = id;
    dyn_str_printf(d->error, "%%%u (%s): %s", id, dyn_ops[node_at(d, id)->op].text, what);
    return -1;
}

/* ---- which nodes */

bool dyn_derive_follows(const DynNode *n) {
    bool detached = n->op == DYN_OP_AS_DTYPE || (n->flags & DYN_NODE_UNFOLLOWED) != 0;
    return !detached && dyn_dtype_is_inexact((DynDtype)n->dtype);
}

/* The part of a row's derivatives that is operand k's; NULL: none is known. */
static const char *expression_for(const DynOpInfo *op, int k) {
    const char *at = op->deriv;
    for (; at != NULL && k > 0; k--) {
        at = strchr(at, ';');
        at = at == NULL ? NULL : at + 1;
    }
    while (at != NULL && *at == ' ') {
        at++;
    }
    return at == NULL || *at == '-' ? NULL : at;
}

static bool wants_gradient(const DynGraph *g, DynArg arg) {
    return arg.kind == DYN_ARG_NODE && (dyn_graph_node(g, arg.id)->flags & DYN_NODE_GRAD);
}

/* Is the operator's derivative at the conjugate of a number the conjugate of its derivative there? By PyTorch's convention the
 * gradient of complex numbers is then the row's expression with the conjugates of all that it reads but g. */
static bool is_analytic(DynOp op) {
    switch (op) {
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT:
    case DYN_OP_MULTIPLY:
    case DYN_OP_DIVIDE:
    case DYN_OP_NEGATIVE:
    case DYN_OP_POSITIVE:
    case DYN_OP_CONJUGATE:
    case DYN_OP_SQUARE:
    case DYN_OP_RECIPROCAL:
    case DYN_OP_SQRT:
    case DYN_OP_EXP:
    case DYN_OP_LOG:
    case DYN_OP_SIN:
    case DYN_OP_COS:
    case DYN_OP_TAN:
    case DYN_OP_SINH:
    case DYN_OP_COSH:
    case DYN_OP_TANH: return true;
    default: return false;
    }
}

/* Can its element type be derived in, by this operator? */
static bool has_known_dtype(const DynGraph *g, const DynNode *n) {
    if (is_complex(n->compute) || is_complex(n->dtype)) {
        bool elementwise = dyn_ops[n->op].kind == DYN_K_ELEMENTWISE;
        return is_complex(n->compute) && is_complex(n->dtype) && (!elementwise || is_analytic((DynOp)n->op));
    }
    bool half = is_half(n->compute) || is_half(n->dtype);
    bool inexact = dyn_dtype_is_inexact((DynDtype)n->compute) && dyn_dtype_is_inexact((DynDtype)n->dtype);
    return inexact && !(half && g->device != 0);
}

bool dyn_derive_knows(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    const DynOpInfo *op = &dyn_ops[n->op];
    if (!has_known_dtype(g, n)) {
        return false;
    }
    switch (op->kind) {
    case DYN_K_ELEMENTWISE:
        for (int k = 0; k < n->nargs; k++) {
            if (wants_gradient(g, n->args[k]) && expression_for(op, k) == NULL) {
                return false;
            }
        }
        return true;
    case DYN_K_REDUCE: return n->op == DYN_OP_SUM;
    case DYN_K_VIEW:
        return n->op == DYN_OP_SLICE || n->op == DYN_OP_PERMUTE || n->op == DYN_OP_RESHAPE || n->op == DYN_OP_BROADCAST;
    case DYN_K_GATHER: /* it adds up by SCATTER, which has no loops for halves */
        return n->aux[0] == 0 && !(n->flags & DYN_NODE_TURNED) && g->device == 0 && !is_half(n->dtype);
    case DYN_K_COPY: {
        uint8_t from = dyn_graph_node(g, n->args[0].id)->dtype;
        return dyn_dtype_is_inexact((DynDtype)from) && (is_complex(n->dtype) || !is_complex(from));
    }
    case DYN_K_STORE: return n->op == DYN_OP_STORE;
    default: return false;
    }
}

bool dyn_derive_chains(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    switch (n->op) {
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT:
    case DYN_OP_MULTIPLY:
    case DYN_OP_NEGATIVE:
    case DYN_OP_POSITIVE:
    case DYN_OP_SQUARE:
    case DYN_OP_ABSOLUTE:
    case DYN_OP_SUM:
    case DYN_OP_COPY: return true;
    case DYN_OP_DIVIDE: return !wants_gradient(g, n->args[1]);
    default: return dyn_ops[n->op].kind == DYN_K_VIEW;
    }
}

void dyn_derive_reach(const DynGraph *g, uint32_t n, bool *reached) {
    for (uint32_t i = 0; i < n; i++) {
        const DynNode *node = dyn_graph_node(g, i);
        bool store = dyn_node_stores(node);
        if (!dyn_derive_follows(node)) {
            continue;
        }
        for (int k = store; k < node->nargs && !reached[i]; k++) {
            reached[i] = node->args[k].kind == DYN_ARG_NODE && reached[node->args[k].id];
        }
        if (!reached[i] && !store) {
            reached[i] = node->storage != i && reached[node->storage];
        }
        if (reached[i] && store) { /* what stands there from now on depends on it */
            reached[node->storage] = true;
        }
    }
}

/* ---- making nodes */

uint32_t dyn_derive_like(Derive *d, DynOp op, const DynNode *like, int nargs, int naux) {
    const DynNode copy = *like;
    uint32_t id = dyn_graph_add(d->g, op, (DynDtype)copy.dtype, copy.ndim, nargs, naux);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        memcpy(n->shape, copy.shape, sizeof(*n->shape) * copy.ndim);
        n->flags = DYN_NODE_TENSOR & copy.flags;
    }
    return id;
}

/* A view of `base` that is to `base` what the view node `like` is to its own. */
uint32_t dyn_derive_same_view(Derive *d, uint32_t like, uint32_t base) {
    const DynNode of = *node_at(d, like);
    uint32_t id = dyn_derive_like(d, (DynOp)of.op, &of, of.nargs, of.naux);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        memcpy(n->args, of.args, sizeof(*of.args) * of.nargs);
        memcpy(n->aux, of.aux, sizeof(*of.aux) * of.naux);
        n->args[0].id = base;
        n->flags |= of.flags & (DYN_NODE_VIEW | DYN_NODE_CONTIG_COPY | DYN_NODE_READONLY);
        n->storage = n->flags & DYN_NODE_VIEW ? node_at(d, base)->storage : id;
    }
    return id;
}

uint32_t dyn_derive_unary(Derive *d, DynOp op, DynDtype dtype, uint32_t of, int ndim, int naux) {
    uint32_t id = dyn_graph_add(d->g, op, dtype, ndim, 1, naux);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        n->args[0] = (DynArg){DYN_ARG_NODE, of};
        n->flags = node_at(d, of)->flags & DYN_NODE_TENSOR;
    }
    return id;
}

uint32_t dyn_derive_view(Derive *d, DynOp op, uint32_t of, int ndim, const uint32_t *shape, int naux) {
    uint32_t id = of == DYN_NONE ? of : dyn_derive_unary(d, op, (DynDtype)node_at(d, of)->dtype, of, ndim, naux);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
        n->flags |= DYN_NODE_VIEW;
        n->storage = node_at(d, of)->storage;
    }
    return id;
}

/* In other sizes; the elements in C order are copied. */
uint32_t dyn_derive_reshaped(Derive *d, uint32_t of, const DynNode *to) {
    uint32_t shape[DYN_MAX_NDIM];
    int ndim = to->ndim;
    memcpy(shape, to->shape, sizeof(*shape) * (size_t)ndim);
    uint32_t id = of == DYN_NONE ? of : dyn_derive_unary(d, DYN_OP_RESHAPE, (DynDtype)node_at(d, of)->dtype, of, ndim, 0);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
        n->flags |= DYN_NODE_CONTIG_COPY;
    }
    return id;
}

uint32_t dyn_derive_converted(Derive *d, uint32_t of, uint8_t dtype) {
    if (of == DYN_NONE || node_at(d, of)->dtype == dtype) {
        return of;
    }
    uint32_t id = dyn_derive_unary(d, DYN_OP_COPY, (DynDtype)dtype, of, node_at(d, of)->ndim, 0);
    if (id != DYN_NONE) {
        memcpy(dyn_graph_node(d->g, id)->shape, node_at(d, of)->shape, sizeof(uint32_t) * node_at(d, of)->ndim);
        dyn_graph_node(d->g, id)->layout = node_at(d, of)->layout;
    }
    return id;
}

uint32_t dyn_derive_reduce(Derive *d, DynOp op, uint32_t of, int naxes, const int *axes, bool keepdims) {
    of = dyn_derive_converted(d, of, wide(node_at(d, of)->dtype));
    if (of == DYN_NONE) {
        return of;
    }
    uint32_t one = dyn_sym_int(d->g->syms, 1), shape[DYN_MAX_NDIM];
    int ndim = 0, ndim_of = node_at(d, of)->ndim;
    for (int i = 0, at = 0; i < ndim_of; i++) {
        bool gone = at < naxes && axes[at] == i;
        at += gone;
        if (!gone || keepdims) {
            shape[ndim++] = gone ? one : node_at(d, of)->shape[i];
        }
    }
    uint32_t id = dyn_derive_unary(d, op, (DynDtype)node_at(d, of)->dtype, of, ndim, 1 + naxes);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
        n->aux[0] = keepdims;
        for (int i = 0; i < naxes; i++) {
            n->aux[1 + i] = axes[i];
        }
    }
    return id;
}

/* What an operand of node `to`'s sizes gets of `gradient`: summed over the axes along which it was broadcast. */
uint32_t dyn_derive_summed_to(Derive *d, uint32_t gradient, uint32_t to) {
    int axes[DYN_MAX_NDIM], n = 0, extra = node_at(d, gradient)->ndim - node_at(d, to)->ndim;
    for (; n < extra; n++) {
        axes[n] = n;
    }
    gradient = n > 0 ? dyn_derive_reduce(d, DYN_OP_SUM, gradient, n, axes, false) : gradient;
    n = 0;
    for (int i = 0; gradient != DYN_NONE && i < node_at(d, to)->ndim; i++) {
        bool one = hint(d->g, node_at(d, to)->shape[i]) == 1;
        if (one && hint(d->g, node_at(d, gradient)->shape[i]) != 1) {
            axes[n++] = i;
        }
    }
    return gradient == DYN_NONE || n == 0 ? gradient : dyn_derive_reduce(d, DYN_OP_SUM, gradient, n, axes, true);
}

/* ---- what an expression's operators make */

static DynSymOp folding(DynOp op) {
    switch (op) {
    case DYN_OP_ADD: return DYN_S_ADD;
    case DYN_OP_SUBTRACT: return DYN_S_SUB;
    case DYN_OP_MULTIPLY: return DYN_S_MUL;
    case DYN_OP_DIVIDE: return DYN_S_TRUEDIV;
    case DYN_OP_NEGATIVE: return DYN_S_NEG;
    case DYN_OP_EQUAL: return DYN_S_EQ;
    case DYN_OP_GREATER_EQUAL: return DYN_S_GE;
    default: return DYN_S_CONST;
    }
}

static bool are_constants(const Derive *d, const DynArg *args, int n) {
    for (int k = 0; k < n; k++) {
        if (args[k].kind != DYN_ARG_SYM || !dyn_sym_is_const(d->g->syms, args[k].id)) {
            return false;
        }
    }
    return true;
}

/* The operand whose sizes all others broadcast to; DYN_NONE: there is none. */
static uint32_t widest(const Derive *d, const DynArg *args, int n) {
    for (int k = 0; k < n; k++) {
        bool wide = args[k].kind == DYN_ARG_NODE;
        for (int j = 0; wide && j < n; j++) {
            const DynNode *a = node_at(d, args[k].id), *b = args[j].kind == DYN_ARG_NODE ? node_at(d, args[j].id) : NULL;
            wide = b == NULL || b->ndim <= a->ndim;
            for (int i = 0; wide && b != NULL && i < b->ndim; i++) {
                int64_t size = hint(d->g, b->shape[i]);
                wide = size == 1 || size == hint(d->g, a->shape[a->ndim - b->ndim + i]);
            }
        }
        if (wide) {
            return args[k].id;
        }
    }
    return DYN_NONE;
}

static bool has_node(const DynArg *args, int n) {
    for (int k = 0; k < n; k++) {
        if (args[k].kind == DYN_ARG_NODE) {
            return true;
        }
    }
    return false;
}

DynArg dyn_derive_apply(Emit *e, DynOp op, const DynArg *args, int n) {
    Derive *d = e->d;
    uint32_t like = widest(d, args, n);
    bool truth_of_numbers = dyn_ops[op].dtype == DYN_DT_COMPARE && !are_constants(d, args, n); /* no operand of `where` */
    if (!has_node(args, n) && folding(op) != DYN_S_CONST && !truth_of_numbers) {
        uint32_t sym = dyn_sym_op(d->g->syms, folding(op), args[0].id, n > 1 ? args[1].id : DYN_NONE, DYN_NONE);
        return sym == DYN_NONE ? nothing : (DynArg){DYN_ARG_SYM, sym};
    }
    if (op == DYN_OP_WHERE && args[0].kind == DYN_ARG_SYM && dyn_sym_is_const(d->g->syms, args[0].id)) {
        return args[dyn_sym_at(d->g->syms, args[0].id)->value.i != 0 ? 1 : 2];
    }
    like = like == DYN_NONE ? e->id : like;
    uint8_t kind = dyn_ops[op].dtype;
    bool truth = kind == DYN_DT_COMPARE || kind == DYN_DT_LOGICAL || kind == DYN_DT_BOOL;
    int ndim = has_node(args, n) ? node_at(d, like)->ndim : 0;
    uint32_t id = dyn_graph_add(d->g, op, truth ? DYN_BOOL : (DynDtype)e->compute, ndim, n, 0);
    if (id == DYN_NONE) {
        return nothing;
    }
    DynNode *node = dyn_graph_node(d->g, id);
    const DynNode *of = node_at(d, like);
    node->compute = kind == DYN_DT_LOGICAL ? DYN_BOOL : e->compute;
    memcpy(node->args, args, sizeof(*args) * (size_t)n);
    memcpy(node->shape, of->shape, sizeof(*of->shape) * (size_t)ndim);
    if (ndim == of->ndim) {
        node->layout = of->layout;
        node->layout.still = 0;
    }
    node->flags = node_at(d, e->id)->flags & DYN_NODE_TENSOR;
    return (DynArg){DYN_ARG_NODE, id};
}

/* ---- reading an expression: a number, a letter, or operator(expression, …) */

static DynArg expression(Emit *e);

static void blanks(Emit *e) {
    while (*e->at == ' ') {
        e->at++;
    }
}

static DynArg call(Emit *e, const char *name, size_t length) {
    char text[32];
    DynArg args[3];
    int n = 0;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    int op = dyn_op_parse(text);
    do {
        e->at++; /* the parenthesis, or a comma */
        args[n] = expression(e);
        if (op < 0 || args[n].kind == DYN_ARG_NONE) {
            return nothing;
        }
        n++;
        blanks(e);
    } while (*e->at == ',' && n < 3);
    bool closed = *e->at == ')' && dyn_ops[op].arity == n;
    e->at += closed;
    return closed ? dyn_derive_apply(e, (DynOp)op, args, n) : nothing;
}

/* What an expression reads: of complex numbers the conjugates. */
static DynArg read_by(Emit *e, DynArg value) {
    bool has_other = value.kind == DYN_ARG_NODE && is_complex(node_at(e->d, value.id)->dtype);
    return has_other ? dyn_derive_apply(e, DYN_OP_CONJUGATE, &value, 1) : value;
}

static DynArg expression(Emit *e) {
    blanks(e);
    if (isdigit((unsigned char)*e->at) || *e->at == '-') {
        char *end;
        double value = strtod(e->at, &end);
        e->at = end;
        uint32_t sym = dyn_sym_float(e->d->g->syms, value);
        return sym == DYN_NONE ? nothing : (DynArg){DYN_ARG_SYM, sym};
    }
    const char *name = e->at;
    while (isalnum((unsigned char)*e->at) || *e->at == '_') {
        e->at++;
    }
    size_t length = (size_t)(e->at - name);
    if (*e->at == '(') {
        return call(e, name, length);
    }
    if (length != 1) {
        return nothing;
    }
    switch (*name) {
    case 'g': return e->g;
    case 'r': return read_by(e, (DynArg){DYN_ARG_NODE, e->result});
    default: return *name >= 'a' && *name <= 'c' ? read_by(e, e->operands[*name - 'a']) : nothing;
    }
}

/* ---- where gradients meet */

static uint32_t binary(Derive *d, DynOp op, uint32_t a, uint32_t b) {
    Emit e = {.d = d, .id = a, .compute = node_at(d, a)->dtype};
    DynArg args[2] = {{DYN_ARG_NODE, a}, {DYN_ARG_NODE, b}};
    return dyn_derive_apply(&e, op, args, 2).id;
}

uint32_t dyn_derive_sum(DynGraph *g, uint32_t a, uint32_t b) {
    Derive d = {.g = g};
    return binary(&d, DYN_OP_ADD, a, b);
}

static bool is_written(const Derive *d, uint32_t id) { return d->last_store[node_at(d, id)->storage] != 0; }

/* Is an element of the node one of its storage, and no element two? Not where it was broadcast. */
static bool is_direct(const Derive *d, uint32_t id) {
    const DynNode *n = node_at(d, id);
    while (n->flags & DYN_NODE_VIEW && n->op != DYN_OP_BROADCAST) {
        n = node_at(d, n->args[0].id);
    }
    return !(n->flags & DYN_NODE_VIEW);
}

static uint32_t zeros_like(Derive *d, uint32_t id) {
    uint32_t zero = dyn_sym_float(d->g->syms, 0);
    uint32_t made = zero == DYN_NONE ? zero : dyn_derive_like(d, DYN_OP_FULL, node_at(d, id), 1, 0);
    if (made != DYN_NONE) {
        dyn_graph_node(d->g, made)->args[0] = (DynArg){DYN_ARG_SYM, zero};
    }
    return made;
}

/* The buffer of zeros of a node that owns its memory, made when it is first needed. */
uint32_t dyn_derive_buffer(Derive *d, uint32_t id) {
    if (d->buffers[id] == DYN_NONE) {
        d->buffers[id] = zeros_like(d, id);
    }
    return d->buffers[id];
}

static uint32_t store(Derive *d, uint32_t to, DynArg value) {
    uint32_t id = dyn_derive_like(d, DYN_OP_STORE, node_at(d, to), 2, 0);
    if (id != DYN_NONE) {
        DynNode *n = dyn_graph_node(d->g, id);
        n->args[0] = (DynArg){DYN_ARG_NODE, to};
        n->args[1] = value;
        n->storage = node_at(d, to)->storage;
        n->flags = 0;
    }
    return id;
}

/* The view of the buffer that node `id` is of its base: the whole, or through the views between. */
static uint32_t window_of(Derive *d, uint32_t id) {
    if (!(node_at(d, id)->flags & DYN_NODE_VIEW)) {
        return dyn_derive_buffer(d, id);
    }
    uint32_t base = window_of(d, node_at(d, id)->args[0].id);
    return base == DYN_NONE ? base : dyn_derive_same_view(d, id, base);
}

int dyn_derive_add_into(Derive *d, uint32_t window, uint32_t gradient) {
    uint32_t sum = window == DYN_NONE || gradient == DYN_NONE ? DYN_NONE : binary(d, DYN_OP_ADD, window, gradient);
    return sum == DYN_NONE || store(d, window, (DynArg){DYN_ARG_NODE, sum}) == DYN_NONE ? -1 : 0;
}

static uint32_t real_part(Derive *d, uint32_t of) {
    const DynNode n = *node_at(d, of);
    uint32_t id = dyn_derive_unary(d, DYN_OP_REAL, dyn_dtype_real((DynDtype)n.dtype), of, n.ndim, 0);
    if (id != DYN_NONE) {
        DynNode *view = dyn_graph_node(d->g, id);
        memcpy(view->shape, n.shape, sizeof(*n.shape) * n.ndim);
        view->layout = n.layout;
        view->layout.kind = n.ndim > 0 ? DYN_LAYOUT_STRIDED : DYN_LAYOUT_C;
        view->flags |= DYN_NODE_VIEW;
        view->storage = n.storage;
    }
    return id;
}

/* More gradient of node `id`, of its sizes or larger ones. */
int dyn_derive_contribute(Derive *d, uint32_t id, uint32_t gradient) {
    if (gradient == DYN_NONE) {
        return -1;
    }
    if (is_complex(node_at(d, gradient)->dtype) && !is_complex(node_at(d, id)->dtype)) { /* of real numbers it is real */
        gradient = real_part(d, gradient);
    }
    gradient = gradient == DYN_NONE ? gradient : dyn_derive_summed_to(d, gradient, id);
    gradient = dyn_derive_converted(d, gradient, node_at(d, id)->dtype);
    if (gradient == DYN_NONE) {
        return -1;
    }
    if (is_written(d, id) && is_direct(d, id)) {
        return dyn_derive_add_into(d, window_of(d, id), gradient);
    }
    if (is_written(d, id) && d->last_store[node_at(d, id)->storage] > id + 1) {
        return dyn_derive_fail(d, id, "what it shows is written later");
    }
    uint32_t *sum = &d->gradients[id];
    *sum = *sum == DYN_NONE ? gradient : binary(d, DYN_OP_ADD, *sum, gradient);
    return *sum == DYN_NONE ? -1 : 0;
}

/* ---- one node's gradient goes to its operands */

/* The operands and the result that an expression reads become what they were. */
static int find_what_was(Derive *d, Emit *e, const char *text) {
    for (const char *at = text; *at != 0 && *at != ';'; at++) {
        bool letter = !isalnum((unsigned char)at[1]) && at[1] != '_' && (at == text || !isalnum((unsigned char)at[-1]));
        DynArg *arg = letter && *at >= 'a' && *at <= 'c' ? &e->operands[*at - 'a'] : NULL;
        if (arg != NULL && arg->kind == DYN_ARG_NODE && arg->id < d->n) {
            arg->id = dyn_derive_value_at(d, e->id, arg->id);
        }
        if (letter && *at == 'r' && e->result == e->id) { /* written at the soonest behind it */
            e->result = dyn_derive_value_at(d, e->id + 1, e->id);
        }
        if (e->result == DYN_NONE || (arg != NULL && arg->id == DYN_NONE && arg->kind == DYN_ARG_NODE)) {
            return -1;
        }
    }
    return 0;
}

static int by_expression(Derive *d, Emit *e, const char *text, uint32_t to) {
    if (text == NULL) {
        return dyn_derive_fail(d, e->id, "no derivative is known");
    }
    if (find_what_was(d, e, text) < 0) {
        return -1;
    }
    e->at = text;
    DynArg value = expression(e);
    if (value.kind == DYN_ARG_SYM) { /* 0: it has a gradient, of zeros */
        return dyn_derive_contribute(d, to, zeros_like(d, to));
    }
    return value.kind == DYN_ARG_NONE ? dyn_derive_fail(d, e->id, "its derivative can't be written down")
                                      : dyn_derive_contribute(d, to, value.id);
}

static int through_elementwise(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    Emit e = {.d = d, .id = id, .g = {DYN_ARG_NODE, gradient}, .result = id, .compute = n.compute};
    if (n.op == DYN_OP_TANH || n.op == DYN_OP_ARCTAN2) {
        e.compute = wide(n.compute);
    }
    for (int k = 0; k < 3; k++) {
        e.operands[k] = k < n.nargs ? n.args[k] : nothing;
    }
    for (int k = 0; k < n.nargs; k++) {
        if (is_wanted(d, n.args[k]) && by_expression(d, &e, expression_for(&dyn_ops[n.op], k), n.args[k].id) < 0) {
            return -1;
        }
    }
    return 0;
}

static int through_formula(Derive *d, const DynFormula *f, uint32_t gradient) {
    Emit e = {.d = d, .id = f->node, .g = {DYN_ARG_NODE, gradient}, .result = f->node};
    e.compute = wide(node_at(d, f->node)->dtype);
    memcpy(e.operands, f->operands, sizeof(e.operands));
    uint32_t of = f->operands[0].id;
    return d->reached[of] ? by_expression(d, &e, f->text, of) : 0;
}

/* May two elements of an AFFINE view be one of its base's? Not where no axis of the base is walked along by two of the view's,
 * and each of those walks. */
static bool overlaps_itself(const DynNode *n, int ndim_of_base) {
    for (int i = 0; i < n->ndim; i++) {
        bool walks = false;
        for (int k = 0; k < ndim_of_base; k++) {
            walks = walks || n->aux[k * n->ndim + i] != 0;
            for (int j = 0; j < i && n->aux[k * n->ndim + i] != 0; j++) {
                if (n->aux[k * n->ndim + j] != 0) {
                    return true;
                }
            }
        }
        if (!walks) {
            return true;
        }
    }
    return false;
}

static int through_view(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    uint32_t base = n.args[0].id;
    switch (n.op) {
    case DYN_OP_BROADCAST:
    case DYN_OP_REAL: return dyn_derive_contribute(d, base, gradient);
    case DYN_OP_RESHAPE: return dyn_derive_contribute(d, base, dyn_derive_reshaped(d, gradient, node_at(d, base)));
    case DYN_OP_PERMUTE: {
        uint32_t back = dyn_derive_view(d, DYN_OP_PERMUTE, gradient, n.ndim, node_at(d, base)->shape, n.ndim);
        for (int i = 0; back != DYN_NONE && i < n.ndim; i++) {
            dyn_graph_node(d->g, back)->aux[n.aux[i]] = i;
        }
        return dyn_derive_contribute(d, base, back);
    }
    case DYN_OP_SLICE: break;
    case DYN_OP_AFFINE:
        if (overlaps_itself(&n, node_at(d, base)->ndim)) {
            return dyn_derive_fail(d, id, "no derivative is known of windows that overlap");
        }
        break;
    default: return dyn_derive_fail(d, id, "no derivative is known");
    }
    uint32_t b = dyn_derive_buffer(d, base), window = b == DYN_NONE ? b : dyn_derive_same_view(d, id, b);
    return dyn_derive_add_into(d, window, gradient);
}

/* What was stored takes what came together where it was stored, and leaves zeros. */
static int through_store(Derive *d, uint32_t id) {
    const DynNode n = *node_at(d, id);
    uint32_t window = window_of(d, n.args[0].id);
    uint32_t zero = dyn_sym_float(d->g->syms, 0);
    if (window == DYN_NONE || zero == DYN_NONE) {
        return -1;
    }
    if (n.op != DYN_OP_STORE) {
        return dyn_derive_through_scatter(d, id, window);
    }
    if (is_wanted(d, n.args[1])) {
        uint32_t taken = dyn_derive_unary(d, DYN_OP_COPY, (DynDtype)n.dtype, window, n.ndim, 0);
        if (taken == DYN_NONE) {
            return -1;
        }
        memcpy(dyn_graph_node(d->g, taken)->shape, n.shape, sizeof(*n.shape) * n.ndim);
        if (store(d, window, (DynArg){DYN_ARG_SYM, zero}) == DYN_NONE) {
            return -1;
        }
        return dyn_derive_contribute(d, n.args[1].id, taken);
    }
    return store(d, window, (DynArg){DYN_ARG_SYM, zero}) == DYN_NONE ? -1 : 0;
}

static int through(Derive *d, uint32_t id, uint32_t gradient) {
    const DynFormula *f = dyn_graph_formula_of(d->g, id);
    if (f != NULL) {
        return through_formula(d, f, gradient);
    }
    const DynNode *n = node_at(d, id);
    switch (dyn_ops[n->op].kind) {
    case DYN_K_INPUT:
    case DYN_K_CREATE: return 0;
    case DYN_K_ELEMENTWISE: return through_elementwise(d, id, gradient);
    case DYN_K_COPY: return is_wanted(d, n->args[0]) ? dyn_derive_contribute(d, n->args[0].id, gradient) : 0;
    case DYN_K_VIEW:
        if (!is_wanted(d, n->args[0])) {
            return 0;
        }
        return through_view(d, id, gradient);
    default: return dyn_derive_through_array(d, id, gradient);
    }
}

/* The whole gradient of a node: what came for it as a whole, and what met in its buffer. */
static int complete(Derive *d, uint32_t id) {
    uint32_t buffer = d->buffers[id], *whole = &d->gradients[id];
    if (buffer != DYN_NONE) {
        *whole = *whole == DYN_NONE ? buffer : binary(d, DYN_OP_ADD, *whole, buffer);
        return *whole == DYN_NONE ? -1 : 0;
    }
    return 0;
}

static int walk(Derive *d) {
    for (uint32_t i = d->n; i-- > 0;) {
        const DynNode *n = node_at(d, i);
        if (dyn_node_stores(n)) {
            if (d->reached[n->storage] && d->buffers[n->storage] != DYN_NONE && through_store(d, i) < 0) {
                return -1;
            }
            continue;
        }
        if (!d->reached[i]) {
            d->gradients[i] = DYN_NONE;
            continue;
        }
        bool part = is_written(d, i) && (n->flags & DYN_NODE_VIEW) != 0 && is_direct(d, i); /* its gradient is in the buffer */
        if (part) {
            continue;
        }
        if (complete(d, i) < 0 || (d->gradients[i] != DYN_NONE && through(d, i, d->gradients[i]) < 0)) {
            return -1;
        }
    }
    return 0;
}

/* Seeds of memory that is written go to its buffer, as its state at the end is what they are of. */
static int seed_buffers(Derive *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t seed = d->gradients[i];
        if (seed != DYN_NONE && is_written(d, i)) {
            d->gradients[i] = DYN_NONE;
            if (d->reached[i] && dyn_derive_contribute(d, i, seed) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

int dyn_derive(DynGraph *g, uint32_t n, const bool *reached, uint32_t *gradients, uint32_t *failed, DynStr *error) {
    Derive d = {.g = g, .n = n, .reached = reached, .gradients = gradients, .error = error, .failed = DYN_NONE};
    d.buffers = DYN_NEW_N(g->arena, uint32_t, n + 1);
    d.last_store = DYN_NEW_N(g->arena, uint32_t, n + 1);
    if (!DYN_ALLOCATED(d.buffers, d.last_store)) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        d.buffers[i] = DYN_NONE;
        uint32_t written = dyn_graph_written(g, i);
        if (written != DYN_NONE) {
            d.last_store[written] = i + 1;
        }
    }
    int done = seed_buffers(&d) < 0 ? -1 : walk(&d);
    if (failed != NULL) {
        *failed = d.failed;
    }
    return done;
}
