/* generators.c: generator expressions that sum, any, all, min and max go through: no generator is made, its code is followed in
 * place like that of a called function, and what it yields is taken at once. And the variables of a loop's function that such
 * code shares: cells. Called by step.c, calls.c and names.c.
 *
 * Below the frame of the generator's code lies what was made of the items so far. It has no effects of its own, so that a way out
 * from within leads to the statement of the loop's function, which CPython begins anew. A cell that the loop stores to is a
 * value with what is in it; exits put that into the cell. An inlined function's own cells are nobody's but its inner functions':
 * the slot has the value itself, and what those hold says where it is. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include <opcode.h>

/* ---- cells */

PlanValue plan_of_cell(Plan *p, PyObject *cell, uint32_t slot) {
    PlanValue v = plan_value(DYN_RK_ENTRY, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, 1);
    v.v.ref = slot;
    if (!p->stored_cells[slot] || cell == NULL || !PyCell_Check(cell) || items == NULL) {
        return v;
    }
    items[0] = plan_of_object(p, PyCell_GET(cell), slot, true, false);
    if (items[0].v.kind == DYN_RK_ENTRY || items[0].v.kind == DYN_RK_MADE) {
        return v;
    }
    v.v.kind = DYN_RK_CELL;
    v.v.n = 1;
    v.items = items;
    return v;
}

/* A variable that an inlined function shares with its inner functions, as one of these has it. */
PlanValue plan_own_cell(Plan *p, uint32_t slot) {
    PlanValue v = plan_value(DYN_RK_CELL, DYN_NONE);
    v.v.ref = plan_frame(p)->base + slot;
    return v;
}

bool plan_is_own_cell(Plan *p, uint32_t slot) {
    enum { CELL = 0x40 }; /* CPython's CO_FAST_CELL */
    return p->s.nframes > 1 && (dyn_code_local_kind(plan_frame(p)->c->code, (int)slot) & CELL) != 0;
}

/* It is the place among the values of a variable of an inlined function. */
static bool is_inlined(const Plan *p, uint32_t slot) {
    return slot != DYN_NONE && p->s.nframes > 1 && slot >= p->s.frames[1].base;
}

/* The slot whose cell the variable is: of the loop's function, or a place of an inlined one; or DYN_NONE. */
static uint32_t slot_of(Plan *p, const DynInstr *in) {
    const PlanFrame *frame = plan_frame(p);
    if (p->s.nframes == 1) {
        return in->arg;
    }
    uint32_t first = (uint32_t)(dyn_code_nlocalsplus(frame->c->code) - dyn_code_nfree(frame->c->code));
    if (in->arg < first) {
        return frame->base + in->arg;
    }
    if (frame->cells != NULL) {
        const DynRegionValue *v = &frame->cells[in->arg - first].v;
        return v->kind == DYN_RK_ENTRY || v->kind == DYN_RK_CELL ? v->ref : DYN_NONE;
    }
    PyObject *cell = frame->closure == NULL ? NULL : PyTuple_GET_ITEM(frame->closure, in->arg - first);
    for (uint32_t i = 0; i < p->r->nslots && cell != NULL; i++) {
        if (p->slots[i] == cell) {
            if (frame->made != 0) {
                DynRegionFact fact = plan_fact_of_made(p, in->arg);
                fact.slot = i;
                plan_fact(p, fact);
            }
            return i;
        }
    }
    return DYN_NONE;
}

Went plan_load_cell(Plan *p, const DynInstr *in) {
    uint32_t slot = slot_of(p, in);
    if (is_inlined(p, slot)) {
        plan_push(p, p->s.values[slot]);
        return plan_top(p, 0)->v.kind != DYN_RK_NULL ? WENT_ON : plan_unknown(p, DYN_R_EXCEPTION, "the variable has no value");
    }
    if (p->s.routine != 0 && slot != DYN_NONE && p->stored_cells[slot]) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a variable that is stored, in a function that calls itself");
    }
    if (slot == DYN_NONE || p->s.values[slot].v.kind != DYN_RK_CELL) {
        return plan_deref(p, in, slot);
    }
    PlanValue v = p->s.values[slot].items[0];
    if (v.v.kind == DYN_RK_NULL) {
        return plan_unknown(p, DYN_R_EXCEPTION, "the variable has no value");
    }
    plan_push(p, v);
    return WENT_ON;
}

