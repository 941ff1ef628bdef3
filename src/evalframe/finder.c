/* finder.c: enable() without a hook: arrays themselves tell which functions work on them.
 *
 * While it is on, the allocator of NumPy's array type is ours, and the way its ufuncs are called. Each array that is made, and
 * each ufunc that writes into one that is there, is a piece of evidence against the Python functions on the stack; of whom there
 * is enough is found: it gets a cache (known.c), and a door where functions have doors (CPython 3.12 and later), else the
 * frame-evaluation hook is put in as long as found functions are enough of what it sees. A program without arrays never comes
 * here, and pays nothing.
 *
 * Loops over plain numbers make no array. So with `plain_loops` a thread asks every few milliseconds who runs (ticks.c), and
 * functions with a loop that are met on the stack so are found too, if they look as if they worked on numbers (looks.c).
 *
 * Evidence comes too late for a function that is called once and has its loop inside. So those with a loop, in a module that has
 * NumPy at hand, are found by their looks: when they are made, or (3.11) when they are called in the first window.
 *
 * Started and stopped by hook.c. Evidence is a number on the code object and dies with it; only what is found has a row. A
 * function with our door looks for its row at each call, so nothing is to be undone when rows go: without one it gives the door
 * back. GIL throughout. */
#include "evalframe/finder.h"
#include "base/arrays.h"
#include "evalframe/hold.h"
#include "evalframe/hook.h"
#include "evalframe/looks.h"
#include "evalframe/loops.h"
#include "evalframe/ticks.h"

#define HEAT 8        /* pieces of evidence that make a function found */
#define SAMPLE_HEAT 3 /* pieces that meeting a function with a loop by a tick counts for */
#define DEPTH 8       /* Python functions on the stack that a piece of evidence is held against */
#define USELESS 256   /* calls in a row that found nothing to run: the door is taken back */
#define MAX_STREAK 6  /* looks in a row with nothing new: from then on about every hundredth array is looked at */
#define MAX_PATIENCE (1u << 20)

static struct {
    bool on, looking;
    DynOptions *options; /* borrowed */
    allocfunc make;      /* the array type's own allocator; stays known for types that took ours over */
    vectorcallfunc call; /* the ufuncs' own */
    uintptr_t epoch;     /* words of code objects that say another are out of date */
    uint32_t rest;       /* arrays that are not looked at */
    uint32_t streak, random;
    bool watching; /* told of new functions */
} finder;

/* ---- what a code object's word says: the epoch, above it 8 bits: pieces of evidence, or one of these */

#define SORTED 128 /* and pieces of evidence: its looks don't tell */
#define FOUND 254  /* has a row */
#define NEVER 255  /* nothing for us */
#define IN_EPOCH(n) (finder.epoch << 8 | (n))

void dyn_finder_forget(void) {
    finder.epoch++;
    finder.streak = finder.rest = 0;
}

/* ---- doors */

static PyObject *door(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);

static DynKnown *row_of(PyObject *func) {
    DynKnown *row = finder.on ? dyn_known_find(PyFunction_GET_CODE(func)) : NULL;
    if (row == NULL || row->cache == NULL || (row->cache->idle && !dyn_cache_may_wake(row->cache))) {
        return NULL;
    }
    return row->globals == PyFunction_GET_GLOBALS(func) ? row : NULL;
}

/* Functions that are made of this code from now on get the door as they are made. */
static void will_be_remade(DynKnown *row) {
    if (!row->remade && finder.watching) {
        row->remade = true;
        row->version = dyn_code_swap_version((PyCodeObject *)row->code, 0);
    }
}

static void give_door(DynKnown *row, PyObject *func) {
    if (row->given && !row->taken) {
        will_be_remade(row);
    }
    if (dyn_func_set_door(func, door)) {
        row->given = true;
        row->taken = false;
        dyn_count("finder", "doors");
    }
}

static void take_door(PyObject *func) {
    DynKnown *row = dyn_known_find(PyFunction_GET_CODE(func));
    dyn_func_take_door(func, door, row != NULL && row->remade ? row->version : 0);
    if (row != NULL) {
        row->taken = true;
    }
}

/* Calls found nothing to run, over and over: the function is CPython's, until there is more evidence than last time. */
static void give_up(DynCache *c, PyObject *func) {
    DynKnown *row = row_of(func);
    c->useless = 0;
    take_door(func);
    if (row != NULL) {
        row->away = row->patience = row->patience >= MAX_PATIENCE ? MAX_PATIENCE : row->patience * 2;
    }
}

