/* rec_complex.c: Python complex numbers that vary: 2j * np.pi * f, complex(a, b), z.real, abs(z). A shadow DV_COMPLEX has a float
 * symbol for each part; arithmetic is what CPython's complexobject.c does with the parts, in its order, so that the symbols give
 * the same bits. What its division looks at is guarded.
 *
 * Called by the handlers of operators, attributes and builtins. A number that is the same at every call stays a constant. */
#include "tracer/record/rec_state.h"

enum { NB_ADD = 0, NB_MULTIPLY = 5, NB_SUBTRACT = 10, NB_TRUEDIV = 11 };

static uint32_t op(DynRec *r, DynSymOp o, uint32_t a, uint32_t b) {
    return a == DYN_NONE || (b == DYN_NONE && dyn_sym_info[o].arity > 1) ? DYN_NONE
                                                                         : dyn_sym_op(&r->cap->syms, o, a, b, DYN_NONE);
}

static uint32_t as_float(DynRec *r, uint32_t s) {
    return dyn_sym_at(&r->cap->syms, s)->type == DYN_T_FLOAT ? s : op(r, DYN_S_TO_FLOAT, s, DYN_NONE);
}

/* The parts of a complex number, or of a Python number that becomes one. */
static int parts_of(DynRec *r, DynOperand o, uint32_t *parts) {
    if (o.v->kind == DV_SYM) {
        parts[0] = as_float(r, rec_sym_of(o.v));
        parts[1] = dyn_sym_float(&r->cap->syms, 0.0);
        return parts[0] == DYN_NONE || parts[1] == DYN_NONE ? -1 : 0;
    }
    return dyn_rec_complex(r, o.v, o.real, parts);
}

static bool agrees(DynRec *r, uint32_t sym, double d) {
    if (sym == DYN_NONE) {
        return false;
    }
    double hint = dyn_sym_at(&r->cap->syms, sym)->hint.f;
    return memcmp(&hint, &d, sizeof d) == 0 || (hint != hint && d != d);
}

/* The shadow of `result`, if that is what the parts are. */
static DynVal *new_complex(DynRec *r, const uint32_t *parts, PyObject *result) {
    if (!PyComplex_CheckExact(result) || !agrees(r, parts[0], PyComplex_RealAsDouble(result)) ||
        !agrees(r, parts[1], PyComplex_ImagAsDouble(result))) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on complex numbers");
    }
    if (dyn_sym_is_const(&r->cap->syms, parts[0]) && dyn_sym_is_const(&r->cap->syms, parts[1])) {
        return rec_object(r, result);
    }
    DynVal *real = dyn_rec_sym(r, parts[0]), *imag = dyn_rec_sym(r, parts[1]);
    DynVal *v = real != NULL && imag != NULL ? rec_new_fresh(r, DV_COMPLEX) : NULL;
    if (v != NULL) {
        v->parts.real = real;
        v->parts.imag = imag;
    }
    return v;
}

static void product(DynRec *r, const uint32_t *a, const uint32_t *b, uint32_t *out) {
    out[0] = op(r, DYN_S_SUB, op(r, DYN_S_MUL, a[0], b[0]), op(r, DYN_S_MUL, a[1], b[1]));
    out[1] = op(r, DYN_S_ADD, op(r, DYN_S_MUL, a[0], b[1]), op(r, DYN_S_MUL, a[1], b[0]));
}

/* Smith's method: the larger part of the divisor decides. */
static int quotient(DynRec *r, const uint32_t *a, const uint32_t *b, uint32_t *out) {
    uint32_t real = op(r, DYN_S_ABS, b[0], DYN_NONE), imag = op(r, DYN_S_ABS, b[1], DYN_NONE);
    uint32_t decides = op(r, DYN_S_GE, real, imag);
    if (decides == DYN_NONE || dyn_rec_assume(r, decides) < 0) {
        return -1;
    }
    bool first = dyn_sym_at(&r->cap->syms, decides)->hint.i;
    int larger = first ? 0 : 1;
    uint32_t big = b[larger], small = b[1 - larger];
    if (!first && dyn_rec_assume(r, op(r, DYN_S_GE, imag, real)) < 0) { /* a nan is in neither */
        return -1;
    }
    uint32_t ratio = op(r, DYN_S_TRUEDIV, small, big), scaled = op(r, DYN_S_MUL, small, ratio);
    uint32_t denominator = first ? op(r, DYN_S_ADD, b[0], scaled) : op(r, DYN_S_ADD, op(r, DYN_S_MUL, b[0], ratio), b[1]);
    uint32_t left = op(r, DYN_S_MUL, a[1 - larger], ratio), right = op(r, DYN_S_MUL, a[larger], ratio);
    uint32_t top_real = first ? op(r, DYN_S_ADD, a[0], left) : op(r, DYN_S_ADD, left, a[1]);
    uint32_t top_imag = first ? op(r, DYN_S_SUB, a[1], right) : op(r, DYN_S_SUB, right, a[0]);
    out[0] = op(r, DYN_S_TRUEDIV, top_real, denominator);
    out[1] = op(r, DYN_S_TRUEDIV, top_imag, denominator);
    return 0;
}

