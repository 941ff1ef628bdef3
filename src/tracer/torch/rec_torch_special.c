/* rec_torch_special.c: elementwise functions that are made of several operators: signs, logarithms with a case for 0, bounds,
 * what stands for nan and inf. Called through the binding table. The cases are those of
 * aten/src/ATen/native/cpu/UnaryOpsKernel.cpp and BinaryOpsKernel.cpp, so that nan, inf and zeros come out as there. */
#include "tracer/torch/rec_torch.h"
#include <math.h>

static DynDtype dtype_of(DynRec *r, uint32_t a) { return (DynDtype)dyn_np_node_at(r, a)->dtype; }
static bool is_float(DynDtype dt) { return dyn_dtypes[dt].kind == 'f'; }

/* where(truth, a, b) in dtype dt; either may be a number. */
static uint32_t where(DynRec *r, uint32_t truth, NpArg a, NpArg b, DynDtype dt) {
    if (truth == DYN_NONE || dyn_tt_is_missing(a) || dyn_tt_is_missing(b)) {
        return DYN_NONE;
    }
    NpArg args[3] = {dyn_np_node_arg(r, truth), a, b};
    return dyn_tt_elementwise(r, DYN_OP_WHERE, dt, dt, args, 3);
}

static NpArg node_arg(DynRec *r, uint32_t a) {
    return a == DYN_NONE ? (NpArg){{DYN_ARG_NODE, DYN_NONE}, DYN_BOOL} : dyn_np_node_arg(r, a);
}

static uint32_t against(DynRec *r, DynOp op, uint32_t a, double b) { return dyn_tt_compare(r, op, a, dyn_tt_number(r, b)); }

/* A tensor of floats, or of integers as floats. */
static uint32_t as_floats(DynRec *r, const NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || dyn_dtypes[dtype_of(r, a)].kind == 'c') {
        return dyn_np_no_node(r);
    }
    return dyn_tt_cast(r, a, dyn_tt_float(r, dtype_of(r, a)));
}

/* The first two parameters, of which one is a tensor, in the dtype in which they meet, which is returned. */
static DynDtype two(DynRec *r, const NpCall *c, NpArg *args) {
    return dyn_tt_two(r, c, args) < 0 ? (dyn_np_unsupported(r), DYN_NO_DTYPE) : dyn_tt_result_type(r, args, 2);
}

/* An operand as a node of dtype dt. A number that is the same for all elements is a tensor of rank 0. */
static uint32_t as_node(DynRec *r, NpArg a, DynDtype dt) {
    return a.arg.kind == DYN_ARG_NODE ? dyn_tt_cast(r, a.arg.id, dt) : dyn_np_full(r, dt, 0, NULL, a.arg);
}

/* ---- signs */

/* sign and sgn: of nan they are 0. Of integers the operator is NumPy's. Of complex numbers it is PyTorch's call on this machine:
 * it divides by the magnitude, which makes infinite parts nan. */
DynVal *tt_rule_sign(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || dtype_of(r, a) == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    DynDtype dt = dtype_of(r, a);
    if (dyn_dtype_is_complex(dt) && !dyn_tt_has_own_kernel(r)) {
        return dyn_np_unsupported(r);
    }
    if (!is_float(dt)) {
        return dyn_tt_finish(r, c, dyn_tt_unary(r, DYN_OP_SIGN, a));
    }
    uint32_t below = where(r, against(r, DYN_OP_LESS, a, 0), dyn_tt_number(r, -1), dyn_tt_number(r, 0), dt);
    return dyn_tt_finish(r, c, where(r, against(r, DYN_OP_GREATER, a, 0), dyn_tt_number(r, 1), node_arg(r, below), dt));
}

/* signbit: of integers, whether they are below 0. */
DynVal *tt_rule_signbit(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || dyn_dtypes[dtype_of(r, a)].kind == 'c' || dtype_of(r, a) == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    NpArg arg = dyn_np_node_arg(r, a);
    return dyn_tt_finish(r, c,
                         is_float(dtype_of(r, a)) ? dyn_tt_elementwise(r, DYN_OP_SIGNBIT, dtype_of(r, a), DYN_BOOL, &arg, 1)
                                                  : dyn_tt_compare(r, DYN_OP_LESS, a, dyn_tt_int(r, 0)));
}

/* isposinf (operator 0), isneginf (1) */
DynVal *tt_rule_isinf_of(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || !is_float(dtype_of(r, a))) {
        return dyn_np_unsupported(r);
    }
    return dyn_tt_finish(r, c, against(r, DYN_OP_EQUAL, a, c->b->op == 0 ? (double)INFINITY : -(double)INFINITY));
}

