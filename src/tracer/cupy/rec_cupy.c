/* rec_cupy.c: from CuPy's callables and operators to rules: the table made from bind_cupy.def, and what isn't as NumPy has it.
 *
 * Called through the bindings (rec_numpy.c:dyn_np_find) and from the rules of NumPy where an operand is CuPy's. CuPy's functions
 * promote as NumPy's do, so that those rules predict what is compared with what CuPy gave; what differs (no NumPy scalars, no
 * warnings, other signatures) is here. The table lives as long as the process; it is made when cupy is first seen. */
#include "base/tensors.h"
#include "tracer/numpy/rec_np.h"
#include <string.h>

/* ---- the table */

static const struct Row {
    const char *name, *scopes, *sig;
    NpRule rule;
    int op;
} rows[] = {
#define CUPY(name, scopes, sig, rule, op) {name, scopes, sig, np_rule_##rule, op},
#define CUPY_METHOD(name, sig, rule, op) CUPY(name, "m", sig, rule, op)
#include "tracer/cupy/bind_cupy.def"
#undef CUPY
#undef CUPY_METHOD
};

#define MOST_BINDINGS 4096 /* kernels of the program's are bound when they are met */
static DynBindings bindings;
static PyTypeObject *ufunc_type, *elementwise_type, *reduction_type, *raw_type, *gufunc_type;

/* NULL: memory ran out, or there are too many. */
static const DynBinding *add(PyObject *callable, const char *path, const char *sig, NpRule rule, int op, uint8_t effect) {
    DynBinding row = {.path = path, .sig = sig, .rule = rule, .op = op, .callable = callable, .effect = effect};
    return bindings.n < MOST_BINDINGS ? dyn_bindings_add(&bindings, row) : NULL;
}

/* An object below cupy, or of its array's type; borrowed (cupy has it), NULL without an exception. */
static PyObject *look_up(PyObject *of, const char *path) {
    PyObject *o = dyn_torch_lookup(of, path);
    PyErr_Clear();
    Py_XDECREF(o);
    return o;
}

static void bind_row(const struct Row *row) {
    for (const char *scope = row->scopes; *scope != 0; scope++) {
        PyObject *callable = look_up(*scope == 'm' ? (PyObject *)dyn_cupy_array : dyn_cupy_module, row->name);
        if (callable != NULL) {
            add(callable, row->name, row->sig, row->rule, row->op, DYN_BIND_PURE);
        }
    }
}

static PyTypeObject *type_at(const char *path) {
    PyObject *type = look_up(dyn_cupy_module, path);
    return type != NULL && PyType_Check(type) ? (PyTypeObject *)type : NULL;
}

static void bind_all(void) {
    PyObject *matmul = look_up(dyn_cupy_module, "matmul");
    ufunc_type = type_at("ufunc");
    elementwise_type = type_at("ElementwiseKernel");
    reduction_type = type_at("ReductionKernel");
    raw_type = type_at("RawKernel");
    gufunc_type = matmul != NULL && !PyFunction_Check(matmul) ? Py_TYPE(matmul) : NULL;
    const DynBinding *numpys;
    for (int i = 0; ufunc_type != NULL && (numpys = dyn_np_nth_ufunc(i)) != NULL; i++) {
        PyObject *f = look_up(dyn_cupy_module, numpys->path);
        if (f != NULL && Py_IS_TYPE(f, ufunc_type)) {
            add(f, numpys->path, "", cp_rule_ufunc, numpys->op, DYN_BIND_PURE);
        }
    }
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        bind_row(&rows[i]);
    }
}

/* What is called as a whole: other ufuncs, and kernels that the program wrote. */
static const DynBinding *bind_by_type(PyObject *callable) {
    PyTypeObject *type = Py_TYPE(callable);
    bool call = type == ufunc_type || type == gufunc_type || type == elementwise_type || type == reduction_type;
    if (call) {
        return add(callable, type == ufunc_type || type == gufunc_type ? "ufunc" : "kernel", "", cp_rule_kernel, 0,
                   DYN_BIND_PURE);
    }
    return type == raw_type ? add(callable, "kernel", "", cp_rule_raw, 0, DYN_BIND_BY_RULE) : NULL;
}

const DynBinding *dyn_cupy_binding(PyObject *callable) {
    static bool bound;
    if (dyn_cupy_array == NULL) {
        return NULL;
    }
    if (!bound) {
        bound = true;
        bind_all();
    }
    const DynBinding *b = dyn_bindings_find(&bindings, callable);
    return b != NULL || PyFunction_Check(callable) ? b : bind_by_type(callable);
}

bool dyn_cupy_is_bound(const DynBinding *b) { return dyn_bindings_find(&bindings, b->callable) == b; }

/* ---- rules */

/* bench/gpu_cupy.py compares all ufuncs. Of floats CuPy's quotient is floor(x / y), which is infinite for a division by zero, and
 * the remainder follows from it. */
