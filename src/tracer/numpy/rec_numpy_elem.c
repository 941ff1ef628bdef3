/* rec_numpy_elem.c: elementwise operators: dtypes, weak numbers, broadcasting, power, and writing results into arrays. Called by
 * rec_numpy.c and the other rules. dtypes come from NumPy itself (ufunc.resolve_dtypes), kept in a table. */
#include "base/torch.h"
#include "tracer/numpy/rec_np.h"

typedef struct Types {
    uint8_t known, compute, result;
} Types;
static Types cache[DYN_OP_COUNT][NP_CODES][NP_CODES + 1];
static PyObject *ufuncs[DYN_OP_COUNT]; /* strong; NULL where the row is no ufunc */

int dyn_np_elem_init(PyObject *numpy) {
    for (int i = 0; i < DYN_OP_COUNT; i++) {
        const DynOpInfo *row = &dyn_ops[i];
        if (row->kind != DYN_K_ELEMENTWISE || row->flags & DYN_OPF_OURS) {
            continue;
        }
        int which;
        ufuncs[i] = PyObject_GetAttrString(numpy, dyn_op_function((DynOp)i, &which));
        if (ufuncs[i] == NULL) {
            return -1;
        }
        if (!PyObject_HasAttrString(ufuncs[i], "resolve_dtypes")) {
            Py_CLEAR(ufuncs[i]);
        }
    }
    return 0;
}

/* ---- dtypes */

static PyObject *type_of_code(int code) {
    if (code == NP_WEAK_INT) {
        return Py_NewRef((PyObject *)&PyLong_Type);
    }
    if (code == NP_WEAK_FLOAT) {
        return Py_NewRef((PyObject *)&PyFloat_Type);
    }
    if (code == NP_WEAK_COMPLEX) {
        return Py_NewRef((PyObject *)&PyComplex_Type);
    }
    return (PyObject *)PyArray_DescrFromType(dyn_dtypes[code].npy);
}

int dyn_np_loop(PyObject *ufunc, const int *codes, int nin, int nout, DynDtype wanted, PyObject *casting, DynDtype *loop) {
    PyObject *types = PyTuple_New(nin + nout), *signature = PyTuple_New(nin + nout), *kwargs = PyDict_New(), *args, *found = NULL;
    for (int i = 0; types != NULL && signature != NULL && i < nin + nout; i++) {
        bool given = i >= nin && wanted != DYN_NO_DTYPE;
        PyTuple_SET_ITEM(types, i, i < nin ? type_of_code(codes[i]) : Py_NewRef(Py_None));
        PyTuple_SET_ITEM(signature, i, given ? type_of_code(wanted) : Py_NewRef(Py_None));
    }
    PyObject *f = PyObject_GetAttrString(ufunc, "resolve_dtypes");
    bool made = types != NULL && signature != NULL && kwargs != NULL;
    bool ready = made && f != NULL;
    if (ready && wanted != DYN_NO_DTYPE) {
        ready = PyDict_SetItemString(kwargs, "signature", signature) == 0;
    }
    if (ready && casting != NULL) {
        ready = PyDict_SetItemString(kwargs, "casting", casting) == 0;
    }
    args = ready ? PyTuple_Pack(1, types) : NULL;
    if (args != NULL) {
        found = PyObject_Call(f, args, kwargs);
    }
    bool fits = found != NULL && PyTuple_CheckExact(found) && PyTuple_GET_SIZE(found) == nin + nout;
    for (int i = 0; fits && i < nin + nout; i++) {
        PyObject *d = PyTuple_GET_ITEM(found, i);
        loop[i] = PyArray_DescrCheck(d) ? dyn_dtype_of((PyArray_Descr *)d) : DYN_NO_DTYPE;
        fits = loop[i] != DYN_NO_DTYPE;
    }
    Py_XDECREF(found);
    Py_XDECREF(args);
    Py_XDECREF(f);
    Py_XDECREF(kwargs);
    Py_XDECREF(signature);
    Py_XDECREF(types);
    PyErr_Clear();
    return fits ? 0 : -1;
}

/* The operands' loop dtypes have to be one and the same: but for ldexp's exponent. */
static void ask(DynOp op, int a, int b, Types *out) {
    int codes[2] = {a, b}, nin = b < 0 ? 1 : 2, which;
    DynDtype loop[4];
    dyn_op_function(op, &which);
    out->known = 2; /* refused, till shown otherwise */
    if (dyn_np_loop(ufuncs[op], codes, nin, which < 0 ? 1 : 2, DYN_NO_DTYPE, NULL, loop) < 0) {
        return;
    }
    if (nin == 1 || loop[0] == loop[1] || op == DYN_OP_LDEXP) {
        *out = (Types){1, (uint8_t)loop[0], (uint8_t)loop[which < 0 ? nin : nin + which]};
    }
}

