/* asm_break.c: rewritten code: what is left of a function in Python when a graph was broken at one of its instructions.
 *
 * Called by evalframe/compile through asm.h. The layout is told there; behind it, where a handler of the original covers the
 * instruction, stands the whole original with its tables: an exception goes on there, in this frame. */
#include "base/cpy_internal.h"
#include "tracer/asm_internal.h"
#include <opcode.h>

enum { UNPACK_CACHES = 1 };

static DynPosition position_of(const DynCode *c, uint32_t unit) {
    DynPosition p;
    if (dyn_cpy_code_position(c->code, unit, &p.line, &p.end_line, &p.col, &p.end_col) < 0)
        p.line = -1;
    return p;
}

/* state is on the stack: slots and stack become what they are at the break. `order` has room for the stack. */
static void emit_unpack(DynAsm *a, const DynCode *c, const bool *live_in, const DynFrameShape *before, uint32_t *order) {
    uint32_t nbound = 0, nvalues = 0, n = 0, nslots = (uint32_t)c->code->co_nlocalsplus;
    for (uint32_t i = 0; i < nslots; i++)
        nbound += before->bound[i];
    for (uint32_t i = 0; i < before->nstack; i++)
        nvalues += !before->null_stack[i];
    dyn_asm_emit_cached(a, UNPACK_SEQUENCE, nbound + nvalues, UNPACK_CACHES);
    for (uint32_t i = 0; i < nslots; i++)
        if (before->bound[i])
            dyn_asm_emit(a, STORE_FAST, i);
        else if (live_in[i])
            dyn_asm_emit(a, DELETE_FAST, i);
    /* The values lie last one lowest; the NULLs come above them. */
    for (uint32_t i = before->nstack; i--;)
        if (!before->null_stack[i])
            order[n++] = i;
    for (uint32_t i = 0; i < before->nstack; i++)
        if (before->null_stack[i]) {
            dyn_asm_emit(a, PUSH_NULL, 0);
            order[n++] = i;
        }
    dyn_asm_emit_order(a, order, n);
}

/* ---- the instruction itself, each unit at its own position */

static int forward_opcode(int opcode) {
#if DYN_PY == 311
    switch (opcode) {
    case POP_JUMP_BACKWARD_IF_TRUE: return POP_JUMP_FORWARD_IF_TRUE;
    case POP_JUMP_BACKWARD_IF_FALSE: return POP_JUMP_FORWARD_IF_FALSE;
    case POP_JUMP_BACKWARD_IF_NONE: return POP_JUMP_FORWARD_IF_NONE;
    case POP_JUMP_BACKWARD_IF_NOT_NONE: return POP_JUMP_FORWARD_IF_NOT_NONE;
    default: break;
    }
#endif
    return opcode;
}

enum { JUMP_PREFIXES = 2 };

/* A jump forward that land() will aim; gives the unit of its first prefix. */
static uint32_t emit_jump(DynAsm *a, const DynCode *c, const DynInstr *in) {
    uint32_t at = dyn_asm_units(a);
    dyn_asm_locate(a, position_of(c, in->at));
    for (int i = 0; i < JUMP_PREFIXES; i++)
        dyn_asm_put(a, EXTENDED_ARG, 0);
    dyn_asm_put(a, forward_opcode((uint8_t)PyBytes_AS_STRING(c->bytes)[2 * in->at]), 0);
    for (uint32_t i = in->at + 1; i < in->next; i++)
        dyn_asm_put(a, CACHE, 0);
    return at;
}

static void land(DynAsm *a, uint32_t jump, const DynInstr *in) {
    uint32_t behind = jump + JUMP_PREFIXES + (in->next - in->at), distance = dyn_asm_units(a) - behind;
    for (int i = 0; i <= JUMP_PREFIXES && !a->failed; i++)
        a->code.at[2 * (jump + (uint32_t)i) + 1] = (uint8_t)(distance >> 8 * (JUMP_PREFIXES - i));
#if DYN_PY >= 312
    if (in->op == DYN_I_FOR_ITER)
        dyn_asm_put(a, END_FOR, 0);
#endif
#if DYN_PY >= 313
    if (in->op == DYN_I_FOR_ITER)
        dyn_asm_put(a, POP_TOP, 0);
#endif
}

/* A method is looked up as a plain attribute, so that what is on the stack behind it has the same shape at every call. */
static void emit_load_method(DynAsm *a, const DynInstr *in) {
#if DYN_PY == 311
    dyn_asm_emit_cached(a, LOAD_ATTR, in->arg, 4);
#else
    dyn_asm_emit_cached(a, LOAD_ATTR, in->arg << 1, 9);
#endif
    dyn_asm_emit(a, PUSH_NULL, 0);
    if (dyn_call_null_first())
        dyn_asm_emit(a, SWAP, 2);
}

static void emit_instruction(DynAsm *a, const DynCode *c, const DynInstr *in) {
    if (in->op == DYN_I_LOAD_METHOD) {
        dyn_asm_locate(a, position_of(c, in->at));
        emit_load_method(a, in);
        return;
    }
    for (uint32_t unit = in->start; unit < in->next; unit++) {
        dyn_asm_locate(a, position_of(c, unit));
        dyn_asm_copy_units(a, c, unit, unit + 1);
    }
}

