/* rec_numpy_operator.c: operators of arrays and NumPy scalars, comparisons, and the builtins that are operators (abs, pow,
 * divmod, round). Called by the recorder's handlers through rec.h. An operator becomes a node of its row of ops.def, or else a
 * call of the function that the module `operator` has for it. */
#include "base/tensors.h"
#include "tracer/bytecode/decode.h"
#include "tracer/numpy/rec_np.h"

static DynVal *operator_result(DynRec *r, DynOp op, DynOperand *o, int n, bool inplace, PyObject *result) {
    NpArg args[2];
    bool scalars = true, tensors = false;
    for (int i = 0; i < n; i++) {
        if (dyn_np_operand(r, o[i], &args[i]) < 0) {
            return NULL;
        }
        scalars = scalars && !PyArray_Check(o[i].real) && !dyn_tensor_is(o[i].real);
        tensors = tensors || dyn_torch_is(o[i].real);
    }
    bool writes = inplace && result == o[0].real, two = n == 2 && args[1].arg.kind == DYN_ARG_NODE;
    if (tensors && writes && two && dyn_torch_looks_elsewhere(r, args[0].arg.id, args[1].arg.id)) {
        return NULL;
    }
    NpForm form = scalars ? NP_SCALARS : NP_OPERATOR;
    uint32_t t = tensors ? dyn_torch_operator(r, op, args, n) : dyn_np_elementwise(r, op, args, n, form);
    if (t == DYN_NONE) {
        return NULL;
    }
    if (writes && dyn_array_is(result)) {
        return dyn_np_store_into(r, o[0], dyn_np_node_arg(r, t));
    }
    return dyn_np_result(r, t, result);
}

/* What a row is called in the module `operator`. */
static const struct Operator {
    DynOp op;
    const char *name;
} operators[] = {
    {DYN_OP_ADD, "add"},          {DYN_OP_SUBTRACT, "sub"},     {DYN_OP_MULTIPLY, "mul"},      {DYN_OP_DIVIDE, "truediv"},
    {DYN_OP_POWER, "pow"},        {DYN_OP_REMAINDER, "mod"},    {DYN_OP_LEFT_SHIFT, "lshift"}, {DYN_OP_RIGHT_SHIFT, "rshift"},
    {DYN_OP_BITWISE_AND, "and_"}, {DYN_OP_BITWISE_OR, "or_"},   {DYN_OP_BITWISE_XOR, "xor"},   {DYN_OP_FLOOR_DIVIDE, "floordiv"},
    {DYN_OP_LESS, "lt"},          {DYN_OP_LESS_EQUAL, "le"},    {DYN_OP_EQUAL, "eq"},          {DYN_OP_NOT_EQUAL, "ne"},
    {DYN_OP_GREATER, "gt"},       {DYN_OP_GREATER_EQUAL, "ge"}, {DYN_OP_NEGATIVE, "neg"},      {DYN_OP_POSITIVE, "pos"},
    {DYN_OP_INVERT, "invert"},    {DYN_OP_ABSOLUTE, "abs"},     {DYN_OP_MATMUL, "matmul"}};

/* The same of tensors: written in place it never changes their sizes, else the sizes are those to which they broadcast. */
static DynVal *tensor_call(DynRec *r, PyObject *f, const char *name, const DynOperand *o, int n, bool inplace, PyObject *result) {
    DynBinding row = {.path = name, .rule = tt_rule_pointwise, .callable = f};
    NpCall call = {.b = &row, .args = o, .npos = n, .result = result};
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    if (inplace) {
        return dyn_np_extern_in_place(r, f, name, o, n, NULL, result);
    }
    DynVal *v = dyn_np_take_back(r, nnodes, tt_rule_pointwise(r, &call));
    if (v == NULL) {
        *dyn_rec_why(r) = DYN_R_OK;
    }
    return v != NULL ? v : dyn_np_extern(r, f, name, o, n, NULL, result);
}

/* An operator without nodes of its own for these operands: a call of it. */
static DynVal *operator_call(DynRec *r, DynOp op, const DynOperand *o, int n, bool inplace, PyObject *result) {
    for (size_t i = 0; i < DYN_COUNTOF(operators); i++) {
        if (operators[i].op != op) {
            continue;
        }
        char name[16]; /* and_ in place is iand */
        size_t length = strcspn(operators[i].name, inplace ? "_" : "");
        snprintf(name, sizeof name, "%s%.*s", inplace ? "i" : "", (int)length, operators[i].name);
        PyObject *f = dyn_np_function("operator", name);
        DynVal *v = NULL;
        if (f != NULL && dyn_torch_is(result) && op != DYN_OP_MATMUL) {
            v = tensor_call(r, f, name, o, n, inplace, result);
        } else if (f != NULL) {
            v = dyn_np_extern(r, f, name, o, n, NULL, result);
        }
        PyErr_Clear();
        return v;
    }
    return NULL;
}

/* What the module `operator` has for the row; borrowed for ever. NULL: nothing. */
static PyObject *function_of(DynOp op) {
    PyObject *f = NULL;
    for (size_t i = 0; f == NULL && i < DYN_COUNTOF(operators); i++) {
        f = operators[i].op == op ? dyn_np_function("operator", operators[i].name) : NULL;
    }
    return f;
}

