/* rec_facts.c: functions whose answer is a fact: it follows from types, dtypes and constants, never from array data. So it is the
 * same at every call under the guards, and array code that asks such things before it computes is recorded through.
 *
 * Called by rec_call.c with resolved arguments, and by the handlers for what is known of a fact's attributes. The table is filled
 * once at import with references that are never dropped. */
#include "tracer/rec_np.h"
#include "tracer/rec_state.h"
#include <math.h>

/* What of the arguments decides. */
typedef enum Decides {
    VALUES, /* their values: burnt in */
    TYPES   /* the types (and dtypes) of arrays and numbers, the values of everything else */
} Decides;
static struct Fact {
    const char *module, *name;
    Decides by;
    PyObject *callable;
} facts[] = {
    {"builtins", "issubclass", VALUES, NULL},
    {"builtins", "callable", TYPES, NULL},
    {"numpy.lib.array_utils", "normalize_axis_index", VALUES, NULL},
    {"numpy", "result_type", TYPES, NULL},
    {"numpy", "promote_types", VALUES, NULL},
    {"numpy", "can_cast", TYPES, NULL},
    {"numpy", "min_scalar_type", VALUES, NULL},
    {"numpy", "dtype", VALUES, NULL},
    {"numpy", "finfo", VALUES, NULL},
    {"numpy", "iinfo", VALUES, NULL},
};
static PyTypeObject *finfo, *iinfo;

bool rec_is_fact(PyObject *o) {
    return PyArray_DescrCheck(o) || Py_TYPE(o) == finfo || Py_TYPE(o) == iinfo;
}

/* Is the answer the same as long as this argument's guards hold? */
static bool decided(DynRec *r, DynOperand o, Decides by) {
    bool number = o.v->kind == DV_SYM || rec_is_array(o.v);
    return (by == TYPES && number) || dyn_rec_burn(r, o.v, o.real) == 0;
}

/* A user's class can have __subclasscheck__ or __call__ of its own: only the plain kind is known. */
static bool plain_classes(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        bool plain = true;
        for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(o); i++) {
            plain = plain_classes(PyTuple_GET_ITEM(o, i));
        }
        return plain;
    }
    return !PyType_Check(o) || Py_TYPE(o) == &PyType_Type;
}

DynVal *rec_call_fact(DynRec *r, const RecCall *c, PyObject **result, bool *handled) {
    for (size_t i = 0; i < DYN_COUNTOF(facts); i++) {
        if (facts[i].callable != c->callable.real) {
            continue;
        }
        bool known = true;
        for (uint32_t k = 0; known && k < c->npos + c->nkw; k++) {
            known = plain_classes(c->args[k].real) && decided(r, c->args[k], facts[i].by);
        }
        *handled = true;
        *result = rec_call_real(c);
        return *result == NULL ? NULL : known ? rec_wrap_result(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, facts[i].name);
    }
    return NULL;
}

/* ---- NumPy scalars that are constants */

bool rec_is_const_npscalar(DynVal *v, PyObject *o) { return v->kind == DV_CONST && PyArray_CheckScalar(o); }

/* Made of constants alone, and no floating-point warning came with it: those come with a NaN, an infinity, a zero or a subnormal
 * number as the result. */
bool rec_is_quiet_npscalar(PyObject *o) {
    DynDtype dt = dyn_np_dtype_of(o);
    if (dt == DYN_NO_DTYPE || dyn_dtypes[dt].kind != 'f') {
        return dt != DYN_NO_DTYPE;
    }
    PyObject *item = PyObject_CallMethod(o, "item", NULL);
    bool quiet = item != NULL && PyFloat_CheckExact(item) && isnormal(PyFloat_AS_DOUBLE(item));
    PyErr_Clear();
    Py_XDECREF(item);
    return quiet;
}

int rec_facts_init(void) {
    for (size_t i = 0; i < DYN_COUNTOF(facts); i++) {
        PyObject *module = PyImport_ImportModule(facts[i].module);
        PyObject *f = module ? PyObject_GetAttrString(module, facts[i].name) : NULL;
        Py_XDECREF(module);
        if (f == NULL) {
            return -1;
        }
        Py_XSETREF(facts[i].callable, f);
        finfo = strcmp(facts[i].name, "finfo") == 0 ? (PyTypeObject *)f : finfo;
        iinfo = strcmp(facts[i].name, "iinfo") == 0 ? (PyTypeObject *)f : iinfo;
    }
    return 0;
}
