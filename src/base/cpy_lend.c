/* cpy_lend.c: the operands of a call that a frame stands at, as CPython's own stack has them from 3.14 on: what LOAD_FAST_BORROW
 * loads is borrowed from its local, so that who counts references counts none for the stack.
 *
 * Called by cpy_frame.c where a frame is handed back. Owns nothing. */
#include "base/cpy_internal.h"
#include <opcode.h>

#if DYN_PY >= 314

enum { MOST = 32 }; /* stack values in a frame whose operands are looked for */

/* A walk backwards from the call, along the instructions that made its operands. */
typedef struct Walk {
    const uint8_t *code;
    uint32_t unit; /* of the instruction before which the stack has `depth` values */
    int depth;
    int8_t wanted[MOST]; /* the operand that the value became; -1: none */
    DynFrame *f;
} Walk;

static int operands_of(int opcode, uint32_t arg) {
    switch (opcode) {
    case CALL: return (int)arg + 2;
    case CALL_KW: return (int)arg + 3;
    default: return 0;
    }
}

/* Operand `at` was loaded from a local: it is borrowed from there. */
static void lend(DynFrame *f, int at, uint32_t local) {
    _PyStackRef *slot = &f->localsplus[dyn_code_nlocalsplus(dyn_frame_code(f)) + at], from = f->localsplus[local];
    bool same = !PyStackRef_IsNull(*slot) && !PyStackRef_IsNull(from) && !PyStackRef_IsTaggedInt(*slot) &&
                PyStackRef_AsPyObjectBorrow(*slot) == PyStackRef_AsPyObjectBorrow(from);
    if (same && PyStackRef_RefcountOnObject(*slot)) {
        PyObject *o = PyStackRef_AsPyObjectBorrow(*slot);
        *slot = PyStackRef_Borrow(*slot);
        Py_DECREF(o); /* the local keeps it */
    }
}

/* The value that was pushed last is gone from the stack; which operand it became. */
static int unpush(Walk *w) {
    int operand = w->depth > 0 ? w->wanted[w->depth - 1] : -1;
    if (w->depth > 0) {
        w->wanted[--w->depth] = -1;
    }
    return operand;
}

static void unpush_local(Walk *w, uint32_t local) {
    int operand = unpush(w);
    if (operand >= 0) {
        lend(w->f, operand, local);
    }
}

/* Takes one instruction back; false where it isn't one of those that make operands. */
static bool step_back(Walk *w, int opcode, uint32_t arg) {
    switch (opcode) {
    case LOAD_FAST_BORROW: unpush_local(w, arg); return true;
    case LOAD_FAST_BORROW_LOAD_FAST_BORROW:
        unpush_local(w, arg & 15);
        unpush_local(w, arg >> 4);
        return true;
    case LOAD_FAST:
    case LOAD_CONST:
    case LOAD_COMMON_CONSTANT:
    case LOAD_SMALL_INT:
    case LOAD_DEREF:
    case PUSH_NULL: unpush(w); return true;
    case LOAD_GLOBAL:
        unpush(w);
        if (arg & 1) {
            unpush(w);
        }
        return true;
    case LOAD_ATTR: {
        int self = arg & 1 ? unpush(w) : -1; /* for a method, the object is its first argument */
        unpush(w);
        w->wanted[w->depth++] = (int8_t)self;
        return true;
    }
    default: return false;
    }
}

/* The unit of the instruction in front of `unit`, or -1: inline caches have opcode 0. */
static int64_t previous(const uint8_t *code, uint32_t unit) {
    int64_t at = (int64_t)unit - 1;
    while (at >= 0 && code[2 * at] == CACHE) {
        at--;
    }
    return at;
}

void dyn_frame_lend_operands(DynFrame *f, uint32_t at, int depth) {
    PyObject *bytes = depth > 0 && depth <= MOST ? dyn_cpy_code_bytes(dyn_frame_code(f)) : NULL;
    if (bytes == NULL) {
        PyErr_Clear();
        return;
    }
    Walk w = {.code = (const uint8_t *)PyBytes_AS_STRING(bytes), .unit = at, .depth = depth, .f = f};
    int n = operands_of(w.code[2 * at], w.code[2 * at + 1]);
    for (int i = 0; i < depth; i++) {
        w.wanted[i] = (int8_t)(i >= depth - n ? i : -1);
    }
    bool on = n > 0;
    for (int64_t unit; on && w.depth > depth - n && (unit = previous(w.code, w.unit)) >= 0; w.unit = (uint32_t)unit) {
        uint32_t arg = w.code[2 * unit + 1], prefix = unit > 0 && w.code[2 * unit - 2] == EXTENDED_ARG;
        on = !prefix && step_back(&w, w.code[2 * unit], arg);
    }
    Py_DECREF(bytes);
}

#else

void dyn_frame_lend_operands(DynFrame *f, uint32_t at, int depth) { (void)f, (void)at, (void)depth; }

#endif
