/* rec_resolve.c: objects that come in: a shadow that only says where its object is found (DV_SOURCE) gets its kind when the
 * object is used, and the guards that this use needs and no more.
 *
 * Called by every handler before it looks at a value (dyn_rec_resolve). Owns nothing: shadows, guards and sources are the
 * recording's. */
#include "base/tensors.h"
#include "ir/extern.h"
#include "tracer/record/rec_callables.h"

int rec_lie_apart(DynRec *r, uint32_t node, uint32_t other) {
    if (node != other && dyn_extern_overlap(r->by_node.at[node]->real, r->by_node.at[other]->real)) {
        r->why = DYN_R_ALIASING;
        return -1;
    }
    return 0;
}

int rec_guard_apart(DynRec *r, uint32_t node) {
    const DynGraph *g = &r->cap->graph;
    return g->inputs.n < 2 ? 0 : rec_guard(r, DYN_GUARD_DISJOINT, dyn_graph_node(g, node)->source, DYN_NONE, 0, NULL);
}

/* torch's state is as it was when the segment began: rec_torch_state.c. */
static bool may_capture(DynRec *r, PyObject *a, const DynArrayView *view) {
    return view->aligned && (!dyn_torch_is(a) || rec_torch_allows(r, a));
}

/* What a graph made before it met an array has kernels there. */
static bool may_be_placed(const DynGraph *g, uint8_t device) {
    bool may = true;
    for (uint32_t i = 0; i < g->nodes.n && device != 0; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        may = may && dyn_op_on_device((DynOp)n->op, n->dtype);
    }
    return may;
}

bool dyn_rec_lies_with(DynRec *r, PyObject *array, uint8_t device) {
    DynGraph *g = &r->cap->graph;
    if (!g->placed && !may_be_placed(g, device)) {
        return false;
    }
    if (!g->placed) {
        g->placed = true;
        g->device = device;
        g->cupy = dyn_cupy_is(array);
    }
    return g->device == device && g->cupy == dyn_cupy_is(array);
}

DynReason dyn_rec_why_no_array(PyObject *o) {
    if (PyArray_Check(o)) {
        if (!PyArray_CheckExact(o)) {
            return DYN_R_SUBCLASS;
        }
        DynArrayView view;
        if (dyn_dtype_of(PyArray_DESCR((PyArrayObject *)o)) == DYN_NO_DTYPE) {
            return DYN_R_DTYPE;
        }
        return dyn_array_view(o, &view) && view.aligned ? DYN_R_DEVICE : DYN_R_LAYOUT; /* the graph's arrays are elsewhere */
    }
    return dyn_torch_tensor != NULL && PyObject_TypeCheck(o, dyn_torch_tensor) ? rec_torch_why_none(o) : DYN_R_OK;
}

static DynReason why_none(DynOperand o) {
    bool may_be = o.v != NULL && o.v->kind == DV_OBJECT;
    return may_be ? dyn_rec_why_no_array(o.real) : DYN_R_OK;
}

static uint32_t count_items(DynOperand o) {
    bool list = o.v != NULL && o.v->kind == DV_LIST && PyList_CheckExact(o.real);
    bool tuple = o.v != NULL && o.v->kind == DV_TUPLE && PyTuple_CheckExact(o.real);
    return (list || tuple) && PySequence_Fast_GET_SIZE(o.real) == (Py_ssize_t)o.v->n ? o.v->n : 0;
}

/* Why it isn't captured, or the first of its items that isn't. */
static DynReason why_no_part(DynOperand o) {
    DynReason why = why_none(o);
    for (uint32_t i = 0, n = count_items(o); i < n && why == DYN_R_OK; i++) {
        why = why_none((DynOperand){o.v->items[i], PySequence_Fast_GET_ITEM(o.real, i)});
    }
    return why;
}

void rec_blame_operands(DynRec *r, RecFrame *f, uint32_t n) {
    bool unsupported = r->why == DYN_R_UNSUPPORTED_VALUE || r->why == DYN_R_UNSUPPORTED_OP;
    DynReason own = DYN_R_OK;
    for (uint32_t k = n; unsupported && own == DYN_R_OK && k > 0; k--) {
        own = why_no_part(operand(f, k));
    }
    r->why = own == DYN_R_OK ? r->why : own;
}

