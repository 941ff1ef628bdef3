/* ops.c: the operator tables and the C helper table as arrays, and look-ups by name. Made of ops.def, ops_complex.def and
 * ops_c.def; read by everybody. */
#include "ir/ops.h"

const DynOpInfo dyn_ops[DYN_OP_COUNT] = {
#define OP(name, text, arity, kind, dtype, shape, guard, c, deriv, fpe, flags) \
    {#name, text, arity, DYN_K_##kind, DYN_DT_##dtype, DYN_SH_##shape, DYN_G_##guard, c, deriv, fpe, flags},
#include "ir/ops.def"
#undef OP
};

const DynComplexOp dyn_complex_ops[DYN_OP_COUNT] = {
#define COMPLEX(name, c, fpe) [DYN_OP_##name] = {c, fpe},
#include "ir/ops_complex.def"
#undef COMPLEX
};

const DynOpHelper dyn_op_helpers[] = {
#define HELPER(name, needs, text) {name, needs, text},
#include "ir/ops_c.def"
#undef HELPER
    {NULL, NULL, NULL}};

int dyn_op_parse(const char *text) {
    for (int i = 0; i < DYN_OP_COUNT; i++) {
        if (strcmp(dyn_ops[i].text, text) == 0) {
            return i;
        }
    }
    return -1;
}

const char *dyn_op_function(DynOp op, int *result) {
    static const struct Form {
        DynOp op;
        const char *function;
        int result;
    } forms[] = {
        {DYN_OP_INT_POWER, "power", -1},
        {DYN_OP_UNIFORM_POWER, "power", -1},
        {DYN_OP_KEEP, "where", -1},
        {DYN_OP_FREXP_MANTISSA, "frexp", 0},
        {DYN_OP_FREXP_EXPONENT, "frexp", 1},
        {DYN_OP_MODF_FRACTION, "modf", 0},
        {DYN_OP_MODF_WHOLE, "modf", 1},
        {DYN_OP_SCALAR_ADD, "add", -1},
        {DYN_OP_SCALAR_SUBTRACT, "subtract", -1},
        {DYN_OP_SCALAR_MULTIPLY, "multiply", -1},
        {DYN_OP_SCALAR_NEGATIVE, "negative", -1},
        {DYN_OP_SCALAR_ABSOLUTE, "absolute", -1},
    };
    *result = -1;
    for (size_t i = 0; i < DYN_COUNTOF(forms); i++) {
        if (forms[i].op == op) {
            *result = forms[i].result;
            return forms[i].function;
        }
    }
    return dyn_ops[op].text;
}

const DynOpHelper *dyn_op_helper(const char *name, size_t length) {
    for (const DynOpHelper *h = dyn_op_helpers; h->name != NULL; h++) {
        if (strlen(h->name) == length && memcmp(h->name, name, length) == 0) {
            return h;
        }
    }
    return NULL;
}
