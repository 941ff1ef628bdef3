/* rec_sort.c: sorted, list.sort, min and max with key=: the key function is called for each item as CPython would call it, and
 * recorded into; what the comparisons of the keys say is guarded, so that other keys in the same order are the same entry.
 *
 * The handler `keyed` of callables.def, asked with arguments that were looked at. All calls of one instruction are sealed: what
 * leaves the graph in one of them leaves it before the instruction. */
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

typedef struct Keyed { /* items and their keys; keys[i].v NULL: unknown */
    DynOperand *items, *keys;
    uint32_t n;
    PyObject *list, *key_list; /* real ones, strong */
    bool known;
    int which; /* REC_MIN … */
} Keyed;

/* ---- keys */

static DynVal *call_key(DynRec *r, DynOperand f, DynOperand item, PyObject **result) {
    DynOperand *args = DYN_NEW(&r->arena, DynOperand);
    *result = NULL;
    if (args == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *args = item;
    return rec_call_within(r, f, args, 1, result);
}

static void drop(Keyed *k) {
    Py_CLEAR(k->list);
    Py_CLEAR(k->key_list);
}

/* -1 with an exception: a key function raised. */
static int make_keys(DynRec *r, DynOperand f, Keyed *k) {
    k->key_list = PyList_New(0);
    for (uint32_t i = 0; k->key_list != NULL && i < k->n; i++) {
        PyObject *key = NULL;
        DynVal *v = call_key(r, f, k->items[i], &key);
        k->known = k->known && v != NULL && r->cap != NULL;
        k->known = k->known && dyn_rec_resolve(r, v, key ? key : Py_None) == 0;
        k->keys[i] = (DynOperand){v, key};
        if (key == NULL || rec_keep(r, key) < 0 || PyList_Append(k->key_list, key) < 0) {
            Py_XDECREF(key);
            return -1;
        }
        Py_DECREF(key);
    }
    return k->key_list == NULL ? -1 : 0;
}

/* Is a < b as it was when it was compared, and is there an order at all: no nan. */
static bool sure(DynRec *r, DynOperand a, DynOperand b, bool less) {
    DynSyms *t = &r->cap->syms;
    if (a.v->kind != DV_SYM || b.v->kind != DV_SYM) {
        bool texts = PyUnicode_CheckExact(a.real) && PyUnicode_CheckExact(b.real);
        bool tuples = PyTuple_CheckExact(a.real) && PyTuple_CheckExact(b.real);
        return (texts || tuples) && dyn_rec_burn(r, a.v, a.real) == 0 && dyn_rec_burn(r, b.v, b.real) == 0;
    }
    for (int i = 0; i < 2; i++) {
        uint32_t s = i == 0 ? rec_sym_of(a.v) : rec_sym_of(b.v);
        bool number = dyn_sym_at(t, s)->type != DYN_T_FLOAT || dyn_sym_at(t, s)->hint.f == dyn_sym_at(t, s)->hint.f;
        if (!number || dyn_rec_assume(r, dyn_sym_op(t, DYN_S_EQ, s, s, DYN_NONE)) < 0) {
            return false;
        }
    }
    uint32_t is = dyn_sym_op(t, DYN_S_LT, rec_sym_of(a.v), rec_sym_of(b.v), DYN_NONE);
    return is != DYN_NONE && (dyn_sym_at(t, is)->hint.i != 0) == less && dyn_rec_assume(r, is) == 0;
}

/* ---- order */

/* Where each place's item comes from, by CPython's own sort of the keys. NULL with an exception: they can't be compared. */
static PyObject *order_of(const Keyed *k, bool reverse) {
    PyObject *range = PyObject_CallFunction((PyObject *)&PyRange_Type, "I", (unsigned)k->n);
    PyObject *key = PyObject_GetAttrString(k->key_list, "__getitem__"), *list = range ? PySequence_List(range) : NULL;
    PyObject *sort = list ? PyObject_GetAttrString(list, "sort") : NULL, *none = PyTuple_New(0), *done = NULL;
    PyObject *backwards = reverse ? Py_True : Py_False;
    PyObject *how = key ? Py_BuildValue("{s:O,s:O}", "key", key, "reverse", backwards) : NULL;
    if (sort != NULL && how != NULL && none != NULL) {
        done = PyObject_Call(sort, none, how);
    }
    if (done == NULL) {
        Py_CLEAR(list);
    }
    Py_XDECREF(range);
    Py_XDECREF(key);
    Py_XDECREF(sort);
    Py_XDECREF(none);
    Py_XDECREF(how);
    Py_XDECREF(done);
    return list;
}

/* Each pair of neighbours says that it stands so: the order follows from that. */
static bool order_is_sure(DynRec *r, const Keyed *k, PyObject *order, bool reverse) {
    for (uint32_t i = 0; i + 1 < k->n; i++) {
        uint32_t a = (uint32_t)PyLong_AsLong(PyList_GET_ITEM(order, i)),
                 b = (uint32_t)PyLong_AsLong(PyList_GET_ITEM(order, i + 1));
        DynOperand low = k->keys[reverse ? b : a];
        DynOperand high = k->keys[reverse ? a : b];
        if (!(a < b ? sure(r, high, low, false) : sure(r, low, high, true))) {
            return false;
        }
    }
    return true;
}

static PyObject *in_order(const Keyed *k, PyObject *order, DynVal **items) {
    PyObject *list = PyList_New(k->n);
    for (uint32_t i = 0; list != NULL && i < k->n; i++) {
        uint32_t from = (uint32_t)PyLong_AsLong(PyList_GET_ITEM(order, i));
        PyList_SET_ITEM(list, i, Py_NewRef(k->items[from].real));
        items[i] = k->items[from].v;
    }
    return list;
}

static DynVal *sort_keyed(DynRec *r, const RecCall *c, Keyed *k, bool reverse, PyObject **result) {
    bool in_place = k->which == REC_SORT;
    PyObject *order = order_of(k, reverse), *list;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, k->n + 1), *v = NULL;
    list = order != NULL && items != NULL ? in_order(k, order, items) : NULL;
    bool recorded = r->cap != NULL && list != NULL;
    k->known = k->known && recorded && order_is_sure(r, k, order, reverse);
    if (list != NULL && in_place && PyList_SetSlice(c->args[0].real, 0, PY_SSIZE_T_MAX, list) < 0) {
        Py_CLEAR(list);
    }
    Py_XDECREF(order);
    PyObject *type = NULL, *value, *tb;
    if (list == NULL) {
        PyErr_Fetch(&type, &value, &tb);
    } else if (!in_place) {
        v = k->known ? dyn_rec_seq(r, DV_LIST, k->n, items, list) : NULL;
    } else {
        v = k->known && rec_list_reordered(r, c->args[0], items) == 0 ? dyn_rec_const(r, Py_None) : NULL;
        Py_SETREF(list, Py_NewRef(Py_None));
    }
    if (type != NULL) {
        PyErr_Restore(type, value, tb);
    }
    *result = list;
    return v;
}

