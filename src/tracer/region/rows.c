/* rows.c: rows of arrays of several axes that are chosen by a vector of ints or bools, as an array of their own. Called by
 * fills.c. */
#include "tracer/region/plan.h"

bool plan_take_rows(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out) {
    PlanValue both[2] = {*a, *index};
    uint32_t sizes[DYN_REGION_RANK], n = plan_size(index, 0);
    if (a->v.dtype == DYN_C128 || plan_is_large(a)) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "rows of a large array, or of complex numbers");
        return false;
    }
    for (uint32_t k = 0; k < a->v.n; k++) {
        sizes[k] = k == 0 ? n : plan_size(a, k);
    }
    PlanValue made = plan_new_array(p, (DynDtype)a->v.dtype, sizes, a->v.n, both, 2), from, to;
    PlanCount c = plan_count(p, n);
    uint32_t i = plan_index_at(p, index, c.counter, plan_size(a, 0), true);
    bool done = plan_row(p, a, i, &from) && plan_row(p, &made, c.counter, &to) && plan_fill(p, &from, &to, false);
    plan_count_end(p, &c);
    *out = made;
    return done;
}

bool plan_take_masked_rows(Plan *p, const PlanValue *a, const PlanValue *mask, PlanValue *out) {
    PlanValue places;
    plan_same_size(p, plan_size(a, 0), plan_size(mask, 0));
    return plan_places(p, mask, &places) && plan_take_rows(p, a, &places, out);
}
