/* array_functions.c: NumPy's functions of arrays that are more than an operator: parts and conversions, running sums,
 * differences, variances, sorted orders, joined rows. Called by array_calls.c, whose tables say which arguments they get. What
 * NumPy computes with doubles is computed here by the same operations in the same order. */
#include "tracer/region/plan.h"
#include <opcode.h>

enum { MOST_ROWS = 6 };

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static bool is_given(Plan *p, const PlanValue *args, uint32_t n, uint32_t i) {
    return i < n && args[i].v.kind != DYN_RK_NULL && plan_object(p, &args[i]) != Py_None;
}

/* The only axis of a vector, or the last, said or not. */
static bool is_last_axis(Plan *p, const PlanValue *args, uint32_t n, uint32_t i, uint32_t rank) {
    if (!is_given(p, args, n, i)) {
        return true;
    }
    bool known = args[i].known && args[i].v.kind == DYN_RK_INT;
    return known && (args[i].number.i == -1 || args[i].number.i == (int64_t)rank - 1);
}

static bool is_vector(const PlanValue *v) { return plan_is_whole(v) && plan_rank(v) == 1; }

/* ---- parts and conversions */

/* x.astype(dtype): a copy, in rows where it lay so. */
bool plan_call_astype(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    DynDtype dt;
    if (!plan_is_whole(&args[0]) || n != 2 || !plan_dtype_of(p, &args[1], DYN_F64, &dt)) {
        return no(p, "astype of something else than an array, or with other arguments");
    }
    plan_lay_in_rows(p, &args[0]);
    return dt == args[0].v.dtype ? plan_call_copy(p, arg, args, 1, out) : plan_converted(p, args[0], dt, args, 1, out);
}

/* np.real and np.imag: views. */
bool plan_call_part(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    if (n != 1 || !plan_is_complex_array(&args[0])) {
        return no(p, "a part of something else than complex numbers");
    }
    *out = plan_part(p, &args[0], (uint32_t)arg);
    return true;
}

/* np.angle in radians. */
bool plan_call_angle(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n == 1 && plan_is_complex(&args[0])) {
        PlanValue both[2] = {plan_np(DYN_F64, args[0].v.regs[1]), plan_np(DYN_F64, args[0].v.regs[0])};
        return plan_ufunc_named(p, "arctan2", both, 2, out);
    }
    if (n != 1 || !plan_is_complex_array(&args[0])) {
        return no(p, "the angle of something else than complex numbers");
    }
    PlanValue both[2] = {plan_part(p, &args[0], 1), plan_part(p, &args[0], 0)};
    return plan_ufunc_named(p, "arctan2", both, 2, out);
}

/* x.conj() of complex numbers. */
bool plan_call_conjugate(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return n == 1 && plan_is_complex_array(&args[0]) ? plan_ufunc_named(p, "conjugate", args, 1, out)
                                                     : no(p, "the conjugate of an array that isn't complex");
}

/* ---- one element after the other */

/* Adds up or multiplies, and stores each result: of doubles in the order in which NumPy does. */
static void run_through(Plan *p, const PlanValue *a, const PlanValue *to, DynRegionOp op, uint32_t sum) {
    DynDtype dt = (DynDtype)to->v.dtype;
    PlanCount c = plan_count(p, plan_size(a, 0));
    uint32_t from = plan_emit(p, DYN_RO_IMULW, c.counter, plan_stride(p, a, 0), DYN_NONE);
    uint32_t reg = plan_emit(p, plan_load_op((DynDtype)a->v.dtype), a->v.regs[1], from, DYN_NONE);
    uint32_t next = plan_emit(p, op, sum, reg, DYN_NONE),
             at = plan_emit(p, DYN_RO_IMULW, c.counter, plan_stride(p, to, 0), DYN_NONE);
    plan_emit(p, plan_store_op(dt), to->v.regs[1], at, next);
    plan_emit(p, dt == DYN_F64 ? DYN_RO_DMOV : DYN_RO_IMOV, next, DYN_NONE, DYN_NONE);
    plan_last(p)->dst = sum;
    plan_count_end(p, &c);
}

