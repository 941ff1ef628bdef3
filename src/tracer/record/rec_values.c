/* rec_values.c: makes shadows and guards, and what handlers need of the items of containers. What each kind of shadow does is
 * shadow.def; objects that come in get their kind in rec_resolve.c.
 *
 * Called by every handler and by the rules of NumPy and PyTorch. Shadows live in the recording's arena; real objects that shadows
 * name are kept alive until the segment ends. */
#include "base/torch.h"
#include "ir/extern.h"
#include "tracer/record/rec_state.h"

DynReason *dyn_rec_why(DynRec *r) { return &r->why; }
DynCapture *dyn_rec_capture(DynRec *r) { return r->cap; }
bool dyn_rec_whole(DynRec *r) { return r->req->whole; }
bool dyn_rec_own_random(const DynRec *r) { return r->req->own_random; }
bool dyn_rec_own_products(const DynRec *r) { return r->req->own_products && !r->req->whole; }

void dyn_rec_truncate(DynRec *r, uint32_t first) {
    dyn_graph_truncate(dyn_rec_graph(r), first);
    for (uint32_t i = first; i < r->by_node.n; i++) {
        r->by_node.at[i] = NULL;
    }
}

DynVal *rec_fail(DynRec *r, DynReason why, const char *detail) {
    r->why = why;
    r->detail = detail;
    return NULL;
}

DynVal *rec_known_or(DynRec *r, DynVal *v, const PyObject *result, DynReason why, const char *detail) {
    return v != NULL || result == NULL ? v : rec_fail(r, why, detail);
}

DynVal *rec_new(DynRec *r, DynValKind kind) {
    DynVal *v = DYN_NEW(&r->arena, DynVal);
    if (v == NULL) {
        return rec_fail(r, DYN_R_NO_MEMORY, NULL);
    }
    v->kind = (uint8_t)kind;
    v->source = DYN_NONE;
    v->recipe = DYN_NONE;
    v->born = r->nvals++;
    return v;
}

DynVal *rec_new_fresh(DynRec *r, DynValKind kind) {
    DynVal *v = rec_new(r, kind);
    if (v != NULL) {
        v->fresh = true;
    }
    return v;
}

void rec_changed(DynRec *r, const DynVal *v) {
    bool outlives = !v->fresh && (v->source != DYN_NONE || v->kind == DV_CELL);
    r->mutations++;
    for (DynVal *t = v->twin; t != NULL && t != v; t = t->twin) {
        t->state = v->state;
        t->whole = t->kind == v->kind ? v->whole : t->whole;
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

uint32_t dyn_rec_place(DynRec *r) {
    DynGraph *g = &r->cap->graph;
    RecFrame *f = r->top;
    if (f->place_of == r->cap && f->place_pc == f->pc) {
        return f->place;
    }
    DynPlace p = {.code = (PyObject *)f->code->code, .globals = dyn_frame_globals(f->f)};
    if (dyn_cpy_position_on(f->code->code, &f->code->positions, f->code->v.at[f->pc].at, &p.line, &p.end_line, &p.col,
                            &p.end_col) < 0) {
        p.line = f->code->code->co_firstlineno;
    }
    if (dyn_vec_push(&g->places, p) < 0) {
        return 0;
    }
    Py_INCREF(p.code);
    Py_XINCREF(p.globals);
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
        v->sym = sym;
    }
    return v;
}

uint32_t rec_constant_sym(DynRec *r, PyObject *o) {
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
    uint32_t s = rec_constant_sym(r, obj);
    return s != DYN_NONE ? dyn_rec_sym(r, s) : rec_object(r, obj);
}

/* How members of an enum are hashed and compared, their class says. */
int rec_guard_key_class(DynRec *r, PyObject *key) {
    int status = rec_is_enum_member(key) ? rec_guard_class(r, Py_TYPE(key), NULL) : 0;
    for (Py_ssize_t i = 0; PyTuple_CheckExact(key) && status == 0 && i < PyTuple_GET_SIZE(key); i++) {
        status = rec_guard_key_class(r, PyTuple_GET_ITEM(key, i));
    }
    return status;
}

DynVal *rec_object(DynRec *r, PyObject *obj) {
    DynVal *v = rec_new(r, DV_CONST);
    if (v == NULL || rec_keep(r, obj) < 0 || rec_guard_key_class(r, obj) < 0) {
        return NULL;
    }
    v->constant = obj;
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
        v->node = node;
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
        v->node = node;
        dyn_graph_node(&r->cap->graph, node)->flags |= DYN_NODE_NPSCALAR;
    }
    return v;
}

