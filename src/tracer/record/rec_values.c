/* rec_values.c: shadows: making them, looking at sources (guards on what is read and no more), burning values in.
 *
 * Called by every handler and by the NumPy rules. Shadows live in the recording's arena; real objects that shadows name are kept
 * alive until the segment ends. */
#include "base/torch.h"
#include "ir/extern.h"
#include "tracer/record/rec_state.h"

#define MAX_DEPTH 100 /* of containers in containers */

DynReason *dyn_rec_why(DynRec *r) { return &r->why; }
DynCapture *dyn_rec_capture(DynRec *r) { return r->cap; }
bool dyn_rec_whole(DynRec *r) { return r->req->whole; }
bool dyn_rec_own_random(const DynRec *r) { return r->req->own_random; }

void dyn_rec_forget_nodes(DynRec *r, uint32_t first) {
    for (uint32_t i = first; i < r->by_node.n; i++) {
        r->by_node.at[i] = NULL;
    }
}

DynVal *rec_fail(DynRec *r, DynReason why, const char *detail) {
    r->why = why;
    r->detail = detail;
    return NULL;
}

DynVal *rec_new(DynRec *r, DynValKind kind) {
    DynVal *v = DYN_NEW(&r->arena, DynVal);
    if (v == NULL) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    v->kind = (uint8_t)kind;
    v->source = DYN_NONE;
    v->id = DYN_NONE;
    v->recipe = DYN_NONE;
    v->born = r->nvals++;
    return v;
}

void rec_changed(DynRec *r, const DynVal *v) {
    bool outlives = !v->fresh && (v->source != DYN_NONE || v->kind == DV_CELL);
    r->mutations++;
    for (DynVal *t = v->twin; t != NULL && t != v; t = t->twin) {
        t->items = v->items;
        t->n = v->n;
        t->cap = v->cap;
        t->state = v->state;
    }
    if (!outlives) { /* such an object is found as it is, when recording goes on behind a break */
        rec_note_change(r, v);
    }
}

int rec_keep(DynRec *r, PyObject *o) {
    if (dyn_vec_push(&r->keep, o) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    Py_INCREF(o);
    return 0;
}

PyObject *dyn_rec_globals(DynRec *r) { return Py_XNewRef(dyn_frame_globals(r->top->f)); }

uint32_t dyn_rec_place(DynRec *r) {
    DynGraph *g = &r->cap->graph;
    RecFrame *f = r->top;
    if (f->place_of == r->cap && f->place_pc == f->pc) {
        return f->place;
    }
    DynPlace p = {.code = (PyObject *)f->code->code};
    if (dyn_cpy_position_on(f->code->code, &f->code->positions, f->code->v.at[f->pc].at, &p.line, &p.end_line, &p.col,
                            &p.end_col) < 0) {
        p.line = f->code->code->co_firstlineno;
    }
    if (dyn_vec_push(&g->places, p) < 0) {
        return 0;
    }
    Py_INCREF(p.code);
    f->place_of = r->cap;
    f->place_pc = f->pc;
    f->place = g->places.n - 1;
    return f->place;
}

/* ---- making shadows */

DynVal *dyn_rec_sym(DynRec *r, uint32_t sym) {
    if (sym == DYN_NONE) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "integer beyond 64 bits, or an operation that fails");
    }
    DynVal *v = rec_new(r, DV_SYM);
    if (v != NULL) {
        v->id = sym;
    }
    return v;
}

static uint32_t constant_sym(DynRec *r, PyObject *o) {
    DynSyms *t = &r->cap->syms;
    if (PyBool_Check(o)) {
        return dyn_sym_bool(t, o == Py_True);
    }
    if (PyFloat_CheckExact(o)) {
        return dyn_sym_float(t, PyFloat_AS_DOUBLE(o));
    }
    if (PyLong_CheckExact(o)) {
        int overflow;
        long long n = PyLong_AsLongLongAndOverflow(o, &overflow);
        return overflow ? DYN_NONE : dyn_sym_int(t, n);
    }
    return DYN_NONE;
}

