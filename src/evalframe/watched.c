/* watched.c: what calls of functions and entries take while somebody watches, for dynoc.profile(), dynoc.report() and traces.
 *
 * Called by hit.c with the GIL, behind a look at `dyn_watching`. Caches and entries own their times; those that died since are
 * missing from what _watched() tells. */
#include "evalframe/watched.h"
#include "evalframe/door.h"
#include "evalframe/follow.h"
#include "evalframe/hold.h"
#include "evalframe/loops.h"

static DynWatched *current(DynWatched *w) {
    if (w->round != dyn_watch_round) {
        *w = (DynWatched){.round = dyn_watch_round};
    }
    return w;
}

void dyn_watched_call(DynCache *c, DynEntry *e, int64_t began, int64_t checked) {
    int64_t now = dyn_now_ns();
    DynWatched *of_cache = current(&c->watched);
    of_cache->guard_ns += checked - began;
    if (e == NULL) {
        of_cache->missed++;
        return;
    }
    DynWatched *of_entry = current(&e->watched);
    of_entry->guard_ns += checked - began;
    dyn_times_add(&of_cache->run, now - checked, 0);
    dyn_times_add(&of_entry->run, now - checked, 0);
    dyn_watch_event("guards", e->capture->graph.name, began, checked - began, 0);
    dyn_watch_event("call", e->capture->graph.name, began, now - began, 0);
}

void dyn_watched_extern(DynWatched *w, const DynGraph *g, uint32_t node, int64_t began) {
    int64_t ns = dyn_now_ns() - began;
    dyn_times_add(&current(w)->run, ns, 0);
    dyn_watch_event("extern", dyn_graph_name_of(g, dyn_graph_node(g, node)), began, ns, 0);
}

void dyn_watched_loop(DynCache *c, DynWatched *w, int64_t began) {
    int64_t ns = dyn_now_ns() - began;
    if (c != NULL) {
        (void)current(&c->watched);
    }
    dyn_times_add(&current(w)->run, ns, 0);
    dyn_watch_event("loop", "loop", began, ns, 0);
}

/* ---- telling */

static int put(PyObject *dict, const char *key, PyObject *value) { /* takes value */
    int done = value == NULL ? -1 : PyDict_SetItemString(dict, key, value);
    Py_XDECREF(value);
    return done;
}

static int add_call(PyObject *list, const DynGraph *g, const DynFollowStep *step) {
    const DynNode *n = dyn_graph_node(g, step->node);
    const DynWatched *w = &step->watched;
    if (w->round != dyn_watch_round) {
        return 0;
    }
    const DynPlace *place = dyn_graph_place_at(g, n->where);
    PyObject *file = place == NULL ? NULL : ((PyCodeObject *)place->code)->co_filename;
    PyObject *row = dyn_watch_row("extern", dyn_graph_name_of(g, n), file, place == NULL ? 0 : (int)place->line, &w->run);
    int done = row == NULL ? -1 : PyList_Append(list, row);
    Py_XDECREF(row);
    return done;
}

static PyObject *steps_of(const DynEntry *e) {
    PyObject *list = PyList_New(0);
    int done = list == NULL ? -1 : 0;
    if (done == 0 && e->artifact != NULL) {
        done = dyn_artifact_times(e->artifact, list);
    }
    for (uint32_t i = 0; done == 0 && e->follow != NULL && i < e->follow->steps.n; i++) {
        const DynFollowStep *step = &e->follow->steps.at[i];
        done = step->part != NULL ? dyn_follow_part_times(step->part, list) : add_call(list, &e->capture->graph, step);
    }
    if (done < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* The entry stays meanwhile, whatever the collector does when objects are made. */
static PyObject *entry_row(DynEntry *e) {
    dyn_entry_incref(e);
    const DynWatched *w = current(&e->watched);
    PyObject *row = Py_BuildValue("{sI,sL,sd,sd}", "number", e->number, "calls", (long long)w->run.calls, "guards",
                                  (double)w->guard_ns * 1e-9, "run", (double)w->run.ns * 1e-9);
    if (row != NULL && (put(row, "entry", dyn_pyentry_new(e)) < 0 || put(row, "steps", steps_of(e)) < 0)) {
        Py_CLEAR(row);
    }
    dyn_entry_decref(e);
    return row;
}

static PyObject *cache_row(DynCache *c, bool all) {
    DynTitle title = dyn_cache_title(c);
    const DynWatched *w = current(&c->watched);
    PyObject *entries = PyList_New(0);
    for (uint32_t i = 0; entries != NULL && i < c->entries.n; i++) {
        DynEntry *e = c->entries.at[i];
        PyObject *row = all || e->watched.round == dyn_watch_round ? entry_row(e) : Py_NewRef(Py_None);
        if (row == NULL || (row != Py_None && PyList_Append(entries, row) < 0)) {
            Py_CLEAR(entries);
        }
        Py_XDECREF(row);
    }
    if (entries == NULL) {
        return NULL;
    }
    PyObject *loops = dyn_loops_times(c);
    if (loops == NULL) {
        Py_DECREF(entries);
        return NULL;
    }
    PyObject *said = c->root != NULL ? PyList_New(0) : dyn_cache_refusals(c), *looped = dyn_loops_list(c);
    if (said == NULL || looped == NULL) {
        Py_XDECREF(said);
        Py_XDECREF(looped);
        Py_DECREF(entries);
        Py_DECREF(loops);
        return NULL;
    }
    return Py_BuildValue("{sO,sO,si,sO,sL,sL,sd,sd,sN,sN,sN,sN}", "function", title.name, "file", title.file, "line", title.line,
                         "resumed", c->root != NULL ? Py_True : Py_False, "hits", (long long)w->run.calls, "missed",
                         (long long)w->missed, "guards", (double)w->guard_ns * 1e-9, "run", (double)w->run.ns * 1e-9, "entries",
                         entries, "loops", loops, "refusals", said, "said of loops", looped);
}

/* The row of a cache whose family is in use meanwhile, so that the collector, which making objects can start, leaves it alone. */
static PyObject *family_row(DynCache *c, bool all) {
    DynCache *root = c->root != NULL ? c->root : c;
    dyn_cache_incref(root);
    dyn_hold_tighten(root);
    PyObject *row = cache_row(c, all);
    dyn_cache_decref(root);
    return row;
}

static PyObject *tell(PyObject *module, PyObject *arg) {
    bool all = arg == Py_True;
    PyObject *list = PyList_New(0);
    DynCache *c = dyn_cache_first();
    if (c != NULL) {
        dyn_cache_incref(c);
    }
    while (c != NULL) {
        bool wanted = list != NULL && (all || c->watched.round == dyn_watch_round);
        PyObject *row = wanted ? family_row(c, all) : Py_NewRef(Py_None);
        if (row == NULL || (row != Py_None && PyList_Append(list, row) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
        DynCache *next = c->next;
        if (next != NULL) {
            dyn_cache_incref(next);
        }
        dyn_cache_decref(c);
        c = next;
    }
    return list;
}

static PyMethodDef methods[] = {
    {"_watched", tell, METH_O, "A dict for each function that was called since _watch, or (True) that there is: _profile.py."},
    {0}};

int dyn_watched_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
