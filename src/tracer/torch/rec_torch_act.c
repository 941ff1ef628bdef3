/* rec_torch_act.c: activation functions as the elementwise operators that they are made of. Called through the binding table. The
 * formulas are those of torch.nn.functional's documentation, in the order of operations of
 * aten/src/ATen/native/cpu/Activation.cpp; halves go by float and are rounded once. */
#include "tracer/torch/rec_torch.h"

/* inplace=True of torch.nn.functional: the tensor itself is changed. The node is rounded to the operand's dtype where that is a
 * half. */
static DynVal *activated(DynRec *r, NpCall *c, uint32_t node) {
    bool inplace = false;
    DynDtype dt = (DynDtype)dyn_np_node_at(r, dyn_np_node(r, c->slot[0]))->dtype;
    node = dyn_dtype_is_half(dt) ? dyn_tt_cast(r, node, dt) : node;
    if (node == DYN_NONE || dyn_np_flag(r, dyn_np_slot(c, "inplace"), &inplace) < 0) {
        return NULL;
    }
    if (!inplace) {
        return dyn_tt_finish(r, c, node);
    }
    if (c->result != c->args[0].real) {
        return dyn_np_unsupported(r);
    }
    if (rec_torch_follows(c->result)) {
        return dyn_np_extern_in_place(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
    }
    return dyn_np_store_into(r, c->slot[0], dyn_np_node_arg(r, node));
}

/* The operand, a tensor of floats (or of integers, as floats, where the function takes them); halves as float. */
static uint32_t operand(DynRec *r, const NpCall *c, bool whole) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE) {
        return a;
    }
    DynDtype dt = (DynDtype)dyn_np_node_at(r, a)->dtype;
    if (dyn_dtypes[dt].kind != 'f' && (!whole || dyn_dtypes[dt].kind == 'c')) {
        return dyn_np_no_node(r);
    }
    return dyn_tt_cast(r, a, dyn_tt_wide(dyn_tt_float(r, dt)));
}

/* The node, whose gradient is by a formula of a, PyTorch's own: tools/autograd/derivatives.yaml. */
static uint32_t by_formula(DynRec *r, uint32_t node, uint32_t a, const char *text) {
    const DynArg operands[3] = {{DYN_ARG_NODE, a}, {DYN_ARG_NONE, DYN_NONE}, {DYN_ARG_NONE, DYN_NONE}};
    return node == DYN_NONE || rec_torch_formula(r, node, operands, text) == 0 ? node : DYN_NONE;
}

static uint32_t clamp(DynRec *r, uint32_t a, double low, double high) {
    a = dyn_tt_bounded(r, DYN_OP_MAXIMUM, a, dyn_tt_number(r, low));
    return dyn_tt_bounded(r, DYN_OP_MINIMUM, a, dyn_tt_number(r, high));
}

static uint32_t exp_of_negative(DynRec *r, uint32_t a) {
    return dyn_tt_unary(r, DYN_OP_EXP, dyn_tt_unary(r, DYN_OP_NEGATIVE, a));
}

/* 1 / (1 + exp(-x)) */
static uint32_t sigmoid(DynRec *r, uint32_t a) {
    return dyn_tt_unary(r, DYN_OP_RECIPROCAL, dyn_tt_by(r, DYN_OP_ADD, exp_of_negative(r, a), 1));
}

/* log(1 + exp(x)) */
static uint32_t softplus(DynRec *r, uint32_t a) { return dyn_tt_unary(r, DYN_OP_LOG1P, dyn_tt_unary(r, DYN_OP_EXP, a)); }

/* Operator 6: relu6. Integers stay integers. */
DynVal *tt_rule_relu(DynRec *r, NpCall *c) {
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || dyn_np_node_at(r, a)->dtype == DYN_BOOL) {
        return dyn_np_unsupported(r);
    }
    uint32_t node = dyn_tt_bounded(r, DYN_OP_MAXIMUM, a, dyn_tt_int(r, 0));
    if (c->b->op == 6) {
        node = dyn_tt_bounded(r, DYN_OP_MINIMUM, node, dyn_tt_int(r, 6));
        return activated(r, c, by_formula(r, node, a, "where(logical_or(less_equal(a, 0), greater_equal(a, 6)), 0, g)"));
    }
    return activated(r, c, by_formula(r, node, a, "where(less_equal(r, 0), 0, g)"));
}

