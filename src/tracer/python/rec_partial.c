/* rec_partial.c: callables that hold arguments: functools.partial, operator.itemgetter, attrgetter and methodcaller, made inside
 * or coming in (DV_PARTIAL). A call of one is the call, the items or the attributes that it stands for.
 *
 * Called by rec_call.c (making and calling them), dyn_rec_resolve and rec_recipe.c. Getters never change, so one that comes in is
 * guarded by identity; of a partial, its function and arguments are looked at. */
#include "tracer/record/rec_callables.h"

static PyObject *s_func, *s_args, *s_keywords;

/* REC_PARTIAL …; -1: the type is none of them. */
static int kind_of(const PyTypeObject *type) { return rec_callable_argument((PyObject *)type, rec_on_new_partial); }

bool rec_is_partial(PyObject *o) { return kind_of(Py_TYPE(o)) >= 0; }

/* n items, of which the last ones belong to the keywords. */
static DynVal *new_partial(DynRec *r, PyTypeObject *type, uint32_t n, DynVal **items, PyObject *kwnames) {
    DynVal *v = dyn_rec_seq(r, DV_PARTIAL, n, items, NULL);
    if (v == NULL || (kwnames != NULL && rec_keep(r, kwnames) < 0)) {
        return NULL;
    }
    v->partial.type = (PyObject *)type;
    v->partial.kwnames = kwnames;
    v->partial.npos = n - (kwnames ? (uint32_t)PyTuple_GET_SIZE(kwnames) : 0);
    return v;
}

/* ---- coming in */

static DynVal *part(DynRec *r, DynVal *v, PyObject *name, PyObject *o) {
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, v->source, 0, NULL, name);
    DynVal *found = s == DYN_NONE ? NULL : rec_source(r, s);
    return found == NULL || (name != s_func && dyn_rec_resolve(r, found, o) < 0) ? NULL : found;
}

static int resolve_partial(DynRec *r, DynVal *v, PyObject *o) {
    PyObject *func = PyObject_GetAttr(o, s_func), *args = PyObject_GetAttr(o, s_args), *kw = PyObject_GetAttr(o, s_keywords);
    bool whole = func && args && kw;
    bool plain = whole && PyTuple_CheckExact(args) && PyDict_CheckExact(kw);
    DynVal *f = plain ? part(r, v, s_func, func) : NULL;
    DynVal *a = f ? part(r, v, s_args, args) : NULL;
    DynVal *k = a ? part(r, v, s_keywords, kw) : NULL;
    PyObject *kwnames = k != NULL && k->kind == DV_DICT && k->n > 0 ? PySequence_Tuple(kw) : NULL;
    DynVal **items = NULL;
    uint32_t n = 0;
    int status = -1;
    PyErr_Clear();
    bool listed = k != NULL && k->kind == DV_DICT && rec_items(r, a, args, &items, &n) == 0;
    if (listed && n == PyTuple_GET_SIZE(args) && (k->n == 0) == (kwnames == NULL)) {
        DynVal **all = DYN_NEW_N(&r->arena, DynVal *, 1 + n + k->n / 2);
        if (all != NULL) {
            all[0] = f;
            memcpy(all + 1, items, n * sizeof *all);
            for (uint32_t i = 0; i < k->n / 2; i++) {
                all[1 + n + i] = k->items[2 * i + 1];
            }
            v->items = all;
            v->n = v->cap = 1 + n + k->n / 2;
            v->partial.npos = 1 + n;
            v->partial.kwnames = kwnames;
            v->partial.type = (PyObject *)Py_TYPE(o);
            v->kind = DV_PARTIAL;
            status = kwnames != NULL ? rec_keep(r, kwnames) : 0;
        }
    }
    Py_XDECREF(kwnames);
    Py_XDECREF(func);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    return status;
}

