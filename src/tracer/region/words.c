/* words.c: np.uint64, whose register holds its bits, and what makes a number an integer of NumPy's with a width of its own.
 * Called by numbers.c, items.c and calls.c.
 *
 * plan_is_number says no of a np.uint64, as most of what is known of numbers takes a register of ints for a signed one. What is
 * known of it stands here; the rest refuses it. */
#include "tracer/region/plan.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* A constant that only an unsigned word can hold. */
static bool is_large_const(Plan *p, const PlanValue *v, uint64_t *number) {
    PyObject *o = plan_object(p, v);
    if (o == NULL || !PyLong_CheckExact(o)) {
        return false;
    }
    *number = PyLong_AsUnsignedLongLong(o);
    bool fits = PyErr_Occurred() == NULL;
    PyErr_Clear();
    return fits;
}

static bool is_unsigned(const PlanValue *v) {
    bool numpys = v->v.kind == DYN_RK_NP && (dyn_dtypes[v->v.dtype].kind == 'u' || v->v.dtype == DYN_BOOL);
    return numpys || v->v.kind == DYN_RK_BOOL;
}

bool plan_can_be_word(Plan *p, const PlanValue *v) {
    uint64_t number;
    return is_unsigned(v) || v->v.kind == DYN_RK_INT || is_large_const(p, v, &number);
}

static void leave_if_negative(Plan *p, uint32_t reg) {
    plan_leave_unless(p, plan_emit(p, DYN_RO_ILE, plan_iconst(p, 0), reg, DYN_NONE), DYN_R_EXCEPTION);
}

/* The bits of the np.uint64 that v is, or is beside one: a negative int of Python's is an OverflowError. */
bool plan_word(Plan *p, PlanValue v, uint32_t *reg) {
    uint64_t number;
    if (is_large_const(p, &v, &number)) {
        *reg = plan_iconst(p, (int64_t)number);
        return true;
    }
    if (!plan_can_be_word(p, &v)) {
        return no(p, "an operand beside a np.uint64");
    }
    *reg = plan_reg(p, &v);
    if (v.v.kind == DYN_RK_INT && !(v.known && v.number.i >= 0)) {
        leave_if_negative(p, *reg);
    }
    return true;
}

PlanValue plan_word_as_int(Plan *p, PlanValue v) {
    if (plan_is_word(&v)) {
        leave_if_negative(p, v.v.regs[0]);
        v.v.dtype = DYN_I64;
    }
    return v;
}

static bool is_overflow_ignored(void) {
    dyn_cpy_hold_signals();
    PyObject *geterr = dyn_module_attr("numpy", "geterr"), *all = geterr == NULL ? NULL : PyObject_CallNoArgs(geterr);
    dyn_cpy_release_signals();
    PyObject *over = all == NULL ? NULL : PyDict_GetItemString(all, "over");
    bool ignored = over != NULL && PyUnicode_CompareWithASCIIString(over, "ignore") == 0;
    Py_XDECREF(all);
    Py_XDECREF(geterr);
    PyErr_Clear();
    return ignored;
}

bool plan_wraps(Plan *p) {
    if (p->overflow == PLAN_NOT_ASKED) {
        p->overflow = is_overflow_ignored() ? PLAN_IGNORED : PLAN_REPORTED;
    }
    p->r->wraps = p->r->wraps || p->overflow == PLAN_IGNORED;
    return p->overflow == PLAN_IGNORED;
}

uint32_t plan_wrapped(Plan *p, uint32_t reg, DynDtype dt) {
    if (dt == DYN_I64 || dt == DYN_U64) {
        return reg;
    }
    int bits = 8 * dyn_dtypes[dt].size;
    reg = plan_emit(p, DYN_RO_WRAP, reg, DYN_NONE, DYN_NONE);
    plan_last(p)->imm.i = dyn_dtypes[dt].kind == 'u' ? -bits : bits;
    return reg;
}

/* ---- operators */

static const struct Row {
    int op;
    DynRegionOp checked, wrapping;
} rows[] = {{NB_ADD, DYN_RO_UADD, DYN_RO_IADDW},      {NB_SUBTRACT, DYN_RO_USUB, DYN_RO_ISUBW},
            {NB_MULTIPLY, DYN_RO_UMUL, DYN_RO_IMULW}, {NB_FLOOR_DIVIDE, DYN_RO_UDIV, DYN_RO_UDIV},
            {NB_REMAINDER, DYN_RO_UMOD, DYN_RO_UMOD}, {NB_AND, DYN_RO_IAND, DYN_RO_IAND},
            {NB_OR, DYN_RO_IOR, DYN_RO_IOR},          {NB_XOR, DYN_RO_IXOR, DYN_RO_IXOR},
            {NB_LSHIFT, DYN_RO_ISHLW, DYN_RO_ISHLW},  {NB_RSHIFT, DYN_RO_USHR, DYN_RO_USHR}};

bool plan_word_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y;
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if (rows[i].op == op) {
            if (!plan_word(p, a, &x) || !plan_word(p, b, &y)) {
                return false;
            }
            bool wraps = rows[i].checked != rows[i].wrapping && plan_wraps(p);
            *out = plan_np(DYN_U64, plan_emit_op(p, wraps ? rows[i].wrapping : rows[i].checked, x, y, DYN_R_FLAGS));
            return true;
        }
    }
    return no(p, "an operator of np.uint64");
}

bool plan_word_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y, r;
    if (!plan_word(p, a, &x) || !plan_word(p, b, &y)) {
        return false;
    }
    switch (op) {
    case Py_LT: r = plan_emit(p, DYN_RO_ULT, x, y, DYN_NONE); break;
    case Py_LE: r = plan_emit(p, DYN_RO_ULE, x, y, DYN_NONE); break;
    case Py_EQ: r = plan_emit(p, DYN_RO_IEQ, x, y, DYN_NONE); break;
    case Py_NE: r = plan_emit(p, DYN_RO_INE, x, y, DYN_NONE); break;
    case Py_GT: r = plan_emit(p, DYN_RO_ULT, y, x, DYN_NONE); break;
    default: r = plan_emit(p, DYN_RO_ULE, y, x, DYN_NONE); break;
    }
    *out = plan_np(DYN_BOOL, r);
    return true;
}

/* ---- constructors */

/* np.float64(x) and its like. An integer of NumPy's is cut to the bits that there are; one of Python's has to fit. */
bool plan_call_scalar(Plan *p, int dtype, PlanValue *args, uint32_t n, PlanValue *out) {
    DynDtype dt = (DynDtype)dtype;
    uint32_t parts[2];
    if (n == 1 && dt == DYN_C128) {
        if (!plan_complex_parts(p, args[0], parts)) {
            return false;
        }
        *out = plan_np_complex(parts[0], parts[1]);
        return true;
    }
    if (n != 1) {
        return no(p, "another number of arguments");
    }
    bool integer = args[0].v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)args[0].v.dtype);
    if (integer && dyn_dtype_is_integer(dt)) {
        *out = plan_np(dt, plan_wrapped(p, plan_reg(p, &args[0]), dt));
        return true;
    }
    if (!plan_as_element(p, args[0], dt, &parts[0])) {
        return false;
    }
    *out = plan_np(dt, parts[0]);
    return true;
}
