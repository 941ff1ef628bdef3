/* optimizers.c: do tensors lie as PyTorch's fused operators of optimisers need it?
 *
 * Called by src/dynoc/_optimizers.py, for each step of an optimiser: those operators take the elements of a parameter, its
 * gradient and its state one by one, in the order in which they lie. */
#include "base/torch.h"
#include "evalframe/optimizers.h"

static bool lies_in_order(PyObject *tensor, DynArrayView *out) {
    return dyn_torch_is(tensor) && dyn_torch_view(tensor, out) && dyn_layout_is_dense(NULL, out);
}

static bool is_alike(const DynArrayView *a, const DynArrayView *b) {
    bool same = a->dtype == b->dtype && a->ndim == b->ndim;
    for (int i = 0; same && i < a->ndim; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

/* A parameter, its gradient, and its state. */
static bool fits(PyObject *const *row, Py_ssize_t n) {
    DynArrayView parameter, other;
    bool usable = lies_in_order(row[0], &parameter) && (parameter.dtype == DYN_F32 || parameter.dtype == DYN_F64);
    for (Py_ssize_t i = 1; usable && i < n; i++) {
        usable = lies_in_order(row[i], &other) && is_alike(&parameter, &other);
    }
    return usable && !dyn_torch_requires_grad(row[1]);
}

/* _fit_fused(tensors, n): each n of the list are a parameter, its gradient and its state. */
static PyObject *fit_fused(PyObject *module, PyObject *args) {
    PyObject *list;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O!n", &PyList_Type, &list, &n)) {
        return NULL;
    }
    bool all = n >= 2 && PyList_GET_SIZE(list) % n == 0 && dyn_torch_tensor != NULL;
    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(list); i += n) {
        all = fits(((PyListObject *)list)->ob_item + i, n);
    }
    return PyBool_FromLong(all);
}

static PyMethodDef functions[] = {
    {"_fit_fused", fit_fused, METH_VARARGS, "Do parameters, gradients and state lie as fused operators of optimisers need it?"},
    {NULL, NULL, 0, NULL}};

int dyn_optimizers_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