static PyObject *door(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (dyn_hook_is_ours(func) || dyn_profit_is_eager_below()) {
        return dyn_func_call(func, args, nargsf, kwnames);
    }
    DynKnown *row = row_of(func);
    /* Tools are told of a function with a door as of a function in C, and its calls use C stack. */
    PyThreadState *ts = PyThreadState_Get();
    if (row == NULL || dyn_cpy_is_traced(ts) || dyn_cpy_deep_in_stack()) {
        take_door(func);
        return dyn_func_call(func, args, nargsf, kwnames);
    }
    if (DYN_UNLIKELY(dyn_cpy_is_raising(ts))) {
        return dyn_func_call(func, args, nargsf, kwnames);
    }
    DynCache *c = row->cache;
    row->used = true;
    dyn_cache_incref(c); /* rows come and go */
    if (DYN_UNLIKELY(c->loose)) {
        dyn_hold_tighten(c);
    }
    PyObject *result = dyn_door_call(c, func, false, args, nargsf, kwnames);
    row = row_of(func);
    if (DYN_UNLIKELY(row != NULL && row->for_loop && !c->loops_on && c->entries.n == 0)) { /* it was looked at, in vain */
        row->patience = MAX_PATIENCE;
        give_up(c, func);
    } else if (DYN_UNLIKELY(c->useless >= USELESS || (c->entries.n == 0 && dyn_loops_calls_are_brief(c)))) {
        give_up(c, func);
    } else if (DYN_UNLIKELY(c->profit.retired)) {
        take_door(func);
    }
    dyn_cache_decref(c);
    return result;
}

/* ---- windows: where functions have no doors, the hook is in as long as it pays */

#define FIRST 20000       /* frames of the first window, which cost eight milliseconds */
#define WINDOW 1024       /* frames after which the account is made up */
#define WORTH 8           /* of which so many are of found functions */
#define CHEAP_NS 5000     /* or so long each, so that a hook costs nothing to speak of, */
#define HOOK_NS 100       /* or so long natively, of each frame on average: what the hook takes, where CPython would have taken */
#define LONGEST 64        /* twice as long for a loop at least. Windows that found nothing get up to so many times as long */
#define FIRST_PATIENCE 4u /* pieces of evidence against found functions before the next window */

static struct {
    bool open;
    uint32_t frames, length, useful;
    uint64_t native; /* cycles that loops had run natively when the window began */
    int64_t since;
    uint32_t wanted, patience;
} window;

static void begin_account(int64_t now) {
    window.frames = window.useful = 0;
    window.native = dyn_loops_native_cycles();
    window.since = now;
}

static void open_window(void) {
    window.open = true;
    uint32_t longer = window.patience / FIRST_PATIENCE;
    window.length = WINDOW * (longer < LONGEST ? longer : LONGEST);
    begin_account(dyn_now_ns());
    dyn_count("finder", "windows");
    dyn_hook_need();
}

static void close_window(void) {
    if (window.open) {
        window.open = false;
        dyn_hook_release();
    }
}

void dyn_finder_saw_frame(bool useful) {
    window.useful += useful;
    if (!window.open || ++window.frames < window.length) {
        return;
    }
    int64_t now = dyn_now_ns();
    bool pays = dyn_cycles_ns((double)(dyn_loops_native_cycles() - window.native)) > (double)window.frames * HOOK_NS;
    if (window.useful >= WORTH || pays) {
        window.patience = FIRST_PATIENCE;
    } else if (window.useful == 0 || now - window.since < (int64_t)window.length * CHEAP_NS) {
        close_window();
        window.wanted = window.patience;
        window.patience = window.patience >= MAX_PATIENCE ? MAX_PATIENCE : window.patience * 2;
    }
    window.length = WINDOW;
    begin_account(now);
}

/* ---- evidence. Each of these says whether there is nothing more to learn of the function. */

/* So much is still wanted that not every array has to be looked at. */
static bool far_off(uint32_t wanted) { return wanted > 64; }

static bool is_of_module(const PyCodeObject *code) { return (code->co_flags & CO_OPTIMIZED) == 0; }

static bool seen_again(PyObject *func, bool by_tick) {
    DynKnown *row = row_of(func);
    if (row != NULL) {
        row->for_loop = row->for_loop && by_tick;
    }
    if (row == NULL) {
        if (dyn_known_find(PyFunction_GET_CODE(func)) == NULL) { /* swept */
            dyn_code_set_word((PyCodeObject *)PyFunction_GET_CODE(func), IN_EPOCH(0));
        }
        return true;
    }
    if (is_of_module((PyCodeObject *)row->code)) { /* it is called once */
        row->used = true;
        return true;
    }
    if (!dyn_func_has_doors()) {
        if (!window.open && (window.wanted == 0 || --window.wanted == 0)) {
            open_window();
        }
        return window.open || far_off(window.wanted);
    }
    if (row->away > 0 && --row->away > 0) {
        return far_off(row->away);
    }
    if (dyn_profit_rests(row->cache)) {
        return true;
    }
    give_door(row, func);
    return true;
}

