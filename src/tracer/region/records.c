/* records.c: arrays with fields (structured dtypes), np.recarray among them: their columns, their records, and elements of those;
 * and arrays whose elements aren't aligned, as such columns often are. Called by values.c, items.c and step.c.
 *
 * Nothing here is an array to the rest of the planner: elements are read and written, one by one, and other operations are
 * CPython's. A column is a view, and a record np.void or np.record, only where an exit shows it. */
#include "base/cpy_region.h"
#include "tracer/region/plan.h"

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

static PyObject *rec_type(const char *name) {
    static PyObject *array, *scalar; /* strong */
    PyObject **at = name[3] == 'a' ? &array : &scalar;
    if (*at == NULL) {
        *at = dyn_module_attr("numpy", name);
        PyErr_Clear();
    }
    return *at;
}

static void take_registers(Plan *p, PlanValue *v, uint32_t rank) {
    v->v.n = (uint8_t)rank;
    for (uint32_t k = 0; k < 2 + 2 * rank; k++) {
        uint32_t reg = dyn_region_reg(p->r, k < 2 ? 'P' : 'I');
        if (reg == DYN_NONE) {
            plan_stop(p, DYN_R_NO_MEMORY);
            reg = 0;
        }
        v->v.regs[v->v.nregs++] = reg;
    }
}

static bool is_element(DynDtype dt) { return dt != DYN_NO_DTYPE && (plan_is_element(dt) || dt == DYN_U64); }

bool plan_of_records(Plan *p, PyObject *o, PlanValue *v) {
    bool records = (PyObject *)Py_TYPE(o) == rec_type("recarray");
    if (!PyArray_CheckExact(o) && !records) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    DynArrayView view;
    int rank = PyArray_NDIM(a);
    bool fields = dyn_region_has_fields(o);
    bool column = !records && !fields && dyn_array_view(o, &view) && !view.aligned && is_element((DynDtype)view.dtype) &&
                  rank > 0 && view.strides[rank - 1] != (int64_t)dyn_dtypes[view.dtype].size;
    if (rank < 1 || rank > (int)DYN_REGION_RANK || (!fields && !column)) {
        return false;
    }
    *v = plan_value(fields ? DYN_RK_RECORDS : DYN_RK_COLUMN, DYN_NONE);
    v->v.dtype = fields ? 0 : view.dtype;
    if (fields) {
        v->v.ref = plan_const(p, (PyObject *)PyArray_DESCR(a)).v.ref;
        v->v.shape = records;
        if (v->v.ref > UINT8_MAX) { /* by which exits find a record */
            return false;
        }
    }
    v->v.flags = PyArray_ISWRITEABLE(a) && !dyn_array_write_warns(a) ? DYN_RF_WRITEABLE : 0;
    v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    take_registers(p, v, (uint32_t)rank);
    return true;
}

/* The field of that name: where it lies in a record, and of which dtype it is. */
static bool field_of(Plan *p, const PlanValue *a, PyObject *name, DynDtype *dt, int64_t *offset) {
    PyObject *descr = p->r->objects.at[a->v.ref], *fields = PyObject_GetAttrString(descr, "fields");
    PyObject *found = fields == NULL || !PyUnicode_CheckExact(name) ? NULL : PyObject_GetItem(fields, name);
    *dt = DYN_NO_DTYPE;
    if (found != NULL) {
        *dt = dyn_dtype_of((PyArray_Descr *)PyTuple_GET_ITEM(found, 0));
        *offset = PyLong_AsLongLong(PyTuple_GET_ITEM(found, 1));
    }
    Py_XDECREF(found);
    Py_XDECREF(fields);
    PyErr_Clear();
    return is_element(*dt) || no(p, "a field of another kind, or that the dtype hasn't");
}

static PlanValue column(Plan *p, const PlanValue *a, DynDtype dt, int64_t offset) {
    PlanValue v = *a;
    v.v.kind = DYN_RK_COLUMN;
    v.v.dtype = (uint8_t)dt;
    v.v.ref = DYN_NONE;
    v.v.shape = 0;
    v.v.flags = (uint8_t)((a->v.flags & DYN_RF_WRITEABLE) | DYN_RF_FRESH);
    v.v.regs[1] = plan_emit(p, DYN_RO_PADD, a->v.regs[1], plan_iconst(p, offset), DYN_NONE);
    return v;
}

