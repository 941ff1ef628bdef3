/* run.c: builds regions and runs them: from a frame's slots into registers, through native code, and back. Called by evalframe,
 * with the GIL. A region owns its references to objects and its job of the build queue; a run owns the array of register values.
 *
 * On the way in nothing is touched before every guard holds. On the way out new objects are made first, then they take their
 * places, and what was there is dropped last. A number that is what the slot's object says already keeps that object. */
#include "codegen/region/region_code.h"
#include "base/cpy_region.h"
#include "codegen/run/flags.h"

/* ---- building */

void dyn_region_optimise(DynRegion *r) {
    if (!r->optimised) {
        dyn_region_hoist(r);
        r->optimised = true;
    }
#ifdef DYN_DEBUG
    DynStr error = {0};
    if (dyn_region_verify(r, &error) < 0) {
        Py_FatalError(dyn_str_at(&error));
    }
    dyn_str_free(&error);
#endif
}

int dyn_region_build(DynRegion *r, bool wait) {
    if (r->native == NULL) {
        DynStr source = {0};
        dyn_region_optimise(r);
        dyn_region_source(r, &source);
        r->native = source.failed ? NULL : PyMem_RawCalloc(1, sizeof(*r->native));
        if (r->native != NULL) {
            r->native->text = dyn_build_text(dyn_str_at(&source), wait);
        }
        dyn_str_free(&source);
        if (r->native != NULL && r->native->text == NULL) {
            PyMem_RawFree(r->native);
            r->native = NULL;
        }
    }
    return r->native == NULL ? -1 : 0;
}

DynRegionState dyn_region_state(DynRegion *r) {
    DynRegionCode *native = r->native;
    if (native == NULL) {
        return DYN_REGION_WAITING;
    }
    if (native->function != NULL) {
        return DYN_REGION_READY;
    }
    switch (dyn_build_text_state(native->text)) {
    case DYN_TEXT_WAITING: return DYN_REGION_WAITING;
    case DYN_TEXT_FAILED: return DYN_REGION_FAILED;
    case DYN_TEXT_LOADED:
        native->function = (DynRegionFunction)dyn_build_text_symbol(native->text, DYN_REGION_SYMBOL);
        return native->function == NULL ? DYN_REGION_FAILED : DYN_REGION_READY;
    case DYN_TEXT_DROPPED:
        dyn_build_text_free(native->text);
        PyMem_RawFree(native);
        r->native = NULL;
        return dyn_region_build(r, false) < 0 ? DYN_REGION_FAILED : DYN_REGION_WAITING;
    }
    return DYN_REGION_FAILED;
}

DynReason dyn_region_failure(DynRegion *r, const char **detail) {
    if (detail != NULL) {
        *detail = "";
    }
    return r->native == NULL ? DYN_R_OK : dyn_build_text_failure(r->native->text, detail);
}

bool dyn_region_exit(const DynRegion *r, uint32_t i, uint32_t *at, uint32_t *nstack) {
    uint32_t distinct = 0;
    for (uint32_t k = 0; k < r->exits.n; k++) {
        bool seen = false;
        for (uint32_t l = 0; l < k && !seen; l++) {
            seen = r->exits.at[l].at == r->exits.at[k].at && r->exits.at[l].nstack == r->exits.at[k].nstack;
        }
        if (!seen && distinct++ == i) {
            *at = r->exits.at[k].at;
            *nstack = r->exits.at[k].nstack;
            return true;
        }
    }
    return false;
}

int dyn_region_traverse(const DynRegion *r, visitproc visit, void *arg) {
    for (uint32_t i = 0; i < r->facts.n; i++) {
        Py_VISIT(r->facts.at[i].dict);
        Py_VISIT(r->facts.at[i].name);
        Py_VISIT(r->facts.at[i].value);
    }
    for (uint32_t i = 0; i < r->objects.n; i++) {
        Py_VISIT(r->objects.at[i]);
    }
    return 0;
}

