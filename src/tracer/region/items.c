/* items.c: elements and rows of arrays, read and written, and what loops go over. Called by step.c and calls.c.
 *
 * An array's registers are the object, its data, sizes, strides (region_ir.h). A row is a view without an object: it becomes one
 * only where an exit shows it. */
#include "tracer/region/plan.h"

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

static uint32_t size_of(const PlanValue *a, uint32_t axis) { return a->v.regs[2 + axis]; }

uint32_t plan_stride(Plan *p, const PlanValue *a, uint32_t axis) {
    if (axis + 1 == a->v.n && a->v.flags & DYN_RF_CONTIGUOUS) {
        return plan_iconst(p, dyn_dtypes[a->v.dtype].size);
    }
    return a->v.regs[2 + a->v.n + axis];
}

/* Where the element or row of the first n indices lies: its distance from the data in bytes. */
uint32_t plan_offset_of(Plan *p, const PlanValue *a, PlanValue *index, uint32_t n) {
    uint32_t sum = DYN_NONE;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = plan_emit_or(p, DYN_RO_IDX, plan_reg(p, &index[k]), size_of(a, k), DYN_NONE, DYN_R_EXCEPTION);
        uint32_t bytes = plan_emit(p, DYN_RO_IMULW, i, plan_stride(p, a, k), DYN_NONE);
        sum = sum == DYN_NONE ? bytes : plan_emit(p, DYN_RO_IADDW, sum, bytes, DYN_NONE);
    }
    return sum;
}

/* An index as a list of ints; how many, or 0. */
uint32_t plan_indices(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out) {
    PyObject *o = plan_object(p, index);
    uint32_t n = 1;
    out[0] = *index;
    if (o != NULL && PyTuple_CheckExact(o)) {
        n = (uint32_t)PyTuple_GET_SIZE(o);
        for (uint32_t k = 0; k < n && n <= a->v.n; k++) {
            out[k] = plan_const(p, PyTuple_GET_ITEM(o, k));
        }
    } else if (index->v.kind == DYN_RK_TUPLE) {
        n = index->v.n;
        for (uint32_t k = 0; k < n && n <= a->v.n; k++) {
            out[k] = index->items[k];
        }
    }
    if (n == 0 || n > a->v.n) {
        no(p, n == 0 ? DYN_R_UNSUPPORTED_OP : DYN_R_EXCEPTION, "as many indices");
        return 0;
    }
    for (uint32_t k = 0; k < n; k++) {
        out[k] = plan_word_as_int(p, out[k]);
        if (!plan_is_integer(&out[k])) {
            no(p, DYN_R_UNSUPPORTED_OP, "an index that is no int");
            return 0;
        }
    }
    return n;
}

static const struct Access {
    DynDtype dt;
    DynRegionOp load, store;
} accesses[] = {
    {DYN_BOOL, DYN_RO_LDBOOL, DYN_RO_STBOOL}, {DYN_I8, DYN_RO_LDI8, DYN_RO_STI8},    {DYN_U8, DYN_RO_LDU8, DYN_RO_STU8},
    {DYN_I16, DYN_RO_LDI16, DYN_RO_STI16},    {DYN_U16, DYN_RO_LDU16, DYN_RO_STU16}, {DYN_I32, DYN_RO_LDI32, DYN_RO_STI32},
    {DYN_U32, DYN_RO_LDU32, DYN_RO_STU32},    {DYN_I64, DYN_RO_LDI64, DYN_RO_STI64}, {DYN_U64, DYN_RO_LDI64, DYN_RO_STI64},
    {DYN_F32, DYN_RO_LDF32, DYN_RO_STF32},    {DYN_F64, DYN_RO_LDF64, DYN_RO_STF64}};

static const struct Access *access_of(DynDtype dt) {
    for (size_t k = 0; k < DYN_COUNTOF(accesses); k++) {
        if (accesses[k].dt == dt) {
            return &accesses[k];
        }
    }
    return NULL;
}

DynRegionOp plan_load_op(DynDtype dt) { return access_of(dt)->load; }
DynRegionOp plan_store_op(DynDtype dt) { return access_of(dt)->store; }

