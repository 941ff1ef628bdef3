/* rec_torch_view.c: attributes of tensors, subscripts, sizes, views. Called by rec_numpy*.c where the operand is a tensor, and
 * through the binding table. Makes nodes with the helpers of rec_numpy_view.c. Whether a reshape is a view is decided as NumPy
 * does, under guards; that a size of 1 is one, how many parts there are, and the like, is held too. */
#include "base/cpy.h"
#include "tracer/torch/rec_torch.h"

/* ---- sizes and facts */

static DynVal *count(DynRec *r, uint32_t a) {
    return dyn_rec_sym(r, dyn_np_product(r, dyn_np_node_at(r, a)->ndim, dyn_np_node_at(r, a)->shape));
}

/* x.size(), x.size(i); operator 1: x.dim(), 2: x.numel() */
DynVal *tt_rule_size(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    DynOperand dim = dyn_np_slot(c, "dim");
    int axis;
    if (a == DYN_NONE) {
        return NULL;
    }
    if (c->b->op != 0) {
        return c->b->op == 1 ? dyn_rec_const(r, c->result) : count(r, a);
    }
    if (dim.v == NULL) {
        return dyn_np_shape_tuple(r, a, c->result);
    }
    return dyn_tt_axis(r, dim, dyn_np_node_at(r, a)->ndim, &axis) < 0 ? NULL : dyn_rec_sym(r, dyn_np_node_at(r, a)->shape[axis]);
}

/* What the guards on the tensor say already. */
DynVal *tt_rule_fact(DynRec *r, NpCall *c) { return dyn_np_node(r, c->slot[0]) == DYN_NONE ? NULL : dyn_rec_const(r, c->result); }

/* What is_contiguous() says at every call; of other memory formats it is asked. */
DynVal *tt_rule_is_contiguous(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    DynOperand format = c->slot[1];
    PyObject *plain = PyObject_GetAttrString(dyn_torch_module, "contiguous_format");
    PyErr_Clear();
    Py_XDECREF(plain); /* the module has it */
    if (a == DYN_NONE || (format.v != NULL && format.real != plain)) {
        return dyn_np_unsupported(r);
    }
    if (format.v != NULL && dyn_rec_burn(r, format.v, format.real) < 0) {
        return dyn_np_unsupported(r);
    }
    int in_order = dyn_np_contiguous(r, a, false);
    return in_order < 0 || (in_order == 1) != (c->result == Py_True) ? dyn_np_unsupported(r) : dyn_rec_const(r, c->result);
}

/* Number i of eager's strides is this many bytes. */
static bool is_stride(DynRec *r, uint32_t a, uint32_t bytes, PyObject *stride) {
    return dyn_np_hint(r, bytes) == PyLong_AsLongLong(stride) * dyn_dtypes[dyn_np_node_at(r, a)->dtype].size;
}

/* stride(), stride(i): what torch gives axes of size 1 may be anything, so where eager's are others the call is made. */
DynVal *tt_rule_stride(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), strides[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, axis = -1;
    DynVal *items[DYN_MAX_NDIM];
    if (a == DYN_NONE || dyn_np_hold_sizes(r, a) < 0 || dyn_np_strides(r, a, strides) < 0) {
        return dyn_np_unsupported(r);
    }
    if (c->slot[1].v != NULL && (ndim == 0 || dyn_tt_axis(r, c->slot[1], ndim, &axis) < 0)) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        PyObject *own = axis < 0 ? PyTuple_GET_ITEM(c->result, i) : c->result;
        uint32_t size = dyn_np_int(r, dyn_dtypes[dyn_np_node_at(r, a)->dtype].size), n;
        if ((axis < 0 || axis == i) && !is_stride(r, a, strides[i], own)) {
            return dyn_np_unsupported(r);
        }
        if ((n = dyn_np_op(r, DYN_S_FLOORDIV, strides[i], size)) == DYN_NONE || (items[i] = dyn_rec_sym(r, n)) == NULL) {
            return dyn_np_unsupported(r);
        }
    }
    return axis >= 0 ? items[axis] : dyn_rec_seq(r, DV_TUPLE, (uint32_t)ndim, items, c->result);
}

