/* rec_torch_reduce.c: reductions of tensors, running sums and norms. Called through the binding table and by rec_torch_norm.c and
 * rec_torch_loss.c. Makes nodes with dyn_np_reduce and dyn_np_scan; halves are added up as floats and rounded at the end. */
#include "tracer/torch/rec_torch.h"

typedef struct Reduction {
    uint32_t a;
    int naxes, axes[DYN_MAX_NDIM];
    bool keepdim;
    DynDtype dtype; /* asked for, or DYN_NO_DTYPE */
} Reduction;

static bool is_whole(DynDtype dt) { return dyn_dtypes[dt].kind != 'f' && dyn_dtypes[dt].kind != 'c'; }

/* ---- arguments */

static bool is_empty(PyObject *o) {
    if (PyTuple_Check(o)) {
        return PyTuple_GET_SIZE(o) == 0;
    }
    return PyList_CheckExact(o) && PyList_GET_SIZE(o) == 0;
}

/* dim=None and dim=() are all axes. A tensor of rank 0 has axes 0 and -1, over which there is nothing to do. */
static int read_dim(DynRec *r, DynOperand dim, Reduction *x) {
    bool none = dim.v == NULL || is_empty(dim.real);
    int ndim = dyn_np_node_at(r, x->a)->ndim;
    bool nothing = ndim == 0 || none;
    if (dim.v != NULL && nothing && dyn_rec_burn(r, dim.v, dim.real) < 0) {
        return -1;
    }
    if (ndim == 0 && !none) {
        return x->naxes = 0;
    }
    x->naxes = dyn_np_axes(r, none ? (DynOperand){0} : dim, ndim, x->axes);
    return x->naxes < 0 ? -1 : 0;
}

static int arguments(DynRec *r, const NpCall *c, Reduction *x) {
    *x = (Reduction){.a = dyn_np_node(r, c->slot[0]), .dtype = DYN_NO_DTYPE};
    if (x->a == DYN_NONE || dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &x->keepdim) < 0 || dyn_tt_dtype(r, c, &x->dtype) < 0) {
        return -1;
    }
    return read_dim(r, dyn_np_slot(c, "dim"), x);
}

/* ---- nodes */

uint32_t dyn_tt_reduce(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdim) {
    return a == DYN_NONE ? a : dyn_np_reduce(r, op, a, naxes, axes, keepdim, (DynDtype)dyn_np_node_at(r, a)->dtype);
}

uint32_t dyn_tt_count(DynRec *r, uint32_t a, int naxes, const int *axes) {
    uint32_t sizes[DYN_MAX_NDIM];
    for (int i = 0; i < naxes; i++) {
        sizes[i] = dyn_np_node_at(r, a)->shape[axes[i]];
    }
    return dyn_np_product(r, naxes, sizes);
}

uint32_t dyn_tt_mean(DynRec *r, uint32_t a, int naxes, const int *axes, bool keepdim) {
    uint32_t n = a == DYN_NONE ? a : dyn_tt_count(r, a, naxes, axes);
    uint32_t sum = n == DYN_NONE ? n : dyn_tt_reduce(r, DYN_OP_SUM, a, naxes, axes, keepdim);
    return dyn_tt_binary(r, DYN_OP_DIVIDE, sum, (NpArg){{DYN_ARG_SYM, n}, NP_WEAK_INT});
}

/* The mean of no elements is nan: 0 / 0. */
static uint32_t mean_in(DynRec *r, const Reduction *x, DynDtype dt) {
    uint32_t a = dyn_tt_cast(r, x->a, dyn_tt_wide(dt));
    return dyn_tt_cast(r, dyn_tt_mean(r, a, x->naxes, x->axes, x->keepdim), dt);
}