static PlanValue view_of(Plan *p, const PlanValue *a, uint32_t offset, uint32_t dropped) {
    PlanValue v = plan_value(DYN_RK_VIEW, DYN_NONE);
    v.v.dtype = a->v.dtype;
    v.v.n = (uint8_t)(a->v.n - dropped);
    v.sizes = a->sizes == NULL ? NULL : a->sizes + dropped;
    v.v.flags = a->v.flags & (uint8_t)~DYN_RF_DROPPABLE;
    v.v.regs[v.v.nregs++] = a->v.regs[0];
    v.v.regs[v.v.nregs++] = plan_emit(p, DYN_RO_PADD, a->v.regs[1], offset, DYN_NONE);
    for (uint32_t k = dropped; k < a->v.n; k++) {
        v.v.regs[v.v.nregs++] = size_of(a, k);
    }
    for (uint32_t k = dropped; k < a->v.n; k++) {
        v.v.regs[v.v.nregs++] = a->v.regs[2 + a->v.n + k];
    }
    return v;
}

PlanValue plan_element(Plan *p, const PlanValue *a, uint32_t offset) {
    if (a->v.dtype == DYN_C128) {
        uint32_t behind = plan_emit(p, DYN_RO_IADDW, offset, plan_iconst(p, sizeof(double)), DYN_NONE);
        uint32_t real = plan_emit(p, DYN_RO_LDF64, a->v.regs[1], offset, DYN_NONE);
        return plan_np_complex(real, plan_emit(p, DYN_RO_LDF64, a->v.regs[1], behind, DYN_NONE));
    }
    const struct Access *access = access_of((DynDtype)a->v.dtype);
    return plan_np((DynDtype)a->v.dtype, plan_emit(p, access->load, a->v.regs[1], offset, DYN_NONE));
}

static bool tuple_item(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue *out) {
    int64_t i = index->number.i;
    if (!index->known || index->v.kind != DYN_RK_INT || i < -(int64_t)a->v.n || i >= a->v.n) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an index that isn't known");
    }
    *out = a->items[i < 0 ? i + a->v.n : i];
    return true;
}

enum { MOST_PARTS = 2 * DYN_REGION_RANK }; /* of an index: axes, and new ones */

static bool is_new_axis(Plan *p, const PlanValue *part) { return plan_object(p, part) == Py_None; }

/* An index with slices or new axes among its parts: how many parts, 0: it isn't one. Slices that are objects are looked into. */
static uint32_t slice_parts(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue out[MOST_PARTS]) {
    PyObject *o = plan_object(p, index);
    bool constant = o != NULL && PyTuple_CheckExact(o), tuple = index->v.kind == DYN_RK_TUPLE, any = false;
    uint32_t n = constant ? (uint32_t)PyTuple_GET_SIZE(o) : tuple ? index->v.n : 1, added = 0;
    for (uint32_t k = 0; k < n && n <= MOST_PARTS; k++) {
        PlanValue part = constant ? plan_const(p, PyTuple_GET_ITEM(o, k)) : tuple ? index->items[k] : *index;
        out[k] = plan_const_slice(p, part);
        any = any || out[k].v.kind == DYN_RK_SLICE || is_new_axis(p, &out[k]);
        added += is_new_axis(p, &out[k]);
        if (out[k].v.kind != DYN_RK_SLICE && !is_new_axis(p, &out[k]) && !plan_is_integer(&out[k])) {
            return 0;
        }
    }
    return any && n - added <= a->v.n && a->v.n + added <= DYN_REGION_RANK ? n : 0;
}

/* A view that is being made, axis by axis. */
typedef struct View {
    uint32_t offset, rank, sizes[DYN_REGION_RANK], strides[DYN_REGION_RANK];
    int64_t *most; /* as PlanValue.sizes */
    bool contiguous;
} View;

static void add_axis(View *v, uint32_t size, uint32_t stride, int64_t most) {
    v->sizes[v->rank] = size;
    v->strides[v->rank] = stride;
    v->most[v->rank++] = most;
}

