/* rec_methods.c: methods and in-place operators of Python's containers and strings. Each runs for real; its shadow then shows
 * what the container holds, and where the container outlives the call the change is an effect (rec_effects.c).
 *
 * The handlers of callables.def are asked by rec_callables.c with arguments that were looked at; the rest is called by rec_call.c
 * and the subscript handlers. */
#include "tracer/record/rec_callables.h"

/* ---- what all of them do */

/* The method as it was called is the effect on its first argument; v is the shadow of its result. */
static DynVal *changed(DynRec *r, const RecCall *c, DynVal *v) {
    DynVal *items[4];
    if (c->nkw != 0 || c->npos > DYN_COUNTOF(items)) {
        return rec_fail(r, DYN_R_SIDE_EFFECT, NULL);
    }
    for (uint32_t i = 0; i < c->npos; i++) {
        items[i] = c->args[i].v;
    }
    return v == NULL || rec_effect(r, c->args[0], DYN_FX_CALL, c->callable.real, c->npos, items) < 0 ? NULL : v;
}

static DynVal *none_of(DynRec *r) { return dyn_rec_const(r, Py_None); }

static int burn_args(DynRec *r, const RecCall *c, uint32_t from) {
    for (uint32_t i = from; i < c->npos + c->nkw; i++) {
        if (dyn_rec_burn(r, c->args[i].v, c->args[i].real) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A method without effects, of things that are the same at every call. */
static DynVal *pure(DynRec *r, const RecCall *c, PyObject **result) {
    bool known = burn_args(r, c, 0) == 0;
    *result = rec_call_real(c);
    if (*result == NULL) {
        if (known) { /* it raises at every call */
            rec_known_error(r, NULL);
        }
        return NULL;
    }
    return known ? rec_wrap_fresh(r, *result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "method");
}

DynVal *rec_on_method_of_constant(DynRec *r, const RecCall *c, PyObject **result, int arg) { return pure(r, c, result); }

DynVal *rec_on_conjugate(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    *result = rec_call_real(c);
    return *result ? rec_complex_conjugate(r, c->args[0], *result) : NULL;
}

/* ---- lists */

/* A list that outlives the call gets all its items anew: for changes that have no simpler form. */
static int refilled(DynRec *r, DynOperand list) {
    PyObject *all = PySlice_New(NULL, NULL, NULL);
    DynVal *copy = dyn_rec_seq(r, DV_LIST, list.v->n, list.v->items, NULL), *none = none_of(r);
    DynVal *items[3] = {list.v, rec_new_slice(r, DV_SLICE, none, none, none), copy};
    Py_XDECREF(all);
    return all == NULL || copy == NULL || items[1] == NULL ? -1 : rec_effect(r, list, DYN_FX_SETITEM, NULL, 3, items);
}

int rec_list_reordered(DynRec *r, DynOperand list, DynVal **items) {
    list.v->items = items;
    list.v->cap = list.v->n;
    return refilled(r, list);
}

/* The items of a list, in the order in which `list` has them now: before[i], borrowed, is what items[i] stands for. Each is found
 * by identity, so that equal ones aren't taken for each other. NULL: other objects are in it. */
DynVal **rec_permuted(DynRec *r, DynVal *const *items, PyObject *const *before, uint32_t n, PyObject *list) {
    DynVal **now = DYN_NEW_N(&r->arena, DynVal *, n + 1);
    bool *taken = DYN_NEW_N(&r->arena, bool, n + 1), all = now != NULL && taken != NULL && PyList_GET_SIZE(list) == (Py_ssize_t)n;
    for (uint32_t i = 0; all && i < n; i++) {
        for (uint32_t k = 0; k < n && now[i] == NULL; k++) {
            if (!taken[k] && before[k] == PyList_GET_ITEM(list, i)) {
                now[i] = items[k];
                taken[k] = true;
            }
        }
        all = now[i] != NULL;
    }
    return all ? now : NULL;
}

static int reordered(DynRec *r, DynOperand list, PyObject *const *before) {
    DynVal **items = rec_permuted(r, list.v->items, before, list.v->n, list.real);
    return items == NULL ? -1 : rec_list_reordered(r, list, items);
}

static DynVal *list_sort(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand list = c->args[0];
    bool known = dyn_rec_burn(r, list.v, list.real) == 0;
    PyObject **before = DYN_NEW_N(&r->arena, PyObject *, list.v->n + 1);
    for (uint32_t i = c->npos; known && i < c->npos + c->nkw; i++) {
        known =
            c->args[i].real == Py_None || (c->args[i].v->kind == DV_SYM && dyn_rec_burn(r, c->args[i].v, c->args[i].real) == 0);
    }
    for (Py_ssize_t i = 0; known && before != NULL && i < PyList_GET_SIZE(list.real); i++) {
        before[i] = PyList_GET_ITEM(list.real, i);
    }
    *result = rec_call_real(c);
    if (*result == NULL || !known || before == NULL) {
        return NULL;
    }
    return reordered(r, list, before) < 0 ? NULL : none_of(r);
}

int rec_insert_item(DynRec *r, DynVal *list, Py_ssize_t at, DynVal *v) {
    at += at < 0 ? (Py_ssize_t)list->n : 0;
    if (at < 0) {
        at = 0;
    } else if (at > (Py_ssize_t)list->n) {
        at = (Py_ssize_t)list->n;
    }
    if (rec_push_item(r, list, v) < 0) {
        return -1;
    }
    memmove(list->items + at + 1, list->items + at, (list->n - 1 - (uint32_t)at) * sizeof *list->items);
    list->items[at] = v;
    return 0;
}

static void list_drop(DynVal *list, uint32_t at, uint32_t n) {
    memmove(list->items + at, list->items + at + n, (list->n - at - n) * sizeof *list->items);
    list->n -= n;
}

static DynVal *list_pop(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *list = c->args[0].v, *v = NULL;
    bool known = burn_args(r, c, 1) == 0;
    Py_ssize_t at = c->npos == 2 && PyLong_CheckExact(c->args[1].real) ? PyLong_AsSsize_t(c->args[1].real) : -1;
    *result = rec_call_real(c);
    at += at < 0 ? (Py_ssize_t)list->n : 0;
    bool inside = at >= 0 && at < (Py_ssize_t)list->n;
    if (*result != NULL && known && inside) {
        v = list->items[at];
        list_drop(list, (uint32_t)at, 1);
        v = changed(r, c, v);
    }
    return v;
}

/* Where a plain value lies among plain values: what is found is guarded. */
static DynVal *list_remove(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand list = c->args[0];
    Py_ssize_t n = PyList_GET_SIZE(list.real), at = n;
    bool known = c->npos == 2 && burn_args(r, c, 0) == 0 && rec_plain_key(c->args[1].real);
    for (Py_ssize_t i = 0; known && i < at; i++) {
        PyObject *o = PyList_GET_ITEM(list.real, i);
        known = rec_plain_key(o);
        at = known && PyObject_RichCompareBool(o, c->args[1].real, Py_EQ) == 1 ? i : at;
    }
    *result = rec_call_real(c);
    if (*result == NULL || !known || at == n) {
        return NULL;
    }
    list_drop(list.v, (uint32_t)at, 1);
    return changed(r, c, none_of(r));
}

static DynVal *extend_known(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *list = c->args[0].v, **items, *tuple = NULL;
    uint32_t n = 0;
    bool listed = c->npos == 2 && c->args[1].v->kind != DV_ITER;
    listed = listed && rec_items(r, c->args[1].v, c->args[1].real, &items, &n) == 0;
    bool known = listed && (tuple = dyn_rec_seq(r, DV_TUPLE, n, items, NULL)) != NULL;
    *result = rec_call_real(c);
    for (uint32_t i = 0; known && *result != NULL && i < n; i++) {
        known = rec_push_item(r, list, tuple->items[i]) == 0;
    }
    if (*result == NULL || !known) {
        return NULL;
    }
    DynVal *both[2] = {list, tuple};
    return rec_effect(r, c->args[0], DYN_FX_CALL, c->callable.real, 2, both) < 0 ? NULL : none_of(r);
}

/* list.extend(iterator): one item after the other, which the iterator's code may see. */
static DynVal *extend_one_by_one(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand self = c->args[0];
    DynVal *v;
    PyObject *item, *append = PyObject_GetAttrString((PyObject *)&PyList_Type, "append");
    bool known = append != NULL;
    while (append != NULL && (item = rec_take(r, c->args[1], &v)) != NULL) {
        int status = PyList_Append(self.real, item);
        DynVal *items[2] = {self.v, v};
        known = known && v != NULL && rec_keep(r, item) == 0;
        known = known && rec_push_item(r, self.v, v) == 0 && rec_effect(r, self, DYN_FX_CALL, append, 2, items) == 0;
        Py_DECREF(item);
        if (status < 0) {
            break;
        }
    }
    Py_XDECREF(append);
    *result = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    return known && !r->take_lost && *result != NULL ? none_of(r) : rec_take_failed(r, DYN_R_SIDE_EFFECT, "extend");
}

static DynVal *list_extend(DynRec *r, const RecCall *c, PyObject **result) {
    bool taken = c->npos == 2 && c->nkw == 0 && rec_is_iterator(c->args[1].v);
    return taken ? extend_one_by_one(r, c, result) : extend_known(r, c, result);
}

static DynVal *list_copy(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *list = c->args[0].v;
    *result = rec_call_real(c);
    return *result == NULL ? NULL : dyn_rec_seq(r, DV_LIST, list->n, list->items, *result);
}

static DynVal *list_append(DynRec *r, const RecCall *c, PyObject **result) {
    *result = rec_call_real(c);
    bool pushed = *result != NULL && rec_push_item(r, c->args[0].v, c->args[1].v) == 0;
    return pushed ? changed(r, c, none_of(r)) : NULL;
}

static DynVal *list_insert(DynRec *r, const RecCall *c, PyObject **result) {
    bool burnt = c->npos == 3 && dyn_rec_burn(r, c->args[1].v, c->args[1].real) == 0;
    *result = rec_call_real(c);
    bool inserted =
        *result != NULL && burnt && rec_insert_item(r, c->args[0].v, PyLong_AsSsize_t(c->args[1].real), c->args[2].v) == 0;
    return inserted ? changed(r, c, none_of(r)) : NULL;
}

static DynVal *list_clear(DynRec *r, const RecCall *c, PyObject **result) {
    *result = rec_call_real(c);
    c->args[0].v->n = *result != NULL ? 0 : c->args[0].v->n;
    return *result != NULL ? changed(r, c, none_of(r)) : NULL;
}

void rec_reverse_items(DynVal *v) {
    for (uint32_t i = 0; i < v->n / 2; i++) {
        DynVal *item = v->items[i];
        v->items[i] = v->items[v->n - 1 - i];
        v->items[v->n - 1 - i] = item;
    }
}

static DynVal *list_reverse(DynRec *r, const RecCall *c, PyObject **result) {
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    rec_reverse_items(c->args[0].v);
    return changed(r, c, none_of(r));
}

DynVal *rec_on_list_method(DynRec *r, const RecCall *c, PyObject **result, int which) {
    if (c->args[0].v->kind != DV_LIST) {
        *result = rec_call_real(c);
        return rec_fail(r, DYN_R_SIDE_EFFECT, "a list is changed");
    }
    r->why = DYN_R_SIDE_EFFECT;
    switch ((RecListMethod)which) {
    case REC_LIST_APPEND: return list_append(r, c, result);
    case REC_LIST_EXTEND: return list_extend(r, c, result);
    case REC_LIST_INSERT: return list_insert(r, c, result);
    case REC_LIST_POP: return list_pop(r, c, result);
    case REC_LIST_REMOVE: return list_remove(r, c, result);
    case REC_LIST_CLEAR: return list_clear(r, c, result);
    case REC_LIST_COPY: return list_copy(r, c, result);
    case REC_LIST_REVERSE: return list_reverse(r, c, result);
    case REC_LIST_SORT: return list_sort(r, c, result);
    case REC_LIST_INDEX:
    case REC_LIST_COUNT: return pure(r, c, result);
    }
    return NULL;
}

/* ---- lists that nobody looked at */

/* A list that came in, that nobody has looked at in this segment, or at some items at its end alone: what else it holds, and how
 * much, doesn't matter to who appends to it or reads its last items. */
bool rec_is_open_list(DynRec *r, DynOperand o) {
    if (o.v->kind != DV_SOURCE || !PyList_CheckExact(o.real)) {
        return false;
    }
    for (uint32_t i = 0; i < r->touched.n; i++) { /* in another place, where it has to be looked at now */
        RecSeen row = r->touched.at[i];
        if (row.real == o.real && row.v != o.v && dyn_rec_resolve(r, row.v, row.real) < 0) {
            return false;
        }
    }
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].real == o.real && r->seen.at[i].v != o.v) {
            return false;
        }
    }
    return true;
}

