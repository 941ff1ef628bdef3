/* sym_eval.c: the arithmetic of Python's int, float and bool on symbols, as far as int64 and double hold it; what native loops
 * compute too is region_math.def's. Constant folding (sym.c), guard evaluation (evalframe) and the reference interpreter call
 * dyn_sym_eval. Owns a reference to math.hypot.
 *
 * What Python would raise, and what an int64 can't hold, is a failure: at call time a guard miss, never a wrong value. The float
 * functions follow the special cases of CPython's Objects/floatobject.c and Modules/mathmodule.c and call the same libm. */
#include "base/cpy.h"
#include "ir/sym.h"
#include "ir/region_math.h"
#include <errno.h>
#include <math.h>

static const double PI = 3.14159265358979323846;

const DynSymInfo dyn_sym_info[DYN_S_COUNT] = {
#define SYM(name, arity, result, text) [DYN_S_##name] = {#name, arity, #result[0], text},
#include "ir/sym.def"
#undef SYM
};

/* CPython's hypot has an algorithm of its own that changes between versions, so it is asked. */
static PyObject *math_hypot;

/* ---- floats */

static int set_float(DynScalar *out, double v) {
    out->f = v;
    return 0;
}

static int set_int(DynScalar *out, int64_t v) {
    out->i = v;
    return 0;
}

static int float_to_int(double v, DynScalar *out) {
    if (!(v >= -9223372036854775808.0 && v < 9223372036854775808.0)) {
        return -1;
    }
    return set_int(out, (int64_t)v);
}

static int float_floordiv(double v, double w, DynScalar *out) { return w == 0.0 ? -1 : set_float(out, rg_ffloordiv(v, w)); }
static int float_mod(double v, double w, DynScalar *out) { return w == 0.0 ? -1 : set_float(out, rg_fmodulo(v, w)); }
static int float_pow(double v, double w, DynScalar *out) { return rg_pow_fails(v, w, &out->f) ? -1 : 0; }

/* ---- math: fail where the module raises. */

static bool math_error(double r) {
    if (errno == ERANGE) {
        return fabs(r) >= 1.5; /* underflow is not an error */
    }
    return errno != 0;
}

static int math_1(double (*fn)(double), double x, DynScalar *out) {
    errno = 0;
    double r = fn(x);
    bool undefined = (isnan(r) && !isnan(x)) || (isinf(r) && isfinite(x));
    if (undefined || (isfinite(r) && errno != 0 && math_error(r))) {
        return -1;
    }
    return set_float(out, r);
}

static int math_log(double (*fn)(double), double x, DynScalar *out) {
    if (x <= 0.0) {
        return -1;
    }
    return isfinite(x) ? math_1(fn, x, out) : set_float(out, x);
}

static int math_pow(double x, double y, DynScalar *out) {
    if (isnan(x)) {
        return set_float(out, y == 0.0 ? 1.0 : x);
    }
    if (isnan(y)) {
        return set_float(out, x == 1.0 ? 1.0 : y);
    }
    if (isinf(x) && y == 0.0) {
        return set_float(out, 1.0);
    }
    if (isinf(x) || isinf(y)) {
        return set_float(out, rg_pow_special(x, y));
    }
    double r = pow(x, y);
    return isfinite(r) ? set_float(out, r) : -1;
}

static int math_atan2(double y, double x, DynScalar *out) {
    if (isnan(x) || isnan(y)) {
        return set_float(out, isnan(x) && !isnan(y) ? x : y);
    }
    bool positive = copysign(1.0, x) == 1.0;
    if (isinf(y)) {
        if (isinf(x)) {
            return set_float(out, copysign(positive ? 0.25 * PI : 0.75 * PI, y));
        }
        return set_float(out, copysign(0.5 * PI, y));
    }
    if (isinf(x) || y == 0.0) {
        return set_float(out, copysign(positive ? 0.0 : PI, y));
    }
    return set_float(out, atan2(y, x));
}