Went plan_store_cell(Plan *p, const DynInstr *in) {
    uint32_t slot = slot_of(p, in);
    PlanValue *cell = slot == DYN_NONE ? NULL : &p->s.values[slot], *items = DYN_NEW_N(&p->arena, PlanValue, 1);
    if (is_inlined(p, slot)) {
        if (plan_is_expression(plan_top(p, 0)) && !plan_make_array(p, plan_top(p, 0), plan_top(p, 0))) {
            return WENT_NOWHERE;
        }
        *cell = plan_pop(p);
        return WENT_ON;
    }
    if (cell != NULL && items != NULL && !p->stored_cells[slot]) {
        p->stored_cells[slot] = true;
        p->again = true;
        return WENT_AWAY;
    }
    if (cell == NULL || items == NULL || cell->v.kind != DYN_RK_CELL) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a variable that inner functions share holds something else");
    }
    const PlanValue old = cell->items[0];
    if (old.v.kind == DYN_RK_CONST || old.v.kind == DYN_RK_MADE || (old.v.kind == DYN_RK_LIST && !plan_may_end(p, &old)) ||
        (old.v.kind == DYN_RK_ARRAY && !(old.v.flags & DYN_RF_DROPPABLE))) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an object is dropped whose end may be seen");
    }
    items[0] = plan_pop(p);
    plan_reg(p, &items[0]);
    cell->items = items;
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

/* ---- functions that are made in the loop */

Went plan_make_function(Plan *p, uint32_t flags) {
    enum { CLOSURE = 8 };
    PlanValue code = *plan_top(p, 0), v = plan_value(DYN_RK_FUNC, DYN_NONE);
    PyObject *o = plan_object(p, &code);
    if ((flags & ~(uint32_t)CLOSURE) != 0 || o == NULL || !PyCode_Check(o)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a function with defaults or annotations");
    }
    v.v.ref = code.v.ref;
    v.v.shape = (uint16_t)(p->s.nframes - 1); /* whose module's variables are its own */
    p->s.n--;
    if (flags & CLOSURE) {
        return plan_give_closure(p, v);
    }
    plan_push(p, v);
    return WENT_ON;
}

/* The cells on top of the stack are those of the function. */
Went plan_give_closure(Plan *p, PlanValue v) {
    PlanValue cells = *plan_top(p, 0);
    if (cells.v.kind != DYN_RK_TUPLE || cells.v.n + 1u > PLAN_ITEMS) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a function of many variables");
    }
    v.v.n = cells.v.n;
    v.items = cells.items;
    p->s.n--;
    plan_push(p, v);
    return WENT_ON;
}

/* A frame of the code of a function that was made in the loop, or of its generator. */
static Went enter(Plan *p, const PlanValue *function, PlanDriver driver, const PlanValue *args, uint32_t n,
                  const PlanValue *cells) {
    PyCodeObject *code = (PyCodeObject *)p->r->objects.at[function->v.ref];
    const DynCode *c = plan_decoded(p, code);
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(code), nfree = (uint32_t)dyn_code_nfree(code);
    if (c == NULL || p->s.nframes == PLAN_FRAMES || p->s.n + nslots + 16 > PLAN_VALUES) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
        return WENT_AWAY;
    }
    const PlanFrame *maker = &p->s.frames[function->v.shape];
    PlanFrame frame = {.c = c, .globals = maker->globals, .builtins = maker->builtins, .at = 0, .base = p->s.n};
    frame.driver = driver;
    frame.cells = cells;
    frame.loops = plan_loops_of(p, c, NULL);
    p->s.frames[p->s.nframes++] = frame;
    for (uint32_t i = 0; i < nslots; i++) {
        const bool is_cell = i + nfree >= nslots && cells != NULL; /* for functions that it makes itself */
        plan_push(p, i < n ? args[i] : is_cell ? cells[i + nfree - nslots] : plan_value(DYN_RK_NULL, DYN_NONE));
    }
    return frame.loops == NULL ? WENT_AWAY : WENT_ON;
}

