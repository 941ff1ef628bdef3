/* rec_collections.c: the containers of `collections`: OrderedDict, defaultdict, Counter and deque, made inside or coming in.
 *
 * The first three are a DV_DICT whose type is the class (extra: a defaultdict's factory), in the order in which they list their
 * keys; a deque is a DV_DEQUE (extra: its maxlen). Methods run for real, as in rec_methods.c, and changes of what outlives the
 * call are effects. Called by the call, subscript and attribute handlers and by dyn_rec_resolve. */
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

static PyTypeObject *default_dict, *counter;
static PyObject *s_factory, *s_maxlen;
static bool keeps_item; /* that a defaultdict's factory has stored itself, in place of what the factory returns: newer CPythons */

static bool is_deque(PyObject *o) { return dyn_deque_type != NULL && Py_IS_TYPE(o, dyn_deque_type); }
static bool is_default_dict(PyObject *o) { return Py_IS_TYPE(o, default_dict); }

/* A dict of one of these classes, that shadows can show. */
static bool is_special_dict(PyObject *o) { return PyODict_CheckExact(o) || is_default_dict(o) || Py_IS_TYPE(o, counter); }

static bool is_plain_counter(PyObject *o) { return Py_IS_TYPE(o, counter) && dyn_cpy_shows_its_methods(o); }

bool rec_is_collection(PyObject *o) { return is_deque(o) || PyODict_CheckExact(o) || is_default_dict(o) || is_plain_counter(o); }

static DynVal *fresh_dict(DynRec *r, PyTypeObject *type) {
    DynVal *v = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL);
    if (v != NULL && type != &PyDict_Type) {
        v->type = (PyObject *)type;
        v = rec_keep(r, v->type) < 0 ? NULL : v;
    }
    return v;
}

/* ---- coming in */

static uint32_t attr_of(DynRec *r, uint32_t base, PyObject *name) {
    return dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, base, 0, NULL, name);
}

static int resolve_deque(DynRec *r, DynVal *v, PyObject *o) {
    Py_ssize_t n = PySequence_Size(o);
    PyObject *maxlen = PyObject_GetAttr(o, s_maxlen);
    v->maxlen = maxlen ? rec_object(r, maxlen) : NULL;
    int ok = v->maxlen == NULL || n > 10000 || rec_guard(r, DYN_GUARD_LEN, v->source, DYN_NONE, n, NULL) < 0
                 ? -1
                 : rec_guard(r, DYN_GUARD_MAXLEN, v->source, DYN_NONE, 0, maxlen);
    Py_XDECREF(maxlen);
    if (ok < 0 || (v->items = DYN_NEW_N(&r->arena, DynVal *, n + 1)) == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_ITEM, v->source, (uint32_t)i, NULL, NULL);
        if (s == DYN_NONE || (v->items[i] = rec_source(r, s)) == NULL) {
            return -1;
        }
    }
    v->n = (uint32_t)n;
    v->cap = v->n + 1;
    v->kind = DV_DEQUE;
    return 0;
}

static int resolve_dict(DynRec *r, DynVal *v, PyObject *o) {
    PyObject *tuple = PySequence_Tuple(o); /* in its own order; runs no Python code */
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(tuple) : 0;
    bool plain = tuple != NULL && n <= 1000;
    for (Py_ssize_t i = 0; plain && i < n; i++) {
        plain = rec_plain_key(PyTuple_GET_ITEM(tuple, i));
    }
    PyErr_Clear();
    int status = 0;
    v->kind = DV_OBJECT;
    if (plain) {
        status = rec_guard(r, DYN_GUARD_KEYS, v->source, DYN_NONE, 0, tuple);
        v->items = DYN_NEW_N(&r->arena, DynVal *, 2 * n + 2);
        for (Py_ssize_t i = 0; status == 0 && i < n; i++) {
            PyObject *key = PyTuple_GET_ITEM(tuple, i);
            uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, v->source, 0, NULL, key);
            v->items[2 * i] = rec_object(r, key);
            v->items[2 * i + 1] = s == DYN_NONE ? NULL : rec_source(r, s);
            status = v->items[2 * i] == NULL || v->items[2 * i + 1] == NULL ? -1 : 0;
        }
        if (is_default_dict(o)) {
            uint32_t s = attr_of(r, v->source, s_factory);
            v->factory = s == DYN_NONE ? NULL : rec_source(r, s);
            status = v->factory == NULL ? -1 : status;
        }
        v->n = (uint32_t)(2 * n);
        v->cap = v->n + 2;
        v->kind = DV_DICT;
        v->type = (PyObject *)Py_TYPE(o);
    }
    Py_XDECREF(tuple);
    return status;
}