void dyn_region_free(DynRegion *r) {
    if (r == NULL) {
        return;
    }
    if (r->native != NULL) {
        dyn_build_text_free(r->native->text);
        PyMem_RawFree(r->native);
    }
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        dyn_vec_free(&r->blocks.at[i].v);
    }
    for (uint32_t i = 0; i < r->entries.n; i++) {
        dyn_vec_free(&r->entries.at[i].values);
    }
    for (uint32_t i = 0; i < r->exits.n; i++) {
        dyn_vec_free(&r->exits.at[i].values);
    }
    for (uint32_t i = 0; i < r->facts.n; i++) {
        Py_XDECREF(r->facts.at[i].dict);
        Py_XDECREF(r->facts.at[i].name);
        Py_XDECREF(r->facts.at[i].value);
    }
    for (uint32_t i = 0; i < r->objects.n; i++) {
        Py_XDECREF(r->objects.at[i]);
    }
    Py_XDECREF(r->code);
    dyn_vec_free(&r->regs);
    dyn_vec_free(&r->blocks);
    dyn_vec_free(&r->entries);
    dyn_vec_free(&r->exits);
    dyn_vec_free(&r->facts);
    dyn_vec_free(&r->objects);
    PyMem_RawFree(r->stack);
    PyMem_RawFree(r);
}

/* ---- the way in */

typedef struct Run {
    DynRegion *r;
    PyObject **slots;
    DynScalar *values; /* For each register. */
    PyObject *extras[DYN_REGION_EXTRAS];
} Run;

static PyObject *dict_item(PyObject *dict, PyObject *name) {
    Py_hash_t hash = PyObject_Hash(name);
    return dyn_cpy_dict_item(dict, name, hash);
}

static bool holds(Run *run, const DynRegionFact *f) {
    if (f->function) {
        PyFunctionObject *function = (PyFunctionObject *)f->dict;
        return function->func_code == f->name && function->func_defaults == f->value;
    }
    if (f->object) {
        run->extras[f->extra] = f->value;
        return true;
    }
    if (f->cell) {
        PyObject *cell = f->dict != NULL ? f->dict : run->slots[f->slot];
        run->extras[f->extra] = cell != NULL && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
        return run->extras[f->extra] != NULL;
    }
    PyObject *now = dict_item(f->dict, f->name);
    if (f->extra != DYN_NONE) {
        run->extras[f->extra] = now;
        return now != NULL;
    }
    return now == f->value;
}

static bool read_array(PyObject *o, const DynRegionValue *v, DynScalar *values) {
    DynArrayView view;
    if (!PyArray_CheckExact(o) || !dyn_array_view(o, &view) || !view.aligned || view.ndim != v->n || view.dtype != v->dtype) {
        return false;
    }
    bool writes = (v->flags & DYN_RF_WRITEABLE) != 0;
    if (writes && (!view.writeable || dyn_array_write_warns((PyArrayObject *)o))) {
        return false;
    }
    if (v->flags & DYN_RF_CONTIGUOUS && view.strides[v->n - 1] != (int64_t)dyn_dtypes[v->dtype].size) {
        return false;
    }
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    values[v->regs[1]].i = (int64_t)(intptr_t)view.data;
    for (uint32_t k = 0; k < v->n; k++) {
        values[v->regs[2 + k]].i = view.dims[k];
        values[v->regs[2 + v->n + k]].i = view.strides[k];
    }
    return true;
}

static bool read_int(PyObject *o, int64_t *out) {
    int overflow = 0;
    if (!PyLong_CheckExact(o)) {
        return false;
    }
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0;
}

static bool read_range_iterator(PyObject *o, const DynRegionValue *v, DynScalar *values) {
    int64_t state[3];
    if (!dyn_cpy_range_iterator(o, state) || (v->n == 1 && state[2] != 1)) {
        return false;
    }
    for (int k = 0; k < 3; k++) {
        values[v->regs[k]].i = state[k];
    }
    return true;
}

