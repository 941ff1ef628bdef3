/* loops_guess.c: what is guessed of a loop before anything is known of it: how long it runs, whether a graph would have more of
 * it, and whether it can be planned later, or all of its function. Called by loops.c, loops_arrive.c, door.c and hook.c, with the
 * GIL; no Python code runs. */
#include "base/cpy_region.h"
#include "base/tensors.h"
#include "evalframe/known.h"
#include "evalframe/looks.h"
#include "evalframe/loops.h"
#include "tracer/record/record.h"

/* What is taken for true of loops that weren't measured. */
#define USUAL_TRIPS 100
#define INNER_TRIPS 8
#define SHORT_NS 2e6       /* a loop that CPython takes less for is built when it has run for a while */
#define PLAN_NS 5e5        /* for each of its instructions, that is: of which planning takes a thirtieth … */
#define MOST_PLAN_NS 6e7   /* … but no more than this */
#define TINY_NS 5e4        /* one that is recorded with what follows, where that may be array operations */
#define FEW_TRIPS 256      /* so many are recorded, where there are array operations in them */
#define INSTRUCTION_NS 25. /* of CPython's, in a loop */
#define OPERATION_NS 2000. /* that a graph saves for an array operation */
#define PLAIN_DEPTH 3      /* so deep in lists and in functions is looked for arrays */
#define PLAIN_ITEMS 4      /* at so many items of each */
#define LARGE 4096         /* elements of an array whose operations are a graph's */

Py_ssize_t dyn_loops_trips_left(PyObject *it) {
    int64_t index;
    PyObject *items = dyn_cpy_list_iterator(it, &index), *array = dyn_cpy_sequence_iterator(it, &index);
    bool tells = items != NULL || Py_IS_TYPE(it, &PyRangeIter_Type) || Py_IS_TYPE(it, &PyListIter_Type) ||
                 Py_IS_TYPE(it, &PyTupleIter_Type) || dyn_cpy_is_dict_iterator(it);
    if (tells) {
        Py_ssize_t n = PyObject_LengthHint(it, -1);
        PyErr_Clear();
        return n;
    }
    if (array != NULL && PyArray_Check(array) && PyArray_NDIM((PyArrayObject *)array) > 0) {
        Py_ssize_t n = PyArray_DIM((PyArrayObject *)array, 0);
        return index < n ? n - (Py_ssize_t)index : 0;
    }
    PyObject *one = dyn_cpy_enumerate(it, &index), *all = one == NULL ? dyn_cpy_zip(it) : NULL;
    Py_ssize_t least = one != NULL ? dyn_loops_trips_left(one) : -1;
    for (Py_ssize_t i = 0; all != NULL && i < PyTuple_GET_SIZE(all); i++) {
        Py_ssize_t n = dyn_loops_trips_left(PyTuple_GET_ITEM(all, i));
        if (n < 0) {
            return -1;
        }
        least = i == 0 || n < least ? n : least;
    }
    return least;
}

Py_ssize_t dyn_loops_trips(PyObject *it) {
    Py_ssize_t n = it != NULL ? dyn_loops_trips_left(it) : -1;
    return n < 0 ? USUAL_TRIPS : n;
}

/* How often the loop runs: without those in it. */
static double own_trips(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack) {
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(c->code), iterator = dyn_iterator_slots();
    bool has_iterator = c->v.at[c->at_unit[header]].op == DYN_I_FOR_ITER && nstack >= iterator;
    return (double)(has_iterator ? dyn_loops_trips(slots[nslots + nstack - iterator]) : USUAL_TRIPS);
}

