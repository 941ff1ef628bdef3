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

/* ---- list[a:b] = other[c:d]: what is moved needs no list of its own, where all that lies between reads */

/* How many more values are on the stack behind an instruction that only reads; false: it isn't one. */
static bool only_reads(const DynInstr *in, int *more) {
    switch (in->op) {
    case DYN_I_LOAD_FAST:
    case DYN_I_LOAD_CONST:
    case DYN_I_LOAD_SMALL_INT: *more = 1; return true;
    case DYN_I_BINARY_OP: *more = -1; return in->arg == 0;
    case DYN_I_UNARY_NEGATIVE: *more = 0; return true;
    case DYN_I_BUILD_SLICE: *more = 1 - (int)in->arg; return true;
    default: return false;
    }
}

/* Behind the instruction, len(…) is called of what it gives: `below` values lie below that. */
static bool is_measured_next(Plan *p, uint32_t below) {
    const DynInstr *next = &plan_frame(p)->c->v.at[plan_frame(p)->at + 1];
    PyObject *callee = plan_object(p, plan_top(p, below + !dyn_call_null_first()));
    callee = callee != NULL ? callee : plan_object(p, plan_top(p, below + dyn_call_null_first()));
    return next->op == DYN_I_CALL && next->arg == 1 && !(next->flags & DYN_IF_TARGET) && plan_is_len(callee);
}

bool plan_is_moved_next(Plan *p, const PlanValue *list, uint32_t operands) {
    const DynCode *c = plan_frame(p)->c;
    bool known = list->v.kind == DYN_RK_LIST && !(list->v.flags & DYN_RF_TUPLE) && !p->no_literals;
    int above = 0, more;
    bool slice = false;
    if (known && is_measured_next(p, operands)) {
        return true;
    }
    for (uint32_t at = plan_frame(p)->at + 1; known && at < c->v.n; at++) {
        const DynInstr *in = &c->v.at[at];
        bool target = (in->flags & DYN_IF_TARGET) != 0, stores = in->op == DYN_I_STORE_SLICE && above == 3;
        if (target || stores || (in->op == DYN_I_STORE_SUBSCR && above == 2 && slice)) {
            return !target;
        }
        slice = in->op == DYN_I_BUILD_SLICE;
        known = only_reads(in, &more);
        above += known ? more : 0;
        known = known && above >= 0;
    }
    return false;
}

bool plan_moved(Plan *p, PlanValue list, PlanValue slice, PlanValue *out) {
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, 2);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    items[0] = list;
    items[1] = slice;
    *out = plan_value(DYN_RK_SLICED, DYN_NONE);
    out->v.n = 2;
    out->items = items;
    return true;
}

bool plan_moved_length(Plan *p, const PlanValue *v, PlanValue *out) {
    uint32_t taken, by;
    if (!plan_slice_of(p, plan_list_size(p, &v->items[0]), &v->items[1], &taken, &by)) {
        return false;
    }
    *out = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_SLICEN, taken, DYN_NONE, DYN_NONE));
    return true;
}

/* `step`: of the slice that is stored. */
static bool move(Plan *p, const PlanValue *list, uint32_t where, uint32_t step, const PlanValue *v) {
    const PlanValue *from = &v->items[0];
    uint32_t taken, by;
    if (!plan_slice_of(p, plan_list_size(p, from), &v->items[1], &taken, &by)) {
        return false;
    }
    const PlanShape contents = *plan_shape(p, plan_contents(from));
    plan_settle_doubts(p);
    p->again = plan_join(p, plan_contents(list), &contents) || p->again;
    plan_emit(p, DYN_RO_LFROM, from->v.regs[0], taken, by);
    plan_emit(p, DYN_RO_LSTEP, step, DYN_NONE, DYN_NONE);
    plan_emit_or(p, DYN_RO_LMOVE, list->v.regs[0], where, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
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
    bool moved = v.v.kind == DYN_RK_SLICED;
    if (list.v.kind != DYN_RK_LIST || list.v.flags & DYN_RF_TUPLE || (v.v.kind != DYN_RK_LIST && !moved)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a slice of something else than a list, or from something else");
    }
    if (!plan_slice_of(p, plan_list_size(p, &list), &slice, &where, &step)) {
        return false;
    }
    if (moved) {
        return move(p, &list, where, step, &v);
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
