/* expressions.c: arithmetic and comparisons of whole arrays in loops. Called by step.c, items.c, numbers.c and calls.c.
 *
 * An expression is no object: it is kept as a tree (DYN_RK_EXPR) of its operands, arrays as they lie and numbers in registers,
 * and computed where it is stored or added up (fills.c), element by element in one loop. What is stored while an expression waits
 * could change its operands: then the loop isn't planned (plan_effect).
 *
 * Which dtype two operands give is what numbers.c says of NumPy's scalars. Sizes of axes have to be equal; axes that an operand
 * lacks it is repeated along, and so are those of which it had one element when the loop was planned, and the others more. */
#include "tracer/region/plan.h"
#include <opcode.h>

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

bool plan_is_whole(const PlanValue *v) { return plan_is_array(v) || plan_is_expression(v); }
uint32_t plan_rank(const PlanValue *v) { return plan_is_array(v) ? v->v.n : plan_is_expression(v) ? v->v.shape : 0; }
uint32_t plan_size(const PlanValue *v, uint32_t axis) { return v->v.regs[plan_is_array(v) ? 2 + axis : axis]; }

void plan_leave_unless(Plan *p, uint32_t reg, DynReason why) {
    plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), reg, DYN_NONE, why); /* 0 is an index below 1 alone */
}

void plan_same_size(Plan *p, uint32_t a, uint32_t b) {
    if (a != b) {
        plan_leave_unless(p, plan_emit(p, DYN_RO_IEQ, a, b, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
    }
}

bool plan_has_expression(const PlanValue *v) {
    bool has = plan_is_expression(v);
    for (uint32_t i = 0; !has && dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        has = plan_has_expression(&v->items[i]);
    }
    return has;
}

/* ---- sizes */

int64_t plan_sampled(const PlanValue *v, uint32_t from_last) {
    int64_t found = -1;
    if (plan_is_array(v)) {
        return v->sizes != NULL && from_last < v->v.n ? v->sizes[v->v.n - 1 - from_last] : -1;
    }
    for (uint32_t i = 0; plan_is_expression(v) && i < v->v.n; i++) {
        if (plan_rank(&v->items[i]) > from_last) {
            found = found == -1 || found == 1 ? plan_sampled(&v->items[i], from_last) : found;
        }
    }
    return found;
}

int64_t plan_sample(const PlanValue *v, uint32_t from_last) {
    int64_t most = plan_is_array(v) ? plan_sampled(v, from_last) : 1;
    for (uint32_t i = 0; plan_is_expression(v) && i < v->v.n; i++) {
        int64_t own = plan_sample(&v->items[i], from_last);
        most = own > most ? own : most;
    }
    return most < 1 ? 1 : most;
}

/* Its one element along an axis is repeated `size` times. */
static bool spread(Plan *p, PlanValue *v, uint32_t from_last, uint32_t size) {
    uint32_t rank = plan_rank(v), axis = rank - 1 - from_last;
    if (rank <= from_last) {
        return true;
    }
    if (plan_is_array(v)) {
        v->v.kind = DYN_RK_VIEW;
        v->v.flags &= (uint8_t) ~(from_last == 0 ? DYN_RF_CONTIGUOUS : 0);
        v->v.regs[2 + axis] = size;
        v->v.regs[2 + rank + axis] = plan_iconst(p, 0);
        return true;
    }
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, v->v.n);
    for (uint32_t i = 0; items != NULL && i < v->v.n; i++) {
        items[i] = v->items[i];
        spread(p, &items[i], from_last, size);
    }
    v->items = items;
    v->v.regs[axis] = size;
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    return items != NULL;
}

bool plan_fit(Plan *p, PlanValue *v, uint32_t from_last, uint32_t size, int64_t sample) {
    uint32_t own = plan_size(v, plan_rank(v) - 1 - from_last);
    if (sample != 1 && plan_sampled(v, from_last) == 1) {
        plan_same_size(p, own, plan_iconst(p, 1));
        return spread(p, v, from_last, size);
    }
    plan_same_size(p, size, own);
    return true;
}

/* The axis of a result: the first operand that has more than one element there says how many, and the others have to fit. */
static bool join_axis(Plan *p, PlanValue *items, uint32_t n, uint32_t from_last, uint32_t *size) {
    uint32_t first = DYN_NONE;
    for (uint32_t i = 0; i < n; i++) {
        bool has = plan_rank(&items[i]) > from_last;
        if (has &&
            (first == DYN_NONE || (plan_sampled(&items[first], from_last) == 1 && plan_sampled(&items[i], from_last) != 1))) {
            first = i;
        }
    }
    *size = plan_size(&items[first], plan_rank(&items[first]) - 1 - from_last);
    int64_t sample = plan_sampled(&items[first], from_last);
    for (uint32_t i = 0; i < n; i++) {
        if (i != first && plan_rank(&items[i]) > from_last && !plan_fit(p, &items[i], from_last, *size, sample)) {
            return false;
        }
    }
    return true;
}

/* An expression of the operands, with their axes. */
static bool join_axes(Plan *p, PlanValue *items, uint32_t n, uint32_t rank, PlanValue *v) {
    for (uint32_t k = 0; k < rank; k++) {
        if (!join_axis(p, items, n, rank - 1 - k, &v->v.regs[v->v.nregs++])) {
            return false;
        }
    }
    v->v.n = (uint8_t)n;
    v->v.shape = (uint16_t)rank;
    v->items = items;
    return true;
}

bool plan_joined(Plan *p, PlanValue *items, uint32_t n, PlanValue *out) {
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        rank = plan_rank(&items[i]) > rank ? plan_rank(&items[i]) : rank;
    }
    *out = plan_value(DYN_RK_EXPR, DYN_NONE);
    return join_axes(p, items, n, rank, out);
}