static int math_hypot_call(double x, double y, DynScalar *out) {
    if (math_hypot == NULL) {
        return -1;
    }
    PyObject *type, *value, *traceback, *args[2] = {PyFloat_FromDouble(x), PyFloat_FromDouble(y)}, *r = NULL;
    PyErr_Fetch(&type, &value, &traceback);
    if (args[0] != NULL && args[1] != NULL) {
        r = PyObject_Vectorcall(math_hypot, args, 2, NULL);
    }
    Py_XDECREF(args[0]);
    Py_XDECREF(args[1]);
    PyErr_Restore(type, value, traceback);
    if (r == NULL) {
        return -1;
    }
    out->f = PyFloat_AS_DOUBLE(r);
    Py_DECREF(r);
    return 0;
}

static double half_even(double x) {
    double r = round(x);
    return fabs(x - r) == 0.5 ? 2.0 * round(x / 2.0) : r;
}

/* ---- ints */

static int int_floordiv(int64_t a, int64_t b, DynScalar *out) {
    return b == 0 || (a == INT64_MIN && b == -1) ? -1 : set_int(out, rg_floordiv(a, b));
}

static int int_mod(int64_t a, int64_t b, DynScalar *out) { return b == 0 ? -1 : set_int(out, rg_mod(a, b)); }
static int int_truediv(int64_t a, int64_t b, DynScalar *out) { return b == 0 ? -1 : set_float(out, rg_truediv(a, b)); }
static int int_lshift(int64_t a, int64_t n, DynScalar *out) { return rg_shl_fails(a, n, &out->i) ? -1 : 0; }

static int int_pow(int64_t base, int64_t exponent, DynScalar *out) {
    if (exponent < 0) {
        return float_pow((double)base, (double)exponent, out);
    }
    return rg_ipow_fails(base, exponent, &out->i) ? -1 : 0;
}

static int int_binary(DynSymOp op, int64_t a, int64_t b, DynScalar *out) {
    switch (op) {
    case DYN_S_ADD: return __builtin_add_overflow(a, b, &out->i) ? -1 : 0;
    case DYN_S_SUB: return __builtin_sub_overflow(a, b, &out->i) ? -1 : 0;
    case DYN_S_MUL: return __builtin_mul_overflow(a, b, &out->i) ? -1 : 0;
    case DYN_S_FLOORDIV: return int_floordiv(a, b, out);
    case DYN_S_MOD: return int_mod(a, b, out);
    case DYN_S_TRUEDIV: return int_truediv(a, b, out);
    case DYN_S_POW: return int_pow(a, b, out);
    case DYN_S_LSHIFT: return int_lshift(a, b, out);
    case DYN_S_RSHIFT: return b < 0 ? -1 : set_int(out, a >> dyn_clamp(b, 0, 63));
    case DYN_S_AND: return set_int(out, a & b);
    case DYN_S_OR: return set_int(out, a | b);
    case DYN_S_XOR: return set_int(out, a ^ b);
    case DYN_S_MIN: return set_int(out, b < a ? b : a);
    case DYN_S_MAX: return set_int(out, b > a ? b : a);
    default: return -1;
    }
}

/* abs() of a complex number: the C library's, which raises where it is too large. */
static int modulus(double a, double b, DynScalar *out) {
    double size = hypot(a, b);
    return isfinite(a) && isfinite(b) && !isfinite(size) ? -1 : set_float(out, size);
}

static int float_binary(DynSymOp op, double a, double b, DynScalar *out) {
    switch (op) {
    case DYN_S_ADD: return set_float(out, a + b);
    case DYN_S_SUB: return set_float(out, a - b);
    case DYN_S_MUL: return set_float(out, a * b);
    case DYN_S_TRUEDIV: return b == 0.0 ? -1 : set_float(out, a / b);
    case DYN_S_FLOORDIV: return float_floordiv(a, b, out);
    case DYN_S_MOD: return float_mod(a, b, out);
    case DYN_S_POW: return float_pow(a, b, out);
    case DYN_S_FPOW: return math_pow(a, b, out);
    case DYN_S_ATAN2: return math_atan2(a, b, out);
    case DYN_S_HYPOT: return math_hypot_call(a, b, out);
    case DYN_S_MODULUS: return modulus(a, b, out);
    case DYN_S_MIN: return set_float(out, b < a ? b : a);
    case DYN_S_MAX: return set_float(out, b > a ? b : a);
    default: return -1;
    }
}