/* ---- attributes */

/* A tensor of its own over the same memory. */
uint32_t dyn_tt_same_view(DynRec *r, uint32_t a) {
    int perm[DYN_MAX_NDIM];
    for (int i = 0; i < dyn_np_node_at(r, a)->ndim; i++) {
        perm[i] = i;
    }
    return dyn_np_permute(r, a, perm);
}

/* A method that is looked up as an attribute: x.add */
static DynVal *bound_method(DynRec *r, DynOperand a, PyObject *name, PyObject *result) {
    PyObject *descr = dyn_cpy_lookup_special(Py_TYPE(a.real), name);
    bool method = descr != NULL && (PyCFunction_Check(result) || PyMethod_Check(result));
    return method ? rec_new_method(r, dyn_rec_const(r, descr), a.v) : NULL;
}

static DynVal *attr_of(DynRec *r, DynOperand a, uint32_t node, const char *attr, PyObject *name, PyObject *result) {
    static const char *const facts[] = {"dtype",     "device",       "layout",        "ndim",    "is_cuda",   "requires_grad",
                                        "is_sparse", "is_quantized", "itemsize",      "is_mps",  "is_leaf",   "is_meta",
                                        "is_nested", "is_xpu",       "names",         "grad_fn", "is_mkldnn", "is_cpu",
                                        "is_vulkan", "is_xla",       "is_sparse_csr", "is_ipu",  "is_maia",   "is_mtia"};
    const DynNode *n = dyn_np_node_at(r, node);
    for (size_t i = 0; i < DYN_COUNTOF(facts); i++) {
        bool fact = strcmp(attr, facts[i]) == 0;
        if (fact && result != Py_None && strcmp(attr, "grad_fn") == 0) { /* the function that autograd made this time */
            return dyn_np_refuse(r, DYN_R_REQUIRES_GRAD);
        }
        if (fact) {
            return dyn_rec_const(r, result);
        }
    }
    if (strcmp(attr, "shape") == 0) {
        return dyn_np_shape_tuple(r, node, result);
    }
    if (strcmp(attr, "nbytes") == 0) {
        return dyn_rec_sym(
            r, dyn_np_op(r, DYN_S_MUL, dyn_np_product(r, n->ndim, n->shape), dyn_np_int(r, dyn_dtypes[n->dtype].size)));
    }
    if (result == a.real) {
        return a.v;
    }
    if (strcmp(attr, "real") == 0 || strcmp(attr, "imag") == 0) {
        return dyn_tt_part(r, a, node, attr[0] == 'i', result);
    }
    if (strcmp(attr, "data") == 0) {
        return dyn_np_result(r, dyn_tt_detach(r, node, true), result);
    }
    bool real = dyn_dtypes[n->dtype].kind != 'c';
    bool matrix = strcmp(attr, "mT") == 0 || (real && strcmp(attr, "mH") == 0);
    bool all = strcmp(attr, "T") == 0 || (real && strcmp(attr, "H") == 0);
    if (matrix || all) {
        return dyn_np_transposed(r, node, matrix, result);
    }
    return bound_method(r, a, name, result);
}

DynVal *dyn_torch_attr(DynRec *r, DynOperand a, uint32_t node, PyObject *name, PyObject *result) {
    DynVal *v = attr_of(r, a, node, PyUnicode_AsUTF8(name), name, result);
    return v != NULL ? v : dyn_np_unsupported(r);
}

/* ---- subscripts */

static bool has_tensor(PyObject *index) {
    bool array = dyn_torch_is(index) || PyArray_Check(index);
    bool found = array || PyList_Check(index) || PyBool_Check(index);
    for (Py_ssize_t i = 0; !found && PyTuple_Check(index) && i < PyTuple_GET_SIZE(index); i++) {
        found = has_tensor(PyTuple_GET_ITEM(index, i));
    }
    return found;
}

static PyObject *operator_function(const char *name) { /* borrowed from the module */
    PyObject *module = dyn_import("operator"), *f = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(f);
    return f;
}