/* Its sizes as symbols, of the node too. */
static int size_symbols(DynRec *r, uint32_t source, uint32_t node, const DynArrayView *view, uint8_t layout) {
    for (int d = 0; d < view->ndim; d++) {
        int64_t size = view->dims[d];
        bool fixed =
            size <= 1 || !r->req->dynamic; /* 0 and 1 mean something else (broadcasting, emptiness): they are the entry's */
        uint32_t s = dyn_sym_dim(&r->cap->syms, source, d, size);
        if (s == DYN_NONE) {
            r->why = DYN_R_NO_MEMORY;
            return -1;
        }
        if (fixed || layout != DYN_LAYOUT_C) {
            uint32_t c = dyn_sym_int(&r->cap->syms, fixed ? size : 1);
            DynSymOp op = fixed ? DYN_S_EQ : DYN_S_GT;
            r->lasting = true;
            int status = dyn_rec_assume(r, c == DYN_NONE ? DYN_NONE : dyn_sym_op(&r->cap->syms, op, s, c, DYN_NONE));
            r->lasting = false;
            if (status < 0) {
                return -1;
            }
            s = fixed ? c : s;
        }
        dyn_graph_node(&r->cap->graph, node)->shape[d] = s;
    }
    return 0;
}

static int resolve_array(DynRec *r, DynVal *v, PyObject *a) {
    DynArrayView view;
    if (!dyn_array_look(a, &view) || !may_capture(r, a, &view) || !dyn_rec_lies_with(r, a, view.device)) {
        v->kind = DV_OBJECT; /* an operation on it is a break */
        return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(a));
    }
    bool tensor = dyn_tensor_is(a);
    DynDtype dt = (DynDtype)view.dtype;
    int ndim = view.ndim;
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == a) { /* the same array met on another way: one node, and a guard that it stays so */
            DynVal *other = r->seen.at[i].v;
            v->kind = other->kind;
            v->node = rec_node_of(other);
            return rec_guard(r, DYN_GUARD_SAME, v->source, other->source, 0, NULL);
        }
    }
    uint32_t node = dyn_graph_add(&r->cap->graph, DYN_OP_INPUT, dt, ndim, 0, 0);
    if (node == DYN_NONE || rec_keep(r, a) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    DynGuard g = {
        .kind = DYN_GUARD_ARRAY, .source = v->source, .source2 = DYN_NONE, .number = dt | ndim << 8, .place = dyn_rec_place(r)};
    if (tensor) {
        g.kind = DYN_GUARD_TENSOR;
        g.number |= dyn_tensor_requires_grad(a) ? DYN_TENSOR_GRAD : 0;
        g.number |= (int64_t)view.device << DYN_TENSOR_DEVICE;
        g.obj = (PyObject *)Py_TYPE(a);
    }
    dyn_layout_of(&view, &g.layout);
    if ((dyn_torch_is(a) && rec_torch_guard(r) < 0) || dyn_capture_guard(r->cap, &g) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    if (size_symbols(r, v->source, node, &view, g.layout.kind) < 0) {
        return -1;
    }
    DynNode *n = dyn_graph_node(&r->cap->graph, node);
    n->layout = g.layout;
    n->flags |= tensor ? DYN_NODE_TENSOR : 0;
    n->flags |= g.number & DYN_TENSOR_GRAD && tensor ? DYN_NODE_GRAD : 0;
    n->source = v->source;
    n->where = dyn_rec_place(r);
    n->line = r->cap->graph.places.n ? r->cap->graph.places.at[n->where].line : 0;
    v->kind = DV_ARRAY;
    v->node = node;
    v->real = a;
    RecSeen seen = {a, v};
    while (r->by_node.n <= node) {
        if (dyn_vec_push(&r->by_node, NULL) < 0) {
            return -1;
        }
    }
    r->by_node.at[node] = v;
    if (dyn_vec_push(&r->seen, seen) < 0 || dyn_vec_push(&r->cap->graph.inputs, node) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    for (uint32_t i = 0; i < r->written.n; i++) {
        if (rec_lie_apart(r, r->written.at[i], node) < 0) {
            return -1;
        }
    }
    bool second = r->cap->graph.inputs.n == 2 && r->written.n > 0; /* a lone input was written: it has no guard yet */
    return second ? rec_guard_apart(r, r->written.at[0]) : 0;
}

/* The value is equal to this one at every call, and the shadow a constant. */
static int guard_equal(DynRec *r, DynVal *v, PyObject *o) {
    if (rec_guard(r, DYN_GUARD_EQ, v->source, DYN_NONE, 0, o) < 0 || rec_keep(r, o) < 0) {
        return -1;
    }
    rec_become_const(v, o);
    return 0;
}

static int resolve_number(DynRec *r, DynVal *v, PyObject *o) {
    DynScalar hint = {0};
    DynSymType type;
    uint32_t sym;
    int overflow = 0;
    if (PyBool_Check(o)) {
        type = DYN_T_BOOL;
        hint.i = o == Py_True;
    } else if (PyFloat_CheckExact(o)) {
        type = DYN_T_FLOAT;
        hint.f = PyFloat_AS_DOUBLE(o);
    } else {
        type = DYN_T_INT;
        hint.i = PyLong_AsLongLongAndOverflow(o, &overflow);
    }
    if (overflow) {
        return guard_equal(r, v, o);
    }
    if (!r->req->dynamic) {
        if (rec_guard(r, DYN_GUARD_EQ, v->source, DYN_NONE, 0, o) < 0) {
            return -1;
        }
        sym = rec_constant_sym(r, o);
    } else {
        if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0) {
            return -1;
        }
        sym = dyn_sym_var(&r->cap->syms, type, v->source, hint);
    }
    if (sym == DYN_NONE) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    v->kind = DV_SYM;
    v->sym = sym;
    return 0;
}

/* A number in the scalar at a source, read as `how` says. */
static uint32_t scalar_sym(DynRec *r, uint32_t source, PyObject *o, int how) {
    bool whole = how < DYN_DTYPE_COUNT && dyn_dtypes[how].kind != 'f';
    DynSymType type = whole ? DYN_T_INT : DYN_T_FLOAT;
    DynScalar hint;
    dyn_npscalar_value(o, how, &hint);
    uint32_t sym = dyn_sym_var(&r->cap->syms, how == DYN_BOOL ? DYN_T_BOOL : type, source, hint);
    if (sym != DYN_NONE) {
        r->cap->syms.v.at[sym].index = (uint16_t)(1 + how); /* how the guards read it */
    }
    return sym;
}

int dyn_rec_complex(DynRec *r, DynVal *v, PyObject *real, uint32_t *parts) {
    bool constant = v->kind == DV_CONST, input = v->kind == DV_OBJECT && v->source != DYN_NONE && r->req->dynamic;
    if (v->kind == DV_COMPLEX) {
        parts[0] = rec_sym_of(v->parts.real);
        parts[1] = rec_sym_of(v->parts.imag);
        return 0;
    }
    if (!PyComplex_CheckExact(real) || (!constant && !input)) {
        return -1;
    }
    for (int i = 0; i < 2; i++) {
        DynScalar part;
        dyn_npscalar_value(real, DYN_READ_REAL + i, &part);
        parts[i] = constant ? dyn_sym_float(&r->cap->syms, part.f) : scalar_sym(r, v->source, real, DYN_READ_REAL + i);
    }
    return parts[0] == DYN_NONE || parts[1] == DYN_NONE ? -1 : 0;
}

/* A NumPy scalar that comes in: its number is a symbol, and a node of rank 0 makes it strong again (NEP 50). */
int rec_resolve_npscalar(DynRec *r, DynVal *v, PyObject *o) {
    PyArray_Descr *descr = PyArray_DescrFromScalar(o);
    DynDtype dt = descr == NULL ? DYN_NO_DTYPE : dyn_dtype_of(descr);
    Py_XDECREF(descr);
    PyErr_Clear();
    if (dt == DYN_NO_DTYPE || dt == DYN_U64 || !dyn_npscalar_is(o, dt) || !r->req->dynamic) { /* symbols are signed */
        return -1;
    }
    bool is_complex = dyn_dtypes[dt].kind == 'c';
    uint32_t sym[2] = {DYN_NONE, DYN_NONE};
    for (int i = 0; i <= is_complex; i++) {
        sym[i] = scalar_sym(r, v->source, o, is_complex ? DYN_READ_REAL + i : (int)dt);
        if (sym[i] == DYN_NONE) {
            return -1;
        }
    }
    if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0) {
        return -1;
    }
    uint32_t node = dyn_graph_add(&r->cap->graph, is_complex ? DYN_OP_COMPLEX : DYN_OP_SCALAR, dt, 0, 1 + is_complex, 0);
    if (node == DYN_NONE) {
        return -1;
    }
    DynNode *n = dyn_graph_node(&r->cap->graph, node);
    for (int i = 0; i <= is_complex; i++) {
        n->args[i] = (DynArg){DYN_ARG_SYM, sym[i]};
    }
    n->flags |= DYN_NODE_NPSCALAR;
    n->where = dyn_rec_place(r);
    v->kind = DV_NPSCALAR;
    v->node = node;
    return 0;
}

