/* asm.c: makes the code objects of asm.h: whole, break and resume codes. Line and exception tables are in asm_tables.c.
 *
 * Called by evalframe/compile through asm.h. Code is emitted into a DynAsm, which the three makers own; the code object that they
 * return holds references to the constants, the runner and the resume function. */
#include "base/cpy_internal.h"
#include "tracer/asm_internal.h"
#include <opcode.h>

/* Inline caches behind an instruction. */
#if DYN_PY == 311
enum { PRECALL_CACHES = 1, CALL_CACHES = 4, UNPACK_CACHES = 1 };
#else
enum { CALL_CACHES = 3, UNPACK_CACHES = 1 };
#endif

/* ---- emitting ---- */

static void put(DynAsm *a, int opcode, uint32_t arg) {
    if (dyn_vec_push(&a->code, (uint8_t)opcode) < 0 || dyn_vec_push(&a->code, (uint8_t)arg) < 0)
        a->failed = true;
}

static void emit_cached(DynAsm *a, int opcode, uint32_t arg, int caches) {
    for (int shift = 24; shift; shift -= 8)
        if (arg >> shift)
            put(a, EXTENDED_ARG, arg >> shift & 255);
    put(a, opcode, arg & 255);
    while (caches--)
        put(a, CACHE, 0);
}

static void emit(DynAsm *a, int opcode, uint32_t arg) { emit_cached(a, opcode, arg, 0); }

static void emit_callable(DynAsm *a, uint32_t const_index) {
    if (dyn_call_null_first())
        emit(a, PUSH_NULL, 0);
    emit(a, LOAD_CONST, const_index);
    if (!dyn_call_null_first())
        emit(a, PUSH_NULL, 0);
}

static void emit_call(DynAsm *a, uint32_t nargs) {
#if DYN_PY == 311
    emit_cached(a, PRECALL, nargs, PRECALL_CACHES);
#endif
    emit_cached(a, CALL, nargs, CALL_CACHES);
}

/* The slot's value goes to the stack, the slot is empty: references are moved, not copied. */
static void emit_move(DynAsm *a, uint32_t slot) {
#if DYN_PY == 311
    emit(a, LOAD_FAST, slot);
    emit(a, DELETE_FAST, slot);
#else
    emit(a, LOAD_FAST_AND_CLEAR, slot);
#endif
}

/* Put the n values on top of the stack in order: have[i] is where the i-th from below has to go. Each SWAP brings the top to its
 * place; when the top is where it belongs, a value that is not begins the next cycle. */
static void emit_order(DynAsm *a, uint32_t *have, uint32_t n) {
    for (uint32_t first = 0; n > 1;) {
        uint32_t to = have[n - 1];
        if (to == n - 1) {
            while (first < n && have[first] == first)
                first++;
            if (first == n)
                return;
            to = first;
        }
        emit(a, SWAP, n - to);
        uint32_t lower = have[to];
        have[to] = have[n - 1];
        have[n - 1] = lower;
    }
}

static void copy_units(DynAsm *a, const DynCode *c, uint32_t from, uint32_t to) {
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(c->bytes);
    for (uint32_t i = from; i < to; i++)
        put(a, bytes[2 * i], bytes[2 * i + 1]);
}

/* ---- the code object ---- */

typedef struct Slots {
    PyObject *names; /* tuple */
    PyObject *kinds; /* bytes */
    int argcount, posonly, kwonly;
} Slots;

static PyObject *bytes_of(const uint8_t *at, uint32_t n) { return PyBytes_FromStringAndSize((const char *)at, n); }

/* CPython's constructor knows plain names only, so it is given all slots as locals; their kinds and the counts that have to agree
 * with these are set behind it. */