DynVal *dyn_torch_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, PyObject *result) {
    if (has_tensor(index.real)) {
        PyObject *f = operator_function("getitem");
        return f == NULL ? dyn_np_unsupported(r) : dyn_tt_lookup(r, f, a, base, index, result);
    }
    uint32_t id = dyn_np_basic_index(r, base, index);
    if (id == DYN_NONE) {
        return NULL;
    }
    return result == a.real ? a.v : dyn_np_result(r, id, result);
}

static int store_by_call(DynRec *r, DynOperand a, DynOperand index, DynOperand value) {
    DynOperand args[3] = {a, index, value};
    PyObject *f = operator_function("setitem");
    return f == NULL || dyn_np_extern_write(r, f, "setitem", args, 3, NULL, Py_None) == NULL ? -1 : 0;
}

int dyn_torch_store_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, DynOperand value) {
    NpArg v;
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    if (rec_torch_follows(a.real)) {
        return store_by_call(r, a, index, value);
    }
    if (has_tensor(index.real)) {
        if (dyn_tt_store_places(r, base, index, value) == 0) {
            return 0;
        }
        dyn_rec_truncate(r, nnodes);
        *dyn_rec_why(r) = DYN_R_OK;
        return store_by_call(r, a, index, value);
    }
    uint32_t view = dyn_np_operand(r, value, &v) < 0 ? DYN_NONE : dyn_np_basic_index(r, base, index);
    if (view != DYN_NONE && v.arg.kind == DYN_ARG_NODE && dyn_torch_looks_elsewhere(r, view, v.arg.id)) {
        dyn_rec_truncate(r, nnodes);
        return store_by_call(r, a, index, value);
    }
    return view == DYN_NONE ? -1 : dyn_np_store(r, view, v);
}

/* ---- views */

DynVal *dyn_tt_viewed(DynRec *r, const NpCall *c, uint32_t node) {
    if (node == DYN_NONE) {
        return NULL;
    }
    return c->result == c->args[0].real ? c->args[0].v : dyn_np_result(r, node, c->result);
}

int dyn_tt_sizes(DynRec *r, const NpCall *c, int first, bool minus_one, uint32_t *shape) {
    int n = c->npos - first;
    if (c->nkw > 0 || n < 0 || n > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r), -1;
    }
    if (n == 1) {
        return dyn_np_shape_arg(r, c->args[first], minus_one, shape);
    }
    for (int i = 0; i < n; i++) {
        if (dyn_np_shape_arg(r, c->args[first + i], minus_one, &shape[i]) != 1) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return n;
}

/* x.view(…), x.reshape(…), torch.reshape(x, sizes). Of what eager could view a reshape is a view. */
DynVal *tt_rule_view(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]), shape[DYN_MAX_NDIM];
    if (a == DYN_NONE) {
        return NULL;
    }
    bool lone = c->npos == 2 && c->nkw == 0;
    if (c->b->op == 0 && lone && Py_IS_TYPE(c->args[1].real, dyn_torch_dtype)) {
        return dyn_tt_viewed(r, c, dyn_tt_as_dtype(r, a, c->args[1], c->args[0].real, c->result));
    }
    int ndim = dyn_tt_sizes(r, c, 1, true, shape);
    return ndim < 0 ? NULL : dyn_tt_viewed(r, c, dyn_np_reshape(r, a, ndim, shape, false));
}

DynVal *tt_rule_view_as(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), b = a == DYN_NONE ? a : dyn_tt_tensor_of(r, c->slot[1]), shape[DYN_MAX_NDIM];
    if (b == DYN_NONE) {
        return NULL;
    }
    int ndim = dyn_np_node_at(r, b)->ndim;
    memcpy(shape, dyn_np_node_at(r, b)->shape, sizeof(*shape) * (size_t)ndim);
    return dyn_tt_viewed(r, c, dyn_np_reshape(r, a, ndim, shape, false));
}

