/* rec_itertools.c: chain, islice, count, repeat, product, permutations and combinations of itertools. chain and islice take one
 * item after the other from what they run over, through feeders (rec_lazy.c); the others know from the start all that they will
 * give.
 *
 * The handler `itertool` of callables.def; rec_lazy.c asks for recipes. */
#include "tracer/python/rec_lazy_tools.h"
#include "tracer/record/rec_callables.h"

#define MOST_LISTED 4096
#define MOST_PARTS 16 /* of a recipe */

static PyObject *step_for_real(const RecLazy *z) { return Py_TYPE(z->object)->tp_iternext(z->object); }

static DynVal *step_chain(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    for (; z->at < z->n; z->at++) {
        DynOperand o = rec_lazy_take(r, z, z->at);
        if (PyErr_Occurred() || rec_feed(z->pools[z->at].real, o.real) < 0) {
            return NULL;
        }
        if (o.real != NULL) {
            *item = step_for_real(z);
            return *item != NULL ? o.v : NULL;
        }
    }
    *item = step_for_real(z);
    return NULL;
}

/* Where it stands after k items: how many it took, and the index of the next. */
static void sliced_so_far(const RecLazy *z, int64_t k, int64_t *taken, int64_t *next) {
    *taken = k == 0 ? 0 : z->start + (k - 1) * z->stride + 1;
    *next = z->start + k * z->stride;
    if (k > 0 && z->stop >= 0 && *next > z->stop) {
        *next = z->stop;
    }
}

static DynVal *step_islice(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    int64_t taken, next;
    DynOperand o = {0};
    sliced_so_far(z, (int64_t)v->iter.position + v->ahead, &taken, &next);
    if (z->ended) {
        return NULL;
    }
    bool more = z->stop < 0 || next < z->stop;
    for (int64_t i = taken; i < next + more; i++) {
        o = rec_lazy_take(r, z, 0);
        if (PyErr_Occurred() || rec_feed(z->feeder, o.real) < 0) {
            return NULL;
        }
        if (o.real == NULL) {
            more = false;
            break;
        }
    }
    *item = step_for_real(z);
    z->ended = !more;
    return *item != NULL && more ? o.v : NULL;
}

static DynVal *step_count(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    *item = step_for_real(z);
    return dyn_rec_sym(r, dyn_sym_int(&r->cap->syms, z->start + ((int64_t)v->iter.position + v->ahead) * z->stride));
}

static DynVal *step_repeat(DynRec *r, DynVal *v, PyObject **item) {
    (void)r;
    *item = step_for_real(v->iter.lazy);
    return *item != NULL ? v->iter.lazy->func.v : NULL;
}

static DynVal *step_listed(DynRec *r, DynVal *v, PyObject **item) {
    const RecLazy *z = v->iter.lazy;
    uint32_t k = v->iter.position + v->ahead;
    *item = step_for_real(z);
    if ((*item != NULL) != (k < z->nlisted)) {
        return rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "itertools");
    }
    return *item != NULL ? z->listed[k] : NULL;
}

/* ---- new ones: 0, or -1: nothing happened */

bool rec_whole_number(DynRec *r, DynOperand o, int64_t *out) {
    if (o.v->kind != DV_SYM || !PyLong_CheckExact(o.real) || dyn_rec_burn(r, o.v, o.real) < 0) {
        return false;
    }
    *out = dyn_sym_at(&r->cap->syms, rec_sym_of(o.v))->hint.i;
    return *out > INT32_MIN && *out < INT32_MAX;
}

/* Containers whose iterators raise when the size has changed since they were made. */
static bool counts_changes(PyObject *o) {
    bool view = PyDictViewSet_Check(o) || PyDictValues_Check(o);
    bool hashed = PyDict_Check(o) || PyAnySet_Check(o);
    return hashed || view || Py_IS_TYPE(o, dyn_deque_type);
}

