/* rec_numpy_reduce.c: reductions, and mean, var and std as the steps that NumPy makes of them. Called through the binding table.
 */
#include "tracer/numpy/rec_np.h"

static uint32_t no_node(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return DYN_NONE;
}

static DynDtype dtype_at(DynRec *r, uint32_t id) { return (DynDtype)dyn_np_node_at(r, id)->dtype; }

/* ---- nodes */

/* Over no axis at all (rank 0, or axis=()) each element is its own result: a sum starts from 0, which makes 0 of -0, and a
 * product from 1, which makes inf+nanj of the complex number inf. */
static uint32_t reduce_nothing(DynRec *r, DynOp op, uint32_t a, DynDtype dtype) {
    bool sum = op == DYN_OP_SUM && dyn_dtype_is_inexact(dtype), product = op == DYN_OP_PROD && dyn_dtypes[dtype].kind == 'c';
    if (!sum && !product) {
        return dyn_np_copy(r, a, dtype);
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), {{DYN_ARG_SYM, dyn_np_int(r, product)}, NP_WEAK_INT}};
    return dyn_np_elementwise_as(r, product ? DYN_OP_MULTIPLY : DYN_OP_ADD, dtype, dtype, args, 2);
}

/* may_be_empty: also for rows that have no result of nothing; somebody combines the identity that they give then. */
static uint32_t reduce_node(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdims, DynDtype dtype,
                            bool may_be_empty) {
    DynNode *n = dyn_np_node_at(r, a);
    uint32_t mask = 0, shape[DYN_MAX_NDIM];
    int ndim = 0, was = n->ndim;
    if (dtype == DYN_BOOL && op != DYN_OP_ANY && op != DYN_OP_ALL) {
        op = op == DYN_OP_MAX || op == DYN_OP_SUM ? DYN_OP_ANY : DYN_OP_ALL;
    }
    if (naxes == 0) {
        return reduce_nothing(r, op, a, dtype);
    }
    for (int i = 0; i < naxes; i++) {
        if (mask >> axes[i] & 1u) {
            return no_node(r);
        }
        mask |= 1u << axes[i];
    }
    for (int i = 0; i < was; i++) {
        bool gone = mask >> i & 1u;
        if (gone && !may_be_empty && dyn_np_assume_op(r, DYN_S_NE, n->shape[i], 0) < 0) {
            return DYN_NONE;
        }
        if (!gone || keepdims) {
            shape[ndim++] = gone ? dyn_np_int(r, 1) : n->shape[i];
        }
    }
    if (dyn_np_drops((DynDtype)n->dtype, dtype)) {
        return no_node(r);
    }
    if (dyn_dtype_is_half(dtype)) { /* NumPy's loops go by float, and round at the end */
        uint32_t wide = reduce_node(r, op, a, naxes, axes, keepdims, DYN_F32, may_be_empty);
        return wide == DYN_NONE ? wide : dyn_np_copy(r, wide, dtype);
    }
    uint32_t id = dyn_np_unary_node(r, op, dtype, a, ndim, 1 + naxes);
    if (id == DYN_NONE) {
        return id;
    }
    n = dyn_np_node_at(r, id);
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    n->flags |= may_be_empty && dyn_ops[op].guard == DYN_G_NONEMPTY ? DYN_NODE_OR_NOTHING : 0;
    n->aux[0] = keepdims;
    for (int i = 0; i < naxes; i++) {
        n->aux[1 + i] = axes[i];
    }
    return id;
}

uint32_t dyn_np_reduce(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdims, DynDtype dtype) {
    return reduce_node(r, op, a, naxes, axes, keepdims, dtype, dyn_ops[op].guard != DYN_G_NONEMPTY);
}

