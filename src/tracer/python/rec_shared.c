/* rec_shared.c: iterators of itertools that share what they take with others: those that tee gives, and groupby with its groups.
 * What they share has a shadow whose `id` counts its states, so what an instruction did to it is taken back with the rest where
 * that is a break. Each step is made here first, and then by the real iterator, which finds in feeders what was taken, and what
 * the key function gave (rec_tap.c): an end and an exception too.
 *
 * Handlers of callables.def; rec_lazy.c asks for recipes. Keys are compared here only where no Python code runs for it; the real
 * groupby compares them again. */
#include "tracer/python/rec_lazy_tools.h"
#include "tracer/record/rec_callables.h"

#define MOST_TEES 8

typedef struct Grouping { /* what a groupby knows between two steps; v NULL: nothing */
    DynOperand target, key, value;
    DynVal *group; /* the one that may take from it, or NULL */
    bool differs;  /* key isn't target */
} Grouping;

struct RecShared {
    DynVal *v;          /* the groupby; of tees: what they take from, whose items are all that was taken */
    PyObject *fed_func; /* groupby: the key function as the real one has it, or NULL */
    Grouping *states;   /* groupby: by v->id */
    uint32_t cap;
    DynVal **tees;
    uint32_t ntees;
};

static PyTypeObject *tee_type; /* of the iterators that tee gives, once one was made */

static PyObject *keep_new(DynRec *r, PyObject *o) {
    int kept = o != NULL ? rec_keep(r, o) : -1;
    Py_XDECREF(o);
    return kept < 0 ? NULL : o;
}

/* The real iterator's step, whose outcome it is: what was raised here it raises again. */
static DynVal *step_for_real(DynRec *r, const RecLazy *z, DynVal *v, PyObject **item) {
    PyErr_Clear();
    *item = Py_TYPE(z->object)->tp_iternext(z->object);
    if (*item == NULL && PyErr_Occurred()) {
        if (PyErr_ExceptionMatches(PyExc_StopIteration)) {
            PyErr_Clear();
        } else {
            r->error = NULL;
        }
    }
    return *item != NULL && !r->take_lost ? v : NULL;
}

/* Takes one for the real iterator. real NULL: there is none, or it raised, and that is for the real one to say. */
static DynOperand take_for(DynRec *r, const RecLazy *z) {
    DynOperand o = rec_lazy_take(r, z, 0);
    if (rec_feed(z->feeder, o.real) < 0) {
        rec_take_failed(r, DYN_R_NO_MEMORY, NULL);
    }
    return o;
}

/* ---- tee */

static uint32_t position(const DynVal *v) { return (uint32_t)v->iter.lazy->start + v->iter.position; }

/* Of what tees take from. */
static DynVal *step_taken(DynRec *r, DynVal *v, PyObject **item) {
    DynOperand o = take_for(r, v->iter.lazy);
    *item = Py_XNewRef(o.real);
    v->n = v->iter.position + v->ahead; /* more may be left of steps that were taken back */
    if (o.real != NULL && o.v != NULL && rec_push_item(r, v, o.v) < 0) {
        return rec_take_failed(r, DYN_R_NO_MEMORY, NULL);
    }
    return o.v;
}

static DynVal *step_tee(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    DynVal *from = z->shared->v, *gave;
    uint32_t at = position(v) + v->ahead;
    if (at < from->iter.position + from->ahead) {
        gave = from->items[at];
    } else {
        PyObject *real = rec_take(r, (DynOperand){from, from->iter.lazy->object}, &gave);
        Py_XDECREF(real); /* the feeder has it */
    }
    return step_for_real(r, z, gave, item);
}

static DynVal *new_tee(DynRec *r, struct RecShared *s, PyObject *object, uint32_t at) {
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    DynVal *v = z != NULL && s->ntees < MOST_TEES ? rec_lazy_made(r, z, (PyObject *)tee_type, step_tee, object) : NULL;
    if (v != NULL) {
        z->shared = s;
        z->start = at;
        z->from = DYN_NEW(&r->arena, DynOperand); /* how many are left: see rec_flow.c */
        if (z->from == NULL) {
            return NULL;
        }
        z->from[0] = (DynOperand){s->v, s->v->iter.lazy->object};
        z->n = 1;
        s->tees[s->ntees++] = v;
    }
    return v;
}