static int new_chain(DynRec *r, RecLazy *z, const RecCall *c, int which) {
    (void)which;
    for (uint32_t i = 1; i < c->npos; i++) { /* asked for their iterators when chain gets there, which can't be told */
        if (counts_changes(c->args[i].real)) {
            return -1;
        }
    }
    if (c->nkw != 0 || c->npos < 1 || c->npos > 8) {
        return -1;
    }
    if (rec_lazy_sources(r, z, c, 0, c->npos) < 0 || (z->pools = DYN_NEW_N(&r->arena, DynOperand, c->npos)) == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < z->n; i++) {
        z->pools[i].real = rec_new_feeder(z->from[i].real);
        int kept = z->pools[i].real ? rec_keep(r, z->pools[i].real) : -1;
        Py_XDECREF(z->pools[i].real);
        if (kept < 0) {
            return -1;
        }
    }
    return 0;
}

static int new_islice(DynRec *r, RecLazy *z, const RecCall *c, int which) {
    (void)which;
    int64_t parts[3] = {0, -1, 1};
    if (c->nkw != 0 || c->npos < 2 || c->npos > 4) {
        return -1;
    }
    for (uint32_t i = 1; i < c->npos; i++) {
        int64_t *part = &parts[c->npos == 2 ? 1 : i - 1];
        if (c->args[i].real != Py_None && (!rec_whole_number(r, c->args[i], part) || *part < 0)) {
            return -1;
        }
    }
    z->start = parts[0];
    z->stop = parts[1];
    z->stride = parts[2];
    if (z->stride < 1 || rec_lazy_sources(r, z, c, 0, 1) < 0 || (z->feeder = rec_new_feeder(z->from[0].real)) == NULL) {
        return -1;
    }
    int kept = rec_keep(r, z->feeder);
    Py_DECREF(z->feeder);
    return kept;
}

static int new_count(DynRec *r, RecLazy *z, const RecCall *c, int which) {
    (void)which;
    z->start = 0;
    z->stride = 1;
    if (c->nkw != 0 || c->npos > 2) {
        return -1;
    }
    if (c->npos >= 1 && !rec_whole_number(r, c->args[0], &z->start)) {
        return -1;
    }
    return c->npos >= 2 && !rec_whole_number(r, c->args[1], &z->stride) ? -1 : 0;
}

static int new_repeat(DynRec *r, RecLazy *z, const RecCall *c, int which) {
    (void)which;
    bool named = c->nkw == 1 && c->npos == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "times") == 0;
    bool limited = c->npos + c->nkw == 2;
    z->stop = -1;
    if (c->npos < 1 || c->npos + c->nkw > 2) {
        return -1;
    }
    if (c->nkw > 0 && !named) {
        return -1;
    }
    if (limited && !rec_whole_number(r, c->args[1], &z->stop)) {
        return -1;
    }
    z->stop = limited && z->stop < 0 ? 0 : z->stop;
    z->func = c->args[0];
    return rec_keep(r, z->func.real);
}