/* The next axis of the array, by a part of the index or, with NULL, all of it. */
static bool add_part(Plan *p, View *v, const PlanValue *a, uint32_t axis, PlanValue *part) {
    uint32_t at, where, by, stride = plan_stride(p, a, axis);
    int64_t most = a->sizes == NULL ? -1 : a->sizes[axis];
    bool last = axis + 1 == a->v.n;
    if (part == NULL) {
        add_axis(v, size_of(a, axis), stride, most);
        return true;
    }
    if (part->v.kind == DYN_RK_SLICE) {
        if (!plan_slice_of(p, size_of(a, axis), part, &where, &by)) {
            return false;
        }
        const PlanValue *step = &part->items[2];
        bool one = plan_object(p, step) == Py_None || (step->known && step->number.i == 1);
        at = plan_emit(p, DYN_RO_SLICEAT, where, DYN_NONE, DYN_NONE);
        uint32_t size = plan_emit(p, DYN_RO_SLICEN, where, DYN_NONE, DYN_NONE);
        add_axis(v, size, one ? stride : plan_emit(p, DYN_RO_IMULW, stride, by, DYN_NONE), most);
        v->contiguous = v->contiguous && (one || !last);
    } else {
        at = plan_emit_or(p, DYN_RO_IDX, plan_reg(p, part), size_of(a, axis), DYN_NONE, DYN_R_EXCEPTION);
        v->contiguous = v->contiguous && !last;
    }
    at = plan_emit(p, DYN_RO_IMULW, at, stride, DYN_NONE);
    v->offset = plan_emit(p, DYN_RO_IADDW, v->offset, at, DYN_NONE);
    return true;
}

/* a[i, j:k], a[:, None]: a view, of which a part is an index, a slice with a known step, or a new axis. */
static bool slice_array(Plan *p, const PlanValue *a, PlanValue *part, uint32_t n, PlanValue *out) {
    View view = {.offset = plan_iconst(p, 0), .contiguous = (a->v.flags & DYN_RF_CONTIGUOUS) != 0};
    uint32_t axis = 0;
    view.most = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    if (view.most == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return no(p, DYN_R_NO_MEMORY, "memory");
    }
    for (uint32_t k = 0; k < n; k++) {
        if (is_new_axis(p, &part[k])) {
            add_axis(&view, plan_iconst(p, 1), plan_iconst(p, 0), 1);
            view.contiguous = view.contiguous && axis < a->v.n;
        } else if (!add_part(p, &view, a, axis++, &part[k])) {
            return false;
        }
    }
    while (axis < a->v.n) {
        add_part(p, &view, a, axis++, NULL);
    }
    PlanValue v = plan_value(DYN_RK_VIEW, DYN_NONE);
    v.v.dtype = a->v.dtype;
    v.v.n = (uint8_t)view.rank;
    v.sizes = view.most;
    v.v.flags = (uint8_t)((a->v.flags & DYN_RF_WRITEABLE) | (view.contiguous ? DYN_RF_CONTIGUOUS : 0));
    v.v.regs[v.v.nregs++] = a->v.regs[0];
    v.v.regs[v.v.nregs++] = plan_emit(p, DYN_RO_PADD, a->v.regs[1], view.offset, DYN_NONE);
    for (uint32_t k = 0; k < 2 * view.rank; k++) {
        v.v.regs[v.v.nregs++] = k < view.rank ? view.sizes[k] : view.strides[k - view.rank];
    }
    *out = v;
    return true;
}

