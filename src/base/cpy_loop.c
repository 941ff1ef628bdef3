/* cpy_loop.c: what loops need of CPython: opening and closing a way in a code object's instructions, and moving a running frame
 * to another code object.
 *
 * Called by evalframe/loops*.c and the hook, with the GIL. Owns nothing. */
#include "base/cpy_internal.h"
#include <opcode.h>

static uint8_t *unit_of(PyCodeObject *code, uint32_t at) { return (uint8_t *)_PyCode_CODE(code) + 2 * (size_t)at; }

/* Code that has become warm has another EXTENDED_ARG on 3.11. */
static bool has_opcode(const uint8_t *unit, uint8_t opcode) {
#if DYN_PY == 311
    return unit[0] == opcode || (opcode == EXTENDED_ARG && unit[0] == EXTENDED_ARG_QUICK);
#else
    return unit[0] == opcode;
#endif
}

bool dyn_code_swap_unit(PyCodeObject *code, uint32_t at, const uint8_t from[2], const uint8_t to[2]) {
    uint8_t *unit = unit_of(code, at);
    if (!has_opcode(unit, from[0]) || (unit[0] != NOP && unit[1] != from[1])) {
        return false;
    }
    memcpy(unit, to, 2);
    return true;
}

bool dyn_cpy_may_patch(void) {
#if defined(Py_GIL_DISABLED) || (DYN_PY == 313 && defined(_Py_TIER2))
    return false; /* each thread has instructions of its own, or traces of them are compiled */
#elif DYN_PY >= 314
    PyObject *jit = PySys_GetObject("_jit"); /* borrowed */
    PyObject *on = jit == NULL ? NULL : PyObject_CallMethod(jit, "is_enabled", NULL);
    bool off = jit == NULL || on == Py_False;
    Py_XDECREF(on);
    PyErr_Clear();
    return off;
#else
    return true;
#endif
}

/* A frame is as large as its code object asks. The other may need one value more, while nothing is above it. */
bool dyn_frame_may_change(PyThreadState *ts, DynFrame *f, PyCodeObject *code) {
    PyCodeObject *old = dyn_frame_code(f);
    PyObject **end = (PyObject **)f->localsplus + old->co_nlocalsplus + code->co_stacksize;
    bool same = old->co_nlocalsplus == code->co_nlocalsplus && code->co_stacksize <= old->co_stacksize + 1;
    return same && f->owner == FRAME_OWNED_BY_THREAD && end <= ts->datastack_limit;
}

void dyn_frame_change_code(DynFrame *f, PyCodeObject *code) {
    PyCodeObject *old = dyn_frame_code(f);
    Py_INCREF(code);
#if DYN_PY < 313
    f->f_code = code;
    f->prev_instr = _PyCode_CODE(code) - 1;
#elif DYN_PY == 313
    f->f_executable = (PyObject *)code;
    f->instr_ptr = _PyCode_CODE(code);
#else
    f->f_executable = PyStackRef_FromPyObjectSteal((PyObject *)code);
    f->instr_ptr = _PyCode_CODE(code);
#endif
    Py_DECREF(old);
}

/* Before 3.13 a thread other than the main one that adds a call doesn't make the main thread look. And what is written here is
 * lost where that thread writes at the same time. */
void dyn_cpy_look_again(void) {
#if DYN_PY < 313
    _Py_atomic_store_relaxed(&PyInterpreterState_Main()->ceval.eval_breaker, 1);
#endif
}

int dyn_cpy_call_soon(int (*call)(void *)) {
    int added = Py_AddPendingCall(call, NULL);
    dyn_cpy_look_again();
    return added;
}
