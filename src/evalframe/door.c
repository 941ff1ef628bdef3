/* door.c: what dynoc.optimize returns: a callable that stands for a Python function and runs what was compiled of it.
 *
 * A call binds its arguments, looks for an entry whose guards hold, and runs it; no frame is made where the whole function is one
 * graph. No entry: the call is recorded (hook.c), or the function runs as it is. The door holds its function and its cache. */
#include "evalframe/hook.h"
#include "evalframe/loops.h"
#include "evalframe/sites.h"
#include <structmember.h>

typedef struct DynDoor {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *func; /* strong: a Python function */
    DynCache *cache;
    PyObject *dict; /* strong: the function's own __dict__ */
    PyObject *weakrefs;
    bool frozen;        /* dynoc.run: nothing new is recorded */
    uint32_t next_look; /* calls until it is asked whether sites of its caller may pass it by, and whether it is left, … */
    uint32_t looks;     /* … which was asked so often in vain */
} DynDoor;

#define MANY_LOOKS 64   /* from then on, … */
#define LOOK_AGAIN 128u /* … every so many calls */

PyObject *dyn_door_function(PyObject *door) { return ((DynDoor *)door)->func; }

PyObject **dyn_door_function_at(PyObject *door) { return &((DynDoor *)door)->func; }

DynCache *dyn_door_cache(PyObject *door) { return ((DynDoor *)door)->cache; }

/* ---- calls */

/* __code__ of the function was set: what is known of the old code is of no use. */
static int follow_code(DynDoor *d) {
    DynCache *fresh = dyn_cache_new(PyFunction_GET_CODE(d->func), d->cache->options);
    if (fresh == NULL) {
        PyErr_Clear();
        return -1;
    }
    fresh->need_arrays = d->cache->need_arrays;
    DynCache *old = d->cache;
    dyn_loops_forget_door(old);
    d->cache = fresh;
    dyn_cache_decref(old);
    return 0;
}

/* What to do about calls that miss for such a guard; NULL: nothing. */
static const char *cure_of(const DynMiss *miss) {
#define CURE_OF(k, heading, cure) cure,
    static const char *const cures[] = {DYN_GUARD_GROUPS(CURE_OF)};
#undef CURE_OF
    return miss->first == NULL ? NULL : cures[dyn_guard_rows[miss->first->kind].group];
}

static DynMiss put_miss(const DynEntry *e, PyObject *func, PyObject *const *slots, DynStr *out) {
    dyn_str_printf(out, "entry %u: ", e->number);
    size_t before = out->n;
    DynMiss miss = dyn_guards_explain(e->guards, func, slots, out);
    if (out->n == before) {
        dyn_str_puts(out, "it fits by now");
    }
    if (miss.failed > 1) {
        dyn_str_printf(out, " (and %u more of %u guards fail)", miss.failed - 1, e->capture->guards.n);
    }
    return miss;
}

/* Which entry is the closest: the one from which the call differs in the fewest things. */
static uint32_t closest_entry(const DynCache *c, PyObject *func, PyObject *const *slots) {
    uint32_t closest = 0, fewest = UINT32_MAX;
    for (uint32_t i = 0; i < c->entries.n; i++) {
        DynStr why = {0};
        uint32_t differs = dyn_guards_explain(c->entries.at[i]->guards, func, slots, &why).differs;
        dyn_str_free(&why);
        if (differs < fewest) {
            fewest = differs;
            closest = i;
        }
    }
    return closest;
}

/* The closest entry and what can be done about it, then the others, a line each. Explaining runs no Python code, so the entries
 * stay what they are. */
static void put_misses(const DynCache *c, PyObject *func, PyObject *const *slots, DynStr *out) {
    uint32_t closest = closest_entry(c, func, slots);
    DynMiss miss = put_miss(c->entries.at[closest], func, slots, out);
    const char *cure = cure_of(&miss);
    if (cure != NULL) {
        dyn_str_printf(out, "\n  hint: %s", cure);
    }
    for (uint32_t i = 0; i < c->entries.n; i++) {
        if (i != closest) {
            dyn_str_puts(out, "\n  ");
            put_miss(c->entries.at[i], func, slots, out);
        }
    }
}