static int refuse(DynRec *r) {
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    return -1;
}

int dyn_np_types(DynRec *r, DynOp op, int a, int b, DynDtype *compute, DynDtype *result) {
    bool all_weak = a >= NP_WEAK_INT && (b < 0 || b >= NP_WEAK_INT);
    if (dyn_ops[op].dtype == DYN_DT_LOGICAL) {
        *compute = *result = DYN_BOOL;
        return 0;
    }
    if (all_weak) { /* np.sin(2.0): the numbers become arrays first */
        static const uint8_t strong[] = {DYN_I64, DYN_F64, DYN_C128};
        a = strong[a - NP_WEAK_INT];
        b = b < 0 ? b : strong[b - NP_WEAK_INT];
    }
    if (ufuncs[op] == NULL) {
        return refuse(r);
    }
    Types *t = &cache[op][a][b + 1];
    if (!t->known) {
        ask(op, a, b, t);
    }
    if (t->known != 1) {
        return refuse(r);
    }
    *compute = (DynDtype)t->compute;
    *result = (DynDtype)t->result;
    return 0;
}

/* ---- weak numbers */

/* Is each number of that type converted to the dtype without an error, and exactly? */
static bool always_converts(DynSymType type, DynDtype dt) {
    bool truth = type == DYN_T_BOOL || dt == DYN_BOOL;
    bool both_parts_double = dt == DYN_C128 && type == DYN_T_FLOAT;
    return truth || dt == DYN_F64 || both_parts_double;
}

int dyn_np_convert_guard(DynRec *r, uint32_t sym, DynDtype dt) {
    const double most = dt == DYN_F16 ? 65504.0 : 0x1.fffffep127; /* of half and single precision */
    const DynSym *s = dyn_sym_at(dyn_rec_syms(r), sym);
    const DynDtypeInfo *to = &dyn_dtypes[dt];
    DynScalar hint = s->hint;
    if (always_converts(s->type, dt)) {
        return 0;
    }
    if (s->type == DYN_T_INT && dt == DYN_F16) {
        return dyn_np_assume_op(r, DYN_S_LE, dyn_np_op(r, DYN_S_ABS, sym, DYN_NONE), (int64_t)most);
    }
    if (s->type == DYN_T_INT && dyn_dtype_is_inexact(dt)) { /* Python rounds to double first: exact only this far */
        return dyn_np_assume_op(r, DYN_S_LE, dyn_np_op(r, DYN_S_ABS, sym, DYN_NONE), (int64_t)1 << 53);
    }
    if (s->type == DYN_T_INT) {
        int bits = to->size * 8 - (to->kind == 'i');
        if (to->kind == 'u' && dyn_np_assume_op(r, DYN_S_GE, sym, 0) < 0) {
            return -1;
        }
        if (bits >= 63) {
            return 0;
        }
        if (to->kind == 'i' && dyn_np_assume_op(r, DYN_S_GE, sym, -((int64_t)1 << bits)) < 0) {
            return -1;
        }
        return dyn_np_assume_op(r, DYN_S_LE, sym, ((int64_t)1 << bits) - 1);
    }
    if (!dyn_dtype_is_inexact(dt)) {
        return refuse(r);
    }
    if (hint.f - hint.f != 0) { /* inf and nan stay what they are */
        return dyn_np_assume(r, dyn_np_op(r, DYN_S_NOT, dyn_np_op(r, DYN_S_ISFINITE, sym, DYN_NONE), DYN_NONE));
    }
    return dyn_np_assume(r, dyn_np_op(r, DYN_S_LE, dyn_np_op(r, DYN_S_ABS, sym, DYN_NONE), dyn_sym_float(dyn_rec_syms(r), most)));
}

/* ---- broadcasting */

/* One operand's size against the result's so far (DYN_NONE: none yet): equal, or one of them 1, each under a guard. */
static int join_size(DynRec *r, uint32_t *into, uint32_t size) {
    if (*into == DYN_NONE || *into == size) {
        *into = size;
        return 0;
    }
    int64_t have = dyn_np_hint(r, *into), more = dyn_np_hint(r, size);
    if (have == more) {
        bool keep = dyn_sym_is_const(dyn_rec_syms(r), *into) || !dyn_sym_is_const(dyn_rec_syms(r), size);
        int ok = dyn_rec_assume_equal(r, *into, size);
        *into = keep ? *into : size;
        return ok;
    }
    if (more == 1) {
        return dyn_np_assume_op(r, DYN_S_EQ, size, 1);
    }
    if (have != 1) {
        return refuse(r);
    }
    int ok = dyn_np_assume_op(r, DYN_S_EQ, *into, 1);
    *into = size;
    return ok;
}

