/* rec_torch_elementwise.c: PyTorch's elementwise functions and operators, rows of bind_torch.def.
 *
 * Called through rec_torch.c's table, behind the real call. A rule adds nodes and checks them against what PyTorch gave; a form
 * that a rule doesn't know is a call of PyTorch's own (rec_torch_call.c). Owns nothing. */
#include "base/cpy.h"
#include "tracer/torch/rec_torch.h"

/* ---- elementwise rules */

/* The dtype of an operator's result: abs of complex numbers is real. */
static DynDtype result_of(DynOp op, DynDtype compute) {
    return dyn_ops[op].flags & DYN_OPF_REAL ? dyn_dtype_real(compute) : compute;
}

static uint32_t unary(DynRec *r, const NpCall *c, DynOp op, bool floats, bool truth) {
    NpArg a;
    if (dyn_tt_operand(r, c, "input", &a) < 0 || a.arg.kind != DYN_ARG_NODE) {
        return dyn_np_no_node(r);
    }
    DynDtype dt = (DynDtype)a.code, compute = floats ? dyn_tt_float(r, dt) : dt;
    DynDtype result = truth ? DYN_BOOL : result_of(op, compute);
    if (truth && dyn_ops[op].dtype == DYN_DT_LOGICAL) {
        compute = DYN_BOOL;
    } else if (dt == DYN_BOOL && !floats && op != DYN_OP_INVERT) {
        return dyn_np_no_node(r); /* torch's rules for booleans aren't followed */
    }
    return dyn_tt_elementwise(r, op, compute, result, &a, 1);
}

DynVal *tt_rule_unary_float(DynRec *r, NpCall *c) { return dyn_tt_finish(r, c, unary(r, c, (DynOp)c->b->op, true, false)); }
DynVal *tt_rule_unary_same(DynRec *r, NpCall *c) {
    bool itself = c->b->op == DYN_OP_POSITIVE && c->slot[0].v != NULL && c->result == c->slot[0].real;
    return itself ? c->slot[0].v : dyn_tt_finish(r, c, unary(r, c, (DynOp)c->b->op, false, false));
}
DynVal *tt_rule_unary_bool(DynRec *r, NpCall *c) { return dyn_tt_finish(r, c, unary(r, c, (DynOp)c->b->op, false, true)); }

/* 1 / a. Of complex numbers PyTorch divides on this machine, where NumPy's reciprocal has a formula of its own: they differ at 0
 * and infinities, and in the signs of zeros. */
static uint32_t reciprocal(DynRec *r, uint32_t a) {
    if (a == DYN_NONE || !dyn_dtype_is_complex((DynDtype)dyn_np_node_at(r, a)->dtype) || dyn_tt_has_own_kernel(r)) {
        return a == DYN_NONE ? a : dyn_tt_unary(r, DYN_OP_RECIPROCAL, a);
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    NpArg quotient[2] = {dyn_tt_number(r, 1), dyn_np_node_arg(r, a)};
    return dyn_tt_elementwise(r, DYN_OP_DIVIDE, dt, dt, quotient, 2);
}

static uint32_t square_root(DynRec *r, uint32_t a) { return a == DYN_NONE ? a : dyn_tt_unary(r, DYN_OP_SQRT, a); }

DynVal *tt_rule_reciprocal(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || !dyn_dtype_is_complex((DynDtype)dyn_np_node_at(r, a)->dtype)) {
        return tt_rule_unary_float(r, c);
    }
    return dyn_tt_finish(r, c, reciprocal(r, a));
}

/* Rounded once. */
DynVal *tt_rule_rsqrt(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    DynDtype dt = a == DYN_NONE ? DYN_NO_DTYPE : dyn_tt_float(r, (DynDtype)dyn_np_node_at(r, a)->dtype);
    uint32_t t = a == DYN_NONE ? a : reciprocal(r, square_root(r, dyn_tt_cast(r, a, dyn_tt_wide(dt))));
    const DynArg operands[3] = {{DYN_ARG_NODE, a}, {DYN_ARG_NONE, DYN_NONE}, {DYN_ARG_NONE, DYN_NONE}};
    if (t == DYN_NONE || rec_torch_formula(r, t, operands, "multiply(multiply(g, -0.5), multiply(r, multiply(r, r)))") < 0) {
        return NULL;
    }
    return dyn_tt_finish(r, c, dyn_tt_cast(r, t, dt));
}