/* Is it code of one argument, as that of comprehensions and generator expressions is, without variables of its own that inner
 * functions share? */
static bool takes_an_iterator(PyCodeObject *code) {
    int others = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_VARARGS | CO_VARKEYWORDS;
    return (code->co_flags & others) == 0 && dyn_code_ncells(code) == 0 && code->co_argcount == 1;
}

/* A list comprehension, before CPython 3.12: a function of an iterator. */
static Went plan_comprehension(Plan *p, PlanValue function, PyCodeObject *code, PlanValue iterator, uint32_t slots) {
    if (!takes_an_iterator(code) || !plan_iterates(&iterator)) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that is made in the loop, and is no comprehension");
    }
    p->s.n -= slots;
    return enter(p, &function, PLAN_CALL, &iterator, 1, function.items);
}

/* A call of such a function, with arguments by place. */
Went plan_call_lambda(Plan *p, PlanValue function, const PlanValue *passed, uint32_t n, uint32_t slots) {
    const PyCodeObject *code = (PyCodeObject *)p->r->objects.at[function.v.ref];
    PlanValue args[PLAN_ITEMS];
    int others = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_VARARGS | CO_VARKEYWORDS | CO_GENERATOR;
    if ((code->co_flags & others) != 0 || code->co_kwonlyargcount > 0 || (uint32_t)code->co_argcount != n || n > PLAN_ITEMS ||
        plan_any_paused(p, passed, n)) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a call of a function that is made in the loop, in this form");
    }
    for (uint32_t i = 0; i < p->opaque.n; i++) {
        if (p->opaque.at[i] == code) {
            return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that is made in the loop, stores something, and can be left");
        }
    }
    if (p->s.nframes == PLAN_FRAMES) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "calls that are too deep");
    }
    for (uint32_t i = 0; i < n; i++) {
        args[i] = passed[i];
        plan_reg(p, &args[i]);
    }
    const uint32_t inner = p->s.nframes;
    Went went = enter(p, &function, PLAN_CALL, args, n, function.items);
    p->s.frames[inner].below = slots;
    return went;
}

/* A call of a function that was made in the loop, with an iterator, or from 3.15 on with what the function itself asks for one: a
 * generator, whose code is followed when it is gone through. */
Went plan_call_made(Plan *p, PlanValue function, PlanValue iterator, uint32_t slots) {
    PyCodeObject *code = (PyCodeObject *)plan_object(p, &(PlanValue){.v = {.kind = DYN_RK_CONST, .ref = function.v.ref}});
    PlanValue v = plan_value(DYN_RK_GEN, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, PLAN_ITEMS + 1);
    if ((code->co_flags & CO_GENERATOR) == 0) {
        return plan_comprehension(p, function, code, iterator, slots);
    }
    if (!takes_an_iterator(code) || items == NULL) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that is made in the loop, and is no generator expression");
    }
    if (!plan_iter(p, iterator, &items[0])) {
        return WENT_NOWHERE;
    }
    for (uint32_t i = 0; i < function.v.n; i++) {
        items[1 + i] = function.items[i];
    }
    v.v.ref = function.v.ref;
    v.v.shape = function.v.shape;
    v.v.n = function.v.n + 1;
    v.items = items;
    p->s.n -= slots;
    plan_push(p, v);
    return WENT_ON;
}

/* ---- going through a generator */

Went plan_drive(Plan *p, PlanDriver driver, PlanValue generator, uint32_t slots) {
    PlanValue none = plan_value(driver == PLAN_SUM ? DYN_RK_INT : DYN_RK_NULL, driver == PLAN_SUM ? plan_iconst(p, 0) : DYN_NONE);
    const bool paused = generator.v.kind == DYN_RK_PAUSED;
    PyCodeObject *code = paused ? NULL : (PyCodeObject *)p->r->objects.at[generator.v.ref];
    for (uint32_t i = 0; i < p->opaque.n; i++) {
        if (p->opaque.at[i] == code) {
            return plan_unknown(p, DYN_R_OPAQUE_CALL, "a generator that stores something, and can be left behind that");
        }
    }
    if (p->s.nframes == PLAN_FRAMES) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "calls that are too deep");
    }
    if (driver == PLAN_LIST && !plan_list_of(p, NULL, &none)) {
        return WENT_NOWHERE;
    }
    p->s.n -= slots;
    plan_push(p, none);
    return paused ? plan_resume(p, driver, generator) : enter(p, &generator, driver, &generator.items[0], 1, generator.items + 1);
}