/* ---- comparisons: -1, 0, 1, or 2 when unordered. An int and a float are compared as the exact numbers. */

static int order_int_float(int64_t a, double b) {
    if (isnan(b)) {
        return 2;
    }
    if (b >= 9223372036854775808.0) {
        return -1;
    }
    if (b < -9223372036854775808.0) {
        return 1;
    }
    double whole = trunc(b);
    int64_t t = (int64_t)whole;
    if (a != t) {
        return a < t ? -1 : 1;
    }
    return whole < b ? -1 : whole > b;
}

static int order(DynSymType ta, DynSymType tb, DynScalar a, DynScalar b) {
    bool fa = ta == DYN_T_FLOAT, fb = tb == DYN_T_FLOAT;
    if (fa && fb) {
        return isnan(a.f) || isnan(b.f) ? 2 : (a.f > b.f) - (a.f < b.f);
    }
    if (fb) {
        return order_int_float(a.i, b.f);
    }
    if (fa) {
        int r = order_int_float(b.i, a.f);
        return r == 2 ? 2 : -r;
    }
    return a.i < b.i ? -1 : a.i > b.i;
}

static int compare(DynSymOp op, int r, DynScalar *out) {
    switch (op) {
    case DYN_S_EQ: return set_int(out, r == 0);
    case DYN_S_NE: return set_int(out, r != 0);
    case DYN_S_LT: return set_int(out, r == -1);
    case DYN_S_LE: return set_int(out, r == -1 || r == 0);
    case DYN_S_GT: return set_int(out, r == 1);
    default: return set_int(out, r == 0 || r == 1);
    }
}

static int same_bits(DynSymType t, DynScalar a, DynScalar b, DynScalar *out) {
    bool both_nan = t == DYN_T_FLOAT && isnan(a.f) && isnan(b.f);
    return set_int(out, a.i == b.i || both_nan);
}

/* ---- slices, as PySlice_AdjustIndices */

static int slice_bound(int64_t v, int64_t length, int64_t step, DynScalar *out) {
    if (step == 0 || length < 0) {
        return -1;
    }
    if (v < 0) {
        v += length;
        if (v < 0) {
            v = step < 0 ? -1 : 0;
        }
    } else if (v >= length) {
        v = step < 0 ? length - 1 : length;
    }
    return set_int(out, v);
}

static int slice_len(int64_t start, int64_t stop, int64_t step, DynScalar *out) {
    if (step == 0) {
        return -1;
    }
    int64_t low = start, high = stop;
    if (step < 0) {
        low = stop;
        high = start;
    }
    if (low >= high) {
        return set_int(out, 0);
    }
    uint64_t span = (uint64_t)high - (uint64_t)low, by = step > 0 ? (uint64_t)step : 0 - (uint64_t)step, n = (span - 1) / by + 1;
    return n > INT64_MAX ? -1 : set_int(out, (int64_t)n);
}

/* ---- one operand */

static int negate_int(int64_t a, DynScalar *out) { return a == INT64_MIN ? -1 : set_int(out, -a); }

static int unary_int(DynSymOp op, int64_t a, DynScalar *out) {
    switch (op) {
    case DYN_S_NEG: return negate_int(a, out);
    case DYN_S_ABS: return a < 0 ? negate_int(a, out) : set_int(out, a);
    case DYN_S_INVERT: return set_int(out, ~a);
    case DYN_S_NOT: return set_int(out, a == 0);
    case DYN_S_BOOL: return set_int(out, a != 0);
    case DYN_S_ISFINITE: return set_int(out, 1);
    default: /* TO_INT FLOOR CEIL ROUND */ return set_int(out, a);
    }
}

