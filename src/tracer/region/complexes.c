/* complexes.c: Python's complex numbers: two registers, and their arithmetic as CPython computes it. Called by numbers.c, names.c
 * and calls.c.
 *
 * Where both parts of a product or quotient are NaN, CPython's versions differ: the region is left there. So are powers, and
 * from CPython 3.14 on operations of a complex with a real number. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

PlanValue plan_complex(uint32_t real, uint32_t imag) {
    PlanValue v = plan_value(DYN_RK_COMPLEX, real);
    v.v.regs[v.v.nregs++] = imag;
    return v;
}

/* A complex, or a real number of Python's as one. */
static bool as_complex(Plan *p, PlanValue v, PlanValue *out) {
    uint32_t real;
    *out = v;
    if (v.v.kind == DYN_RK_COMPLEX) {
        return true;
    }
    if (!plan_is_python_number(&v)) {
        return no(p, "an operand of a complex number that is no number of Python's");
    }
    plan_double(p, v, &real);
    *out = plan_complex(real, plan_dconst(p, 0.0));
    return true;
}

/* Both parts, as `re` and `im` compute them of all four; left where both are NaN. */
static void four_parts(Plan *p, DynRegionOp re, DynRegionOp im, const PlanValue *a, const PlanValue *b, PlanValue *out) {
    uint32_t ac = plan_emit(p, DYN_RO_DMUL, a->v.regs[0], b->v.regs[0], DYN_NONE),
             bd = plan_emit(p, DYN_RO_DMUL, a->v.regs[1], b->v.regs[1], DYN_NONE),
             ad = plan_emit(p, DYN_RO_DMUL, a->v.regs[0], b->v.regs[1], DYN_NONE),
             bc = plan_emit(p, DYN_RO_DMUL, a->v.regs[1], b->v.regs[0], DYN_NONE);
    uint32_t real = plan_emit(p, re, ac, bd, DYN_NONE), imag = plan_emit(p, im, ad, bc, DYN_NONE);
    plan_emit_or(p, DYN_RO_BOTHNAN, real, imag, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    *out = plan_complex(real, imag);
}

static void quotient(Plan *p, const PlanValue *a, const PlanValue *b, PlanValue *out) {
    uint32_t br = b->v.regs[0], bi = b->v.regs[1];
    plan_emit_or(p, DYN_RO_BOTHZERO, br, bi, DYN_NONE, DYN_R_EXCEPTION);
    uint32_t wide = plan_emit(p, DYN_RO_CWIDE, br, bi, DYN_NONE); /* |real| >= |imag| */
    uint32_t large = plan_emit(p, DYN_RO_DSELECT, wide, br, bi), small = plan_emit(p, DYN_RO_DSELECT, wide, bi, br);
    uint32_t ratio = plan_emit(p, DYN_RO_CDIV, small, large, DYN_NONE);
    uint32_t denominator = plan_emit(p, DYN_RO_DADD, large, plan_emit(p, DYN_RO_DMUL, small, ratio, DYN_NONE), DYN_NONE);
    uint32_t ar = a->v.regs[0], ai = a->v.regs[1];
    uint32_t ar_ratio = plan_emit(p, DYN_RO_DMUL, ar, ratio, DYN_NONE), ai_ratio = plan_emit(p, DYN_RO_DMUL, ai, ratio, DYN_NONE);
    uint32_t re1 = plan_emit(p, DYN_RO_DADD, ar, ai_ratio, DYN_NONE), re2 = plan_emit(p, DYN_RO_DADD, ar_ratio, ai, DYN_NONE);
    uint32_t im1 = plan_emit(p, DYN_RO_DSUB, ai, ar_ratio, DYN_NONE), im2 = plan_emit(p, DYN_RO_DSUB, ai_ratio, ar, DYN_NONE);
    uint32_t re = plan_emit(p, DYN_RO_DSELECT, wide, re1, re2), im = plan_emit(p, DYN_RO_DSELECT, wide, im1, im2);
    uint32_t real = plan_emit(p, DYN_RO_CDIV, re, denominator, DYN_NONE),
             imag = plan_emit(p, DYN_RO_CDIV, im, denominator, DYN_NONE);
    plan_emit_or(p, DYN_RO_BOTHNAN, real, imag, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    *out = plan_complex(real, imag);
}

bool plan_complex_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    bool mixed = !plan_is_complex(&a) || !plan_is_complex(&b);
    if (mixed && dyn_cpy_mixes_complex()) {
        return no(p, "a complex and a real number");
    }
    if (!as_complex(p, a, &x) || !as_complex(p, b, &y)) {
        return false;
    }
    switch (op) {
    case NB_ADD:
    case NB_SUBTRACT: {
        DynRegionOp part = op == NB_ADD ? DYN_RO_DADD : DYN_RO_DSUB;
        uint32_t real = plan_emit(p, part, x.v.regs[0], y.v.regs[0], DYN_NONE);
        *out = plan_complex(real, plan_emit(p, part, x.v.regs[1], y.v.regs[1], DYN_NONE));
        return true;
    }
    case NB_MULTIPLY: four_parts(p, DYN_RO_DSUB, DYN_RO_DADD, &x, &y, out); return true;
    case NB_TRUE_DIVIDE: quotient(p, &x, &y, out); return true;
    default: return no(p, "an operator of complex numbers");
    }
}

/* == and != of two complex numbers, or of one and a float. */
bool plan_complex_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    bool ints = a.v.kind == DYN_RK_INT || b.v.kind == DYN_RK_INT;
    if ((op != Py_EQ && op != Py_NE) || ints) {
        return no(p, "a comparison of complex numbers");
    }
    if (!as_complex(p, a, &x) || !as_complex(p, b, &y)) {
        return false;
    }
    uint32_t real = plan_emit(p, DYN_RO_DEQ, x.v.regs[0], y.v.regs[0], DYN_NONE),
             imag = plan_emit(p, DYN_RO_DEQ, x.v.regs[1], y.v.regs[1], DYN_NONE);
    uint32_t same = plan_emit(p, DYN_RO_IAND, real, imag, DYN_NONE);
    *out = plan_value(DYN_RK_BOOL, op == Py_EQ ? same : plan_emit(p, DYN_RO_NOT, same, DYN_NONE, DYN_NONE));
    return true;
}