DynVal *dyn_rec_const(DynRec *r, PyObject *obj) {
    uint32_t s = constant_sym(r, obj);
    return s != DYN_NONE ? dyn_rec_sym(r, s) : rec_object(r, obj);
}

/* How members of an enum are hashed and compared, their class says. */
static int guard_key_class(DynRec *r, PyObject *key) {
    int status = rec_is_enum_member(key) ? rec_guard_class(r, Py_TYPE(key)) : 0;
    for (Py_ssize_t i = 0; PyTuple_CheckExact(key) && status == 0 && i < PyTuple_GET_SIZE(key); i++) {
        status = guard_key_class(r, PyTuple_GET_ITEM(key, i));
    }
    return status;
}

DynVal *rec_object(DynRec *r, PyObject *obj) {
    DynVal *v = rec_new(r, DV_CONST);
    if (v == NULL || rec_keep(r, obj) < 0 || guard_key_class(r, obj) < 0) {
        return NULL;
    }
    v->obj = obj;
    return v;
}

DynVal *dyn_rec_array(DynRec *r, uint32_t node, PyObject *real) {
    (void)real;
    if (node == DYN_NONE) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    while (r->by_node.n <= node) {
        if (dyn_vec_push(&r->by_node, NULL) < 0) {
            return rec_fail(r, DYN_R_NO_MEMORY, NULL);
        }
    }
    if (r->by_node.at[node] != NULL) {
        return r->by_node.at[node];
    }
    DynVal *v = rec_new(r, DV_ARRAY);
    if (v != NULL) {
        v->id = node;
        r->by_node.at[node] = v;
    }
    return v;
}

DynVal *dyn_rec_npscalar(DynRec *r, uint32_t node, PyObject *real) {
    (void)real;
    if (node == DYN_NONE) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    DynVal *v = rec_new(r, DV_NPSCALAR);
    if (v != NULL) {
        v->id = node;
        dyn_graph_node(&r->cap->graph, node)->flags |= DYN_NODE_NPSCALAR;
    }
    return v;
}

DynVal *dyn_rec_made(DynRec *r, uint32_t node) {
    DynVal *v = rec_new(r, DV_MADE);
    if (v != NULL) {
        v->id = node;
    }
    return v;
}

DynVal *dyn_rec_seq(DynRec *r, DynValKind kind, uint32_t n, DynVal **items, PyObject *real) {
    DynVal *v = rec_new(r, kind);
    if (v == NULL || (v->items = DYN_NEW_N(&r->arena, DynVal *, n + 1)) == NULL) {
        return NULL;
    }
    if (n > 0) {
        memcpy(v->items, items, n * sizeof *items);
    }
    v->n = n;
    v->cap = n + 1;
    v->fresh = true;
    v->type = kind == DV_TUPLE && real != NULL && dyn_torch_size != NULL && Py_IS_TYPE(real, dyn_torch_size)
                  ? (PyObject *)dyn_torch_size
                  : NULL;
    return v;
}

int rec_push_item(DynRec *r, DynVal *seq, DynVal *item) {
    if (seq->n == seq->cap || seq->items == NULL) {
        uint32_t cap = seq->cap * 2 + 4;
        DynVal **items = DYN_NEW_N(&r->arena, DynVal *, cap);
        if (items == NULL) {
            r->why = DYN_R_NO_MEMORY;
            return -1;
        }
        if (seq->n > 0) {
            memcpy(items, seq->items, seq->n * sizeof *items);
        }
        seq->items = items;
        seq->cap = cap;
    }
    seq->items[seq->n++] = item;
    seq->state++;
    rec_changed(r, seq);
    return 0;
}

