/* spare.c: objects that the way out of a region takes where memory is out. Called by run.c before a region is entered, and by
 * leave.c.
 *
 * How many there are of each shape is counted over the region's exits once. A region owns its spares, a run has them while it
 * lasts: making objects may run the collector, and that code which enters the region again. What was taken is made anew before
 * the next run. */
#include "base/cpy_region.h"
#include "codegen/region/region_code.h"

typedef struct Spare {
    uint8_t kind, dtype; /* Its shape, with: */
    uint32_t n;          /* so many, or which. */
    uint32_t now, most;  /* While exits are counted: how many this one needs, and the one that needs most. */
    PyObject *o;         /* Owned; NULL: it was taken, or isn't made yet. */
} Spare;
struct DynRegionSpares {
    DYN_VEC(Spare) v;
    bool full, failed;
    bool arrays; /* NumPy was there when they were made. */
};
long dyn_region_starve = -1;

bool dyn_region_is_starved(void) {
    if (dyn_region_starve > 0) {
        dyn_region_starve--;
        return false;
    }
    return dyn_region_starve == 0;
}

/* ---- how many of what */

static void need(DynRegionSpares *s, uint8_t kind, uint8_t dtype, uint32_t n, uint32_t count) {
    Spare *found = NULL;
    for (uint32_t i = 0; i < s->v.n && found == NULL; i++) {
        Spare *at = &s->v.at[i];
        found = at->kind == kind && at->dtype == dtype && at->n == n ? at : NULL;
    }
    if (found == NULL) {
        Spare fresh = {.kind = kind, .dtype = dtype, .n = n};
        s->failed = dyn_vec_push(&s->v, fresh) < 0 || s->failed;
        found = s->failed ? NULL : &s->v.at[s->v.n - 1];
    }
    if (found != NULL) {
        found->now += count;
        found->most = found->now > found->most ? found->now : found->most;
    }
}

/* A number that is told apart at run time: any that lies in registers of this type. */
static void need_any_number(DynRegionSpares *s, char type) {
    static const DynDtype integers[] = {DYN_I8, DYN_I16, DYN_I32, DYN_I64, DYN_U8, DYN_U16, DYN_U32, DYN_U64};
    if (type == 'I') {
        need(s, DYN_RK_INT, 0, 0, 1);
        for (size_t i = 0; i < DYN_COUNTOF(integers); i++) {
            need(s, DYN_RK_NP, (uint8_t)integers[i], 0, 1);
        }
    } else if (type == 'D') {
        need(s, DYN_RK_FLOAT, 0, 0, 1);
        need(s, DYN_RK_NP, DYN_F64, 0, 1);
    } else {
        need(s, DYN_RK_NP, DYN_F32, 0, 1);
    }
}

static void need_for(DynRegionSpares *s, const DynRegion *r, const DynRegionValue *v) {
    bool number = v->kind == DYN_RK_BOOL || v->kind == DYN_RK_INT || v->kind == DYN_RK_FLOAT || v->kind == DYN_RK_NP;
    if (v->flags & DYN_RF_MAYBE && number) {
        need_any_number(s, r->regs.at[v->regs[0]]);
        return;
    }
    bool fresh = v->ref == DYN_NONE;
    uint8_t over = v->kind == DYN_RK_LISTITER ? dyn_region_over(&v[1]) : 0;
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_INT:
    case DYN_RK_FLOAT: need(s, v->kind, 0, 0, 1); break;
    case DYN_RK_COMPLEX:
    case DYN_RK_NP: need(s, v->kind, v->dtype, 0, 1); break;
    case DYN_RK_VIEW: need(s, DYN_RK_VIEW, v->dtype, v->n, 1); break;
    case DYN_RK_PARTS:
    case DYN_RK_RECORD: need(s, v->kind, 0, v->ref, 1); break;
    case DYN_RK_RANGE:
        need(s, DYN_RK_RANGE, 0, 0, 1);
        need(s, DYN_RK_INT, 0, 0, 4);
        break;
    case DYN_RK_TUPLE:
    case DYN_RK_ZIP: need(s, v->kind, 0, v->n, v->kind == DYN_RK_TUPLE || fresh); break;
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER:
    case DYN_RK_ITER:
    case DYN_RK_ENUM: need(s, v->kind, 0, 0, fresh); break;
    case DYN_RK_LISTITER: need(s, v->kind, 0, over, fresh); break;
    case DYN_RK_SEQ:
        need(s, DYN_RK_SEQ, 0, 0, fresh);
        need(s, DYN_RK_VIEW, v->dtype, v->n, fresh);
        break;
    case DYN_RK_PAUSED: need(s, v->kind, 0, v->shape, fresh); break;
    case DYN_RK_NULL:
    case DYN_RK_ENTRY:
    case DYN_RK_CONST:
    case DYN_RK_BOOL:
    case DYN_RK_ARRAY:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_LIST:
    case DYN_RK_TEXT:
    case DYN_RK_CHAR:
    case DYN_RK_UFUNC:
    case DYN_RK_CELL:
    case DYN_RK_FUNC:
    case DYN_RK_GEN:
    case DYN_RK_INST:
    case DYN_RK_CLASS:
    case DYN_RK_FOREIGN:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_METHOD:
    case DYN_RK_RNG:
    case DYN_RK_MADE:
    case DYN_RK_SLICE:
    case DYN_RK_SLICED:
    case DYN_RK_LITERAL:
    case DYN_RK_EXPR:
    case DYN_RK_DICTVIEW:
    case DYN_RK_ADDRESS:
    case DYN_RK_COUNT: break;
    }
}