/* The generator is left for good, with this result. */
static Went finish(Plan *p, PlanValue result) {
    p->s.n = plan_frame(p)->base - 1;
    p->s.nframes--;
    plan_push(p, result);
    plan_ended(p);
    return plan_go(p, plan_frame(p)->at + 1);
}

/* It goes on, with the result so far. */
static Went go_on(Plan *p, PlanValue result) {
    p->s.values[plan_frame(p)->base - 1] = result;
    plan_push(p, plan_const(p, Py_None));
    return plan_go(p, plan_frame(p)->at + 1);
}

/* A sum of floats that CPython corrects (from 3.12 on): while it is added up, what it is so far, and what was rounded off. */
static bool corrected(Plan *p, uint32_t sum, uint32_t lost, PlanValue *out) {
    PlanValue *items = plan_new_tuple(p, 2, out);
    if (items != NULL) {
        items[0] = plan_value(DYN_RK_FLOAT, sum);
        items[1] = plan_value(DYN_RK_FLOAT, lost);
    }
    return items != NULL;
}

static bool is_corrected(const PlanValue *sum) { return sum->v.kind == DYN_RK_TUPLE; }

/* Ints are converted, and added; up to CPython 3.13 what is rounded off then isn't looked at. */
static bool add_corrected(Plan *p, PlanValue so_far, PlanValue v, PlanValue *out) {
    uint32_t sum = so_far.items[0].v.regs[0], lost = so_far.items[1].v.regs[0], x;
    plan_double(p, v, &x);
    uint32_t next = plan_emit(p, DYN_RO_DADD, sum, x, DYN_NONE);
    if (v.v.kind == DYN_RK_FLOAT || dyn_cpy_compensates_ints()) {
        uint32_t of_x = plan_emit(p, DYN_RO_DADD, plan_emit(p, DYN_RO_DSUB, sum, next, DYN_NONE), x, DYN_NONE);
        uint32_t of_sum = plan_emit(p, DYN_RO_DADD, plan_emit(p, DYN_RO_DSUB, x, next, DYN_NONE), sum, DYN_NONE);
        uint32_t sizes[2] = {plan_emit(p, DYN_RO_DABS, x, DYN_NONE, DYN_NONE),
                             plan_emit(p, DYN_RO_DABS, sum, DYN_NONE, DYN_NONE)};
        uint32_t smaller = plan_emit(p, DYN_RO_DLE, sizes[0], sizes[1], DYN_NONE);
        lost = plan_emit(p, DYN_RO_DADD, lost, plan_emit(p, DYN_RO_DSELECT, smaller, of_x, of_sum), DYN_NONE);
    }
    return corrected(p, next, lost, out);
}

/* What was rounded off is added where it is a number; an infinite sum stays one. */
static PlanValue correct(Plan *p, const PlanValue *so_far) {
    uint32_t sum = so_far->items[0].v.regs[0], lost = so_far->items[1].v.regs[0];
    uint32_t finite = plan_emit(p, DYN_RO_DFINITE, lost, DYN_NONE, DYN_NONE);
    uint32_t some = plan_emit(p, DYN_RO_DNE, lost, plan_dconst(p, 0.0), DYN_NONE);
    uint32_t whole = plan_emit(p, DYN_RO_DADD, sum, lost, DYN_NONE);
    uint32_t both = plan_emit(p, DYN_RO_IAND, finite, some, DYN_NONE);
    return plan_value(DYN_RK_FLOAT, plan_emit(p, DYN_RO_DSELECT, both, whole, sum));
}