enum { MOST_FROM_END = 16 };

/* list[-1], list[-2], …: of what was appended in this segment, or of what it ended with when the call began. */
DynVal *rec_item_from_end(DynRec *r, DynOperand o, DynOperand index) {
    int beyond = 0;
    long i = PyLong_CheckExact(index.real) ? PyLong_AsLongAndOverflow(index.real, &beyond) : 0;
    bool there = i < 0 && i >= -MOST_FROM_END && PyList_CheckExact(o.real) && -i <= PyList_GET_SIZE(o.real);
    if (!there || !rec_is_open_list(r, o) || dyn_rec_resolve(r, index.v, index.real) < 0 ||
        dyn_rec_burn(r, index.v, index.real) < 0) {
        return NULL;
    }
    DynVal *list = o.v;
    uint32_t from_end = (uint32_t)-i;
    if (from_end <= list->n) {
        return list->items[list->n - from_end];
    }
    from_end -= list->n;
    uint32_t s = rec_saw_part(r, o, &PyList_Type) < 0
                     ? DYN_NONE
                     : dyn_source_intern(&r->cap->sources, DYN_SRC_FROM_END, list->source, from_end, NULL, NULL);
    list->ends = from_end > list->ends ? from_end : list->ends;
    return s == DYN_NONE ? NULL : rec_source(r, s);
}

