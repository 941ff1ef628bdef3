/* guards_memo.c: what a check found settled is not found again. Most guards of a network or of an instance are about objects that
 * are reached from an argument through dicts, classes and tuples. When two calls had the same such arguments, the next is asked
 * only whether anything on those ways has changed: for each object its type and which dict it has, for each dict and class its
 * version, for each tensor or array its layout, and for what has no version (lists, cells, defaults) the value itself. While
 * nothing has, what hangs on it holds: its sources and symbols get the values of last time, and the program's `rest` is run. That
 * inputs lie apart, which is asked of many pairs, is compared again only where one of them lies elsewhere than last time.
 *
 * Facts hold no references. Each stands behind those that say that its object is alive: an argument is, what an unchanged dict
 * that is alive has in it is, and so on. Called by guards.c and guards_plan.c; the memo is the program's. */
#include "evalframe/guards/guards.h"

enum { LEAST_GUARDS = 8, MOST_FAILURES = 64 };

typedef enum FactKind {
    FACT_TYPE,  /* a is of type b */
    FACT_DICT,  /* the pointer to a dict at a is b */
    FACT_TOKEN, /* dict a is as `token` says */
    FACT_CLASS, /* class a has the version number of `token`, or is as the facts b (NULL: none) of a guard say */
    FACT_LOAD,  /* source `id` of the base a is b */
    FACT_OWN,   /* instance a itself has b (NULL: nothing) under the name of source `id` */
    FACT_GUARD, /* guard `id` holds for a and b */
    FACT_LAYOUT /* guard `id`, of the array or tensor a, which has the sizes and strides from b on in `sizes`; `token` says where
                 * its elements were last time */
} FactKind;

typedef struct Fact {
    uint8_t kind;
    uint32_t id;
    void *a, *b;
    DynDictToken token;
} Fact;

typedef struct Root { /* an argument, and which object it was */
    uint32_t source, local;
    PyObject *object;
} Root;

struct DynMemo {
    bool valid;
    uint32_t failures, same; /* calls in a row with the same roots */
    DYN_VEC(Root)
    roots;
    DYN_VEC(Fact)
    facts;
    DYN_VEC(int64_t)
    sizes;
    DYN_VEC(uint32_t)
    owned;                 /* sources that a check gives away as new references */
    uint32_t *table, size; /* facts by hash, while they are being made */
    PyObject **src;
    DynScalar *sym;
};

/* ---- what can be settled: decided when the program is made */

static bool is_root(const DynSources *t, uint32_t id) {
    bool object = false;
    for (uint32_t i = id + 1; i < t->v.n && t->v.at[id].kind == DYN_SRC_LOCAL; i++) {
        const DynSource *s = &t->v.at[i];
        if (s->base == id && s->kind != DYN_SRC_OWN && s->kind != DYN_SRC_ATTR) {
            return false;
        }
        object = object || s->base == id;
    }
    return object;
}

static bool is_settled_sym(const DynGuardProgram *p, uint32_t id) {
    const DynSyms *t = &p->capture->syms;
    const DynSym *s = dyn_sym_at(t, id);
    if (dyn_sym_is_late(t, id)) {
        return false;
    }
    if (s->op == DYN_S_CONST) {
        return true;
    }
    if (s->op == DYN_S_VAR || dyn_sym_of_axis((DynSymOp)s->op)) {
        return p->settled_source[s->a];
    }
    uint32_t operands[3] = {s->a, s->b, s->c};
    for (int k = 0; k < dyn_sym_info[s->op].arity; k++) {
        if (!p->settled_sym[operands[k]]) {
            return false;
        }
    }
    return true;
}

static bool is_settled_guard(const DynGuardProgram *p, const DynGuard *g) {
    if (dyn_guard_subject(g) == DYN_ABOUT_STATE) {
        return false;
    }
    if (dyn_guard_subject(g) == DYN_ABOUT_SYMBOL) {
        return p->settled_sym[g->source] && !dyn_sym_is_const(&p->capture->syms, g->source);
    }
    if (!p->settled_source[g->source]) {
        return false;
    }
    if (!dyn_guard_has_two(g)) {
        return true;
    }
    return p->settled_source[g->source2] || p->capture->sources.v.at[g->source2].kind == DYN_SRC_CONST;
}

