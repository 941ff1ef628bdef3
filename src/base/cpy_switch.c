/* cpy_switch.c: a frame that runs goes over to another code object with the same slots, without being left.
 *
 * CPython keeps where it is in variables of its own, and reads them from the frame again when a Python function that it has
 * called without C stack returns. So the iterator of a for loop, asked for an item, puts a call in place of the instructions
 * behind FOR_ITER, which are what CPython reads next. That calls a function of ours; it puts them back, gives the frame its new
 * code and place, and returns the iterator, which the call's result leaves where the old one was. Between the item and the end of
 * that function there are nine instructions, none of which runs code of anybody else's or gives up the GIL.
 *
 * Called by evalframe/loops_switch.c, with the GIL. Owns the function, and between the two what `under_way` says. */
#include "base/cpy_internal.h"
#include <opcode.h>

#if DYN_PY < 314

#if DYN_PY < 313
#define POINTER(f) ((f)->prev_instr)
#else
#define POINTER(f) ((f)->instr_ptr)
#endif

#if DYN_PY == 311
static const uint8_t calls[] = {POP_TOP, 0, PUSH_NULL, 0, LOAD_FAST, 0, PRECALL, 0, CACHE, 0, CALL, 0};
#elif DYN_PY == 312
static const uint8_t calls[] = {POP_TOP, 0, PUSH_NULL, 0, LOAD_FAST, 0, CALL, 0, 0xf0, 0xff}; /* it isn't warm by far */
#else
static const uint8_t calls[] = {POP_TOP, 0, LOAD_FAST, 0, PUSH_NULL, 0, CALL, 0, 0xf0, 0xff};
#endif

static struct {
    DynFrame *frame;   /* NULL: nothing is under way */
    DynFrameSwitch to; /* .code and .iterator are strong */
    PyObject *slot;    /* strong: what the frame's first slot had, which has the function meanwhile */
    uint8_t units[sizeof calls];
    _PyFrameEvalFunction hook;
} under_way;

static uint8_t *units_at(DynFrame *f, uint32_t at) { return (uint8_t *)_PyCode_CODE(dyn_frame_code(f)) + 2 * (size_t)at; }

/* The function has called: what it returns is the iterator. */
static PyObject *arrive(PyObject *self) {
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts)->previous;
    if (under_way.frame == NULL || f != under_way.frame) {
        Py_RETURN_NONE;
    }
    DynFrameSwitch to = under_way.to;
    uint32_t top = (uint32_t)dyn_frame_code(f)->co_nlocalsplus + to.depth - 1;
    memcpy(units_at(f, to.at), under_way.units, sizeof calls);
    ts->interp->eval_frame = under_way.hook;
    under_way.frame = NULL;
    PyObject *function = dyn_frame_take(f, 0), *old = dyn_frame_take(f, top);
    dyn_frame_put(f, 0, under_way.slot);
    dyn_frame_change_code(f, to.code);
    dyn_frame_running(f, to.to - (DYN_PY < 313), (int)to.depth - 1);
#if DYN_PY > 311
    f->return_offset = 0;
#endif
    Py_DECREF(to.code); /* the frame has it */
    Py_DECREF(function);
    Py_DECREF(old);
    return to.iterator;
}

static PyNumberMethods switch_number = {.nb_invert = arrive};
static PyTypeObject Switch_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Switch",
    .tp_doc = "What a frame calls that goes over to loop code.",
    .tp_basicsize = sizeof(PyObject),
    .tp_as_number = &switch_number,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* `return ~constant`, without a RESUME, at which CPython would look for signals. */
