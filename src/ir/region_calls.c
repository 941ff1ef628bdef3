/* region_calls.c: functions of C that Python's library or NumPy has for objects, called by native loops with numbers: math.hypot,
 * round(x, 2), cmath.exp, a generator's normal(). Called through region_world.def, with the GIL. Their results depend on their
 * arguments alone, and on the generator that is given, so they are CPython's own to the bit. And sum, max and min of lists, and
 * what those are asked about values. Owns nothing but references to such functions.
 *
 * `kinds` says what the arguments are, three bits for each, the first one lowest; their values lie in `given`, in that order. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

static PyObject *boxed(uint32_t kind, const DynScalar *given) {
    switch (kind) {
    case DYN_BOXED_INT: return PyLong_FromLongLong(given[0].i);
    case DYN_BOXED_FLOAT: return PyFloat_FromDouble(given[0].f);
    case DYN_BOXED_COMPLEX: return PyComplex_FromDoubles(given[0].f, given[1].f);
    default: return Py_NewRef((PyObject *)(intptr_t)given[0].i);
    }
}

/* New reference; NULL without an exception: it raises, or there is no memory. */
static PyObject *result_of(PyObject *function, int64_t kinds, const DynScalar *given) {
    PyObject *args[DYN_BOXED_ARGS] = {NULL}, *result;
    size_t n = 0;
    bool all = true;
    for (; kinds != 0 && n < DYN_COUNTOF(args) && all; kinds >>= DYN_BOXED_BITS) {
        uint32_t kind = kinds & ((1 << DYN_BOXED_BITS) - 1);
        args[n] = boxed(kind, given);
        given += kind == DYN_BOXED_COMPLEX ? 2 : 1;
        all = args[n] != NULL;
        n += all;
    }
    result = all ? PyObject_Vectorcall(function, args, n, NULL) : NULL;
    while (n > 0) {
        Py_DECREF(args[--n]);
    }
    PyErr_Clear();
    return result;
}

int dyn_region_boxed_float(PyObject *function, int64_t kinds, const DynScalar *given, double *d) {
    PyObject *o = result_of(function, kinds, given);
    bool is = o != NULL && PyFloat_CheckExact(o);
    *d = is ? PyFloat_AS_DOUBLE(o) : 0;
    Py_XDECREF(o);
    return !is;
}

int dyn_region_boxed_int(PyObject *function, int64_t kinds, const DynScalar *given, int64_t *d) {
    PyObject *o = result_of(function, kinds, given);
    int overflow = 0;
    bool is = o != NULL && PyLong_CheckExact(o);
    *d = is ? PyLong_AsLongLongAndOverflow(o, &overflow) : 0;
    Py_XDECREF(o);
    return !is || overflow != 0;
}

int dyn_region_boxed_np_int(PyObject *function, int64_t kinds, const DynScalar *given, int64_t *d) {
    PyObject *o = result_of(function, kinds, given);
    bool is = o != NULL && dyn_npscalar_is(o, DYN_I64);
    DynScalar value = {.i = 0};
    if (is) {
        dyn_npscalar_value(o, DYN_I64, &value);
    }
    *d = value.i;
    Py_XDECREF(o);
    return !is;
}

int dyn_region_boxed_complex(PyObject *function, int64_t kinds, DynScalar *given, double *d) {
    PyObject *o = result_of(function, kinds, given);
    bool is = o != NULL && PyComplex_CheckExact(o);
    *d = is ? PyComplex_RealAsDouble(o) : 0;
    given[0].f = is ? PyComplex_ImagAsDouble(o) : 0;
    Py_XDECREF(o);
    return !is;
}

/* ---- of all items */

int dyn_region_sum_ints(PyObject *list, int64_t *d) {
    *d = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        int overflow = 0;
        int64_t x = PyLong_CheckExact(o) ? PyLong_AsLongLongAndOverflow(o, &overflow) : 0;
        if (!PyLong_CheckExact(o) || overflow != 0 || __builtin_add_overflow(*d, x, d)) {
            return 1;
        }
    }
    return 0;
}

