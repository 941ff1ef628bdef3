/* rec_flow.c: handlers for jumps, loops and returns. A branch on a value that guards can pin down is followed and guarded; a
 * branch on array data is a graph break with two ways on, or, where the other way raises, a check in the graph (late_truth); the
 * trips of a loop that is too long to unroll are breaks too. What is true is in rec_truth.c, what a loop runs over in
 * rec_items.c.
 *
 * Called from record.c's table. */
#include "tracer/record/rec_segment.h"

Step rec_JUMP(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r;
    f->next = in->target;
    return STEP_NEXT;
}

/* ---- branches */

/* Takes a branch that guards can't decide as it goes now. `truth` is what the value said, or -1 with an exception. */
static Step decide(RecFrame *f, const DynInstr *in, int truth, bool when, bool keep) {
    if (truth < 0) {
        return STEP_ERROR;
    }
    bool taken = (truth != 0) == when;
    f->next = taken ? in->target : f->next;
    if (!(taken && keep)) {
        rec_drop(f, 1);
    }
    return STEP_BREAK;
}

static Step branch(DynRec *r, RecFrame *f, const DynInstr *in, bool when, bool keep) {
    DynOperand o = operand(f, 1);
    bool known = false;
    int truth = dyn_rec_resolve(r, o.v, o.real) == 0 ? rec_instance_truth(r, o, &known) : -2;
    if (truth == -1 || (truth >= 0 && !known)) { /* it was asked, and shall not be asked again in this call */
        return decide(f, in, truth, when, keep);
    }
    truth = truth == -2 ? rec_truth(r, o.v, o.real) : truth;
    if (truth < 0 || rec_snapshot_new_nodes(r) < 0) {
        PyErr_Clear();
        return decide(f, in, PyObject_IsTrue(o.real), when, keep);
    }
    if ((truth != 0) == when) {
        f->next = in->target;
        if (keep) {
            return STEP_NEXT;
        }
    }
    f->ssp--;
    rec_drop(f, 1);
    return STEP_NEXT;
}
Step rec_POP_JUMP_IF_TRUE(DynRec *r, RecFrame *f, const DynInstr *in) { return branch(r, f, in, true, false); }
Step rec_POP_JUMP_IF_FALSE(DynRec *r, RecFrame *f, const DynInstr *in) { return branch(r, f, in, false, false); }
Step rec_JUMP_IF_TRUE_OR_POP(DynRec *r, RecFrame *f, const DynInstr *in) { return branch(r, f, in, true, true); }
Step rec_JUMP_IF_FALSE_OR_POP(DynRec *r, RecFrame *f, const DynInstr *in) { return branch(r, f, in, false, true); }

static Step branch_none(DynRec *r, RecFrame *f, const DynInstr *in, bool when) {
    DynOperand o = operand(f, 1);
    bool known = dyn_rec_resolve(r, o.v, o.real) == 0 && o.v->kind != DV_OPAQUE;
    if ((o.real == Py_None) == when) { /* where the type is guarded, whether it is None is known */
        f->next = in->target;
    }
    f->ssp -= known;
    rec_drop(f, 1);
    return known ? STEP_NEXT : STEP_BREAK;
}
Step rec_POP_JUMP_IF_NONE(DynRec *r, RecFrame *f, const DynInstr *in) { return branch_none(r, f, in, true); }
Step rec_POP_JUMP_IF_NOT_NONE(DynRec *r, RecFrame *f, const DynInstr *in) { return branch_none(r, f, in, false); }

Step rec_RETURN_VALUE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r, (void)f, (void)in;
    return STEP_RETURN;
}

Step rec_YIELD_VALUE(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r, (void)f, (void)in;
    return STEP_RETURN;
}

