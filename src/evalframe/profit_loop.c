/* profit_loop.c: a loop whose trips cost more served than CPython takes for them is retired.
 *
 * A loop shows as a resume function that one call comes round to again and again (door.c). After some trips the next are timed;
 * then CPython makes as many in plain code of the same stretch, whose trap tells of each. What loses is CPython's: up to the end
 * of the loop where something behind it pays, else up to the end of the function. One loop of the process is counted in plain
 * code at a time. GIL throughout. */
#include "evalframe/hook.h"

#define SAMPLES 32
#define OUTLIERS 4 /* of them: trips that began or ended something else */

struct DynLoopTrial {
    uint64_t served[SAMPLES], eager[SAMPLES]; /* cycles from trip to trip */
    uint32_t nserved, neager;
    uint64_t last; /* when the last trip began; 0: not known */
    uint64_t recordings;
};

static struct {
    DynCache *cache; /* whose trips are counted; NULL: none. Borrowed: dyn_loop_clear forgets it */
    const DynEntry *entry;
} counting;

static double trimmed_mean(uint64_t *at) {
    double sum = 0;
    qsort(at, SAMPLES, sizeof *at, dyn_cycles_compare);
    for (int i = 0; i < SAMPLES - OUTLIERS; i++) {
        sum += (double)at[i];
    }
    return sum / (SAMPLES - OUTLIERS);
}

/* ---- what a trap costs */

#define TRAP_TRIPS 64

/* Cycles of a call of f(range(TRAP_TRIPS)): the least of some. -1: it can't be called. */
static double time_of(PyObject *f) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 4; i++) {
        PyObject *trips = PyObject_CallFunction((PyObject *)&PyRange_Type, "i", TRAP_TRIPS);
        uint64_t began = dyn_cycles();
        PyObject *result = trips == NULL ? NULL : dyn_hook_plain(f, &trips, 1, NULL);
        uint64_t took = dyn_cycles() - began;
        least = took < least ? took : least;
        Py_XDECREF(trips);
        Py_XDECREF(result);
        if (result == NULL) {
            return -1;
        }
    }
    return (double)least;
}

/* The function with a trap in front of its FOR_ITER, which never leads out. */
static PyObject *with_trap(PyObject *f) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(f);
    DynCode *c = dyn_decode(code);
    PyObject *made = NULL;
    for (uint32_t i = 0; c != NULL && made == NULL && i < c->v.n; i++) {
        const bool bound[2] = {true, true}, null[2] = {false, true};
        const DynFrameShape before = {c->v.at[i].start, dyn_iterator_slots(), bound, null};
        if (c->v.at[i].op != DYN_I_FOR_ITER) {
            continue;
        }
        PyObject *way_out = dyn_way_out_new(NULL, 2, &before);
        made = way_out == NULL ? NULL : dyn_asm_waiting(c, way_out, &before, (DynWay[DYN_WAYS]){0});
        Py_XDECREF(way_out);
        break;
    }
    if (c != NULL) {
        dyn_decode_free(c);
    }
    Py_XSETREF(made, made == NULL ? NULL : PyFunction_New(made, PyFunction_GET_GLOBALS(f)));
    return made;
}

static double measure_trap(void) {
    PyObject *space = PyDict_New(), *trapped = NULL;
    PyObject *done = space == NULL ? NULL : PyRun_String("def f(r):\n for i in r: pass\n", Py_file_input, space, space);
    PyObject *f = done == NULL ? NULL : PyDict_GetItemString(space, "f"); /* borrowed */
    trapped = f == NULL ? NULL : with_trap(f);
    double cost = -1;
    if (trapped != NULL) {
        double plain = time_of(f), slow = time_of(trapped);
        cost = plain < 0 || slow < plain ? -1 : (slow - plain) / TRAP_TRIPS;
    }
    PyErr_Clear();
    Py_XDECREF(trapped);
    Py_XDECREF(done);
    Py_XDECREF(space);
    return cost;
}

/* Cycles; 0 where it can't be measured. Once for a process. */
static double trap_cost(void) {
    static double cost = -1;
    if (cost < 0) {
        DynRaised before = dyn_callback_begin();
        double measured = measure_trap();
        cost = measured < 0 ? 0 : measured;
        dyn_callback_end(before);
    }
    return cost;
}

/* ---- decisions */