DynVal *rec_source(DynRec *r, uint32_t source) {
    while (r->by_source.n <= source) {
        if (dyn_vec_push(&r->by_source, NULL) < 0) {
            return rec_fail(r, DYN_R_NO_MEMORY, NULL);
        }
    }
    if (r->by_source.at[source] == NULL) {
        DynVal *v = rec_new(r, DV_SOURCE);
        if (v == NULL) {
            return NULL;
        }
        v->source = source;
        r->by_source.at[source] = v;
    }
    return r->by_source.at[source];
}

DynVal *rec_source_dict(DynRec *r, PyObject *dict, PyObject *key) {
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_DICT, DYN_NONE, 0, dict, key);
    return s == DYN_NONE ? rec_fail(r, DYN_R_NO_MEMORY, NULL) : rec_source(r, s);
}

/* ---- guards */

int rec_guard(DynRec *r, DynGuardKind kind, uint32_t source, uint32_t source2, int64_t number, PyObject *obj) {
    DynGuard g = {.kind = (uint8_t)kind,
                  .source = source,
                  .source2 = source2,
                  .number = number,
                  .obj = obj,
                  .lasting = r->lasting,
                  .place = dyn_rec_place(r)};
    if (dyn_capture_guard(r->cap, &g) < 0) {
        r->why = r->cap->guards.n < DYN_MAX_GUARDS ? DYN_R_NO_MEMORY : DYN_R_BUDGET;
        return -1;
    }
    return 0;
}

int dyn_rec_expect(DynRec *r, uint32_t sym) {
    DynSyms *t = &r->cap->syms;
    if (sym == DYN_NONE) {
        r->why = DYN_R_UNSUPPORTED_VALUE;
        return -1;
    }
    if (dyn_sym_at(t, sym)->type != DYN_T_BOOL) {
        sym = dyn_sym_op(t, DYN_S_BOOL, sym, DYN_NONE, DYN_NONE);
    }
    if (sym != DYN_NONE && !dyn_sym_at(t, sym)->hint.i) {
        sym = dyn_sym_op(t, DYN_S_NOT, sym, DYN_NONE, DYN_NONE);
    }
    if (sym == DYN_NONE) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    if (dyn_sym_is_const(t, sym)) {
        return 0;
    }
    if (!dyn_sym_is_late(t, sym)) {
        return rec_guard(r, DYN_GUARD_SYM, sym, DYN_NONE, 0, NULL);
    }
    DynGraph *g = &r->cap->graph;
    uint32_t call = dyn_sym_at(t, sym)->after - 1;
    if (g->externs.at[dyn_graph_node(g, call)->extern_index].once) { /* it can't be made again */
        r->why = DYN_R_DATA_DEPENDENT;
        return -1;
    }
    r->why = DYN_R_NO_MEMORY;
    return dyn_vec_push(&g->checks, sym);
}

int dyn_rec_assume(DynRec *r, uint32_t sym) {
    if (sym != DYN_NONE && dyn_sym_is_late(&r->cap->syms, sym)) {
        r->why = DYN_R_DATA_DEPENDENT;
        return -1;
    }
    return dyn_rec_expect(r, sym);
}

int dyn_rec_assume_equal(DynRec *r, uint32_t a, uint32_t b) {
    if (a == b) {
        return 0;
    }
    r->lasting = true; /* joined symbols stay joined */
    int status = dyn_rec_expect(r, dyn_sym_op(&r->cap->syms, DYN_S_EQ, a, b, DYN_NONE));
    r->lasting = false;
    return status < 0 ? -1 : dyn_sym_join(&r->cap->syms, a, b);
}

static void become_const(DynVal *v, PyObject *real) {
    v->kind = DV_CONST;
    v->obj = real;
}

int rec_guard_id(DynRec *r, DynVal *v, PyObject *real) {
    if (v->kind == DV_CONST) {
        return 0;
    }
    if (v->source == DYN_NONE || (v->kind != DV_SOURCE && v->kind != DV_OBJECT && v->kind != DV_PYFUNC)) {
        r->why = DYN_R_UNSUPPORTED_VALUE;
        return -1;
    }
    if (rec_guard(r, DYN_GUARD_ID, v->source, DYN_NONE, 0, real) < 0 || rec_keep(r, real) < 0) {
        return -1;
    }
    become_const(v, real);
    return 0;
}

