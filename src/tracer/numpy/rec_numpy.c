/* rec_numpy.c: from NumPy's callables and methods to rules. Fills the binding tables from bind.def, lays out arguments, and holds
 * what all rules need: operands, results, failing. Called by the recorder's handlers through rec.h. The tables live as long as
 * the process. */
#include "base/cpy.h"
#include "base/tensors.h"
#include "tracer/numpy/rec_np.h"
#include "ir/extern.h"

/* Behind the rows of bind.def, one for each elementwise operator, whose text is NumPy's name of the ufunc where there is one. */
#define BIND_ELEMENTWISE(op, text) {text, "", np_rule_ufunc, op, NULL, 0},
#define BIND_INPUT(op, text)
#define BIND_REDUCE(op, text)
#define BIND_VIEW(op, text)
#define BIND_CREATE(op, text)
#define BIND_COPY(op, text)
#define BIND_STORE(op, text)
#define BIND_EXTERN(op, text)
#define BIND_RESULT(op, text)
#define BIND_SCAN(op, text)
#define BIND_GATHER(op, text)
static DynBinding functions[] = {
#define FUNC(path, sig, rule, op) {path, sig, np_rule_##rule, op, NULL, 0},
#define METHOD(name, sig, rule, op)
#include "tracer/numpy/bind.def"
#undef FUNC
#undef METHOD
#define OP(name, text, arity, kind, ...) BIND_##kind(DYN_OP_##name, text)
#include "ir/ops.def"
#undef OP
};
static DynBinding methods[] = {
#define FUNC(path, sig, rule, op)
#define METHOD(name, sig, rule, op) {name, sig, np_rule_##rule, op, NULL, 0},
#include "tracer/numpy/bind.def"
#undef FUNC
#undef METHOD
};
#define NFUNCTIONS (int)DYN_COUNTOF(functions)
#define NMETHODS (int)DYN_COUNTOF(methods)
static PyObject *method_names[DYN_COUNTOF(methods)];   /* interned */
static DynBinding *by_address[DYN_COUNTOF(functions)]; /* rows that have a callable, in the order of their callables */
static int nbound;
static PyObject *no_value; /* numpy._NoValue */

/* ---- tables */

