/* region_keys.c: tuples that native loops look up in dicts and sets and compare, and strings that they cut out of others and
 * join. Called by generated code through region_world.def, with the GIL. They run no Python code, and leave no exception: where
 * one fails nothing has happened, and CPython does it instead.
 *
 * A tuple that is only looked up is the same object each time: `key` belongs to this file, and is made anew where somebody else
 * has it since, as a dict that it became a key of. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

static PyObject *key; /* Strong. */

PyObject *dyn_region_blank_tuple(int64_t n) {
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);
    for (int64_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(Py_None));
    }
    return tuple;
}

PyObject *dyn_region_key(int64_t n) {
    if (key == NULL || Py_REFCNT(key) > 1 || PyTuple_GET_SIZE(key) != (Py_ssize_t)n) {
        Py_XSETREF(key, dyn_region_blank_tuple(n));
        PyErr_Clear();
    } else {
        dyn_cpy_tuple_changed(key);
    }
    return key;
}

/* Takes the reference over. What was there is plain, so dropping it runs no code. */
static int put(PyObject *tuple, int64_t i, PyObject *o) {
    if (o == NULL) {
        PyErr_Clear();
        return 1;
    }
    PyObject *old = PyTuple_GET_ITEM(tuple, i);
    PyTuple_SET_ITEM(tuple, i, o);
    Py_DECREF(old);
    return 0;
}

/* An int that nobody else has gets another number, where it has a place for that and CPython has no object of its own for it. */
int dyn_region_key_int(PyObject *tuple, int64_t i, int64_t x) {
    const int64_t most = INT64_C(1) << 30;
    PyObject *old = PyTuple_GET_ITEM(tuple, i);
    bool own = PyLong_CheckExact(old) && Py_REFCNT(old) == 1 && dyn_cpy_int_has_digits(old);
    if (own && (x < -5 || x > 256) && x < most && x > -most) {
        dyn_cpy_int_set(old, x);
        return 0;
    }
    return put(tuple, i, PyLong_FromLongLong(x));
}

/* A nan is equal to itself alone, and CPython may have an object that it is. */
int dyn_region_key_float(PyObject *tuple, int64_t i, double x) { return isnan(x) || put(tuple, i, PyFloat_FromDouble(x)); }
int dyn_region_key_bool(PyObject *tuple, int64_t i, int64_t x) { return put(tuple, i, PyBool_FromLong(x != 0)); }
int dyn_region_key_object(PyObject *tuple, int64_t i, PyObject *o) {
    return !dyn_cpy_is_plain_key(o, DYN_CPY_KEY_DEPTH - 1) || put(tuple, i, Py_NewRef(o));
}

/* Are tuples of plain values the same? Those that are the same object need no look. */
int dyn_region_same_tuple(PyObject *a, PyObject *b, int64_t *d) {
    bool plain = dyn_cpy_is_plain_key(a, DYN_CPY_KEY_DEPTH) && dyn_cpy_is_plain_key(b, DYN_CPY_KEY_DEPTH);
    *d = plain ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    return !plain;
}

/* ---- strings */

/* What is added to a longer one again and again CPython does in place. */
enum { MOST_JOINED = 256 };

/* The run has it, and with it so many characters. */
static PyObject *keep_text(PyObject *o, int64_t n) {
    dyn_region_made->nitems += n;
    return dyn_region_keep_made(o);
}

PyObject *dyn_region_text_slice(PyObject *text, int64_t where) {
    int64_t start = (where >> 32) - 1, n = where & 0x7fffffff;
    bool room = dyn_region_has_room(n);
    return room ? keep_text(PyUnicode_Substring(text, (Py_ssize_t)start, (Py_ssize_t)(start + n)), n) : NULL;
}

PyObject *dyn_region_text_join(PyObject *a, PyObject *b) {
    int64_t n = (int64_t)PyUnicode_GET_LENGTH(a) + PyUnicode_GET_LENGTH(b);
    return n > MOST_JOINED || !dyn_region_has_room(n) ? NULL : keep_text(PyUnicode_Concat(a, b), n);
}