bool plan_item(Plan *p, PlanValue a, PlanValue index, PlanValue *out) {
    PlanValue list[MOST_PARTS];
    if (plan_has_records(&a)) {
        return plan_record_item(p, &a, &index, out);
    }
    uint32_t parts = plan_is_array(&a) ? slice_parts(p, &a, &index, list) : 0;
    if (plan_is_array(&a) && plan_is_whole(&index)) {
        return index.v.dtype == DYN_BOOL ? plan_take_masked(p, &a, &index, out) : plan_take_at(p, &a, index, out);
    }
    if (parts > 0) {
        return slice_array(p, &a, list, parts, out);
    }
    a = plan_text(p, &a);
    if (a.v.kind == DYN_RK_TEXT) {
        return index.v.kind == DYN_RK_SLICE ? plan_text_slice(p, a, index, out) : plan_text_item(p, a, index, out);
    }
    if (index.v.kind == DYN_RK_SLICE) {
        return plan_slice_item(p, a, index, out);
    }
    a = plan_tuple_object(p, &a);
    if (a.v.kind == DYN_RK_LIST) {
        PlanItem item;
        return plan_list_item(p, a, index, &item) && plan_single_item(p, &item, out);
    }
    if (a.v.kind == DYN_RK_TUPLE) {
        return tuple_item(p, &a, &index, out);
    }
    if (!plan_is_array(&a)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an item of an object that is no array");
    }
    uint32_t n = plan_indices(p, &a, &index, list);
    if (n == 0) {
        return false;
    }
    uint32_t offset = plan_offset_of(p, &a, list, n);
    *out = n == a.v.n ? plan_element(p, &a, offset) : view_of(p, &a, offset, n);
    return true;
}

/* ---- stores */

/* A number as an element of integers: those that aren't whole are cut off, integers of NumPy's that are stored as unsigned ones
 * to the bits that there are, and what else doesn't fit is NumPy's to report. */
static uint32_t as_integer(Plan *p, PlanValue v, DynDtype dt) {
    uint32_t reg;
    bool integer = v.v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)v.v.dtype);
    if (v.v.kind == DYN_RK_FLOAT || (v.v.kind == DYN_RK_NP && dyn_dtype_is_inexact((DynDtype)v.v.dtype))) {
        plan_double(p, v, &reg);
        reg = plan_emit_or(p, DYN_RO_D2I, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
    } else {
        reg = plan_reg(p, &v);
    }
    bool is_unsigned = dyn_dtypes[dt].kind == 'u';
    bool fits = dt == DYN_I64 || (integer && (v.v.dtype == dt || dyn_dtypes[v.v.dtype].size < dyn_dtypes[dt].size));
    if (integer && is_unsigned) {
        return v.v.dtype == dt ? reg : plan_wrapped(p, reg, dt);
    }
    if (!fits) {
        int bits = 8 * dyn_dtypes[dt].size;
        plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
        plan_last(p)->imm.i = is_unsigned ? -bits : bits;
    }
    return reg;
}

bool plan_as_element(Plan *p, PlanValue v, DynDtype dt, uint32_t *reg) {
    int known;
    if (dt == DYN_U64 && !plan_is_float(&v)) {
        if (plan_is_integer(&v) && v.v.kind == DYN_RK_NP) {
            *reg = plan_reg(p, &v);
            return true;
        }
        return plan_word(p, v, reg);
    }
    v = dt != DYN_BOOL && dt != DYN_F64 ? plan_word_as_int(p, v) : v;
    if (!plan_is_number(&v) && !plan_is_word(&v)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a value that is no number is stored");
    }
    if (dt == DYN_BOOL) {
        if (!plan_truth(p, &v, &known, reg)) {
            return false;
        }
        *reg = known >= 0 ? plan_iconst(p, known) : *reg;
    } else if (dt == DYN_F64) {
        plan_double(p, v, reg);
    } else if (dt == DYN_F32 && v.v.kind == DYN_RK_NP && v.v.dtype == DYN_F32) {
        *reg = plan_reg(p, &v);
    } else if (dt == DYN_F32) {
        plan_double(p, v, reg);
        *reg = plan_emit_or(p, DYN_RO_D2S, *reg, DYN_NONE, DYN_NONE, DYN_R_FLAGS);
    } else {
        *reg = as_integer(p, v, dt);
    }
    return true;
}