DynVal *tt_rule_frac(DynRec *r, NpCall *c) {
    uint32_t a = dyn_np_node(r, c->slot[0]), whole = unary(r, c, DYN_OP_TRUNC, false, false);
    return whole == DYN_NONE ? NULL : dyn_tt_finish(r, c, dyn_tt_binary(r, DYN_OP_SUBTRACT, a, dyn_np_node_arg(r, whole)));
}

DynVal *tt_rule_round(DynRec *r, NpCall *c) {
    return dyn_np_slot(c, "decimals").v != NULL ? dyn_np_unsupported(r)
                                                : dyn_tt_finish(r, c, unary(r, c, DYN_OP_RINT, false, false));
}

int dyn_tt_two(DynRec *r, const NpCall *c, NpArg *args) {
    if (c->slot[0].v == NULL || c->slot[1].v == NULL) {
        return dyn_np_unsupported(r), -1;
    }
    return dyn_np_operand(r, c->slot[0], &args[0]) < 0 ? -1 : dyn_np_operand(r, c->slot[1], &args[1]);
}

/* The operator in that dtype: torch adds booleans as `or`, multiplies them as `and`, and refuses to subtract them. */
static DynOp arithmetic_row(DynOp op, DynDtype dt) {
    if (dt != DYN_BOOL) {
        return op;
    }
    switch (op) {
    case DYN_OP_ADD:
    case DYN_OP_MAXIMUM: return DYN_OP_LOGICAL_OR;
    case DYN_OP_MULTIPLY:
    case DYN_OP_MINIMUM: return DYN_OP_LOGICAL_AND;
    default: return op;
    }
}

static bool divides_whole(DynOp op) { return op == DYN_OP_REMAINDER || op == DYN_OP_FMOD || op == DYN_OP_FLOOR_DIVIDE; }

/* A remainder of 0 has the sign of what is divided; NumPy's has the divisor's. */
static uint32_t zero_as_divided(DynRec *r, uint32_t remainder, NpArg divided, DynDtype dt) {
    NpArg args[2] = {dyn_np_node_arg(r, remainder), divided};
    uint32_t zero = dyn_tt_compare(r, DYN_OP_EQUAL, remainder, dyn_tt_number(r, 0));
    return dyn_tt_choose(r, zero, dyn_tt_elementwise(r, DYN_OP_COPYSIGN, dt, dt, args, 2), args[0]);
}

static uint32_t arithmetic(DynRec *r, DynOp op, const NpArg *args) {
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    if (dt == DYN_NO_DTYPE) {
        return DYN_NONE;
    }
    if (!dyn_dtype_is_inexact(dt) && divides_whole(op)) {
        return dyn_np_no_node(r); /* a division of integers by zero raises */
    }
    uint32_t id = dyn_tt_elementwise(r, arithmetic_row(op, dt), dt, dt, args, 2);
    return op == DYN_OP_REMAINDER && id != DYN_NONE ? zero_as_divided(r, id, args[0], dt) : id;
}

DynVal *tt_rule_arithmetic(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL : dyn_tt_finish(r, c, arithmetic(r, (DynOp)c->b->op, args));
}

double dyn_tt_as_half(double x, DynDtype dt) {
    int exponent, bits = dt == DYN_BF16 ? 8 : 11;
    int least = dt == DYN_BF16 ? -133 : -24;
    frexp((float)x, &exponent);
    int unit = exponent - bits > least ? exponent - bits : least;
    return ldexp(rint(ldexp((float)x, -unit)), unit);
}