int dyn_np_broadcast(DynRec *r, const uint32_t *nodes, int n, uint32_t *shape) {
    DynGraph *g = dyn_rec_graph(r);
    int ndim = 0;
    for (int i = 0; i < n; i++) {
        if (dyn_graph_node(g, nodes[i])->ndim > ndim) {
            ndim = dyn_graph_node(g, nodes[i])->ndim;
        }
    }
    for (int axis = 0; axis < ndim; axis++) {
        shape[axis] = DYN_NONE;
        for (int i = 0; i < n; i++) {
            const DynNode *a = dyn_graph_node(g, nodes[i]);
            int at = axis - (ndim - a->ndim);
            if (at >= 0 && join_size(r, &shape[axis], a->shape[at]) < 0) {
                return -1;
            }
        }
    }
    return ndim;
}

/* ---- nodes */

uint32_t dyn_np_elementwise_as(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n) {
    uint32_t nodes[3], shape[DYN_MAX_NDIM];
    int nnodes = 0;
    for (int i = 0; i < n; i++) {
        if (args[i].arg.kind == DYN_ARG_NODE) {
            nodes[nnodes++] = args[i].arg.id;
        }
    }
    if (dyn_rec_graph(r)->cupy && dyn_cupy_computes_otherwise(op, compute)) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    if (dyn_np_stays_call(r, op, compute)) {
        return dyn_np_unsupported(r), DYN_NONE;
    }
    int ndim = dyn_np_broadcast(r, nodes, nnodes, shape);
    uint32_t id = ndim < 0 ? DYN_NONE : dyn_np_add(r, op, result, ndim, n, 0);
    if (id == DYN_NONE) {
        return id;
    }
    DynGraph *g = dyn_rec_graph(r);
    DynNode *node = dyn_graph_node(g, id);
    node->compute = (uint8_t)compute;
    memcpy(node->shape, shape, sizeof(*shape) * (size_t)ndim);
    for (int i = 0; i < n; i++) {
        node->args[i] = args[i].arg;
    }
    node->layout = dyn_np_layout_for(r, nodes, nnodes, ndim, shape); /* what eager really made says so itself */
    return id;
}

/* Is the row's C expression for booleans too, by its rule for dtypes? */
static bool computes_booleans(DynOp op) {
    static const uint8_t rules[] = {DYN_DT_COMPARE, DYN_DT_LOGICAL, DYN_DT_BOOL, DYN_DT_WHERE};
    for (size_t i = 0; i < DYN_COUNTOF(rules); i++) {
        if (dyn_ops[op].dtype == rules[i]) {
            return true;
        }
    }
    return false;
}

/* Does the operator see the format of its operand: how many bits the mantissa has, how far the exponent goes? */
static bool sees_format(DynOp op) { return op == DYN_OP_SPACING || op == DYN_OP_NEXTAFTER || op == DYN_OP_LDEXP; }

/* What a row becomes where it computes in another kind of number than its C expression is for; -1: refused. */
static int row_for(DynOp op, DynDtype compute) {
    char kind = dyn_dtypes[compute].kind;
    if (kind == 'b') {
        switch (op) {
        case DYN_OP_ADD:
        case DYN_OP_MAXIMUM:
        case DYN_OP_FMAX:
        case DYN_OP_BITWISE_OR: return DYN_OP_LOGICAL_OR;
        case DYN_OP_MULTIPLY:
        case DYN_OP_MINIMUM:
        case DYN_OP_FMIN:
        case DYN_OP_BITWISE_AND: return DYN_OP_LOGICAL_AND;
        case DYN_OP_BITWISE_XOR: return DYN_OP_LOGICAL_XOR;
        case DYN_OP_INVERT: return DYN_OP_LOGICAL_NOT;
        case DYN_OP_ABSOLUTE:
        case DYN_OP_FLOOR:
        case DYN_OP_CEIL:
        case DYN_OP_TRUNC:
        case DYN_OP_CONJUGATE:
        case DYN_OP_POSITIVE: return DYN_OP_COPY;
        default: return computes_booleans(op) ? (int)op : -1;
        }
    }
    if (kind == 'c') {
        return dyn_complex_ops[op].c != NULL ? (int)op : -1;
    }
    if (op == DYN_OP_CONJUGATE) {
        return DYN_OP_POSITIVE;
    }
    if (dyn_dtype_is_half(compute) && sees_format(op)) {
        return -1; /* half is computed in another format */
    }
    if (kind == 'f') {
        return op;
    }
    switch (op) {
    case DYN_OP_FLOOR:
    case DYN_OP_CEIL:
    case DYN_OP_TRUNC:
    case DYN_OP_RINT: return DYN_OP_POSITIVE;
    case DYN_OP_POWER: return DYN_OP_INT_POWER;
    default: return op;
    }
}