DynVal *rec_on_append_open(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    if (c->npos != 2 || c->nkw != 0 || !rec_is_open_list(r, c->args[0])) {
        return REC_DECLINED;
    }
    DynVal *list = c->args[0].v;
    bool known = dyn_rec_resolve(r, c->args[1].v, c->args[1].real) == 0 &&
                 (list->touched || rec_guard(r, DYN_GUARD_TYPE, list->source, DYN_NONE, 0, (PyObject *)&PyList_Type) == 0);
    *result = rec_call_real(c);
    return *result == NULL || !known || rec_push_item(r, list, c->args[1].v) < 0 ? NULL : changed(r, c, none_of(r));
}

/* ---- dicts */

/* What update() and | take: a dict, or pairs. -1: unknown. */
static int merge(DynRec *r, DynVal *into, DynOperand from) {
    DynVal **items;
    uint32_t n;
    bool listed = from.v->kind == DV_VIEW && from.v->view.shows == DYN_VIEW_ITEMS;
    DynVal *dict = listed ? from.v->view.dict : from.v;
    if ((listed || PyDict_Check(from.real)) && dict->kind == DV_DICT) {
        for (uint32_t i = 0; i < dict->n; i += 2) {
            DynOperand key = {dict->items[i], rec_constant_of(dict->items[i])};
            if (rec_dict_put(r, into, key, dict->items[i + 1]) < 0) {
                return -1;
            }
        }
        return 0;
    }
    if ((!PyList_CheckExact(from.real) && !PyTuple_CheckExact(from.real)) || rec_items(r, from.v, from.real, &items, &n) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        PyObject *pair = PySequence_Fast_GET_ITEM(from.real, i), *key;
        DynVal **parts;
        uint32_t two;
        if (!PyTuple_CheckExact(pair) || PyTuple_GET_SIZE(pair) != 2 || rec_items(r, items[i], pair, &parts, &two) < 0) {
            return -1;
        }
        key = PyTuple_GET_ITEM(pair, 0);
        if (!rec_burn_key(r, (DynOperand){parts[0], key}) || rec_dict_put(r, into, (DynOperand){parts[0], key}, parts[1]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* dict(…) and update(…): a mapping or pairs, then keywords. */
int rec_dict_fill(DynRec *r, DynVal *into, const RecCall *c, uint32_t first) {
    if (c->npos > first + 1 || (c->npos == first + 1 && merge(r, into, c->args[first]) < 0)) {
        return -1;
    }
    for (uint32_t i = 0; i < c->nkw; i++) {
        if (rec_dict_set(r, into, PyTuple_GET_ITEM(c->kwnames, i), c->args[c->npos + i].v) < 0) {
            return -1;
        }
    }
    return 0;
}

static DynVal *dict_update(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand dict = c->args[0];
    DynVal *more = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL);
    bool known = more != NULL && rec_dict_fill(r, more, c, 1) == 0;
    *result = rec_call_real(c);
    if (*result == NULL || !known || merge(r, dict.v, (DynOperand){more, dict.real}) < 0) {
        return NULL;
    }
    DynVal *items[2] = {dict.v, more};
    return rec_effect(r, dict, DYN_FX_CALL, c->callable.real, 2, items) < 0 ? NULL : none_of(r);
}

static DynVal *dict_pop(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *dict = c->args[0].v, *v;
    uint32_t at = DYN_NONE;
    bool known = c->npos >= 2 && rec_burn_key(r, c->args[1]);
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return NULL;
    }
    if ((v = rec_dict_find(dict, c->args[1].real, &at)) == NULL) {
        return c->args[2].v;
    }
    rec_dict_drop(dict, at);
    DynVal *items[2] = {dict, c->args[1].v};
    return rec_effect(r, c->args[0], DYN_FX_CALL, c->callable.real, 2, items) < 0 ? NULL : v;
}

static DynVal *dict_popitem(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *dict = c->args[0].v;
    *result = rec_call_real(c);
    if (*result == NULL || dict->n == 0) {
        return NULL;
    }
    DynVal *pair[2] = {rec_key_of(r, dict, dict->n / 2 - 1), dict->items[dict->n - 1]};
    dict->n -= 2;
    dict->state++;
    return pair[0] == NULL ? NULL : changed(r, c, dyn_rec_seq(r, DV_TUPLE, 2, pair, *result));
}

static DynVal *dict_setdefault(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *dict = c->args[0].v, *v;
    bool known = c->npos >= 2 && rec_burn_key(r, c->args[1]);
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return NULL;
    }
    if ((v = rec_dict_find(dict, c->args[1].real, NULL)) != NULL) {
        return v;
    }
    DynVal *items[3] = {dict, c->args[1].v, c->npos > 2 ? c->args[2].v : none_of(r)};
    bool set = items[2] != NULL && rec_dict_put(r, dict, c->args[1], items[2]) == 0;
    return !set || rec_effect(r, c->args[0], DYN_FX_SETITEM, NULL, 3, items) < 0 ? NULL : items[2];
}

static DynVal *dict_get(DynRec *r, const RecCall *c, PyObject **result) {
    bool known = c->npos >= 2 && rec_burn_key(r, c->args[1]);
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return NULL;
    }
    DynVal *v = rec_dict_find(c->args[0].v, c->args[1].real, NULL);
    if (v != NULL) {
        return v;
    }
    return c->npos == 3 ? c->args[2].v : none_of(r);
}