uint32_t dyn_tt_norm(DynRec *r, uint32_t a, double p, int naxes, const int *axes, bool keepdim) {
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    a = dyn_tt_cast(r, a, dyn_tt_wide(dt));
    bool sums = p == 1 || p == 2, has_operator = sums || p - p != 0; /* of an infinite order: the extreme */
    if (a == DYN_NONE || dyn_dtypes[dt].kind != 'f' || !has_operator) {
        return dyn_np_no_node(r);
    }
    uint32_t t = dyn_tt_unary(r, p == 2 ? DYN_OP_SQUARE : DYN_OP_ABSOLUTE, a);
    DynOp extreme = p > 0 ? DYN_OP_MAX : DYN_OP_MIN;
    t = dyn_tt_reduce(r, sums ? DYN_OP_SUM : extreme, t, naxes, axes, keepdim);
    return dyn_tt_cast(r, p == 2 ? dyn_tt_unary(r, DYN_OP_SQRT, t) : t, dt);
}

/* ---- rules */

/* sum, prod, amax, amin, any, all. */
DynVal *tt_rule_reduce(DynRec *r, NpCall *c) {
    Reduction x;
    DynOp op = (DynOp)c->b->op;
    if (arguments(r, c, &x) < 0) {
        return NULL;
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, x.a)->dtype, result = dt;
    bool sums = op == DYN_OP_SUM || op == DYN_OP_PROD;
    if (sums && x.dtype != DYN_NO_DTYPE) {
        result = x.dtype;
    } else if (sums) {
        result = is_whole(dt) ? DYN_I64 : dt;
    } else if (op == DYN_OP_ANY || op == DYN_OP_ALL) {
        result = DYN_BOOL;
    }
    if (dt == DYN_U8 && result == DYN_BOOL) { /* torch gives uint8 for uint8 */
        return dyn_np_unsupported(r);
    }
    return dyn_tt_finish(r, c, dyn_np_reduce(r, op, x.a, x.naxes, x.axes, x.keepdim, result));
}

static uint32_t position(DynRec *r, DynOp op, uint32_t a, int axis, bool keepdim) {
    a = dyn_tt_cast(r, a, dyn_tt_wide((DynDtype)dyn_np_node_at(r, a)->dtype));
    return a == DYN_NONE ? a : dyn_np_position(r, op, a, axis, keepdim);
}

/* (values, indices) along an axis, a named tuple. */
static DynVal *extreme_along(DynRec *r, NpCall *c, uint32_t a, DynOperand dim) {
    int axis, ndim = dyn_np_node_at(r, a)->ndim;
    bool keepdim = false;
    if (dyn_tt_axis(r, dim, ndim, &axis) < 0 || dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &keepdim) < 0) {
        return dyn_np_unsupported(r);
    }
    if (!dyn_torch_is_named(Py_TYPE(c->result)) || dyn_np_slot(c, "out").v != NULL) {
        return dyn_np_unsupported(r);
    }
    bool most = c->b->op == DYN_OP_MAX;
    DynOp place = most ? DYN_OP_ARGMAX : DYN_OP_ARGMIN;
    int along = ndim > 0 ? axis : -1;
    uint32_t value = dyn_tt_reduce(r, most ? DYN_OP_MAX : DYN_OP_MIN, a, ndim > 0, &axis, keepdim);
    uint32_t at = value == DYN_NONE ? value : position(r, place, a, along, keepdim);
    DynVal *items[2] = {at == DYN_NONE ? NULL : dyn_np_result(r, value, PyTuple_GET_ITEM(c->result, 0))};
    items[1] = items[0] == NULL ? NULL : dyn_np_result(r, at, PyTuple_GET_ITEM(c->result, 1));
    DynVal *v = items[1] == NULL ? NULL : dyn_rec_seq(r, DV_TUPLE, 2, items, c->result);
    if (v != NULL) {
        v->type = (PyObject *)Py_TYPE(c->result); /* a static type */
    }
    return v;
}

