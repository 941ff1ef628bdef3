/* asm.c: makes the code objects of asm.h: whole and resume codes (asm_break.c: break codes).
 *
 * Called by evalframe/compile through asm.h. Code is emitted into a DynAsm, which the makers own; the code object that they
 * return holds references to the constants and the runner. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_internal.h"
#include <opcode.h>

/* ---- whole code ---- */

PyObject *dyn_asm_whole(const DynCode *c, PyObject *runner) {
    PyCodeObject *code = c->code;
    uint32_t nparams = (uint32_t)(code->co_argcount + code->co_kwonlyargcount), nslots = (uint32_t)code->co_nlocalsplus;
    nparams += (code->co_flags & CO_VARARGS) != 0;
    nparams += (code->co_flags & CO_VARKEYWORDS) != 0;
    uint32_t nfree = (uint32_t)dyn_code_nfree(code);
    DynAsm a;
    dyn_asm_start(&a, c);
    dyn_asm_emit_entry(&a, c);
    dyn_asm_emit_callable(&a, (uint32_t)PyTuple_GET_SIZE(code->co_consts));
    for (uint32_t i = 0; i < nslots; i++) {
        if (i < nparams || i >= nslots - nfree) {
            dyn_asm_emit(&a, LOAD_FAST, i);
        }
    }
    dyn_asm_emit_call(&a, nparams + nfree);
    dyn_asm_emit(&a, RETURN_VALUE, 0);
    PyObject *consts = dyn_asm_consts_with(code, 1, &runner), *result = NULL;
    DynSlots s = dyn_asm_same_slots(code);
    if (consts) {
        result = dyn_asm_new_code(&a, code, &s, consts, code->co_flags, (int)nslots + 2);
    }
    Py_XDECREF(consts);
    dyn_asm_finish(&a);
    return result;
}

/* ---- resume code ---- */

/* Slots that hold cells are marked as cells (3.13) and free variables (before), so that locals() looks into them; as parameters
 * they are locals. */
static int resume_slots(PyCodeObject *code, uint32_t nstack, DynSlots *out) {
    uint32_t nslots = (uint32_t)code->co_nlocalsplus, n = nslots + nstack;
    int class_at = dyn_asm_class_slot(code);
    out->names = PyTuple_New((Py_ssize_t)n + (class_at >= 0));
    out->kinds = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n + (class_at >= 0));
    if (!out->names || !out->kinds) {
        return -1;
    }
    uint8_t *kinds = (uint8_t *)PyBytes_AS_STRING(out->kinds);
    for (uint32_t i = 0; i < n; i++) {
        PyObject *name = i < nslots ? Py_NewRef(dyn_code_local_name(code, (int)i)) : PyUnicode_FromFormat(".stack%u", i - nslots);
        if (!name) {
            return -1;
        }
        PyTuple_SET_ITEM(out->names, i, name);
        bool cell = i < nslots && (dyn_code_local_kind(code, (int)i) & (CO_FAST_CELL | CO_FAST_FREE));
        kinds[i] = cell ? CO_FAST_LOCAL | CO_FAST_CELL | CO_FAST_FREE : CO_FAST_LOCAL;
    }
    if (class_at >= 0) {
        PyTuple_SET_ITEM(out->names, n, Py_NewRef(dyn_code_local_name(code, class_at)));
        kinds[n] = CO_FAST_FREE | DYN_SLOT_HIDDEN;
    }
    out->argcount = (int)n;
    out->posonly = out->kwonly = 0;
    return 0;
}

static void emit_resume(DynAsm *a, const DynCode *c, const DynFrameShape *shape) {
    uint32_t nslots = (uint32_t)c->code->co_nlocalsplus;
    dyn_asm_emit_resume(a);
    for (uint32_t i = 0; i < nslots; i++) {
        if (!shape->bound[i]) {
            dyn_asm_emit(a, DELETE_FAST, i);
        }
    }
    dyn_asm_emit_class_cell(a, dyn_asm_class_slot(c->code), shape->bound, nslots + shape->nstack);
    for (uint32_t i = 0; i < shape->nstack; i++) {
        if (!shape->null_stack[i]) {
            dyn_asm_emit_move(a, nslots + i);
        } else {
            dyn_asm_emit(a, DELETE_FAST, nslots + i);
            dyn_asm_emit(a, PUSH_NULL, 0);
        }
    }
    dyn_asm_emit(a, JUMP_FORWARD, shape->at);
    dyn_asm_append_lines(a, c->code);
    dyn_asm_append_handlers(a, c->code, dyn_asm_units(a));
    dyn_asm_copy_code(a, c);
}

PyObject *dyn_asm_resume(const DynCode *c, const DynFrameShape *shape) {
    const int dropped = CO_VARARGS | CO_VARKEYWORDS | CO_NESTED;
    PyCodeObject *code = c->code;
    const DynInstr *in = dyn_asm_instruction_at(c, shape->at);
    if (!in) {
        return NULL;
    }
    if (in->op == DYN_I_COPY_FREE_VARS) { /* the function that is made of this code has no closure */
        PyErr_Format(PyExc_ValueError, "%U cannot be resumed before its free variables are there", code->co_name);
        return NULL;
    }
    DynSlots s = {0};
    PyObject *result = NULL;
    DynAsm a;
    dyn_asm_start(&a, c);
    emit_resume(&a, c, shape);
    if (resume_slots(code, shape->nstack, &s) == 0) {
        result = dyn_asm_new_code(&a, code, &s, code->co_consts, code->co_flags & ~dropped, code->co_stacksize + 1);
    }
    Py_XDECREF(s.names);
    Py_XDECREF(s.kinds);
    dyn_asm_finish(&a);
    return result;
}

/* ---- for tests ---- */

