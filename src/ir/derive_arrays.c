/* derive_arrays.c: gradients of what isn't elementwise: reductions, running sums, products of matrices, lookups; and which
 * products are made in a part of a graph that autograd follows.
 *
 * Called by derive.c's walk. What a derivative reads is what it was then (derive_past.c). */
#include "ir/derive_part.h"
#include "ir/extern.h"

static DynArg of_node(uint32_t id) { return id == DYN_NONE ? nothing : (DynArg){DYN_ARG_NODE, id}; }

static DynArg number(Derive *d, double value) {
    uint32_t sym = dyn_sym_float(d->g->syms, value);
    return sym == DYN_NONE ? nothing : (DynArg){DYN_ARG_SYM, sym};
}

static DynArg apply(Emit *e, DynOp op, DynArg a, DynArg b, DynArg c) {
    DynArg args[3] = {a, b, c};
    int n = dyn_ops[op].arity;
    for (int i = 0; i < n; i++) {
        if (args[i].kind == DYN_ARG_NONE) {
            return nothing;
        }
    }
    return dyn_derive_apply(e, op, args, n);
}

static DynArg two(Emit *e, DynOp op, DynArg a, DynArg b) { return apply(e, op, a, b, nothing); }

static int contribute_value(Derive *d, uint32_t to, DynArg value) {
    return value.kind == DYN_ARG_NODE ? dyn_derive_contribute(d, to, value.id) : -1;
}

/* ---- views */

/* A view with axes of size 1 at the places of the bit mask `new_axes`, of that rank then. */
static uint32_t with_new_axes(Derive *d, uint32_t of, uint32_t new_axes, int ndim) {
    uint32_t zero = dyn_sym_int(d->g->syms, 0), one = dyn_sym_int(d->g->syms, 1);
    if (of == DYN_NONE || new_axes == 0) {
        return of;
    }
    uint32_t id = dyn_graph_add(d->g, DYN_OP_SLICE, (DynDtype)node_at(d, of)->dtype, ndim, 1 + 3 * node_at(d, of)->ndim, ndim);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_graph_node(d->g, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, of};
    n->flags = DYN_NODE_VIEW | (node_at(d, of)->flags & DYN_NODE_TENSOR);
    n->storage = node_at(d, of)->storage;
    for (int i = 0, axis = 0, arg = 1; i < ndim; i++) {
        bool new_axis = new_axes >> i & 1u;
        n->aux[i] = new_axis ? 2 : 0;
        n->shape[i] = new_axis ? one : node_at(d, of)->shape[axis];
        if (!new_axis) {
            n->args[arg++] = (DynArg){DYN_ARG_SYM, zero};
            n->args[arg++] = (DynArg){DYN_ARG_SYM, node_at(d, of)->shape[axis++]};
            n->args[arg++] = (DynArg){DYN_ARG_SYM, one};
        }
    }
    return id;
}

