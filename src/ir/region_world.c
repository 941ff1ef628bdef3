/* region_world.c: the functions that native loops call for lists of numbers, and the table of what they need of the world.
 * Called by generated code and by the interpreter of region IR, with the GIL. They run no Python code, and leave no exception:
 * where one fails nothing has happened, and CPython does it instead. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

static int as_int(PyObject *o, int64_t *d) {
    int overflow = 0;
    *d = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow != 0;
}

/* Dropping it runs no code: what lists of numbers hold. */
static bool is_plain(PyObject *o) { return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || o == Py_None; }

/* Takes the reference over. */
static int set(PyObject *list, int64_t i, PyObject *o) {
    PyObject *old = PyList_GET_ITEM(list, i);
    if (o == NULL || !is_plain(old)) {
        PyErr_Clear();
        Py_XDECREF(o);
        return 1;
    }
    PyList_SET_ITEM(list, i, o);
    Py_DECREF(old);
    return 0;
}

static int set_float(PyObject *list, int64_t i, double x) { return set(list, i, PyFloat_FromDouble(x)); }
static int set_bool(PyObject *list, int64_t i, int64_t x) { return set(list, i, PyBool_FromLong(x != 0)); }

/* An int that nobody else has gets another number, where that has a place in it. */
static int set_int(PyObject *list, int64_t i, int64_t x) {
    PyObject *old = PyList_GET_ITEM(list, i);
    bool small = x >= -5 && x <= 256, own = PyLong_CheckExact(old) && Py_REFCNT(old) == 1;
    if (own && !small && x < INT64_C(1) << 30 && x > -(INT64_C(1) << 30) && dyn_cpy_int_has_digits(old)) {
        dyn_cpy_int_set(old, x);
        return 0;
    }
    return set(list, i, PyLong_FromLongLong(x));
}

static int append(PyObject *list, PyObject *o) {
    bool failed = o == NULL || PyList_Append(list, o) < 0;
    PyErr_Clear();
    Py_XDECREF(o);
    return failed;
}

static int append_float(PyObject *list, double x) { return append(list, PyFloat_FromDouble(x)); }
static int append_int(PyObject *list, int64_t x) { return append(list, PyLong_FromLongLong(x)); }
static int append_bool(PyObject *list, int64_t x) { return append(list, PyBool_FromLong(x != 0)); }

bool dyn_region_is_shared_iterator(PyObject *o) {
    int64_t index;
    return dyn_cpy_list_iterator(o, &index) != NULL && Py_REFCNT(o) > 1;
}

bool dyn_region_text_of(PyObject *o, uint8_t *which, const char **data, int64_t *n) {
    if (PyUnicode_CheckExact(o)) {
        *which = DYN_TEXT_STR;
        *data = PyUnicode_DATA(o);
        *n = PyUnicode_GET_LENGTH(o);
        return PyUnicode_IS_READY(o) && PyUnicode_KIND(o) == PyUnicode_1BYTE_KIND;
    }
    if (PyBytes_CheckExact(o)) {
        *which = DYN_TEXT_BYTES;
        *data = PyBytes_AS_STRING(o);
        *n = PyBytes_GET_SIZE(o);
        return true;
    }
    if (PyByteArray_CheckExact(o)) {
        *which = DYN_TEXT_BYTEARRAY;
        *data = PyByteArray_AS_STRING(o);
        *n = PyByteArray_GET_SIZE(o);
        return true;
    }
    return false;
}

static uint32_t kind_of(PyObject *o) {
    if (PyBool_Check(o)) {
        return DYN_RL_BOOL;
    }
    return PyFloat_CheckExact(o)   ? DYN_RL_FLOAT
           : PyLong_CheckExact(o)  ? DYN_RL_INT
           : PyList_CheckExact(o)  ? DYN_RL_LIST
           : PyTuple_CheckExact(o) ? DYN_RL_TUPLE
                                   : DYN_RL_OTHER;
}

uint32_t dyn_region_shape(PyObject *list, uint32_t most, int depth) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(list), step = n > (Py_ssize_t)most ? n / most : 1;
    uint32_t shape = 0;
    for (Py_ssize_t i = 0, seen = 0; i < n && seen < (Py_ssize_t)most; i += step, seen++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        uint32_t kind = kind_of(o);
        shape |= kind;
        if ((kind & (DYN_RL_LIST | DYN_RL_TUPLE)) != 0 && depth > 1) {
            shape |= dyn_region_shape(o, most < 8 ? most : 8, depth - 1) << 8;
        }
    }
    return shape;
}

static int append_object(PyObject *list, PyObject *o) { return append(list, Py_NewRef(o)); }

/* ---- lists that a loop makes: they live until it is left, and there may be so many of them, and items in them */

enum { MOST_ITEMS = 1 << 20 };
DynRegionMade *dyn_region_made;

static PyObject *keep(PyObject *list) {
    DynRegionMade *made = dyn_region_made;
    PyErr_Clear();
    if (list != NULL) {
        made->at[made->n++] = list;
        made->nitems += PyList_GET_SIZE(list);
    }
    return list;
}

static bool has_room(int64_t items) {
    const DynRegionMade *made = dyn_region_made;
    return made != NULL && made->n < DYN_REGION_MADE && items >= 0 && made->nitems + items < MOST_ITEMS;
}

static PyObject *new_list(void) { return has_room(0) ? keep(PyList_New(0)) : NULL; }

static PyObject *repeat(PyObject *list, int64_t n) {
    int64_t items;
    bool fits = !__builtin_mul_overflow((int64_t)PyList_GET_SIZE(list), n < 0 ? 0 : n, &items) && has_room(items);
    return fits ? keep(PySequence_Repeat(list, (Py_ssize_t)n)) : NULL;
}

static PyObject *concat(PyObject *a, PyObject *b) {
    return has_room((int64_t)PyList_GET_SIZE(a) + PyList_GET_SIZE(b)) ? keep(PySequence_Concat(a, b)) : NULL;
}

void dyn_region_drop_made(DynRegionMade *made) {
    while (made->n > 0) {
        Py_DECREF(made->at[--made->n]);
    }
}

const void *const *dyn_region_world(void) {
    static const void *world[] = {
#define WORLD(NAME, address) (const void *)(address),
#include "ir/region_world.def"
    };
    return world;
}
