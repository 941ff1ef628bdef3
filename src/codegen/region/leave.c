/* leave.c: the way out of a region: what an exit says of slots and stack is made of the registers. Called by run.c, with the GIL.
 *
 * New objects are made first, then they take their places, and what was there is dropped last. A number that is what the slot's
 * object says already keeps that object. Where memory is out, the objects of spare.c are taken: nothing can be done again then,
 * since arrays were written. */
#include "base/cpy_region.h"
#include "codegen/region/region_code.h"

/* ---- numbers: as CPython and NumPy make them; a spare one where they can't */

static PyObject *make_int(DynRegionRun *run, int64_t number) {
    bool cached = number >= -5 && number <= 256;
    PyObject *o = !cached && dyn_region_is_starved() ? NULL : PyLong_FromLongLong(number);
    if (o == NULL) {
        PyErr_Clear();
        o = dyn_region_blank(run, DYN_RK_INT, 0, 0);
        dyn_cpy_int_set(o, number);
    }
    return o;
}

static PyObject *make_float(DynRegionRun *run, double number) {
    PyObject *o = dyn_region_is_starved() ? NULL : PyFloat_FromDouble(number);
    if (o == NULL) {
        PyErr_Clear();
        o = dyn_region_blank(run, DYN_RK_FLOAT, 0, 0);
        ((PyFloatObject *)o)->ob_fval = number;
    }
    return o;
}

static PyObject *make_complex(DynRegionRun *run, uint8_t dtype, double real, double imag) {
    PyObject *o = dyn_region_blank(run, DYN_RK_COMPLEX, dtype, 0);
    ((PyComplexObject *)o)->cval = (Py_complex){real, imag}; /* NumPy's begins as Python's does */
    return o;
}

static PyObject *make_np(DynRegionRun *run, DynDtype dt, DynScalar number) {
    PyObject *o = dt != DYN_BOOL && dyn_region_is_starved() ? NULL : dyn_npscalar_new(dt, number);
    if (o == NULL) {
        PyErr_Clear();
        o = dyn_region_blank(run, DYN_RK_NP, (uint8_t)dt, 0);
        dyn_npscalar_set(o, dt, number);
    }
    return o;
}

/* ---- what is made of numbers and other objects: a blank one, that is filled in */

static PyObject *make_record(DynRegionRun *run, const DynRegionValue *v) {
    PyObject *o = dyn_region_blank(run, DYN_RK_RECORD, 0, v->ref);
    dyn_region_lay_record(o, (PyObject *)(intptr_t)run->values[v->regs[0]].i, (char *)(intptr_t)run->values[v->regs[1]].i);
    return o;
}

static PyObject *make_view(DynRegionRun *run, const DynRegionValue *v) {
    const DynScalar *values = run->values;
    PyArrayObject *owner = (PyArrayObject *)(intptr_t)values[v->regs[0]].i;
    DynArrayView view = {.data = (char *)(intptr_t)values[v->regs[1]].i, .ndim = v->n, .dtype = v->dtype};
    for (uint32_t k = 0; k < v->n; k++) {
        view.dims[k] = values[v->regs[2 + k]].i;
        view.strides[k] = values[v->regs[2 + v->n + k]].i;
    }
    PyObject *o = dyn_region_blank(run, DYN_RK_VIEW, v->dtype, v->n);
    dyn_array_lay((PyArrayObject *)o, (PyObject *)owner, &view, PyArray_ISWRITEABLE(owner));
    return o;
}

static PyObject *make_range(DynRegionRun *run, const DynRegionValue *v) {
    PyObject *o = dyn_region_blank(run, DYN_RK_RANGE, 0, 0), *numbers[4];
    static const int order[] = {0, 3, 2, 1}; /* start, stop, step, length */
    for (int k = 0; k < 4; k++) {
        numbers[k] = make_int(run, run->values[v->regs[order[k]]].i);
    }
    dyn_cpy_range_set(o, numbers);
    return o;
}