/* For each instruction of the loop how often a trip runs it; NULL: memory is out. */
static double *times_in_a_trip(const DynCode *c, uint32_t header, const bool *members) {
    double *times = PyMem_RawMalloc(c->v.n * sizeof *times);
    for (uint32_t i = 0; times != NULL && i < c->v.n; i++) {
        times[i] = members[i];
    }
    for (uint32_t i = 0; times != NULL && i < c->v.n; i++) {
        bool inner = members[i] && c->v.at[i].op == DYN_I_FOR_ITER && c->v.at[i].start != header;
        bool *inside = inner ? dyn_loop_members(c, c->v.at[i].start) : NULL;
        for (uint32_t k = 0; inside != NULL && k < c->v.n; k++) {
            times[k] *= inside[k] ? INNER_TRIPS : 1;
        }
        PyMem_RawFree(inside);
    }
    return times;
}

/* Is the instruction in a loop: does a jump from it, or from behind it, lead back to it or before it? */
static bool is_in_a_loop(const DynCode *c, uint32_t i) {
    bool inside = false;
    for (uint32_t k = i; k < c->v.n && !inside; k++) {
        inside = dyn_has_target(&c->v.at[k]) && c->v.at[k].target <= i;
    }
    return inside;
}

static bool is_read_in_loop(const DynCode *c, const bool *members, uint32_t slot) {
    bool read = false;
    for (uint32_t i = 0; i < c->v.n && !read; i++) {
        read = members[i] && c->v.at[i].op == DYN_I_LOAD_FAST && c->v.at[i].arg == slot;
    }
    return read;
}

static bool is_array(PyObject *o) { return o != NULL && (PyArray_Check(o) || dyn_tensor_is(o)); }

/* Is there an array that the loop doesn't look at, and that waits on the stack or is read behind the loop, in no other loop? Then
 * it is likely for an operation on all of it. */
static bool has_array_beside(const DynCode *c, PyObject *const *slots, uint32_t nstack, uint32_t header, const bool *members) {
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(c->code);
    bool beside = false;
    for (uint32_t i = nslots; i < nslots + nstack && !beside; i++) {
        beside = is_array(slots[i]);
    }
    for (uint32_t i = c->at_unit[header]; i < c->v.n && !beside; i++) {
        uint32_t slot = c->v.at[i].op == DYN_I_LOAD_FAST ? c->v.at[i].arg : nslots;
        bool array = slot < nslots && is_array(slots[slot]);
        beside = array && !is_in_a_loop(c, i) && !is_read_in_loop(c, members, slot);
    }
    return beside;
}

/* A for loop of no more trips than a recording unrolls. */
static bool is_unrolled(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack) {
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(c->code), iterator = dyn_iterator_slots();
    bool over = c->v.at[c->at_unit[header]].op == DYN_I_FOR_ITER && nstack >= iterator;
    PyObject *it = over ? slots[nslots + nstack - iterator] : NULL;
    Py_ssize_t trips = it == NULL ? -1 : dyn_loops_trips_left(it);
    return trips >= 0 && trips <= DYN_UNROLLED_TRIPS;
}

double dyn_loops_behind(const DynLoops *l, const DynCode *c, uint32_t header, PyObject *const *slots, PyObject *globals) {
    uint32_t behind = header; /* a loop that begins here or before isn't behind, or is in one that was counted */
    double ns = 0;
    for (uint32_t k = 0; k < l->nloops; k++) {
        bool *members = dyn_loop_members(c, l->headers[k]);
        double *times = members == NULL || l->headers[k] < behind ? NULL : times_in_a_trip(c, l->headers[k], members);
        uint32_t elements;
        bool counts = times != NULL && l->headers[k] > behind && dyn_loops_take_elements(c, members, slots, globals, &elements);
        for (uint32_t i = 0; i < c->v.n && times != NULL; i++) {
            behind = members[i] && c->v.at[i].start > behind ? c->v.at[i].start : behind;
            ns += counts && elements > 0 ? USUAL_TRIPS * times[i] * INSTRUCTION_NS : 0;
        }
        PyMem_RawFree(times);
        PyMem_RawFree(members);
    }
    return ns;
}

