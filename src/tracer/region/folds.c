/* folds.c: what whole arrays in loops are added up to: sums, means, extremes, their places, any and all, of all elements or along
 * one axis. Called by calls.c and step.c.
 *
 * Sums of doubles are added by NumPy's own loop, in the order in which NumPy calls it: of an array whose axes lie in rows, the
 * last axis of each line, or row upon row where another axis is summed. Integers and bools give the same in any order. */
#include "tracer/region/plan.h"
#include "base/cpy.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static const struct Kind {
    const char *ufunc;  /* that NumPy calls row upon row */
    DynRegionOp line;   /* of a line of doubles; COUNT: none */
    DynDtype of_ints;   /* of the result of integers and bools; NO_DTYPE: of theirs */
    bool needs_element; /* NumPy raises where there is none. */
} kinds[] = {[PLAN_FOLD_SUM] = {"add", DYN_RO_ASUM, DYN_I64, false},
             [PLAN_FOLD_MEAN] = {"add", DYN_RO_ASUM, DYN_F64, true},
             [PLAN_FOLD_MAX] = {"maximum", DYN_RO_AMAX, DYN_NO_DTYPE, true},
             [PLAN_FOLD_MIN] = {"minimum", DYN_RO_AMIN, DYN_NO_DTYPE, true},
             [PLAN_FOLD_ANY] = {NULL, DYN_RO_COUNT, DYN_BOOL, false},
             [PLAN_FOLD_ALL] = {NULL, DYN_RO_COUNT, DYN_BOOL, false},
             [PLAN_FOLD_COUNT] = {NULL, DYN_RO_COUNT, DYN_I64, false},
             [PLAN_FOLD_ARGMAX] = {NULL, DYN_RO_COUNT, DYN_I64, true},
             [PLAN_FOLD_ARGMIN] = {NULL, DYN_RO_COUNT, DYN_I64, true},
             [PLAN_FOLD_PROD] = {"multiply", DYN_RO_COUNT, DYN_I64, false}};

/* ---- one result, element by element */

static void assign(Plan *p, uint32_t to, uint32_t from) {
    plan_emit(p, p->r->regs.at[from] == 'D' ? DYN_RO_DMOV : DYN_RO_IMOV, from, DYN_NONE, DYN_NONE);
    plan_last(p)->dst = to;
}

static void add(Plan *p, const PlanFold *f, uint32_t reg) { assign(p, f->reg, plan_emit(p, f->op, f->reg, reg, DYN_NONE)); }

static void add_larger(Plan *p, const PlanFold *f, uint32_t reg) {
    bool max = f->kind == PLAN_FOLD_MAX;
    uint32_t better = plan_emit(p, DYN_RO_ILT, max ? f->reg : reg, max ? reg : f->reg, DYN_NONE);
    assign(p, f->reg, plan_emit(p, DYN_RO_ISELECT, better, reg, f->reg));
}

/* The first of the largest, or the first that is no number. */
static void add_place(Plan *p, const PlanFold *f, uint32_t reg) {
    bool max = f->kind == PLAN_FOLD_ARGMAX, doubles = f->of == DYN_F64;
    uint32_t better;
    if (doubles) {
        uint32_t worse = plan_emit(p, DYN_RO_DLE, max ? reg : f->best, max ? f->best : reg, DYN_NONE);
        better = plan_emit(p, DYN_RO_NOT, worse, DYN_NONE, DYN_NONE);
        uint32_t number = plan_emit(p, DYN_RO_DEQ, f->best, f->best, DYN_NONE);
        better = plan_emit(p, DYN_RO_IAND, better, number, DYN_NONE);
    } else {
        better = plan_emit(p, DYN_RO_ILT, max ? f->best : reg, max ? reg : f->best, DYN_NONE);
    }
    assign(p, f->reg, plan_emit(p, DYN_RO_ISELECT, better, f->place, f->reg));
    assign(p, f->best, plan_emit(p, doubles ? DYN_RO_DSELECT : DYN_RO_ISELECT, better, reg, f->best));
    assign(p, f->place, plan_emit(p, DYN_RO_IADDW, f->place, plan_iconst(p, 1), DYN_NONE));
}

