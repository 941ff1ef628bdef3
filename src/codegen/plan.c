/* plan.c: memory of temporaries: which share a slot. How large a slot is comes out at each call (run.c), since sizes are
 * symbols.
 *
 * Called after schedule.c; kernels' plans for the built-in tier follow (builtin.c). A temporary lives from the first step that
 * writes it to the last that touches it (through views too); slots are shared by temporaries of one shape and element size whose
 * lives don't overlap. Memory for one row has a slot of its own. */
#include "base/log.h"
#include "codegen/loops.h"

static bool in_group(const DynLoops *p, const DynStep *step, uint32_t group) {
    return step->kind == DYN_STEP_KERNEL && p->kernels.at[step->id].group == group;
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
    /* kernels of one group run interleaved: what lives in a part of it lives in all of it */
    for (uint32_t i = 0; i < p->nplaces; i++) {
        DynMem *m = &p->places[i];
        for (uint32_t s = 0; s < p->steps.n && m->first != DYN_NONE; s++) {
            const DynStep *step = &p->steps.at[s];
            uint32_t group = step->kind == DYN_STEP_KERNEL ? p->kernels.at[step->id].group : DYN_NONE;
            if (group == DYN_NONE) {
                continue;
            }
            const DynStep *a = &p->steps.at[m->first], *b = &p->steps.at[m->last];
            m->first = s < m->first && in_group(p, a, group) ? s : m->first;
            m->last = s > m->last && in_group(p, b, group) ? s : m->last;
        }
    }
}

static bool can_share(const DynMem *a, const DynMem *b) {
    return a->kind == DYN_P_TEMP && b->kind == DYN_P_TEMP && a->ndim == b->ndim &&
           dyn_dtypes[a->dtype].size == dyn_dtypes[b->dtype].size && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim) &&
           (a->last < b->first || b->last < a->first);
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
    if (dyn_builtin_plan(p) < 0) {
        *why = DYN_R_NO_MEMORY;
        return -1;
    }
    return 0;
}