static void find(PyCodeObject *code, PyObject *func, bool for_loop) {
    DynKnown *row = dyn_known_find((PyObject *)code);
    if (row == NULL) {
        row = dyn_known_meet(code, PyFunction_GET_GLOBALS(func), finder.options);
    }
    if (row == NULL || row->cache == NULL) {
        dyn_code_set_word(code, IN_EPOCH(NEVER));
        return;
    }
    row->patience = HEAT / 2;
    row->for_loop = for_loop;
    dyn_code_set_word(code, IN_EPOCH(FOUND));
    dyn_count("finder", "functions");
    seen_again(func, for_loop);
}

static bool hold_against(DynFrame *f, uint32_t pieces) {
    PyObject *func = dyn_frame_func(f);
    PyCodeObject *code = dyn_frame_code(f);
    if (!PyFunction_Check(func) || PyFunction_GET_CODE(func) != (PyObject *)code || dyn_func_has_door(func, door)) {
        return true;
    }
    uintptr_t word = dyn_code_word(code);
    if (word == DYN_CODE_OWN || word == IN_EPOCH(NEVER)) {
        return true;
    }
    if (word == IN_EPOCH(FOUND)) {
        return seen_again(func, pieces == SAMPLE_HEAT);
    }
    uintptr_t n = word >> 8 == finder.epoch ? (word & 255) + pieces : pieces;
    if ((n & ~(uintptr_t)SORTED) < HEAT) {
        dyn_code_set_word(code, IN_EPOCH(n));
    } else {
        find(code, func, pieces == SAMPLE_HEAT);
    }
    return false;
}

void dyn_finder_expect(PyCodeObject *code) {
    uintptr_t word = dyn_code_word(code);
    if (finder.on && (word >> 8 != finder.epoch || (word & 255) < HEAT) && word != DYN_CODE_OWN) {
        dyn_code_set_word(code, IN_EPOCH(HEAT - SAMPLE_HEAT));
    }
}

/* ---- looks */

static bool is_numpy(PyObject *o) {
    const char *name = o != NULL && PyModule_Check(o) ? PyModule_GetName(o) : NULL;
    PyErr_Clear();
    return name != NULL && strcmp(name, "numpy") == 0;
}

/* Is the object NumPy, or one of the things that code takes out of it by name? */
static bool is_of_numpy(PyObject *o) { return is_numpy(o) || Py_IS_TYPE(o, &PyUFunc_Type) || o == (PyObject *)&PyArray_Type; }

/* Does one of the names that the code uses stand for NumPy, or something out of it; or has the module NumPy by its usual name? */
static bool has_numpy_at_hand(PyCodeObject *code, PyObject *globals) {
    bool at_hand = is_numpy(PyDict_GetItemString(globals, "np")) || is_numpy(PyDict_GetItemString(globals, "numpy"));
    for (Py_ssize_t i = 0; !at_hand && i < PyTuple_GET_SIZE(code->co_names); i++) {
        PyObject *value = PyDict_GetItemWithError(globals, PyTuple_GET_ITEM(code->co_names, i));
        at_hand = value != NULL && is_of_numpy(value);
    }
    PyErr_Clear();
    return at_hand;
}

static bool is_sorted(uintptr_t word) { return word == DYN_CODE_OWN || (word >> 8 == finder.epoch && word & SORTED); }

/* A function that nobody has looked at yet: is it found by its looks? */
static bool sort_out(PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    uintptr_t word = dyn_code_word(code);
    if (is_sorted(word)) {
        return false;
    }
    if (!has_numpy_at_hand(code, PyFunction_GET_GLOBALS(func)) || !dyn_code_repeats(code)) {
        dyn_code_set_word(code, IN_EPOCH(SORTED | (word >> 8 == finder.epoch ? word & 255 : 0)));
        return false;
    }
    find(code, func, false);
    return true;
}

bool dyn_finder_looks_at(PyObject *func) { return window.open && sort_out(func); }

/* A callback begins: is it one that has something to do? What the callback calls may come back here (what dies in a sweep runs
 * destructors, which make functions and arrays). */
static bool begin_looking(DynRaised *before) {
    if (!finder.on || finder.looking || dyn_cpy_is_finalizing()) {
        return false;
    }
    *before = dyn_callback_begin();
    finder.looking = true;
    return true;
}