/* The same for operators of NumPy scalars: integers warn where they overflow, as arrays' don't. */
static int scalar_row(int row) {
    switch (row) {
    case DYN_OP_ADD: return DYN_OP_SCALAR_ADD;
    case DYN_OP_SUBTRACT: return DYN_OP_SCALAR_SUBTRACT;
    case DYN_OP_MULTIPLY: return DYN_OP_SCALAR_MULTIPLY;
    case DYN_OP_NEGATIVE: return DYN_OP_SCALAR_NEGATIVE;
    case DYN_OP_ABSOLUTE: return DYN_OP_SCALAR_ABSOLUTE;
    default: return row;
    }
}

/* ---- power */

/* The exponent as a Python number, when it is one (or a NumPy scalar made of one). */
static uint32_t exponent_sym(DynRec *r, const NpArg *e) {
    if (e->arg.kind == DYN_ARG_SYM) {
        return e->arg.id;
    }
    const DynNode *n = dyn_graph_node(dyn_rec_graph(r), e->arg.id);
    return n->op == DYN_OP_SCALAR ? n->args[0].id : DYN_NONE;
}

int dyn_np_exponent_is(DynRec *r, uint32_t sym, double value) {
    DynSyms *t = dyn_rec_syms(r);
    const DynSym *s = dyn_sym_at(t, sym);
    bool integer = s->type != DYN_T_FLOAT;
    if (integer && value != (int64_t)value) {
        return 0;
    }
    bool is = integer ? s->hint.i == (int64_t)value : s->hint.f == value;
    if (s->type == DYN_T_BOOL) {
        sym = dyn_np_op(r, DYN_S_ADD, sym, dyn_np_int(r, 0));
    }
    uint32_t c = integer ? dyn_np_int(r, (int64_t)value) : dyn_sym_float(t, value);
    DynSymOp relation = is ? DYN_S_EQ : DYN_S_NE;
    return dyn_np_assume(r, dyn_np_op(r, relation, sym, c)) < 0 ? -1 : is;
}

/* A float power. NumPy's loops look at an exponent that is the same for all elements: 0.5 is sqrt, 2 square, -1 reciprocal, 1 the
 * value itself (pow gives the same for 0 and 1). They do so for every exponent whose stride is 0, so an exponent array must not
 * have one. Of complex numbers and halves only the operator ** does, for the int 2 and -1 and the float 0.5. */
static uint32_t float_power(DynRec *r, DynDtype compute, const NpArg *args, NpForm form) {
    static const struct {
        double value;
        DynOp op;
    } fast[] = {{2.0, DYN_OP_SQUARE}, {0.5, DYN_OP_SQRT}, {-1.0, DYN_OP_RECIPROCAL}};
    DynGraph *g = dyn_rec_graph(r);
    uint32_t sym = exponent_sym(r, &args[1]);
    bool by_operator = dyn_dtypes[compute].kind == 'c' || dyn_dtype_is_half(compute);
    bool by_number = sym != DYN_NONE && args[1].arg.kind == DYN_ARG_SYM;
    if (by_operator && (form == NP_UFUNC || !by_number)) {
        return dyn_np_elementwise_as(r, DYN_OP_POWER, compute, compute, args, 2);
    }
    if (sym != DYN_NONE) {
        for (size_t i = 0; i < DYN_COUNTOF(fast) && args[0].arg.kind == DYN_ARG_NODE; i++) {
            int is = dyn_np_exponent_is(r, sym, fast[i].value);
            if (is > 0 && by_operator && (fast[i].value == 0.5) != (dyn_sym_at(dyn_rec_syms(r), sym)->type == DYN_T_FLOAT)) {
                break;
            }
            if (is != 0) {
                return is < 0 ? DYN_NONE : dyn_np_elementwise_as(r, fast[i].op, compute, compute, args, 1);
            }
        }
        if (args[0].arg.kind != DYN_ARG_NODE) {
            return refuse(r), DYN_NONE;
        }
        return dyn_np_elementwise_as(r, DYN_OP_POWER, compute, compute, args, 2);
    }
    if (args[1].arg.kind == DYN_ARG_NODE && dyn_graph_node(g, args[1].arg.id)->ndim == 0) {
        return dyn_np_elementwise_as(r, DYN_OP_UNIFORM_POWER, compute, compute, args, 2);
    }
    uint32_t id = dyn_np_elementwise_as(r, DYN_OP_POWER, compute, compute, args, 2);
    const DynNode *n = id == DYN_NONE ? NULL : dyn_graph_node(g, id), *e = dyn_graph_node(g, args[1].arg.id);
    if (n == NULL || e->op == DYN_OP_BROADCAST) {
        return refuse(r), DYN_NONE;
    }
    uint32_t last = e->shape[e->ndim - 1];
    if (dyn_np_hint(r, last) != dyn_np_hint(r, n->shape[n->ndim - 1]) || dyn_np_assume_op(r, DYN_S_NE, last, 1) < 0) {
        return refuse(r), DYN_NONE;
    }
    return id;
}

