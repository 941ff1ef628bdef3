/* rec_operator.c: the functions of `operator` as the operators that they are: each does what its instruction's handler does.
 *
 * Called by rec_call.c with arguments that were looked at. */
#include "tracer/record/rec_state.h"

typedef enum Family { BINARY, INPLACE, UNARY, COMPARE, IDENTITY, TRUTH, CONTAINS, GETITEM, SETITEM, DELITEM } Family;
typedef struct Operator {
    const char *name;
    Family family;
    int arg; /* as the instruction's: BINARY_OP's sub, Py_LT …, an opcode; IDENTITY, TRUTH: negated */
    PyObject *callable;
} Operator;
/* clang-format off */
static Operator operators[] = {
    {"add", BINARY, 0, NULL}, {"and_", BINARY, 1, NULL}, {"floordiv", BINARY, 2, NULL}, {"lshift", BINARY, 3, NULL},
    {"matmul", BINARY, 4, NULL}, {"mul", BINARY, 5, NULL}, {"mod", BINARY, 6, NULL}, {"or_", BINARY, 7, NULL},
    {"pow", BINARY, 8, NULL}, {"rshift", BINARY, 9, NULL}, {"sub", BINARY, 10, NULL}, {"truediv", BINARY, 11, NULL},
    {"xor", BINARY, 12, NULL},
    {"iadd", INPLACE, 0, NULL}, {"iand", INPLACE, 1, NULL}, {"ifloordiv", INPLACE, 2, NULL}, {"ilshift", INPLACE, 3, NULL},
    {"imatmul", INPLACE, 4, NULL}, {"imul", INPLACE, 5, NULL}, {"imod", INPLACE, 6, NULL}, {"ior", INPLACE, 7, NULL},
    {"ipow", INPLACE, 8, NULL}, {"irshift", INPLACE, 9, NULL}, {"isub", INPLACE, 10, NULL}, {"itruediv", INPLACE, 11, NULL},
    {"ixor", INPLACE, 12, NULL},
    {"neg", UNARY, DYN_I_UNARY_NEGATIVE, NULL}, {"pos", UNARY, DYN_I_UNARY_POSITIVE, NULL},
    {"inv", UNARY, DYN_I_UNARY_INVERT, NULL}, {"invert", UNARY, DYN_I_UNARY_INVERT, NULL},
    {"lt", COMPARE, Py_LT, NULL}, {"le", COMPARE, Py_LE, NULL}, {"eq", COMPARE, Py_EQ, NULL}, {"ne", COMPARE, Py_NE, NULL},
    {"gt", COMPARE, Py_GT, NULL}, {"ge", COMPARE, Py_GE, NULL},
    {"is_", IDENTITY, 0, NULL}, {"is_not", IDENTITY, 1, NULL}, {"truth", TRUTH, 0, NULL}, {"not_", TRUTH, 1, NULL},
    {"contains", CONTAINS, 0, NULL}, {"getitem", GETITEM, 0, NULL}, {"setitem", SETITEM, 0, NULL}, {"delitem", DELITEM, 0, NULL},
};
/* clang-format on */

static uint32_t arity(Family f) { return f == UNARY || f == TRUTH ? 1 : f == SETITEM ? 3 : 2; }

static DynVal *identity(DynRec *r, bool negate, DynOperand a, DynOperand b, PyObject **result) {
    int same = rec_identity(r, a, b);
    *result = PyBool_FromLong((a.real == b.real) != negate);
    return same == (a.real == b.real) ? dyn_rec_const(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "is");
}

DynVal *rec_item_of(DynRec *r, DynOperand o, DynOperand index, PyObject **result) {
    DynOperand method;
    DynVal *v = rec_subscript(r, o, index, &method, result);
    if (method.v == NULL) {
        return v;
    }
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, 2);
    if (args == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    args[0] = o;
    args[1] = index;
    RecCall c = {.callable = method, .args = args, .npos = 2};
    return rec_call_function(r, &c, result);
}

/* What gives None: where the class has no Python function for it. */
static DynVal *change_item(DynRec *r, const RecCall *c, PyObject **result, bool store) {
    DynOperand o = c->args[0], index = c->args[1];
    DynOperand method = rec_special(r, o, store ? "__setitem__" : "__delitem__");
    if (method.v != NULL) {
        RecCall call = {.callable = method, .args = c->args, .npos = c->npos};
        DynVal *v = rec_call_function(r, &call, result);
        if (*result != NULL) {
            Py_SETREF(*result, Py_NewRef(Py_None));
        }
        return v ? dyn_rec_const(r, Py_None) : NULL;
    }
    int status = store ? PyObject_SetItem(o.real, index.real, c->args[2].real) : PyObject_DelItem(o.real, index.real);
    *result = status < 0 ? NULL : Py_NewRef(Py_None);
    r->why = DYN_R_SIDE_EFFECT;
    bool known = status == 0 && (store ? rec_item_stored(r, o, index, c->args[2]) : rec_delete_item(r, o, index)) == 0;
    return known ? dyn_rec_const(r, Py_None) : NULL;
}

static DynVal *operate(DynRec *r, const Operator *op, const RecCall *c, PyObject **result) {
    DynOperand a = c->args[0], b = c->npos > 1 ? c->args[1] : a;
    switch (op->family) {
    case BINARY:
    case INPLACE: return rec_binary(r, op->arg, op->family == INPLACE, a, b, result);
    case UNARY: return rec_unary(r, op->arg, a, result);
    case COMPARE: return rec_compare(r, op->arg, a, b, result);
    case IDENTITY: return identity(r, op->arg, a, b, result);
    case TRUTH: return rec_truth_value(r, op->arg, a, result);
    case CONTAINS: return rec_contains(r, false, b, a, result);
    case GETITEM: return rec_item_of(r, a, b, result);
    case SETITEM:
    case DELITEM: return change_item(r, c, result, op->family == SETITEM);
    }
    return NULL;
}

DynVal *rec_call_operator(DynRec *r, const RecCall *c, PyObject **result, bool *handled) {
    for (size_t i = 0; i < DYN_COUNTOF(operators); i++) {
        if (operators[i].callable == c->callable.real && c->nkw == 0 && c->npos == arity(operators[i].family)) {
            *handled = true;
            return operate(r, &operators[i], c, result);
        }
    }
    return NULL;
}

int rec_operator_init(void) {
    PyObject *module = PyImport_ImportModule("operator");
    for (size_t i = 0; module != NULL && i < DYN_COUNTOF(operators); i++) {
        Py_XSETREF(operators[i].callable, PyObject_GetAttrString(module, operators[i].name));
        if (operators[i].callable == NULL) {
            Py_CLEAR(module);
        }
    }
    Py_XDECREF(module);
    return module == NULL ? -1 : 0;
}