static PyObject *code_that_arrives(void) {
    static const char units[] = {LOAD_CONST, 0, (char)UNARY_INVERT, 0, RETURN_VALUE, 0};
    PyObject *empty = PyType_Ready(&Switch_Type) < 0 ? NULL : (PyObject *)PyCode_NewEmpty("<dynoc>", "switch", 1);
    PyObject *constant = empty == NULL ? NULL : PyObject_New(PyObject, &Switch_Type);
    PyObject *replace = constant == NULL ? NULL : PyObject_GetAttrString(empty, "replace"), *none = PyTuple_New(0);
    PyObject *how = replace == NULL || none == NULL
                        ? NULL
                        : Py_BuildValue("{s:y#,s:(O),s:i,s:i}", "co_code", units, (Py_ssize_t)sizeof units, "co_consts", constant,
                                        "co_stacksize", 2, "co_flags", CO_OPTIMIZED | CO_NEWLOCALS);
    PyObject *code = how == NULL ? NULL : PyObject_Call(replace, none, how);
    Py_XDECREF(how);
    Py_XDECREF(none);
    Py_XDECREF(replace);
    Py_XDECREF(constant);
    Py_XDECREF(empty);
    return code;
}

/* Borrowed, or NULL. */
static PyObject *function_that_arrives(void) {
    static PyObject *function;
    PyObject *code = function != NULL ? NULL : code_that_arrives(), *globals = code == NULL ? NULL : PyDict_New();
    if (globals != NULL) {
        dyn_code_set_word((PyCodeObject *)code, DYN_CODE_OWN);
        function = PyFunction_New(code, globals);
    }
    PyErr_Clear();
    Py_XDECREF(globals);
    Py_XDECREF(code);
    return function;
}

static bool may_call(PyThreadState *ts) {
    enum { ENOUGH = 8 };
#if DYN_PY == 311
    return ts->recursion_remaining > ENOUGH;
#else
    return ts->py_recursion_remaining > ENOUGH;
#endif
}

bool dyn_frame_may_switch(DynFrame *f, uint32_t at) {
    PyCodeObject *code = dyn_frame_code(f);
    bool room = (size_t)at + sizeof calls / 2 <= (size_t)Py_SIZE(code) && code->co_nlocalsplus > 0;
    return room && f->owner == FRAME_OWNED_BY_THREAD && function_that_arrives() != NULL;
}

bool dyn_frame_switch(PyThreadState *ts, DynFrame *f, const DynFrameSwitch *to) {
    PyCodeObject *old = dyn_frame_code(f);
    PyObject *function = function_that_arrives(), **end = (PyObject **)f->localsplus + old->co_nlocalsplus + to->depth + 2;
    bool may = under_way.frame == NULL && function != NULL && dyn_frame_may_switch(f, to->at) && may_call(ts) &&
               (int)to->depth + 1 <= old->co_stacksize && end <= ts->datastack_limit && dyn_frame_may_change(ts, f, to->code);
    if (!may) {
        return false;
    }
    under_way.frame = f;
    under_way.to = *to;
    Py_INCREF(to->code);
    Py_INCREF(to->iterator);
    under_way.slot = dyn_frame_take(f, 0);
    dyn_frame_put(f, 0, Py_NewRef(function));
    memcpy(under_way.units, units_at(f, to->at), sizeof calls);
    memcpy(units_at(f, to->at), calls, sizeof calls);
    under_way.hook = ts->interp->eval_frame; /* it would make that call one of C's */
    ts->interp->eval_frame = NULL;
    return true;
}

uint32_t dyn_frame_unit(DynFrame *f) { return (uint32_t)(POINTER(f) - _PyCode_CODE(dyn_frame_code(f))); }

#else

bool dyn_frame_may_switch(DynFrame *f, uint32_t at) {
    (void)f, (void)at;
    return false;
}

bool dyn_frame_switch(PyThreadState *ts, DynFrame *f, const DynFrameSwitch *to) {
    (void)ts, (void)f, (void)to;
    return false;
}

uint32_t dyn_frame_unit(DynFrame *f) { return (uint32_t)(f->instr_ptr - _PyCode_CODE(dyn_frame_code(f))); }

#endif
