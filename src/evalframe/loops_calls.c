/* loops_calls.c: calls of a function that has loops: in loop code, or as CPython's own where they will be over before any of the
 * loops is worth planning. Loop code takes up to three hundredths more than the function's own where trips are short, and to ask
 * about cold loops takes as long as some trips do; so where calls are short only their time is counted, until a loop would become
 * worth planning in the midst of the next one. Whether that one is short is told by those before it, as long as no argument is
 * larger than it was in them: a call that is ever so much longer has to become native in its middle.
 *
 * Called by door.c and hook.c, with the GIL. Owns nothing. */
#include "evalframe/loops.h"
#include "base/tensors.h"
#include "evalframe/hook.h"
#include <math.h>

#define NESTED 2       /* so deep in lists and tuples is looked at sizes */
#define LARGER 1.5     /* an argument that is so many times as large as any before tells that a call may be longer, … */
#define SMALL 16.      /* … unless it is small */
#define WAITING_NS 2e7 /* calls that are shorter are CPython's while the compiler works, which takes some times as long */
#define BRIEF_NS 2e3   /* a call that is over so soon doesn't repay being asked about, … */
#define MANY_BRIEF 512 /* … as so many in a row tell; */
#define SOME_BRIEF 64  /* and of those that follow so many … */
#define COUNTED 8      /* … one in so many is timed, for the others too */

typedef struct SeenCall {
    uint64_t began; /* as dyn_loops_ran counts */
    bool is_short;  /* it runs as CPython's own */
    bool alone;     /* no other call of the function was under way when it began */
    double times;   /* it counts for so many calls */
} SeenCall;

/* ---- sizes */

static bool is_measured(PyObject *o) {
    return PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyByteArray_CheckExact(o) || PyDict_CheckExact(o) ||
           PyAnySet_CheckExact(o) || Py_IS_TYPE(o, &PyRange_Type);
}

/* Of what the work of a call may depend on: the value of a number, the items of a container. 0: it has none that is seen. */
static double size_of(PyObject *o, int depth) {
    if (o == NULL || PyBool_Check(o)) {
        return 0;
    }
    if (PyLong_CheckExact(o) || PyFloat_CheckExact(o)) {
        double value = PyLong_CheckExact(o) ? PyLong_AsDouble(o) : PyFloat_AS_DOUBLE(o);
        bool too_large = PyErr_Occurred() != NULL;
        PyErr_Clear();
        return too_large ? INFINITY : fabs(value);
    }
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
        PyObject *first = n > 0 && depth > 1 ? PySequence_Fast_GET_ITEM(o, 0) : NULL;
        bool nested = first != NULL && (PyList_CheckExact(first) || PyTuple_CheckExact(first) || is_measured(first));
        return (double)n * (nested ? 1 + size_of(first, depth - 1) : 1);
    }
    if (is_measured(o)) {
        Py_ssize_t n = PyObject_Size(o);
        PyErr_Clear(); /* a range that is too long for a size */
        return n < 0 ? INFINITY : (double)n;
    }
    if (PyArray_Check(o)) {
        return (double)PyArray_SIZE((PyArrayObject *)o);
    }
    Py_ssize_t left = PyIter_Check(o) ? dyn_loops_trips_left(o) : 0;
    return left < 0 ? INFINITY : (double)left;
}

static void measure(DynCallSizes *sizes, PyObject *const *args, size_t n) {
    sizes->n = n <= DYN_CALL_SIZES ? (uint32_t)n : UINT32_MAX;
    for (uint32_t i = 0; i < n && n <= DYN_CALL_SIZES; i++) {
        sizes->at[i] = size_of(args[i], NESTED);
    }
}

/* Is no argument much larger than in the calls before? */
static bool are_as_before(const DynCallSizes *now, const DynCallSizes *before) {
    bool as_before = now->n == before->n && now->n <= DYN_CALL_SIZES;
    for (uint32_t i = 0; i < now->n && as_before; i++) {
        as_before = isfinite(now->at[i]) && (now->at[i] <= SMALL || now->at[i] <= LARGER * before->at[i]);
    }
    return as_before;
}

static void keep_largest(DynCallSizes *largest, const DynCallSizes *now) {
    for (uint32_t i = 0; i < now->n && now->n <= DYN_CALL_SIZES; i++) {
        double before = largest->n == now->n ? largest->at[i] : 0;
        largest->at[i] = now->at[i] > before ? now->at[i] : before;
    }
    largest->n = now->n;
}

/* ---- time */