DynVal *tt_rule_sigmoid(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, true);
    return a == DYN_NONE ? NULL : activated(r, c, by_formula(r, sigmoid(r, a), a, "multiply(multiply(g, subtract(1, r)), r)"));
}

/* x / 2 * (1 + erf(x / sqrt(2))), or with approximate="tanh" that of sqrt(2 / pi) * (x + 0.044715 * x^3). */
DynVal *tt_rule_gelu(DynRec *r, NpCall *c) {
    DynOperand approximate = dyn_np_slot(c, "approximate");
    uint32_t a = operand(r, c, false), t;
    if (a == DYN_NONE) {
        return NULL;
    }
    const char *formula = "multiply(g, add(multiply(add(erf(multiply(a, 0x1.6a09e667f3bcdp-1)), 1), 0.5), "
                          "multiply(a, multiply(exp(multiply(multiply(a, a), -0.5)), 0x1.9884533d43651p-2))))";
    if (approximate.v == NULL || dyn_tt_is_str(r, approximate, "none")) {
        t = dyn_tt_unary(r, DYN_OP_ERF, dyn_tt_by(r, DYN_OP_MULTIPLY, a, 0x1.6a09e667f3bcdp-1));
    } else if (dyn_tt_is_str(r, approximate, "tanh")) {
        t = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_nodes(r, DYN_OP_MULTIPLY, a, a), a);
        t = dyn_tt_nodes(r, DYN_OP_ADD, a, dyn_tt_by(r, DYN_OP_MULTIPLY, t, 0.044715));
        t = dyn_tt_unary(r, DYN_OP_TANH, dyn_tt_by(r, DYN_OP_MULTIPLY, t, 0x1.988453362d53ap-1));
        formula = NULL;
    } else {
        return dyn_np_unsupported(r);
    }
    t = dyn_tt_nodes(r, DYN_OP_MULTIPLY, dyn_tt_by(r, DYN_OP_MULTIPLY, a, 0.5), dyn_tt_by(r, DYN_OP_ADD, t, 1));
    return activated(r, c, formula == NULL ? t : by_formula(r, t, a, formula));
}

DynVal *tt_rule_silu(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE) {
        return NULL;
    }
    uint32_t t = dyn_tt_nodes(r, DYN_OP_DIVIDE, a, dyn_tt_by(r, DYN_OP_ADD, exp_of_negative(r, a), 1));
#define SIGMOID "reciprocal(add(exp(negative(a)), 1))"
    return activated(r, c,
                     by_formula(r, t, a, "multiply(multiply(g, " SIGMOID "), add(multiply(a, subtract(1, " SIGMOID ")), 1))"));
#undef SIGMOID
}

/* x where it is above 0, else x * slope. */
static uint32_t sloped(DynRec *r, uint32_t a, uint32_t low) {
    uint32_t above = dyn_tt_compare(r, DYN_OP_GREATER, a, dyn_tt_number(r, 0));
    return low == DYN_NONE ? low : dyn_tt_choose(r, above, a, dyn_np_node_arg(r, low));
}

DynVal *tt_rule_leaky_relu(DynRec *r, NpCall *c) {
    double slope = 0.01;
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE || dyn_tt_burnt_float(r, dyn_np_slot(c, "negative_slope"), &slope) < 0) {
        return NULL;
    }
    char formula[96];
    snprintf(formula, sizeof formula, "where(greater(a, 0), g, multiply(g, %a))", slope);
    return activated(r, c, by_formula(r, sloped(r, a, dyn_tt_by(r, DYN_OP_MULTIPLY, a, slope)), a, formula));
}

/* One slope for all elements, or one for each index of axis 1. */
DynVal *tt_rule_prelu(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, false), w = a == DYN_NONE ? a : dyn_tt_tensor(r, c, "weight");
    if (w == DYN_NONE || dyn_np_node_at(r, w)->ndim > 1 ||
        dyn_np_node_at(r, w)->dtype != dyn_np_node_at(r, dyn_np_node(r, c->slot[0]))->dtype) {
        return dyn_np_unsupported(r);
    }
    int ndim = dyn_np_node_at(r, a)->ndim;
    if (dyn_np_node_at(r, w)->ndim == 1) {
        uint32_t n = dyn_np_node_at(r, w)->shape[0];
        bool one = dyn_np_hint(r, n) == 1;
        if (ndim < 1 || dyn_np_assume_op(r, one ? DYN_S_EQ : DYN_S_NE, n, 1) < 0) {
            return dyn_np_unsupported(r);
        }
        if (!one && (ndim < 2 || dyn_rec_assume_equal(r, n, dyn_np_node_at(r, a)->shape[1]) < 0)) {
            return dyn_np_unsupported(r);
        }
        w = one || ndim == 2 ? w : dyn_np_newaxis(r, w, ((1u << (ndim - 2)) - 1) << 1, ndim - 1);
    }
    return activated(r, c, sloped(r, a, dyn_tt_nodes(r, DYN_OP_MULTIPLY, a, w)));
}