Step rec_RETURN_CONST(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *v = dyn_rec_const(r, PyTuple_GET_ITEM(f->code->code->co_consts, in->arg));
    if (v == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    push_shadow(f, v); /* the value itself is pushed by the instruction, which CPython runs */
    return STEP_RETURN;
}

/* ---- iteration */

DynVal *rec_new_iter(DynRec *r, DynVal *container) {
    DynVal *v = container ? rec_new_fresh(r, DV_ITER) : NULL;
    if (v == NULL) {
        return NULL;
    }
    v->iter.over = container;
    v->state = rec_live_state(v);
    return v;
}

/* What an object gives for a loop; NULL: unknown. Its __iter__ isn't one in Python. */
static DynVal *iterator_over(DynRec *r, DynOperand o) {
    DynVal *v = rec_is_iterator(o.v) ? o.v : rec_new_iter(r, rec_iterate(r, o.v, o.real));
    if (o.v->kind == DV_ARRAY && o.v->real == NULL) { /* its rows are taken from it by index */
        v = v != NULL && rec_keep(r, o.real) == 0 ? v : NULL;
        o.v->real = o.real;
    }
    if (v != NULL && v->kind == DV_ITER && v->iter.over->kind == DV_OPAQUE) {
        v->looped = true;
    }
    return v;
}

DynOperand rec_iter_method(DynRec *r, DynOperand o) {
    return rec_resolve_walked(r, o.v, o.real) == 0 ? rec_special(r, o, "__iter__") : (DynOperand){0};
}

/* The operand gives place to what its __iter__ gives, if that is an iterator: else it is as it was, and GET_ITER raises. */
static Step call_iter(DynRec *r, RecFrame *f, DynOperand o, DynOperand method) {
    RecCall c = {.callable = method, .args = &o, .npos = 1};
    Py_INCREF(o.real);
    Step step = rec_finish_call(r, f, &c, 1);
    if ((step == STEP_NEXT || step == STEP_BREAK) && !PyIter_Check(*real_top(f, 1))) {
        dyn_cpy_say_no_iterator(o.real, *real_top(f, 1));
        Py_SETREF(*real_top(f, 1), Py_NewRef(o.real));
        *shadow_top(f, 1) = o.v;
        step = STEP_ERROR;
    }
    Py_DECREF(o.real);
    return step;
}

/* The operand gives place to its iterator, in one slot. */
static Step get_iterator(DynRec *r, RecFrame *f) {
    DynOperand o = operand(f, 1), method = rec_iter_method(r, o);
    if (method.v != NULL) {
        return call_iter(r, f, o, method);
    }
    DynVal *v = iterator_over(r, o);
    return rec_commit(r, f, 1, PyObject_GetIter(o.real), v);
}

DynVal *rec_plain_iterator(DynRec *r, DynOperand o) { return rec_iter_method(r, o).v == NULL ? iterator_over(r, o) : NULL; }

/* get_iterator, or nothing to be done where `is_one`; then the iterator takes its second slot. */
static Step put_iterator(DynRec *r, RecFrame *f, bool is_one) {
    DynVal *null = rec_new(r, DV_NULL);
    if (null == NULL) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    Step step = is_one ? STEP_NEXT : get_iterator(r, f);
    if (dyn_iterator_slots() == 2 && (step == STEP_NEXT || step == STEP_BREAK)) {
        push_real(f, NULL);
        if (step == STEP_NEXT) {
            push_shadow(f, null);
        }
    }
    return step;
}

Step rec_GET_ITER(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)in;
    return put_iterator(r, f, false);
}

/* A loop's iterator is dropped, with its shadow where recording goes on. */
static void drop_iterator(RecFrame *f, bool recorded) {
    f->ssp -= recorded ? dyn_iterator_slots() : 0;
    rec_drop(f, dyn_iterator_slots());
}

Step rec_POP_ITER(DynRec *r, RecFrame *f, const DynInstr *in) {
    (void)r, (void)in;
    drop_iterator(f, true);
    return STEP_NEXT;
}

/* The iterator of a for statement, on top of the stack. */
static DynOperand iterator_of_loop(RecFrame *f) { return operand(f, dyn_iterator_slots()); }

/* Row i of an array, as iteration gives it. */
static DynVal *row(DynRec *r, DynVal *array, uint32_t i, PyObject *item) {
    PyObject *index = PyLong_FromUnsignedLong(i);
    DynVal *iv = index ? dyn_rec_const(r, index) : NULL;
    DynVal *v = iv ? dyn_np_subscr(r, (DynOperand){array, array->real}, (DynOperand){iv, index}, item) : NULL;
    Py_XDECREF(index);
    return v;
}

