/* cpy_dict_iterator.c: iterators over dicts and sets as CPython has them, and the next item without one. Called by tracer/region,
 * codegen/region and native loops, with the GIL. How the iterators lie is Objects/dictobject.c's and setobject.c's, tried out
 * once (know_iterators); where a version has them otherwise, loops over dicts stay in CPython. */
#include "base/cpy_region.h"

typedef struct DictIterator {
    PyObject_HEAD PyObject *over; /* owned; NULL: it has ended */
    Py_ssize_t used, at;          /* used: how many items there were; -1: that has changed */
    union {
        PyObject *result; /* of dicts: a tuple that is handed out again */
        Py_ssize_t left;  /* of sets */
    } more;
    Py_ssize_t left; /* of dicts */
} DictIterator;
_Static_assert(offsetof(PyDictObject, ma_used) == DYN_CPY_DICT_SIZE, "generated code reads how many items a dict has");
_Static_assert(offsetof(PySetObject, used) == DYN_CPY_SET_SIZE, "generated code reads how many items a set has");

static PyTypeObject *const types[] = {[DYN_CPY_KEYS] = &PyDictIterKey_Type,
                                      [DYN_CPY_VALUES] = &PyDictIterValue_Type,
                                      [DYN_CPY_ITEMS] = &PyDictIterItem_Type,
                                      [DYN_CPY_SET] = &PySetIter_Type};

static Py_ssize_t *left_of(PyObject *o) {
    DictIterator *it = (DictIterator *)o;
    return Py_IS_TYPE(o, &PySetIter_Type) ? &it->more.left : &it->left;
}

static PyObject *iterator_over(PyObject *o, int which) {
    PyObject *view = which == DYN_CPY_VALUES  ? PyObject_CallMethod(o, "values", NULL)
                     : which == DYN_CPY_ITEMS ? PyObject_CallMethod(o, "items", NULL)
                                              : Py_NewRef(o);
    PyObject *it = view == NULL ? NULL : PyObject_GetIter(view);
    Py_XDECREF(view);
    return it;
}

/* An iterator over two items that has given one says so where it is looked for. */
static bool is_as_expected(int which) {
    PyObject *pairs = Py_BuildValue("[(ii)(ii)]", 1, 2, 3, 4), *over = NULL;
    if (pairs != NULL) {
        over = PyObject_CallOneArg(which == DYN_CPY_SET ? (PyObject *)&PySet_Type : (PyObject *)&PyDict_Type, pairs);
    }
    PyObject *it = over == NULL ? NULL : iterator_over(over, which), *first = it == NULL ? NULL : PyIter_Next(it);
    bool is = first != NULL && Py_IS_TYPE(it, types[which]);
    is = is && (size_t)Py_TYPE(it)->tp_basicsize >= (which == DYN_CPY_SET ? offsetof(DictIterator, left) : sizeof(DictIterator));
    if (is) {
        const DictIterator *at = (const DictIterator *)it;
        bool placed = which == DYN_CPY_SET ? at->at > 0 : at->at == 1;
        is = at->over == over && at->used == 2 && placed && *left_of(it) == 1;
    }
    PyErr_Clear();
    Py_XDECREF(first);
    Py_XDECREF(it);
    Py_XDECREF(over);
    Py_XDECREF(pairs);
    return is;
}

static bool know_iterators(void) {
    static int known = -1;
    if (known < 0) {
        known = 1;
        for (int which = 0; which < DYN_CPY_ITERATORS; which++) {
            known = known && is_as_expected(which);
        }
    }
    return known != 0;
}

PyObject *dyn_cpy_dict_iterator(PyObject *o, int *which, int64_t state[3]) {
    for (int k = 0; k < DYN_CPY_ITERATORS; k++) {
        if (Py_IS_TYPE(o, types[k]) && know_iterators()) {
            const DictIterator *it = (const DictIterator *)o;
            *which = k;
            state[0] = it->at;
            state[1] = *left_of(o);
            state[2] = it->used;
            return it->used < 0 ? NULL : it->over;
        }
    }
    return NULL;
}

bool dyn_cpy_is_dict_iterator(PyObject *o) {
    bool is = false;
    for (int k = 0; k < DYN_CPY_ITERATORS; k++) {
        is = is || Py_IS_TYPE(o, types[k]);
    }
    return is;
}

void dyn_cpy_dict_iterator_set(PyObject *o, const int64_t state[3]) {
    DictIterator *it = (DictIterator *)o;
    it->at = (Py_ssize_t)state[0];
    *left_of(o) = (Py_ssize_t)state[1];
    it->used = (Py_ssize_t)state[2];
}

PyObject *dyn_cpy_dict_iterator_blank(int which) {
    PyObject *nothing = which == DYN_CPY_SET ? PySet_New(NULL) : PyDict_New();
    PyObject *it = nothing == NULL ? NULL : iterator_over(nothing, which);
    Py_XDECREF(nothing);
    return it;
}

PyObject *dyn_cpy_dict_iterator_over(PyObject *o, PyObject *over) {
    PyObject *old = ((DictIterator *)o)->over;
    ((DictIterator *)o)->over = over;
    return old;
}

/* Dummies have a hash that no item has. */
static Py_ssize_t next_of_set(PyObject *set, Py_ssize_t at, PyObject **key) {
    const PySetObject *s = (const PySetObject *)set;
    while (at <= s->mask && (s->table[at].key == NULL || s->table[at].hash == -1)) {
        at++;
    }
    *key = at <= s->mask ? s->table[at].key : NULL;
    return at <= s->mask ? at + 1 : 0;
}

int64_t dyn_cpy_dict_next(PyObject *o, int64_t at, PyObject *found[2]) {
    Py_ssize_t place = (Py_ssize_t)at;
    if (!PyDict_Check(o)) {
        return next_of_set(o, place, &found[0]);
    }
    return PyDict_Next(o, &place, &found[0], &found[1]) != 0 ? place : 0;
}