static bool read_array_iterator(PyObject *o, const DynRegionValue *v, DynScalar *values) {
    PyObject *array = dyn_cpy_sequence_iterator(o, &values[v->regs[v->nregs - 1]].i);
    return array != NULL && read_array(array, v, values);
}

/* Is the object what the entry has at *at? Its registers get what is in it; *at is moved behind it, with what it is made of. */
static bool read_value(const Run *run, const DynRegionValues *list, uint32_t *at, PyObject *o);

static bool read_iterators(const Run *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v, PyObject *o) {
    int64_t index = 0;
    PyObject *one = v->kind == DYN_RK_ENUM ? dyn_cpy_enumerate(o, &index) : NULL,
             *all = v->kind == DYN_RK_ZIP ? dyn_cpy_zip(o) : NULL;
    if (one != NULL) {
        run->values[list->at[(*at)++].regs[0]].i = index;
        return read_value(run, list, at, one);
    }
    if (all == NULL || PyTuple_GET_SIZE(all) != v->n) {
        return false;
    }
    for (uint32_t k = 0; k < v->n; k++) {
        for (uint32_t i = 0; i < k; i++) {
            if (PyTuple_GET_ITEM(all, i) == PyTuple_GET_ITEM(all, k)) {
                return false;
            }
        }
        if (!read_value(run, list, at, PyTuple_GET_ITEM(all, k))) {
            return false;
        }
    }
    return true;
}

static bool read_number(const DynRegionValue *v, PyObject *o, DynScalar *value) {
    switch (v->kind) {
    case DYN_RK_BOOL: value->i = o == Py_True; return PyBool_Check(o);
    case DYN_RK_INT: return read_int(o, &value->i);
    case DYN_RK_FLOAT:
        if (!PyFloat_CheckExact(o)) {
            return false;
        }
        value->f = PyFloat_AS_DOUBLE(o);
        return true;
    default:
        if (!dyn_npscalar_is(o, v->dtype)) {
            return false;
        }
        dyn_npscalar_value(o, v->dtype, value);
        return true;
    }
}

static bool read_ufunc(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    void *loop, *data;
    bool is = dyn_region_ufunc(o, v->n, &loop, &data);
    if (is) {
        values[v->regs[0]].i = (int64_t)(intptr_t)loop;
        values[v->regs[1]].i = (int64_t)(intptr_t)data;
    }
    return is;
}

static bool read_value(const Run *run, const DynRegionValues *list, uint32_t *at, PyObject *o) {
    const DynRegionValue *v = &list->at[(*at)++];
    DynScalar *values = run->values;
    if (v->flags & DYN_RF_MAYBE) {
        for (uint32_t i = 0; i < v->nregs; i++) {
            values[v->regs[i]].i = 0;
        }
    }
    if (v->kind == DYN_RK_ENTRY || v->flags & DYN_RF_MAYBE) {
        return !(v->flags & DYN_RF_DROPPABLE) || dyn_region_is_droppable(o);
    }
    if (v->kind == DYN_RK_NULL || o == NULL) {
        return v->kind == DYN_RK_NULL && o == NULL;
    }
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_CONST: return o == run->r->objects.at[v->ref];
    case DYN_RK_BOOL:
    case DYN_RK_INT:
    case DYN_RK_FLOAT:
    case DYN_RK_NP: return read_number(v, o, &values[v->regs[0]]);
    case DYN_RK_ARRAY: return read_array(o, v, values);
    case DYN_RK_ITER: return read_range_iterator(o, v, values);
    case DYN_RK_SEQ: return read_array_iterator(o, v, values);
    case DYN_RK_ENUM:
    case DYN_RK_ZIP: return read_iterators(run, list, at, v, o);
    case DYN_RK_UFUNC: return read_ufunc(v, o, values);
    case DYN_RK_NULL:
    case DYN_RK_ENTRY:
    case DYN_RK_VIEW:
    case DYN_RK_RANGE:
    case DYN_RK_TUPLE:
    case DYN_RK_COUNT: break;
    }
    return false;
}