static PyObject *make_array_iterator(DynRegionRun *run, const DynRegionValue *v) {
    DynRegionValue array = *v;
    array.nregs--;
    PyObject *it = dyn_region_blank(run, DYN_RK_SEQ, 0, 0);
    dyn_cpy_sequence_iterator_over(it, make_view(run, &array));
    dyn_cpy_sequence_iterator_set(it, run->values[v->regs[v->nregs - 1]].i);
    return it;
}

static void set_dict_iterator(const DynRegionRun *run, const DynRegionValue *v, PyObject *o) {
    const DynScalar *values = run->values;
    dyn_cpy_dict_iterator_set(o, (const int64_t[]){values[v->regs[0]].i, values[v->regs[1]].i, values[v->regs[2]].i});
}

static PyObject *make_value(DynRegionRun *run, const DynRegionValues *list, uint32_t *at);

static PyObject *make_tuple(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, uint32_t n) {
    PyObject *tuple = n == 0 ? PyTuple_New(0) : dyn_region_blank(run, DYN_RK_TUPLE, 0, n);
    for (uint32_t k = 0; k < n; k++) {
        Py_DECREF(PyTuple_GET_ITEM(tuple, k));
        PyTuple_SET_ITEM(tuple, k, make_value(run, list, at));
    }
    return tuple;
}

/* *at is moved behind the n values, and what they are made of. */
static void pass_by(const DynRegionValues *list, uint32_t *at, uint32_t n) {
    for (uint32_t k = 0; k < n; k++) {
        const DynRegionValue *v = &list->at[(*at)++];
        pass_by(list, at, dyn_region_has_items(v->kind) ? v->n : 0);
    }
}

/* One object for all values that are the same instance. Its attributes are there already, as anything. */
static PyObject *make_instance(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v) {
    for (uint32_t i = 0; i < run->ninstances; i++) {
        if (run->instances[i].number == v->shape) {
            pass_by(list, at, v->n);
            return Py_NewRef(run->instances[i].o);
        }
    }
    PyObject *o = dyn_region_blank(run, DYN_RK_PARTS, 0, v->ref), *layout = run->r->objects.at[v->ref];
    if (run->ninstances < DYN_REGION_INSTANCES) {
        run->instances[run->ninstances].number = v->shape;
        run->instances[run->ninstances++].o = o;
    }
    for (uint32_t k = 0; k < v->n; k++) {
        PyObject *value = make_value(run, list, at);
        if (PyObject_GenericSetAttr(o, PyTuple_GET_ITEM(layout, k + 1), value) < 0) {
            PyErr_Clear(); /* it takes no memory, and runs no code */
        }
        Py_DECREF(value);
    }
    if (PyType_IS_GC(Py_TYPE(o)) && !PyObject_GC_IsTracked(o)) {
        PyObject_GC_Track(o);
    }
    return o;
}

/* Does the slot's object say what the value does, to the bit? */
static bool is_kept(DynRegionRun *run, const DynRegionValue *v, PyObject *o) {
    DynScalar now, then = v->nregs > 0 ? run->values[v->regs[0]] : (DynScalar){.i = 0};
    if (o == NULL) {
        return v->kind == DYN_RK_NULL;
    }
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_INT: return dyn_region_read_int(o, &now.i) && now.i == then.i;
    case DYN_RK_FLOAT:
        now.f = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0.0;
        return PyFloat_CheckExact(o) && now.i == then.i;
    case DYN_RK_NP:
        if (!dyn_npscalar_is(o, v->dtype)) {
            return false;
        }
        dyn_npscalar_value(o, v->dtype, &now);
        return now.i == then.i;
    case DYN_RK_LIST:
    case DYN_RK_INST:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_METHOD:
    case DYN_RK_RNG:
    case DYN_RK_MADE:
    case DYN_RK_TEXT:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_ARRAY: return (intptr_t)then.i == (intptr_t)o;
    default: return false;
    }
}

