/* rec_lazy.c: iterators in C that ask others and call functions: map, filter, zip, enumerate and those of itertools like them.
 * Their steps are made here one by one, as they make them: items are taken from where the real iterator would take them, and
 * functions are called as it would call them. So the real iterator, which is made of the same iterators, stands where it should
 * whoever looks at it, and has a recipe at every place. One that keeps count for itself takes its items from a feeder: they are
 * taken here, and the real iterator then finds them there (rec_tap.c).
 *
 * Called by rec_call.c (a new one), rec_take.c (steps) and rec_recipe.c. */
#include "tracer/python/rec_lazy_tools.h"
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

/* ---- steps */

DynOperand rec_lazy_take(DynRec *r, const RecLazy *z, uint32_t i) {
    DynOperand o;
    o.real = rec_take(r, z->from[i], &o.v);
    if (o.real != NULL) {
        int kept = rec_keep(r, o.real);
        Py_DECREF(o.real);
        if (kept < 0) {
            PyErr_NoMemory();
            o.real = NULL;
        }
    }
    return o;
}

static DynVal *step_map(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, z->n + 1);
    for (uint32_t i = 0; args != NULL && i < z->n; i++) {
        args[i] = rec_lazy_take(r, z, i);
        if (args[i].real == NULL) {
            return NULL;
        }
    }
    if (args == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    return rec_call_within(r, z->func, args, z->n, item);
}

/* The function gets the items of the item. */
static DynVal *step_starmap(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    DynOperand o = rec_lazy_take(r, z, 0), *args = NULL;
    DynVal **items;
    uint32_t n = 0;
    if (o.real == NULL) {
        return NULL;
    }
    bool listed = !r->take_lost && o.v != NULL && rec_is_tuple_or_list(o.real);
    bool known = listed && rec_items(r, o.v, o.real, &items, &n) == 0 && n == PySequence_Fast_GET_SIZE(o.real);
    known = known && (args = DYN_NEW_N(&r->arena, DynOperand, n + 1)) != NULL;
    if (!known) {
        PyObject *tuple = PySequence_Tuple(o.real);
        *item = tuple ? PyObject_CallObject(z->func.real, tuple) : NULL;
        Py_XDECREF(tuple);
        return rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "starmap");
    }
    for (uint32_t i = 0; i < n; i++) {
        args[i] = (DynOperand){items[i], PySequence_Fast_GET_ITEM(o.real, i)};
    }
    return rec_call_within(r, z->func, args, n, item);
}

/* Up to the first item of which the function says so. */
static DynVal *filtered(DynRec *r, const RecLazy *z, PyObject **item, bool wanted) {
    for (;;) {
        DynOperand o = rec_lazy_take(r, z, 0), said = o;
        if (o.real == NULL) {
            return NULL;
        }
        bool asks = z->func.real != Py_None && z->func.real != (PyObject *)&PyBool_Type;
        if (asks) {
            DynOperand *arg = DYN_NEW(&r->arena, DynOperand);
            if (arg == NULL) {
                PyErr_NoMemory();
                return NULL;
            }
            *arg = o;
            said.v = rec_call_within(r, z->func, arg, 1, &said.real);
            if (said.real == NULL) {
                return NULL;
            }
        }
        int known = said.v != NULL && !r->take_lost ? rec_truth(r, said.v, said.real) : -1;
        PyErr_Clear();
        int truth = rec_real_truth(known, said.real);
        if (known < 0) {
            rec_take_failed(r, r->why, r->detail);
        }
        if (asks) {
            Py_DECREF(said.real);
        }
        if (truth < 0) {
            return NULL;
        }
        if ((truth != 0) == wanted) {
            *item = Py_NewRef(o.real);
            return o.v;
        }
    }
}
static DynVal *step_filter(DynRec *r, DynVal *v, PyObject **item) { return filtered(r, v->iter.lazy, item, true); }
static DynVal *step_filterfalse(DynRec *r, DynVal *v, PyObject **item) { return filtered(r, v->iter.lazy, item, false); }

