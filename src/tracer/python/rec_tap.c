/* rec_tap.c: how an iterator in C, and a step of it that is made here, take the same things once. A tap gives what its source
 * gives and writes it down; a feeder gives what is written down, and behind that what the source gives. The same of functions. So
 * what is taken, or called, for the step is there when the real iterator asks for it, which then stands where it should whoever
 * looks at it: an end and an exception too.
 *
 * Called by rec_lazy.c, rec_itertools.c and rec_polyfill.c. All four are objects of their own, which live on in the real
 * iterator: without anything written down a feeder is its source. */
#include "base/cpy_region.h"
#include "tracer/python/rec_lazy_tools.h"
#include "tracer/record/rec_callables.h"

typedef enum TapKind { TAP, FEEDER, TAP_CALL, FEED_CALL } TapKind;
typedef struct Tap {
    PyObject_HEAD PyObject *source, *log; /* log: a list, shared by a tap and its feeder */
    TapKind kind;
    char role;       /* of a tap: what it makes of what it gives, see rec_lazy_tools.h */
    DynOperand func; /* of a function's tap: it, in recording `serial` */
    uint64_t serial;
} Tap;

typedef struct Mark { /* in a log: the end (value NULL), or an exception */
    PyObject_HEAD PyObject *value, *tb;
} Mark;

/* ---- logs */

static void mark_free(PyObject *self) {
    Py_XDECREF(((Mark *)self)->value);
    Py_XDECREF(((Mark *)self)->tb);
    PyObject_Free(self);
}

static PyTypeObject mark_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc.mark",
    .tp_basicsize = sizeof(Mark),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = mark_free,
};

/* The end where no exception is set; it stays set. */
static int log_mark(PyObject *log) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    Mark *m = PyObject_New(Mark, &mark_type);
    int status = -1;
    if (m != NULL) {
        m->value = Py_XNewRef(value);
        m->tb = Py_XNewRef(tb);
        status = PyList_Append(log, (PyObject *)m);
        Py_DECREF(m);
    }
    PyErr_Clear();
    PyErr_Restore(type, value, tb);
    return status;
}

static int log_result(PyObject *log, PyObject *o) { return o != NULL ? PyList_Append(log, o) : log_mark(log); }

/* What comes first in it: a new reference, or NULL as it is written. */
static PyObject *log_take(PyObject *log) {
    PyObject *o = Py_NewRef(PyList_GET_ITEM(log, 0));
    if (PyList_SetSlice(log, 0, 1, NULL) < 0) {
        Py_CLEAR(o);
    } else if (Py_IS_TYPE(o, &mark_type)) {
        Mark *m = (Mark *)o;
        if (m->value != NULL) {
            PyException_SetTraceback(m->value, m->tb != NULL ? m->tb : Py_None);
            PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(m->value)), Py_NewRef(m->value), Py_XNewRef(m->tb));
        }
        Py_CLEAR(o);
    }
    return o;
}

/* ---- the objects */

static void tap_free(PyObject *self) {
    PyObject_GC_UnTrack(self);
    Py_XDECREF(((Tap *)self)->source);
    Py_XDECREF(((Tap *)self)->log);
    PyObject_GC_Del(self);
}

static int tap_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(((Tap *)self)->source);
    Py_VISIT(((Tap *)self)->log);
    return 0;
}

static PyObject *source_next(PyObject *source) {
    PyObject *o = Py_TYPE(source)->tp_iternext(source);
    if (o == NULL && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_StopIteration)) {
        PyErr_Clear();
    }
    return o;
}

