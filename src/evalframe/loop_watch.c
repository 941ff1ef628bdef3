/* loop_watch.c: enable() in a program that has no arrays (yet): is there a loop that takes long enough to be worth starting all
 * the rest, NumPy included, for it? Called by Python (_optimize.py); ticks.c asks every few milliseconds, and whoever is on the
 * stack then and has a loop is counted. With the GIL. Owns references to a few code objects, and to what is called in the end. */
#include "evalframe/loop_watch.h"
#include "evalframe/ticks.h"
#include "tracer/bytecode/decode.h"

#define MANY 128   /* meetings with a function that make its loop worth it: about a second, of which starting takes a tenth */
#define DEPTH 6    /* functions on the stack that are looked at */
#define COUNTED 16 /* functions that are counted at a time */

static PyObject *callback; /* strong; NULL: nobody waits */
static struct {
    PyObject *code; /* strong */
    unsigned n, when;
} met[COUNTED];
static unsigned meetings;

static void forget_all(void) {
    for (int i = 0; i < COUNTED; i++) {
        Py_CLEAR(met[i].code);
        met[i].n = met[i].when = 0;
    }
}

/* The function that wasn't met for longest gives its place to a new one. */
static unsigned meet(PyObject *code) {
    int oldest = 0;
    meetings++;
    for (int i = 0; i < COUNTED; i++) {
        if (met[i].code == code) {
            met[i].when = meetings;
            return ++met[i].n;
        }
        oldest = met[i].when < met[oldest].when ? i : oldest;
    }
    Py_XSETREF(met[oldest].code, Py_NewRef(code));
    met[oldest].when = meetings;
    return met[oldest].n = 1;
}

static unsigned look_at_stack(void) {
    PyFrameObject *f = PyThreadState_GetFrame(PyThreadState_Get());
    unsigned most = 0;
    for (int depth = 0; f != NULL && depth < DEPTH; depth++) {
        PyCodeObject *code = PyFrame_GetCode(f);
        bool function = (code->co_flags & CO_OPTIMIZED) != 0 && (code->co_flags & (CO_GENERATOR | CO_COROUTINE)) == 0;
        unsigned n = function && dyn_code_loops(code) ? meet((PyObject *)code) : 0;
        most = n > most ? n : most;
        Py_DECREF(code);
        PyFrameObject *caller = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = caller;
    }
    Py_XDECREF(f);
    return most;
}

static int on_tick(void *unused) {
    if (dyn_cpy_is_finalizing()) {
        return 0;
    }
    DynRaised before = dyn_callback_begin();
    unsigned most = callback == NULL ? 0 : look_at_stack();
    dyn_ticks_came(most > 0);
    if (most >= MANY) {
        PyObject *call = callback, *result;
        callback = NULL;
        dyn_ticks_stop();
        forget_all();
        result = PyObject_CallNoArgs(call);
        if (result == NULL) {
            PyErr_WriteUnraisable(call);
        }
        Py_XDECREF(result);
        Py_DECREF(call);
    }
    dyn_callback_end(before);
    return 0;
}

PyObject *dyn_loop_watch(PyObject *module, PyObject *what) {
    bool watches = what != Py_None;
    if (callback != NULL) {
        dyn_ticks_stop();
        forget_all();
    }
    Py_XSETREF(callback, watches ? Py_NewRef(what) : NULL);
    if (watches) {
        dyn_ticks_start(on_tick);
    }
    Py_RETURN_NONE;
}