static DynVal *dict_clear(DynRec *r, const RecCall *c, PyObject **result) {
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    c->args[0].v->n = 0;
    c->args[0].v->state++;
    return changed(r, c, none_of(r));
}

static DynVal *dict_view(DynRec *r, const RecCall *c, PyObject **result, DynView shows) {
    *result = rec_call_real(c);
    return *result == NULL ? NULL : rec_new_view(r, c->args[0].v, shows);
}

DynVal *rec_dict_method(DynRec *r, const RecCall *c, PyObject **result, RecDictMethod which) {
    DynVal *dict = c->args[0].v;
    r->why = DYN_R_SIDE_EFFECT;
    if (dict->kind != DV_DICT || (c->nkw != 0 && which != REC_DICT_UPDATE)) {
        *result = rec_call_real(c);
        return *result ? rec_fail(r, DYN_R_UNSUPPORTED_VALUE, rec_callable_name(r, c->callable.real)) : NULL;
    }
    switch (which) {
    case REC_DICT_GET: return dict_get(r, c, result);
    case REC_DICT_KEYS: return dict_view(r, c, result, DYN_VIEW_KEYS);
    case REC_DICT_VALUES: return dict_view(r, c, result, DYN_VIEW_VALUES);
    case REC_DICT_ITEMS: return dict_view(r, c, result, DYN_VIEW_ITEMS);
    case REC_DICT_POP: return dict_pop(r, c, result);
    case REC_DICT_POPITEM: return dict_popitem(r, c, result);
    case REC_DICT_SETDEFAULT: return dict_setdefault(r, c, result);
    case REC_DICT_UPDATE: return dict_update(r, c, result);
    case REC_DICT_CLEAR: return dict_clear(r, c, result);
    case REC_DICT_COPY:
        *result = rec_call_real(c);
        return *result == NULL ? NULL : dyn_rec_seq(r, DV_DICT, dict->n, dict->items, *result);
    case REC_DICT_MOVE_TO_END:
    case REC_DICT_INIT:
    case REC_DICT_LEN:
    case REC_DICT_CONTAINS:
    case REC_DICT_GETITEM:
    case REC_DICT_SETITEM:
    case REC_DICT_DELITEM: break;
    }
    *result = rec_call_real(c);
    return rec_fail(r, DYN_R_SIDE_EFFECT, "a dict is changed");
}