/* A sequence of truth values into a new array of at least n. */
static bool *flags_of(PyObject *sequence, uint32_t n, uint32_t *length) {
    PyObject *fast = PySequence_Fast(sequence, "a sequence of truth values is needed");
    if (!fast) {
        return NULL;
    }
    uint32_t count = (uint32_t)PySequence_Fast_GET_SIZE(fast);
    bool *flags = PyMem_Calloc(count > n ? count + 1 : n + 1, sizeof(bool));
    for (uint32_t i = 0; flags && i < count; i++) {
        flags[i] = PySequence_Fast_GET_ITEM(fast, i) == Py_True;
    }
    if (!flags) {
        PyErr_NoMemory();
    }
    *length = count;
    Py_DECREF(fast);
    return flags;
}

/* (code unit, bound, null_stack) */
static int shape_of(PyObject *tuple, const DynCode *c, DynFrameShape *out) {
    PyObject *bound, *null_stack;
    uint32_t n;
    if (!PyArg_ParseTuple(tuple, "IOO", &out->at, &bound, &null_stack)) {
        return -1;
    }
    out->bound = flags_of(bound, (uint32_t)c->code->co_nlocalsplus, &n);
    out->null_stack = out->bound ? flags_of(null_stack, 0, &out->nstack) : NULL;
    return out->null_stack ? 0 : -1;
}

static void drop_shape(DynFrameShape *s) {
    PyMem_Free((void *)s->bound);
    PyMem_Free((void *)s->null_stack);
}

static PyObject *asm_whole(PyObject *self, PyObject *args) {
    PyObject *code, *runner;
    DynCode *c;
    if (!PyArg_ParseTuple(args, "O!O", &PyCode_Type, &code, &runner) || !(c = dyn_decode((PyCodeObject *)code))) {
        return NULL;
    }
    PyObject *result = dyn_asm_whole(c, runner);
    dyn_decode_free(c);
    return result;
}

typedef struct Ways {
    PyObject *resume[DYN_WAYS], *shapes[DYN_WAYS]; /* NULL: no such way */
} Ways;

/* Break code, or (live_in NULL) waiting code. */
static PyObject *rewritten(PyObject *code, PyObject *first, PyObject *live_in, PyObject *before, Ways *w) {
    PyObject *result = NULL;
    DynFrameShape b = {0};
    DynWay ways[DYN_WAYS] = {0};
    uint32_t n;
    DynCode *c = dyn_decode((PyCodeObject *)code);
    if (!c) {
        return NULL;
    }
    bool *live = live_in ? flags_of(live_in, (uint32_t)c->code->co_nlocalsplus, &n) : NULL;
    bool good = (live || !live_in) && shape_of(before, c, &b) == 0;
    for (int i = 0; i < DYN_WAYS && good; i++) {
        ways[i].resume = w->resume[i];
        good = w->shapes[i] == NULL || shape_of(w->shapes[i], c, &ways[i].shape) == 0;
    }
    if (good) {
        result = live_in ? dyn_asm_break(c, first, live, &b, ways) : dyn_asm_waiting(c, first, &b, ways);
    }
    PyMem_Free(live);
    drop_shape(&b);
    for (int i = 0; i < DYN_WAYS; i++) {
        drop_shape(&ways[i].shape);
    }
    dyn_decode_free(c);
    return result;
}

static PyObject *asm_break(PyObject *self, PyObject *args) {
    PyObject *code, *runner, *live_in, *before;
    Ways w = {0};
    if (!PyArg_ParseTuple(args, "O!OOO!OO!|OO!", &PyCode_Type, &code, &runner, &live_in, &PyTuple_Type, &before, &w.resume[0],
                          &PyTuple_Type, &w.shapes[0], &w.resume[1], &PyTuple_Type, &w.shapes[1])) {
        return NULL;
    }
    return rewritten(code, runner, live_in, before, &w);
}

static PyObject *asm_waiting(PyObject *self, PyObject *args) {
    PyObject *code, *way_out, *before;
    Ways w = {0};
    if (!PyArg_ParseTuple(args, "O!OO!OO!|OO!", &PyCode_Type, &code, &way_out, &PyTuple_Type, &before, &w.resume[0],
                          &PyTuple_Type, &w.shapes[0], &w.resume[1], &PyTuple_Type, &w.shapes[1])) {
        return NULL;
    }
    return rewritten(code, way_out, NULL, before, &w);
}

static PyObject *asm_resume(PyObject *self, PyObject *args) {
    PyObject *code, *shape, *result = NULL;
    DynFrameShape s = {0};
    DynCode *c;
    if (!PyArg_ParseTuple(args, "O!O!", &PyCode_Type, &code, &PyTuple_Type, &shape) || !(c = dyn_decode((PyCodeObject *)code))) {
        return NULL;
    }
    if (shape_of(shape, c, &s) == 0) {
        result = dyn_asm_resume(c, &s);
    }
    drop_shape(&s);
    dyn_decode_free(c);
    return result;
}

static PyMethodDef methods[] = {
    {"_asm_whole", asm_whole, METH_VARARGS, "_asm_whole(code, runner)"},
    {"_asm_break", asm_break, METH_VARARGS,
     "_asm_break(code, runner, live_in, (unit, bound, nulls), resume, (unit, bound, nulls)[, resume, (…)])"},
    {"_asm_waiting", asm_waiting, METH_VARARGS, "_asm_waiting(code, way_out, (unit, bound, nulls), resume, (…)[, resume, (…)])"},
    {"_asm_resume", asm_resume, METH_VARARGS, "_asm_resume(code, (unit, bound, nulls))"},
    {0}};

int dyn_asm_init(PyObject *module) { return dyn_asm_enter_init() < 0 ? -1 : PyModule_AddFunctions(module, methods); }