static bool has_work(const DynCache *c) {
    for (uint32_t i = 0; i < c->entries.n; i++) {
        if (c->entries.at[i]->works && c->entries.at[i]->plain == DYN_R_OK) {
            return true;
        }
    }
    return false;
}

/* Is there anything else in the function that is worth coming back for? */
static bool has_more(const DynCache *c) {
    const DynCache *root = c->root;
    bool more = root != NULL && has_work(root);
    for (uint32_t i = 0; root != NULL && !more && i < root->resumes.n; i++) {
        const DynCache *other = dyn_door_cache(root->resumes.at[i].door);
        more = other != c && !other->loop.retired && has_work(other);
    }
    return more;
}

static void conclude(DynCache *c) {
    DynLoopProfit *l = &c->loop;
    double served = trimmed_mean(l->trial->served), eager = trimmed_mean(l->trial->eager) - trap_cost();
    l->retired = served > eager;
    PyMem_RawFree(l->trial);
    l->trial = NULL;
    l->trips = 0;
    dyn_profit_postpone(&l->next, &l->patience);
    dyn_profit_say(c, "a trip of a loop in it", served, eager < 0 ? 0 : eager, l->retired);
    if (!l->retired) {
        dyn_count("profit", "loops kept");
    }
}

void dyn_loop_clear(DynCache *c) {
    if (counting.cache == c) {
        counting.cache = NULL;
    }
    PyMem_RawFree(c->loop.trial);
    c->loop = (DynLoopProfit){0};
}

/* ---- trips */

/* The entry whose plain code runs the loop to its end. */
static DynEntry *aside_of(DynCache *c) {
    for (uint32_t i = 0; i < c->entries.n; i++) {
        if (dyn_rewrite_aside(c->entries.at[i])) {
            return c->entries.at[i];
        }
    }
    return NULL;
}

static DynLoopTurn stay_out(DynCache *c) {
    c->loop.aside = has_more(c) ? aside_of(c) : NULL;
    return c->loop.aside != NULL ? DYN_LOOP_ASIDE : DYN_LOOP_EAGER;
}

static bool begin_trial(DynCache *c) {
    DynLoopProfit *l = &c->loop;
    l->trips = 0;
    if (dyn_cycles() < l->next || !dyn_profit_is_measured(c)) {
        return false;
    }
    l->trial = PyMem_RawCalloc(1, sizeof *l->trial);
    return l->trial != NULL;
}

DynLoopTurn dyn_loop_look(DynCache *c, uint64_t run) {
    DynLoopProfit *l = &c->loop;
    uint64_t now = dyn_cycles();
    if (l->retired && now < l->next) {
        return stay_out(c);
    }
    l->retired = false;
    if (l->run != run) {
        l->run = run;
        l->trips = 0;
        if (l->trial != NULL) {
            l->trial->last = 0;
        }
    }
    if (l->trial == NULL && (l->trips < DYN_LOOP_TRIPS || !begin_trial(c))) {
        l->trips++;
        return DYN_LOOP_SERVE;
    }
    DynLoopTrial *t = l->trial;
    if (t->last != 0 && t->recordings == dyn_hook_recordings() && t->nserved < SAMPLES) {
        t->served[t->nserved++] = now - t->last;
    }
    t->recordings = dyn_hook_recordings();
    t->last = now;
    l->counts = t->nserved == SAMPLES;
    return DYN_LOOP_SERVE;
}

bool dyn_loop_counts_in(DynCache *c, DynEntry *e) {
    c->loop.counts = false;
    if (c->loop.trial == NULL || !dyn_rewrite_waiting(e)) {
        return false;
    }
    counting.cache = c;
    counting.entry = e;
    c->loop.trial->last = 0;
    return true;
}

DynLoopTick dyn_loop_tick(const DynEntry *e) {
    DynCache *c = counting.cache;
    if (c == NULL || counting.entry != e || c->loop.trial == NULL) {
        return DYN_TICK_NOT;
    }
    DynLoopTrial *t = c->loop.trial;
    uint64_t now = dyn_cycles();
    if (t->last != 0 && t->neager < SAMPLES) {
        t->eager[t->neager++] = now - t->last;
    }
    t->last = now;
    if (t->neager < SAMPLES) {
        return DYN_TICK_ON;
    }
    counting.cache = NULL;
    conclude(c);
    return DYN_TICK_OUT;
}