/* Reads the rows of arrays that an item of zip or enumerate has in it. */
static int read_rows(DynRec *r, DynVal **v, PyObject *item) {
    if ((*v)->kind == DV_ROW) {
        *v = row(r, (*v)->row.array, (*v)->row.at, item);
        return *v == NULL ? -1 : 0;
    }
    for (uint32_t i = 0; (*v)->kind == DV_TUPLE && PyTuple_CheckExact(item) && i < (*v)->n; i++) {
        if ((*v)->items[i]->kind == DV_ROW && read_rows(r, &(*v)->items[i], PyTuple_GET_ITEM(item, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Shadow of the next item, or of the end (item NULL): what has to hold for it is guarded. -1: unknown. */
int rec_next_item(DynRec *r, DynVal *it, PyObject *item, DynVal **out) {
    DynVal *c = it->iter.over;
    DynSyms *t = &r->cap->syms;
    uint32_t i = it->iter.position + it->ahead;
    if (c->kind == DV_RANGE) {
        uint32_t step = rec_sym_of(c->slice.step), k = dyn_sym_int(t, i);
        uint32_t off = k == DYN_NONE ? k : dyn_sym_op(t, DYN_S_MUL, k, step, DYN_NONE);
        uint32_t at = off == DYN_NONE ? off : dyn_sym_op(t, DYN_S_ADD, rec_sym_of(c->slice.start), off, DYN_NONE);
        bool up = dyn_sym_at(t, step)->hint.i > 0;
        DynSymOp before = up ? DYN_S_LT : DYN_S_GT;
        uint32_t more = at == DYN_NONE ? at : dyn_sym_op(t, before, at, rec_sym_of(c->slice.stop), DYN_NONE);
        if (dyn_rec_assume(r, more) < 0 || (bool)dyn_sym_at(t, more)->hint.i != (item != NULL)) {
            return -1;
        }
        *out = item ? dyn_rec_sym(r, at) : NULL;
        return item != NULL && *out == NULL ? -1 : 0;
    }
    if (c->kind == DV_ARRAY) {
        uint32_t k = dyn_sym_int(t, i);
        const DynNode *node = dyn_graph_node(&r->cap->graph, rec_node_of(c));
        uint32_t more = node->ndim < 1 || k == DYN_NONE ? DYN_NONE : dyn_sym_op(t, DYN_S_LT, k, node->shape[0], DYN_NONE);
        if (dyn_rec_assume(r, more) < 0) {
            return -1;
        }
        if (item == NULL) {
            return 0;
        }
        *out = row(r, c, i, item);
        return *out == NULL ? -1 : 0;
    }
    const DynVal *live = rec_live_container(c);
    bool moved = live != NULL && live->state != it->state; /* CPython says what happens to an iteration then */
    if (moved || (live != NULL && rec_resolve_walked(r, c, Py_None) < 0)) {
        return -1;
    }
    if ((i < (live == NULL ? c->n : rec_live_count(c))) != (item != NULL)) {
        return -1;
    }
    *out = NULL;
    if (item == NULL) {
        return 0;
    }
    *out = live == NULL ? c->items[i] : rec_live_item(r, c, i);
    return *out == NULL ? -1 : read_rows(r, out, item);
}

/* The next value of an iterator that runs Python code; the end of it is the end of the loop. */
static Step for_lazy(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynVal *v;
    DynOperand o = iterator_of_loop(f);
    PyObject *item = rec_take(r, o, &v);
    if (item == NULL && PyErr_Occurred()) {
        return STEP_ERROR;
    }
    bool kept = item == NULL || rec_keep(r, item) == 0, known = kept && !r->take_lost && rec_snapshot_new_nodes(r) == 0;
    if (item == NULL) {
        drop_iterator(f, known);
        f->next = in->target;
        return known ? STEP_NEXT : STEP_BREAK;
    }
    push_real(f, item);
    if (known) {
        push_shadow(f, v);
    }
    return known ? STEP_NEXT : STEP_BREAK;
}

/* ---- yield from */

Step rec_GET_YIELD_FROM_ITER(DynRec *r, RecFrame *f, const DynInstr *in) {
    if (PyCoro_CheckExact(*real_top(f, 1))) { /* which code may have one is CPython's to say */
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "coroutine");
    }
    if (dyn_cpy_is_walked_by_index(*real_top(f, 1))) { /* gi_yieldfrom and errors of send() show the sequence */
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "yield from a sequence");
    }
    return put_iterator(r, f, PyGen_CheckExact(*real_top(f, 1)));
}

Step rec_END_SEND(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand value = operand(f, 1);
    return rec_commit(r, f, dyn_stack_effect(in).pops, Py_NewRef(value.real), value.v);
}

/* What an iterator returned: the value of the StopIteration that is set. NULL: another exception is. */
static PyObject *returned_value(void) {
    PyObject *type, *stop, *tb, *value = NULL;
    if (!PyErr_Occurred()) {
        return Py_NewRef(Py_None);
    }
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
        return NULL;
    }
    PyErr_Fetch(&type, &stop, &tb);
    PyErr_NormalizeException(&type, &stop, &tb);
    value = stop != NULL ? PyObject_GetAttrString(stop, "value") : NULL;
    Py_XDECREF(type);
    Py_XDECREF(stop);
    Py_XDECREF(tb);
    return value;
}

/* Sends v, on top of the stack, to the iterator below. What the iterator yields takes v's place. At the iterator's end, what it
 * returned takes v's place, and on 3.11 the iterator's too. */
Step rec_SEND(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand it = operand(f, 1 + dyn_iterator_slots()), sent = operand(f, 1);
    DynVal *v = NULL;
    if (!rec_is_iterator(it.v) || (it.v->kind != DV_GENERATOR && sent.real != Py_None)) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "yield from an iterator of this kind");
    }
    PyObject *item = rec_take_sent(r, it, sent, &v), *value = item == NULL ? returned_value() : NULL;
    if (item == NULL && value == NULL) {
        return STEP_ERROR;
    }
    if (item != NULL) {
        return rec_commit(r, f, 1, item, v);
    }
    if (r->take_lost) {
        v = NULL;
    } else if (v == NULL) {
        v = dyn_rec_const(r, Py_None);
    }
    f->next = in->target;
    return rec_commit(r, f, dyn_send_drops_iterator() ? 2 : 1, value, v);
}