/* Where rows of a callable begin in by_address. */
static int place_of(const PyObject *callable) {
    int low = 0, high = nbound;
    while (low < high) {
        int middle = (low + high) / 2;
        if ((uintptr_t)by_address[middle]->callable < (uintptr_t)callable) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* A callable that has a row already keeps it. */
static void add_row(DynBinding *row) {
    int at = place_of(row->callable);
    if (at == nbound || by_address[at]->callable != row->callable) {
        memmove(&by_address[at + 1], &by_address[at], (size_t)(nbound - at) * sizeof *by_address);
        by_address[at] = row;
        nbound++;
    }
}

/* The object at a dotted path; NULL without an exception when this NumPy has no such name. */
static PyObject *lookup(PyObject *base, const char *path) {
    PyObject *o = Py_NewRef(base);
    while (*path != 0 && o != NULL) {
        const char *dot = strchr(path, '.');
        size_t n = dot == NULL ? strlen(path) : (size_t)(dot - path);
        PyObject *name = PyUnicode_FromStringAndSize(path, (Py_ssize_t)n);
        PyObject *dict = name != NULL && PyModule_Check(o) ? PyModule_GetDict(o) : NULL;
        PyObject *next = dict == NULL ? NULL : Py_XNewRef(PyDict_GetItemWithError(dict, name));
        if (next == NULL && name != NULL && !PyErr_Occurred()) { /* what a module makes when it is asked for, and classes */
            next = PyObject_GetAttr(o, name);
        }
        Py_XDECREF(name);
        Py_SETREF(o, next);
        path += dot == NULL ? n : n + 1;
    }
    if (o == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    return o;
}

/* Is what stands before the dot of a row's path there: a class, or a module that is loaded? numpy.random and numpy.fft come with
 * their first use, and not by us. */
static bool is_loaded(PyObject *numpy, const char *path) {
    const char *dot = strchr(path, '.');
    PyObject *name = dot == NULL ? NULL : PyUnicode_FromStringAndSize(path, dot - path);
    bool there = dot == NULL || (name != NULL && PyDict_Contains(PyModule_GetDict(numpy), name) > 0);
    Py_XDECREF(name);
    PyErr_Clear();
    return there;
}

static int unbound;                         /* rows whose module was not loaded when it was last looked */
static bool looked[DYN_COUNTOF(functions)]; /* rows whose module was: there is a callable by that name, or there is none */

static int bind_function(PyObject *numpy, DynBinding *row) {
    row->callable = lookup(numpy, row->path);
    if (row->callable == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    if (row->rule == np_rule_ufunc && Py_TYPE(row->callable) != &PyUFunc_Type) { /* np.where, np.clip: bind.def has them */
        Py_CLEAR(row->callable);
    } else {
        add_row(row);
    }
    return 0;
}

/* Finds the callables of the rows that weren't looked up yet. */
static int bind_functions(void) {
    PyObject *numpy = dyn_import("numpy");
    int status = numpy == NULL ? -1 : 0;
    unbound = 0;
    for (int i = 0; i < NFUNCTIONS && status == 0; i++) {
        bool loaded = looked[i] || is_loaded(numpy, functions[i].path);
        unbound += !loaded;
        if (loaded && !looked[i]) {
            status = bind_function(numpy, &functions[i]);
            looked[i] = true;
        }
    }
    Py_XDECREF(numpy);
    return status;
}

int dyn_np_init(void) {
    PyObject *numpy = dyn_import("numpy");
    if (numpy == NULL) {
        return -1;
    }
    if (bind_functions() < 0) {
        goto failed;
    }
    for (int i = 0; i < NMETHODS; i++) {
        methods[i].callable = lookup((PyObject *)&PyArray_Type, methods[i].path);
        method_names[i] = PyUnicode_InternFromString(methods[i].path);
        if (method_names[i] == NULL || (methods[i].callable == NULL && PyErr_Occurred())) {
            goto failed;
        }
    }
    no_value = lookup(numpy, "_NoValue");
    if ((no_value == NULL && PyErr_Occurred()) || dyn_np_elem_init(numpy) < 0) {
        goto failed;
    }
    Py_DECREF(numpy);
    return 0;
failed:
    Py_DECREF(numpy);
    return -1;
}

const DynBinding *dyn_np_find(PyObject *callable) {
    static Py_ssize_t nmodules;
    Py_ssize_t now = unbound == 0 ? nmodules : PyDict_GET_SIZE(PyImport_GetModuleDict());
    if (now != nmodules && bind_functions() < 0) {
        PyErr_Clear();
    }
    nmodules = now;
    int at = place_of(callable);
    if (at < nbound && by_address[at]->callable == callable) {
        return by_address[at];
    }
    const DynBinding *of_cupy = dyn_cupy_binding(callable);
    return of_cupy != NULL ? of_cupy : dyn_torch_binding(callable);
}

bool dyn_np_has_rule(const DynBinding *b) { return b->rule != np_rule_call && b->rule != np_rule_call_write; }

bool dyn_np_has_derivative_inside(const DynBinding *b) { return b->rule == np_rule_norm; }

/* Is it the rule of functions that write into an operand, draw random numbers, make an object, or call what they are given? */
static bool is_rule_of_effects(NpRule rule) {
    static const NpRule rules[] = {np_rule_call_write, np_rule_random, np_rule_make,        np_rule_copyto,
                                   np_rule_fill,       np_rule_mapped, np_rule_ufunc_method};
    for (size_t i = 0; i < DYN_COUNTOF(rules); i++) {
        if (rules[i] == rule) {
            return true;
        }
    }
    return false;
}

bool dyn_np_is_pure(const DynBinding *b) { return b->effect == DYN_BIND_PURE && !is_rule_of_effects(b->rule); }

const DynBinding *dyn_np_find_method(PyObject *name) {
    for (int i = 0; i < NMETHODS; i++) {
        if (method_names[i] == name && methods[i].callable != NULL) {
            return &methods[i];
        }
    }
    for (int i = 0; i < NMETHODS; i++) {
        if (PyUnicode_Check(name) && PyUnicode_Compare(method_names[i], name) == 0 && methods[i].callable != NULL) {
            return &methods[i];
        }
    }
    return NULL;
}

const DynBinding *dyn_np_binding(const char *path, bool method) {
    const DynBinding *table = method ? methods : functions;
    for (int i = 0; i < (method ? NMETHODS : NFUNCTIONS); i++) {
        if (strcmp(table[i].path, path) == 0) {
            return &table[i];
        }
    }
    return NULL;
}

const DynBinding *dyn_np_nth_ufunc(int n) {
    for (int i = 0; i < NFUNCTIONS; i++) {
        if (functions[i].rule == np_rule_ufunc && functions[i].op != 0 && n-- == 0) {
            return &functions[i];
        }
    }
    return NULL;
}

/* ---- failing, symbols */

DynVal *dyn_np_refuse(DynRec *r, DynReason why) {
    *dyn_rec_why(r) = why;
    return NULL;
}

int dyn_np_assume(DynRec *r, uint32_t sym) {
    if (sym == DYN_NONE || !dyn_sym_at(dyn_rec_syms(r), sym)->hint.i) {
        *dyn_rec_why(r) = DYN_R_UNSUPPORTED_OP;
        return -1;
    }
    return dyn_sym_is_const(dyn_rec_syms(r), sym) ? 0 : dyn_rec_expect(r, sym);
}

uint32_t dyn_np_int(DynRec *r, int64_t value) { return dyn_sym_int(dyn_rec_syms(r), value); }

uint32_t dyn_np_op(DynRec *r, DynSymOp op, uint32_t a, uint32_t b) {
    bool absent = a == DYN_NONE || (b == DYN_NONE && dyn_sym_info[op].arity > 1);
    return absent ? DYN_NONE : dyn_sym_op(dyn_rec_syms(r), op, a, b, DYN_NONE);
}

int dyn_np_assume_op(DynRec *r, DynSymOp op, uint32_t a, int64_t b) {
    return dyn_np_assume(r, dyn_np_op(r, op, a, dyn_np_int(r, b)));
}

int64_t dyn_np_hint(DynRec *r, uint32_t sym) { return dyn_sym_at(dyn_rec_syms(r), sym)->hint.i; }

uint32_t dyn_np_product(DynRec *r, int n, const uint32_t *shape) {
    uint32_t p = dyn_np_int(r, 1);
    for (int i = 0; i < n && p != DYN_NONE; i++) {
        p = dyn_np_op(r, DYN_S_MUL, p, shape[i]);
    }
    return p;
}

/* ---- nodes */

uint32_t dyn_np_add(DynRec *r, DynOp op, DynDtype dtype, int ndim, int nargs, int naux) {
    DynGraph *g = dyn_rec_graph(r);
    uint32_t where = dyn_rec_place(r);
    if (g->device != 0 && !dyn_op_on_device(op, dtype)) { /* the call stays one */
        *dyn_rec_why(r) = DYN_R_UNSUPPORTED_OP;
        return DYN_NONE;
    }
    uint32_t id = dyn_graph_add(g, op, dtype, ndim, nargs, naux);
    if (id == DYN_NONE) {
        *dyn_rec_why(r) = DYN_R_NO_MEMORY;
        return id;
    }
    DynNode *n = dyn_graph_node(g, id);
    n->where = where;
    n->line = where < g->places.n ? g->places.at[where].line : -1;
    return id;
}

bool dyn_np_stays_call(DynRec *r, DynOp op, DynDtype compute) {
    return dyn_rec_graph(r)->device != 0 && !dyn_op_on_device(op, (uint8_t)compute);
}

uint32_t dyn_np_unary_node(DynRec *r, DynOp op, DynDtype dtype, uint32_t operand, int ndim, int naux) {
    if (dyn_np_stays_call(r, op, (DynDtype)dyn_graph_node(dyn_rec_graph(r), operand)->dtype)) {
        *dyn_rec_why(r) = DYN_R_UNSUPPORTED_OP;
        return DYN_NONE;
    }
    uint32_t id = dyn_np_add(r, op, dtype, ndim, 1, naux);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_graph_node(dyn_rec_graph(r), id);
    n->args[0] = (DynArg){DYN_ARG_NODE, operand};
    if (dyn_ops[op].kind == DYN_K_VIEW) {
        n->flags |= DYN_NODE_VIEW;
        n->storage = dyn_graph_node(dyn_rec_graph(r), operand)->storage;
    }
    return id;
}

DynDtype dyn_np_dtype_of(PyObject *o) {
    DynDtype dt = DYN_NO_DTYPE;
    DynArrayView view;
    if (dyn_tensor_is(o)) {
        dt = dyn_tensor_look(o, &view) ? (DynDtype)view.dtype : DYN_NO_DTYPE;
    } else if (PyArray_CheckExact(o)) {
        dt = dyn_dtype_of(PyArray_DESCR((PyArrayObject *)o));
    } else if (PyArray_CheckScalar(o)) {
        PyArray_Descr *d = PyArray_DescrFromScalar(o);
        dt = d == NULL ? DYN_NO_DTYPE : dyn_dtype_of(d);
        Py_XDECREF(d);
        PyErr_Clear();
    }
    return dt;
}

static uint32_t complex_node(DynRec *r, const uint32_t *parts, DynDtype dt) {
    uint32_t id = dyn_np_add(r, DYN_OP_COMPLEX, dt, 0, 2, 0);
    if (id == DYN_NONE) {
        return id;
    }
    DynNode *n = dyn_graph_node(dyn_rec_graph(r), id);
    n->args[0] = (DynArg){DYN_ARG_SYM, parts[0]};
    n->args[1] = (DynArg){DYN_ARG_SYM, parts[1]};
    n->flags |= DYN_NODE_NPSCALAR;
    return id;
}

/* A NumPy scalar that is the same at every call. */
static uint32_t constant_node(DynRec *r, PyObject *o) {
    DynDtype dt = dyn_np_dtype_of(o);
    PyObject *item = dt == DYN_NO_DTYPE ? NULL : PyObject_CallMethod(o, "item", NULL);
    uint32_t s = DYN_NONE;
    if (item != NULL && PyComplex_CheckExact(item)) {
        uint32_t parts[2] = {dyn_sym_float(dyn_rec_syms(r), PyComplex_RealAsDouble(item)),
                             dyn_sym_float(dyn_rec_syms(r), PyComplex_ImagAsDouble(item))};
        Py_DECREF(item);
        return parts[0] == DYN_NONE || parts[1] == DYN_NONE ? DYN_NONE : complex_node(r, parts, dt);
    }
    if (item != NULL && PyBool_Check(item)) {
        s = dyn_sym_bool(dyn_rec_syms(r), item == Py_True);
    } else if (item != NULL && PyFloat_CheckExact(item)) {
        s = dyn_sym_float(dyn_rec_syms(r), PyFloat_AS_DOUBLE(item));
    } else if (item != NULL && PyLong_CheckExact(item)) {
        int overflow = 0;
        int64_t v = PyLong_AsLongLongAndOverflow(item, &overflow);
        s = overflow ? DYN_NONE : dyn_np_int(r, v);
    }
    Py_XDECREF(item);
    PyErr_Clear();
    uint32_t id = s == DYN_NONE ? DYN_NONE : dyn_np_add(r, DYN_OP_SCALAR, dt, 0, 1, 0);
    if (id == DYN_NONE) {
        dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
        return id;
    }
    DynNode *n = dyn_graph_node(dyn_rec_graph(r), id);
    n->args[0] = (DynArg){DYN_ARG_SYM, s};
    n->flags |= DYN_NODE_NPSCALAR;
    return id;
}

uint32_t dyn_np_node(DynRec *r, DynOperand o) {
    if (o.v == NULL || dyn_rec_resolve(r, o.v, o.real) < 0) {
        return DYN_NONE;
    }
    if (o.v->kind == DV_ARRAY || o.v->kind == DV_NPSCALAR) {
        return rec_node_of(o.v);
    }
    if (o.v->kind == DV_CONST && PyArray_CheckScalar(o.real)) {
        return constant_node(r, o.real);
    }
    dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
    return DYN_NONE;
}

NpArg dyn_np_node_arg(DynRec *r, uint32_t node) {
    return (NpArg){{DYN_ARG_NODE, node}, dyn_graph_node(dyn_rec_graph(r), node)->dtype};
}

int dyn_np_operand(DynRec *r, DynOperand o, NpArg *out) {
    uint32_t sym = o.v == NULL ? DYN_NONE : dyn_rec_number(r, o.v, o.real);
    if (sym != DYN_NONE) {
        static const uint8_t codes[] = {[DYN_T_INT] = NP_WEAK_INT, [DYN_T_FLOAT] = NP_WEAK_FLOAT, [DYN_T_BOOL] = DYN_BOOL};
        *out = (NpArg){{DYN_ARG_SYM, sym}, codes[dyn_sym_at(dyn_rec_syms(r), sym)->type]};
        return 0;
    }
    uint32_t parts[2];
    bool weak = o.v != NULL && dyn_rec_complex(r, o.v, o.real, parts) == 0;
    uint32_t node = weak ? complex_node(r, parts, DYN_C128) : dyn_np_node(r, o);
    if (node == DYN_NONE) {
        return -1;
    }
    *out = dyn_np_node_arg(r, node);
    out->code = weak ? NP_WEAK_COMPLEX : out->code;
    return 0;
}

static uint32_t late_int(DynRec *r, DynOperand o) {
    PyObject *i = PyNumber_Index(o.real);
    DynVal *v = i == NULL ? NULL : dyn_np_extern(r, (PyObject *)&PyLong_Type, "int", &o, 1, NULL, i);
    PyErr_Clear();
    Py_XDECREF(i);
    return v == NULL ? DYN_NONE : rec_sym_of(v);
}

uint32_t dyn_np_int_sym(DynRec *r, DynOperand o) {
    uint32_t s = dyn_rec_number(r, o.v, o.real);
    if (s != DYN_NONE && dyn_sym_at(dyn_rec_syms(r), s)->type == DYN_T_INT) {
        return s;
    }
    if (o.v->kind == DV_NPSCALAR) { /* of a Python number, or an argument: its symbol */
        const DynNode *n = dyn_graph_node(dyn_rec_graph(r), rec_node_of(o.v));
        if (n->op == DYN_OP_SCALAR && dyn_sym_at(dyn_rec_syms(r), n->args[0].id)->type == DYN_T_INT &&
            dyn_dtypes[n->dtype].kind != 'f') {
            return n->args[0].id;
        }
    }
    if (s == DYN_NONE && o.v->kind == DV_CONST && PyArray_IsScalar(o.real, Integer)) {
        Py_ssize_t i = PyNumber_AsSsize_t(o.real, PyExc_OverflowError);
        if (i != -1 || !PyErr_Occurred()) {
            return dyn_np_int(r, i);
        }
        PyErr_Clear();
    }
    if (o.v->kind == DV_NPSCALAR && PyArray_IsScalar(o.real, Integer)) { /* known behind a call that takes it out */
        return late_int(r, o);
    }
    dyn_np_refuse(r, o.v->kind == DV_NPSCALAR ? DYN_R_DATA_DEPENDENT : DYN_R_UNSUPPORTED_VALUE);
    return DYN_NONE;
}

DynOperand dyn_np_slot(const NpCall *c, const char *name) {
    int i = dyn_words_find(c->b->sig, name);
    return i < 0 ? (DynOperand){NULL, NULL} : c->slot[i];
}

/* Item i of a tuple or list, or part i of a slice; borrowed. */
static PyObject *item_at(PyObject *o, Py_ssize_t i) {
    if (!PySlice_Check(o)) {
        return PySequence_Fast_GET_ITEM(o, i);
    }
    const PySliceObject *s = (PySliceObject *)o;
    PyObject *const parts[] = {s->start, s->stop, s->step};
    return parts[i];
}

/* Item i of a tuple or list, or part i of a slice. */
static DynVal *shadow_at(const DynVal *v, Py_ssize_t i) {
    DynVal *const *parts = v->kind == DV_SLICE ? (DynVal *[]){v->slice.start, v->slice.stop, v->slice.step} : v->items;
    return parts[i];
}

int dyn_np_items(DynRec *r, DynOperand o, DynOperand *items, int max) {
    if (dyn_rec_resolve(r, o.v, o.real) < 0) {
        return -1;
    }
    bool slice = PySlice_Check(o.real);
    if (!slice && !dyn_is_tuple(o.real) && !PyList_CheckExact(o.real)) {
        return -1;
    }
    Py_ssize_t n = slice ? 3 : PySequence_Fast_GET_SIZE(o.real);
    bool listed = o.v->kind == DV_TUPLE || o.v->kind == DV_LIST, known = listed || o.v->kind == DV_SLICE;
    bool agrees = listed ? o.v->n == n : known || o.v->kind == DV_CONST;
    if (n > max || !agrees) {
        dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *real = item_at(o.real, i);
        items[i] = (DynOperand){known ? shadow_at(o.v, i) : dyn_rec_const(r, real), real};
        if (items[i].v == NULL || dyn_rec_resolve(r, items[i].v, real) < 0) {
            return -1;
        }
    }
    return (int)n;
}

int dyn_np_flag(DynRec *r, DynOperand o, bool *value) {
    if (o.v == NULL) {
        return 0;
    }
    if (dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    if (!PyBool_Check(o.real)) {
        dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
        return -1;
    }
    *value = o.real == Py_True;
    return 0;
}

int dyn_np_axes(DynRec *r, DynOperand o, int ndim, int *axes) {
    DynOperand items[DYN_MAX_NDIM];
    if (o.v == NULL) {
        for (int i = 0; i < ndim; i++) {
            axes[i] = i;
        }
        return ndim;
    }
    if (dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    int n = dyn_np_items(r, o, items, DYN_MAX_NDIM);
    if (n < 0) {
        items[0] = o;
        n = 1;
    }
    for (int i = 0; i < n; i++) {
        Py_ssize_t a = PyIndex_Check(items[i].real) ? PyNumber_AsSsize_t(items[i].real, NULL) : PY_SSIZE_T_MAX;
        if (a < -ndim || a >= ndim) {
            PyErr_Clear();
            dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE);
            return -1;
        }
        int axis = (int)(a < 0 ? a + ndim : a), at = i;
        for (; at > 0 && axes[at - 1] > axis; at--) {
            axes[at] = axes[at - 1];
        }
        axes[at] = axis;
    }
    return n;
}

/* ---- results */

/* A view's order of axes as recorded holds at other sizes, but for axes of size 0 and 1, which have no say in it: those are
 * guarded to stay so, unless the order is C's whatever the sizes are. */
static int hold_order(DynRec *r, const DynNode *n) {
    bool ordered = true;
    for (const DynNode *view = n; ordered && (view->flags & DYN_NODE_VIEW) != 0;) {
        const DynNode *base = dyn_graph_node(dyn_rec_graph(r), view->args[0].id);
        ordered = view->op != DYN_OP_PERMUTE && view->op != DYN_OP_AFFINE;
        for (int i = 0; i < base->ndim; i++) {
            ordered = ordered && base->layout.perm[i] == i;
        }
        view = base;
    }
    for (int i = 0; i < n->ndim && !ordered; i++) {
        int64_t size = dyn_np_hint(r, n->shape[i]);
        if (size <= 1 && dyn_np_assume_op(r, DYN_S_EQ, n->shape[i], size) < 0) {
            return -1;
        }
    }
    return 0;
}

DynVal *dyn_np_result(DynRec *r, uint32_t node, PyObject *result) {
    if (node == DYN_NONE) {
        return NULL;
    }
    DynNode *n = dyn_graph_node(dyn_rec_graph(r), node);
    DynArrayView view;
    if (dyn_rec_call_gave(r, node, result) < 0) {
        return NULL;
    }
    if (!dyn_array_is(result)) {
        return dyn_np_dtype_of(result) != (DynDtype)n->dtype || n->ndim != 0 ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP)
                                                                             : dyn_rec_npscalar(r, node, result);
    }
    if (!dyn_array_look(result, &view) || !view.aligned) {
        return dyn_np_refuse(r, dyn_rec_why_no_array(result));
    }
    if (view.dtype != n->dtype || view.ndim != n->ndim) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    if (!dyn_rec_lies_with(r, result, view.device)) {
        return dyn_np_refuse(r, DYN_R_DEVICE);
    }
    for (int i = 0; i < n->ndim; i++) {
        if (dyn_np_hint(r, n->shape[i]) != view.dims[i]) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
        }
    }
    if (dyn_tensor_is(result)) {
        if (dyn_torch_is(result) && rec_torch_grade(r, node, result) < 0) {
            return dyn_np_refuse(r, DYN_R_REQUIRES_GRAD);
        }
        for (DynNode *m = n; m != NULL;) { /* what it is a view of is one too */
            m->flags |= DYN_NODE_TENSOR;
            m = m->flags & DYN_NODE_VIEW ? dyn_graph_node(dyn_rec_graph(r), m->args[0].id) : NULL;
        }
    }
    dyn_layout_of(&view, &n->layout);
    return hold_order(r, n) < 0 ? NULL : dyn_rec_array(r, node, result);
}

/* ---- calls */

int dyn_np_resolve(DynRec *r, DynOperand o, int depth) {
    DynOperand items[32];
    if (o.v == NULL) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE), -1;
    }
    if (dyn_rec_resolve(r, o.v, o.real) < 0) {
        return -1;
    }
    if (o.v->kind != DV_TUPLE && o.v->kind != DV_LIST && o.v->kind != DV_SLICE) {
        return 0;
    }
    int n = depth < 3 ? dyn_np_items(r, o, items, 32) : -1;
    for (int i = 0; i < n; i++) {
        if (dyn_np_resolve(r, items[i], depth + 1) < 0) {
            return -1;
        }
    }
    return n < 0 ? (dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE), -1) : 0;
}