/* What new tees take from: of a tee, what that takes from. */
static struct RecShared *shared_of(DynRec *r, DynOperand it) {
    if (it.v->kind == DV_LAZY && it.v->iter.lazy->step == step_tee) {
        return it.v->iter.lazy->shared;
    }
    struct RecShared *s = DYN_NEW(&r->arena, struct RecShared);
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    bool plain = dyn_cpy_lookup_named(Py_TYPE(it.real), "__copy__") == NULL; /* it would be copied */
    PyObject *feeder = plain ? keep_new(r, rec_new_feeder(it.real)) : NULL;
    if (feeder == NULL || s == NULL || z == NULL) {
        return NULL;
    }
    if ((s->tees = DYN_NEW_N(&r->arena, DynVal *, MOST_TEES)) == NULL || (z->from = DYN_NEW(&r->arena, DynOperand)) == NULL) {
        return NULL;
    }
    z->from[0] = it;
    z->n = 1;
    z->feeder = feeder;
    s->v = rec_lazy_made(r, z, (PyObject *)tee_type, step_taken, feeder);
    return s->v != NULL ? s : NULL;
}

/* The type of its iterators, which has no public name. */
static int find_tee_type(PyObject *tee) {
    PyObject *nothing = tee_type == NULL ? PyTuple_New(0) : NULL;
    PyObject *tees = nothing ? PyObject_CallOneArg(tee, nothing) : NULL;
    if (tees != NULL && PyTuple_Check(tees) && PyTuple_GET_SIZE(tees) > 0) {
        tee_type = (PyTypeObject *)Py_NewRef(Py_TYPE(PyTuple_GET_ITEM(tees, 0)));
    }
    Py_XDECREF(tees);
    Py_XDECREF(nothing);
    PyErr_Clear();
    return tee_type == NULL ? -1 : 0;
}

/* tee(iterable, n): of a tee, that and copies of it. */
DynVal *rec_on_tee(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    int64_t n = 2;
    if (c->nkw != 0 || c->npos < 1 || c->npos > 2) {
        return REC_DECLINED;
    }
    if (c->npos == 2 && !rec_whole_number(r, c->args[1], &n)) {
        return REC_DECLINED;
    }
    if (n < 0 || n > MOST_TEES || find_tee_type(c->callable.real) < 0) {
        return REC_DECLINED;
    }
    DynOperand it = rec_get_iter_to_hold(r, c->args[0]);
    bool is_tee = it.v != NULL && it.v->kind == DV_LAZY && it.v->iter.lazy->step == step_tee;
    struct RecShared *s = it.v != NULL ? shared_of(r, it) : NULL;
    DynVal **all = s != NULL && s->ntees + n <= MOST_TEES ? DYN_NEW_N(&r->arena, DynVal *, n + 1) : NULL;
    if (all == NULL) {
        return REC_DECLINED;
    }
    it.v->hidden = it.v->hidden || (c->args[0].v->kind == DV_CONST && it.v->kind == DV_ITER);
    *result = PyObject_CallFunction(c->callable.real, "OL", is_tee ? it.real : s->v->iter.lazy->object, (long long)n);
    for (int64_t i = 0; *result != NULL && i < n; i++) {
        PyObject *made = PyTuple_GET_ITEM(*result, i); /* up to 3.13 the first is the iterator itself, if that is tee's */
        all[i] = is_tee && made == it.real ? it.v : new_tee(r, s, made, is_tee ? position(it.v) : 0);
        if (all[i] == NULL) {
            return rec_fail(r, DYN_R_NO_MEMORY, NULL);
        }
    }
    return *result != NULL ? dyn_rec_seq(r, DV_TUPLE, (uint32_t)n, all, *result) : NULL;
}

/* ---- groupby */

static Grouping *state_of(const DynVal *v) { return &v->iter.lazy->shared->states[v->iter.position + v->ahead]; }

/* The state behind the next step of the running instruction. */
static int set_state(DynRec *r, struct RecShared *s, const Grouping *g) {
    uint32_t at = s->v->iter.position + s->v->ahead + 1;
    if (at >= s->cap) {
        Grouping *more = DYN_NEW_N(&r->arena, Grouping, 2 * at);
        if (more == NULL) {
            rec_take_failed(r, DYN_R_NO_MEMORY, NULL);
            return -1;
        }
        memcpy(more, s->states, at * sizeof *more);
        s->states = more;
        s->cap = 2 * at;
    }
    s->states[at] = *g;
    return 0;
}

/* The next value and its key. false: there is none, or what there is isn't known. */
static bool take_value(DynRec *r, struct RecShared *s, Grouping *g) {
    const RecLazy *z = s->v->iter.lazy;
    DynOperand value = take_for(r, z), key = value, *arg;
    if (value.real == NULL || r->take_lost) {
        return false;
    }
    if (s->fed_func != NULL) {
        if ((arg = DYN_NEW(&r->arena, DynOperand)) == NULL) {
            rec_take_failed(r, DYN_R_NO_MEMORY, NULL);
            return false;
        }
        *arg = value;
        key.v = rec_call_within(r, z->func, arg, 1, &key.real);
        int fed = rec_feed(s->fed_func, key.real);
        key.real = keep_new(r, key.real);
        if (fed < 0 || key.real == NULL || r->take_lost) {
            return false;
        }
    }
    g->value = value;
    g->key = key;
    g->differs = false;
    return true;
}

