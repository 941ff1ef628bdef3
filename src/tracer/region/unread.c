/* unread.c: slots whose values aren't read any more: what they hold is of no account for what a place is compiled for, and at the
 * head of a loop a register may tell what it is. Slots that a region leaves as they were are of no account on its way in. Called
 * by plan.c. */
#include "tracer/region/plan.h"

static uint32_t nothing(Plan *p, char type) {
    switch (type) {
    case 'P': return plan_emit(p, DYN_RO_PNULL, DYN_NONE, DYN_NONE, DYN_NONE);
    case 'D': return plan_emit(p, DYN_RO_DCONST, DYN_NONE, DYN_NONE, DYN_NONE);
    case 'S': return plan_emit(p, DYN_RO_SZERO, DYN_NONE, DYN_NONE, DYN_NONE);
    default: return plan_emit(p, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE);
    }
}

/* What stands for all numbers in registers of a type, where it is told apart by another register. */
static DynRegionKind common_kind(char type) { return type == 'D' ? DYN_RK_FLOAT : type == 'I' ? DYN_RK_INT : DYN_RK_NP; }

/* A slot whose value isn't read, at a head for which there is a hint: that value, or None beside numbers, or what was there at
 * the entry. */
static void apply_hint(Plan *p, const PlanHint *hint, PlanValue *v) {
    const DynRegionValue *to = &hint->value;
    bool same = v->v.kind == to->kind && v->v.dtype == to->dtype && v->v.n == to->n && v->v.nregs + 1 == to->nregs;
    bool number = plan_is_number(v) && to->nregs == 2 && to->kind == common_kind(p->r->regs.at[v->v.regs[0]]);
    bool none = plan_object(p, v) == Py_None && to->nregs == 2 && to->kind == common_kind(hint->types[0]);
    if (v->v.flags & DYN_RF_MAYBE) {
        return;
    }
    if (number || (same && (v->v.flags | DYN_RF_MAYBE | DYN_RF_DROPPABLE) == to->flags)) {
        v->v.regs[v->v.nregs++] = plan_iconst(p, dyn_region_what(&v->v));
        v->v.kind = to->kind;
        v->v.dtype = to->dtype;
        v->known = false;
    } else if (none || (v->v.kind == DYN_RK_ENTRY && v->v.ref == hint->slot && v->v.flags & DYN_RF_DROPPABLE)) {
        int64_t what = none ? dyn_region_what(&v->v) : 0;
        v->v = *to;
        for (uint32_t i = 0; i + 1 < to->nregs; i++) {
            v->v.regs[i] = nothing(p, hint->types[i]);
        }
        v->v.regs[to->nregs - 1] = plan_iconst(p, what);
    } else {
        return;
    }
    v->v.flags = to->flags;
    v->v.ref = hint->slot;
}

static bool begins_empty(const Plan *p, uint32_t at, uint32_t slot) {
    for (uint32_t i = 0; i < p->versions.n; i++) {
        const PlanState *s = p->versions.at[i].state;
        const DynRegionValue *v = &s->values[slot].v;
        if (s->nframes == 1 && s->frames[0].at == at && v->kind == DYN_RK_ENTRY && v->ref == slot &&
            v->flags & DYN_RF_DROPPABLE) {
            return true;
        }
    }
    return false;
}

static bool is_container(const PlanValue *v) {
    return v->v.kind == DYN_RK_LIST || v->v.kind == DYN_RK_INST || v->v.kind == DYN_RK_DICT || v->v.kind == DYN_RK_SET ||
           v->v.kind == DYN_RK_DEQUE;
}

