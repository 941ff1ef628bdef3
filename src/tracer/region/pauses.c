/* pauses.c: generators of Python functions that a loop of the region goes through: a for loop, or a builtin function that takes
 * all that they give. Called by calls.c, generators.c, items.c, plan.c, step.c and values.c; all memory is the plan's.
 *
 * No generator runs. It is a value, made of what its frame holds and the place where it stands; FOR_ITER follows that frame in
 * place, as a call's, until it yields, which makes another such value of it. So the for loop's head has a version for each place
 * at which the generator can stand. Where the region is left, a generator object gets that frame: the one that came in, or a new
 * one. Within the generator's code it is left in front of the for loop's own instruction, with the generator as it stood there.
 *
 * That holds for a generator that nobody else has: what is stored in a variable or handed on isn't followed. Nor is one whose
 * code handles exceptions, as dropping it would run that. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

#define MOST_HELD 24u /* values in the frame of a generator */

bool plan_is_paused(const PlanValue *v) {
    return v->v.kind == DYN_RK_PAUSED || (v->v.kind == DYN_RK_ENUM && v->items[1].v.kind == DYN_RK_PAUSED);
}

bool plan_has_paused(const PlanValue *v) {
    bool has = v->v.kind == DYN_RK_PAUSED;
    for (uint32_t i = 0; !has && dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        has = plan_has_paused(&v->items[i]);
    }
    return has;
}

bool plan_any_paused(Plan *p, const PlanValue *v, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (plan_has_paused(&v[i])) {
            plan_unknown(p, DYN_R_GENERATOR, "a generator that is handed on");
            return true;
        }
    }
    return false;
}

/* The row for generators of the function at this place. */
static uint32_t row_of(Plan *p, PyObject *function, uint32_t at) {
    for (uint32_t i = 0; i < p->r->pauses.n; i++) {
        if (p->r->pauses.at[i].function == function && p->r->pauses.at[i].at == at) {
            return i;
        }
    }
    (void)plan_const(p, function); /* the region holds it */
    DynRegionPause row = {function, at};
    if (p->r->pauses.n == UINT8_MAX || dyn_vec_push(&p->r->pauses, row) < 0) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
        return 0;
    }
    return p->r->pauses.n - 1;
}

static PlanValue paused(Plan *p, PyObject *function, uint32_t at, const PlanValue *items, uint32_t n) {
    PlanValue v = plan_value(DYN_RK_PAUSED, DYN_NONE);
    v.v.shape = (uint16_t)row_of(p, function, at);
    v.v.n = (uint8_t)n;
    v.items = items;
    return v;
}

/* ---- which generators */

static bool is_opaque(const Plan *p, const PyCodeObject *code) {
    for (uint32_t i = 0; i < p->opaque.n; i++) {
        if (p->opaque.at[i] == code) {
            return true;
        }
    }
    return false;
}

/* A function whose generators can be followed: without variables that others share, and handlers. */
static const DynCode *followed(Plan *p, PyFunctionObject *f) {
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    bool shares = dyn_code_ncells(code) > 0 || dyn_code_nfree(code) > 0 || (code->co_flags & (CO_VARARGS | CO_VARKEYWORDS)) != 0;
    bool can = !shares && (code->co_flags & CO_GENERATOR) != 0 && !is_opaque(p, code) && code->co_kwonlyargcount == 0 &&
               (uint32_t)dyn_code_nlocalsplus(code) <= MOST_HELD;
    const DynCode *c = can ? plan_decoded(p, code) : NULL;
    for (uint32_t i = 0; c != NULL && i < c->v.n; i++) {
        bool handles = c->v.at[i].op == DYN_I_PUSH_EXC_INFO || c->v.at[i].op == DYN_I_SEND;
        c = handles ? NULL : c;
    }
    return c;
}