static int unary_float(DynSymOp op, double a, DynScalar *out) {
    switch (op) {
    case DYN_S_NEG: return set_float(out, -a);
    case DYN_S_ABS:
    case DYN_S_FABS: return set_float(out, fabs(a));
    case DYN_S_NOT: return set_int(out, a == 0.0);
    case DYN_S_BOOL: return set_int(out, a != 0.0);
    case DYN_S_ISFINITE: return set_int(out, isfinite(a) ? 1 : 0);
    case DYN_S_TO_FLOAT: return set_float(out, a);
    case DYN_S_TO_INT: return float_to_int(trunc(a), out);
    case DYN_S_FLOOR: return float_to_int(floor(a), out);
    case DYN_S_CEIL: return float_to_int(ceil(a), out);
    case DYN_S_ROUND: return float_to_int(half_even(a), out);
    case DYN_S_SQRT: return math_1(sqrt, a, out);
    case DYN_S_EXP: return math_1(exp, a, out);
    case DYN_S_LOG: return math_log(log, a, out);
    case DYN_S_LOG2: return math_log(log2, a, out);
    case DYN_S_LOG10: return math_log(log10, a, out);
    case DYN_S_SIN: return math_1(sin, a, out);
    case DYN_S_COS: return math_1(cos, a, out);
    case DYN_S_TAN: return math_1(tan, a, out);
    case DYN_S_ATAN: return math_1(atan, a, out);
    case DYN_S_TANH: return math_1(tanh, a, out);
    default: return -1;
    }
}

/* ---- what a row takes and gives */

static bool takes_ints_only(DynSymOp op) {
    switch (op) {
    case DYN_S_LSHIFT:
    case DYN_S_RSHIFT:
    case DYN_S_AND:
    case DYN_S_OR:
    case DYN_S_XOR:
    case DYN_S_INVERT:
    case DYN_S_SLICE_START:
    case DYN_S_SLICE_STOP:
    case DYN_S_SLICE_LEN: return true;
    default: return false;
    }
}

int dyn_sym_result(DynSymOp op, DynSymType ta, DynSymType tb, DynScalar b) {
    int arity = dyn_sym_info[op].arity;
    bool fa = ta == DYN_T_FLOAT, fb = arity > 1 && tb == DYN_T_FLOAT, any_float = fa || fb;
    if (arity == 0 || (any_float && takes_ints_only(op))) {
        return -1;
    }
    switch (op) {
    case DYN_S_POW: return fa || fb || b.i < 0 ? DYN_T_FLOAT : DYN_T_INT;
    case DYN_S_AND:
    case DYN_S_OR:
    case DYN_S_XOR: return ta == DYN_T_BOOL && tb == DYN_T_BOOL ? DYN_T_BOOL : DYN_T_INT;
    case DYN_S_MIN:
    case DYN_S_MAX: return ta == tb ? (int)ta : -1;
    case DYN_S_SAME_BITS: return ta == tb ? DYN_T_BOOL : -1;
    default: break;
    }
    switch (dyn_sym_info[op].result) {
    case 'I': return DYN_T_INT;
    case 'F': return DYN_T_FLOAT;
    case 'B': return DYN_T_BOOL;
    default: return fa || fb ? DYN_T_FLOAT : DYN_T_INT;
    }
}

/* The operator on operands of types that it takes. */
static int evaluate(DynSymOp op, DynSymType ta, DynSymType tb, DynScalar a, DynScalar b, DynScalar c, DynScalar *out) {
    const DynSymInfo *info = &dyn_sym_info[op];
    bool fa = ta == DYN_T_FLOAT, fb = info->arity > 1 && tb == DYN_T_FLOAT;
    if (op >= DYN_S_EQ && op <= DYN_S_GE) {
        return compare(op, order(ta, tb, a, b), out);
    }
    switch (op) {
    case DYN_S_SAME_BITS: return same_bits(ta, a, b, out);
    case DYN_S_SLICE_START:
    case DYN_S_SLICE_STOP: return slice_bound(a.i, b.i, c.i, out);
    case DYN_S_SLICE_LEN: return slice_len(a.i, b.i, c.i, out);
    default: break;
    }
    bool any_float = fa || fb, by_floats = info->result == 'F' && op != DYN_S_TRUEDIV;
    if (!any_float && !by_floats) {
        return info->arity == 1 ? unary_int(op, a.i, out) : int_binary(op, a.i, b.i, out);
    }
    double da = fa ? a.f : (double)a.i;
    double db = fb ? b.f : (double)b.i;
    return info->arity == 1 ? unary_float(op, da, out) : float_binary(op, da, db, out);
}

