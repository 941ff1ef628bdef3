/* inner.c: what stands in an outer frame where an inlined call was broken: at the callable's place of a call, or at the place of
 * the operand whose special method was called. Whatever the instruction asks of it, the rest of the inlined call runs, in its
 * resume function, and gives the result.
 *
 * Made by rebuild.c from INNER recipes, called by frames that stand at the instruction again. */
#include "evalframe/door.h"

typedef struct Inner {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *door; /* strong */
    PyObject *args; /* strong: tuple; NULL: it was called */
    PyObject *more; /* strong or NULL. Of a class's __init__: the instance; of __enter__: the manager's __exit__, bound; of an
                     * operator: the left operand */
} Inner;

static PyTypeObject Inner_Type;

static PyObject *go_on(Inner *in) {
    DynNext next = {in->door, in->args};
    if (next.args == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the rest of an inlined call can run only once");
        return NULL;
    }
    in->args = NULL;
    Py_INCREF(next.door);
    return dyn_door_resume(next);
}

static PyObject *inner_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    Inner *in = (Inner *)self;
    PyObject *instance = Py_XNewRef(in->more), *result = go_on(in);
    if (instance != NULL && result != NULL && result != Py_None) {
        PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(result)->tp_name);
        Py_CLEAR(result);
    }
    if (instance != NULL && result != NULL) {
        Py_SETREF(result, Py_NewRef(instance));
    }
    Py_XDECREF(instance);
    return result;
}

/* ---- operators. No other method in Python is there to be asked: the recorder saw to it. */

/* The method of the right operand, an array or a number of another kind. New reference: NotImplemented also where it has none. */
static PyObject *reflect(PyObject *left, PyObject *b, const char *name) {
    PyObject *f = Py_IS_TYPE(b, Py_TYPE(left)) ? NULL : dyn_cpy_lookup_named(Py_TYPE(b), name);
    bool builtin = f != NULL && Py_IS_TYPE(f, &PyWrapperDescr_Type);
    return builtin ? PyObject_CallFunctionObjArgs(f, b, left, NULL) : Py_NewRef(Py_NotImplemented);
}

static PyObject *operated(PyObject *a, PyObject *b, const char *reflected, const char *sign) {
    if (!Py_IS_TYPE(a, &Inner_Type)) {
        Py_RETURN_NOTIMPLEMENTED;
    }
    PyObject *left = Py_XNewRef(((Inner *)a)->more), *result = go_on((Inner *)a);
    if (result == Py_NotImplemented && left != NULL) {
        Py_SETREF(result, reflect(left, b, reflected));
    }
    if (result == Py_NotImplemented && left != NULL) {
        PyErr_Format(PyExc_TypeError, "unsupported operand type(s) for %s: '%.100s' and '%.100s'", sign, Py_TYPE(left)->tp_name,
                     Py_TYPE(b)->tp_name);
        Py_CLEAR(result);
    }
    Py_XDECREF(left);
    return result;
}

/* OPERATOR(slot, reflected, sign) */
#define OPERATORS(OPERATOR)                       \
    OPERATOR(add, "__radd__", "+")                \
    OPERATOR(subtract, "__rsub__", "-")           \
    OPERATOR(multiply, "__rmul__", "*")           \
    OPERATOR(remainder, "__rmod__", "%")          \
    OPERATOR(lshift, "__rlshift__", "<<")         \
    OPERATOR(rshift, "__rrshift__", ">>")         \
    OPERATOR(and, "__rand__", "&")                \
    OPERATOR(xor, "__rxor__", "^")                \
    OPERATOR(or, "__ror__", "|")                  \
    OPERATOR(floor_divide, "__rfloordiv__", "//") \
    OPERATOR(true_divide, "__rtruediv__", "/")    \
    OPERATOR(matrix_multiply, "__rmatmul__", "@")
#define OPERATOR(slot, reflected, sign)                                                              \
    static PyObject *do_##slot(PyObject *a, PyObject *b) { return operated(a, b, reflected, sign); } \
    static PyObject *do_inplace_##slot(PyObject *a, PyObject *b) { return operated(a, b, reflected, sign "="); }
