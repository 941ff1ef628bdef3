/* cpy.c: the fence around CPython's insides: version, hook, code objects, tracing, and things whose names change. Frames are in
 * cpy_frame.c, dict watching in cpy_dict.c, signals in cpy_signals.c.
 *
 * Called from everywhere. Owns the record of which foreign hook was there before ours (a function pointer, nothing to free). */
#include "base/cpy_internal.h"
#include "base/cpy_over.h"

bool dyn_cpy_known(void) {
#ifdef Py_GIL_DISABLED
    return false;
#else
    return (Py_Version >> 16) == ((unsigned long)PY_VERSION_HEX >> 16);
#endif
}

/* ---- the hook ---- */

/* NULL: none, or CPython's own. */
static DynEvalHook our_hook, foreign_hook; /* foreign: below ours */
static DynEvalHook above;                  /* was above ours when ours was no longer wanted */

DynEvalHook dyn_hook_get(void) {
    DynEvalHook hook = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
    return hook == _PyEval_EvalFrameDefault ? NULL : hook;
}

/* While there is a hook CPython specialises no call of a Python function, unless it is told, from 3.15 on, that it may: such
 * calls still lead to the hook, and are inlined as soon as it is gone. What a foreign hook below ours can do it has said itself.
 */
static void let_specialise_calls(PyInterpreterState *interp, bool may) {
#if DYN_PY >= 315
    _PyInterpreterState_SetEvalFrameAllowSpecialization(interp, may);
#else
    (void)interp, (void)may;
#endif
}

/* A hook that was put above ours keeps a pointer to ours: ours then stays and only passes on, and is not put in a second time,
 * which would make a circle. */
void dyn_hook_set(DynEvalHook hook) {
    PyInterpreterState *interp = PyInterpreterState_Get();
    DynEvalHook now = dyn_hook_get();
    if (hook) {
        bool below = above && now == above;
        if (!below) {
            above = NULL;
        }
        if (now == hook || below) {
            return;
        }
        foreign_hook = now;
        our_hook = hook;
        _PyInterpreterState_SetEvalFrameFunc(interp, hook);
        if (foreign_hook == NULL) {
            let_specialise_calls(interp, true);
        }
    } else if (now && now == our_hook) {
        if (foreign_hook == NULL) {
            let_specialise_calls(interp, false);
        }
        _PyInterpreterState_SetEvalFrameFunc(interp, foreign_hook ? foreign_hook : _PyEval_EvalFrameDefault);
        foreign_hook = above = NULL;
    } else if (our_hook) {
        above = now;
    }
}

DynEvalHook dyn_hook_foreign(void) { return foreign_hook; }

/* ---- code objects ---- */

int dyn_code_nlocalsplus(PyCodeObject *c) { return c->co_nlocalsplus; }

/* Slots that resume codes (asm.c) get a cell in have all three kinds; the one that is there for super() is hidden. */
static int count_slots(PyCodeObject *c, uint8_t mask, uint8_t kind) {
    int n = 0;
    for (int i = 0; i < c->co_nlocalsplus; i++) {
        n += (dyn_code_local_kind(c, i) & mask) == kind;
    }
    return n;
}

int dyn_code_ncells(PyCodeObject *c) { return c->co_ncellvars ? count_slots(c, CO_FAST_CELL | CO_FAST_FREE, CO_FAST_CELL) : 0; }

int dyn_code_nfree(PyCodeObject *c) {
    return c->co_nfreevars ? count_slots(c, CO_FAST_FREE | CO_FAST_LOCAL | DYN_SLOT_HIDDEN, CO_FAST_FREE) : 0;
}

PyObject *dyn_code_local_name(PyCodeObject *c, int slot) { return PyTuple_GET_ITEM(c->co_localsplusnames, slot); }

/* From 3.14 on, arguments have further bits. */
uint8_t dyn_code_local_kind(PyCodeObject *c, int slot) { return (uint8_t)PyBytes_AS_STRING(c->co_localspluskinds)[slot] & 0xf0; }

PyObject *dyn_cpy_code_bytes(PyCodeObject *c) { return PyCode_GetCode(c); }