static int seen_container(DynRec *r, DynVal *v, PyObject *o) {
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == o) {
            DynVal *other = r->seen.at[i].v;
            if (other == v) { /* a key of it was asked for, and no more */
                return 0;
            }
            if (dyn_rec_resolve(r, other, o) < 0) {
                return -1;
            }
            uint32_t source = v->source, known = rec_found_at(other);
            bool same = known != DYN_NONE && rec_guard(r, DYN_GUARD_SAME, source, known, 0, NULL) == 0;
            return !same || rec_same_object(r, v, other) < 0 ? -1 : 1;
        }
    }
    return rec_saw(r, o, v);
}

/* A list may have been appended to before anybody looked at it: v's items are those so far, and what sources tell of comes
 * before. Items that were read from its end are the ones that were found there. */
static int resolve_sequence(DynRec *r, DynVal *v, PyObject *o) {
    bool tuple = PyTuple_Check(o);
    DynVal **appended = v->items;
    uint32_t nappended = v->n;
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o) - nappended;
    int seen = seen_container(r, v, o);
    if (seen != 0) {
        return seen < 0 ? -1 : 0;
    }
    if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0 ||
        rec_guard(r, DYN_GUARD_LEN, v->source, DYN_NONE, n, NULL) < 0 || n > 10000) {
        return -1;
    }
    v->items = DYN_NEW_N(&r->arena, DynVal *, n + nappended + 1);
    if (v->items == NULL) {
        return -1;
    }
    if (nappended > 0) {
        memcpy(v->items + n, appended, nappended * sizeof *appended);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        bool from_end = n - i <= v->ends;
        uint32_t s = dyn_source_intern(&r->cap->sources, from_end ? DYN_SRC_FROM_END : DYN_SRC_ITEM, v->source,
                                       (uint32_t)(from_end ? n - i : i), NULL, NULL);
        if (s == DYN_NONE || (v->items[i] = rec_source(r, s)) == NULL) {
            return -1;
        }
    }
    v->n = (uint32_t)n + nappended;
    v->cap = v->n + 1;
    v->kind = tuple ? DV_TUPLE : DV_LIST;
    return 0;
}