OPERATORS(OPERATOR)
#undef OPERATOR
static PyObject *do_power(PyObject *a, PyObject *b, PyObject *modulo) { return operated(a, b, "__rpow__", "** or pow()"); }
static PyObject *do_inplace_power(PyObject *a, PyObject *b, PyObject *modulo) { return operated(a, b, "__rpow__", "**="); }
static PyObject *do_unary(PyObject *self) { return go_on((Inner *)self); }

static PyNumberMethods as_number = {
#define OPERATOR(slot, reflected, sign) .nb_##slot = do_##slot, .nb_inplace_##slot = do_inplace_##slot,
    OPERATORS(OPERATOR)
#undef OPERATOR
        .nb_power = do_power,
    .nb_inplace_power = do_inplace_power,
    .nb_negative = do_unary,
    .nb_positive = do_unary,
    .nb_invert = do_unary,
};

static PyObject *compare(PyObject *a, PyObject *b, int op) {
    static const char *const signs[6] = {"<", "<=", "==", "!=", ">", ">="};
    PyObject *left = Py_XNewRef(((Inner *)a)->more), *result = go_on((Inner *)a);
    if (result == Py_NotImplemented && left != NULL) {
        Py_CLEAR(result);
        if (op == Py_EQ || op == Py_NE) {
            result = PyBool_FromLong((left == b) == (op == Py_EQ));
        } else {
            PyErr_Format(PyExc_TypeError, "'%s' not supported between instances of '%.100s' and '%.100s'", signs[op],
                         Py_TYPE(left)->tp_name, Py_TYPE(b)->tp_name);
        }
    }
    Py_XDECREF(left);
    return result;
}

/* ---- items, attributes, iteration */

static int gives_nothing(PyObject *result) {
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

static int contains(PyObject *self, PyObject *item) {
    PyObject *result = go_on((Inner *)self);
    int truth = result == NULL ? -1 : PyObject_IsTrue(result);
    Py_XDECREF(result);
    return truth;
}

static PyObject *get_item(PyObject *self, PyObject *key) { return go_on((Inner *)self); }
static int set_item(PyObject *self, PyObject *key, PyObject *value) { return gives_nothing(go_on((Inner *)self)); }
static PyObject *get_attr(PyObject *self, PyObject *name) { return go_on((Inner *)self); }
static int set_attr(PyObject *self, PyObject *name, PyObject *value) { return gives_nothing(go_on((Inner *)self)); }

static PySequenceMethods as_sequence = {.sq_contains = contains};
static PyMappingMethods as_mapping = {.mp_subscript = get_item, .mp_ass_subscript = set_item};

/* ---- with */

static PyObject *enter(PyObject *self, PyObject *none) { return go_on((Inner *)self); }
static PyObject *leave(PyObject *self, void *none) {
    PyObject *more = ((Inner *)self)->more;
    return Py_NewRef(more != NULL ? more : Py_None);
}

static PyMethodDef methods[] = {{"__enter__", enter, METH_NOARGS, NULL}, {0}};
static PyGetSetDef getset[] = {{"__exit__", leave, NULL, NULL, NULL}, {0}};

/* ---- */

static void inner_dealloc(PyObject *self) {
    Py_XDECREF(((Inner *)self)->door);
    Py_XDECREF(((Inner *)self)->args);
    Py_XDECREF(((Inner *)self)->more);
    PyObject_Free(self);
}

static PyTypeObject Inner_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Inner",
    .tp_doc = "The rest of an inlined call, for its caller to call.",
    .tp_basicsize = sizeof(Inner),
    .tp_dealloc = inner_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(Inner, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_as_number = &as_number,
    .tp_as_sequence = &as_sequence,
    .tp_as_mapping = &as_mapping,
    .tp_richcompare = compare,
    .tp_hash = PyObject_HashNotImplemented,
    .tp_iter = do_unary,
    .tp_getattro = get_attr,
    .tp_setattro = set_attr,
    .tp_methods = methods,
    .tp_getset = getset,
};

PyObject *dyn_inner_new(PyObject *door, PyObject *args, PyObject *more) {
    Inner *in = PyObject_New(Inner, &Inner_Type);
    if (in == NULL) {
        Py_DECREF(args);
        return NULL;
    }
    in->vectorcall = inner_call;
    in->door = Py_NewRef(door);
    in->args = args;
    in->more = Py_XNewRef(more);
    return (PyObject *)in;
}

int dyn_inner_init(void) { return PyType_Ready(&Inner_Type); }