static PlanFold begin(Plan *p, PlanFoldKind kind, DynDtype of) {
    bool all = kind == PLAN_FOLD_ALL || kind == PLAN_FOLD_PROD, max = kind == PLAN_FOLD_MAX || kind == PLAN_FOLD_ARGMAX;
    int64_t worst = max ? INT64_MIN : INT64_MAX;
    PlanFold f = {.kind = kind, .of = of, .add = add, .op = DYN_RO_IADDW};
    f.op = kind == PLAN_FOLD_ANY ? DYN_RO_IOR : kind == PLAN_FOLD_PROD ? DYN_RO_IMULW : all ? DYN_RO_IAND : DYN_RO_IADDW;
    if (kind == PLAN_FOLD_MAX || kind == PLAN_FOLD_MIN) {
        f.add = add_larger;
        f.reg = plan_variable(p, plan_iconst(p, worst));
    } else {
        f.reg = plan_variable(p, plan_iconst(p, all));
    }
    if (kind == PLAN_FOLD_ARGMAX || kind == PLAN_FOLD_ARGMIN) {
        f.add = add_place;
        f.place = plan_variable(p, plan_iconst(p, 0));
        double infinity = max ? -__builtin_inf() : __builtin_inf();
        f.best = plan_variable(p, of == DYN_F64 ? plan_dconst(p, infinity) : plan_iconst(p, worst));
    }
    return f;
}

/* ---- what is added up, and as what */

/* Sums and means of complex numbers, and products, by the loop of NumPy's ufunc for a line: it adds to what lies in memory. */
static bool is_by_loop(PlanFoldKind kind, DynDtype dt) {
    return dt == DYN_C128 ? kind == PLAN_FOLD_SUM || kind == PLAN_FOLD_MEAN || kind == PLAN_FOLD_PROD
                          : dt == DYN_F64 && kind == PLAN_FOLD_PROD;
}

/* The dtype of the result; NO_DTYPE: it isn't in the language. */
static DynDtype result_of(PlanFoldKind kind, DynDtype dt) {
    bool ints = plan_np_type(dt) == 'I', adds = kind == PLAN_FOLD_SUM || kind == PLAN_FOLD_PROD;
    if (!ints && dt != DYN_F64) {
        return is_by_loop(kind, dt) ? dt : DYN_NO_DTYPE;
    }
    if (ints && adds && dyn_dtypes[dt].kind == 'u') { /* it would be a uint64 */
        return DYN_NO_DTYPE;
    }
    if (dt == DYN_F64 && kind == PLAN_FOLD_PROD) {
        return dt;
    }
    bool own = dt == DYN_F64 ? kinds[kind].line != DYN_RO_COUNT : kinds[kind].of_ints == DYN_NO_DTYPE;
    return own ? dt : kinds[kind].of_ints;
}

enum { BUFFER = 8192 }; /* Elements that NumPy converts or copies at a time, and adds up then. */