/* What was there before goes when all is done. */
static void drop_at_end(DynRegionRun *run, PyObject *o) {
    if (o != NULL && run->ndropped < DYN_REGION_DROPPED) {
        run->dropped[run->ndropped++] = o;
    } else {
        Py_XDECREF(o);
    }
}

/* The generator's frame holds what stands behind it, and goes on where the pause says. Numbers that are the same stay. */
static void fill_generator(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v, PyObject *o) {
    DynFrame *f = dyn_frame_of_generator(o);
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(dyn_frame_code(f)), had = nslots + (uint32_t)dyn_frame_depth(f);
    const DynRegionPause *pause = &run->r->pauses.at[v->shape];
    for (uint32_t i = 0; i < v->n || i < had; i++) {
        PyObject *old = i < had ? dyn_frame_get(f, i) : NULL;
        if (i < v->n && i < had && is_kept(run, &list->at[*at], old)) { /* above its depth nothing is anything */
            (*at)++;
            continue;
        }
        PyObject *now = i < v->n ? make_value(run, list, at) : NULL;
        old = i < had ? dyn_frame_take(f, i) : NULL;
        if (i < v->n) {
            dyn_frame_put(f, i, now);
        }
        drop_at_end(run, old);
    }
    if (pause->at != 0) {
        dyn_generator_suspend(o, pause->at, (int)(v->n - nslots));
    }
}

/* A new iterator: of the registers, or of new ones that stand behind it. */
static PyObject *make_iterator(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v) {
    const DynScalar *values = run->values;
    PyObject *o;
    switch (v->kind) {
    case DYN_RK_ITER:
        o = dyn_region_blank(run, DYN_RK_ITER, 0, 0);
        dyn_cpy_range_iterator_fill(o, (const int64_t[]){values[v->regs[0]].i, values[v->regs[1]].i, values[v->regs[2]].i});
        return o;
    case DYN_RK_SEQ: return make_array_iterator(run, v);
    case DYN_RK_ENUM:
        o = dyn_region_blank(run, DYN_RK_ENUM, 0, 0);
        dyn_cpy_enumerate_set(o, values[list->at[(*at)++].regs[0]].i);
        dyn_cpy_enumerate_over(o, make_value(run, list, at));
        return o;
    case DYN_RK_LISTITER:
        o = dyn_region_blank(run, DYN_RK_LISTITER, 0, dyn_region_over(&list->at[*at]));
        dyn_cpy_list_iterator_set(o, values[v->regs[0]].i);
        Py_XDECREF(dyn_cpy_list_iterator_over(o, make_value(run, list, at)));
        return o;
    case DYN_RK_PAUSED:
        o = dyn_region_blank(run, DYN_RK_PAUSED, 0, v->shape);
        fill_generator(run, list, at, v, o);
        return o;
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER:
        o = dyn_region_blank(run, (DynRegionKind)v->kind, 0, 0);
        set_dict_iterator(run, v, o);
        Py_XDECREF(dyn_cpy_dict_iterator_over(o, make_value(run, list, at)));
        return o;
    default:
        o = dyn_region_blank(run, DYN_RK_ZIP, 0, v->n);
        for (uint32_t k = 0; k < v->n; k++) {
            PyObject *all = dyn_cpy_zip(o);
            Py_DECREF(PyTuple_GET_ITEM(all, k));
            PyTuple_SET_ITEM(all, k, make_value(run, list, at));
        }
        return o;
    }
}

