/* rec_errstate.c: `with np.errstate(divide="ignore")` while recording. The block is executed for real and its operations are
 * recorded as any others. At a later call nothing enters it: an artifact looks at the floating-point flags when all of it ran,
 * and where the caller's own errstate asks for a warning, the call runs again in CPython, which knows which operations stood in
 * the block. So only "ignore" can be recorded (a block that asks for more than its caller would be missed), and no array that
 * came in may be written in such a graph, since then it can't run again.
 *
 * A frame inside such a block can't be rebuilt: what would leave the graph there isn't recorded, and a recording that met a break
 * there asks for another in which such blocks are entered for real, a graph break each (DynRecording.loud). Called by rec_call.c
 * and from record.c's table. */
#include "tracer/record/rec_callables.h"

static PyObject *errstate, *enter, *leave;
static PyObject *variable; /* The context variable that holds NumPy's state of floating-point errors. */

/* Does the keyword argument say that an error is ignored, at every call? */
static bool is_ignored(DynRec *r, PyObject *name, DynOperand o) {
    if (dyn_rec_burn(r, o.v, o.real) < 0 || !PyUnicode_CheckExact(o.real)) {
        return false;
    }
    return PyUnicode_CompareWithASCIIString(o.real, "ignore") == 0 && PyUnicode_CompareWithASCIIString(name, "call") != 0;
}

/* np.errstate with keyword arguments that are all "ignore". */
static bool only_ignores(DynRec *r, const RecCall *c) {
    bool only = c->npos == 0 && c->nkw > 0;
    for (uint32_t i = 0; only && i < c->nkw; i++) {
        only = is_ignored(r, PyTuple_GET_ITEM(c->kwnames, i), c->args[i]);
    }
    return only;
}

/* __exit__(None, None, None) at the end of the block. */
DynVal *rec_call_quiet_exit(DynRec *r, const RecCall *c, PyObject **result) {
    if (c->callable.v->kind != DV_QUIET) {
        return REC_DECLINED;
    }
    *result = rec_call_real(c);
    return *result == NULL ? NULL : dyn_rec_const(r, *result);
}

DynVal *rec_on_errstate(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool quiet = !r->req->loud && only_ignores(r, c);
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return quiet ? rec_new(r, DV_QUIET) : rec_fail(r, DYN_R_OPAQUE_CALL, "errstate");
}

Step rec_BEFORE_WITH(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 1);
    DynVal *none = dyn_rec_const(r, Py_None), *null = rec_new(r, DV_NULL);
    if (o.v->kind != DV_QUIET || Py_TYPE(o.real) != (PyTypeObject *)errstate || none == NULL || null == NULL) {
        return rec_enter(r, f);
    }
    if (r->cap->writes) {
        r->req->loud = true;
        return step_bail(r, DYN_R_SIDE_EFFECT, "an argument was written before np.errstate");
    }
    PyObject *exit = PyObject_GetAttr(o.real, leave);
    PyObject *entered = exit ? PyObject_CallMethodNoArgs(o.real, enter) : NULL;
    if (entered == NULL || entered != Py_None) {
        Py_XDECREF(exit);
        if (entered != NULL) {
            Py_DECREF(entered);
            PyErr_SetString(PyExc_SystemError, "np.errstate gave something to its block");
        }
        return STEP_ERROR;
    }
    r->cap->quiet = true;
    put_exit(f, exit);
    push_real(f, entered);
    if (dyn_with_keeps_two()) {
        push_shadow(f, null);
    }
    push_shadow(f, none);
    Py_DECREF(o.real);
    return STEP_NEXT;
}

bool rec_is_errstate_variable(const PyObject *var) { return var == variable; }

int rec_errstate_init(void) {
    PyObject *numpy = dyn_import("numpy"), *umath = dyn_import("numpy._core.umath");
    variable = umath ? PyObject_GetAttrString(umath, "_extobj_contextvar") : NULL;
    errstate = numpy ? PyObject_GetAttrString(numpy, "errstate") : NULL;
    enter = PyUnicode_InternFromString("__enter__");
    leave = PyUnicode_InternFromString("__exit__");
    Py_XDECREF(numpy);
    Py_XDECREF(umath);
    return errstate == NULL || variable == NULL || enter == NULL || leave == NULL ? -1 : 0;
}
