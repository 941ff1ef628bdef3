/* run.c: builds regions and runs them: from a frame's slots into registers, and through native code; leave.c has the way back.
 * Called by evalframe, with the GIL. A region owns its references to objects and its job of the build queue; a run owns the array
 * of register values, and for as long as it lasts the region's spare objects.
 *
 * On the way in nothing is touched before every guard holds, and the spare objects are there that the way out may need. */
#include "codegen/region/region_code.h"
#include "base/cpy_region.h"
#include "codegen/run/flags.h"
#include "ir/region_foreign.h"

/* ---- building */

/* The passes' result is held to the rules of region IR in every build; what breaks them isn't compiled. No GIL. */
void dyn_region_optimise(DynRegion *r) {
    DynStr error = {0};
    if (!r->optimised) {
        dyn_region_unroll(r);
        dyn_region_nests(r);
        dyn_region_hoist(r);
        dyn_region_facts(r);
        r->optimised = true;
        r->malformed = dyn_region_verify(r, &error) < 0;
        dyn_str_free(&error);
    }
}

/* In the build thread, without the GIL: numbers and raw memory alone, and nothing of CPython's, which keeps memory of its own
 * with a thread's interpreter, of which this one has none. The region's registers and blocks are this thread's until it is
 * written; the objects that the region holds, its facts, entries and exits stay as they are, and belong to who has the GIL. */
static DynReason write_region(void *what, DynStr *out) {
    DynRegion *r = what;
    dyn_region_optimise(r);
    if (!r->malformed) {
        dyn_region_source(r, out);
    }
    return r->malformed ? DYN_R_INTERNAL : DYN_R_OK;
}

static void say_malformed(const DynRegion *r) {
    DynStr error = {0};
    (void)dyn_region_verify(r, &error);
    dyn_count("loops", "malformed");
    dyn_log(DYN_LOG_loops, "a loop's region is malformed when it is optimised: %s", dyn_str_at(&error));
    dyn_str_free(&error);
}

static void region_is_written(void *what, bool torn) {
    DynRegion *r = what;
    r->writing--;
    r->torn = r->torn || torn;
    if (!torn && r->malformed) {
        say_malformed(r);
    }
    if (r->dropped && r->writing == 0) {
        dyn_region_free(r);
    }
}

/* The region has its job before anybody waits: whoever waits gives up the GIL, and other threads come to the same region. */
static int submit(DynRegion *r, bool first) {
    static const DynBuildWriter writer = {write_region, region_is_written, &dyn_toolchain_c};
    r->writing++;
    DynBuildText *text = dyn_build_text(&writer, r, first);
    r->writing -= text == NULL;
    DynRegionCode *code = text == NULL || r->native != NULL ? NULL : PyMem_RawCalloc(1, sizeof(*code));
    if (code != NULL) {
        code->text = text;
        r->native = code;
    } else if (text != NULL) { /* no memory, or another thread was faster */
        dyn_build_text_free(text);
    }
    return r->native == NULL ? -1 : 0;
}

/* Once it waits the region isn't looked at again: another thread may have removed it. */
int dyn_region_build(DynRegion *r, bool wait) {
    if (r->native == NULL && submit(r, wait) < 0) {
        return -1;
    }
    if (wait && r->native->function == NULL) {
        dyn_build_text_wait(r->native->text);
    }
    return 0;
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
        if (r->torn) {
            return DYN_REGION_FAILED;
        }
        dyn_build_text_free(native->text);
        PyMem_RawFree(native);
        r->native = NULL;
        return dyn_region_build(r, false) < 0 ? DYN_REGION_FAILED : DYN_REGION_WAITING;
    }
    return DYN_REGION_FAILED;
}

DynReason dyn_region_failure(DynRegion *r, const char **detail) {
    if (detail != NULL) {
        *detail = r->malformed ? "its region is malformed when it is optimised" : "";
    }
    if (!r->torn && r->malformed) {
        return DYN_R_INTERNAL;
    }
    return r->native == NULL ? DYN_R_OK : dyn_build_text_failure(r->native->text, detail);
}