/* max and min: of all elements; of two operands; along an axis. */
DynVal *tt_rule_extreme(DynRec *r, NpCall *c) {
    DynOperand other = dyn_np_slot(c, "dim");
    uint32_t a = dyn_tt_tensor(r, c, "input");
    int axes[DYN_MAX_NDIM];
    if (a == DYN_NONE) {
        return NULL;
    }
    if (other.v != NULL && other.v->kind == DV_ARRAY) {
        NpArg args[2] = {dyn_np_node_arg(r, a)};
        DynDtype dt = dyn_np_operand(r, other, &args[1]) < 0 ? DYN_NO_DTYPE : dyn_tt_result_type(r, args, 2);
        DynOp op = c->b->op == DYN_OP_MAX ? DYN_OP_MAXIMUM : DYN_OP_MINIMUM;
        return dt == DYN_NO_DTYPE ? NULL : dyn_tt_finish(r, c, dyn_tt_elementwise(r, op, dt, dt, args, 2));
    }
    if (other.v != NULL) {
        return extreme_along(r, c, a, other);
    }
    int naxes = dyn_np_axes(r, (DynOperand){0}, dyn_np_node_at(r, a)->ndim, axes);
    return naxes < 0 ? NULL : dyn_tt_finish(r, c, dyn_tt_reduce(r, (DynOp)c->b->op, a, naxes, axes, false));
}

DynVal *tt_rule_mean(DynRec *r, NpCall *c) {
    Reduction x;
    if (arguments(r, c, &x) < 0) {
        return NULL;
    }
    DynDtype dt = x.dtype != DYN_NO_DTYPE ? x.dtype : (DynDtype)dyn_np_node_at(r, x.a)->dtype;
    bool scales = dyn_dtype_is_complex(dt) && dyn_rec_graph(r)->device != 0; /* each part by the count, which DIVIDE doesn't */
    return is_whole(dt) || scales ? dyn_np_unsupported(r) : dyn_tt_finish(r, c, mean_in(r, &x, dt));
}

/* unbiased=True is correction=1, which is what there is without either; var(x, True) gives it in the place of dim. */
static int read_correction(DynRec *r, const NpCall *c, bool first, double *correction) {
    DynOperand unbiased = dyn_np_slot(c, first ? "dim" : "unbiased"), given = dyn_np_slot(c, "correction");
    bool one = true;
    *correction = 1;
    if (unbiased.v != NULL && given.v != NULL) {
        return dyn_np_unsupported(r), -1;
    }
    if (dyn_np_flag(r, unbiased, &one) < 0 || dyn_tt_burnt_float(r, given, correction) < 0) {
        return -1;
    }
    *correction = unbiased.v != NULL ? one : *correction;
    return *correction != (int)*correction ? (dyn_np_unsupported(r), -1) : 0;
}

/* The squares of the deviations from the mean, over the degrees of freedom, of which there have to be some. *mean: too. */
static uint32_t variance(DynRec *r, const Reduction *x, int correction, bool root, uint32_t *mean) {
    DynDtype dt = (DynDtype)dyn_np_node_at(r, x->a)->dtype;
    uint32_t a = dyn_tt_cast(r, x->a, dyn_tt_wide(dt)), middle = dyn_tt_mean(r, a, x->naxes, x->axes, true);
    uint32_t n = a == DYN_NONE ? a : dyn_tt_count(r, a, x->naxes, x->axes);
    if (n == DYN_NONE || dyn_dtypes[dt].kind != 'f' || dyn_np_assume_op(r, DYN_S_GT, n, correction > 0 ? correction : 0) < 0) {
        return dyn_np_no_node(r);
    }
    NpArg freedom = {{DYN_ARG_SYM, dyn_np_op(r, DYN_S_SUB, n, dyn_np_int(r, correction))}, NP_WEAK_INT};
    uint32_t t = dyn_tt_unary(r, DYN_OP_SQUARE, dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, middle));
    t = dyn_tt_binary(r, DYN_OP_DIVIDE, dyn_tt_reduce(r, DYN_OP_SUM, t, x->naxes, x->axes, x->keepdim), freedom);
    if (mean != NULL) {
        *mean = mean_in(r, x, dt);
    }
    return dyn_tt_cast(r, root ? dyn_tt_unary(r, DYN_OP_SQRT, t) : t, dt);
}