static bool store_complex(Plan *p, const PlanValue *a, PlanValue *index, uint32_t n, PlanValue v) {
    uint32_t parts[2];
    if (!plan_complex_parts(p, v, parts)) {
        return false;
    }
    uint32_t offset = plan_offset_of(p, a, index, n);
    plan_settle_doubts(p);
    plan_store_parts(p, a, offset, parts);
    return true;
}

static bool store_in_array(Plan *p, const PlanValue *a, const PlanValue *index, PlanValue v) {
    PlanValue list[MOST_PARTS], row;
    uint32_t parts = slice_parts(p, a, index, list), reg;
    if (!(a->v.flags & DYN_RF_WRITEABLE)) {
        return no(p, DYN_R_EXCEPTION, "the array can't be written");
    }
    if (plan_is_whole(index)) {
        return index->v.dtype == DYN_BOOL ? plan_store_masked(p, a, index, v) : plan_store_at(p, a, *index, v);
    }
    if (parts > 0) {
        return slice_array(p, a, list, parts, &row) && plan_store_whole(p, &row, v);
    }
    uint32_t n = plan_indices(p, a, index, list);
    if (n == 0) {
        return false;
    }
    if (n != a->v.n) {
        row = view_of(p, a, plan_offset_of(p, a, list, n), n);
        return plan_store_whole(p, &row, v);
    }
    if (a->v.dtype == DYN_C128) {
        return store_complex(p, a, list, n, v);
    }
    if (!plan_as_element(p, v, (DynDtype)a->v.dtype, &reg)) {
        return false;
    }
    uint32_t offset = plan_offset_of(p, a, list, n);
    plan_settle_doubts(p);
    plan_emit(p, access_of((DynDtype)a->v.dtype)->store, a->v.regs[1], offset, reg);
    return true;
}

bool plan_store_item(Plan *p, PlanValue a, PlanValue index, PlanValue v) {
    if (plan_is_array(&a)) {
        return store_in_array(p, &a, &index, v);
    }
    if (plan_has_records(&a)) {
        return plan_store_record_item(p, &a, &index, v);
    }
    if (index.v.kind == DYN_RK_SLICE) {
        return plan_store_slice(p, a, index, v);
    }
    if (a.v.kind == DYN_RK_DICT) {
        return plan_store_in_dict(p, a, index, v);
    }
    if (a.v.kind == DYN_RK_LIST) {
        return plan_store_in_list(p, a, index, v);
    }
    if (a.v.kind == DYN_RK_TEXT) {
        return plan_store_in_text(p, a, index, v);
    }
    return no(p, DYN_R_UNSUPPORTED_OP, "an item of an object that is no array");
}

/* ---- loops over things */

bool plan_iter(Plan *p, PlanValue v, PlanValue *out) {
    *out = v;
    if (plan_iterates(&v)) {
        return true;
    }
    uint32_t made;
    if (v.v.kind == DYN_RK_TUPLE && !plan_boxed(p, &v, &made)) { /* it becomes an object */
        return false;
    }
    v = plan_tuple_object(p, &v);
    v = plan_text(p, &v);
    if (v.v.kind == DYN_RK_LIST || v.v.kind == DYN_RK_TEXT) {
        return plan_list_iterator(p, v, out);
    }
    if (v.v.kind == DYN_RK_DICT || v.v.kind == DYN_RK_SET || v.v.kind == DYN_RK_DICTVIEW) {
        return plan_dict_iterator(p, v, out);
    }
    if (v.v.kind == DYN_RK_RANGE) {
        out->v.kind = DYN_RK_ITER;
        out->v.nregs = 3;
        return true;
    }
    if (plan_is_array(&v) && v.v.n < DYN_REGION_RANK) {
        out->v.kind = DYN_RK_SEQ;
        out->v.ref = DYN_NONE;
        out->v.regs[out->v.nregs++] = plan_iconst(p, 0);
        return true;
    }
    return no(p, DYN_R_UNSUPPORTED_VALUE, "an iteration over an object that loops in native code don't know");
}

bool plan_row(Plan *p, const PlanValue *a, uint32_t index, PlanValue *out) {
    uint32_t offset = plan_emit(p, DYN_RO_IMULW, index, plan_stride(p, a, 0), DYN_NONE);
    *out = a->v.n == 1 ? plan_element(p, a, offset) : view_of(p, a, offset, 1);
    return true;
}