/* ---- building the tree */

/* A number as an operand, or an array whose elements are converted when they are read. */
static bool as_operand(Plan *p, PlanValue v, DynDtype dt, PlanValue *out) {
    uint32_t reg;
    *out = v;
    if (plan_is_whole(&v)) {
        bool widens = dt == DYN_F64 || (plan_np_type(dt) == 'I' && plan_np_type((DynDtype)v.v.dtype) == 'I');
        return v.v.dtype == dt || (widens && plan_np_type((DynDtype)v.v.dtype) != 0) || no(p, "arrays of these dtypes");
    }
    if (dt == DYN_F64) {
        plan_double(p, v, &reg);
    } else if (dt == DYN_F32) {
        reg = plan_single(p, v);
    } else {
        reg = plan_reg(p, &v);
    }
    *out = plan_np(dt, reg);
    return true;
}

bool plan_expression(Plan *p, int code, DynDtype dt, DynDtype of, const PlanValue *operands, uint32_t n, PlanValue *out) {
    PlanValue v = plan_value(DYN_RK_EXPR, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, n);
    uint32_t rank = 0;
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return no(p, "memory");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!as_operand(p, operands[i], code == PLAN_SELECT && i == 0 ? DYN_BOOL : of, &items[i])) {
            return false;
        }
        rank = plan_rank(&items[i]) > rank ? plan_rank(&items[i]) : rank;
    }
    if (!join_axes(p, items, n, rank, &v)) {
        return false;
    }
    v.v.dtype = (uint8_t)dt;
    v.v.ref = (uint32_t)code;
    v.of = of;
    p->r->warns = p->r->warns || dyn_dtype_is_inexact(dt);
    *out = v;
    return true;
}

static const struct Operator {
    int op;
    DynRegionOp of_doubles, of_singles, of_ints, of_bools; /* COUNT: there is none */
} operators[] = {{NB_ADD, DYN_RO_DADD, DYN_RO_SADD, DYN_RO_IADDW, DYN_RO_COUNT},
                 {NB_SUBTRACT, DYN_RO_DSUB, DYN_RO_SSUB, DYN_RO_ISUBW, DYN_RO_COUNT},
                 {NB_MULTIPLY, DYN_RO_DMUL, DYN_RO_SMUL, DYN_RO_IMULW, DYN_RO_COUNT},
                 {NB_TRUE_DIVIDE, DYN_RO_CDIV, DYN_RO_SCDIV, DYN_RO_COUNT, DYN_RO_COUNT},
                 {NB_AND, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_IAND, DYN_RO_IAND},
                 {NB_OR, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_IOR, DYN_RO_IOR},
                 {NB_XOR, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_IXOR, DYN_RO_IXOR}};

