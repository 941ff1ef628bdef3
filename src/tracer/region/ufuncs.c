/* ufuncs.c: ufuncs and operators of arrays and numbers that NumPy's own loops compute, whatever the dtype: complex numbers, `//`,
 * `%`, `**`, np.maximum of ints, np.exp. Called by expressions.c, calls.c and array_calls.c. The loop is the one that NumPy would
 * take, and is called as NumPy calls it, so results are its own to the bit; what it has to report leaves the region.
 *
 * An operand of another dtype than the loop's is converted first, into an array of the loop's own. */
#include "tracer/region/plan.h"
#include <opcode.h>

enum {
    MOST_OPERANDS = 3,
    RESULT = 2, /* Memory of one's own (region_arrays.c): of a result that is no array. */
    FEW = 32, /* Elements up to which a function that takes long is computed here when the loop is planned: for more, graphs have
               * vectors of it that are several times as fast as NumPy's loop. */
    MOST = 256, /* … and when it runs. */
};

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* ---- which loop */

/* The dtype that an operand of NumPy's has; NO_DTYPE: it is a number of Python's. */
static DynDtype own_dtype(const PlanValue *v) {
    bool numpys = plan_is_whole(v) || v->v.kind == DYN_RK_NP || plan_is_np_complex(v);
    return numpys ? (DynDtype)v->v.dtype : DYN_NO_DTYPE;
}

/* The dtype in which a Python number is computed with what is of dtype dt; NO_DTYPE: with Python's numbers alone. */
static DynDtype beside_python(DynDtype dt, const PlanValue *v) {
    if (plan_is_complex(v)) {
        return dt == DYN_F32 ? DYN_NO_DTYPE : DYN_C128;
    }
    if (v->v.kind == DYN_RK_FLOAT) {
        return dt != DYN_NO_DTYPE && dyn_dtype_is_inexact(dt) ? dt : DYN_F64;
    }
    if (v->v.kind == DYN_RK_INT) {
        return dt == DYN_NO_DTYPE || dt == DYN_BOOL ? DYN_I64 : dt;
    }
    return dt == DYN_NO_DTYPE ? DYN_BOOL : dt;
}

/* The dtype that all operands go to; NO_DTYPE: none that loops in native code have. */
static DynDtype common_dtype(Plan *p, const PlanValue *args, uint32_t n) {
    DynDtype dt = DYN_NO_DTYPE;
    for (uint32_t i = 0; i < n; i++) {
        DynDtype own = own_dtype(&args[i]);
        PlanValue a = plan_np(dt, DYN_NONE), b = plan_np(own, DYN_NONE);
        if (own == DYN_NO_DTYPE && !plan_is_number(&args[i]) && !plan_is_complex(&args[i])) {
            no(p, "a ufunc of something else than arrays and numbers");
            return DYN_NO_DTYPE;
        }
        if (own != DYN_NO_DTYPE) {
            dt = dt == DYN_NO_DTYPE ? own : plan_promote(&a, &b);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (own_dtype(&args[i]) == DYN_NO_DTYPE) {
            dt = beside_python(dt, &args[i]);
        }
    }
    if (!plan_is_element(dt)) {
        no(p, "a ufunc of these dtypes");
        return DYN_NO_DTYPE;
    }
    return dt;
}

/* The loop, and the dtypes of its operands and result. Of integers of 32 bits and more that have none it is that of doubles. */
static int find_loop(PyObject *o, uint32_t n, DynDtype *dt, DynDtype *result) {
    int loop = dyn_region_ufunc_of(o, (int)n, *dt, result);
    bool as_double = *dt == DYN_I64 || *dt == DYN_I32 || *dt == DYN_U32;
    if (loop < 0 && as_double) {
        *dt = DYN_F64;
        loop = dyn_region_ufunc_of(o, (int)n, *dt, result);
    }
    return loop >= 0 && plan_is_element(*result) ? loop : -1;
}

/* Does its loop take about as long as reading and writing the elements? Of ints and complex numbers it is the only one. */
static bool is_quick(PyObject *o, DynDtype dt) {
    static const char *const names[] = {"add",   "subtract", "multiply",     "divide",    "negative", "positive",  "absolute",
                                        "fabs",  "sqrt",     "square",       "maximum",   "minimum",  "fmax",      "fmin",
                                        "floor", "ceil",     "trunc",        "rint",      "sign",     "copysign",  "clip",
                                        "isnan", "isfinite", "floor_divide", "remainder", "isinf",    "reciprocal"};
    bool quick = dt != DYN_F64 && dt != DYN_F32;
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        quick = quick || strcmp(((PyUFuncObject *)o)->name, names[i]) == 0;
    }
    return quick;
}