/* Is the value that waits of another group? -1: not known. */
static int is_of_another(DynRec *r, Grouping *g) {
    int equal = rec_items_equal(r, g->target, g->key);
    g->differs = equal == 0;
    if (equal < 0) {
        rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "groupby: a key of this kind");
    }
    return equal < 0 ? -1 : !equal;
}

static DynVal *step_group(DynRec *r, DynVal *v, PyObject **item) {
    struct RecShared *s = v->iter.lazy->shared;
    Grouping g = *state_of(s->v);
    if (g.group != v || (g.value.v == NULL && !take_value(r, s, &g))) {
        return step_for_real(r, v->iter.lazy, NULL, item);
    }
    DynOperand value = g.value;
    int other = is_of_another(r, &g);
    if (other == 0) {
        g.key = g.value = (DynOperand){0};
    }
    if (other >= 0 && set_state(r, s, &g) == 0) {
        rec_advance(r, s->v);
    }
    return step_for_real(r, v->iter.lazy, value.v, item);
}

static DynVal *new_group(DynRec *r, struct RecShared *s, DynOperand target, PyObject *object) {
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    DynVal *v = z != NULL ? rec_lazy_made(r, z, (PyObject *)Py_TYPE(object), step_group, object) : NULL;
    if (v != NULL) {
        z->shared = s;
        z->func = target;
    }
    return v;
}

/* Has the next group not begun yet: is there no value, or one of the group that was given last? */
static bool is_before_group(DynRec *r, Grouping *g) {
    return g->key.v == NULL || (g->target.v != NULL && is_of_another(r, g) == 0);
}

static DynVal *step_groupby(DynRec *r, DynVal *v, PyObject **item) {
    struct RecShared *s = v->iter.lazy->shared;
    Grouping g = *state_of(v);
    DynVal *parts[2];
    bool more = true;
    g.group = NULL;
    while (more && is_before_group(r, &g)) {
        more = take_value(r, s, &g);
    }
    if (!more || r->take_lost) {
        step_for_real(r, v->iter.lazy, v, item);
        if (!r->take_lost && set_state(r, s, &g) == 0) {
            rec_advance(r, v);
        }
        return NULL;
    }
    g.target = g.key;
    g.differs = false;
    if (step_for_real(r, v->iter.lazy, v, item) == NULL) {
        return rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "groupby");
    }
    parts[0] = g.key.v;
    parts[1] = g.group = new_group(r, s, g.target, PyTuple_GET_ITEM(*item, 1));
    return parts[1] != NULL && set_state(r, s, &g) == 0 ? dyn_rec_seq(r, DV_TUPLE, 2, parts, *item) : NULL;
}

/* key= of groupby; real NULL: there is none. */
static bool key_of(const RecCall *c, DynOperand *key) {
    bool named = c->nkw == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, 0), "key") == 0;
    *key = c->npos + c->nkw == 2 ? c->args[1] : (DynOperand){0};
    if (key->real == Py_None) {
        *key = (DynOperand){0};
    }
    bool one_or_two = c->npos >= 1 && c->npos + c->nkw <= 2;
    return one_or_two && (c->nkw == 0 || named);
}

DynVal *rec_on_groupby(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynOperand key;
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    struct RecShared *s = DYN_NEW(&r->arena, struct RecShared);
    if (z == NULL || s == NULL || !key_of(c, &key)) {
        return REC_DECLINED;
    }
    if (rec_lazy_sources(r, z, c, 0, 1) < 0 || (z->feeder = keep_new(r, rec_new_feeder(z->from[0].real))) == NULL ||
        (s->states = DYN_NEW_N(&r->arena, Grouping, s->cap = 16)) == NULL) {
        return REC_DECLINED;
    }
    z->shared = s;
    if (key.real != NULL) {
        PyObject *unused = NULL, *fed = NULL;
        z->func = key;
        unused = rec_new_function_tap(r, key, REC_VALUE, &fed);
        Py_XDECREF(unused);
        s->fed_func = keep_new(r, fed);
        if (s->fed_func == NULL || rec_keep(r, key.real) < 0) {
            return REC_DECLINED;
        }
    }
    *result = PyObject_CallFunctionObjArgs(c->callable.real, z->feeder, s->fed_func, NULL);
    s->v = rec_lazy_made(r, z, c->callable.real, step_groupby, *result);
    return s->v;
}

