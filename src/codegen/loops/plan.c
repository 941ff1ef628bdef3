/* plan.c: memory of temporaries: which share a slot. How large a slot is comes out at each call (run.c), since sizes are
 * symbols.
 *
 * Called after schedule.c; when arrays may go (drops.c) and kernels' plans for the built-in tier follow (builtin.c). A temporary
 * lives from the first step that writes it to the last that touches it (through views too); slots are shared by temporaries of
 * one shape and element size whose lives don't overlap. Memory for one row has a slot of its own. */
#include "base/log.h"
#include "codegen/loops/loops.h"

static bool runs_with(const DynLoops *p, const DynStep *step, const DynStep *other, uint32_t group) {
    if (other->chain != 0 && step->chain == other->chain) {
        return true;
    }
    return group != DYN_NONE && step->kind == DYN_STEP_KERNEL && p->kernels.at[step->id].group == group;
}

/* A pair runs where the first of it is: what lives anywhere between the two lives all the while. */
static void with_pairs(const DynLoops *p, uint32_t *first, uint32_t *last) {
    for (uint32_t i = 0; p->npairs > 0 && i < p->steps.n; i++) {
        for (uint32_t j = i + 1; p->steps.at[i].pair != 0 && j < p->steps.n; j++) {
            if (p->steps.at[i].pair == p->steps.at[j].pair && i <= *last && *first <= j) {
                *first = i < *first ? i : *first;
                *last = j > *last ? j : *last;
            }
        }
    }
}

void dyn_steps_together(const DynLoops *p, uint32_t s, uint32_t *first, uint32_t *last) {
    const DynStep *step = &p->steps.at[s];
    uint32_t group = step->kind == DYN_STEP_KERNEL ? p->kernels.at[step->id].group : DYN_NONE;
    for (*first = *last = s; *first > 0 && runs_with(p, &p->steps.at[*first - 1], step, group); --*first) {
    }
    while (*last + 1 < p->steps.n && runs_with(p, &p->steps.at[*last + 1], step, group)) {
        ++*last;
    }
    with_pairs(p, first, last);
    if (p->device && *first == *last) {
        *first = dyn_loops_tails_head(p, s);
        *last = dyn_loops_tails_end(p, *first) - 1;
    }
}

static void find_lives(DynLoops *p) {
    for (uint32_t i = 0; i < p->nplaces; i++) {
        p->places[i].first = DYN_NONE;
        p->places[i].last = 0;
        p->places[i].slot = DYN_NONE;
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        const DynKernel *k = step->kind == DYN_STEP_KERNEL ? &p->kernels.at[step->id] : NULL;
        for (uint32_t o = 0; k && o < k->operands.n; o++) {
            DynMem *m = &p->places[dyn_loops_storage(p, k->operands.at[o].place)];
            m->first = m->first == DYN_NONE ? s : m->first;
            m->last = s;
        }
        for (uint32_t i = 0; i < p->nplaces && (step->kind == DYN_STEP_SCAN || step->kind == DYN_STEP_CHECK); i++) {
            if (dyn_step_scans(p, step, i)) {
                p->places[i].first = p->places[i].first == DYN_NONE ? s : p->places[i].first;
                p->places[i].last = s;
            }
        }
    }
    /* kernels of one group, and steps of one chain, run interleaved: what lives in a part of it lives in all of it */
    for (uint32_t i = 0; i < p->nplaces; i++) {
        DynMem *m = &p->places[i];
        uint32_t other;
        if (m->first != DYN_NONE) {
            dyn_steps_together(p, m->first, &m->first, &other);
            dyn_steps_together(p, m->last, &other, &m->last);
        }
    }
}

static bool can_share(const DynMem *a, const DynMem *b) {
    bool temporaries = a->kind == DYN_P_TEMP && b->kind == DYN_P_TEMP;
    bool same_shape = a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim);
    bool same_size = same_shape && dyn_dtypes[a->dtype].size == dyn_dtypes[b->dtype].size;
    return temporaries && same_size && (a->last < b->first || b->last < a->first);
}

static bool is_free(const DynLoops *p, uint32_t slot, uint32_t place) {
    for (uint32_t i = 0; i < place; i++) {
        if (p->places[i].slot == slot && !can_share(&p->places[i], &p->places[place])) {
            return false;
        }
    }
    return true;
}

static void give_slot(DynLoops *p, uint32_t place, uint32_t slot) {
    p->places[place].slot = slot;
    p->nslots = slot < p->nslots ? p->nslots : slot + 1;
}

int dyn_plan(DynLoops *p, DynReason *why, DynStr *error) {
    *why = DYN_R_OK;
    find_lives(p);
    for (uint32_t i = 0; i < p->nplaces; i++) { /* rows first: threads copy them as one piece */
        if (p->places[i].kind == DYN_P_ROW) {
            give_slot(p, i, p->nslots);
        }
    }
    p->nrow_slots = p->nslots;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        uint32_t slot = p->nrow_slots;
        if (p->places[i].kind == DYN_P_TEMP) {
            while (slot < p->nslots && !is_free(p, slot, i)) {
                slot++;
            }
            give_slot(p, i, slot);
        }
    }
    if (dyn_drops(p) < 0 || (!p->device && dyn_builtin_plan(p) < 0)) {
        *why = DYN_R_NO_MEMORY;
        return -1;
    }
    return 0;
}