DynVal *dyn_np_take_back(DynRec *r, uint32_t nnodes, DynVal *v) {
    if (v == NULL) {
        dyn_rec_truncate(r, nnodes);
    }
    return v;
}

bool dyn_np_is_no_value(PyObject *o) { return no_value != NULL && o == no_value; }

/* Which slot argument i goes to; -1: the signature has none for it. */
static int slot_of_argument(const NpCall *c, int i) {
    if (i < c->npos) {
        return i;
    }
    const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(c->kwnames, i - c->npos));
    if (name == NULL) {
        PyErr_Clear();
        return -1;
    }
    return dyn_words_find(c->b->sig, name);
}

static int bind(DynRec *r, NpCall *c) {
    if (c->b->sig[0] == 0) {
        return 0;
    }
    if (c->npos > dyn_words_count(c->b->sig)) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -1;
    }
    for (int i = 0; i < c->npos + c->nkw; i++) {
        int slot = slot_of_argument(c, i);
        if (slot < 0 && c->out.v != NULL && i == c->out_at) { /* who knows the result's sizes sees to it: dyn_np_sized_call */
            continue;
        }
        if (slot < 0) {
            return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP), -1;
        }
        if (c->args[i].real == Py_None || dyn_np_is_no_value(c->args[i].real)) {
            if (dyn_rec_burn(r, c->args[i].v, c->args[i].real) < 0) {
                return -1;
            }
            if (slot == 0 && c->b->rule != np_rule_random) { /* np.array(None): the operand itself, which rules take for given */
                return dyn_np_refuse(r, DYN_R_UNSUPPORTED_VALUE), -1;
            }
            continue;
        }
        c->slot[slot] = c->args[i];
    }
    return 0;
}

