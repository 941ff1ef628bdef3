/* rec_torch_view.c: attributes of tensors, subscripts, sizes. Called by rec_numpy*.c where the operand is a tensor, and through
 * the binding table. Makes nodes with the helpers of rec_numpy_view.c. */
#include "tracer/rec_torch.h"

/* ---- sizes and facts */

static DynVal *sizes(DynRec *r, uint32_t a, PyObject *result) {
    DynVal *items[DYN_MAX_NDIM];
    for (int i = 0; i < dyn_tt_node(r, a)->ndim; i++)
        if ((items[i] = dyn_rec_sym(r, dyn_tt_node(r, a)->shape[i])) == NULL)
            return NULL;
    return dyn_rec_seq(r, DV_TUPLE, dyn_tt_node(r, a)->ndim, items, result);
}

static DynVal *count(DynRec *r, uint32_t a) {
    return dyn_rec_sym(r, dyn_np_product(r, dyn_tt_node(r, a)->ndim, dyn_tt_node(r, a)->shape));
}

/* x.size(), x.size(i); operator 1: x.dim(), 2: x.numel() */
DynVal *tt_rule_size(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]);
    DynOperand dim = dyn_np_slot(c, "dim");
    int axis;
    if (a == DYN_NONE)
        return NULL;
    if (c->b->op != 0)
        return c->b->op == 1 ? dyn_rec_const(r, c->result) : count(r, a);
    if (dim.v == NULL)
        return sizes(r, a, c->result);
    return dyn_tt_axis(r, dim, dyn_tt_node(r, a)->ndim, &axis) < 0 ? NULL : dyn_rec_sym(r, dyn_tt_node(r, a)->shape[axis]);
}

/* What the guards on the tensor say already. */
DynVal *tt_rule_fact(DynRec *r, NpCall *c) { return dyn_np_node(r, c->slot[0]) == DYN_NONE ? NULL : dyn_rec_const(r, c->result); }

/* ---- attributes */

static uint32_t transposed(DynRec *r, uint32_t a, bool matrix) {
    int perm[DYN_MAX_NDIM], ndim = dyn_tt_node(r, a)->ndim;
    for (int i = 0; i < ndim; i++)
        perm[i] = matrix ? i : ndim - 1 - i;
    if (matrix && ndim >= 2) {
        perm[ndim - 2] = ndim - 1;
        perm[ndim - 1] = ndim - 2;
    }
    return dyn_np_permute(r, a, perm);
}

/* A method that is looked up as an attribute: x.add */
static DynVal *bound_method(DynRec *r, DynOperand a, PyObject *name, PyObject *result) {
    PyObject *descr = dyn_cpy_lookup_special(Py_TYPE(a.real), name);
    bool method = descr != NULL && (PyCFunction_Check(result) || PyMethod_Check(result));
    DynVal *items[2] = {method ? dyn_rec_const(r, descr) : NULL, a.v};
    return items[0] == NULL ? NULL : dyn_rec_seq(r, DV_METHOD, 2, items, result);
}

static DynVal *attr_of(DynRec *r, DynOperand a, uint32_t node, const char *attr, PyObject *name, PyObject *result) {
    static const char *const facts[] = {"dtype",     "device",       "layout",       "ndim",    "is_cuda",   "requires_grad",
                                        "is_sparse", "is_quantized", "itemsize",     "is_mps",  "is_leaf",   "is_meta",
                                        "is_nested", "is_xpu",       "names",        "grad_fn", "is_mkldnn", "is_cpu",
                                        "is_vulkan", "is_xla",       "is_sparse_csr"};
    const DynNode *n = dyn_tt_node(r, node);
    for (size_t i = 0; i < DYN_COUNTOF(facts); i++)
        if (strcmp(attr, facts[i]) == 0)
            return dyn_rec_const(r, result);
    if (strcmp(attr, "shape") == 0)
        return sizes(r, node, result);
    if (strcmp(attr, "nbytes") == 0)
        return dyn_rec_sym(
            r, dyn_np_op(r, DYN_S_MUL, dyn_np_product(r, n->ndim, n->shape), dyn_np_int(r, dyn_dtypes[n->dtype].size)));
    if (result == a.real)
        return a.v;
    bool matrix = strcmp(attr, "mT") == 0;
    if (matrix || strcmp(attr, "T") == 0)
        return dyn_np_result(r, transposed(r, node, matrix), result);
    return bound_method(r, a, name, result);
}

DynVal *dyn_torch_attr(DynRec *r, DynOperand a, uint32_t node, PyObject *name, PyObject *result) {
    DynVal *v = attr_of(r, a, node, PyUnicode_AsUTF8(name), name, result);
    return v != NULL ? v : dyn_tt_refuse(r);
}

/* ---- subscripts */

static bool has_tensor(PyObject *index) {
    bool found = dyn_torch_is(index) || PyList_Check(index) || PyBool_Check(index) || PyArray_Check(index);
    for (Py_ssize_t i = 0; !found && PyTuple_Check(index) && i < PyTuple_GET_SIZE(index); i++)
        found = has_tensor(PyTuple_GET_ITEM(index, i));
    return found;
}

static PyObject *operator_function(const char *name) { /* borrowed from the module */
    PyObject *module = PyImport_ImportModule("operator"), *f = module == NULL ? NULL : PyObject_GetAttrString(module, name);
    PyErr_Clear();
    Py_XDECREF(module);
    Py_XDECREF(f);
    return f;
}

DynVal *dyn_torch_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, PyObject *result) {
    if (has_tensor(index.real)) {
        DynOperand args[2] = {a, index};
        PyObject *f = operator_function("getitem");
        return f == NULL ? dyn_tt_refuse(r) : dyn_np_extern(r, f, "getitem", args, 2, NULL, result);
    }
    uint32_t id = dyn_np_basic_index(r, base, index);
    return id == DYN_NONE ? NULL : result == a.real ? a.v : dyn_np_result(r, id, result);
}

int dyn_torch_store_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, DynOperand value) {
    NpArg v;
    if (has_tensor(index.real)) {
        DynOperand args[3] = {a, index, value};
        PyObject *f = operator_function("setitem");
        return f == NULL || dyn_np_extern_write(r, f, "setitem", args, 3, NULL, Py_None) == NULL ? -1 : 0;
    }
    uint32_t view = dyn_np_operand(r, value, &v) < 0 ? DYN_NONE : dyn_np_basic_index(r, base, index);
    return view == DYN_NONE ? -1 : dyn_np_store(r, view, v);
}