static void explain_miss(DynCache *c, PyObject *func, PyObject *const *slots) {
    DynTitle title = dyn_cache_title(c);
    const char *name = PyUnicode_AsUTF8(title.name), *file = PyUnicode_AsUTF8(title.file);
    if (name == NULL || file == NULL) {
        PyErr_Clear();
        return;
    }
    dyn_count("recompiles", name);
    if (!dyn_log_on(DYN_LOG_recompiles)) {
        return;
    }
    DynStr why = {0};
    put_misses(c, func, slots, &why);
    dyn_log(DYN_LOG_recompiles, "%s (%s:%d) is recorded again: %s", name, file, title.line, dyn_str_at(&why));
    dyn_str_free(&why);
}

/* No entry fits. */
static PyObject *miss(DynCache *c, PyObject *func, bool frozen, DynBound *b, PyObject *const *args, size_t nargsf,
                      PyObject *kwnames) {
    bool begins = !frozen && dyn_cpy_known() && dyn_cache_may_record(c, b->slots);
    if (begins && dyn_loops_begin(c, func, b->slots)) {
        dyn_bind_free(b);
        return dyn_loops_call(c, func, args, PyVectorcall_NARGS(nargsf), kwnames);
    }
    bool record = begins && dyn_record_is_started();
    if (record && c->entries.n > 0) {
        explain_miss(c, func, b->slots);
    }
    dyn_bind_free(b);
    c->useless = record ? 0 : c->useless + 1;
    if (!record) {
        dyn_profit_missed(c);
    }
    return record ? dyn_hook_record(c, func, args, nargsf, kwnames) : dyn_hook_plain(func, args, nargsf, kwnames);
}

/* A hit that has still Python to run. The cache and the function stay, whatever that does. */
static PyObject *go_on(DynCache *c, PyObject *func, DynHit *hit, DynBound *b, PyObject *const *args, size_t nargsf,
                       PyObject *kwnames) {
    PyObject *result;
    Py_INCREF(func);
    if (dyn_hit_goes_on(hit->kind)) {
        DynNext next;
        result = dyn_hit_break(hit, func, b->slots, (DynSpent){NULL, 0}, &next);
        dyn_bind_free(b);
        result = dyn_door_finish(result, next);
    } else {
        dyn_bind_free(b);
        result = hit->kind == DYN_HIT_LEAVE ? dyn_leave_call(hit->leave, func) : dyn_hook_plain(func, args, nargsf, kwnames);
    }
    Py_DECREF(func);
    return result;
}

/* Calls of functions that nobody asked for are counted. */
static void count(const DynCache *c, DynHitKind kind) {
    bool serves = dyn_hit_serves(kind);
    if (!c->quiet || !(serves || c->works)) {
        return;
    }
    if (!serves) {
        dyn_count_call(DYN_SERVED_NOT);
    } else {
        dyn_count_call(kind == DYN_HIT_RETURN ? DYN_SERVED : DYN_SERVED_PARTLY);
    }
}