static int resolve_dict(DynRec *r, DynVal *v, PyObject *o) {
    Py_ssize_t n = PyDict_GET_SIZE(o), pos = 0;
    PyObject *key, *value;
    int seen = seen_container(r, v, o);
    if (seen != 0) {
        return seen < 0 ? -1 : 0;
    }
    PyObject *keys = n <= 1000 ? PyDict_Keys(o) : NULL;
    PyObject *tuple = keys ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    if (tuple == NULL) {
        PyErr_Clear();
        v->kind = DV_OBJECT;
        return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o));
    }
    bool plain = true;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *k = PyTuple_GET_ITEM(tuple, i);
        plain = plain && rec_plain_key(k);
    }
    int ok = rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o));
    if (ok == 0 && !plain) {
        v->kind = DV_OBJECT;
        Py_DECREF(tuple);
        return 0;
    }
    ok = ok < 0 ? ok : rec_guard(r, DYN_GUARD_KEYS, v->source, DYN_NONE, 0, tuple);
    Py_DECREF(tuple);
    v->items = DYN_NEW_N(&r->arena, DynVal *, 2 * n + 2);
    if (ok < 0 || v->items == NULL) {
        return -1;
    }
    uint32_t i = 0;
    while (PyDict_Next(o, &pos, &key, &value)) {
        uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, v->source, 0, NULL, key);
        DynVal *k = rec_object(r, key);
        DynVal *x = s == DYN_NONE ? NULL : rec_source(r, s);
        if (k == NULL || x == NULL) {
            return -1;
        }
        v->items[i++] = k;
        v->items[i++] = x;
    }
    v->n = i;
    v->cap = i + 2;
    v->kind = DV_DICT;
    return 0;
}

/* A set of plain constants, in the order in which it lists them. */
static int resolve_set(DynRec *r, DynVal *v, PyObject *o) {
    int seen = seen_container(r, v, o);
    if (seen != 0) {
        return seen < 0 ? -1 : 0;
    }
    DynVal *items = PySet_GET_SIZE(o) <= 1000 ? rec_wrap_set(r, o) : NULL;
    PyObject *tuple = items ? PySequence_Tuple(o) : NULL;
    int status = rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o));
    v->kind = DV_OBJECT;
    if (tuple != NULL && status == 0) {
        v->kind = DV_SET;
        v->items = items->items;
        v->n = items->n;
        v->cap = items->cap;
        v->type = items->type;
        status = rec_guard(r, DYN_GUARD_KEYS, v->source, DYN_NONE, 0, tuple);
    }
    Py_XDECREF(tuple);
    return status;
}