Went plan_new_generator(Plan *p, PyFunctionObject *f, uint32_t made, const PlanValue *passed, uint32_t slots) {
    const DynCode *c = made == 0 ? followed(p, f) : NULL; /* another function each time can't be named where one is made anew */
    if (c == NULL) {
        return plan_unknown(p, DYN_R_GENERATOR, "a generator that handles exceptions, shares variables, or has an effect");
    }
    uint32_t n = (uint32_t)dyn_code_nlocalsplus(c->code);
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, n + 1);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return WENT_AWAY;
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = (int)i < c->code->co_argcount ? passed[i] : plan_value(DYN_RK_NULL, DYN_NONE);
        if (plan_is_expression(&items[i]) && !plan_make_array(p, &items[i], &items[i])) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= slots;
    plan_push(p, paused(p, (PyObject *)f, 0, items, n));
    return WENT_ON;
}

/* ---- one that comes in */

/* Is there an object in a generator's frame that is recognised as this value, whatever slots hold? */
static bool comes_in(const DynRegionValue *v) {
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_NULL:
    case DYN_RK_CONST:
    case DYN_RK_BOOL:
    case DYN_RK_INT:
    case DYN_RK_FLOAT:
    case DYN_RK_NP:
    case DYN_RK_COMPLEX:
    case DYN_RK_ARRAY:
    case DYN_RK_LIST:
    case DYN_RK_TEXT:
    case DYN_RK_CHAR:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE: return (v->flags & DYN_RF_MAYBE) == 0;
    case DYN_RK_INST: return v->n == 0;
    default: return dyn_region_iterates(v->kind) && (v->flags & DYN_RF_MAYBE) == 0;
    }
}

bool plan_generator_can_come_in(const PlanValue *v) {
    bool can = comes_in(&v->v);
    for (uint32_t i = 0; can && dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        can = plan_generator_can_come_in(&v->items[i]);
    }
    return can;
}

static bool of_held(Plan *p, PyObject *o, PlanValue *v) {
    enum { NO_SLOT = PLAN_INNER - 1 };
    *v = plan_of_object(p, o, NO_SLOT, true, true);
    v->v.n = v->v.kind == DYN_RK_INST ? 0 : v->v.n;
    if (dyn_region_iterates(v->v.kind)) {
        v->v.ref = DYN_NONE;
        return true;
    }
    return comes_in(&v->v);
}

bool plan_of_generator(Plan *p, PyObject *o, PlanValue *v) {
    uint32_t at;
    if (!dyn_generator_is_paused(o, &at)) { /* that nobody else has it is asked when the region is entered */
        return false;
    }
    DynFrame *f = dyn_frame_of_generator(o);
    PyObject *function = dyn_frame_func(f);
    const DynCode *c =
        PyFunction_GET_CODE(function) == (PyObject *)dyn_frame_code(f) ? followed(p, (PyFunctionObject *)function) : NULL;
    uint32_t n = c == NULL ? 0 : (uint32_t)(dyn_code_nlocalsplus(c->code) + dyn_frame_depth(f));
    PlanValue *items = n == 0 || n > MOST_HELD ? NULL : DYN_NEW_N(&p->arena, PlanValue, n);
    bool known = items != NULL;
    for (uint32_t i = 0; known && i < n; i++) {
        known = !dyn_frame_has_number(f, i) && of_held(p, dyn_frame_get(f, i), &items[i]);
    }
    if (known) {
        *v = paused(p, function, at, items, n);
    }
    return known;
}

/* ---- going on, and yielding */

/* The instruction behind the yield that ends at this code unit. */
static uint32_t place_of(const DynCode *c, uint32_t at) {
    uint32_t i = 0;
    while (at != 0 && i < c->v.n && (c->v.at[i].op != DYN_I_YIELD_VALUE || c->v.at[i].start + 1 != at)) {
        i++;
    }
    return at == 0 ? 0 : i + 1;
}

