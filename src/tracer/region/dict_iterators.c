/* dict_iterators.c: loops over dicts, their keys, values and items, and over sets. Called by items.c, values.c and methods.c.
 *
 * An iterator is where it stands in the table, how many items are left, and how many there were when it was made. Where there are
 * as many no more, or where it finds more than were left, the region is left in front of the step, and CPython raises. Keys and
 * values are items as those of lists are, of the kinds that were there when the loop was planned. */
#include "base/cpy_region.h"
#include "tracer/region/plan.h"

static PlanValue *one_value(Plan *p, PlanValue v) {
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, 1);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
    } else {
        items[0] = v;
    }
    return items;
}

static bool iterator_of(Plan *p, DynRegionKind kind, PlanValue over, const uint32_t state[3], PlanValue *out) {
    *out = plan_value(kind, DYN_NONE);
    out->v.n = 1;
    out->v.nregs = 3;
    memcpy(out->v.regs, state, 3 * sizeof *state);
    out->items = one_value(p, over);
    return out->items != NULL;
}

bool plan_dict_iterator(Plan *p, PlanValue over, PlanValue *out) {
    DynRegionKind kind = over.v.kind == DYN_RK_SET ? DYN_RK_SETITER : DYN_RK_KEYITER;
    if (over.v.kind == DYN_RK_DICTVIEW) {
        kind = (DynRegionKind)(DYN_RK_KEYITER + over.v.dtype);
        over = over.items[0];
    }
    uint32_t size = plan_emit(p, DYN_RO_DICTLEN, over.v.regs[0], DYN_NONE, DYN_NONE);
    return iterator_of(p, kind, over, (const uint32_t[]){plan_iconst(p, 0), size, size}, out);
}

bool plan_of_dict_iterator(Plan *p, PyObject *o, PlanValue *v) {
    int which;
    int64_t state[3];
    uint32_t regs[3];
    PyObject *over = dyn_cpy_dict_iterator(o, &which, state);
    PlanValue value;
    if (over == NULL || !plan_of_dict(p, over, PLAN_INNER, &value)) {
        return false;
    }
    for (int k = 0; k < 3; k++) {
        regs[k] = dyn_region_reg(p->r, 'I');
        if (regs[k] == DYN_NONE) {
            plan_stop(p, DYN_R_NO_MEMORY);
            return false;
        }
    }
    return iterator_of(p, (DynRegionKind)(DYN_RK_KEYITER + which), value, regs, v);
}

/* d.keys(), d.values(), d.items(): only to be gone through at once. */
bool plan_dict_view(Plan *p, PlanValue dict, uint8_t which, PlanValue *out) {
    *out = plan_value(DYN_RK_DICTVIEW, DYN_NONE);
    out->v.n = 1;
    out->v.dtype = which;
    out->items = one_value(p, dict);
    return out->items != NULL;
}

uint32_t plan_dict_more(Plan *p, const PlanValue *it) {
    const PlanValue *over = &it->items[0];
    uint32_t place = plan_iconst(p, over->v.kind == DYN_RK_SET ? DYN_CPY_SET_SIZE : DYN_CPY_DICT_SIZE);
    plan_emit_or(p, DYN_RO_SAMESIZE, over->v.regs[0], it->v.regs[2], place, DYN_R_EXCEPTION);
    return plan_emit(p, DYN_RO_DICTNEXT, over->v.regs[0], it->v.regs[0], DYN_NONE);
}

void plan_dict_next(Plan *p, PlanValue *it, uint32_t next, PlanItem *key, PlanItem *value) {
    const PlanValue *over = &it->items[0];
    uint32_t shape = plan_contents(over);
    *key = (PlanItem){plan_emit(p, DYN_RO_FOUNDKEY, DYN_NONE, DYN_NONE, DYN_NONE), plan_keys(p, shape), DYN_NONE, DYN_NONE};
    *value = *key;
    if (over->v.kind == DYN_RK_DICT) {
        *value = (PlanItem){plan_emit(p, DYN_RO_FOUNDVALUE, DYN_NONE, DYN_NONE, DYN_NONE), shape, DYN_NONE, DYN_NONE};
        plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), it->v.regs[1], DYN_NONE, DYN_R_EXCEPTION); /* none should be left */
    }
    it->v.regs[0] = next;
    it->v.regs[1] = plan_emit(p, DYN_RO_IADDW, it->v.regs[1], plan_iconst(p, -1), DYN_NONE);
}

/* A pair of a key and a value, each of one kind. */
bool plan_dict_pair(Plan *p, const PlanItem *key, const PlanItem *value, PlanValue *out) {
    PlanValue *items = plan_new_tuple(p, 2, out);
    return items != NULL && plan_single_item(p, key, &items[0]) && plan_single_item(p, value, &items[1]);
}
