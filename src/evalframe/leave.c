/* leave.c: frames rebuilt in the middle of a function, where CPython then goes on.
 *
 * A function is called with empty arguments, the hook hands its fresh frame over, its slots and stack are filled with the rebuilt
 * values, and default evaluation goes on at the instruction that a DynFrameState names. A state of several frames (an inlined
 * call was left) fills the outermost one, which stands at its call: making the call is what brings the next frame to the hook.
 *
 * Called with what hit.c found (END_LEAVE, a snapshot). A DynLeave owns every value until it is put into a frame. */
#include "evalframe/hook.h"
#include "evalframe/rebuild.h"

typedef struct Level {
    PyObject *code;                 /* strong: the code of the frame to fill */
    uint32_t at;                    /* in that code */
    uint32_t nslots, nskip, nstack; /* slots that have a value; slots behind them that stay empty; stack values */
    PyObject **values;              /* nslots + nstack, new references, NULL where empty; in DynLeave.values */
    bool *keep;                     /* nslots: a free variable that the function's own closure gives */
} Level;
struct DynLeave {
    uint32_t nlevels, level; /* level: the next to be filled */
    Level *levels;
    PyObject **values;
    bool *keep;
    uint32_t nvalues;
    PyObject *error; /* strong: raised in the innermost frame; NULL: that goes on as it stands */
    PyObject *given; /* strong: what the innermost frame's call gave, so that it goes on behind it; NULL: it hasn't been made */
};
/* A frame that is about to come. Only the call of it stands between setting this and the hook. */
static _Thread_local DynLeave *waiting;

void dyn_leave_free(DynLeave *l) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    for (uint32_t i = 0; i < l->nvalues; i++) {
        Py_XDECREF(l->values[i]);
    }
    for (uint32_t i = 0; l->levels != NULL && i < l->nlevels; i++) {
        Py_XDECREF(l->levels[i].code);
    }
    Py_XDECREF(l->error);
    Py_XDECREF(l->given);
    PyMem_Free(l->levels);
    PyMem_Free(l->values);
    PyMem_Free(l->keep);
    PyMem_Free(l);
    PyErr_Restore(type, value, tb);
}

/* The recorded code's state as one of the entry's own code: a resume code has a prologue and further slots. */
static void place_level(Level *v, const DynEntry *e, const DynFrameState *s, bool outermost) {
    bool moved = outermost && e->capture->code != s->code;
    PyObject *code = moved ? e->capture->code : s->code;
    v->code = Py_NewRef(code);
    v->at = moved ? (uint32_t)((int64_t)s->at + e->shift) : s->at;
    v->nslots = s->nslots;
    v->nskip = (uint32_t)dyn_code_nlocalsplus((PyCodeObject *)code) - s->nslots;
    v->nstack = s->nstack;
}

