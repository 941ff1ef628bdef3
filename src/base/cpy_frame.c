/* cpy_frame.c: CPython's frames: reading them, standing in for the evaluation loop, and handing them back to it.
 *
 * Called by the recorder and the hook. Owns nothing: a frame belongs to its caller until dyn_frame_go_on, dyn_frame_throw or
 * dyn_frame_default_eval consumes it. On 3.11 the hook's caller clears a frame, from 3.12 the evaluation that ends it does. */
#define _GNU_SOURCE
#include "base/cpy_internal.h"
#include <opcode.h>
#include <pthread.h>

#if DYN_PY == 311
#define FRAME_CODE(f) ((f)->f_code)
#define FRAME_FUNC(f) ((PyObject *)(f)->f_func)
#elif DYN_PY == 312
#define FRAME_CODE(f) ((f)->f_code)
#define FRAME_FUNC(f) ((f)->f_funcobj)
#elif DYN_PY == 313
#define FRAME_CODE(f) ((PyCodeObject *)(f)->f_executable)
#define FRAME_FUNC(f) ((f)->f_funcobj)
#else
#define FRAME_CODE(f) ((PyCodeObject *)PyStackRef_AsPyObjectBorrow((f)->f_executable))
#define FRAME_FUNC(f) PyStackRef_AsPyObjectBorrow((f)->f_funcobj)
#endif
#if DYN_PY < 313
#define FRAME_POINTER(f) ((f)->prev_instr)
#else
#define FRAME_POINTER(f) ((f)->instr_ptr)
#endif
#define CODE_START(f) ((_Py_CODEUNIT *)FRAME_CODE(f)->co_code_adaptive)

/* ---- reading ---- */

DynFrame *dyn_frame_current(PyThreadState *ts) {
#if DYN_PY < 313
    return ts->cframe->current_frame;
#else
    return ts->current_frame;
#endif
}

void dyn_frame_show(PyThreadState *ts, DynFrame *f) {
#if DYN_PY < 313
    ts->cframe->current_frame = f;
#else
    ts->current_frame = f;
#endif
}

DynFrame *dyn_frame_hide(PyThreadState *ts) {
    DynFrame *f = dyn_frame_current(ts);
    dyn_frame_show(ts, f->previous);
    return f;
}

PyCodeObject *dyn_frame_code(DynFrame *f) { return FRAME_CODE(f); }

PyObject *dyn_frame_func(DynFrame *f) { return FRAME_FUNC(f); }

PyObject *dyn_frame_globals(DynFrame *f) { return f->f_globals; }

PyObject *dyn_frame_builtins(DynFrame *f) { return f->f_builtins; }