static Went add(Plan *p, PlanValue so_far, PlanValue v) {
    PlanValue out;
    bool plain = v.v.kind == DYN_RK_FLOAT || v.v.kind == DYN_RK_INT || v.v.kind == DYN_RK_BOOL, is = is_corrected(&so_far);
    bool numbers = plan_is_number(&v) && (is ? plain : plan_is_number(&so_far));
    if (!numbers || !(is ? add_corrected(p, so_far, v, &out) : plan_binary(p, NB_ADD, so_far, v, &out))) {
        return numbers ? WENT_NOWHERE : plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a sum of something else than numbers");
    }
    if (out.v.kind == DYN_RK_FLOAT && dyn_cpy_compensates_sums() && !corrected(p, plan_reg(p, &out), plan_dconst(p, 0.0), &out)) {
        return WENT_NOWHERE;
    }
    if (out.v.kind == DYN_RK_COMPLEX && out.v.dtype == 0 && dyn_cpy_mixes_complex()) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a sum of complex numbers, whose rounding errors CPython adds as well");
    }
    plan_reg(p, &out);
    return go_on(p, out);
}

static Went test(Plan *p, bool any, PlanValue v) {
    int known;
    uint32_t reg;
    PlanWays ways;
    if (!plan_truth(p, &v, &known, &reg)) {
        return WENT_NOWHERE;
    }
    PlanValue none = p->s.values[plan_frame(p)->base - 1];
    if (known >= 0) {
        return known == any ? finish(p, plan_bool(any)) : go_on(p, none);
    }
    if (!plan_two_ways(p, reg, &ways)) {
        return WENT_AWAY;
    }
    (void)(any ? finish(p, plan_bool(true)) : go_on(p, none));
    plan_other_way(p, &ways);
    return any ? go_on(p, none) : finish(p, plan_bool(false));
}

static Went extreme(Plan *p, bool largest, PlanValue best, PlanValue v) {
    PlanValue test;
    PlanWays ways;
    int known;
    uint32_t reg;
    plan_reg(p, &v);
    if (best.v.kind == DYN_RK_NULL) {
        return go_on(p, v);
    }
    if (!plan_compare(p, largest ? Py_GT : Py_LT, v, best, &test) || !plan_truth(p, &test, &known, &reg)) {
        return WENT_NOWHERE;
    }
    if (!plan_two_ways(p, reg, &ways)) {
        return WENT_AWAY;
    }
    go_on(p, v);
    plan_other_way(p, &ways);
    return go_on(p, best);
}

static Went append(Plan *p, PlanValue list, PlanValue v) { return plan_append(p, list, v) ? go_on(p, list) : WENT_NOWHERE; }

Went plan_yield(Plan *p) {
    PlanFrame *frame = plan_frame(p);
    if (frame->driver == PLAN_CALL) {
        return plan_unknown(p, DYN_R_GENERATOR, "a generator");
    }
    if (frame->driver == PLAN_FOR) {
        return plan_pause(p);
    }
    PlanValue v = plan_pop(p), so_far = p->s.values[frame->base - 1];
    Went went = WENT_NOWHERE;
    switch (frame->driver) {
    case PLAN_SUM: went = add(p, so_far, v); break;
    case PLAN_ANY:
    case PLAN_ALL: went = test(p, frame->driver == PLAN_ANY, v); break;
    case PLAN_MIN:
    case PLAN_MAX: went = extreme(p, frame->driver == PLAN_MAX, so_far, v); break;
    case PLAN_LIST: went = append(p, so_far, v); break;
    case PLAN_FOR:
    case PLAN_CALL: break;
    }
    if (went == WENT_NOWHERE) {
        plan_push(p, v);
    }
    return went;
}

Went plan_end_generator(Plan *p) {
    PlanFrame *frame = plan_frame(p);
    if (frame->driver == PLAN_FOR) {
        return plan_end_paused(p);
    }
    PlanValue so_far = p->s.values[frame->base - 1];
    if (frame->driver == PLAN_ANY || frame->driver == PLAN_ALL) {
        return finish(p, plan_bool(frame->driver == PLAN_ALL));
    }
    if (so_far.v.kind == DYN_RK_NULL) {
        return plan_unknown(p, DYN_R_EXCEPTION, "the extreme of nothing");
    }
    return finish(p, is_corrected(&so_far) && frame->driver == PLAN_SUM ? correct(p, &so_far) : so_far);
}