DynLeave *dyn_leave_new(const DynEntry *e, const DynEnv *env, PyObject *const *outputs, DynEffects fx,
                        const DynFrameState *frames, uint32_t nframes) {
    const DynCapture *c = e->capture;
    DynLeave *l = PyMem_Calloc(1, sizeof *l);
    uint32_t n = 0, *recipes = NULL;
    for (uint32_t i = 0; i < nframes; i++) {
        n += frames[i].nslots + frames[i].nstack;
    }
    if (l == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    l->levels = PyMem_Calloc(nframes, sizeof *l->levels);
    l->values = PyMem_Calloc(n + 1, sizeof *l->values);
    l->keep = PyMem_Calloc(n + 1, sizeof *l->keep);
    recipes = PyMem_Malloc((n + 1) * sizeof *recipes);
    bool allocated = l->levels != NULL && l->values != NULL && l->keep != NULL;
    if (!allocated || recipes == NULL) {
        PyErr_NoMemory();
        goto failed;
    }
    l->nlevels = nframes;
    for (uint32_t i = 0, k = 0; i < nframes; i++) {
        const DynFrameState *s = &frames[i];
        Level *v = &l->levels[i];
        uint32_t nfree = (uint32_t)dyn_code_nfree((PyCodeObject *)s->code);
        place_level(v, e, s, i == 0);
        v->values = l->values + k;
        v->keep = l->keep + k;
        memcpy(recipes + k, s->recipes, (s->nslots + s->nstack) * sizeof *recipes);
        for (uint32_t f = s->nslots - nfree; f < s->nslots; f++) {
            v->keep[f] = c->recipes.at[s->recipes[f]].kind == DYN_RC_NULL && s->at > 0;
        }
        k += s->nslots + s->nstack;
    }
    if (dyn_rebuild(c, env, outputs, fx, recipes, n, l->values) < 0) {
        goto failed;
    }
    l->nvalues = n;
    PyMem_Free(recipes);
    return l;
failed:
    PyMem_Free(recipes);
    dyn_leave_free(l);
    return NULL;
}

/* A resume code's last slot may be there for super(): its prologue, which doesn't run here, fills it with the cell of the slot
 * that has the same name. */
static void fill_class_cell(PyCodeObject *code, DynFrame *f, uint32_t nslots, uint32_t nskip) {
    uint32_t last = nslots + nskip - 1;
    if (nskip == 0 || PyUnicode_CompareWithASCIIString(dyn_code_local_name(code, (int)last), "__class__") != 0) {
        return;
    }
    for (uint32_t i = 0; i < nslots; i++) {
        PyObject *cell = dyn_frame_get(f, i);
        if (cell != NULL && PyCell_Check(cell) &&
            PyUnicode_CompareWithASCIIString(dyn_code_local_name(code, (int)i), "__class__") == 0) {
            Py_XDECREF(dyn_frame_take(f, last));
            dyn_frame_put(f, last, Py_NewRef(cell));
        }
    }
}

/* Values move from the level into the frame; what was in the slots comes back in the values, to be dropped with l. */
static void fill(Level *v, DynFrame *f) {
    PyObject *closure = PyFunction_GET_CLOSURE(dyn_frame_func(f));
    uint32_t nfree = (uint32_t)dyn_code_nfree((PyCodeObject *)v->code);
    for (uint32_t i = 0; i < v->nslots; i++) {
        PyObject *old = dyn_frame_take(f, i), *now = v->values[i];
        uint32_t cell = i + nfree - v->nslots;
        if (v->keep[i] && closure != NULL && cell < (uint32_t)PyTuple_GET_SIZE(closure)) {
            now = Py_NewRef(PyTuple_GET_ITEM(closure, cell));
        }
        dyn_frame_put(f, i, now);
        v->values[i] = old;
    }
    for (uint32_t i = 0; i < v->nskip; i++) {
        Py_XDECREF(dyn_frame_take(f, v->nslots + i)); /* arguments of a resume function: None here */
    }
    fill_class_cell((PyCodeObject *)v->code, f, v->nslots, v->nskip);
    for (uint32_t i = 0; i < v->nstack; i++) {
        dyn_frame_put(f, v->nslots + v->nskip + i, v->values[v->nslots + i]);
        v->values[v->nslots + i] = NULL;
    }
}

void dyn_leave_raise(DynLeave *l, PyObject *error) { l->error = error; }
void dyn_leave_give(DynLeave *l, PyObject *given) { l->given = given; }

/* The code unit that tracebacks name for the instruction which begins at `start`: what stands before it may belong to it. */
static uint32_t traceback_unit(DynFrame *f, uint32_t start) {
    DynCode *c = dyn_decode(dyn_frame_code(f));
    uint32_t i = c == NULL || start >= c->nunits ? DYN_NONE : c->at_unit[start];
    uint32_t at = i == DYN_NONE ? start : c->v.at[i].at;
    if (c != NULL) {
        dyn_decode_free(c);
    }
    PyErr_Clear();
    return at;
}

static PyObject *raise_in(PyThreadState *ts, DynFrame *f, uint32_t at, int depth, PyObject *error) {
    uint32_t unit = traceback_unit(f, at);
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, PyException_GetTraceback(error));
    return dyn_frame_throw(ts, f, unit, depth);
}

/* The frame, `depth` values high, stands at an instruction that has given `given`: its operands make place for that, and the
 * frame goes on behind it. */