/* What rules made of the call, from node `first` on: is it one new array, and nothing that was there before is written? */
static const DynNode *is_new_array(DynRec *r, uint32_t first, const DynVal *v) {
    const DynGraph *g = dyn_rec_graph(r);
    const DynNode *n =
        (v->kind == DV_ARRAY || v->kind == DV_NPSCALAR) && rec_node_of(v) >= first ? dyn_graph_node(g, rec_node_of(v)) : NULL;
    if (n == NULL || n->storage < first) {
        return NULL;
    }
    for (uint32_t i = first; i < g->nodes.n; i++) {
        uint32_t written = dyn_graph_written(g, i);
        if (dyn_node_calls(dyn_graph_node(g, i)) || (written != DYN_NONE && written < first)) {
            return NULL;
        }
    }
    return n;
}

/* The call as it was made, of the sizes that the rule knows, in place of the nodes that the rule made of it: for a graph that is
 * handed on (DynRecording.whole). Where that fails, the rule's nodes again. */
static DynVal *as_it_was_made(DynRec *r, NpCall *c, uint32_t first, DynVal *v) {
    const DynNode *n = is_new_array(r, first, v);
    uint32_t shape[DYN_MAX_NDIM];
    if (n == NULL || !PyCallable_Check(c->b->callable)) {
        return v;
    }
    int ndim = n->ndim;
    memcpy(shape, n->shape, sizeof(*shape) * (size_t)ndim);
    for (int again = 0; again < 2; again++) {
        dyn_rec_truncate(r, first);
        v = again ? c->b->rule(r, c) : dyn_np_sized_call(r, c, ndim, shape);
        if (v != NULL) {
            break;
        }
        *dyn_rec_why(r) = DYN_R_OK;
    }
    return v;
}

