/* guards_explain.c: after a miss, says which guard failed first, in recording order, with the old value and the new one, and how
 * many fail. Called for the recompiles log only, so it evaluates everything afresh by the tables (with references of its own) and
 * not by the program: what it says doesn't depend on the order that the program has at the moment. */
#include "base/tensors.h"
#include "evalframe/guards/guards.h"

typedef struct Look { /* one explanation */
    const DynCapture *c;
    const DynGuardProgram *p;
    PyObject *func;
    PyObject *const *locals;
    PyObject **value; /* by source: strong; NULL: not there or not read yet */
    uint8_t *read;    /* by source: 0 not looked at, else DynRead + 1 */
    DynScalar *sym;   /* by symbol */
    uint32_t nsym;    /* evaluated so far: rows before it have values */
    DynStr *out;
    uint32_t more; /* so many things differ besides the one that is told of each guard */
} Look;

static DynRead look_at(Look *l, uint32_t id) {
    const DynSource *s = &l->c->sources.v.at[id];
    if (l->read[id] == 0) {
        bool named = s->kind == DYN_SRC_NAMED;
        DynRead r = s->base == DYN_NONE ? DYN_READ_FOUND : look_at(l, s->base);
        r = r == DYN_READ_FOUND && named ? look_at(l, s->index) : r;
        if (r == DYN_READ_FOUND) {
            PyObject *base = s->base == DYN_NONE ? NULL : l->value[s->base];
            PyObject *name = named ? l->value[s->index] : NULL;
            r = dyn_source_read(s, base, name, l->func, l->locals, &l->value[id]);
        } else {
            r = DYN_READ_FAILED;
        }
        l->read[id] = (uint8_t)(r + 1);
    }
    return (DynRead)(l->read[id] - 1);
}

static void arrow(Look *l) { dyn_str_puts(l->out, " \xe2\x86\x92 "); }

/* ---- arrays: which part of the guard is it */

static void print_dtype(Look *l, PyArray_Descr *descr) {
    if (descr == NULL) {
        return;
    }
    if (!PyArray_ISNBO(descr->byteorder)) {
        dyn_str_puts(l->out, "byte-swapped ");
    }
    dyn_object_print((PyObject *)descr->typeobj, l->out);
}

static void print_order(Look *l, const DynLayout *layout, int ndim) {
    if (layout->kind == DYN_LAYOUT_C) {
        dyn_str_puts(l->out, "C-contiguous");
        return;
    }
    dyn_str_puts(l->out, "strided");
    for (int i = 0; ndim > 1 && i < ndim; i++) {
        dyn_str_printf(l->out, "%s%d", i == 0 ? " (axes " : ", ", layout->perm[i]);
    }
    dyn_str_puts(l->out, ndim > 1 ? ")" : "");
    for (int i = 0; i < ndim; i++) {
        if (layout->still >> i & 1u) {
            dyn_str_printf(l->out, ", axis %d broadcast", i);
        }
    }
    dyn_str_puts(l->out, layout->folded ? ", overlapping itself" : "");
}

static void source_text(Look *l, const DynGuard *g, const char *before, const char *after) {
    dyn_str_puts(l->out, before);
    dyn_source_print(&l->c->sources, g->source, l->out);
    dyn_str_puts(l->out, after);
}

