/* cpy_over.c: tells when a loop that runs jumps back, and moves its frame to another code object there.
 *
 * CPython itself lets a line's tracer, or a tool that monitors jumps, say where a frame goes on: the evaluation loop reads the
 * place and the height of the stack from the frame when it has asked. From 3.12 on it reads all else there too, so a tool is told
 * of the jumps of this one code object, and changes the frame's code and place together. On 3.11 it keeps the constants of the
 * old code until a call returns: so the frame goes on at a call of a function that does nothing, which stands in the new code.
 *
 * Nothing happens between the question and what the frame does next: no signal is served, no other thread runs. The frame must be
 * the last one on its thread's stack, which is moved if the new code needs more room.
 *
 * Called by evalframe/loops_over.c, with the GIL. Owns the code object that is watched. */
#include "base/cpy_internal.h"
#include "base/cpy_over.h"
#include <opcode.h>

#if DYN_PY <= 313

static struct {
    PyObject *code;    /* strong; NULL: none is watched */
    DynJumpsBack *ask; /* … since when this is asked */
    DynFrame *frame;   /* 3.11: whose jumps alone count */
    unsigned left;     /* 3.11: lines that are still waited for */
} watched;

#if DYN_PY < 313
#define PLACE(f) ((f)->prev_instr)
#else
#define PLACE(f) ((f)->instr_ptr)
#endif

bool dyn_frame_may_go_over(DynFrame *f) {
    bool held = f->frame_obj != NULL && Py_REFCNT(f->frame_obj) > 1; /* by others than the frame itself */
    bool function = (dyn_frame_code(f)->co_flags & CO_OPTIMIZED) != 0 && !dyn_frame_has_locals(f);
    bool known = function || dyn_frame_namespace(f) != NULL;
    return f->owner == FRAME_OWNED_BY_THREAD && !held && known && !dyn_frame_is_generator(f);
}

static int size_of(PyCodeObject *code) { return code->co_nlocalsplus + code->co_stacksize + FRAME_SPECIALS_SIZE; }

/* The frame is as large as its new code asks, if it is the last one and there is room for it. */
static bool take_room(PyThreadState *ts, DynFrame *f, PyCodeObject *code) {
    PyCodeObject *old = dyn_frame_code(f);
    PyObject **end = (PyObject **)f + size_of(old), **until = (PyObject **)f + size_of(code);
    if (old->co_nlocalsplus != code->co_nlocalsplus || ts->datastack_top != end || until > ts->datastack_limit) {
        return false;
    }
    ts->datastack_top = until > end ? until : end;
    return true;
}

/* The call in the new code is one that the evaluation loop makes itself: not where a hook is in, or at the limit of recursion. */
static bool may_call(PyThreadState *ts) {
#if DYN_PY == 311
    return ts->interp->eval_frame == NULL && ts->recursion_remaining > 1 && !dyn_cpy_is_raising(ts);
#else
    return true;
#endif
}

/* The frame is about to go on at unit `at`. */
static void ask(PyThreadState *ts, DynFrame *f, uint32_t at) {
    DynOver to = watched.ask(f, at, (uint32_t)dyn_frame_depth(f));
    if (to.code == NULL || !may_call(ts) || !take_room(ts, f, to.code)) {
        return;
    }
    dyn_frame_change_code(f, to.code);
    PLACE(f) = _PyCode_CODE(to.code) + to.at;
}

#if DYN_PY == 311

#define MOST_LINES 500 /* that are waited for a jump back */

static PyObject *nothing; /* a function that does nothing; strong */

bool dyn_cpy_over_by_call(void) { return true; }

bool dyn_cpy_is_own_tool(PyObject *name) { return false; }

/* A function that serves no signal, as its beginning asks for none. */
static PyObject *make_nothing(void) {
    PyObject *globals = PyDict_New();
    PyObject *code = globals == NULL ? NULL : Py_CompileString("lambda: None", "<dynoc>", Py_eval_input);
    PyObject *made = code == NULL ? NULL : PyEval_EvalCode(code, globals, globals);
    uint8_t *first = made == NULL ? NULL : (uint8_t *)_PyCode_CODE((PyCodeObject *)PyFunction_GET_CODE(made));
    if (first != NULL && first[0] == RESUME) {
        first[0] = NOP;
        dyn_code_set_word((PyCodeObject *)PyFunction_GET_CODE(made), DYN_CODE_OWN);
    } else {
        Py_CLEAR(made);
    }
    Py_XDECREF(code);
    Py_XDECREF(globals);
    PyErr_Clear();
    return made;
}

static void ask_with_call(PyThreadState *ts, DynFrame *f) {
    PyCodeObject *old = dyn_frame_code(f);
    ask(ts, f, (uint32_t)(PLACE(f) - _PyCode_CODE(old)));
    if (dyn_frame_code(f) != old) {
        f->localsplus[f->stacktop] = NULL;
        f->localsplus[f->stacktop + 1] = Py_NewRef(nothing);
        f->stacktop += 2;
    }
}

static int on_line(PyObject *unused, PyFrameObject *frame, int what, PyObject *arg) {
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts);
    bool ours =
        watched.code != NULL && what == PyTrace_LINE && f == watched.frame && (PyObject *)dyn_frame_code(f) == watched.code;
    if (ours && dyn_frame_may_go_over(f)) {
        ask_with_call(ts, f);
    }
    bool over = ours && (PyObject *)dyn_frame_code(f) != watched.code;
    if (over || watched.code == NULL || --watched.left == 0) {
        dyn_cpy_watch_no_jumps();
    }
    return 0;
}