/* A method of dict, called on a dict, on one of `collections`, or on an instance of a class that derives from these. */
DynVal *rec_on_dict_method(DynRec *r, const RecCall *c, PyObject **result, int which) {
    if (c->npos == 0) {
        return REC_DECLINED;
    }
    DynVal *v = rec_held_method(r, c, result, (RecDictMethod)which);
    v = v != REC_DECLINED ? v : rec_collection_dict_method(r, c, result, (RecDictMethod)which);
    if (v != REC_DECLINED || !PyDict_CheckExact(c->args[0].real)) {
        return v;
    }
    return rec_dict_method(r, c, result, (RecDictMethod)which);
}

DynVal *rec_dict_union(DynRec *r, DynOperand a, DynOperand b, bool inplace) {
    DynVal *v = inplace ? a.v : dyn_rec_seq(r, DV_DICT, a.v->n, a.v->items, NULL);
    if (v == NULL || merge(r, v, b) < 0) {
        return NULL;
    }
    if (inplace) {
        PyObject *update = dyn_cpy_lookup_named(&PyDict_Type, "update");
        DynVal *items[2] = {a.v, b.v};
        return update == NULL || rec_effect(r, a, DYN_FX_CALL, update, 2, items) < 0 ? NULL : v;
    }
    return v;
}