/* An integer power whose exponent is a number: 2 and 3 are products, which wrap as the power does. 0: it is neither. */
static uint32_t small_power(DynRec *r, DynDtype compute, const NpArg *args, bool *known) {
    uint32_t sym = args[0].arg.kind == DYN_ARG_NODE ? exponent_sym(r, &args[1]) : DYN_NONE;
    *known = false;
    for (int value = 2; value <= 3 && sym != DYN_NONE && !*known; value++) {
        int is = dyn_np_exponent_is(r, sym, value);
        *known = is != 0;
        if (is < 0) {
            return DYN_NONE;
        }
        if (is > 0 && value == 2) {
            return dyn_np_elementwise_as(r, DYN_OP_SQUARE, compute, compute, args, 1);
        }
        if (is > 0) {
            NpArg both[2] = {args[0], args[0]};
            uint32_t id = dyn_np_elementwise_as(r, DYN_OP_SQUARE, compute, compute, args, 1);
            both[0].arg = (DynArg){.kind = DYN_ARG_NODE, .id = id};
            both[0].code = compute;
            return id == DYN_NONE ? id : dyn_np_elementwise_as(r, DYN_OP_MULTIPLY, compute, compute, both, 2);
        }
    }
    return DYN_NONE;
}

/* Negative integer exponents raise: the exponent has to be unsigned, or a number that is guarded. */
static int int_power_guard(DynRec *r, const NpArg *args) {
    uint32_t sym = exponent_sym(r, &args[1]);
    if (sym != DYN_NONE) {
        return dyn_sym_at(dyn_rec_syms(r), sym)->type == DYN_T_BOOL ? 0 : dyn_np_assume_op(r, DYN_S_GE, sym, 0);
    }
    return args[1].code <= DYN_DTYPE_COUNT && dyn_dtypes[args[1].code].kind != 'i' ? 0 : refuse(r);
}

/* ---- comparisons of integers that no dtype holds both of: NumPy compares the numbers */

static bool is_signed(int code) { return code < DYN_DTYPE_COUNT && dyn_dtypes[code].kind == 'i'; }
static bool is_integer(int code) { return code < DYN_DTYPE_COUNT && dyn_dtype_is_integer((DynDtype)code); }

static DynOp mirrored(DynOp op) {
    switch (op) {
    case DYN_OP_LESS: return DYN_OP_GREATER;
    case DYN_OP_LESS_EQUAL: return DYN_OP_GREATER_EQUAL;
    case DYN_OP_GREATER: return DYN_OP_LESS;
    case DYN_OP_GREATER_EQUAL: return DYN_OP_LESS_EQUAL;
    default: return op;
    }
}

static bool holds_for_less(DynOp op) { return op == DYN_OP_LESS || op == DYN_OP_LESS_EQUAL || op == DYN_OP_NOT_EQUAL; }

/* A signed operand against one of uint64: by its sign, then as uint64. */
static uint32_t compare_signed(DynRec *r, DynOp op, const NpArg *args) {
    bool less = holds_for_less(op);
    NpArg zero = {{DYN_ARG_SYM, dyn_np_int(r, 0)}, NP_WEAK_INT}, sign[2] = {args[0], zero}, parts[2];
    DynDtype dt = (DynDtype)args[0].code;
    uint32_t a = dyn_np_elementwise_as(r, less ? DYN_OP_LESS : DYN_OP_GREATER_EQUAL, dt, DYN_BOOL, sign, 2);
    uint32_t b = a == DYN_NONE ? a : dyn_np_elementwise_as(r, op, DYN_U64, DYN_BOOL, args, 2);
    if (b == DYN_NONE) {
        return b;
    }
    parts[0] = dyn_np_node_arg(r, a);
    parts[1] = dyn_np_node_arg(r, b);
    return dyn_np_elementwise_as(r, less ? DYN_OP_LOGICAL_OR : DYN_OP_LOGICAL_AND, DYN_BOOL, DYN_BOOL, parts, 2);
}