/* What a getter was made with: plain constants, or it stays unknown. */
static int resolve_getter(DynRec *r, DynVal *v, PyObject *o) {
    PyObject *made = PyObject_CallMethod(o, "__reduce__", NULL);
    PyObject *args = made && PyTuple_CheckExact(made) && PyTuple_GET_SIZE(made) == 2 ? PyTuple_GET_ITEM(made, 1) : NULL;
    bool plain = args != NULL && PyTuple_CheckExact(args) && PyTuple_GET_ITEM(made, 0) == (PyObject *)Py_TYPE(o);
    uint32_t n = plain ? (uint32_t)PyTuple_GET_SIZE(args) : 0;
    DynVal **items = plain ? DYN_NEW_N(&r->arena, DynVal *, n + 1) : NULL;
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        if ((items[i] = rec_wrap_result(r, PyTuple_GET_ITEM(args, i))) == NULL || rec_keep(r, PyTuple_GET_ITEM(args, i)) < 0) {
            items = NULL;
        }
    }
    PyErr_Clear();
    int status = items == NULL ? -1 : rec_guard(r, DYN_GUARD_ID, v->source, DYN_NONE, 0, o);
    if (status == 0 && (status = rec_keep(r, o)) == 0) {
        v->items = items;
        v->n = v->cap = v->partial.npos = n;
        v->partial.type = (PyObject *)Py_TYPE(o);
        v->kind = DV_PARTIAL;
    }
    Py_XDECREF(made);
    return status;
}

int rec_resolve_partial(DynRec *r, DynVal *v, PyObject *o) {
    if (rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) < 0) {
        return -1;
    }
    if ((kind_of(Py_TYPE(o)) == REC_PARTIAL ? resolve_partial(r, v, o) : resolve_getter(r, v, o)) < 0) {
        v->kind = DV_OBJECT;
    }
    return 0;
}

/* ---- made inside */

/* The arguments of a call behind those that a partial holds; the call's keywords are newer. */
static int behind(DynRec *r, const DynVal *held, const DynOperand *held_real, const RecCall *c, RecCall *out) {
    uint32_t npos = held->partial.npos, nkw = held->n - held->partial.npos, n = held->n + c->npos + c->nkw;
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, n + 1);
    PyObject *merged = PyList_New(0);
    if (args == NULL || merged == NULL) {
        PyErr_Clear();
        Py_XDECREF(merged);
        return -1;
    }
    memcpy(args, held_real, npos * sizeof *args);
    if (c->npos > 0) {
        memcpy(args + npos, c->args, c->npos * sizeof *args);
    }
    DynOperand *kw = args + npos + c->npos;
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < nkw + c->nkw; i++) {
        bool own = i < nkw;
        PyObject *name = own ? PyTuple_GET_ITEM(held->partial.kwnames, i) : PyTuple_GET_ITEM(c->kwnames, i - nkw);
        Py_ssize_t at = PySequence_Index(merged, name);
        PyErr_Clear();
        at = at >= 0 ? at : PyList_GET_SIZE(merged);
        kw[at] = own ? held_real[npos + i] : c->args[c->npos + i - nkw];
        status = at == PyList_GET_SIZE(merged) ? PyList_Append(merged, name) : 0;
    }
    *out = (RecCall){.args = args, .npos = npos + c->npos, .nkw = (uint32_t)PyList_GET_SIZE(merged)};
    out->kwnames = out->nkw ? PyList_AsTuple(merged) : NULL;
    Py_DECREF(merged);
    if (out->nkw && (out->kwnames == NULL || rec_keep(r, out->kwnames) < 0)) {
        status = -1;
    }
    Py_XDECREF(out->kwnames); /* the recording keeps it */
    PyErr_Clear();
    return status;
}