static int resolve_method(DynRec *r, DynVal *v, PyObject *o) {
    DynSources *t = &r->cap->sources;
    uint32_t func = dyn_source_intern(t, DYN_SRC_FUNC, v->source, 0, NULL, NULL);
    uint32_t self = dyn_source_intern(t, DYN_SRC_SELF, v->source, 0, NULL, NULL);
    if (func == DYN_NONE || self == DYN_NONE || rec_keep(r, o) < 0) {
        return -1;
    }
    DynVal *function = rec_source(r, func), *bound_to = rec_source(r, self);
    if (function == NULL || bound_to == NULL) {
        return -1;
    }
    v->kind = DV_METHOD;
    v->method.function = function;
    v->method.self = bound_to;
    return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)&PyMethod_Type);
}

static bool is_fixed_callable(PyObject *o) {
    bool descriptor = Py_IS_TYPE(o, &PyMethodDescr_Type) || Py_IS_TYPE(o, &PyWrapperDescr_Type);
    bool function = PyFunction_Check(o) || PyCFunction_Check(o) || Py_IS_TYPE(o, &PyUFunc_Type);
    return descriptor || function || PyType_Check(o);
}

static bool is_fixed_value(PyObject *o) {
    bool singleton = o == Py_Ellipsis || o == Py_NotImplemented, of_arrays = PyArray_DescrCheck(o) || dyn_torch_is_constant(o);
    return singleton || of_arrays || PyModule_CheckExact(o);
}

/* Objects that are what they are: the entry holds for this one alone. */
bool rec_is_fixed(PyObject *o) {
    if (is_fixed_callable(o) || is_fixed_value(o)) {
        return true;
    }
    return rec_instance_has_flag(o, REC_FIXED) || dyn_np_find(o) != NULL || rec_is_enum_member(o);
}

/* Another function of the same code may be found there at the next call: what came in, or lies in a container, a cell or an
 * instance. What a module, a class or the entry itself has is the one that it is. */
static bool may_change(DynRec *r, uint32_t source) {
    const DynSources *t = &r->cap->sources;
    const DynSource *s = &t->v.at[source];
    switch ((DynSourceKind)s->kind) {
    case DYN_SRC_LOCAL:
    case DYN_SRC_CLOSURE:
    case DYN_SRC_CELL:
    case DYN_SRC_ITEM:
    case DYN_SRC_FROM_END:
    case DYN_SRC_OWN:
    case DYN_SRC_KEY:
    case DYN_SRC_NAMED:
    case DYN_SRC_NTH_KEY:
    case DYN_SRC_NTH_VALUE:
    case DYN_SRC_FCLOSURE:
    case DYN_SRC_FDEFAULT:
    case DYN_SRC_FKWDEFAULT: return true;
    case DYN_SRC_FUNC: return t->v.at[s->base].kind != DYN_SRC_ATTR;
    case DYN_SRC_ATTR:
        return s->base < r->by_source.n && r->by_source.at[s->base] != NULL && r->by_source.at[s->base]->kind != DV_CONST;
    default: return false;
    }
}

/* ---- the rules, each of which gives 0: resolved; -1: it can't be (why is set); NEXT: not its kind of object */

enum { NEXT = 1 };

static int as_array(DynRec *r, DynVal *v, PyObject *o) { return dyn_array_is(o) ? resolve_array(r, v, o) : NEXT; }

static int as_number(DynRec *r, DynVal *v, PyObject *o) {
    return PyBool_Check(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o) ? resolve_number(r, v, o) : NEXT;
}

static int as_plain_constant(DynRec *r, DynVal *v, PyObject *o) {
    if (o != Py_None && !PyUnicode_CheckExact(o) && !PyBytes_CheckExact(o) && !dyn_torch_is_device(o)) {
        return NEXT;
    }
    return guard_equal(r, v, o);
}

static int as_sequence(DynRec *r, DynVal *v, PyObject *o) {
    return PyTuple_CheckExact(o) || PyList_CheckExact(o) ? resolve_sequence(r, v, o) : NEXT;
}