/* An operand against a Python int that its dtype doesn't hold: the answer is one for all elements. */
static uint32_t compare_beyond(DynRec *r, DynOp op, NpArg a, uint32_t sym) {
    bool above = dyn_np_hint(r, sym) > 0;
    const DynDtypeInfo *dt = &dyn_dtypes[a.code];
    int bits = dt->size * 8 - (dt->kind == 'i');
    int64_t low = dt->kind == 'i' ? -((int64_t)1 << bits) : 0;
    int64_t end = above ? ((int64_t)1 << bits) - 1 : low;
    if (dyn_np_assume_op(r, above ? DYN_S_GT : DYN_S_LT, sym, end) < 0) {
        return DYN_NONE;
    }
    DynGraph *g = dyn_rec_graph(r);
    bool truth = op == DYN_OP_NOT_EQUAL || (op != DYN_OP_EQUAL && holds_for_less(op) == above);
    uint32_t s = dyn_sym_bool(dyn_rec_syms(r), truth), ndim = dyn_graph_node(g, a.arg.id)->ndim;
    uint32_t id = s == DYN_NONE ? s : dyn_np_add(r, DYN_OP_FULL, DYN_BOOL, (int)ndim, 1, 0);
    if (id == DYN_NONE) {
        return id;
    }
    dyn_graph_node(g, id)->args[0] = (DynArg){DYN_ARG_SYM, s};
    memcpy(dyn_graph_node(g, id)->shape, dyn_graph_node(g, a.arg.id)->shape, sizeof(uint32_t) * ndim);
    return id;
}

/* Is `number` a Python int that the dtype of the integers `a` doesn't hold? */
static bool beyond(DynRec *r, const NpArg *a, const NpArg *number) {
    if (!is_integer(a->code) || a->arg.kind != DYN_ARG_NODE || number->code != NP_WEAK_INT) {
        return false;
    }
    const DynDtypeInfo *dt = &dyn_dtypes[a->code];
    int64_t v = dyn_np_hint(r, number->arg.id);
    int bits = dt->size * 8 - (dt->kind == 'i');
    if (dt->kind == 'u' && v < 0) {
        return true;
    }
    int64_t end = bits < 63 ? (int64_t)1 << bits : 0;
    return bits < 63 && (v > end - 1 || v < -end);
}

/* The node of a comparison of that kind; *known false where it is of another. */
static uint32_t compare_integers(DynRec *r, DynOp op, const NpArg *args, bool *known) {
    NpArg swapped[2] = {args[1], args[0]};
    *known = true;
    if (is_signed(args[0].code) && args[1].code == DYN_U64) {
        return compare_signed(r, op, args);
    }
    if (is_signed(args[1].code) && args[0].code == DYN_U64) {
        return compare_signed(r, mirrored(op), swapped);
    }
    if (beyond(r, &args[0], &args[1])) {
        return compare_beyond(r, op, args[0], args[1].arg.id);
    }
    if (beyond(r, &args[1], &args[0])) {
        return compare_beyond(r, mirrored(op), args[1], args[0].arg.id);
    }
    *known = false;
    return DYN_NONE;
}

/* ---- operators */

uint32_t dyn_np_elementwise_in(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n, NpForm form) {
    for (int i = 0; i < n; i++) {
        DynDtype to = op == DYN_OP_LDEXP && i == 1 ? DYN_I32 : compute;
        if (args[i].arg.kind == DYN_ARG_SYM && dyn_ops[op].dtype != DYN_DT_LOGICAL &&
            dyn_np_convert_guard(r, args[i].arg.id, to) < 0) {
            return DYN_NONE;
        }
    }
    if (op == DYN_OP_ABSOLUTE && form == NP_SCALARS && dyn_dtype_is_complex(compute)) {
        return dyn_np_elementwise_as(r, DYN_OP_MODULUS, compute, result, args, n);
    }
    int row = row_for(op, compute);
    if (row < 0 || (row == DYN_OP_COPY && args[0].arg.kind != DYN_ARG_NODE)) {
        return refuse(r), DYN_NONE;
    }
    if (row == DYN_OP_INT_POWER && int_power_guard(r, args) < 0) {
        return refuse(r), DYN_NONE;
    }
    if (row == DYN_OP_POWER && form != NP_SCALARS) {
        return float_power(r, compute, args, form);
    }
    row = row == DYN_OP_POWER && dyn_dtypes[compute].kind == 'f' ? DYN_OP_SCALAR_POWER : row;
    if (row == DYN_OP_INT_POWER && form != NP_SCALARS) {
        bool known;
        uint32_t id = small_power(r, compute, args, &known);
        if (known) {
            return id;
        }
    }
    if (form == NP_SCALARS && dyn_dtype_is_integer(compute)) {
        row = scalar_row(row);
    }
    if (compute == DYN_F16 &&
        (row == DYN_OP_MAXIMUM || row == DYN_OP_MINIMUM)) { /* of equal operands these loops give the first */
        const NpArg turned[2] = {args[1], args[0]};
        return dyn_np_elementwise_as(r, (DynOp)row, compute, result, turned, 2);
    }
    return dyn_np_elementwise_as(r, (DynOp)row, compute, result, args, n);
}