/* ---- min and max: the first of the best */

static DynVal *best_keyed(DynRec *r, Keyed *k, PyObject **result) {
    int cmp = k->which == REC_MIN ? Py_LT : Py_GT;
    uint32_t best = 0;
    for (uint32_t i = 1; i < k->n; i++) {
        int wins = PyObject_RichCompareBool(k->keys[i].real, k->keys[best].real, cmp);
        if (wins < 0) {
            return NULL;
        }
        DynOperand low = k->keys[cmp == Py_LT ? i : best];
        DynOperand high = k->keys[cmp == Py_LT ? best : i];
        k->known = k->known && r->cap != NULL && sure(r, low, high, wins != 0);
        best = wins ? i : best;
    }
    *result = Py_NewRef(k->items[best].real);
    return k->known ? k->items[best].v : NULL;
}

/* ---- the call */

static bool is_extreme(int which) { return which == REC_MIN || which == REC_MAX; }

/* key= and reverse=; false: there is no key, or something else is given. */
static bool read_keywords(DynRec *r, const RecCall *c, DynOperand *key, bool *reverse) {
    for (uint32_t i = 0; i < c->nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, i);
        DynOperand o = c->args[c->npos + i];
        if (PyUnicode_CompareWithASCIIString(name, "key") == 0) {
            *key = o;
        } else if (PyUnicode_CompareWithASCIIString(name, "reverse") != 0 || !PyBool_Check(o.real) ||
                   dyn_rec_burn(r, o.v, o.real) < 0) {
            return false;
        } else {
            *reverse = o.real == Py_True;
        }
    }
    return key->v != NULL && key->real != Py_None;
}

/* The items of the one argument, which is no iterator. */
static int listed_items(DynRec *r, const RecCall *c, DynVal ***items, uint32_t *n) {
    if (c->npos != 1 || c->args[0].v->kind == DV_ITER || c->args[0].v->kind == DV_GENERATOR) {
        return -1;
    }
    return rec_items(r, c->args[0].v, c->args[0].real, items, n);
}

static bool read_items(DynRec *r, const RecCall *c, Keyed *k) {
    bool given = is_extreme(k->which) && c->npos > 1;
    DynVal **items = NULL;
    k->n = c->npos;
    if (!given && listed_items(r, c, &items, &k->n) < 0) {
        return false;
    }
    if (!given) {
        k->list = PySequence_List(c->args[0].real);
        PyErr_Clear();
    }
    k->items = DYN_NEW_N(&r->arena, DynOperand, k->n + 1);
    k->keys = DYN_NEW_N(&r->arena, DynOperand, k->n + 1);
    bool fits = given || (k->list != NULL && PyList_GET_SIZE(k->list) == (Py_ssize_t)k->n);
    bool made = k->items != NULL && k->keys != NULL, few = k->n > 0 && k->n <= 256;
    fits = fits && made && few;
    for (uint32_t i = 0; fits && i < k->n; i++) {
        k->items[i] = given ? c->args[i] : (DynOperand){items[i], PyList_GET_ITEM(k->list, i)};
        fits = rec_keep(r, k->items[i].real) == 0;
    }
    if (!fits) {
        drop(k);
    }
    return fits;
}

/* May the call be one with a key, by its arguments alone? */
static bool takes_key(const RecCall *c, int which) {
    bool fits = is_extreme(which) ? c->nkw == 1 : c->nkw > 0;
    if (which == REC_SORT && (c->npos != 1 || c->args[0].v->kind != DV_LIST)) {
        return false;
    }
    return fits;
}

DynVal *rec_on_keyed(DynRec *r, const RecCall *c, PyObject **result, int which) {
    bool extreme = is_extreme(which), reverse = false;
    DynOperand key = {0};
    Keyed k = {.known = true, .which = which};
    if (!takes_key(c, which) || !read_keywords(r, c, &key, &reverse) || !read_items(r, c, &k)) {
        return REC_DECLINED;
    }
    RecMark before = rec_mark(r);
    rec_begin_taking(r);
    int status = make_keys(r, key, &k);
    DynVal *v = NULL;
    if (status == 0) {
        v = extreme ? best_keyed(r, &k, result) : sort_keyed(r, c, &k, reverse, result);
    }
    drop(&k);
    if (status < 0) {
        *result = NULL;
    }
    if (v == NULL && r->cap != NULL && *result != NULL) {
        rec_rollback(r, &before);
        rec_fail(r, DYN_R_OPAQUE_CALL, "key");
    }
    return v;
}