static int as_torch_size(DynRec *r, DynVal *v, PyObject *o) {
    if (!dyn_is_tuple(o)) {
        return NEXT;
    }
    v->type = (PyObject *)dyn_torch_size;
    return resolve_sequence(r, v, o);
}

static int as_named_tuple(DynRec *r, DynVal *v, PyObject *o) {
    if (!PyTuple_Check(o) || (!rec_is_named_type(Py_TYPE(o)) && !dyn_torch_is_named(Py_TYPE(o)))) {
        return NEXT;
    }
    v->type = (PyObject *)Py_TYPE(o);
    return resolve_sequence(r, v, o) < 0 ? -1 : rec_guard_whole_class(r, Py_TYPE(o));
}

static int as_dict(DynRec *r, DynVal *v, PyObject *o) { return PyDict_CheckExact(o) ? resolve_dict(r, v, o) : NEXT; }

static int as_set(DynRec *r, DynVal *v, PyObject *o) { return PyAnySet_CheckExact(o) ? resolve_set(r, v, o) : NEXT; }

static int as_method(DynRec *r, DynVal *v, PyObject *o) { return PyMethod_Check(o) ? resolve_method(r, v, o) : NEXT; }

static int as_function_that_may_change(DynRec *r, DynVal *v, PyObject *o) {
    if (!PyFunction_Check(o) || !may_change(r, v->source) || dyn_np_find(o) != NULL) {
        return NEXT;
    }
    v->kind = DV_PYFUNC;
    return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)&PyFunction_Type);
}

static int as_builtin_method_that_may_change(DynRec *r, DynVal *v, PyObject *o) {
    PyObject *descr = may_change(r, v->source) ? rec_method_descriptor(o) : NULL;
    return descr != NULL ? rec_resolve_builtin_method(r, v, o, descr) : NEXT;
}

static int as_fixed(DynRec *r, DynVal *v, PyObject *o) { return rec_is_fixed(o) ? rec_guard_id(r, v, o) : NEXT; }

static int as_numpy_scalar(DynRec *r, DynVal *v, PyObject *o) {
    return PyArray_CheckScalar(o) && rec_resolve_npscalar(r, v, o) == 0 ? 0 : NEXT;
}

static int as_partial(DynRec *r, DynVal *v, PyObject *o) { return rec_is_partial(o) ? rec_resolve_partial(r, v, o) : NEXT; }

static int as_one_seen_before(DynRec *r, DynVal *v, PyObject *o) {
    int seen = seen_container(r, v, o);
    if (seen < 0) {
        return -1;
    }
    return seen > 0 ? 0 : NEXT;
}

static int as_collection(DynRec *r, DynVal *v, PyObject *o) {
    return rec_is_collection(o) ? rec_resolve_collection(r, v, o) : NEXT;
}

static int as_object(DynRec *r, DynVal *v, PyObject *o) {
    v->kind = DV_OBJECT;
    v->module = rec_torch_is_module(o);
    return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o));
}

/* In the order in which they are asked: the last takes any object. */
static int (*const rules[])(DynRec *r, DynVal *v, PyObject *o) = {
    as_array,
    as_number,
    as_plain_constant,
    as_sequence,
    as_torch_size,
    as_named_tuple,
    as_dict,
    as_set,
    as_method,
    as_function_that_may_change,
    as_builtin_method_that_may_change,
    as_fixed,
    as_numpy_scalar,
    as_partial,
    as_one_seen_before,
    as_collection,
    as_object,
};

int dyn_rec_resolve(DynRec *r, DynVal *v, PyObject *o) {
    if (v->kind != DV_SOURCE) {
        return rec_pin_keys(r, v);
    }
    int status = NEXT;
    for (uint32_t i = 0; status == NEXT && i < DYN_COUNTOF(rules); i++) {
        status = rules[i](r, v, o);
    }
    return status;
}

DynVal *dyn_rec_constant_array(DynRec *r, PyObject *array) {
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, array, NULL);
    DynVal *v = s == DYN_NONE ? rec_fail(r, DYN_R_NO_MEMORY, NULL) : rec_source(r, s);
    return v == NULL || dyn_rec_resolve(r, v, array) < 0 ? NULL : v;
}

uint32_t dyn_rec_number(DynRec *r, DynVal *v, PyObject *real) {
    if (dyn_rec_resolve(r, v, real) < 0) {
        return DYN_NONE;
    }
    return v->kind == DV_SYM ? rec_sym_of(v) : DYN_NONE;
}