static bool enters(const Run *run, const DynRegionEntry *e) {
    uint32_t own = run->r->nslots + run->r->nstack, at = 0;
    for (uint32_t i = 0; at < e->values.n; i++) {
        PyObject *o = i < own ? run->slots[i] : run->extras[i - own];
        if (!read_value(run, &e->values, &at, o)) {
            return false;
        }
    }
    return true;
}

/* The entry whose types the slots have: what was found last is more particular. */
static const DynRegionEntry *find_entry(Run *run) {
    DynRegion *r = run->r;
    for (uint32_t i = 0; i < r->facts.n; i++) {
        if (!holds(run, &r->facts.at[i])) {
            return NULL;
        }
    }
    if (r->warns && (dyn_flags_wanted(FE_UNDERFLOW) & FE_UNDERFLOW) != 0) {
        PyErr_Clear();
        return NULL;
    }
    for (uint32_t i = r->entries.n; i-- > 0;) {
        if (enters(run, &r->entries.at[i])) {
            return &r->entries.at[i];
        }
    }
    return NULL;
}

/* ---- the way out */

static PyObject *make_scalar(DynDtype dt, DynScalar value) {
    union {
        npy_bool b;
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
    } bits;
    switch (dt) {
    case DYN_BOOL: bits.b = value.i != 0; break;
    case DYN_I8:
    case DYN_U8: bits.i8 = (int8_t)value.i; break;
    case DYN_I16:
    case DYN_U16: bits.i16 = (int16_t)value.i; break;
    case DYN_I32:
    case DYN_U32: bits.i32 = (int32_t)value.i; break;
    case DYN_F32: bits.f32 = (float)value.f; break;
    case DYN_F64: bits.f64 = value.f; break;
    default: bits.i64 = value.i; break;
    }
    PyArray_Descr *descr = PyArray_DescrFromType(dyn_dtypes[dt].npy);
    PyObject *o = PyArray_Scalar(&bits, descr, NULL);
    Py_DECREF(descr);
    return o;
}

static PyObject *make_view(const DynRegionValue *v, const DynScalar *values) {
    PyArrayObject *owner = (PyArrayObject *)(intptr_t)values[v->regs[0]].i;
    DynArrayView view = {.data = (char *)(intptr_t)values[v->regs[1]].i, .ndim = v->n, .dtype = v->dtype};
    for (uint32_t k = 0; k < v->n; k++) {
        view.dims[k] = values[v->regs[2 + k]].i;
        view.strides[k] = values[v->regs[2 + v->n + k]].i;
    }
    return dyn_array_over((PyObject *)owner, &view, PyArray_ISWRITEABLE(owner));
}

static PyObject *make_range(const DynRegionValue *v, const DynScalar *values) {
    return PyObject_CallFunction((PyObject *)&PyRange_Type, "LLL", (long long)values[v->regs[0]].i,
                                 (long long)values[v->regs[3]].i, (long long)values[v->regs[2]].i);
}

static PyObject *make_array_iterator(const DynRegionValue *v, const DynScalar *values) {
    DynRegionValue array = *v;
    array.nregs--;
    PyObject *view = make_view(&array, values), *it = view == NULL ? NULL : PyObject_GetIter(view);
    if (it != NULL) {
        dyn_cpy_sequence_iterator_set(it, values[v->regs[v->nregs - 1]].i);
    }
    Py_XDECREF(view);
    return it;
}

static PyObject *make_value(const Run *run, const DynRegionValues *list, uint32_t *at);

static PyObject *make_tuple(const Run *run, const DynRegionValues *list, uint32_t *at, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t k = 0; k < n; k++) {
        PyObject *item = make_value(run, list, at);
        if (tuple != NULL) {
            PyTuple_SET_ITEM(tuple, k, item);
        }
    }
    return tuple;
}