/* ---- sets: of plain constants */

/* The set as it is now, in its own order. */
static int set_again(DynRec *r, DynOperand set) {
    DynVal *now = rec_wrap_fresh(r, set.real);
    if (now == NULL || now->kind != DV_SET) {
        return -1;
    }
    set.v->items = now->items;
    set.v->n = now->n;
    set.v->cap = now->cap;
    set.v->state++;
    return 0;
}

/* The method of a set that does what an operator in place does. */
static const char *set_method_of(int nb) {
    switch (nb) {
    case 1: return "intersection_update";
    case 7: return "update";
    case 10: return "difference_update";
    default: return "symmetric_difference_update";
    }
}

DynVal *rec_set_changed(DynRec *r, int nb, DynOperand set, DynOperand other) {
    PyObject *method = dyn_cpy_lookup_named(&PySet_Type, set_method_of(nb));
    DynVal *both[2] = {set.v, other.v};
    bool known = method != NULL && set.v->kind == DV_SET && set_again(r, set) == 0;
    return known && rec_effect(r, set, DYN_FX_CALL, method, 2, both) == 0 ? set.v
                                                                          : rec_fail(r, DYN_R_SIDE_EFFECT, "a set is changed");
}

DynVal *rec_on_set_change(DynRec *r, const RecCall *c, PyObject **result, int which) {
    bool adds = which == REC_SET_ADD && c->npos == 2 && c->nkw == 0;
    bool member = adds && rec_add_member(r, c->args[0], c->args[1]) == 0;
    bool known = !member && c->args[0].v->kind == DV_SET && burn_args(r, c, 1) == 0;
    *result = rec_call_real(c);
    r->why = DYN_R_SIDE_EFFECT;
    if (member) {
        return *result == NULL ? NULL : none_of(r);
    }
    return *result == NULL || !known || set_again(r, c->args[0]) < 0 ? NULL : changed(r, c, none_of(r));
}

/* ---- subscripts that change a container: after it ran, with the index burnt in */

static Py_ssize_t burnt_index(DynRec *r, DynOperand index, uint32_t n) {
    if (!PyLong_CheckExact(index.real) || dyn_rec_burn(r, index.v, index.real) < 0) {
        return -1;
    }
    Py_ssize_t i = PyLong_AsSsize_t(index.real);
    i += i < 0 ? (Py_ssize_t)n : 0;
    return i < (Py_ssize_t)n ? i : -1;
}

