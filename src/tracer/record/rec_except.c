/* rec_except.c: exceptions that are raised and caught while recording. Where an exception follows from what is guarded (a raise
 * statement, a key that isn't in a known dict …), its handler is looked up in the exception table, the real frame is unwound as
 * CPython unwinds it, and recording goes on in the handler. At a later call nothing is raised: the guards say that it would go
 * the same way.
 *
 * Called by record.c when a handler raised, and from its table. An exception that is raised for real is a break
 * (rec_break.c:rec_break_raised), and an argument of what follows in the handler. One that nothing raises at later calls is no
 * value that recipes can make: where the frame has to be rebuilt in an except block, another recording raises it
 * (DynRecording.raises). Which exception is handled is the thread's, as CPython has it: an effect at the ends of segments
 * (DYN_FX_HANDLED). */
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

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

/* Its arguments, where they are plain constants: the exception follows from what is guarded, and they with it. */
static int keep_arguments(DynRec *r, DynVal *v, PyObject *args) {
    DynOperand items[4];
    Py_ssize_t n = PyTuple_CheckExact(args) ? PyTuple_GET_SIZE(args) : -1;
    bool plain = n >= 0 && n <= (Py_ssize_t)DYN_COUNTOF(items);
    for (Py_ssize_t i = 0; plain && i < n; i++) {
        PyObject *arg = PyTuple_GET_ITEM(args, i);
        plain = arg == Py_None || rec_is_text(arg) || rec_is_exact_number(arg);
        items[i] = (DynOperand){plain ? dyn_rec_const(r, arg) : NULL, arg};
        plain = items[i].v != NULL;
    }
    return plain ? rec_set_args(r, v, items, (uint32_t)n) : 0;
}

/* The shadow of an exception that a builtin raised. */
static DynVal *error_shadow(DynRec *r, PyObject *value) {
    DynVal *v = dyn_rec_seq(r, DV_OBJECT, 0, NULL, value);
    if (v == NULL || rec_keep(r, (PyObject *)Py_TYPE(value)) < 0) {
        return NULL;
    }
    v->type = (PyObject *)Py_TYPE(value);
    v->raised = true;
    return keep_arguments(r, v, ((PyBaseExceptionObject *)value)->args) < 0 ? NULL : v;
}

void rec_known_error(DynRec *r, DynVal *v) {
    if (r->req->raises) {
        return;
    }
    PyObject *value = current_error();
    v = value != NULL && v == NULL ? error_shadow(r, value) : v;
    r->error = value != NULL && rec_keep(r, value) == 0 ? v : NULL;
    r->error_real = value;
    if (r->error != NULL && r->error->source == DYN_NONE) {
        r->error->raised = true;
    }
    Py_XDECREF(value);
}

/* Text of an exception is that of its arguments, where its class says nothing else. */
bool rec_error_has_one_text(DynRec *r, DynOperand o) {
    reprfunc text = Py_TYPE(o.real)->tp_str;
    bool of_arguments = text == ((PyTypeObject *)PyExc_BaseException)->tp_str || text == ((PyTypeObject *)PyExc_KeyError)->tp_str;
    bool made_here = o.v->kind == DV_OBJECT && o.v->source == DYN_NONE && (o.v->fresh || o.v->raised);
    PyObject *name = of_arguments && made_here ? PyUnicode_InternFromString("args") : NULL;
    PyObject *args = name == NULL ? NULL : PyObject_GetAttr(o.real, name);
    bool known = args != NULL && PyTuple_CheckExact(args);
    DynVal *v = NULL;
    if (known) {
        rec_own_attr(r, o, name, &v);
    }
    known = v != NULL && rec_has_one_text(r, (DynOperand){v, args});
    PyErr_Clear();
    Py_XDECREF(args);
    Py_XDECREF(name);
    return known;
}