static void leave_beyond_buffer(Plan *p, const PlanValue *a) {
    uint32_t all = plan_size(a, 0);
    for (uint32_t k = 1; k < plan_rank(a); k++) {
        all = plan_emit(p, DYN_RO_IMULW, all, plan_size(a, k), DYN_NONE);
    }
    plan_emit_or(p, DYN_RO_IDX, all, plan_iconst(p, BUFFER + 1), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
}

/* The operand as it is gone through: of any and all, bools; a mean of integers is one of doubles. */
static bool prepare(Plan *p, PlanFoldKind kind, PlanValue *a) {
    bool truth = kind == PLAN_FOLD_ANY || kind == PLAN_FOLD_ALL || kind == PLAN_FOLD_COUNT;
    if (truth && a->v.dtype != DYN_BOOL && !plan_array_compare(p, Py_NE, *a, plan_int(0), a)) {
        return false;
    }
    if (kind == PLAN_FOLD_MEAN && a->v.dtype != DYN_F64) {
        leave_beyond_buffer(p, a);
        if (!plan_expression(p, PLAN_SELECT, DYN_F64, DYN_F64, (PlanValue[]){plan_np(DYN_BOOL, plan_iconst(p, 1)), *a, *a}, 3,
                             a)) {
            return false;
        }
    }
    return true;
}

static void leave_without_elements(Plan *p, PlanFoldKind kind, uint32_t n) {
    if (kinds[kind].needs_element) {
        plan_leave_unless(p, plan_emit(p, DYN_RO_ILT, plan_iconst(p, 0), n, DYN_NONE), DYN_R_EXCEPTION);
    }
}

/* A line of doubles, as NumPy adds it up. */
static uint32_t fold_line(Plan *p, PlanFoldKind kind, uint32_t data, uint32_t stride, uint32_t n) {
    p->r->warns = true;
    p->r->whole_arrays = true;
    uint32_t reg = plan_emit_or(p, kinds[kind].line, data, stride, n, DYN_R_FLAGS);
    if (kind == PLAN_FOLD_MEAN) {
        uint32_t count = plan_emit(p, DYN_RO_I2D, n, DYN_NONE, DYN_NONE);
        reg = plan_emit_or(p, DYN_RO_DDIV, reg, count, DYN_NONE, DYN_R_FLAGS);
    }
    return reg;
}

/* ---- all elements */

/* An array of doubles as one line: where it lies in one piece, in rows. */
static bool as_line(Plan *p, const PlanValue *a, uint32_t *stride, uint32_t *n) {
    *n = plan_size(a, 0);
    *stride = plan_stride(p, a, a->v.n - 1u);
    for (uint32_t k = 1; k < a->v.n; k++) {
        uint32_t piece = plan_emit(p, DYN_RO_IMULW, plan_stride(p, a, k), plan_size(a, k), DYN_NONE);
        plan_same_size(p, plan_stride(p, a, k - 1), piece);
        *n = plan_emit(p, DYN_RO_IMULW, *n, plan_size(a, k), DYN_NONE);
    }
    if (a->v.n > 1) { /* steps that go down would be gone through upwards */
        plan_leave_unless(p, plan_emit(p, DYN_RO_ILT, plan_iconst(p, 0), *stride, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    }
    return true;
}

/* Does NumPy add up an array that lies in several pieces as if it lay in one, by way of a buffer? It has from some version on. */
static bool adds_by_buffer(void) {
    static enum { UNKNOWN, NO, YES } known;
    double numbers[] = {1e16, 1.0, 0.0, -1e16, 1.0, 0.0}; /* in pieces 0, in one 1 */
    npy_intp dims[2] = {2, 2}, strides[2] = {3 * sizeof(double), sizeof(double)};
    if (known == UNKNOWN) {
        PyArray_Descr *d = PyArray_DescrFromType(NPY_DOUBLE);
        PyObject *a = PyArray_NewFromDescr(&PyArray_Type, d, 2, dims, strides, numbers, 0, NULL);
        PyObject *sum = a == NULL ? NULL : PyObject_CallMethod(a, "sum", NULL);
        known = sum != NULL && PyFloat_AsDouble(sum) == 1.0 ? YES : NO;
        PyErr_Clear();
        Py_XDECREF(sum);
        Py_XDECREF(a);
    }
    return known == YES;
}

/* Doubles that are added up as one line: an expression, or a view that may lie in pieces, is copied. */
static bool keep_in_rows(Plan *p, PlanValue *a) {
    bool view = a->v.kind == DYN_RK_VIEW && a->v.n > 1;
    if (!plan_is_expression(a) && (!view || !adds_by_buffer())) {
        return true;
    }
    plan_lay_in_rows(p, a);
    if (view) {
        leave_beyond_buffer(p, a);
    }
    return plan_keep(p, a, a);
}

static bool fold_by_loop(Plan *p, PlanFoldKind kind, PlanValue a, PlanValue *out) {
    DynDtype dt = (DynDtype)a.v.dtype, result;
    uint32_t stride, n, first = plan_iconst(p, 0);
    PyObject *o = plan_numpys(kinds[kind].ufunc);
    int loop = o == NULL ? -1 : dyn_region_ufunc_of(o, 2, dt, &result);
    PlanValue f;
    bool known = loop >= 0 && plan_ufunc(p, o, 2, (uint32_t)loop + 1, &f);
    Py_XDECREF(o);
    if (!known || (a.v.kind == DYN_RK_VIEW && a.v.n > 1) || !plan_make_arrays(p, &a, 1) || !as_line(p, &a, &stride, &n)) {
        return no(p, "a reduction of such an array");
    }
    leave_without_elements(p, kind, n);
    PlanValue to = plan_memory(p, dt);
    double begin = kind == PLAN_FOLD_PROD ? 1.0 : 0.0;
    const uint32_t parts[2] = {plan_dconst(p, begin), plan_dconst(p, 0.0)};
    if (dt == DYN_C128) {
        plan_store_parts(p, &to, first, parts);
    } else {
        plan_emit(p, DYN_RO_STF64, to.v.regs[1], first, parts[0]);
    }
    plan_emit(p, DYN_RO_OPERAND, to.v.regs[1], first, n);
    plan_emit(p, DYN_RO_OPERAND, a.v.regs[1], stride, n);
    plan_emit(p, DYN_RO_OPERAND, to.v.regs[1], first, n);
    p->r->whole_arrays = true;
    plan_call_loop(p, &f);
    PlanValue count = plan_value(DYN_RK_INT, n);
    return plan_row(p, &to, first, out) && (kind != PLAN_FOLD_MEAN || plan_complex_binary(p, NB_TRUE_DIVIDE, *out, count, out));
}

static bool fold_all(Plan *p, PlanFoldKind kind, PlanValue a, PlanValue *out) {
    uint32_t stride, n;
    if (is_by_loop(kind, (DynDtype)a.v.dtype)) {
        return fold_by_loop(p, kind, a, out);
    }
    DynDtype dt = result_of(kind, (DynDtype)a.v.dtype);
    if (!prepare(p, kind, &a)) {
        return false;
    }
    bool lines = a.v.dtype == DYN_F64 && kinds[kind].line != DYN_RO_COUNT;
    if (lines) {
        if (!keep_in_rows(p, &a) || !as_line(p, &a, &stride, &n)) {
            return false;
        }
        leave_without_elements(p, kind, n);
        *out = plan_np(dt, fold_line(p, kind, a.v.regs[1], stride, n));
        return true;
    }
    for (uint32_t k = 0; k < plan_rank(&a); k++) {
        leave_without_elements(p, kind, plan_size(&a, k));
    }
    if (plan_reports(&a) && !plan_keep(p, &a, &a)) {
        return false;
    }
    p->r->whole_arrays = true;
    PlanFold f = begin(p, kind, (DynDtype)a.v.dtype);
    *out = plan_np(dt, f.reg);
    return plan_fold_elements(p, &f, &a);
}

/* ---- along an axis */

/* a without the axis, at its place along that in register `at` or, with DYN_NONE, at the first. */
static PlanValue without_axis(Plan *p, const PlanValue *a, uint32_t axis, uint32_t at) {
    PlanValue v = *a;
    uint32_t n = a->v.n;
    v.v.kind = DYN_RK_VIEW;
    v.v.n = (uint8_t)(n - 1);
    v.v.nregs = 2;
    v.sizes = NULL;
    v.v.flags &= (uint8_t) ~(axis + 1 == n ? DYN_RF_CONTIGUOUS : 0);
    if (at != DYN_NONE) {
        uint32_t offset = plan_emit(p, DYN_RO_IMULW, at, plan_stride(p, a, axis), DYN_NONE);
        v.v.regs[1] = plan_emit(p, DYN_RO_PADD, a->v.regs[1], offset, DYN_NONE);
    }
    for (uint32_t k = 0; k < 2 * n; k++) {
        if (k % n != axis) {
            v.v.regs[v.v.nregs++] = k < n ? plan_size(a, k) : plan_stride(p, a, k - n);
        }
    }
    return v;
}

/* Line by line: `to` has an element for each. */
static bool fold_lines(Plan *p, PlanFoldKind kind, const PlanValue *a, uint32_t axis, const PlanValue *to) {
    if (to->v.n > 0) {
        uint32_t first = axis == 0 ? 1 : 0;
        PlanCount c = plan_count(p, plan_size(to, 0));
        PlanValue part = without_axis(p, a, first, c.counter), place = without_axis(p, to, 0, c.counter);
        bool done = fold_lines(p, kind, &part, axis == 0 ? 0 : axis - 1, &place);
        plan_count_end(p, &c);
        return done;
    }
    uint32_t reg;
    if (a->v.dtype == DYN_F64 && kinds[kind].line != DYN_RO_COUNT) {
        reg = fold_line(p, kind, a->v.regs[1], plan_stride(p, a, 0), plan_size(a, 0));
    } else {
        PlanFold f = begin(p, kind, (DynDtype)a->v.dtype);
        if (!plan_fold_elements(p, &f, a)) {
            return false;
        }
        reg = f.reg;
    }
    plan_emit(p, plan_store_op((DynDtype)to->v.dtype), to->v.regs[1], plan_iconst(p, 0), reg);
    return true;
}

/* Row upon row, by the loop of NumPy's ufunc. A sum begins with zeros, an extreme with the first row. */
static bool fold_rows(Plan *p, PlanFoldKind kind, const PlanValue *a, const PlanValue *to) {
    PyObject *o = plan_numpys(kinds[kind].ufunc);
    PlanValue f, zero = plan_np(DYN_F64, plan_dconst(p, 0.0)), row = without_axis(p, a, 0, DYN_NONE);
    bool known = o != NULL && plan_ufunc(p, o, 2, 0, &f), sums = kinds[kind].line == DYN_RO_ASUM;
    Py_XDECREF(o);
    if (!known) {
        return no(p, "too many ufuncs");
    }
    plan_leave_unless(p, plan_emit(p, DYN_RO_INE, plan_size(to, 0), plan_iconst(p, 1), DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    if (!plan_fill(p, sums ? &zero : &row, to, false)) {
        return false;
    }
    plan_emit(p, DYN_RO_UNFLAG, DYN_NONE, DYN_NONE, DYN_NONE);
    PlanCount c = plan_count(p, plan_size(a, 0));
    row = without_axis(p, a, 0, c.counter);
    plan_put_operand(p, to, 0);
    plan_put_operand(p, &row, 0);
    plan_emit_or(p, DYN_RO_UFUNC, f.v.regs[0], f.v.regs[1], to->v.regs[1], DYN_R_FLAGS);
    plan_count_end(p, &c);
    plan_emit_or(p, DYN_RO_FLAGS, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    if (kind == PLAN_FOLD_MEAN) {
        PlanValue count = plan_value(DYN_RK_INT, plan_size(a, 0)), mean;
        return plan_array_binary(p, NB_TRUE_DIVIDE, *to, count, &mean) && plan_fill(p, &mean, to, false);
    }
    return true;
}

static bool fold_axis(Plan *p, PlanFoldKind kind, PlanValue a, uint32_t axis, bool keeps, PlanValue *out) {
    uint32_t rank = plan_rank(&a), sizes[DYN_REGION_RANK], n = 0;
    DynDtype dt = result_of(kind, (DynDtype)a.v.dtype);
    if (!prepare(p, kind, &a)) {
        return false;
    }
    bool doubles = a.v.dtype == DYN_F64 && kinds[kind].line != DYN_RO_COUNT;
    if (is_by_loop(kind, (DynDtype)a.v.dtype)) {
        return no(p, "a product, or of complex numbers, along an axis");
    }
    if (plan_is_expression(&a)) {
        if (!keep_in_rows(p, &a)) {
            return false;
        }
    } else {
        plan_lay_in_rows(p, &a);
    }
    leave_without_elements(p, kind, plan_size(&a, axis));
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    if (samples == NULL) {
        return no(p, "memory");
    }
    for (uint32_t k = 0; k < rank; k++) {
        if (k != axis || keeps) {
            samples[n] = k == axis ? 1 : plan_sampled(&a, rank - 1 - k);
            sizes[n++] = k == axis ? plan_iconst(p, 1) : plan_size(&a, k);
        }
    }
    PlanValue made = plan_new_array(p, dt, sizes, n, &a, 1), to = keeps ? without_axis(p, &made, axis, DYN_NONE) : made;
    made.sizes = samples;
    *out = made;
    if (doubles && axis + 1 < rank) {
        to.v.flags |= DYN_RF_CONTIGUOUS;
        return rank == 2 ? fold_rows(p, kind, &a, &to) : no(p, "a sum along an axis of several that isn't the last");
    }
    return fold_lines(p, kind, &a, axis, &to);
}

/* ---- from calls */

static bool is_given(Plan *p, const PlanValue *args, uint32_t n, uint32_t i) {
    return i < n && args[i].v.kind != DYN_RK_NULL && plan_object(p, &args[i]) != Py_None;
}

bool plan_fold(Plan *p, PlanFoldKind kind, const PlanValue *args, uint32_t n, PlanValue *out) {
    enum { ARRAY, AXIS, DTYPE, OUT, KEEPS };
    PlanValue a = args[ARRAY];
    bool keeps = is_given(p, args, n, KEEPS) && args[KEEPS].known && args[KEEPS].number.i != 0;
    bool odd = is_given(p, args, n, DTYPE) || is_given(p, args, n, OUT) || (is_given(p, args, n, KEEPS) && !args[KEEPS].known);
    if (n == 0 || !plan_is_whole(&a) || odd || result_of(kind, (DynDtype)a.v.dtype) == DYN_NO_DTYPE) {
        return no(p, "a reduction of such an array, or with such arguments");
    }
    if (!is_given(p, args, n, AXIS)) {
        return keeps ? no(p, "a reduction of all axes that keeps them") : fold_all(p, kind, a, out);
    }
    int64_t axis = args[AXIS].known && args[AXIS].v.kind == DYN_RK_INT ? args[AXIS].number.i : INT64_MIN;
    axis = axis < 0 ? axis + plan_rank(&a) : axis;
    if (axis < 0 || axis >= (int64_t)plan_rank(&a)) {
        return no(p, "a reduction along axes that aren't known");
    }
    return plan_rank(&a) == 1 && !keeps ? fold_all(p, kind, a, out) : fold_axis(p, kind, a, (uint32_t)axis, keeps, out);
}