/* flatten, ravel (operator 1): what comes back is the operand where there is nothing to do. */
DynVal *tt_rule_flatten(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, n = 0;
    int from = 0, to = ndim == 0 ? 0 : ndim - 1;
    DynOperand start = dyn_np_slot(c, "start_dim"), end = dyn_np_slot(c, "end_dim");
    if (a == DYN_NONE || dyn_tt_optional_axis(r, start, ndim, &from) < 0 || dyn_tt_optional_axis(r, end, ndim, &to) < 0) {
        return NULL;
    }
    if (c->result == c->args[0].real) {
        return c->b->op == 0 || dyn_np_contiguous(r, a, false) == 1 ? c->args[0].v : dyn_np_unsupported(r);
    }
    int in_order = c->b->op == 1 ? dyn_np_contiguous(r, a, false) : 1; /* ravel is a view of the contiguous tensor */
    if (in_order == 0) {
        a = dyn_np_copy_in_order(r, a, (DynDtype)dyn_np_node_at(r, a)->dtype, false);
    }
    if (in_order < 0 || a == DYN_NONE) {
        return NULL;
    }
    for (int i = 0; i < from; i++) {
        shape[n++] = dyn_np_node_at(r, a)->shape[i];
    }
    shape[n++] = ndim == 0 ? dyn_np_int(r, 1) : dyn_np_product(r, to - from + 1, dyn_np_node_at(r, a)->shape + from);
    for (int i = to + 1; i < ndim; i++) {
        shape[n++] = dyn_np_node_at(r, a)->shape[i];
    }
    return dyn_tt_viewed(r, c, dyn_np_reshape(r, a, n, shape, false));
}

DynVal *tt_rule_unflatten(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), shape[2 * DYN_MAX_NDIM];
    int ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, axis, n;
    if (ndim == 0 || dyn_tt_axis(r, c->slot[1], ndim, &axis) < 0) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    memcpy(shape, dyn_np_node_at(r, a)->shape, sizeof(*shape) * (size_t)axis);
    if ((n = dyn_np_shape_arg(r, c->slot[2], true, shape + axis)) < 1 || ndim - 1 + n > DYN_MAX_NDIM) {
        return dyn_np_unsupported(r);
    }
    uint32_t rest = dyn_np_node_at(r, a)->shape[axis], known = dyn_np_int(r, 1);
    int unknown = -1;
    for (int i = axis; i < axis + n; i++) {
        if (shape[i] == DYN_NONE) {
            unknown = i;
        } else {
            known = dyn_np_op(r, DYN_S_MUL, known, shape[i]);
        }
    }
    if (unknown >= 0) { /* what is left of this axis, not of the whole */
        shape[unknown] = dyn_np_op(r, DYN_S_FLOORDIV, rest, known);
    }
    if (unknown >= 0 &&
        (shape[unknown] == DYN_NONE || dyn_np_assume_op(r, DYN_S_EQ, dyn_np_op(r, DYN_S_MOD, rest, known), 0) < 0)) {
        return dyn_np_unsupported(r);
    }
    memcpy(shape + axis + n, dyn_np_node_at(r, a)->shape + axis + 1, sizeof(*shape) * (size_t)(ndim - axis - 1));
    return dyn_tt_viewed(r, c, dyn_np_reshape(r, a, ndim - 1 + n, shape, false));
}

/* transpose and its other names; t (operator 1), of rank 2 or less; mT (2) and adjoint of real numbers. */
DynVal *tt_rule_transpose(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    int perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, x = ndim - 2, y = ndim - 1;
    if (a == DYN_NONE) {
        return NULL;
    }
    if (c->b->op == 0 && (dyn_tt_axis(r, c->slot[1], ndim, &x) < 0 || dyn_tt_axis(r, c->slot[2], ndim, &y) < 0)) {
        return NULL;
    }
    if (c->b->op == 2 && (ndim < 2 || dyn_dtypes[dyn_np_node_at(r, a)->dtype].kind == 'c')) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        perm[i] = i;
    }
    if (ndim > 0 && x >= 0) {
        perm[x] = y;
        perm[y] = x;
    }
    return dyn_tt_viewed(r, c, dyn_np_permute(r, a, perm));
}

/* Axes as they are named, each once: of a tuple, or one. Their number, or -1. */
static int axes_in_order(DynRec *r, const DynOperand *given, int n, int ndim, int *axes) {
    DynOperand items[DYN_MAX_NDIM];
    bool lone = n == 1 && given[0].v != NULL;
    bool tuple = lone && (dyn_is_tuple(given[0].real) || PyList_CheckExact(given[0].real));
    if (tuple && (n = dyn_np_items(r, given[0], items, DYN_MAX_NDIM)) < 0) {
        return -1;
    }
    for (int i = 0; i < n; i++) {
        if (i == DYN_MAX_NDIM || dyn_tt_axis(r, tuple ? items[i] : given[i], ndim, &axes[i]) < 0) {
            return dyn_np_unsupported(r), -1;
        }
    }
    return n;
}