bool dyn_frame_is_generator(DynFrame *f) {
    return f->owner == FRAME_OWNED_BY_GENERATOR ||
           (FRAME_CODE(f)->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

DynFrame *dyn_frame_of_generator(PyObject *generator) { return (DynFrame *)&((PyGenObject *)generator)->gi_iframe; }

bool dyn_generator_is_paused(PyObject *o, uint32_t *at) {
    if (!PyGen_CheckExact(o)) {
        return false;
    }
    int state = ((PyGenObject *)o)->gi_frame_state;
    bool paused = state == FRAME_CREATED || state == FRAME_SUSPENDED;
    DynFrame *f = dyn_frame_of_generator(o);
    *at = state == FRAME_SUSPENDED ? dyn_frame_position(f) : 0;
    return paused;
}

/* As YIELD_VALUE leaves a generator, in front of what follows it. */
void dyn_generator_suspend(PyObject *generator, uint32_t at, int depth) {
    PyGenObject *g = (PyGenObject *)generator;
    DynFrame *f = dyn_frame_of_generator(generator);
    dyn_frame_running(f, at - (DYN_PY < 313), depth);
#if DYN_PY < 313
    g->gi_frame_state = FRAME_SUSPENDED;
#else
    _Py_CODEUNIT yield = CODE_START(f)[at - 1];
    g->gi_frame_state = yield.op.arg ? FRAME_SUSPENDED_YIELD_FROM : FRAME_SUSPENDED;
#endif
}

bool dyn_frame_has_locals(DynFrame *f) { return DYN_PY < 313 && f->f_locals != NULL; }

PyObject *dyn_frame_namespace(DynFrame *f) {
    bool one = (FRAME_CODE(f)->co_flags & CO_OPTIMIZED) == 0 && f->f_locals == f->f_globals;
    return one && PyDict_CheckExact(f->f_globals) ? f->f_globals : NULL;
}

static void set_depth(DynFrame *f, int depth) {
#if DYN_PY < 314
    f->stacktop = FRAME_CODE(f)->co_nlocalsplus + depth;
#else
    f->stackpointer = f->localsplus + FRAME_CODE(f)->co_nlocalsplus + depth;
#endif
}

int dyn_frame_depth(DynFrame *f) {
#if DYN_PY < 314
    return f->stacktop - FRAME_CODE(f)->co_nlocalsplus;
#else
    return (int)(f->stackpointer - f->localsplus) - FRAME_CODE(f)->co_nlocalsplus;
#endif
}

uint32_t dyn_frame_position(DynFrame *f) { return (uint32_t)(FRAME_POINTER(f) - CODE_START(f) + (DYN_PY < 313)); }

/* ---- slots */

static PyObject *lasti_of(uint32_t at);
static PyObject *first_lasti; /* of unit 0 */

static int lasti_init(void) { return (first_lasti = lasti_of(0)) == NULL ? -1 : 0; }

PyObject *dyn_lasti_new(uint32_t at) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *made = lasti_of(at);
    PyErr_Restore(type, value, tb);
    return made != NULL ? made : Py_NewRef(first_lasti);
}

#if DYN_PY < 314

static PyObject *lasti_of(uint32_t at) { return PyLong_FromUnsignedLong(at); }

int64_t dyn_lasti_get(PyObject *lasti) { return PyLong_CheckExact(lasti) ? PyLong_AsLong(lasti) : -1; }

bool dyn_lasti_is_tagged(void) { return false; }

int dyn_cpy_frame_init(void) { return lasti_init(); }

PyObject **dyn_frame_pointers(DynFrame *f) { return f->localsplus; }

PyObject *dyn_frame_get(DynFrame *f, uint32_t slot) { return f->localsplus[slot]; }

bool dyn_frame_is_empty(DynFrame *f, uint32_t slot) { return f->localsplus[slot] == NULL; }

bool dyn_frame_has_number(DynFrame *f, uint32_t slot) {
    (void)f;
    (void)slot;
    return false;
}

void dyn_frame_put(DynFrame *f, uint32_t slot, PyObject *value) { f->localsplus[slot] = value; }

PyObject *dyn_frame_take(DynFrame *f, uint32_t slot) {
    PyObject *value = f->localsplus[slot];
    f->localsplus[slot] = NULL;
    return value;
}

#else

/* CPython has a tagged number on the stack where others have an object. As an object it is an int of a type of its own, by which
 * it is known when it comes back. */
static PyTypeObject Lasti_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Lasti",
    .tp_doc = "Where an exception was raised.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
};

static PyObject *lasti_of(uint32_t at) { return PyObject_CallFunction((PyObject *)&Lasti_Type, "k", (unsigned long)at); }

int64_t dyn_lasti_get(PyObject *lasti) { return Py_IS_TYPE(lasti, &Lasti_Type) ? PyLong_AsLong(lasti) : -1; }

bool dyn_lasti_is_tagged(void) { return true; }

int dyn_cpy_frame_init(void) {
    Lasti_Type.tp_base = &PyLong_Type;
    return PyType_Ready(&Lasti_Type) < 0 ? -1 : lasti_init();
}

PyObject **dyn_frame_pointers(DynFrame *f) {
    (void)f;
    return NULL;
}

