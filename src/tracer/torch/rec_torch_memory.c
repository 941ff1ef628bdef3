/* rec_torch_memory.c: other looks at a tensor's memory: by strides, as elements of another dtype, the parts of complex numbers;
 * and conjugates, which are nothing of real ones. Called through the binding table. Where a look is only sometimes possible, the
 * graph finds out when it runs (geometry.c), and eager then says what is wrong. */
#include "tracer/torch/rec_torch.h"

static bool is_complex(DynRec *r, uint32_t a) { return dyn_dtypes[dyn_np_node_at(r, a)->dtype].kind == 'c'; }

/* ---- by strides */

static bool all_const(DynRec *r, const uint32_t *syms, int n) {
    for (int i = 0; i < n; i++) {
        if (!dyn_sym_is_const(dyn_rec_syms(r), syms[i])) {
            return false;
        }
    }
    return true;
}

/* Where in its storage an input's first element lies: known behind a call that asks. A new tensor has a storage of its own. */
static uint32_t own_offset(DynRec *r, uint32_t node) {
    DynOperand o = {dyn_rec_array(r, node, NULL), NULL};
    if (dyn_np_node_at(r, node)->op != DYN_OP_INPUT) {
        return dyn_node_calls(dyn_np_node_at(r, node)) || dyn_np_node_at(r, node)->op == DYN_OP_RESULT ? dyn_np_no_node(r)
                                                                                                       : dyn_np_int(r, 0);
    }
    o.real = o.v == NULL ? NULL : o.v->real;
    PyObject *f = PyObject_GetAttrString((PyObject *)dyn_torch_tensor, "storage_offset");
    PyObject *own = f == NULL || o.real == NULL ? NULL : PyObject_CallOneArg(f, o.real);
    DynVal *v = own == NULL ? NULL : dyn_np_extern(r, f, "storage_offset", &o, 1, NULL, own);
    PyErr_Clear();
    Py_XDECREF(own);
    Py_XDECREF(f); /* the class has it */
    return v == NULL ? dyn_np_no_node(r) : rec_sym_of(v);
}

/* as_strided: with numbers that are the same at every call over the elements in their order, else along the tensor's own axes.
 * An offset counts from the storage, so it is a view of whatever that began with. */
DynVal *tt_rule_as_strided(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[DYN_MAX_NDIM], by[DYN_MAX_NDIM + 1], given = dyn_np_int(r, 0);
    DynOperand items[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? -1 : dyn_np_shape_arg(r, c->slot[1], false, shape);
    if (ndim < 0 || c->slot[2].v == NULL || dyn_np_items(r, c->slot[2], items, DYN_MAX_NDIM) != ndim) {
        return dyn_np_unsupported(r);
    }
    if (c->slot[3].v != NULL) {
        DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
        a = dyn_np_node_at(r, a)->storage;
        uint32_t from = dyn_np_node_at(r, a)->dtype == dt ? own_offset(r, a) : dyn_np_no_node(r),
                 to = dyn_np_int_sym(r, c->slot[3]);
        given = from == DYN_NONE || to == DYN_NONE ? DYN_NONE : dyn_np_op(r, DYN_S_SUB, to, from);
    }
    uint32_t size = dyn_np_int(r, dyn_dtypes[dyn_np_node_at(r, a)->dtype].size);
    if (given == DYN_NONE || (by[ndim] = dyn_np_op(r, DYN_S_MUL, given, size)) == DYN_NONE) {
        return NULL;
    }
    for (int i = 0; i < ndim; i++) {
        uint32_t stride = dyn_np_int_sym(r, items[i]);
        if ((by[i] = stride == DYN_NONE ? stride : dyn_np_op(r, DYN_S_MUL, stride, size)) == DYN_NONE) {
            return NULL;
        }
    }
    if (dyn_np_node_at(r, a)->ndim == 0 || (all_const(r, by, ndim) && dyn_np_contiguous(r, a, false) == 1)) {
        uint32_t all = dyn_np_product(r, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape);
        a = all == DYN_NONE ? all : dyn_np_reshape_view(r, a, 1, &all, DYN_NODE_VIEW);
    }
    return a == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_strided(r, a, ndim, shape, by, by[ndim], true), c->result);
}

/* ---- as elements of another dtype */

/* Its bytes as elements of dt; the last axis has `last` of them, or as many as there were. data: x.data */
static uint32_t as_dtype(DynRec *r, uint32_t a, DynDtype dt, uint32_t last, bool data) {
    int ndim = dyn_np_node_at(r, a)->ndim;
    uint32_t id = dyn_np_unary_node(r, DYN_OP_AS_DTYPE, dt, a, ndim, data ? 2 : 1);
    if (id == DYN_NONE) {
        return id;
    }
    dyn_np_node_at(r, id)->aux[0] = dt;
    if (data) {
        dyn_np_node_at(r, id)->aux[1] = 1;
    }
    memcpy(dyn_np_node_at(r, id)->shape, dyn_np_node_at(r, a)->shape, sizeof(uint32_t) * (size_t)ndim);
    if (last != DYN_NONE) {
        dyn_np_node_at(r, id)->shape[ndim - 1] = last;
    }
    return id;
}