int rec_resolve_collection(DynRec *r, DynVal *v, PyObject *o) {
    if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0 ||
        rec_guard_whole_class(r, Py_TYPE(o)) < 0) {
        return -1;
    }
    return is_deque(o) ? resolve_deque(r, v, o) : resolve_dict(r, v, o);
}

/* ---- making them */

DynVal *rec_on_new_dict(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    PyTypeObject *type = (PyTypeObject *)c->callable.real;
    bool with_factory = type == default_dict && c->npos > 0;
    DynVal *v = fresh_dict(r, type);
    bool known = v != NULL && rec_dict_fill(r, v, c, with_factory) == 0;
    if (v != NULL && type == default_dict) {
        v->factory = with_factory ? c->args[0].v : dyn_rec_const(r, Py_None);
    }
    *result = rec_call_real(c);
    return *result && known ? v : rec_fail(r, DYN_R_OPAQUE_CALL, type->tp_name);
}

/* Counter(…) of plain constants, burnt in. */
DynVal *rec_on_new_counter(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    bool known = c->npos <= 1 && c->nkw == 0 && rec_guard_whole_class(r, counter) == 0;
    if (known && c->npos == 1) {
        PyObject *o = c->args[0].real;
        bool listed = rec_is_tuple_or_list(o) || PyUnicode_CheckExact(o);
        known = listed && dyn_rec_burn(r, c->args[0].v, o) == 0;
    }
    *result = rec_call_real(c);
    DynVal *v = *result && known ? fresh_dict(r, counter) : NULL;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    while (v != NULL && PyDict_Next(*result, &pos, &key, &value)) {
        DynVal *count = rec_plain_key(key) ? dyn_rec_const(r, value) : NULL;
        v = count != NULL && rec_dict_set(r, v, key, count) == 0 ? v : NULL;
    }
    return rec_known_or(r, v, *result, DYN_R_OPAQUE_CALL, "Counter");
}

static void trim(DynVal *v, PyObject *real, bool from_left) {
    uint32_t n = (uint32_t)PySequence_Size(real);
    if (from_left && v->n > n) {
        memmove(v->items, v->items + (v->n - n), n * sizeof *v->items);
    }
    v->n = v->n > n ? n : v->n;
}

/* deque(iterable, maxlen) */
DynVal *rec_on_new_deque(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynOperand of = {0}, maxlen = {0};
    DynVal **items = NULL;
    uint32_t n = 0;
    bool known = true;
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        PyObject *name = i < c->npos ? NULL : PyTuple_GET_ITEM(c->kwnames, i - c->npos);
        bool second = name ? PyUnicode_CompareWithASCIIString(name, "maxlen") == 0 : i == 1;
        *(second ? &maxlen : &of) = c->args[i];
    }
    known = of.v == NULL || (of.v->kind != DV_ITER && rec_items(r, of.v, of.real, &items, &n) == 0);
    known = known && (maxlen.v == NULL || dyn_rec_burn(r, maxlen.v, maxlen.real) == 0);
    *result = rec_call_real(c);
    PyObject *most = *result && known ? PyObject_GetAttr(*result, s_maxlen) : NULL;
    DynVal *v = most ? dyn_rec_seq(r, DV_DEQUE, n, items, *result) : NULL;
    if (v != NULL) {
        trim(v, *result, true);
        v->maxlen = rec_object(r, most);
        v = v->maxlen == NULL ? NULL : v;
    }
    Py_XDECREF(most);
    return rec_known_or(r, v, *result, DYN_R_OPAQUE_CALL, "deque");
}

/* ---- methods */