/* ---- looking at a source */

/* Input `node` and input `other`, one of which is written, have to lie apart. */
int rec_lie_apart(DynRec *r, uint32_t node, uint32_t other) {
    DynGraph *g = &r->cap->graph;
    if (node == other) {
        return 0;
    }
    if (dyn_extern_overlap(r->by_node.at[node]->obj, r->by_node.at[other]->obj)) {
        r->why = DYN_R_ALIASING;
        return -1;
    }
    return rec_guard(r, DYN_GUARD_DISJOINT, dyn_graph_node(g, node)->source, dyn_graph_node(g, other)->source, 0, NULL);
}

/* torch's state is as it was when the segment began: rec_torch_state.c. */
static bool may_capture(DynRec *r, PyObject *a, const DynArrayView *view) {
    return view->aligned && (!dyn_torch_is(a) || rec_torch_allows(r, a));
}

/* Its sizes as symbols, of the node too. */
static int size_symbols(DynRec *r, uint32_t source, uint32_t node, const DynArrayView *view, uint8_t layout) {
    for (int d = 0; d < view->ndim; d++) {
        int64_t size = view->dims[d];
        uint32_t s = dyn_sym_dim(&r->cap->syms, source, d, size);
        if (s == DYN_NONE) {
            r->why = DYN_R_NO_MEMORY;
            return -1;
        }
        if (size <= 1 || !r->req->dynamic || layout != DYN_LAYOUT_C) {
            /* sizes 0 and 1 mean something else (broadcasting, emptiness): they are the entry's */
            uint32_t c = dyn_sym_int(&r->cap->syms, size <= 1 || !r->req->dynamic ? size : 1);
            uint32_t rel = c == DYN_NONE
                               ? DYN_NONE
                               : dyn_sym_op(&r->cap->syms, size <= 1 || !r->req->dynamic ? DYN_S_EQ : DYN_S_GT, s, c, DYN_NONE);
            r->lasting = true;
            int status = dyn_rec_assume(r, rel);
            r->lasting = false;
            if (status < 0) {
                return -1;
            }
            s = size <= 1 || !r->req->dynamic ? c : s;
        }
        dyn_graph_node(&r->cap->graph, node)->shape[d] = s;
    }
    return 0;
}