static int read_alpha(DynRec *r, DynOperand alpha, DynDtype dt, NpArg *out) {
    double burnt = 0;
    if (!dyn_dtype_is_half(dt)) {
        return dyn_np_operand(r, alpha, out);
    }
    if (dyn_tt_burnt_float(r, alpha, &burnt) < 0 || fabs(burnt) > 65504) {
        return -1;
    }
    *out = dyn_tt_number(r, dyn_tt_as_half(burnt, dt));
    return 0;
}

/* A number as a complex one. */
static int complex_number(DynRec *r, double real, NpArg *out) {
    PyObject *number = PyComplex_FromDoubles(real, 0);
    DynVal *v = number == NULL ? NULL : dyn_rec_const(r, number);
    int made = v == NULL ? -1 : dyn_np_operand(r, (DynOperand){v, number}, out);
    Py_XDECREF(number);
    return made;
}

static bool is_number(NpArg a) { return a.arg.kind == DYN_ARG_SYM || a.code == NP_WEAK_COMPLEX; }

/* Of complex numbers PyTorch adds other * (1 + 0j), and subtracts by adding other * (-1 + 0j), which makes infinite parts nan. */
static uint32_t add_complex(DynRec *r, DynOp op, NpArg *args, DynDtype dt) {
    bool reflected = is_number(args[0]); /* number + tensor is tensor + number */
    NpArg sum[2] = {args[op == DYN_OP_ADD && reflected], args[op == DYN_OP_SUBTRACT || !reflected]}, product[2] = {sum[1]};
    if (complex_number(r, op == DYN_OP_SUBTRACT ? -1 : 1, &product[1]) < 0) {
        return DYN_NONE;
    }
    uint32_t t = dyn_tt_elementwise(r, DYN_OP_MULTIPLY, dt, dt, product, 2);
    if (t == DYN_NONE) {
        return t;
    }
    sum[1] = dyn_np_node_arg(r, t);
    return dyn_tt_elementwise(r, DYN_OP_ADD, dt, dt, sum, 2);
}

/* input + alpha * other: alpha of 1 is none, others are of the dtype that all meet in. Of halves the sum is rounded once. */
static uint32_t add_scaled(DynRec *r, DynOp op, NpArg *args, DynOperand alpha) {
    NpArg scale;
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    if (dt == DYN_NO_DTYPE) {
        return DYN_NONE;
    }
    DynDtype wide = dyn_tt_wide(dt);
    if (alpha.v != NULL && !(PyLong_CheckExact(alpha.real) && PyLong_AsLong(alpha.real) == 1)) {
        NpArg product[2] = {args[1]};
        if (read_alpha(r, alpha, dt, &scale) < 0 || dt == DYN_BOOL) {
            return dyn_np_no_node(r);
        }
        if (!dyn_dtype_is_inexact(dt) && scale.code == NP_WEAK_FLOAT) {
            return dyn_np_no_node(r);
        }
        product[1] = scale;
        uint32_t t = dyn_tt_elementwise(r, DYN_OP_MULTIPLY, wide, wide, product, 2);
        if (t == DYN_NONE) {
            return t;
        }
        args[1] = dyn_np_node_arg(r, t);
        if (wide != dt) {
            return dyn_tt_elementwise(r, op, wide, dt, args, 2);
        }
    } else if (alpha.v != NULL && dyn_rec_burn(r, alpha.v, alpha.real) < 0) {
        return dyn_np_no_node(r);
    } else if (dyn_dtypes[dt].kind == 'c') {
        return add_complex(r, op, args, dt);
    }
    return op == DYN_OP_SUBTRACT && dt == DYN_BOOL ? dyn_np_no_node(r)
                                                   : dyn_tt_elementwise(r, arithmetic_row(op, dt), dt, dt, args, 2);
}

DynVal *tt_rule_add(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL : dyn_tt_finish(r, c, add_scaled(r, (DynOp)c->b->op, args, dyn_np_slot(c, "alpha")));
}