void plan_list_column(DynRegionValue *out) {
    if (out->kind == DYN_RK_COLUMN && out->flags & DYN_RF_FRESH) {
        out->kind = DYN_RK_VIEW;
        out->flags &= (uint8_t)~DYN_RF_FRESH;
    }
}

/* A record as an array of no axes: the object that has the memory, and where it lies. */
static bool record(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out) {
    PlanValue list[2 * DYN_REGION_RANK];
    uint32_t n = plan_indices(p, a, index, list);
    if (n == 0 || n != a->v.n) {
        return n == 0 ? false : no(p, "records along an axis");
    }
    *out = plan_value(DYN_RK_RECORD, a->v.regs[0]);
    out->v.regs[out->v.nregs++] = plan_emit(p, DYN_RO_PADD, a->v.regs[1], plan_offset_of(p, a, list, n), DYN_NONE);
    out->v.ref = a->v.ref;
    out->v.shape = a->v.shape;
    out->v.flags = a->v.flags & DYN_RF_WRITEABLE;
    return true;
}

/* Where the element lies, in `at` an array of no axes: of a record by the name of a field, of a column by indices. */
static bool place_of(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *at, uint32_t *offset) {
    PlanValue list[2 * DYN_REGION_RANK];
    PyObject *name = plan_object(p, index);
    DynDtype dt;
    int64_t where;
    *at = *a;
    if (a->v.kind == DYN_RK_RECORD) {
        if (name == NULL || !field_of(p, a, name, &dt, &where)) {
            return name == NULL ? no(p, "a field that isn't named") : false;
        }
        at->v.dtype = (uint8_t)dt;
        *offset = plan_iconst(p, where);
        return true;
    }
    uint32_t n = plan_indices(p, a, index, list);
    if (n == 0 || n != a->v.n) {
        return n == 0 ? false : no(p, "a row of an array that isn't aligned");
    }
    *offset = plan_offset_of(p, a, list, n);
    return true;
}

bool plan_record_item(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out) {
    PyObject *name = plan_object(p, index);
    DynDtype dt;
    int64_t where;
    PlanValue at;
    uint32_t offset;
    if (a->v.kind == DYN_RK_RECORDS) {
        if (name == NULL || !PyUnicode_CheckExact(name)) {
            return record(p, a, index, out);
        }
        if (!field_of(p, a, name, &dt, &where)) {
            return false;
        }
        *out = column(p, a, dt, where);
        return true;
    }
    if (!place_of(p, a, index, &at, &offset)) {
        return false;
    }
    *out = plan_element(p, &at, offset);
    return true;
}

bool plan_store_record_item(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue v) {
    PlanValue at;
    uint32_t offset, reg;
    if (a->v.kind == DYN_RK_RECORDS || !(a->v.flags & DYN_RF_WRITEABLE)) {
        return no(p, "a whole record or column is stored, or the array can't be written");
    }
    if (!place_of(p, a, index, &at, &offset)) {
        return false;
    }
    if (at.v.dtype == DYN_C128) {
        return no(p, "a complex field is stored");
    }
    if (!plan_as_element(p, v, (DynDtype)at.v.dtype, &reg)) {
        return false;
    }
    plan_settle_doubts(p);
    plan_emit(p, plan_store_op((DynDtype)at.v.dtype), at.v.regs[1], offset, reg);
    return true;
}

/* Is it a field that a np.recarray or np.record has as an attribute? What their classes have comes first. */
bool plan_is_record_field(Plan *p, const PlanValue *a, PyObject *name) {
    DynDtype dt;
    int64_t where;
    PyObject *type = rec_type(a->v.kind == DYN_RK_RECORD ? "record" : "recarray");
    bool may = (a->v.kind == DYN_RK_RECORD || a->v.kind == DYN_RK_RECORDS) && a->v.shape != 0 && type != NULL;
    return may && dyn_cpy_lookup_special((PyTypeObject *)type, name) == NULL && field_of(p, a, name, &dt, &where);
}
