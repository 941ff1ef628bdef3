/* loops_switch.c: calls that are under way when their function is found go over to loop code in the middle of a for loop. Until
 * it is found, such a call runs in the function's own code, which has no ways in; and a program that has all its work in one call
 * would never have another.
 *
 * finder.c offers the frames that it meets. The iterator of the outermost for loop in which a frame stands is replaced by one of
 * ours, which when it is asked for an item has the frame switch (cpy_switch.c) to the way in at the loop's header, and the old
 * iterator come back. A loop that wasn't arrived at when the frame is offered again leaves the turn to the next one inward. Loops
 * of while have no iterator, and begin when a for loop around them does. With the GIL. */
#include "evalframe/loops.h"

typedef struct Stand {
    PyObject_HEAD PyObject *it; /* strong: what the loop goes through */
    DynLoops *loops;            /* counted */
    uint32_t index;             /* of the loop */
} Stand;

static PyTypeObject Stand_Type;

static const DynInstr *for_iter(const DynLoops *l, uint32_t i) {
    const DynInstr *in = &l->decoded->v.at[l->decoded->at_unit[l->headers[i]]];
    return in->op == DYN_I_FOR_ITER ? in : NULL;
}

/* The slot of the iterator of this loop. */
static uint32_t slot_of(const DynLoops *l, uint32_t i) {
    return (uint32_t)dyn_code_nlocalsplus((PyCodeObject *)l->code) + l->made->ways[i].depth - 1;
}

static bool stands_at(const Stand *s, DynFrame *f) {
    const DynLoops *l = s->loops;
    return f != NULL && l->cache != NULL && (PyObject *)dyn_frame_code(f) == l->code &&
           dyn_frame_unit(f) == for_iter(l, s->index)->at && dyn_frame_get(f, slot_of(l, s->index)) == (const PyObject *)s;
}

/* Loops around this one, which haven't been arrived at since, will be in loop code: their own iterators are back on the stack. */
static void put_others_back(const Stand *s, DynFrame *f) {
    const DynLoops *l = s->loops;
    for (uint32_t i = 0; i < l->nloops; i++) {
        uint32_t slot = slot_of(l, i);
        PyObject *other = (l->made->ways[i].inner >> s->index & 1) != 0 ? dyn_frame_get(f, slot) : NULL;
        if (other != NULL && Py_IS_TYPE(other, &Stand_Type)) {
            dyn_frame_put(f, slot, Py_NewRef(((const Stand *)other)->it));
            Py_DECREF(other);
        }
    }
}

static bool goes_over(const Stand *s) {
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts);
    if (dyn_cpy_is_traced(ts) || !stands_at(s, f)) {
        return false;
    }
    DynLoops *l = s->loops;
    const DynLoopWay *way = &l->made->ways[s->index];
    DynFrameSwitch to = {(PyCodeObject *)l->made->code, s->it, for_iter(l, s->index)->next, way->at, way->depth};
    if (!dyn_frame_switch(ts, f, &to)) {
        return false;
    }
    put_others_back(s, f);
    l->cache->loops_on = true;
    dyn_loops_begin_frame(l);
    dyn_count("loops", "switched");
    return true;
}

static PyObject *stand_next(PyObject *self) {
    Stand *s = (Stand *)self;
    if (s->loops != NULL && goes_over(s)) {
        Py_RETURN_NONE;
    }
    return Py_TYPE(s->it)->tp_iternext(s->it);
}

static void stand_dealloc(PyObject *self) {
    Stand *s = (Stand *)self;
    dyn_loops_decref(s->loops);
    Py_DECREF(s->it);
    PyObject_Free(self);
}

static PyTypeObject Stand_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Stand",
    .tp_doc = "The iterator of a loop that is to go on in loop code.",
    .tp_basicsize = sizeof(Stand),
    .tp_dealloc = stand_dealloc,
    .tp_iter = PyObject_SelfIter,
    .tp_iternext = stand_next,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

