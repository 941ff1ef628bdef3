/* rec_take.c: items are taken from iterators: by loops, by builtins, by unpacking, by other iterators. Each step is made for
 * real, one after the other, and Python code that runs in it is recorded. Shadows of iterators move on when the instruction that
 * took from them is done: where it turns out a break they still show the state before it, and an array operation in the middle
 * that leaves the graph leaves it in front of the instruction, which then takes again.
 *
 * Called by the handlers and, at the end of each such instruction, by record.c. */
#include "tracer/record/rec_segment.h"

#define MAX_ITEMS_TAKEN 4096 /* by one instruction: what more is known of one costs more each time */

void rec_begin_taking(DynRec *r) {
    if (r->taking == NULL && r->cap != NULL) {
        r->taking = r->top;
        r->ntaken = 0;
        r->take_lost = false;
        r->take = rec_mark(r);
        r->take_seal = rec_seal(r);
    }
}

/* An iterator in C that came to its end stays there, also where its list has more later. */
void rec_ended(DynRec *r, DynVal *it) {
    bool grows = it->kind == DV_ITER && it->n == 0 && it->iter.over->kind == DV_LIST;
    DynVal *empty = grows ? dyn_rec_seq(r, DV_LIST, 0, NULL, NULL) : NULL;
    if (empty != NULL) {
        it->iter.over = empty;
        it->iter.position = 0;
    } else if (grows) {
        rec_become_opaque(it);
    }
    rec_changed(r, it);
}

void rec_end_taking(DynRec *r, RecFrame *f, Step s) {
    if (r->taking != f) {
        return;
    }
#ifdef DYN_DEBUG
    if (r->cap != NULL && r->take_lost && s == STEP_NEXT) {
        Py_FatalError("an instruction took an item that isn't known, and is no break");
    }
#endif
    bool outcome_known = s == STEP_NEXT || (s == STEP_ERROR && r->error != NULL);
    bool known = r->cap != NULL && !r->take_lost && outcome_known;
    if (known && s == STEP_ERROR &&
        rec_snapshot_new_nodes(r) < 0) { /* else the handler asked for it, before it changed the stack */
        known = false;
        r->error = NULL;
    }
    r->taking = NULL;
    rec_unseal(r, r->take_seal);
    for (uint32_t i = 0; i < r->taken.n; i++) {
        DynVal *v = r->taken.at[i];
        v->iter.position += known ? v->ahead : 0;
        v->ahead = 0;
        if (known && v->ending) {
            rec_ended(r, v);
        } else if (known) {
            rec_changed(r, v);
        }
        v->ending = false;
    }
    r->taken.n = 0;
    rec_generators_settle(r, known);
    if (!known && r->cap != NULL) {
        rec_rollback(r, &r->take);
        r->error = NULL; /* what was raised is due at every call, with the effects in front of it */
    }
}

DynVal *rec_take_failed(DynRec *r, DynReason why, const char *detail) {
    if (!r->take_lost) {
        rec_fail(r, why, detail);
    }
    r->take_lost = true;
    return NULL;
}

static bool taken_from(DynRec *r, DynVal *it) {
    if (it->ahead == 0 && !it->ending && dyn_vec_push(&r->taken, it) < 0) {
        rec_take_failed(r, DYN_R_NO_MEMORY, NULL);
        return false;
    }
    return true;
}

void rec_advance(DynRec *r, DynVal *it) {
    if (r->taking == NULL) {
        it->iter.position++;
        rec_changed(r, it);
    } else {
        it->ahead += taken_from(r, it);
    }
}

void rec_taken_so_far(DynRec *r) {
    if (r->cap != NULL && !r->take_lost && rec_snapshot_new_nodes(r) < 0) {
        rec_take_failed(r, r->why, NULL);
    }
}

bool rec_is_iterator(const DynVal *v) { return v->kind == DV_ITER || v->kind == DV_GENERATOR || v->kind == DV_LAZY; }