DynVal *tt_rule_permute(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]);
    int perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (a == DYN_NONE || c->npos + c->nkw < 2 || axes_in_order(r, c->args + 1, c->npos + c->nkw - 1, ndim, perm) != ndim) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    return dyn_tt_viewed(r, c, dyn_np_permute(r, a, perm));
}

/* movedim, moveaxis: the axes named go to the places named, the others keep their order. */
DynVal *tt_rule_movedim(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), taken = 0, filled = 0;
    int from[DYN_MAX_NDIM], to[DYN_MAX_NDIM], perm[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    int n = a == DYN_NONE ? -1 : axes_in_order(r, &c->slot[1], 1, ndim, from);
    if (n < 0 || axes_in_order(r, &c->slot[2], 1, ndim, to) != n) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    for (int i = 0; i < n && ndim > 0; i++) {
        perm[to[i]] = from[i];
        taken |= 1u << from[i];
        filled |= 1u << to[i];
    }
    for (int i = 0, k = 0; i < ndim; i++) {
        if (filled >> i & 1u) {
            continue;
        }
        while (taken >> k & 1u) {
            k++;
        }
        perm[i] = k++;
    }
    return dyn_tt_viewed(r, c, dyn_np_permute(r, a, perm));
}

/* ---- axes of size 1 */

/* squeeze: of the axes that are named (all where none are) those of size 1 go; that they are of it, or aren't, is held. */
DynVal *tt_rule_squeeze(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), named = 0;
    int axes[DYN_MAX_NDIM], ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, n = ndim;
    if (a == DYN_NONE || (c->slot[1].v != NULL && (n = axes_in_order(r, &c->slot[1], 1, ndim, axes)) < 0)) {
        return NULL;
    }
    for (int i = 0; i < n && ndim > 0; i++) {
        named |= 1u << (c->slot[1].v == NULL ? i : axes[i]);
    }
    uint32_t id = dyn_tt_same_view(r, a);
    for (int i = ndim; i-- > 0 && id != DYN_NONE;) {
        uint32_t size = dyn_np_node_at(r, a)->shape[i];
        bool one = dyn_np_hint(r, size) == 1;
        if (!(named >> i & 1u)) {
            continue;
        }
        if (dyn_np_assume_op(r, one ? DYN_S_EQ : DYN_S_NE, size, 1) < 0) {
            return NULL;
        }
        id = one ? dyn_np_pick(r, id, i, dyn_np_int(r, 0)) : id;
    }
    return dyn_tt_viewed(r, c, id);
}

DynVal *tt_rule_unsqueeze(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    int axis, ndim = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim;
    if (a == DYN_NONE || ndim == DYN_MAX_NDIM || dyn_tt_axis(r, c->slot[1], ndim + 1, &axis) < 0) {
        return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
    }
    return dyn_tt_viewed(r, c, dyn_np_newaxis(r, a, 1u << axis, ndim + 1));
}

/* expand, broadcast_to; -1 keeps a size. Operator 1: to the sizes of another. */
DynVal *tt_rule_expand(DynRec *r, NpCall *c) {
    uint32_t a = c->npos == 0 ? dyn_np_no_node(r) : dyn_tt_tensor_of(r, c->args[0]), shape[DYN_MAX_NDIM];
    if (a == DYN_NONE) {
        return NULL;
    }
    uint32_t other = c->b->op == 1 ? dyn_tt_tensor_of(r, c->slot[1]) : DYN_NONE;
    int ndim = c->b->op == 1 ? -1 : dyn_tt_sizes(r, c, 1, true, shape);
    if (other != DYN_NONE) {
        ndim = dyn_np_node_at(r, other)->ndim;
        memcpy(shape, dyn_np_node_at(r, other)->shape, sizeof(*shape) * (size_t)ndim);
    }
    int extra = ndim - dyn_np_node_at(r, a)->ndim;
    if (ndim < 0 || extra < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < ndim; i++) {
        if (shape[i] == DYN_NONE && i < extra) {
            return dyn_np_unsupported(r);
        }
        shape[i] = shape[i] == DYN_NONE ? dyn_np_node_at(r, a)->shape[i - extra] : shape[i];
    }
    return dyn_tt_viewed(r, c, dyn_np_broadcast_view(r, a, ndim, shape));
}