PyObject *dyn_frame_get(DynFrame *f, uint32_t slot) {
    _PyStackRef ref = f->localsplus[slot];
    return PyStackRef_IsNull(ref) ? NULL : PyStackRef_AsPyObjectBorrow(ref);
}

bool dyn_frame_is_empty(DynFrame *f, uint32_t slot) { return PyStackRef_IsNull(f->localsplus[slot]); }

bool dyn_frame_has_number(DynFrame *f, uint32_t slot) { return PyStackRef_IsTaggedInt(f->localsplus[slot]); }

void dyn_frame_put(DynFrame *f, uint32_t slot, PyObject *value) {
    int64_t at = value == NULL ? -1 : dyn_lasti_get(value);
    if (at >= 0) {
        Py_DECREF(value);
        f->localsplus[slot] = PyStackRef_TagInt((intptr_t)at);
    } else {
        f->localsplus[slot] = value == NULL ? PyStackRef_NULL : PyStackRef_FromPyObjectSteal(value);
    }
}

PyObject *dyn_frame_take(DynFrame *f, uint32_t slot) {
    _PyStackRef ref = f->localsplus[slot];
    f->localsplus[slot] = PyStackRef_NULL;
    if (PyStackRef_IsNull(ref)) {
        return NULL;
    }
    if (PyStackRef_IsTaggedInt(ref)) {
        return dyn_lasti_new((uint32_t)PyStackRef_UntagInt(ref));
    }
    return PyStackRef_AsPyObjectSteal(ref);
}

#endif

#if DYN_PY >= 315

/* The iterator of a sequence that stands at `at`; NULL without an exception where none stands there. */
static PyObject *iterator_at(PyObject *sequence, intptr_t at) {
    bool within = !PyList_CheckExact(sequence) || at <= PyList_GET_SIZE(sequence); /* it may have become shorter */
    PyObject *it = within ? PyObject_GetIter(sequence) : NULL;
    PyObject *done = it == NULL ? NULL : PyObject_CallMethod(it, "__setstate__", "n", (Py_ssize_t)at);
    if (done == NULL) {
        Py_CLEAR(it);
        PyErr_Clear();
    }
    Py_XDECREF(done);
    return it;
}

bool dyn_frame_settle(DynFrame *f, int depth) {
    _PyStackRef *stack = f->localsplus + FRAME_CODE(f)->co_nlocalsplus;
    for (int i = 1; i < depth; i++) {
        bool pair = PyStackRef_IsTaggedInt(stack[i]) && !PyStackRef_IsNullOrInt(stack[i - 1]);
        PyObject *sequence = pair ? PyStackRef_AsPyObjectBorrow(stack[i - 1]) : NULL;
        if (sequence == NULL || !dyn_cpy_is_walked_by_index(sequence)) {
            continue; /* above anything else a number says where an exception was raised */
        }
        PyObject *it = iterator_at(sequence, PyStackRef_UntagInt(stack[i]));
        if (it == NULL) {
            return false;
        }
        _PyStackRef old = stack[i - 1];
        stack[i - 1] = PyStackRef_FromPyObjectSteal(it);
        stack[i] = PyStackRef_NULL;
        PyStackRef_CLOSE(old);
    }
    return true;
}

#else

bool dyn_frame_settle(DynFrame *f, int depth) {
    (void)f, (void)depth;
    return true;
}

#endif

void dyn_frame_get_all(DynFrame *f, PyObject **out) {
    for (int i = 0; i < FRAME_CODE(f)->co_nlocalsplus; i++) {
        out[i] = dyn_frame_get(f, (uint32_t)i);
    }
}

/* ---- who called */

DynFrame *dyn_frame_complete(DynFrame *f) {
    while (f != NULL && _PyFrame_IsIncomplete(f)) {
        f = f->previous;
    }
    return f;
}

DynFrame *dyn_frame_caller(DynFrame *f) { return dyn_frame_complete(f->previous); }

