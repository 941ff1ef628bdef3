/* asm_break.c: rewritten code: what is left of a function in Python when a graph was broken at one of its instructions; and
 * waiting code: the function as it is, with a way out at that instruction.
 *
 * Called by evalframe/compile through asm.h. The layouts are told there. Where a handler of the original covers the instruction,
 * an exception goes on in that handler's resume function; where there is none, behind the rewritten code, where the whole
 * original stands with its tables, in this frame. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_internal.h"
#include <opcode.h>

enum { UNPACK_CACHES = 1 };

static DynPosition position_of(const DynCode *c, uint32_t unit) {
    DynPosition p;
    if (dyn_cpy_code_position(c->code, unit, &p.line, &p.end_line, &p.col, &p.end_col) < 0) {
        p.line = -1;
    }
    return p;
}

/* state is on the stack: slots and stack become what they are at the break. `order` has room for the stack. */
static void emit_unpack(DynAsm *a, const DynCode *c, const bool *live_in, const DynFrameShape *before, uint32_t *order) {
    uint32_t nbound = 0, nvalues = 0, n = 0, nslots = (uint32_t)c->code->co_nlocalsplus;
    for (uint32_t i = 0; i < nslots; i++) {
        nbound += before->bound[i];
    }
    for (uint32_t i = 0; i < before->nstack; i++) {
        nvalues += !before->null_stack[i];
    }
    dyn_asm_emit_cached(a, UNPACK_SEQUENCE, nbound + nvalues, UNPACK_CACHES);
    for (uint32_t i = 0; i < nslots; i++) {
        if (before->bound[i]) {
            dyn_asm_emit(a, STORE_FAST, i);
        } else if (live_in[i]) {
            dyn_asm_emit(a, DELETE_FAST, i);
        }
    }
    /* The values lie last one lowest; the NULLs come above them. */
    for (uint32_t i = before->nstack; i--;) {
        if (!before->null_stack[i]) {
            order[n++] = i;
        }
    }
    for (uint32_t i = 0; i < before->nstack; i++) {
        if (before->null_stack[i]) {
            dyn_asm_emit(a, PUSH_NULL, 0);
            order[n++] = i;
        }
    }
    dyn_asm_emit_order(a, order, n);
}

/* ---- the instruction itself, each unit at its own position */

enum { JUMP_PREFIXES = 2 };

/* A jump that set_distance() will aim; gives the unit of its first prefix. */
static uint32_t emit_jump_of(DynAsm *a, int opcode, uint32_t caches) {
    uint32_t at = dyn_asm_units(a);
    for (int i = 0; i < JUMP_PREFIXES; i++) {
        dyn_asm_put(a, EXTENDED_ARG, 0);
    }
    dyn_asm_put(a, opcode, 0);
    while (caches--) {
        dyn_asm_put(a, CACHE, 0);
    }
    return at;
}

static void set_distance(DynAsm *a, uint32_t jump, uint32_t distance) {
    for (int i = 0; i <= JUMP_PREFIXES && !a->failed; i++) {
        a->code.at[2 * (jump + (uint32_t)i) + 1] = (uint8_t)(distance >> 8 * (JUMP_PREFIXES - i));
    }
}

static uint32_t emit_jump(DynAsm *a, const DynCode *c, const DynInstr *in) {
    dyn_asm_locate(a, position_of(c, in->at));
    return emit_jump_of(a, dyn_forward_opcode((uint8_t)PyBytes_AS_STRING(c->bytes)[2 * in->at]), in->next - in->at - 1);
}

/* The instruction's jump comes out here. */
static void land(DynAsm *a, uint32_t jump, const DynInstr *in) {
    set_distance(a, jump, dyn_asm_units(a) - (jump + JUMP_PREFIXES + (in->next - in->at)));
    uint32_t n;
    const uint8_t *skipped = dyn_end_of_loop(&n);
    for (uint32_t i = 0; dyn_flow(in) == DYN_FLOW_LOOP && i < n; i++) {
        dyn_asm_put(a, skipped[i], 0);
    }
}

