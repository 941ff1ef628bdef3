/* guards_match.c: single comparisons between what a guard wants and an object. No Python code runs, no exception stays. Called by
 * the guard program (guards.c) and by the explanation of a miss, so that the two can't differ. */
#include "base/tensors.h"
#include "evalframe/guards/guards.h"
#include <math.h>

static bool same_float(double a, double b) {
    uint64_t x, y;
    memcpy(&x, &a, sizeof(x));
    memcpy(&y, &b, sizeof(y));
    return x == y;
}

static bool same_tuple(PyObject *a, PyObject *b) {
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    bool same = n == PyTuple_GET_SIZE(b) && Py_EnterRecursiveCall(" in a guard") == 0;
    if (!same) {
        PyErr_Clear();
        return false;
    }
    for (Py_ssize_t i = 0; same && i < n; i++) {
        same = dyn_guard_equal(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
    }
    Py_LeaveRecursiveCall();
    return same;
}

bool dyn_guard_equal(PyObject *a, PyObject *b) {
    if (a == b) {
        return true;
    }
    if (Py_TYPE(a) != Py_TYPE(b)) {
        return false;
    }
    if (PyFloat_CheckExact(a)) {
        return same_float(PyFloat_AS_DOUBLE(a), PyFloat_AS_DOUBLE(b));
    }
    if (PyTuple_CheckExact(a)) {
        return same_tuple(a, b);
    }
    if (PyComplex_CheckExact(a)) {
        return same_float(PyComplex_RealAsDouble(a), PyComplex_RealAsDouble(b)) &&
               same_float(PyComplex_ImagAsDouble(a), PyComplex_ImagAsDouble(b));
    }
    if (PySlice_Check(a)) {
        PySliceObject *x = (PySliceObject *)a, *y = (PySliceObject *)b;
        return dyn_guard_equal(x->start, y->start) && dyn_guard_equal(x->stop, y->stop) && dyn_guard_equal(x->step, y->step);
    }
    if (!PyUnicode_CheckExact(a) && !PyLong_CheckExact(a) && !PyBytes_CheckExact(a) && !dyn_torch_is_device(a)) {
        return false;
    }
    int r = PyObject_RichCompareBool(a, b, Py_EQ);
    if (r < 0) {
        PyErr_Clear();
    }
    return r == 1;
}

bool dyn_guard_array(const DynGuard *g, PyObject *o) {
    if (!PyArray_CheckExact(o)) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    if ((int64_t)dyn_dtype_of(PyArray_DESCR(a)) != (g->number & 255) || PyArray_NDIM(a) != (int)(g->number >> 8 & 255)) {
        return false;
    }
    if (!PyArray_ISALIGNED(a) || (g->number & DYN_ARRAY_WRITTEN && !PyArray_ISWRITEABLE(a))) {
        return false;
    }
    return !(g->number & (DYN_ARRAY_WRITTEN | DYN_ARRAY_ASKED)) || !dyn_array_write_warns(a);
}

static bool array_holds(const DynGuard *g, PyObject *o) {
    DynArrayView v;
    return dyn_guard_array(g, o) && dyn_array_view(o, &v) && dyn_layout_fits(&g->layout, &v);
}

bool dyn_guard_tensor(const DynGuard *g, PyObject *o, DynArrayView *view) {
    if ((PyObject *)Py_TYPE(o) != g->obj || !dyn_tensor_look(o, view)) {
        return false;
    }
    if (view->dtype != (g->number & 255) || view->ndim != (g->number >> 8 & 255) || !view->aligned) {
        return false;
    }
    if (view->device != (g->number >> DYN_TENSOR_DEVICE & 255)) {
        return false;
    }
    return dyn_tensor_requires_grad(o) == ((g->number & DYN_TENSOR_GRAD) != 0) && dyn_layout_fits(&g->layout, view);
}

static Py_ssize_t length_of(PyObject *o) {
    if (PyTuple_Check(o)) {
        return PyTuple_GET_SIZE(o);
    }
    if (PyList_CheckExact(o)) {
        return PyList_GET_SIZE(o);
    }
    if (PyDict_CheckExact(o)) {
        return PyDict_GET_SIZE(o);
    }
    if (Py_IS_TYPE(o, dyn_deque_type)) {
        return Py_SIZE(o);
    }
    return PyAnySet_CheckExact(o) ? PySet_GET_SIZE(o) : -1;
}

/* Its order is something else than a dict's. */
static bool is_plain_ordered(PyObject *o) { return PyODict_CheckExact(o) && dyn_cpy_shows_its_methods(o); }

static bool listed_so(PyObject *keys, PyObject *o) {
    PyObject *it = PyObject_Size(o) == PyTuple_GET_SIZE(keys) ? PyObject_GetIter(o) : NULL, *key;
    Py_ssize_t n = 0;
    bool same = it != NULL;
    while (same && (key = PyIter_Next(it)) != NULL) {
        same = n < PyTuple_GET_SIZE(keys) && dyn_guard_equal(key, PyTuple_GET_ITEM(keys, n++));
        Py_DECREF(key);
    }
    PyErr_Clear();
    Py_XDECREF(it);
    return same;
}

static bool keys_hold(PyObject *keys, PyObject *o) {
    PyObject *key, *value;
    Py_ssize_t at = 0, n = 0;
    if (PyAnySet_CheckExact(o) || is_plain_ordered(o)) {
        return listed_so(keys, o);
    }
    if (!PyDict_Check(o) || PyODict_Check(o) || PyDict_GET_SIZE(o) != PyTuple_GET_SIZE(keys)) {
        return false;
    }
    while (PyDict_Next(o, &at, &key, &value)) {
        if (n >= PyTuple_GET_SIZE(keys) || !dyn_guard_equal(key, PyTuple_GET_ITEM(keys, n++))) {
            return false;
        }
    }
    return PyDict_CheckExact(o) || dyn_cpy_shows_its_methods(o);
}

bool dyn_guard_place(PyObject *o, DynArrayView *view) {
    return dyn_tensor_is(o) ? dyn_tensor_place(o, view) : dyn_array_look(o, view);
}

bool dyn_guard_number(PyObject *o, DynSymType type, DynScalar *out) {
    if (type == DYN_T_FLOAT) {
        if (!PyFloat_CheckExact(o)) {
            return false;
        }
        out->f = PyFloat_AS_DOUBLE(o);
        return true;
    }
    if (type == DYN_T_BOOL) {
        out->i = o == Py_True;
        return o == Py_True || o == Py_False;
    }
    int overflow;
    if (!PyLong_CheckExact(o)) {
        return false;
    }
    out->i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0;
}

static Py_ssize_t count_of_defaults(PyObject *func) {
    PyObject *defaults = PyFunction_GET_DEFAULTS(func);
    return defaults == NULL ? 0 : PyTuple_GET_SIZE(defaults);
}

static bool has_maxlen(PyObject *o, PyObject *wanted) {
    PyObject *maxlen = Py_IS_TYPE(o, dyn_deque_type) ? PyObject_GetAttrString(o, "maxlen") : NULL;
    bool same = maxlen != NULL && dyn_guard_equal(maxlen, wanted);
    PyErr_Clear();
    Py_XDECREF(maxlen);
    return same;
}

/* Whatever the method is bound to has a base that has the descriptor. */
static bool is_bound(PyObject *o, const PyMethodDescrObject *descr) {
    return PyCFunction_CheckExact(o) && ((PyCFunctionObject *)o)->m_ml == descr->d_method && PyCFunction_GET_SELF(o) != NULL;
}

/* 1, 0; -1: no set, or it can't be told. */
static int is_member(PyObject *set, PyObject *key) {
    int has = PyAnySet_CheckExact(set) ? PySet_Contains(set, key) : -1;
    if (has < 0) {
        PyErr_Clear();
    }
    return has;
}

static bool class_stands(const DynGuard *g, PyTypeObject *type) {
    if (g->obj != NULL) {
        return dyn_cpy_class_stands(g->obj, type);
    }
    return (int64_t)type->tp_version_tag == g->number && g->number != 0;
}

bool dyn_guard_holds(const DynGuard *g, PyObject *o, PyObject *o2) {
    switch ((DynGuardKind)g->kind) {
    case DYN_GUARD_TYPE: return (PyObject *)Py_TYPE(o) == g->obj;
    case DYN_GUARD_ID: return o == g->obj;
    case DYN_GUARD_EQ: return dyn_guard_equal(o, g->obj);
    case DYN_GUARD_ARRAY: return array_holds(g, o);
    case DYN_GUARD_TENSOR: return dyn_guard_tensor(g, o, &(DynArrayView){0});
    case DYN_GUARD_TORCH: return dyn_torch_is_so(g->number);
    case DYN_GUARD_LEN: return length_of(o) == (Py_ssize_t)g->number;
    case DYN_GUARD_KEYS: return keys_hold(g->obj, o);
    case DYN_GUARD_PRESENT: return true; /* it was loaded */
    case DYN_GUARD_SAME: return o == o2;
    case DYN_GUARD_DIFFERENT: return o != o2;
    case DYN_GUARD_CODE: return PyFunction_Check(o) && PyFunction_GET_CODE(o) == g->obj;
    case DYN_GUARD_BUILTIN: return is_bound(o, (PyMethodDescrObject *)g->obj);
    case DYN_GUARD_GLOBALS:
        return PyFunction_Check(o) && ((PyFunctionObject *)o)->func_globals == g->obj &&
               ((PyFunctionObject *)o)->func_builtins == o2;
    case DYN_GUARD_DEFAULTS: return PyFunction_Check(o) && count_of_defaults(o) == (Py_ssize_t)g->number;
    case DYN_GUARD_MEMBER: return is_member(o, g->obj) == (int)g->number;
    case DYN_GUARD_MAXLEN: return has_maxlen(o, g->obj);
    case DYN_GUARD_CLASS: return PyType_Check(o) && class_stands(g, (PyTypeObject *)o);
    case DYN_GUARD_SYM:
    case DYN_GUARD_MISSING:
    case DYN_GUARD_DISJOINT: break; /* not about one or two loaded sources: the callers' own */
    }
    return false;
}