/* Makes the iterator's next step for real, as a break: what the item, or the end, means is not known. */
static Step for_unknown(RecFrame *f, const DynInstr *in, PyObject *iterator) {
    PyObject *item = Py_TYPE(iterator)->tp_iternext(iterator);
    if (item != NULL) {
        push_real(f, item);
        return STEP_BREAK;
    }
    if (PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
            return STEP_ERROR;
        }
        PyErr_Clear();
    }
    drop_iterator(f, false);
    f->next = in->target;
    return STEP_BREAK;
}

/* Trips that are left, as far as that is known. */
static int64_t trips_left(DynRec *r, DynVal *it) {
    if (it->kind != DV_ITER) {
        int64_t least = it->kind == DV_LAZY && it->iter.lazy->n > 0 ? INT64_MAX : 0;
        for (uint32_t i = 0; least > 0 && i < it->iter.lazy->n; i++) {
            int64_t left = trips_left(r, it->iter.lazy->from[i].v);
            least = left < least ? left : least;
        }
        return least;
    }
    DynVal *c = it->iter.over;
    DynSyms *t = &r->cap->syms;
    if (c->kind == DV_ARRAY) {
        const DynNode *node = dyn_graph_node(&r->cap->graph, rec_node_of(c));
        return node->ndim < 1 ? 0 : dyn_sym_at(t, node->shape[0])->hint.i - it->iter.position;
    }
    if (c->kind != DV_RANGE) {
        DynVal *live = rec_live_container(c);
        c = live != NULL ? live : c;
        return (int64_t)(live != NULL && c->kind == DV_DICT ? c->n / 2 : c->n) - it->iter.position;
    }
    int64_t start = dyn_sym_at(t, rec_sym_of(c->slice.start))->hint.i, stop = dyn_sym_at(t, rec_sym_of(c->slice.stop))->hint.i;
    int64_t step = dyn_sym_at(t, rec_sym_of(c->slice.step))->hint.i, span = step > 0 ? stop - start : start - stop;
    int64_t stride = step > 0 ? step : -step;
    int64_t length = span <= 0 ? 0 : 1 + (span - 1) / stride;
    return length - it->iter.position;
}

/* Does the iterator run over modules of PyTorch? Each trip then calls another layer, so that one entry for all trips is
 * impossible. */
static bool over_modules(const DynVal *it) {
    bool found = false;
    for (uint32_t i = 0; it->kind == DV_LAZY && !found && i < it->iter.lazy->n; i++) {
        found = over_modules(it->iter.lazy->from[i].v);
    }
    if (it->kind != DV_ITER) {
        return found;
    }
    DynVal *c = it->iter.over, *live = rec_live_container(c);
    c = live != NULL ? live : c;
    bool dict = c->kind == DV_DICT, listed = dict || c->kind == DV_TUPLE || c->kind == DV_LIST;
    uint32_t last = it->iter.position > 0 ? it->iter.position - 1 : 0; /* the next wasn't looked at yet */
    uint32_t at = dict ? 2 * last + 1 : last;
    const DynVal *item = listed && at < c->n ? c->items[at] : NULL;
    return item != NULL && item->kind == DV_OBJECT && item->module;
}

