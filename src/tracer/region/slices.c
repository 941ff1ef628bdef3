/* slices.c: slices of lists, read and stored. Called by step.c and methods.c. A slice is no object here: it lasts from where it
 * is built to where it is used. */
#include "tracer/region/plan.h"

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

PlanValue plan_slice(Plan *p, PlanValue start, PlanValue stop, PlanValue step) {
    PlanValue v = plan_value(DYN_RK_SLICE, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, 3);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return v;
    }
    v.v.n = 3;
    items[0] = start;
    items[1] = stop;
    items[2] = step;
    v.items = items;
    return v;
}

PlanValue plan_const_slice(Plan *p, PlanValue v) {
    PyObject *o = plan_object(p, &v);
    if (o == NULL || !PySlice_Check(o)) {
        return v;
    }
    const PySliceObject *slice = (PySliceObject *)o;
    return plan_slice(p, plan_const(p, slice->start), plan_const(p, slice->stop), plan_const(p, slice->step));
}

Went plan_build_slice(Plan *p, uint32_t n) {
    PlanValue step = n == 3 ? plan_pop(p) : plan_const(p, Py_None), stop = plan_pop(p), start = plan_pop(p);
    plan_push(p, plan_slice(p, start, stop, step));
    return WENT_ON;
}

static bool bound(Plan *p, PlanValue v, int64_t otherwise, uint32_t *reg) {
    if (plan_object(p, &v) == Py_None) {
        *reg = plan_iconst(p, otherwise);
        return true;
    }
    if (!plan_is_integer(&v)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a bound of a slice that is no int");
    }
    *reg = plan_reg(p, &v);
    return true;
}

/* A step that isn't a known number has to be positive. */
bool plan_slice_of(Plan *p, uint32_t length, const PlanValue *slice, uint32_t *where, uint32_t *by) {
    PlanValue step = plan_object(p, &slice->items[2]) == Py_None ? plan_int(1) : slice->items[2];
    int64_t known = step.known ? step.number.i : 1;
    uint32_t start, stop;
    if (step.v.kind != DYN_RK_INT || known == 0 || known > INT32_MAX || known < INT32_MIN) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a slice with such a step");
    }
    int64_t first = known < 0 ? INT64_MAX : 0, last = known < 0 ? INT64_MIN : INT64_MAX;
    if (!bound(p, slice->items[0], first, &start) || !bound(p, slice->items[1], last, &stop)) {
        return false;
    }
    *by = plan_reg(p, &step);
    *where = plan_emit_or(p, DYN_RO_SLICE, start, stop, length, DYN_R_UNSUPPORTED_VALUE);
    plan_last(p)->imm.i = known;
    if (!step.known) {
        *where = plan_emit_or(p, DYN_RO_SLICEBY, *where, *by, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    return true;
}

bool plan_slice_item(Plan *p, PlanValue list, PlanValue slice, PlanValue *out) {
    uint32_t where, step;
    if (list.v.kind != DYN_RK_LIST || list.v.flags & DYN_RF_TUPLE) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a slice of something else than a list");
    }
    if (!plan_slice_of(p, plan_list_size(p, &list), &slice, &where, &step)) {
        return false;
    }
    uint32_t reg = plan_emit_or(p, DYN_RO_LSLICE, list.v.regs[0], where, step, DYN_R_UNSUPPORTED_VALUE);
    *out = plan_made(p, DYN_RK_LIST, reg);
    const PlanShape from = *plan_shape(p, plan_contents(&list));
    if (plan_join(p, plan_contents(out), &from)) {
        out->v.ref = plan_bits(p, plan_contents(out));
    }
    return true;
}

bool plan_store_slice(Plan *p, PlanValue list, PlanValue slice, PlanValue v) {
    uint32_t where, step;
    v = plan_tuple_object(p, &v);
    if (list.v.kind != DYN_RK_LIST || list.v.flags & DYN_RF_TUPLE || v.v.kind != DYN_RK_LIST) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a slice of something else than a list, or from something else");
    }
    if (!plan_slice_of(p, plan_list_size(p, &list), &slice, &where, &step)) {
        return false;
    }
    const PlanShape from = *plan_shape(p, plan_contents(&v));
    plan_settle_doubts(p);
    if (plan_join(p, plan_contents(&list), &from)) {
        p->again = true;
    }
    plan_emit(p, DYN_RO_LSTEP, step, DYN_NONE, DYN_NONE);
    plan_emit_or(p, DYN_RO_LASSIGN, list.v.regs[0], where, v.v.regs[0], DYN_R_UNSUPPORTED_VALUE);
    return true;
}