static int resolve_array(DynRec *r, DynVal *v, PyObject *a) {
    DynArrayView view;
    if (!dyn_array_view(a, &view) || !may_capture(r, a, &view)) {
        v->kind = DV_OBJECT; /* an operation on it is a break */
        return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(a));
    }
    bool tensor = dyn_torch_is(a);
    DynDtype dt = (DynDtype)view.dtype;
    int ndim = view.ndim;
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == a) { /* the same array met on another way: one node, and a guard that it stays so */
            DynVal *other = r->seen.at[i].v;
            v->kind = other->kind;
            v->id = other->id;
            return rec_guard(r, DYN_GUARD_SAME, v->source, other->source, 0, NULL);
        }
    }
    uint32_t node = dyn_graph_add(&r->cap->graph, DYN_OP_INPUT, dt, ndim, 0, 0);
    if (node == DYN_NONE || rec_keep(r, a) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    DynGuard g = {.kind = tensor ? DYN_GUARD_TENSOR : DYN_GUARD_ARRAY,
                  .source = v->source,
                  .source2 = DYN_NONE,
                  .number = dt | ndim << 8 | (tensor && dyn_torch_requires_grad(a) ? DYN_TENSOR_GRAD : 0),
                  .obj = tensor ? (PyObject *)Py_TYPE(a) : NULL,
                  .place = dyn_rec_place(r)};
    dyn_layout_of(&view, &g.layout);
    if ((tensor && rec_torch_guard(r) < 0) || dyn_capture_guard(r->cap, &g) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    if (size_symbols(r, v->source, node, &view, g.layout.kind) < 0) {
        return -1;
    }
    DynNode *n = dyn_graph_node(&r->cap->graph, node);
    n->layout = g.layout;
    n->flags |= tensor ? DYN_NODE_TENSOR : 0;
    n->source = v->source;
    n->where = dyn_rec_place(r);
    n->line = r->cap->graph.places.n ? r->cap->graph.places.at[n->where].line : 0;
    v->kind = DV_ARRAY;
    v->id = node;
    v->obj = a;
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
    return 0;
}

static int resolve_number(DynRec *r, DynVal *v, PyObject *o) {
    DynScalar hint = {0};
    DynSymType type;
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
        if (rec_guard(r, DYN_GUARD_EQ, v->source, DYN_NONE, 0, o) < 0 || rec_keep(r, o) < 0) {
            return -1;
        }
        become_const(v, o);
        return 0;
    }
    if (!r->req->dynamic) {
        if (rec_guard(r, DYN_GUARD_EQ, v->source, DYN_NONE, 0, o) < 0) {
            return -1;
        }
        v->id = constant_sym(r, o);
    } else {
        if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0) {
            return -1;
        }
        v->id = dyn_sym_var(&r->cap->syms, type, v->source, hint);
    }
    if (v->id == DYN_NONE) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    v->kind = DV_SYM;
    return 0;
}

/* A number in the scalar at a source, read as `how` says. */
static uint32_t scalar_sym(DynRec *r, uint32_t source, PyObject *o, int how) {
    bool whole = how < DYN_DTYPE_COUNT && dyn_dtypes[how].kind != 'f';
    DynScalar hint;
    dyn_npscalar_value(o, how, &hint);
    uint32_t sym = dyn_sym_var(&r->cap->syms, how == DYN_BOOL ? DYN_T_BOOL : whole ? DYN_T_INT : DYN_T_FLOAT, source, hint);
    if (sym != DYN_NONE) {
        r->cap->syms.v.at[sym].index = (uint16_t)(1 + how); /* how the guards read it */
    }
    return sym;
}

int dyn_rec_complex(DynRec *r, DynVal *v, PyObject *real, uint32_t *parts) {
    bool constant = v->kind == DV_CONST, input = v->kind == DV_OBJECT && v->source != DYN_NONE && r->req->dynamic;
    if (v->kind == DV_COMPLEX) {
        parts[0] = v->items[0]->id;
        parts[1] = v->items[1]->id;
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
    if (dt == DYN_NO_DTYPE || !dyn_npscalar_is(o, dt) || !r->req->dynamic) {
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
    v->id = node;
    return 0;
}

static int seen_container(DynRec *r, DynVal *v, PyObject *o) {
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == o) {
            DynVal *other = r->seen.at[i].v;
            if (other == v) { /* a key of it was asked for, and no more */
                v->obj = o;
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
    v->obj = o;
    return rec_saw(r, o, v);
}

/* A list may have been appended to before anybody looked at it: v's items are those so far, and what sources tell of comes
 * before. */
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
        uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_ITEM, v->source, (uint32_t)i, NULL, NULL);
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
    PyObject *keys = n <= 1000 ? PyDict_Keys(o) : NULL, *tuple = keys ? PyList_AsTuple(keys) : NULL;
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
    v->items = DYN_NEW_N(&r->arena, DynVal *, 2);
    if (func == DYN_NONE || self == DYN_NONE || v->items == NULL || (v->items[0] = rec_source(r, func)) == NULL ||
        (v->items[1] = rec_source(r, self)) == NULL || rec_keep(r, o) < 0) {
        return -1;
    }
    v->kind = DV_METHOD;
    v->obj = o;
    v->n = 2;
    return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)&PyMethod_Type);
}

