/* routines.c: Python functions that call themselves, or each other: they can't be followed into, so they become functions of
 * their own in C, which call each other natively. Called by calls.c and plan.c. What is known of a routine lives as long as the
 * plan, over its attempts.
 *
 * A routine is a function for arguments of certain kinds. Its body is followed once, with them in registers, in a state whose
 * first frame is the region's and has no values: of those a routine knows nothing. It has no ways out. Where CPython has to go on
 * it gives up, and so do all routines that called it: the region is left in front of the call that it made itself, as if it had
 * not been made. So nothing in a routine may have an effect but what the log can undo. */
#include "tracer/region/plan.h"

/* ---- which functions */

static bool note(Plan *p, PyCodeObject *code) {
    bool noted = dyn_vec_push(&p->called, code) == 0;
    if (!noted) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    return noted;
}

/* The function is what its own name stands for, and it has that name in its code. */
static bool names_itself(const PyFunctionObject *f, PyCodeObject *code) {
    PyObject *named = dyn_code_calls_itself(code) && PyDict_CheckExact(f->func_globals)
                          ? PyDict_GetItemWithError(f->func_globals, code->co_name)
                          : NULL;
    PyErr_Clear();
    return named == (const PyObject *)f;
}

/* One that is followed into calls itself: all is planned anew, and it isn't followed. */
bool plan_is_routine(Plan *p, const PyFunctionObject *f) {
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    for (uint32_t i = 0; i < p->called.n; i++) {
        if (p->called.at[i] == code) {
            return true;
        }
    }
    for (uint32_t i = 0; i < p->s.nframes; i++) {
        if (p->s.frames[i].c->code == code) {
            p->again = p->again || i > 0;
            return note(p, code) && i == 0;
        }
    }
    return names_itself(f, code) && note(p, code);
}

static void make_opaque(Plan *p, PyCodeObject *code) {
    if (!p->again && dyn_vec_push(&p->opaque, code) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    p->again = true;
}

void plan_refuse_routine(Plan *p) { make_opaque(p, p->s.frames[1].c->code); }

uint32_t plan_give_up(Plan *p) {
    if (p->gives_up == DYN_NONE) {
        DynRegionOut x = {.gives_up = true, .why = DYN_R_OPAQUE_CALL};
        if (dyn_vec_push(&p->r->exits, x) < 0) {
            plan_stop(p, DYN_R_NO_MEMORY);
            return 0;
        }
        p->gives_up = p->r->exits.n - 1;
    }
    return p->gives_up;
}

void plan_log(Plan *p) {
    p->s.logged = true;
    if (p->s.routine != 0) {
        p->routines.at[p->s.routine - 1].stores = true;
    }
}

/* ---- what is passed */

/* Can it be passed on in registers? What belongs to a slot of the region's function, or is only known while it is planned,
 * can't. */
static bool can_pass(const Plan *p, const PlanValue *v) {
    for (uint32_t i = 0; i < v->v.nregs; i++) {
        if (p->r->regs.at[v->v.regs[i]] == 'S') {
            return false;
        }
    }
    if (v->v.flags & (DYN_RF_MAYBE | DYN_RF_FRESH)) {
        return false;
    }
    switch ((DynRegionKind)v->v.kind) {
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
    case DYN_RK_INST:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_RANGE: return true;
    case DYN_RK_TUPLE:
        for (uint32_t i = 0; i < v->v.n; i++) {
            if (!can_pass(p, &v->items[i])) {
                return false;
            }
        }
        return true;
    default: return false;
    }
}

/* Its registers, behind the n that there are; true: they fit. */
static bool add_regs(Plan *p, PlanValue *v, uint32_t *regs, uint32_t *n) {
    if (v->known) {
        plan_reg(p, v);
    }
    for (uint32_t i = 0; i < v->v.nregs; i++) {
        if (*n == DYN_ROUTINE_VALUES) {
            return false;
        }
        regs[(*n)++] = v->v.regs[i];
    }
    bool fit = true;
    for (uint32_t i = 0; fit && dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        PlanValue item = v->items[i];
        fit = add_regs(p, &item, regs, n);
    }
    return fit;
}

/* Into F, for a call or a return. */
static void stage(Plan *p, const uint32_t *regs, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        char type = p->r->regs.at[regs[i]];
        plan_emit(p, type == 'D' ? DYN_RO_ARGD : type == 'P' ? DYN_RO_ARGP : DYN_RO_ARGI, regs[i], DYN_NONE, DYN_NONE);
        plan_last(p)->imm.i = i;
    }
}

/* ---- routines of a plan */

