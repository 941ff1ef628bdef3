/* loops_elements.c: does a loop touch nothing but single elements of the arrays that it begins with? Then no graph would have it
 * before its region has, and it can be planned when it has run for a while.
 *
 * Called by loops_guess.c with the GIL; no Python code runs. It is a guess, from one walk over the loop's bytecode: of what lies
 * on the stack it knows arrays, with their rank, slices and tuples, and takes everything else for a number. */
#include "base/arrays.h"
#include "evalframe/loops.h"

typedef enum Kind { NUMBER, ARRAY, TUPLE, SLICE } Kind;
typedef struct Value {
    uint8_t kind, n; /* of an array its rank, of a tuple its length */
} Value;
#define MOST 64 /* values on the stack */

typedef struct Walk {
    const DynCode *code;
    PyObject *const *slots;
    PyObject *globals;
    Value stack[MOST];
    uint32_t n;
    uint32_t elements; /* How many it reads and stores. */
    bool fails;        /* It does something else with an array. */
} Walk;

static Value value_of(PyObject *o) {
    if (o != NULL && PyArray_CheckExact(o)) {
        int rank = PyArray_NDIM((PyArrayObject *)o);
        return (Value){ARRAY, (uint8_t)rank};
    }
    if (o != NULL && PyTuple_CheckExact(o)) {
        return (Value){TUPLE, (uint8_t)(PyTuple_GET_SIZE(o) < UINT8_MAX ? PyTuple_GET_SIZE(o) : UINT8_MAX)};
    }
    return (Value){o != NULL && PySlice_Check(o) ? SLICE : NUMBER, 0};
}

static PyObject *global_named(const Walk *w, uint32_t name) {
    PyObject *o = PyDict_CheckExact(w->globals)
                      ? PyDict_GetItemWithError(w->globals, PyTuple_GET_ITEM(w->code->code->co_names, name))
                      : NULL;
    PyErr_Clear();
    return o;
}

static void push(Walk *w, Value v) {
    if (w->n < MOST) {
        w->stack[w->n++] = v;
    } else {
        w->fails = true;
    }
}

static Value pop(Walk *w) { return w->n > 0 ? w->stack[--w->n] : (Value){NUMBER, 0}; }

/* container[index] */
static void subscript(Walk *w, Value container, Value index) {
    uint8_t given = index.kind == TUPLE ? index.n : 1;
    bool element = index.kind != SLICE && index.kind != ARRAY && given == container.n;
    w->elements += container.kind == ARRAY && element;
    w->fails = w->fails || (container.kind == ARRAY && !element);
}

static void build_tuple(Walk *w, uint32_t n) {
    Value made = {TUPLE, (uint8_t)(n < UINT8_MAX ? n : UINT8_MAX)};
    for (uint32_t i = 0; i < n; i++) {
        Kind kind = (Kind)pop(w).kind;
        w->fails = w->fails || kind == ARRAY;
        made.kind = kind == SLICE ? SLICE : made.kind;
    }
    push(w, made);
}

/* An instruction that has no rule of its own: an array that it takes may be taken as a whole. */
static void take(Walk *w, const DynInstr *in) {
    DynStackEffect e = dyn_stack_effect(in);
    for (uint32_t i = 0; i < e.pops; i++) {
        w->fails = w->fails || pop(w).kind == ARRAY;
    }
    for (uint32_t i = 0; i < e.pushes; i++) {
        push(w, (Value){NUMBER, 0});
    }
}

static void step(Walk *w, const DynInstr *in) {
    Value a, b;
    switch (in->op) {
    case DYN_I_LOAD_FAST: push(w, value_of(w->slots[in->arg])); break;
    case DYN_I_LOAD_CONST: push(w, value_of(PyTuple_GET_ITEM(w->code->code->co_consts, in->arg))); break;
    case DYN_I_LOAD_GLOBAL:
        take(w, in);
        if (in->sub == 0 && w->n > 0) {
            w->stack[w->n - 1] = value_of(global_named(w, in->arg));
        }
        break;
    case DYN_I_COPY: push(w, in->arg <= w->n ? w->stack[w->n - in->arg] : (Value){NUMBER, 0}); break;
    case DYN_I_SWAP:
        if (in->arg >= 1 && in->arg <= w->n) {
            a = w->stack[w->n - in->arg];
            w->stack[w->n - in->arg] = w->stack[w->n - 1];
            w->stack[w->n - 1] = a;
        }
        break;
    case DYN_I_BUILD_SLICE:
        take(w, in);
        (void)pop(w);
        push(w, (Value){SLICE, 0});
        break;
    case DYN_I_BUILD_TUPLE: build_tuple(w, in->arg); break;
    case DYN_I_BINARY_SUBSCR:
        b = pop(w);
        a = pop(w);
        subscript(w, a, b);
        push(w, (Value){NUMBER, 0});
        break;
    case DYN_I_STORE_SUBSCR:
        b = pop(w);
        a = pop(w);
        subscript(w, a, b);
        w->fails = w->fails || pop(w).kind == ARRAY;
        break;
    default: take(w, in);
    }
}

/* Where a jump leads to there may be other values than the walk has; what it doesn't know of is taken for numbers. */
static void settle(Walk *w, uint32_t depth) {
    w->n = w->n < depth ? w->n : depth;
    while (w->n < depth && !w->fails) {
        push(w, (Value){NUMBER, 0});
    }
}

bool dyn_loops_take_elements(const DynCode *c, const bool *members, PyObject *const *slots, PyObject *globals,
                             uint32_t *elements) {
    int32_t *depths = dyn_decode_depths(c);
    Walk w = {.code = c, .slots = slots, .globals = globals, .fails = depths == NULL};
    for (uint32_t i = 0; i < c->v.n && !w.fails; i++) {
        const DynInstr *in = &c->v.at[i];
        if (members[i] && depths[i] >= 0) {
            settle(&w, (uint32_t)depths[i]);
            step(&w, in);
        }
    }
    PyMem_RawFree(depths);
    *elements = w.elements;
    return !w.fails;
}
