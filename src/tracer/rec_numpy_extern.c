/* rec_numpy_extern.c: NumPy functions that stay calls of NumPy's own: products, linear algebra, sorting, scans. Only those that
 * are listed in bind.def, each with a rule for its result's sizes; the dtype is eager's, and is checked at every call. Called
 * through the binding table. */
#include "tracer/rec_np.h"

static DynNode *node_at(DynRec *r, uint32_t id) { return dyn_graph_node(dyn_rec_graph(r), id); }

static DynVal *refuse(DynRec *r) { return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP); }

/* One positional argument: an array, a Python number, or a constant. */
static int extern_arg(DynRec *r, DynOperand o, DynArg *arg, uint8_t *form, PyObject **constant) {
    uint32_t s;
    if (o.v->kind == DV_ARRAY || o.v->kind == DV_NPSCALAR) {
        *arg = (DynArg){DYN_ARG_NODE, o.v->id};
        *form = 'a';
    } else if ((s = dyn_rec_number(r, o.v, o.real)) != DYN_NONE) {
        *arg = (DynArg){DYN_ARG_SYM, s};
        *form = 's';
    } else {
        if (PyList_Check(o.real) || dyn_rec_burn(r, o.v, o.real) < 0)
            return refuse(r), -1;
        *form = 'c';
        *constant = Py_NewRef(o.real);
    }
    return 0;
}

static PyObject *extern_kwargs(DynRec *r, const NpCall *c) {
    PyObject *d = PyDict_New();
    for (int i = 0; i < c->nkw && d != NULL; i++) {
        DynOperand o = c->args[c->npos + i];
        if (PyList_Check(o.real) || dyn_rec_burn(r, o.v, o.real) < 0) {
            refuse(r);
            Py_CLEAR(d);
        } else if (PyDict_SetItem(d, PyTuple_GET_ITEM(c->kwnames, i), o.real) < 0) {
            PyErr_Clear();
            Py_CLEAR(d);
        }
    }
    return d;
}

/* The call as it was made, with a result of these sizes. */
static DynVal *call_node(DynRec *r, NpCall *c, int ndim, const uint32_t *shape) {
    DynGraph *g = dyn_rec_graph(r);
    DynDtype dt = dyn_np_dtype_of(c->result);
    for (int i = 0; i < ndim; i++)
        if (shape[i] == DYN_NONE)
            return refuse(r);
    uint32_t id = dt == DYN_NO_DTYPE ? DYN_NONE : dyn_np_add(r, DYN_OP_EXTERN, dt, ndim, c->npos, 0);
    if (id == DYN_NONE)
        return refuse(r);
    memcpy(node_at(r, id)->shape, shape, sizeof(*shape) * (size_t)ndim);
    DynExtern x = {.name = c->b->path,
                   .arg_form = DYN_NEW_N(g->arena, uint8_t, c->npos + 1),
                   .consts = DYN_NEW_N(g->arena, PyObject *, c->npos + 1)};
    if (x.arg_form == NULL || x.consts == NULL || dyn_vec_push(&g->externs, x) < 0)
        return dyn_np_refuse(r, DYN_R_NO_MEMORY);
    uint32_t row = g->externs.n - 1;
    node_at(r, id)->extern_index = row; /* from here on the graph drops the references */
    g->externs.at[row].callable = Py_NewRef(c->b->callable);
    for (int i = 0; i < c->npos; i++)
        if (extern_arg(r, c->args[i], &node_at(r, id)->args[i], &x.arg_form[i], &x.consts[i]) < 0)
            return NULL;
    if (c->nkw > 0 && (g->externs.at[row].kwargs = extern_kwargs(r, c)) == NULL)
        return NULL;
    return dyn_np_result(r, id, c->result);
}

static uint32_t operand_node(DynRec *r, DynOperand o) {
    if (o.v == NULL || (o.v->kind != DV_ARRAY && o.v->kind != DV_NPSCALAR))
        return refuse(r), DYN_NONE;
    return o.v->id;
}

/* Two sizes agree now, and at every call. */
static int agree(DynRec *r, uint32_t a, uint32_t b) {
    return dyn_np_hint(r, a) == dyn_np_hint(r, b) && dyn_rec_assume_equal(r, a, b) == 0 ? 0 : (refuse(r), -1);
}

