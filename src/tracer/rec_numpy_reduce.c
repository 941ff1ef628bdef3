/* rec_numpy_reduce.c: reductions, and mean, var and std as the steps that NumPy makes of them. Called through the binding table.
 */
#include "tracer/rec_np.h"

static DynNode *node_at(DynRec *r, uint32_t id) { return dyn_graph_node(dyn_rec_graph(r), id); }

static uint32_t no_node(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return DYN_NONE;
}

/* dtype: in which the elements are taken and the result given. */
uint32_t dyn_np_reduce(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdims, DynDtype dtype) {
    DynNode *n = node_at(r, a);
    uint32_t mask = 0, shape[DYN_MAX_NDIM];
    int ndim = 0, was = n->ndim;
    for (int i = 0; i < naxes; i++) {
        if (mask >> axes[i] & 1u)
            return no_node(r);
        mask |= 1u << axes[i];
    }
    for (int i = 0; i < was; i++) {
        bool gone = mask >> i & 1u;
        if (gone && dyn_ops[op].guard == DYN_G_NONEMPTY && dyn_np_assume_op(r, DYN_S_NE, n->shape[i], 0) < 0)
            return DYN_NONE;
        if (!gone || keepdims)
            shape[ndim++] = gone ? dyn_np_int(r, 1) : n->shape[i];
    }
    if (dyn_np_drops((DynDtype)n->dtype, dtype))
        return no_node(r);
    if (dtype == DYN_F16) { /* NumPy's loops go by float, and round at the end */
        uint32_t wide = dyn_np_reduce(r, op, a, naxes, axes, keepdims, DYN_F32);
        return wide == DYN_NONE ? wide : dyn_np_copy(r, wide, dtype);
    }
    if (dtype == DYN_BOOL && op != DYN_OP_ANY && op != DYN_OP_ALL)
        op = op == DYN_OP_MAX || op == DYN_OP_SUM ? DYN_OP_ANY : DYN_OP_ALL;
    uint32_t id = dyn_np_unary_node(r, op, dtype, a, ndim, 1 + naxes);
    if (id == DYN_NONE)
        return id;
    n = node_at(r, id);
    memcpy(n->shape, shape, sizeof(*shape) * (size_t)ndim);
    n->aux[0] = keepdims;
    for (int i = 0; i < naxes; i++)
        n->aux[1 + i] = axes[i];
    return id;
}

typedef struct Reduction { /* the arguments that all of them take */
    uint32_t a;
    int naxes, axes[DYN_MAX_NDIM];
    bool keepdims;
    DynDtype dtype; /* asked for, or DYN_NO_DTYPE */
    DynOperand out;
} Reduction;

static int slot_named(const char *sig, const char *name) {
    int i = 0;
    for (const char *s = sig; *s != 0; i++) {
        size_t n = strcspn(s, " ");
        if (n == strlen(name) && memcmp(s, name, n) == 0)
            return i;
        s += n + (s[n] == ' ');
    }
    return NP_MAX_SLOTS - 1; /* no signature is that long: an empty slot */
}

static DynOperand argument(const NpCall *c, const char *name) { return c->slot[slot_named(c->b->sig, name)]; }

static int burnt_dtype(DynRec *r, DynOperand o, DynDtype *out) {
    PyArray_Descr *d = NULL;
    if (o.v == NULL)
        return 0;
    if (dyn_rec_burn(r, o.v, o.real) < 0)
        return -1;
    if (!PyArray_DescrConverter(o.real, &d)) {
        PyErr_Clear();
        return no_node(r), -1;
    }
    *out = dyn_dtype_of(d);
    Py_DECREF(d);
    return *out == DYN_NO_DTYPE ? (no_node(r), -1) : 0;
}