/* ---- the next item of an iterator: where there is none, its end is written first */

typedef struct Next {
    uint32_t target; /* Where the loop ends. */
    PlanValue *root; /* The iterator of the loop, as far as it has come. */
} Next;

/* It has ended for whoever else has it. */
void plan_leave_at_end(Plan *p, uint32_t at, const PlanValue *iterator) {
    uint32_t exit = plan_exit_at(p, &p->s, at, DYN_R_OK);
    if (p->stop == DYN_R_OK) {
        p->r->exits.at[exit].nmore = 1;
        plan_list(p, &p->r->exits.at[exit].values, iterator);
    }
    plan_end(p, DYN_RO_LEAVE, DYN_NONE, DYN_NONE, DYN_NONE, exit);
}

/* Goes on where the register isn't 0; where it is the loop ends. */
static bool test_end(Plan *p, const Next *next, uint32_t reg) {
    PlanWays ways;
    if (!plan_two_ways(p, reg, &ways)) {
        return false;
    }
    uint32_t block = p->block, depth = p->s.n;
    plan_other_way(p, &ways);
    p->s.n -= dyn_iterator_slots();
    if (next->root->v.ref != DYN_NONE && p->s.nframes == 1) {
        plan_leave_at_end(p, next->target, next->root);
    } else {
        plan_go(p, next->target);
    }
    p->s.n = depth;
    ways.other = block;
    plan_other_way(p, &ways);
    return p->stop == DYN_R_OK;
}

static bool take_next(Plan *p, const Next *next, PlanValue *v, PlanValue *item);

static bool next_of_range(Plan *p, const Next *next, PlanValue *v, PlanValue *item) {
    if (!test_end(p, next, v->v.regs[1])) {
        return false;
    }
    *item = plan_value(DYN_RK_INT, v->v.regs[0]);
    uint32_t step = v->v.n == 1 ? plan_iconst(p, 1) : v->v.regs[2];
    v->v.regs[0] = plan_emit(p, DYN_RO_IADDW, v->v.regs[0], step, DYN_NONE);
    v->v.regs[1] = plan_emit(p, DYN_RO_IADDW, v->v.regs[1], plan_iconst(p, -1), DYN_NONE);
    return true;
}

static bool next_of_array(Plan *p, const Next *next, PlanValue *v, PlanValue *item) {
    uint32_t *at = &v->v.regs[v->v.nregs - 1];
    if (!test_end(p, next, plan_emit(p, DYN_RO_ILT, *at, v->v.regs[2], DYN_NONE))) {
        return false;
    }
    PlanValue array = *v;
    array.v.kind = DYN_RK_VIEW;
    array.v.nregs--;
    plan_row(p, &array, *at, item);
    *at = plan_emit(p, DYN_RO_IADDW, *at, plan_iconst(p, 1), DYN_NONE);
    return true;
}

static bool next_of_list(Plan *p, const Next *next, PlanValue *v, PlanItem *item) {
    if (!test_end(p, next, plan_list_more(p, v))) {
        return false;
    }
    *item = plan_list_next(p, v);
    return true;
}

static bool next_of_dict(Plan *p, const Next *next, PlanValue *v, PlanItem *key, PlanItem *value) {
    uint32_t place = plan_dict_more(p, v);
    if (!test_end(p, next, place)) {
        return false;
    }
    plan_dict_next(p, v, place, key, value);
    return true;
}

static bool next_of_text(const PlanValue *v, const PlanItem *next, PlanValue *item) {
    *item = plan_value(v->items[0].v.n == DYN_TEXT_STR ? DYN_RK_CHAR : DYN_RK_INT, next->reg);
    return true;
}