/* matmul (operator 0) and dot (1) of rank 1 and 2; matmul of stacks, which broadcast. */
DynVal *np_rule_matmul(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]), b = operand_node(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (a == DYN_NONE || b == DYN_NONE)
        return NULL;
    const DynNode *x = node_at(r, a), *y = node_at(r, b);
    int big = x->ndim > y->ndim ? x->ndim : y->ndim, ndim = 0;
    if (x->ndim == 0 || y->ndim == 0 || (c->b->op == 1 && big > 2))
        return refuse(r);
    if (agree(r, x->shape[x->ndim - 1], y->shape[y->ndim > 1 ? y->ndim - 2 : 0]) < 0)
        return NULL;
    for (int i = 0; i < big - 2; i++) {
        int k = x->ndim - big + i, l = y->ndim - big + i;
        uint32_t s = k >= 0 ? x->shape[k] : y->shape[l], t = l >= 0 ? y->shape[l] : s;
        bool one = dyn_np_hint(r, s) == 1 && dyn_np_hint(r, t) != 1, other = dyn_np_hint(r, t) == 1 && dyn_np_hint(r, s) != 1;
        if (one || other ? dyn_np_assume_op(r, DYN_S_EQ, one ? s : t, 1) < 0 : agree(r, s, t) < 0)
            return NULL;
        shape[ndim++] = one ? t : s;
    }
    if (x->ndim > 1)
        shape[ndim++] = x->shape[x->ndim - 2];
    if (y->ndim > 1)
        shape[ndim++] = y->shape[y->ndim - 1];
    return call_node(r, c, ndim, shape);
}

DynVal *np_rule_solve(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]), b = operand_node(r, c->slot[1]);
    if (a == DYN_NONE || b == DYN_NONE)
        return NULL;
    const DynNode *x = node_at(r, a), *y = node_at(r, b);
    if (x->ndim != 2 || y->ndim < 1 || y->ndim > 2)
        return refuse(r);
    if (agree(r, x->shape[0], x->shape[1]) < 0 || agree(r, x->shape[1], y->shape[0]) < 0)
        return NULL;
    uint32_t shape[2] = {y->shape[0], y->ndim > 1 ? y->shape[1] : DYN_NONE};
    return call_node(r, c, y->ndim, shape);
}

/* The result has the operand's sizes; operator 1: the last two are equal. */
DynVal *np_rule_like_operand(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]);
    const DynNode *x = a == DYN_NONE ? NULL : node_at(r, a);
    if (x == NULL || (c->b->op == 1 && x->ndim < 2))
        return refuse(r);
    if (c->b->op == 1 && agree(r, x->shape[x->ndim - 1], x->shape[x->ndim - 2]) < 0)
        return NULL;
    return call_node(r, c, x->ndim, x->shape);
}

DynVal *np_rule_det(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]);
    const DynNode *x = a == DYN_NONE ? NULL : node_at(r, a);
    if (x == NULL || x->ndim < 2 || agree(r, x->shape[x->ndim - 1], x->shape[x->ndim - 2]) < 0)
        return refuse(r);
    return call_node(r, c, x->ndim - 2, x->shape);
}

/* The operand's sizes without `axis` (all of them go where it isn't given). nonempty: the axes that go must have elements. */
static DynVal *without_axes(DynRec *r, NpCall *c, DynOperand axis, bool nonempty) {
    uint32_t a = operand_node(r, c->slot[0]), shape[DYN_MAX_NDIM], gone = 0;
    int axes[DYN_MAX_NDIM], ndim = 0;
    if (a == DYN_NONE)
        return NULL;
    int n = dyn_np_axes(r, axis, node_at(r, a)->ndim, axes);
    if (n < 0)
        return NULL;
    for (int i = 0; i < n; i++)
        gone |= 1u << axes[i];
    for (int i = 0; i < node_at(r, a)->ndim; i++) {
        uint32_t size = node_at(r, a)->shape[i];
        if (!(gone >> i & 1u))
            shape[ndim++] = size;
        else if (nonempty && dyn_np_assume_op(r, DYN_S_NE, size, 0) < 0)
            return NULL;
    }
    return call_node(r, c, ndim, shape);
}