/* Notes the tensor that is given as out=, if it is the result. */
static void find_out(NpCall *c) {
    for (int i = c->npos; i < c->npos + c->nkw && dyn_tensor_is(c->result); i++) {
        if (c->args[i].real == c->result && c->args[i].v->kind == DV_ARRAY &&
            PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i - c->npos), "out") == 0) {
            c->out = c->args[i];
            c->out_at = i;
        }
    }
}

/* What the rule makes of the call. One that doesn't know of out= gives something else. */
static DynVal *by_rule(DynRec *r, NpCall *c) {
    find_out(c);
    DynVal *v = bind(r, c) < 0 ? NULL : c->b->rule(r, c);
    return v != NULL && c->out.v != NULL && v != c->out.v ? dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP) : v;
}

/* The call as it was made, of a form that the rule doesn't know: what is listed and gives a value has no effect but that, and so
 * can stay a call. */
static DynVal *left_as_call(DynRec *r, const NpCall *c) {
    const DynBinding *b = c->b;
    DynReason why = *dyn_rec_why(r);
    if (b->effect == DYN_BIND_BY_RULE) {
        return NULL;
    }
    if (b->effect == DYN_BIND_RANDOM) {
        return dyn_np_extern_once(r, b->callable, b->path, c->args, c->npos, c->kwnames, c->result);
    }
    if (b->effect == DYN_BIND_IN_PLACE) {
        return dyn_np_extern_in_place(r, b->callable, b->path, c->args, c->npos, c->kwnames, c->result);
    }
    PyObject *f = PyCallable_Check(b->callable) ? Py_NewRef(b->callable) : PyObject_GetAttrString(b->callable, "__getitem__");
    DynVal *v = NULL;
    if (f != NULL) { /* __getitem__: np.mgrid[…] */
        v = dyn_np_extern(r, f, b->path, c->args, c->npos, c->kwnames, c->result);
    }
    PyErr_Clear();
    Py_XDECREF(f);
    *dyn_rec_why(r) = v == NULL ? why : DYN_R_OK;
    return v;
}

