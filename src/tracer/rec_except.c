/* rec_except.c: exceptions that are raised and caught while recording. Where an exception follows from what is guarded (a raise
 * statement, a key that isn't in a known dict …), its handler is looked up in the exception table, the real frame is unwound as
 * CPython unwinds it, and recording goes on in the handler. At a later call nothing is raised: the guards say that it would go
 * the same way.
 *
 * Called by record.c when a handler raised, and from its table. In an except block the frame can't be rebuilt (its exception is
 * no value that shadows can make), so what would leave the graph there isn't recorded. */
#include "tracer/rec_segment.h"

/* The exception that is set, normalised: a new reference. It stays set. */
static PyObject *current_error(void) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (tb != NULL && value != NULL) {
        PyException_SetTraceback(value, tb);
    }
    Py_XINCREF(value);
    PyErr_Restore(type, value, tb);
    return value;
}

/* The shadow of an exception that a builtin raised. */
static DynVal *error_shadow(DynRec *r, PyObject *value) {
    DynVal *v = dyn_rec_seq(r, DV_OBJECT, 0, NULL, value);
    if (v == NULL || rec_keep(r, (PyObject *)Py_TYPE(value)) < 0) {
        return NULL;
    }
    v->type = (PyObject *)Py_TYPE(value);
    return v;
}

void rec_known_error(DynRec *r, DynVal *v) {
    PyObject *value = current_error();
    r->error = value == NULL ? NULL : v != NULL ? v : error_shadow(r, value);
    r->error_real = value;
    if (value == NULL || rec_keep(r, value) < 0) {
        r->error = NULL;
    }
    Py_XDECREF(value);
}

/* Does the frame, or one of the segment's that it was called from, handle what its running instruction raises? */
static bool is_handled(const DynRec *r, const RecFrame *f) {
    DynHandler h;
    for (; f != NULL && f->generator == NULL; f = f->outer) {
        if (dyn_cpy_find_handler(f->code->code, f->code->v.at[f->pc].at, &h)) {
            return true;
        }
        if (f == r->base) {
            break;
        }
    }
    return false;
}

bool rec_catch(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynHandler h;
    PyObject *value;
    if (r->error == NULL || r->cap == NULL || r->seal != NULL || !dyn_cpy_find_handler(f->code->code, in->at, &h)) {
        return false;
    }
    uint32_t level = f->nslots + h.depth, target = h.target < f->code->nunits ? f->code->at_unit[h.target] : DYN_NONE;
    if (target == DYN_NONE || f->sp < level || f->ssp < level || dyn_cpy_is_traced(r->ts)) {
        return false;
    }
    value = current_error();
    bool same = value == r->error_real;
    DynVal *opaque = rec_new(r, DV_OPAQUE);
    PyObject *lasti = h.lasti ? PyLong_FromLong((long)in->at) : NULL;
    if (!same || opaque == NULL || (h.lasti && lasti == NULL)) {
        Py_XDECREF(value);
        Py_XDECREF(lasti);
        return false;
    }
    if (!r->error_again) {
        dyn_cpy_traceback_here(r->ts);
        Py_DECREF(value);
        value = current_error();
    }
    PyErr_Clear();
    while (f->sp > level) {
        Py_XDECREF(f->real[--f->sp]);
    }
    f->ssp = level;
    if (h.lasti) {
        push_real(f, lasti);
        push_shadow(f, opaque);
    }
    push_real(f, value);
    push_shadow(f, r->error);
    r->error = NULL;
    r->error_again = false;
    f->pc = target;
    return true;
}

/* ---- raise */

/* What `raise X` raises: an instance, made where X is a class. NULL: raised, or (*known false) not understood. */
static PyObject *instance_of(DynRec *r, DynOperand o, DynVal **v, bool *known) {
    *v = o.v;
    *known = dyn_rec_resolve(r, o.v, o.real) == 0 && o.v->kind != DV_OPAQUE;
    if (PyExceptionInstance_Check(o.real)) {
        return Py_NewRef(o.real);
    }
    PyObject *result = NULL;
    bool handled = false;
    RecCall c = {.callable = o, .args = NULL};
    *v = *known ? rec_call_class(r, &c, &result, &handled) : NULL;
    *known = *known && *v != NULL;
    return handled ? result : PyObject_CallNoArgs(o.real);
}

static Step raise_again(DynRec *r, RecFrame *f) {
    if (f->nhandling == 0 || !is_handled(r, f)) {
        return step_bail(r, DYN_R_EXCEPTION, "raise");
    }
    PyObject *value = PyErr_GetHandledException();
    if (value == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "raise");
    }
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(value)), value, PyException_GetTraceback(value));
    rec_known_error(r, f->handling[f->nhandling - 1]);
    r->error_again = true;
    return STEP_ERROR;
}