/* ---- the C stack ----
 * With a hook installed a Python call uses C stack, which it does not do otherwise. CPython 3.11 doesn't count that; 3.12 counts
 * it with a limit (750 calls) below the usual recursion limit; 3.14 looks at the C stack itself, and so do we. */

static __thread char *stack_end;  /* lowest address of this thread's stack, NULL before it is known */
static __thread size_t stack_low; /* less than this is left for CPython to raise RecursionError in */
#define STACK_LOW ((size_t)256 << 10)

static size_t stack_left(void) {
    char here;
    if (!stack_end) {
        pthread_attr_t attr;
        void *base = NULL;
        size_t size = 0;
        if (pthread_getattr_np(pthread_self(), &attr) != 0) {
            return 0;
        }
        pthread_attr_getstack(&attr, &base, &size);
        pthread_attr_destroy(&attr);
        stack_end = base;
        stack_low = size / 8 < STACK_LOW ? size / 8 : STACK_LOW;
    }
    return &here > stack_end ? (size_t)(&here - stack_end) : SIZE_MAX; /* beyond it: a coroutine library's own stack */
}

#if DYN_PY == 311
#define PY_REMAINING(ts) ((ts)->recursion_remaining)
#else
#define PY_REMAINING(ts) ((ts)->py_recursion_remaining)
#endif
#if DYN_PY == 312 || DYN_PY == 313
#define EVAL_C_UNITS 2 /* what one evaluation counts for, where C calls are counted */
#endif

int64_t dyn_cpy_calls_left(long *floor) {
    enum { SPARE = 1 << 16 };
    char here;
    size_t left = stack_left();
    if (left == SIZE_MAX || left < stack_low + SPARE) {
        return 0;
    }
    *floor = (long)(intptr_t)(&here - (left - stack_low - SPARE));
    return PY_REMAINING(PyThreadState_Get());
}

/* Evaluate by CPython itself, counting real C stack in place of C calls. */
static PyObject *evaluate(PyThreadState *ts, DynFrame *f, int throwflag, DynEvalHook eval) {
    PyObject *result;
    size_t left = stack_left();
    if (DYN_UNLIKELY(left < stack_low)) {
        /* CPython itself then raises RecursionError and consumes the frame. */
        int saved = PY_REMAINING(ts);
        PY_REMAINING(ts) = saved < 0 ? saved : 0;
        result = eval(ts, f, throwflag);
        PY_REMAINING(ts) = saved;
        return result;
    }
#ifdef EVAL_C_UNITS
    bool uncounted = left != SIZE_MAX;
    if (uncounted) {
        ts->c_recursion_remaining += EVAL_C_UNITS;
    }
    result = eval(ts, f, throwflag);
    if (uncounted) {
        ts->c_recursion_remaining -= EVAL_C_UNITS;
    }
#else
    result = eval(ts, f, throwflag);
#endif
    return result;
}

PyObject *dyn_frame_default_eval(PyThreadState *ts, DynFrame *f, int throwflag) {
    DynEvalHook foreign = dyn_hook_foreign();
    return evaluate(ts, f, throwflag, foreign ? foreign : _PyEval_EvalFrameDefault);
}

int dyn_cpy_lend_stack(PyThreadState *ts) {
#ifdef EVAL_C_UNITS
    size_t left = stack_left();
    if (left >= stack_low && left != SIZE_MAX) {
        ts->c_recursion_remaining += EVAL_C_UNITS;
        return EVAL_C_UNITS;
    }
#endif
    return 0;
}

void dyn_cpy_return_stack(PyThreadState *ts, int lent) {
#ifdef EVAL_C_UNITS
    ts->c_recursion_remaining -= lent;
#endif
}

bool dyn_cpy_short_of_stack(void) { return stack_left() < 2 * STACK_LOW; }
bool dyn_cpy_deep_in_stack(void) { return stack_left() < 4 * STACK_LOW; }