/* Is the handler at `target` over before the frame yields? Then no other frame can see the exception that it handles. */
static bool is_over_soon(const DynCode *c, uint32_t target) {
    for (uint32_t i = target < c->nunits ? c->at_unit[target] : DYN_NONE, n = 0; i < c->v.n && n < 16; i++, n++) {
        uint16_t op = c->v.at[i].op;
        bool yields = op == DYN_I_YIELD_VALUE || op == DYN_I_SEND, raises = op == DYN_I_RERAISE || op == DYN_I_RAISE_VARARGS;
        if (yields || raises || op == DYN_I_CALL) {
            return false;
        }
        if (op == DYN_I_POP_EXCEPT) {
            return true;
        }
    }
    return false;
}

/* Does the frame, or one of the segment's that it was called from, handle what its running instruction raises? */
bool rec_is_handled(const DynRec *r, const RecFrame *f) {
    DynHandler h;
    for (; f != NULL; f = f->outer) {
        bool tried = dyn_cpy_find_handler(f->code->code, f->code->v.at[f->pc].at, &h);
        bool handles = tried && (f->generator == NULL || is_over_soon(f->code, h.target));
        if (f->forgives || handles) {
            return true;
        }
        if (f == r->base || f->generator != NULL) { /* who takes from a generator is no frame that stands at a call */
            break;
        }
    }
    return false;
}

/* Where the frame stands for whoever looks: at what raised first, where a RERAISE has that below the exception. A new
 * reference. */
static PyObject *raised_at(const RecFrame *f, const DynInstr *in) {
    PyObject *first = in->op == DYN_I_RERAISE && in->arg > 0 ? f->real[f->sp - 1 - in->arg] : NULL;
    return first != NULL && dyn_lasti_get(first) >= 0 ? Py_NewRef(first) : dyn_lasti_new(in->at);
}

void rec_unwind(DynRec *r, RecFrame *f, const DynInstr *in, const DynHandler *h) {
    if (!r->error_again) {
        dyn_cpy_traceback_here(r->ts);
    }
    PyObject *value = current_error(), *lasti = h->lasti ? raised_at(f, in) : NULL;
    PyErr_Clear();
    while (f->sp > f->nslots + h->depth) {
        Py_XDECREF(f->real[--f->sp]);
    }
    if (h->lasti) {
        push_real(f, lasti);
    }
    push_real(f, value);
    PyErr_Clear();
    r->error = NULL;
    r->error_again = false;
}

bool rec_catch(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynHandler h;
    PyObject *value;
    if (r->error == NULL || r->cap == NULL || !dyn_cpy_find_handler(f->code->code, in->at, &h)) {
        return false;
    }
    if (f->generator != NULL && !is_over_soon(f->code, h.target)) {
        return false;
    }
    uint32_t level = f->nslots + h.depth, target = h.target < f->code->nunits ? f->code->at_unit[h.target] : DYN_NONE;
    if (target == DYN_NONE || f->sp < level || f->ssp < level || dyn_cpy_is_traced(r->ts)) {
        return false;
    }
    value = current_error();
    bool same = value == r->error_real;
    DynVal *error = r->error, *lasti = rec_new(r, DV_OPAQUE);
    Py_XDECREF(value);
    if (!same || lasti == NULL) {
        return false;
    }
    rec_unwind(r, f, in, &h);
    f->ssp = level;
    if (h.lasti) {
        DynVal *known = dyn_rec_const(r, f->real[f->sp - 2]);
        push_shadow(f, known != NULL ? known : lasti);
    }
    push_shadow(f, error);
    f->pc = target;
    r->callee_bailed = false; /* a callee that raised it did all that it does at every call */
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
    RecCall c = {.callable = o, .args = NULL};
    *v = *known ? rec_call_class(r, &c, &result) : REC_DECLINED;
    if (*v == REC_DECLINED) {
        *v = NULL;
        result = PyObject_CallNoArgs(o.real);
    }
    *known = *known && *v != NULL;
    return result;
}