/* ---- as recipes */

bool rec_is_shared(const RecLazy *z) { return z->shared != NULL; }

static uint32_t recipe_of_call(DynRec *r, PyObject *func, uint32_t skip, uint32_t n, const uint32_t *items) {
    uint32_t *own = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1);
    for (uint32_t i = 0; own != NULL && i < n; i++) {
        if ((own[i] = items[i]) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return own == NULL || func == NULL ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_CALL, skip, func, n, own);
}

/* What they take from, from where the last of them stands: as a tee that nobody takes from. */
static uint32_t recipe_of_taken(DynRec *r, const DynVal *v, uint32_t from) {
    uint32_t n = 0, *items = DYN_NEW_N(&r->arena, uint32_t, v->iter.position - from + 1);
    if (items == NULL) {
        return DYN_NONE;
    }
    items[n++] = rec_recipe(r, v->iter.lazy->from[0].v);
    for (uint32_t i = from; i < v->iter.position; i++) {
        items[n++] = rec_recipe(r, v->items[i]);
    }
    return recipe_of_call(r, rec_polyfill("again", "tee_again"), 0, n, items);
}

static uint32_t recipe_of_tee(DynRec *r, const DynVal *v) {
    const struct RecShared *s = v->iter.lazy->shared;
    PyObject *copy = dyn_cpy_lookup_named(tee_type, "__copy__");
    uint32_t last = position(v);
    for (uint32_t i = 0; i < s->ntees; i++) {
        last = position(s->tees[i]) < last ? position(s->tees[i]) : last;
    }
    if (s->v->stamp != r->stamp) { /* one for all of them */
        s->v->stamp = r->stamp;
        s->v->recipe = recipe_of_taken(r, s->v, last);
    }
    return recipe_of_call(r, copy, position(v) - last, 1, &s->v->recipe);
}

/* The key function, which gives these keys first. */
static uint32_t recipe_of_fed(DynRec *r, const RecLazy *z, const Grouping *g) {
    uint32_t items[3], n = 0;
    if (z->func.v == NULL) {
        return dyn_capture_constant(r->cap, Py_None);
    }
    items[n++] = rec_recipe(r, z->func.v);
    items[n++] = rec_recipe(r, g->target.v);
    if (g->differs) {
        items[n++] = rec_recipe(r, g->key.v);
    }
    return recipe_of_call(r, rec_fed_function(), 0, n, items);
}

static uint32_t recipe_of_groupby(DynRec *r, const DynVal *v) {
    const RecLazy *z = v->iter.lazy;
    const Grouping *g = &z->shared->states[v->iter.position];
    uint32_t items[4] = {rec_recipe(r, z->from[0].v)};
    if (g->target.v == NULL) { /* as it was made */
        items[1] = z->func.v != NULL ? rec_recipe(r, z->func.v) : dyn_capture_constant(r->cap, Py_None);
        return recipe_of_call(r, z->type, 0, 2, items);
    }
    items[1] = recipe_of_fed(r, z, g);
    items[2] = g->value.v != NULL && !g->differs ? rec_recipe(r, g->value.v) : rec_recipe(r, g->target.v);
    items[3] = g->differs ? rec_recipe(r, g->value.v) : DYN_NONE;
    const char *name = g->differs ? "groupby_behind" : "groupby_again";
    if (g->value.v == NULL) {
        name = "groupby_taken";
    }
    return recipe_of_call(r, rec_polyfill("again", name), 0, g->differs ? 4 : 3, items);
}

static uint32_t recipe_of_group(DynRec *r, DynVal *v) {
    const DynVal *of = v->iter.lazy->shared->v;
    uint32_t items[2];
    if (of->iter.lazy->shared->states[of->iter.position].group != v) { /* it gives nothing any more */
        return recipe_of_call(r, rec_polyfill("again", "group_ended"), 0, 0, NULL);
    }
    items[0] = rec_recipe(r, v->iter.lazy->shared->v);
    items[1] = rec_recipe(r, v->iter.lazy->func.v);
    return recipe_of_call(r, v->iter.lazy->type, 0, 2, items);
}

uint32_t rec_shared_recipe(DynRec *r, DynVal *v) {
    const RecLazy *z = v->iter.lazy;
    if (z->step == step_tee) {
        return recipe_of_tee(r, v);
    }
    if (z->step == step_groupby) {
        return recipe_of_groupby(r, v);
    }
    return z->step == step_group ? recipe_of_group(r, v) : DYN_NONE;
}