static int read_arguments(DynRec *r, const NpCall *c, Reduction *x) {
    DynOperand where = argument(c, "where");
    bool all = true;
    *x = (Reduction){.dtype = DYN_NO_DTYPE, .out = argument(c, "out")};
    x->a = dyn_np_node(r, c->slot[0]);
    if (x->a == DYN_NONE)
        return -1;
    if (argument(c, "initial").v != NULL || dyn_np_flag(r, where, &all) < 0 || !all)
        return no_node(r), -1;
    x->naxes = dyn_np_axes(r, argument(c, "axis"), node_at(r, x->a)->ndim, x->axes);
    if (x->naxes < 0 || dyn_np_flag(r, argument(c, "keepdims"), &x->keepdims) < 0)
        return -1;
    return burnt_dtype(r, argument(c, "dtype"), &x->dtype);
}

static DynVal *finish(DynRec *r, uint32_t node, DynOperand out, PyObject *result) {
    if (node == DYN_NONE || out.v == NULL)
        return dyn_np_result(r, node, result);
    return out.real == result ? dyn_np_store_into(r, out, dyn_np_node_arg(r, node)) : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
}

static DynDtype sum_dtype(DynDtype dt) {
    char kind = dyn_dtypes[dt].kind;
    return kind == 'b' || kind == 'i' ? DYN_I64 : kind == 'u' ? DYN_U64 : dt;
}

DynVal *np_rule_reduce(DynRec *r, NpCall *c) {
    Reduction x;
    DynOp op = (DynOp)c->b->op;
    if (read_arguments(r, c, &x) < 0)
        return NULL;
    DynDtype dt = (DynDtype)node_at(r, x.a)->dtype;
    if (dyn_ops[op].dtype == DYN_DT_SUM)
        dt = x.dtype != DYN_NO_DTYPE ? x.dtype : x.out.v != NULL ? dyn_np_dtype_of(x.out.real) : sum_dtype(dt);
    else if (dyn_ops[op].dtype == DYN_DT_LOGICAL)
        dt = DYN_BOOL;
    if (dt == DYN_NO_DTYPE)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return finish(r, dyn_np_reduce(r, op, x.a, x.naxes, x.axes, x.keepdims, dt), x.out, c->result);
}

/* How many elements go into one result, guarded to be more than `least`. */
static uint32_t count_of(DynRec *r, const Reduction *x, int64_t least) {
    uint32_t sizes[DYN_MAX_NDIM];
    for (int i = 0; i < x->naxes; i++)
        sizes[i] = node_at(r, x->a)->shape[x->axes[i]];
    uint32_t n = dyn_np_product(r, x->naxes, sizes);
    return n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GT, n, least) < 0 ? DYN_NONE : n;
}

/* node / count: NumPy divides by an int64 scalar, in double precision, and gives the dtype of what is divided. */
static uint32_t divide_by(DynRec *r, uint32_t node, uint32_t count) {
    NpArg args[2] = {dyn_np_node_arg(r, node), {{DYN_ARG_SYM, count}, NP_WEAK_INT}};
    DynDtype compute = dyn_dtypes[args[0].code].kind == 'c' ? DYN_C128 : DYN_F64;
    return dyn_np_elementwise_as(r, DYN_OP_DIVIDE, compute, (DynDtype)args[0].code, args, 2);
}

static uint32_t mean_of(DynRec *r, const Reduction *x, bool keepdims) {
    DynDtype dt = (DynDtype)node_at(r, x->a)->dtype;
    uint32_t n = count_of(r, x, 0);
    bool inexact = dyn_dtypes[dt].kind == 'f' || dyn_dtypes[dt].kind == 'c';
    dt = x->dtype != DYN_NO_DTYPE ? x->dtype : inexact ? dt : DYN_F64;
    if (n == DYN_NONE || (dyn_dtypes[dt].kind != 'f' && dyn_dtypes[dt].kind != 'c'))
        return no_node(r);
    uint32_t sum = dyn_np_reduce(r, DYN_OP_SUM, x->a, x->naxes, x->axes, keepdims, dt);
    return sum == DYN_NONE ? sum : divide_by(r, sum, n);
}