Step rec_RAISE_VARARGS(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (in->arg == 0) {
        return raise_again(r, f);
    }
    DynOperand o = operand(f, in->arg), cause = in->arg == 2 ? operand(f, 1) : (DynOperand){0};
    bool plain = PyExceptionInstance_Check(o.real) || PyExceptionClass_Check(o.real);
    if (!is_handled(r, f) || !plain || (cause.v != NULL && cause.real != Py_None && !PyExceptionInstance_Check(cause.real))) {
        return step_bail(r, DYN_R_EXCEPTION, "raise");
    }
    bool known;
    DynVal *v;
    PyObject *value = instance_of(r, o, &v, &known);
    if (value == NULL) {
        return STEP_ERROR;
    }
    if (!PyExceptionInstance_Check(value)) {
        PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", o.real,
                     Py_TYPE(value));
        Py_DECREF(value);
        return STEP_ERROR;
    }
    if (cause.v != NULL) {
        PyException_SetCause(value, cause.real == Py_None ? NULL : Py_NewRef(cause.real));
        known = known && rec_set_cause(r, v, cause.v) == 0;
    }
    PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    Py_DECREF(value);
    if (known) {
        rec_known_error(r, v);
    }
    return STEP_ERROR;
}

Step rec_LOAD_ASSERTION_ERROR(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynVal *v = is_handled(r, f) ? dyn_rec_const(r, PyExc_AssertionError) : NULL;
    if (v == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "assertion");
    }
    push_real(f, Py_NewRef(PyExc_AssertionError));
    push_shadow(f, v);
    return STEP_NEXT;
}

/* ---- in the handler */

Step rec_PUSH_EXC_INFO(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynVal *before = rec_new(r, DV_OPAQUE), *v = *shadow_top(f, 1);
    if (f->handling == NULL) {
        f->handling = DYN_NEW_N(&r->arena, DynVal *, REC_HANDLING);
    }
    if (before == NULL || f->handling == NULL || f->nhandling == REC_HANDLING) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    PyObject *value = f->real[f->sp - 1], *old = dyn_cpy_swap_handled(r->ts, Py_NewRef(value));
    f->handling[f->nhandling++] = v;
    f->real[f->sp - 1] = old != NULL ? old : Py_NewRef(Py_None);
    f->shadow[f->ssp - 1] = before;
    push_real(f, value);
    push_shadow(f, v);
    return STEP_NEXT;
}

Step rec_POP_EXCEPT(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    if (f->nhandling == 0) {
        return step_bail(r, DYN_R_EXCEPTION, "end of an except block");
    }
    PyObject *old = f->real[--f->sp];
    f->ssp--;
    f->nhandling--;
    Py_XDECREF(dyn_cpy_swap_handled(r->ts, old));
    return STEP_NEXT;
}

Step rec_CHECK_EXC_MATCH(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand value = operand(f, 2), type = operand(f, 1);
    bool known = dyn_rec_burn(r, type.v, type.real) == 0 && value.v->kind == DV_OBJECT;
    bool plain = PyExceptionClass_Check(type.real);
    for (Py_ssize_t i = 0; PyTuple_CheckExact(type.real) && i < PyTuple_GET_SIZE(type.real); i++) {
        plain = (plain || i == 0) && PyExceptionClass_Check(PyTuple_GET_ITEM(type.real, i));
    }
    if (!plain || !known || rec_guard_class(r, Py_TYPE(value.real)) < 0) {
        return step_bail(r, DYN_R_EXCEPTION, "except");
    }
    PyObject *result = PyBool_FromLong(PyErr_GivenExceptionMatches(value.real, type.real));
    return rec_commit(r, f, 1, result, dyn_rec_const(r, result));
}

/* The exception goes on, with the traceback that it has. */
Step rec_RERAISE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 1);
    if (!PyExceptionInstance_Check(o.real) || o.v->kind != DV_OBJECT || !is_handled(r, f)) {
        return step_bail(r, DYN_R_EXCEPTION, "an exception goes on");
    }
    f->sp--;
    f->ssp--;
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(o.real)), o.real, PyException_GetTraceback(o.real));
    rec_known_error(r, o.v);
    r->error_again = true;
    return STEP_ERROR;
}

/* __exit__(type, value, traceback) of the manager below; its answer goes on top. */
Step rec_WITH_EXCEPT_START(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand value = operand(f, 1), leave = operand(f, 4);
    PyObject *tb = PyException_GetTraceback(value.real);
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, 3);
    DynVal *type = rec_object(r, (PyObject *)Py_TYPE(value.real)), *opaque = rec_new(r, DV_OPAQUE);
    if (args == NULL || type == NULL || opaque == NULL || value.v->kind != DV_OBJECT || leave.v->kind != DV_METHOD) {
        Py_XDECREF(tb);
        return step_bail(r, DYN_R_EXCEPTION, "with");
    }
    args[0] = (DynOperand){type, (PyObject *)Py_TYPE(value.real)};
    args[1] = value;
    args[2] = (DynOperand){opaque, tb ? tb : Py_None};
    RecCall c = {.callable = leave, .args = args, .npos = 3};
    Step s = rec_finish_call(r, f, &c, 0);
    Py_XDECREF(tb);
    return s;
}