DynVal *tt_rule_rsub(DynRec *r, NpCall *c) {
    NpArg args[2];
    if (dyn_tt_two(r, c, args) < 0) {
        return NULL;
    }
    NpArg turned[2] = {args[1], args[0]};
    return dyn_np_slot(c, "alpha").v != NULL ? dyn_np_unsupported(r)
                                             : dyn_tt_finish(r, c, add_scaled(r, DYN_OP_SUBTRACT, turned, (DynOperand){0}));
}

/* number / tensor is that tensor's reciprocal, times the number. On a device PyTorch takes a number by which complex ones are
 * divided as a factor. Both show where infinities are. */
static uint32_t divide_complex(DynRec *r, const NpArg *args, DynDtype dt) {
    uint32_t t = DYN_NONE;
    if (is_number(args[0])) {
        t = reciprocal(r, dyn_tt_cast(r, args[1].arg.id, dt));
    } else {
        NpArg quotient[2] = {args[1], args[1]};
        t = complex_number(r, 1, &quotient[0]) < 0 ? t : dyn_tt_elementwise(r, DYN_OP_DIVIDE, dt, dt, quotient, 2);
    }
    if (t == DYN_NONE) {
        return t;
    }
    NpArg product[2] = {args[0], dyn_np_node_arg(r, t)};
    return dyn_tt_elementwise(r, DYN_OP_MULTIPLY, dt, dt, product, 2);
}

/* On a device PyTorch divides by a number as a product by its reciprocal, in single precision but for doubles. False: it isn't
 * one number at every call. */
static bool find_factor(DynRec *r, NpArg number, DynDtype dt, NpArg *factor) {
    const DynSym *s = number.arg.kind == DYN_ARG_SYM ? dyn_sym_at(dyn_rec_syms(r), number.arg.id) : NULL;
    if (s == NULL || s->op != DYN_S_CONST || dyn_dtypes[dt].kind != 'f' || !dyn_tt_has_own_kernel(r)) {
        return false;
    }
    double value = s->type == DYN_T_FLOAT ? s->value.f : (double)s->value.i;
    *factor = dyn_tt_number(r, dt == DYN_F64 ? 1 / value : (double)(1 / (float)value));
    return !dyn_tt_is_missing(*factor);
}

static uint32_t divide(DynRec *r, const NpArg *args) {
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    dt = dt == DYN_NO_DTYPE ? dt : dyn_tt_float(r, dt);
    bool by_factor = is_number(args[0]) || (is_number(args[1]) && dyn_tt_has_own_kernel(r));
    if (dt != DYN_NO_DTYPE && dyn_dtype_is_complex(dt) && by_factor) {
        return divide_complex(r, args, dt);
    }
    if (dt != DYN_NO_DTYPE && dyn_dtype_is_half(dt) && args[0].arg.kind == DYN_ARG_SYM) { /* Tensor.__rdiv__ */
        uint32_t t = dyn_tt_elementwise(r, DYN_OP_RECIPROCAL, dt, dt, &args[1], 1);
        return dyn_tt_binary(r, DYN_OP_MULTIPLY, t, args[0]);
    }
    NpArg product[2] = {args[0]};
    if (dt != DYN_NO_DTYPE && find_factor(r, args[1], dt, &product[1])) {
        return dyn_tt_elementwise(r, DYN_OP_MULTIPLY, dt, dt, product, 2);
    }
    return dyn_tt_elementwise(r, DYN_OP_DIVIDE, dt, dt, args, 2);
}