static void end_looking(DynRaised before) {
    finder.looking = false;
    dyn_callback_end(before);
}

static void look_at_new(PyObject *func) {
    DynKnown *row;
    if (dyn_code_word((PyCodeObject *)PyFunction_GET_CODE(func)) == IN_EPOCH(FOUND)) {
        row = row_of(func);
        bool remade = row != NULL && row->remade && row->away == 0;
        if (remade && !dyn_profit_rests(row->cache)) {
            dyn_func_set_door(func, door);
        }
    } else if (sort_out(func) && (row = row_of(func)) != NULL) {
        will_be_remade(row);
    }
}

/* Programs that make functions all the time, generator expressions among them, make them of code that was looked at. */
static void on_new_function(PyObject *func) {
    DynRaised before;
    uintptr_t word = finder.on ? dyn_code_word((PyCodeObject *)PyFunction_GET_CODE(func)) : DYN_CODE_OWN;
    bool tells = word == IN_EPOCH(FOUND) || !is_sorted(word);
    if (tells && begin_looking(&before)) {
        look_at_new(func);
        end_looking(before);
    }
}

/* The main module's functions that are there already. */
static void look_at_main(void) {
    PyObject *main = PyImport_AddModule("__main__"), *name, *value; /* borrowed */
    Py_ssize_t position = 0;
    while (main != NULL && PyDict_Next(PyModule_GetDict(main), &position, &name, &value)) {
        if (PyFunction_Check(value)) {
            sort_out(value);
        }
    }
    PyErr_Clear();
}

/* ---- the stack */

/* A function's frame, or a module's. */
static bool is_looked_at(DynFrame *f) { return !is_of_module(dyn_frame_code(f)) || dyn_frame_namespace(f) != NULL; }

/* A function that was met by a tick: may its loop be one over numbers, or is it known already? Of a module it is asked whether it
 * is in a loop now: a program's lower frames are of modules that call functions. */
static bool may_be_plain(DynFrame *f) {
    PyCodeObject *code = dyn_frame_code(f);
    if (is_of_module(code)) {
        return dyn_code_loop_names(code, dyn_frame_position(f), NULL, 0) != DYN_NONE;
    }
    return dyn_code_repeats(code) && (dyn_code_word(code) == IN_EPOCH(FOUND) || dyn_looks_of_frame(f) < DYN_LOOKS_LIKE_NOTHING);
}

/* One of the calls on the stack that could go over to loop code is asked to, another one at each tick: who calls may come to a
 * header after a long time. */
static void let_go_over(DynFrame *f) {
    static unsigned turn;
    DynFrame *may[DEPTH];
    unsigned n = 0;
    dyn_loops_stay();
    for (int depth = 0; f != NULL && depth < DEPTH && is_looked_at(f); depth++) {
        PyObject *func = dyn_frame_func(f);
        bool own = PyFunction_Check(func) && PyFunction_GET_CODE(func) == (PyObject *)dyn_frame_code(f);
        DynKnown *row = own && dyn_code_word(dyn_frame_code(f)) == IN_EPOCH(FOUND) ? row_of(func) : NULL;
        if (row != NULL && may_be_plain(f) && dyn_loops_may_go_over(row->cache, f)) {
            may[n++] = f;
        }
        f = dyn_frame_caller(f);
    }
    if (n > 0) {
        (void)dyn_loops_go_over(may[turn++ % n]);
    }
}

PyObject *dyn_finder_go_over(PyObject *module, PyObject *none) {
    DynFrame *f = dyn_frame_complete(dyn_frame_current(PyThreadState_Get()));
    PyObject *func = f == NULL ? NULL : dyn_frame_func(f);
    DynRaised before;
    bool goes = func != NULL && PyFunction_Check(func) && PyFunction_GET_CODE(func) == (PyObject *)dyn_frame_code(f);
    if (!goes || !begin_looking(&before)) {
        Py_RETURN_FALSE;
    }
    dyn_loops_stay();
    find(dyn_frame_code(f), func, true);
    const DynKnown *row = row_of(func);
    goes = row != NULL && dyn_loops_may_go_over(row->cache, f) && dyn_loops_go_over(f);
    end_looking(before);
    return PyBool_FromLong(goes);
}