/* view(dtype): not followed by autograd. */
uint32_t dyn_tt_as_dtype(DynRec *r, uint32_t a, DynOperand dtype, PyObject *tensor, PyObject *result) {
    DynDtype dt = dyn_rec_burn(r, dtype.v, dtype.real) < 0 ? DYN_NO_DTYPE : dyn_torch_dtype_parse(dtype.real);
    DynDtype own = (DynDtype)dyn_np_node_at(r, a)->dtype;
    int64_t size = dt == DYN_NO_DTYPE ? 0 : dyn_dtypes[dt].size, of_base = dyn_dtypes[own].size;
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (size == 0 || (size != of_base && ndim == 0)) {
        return dyn_np_no_node(r);
    }
    if ((a = dyn_tt_detached(r, a, tensor, result)) == DYN_NONE || dt == own) {
        return a;
    }
    if (size == of_base) {
        return as_dtype(r, a, dt, DYN_NONE, false);
    }
    uint32_t last = dyn_np_node_at(r, a)->shape[ndim - 1],
             ratio = dyn_np_int(r, size > of_base ? size / of_base : of_base / size);
    if (size > of_base && dyn_np_assume_op(r, DYN_S_EQ, dyn_np_op(r, DYN_S_MOD, last, ratio), 0) < 0) {
        return DYN_NONE;
    }
    last = dyn_np_op(r, size > of_base ? DYN_S_FLOORDIV : DYN_S_MUL, last, ratio);
    return last == DYN_NONE ? last : as_dtype(r, a, dt, last, false);
}

/* view_as_real (operator 0): a new last axis of the two parts; view_as_complex (1): the last axis, of two, is the parts. */
DynVal *tt_rule_view_parts(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    DynDtype dt = dyn_np_dtype_of(c->result);
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (a == DYN_NONE || dt == DYN_NO_DTYPE || ndim == DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    if (c->b->op == 0) {
        a = dyn_np_newaxis(r, a, 1u << ndim, ndim + 1);
        return a == DYN_NONE ? NULL : dyn_np_result(r, as_dtype(r, a, dt, dyn_np_int(r, 2), false), c->result);
    }
    if (dyn_np_assume_op(r, DYN_S_EQ, dyn_np_node_at(r, a)->shape[ndim - 1], 2) < 0) {
        return NULL;
    }
    a = as_dtype(r, a, dt, dyn_np_int(r, 1), false);
    return a == DYN_NONE ? NULL : dyn_np_result(r, dyn_np_pick(r, a, ndim - 1, dyn_np_int(r, 0)), c->result);
}

/* ---- complex numbers */

/* real (operator 0) of real numbers is the tensor itself; imag (1) they have none. */
DynVal *dyn_tt_part(DynRec *r, DynOperand o, uint32_t a, bool imaginary, PyObject *result) {
    if (!is_complex(r, a)) {
        return result == o.real ? o.v : dyn_np_unsupported(r);
    }
    return dyn_np_result(r, dyn_np_part(r, imaginary ? DYN_OP_IMAG : DYN_OP_REAL, a), result);
}

DynVal *tt_rule_part(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    return a == DYN_NONE ? NULL : dyn_tt_part(r, c->slot[0], a, c->b->op == 1, c->result);
}

/* conj, resolve_conj, resolve_neg (operator 0) and conj_physical (1): of real numbers the tensor itself. Of complex ones the
 * second two too, as no tensor with such a bit comes here; conj sets the bit, and stays torch's own call. */
DynVal *tt_rule_conj(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    if (a == DYN_NONE) {
        return NULL;
    }
    bool itself = c->result == c->slot[0].real, computed = c->b->op == 1 && is_complex(r, a);
    if (itself && !computed) {
        return c->slot[0].v;
    }
    return computed ? dyn_tt_finish(r, c, dyn_tt_unary(r, DYN_OP_CONJUGATE, a)) : dyn_np_unsupported(r);
}

/* ---- what autograd knows of it */

uint32_t dyn_tt_detach(DynRec *r, uint32_t a, bool data) {
    return as_dtype(r, a, (DynDtype)dyn_np_node_at(r, a)->dtype, DYN_NONE, data);
}

uint32_t dyn_tt_detached(DynRec *r, uint32_t a, PyObject *tensor, PyObject *result) {
    bool follows = dyn_torch_requires_grad(tensor) && !dyn_torch_requires_grad(result);
    return follows ? dyn_tt_detach(r, a, false) : dyn_tt_same_view(r, a);
}

/* detach_() and requires_grad_(False) of what was made here, and requires no gradients: nothing. */
DynVal *tt_rule_untracked(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    if (a == DYN_NONE || c->result != c->slot[0].real || dyn_torch_requires_grad(c->result)) {
        return dyn_np_unsupported(r);
    }
    if (dyn_np_node_at(r, dyn_np_node_at(r, a)->storage)->op == DYN_OP_INPUT || dyn_np_burn_rest(r, c, 1) < 0) {
        return dyn_np_unsupported(r);
    }
    return c->slot[0].v;
}
