/* complexes.c: complex numbers, Python's and NumPy's: two registers, and their arithmetic as CPython computes it. Called by
 * numbers.c, names.c and calls.c.
 *
 * np.complex128 is the same with NumPy's arithmetic: another quotient, and the region is left where a result isn't finite, which
 * NumPy may report.
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

PlanValue plan_np_complex(uint32_t real, uint32_t imag) {
    PlanValue v = plan_complex(real, imag);
    v.v.dtype = DYN_C128;
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

/* ---- NumPy's */

static bool as_np_complex(Plan *p, PlanValue v, PlanValue *out) {
    uint32_t real;
    *out = v;
    if (!plan_is_complex(&v)) {
        if (!plan_is_number(&v)) {
            return no(p, "an operand of a complex number that is no number");
        }
        plan_double(p, v, &real);
        *out = plan_np_complex(real, plan_dconst(p, 0.0));
    }
    return true;
}

bool plan_complex_parts(Plan *p, PlanValue v, uint32_t parts[2]) {
    PlanValue z;
    if (!as_np_complex(p, v, &z)) {
        return false;
    }
    parts[0] = z.v.regs[0];
    parts[1] = z.v.regs[1];
    return true;
}

static void leave_unless_finite(Plan *p, uint32_t reg) {
    plan_leave_unless(p, plan_emit(p, DYN_RO_ISFINITE, reg, DYN_NONE, DYN_NONE), DYN_R_FLAGS);
}

/* As NumPy's scalars divide: by the reciprocal of the denominator. */
static PlanValue np_quotient(Plan *p, const PlanValue *a, const PlanValue *b) {
    uint32_t br = b->v.regs[0], bi = b->v.regs[1], ar = a->v.regs[0], ai = a->v.regs[1];
    plan_emit_or(p, DYN_RO_BOTHZERO, br, bi, DYN_NONE, DYN_R_FLAGS);
    uint32_t wide = plan_emit(p, DYN_RO_CWIDE, br, bi, DYN_NONE); /* |real| >= |imag| */
    uint32_t large = plan_emit(p, DYN_RO_DSELECT, wide, br, bi), small = plan_emit(p, DYN_RO_DSELECT, wide, bi, br);
    uint32_t ratio = plan_emit(p, DYN_RO_CDIV, small, large, DYN_NONE);
    uint32_t denominator = plan_emit(p, DYN_RO_DADD, large, plan_emit(p, DYN_RO_DMUL, small, ratio, DYN_NONE), DYN_NONE);
    uint32_t scale = plan_emit(p, DYN_RO_CDIV, plan_dconst(p, 1.0), denominator, DYN_NONE);
    uint32_t ar_ratio = plan_emit(p, DYN_RO_DMUL, ar, ratio, DYN_NONE), ai_ratio = plan_emit(p, DYN_RO_DMUL, ai, ratio, DYN_NONE);
    uint32_t re1 = plan_emit(p, DYN_RO_DADD, ar, ai_ratio, DYN_NONE), re2 = plan_emit(p, DYN_RO_DADD, ar_ratio, ai, DYN_NONE);
    uint32_t im1 = plan_emit(p, DYN_RO_DSUB, ai, ar_ratio, DYN_NONE), im2 = plan_emit(p, DYN_RO_DSUB, ai_ratio, ar, DYN_NONE);
    uint32_t re = plan_emit(p, DYN_RO_DSELECT, wide, re1, re2), im = plan_emit(p, DYN_RO_DSELECT, wide, im1, im2);
    leave_unless_finite(p, denominator);
    uint32_t real = plan_emit(p, DYN_RO_DMUL, re, scale, DYN_NONE);
    return plan_np_complex(real, plan_emit(p, DYN_RO_DMUL, im, scale, DYN_NONE));
}