static void explain_array(Look *l, const DynGuard *g, PyObject *o) {
    DynArrayView v;
    DynDtype dt = (DynDtype)(g->number & 255);
    int ndim = (int)(g->number >> 8 & 255);
    if (!PyArray_CheckExact(o)) {
        source_text(l, g, "type(", ") is ndarray: ndarray");
        arrow(l);
        dyn_object_print((PyObject *)Py_TYPE(o), l->out);
        return;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    if (dyn_dtype_of(PyArray_DESCR(a)) != dt) {
        l->more += PyArray_NDIM(a) != ndim;
        PyArray_Descr *old = PyArray_DescrFromType(dyn_dtypes[dt].npy);
        source_text(l, g, "", ".dtype == ");
        print_dtype(l, old);
        dyn_str_puts(l->out, ": ");
        print_dtype(l, old);
        arrow(l);
        print_dtype(l, PyArray_DESCR(a));
        Py_XDECREF((PyObject *)old);
    } else if (PyArray_NDIM(a) != ndim) {
        source_text(l, g, "", ".ndim == ");
        dyn_str_printf(l->out, "%d: %d", ndim, ndim);
        arrow(l);
        dyn_str_printf(l->out, "%d", PyArray_NDIM(a));
    } else if (!PyArray_ISALIGNED(a)) {
        source_text(l, g, "", ".flags.aligned: True");
        arrow(l);
        dyn_str_puts(l->out, "False");
    } else if (g->number & DYN_ARRAY_WRITTEN && !PyArray_ISWRITEABLE(a)) {
        source_text(l, g, "", ".flags.writeable: True");
        arrow(l);
        dyn_str_puts(l->out, "False");
    } else if (g->number & (DYN_ARRAY_WRITTEN | DYN_ARRAY_ASKED) && dyn_array_write_warns(a)) {
        source_text(l, g, "", " comes from np.broadcast_arrays: False");
        arrow(l);
        dyn_str_puts(l->out, "True");
    } else {
        DynLayout layout = g->layout;
        if (dyn_array_view(o, &v)) {
            dyn_layout_of(&v, &layout);
        }
        source_text(l, g, "layout of ", ": ");
        print_order(l, &g->layout, ndim);
        arrow(l);
        print_order(l, &layout, ndim);
    }
}

static void print_device(DynStr *out, int device) {
    if (device == 0) {
        dyn_str_puts(out, "cpu");
    } else {
        dyn_str_printf(out, "cuda:%d", device - 1);
    }
}

static void explain_tensor(Look *l, const DynGuard *g, PyObject *o) {
    DynArrayView v;
    bool grad = (g->number & DYN_TENSOR_GRAD) != 0;
    int ndim = (int)(g->number >> 8 & 255);
    if ((PyObject *)Py_TYPE(o) != g->obj) {
        source_text(l, g, "type(", "): ");
        dyn_object_print(g->obj, l->out);
        arrow(l);
        dyn_object_print((PyObject *)Py_TYPE(o), l->out);
    } else if (!dyn_tensor_look(o, &v)) {
        source_text(l, g, "", " has elements that lie in memory: True");
        arrow(l);
        dyn_str_puts(l->out, "False");
    } else if (v.dtype != (g->number & 255)) {
        l->more += v.ndim != ndim;
        source_text(l, g, "", ".dtype: ");
        dyn_object_print(dyn_tensor_dtype_name(g->obj, (DynDtype)(g->number & 255)), l->out);
        arrow(l);
        dyn_object_print(dyn_tensor_dtype_name(g->obj, (DynDtype)v.dtype), l->out);
    } else if (v.ndim != ndim) {
        source_text(l, g, "", ".ndim == ");
        dyn_str_printf(l->out, "%d: %d", ndim, ndim);
        arrow(l);
        dyn_str_printf(l->out, "%d", v.ndim);
    } else if (v.device != (g->number >> DYN_TENSOR_DEVICE & 255)) {
        source_text(l, g, "", ".device: ");
        print_device(l->out, (int)(g->number >> DYN_TENSOR_DEVICE & 255));
        arrow(l);
        print_device(l->out, v.device);
    } else if (dyn_tensor_requires_grad(o) != grad) {
        source_text(l, g, "", ".requires_grad: ");
        dyn_str_puts(l->out, grad ? "True" : "False");
        arrow(l);
        dyn_str_puts(l->out, grad ? "False" : "True");
    } else {
        DynLayout layout;
        dyn_layout_of(&v, &layout);
        source_text(l, g, "layout of ", ": ");
        print_order(l, &g->layout, ndim);
        arrow(l);
        print_order(l, &layout, ndim);
    }
}

/* ---- symbols */

static DynSymType type_of(Look *l, uint32_t id) { return (DynSymType)dyn_sym_at(&l->c->syms, id)->type; }

/* old → new of one symbol */
static void change(Look *l, uint32_t id) {
    dyn_sym_print_value(type_of(l, id), dyn_sym_at(&l->c->syms, id)->hint, l->out);
    arrow(l);
    dyn_sym_print_value(type_of(l, id), l->sym[id], l->out);
}

/* `a < b` with values in place of the operands */
static void relation(Look *l, uint32_t id, bool new) {
    const DynSyms *t = &l->c->syms;
    const DynSym *s = dyn_sym_at(t, id);
    for (const char *p = dyn_sym_info[s->op].text; *p != '\0'; p++) {
        if (*p == '{') {
            uint32_t operand = p[1] == 'a' ? s->a : s->b;
            dyn_sym_print_value(type_of(l, operand), new ? l->sym[operand] : dyn_sym_at(t, operand)->hint, l->out);
            p += 2;
        } else if (*p != '(' && *p != ')') {
            dyn_str_putc(l->out, *p);
        }
    }
}

static void explain_sym(Look *l, uint32_t id) {
    const DynSyms *t = &l->c->syms;
    const DynSym *s = dyn_sym_at(t, id);
    dyn_sym_print(t, &l->c->sources, id, l->out);
    dyn_str_puts(l->out, ": ");
    if (dyn_sym_info[s->op].arity == 1) {
        change(l, s->a);
    } else if (s->op < DYN_S_EQ || s->op > DYN_S_GE) {
        change(l, id);
    } else if (dyn_sym_is_const(t, s->b) || dyn_sym_is_const(t, s->a)) {
        change(l, dyn_sym_is_const(t, s->b) ? s->a : s->b);
    } else {
        relation(l, id, false);
        arrow(l);
        relation(l, id, true);
    }
}

/* A source that a symbol or a guard needs can't be read. */
static bool explain_unreadable(Look *l, uint32_t source) {
    if (look_at(l, source) == DYN_READ_FOUND) {
        return false;
    }
    for (uint32_t base = l->c->sources.v.at[source].base; base != DYN_NONE; base = l->c->sources.v.at[base].base) {
        if (look_at(l, base) != DYN_READ_FOUND) {
            source = base; /* the first of the path that isn't there */
        }
    }
    dyn_source_print(&l->c->sources, source, l->out);
    dyn_str_puts(l->out, look_at(l, source) == DYN_READ_MISSING ? ": found" : ": readable");
    arrow(l);
    dyn_str_puts(l->out, look_at(l, source) == DYN_READ_MISSING ? "missing" : "not readable");
    return true;
}

static bool explain_load(Look *l, uint32_t id) {
    static const char *const names[] = {[DYN_T_INT] = "int", [DYN_T_FLOAT] = "float", [DYN_T_BOOL] = "bool"};
    const DynSym *s = dyn_sym_at(&l->c->syms, id);
    if (explain_unreadable(l, s->a)) {
        return true;
    }
    PyObject *o = l->value[s->a];
    DynGuard g = {.source = s->a};
    if (s->op == DYN_S_VAR) {
        if (dyn_guard_number(o, type_of(l, id), &l->sym[id])) {
            return false;
        }
        source_text(l, &g, PyLong_CheckExact(o) && s->type == DYN_T_INT ? "" : "type(", "");
        dyn_str_printf(l->out, PyLong_CheckExact(o) && s->type == DYN_T_INT ? " fits in 64 bits: " : ") is %s: ", names[s->type]);
        if (PyLong_CheckExact(o) && s->type == DYN_T_INT) {
            dyn_sym_print_value(DYN_T_INT, s->hint, l->out);
        } else {
            dyn_str_puts(l->out, names[s->type]);
        }
        arrow(l);
        dyn_object_print(PyLong_CheckExact(o) && s->type == DYN_T_INT ? o : (PyObject *)Py_TYPE(o), l->out);
        return true;
    }
    DynArrayView v;
    if (dyn_array_look(o, &v) && v.ndim > s->index) {
        l->sym[id].i = s->op == DYN_S_DIM ? v.dims[s->index] : v.strides[s->index];
        return false;
    }
    source_text(l, &g, "", "");
    dyn_str_printf(l->out, s->op == DYN_S_DIM ? ".shape[%d]: found" : ".strides[%d]: found", (int)s->index);
    arrow(l);
    dyn_str_puts(l->out, "missing");
    return true;
}

/* Values for all rows up to `id`; true when one has none, which is then the explanation. */
static bool explain_rows(Look *l, uint32_t id) {
    const DynSyms *t = &l->c->syms;
    for (; l->nsym <= id; l->nsym++) {
        const DynSym *s = dyn_sym_at(t, l->nsym);
        if (dyn_sym_is_read((DynSymOp)s->op)) {
            if (explain_load(l, l->nsym)) {
                return true;
            }
        } else if (!dyn_sym_is_late(t, l->nsym) && dyn_sym_eval_row(t, l->nsym, l->sym, &l->sym[l->nsym]) < 0) {
            dyn_sym_print(t, &l->c->sources, l->nsym, l->out);
            dyn_str_puts(l->out, ": ");
            dyn_sym_print_value((DynSymType)s->type, s->hint, l->out);
            arrow(l);
            dyn_str_puts(l->out, "an exception, or a value of another kind");
            return true;
        }
    }
    return false;
}

/* ---- guards */

/* What was found in place of what the guard wants. */
typedef struct Found {
    Look *l;
    const DynGuard *g;
    PyObject *o;
} Found;

static void print_found_value(Look *l, const DynGuard *g, PyObject *o) {
    (void)g;
    dyn_object_print(o, l->out);
}

static void print_found_type(Look *l, const DynGuard *g, PyObject *o) {
    (void)g;
    dyn_object_print((PyObject *)Py_TYPE(o), l->out);
}

static void print_found_length(Look *l, const DynGuard *g, PyObject *o) {
    Py_ssize_t n = PyObject_Size(o);
    (void)g;
    PyErr_Clear();
    dyn_str_printf(l->out, "%lld", (long long)n);
}

static void print_found_keys(Look *l, const DynGuard *g, PyObject *o) {
    PyObject *keys = PyDict_CheckExact(o) ? PyDict_Keys(o) : NULL;
    PyObject *tuple = keys == NULL ? NULL : PyList_AsTuple(keys);
    (void)g;
    dyn_object_print(tuple == NULL ? (PyObject *)Py_TYPE(o) : tuple, l->out);
    Py_XDECREF(keys);
    Py_XDECREF(tuple);
    PyErr_Clear();
}

static void print_other_code(Look *l, const DynGuard *g, PyObject *o) {
    (void)g;
    dyn_str_puts(l->out, PyFunction_Check(o) ? "other code" : "no function");
}

static void print_other_globals(Look *l, const DynGuard *g, PyObject *o) {
    (void)g;
    dyn_str_puts(l->out, PyFunction_Check(o) ? "other globals" : "no function");
}

static void print_change_of_class(Look *l, const DynGuard *g, PyObject *o) {
    PyObject *name = PyType_Check(o) && g->obj != NULL ? dyn_cpy_class_changed(g->obj, (PyTypeObject *)o) : NULL;
    if (name != NULL && PyUnicode_Check(name)) {
        dyn_str_printf(l->out, "changed in %s", PyUnicode_AsUTF8(name));
    } else {
        dyn_str_puts(l->out, PyType_Check(o) ? "changed, or another class" : "no class");
    }
}

static void print_found_defaults(Look *l, const DynGuard *g, PyObject *o) {
    PyObject *defaults = PyFunction_Check(o) ? PyFunction_GET_DEFAULTS(o) : NULL;
    (void)g;
    dyn_str_printf(l->out, "%lld", defaults == NULL ? 0LL : (long long)PyTuple_GET_SIZE(defaults));
}

static void print_found_membership(Look *l, const DynGuard *g, PyObject *o) {
    const char *now = g->number ? "not in it" : "in it";
    dyn_str_puts(l->out, PyAnySet_CheckExact(o) ? now : "no set");
}

/* The first other input that shares memory with what the guard is about; DYN_NONE: there is none. */
static uint32_t overlapped_by(Look *l, const DynGuard *g) {
    DynArrayView v, w;
    bool known = dyn_guard_place(l->value[g->source], &v);
    for (uint32_t i = 0; i < l->p->inputs.n && known; i++) {
        uint32_t other = l->p->inputs.at[i];
        bool there = other != g->source && look_at(l, other) == DYN_READ_FOUND && dyn_guard_place(l->value[other], &w);
        if (there && dyn_views_overlap(&v, &w)) {
            return other;
        }
    }
    return DYN_NONE;
}

static void print_overlapped(Look *l, const DynGuard *g, PyObject *o) {
    uint32_t other = overlapped_by(l, g);
    (void)o;
    if (other != DYN_NONE) {
        dyn_source_print(&l->c->sources, other, l->out);
    }
}

/* {parts} of the column `is` of guards.def, beside those that any text may have. */
static const struct {
    const char *part;
    void (*print)(Look *l, const DynGuard *g, PyObject *o);
} found_parts[] = {
    {"value", print_found_value},
    {"type", print_found_type},
    {"length", print_found_length},
    {"keys", print_found_keys},
    {"other code", print_other_code},
    {"other globals", print_other_globals},
    {"defaults", print_found_defaults},
    {"membership", print_found_membership},
    {"change of class", print_change_of_class},
    {"overlapped", print_overlapped},
};

static void print_found(const char *part, size_t n, void *arg) {
    const Found *found = arg;
    for (size_t i = 0; i < DYN_COUNTOF(found_parts); i++) {
        if (strlen(found_parts[i].part) == n && memcmp(found_parts[i].part, part, n) == 0) {
            found_parts[i].print(found->l, found->g, found->o);
            return;
        }
    }
    dyn_str_printf(found->l->out, "{%.*s}", (int)n, part);
}

static void explain_value(Look *l, const DynGuard *g, PyObject *o) {
    const DynGuardRow *row = &dyn_guard_rows[g->kind];
    Found found = {l, g, o};
    dyn_guard_print(l->c, g, l->out);
    dyn_str_puts(l->out, ": ");
    dyn_guard_print_text(l->c, g, row->was, NULL, NULL, l->out);
    arrow(l);
    dyn_guard_print_text(l->c, g, row->is, print_found, &found, l->out);
}

static bool explain_missing(Look *l, const DynGuard *g) {
    DynRead r = look_at(l, g->source);
    if (r == DYN_READ_MISSING) {
        return false;
    }
    dyn_guard_print(l->c, g, l->out);
    dyn_str_puts(l->out, ": missing");
    arrow(l);
    if (r == DYN_READ_FOUND) {
        dyn_object_print(l->value[g->source], l->out);
    } else {
        dyn_str_puts(l->out, "not readable");
    }
    return true;
}

static bool explain_symbol(Look *l, const DynGuard *g) {
    if (explain_rows(l, g->source)) {
        return true;
    }
    if (l->sym[g->source].i != 0) {
        return false;
    }
    explain_sym(l, g->source);
    return true;
}

static bool explain_state(Look *l, const DynGuard *g) {
    bool same = dyn_torch_is_so(g->number);
    dyn_str_puts(l->out, same ? "" : "torch's modes (gradients, inference, autocast, default dtype …) are not what they were");
    return !same;
}

static bool explain_found(Look *l, const DynGuard *g) {
    bool two = dyn_guard_has_two(g);
    if (explain_unreadable(l, g->source) || (two && explain_unreadable(l, g->source2))) {
        return true;
    }
    PyObject *o = l->value[g->source], *o2 = two ? l->value[g->source2] : NULL;
    if (g->kind == DYN_GUARD_DISJOINT ? overlapped_by(l, g) == DYN_NONE : dyn_guard_holds(g, o, o2)) {
        return false;
    }
    if (dyn_guard_subject(g) == DYN_ABOUT_ARRAY) {
        explain_array(l, g, o);
    } else if (dyn_guard_subject(g) == DYN_ABOUT_TENSOR) {
        explain_tensor(l, g, o);
    } else {
        explain_value(l, g, o);
    }
    return true;
}

/* True when the guard fails, and then l->out says how. */
static bool explain_guard(Look *l, const DynGuard *g) {
    switch (dyn_guard_subject(g)) {
    case DYN_ABOUT_SYMBOL: return explain_symbol(l, g);
    case DYN_ABOUT_STATE: return explain_state(l, g);
    case DYN_ABOUT_ABSENCE: return explain_missing(l, g);
    case DYN_ABOUT_OBJECT:
    case DYN_ABOUT_PAIR:
    case DYN_ABOUT_ARRAY:
    case DYN_ABOUT_TENSOR: return explain_found(l, g);
    }
    return false;
}

/* All guards are asked; the first that fails is explained. */
static DynMiss explain_guards(Look *l) {
    const DynCapture *c = l->c;
    DynStr others = {0}, *out = l->out;
    DynMiss miss = {0};
    for (uint32_t i = 0; i < c->guards.n; i++) {
        l->out = miss.failed == 0 ? out : &others;
        if (explain_guard(l, &c->guards.at[i])) {
            miss.first = miss.failed++ == 0 ? &c->guards.at[i] : miss.first;
        }
        others.n = 0;
    }
    l->out = out;
    dyn_str_free(&others);
    miss.differs = miss.failed + l->more;
    return miss;
}

/* What no guard says, but the entry needs. */
static void explain_rest(Look *l) {
    const DynCapture *c = l->c;
    if (c->syms.v.n > 0 && explain_rows(l, c->syms.v.n - 1)) {
        return;
    }
    for (uint32_t i = 0; i < c->graph.inputs.n; i++) {
        if (explain_unreadable(l, dyn_graph_node(&c->graph, c->graph.inputs.at[i])->source)) {
            return;
        }
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        if (c->recipes.at[i].kind == DYN_RC_SOURCE && explain_unreadable(l, c->recipes.at[i].id)) {
            return;
        }
    }
}

DynMiss dyn_guards_explain(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynStr *out) {
    const DynCapture *c = p->capture;
    DynMiss miss = {0};
    DynArena arena;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    dyn_arena_init(&arena);
    Look l = {.c = c, .p = p, .func = func, .locals = locals, .out = out};
    l.value = DYN_NEW_N(&arena, PyObject *, c->sources.v.n + 1);
    l.read = DYN_NEW_N(&arena, uint8_t, c->sources.v.n + 1);
    l.sym = DYN_NEW_N(&arena, DynScalar, c->syms.v.n + 1);
    if (l.value != NULL && l.read != NULL && l.sym != NULL) {
        miss = explain_guards(&l);
        if (miss.failed == 0) {
            explain_rest(&l);
        }
    }
    for (uint32_t i = 0; l.value != NULL && i < c->sources.v.n; i++) {
        Py_XDECREF(l.value[i]);
    }
    dyn_arena_free(&arena);
    PyErr_Restore(type, value, traceback);
    return miss;
}
