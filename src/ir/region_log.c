/* region_log.c: what an inlined call in a native loop, or a routine, has stored in objects and dicts, appended to lists and taken
 * from their ends: noted before it happens, and undone where the region is left before that call has ended. Called by generated
 * code through region_world.def and, to undo it, by codegen/region when a run has ended. With the GIL. The log owns what it
 * names. */
#include "base/cpy_region.h"
#include "ir/region_ir.h"

DynRegionLog dyn_region_log;

int dyn_region_log_object(PyObject **place) {
    DynRegionLog *log = &dyn_region_log;
    bool full = dyn_region_made->n == DYN_REGION_MADE;
    if (*place != NULL && !dyn_region_is_plain(*place) && (full || !dyn_region_is_quiet(*place))) {
        return 1;
    }
    log->at[log->n].place = place;
    log->at[log->n++].o = Py_XNewRef(*place);
    log->nobjects++;
    return 0;
}

/* In place of a place: an item was appended to the list `o`, which had `number` of them; or its last one was taken out, which
 * is the `o` in front. */
static PyObject *appended[1], *taken_out[1];
/* A key of the dict `o` got a value: in front of it are the key, and the value that it had, or NULL. */
static PyObject *keyed[1];
/* The heap `o` was changed: the item that was put in has come to place `number`, and in front of it is what was taken out, or
 * NULL. */
static PyObject *heaped[DYN_HEAP_CHANGES];

static bool is_heap_change(PyObject *const *place) { return place >= heaped && place < heaped + DYN_HEAP_CHANGES; }

/* A place in the list's memory that was noted would be lost where the list gets other memory. */
static bool is_noted_within(const PyListObject *list) {
    const DynRegionLog *log = &dyn_region_log;
    for (int64_t i = 0; i < log->n; i++) {
        if (log->at[i].place >= list->ob_item && log->at[i].place < list->ob_item + list->allocated) {
            return true;
        }
    }
    return false;
}

/* An item may be appended: no place that was noted moves then. */
static bool may_grow(PyObject *o) {
    const PyListObject *list = (const PyListObject *)o;
    return Py_SIZE(o) != list->allocated || !is_noted_within(list);
}

/* The last item may be taken off: the list's memory stays, so that nothing is needed to put it back. */
static bool may_shrink(PyObject *o) {
    const Py_ssize_t n = PyList_GET_SIZE(o);
    return n > 0 && n - 1 >= ((const PyListObject *)o)->allocated >> 1;
}

int dyn_region_log_append(PyObject *o) {
    DynRegionLog *log = &dyn_region_log;
    if (log->n == DYN_REGION_LOGGED || !may_grow(o)) {
        return 1;
    }
    log->at[log->n].place = appended;
    log->at[log->n].number = (double)PyList_GET_SIZE(o);
    log->at[log->n++].o = Py_NewRef(o);
    log->nobjects++;
    return 0;
}

int dyn_region_log_pop(PyObject *o) {
    DynRegionLog *log = &dyn_region_log;
    Py_ssize_t n = PyList_GET_SIZE(o);
    if (!may_shrink(o) || log->n + 1 >= DYN_REGION_LOGGED) {
        return 1;
    }
    log->at[log->n].place = NULL;
    log->at[log->n++].o = Py_NewRef(PyList_GET_ITEM(o, n - 1));
    log->at[log->n].place = taken_out;
    log->at[log->n].number = (double)n;
    log->at[log->n++].o = Py_NewRef(o);
    log->nobjects++;
    return 0;
}

bool dyn_region_can_log_heap(PyObject *list, DynHeapChange change) {
    bool may = change == DYN_HEAP_PUSHED ? may_grow(list) : change == DYN_HEAP_REPLACED || may_shrink(list);
    return may && dyn_region_log.n + 1 < DYN_REGION_LOGGED;
}

void dyn_region_log_heap(PyObject *list, DynHeapChange change, Py_ssize_t at, PyObject *top) {
    DynRegionLog *log = &dyn_region_log;
    log->at[log->n].place = NULL;
    log->at[log->n++].o = Py_XNewRef(top);
    log->at[log->n].place = &heaped[change];
    log->at[log->n].number = (double)at;
    log->at[log->n++].o = Py_NewRef(list);
    log->nobjects++;
}