bool dyn_cpy_watch_jumps(DynFrame *f, DynJumpsBack *asked) {
    PyThreadState *ts = PyThreadState_Get();
    dyn_cpy_watch_no_jumps();
    nothing = nothing != NULL ? nothing : make_nothing();
    if (nothing == NULL || dyn_cpy_is_traced(ts) || f != dyn_frame_current(ts)) {
        return false;
    }
    watched.code = Py_NewRef((PyObject *)dyn_frame_code(f));
    watched.ask = asked;
    watched.frame = f;
    watched.left = MOST_LINES;
    PyEval_SetTrace(on_line, NULL);
    return ts->c_tracefunc == on_line;
}

void dyn_cpy_watch_no_jumps(void) {
    if (PyThreadState_Get()->c_tracefunc == on_line) {
        PyEval_SetTrace(NULL, NULL);
    }
    Py_CLEAR(watched.code);
}

#else

#define TOOL 5 /* CPython's own name for it is OPTIMIZER_ID */

static PyObject *tool_name, *on_jump, *no_more; /* strong, for good */
static long jump_event;

bool dyn_cpy_over_by_call(void) { return false; }

bool dyn_cpy_is_own_tool(PyObject *name) { return name != NULL && name == tool_name; }

/* A jump is asked about once, so that a loop that stays where it is isn't slower for that. The next watch asks anew.
 *
 * The frame stands at the jump, or (3.12) at its target; CPython looks whether that has changed. */
static bool stands_at(DynFrame *f, PyObject *offset) {
    return PLACE(f) == _PyCode_CODE(dyn_frame_code(f)) + PyLong_AsLong(offset) / (long)sizeof(_Py_CODEUNIT);
}

static PyObject *jumped(PyObject *self, PyObject *const *args, Py_ssize_t n) {
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts);
    bool ours = watched.code != NULL && n == 3 && args[0] == watched.code && (PyObject *)dyn_frame_code(f) == watched.code;
    if (ours && stands_at(f, args[DYN_PY == 312 ? 2 : 1]) && dyn_frame_may_go_over(f)) {
        ask(ts, f, (uint32_t)(PyLong_AsLong(args[2]) / (long)sizeof(_Py_CODEUNIT)));
    }
    bool over = (PyObject *)dyn_frame_code(f) != args[0];
    if (over) {
        dyn_cpy_watch_no_jumps(); /* so that the program finds the tool free as soon as may be */
    }
    return Py_NewRef(over ? Py_None : no_more);
}

static bool prepare(PyObject *monitoring) {
    static PyMethodDef method = {"_jumped", (PyCFunction)(void (*)(void))jumped, METH_FASTCALL, NULL};
    PyObject *events = tool_name != NULL ? NULL : PyObject_GetAttrString(monitoring, "events");
    PyObject *event = events == NULL ? NULL : PyObject_GetAttrString(events, "JUMP");
    if (event != NULL && (no_more = PyObject_GetAttrString(monitoring, "DISABLE")) != NULL) {
        jump_event = PyLong_AsLong(event);
        on_jump = PyCFunction_New(&method, NULL);
        tool_name = on_jump == NULL ? NULL : PyUnicode_FromString("dynoc");
    }
    Py_XDECREF(event);
    Py_XDECREF(events);
    return tool_name != NULL;
}

static bool succeeds(PyObject *result) {
    bool done = result != NULL;
    Py_XDECREF(result);
    PyErr_Clear();
    return done;
}

bool dyn_cpy_watch_jumps(DynFrame *f, DynJumpsBack *asked) {
    PyObject *monitoring = PySys_GetObject("monitoring"); /* borrowed */
    dyn_cpy_watch_no_jumps();
    bool may = monitoring != NULL && !dyn_cpy_is_traced(PyThreadState_Get()) && prepare(monitoring) &&
               succeeds(PyObject_CallMethod(monitoring, "use_tool_id", "iO", TOOL, tool_name));
    if (!may) {
        PyErr_Clear();
        return false;
    }
    watched.code = Py_NewRef((PyObject *)dyn_frame_code(f));
    watched.ask = asked;
    bool on = succeeds(PyObject_CallMethod(monitoring, "register_callback", "ilO", TOOL, jump_event, on_jump)) &&
              succeeds(PyObject_CallMethod(monitoring, "set_local_events", "iOl", TOOL, watched.code, jump_event));
    if (!on) {
        dyn_cpy_watch_no_jumps();
    }
    return on;
}

void dyn_cpy_watch_no_jumps(void) {
    PyObject *monitoring = watched.code == NULL ? NULL : PySys_GetObject("monitoring");
    if (monitoring != NULL) {
        succeeds(PyObject_CallMethod(monitoring, "set_local_events", "iOi", TOOL, watched.code, 0));
        succeeds(PyObject_CallMethod(monitoring, "register_callback", "ilO", TOOL, jump_event, Py_None));
        succeeds(PyObject_CallMethod(monitoring, "free_tool_id", "i", TOOL));
    }
    Py_CLEAR(watched.code);
}

#endif
#else

bool dyn_frame_may_go_over(DynFrame *f) { return false; }

bool dyn_cpy_over_by_call(void) { return false; }

bool dyn_cpy_is_own_tool(PyObject *name) { return false; }

bool dyn_cpy_watch_jumps(DynFrame *f, DynJumpsBack *asked) { return false; }

void dyn_cpy_watch_no_jumps(void) {}

#endif