/* x op y where one of them is a real number, which isn't converted. A real number divided by a complex one isn't followed. */
static int mixed(DynRec *r, int nb, const uint32_t *x, const uint32_t *y, bool real_first, uint32_t *out) {
    const uint32_t *z = real_first ? y : x;
    uint32_t number = real_first ? x[0] : y[0];
    switch (nb) {
    case NB_ADD:
        out[0] = op(r, DYN_S_ADD, x[0], y[0]);
        out[1] = z[1];
        return 0;
    case NB_SUBTRACT:
        out[0] = op(r, DYN_S_SUB, x[0], y[0]);
        out[1] = real_first ? op(r, DYN_S_NEG, z[1], DYN_NONE) : z[1];
        return 0;
    case NB_MULTIPLY:
        out[0] = op(r, DYN_S_MUL, z[0], number);
        out[1] = op(r, DYN_S_MUL, z[1], number);
        return 0;
    case NB_TRUEDIV:
        out[0] = op(r, DYN_S_TRUEDIV, z[0], number);
        out[1] = op(r, DYN_S_TRUEDIV, z[1], number);
        return real_first ? -1 : 0;
    default: return -1;
    }
}

/* x op y of two complex numbers. */
static int combined(DynRec *r, int nb, const uint32_t *x, const uint32_t *y, uint32_t *out) {
    if (nb == NB_ADD || nb == NB_SUBTRACT) {
        for (int i = 0; i < 2; i++) {
            out[i] = op(r, nb == NB_ADD ? DYN_S_ADD : DYN_S_SUB, x[i], y[i]);
        }
        return 0;
    }
    if (nb == NB_MULTIPLY) {
        product(r, x, y, out);
    } else if (nb != NB_TRUEDIV || quotient(r, x, y, out) < 0) {
        return -1;
    }
    if (!dyn_complex_mixes()) {
        return 0;
    }
    uint32_t is_number = op(r, DYN_S_EQ, out[0], out[0]); /* a part that is NaN may stand for an infinity */
    bool holds = is_number != DYN_NONE && dyn_sym_at(&r->cap->syms, is_number)->hint.i;
    return holds ? dyn_rec_assume(r, is_number) : -1;
}

DynVal *rec_complex_binary(DynRec *r, int nb, DynOperand a, DynOperand b, PyObject *result) {
    uint32_t x[2], y[2], out[2] = {DYN_NONE, DYN_NONE};
    if (parts_of(r, a, x) < 0 || parts_of(r, b, y) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on complex numbers");
    }
    bool real_first = !PyComplex_Check(a.real), mixes = dyn_complex_mixes() && (real_first || !PyComplex_Check(b.real));
    int failed = mixes ? mixed(r, nb, x, y, real_first, out) : combined(r, nb, x, y, out);
    return failed < 0 ? rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "arithmetic on complex numbers") : new_complex(r, out, result);
}

/* -z, +z, z.conjugate(): the parts with these signs. */
static DynVal *with_signs(DynRec *r, DynOperand a, bool real, bool imag, PyObject *result) {
    uint32_t parts[2];
    if (dyn_rec_complex(r, a.v, a.real, parts) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
    }
    parts[0] = real ? op(r, DYN_S_NEG, parts[0], DYN_NONE) : parts[0];
    parts[1] = imag ? op(r, DYN_S_NEG, parts[1], DYN_NONE) : parts[1];
    return new_complex(r, parts, result);
}

DynVal *rec_complex_unary(DynRec *r, bool negative, DynOperand a, PyObject *result) {
    return with_signs(r, a, negative, negative, result);
}

DynVal *rec_complex_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    uint32_t parts[2];
    bool real = PyUnicode_CompareWithASCIIString(name, "real") == 0;
    bool part = real || PyUnicode_CompareWithASCIIString(name, "imag") == 0;
    if (!part || dyn_rec_complex(r, o.v, o.real, parts) < 0 || !PyFloat_CheckExact(result)) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute of a complex number");
    }
    return dyn_rec_sym(r, parts[real ? 0 : 1]);
}

DynVal *rec_complex_conjugate(DynRec *r, DynOperand o, PyObject *result) { return with_signs(r, o, false, true, result); }

DynVal *rec_complex_abs(DynRec *r, DynOperand o, PyObject *result) {
    uint32_t parts[2];
    uint32_t s = dyn_rec_complex(r, o.v, o.real, parts) < 0 ? DYN_NONE : op(r, DYN_S_MODULUS, parts[0], parts[1]);
    return agrees(r, s, PyFloat_AsDouble(result)) ? dyn_rec_sym(r, s) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "abs");
}

/* complex(a), complex(a, b): the second counts i times; with a real first that is its imaginary part. */
DynVal *rec_complex_new(DynRec *r, const RecCall *c, PyObject *result) {
    uint32_t parts[2];
    bool one_or_two = c->nkw == 0 && c->npos >= 1 && c->npos <= 2;
    bool numbers = c->npos != 2 || (c->args[0].v->kind == DV_SYM && c->args[1].v->kind == DV_SYM);
    if (!one_or_two || !numbers || parts_of(r, c->args[0], parts) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "complex");
    }
    if (c->npos == 2) {
        parts[1] = as_float(r, rec_sym_of(c->args[1].v));
    }
    return new_complex(r, parts, result);
}