/* rounding_mode: "floor" and "trunc" of floats; those of integers raise where they divide by zero. */
DynVal *tt_rule_divide(DynRec *r, NpCall *c) {
    NpArg args[2];
    DynOperand mode = dyn_np_slot(c, "rounding_mode");
    if (dyn_tt_two(r, c, args) < 0) {
        return NULL;
    }
    if (mode.v == NULL) {
        return dyn_tt_finish(r, c, divide(r, args));
    }
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    if (dt == DYN_NO_DTYPE || !dyn_dtype_is_inexact(dt)) {
        return dyn_np_unsupported(r);
    }
    if (dyn_tt_is_str(r, mode, "floor")) {
        return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_FLOOR_DIVIDE, dt, dt, args, 2));
    }
    if (dyn_tt_is_str(r, mode, "trunc")) {
        DynDtype wide = dyn_tt_goes_by_float(r, DYN_OP_DIVIDE, dt, args) ? DYN_F32 : dt;
        uint32_t t = dyn_tt_unary(r, DYN_OP_TRUNC, dyn_tt_elementwise(r, DYN_OP_DIVIDE, wide, wide, args, 2));
        return dyn_tt_finish(r, c, dyn_tt_cast(r, t, dt));
    }
    return dyn_np_unsupported(r);
}

DynVal *tt_rule_float(DynRec *r, NpCall *c) {
    NpArg args[2];
    if (dyn_tt_two(r, c, args) < 0) {
        return NULL;
    }
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    dt = dt == DYN_NO_DTYPE ? dt : dyn_tt_float(r, dt);
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, (DynOp)c->b->op, dt, dt, args, 2));
}

static uint32_t compare(DynRec *r, DynOp op, const NpArg *args) {
    return dyn_tt_elementwise(r, op, dyn_tt_result_type(r, args, 2), DYN_BOOL, args, 2);
}

DynVal *tt_rule_compare(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL : dyn_tt_finish(r, c, compare(r, (DynOp)c->b->op, args));
}

DynVal *tt_rule_logical(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL
                                      : dyn_tt_finish(r, c, dyn_tt_elementwise(r, (DynOp)c->b->op, DYN_BOOL, DYN_BOOL, args, 2));
}

/* Of halves to a number: a square is their product on each device. Other exponents, 3 and 0.5 among them, torch's kernels round
 * each in its own way, and they stay torch's. */
static uint32_t power_of_halves(DynRec *r, DynDtype dt, const NpArg *args) {
    int squares = dyn_np_exponent_is(r, args[1].arg.id, 2);
    if (squares == 0) {
        return dyn_np_no_node(r);
    }
    return squares < 0 ? DYN_NONE : dyn_tt_elementwise(r, DYN_OP_SQUARE, dt, dt, args, 1);
}

/* Of complex numbers to a number, on this machine: products, roots and reciprocals for the exponents that PyTorch looks at, other
 * powers stay its calls, as NumPy's have other values at zeros and infinities. */
static uint32_t power_of_complex(DynRec *r, DynDtype dt, const NpArg *args) {
    static const struct {
        double value;
        bool root, inverse;
        int factors;
    } known[] = {{2, false, false, 2}, {0.5, true, false, 1}, {-1, false, true, 1},
                 {3, false, false, 3}, {-0.5, true, true, 1}, {-2, false, true, 2}};
    for (size_t i = 0; i < DYN_COUNTOF(known); i++) {
        int is = dyn_np_exponent_is(r, args[1].arg.id, known[i].value);
        if (is < 0) {
            return DYN_NONE;
        }
        if (is > 0) {
            uint32_t a = dyn_tt_cast(r, args[0].arg.id, dt), t = known[i].root ? square_root(r, a) : a;
            for (int n = 1; n < known[i].factors; n++) {
                t = dyn_tt_nodes(r, DYN_OP_MULTIPLY, t, a);
            }
            return known[i].inverse ? reciprocal(r, t) : t;
        }
    }
    return dyn_np_no_node(r);
}

/* Exponents 2, 0.5, -1 … are what torch's kernels look at too; float_power of rec_numpy_elem.c guards those it uses. */
static uint32_t power(DynRec *r, const NpArg *args) {
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    bool number = args[1].arg.kind == DYN_ARG_SYM && args[0].arg.kind == DYN_ARG_NODE;
    bool by_truth = number && args[1].code == DYN_BOOL;
    if (dt == DYN_NO_DTYPE || !dyn_dtype_is_inexact(dt) || by_truth) {
        return dyn_np_no_node(r);
    }
    if (dyn_dtype_is_complex(dt) && !dyn_tt_has_own_kernel(r)) {
        return number ? power_of_complex(r, dt, args) : dyn_np_no_node(r);
    }
    return number && dyn_dtype_is_half(dt) ? power_of_halves(r, dt, args) : dyn_tt_elementwise(r, DYN_OP_POWER, dt, dt, args, 2);
}