static bool stand_in(DynLoops *l, uint32_t i, DynFrame *f) {
    PyObject *it = dyn_frame_get(f, slot_of(l, i));
    Stand *s = PyObject_New(Stand, &Stand_Type);
    if (s == NULL) {
        PyErr_Clear();
        return false;
    }
    s->it = it; /* the stack's count of it */
    s->loops = l;
    l->refs++;
    s->index = i;
    dyn_frame_put(f, slot_of(l, i), (PyObject *)s);
    return true;
}

/* The canonical instruction at which the frame is, which may say a cache of it. */
static uint32_t instr_of(const DynLoops *l, DynFrame *f) {
    uint32_t unit = dyn_frame_unit(f);
    while (unit > 0 && unit < l->decoded->nunits && l->decoded->at_unit[unit] == DYN_NONE) {
        unit--;
    }
    return unit < l->decoded->nunits ? l->decoded->at_unit[unit] : DYN_NONE;
}

typedef enum Offered { NOT_IN_IT, STANDS_IN_ALREADY, STANDS_IN_NOW } Offered;

static Offered offer_loop(DynLoops *l, uint32_t i, DynFrame *f, uint32_t instr) {
    const DynInstr *in = l->loops[i].function ? NULL : for_iter(l, i);
    DynLoopState state = l->loops[i].state;
    bool open = state != DYN_LOOP_REFUSED && state != DYN_LOOP_RETIRED;
    bool *members = in != NULL && open && dyn_frame_may_switch(f, in->next) ? dyn_loop_members(l->decoded, l->headers[i]) : NULL;
    bool within = members != NULL && instr != DYN_NONE && members[instr] && &l->decoded->v.at[instr] != in;
    PyMem_RawFree(members);
    PyObject *it = within ? dyn_frame_get(f, slot_of(l, i)) : NULL;
    if (it != NULL && Py_IS_TYPE(it, &Stand_Type)) {
        return STANDS_IN_ALREADY;
    }
    bool counts = it != NULL && dyn_loops_trips_left(it) > 0;
    return counts && stand_in(l, i, f) ? STANDS_IN_NOW : NOT_IN_IT;
}

static DynLoops *loops_to_go_over_to(DynCache *c) {
    DynCode *decoded = c->loops_known ? NULL : dyn_decode((PyCodeObject *)c->code);
    DynLoops *l = c->loops_known ? c->loops : decoded == NULL ? NULL : dyn_loops_of(c, decoded);
    PyErr_Clear();
    if (decoded != NULL) {
        dyn_decode_free(decoded);
    }
    return l != NULL && dyn_loops_complete(l) == 0 ? l : NULL;
}

void dyn_loops_offer(DynCache *c, DynFrame *f) {
    DynLoops *l = dyn_frame_is_generator(f) ? NULL : loops_to_go_over_to(c);
    uint32_t instr = l == NULL ? DYN_NONE : instr_of(l, f);
    for (uint32_t i = 0; l != NULL && i < l->nloops; i++) { /* headers ascend: what is around a loop comes before it */
        if (offer_loop(l, i, f, instr) == STANDS_IN_NOW) {
            break;
        }
    }
}

/* ---- for tests */

static PyObject *loops_offer(PyObject *module, PyObject *door) {
    if (!Py_IS_TYPE(door, &DynDoor_Type)) {
        return PyErr_Format(PyExc_TypeError, "an optimised function is wanted");
    }
    DynCache *c = dyn_door_cache(door);
    DynFrame *f = dyn_frame_complete(dyn_frame_current(PyThreadState_Get()));
    while (f != NULL && (PyObject *)dyn_frame_code(f) != c->code) {
        f = dyn_frame_caller(f);
    }
    if (f != NULL) {
        dyn_loops_offer(c, f);
    }
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"_loops_offer", loops_offer, METH_O,
                                 "_loops_offer(optimised): the innermost call of its function that runs in the function's own "
                                 "code goes over to loop code when a "
                                 "for loop that it is in is arrived at."},
                                {0}};

int dyn_loops_switch_init(PyObject *module) {
    return PyType_Ready(&Stand_Type) < 0 ? -1 : PyModule_AddFunctions(module, methods);
}