/* What a tap gives of `o` (stolen) for real: its truth, or an iterator over it with a tap of its own. */
static PyObject *in_role(char role, PyObject *o, PyObject **fed) {
    *fed = NULL;
    if (o != NULL && (role == REC_TRUTHS || role == REC_PREDICATE)) {
        int truth = PyObject_IsTrue(o);
        Py_SETREF(o, truth < 0 ? NULL : PyBool_FromLong(truth));
    } else if (o != NULL && role == REC_NESTED) {
        PyObject *it = PyObject_GetIter(o), *tap = it ? rec_new_tap(it, REC_ITERABLE, fed) : NULL;
        Py_XDECREF(it);
        Py_SETREF(o, tap);
    }
    if (*fed == NULL) {
        *fed = Py_XNewRef(o);
    }
    return o;
}

/* What the source gives when it is asked for an item (args: NULL) or called, and written down. The polyfill's frame isn't seen.
 */
static PyObject *take_for_real(Tap *t, PyObject *args, PyObject *kw) {
    PyObject *fed;
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *hidden = dyn_frame_hide(ts);
    PyObject *o = in_role(t->role, args == NULL ? source_next(t->source) : PyObject_Call(t->source, args, kw), &fed);
    dyn_frame_show(ts, hidden);
    int status = log_result(t->log, fed);
    Py_XDECREF(fed);
    if (status < 0) {
        Py_CLEAR(o);
    }
    return o;
}

static PyObject *tap_next(PyObject *self) {
    Tap *t = (Tap *)self;
    if (t->kind == FEEDER) {
        return PyList_GET_SIZE(t->log) > 0 ? log_take(t->log) : Py_TYPE(t->source)->tp_iternext(t->source);
    }
    return take_for_real(t, NULL, NULL);
}

static PyObject *tap_call(PyObject *self, PyObject *args, PyObject *kw) {
    Tap *t = (Tap *)self;
    if (t->kind == FEED_CALL) {
        return PyList_GET_SIZE(t->log) > 0 ? log_take(t->log) : PyObject_Call(t->source, args, kw);
    }
    return take_for_real(t, args, kw);
}

/* Copies and pickles are those of the source: of a function, the function. */
static PyObject *tap_reduce(PyObject *self, PyObject *protocol) {
    Tap *t = (Tap *)self;
    if (t->kind == TAP || t->kind == FEEDER) {
        return PyObject_CallMethod(t->source, "__reduce_ex__", "O", protocol);
    }
    PyObject *operator= dyn_import("operator");
    PyObject *first = operator!= NULL ? PyObject_CallMethod(operator, "itemgetter", "i", 0) : NULL;
    Py_XDECREF(operator);
    return first != NULL ? Py_BuildValue("(N((O)))", first, t->source) : NULL;
}

static PyMethodDef tap_methods[] = {{"__reduce_ex__", tap_reduce, METH_O, NULL}, {0}};
static PyTypeObject tap_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc.feeder",
    .tp_basicsize = sizeof(Tap),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = tap_free,
    .tp_traverse = tap_traverse,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = tap_next,
    .tp_methods = tap_methods,
};
static PyTypeObject tap_call_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc.function",
    .tp_basicsize = sizeof(Tap),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_dealloc = tap_free,
    .tp_traverse = tap_traverse,
    .tp_call = tap_call,
    .tp_methods = tap_methods,
};

static PyObject *new_object(PyTypeObject *type, TapKind kind, PyObject *source, PyObject *log) {
    Tap *t = log != NULL ? PyObject_GC_New(Tap, type) : NULL;
    if (t == NULL) {
        return NULL;
    }
    t->source = Py_NewRef(source);
    t->log = Py_NewRef(log);
    t->kind = kind;
    t->role = REC_ITERABLE;
    t->func = (DynOperand){0};
    t->serial = 0;
    PyObject_GC_Track(t);
    return (PyObject *)t;
}

PyObject *rec_new_feeder(PyObject *source) {
    PyObject *log = PyList_New(0), *feeder = new_object(&tap_type, FEEDER, source, log);
    Py_XDECREF(log);
    return feeder;
}