/* Of a loop of n instructions. */
static double worth_of(double n) {
    double worth = n * PLAN_NS < MOST_PLAN_NS ? n * PLAN_NS : MOST_PLAN_NS;
    return worth > SHORT_NS ? worth : SHORT_NS;
}

double dyn_loops_worth(const DynCode *c, uint32_t header) {
    bool *members = dyn_loop_members(c, header);
    double n = 0;
    for (uint32_t i = 0; members != NULL && i < c->v.n; i++) {
        n += members[i];
    }
    PyMem_RawFree(members);
    return worth_of(n);
}

/* A function that calls itself, and is called with what graphs compute on, isn't one of numbers. */
static bool outweighs_as_function(const DynCode *c, PyObject *const *slots, uint32_t nnodes, DynLoopGuess *guess) {
    bool has = false;
    for (uint32_t i = 0; i < (uint32_t)dyn_code_nlocalsplus(c->code) && !has; i++) {
        has = is_array(slots[i]);
    }
    *guess = (DynLoopGuess){.short_loop = true, .worth_ns = worth_of(c->v.n)};
    return !has && nnodes == 0;
}

bool dyn_loops_outweigh(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack, uint32_t nnodes,
                        double behind_ns, DynLoopGuess *guess) {
    if (c->at_unit[header] == c->head) {
        return outweighs_as_function(c, slots, nnodes, guess);
    }
    bool *members = dyn_loop_members(c, header);
    double *times = members == NULL ? NULL : times_in_a_trip(c, header, members);
    double n = 0, run = 0, most = 0;
    *guess = (DynLoopGuess){.worth_ns = SHORT_NS};
    if (times == NULL) {
        PyMem_RawFree(members);
        return true;
    }
    for (uint32_t i = 0; i < c->v.n; i++) {
        n += members[i];
        run += times[i];
        most = times[i] > most ? times[i] : most;
    }
    double trips = own_trips(c, header, slots, nstack), ns = trips * run * INSTRUCTION_NS;
    bool graph_pays = ns < TINY_NS && behind_ns < TINY_NS && has_array_beside(c, slots, nstack, header, members);
    PyMem_RawFree(times);
    PyMem_RawFree(members);
    guess->few_trips = trips * most <= FEW_TRIPS;
    guess->unrolled = guess->few_trips && is_unrolled(c, header, slots, nstack);
    guess->worth_ns = worth_of(n);
    guess->short_loop = ns < guess->worth_ns;
    return !graph_pays && (nnodes == 0 || ns + behind_ns > (double)nnodes * OPERATION_NS);
}

/* ---- are the values of the same kinds? */

static void add_kind(uint64_t *kinds, PyObject *o, int depth) {
    PyObject *first = o == NULL || depth == 0 ? NULL : o;
    uint64_t row[2] = {o == NULL ? 0 : (uintptr_t)Py_TYPE(o), 0};
    if (first != NULL && PyCell_Check(o)) {
        first = PyCell_GET(o);
    } else if (first != NULL && (PyList_CheckExact(o) || PyTuple_CheckExact(o))) {
        row[1] = PySequence_Fast_GET_SIZE(o) > 0;
        first = row[1] ? PySequence_Fast_GET_ITEM(o, 0) : NULL;
    } else if (first != NULL && PyArray_Check(o)) {
        row[1] = (uint64_t)PyArray_NDIM((PyArrayObject *)o) << 32 | (uint32_t)PyArray_TYPE((PyArrayObject *)o);
        first = NULL;
    } else if (first != NULL) {
        row[1] = PyDict_Check(o) ? PyDict_GET_SIZE(o) > 0 : PyAnySet_Check(o) ? PySet_GET_SIZE(o) > 0 : 0;
        first = NULL;
    }
    *kinds = dyn_hash64(row, sizeof row, *kinds);
    if (first != NULL) {
        add_kind(kinds, first, depth - 1);
    }
}