/* Objects that are what they are: the entry holds for this one alone. */
bool rec_is_fixed(PyObject *o) {
    return PyFunction_Check(o) || PyCFunction_Check(o) || PyType_Check(o) || PyModule_CheckExact(o) || o == Py_Ellipsis ||
           o == Py_NotImplemented || PyArray_DescrCheck(o) || Py_TYPE(o) == &PyUFunc_Type || Py_TYPE(o) == &PyMethodDescr_Type ||
           Py_TYPE(o) == &PyWrapperDescr_Type || strcmp(Py_TYPE(o)->tp_name, "numpy._ArrayFunctionDispatcher") == 0 ||
           dyn_np_find(o) != NULL || rec_torch_is_constant(o) || rec_is_enum_member(o) ||
           strcmp(Py_TYPE(o)->tp_name, "dynoc.OptimizedFunction") == 0 ||
           strcmp(Py_TYPE(o)->tp_name, "dynoc._dynoc.OptimizedFunction") == 0;
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

int dyn_rec_resolve(DynRec *r, DynVal *v, PyObject *o) {
    if (v->kind != DV_SOURCE) {
        return rec_pin_keys(r, v);
    }
    if (dyn_array_is(o)) {
        return resolve_array(r, v, o);
    }
    if (PyBool_Check(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o)) {
        return resolve_number(r, v, o);
    }
    if (o == Py_None || PyUnicode_CheckExact(o) || PyBytes_CheckExact(o)) {
        if (rec_guard(r, DYN_GUARD_EQ, v->source, DYN_NONE, 0, o) < 0 || rec_keep(r, o) < 0) {
            return -1;
        }
        become_const(v, o);
        return 0;
    }
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
        return resolve_sequence(r, v, o);
    }
    if (dyn_is_tuple(o)) {
        v->type = (PyObject *)dyn_torch_size;
        return resolve_sequence(r, v, o);
    }
    if (PyTuple_Check(o) && (rec_is_named_type(Py_TYPE(o)) || dyn_torch_is_named(Py_TYPE(o)))) {
        v->type = (PyObject *)Py_TYPE(o);
        return resolve_sequence(r, v, o) < 0 ? -1 : rec_guard_class(r, Py_TYPE(o));
    }
    if (PyDict_CheckExact(o)) {
        return resolve_dict(r, v, o);
    }
    if (PyAnySet_CheckExact(o)) {
        return resolve_set(r, v, o);
    }
    if (PyMethod_Check(o)) {
        return resolve_method(r, v, o);
    }
    if (PyFunction_Check(o) && may_change(r, v->source) && dyn_np_find(o) == NULL) {
        v->kind = DV_PYFUNC;
        return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)&PyFunction_Type);
    }
    PyObject *descr = may_change(r, v->source) ? rec_method_descriptor(o) : NULL;
    if (descr != NULL) {
        return rec_resolve_builtin_method(r, v, o, descr);
    }
    if (rec_is_fixed(o)) {
        return rec_guard_id(r, v, o);
    }
    if (PyArray_CheckScalar(o) && rec_resolve_npscalar(r, v, o) == 0) {
        return 0;
    }
    if (rec_is_partial(o)) {
        return rec_resolve_partial(r, v, o);
    }
    int seen = seen_container(r, v, o);
    if (seen != 0) {
        return seen < 0 ? -1 : 0;
    }
    if (rec_is_collection(o)) {
        return rec_resolve_collection(r, v, o);
    }
    v->kind = DV_OBJECT;
    v->module = rec_torch_is_module(o);
    r->network = r->network || v->module;
    return rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o));
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
    return v->kind == DV_SYM ? v->id : DYN_NONE;
}