static PyObject *new_pair(PyTypeObject *type, TapKind tap, TapKind feeder, PyObject *source, char role, PyObject **feeding) {
    PyObject *log = PyList_New(0), *t = new_object(type, tap, source, log);
    *feeding = t != NULL ? new_object(type, feeder, source, log) : NULL;
    Py_XDECREF(log);
    if (*feeding == NULL) {
        Py_CLEAR(t);
    } else {
        ((Tap *)t)->role = role;
    }
    return t;
}

PyObject *rec_new_tap(PyObject *source, char role, PyObject **feeder) {
    return new_pair(&tap_type, TAP, FEEDER, source, role, feeder);
}

PyObject *rec_new_function_tap(DynRec *r, DynOperand func, char role, PyObject **feeder) {
    PyObject *t = new_pair(&tap_call_type, TAP_CALL, FEED_CALL, func.real, role, feeder);
    if (t != NULL) {
        ((Tap *)t)->func = func;
        ((Tap *)t)->serial = r->serial;
    }
    return t;
}

/* The places of the iterators in an enumerate or zip object. */
static uint32_t iterators_in(PyObject *it, PyObject **at, uint32_t most) {
    int64_t index;
    PyObject *one = dyn_cpy_enumerate(it, &index), *all = dyn_cpy_zip(it);
    uint32_t n = 0;
    if (one != NULL) {
        at[n++] = one;
    }
    for (Py_ssize_t k = 0; all != NULL && k < PyTuple_GET_SIZE(all) && n < most; k++) {
        at[n++] = PyTuple_GET_ITEM(all, k);
    }
    return n;
}

static void put_iterator(PyObject *it, uint32_t k, PyObject *o) {
    int64_t index;
    if (dyn_cpy_enumerate(it, &index) != NULL) {
        dyn_cpy_enumerate_over(it, Py_NewRef(o));
    } else {
        PyObject *all = dyn_cpy_zip(it), *old = PyTuple_GET_ITEM(all, k);
        PyTuple_SET_ITEM(all, k, Py_NewRef(o));
        Py_DECREF(old);
    }
}

uint32_t rec_unfeed(PyObject *it, PyObject **feeders, uint32_t most) {
    uint32_t n = iterators_in(it, feeders, most);
    for (uint32_t k = 0; k < n; k++) {
        Tap *t = (Tap *)Py_NewRef(feeders[k]);
        bool unfed = Py_IS_TYPE(feeders[k], &tap_type) && t->kind == FEEDER && t->source != NULL && PyList_GET_SIZE(t->log) == 0;
        if (unfed) {
            put_iterator(it, k, t->source);
        }
    }
    return n;
}

void rec_feed_again(PyObject *it, PyObject **feeders, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        put_iterator(it, k, feeders[k]);
    }
}

int rec_feed(PyObject *feeder, PyObject *item) { return log_result(((Tap *)feeder)->log, item); }

static PyObject *fed(PyObject *self, PyObject *args) {
    PyObject *values = PyTuple_GET_SIZE(args) > 0 ? PySequence_List(args) : NULL, *f = NULL;
    (void)self;
    if (values != NULL && PyList_SetSlice(values, 0, 1, NULL) == 0) {
        f = new_object(&tap_call_type, FEED_CALL, PyTuple_GET_ITEM(args, 0), values);
    }
    Py_XDECREF(values);
    return f;
}

PyObject *rec_fed_function(void) {
    static PyMethodDef method = {"fed", fed, METH_VARARGS, NULL};
    static PyObject *function;
    if (function == NULL) {
        function = PyCFunction_New(&method, NULL);
        PyErr_Clear();
    }
    return function;
}

/* ---- recorded */

/* The truth of what was taken or called, in its place. */
static void become_truth(DynRec *r, DynOperand *o) {
    PyObject *truth = NULL;
    DynVal *v = o->v != NULL && r->cap != NULL && !r->take_lost ? rec_truth_value(r, false, *o, &truth) : NULL;
    if (v == NULL && truth == NULL && !PyErr_Occurred()) {
        int real = PyObject_IsTrue(o->real);
        truth = real < 0 ? NULL : PyBool_FromLong(real);
    }
    if (v == NULL) {
        rec_take_failed(r, r->why, r->detail);
    }
    Py_SETREF(o->real, truth);
    o->v = v;
}