uint64_t dyn_loops_kinds(PyObject *const *slots, uint32_t n) {
    uint64_t kinds = 0;
    for (uint32_t i = 0; i < n; i++) {
        add_kind(&kinds, slots[i], PLAIN_DEPTH);
    }
    return kinds;
}

bool dyn_loops_was_refused_as(const DynLoop *loop, uint64_t kinds) {
    bool was = false;
    for (uint32_t i = 0; i < loop->refusals && i < DYN_MOST_REFUSALS; i++) {
        was = was || loop->refused_as[i] == kinds;
    }
    return was;
}

/* ---- is it of numbers, texts, lists of them and elements of arrays alone? */

static bool is_plain(PyObject *o, int depth);

static bool are_plain(PyObject *const *at, Py_ssize_t n, int depth) {
    bool plain = true;
    for (Py_ssize_t i = 0; i < n && i < PLAIN_ITEMS && plain; i++) {
        plain = is_plain(at[i], depth);
    }
    return plain;
}

static bool is_plain_dict(PyObject *dict, int depth) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    bool plain = true;
    for (int i = 0; i < PLAIN_ITEMS && plain && PyDict_Next(dict, &at, &key, &value); i++) {
        plain = is_plain(key, depth) && is_plain(value, depth);
    }
    return plain;
}

static PyObject *global_of(PyObject *globals, PyObject *name) {
    PyObject *o = PyDict_CheckExact(globals) ? PyDict_GetItemWithError(globals, name) : NULL;
    PyErr_Clear();
    return o;
}

/* A function of the program's own: what its names stand for, and what is in its cells. */
static bool is_plain_function(PyObject *function, int depth) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(function);
    PyObject *closure = PyFunction_GET_CLOSURE(function);
    bool plain = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names) && plain; i++) {
        plain = is_plain(global_of(PyFunction_GET_GLOBALS(function), PyTuple_GET_ITEM(code->co_names, i)), depth);
    }
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure) && plain; i++) {
        plain = is_plain(PyCell_GET(PyTuple_GET_ITEM(closure, i)), depth);
    }
    return plain;
}

/* Python's own, or one of NumPy's scalars, as elements of arrays are. */
static bool is_number(PyObject *o) {
    bool python = o == Py_None || PyLong_CheckExact(o) || PyBool_Check(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o);
    return python || PyArray_IsScalar(o, Number) || PyArray_IsScalar(o, Bool);
}

static bool is_plain(PyObject *o, int depth) {
    bool number = o == NULL || is_number(o);
    bool text = !number && (PyUnicode_CheckExact(o) || PyBytes_CheckExact(o) || PyByteArray_CheckExact(o));
    bool counts = !number && (Py_IS_TYPE(o, &PyRange_Type) || Py_IS_TYPE(o, &PyRangeIter_Type));
    bool of_python = !number && ((PyType_Check(o) && !(((PyTypeObject *)o)->tp_flags & Py_TPFLAGS_HEAPTYPE)) ||
                                 (PyCFunction_CheckExact(o) && !PyArray_Check(o)));
    if (number || text || counts || of_python) {
        return true;
    }
    if (depth == 0) {
        return false;
    }
    if (PyList_CheckExact(o) || PyTuple_CheckExact(o)) {
        return are_plain(PySequence_Fast_ITEMS(o), PySequence_Fast_GET_SIZE(o), depth - 1);
    }
    if (PyDict_CheckExact(o)) {
        return is_plain_dict(o, depth - 1);
    }
    if (PyCell_Check(o)) {
        return is_plain(PyCell_GET(o), depth);
    }
    int64_t index;
    PyObject *items = dyn_cpy_list_iterator(o, &index);
    if (items != NULL) {
        return is_plain(items, depth);
    }
    return PyFunction_Check(o) ? is_plain_function(o, depth - 1) : dyn_looks_at_known_module(o);
}

/* An array whose elements are numbers, and that NumPy alone knows how to read. */
static bool is_array_of_numbers(PyObject *o) {
    return o != NULL && PyArray_CheckExact(o) && PyTypeNum_ISNUMBER(PyArray_TYPE((PyArrayObject *)o));
}