Went plan_resume(Plan *p, PlanDriver driver, PlanValue generator) {
    const DynRegionPause pause = p->r->pauses.at[generator.v.shape];
    PyFunctionObject *f = (PyFunctionObject *)pause.function;
    const DynCode *c = plan_decoded(p, (PyCodeObject *)f->func_code);
    if (is_opaque(p, (PyCodeObject *)f->func_code)) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a generator that stores something, and can be left behind that");
    }
    bool inside = false;
    for (uint32_t i = 0; i < p->s.nframes; i++) {
        inside = inside || p->s.frames[i].c == c;
    }
    if (c == NULL || inside || p->s.nframes == PLAN_FRAMES || p->s.n + generator.v.n + 16 > PLAN_VALUES) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "calls that are too deep, or a generator that goes through one of its own");
    }
    PlanFrame frame = plan_frame_of(p, c, f, 0, 0);
    frame.function = pause.function;
    frame.driver = driver;
    frame.at = place_of(c, pause.at);
    if (frame.loops == NULL || frame.at >= c->v.n) {
        plan_stop(p, DYN_R_INTERNAL);
        return WENT_AWAY;
    }
    p->s.frames[p->s.nframes++] = frame;
    for (uint32_t i = 0; i < generator.v.n; i++) {
        plan_push(p, generator.items[i]);
    }
    if (pause.at != 0) {
        plan_push(p, plan_const(p, Py_None)); /* what the yield gives */
    }
    return WENT_ON;
}

/* What the generator's frame holds, as a value. false: what is in it can't be kept. */
static bool keep_frame(Plan *p, PlanValue *out) {
    const PlanFrame *f = plan_frame(p);
    uint32_t n = p->s.n - f->base;
    PlanValue *items = n > MOST_HELD ? NULL : DYN_NEW_N(&p->arena, PlanValue, n + 1);
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        items[i] = p->s.values[f->base + i];
        if (plan_is_expression(&items[i]) && !plan_make_array(p, &items[i], &items[i])) {
            return false;
        }
    }
    if (items == NULL) {
        plan_unknown(p, DYN_R_GRAPH_SIZE, "a generator of many variables");
        return false;
    }
    *out = paused(p, f->function, plan_instr(p)->start + 1, items, n);
    return true;
}

/* enumerate: the number and what is yielded; its iterator has gone on. */
static PlanValue numbered(Plan *p, PlanValue *all, const PlanValue *generator, PlanValue v) {
    PlanValue *now = DYN_NEW_N(&p->arena, PlanValue, 2), tuple, *items = plan_new_tuple(p, 2, &tuple);
    if (now == NULL || items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return v;
    }
    PlanValue number = all->items[0];
    items[0] = plan_value(DYN_RK_INT, plan_reg(p, &number));
    items[1] = v;
    now[0] = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_IADDW, number.v.regs[0], plan_iconst(p, 1), DYN_NONE));
    now[1] = *generator;
    all->items = now;
    return tuple;
}

Went plan_pause(Plan *p) {
    PlanValue v = plan_pop(p), generator;
    if ((plan_is_expression(&v) && !plan_make_array(p, &v, &v)) || !keep_frame(p, &generator)) {
        plan_push(p, v);
        return WENT_NOWHERE;
    }
    p->s.n = plan_frame(p)->base;
    p->s.nframes--;
    PlanValue *iterator = plan_top(p, dyn_iterator_slots() - 1);
    if (iterator->v.kind == DYN_RK_ENUM) {
        v = numbered(p, iterator, &generator, v);
    } else {
        generator.v.ref = iterator->v.ref;
        *iterator = generator;
    }
    plan_push(p, v);
    plan_ended(p);
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return plan_go(p, plan_frame(p)->at + 1);
}

Went plan_end_paused(Plan *p) {
    p->s.n = plan_frame(p)->base;
    p->s.nframes--;
    const uint32_t target = plan_instr(p)->target;
    const PlanValue iterator = *plan_top(p, dyn_iterator_slots() - 1);
    p->s.n -= dyn_iterator_slots();
    plan_ended(p);
    if (iterator.v.kind == DYN_RK_ENUM && iterator.v.ref != DYN_NONE && p->s.nframes == 1) {
        plan_leave_at_end(p, target, &iterator); /* others may have that object */
        return WENT_AWAY;
    }
    return plan_go(p, target);
}