DynVal *rec_tapped(DynRec *r, DynOperand it, PyObject *real) {
    RecLazy *z = DYN_NEW(&r->arena, RecLazy);
    if (z == NULL || (z->from = DYN_NEW(&r->arena, DynOperand)) == NULL) {
        return NULL;
    }
    z->from[0] = it;
    z->n = 1;
    return rec_lazy_made(r, z, (PyObject *)&tap_type, rec_step_tap, real);
}

/* An iterator over what was taken, with a tap of its own, in its place; the feeder of that. */
static PyObject *become_tap(DynRec *r, DynOperand *o) {
    PyObject *feeder = NULL, *tap;
    DynOperand it = o->v != NULL && !r->take_lost ? rec_get_iter(r, *o) : (DynOperand){0};
    PyObject *real = it.v != NULL ? Py_NewRef(it.real) : PyObject_GetIter(o->real);
    tap = real != NULL ? rec_new_tap(real, REC_ITERABLE, &feeder) : NULL;
    Py_XDECREF(real);
    o->v = tap != NULL && it.v != NULL ? rec_tapped(r, it, tap) : NULL;
    if (o->v == NULL) {
        rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "iterator of this kind");
    }
    Py_SETREF(o->real, tap);
    return feeder;
}

DynVal *rec_step_tap(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    Tap *t = (Tap *)z->object;
    PyObject *fed = NULL;
    DynFrame *hidden = dyn_frame_hide(r->ts);
    DynOperand o = rec_lazy_take(r, z, 0);
    Py_XINCREF(o.real);
    if (o.real != NULL && t->role == REC_TRUTHS) {
        become_truth(r, &o);
    } else if (o.real != NULL && t->role == REC_NESTED) {
        fed = become_tap(r, &o);
    }
    dyn_frame_show(r->ts, hidden);
    int status = log_result(t->log, fed != NULL ? fed : o.real);
    Py_XDECREF(fed);
    if (status < 0) {
        Py_CLEAR(o.real);
    }
    *item = o.real;
    return o.real != NULL ? o.v : NULL;
}

DynVal *rec_call_tapped(DynRec *r, const RecCall *c, PyObject **result) {
    Tap *t = (Tap *)c->callable.real;
    if (!Py_IS_TYPE(c->callable.real, &tap_call_type) || t->kind != TAP_CALL) {
        return REC_DECLINED;
    }
    if (t->serial != r->serial || c->nkw != 0) {
        return REC_DECLINED;
    }
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, c->npos + 1), o = {0};
    if (args == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(args, c->args, c->npos * sizeof *args);
    DynFrame *hidden = dyn_frame_hide(r->ts);
    o.v = rec_call_within(r, t->func, args, c->npos, &o.real);
    if (o.real != NULL && t->role == REC_PREDICATE) {
        become_truth(r, &o);
    }
    dyn_frame_show(r->ts, hidden);
    if (log_result(t->log, o.real) < 0) {
        Py_CLEAR(o.real);
    }
    *result = o.real;
    return o.v;
}

DynVal *rec_behind_tap(DynRec *r, DynVal *v) {
    if (v->kind == DV_LAZY && v->iter.lazy->step == rec_step_tap) {
        return v->iter.lazy->from[0].v;
    }
    bool function = v->kind == DV_CONST && Py_IS_TYPE(rec_constant_of(v), &tap_call_type);
    return function && ((Tap *)rec_constant_of(v))->serial == r->serial ? ((Tap *)rec_constant_of(v))->func.v : v;
}

int rec_tap_init(void) {
    return PyType_Ready(&mark_type) < 0 || PyType_Ready(&tap_type) < 0 || PyType_Ready(&tap_call_type) < 0 ? -1 : 0;
}