/* Who is at it? Steps of changing length, so that no rhythm of the program hides a function. */
static bool look_at_stack(bool by_tick) {
    PyThreadState *ts = PyThreadState_Get();
    DynRaised before;
    if (dyn_cpy_is_traced(ts) || PyThreadState_GetInterpreter(ts) != PyInterpreterState_Main() || !begin_looking(&before)) {
        return true;
    }
    bool settled = true;
    DynFrame *f = dyn_frame_complete(dyn_frame_current(ts));
    for (int depth = 0; f != NULL && depth < DEPTH && is_looked_at(f); depth++) {
        bool counts = by_tick ? may_be_plain(f) : !is_of_module(dyn_frame_code(f));
        settled &= counts ? hold_against(f, by_tick ? SAMPLE_HEAT : 1) : true;
        f = dyn_frame_caller(f);
    }
    if (by_tick) {
        let_go_over(dyn_frame_complete(dyn_frame_current(ts)));
    }
    end_looking(before);
    return settled;
}

static DynTick on_tick(unsigned ms) { return look_at_stack(true) ? DYN_TICK_USELESS : DYN_TICK_USEFUL; }

static void look(void) {
    if (!look_at_stack(false)) {
        finder.streak = 0;
    } else {
        finder.streak += finder.streak < MAX_STREAK;
        finder.random = finder.random * 1664525u + 1013904223u;
        finder.rest = (1u << finder.streak) + (finder.random >> 16 & ((1u << finder.streak) - 1));
    }
}

static inline void evidence(void) {
    if (finder.rest > 0) {
        finder.rest--;
    } else {
        look();
    }
}

static PyObject *make_array(PyTypeObject *type, Py_ssize_t n) {
    PyObject *array = finder.make(type, n);
    evidence();
    return array;
}

/* ---- ufuncs: `x += y` and `out=` make no array */

static PyObject *call_ufunc(PyObject *ufunc, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    if (kwnames != NULL || PyVectorcall_NARGS(nargsf) > ((PyUFuncObject *)ufunc)->nin) {
        evidence();
    }
    return finder.call(ufunc, args, nargsf, kwnames);
}

/* NumPy's own ufuncs that are called by `from` are called by `to`. */
static void change_ufuncs(PyObject *numpy, vectorcallfunc from, vectorcallfunc to) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(PyModule_GetDict(numpy), &position, &name, &value)) {
        if (Py_IS_TYPE(value, &PyUFunc_Type) && ((PyUFuncObject *)value)->vectorcall == from) {
            ((PyUFuncObject *)value)->vectorcall = to;
        }
    }
}

static void watch_ufuncs(bool on) {
    PyObject *numpy = dyn_import("numpy"), *add = numpy == NULL ? NULL : PyObject_GetAttrString(numpy, "add");
    if (add != NULL && finder.call == NULL && Py_IS_TYPE(add, &PyUFunc_Type)) {
        finder.call = ((PyUFuncObject *)add)->vectorcall;
    }
    if (finder.call != NULL && on) {
        change_ufuncs(numpy, finder.call, call_ufunc);
    } else if (finder.call != NULL) {
        change_ufuncs(numpy, call_ufunc, finder.call);
    }
    Py_XDECREF(add);
    Py_XDECREF(numpy);
    PyErr_Clear();
}

/* ---- */

static void watch_arrays(void) {
    if (!dyn_arrays_loaded()) {
        return;
    }
    if (PyArray_Type.tp_alloc != make_array) {
        finder.make = PyArray_Type.tp_alloc;
        PyArray_Type.tp_alloc = make_array;
    }
    watch_ufuncs(true);
}

static void look_at_functions(void) {
    if (dyn_func_has_doors()) {
        look_at_main();
    } else {
        open_window();
        window.length = FIRST;
    }
}

void dyn_finder_start(DynOptions *options) {
    dyn_finder_forget();
    finder.on = true;
    finder.options = options;
    window.wanted = 0;
    window.patience = FIRST_PATIENCE;
    watch_arrays();
    finder.watching = dyn_func_watch(on_new_function);
    if (dyn_options_config(options).plain_loops) {
        dyn_ticks_start(on_tick);
    }
    look_at_functions();
}

/* Functions that were looked at while there was no NumPy had none at hand. */
void dyn_finder_meet_arrays(void) {
    if (finder.on) {
        close_window();
        window.wanted = 0;
        window.patience = FIRST_PATIENCE;
        watch_arrays();
        look_at_functions();
    }
}

void dyn_finder_stop(void) {
    dyn_loops_stay();
    finder.on = false;
    finder.options = NULL;
    dyn_ticks_stop(on_tick);
    if (PyArray_Type.tp_alloc == make_array) {
        PyArray_Type.tp_alloc = finder.make;
    }
    watch_ufuncs(false);
    dyn_func_watch(NULL);
    finder.watching = false;
    close_window();
}