/* zip(strict=True) found that iterator i is at its end: so have all of them to be. */
static void check_lengths(DynRec *r, const RecLazy *z, uint32_t i) {
    if (PyErr_Occurred()) {
        return;
    }
    if (i > 0) {
        PyErr_Format(PyExc_ValueError, "zip() argument %u is shorter than argument%s%u", i + 1, i == 1 ? " " : "s 1-", i);
        return;
    }
    for (i = 1; i < z->n; i++) {
        if (rec_lazy_take(r, z, i).real != NULL) {
            PyErr_Format(PyExc_ValueError, "zip() argument %u is longer than argument%s%u", i + 1, i == 1 ? " " : "s 1-", i);
        }
        if (PyErr_Occurred()) {
            return;
        }
    }
}

static DynVal *step_zip(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    DynVal **items = DYN_NEW_N(&r->arena, DynVal *, z->n + 1);
    PyObject *tuple = items ? PyTuple_New(z->n) : PyErr_NoMemory();
    bool known = true;
    for (uint32_t i = 0; tuple != NULL && i < z->n; i++) {
        DynOperand o = rec_lazy_take(r, z, i);
        if (o.real == NULL) {
            Py_DECREF(tuple);
            if (z->strict) {
                check_lengths(r, z, i);
            }
            return NULL;
        }
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(o.real));
        items[i] = o.v;
        known = known && o.v != NULL;
    }
    *item = tuple;
    return tuple != NULL && known ? dyn_rec_seq(r, DV_TUPLE, z->n, items, tuple) : NULL;
}

static DynVal *step_enumerate(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    DynOperand o = rec_lazy_take(r, z, 0);
    if (o.real == NULL) {
        return NULL;
    }
    *item = rec_feed(z->feeder, o.real) < 0 ? NULL : Py_TYPE(z->object)->tp_iternext(z->object);
    DynVal *items[2] = {dyn_rec_sym(r, dyn_sym_int(&r->cap->syms, z->start + v->iter.position + v->ahead)), o.v};
    return *item != NULL && items[0] != NULL && items[1] != NULL ? dyn_rec_seq(r, DV_TUPLE, 2, items, *item) : NULL;
}

/* reversed(list): the items as they are when it gets there. */
static DynVal *step_reversed(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    DynVal *list = z->func.v;
    int64_t at = z->start - v->iter.position - v->ahead;
    *item = Py_TYPE(z->object)->tp_iternext(z->object);
    if ((*item != NULL) != (at >= 0 && at < (int64_t)list->n)) {
        return rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "a list that changes");
    }
    return *item != NULL ? list->items[at] : NULL;
}

static uint32_t reversed_recipe(DynRec *r, const DynVal *v) {
    int64_t at = v->iter.lazy->start - v->iter.position;
    uint32_t *list = DYN_NEW_N(&r->cap->arena, uint32_t, 1);
    if (at < 0 || list == NULL || (list[0] = rec_recipe(r, v->iter.lazy->func.v)) == DYN_NONE) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_ITER, (uint32_t)at, v->iter.lazy->type, 1, list);
}

/* ---- new ones */

typedef struct Kind {
    RecLazyStep step;
    bool func; /* its first argument is what it calls */
    uint32_t most;
} Kind;
static const Kind kinds[] = {
    [REC_MAP] = {step_map, true, 8},
    [REC_FILTER] = {step_filter, true, 1},
    [REC_ZIP] = {step_zip, false, 8},
    [REC_ENUMERATE] = {step_enumerate, false, 2},
    [REC_REVERSED] = {step_reversed, true, 0},
    [REC_STARMAP] = {step_starmap, true, 1},
    [REC_FILTERFALSE] = {step_filterfalse, true, 1},
};
static PyObject *strict_zip; /* functools.partial(zip, strict=True), for recipes */

/* What can't be listed beforehand: iterators, and lists, which may change until they are read. */
static bool any_live(const RecCall *c) {
    for (uint32_t i = 0; i < c->npos; i++) {
        if (rec_is_iterator(c->args[i].v) || c->args[i].v->kind == DV_LIST || rec_torch_is_module(c->args[i].real)) {
            return true;
        }
    }
    return false;
}

/* strict= of zip: 1, 0; -1: not known. */
static int is_strict(DynRec *r, const RecCall *c) {
    DynOperand o = c->nkw == 1 ? c->args[c->npos] : (DynOperand){0};
    if (c->nkw == 0) {
        return 0;
    }
    bool named = c->nkw == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "strict") == 0;
    return named && PyBool_Check(o.real) && dyn_rec_burn(r, o.v, o.real) == 0 ? o.real == Py_True : -1;
}