/* Few enough elements for a function that takes long, as it was planned; and where it runs? */
static bool is_short(Plan *p, const PlanValue *v) {
    int64_t all = 1;
    uint32_t rank = plan_rank(v), size = plan_iconst(p, 1);
    for (uint32_t k = 0; k < rank; k++) {
        all *= plan_sample(v, k);
        size = plan_emit(p, DYN_RO_IMULW, size, plan_size(v, k), DYN_NONE);
    }
    if (all > FEW) {
        return no(p, "a function that takes long, of many elements");
    }
    plan_emit_or(p, DYN_RO_IDX, size, plan_iconst(p, MOST + 1), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* ---- operands */

/* Doubles as integers of 64 bits: cut off; what doesn't fit is NumPy's to report. */
static bool is_cut(DynDtype from, DynDtype to) { return (from == DYN_F64 || from == DYN_F32) && to == DYN_I64; }

bool plan_converted(Plan *p, PlanValue a, DynDtype dt, const PlanValue *reads, uint32_t n, PlanValue *out) {
    PlanValue e, all[3] = {plan_np(DYN_BOOL, plan_iconst(p, 1)), a, a};
    uint32_t sizes[DYN_REGION_RANK], rank = plan_rank(&a);
    DynDtype from = (DynDtype)a.v.dtype;
    if (dt == DYN_C128) {
        for (uint32_t k = 0; k < rank; k++) {
            sizes[k] = plan_size(&a, k);
        }
        PlanValue made = plan_new_array(p, DYN_C128, sizes, rank, reads, n);
        made.sizes = plan_samples(p, &a);
        *out = made;
        return plan_store_whole(p, &made, a);
    }
    if (from == DYN_C128 || (from == DYN_F64 && !is_cut(from, dt))) {
        return no(p, "an array is converted to such a dtype");
    }
    if (is_cut(from, dt)) {
        return plan_expression(p, DYN_RO_D2I, dt, DYN_F64, &a, 1, &e) && plan_make_beside(p, &e, reads, n, out);
    }
    return plan_expression(p, PLAN_SELECT, dt, dt, all, 3, &e) && plan_make_beside(p, &e, reads, n, out);
}

/* Arrays of dtype dt, and numbers as they are. */
static bool convert(Plan *p, PlanValue *items, uint32_t n, DynDtype dt) {
    if (!plan_make_arrays(p, items, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (plan_is_whole(&items[i]) && items[i].v.dtype != dt && !plan_converted(p, items[i], dt, items, n, &items[i])) {
            return false;
        }
    }
    return true;
}

/* Numbers are put into registers in front of all that is told: that may be left. */
static bool as_numbers(Plan *p, PlanValue *items, uint32_t n, DynDtype dt) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t regs[2] = {DYN_NONE, DYN_NONE};
        if (plan_is_whole(&items[i])) {
            continue;
        }
        if (dt == DYN_C128 ? !plan_complex_parts(p, items[i], regs) : !plan_as_element(p, items[i], dt, &regs[0])) {
            return false;
        }
        items[i] = dt == DYN_C128 ? plan_np_complex(regs[0], regs[1]) : plan_np(dt, regs[0]);
    }
    return true;
}

void plan_tell(Plan *p, const PlanValue *v, uint32_t rank) {
    uint32_t own = v->v.n, zero;
    plan_put_operand(p, v, own - 1);
    for (uint32_t k = 1; k < rank; k++) {
        zero = k < own ? DYN_NONE : plan_iconst(p, 0);
        plan_emit(p, DYN_RO_STRIDE, k < own ? plan_stride(p, v, own - 1 - k) : zero, DYN_NONE, DYN_NONE);
    }
}

static void tell(Plan *p, const PlanValue *v, uint32_t rank) {
    if (plan_is_array(v)) {
        plan_tell(p, v, rank);
    } else if (plan_is_complex(v)) {
        plan_emit(p, DYN_RO_OPERANDC, v->v.regs[0], v->v.regs[1], DYN_NONE);
    } else {
        char type = plan_np_type((DynDtype)v->v.dtype);
        DynRegionOp op = type == 'D' ? DYN_RO_OPERANDD : type == 'S' ? DYN_RO_OPERANDS : DYN_RO_OPERANDI;
        plan_emit(p, op, v->v.regs[0], DYN_NONE, DYN_NONE);
    }
}

/* ---- results */

/* Where the result goes: a new array, or with no axes memory of one's own. */
static PlanValue place_of(Plan *p, const PlanValue *all, DynDtype dt) {
    uint32_t rank = plan_rank(all), sizes[DYN_REGION_RANK];
    if (rank > 0) {
        for (uint32_t k = 0; k < rank; k++) {
            sizes[k] = plan_size(all, k);
        }
        plan_lay_in_rows(p, all);
        PlanValue made = plan_new_array(p, dt, sizes, rank, all->items, all->v.n);
        made.sizes = plan_samples(p, all);
        return made;
    }
    return plan_memory(p, dt);
}

PlanValue plan_memory(Plan *p, DynDtype dt) {
    uint32_t bytes = plan_iconst(p, 2 * sizeof(double)), one = plan_iconst(p, 1);
    PlanValue to = plan_value(DYN_RK_VIEW, plan_emit(p, DYN_RO_PNULL, DYN_NONE, DYN_NONE, DYN_NONE));
    to.v.dtype = (uint8_t)dt;
    plan_lay(p, &to, plan_emit_or(p, DYN_RO_SCRATCH, bytes, plan_iconst(p, RESULT), DYN_NONE, DYN_R_UNSUPPORTED_VALUE), &one, 1);
    return to;
}

void plan_call_loop(Plan *p, const PlanValue *f) {
    p->r->warns = true;
    plan_emit(p, DYN_RO_UNFLAG, DYN_NONE, DYN_NONE, DYN_NONE);
    plan_emit_or(p, DYN_RO_UFUNCTO, f->v.regs[0], f->v.regs[1], DYN_NONE, DYN_R_FLAGS);
    plan_emit_or(p, DYN_RO_FLAGS, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
}

static bool call(Plan *p, PyObject *o, int loop, PlanValue *items, uint32_t n, DynDtype dt, PlanValue *out) {
    PlanValue all, f;
    if (!plan_joined(p, items, n, &all)) {
        return false;
    }
    all.v.dtype = (uint8_t)dt;
    uint32_t rank = plan_rank(&all);
    if (plan_is_large(&all)) {
        return no(p, "a large array is computed");
    }
    if (rank > 0 && !is_quick(o, (DynDtype)items[0].v.dtype) && !is_short(p, &all)) {
        return false;
    }
    if (!plan_ufunc(p, o, n, (uint32_t)loop + 1, &f)) {
        return no(p, "too many ufuncs");
    }
    PlanValue to = place_of(p, &all, dt);
    p->r->whole_arrays = p->r->whole_arrays || rank > 0;
    for (uint32_t i = 0; i < n; i++) {
        tell(p, &items[i], rank);
    }
    tell(p, &to, rank);
    for (uint32_t k = 1; k < rank; k++) {
        plan_emit(p, DYN_RO_AROUND, plan_size(&to, rank - 1 - k), DYN_NONE, DYN_NONE);
    }
    plan_call_loop(p, &f);
    *out = to;
    return rank > 0 || plan_row(p, &to, plan_iconst(p, 0), out);
}

bool plan_ufunc_call(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, MOST_OPERANDS);
    DynDtype dt, result = DYN_NO_DTYPE;
    if (n == 0 || n > MOST_OPERANDS || items == NULL) {
        return no(p, "a ufunc of other operands");
    }
    dt = common_dtype(p, args, n);
    if (dt == DYN_NO_DTYPE) {
        return false;
    }
    int loop = find_loop(o, n, &dt, &result);
    if (loop < 0) {
        return no(p, "a ufunc that isn't known, or of other dtypes");
    }
    memcpy(items, args, n * sizeof *args);
    return convert(p, items, n, dt) && as_numbers(p, items, n, dt) && call(p, o, loop, items, n, result, out);
}

PyObject *plan_numpys(const char *name) {
    PyObject *o = dyn_module_attr("numpy", name);
    PyErr_Clear();
    return o;
}

bool plan_ufunc_named(Plan *p, const char *name, const PlanValue *args, uint32_t n, PlanValue *out) {
    PyObject *o = plan_numpys(name);
    bool done = o != NULL ? plan_ufunc_call(p, o, args, n, out) : no(p, "a ufunc that isn't known");
    Py_XDECREF(o); /* the region has it */
    return done;
}

/* NumPy takes other ufuncs for some exponents: for 2 it is known which. */
static bool is_special(const PlanValue *v) {
    double x = v->v.kind == DYN_RK_FLOAT ? v->number.f : (double)v->number.i;
    return !v->known || x == -1.0 || x == 0.0 || x == 0.5 || x == 1.0;
}

bool plan_ufunc_of_operator(Plan *p, int op, const PlanValue *both, PlanValue *out) {
    static const struct {
        int op;
        const char *name;
    } names[] = {{NB_ADD, "add"},
                 {NB_SUBTRACT, "subtract"},
                 {NB_MULTIPLY, "multiply"},
                 {NB_TRUE_DIVIDE, "divide"},
                 {NB_FLOOR_DIVIDE, "floor_divide"},
                 {NB_REMAINDER, "remainder"},
                 {NB_POWER, "power"},
                 {NB_AND, "bitwise_and"},
                 {NB_OR, "bitwise_or"},
                 {NB_XOR, "bitwise_xor"},
                 {NB_LSHIFT, "left_shift"},
                 {NB_RSHIFT, "right_shift"}};
    const PlanValue *by = &both[1];
    if (op == NB_POWER && !plan_is_whole(by)) {
        bool two = by->known && (by->v.kind == DYN_RK_FLOAT ? by->number.f == 2.0 : by->number.i == 2);
        if (two && plan_is_whole(&both[0])) {
            return plan_ufunc_named(p, "square", both, 1, out);
        }
        if (is_special(by)) {
            return no(p, "an exponent for which NumPy computes something else");
        }
    }
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (names[i].op == op) {
            return plan_ufunc_named(p, names[i].name, both, 2, out);
        }
    }
    return no(p, "an operator of arrays that loops in native code don't have");
}

bool plan_ufunc_of_code(Plan *p, int code, PlanValue a, PlanValue *out) {
    switch (code) {
    case DYN_RO_DNEG: return plan_ufunc_named(p, "negative", &a, 1, out);
    case DYN_RO_DABS: return plan_ufunc_named(p, "absolute", &a, 1, out);
    case DYN_RO_SQRT: return plan_ufunc_named(p, "sqrt", &a, 1, out);
    case DYN_RO_FLOOR: return plan_ufunc_named(p, "floor", &a, 1, out);
    case DYN_RO_CEIL: return plan_ufunc_named(p, "ceil", &a, 1, out);
    case DYN_RO_ISNAN: return plan_ufunc_named(p, "isnan", &a, 1, out);
    case DYN_RO_ISINF: return plan_ufunc_named(p, "isinf", &a, 1, out);
    case DYN_RO_ISFINITE: return plan_ufunc_named(p, "isfinite", &a, 1, out);
    default: return no(p, "a function of arrays that loops in native code don't have");
    }
}