static DynRegionOp code_of(int op, DynDtype dt) {
    for (size_t i = 0; i < DYN_COUNTOF(operators); i++) {
        if (operators[i].op == op) {
            const struct Operator *o = &operators[i];
            return dt == DYN_F64 ? o->of_doubles : dt == DYN_F32 ? o->of_singles : dt == DYN_BOOL ? o->of_bools : o->of_ints;
        }
    }
    return DYN_RO_COUNT;
}

/* What stands for its elements. */
static PlanValue element_of(const PlanValue *v) { return plan_is_whole(v) ? plan_np((DynDtype)v->v.dtype, DYN_NONE) : *v; }

static bool are_operands(Plan *p, const PlanValue *a, const PlanValue *b) {
    bool operands = (plan_is_whole(a) || plan_is_number(a)) && (plan_is_whole(b) || plan_is_number(b));
    return operands || no(p, "an array beside something else than arrays and numbers");
}

/* A complex number or an array of some: NumPy's own loops compute with them. */
static bool is_complex(const PlanValue *v) { return plan_is_complex(v) || (plan_is_whole(v) && v->v.dtype == DYN_C128); }

/* A Python int beside an array of small integers has to be one of its numbers. */
static void fit_number(Plan *p, const PlanValue *v, DynDtype dt) {
    PlanValue number = *v;
    uint32_t reg;
    if (v->v.kind == DYN_RK_INT && dt != DYN_I64 && plan_np_type(dt) == 'I') {
        plan_as_element(p, number, dt, &reg);
    }
}

bool plan_array_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    if (is_complex(&a) || is_complex(&b)) {
        return plan_ufunc_of_operator(p, op, (PlanValue[]){a, b}, out);
    }
    if (!are_operands(p, &a, &b)) {
        return false;
    }
    PlanValue x = element_of(&a), y = element_of(&b), both[2] = {a, b};
    DynDtype dt = plan_promote(&x, &y);
    bool two = b.known && (b.v.kind == DYN_RK_FLOAT ? b.number.f == 2.0 : b.v.kind == DYN_RK_INT && b.number.i == 2);
    if (op == NB_POWER && two && (a.v.dtype == DYN_F64 || a.v.dtype == DYN_F32 || (a.v.dtype == DYN_I64 && dt == DYN_I64))) {
        return plan_expression(p, PLAN_SQUARE, (DynDtype)a.v.dtype, (DynDtype)a.v.dtype, both, 1, out);
    }
    if (op == NB_TRUE_DIVIDE && dt != DYN_F32 && dt != DYN_NO_DTYPE) {
        dt = DYN_F64;
    }
    if (dt == DYN_NO_DTYPE || plan_np_type(dt) == 0 || code_of(op, dt) == DYN_RO_COUNT) {
        return plan_ufunc_of_operator(p, op, both, out);
    }
    fit_number(p, &a, dt);
    fit_number(p, &b, dt);
    return plan_expression(p, (int)code_of(op, dt), dt, dt, both, 2, out);
}