/* What it would make of the indices of its pools says what it makes of their items. */
static int list_all(DynRec *r, RecLazy *z, const RecCall *c, uint32_t npools, DynVal ***items, const uint32_t *n) {
    RecCall call = *c;
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw + 1);
    PyObject *all = NULL, *indices = NULL;
    bool ok = args != NULL;
    for (uint32_t i = 0; ok && i < c->npos + c->nkw; i++) {
        args[i] = c->args[i];
        if (i < npools) {
            args[i].real = PyObject_CallFunction((PyObject *)&PyRange_Type, "I", n[i]);
            ok = args[i].real != NULL && rec_keep(r, args[i].real) == 0;
            Py_XDECREF(args[i].real);
        }
    }
    call.args = args;
    call.packed = NULL;
    all = ok ? rec_call_real(&call) : NULL;
    z->listed = all ? DYN_NEW_N(&r->arena, DynVal *, MOST_LISTED) : NULL;
    z->nlisted = 0;
    while (z->listed != NULL && (indices = Py_TYPE(all)->tp_iternext(all)) != NULL) {
        uint32_t width = (uint32_t)PyTuple_GET_SIZE(indices);
        DynVal **of = z->nlisted < MOST_LISTED ? DYN_NEW_N(&r->arena, DynVal *, width + 1) : NULL;
        for (uint32_t k = 0; of != NULL && k < width; k++) {
            of[k] = items[k % npools][PyLong_AsLong(PyTuple_GET_ITEM(indices, k))];
        }
        Py_DECREF(indices);
        if (of == NULL || (z->listed[z->nlisted++] = dyn_rec_seq(r, DV_TUPLE, width, of, NULL)) == NULL) {
            ok = false;
            break;
        }
    }
    ok = ok && z->listed != NULL && !PyErr_Occurred();
    PyErr_Clear();
    Py_XDECREF(all);
    return ok ? 0 : -1;
}

static bool varies(DynRec *r, const DynVal *v) { return v->kind == DV_SYM && !dyn_sym_is_const(&r->cap->syms, rec_sym_of(v)); }

/* A range between numbers that may be others at the next call: its items are known only where those are guarded. */
static bool may_be_longer(DynRec *r, DynOperand pool) {
    bool range = pool.v->kind == DV_RANGE;
    return range && (varies(r, pool.v->slice.start) || varies(r, pool.v->slice.stop) || varies(r, pool.v->slice.step));
}

/* A long loop over indices of any size is no list: what makes the indices is a break, and one entry serves all sizes. */
static bool is_long_loop(DynRec *r, const RecCall *c, uint32_t npools) {
    Py_ssize_t n = 1;
    bool longer = false;
    for (uint32_t i = 0; i < npools && n > 0 && n <= REC_MAX_TRIPS; i++) {
        PyObject *o = c->args[i].real;
        n *= PyTuple_CheckExact(o) || PyList_CheckExact(o) || PyRange_Check(o) ? PyObject_Size(o) : 1;
    }
    for (uint32_t i = 0; i < npools; i++) {
        longer |= may_be_longer(r, c->args[i]);
    }
    PyErr_Clear();
    return longer && n > REC_MAX_TRIPS;
}

/* product: all its positional arguments are pools; the others: the first is one, and numbers follow. */
static int new_listed(DynRec *r, RecLazy *z, const RecCall *c, int which) {
    bool product = which == REC_PRODUCT;
    uint32_t npools = product ? c->npos : 1, n[8];
    DynVal **items[8];
    int64_t number = 1;
    if (c->npos < npools || npools < 1 || c->npos + c->nkw > DYN_COUNTOF(n)) {
        return -1;
    }
    for (uint32_t i = 0; i < npools; i++) {
        const DynVal *v = c->args[i].v;
        bool listed = v->kind == DV_TUPLE || v->kind == DV_LIST || v->kind == DV_RANGE;
        if (!listed && v->kind != DV_CONST) {
            return -1;
        }
    }
    if (product && is_long_loop(r, c, npools)) {
        return -1;
    }
    for (uint32_t i = 0; i < npools; i++) {
        if (rec_items(r, c->args[i].v, c->args[i].real, &items[i], &n[i]) < 0) {
            return -1;
        }
    }
    for (uint32_t i = npools; i < c->npos + c->nkw; i++) {
        if (!rec_whole_number(r, c->args[i], &number) || number < 0 || number > 8) {
            return -1;
        }
    }
    z->pools = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw + 1);
    if (z->pools == NULL) {
        return -1;
    }
    z->n = 0;
    z->start = product ? npools : c->npos + c->nkw;
    z->stop = product ? number : 1;
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) { /* pools are as they are now */
        z->pools[i] = c->args[i];
        if (i < npools && (z->pools[i].v = dyn_rec_seq(r, DV_TUPLE, n[i], items[i], NULL)) == NULL) {
            return -1;
        }
    }
    return list_all(r, z, c, npools, items, n);
}

