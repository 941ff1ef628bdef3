/* undo.c: what the inputs of a call held before its kernels wrote into them.
 *
 * A warning that is due is given by CPython, which makes the whole call again: then it has to find the inputs as they were. Above
 * MOST_BYTES keeping them would cost more than it is worth: the warning is then given in the name of the first operator that can
 * have raised the flag (flags.c). Called by run.c with the GIL; the copies belong to the DynCall. */
#include "codegen/run/call.h"
#include "codegen/run/flags.h"

#define MOST_BYTES ((int64_t)256 << 10)

struct DynUndo {
    uint32_t n;              /* How many of the inputs in DynLoops.written are kept so far. */
    PyArrayObject *copies[]; /* Owned, in that order; NULL: the input lies in one piece, and its bytes follow in order. */
};

static int64_t bytes_of(PyObject *array) { return (int64_t)PyArray_NBYTES((PyArrayObject *)array); }

static bool is_one_piece(PyObject *array) {
    return PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array) || PyArray_IS_F_CONTIGUOUS((PyArrayObject *)array);
}

void dyn_undo_drop(DynCall *c) {
    for (uint32_t i = 0; c->undo != NULL && i < c->undo->n; i++) {
        Py_XDECREF(c->undo->copies[i]);
    }
    PyMem_RawFree(c->undo);
    c->undo = NULL;
}

/* Keeps them; without memory for it there is no undo, which is no error. */
void dyn_undo_keep(DynCall *c) {
    int64_t total = 0, whole = 0;
    uint32_t n = c->p->written.n;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *a = c->run->inputs[c->p->written.at[i]];
        total += bytes_of(a);
        whole += is_one_piece(a) ? bytes_of(a) : 0;
    }
    c->undo = total > MOST_BYTES || dyn_flags_ignored()
                  ? NULL
                  : PyMem_RawMalloc(sizeof(DynUndo) + n * sizeof(PyObject *) + (size_t)whole);
    if (c->undo == NULL) {
        return;
    }
    c->undo->n = 0;
    char *bytes = (char *)(c->undo->copies + n);
    for (; c->undo->n < n; c->undo->n++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[c->undo->n]], **copy = &c->undo->copies[c->undo->n];
        *copy = NULL;
        if (is_one_piece((PyObject *)a)) {
            memcpy(bytes, PyArray_BYTES(a), (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        } else if ((*copy = (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER)) == NULL) {
            PyErr_Clear();
            dyn_undo_drop(c);
            return;
        }
    }
}

void dyn_undo_put_back(DynCall *c) {
    const char *bytes = (const char *)(c->undo->copies + c->undo->n);
    for (uint32_t i = 0; i < c->undo->n; i++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[i]];
        if (c->undo->copies[i] != NULL) {
            if (PyArray_CopyInto(a, c->undo->copies[i]) < 0) {
                PyErr_Clear(); /* of one dtype and shape: nothing can go wrong */
            }
        } else {
            memcpy(PyArray_BYTES(a), bytes, (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        }
    }
}