/* x * scale above 0, else scale * alpha * (exp(x / inner) - 1). */
static DynVal *exponential(DynRec *r, NpCall *c, double alpha, double scale, double inner) {
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE) {
        return NULL;
    }
    uint32_t above = dyn_tt_compare(r, DYN_OP_GREATER, a, dyn_tt_number(r, 0));
    uint32_t low = dyn_tt_unary(r, DYN_OP_EXPM1, inner == 1 ? a : dyn_tt_by(r, DYN_OP_MULTIPLY, a, 1 / inner));
    low = dyn_tt_by(r, DYN_OP_MULTIPLY, low, alpha * scale);
    uint32_t high = scale == 1 ? a : dyn_tt_by(r, DYN_OP_MULTIPLY, a, scale);
    if (low == DYN_NONE) {
        return NULL;
    }
    char formula[192];
    snprintf(formula, sizeof formula, "where(less_equal(a, 0), multiply(multiply(g, %a), exp(multiply(a, %a))), multiply(g, %a))",
             alpha * scale / inner, 1 / inner, scale);
    uint32_t t = dyn_tt_choose(r, above, high, dyn_np_node_arg(r, low));
    return activated(r, c, by_formula(r, t, a, formula));
}

/* Operator 1: celu, whose alpha divides inside too. */
DynVal *tt_rule_elu(DynRec *r, NpCall *c) {
    double alpha = 1;
    if (dyn_tt_burnt_float(r, dyn_np_slot(c, "alpha"), &alpha) < 0 || (c->b->op == 1 && alpha == 0)) {
        return NULL;
    }
    return exponential(r, c, alpha, 1, c->b->op == 1 ? alpha : 1);
}

DynVal *tt_rule_selu(DynRec *r, NpCall *c) {
    return exponential(r, c, 1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1);
}

DynVal *tt_rule_hardtanh(DynRec *r, NpCall *c) {
    double low = -1, high = 1;
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE || dyn_tt_burnt_float(r, dyn_np_slot(c, "min_val"), &low) < 0 ||
        dyn_tt_burnt_float(r, dyn_np_slot(c, "max_val"), &high) < 0) {
        return NULL;
    }
    char formula[128];
    snprintf(formula, sizeof formula, "where(logical_or(less_equal(a, %a), greater_equal(a, %a)), 0, g)", low, high);
    return activated(r, c, by_formula(r, clamp(r, a, low, high), a, formula));
}

/* Operator 1: hardswish, times x. */
DynVal *tt_rule_hardsigmoid(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, false), t = a == DYN_NONE ? a : clamp(r, dyn_tt_by(r, DYN_OP_ADD, a, 3), 0, 6);
    t = c->b->op == 1 ? dyn_tt_nodes(r, DYN_OP_MULTIPLY, a, t) : t;
    return t == DYN_NONE ? NULL : activated(r, c, dyn_tt_by(r, DYN_OP_DIVIDE, t, 6));
}

/* log(1 + exp(beta * x)) / beta, and x where beta * x is above the threshold. */
DynVal *tt_rule_softplus(DynRec *r, NpCall *c) {
    double beta = 1, threshold = 20;
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE || dyn_tt_burnt_float(r, dyn_np_slot(c, "beta"), &beta) < 0 ||
        dyn_tt_burnt_float(r, dyn_np_slot(c, "threshold"), &threshold) < 0) {
        return NULL;
    }
    uint32_t t = beta == 1 ? a : dyn_tt_by(r, DYN_OP_MULTIPLY, a, beta), low = softplus(r, t);
    low = beta == 1 ? low : dyn_tt_by(r, DYN_OP_DIVIDE, low, beta);
    t = t == DYN_NONE ? t : dyn_tt_compare(r, DYN_OP_GREATER, t, dyn_tt_number(r, threshold));
    if (low == DYN_NONE) {
        return NULL;
    }
    char formula[256];
    snprintf(formula, sizeof formula,
             "where(greater(multiply(a, %a), %a), g, divide(multiply(g, exp(multiply(a, %a))), add(exp(multiply(a, %a)), 1)))",
             beta, threshold, beta, beta);
    return activated(r, c, by_formula(r, dyn_tt_choose(r, t, a, dyn_np_node_arg(r, low)), a, formula));
}