/* A method is looked up as a plain attribute, so that what is on the stack behind it has the same shape at every call. */
static void emit_load_method(DynAsm *a, const DynInstr *in) {
#if DYN_PY == 311
    dyn_asm_emit_cached(a, LOAD_ATTR, in->arg, 4);
#else
    dyn_asm_emit_cached(a, LOAD_ATTR, in->arg << 1, 9);
#endif
    dyn_asm_emit(a, PUSH_NULL, 0);
    if (dyn_call_null_first()) {
        dyn_asm_emit(a, SWAP, 2);
    }
}

/* Where __exit__ takes two slots, what they hold would depend on the manager: it is called through a function that gives a pair
 * of what __enter__ gave and __exit__ bound, which leaves the same shape at every call. */
static void emit_enter(DynAsm *a, uint32_t enter) {
    dyn_asm_emit_callable(a, enter);
    dyn_asm_emit(a, SWAP, 2);
    dyn_asm_emit(a, SWAP, 3);
    dyn_asm_emit_call(a, 1);
    dyn_asm_emit_cached(a, UNPACK_SEQUENCE, 2, UNPACK_CACHES);
    dyn_asm_emit(a, PUSH_NULL, 0);
    dyn_asm_emit(a, SWAP, 2);
}

/* Where an iterator takes two slots, GET_ITER may leave a sequence and a place in it, which can't be handed on: a function gives
 * the iterator, and NULL stands beside it. */
static void emit_get_iter(DynAsm *a, uint32_t iterate) {
    dyn_asm_emit_callable(a, iterate);
    dyn_asm_emit(a, SWAP, 2);
    dyn_asm_emit(a, SWAP, 3);
    dyn_asm_emit_call(a, 1);
    dyn_asm_emit(a, PUSH_NULL, 0);
}

