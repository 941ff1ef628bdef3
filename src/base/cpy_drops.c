/* cpy_drops.c: does dropping a reference to an object run code, if it is the last one? Called by native loops
 * (ir/region_world.c), which keep what they take out of other objects until they are left: where a destructor, or the callback of
 * a weak reference, would run by then, CPython has to do it, at its time. With the GIL. Owns nothing.
 *
 * While a loop runs references are counted that eager wouldn't have any more: of variables that got another value, of lists that
 * were made in earlier trips. So a count above one says nothing, but one above all references that could be dropped by then. */
#include "base/cpy_region.h"

enum { MOST_EDGES = 64, MOST_OBJECTS = 32 };

typedef struct Look {
    bool (*is_plain)(PyObject *); /* … besides CPython's own */
    PyObject *seen[MOST_OBJECTS];
    int nseen, nedges;
} Look;

static int look_at(PyObject *o, void *look);

/* Numbers, texts, and what else holds no other object. */
static bool is_plain(PyObject *o) {
    return o == Py_None || PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyUnicode_CheckExact(o) ||
           PyBytes_CheckExact(o) || PyComplex_CheckExact(o) || PyByteArray_CheckExact(o);
}

/* What instances of classes that a class statement made are freed by. */
static destructor class_dealloc(void) {
    static destructor dealloc;
    if (dealloc == NULL) {
        PyObject *class = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Plain");
        dealloc = class == NULL ? NULL : ((PyTypeObject *)class)->tp_dealloc;
        Py_XDECREF(class);
        PyErr_Clear();
    }
    return dealloc;
}

bool dyn_cpy_has_weakrefs(PyObject *o) {
    PyObject **weak = PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)) ? (PyObject **)PyObject_GET_WEAKREFS_LISTPTR(o) : NULL;
    return weak != NULL && *weak != NULL;
}

/* Freeing an instance frees what it refers to, and does nothing else. */
static bool is_freed_quietly(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o), *base = t;
    while (base != NULL && base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        base = base->tp_base;
    }
    bool container = base == &PyList_Type || base == &PyTuple_Type || base == &PyDict_Type || base == &PySet_Type;
    bool class = t != base && base == &PyBaseObject_Type && t->tp_dealloc == class_dealloc();
    if ((!class && !(container && t == base)) || t->tp_finalize != NULL || t->tp_del != NULL || t->tp_traverse == NULL) {
        return false;
    }
    return !dyn_cpy_has_weakrefs(o);
}

/* Rows of numbers are long: each is looked at by its type alone. */
static int look_into(PyObject *sequence, Look *look) {
    PyObject **items = PySequence_Fast_ITEMS(sequence);
    int may = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence) && may == 0; i++) {
        bool number = items[i] == NULL || PyFloat_CheckExact(items[i]) || PyLong_CheckExact(items[i]);
        may = number ? 0 : look_at(items[i], look);
    }
    return may;
}

/* 1: freeing what holds this object may run code. */
static int look_at(PyObject *o, void *arg) {
    Look *look = arg;
    if (is_plain(o) || look->is_plain(o) || PyType_Check(o) || Py_REFCNT(o) > MOST_EDGES) {
        return 0;
    }
    for (int i = 0; i < look->nseen; i++) {
        if (look->seen[i] == o) {
            return ++look->nedges > MOST_EDGES;
        }
    }
    if (++look->nedges > MOST_EDGES || look->nseen == MOST_OBJECTS || !is_freed_quietly(o)) {
        return 1;
    }
    look->seen[look->nseen++] = o;
    return PyList_CheckExact(o) || PyTuple_CheckExact(o) ? look_into(o, look) : Py_TYPE(o)->tp_traverse(o, look_at, look);
}

bool dyn_cpy_drops_quietly(PyObject *o, bool (*more)(PyObject *)) {
    Look look;
    look.is_plain = more;
    look.nseen = look.nedges = 0;                                  /* the rest is written before it is read */
    bool sequence = PyList_CheckExact(o) || PyTuple_CheckExact(o); /* of numbers, mostly: nobody can refer to it weakly */
    return sequence && Py_REFCNT(o) <= MOST_EDGES ? look_into(o, &look) == 0 : look_at(o, &look) == 0;
}
