/* asm_enter.c: the functions that rewritten code calls where no instruction leaves on the stack what can be handed on: at the
 * beginning of a with statement, from 3.14 on, and of a for statement, from 3.15 on.
 *
 * Called by code that asm_break.c makes. The functions live as long as the process. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_internal.h"

PyObject *dyn_asm_enter, *dyn_asm_iter;

static bool is_asynchronous(PyTypeObject *type) {
    return dyn_cpy_lookup_named(type, "__aenter__") != NULL && dyn_cpy_lookup_named(type, "__aexit__") != NULL;
}

/* A method of the manager's class, bound. NULL with the error that the with statement raises where there is none. */
static PyObject *special(PyObject *manager, const char *name) {
    PyTypeObject *type = Py_TYPE(manager);
    PyObject *method = dyn_cpy_lookup_named(type, name);
    descrgetfunc bind = method == NULL ? NULL : Py_TYPE(method)->tp_descr_get;
    if (method == NULL) {
        const char *hint = is_asynchronous(type)
                               ? " but it supports the asynchronous context manager protocol. Did you mean to use 'async with'?"
                               : "";
        return PyErr_Format(PyExc_TypeError, "'%T' object does not support the context manager protocol (missed %s method)%s",
                            manager, name, hint);
    }
    return bind == NULL ? Py_NewRef(method) : bind(method, manager, (PyObject *)type);
}

/* (what __enter__ gave, __exit__), in the order in which a with statement looks them up. */
static PyObject *enter(PyObject *self, PyObject *manager) {
    PyObject *leave = special(manager, "__exit__"), *entering = leave == NULL ? NULL : special(manager, "__enter__");
    PyObject *entered = entering == NULL ? NULL : PyObject_CallNoArgs(entering);
    PyObject *both = entered == NULL ? NULL : PyTuple_Pack(2, entered, leave);
    Py_XDECREF(entered);
    Py_XDECREF(entering);
    Py_XDECREF(leave);
    return both;
}

static PyObject *iterate(PyObject *self, PyObject *o) { return PyObject_GetIter(o); }

int dyn_asm_enter_init(void) {
    static PyMethodDef method = {"enter", enter, METH_O, "What __enter__ of a context manager gives, and its __exit__."};
    if (dyn_with_keeps_two() && dyn_asm_enter == NULL) {
        dyn_asm_enter = PyCFunction_New(&method, NULL);
    }
    static PyMethodDef iter = {"iter", iterate, METH_O, "An iterator of an object."};
    if (dyn_iterator_slots() == 2 && dyn_asm_iter == NULL) {
        dyn_asm_iter = PyCFunction_New(&iter, NULL);
    }
    bool lacks = (dyn_with_keeps_two() && dyn_asm_enter == NULL) || (dyn_iterator_slots() == 2 && dyn_asm_iter == NULL);
    return lacks ? -1 : 0;
}