/* Operator bit 0: the root of it; bit 1: a tuple with the mean. */
DynVal *tt_rule_var(DynRec *r, NpCall *c) {
    Reduction x = {.a = dyn_tt_tensor(r, c, "input"), .dtype = DYN_NO_DTYPE};
    DynOperand dim = dyn_np_slot(c, "dim");
    bool first = dim.v != NULL && PyBool_Check(dim.real), both = c->b->op & 2;
    double correction;
    uint32_t mean;
    if (x.a == DYN_NONE || read_correction(r, c, first, &correction) < 0 || read_dim(r, first ? (DynOperand){0} : dim, &x) < 0 ||
        dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &x.keepdim) < 0) {
        return NULL;
    }
    uint32_t t = variance(r, &x, (int)correction, c->b->op & 1, both ? &mean : NULL);
    if (!both || t == DYN_NONE) {
        return dyn_tt_finish(r, c, t);
    }
    DynVal *items[2] = {dyn_np_result(r, t, PyTuple_GET_ITEM(c->result, 0)),
                        dyn_np_result(r, mean, PyTuple_GET_ITEM(c->result, 1))};
    return items[0] == NULL || items[1] == NULL ? NULL : dyn_rec_seq(r, DV_TUPLE, 2, items, c->result);
}

DynVal *tt_rule_count_nonzero(DynRec *r, NpCall *c) {
    Reduction x;
    uint32_t a = arguments(r, c, &x) < 0 ? DYN_NONE : dyn_tt_cast(r, x.a, DYN_BOOL);
    return a == DYN_NONE ? NULL : dyn_tt_finish(r, c, dyn_np_reduce(r, DYN_OP_SUM, a, x.naxes, x.axes, false, DYN_I64));
}

/* argmax and argmin: along an axis, or of all elements in C order. */
DynVal *tt_rule_argmax(DynRec *r, NpCall *c) {
    Reduction x;
    if (arguments(r, c, &x) < 0) {
        return NULL;
    }
    int axis = dyn_np_slot(c, "dim").v == NULL || x.naxes == 0 ? -1 : x.axes[0];
    return dyn_tt_finish(r, c, position(r, (DynOp)c->b->op, x.a, axis, x.keepdim));
}

/* Running sums and products. float32 goes by float64 and halves by float32, as torch's do. */
DynVal *tt_rule_scan(DynRec *r, NpCall *c) {
    int axis;
    uint32_t a = dyn_tt_tensor(r, c, "input");
    DynDtype dt = DYN_NO_DTYPE;
    if (a == DYN_NONE || dyn_np_node_at(r, a)->ndim == 0) {
        return dyn_np_unsupported(r);
    }
    if (dyn_tt_axis(r, dyn_np_slot(c, "dim"), dyn_np_node_at(r, a)->ndim, &axis) < 0 || dyn_tt_dtype(r, c, &dt) < 0) {
        return dyn_np_unsupported(r);
    }
    if (dt == DYN_NO_DTYPE) {
        dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    }
    if (is_whole(dt) && c->b->effect != DYN_BIND_IN_PLACE && dyn_np_slot(c, "dtype").v == NULL) {
        dt = DYN_I64;
    }
    a = dyn_tt_cast(r, a, dt == DYN_F32 ? DYN_F64 : dyn_tt_wide(dt));
    bool converted = dt == DYN_F32 || dyn_dtype_is_half(dt); /* in a pass over the elements that a sum adds nothing to */
    if (c->b->op == DYN_OP_CUMSUM && converted) {            /* PyTorch's sums begin with 0, NumPy's with the first: -0.0 */
        a = dyn_tt_by(r, DYN_OP_ADD, a, 0);
    }
    return a == DYN_NONE ? NULL : dyn_tt_finish(r, c, dyn_tt_cast(r, dyn_np_scan(r, (DynOp)c->b->op, a, axis), dt));
}

