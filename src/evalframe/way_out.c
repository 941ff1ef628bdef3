/* way_out.c: what waiting code asks at its trap (asm.h): is there native code by now, and is the frame in the state that
 * it was recorded in? Then the frame ends, and the call goes on in a resume function.
 *
 * Called by the waiting code of an entry, which holds the object; the object doesn't hold the entry. */
#include "evalframe/hook.h"

typedef struct WayOut {
    PyObject_HEAD vectorcallfunc vectorcall;
    DynEntry *entry; /* borrowed; NULL when it is gone */
    PyObject *code;  /* borrowed: the waiting code, which holds this */
    uint32_t nslots, nstack;
    bool at_once;
    bool *shape; /* slots that are bound, then stack values that are NULL */
} WayOut;

static bool is_native(const DynEntry *e) { return e->artifact != NULL && dyn_artifact_tier(e->artifact) != DYN_TIER_EAGER; }

/* Is the entry that was waited for ready to run natively (the loop comes round to it), or one behind the ways? */
static bool is_worth_it(const DynEntry *e) {
    dyn_build_poll();
    if (is_native(e)) {
        return true;
    }
    for (int w = 0; w < DYN_WAYS; w++) {
        const DynCache *c = e->resume[w] == NULL ? NULL : dyn_door_cache(e->resume[w]);
        for (uint32_t i = 0; c != NULL && i < c->entries.n; i++) {
            if (is_native(c->entries.at[i])) {
                return true;
            }
        }
    }
    return false;
}

static bool is_as_recorded(const WayOut *w, DynFrame *f) {
    for (uint32_t i = 0; i < w->nslots; i++) {
        if ((dyn_frame_get(f, i) != NULL) != w->shape[i]) {
            return false;
        }
    }
    for (uint32_t i = w->nslots; i < w->nslots + w->nstack; i++) {
        if (dyn_frame_is_empty(f, i) != w->shape[i] || dyn_frame_has_number(f, i)) {
            return false;
        }
    }
    return true;
}

static PyObject *way_out_call(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    const WayOut *w = (WayOut *)self;
    PyThreadState *ts = PyThreadState_Get();
    DynFrame *f = dyn_frame_current(ts);
    if (w->entry == NULL || f == NULL || (PyObject *)dyn_frame_code(f) != w->code) {
        Py_RETURN_FALSE;
    }
    DynLoopTick tick = w->at_once ? DYN_TICK_NOT : dyn_loop_tick(w->entry);
    bool out = w->at_once || (tick == DYN_TICK_NOT ? is_worth_it(w->entry) : tick == DYN_TICK_OUT);
    return PyBool_FromLong(out && !dyn_cpy_is_traced(ts) && dyn_frame_settle(f, (int)w->nstack) && is_as_recorded(w, f));
}

static void way_out_dealloc(PyObject *self) {
    PyMem_Free(((WayOut *)self)->shape);
    PyObject_Free(self);
}

static PyTypeObject WayOut_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.WayOut",
    .tp_doc = "What code asks that waits for native code.",
    .tp_basicsize = sizeof(WayOut),
    .tp_dealloc = way_out_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_vectorcall_offset = offsetof(WayOut, vectorcall),
    .tp_call = PyVectorcall_Call,
};

PyObject *dyn_way_out_new(DynEntry *e, uint32_t nslots, const DynFrameShape *before) {
    bool *shape = PyMem_Malloc((size_t)nslots + before->nstack + 1);
    WayOut *w = shape == NULL ? NULL : PyObject_New(WayOut, &WayOut_Type);
    if (w == NULL) {
        PyMem_Free(shape);
        return shape == NULL ? PyErr_NoMemory() : NULL;
    }
    memcpy(shape, before->bound, nslots * sizeof *shape);
    memcpy(shape + nslots, before->null_stack, before->nstack * sizeof *shape);
    w->vectorcall = way_out_call;
    w->entry = e;
    w->code = NULL;
    w->at_once = false;
    w->nslots = nslots;
    w->nstack = before->nstack;
    w->shape = shape;
    return (PyObject *)w;
}

void dyn_way_out_belongs_to(PyObject *way_out, PyObject *code) { ((WayOut *)way_out)->code = code; }

void dyn_way_out_at_once(PyObject *way_out) { ((WayOut *)way_out)->at_once = true; }

void dyn_way_out_detach(PyObject *way_out) { ((WayOut *)way_out)->entry = NULL; }

int dyn_way_out_init(void) { return PyType_Ready(&WayOut_Type); }