static DynRegionSpares *count(const DynRegion *r) {
    DynRegionSpares *s = PyMem_RawCalloc(1, sizeof *s);
    for (uint32_t i = 0; s != NULL && i < r->exits.n; i++) {
        const DynRegionValues *values = &r->exits.at[i].values;
        for (uint32_t k = 0; k < s->v.n; k++) {
            s->v.at[k].now = 0;
        }
        for (uint32_t k = 0; k < values->n; k++) {
            need_for(s, r, &values->at[k]);
        }
    }
    for (uint32_t i = 0, shapes = s == NULL ? 0 : s->v.n; i < shapes; i++) {
        const Spare one = s->v.at[i];
        for (uint32_t k = 1; k < one.most; k++) {
            s->failed = dyn_vec_push(&s->v, one) < 0 || s->failed;
        }
    }
    if (s != NULL && s->failed) {
        dyn_region_free_spares(s);
        s = NULL;
    }
    return s;
}

/* ---- objects */

static PyObject *enumerate_of_nothing(void) {
    PyObject *nothing = PyTuple_New(0), *o = nothing == NULL ? NULL : PyObject_CallOneArg((PyObject *)&PyEnum_Type, nothing);
    Py_XDECREF(nothing);
    return o;
}

static PyObject *tuple_of(uint32_t n, PyObject *item) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t k = 0; tuple != NULL && k < n; k++) {
        PyTuple_SET_ITEM(tuple, k, Py_NewRef(item));
    }
    return tuple;
}

static PyObject *zip_of_nothing(uint32_t n) {
    PyObject *nothing = PyTuple_New(0), *all = nothing == NULL ? NULL : tuple_of(n, nothing);
    PyObject *o = all == NULL ? NULL : PyObject_CallObject((PyObject *)&PyZip_Type, all);
    Py_XDECREF(all);
    Py_XDECREF(nothing);
    return o;
}

static PyObject *iterator_of_nothing(void) {
    PyObject *nothing = PyTuple_New(0), *o = nothing == NULL ? NULL : PySeqIter_New(nothing);
    Py_XDECREF(nothing);
    return o;
}

static PyObject *np_complex(void) {
    const double parts[2] = {0.5, 0.5};
    PyArray_Descr *d = PyArray_DescrFromType(NPY_COMPLEX128);
    PyObject *o = PyArray_Scalar((void *)(uintptr_t)parts, d, NULL);
    Py_DECREF(d);
    return o;
}

/* The function is called with anything: its generator hasn't begun. */
static PyObject *generator_of(PyObject *function) {
    PyObject *nothing = tuple_of((uint32_t)((PyCodeObject *)PyFunction_GET_CODE(function))->co_argcount, Py_None);
    PyObject *o = nothing == NULL ? NULL : PyObject_CallObject(function, nothing);
    Py_XDECREF(nothing);
    uint32_t at;
    if (o != NULL && (!dyn_generator_is_paused(o, &at) || at != 0)) {
        Py_CLEAR(o);
        PyErr_NoMemory();
    }
    return o;
}

/* All attributes are there, so that setting them takes no memory. Until it is taken nobody finds it. */
static PyObject *blank_instance(PyObject *layout) {
    PyTypeObject *t = (PyTypeObject *)PyTuple_GET_ITEM(layout, 0);
    PyObject *o = dyn_cpy_new_instance(t);
    for (Py_ssize_t i = 1; o != NULL && i < PyTuple_GET_SIZE(layout); i++) {
        if (PyObject_GenericSetAttr(o, PyTuple_GET_ITEM(layout, i), Py_None) < 0) {
            Py_CLEAR(o);
        }
    }
    if (o != NULL && PyObject_GC_IsTracked(o)) {
        PyObject_GC_UnTrack(o);
    }
    return o;
}