bool plan_array_compare(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    static const DynRegionOp ops[3][4] = {{DYN_RO_ILT, DYN_RO_ILE, DYN_RO_IEQ, DYN_RO_INE},
                                          {DYN_RO_DLT, DYN_RO_DLE, DYN_RO_DEQ, DYN_RO_DNE},
                                          {DYN_RO_SLT, DYN_RO_SLE, DYN_RO_SEQ, DYN_RO_SNE}};
    if (is_complex(&a) || is_complex(&b)) {
        const char *name = op == Py_EQ ? "equal" : op == Py_NE ? "not_equal" : NULL;
        return name != NULL ? plan_ufunc_named(p, name, (PlanValue[]){a, b}, 2, out) : no(p, "an order of complex numbers");
    }
    if (!are_operands(p, &a, &b)) {
        return false;
    }
    bool exchanged = op == Py_GT || op == Py_GE;
    PlanValue x = element_of(&a), y = element_of(&b), both[2] = {exchanged ? b : a, exchanged ? a : b};
    DynDtype dt = plan_promote(&x, &y);
    if (dt == DYN_NO_DTYPE || plan_np_type(dt) == 0) {
        return no(p, "a comparison of arrays of these dtypes");
    }
    uint32_t column = op == Py_EQ ? 2 : op == Py_NE ? 3 : op == Py_LE || op == Py_GE ? 1 : 0;
    uint32_t row = dt == DYN_F64 ? 1 : dt == DYN_F32 ? 2 : 0;
    return plan_expression(p, (int)ops[row][column], DYN_BOOL, dt, both, 2, out);
}

bool plan_array_select(Plan *p, const PlanValue *args, PlanValue *out) {
    bool python = plan_is_python_number(&args[1]) && plan_is_python_number(&args[2]);
    if (!plan_is_whole(&args[0]) || args[0].v.dtype != DYN_BOOL || !are_operands(p, &args[1], &args[2])) {
        return no(p, "np.where of something else than an array of bools and two arrays or numbers");
    }
    PlanValue x = element_of(&args[1]), y = element_of(&args[2]);
    bool ints = x.v.kind == DYN_RK_INT && y.v.kind == DYN_RK_INT, bools = x.v.kind == DYN_RK_BOOL || y.v.kind == DYN_RK_BOOL;
    DynDtype dt = !python ? plan_promote(&x, &y) : ints ? DYN_I64 : DYN_F64;
    bool known = (dt == DYN_F64 || dt == DYN_F32 || dt == DYN_I64 || (dt == DYN_BOOL && !python)) && !(python && bools);
    return known ? plan_expression(p, PLAN_SELECT, dt, dt, args, 3, out) : no(p, "np.where of these dtypes");
}

bool plan_array_unary(Plan *p, int code, PlanValue a, PlanValue *out) {
    bool single = a.v.dtype == DYN_F32, ints = plan_np_type((DynDtype)a.v.dtype) == 'I';
    DynDtype dt = (DynDtype)a.v.dtype;
    if (code == DYN_RO_INOT && ints) {
        return plan_expression(p, dt == DYN_BOOL ? DYN_RO_NOT : DYN_RO_INOT, dt, dt, &a, 1, out);
    }
    if (code == DYN_RO_DNEG && ints && dt != DYN_BOOL) {
        return plan_array_binary(p, NB_SUBTRACT, plan_int(0), a, out);
    }
    if (dt != DYN_F64 && dt != DYN_F32) {
        return plan_ufunc_of_code(p, code, a, out);
    }
    switch (code) {
    case DYN_RO_DNEG: return plan_expression(p, single ? DYN_RO_SNEG : DYN_RO_DNEG, dt, dt, &a, 1, out);
    case DYN_RO_DABS: return plan_expression(p, single ? DYN_RO_SABS : DYN_RO_DABS, dt, dt, &a, 1, out);
    case DYN_RO_SQRT: return plan_expression(p, single ? DYN_RO_SROOT : DYN_RO_ROOT, dt, dt, &a, 1, out);
    default: return plan_ufunc_of_code(p, code, a, out);
    }
}

/* Does the processor have something to report of computing it? Of comparisons of what isn't a number it has, and NumPy hasn't. */
bool plan_reports(const PlanValue *v) {
    bool reports = plan_is_expression(v) && dyn_dtype_is_inexact((DynDtype)v->v.dtype) && v->v.ref != PLAN_SELECT;
    for (uint32_t i = 0; plan_is_expression(v) && i < v->v.n; i++) {
        reports = reports || plan_reports(&v->items[i]);
    }
    return reports;
}