/* enter, iterate: of the constants, the functions that enter a manager and give an iterator. */
static void emit_instruction(DynAsm *a, const DynCode *c, const DynInstr *in, uint32_t enter, uint32_t iterate) {
    if (in->op == DYN_I_GET_ITER && dyn_iterator_slots() == 2) {
        dyn_asm_locate(a, position_of(c, in->at));
        emit_get_iter(a, iterate);
        return;
    }
    if (in->op == DYN_I_BEFORE_WITH && dyn_with_keeps_two()) {
        dyn_asm_locate(a, position_of(c, in->at));
        emit_enter(a, enter);
        return;
    }
    if (in->op == DYN_I_LOAD_METHOD) {
        dyn_asm_locate(a, position_of(c, in->at));
        emit_load_method(a, in);
        return;
    }
    if (in->op == DYN_I_RERAISE && dyn_lasti_is_tagged()) { /* as dyn_asm_copy_code has it */
        dyn_asm_locate(a, position_of(c, in->at));
        dyn_asm_emit(a, RERAISE, 0);
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
    for (uint32_t i = 0; i < after->nstack; i++) {
        nnull += after->null_stack[i];
    }
    uint32_t first_arg = nnull + 2, null = 0;
    for (uint32_t i = 0; i < after->nstack; i++) {
        order[n++] = after->null_stack[i] ? null++ : first_arg + nslots + i;
    }
    dyn_asm_emit_callable(a, resume);
    order[n++] = nnull;
    order[n++] = nnull + 1;
    for (uint32_t i = 0; i < nslots; i++) {
        if (after->bound[i]) {
            dyn_asm_emit_move(a, i);
        } else {
            dyn_asm_emit(a, LOAD_CONST, none);
        }
        order[n++] = first_arg + i;
    }
    for (uint32_t i = 0; i < after->nstack; i++) {
        if (after->null_stack[i]) {
            dyn_asm_emit(a, LOAD_CONST, none);
            order[n++] = first_arg + nslots + i;
        }
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
    for (uint32_t i = 0; i < nslots; i++) {
        if (live_in[i]) {
            dyn_asm_emit(a, LOAD_FAST, i);
            nargs++;
        }
    }
    dyn_asm_emit_call(a, nargs);
    for (const DynInstr *in = c->v.at; in->op == DYN_I_COPY_FREE_VARS || in->op == DYN_I_MAKE_CELL; in++) {
        if (in->op == DYN_I_MAKE_CELL) { /* locals() asks whether it ran; the cell itself is in the state */
            dyn_asm_emit(a, MAKE_CELL, in->arg);
        }
    }
    emit_unpack(a, c, live_in, before, order);
    if (nslots && (dyn_code_local_kind(c->code, (int)nslots - 1) == (CO_FAST_FREE | DYN_SLOT_HIDDEN))) {
        dyn_asm_emit_class_cell(a, dyn_asm_class_slot(c->code), before->bound, nslots - 1);
    }
}

/* Is there anything to run between before and after: not at a place where the recorder cut the function. */
static bool runs(const DynInstr *in, const DynFrameShape *before, const DynWay *ways) {
    return dyn_flow(in) != DYN_FLOW_JUMP &&
           !(ways[DYN_WAY_NEXT].resume != NULL && ways[DYN_WAY_JUMP].resume == NULL && ways[DYN_WAY_NEXT].shape.at == before->at);
}

typedef struct Break {
    const DynCode *c;
    const DynInstr *in;
    const bool *live_in;
    const DynFrameShape *before;
    const DynWay *ways;
    uint32_t *order;
    uint32_t first_const; /* of the constants of its own, in the order of the enumeration below */
} Break;

/* Constants that rewritten code has besides the original's, from first_const on. */
enum {
    CONST_FIRST, /* runner, or the way out */
    CONST_RESUME,
    CONST_NONE = CONST_RESUME + DYN_WAYS,
    CONST_ENTER, /* what enters a manager */
    CONST_ITER,  /* what gives an iterator */
    CONST_LASTI, /* where the instruction stands, as handlers have it on the stack */
    CONSTS
};

static void emit_way(DynAsm *a, const Break *b, DynWayOn w) {
    emit_resume_call(a, (uint32_t)b->c->code->co_nlocalsplus, &b->ways[w].shape, b->first_const + CONST_RESUME + (uint32_t)w,
                     b->first_const + CONST_NONE, b->order);
}

/* The instruction, where it is to run, and the calls of what follows it. *end: behind the instruction. */
static void emit_ways(DynAsm *a, const Break *b, uint32_t *end) {
    const DynInstr *in = b->in;
    const DynWay *ways = b->ways;
    uint32_t jump = 0;
    if (ways[DYN_WAY_JUMP].resume) {
        jump = emit_jump(a, b->c, in);
    } else if (runs(in, b->before, ways)) {
        emit_instruction(a, b->c, in, b->first_const + CONST_ENTER, b->first_const + CONST_ITER);
    }
    *end = dyn_asm_units(a);
    dyn_asm_locate(a, (DynPosition){position_of(b->c, in->at).line, -1, -1, -1});
    if (ways[DYN_WAY_NEXT].resume) {
        emit_way(a, b, DYN_WAY_NEXT);
    }
    if (ways[DYN_WAY_JUMP].resume) {
        land(a, jump, in);
        emit_way(a, b, DYN_WAY_JUMP);
    }
}

/* The exception is on the stack. Where a number of CPython's own would lie below it, which can't be handed on, the handler is
 * entered without it and it is put there as an object. */
static void emit_caught(DynAsm *a, const Break *b, DynHandler *h) {
    if (h->lasti && dyn_lasti_is_tagged()) {
        h->lasti = false;
        dyn_asm_emit(a, LOAD_CONST, b->first_const + CONST_LASTI);
        dyn_asm_emit(a, SWAP, 2);
    }
    emit_way(a, b, DYN_WAY_CAUGHT);
}

/* The first unit of a range that a handler covers. For what a called Python function raised, CPython 3.13 looks up the handler of
 * the unit in front of the call: that has to be in the range too. */
static uint32_t begin_covered(DynAsm *a) {
    uint32_t start = dyn_asm_units(a);
    dyn_asm_put(a, NOP, 0);
    return start;
}

static void emit_break(DynAsm *a, const Break *b) {
    const DynCode *c = b->c;
    uint32_t end;
    DynHandler h;
    emit_start(a, c, b->live_in, b->before, b->first_const, b->order);
    uint32_t start = begin_covered(a);
    emit_ways(a, b, &end);
    bool caught = b->ways[DYN_WAY_CAUGHT].resume != NULL, stays = b->ways[DYN_WAY_NEXT].resume == NULL,
         falls = stays && dyn_flow(b->in) != DYN_FLOW_RAISE;
    uint32_t jump = falls ? emit_jump_of(a, JUMP_FORWARD, 0) : 0, behind = dyn_asm_units(a);
    if (end == start + 1 || !dyn_cpy_find_handler(c->code, b->in->at, &h)) {
        return;
    }
    if (caught) {
        emit_caught(a, b, &h);
    }
    if (!caught || falls) {
        dyn_asm_locate(a, (DynPosition){c->code->co_firstlineno, -1, -1, -1}); /* what its line table counts from */
        dyn_asm_emit(a, NOP, 0);
    }
    uint32_t shift = dyn_asm_units(a);
    dyn_asm_add_handler(a, (DynHandler){start, end, caught ? behind : h.target + shift, h.depth, h.lasti});
    if (falls) {
        set_distance(a, jump, shift + b->in->next - behind);
    }
    if (!caught || falls) {
        dyn_asm_append_lines(a, c->code);
        dyn_asm_append_handlers(a, c->code, shift);
        dyn_asm_copy_code(a, c);
    }
}

/* ---- waiting code */

static void emit_jump_back(DynAsm *a, uint32_t to) {
    uint32_t jump = emit_jump_of(a, JUMP_BACKWARD_NO_INTERRUPT, 0);
    set_distance(a, jump, dyn_asm_units(a) - to);
}

/* The instruction, and on in the original. */
static void emit_stay(DynAsm *a, const Break *b, uint32_t *end) {
    const DynInstr *in = b->in;
    if (dyn_is_conditional(in)) {
        uint32_t jump = emit_jump(a, b->c, in);
        *end = dyn_asm_units(a);
        emit_jump_back(a, in->next);
        land(a, jump, in);
        emit_jump_back(a, b->c->v.at[in->target].start);
        return;
    }
    if (dyn_flow(in) != DYN_FLOW_JUMP) {
        emit_instruction(a, b->c, in, b->first_const + CONST_ENTER, b->first_const + CONST_ITER);
    }
    *end = dyn_asm_units(a);
    emit_jump_back(a, dyn_flow(in) == DYN_FLOW_JUMP ? b->c->v.at[in->target].start : in->next);
}

static int if_false_opcode(uint32_t *caches) {
    *caches = DYN_PY >= 313;
#if DYN_PY == 311
    return POP_JUMP_FORWARD_IF_FALSE;
#else
    return POP_JUMP_IF_FALSE;
#endif
}

/* The original's handlers, and for the trap one of its own, in order. */
static void add_handlers_around(DynAsm *a, const DynCode *c, DynHandler trap) {
    DynHandler h;
    bool added = false;
    for (Py_ssize_t cursor = 0; dyn_cpy_next_handler(c->code, &cursor, &h);) {
        if (!added && h.end > trap.start) {
            if (h.start < trap.start) {
                dyn_asm_add_handler(a, (DynHandler){h.start, trap.start, h.target, h.depth, h.lasti});
            }
            dyn_asm_add_handler(a, trap);
            added = true;
            h.start = h.start < trap.end ? trap.end : h.start;
        }
        if (h.start < h.end) {
            dyn_asm_add_handler(a, h);
        }
    }
    if (!added) {
        dyn_asm_add_handler(a, trap);
    }
}

bool dyn_asm_may_wait(const DynCode *c, uint32_t at) {
    uint32_t i = at < c->nunits ? c->at_unit[at] : DYN_NONE;
    const DynInstr *next = i != DYN_NONE && i + 1 < c->v.n ? &c->v.at[i + 1] : NULL;
    bool call = next != NULL && (next->op == DYN_I_CALL || next->op == DYN_I_CALL_KW || next->op == DYN_I_CALL_FUNCTION_EX);
    return DYN_PY < 313 || !call || next->at > at + 1;
}

/* The trap is one unit long, whatever it stands on: an exception, for which the handler table has the target and the depth of the
 * stack. Nobody sees it: no traceback row is kept, and it is never the exception that is being handled. */
static void emit_waiting(DynAsm *a, const Break *b) {
    const DynCode *c = b->c;
    uint32_t at = b->in->start, caches, leave, stay;
    int if_false = if_false_opcode(&caches);
    DynHandler h, trap = {at, at + 1, c->nunits, b->before->nstack, false};
    dyn_asm_append_lines(a, c->code);
    dyn_asm_copy_units(a, c, 0, at);
    dyn_asm_put(a, RAISE_VARARGS, 0);
    dyn_asm_copy_units(a, c, at + 1, c->nunits);
    dyn_asm_locate(a, (DynPosition){position_of(c, b->in->at).line, -1, -1, -1});
    add_handlers_around(a, c, trap);
    dyn_asm_emit(a, POP_TOP, 0);
    dyn_asm_emit_callable(a, b->first_const);
    dyn_asm_emit_call(a, 0);
    uint32_t jump = emit_jump_of(a, if_false, caches), start = begin_covered(a);
    emit_ways(a, b, &leave);
    uint32_t second = begin_covered(a);
    set_distance(a, jump, second - start);
    emit_stay(a, b, &stay);
    if (dyn_cpy_find_handler(c->code, b->in->at, &h)) {
        if (leave > start + 1) {
            dyn_asm_add_handler(a, (DynHandler){start, leave, h.target, h.depth, h.lasti});
        }
        if (stay > second + 1) {
            dyn_asm_add_handler(a, (DynHandler){second, stay, h.target, h.depth, h.lasti});
        }
    }
}

/* ---- */

static PyObject *make(Break *b, PyObject *first, void (*emit)(DynAsm *, const Break *)) {
    PyCodeObject *code = b->c->code;
    const DynWay *ways = b->ways;
    b->in = dyn_asm_instruction_at(b->c, b->before->at);
    if (!b->in) {
        return NULL;
    }
    uint32_t nslots = (uint32_t)code->co_nlocalsplus;
    uint32_t deepest = nslots + b->before->nstack + 3;
    for (int i = 0; i < DYN_WAYS; i++) {
        deepest += ways[i].shape.nstack;
    }
    deepest *= 2;
    b->first_const = (uint32_t)PyTuple_GET_SIZE(code->co_consts);
    b->order = PyMem_RawMalloc(sizeof(uint32_t) * deepest);
    if (!b->order) {
        return PyErr_NoMemory();
    }
    DynAsm a;
    dyn_asm_start(&a, b->c);
    emit(&a, b);
    PyMem_RawFree(b->order);
    PyObject *lasti = dyn_lasti_new(b->in->at), *more[CONSTS] = {first};
    for (int i = 0; i < DYN_WAYS; i++) {
        more[CONST_RESUME + i] = ways[i].resume != NULL ? ways[i].resume : Py_None;
    }
    more[CONST_NONE] = Py_None;
    more[CONST_ENTER] = dyn_asm_enter != NULL ? dyn_asm_enter : Py_None;
    more[CONST_ITER] = dyn_asm_iter != NULL ? dyn_asm_iter : Py_None;
    more[CONST_LASTI] = lasti;
    PyObject *consts = dyn_asm_consts_with(code, CONSTS, more), *result = NULL;
    DynSlots s = dyn_asm_same_slots(code);
    if (consts) {
        result = dyn_asm_new_code(&a, code, &s, consts, code->co_flags, code->co_stacksize + (int)deepest);
    }
    Py_XDECREF(consts);
    Py_DECREF(lasti);
    dyn_asm_finish(&a);
    return result;
}

PyObject *dyn_asm_break(const DynCode *c, PyObject *runner, const bool *live_in, const DynFrameShape *before,
                        const DynWay *ways) {
    return make(&(Break){.c = c, .live_in = live_in, .before = before, .ways = ways}, runner, emit_break);
}

PyObject *dyn_asm_waiting(const DynCode *c, PyObject *way_out, const DynFrameShape *before, const DynWay *ways) {
    return make(&(Break){.c = c, .before = before, .ways = ways}, way_out, emit_waiting);
}