static PyObject *go_on_behind(PyThreadState *ts, DynFrame *f, const Level *v, PyObject *given) {
    DynCode *c = dyn_decode(dyn_frame_code(f));
    uint32_t i = c == NULL || v->at >= c->nunits ? DYN_NONE : c->at_unit[v->at];
    uint32_t bottom = v->nslots + v->nskip, depth = v->nstack;
    if (i == DYN_NONE) { /* memory is out: the frame is as it was before the call */
        Py_DECREF(given);
        PyErr_NoMemory();
        return dyn_frame_throw(ts, f, v->at, (int)depth);
    }
    uint32_t next = c->v.at[i].next, npop = (uint32_t)dyn_stack_effect(&c->v.at[i]).pops;
    dyn_decode_free(c);
    for (uint32_t k = 0; k < npop; k++) {
        Py_XDECREF(dyn_frame_take(f, bottom + --depth));
    }
    dyn_frame_put(f, bottom + depth, given);
    return dyn_frame_go_on(ts, f, next, (int)depth + 1);
}

PyObject *dyn_leave_fill(DynLeave *l, PyThreadState *ts, DynFrame *f) {
    Level *v = &l->levels[l->level++];
    uint32_t at = v->at, depth = v->nstack;
    fill(v, f);
    if (l->level == l->nlevels) {
        PyObject *error = Py_XNewRef(l->error), *given = Py_XNewRef(l->given);
        Level level = *v;
        dyn_leave_free(l);
        if (given != NULL) {
            return go_on_behind(ts, f, &level, given);
        }
        return error != NULL ? raise_in(ts, f, at, (int)depth, error) : dyn_frame_go_on(ts, f, at, (int)depth);
    }
    dyn_hook_need();
    waiting = l;
    PyObject *result = dyn_frame_go_on(ts, f, at, (int)depth);
    if (waiting == l) { /* the call never made a frame */
        waiting = NULL;
        dyn_leave_free(l);
    }
    dyn_hook_release();
    return result;
}

bool dyn_leave_wants(DynFrame *f) {
    return waiting != NULL && (PyObject *)dyn_frame_code(f) == waiting->levels[waiting->level].code;
}

bool dyn_leave_expects(PyObject *func) {
    return waiting != NULL && PyFunction_GET_CODE(func) == waiting->levels[waiting->level].code;
}

PyObject *dyn_leave_filled(PyThreadState *ts, DynFrame *f) {
    DynLeave *l = waiting;
    waiting = NULL;
    return dyn_leave_fill(l, ts, f);
}

/* Arguments that bind to any function: one that a generator expression can go over, for each parameter but those for many. */
PyObject *dyn_call_with_nothing(PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    Py_ssize_t npos = code->co_argcount, nkw = code->co_kwonlyargcount;
    PyObject **args = PyMem_New(PyObject *, (size_t)(npos + nkw) + 1), *names = PyTuple_New(nkw), *result = NULL;
    PyObject *nothing = PyTuple_New(0);
    if (args == NULL) {
        PyErr_NoMemory();
    } else if (names != NULL && nothing != NULL) {
        for (Py_ssize_t i = 0; i < npos + nkw; i++) {
            args[i] = nothing;
        }
        for (Py_ssize_t i = 0; i < nkw; i++) {
            PyTuple_SET_ITEM(names, i, Py_NewRef(dyn_code_local_name(code, (int)(npos + i))));
        }
        result = dyn_func_call(func, args, (size_t)npos, nkw > 0 ? names : NULL);
    }
    Py_XDECREF(names);
    Py_XDECREF(nothing);
    PyMem_Free(args);
    return result;
}

PyObject *dyn_leave_call(DynLeave *l, PyObject *func) {
    if (PyFunction_GET_CODE(func) != l->levels[0].code) {
        PyErr_SetString(PyExc_SystemError, "a function's code changed while its frame was being rebuilt");
        dyn_leave_free(l);
        return NULL;
    }
    dyn_hook_need();
    waiting = l;
    PyObject *result = dyn_call_with_nothing(func);
    if (waiting == l) { /* no frame was made: RecursionError, memory */
        waiting = NULL;
        dyn_leave_free(l);
    }
    dyn_hook_release();
    return result;
}