int dyn_region_log_key(PyObject *dict, PyObject *key, PyObject *old) {
    DynRegionLog *log = &dyn_region_log;
    if (key == NULL || log->n + 2 >= DYN_REGION_LOGGED || (old != NULL && !dyn_region_can_keep(old))) {
        PyErr_Clear();
        Py_XDECREF(key);
        return 1;
    }
    log->at[log->n].place = NULL;
    log->at[log->n++].o = Py_XNewRef(old);
    log->at[log->n].place = NULL;
    log->at[log->n++].o = key;
    log->at[log->n].place = keyed;
    log->at[log->n++].o = Py_NewRef(dict);
    log->nobjects++;
    return 0;
}

/* The key has the value again that it had, or is taken out: it is the last one then. Takes all references over. */
static void unset(PyObject *dict, PyObject *key, PyObject *old) {
    (void)(old != NULL ? PyDict_SetItem(dict, key, old) : PyDict_DelItem(dict, key));
    PyErr_Clear();
    Py_XDECREF(old);
    Py_DECREF(key);
    Py_DECREF(dict);
}

/* What was taken out of a list of so many items comes back, if it was. */
static void put_back(PyObject *list, double number, PyObject *item) {
    if (PyList_GET_SIZE(list) < (Py_ssize_t)number) {
        (void)PyList_Append(list, item);
        PyErr_Clear();
    }
    Py_DECREF(item);
    Py_DECREF(list);
}

/* The list is as long as it was. What was appended is in other objects too, or was made for it. */
static void take_back(PyObject *list, double number) {
    if (PyList_GET_SIZE(list) > (Py_ssize_t)number) {
        (void)PyList_SetSlice(list, (Py_ssize_t)number, PyList_GET_SIZE(list), NULL);
        PyErr_Clear();
    }
    Py_DECREF(list);
}

/* The call may have taken a list or a dict out of the object that it was in: what it was noted by is its last reference then. */
int dyn_region_commit(void) {
    DynRegionLog *log = &dyn_region_log;
    while (log->n > 0) {
        log->n--;
        if (log->at[log->n].place == taken_out) {
            dyn_region_keep_object(log->at[log->n].o);
            log->n--;
            dyn_region_keep_object(log->at[log->n].o);
        } else if (is_heap_change(log->at[log->n].place)) {
            dyn_region_keep_object(log->at[log->n].o);
            log->n--;
            if (log->at[log->n].o != NULL) {
                dyn_region_keep_object(log->at[log->n].o);
            }
        } else if (log->at[log->n].place == keyed) {
            dyn_region_keep_object(log->at[log->n].o);
            dyn_region_keep_object(log->at[--log->n].o);
            if (log->at[--log->n].o != NULL) {
                dyn_region_keep_object(log->at[log->n].o);
            }
        } else if (log->at[log->n].place != NULL && log->at[log->n].o != NULL) {
            dyn_region_keep_object(log->at[log->n].o);
        }
    }
    log->nobjects = 0;
    return 0;
}

void dyn_region_undo(void) {
    DynRegionLog *log = &dyn_region_log;
    while (log->n > 0) {
        log->n--;
        PyObject **place = log->at[log->n].place, *o = log->at[log->n].o;
        if (place == NULL) {
            ((PyFloatObject *)o)->ob_fval = log->at[log->n].number;
        } else if (place == appended) {
            take_back(o, log->at[log->n].number);
        } else if (place == taken_out) {
            double number = log->at[log->n].number;
            put_back(o, number, log->at[--log->n].o);
        } else if (is_heap_change(place)) {
            const Py_ssize_t at = (Py_ssize_t)log->at[log->n].number;
            dyn_region_heap_undo(o, (DynHeapChange)(place - heaped), at, log->at[log->n - 1].o);
            log->n--;
            Py_DECREF(o);
        } else if (place == keyed) {
            log->n -= 2;
            unset(o, log->at[log->n + 1].o, log->at[log->n].o);
        } else {
            PyObject *now = *place;
            *place = o;
            Py_XDECREF(now);
        }
    }
    log->nobjects = 0;
}
