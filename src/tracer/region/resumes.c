/* resumes.c: where CPython goes on if the region is left within an inlined call: at the last place of the loop's own function
 * from which nothing has had an effect, with the values of that place. Blocks of the inlined function begin with registers of
 * their own, so a block hands these values on among its values: each where it was, or in another place that has the same (a
 * variable whose value lay on the stack, and is an argument by now). Called by plan.c. */
#include "tracer/region/plan.h"

static bool is_same_whole(const PlanValue *a, const PlanValue *b) {
    return plan_is_same(a, b) && a->v.dtype == b->v.dtype && a->v.n == b->v.n && a->v.flags == b->v.flags &&
           a->v.ref == b->v.ref && a->v.shape == b->v.shape;
}

/* Where the value of place i of p->resume is now: a constant is nowhere in particular. DYN_NONE: it isn't there. */
static uint32_t place_of(const Plan *p, uint32_t i) {
    const PlanValue *v = &p->resume.values[i];
    if (v->v.kind == DYN_RK_CONST) {
        return PLAN_CONSTANT;
    }
    if (i < p->s.n && plan_is_same(v, &p->s.values[i])) {
        return i;
    }
    for (uint32_t k = 0; k < p->s.n; k++) {
        if (is_same_whole(v, &p->s.values[k])) {
            return k;
        }
    }
    return DYN_NONE;
}

uint32_t plan_carried(const Plan *p, uint8_t from[PLAN_VALUES]) {
    if (p->s.nframes == 1 || p->resume_at == DYN_NONE) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < p->resume.n; i++) {
        uint32_t place = place_of(p, i);
        if (place == DYN_NONE) {
            return DYN_NONE;
        }
        from[i] = (uint8_t)place;
    }
    return p->resume.n;
}

void plan_key_carried(Plan *p, DynStr *key, const uint8_t *from, uint32_t n) {
    for (uint32_t i = 0; from != NULL && i < n; i++) {
        const uint32_t row[2] = {from[i], from[i] == PLAN_CONSTANT ? p->resume.values[i].v.ref : 0};
        dyn_str_put(key, row, sizeof row);
    }
}

/* false: there is no memory. */
bool plan_keep_carried(Plan *p, PlanVersion *v, const uint8_t *from) {
    uint8_t *places = from == NULL ? NULL : dyn_arena_alloc(&p->arena, v->resume_n + 1);
    uint32_t *constants = from == NULL ? NULL : DYN_NEW_N(&p->arena, uint32_t, v->resume_n + 1);
    for (uint32_t i = 0; places != NULL && constants != NULL && i < v->resume_n; i++) {
        places[i] = from[i];
        constants[i] = from[i] == PLAN_CONSTANT ? p->resume.values[i].v.ref : DYN_NONE;
    }
    v->from = places;
    v->constants = constants;
    return from == NULL || (places != NULL && constants != NULL);
}

void plan_resume_carried(Plan *p, const PlanVersion *v) {
    p->resume.nframes = 1;
    p->resume.routine = p->s.routine;
    p->resume.logged = p->s.logged;
    p->resume.frames[0] = p->s.frames[0];
    p->resume.n = v->resume_n;
    for (uint32_t i = 0; i < v->resume_n; i++) {
        PlanValue constant = plan_value(DYN_RK_CONST, DYN_NONE);
        constant.v.ref = v->constants == NULL ? DYN_NONE : v->constants[i];
        const uint32_t place = v->from == NULL ? i : v->from[i];
        p->resume.values[i] = place == PLAN_CONSTANT ? constant : p->s.values[place];
    }
    p->resume_at = v->resume_at;
    p->resume_exit = DYN_NONE;
}