/* kind: what became of it. */
static PyObject *serve(DynCache *c, PyObject *func, bool frozen, PyObject *const *args, size_t nargsf, PyObject *kwnames,
                       DynHitKind *kind) {
    DynBound b;
    DynHit hit;
    *kind = DYN_HIT_PLAIN;
    if (dyn_bind(&c->sig, func, args, PyVectorcall_NARGS(nargsf), kwnames, &b) < 0) {
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    PyObject *result;
    dyn_cache_incref(c);
    dyn_hit_find(c, func, b.slots, &hit);
    if (DYN_LIKELY(hit.kind == DYN_HIT_RETURN)) {
        dyn_bind_free(&b);
        result = hit.result;
    } else if (hit.kind == DYN_HIT_MISS) {
        result = miss(c, func, frozen, &b, args, nargsf, kwnames);
    } else {
        result = go_on(c, func, &hit, &b, args, nargsf, kwnames);
    }
    c->useless = hit.kind == DYN_HIT_MISS ? c->useless : 0;
    count(c, hit.kind);
    dyn_cache_decref(c);
    *kind = hit.kind;
    return result;
}

/* A call that is not simply served: it is timed (profit.c), or the function is retired. */
static PyObject *take_turn(DynCache *c, DynTurn turn, PyObject *func, bool frozen, PyObject *const *args, size_t nargsf,
                           PyObject *kwnames) {
    if (turn == DYN_TURN_EAGER) {
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    DynHitKind kind = DYN_HIT_PLAIN;
    uint64_t recordings = dyn_hook_recordings(), began = dyn_cycles();
    bool eager = turn == DYN_TURN_EAGER_TIMED;
    dyn_cache_incref(c);
    uint64_t before = eager ? dyn_profit_eager_begin(c) : 0;
    PyObject *result = eager ? dyn_hook_plain(func, args, nargsf, kwnames) : serve(c, func, frozen, args, nargsf, kwnames, &kind);
    if (eager) {
        dyn_profit_eager_end(before);
    }
    bool as_told = eager || dyn_hit_serves(kind);
    dyn_profit_tell(c, turn, began, recordings != dyn_hook_recordings(), as_told);
    dyn_cache_decref(c);
    return result;
}

static size_t count_of(size_t nargsf, PyObject *kwnames) {
    return (size_t)PyVectorcall_NARGS(nargsf) + (kwnames == NULL ? 0 : (size_t)PyTuple_GET_SIZE(kwnames));
}

PyObject *dyn_door_call(DynCache *c, PyObject *func, bool frozen, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (dyn_loops_serve(c)) {
        return dyn_loops_call(c, func, args, nargsf, kwnames);
    }
    if (DYN_UNLIKELY(c->useless > 0) && dyn_cache_passes(c, args, count_of(nargsf, kwnames))) {
        c->useless += c->useless < UINT32_MAX;
        count(c, DYN_HIT_MISS);
        return dyn_loops_call_plain(c, func, args, nargsf, kwnames);
    }
    DynTurn turn = dyn_profit_turn(&c->profit, c);
    DynHitKind kind;
    return DYN_LIKELY(turn == DYN_TURN_SERVE) ? serve(c, func, frozen, args, nargsf, kwnames, &kind)
                                              : take_turn(c, turn, func, frozen, args, nargsf, kwnames);
}

void dyn_door_step_aside(PyThreadState *ts, DynCache *c) {
    static bool said;
    dyn_count_reason("refused", DYN_R_TRACING);
    if (c != NULL) {
        dyn_cache_tell(c, DYN_R_TRACING, NULL);
    }
    if (!said) {
        said = true;
        PyThreadState_EnterTracing(ts); /* the tool isn't shown how it is said */
        dyn_warn_once(DYN_R_TRACING, "%s", "calls of optimised functions are plain Python's");
        PyThreadState_LeaveTracing(ts);
    }
}

static void look_at_site(DynDoor *d, PyThreadState *ts) {
    DynLooked looked = dyn_sites_look(ts, (PyObject *)d, d->looks == MANY_LOOKS);
    d->looks += looked == DYN_LOOKED_IN_VAIN && d->looks < MANY_LOOKS;
    d->next_look = looked == DYN_LOOKED_IN_VAIN && d->looks == MANY_LOOKS ? LOOK_AGAIN : 1;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames);

/* An array among the arguments? Most are told by a bit of their type not to be one. */
static bool given_array(PyObject *const *args, size_t n) {
    const unsigned long others = Py_TPFLAGS_LONG_SUBCLASS | Py_TPFLAGS_LIST_SUBCLASS | Py_TPFLAGS_TUPLE_SUBCLASS |
                                 Py_TPFLAGS_UNICODE_SUBCLASS | Py_TPFLAGS_DICT_SUBCLASS;
    bool given = false;
    for (size_t i = 0; i < n && !given; i++) {
        given = (Py_TYPE(args[i])->tp_flags & others) == 0 && dyn_array_is(args[i]);
    }
    return given;
}

/* Calls of a function that is left to CPython, whose callers can't pass its door by: C functions that it was handed to, or code
 * that has it from a container. They are asked next to nothing. */
static PyObject *call_left(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    DynDoor *d = (DynDoor *)self;
    DynCache *c = d->cache;
    bool left = --d->next_look > 0 && PyFunction_GET_CODE(d->func) == c->code && dyn_loops_are_left(c);
    if (DYN_UNLIKELY(!left || dyn_hook_serves_frames ||
                     (!c->loops_on && !c->idle && given_array(args, count_of(nargsf, kwnames))))) {
        d->vectorcall = call;
        d->next_look = 1;
        return call(self, args, nargsf, kwnames);
    }
    return dyn_loops_call_doors(c) ? dyn_loops_call_left(c, d->func, args, nargsf, kwnames)
                                   : dyn_func_call(d->func, args, nargsf, kwnames);
}

static unsigned long doors_left; /* so often a door came to that, in all: for tests */

static void leave(DynDoor *d) {
    bool left = d->next_look > 1 && dyn_loops_are_left(d->cache);
    doors_left += left;
    d->vectorcall = left ? call_left : call;
}

static PyObject *call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    DynDoor *d = (DynDoor *)self;
    PyObject *func = d->func;
    if (DYN_UNLIKELY(PyFunction_GET_CODE(func) != d->cache->code) && follow_code(d) < 0) {
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    PyThreadState *ts = PyThreadState_Get();
    if (DYN_UNLIKELY(dyn_cpy_is_traced(ts))) {
        dyn_door_step_aside(ts, d->cache);
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    if (dyn_cpy_short_of_stack() || dyn_cpy_is_raising(ts)) {
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    if (DYN_UNLIKELY(--d->next_look == 0)) {
        look_at_site(d, ts);
        leave(d);
    }
    if (!dyn_loops_serve(d->cache) && dyn_cache_idles(d->cache)) {
        return dyn_loops_call_plain(d->cache, func, args, nargsf, kwnames);
    }
    return dyn_door_call(d->cache, func, d->frozen, args, nargsf, kwnames);
}

/* One resume function, up to where it leaves another to do. Slots of the bound arguments are the tuple's own items, or a copy of
 * them: what is dropped are the tuple's references. */
static PyObject *resume_one(DynDoor *d, PyObject *args, uint64_t run, DynNext *next) {
    PyObject *func = d->func, *result;
    DynSpent spent = {((PyTupleObject *)args)->ob_item, (size_t)PyTuple_GET_SIZE(args)};
    DynCache *c = d->cache;
    DynBound b;
    DynHit hit;
    *next = (DynNext){NULL, NULL};
    DynLoopTurn turn = dyn_loop_turn(&c->loop, c, run);
    bool forbidden = dyn_cpy_is_traced(PyThreadState_Get()) || dyn_cpy_short_of_stack();
    if (dyn_cache_idles(c) || turn == DYN_LOOP_EAGER || forbidden) {
        return dyn_hook_resume(NULL, func, spent);
    }
    if (dyn_bind(&c->sig, func, spent.at, (Py_ssize_t)spent.n, NULL, &b) < 0) {
        return dyn_hook_resume(NULL, func, spent);
    }
    dyn_cache_incref(c);
    if (turn == DYN_LOOP_ASIDE) {
        hit = (DynHit){.kind = DYN_HIT_ASIDE, .entry = c->loop.aside};
        dyn_entry_incref(hit.entry);
    } else {
        dyn_hit_find(c, func, b.slots, &hit);
    }
    if (dyn_hit_goes_on(hit.kind)) {
        result = dyn_hit_break(&hit, func, b.slots, spent, next);
        dyn_bind_free(&b);
    } else {
        bool missed = hit.kind == DYN_HIT_MISS && !d->frozen;
        bool record = missed && dyn_cpy_known() && dyn_cache_may_record(c, b.slots);
        if (record && c->entries.n > 0) {
            explain_miss(c, func, b.slots);
        }
        dyn_bind_free(&b);
        if (hit.kind == DYN_HIT_RETURN) {
            result = hit.result;
        } else if (hit.kind == DYN_HIT_LEAVE) {
            dyn_spend(spent);
            result = dyn_leave_call(hit.leave, func);
        } else {
            result = dyn_hook_resume(record ? c : NULL, func, spent);
        }
    }
    dyn_cache_decref(c);
    return result;
}

PyObject *dyn_door_resume(DynNext next) {
    static uint64_t runs;
    PyObject *result;
    uint64_t run = ++runs; /* what is gone round in here is a loop */
    for (DynNext now = next;; now = next) {
        PyObject_GC_UnTrack(now.args); /* nobody is to see a tuple with holes */
        result = resume_one((DynDoor *)now.door, now.args, run, &next);
        Py_DECREF(now.args);
        Py_DECREF(now.door);
        if (next.door == NULL) {
            return result;
        }
        Py_DECREF(result);
    }
}

/* ---- attributes: the function's own */

static PyObject *forward_get(PyObject *self, void *name) { return PyObject_GetAttrString(((DynDoor *)self)->func, name); }

static int forward_set(PyObject *self, PyObject *value, void *name) {
    dyn_loops_forget_door(((DynDoor *)self)->cache);
    return PyObject_SetAttrString(((DynDoor *)self)->func, name, value);
}

/* isinstance() says that it is a function, and so `inspect` finds its file and source: whoever asks for less than its type, as
 * `type()` and C do, sees that it isn't one. */
static PyObject *get_class(PyObject *self, void *none) { return Py_NewRef((PyObject *)Py_TYPE(((DynDoor *)self)->func)); }

static PyObject *get_wrapped(PyObject *self, void *none) { return Py_NewRef(((DynDoor *)self)->func); }

static PyObject *get_entries(PyObject *self, void *none) { return dyn_pyentry_list(((DynDoor *)self)->cache); }

static PyObject *get_refusals(PyObject *self, void *none) { return dyn_cache_refusals(((DynDoor *)self)->cache); }

static PyObject *get_loops(PyObject *self, void *none) { return dyn_loops_list(((DynDoor *)self)->cache); }

#define FORWARD(name) \
    { #name, forward_get, forward_set, NULL, #name }
#define FORWARD_READ(name) \
    { #name, forward_get, NULL, NULL, #name }
static PyGetSetDef getset[] = {
    FORWARD(__name__),
    FORWARD(__qualname__),
    FORWARD(__doc__),
    FORWARD(__module__),
    FORWARD(__annotations__),
    FORWARD(__defaults__),
    FORWARD(__kwdefaults__),
    FORWARD(__code__),
    FORWARD(__type_params__),
    FORWARD_READ(__closure__),
    FORWARD_READ(__globals__),
    FORWARD_READ(__builtins__),
    {"__class__", get_class, NULL, "That of the function.", NULL},
    {"__wrapped__", get_wrapped, NULL, "The function itself.", NULL},
    {"__dict__", PyObject_GenericGetDict, NULL, NULL, NULL},
    {"refusals", get_refusals, NULL, "What was not captured, why and where: a few different ones.", NULL},
    {"loops", get_loops, NULL, "Loops that were arrived at, and what became of each.", NULL},
    {"entries", get_entries, NULL, "Cache entries, the function's own first, then those of what follows its graph breaks.", NULL},
    {0}};

/* ---- methods */

static PyObject *source(PyObject *self, PyObject *none) {
    PyObject *entries = dyn_pyentry_list(((DynDoor *)self)->cache);
    PyObject *parts = entries == NULL ? NULL : PyList_New(0), *text = NULL;
    for (Py_ssize_t i = 0; parts != NULL && i < PyList_GET_SIZE(entries); i++) {
        PyObject *one = PyObject_GetAttrString(PyList_GET_ITEM(entries, i), "source");
        if (one == NULL || (PyUnicode_GetLength(one) > 0 && PyList_Append(parts, one) < 0)) {
            Py_CLEAR(parts);
        }
        Py_XDECREF(one);
    }
    DynStr loops = {0};
    dyn_loops_source(((DynDoor *)self)->cache, &loops);
    PyObject *last = parts == NULL || loops.n == 0 ? NULL : PyUnicode_FromString(dyn_str_at(&loops));
    if (loops.n > 0 && (last == NULL || PyList_Append(parts, last) < 0)) {
        Py_CLEAR(parts);
    }
    Py_XDECREF(last);
    dyn_str_free(&loops);
    PyObject *line = parts == NULL ? NULL : PyUnicode_FromString("\n");
    if (line != NULL) {
        text = PyUnicode_Join(line, parts);
    }
    Py_XDECREF(line);
    Py_XDECREF(parts);
    Py_XDECREF(entries);
    return text;
}

static PyObject *itself(PyObject *self, PyObject *memo) { return Py_NewRef(self); }

/* module.qualname is this very object: 1; else 0. No exception is left. */
static int is_global(PyObject *self, PyObject *module, PyObject *qualname) {
    PyObject *at = PyImport_GetModule(module);
    PyObject *dot = PyUnicode_FromString("."), *names = dot == NULL ? NULL : PyUnicode_Split(qualname, dot, -1);
    for (Py_ssize_t i = 0; at != NULL && names != NULL && i < PyList_GET_SIZE(names); i++) {
        Py_SETREF(at, PyObject_GetAttr(at, PyList_GET_ITEM(names, i)));
    }
    int same = names != NULL && at == self;
    Py_XDECREF(at);
    Py_XDECREF(names);
    Py_XDECREF(dot);
    PyErr_Clear();
    return same;
}

static PyObject *reduce(PyObject *self, PyObject *none) {
    DynDoor *d = (DynDoor *)self;
    PyObject *module = PyObject_GetAttrString(d->func, "__module__"), *name = PyObject_GetAttrString(d->func, "__qualname__");
    PyObject *result = NULL;
    bool named = module != NULL && name != NULL;
    if (named && PyUnicode_Check(module) && is_global(self, module, name)) {
        result = Py_NewRef(name);
    } else if (named) {
        PyObject *ours = dyn_import("dynoc._dynoc");
        PyObject *optimize = ours == NULL ? NULL : PyObject_GetAttrString(ours, "optimize");
        result = optimize == NULL ? NULL : Py_BuildValue("N(OO)", optimize, d->func, d->cache->options->dict);
        Py_XDECREF(ours);
    }
    Py_XDECREF(module);
    Py_XDECREF(name);
    return result;
}

static PyMethodDef methods[] = {
    {"source", source, METH_NOARGS, "The generated code of all entries."},
    {"__copy__", itself, METH_NOARGS, "A function is not copied."},
    {"__deepcopy__", itself, METH_O, "A function is not copied."},
    {"__reduce__", reduce, METH_NOARGS, "By name where the name stands for this object, else the function and its options."},
    {0}};

static PyObject *repr(PyObject *self) { return PyUnicode_FromFormat("<dynoc.optimize of %R>", ((DynDoor *)self)->func); }

static PyObject *descr_get(PyObject *self, PyObject *object, PyObject *type) {
    return object == NULL || object == Py_None ? Py_NewRef(self) : PyMethod_New(self, object);
}

/* ---- the type */

static int traverse(PyObject *self, visitproc visit, void *arg) {
    DynDoor *d = (DynDoor *)self;
    Py_VISIT(d->func);
    Py_VISIT(d->dict);
    return dyn_cache_traverse(d->cache, visit, arg);
}

/* The function stays: a destructor in the same garbage may still call the door. Its own clearing breaks the cycles through it. */
static int clear(PyObject *self) {
    DynDoor *d = (DynDoor *)self;
    DynRaised before = dyn_callback_begin();
    Py_CLEAR(d->dict);
    dyn_cache_clear(d->cache);
    dyn_callback_end(before);
    return 0;
}

static void dealloc(PyObject *self) {
    DynDoor *d = (DynDoor *)self;
    DynRaised before = dyn_callback_begin();
    PyObject_GC_UnTrack(self);
    if (d->weakrefs != NULL) {
        PyObject_ClearWeakRefs(self);
    }
    Py_CLEAR(d->dict);
    dyn_loops_forget_door(d->cache);
    dyn_cache_decref(d->cache);
    Py_DECREF(d->func);
    PyObject_GC_Del(self);
    dyn_callback_end(before);
}

PyTypeObject DynDoor_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.OptimizedFunction",
    .tp_doc = "A function that runs as native code where it can. Made by dynoc.optimize.",
    .tp_basicsize = sizeof(DynDoor),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(DynDoor, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_repr = repr,
    .tp_descr_get = descr_get,
    .tp_dictoffset = offsetof(DynDoor, dict),
    .tp_weaklistoffset = offsetof(DynDoor, weakrefs),
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_getset = getset,
    .tp_methods = methods,
};

PyObject *dyn_door_new(PyObject *func, DynCache *cache, bool frozen) {
    PyObject *dict = PyObject_GetAttrString(func, "__dict__");
    DynDoor *d = dict == NULL ? NULL : PyObject_GC_New(DynDoor, &DynDoor_Type);
    if (d == NULL) {
        Py_XDECREF(dict);
        return NULL;
    }
    d->vectorcall = call;
    d->func = Py_NewRef(func);
    d->cache = cache;
    dyn_cache_incref(cache);
    d->dict = dict;
    d->weakrefs = NULL;
    d->frozen = frozen;
    d->next_look = 1;
    d->looks = 0;
    PyObject_GC_Track((PyObject *)d);
    return (PyObject *)d;
}

static PyObject *count_left(PyObject *module, PyObject *none) { return PyLong_FromUnsignedLong(doors_left); }

static PyMethodDef functions[] = {{"_doors_left", count_left, METH_NOARGS, "Doors whose calls were asked nothing from then on."},
                                  {0}};

int dyn_door_init(PyObject *module) {
    bool failed = PyType_Ready(&DynDoor_Type) < 0 || PyModule_AddFunctions(module, functions) < 0;
    return failed ? -1 : PyModule_AddObjectRef(module, "OptimizedFunction", (PyObject *)&DynDoor_Type);
}
