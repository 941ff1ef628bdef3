/* sweeps.c: where a loop drops what it has made: objects of earlier trips that no value is any more. Called by step.c at jumps
 * back, and by the files that make objects. What is noted lives as long as the plan, over its attempts.
 *
 * What a run makes, or takes out of others, is the run's until it ends, as registers hold no references. A loop that makes an
 * object in each trip would soon have no room for more; so at its jump back, where there are many of them, all values that are
 * alive are told (HOLDMADE), and the rest goes (SWEEP, ir/region_world.c). */
#include "tracer/region/plan.h"

static bool is_in(const PlanSite *site, const PlanLoops *l, uint32_t loop) {
    return l->c->code == site->code && l->in[loop][site->at] != 0;
}

static bool has_maker(const Plan *p, const PlanLoops *l, uint32_t loop) {
    for (uint32_t i = 0; i < p->makers.n; i++) {
        if (is_in(&p->makers.at[i], l, loop)) {
            return true;
        }
    }
    return false;
}

/* A loop around the instruction whose jump back is written by now has to be planned anew. */
static void note_maker(Plan *p, const PlanFrame *f) {
    const PlanSite site = {f->c->code, f->at, 0};
    for (uint32_t i = 0; i < p->makers.n; i++) {
        if (p->makers.at[i].code == site.code && p->makers.at[i].at == site.at) {
            return;
        }
    }
    if (dyn_vec_push(&p->makers, site) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    for (uint32_t k = 0; k < f->loops->n; k++) {
        bool written = (p->unswept >> k & 1) != 0;
        p->more_hints = p->more_hints || (written && f == &p->s.frames[0] && is_in(&site, f->loops, k));
    }
}

void plan_makes(Plan *p) {
    p->r->makes = true;
    for (uint32_t i = 0; i < p->s.nframes; i++) {
        note_maker(p, &p->s.frames[i]);
    }
}

/* ---- at a jump back */

static void hold(Plan *p, uint32_t reg) { plan_emit(p, DYN_RO_HOLDMADE, reg, DYN_NONE, DYN_NONE); }

static void hold_value(Plan *p, const PlanValue *v) {
    switch ((DynRegionKind)v->v.kind) {
    case DYN_RK_METHOD: hold(p, v->v.regs[1]); break;
    case DYN_RK_LIST:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_INST:
    case DYN_RK_TEXT: hold(p, v->v.regs[0]); break;
    default: break;
    }
    for (uint32_t k = 0; dyn_region_has_items(v->v.kind) && k < v->v.n; k++) {
        hold_value(p, &v->items[k]);
    }
}

static void hold_all(Plan *p, const PlanState *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        hold_value(p, &s->values[i]);
    }
}

void plan_sweep(Plan *p, uint32_t head) {
    const PlanLoops *l = plan_frame(p)->loops;
    bool makes = false;
    PlanWays ways;
    for (uint32_t k = 0; k < l->n; k++) {
        makes = makes || (l->heads[k] == head && has_maker(p, l, k));
        if (l->heads[k] == head && p->s.nframes == 1) {
            p->unswept |= UINT32_C(1) << k;
        }
    }
    makes = makes && p->s.routine == 0; /* what the callers of a routine have isn't known there */
    if (!makes || !plan_two_ways(p, plan_emit(p, DYN_RO_CROWDED, DYN_NONE, DYN_NONE, DYN_NONE), &ways)) {
        return;
    }
    hold_all(p, &p->s);
    if (p->resume_at != DYN_NONE) {
        hold_all(p, &p->resume);
    }
    plan_emit(p, DYN_RO_SWEEP, DYN_NONE, DYN_NONE, DYN_NONE);
    plan_end(p, DYN_RO_JMP, DYN_NONE, ways.other, DYN_NONE, DYN_NONE);
    plan_other_way(p, &ways);
}