/* A new iterator: of the registers, or of new ones that stand behind it. */
static PyObject *make_iterator(const Run *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v) {
    const DynScalar *values = run->values;
    if (v->kind == DYN_RK_ITER) {
        return dyn_cpy_range_iterator_new((const int64_t[]){values[v->regs[0]].i, values[v->regs[1]].i, values[v->regs[2]].i});
    }
    if (v->kind == DYN_RK_SEQ) {
        return make_array_iterator(v, values);
    }
    PyObject *items = make_tuple(run, list, at, v->n), *made = NULL;
    if (items != NULL && v->kind == DYN_RK_ZIP) {
        made = PyObject_CallObject((PyObject *)&PyZip_Type, items);
    } else if (items != NULL) {
        made =
            PyObject_CallFunctionObjArgs((PyObject *)&PyEnum_Type, PyTuple_GET_ITEM(items, 1), PyTuple_GET_ITEM(items, 0), NULL);
    }
    Py_XDECREF(items);
    return made;
}

/* An iterator that came in is what the registers say, and so are those that it is made of. */
static void advance(const Run *run, const DynRegionValues *list, uint32_t *at, PyObject *o) {
    const DynRegionValue *v = &list->at[(*at)++];
    const DynScalar *values = run->values;
    int64_t index;
    if (v->kind == DYN_RK_ITER) {
        dyn_cpy_range_iterator_set(o, (const int64_t[]){values[v->regs[0]].i, values[v->regs[1]].i, values[v->regs[2]].i});
    } else if (v->kind == DYN_RK_SEQ) {
        dyn_cpy_sequence_iterator_set(o, values[v->regs[v->nregs - 1]].i);
    } else if (v->kind == DYN_RK_ENUM) {
        dyn_cpy_enumerate_set(o, values[list->at[(*at)++].regs[0]].i);
        advance(run, list, at, dyn_cpy_enumerate(o, &index));
    } else {
        for (uint32_t k = 0; k < v->n; k++) {
            advance(run, list, at, PyTuple_GET_ITEM(dyn_cpy_zip(o), k));
        }
    }
}

/* Of a value that may be several things what it is. */
static const DynRegionValue *told_apart(const Run *run, const DynRegionValue *v, DynRegionValue *told) {
    if (!(v->flags & DYN_RF_MAYBE)) {
        return v;
    }
    int64_t what = run->values[v->regs[v->nregs - 1]].i;
    *told = *v;
    told->kind = what == 0 ? DYN_RK_ENTRY : (uint8_t)((what - 1) % 256);
    told->dtype = (uint8_t)((what - 1) / 256);
    return told;
}

/* The object of the value at *at, which is moved behind it. New reference; NULL stands for NULL unless an exception is set. */
static PyObject *make_value(const Run *run, const DynRegionValues *list, uint32_t *at) {
    const DynScalar *values = run->values;
    DynRegionValue told;
    const DynRegionValue *v = told_apart(run, &list->at[(*at)++], &told);
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_NULL:
    case DYN_RK_UFUNC:
    case DYN_RK_COUNT: return NULL;
    case DYN_RK_ENTRY: return Py_XNewRef(run->slots[v->ref]);
    case DYN_RK_CONST: return Py_NewRef(run->r->objects.at[v->ref]);
    case DYN_RK_BOOL: return PyBool_FromLong(values[v->regs[0]].i != 0);
    case DYN_RK_INT: return PyLong_FromLongLong(values[v->regs[0]].i);
    case DYN_RK_FLOAT: return PyFloat_FromDouble(values[v->regs[0]].f);
    case DYN_RK_NP: return make_scalar((DynDtype)v->dtype, values[v->regs[0]]);
    case DYN_RK_ARRAY: return Py_NewRef((PyObject *)(intptr_t)values[v->regs[0]].i);
    case DYN_RK_VIEW: return make_view(v, values);
    case DYN_RK_RANGE: return make_range(v, values);
    case DYN_RK_TUPLE: return make_tuple(run, list, at, v->n);
    case DYN_RK_ITER:
    case DYN_RK_SEQ:
    case DYN_RK_ENUM:
    case DYN_RK_ZIP: break;
    }
    if (v->ref == DYN_NONE) {
        return make_iterator(run, list, at, v);
    }
    (*at)--;
    advance(run, list, at, run->slots[v->ref]);
    return Py_NewRef(run->slots[v->ref]);
}

