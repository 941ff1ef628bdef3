/* watch.c: what is being watched, and the list of events of a trace.
 *
 * Events are tuples in a Python list that is owned here, from _watch(TRACE) until _events() takes it. Called by evalframe and
 * codegen/run behind a look at `dyn_watching`. */
#include "base/watch.h"

#define MOST_EVENTS 2000000 /* a trace of more is cut: no viewer shows it, and memory is the program's */

uint32_t dyn_watching;
uint32_t dyn_watch_round = 1;
static PyObject *events; /* a list; NULL: there is no trace */

void dyn_watch_event(const char *kind, const char *name, int64_t start, int64_t ns, int64_t bytes) {
    PyObject *type, *value, *tb;
    if (!(dyn_watching & DYN_WATCH_TRACE) || events == NULL || PyList_GET_SIZE(events) >= MOST_EVENTS) {
        return;
    }
    PyErr_Fetch(&type, &value, &tb);
    PyObject *event = Py_BuildValue("(ssLLLk)", kind, name, (long long)start, (long long)ns, (long long)bytes,
                                    (unsigned long)PyThread_get_thread_native_id());
    if (event == NULL || PyList_Append(events, event) < 0) {
        PyErr_Clear();
    }
    Py_XDECREF(event);
    PyErr_Restore(type, value, tb);
}

PyObject *dyn_watch_row(const char *kind, const char *name, PyObject *file, int line, const DynTimes *times) {
    return Py_BuildValue("{ss,ss,sO,si,sL,sd,sL}", "kind", kind, "name", name, "file", file == NULL ? Py_None : file, "line",
                         file == NULL ? 0 : line, "calls", (long long)times->calls, "seconds", (double)times->ns * 1e-9, "bytes",
                         (long long)times->bytes);
}

static PyObject *watch(PyObject *module, PyObject *arg) {
    unsigned long bits = PyLong_AsUnsignedLong(arg);
    if (bits == (unsigned long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    if ((bits & DYN_WATCH_TRACE) && events == NULL && (events = PyList_New(0)) == NULL) {
        return NULL;
    }
    if ((bits & DYN_WATCH_PROFILE) && !(dyn_watching & DYN_WATCH_PROFILE)) {
        dyn_watch_round++;
    }
    dyn_watching = (uint32_t)bits;
    Py_RETURN_NONE;
}

static PyObject *watching(PyObject *module, PyObject *none) { return PyLong_FromUnsignedLong(dyn_watching); }

static PyObject *take_events(PyObject *module, PyObject *none) {
    PyObject *taken = events == NULL ? PyList_New(0) : events;
    events = NULL;
    return taken;
}

static PyObject *peek(PyObject *module, PyObject *none) {
    return events == NULL ? PyList_New(0) : PyList_GetSlice(events, 0, PyList_GET_SIZE(events));
}

static PyMethodDef methods[] = {
    {"_watch", watch, METH_O, "What is watched from now on: 1 adds times up, 2 lists events."},
    {"_watching", watching, METH_NOARGS, "What is watched."},
    {"_peek", peek, METH_NOARGS, "The events so far; they stay."},
    {"_events", take_events, METH_NOARGS, "The events so far, (kind, name, start, ns, bytes, thread), which begin anew."},
    {0}};

int dyn_watch_init(PyObject *module) { return PyModule_AddFunctions(module, methods); }