#define STACK_OF_C_UNIT 1024 /* CPython's limit is meant for a stack of about so much for each */

/* With no hook CPython counts C calls itself again: as many as there is stack for. */
PyObject *dyn_frame_eval_alone(PyThreadState *ts, DynFrame *f) {
#ifdef EVAL_C_UNITS
    size_t units = stack_left() / STACK_OF_C_UNIT;
    int saved = ts->c_recursion_remaining;
    if (units < (size_t)(saved > 0 ? saved : 0)) {
        ts->c_recursion_remaining = (int)units;
    }
    PyObject *result = _PyEval_EvalFrameDefault(ts, f, 0);
    ts->c_recursion_remaining = saved;
    return result;
#else
    return _PyEval_EvalFrameDefault(ts, f, 0);
#endif
}

/* ---- standing in for the evaluation loop ---- */

bool dyn_recursion_near_limit(PyThreadState *ts) { return PY_REMAINING(ts) < 50 || stack_left() < 2 * STACK_LOW; }

void dyn_recursion_forgive(PyThreadState *ts, int calls) { PY_REMAINING(ts) += calls; }

static int count_recursion(PyThreadState *ts) {
#if DYN_PY == 311
    return _Py_EnterRecursiveCallTstate(ts, "") ? -1 : 0;
#else
    if (ts->py_recursion_remaining <= 0 && !ts->recursion_headroom) {
        ts->recursion_headroom++;
        PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
        ts->recursion_headroom--;
        return -1;
    }
    ts->py_recursion_remaining--;
    return 0;
#endif
}

#if DYN_PY < 313
_Static_assert(sizeof(_PyCFrame) <= sizeof(DynFrameLink), "a link holds a cframe");
#endif

int dyn_frame_enter(PyThreadState *ts, DynFrame *f, DynFrameLink *link) {
    if (count_recursion(ts) < 0) {
        return -1;
    }
#if DYN_PY < 313
    _PyCFrame *cframe = (_PyCFrame *)link;
    f->previous = ts->cframe->current_frame;
    cframe->previous = ts->cframe;
    cframe->current_frame = f;
#if DYN_PY == 311
    cframe->use_tracing = ts->cframe->use_tracing;
    f->is_entry = true;
#endif
    ts->cframe = cframe;
#else
    f->previous = ts->current_frame;
    ts->current_frame = f;
#endif
    return 0;
}

void dyn_frame_leave(PyThreadState *ts, DynFrame *f, DynFrameLink *link) {
#if DYN_PY < 313
    _PyCFrame *cframe = (_PyCFrame *)link;
    ts->cframe = cframe->previous;
#if DYN_PY == 311
    ts->cframe->use_tracing = cframe->use_tracing; /* sys.settrace() called inside holds on outside, as in CPython */
#endif
#else
    ts->current_frame = f->previous;
#endif
    PY_REMAINING(ts)
    ++;
}

void dyn_frame_running(DynFrame *f, uint32_t at, int depth) {
    FRAME_POINTER(f) = CODE_START(f) + at;
    set_depth(f, depth);
}

/* ---- handing back ----
 * Always to CPython's own evaluation: a foreign hook takes every frame for one at its start. */

PyObject *dyn_frame_go_on(PyThreadState *ts, DynFrame *f, uint32_t at, int depth) {
    FRAME_POINTER(f) = CODE_START(f) + at - (DYN_PY < 313);
    set_depth(f, depth);
    dyn_frame_lend_operands(f, at, depth);
    return evaluate(ts, f, 0, _PyEval_EvalFrameDefault);
}