static int burn_sym(DynRec *r, uint32_t sym) {
    DynSyms *t = &r->cap->syms;
    const DynSym *s = dyn_sym_at(t, sym);
    if (dyn_sym_is_const(t, sym)) {
        return 0;
    }
    if (s->type == DYN_T_BOOL) {
        return dyn_rec_assume(r, sym);
    }
    DynScalar hint = s->hint;
    bool f = s->type == DYN_T_FLOAT;
    uint32_t c = f ? dyn_sym_float(t, hint.f) : dyn_sym_int(t, hint.i);
    return c == DYN_NONE ? -1 : dyn_rec_assume(r, dyn_sym_op(t, f ? DYN_S_SAME_BITS : DYN_S_EQ, sym, c, DYN_NONE));
}

static int burn(DynRec *r, DynVal *v, PyObject *real) {
    switch (v->kind) {
    case DV_NULL: return 0;
    case DV_CONST: return guard_key_class(r, v->obj);
    case DV_SYM: return burn_sym(r, v->id);
    case DV_NPSCALAR: return rec_burn_node(r, v->id);
    case DV_OBJECT: return rec_is_fixed(real) ? rec_guard_id(r, v, real) : (r->why = DYN_R_UNSUPPORTED_VALUE, -1);
    case DV_TUPLE:
    case DV_LIST:
        for (uint32_t i = 0; i < v->n; i++) {
            if (i >= PySequence_Fast_GET_SIZE(real) || dyn_rec_burn(r, v->items[i], PySequence_Fast_GET_ITEM(real, i)) < 0) {
                return -1;
            }
        }
        return 0;
    case DV_PYFUNC: return rec_guard_id(r, v, real);
    case DV_VIEW:
    case DV_DEQUE: return rec_burn_listed(r, v, real);
    case DV_SET: return 0; /* of constants */
    case DV_RANGE:
        for (uint32_t i = 0; i < 3; i++) {
            if (dyn_rec_burn(r, v->items[i], Py_None) < 0) {
                return -1;
            }
        }
        return 0;
    case DV_DICT:
        for (uint32_t i = 0; i + 1 < v->n; i += 2) {
            PyObject *value = PyDict_GetItemWithError(real, v->items[i]->obj);
            if (value == NULL || dyn_rec_burn(r, v->items[i + 1], value) < 0) {
                PyErr_Clear();
                return -1;
            }
        }
        return 0;
    case DV_SLICE: {
        PySliceObject *s = (PySliceObject *)real;
        return dyn_rec_burn(r, v->items[0], s->start) < 0 || dyn_rec_burn(r, v->items[1], s->stop) < 0 ||
                       dyn_rec_burn(r, v->items[2], s->step) < 0
                   ? -1
                   : 0;
    }
    default: r->why = DYN_R_UNSUPPORTED_VALUE; return -1;
    }
}

int dyn_rec_burn(DynRec *r, DynVal *v, PyObject *real) {
    if (dyn_rec_resolve(r, v, real) < 0) {
        return -1;
    }
    int status = r->nesting < MAX_DEPTH ? 0 : -1; /* it may contain itself */
    r->nesting++;
    status = status < 0 ? status : burn(r, v, real);
    r->nesting--;
    return status;
}

bool rec_is_array(DynVal *v) { return v->kind == DV_ARRAY || v->kind == DV_NPSCALAR; }

bool rec_is_constant(DynVal *v) {
    switch (v->kind) {
    case DV_NULL:
    case DV_CONST: return true;
    case DV_TUPLE:
    case DV_SLICE:
        for (uint32_t i = 0; i < v->n; i++) {
            if (!rec_is_constant(v->items[i])) {
                return false;
            }
        }
        return v->source == DYN_NONE || v->n == 0 || v->kind == DV_TUPLE;
    default: return false;
    }
}

/* Python's equality of such keys runs no code of the user's, and equal ones have equal hashes. */
bool rec_plain_key(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        bool plain = true;
        for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(o); i++) {
            plain = rec_plain_key(PyTuple_GET_ITEM(o, i));
        }
        return plain;
    }
    return o == Py_None || PyUnicode_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) ||
           PyBytes_CheckExact(o) || (PyType_Check(o) && Py_IS_TYPE(o, &PyType_Type)) || PyFunction_Check(o) || rec_is_enum_key(o);
}