/* start= of enumerate. */
static int count_from(DynRec *r, const RecCall *c, int64_t *start) {
    uint32_t at = c->npos == 2 ? 1 : c->npos;
    *start = 0;
    if (c->npos + c->nkw == 1) {
        return 0;
    }
    bool named = c->nkw == 0 || (c->nkw == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "start") == 0);
    if (!named || c->npos + c->nkw != 2) {
        return -1;
    }
    DynOperand o = c->args[at];
    if (o.v->kind != DV_SYM || !PyLong_CheckExact(o.real) || dyn_rec_burn(r, o.v, o.real) < 0) {
        return -1;
    }
    *start = dyn_sym_at(&r->cap->syms, rec_sym_of(c->args[at].v))->hint.i;
    return *start > INT32_MIN && *start < INT32_MAX ? 0 : -1;
}

/* The iterators that it takes from. -1: nothing happened. */
int rec_lazy_sources(DynRec *r, RecLazy *z, const RecCall *c, uint32_t first, uint32_t n) {
    z->n = n;
    z->from = DYN_NEW_N(&r->arena, DynOperand, n + 1);
    for (uint32_t i = 0; z->from != NULL && i < n; i++) {
        z->from[i] = rec_get_iter_to_hold(r, c->args[first + i]);
        if (z->from[i].v == NULL) {
            return -1;
        }
        if (c->args[first + i].v->kind == DV_CONST && z->from[i].v->kind == DV_ITER) {
            z->from[i].v->hidden = true;
        }
    }
    return z->from == NULL ? -1 : 0;
}

static PyObject *make_real(const Kind *k, PyObject *type, RecLazy *z) {
    PyObject *args[16] = {NULL};
    uint32_t n = 0;
    if (k->func) {
        args[n++] = z->func.real;
    }
    for (uint32_t i = 0; i < z->n; i++) {
        args[n++] = z->feeder != NULL ? z->feeder : z->from[i].real;
    }
    if (z->strict) {
        return PyObject_Vectorcall(strict_zip, args, n, NULL);
    }
    PyObject *start = k->step == step_enumerate && z->start != 0 ? args[n++] = PyLong_FromLongLong(z->start) : NULL;
    PyObject *o = PyObject_Vectorcall(type, args, n, NULL);
    Py_XDECREF(start);
    return o;
}

DynVal *rec_lazy_made(DynRec *r, RecLazy *z, PyObject *type, RecLazyStep step, PyObject *object) {
    DynVal *v = object ? rec_new(r, DV_LAZY) : NULL;
    if (v == NULL || rec_keep(r, object) < 0) {
        return NULL;
    }
    z->object = object;
    z->type = type;
    z->step = step;
    v->iter.lazy = z;
    v->fresh = true;
    return v;
}