static void set_kinds(PyCodeObject *co, const Slots *s) {
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

static PyObject *new_code(DynAsm *a, PyCodeObject *like, const Slots *s, PyObject *consts, int flags, int stacksize) {
    dyn_asm_close_lines(a);
    PyObject *none = PyTuple_New(0);
    PyObject *code = bytes_of(a->code.at, a->code.n), *lines = bytes_of(a->lines.at, a->lines.n);
    PyObject *handlers = bytes_of(a->handlers.at, a->handlers.n);
    PyCodeObject *co = NULL;
    if (a->failed)
        PyErr_NoMemory();
    else if (none && code && lines && handlers)
#if DYN_PY == 311
        co = PyCode_NewWithPosOnlyArgs(
#else
        co = PyUnstable_Code_NewWithPosOnlyArgs(
#endif
            s->argcount, s->posonly, s->kwonly, PyTuple_GET_SIZE(s->names), stacksize, flags, code, consts, like->co_names,
            s->names, none, none, like->co_filename, like->co_name, like->co_qualname, like->co_firstlineno, lines, handlers);
    if (co)
        set_kinds(co, s);
    Py_XDECREF(none);
    Py_XDECREF(code);
    Py_XDECREF(lines);
    Py_XDECREF(handlers);
    return (PyObject *)co;
}

static void start(DynAsm *a, const DynCode *c) {
    *a = (DynAsm){.line = c->code->co_firstlineno, .position = {c->code->co_firstlineno, -1, -1, -1}};
}

static void finish(DynAsm *a) {
    dyn_vec_free(&a->code);
    dyn_vec_free(&a->lines);
    dyn_vec_free(&a->handlers);
}

/* The original's constants and `n` more behind them. */
static PyObject *consts_with(PyCodeObject *code, int n, PyObject *const *more) {
    Py_ssize_t old = PyTuple_GET_SIZE(code->co_consts);
    PyObject *consts = PyTuple_New(old + n);
    for (Py_ssize_t i = 0; consts && i < old + n; i++)
        PyTuple_SET_ITEM(consts, i, Py_NewRef(i < old ? PyTuple_GET_ITEM(code->co_consts, i) : more[i - old]));
    return consts;
}

static int refuse_cells(PyCodeObject *code) {
    if (!dyn_code_ncells(code))
        return 0;
    PyErr_Format(PyExc_ValueError, "%U has cell variables", code->co_name);
    return -1;
}

static Slots same_slots(PyCodeObject *code) {
    return (Slots){code->co_localsplusnames, code->co_localspluskinds, code->co_argcount, code->co_posonlyargcount,
                   code->co_kwonlyargcount};
}

/* COPY_FREE_VARS where the original has it, RESUME. */
static void emit_entry(DynAsm *a, const DynCode *c) {
    uint32_t nfree = (uint32_t)dyn_code_nfree(c->code);
    if (nfree)
        emit(a, COPY_FREE_VARS, nfree);
    emit(a, RESUME, 0);
}

/* ---- whole code ---- */

PyObject *dyn_asm_whole(const DynCode *c, PyObject *runner) {
    PyCodeObject *code = c->code;
    if (refuse_cells(code) < 0)
        return NULL;
    uint32_t nparams = (uint32_t)(code->co_argcount + code->co_kwonlyargcount), nslots = (uint32_t)code->co_nlocalsplus;
    nparams += (code->co_flags & CO_VARARGS) != 0;
    nparams += (code->co_flags & CO_VARKEYWORDS) != 0;
    uint32_t nfree = (uint32_t)dyn_code_nfree(code);
    DynAsm a;
    start(&a, c);
    emit_entry(&a, c);
    emit_callable(&a, (uint32_t)PyTuple_GET_SIZE(code->co_consts));
    for (uint32_t i = 0; i < nslots; i++)
        if (i < nparams || i >= nslots - nfree)
            emit(&a, LOAD_FAST, i);
    emit_call(&a, nparams + nfree);
    emit(&a, RETURN_VALUE, 0);
    PyObject *consts = consts_with(code, 1, &runner), *result = NULL;
    Slots s = same_slots(code);
    if (consts)
        result = new_code(&a, code, &s, consts, code->co_flags, (int)nslots + 2);
    Py_XDECREF(consts);
    finish(&a);
    return result;
}

/* ---- super() ----
 * finds its class in a free variable. A resume code's are parameters, so it has a hidden one more, its last slot. */

/* The slot of the variable __class__, or -1. */
static int class_slot(PyCodeObject *code) {
    for (int i = 0; i < code->co_nlocalsplus; i++)
        if ((dyn_code_local_kind(code, i) & CO_FAST_FREE) &&
            PyUnicode_CompareWithASCIIString(dyn_code_local_name(code, i), "__class__") == 0)
            return i;
    return -1;
}

static void emit_class_cell(DynAsm *a, int class_at, const bool *bound, uint32_t hidden) {
    if (class_at >= 0 && bound[class_at]) {
        emit(a, LOAD_FAST, (uint32_t)class_at);
        emit(a, STORE_FAST, hidden);
    }
}

/* ---- break code ---- */

static DynPosition position_of(const DynCode *c, uint32_t unit) {
    DynPosition p;
    if (dyn_cpy_code_position(c->code, unit, &p.line, &p.end_line, &p.col, &p.end_col) < 0)
        p.line = -1;
    return p;
}

/* state is on the stack: slots and stack become what they are at the break. `order` has room for the stack. */
static void emit_unpack(DynAsm *a, uint32_t nslots, const bool *live_in, const DynFrameShape *before, uint32_t *order) {
    uint32_t nbound = 0, nvalues = 0, n = 0;
    for (uint32_t i = 0; i < nslots; i++)
        nbound += before->bound[i];
    for (uint32_t i = 0; i < before->nstack; i++)
        nvalues += !before->null_stack[i];
    emit_cached(a, UNPACK_SEQUENCE, nbound + nvalues, UNPACK_CACHES);
    for (uint32_t i = 0; i < nslots; i++)
        if (before->bound[i])
            emit(a, STORE_FAST, i);
        else if (live_in[i])
            emit(a, DELETE_FAST, i);
    /* The values lie last one lowest; the NULLs come above them. */
    for (uint32_t i = before->nstack; i--;)
        if (!before->null_stack[i])
            order[n++] = i;
    for (uint32_t i = 0; i < before->nstack; i++)
        if (before->null_stack[i]) {
            emit(a, PUSH_NULL, 0);
            order[n++] = i;
        }
    emit_order(a, order, n);
}

/* The instruction itself, each unit at its own position; or only the truth value that a jump asks for. */
static void emit_instruction(DynAsm *a, const DynCode *c, const DynInstr *in, bool truth_only) {
    if (truth_only) {
        dyn_asm_locate(a, position_of(c, in->at));
        emit(a, UNARY_NOT, 0);
        emit(a, UNARY_NOT, 0);
        return;
    }
    for (uint32_t unit = in->start; unit < in->next; unit++) {
        dyn_asm_locate(a, position_of(c, unit));
        copy_units(a, c, unit, unit + 1);
    }
}

/* The stack lies ready; callable, slots and None for what is missing come above it and everything is put in order. NULLs stay
 * below: a frame drops what is left on its stack when it returns. */
static void emit_resume_call(DynAsm *a, uint32_t nslots, const DynFrameShape *after, uint32_t resume, uint32_t none,
                             uint32_t *order) {
    uint32_t nnull = 0, n = 0;
    for (uint32_t i = 0; i < after->nstack; i++)
        nnull += after->null_stack[i];
    uint32_t first_arg = nnull + 2, null = 0;
    for (uint32_t i = 0; i < after->nstack; i++)
        order[n++] = after->null_stack[i] ? null++ : first_arg + nslots + i;
    emit_callable(a, resume);
    order[n++] = nnull;
    order[n++] = nnull + 1;
    for (uint32_t i = 0; i < nslots; i++) {
        if (after->bound[i])
            emit_move(a, i);
        else
            emit(a, LOAD_CONST, none);
        order[n++] = first_arg + i;
    }
    for (uint32_t i = 0; i < after->nstack; i++)
        if (after->null_stack[i]) {
            emit(a, LOAD_CONST, none);
            order[n++] = first_arg + nslots + i;
        }
    emit_order(a, order, n);
    emit_call(a, nslots + after->nstack);
    emit(a, RETURN_VALUE, 0);
}

static void emit_break(DynAsm *a, const DynCode *c, const DynInstr *in, const bool *live_in, const DynFrameShape *before,
                       const DynFrameShape *after, uint32_t *order) {
    uint32_t nslots = (uint32_t)c->code->co_nlocalsplus, nargs = 0;
    uint32_t first_const = (uint32_t)PyTuple_GET_SIZE(c->code->co_consts); /* runner, resume, None */
    DynPosition here = position_of(c, in->at), line = {here.line, -1, -1, -1};
    emit_entry(a, c);
    dyn_asm_locate(a, line);
    emit_callable(a, first_const);
    for (uint32_t i = 0; i < nslots; i++)
        if (live_in[i]) {
            emit(a, LOAD_FAST, i);
            nargs++;
        }
    emit_call(a, nargs);
    emit_unpack(a, nslots, live_in, before, order);
    if (nslots && (dyn_code_local_kind(c->code, (int)nslots - 1) == (CO_FAST_FREE | DYN_SLOT_HIDDEN)))
        emit_class_cell(a, class_slot(c->code), before->bound, nslots - 1);
    bool jump = in->op == DYN_I_POP_JUMP_IF_TRUE || in->op == DYN_I_POP_JUMP_IF_FALSE;
    emit_instruction(a, c, in, jump && after->at == before->at);
    dyn_asm_locate(a, line);
    emit_resume_call(a, nslots, after, first_const + 1, first_const + 2, order);
}

static const DynInstr *instruction_at(const DynCode *c, uint32_t at) {
    uint32_t i = at < c->nunits ? c->at_unit[at] : DYN_NONE;
    if (i == DYN_NONE) {
        PyErr_Format(PyExc_ValueError, "no instruction starts at code unit %u of %U", at, c->code->co_name);
        return NULL;
    }
    return &c->v.at[i];
}

PyObject *dyn_asm_break(const DynCode *c, PyObject *runner, PyObject *resume, const bool *live_in, const DynFrameShape *before,
                        const DynFrameShape *after) {
    PyCodeObject *code = c->code;
    const DynInstr *in = instruction_at(c, before->at);
    if (!in || refuse_cells(code) < 0)
        return NULL;
    uint32_t nslots = (uint32_t)code->co_nlocalsplus;
    uint32_t deepest = 2 * (nslots + before->nstack + after->nstack) + 4;
    uint32_t *order = PyMem_RawMalloc(sizeof(uint32_t) * deepest);
    if (!order)
        return PyErr_NoMemory();
    DynAsm a;
    start(&a, c);
    emit_break(&a, c, in, live_in, before, after, order);
    PyMem_RawFree(order);
    PyObject *more[] = {runner, resume, Py_None};
    PyObject *consts = consts_with(code, DYN_COUNTOF(more), more), *result = NULL;
    Slots s = same_slots(code);
    if (consts)
        result = new_code(&a, code, &s, consts, code->co_flags, code->co_stacksize + (int)deepest);
    Py_XDECREF(consts);
    finish(&a);
    return result;
}

/* ---- resume code ---- */

/* Slots that hold cells are marked as cells (3.13) and free variables (before), so that locals() looks into them; as parameters
 * they are locals. */
static int resume_slots(PyCodeObject *code, uint32_t nstack, Slots *out) {
    uint32_t nslots = (uint32_t)code->co_nlocalsplus, n = nslots + nstack;
    int class_at = class_slot(code);
    out->names = PyTuple_New((Py_ssize_t)n + (class_at >= 0));
    out->kinds = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n + (class_at >= 0));
    if (!out->names || !out->kinds)
        return -1;
    uint8_t *kinds = (uint8_t *)PyBytes_AS_STRING(out->kinds);
    for (uint32_t i = 0; i < n; i++) {
        PyObject *name = i < nslots ? Py_NewRef(dyn_code_local_name(code, (int)i)) : PyUnicode_FromFormat(".stack%u", i - nslots);
        if (!name)
            return -1;
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
    emit(a, RESUME, 0);
    for (uint32_t i = 0; i < nslots; i++)
        if (!shape->bound[i])
            emit(a, DELETE_FAST, i);
    emit_class_cell(a, class_slot(c->code), shape->bound, nslots + shape->nstack);
    for (uint32_t i = 0; i < shape->nstack; i++) {
        if (!shape->null_stack[i]) {
            emit_move(a, nslots + i);
        } else {
            emit(a, DELETE_FAST, nslots + i);
            emit(a, PUSH_NULL, 0);
        }
    }
    emit(a, JUMP_FORWARD, shape->at);
    dyn_asm_append_lines(a, c->code);
    dyn_asm_append_handlers(a, c->code, dyn_asm_units(a));
    copy_units(a, c, 0, c->nunits);
}

PyObject *dyn_asm_resume(const DynCode *c, const DynFrameShape *shape) {
    const int dropped = CO_VARARGS | CO_VARKEYWORDS | CO_NESTED;
    PyCodeObject *code = c->code;
    const DynInstr *in = instruction_at(c, shape->at);
    if (!in)
        return NULL;
    if (in->op == DYN_I_COPY_FREE_VARS) { /* the function that is made of this code has no closure */
        PyErr_Format(PyExc_ValueError, "%U cannot be resumed before its free variables are there", code->co_name);
        return NULL;
    }
    Slots s = {0};
    PyObject *result = NULL;
    DynAsm a;
    start(&a, c);
    emit_resume(&a, c, shape);
    if (resume_slots(code, shape->nstack, &s) == 0)
        result = new_code(&a, code, &s, code->co_consts, code->co_flags & ~dropped, code->co_stacksize + 1);
    Py_XDECREF(s.names);
    Py_XDECREF(s.kinds);
    finish(&a);
    return result;
}

/* ---- for tests ---- */

/* A sequence of truth values into a new array of at least n. */
static bool *flags_of(PyObject *sequence, uint32_t n, uint32_t *length) {
    PyObject *fast = PySequence_Fast(sequence, "a sequence of truth values is needed");
    if (!fast)
        return NULL;
    uint32_t count = (uint32_t)PySequence_Fast_GET_SIZE(fast);
    bool *flags = PyMem_Calloc(count > n ? count + 1 : n + 1, sizeof(bool));
    for (uint32_t i = 0; flags && i < count; i++)
        flags[i] = PySequence_Fast_GET_ITEM(fast, i) == Py_True;
    if (!flags)
        PyErr_NoMemory();
    *length = count;
    Py_DECREF(fast);
    return flags;
}

/* (code unit, bound, null_stack) */
static int shape_of(PyObject *tuple, const DynCode *c, DynFrameShape *out) {
    PyObject *bound, *null_stack;
    uint32_t n;
    if (!PyArg_ParseTuple(tuple, "IOO", &out->at, &bound, &null_stack))
        return -1;
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
    if (!PyArg_ParseTuple(args, "O!O", &PyCode_Type, &code, &runner) || !(c = dyn_decode((PyCodeObject *)code)))
        return NULL;
    PyObject *result = dyn_asm_whole(c, runner);
    dyn_decode_free(c);
    return result;
}

static PyObject *asm_break(PyObject *self, PyObject *args) {
    PyObject *code, *runner, *resume, *live_in, *before, *after, *result = NULL;
    DynFrameShape b = {0}, f = {0};
    DynCode *c;
    uint32_t n;
    if (!PyArg_ParseTuple(args, "O!OOOO!O!", &PyCode_Type, &code, &runner, &resume, &live_in, &PyTuple_Type, &before,
                          &PyTuple_Type, &after) ||
        !(c = dyn_decode((PyCodeObject *)code)))
        return NULL;
    bool *live = flags_of(live_in, (uint32_t)c->code->co_nlocalsplus, &n);
    if (live && shape_of(before, c, &b) == 0 && shape_of(after, c, &f) == 0)
        result = dyn_asm_break(c, runner, resume, live, &b, &f);
    PyMem_Free(live);
    drop_shape(&b);
    drop_shape(&f);
    dyn_decode_free(c);
    return result;
}

static PyObject *asm_resume(PyObject *self, PyObject *args) {
    PyObject *code, *shape, *result = NULL;
    DynFrameShape s = {0};
    DynCode *c;
    if (!PyArg_ParseTuple(args, "O!O!", &PyCode_Type, &code, &PyTuple_Type, &shape) || !(c = dyn_decode((PyCodeObject *)code)))
        return NULL;
    if (shape_of(shape, c, &s) == 0)
        result = dyn_asm_resume(c, &s);
    drop_shape(&s);
    dyn_decode_free(c);
    return result;
}

static PyMethodDef methods[] = {{"_asm_whole", asm_whole, METH_VARARGS, "_asm_whole(code, runner)"},
                                {"_asm_break", asm_break, METH_VARARGS,
                                 "_asm_break(code, runner, resume, live_in, (unit, bound, nulls), (unit, bound, nulls))"},
                                {"_asm_resume", asm_resume, METH_VARARGS, "_asm_resume(code, (unit, bound, nulls))"},
                                {0}};

int dyn_asm_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