static bool is_settled_attribute(const DynGuardProgram *p, uint32_t source) {
    return p->settled_source[source] && p->capture->sources.v.at[source].kind == DYN_SRC_ATTR;
}

/* A guard that is left needs the value of an attribute that is made anew at each reading. */
static bool asks_for_attribute(const DynGuardProgram *p, const DynGuard *g) {
    if (!dyn_guard_has_source(g)) {
        return false;
    }
    return is_settled_attribute(p, g->source) || (dyn_guard_has_two(g) && is_settled_attribute(p, g->source2));
}

int dyn_memo_new(DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    uint32_t nsrc = c->sources.v.n, nsym = c->syms.v.n, n = 0;
    bool possible = true;
    p->settled_source = PyMem_RawCalloc(nsrc + 1, sizeof(bool));
    p->settled_sym = PyMem_RawCalloc(nsym + 1, sizeof(bool));
    p->settled_guard = PyMem_RawCalloc(c->guards.n + 1, sizeof(bool));
    if (p->settled_source == NULL || p->settled_sym == NULL || p->settled_guard == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < nsrc; i++) {
        const DynSource *s = &c->sources.v.at[i];
        bool on_a_way = s->base != DYN_NONE && p->settled_source[s->base] && p->group_of[i] == DYN_NONE;
        p->settled_source[i] = s->base == DYN_NONE ? is_root(&c->sources, i) : on_a_way && s->kind != DYN_SRC_NAMED;
    }
    for (uint32_t i = 0; i < nsym; i++) {
        p->settled_sym[i] = is_settled_sym(p, i);
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        p->settled_guard[i] = is_settled_guard(p, &c->guards.at[i]);
        possible = possible && (p->settled_guard[i] || !asks_for_attribute(p, &c->guards.at[i]));
        n += p->settled_guard[i];
    }
    if (!possible || n < LEAST_GUARDS) {
        return 0;
    }
    DynMemo *m = p->memo = PyMem_RawCalloc(1, sizeof(*m));
    if (m == NULL || (m->src = PyMem_RawCalloc(nsrc + 1, sizeof(*m->src))) == NULL ||
        (m->sym = PyMem_RawCalloc(nsym + 1, sizeof(*m->sym))) == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < nsrc; i++) {
        Root root = {i, c->sources.v.at[i].index, NULL};
        if (p->settled_source[i] && c->sources.v.at[i].kind == DYN_SRC_LOCAL && dyn_vec_push(&m->roots, root) < 0) {
            return -1;
        }
    }
    return 0;
}

void dyn_memo_free(DynGuardProgram *p) {
    DynMemo *m = p->memo;
    PyMem_RawFree(p->settled_source);
    PyMem_RawFree(p->settled_sym);
    PyMem_RawFree(p->settled_guard);
    if (m == NULL) {
        return;
    }
    dyn_vec_free(&m->roots);
    dyn_vec_free(&m->facts);
    dyn_vec_free(&m->sizes);
    dyn_vec_free(&m->owned);
    PyMem_RawFree(m->table);
    PyMem_RawFree(m->src);
    PyMem_RawFree(m->sym);
    PyMem_RawFree(m);
}

void dyn_memo_forget(DynGuardProgram *p) {
    if (p->memo != NULL) {
        p->memo->valid = false;
    }
}

size_t dyn_memo_bytes(const DynGuardProgram *p) {
    const DynMemo *m = p->memo;
    const DynCapture *c = p->capture;
    if (m == NULL) {
        return 0;
    }
    return sizeof(*m) + dyn_vec_bytes(&m->roots) + dyn_vec_bytes(&m->facts) + dyn_vec_bytes(&m->sizes) +
           dyn_vec_bytes(&m->owned) + c->sources.v.n * sizeof(*m->src) + c->syms.v.n * sizeof(*m->sym);
}

/* ---- making the facts, behind a check that succeeded */

typedef struct Maker {
    DynGuardProgram *p;
    DynMemo *m;
    PyObject *const *src; /* as the check found them */
    bool failed;
} Maker;

static bool is_same_fact(const Fact *x, const Fact *y) {
    if (x->kind != y->kind || x->a != y->a || x->b != y->b) {
        return false;
    }
    bool by_id = x->kind == FACT_LOAD || x->kind == FACT_OWN || x->kind == FACT_GUARD || x->kind == FACT_LAYOUT;
    return !by_id || x->id == y->id;
}