/* Tensors: the operator is noted beside its nodes, as a call of the function that it is. */
static void note(DynRec *r, DynOp op, const DynOperand *o, int n, uint32_t first, const DynVal *v, PyObject *result) {
    PyObject *f = dyn_torch_is(result) ? function_of(op) : NULL;
    if (f != NULL) {
        DynBinding row = {.path = dyn_ops[op].text, .callable = f};
        NpCall call = {.b = &row, .args = o, .npos = n, .result = result};
        rec_torch_note_whole(r, &call, first, v);
    }
}

static DynVal *operation(DynRec *r, int op, DynOperand *o, int n, bool inplace, PyObject *result) {
    for (int i = 0; i < n; i++) {
        if (dyn_np_resolve(r, o[i], 0) < 0) {
            return NULL;
        }
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    DynVal *v = dyn_np_take_back(r, nnodes, operator_result(r, (DynOp)op, o, n, inplace, result));
    if (v == NULL) {
        return operator_call(r, (DynOp)op, o, n, inplace && result == o[0].real, result);
    }
    if (!inplace) {
        note(r, (DynOp)op, o, n, nnodes, v, result);
    }
    return v;
}

DynVal *dyn_np_binary(DynRec *r, int nb, bool inplace, DynOperand a, DynOperand b, PyObject *result) {
    static const int16_t ops[] = {DYN_OP_ADD,      DYN_OP_BITWISE_AND, DYN_OP_FLOOR_DIVIDE, DYN_OP_LEFT_SHIFT, -1,
                                  DYN_OP_MULTIPLY, DYN_OP_REMAINDER,   DYN_OP_BITWISE_OR,   DYN_OP_POWER,      DYN_OP_RIGHT_SHIFT,
                                  DYN_OP_SUBTRACT, DYN_OP_DIVIDE,      DYN_OP_BITWISE_XOR};
    DynOperand o[2] = {a, b};
    if (nb < 0 || nb >= (int)DYN_COUNTOF(ops)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (ops[nb] < 0 && inplace && result == a.real) {
        return dyn_np_resolve(r, a, 0) < 0 || dyn_np_resolve(r, b, 0) < 0 ? NULL
                                                                          : operator_call(r, DYN_OP_MATMUL, o, 2, true, result);
    }
    if (ops[nb] >= 0) {
        return operation(r, ops[nb], o, 2, inplace, result);
    }
    if (dyn_cupy_is(a.real) || dyn_cupy_is(b.real)) {
        bool known = dyn_np_resolve(r, a, 0) == 0 && dyn_np_resolve(r, b, 0) == 0;
        return known ? operator_call(r, DYN_OP_MATMUL, o, 2, false, result) : NULL;
    }
    if (dyn_torch_is(a.real) || dyn_torch_is(b.real)) {
        PyObject *matmul = PyObject_GetAttrString(dyn_torch_module, "matmul");
        const DynBinding *row = matmul == NULL ? NULL : dyn_torch_binding(matmul);
        PyErr_Clear();
        Py_XDECREF(matmul); /* the module has it */
        return row == NULL ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP) : dyn_np_call(r, row, o, 2, NULL, result);
    }
    return dyn_np_call(r, dyn_np_binding("matmul", false), o, 2, NULL, result);
}

/* The operator of a unary instruction, or -1. */
static int unary_operator(int opcode) {
    switch (opcode) {
    case DYN_I_UNARY_NEGATIVE: return DYN_OP_NEGATIVE;
    case DYN_I_UNARY_POSITIVE: return DYN_OP_POSITIVE;
    case DYN_I_UNARY_INVERT: return DYN_OP_INVERT;
    default: return -1;
    }
}

DynVal *dyn_np_unary(DynRec *r, int opcode, DynOperand a, PyObject *result) {
    int op = unary_operator(opcode);
    if (op == DYN_OP_POSITIVE && dyn_torch_is(a.real) && result == a.real) { /* torch's is the tensor itself */
        return a.v;
    }
    return op < 0 ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP) : operation(r, op, &a, 1, false, result);
}

DynVal *dyn_np_compare(DynRec *r, int cmp, DynOperand a, DynOperand b, PyObject *result) {
    static const uint8_t ops[] = {[Py_LT] = DYN_OP_LESS,      [Py_LE] = DYN_OP_LESS_EQUAL, [Py_EQ] = DYN_OP_EQUAL,
                                  [Py_NE] = DYN_OP_NOT_EQUAL, [Py_GT] = DYN_OP_GREATER,    [Py_GE] = DYN_OP_GREATER_EQUAL};
    DynOperand o[2] = {a, b};
    if (cmp < 0 || cmp >= (int)DYN_COUNTOF(ops)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return operation(r, ops[cmp], o, 2, false, result);
}

DynVal *dyn_np_builtin(DynRec *r, const char *name, const DynOperand *args, int n, PyObject *result) {
    DynOperand o[2] = {args[0], n == 2 ? args[1] : (DynOperand){0}};
    if (strcmp(name, "abs") == 0 && n == 1) {
        return operation(r, DYN_OP_ABSOLUTE, o, 1, false, result);
    }
    if (strcmp(name, "pow") == 0 && n == 2) {
        return operation(r, DYN_OP_POWER, o, 2, false, result);
    }
    if (strcmp(name, "divmod") == 0 && n == 2) {
        return dyn_np_call(r, dyn_np_binding("divmod", false), o, 2, NULL, result);
    }
    if (strcmp(name, "round") == 0 && n == 2 && args[1].real != Py_None &&
        !dyn_cupy_is(args[0].real)) { /* None: a Python int, as without it */
        return dyn_np_call(r, dyn_np_binding("round", true), o, 2, NULL, result);
    }
    return dyn_np_refuse(r, DYN_R_DATA_DEPENDENT);
}