int dyn_cpy_code_position(PyCodeObject *c, uint32_t at, int *line, int *end_line, int *col, int *end_col) {
    *line = *end_line = *col = *end_col = -1;
    return PyCode_Addr2Location(c, (int)(at * sizeof(_Py_CODEUNIT)), line, col, end_line, end_col) ? 0 : -1;
}

/* Numbers of the line table: six bits a byte, lowest first, bit 6 says that more follow. */
static unsigned line_number(const uint8_t *table, Py_ssize_t n, uint32_t *offset) {
    unsigned value = 0;
    for (unsigned shift = 0; *offset < n; shift += 6) {
        uint8_t byte = table[(*offset)++];
        value |= (unsigned)(byte & 63) << shift;
        if (!(byte & 64)) {
            break;
        }
    }
    return value;
}

static int line_delta(const uint8_t *table, Py_ssize_t n, uint32_t *offset) {
    unsigned value = line_number(table, n, offset);
    return value & 1 ? -(int)(value >> 1) : (int)(value >> 1);
}

int dyn_cpy_position_on(PyCodeObject *c, DynPositionCursor *cursor, uint32_t at, int *line, int *end_line, int *col,
                        int *end_col) {
    const uint8_t *table = (const uint8_t *)PyBytes_AS_STRING(c->co_linetable);
    Py_ssize_t n = PyBytes_GET_SIZE(c->co_linetable);
    *line = *end_line = *col = *end_col = -1;
    DynPositionCursor next = *cursor;
    if (at < next.unit || next.offset == 0) {
        next = (DynPositionCursor){.line = c->co_firstlineno};
    }
    while (next.offset < n) {
        DynPositionCursor here = next;
        uint8_t first = table[next.offset++];
        unsigned form = first >> 3 & 15;
        next.unit += (first & 7) + 1u;
        int lines = 0, from = -1, to = -1, more = 0;
        if (form < 10) { /* short: on the line before, columns in two bytes */
            uint8_t second = next.offset < n ? table[next.offset++] : 0;
            from = (int)(form << 3 | (second >> 4 & 7));
            to = from + (second & 15);
        } else if (form < 13) { /* at most two lines on */
            lines = (int)form - 10;
            from = next.offset < n ? table[next.offset++] : 0;
            to = next.offset < n ? table[next.offset++] : 0;
        } else if (form < 15) {
            lines = line_delta(table, n, &next.offset);
            if (form == 14) {
                more = (int)line_number(table, n, &next.offset);
                from = (int)line_number(table, n, &next.offset) - 1;
                to = (int)line_number(table, n, &next.offset) - 1;
            }
        }
        next.line += lines;
        if (at < next.unit) {
            *cursor = here;
            if (form == 15) {
                return -1;
            }
            *line = next.line;
            *end_line = next.line + more;
            *col = from;
            *end_col = to;
            return 0;
        }
    }
    return -1;
}

/* A number of the exception table: six bits a byte, highest first, 64: more follow (128 marks the first of a row). */
static uint32_t table_number(const uint8_t *table, Py_ssize_t n, Py_ssize_t *cursor) {
    uint32_t value = 0;
    while (*cursor < n) {
        uint8_t byte = table[(*cursor)++];
        value = value << 6 | (byte & 63);
        if (!(byte & 64)) {
            break;
        }
    }
    return value;
}

bool dyn_cpy_next_handler(PyCodeObject *c, Py_ssize_t *cursor, DynHandler *out) {
    const uint8_t *table = (const uint8_t *)PyBytes_AS_STRING(c->co_exceptiontable);
    Py_ssize_t n = PyBytes_GET_SIZE(c->co_exceptiontable);
    if (*cursor >= n) {
        return false;
    }
    out->start = table_number(table, n, cursor);
    out->end = out->start + table_number(table, n, cursor);
    out->target = table_number(table, n, cursor);
    uint32_t depth_lasti = table_number(table, n, cursor);
    out->depth = depth_lasti >> 1;
    out->lasti = depth_lasti & 1;
    return true;
}