/* `a` where the mask is set, else `other`: of a's own sizes, since NumPy does not spread the operand over the mask. */
static uint32_t masked(DynRec *r, uint32_t a, uint32_t mask, NpArg other) {
    NpArg args[3] = {dyn_np_node_arg(r, mask), dyn_np_node_arg(r, a), other};
    DynDtype dt = dtype_at(r, a);
    if (other.arg.kind == DYN_ARG_SYM && dyn_np_convert_guard(r, other.arg.id, dt) < 0) {
        return DYN_NONE;
    }
    uint32_t id = dyn_np_elementwise_as(r, DYN_OP_WHERE, dt, dt, args, 3);
    if (id == DYN_NONE || dyn_np_node_at(r, id)->ndim != dyn_np_node_at(r, a)->ndim) {
        return no_node(r);
    }
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        if (dyn_np_hint(r, dyn_np_node_at(r, id)->shape[i]) != dyn_np_hint(r, dyn_np_node_at(r, a)->shape[i])) {
            return no_node(r);
        }
    }
    return id;
}

static NpArg weak_int(DynRec *r, int64_t value) { return (NpArg){{DYN_ARG_SYM, dyn_np_int(r, value)}, NP_WEAK_INT}; }

/* ---- arguments */

/* Was None given by that name? It was taken for "not given". */
static bool given_none(const NpCall *c, const char *name) {
    int at = dyn_words_find(c->b->sig, name);
    if (at >= 0 && at < c->npos && c->args[at].real == Py_None) {
        return true;
    }
    for (int i = c->npos; i < c->npos + c->nkw; i++) {
        if (c->args[i].real == Py_None &&
            PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i - c->npos), name) == 0) {
            return true;
        }
    }
    return false;
}