/* A code without slots, and its RETURN_VALUE. Borrowed, or NULL with an exception. */
static PyCodeObject *returning_code(uint32_t *at) {
    static PyCodeObject *code;
    static uint32_t unit;
    PyObject *made = code ? NULL : Py_CompileString("lambda: x", "<dynoc>", Py_eval_input);
    PyObject *consts = made ? ((PyCodeObject *)made)->co_consts : NULL;
    for (Py_ssize_t i = 0; consts && i < PyTuple_GET_SIZE(consts); i++) {
        if (PyCode_Check(PyTuple_GET_ITEM(consts, i))) {
            code = (PyCodeObject *)Py_NewRef(PyTuple_GET_ITEM(consts, i));
        }
    }
    Py_XDECREF(made);
    while (code && _Py_OPCODE(_PyCode_CODE(code)[unit]) != RETURN_VALUE) {
        unit++;
    }
    *at = unit;
    return code;
}

PyObject *dyn_frame_return(PyThreadState *ts, DynFrame *f, PyObject *result) {
    uint32_t at;
    PyCodeObject *code = returning_code(&at), *old = FRAME_CODE(f);
    for (int i = 0; i < old->co_nlocalsplus; i++) {
        Py_XDECREF(dyn_frame_take(f, (uint32_t)i));
    }
    if (!code) {
        Py_DECREF(result);
        return dyn_frame_throw(ts, f, 0, 0);
    }
    Py_INCREF(code);
#if DYN_PY < 313
    f->f_code = code;
#elif DYN_PY == 313
    f->f_executable = (PyObject *)code;
#else
    f->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
#endif
    dyn_frame_put(f, 0, result);
    Py_DECREF(old);
    return dyn_frame_go_on(ts, f, at, 1);
}

#if DYN_PY < 313
PyObject *dyn_frame_throw(PyThreadState *ts, DynFrame *f, uint32_t at, int depth) {
    dyn_frame_running(f, at, depth);
    return evaluate(ts, f, 1, _PyEval_EvalFrameDefault);
}
#else
static uint32_t top_of(DynFrame *f) { return (uint32_t)(FRAME_CODE(f)->co_nlocalsplus + dyn_frame_depth(f)); }

static void drop_stack(DynFrame *f, uint32_t depth) {
    while (dyn_frame_depth(f) > (int)depth) {
        PyObject *o = dyn_frame_take(f, top_of(f) - 1);
        set_depth(f, dyn_frame_depth(f) - 1);
        Py_XDECREF(o);
    }
}

static void push(DynFrame *f, PyObject *value) {
    dyn_frame_put(f, top_of(f), value);
    set_depth(f, dyn_frame_depth(f) + 1);
}

/* Where the handler that catches at `at` starts, its stack being ready; -1: nobody catches. */
static int64_t enter_handler(DynFrame *f, uint32_t at) {
    DynHandler h;
    PyCodeObject *code = FRAME_CODE(f);
    if (!dyn_cpy_find_handler(code, at, &h)) {
        drop_stack(f, 0);
        return -1;
    }
    PyObject *raised = PyErr_GetRaisedException(); /* destructors see none */
    drop_stack(f, h.depth);
    if (h.lasti) {
        push(f, dyn_lasti_new(at));
    }
    push(f, raised);
    return h.target;
}

/* The evaluation loop of 3.13, asked to throw, takes the handler of the code unit before the one whose line it shows: right for
 * the generators it is made for, wrong for an instruction that starts or follows a try block. So the frame is unwound here. */
PyObject *dyn_frame_throw(PyThreadState *ts, DynFrame *f, uint32_t at, int depth) {
    DynFrame *caller = ts->current_frame;
    f->previous = caller;
    ts->current_frame = f; /* destructors and the traceback see the frame where it is */
    dyn_frame_running(f, at, depth);
    if (!_PyFrame_IsIncomplete(f)) {
        PyFrameObject *o = PyEval_GetFrame();
        if (o) {
            PyTraceBack_Here(o);
        }
    }
    int64_t handler = enter_handler(f, at);
    ts->current_frame = caller;
    if (handler < 0) {
        _PyEval_FrameClearAndPop(ts, f);
        return NULL;
    }
    return dyn_frame_go_on(ts, f, (uint32_t)handler, dyn_frame_depth(f));
}
#endif