/* norm: operator 0 vector_norm (ord a number, of 2), 1 torch.norm (p: a number or "fro"), 2 linalg.norm without ord. */
DynVal *tt_rule_norm(DynRec *r, NpCall *c) {
    Reduction x;
    double p = 2;
    DynOperand order = dyn_np_slot(c, c->b->op == 1 ? "p" : "ord");
    bool other_norm = c->b->op == 2 && order.v != NULL;
    if (arguments(r, c, &x) < 0 || x.dtype != DYN_NO_DTYPE || other_norm) {
        return dyn_np_unsupported(r);
    }
    bool fro = c->b->op == 1 && order.v != NULL && dyn_tt_is_str(r, order, "fro");
    if (!fro && dyn_tt_burnt_float(r, order, &p) < 0) {
        return NULL;
    }
    return dyn_tt_finish(r, c, dyn_tt_norm(r, x.a, p, x.naxes, x.axes, x.keepdim));
}

/* ---- what is made of them */

static bool is_single_or_double(DynDtype dt) { return dt == DYN_F32 || dt == DYN_F64; }

/* nansum: nan counts as 0. nanmean (operator 1): of those that aren't nan. */
DynVal *tt_rule_nansum(DynRec *r, NpCall *c) {
    Reduction x;
    if (arguments(r, c, &x) < 0) {
        return NULL;
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, x.a)->dtype;
    bool mean = c->b->op == 1, computed_in_dt = is_single_or_double(dt) && x.dtype == DYN_NO_DTYPE;
    if (dyn_dtypes[dt].kind != 'f' || (mean && !computed_in_dt)) {
        return dyn_np_unsupported(r);
    }
    uint32_t there = dyn_tt_compare(r, DYN_OP_EQUAL, x.a, dyn_np_node_arg(r, x.a));
    uint32_t kept = dyn_tt_choose(r, there, x.a, dyn_tt_number(r, 0));
    DynDtype result = x.dtype != DYN_NO_DTYPE ? x.dtype : dt;
    uint32_t sum = kept == DYN_NONE ? kept : dyn_np_reduce(r, DYN_OP_SUM, kept, x.naxes, x.axes, x.keepdim, result);
    if (c->b->op == 1 && sum != DYN_NONE) {
        uint32_t n = dyn_np_reduce(r, DYN_OP_SUM, there, x.naxes, x.axes, x.keepdim, DYN_I64);
        sum = dyn_tt_nodes(r, DYN_OP_DIVIDE, sum, n == DYN_NONE ? n : dyn_tt_cast(r, n, dt));
    }
    return dyn_tt_finish(r, c, sum);
}

/* aminmax: both, as a named tuple. */
DynVal *tt_rule_aminmax(DynRec *r, NpCall *c) {
    Reduction x;
    DynVal *items[2];
    if (arguments(r, c, &x) < 0 || !dyn_torch_is_named(Py_TYPE(c->result)) || dyn_np_node_at(r, x.a)->dtype == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t t = dyn_tt_reduce(r, i == 0 ? DYN_OP_MIN : DYN_OP_MAX, x.a, x.naxes, x.axes, x.keepdim);
        if ((items[i] = dyn_np_result(r, t, PyTuple_GET_ITEM(c->result, i))) == NULL) {
            return NULL;
        }
    }
    DynVal *v = dyn_rec_seq(r, DV_TUPLE, 2, items, c->result);
    if (v != NULL) {
        v->type = (PyObject *)Py_TYPE(c->result); /* a static type */
    }
    return v;
}