/* heaviside: the second operand where the first is 0, else 0 or 1; of nan 0. */
DynVal *tt_rule_heaviside(DynRec *r, NpCall *c) {
    NpArg args[2];
    DynDtype dt = two(r, c, args);
    if (dt == DYN_NO_DTYPE || dt == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    if (args[0].code != args[1].code || args[0].arg.kind != DYN_ARG_NODE) {
        return dyn_np_unsupported(r);
    }
    uint32_t a = args[0].arg.id, above = dyn_tt_compare(r, DYN_OP_GREATER, a, dyn_tt_int(r, 0));
    uint32_t step = where(r, above, dyn_tt_int(r, 1), dyn_tt_int(r, 0), dt);
    return dyn_tt_finish(r, c, where(r, dyn_tt_compare(r, DYN_OP_EQUAL, a, dyn_tt_int(r, 0)), args[1], node_arg(r, step), dt));
}

/* ---- logarithms */

/* xlogy (operator DYN_OP_LOG), xlog1py: nan where y is, else 0 where x is, else x * log(y). */
DynVal *tt_rule_xlogy(DynRec *r, NpCall *c) {
    NpArg args[2];
    DynDtype dt = two(r, c, args);
    dt = dt == DYN_NO_DTYPE || dyn_dtypes[dt].kind == 'c' ? DYN_NO_DTYPE : dyn_tt_float(r, dt);
    if (dt == DYN_NO_DTYPE) {
        return dyn_np_unsupported(r);
    }
    uint32_t x = as_node(r, args[0], dt), y = x == DYN_NONE ? x : as_node(r, args[1], dt);
    uint32_t product = y == DYN_NONE ? y : dyn_tt_nodes(r, DYN_OP_MULTIPLY, x, dyn_tt_unary(r, (DynOp)c->b->op, y));
    uint32_t node = where(r, x == DYN_NONE ? x : against(r, DYN_OP_EQUAL, x, 0), dyn_tt_number(r, 0), node_arg(r, product), dt);
    uint32_t nans = node == DYN_NONE ? node : dyn_tt_compare(r, DYN_OP_NOT_EQUAL, y, dyn_np_node_arg(r, y));
    return dyn_tt_finish(r, c, where(r, nans, node_arg(r, y), node_arg(r, node), dt));
}

/* entr: -x * log(x), 0 at 0, and -inf below. */
DynVal *tt_rule_entr(DynRec *r, NpCall *c) {
    uint32_t a = as_floats(r, c);
    if (a == DYN_NONE) {
        return NULL;
    }
    DynDtype dt = dtype_of(r, a);
    uint32_t product = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_unary(r, DYN_OP_NEGATIVE, a), dyn_tt_unary(r, DYN_OP_LOG, a));
    uint32_t node = where(r, against(r, DYN_OP_EQUAL, a, 0), dyn_tt_number(r, 0), node_arg(r, product), dt);
    return dyn_tt_finish(r, c,
                         where(r, against(r, DYN_OP_LESS, a, 0), dyn_tt_number(r, -(double)INFINITY), node_arg(r, node), dt));
}

/* logit: log(x / (1 - x)), of x between eps and 1 - eps where that is given. */
DynVal *tt_rule_logit(DynRec *r, NpCall *c) {
    DynOperand given = dyn_np_slot(c, "eps");
    double eps = -1;
    uint32_t a = as_floats(r, c);
    if (a == DYN_NONE || dyn_tt_burnt_float(r, given, &eps) < 0 || dyn_dtype_is_half(dtype_of(r, a))) {
        return dyn_np_unsupported(r);
    }
    DynDtype dt = dtype_of(r, a);
    if (eps >= 0) {
        double high = dt == DYN_F32 ? (double)(1 - (float)eps) : 1 - eps;
        a = dyn_tt_by(r, DYN_OP_MINIMUM, dyn_tt_by(r, DYN_OP_MAXIMUM, a, eps), high);
    }
    NpArg rest[2] = {dyn_tt_number(r, 1), node_arg(r, a)};
    uint32_t away = a == DYN_NONE ? a : dyn_tt_elementwise(r, DYN_OP_SUBTRACT, dt, dt, rest, 2);
    return dyn_tt_finish(r, c, dyn_tt_unary(r, DYN_OP_LOG, dyn_tt_nodes(r, DYN_OP_DIVIDE, a, away)));
}

/* ---- others */