DynVal *dyn_rec_made(DynRec *r, uint32_t node) {
    DynVal *v = rec_new(r, DV_MADE);
    if (v != NULL) {
        v->node = node;
    }
    return v;
}

DynVal *rec_new_method(DynRec *r, DynVal *function, DynVal *self) {
    DynVal *v = function != NULL && self != NULL ? rec_new_fresh(r, DV_METHOD) : NULL;
    if (v != NULL) {
        v->method.function = function;
        v->method.self = self;
    }
    return v;
}

DynVal *rec_new_slice(DynRec *r, DynValKind kind, DynVal *start, DynVal *stop, DynVal *step) {
    DynVal *v = start != NULL && stop != NULL && step != NULL ? rec_new_fresh(r, kind) : NULL;
    if (v != NULL) {
        v->slice.start = start;
        v->slice.stop = stop;
        v->slice.step = step;
    }
    return v;
}

DynVal *rec_new_attribute(DynRec *r, DynVal *of, PyObject *name) {
    DynVal *v = rec_new_fresh(r, DV_ATTR);
    if (v != NULL) {
        v->attribute.of = of;
        v->attribute.name = name;
    }
    return v;
}

DynVal *rec_new_cell(DynRec *r, DynVal *content) {
    DynVal *v = rec_new(r, DV_CELL);
    if (v != NULL) {
        v->cell.content = content;
        v->cell.found = DYN_NONE;
    }
    return v;
}

DynVal *dyn_rec_seq(DynRec *r, DynValKind kind, uint32_t n, DynVal **items, PyObject *real) {
    DynVal *v = rec_new(r, kind);
    if (v == NULL || (v->items = DYN_NEW_N(&r->arena, DynVal *, n + 1)) == NULL) {
        return NULL;
    }
    rec_has(v, rec_lists_items(v), "items");
    if (n > 0) {
        memcpy(v->items, items, n * sizeof *items);
    }
    v->n = n;
    v->cap = n + 1;
    v->fresh = true;
    bool size = real != NULL && dyn_torch_size != NULL && Py_IS_TYPE(real, dyn_torch_size);
    v->type = kind == DV_TUPLE && size ? (PyObject *)dyn_torch_size : NULL;
    return v;
}