/* np.cumsum and np.cumprod of vectors; arg: the instruction for doubles. */
bool plan_call_running(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    bool adds = arg == DYN_RO_DADD, doubles = is_vector(&args[0]) && args[0].v.dtype == DYN_F64;
    bool ints = is_vector(&args[0]) && plan_np_type((DynDtype)args[0].v.dtype) == 'I' && dyn_dtypes[args[0].v.dtype].kind != 'u';
    if ((!doubles && !ints) || !is_last_axis(p, args, n, 1, 1) || !plan_make_arrays(p, args, 1)) {
        return no(p, "a running sum of something else than a vector of doubles or ints");
    }
    uint32_t size = plan_size(&args[0], 0);
    PlanValue made = plan_new_array(p, doubles ? DYN_F64 : DYN_I64, &size, 1, args, 1);
    made.sizes = plan_samples(p, &args[0]);
    *out = made;
    if (!doubles) {
        run_through(p, &args[0], &made, adds ? DYN_RO_IADDW : DYN_RO_IMULW, plan_variable(p, plan_iconst(p, !adds)));
        return true;
    }
    p->r->warns = true;
    plan_emit(p, DYN_RO_UNFLAG, DYN_NONE, DYN_NONE, DYN_NONE);
    run_through(p, &args[0], &made, (DynRegionOp)arg, plan_variable(p, plan_dconst(p, adds ? -0.0 : 1.0)));
    plan_emit_or(p, DYN_RO_FLAGS, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    return true;
}

/* np.diff of vectors. */
bool plan_call_diff(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue none = plan_const(p, Py_None), later, earlier;
    bool once = !is_given(p, args, n, 1) || (args[1].known && args[1].number.i == 1);
    if (!is_vector(&args[0]) || args[0].v.dtype == DYN_BOOL || !once || !is_last_axis(p, args, n, 2, 1)) {
        return no(p, "np.diff of something else than a vector");
    }
    return plan_make_arrays(p, args, 1) && plan_item(p, args[0], plan_slice(p, plan_int(1), none, none), &later) &&
           plan_item(p, args[0], plan_slice(p, none, plan_int(-1), none), &earlier) &&
           plan_array_binary(p, NB_SUBTRACT, later, earlier, out);
}

/* np.linspace(start, stop, num): each place times the step, and the start; the last is the stop. */
bool plan_call_linspace(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue num = n > 2 ? args[2] : plan_int(50);
    uint32_t start, stop, zero = plan_dconst(p, 0.0), one = plan_iconst(p, 1);
    bool numbers = n > 1 && plan_is_number(&args[0]) && plan_is_number(&args[1]) && num.v.kind == DYN_RK_INT;
    for (uint32_t k = 0; numbers && k < 2; k++) {
        numbers = args[k].v.kind != DYN_RK_NP || args[k].v.dtype == DYN_F64 || args[k].v.dtype == DYN_I64;
    }
    if (!numbers || !plan_double(p, args[0], &start) || !plan_double(p, args[1], &stop)) {
        return no(p, "np.linspace of something else than numbers");
    }
    uint32_t size = plan_reg(p, &num);
    plan_leave_unless(p, plan_emit(p, DYN_RO_ILT, one, size, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    uint32_t parts = plan_emit(p, DYN_RO_I2D, plan_emit(p, DYN_RO_IADDW, size, plan_iconst(p, -1), DYN_NONE), DYN_NONE, DYN_NONE);
    uint32_t span = plan_emit(p, DYN_RO_DSUB, stop, start, DYN_NONE), step = plan_emit(p, DYN_RO_CDIV, span, parts, DYN_NONE);
    plan_leave_unless(p, plan_emit(p, DYN_RO_ISFINITE, span, DYN_NONE, DYN_NONE), DYN_R_FLAGS);
    plan_leave_unless(p, plan_emit(p, DYN_RO_DNE, step, zero, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    PlanValue made = plan_new_array(p, DYN_F64, &size, 1, NULL, 0);
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 1);
    if (samples == NULL || (num.known && num.number.i > 1 << 15)) {
        return no(p, "a large array is made");
    }
    samples[0] = num.known ? num.number.i : -1;
    made.sizes = samples;
    PlanCount c = plan_count(p, size);
    uint32_t place = plan_emit(p, DYN_RO_I2D, c.counter, DYN_NONE, DYN_NONE);
    uint32_t number = plan_emit(p, DYN_RO_DADD, plan_emit(p, DYN_RO_DMUL, place, step, DYN_NONE), start, DYN_NONE);
    plan_emit(p, DYN_RO_STF64, made.v.regs[1], plan_emit(p, DYN_RO_IMULW, c.counter, plan_iconst(p, 8), DYN_NONE), number);
    plan_count_end(p, &c);
    uint32_t last = plan_emit(p, DYN_RO_IADDW, size, plan_iconst(p, -1), DYN_NONE);
    plan_emit(p, DYN_RO_STF64, made.v.regs[1], plan_emit(p, DYN_RO_IMULW, last, plan_iconst(p, 8), DYN_NONE), stop);
    *out = made;
    return true;
}

/* ---- np.var and np.std (arg) of all elements: (array, axis, dtype, out, ddof) */

bool plan_call_variance(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue a = args[0], ddof = n > 4 && args[4].v.kind != DYN_RK_NULL ? args[4] : plan_int(0), mean, away, square, sum;
    bool odd = is_given(p, args, n, 2) || is_given(p, args, n, 3) || !ddof.known || ddof.v.kind != DYN_RK_INT;
    bool all = !is_given(p, args, n, 1) || (plan_rank(&a) == 1 && is_last_axis(p, args, n, 1, 1));
    bool known = plan_is_whole(&a) && (a.v.dtype == DYN_F64 || plan_np_type((DynDtype)a.v.dtype) == 'I');
    if (odd || !all || !known || !plan_make_arrays(p, &a, 1)) {
        return no(p, "a variance of such an array, or with such arguments");
    }
    if (!plan_fold(p, PLAN_FOLD_MEAN, &a, 1, &mean) || !plan_array_binary(p, NB_SUBTRACT, a, mean, &away) ||
        !plan_make_arrays(p, &away, 1) || !plan_expression(p, PLAN_SQUARE, DYN_F64, DYN_F64, &away, 1, &square) ||
        !plan_fold(p, PLAN_FOLD_SUM, &square, 1, &sum)) {
        return false;
    }
    uint32_t count = plan_size(&a, 0);
    for (uint32_t k = 1; k < a.v.n; k++) {
        count = plan_emit(p, DYN_RO_IMULW, count, plan_size(&a, k), DYN_NONE);
    }
    count = plan_emit(p, DYN_RO_ISUBW, count, plan_iconst(p, ddof.number.i), DYN_NONE);
    plan_leave_unless(p, plan_emit(p, DYN_RO_ILT, plan_iconst(p, 0), count, DYN_NONE), DYN_R_EXCEPTION);
    count = plan_emit(p, DYN_RO_I2D, count, DYN_NONE, DYN_NONE);
    uint32_t reg = plan_emit_or(p, DYN_RO_DDIV, sum.v.regs[0], count, DYN_NONE, DYN_R_FLAGS);
    *out = plan_np(DYN_F64, arg == 0 ? reg : plan_emit_or(p, DYN_RO_SQRT, reg, DYN_NONE, DYN_NONE, DYN_R_FLAGS));
    return true;
}

/* ---- orders */

/* np.sort: a copy, which NumPy sorts. */
bool plan_call_sort(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (!plan_is_whole(&args[0]) || !is_last_axis(p, args, n, 1, plan_rank(&args[0]))) {
        return no(p, "a sort of something else than an array along its last axis");
    }
    plan_lay_in_rows(p, &args[0]);
    if (!plan_make_array(p, &args[0], out)) {
        return false;
    }
    plan_emit_or(p, DYN_RO_ASORT, out->v.regs[0], DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    return true;
}

bool plan_call_argsort(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (!is_vector(&args[0]) || !is_last_axis(p, args, n, 1, 1) || !plan_make_arrays(p, args, 1)) {
        return no(p, "argsort of something else than a vector");
    }
    PlanValue a = args[0];
    if (a.v.kind == DYN_RK_VIEW && !plan_make_array(p, &a, &a)) {
        return false;
    }
    uint32_t size = plan_size(&a, 0);
    PlanValue made = plan_new_array(p, DYN_I64, &size, 1, &a, 1);
    made.sizes = plan_samples(p, &a);
    plan_emit_or(p, DYN_RO_AARGSORT, made.v.regs[0], a.v.regs[0], DYN_NONE, DYN_R_EXCEPTION);
    *out = made;
    return true;
}

/* np.searchsorted of a number in a vector of doubles: by halves, as NumPy does. */
bool plan_call_searchsorted(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PyObject *side = is_given(p, args, n, 2) ? plan_object(p, &args[2]) : NULL;
    bool right = side != NULL && PyUnicode_CheckExact(side) && PyUnicode_CompareWithASCIIString(side, "right") == 0;
    bool left = !is_given(p, args, n, 2) ||
                (side != NULL && PyUnicode_CheckExact(side) && PyUnicode_CompareWithASCIIString(side, "left") == 0);
    bool number = n > 1 && (args[1].v.kind == DYN_RK_FLOAT || (args[1].v.kind == DYN_RK_NP && args[1].v.dtype == DYN_F64));
    if (!is_vector(&args[0]) || args[0].v.dtype != DYN_F64 || !number || (!left && !right) || !plan_make_arrays(p, args, 1)) {
        return no(p, "np.searchsorted of something else than a float in a vector of doubles");
    }
    uint32_t reg = plan_reg(p, &args[1]);
    plan_leave_unless(p, plan_emit(p, DYN_RO_DEQ, reg, reg, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    plan_put_operand(p, &args[0], 0);
    uint32_t found = plan_emit(p, DYN_RO_ASEARCH, plan_iconst(p, right), reg, DYN_NONE);
    *out = plan_np(DYN_I64, found);
    return true;
}

/* np.flatnonzero of a vector: where its mask takes numbers in turn. */
bool plan_call_flatnonzero(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue mask = args[0];
    if (n != 1 || !is_vector(&mask) || mask.v.dtype == DYN_C128) {
        return no(p, "places in something else than a vector");
    }
    if (mask.v.dtype != DYN_BOOL && !plan_array_compare(p, Py_NE, mask, plan_int(0), &mask)) {
        return false;
    }
    return plan_places(p, &mask, out);
}

/* np.nonzero(x), np.where(x) of a vector: a tuple of that alone. */
bool plan_call_nonzero(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue *items = plan_new_tuple(p, 1, out);
    return items != NULL && plan_call_flatnonzero(p, arg, args, n, items);
}

/* ---- joined vectors */

/* np.roll of a vector by an int: its end, and then its beginning. */
bool plan_call_roll(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 2 || !is_vector(&args[0]) || args[0].v.dtype == DYN_C128 || args[1].v.kind != DYN_RK_INT ||
        !plan_make_arrays(p, args, 1)) {
        return no(p, "np.roll of something else than a vector by an int");
    }
    PlanValue *a = &args[0];
    uint32_t size = plan_size(a, 0);
    uint32_t by = plan_emit_or(p, DYN_RO_IMOD, plan_reg(p, &args[1]), size, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    uint32_t rest = plan_emit(p, DYN_RO_ISUBW, size, by, DYN_NONE), zero = plan_iconst(p, 0);
    PlanValue made = plan_new_array(p, (DynDtype)a->v.dtype, &size, 1, a, 1);
    made.sizes = plan_samples(p, a);
    PlanValue end = plan_stretch(p, a, rest, by), begin = plan_stretch(p, a, zero, rest);
    PlanValue first = plan_stretch(p, &made, zero, by), second = plan_stretch(p, &made, by, rest);
    *out = made;
    return plan_fill(p, &end, &first, false) && plan_fill(p, &begin, &second, false);
}

/* np.stack and np.vstack of vectors: rows; np.column_stack (arg): columns. */
bool plan_call_stack(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue items[MOST_ROWS], list = args[0];
    uint32_t rows = list.v.n;
    bool listed = (list.v.kind == DYN_RK_TUPLE || plan_is_literal(&list)) && rows > 0 && rows <= MOST_ROWS;
    bool first = !is_given(p, args, n, 1) || (args[1].known && args[1].number.i == 0);
    bool vectors = listed && first;
    for (uint32_t i = 0; vectors && i < rows; i++) {
        items[i] = list.items[i];
        vectors = is_vector(&items[i]) && items[i].v.dtype == list.items[0].v.dtype && items[i].v.dtype != DYN_C128;
    }
    if (!vectors || !plan_make_arrays(p, items, rows)) {
        return no(p, "a stack of something else than vectors of one dtype");
    }
    uint32_t size = plan_size(&items[0], 0), count = plan_iconst(p, rows);
    const uint32_t sizes[2] = {arg == 0 ? count : size, arg == 0 ? size : count};
    for (uint32_t i = 1; i < rows; i++) {
        plan_same_size(p, size, plan_size(&items[i], 0));
    }
    PlanValue made = plan_new_array(p, (DynDtype)items[0].v.dtype, sizes, 2, items, rows), table = made, row;
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 2);
    if (samples == NULL || (arg != 0 && !plan_transposed(p, &made, &table))) {
        return no(p, "memory");
    }
    samples[arg == 0 ? 0 : 1] = rows;
    samples[arg == 0 ? 1 : 0] = plan_sampled(&items[0], 0);
    made.sizes = samples;
    for (uint32_t i = 0; i < rows; i++) {
        if (!plan_row(p, &table, plan_iconst(p, i), &row) || !plan_fill(p, &items[i], &row, false)) {
            return false;
        }
    }
    *out = made;
    return true;
}
