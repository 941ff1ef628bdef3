/* loop_watch.c: enable() in a program that has no arrays (yet): is there a loop that is worth starting all the rest for it?
 * Called by Python (_optimize.py); ticks.c asks every few milliseconds, and whoever is on the stack then and has a loop is
 * counted. What it works on says how long it has to have run (looks.c): making it native takes a tenth of a second, most of it
 * the compiler's, which a loop over numbers is likely to win back, and which mustn't be more than a hundredth of the time of a
 * program whose loops are likely to stay CPython's. With the GIL. Owns references to a few code objects, and to what is called
 * in the end. */
#include "evalframe/loop_watch.h"
#include "evalframe/finder.h"
#include "evalframe/ticks.h"
#include "evalframe/looks.h"
#include "tracer/bytecode/decode.h"
#include <time.h>

#define MANY 20   /* meetings with a function that make its loop worth it if it is over numbers: .16 s, … */
#define SOON 4    /* … or so many, or 8, 16, if its loop is seen to run for long yet, … */
#define TIMES 2   /* … so many times as long as a compiler takes: it has a processor of its own, or shares the program's; … */
#define LONG_S 10 /* or over objects, when the program has run for so long that starting takes a hundredth of that */
#define MEETING_NS 7000000
#define DEPTH 6    /* functions on the stack that are looked at */
#define COUNTED 16 /* functions that are counted at a time */

static PyObject *callback; /* strong; NULL: nobody waits */
static struct {
    PyObject *code; /* strong */
    unsigned n, when, tick;
    DynLooks looks; /* when it was met last, of the times that it is looked at; … */
    PyObject *over; /* … and then: the iterator of its outermost loop, borrowed and only compared, … */
    Py_ssize_t left;
    int64_t began; /* … the trips that this had left when it was met first, and the time then */
} met[COUNTED];
static unsigned meetings, tick;

static void forget_all(void) {
    for (int i = 0; i < COUNTED; i++) {
        Py_CLEAR(met[i].code);
        met[i].n = met[i].when = 0;
    }
}

/* The function that wasn't met for longest gives its place to a new one. */
static int place_of(PyObject *code) {
    int oldest = 0;
    meetings++;
    for (int i = 0; i < COUNTED; i++) {
        if (met[i].code == code) {
            return i;
        }
        oldest = met[i].when < met[oldest].when ? i : oldest;
    }
    Py_XSETREF(met[oldest].code, Py_NewRef(code));
    met[oldest].n = met[oldest].tick = 0;
    met[oldest].over = NULL;
    return oldest;
}

/* The process has computed for so long, in nanoseconds. */
static int64_t computed_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* … that starting in vain wouldn't be felt. */
static bool runs_for_long(void) { return computed_ns() >= LONG_S * 1000000000LL; }

/* Ticks come by the clock. A meeting is one in which the program has computed since the last: on a busy machine it has to share
 * its processor, and what a loop takes there isn't what making it native would save. */
static bool has_computed(void) {
    static int64_t before;
    int64_t now = computed_ns();
    bool has = now - before >= MEETING_NS;
    before = has ? now : before;
    return has;
}

typedef enum Rest { REST_UNKNOWN, REST_SHORT, REST_LONG } Rest;

/* Will the loop that the frame is in run for long enough yet to be worth a compiler's time, by the time that its trips took since
 * it was met first? A trip that isn't over counts as if it were. */
static Rest rest_of(int i, DynFrame *f) {
    DynLoopAhead ahead = dyn_looks_ahead(f);
    int64_t now = computed_ns();
    if (ahead.left < 0 || ahead.over != met[i].over || ahead.left > met[i].left) {
        met[i].over = ahead.left < 0 ? NULL : ahead.over;
        met[i].left = ahead.left;
        met[i].began = now;
        return REST_UNKNOWN;
    }
    Py_ssize_t trips = met[i].left > ahead.left ? met[i].left - ahead.left : 1;
    double rest = (double)(now - met[i].began) / (double)trips * (double)ahead.left;
    return rest >= TIMES * (double)ahead.cost_ns ? REST_LONG : REST_SHORT;
}