uint32_t dyn_np_elementwise(DynRec *r, DynOp op, const NpArg *args, int n, NpForm form) {
    DynDtype compute, result;
    bool known = false;
    if (dyn_ops[op].dtype == DYN_DT_COMPARE) {
        uint32_t id = compare_integers(r, op, args, &known);
        if (known) {
            return id;
        }
    }
    if (dyn_np_types(r, op, args[0].code, n == 2 ? args[1].code : -1, &compute, &result) < 0) {
        return DYN_NONE;
    }
    return dyn_np_elementwise_in(r, op, compute, result, args, n, form);
}

/* ---- writing */

/* Is `node` another look at the memory that dst is? x[1:] = x[:-1] takes all values before it writes one. */
static bool aliases(DynRec *r, uint32_t node, uint32_t dst) {
    DynGraph *g = dyn_rec_graph(r);
    return node != dst && dyn_graph_node(g, node)->storage == dyn_graph_node(g, dst)->storage;
}

uint32_t dyn_np_copy(DynRec *r, uint32_t a, DynDtype dt) {
    DynGraph *g = dyn_rec_graph(r);
    if (dyn_np_drops((DynDtype)dyn_graph_node(g, a)->dtype, dt)) {
        return refuse(r), DYN_NONE;
    }
    uint32_t id = dyn_np_unary_node(r, DYN_OP_COPY, dt, a, dyn_graph_node(g, a)->ndim, 0);
    if (id != DYN_NONE) {
        memcpy(dyn_graph_node(g, id)->shape, dyn_graph_node(g, a)->shape, sizeof(uint32_t) * dyn_graph_node(g, a)->ndim);
    }
    return id;
}

/* A flag would tell of floats that don't fit into 4 or 8 bytes, but not under np.errstate(all="ignore"), nor where too much was
 * written to make the call again. */
bool dyn_np_may_not_fit(PyObject *value, int from, DynDtype to) {
    bool known = from >= 0 && from < DYN_DTYPE_COUNT && to < DYN_DTYPE_COUNT;
    if (!known || !PyArray_IsScalar(value, Generic) || !dyn_dtype_is_integer(to)) {
        return false;
    }
    bool is_signed = dyn_dtypes[to].kind == 'i';
    int size = dyn_dtypes[to].size, given = dyn_dtypes[from].size;
    switch (dyn_dtypes[from].kind) {
    case 'i': return !is_signed || given > size;
    case 'u': return is_signed ? given >= size : given > size;
    case 'f': return true;
    default: return false;
    }
}

bool dyn_np_overlaps_itself(DynRec *r, uint32_t id) {
    const DynGraph *g = dyn_rec_graph(r);
    const DynNode *n = dyn_graph_node(g, id);
    for (; n->flags & DYN_NODE_VIEW; n = dyn_graph_node(g, n->args[0].id)) {
        if (n->op != DYN_OP_AFFINE) {
            continue;
        }
        uint32_t moved = 0, twice = 0;
        for (int k = 0; k < dyn_graph_node(g, n->args[0].id)->ndim; k++) {
            int ways = 0;
            for (int i = 0; i < n->ndim; i++) {
                ways += n->aux[k * n->ndim + i] != 0;
                moved |= n->aux[k * n->ndim + i] != 0 ? 1u << i : 0;
            }
            twice |= ways > 1;
        }
        if (twice || moved != (1u << n->ndim) - 1) {
            return true;
        }
    }
    return false;
}