double dyn_loops_ran_ns(const DynLoops *l, uint32_t i, uint64_t ran) {
    const DynLoop *loop = &l->loops[i];
    return loop->nested ? dyn_cycles_ns((double)(ran - loop->since)) : loop->ran_ns;
}

/* Would a cold loop become worth the next step in a call that takes as long as the longest one? */
static bool gets_due(const DynLoops *l, uint32_t i) {
    const DynLoop *loop = &l->loops[i];
    double more = dyn_cycles_ns((double)l->longest) * (loop->nested ? 1 : loop->share);
    return dyn_loops_ran_ns(l, i, dyn_loops_ran(l)) + more >= dyn_loops_enough(loop);
}

static bool is_short_call(DynLoops *l, const DynCallSizes *sizes) {
    bool is_short = l->longest > 0 && !l->made->calls && dyn_loops_may_put_off(l) && are_as_before(sizes, &l->sizes);
    for (uint32_t i = 0; i < l->nloops && is_short; i++) {
        DynLoop *loop = &l->loops[i];
        bool due = loop->state == DYN_LOOP_COLD && gets_due(l, i);
        bool waits = loop->state == DYN_LOOP_WAITING && dyn_cycles_ns((double)l->longest) > WAITING_NS;
        bool counts_calls = loop->function && loop->open;
        is_short = !due && !waits && !counts_calls && loop->state != DYN_LOOP_NATIVE;
        if (due && loop->rests) {
            dyn_loops_rouse(l, i);
        }
    }
    return is_short;
}

static SeenCall begin_call(DynLoops *l, bool is_short) {
    double times = is_short && l->brief >= SOME_BRIEF ? COUNTED : 1;
    dyn_loops_begin_call(l);
    for (uint32_t i = 0; i < l->nloops; i++) {
        l->loops[i].ran_before = l->loops[i].ran_ns;
        l->loops[i].first = 0;
    }
    return (SeenCall){.began = dyn_loops_ran(l), .is_short = is_short, .alone = l->calls == 1, .times = times};
}

/* How long a loop can have run at most in a call that ends now: from its first trip to that of the loop behind it. */
static double at_most(const DynLoops *l, const DynLoop *loop) {
    uint64_t until = dyn_cycles();
    for (const DynLoop *k = l->loops; k < l->loops + l->nloops; k++) {
        until = !k->nested && k->first > loop->first && k->first < until ? k->first : until;
    }
    return loop->first == 0 ? 0 : dyn_cycles_ns((double)(until - loop->first));
}

/* What part of the call a cold loop took; all of it, where nobody can say. What its first trips tell of the others isn't asked:
 * in a triangle they are the shortest, or the longest. */
static double share_of(const DynLoops *l, const DynLoop *loop, double ns) {
    double part = loop->nested ? (loop->ran_ns - loop->ran_before) / ns : at_most(l, loop) / ns;
    part = loop->rests ? 1 : part;
    return part < 0 ? 0 : part > 1 ? 1 : part;
}

/* A call was CPython's own. */
static void count_brief(DynLoops *l, uint64_t took) { l->brief = dyn_cycles_ns((double)took) < BRIEF_NS ? l->brief + 1 : 0; }

bool dyn_loops_calls_are_brief(DynCache *c) {
    bool brief = c->loops != NULL && c->loops->brief >= MANY_BRIEF;
    if (brief) {
        c->loops->brief = 0;
    }
    return brief;
}

/* How long it took. */
static uint64_t end_call(DynLoops *l, const SeenCall *call, const DynCallSizes *sizes, bool done) {
    uint64_t took = dyn_loops_ran(l) - call->began;
    double ns = dyn_cycles_ns((double)took);
    for (uint32_t i = 0; i < l->nloops && call->alone && took > 0; i++) {
        DynLoop *loop = &l->loops[i];
        if (loop->state == DYN_LOOP_COLD && !call->is_short) {
            loop->share = share_of(l, loop, ns);
            loop->ran_ns = loop->nested || loop->rests ? loop->ran_ns : loop->ran_before + loop->share * ns;
        } else if (loop->state == DYN_LOOP_COLD && !loop->nested) {
            loop->ran_ns += loop->share * ns * call->times;
        }
    }
    if (done && call->alone) {
        l->longest = took > l->longest ? took : l->longest;
        keep_largest(&l->sizes, sizes);
    }
    if (call->is_short) {
        count_brief(l, took);
    } else {
        l->brief = 0;
    }
    if (l->calls > 0) {
        dyn_loops_end_call(l);
    }
    return took;
}