static void add(Maker *k, Fact f) {
    DynMemo *m = k->m;
    uint64_t h = ((uint64_t)(uintptr_t)f.a ^ (uint64_t)(uintptr_t)f.b << 1 ^ f.kind) * 0x9E3779B97F4A7C15u;
    uint32_t at = (uint32_t)(h >> 40) & (m->size - 1);
    for (; m->table[at] != 0; at = (at + 1) & (m->size - 1)) {
        if (is_same_fact(&m->facts.at[m->table[at] - 1], &f)) {
            return;
        }
    }
    if (m->facts.n + 1 >= m->size || dyn_vec_push(&m->facts, f) < 0) {
        k->failed = true;
    } else {
        m->table[at] = m->facts.n;
    }
}

static void type_of(Maker *k, PyObject *o) {
    if (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) { /* others' instances can't be given another class */
        add(k, (Fact){.kind = FACT_TYPE, .a = o, .b = Py_TYPE(o)});
    }
}

static void token_of(Maker *k, PyObject *dict) {
    Fact f = {.kind = FACT_TOKEN, .a = dict};
    if (!PyDict_Check(dict)) {
        k->failed = true;
        return;
    }
    dyn_dict_token_get(dict, &f.token);
    k->failed = k->failed || !dyn_dict_token_same(dict, &f.token);
    add(k, f);
}

/* Which dict an object has, and what is in it. */
static void own_dict(Maker *k, PyObject **place) {
    add(k, (Fact){.kind = FACT_DICT, .a = place, .b = *place});
    if (*place != NULL) {
        token_of(k, *place);
    }
}

/* What an instance has under the name of source `id`. Its dict says by a version that it is unchanged, fields don't. */
static void own_value(Maker *k, uint32_t id, PyObject *o) {
    PyObject **place = dyn_cpy_dict_place(o), *name = k->p->capture->sources.v.at[id].key;
    type_of(k, o);
    if (place != NULL) {
        own_dict(k, place);
    } else if (!dyn_cpy_has_no_dict(Py_TYPE(o))) {
        add(k, (Fact){.kind = FACT_OWN, .id = id, .a = o, .b = dyn_cpy_own_value(o, name)});
    }
}

/* What the guards remember of the class, what it has for the key included. Borrowed; NULL: nothing. */
static PyObject *facts_of(const Maker *k, PyTypeObject *type, PyObject *key) {
    const DynCapture *c = k->p->capture;
    for (uint32_t i = 0; i < c->guards.n; i++) {
        const DynGuard *g = &c->guards.at[i];
        if (g->kind == DYN_GUARD_CLASS && g->obj != NULL && c->sources.v.at[g->source].obj == (PyObject *)type) {
            return dyn_cpy_class_note(g->obj, type, key, DYN_ALL_BASES) ? g->obj : NULL;
        }
    }
    return NULL;
}

static void class_of(Maker *k, PyTypeObject *type, PyObject *key) {
    dyn_cpy_lookup_special(type, key); /* gives it a number where it has none */
    PyObject *facts = facts_of(k, type, key);
    k->failed = k->failed || (type->tp_version_tag == 0 && facts == NULL);
    add(k, (Fact){.kind = FACT_CLASS, .a = type, .b = facts, .token = {.value = type->tp_version_tag}});
}

static void loaded(Maker *k, uint32_t id, PyObject *base, PyObject *value) {
    add(k, (Fact){.kind = FACT_LOAD, .id = id, .a = base, .b = value});
}

/* What its attributes are isn't decided by its own dict and its type alone. */
static bool is_module_or_class(PyObject *o) { return PyModule_Check(o) || PyType_Check(o); }

/* Is the attribute's value one that the instance or its class has, so that it is alive without the reference that was given. */
static void attribute(Maker *k, uint32_t id, PyObject *base, PyObject *value) {
    const DynSource *s = &k->p->capture->sources.v.at[id];
    PyTypeObject *type = Py_TYPE(base);
    bool instance = type->tp_getattro == PyObject_GenericGetAttr || dyn_source_adds_getattr(type);
    PyObject *descr = dyn_cpy_lookup_special(type, s->key), *own = dyn_cpy_own_value(base, s->key);
    bool field = descr != NULL && dyn_source_is_field(descr);
    bool data = descr != NULL && Py_TYPE(descr)->tp_descr_set != NULL;
    if (!instance || is_module_or_class(base) || (data && !field)) {
        k->failed = true;
        return;
    }
    type_of(k, base);
    class_of(k, type, s->key);
    if (field) {
        loaded(k, id, base, value);
        return;
    }
    own_value(k, id, base);
    k->m->src[id] = value == own || value == descr ? value : NULL;
}