int dyn_np_store(DynRec *r, uint32_t dst, NpArg value) {
    DynGraph *g = dyn_rec_graph(r);
    const DynNode *d = dyn_graph_node(g, dst);
    if (dyn_np_overlaps_itself(r, dst)) { /* it matters which element is written last */
        *dyn_rec_why(r) = DYN_R_ALIASING;
        return -1;
    }
    DynDtype dt = (DynDtype)d->dtype;
    if (value.arg.kind == DYN_ARG_SYM) {
        const DynSym *s = dyn_sym_at(dyn_rec_syms(r), value.arg.id);
        if (s->type == DYN_T_FLOAT && dyn_dtype_is_integer(dt)) { /* an assignment truncates */
            value.arg.id = dyn_np_op(r, DYN_S_TO_INT, value.arg.id, DYN_NONE);
        }
        if (value.arg.id == DYN_NONE) {
            return refuse(r);
        }
        if (dyn_np_convert_guard(r, value.arg.id, dt) < 0) {
            return -1;
        }
    } else {
        const DynNode *v = dyn_graph_node(g, value.arg.id);
        int extra = v->ndim - d->ndim;
        for (int i = 0; i < v->ndim; i++) {
            uint32_t size = v->shape[i], into = i < extra ? DYN_NONE : d->shape[i - extra];
            bool same = into != DYN_NONE && dyn_np_hint(r, into) == dyn_np_hint(r, size);
            if ((same ? dyn_rec_assume_equal(r, into, size) : dyn_np_assume_op(r, DYN_S_EQ, size, 1)) < 0) {
                return -1;
            }
        }
        if (dyn_np_drops((DynDtype)v->dtype, dt)) {
            return refuse(r);
        }
        if (extra > 0) { /* leading axes of size 1 fall away */
            return refuse(r);
        }
    }
    if (value.arg.kind == DYN_ARG_NODE && aliases(r, value.arg.id, dst) &&
        (value.arg.id = dyn_np_copy(r, value.arg.id, value.code)) == DYN_NONE) {
        return -1;
    }
    d = dyn_graph_node(g, dst);
    if (dyn_rec_will_write(r, dst) < 0) {
        return -1;
    }
    uint32_t id = dyn_np_add(r, DYN_OP_STORE, dt, d->ndim, 2, 0);
    if (id == DYN_NONE) {
        return -1;
    }
    d = dyn_graph_node(g, dst);
    DynNode *n = dyn_graph_node(g, id);
    n->args[0] = (DynArg){DYN_ARG_NODE, dst};
    n->args[1] = value.arg;
    memcpy(n->shape, d->shape, sizeof(*n->shape) * d->ndim);
    n->layout = d->layout;
    n->storage = d->storage;
    rec_torch_noted(r);
    return 0;
}

DynVal *dyn_np_store_into(DynRec *r, DynOperand dst, NpArg value) {
    uint32_t node = dyn_np_node(r, dst);
    if (dyn_torch_is(dst.real) && rec_torch_follows(dst.real)) { /* autograd has to see it: a call */
        return dyn_np_unsupported(r);
    }
    if (node == DYN_NONE || dst.v->kind != DV_ARRAY || dyn_np_store(r, node, value) < 0) {
        return NULL;
    }
    return dst.v;
}

/* ---- rules */

DynVal *np_rule_where(DynRec *r, NpCall *c) {
    NpArg args[3];
    DynDtype compute, result;
    for (int i = 0; i < 3; i++) {
        if (c->slot[i].v == NULL) {
            return dyn_np_refuse(r, DYN_R_DATA_DEPENDENT);
        }
    }
    for (int i = 0; i < 3; i++) {
        if (dyn_np_operand(r, c->slot[i], &args[i]) < 0) {
            return NULL;
        }
    }
    if (dyn_np_types(r, DYN_OP_ADD, args[1].code, args[2].code, &compute, &result) < 0) {
        return NULL;
    }
    for (int i = 1; i < 3; i++) {
        if (args[i].arg.kind == DYN_ARG_SYM && dyn_np_convert_guard(r, args[i].arg.id, compute) < 0) {
            return NULL;
        }
    }
    return dyn_np_result(r, dyn_np_elementwise_as(r, DYN_OP_WHERE, compute, compute, args, 3), c->result);
}

/* np.float32(x): a NumPy scalar of a Python number, or a conversion. */
DynVal *np_rule_scalar_type(DynRec *r, NpCall *c) {
    NpArg a;
    DynDtype dt = (DynDtype)c->b->op;
    if (c->slot[0].v == NULL || dyn_np_operand(r, c->slot[0], &a) < 0) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    }
    if (a.arg.kind == DYN_ARG_NODE) {
        return dyn_np_result(r, dyn_np_copy(r, a.arg.id, dt), c->result);
    }
    if (a.code == NP_WEAK_FLOAT && dyn_dtype_is_integer(dt)) {
        a.arg.id = dyn_np_op(r, DYN_S_TO_INT, a.arg.id, DYN_NONE);
    }
    if (a.arg.id == DYN_NONE) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (dyn_np_convert_guard(r, a.arg.id, dt) < 0) {
        return NULL;
    }
    uint32_t id = dyn_np_add(r, DYN_OP_SCALAR, dt, 0, 1, 0);
    if (id != DYN_NONE) {
        dyn_graph_node(dyn_rec_graph(r), id)->args[0] = a.arg;
    }
    return dyn_np_result(r, id, c->result);
}