/* The handler of a frame that an exception reaches adds no row to its traceback where it was raised again in that frame. */
static bool is_caught_here(const RecFrame *f, const DynInstr *in) {
    DynHandler h;
    return dyn_cpy_find_handler(f->code->code, in->at, &h);
}

/* An exception of which it is known which one it is. */
static bool is_known_exception(DynRec *r, DynVal *v, PyObject *value) {
    bool there = v != NULL && PyExceptionInstance_Check(value);
    return there && dyn_rec_resolve(r, v, value) == 0 && v->kind == DV_OBJECT;
}

static Step raise_again(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *v = rec_handled(r, f);
    PyObject *value = dyn_cpy_handled();
    if (!is_known_exception(r, v, value) || !rec_is_handled(r, f)) {
        return step_bail(r, DYN_R_EXCEPTION, "raise");
    }
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(value)), Py_NewRef(value), PyException_GetTraceback(value));
    if (v->source == DYN_NONE || is_caught_here(f, in)) {
        rec_known_error(r, v);
    }
    r->error_again = true;
    return STEP_ERROR;
}

Step rec_RAISE_VARARGS(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (in->arg == 0) {
        return raise_again(r, f, in);
    }
    DynOperand o = operand(f, in->arg), cause = in->arg == 2 ? operand(f, 1) : (DynOperand){0};
    bool plain = PyExceptionInstance_Check(o.real) || PyExceptionClass_Check(o.real);
    bool caused = cause.v != NULL && cause.real != Py_None;
    if (!plain || (caused && !PyExceptionInstance_Check(cause.real)) || !rec_is_handled(r, f)) {
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
    if (known && v->source == DYN_NONE) { /* one that came in gets a row and a context */
        rec_known_error(r, v);
    }
    return STEP_ERROR;
}

Step rec_LOAD_COMMON_CONSTANT(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *o = dyn_cpy_common_constant(in->arg);
    bool left = o == PyExc_AssertionError && !rec_is_handled(r, f);
    DynVal *v = left ? NULL : dyn_rec_const(r, o);
    if (v == NULL) {
        return step_bail(r, DYN_R_EXCEPTION, "assertion");
    }
    push_real(f, Py_NewRef(o));
    push_shadow(f, v);
    return STEP_NEXT;
}

/* ---- in the handler */

/* Where the exception is kept that the frame handles: a generator has its own. */
static DynVal **handled_at(DynRec *r, RecFrame *f, RecGenerator **g) {
    while (f->generator == NULL && f != r->base && f->outer != NULL) {
        f = f->outer;
    }
    *g = f->generator;
    return *g != NULL ? &(*g)->handled : &r->handled;
}

DynVal *rec_handled(DynRec *r, RecFrame *f) {
    RecGenerator *g;
    DynVal **at = handled_at(r, f, &g);
    if (*at != NULL || g != NULL) {
        return *at != NULL ? *at : dyn_rec_const(r, Py_None);
    }
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_HANDLED, DYN_NONE, 0, NULL, NULL);
    return s == DYN_NONE ? NULL : rec_source(r, s);
}