/* min(x, 0) - log(1 + exp(-|x|)) */
DynVal *tt_rule_logsigmoid(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE) {
        return NULL;
    }
    uint32_t t = softplus(r, dyn_tt_unary(r, DYN_OP_NEGATIVE, dyn_tt_unary(r, DYN_OP_ABSOLUTE, a)));
    return activated(r, c, dyn_tt_nodes(r, DYN_OP_SUBTRACT, dyn_tt_by(r, DYN_OP_MINIMUM, a, 0), t));
}

DynVal *tt_rule_mish(DynRec *r, NpCall *c) {
    uint32_t a = operand(r, c, false);
    return a == DYN_NONE ? NULL
                         : activated(r, c, dyn_tt_nodes(r, DYN_OP_MULTIPLY, a, dyn_tt_unary(r, DYN_OP_TANH, softplus(r, a))));
}

/* x outside of -lambd … lambd, else 0. Halves are compared with lambd as a half. */
DynVal *tt_rule_hardshrink(DynRec *r, NpCall *c) {
    double lambd = 0.5;
    uint32_t a = dyn_tt_tensor(r, c, "input");
    if (a == DYN_NONE || dyn_dtypes[dyn_np_node_at(r, a)->dtype].kind != 'f' ||
        dyn_tt_burnt_float(r, dyn_np_slot(c, "lambd"), &lambd) < 0) {
        return NULL;
    }
    uint32_t t = dyn_tt_compare(r, DYN_OP_LESS_EQUAL, dyn_tt_unary(r, DYN_OP_ABSOLUTE, a), dyn_tt_number(r, lambd));
    t = t == DYN_NONE ? t : dyn_tt_unary(r, DYN_OP_LOGICAL_NOT, t);
    return activated(r, c, dyn_tt_choose(r, t, a, dyn_tt_number(r, 0)));
}

DynVal *tt_rule_threshold(DynRec *r, NpCall *c) {
    double threshold = 0, value = 0;
    uint32_t a = operand(r, c, false);
    if (a == DYN_NONE || dyn_tt_burnt_float(r, dyn_np_slot(c, "threshold"), &threshold) < 0 ||
        dyn_tt_burnt_float(r, dyn_np_slot(c, "value"), &value) < 0) {
        return NULL;
    }
    uint32_t t = dyn_tt_unary(r, DYN_OP_LOGICAL_NOT, dyn_tt_compare(r, DYN_OP_LESS_EQUAL, a, dyn_tt_number(r, threshold)));
    return activated(r, c, dyn_tt_choose(r, t, a, dyn_tt_number(r, value)));
}

/* The first half along an axis times the sigmoid of the second. */
DynVal *tt_rule_glu(DynRec *r, NpCall *c) {
    DynOperand dim = dyn_np_slot(c, "dim");
    uint32_t a = operand(r, c, false);
    int axis = a == DYN_NONE ? 0 : dyn_np_node_at(r, a)->ndim - 1;
    if (a == DYN_NONE || axis < 0 || dyn_tt_optional_axis(r, dim, axis + 1, &axis) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t n = dyn_np_node_at(r, a)->shape[axis], half = dyn_np_op(r, DYN_S_FLOORDIV, n, dyn_np_int(r, 2));
    if (half == DYN_NONE || dyn_rec_assume_equal(r, dyn_np_op(r, DYN_S_MUL, half, dyn_np_int(r, 2)), n) < 0) {
        return dyn_np_unsupported(r);
    }
    uint32_t first = dyn_np_range_view(r, a, axis, dyn_np_int(r, 0), half);
    uint32_t second = first == DYN_NONE ? first : dyn_np_range_view(r, a, axis, half, n);
    return second == DYN_NONE ? NULL : activated(r, c, dyn_tt_nodes(r, DYN_OP_MULTIPLY, first, sigmoid(r, second)));
}