/* Of complex numbers quotients and other functions give infinities elsewhere than PyTorch's, which kernels follow. */
static bool is_other_complex(DynOp op) {
    switch (op) {
    case DYN_OP_ADD:
    case DYN_OP_SUBTRACT:
    case DYN_OP_MULTIPLY:
    case DYN_OP_SQUARE:
    case DYN_OP_NEGATIVE:
    case DYN_OP_POSITIVE:
    case DYN_OP_CONJUGATE:
    case DYN_OP_ABSOLUTE:
    case DYN_OP_EQUAL:
    case DYN_OP_NOT_EQUAL:
    case DYN_OP_ISNAN:
    case DYN_OP_ISINF:
    case DYN_OP_ISFINITE:
    case DYN_OP_WHERE: return false;
    default: return true;
    }
}

bool dyn_cupy_computes_otherwise(DynOp op, DynDtype compute) {
    if (dyn_dtype_is_complex(compute)) {
        return is_other_complex(op);
    }
    switch (op) {
    case DYN_OP_FLOOR_DIVIDE:
    case DYN_OP_REMAINDER: return dyn_dtype_is_inexact(compute);
    case DYN_OP_GCD:
    case DYN_OP_LCM: return true;
    case DYN_OP_DEG2RAD:
    case DYN_OP_RADIANS: return dyn_dtype_is_half(compute);
    default: return false;
    }
}

DynVal *cp_rule_ufunc(DynRec *r, NpCall *c) {
    NpArg args[3];
    int n = dyn_ops[c->b->op].arity;
    bool given = c->nkw == 0 || (c->nkw == 1 && c->out.v != NULL);
    if (!given || c->npos != n) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n; i++) {
        if (dyn_np_operand(r, c->args[i], &args[i]) < 0) {
            return NULL;
        }
    }
    uint32_t node = dyn_np_elementwise(r, (DynOp)c->b->op, args, n, NP_UFUNC);
    if (node == DYN_NONE) {
        return NULL;
    }
    return c->out.v != NULL ? dyn_np_store_into(r, c->out, dyn_np_node_arg(r, node)) : dyn_np_result(r, node, c->result);
}

/* A kernel that gives new arrays, or one that it was given to fill. */
DynVal *cp_rule_kernel(DynRec *r, NpCall *c) {
    return dyn_np_extern(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
}

#define MOST_ARGUMENTS 64

/* kernel(grid, block, args): nothing says which of the arrays it writes, so that it counts as writing each. */
DynVal *cp_rule_raw(DynRec *r, NpCall *c) {
    DynOperand items[MOST_ARGUMENTS], arrays[MOST_ARGUMENTS];
    int n = c->npos == 3 && c->nkw == 0 ? dyn_np_items(r, c->args[2], items, MOST_ARGUMENTS) : -1, found_arrays = 0;
    for (int i = 0; i < n; i++) {
        if (dyn_array_is(items[i].real)) {
            arrays[found_arrays++] = items[i];
        }
    }
    if (n < 0 || found_arrays == 0) {
        return dyn_np_unsupported(r);
    }
    NpLaunch launch = {.callable = c->b->callable,
                       .name = c->b->path,
                       .args = c->args,
                       .npos = c->npos,
                       .result = c->result,
                       .writes = -1,
                       .others = arrays,
                       .nothers = found_arrays};
    return dyn_np_launch(r, &launch);
}

/* ---- attributes and items */

bool dyn_cupy_has_rule_for(PyObject *attribute) {
    static const char *const names[] = {"shape", "size", "nbytes", "ndim", "dtype", "itemsize", "T"};
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (PyUnicode_CompareWithASCIIString(attribute, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Is there an array or a list in an index? */
static bool is_advanced(PyObject *index) {
    bool is = PyList_Check(index) || dyn_array_is(index);
    for (Py_ssize_t i = 0; !is && PyTuple_Check(index) && i < PyTuple_GET_SIZE(index); i++) {
        is = is_advanced(PyTuple_GET_ITEM(index, i));
    }
    return is;
}

DynVal *dyn_cupy_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, PyObject *result) {
    if (is_advanced(index.real)) {
        DynOperand args[2] = {a, index};
        PyObject *f = dyn_np_function("operator", "getitem");
        return f == NULL ? dyn_np_unsupported(r) : dyn_np_extern(r, f, "getitem", args, 2, NULL, result);
    }
    uint32_t id = dyn_np_basic_index(r, base, index);
    return id == DYN_NONE ? NULL : dyn_np_result(r, id, result);
}

int dyn_cupy_store_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, DynOperand value) {
    NpArg v;
    if (!is_advanced(index.real) && dyn_np_operand(r, value, &v) == 0) {
        uint32_t view = dyn_np_basic_index(r, base, index);
        return view == DYN_NONE ? -1 : dyn_np_store(r, view, v);
    }
    DynOperand args[3] = {a, index, value};
    PyObject *f = dyn_np_function("operator", "setitem");
    return f == NULL || dyn_np_extern_write(r, f, "setitem", args, 3, NULL, Py_None) == NULL ? -1 : 0;
}