/* Tests tell how long calls take natively and in CPython, and count the latter. */
static struct {
    double native, plain;
    uint32_t nplain;
} told;

uint32_t dyn_loops_tell_turns(double native, double plain) {
    uint32_t made = told.nplain;
    told.native = native;
    told.plain = plain;
    told.nplain = 0;
    return made;
}

static void end_turn(DynLoops *l, DynTurnOf turn, uint64_t took) {
    if (turn != DYN_TURN_OF_NONE) {
        DynRaised before = dyn_callback_begin(); /* the call may have raised */
        bool plain = turn == DYN_TURN_OF_CPYTHON;
        told.nplain += plain;
        dyn_loops_turn_ends(l, turn, told.native > 0 ? dyn_cycles_of_ns(plain ? told.plain : told.native) : took);
        dyn_callback_end(before);
    }
}

/* ---- calls */

/* The function that loop code is for is made as `func` is, as it may be called by its own name, too. */
static PyObject *make_function(const DynLoops *l, PyObject *func) {
    PyObject *made = dyn_hit_function(l->made->code, func);
    if (made != NULL) {
        PyFunctionObject *m = (PyFunctionObject *)made;
        const PyFunctionObject *f = (const PyFunctionObject *)func;
        Py_XSETREF(m->func_defaults, Py_XNewRef(f->func_defaults));
        Py_XSETREF(m->func_kwdefaults, Py_XNewRef(f->func_kwdefaults));
        Py_XSETREF(m->func_qualname, Py_XNewRef(f->func_qualname));
        dyn_func_give_version(made, 0);
    }
    return made;
}

static bool is_made_as(const DynLoops *l, PyObject *func) {
    const PyFunctionObject *m = (const PyFunctionObject *)l->function, *f = (const PyFunctionObject *)func;
    bool made_alike = m != NULL && m->func_closure == f->func_closure && m->func_globals == f->func_globals;
    return made_alike && m->func_defaults == f->func_defaults && m->func_kwdefaults == f->func_kwdefaults;
}

PyObject *dyn_loops_function(DynCache *c, PyObject *func) {
    DynLoops *l = c->loops;
    if (is_made_as(l, func)) {
        dyn_loops_aim_at_itself(l, func);
        return Py_NewRef(l->function);
    }
    PyObject *made = make_function(l, func);
    if (made == NULL) {
        PyErr_Clear();
    } else if (!c->known) { /* a family of known.c's keeps nothing alive */
        dyn_loops_aim_at_nothing(l);
        dyn_loops_forget_door(c);
        Py_XSETREF(l->function, Py_NewRef(made));
        dyn_loops_aim_at_itself(l, func);
    }
    return made;
}

static bool is_given_up(const DynLoop *loop) { return loop->state == DYN_LOOP_REFUSED || loop->state == DYN_LOOP_RETIRED; }

bool dyn_loops_all_rest(const DynLoops *l) {
    bool all = true;
    for (const DynLoop *loop = l->loops; loop < l->loops + l->nloops && all; loop++) {
        all = loop->function ? !loop->open : is_given_up(loop);
    }
    return all;
}

bool dyn_loops_all_given_up(const DynLoops *l) {
    bool all = true;
    for (const DynLoop *loop = l->loops; loop < l->loops + l->nloops && all; loop++) {
        all = is_given_up(loop);
    }
    return all;
}

