/* operators.c: operators called as functions (the operator module's, divmod), and functions of the math modules that give two
 * numbers. Called through calls.def. */
#include "tracer/region/plan.h"
#include <opcode.h>

static bool has(Plan *p, uint32_t n, uint32_t wanted) {
    if (n != wanted) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "another number of arguments");
    }
    return n == wanted;
}

bool plan_call_operator(Plan *p, int op, PlanValue *args, uint32_t n, PlanValue *out) {
    return has(p, n, 2) && plan_binary(p, op, args[0], args[1], out);
}

bool plan_call_comparison(Plan *p, int op, PlanValue *args, uint32_t n, PlanValue *out) {
    return has(p, n, 2) && plan_compare(p, op, args[0], args[1], out);
}

bool plan_call_unary(Plan *p, int op, PlanValue *args, uint32_t n, PlanValue *out) {
    return has(p, n, 1) && plan_unary(p, op, args[0], out);
}

bool plan_call_getitem(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return has(p, n, 2) && plan_item(p, args[0], args[1], out);
}

static bool pair(Plan *p, PlanValue first, PlanValue second, PlanValue *out) {
    PlanValue *items = plan_new_tuple(p, 2, out);
    if (items != NULL) {
        items[0] = first;
        items[1] = second;
    }
    return items != NULL;
}

bool plan_call_divmod(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue quotient, rest;
    if (!has(p, n, 2)) {
        return false;
    }
    if (!plan_is_number(&args[0]) || !plan_is_number(&args[1])) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "divmod of something else than numbers");
        return false;
    }
    return plan_binary(p, NB_FLOOR_DIVIDE, args[0], args[1], &quotient) &&
           plan_binary(p, NB_REMAINDER, args[0], args[1], &rest) && pair(p, quotient, rest, out);
}

/* The argument as a double; false: there isn't one number. */
static bool real(Plan *p, const PlanValue *args, uint32_t n, uint32_t *reg) {
    if (has(p, n, 1) && !plan_is_number(&args[0])) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an argument that is no number");
        return false;
    }
    return n == 1 && plan_double(p, args[0], reg);
}

static PlanValue float_of(uint32_t reg) { return plan_value(DYN_RK_FLOAT, reg); }

bool plan_call_frexp(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    uint32_t x;
    if (!real(p, args, n, &x)) {
        return false;
    }
    PlanValue exponent = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_FREXPE, x, DYN_NONE, DYN_NONE));
    return pair(p, float_of(plan_emit(p, DYN_RO_FREXP, x, DYN_NONE, DYN_NONE)), exponent, out);
}

/* The fraction has the number's sign, and is 0 of an infinite one. */
bool plan_call_modf(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    uint32_t x;
    if (!real(p, args, n, &x)) {
        return false;
    }
    uint32_t zero = plan_dconst(p, 0.0), negative = plan_emit(p, DYN_RO_DLT, x, zero, DYN_NONE);
    uint32_t up = plan_emit(p, DYN_RO_CEIL, x, DYN_NONE, DYN_NONE), down = plan_emit(p, DYN_RO_FLOOR, x, DYN_NONE, DYN_NONE);
    uint32_t whole = plan_emit(p, DYN_RO_DSELECT, negative, up, down);
    uint32_t rest = plan_emit(p, DYN_RO_DSUB, x, whole, DYN_NONE), infinite = plan_emit(p, DYN_RO_ISINF, x, DYN_NONE, DYN_NONE);
    rest = plan_emit(p, DYN_RO_COPYSIGN, plan_emit(p, DYN_RO_DSELECT, infinite, zero, rest), x, DYN_NONE);
    return pair(p, float_of(rest), float_of(whole), out);
}

bool plan_call_polar(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    uint32_t parts[2];
    if (!has(p, n, 1) || !plan_complex_parts(p, args[0], parts)) {
        return false;
    }
    uint32_t size = plan_emit_or(p, DYN_RO_HYPOT, parts[0], parts[1], DYN_NONE, DYN_R_EXCEPTION);
    return pair(p, float_of(size), float_of(plan_emit(p, DYN_RO_ATAN2, parts[1], parts[0], DYN_NONE)), out);
}