/* Does the slot's object say what the value does, to the bit? */
static bool is_kept(const Run *run, const DynRegionValue *v, PyObject *o) {
    DynScalar now, then = v->nregs > 0 ? run->values[v->regs[0]] : (DynScalar){.i = 0};
    if (o == NULL) {
        return v->kind == DYN_RK_NULL;
    }
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_INT: return read_int(o, &now.i) && now.i == then.i;
    case DYN_RK_FLOAT:
        now.f = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0.0;
        return PyFloat_CheckExact(o) && now.i == then.i;
    case DYN_RK_NP:
        if (!dyn_npscalar_is(o, v->dtype)) {
            return false;
        }
        dyn_npscalar_value(o, v->dtype, &now);
        return now.i == then.i;
    case DYN_RK_ARRAY: return (intptr_t)then.i == (intptr_t)o;
    default: return false;
    }
}

enum { MOST_SLOTS = 256, MOST_STACK = 64 };

/* What the exit says of slots and stack takes place. Without memory there is no going on: the frame would be half of one. */
static void write_back(Run *run, const DynRegionOut *x) {
    DynRegion *r = run->r;
    PyObject *fresh[MOST_SLOTS], *stack[MOST_STACK], *old;
    uint32_t at = 0;
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
    for (uint32_t i = 0; i < x->nmore; i++) {
        Py_XDECREF(make_value(run, &x->values, &at));
    }
    if (PyErr_Occurred()) {
        Py_FatalError("dynoc: no memory for the values that a loop leaves behind");
    }
    memcpy(r->stack, stack, x->nstack * sizeof(PyObject *)); /* last: making objects may run Python code, and that this region */
    for (uint32_t i = 0; i < r->nslots; i++) {
        old = run->slots[i];
        run->slots[i] = fresh[i];
        Py_XDECREF(old);
    }
}

static bool prepare(DynRegion *r) {
    uint32_t deepest = 1;
    for (uint32_t i = 0; i < r->exits.n; i++) {
        deepest = r->exits.at[i].nstack > deepest ? r->exits.at[i].nstack : deepest;
    }
    if (r->stack == NULL) {
        r->stack = PyMem_RawCalloc(deepest, sizeof(PyObject *));
    }
    return r->stack != NULL && deepest <= MOST_STACK;
}

DynRegionEnd dyn_region_run(DynRegion *r, PyObject **slots, uint32_t nstack, DynRegionExit *exit) {
    enum { FEW = 512 };
    DynScalar few[FEW];
    bool ready = r->interpreted || dyn_region_state(r) == DYN_REGION_READY;
    if (!ready || nstack != r->nstack || r->nslots > MOST_SLOTS || !prepare(r)) {
        return DYN_REGION_NOT_ENTERED;
    }
    Run run = {.r = r, .slots = slots, .values = r->regs.n <= FEW ? few : PyMem_RawMalloc(r->regs.n * sizeof(DynScalar))};
    const DynRegionEntry *e = run.values == NULL ? NULL : find_entry(&run);
    if (e != NULL) {
        const volatile unsigned char *breaker = dyn_cpy_breaker(PyThreadState_Get());
        long after = (long)r->after;
        DynRegionArgs args = {run.values, breaker, (long)e->block, r->force == DYN_NONE ? -1 : (long)r->force, &after};
        exit->exit =
            r->interpreted ? dyn_region_interpret(r, e->block, run.values, breaker) : (uint32_t)r->native->function(&args);
        const DynRegionOut *x = &r->exits.at[exit->exit];
        write_back(&run, x);
        exit->at = x->at;
        exit->nstack = x->nstack;
        exit->stack = r->stack;
        exit->why = x->why;
    }
    if (run.values != few) {
        PyMem_RawFree(run.values);
    }
    return e == NULL ? DYN_REGION_NOT_ENTERED : DYN_REGION_LEFT;
}