DynVal *tt_rule_pow(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL : dyn_tt_finish(r, c, power(r, args));
}

DynVal *tt_rule_where(DynRec *r, NpCall *c) {
    static const char *const names[] = {"condition", "input", "other"}; /* the method's tensor is the input */
    NpArg args[3];
    for (int i = 0; i < 3; i++) {
        if (dyn_tt_operand(r, c, names[i], &args[i]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    DynDtype dt = dyn_tt_result_type(r, args + 1, 2);
    if (args[0].code != DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_WHERE, dt, dt, args, 3));
}

/* Does a gradient go through clamp where an element equals a bound? PyTorch is asked once: 1 or 0; -1: it can't be asked. */
static int passes_at_bounds(void) {
    static int passes = -1;
    if (passes < 0) {
        PyObject *module = dyn_import("dynoc._torch"),
                 *answer = module == NULL ? NULL : PyObject_CallMethod(module, "clamp_passes_at_bounds", NULL);
        passes = answer == NULL ? -1 : answer == Py_True;
        PyErr_Clear();
        Py_XDECREF(answer);
        Py_XDECREF(module);
    }
    return passes;
}

/* Bounds that are numbers stop gradients outside of them; of others the gradient is PyTorch's own affair. */
static bool clamp_derives(DynRec *r, const NpArg *args, int n, uint32_t node, bool above) {
    const DynArg none = {DYN_ARG_NONE, DYN_NONE};
    DynArg operands[3] = {args[0].arg, n > 1 ? args[1].arg : none, n > 2 ? args[2].arg : none};
    bool grad = false, numbers = true;
    for (int i = 0; i < n; i++) {
        bool is_node = args[i].arg.kind == DYN_ARG_NODE;
        grad = grad || (is_node && (dyn_np_node_at(r, args[i].arg.id)->flags & DYN_NODE_GRAD));
        numbers = numbers && (i == 0 || !is_node);
    }
    if (!grad || !dyn_torch_records_gradients()) {
        return true;
    }
    static const char *const formulas[2][3] = {
        {"where(greater(a, b), g, 0)", "where(less(a, b), g, 0)", "where(logical_and(greater(a, b), less(a, c)), g, 0)"},
        {"where(greater_equal(a, b), g, 0)", "where(less_equal(a, b), g, 0)",
         "where(logical_and(greater_equal(a, b), less_equal(a, c)), g, 0)"}};
    int passes = numbers ? passes_at_bounds() : -1;
    return passes >= 0 && rec_torch_formula(r, node, operands, formulas[passes][n > 2 ? 2 : above]) == 0;
}

/* clamp: the smaller of max and the larger of min and x. Nan goes through. */
DynVal *tt_rule_clamp(DynRec *r, NpCall *c) {
    DynOperand bound[2] = {dyn_np_slot(c, "min"), dyn_np_slot(c, "max")};
    NpArg args[3];
    int n = 1;
    if (dyn_np_operand(r, c->slot[0], &args[0]) < 0) {
        return NULL;
    }
    for (int i = 0; i < 2; i++) {
        if (bound[i].v != NULL && dyn_np_operand(r, bound[i], &args[n++]) < 0) {
            return NULL;
        }
    }
    DynDtype dt = n == 1 ? DYN_NO_DTYPE : dyn_tt_result_type(r, args, n);
    if (dt == DYN_NO_DTYPE || dt == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    uint32_t node = DYN_NONE;
    for (int i = 0, at = 1; i < 2; i++) {
        if (bound[i].v == NULL) {
            continue;
        }
        NpArg pair[2] = {node == DYN_NONE ? args[0] : dyn_np_node_arg(r, node), args[at++]};
        if ((node = dyn_tt_elementwise(r, i == 0 ? DYN_OP_MAXIMUM : DYN_OP_MINIMUM, dt, dt, dyn_tt_stays(r, pair, dt), 2)) ==
            DYN_NONE) {
            return NULL;
        }
    }
    return clamp_derives(r, args, n, node, bound[0].v == NULL) ? dyn_tt_finish(r, c, node) : dyn_np_unsupported(r);
}

/* input + value * (tensor1 op tensor2), rounded once */
DynVal *tt_rule_addc(DynRec *r, NpCall *c) {
    NpArg args[3];
    for (int i = 0; i < 3; i++) {
        if (c->slot[i].v == NULL || dyn_np_operand(r, c->slot[i], &args[i]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    DynOperand value = dyn_np_slot(c, "value");
    DynDtype dt = dyn_tt_result_type(r, args, 3);
    bool whole = dt != DYN_NO_DTYPE && dyn_dtype_is_integer(dt) && c->b->op == DYN_OP_MULTIPLY;
    if (dt == DYN_NO_DTYPE || (dyn_dtypes[dt].kind != 'f' && !whole)) {
        return dyn_np_unsupported(r);
    }
    NpArg scaled[2] = {args[1]}, sum[2] = {args[0]};
    DynDtype wide = dyn_tt_wide(dt);
    if (value.v != NULL) { /* torch scales the first factor */
        if (dyn_np_operand(r, value, &scaled[1]) < 0 || (whole && scaled[1].code != NP_WEAK_INT)) {
            return dyn_np_unsupported(r);
        }
        uint32_t t = dyn_tt_elementwise(r, DYN_OP_MULTIPLY, wide, wide, scaled, 2);
        if (t == DYN_NONE) {
            return NULL;
        }
        scaled[0] = dyn_np_node_arg(r, t);
    }
    scaled[1] = args[2];
    uint32_t t = dyn_tt_elementwise(r, (DynOp)c->b->op, wide, wide, scaled, 2);
    if (t == DYN_NONE) {
        return NULL;
    }
    sum[1] = dyn_np_node_arg(r, t);
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_ADD, wide, dt, sum, 2));
}

/* lerp: |weight| < 0.5: start + weight * (end - start), else from the end: aten/src/ATen/native/Lerp.h. Rounded once. */
static uint32_t lerp_by_number(DynRec *r, const NpArg *args, double w, DynDtype dt) {
    NpArg turned[2] = {args[1], args[0]};
    bool low = w > -0.5 && w < 0.5;
    DynDtype wide = dyn_tt_wide(dt);
    uint32_t t = dyn_tt_elementwise(r, DYN_OP_SUBTRACT, wide, wide, turned, 2);
    t = dyn_tt_binary(r, DYN_OP_MULTIPLY, t, dyn_tt_number(r, low ? w : 1 - w));
    if (t == DYN_NONE) {
        return t;
    }
    NpArg sum[2] = {low ? args[0] : args[1], dyn_np_node_arg(r, t)};
    return dyn_tt_elementwise(r, low ? DYN_OP_ADD : DYN_OP_SUBTRACT, wide, dt, sum, 2);
}

static uint32_t lerp_by_tensor(DynRec *r, const NpArg *args, uint32_t weight, DynDtype dt) {
    DynDtype wide = dyn_tt_wide(dt);
    uint32_t start = dyn_tt_cast(r, args[0].arg.id, wide), end = dyn_tt_cast(r, args[1].arg.id, wide);
    uint32_t w = dyn_tt_cast(r, weight, wide), way = dyn_tt_nodes(r, DYN_OP_SUBTRACT, end, start);
    NpArg rest[2] = {dyn_tt_number(r, 1), w == DYN_NONE ? dyn_tt_number(r, 0) : dyn_np_node_arg(r, w)};
    uint32_t low = dyn_tt_nodes(r, DYN_OP_ADD, start, dyn_tt_nodes(r, DYN_OP_MULTIPLY, w, way));
    uint32_t back = dyn_tt_nodes(r, DYN_OP_MULTIPLY, way, dyn_tt_elementwise(r, DYN_OP_SUBTRACT, wide, wide, rest, 2));
    uint32_t high = dyn_tt_nodes(r, DYN_OP_SUBTRACT, end, back);
    uint32_t near = low == DYN_NONE || high == DYN_NONE
                        ? DYN_NONE
                        : dyn_tt_compare(r, DYN_OP_LESS, dyn_tt_unary(r, DYN_OP_ABSOLUTE, w), dyn_tt_number(r, 0.5));
    return near == DYN_NONE ? near : dyn_tt_cast(r, dyn_tt_choose(r, near, low, dyn_np_node_arg(r, high)), dt);
}

DynVal *tt_rule_lerp(DynRec *r, NpCall *c) {
    NpArg args[2], weight;
    double w = 0;
    if (dyn_tt_two(r, c, args) < 0 || dyn_tt_operand(r, c, "weight", &weight) < 0) {
        return NULL;
    }
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    bool tensors = args[0].arg.kind == DYN_ARG_NODE && args[1].arg.kind == DYN_ARG_NODE;
    if (dt == DYN_NO_DTYPE || dyn_dtypes[dt].kind != 'f') {
        return dyn_np_unsupported(r);
    }
    if (weight.arg.kind == DYN_ARG_NODE) {
        return tensors && weight.code == dt ? dyn_tt_finish(r, c, lerp_by_tensor(r, args, weight.arg.id, dt))
                                            : dyn_np_unsupported(r);
    }
    return dyn_tt_burnt_float(r, dyn_np_slot(c, "weight"), &w) < 0 ? NULL : dyn_tt_finish(r, c, lerp_by_number(r, args, w, dt));
}

DynVal *tt_rule_masked_fill(DynRec *r, NpCall *c) {
    NpArg a, mask, value;
    if (dyn_tt_operand(r, c, "input", &a) < 0 || dyn_tt_operand(r, c, "mask", &mask) < 0 ||
        dyn_tt_operand(r, c, "value", &value) < 0) {
        return NULL;
    }
    NpArg args[3] = {mask, value, a};
    bool one_value = value.arg.kind != DYN_ARG_NODE || dyn_np_node_at(r, value.arg.id)->ndim == 0;
    if (mask.code != DYN_BOOL || a.arg.kind != DYN_ARG_NODE || !one_value) {
        return dyn_np_unsupported(r);
    }
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_WHERE, (DynDtype)a.code, (DynDtype)a.code, args, 3));
}

/* ---- operators */

uint32_t dyn_tt_integers(DynRec *r, DynOp op, const NpArg *args) {
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    bool whole = dt != DYN_NO_DTYPE && dyn_dtype_is_integer(dt);
    return whole ? dyn_tt_elementwise(r, op, dt, dt, args, 2) : dyn_np_no_node(r);
}

/* The dunder names by which Python asks a tensor's class: those that are functions in Python end in the same rows. */
static uint32_t operator_node(DynRec *r, DynOp op, NpArg *args) {
    switch (op) {
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT: return add_scaled(r, op, args, (DynOperand){0});
    case DYN_OP_DIVIDE: return divide(r, args);
    case DYN_OP_POWER: return power(r, args);
    case DYN_OP_LEFT_SHIFT:
    case DYN_OP_RIGHT_SHIFT: return dyn_tt_integers(r, op, args);
    default: return dyn_ops[op].dtype == DYN_DT_COMPARE ? compare(r, op, args) : arithmetic(r, op, args);
    }
}

uint32_t dyn_torch_operator(DynRec *r, DynOp op, NpArg *args, int n) {
    if (n != 1) {
        return operator_node(r, op, args);
    }
    DynDtype dt = (DynDtype)args[0].code;
    bool refused = dt == DYN_BOOL && op != DYN_OP_INVERT;
    return refused ? dyn_np_no_node(r) : dyn_tt_elementwise(r, op, dt, result_of(op, dt), args, 1);
}
