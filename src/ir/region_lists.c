/* region_lists.c: slices of lists, read, stored and moved, for native loops; and lists that are nobody's any more. Called by
 * generated code and by the interpreter of region IR, as those of region_world.c, with the GIL. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

/* `where`: rg_slice_fails packs 1 + its beginning, and how many. */
static int64_t slice_start(int64_t where) { return (where >> 32) - 1; }
static int64_t slice_count(int64_t where) { return where & 0x7fffffff; }

static PyObject *new_slice(PyObject *list, int64_t start, int64_t n, int64_t step) {
    PyObject *made = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; made != NULL && i < n; i++) {
        PyList_SET_ITEM(made, i, Py_NewRef(PyList_GET_ITEM(list, start + i * step)));
    }
    return made;
}

PyObject *dyn_region_list_slice(PyObject *list, int64_t where, int64_t step) {
    int64_t n = slice_count(where);
    return dyn_region_keep_list(dyn_region_has_room(n) ? new_slice(list, slice_start(where), n, step) : NULL);
}

/* The same as dyn_region_is_plain, without a call for most. */
static inline bool is_plain(PyObject *o) {
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || dyn_region_is_plain(o);
}

static bool all_plain(PyObject *list, int64_t start, int64_t n, int64_t step) {
    for (int64_t i = 0; i < n; i++) {
        if (!is_plain(PyList_GET_ITEM(list, start + i * step))) {
            return false;
        }
    }
    return true;
}

int64_t dyn_region_list_step; /* of the next one that is assigned or moved to */

int dyn_region_list_assign(PyObject *list, int64_t where, PyObject *from) {
    int64_t step = dyn_region_list_step, start = slice_start(where), n = slice_count(where),
            more = PySequence_Fast_GET_SIZE(from);
    dyn_cpy_forget_quiet();
    bool fits = (step == 1 || more == n) && from != list && all_plain(list, start, n, step);
    if (fits && more != n) {
        start = n == 0 && start > PyList_GET_SIZE(list) ? PyList_GET_SIZE(list) : start;
        fits = PyList_SetSlice(list, (Py_ssize_t)start, (Py_ssize_t)(start + n), from) == 0;
        PyErr_Clear();
    } else if (fits) {
        for (int64_t i = 0; i < n; i++) {
            PyObject *old = PyList_GET_ITEM(list, start + i * step);
            PyList_SET_ITEM(list, start + i * step, Py_NewRef(PySequence_Fast_GET_ITEM(from, i)));
            Py_DECREF(old);
        }
    }
    return !fits;
}

/* ---- list[a:b] = other[c:d], where no list is made of what is moved */

static struct {
    PyObject *list; /* Borrowed, until the next instruction. */
    int64_t start, n, step;
} moved;

int dyn_region_list_from(PyObject *list, int64_t where, int64_t step) {
    moved.list = list;
    moved.start = slice_start(where);
    moved.n = slice_count(where);
    moved.step = step;
    return 0;
}

static void reverse_items(PyObject **items, int64_t n) {
    for (int64_t i = 0, k = n - 1; i < k; i++, k--) {
        PyObject *o = items[i];
        items[i] = items[k];
        items[k] = o;
    }
}

/* Of as many items: those that are moved are held before others go. */
static bool move_items(PyObject *list, int64_t start, int64_t n, int64_t step) {
    enum { FEW = 64 };
    PyObject *few[FEW], **held = n <= FEW ? few : PyMem_RawMalloc((size_t)n * sizeof *held);
    bool fits = held != NULL && all_plain(list, start, n, step);
    for (int64_t i = 0; fits && i < n; i++) {
        held[i] = Py_NewRef(PyList_GET_ITEM(moved.list, moved.start + i * moved.step));
    }
    for (int64_t i = 0; fits && i < n; i++) {
        PyObject *old = PyList_GET_ITEM(list, start + i * step);
        PyList_SET_ITEM(list, start + i * step, held[i]);
        Py_DECREF(old);
    }
    if (held != few) {
        PyMem_RawFree(held);
    }
    return fits;
}

int dyn_region_list_move(PyObject *list, int64_t where) {
    int64_t step = dyn_region_list_step, start = slice_start(where), n = slice_count(where);
    dyn_cpy_forget_quiet();
    if (n != moved.n) {
        PyObject *made = step == 1 ? new_slice(moved.list, moved.start, moved.n, moved.step) : NULL;
        int failed = made == NULL || dyn_region_list_assign(list, where, made);
        PyErr_Clear();
        Py_XDECREF(made);
        return failed;
    }
    if (list == moved.list && step == 1 && moved.step == -1 && moved.start == start + n - 1) {
        reverse_items(((PyListObject *)list)->ob_item + start, n);
        return 0;
    }
    return !move_items(list, start, n, step);
}

/* ---- lists that are nobody's any more */

/* Its items are plain numbers, or there are more references to them than can be in it, so dropping it runs no code. */
int dyn_region_drop_list(PyObject *list) {
    enum { LATEST = 4 };
    DynRegionMade *made = dyn_region_made;
    uint32_t i = made->n, last = made->n > LATEST ? made->n - LATEST : 0;
    while (i > last && made->at[i - 1] != list) {
        i--;
    }
    if (i == last || Py_REFCNT(list) != 1) {
        return 0;
    }
    Py_ssize_t n = PyList_GET_SIZE(list);
    for (Py_ssize_t k = 0; k < n; k++) {
        PyObject *o = PyList_GET_ITEM(list, k);
        if (Py_REFCNT(o) <= n && !is_plain(o)) {
            return 0;
        }
    }
    made->at[i - 1] = made->at[--made->n];
    made->nitems -= n;
    dyn_cpy_forget_quiet();
    Py_DECREF(list);
    return 0;
}
