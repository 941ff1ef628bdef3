/* boxed.c: calls of functions of C that Python's library or NumPy has for objects, with numbers as arguments, which are made
 * objects for the call (ir/region_calls.c). Called by calls.c and randoms.c. The table holds references for good.
 *
 * They are functions of whose result nothing but their arguments decides, and whose own arithmetic no instruction repeats to the
 * bit. Where one raises, CPython calls it once more. */
#include "tracer/region/plan.h"

/* result: 'D', 'I', 'C' of complex numbers; 'A' as the first argument is. numbers: NumPy's floats are taken for Python's. */
static const struct Row {
    const char *module, *name;
    uint32_t least, most;
    char result;
    bool numbers;
} rows[] = {
    {"builtins", "round", 2, 2, 'A', false}, {"builtins", "pow", 3, 3, 'I', false},   {"math", "hypot", 1, 4, 'D', true},
    {"math", "log", 2, 2, 'D', true},        {"math", "erf", 1, 1, 'D', true},        {"math", "erfc", 1, 1, 'D', true},
    {"math", "gamma", 1, 1, 'D', true},      {"math", "lgamma", 1, 1, 'D', true},     {"math", "cbrt", 1, 1, 'D', true},
    {"math", "exp2", 1, 1, 'D', true},       {"math", "degrees", 1, 1, 'D', true},    {"math", "radians", 1, 1, 'D', true},
    {"math", "ldexp", 2, 2, 'D', true},      {"math", "remainder", 2, 2, 'D', true},  {"math", "nextafter", 2, 2, 'D', true},
    {"math", "gcd", 1, 4, 'I', false},       {"math", "lcm", 1, 4, 'I', false},       {"math", "comb", 2, 2, 'I', false},
    {"math", "perm", 1, 2, 'I', false},      {"math", "factorial", 1, 1, 'I', false}, {"math", "isqrt", 1, 1, 'I', false},
    {"cmath", "exp", 1, 1, 'C', true},       {"cmath", "sqrt", 1, 1, 'C', true},      {"cmath", "log", 1, 2, 'C', true},
    {"cmath", "log10", 1, 1, 'C', true},     {"cmath", "sin", 1, 1, 'C', true},       {"cmath", "cos", 1, 1, 'C', true},
    {"cmath", "tan", 1, 1, 'C', true},       {"cmath", "sinh", 1, 1, 'C', true},      {"cmath", "cosh", 1, 1, 'C', true},
    {"cmath", "tanh", 1, 1, 'C', true},      {"cmath", "asin", 1, 1, 'C', true},      {"cmath", "acos", 1, 1, 'C', true},
    {"cmath", "atan", 1, 1, 'C', true},      {"cmath", "rect", 2, 2, 'C', true},      {"cmath", "phase", 1, 1, 'D', true},
};
static PyObject *objects[DYN_COUNTOF(rows)]; /* Strong; NULL where it wasn't asked for yet, or there is none. */

/* The row's function. Its module is asked only for what has the function's name, as asking imports it. */
static bool is_of_row(size_t i, PyObject *o) {
    bool named = PyCFunction_CheckExact(o) && strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, rows[i].name) == 0;
    if (named && objects[i] == NULL) {
        objects[i] = dyn_module_attr(rows[i].module, rows[i].name);
        PyErr_Clear();
    }
    return named && objects[i] == o;
}

/* The kind of an argument; 0: it isn't a number that is told whole. */
static int64_t kind_of(const PlanValue *v, bool numbers) {
    switch ((DynRegionKind)v->v.kind) {
    case DYN_RK_INT: return DYN_BOXED_INT;
    case DYN_RK_FLOAT: return DYN_BOXED_FLOAT;
    case DYN_RK_COMPLEX: return numbers ? DYN_BOXED_COMPLEX : 0;
    case DYN_RK_NP: return numbers && v->v.dtype == DYN_F64 ? DYN_BOXED_FLOAT : 0;
    default: return 0;
    }
}

/* Puts the part of an argument at its place. */
static void put(Plan *p, DynRegionOp op, uint32_t reg, uint32_t *place) {
    plan_emit(p, op, reg, DYN_NONE, DYN_NONE);
    plan_last(p)->imm.i = (*place)++;
}

static void put_number(Plan *p, int64_t kind, PlanValue v, uint32_t *place) {
    if (kind == DYN_BOXED_COMPLEX) {
        put(p, DYN_RO_ARGD, v.v.regs[0], place);
        put(p, DYN_RO_ARGD, v.v.regs[1], place);
    } else {
        put(p, kind == DYN_BOXED_INT ? DYN_RO_ARGI : DYN_RO_ARGD, plan_reg(p, &v), place);
    }
}

static PlanValue call(Plan *p, uint32_t function, int64_t kinds, char result) {
    static const struct {
        char result;
        DynRegionOp op;
    } ops[] = {{'D', DYN_RO_BOXEDD}, {'I', DYN_RO_BOXEDI}, {'N', DYN_RO_BOXEDN}, {'C', DYN_RO_BOXEDC}};
    size_t i = 0;
    while (ops[i].result != result) {
        i++;
    }
    uint32_t reg = plan_emit_or(p, ops[i].op, function, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = kinds;
    if (result == 'C') {
        return plan_complex(reg, plan_emit(p, DYN_RO_BOXEDIMAG, DYN_NONE, DYN_NONE, DYN_NONE));
    }
    return result == 'N' ? plan_np(DYN_I64, reg) : plan_value(result == 'D' ? DYN_RK_FLOAT : DYN_RK_INT, reg);
}

/* Emits the call of the function with what it is a method of, if anything; false: of other arguments than those. */
static bool call_boxed(Plan *p, PyObject *function, const PlanValue *self, const PlanValue *args, uint32_t n, char result,
                       bool numbers, PlanValue *out) {
    int64_t kinds[DYN_BOXED_ARGS] = {0}, all = self != NULL ? DYN_BOXED_OBJECT : 0;
    uint32_t shift = self != NULL ? DYN_BOXED_BITS : 0, place = 0;
    if (n + (self != NULL) > DYN_BOXED_ARGS) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "many arguments");
        return false;
    }
    for (uint32_t i = 0; i < n && i < DYN_BOXED_ARGS; i++, shift += DYN_BOXED_BITS) {
        kinds[i] = kind_of(&args[i], numbers);
        bool fits = kinds[i] != 0 && (result != 'I' || self != NULL || kinds[i] == DYN_BOXED_INT);
        if (!fits) {
            plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an argument that is no number of this kind");
            return false;
        }
        all |= kinds[i] << shift;
    }
    result = result != 'A' ? result : kinds[0] == DYN_BOXED_INT ? 'I' : 'D';
    uint32_t reg = plan_object_reg(p, function);
    if (self != NULL) {
        put(p, DYN_RO_ARGP, self->v.regs[0], &place);
    }
    for (uint32_t i = 0; i < n && i < DYN_BOXED_ARGS; i++) {
        put_number(p, kinds[i], args[i], &place);
    }
    *out = call(p, reg, all, result);
    return true;
}

PlanKnown plan_call_boxed(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PlanValue *out) {
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if (is_of_row(i, o) && n >= rows[i].least && n <= rows[i].most) {
            return call_boxed(p, o, NULL, args, n, rows[i].result, rows[i].numbers, out) ? PLAN_CALLED : PLAN_REFUSED;
        }
    }
    return PLAN_NOT_KNOWN;
}

bool plan_call_boxed_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, char result,
                            PlanValue *out) {
    return call_boxed(p, method, &self, args, n, result, false, out);
}