int dyn_np_burnt_dtype(DynRec *r, DynOperand o, DynDtype *out) {
    PyArray_Descr *d = NULL;
    if (o.v == NULL) {
        return 0;
    }
    if (dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    if (!PyArray_DescrConverter(o.real, &d)) {
        PyErr_Clear();
        return no_node(r), -1;
    }
    *out = dyn_dtype_of(d);
    Py_DECREF(d);
    return *out == DYN_NO_DTYPE ? (no_node(r), -1) : 0;
}

static int read_where(DynRec *r, const NpCall *c, NpReduction *x) {
    DynOperand where = dyn_np_slot(c, "where");
    bool all = true;
    if (given_none(c, "where")) {
        return no_node(r), -1;
    }
    if (where.v == NULL || PyBool_Check(where.real)) {
        return dyn_np_flag(r, where, &all) < 0 || !all ? (no_node(r), -1) : 0;
    }
    x->where = dyn_np_node(r, where);
    return x->where == DYN_NONE || dtype_at(r, x->where) != DYN_BOOL ? (no_node(r), -1) : 0;
}

int dyn_np_reduce_args(DynRec *r, const NpCall *c, NpReduction *x) {
    DynOperand axis = dyn_np_slot(c, "axis");
    *x = (NpReduction){
        .where = DYN_NONE, .dtype = DYN_NO_DTYPE, .out = dyn_np_slot(c, "out"), .initial = dyn_np_slot(c, "initial")};
    x->a = dyn_np_node(r, c->slot[0]);
    if (x->a == DYN_NONE || read_where(r, c, x) < 0) {
        return -1;
    }
    if (dyn_np_node_at(r, x->a)->ndim == 0 && axis.v != NULL &&
        PyLong_CheckExact(axis.real)) { /* 0 and -1 are taken: they mean nothing */
        if (dyn_rec_burn(r, axis.v, axis.real) < 0) {
            return -1;
        }
    } else {
        x->naxes = dyn_np_axes(r, axis, dyn_np_node_at(r, x->a)->ndim, x->axes);
    }
    if (x->naxes < 0 || dyn_np_flag(r, dyn_np_slot(c, "keepdims"), &x->keepdims) < 0) {
        return -1;
    }
    return dyn_np_burnt_dtype(r, dyn_np_slot(c, "dtype"), &x->dtype);
}

/* What C makes of a float beyond an integer's range is not one thing: loops and single conversions differ. */
static bool converts(DynDtype from, DynDtype to) {
    return !dyn_dtype_is_inexact(from) || dyn_dtype_is_inexact(to) || to == DYN_BOOL;
}

DynVal *dyn_np_finish_out(DynRec *r, uint32_t node, DynOperand out, PyObject *result) {
    if (node == DYN_NONE || out.v == NULL) {
        return dyn_np_result(r, node, result);
    }
    DynDtype from = dtype_at(r, node), to = dyn_np_dtype_of(out.real);
    if (to == DYN_NO_DTYPE || !converts(from, to) || dyn_np_drops(from, to)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return out.real == result ? dyn_np_store_into(r, out, dyn_np_node_arg(r, node)) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

/* ---- sum, prod, max, min, any, all */

static DynDtype sum_dtype(DynDtype dt) {
    char kind = dyn_dtypes[dt].kind;
    if (kind == 'u') {
        return DYN_U64;
    }
    return kind == 'b' || kind == 'i' ? DYN_I64 : dt;
}

DynDtype dyn_np_accumulator(DynRec *r, DynOp op, uint32_t a, const NpReduction *x) {
    DynDtype dt = dtype_at(r, a), compute = DYN_NO_DTYPE, result;
    if (x->out.v == NULL) {
        return op == DYN_OP_ADD || op == DYN_OP_MULTIPLY ? sum_dtype(dt) : dt;
    }
    DynDtype out = dyn_np_dtype_of(x->out.real); /* NumPy promotes the operand with what it writes to */
    if (out == DYN_NO_DTYPE || dyn_np_types(r, op, out, dt, &compute, &result) < 0) {
        return no_node(r), DYN_NO_DTYPE;
    }
    return compute;
}

static DynOp binary_of(DynOp op) {
    switch (op) {
    case DYN_OP_SUM: return DYN_OP_ADD;
    case DYN_OP_PROD: return DYN_OP_MULTIPLY;
    case DYN_OP_MAX: return DYN_OP_MAXIMUM;
    case DYN_OP_MIN: return DYN_OP_MINIMUM;
    case DYN_OP_ANY: return DYN_OP_LOGICAL_OR;
    default: return DYN_OP_LOGICAL_AND;
    }
}

/* What a reduction of booleans is: any or all. */
static DynOp reduction_of_booleans(DynOp op) {
    switch (op) {
    case DYN_OP_SUM:
    case DYN_OP_MAX: return DYN_OP_ANY;
    case DYN_OP_PROD:
    case DYN_OP_MIN: return DYN_OP_ALL;
    default: return op;
    }
}

/* initial= as it is combined with: a Python number, or an array of rank 0 or NumPy scalar of that dtype. Of -0 a sum could make
 * 0.
 */
static int read_initial(DynRec *r, DynOperand o, DynOp op, DynDtype dt, NpArg *out) {
    if (dyn_np_operand(r, o, out) < 0) {
        return -1;
    }
    if (out->arg.kind == DYN_ARG_NODE) {
        return out->code == dt && dyn_np_node_at(r, out->arg.id)->ndim == 0 && op != DYN_OP_SUM ? 0 : (no_node(r), -1);
    }
    DynSyms *t = dyn_rec_syms(r);
    if (dyn_sym_at(t, out->arg.id)->type == DYN_T_FLOAT && op == DYN_OP_SUM &&
        dyn_np_assume(r, dyn_np_op(r, DYN_S_NOT, dyn_np_op(r, DYN_S_SAME_BITS, out->arg.id, dyn_sym_float(t, -0.0)), DYN_NONE)) <
            0) {
        return -1;
    }
    return dyn_np_convert_guard(r, out->arg.id, dt);
}

/* A reduction of x->a or of a value made of it, with where= and initial=. */
static uint32_t reduction(DynRec *r, DynOp op, const NpReduction *x, uint32_t a, bool keepdims, DynDtype dt) {
    NpArg initial = weak_int(r, op == DYN_OP_PROD || op == DYN_OP_ALL);
    bool extreme = dyn_ops[op].guard == DYN_G_NONEMPTY, given = x->initial.v != NULL;
    if (given && dt == DYN_F16 && !extreme) { /* the sum of both is rounded once */
        return no_node(r);
    }
    if (given && read_initial(r, x->initial, op, dt, &initial) < 0) {
        return DYN_NONE;
    }
    bool starts_alike = given && dtype_at(r, a) == dt;
    if (x->where != DYN_NONE && extreme && !starts_alike) {
        return no_node(r);
    }
    if (x->where != DYN_NONE &&
        (a = masked(r, a, x->where, extreme ? initial : weak_int(r, op == DYN_OP_PROD || op == DYN_OP_ALL))) == DYN_NONE) {
        return DYN_NONE;
    }
    uint32_t id = reduce_node(r, op, a, x->naxes, x->axes, keepdims, dt, !extreme || given);
    if (id == DYN_NONE || !given) {
        return id;
    }
    op = dt == DYN_BOOL ? reduction_of_booleans(op) : op;
    NpArg args[2] = {initial, dyn_np_node_arg(r, id)};
    return dyn_np_elementwise_as(r, binary_of(op), dt, dt, args, 2);
}

DynVal *np_rule_reduce(DynRec *r, NpCall *c) {
    NpReduction x;
    DynOp op = (DynOp)c->b->op;
    if (dyn_np_reduce_args(r, c, &x) < 0) {
        return NULL;
    }
    bool truth = dyn_ops[op].dtype == DYN_DT_LOGICAL, sums = dyn_ops[op].dtype == DYN_DT_SUM;
    if (truth && x.dtype != DYN_NO_DTYPE) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (sums && given_none(c, "initial")) { /* without its 0 a sum keeps -0 */
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    DynDtype dt = truth ? DYN_BOOL : x.dtype;
    if (dt == DYN_NO_DTYPE) {
        dt = dyn_np_accumulator(r, binary_of(op), x.a, &x);
    }
    if (dt == DYN_NO_DTYPE) {
        return NULL;
    }
    return dyn_np_finish_out(r, reduction(r, op, &x, x.a, x.keepdims, dt), x.out, c->result);
}

DynVal *np_rule_count_nonzero(DynRec *r, NpCall *c) {
    NpReduction x;
    if (dyn_np_reduce_args(r, c, &x) < 0) {
        return NULL;
    }
    uint32_t a = dtype_at(r, x.a) == DYN_BOOL ? x.a : dyn_np_copy(r, x.a, DYN_BOOL);
    return a == DYN_NONE ? NULL : dyn_np_result(r, reduction(r, DYN_OP_SUM, &x, a, x.keepdims, DYN_I64), c->result);
}

DynVal *np_rule_ptp(DynRec *r, NpCall *c) {
    NpReduction x;
    if (dyn_np_reduce_args(r, c, &x) < 0) {
        return NULL;
    }
    if (x.out.v != NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    DynDtype dt = dtype_at(r, x.a);
    uint32_t high = reduction(r, DYN_OP_MAX, &x, x.a, x.keepdims, dt);
    uint32_t low = high == DYN_NONE ? high : reduction(r, DYN_OP_MIN, &x, x.a, x.keepdims, dt);
    if (low == DYN_NONE) {
        return NULL;
    }
    NpArg args[2] = {dyn_np_node_arg(r, high), dyn_np_node_arg(r, low)};
    return dyn_np_result(r, dyn_np_elementwise(r, DYN_OP_SUBTRACT, args, 2, NP_UFUNC), c->result);
}

/* ---- mean, var, std */

/* How many elements go into one result: their number, guarded to be more than `least` (a Python number); with a mask a node that
 * counts, and whoever divides by it has to see to its zeros. */
static int count_of(DynRec *r, const NpReduction *x, bool keepdims, uint32_t least, NpArg *out) {
    uint32_t sizes[DYN_MAX_NDIM];
    const DynNode *a = dyn_np_node_at(r, x->a);
    if (x->where == DYN_NONE) {
        for (int i = 0; i < x->naxes; i++) {
            sizes[i] = a->shape[x->axes[i]];
        }
        uint32_t n = dyn_np_product(r, x->naxes, sizes);
        *out = (NpArg){{DYN_ARG_SYM, n}, NP_WEAK_INT};
        return n == DYN_NONE ? (no_node(r), -1) : dyn_np_assume(r, dyn_np_op(r, DYN_S_GT, n, least));
    }
    memcpy(sizes, a->shape, sizeof(*sizes) * a->ndim);
    uint32_t mask = dyn_np_broadcast_view(r, x->where, a->ndim, sizes);
    uint32_t n = mask == DYN_NONE ? mask : reduce_node(r, DYN_OP_SUM, mask, x->naxes, x->axes, keepdims, DYN_I64, true);
    *out = n == DYN_NONE ? (NpArg){{DYN_ARG_NONE, n}, 0} : dyn_np_node_arg(r, n);
    return n == DYN_NONE ? -1 : 0;
}

/* node / count: NumPy divides by an int64 scalar, in double precision. A count of 0 makes it warn whatever np.errstate says, so
 * the division is to raise a flag there. */
static uint32_t divide_to(DynRec *r, uint32_t node, NpArg count, DynDtype result) {
    NpArg args[2] = {dyn_np_node_arg(r, node), count};
    if (dyn_dtypes[dtype_at(r, node)].kind == 'u') {
        return no_node(r);
    }
    DynDtype compute = dyn_dtypes[dtype_at(r, node)].kind == 'c' ? DYN_C128 : DYN_F64;
    uint32_t id = dyn_np_elementwise_as(r, DYN_OP_DIVIDE, compute, result, args, 2);
    if (id != DYN_NONE && count.arg.kind == DYN_ARG_NODE) {
        dyn_np_node_at(r, id)->flags |= DYN_NODE_WARNS;
    }
    return id;
}

/* The same, of the dtype of what is divided. */
static uint32_t divide_by(DynRec *r, uint32_t node, NpArg count) { return divide_to(r, node, count, dtype_at(r, node)); }

/* The dtype in which mean and var add up; with `out` what is added up is then cast to its dtype. */
static DynDtype mean_dtype(DynRec *r, const NpReduction *x, uint32_t a, bool out) {
    DynDtype dt = dtype_at(r, x->a);
    if (x->dtype != DYN_NO_DTYPE) {
        return x->dtype;
    }
    if (!dyn_dtype_is_inexact(dt)) {
        return DYN_F64;
    }
    return out ? dyn_np_accumulator(r, DYN_OP_ADD, a, x) : dtype_at(r, a);
}

static uint32_t sum_for_mean(DynRec *r, const NpReduction *x, uint32_t a, bool keepdims, bool out) {
    DynDtype dt = mean_dtype(r, x, a, out);
    uint32_t id = dt == DYN_NO_DTYPE ? no_node(r) : reduction(r, DYN_OP_SUM, x, a, keepdims, dt);
    if (id == DYN_NONE || !out || x->out.v == NULL) {
        return id;
    }
    DynDtype to = dyn_np_dtype_of(x->out.real);
    if (to == DYN_NO_DTYPE || !converts(dt, to) || dyn_np_drops(dt, to)) {
        return no_node(r);
    }
    return to == dt ? id : dyn_np_copy(r, id, to);
}

/* Of half precision the sum is a float; an array of quotients is too before it is rounded, a scalar is not. */
static uint32_t half_mean(DynRec *r, const NpReduction *x, NpArg count) {
    uint32_t sum = x->out.v != NULL ? no_node(r) : reduction(r, DYN_OP_SUM, x, x->a, x->keepdims, DYN_F32);
    if (sum == DYN_NONE) {
        return sum;
    }
    uint32_t t = divide_to(r, sum, count, dyn_np_node_at(r, sum)->ndim > 0 ? DYN_F32 : DYN_F64);
    return t == DYN_NONE ? t : dyn_np_copy(r, t, DYN_F16);
}

static uint32_t mean_of(DynRec *r, const NpReduction *x, NpArg count) {
    if (x->dtype == DYN_NO_DTYPE && dtype_at(r, x->a) == DYN_F16) {
        return half_mean(r, x, count);
    }
    uint32_t sum = sum_for_mean(r, x, x->a, x->keepdims, true);
    return sum == DYN_NONE ? sum : divide_by(r, sum, count);
}

DynVal *np_rule_mean(DynRec *r, NpCall *c) {
    NpReduction x;
    NpArg count;
    if (dyn_np_reduce_args(r, c, &x) < 0 || count_of(r, &x, x.keepdims, dyn_np_int(r, 0), &count) < 0) {
        return NULL;
    }
    return dyn_np_finish_out(r, mean_of(r, &x, count), x.out, c->result);
}

/* Weights of the operand's sizes; those of one axis alone with new axes for the others. */
static uint32_t spread_weights(DynRec *r, const NpReduction *x, DynOperand weights) {
    uint32_t w = dyn_np_node(r, weights);
    int ndim = dyn_np_node_at(r, x->a)->ndim;
    if (w == DYN_NONE || dyn_np_node_at(r, w)->ndim == ndim) {
        return w;
    }
    return dyn_np_node_at(r, w)->ndim == 1 && x->naxes == 1 ? dyn_np_newaxis(r, w, ((1u << ndim) - 1) & ~(1u << x->axes[0]), ndim)
                                                            : no_node(r);
}

/* The weighted sum over the sum of weights. Where that is 0 eager raises: 0 / it raises a flag there for certain. */
static uint32_t weighted(DynRec *r, const NpReduction *x, uint32_t w) {
    DynDtype dt = dtype_at(r, x->a), result;
    bool exact = !dyn_dtype_is_inexact(dt);
    if (dyn_np_types(r, DYN_OP_ADD, dt, dtype_at(r, w), &dt, &result) < 0 ||
        (exact && dyn_np_types(r, DYN_OP_ADD, dt, DYN_F64, &dt, &result) < 0)) {
        return DYN_NONE;
    }
    NpArg args[3] = {dyn_np_node_arg(r, x->a), dyn_np_node_arg(r, w)};
    uint32_t sum = dyn_np_elementwise_as(r, DYN_OP_MULTIPLY, dt, dt, args, 2);
    sum = sum == DYN_NONE ? sum : reduce_node(r, DYN_OP_SUM, sum, x->naxes, x->axes, x->keepdims, dt, true);
    uint32_t scale = sum == DYN_NONE ? sum : reduce_node(r, DYN_OP_SUM, w, x->naxes, x->axes, x->keepdims, dt, true);
    if (scale == DYN_NONE) {
        return scale;
    }
    NpArg zero[2] = {weak_int(r, 0), dyn_np_node_arg(r, scale)};
    uint32_t z = dyn_np_elementwise_as(r, DYN_OP_DIVIDE, dt, dt, zero, 2);
    if (z == DYN_NONE) {
        return z;
    }
    dyn_np_node_at(r, z)->flags |= DYN_NODE_WARNS;
    args[0] = dyn_np_node_arg(r, sum);
    args[1] = zero[1];
    uint32_t q = dyn_np_elementwise_as(r, DYN_OP_DIVIDE, dt, dt, args, 2);
    args[1] = dyn_np_node_arg(r, z);
    uint32_t nan = q == DYN_NONE ? q : dyn_np_elementwise_as(r, DYN_OP_ISNAN, dt, DYN_BOOL, args + 1, 1);
    if (nan == DYN_NONE) {
        return nan;
    }
    args[0] = dyn_np_node_arg(r, nan);
    args[2] = dyn_np_node_arg(r, q);
    return dyn_np_elementwise_as(r, DYN_OP_WHERE, dt, dt, args, 3);
}

DynVal *np_rule_average(DynRec *r, NpCall *c) {
    NpReduction x;
    NpArg count;
    DynOperand weights = dyn_np_slot(c, "weights");
    bool returned = false;
    if (dyn_np_reduce_args(r, c, &x) < 0 || dyn_np_flag(r, dyn_np_slot(c, "returned"), &returned) < 0) {
        return NULL;
    }
    if (returned) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (weights.v != NULL) {
        uint32_t w = spread_weights(r, &x, weights);
        return w == DYN_NONE ? NULL : dyn_np_result(r, weighted(r, &x, w), c->result);
    }
    bool empty = count_of(r, &x, x.keepdims, dyn_np_int(r, 0), &count) < 0;
    return dyn_np_result(r, empty ? DYN_NONE : mean_of(r, &x, count), c->result);
}

/* What is left of the elements without their mean (given, or computed). */
static uint32_t deviations(DynRec *r, const NpCall *c, const NpReduction *x) {
    DynOperand given = dyn_np_slot(c, "mean");
    NpArg args[2] = {dyn_np_node_arg(r, x->a)}, count;
    if (given.v != NULL) {
        if (dyn_np_operand(r, given, &args[1]) < 0) {
            return DYN_NONE;
        }
    } else {
        uint32_t sum = sum_for_mean(r, x, x->a, true, false);
        if (sum == DYN_NONE || count_of(r, x, true, dyn_np_int(r, 0), &count) < 0 ||
            (sum = divide_by(r, sum, count)) == DYN_NONE) {
            return DYN_NONE;
        }
        args[1] = dyn_np_node_arg(r, sum);
    }
    uint32_t t = dyn_np_elementwise(r, DYN_OP_SUBTRACT, args, 2, NP_UFUNC);
    if (t == DYN_NONE || dyn_np_node_at(r, t)->ndim != dyn_np_node_at(r, x->a)->ndim) {
        return no_node(r);
    }
    for (int i = 0; i < dyn_np_node_at(r, t)->ndim; i++) {
        if (dyn_np_hint(r, dyn_np_node_at(r, t)->shape[i]) != dyn_np_hint(r, dyn_np_node_at(r, x->a)->shape[i])) {
            return no_node(r);
        }
    }
    return t;
}

/* ddof or correction: a Python number. */
static uint32_t read_ddof(DynRec *r, const NpCall *c) {
    DynOperand d = dyn_np_slot(c, "ddof"), other = dyn_np_slot(c, "correction");
    if (d.v != NULL && other.v != NULL) {
        return no_node(r);
    }
    d = d.v != NULL ? d : other;
    if (d.v == NULL) {
        return dyn_np_int(r, 0);
    }
    uint32_t s = dyn_rec_number(r, d.v, d.real);
    return s == DYN_NONE || dyn_sym_at(dyn_rec_syms(r), s)->type == DYN_T_BOOL ? no_node(r) : s;
}

/* Degrees of freedom: count - ddof, guarded to be more than 0, or of a mask's counts never less. */
static int freedom(DynRec *r, const NpReduction *x, uint32_t ddof, NpArg *out) {
    if (count_of(r, x, x->keepdims, ddof, out) < 0) {
        return -1;
    }
    const uint8_t ddof_code = dyn_sym_at(dyn_rec_syms(r), ddof)->type == DYN_T_FLOAT ? NP_WEAK_FLOAT : NP_WEAK_INT;
    if (out->arg.kind == DYN_ARG_SYM) {
        out->arg.id = dyn_np_op(r, DYN_S_SUB, out->arg.id, ddof);
        out->code = ddof_code;
        return out->arg.id == DYN_NONE ? (no_node(r), -1) : 0;
    }
    NpArg args[2] = {*out, {{DYN_ARG_SYM, ddof}, ddof_code}};
    uint32_t id = dyn_np_elementwise(r, DYN_OP_SUBTRACT, args, 2, NP_UFUNC);
    if (id == DYN_NONE) {
        return -1;
    }
    args[0] = dyn_np_node_arg(r, id);
    args[1] = weak_int(r, 0);
    id = dyn_np_elementwise(r, DYN_OP_MAXIMUM, args, 2, NP_UFUNC);
    *out = id == DYN_NONE ? *out : dyn_np_node_arg(r, id);
    return id == DYN_NONE ? -1 : 0;
}

/* squares / freedom. Where that is a node 0 / freedom is added: 0, but where there is no freedom a flag for certain (nan / 0 has
 * none). */
static uint32_t variance(DynRec *r, uint32_t squares, NpArg dof) {
    DynDtype dt = dtype_at(r, squares);
    if (dyn_dtypes[dt].kind == 'u' || (dyn_dtypes[dt].kind == 'c' && dof.arg.kind != DYN_ARG_SYM)) {
        return no_node(r);
    }
    if (dof.arg.kind == DYN_ARG_SYM) {
        return divide_by(r, squares, dof);
    }
    NpArg args[2] = {dyn_np_node_arg(r, squares), dof}, zero[2] = {weak_int(r, 0), dof};
    uint32_t q = dyn_np_elementwise_as(r, DYN_OP_DIVIDE, DYN_F64, DYN_F64, args, 2);
    uint32_t z = q == DYN_NONE ? q : dyn_np_elementwise_as(r, DYN_OP_DIVIDE, DYN_F64, DYN_F64, zero, 2);
    if (z == DYN_NONE) {
        return z;
    }
    dyn_np_node_at(r, z)->flags |= DYN_NODE_WARNS;
    args[0] = dyn_np_node_arg(r, q);
    args[1] = dyn_np_node_arg(r, z);
    return dyn_np_elementwise_as(r, DYN_OP_ADD, DYN_F64, dt, args, 2);
}

/* The square of each element; of complex ones the sum of the squares of the parts. */
static uint32_t square_of(DynRec *r, uint32_t node) {
    NpArg args[2] = {dyn_np_node_arg(r, node)};
    if (dyn_dtypes[args[0].code].kind != 'c') {
        return dyn_np_elementwise(r, DYN_OP_SQUARE, args, 1, NP_UFUNC);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t part = dyn_np_part(r, i == 0 ? DYN_OP_REAL : DYN_OP_IMAG, node);
        NpArg of = part == DYN_NONE ? args[0] : dyn_np_node_arg(r, part);
        uint32_t t = part == DYN_NONE ? part : dyn_np_elementwise(r, DYN_OP_SQUARE, &of, 1, NP_UFUNC);
        if (t == DYN_NONE) {
            return t;
        }
        args[i] = dyn_np_node_arg(r, t);
    }
    return dyn_np_elementwise(r, DYN_OP_ADD, args, 2, NP_UFUNC);
}

/* var (operator 0) and std (1): the squares of the deviations, their sum over the degrees of freedom, and the root. */
DynVal *np_rule_var(DynRec *r, NpCall *c) {
    NpReduction x;
    NpArg dof, arg;
    uint32_t ddof = dyn_np_reduce_args(r, c, &x) < 0 ? DYN_NONE : read_ddof(r, c);
    uint32_t t = ddof == DYN_NONE ? ddof : deviations(r, c, &x);
    if (t == DYN_NONE) {
        return NULL;
    }
    t = square_of(r, t);
    t = t == DYN_NONE ? t : sum_for_mean(r, &x, t, x.keepdims, true);
    if (t == DYN_NONE || freedom(r, &x, ddof, &dof) < 0 || (t = variance(r, t, dof)) == DYN_NONE) {
        return NULL;
    }
    if (c->b->op == 1) {
        DynDtype dt = dtype_at(r, t);
        arg = dyn_np_node_arg(r, t);
        t = dyn_np_elementwise(r, DYN_OP_SQRT, &arg, 1, NP_UFUNC);
        t = t == DYN_NONE || dtype_at(r, t) == dt ? t : dyn_np_copy(r, t, dt);
    }
    return dyn_np_finish_out(r, t, x.out, c->result);
}