bool dyn_region_exit(const DynRegion *r, uint32_t i, uint32_t *at, uint32_t *nstack) {
    uint32_t distinct = 0;
    for (uint32_t k = 0; k < r->exits.n; k++) {
        bool seen = r->exits.at[k].gives_up;
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

void dyn_region_print_source(const DynRegion *r, DynStr *out) {
    if (r->writing == 0 || r->native == NULL || dyn_build_text_is_written(r->native->text)) {
        dyn_region_source(r, out);
    } else {
        dyn_str_puts(out, "/* a loop whose C is being written */\n");
    }
}

/* What another thread removes while it runs, or while it is written, is freed when that has ended. What a fork has torn isn't. */
void dyn_region_free(DynRegion *r) {
    if (r == NULL) {
        return;
    }
    if (r->native != NULL && r->running == 0) {
        dyn_build_text_free(r->native->text);
        PyMem_RawFree(r->native);
        r->native = NULL;
    }
    r->removed = r->running > 0;
    r->dropped = !r->removed && (r->writing > 0 || r->torn);
    if (r->removed || r->dropped) {
        return;
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
    dyn_vec_free(&r->parts);
    dyn_vec_free(&r->pauses);
    dyn_vec_free(&r->regs);
    dyn_vec_free(&r->blocks);
    dyn_vec_free(&r->entries);
    dyn_vec_free(&r->exits);
    dyn_vec_free(&r->facts);
    dyn_vec_free(&r->routines);
    dyn_vec_free(&r->objects);
    dyn_region_free_spares(r->spares);
    PyMem_RawFree(r->stack);
    PyMem_RawFree(r);
}

/* ---- the way in */

static PyObject *dict_item(PyObject *dict, PyObject *name) {
    Py_hash_t hash = PyObject_Hash(name);
    return dyn_cpy_dict_item(dict, name, hash);
}

/* The cell at its place in the closure of a function that was made for this call, or NULL. */
static PyObject *cell_of_closure(const DynRegionRun *run, const DynRegionFact *f) {
    PyObject *o = f->of >= DYN_REGION_OF_EXTRA ? run->extras[f->of - DYN_REGION_OF_EXTRA] : run->slots[f->of];
    PyObject *cells = o != NULL && PyFunction_Check(o) ? PyFunction_GET_CLOSURE(o) : NULL;
    bool there = cells != NULL && (Py_ssize_t)f->index < PyTuple_GET_SIZE(cells);
    return there ? PyTuple_GET_ITEM(cells, f->index) : NULL;
}

/* A cell that the frame has too is known as that slot's, as the loop may store to it. */
static bool holds_of_closure(DynRegionRun *run, const DynRegionFact *f) {
    PyObject *cell = cell_of_closure(run, f);
    if (f->extra == DYN_NONE) {
        return cell != NULL && cell == run->slots[f->slot];
    }
    for (uint32_t i = 0; i < run->r->nslots; i++) {
        if (run->slots[i] == cell) {
            return false;
        }
    }
    run->extras[f->extra] = cell != NULL && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
    return run->extras[f->extra] != NULL;
}

static bool holds(DynRegionRun *run, const DynRegionFact *f) {
    if (f->closure) {
        return holds_of_closure(run, f);
    }
    if (f->function) {
        PyFunctionObject *function = (PyFunctionObject *)f->dict;
        return function->func_code == f->name && function->func_defaults == f->value;
    }
    if (f->class) {
        run->extras[f->extra] = f->value;
        return dyn_cpy_class_is((PyTypeObject *)f->value, f->slot, f->nkeys);
    }
    if (f->object) {
        run->extras[f->extra] = f->value;
        return f->name == NULL || dyn_foreign_is_as(f->value, f->name);
    }
    if (f->cell) {
        PyObject *cell = f->dict != NULL ? f->dict : run->slots[f->slot];
        run->extras[f->extra] = cell != NULL && PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
        return run->extras[f->extra] != NULL;
    }
    if (f->attribute) {
        PyObject *o = f->dict != NULL ? f->dict : run->slots[f->slot];
        if (o != NULL && f->value != NULL) {
            return dyn_cpy_method_of(o, f->name) == f->value;
        }
        run->extras[f->extra] = o == NULL ? NULL : dyn_cpy_own_attribute(o, f->name);
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
    if (v->flags & DYN_RF_DROPPABLE && v->kind == DYN_RK_ARRAY && !dyn_region_is_droppable(o)) {
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
    bool near = true;
    for (uint32_t k = 0; k < v->n; k++) {
        near = near && view.dims[k] >> DYN_REGION_NEAR_BITS == 0;
        values[v->regs[2 + k]].i = view.dims[k];
        values[v->regs[2 + v->n + k]].i = view.strides[k];
    }
    return near;
}

static bool read_records(const DynRegionRun *run, PyObject *o, const DynRegionValue *v, DynScalar *values) {
    bool records = v->kind == DYN_RK_RECORDS;
    PyArrayObject *a = (PyArrayObject *)o;
    PyTypeObject *type = records && v->shape != 0 ? dyn_region_recarray() : &PyArray_Type;
    DynArrayView view;
    if (!Py_IS_TYPE(o, type) || PyArray_NDIM(a) != v->n || (v->flags & DYN_RF_DROPPABLE && !dyn_region_is_droppable(o))) {
        return false;
    }
    PyArray_Descr *wanted = records ? (PyArray_Descr *)run->r->objects.at[v->ref] : NULL;
    if (records ? !dyn_region_has_fields(o) || (PyArray_DESCR(a) != wanted && !PyArray_EquivTypes(PyArray_DESCR(a), wanted))
                : !dyn_array_view(o, &view) || view.dtype != v->dtype) {
        return false;
    }
    if (v->flags & DYN_RF_WRITEABLE && (!PyArray_ISWRITEABLE(a) || dyn_array_write_warns(a))) {
        return false;
    }
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    values[v->regs[1]].i = (int64_t)(intptr_t)PyArray_BYTES(a);
    for (uint32_t k = 0; k < v->n; k++) {
        values[v->regs[2 + k]].i = PyArray_DIM(a, k);
        values[v->regs[2 + v->n + k]].i = PyArray_STRIDE(a, k);
    }
    return true;
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
static bool read_value(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, PyObject *o);

static bool read_iterators(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v,
                           PyObject *o) {
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
        if (dyn_region_is_shared_iterator(PyTuple_GET_ITEM(all, k)) || !read_value(run, list, at, PyTuple_GET_ITEM(all, k))) {
            return false;
        }
    }
    return true;
}

/* A list, whose first item is of a kind that is expected. */
static bool read_list(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    bool tuple = (v->flags & DYN_RF_TUPLE) != 0;
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    if (tuple ? !PyTuple_CheckExact(o) : !PyList_CheckExact(o)) {
        return false;
    }
    if (v->flags & DYN_RF_DROPPABLE && !dyn_region_is_droppable(o)) {
        return false;
    }
    return v->ref == DYN_NONE || (dyn_region_shape(o, 1, DYN_RL_DEPTH) & ~v->ref) == 0;
}

static bool read_object(const DynRegionValue *v, PyObject *o, PyTypeObject *type, DynScalar *values) {
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    return Py_IS_TYPE(o, type) && (!(v->flags & DYN_RF_DROPPABLE) || dyn_region_is_droppable(o));
}

static bool read_function(const DynRegionValue *v, PyObject *o, PyObject *facts, DynScalar *values) {
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    return dyn_cpy_function_is(o, facts);
}

static bool read_method(const DynRegionValue *v, PyObject *o, PyObject *method, DynScalar *values) {
    PyObject *self = dyn_region_bound_to(o, method);
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    values[v->regs[1]].i = (int64_t)(intptr_t)self;
    return self != NULL;
}

static bool read_text(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    const char *data;
    uint8_t which;
    if (!dyn_region_text_of(o, &which, &data, &values[v->regs[2]].i) || which != v->n) {
        return false;
    }
    values[v->regs[0]].i = (int64_t)(intptr_t)o;
    values[v->regs[1]].i = (int64_t)(intptr_t)data;
    return true;
}

static bool read_char(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    const char *data;
    uint8_t which;
    int64_t n;
    if (!dyn_region_text_of(o, &which, &data, &n) || which != DYN_TEXT_STR || n != 1) {
        return false;
    }
    values[v->regs[0]].i = (unsigned char)*data;
    return true;
}

static bool read_list_iterator(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v,
                               PyObject *o) {
    PyObject *over = dyn_cpy_list_iterator(o, &run->values[v->regs[0]].i);
    return over != NULL && read_value(run, list, at, over);
}

static bool read_dict_iterator(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v,
                               PyObject *o) {
    int which;
    int64_t state[3];
    PyObject *over = dyn_cpy_dict_iterator(o, &which, state);
    for (int k = 0; over != NULL && k < 3; k++) {
        run->values[v->regs[k]].i = state[k];
    }
    return over != NULL && which == v->kind - DYN_RK_KEYITER && read_value(run, list, at, over);
}

static bool read_cell(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, PyObject *o) {
    return PyCell_Check(o) && read_value(run, list, at, PyCell_GET(o));
}

/* A generator of the function's code that nobody else has, where it was expected to stand. Its frame is its own until the exit
 * writes there; so are iterators that lie on its stack. */
static bool read_generator(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, const DynRegionValue *v,
                           PyObject *o) {
    const DynRegionPause *pause = &run->r->pauses.at[v->shape];
    uint32_t stands;
    if (!dyn_generator_is_paused(o, &stands) || stands != pause->at || Py_REFCNT(o) != 1) {
        return false;
    }
    DynFrame *f = dyn_frame_of_generator(o);
    PyFunctionObject *function = (PyFunctionObject *)pause->function;
    bool same = (PyObject *)dyn_frame_code(f) == function->func_code && dyn_frame_globals(f) == function->func_globals &&
                dyn_frame_builtins(f) == function->func_builtins &&
                v->n == dyn_code_nlocalsplus(dyn_frame_code(f)) + dyn_frame_depth(f);
    for (uint32_t i = 0; same && i < v->n; i++) {
        bool iterates = dyn_region_iterates(list->at[*at].kind);
        PyObject *held = dyn_frame_has_number(f, i) ? NULL : dyn_frame_get(f, i);
        same = !dyn_frame_has_number(f, i) && (!iterates || (held != NULL && Py_REFCNT(held) == 1)) &&
               read_value(run, list, at, held);
    }
    return same;
}

static bool read_number(const DynRegionValue *v, PyObject *o, DynScalar *value) {
    switch (v->kind) {
    case DYN_RK_BOOL: value->i = o == Py_True; return PyBool_Check(o);
    case DYN_RK_INT: return dyn_region_read_int(o, &value->i);
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

static bool read_complex(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    if (v->dtype == DYN_C128 ? !dyn_npscalar_is(o, DYN_C128) : !PyComplex_CheckExact(o)) {
        return false;
    }
    values[v->regs[0]].f = PyComplex_RealAsDouble(o);
    values[v->regs[1]].f = PyComplex_ImagAsDouble(o);
    return true;
}

static bool read_ufunc(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    void *loop, *data;
    bool is = v->shape == 0 ? dyn_region_ufunc(o, v->n, &loop, &data) : dyn_region_ufunc_at(o, v->n, v->shape - 1, &loop, &data);
    if (is) {
        values[v->regs[0]].i = (int64_t)(intptr_t)loop;
        values[v->regs[1]].i = (int64_t)(intptr_t)data;
    }
    return is;
}

static bool read_rng(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    void *function, *state;
    uint8_t which;
    bool is = dyn_region_rng(o, &which, &function, &state) && which == v->n;
    if (is) {
        values[v->regs[0]].i = (int64_t)(intptr_t)o;
        values[v->regs[1]].i = (int64_t)(intptr_t)function;
        values[v->regs[2]].i = (int64_t)(intptr_t)state;
    }
    return is;
}

/* Where a fact says that it is as it was when the loop was planned, it is known where the address lies. */
static bool read_foreign(const DynRegionValue *v, PyObject *o, DynScalar *values) {
    DynForeign f = {.signature = v->ref};
    bool is = v->n != 0 || (dyn_foreign_of(o, &f) && f.signature == v->ref);
    if (is) {
        values[v->regs[0]].i = (int64_t)(intptr_t)(v->n != 0 ? dyn_foreign_address(o, v->n) : f.address);
    }
    return is;
}

static bool read_value(const DynRegionRun *run, const DynRegionValues *list, uint32_t *at, PyObject *o) {
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
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN: return read_records(run, o, v, values);
    case DYN_RK_ITER: return read_range_iterator(o, v, values);
    case DYN_RK_SEQ: return read_array_iterator(o, v, values);
    case DYN_RK_ENUM:
    case DYN_RK_ZIP: return read_iterators(run, list, at, v, o);
    case DYN_RK_UFUNC: return read_ufunc(v, o, values);
    case DYN_RK_LIST: return read_list(v, o, values);
    case DYN_RK_INST: return read_object(v, o, (PyTypeObject *)run->r->objects.at[v->ref], values);
    case DYN_RK_CLASS: return read_object(v, o, Py_TYPE(o), values); /* a fact: it is that class */
    case DYN_RK_METHOD: return read_method(v, o, run->r->objects.at[v->ref], values);
    case DYN_RK_RNG: return read_rng(v, o, values);
    case DYN_RK_MADE: return read_function(v, o, run->r->objects.at[v->ref], values);
    case DYN_RK_FOREIGN: return read_foreign(v, o, values);
    case DYN_RK_DICT: return o != run->r->namespace && dyn_region_dict_kind(o) == v->n && read_object(v, o, Py_TYPE(o), values);
    case DYN_RK_SET: return read_object(v, o, &PySet_Type, values);
    case DYN_RK_DEQUE: return read_object(v, o, dyn_cpy_deque_type(), values);
    case DYN_RK_TEXT: return read_text(v, o, values);
    case DYN_RK_CELL: return read_cell(run, list, at, o);
    case DYN_RK_COMPLEX: return read_complex(v, o, values);
    case DYN_RK_CHAR: return read_char(v, o, values);
    case DYN_RK_LISTITER: return read_list_iterator(run, list, at, v, o);
    case DYN_RK_PAUSED: return read_generator(run, list, at, v, o);
    case DYN_RK_KEYITER:
    case DYN_RK_VALUEITER:
    case DYN_RK_ITEMITER:
    case DYN_RK_SETITER: return read_dict_iterator(run, list, at, v, o);
    case DYN_RK_NULL:
    case DYN_RK_ENTRY:
    case DYN_RK_DICTVIEW:
    case DYN_RK_ADDRESS:
    case DYN_RK_RECORD:
    case DYN_RK_VIEW:
    case DYN_RK_RANGE:
    case DYN_RK_TUPLE:
    case DYN_RK_FUNC:
    case DYN_RK_GEN:
    case DYN_RK_SLICE:
    case DYN_RK_SLICED:
    case DYN_RK_LITERAL:
    case DYN_RK_EXPR:
    case DYN_RK_PARTS:
    case DYN_RK_COUNT: break;
    }
    return false;
}

static bool enters(const DynRegionRun *run, const DynRegionEntry *e) {
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
static const DynRegionEntry *find_entry(DynRegionRun *run) {
    DynRegion *r = run->r;
    for (uint32_t i = 0; i < r->facts.n; i++) {
        if (!holds(run, &r->facts.at[i])) {
            return NULL;
        }
    }
    int reported = (r->warns ? FE_UNDERFLOW : 0) | (r->wraps ? FE_OVERFLOW : 0);
    if (reported != 0 && (dyn_flags_wanted(reported) & reported) != 0) {
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

/* Room for what is handed out, and objects for when memory is out: false, the region isn't entered. */
static bool prepare(DynRegion *r, DynRegionRun *run) {
    uint32_t deepest = 1;
    for (uint32_t i = 0; i < r->exits.n; i++) {
        deepest = r->exits.at[i].nstack > deepest ? r->exits.at[i].nstack : deepest;
    }
    if (r->stack == NULL) {
        r->stack = PyMem_RawCalloc(deepest, sizeof(PyObject *));
    }
    return r->stack != NULL && deepest <= DYN_REGION_STACK && dyn_region_take_spares(r, run);
}

/* ---- regions beside which other code may run: other threads while the GIL is released, and what is called back */

/* Can what is in the object have changed, or where it lies? Numbers can't, and what is in lists and dicts is looked at where it
 * is read. */
static bool may_change(const DynRegionValue *v) {
    switch ((DynRegionKind)v->kind) {
    case DYN_RK_ARRAY:
    case DYN_RK_RECORDS:
    case DYN_RK_COLUMN:
    case DYN_RK_TEXT:
    case DYN_RK_CELL:
    case DYN_RK_INST:
    case DYN_RK_MADE:
    case DYN_RK_RNG: return true;
    default: return dyn_region_iterates(v->kind);
    }
}

/* Does the value at *at read as it did? *at is moved behind it. */
static bool reads_again(const DynRegionRun *now, const DynRegionRun *run, uint32_t *at, PyObject *o) {
    const DynRegionValues *list = &run->entry->values;
    uint32_t first = *at;
    if (!may_change(&list->at[first])) {
        ++*at;
        return true;
    }
    if (!read_value(now, list, at, o)) {
        return false;
    }
    for (uint32_t i = first; i < *at; i++) {
        for (uint32_t k = 0; k < list->at[i].nregs; k++) {
            if (now->values[list->at[i].regs[k]].i != run->entered[list->at[i].regs[k]].i) {
                return false;
            }
        }
    }
    return true;
}

/* Does what the run began with differ from what is there now? Facts and the way in are asked again. Who traces is to be told. */
static bool is_changed(void *of) {
    const DynRegionRun *run = of;
    const DynRegion *r = run->r;
    DynRegionRun now;
    if (dyn_cpy_is_traced(PyThreadState_Get())) {
        return true;
    }
    now.r = run->r;
    now.slots = run->slots;
    now.values = run->again;
    memcpy(now.extras, run->extras, r->nextra * sizeof *now.extras);
    for (uint32_t i = 0; i < r->facts.n; i++) {
        if (!holds(&now, &r->facts.at[i])) {
            return true;
        }
    }
    bool same = memcmp(now.extras, run->extras, r->nextra * sizeof *now.extras) == 0;
    uint32_t own = r->nslots + r->nstack;
    for (uint32_t i = 0, at = 0; same && at < run->entry->values.n; i++) {
        same = reads_again(&now, run, &at, i < own ? run->slots[i] : run->extras[i - own]);
    }
    return !same;
}

/* The run has what comes in beside the slots for itself. false: memory is out. */
static bool begin_beside_others(DynRegionRun *run, DynRegionMade *made, const DynRegionEntry *e) {
    DynRegion *r = run->r;
    run->entered = r->releases ? PyMem_RawMalloc(2 * r->regs.n * sizeof(DynScalar)) : NULL;
    if (run->entered == NULL) {
        return !r->releases;
    }
    run->again = run->entered + r->regs.n;
    run->entry = e;
    memcpy(run->entered, run->values, r->regs.n * sizeof(DynScalar));
    for (uint32_t i = 0; i < r->nextra; i++) {
        Py_XINCREF(run->extras[i]);
    }
    made->held[0] = run->slots;
    made->nheld[0] = r->nslots + r->nstack;
    made->held[1] = run->extras;
    made->nheld[1] = r->nextra;
    made->is_changed = is_changed;
    made->run = run;
    return true;
}

static void end_beside_others(DynRegionRun *run) {
    for (uint32_t i = 0; run->entered != NULL && i < run->r->nextra; i++) {
        Py_XDECREF(run->extras[i]);
    }
    PyMem_RawFree(run->entered);
}

/* From the block of the entry to an exit, and the way out. false: it isn't entered. */
static bool run_from(DynRegionRun *run, const DynRegionEntry *e, DynRegionExit *exit) {
    DynRegion *r = run->r;
    const volatile unsigned char *breaker = dyn_cpy_breaker(PyThreadState_Get());
    long after = (long)r->after;
    DynRegionArgs args = {run->values, breaker, dyn_region_world(), (long)e->block, r->force == DYN_NONE ? -1 : (long)r->force,
                          &after};
    DynScalar results[DYN_ROUTINE_VALUES];
    DynRegionCalls calls = {.left = r->routines.n > 0 ? dyn_cpy_calls_left(&args.floor) / (r->deepest + 1) : 0};
    args.left = calls.left;
    args.results = results;
    DynRegionMade made, *outer = dyn_region_made;
    made.n = 0;
    made.more = NULL;
    made.nmore = 0;
    made.nitems = 0;
    made.narrays = 0;
    if (!begin_beside_others(run, &made, e)) {
        return false;
    }
    dyn_region_enter_made(&made);
    dyn_region_forget_arrays();
    bool held = r->makes && dyn_cpy_hold_collector();
    exit->exit =
        r->interpreted ? dyn_region_interpret(r, e->block, run->values, breaker, &calls) : (uint32_t)r->native->function(&args);
    dyn_region_enter_made(outer);
    dyn_region_undo(); /* of a call that hasn't ended */
    dyn_cpy_release_collector(held);
    const DynRegionOut *x = &r->exits.at[exit->exit];
    dyn_region_write_back(run, x);
    dyn_region_drop_made(&made);
    exit->at = x->at;
    exit->nstack = x->nstack;
    exit->stack = r->stack;
    exit->why = x->why;
    exit->gave_up = (uint8_t)(r->interpreted ? calls.gave_up : args.gave_up);
    return true;
}

/* What was removed while it ran: its stack is the caller's until another one is. */
static void end_run(DynRegion *r) {
    static DynRegion *removed;
    if (--r->running == 0 && r->removed) {
        DynRegion *before = removed;
        removed = r;
        dyn_region_free(before);
    }
}

DynRegionEnd dyn_region_run(DynRegion *r, PyObject **slots, uint32_t nstack, DynRegionExit *exit) {
    enum { FEW = 512 };
    DynScalar few[FEW];
    bool ready = r->interpreted || dyn_region_state(r) == DYN_REGION_READY;
    DynRegionRun run = {.r = r, .slots = slots};
    if (!ready || nstack != r->nstack || r->nslots > DYN_REGION_SLOTS || !prepare(r, &run)) {
        return DYN_REGION_NOT_ENTERED;
    }
    r->running++;
    run.values = r->regs.n <= FEW ? few : PyMem_RawMalloc(r->regs.n * sizeof(DynScalar));
    const DynRegionEntry *e = run.values == NULL ? NULL : find_entry(&run);
    bool left = e != NULL && run_from(&run, e, exit);
    if (run.values != few) {
        PyMem_RawFree(run.values);
    }
    dyn_region_return_spares(r, &run);
    end_beside_others(&run);
    end_run(r);
    return left ? DYN_REGION_LEFT : DYN_REGION_NOT_ENTERED;
}