static int burn_rest(DynRec *r, const RecCall *c) {
    for (uint32_t i = 1; i < c->npos + c->nkw; i++) {
        if (dyn_rec_burn(r, c->args[i].v, c->args[i].real) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The method of the call, with these arguments in place of the call's, is the effect; v is its result. */
static DynVal *changed(DynRec *r, const RecCall *c, uint32_t n, DynVal *const *items, DynVal *v) {
    c->args[0].v->state++;
    return v == NULL || rec_effect(r, c->args[0], DYN_FX_CALL, c->callable.real, n, items) < 0 ? NULL : v;
}

static void deque_rotate(DynVal *d, Py_ssize_t by) {
    Py_ssize_t n = d->n;
    by = n == 0 ? 0 : ((by % n) + n) % n;
    for (; by > 0; by--) {
        DynVal *last = d->items[n - 1];
        memmove(d->items + 1, d->items, (size_t)(n - 1) * sizeof *d->items);
        d->items[0] = last;
    }
}

static DynVal *deque_extend(DynRec *r, const RecCall *c, PyObject **result, bool left) {
    DynVal *d = c->args[0].v, **items, *both[2];
    uint32_t n;
    bool known = c->npos == 2 && c->args[1].v->kind != DV_ITER && rec_items(r, c->args[1].v, c->args[1].real, &items, &n) == 0;
    both[0] = d;
    both[1] = known ? dyn_rec_seq(r, DV_TUPLE, n, items, NULL) : NULL;
    *result = rec_call_real(c);
    if (*result == NULL || both[1] == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (rec_insert_item(r, d, left ? 0 : (Py_ssize_t)d->n, both[1]->items[i]) < 0) {
            return NULL;
        }
    }
    trim(d, c->args[0].real, !left);
    return changed(r, c, 2, both, dyn_rec_const(r, Py_None));
}

static DynVal *deque_query(DynRec *r, const RecCall *c, PyObject **result) {
    bool known = c->nkw == 0 && burn_rest(r, c) == 0 && dyn_rec_burn(r, c->args[0].v, c->args[0].real) == 0;
    *result = rec_call_real(c);
    return *result && known ? dyn_rec_const(r, *result) : NULL;
}

static DynVal *deque_copy(DynRec *r, const RecCall *c, PyObject *result) {
    const DynVal *d = c->args[0].v;
    DynVal *v = dyn_rec_seq(r, DV_DEQUE, d->n, d->items, result);
    if (v != NULL) {
        v->maxlen = d->maxlen;
    }
    return v;
}

/* The item that was taken off one end; NULL: there was none. */
static DynVal *pop_shadow(DynVal *d, bool left) {
    if (d->n == 0) {
        return NULL;
    }
    DynVal *v = d->items[left ? 0 : d->n - 1];
    if (left) {
        memmove(d->items, d->items + 1, (d->n - 1) * sizeof *d->items);
    }
    d->n--;
    return v;
}

static DynVal *append_shadow(DynRec *r, const RecCall *c, bool left) {
    DynVal *d = c->args[0].v;
    Py_ssize_t at = left ? 0 : (Py_ssize_t)d->n;
    DynVal *v = rec_insert_item(r, d, at, c->args[1].v) < 0 ? NULL : dyn_rec_const(r, Py_None);
    trim(d, c->args[0].real, !left);
    return v;
}

static DynVal *insert_shadow(DynRec *r, const RecCall *c) {
    DynVal *d = c->args[0].v;
    if (c->npos != 3 || !PyLong_CheckExact(c->args[1].real)) {
        return NULL;
    }
    Py_ssize_t at = PyLong_AsSsize_t(c->args[1].real);
    return rec_insert_item(r, d, at, c->args[2].v) < 0 ? NULL : dyn_rec_const(r, Py_None);
}

static DynVal *rotate_shadow(DynRec *r, const RecCall *c) {
    if (c->npos != 1 && !PyLong_CheckExact(c->args[1].real)) {
        return NULL;
    }
    deque_rotate(c->args[0].v, c->npos == 1 ? 1 : PyLong_AsSsize_t(c->args[1].real));
    return dyn_rec_const(r, Py_None);
}

/* What the method did, to the shadow; gives that of its result. */
static DynVal *change_shadow(DynRec *r, const RecCall *c, RecDequeMethod which) {
    DynVal *d = c->args[0].v;
    switch (which) {
    case REC_DEQUE_APPEND: return append_shadow(r, c, false);
    case REC_DEQUE_APPEND_LEFT: return append_shadow(r, c, true);
    case REC_DEQUE_POP: return pop_shadow(d, false);
    case REC_DEQUE_POP_LEFT: return pop_shadow(d, true);
    case REC_DEQUE_INSERT: return insert_shadow(r, c);
    case REC_DEQUE_ROTATE: return rotate_shadow(r, c);
    case REC_DEQUE_REVERSE: rec_reverse_items(d); return dyn_rec_const(r, Py_None);
    case REC_DEQUE_CLEAR: d->n = 0; return dyn_rec_const(r, Py_None);
    case REC_DEQUE_COPY:
    case REC_DEQUE_EXTEND:
    case REC_DEQUE_EXTEND_LEFT:
    case REC_DEQUE_INDEX:
    case REC_DEQUE_COUNT: break;
    }
    return NULL;
}

/* Numbers and counts that it is called with are the same at every call; what is put in may be anything. */
static bool burn_counts(DynRec *r, const RecCall *c, RecDequeMethod which) {
    if (which == REC_DEQUE_APPEND || which == REC_DEQUE_APPEND_LEFT) {
        return true;
    }
    bool inserts = which == REC_DEQUE_INSERT && c->npos == 3;
    return (inserts ? dyn_rec_burn(r, c->args[1].v, c->args[1].real) : burn_rest(r, c)) == 0;
}

DynVal *rec_on_deque_method(DynRec *r, const RecCall *c, PyObject **result, int which) {
    DynVal *items[4];
    if (c->args[0].v->kind != DV_DEQUE) {
        return REC_DECLINED;
    }
    r->why = DYN_R_SIDE_EFFECT;
    r->detail = "deque";
    if (which == REC_DEQUE_EXTEND || which == REC_DEQUE_EXTEND_LEFT) {
        return deque_extend(r, c, result, which == REC_DEQUE_EXTEND_LEFT);
    }
    if (which == REC_DEQUE_INDEX || which == REC_DEQUE_COUNT) {
        return deque_query(r, c, result);
    }
    bool known = c->npos <= DYN_COUNTOF(items) && c->nkw == 0 && burn_counts(r, c, (RecDequeMethod)which);
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return NULL;
    }
    if (which == REC_DEQUE_COPY) {
        return deque_copy(r, c, *result);
    }
    for (uint32_t i = 0; i < c->npos; i++) {
        items[i] = c->args[i].v;
    }
    return changed(r, c, c->npos, items, change_shadow(r, c, (RecDequeMethod)which));
}

/* OrderedDict's own: popitem(last), move_to_end(key, last). */
static DynVal *reorder(DynRec *r, const RecCall *c, PyObject **result, bool pops) {
    DynVal *d = c->args[0].v, *v = NULL, *items[3] = {d};
    uint32_t n = c->npos + c->nkw, at_last = pops ? 1 : 2, at = 0;
    bool known = n <= at_last + 1 && c->npos >= at_last && burn_rest(r, c) == 0;
    bool last = n <= at_last || PyObject_IsTrue(c->args[at_last].real) == 1;
    for (uint32_t i = 1; known && i < n; i++) {
        items[i] = c->args[i].v;
    }
    *result = rec_call_real(c);
    if (*result == NULL || !known || d->n == 0) {
        return NULL;
    }
    if (!pops && rec_dict_find(d, c->args[1].real, &at) == NULL) {
        return NULL;
    }
    if (pops) {
        at = last ? d->n - 2 : 0;
    }
    DynVal *key = d->items[at], *value = d->items[at + 1], *pair[2] = {rec_key_of(r, d, at / 2), value};
    rec_dict_drop(d, at);
    if (pops) {
        v = pair[0] ? dyn_rec_seq(r, DV_TUPLE, 2, pair, *result) : NULL;
    } else if (rec_push_item(r, d, key) == 0 && rec_push_item(r, d, value) == 0) {
        if (!last) {
            memmove(d->items + 2, d->items, (d->n - 2) * sizeof *d->items);
            d->items[0] = key;
            d->items[1] = value;
        }
        v = dyn_rec_const(r, Py_None);
    }
    return changed(r, c, n, items, v);
}

DynVal *rec_collection_dict_method(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which) {
    PyObject *self = c->args[0].real;
    PyTypeObject *of = ((PyDescrObject *)c->callable.real)->d_type;
    DynVal *d = c->args[0].v, *v;
    bool own_method = of == &PyDict_Type || of == Py_TYPE(self);
    bool ours = is_special_dict(self) && own_method && d->kind == DV_DICT;
    if (!ours || Py_TYPE(c->callable.real) != &PyMethodDescr_Type || which > REC_DICT_MOVE_TO_END) {
        return REC_DECLINED;
    }
    r->why = DYN_R_SIDE_EFFECT;
    if (PyODict_CheckExact(self) && (which == REC_DICT_POPITEM || which == REC_DICT_MOVE_TO_END)) {
        return reorder(r, c, result, which == REC_DICT_POPITEM);
    }
    v = rec_dict_method(r, c, result, which);
    if (v != NULL && which == REC_DICT_COPY) { /* of the same class */
        v->type = d->type;
        v->factory = d->factory;
    }
    return v;
}

/* ---- subscripts */

/* Is it a builtin type of containers or numbers, of which a call without arguments gives a new or constant object? */
static bool is_builtin_factory(PyObject *factory) {
    PyTypeObject *const types[] = {&PyList_Type,  &PyDict_Type, &PySet_Type,     &PyLong_Type,
                                   &PyFloat_Type, &PyBool_Type, &PyUnicode_Type, &PyTuple_Type};
    for (size_t i = 0; i < DYN_COUNTOF(types); i++) {
        if (factory == (PyObject *)types[i]) {
            return true;
        }
    }
    return false;
}

/* What a factory gives; *v NULL: unknown. NULL: it raised. */
static PyObject *call_factory(DynRec *r, DynVal *factory, PyObject *real, DynVal **v) {
    RecCall c = {.callable = {factory, real}};
    PyObject *result = NULL;
    *v = NULL;
    bool known = dyn_rec_resolve(r, factory, real) == 0;
    if (known && PyFunction_Check(real)) {
        RecSeal seal = rec_seal(r);
        *v = rec_call_function(r, &c, &result);
        rec_unseal(r, seal);
        return result;
    }
    result = PyObject_CallNoArgs(real);
    known = known && factory->kind == DV_CONST && is_builtin_factory(real);
    *v = known && result != NULL ? rec_wrap_fresh(r, result) : rec_fail(r, DYN_R_OPAQUE_CALL, "default factory");
    return result;
}

bool rec_missing_item(DynRec *r, DynOperand o, DynOperand index, PyObject **result, DynVal **v) {
    bool asks = o.v->kind == DV_DICT && o.v->type != NULL && rec_burn_key(r, index);
    bool missing = asks && rec_dict_find(o.v, index.real, NULL) == NULL;
    if (missing && o.v->type == (PyObject *)counter) {
        *result = PyObject_GetItem(o.real, index.real);
        *v = *result ? dyn_rec_const(r, *result) : NULL;
        return true;
    }
    PyObject *factory = missing && is_default_dict(o.real) ? PyObject_GetAttr(o.real, s_factory) : NULL;
    if (factory == NULL || factory == Py_None || o.v->factory == NULL) {
        Py_XDECREF(factory);
        return false;
    }
    *result = call_factory(r, o.v->factory, factory, v);
    Py_DECREF(factory);
    PyObject *stored = *result != NULL && keeps_item ? PyDict_GetItemWithError(o.real, index.real) : NULL;
    if (stored != NULL) {
        *v = *v != NULL ? rec_dict_find(o.v, index.real, NULL) : NULL;
        Py_SETREF(*result, Py_NewRef(stored));
        return true;
    }
    if (*result != NULL && PyObject_SetItem(o.real, index.real, *result) < 0) {
        Py_CLEAR(*result);
    }
    if (*result != NULL && *v != NULL && rec_store_item(r, o, index, (DynOperand){*v, *result}) < 0) {
        *v = NULL;
    }
    return true;
}

int rec_burn_listed(DynRec *r, DynVal *v, PyObject *real) {
    bool keys = v->kind == DV_VIEW && v->view.shows == DYN_VIEW_KEYS;
    PyObject *list = keys ? NULL : PySequence_List(real);
    DynVal **items;
    uint32_t n;
    int status = keys ? 0 : -1; /* keys are constants */
    if (list != NULL && rec_items(r, v, real, &items, &n) == 0 && (Py_ssize_t)n == PyList_GET_SIZE(list)) {
        status = 0;
        for (uint32_t i = 0; status == 0 && i < n; i++) {
            status = dyn_rec_burn(r, items[i], PyList_GET_ITEM(list, i));
        }
    }
    PyErr_Clear();
    Py_XDECREF(list);
    return status;
}

/* A container whose items are known, and which is no plain tuple or list. */
static bool is_other_container(const DynVal *v) {
    if (v->kind == DV_TUPLE) {
        return v->type != NULL;
    }
    return v->kind == DV_DEQUE || v->kind == DV_VIEW || v->kind == DV_DICT;
}

bool rec_listed_call(DynRec *r, const RecCall *c, RecCall *out, PyObject **list) {
    DynVal *v = c->npos > 0 ? c->args[0].v : NULL, **items;
    uint32_t n;
    if (v == NULL || !is_other_container(v) || rec_items(r, v, c->args[0].real, &items, &n) < 0) {
        return false;
    }
    DynVal *all = dyn_rec_seq(r, DV_LIST, n, items, NULL);
    *out = *c;
    out->packed = NULL;
    out->args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw);
    *list = all != NULL && out->args != NULL ? PySequence_List(c->args[0].real) : NULL;
    if (*list == NULL || PyList_GET_SIZE(*list) != (Py_ssize_t)n || rec_keep(r, *list) < 0) {
        PyErr_Clear();
        Py_CLEAR(*list);
        return false;
    }
    memcpy(out->args, c->args, (c->npos + c->nkw) * sizeof *c->args);
    out->args[0] = (DynOperand){all, *list};
    return true;
}

/* ---- views of dicts, and what shows a container as it is now */

DynVal *rec_new_view(DynRec *r, DynVal *dict, DynView shows) {
    DynVal *v = rec_new_fresh(r, DV_VIEW);
    if (v != NULL) {
        v->view.dict = dict;
        v->view.shows = shows;
    }
    return v;
}

DynVal *rec_view_item(DynRec *r, DynVal *view, uint32_t i) {
    DynVal *dict = view->view.dict, *value = dict->items[2 * i + 1];
    if (view->view.shows == DYN_VIEW_VALUES) {
        return value;
    }
    DynVal *pair[2] = {rec_key_of(r, dict, i), value};
    return view->view.shows == DYN_VIEW_KEYS || pair[0] == NULL ? pair[0] : dyn_rec_seq(r, DV_TUPLE, 2, pair, NULL);
}

DynVal *rec_live_container(DynVal *v) {
    v = v->kind == DV_ITER ? v->iter.over : v;
    v = v->kind == DV_VIEW ? v->view.dict : v;
    return v->kind == DV_DICT || v->kind == DV_SET || v->kind == DV_DEQUE ? v : NULL;
}

uint32_t rec_live_state(DynVal *v) {
    const DynVal *live = rec_live_container(v);
    uint32_t all = live != NULL ? live->state : 0;
    for (uint32_t i = 0; v->kind == DV_ITER && i < v->n; i++) { /* what zip and its like were made of */
        all += rec_live_state(v->items[i]);
    }
    return all;
}

DynVal *rec_counter_method(DynRec *r, DynOperand o, PyObject *name) {
    bool of_counter = o.v->kind == DV_DICT && o.v->type == (PyObject *)counter && Py_IS_TYPE(o.real, counter);
    PyObject *descr = of_counter && is_plain_counter(o.real) ? dyn_cpy_lookup_special(counter, name) : NULL;
    bool method = descr != NULL && (PyFunction_Check(descr) || Py_IS_TYPE(descr, &PyMethodDescr_Type));
    return method && rec_guard_whole_class(r, counter) == 0 ? rec_new_method(r, dyn_rec_const(r, descr), o.v) : NULL;
}

DynVal *rec_collection_attr(DynVal *v, PyObject *name) {
    bool factory = v->kind == DV_DICT && v->type == (PyObject *)default_dict && PyUnicode_Compare(name, s_factory) == 0;
    if (factory) {
        return v->factory;
    }
    return v->kind == DV_DEQUE && PyUnicode_Compare(name, s_maxlen) == 0 ? v->maxlen : NULL;
}

static PyTypeObject *type_called(PyObject *module, const char *name) {
    PyObject *type = module ? PyObject_GetAttrString(module, name) : NULL;
    return type != NULL && PyType_Check(type) ? (PyTypeObject *)type : NULL;
}

static PyObject *store_item(PyObject *dict, PyObject *unused) {
    (void)unused;
    return PyDict_SetItem(dict, Py_None, Py_True) < 0 ? NULL : Py_NewRef(Py_False);
}

/* Tries out which item is there in the end when the factory stores True itself and returns False. */
static int find_what_is_kept(void) {
    static PyMethodDef factory = {"factory", store_item, METH_NOARGS, NULL};
    PyObject *dict = PyObject_CallNoArgs((PyObject *)default_dict), *function = dict ? PyCFunction_New(&factory, dict) : NULL;
    bool set = function != NULL && PyObject_SetAttr(dict, s_factory, function) == 0;
    PyObject *item = set ? PyObject_GetItem(dict, Py_None) : NULL;
    keeps_item = item == Py_True;
    int status = item == NULL || PyObject_SetAttr(dict, s_factory, Py_None) < 0 ? -1 : 0;
    Py_XDECREF(item);
    Py_XDECREF(function);
    Py_XDECREF(dict);
    return status;
}

int rec_collections_init(void) {
    PyObject *module = dyn_import("collections");
    dyn_deque_type = type_called(module, "deque");
    default_dict = type_called(module, "defaultdict");
    counter = type_called(module, "Counter");
    s_factory = PyUnicode_InternFromString("default_factory");
    s_maxlen = PyUnicode_InternFromString("maxlen");
    Py_XDECREF(module);
    bool types = dyn_deque_type != NULL && default_dict != NULL && counter != NULL;
    return types && s_factory != NULL && s_maxlen != NULL ? find_what_is_kept() : -1;
}

/* ---- sets */

static bool lists_so(PyObject *order, PyObject *listed) {
    PyObject *set = PySet_New(order), *again = set ? PySequence_Tuple(set) : NULL;
    bool same = again != NULL && PyTuple_GET_SIZE(again) == PyTuple_GET_SIZE(listed);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(listed); i++) {
        same = PyTuple_GET_ITEM(again, i) == PyTuple_GET_ITEM(listed, i);
    }
    PyErr_Clear();
    Py_XDECREF(set);
    Py_XDECREF(again);
    return same;
}