static bool np_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    bool single = (a.v.kind == DYN_RK_NP && a.v.dtype == DYN_F32) || (b.v.kind == DYN_RK_NP && b.v.dtype == DYN_F32);
    if (single && !plan_is_np_complex(&a) && !plan_is_np_complex(&b)) {
        return no(p, "a complex number of single precision");
    }
    if (!as_np_complex(p, a, &x) || !as_np_complex(p, b, &y)) {
        return false;
    }
    const uint32_t *r = x.v.regs, *s = y.v.regs;
    DynRegionOp part = op == NB_ADD ? DYN_RO_DADD : DYN_RO_DSUB;
    uint32_t real, imag;
    switch (op) {
    case NB_ADD:
    case NB_SUBTRACT:
        real = plan_emit(p, part, r[0], s[0], DYN_NONE);
        *out = plan_np_complex(real, plan_emit(p, part, r[1], s[1], DYN_NONE));
        break;
    case NB_MULTIPLY:
        real = plan_emit(p, DYN_RO_DMUL, r[1], s[1], DYN_NONE);
        real = plan_emit(p, DYN_RO_DSUB, plan_emit(p, DYN_RO_DMUL, r[0], s[0], DYN_NONE), real, DYN_NONE);
        imag = plan_emit(p, DYN_RO_DMUL, r[1], s[0], DYN_NONE);
        imag = plan_emit(p, DYN_RO_DADD, plan_emit(p, DYN_RO_DMUL, r[0], s[1], DYN_NONE), imag, DYN_NONE);
        *out = plan_np_complex(real, imag);
        break;
    case NB_TRUE_DIVIDE: *out = np_quotient(p, &x, &y); break;
    default: return no(p, "an operator of np.complex128");
    }
    p->r->warns = true;
    leave_unless_finite(p, out->v.regs[0]);
    leave_unless_finite(p, out->v.regs[1]);
    return true;
}

/* Python's complex numbers take np.float64, which is a float, for one of Python's where it comes second. */
static PlanValue beside_complex(const PlanValue *a, PlanValue b) {
    bool as_float = plan_is_complex(a) && !plan_is_np_complex(a) && b.v.kind == DYN_RK_NP && b.v.dtype == DYN_F64;
    return as_float ? plan_value(DYN_RK_FLOAT, b.v.regs[0]) : b;
}

/* From CPython 3.14 on a real number has no imaginary part, as in Annex G of C99: one of x and y is real, and as a complex number
 * has it in its first register. */
static bool mixed_binary(Plan *p, int op, const PlanValue *x, const PlanValue *y, bool y_is_real, PlanValue *out) {
    const PlanValue *z = y_is_real ? x : y, *r = y_is_real ? y : x;
    uint32_t re = z->v.regs[0], im = z->v.regs[1], real = r->v.regs[0];
    switch (op) {
    case NB_ADD: *out = plan_complex(plan_emit(p, DYN_RO_DADD, re, real, DYN_NONE), im); return true;
    case NB_SUBTRACT:
        *out = plan_complex(plan_emit(p, DYN_RO_DSUB, x->v.regs[0], y->v.regs[0], DYN_NONE),
                            y_is_real ? im : plan_emit(p, DYN_RO_DNEG, im, DYN_NONE, DYN_NONE));
        return true;
    case NB_MULTIPLY:
        re = plan_emit(p, DYN_RO_DMUL, re, real, DYN_NONE);
        *out = plan_complex(re, plan_emit(p, DYN_RO_DMUL, im, real, DYN_NONE));
        return true;
    case NB_TRUE_DIVIDE:
        if (!y_is_real) {
            return no(p, "a real number divided by a complex one");
        }
        plan_emit_or(p, DYN_RO_BOTHZERO, real, real, DYN_NONE, DYN_R_EXCEPTION);
        re = plan_emit(p, DYN_RO_CDIV, re, real, DYN_NONE);
        *out = plan_complex(re, plan_emit(p, DYN_RO_CDIV, im, real, DYN_NONE));
        return true;
    default: return no(p, "an operator of a complex and a real number");
    }
}