static PlanRoutine *find(Plan *p, PyFunctionObject *function, uint32_t made, const PlanValue *passed) {
    PyCodeObject *code = (PyCodeObject *)function->func_code;
    DynStr key = {0};
    const uintptr_t first[2] = {(uintptr_t)function, made};
    PlanRoutine *found = NULL;
    dyn_str_put(&key, first, sizeof first);
    for (int i = 0; i < code->co_argcount; i++) {
        plan_key_value(p, &key, &passed[i]);
    }
    for (uint32_t i = 0; i < p->routines.n && found == NULL; i++) {
        PlanRoutine *f = &p->routines.at[i];
        found = f->nkey == key.n && memcmp(f->key, key.at, key.n) == 0 ? f : NULL;
    }
    if (found == NULL && p->routines.n < PLAN_ROUTINES && !key.failed) {
        PlanRoutine f = {.code = code, .key = PyMem_RawMalloc(key.n), .nkey = key.n};
        if (f.key != NULL && dyn_vec_push(&p->routines, f) == 0) {
            found = &p->routines.at[p->routines.n - 1];
            memcpy(found->key, key.at, key.n);
        } else {
            PyMem_RawFree(f.key);
        }
    }
    dyn_str_free(&key);
    return found;
}

/* Its body, and what the region says of it. The state is that of the call, and stays it. false: planning has stopped. */
static bool begin(Plan *p, uint32_t which, PyFunctionObject *f, uint32_t made, const PlanValue *passed) {
    const DynCode *c = plan_decoded(p, (PyCodeObject *)f->func_code);
    PlanState *before = DYN_NEW_N(&p->arena, PlanState, 2);
    if (c == NULL || before == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    const uint32_t block = p->block, resume_at = p->resume_at, resume_exit = p->resume_exit;
    before[0] = p->s;
    before[1] = p->resume;
    p->s.nframes = 1;
    p->s.n = 0;
    p->s.logged = false;
    p->s.routine = which + 1;
    for (uint32_t i = 0; i < p->r->nslots + p->r->nstack; i++) {
        plan_push(p, plan_value(DYN_RK_NULL, DYN_NONE));
    }
    p->s.frames[p->s.nframes] = plan_frame_of(p, c, f, made, 0);
    p->s.nframes++;
    for (int i = 0; i < dyn_code_nlocalsplus(c->code); i++) {
        plan_push(p, i < c->code->co_argcount ? passed[i] : plan_value(DYN_RK_NULL, DYN_NONE));
    }
    p->resume.n = 0;
    p->resume_at = 0;
    const PlanVersion *v = p->stop == DYN_R_OK ? plan_begin_routine(p) : NULL;
    DynRegionRoutine r = {.block = v != NULL ? v->block : 0};
    bool fits = v != NULL;
    for (int i = 0; fits && i < c->code->co_argcount; i++) {
        PlanValue param = v->state->values[p->s.frames[1].base + (uint32_t)i];
        fits = add_regs(p, &param, r.params, &r.nparams);
    }
    p->s = before[0];
    p->resume = before[1];
    p->block = block;
    p->resume_at = resume_at;
    p->resume_exit = resume_exit;
    if (!fits || dyn_vec_push(&p->r->routines, r) < 0) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
        return false;
    }
    p->routines.at[which].number = p->r->routines.n;
    return true;
}

/* ---- calls */

/* A value like one that it gives, in registers that are written here. */
static PlanValue result_of(Plan *p, const PlanRoutine *f, uint32_t which, uint32_t *n) {
    if (f->none[which]) {
        return plan_const(p, Py_None);
    }
    PlanValue v = {.v = f->result[which]};
    for (uint32_t i = 0; i < v.v.nregs; i++) {
        char type = f->types[*n];
        v.v.regs[i] = plan_emit(p,
                                type == 'D'   ? DYN_RO_RESULTD
                                : type == 'P' ? DYN_RO_RESULTP
                                              : DYN_RO_RESULTI,
                                DYN_NONE, DYN_NONE, DYN_NONE);
        plan_last(p)->imm.i = (*n)++;
    }
    return v;
}

static bool push_result(Plan *p, const PlanRoutine *f) {
    uint32_t n = 0;
    if (f->nitems == DYN_RK_COUNT) {
        plan_push(p, result_of(p, f, 0, &n));
        return true;
    }
    PlanValue tuple, *items = plan_new_tuple(p, f->nitems, &tuple);
    for (uint32_t i = 0; items != NULL && i < f->nitems; i++) {
        items[i] = result_of(p, f, i, &n);
    }
    plan_push(p, tuple);
    return items != NULL;
}