DynVal *np_rule_norm(DynRec *r, NpCall *c) {
    bool keepdims = false;
    if (dyn_np_flag(r, c->slot[3], &keepdims) < 0 || keepdims)
        return refuse(r);
    return without_axes(r, c, c->slot[2], c->slot[1].v != NULL);
}

DynVal *np_rule_arg_reduce(DynRec *r, NpCall *c) { return without_axes(r, c, c->slot[1], true); }

DynVal *np_rule_scan(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]);
    if (a == DYN_NONE)
        return NULL;
    if (c->slot[1].v != NULL)
        return call_node(r, c, node_at(r, a)->ndim, node_at(r, a)->shape);
    uint32_t total = dyn_np_product(r, node_at(r, a)->ndim, node_at(r, a)->shape);
    return call_node(r, c, 1, &total);
}

/* take, and a[indices] (operator 1): the indices' sizes stand where the axis was. */
DynVal *np_rule_take(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]), at = operand_node(r, c->slot[1]), shape[DYN_MAX_NDIM];
    int axis = 0, ndim = 0;
    if (a == DYN_NONE || at == DYN_NONE)
        return NULL;
    char kind = dyn_dtypes[node_at(r, at)->dtype].kind;
    bool flat = c->slot[2].v == NULL && c->b->op == 0;
    if (kind != 'i' && kind != 'u')
        return refuse(r);
    if (c->slot[2].v != NULL && dyn_np_axes(r, c->slot[2], node_at(r, a)->ndim, &axis) != 1)
        return NULL;
    const DynNode *x = node_at(r, a), *y = node_at(r, at);
    if (x->ndim == 0 || x->ndim - 1 + y->ndim > DYN_MAX_NDIM)
        return refuse(r);
    for (int i = 0; i < axis && !flat; i++)
        shape[ndim++] = x->shape[i];
    for (int i = 0; i < y->ndim; i++)
        shape[ndim++] = y->shape[i];
    for (int i = axis + 1; i < x->ndim && !flat; i++)
        shape[ndim++] = x->shape[i];
    return call_node(r, c, ndim, shape);
}

/* arange of ints with step 1. */
DynVal *np_rule_arange(DynRec *r, NpCall *c) {
    bool one = c->slot[1].v == NULL;
    if (c->slot[0].v == NULL || c->slot[2].v != NULL || c->nkw > (c->slot[3].v != NULL))
        return refuse(r);
    uint32_t first = one ? dyn_np_int(r, 0) : dyn_np_int_sym(r, c->slot[0]), last = dyn_np_int_sym(r, c->slot[one ? 0 : 1]);
    uint32_t n = dyn_np_op(r, DYN_S_SUB, last, first);
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0)
        return NULL;
    return call_node(r, c, 1, &n);
}

DynVal *np_rule_linspace(DynRec *r, NpCall *c) {
    bool retstep = false;
    if (c->slot[0].v == NULL || c->slot[1].v == NULL || dyn_np_flag(r, c->slot[4], &retstep) < 0 || retstep)
        return refuse(r);
    uint32_t n = c->slot[2].v == NULL ? dyn_np_int(r, 50) : dyn_np_int_sym(r, c->slot[2]);
    if (n == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, n, 0) < 0)
        return NULL;
    return call_node(r, c, 1, &n);
}

/* outer of two vectors is the product of a column and a row. */
DynVal *np_rule_outer(DynRec *r, NpCall *c) {
    uint32_t a = operand_node(r, c->slot[0]), b = operand_node(r, c->slot[1]);
    if (a == DYN_NONE || b == DYN_NONE || node_at(r, a)->ndim != 1 || node_at(r, b)->ndim != 1)
        return refuse(r);
    a = dyn_np_newaxis(r, a, 2, 2);
    b = a == DYN_NONE ? DYN_NONE : dyn_np_newaxis(r, b, 1, 2);
    if (b == DYN_NONE)
        return NULL;
    NpArg args[2] = {dyn_np_node_arg(r, a), dyn_np_node_arg(r, b)};
    return dyn_np_result(r, dyn_np_elementwise(r, DYN_OP_MULTIPLY, args, 2, false), c->result);
}