typedef struct Tool {
    RecLazyStep step;
    int (*make)(DynRec *r, RecLazy *z, const RecCall *c, int which); /* -1: nothing happened */
} Tool;
static const Tool tools[] = {
    [REC_CHAIN] = {step_chain, new_chain},          [REC_ISLICE] = {step_islice, new_islice},
    [REC_COUNT] = {step_count, new_count},          [REC_REPEAT] = {step_repeat, new_repeat},
    [REC_PRODUCT] = {step_listed, new_listed},      [REC_PERMUTATIONS] = {step_listed, new_listed},
    [REC_COMBINATIONS] = {step_listed, new_listed}, [REC_COMBINATIONS_AGAIN] = {step_listed, new_listed},
};

/* The real one: of feeders where it has any. */
static PyObject *make_real(const RecLazy *z, const RecCall *c) {
    RecCall call = *c;
    DynOperand args[8];
    if (c->npos + c->nkw > DYN_COUNTOF(args)) {
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        args[i] = c->args[i];
        if (z->step == step_chain) {
            args[i].real = z->pools[i].real;
        } else if (z->step == step_islice && i == 0) {
            args[i].real = z->feeder;
        }
    }
    call.args = args;
    call.packed = NULL;
    return rec_call_real(&call);
}

DynVal *rec_on_itertool(DynRec *r, const RecCall *c, PyObject **result, int which) {
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    if (z == NULL || tools[which].make(r, z, c, which) < 0) {
        return REC_DECLINED;
    }
    z->step = tools[which].step;
    *result = make_real(z, c);
    return rec_lazy_made(r, z, c->callable.real, z->step, *result);
}

/* ---- as recipes */

bool rec_is_itertool(const RecLazy *z) {
    for (size_t i = 0; i < DYN_COUNTOF(tools); i++) {
        if (tools[i].step == z->step) {
            return true;
        }
    }
    return false;
}

static uint32_t number_recipe(DynRec *r, int64_t n) {
    uint32_t s = dyn_sym_int(&r->cap->syms, n);
    return s == DYN_NONE ? s : dyn_capture_recipe(r->cap, DYN_RC_SYM, s, NULL, 0, NULL);
}

uint32_t rec_itertool_recipe(DynRec *r, DynVal *v) {
    const RecLazy *z = v->iter.lazy;
    uint32_t n = 0, skip = 0, *items = DYN_NEW_N(&r->cap->arena, uint32_t, MOST_PARTS);
    int64_t taken, next;
    if (items == NULL || z->ended) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < z->n; i++) {
        items[n++] = rec_recipe(r, z->from[i].v);
    }
    if (z->step == step_islice) {
        sliced_so_far(z, v->iter.position, &taken, &next);
        items[n++] = number_recipe(r, next - taken);
        items[n++] = z->stop < 0 ? dyn_capture_constant(r->cap, Py_None) : number_recipe(r, z->stop - taken);
        items[n++] = number_recipe(r, z->stride);
    } else if (z->step == step_count) {
        items[n++] = number_recipe(r, z->start + (int64_t)v->iter.position * z->stride);
        items[n++] = number_recipe(r, z->stride);
    } else if (z->step == step_repeat) {
        items[n++] = rec_recipe(r, z->func.v);
        if (z->stop >= 0) {
            items[n++] = number_recipe(r, z->stop - v->iter.position);
        }
    } else if (z->step == step_listed) { /* made anew, and run up to here: it calls nothing */
        skip = v->iter.position;
        for (int64_t i = 0; i < z->start * z->stop; i++) {
            if (n == MOST_PARTS) {
                return DYN_NONE;
            }
            items[n++] = rec_recipe(r, z->pools[i % z->start].v);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (items[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, skip, z->type, n, items);
}
