/* ops.c: the operator tables and the C helper table as arrays, and look-ups by name. Made of ops.def, ops_complex.def and
 * ops_c.def; read by everybody. */
#include "ir/ops.h"
#include "base/arrays.h"

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

/* Have kernels on a device the operator, by the functions that codegen/cuda/prologue.def has? */
static bool has_device_expression(DynOp op) {
    static const DynOp none[] = {DYN_OP_NEXTAFTER,      DYN_OP_SPACING,       DYN_OP_FREXP_MANTISSA,
                                 DYN_OP_FREXP_EXPONENT, DYN_OP_BITWISE_COUNT, DYN_OP_PHILOX};
    bool has = (dyn_ops[op].flags & DYN_OPF_SCALAR) == 0;
    for (size_t i = 0; i < DYN_COUNTOF(none) && has; i++) {
        has = op != none[i];
    }
    return has;
}

bool dyn_op_on_device(DynOp op, uint8_t dtype) {
    bool real = !dyn_dtype_is_complex((DynDtype)dtype);
    switch ((DynOpKind)dyn_ops[op].kind) {
    case DYN_K_ELEMENTWISE: return real && has_device_expression(op);
    case DYN_K_REDUCE:
    case DYN_K_COPY: return real;
    case DYN_K_STORE: return real && op == DYN_OP_STORE;
    case DYN_K_CREATE: return real && op != DYN_OP_IOTA;
    case DYN_K_SCAN:
    case DYN_K_GATHER: return false;
    case DYN_K_INPUT:
    case DYN_K_VIEW:
    case DYN_K_EXTERN:
    case DYN_K_RESULT: return true;
    }
    Py_UNREACHABLE();
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
        if (h->name[0] == name[0] && strncmp(h->name, name, length) == 0 && h->name[length] == 0) {
            return h;
        }
    }
    return NULL;
}
