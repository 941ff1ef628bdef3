/* rec_numpy_ufunc.c: calls of ufuncs in all their forms (out=, where=, dtype=, two results), their methods, and clip and round,
 * which NumPy makes of ufuncs. Called through the binding table. What a call takes is read once (UfuncCall); the operators
 * themselves are rec_numpy_elem.c's. */
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_state.h"

static int refuse(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return -1;
}

typedef struct UfuncCall {
    int nin, nout;
    DynOperand in[3], out[2], where; /* v is NULL where there is none */
    DynDtype dtype;                  /* asked for, or DYN_NO_DTYPE */
    PyObject *casting;               /* borrowed, or NULL */
} UfuncCall;

/* ---- reading a call */

static int burnt_dtype(DynRec *r, DynOperand o, DynDtype *out) {
    PyArray_Descr *d = NULL;
    if (dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    if (o.real == Py_None) {
        return 0;
    }
    if (!PyArray_DescrConverter(o.real, &d)) {
        PyErr_Clear();
        return refuse(r);
    }
    *out = dyn_dtype_of(d);
    Py_DECREF(d);
    return *out == DYN_NO_DTYPE ? refuse(r) : 0;
}

static int one_out(DynRec *r, DynOperand o, DynOperand *out) {
    if (o.real == Py_None) {
        return dyn_rec_burn(r, o.v, o.real);
    }
    if (!PyArray_CheckExact(o.real) || o.v->kind != DV_ARRAY) {
        return refuse(r);
    }
    *out = o;
    return 0;
}

/* out=: an array, None, or a tuple of as many as there are results. */
static int read_out(DynRec *r, DynOperand o, UfuncCall *u) {
    DynOperand items[2];
    if (!PyTuple_CheckExact(o.real)) {
        return u->nout == 1 ? one_out(r, o, &u->out[0]) : refuse(r);
    }
    if (dyn_np_items(r, o, items, 2) != u->nout) {
        return refuse(r);
    }
    for (int i = 0; i < u->nout; i++) {
        if (one_out(r, items[i], &u->out[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* where=: True, or a mask. (None is a mask: False.) */
static int read_where(DynRec *r, DynOperand o, UfuncCall *u) {
    if (o.real == Py_True) {
        return dyn_rec_burn(r, o.v, o.real);
    }
    uint32_t node = dyn_np_node(r, o);
    if (node == DYN_NONE || dyn_np_node_at(r, node)->dtype != DYN_BOOL) {
        return refuse(r);
    }
    u->where = o;
    return 0;
}

/* order=: K is the default; C order of a result is C's at every call. Others depend on more than is guarded. */
static int read_order(DynRec *r, DynOperand o) {
    if (dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    bool known = PyUnicode_Check(o.real) &&
                 (PyUnicode_CompareWithASCIIString(o.real, "K") == 0 || PyUnicode_CompareWithASCIIString(o.real, "C") == 0);
    return known ? 0 : refuse(r);
}

static int read_keyword(DynRec *r, const char *name, DynOperand o, UfuncCall *u) {
    if (strcmp(name, "out") == 0) {
        return read_out(r, o, u);
    }
    if (strcmp(name, "where") == 0) {
        return read_where(r, o, u);
    }
    if (strcmp(name, "dtype") == 0) {
        return burnt_dtype(r, o, &u->dtype);
    }
    if (strcmp(name, "order") == 0) {
        return read_order(r, o);
    }
    if (strcmp(name, "casting") == 0) {
        u->casting = o.real;
    } else if (strcmp(name, "subok") != 0) { /* which says something of subclasses alone */
        return refuse(r);
    }
    return dyn_rec_burn(r, o.v, o.real);
}

static int read_call(DynRec *r, const NpCall *c, const DynOperand *args, int npos, UfuncCall *u) {
    for (int i = 0; i < npos; i++) {
        if (i < u->nin) {
            u->in[i] = args[i];
        } else if (i >= u->nin + u->nout || one_out(r, args[i], &u->out[i - u->nin]) < 0) {
            return refuse(r);
        }
    }
    for (int i = 0; i < c->nkw; i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(c->kwnames, i));
        if (name == NULL) {
            PyErr_Clear();
            return refuse(r);
        }
        if (read_keyword(r, name, c->args[c->npos + i], u) < 0) {
            return -1;
        }
    }
    return npos < u->nin ? refuse(r) : 0;
}

/* ---- where= */

static NpArg number_arg(DynRec *r, int64_t value) { return (NpArg){{DYN_ARG_SYM, dyn_np_int(r, value)}, NP_WEAK_INT}; }

/* Operands of an operator that raises floating-point flags: where the mask is False, a number that raises none. */
static int quiet_operands(DynRec *r, DynOp op, NpArg mask, NpArg *args, int n) {
    for (int i = 0; i < n; i++) {
        NpArg choice[3] = {mask, args[i], number_arg(r, op == DYN_OP_ARCTANH ? 0 : 1)};
        DynDtype dt = (DynDtype)args[i].code;
        if (args[i].code >= DYN_DTYPE_COUNT || dt == DYN_BOOL) {
            continue;
        }
        uint32_t id = dyn_np_elementwise_as(r, DYN_OP_KEEP, dt, dt, choice, 3);
        if (id == DYN_NONE) {
            return -1;
        }
        args[i] = dyn_np_node_arg(r, id);
    }
    return 0;
}

/* Can the operator raise a floating-point flag? */
static bool may_raise(DynOp op) {
    const char *of_complex = dyn_complex_ops[op].fpe;
    return dyn_ops[op].fpe[0] != 0 || (of_complex != NULL && of_complex[0] != 0);
}

static bool is_complex(DynRec *r, uint32_t node) { return dyn_dtypes[dyn_np_node_at(r, node)->dtype].kind == 'c'; }

/* What stands in `out` after value was written where the mask is True. Where one of the two is complex NumPy warns, since it
 * reads `out`, too, in the dtype of the value. */
static uint32_t masked(DynRec *r, NpArg mask, uint32_t value, DynOperand out) {
    uint32_t old = dyn_np_node(r, out);
    if (old == DYN_NONE) {
        return old;
    }
    if (is_complex(r, value) != is_complex(r, old)) {
        return refuse(r), DYN_NONE;
    }
    NpArg choice[3] = {mask, dyn_np_node_arg(r, value), dyn_np_node_arg(r, old)};
    DynDtype dt = (DynDtype)dyn_np_node_at(r, old)->dtype;
    return dyn_np_elementwise_as(r, DYN_OP_KEEP, dt, dt, choice, 3);
}

/* ---- results */

/* Writing one result must not change what another one, or its mask, is made of: the nodes come first, then the stores. */
static DynVal *finish(DynRec *r, const UfuncCall *u, const uint32_t *nodes, PyObject *result) {
    DynVal *v[2];
    if (u->nout == 2 && (!PyTuple_CheckExact(result) || PyTuple_GET_SIZE(result) != 2)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (int i = 0; i < u->nout; i++) {
        PyObject *real = u->nout == 2 ? PyTuple_GET_ITEM(result, i) : result;
        if (nodes[i] == DYN_NONE) {
            return NULL;
        }
        if (u->out[i].v == NULL) {
            v[i] = dyn_np_result(r, nodes[i], real);
        } else {
            v[i] = real == u->out[i].real ? dyn_np_store_into(r, u->out[i], dyn_np_node_arg(r, nodes[i]))
                                          : dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
        if (v[i] == NULL) {
            return NULL;
        }
    }
    return u->nout == 2 ? dyn_rec_seq(r, DV_TUPLE, 2, v, result) : v[0];
}

/* The rows of a ufunc with two results. */
static const struct Pair {
    const char *name;
    DynOp op[2];
} pairs[] = {{"divmod", {DYN_OP_FLOOR_DIVIDE, DYN_OP_REMAINDER}},
             {"frexp", {DYN_OP_FREXP_MANTISSA, DYN_OP_FREXP_EXPONENT}},
             {"modf", {DYN_OP_MODF_FRACTION, DYN_OP_MODF_WHOLE}}};

static int rows_of(const DynBinding *b, const UfuncCall *u, DynOp *ops) {
    ops[0] = (DynOp)b->op;
    for (size_t i = 0; i < DYN_COUNTOF(pairs) && u->nout == 2; i++) {
        if (strcmp(pairs[i].name, b->path) == 0) {
            memcpy(ops, pairs[i].op, sizeof(pairs[i].op));
            return 0;
        }
    }
    return u->nout == 1 ? 0 : -1;
}

static uint32_t one_node(DynRec *r, const NpCall *c, const UfuncCall *u, int which, DynOp op, const NpArg *args) {
    DynDtype loop[4];
    int codes[2] = {args[0].code, args[1].code};
    if (u->dtype == DYN_NO_DTYPE) {
        return dyn_np_elementwise(r, op, args, u->nin, NP_UFUNC);
    }
    if (dyn_ops[op].dtype == DYN_DT_LOGICAL || dyn_ops[op].dtype == DYN_DT_COMPARE) { /* their only result is bool */
        return u->dtype == DYN_BOOL ? dyn_np_elementwise(r, op, args, u->nin, NP_UFUNC) : (refuse(r), DYN_NONE);
    }
    if (dyn_np_loop(c->b->callable, codes, u->nin, u->nout, u->dtype, u->casting, loop) < 0) {
        return refuse(r), DYN_NONE;
    }
    if (u->nin == 2 && loop[0] != loop[1] && op != DYN_OP_LDEXP) {
        return refuse(r), DYN_NONE;
    }
    return dyn_np_elementwise_in(r, op, loop[0], loop[u->nin + which], args, u->nin, NP_UFUNC);
}

static DynVal *call_ufunc(DynRec *r, const NpCall *c, const UfuncCall *u, NpArg *args) {
    NpArg mask = {{DYN_ARG_NONE, 0}, DYN_BOOL};
    uint32_t nodes[2];
    DynOp ops[2];
    if (rows_of(c->b, u, ops) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (u->where.v != NULL && dyn_np_operand(r, u->where, &mask) < 0) {
        return NULL;
    }
    for (int i = 0; i < u->nout; i++) {
        if (u->where.v != NULL && u->out[i].v == NULL) { /* what stands where the mask is False is nobody's */
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
    }
    bool silenced = u->where.v != NULL && (may_raise(ops[0]) || u->nout == 2);
    if (silenced && quiet_operands(r, ops[0], mask, args, u->nin) < 0) {
        return NULL;
    }
    for (int i = 0; i < u->nout; i++) {
        nodes[i] = one_node(r, c, u, i, ops[i], args);
        if (nodes[i] != DYN_NONE && u->where.v != NULL) {
            nodes[i] = masked(r, mask, nodes[i], u->out[i]);
        }
        if (nodes[i] == DYN_NONE) {
            return NULL;
        }
    }
    return finish(r, u, nodes, c->result);
}

static UfuncCall of_ufunc(PyObject *callable) {
    const PyUFuncObject *f = (PyUFuncObject *)callable;
    return (UfuncCall){.nin = f->nin, .nout = f->nout, .dtype = DYN_NO_DTYPE};
}

static int operands(DynRec *r, const UfuncCall *u, NpArg *args) {
    for (int i = 0; i < u->nin; i++) {
        if (dyn_np_operand(r, u->in[i], &args[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

DynVal *np_rule_ufunc(DynRec *r, NpCall *c) {
    NpArg args[3] = {0};
    UfuncCall u = of_ufunc(c->b->callable);
    if (read_call(r, c, c->args, c->npos, &u) < 0 || operands(r, &u, args) < 0) {
        return NULL;
    }
    return call_ufunc(r, c, &u, args);
}

/* The method: of real numbers an array gives itself. */
DynVal *np_rule_conjugate(DynRec *r, NpCall *c) {
    NpArg a;
    if (c->slot[0].v == NULL || dyn_np_operand(r, c->slot[0], &a) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return c->result == c->slot[0].real ? c->slot[0].v
                                        : dyn_np_result(r, dyn_np_elementwise(r, DYN_OP_CONJUGATE, &a, 1, NP_UFUNC), c->result);
}

/* ---- clip */

/* The least or greatest integer of a dtype. */
static int64_t end_of_dtype(const DynDtypeInfo *dt, bool low) {
    if (low && dt->kind == 'u') {
        return 0;
    }
    int64_t most = (int64_t)(((uint64_t)1 << (dt->size * 8 - (dt->kind == 'i'))) - 1);
    return low ? -most - 1 : most;
}

/* A Python int at or beyond the end of an integer dtype is no bound at all. 1: dropped, under a guard; 0: kept; -1. */
static int drops_bound(DynRec *r, NpArg a, NpArg bound, bool low) {
    static const DynSymOp low_relation[] = {DYN_S_GT, DYN_S_LE}, high_relation[] = {DYN_S_LT, DYN_S_GE};
    if (bound.code != NP_WEAK_INT || a.code >= DYN_DTYPE_COUNT || !dyn_dtype_is_integer((DynDtype)a.code)) {
        return 0;
    }
    const DynDtypeInfo *dt = &dyn_dtypes[a.code];
    if (dt->kind == 'u' && dt->size == 8 && !low) { /* beyond what a symbol holds */
        return 0;
    }
    int64_t end = end_of_dtype(dt, low), v = dyn_np_hint(r, bound.arg.id);
    bool dropped = low ? v <= end : v >= end;
    const DynSymOp *relation = low ? low_relation : high_relation;
    return dyn_np_assume_op(r, relation[dropped], bound.arg.id, end) < 0 ? -1 : dropped;
}

/* Is it one value for all elements? */
static bool lone(DynRec *r, NpArg a) { return a.arg.kind == DYN_ARG_SYM || dyn_np_node_at(r, a.arg.id)->ndim == 0; }

/* Does an array bound have an element of its own for each of the result's? */
static bool spread(DynRec *r, NpArg bound, uint32_t like) {
    const DynNode *b = bound.arg.kind == DYN_ARG_NODE ? dyn_np_node_at(r, bound.arg.id) : NULL, *n = dyn_np_node_at(r, like);
    bool repeated = b != NULL && (b->op == DYN_OP_BROADCAST || b->layout.still != 0);
    bool full = b != NULL && b->ndim == n->ndim && !repeated;
    for (int i = 0; full && i < n->ndim; i++) {
        full = dyn_np_hint(r, b->shape[i]) == dyn_np_hint(r, n->shape[i]);
    }
    return full;
}

/* Both bounds: of floats NumPy's loop for bounds that stay the same differs in the sign of zero from the other, which takes the
 * greater and then the lesser. */
static uint32_t clip_both(DynRec *r, const NpArg *args) {
    int codes[3] = {args[0].code, args[1].code, args[2].code};
    DynDtype loop[4];
    PyObject *f = dyn_module_attr("numpy._core.umath", "clip");
    int known = f == NULL ? -1 : dyn_np_loop(f, codes, 3, 1, DYN_NO_DTYPE, NULL, loop);
    Py_XDECREF(f);
    PyErr_Clear();
    bool one_dtype = known == 0 && loop[0] == loop[1] && loop[0] == loop[2];
    if (!one_dtype || dyn_dtypes[loop[0]].kind == 'c') {
        return refuse(r), DYN_NONE;
    }
    for (int i = 1; i < 3; i++) {
        if (args[i].arg.kind == DYN_ARG_SYM && dyn_np_convert_guard(r, args[i].arg.id, loop[0]) < 0) {
            return DYN_NONE;
        }
    }
    bool one_loop = dyn_dtypes[loop[0]].kind != 'f' || loop[0] == DYN_F16;
    bool lone_bounds = lone(r, args[1]) && lone(r, args[2]);
    if (loop[0] != DYN_BOOL && (lone_bounds || one_loop)) {
        return dyn_np_elementwise_as(r, DYN_OP_CLIP, loop[0], loop[0], args, 3);
    }
    uint32_t t = dyn_np_elementwise_as(r, loop[0] == DYN_BOOL ? DYN_OP_LOGICAL_OR : DYN_OP_MAXIMUM, loop[0], loop[0], args, 2);
    if (t == DYN_NONE) {
        return t;
    }
    NpArg upper[2] = {dyn_np_node_arg(r, t), args[2]};
    t = dyn_np_elementwise_as(r, loop[0] == DYN_BOOL ? DYN_OP_LOGICAL_AND : DYN_OP_MINIMUM, loop[0], loop[0], upper, 2);
    if (t == DYN_NONE || loop[0] == DYN_BOOL) {
        return t;
    }
    uint32_t count = dyn_np_product(r, dyn_np_node_at(r, t)->ndim, dyn_np_node_at(r, t)->shape);
    if (!(spread(r, args[1], t) || spread(r, args[2], t)) || dyn_np_assume_op(r, DYN_S_NE, count, 1) < 0) {
        return refuse(r), DYN_NONE;
    }
    return t;
}

static int given_operand(DynRec *r, DynOperand o, NpArg *arg) { return o.v == NULL ? -1 : dyn_np_operand(r, o, arg); }

static int optional_out(DynRec *r, DynOperand o, UfuncCall *u) { return o.v == NULL ? 0 : read_out(r, o, u); }

DynVal *np_rule_clip(DynRec *r, NpCall *c) {
    NpArg args[3];
    UfuncCall u = {.nin = 1, .nout = 1, .dtype = DYN_NO_DTYPE};
    DynOperand bounds[2];
    bool twice = false;
    for (int i = 0; i < 2; i++) { /* each bound has two names */
        DynOperand first = c->slot[1 + i], second = c->slot[4 + i];
        twice |= first.v != NULL && second.v != NULL;
        bounds[i] = first.v != NULL ? first : second;
    }
    if (twice || given_operand(r, c->slot[0], &args[0]) < 0 || optional_out(r, c->slot[3], &u) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (int i = 0; i < 2; i++) {
        if (bounds[i].v == NULL) {
            continue;
        }
        if (dyn_np_operand(r, bounds[i], &args[1 + i]) < 0) {
            return NULL;
        }
        int dropped = drops_bound(r, args[0], args[1 + i], i == 0);
        if (dropped < 0) {
            return NULL;
        }
        bounds[i].v = dropped ? NULL : bounds[i].v;
    }
    uint32_t node;
    if (bounds[0].v != NULL && bounds[1].v != NULL) {
        node = clip_both(r, args);
    } else if (bounds[0].v == NULL && bounds[1].v == NULL) {
        node = dyn_np_elementwise(r, DYN_OP_POSITIVE, args, 1, NP_UFUNC);
    } else {
        NpArg pair[2] = {args[0], bounds[0].v != NULL ? args[1] : args[2]};
        node = dyn_np_elementwise(r, bounds[0].v != NULL ? DYN_OP_MAXIMUM : DYN_OP_MINIMUM, pair, 2, NP_UFUNC);
    }
    return finish(r, &u, &node, c->result);
}

/* ---- round */

static double power_of_ten(int n) { /* as NumPy makes them */
    double p = 1e9;
    static const double exact[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8};
    if (n < 9) {
        return exact[n];
    }
    while (n-- > 9) {
        p *= 10.;
    }
    return p;
}

/* Scaled, rounded and scaled back; steps are ufuncs, and those that write into out= convert to its dtype each time. */
static uint32_t rounded(DynRec *r, NpArg a, int64_t decimals, DynDtype dt) {
    bool down = decimals < 0;
    if (decimals < -400 || decimals > 400) {
        return refuse(r), DYN_NONE;
    }
    DynOp scale = down ? DYN_OP_DIVIDE : DYN_OP_MULTIPLY;
    DynOp scale_back = down ? DYN_OP_MULTIPLY : DYN_OP_DIVIDE;
    uint32_t s = dyn_sym_float(dyn_rec_syms(r), power_of_ten((int)(down ? -decimals : decimals))), t;
    if (s == DYN_NONE) {
        return s;
    }
    NpArg args[2] = {a, {{DYN_ARG_SYM, s}, NP_WEAK_FLOAT}};
    if ((t = dyn_np_elementwise(r, scale, args, 2, NP_UFUNC)) == DYN_NONE) {
        return t;
    }
    args[0] = dyn_np_node_arg(r, t);
    if (args[0].code != dt || (t = dyn_np_elementwise(r, DYN_OP_RINT, args, 1, NP_UFUNC)) == DYN_NONE) {
        return refuse(r), DYN_NONE;
    }
    args[0] = dyn_np_node_arg(r, t);
    return dyn_np_elementwise(r, scale_back, args, 2, NP_UFUNC);
}

/* A result that is made in C order, or Fortran's where the operand is contiguous in it: only where that is one and the same. */
static bool order_is_known(DynRec *r, NpArg a) {
    const DynNode *n = dyn_np_node_at(r, a.arg.id);
    for (int i = 0; i < n->ndim; i++) {
        if (n->layout.perm[i] != i) {
            return false;
        }
    }
    return true;
}

/* Can each step of rounding be an operator of its own: are the dtype and the order of what NumPy's steps write known? */
static bool rounds_in_steps(DynRec *r, NpArg a, DynOperand out) {
    DynDtype dt = (DynDtype)a.code;
    if (dt == DYN_BOOL) {
        return false;
    }
    if (out.v == NULL) {
        return order_is_known(r, a);
    }
    return !dyn_dtype_is_integer(dt) && dyn_np_dtype_of(out.real) == dt;
}

DynVal *np_rule_round(DynRec *r, NpCall *c) {
    NpArg a;
    UfuncCall u = {.nin = 1, .nout = 1, .dtype = DYN_NO_DTYPE};
    int64_t decimals = 0;
    if (given_operand(r, c->slot[0], &a) < 0 || a.arg.kind != DYN_ARG_NODE || optional_out(r, c->slot[2], &u) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (c->slot[1].v != NULL) {
        if (dyn_rec_burn(r, c->slot[1].v, c->slot[1].real) < 0) {
            return NULL;
        }
        decimals = PyNumber_AsSsize_t(c->slot[1].real, NULL);
        PyErr_Clear();
    }
    uint32_t node;
    bool whole = dyn_dtype_is_integer((DynDtype)a.code);
    if (dyn_dtypes[a.code].kind == 'c' && decimals != 0) { /* part by part */
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (decimals == 0 && !whole) {
        node = dyn_np_elementwise(r, DYN_OP_RINT, &a, 1, NP_UFUNC);
    } else if (decimals >= 0 && whole) {
        node = dyn_np_copy(r, a.arg.id, (DynDtype)a.code);
    } else if (!rounds_in_steps(r, a, u.out[0])) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    } else {
        node = rounded(r, a, decimals, whole ? DYN_F64 : (DynDtype)a.code);
        if (node != DYN_NONE && whole) {
            node = dyn_np_copy(r, node, (DynDtype)a.code);
        }
    }
    return finish(r, &u, &node, c->result);
}

/* ---- methods of ufuncs */

bool dyn_np_is_ufunc(const DynBinding *b) { return b != NULL && b->rule == np_rule_ufunc; }

/* ufunc.method(…) as a call of the bound method. */
static DynVal *method_call(DynRec *r, const NpCall *c, bool writes) {
    const DynBinding *ufunc = c->npos < 1 ? NULL : dyn_np_find(c->args[0].real);
    const char *name = strchr(c->b->path, '.') + 1;
    if (!dyn_np_is_ufunc(ufunc)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    PyObject *method = PyObject_GetAttrString(ufunc->callable, name);
    if (method == NULL) {
        PyErr_Clear();
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    DynVal *v =
        (writes ? dyn_np_extern_write : dyn_np_extern)(r, method, c->b->path, c->args + 1, c->npos - 1, c->kwnames, c->result);
    Py_DECREF(method);
    return v;
}

/* reduceat. */
DynVal *np_rule_ufunc_method(DynRec *r, NpCall *c) { return method_call(r, c, false); }

/* Is it the greatest or least of floats at places of a view of `a`? NumPy warns of a NaN along one axis only. */
static bool warns_of_nan(DynRec *r, DynOp op, const NpLookup *at, uint32_t a) {
    bool extreme = op == DYN_OP_MAXIMUM || op == DYN_OP_MINIMUM;
    return extreme && at->table != a && dyn_dtypes[dyn_np_node_at(r, at->table)->dtype].kind == 'f';
}

/* at, which writes into its first operand: a SCATTER where there are loops for it. */
DynVal *np_rule_ufunc_at(DynRec *r, NpCall *c) {
    const DynBinding *ufunc = c->npos == 4 && c->nkw == 0 ? dyn_np_find(c->args[0].real) : NULL;
    bool known = dyn_np_is_ufunc(ufunc) && c->args[1].v->kind == DV_ARRAY && c->result == Py_None;
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    NpLookup at;
    NpArg value;
    bool found =
        known && dyn_np_operand(r, c->args[3], &value) == 0 && dyn_np_places(r, rec_node_of(c->args[1].v), c->args[2], &at) == 0;
    bool loops = found && !warns_of_nan(r, (DynOp)ufunc->op, &at, rec_node_of(c->args[1].v));
    if (loops && dyn_np_scatter_at(r, &at, value, ufunc->op) == 0) {
        return dyn_rec_const(r, Py_None);
    }
    dyn_rec_truncate(r, nnodes);
    *dyn_rec_why(r) = DYN_R_OK;
    return method_call(r, c, true);
}

/* reduce: by the function that NumPy has for it. */
static const struct Reducer {
    DynOp op;
    const char *function;
} reducers[] = {{DYN_OP_ADD, "sum"},        {DYN_OP_MULTIPLY, "prod"},   {DYN_OP_MAXIMUM, "max"},    {DYN_OP_MINIMUM, "min"},
                {DYN_OP_LOGICAL_OR, "any"}, {DYN_OP_LOGICAL_AND, "all"}, {DYN_OP_BITWISE_OR, "any"}, {DYN_OP_BITWISE_AND, "all"}};

static const DynBinding *reduction_of(DynRec *r, const NpCall *c) {
    const DynBinding *ufunc = c->slot[0].v == NULL ? NULL : dyn_np_find(c->slot[0].real);
    DynOperand a = c->slot[1];
    if (!dyn_np_is_ufunc(ufunc) || a.v == NULL || !rec_is_array(a.v)) {
        return NULL;
    }
    bool bits = ufunc->op == DYN_OP_BITWISE_OR || ufunc->op == DYN_OP_BITWISE_AND;
    if (bits && dyn_np_node_at(r, rec_node_of(a.v))->dtype != DYN_BOOL) {
        return NULL;
    }
    for (size_t i = 0; i < DYN_COUNTOF(reducers); i++) {
        if (reducers[i].op == (DynOp)ufunc->op) {
            return dyn_np_binding(reducers[i].function, false);
        }
    }
    return NULL;
}

/* axis=None, which is all of them, where no axis at all is the first one. */
static bool all_axes(const NpCall *c) {
    for (int i = 2; i < c->npos + c->nkw; i++) {
        bool axis =
            i < c->npos ? i == 2 : PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i - c->npos), "axis") == 0;
        if (axis && c->args[i].real == Py_None) {
            return true;
        }
    }
    return false;
}

static DynVal *reduced(DynRec *r, const NpCall *c) {
    static const char *const names[] = {"a", "axis", "dtype", "out", "keepdims", "initial", "where"};
    const DynBinding *f = reduction_of(r, c);
    NpCall call = {.b = f, .result = c->result};
    PyObject *zero = PyLong_FromLong(0);
    DynVal *first = f == NULL || zero == NULL ? NULL : dyn_rec_const(r, zero); /* the recorder keeps it */
    Py_XDECREF(zero);
    if (first == NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        DynOperand o = c->slot[1 + i];
        int at = dyn_words_find(f->sig, names[i]);
        if (strcmp(names[i], "axis") == 0 && o.v == NULL && !all_axes(c)) {
            o = (DynOperand){first, zero};
        }
        if (o.v != NULL && at < 0) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
        if (o.v != NULL) {
            call.slot[at] = o;
        }
    }
    return f->rule(r, &call);
}

DynVal *np_rule_ufunc_reduce(DynRec *r, NpCall *c) {
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    DynVal *v = reduced(r, c);
    if (v != NULL || c->slot[4].v != NULL) {
        return v;
    }
    dyn_rec_truncate(r, nnodes);
    return method_call(r, c, false);
}

/* outer: the first operand with new axes behind, for the second's. */
static DynVal *outer(DynRec *r, const NpCall *c, UfuncCall *u, const DynBinding *b) {
    NpCall call = *c;
    NpArg args[3] = {0};
    call.b = b;
    if (u->nin != 2 || read_call(r, c, c->args + 1, c->npos - 1, u) < 0 || operands(r, u, args) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (args[0].arg.kind != DYN_ARG_NODE || args[1].arg.kind != DYN_ARG_NODE) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    int first = dyn_np_node_at(r, args[0].arg.id)->ndim, ndim = first + dyn_np_node_at(r, args[1].arg.id)->ndim;
    if (ndim > DYN_MAX_NDIM) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (ndim > first) {
        uint32_t spread_out = dyn_np_newaxis(r, args[0].arg.id, ((1u << ndim) - 1) & ~((1u << first) - 1), ndim);
        if (spread_out == DYN_NONE) {
            return NULL;
        }
        args[0] = dyn_np_node_arg(r, spread_out);
    }
    return call_ufunc(r, &call, u, args);
}

DynVal *np_rule_ufunc_outer(DynRec *r, NpCall *c) {
    const DynBinding *b = c->npos < 3 ? NULL : dyn_np_find(c->args[0].real);
    if (!dyn_np_is_ufunc(b)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    UfuncCall u = of_ufunc(b->callable);
    DynVal *v = outer(r, c, &u, b);
    bool writes = u.out[0].v != NULL || u.out[1].v != NULL;
    if (v != NULL || writes || u.where.v != NULL) {
        return v;
    }
    dyn_rec_truncate(r, nnodes);
    return method_call(r, c, false);
}