static PyObject *call_in_loop_code(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyObject *function = dyn_loops_function(c, func);
    DynBound b;
    if (function == NULL || dyn_bind(&c->sig, func, args, PyVectorcall_NARGS(nargsf), kwnames, &b) < 0) {
        Py_XDECREF(function);
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    int lent = dyn_cpy_lend_stack(PyThreadState_Get());
    PyObject *result = dyn_hook_plain_bound(&c->sig, (PyCodeObject *)c->code, function, b.slots, (DynSpent){NULL, 0});
    dyn_cpy_return_stack(PyThreadState_Get(), lent);
    dyn_bind_free(&b);
    Py_DECREF(function);
    return result;
}

/* May the call run in loop code, as it is now? The caller holds `l`, the cache's when it asked. */
static bool has_loop_code(DynCache *c, DynLoops *l) {
    dyn_loops_refresh(l);
    return c->loops == l && l->made != NULL && (l->made->calls || !dyn_loops_all_rest(l));
}

static PyObject *call_without_loop_code(DynLoops *l, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    uint64_t began = dyn_cycles();
    PyObject *result = dyn_hook_plain(func, args, nargsf, kwnames);
    count_brief(l, dyn_cycles() - began);
    dyn_loops_decref(l);
    return result;
}

/* A call that is over before it could be timed, like most of those before it. */
static bool goes_uncounted(DynLoops *l, const DynCallSizes *sizes) {
    return l->brief >= SOME_BRIEF && l->calls == 0 && ++l->uncounted % COUNTED != 0 && are_as_before(sizes, &l->sizes);
}

PyObject *dyn_loops_call(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    DynLoops *l = c->loops;
    DynCallSizes sizes;
    size_t nkw = kwnames == NULL ? 0 : (size_t)PyTuple_GET_SIZE(kwnames);
    measure(&sizes, args, (size_t)PyVectorcall_NARGS(nargsf) + nkw);
    if (goes_uncounted(l, &sizes)) {
        return dyn_hook_plain(func, args, nargsf, kwnames);
    }
    l->refs++;
    if (!has_loop_code(c, l)) {
        return call_without_loop_code(l, func, args, nargsf, kwnames);
    }
    DynTurnOf turn = dyn_loops_turn(l);
    SeenCall call = begin_call(l, is_short_call(l, &sizes));
    dyn_loops_decref(l);
    dyn_cache_incref(c);
    PyObject *result =
        call.is_short ? dyn_hook_plain(func, args, nargsf, kwnames) : call_in_loop_code(c, func, args, nargsf, kwnames);
    if (c->loops == l) {
        uint64_t took = end_call(l, &call, &sizes, result != NULL);
        end_turn(l, turn, took);
    }
    dyn_cache_decref(c);
    return result;
}

/* Loops, or none, whose code is there for the sake of calls of doors, if for nothing else; NULL: there are no such calls. */
static DynLoops *loops_that_call(DynCache *c, PyObject *func) {
    if (!c->calls_known) {
        c->calls_known = true;
        PyCodeObject *code = (PyCodeObject *)c->code;
        DynCode *decoded = dyn_code_calls_itself(code) || dyn_loops_name_doors(func) ? dyn_decode(code) : NULL;
        DynLoops *l = decoded != NULL ? dyn_loops_of_calls(c, decoded, func) : NULL;
        if (l != NULL) {
            (void)dyn_loops_complete(l);
        }
        PyErr_Clear();
        if (decoded != NULL) {
            dyn_decode_free(decoded);
        }
    }
    return dyn_loops_call_doors(c) ? c->loops : NULL;
}

PyObject *dyn_loops_call_plain(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    DynLoops *l = c->known ? NULL : loops_that_call(c, func);
    for (uint32_t i = 0; l != NULL && i < l->nloops; i++) {
        dyn_loops_open(l, i, false);
    }
    return l != NULL ? call_in_loop_code(c, func, args, nargsf, kwnames) : dyn_hook_plain(func, args, nargsf, kwnames);
}

PyObject *dyn_loops_call_left(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyThreadState *ts = PyThreadState_Get();
    bool own = dyn_cpy_is_traced(ts) || dyn_cpy_is_raising(ts);
    PyObject *function = own ? NULL : dyn_loops_function(c, func);
    int lent = dyn_cpy_lend_stack(ts);
    PyObject *result = dyn_hook_plain(function != NULL ? function : func, args, nargsf, kwnames);
    dyn_cpy_return_stack(ts, lent);
    Py_XDECREF(function);
    return result;
}

static void measure_frame(const DynCache *c, DynFrame *f, DynCallSizes *sizes) {
    PyObject *args[DYN_CALL_SIZES];
    size_t n = c->sig.nargs;
    for (uint32_t i = 0; i < n && n <= DYN_CALL_SIZES; i++) {
        args[i] = dyn_frame_get(f, i);
    }
    measure(sizes, args, n);
}

PyObject *dyn_loops_frame(DynCache *c, PyThreadState *ts, DynFrame *f) {
    DynLoops *l = c->loops;
    DynCallSizes sizes;
    l->refs++;
    if (!has_loop_code(c, l)) {
        dyn_loops_decref(l);
        return dyn_frame_default_eval(ts, f, 0);
    }
    measure_frame(c, f, &sizes);
    SeenCall call = begin_call(l, is_short_call(l, &sizes));
    if (!call.is_short && dyn_frame_may_change(ts, f, (PyCodeObject *)l->made->code)) {
        dyn_frame_change_code(f, (PyCodeObject *)l->made->code);
    }
    dyn_loops_decref(l);
    PyObject *result = dyn_frame_default_eval(ts, f, 0);
    if (c->loops == l) {
        end_call(l, &call, &sizes, result != NULL);
    }
    return result;
}