static void add_hint(Plan *p, uint32_t at, uint32_t slot, PlanValue *v) {
    PlanHint hint = {.at = at, .slot = slot};
    bool told = (v->v.flags & DYN_RF_MAYBE) != 0; /* by a register already: a hint of a loop within this one */
    bool simple = v->v.kind != DYN_RK_ENTRY && !dyn_region_has_items(v->v.kind) && v->v.kind != DYN_RK_CONST &&
                  v->v.kind != DYN_RK_NULL && !is_container(v);
    bool fits = told || (v->v.nregs + 1 < DYN_REGION_REGS && v->v.ref == DYN_NONE);
    if (!simple || !fits || !begins_empty(p, at, slot)) {
        return;
    }
    plan_reg(p, v);
    hint.value = v->v;
    for (uint32_t i = 0; i < v->v.nregs; i++) {
        hint.types[i] = p->r->regs.at[v->v.regs[i]];
    }
    if (!told && plan_is_number(v) && hint.types[0] != 'S') {
        hint.value.kind = (uint8_t)common_kind(hint.types[0]);
        hint.value.dtype = 0;
    }
    if (!told) {
        hint.types[hint.value.nregs++] = 'I';
        hint.value.flags |= DYN_RF_MAYBE | DYN_RF_DROPPABLE;
    }
    if (dyn_vec_push(&p->hints, hint) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    p->more_hints = true;
}

void plan_forget_unread(Plan *p) {
    const PlanFrame *f = plan_frame(p);
    for (uint32_t s = 0; s < f->loops->nslots; s++) {
        PlanValue *v = &p->s.values[f->base + s];
        if (plan_is_live(f->loops, f->at, s) || plan_is_own_cell(p, s) || f->driver == PLAN_FOR) {
            continue; /* where the region is left, a generator has all of its variables */
        }
        if (p->s.nframes > 1) { /* nobody sees the variables of an inlined call */
            *v = plan_value(DYN_RK_NULL, DYN_NONE);
            continue;
        }
        const PlanHint *hint = NULL;
        for (uint32_t i = 0; i < p->hints.n && hint == NULL; i++) {
            hint = p->hints.at[i].at == f->at && p->hints.at[i].slot == s ? &p->hints.at[i] : NULL;
        }
        if (hint != NULL) {
            plan_reg(p, v);
            apply_hint(p, hint, v);
        } else if (plan_is_head(f->loops, f->at)) {
            add_hint(p, f->at, s, v);
        }
    }
}

/* ---- slots that no exit changes */

/* Where the value behind this one, and what that is made of, stands. */
static uint32_t place_behind(const DynRegionValues *values, uint32_t at) {
    const DynRegionValue *v = &values->at[at++];
    for (uint32_t i = 0; dyn_region_has_items(v->kind) && i < v->n; i++) {
        at = place_behind(values, at);
    }
    return at;
}

static bool is_left_alone(const DynRegion *r, uint32_t slot) {
    bool alone = slot < r->nslots;
    for (uint32_t i = 0; i < r->exits.n && alone; i++) {
        const DynRegionValues *values = &r->exits.at[i].values;
        uint32_t at = 0;
        for (uint32_t k = 0; k < slot && !r->exits.at[i].gives_up; k++) {
            at = place_behind(values, at);
        }
        alone = r->exits.at[i].gives_up || (values->at[at].kind == DYN_RK_ENTRY && values->at[at].ref == slot);
    }
    return alone;
}

/* What lies in a slot that keeps its object may be anything: to look through a long list for what could run code when it is
 * dropped, at each entry, takes longer than many a loop. */
static void forget_ends(Plan *p) {
    for (uint32_t i = 0; i < p->r->entries.n; i++) {
        DynRegionValues *values = &p->r->entries.at[i].values;
        for (uint32_t at = 0; at < values->n; at++) {
            DynRegionValue *v = &values->at[at];
            if (v->kind == DYN_RK_ENTRY && v->flags == DYN_RF_DROPPABLE && is_left_alone(p->r, v->ref)) {
                v->flags = 0;
            }
        }
    }
}

/* What every entry needs that isn't in its slots, now that all of it is known. */
void plan_complete_entries(Plan *p) {
    for (uint32_t i = 0; i < p->r->entries.n; i++) {
        for (uint32_t k = 0; k < p->extras.n; k++) {
            if (dyn_vec_push(&p->r->entries.at[i].values, p->extras.at[k]) < 0) {
                plan_stop(p, DYN_R_NO_MEMORY);
            }
        }
    }
    plan_tell_tuples(p);
    p->r->nextra = p->extras.n;
    forget_ends(p);
}