bool dyn_cpy_find_handler(PyCodeObject *c, uint32_t at, DynHandler *out) {
    for (Py_ssize_t cursor = 0; dyn_cpy_next_handler(c, &cursor, out) && out->start <= at;) {
        if (at < out->end) {
            return true;
        }
    }
    return false;
}

/* ---- tracing and the eval breaker ---- */

DynRaised dyn_callback_begin(void) {
    DynRaised before;
    PyErr_Fetch(&before.type, &before.value, &before.traceback);
    return before;
}

void dyn_callback_end(DynRaised before) {
#ifdef DYN_DEBUG
    if (PyErr_Occurred()) {
        PyErr_Print();
        Py_FatalError("a callback of dynoc left an exception");
    }
#endif
    PyErr_Restore(before.type, before.value, before.traceback);
}

bool dyn_cpy_is_raising(PyThreadState *ts) {
#if DYN_PY >= 312
    return ts->current_exception != NULL;
#else
    return ts->curexc_type != NULL;
#endif
}

bool dyn_cpy_is_finalizing(void) {
#if DYN_PY >= 313
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

bool dyn_cpy_is_traced(PyThreadState *ts) {
    if (ts->c_tracefunc || ts->c_profilefunc) {
        return true;
    }
#if DYN_PY == 311
    return ts->cframe->use_tracing != 0;
#else
    /* A tool that has taken an id may ask for events at any time, also for single code objects. */
    PyObject **names = ts->interp->monitoring_tool_names;
    for (int i = 0; i < PY_MONITORING_TOOL_IDS; i++) {
        if (names[i] && !dyn_cpy_is_own_tool(names[i])) {
            return true;
        }
    }
    return false;
#endif
}

#if DYN_PY < 313
/* Exceptions sent from another thread (PyThreadState_SetAsyncExc). */
static int serve_async_exception(PyThreadState *ts) {
    PyObject *exc = ts->async_exc;
    ts->async_exc = NULL;
    ts->interp->ceval.pending.async_exc = 0;
    /* Taking the GIL makes CPython work out its eval breaker anew. */
    PyThreadState *saved = PyEval_SaveThread();
    PyEval_RestoreThread(saved);
    PyErr_SetNone(exc);
    Py_DECREF(exc);
    return -1;
}
#endif

int dyn_cpy_serve(PyThreadState *ts) {
#if DYN_PY >= 313
    if (DYN_LIKELY(!(_Py_atomic_load_uintptr_relaxed(&ts->eval_breaker) & _PY_EVAL_EVENTS_MASK))) {
        return 0;
    }
    return _Py_HandlePending(ts);
#else
    struct _ceval_state *ceval = &ts->interp->ceval;
    if (DYN_LIKELY(!_Py_atomic_load_relaxed(&ceval->eval_breaker))) {
        return 0;
    }
    /* The first two look only in the main thread; from 3.12 PyErr_CheckSignals also runs a collection that is due. */
    if (PyErr_CheckSignals() < 0 || Py_MakePendingCalls() < 0) {
        return -1;
    }
    if (_Py_atomic_load_relaxed(&ceval->gil_drop_request)) {
        PyThreadState *saved = PyEval_SaveThread();
        PyEval_RestoreThread(saved);
    }
    return ts->async_exc ? serve_async_exception(ts) : 0;
#endif
}

/* ---- changing names ---- */

bool dyn_call_null_first(void) { return DYN_PY < 313; }

bool dyn_send_drops_iterator(void) { return DYN_PY < 312; }

bool dyn_with_keeps_two(void) { return DYN_PY >= 314; }

uint32_t dyn_iterator_slots(void) { return DYN_PY >= 315 ? 2 : 1; }

bool dyn_cpy_is_walked_by_index(PyObject *o) {
#if DYN_PY >= 315
    return Py_TYPE(o)->_tp_iteritem != NULL;
#else
    (void)o;
    return false;
#endif
}

bool dyn_cpy_is_lazy_import(PyObject *o) {
#if DYN_PY >= 315
    return PyLazyImport_CheckExact(o);
#else
    (void)o;
    return false;
#endif
}

bool dyn_complex_mixes(void) { return DYN_PY >= 314; }

PyObject *dyn_cpy_common_constant(uint32_t number) {
#if DYN_PY >= 314
    return PyInterpreterState_Get()->common_consts[number];
#else
    (void)number;
    return PyExc_AssertionError;
#endif
}

/* Tried out, as releases of one version differ in it. */
static bool follows_all_tuples(void) {
    static enum { UNKNOWN, SOME, ALL } which;
    if (which == UNKNOWN) {
        PyObject *tuple = PyTuple_Pack(1, Py_None);
        which = tuple != NULL && !PyObject_GC_IsTracked(tuple) ? SOME : ALL;
        PyErr_Clear();
        Py_XDECREF(tuple);
    }
    return which == ALL;
}

void dyn_cpy_tuple_filled(PyObject *tuple) {
    bool followed = follows_all_tuples();
    for (Py_ssize_t i = 0; !followed && i < PyTuple_GET_SIZE(tuple); i++) {
        followed = PyType_IS_GC(Py_TYPE(PyTuple_GET_ITEM(tuple, i)));
    }
    if (!followed && PyObject_GC_IsTracked(tuple)) {
        PyObject_GC_UnTrack(tuple);
    }
}

PyObject *dyn_cpy_get_method(PyObject *o, PyObject *name, int *unbound) {
    PyObject *method = NULL;
    *unbound = _PyObject_GetMethod(o, name, &method);
    return method;
}

/* With an exception set CPython takes a name that isn't in its cache for one that can't be looked up, and clears the exception.
 */
PyObject *dyn_cpy_lookup_special(PyTypeObject *t, PyObject *name) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *found = _PyType_Lookup(t, name);
    PyErr_Restore(type, value, tb);
    return found;
}