/* The real objects that a partial holds: borrowed from it. */
static DynOperand *held_operands(DynRec *r, DynOperand o) {
    PyObject *func = PyObject_GetAttr(o.real, s_func), *args = PyObject_GetAttr(o.real, s_args),
             *kw = PyObject_GetAttr(o.real, s_keywords);
    DynOperand *held = DYN_NEW_N(&r->arena, DynOperand, o.v->n + 1);
    bool whole = func && args && kw;
    bool typed = whole && PyTuple_CheckExact(args) && PyDict_CheckExact(kw);
    bool same = typed && PyTuple_GET_SIZE(args) + 1 == (Py_ssize_t)o.v->partial.npos &&
                PyDict_GET_SIZE(kw) == (Py_ssize_t)(o.v->n - o.v->partial.npos);
    same = same && held != NULL;
    for (uint32_t i = 0; same && i < o.v->n; i++) {
        PyObject *real = func;
        if (i >= o.v->partial.npos) {
            real = PyDict_GetItemWithError(kw, PyTuple_GET_ITEM(o.v->partial.kwnames, i - o.v->partial.npos));
        } else if (i > 0) {
            real = PyTuple_GET_ITEM(args, i - 1);
        }
        same = real != NULL;
        held[i] = (DynOperand){o.v->items[i], real};
    }
    PyErr_Clear();
    Py_XDECREF(func);
    Py_XDECREF(args);
    Py_XDECREF(kw);
    return same ? held : NULL;
}

/* A partial of a partial is one of its function, where nobody gave the inner one attributes. */
static bool flattens(PyObject *made, DynOperand func) {
    PyObject *f = PyObject_GetAttr(made, s_func);
    bool flat = f != NULL && f != func.real;
    PyErr_Clear();
    Py_XDECREF(f);
    return flat;
}

static DynVal *shadow_of(DynRec *r, const RecCall *c, PyObject *made) {
    RecCall all = *c;
    int k = kind_of((PyTypeObject *)c->callable.real);
    if (k == REC_PARTIAL && flattens(made, c->args[0])) {
        RecCall rest = *c;
        DynOperand *held = c->args[0].v->kind == DV_PARTIAL ? held_operands(r, c->args[0]) : NULL;
        rest.args++;
        rest.npos--;
        if (held == NULL || behind(r, c->args[0].v, held, &rest, &all) < 0) {
            return NULL;
        }
    }
    uint32_t n = all.npos + all.nkw;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        items[i] = all.args[i].v;
        bool known =
            k == REC_PARTIAL || (dyn_rec_resolve(r, items[i], all.args[i].real) == 0 && rec_keep(r, all.args[i].real) == 0);
        if (!known || (k == REC_ATTRGETTER && items[i]->kind != DV_CONST)) {
            return NULL;
        }
    }
    PyObject *kwnames = all.nkw ? all.kwnames : NULL;
    return items ? new_partial(r, (PyTypeObject *)c->callable.real, n, items, kwnames) : NULL;
}

DynVal *rec_on_new_partial(DynRec *r, const RecCall *c, PyObject **result, int which) {
    if (c->npos < 1) {
        return REC_DECLINED;
    }
    if (which == REC_PARTIAL && rec_is_partial(c->args[0].real) && dyn_rec_resolve(r, c->args[0].v, c->args[0].real) < 0) {
        *result = rec_call_real(c);
        return NULL;
    }
    *result = rec_call_real(c);
    DynVal *v = *result ? shadow_of(r, c, *result) : NULL;
    return rec_known_or(r, v, *result, DYN_R_OPAQUE_CALL, ((PyTypeObject *)c->callable.real)->tp_name);
}

/* ---- called */

static DynVal *attribute(DynRec *r, DynOperand o, PyObject *name, PyObject **result) {
    RecCall get = {0};
    DynVal *v = NULL;
    RecAttr how = dyn_rec_resolve(r, o.v, o.real) == 0 ? rec_attr_of(r, o, name, &get, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        return rec_call_function(r, &get, result);
    }
    *result = PyObject_GetAttr(o.real, name);
    if (*result == NULL || how == REC_ATTR_UNKNOWN) {
        return NULL;
    }
    return how == REC_ATTR_SOURCE ? rec_attr(r, o, name, *result) : v;
}