uint32_t plan_complex_truth(Plan *p, const PlanValue *v) {
    uint32_t zero = plan_dconst(p, 0.0), real = plan_emit(p, DYN_RO_DNE, v->v.regs[0], zero, DYN_NONE);
    return plan_emit(p, DYN_RO_IOR, real, plan_emit(p, DYN_RO_DNE, v->v.regs[1], zero, DYN_NONE), DYN_NONE);
}

bool plan_complex_unary(Plan *p, int op, PlanValue a, PlanValue *out) {
    *out = a;
    if (op == DYN_I_UNARY_NEGATIVE) {
        uint32_t real = plan_emit(p, DYN_RO_DNEG, a.v.regs[0], DYN_NONE, DYN_NONE);
        *out = plan_complex(real, plan_emit(p, DYN_RO_DNEG, a.v.regs[1], DYN_NONE, DYN_NONE));
    }
    return op != DYN_I_UNARY_INVERT || no(p, "~ of a complex number");
}

/* abs(z): left where it isn't finite, which may be an error. */
PlanValue plan_complex_abs(Plan *p, const PlanValue *a) {
    return plan_value(DYN_RK_FLOAT, plan_emit_or(p, DYN_RO_HYPOT, a->v.regs[0], a->v.regs[1], DYN_NONE, DYN_R_EXCEPTION));
}

/* complex(x), complex(x, y) of real numbers. */
bool plan_call_complex(Plan *p, const PlanValue *args, uint32_t n, PlanValue *out) {
    uint32_t parts[2];
    for (uint32_t i = 0; i < n; i++) {
        if (n > 2 || !plan_is_python_number(&args[i])) {
            return no(p, "complex of something that is no real number of Python's");
        }
        plan_double(p, args[i], &parts[i]);
    }
    if (n == 0) {
        return no(p, "complex of nothing");
    }
    *out = plan_complex(parts[0], n == 2 ? parts[1] : plan_dconst(p, 0.0));
    return true;
}
