/* asm_emit.c: what the makers of code objects share: instructions put one behind the other, the code object made of them.
 *
 * Called by asm.c and asm_break.c, which own the DynAsm. Line and exception tables are in asm_tables.c. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_internal.h"
#include <opcode.h>

/* Inline caches behind an instruction. */
#if DYN_PY == 311
enum { PRECALL_CACHES = 1, CALL_CACHES = 4 };
#else
enum { CALL_CACHES = 3 };
#endif
enum { RESUME_CACHES = DYN_PY >= 315 };

/* ---- emitting ---- */

void dyn_asm_put(DynAsm *a, int opcode, uint32_t arg) {
    if (dyn_vec_push(&a->code, (uint8_t)opcode) < 0 || dyn_vec_push(&a->code, (uint8_t)arg) < 0) {
        a->failed = true;
    }
}

void dyn_asm_emit_cached(DynAsm *a, int opcode, uint32_t arg, int caches) {
    for (int shift = 24; shift; shift -= 8) {
        if (arg >> shift) {
            dyn_asm_put(a, EXTENDED_ARG, arg >> shift & 255);
        }
    }
    dyn_asm_put(a, opcode, arg & 255);
    while (caches--) {
        dyn_asm_put(a, CACHE, 0);
    }
}

void dyn_asm_emit(DynAsm *a, int opcode, uint32_t arg) { dyn_asm_emit_cached(a, opcode, arg, 0); }

void dyn_asm_emit_callable(DynAsm *a, uint32_t const_index) {
    if (dyn_call_null_first()) {
        dyn_asm_emit(a, PUSH_NULL, 0);
    }
    dyn_asm_emit(a, LOAD_CONST, const_index);
    if (!dyn_call_null_first()) {
        dyn_asm_emit(a, PUSH_NULL, 0);
    }
}

void dyn_asm_emit_call(DynAsm *a, uint32_t nargs) {
#if DYN_PY == 311
    dyn_asm_emit_cached(a, PRECALL, nargs, PRECALL_CACHES);
#endif
    dyn_asm_emit_cached(a, CALL, nargs, CALL_CACHES);
}

void dyn_asm_emit_resume(DynAsm *a) { dyn_asm_emit_cached(a, RESUME, 0, RESUME_CACHES); }

/* The slot's value goes to the stack, the slot is empty: references are moved, not copied. */
void dyn_asm_emit_move(DynAsm *a, uint32_t slot) {
#if DYN_PY == 311
    dyn_asm_emit(a, LOAD_FAST, slot);
    dyn_asm_emit(a, DELETE_FAST, slot);
#else
    dyn_asm_emit(a, LOAD_FAST_AND_CLEAR, slot);
#endif
}

/* Put the n values on top of the stack in order: have[i] is where the i-th from below has to go. Each SWAP brings the top to its
 * place; when the top is where it belongs, a value that is not begins the next cycle. */
void dyn_asm_emit_order(DynAsm *a, uint32_t *have, uint32_t n) {
    for (uint32_t first = 0; n > 1;) {
        uint32_t to = have[n - 1];
        if (to == n - 1) {
            while (first < n && have[first] == first) {
                first++;
            }
            if (first == n) {
                return;
            }
            to = first;
        }
        dyn_asm_emit(a, SWAP, n - to);
        uint32_t lower = have[to];
        have[to] = have[n - 1];
        have[n - 1] = lower;
    }
}

void dyn_asm_copy_units(DynAsm *a, const DynCode *c, uint32_t from, uint32_t to) {
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(c->bytes);
    for (uint32_t i = from; i < to; i++) {
        dyn_asm_put(a, bytes[2 * i], bytes[2 * i + 1]);
    }
}

/* Where an exception was raised is a tagged number on the stack from 3.14 on, and only CPython can put one there. RERAISE sets
 * the frame's line by it; it leaves the line alone where its argument is 0. */
void dyn_asm_copy_code(DynAsm *a, const DynCode *c) {
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(c->bytes);
    for (uint32_t i = 0; i < c->nunits; i++) {
        bool numbered = DYN_PY >= 314 && bytes[2 * i] == RERAISE;
        dyn_asm_put(a, bytes[2 * i], numbered ? 0 : bytes[2 * i + 1]);
    }
}

/* ---- the code object ---- */

static PyObject *bytes_of(const uint8_t *at, uint32_t n) { return PyBytes_FromStringAndSize((const char *)at, n); }

/* CPython's constructor knows plain names only, so it is given all slots as locals; their kinds and the counts that have to agree
 * with these are set behind it. */