/* One step of a getter: kept by the recording. real NULL: raised. */
static DynOperand one_step(DynRec *r, DynOperand o, DynOperand key, bool item) {
    DynOperand got = {0};
    rec_taken_so_far(r);
    if (o.v != NULL && r->cap != NULL && !r->take_lost) {
        got.v = item ? rec_item_of(r, o, key, &got.real) : attribute(r, o, key.real, &got.real);
    } else {
        got.real = item ? PyObject_GetItem(o.real, key.real) : PyObject_GetAttr(o.real, key.real);
    }
    if (got.real != NULL && got.v == NULL) {
        rec_take_failed(r, r->why, r->detail);
    }
    int kept = got.real != NULL ? rec_keep(r, got.real) : 0;
    Py_XDECREF(got.real);
    if (kept < 0) {
        PyErr_NoMemory();
        got.real = NULL;
    }
    return got;
}

/* a.b.c */
static DynOperand dotted(DynRec *r, DynOperand o, PyObject *path) {
    PyObject *dot = PyUnicode_FromString("."), *parts = dot ? PyUnicode_Split(path, dot, -1) : NULL;
    Py_XDECREF(dot);
    o.real = parts ? o.real : NULL;
    for (Py_ssize_t i = 0; o.real != NULL && i < PyList_GET_SIZE(parts); i++) {
        PyObject *name = Py_NewRef(PyList_GET_ITEM(parts, i));
        PyUnicode_InternInPlace(&name);
        o = rec_keep(r, name) < 0 ? (PyErr_NoMemory(), (DynOperand){0}) : one_step(r, o, (DynOperand){NULL, name}, false);
        Py_DECREF(name);
    }
    Py_XDECREF(parts);
    return o;
}

/* What a getter was made with: a keyword's value where there is a name. Borrowed from it. */
static PyObject *held_by_name(PyObject *getter, PyObject *name) {
    PyObject *made = PyObject_CallMethod(getter, "__reduce__", NULL), *partial = made ? PyTuple_GetItem(made, 0) : NULL;
    PyObject *kw = partial ? PyObject_GetAttr(partial, s_keywords) : NULL;
    PyObject *o = kw && PyDict_Check(kw) ? PyDict_GetItemWithError(kw, name) : NULL;
    Py_XDECREF(kw);
    Py_XDECREF(made);
    return o;
}

static PyObject *held_item(PyObject *getter, uint32_t i) {
    PyObject *made = PyObject_CallMethod(getter, "__reduce__", NULL), *args = made ? PyTuple_GetItem(made, 1) : NULL;
    PyObject *o = args ? PyTuple_GetItem(args, i) : NULL;
    Py_XDECREF(made); /* the getter holds them, and the recording what it was made with */
    return o;
}

DynVal *rec_call_getter(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand f = c->callable;
    int k = f.v->kind == DV_PARTIAL ? kind_of((PyTypeObject *)f.v->partial.type) : -1;
    bool getter = k == REC_ITEMGETTER || k == REC_ATTRGETTER;
    if (!getter || c->npos != 1 || c->nkw != 0) {
        return REC_DECLINED;
    }
    if (dyn_rec_resolve(r, c->args[0].v, c->args[0].real) < 0) {
        return REC_DECLINED;
    }
    uint32_t n = f.v->n;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    PyObject *tuple = items ? PyTuple_New(n) : PyErr_NoMemory();
    DynOperand got = {0};
    rec_begin_taking(r);
    for (uint32_t i = 0; tuple != NULL && i < n; i++) {
        PyObject *key = k == REC_ATTRGETTER ? rec_constant_of(f.v->items[i]) : held_item(f.real, i);
        if (key != NULL && k == REC_ITEMGETTER) {
            got = one_step(r, c->args[0], (DynOperand){f.v->items[i], key}, true);
        } else if (key != NULL) {
            got = dotted(r, c->args[0], key);
        }
        if (key == NULL || got.real == NULL) {
            Py_CLEAR(tuple);
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(got.real));
        items[i] = got.v;
    }
    if (tuple == NULL) {
        return NULL;
    }
    *result = n == 1 ? Py_NewRef(got.real) : Py_NewRef(tuple);
    Py_DECREF(tuple);
    if (r->take_lost) {
        return NULL;
    }
    return n == 1 ? got.v : dyn_rec_seq(r, DV_TUPLE, n, items, *result);
}