int rec_push_item(DynRec *r, DynVal *seq, DynVal *item) {
    rec_has(seq, rec_lists_items(seq), "items");
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

void rec_become_const(DynVal *v, PyObject *real) {
    v->kind = DV_CONST;
    v->whole = (DynContents){{NULL}};
    v->constant = real;
}

void rec_become_opaque(DynVal *v) {
    v->kind = DV_OPAQUE;
    v->whole = (DynContents){{NULL}};
}

int rec_guard_id(DynRec *r, DynVal *v, PyObject *real) {
    if (v->kind == DV_CONST) {
        return 0;
    }
    bool object = v->kind == DV_SOURCE || v->kind == DV_OBJECT || v->kind == DV_PYFUNC;
    if (v->source == DYN_NONE || !object) {
        r->why = DYN_R_UNSUPPORTED_VALUE;
        return -1;
    }
    if (rec_guard(r, DYN_GUARD_ID, v->source, DYN_NONE, 0, real) < 0 || rec_keep(r, real) < 0) {
        return -1;
    }
    rec_become_const(v, real);
    return 0;
}

bool rec_is_array(DynVal *v) { return v->kind == DV_ARRAY || v->kind == DV_NPSCALAR; }

/* A class that is hashed and compared by which one it is: its metaclass has type's way of both. */
static bool is_plain_class(PyObject *o) {
    PyTypeObject *meta = Py_TYPE(o);
    return PyType_Check(o) && meta->tp_hash == PyType_Type.tp_hash && meta->tp_richcompare == PyType_Type.tp_richcompare;
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
           PyBytes_CheckExact(o) || is_plain_class(o) || PyFunction_Check(o) || rec_is_enum_key(o) || dyn_torch_is_constant(o);
}

bool rec_is_parameter(PyObject *o) { return dyn_torch_parameter != NULL && Py_IS_TYPE(o, dyn_torch_parameter); }

/* A parameter is hashed by which one it is. */
bool rec_burn_key(DynRec *r, DynOperand key) {
    if (!rec_is_parameter(key.real)) {
        return rec_plain_key(key.real) && dyn_rec_burn(r, key.v, key.real) == 0;
    }
    uint32_t source = rec_found_at(key.v);
    return source != DYN_NONE && rec_guard(r, DYN_GUARD_ID, source, DYN_NONE, 0, key.real) == 0 && rec_keep(r, key.real) == 0;
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
    rec_has(dict, rec_lists_items(dict), "items");
    for (uint32_t i = 0; i + 1 < dict->n; i += 2) {
        if (same_key(rec_constant_of(dict->items[i]), key)) {
            if (position != NULL) {
                *position = i;
            }
            return dict->items[i + 1];
        }
    }
    return NULL;
}

int rec_dict_put(DynRec *r, DynVal *dict, DynOperand key, DynVal *value) {
    uint32_t at;
    if (rec_dict_set(r, dict, key.real, value) < 0) {
        return -1;
    }
    if (rec_is_parameter(key.real) && rec_dict_find(dict, key.real, &at) != NULL) {
        dict->items[at]->source = rec_found_at(key.v);
    }
    return 0;
}

void rec_dict_drop(DynVal *dict, uint32_t at) {
    memmove(dict->items + at, dict->items + at + 2, (dict->n - at - 2) * sizeof *dict->items);
    dict->n -= 2;
    dict->state++;
}

/* An object without parts that can't change. */
static bool is_plain_constant(PyObject *o) {
    bool number = rec_is_exact_number(o) || PyComplex_CheckExact(o) || PyArray_CheckScalar(o);
    return number || o == Py_None || rec_is_text(o);
}

DynVal *rec_wrap_result(DynRec *r, PyObject *o) {
    if (is_plain_constant(o) || rec_is_fixed(o) || rec_is_fact(o)) {
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
        return rec_new_slice(r, PyRange_Check(o) ? DV_RANGE : DV_SLICE, items[0], items[1], items[2]);
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
        DynVal *k = rec_plain_key(key) ? rec_object(r, key) : NULL;
        DynVal *x = k ? rec_wrap_fresh(r, value) : NULL;
        v = x != NULL && rec_push_item(r, v, k) == 0 && rec_push_item(r, v, x) == 0 ? v : NULL;
    }
    return v;
}

/* What a builtin made of constants: containers are new ones at each call. */
DynVal *rec_wrap_fresh(DynRec *r, PyObject *o) {
    if (PyDict_CheckExact(o)) {
        return wrap_dict(r, o);
    }
    if (PyAnySet_CheckExact(o)) {
        return rec_wrap_set(r, o);
    }
    if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) {
        return rec_wrap_result(r, o);
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    DynValKind kind = PyList_CheckExact(o) ? DV_LIST : DV_TUPLE;
    DynVal *v = r->nesting < REC_MAX_DEPTH && n <= 4096 ? dyn_rec_seq(r, kind, 0, NULL, o) : NULL;
    r->nesting++;
    for (Py_ssize_t i = 0; v != NULL && i < n; i++) {
        DynVal *x = rec_wrap_fresh(r, PySequence_Fast_GET_ITEM(o, i));
        v = x != NULL && rec_push_item(r, v, x) == 0 ? v : NULL;
    }
    r->nesting--;
    return v != NULL ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, NULL);
}
