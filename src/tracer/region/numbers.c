/* numbers.c: arithmetic, comparisons and truth of numbers, Python's and NumPy's: which instructions compute them, of which type
 * the result is, and where the region is left because Python would raise, warn or need more than 64 bits. Called by step.c,
 * calls.c.
 *
 * Which dtype two of NumPy's scalars give is NumPy's own answer (PyArray_PromoteTypes); a Python number beside one is weak. */
#include "tracer/region/plan.h"
#include <opcode.h>

static PyArray_Descr *descr_of(DynDtype dt) { return PyArray_DescrFromType(dyn_dtypes[dt].npy); }

static DynDtype promote_types(DynDtype a, DynDtype b) {
    PyArray_Descr *x = descr_of(a), *y = descr_of(b), *both = PyArray_PromoteTypes(x, y);
    DynDtype dt = both == NULL ? DYN_NO_DTYPE : dyn_dtype_of(both);
    if (both == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(both);
    Py_DECREF(x);
    Py_DECREF(y);
    return dt;
}

DynDtype plan_promote(const PlanValue *a, const PlanValue *b) {
    if (a->v.kind == DYN_RK_NP && b->v.kind == DYN_RK_NP) {
        return promote_types((DynDtype)a->v.dtype, (DynDtype)b->v.dtype);
    }
    const PlanValue *np = a->v.kind == DYN_RK_NP ? a : b, *weak = np == a ? b : a;
    DynDtype dt = (DynDtype)np->v.dtype;
    if (weak->v.kind == DYN_RK_FLOAT) {
        return dyn_dtype_is_inexact(dt) ? dt : DYN_F64;
    }
    return weak->v.kind == DYN_RK_INT && dt == DYN_BOOL ? DYN_I64 : dt;
}

bool plan_is_float(const PlanValue *v) {
    return v->v.kind == DYN_RK_FLOAT || (v->v.kind == DYN_RK_NP && dyn_dtype_is_inexact((DynDtype)v->v.dtype));
}
static bool is_single(const PlanValue *v) { return v->v.kind == DYN_RK_NP && v->v.dtype == DYN_F32; }

bool plan_double(Plan *p, PlanValue v, uint32_t *reg) {
    if (v.known && v.v.kind != DYN_RK_FLOAT) {
        *reg = plan_dconst(p, (double)v.number.i);
    } else if (is_single(&v)) {
        *reg = plan_emit(p, DYN_RO_S2D, plan_reg(p, &v), DYN_NONE, DYN_NONE);
    } else if (plan_is_float(&v)) {
        *reg = plan_reg(p, &v);
    } else if (plan_is_word(&v)) {
        *reg = plan_emit(p, DYN_RO_U2D, plan_reg(p, &v), DYN_NONE, DYN_NONE);
    } else {
        *reg = plan_emit(p, DYN_RO_I2D, plan_reg(p, &v), DYN_NONE, DYN_NONE);
    }
    return true;
}

uint32_t plan_single(Plan *p, PlanValue v) {
    if (is_single(&v)) {
        return plan_reg(p, &v);
    }
    if (plan_is_float(&v)) {
        return plan_emit_or(p, DYN_RO_D2S, plan_reg(p, &v), DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    }
    return plan_emit_or(p, DYN_RO_I2SX, plan_reg(p, &v), DYN_NONE, DYN_NONE, DYN_R_FLAGS);
}

static int bits_of(DynDtype dt) {
    int bits = 8 * dyn_dtypes[dt].size;
    return dyn_dtypes[dt].kind == 'u' ? -bits : bits;
}

/* The number that belongs to the last instruction. */
static void set_number(Plan *p, int64_t i) {
    DynRegionBlock *b = &p->r->blocks.at[p->block];
    if (b->v.n > 0) {
        b->v.at[b->v.n - 1].imm.i = i;
    }
}

static void fits(Plan *p, uint32_t reg, DynDtype dt) {
    if (dt != DYN_I64) {
        plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
        set_number(p, dt == DYN_BOOL ? -1 : bits_of(dt));
    }
}

/* A Python int beside a NumPy integer has to be one of its numbers. */
static uint32_t as_integer(Plan *p, PlanValue v, DynDtype dt) {
    uint32_t reg = plan_reg(p, &v);
    if (v.v.kind == DYN_RK_INT) {
        fits(p, reg, dt);
    }
    return reg;
}

/* ---- by operator number */

enum { ADD = NB_ADD, AND = NB_AND, FLOORDIV = NB_FLOOR_DIVIDE, LSHIFT = NB_LSHIFT, MUL = NB_MULTIPLY, MOD = NB_REMAINDER };
enum { OR = NB_OR, POW = NB_POWER, RSHIFT = NB_RSHIFT, SUB = NB_SUBTRACT, TRUEDIV = NB_TRUE_DIVIDE, XOR = NB_XOR };
enum { MOST_POWER = 16 }; /* Larger ones lose digits that tell what pow gives. */
#define NO_OP DYN_RO_COUNT

static DynRegionOp int_op(int op) {
    switch (op) {
    case ADD: return DYN_RO_IADD;
    case SUB: return DYN_RO_ISUB;
    case MUL: return DYN_RO_IMUL;
    case FLOORDIV: return DYN_RO_IFLOORDIV;
    case MOD: return DYN_RO_IMOD;
    case AND: return DYN_RO_IAND;
    case OR: return DYN_RO_IOR;
    case XOR: return DYN_RO_IXOR;
    case LSHIFT: return DYN_RO_ISHL;
    case RSHIFT: return DYN_RO_ISHR;
    case POW: return DYN_RO_IPOW;
    default: return NO_OP;
    }
}

static DynRegionOp float_op(int op) {
    switch (op) {
    case ADD: return DYN_RO_DADD;
    case SUB: return DYN_RO_DSUB;
    case MUL: return DYN_RO_DMUL;
    case TRUEDIV: return DYN_RO_DDIV;
    case FLOORDIV: return DYN_RO_DFLOORDIV;
    case MOD: return DYN_RO_DMOD;
    case POW: return DYN_RO_DPOW;
    default: return NO_OP;
    }
}

static DynRegionOp single_op(int op) {
    switch (op) {
    case ADD: return DYN_RO_SADD;
    case SUB: return DYN_RO_SSUB;
    case MUL: return DYN_RO_SMUL;
    case TRUEDIV: return DYN_RO_SDIV;
    default: return NO_OP;
    }
}

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

uint32_t plan_emit_op(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, DynReason why) {
    return dyn_region_ops[op].fails ? plan_emit_or(p, op, a, b, DYN_NONE, why) : plan_emit(p, op, a, b, DYN_NONE);
}

/* x to the power of a number that is known, where there is a shorter way to what pow gives; or DYN_NONE. */
static uint32_t known_power(Plan *p, uint32_t x, const PlanValue *power, DynReason why) {
    double n = !power->known ? 0.0 : power->v.kind == DYN_RK_FLOAT ? power->number.f : (double)power->number.i;
    if (n == 0.5) {
        return plan_emit_or(p, DYN_RO_DPOWHALF, x, DYN_NONE, DYN_NONE, why);
    }
    if (!(n >= 2.0 && n <= MOST_POWER) || n != (double)(int64_t)n) {
        return DYN_NONE;
    }
    uint32_t reg = plan_emit_or(p, DYN_RO_DPOWN, x, DYN_NONE, DYN_NONE, why);
    set_number(p, (int64_t)n);
    return reg;
}

/* ---- Python's own numbers */

static bool python_floats(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y;
    DynRegionOp code = float_op(op);
    if (code == NO_OP) {
        return no(p, "an operator that floats don't have");
    }
    plan_double(p, a, &x);
    uint32_t power = op == POW ? known_power(p, x, &b, DYN_R_EXCEPTION) : DYN_NONE;
    if (power != DYN_NONE) {
        *out = plan_value(DYN_RK_FLOAT, power);
        return true;
    }
    plan_double(p, b, &y);
    *out = plan_value(DYN_RK_FLOAT, plan_emit_op(p, code, x, y, DYN_R_EXCEPTION));
    return true;
}

static bool fold_ints(int op, int64_t a, int64_t b, PlanValue *out) {
    int64_t r;
    bool failed = true;
    switch (op) {
    case ADD: failed = __builtin_add_overflow(a, b, &r); break;
    case SUB: failed = __builtin_sub_overflow(a, b, &r); break;
    case MUL: failed = __builtin_mul_overflow(a, b, &r); break;
    default: break;
    }
    if (!failed) {
        *out = plan_int(r);
    }
    return !failed;
}

static bool python_ints(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    bool both_bool = a.v.kind == DYN_RK_BOOL && b.v.kind == DYN_RK_BOOL && (op == AND || op == OR || op == XOR);
    if (a.known && b.known && fold_ints(op, a.number.i, b.number.i, out)) {
        return true;
    }
    uint32_t x = plan_reg(p, &a);
    bool power = b.known && b.number.i > 0 && (b.number.i & (b.number.i - 1)) == 0;
    if (power && (op == MOD || op == FLOORDIV)) { /* Python rounds down, as these do */
        int64_t by = op == MOD ? b.number.i - 1 : __builtin_ctzll((uint64_t)b.number.i);
        *out = plan_value(DYN_RK_INT, plan_emit(p, op == MOD ? DYN_RO_IAND : DYN_RO_ISHRW, x, plan_iconst(p, by), DYN_NONE));
        return true;
    }
    uint32_t y = plan_reg(p, &b);
    if (op == TRUEDIV) {
        *out = plan_value(DYN_RK_FLOAT, plan_emit_or(p, DYN_RO_ITRUEDIV, x, y, DYN_NONE, DYN_R_EXCEPTION));
        return true;
    }
    if (op == POW && b.known && b.number.i < 0) {
        return python_floats(p, op, a, b, out);
    }
    if (int_op(op) == NO_OP) {
        return no(p, "an operator that ints don't have");
    }
    *out = plan_value(both_bool ? DYN_RK_BOOL : DYN_RK_INT, plan_emit_op(p, int_op(op), x, y, DYN_R_EXCEPTION));
    return true;
}

/* ---- NumPy's scalars */

void plan_settle_doubts(Plan *p) {
    uint32_t n = p->ndoubts, all = DYN_NONE;
    p->ndoubts = 0;
    for (uint32_t i = 0; i < n && n > 1; i++) {
        const PlanDoubt *d = &p->doubts[i];
        DynRegionOp op = d->op == DYN_RO_DWARN ? DYN_RO_DFINITE : DYN_RO_SFINITE;
        uint32_t finite = d->passed_on ? DYN_NONE : plan_emit(p, op, d->result, DYN_NONE, DYN_NONE);
        if (finite != DYN_NONE) {
            all = all == DYN_NONE ? finite : plan_emit(p, DYN_RO_IAND, all, finite, DYN_NONE);
        }
    }
    uint32_t on = DYN_NONE;
    if (n > 1) {
        uint32_t at = plan_frame(p)->at, closer = plan_new_block(p, at);
        on = plan_new_block(p, at);
        plan_end(p, DYN_RO_BR, all, on, closer, DYN_NONE);
        p->block = closer;
    }
    for (uint32_t i = 0; i < n; i++) {
        const PlanDoubt *d = &p->doubts[i];
        plan_emit_or(p, d->op, d->result, d->a, d->b, DYN_R_FLAGS);
    }
    if (n > 1) {
        plan_end(p, DYN_RO_JMP, DYN_NONE, on, DYN_NONE, DYN_NONE);
        p->block = on;
    }
}

static void doubt(Plan *p, int op, PlanDoubt d) {
    bool second = op == ADD || op == SUB || op == MUL; /* of a quotient the divisor isn't passed on */
    if (p->ndoubts == PLAN_DOUBTS) {
        plan_settle_doubts(p);
    }
    for (uint32_t i = 0; i < p->ndoubts; i++) {
        uint32_t result = p->doubts[i].result;
        p->doubts[i].passed_on |= result == d.a || (second && result == d.b);
    }
    p->doubts[p->ndoubts++] = d;
}

static bool doubles(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y, r;
    DynRegionOp code = op == POW ? DYN_RO_NPOW : float_op(op);
    if (code == NO_OP) {
        return no(p, "an operator that np.float64 doesn't have");
    }
    plan_double(p, a, &x);
    uint32_t power = op == POW ? known_power(p, x, &b, DYN_R_FLAGS) : DYN_NONE;
    if (power != DYN_NONE) {
        *out = plan_np(DYN_F64, power);
        return true;
    }
    plan_double(p, b, &y);
    r = plan_emit_op(p, code, x, y, DYN_R_FLAGS);
    p->r->warns = true;
    if (op != POW) {
        doubt(p, op, (PlanDoubt){DYN_RO_DWARN, r, x, y, false});
    }
    *out = plan_np(DYN_F64, r);
    return true;
}

static bool singles(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    DynRegionOp code = single_op(op);
    if (code == NO_OP) {
        return no(p, "an operator of np.float32");
    }
    uint32_t x = plan_single(p, a), y = plan_single(p, b), r = plan_emit_op(p, code, x, y, DYN_R_FLAGS);
    doubt(p, op, (PlanDoubt){DYN_RO_SWARN, r, x, y, false});
    p->r->warns = true;
    *out = plan_np(DYN_F32, r);
    return true;
}

static bool integers(Plan *p, int op, DynDtype dt, PlanValue a, PlanValue b, PlanValue *out) {
    bool bitwise = op == AND || op == OR || op == XOR;
    if (int_op(op) == NO_OP || (dt == DYN_BOOL && !bitwise)) {
        return no(p, "an operator of these NumPy scalars");
    }
    DynRegionOp code = op == LSHIFT ? DYN_RO_ISHLW : int_op(op);
    if ((op == ADD || op == SUB || op == MUL) && plan_wraps(p)) {
        code = op == ADD ? DYN_RO_IADDW : op == SUB ? DYN_RO_ISUBW : DYN_RO_IMULW;
    }
    uint32_t x = as_integer(p, a, dt), y = as_integer(p, b, dt), r = plan_emit_op(p, code, x, y, DYN_R_FLAGS);
    if (code != int_op(op)) {
        r = plan_wrapped(p, r, dt);
    } else if (!bitwise && op != RSHIFT) {
        fits(p, r, dt);
    }
    *out = plan_np(dt, r);
    return true;
}

static bool numpy_scalars(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    DynDtype dt = plan_promote(&a, &b);
    if (dt == DYN_U64 && op != TRUEDIV) {
        return plan_word_binary(p, op, a, b, out);
    }
    dt = dt == DYN_U64 ? DYN_F64 : dt;
    if (dt == DYN_NO_DTYPE || plan_np_type(dt) == 0) {
        return no(p, "NumPy scalars of these types");
    }
    if (dt == DYN_F32) {
        return singles(p, op, a, b, out);
    }
    if (dt == DYN_F64 || op == TRUEDIV) {
        return doubles(p, op, a, b, out);
    }
    return integers(p, op, dt, a, b, out);
}

/* words: one of the two is a np.uint64. */
static bool is_operand(Plan *p, const PlanValue *v, bool words) { return plan_is_number(v) || (words && plan_can_be_word(p, v)); }

bool plan_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    if (a.v.kind == DYN_RK_LIST || b.v.kind == DYN_RK_LIST) {
        return plan_list_binary(p, op, a, b, out);
    }
    if ((plan_is_complex(&a) || plan_is_complex(&b)) && !plan_is_whole(&a) && !plan_is_whole(&b)) {
        return plan_complex_binary(p, op, a, b, out);
    }
    if (op == NB_MATRIX_MULTIPLY && plan_is_whole(&a)) {
        return plan_dot(p, a, b, true, out);
    }
    if (plan_is_whole(&a) || plan_is_whole(&b)) {
        return plan_array_binary(p, op, a, b, out);
    }
    if (op == NB_ADD && plan_is_str(p, &a) && plan_is_str(p, &b)) {
        return plan_text_join(p, a, b, out);
    }
    if (plan_is_str(p, &a) || plan_is_str(p, &b)) {
        return plan_text_binary(p, op, a, b, out);
    }
    bool words = plan_is_word(&a) || plan_is_word(&b);
    if (!is_operand(p, &a, words) || !is_operand(p, &b, words)) {
        return no(p, "an operand that is no number");
    }
    if (a.v.kind == DYN_RK_NP || b.v.kind == DYN_RK_NP) {
        return numpy_scalars(p, op, a, b, out);
    }
    return plan_is_float(&a) || plan_is_float(&b) ? python_floats(p, op, a, b, out) : python_ints(p, op, a, b, out);
}

/* ---- comparisons */

/* LT, LE, EQ, NE, GT, GE as two instructions, and whether the operands are exchanged. */
static uint32_t emit_compare(Plan *p, int op, char type, uint32_t a, uint32_t b) {
    static const DynRegionOp ops[3][4] = {{DYN_RO_ILT, DYN_RO_ILE, DYN_RO_IEQ, DYN_RO_INE},
                                          {DYN_RO_DLT, DYN_RO_DLE, DYN_RO_DEQ, DYN_RO_DNE},
                                          {DYN_RO_SLT, DYN_RO_SLE, DYN_RO_SEQ, DYN_RO_SNE}};
    const DynRegionOp *row = type == 'I' ? ops[0] : type == 'D' ? ops[1] : ops[2];
    switch (op) {
    case Py_LT: return plan_emit(p, row[0], a, b, DYN_NONE);
    case Py_LE: return plan_emit(p, row[1], a, b, DYN_NONE);
    case Py_EQ: return plan_emit(p, row[2], a, b, DYN_NONE);
    case Py_NE: return plan_emit(p, row[3], a, b, DYN_NONE);
    case Py_GT: return plan_emit(p, row[0], b, a, DYN_NONE);
    default: return plan_emit(p, row[1], b, a, DYN_NONE);
    }
}

/* Python compares an int with a float exactly. */
static uint32_t exact_double(Plan *p, PlanValue v) {
    uint32_t reg = DYN_NONE;
    bool small = v.known && v.v.kind != DYN_RK_FLOAT && v.number.i >= -(INT64_C(1) << 53) && v.number.i <= INT64_C(1) << 53;
    if (plan_is_float(&v) || small || (v.v.kind == DYN_RK_NP && v.v.dtype != DYN_I64)) {
        plan_double(p, v, &reg);
        return reg;
    }
    return plan_emit_or(p, DYN_RO_I2DX, plan_reg(p, &v), DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
}

bool plan_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    if ((plan_is_complex(&a) || plan_is_complex(&b)) && !plan_is_whole(&a) && !plan_is_whole(&b)) {
        return plan_complex_compare(p, op, a, b, out);
    }
    if (plan_is_whole(&a) || plan_is_whole(&b)) {
        return plan_array_compare(p, op, a, b, out);
    }
    if (a.v.kind == DYN_RK_LIST && b.v.kind == DYN_RK_LIST && ((a.v.flags | b.v.flags) & DYN_RF_TUPLE) == 0) {
        return plan_compare_lists(p, op, a, b, out);
    }
    if (plan_is_tuple(p, &a) && plan_is_tuple(p, &b)) {
        return plan_compare_tuples(p, op, a, b, out);
    }
    bool words = plan_is_word(&a) || plan_is_word(&b);
    if (words && !plan_is_float(&a) && !plan_is_float(&b)) {
        return plan_word_compare(p, op, a, b, out);
    }
    if (!is_operand(p, &a, words) || !is_operand(p, &b, words)) {
        return plan_compare_texts(p, op, a, b, out);
    }
    bool numpy = a.v.kind == DYN_RK_NP || b.v.kind == DYN_RK_NP;
    DynDtype dt = numpy ? plan_promote(&a, &b) : DYN_F64;
    uint32_t r;
    if (!plan_is_float(&a) && !plan_is_float(&b)) {
        uint32_t x = plan_reg(p, &a);
        r = emit_compare(p, op, 'I', x, plan_reg(p, &b));
    } else if (dt == DYN_F32) {
        uint32_t x = plan_single(p, a);
        r = emit_compare(p, op, 'S', x, plan_single(p, b));
    } else if (dt == DYN_F64) {
        uint32_t x = exact_double(p, a);
        r = emit_compare(p, op, 'D', x, exact_double(p, b));
    } else {
        return no(p, "NumPy scalars of these types");
    }
    *out = numpy ? plan_np(DYN_BOOL, r) : plan_value(DYN_RK_BOOL, r);
    return true;
}

/* ---- one operand */

bool plan_truth(Plan *p, PlanValue *v, int *known, uint32_t *reg) {
    PyObject *o = plan_object(p, v);
    *known = -1;
    if (v->known) {
        *known = v->v.kind == DYN_RK_FLOAT ? v->number.f != 0.0 : v->number.i != 0;
    } else if (o == Py_None) {
        *known = 0;
    } else if (v->v.kind == DYN_RK_COMPLEX) {
        *reg = plan_complex_truth(p, v);
    } else if (v->v.kind == DYN_RK_CHAR) {
        *known = 1;
    } else if (v->v.kind == DYN_RK_TEXT) {
        *reg = plan_emit(p, DYN_RO_INE, v->v.regs[2], plan_iconst(p, 0), DYN_NONE);
    } else if (v->v.kind == DYN_RK_DICT || v->v.kind == DYN_RK_SET) {
        uint32_t size = plan_emit(p, DYN_RO_DICTLEN, v->v.regs[0], DYN_NONE, DYN_NONE);
        *reg = plan_emit(p, DYN_RO_INE, size, plan_iconst(p, 0), DYN_NONE);
    } else if (v->v.kind == DYN_RK_LIST || v->v.kind == DYN_RK_DEQUE) {
        *reg = plan_emit(p, DYN_RO_INE, plan_list_size(p, v), plan_iconst(p, 0), DYN_NONE);
    } else if (!plan_is_number(v) && !plan_is_word(v)) {
        return no(p, "the truth of an object that is no number");
    } else if (is_single(v)) {
        *reg =
            plan_emit(p, DYN_RO_DNE, plan_emit(p, DYN_RO_S2D, plan_reg(p, v), DYN_NONE, DYN_NONE), plan_dconst(p, 0.0), DYN_NONE);
    } else if (plan_is_float(v)) {
        uint32_t x = plan_reg(p, v);
        *reg = plan_emit(p, DYN_RO_DNE, x, plan_dconst(p, 0.0), DYN_NONE);
    } else if (v->v.kind == DYN_RK_BOOL || (v->v.kind == DYN_RK_NP && v->v.dtype == DYN_BOOL)) {
        *reg = plan_reg(p, v);
    } else {
        uint32_t x = plan_reg(p, v);
        *reg = plan_emit(p, DYN_RO_INE, x, plan_iconst(p, 0), DYN_NONE);
    }
    return true;
}

static bool negative(Plan *p, PlanValue a, PlanValue *out) {
    uint32_t r = plan_reg(p, &a);
    *out = plan_value((DynRegionKind)a.v.kind, DYN_NONE);
    out->v.dtype = a.v.dtype;
    out->v.kind = a.v.kind == DYN_RK_BOOL ? DYN_RK_INT : a.v.kind;
    out->v.nregs = 1;
    if (is_single(&a)) {
        out->v.regs[0] = plan_emit(p, DYN_RO_SNEG, r, DYN_NONE, DYN_NONE);
    } else if (plan_is_float(&a)) {
        out->v.regs[0] = plan_emit(p, DYN_RO_DNEG, r, DYN_NONE, DYN_NONE);
    } else {
        out->v.regs[0] = plan_emit_or(p, DYN_RO_INEG, r, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
        if (a.v.kind == DYN_RK_NP) {
            fits(p, out->v.regs[0], (DynDtype)a.v.dtype);
        }
    }
    return true;
}

bool plan_unary(Plan *p, int op, PlanValue a, PlanValue *out) {
    bool np_bool = a.v.kind == DYN_RK_NP && a.v.dtype == DYN_BOOL;
    if (op == DYN_I_UNARY_NOT) {
        int known;
        uint32_t reg;
        if (!plan_truth(p, &a, &known, &reg)) {
            return false;
        }
        *out = known >= 0 ? plan_bool(!known) : plan_value(DYN_RK_BOOL, plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE));
        return true;
    }
    if (a.v.kind == DYN_RK_COMPLEX) {
        return plan_complex_unary(p, op, a, out);
    }
    if (plan_is_whole(&a) && (op == DYN_I_UNARY_NEGATIVE || op == DYN_I_UNARY_INVERT)) {
        return plan_array_unary(p, op == DYN_I_UNARY_NEGATIVE ? DYN_RO_DNEG : DYN_RO_INOT, a, out);
    }
    if ((!plan_is_number(&a) && !(plan_is_word(&a) && op == DYN_I_UNARY_INVERT)) || np_bool) {
        return no(p, "an operand that is no number");
    }
    if (a.known && a.v.kind == DYN_RK_INT && op == DYN_I_UNARY_NEGATIVE && a.number.i != INT64_MIN) {
        *out = plan_int(-a.number.i);
        return true;
    }
    if (op == DYN_I_UNARY_NEGATIVE) {
        return negative(p, a, out);
    }
    if (op == DYN_I_UNARY_INVERT) {
        if (a.v.kind != DYN_RK_INT && !(a.v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)a.v.dtype))) {
            return no(p, "~ of this number");
        }
        uint32_t bits = plan_emit(p, DYN_RO_INOT, plan_reg(p, &a), DYN_NONE, DYN_NONE);
        *out = a.v.kind == DYN_RK_INT ? plan_value(DYN_RK_INT, bits)
                                      : plan_np((DynDtype)a.v.dtype, plan_wrapped(p, bits, (DynDtype)a.v.dtype));
        return true;
    }
    *out = a;
    if (a.v.kind == DYN_RK_BOOL) {
        plan_reg(p, out);
        out->v.kind = DYN_RK_INT;
        out->known = false;
    }
    return true;
}
