/* cpy_region.c: what native loops need of CPython's insides: iterators of ranges, and the eval breaker. Called by tracer/region
 * and codegen/region, with the GIL. Owns nothing. */
#include "base/cpy_internal.h"
#include "base/cpy_region.h"
#if DYN_PY >= 312
#include <internal/pycore_range.h>
typedef _PyRangeIterObject RangeIterator;
#else
typedef struct RangeIterator { /* as Objects/rangeobject.c has it */
    PyObject_HEAD long index, start, step, len;
} RangeIterator;
#endif

bool dyn_cpy_mixes_complex(void) { return DYN_PY >= 314; }

/* Several regions may run at once: one waits while another thread has the GIL. The last one lets it go. */
static int collector_holders;
static bool collector_was_on;

bool dyn_cpy_hold_collector(void) {
    if (DYN_PY < 312 && collector_holders++ == 0) {
        collector_was_on = PyGC_Disable() != 0;
    }
    return DYN_PY < 312;
}

void dyn_cpy_release_collector(bool held) {
    if (held && --collector_holders == 0 && collector_was_on) {
        PyGC_Enable();
    }
}

/* Are its attributes looked up as those of plain instances of Python classes? */
static bool has_plain_attributes(PyObject *o) {
    return Py_TYPE(o)->tp_getattro == PyObject_GenericGetAttr && (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
}

/* So they are where its class has a `__getattr__` as well, as far as they are found. */
static bool finds_plain_attributes(PyObject *o) {
    static PyObject *name;
    if (has_plain_attributes(o)) {
        return true;
    }
    name = name == NULL ? PyUnicode_InternFromString("__getattribute__") : name;
    if (name == NULL || (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) {
        PyErr_Clear();
        return false;
    }
    PyObject *own = _PyType_Lookup(Py_TYPE(o), name);
    return own != NULL && own == _PyType_Lookup(&PyBaseObject_Type, name);
}

PyObject *dyn_cpy_own_attribute(PyObject *o, PyObject *name) {
    bool plain = finds_plain_attributes(o);
    PyObject *descr = plain ? _PyType_Lookup(Py_TYPE(o), name) : NULL;
    bool slot, own = plain && descr == NULL;
    int64_t at;
    own = own || (descr != NULL && dyn_cpy_field(Py_TYPE(o), name, &slot, &at)); /* of __slots__ */
    PyObject *found = own ? PyObject_GenericGetAttr(o, name) : NULL;
    if (found == NULL) {
        PyErr_Clear();
        return NULL;
    }
    Py_DECREF(found); /* the object has it */
    return found;
}

PyObject *dyn_cpy_method_of(PyObject *o, PyObject *name) {
    PyObject *function = has_plain_attributes(o) ? _PyType_Lookup(Py_TYPE(o), name) : NULL;
    if (function == NULL || !PyFunction_Check(function)) {
        return NULL;
    }
    PyObject *bound = PyObject_GenericGetAttr(o, name);
    bool is = bound != NULL && PyMethod_Check(bound) && PyMethod_GET_FUNCTION(bound) == function;
    PyErr_Clear();
    Py_XDECREF(bound);
    return is ? function : NULL;
}

bool dyn_cpy_list_shorten(PyObject *list, Py_ssize_t i) {
    Py_ssize_t n = PyList_GET_SIZE(list), room = ((PyListObject *)list)->allocated;
    if (i != n - 1 || i < room >> 1 || i == 0) {
        return false;
    }
    Py_SET_SIZE(list, i);
    return true;
}

bool dyn_cpy_compensates_sums(void) { return DYN_PY >= 312; }

bool dyn_cpy_compensates_ints(void) { return DYN_PY >= 314; }

bool dyn_cpy_range_iterator(PyObject *o, int64_t state[3]) {
    if (!Py_IS_TYPE(o, &PyRangeIter_Type)) {
        return false;
    }
    const RangeIterator *it = (const RangeIterator *)o;
#if DYN_PY >= 312
    state[0] = it->start;
    state[1] = it->len;
#else
    state[0] = (int64_t)((uint64_t)it->start + (uint64_t)it->index * (uint64_t)it->step);
    state[1] = it->len - it->index;
#endif
    state[2] = it->step;
    return true;
}

void dyn_cpy_range_iterator_set(PyObject *o, const int64_t state[3]) {
    RangeIterator *it = (RangeIterator *)o;
#if DYN_PY >= 312
    it->start = (long)state[0];
    it->len = (long)state[1];
#else
    it->index = it->len - (long)state[1];
#endif
}

void dyn_cpy_range_iterator_fill(PyObject *o, const int64_t state[3]) {
    RangeIterator *it = (RangeIterator *)o;
#if DYN_PY < 312
    it->index = 0;
#endif
    it->start = (long)state[0];
    it->len = (long)state[1];
    it->step = (long)state[2];
}

PyObject *dyn_cpy_range_iterator_blank(void) {
    PyObject *range = dyn_cpy_range_blank(), *it = range == NULL ? NULL : PyObject_GetIter(range);
    Py_XDECREF(range);
    return it;
}

typedef struct Range {                  /* as Objects/rangeobject.c has it, the same on all versions */
    PyObject_HEAD PyObject *numbers[4]; /* start, stop, step, length */
} Range;

PyObject *dyn_cpy_range_blank(void) { return PyObject_CallFunction((PyObject *)&PyRange_Type, "i", 1); }

void dyn_cpy_range_set(PyObject *o, PyObject *const numbers[4]) {
    for (int k = 0; k < 4; k++) {
        Py_SETREF(((Range *)o)->numbers[k], numbers[k]);
    }
}

void dyn_cpy_int_set(PyObject *o, int64_t number) {
    PyLongObject *l = (PyLongObject *)o;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    int n = 0;
    for (; rest != 0; rest >>= PyLong_SHIFT) {
#if DYN_PY >= 312
        l->long_value.ob_digit[n++] = (digit)(rest & PyLong_MASK);
#else
        l->ob_digit[n++] = (digit)(rest & PyLong_MASK);
#endif
    }
#if DYN_PY >= 312
    l->long_value.lv_tag = (uintptr_t)n << 3 | (number == 0 ? 1 : number < 0 ? 2 : 0);
#else
    Py_SET_SIZE(l, number < 0 ? -n : n);
#endif
}

bool dyn_cpy_int_has_digits(PyObject *o) {
#if DYN_PY >= 312
    return ((PyLongObject *)o)->long_value.lv_tag >> 3 != 0;
#else
    return Py_SIZE(o) != 0;
#endif
}

const volatile unsigned char *dyn_cpy_breaker(PyThreadState *ts) {
    /* Events are the low byte, on processors that have that first. */
#if DYN_PY >= 313
    return (const volatile unsigned char *)&ts->eval_breaker;
#else
    return (const volatile unsigned char *)&ts->interp->ceval.eval_breaker;
#endif
}

/* ---- iterators of other things: as Objects/iterobject.c, enumobject.c and Python/bltinmodule.c have them, the same on all
 * versions */

typedef struct SequenceIterator {
    PyObject_HEAD Py_ssize_t index;
    PyObject *sequence; /* NULL: it has ended */
} SequenceIterator;
typedef struct EnumerateObject {
    PyObject_HEAD Py_ssize_t index;
    PyObject *iterator, *result, *long_index; /* long_index: where index is too large */
} EnumerateObject;
typedef struct ZipObject {
    PyObject_HEAD Py_ssize_t n;
    PyObject *iterators, *result;
    int strict;
} ZipObject;

PyObject *dyn_cpy_sequence_iterator(PyObject *o, int64_t *index) {
    if (!Py_IS_TYPE(o, &PySeqIter_Type)) {
        return NULL;
    }
    *index = ((const SequenceIterator *)o)->index;
    return ((const SequenceIterator *)o)->sequence;
}

void dyn_cpy_sequence_iterator_set(PyObject *o, int64_t index) { ((SequenceIterator *)o)->index = (Py_ssize_t)index; }

void dyn_cpy_sequence_iterator_over(PyObject *o, PyObject *sequence) { Py_XSETREF(((SequenceIterator *)o)->sequence, sequence); }

/* Of all of these they lie as those of other sequences do. A str has two kinds: of ASCII, and of more. */
static PyObject *iterator_over_nothing(int over) {
    PyObject *nothing;
    switch (over) {
    case DYN_OVER_LIST: nothing = PyList_New(0); break;
    case DYN_OVER_TUPLE: nothing = PyTuple_New(0); break;
    case DYN_OVER_STR: nothing = PyUnicode_FromString("a"); break;
    case DYN_OVER_BYTES: nothing = PyBytes_FromStringAndSize(NULL, 0); break;
    case DYN_OVER_BYTEARRAY: nothing = PyByteArray_FromStringAndSize(NULL, 0); break;
    default: nothing = PyUnicode_FromOrdinal(255); break;
    }
    PyObject *it = nothing == NULL ? NULL : PyObject_GetIter(nothing);
    Py_XDECREF(nothing);
    return it;
}

static PyTypeObject *types[DYN_OVER_COUNT + 1]; /* the last is that of a str with more than ASCII */

static bool know_types(void) {
    for (int k = 0; k <= DYN_OVER_COUNT && types[DYN_OVER_COUNT] == NULL; k++) {
        PyObject *it = iterator_over_nothing(k);
        if (it == NULL) {
            return false;
        }
        types[k] = Py_TYPE(it);
        Py_DECREF(it);
    }
    return true;
}

PyObject *dyn_cpy_list_iterator(PyObject *o, int64_t *index) {
    if (!know_types()) {
        PyErr_Clear();
        return NULL;
    }
    for (int k = 0; k <= DYN_OVER_COUNT; k++) {
        if (Py_IS_TYPE(o, types[k])) {
            *index = ((const SequenceIterator *)o)->index;
            return ((const SequenceIterator *)o)->sequence;
        }
    }
    return NULL;
}

PyObject *dyn_cpy_list_iterator_blank(int over) { return know_types() ? iterator_over_nothing(over) : NULL; }

void dyn_cpy_list_iterator_set(PyObject *o, int64_t index) { ((SequenceIterator *)o)->index = (Py_ssize_t)index; }

PyObject *dyn_cpy_list_iterator_over(PyObject *o, PyObject *list) {
    PyObject *old = ((SequenceIterator *)o)->sequence;
    ((SequenceIterator *)o)->sequence = list;
    if (list != NULL && PyUnicode_CheckExact(list)) { /* o was a blank, or one of the types that are known */
        Py_SET_TYPE(o, types[PyUnicode_IS_ASCII(list) ? DYN_OVER_STR : DYN_OVER_COUNT]);
    }
#if DYN_PY >= 313
    bool by_index = Py_IS_TYPE(o, &PyListIter_Type) || (DYN_PY >= 314 && Py_IS_TYPE(o, &PyByteArrayIter_Type));
    if (list == NULL && by_index) {
        ((SequenceIterator *)o)->index = -1; /* which says so there */
    }
#endif
    return old;
}

PyObject *dyn_cpy_enumerate(PyObject *o, int64_t *index) {
    const EnumerateObject *e = (const EnumerateObject *)o;
    if (!Py_IS_TYPE(o, &PyEnum_Type) || e->long_index != NULL) {
        return NULL;
    }
    *index = e->index;
    return e->iterator;
}

void dyn_cpy_enumerate_set(PyObject *o, int64_t index) { ((EnumerateObject *)o)->index = (Py_ssize_t)index; }

void dyn_cpy_enumerate_over(PyObject *o, PyObject *iterator) { Py_SETREF(((EnumerateObject *)o)->iterator, iterator); }

PyObject *dyn_cpy_zip(PyObject *o) {
    bool strict = Py_IS_TYPE(o, &PyZip_Type) && (((const ZipObject *)o)->strict & 0xff) != 0;
    return Py_IS_TYPE(o, &PyZip_Type) && !strict ? ((const ZipObject *)o)->iterators : NULL;
}
