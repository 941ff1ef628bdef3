/* ops.c: the operator tables and the C helper table as arrays, and look-ups by name. Made of ops.def, ops_complex.def and
 * ops_c.def; read by everybody. */
#include "ir/ops.h"
#include "base/arrays.h"
#include <pthread.h>

const DynOpInfo dyn_ops[DYN_OP_COUNT] = {
#define OP(name, text, arity, kind, dtype, shape, guard, c, deriv, fpe, flags) \
    {#name, text, arity, DYN_K_##kind, DYN_DT_##dtype, DYN_SH_##shape, DYN_G_##guard, c, deriv, fpe, flags},
#include "ir/ops.def"
#undef OP
};

const DynComplexOp dyn_complex_ops[DYN_OP_COUNT] = {
#define COMPLEX(name, c, on_device, fpe) [DYN_OP_##name] = {c, on_device, fpe},
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
                                 DYN_OP_FREXP_EXPONENT, DYN_OP_BITWISE_COUNT, DYN_OP_SCALAR_POWER};
    bool has = (dyn_ops[op].flags & DYN_OPF_SCALAR) == 0;
    for (size_t i = 0; i < DYN_COUNTOF(none) && has; i++) {
        has = op != none[i];
    }
    return has;
}

bool dyn_op_on_device(DynOp op, uint8_t dtype) {
    bool real = !dyn_dtype_is_complex((DynDtype)dtype);
    switch ((DynOpKind)dyn_ops[op].kind) {
    case DYN_K_ELEMENTWISE: return real ? has_device_expression(op) : dyn_complex_ops[op].on_device != NULL;
    case DYN_K_REDUCE: return real || dyn_complex_ops[op].on_device != NULL;
    case DYN_K_STORE: return op == DYN_OP_STORE;
    case DYN_K_CREATE: return real || op != DYN_OP_IOTA;
    case DYN_K_SCAN: return false;
    case DYN_K_COPY:
    case DYN_K_GATHER:
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
        {DYN_OP_SCALAR_POWER, "power", -1},
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

/* ---- helpers by name: a table with a place for each hash, filled once; the next free place is taken */

#define PLACES 4096 /* several times the rows, so that most are found at once */
_Static_assert(DYN_COUNTOF(dyn_op_helpers) * 2 < PLACES, "the table of helpers is too small");
static uint16_t helper_at[PLACES]; /* 1 + a row; 0: none */

static bool is_named(const DynOpHelper *h, const char *name, size_t length) {
    return strncmp(h->name, name, length) == 0 && h->name[length] == 0;
}

/* The place of the row with this name, or the free one where it would be. */
static uint32_t place_of_helper(const char *name, size_t length) {
    uint32_t place = (uint32_t)dyn_hash64(name, length, 0) % PLACES;
    while (helper_at[place] != 0 && !is_named(&dyn_op_helpers[helper_at[place] - 1], name, length)) {
        place = (place + 1) % PLACES;
    }
    return place;
}

static void place_helpers(void) {
    for (uint16_t i = 0; dyn_op_helpers[i].name != NULL; i++) {
        uint32_t place = place_of_helper(dyn_op_helpers[i].name, strlen(dyn_op_helpers[i].name));
        helper_at[place] = helper_at[place] != 0 ? helper_at[place] : (uint16_t)(i + 1);
    }
}

const DynOpHelper *dyn_op_helper(const char *name, size_t length) {
    static pthread_once_t once = PTHREAD_ONCE_INIT; /* asked by threads that build, too */
    pthread_once(&once, place_helpers);
    uint16_t found = helper_at[place_of_helper(name, length)];
    return found != 0 ? &dyn_op_helpers[found - 1] : NULL;
}