static bool same_key(PyObject *a, PyObject *b) {
    if (a == b || a == NULL || b == NULL) {
        return a == b;
    }
    int same = rec_plain_key(a) && rec_plain_key(b) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    if (same < 0) {
        PyErr_Clear();
    }
    return same == 1;
}

DynVal *rec_dict_find(DynVal *dict, PyObject *key, uint32_t *position) {
    for (uint32_t i = 0; i + 1 < dict->n; i += 2) {
        if (same_key(dict->items[i]->obj, key)) {
            if (position != NULL) {
                *position = i;
            }
            return dict->items[i + 1];
        }
    }
    return NULL;
}

void rec_dict_drop(DynVal *dict, uint32_t at) {
    memmove(dict->items + at, dict->items + at + 2, (dict->n - at - 2) * sizeof *dict->items);
    dict->n -= 2;
    dict->state++;
}

DynVal *rec_wrap_result(DynRec *r, PyObject *o) {
    if (o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o) ||
        PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || rec_is_fixed(o) || rec_is_fact(o) || PyArray_CheckScalar(o)) {
        return dyn_rec_const(r, o);
    }
    if (PyRange_Check(o) || PySlice_Check(o)) {
        static const char *const parts[] = {"start", "stop", "step"};
        DynVal *items[3] = {NULL};
        for (int i = 0; i < 3; i++) {
            PyObject *part = PyObject_GetAttrString(o, parts[i]);
            items[i] = part ? rec_wrap_result(r, part) : NULL;
            Py_XDECREF(part);
            if (items[i] == NULL || (PyRange_Check(o) && items[i]->kind != DV_SYM)) {
                PyErr_Clear();
                return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
            }
        }
        return dyn_rec_seq(r, PyRange_Check(o) ? DV_RANGE : DV_SLICE, 3, items, o);
    }
    if (PyTuple_CheckExact(o)) {
        DynVal *items[16];
        Py_ssize_t n = PyTuple_GET_SIZE(o);
        if (n <= (Py_ssize_t)DYN_COUNTOF(items)) {
            for (Py_ssize_t i = 0; i < n; i++) {
                if ((items[i] = rec_wrap_result(r, PyTuple_GET_ITEM(o, i))) == NULL) {
                    return NULL;
                }
            }
            return dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, items, o);
        }
    }
    return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
}

static DynVal *wrap_dict(DynRec *r, PyObject *o) {
    DynVal *v = dyn_rec_seq(r, DV_DICT, 0, NULL, o);
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (v != NULL && PyDict_Next(o, &pos, &key, &value)) {
        DynVal *k = rec_plain_key(key) ? rec_object(r, key) : NULL, *x = k ? rec_wrap_fresh(r, value) : NULL;
        v = x != NULL && rec_push_item(r, v, k) == 0 && rec_push_item(r, v, x) == 0 ? v : NULL;
    }
    return v;
}

/* What a builtin made of constants: containers are new ones at each call. */
DynVal *rec_wrap_fresh(DynRec *r, PyObject *o) {
    DynVal *v;
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) {
        return PyDict_CheckExact(o) ? wrap_dict(r, o) : PyAnySet_CheckExact(o) ? rec_wrap_set(r, o) : rec_wrap_result(r, o);
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    v = r->nesting < MAX_DEPTH && n <= 4096 ? dyn_rec_seq(r, PyList_CheckExact(o) ? DV_LIST : DV_TUPLE, 0, NULL, o) : NULL;
    r->nesting++;
    for (Py_ssize_t i = 0; v != NULL && i < n; i++) {
        DynVal *x = rec_wrap_fresh(r, PySequence_Fast_GET_ITEM(o, i));
        v = x != NULL && rec_push_item(r, v, x) == 0 ? v : NULL;
    }
    r->nesting--;
    return v != NULL ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
}