/* The same elements from the other end along an axis. */
static uint32_t reversed(Derive *d, uint32_t of, int axis) {
    DynSyms *t = d->g->syms;
    uint32_t zero = dyn_sym_int(t, 0), one = dyn_sym_int(t, 1), back = dyn_sym_int(t, -1);
    if (of == DYN_NONE) {
        return of;
    }
    const DynNode like = *node_at(d, of);
    uint32_t id = dyn_graph_add(d->g, DYN_OP_SLICE, (DynDtype)like.dtype, like.ndim, 1 + 3 * like.ndim, like.ndim);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_graph_node(d->g, id);
    memcpy(n->shape, like.shape, sizeof(*n->shape) * like.ndim);
    n->args[0] = (DynArg){DYN_ARG_NODE, of};
    n->flags = DYN_NODE_VIEW | (like.flags & DYN_NODE_TENSOR);
    n->storage = like.storage;
    for (int i = 0; i < like.ndim; i++) {
        uint32_t last = i == axis ? dyn_sym_op(t, DYN_S_SUB, like.shape[i], one, DYN_NONE) : zero;
        n->args[1 + 3 * i] = (DynArg){DYN_ARG_SYM, last};
        n->args[2 + 3 * i] = (DynArg){DYN_ARG_SYM, i == axis ? back : like.shape[i]};
        n->args[3 + 3 * i] = (DynArg){DYN_ARG_SYM, i == axis ? back : one};
        if (last == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return id;
}

static uint32_t permuted(Derive *d, uint32_t of, const int *axes) {
    uint32_t shape[DYN_MAX_NDIM] = {0};
    int ndim = of == DYN_NONE ? 0 : node_at(d, of)->ndim;
    for (int i = 0; i < ndim; i++) {
        shape[i] = node_at(d, of)->shape[axes[i]];
    }
    uint32_t id = dyn_derive_view(d, DYN_OP_PERMUTE, of, ndim, shape, ndim);
    for (int i = 0; id != DYN_NONE && i < ndim; i++) {
        dyn_graph_node(d->g, id)->aux[i] = axes[i];
    }
    return id;
}

/* Is it a view of a matrix with its axes swapped? */
static bool is_turned(const Derive *d, uint32_t id) {
    const DynNode *n = node_at(d, id);
    return n->op == DYN_OP_PERMUTE && n->ndim == 2 && n->aux[0] == 1;
}

/* With the last two axes swapped. */
static uint32_t transposed(Derive *d, uint32_t of) {
    if (of == DYN_NONE || is_turned(d, of)) {
        return of == DYN_NONE ? of : node_at(d, of)->args[0].id;
    }
    int axes[DYN_MAX_NDIM], ndim = node_at(d, of)->ndim;
    for (int i = 0; i < ndim; i++) {
        axes[i] = i;
    }
    axes[ndim - 2] = ndim - 1;
    axes[ndim - 1] = ndim - 2;
    return permuted(d, of, axes);
}

/* ---- reductions */

typedef struct Reduction {
    int naxes, axes[DYN_MAX_NDIM];
    bool keepdims;
    uint32_t of; /* the operand */
} Reduction;

static Reduction reduction_of(const Derive *d, uint32_t id) {
    const DynNode *n = node_at(d, id);
    Reduction x = {.naxes = n->naux - 1, .keepdims = n->aux[0] != 0, .of = n->args[0].id};
    for (int i = 0; i < x.naxes; i++) {
        x.axes[i] = (int)n->aux[1 + i];
    }
    return x;
}

/* A value of the result's sizes in the operand's: the same along the axes that are gone. */
static uint32_t spread(Derive *d, const Reduction *x, uint32_t value) {
    int ndim = node_at(d, x->of)->ndim;
    uint32_t shape[DYN_MAX_NDIM], gone = 0;
    memcpy(shape, node_at(d, x->of)->shape, sizeof(*shape) * (size_t)ndim);
    for (int i = 0; i < x->naxes; i++) {
        gone |= 1u << x->axes[i];
    }
    bool some_left = !x->keepdims && ndim > x->naxes;
    return dyn_derive_view(d, DYN_OP_BROADCAST, some_left ? with_new_axes(d, value, gone, ndim) : value, ndim, shape, 0);
}

static DynArg spread_arg(Derive *d, const Reduction *x, DynArg value) {
    return value.kind == DYN_ARG_NODE ? of_node(spread(d, x, value.id)) : nothing;
}

/* How many of the operand's elements are equal to `value`, in the result's sizes. `where`: which they are. */
static DynArg count_equal(Emit *e, const Reduction *x, DynArg value, DynArg *where) {
    Derive *d = e->d;
    *where = two(e, DYN_OP_EQUAL, of_node(x->of), value);
    DynArg ones = apply(e, DYN_OP_WHERE, *where, number(d, 1), number(d, 0));
    return ones.kind == DYN_ARG_NODE ? of_node(dyn_derive_reduce(d, DYN_OP_SUM, ones.id, x->naxes, x->axes, x->keepdims))
                                     : nothing;
}

/* Of an extreme: in equal parts to the elements that have it. */
static int through_extreme(Derive *d, uint32_t id, uint32_t gradient) {
    Reduction x = reduction_of(d, id);
    uint32_t operand = x.of, result = dyn_derive_value_at(d, id + 1, id);
    x.of = dyn_derive_value_at(d, id, operand);
    if (x.of == DYN_NONE || result == DYN_NONE) {
        return -1;
    }
    Emit e = {.d = d, .id = x.of, .compute = node_at(d, x.of)->dtype};
    DynArg where, count = count_equal(&e, &x, of_node(spread(d, &x, result)), &where);
    DynArg part = two(&e, DYN_OP_DIVIDE, of_node(gradient), count);
    return contribute_value(d, operand, apply(&e, DYN_OP_WHERE, where, spread_arg(d, &x, part), number(d, 0)));
}

/* Of a product: the product of the others. Where one element is 0 it alone has a gradient, where two are none has. */
static int through_product(Derive *d, uint32_t id, uint32_t gradient) {
    Reduction x = reduction_of(d, id);
    uint32_t operand = x.of, was = dyn_derive_value_at(d, id, operand);
    uint32_t of = dyn_derive_converted(d, was, node_at(d, id)->dtype);
    if (of == DYN_NONE) {
        return -1;
    }
    x.of = of;
    Emit e = {.d = d, .id = of, .compute = node_at(d, id)->dtype};
    DynArg where, zeros = count_equal(&e, &x, number(d, 0), &where);
    DynArg others = apply(&e, DYN_OP_KEEP, where, number(d, 1), of_node(of)); /* no division by 0 anywhere */
    if (zeros.kind != DYN_ARG_NODE || others.kind != DYN_ARG_NODE) {
        return -1;
    }
    DynArg product = of_node(dyn_derive_reduce(d, DYN_OP_PROD, others.id, x.naxes, x.axes, x.keepdims));
    DynArg none = two(&e, DYN_OP_EQUAL, zeros, number(d, 0)), one = two(&e, DYN_OP_EQUAL, zeros, number(d, 1));
    DynArg of_others = two(&e, DYN_OP_MULTIPLY, of_node(gradient), product);
    DynArg whole = apply(&e, DYN_OP_WHERE, none, of_others, number(d, 0));
    DynArg alone = apply(&e, DYN_OP_WHERE, one, of_others, number(d, 0));
    DynArg each = two(&e, DYN_OP_DIVIDE, spread_arg(d, &x, whole), others);
    return contribute_value(d, operand, apply(&e, DYN_OP_WHERE, where, spread_arg(d, &x, alone), each));
}

static int through_reduction(Derive *d, uint32_t id, uint32_t gradient) {
    Reduction x = reduction_of(d, id);
    DynOp op = (DynOp)node_at(d, id)->op;
    if (op == DYN_OP_SUM) {
        return dyn_derive_contribute(d, x.of, spread(d, &x, gradient));
    }
    bool known = op == DYN_OP_PROD || op == DYN_OP_MAX || op == DYN_OP_MIN;
    if (!known) {
        return dyn_derive_fail(d, id, "no derivative is known");
    }
    return op == DYN_OP_PROD ? through_product(d, id, gradient) : through_extreme(d, id, gradient);
}

/* ---- running sums: an element has what comes of all sums from its own on */

static int through_scan(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    int axis = n.aux[0] < 0 ? 0 : (int)n.aux[0];
    if (n.op != DYN_OP_CUMSUM) {
        return dyn_derive_fail(d, id, "no derivative is known");
    }
    uint32_t back = reversed(d, gradient, axis);
    uint32_t sums = back == DYN_NONE ? back : dyn_derive_like(d, DYN_OP_CUMSUM, &n, 1, 2);
    if (sums == DYN_NONE) {
        return -1;
    }
    DynNode *s = dyn_graph_node(d->g, sums);
    s->args[0] = (DynArg){DYN_ARG_NODE, back};
    s->aux[0] = axis;
    s->aux[1] = 0;
    uint32_t again = reversed(d, sums, axis);
    bool flat = n.aux[0] < 0 && node_at(d, n.args[0].id)->ndim != 1;
    return dyn_derive_contribute(d, n.args[0].id, flat ? dyn_derive_reshaped(d, again, node_at(d, n.args[0].id)) : again);
}

/* ---- which products are made in a part */

/* Elements that the result and the first operand have at most, and the second (a weight, whose gradient is as large); and, on a
 * device, products of two numbers, in the time of which the host is done with a node of autograd's. */
#define MOST_ROWS_ELEMENTS (1 << 15)
#define MOST_WEIGHT_ELEMENTS (1 << 16)
#define MOST_PRODUCTS_ON_DEVICE (1 << 29)

static int64_t elements_of(const DynGraph *g, const uint32_t *shape, int ndim) {
    int64_t elements = 1;
    for (int i = 0; i < ndim; i++) {
        elements *= dyn_sym_at(g->syms, shape[i])->hint.i;
    }
    return elements;
}

/* Rows along several axes that don't lie in turn are copied by PyTorch, and what is there later may be changed. */
static bool are_rows(const DynNode *n) { return n->ndim == 2 || (n->ndim > 2 && n->layout.kind == DYN_LAYOUT_C); }

bool dyn_derive_is_small(const DynGraph *g, DynOp op, uint32_t rows, uint32_t weight) {
    const DynNode *a = dyn_graph_node(g, rows), *b = dyn_graph_node(g, weight);
    bool known = a->dtype == b->dtype && (a->dtype == DYN_F32 || a->dtype == DYN_F64);
    if (!known || !are_rows(a) || b->ndim != 2 || g->sets_casts) {
        return false;
    }
    int64_t columns = elements_of(g, b->shape + (op == DYN_OP_LINEAR ? 0 : 1), 1), left = elements_of(g, a->shape, a->ndim);
    int64_t results = columns * elements_of(g, a->shape, a->ndim - 1);
    if (g->device != 0) {
        return columns * left <= MOST_PRODUCTS_ON_DEVICE;
    }
    return results <= MOST_ROWS_ELEMENTS && left <= MOST_ROWS_ELEMENTS && elements_of(g, b->shape, 2) <= MOST_WEIGHT_ELEMENTS;
}

bool dyn_derive_is_product(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    bool product = n->op == DYN_OP_MATMUL || n->op == DYN_OP_LINEAR, biased = n->op == DYN_OP_LINEAR && g->device != 0;
    bool followed = n->flags & DYN_NODE_GRAD && n->flags & DYN_NODE_TENSOR;
    bool fits = n->nargs == 2 || (n->nargs == 3 && biased);
    if (!product || !followed || !fits || n->dtype != dyn_graph_node(g, n->args[0].id)->dtype) { /* or autocast casts it */
        return false;
    }
    return dyn_derive_is_small(g, (DynOp)n->op, n->args[0].id, n->args[1].id);
}

/* ---- products of matrices */

/* a @ b by the function that node `like` calls; sizes by the operands, which have two axes or more. LINEAR takes b transposed. */
static uint32_t product(Derive *d, uint32_t like, uint32_t a, uint32_t b) {
    DynGraph *g = d->g;
    DynOp op = (DynOp)node_at(d, like)->op;
    if (a == DYN_NONE || b == DYN_NONE) {
        return DYN_NONE;
    }
    uint32_t second = op == DYN_OP_LINEAR ? transposed(d, b) : b;
    if (second == DYN_NONE) {
        return DYN_NONE;
    }
    const DynNode x = *node_at(d, a), y = *node_at(d, b);
    int ndim = x.ndim > y.ndim ? x.ndim : y.ndim;
    DynForm *forms = DYN_NEW_N(g->arena, DynForm, 4);
    uint32_t id = forms == NULL ? DYN_NONE : dyn_graph_add(g, op, (DynDtype)x.dtype, ndim, 2, 0);
    if (id == DYN_NONE) {
        return id;
    }
    forms[0] = (DynForm){DYN_F_TUPLE, 2, NULL};
    forms[1] = forms[2] = forms[3] = (DynForm){DYN_F_NODE, 0, NULL};
    const DynExtern *of = &g->externs.at[node_at(d, like)->extern_index];
    DynExtern row = {.callable = Py_NewRef(of->callable), .name = of->name, .writes = -1};
    row.args = forms;
    row.nargs = 3;
    row.results = forms + 3;
    row.nresults = 1;
    if (dyn_vec_push(&g->externs, row) < 0) {
        dyn_extern_drop(&row);
        return DYN_NONE;
    }
    DynNode *n = dyn_graph_node(g, id);
    n->extern_index = g->externs.n - 1;
    n->args[0] = (DynArg){DYN_ARG_NODE, a};
    n->args[1] = (DynArg){DYN_ARG_NODE, second};
    n->flags = node_at(d, like)->flags & DYN_NODE_TENSOR;
    n->layout.kind = DYN_LAYOUT_C;
    for (int i = 0; i < ndim - 2; i++) {
        int k = x.ndim - ndim + i, l = y.ndim - ndim + i;
        bool of_x = l < 0 || (k >= 0 && dyn_sym_at(g->syms, x.shape[k])->hint.i != 1);
        n->shape[i] = of_x ? x.shape[k] : y.shape[l];
    }
    n->shape[ndim - 2] = x.shape[x.ndim - 2];
    n->shape[ndim - 1] = y.shape[y.ndim - 1];
    return id;
}

/* Of a vector and a matrix (or a stack of them), or of two vectors: the sums of products, written down. */
static int through_product_of_vector(Derive *d, uint32_t id, uint32_t gradient, uint32_t a, uint32_t b) {
    const DynNode x = *node_at(d, a), y = *node_at(d, b);
    DynArg args[2] = {node_at(d, id)->args[0], node_at(d, id)->args[1]};
    Emit e = {.d = d, .id = id, .compute = node_at(d, id)->dtype};
    uint32_t g = gradient;
    e.id = y.ndim == 1 ? a : b;      /* has the sizes of a column beside a row */
    if (y.ndim == 1 && x.ndim > 1) { /* (…, n, k) @ (k): the gradient's column beside b's row */
        g = with_new_axes(d, gradient, 1u << (x.ndim - 1), x.ndim);
    } else if (y.ndim > 1) { /* (k) @ (…, k, m): its row beside a's column */
        g = with_new_axes(d, gradient, 1u << (y.ndim - 2), y.ndim);
        a = with_new_axes(d, a, 2, 2);
    }
    if (a == DYN_NONE || g == DYN_NONE) {
        return -1;
    }
    if (is_wanted(d, args[0])) {
        DynArg value = two(&e, DYN_OP_MULTIPLY, of_node(g), of_node(b));
        if (value.kind == DYN_ARG_NODE && y.ndim > 1) {
            int last = y.ndim - 1;
            value = of_node(dyn_derive_reduce(d, DYN_OP_SUM, value.id, 1, &last, false));
        }
        if (contribute_value(d, args[0].id, value) < 0) {
            return -1;
        }
    }
    return is_wanted(d, args[1]) ? contribute_value(d, args[1].id, two(&e, DYN_OP_MULTIPLY, of_node(g), of_node(a))) : 0;
}

bool dyn_derive_lies(const DynGraph *g, uint32_t id, bool by_columns) {
    const DynNode *n = dyn_graph_node(g, id);
    bool turned = false;
    for (; n->ndim == 2 && n->op == DYN_OP_PERMUTE; n = dyn_graph_node(g, n->args[0].id)) {
        turned = turned != (n->aux[0] == 1);
    }
    bool dense = n->ndim == 2 && (!(n->flags & DYN_NODE_VIEW) || n->op == DYN_OP_RESHAPE);
    return dense && (turned != (n->layout.perm[0] == 1)) == by_columns;
}

/* Is it known that the elements lie one behind the other? Of an input of a part the flag asks for it: of a gradient, which may
 * lie in any way, and of what lies so now. */
static bool lies_in_turn(Derive *d, uint32_t id) {
    DynNode *n = dyn_graph_node(d->g, id);
    while (n->op == DYN_OP_RESHAPE && n->flags & DYN_NODE_VIEW) {
        n = dyn_graph_node(d->g, n->args[0].id);
    }
    bool gradient = n->op == DYN_OP_INPUT && (uint32_t)(n - d->g->nodes.at) >= d->n;
    if (n->flags & DYN_NODE_VIEW || dyn_node_calls(n) || n->op == DYN_OP_RESULT ||
        (!gradient && n->layout.kind != DYN_LAYOUT_C)) {
        return false;
    }
    if (n->op == DYN_OP_INPUT) {
        n->flags |= DYN_NODE_DENSE;
        n->layout.kind = DYN_LAYOUT_C;
    }
    return true;
}

/* Rows along any number of axes, as the rows of one matrix. */
static uint32_t flat(Derive *d, uint32_t of) {
    if (of == DYN_NONE || node_at(d, of)->ndim <= 2 || !(node_at(d, of)->flags & DYN_NODE_TENSOR)) {
        return of;
    }
    const DynNode n = *node_at(d, of);
    uint32_t shape[2] = {n.shape[0], n.shape[n.ndim - 1]};
    for (int i = 1; i < n.ndim - 1; i++) {
        shape[0] = dyn_sym_op(d->g->syms, DYN_S_MUL, shape[0], n.shape[i], DYN_NONE);
    }
    const DynNode matrix = {.ndim = 2, .shape = shape};
    if (shape[0] == DYN_NONE) {
        return DYN_NONE;
    }
    return lies_in_turn(d, of) ? dyn_derive_view(d, DYN_OP_RESHAPE, of, 2, shape, 0) : dyn_derive_reshaped(d, of, &matrix);
}

/* Gradients of a @ b lie as a and b do, as PyTorch's: of what lies by columns the transposed gradient is computed. */
static uint32_t of_first(Derive *d, uint32_t id, uint32_t gradient, uint32_t a, uint32_t b) {
    if (!dyn_derive_lies(d->g, a, true)) {
        return product(d, id, gradient, transposed(d, b));
    }
    return transposed(d, product(d, id, b, transposed(d, gradient)));
}

static uint32_t of_second(Derive *d, uint32_t id, uint32_t gradient, uint32_t a, bool by_columns) {
    gradient = flat(d, gradient);
    a = flat(d, a);
    return by_columns ? transposed(d, product(d, id, transposed(d, gradient), a)) : product(d, id, transposed(d, a), gradient);
}

static int through_matmul(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    bool needs_a = is_wanted(d, n.args[1]), needs_b = is_wanted(d, n.args[0]);
    uint32_t a = needs_a ? dyn_derive_value_at(d, id, n.args[0].id) : n.args[0].id;
    uint32_t b = needs_b ? dyn_derive_value_at(d, id, n.args[1].id) : n.args[1].id;
    a = dyn_derive_converted(d, a, n.dtype);
    b = dyn_derive_converted(d, b, n.dtype);
    if (a == DYN_NONE || b == DYN_NONE) {
        return -1;
    }
    if (node_at(d, a)->ndim == 1 || node_at(d, b)->ndim == 1) {
        return through_product_of_vector(d, id, gradient, a, b);
    }
    if (needs_b && dyn_derive_contribute(d, n.args[0].id, of_first(d, id, gradient, n.args[0].id, b)) < 0) {
        return -1;
    }
    if (!needs_a) {
        return 0;
    }
    if (node_at(d, b)->ndim > 2) { /* a stack of products */
        return dyn_derive_contribute(d, n.args[1].id, product(d, id, transposed(d, a), gradient));
    }
    bool by_columns = dyn_derive_lies(d->g, n.args[1].id, true);
    return dyn_derive_contribute(d, n.args[1].id, of_second(d, id, gradient, a, by_columns));
}

/* a @ b.T: a has the gradient times b, b what the second matrix of the product has, transposed, and a bias the gradient. */
static int through_linear(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    const DynArg args[3] = {n.args[0], n.args[1], n.nargs > 2 ? n.args[2] : nothing};
    if (is_wanted(d, args[2]) && dyn_derive_contribute(d, args[2].id, gradient) < 0) {
        return -1;
    }
    if (is_wanted(d, args[0])) {
        uint32_t b = dyn_derive_value_at(d, id, args[1].id);
        if (dyn_derive_contribute(d, args[0].id, of_first(d, id, gradient, args[0].id, transposed(d, b))) < 0) {
            return -1;
        }
    }
    if (!is_wanted(d, args[1])) {
        return 0;
    }
    uint32_t a = dyn_derive_value_at(d, id, args[0].id);
    bool by_columns = dyn_derive_lies(d->g, args[1].id, false);
    return dyn_derive_contribute(d, args[1].id, transposed(d, of_second(d, id, gradient, a, by_columns)));
}

/* ---- lookups: added up where it was found */

static int through_gather(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode n = *node_at(d, id);
    uint32_t table = n.args[0].id, index = n.args[1].id;
    int axis = (int)n.aux[0], ndim = node_at(d, table)->ndim, places = node_at(d, index)->ndim, first[DYN_MAX_NDIM];
    index = dyn_derive_value_at(d, id, index);
    uint32_t buffer = index == DYN_NONE ? index : dyn_derive_buffer(d, table);
    if (axis > 0) { /* SCATTER writes along the first */
        for (int i = 0; i < ndim; i++) {
            first[i] = i == 0 ? axis : i - (i <= axis);
        }
        buffer = permuted(d, buffer, first);
        for (int i = 0; i < n.ndim; i++) {
            bool placed = i < places, before = i < places + axis;
            first[i] = placed ? axis + i : i - (before ? places : 0);
        }
        gradient = permuted(d, gradient, first);
    }
    uint32_t s =
        buffer == DYN_NONE || gradient == DYN_NONE ? DYN_NONE : dyn_derive_like(d, DYN_OP_SCATTER, node_at(d, buffer), 3, 1);
    if (s == DYN_NONE) {
        return -1;
    }
    DynNode *scatter = dyn_graph_node(d->g, s);
    scatter->args[0] = (DynArg){DYN_ARG_NODE, buffer};
    scatter->args[1] = (DynArg){DYN_ARG_NODE, gradient};
    scatter->args[2] = (DynArg){DYN_ARG_NODE, index};
    scatter->aux[0] = DYN_OP_ADD;
    scatter->storage = node_at(d, buffer)->storage;
    scatter->flags = 0;
    return 0;
}

/* Of a[index] as NumPy makes it: np.add.at(buffer, index, gradient). `x` is its row. */
static int through_getitem(Derive *d, uint32_t id, uint32_t gradient, const DynExtern *x) {
    const DynNode n = *node_at(d, id);
    for (int k = 1; k < n.nargs; k++) {
        if (n.args[k].kind == DYN_ARG_NODE && dyn_derive_value_at(d, id, n.args[k].id) != n.args[k].id) {
            return dyn_derive_fail(d, id, "its derivative needs an index that was overwritten");
        }
    }
    PyObject *add = dyn_module_attr("numpy", "add");
    DynExtern row = {.callable = add == NULL ? NULL : PyObject_GetAttrString(add, "at"), .name = "add.at", .writes = 0};
    DynForm *forms = DYN_NEW_N(d->g->arena, DynForm, x->nargs + 2);
    uint32_t buffer = row.callable == NULL || forms == NULL ? DYN_NONE : dyn_derive_buffer(d, n.args[0].id);
    uint32_t call = buffer == DYN_NONE ? buffer : dyn_graph_add(d->g, DYN_OP_EXTERN, DYN_BOOL, 0, n.nargs + 1, 0);
    Py_XDECREF(add);
    if (call == DYN_NONE) {
        Py_XDECREF(row.callable);
        PyErr_Clear();
        return -1;
    }
    memcpy(forms, x->args, sizeof(*forms) * x->nargs);
    forms[0].n = 3;
    forms[x->nargs] = (DynForm){DYN_F_NODE, 0, NULL};
    forms[x->nargs + 1] = (DynForm){DYN_F_CONST, 0, Py_None};
    for (uint32_t i = 0; i < x->nargs + 2; i++) {
        Py_XINCREF(forms[i].obj);
    }
    row.args = forms;
    row.nargs = x->nargs + 1;
    row.results = forms + row.nargs;
    row.nresults = 1;
    if (dyn_vec_push(&d->g->externs, row) < 0) {
        dyn_extern_drop(&row);
        return -1;
    }
    DynNode *made = dyn_graph_node(d->g, call);
    made->extern_index = d->g->externs.n - 1;
    memcpy(made->args, n.args, sizeof(*n.args) * n.nargs);
    made->args[0] = (DynArg){DYN_ARG_NODE, buffer};
    made->args[n.nargs] = (DynArg){DYN_ARG_NODE, gradient};
    return 0;
}

static int through_call(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode *n = node_at(d, id);
    if (n->extern_index >= d->g->externs.n) {
        return dyn_derive_fail(d, id, "no derivative is known");
    }
    if (n->op == DYN_OP_MATMUL) {
        return through_matmul(d, id, gradient);
    }
    if (n->op == DYN_OP_LINEAR) {
        return through_linear(d, id, gradient);
    }
    const DynExtern x = d->g->externs.at[n->extern_index];
    bool indexes = n->op == DYN_OP_MASKED || strcmp(x.name, "getitem") == 0 || strcmp(x.name, "__getitem__") == 0;
    if (indexes && is_wanted(d, n->args[0]) && x.nargs > 2 && x.args[0].n == 2 && x.args[1].kind == DYN_F_NODE) {
        return through_getitem(d, id, gradient, &x);
    }
    return dyn_derive_fail(d, id, "no derivative is known");
}

/* What was added somewhere has the gradient of where it went. */
int dyn_derive_through_scatter(Derive *d, uint32_t id, uint32_t window) {
    const DynNode n = *node_at(d, id);
    if (n.aux[0] != DYN_OP_ADD) {
        return dyn_derive_fail(d, id, "no derivative is known");
    }
    if (!is_wanted(d, n.args[1])) {
        return 0;
    }
    uint32_t index = dyn_derive_value_at(d, id, n.args[2].id);
    if (index == DYN_NONE) {
        return -1;
    }
    int places = node_at(d, index)->ndim, ndim = places + n.ndim - 1;
    uint32_t found = dyn_graph_add(d->g, DYN_OP_GATHER, (DynDtype)n.dtype, ndim, 2, 1);
    if (found == DYN_NONE) {
        return -1;
    }
    DynNode *g = dyn_graph_node(d->g, found);
    g->args[0] = (DynArg){DYN_ARG_NODE, window};
    g->args[1] = (DynArg){DYN_ARG_NODE, index};
    g->aux[0] = 0;
    memcpy(g->shape, node_at(d, index)->shape, sizeof(*g->shape) * (size_t)places);
    memcpy(g->shape + places, n.shape + 1, sizeof(*g->shape) * (size_t)(n.ndim - 1));
    return dyn_derive_contribute(d, n.args[1].id, found);
}

int dyn_derive_through_array(Derive *d, uint32_t id, uint32_t gradient) {
    const DynNode *n = node_at(d, id);
    switch (dyn_ops[n->op].kind) {
    case DYN_K_REDUCE: return through_reduction(d, id, gradient);
    case DYN_K_SCAN: return through_scan(d, id, gradient);
    case DYN_K_GATHER: return is_wanted(d, n->args[0]) ? through_gather(d, id, gradient) : 0;
    case DYN_K_EXTERN: return through_call(d, id, gradient);
    default: return dyn_derive_fail(d, id, "no derivative is known");
    }
}