/* An iterator that came in is what the registers say, and so are those that it is made of. */
static void advance(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, PyObject *o) {
    const DynRegionValue *v = &list->at[(*at)++];
    const DynScalar *values = run->values;
    int64_t index;
    if (v->kind == DYN_RK_ITER) {
        dyn_cpy_range_iterator_set(o, (const int64_t[]){values[v->regs[0]].i, values[v->regs[1]].i, values[v->regs[2]].i});
    } else if (v->kind == DYN_RK_SEQ) {
        dyn_cpy_sequence_iterator_set(o, values[v->regs[v->nregs - 1]].i);
    } else if (v->kind == DYN_RK_LISTITER) {
        dyn_cpy_list_iterator_set(o, values[v->regs[0]].i);
        (*at)++; /* the list */
    } else if (dyn_region_is_dict_iterator(v->kind)) {
        set_dict_iterator(run, v, o);
        (*at)++; /* the dict or set */
    } else if (v->kind == DYN_RK_ENUM) {
        dyn_cpy_enumerate_set(o, values[list->at[(*at)++].regs[0]].i);
        advance(run, list, at, dyn_cpy_enumerate(o, &index));
    } else if (v->kind == DYN_RK_PAUSED) {
        fill_generator(run, list, at, v, o);
    } else {
        for (uint32_t k = 0; k < v->n; k++) {
            advance(run, list, at, PyTuple_GET_ITEM(dyn_cpy_zip(o), k));
        }
    }
}

/* What is in the cell is what stands behind it. What was there is dropped when all is done. */
static PyObject *fill_cell(DynRegionRun *run, const DynRegionValues *list, uint32_t *at, PyObject *cell) {
    PyObject *old = PyCell_GET(cell);
    if (is_kept(run, &list->at[*at], old)) {
        (*at)++;
    } else {
        PyObject *made = make_value(run, list, at);
        drop_at_end(run, PyCell_GET(cell)); /* making it may have run the collector, and that code */
        PyCell_SET(cell, made);
    }
    return Py_NewRef(cell);
}

/* Of a value that may be several things what it is. */
static const DynRegionValue *told_apart(DynRegionRun *run, const DynRegionValue *v, DynRegionValue *told) {
    if (!(v->flags & DYN_RF_MAYBE)) {
        return v;
    }
    int64_t what = run->values[v->regs[v->nregs - 1]].i;
    *told = *v;
    told->kind = what == 0 ? DYN_RK_ENTRY : (uint8_t)((what - 1) % 256);
    told->dtype = (uint8_t)((what - 1) / 256);
    return told;
}

/* The object of the value at *at, which is moved behind it. New reference; NULL stands for NULL. */
static PyObject *make_value(DynRegionRun *run, const DynRegionValues *list, uint32_t *at) {
    const DynScalar *values = run->values;
    DynRegionValue told;
    const DynRegionValue *v = told_apart(run, &list->at[(*at)++], &told);
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_NULL:
    case DYN_RK_UFUNC:
    case DYN_RK_FUNC:
    case DYN_RK_GEN:
    case DYN_RK_CLASS:
    case DYN_RK_FOREIGN:
    case DYN_RK_SLICE:
    case DYN_RK_SLICED:
    case DYN_RK_LITERAL:
    case DYN_RK_EXPR:
    case DYN_RK_DICTVIEW:
    case DYN_RK_ADDRESS:
    case DYN_RK_COUNT: return NULL;
    case DYN_RK_CELL: return fill_cell(run, list, at, run->slots[v->ref]);
    case DYN_RK_ENTRY: return Py_XNewRef(run->slots[v->ref]);
    case DYN_RK_CONST: return Py_NewRef(v->flags & DYN_RF_MAYBE ? Py_None : run->r->objects.at[v->ref]);
    case DYN_RK_BOOL: return PyBool_FromLong(values[v->regs[0]].i != 0);
    case DYN_RK_INT: return make_int(run, values[v->regs[0]].i);
    case DYN_RK_FLOAT: return make_float(run, values[v->regs[0]].f);
    case DYN_RK_NP: return make_np(run, (DynDtype)v->dtype, values[v->regs[0]]);
    case DYN_RK_COMPLEX: return make_complex(run, v->dtype, values[v->regs[0]].f, values[v->regs[1]].f);
    case DYN_RK_CHAR: return PyUnicode_FromOrdinal((int)values[v->regs[0]].i); /* one that CPython has */
    case DYN_RK_LIST:
    case DYN_RK_INST:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_METHOD:
    case DYN_RK_RNG:
    case DYN_RK_MADE:
    case DYN_RK_TEXT:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_ARRAY: return Py_NewRef((PyObject *)(intptr_t)values[v->regs[0]].i);
    case DYN_RK_VIEW: return make_view(run, v);
    case DYN_RK_RECORD: return make_record(run, v);
    case DYN_RK_RANGE: return make_range(run, v);
    case DYN_RK_TUPLE: return make_tuple(run, list, at, v->n);
    case DYN_RK_PARTS: return make_instance(run, list, at, v);
    case DYN_RK_ITER:
    case DYN_RK_SEQ:
    case DYN_RK_ENUM:
    case DYN_RK_ZIP:
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER:
    case DYN_RK_PAUSED:
    case DYN_RK_LISTITER: break;
    }
    if (v->ref == DYN_NONE) {
        return make_iterator(run, list, at, v);
    }
    (*at)--;
    advance(run, list, at, run->slots[v->ref]);
    return Py_NewRef(run->slots[v->ref]);
}