/* Of half precision the sum is a float; an array of quotients is too before it is rounded, a scalar is not. */
static uint32_t half_mean(DynRec *r, const Reduction *x) {
    uint32_t n = count_of(r, x, 0);
    uint32_t sum = n == DYN_NONE ? n : dyn_np_reduce(r, DYN_OP_SUM, x->a, x->naxes, x->axes, x->keepdims, DYN_F32);
    if (sum == DYN_NONE)
        return sum;
    NpArg args[2] = {dyn_np_node_arg(r, sum), {{DYN_ARG_SYM, n}, NP_WEAK_INT}};
    DynDtype quotient = node_at(r, sum)->ndim ? DYN_F32 : DYN_F64;
    uint32_t t = dyn_np_elementwise_as(r, DYN_OP_DIVIDE, DYN_F64, quotient, args, 2);
    return t == DYN_NONE ? t : dyn_np_copy(r, t, DYN_F16);
}

DynVal *np_rule_mean(DynRec *r, NpCall *c) {
    Reduction x;
    if (read_arguments(r, c, &x) < 0)
        return NULL;
    if (x.out.v != NULL)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    if (x.dtype != DYN_NO_DTYPE || node_at(r, x.a)->dtype != DYN_F16)
        return dyn_np_result(r, mean_of(r, &x, x.keepdims), c->result);
    return dyn_np_result(r, half_mean(r, &x), c->result);
}

/* The square of each element; of complex ones the sum of the squares of the parts. */
static uint32_t square_of(DynRec *r, uint32_t node) {
    NpArg args[2] = {dyn_np_node_arg(r, node)};
    if (dyn_dtypes[args[0].code].kind != 'c')
        return dyn_np_elementwise(r, DYN_OP_SQUARE, args, 1, NP_UFUNC);
    for (int i = 0; i < 2; i++) {
        uint32_t part = dyn_np_part(r, i == 0 ? DYN_OP_REAL : DYN_OP_IMAG, node);
        NpArg of = part == DYN_NONE ? args[0] : dyn_np_node_arg(r, part);
        uint32_t t = part == DYN_NONE ? part : dyn_np_elementwise(r, DYN_OP_SQUARE, &of, 1, NP_UFUNC);
        if (t == DYN_NONE)
            return t;
        args[i] = dyn_np_node_arg(r, t);
    }
    return dyn_np_elementwise(r, DYN_OP_ADD, args, 2, NP_UFUNC);
}

/* var (operator 0) and std (1): the mean, the squares of what is left, their sum over count - ddof, and the root. */
DynVal *np_rule_var(DynRec *r, NpCall *c) {
    Reduction x;
    int64_t ddof = 0;
    DynOperand d = argument(c, "ddof");
    if (read_arguments(r, c, &x) < 0)
        return NULL;
    if (d.v != NULL) {
        if (dyn_rec_burn(r, d.v, d.real) < 0)
            return NULL;
        ddof = PyLong_CheckExact(d.real) ? PyLong_AsLongLong(d.real) : -1;
        if (ddof < 0)
            PyErr_Clear();
    }
    if (ddof < 0 || x.out.v != NULL || x.dtype != DYN_NO_DTYPE)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    uint32_t mean = mean_of(r, &x, true), n = mean == DYN_NONE ? mean : count_of(r, &x, ddof);
    if (n == DYN_NONE || (n = dyn_np_op(r, DYN_S_SUB, n, dyn_np_int(r, ddof))) == DYN_NONE)
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    NpArg args[2] = {dyn_np_node_arg(r, x.a), dyn_np_node_arg(r, mean)};
    uint32_t t = dyn_np_elementwise(r, DYN_OP_SUBTRACT, args, 2, NP_UFUNC);
    if (t == DYN_NONE)
        return NULL;
    t = square_of(r, t);
    if (t != DYN_NONE)
        t = dyn_np_reduce(r, DYN_OP_SUM, t, x.naxes, x.axes, x.keepdims, (DynDtype)node_at(r, t)->dtype);
    if (t != DYN_NONE)
        t = divide_by(r, t, n);
    if (t != DYN_NONE && c->b->op == 1) {
        args[0] = dyn_np_node_arg(r, t);
        t = dyn_np_elementwise(r, DYN_OP_SQRT, args, 1, NP_UFUNC);
    }
    return dyn_np_result(r, t, c->result);
}