#define MOST_DEVICE_TRIPS 100
#define MOST_DEVICE_NODES 600 /* of a loop that has more than REC_MAX_TRIPS of them */

/* On a device every trip that is a graph of its own is a launch and goes through memory. A range whose length is known and whose
 * trips are short becomes one kernel, which is compiled once, as there is no other length. */
static bool is_short_on_device(DynRec *r, const DynVal *it, int64_t left) {
    const DynSyms *t = &r->cap->syms;
    const DynVal *c = it->kind == DV_ITER ? it->iter.over : NULL;
    if (r->cap->graph.device == 0 || c == NULL || c->kind != DV_RANGE) {
        return false;
    }
    const uint32_t ends[] = {rec_sym_of(c->slice.start), rec_sym_of(c->slice.stop), rec_sym_of(c->slice.step)};
    bool known = true;
    for (size_t i = 0; i < DYN_COUNTOF(ends); i++) {
        known = known && dyn_sym_at(t, ends[i])->op == DYN_S_CONST;
    }
    int64_t nodes = r->cap->graph.nodes.n / it->iter.position; /* of a trip, with what is in front of the loop */
    return known && left + it->iter.position <= MOST_DEVICE_TRIPS && left * nodes <= MOST_DEVICE_NODES;
}

/* Too many trips are left for a loop that is unrolled. It is asked behind the first trip, which has bound what the others find.
 */
static bool has_many_trips(DynRec *r, RecFrame *f, DynVal *it) {
    if (it->iter.position == 0) {
        return false;
    }
    int64_t left = trips_left(r, it);
    uint32_t most = over_modules(it) ? REC_MAX_MODULES : is_short_on_device(r, it, left) ? MOST_DEVICE_TRIPS : 0;
    f->most_trips = most > f->most_trips ? most : f->most_trips;
    return left >= (f->most_trips > 0 ? f->most_trips : REC_MAX_TRIPS) && rec_may_break(r, f);
}

Step rec_FOR_ITER(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = iterator_of_loop(f);
    if (o.v->kind == DV_LAZY && has_many_trips(r, f, o.v)) {
        r->why = DYN_R_LOOP;
        return for_unknown(f, in, o.real);
    }
    if (o.v->kind == DV_GENERATOR || o.v->kind == DV_LAZY) {
        return for_lazy(r, f, in);
    }
    if (o.v->kind != DV_ITER || (o.v->iter.over->kind == DV_ARRAY && o.v->iter.over->real == NULL)) {
        bool ours = o.v->source != DYN_NONE; /* it lay on the stack of a segment that broke in this loop */
        r->why = ours ? DYN_R_LOOP : r->why;
        r->detail = ours ? NULL : "iterator of this kind";
        return for_unknown(f, in, o.real);
    }
    if (has_many_trips(r, f, o.v)) {
        r->why = DYN_R_LOOP;
        return for_unknown(f, in, o.real);
    }
    PyObject *item = Py_TYPE(o.real)->tp_iternext(o.real);
    DynVal *v = NULL;
    if (item == NULL && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_StopIteration)) {
            return STEP_ERROR;
        }
        PyErr_Clear();
    }
    if (rec_next_item(r, o.v, item, &v) < 0) {
        if (item == NULL) {
            return step_bail(r, r->why, "end of a loop"); /* an exhausted iterator says so again */
        }
        /* the iterator has moved: it can't be given back as it was, and the item's shadow is unknown */
        v = rec_new(r, DV_OPAQUE);
        if (v == NULL) {
            Py_XDECREF(item);
            PyErr_NoMemory();
            return STEP_ERROR;
        }
        rec_become_opaque(o.v);
    } else if (item != NULL) {
        rec_advance(r, o.v);
    } else {
        rec_ended(r, o.v);
    }
    if (item == NULL) {
        drop_iterator(f, true);
        f->next = in->target;
        return STEP_NEXT;
    }
    push_real(f, item);
    push_shadow(f, v);
    return STEP_NEXT;
}