/* A new object of the shape, with any contents; NULL with an exception. */
static PyObject *make(const DynRegion *r, DynRegionKind kind, uint8_t dtype, uint32_t n) {
    switch (kind) {
    case DYN_RK_INT: return PyLong_FromLongLong(INT64_MIN); /* room for all digits */
    case DYN_RK_FLOAT: return PyFloat_FromDouble(0.5);
    case DYN_RK_COMPLEX: return dtype == DYN_C128 ? np_complex() : PyComplex_FromDoubles(0.5, 0.5);
    case DYN_RK_NP: return dyn_npscalar_new((DynDtype)dtype, (DynScalar){.i = 0});
    case DYN_RK_VIEW: return dyn_array_blank((DynDtype)dtype, (uint8_t)n);
    case DYN_RK_RECORD: return dyn_region_blank_record(r->objects.at[n]);
    case DYN_RK_PARTS: return blank_instance(r->objects.at[n]);
    case DYN_RK_RANGE: return dyn_cpy_range_blank();
    case DYN_RK_ITER: return dyn_cpy_range_iterator_blank();
    case DYN_RK_TUPLE: return tuple_of(n, Py_None);
    case DYN_RK_SEQ: return iterator_of_nothing();
    case DYN_RK_ENUM: return enumerate_of_nothing();
    case DYN_RK_ZIP: return zip_of_nothing(n);
    case DYN_RK_LISTITER: return dyn_cpy_list_iterator_blank((uint8_t)n);
    case DYN_RK_PAUSED: return generator_of(r->pauses.at[n].function);
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER: return dyn_cpy_dict_iterator_blank((int)(kind - DYN_RK_KEYITER));
    case DYN_RK_LIST:
    case DYN_RK_TEXT:
    case DYN_RK_CHAR:
    case DYN_RK_NULL:
    case DYN_RK_ENTRY:
    case DYN_RK_CONST:
    case DYN_RK_BOOL:
    case DYN_RK_ARRAY:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_UFUNC:
    case DYN_RK_CELL:
    case DYN_RK_FUNC:
    case DYN_RK_GEN:
    case DYN_RK_INST:
    case DYN_RK_CLASS:
    case DYN_RK_FOREIGN:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_METHOD:
    case DYN_RK_RNG:
    case DYN_RK_MADE:
    case DYN_RK_SLICE:
    case DYN_RK_SLICED:
    case DYN_RK_LITERAL:
    case DYN_RK_EXPR:
    case DYN_RK_DICTVIEW:
    case DYN_RK_ADDRESS:
    case DYN_RK_COUNT: break;
    }
    PyErr_NoMemory();
    return NULL;
}

/* Nothing is of NumPy's types as long as there is no NumPy. */
static bool is_never_wanted(const Spare *spare) {
    bool numpys = spare->kind == DYN_RK_NP || (spare->kind == DYN_RK_COMPLEX && spare->dtype == DYN_C128);
    return spare->most == 0 || (numpys && !dyn_arrays_loaded());
}

static void fill(const DynRegion *r, DynRegionSpares *s) {
    s->full = true;
    s->arrays = dyn_arrays_loaded();
    for (uint32_t i = 0; i < s->v.n && s->full; i++) {
        Spare *spare = &s->v.at[i];
        if (is_never_wanted(spare)) {
            continue;
        }
        if (spare->o == NULL) {
            spare->o = make(r, (DynRegionKind)spare->kind, spare->dtype, spare->n);
        }
        s->full = spare->o != NULL;
    }
    if (!s->full) {
        PyErr_Clear();
    }
}

bool dyn_region_take_spares(DynRegion *r, DynRegionRun *run) {
    run->spares = r->spares != NULL ? r->spares : count(r);
    r->spares = NULL;
    if (run->spares != NULL && (!run->spares->full || run->spares->arrays != dyn_arrays_loaded())) {
        fill(r, run->spares);
    }
    bool full = run->spares != NULL && run->spares->full;
    if (!full) {
        dyn_region_return_spares(r, run);
    }
    return full;
}

void dyn_region_return_spares(DynRegion *r, DynRegionRun *run) {
    if (r->spares == NULL) {
        r->spares = run->spares;
    } else {
        dyn_region_free_spares(run->spares);
    }
    run->spares = NULL;
}

void dyn_region_free_spares(DynRegionSpares *s) {
    for (uint32_t i = 0; s != NULL && i < s->v.n; i++) {
        Py_XDECREF(s->v.at[i].o);
    }
    if (s != NULL) {
        dyn_vec_free(&s->v);
    }
    PyMem_RawFree(s);
}

PyObject *dyn_region_blank(DynRegionRun *run, DynRegionKind kind, uint8_t dtype, uint32_t n) {
    bool number = kind == DYN_RK_INT || kind == DYN_RK_FLOAT || kind == DYN_RK_NP;
    bool out = number || dyn_region_is_starved(); /* of numbers the caller found that out */
    PyObject *o = out ? NULL : make(run->r, kind, dtype, n);
    DynRegionSpares *s = run->spares;
    if (o != NULL) {
        return o;
    }
    PyErr_Clear();
    for (uint32_t i = 0; i < s->v.n && o == NULL; i++) {
        Spare *spare = &s->v.at[i];
        if (spare->kind == kind && spare->dtype == dtype && spare->n == n && spare->o != NULL) {
            o = spare->o;
            spare->o = NULL;
            s->full = false;
        }
    }
    if (o == NULL) {
        Py_FatalError("dynoc: an exit of a loop makes more objects than were counted"); /* a mistake in need_for alone */
    }
    return o;
}