/* Does the loop come to numbers, texts, lists of them and elements of arrays alone, as far as is easily seen? */
static bool is_plain_loop(DynFrame *f, const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack) {
    bool *members = dyn_loop_members(c, header);
    bool plain = members != NULL, arrays = false;
    uint32_t elements;
    PyObject *names = c->code->co_names;
    for (uint32_t i = 0; i < (uint32_t)dyn_code_nlocalsplus(c->code) + nstack && plain; i++) {
        bool array = is_array_of_numbers(slots[i]);
        arrays = arrays || array;
        plain = array || is_plain(slots[i], PLAIN_DEPTH);
    }
    for (uint32_t i = 0; i < c->v.n && plain; i++) {
        bool global = members[i] && c->v.at[i].op == DYN_I_LOAD_GLOBAL;
        PyObject *o = global ? global_of(dyn_frame_globals(f), PyTuple_GET_ITEM(names, c->v.at[i].arg)) : NULL;
        bool array = is_array_of_numbers(o);
        arrays = arrays || array;
        plain = array || is_plain(o, PLAIN_DEPTH);
    }
    plain = plain && (!arrays || dyn_loops_take_elements(c, members, slots, dyn_frame_globals(f), &elements));
    PyMem_RawFree(members);
    return plain;
}

/* Is there an array for which graphs are made: a tensor, or one that is large? */
static bool has_array_for_graphs(const DynCode *c, PyObject *const *slots, uint32_t nstack) {
    bool has = false;
    for (uint32_t i = 0; i < (uint32_t)dyn_code_nlocalsplus(c->code) + nstack && !has; i++) {
        PyObject *o = slots[i];
        has = is_array(o) && (!PyArray_Check(o) || PyArray_SIZE((PyArrayObject *)o) > LARGE);
    }
    return has;
}

bool dyn_loops_may_come_later(DynFrame *f, const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack,
                              const DynLoopGuess *guess) {
    bool many = !guess->unrolled && !guess->few_trips && !has_array_for_graphs(c, slots, nstack);
    return many || is_plain_loop(f, c, header, slots, nstack);
}

/* ---- nothing to record */

static bool may_begin(const DynCache *c) {
    bool fresh = !c->loops_known && c->entries.n == 0 && c->useless == 0;
    return fresh && !dyn_options_wait(c->options) && dyn_code_repeats((PyCodeObject *)c->code);
}

static bool begin(DynCache *c, PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)c->code;
    const DynKnown *row = dyn_known_find((PyObject *)code);
    DynCode *decoded = dyn_decode(code);
    DynLoops *l = decoded == NULL ? NULL : dyn_loops_of(c, decoded, func);
    for (uint32_t i = 0; l != NULL && dyn_loops_may_put_off(l) && i < l->nloops; i++) {
        bool met = l->loops[i].function && row != NULL && row->for_loop; /* often, so it has run for a while */
        dyn_loops_put_off(l, i, met ? 0 : dyn_loops_worth(decoded, l->headers[i]));
    }
    PyErr_Clear();
    if (decoded != NULL) {
        dyn_decode_free(decoded);
    }
    c->loops_on = l != NULL && l->made != NULL;
    if (c->loops_on) {
        dyn_cache_want_arrays(c);
    }
    return c->loops_on;
}

bool dyn_loops_begin(DynCache *c, PyObject *func, PyObject *const *slots) {
    return may_begin(c) && dyn_looks_of_call(func, slots, c->sig.nargs) < DYN_LOOKS_LIKE_NOTHING && begin(c, func);
}

bool dyn_loops_begin_running(DynCache *c, DynFrame *f) {
    return may_begin(c) && dyn_looks_of_frame(f) < DYN_LOOKS_LIKE_NOTHING && begin(c, dyn_frame_func(f));
}