static void source(Maker *k, uint32_t id) {
    const DynSource *s = &k->p->capture->sources.v.at[id];
    PyObject *value = k->src[id], *base = s->base == DYN_NONE ? NULL : k->src[s->base];
    k->m->src[id] = value;
    if (value == NULL) {
        return;
    }
    switch ((DynSourceKind)s->kind) {
    case DYN_SRC_LOCAL: type_of(k, value); break;
    case DYN_SRC_OWN: own_value(k, id, base); break;
    case DYN_SRC_NTH_KEY:
    case DYN_SRC_NTH_VALUE:
    case DYN_SRC_KEY: token_of(k, base); break;
    case DYN_SRC_ATTR: attribute(k, id, base, value); break;
    case DYN_SRC_ITEM:
        if (!PyTuple_Check(base)) {
            loaded(k, id, base, value);
        }
        break;
    case DYN_SRC_FUNC:
    case DYN_SRC_SELF: break; /* parts of a method, which never change */
    case DYN_SRC_CLOSURE:
    case DYN_SRC_OWNCELL:
    case DYN_SRC_CELL:
    case DYN_SRC_FUNCTION:
    case DYN_SRC_HANDLED:
    case DYN_SRC_CONST:
    case DYN_SRC_DICT:
    case DYN_SRC_FROM_END:
    case DYN_SRC_NAMED:
    case DYN_SRC_FCLOSURE:
    case DYN_SRC_FCELL:
    case DYN_SRC_FDEFAULT:
    case DYN_SRC_FKWDEFAULT: loaded(k, id, base, value); break;
    }
}

/* The sizes and strides of an array or tensor, all of them, at the end of `sizes`. */
static bool push_layout(DynMemo *m, PyObject *o) {
    DynArrayView v;
    if (!dyn_array_look(o, &v)) {
        return false;
    }
    for (int i = 0; i < v.ndim; i++) {
        if (dyn_vec_push(&m->sizes, (int64_t)v.dims[i]) < 0 || dyn_vec_push(&m->sizes, (int64_t)v.strides[i]) < 0) {
            return false;
        }
    }
    return true;
}

static bool is_unchanging(PyObject *o) {
    bool number = PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o);
    bool text = PyUnicode_CheckExact(o) || PyBytes_CheckExact(o);
    if (number || text || o == Py_None) {
        return true;
    }
    return PyTuple_CheckExact(o) || PyComplex_CheckExact(o) || PySlice_Check(o) || dyn_torch_is_device(o);
}

static void absent(Maker *k, uint32_t id) {
    const DynSource *s = &k->p->capture->sources.v.at[id];
    PyObject *base = k->src[s->base];
    if (base == NULL) {
        k->failed = true;
    } else if (s->kind == DYN_SRC_KEY) {
        token_of(k, base);
    } else if (s->kind == DYN_SRC_OWN || s->kind == DYN_SRC_ATTR) {
        own_value(k, id, base);
        if (s->kind == DYN_SRC_ATTR) {
            class_of(k, Py_TYPE(base), s->key);
        }
        k->failed = k->failed || is_module_or_class(base);
    } else {
        k->failed = true;
    }
}

/* The keys of a dict; false: nothing says that they are the same (the order of an OrderedDict can change without its dict, and
 * what an instance has in fields without any). */
static bool keys_stand(Maker *k, PyObject *o) {
    PyObject **place = dyn_cpy_dict_place(o); /* of methods of its own */
    bool fields = place == NULL && !dyn_cpy_has_no_dict(Py_TYPE(o));
    if (!PyDict_Check(o) || (PyODict_Check(o) && PyDict_GET_SIZE(o) > 1) || fields) {
        return false;
    }
    token_of(k, o);
    type_of(k, o);
    if (place != NULL) {
        own_dict(k, place);
    }
    return true;
}

