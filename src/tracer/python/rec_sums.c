/* rec_sums.c: sum() and math.prod(), of what is listed and of iterators.
 *
 * Called by the table of callables (callables.def). Sums are the caller's: each function here gives new references. */
#include "base/tensors.h"
#include "tracer/record/rec_callables.h"
#include "tracer/numpy/rec_types.h"

/* The items of the list or tuple that is added up. False: the call is another. */
static bool summed_items(DynRec *r, const RecCall *c, DynVal ***items, uint32_t *n) {
    DynOperand o = c->args[0];
    if ((!rec_is_tuple_or_list(o.real) && !dyn_is_tuple(o.real)) || rec_items(r, o.v, o.real, items, n) < 0) {
        return false;
    }
    return *n == PySequence_Fast_GET_SIZE(o.real);
}

/* The rest of sum() or math.prod(): the builtin goes on from what has been added up, and nothing is done twice. */
static PyObject *sum_of_rest(const RecCall *c, PyObject *rest, PyObject *acc, int nb) {
    PyObject *named = rest == NULL || nb != REC_NB_MULTIPLY ? NULL : Py_BuildValue("(s)", "start");
    PyObject *args[] = {rest, acc}, *result = NULL;
    if (rest != NULL && (named != NULL || nb != REC_NB_MULTIPLY)) {
        result = PyObject_Vectorcall(c->callable.real, args, named != NULL ? 1 : 2, named);
    }
    Py_XDECREF(named);
    return result;
}

static PyObject *sum_of_listed_rest(const RecCall *c, PyObject *acc, uint32_t i, int nb) {
    if (i == 0) {
        return rec_call_real(c);
    }
    PyObject *rest = PyObject_GetIter(c->args[0].real);
    for (uint32_t k = 0; rest != NULL && k < i; k++) {
        Py_XDECREF(PyIter_Next(rest));
    }
    PyObject *result = sum_of_rest(c, rest, acc, nb);
    Py_XDECREF(rest);
    return result;
}

/* The same of an iterator that has given `item` already. */
static PyObject *sum_of_item_and_rest(const RecCall *c, PyObject *acc, PyObject *item, int nb) {
    PyObject *items = Py_BuildValue("(O)", item), *rest = items == NULL ? NULL : rec_chained(items, c->args[0].real);
    PyObject *result = sum_of_rest(c, rest, acc, nb);
    Py_XDECREF(items);
    Py_XDECREF(rest);
    return result;
}

/* Can the next item be added as a graph's operation, and as the builtin adds it? It adds floats with more care than `+` does. */
static bool can_add(DynRec *r, DynOperand a, DynOperand b) {
    if (a.v == NULL || dyn_rec_resolve(r, b.v, b.real) < 0) {
        return false;
    }
    bool ints = a.v->kind == DV_SYM && b.v->kind == DV_SYM && PyLong_CheckExact(a.real) && PyLong_CheckExact(b.real);
    return ints || rec_is_array(a.v) || rec_is_array(b.v);
}

/* What the sum starts with; its real value is a new reference. */
static DynOperand sum_start(DynRec *r, const RecCall *c, int nb) {
    if (c->npos == 2) {
        return (DynOperand){c->args[1].v, Py_NewRef(c->args[1].real)};
    }
    PyObject *start = PyLong_FromLong(nb == REC_NB_MULTIPLY);
    return (DynOperand){start == NULL ? NULL : dyn_rec_const(r, start), start};
}

/* The sum with one more item, for which can_add() is true: a new reference, in place of the sum's. */
static DynOperand add_item(DynRec *r, DynOperand sum, DynOperand item, int nb) {
    DynOperand more = {0};
    more.real = nb == REC_NB_MULTIPLY ? PyNumber_Multiply(sum.real, item.real) : PyNumber_Add(sum.real, item.real);
    if (more.real != NULL) {
        bool arrays = rec_is_array(sum.v) || rec_is_array(item.v);
        more.v = arrays ? dyn_np_binary(r, nb, false, sum, item, more.real) : rec_number_binary(r, nb, sum, item, more.real);
    }
    Py_DECREF(sum.real);
    return more;
}

/* The sum of what an iterator gives: each item is added before the next one is taken, as the builtin does it, so that an error or
 * a warning finds the iterator where it does in CPython. */
static DynVal *sum_of_iterator(DynRec *r, const RecCall *c, PyObject **result, int nb) {
    DynOperand sum = sum_start(r, c, nb), item;
    while (sum.real != NULL && (item.real = rec_take(r, c->args[0], &item.v)) != NULL) {
        if (item.v == NULL || rec_keep(r, item.real) < 0 || !can_add(r, sum, item)) {
            Py_SETREF(sum.real, sum_of_item_and_rest(c, sum.real, item.real, nb));
            sum.v = NULL;
            Py_DECREF(item.real);
            break;
        }
        sum = add_item(r, sum, item, nb);
        Py_DECREF(item.real);
    }
    if (PyErr_Occurred()) {
        Py_CLEAR(sum.real);
    }
    *result = sum.real;
    if (sum.real == NULL) {
        return NULL;
    }
    return sum.v != NULL && !r->take_lost ? sum.v : rec_take_failed(r, DYN_R_OPAQUE_CALL, "sum");
}

/* sum() and math.prod() over arrays and ints: the operations one by one (nb: as BINARY_OP sub), as the builtin does them. */
DynVal *rec_on_sum(DynRec *r, const RecCall *c, PyObject **result, int nb) {
    DynVal **items;
    uint32_t n, i = 0;
    bool plain = c->nkw == 0 && (c->npos == 1 || (c->npos == 2 && (c->args[1].v->kind == DV_SYM || rec_is_array(c->args[1].v))));
    if (plain && rec_is_iterator(c->args[0].v)) {
        return sum_of_iterator(r, c, result, nb);
    }
    if (!plain || !summed_items(r, c, &items, &n)) {
        *result = rec_call_real(c);
        return rec_fail(r, c->npos && rec_is_array(c->args[0].v) ? DYN_R_UNSUPPORTED_OP : DYN_R_OPAQUE_CALL, "sum");
    }
    DynOperand sum = sum_start(r, c, nb);
    for (; sum.real != NULL && sum.v != NULL && i < n; i++) {
        DynOperand item = {items[i], PySequence_Fast_GET_ITEM(c->args[0].real, i)};
        if (!can_add(r, sum, item)) {
            sum.v = NULL;
            break;
        }
        sum = add_item(r, sum, item, nb);
    }
    if (sum.real != NULL && sum.v == NULL) {
        Py_SETREF(sum.real, sum_of_listed_rest(c, sum.real, i, nb));
    }
    *result = sum.real;
    return sum.v != NULL || sum.real == NULL ? sum.v : rec_unknown_call(r, c);
}