static bool are_floats(PyObject *list) {
    bool are = PySequence_Fast_GET_SIZE(list) > 0;
    for (Py_ssize_t i = 0; are && i < PySequence_Fast_GET_SIZE(list); i++) {
        are = PyFloat_CheckExact(PySequence_Fast_GET_ITEM(list, i));
    }
    return are;
}

/* By CPython's own function, as it may add what was rounded off. */
int dyn_region_sum_floats(PyObject *list, double *d) {
    static PyObject *function; /* strong */
    if (function == NULL) {
        function = dyn_module_attr("builtins", "sum");
    }
    PyObject *o = function != NULL && are_floats(list) ? PyObject_CallOneArg(function, list) : NULL;
    bool known = o != NULL && PyFloat_CheckExact(o);
    *d = known ? PyFloat_AS_DOUBLE(o) : 0;
    Py_XDECREF(o);
    PyErr_Clear();
    return !known;
}

int dyn_region_top_int(PyObject *list, int64_t largest, int64_t *d) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); i++) {
        PyObject *o = PySequence_Fast_GET_ITEM(list, i);
        int overflow = 0;
        int64_t x = PyLong_CheckExact(o) ? PyLong_AsLongLongAndOverflow(o, &overflow) : 0;
        if (!PyLong_CheckExact(o) || overflow != 0) {
            return 1;
        }
        *d = i == 0 || (largest != 0 ? x > *d : x < *d) ? x : *d;
    }
    return PySequence_Fast_GET_SIZE(list) == 0;
}

int dyn_region_top_float(PyObject *list, int64_t largest, double *d) {
    if (!are_floats(list)) {
        return 1;
    }
    *d = PyFloat_AS_DOUBLE(PySequence_Fast_GET_ITEM(list, 0));
    for (Py_ssize_t i = 1; i < PySequence_Fast_GET_SIZE(list); i++) {
        double x = PyFloat_AS_DOUBLE(PySequence_Fast_GET_ITEM(list, i));
        *d = (largest != 0 ? x > *d : x < *d) ? x : *d;
    }
    return 0;
}

/* ---- what lists are asked about values, by CPython's own comparison */

/* Comparing it runs no code. A nan that was a number in a register isn't the object any more that it may be the same as. */
static bool is_comparable(PyObject *o) {
    return dyn_cpy_is_plain_key(o, DYN_CPY_KEY_DEPTH) && (!PyFloat_CheckExact(o) || !isnan(PyFloat_AS_DOUBLE(o)));
}

static bool all_comparable(PyObject *list) {
    bool are = true;
    for (Py_ssize_t i = 0; are && i < PySequence_Fast_GET_SIZE(list); i++) {
        are = is_comparable(PySequence_Fast_GET_ITEM(list, i));
    }
    return are;
}

static int compare_lists(PyObject *a, PyObject *b, int op, int64_t *d) {
    PyObject *o = all_comparable(a) && all_comparable(b) ? PyObject_RichCompare(a, b, op) : NULL;
    bool known = o != NULL && PyBool_Check(o);
    *d = o == Py_True;
    Py_XDECREF(o);
    PyErr_Clear();
    return !known;
}

int dyn_region_list_ask(int64_t what, PyObject *list, PyObject *o, int64_t *d) {
    if (what >= DYN_LIST_ORDER) {
        return compare_lists(list, o, (int)(what - DYN_LIST_ORDER), d);
    }
    int64_t count = 0, first = -1;
    bool known = is_comparable(o);
    for (Py_ssize_t i = 0; known && i < PySequence_Fast_GET_SIZE(list) && (first < 0 || what == DYN_LIST_COUNT); i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(list, i);
        known = is_comparable(item);
        int same = known ? item == o || PyObject_RichCompareBool(item, o, Py_EQ) : 0;
        count += same;
        first = same != 0 && first < 0 ? i : first;
    }
    PyErr_Clear();
    *d = what == DYN_LIST_INDEX ? first : count;
    return !known || *d < 0;
}
