/* cpy_deque.c: the items of a collections.deque, where CPython has no function for them. Called by ir/region_queues.c and
 * tracer/region, with the GIL. What a deque looks like is tried out once on one that is made for it: where it isn't as it is
 * declared here, no object is taken for a deque. */
#include "base/cpy_region.h"

enum { BLOCK = 64 /* items of a block */ };
typedef struct Block {
    struct Block *left;
    PyObject *items[BLOCK];
    struct Block *right;
} Block;
typedef struct Deque {
    PyObject_VAR_HEAD Block *first, *last;
    Py_ssize_t first_at, last_at;
    size_t state;
    Py_ssize_t bound; /* -1: none */
} Deque;

static PyTypeObject *type; /* Strong; NULL: not found, or not as it is declared here. */
static PyCFunction add[2], take[2];

static PyObject *item_of(const Deque *d, Py_ssize_t i) {
    Py_ssize_t at = d->first_at + i;
    const Block *b = d->first;
    if (i > Py_SIZE(d) / 2) {
        at = d->last_at - (Py_SIZE(d) - 1 - i);
        for (b = d->last; at < 0; at += BLOCK) {
            b = b->left;
        }
    }
    for (; at >= BLOCK; at -= BLOCK) {
        b = b->right;
    }
    return b->items[at];
}

static bool is_as_declared(PyObject *o, PyObject *numbers) {
    const Deque *d = (const Deque *)o;
    bool same =
        Py_TYPE(o)->tp_basicsize >= (Py_ssize_t)sizeof(Deque) && d->bound == 1000 && Py_SIZE(o) == PyList_GET_SIZE(numbers);
    for (Py_ssize_t i = 0; same && i < Py_SIZE(o); i++) {
        same = item_of(d, i) == PyList_GET_ITEM(numbers, i);
    }
    return same;
}

static bool find_methods(PyTypeObject *t) {
    static const char *const names[4] = {"append", "appendleft", "pop", "popleft"};
    for (int i = 0; i < 4; i++) {
        PyObject *m = dyn_cpy_lookup_named(t, names[i]);
        const PyMethodDef *def = m != NULL && Py_IS_TYPE(m, &PyMethodDescr_Type) ? ((PyMethodDescrObject *)m)->d_method : NULL;
        if (def == NULL || (def->ml_flags & ~METH_COEXIST) != (i < 2 ? METH_O : METH_NOARGS)) {
            return false;
        }
        if (i < 2) {
            add[i] = def->ml_meth;
        } else {
            take[i - 2] = def->ml_meth;
        }
    }
    return true;
}

static void find(void) {
    PyObject *module = dyn_import("_collections"), *t = NULL, *numbers = NULL, *o = NULL;
    t = module == NULL ? NULL : PyObject_GetAttrString(module, "deque");
    numbers = t == NULL ? NULL : PyList_New(0);
    for (long i = 0; numbers != NULL && i < 3 * BLOCK; i++) {
        PyObject *number = PyLong_FromLong(1000 + i);
        if (number == NULL || PyList_Append(numbers, number) < 0) {
            Py_CLEAR(numbers);
        }
        Py_XDECREF(number);
    }
    o = numbers == NULL ? NULL : PyObject_CallFunction(t, "Oi", numbers, 1000);
    if (o != NULL && PyType_Check(t) && is_as_declared(o, numbers) && find_methods((PyTypeObject *)t)) {
        type = (PyTypeObject *)Py_NewRef(t);
    }
    PyErr_Clear();
    Py_XDECREF(o);
    Py_XDECREF(numbers);
    Py_XDECREF(t);
    Py_XDECREF(module);
}

PyTypeObject *dyn_cpy_deque_type(void) {
    static bool looked;
    if (!looked) {
        looked = true;
        find();
    }
    return type;
}

PyObject *dyn_cpy_deque_item(PyObject *o, Py_ssize_t i) { return item_of((const Deque *)o, i); }
Py_ssize_t dyn_cpy_deque_bound(PyObject *o) { return ((const Deque *)o)->bound; }

bool dyn_cpy_deque_add(PyObject *o, PyObject *item, bool left) {
    PyObject *none = add[left](o, item);
    Py_XDECREF(none);
    return none != NULL;
}

PyObject *dyn_cpy_deque_take(PyObject *o, bool left) { return take[left](o, NULL); }