/* A partial's call is its function's, a methodcaller's the method's. 1: *c is that call now. */
int rec_unwrap_partial(DynRec *r, RecCall *c) {
    DynOperand f = c->callable, *held, o = c->npos == 1 && c->nkw == 0 ? c->args[0] : (DynOperand){0};
    RecCall call;
    int k = kind_of((PyTypeObject *)f.v->partial.type);
    if (k == REC_PARTIAL) {
        if ((held = held_operands(r, f)) == NULL || behind(r, f.v, held, c, &call) < 0) {
            return 0;
        }
        call.callable = call.args[0];
        call.args++;
        call.npos--;
        *c = call;
        return rec_keep(r, f.real) == 0;
    }
    if (k != REC_METHODCALLER || o.v == NULL) {
        return 0;
    }
    if (dyn_rec_resolve(r, o.v, o.real) < 0 || o.v->kind == DV_OPAQUE) {
        return 0;
    }
    /* What a named one reduces to is a partial of its name and keywords, and the other arguments. */
    bool named = f.v->partial.kwnames != NULL;
    uint32_t npos = f.v->partial.npos - 1;
    PyObject *name = rec_constant_or_null(f.v->items[0]), *method = NULL;
    RecCall get = {0};
    DynVal *v = NULL;
    RecAttr how = name == NULL || !PyUnicode_CheckExact(name) ? REC_ATTR_UNKNOWN : rec_attr_of(r, o, name, &get, &v);
    if (how == REC_ATTR_VALUE || how == REC_ATTR_SOURCE) {
        method = PyObject_GetAttr(o.real, name);
        if (method == NULL) {
            v = NULL;
        } else if (how == REC_ATTR_SOURCE) {
            v = rec_attr(r, o, name, method);
        }
    }
    PyErr_Clear();
    bool known = method != NULL && v != NULL && rec_keep(r, method) == 0;
    Py_XDECREF(method);
    call = (RecCall){.callable = {v, method}, .npos = npos, .nkw = f.v->n - f.v->partial.npos, .kwnames = f.v->partial.kwnames};
    call.args = known ? DYN_NEW_N(&r->arena, DynOperand, f.v->n + 1) : NULL;
    for (uint32_t i = 0; call.args != NULL && i < npos + call.nkw; i++) {
        PyObject *real =
            i < npos ? held_item(f.real, i + !named) : held_by_name(f.real, PyTuple_GET_ITEM(f.v->partial.kwnames, i - npos));
        call.args[i] = (DynOperand){f.v->items[1 + i], real};
    }
    if (call.args == NULL) {
        return 0;
    }
    *c = call;
    return 1;
}

/* ---- as recipes */

uint32_t rec_partial_recipe(DynRec *r, DynVal *v) {
    uint32_t n = 0, *items = DYN_NEW_N(&r->cap->arena, uint32_t, v->n + 2);
    PyObject *make = v->partial.kwnames == NULL ? v->partial.type : rec_polyfill("again", "call");
    if (items == NULL || make == NULL) {
        return DYN_NONE;
    }
    if (v->partial.kwnames != NULL) { /* its keywords' names come first */
        items[n++] = dyn_capture_constant(r->cap, v->partial.type);
        items[n++] = dyn_capture_constant(r->cap, v->partial.kwnames);
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if ((items[n++] = rec_recipe(r, v->items[i])) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, make, n, items);
}

int rec_partial_init(void) {
    s_func = PyUnicode_InternFromString("func");
    s_args = PyUnicode_InternFromString("args");
    s_keywords = PyUnicode_InternFromString("keywords");
    return s_func && s_args && s_keywords ? 0 : -1;
}