Step rec_PUSH_EXC_INFO(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    RecGenerator *g;
    DynVal *before = rec_handled(r, f), *v = *shadow_top(f, 1), **at = handled_at(r, f, &g);
    if (before == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    *at = v;
    PyObject *value = f->real[f->sp - 1], *old = dyn_cpy_swap_handled(r->ts, Py_NewRef(value));
    f->real[f->sp - 1] = old != NULL ? old : Py_NewRef(Py_None);
    f->shadow[f->ssp - 1] = before;
    push_real(f, value);
    push_shadow(f, v);
    return STEP_NEXT;
}

Step rec_POP_EXCEPT(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    RecGenerator *g;
    DynVal *v = *shadow_top(f, 1), **at = handled_at(r, f, &g);
    bool first = v->source != DYN_NONE && r->cap->sources.v.at[v->source].kind == DYN_SRC_HANDLED;
    *at = first || (g != NULL && v->kind == DV_CONST) ? NULL : v;
    PyObject *old = f->real[--f->sp];
    f->ssp--;
    Py_XDECREF(dyn_cpy_swap_handled(r->ts, old));
    return STEP_NEXT;
}

Step rec_CHECK_EXC_MATCH(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand value = operand(f, 2), type = operand(f, 1);
    bool known =
        dyn_rec_burn(r, type.v, type.real) == 0 && dyn_rec_resolve(r, value.v, value.real) == 0 && value.v->kind == DV_OBJECT;
    bool plain = PyExceptionClass_Check(type.real);
    for (Py_ssize_t i = 0; PyTuple_CheckExact(type.real) && i < PyTuple_GET_SIZE(type.real); i++) {
        plain = (plain || i == 0) && PyExceptionClass_Check(PyTuple_GET_ITEM(type.real, i));
    }
    if (!plain || !known || rec_guard_class(r, Py_TYPE(value.real), NULL) < 0) {
        return step_bail(r, DYN_R_EXCEPTION, "except");
    }
    PyObject *result = PyBool_FromLong(PyErr_GivenExceptionMatches(value.real, type.real));
    return rec_commit(r, f, 1, result, dyn_rec_const(r, result));
}

/* The exception goes on, with the traceback that it has. */
Step rec_RERAISE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand o = operand(f, 1);
    if (!is_known_exception(r, o.v, o.real) || !rec_is_handled(r, f)) {
        return step_bail(r, DYN_R_EXCEPTION, "an exception goes on");
    }
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(o.real)), Py_NewRef(o.real), PyException_GetTraceback(o.real));
    if (o.v->source == DYN_NONE || is_caught_here(f, in)) {
        rec_known_error(r, o.v);
    }
    r->error_again = true;
    return STEP_ERROR;
}

/* Where __exit__ lies: below where the exception was raised, what was handled before, and the exception. */
static uint32_t exit_depth(void) { return dyn_with_keeps_two() ? 5 : 4; }

/* A manager of which nothing is known: a graph break. */
static Step exit_opaque(DynRec *r, RecFrame *f, PyObject *tb) {
    PyObject *value = f->real[f->sp - 1], *exit = f->real[f->sp - exit_depth()];
    PyObject *result = PyObject_CallFunctionObjArgs(exit, Py_TYPE(value), value, tb, NULL);
    r->why = DYN_R_OPAQUE_CALL;
    r->detail = "__exit__";
    return rec_commit(r, f, 0, result, NULL);
}

/* __exit__(type, value, traceback) of the manager below; its answer goes on top. */
Step rec_WITH_EXCEPT_START(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    DynOperand value = operand(f, 1), leave = operand(f, exit_depth());
    PyObject *tb = PyException_GetTraceback(value.real);
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, 3);
    PyObject *name = PyUnicode_InternFromString("__traceback__");
    DynVal *type = rec_object(r, (PyObject *)Py_TYPE(value.real)), *trace = name ? rec_new_attribute(r, value.v, name) : NULL;
    bool kept = name != NULL && rec_keep(r, name) == 0;
    Py_XDECREF(name);
    tb = tb != NULL ? tb : Py_NewRef(Py_None);
    bool made = args != NULL && type != NULL && trace != NULL && kept;
    bool known = made && is_known_exception(r, value.v, value.real) && rec_guard_class(r, Py_TYPE(value.real), NULL) == 0;
    if (!known || dyn_rec_resolve(r, leave.v, leave.real) < 0 || leave.v->kind != DV_METHOD) {
        Step s = exit_opaque(r, f, tb);
        Py_DECREF(tb);
        return s;
    }
    args[0] = (DynOperand){type, (PyObject *)Py_TYPE(value.real)};
    args[1] = value;
    args[2] = (DynOperand){trace, tb};
    RecCall c = {.callable = leave, .args = args, .npos = 3};
    Step s = rec_finish_call(r, f, &c, 0);
    Py_DECREF(tb);
    return s;
}