Went plan_call_routine(Plan *p, PyFunctionObject *f, uint32_t made, const PlanValue *passed, uint32_t slots) {
    PyCodeObject *code = (PyCodeObject *)f->func_code;
    PlanValue args[16];
    uint32_t regs[DYN_ROUTINE_VALUES], n = 0;
    bool can = dyn_code_ncells(code) == 0;
    for (int i = 0; can && i < code->co_argcount; i++) {
        args[i] = passed[i];
        can = can_pass(p, &args[i]) && add_regs(p, &args[i], regs, &n);
        args[i].known = false;
    }
    PlanRoutine *routine = can ? find(p, f, made, args) : NULL;
    if (routine == NULL) {
        make_opaque(p, code);
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that calls itself, with what can't be passed in registers");
    }
    const uint32_t which = (uint32_t)(routine - p->routines.at);
    if (routine->number == 0 && !begin(p, which, f, made, args)) {
        return WENT_AWAY;
    }
    routine = &p->routines.at[which];
    if (!routine->gives) {
        routine->wanted = true;
        plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, plan_exit(p, DYN_R_OPAQUE_CALL));
        return WENT_AWAY;
    }
    plan_settle_doubts(p);
    stage(p, regs, n);
    plan_emit_or(p, DYN_RO_ROUTINE, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_OPAQUE_CALL);
    plan_last(p)->imm.i = routine->number - 1;
    p->s.n -= slots;
    if (!push_result(p, routine)) {
        return WENT_AWAY;
    }
    if (routine->stores) {
        plan_log(p);
    } else { /* as far as its ways have been followed: then all is planned anew */
        routine->unlogged = true;
    }
    plan_ended(p);
    if (p->s.nframes == 1) { /* it isn't called again where the next one gives up */
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

/* ---- returns */

static bool same_kind(const DynRegionValue *a, const DynRegionValue *b) {
    return a->kind == b->kind && a->dtype == b->dtype && a->n == b->n && a->flags == b->flags && a->ref == b->ref &&
           a->shape == b->shape && a->nregs == b->nregs;
}

/* Is the item of the result what it is on other ways? */
static bool note_item(Plan *p, PlanRoutine *f, uint32_t i, const PlanValue *v) {
    bool none = plan_object(p, v) == Py_None;
    if (!none && (v->v.kind == DYN_RK_CONST || v->v.kind == DYN_RK_TUPLE || !can_pass(p, v))) {
        return false;
    }
    if (!f->gives) {
        f->result[i] = v->v;
        f->none[i] = none;
        return true;
    }
    return none == f->none[i] && (none || same_kind(&v->v, &f->result[i]));
}

Went plan_routine_returns(Plan *p, PlanValue v) {
    PlanRoutine *f = &p->routines.at[p->s.routine - 1];
    DynRegionRoutine *r = &p->r->routines.at[f->number - 1];
    uint32_t regs[DYN_ROUTINE_VALUES], n = 0;
    bool tuple = v.v.kind == DYN_RK_TUPLE, fits = add_regs(p, &v, regs, &n) && (!tuple || v.v.n <= PLAN_PARTS);
    uint8_t nitems = tuple ? v.v.n : DYN_RK_COUNT;
    PlanValue items[PLAN_PARTS];
    for (uint32_t i = 0; fits && i < (tuple ? v.v.n : 1u); i++) {
        items[i] = tuple ? v.items[i] : v;
        plan_reg(p, &items[i]);
        fits = plan_whole(p, &items[i]) && note_item(p, f, i, &items[i]);
    }
    fits = fits && (!f->gives || f->nitems == nitems);
    if (!fits) {
        make_opaque(p, p->s.frames[1].c->code);
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function that calls itself and gives values of several kinds");
    }
    f->nitems = nitems;
    f->gives = true;
    plan_settle_doubts(p);
    n = 0;
    for (uint32_t i = 0; i < (tuple ? v.v.n : 1u); i++) {
        add_regs(p, &items[i], regs, &n);
    }
    stage(p, regs, n);
    r->nresults = n;
    for (uint32_t i = 0; i < n; i++) {
        r->results[i] = f->types[i] = p->r->regs.at[regs[i]];
    }
    plan_end(p, DYN_RO_RETURN, DYN_NONE, DYN_NONE, DYN_NONE, DYN_NONE);
    return WENT_AWAY;
}

/* CPython returns what the function gives. Of a loop it mostly computes that itself, once; of a whole function that was the work.
 */
Went plan_leave_function(Plan *p) {
    uint32_t at = plan_frame(p)->at;
    if (!p->whole || (plan_instr(p)->flags & DYN_IF_FIRST) == 0) {
        return plan_unknown(p, DYN_R_OK, "the function returns");
    }
    plan_settle_doubts(p);
    plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, plan_exit_at(p, &p->s, at, DYN_R_OK));
    return WENT_AWAY;
}

/* ---- an attempt */

void plan_renew_routines(Plan *p) {
    for (uint32_t i = 0; i < p->routines.n; i++) {
        p->routines.at[i].number = 0;
        p->routines.at[i].wanted = p->routines.at[i].unlogged = false;
    }
}

void plan_complete_routines(Plan *p) {
    bool missed = false;
    PyCodeObject *never = NULL; /* it doesn't return, or what it does isn't in the language */
    for (uint32_t i = 0; i < p->routines.n; i++) {
        const PlanRoutine *f = &p->routines.at[i];
        missed = missed || (f->wanted && f->gives) || (f->unlogged && f->stores);
        never = f->wanted && !f->gives ? f->code : never;
    }
    if (never != NULL && !missed) {
        make_opaque(p, never);
    }
    p->again = p->again || missed;
}

void plan_free_routines(Plan *p) {
    for (uint32_t i = 0; i < p->routines.n; i++) {
        PyMem_RawFree(p->routines.at[i].key);
    }
    dyn_vec_free(&p->routines);
}