/* The end of an iterator in C: StopIteration may be set or not. */
static PyObject *next_for_real(PyObject *it) {
    PyObject *item = Py_TYPE(it)->tp_iternext(it);
    if (item == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        PyErr_Clear();
    }
    return item;
}

static PyObject *take_listed(DynRec *r, DynOperand it, DynVal **v) {
    PyObject *item = next_for_real(it.real);
    if (item == NULL && PyErr_Occurred()) {
        return NULL;
    }
    if (rec_next_item(r, it.v, item, v) < 0) {
        *v = rec_take_failed(r, r->why, NULL);
    } else if (item != NULL) {
        rec_advance(r, it.v);
    } else {
        it.v->ending = taken_from(r, it.v);
    }
    return item;
}

static bool is_stopped(void) { return PyErr_Occurred() != NULL && PyErr_ExceptionMatches(PyExc_StopIteration); }

/* rec_take, but the StopIteration that a function raises which an iterator of itertools calls is still set. */
static PyObject *take_or_raise(DynRec *r, DynOperand it, DynVal **v) {
    *v = NULL;
    rec_begin_taking(r);
    rec_taken_so_far(r);
    if (r->ntaken++ >= MAX_ITEMS_TAKEN) {
        rec_take_failed(r, DYN_R_BUDGET, "items");
    }
    if (r->cap == NULL || r->take_lost) {
        rec_take_failed(r, r->why, r->detail);
        return next_for_real(it.real);
    }
    if (it.v->kind == DV_ITER && (it.v->iter.over->kind != DV_ARRAY || it.v->iter.over->real != NULL)) {
        return take_listed(r, it, v);
    }
    if (it.v->kind == DV_LAZY) {
        PyObject *item = NULL;
        *v = it.v->iter.lazy->step(r, it.v, &item);
        if (item != NULL && *v != NULL && !r->take_lost) {
            rec_advance(r, it.v);
        } else if (item != NULL) {
            *v = rec_take_failed(r, r->why, r->detail);
        } else if (is_stopped()) { /* the iterator isn't at its end, but its reader takes it for that */
            rec_take_failed(r, DYN_R_EXCEPTION, "StopIteration");
        }
        return item;
    }
    if (it.v->kind == DV_GENERATOR) {
        PyObject *item = rec_generator_take(r, it, (DynOperand){dyn_rec_const(r, Py_None), Py_None}, v);
        if (item == NULL && is_stopped()) {
            PyErr_Clear();
        }
        return item;
    }
    rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "iterator of this kind");
    return next_for_real(it.real);
}

PyObject *rec_take(DynRec *r, DynOperand it, DynVal **v) {
    PyObject *item = take_or_raise(r, it, v);
    if (item == NULL && is_stopped()) {
        PyErr_Clear();
    }
    return item;
}

PyObject *rec_take_sent(DynRec *r, DynOperand it, DynOperand sent, DynVal **v) {
    PyObject *item = NULL;
    if (it.v->kind != DV_GENERATOR) {
        return take_or_raise(r, it, v);
    }
    rec_begin_taking(r);
    if (r->cap != NULL && !r->take_lost) {
        return rec_generator_take(r, it, sent, v);
    }
    *v = rec_take_failed(r, r->why, r->detail);
    PySendResult how = PyIter_Send(it.real, sent.real, &item);
    if (how == PYGEN_RETURN && item != Py_None) {
        PyObject *stop = PyObject_CallOneArg(PyExc_StopIteration, item);
        if (stop != NULL) {
            PyErr_SetObject(PyExc_StopIteration, stop);
            Py_DECREF(stop);
        }
    }
    return how == PYGEN_RETURN ? (Py_DECREF(item), NULL) : item;
}