int dyn_sym_eval(DynSymOp op, DynSymType ta, DynSymType tb, DynScalar a, DynScalar b, DynScalar c, DynScalar *out) {
    return dyn_sym_result(op, ta, tb, b) < 0 ? -1 : evaluate(op, ta, tb, a, b, c, out);
}

int dyn_sym_eval_row(const DynSyms *t, uint32_t id, const DynScalar *values, DynScalar *out) {
    static const DynScalar none = {.i = 0};
    const DynSym *s = dyn_sym_at(t, id);
    if (s->op == DYN_S_CONST) {
        *out = s->value;
        return 0;
    }
    int arity = dyn_sym_info[s->op].arity;
    if (arity == 0) {
        return -1;
    }
    DynSymType ta = dyn_sym_at(t, s->a)->type, tb = DYN_T_INT;
    DynScalar b = none, c = none;
    if (arity > 1) {
        tb = dyn_sym_at(t, s->b)->type;
        b = values[s->b];
    }
    if (arity > 2) {
        c = values[s->c];
    }
    /* the table has checked the types when it made the row; only a power's depends on a value, too */
    if (s->op == DYN_S_POW && dyn_sym_result(DYN_S_POW, ta, tb, b) != s->type) {
        return -1;
    }
    return evaluate((DynSymOp)s->op, ta, tb, values[s->a], b, c, out);
}

/* ---- tests: _sym_eval(opname, a, b=0, c=0) gives the Python value, or None where evaluation fails. */

static int read_number(PyObject *o, DynSymType *type, DynScalar *out) {
    if (PyFloat_CheckExact(o)) {
        *type = DYN_T_FLOAT;
        out->f = PyFloat_AS_DOUBLE(o);
        return 0;
    }
    *type = PyBool_Check(o) ? DYN_T_BOOL : DYN_T_INT;
    out->i = PyLong_AsLongLong(o);
    return out->i == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *sym_eval(PyObject *module, PyObject *args) {
    const char *name;
    PyObject *o[3] = {NULL, Py_False, Py_False};
    DynSymType t[3];
    DynScalar v[3], out;
    if (!PyArg_ParseTuple(args, "sO|OO", &name, &o[0], &o[1], &o[2])) {
        return NULL;
    }
    int op = 0;
    while (op < DYN_S_COUNT && strcmp(dyn_sym_info[op].name, name) != 0) {
        op++;
    }
    if (op == DYN_S_COUNT) {
        PyErr_SetString(PyExc_ValueError, "no such operator");
        return NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (read_number(o[i], &t[i], &v[i]) < 0) {
            return NULL;
        }
    }
    if (dyn_sym_eval((DynSymOp)op, t[0], t[1], v[0], v[1], v[2], &out) < 0) {
        Py_RETURN_NONE;
    }
    switch (dyn_sym_result((DynSymOp)op, t[0], t[1], v[1])) {
    case DYN_T_FLOAT: return PyFloat_FromDouble(out.f);
    case DYN_T_BOOL: return PyBool_FromLong(out.i != 0);
    default: return PyLong_FromLongLong(out.i);
    }
}

static PyObject *sym_ops(PyObject *module, PyObject *unused) {
    PyObject *list = PyList_New(0);
    for (int op = 0; list != NULL && op < DYN_S_COUNT; op++) {
        PyObject *row = Py_BuildValue("(si)", dyn_sym_info[op].name, dyn_sym_info[op].arity);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef methods[] = {
    {"_sym_eval", sym_eval, METH_VARARGS, NULL}, {"_sym_ops", sym_ops, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

int dyn_sym_init_module(PyObject *module) {
    PyObject *math = dyn_import("math");
    if (math == NULL) {
        return -1;
    }
    Py_XSETREF(math_hypot, PyObject_GetAttrString(math, "hypot"));
    Py_DECREF(math);
    return math_hypot == NULL ? -1 : PyModule_AddFunctions(module, methods);
}