/* Items of which hashes collide are listed otherwise than they were added: all orders of a few are tried, by swaps (Heap). */
PyObject *rec_set_order(PyObject *listed) {
    Py_ssize_t n = PyTuple_GET_SIZE(listed), swaps[6] = {0};
    PyObject *list = PySequence_List(listed), *order = list ? PyList_AsTuple(list) : NULL;
    bool found = order != NULL && lists_so(order, listed);
    bool few = order != NULL && n <= (Py_ssize_t)DYN_COUNTOF(swaps);
    for (Py_ssize_t i = 0; few && !found && i < n;) {
        if (swaps[i] >= i) {
            swaps[i++] = 0;
            continue;
        }
        PyObject **items = ((PyListObject *)list)->ob_item, *last = items[i];
        Py_ssize_t with = i % 2 == 0 ? 0 : swaps[i];
        items[i] = items[with];
        items[with] = last;
        Py_SETREF(order, PyList_AsTuple(list));
        found = order != NULL && lists_so(order, listed);
        if (order == NULL) {
            break;
        }
        swaps[i]++;
        i = 0;
    }
    PyErr_Clear();
    Py_XDECREF(list);
    if (!found) {
        Py_CLEAR(order);
    }
    return order;
}

/* A set whose order is that in which it lists its items: only where a set can be made of them that lists them so too. */
DynVal *rec_wrap_set(DynRec *r, PyObject *o) {
    DynVal *v = dyn_rec_seq(r, DV_SET, 0, NULL, o);
    PyObject *items = PySequence_Tuple(o), *order = NULL;
    bool plain = items != NULL; /* hashing others runs code that can be seen */
    for (Py_ssize_t i = 0; plain && i < PyTuple_GET_SIZE(items); i++) {
        plain = rec_plain_key(PyTuple_GET_ITEM(items, i));
    }
    order = plain ? rec_set_order(items) : NULL;
    for (Py_ssize_t i = 0; v != NULL && order != NULL && i < PyTuple_GET_SIZE(items); i++) {
        PyObject *x = PyTuple_GET_ITEM(items, i);
        DynVal *k = rec_object(r, x);
        v = k != NULL && rec_push_item(r, v, k) == 0 ? v : NULL;
    }
    v = order == NULL ? NULL : v;
    PyErr_Clear();
    Py_XDECREF(items);
    Py_XDECREF(order);
    if (v != NULL) {
        v->type = PyFrozenSet_CheckExact(o) ? (PyObject *)&PyFrozenSet_Type : NULL;
    }
    return v;
}