/* The function of this frame is met once more: is its loop worth starting for? Its looks are taken at the meetings 1, 2, 4, 8 …
 * and when they decide: then a loop that is over soon isn't, though other loops may follow. *promising: it may become so before
 * long. */
static bool meet(DynFrame *f, bool *promising) {
    int i = place_of((PyObject *)dyn_frame_code(f));
    if (met[i].tick == tick) { /* it calls itself */
        return false;
    }
    unsigned n = ++met[i].n;
    met[i].tick = tick;
    met[i].when = meetings;
    Rest rest = REST_UNKNOWN;
    if (n % MANY == 0 || (n & (n - 1)) == 0) {
        met[i].looks = dyn_looks_of_frame(f);
        rest = met[i].looks == DYN_LOOKS_LIKE_NUMBERS ? rest_of(i, f) : REST_UNKNOWN;
    }
    DynLooks looks = met[i].looks;
    bool is_time = (n % MANY == 0 && rest != REST_SHORT) || (n >= SOON && rest == REST_LONG);
    *promising |= looks == DYN_LOOKS_LIKE_NUMBERS;
    bool likely = looks == DYN_LOOKS_LIKE_NUMBERS || (looks == DYN_LOOKS_LIKE_OBJECTS && runs_for_long());
    return is_time && likely && !dyn_looks_refused(f);
}

/* The code of one of the functions on the stack that is worth starting for: a new reference, or NULL. */
static PyObject *look_at_stack(bool *promising) {
    DynFrame *f = dyn_frame_complete(dyn_frame_current(PyThreadState_Get()));
    PyObject *worth_it = NULL;
    tick++;
    for (int depth = 0; f != NULL && depth < DEPTH && worth_it == NULL; depth++, f = dyn_frame_caller(f)) {
        PyCodeObject *code = dyn_frame_code(f);
        bool function = (code->co_flags & CO_OPTIMIZED) != 0 && (code->co_flags & (CO_GENERATOR | CO_COROUTINE)) == 0;
        bool loops =
            function ? dyn_code_repeats(code)
                     : dyn_frame_namespace(f) != NULL && dyn_code_loop_names(code, dyn_frame_position(f), NULL, 0) != DYN_NONE;
        worth_it = loops && meet(f, promising) ? Py_NewRef((PyObject *)code) : NULL;
    }
    return worth_it;
}

static DynTick on_tick(unsigned ms) {
    DynRaised before = dyn_callback_begin();
    bool promising = false;
    if (!has_computed()) {
        dyn_callback_end(before);
        return DYN_TICK_USEFUL;
    }
    PyObject *worth_it = callback != NULL ? look_at_stack(&promising) : NULL;
    if (worth_it != NULL) {
        PyObject *call = callback, *result;
        callback = NULL;
        dyn_ticks_stop(on_tick); /* the call may start others */
        forget_all();
        result = PyObject_CallNoArgs(call);
        if (result == NULL) {
            PyErr_WriteUnraisable(call);
        }
        Py_XDECREF(result);
        Py_DECREF(call);
        dyn_finder_expect((PyCodeObject *)worth_it);
        Py_DECREF(worth_it);
    }
    dyn_callback_end(before);
    return promising ? DYN_TICK_USEFUL : DYN_TICK_USELESS;
}

PyObject *dyn_loop_watch(PyObject *module, PyObject *what) {
    bool watches = what != Py_None;
    if (callback != NULL) {
        dyn_ticks_stop(on_tick);
        forget_all();
    }
    Py_XSETREF(callback, watches ? Py_NewRef(what) : NULL);
    if (watches) {
        dyn_ticks_start(on_tick);
    }
    Py_RETURN_NONE;
}
