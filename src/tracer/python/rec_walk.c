/* rec_walk.c: dicts of names that vary from call to call. Where an entry was missed because a dict had other keys or a string was
 * another (DynRecording.names_vary), a dict that is only walked over is known by its length, its keys and values by their places
 * in it, and an item is read by whatever name is given: so one entry serves all names.
 *
 * A dict that is known by place (DynVal.by_place) is a DV_DICT whose keys are DV_SOURCE. Whoever looks at a dict otherwise calls
 * dyn_rec_resolve as for every shadow, which guards the keys first (rec_pin_keys). Those who walk call rec_resolve_walked in its
 * place: loops, len(), zip(), enumerate(), list(), tuple(), and keys(), values(), items(). */
#include "tracer/record/rec_callables.h"

enum { MOST_BY_PLACE = 32 }; /* items: the guards find each by walking from the first */

/* An exact dict that came in, at which nobody looked yet, on this way or another. */
static bool is_unseen(const DynRec *r, DynOperand o) {
    bool untouched = o.v->kind == DV_SOURCE && !o.v->touched;
    bool unseen = r->req->names_vary && untouched && PyDict_CheckExact(o.real);
    for (uint32_t i = 0; unseen && i < r->seen.n; i++) {
        unseen = r->seen.at[i].real != o.real || r->seen.at[i].v == o.v;
    }
    return unseen;
}

static bool may_walk(const DynRec *r, DynOperand o) {
    PyObject *key;
    Py_ssize_t pos = 0;
    bool names = is_unseen(r, o) && PyDict_GET_SIZE(o.real) <= MOST_BY_PLACE;
    while (names && PyDict_Next(o.real, &pos, &key, NULL)) {
        names = PyUnicode_CheckExact(key);
    }
    return names;
}

static int resolve_by_place(DynRec *r, DynOperand o) {
    DynVal *v = o.v;
    Py_ssize_t n = PyDict_GET_SIZE(o.real);
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, 2 * n + 2);
    if (items == NULL || rec_guard(r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)&PyDict_Type) < 0) {
        return -1;
    }
    if (rec_guard(r, DYN_GUARD_LEN, v->source, DYN_NONE, n, NULL) < 0 || rec_saw(r, o.real, v) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < (uint32_t)(2 * n); i++) {
        DynSourceKind kind = i % 2 == 0 ? DYN_SRC_NTH_KEY : DYN_SRC_NTH_VALUE;
        uint32_t s = dyn_source_intern(&r->cap->sources, kind, v->source, i / 2, NULL, NULL);
        if (s == DYN_NONE || (items[i] = rec_source(r, s)) == NULL) {
            return -1;
        }
    }
    v->items = items;
    v->n = (uint32_t)(2 * n);
    v->cap = v->n + 2;
    v->kind = DV_DICT;
    v->by_place = true;
    v->dict = o.real;
    return 0;
}

static DynVal *walked_dict(DynVal *v) { return v->kind == DV_VIEW ? v->view.dict : v; }

int rec_resolve_walked(DynRec *r, DynVal *v, PyObject *real) {
    DynOperand o = {v, real};
    DynVal *dict = walked_dict(v);
    if (dict->kind == DV_DICT && dict->by_place) {
        return 0;
    }
    return may_walk(r, o) ? resolve_by_place(r, o) : dyn_rec_resolve(r, v, real);
}

int rec_pin_keys(DynRec *r, DynVal *v) {
    DynVal *dict = walked_dict(v);
    if (dict->kind != DV_DICT || !dict->by_place) {
        return 0;
    }
    PyObject *keys = PyDict_Keys(dict->dict), *tuple = keys != NULL ? PyList_AsTuple(keys) : NULL;
    Py_XDECREF(keys);
    bool same = tuple != NULL && 2 * (uint64_t)PyTuple_GET_SIZE(tuple) == dict->n;
    int status = same ? rec_guard(r, DYN_GUARD_KEYS, dict->source, DYN_NONE, 0, tuple) : -1;
    for (uint32_t i = 0; status == 0 && i < dict->n; i += 2) {
        PyObject *name = PyTuple_GET_ITEM(tuple, i / 2);
        status = rec_keep(r, name);
        rec_become_const(dict->items[i], name);
    }
    dict->by_place = status != 0;
    PyErr_Clear();
    Py_XDECREF(tuple);
    return status;
}

DynVal *rec_key_of(DynRec *r, const DynVal *dict, uint32_t i) {
    DynVal *key = dict->items[2 * i];
    if (dict->by_place) {
        return key;
    }
    return key->source != DYN_NONE ? rec_source(r, key->source) : dyn_rec_const(r, rec_constant_of(key)); /* a parameter */
}

int rec_resolve_for_attribute(DynRec *r, DynOperand o, PyObject *name) {
    PyObject *method = PyDict_CheckExact(o.real) ? dyn_cpy_lookup_special(&PyDict_Type, name) : NULL;
    bool walks = method != NULL && rec_has_flag(method, REC_WALKS);
    return walks ? rec_resolve_walked(r, o.v, o.real) : dyn_rec_resolve(r, o.v, o.real);
}

DynVal *rec_item_by_name(DynRec *r, DynOperand o, DynOperand index) {
    bool by_name = index.v->kind == DV_SOURCE && PyUnicode_CheckExact(index.real);
    bool named = r->req->names_vary && by_name && !o.v->touched;
    PyObject *value = named && PyDict_Check(o.real) ? PyDict_GetItemWithError(o.real, index.real) : NULL;
    PyErr_Clear();
    if (value == NULL) {
        return NULL;
    }
    if (o.v->kind == DV_DICT && o.v->by_place) {
        for (uint32_t i = 0; i < o.v->n; i += 2) {
            if (o.v->items[i] == index.v) {
                return o.v->items[i + 1];
            }
        }
    } else if (PyDict_CheckExact(o.real)) {
        if (!is_unseen(r, o) || rec_saw_part(r, o, &PyDict_Type) < 0) {
            return NULL;
        }
    } else if (dyn_rec_resolve(r, o.v, o.real) < 0 || !rec_is_held(o) || rec_type_method(r, o, "__getitem__").v != NULL) {
        return NULL;
    }
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_NAMED, o.v->source, index.v->source, NULL, NULL);
    return s == DYN_NONE ? NULL : rec_source(r, s);
}