bool plan_complex_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue x, y;
    b = beside_complex(&a, b);
    if (plan_is_np_complex(&a) || plan_is_np_complex(&b) || a.v.kind == DYN_RK_NP || b.v.kind == DYN_RK_NP) {
        return np_binary(p, op, a, b, out);
    }
    if (!as_complex(p, a, &x) || !as_complex(p, b, &y)) {
        return false;
    }
    if (dyn_cpy_mixes_complex() && (!plan_is_complex(&a) || !plan_is_complex(&b))) {
        return mixed_binary(p, op, &x, &y, plan_is_complex(&a), out);
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
    b = beside_complex(&a, b);
    bool numpy = plan_is_np_complex(&a) || plan_is_np_complex(&b) || a.v.kind == DYN_RK_NP || b.v.kind == DYN_RK_NP;
    bool ints = !numpy && (a.v.kind == DYN_RK_INT || b.v.kind == DYN_RK_INT);
    if ((op != Py_EQ && op != Py_NE) || ints) {
        return no(p, "a comparison of complex numbers");
    }
    if (numpy ? !as_np_complex(p, a, &x) || !as_np_complex(p, b, &y) : !as_complex(p, a, &x) || !as_complex(p, b, &y)) {
        return false;
    }
    uint32_t real = plan_emit(p, DYN_RO_DEQ, x.v.regs[0], y.v.regs[0], DYN_NONE),
             imag = plan_emit(p, DYN_RO_DEQ, x.v.regs[1], y.v.regs[1], DYN_NONE);
    uint32_t same = plan_emit(p, DYN_RO_IAND, real, imag, DYN_NONE);
    same = op == Py_EQ ? same : plan_emit(p, DYN_RO_NOT, same, DYN_NONE, DYN_NONE);
    *out = numpy ? plan_np(DYN_BOOL, same) : plan_value(DYN_RK_BOOL, same);
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
        out->v.dtype = a.v.dtype;
    }
    return op != DYN_I_UNARY_INVERT || no(p, "~ of a complex number");
}

void plan_store_parts(Plan *p, const PlanValue *a, uint32_t offset, const uint32_t parts[2]) {
    uint32_t behind = plan_emit(p, DYN_RO_IADDW, offset, plan_iconst(p, sizeof(double)), DYN_NONE);
    plan_emit(p, DYN_RO_STF64, a->v.regs[1], offset, parts[0]);
    plan_emit(p, DYN_RO_STF64, a->v.regs[1], behind, parts[1]);
}

/* abs(z): left where it isn't finite, which may be an error. */
PlanValue plan_complex_abs(Plan *p, const PlanValue *a) {
    uint32_t size = plan_emit_or(p, DYN_RO_HYPOT, a->v.regs[0], a->v.regs[1], DYN_NONE, DYN_R_EXCEPTION);
    return plan_is_np_complex(a) ? plan_np(DYN_F64, size) : plan_value(DYN_RK_FLOAT, size);
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

/* ---- arrays */

bool plan_pairs(Plan *p, const PlanValue *v, PlanValue *out) {
    uint32_t rank = v->v.n, sizes[DYN_REGION_RANK], strides[DYN_REGION_RANK];
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    if (rank >= DYN_REGION_RANK || samples == NULL) {
        return no(p, "complex numbers in as many axes");
    }
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = plan_size(v, k);
        strides[k] = plan_stride(p, v, k);
        samples[k] = plan_sampled(v, rank - 1 - k);
    }
    sizes[rank] = plan_iconst(p, samples[rank] = 2);
    strides[rank] = plan_iconst(p, sizeof(double));
    PlanValue pairs = plan_value(DYN_RK_VIEW, v->v.regs[0]);
    pairs.v.dtype = DYN_F64;
    pairs.v.n = (uint8_t)(rank + 1);
    pairs.v.flags = (uint8_t)(DYN_RF_CONTIGUOUS | (v->v.flags & DYN_RF_WRITEABLE));
    pairs.sizes = samples;
    pairs.v.regs[pairs.v.nregs++] = v->v.regs[1];
    for (uint32_t k = 0; k < 2 * pairs.v.n; k++) {
        pairs.v.regs[pairs.v.nregs++] = k <= rank ? sizes[k] : strides[k - rank - 1];
    }
    *out = pairs;
    return true;
}

PlanValue plan_part(Plan *p, const PlanValue *v, uint32_t which) {
    PlanValue part = *v;
    part.v.kind = DYN_RK_VIEW;
    part.v.dtype = DYN_F64;
    part.v.flags = v->v.flags & DYN_RF_WRITEABLE;
    part.v.regs[1 + 2 * v->v.n] = plan_stride(p, v, v->v.n - 1u);
    part.v.regs[1] = plan_emit(p, DYN_RO_PADD, v->v.regs[1], plan_iconst(p, (int64_t)(which * sizeof(double))), DYN_NONE);
    return part;
}