/* ---- windows and diagonals */

/* unfold: windows of `size` at each `step` along an axis; the places in a window are the last axis. */
DynVal *tt_rule_unfold(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), start[DYN_MAX_NDIM], shape[DYN_MAX_NDIM], window[1];
    int rank = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, ndim = rank + 1, axis;
    DynOperand step = c->slot[3];
    if (a == DYN_NONE) {
        return NULL;
    }
    if (rank == 0 || ndim > DYN_MAX_NDIM || dyn_tt_axis(r, c->slot[1], rank, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    if (c->slot[2].v == NULL || dyn_np_shape_arg(r, c->slot[2], false, window) != 1) {
        return dyn_np_unsupported(r);
    }
    if (step.v == NULL || dyn_rec_burn(r, step.v, step.real) < 0) {
        return dyn_np_unsupported(r);
    }
    long by = PyLong_CheckExact(step.real) ? PyLong_AsLong(step.real) : 0;
    for (int i = 0; i < rank; i++) {
        start[i] = dyn_np_int(r, 0);
        shape[i] = dyn_np_node_at(r, a)->shape[i];
    }
    uint32_t way = dyn_np_op(r, DYN_S_SUB, shape[axis], window[0]);
    bool steps = by >= 1 && by <= INT32_MAX;
    if (!steps || way == DYN_NONE || dyn_np_assume_op(r, DYN_S_GE, way, 0) < 0) {
        return PyErr_Clear(), dyn_np_unsupported(r);
    }
    shape[axis] = dyn_np_op(r, DYN_S_ADD, dyn_np_op(r, DYN_S_FLOORDIV, way, dyn_np_int(r, by)), dyn_np_int(r, 1));
    shape[rank] = window[0];
    uint32_t id = shape[axis] == DYN_NONE ? dyn_np_no_node(r) : dyn_np_affine(r, a, ndim, start, shape);
    for (int k = 0; k < rank && id != DYN_NONE; k++) {
        dyn_np_node_at(r, id)->aux[k * ndim + k] = k == axis ? by : 1;
    }
    if (id != DYN_NONE) {
        dyn_np_node_at(r, id)->aux[axis * ndim + rank] = 1;
    }
    return dyn_tt_viewed(r, c, id);
}

DynVal *tt_rule_diagonal(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]), offset = dyn_np_int(r, 0);
    DynOperand by = dyn_np_slot(c, "offset"), dims[2] = {dyn_np_slot(c, "dim1"), dyn_np_slot(c, "dim2")};
    int rank = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim, axis[2] = {0, 1};
    for (int i = 0; i < 2; i++) {
        if (rank < 2 || (dims[i].v != NULL && dyn_tt_axis(r, dims[i], rank, &axis[i]) < 0)) {
            return a == DYN_NONE ? NULL : dyn_np_unsupported(r);
        }
    }
    if (by.v != NULL && (offset = dyn_np_int_sym(r, by)) == DYN_NONE) {
        return NULL;
    }
    uint32_t id = dyn_np_diagonal(r, a, axis[0], axis[1], offset);
    if (id != DYN_NONE) {
        dyn_np_node_at(r, id)->flags &= (uint16_t)~DYN_NODE_READONLY;
    }
    return dyn_tt_viewed(r, c, id);
}

/* detach (operator 1), alias: a tensor of its own over the same memory. */
DynVal *tt_rule_same(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor_of(r, c->slot[0]);
    if (a == DYN_NONE) {
        return NULL;
    }
    return dyn_tt_viewed(r, c, c->b->op == 1 ? dyn_tt_detach(r, a, false) : dyn_tt_detached(r, a, c->slot[0].real, c->result));
}