static void set_kinds(PyCodeObject *co, const DynSlots *s) {
    int nlocals = 0, ncells = 0, nplain = 0, nfree = 0;
    for (int i = 0; i < co->co_nlocalsplus; i++) {
        uint8_t kind = (uint8_t)PyBytes_AS_STRING(s->kinds)[i];
        nlocals += (kind & CO_FAST_LOCAL) != 0;
        ncells += (kind & CO_FAST_CELL) != 0;
        nplain += (kind & (CO_FAST_CELL | CO_FAST_LOCAL)) == CO_FAST_CELL;
        nfree += (kind & CO_FAST_FREE) != 0;
    }
    Py_INCREF(s->kinds);
    Py_SETREF(co->co_localspluskinds, s->kinds);
    co->co_nlocals = nlocals;
    co->co_ncellvars = ncells;
    co->co_nfreevars = nfree;
#if DYN_PY == 311
    co->co_nplaincellvars = nplain;
#else
    (void)nplain;
#endif
}

PyObject *dyn_asm_new_code(DynAsm *a, PyCodeObject *like, const DynSlots *s, PyObject *consts, int flags, int stacksize) {
    dyn_asm_close_lines(a);
    PyObject *none = PyTuple_New(0);
    PyObject *code = bytes_of(a->code.at, a->code.n), *lines = bytes_of(a->lines.at, a->lines.n);
    PyObject *handlers = bytes_of(a->handlers.at, a->handlers.n);
    PyCodeObject *co = NULL;
    if (a->failed) {
        PyErr_NoMemory();
    } else if (none && code && lines && handlers) {
#if DYN_PY == 311
        co = PyCode_NewWithPosOnlyArgs(
#else
        co = PyUnstable_Code_NewWithPosOnlyArgs(
#endif
            s->argcount, s->posonly, s->kwonly, PyTuple_GET_SIZE(s->names), stacksize, flags, code, consts, like->co_names,
            s->names, none, none, like->co_filename, like->co_name, like->co_qualname, like->co_firstlineno, lines, handlers);
    }
    if (co) {
        set_kinds(co, s);
        dyn_code_set_word(co, DYN_CODE_OWN);
    }
    Py_XDECREF(none);
    Py_XDECREF(code);
    Py_XDECREF(lines);
    Py_XDECREF(handlers);
    return (PyObject *)co;
}

void dyn_asm_start(DynAsm *a, const DynCode *c) {
    *a = (DynAsm){.line = c->code->co_firstlineno, .position = {c->code->co_firstlineno, -1, -1, -1}};
}

void dyn_asm_finish(DynAsm *a) {
    dyn_vec_free(&a->code);
    dyn_vec_free(&a->lines);
    dyn_vec_free(&a->handlers);
}

/* The original's constants and `n` more behind them. */
PyObject *dyn_asm_consts_with(PyCodeObject *code, int n, PyObject *const *more) {
    Py_ssize_t old = PyTuple_GET_SIZE(code->co_consts);
    PyObject *consts = PyTuple_New(old + n);
    for (Py_ssize_t i = 0; consts && i < old + n; i++) {
        PyTuple_SET_ITEM(consts, i, Py_NewRef(i < old ? PyTuple_GET_ITEM(code->co_consts, i) : more[i - old]));
    }
    return consts;
}

DynSlots dyn_asm_same_slots(PyCodeObject *code) {
    return (DynSlots){code->co_localsplusnames, code->co_localspluskinds, code->co_argcount, code->co_posonlyargcount,
                      code->co_kwonlyargcount};
}

/* COPY_FREE_VARS where the original has it, RESUME. */
void dyn_asm_emit_entry(DynAsm *a, const DynCode *c) {
    uint32_t nfree = (uint32_t)dyn_code_nfree(c->code);
    if (nfree) {
        dyn_asm_emit(a, COPY_FREE_VARS, nfree);
    }
    dyn_asm_emit_resume(a);
}

/* ---- super() ----
 * finds its class in a free variable. A resume code's are parameters, so it has a hidden one more, its last slot. */

/* The slot of the variable __class__, or -1. */
int dyn_asm_class_slot(PyCodeObject *code) {
    for (int i = 0; i < code->co_nlocalsplus; i++) {
        if ((dyn_code_local_kind(code, i) & CO_FAST_FREE) &&
            PyUnicode_CompareWithASCIIString(dyn_code_local_name(code, i), "__class__") == 0) {
            return i;
        }
    }
    return -1;
}

void dyn_asm_emit_class_cell(DynAsm *a, int class_at, const bool *bound, uint32_t hidden) {
    if (class_at >= 0 && bound[class_at]) {
        dyn_asm_emit(a, LOAD_FAST, (uint32_t)class_at);
        dyn_asm_emit(a, STORE_FAST, hidden);
    }
}

/* ---- resume code ---- */

const DynInstr *dyn_asm_instruction_at(const DynCode *c, uint32_t at) {
    uint32_t i = at < c->nunits ? c->at_unit[at] : DYN_NONE;
    if (i == DYN_NONE) {
        PyErr_Format(PyExc_ValueError, "no instruction starts at code unit %u of %U", at, c->code->co_name);
        return NULL;
    }
    return &c->v.at[i];
}