/* diff: what comes behind, less what comes before; of truths whether they differ. */
DynVal *tt_rule_diff(DynRec *r, NpCall *c) {
    DynOperand times = dyn_np_slot(c, "n"), dim = dyn_np_slot(c, "dim");
    uint32_t a = dyn_tt_tensor(r, c, "input"), one = dyn_np_int(r, 1);
    double n = 1;
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, axis = ndim - 1;
    if (ndim == 0 || dyn_tt_burnt_float(r, times, &n) < 0) {
        return dyn_np_unsupported(r);
    }
    if (n != 1 || dyn_tt_optional_axis(r, dim, ndim, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t size = dyn_np_node_at(r, a)->shape[axis];
    if (dyn_np_assume_op(r, DYN_S_GE, size, 1) < 0) {
        return NULL;
    }
    uint32_t front = dyn_np_range_view(r, a, axis, dyn_np_int(r, 0), dyn_np_op(r, DYN_S_SUB, size, one));
    uint32_t back = front == DYN_NONE ? front : dyn_np_range_view(r, a, axis, one, size);
    DynOp op = dyn_np_node_at(r, a)->dtype == DYN_BOOL ? DYN_OP_LOGICAL_XOR : DYN_OP_SUBTRACT;
    return back == DYN_NONE ? NULL : dyn_tt_finish(r, c, dyn_tt_nodes(r, op, back, front));
}

/* Two tensors of one rank and dtype, of floats; DYN_NONE: others. */
static uint32_t pair(DynRec *r, const NpCall *c, uint32_t *other) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), b = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[1]);
    if (b == DYN_NONE) {
        return dyn_np_no_node(r);
    }
    const DynNode *x = dyn_np_node_at(r, a), *y = dyn_np_node_at(r, b);
    bool alike = x->ndim == y->ndim && x->dtype == y->dtype;
    if (x->ndim == 0 || !alike || !is_single_or_double((DynDtype)x->dtype)) {
        return dyn_np_no_node(r);
    }
    *other = b;
    return a;
}

/* cosine_similarity: the sum of the products of both, each over its norm or eps. */
DynVal *tt_rule_cosine(DynRec *r, NpCall *c) {
    uint32_t of[2];
    double eps = 1e-8;
    int axis = 1, ndim;
    DynOperand dim = dyn_np_slot(c, "dim");
    if ((of[0] = pair(r, c, &of[1])) == DYN_NONE || dyn_tt_burnt_float(r, dyn_np_slot(c, "eps"), &eps) < 0) {
        return NULL;
    }
    ndim = dyn_np_node_at(r, of[0])->ndim;
    if (dim.v == NULL ? ndim < 2 : dyn_tt_axis(r, dim, ndim, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_agree(r, dyn_np_node_at(r, of[0])->shape[axis], dyn_np_node_at(r, of[1])->shape[axis]) < 0) {
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t norm = dyn_tt_norm(r, of[i], 2, 1, &axis, true);
        of[i] = dyn_tt_nodes(r, DYN_OP_DIVIDE, of[i], dyn_tt_by(r, DYN_OP_MAXIMUM, norm, eps));
    }
    return dyn_tt_finish(r, c, dyn_tt_reduce(r, DYN_OP_SUM, dyn_tt_nodes(r, DYN_OP_MULTIPLY, of[0], of[1]), 1, &axis, false));
}

/* pairwise_distance: the norm of the difference + eps along the last axis. */
DynVal *tt_rule_distance(DynRec *r, NpCall *c) {
    uint32_t a, b;
    double p = 2, eps = 1e-6;
    bool keepdim = false;
    const TtFloat floats[] = {{"p", &p}, {"eps", &eps}};
    if ((a = pair(r, c, &b)) == DYN_NONE || dyn_tt_burnt_floats(r, c, floats, 2) < 0 ||
        dyn_np_flag(r, dyn_np_slot(c, "keepdim"), &keepdim) < 0) {
        return NULL;
    }
    uint32_t t = dyn_tt_by(r, DYN_OP_ADD, dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, b), eps);
    int axis = dyn_np_node_at(r, a)->ndim - 1;
    return t == DYN_NONE ? NULL : dyn_tt_finish(r, c, dyn_tt_norm(r, t, p, 1, &axis, keepdim));
}
