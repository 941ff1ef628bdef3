/* linalg.c: numpy.linalg's functions of small matrices of doubles, by NumPy's own loops (ir/region_arrays.c). Called through the
 * table of array_calls.c. */
#include "tracer/region/plan.h"

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static bool is_of_doubles(const PlanValue *v, uint32_t rank) {
    return plan_is_array(v) && v->v.n == rank && v->v.dtype == DYN_F64 && !plan_is_large(v);
}

static void put_operands(Plan *p, const PlanValue *a, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t axis = 0; axis < a[i].v.n; axis++) {
            plan_put_operand(p, &a[i], axis);
        }
    }
}

static void compute(Plan *p, uint32_t to, int64_t which) {
    plan_emit_or(p, DYN_RO_LINALG, to, plan_iconst(p, which), DYN_NONE, DYN_R_EXCEPTION);
}

/* np.linalg.solve(a, b) */
bool plan_call_solve(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 2 || !plan_make_arrays(p, args, 2)) {
        return n == 2 ? false : no(p, "another number of arguments");
    }
    bool many = is_of_doubles(&args[1], 2);
    if (!is_of_doubles(&args[0], 2) || !(many || is_of_doubles(&args[1], 1))) {
        return no(p, "a system of other equations than few ones of doubles");
    }
    const uint32_t sizes[2] = {plan_size(&args[1], 0), many ? plan_size(&args[1], 1) : DYN_NONE};
    PlanValue made = plan_new_array(p, DYN_F64, sizes, args[1].v.n, args, 2);
    made.sizes = args[1].sizes;
    put_operands(p, args, 2);
    compute(p, made.v.regs[1], many ? DYN_LINALG_SOLVE_MANY : DYN_LINALG_SOLVE);
    *out = made;
    return true;
}

/* np.linalg.inv(a), cholesky(a) and det(a): `which` is one of DYN_LINALG_*. */
bool plan_call_of_matrix(Plan *p, int which, PlanValue *args, uint32_t n, PlanValue *out) {
    if (n != 1 || !plan_make_arrays(p, args, 1)) {
        return n == 1 ? false : no(p, "another number of arguments");
    }
    if (!is_of_doubles(&args[0], 2)) {
        return no(p, "a function of something else than a small matrix of doubles");
    }
    const uint32_t sizes[2] = {plan_size(&args[0], 0), plan_size(&args[0], 1)};
    if (which == DYN_LINALG_DET) {
        PlanValue to = plan_memory(p, DYN_F64);
        p->r->warns = true;
        put_operands(p, args, 1);
        compute(p, to.v.regs[1], which);
        return plan_row(p, &to, plan_iconst(p, 0), out);
    }
    PlanValue made = plan_new_array(p, DYN_F64, sizes, 2, args, 1);
    made.sizes = args[0].sizes;
    put_operands(p, args, 1);
    compute(p, made.v.regs[1], which);
    *out = made;
    return true;
}

/* np.trace(a): NumPy adds up the diagonal as a vector of that stride. */
bool plan_call_trace(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 1 || !plan_make_arrays(p, args, 1)) {
        return n == 1 ? false : no(p, "another number of arguments");
    }
    if (!is_of_doubles(&args[0], 2)) {
        return no(p, "the trace of something else than a small matrix of doubles");
    }
    uint32_t rows = plan_size(&args[0], 0), columns = plan_size(&args[0], 1);
    PlanValue diagonal = args[0];
    diagonal.v.kind = DYN_RK_VIEW;
    diagonal.v.n = 1;
    diagonal.v.nregs = 4;
    diagonal.v.flags &= DYN_RF_WRITEABLE;
    diagonal.sizes = NULL;
    diagonal.v.regs[2] = plan_emit(p, DYN_RO_ISELECT, plan_emit(p, DYN_RO_ILT, rows, columns, DYN_NONE), rows, columns);
    diagonal.v.regs[3] = plan_emit(p, DYN_RO_IADDW, plan_stride(p, &args[0], 0), plan_stride(p, &args[0], 1), DYN_NONE);
    return plan_fold(p, PLAN_FOLD_SUM, &diagonal, 1, out);
}