void dyn_cpy_say_no_iterator(PyObject *of, PyObject *given) {
#if DYN_PY < 315
    (void)of;
    PyErr_Format(PyExc_TypeError, "iter() returned non-iterator of type '%.100s'", Py_TYPE(given)->tp_name);
#else
    PyErr_Format(PyExc_TypeError, "%T.__iter__() must return an iterator, not %T", of, given);
#endif
}

PyObject *dyn_cpy_lookup_named(PyTypeObject *t, const char *name) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *key = PyUnicode_InternFromString(name), *found = key ? _PyType_Lookup(t, key) : NULL;
    Py_XDECREF(key);
    PyErr_Restore(type, value, tb);
    return found;
}

PyObject *dyn_cpy_traceback(void) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    Py_XINCREF(tb);
    PyErr_Restore(type, value, tb);
    return tb;
}

void dyn_cpy_traceback_without_row(PyObject *before) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    if (before && tb && (PyObject *)((PyTracebackObject *)tb)->tb_next == before) {
        Py_SETREF(tb, Py_NewRef(before));
    }
    PyErr_Restore(type, value, tb);
    Py_XDECREF(before);
}

void dyn_cpy_traceback_here(PyThreadState *ts) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyFrameObject *frame = PyThreadState_GetFrame(ts);
    PyErr_Restore(type, value, tb);
    if (frame != NULL) {
        PyTraceBack_Here(frame);
    }
    Py_XDECREF(frame);
}

PyObject *dyn_cpy_swap_handled(PyThreadState *ts, PyObject *value) {
    PyObject *old = ts->exc_info->exc_value;
    ts->exc_info->exc_value = value;
    return old;
}

PyObject *dyn_cpy_handled(void) {
    PyObject *value = PyThreadState_Get()->exc_info->exc_value;
    return value != NULL ? value : Py_None;
}

PyObject *dyn_cpy_type_dict(PyTypeObject *t) {
#if DYN_PY >= 312
    return PyType_GetDict(t);
#else
    return Py_XNewRef(t->tp_dict);
#endif
}

int dyn_cpy_init(void) {
    if (dyn_cpy_function_init() < 0 || dyn_cpy_frame_init() < 0) {
        return -1;
    }
    dyn_cpy_short_of_stack(); /* where this thread's stack ends takes a while to learn: not in its first call */
    return dyn_cpy_known() ? dyn_cpy_dict_init() : 0;
}