/* ---- what follows */

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
    dyn_asm_emit_callable(a, resume);
    order[n++] = nnull;
    order[n++] = nnull + 1;
    for (uint32_t i = 0; i < nslots; i++) {
        if (after->bound[i])
            dyn_asm_emit_move(a, i);
        else
            dyn_asm_emit(a, LOAD_CONST, none);
        order[n++] = first_arg + i;
    }
    for (uint32_t i = 0; i < after->nstack; i++)
        if (after->null_stack[i]) {
            dyn_asm_emit(a, LOAD_CONST, none);
            order[n++] = first_arg + nslots + i;
        }
    dyn_asm_emit_order(a, order, n);
    dyn_asm_emit_call(a, nslots + after->nstack);
    dyn_asm_emit(a, RETURN_VALUE, 0);
}

static void emit_start(DynAsm *a, const DynCode *c, const bool *live_in, const DynFrameShape *before, uint32_t runner,
                       uint32_t *order) {
    uint32_t nslots = (uint32_t)c->code->co_nlocalsplus, nargs = 0;
    dyn_asm_emit_entry(a, c);
    dyn_asm_locate(a, (DynPosition){position_of(c, before->at).line, -1, -1, -1});
    dyn_asm_emit_callable(a, runner);
    for (uint32_t i = 0; i < nslots; i++)
        if (live_in[i]) {
            dyn_asm_emit(a, LOAD_FAST, i);
            nargs++;
        }
    dyn_asm_emit_call(a, nargs);
    for (const DynInstr *in = c->v.at; in->op == DYN_I_COPY_FREE_VARS || in->op == DYN_I_MAKE_CELL; in++)
        if (in->op == DYN_I_MAKE_CELL) /* locals() asks whether it ran; the cell itself is in the state */
            dyn_asm_emit(a, MAKE_CELL, in->arg);
    emit_unpack(a, c, live_in, before, order);
    if (nslots && (dyn_code_local_kind(c->code, (int)nslots - 1) == (CO_FAST_FREE | DYN_SLOT_HIDDEN)))
        dyn_asm_emit_class_cell(a, dyn_asm_class_slot(c->code), before->bound, nslots - 1);
}

/* Is there anything to run between before and after: not at a place where the recorder cut the function. */
static bool runs(const DynInstr *in, const DynFrameShape *before, const DynWay *ways) {
    return in->op != DYN_I_JUMP && !(ways[1].resume == NULL && ways[0].shape.at == before->at);
}

static void emit_break(DynAsm *a, const DynCode *c, const DynInstr *in, const bool *live_in, const DynFrameShape *before,
                       const DynWay *ways, uint32_t *order) {
    uint32_t nslots = (uint32_t)c->code->co_nlocalsplus, jump = 0;
    uint32_t first_const = (uint32_t)PyTuple_GET_SIZE(c->code->co_consts); /* runner, resume of each way, None */
    DynPosition line = {position_of(c, in->at).line, -1, -1, -1};
    DynHandler h;
    emit_start(a, c, live_in, before, first_const, order);
    uint32_t start = dyn_asm_units(a);
    if (ways[1].resume)
        jump = emit_jump(a, c, in);
    else if (runs(in, before, ways))
        emit_instruction(a, c, in);
    uint32_t end = dyn_asm_units(a);
    dyn_asm_locate(a, line);
    emit_resume_call(a, nslots, &ways[0].shape, first_const + 1, first_const + 3, order);
    if (ways[1].resume) {
        land(a, jump, in);
        emit_resume_call(a, nslots, &ways[1].shape, first_const + 2, first_const + 3, order);
    }
    if (end > start && dyn_cpy_find_handler(c->code, in->at, &h)) {
        uint32_t shift = dyn_asm_units(a);
        dyn_asm_add_handler(a, (DynHandler){start, end, h.target + shift, h.depth, h.lasti});
        dyn_asm_append_lines(a, c->code);
        dyn_asm_append_handlers(a, c->code, shift);
        dyn_asm_copy_units(a, c, 0, c->nunits);
    }
}

PyObject *dyn_asm_break(const DynCode *c, PyObject *runner, const bool *live_in, const DynFrameShape *before,
                        const DynWay *ways) {
    PyCodeObject *code = c->code;
    const DynInstr *in = dyn_asm_instruction_at(c, before->at);
    if (!in)
        return NULL;
    uint32_t nslots = (uint32_t)code->co_nlocalsplus;
    uint32_t deepest = 2 * (nslots + before->nstack + ways[0].shape.nstack + ways[1].shape.nstack) + 6;
    uint32_t *order = PyMem_RawMalloc(sizeof(uint32_t) * deepest);
    if (!order)
        return PyErr_NoMemory();
    DynAsm a;
    dyn_asm_start(&a, c);
    emit_break(&a, c, in, live_in, before, ways, order);
    PyMem_RawFree(order);
    PyObject *more[] = {runner, ways[0].resume, ways[1].resume ? ways[1].resume : Py_None, Py_None};
    PyObject *consts = dyn_asm_consts_with(code, DYN_COUNTOF(more), more), *result = NULL;
    DynSlots s = dyn_asm_same_slots(code);
    if (consts)
        result = dyn_asm_new_code(&a, code, &s, consts, code->co_flags, code->co_stacksize + (int)deepest);
    Py_XDECREF(consts);
    dyn_asm_finish(&a);
    return result;
}