static PyObject *second_object(const Maker *k, const DynGuard *g) {
    if (!dyn_guard_has_two(g)) {
        return k->src[g->source];
    }
    return k->p->settled_source[g->source2] ? k->src[g->source2] : k->p->capture->sources.v.at[g->source2].obj;
}

/* The facts under which a guard holds again. */
static void guard(Maker *k, uint32_t at) {
    static const enum {
        NOTHING,
        TYPE,
        VALUE,
        LENGTH,
        KEYS,
        LAYOUT,
        ABSENCE,
        PLACES,
        AGAIN,
        NEVER
    } memos[DYN_GUARD_COUNT] = {
#define GUARD(kind, subject, object, text, was, is, cost, memo, step, flags, group) [DYN_GUARD_##kind] = memo,
#include "ir/guards.def"
#undef GUARD
    };
    const DynGuard *g = &k->p->capture->guards.at[at];
    PyObject *o = dyn_guard_has_source(g) ? k->src[g->source] : NULL;
    bool again = false;
    switch (memos[g->kind]) {
    case NEVER:
    case PLACES: /* by the layouts of the inputs: holds() */
    case NOTHING: break;
    case ABSENCE: absent(k, g->source); break;
    case TYPE: type_of(k, o); break;
    case VALUE: again = !is_unchanging(o); break;
    case LENGTH: again = !PyTuple_Check(o); break;
    case KEYS: again = !keys_stand(k, o); break;
    case LAYOUT:
        add(k, (Fact){.kind = FACT_LAYOUT, .id = at, .a = o, .b = (void *)(uintptr_t)k->m->sizes.n});
        k->failed = k->failed || !push_layout(k->m, o);
        break;
    case AGAIN: again = true; break;
    }
    if (again) {
        add(k, (Fact){.kind = FACT_GUARD, .id = at, .a = o, .b = second_object(k, g)});
    }
}

/* Attributes that are read again from the program's result have to be alive: env gets references of its own. */
static void own_attributes(Maker *k) {
    for (uint32_t i = 0; i < k->p->attrs.n; i++) {
        uint32_t id = k->p->attrs.at[i];
        if (!k->p->settled_source[id]) {
            continue;
        }
        bool lost = k->m->src[id] == NULL;
        if (lost ? k->p->wanted[id] : dyn_vec_push(&k->m->owned, id) < 0) {
            k->failed = true;
        }
    }
}

static void make(DynGuardProgram *p, PyObject *const *src, const DynScalar *sym) {
    const DynCapture *c = p->capture;
    DynMemo *m = p->memo;
    Maker k = {.p = p, .m = m, .src = src};
    m->facts.n = m->sizes.n = m->owned.n = 0;
    for (m->size = 64; m->size < 4 * (c->sources.v.n + c->guards.n); m->size *= 2) {
    }
    m->table = PyMem_RawCalloc(m->size, sizeof(*m->table));
    k.failed = m->table == NULL;
    for (uint32_t i = 0; i < c->sources.v.n && !k.failed; i++) {
        if (p->settled_source[i]) {
            source(&k, i);
        }
    }
    for (uint32_t i = 0; i < c->guards.n && !k.failed; i++) {
        if (p->settled_guard[i]) {
            guard(&k, i);
        }
    }
    if (!k.failed) {
        own_attributes(&k);
    }
    PyMem_RawFree(m->table);
    m->table = NULL;
    memcpy(m->sym, sym, c->syms.v.n * sizeof(*sym));
    m->valid = !k.failed;
    m->failures = k.failed ? MOST_FAILURES : m->failures; /* it will not be otherwise next time */
}

void dyn_memo_note(DynGuardProgram *p, PyObject *const *locals, const DynEnv *env) {
    DynMemo *m = p->memo;
    if (m->failures >= MOST_FAILURES) {
        return;
    }
    bool same = true;
    for (uint32_t i = 0; i < m->roots.n; i++) {
        same = same && m->roots.at[i].object == locals[m->roots.at[i].local];
        m->roots.at[i].object = locals[m->roots.at[i].local];
    }
    m->same = same ? m->same + 1 : 0;
    if (m->same > 0) {
        make(p, env->src, env->sym);
    }
}

/* ---- asking whether they hold */