/* sinc: sin(pi * x) / (pi * x), and 1 at 0. */
DynVal *tt_rule_sinc(DynRec *r, NpCall *c) {
    uint32_t a = as_floats(r, c);
    if (a == DYN_NONE || dyn_dtype_is_half(dtype_of(r, a))) {
        return dyn_np_unsupported(r);
    }
    uint32_t by = dyn_tt_by(r, DYN_OP_MULTIPLY, a, 0x1.921fb54442d18p+1);
    uint32_t node = dyn_tt_nodes(r, DYN_OP_DIVIDE, dyn_tt_unary(r, DYN_OP_SIN, by), by);
    return dyn_tt_finish(r, c, where(r, against(r, DYN_OP_EQUAL, a, 0), dyn_tt_number(r, 1), node_arg(r, node), dtype_of(r, a)));
}

/* The greatest finite number of that dtype. */
static double greatest_of(DynDtype dt) {
    switch (dt) {
    case DYN_F64: return 0x1.fffffffffffffp+1023;
    case DYN_F32: return 0x1.fffffep+127;
    case DYN_BF16: return 0x1.fep+127;
    default: return 65504;
    }
}

/* nan_to_num: numbers for nan and the infinities; those that aren't given are 0 and the dtype's last. */
DynVal *tt_rule_nan_to_num(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || !is_float(dtype_of(r, a))) {
        return dyn_np_unsupported(r);
    }
    DynDtype dt = dtype_of(r, a);
    double nan = 0, high = greatest_of(dt), low = -high;
    const TtFloat floats[] = {{"nan", &nan}, {"posinf", &high}, {"neginf", &low}};
    if (dyn_tt_burnt_floats(r, c, floats, 3) < 0) {
        return NULL;
    }
    uint32_t node = where(r, against(r, DYN_OP_EQUAL, a, -(double)INFINITY), dyn_tt_number(r, low), node_arg(r, a), dt);
    node = where(r, against(r, DYN_OP_EQUAL, a, (double)INFINITY), dyn_tt_number(r, high), node_arg(r, node), dt);
    uint32_t nans = dyn_tt_compare(r, DYN_OP_NOT_EQUAL, a, dyn_np_node_arg(r, a));
    return dyn_tt_finish(r, c, where(r, nans, dyn_tt_number(r, nan), node_arg(r, node), dt));
}

/* float_power: in doubles. */
DynVal *tt_rule_float_power(DynRec *r, NpCall *c) {
    NpArg args[2];
    DynDtype dt = two(r, c, args);
    if (dt == DYN_NO_DTYPE || dyn_dtypes[dt].kind == 'c') {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < 2; i++) {
        if (args[i].arg.kind == DYN_ARG_NODE) {
            args[i] = node_arg(r, dyn_tt_cast(r, args[i].arg.id, DYN_F64));
        }
    }
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_POWER, DYN_F64, DYN_F64, args, 2));
}

/* ldexp: x * 2 ** other, whose power is of the default dtype where other is of integers. */
DynVal *tt_rule_ldexp(DynRec *r, NpCall *c) {
    NpArg args[2];
    if (two(r, c, args) == DYN_NO_DTYPE || args[1].arg.kind != DYN_ARG_NODE) {
        return dyn_np_unsupported(r);
    }
    DynDtype of = dyn_tt_float(r, (DynDtype)args[1].code);
    NpArg power[2] = {dyn_tt_number(r, 2), args[1]};
    uint32_t t = dyn_dtypes[of].kind == 'c' ? dyn_np_no_node(r) : dyn_tt_elementwise(r, DYN_OP_POWER, of, of, power, 2);
    if (t == DYN_NONE) {
        return NULL;
    }
    args[1] = dyn_np_node_arg(r, t);
    DynDtype dt = dyn_tt_result_type(r, args, 2);
    return dyn_tt_finish(r, c, dyn_tt_elementwise(r, DYN_OP_MULTIPLY, dt, dt, args, 2));
}

/* gcd, lcm, shifts: of integers. */
DynVal *tt_rule_integers(DynRec *r, NpCall *c) {
    NpArg args[2];
    return dyn_tt_two(r, c, args) < 0 ? NULL : dyn_tt_finish(r, c, dyn_tt_integers(r, (DynOp)c->b->op, args));
}

/* softshrink: nearer to 0 by lambd; between, x * 0. */
DynVal *tt_rule_softshrink(DynRec *r, NpCall *c) {
    double lambd = 0.5;
    uint32_t given = dyn_tt_tensor(r, c, "input");
    if (given == DYN_NONE || !is_float(dtype_of(r, given))) {
        return dyn_np_unsupported(r);
    }
    if (dyn_tt_burnt_float(r, dyn_np_slot(c, "lambd"), &lambd) < 0 || lambd < 0) {
        return dyn_np_unsupported(r);
    }
    DynDtype dt = dtype_of(r, given), wide = dyn_tt_wide(dt);
    double bound = dyn_dtype_is_half(dt) ? dyn_tt_as_half(lambd, dt) : lambd;
    uint32_t a = dyn_tt_cast(r, given, wide), none = dyn_tt_by(r, DYN_OP_MULTIPLY, a, 0);
    uint32_t up = dyn_tt_by(r, DYN_OP_ADD, a, bound), down = dyn_tt_by(r, DYN_OP_SUBTRACT, a, bound);
    uint32_t node = where(r, against(r, DYN_OP_LESS, a, -bound), node_arg(r, up), node_arg(r, none), wide);
    node = where(r, against(r, DYN_OP_GREATER, a, bound), node_arg(r, down), node_arg(r, node), wide);
    return dyn_tt_finish(r, c, dyn_tt_cast(r, node, dt));
}