/* zip takes of one after the other, and what it took before one ends is lost; enumerate's number can't overflow in a lifetime. */
static bool next_of_all(Plan *p, const Next *next, PlanValue *v, PlanValue *item) {
    PlanValue *now = DYN_NEW_N(&p->arena, PlanValue, PLAN_ITEMS), *taken = DYN_NEW_N(&p->arena, PlanValue, PLAN_ITEMS);
    if (now == NULL || taken == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    memcpy(now, v->items, v->v.n * sizeof(PlanValue));
    v->items = now;
    for (uint32_t k = 0; k < v->v.n; k++) {
        if (now[k].v.kind != DYN_RK_INT && !take_next(p, next, &now[k], &taken[k])) {
            return false;
        }
    }
    if (v->v.kind == DYN_RK_ENUM) {
        taken[0] = plan_value(DYN_RK_INT, plan_reg(p, &now[0]));
        now[0] = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_IADDW, now[0].v.regs[0], plan_iconst(p, 1), DYN_NONE));
    }
    *item = plan_value(DYN_RK_TUPLE, DYN_NONE);
    item->v.n = v->v.n;
    item->items = taken;
    return true;
}

static bool take_next(Plan *p, const Next *next, PlanValue *v, PlanValue *item) {
    if (v->v.kind == DYN_RK_ITER) {
        return next_of_range(p, next, v, item);
    }
    if (v->v.kind == DYN_RK_LISTITER) {
        PlanItem next_item;
        bool there = next_of_list(p, next, v, &next_item);
        return there &&
               (v->items[0].v.kind == DYN_RK_TEXT ? next_of_text(v, &next_item, item) : plan_single_item(p, &next_item, item));
    }
    if (dyn_region_is_dict_iterator(v->v.kind)) {
        PlanItem key, value;
        if (!next_of_dict(p, next, v, &key, &value)) {
            return false;
        }
        return v->v.kind == DYN_RK_ITEMITER ? plan_dict_pair(p, &key, &value, item)
                                            : plan_single_item(p, v->v.kind == DYN_RK_VALUEITER ? &value : &key, item);
    }
    return v->v.kind == DYN_RK_SEQ ? next_of_array(p, next, v, item) : next_of_all(p, next, v, item);
}

Went plan_next(Plan *p, const DynInstr *in) {
    uint32_t below = dyn_iterator_slots() - 1;
    PlanValue v = *plan_top(p, below), item;
    uint32_t after = plan_frame(p)->at + 1;
    if (!plan_iterates(&v)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an iterator that loops in native code don't know");
    }
    if (plan_is_paused(&v)) {
        return plan_resume(p, PLAN_FOR, v.v.kind == DYN_RK_ENUM ? v.items[1] : v);
    }
    if (plan_has_paused(&v)) {
        return plan_unknown(p, DYN_R_GENERATOR, "a generator beside other iterators");
    }
    Next next = {in->target, &v};
    if (v.v.kind == DYN_RK_LISTITER) {
        PlanItem at;
        if (!next_of_list(p, &next, &v, &at)) {
            return WENT_AWAY;
        }
        *plan_top(p, below) = v;
        if (v.items[0].v.kind == DYN_RK_TEXT) {
            next_of_text(&v, &at, &item);
            plan_push(p, item);
            return WENT_ON;
        }
        return plan_push_item(p, &at, 0);
    }
    if (dyn_region_is_dict_iterator(v.v.kind)) {
        PlanItem key, value;
        if (!next_of_dict(p, &next, &v, &key, &value)) {
            return WENT_AWAY;
        }
        *plan_top(p, below) = v;
        if (v.v.kind != DYN_RK_ITEMITER) {
            return plan_push_item(p, v.v.kind == DYN_RK_VALUEITER ? &value : &key, 0);
        }
        if (!plan_dict_pair(p, &key, &value, &item)) {
            return WENT_NOWHERE;
        }
        plan_push(p, item);
        return WENT_ON;
    }
    if (!take_next(p, &next, &v, &item)) { /* an item of several kinds, beside others: nothing has been taken yet */
        return WENT_NOWHERE;
    }
    *plan_top(p, below) = v;
    plan_push(p, item);
    if (p->s.nframes == 1) {
        plan_effect(p, after);
    }
    return WENT_ON;
}