/* Did the rule itself decide that the call can't stay one? */
static bool rule_has_the_last_word(NpRule rule) { return rule == np_rule_random || rule == tt_rule_call; }

/* Of NumPy's functions on arrays of CuPy's, which hand them on to CuPy, ufuncs alone are as the rule has them. */
static bool knows_its_operands(DynRec *r, const DynBinding *b) {
    const DynGraph *g = dyn_rec_graph(r);
    bool known = !g->cupy || b->rule == np_rule_ufunc || dyn_cupy_is_bound(b);
    if (!known) {
        dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    return known;
}

DynVal *dyn_np_call(DynRec *r, const DynBinding *b, const DynOperand *args, int npos, PyObject *kwnames, PyObject *result) {
    NpCall c = {.b = b, .args = args, .npos = npos, .kwnames = kwnames, .result = result};
    c.nkw = kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(kwnames);
    if (npos + c.nkw > 250) {
        return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP);
    }
    for (int i = 0; i < npos + c.nkw; i++) {
        if (dyn_np_resolve(r, args[i], 0) < 0) {
            return NULL;
        }
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    DynVal *v = knows_its_operands(r, b) ? dyn_np_take_back(r, nnodes, by_rule(r, &c)) : NULL;
    if (v != NULL && dyn_rec_whole(r)) {
        v = as_it_was_made(r, &c, nnodes, v);
    } else if (v != NULL) {
        rec_torch_note_whole(r, &c, nnodes, v);
    }
    return v != NULL || result == Py_None || rule_has_the_last_word(b->rule) ? v : left_as_call(r, &c);
}