/* rrelu where the model is evaluated: the slope in the middle. */
DynVal *tt_rule_rrelu(DynRec *r, NpCall *c) {
    double low = 1.0 / 8, high = 1.0 / 3;
    bool training = false;
    uint32_t a = dyn_tt_tensor(r, c, "input");
    const TtFloat floats[] = {{"lower", &low}, {"upper", &high}};
    if (a == DYN_NONE || dyn_np_flag(r, dyn_np_slot(c, "training"), &training) < 0 || training) {
        return dyn_np_unsupported(r);
    }
    bool single_or_double = is_float(dtype_of(r, a)) && !dyn_dtype_is_half(dtype_of(r, a));
    if (!single_or_double || dyn_tt_burnt_floats(r, c, floats, 2) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t sloped = dyn_tt_by(r, DYN_OP_MULTIPLY, a, (low + high) / 2);
    return dyn_tt_finish(r, c, dyn_tt_choose(r, against(r, DYN_OP_GREATER, a, 0), a, node_arg(r, sloped)));
}

/* isclose: equal, or not further apart than atol + |rtol * other|, if that is finite. */
DynVal *tt_rule_isclose(DynRec *r, NpCall *c) {
    NpArg args[2];
    double rtol = 1e-5, atol = 1e-8;
    bool nans = false;
    DynDtype dt = two(r, c, args);
    const TtFloat floats[] = {{"rtol", &rtol}, {"atol", &atol}};
    if (dt == DYN_NO_DTYPE || !is_float(dt) || dyn_dtype_is_half(dt)) {
        return dyn_np_unsupported(r);
    }
    bool one_dtype = args[0].code == dt && args[1].code == dt;
    if (!one_dtype || dyn_tt_burnt_floats(r, c, floats, 2) < 0) {
        return dyn_np_unsupported(r);
    }
    bool negative = rtol < 0 || atol < 0;
    if (dyn_np_flag(r, dyn_np_slot(c, "equal_nan"), &nans) < 0 || nans || negative) {
        return dyn_np_unsupported(r);
    }
    uint32_t a = args[0].arg.id, b = args[1].arg.id, equal = dyn_tt_compare(r, DYN_OP_EQUAL, a, args[1]);
    uint32_t far = dyn_tt_unary(r, DYN_OP_ABSOLUTE, dyn_tt_nodes(r, DYN_OP_SUBTRACT, a, b));
    uint32_t allowed = dyn_tt_unary(r, DYN_OP_ABSOLUTE, dyn_tt_by(r, DYN_OP_MULTIPLY, b, rtol));
    allowed = dyn_tt_by(r, DYN_OP_ADD, allowed, atol);
    if (equal == DYN_NONE || far == DYN_NONE || allowed == DYN_NONE) {
        return NULL;
    }
    uint32_t near = dyn_tt_compare(r, DYN_OP_LESS_EQUAL, far, dyn_np_node_arg(r, allowed));
    uint32_t finite = against(r, DYN_OP_LESS, far, (double)INFINITY);
    uint32_t both = dyn_tt_nodes(r, DYN_OP_LOGICAL_AND, near, finite);
    return dyn_tt_finish(r, c, dyn_tt_nodes(r, DYN_OP_LOGICAL_OR, equal, both));
}

/* angle of real numbers: pi below 0, nan of nan, else 0. */
DynVal *tt_rule_angle(DynRec *r, NpCall *c) {
    uint32_t a = as_floats(r, c);
    if (a == DYN_NONE) {
        return NULL;
    }
    DynDtype dt = dtype_of(r, a);
    uint32_t node = where(r, against(r, DYN_OP_LESS, a, 0), dyn_tt_number(r, 0x1.921fb54442d18p+1), dyn_tt_number(r, 0), dt);
    uint32_t nans = dyn_tt_compare(r, DYN_OP_NOT_EQUAL, a, dyn_np_node_arg(r, a));
    return dyn_tt_finish(r, c, where(r, nans, node_arg(r, a), node_arg(r, node), dt));
}