/* Sizes and strides of last time are a layout that the guard held for. */
static bool array_stands(const DynGuard *g, PyObject *o, const int64_t *sizes) {
    bool same = dyn_guard_array(g, o);
    PyArrayObject *a = (PyArrayObject *)o;
    for (int i = 0, n = (int)(g->number >> 8 & 255); same && i < n; i++) {
        same = PyArray_DIM(a, i) == sizes[2 * i] && PyArray_STRIDE(a, i) == sizes[2 * i + 1];
    }
    return same;
}

static bool tensor_stands(const DynGuard *g, PyObject *o, DynArrayView *v, const int64_t *sizes) {
    bool same = dyn_guard_tensor(g, o, v);
    for (int i = 0; same && i < v->ndim; i++) {
        same = v->dims[i] == sizes[2 * i] && v->strides[i] == sizes[2 * i + 1];
    }
    return same;
}

/* *moved: becomes true if its elements lie elsewhere now, which is noted. */
static bool layout_holds(DynGuardProgram *p, Fact *f, bool *moved) {
    const DynGuard *g = &p->capture->guards.at[f->id];
    const int64_t *sizes = p->memo->sizes.at + (uintptr_t)f->b;
    bool tensor = g->kind == DYN_GUARD_TENSOR;
    if (!(tensor ? tensor_stands(g, f->a, &p->views[g->source], sizes) : array_stands(g, f->a, sizes))) {
        return false;
    }
    uint64_t place = (uint64_t)(uintptr_t)(tensor ? p->views[g->source].data : PyArray_BYTES((PyArrayObject *)f->a));
    *moved = *moved || f->token.value != place;
    f->token.value = place;
    return true;
}

static bool load_holds(DynGuardProgram *p, const Fact *f, PyObject *func) {
    PyObject *o = NULL;
    bool same = dyn_source_read(&p->capture->sources.v.at[f->id], f->a, NULL, func, NULL, &o) == DYN_READ_FOUND && o == f->b;
    Py_XDECREF(o);
    return same;
}

static bool own_holds(const DynGuardProgram *p, const Fact *f) {
    return dyn_cpy_own_value(f->a, p->capture->sources.v.at[f->id].key) == f->b;
}

static bool class_holds(const Fact *f) {
    const PyTypeObject *type = f->a;
    bool same = type->tp_version_tag == f->token.value && f->token.value != 0;
    return DYN_LIKELY(same) || (f->b != NULL && dyn_cpy_class_stands(f->b, f->a));
}

static bool holds(DynGuardProgram *p, PyObject *func, PyObject *const *locals) {
    DynMemo *m = p->memo;
    bool moved = false;
    for (uint32_t i = 0; i < m->roots.n; i++) {
        if (locals[m->roots.at[i].local] != m->roots.at[i].object) {
            return false;
        }
    }
    for (Fact *f = m->facts.at, *end = f + m->facts.n; f < end; f++) {
        bool ok = false;
        switch ((FactKind)f->kind) {
        case FACT_TYPE: ok = (void *)Py_TYPE((PyObject *)f->a) == f->b; break;
        case FACT_DICT: ok = *(PyObject **)f->a == (PyObject *)f->b; break;
        case FACT_TOKEN: ok = dyn_dict_token_same(f->a, &f->token); break;
        case FACT_CLASS: ok = class_holds(f); break;
        case FACT_LOAD: ok = load_holds(p, f, func); break;
        case FACT_OWN: ok = own_holds(p, f); break;
        case FACT_GUARD: ok = dyn_guard_holds(&p->capture->guards.at[f->id], f->a, f->b); break;
        case FACT_LAYOUT: ok = layout_holds(p, f, &moved); break;
        }
        if (DYN_UNLIKELY(!ok)) {
            return false;
        }
    }
    return !moved || dyn_apart_settled(p, m->src);
}

bool dyn_memo_holds(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynEnv *env) {
    DynMemo *m = p->memo;
    if (!m->valid) {
        return false;
    }
    if (!holds(p, func, locals)) {
        m->valid = false;
        m->failures++;
        m->same = 0;
        return false;
    }
    memcpy(env->src, m->src, p->capture->sources.v.n * sizeof(*m->src));
    memcpy(env->sym, m->sym, p->capture->syms.v.n * sizeof(*m->sym));
    for (uint32_t i = 0; i < m->owned.n; i++) {
        Py_INCREF(env->src[m->owned.at[i]]);
    }
    return true;
}