static DynVal *new_lazy(DynRec *r, const Kind *k, PyObject *type, RecLazy *z, PyObject **result) {
    if (k->step == step_enumerate) {
        z->feeder = rec_new_feeder(z->from[0].real);
        bool kept = z->feeder != NULL && rec_keep(r, z->feeder) == 0;
        Py_XDECREF(z->feeder);
        if (!kept) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    *result = make_real(k, type, z);
    return rec_lazy_made(r, z, type, k->step, *result);
}

DynVal *rec_on_reduce(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    if (c->nkw != 0 || c->npos < 2 || c->npos > 3) {
        return REC_DECLINED;
    }
    DynOperand it = rec_get_iter(r, c->args[1]), acc = c->npos == 3 ? c->args[2] : (DynOperand){0};
    RecLazy from = {.from = &it, .n = 1};
    if (it.v == NULL) {
        return REC_DECLINED;
    }
    rec_begin_taking(r);
    for (;;) {
        DynOperand o = rec_lazy_take(r, &from, 0), *args = DYN_NEW_N(&r->arena, DynOperand, 2);
        if (o.real == NULL || args == NULL) {
            break;
        }
        if (acc.real == NULL) {
            acc = o;
            continue;
        }
        args[0] = acc;
        args[1] = o;
        acc.real = NULL;
        acc.v = rec_call_within(r, c->args[0], args, 2, &acc.real);
        if (acc.real == NULL) {
            return NULL;
        }
        int kept = rec_keep(r, acc.real);
        Py_DECREF(acc.real);
        if (kept < 0) {
            PyErr_NoMemory();
            return NULL;
        }
    }
    if (PyErr_Occurred()) {
        return NULL;
    }
    if (acc.real == NULL) {
        PyErr_SetString(PyExc_TypeError, "reduce() of empty iterable with no initial value");
        if (!r->take_lost) {
            rec_known_error(r, NULL);
        }
        return NULL;
    }
    *result = Py_NewRef(acc.real);
    return r->take_lost ? NULL : acc.v;
}

/* What it is called with besides iterables. -1: it isn't followed step by step, nothing happened. */
static int read_settings(DynRec *r, const RecCall *c, int which, RecLazy *z) {
    switch (which) {
    case REC_REVERSED:
        if (c->npos != 1 || c->nkw != 0 || c->args[0].v->kind != DV_LIST) {
            return -1;
        }
        z->start = (int64_t)c->args[0].v->n - 1;
        return 0;
    case REC_ZIP: {
        int strict = is_strict(r, c);
        z->strict = strict == 1;
        return strict < 0 || (c->nkw == 0 && !any_live(c)) ? -1 : 0;
    }
    case REC_ENUMERATE: return count_from(r, c, &z->start) < 0 || (!any_live(c) && c->nkw == 0) ? -1 : 0;
    default: return c->nkw == 0 ? 0 : -1;
    }
}

DynVal *rec_on_lazy(DynRec *r, const RecCall *c, PyObject **result, int which) {
    const Kind *k = &kinds[which];
    uint32_t first = k->func, n = c->npos < first ? 0 : c->npos - first;
    RecLazy *z = n > k->most || (n < 1 && k->most > 0) ? NULL : DYN_NEW(&r->arena, RecLazy);
    if (z == NULL || read_settings(r, c, which, z) < 0) {
        return REC_DECLINED;
    }
    n = which == REC_ENUMERATE ? 1 : n;
    z->func = k->func ? c->args[0] : (DynOperand){0};
    if (rec_lazy_sources(r, z, c, first, n) < 0 || (k->func && rec_keep(r, z->func.real) < 0)) {
        return REC_DECLINED;
    }
    return new_lazy(r, k, c->callable.real, z, result);
}

uint32_t rec_lazy_recipe(DynRec *r, DynVal *v) {
    const RecLazy *z = v->iter.lazy;
    if (z->step == step_reversed) {
        return reversed_recipe(r, v);
    }
    if (rec_is_polyfilled(z)) {
        return rec_polyfill_recipe(r, v);
    }
    if (rec_is_itertool(z)) {
        return rec_itertool_recipe(r, v);
    }
    if (rec_is_shared(z)) {
        return rec_shared_recipe(r, v);
    }
    DynSyms *t = &r->cap->syms;
    uint32_t n = 0, *items = DYN_NEW_N(&r->cap->arena, uint32_t, z->n + 2);
    bool counts = z->step == step_enumerate;
    if (items != NULL && z->func.v != NULL && (items[n++] = rec_recipe(r, z->func.v)) == DYN_NONE) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; items != NULL && i < z->n; i++) {
        if ((items[n++] = rec_recipe(r, z->from[i].v)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    if (items != NULL && counts) {
        uint32_t at = dyn_sym_int(t, z->start + v->iter.position);
        items[n] = at == DYN_NONE ? at : dyn_capture_recipe(r->cap, DYN_RC_SYM, at, NULL, 0, NULL);
        if (items[n++] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    if (items == NULL) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, z->strict ? strict_zip : z->type, n, items);
}

int rec_lazy_init(void) {
    PyObject *functools = dyn_import("functools");
    PyObject *partial = functools ? PyObject_GetAttrString(functools, "partial") : NULL;
    PyObject *args = Py_BuildValue("(O)", &PyZip_Type), *names = Py_BuildValue("{sO}", "strict", Py_True);
    strict_zip = partial && args && names ? PyObject_Call(partial, args, names) : NULL;
    Py_XDECREF(functools);
    Py_XDECREF(partial);
    Py_XDECREF(args);
    Py_XDECREF(names);
    return strict_zip == NULL || rec_tap_init() < 0 ? -1 : 0;
}