/* list[slice] = items, and del list[slice] (value.v NULL). n: its length before. */
static int list_slice(DynRec *r, DynOperand list, DynOperand index, DynOperand value) {
    Py_ssize_t start, stop, step;
    DynVal **more = NULL;
    uint32_t nmore = 0;
    bool unpacked = dyn_rec_burn(r, index.v, index.real) == 0 && PySlice_Unpack(index.real, &start, &stop, &step) == 0;
    if (!unpacked || (value.v != NULL && rec_items(r, value.v, value.real, &more, &nmore) < 0)) {
        PyErr_Clear();
        return -1;
    }
    Py_ssize_t len = PySlice_AdjustIndices(list.v->n, &start, &stop, step);
    uint32_t n = 0, left = list.v->n - (uint32_t)len;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, left + nmore + 1);
    if (items == NULL) {
        return -1;
    }
    if (step != 1 && value.v != NULL) { /* as many as there were */
        memcpy(items, list.v->items, list.v->n * sizeof *items);
        for (Py_ssize_t k = 0; k < len && k < (Py_ssize_t)nmore; k++) {
            items[start + k * step] = more[k];
        }
        n = list.v->n;
    } else {
        Py_ssize_t at = start, stride = step > 0 ? step : -step;
        if (len > 0 && step < 0) {
            at += (len - 1) * step;
        }
        for (Py_ssize_t i = 0; i <= (Py_ssize_t)list.v->n; i++) {
            if (i == start && step == 1) {
                for (uint32_t k = 0; k < nmore; k++) {
                    items[n++] = more[k];
                }
            }
            bool within = i >= at && i < at + len * stride;
            bool gone = len > 0 && within && (i - at) % stride == 0;
            if (i < (Py_ssize_t)list.v->n && !gone) {
                items[n++] = list.v->items[i];
            }
        }
    }
    list.v->items = items;
    list.v->n = n;
    list.v->cap = left + nmore + 1;
    return PyList_GET_SIZE(list.real) == (Py_ssize_t)n ? refilled(r, list) : -1;
}

int rec_store_item(DynRec *r, DynOperand o, DynOperand index, DynOperand value) {
    DynVal *items[3] = {o.v, index.v, value.v};
    r->why = DYN_R_SIDE_EFFECT;
    if (o.v->kind == DV_LIST && PySlice_Check(index.real)) {
        return list_slice(r, o, index, value);
    }
    if (o.v->kind == DV_LIST || o.v->kind == DV_DEQUE) {
        Py_ssize_t i = burnt_index(r, index, o.v->n);
        if (i < 0) {
            return -1;
        }
        o.v->items[i] = value.v;
    } else if (o.v->kind != DV_DICT || !rec_burn_key(r, index) || rec_dict_put(r, o.v, index, value.v) < 0) {
        return -1;
    }
    return rec_effect(r, o, DYN_FX_SETITEM, NULL, 3, items);
}

int rec_delete_item(DynRec *r, DynOperand o, DynOperand index) {
    DynVal *items[2] = {o.v, index.v};
    uint32_t at;
    r->why = DYN_R_SIDE_EFFECT;
    if (o.v->kind == DV_LIST && PySlice_Check(index.real)) {
        return list_slice(r, o, index, (DynOperand){0});
    }
    if (o.v->kind == DV_LIST || o.v->kind == DV_DEQUE) {
        Py_ssize_t i = burnt_index(r, index, o.v->n);
        if (i < 0) {
            return -1;
        }
        list_drop(o.v, (uint32_t)i, 1);
        o.v->state++;
    } else if (o.v->kind == DV_DICT && rec_burn_key(r, index) && rec_dict_find(o.v, index.real, &at) != NULL) {
        rec_dict_drop(o.v, at);
    } else {
        return -1;
    }
    return rec_effect(r, o, DYN_FX_DELITEM, NULL, 2, items);
}

/* list += items */
DynVal *rec_list_extended(DynRec *r, DynOperand list, DynOperand more) {
    DynVal **items, *tuple;
    uint32_t n;
    PyObject *extend = dyn_cpy_lookup_named(&PyList_Type, "extend");
    if (extend == NULL || rec_items(r, more.v, more.real, &items, &n) < 0 ||
        (tuple = dyn_rec_seq(r, DV_TUPLE, n, items, NULL)) == NULL) {
        return rec_fail(r, DYN_R_SIDE_EFFECT, "a list is extended");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (rec_push_item(r, list.v, tuple->items[i]) < 0) {
            return NULL;
        }
    }
    DynVal *both[2] = {list.v, tuple};
    return rec_effect(r, list, DYN_FX_CALL, extend, 2, both) < 0 ? NULL : list.v;
}

/* ---- iterators */