/* An iterator of a list, dict or set that has come to its end stays there, however long that becomes. What it went over is the
 * caller's. */
static PyObject *end_iterator(PyObject *it) {
    int64_t index, state[3];
    int which;
    while (dyn_cpy_enumerate(it, &index) != NULL) {
        it = dyn_cpy_enumerate(it, &index);
    }
    if (PyGen_CheckExact(it)) {
        PyObject *none = PyObject_CallMethod(it, "close", NULL);
        Py_XDECREF(none);
        PyErr_Clear();
        return NULL;
    }
    if (dyn_cpy_dict_iterator(it, &which, state) != NULL) {
        return dyn_cpy_dict_iterator_over(it, NULL);
    }
    return dyn_cpy_list_iterator(it, &index) != NULL ? dyn_cpy_list_iterator_over(it, NULL) : NULL;
}

/* What the exit says of slots and stack takes place. */
void dyn_region_write_back(DynRegionRun *run, const DynRegionOut *x) {
    DynRegion *r = run->r;
    PyObject *fresh[DYN_REGION_SLOTS], *dropped[DYN_REGION_DROPPED], *stack[DYN_REGION_STACK], *old;
    uint32_t at = 0;
    run->dropped = dropped;
    run->ndropped = 0;
    run->ninstances = 0;
    for (uint32_t i = 0; i < r->nslots; i++) {
        DynRegionValue told;
        const DynRegionValue *v = told_apart(run, &x->values.at[at], &told);
        bool kept = (v->kind == DYN_RK_ENTRY && v->ref == i) || is_kept(run, v, run->slots[i]);
        fresh[i] = kept ? Py_XNewRef(run->slots[i]) : make_value(run, &x->values, &at);
        at += kept;
    }
    for (uint32_t i = 0; i < x->nstack; i++) {
        stack[i] = make_value(run, &x->values, &at);
    }
    PyObject *ended = NULL; /* what an iterator went over that ended */
    for (uint32_t i = 0; i < x->nmore; i++) {
        PyObject *it = make_value(run, &x->values, &at);
        ended = end_iterator(it);
        Py_XDECREF(it);
    }
    memcpy(r->stack, stack, x->nstack * sizeof(PyObject *)); /* last: making objects may run Python code, and that this region */
    for (uint32_t i = 0; i < r->nslots; i++) {
        old = run->slots[i];
        run->slots[i] = fresh[i];
        Py_XDECREF(old);
    }
    Py_XDECREF(ended);
    for (uint32_t i = 0; i < run->ndropped; i++) {
        Py_XDECREF(run->dropped[i]);
    }
}