/* What an __iter__ in Python gives, which has no effect. */
static DynOperand iter_by_function(DynRec *r, DynOperand function, DynOperand o) {
    DynOperand it = {0};
    it.v = rec_call_within(r, function, &o, 1, &it.real);
    if (it.real == NULL || rec_keep(r, it.real) < 0) {
        PyErr_Clear();
        it.v = NULL;
    }
    Py_XDECREF(it.real); /* the recording keeps it */
    return it.v != NULL && rec_is_iterator(it.v) ? it : (DynOperand){0};
}

/* The __iter__ of an instance, where that is a generator function: calling it runs nothing yet. v NULL: it is none. */
static DynOperand made_by_generator(DynRec *r, DynOperand o) {
    DynOperand none = {0}, f = rec_type_method(r, o, "__iter__");
    return f.v != NULL && (((PyCodeObject *)PyFunction_GET_CODE(f.real))->co_flags & CO_GENERATOR) ? f : none;
}

DynOperand rec_get_iter(DynRec *r, DynOperand o) {
    DynOperand none = {0};
    if (o.v == NULL || r->cap == NULL || rec_resolve_walked(r, o.v, o.real) < 0) {
        return none;
    }
    if (rec_is_iterator(o.v)) {
        return o;
    }
    if (PyArray_Check(o.real) && PyArray_NDIM((PyArrayObject *)o.real) < 1) {
        return none;
    }
    DynOperand function = rec_torch_container_iter(r, o);
    function = function.v == NULL ? made_by_generator(r, o) : function;
    if (function.v != NULL) {
        return iter_by_function(r, function, o);
    }
    DynVal *v = rec_new_iter(r, rec_iterate(r, o.v, o.real));
    if (v != NULL && o.v->kind == DV_ARRAY && o.v->real == NULL) { /* its rows are taken from it by index */
        v = rec_keep(r, o.real) == 0 ? v : NULL;
        o.v->real = o.real;
    }
    PyObject *it = v != NULL ? PyObject_GetIter(o.real) : NULL;
    if (it == NULL || rec_keep(r, it) < 0) {
        PyErr_Clear();
        Py_XDECREF(it);
        return none;
    }
    Py_DECREF(it); /* the recording keeps it */
    return (DynOperand){v, it};
}

DynOperand rec_get_iter_to_hold(DynRec *r, DynOperand o) {
    DynOperand it = rec_get_iter(r, o);
    bool late = it.v != NULL && it.v->kind == DV_GENERATOR && rec_generator_may_guard(r, it.v);
    return late ? (DynOperand){0} : it;
}

static PyObject *take_many(DynRec *r, DynOperand it, DynVal **v, bool all, RecStops stops) {
    PyObject *list = PyList_New(0), *item;
    rec_begin_taking(r); /* before the list: filling it changes nothing that is older than the instruction */
    DynVal *items = dyn_rec_seq(r, DV_LIST, 0, NULL, NULL), *x;
    while (list != NULL && (item = rec_take(r, it, &x)) != NULL) {
        if (items == NULL || x == NULL || rec_keep(r, item) < 0 || rec_push_item(r, items, x) < 0) {
            items = NULL;
        }
        PyObject *first = PyList_GET_SIZE(list) > 0 ? PyList_GET_ITEM(list, 0) : NULL;
        bool stop = !all && (items == NULL || r->take_lost || (stops != NULL && stops(first, (DynOperand){x, item})));
        int status = PyList_Append(list, item);
        Py_DECREF(item);
        if (stop) {
            rec_take_failed(r, DYN_R_OPAQUE_CALL, "items whose operators can be seen or fail");
        }
        if (status < 0 || stop) {
            break;
        }
    }
    *v = r->take_lost || r->cap == NULL ? NULL : items;
    if (PyErr_Occurred()) {
        Py_CLEAR(list);
    }
    return list;
}

PyObject *rec_take_all(DynRec *r, DynOperand it, DynVal **v) { return take_many(r, it, v, true, NULL); }

PyObject *rec_take_until(DynRec *r, DynOperand it, DynVal **v, RecStops stops) { return take_many(r, it, v, false, stops); }
