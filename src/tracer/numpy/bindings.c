/* bindings.c: tables of bindings by the address of what is bound, which grow while a program runs: PyTorch's and CuPy's. (NumPy's
 * own are made once: rec_numpy.c.) Called by rec_torch.c and rec_cupy.c. A table's bindings are never freed. */
#include "tracer/numpy/rec_np.h"

/* Where the binding of a callable is, or would be. */
static uint32_t place_of(const DynBindings *t, PyObject *callable) {
    uint32_t low = 0, high = t->n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((uintptr_t)t->at[middle]->callable < (uintptr_t)callable) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const DynBinding *dyn_bindings_find(const DynBindings *t, PyObject *callable) {
    uint32_t at = place_of(t, callable);
    return at < t->n && t->at[at]->callable == callable ? t->at[at] : NULL;
}

const DynBinding *dyn_bindings_add(DynBindings *t, DynBinding row) {
    const DynBinding *known = dyn_bindings_find(t, row.callable);
    DynBinding *b = known != NULL ? NULL : PyMem_RawCalloc(1, sizeof(*b));
    uint32_t at = place_of(t, row.callable);
    if (b == NULL || dyn_vec_push(t, b) < 0) {
        PyMem_RawFree(b);
        return known;
    }
    memmove(&t->at[at + 1], &t->at[at], (t->n - 1 - at) * sizeof(*t->at));
    *b = row;
    Py_INCREF(b->callable);
    t->at[at] = b;
    return b;
}