/* The name of a method or slot of a type; NULL: f is something else. */
static PyObject *name_of_descriptor(PyObject *f) {
    bool descriptor = Py_TYPE(f) == &PyMethodDescr_Type || Py_TYPE(f) == &PyWrapperDescr_Type;
    return descriptor ? ((PyDescrObject *)f)->d_name : NULL;
}

static DynVal *next_of(DynRec *r, const RecCall *c, PyObject **result, DynOperand sent) {
    DynVal *v;
    *result = rec_take_sent(r, c->args[0], sent, &v);
    if (*result == NULL && !PyErr_Occurred()) {
        PyErr_SetNone(PyExc_StopIteration);
        if (!r->take_lost) {
            rec_known_error(r, NULL);
        }
    }
    return *result == NULL ? NULL : v;
}

static DynVal *close_generator(DynRec *r, const RecCall *c, PyObject **result) {
    rec_begin_taking(r);
    bool known = r->cap != NULL && !r->take_lost && rec_generator_close(r, c->args[0]);
    *result = rec_call_real(c);
    return known && *result != NULL ? none_of(r) : rec_take_failed(r, DYN_R_OPAQUE_CALL, "close");
}

/* Methods of generators, and __next__ of any iterator. close() is followed where it runs no code. */
DynVal *rec_call_iterator_method(DynRec *r, const RecCall *c, PyObject **result) {
    PyObject *name = c->npos >= 1 && c->nkw == 0 && rec_is_iterator(c->args[0].v) ? name_of_descriptor(c->callable.real) : NULL;
    bool generator = name != NULL && c->args[0].v->kind == DV_GENERATOR;
    if (generator && c->npos == 2 && PyUnicode_CompareWithASCIIString(name, "send") == 0) {
        return next_of(r, c, result, c->args[1]);
    }
    if (name != NULL && c->npos == 1 && PyUnicode_CompareWithASCIIString(name, "__next__") == 0) {
        return next_of(r, c, result, (DynOperand){none_of(r), Py_None});
    }
    if (generator && c->npos == 1 && PyUnicode_CompareWithASCIIString(name, "close") == 0) {
        return close_generator(r, c, result);
    }
    return REC_DECLINED;
}

/* str.join(iterator): all of them first. */
DynVal *rec_on_join(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    if (c->npos != 2 || c->nkw != 0 || !rec_is_iterator(c->args[1].v)) {
        return pure(r, c, result);
    }
    RecCall call = *c;
    DynOperand args[2] = {c->args[0]};
    args[1].real = rec_take_all(r, c->args[1], &args[1].v);
    call.args = args;
    call.packed = NULL;
    DynVal *v = args[1].real != NULL && args[1].v != NULL ? pure(r, &call, result) : NULL;
    if (args[1].real != NULL && *result == NULL && !PyErr_Occurred()) {
        *result = rec_call_real(&call);
    }
    Py_XDECREF(args[1].real);
    return v != NULL ? v : rec_take_failed(r, r->why, r->detail);
}

/* ---- a method that comes in */

/* The method of a builtin type that o is, bound to an instance: borrowed, or NULL. (Methods of ufuncs are known by the ufunc.) */
PyObject *rec_method_descriptor(PyObject *o) {
    PyObject *self = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : NULL;
    PyObject *descr = self != NULL && (Py_TYPE(self)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && Py_TYPE(self) != &PyUFunc_Type
                          ? dyn_cpy_lookup_named(Py_TYPE(self), ((PyCFunctionObject *)o)->m_ml->ml_name)
                          : NULL;
    bool same = descr != NULL && Py_TYPE(descr) == &PyMethodDescr_Type &&
                ((PyMethodDescrObject *)descr)->d_method == ((PyCFunctionObject *)o)->m_ml;
    return same && dyn_np_find(o) == NULL ? descr : NULL;
}

/* append = items.append: of other items at the next call. */
int rec_resolve_builtin_method(DynRec *r, DynVal *v, PyObject *o, PyObject *descr) {
    uint32_t self = dyn_source_intern(&r->cap->sources, DYN_SRC_SELF, v->source, 0, NULL, NULL);
    DynVal *function = self == DYN_NONE ? NULL : dyn_rec_const(r, descr), *bound_to = function ? rec_source(r, self) : NULL;
    if (bound_to == NULL || rec_keep(r, o) < 0) {
        return -1;
    }
    v->kind = DV_METHOD;
    v->method.function = function;
    v->method.self = bound_to;
    return rec_guard(r, DYN_GUARD_BUILTIN, v->source, DYN_NONE, 0, descr);
}
