/* array_calls.c: NumPy's functions of arrays and arrays' methods, by identity: which arguments they take, and what computes them.
 * Called by calls.c and step.c. The tables are filled once, when the first call is followed in a program with NumPy, and hold
 * references for good. */
#include "tracer/region/plan.h"
#include "base/cpy.h"
#include "base/cpy_region.h"
#include <opcode.h>

enum { MOST_ARGS = 6 };

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_OP, what);
    return false;
}

/* An argument that is given, and isn't None. */
static bool has(Plan *p, const PlanValue *arg) { return arg->v.kind != DYN_RK_NULL && plan_object(p, arg) != Py_None; }

/* ---- new arrays */

/* A dtype that is named by a class or a string; of none it is `otherwise`. */
bool plan_dtype_of(Plan *p, const PlanValue *arg, DynDtype otherwise, DynDtype *dt) {
    PyObject *o = plan_object(p, arg);
    PyArray_Descr *descr = NULL;
    *dt = otherwise;
    if (!has(p, arg)) {
        return true;
    }
    bool named = o != NULL && (o == (PyObject *)&PyFloat_Type || o == (PyObject *)&PyLong_Type || o == (PyObject *)&PyBool_Type ||
                               o == (PyObject *)&PyComplex_Type || PyUnicode_CheckExact(o) ||
                               (PyType_Check(o) && PyType_IsSubtype((PyTypeObject *)o, &PyGenericArrType_Type)));
    if (!named || !PyArray_DescrConverter(o, &descr)) {
        PyErr_Clear();
        return no(p, "a dtype that isn't known");
    }
    bool native = PyArray_ISNBO(descr->byteorder);
    *dt = native ? dyn_dtype_of(descr) : DYN_NO_DTYPE;
    Py_DECREF(descr);
    return plan_is_element(*dt) || no(p, "an array of such a dtype");
}

/* The dtype of an array that NumPy makes of such a number; of something else it is `otherwise`. */
static DynDtype dtype_of_number(const PlanValue *v, DynDtype otherwise) {
    switch (v->v.kind) {
    case DYN_RK_INT: return DYN_I64;
    case DYN_RK_BOOL: return DYN_BOOL;
    case DYN_RK_FLOAT: return DYN_F64;
    case DYN_RK_COMPLEX: return DYN_C128;
    case DYN_RK_NP: return (DynDtype)v->v.dtype;
    default: return otherwise;
    }
}

/* A shape: an int, or a tuple of some. How many axes; 0: it is none. */
static uint32_t shape_of(Plan *p, const PlanValue *v, PlanValue axes[DYN_REGION_RANK]) {
    PyObject *o = plan_object(p, v);
    bool constant = o != NULL && PyTuple_CheckExact(o), tuple = v->v.kind == DYN_RK_TUPLE;
    Py_ssize_t n = constant ? PyTuple_GET_SIZE(o) : tuple ? v->v.n : 1;
    for (Py_ssize_t k = 0; k < n && n <= DYN_REGION_RANK; k++) {
        axes[k] = constant ? plan_const(p, PyTuple_GET_ITEM(o, k)) : tuple ? v->items[k] : *v;
        if (!plan_is_integer(&axes[k])) {
            return 0;
        }
    }
    return n <= DYN_REGION_RANK ? (uint32_t)n : 0;
}

static bool filled(Plan *p, const uint32_t *sizes, const int64_t *samples, uint32_t rank, DynDtype dt, PlanValue number,
                   PlanValue *out) {
    uint32_t reg;
    bool is_complex = dt == DYN_C128;
    if (!is_complex && !plan_as_element(p, number, dt, &reg)) {
        return false;
    }
    PlanValue all = is_complex ? number : plan_np(dt, reg), made = plan_new_array(p, dt, sizes, rank, NULL, 0);
    made.sizes = samples;
    *out = made;
    if (plan_is_large(&made)) {
        return no(p, "a large array is made");
    }
    return is_complex ? plan_store_whole(p, &made, number) : plan_fill(p, &all, &made, false);
}

/* An axis of a new array: its size, which is sampled where it is known. */
static uint32_t axis_of(Plan *p, PlanValue *axis, int64_t *sample) {
    *sample = axis->known ? axis->number.i : -1;
    return plan_reg(p, axis);
}

static bool filled_with(Plan *p, const PlanValue *shape, const PlanValue *dtype, DynDtype otherwise, PlanValue number,
                        PlanValue *out) {
    PlanValue axes[DYN_REGION_RANK];
    uint32_t rank = shape_of(p, shape, axes), sizes[DYN_REGION_RANK];
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    DynDtype dt;
    if (rank == 0 || samples == NULL) {
        return no(p, "a new array of a shape that isn't known");
    }
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = axis_of(p, &axes[k], &samples[k]);
    }
    return plan_dtype_of(p, dtype, otherwise, &dt) && filled(p, sizes, samples, rank, dt, number, out);
}

/* np.zeros and its like: (shape, dtype) */
static bool call_new(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)n;
    return filled_with(p, &args[0], &args[1], DYN_F64, plan_int(arg), out);
}

/* np.full: (shape, number, dtype) */
static bool call_full(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    (void)n;
    const PlanValue *v = &args[1];
    DynDtype dt = dtype_of_number(v, DYN_F64);
    return plan_is_number(v) || plan_is_complex(v) ? filled_with(p, &args[0], &args[2], dt, *v, out)
                                                   : no(p, "np.full of no number");
}

/* np.zeros_like and its like: (array, dtype) */
static bool call_like(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)n;
    uint32_t sizes[DYN_REGION_RANK], rank = plan_rank(&args[0]);
    DynDtype dt;
    if (!plan_is_whole(&args[0]) || !plan_dtype_of(p, &args[1], (DynDtype)args[0].v.dtype, &dt)) {
        return plan_is_whole(&args[0]) ? false : no(p, "an array like something else");
    }
    plan_lay_in_rows(p, &args[0]);
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    for (uint32_t k = 0; k < rank && samples != NULL; k++) {
        sizes[k] = plan_size(&args[0], k);
        samples[k] = plan_sampled(&args[0], rank - 1 - k);
    }
    return samples != NULL && filled(p, sizes, samples, rank, dt, plan_int(arg), out);
}

/* np.eye(n, m, dtype) */
static bool call_eye(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    (void)n;
    DynDtype dt;
    PlanValue columns = has(p, &args[1]) ? args[1] : args[0];
    if (!plan_is_integer(&args[0]) || !plan_is_integer(&columns) || !plan_dtype_of(p, &args[2], DYN_F64, &dt)) {
        return no(p, "np.eye of other arguments");
    }
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 2);
    if (samples == NULL) {
        return no(p, "memory");
    }
    uint32_t sizes[2] = {axis_of(p, &args[0], &samples[0]), axis_of(p, &columns, &samples[1])};
    if (!filled(p, sizes, samples, 2, dt, plan_int(0), out)) {
        return false;
    }
    uint32_t fewer = plan_emit(p, DYN_RO_ILT, sizes[0], sizes[1], DYN_NONE), one;
    uint32_t least = plan_emit(p, DYN_RO_ISELECT, fewer, sizes[0], sizes[1]);
    uint32_t down = plan_emit(p, DYN_RO_IADDW, plan_stride(p, out, 0), plan_stride(p, out, 1), DYN_NONE);
    dt = dt == DYN_C128 ? DYN_F64 : dt; /* the real part of a complex one */
    plan_as_element(p, plan_int(1), dt, &one);
    PlanCount c = plan_count(p, least);
    plan_emit(p, plan_store_op(dt), out->v.regs[1], plan_emit(p, DYN_RO_IMULW, c.counter, down, DYN_NONE), one);
    plan_count_end(p, &c);
    return true;
}

/* np.arange of ints */
static bool call_arange(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    bool two = n > 1 && has(p, &args[1]);
    PlanValue from = two ? args[0] : plan_int(0), to = two ? args[1] : args[0], step = n > 2 ? args[2] : plan_int(1);
    if (from.v.kind != DYN_RK_INT || to.v.kind != DYN_RK_INT || step.v.kind != DYN_RK_INT) {
        return no(p, "np.arange of something else than ints");
    }
    uint32_t first = plan_reg(p, &from), by = plan_reg(p, &step);
    uint32_t size = plan_emit_or(p, DYN_RO_RANGELEN, first, plan_reg(p, &to), by, DYN_R_UNSUPPORTED_VALUE);
    PlanValue made = plan_new_array(p, DYN_I64, &size, 1, NULL, 0);
    PlanCount c = plan_count(p, size);
    uint32_t number = plan_emit(p, DYN_RO_IADDW, first, plan_emit(p, DYN_RO_IMULW, by, c.counter, DYN_NONE), DYN_NONE);
    uint32_t offset = plan_emit(p, DYN_RO_IMULW, c.counter, plan_stride(p, &made, 0), DYN_NONE);
    plan_emit(p, DYN_RO_STI64, made.v.regs[1], offset, number);
    plan_count_end(p, &c);
    *out = made;
    return true;
}

/* ---- np.array of what is written there: [a, b, c], [[a, b], [c, d]] */

/* The dtype of its numbers; NO_DTYPE: not all are numbers, or not of dtypes that go together here. Its axes. */
static DynDtype literal_dtype(const PlanValue *v, uint32_t *rank, uint32_t sizes[2]) {
    DynDtype dt = DYN_NO_DTYPE;
    *rank = 1;
    sizes[0] = v->v.n;
    for (uint32_t i = 0; i < v->v.n; i++) {
        const PlanValue *item = &v->items[i];
        uint32_t inner, below[2];
        DynDtype own = dtype_of_number(item, DYN_NO_DTYPE);
        if (plan_is_literal(item)) {
            own = literal_dtype(item, &inner, below);
            bool fits = own != DYN_NO_DTYPE && inner == 1 && (i == 0 || (*rank == 2 && below[0] == sizes[1]));
            own = fits ? own : DYN_NO_DTYPE;
            *rank = 2;
            sizes[1] = below[0];
        } else if (*rank == 2) {
            return DYN_NO_DTYPE;
        }
        if (own != DYN_I64 && own != DYN_F64 && own != DYN_C128) {
            return DYN_NO_DTYPE;
        }
        dt = own == DYN_C128 || dt == DYN_NO_DTYPE || (own == DYN_F64 && dt == DYN_I64) ? own : dt;
    }
    return dt;
}

static bool store_literal(Plan *p, const PlanValue *v, const PlanValue *to, uint32_t at) {
    DynDtype dt = (DynDtype)to->v.dtype;
    uint32_t n = plan_is_literal(&v->items[0]) ? v->items[0].v.n : 1, reg;
    for (uint32_t i = 0; i < v->v.n; i++) {
        if (plan_is_literal(&v->items[i])) {
            if (!store_literal(p, &v->items[i], to, at + i * n)) {
                return false;
            }
        } else if (dt == DYN_C128) {
            uint32_t parts[2];
            if (!plan_complex_parts(p, v->items[i], parts)) {
                return false;
            }
            plan_store_parts(p, to, plan_iconst(p, (int64_t)(at + i) * dyn_dtypes[dt].size), parts);
        } else if (plan_as_element(p, v->items[i], dt, &reg)) {
            plan_emit(p, plan_store_op(dt), to->v.regs[1], plan_iconst(p, (int64_t)(at + i) * dyn_dtypes[dt].size), reg);
        } else {
            return false;
        }
    }
    return true;
}

/* Numbers of one dtype are made ones of a wider. */
static bool holds(DynDtype dt, DynDtype own) {
    return dt == own || dt == DYN_C128 || (dt == DYN_F64 && own == DYN_I64) || (own == DYN_I64 && dt != DYN_F64);
}

static bool array_of_literal(Plan *p, const PlanValue *v, const PlanValue *dtype, PlanValue *out) {
    uint32_t rank, sizes[2], regs[2];
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 2);
    DynDtype own = v->v.n == 0 ? DYN_NO_DTYPE : literal_dtype(v, &rank, sizes), dt;
    if (own == DYN_NO_DTYPE || samples == NULL || !plan_dtype_of(p, dtype, own, &dt) || !holds(dt, own)) {
        return no(p, "np.array of other items than ints and floats");
    }
    for (uint32_t k = 0; k < rank; k++) {
        samples[k] = sizes[k];
        regs[k] = plan_iconst(p, sizes[k]);
    }
    plan_settle_doubts(p);
    *out = plan_new_array(p, dt, regs, rank, NULL, 0);
    out->sizes = samples;
    return store_literal(p, v, out, 0);
}

/* np.array, np.asarray (arg): (object, dtype) */
static bool call_array(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)n;
    DynDtype dt;
    if (plan_is_literal(&args[0])) {
        return array_of_literal(p, &args[0], &args[1], out);
    }
    if (!plan_is_whole(&args[0]) || !plan_dtype_of(p, &args[1], (DynDtype)args[0].v.dtype, &dt)) {
        return no(p, "np.array of something else than an array, or numbers");
    }
    if (dt != args[0].v.dtype) {
        plan_lay_in_rows(p, &args[0]);
        return plan_converted(p, args[0], dt, args, 1, out);
    }
    if (arg != 0 || plan_is_expression(&args[0])) {
        *out = args[0];
        return true;
    }
    plan_lay_in_rows(p, &args[0]);
    return plan_make_array(p, &args[0], out);
}

/* ---- views and copies */

/* x.copy(): in rows, whatever lay how. arg: np.copy, which keeps the order of axes. */
bool plan_call_copy(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)n;
    if (!plan_is_whole(&args[0])) {
        return no(p, "a copy of something else than an array");
    }
    if (arg != 0 && plan_is_array(&args[0])) {
        plan_lay_in_rows(p, &args[0]);
    }
    return plan_make_array(p, &args[0], out);
}

static uint32_t elements_of(Plan *p, const PlanValue *a) {
    uint32_t all = plan_size(a, 0);
    for (uint32_t k = 1; k < a->v.n; k++) {
        all = plan_emit(p, DYN_RO_IMULW, all, plan_size(a, k), DYN_NONE);
    }
    return all;
}

/* The same memory with other axes: of an array in one piece. */
static PlanValue laid(Plan *p, const PlanValue *a, const uint32_t *sizes, const int64_t *samples, uint32_t rank) {
    PlanValue v = plan_value(DYN_RK_VIEW, a->v.regs[0]);
    v.v.dtype = a->v.dtype;
    plan_lay(p, &v, a->v.regs[1], sizes, rank);
    v.v.flags = (uint8_t)(DYN_RF_CONTIGUOUS | (a->v.flags & DYN_RF_WRITEABLE));
    v.sizes = samples;
    return v;
}

/* x.ravel(), x.flatten() (arg: it is a copy) */
static bool call_ravel(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue a = args[0];
    (void)n;
    if (!plan_is_whole(&a) || !plan_make_arrays(p, &a, 1)) {
        return plan_is_whole(&a) ? false : no(p, "ravel of something else than an array");
    }
    plan_leave_unless_dense(p, &a);
    uint32_t all = elements_of(p, &a);
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 1);
    if (samples == NULL) {
        return no(p, "memory");
    }
    samples[0] = 1;
    for (uint32_t k = 0; k < a.v.n; k++) {
        samples[0] *= plan_sample(&a, k);
    }
    samples[0] = samples[0] == 1 ? -1 : samples[0];
    *out = laid(p, &a, &all, samples, 1);
    return arg == 0 || plan_make_array(p, out, out);
}

/* x.reshape(n, m), x.reshape((n, m)), np.reshape(x, (n, m)); one of them may be -1 where all are known but that. */
static bool call_reshape(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue a = args[0], axes[DYN_REGION_RANK];
    uint32_t sizes[DYN_REGION_RANK], rank = 0, open = DYN_NONE, known = plan_iconst(p, 1);
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, DYN_REGION_RANK);
    (void)arg;
    bool one = n == 2 || args[2].v.kind == DYN_RK_NULL;
    for (uint32_t k = 1; !one && k < n && k <= DYN_REGION_RANK; k++) {
        axes[rank++] = args[k];
        rank = plan_is_integer(&args[k]) ? rank : 0;
    }
    rank = one ? shape_of(p, &args[1], axes) : rank;
    if (!plan_is_whole(&a) || rank == 0 || samples == NULL || !plan_make_arrays(p, &a, 1)) {
        return no(p, "reshape to something else than ints");
    }
    plan_leave_unless_dense(p, &a);
    for (uint32_t k = 0; k < rank; k++) {
        sizes[k] = axis_of(p, &axes[k], &samples[k]);
        if (axes[k].known && axes[k].number.i == -1 && open == DYN_NONE) {
            open = k;
            continue;
        }
        plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), sizes[k], DYN_NONE, DYN_R_EXCEPTION); /* leaves unless it is positive */
        known = plan_emit_or(p, DYN_RO_IMUL, known, sizes[k], DYN_NONE, DYN_R_EXCEPTION);
    }
    uint32_t all = elements_of(p, &a);
    if (open != DYN_NONE) {
        sizes[open] = plan_emit_or(p, DYN_RO_IFLOORDIV, all, known, DYN_NONE, DYN_R_EXCEPTION);
        known = plan_emit(p, DYN_RO_IMULW, sizes[open], known, DYN_NONE);
    }
    plan_same_size(p, all, known);
    *out = laid(p, &a, sizes, samples, rank);
    return true;
}

static bool call_transpose(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    bool plain = n == 1 && plan_is_whole(&args[0]) && plan_rank(&args[0]) <= 2;
    return plain ? plan_make_arrays(p, args, 1) && plan_transposed(p, &args[0], out) : no(p, "a transpose of so many axes");
}

/* ---- joining */

PlanValue plan_stretch(Plan *p, const PlanValue *v, uint32_t from, uint32_t n) {
    PlanValue part = *v;
    part.v.kind = DYN_RK_VIEW;
    part.sizes = NULL;
    uint32_t offset = plan_emit(p, DYN_RO_IMULW, from, plan_stride(p, v, 0), DYN_NONE);
    part.v.regs[1] = plan_emit(p, DYN_RO_PADD, v->v.regs[1], offset, DYN_NONE);
    part.v.regs[2] = n;
    return part;
}

/* Vectors of one dtype, and numbers of it behind the first, each as a vector of one. */
static bool joined(Plan *p, PlanValue *items, uint32_t n, PlanValue *out) {
    uint32_t all = plan_iconst(p, 0), sizes[MOST_ARGS];
    int64_t *samples = DYN_NEW_N(&p->arena, int64_t, 1), most = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool whole = plan_is_whole(&items[i]);
        bool vector = whole && plan_rank(&items[i]) == 1 && items[i].v.dtype == items[0].v.dtype;
        bool number = i > 0 && !whole && (items[0].v.dtype == DYN_F64 ? plan_is_float(&items[i]) : items[i].v.kind == DYN_RK_INT);
        bool own = number && (items[i].v.kind != DYN_RK_NP || items[i].v.dtype == DYN_F64);
        if ((!vector && !own) || samples == NULL || (items[0].v.dtype != DYN_F64 && items[0].v.dtype != DYN_I64)) {
            return no(p, "arrays that are joined of other dtypes, or of several axes");
        }
        sizes[i] = vector ? plan_size(&items[i], 0) : plan_iconst(p, 1);
        most += vector ? plan_sample(&items[i], 0) : 1;
        all = plan_emit(p, DYN_RO_IADDW, all, sizes[i], DYN_NONE);
    }
    if (!plan_make_arrays(p, items, n)) {
        return false;
    }
    *samples = most == 1 ? -1 : most;
    PlanValue made = plan_new_array(p, (DynDtype)items[0].v.dtype, &all, 1, items, n);
    made.sizes = samples;
    all = plan_iconst(p, 0);
    for (uint32_t i = 0; i < n; i++) {
        PlanValue part = plan_stretch(p, &made, all, sizes[i]), v = items[i];
        uint32_t reg;
        if (!plan_is_whole(&v)) {
            plan_as_element(p, v, (DynDtype)made.v.dtype, &reg);
            v = plan_np((DynDtype)made.v.dtype, reg);
        }
        if (!plan_fill(p, &v, &part, false)) {
            return false;
        }
        all = plan_emit(p, DYN_RO_IADDW, all, sizes[i], DYN_NONE);
    }
    *out = made;
    return true;
}

static bool call_concatenate(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    (void)n;
    PlanValue items[MOST_ARGS];
    bool listed = args[0].v.kind == DYN_RK_TUPLE || plan_is_literal(&args[0]);
    if (!listed || args[0].v.n == 0 || args[0].v.n > MOST_ARGS || has(p, &args[1]) || !plan_is_whole(&args[0].items[0])) {
        return no(p, "np.concatenate of other operands");
    }
    for (uint32_t i = 0; i < args[0].v.n; i++) {
        items[i] = args[0].items[i];
        if (!plan_is_whole(&items[i])) {
            return no(p, "np.concatenate of something else than arrays");
        }
    }
    return joined(p, items, args[0].v.n, out);
}

static bool call_append(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    (void)n;
    bool vector = plan_is_whole(&args[0]) && !has(p, &args[2]);
    return vector ? joined(p, args, 2, out) : no(p, "np.append to something else than a vector");
}

/* ---- products and arithmetic */

static bool call_dot(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    return n == 2 ? plan_dot(p, args[0], args[1], arg != 0, out) : no(p, "another number of arguments");
}

/* np.outer of two vectors. */
static bool call_outer(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    bool vectors =
        n == 2 && plan_is_whole(&args[0]) && plan_is_whole(&args[1]) && plan_rank(&args[0]) == 1 && plan_rank(&args[1]) == 1;
    if (!vectors || !plan_make_arrays(p, args, 2)) {
        return vectors ? false : no(p, "np.outer of something else than vectors");
    }
    PlanValue column[2] = {plan_slice(p, plan_const(p, Py_None), plan_const(p, Py_None), plan_const(p, Py_None)),
                           plan_const(p, Py_None)};
    PlanValue index = plan_value(DYN_RK_TUPLE, DYN_NONE), a;
    index.v.n = 2;
    index.items = column;
    return plan_item(p, args[0], index, &a) && plan_array_binary(p, NB_MULTIPLY, a, args[1], out);
}

/* np.add and its like, of arrays. */
static bool call_arithmetic(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    bool arrays = n == 2 && (plan_is_whole(&args[0]) || plan_is_whole(&args[1]));
    return arrays ? plan_array_binary(p, arg, args[0], args[1], out) : no(p, "an operator's function of other operands");
}

/* np.logical_and and its like, of arrays of bools. */
static bool call_logical(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    bool bools = n > 0;
    for (uint32_t i = 0; i < n; i++) {
        bools = bools && plan_is_whole(&args[i]) && args[i].v.dtype == DYN_BOOL;
    }
    if (!bools) {
        return no(p, "a logical function of other operands");
    }
    return n == 1 ? plan_array_unary(p, DYN_RO_INOT, args[0], out) : plan_array_binary(p, arg, args[0], args[1], out);
}

static bool call_where(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    return n == 3 ? plan_array_select(p, args, out) : plan_call_nonzero(p, arg, args, n, out);
}

static bool call_cross(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return n == 2 ? plan_cross(p, args, out) : no(p, "another number of arguments");
}

static bool call_norm(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    return n == 1 ? plan_norm(p, args[0], out) : no(p, "another number of arguments");
}

/* np.flip of a vector: a view, from its end. */
static bool call_flip(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue none = plan_const(p, Py_None);
    bool vector = n == 1 && plan_is_whole(&args[0]) && plan_rank(&args[0]) == 1;
    return vector ? plan_make_arrays(p, args, 1) && plan_item(p, args[0], plan_slice(p, none, none, plan_int(-1)), out)
                  : no(p, "np.flip of something else than a vector");
}

/* np.clip(x, low, high): the ufunc that it comes to. */
static bool call_clip(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    static PyObject *clip; /* strong */
    (void)arg;
    if (clip == NULL) {
        clip = dyn_module_attr("numpy._core.umath", "clip");
        PyErr_Clear();
    }
    bool known = clip != NULL && n == 3 && plan_is_whole(&args[0]);
    return known ? plan_ufunc_call(p, clip, args, n, out) : no(p, "np.clip of something else than a vector and two bounds");
}

static bool call_fold(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    return plan_fold(p, (PlanFoldKind)arg, args, n, out);
}

/* np.count_nonzero: a Python int, or NumPy's from 2.4 on, as NumPy itself says. */
static bool call_count(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    static enum { UNKNOWN, PYTHON, NUMPY } kind;
    (void)arg;
    if (kind == UNKNOWN) {
        PyObject *numpy = dyn_import("numpy");
        PyObject *o = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "count_nonzero", "i", 1);
        kind = o != NULL && PyLong_CheckExact(o) ? PYTHON : NUMPY;
        PyErr_Clear();
        Py_XDECREF(o);
        Py_XDECREF(numpy);
    }
    if (!plan_fold(p, PLAN_FOLD_COUNT, args, n, out)) {
        return false;
    }
    *out = kind == PYTHON ? plan_value(DYN_RK_INT, out->v.regs[0]) : *out;
    return true;
}

/* The same without a dtype among the arguments. */
static bool call_fold_of_own(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue all[] = {args[0], args[1], plan_value(DYN_RK_NULL, DYN_NONE), args[2], args[3]};
    (void)n;
    return plan_fold(p, (PlanFoldKind)arg, all, DYN_COUNTOF(all), out);
}

/* ---- the tables */

#define FOLD "a axis dtype out keepdims"
#define FOLD_OF_OWN "a axis out keepdims"
#define MOMENT "a axis dtype out ddof"

/* What a row's function is called with, by name, in this order; a method's first is what it is called on. */
static const struct Row {
    const char *module, *name, *params;
    bool (*handler)(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out);
    int arg;
} rows[] = {
    {"numpy", "zeros", "shape dtype", call_new, 0},
    {"numpy", "ones", "shape dtype", call_new, 1},
    {"numpy", "full", "shape fill_value dtype", call_full, 0},
    {"numpy", "zeros_like", "a dtype", call_like, 0},
    {"numpy", "ones_like", "a dtype", call_like, 1},
    {"numpy", "eye", "N M dtype", call_eye, 0},
    {"numpy", "identity", "n - dtype", call_eye, 0},
    {"numpy", "arange", "start stop step", call_arange, 0},
    {"numpy", "array", "object dtype", call_array, 0},
    {"numpy", "asarray", "a dtype", call_array, 1},
    {"numpy", "real", "val", plan_call_part, 0},
    {"numpy", "imag", "val", plan_call_part, 1},
    {"numpy", "angle", "z", plan_call_angle, 0},
    {"numpy", "copy", "a", plan_call_copy, 1},
    {"numpy", "linspace", "start stop num", plan_call_linspace, 0},
    {"numpy", "diff", "a n axis", plan_call_diff, 0},
    {"numpy", "cumsum", "a axis", plan_call_running, DYN_RO_DADD},
    {"numpy", "cumprod", "a axis", plan_call_running, DYN_RO_DMUL},
    {"numpy", "var", MOMENT, plan_call_variance, 0},
    {"numpy", "std", MOMENT, plan_call_variance, 1},
    {"numpy", "sort", "a axis", plan_call_sort, 0},
    {"numpy", "argsort", "a axis", plan_call_argsort, 0},
    {"numpy", "searchsorted", "a v side", plan_call_searchsorted, 0},
    {"numpy", "flatnonzero", "a", plan_call_flatnonzero, 0},
    {"numpy", "nonzero", "a", plan_call_nonzero, 0},
    {"numpy", "roll", "a shift", plan_call_roll, 0},
    {"numpy", "stack", "arrays axis", plan_call_stack, 0},
    {"numpy", "vstack", "tup", plan_call_stack, 0},
    {"numpy", "column_stack", "tup", plan_call_stack, 1},
    {"numpy", "hstack", "tup -", call_concatenate, 0},
    {"numpy", "ravel", "a", call_ravel, 0},
    {"numpy", "reshape", "a shape", call_reshape, 0},
    {"numpy", "transpose", "a", call_transpose, 0},
    {"numpy", "concatenate", "arrays axis", call_concatenate, 0},
    {"numpy", "append", "arr values axis", call_append, 0},
    {"numpy", "dot", "a b", call_dot, 0},
    {"numpy", "matmul", "a b", call_dot, 1},
    {"numpy", "outer", "a b", call_outer, 0},
    {"numpy", "cross", "a b", call_cross, 0},
    {"numpy", "where", "condition x y", call_where, 0},
    {"numpy", "flip", "m", call_flip, 0},
    {"numpy", "clip", "a a_min a_max", call_clip, 0},
    {"numpy.linalg", "norm", "x", call_norm, 0},
    {"numpy.linalg", "solve", "a b", plan_call_solve, 0},
    {"numpy.linalg", "inv", "a", plan_call_of_matrix, DYN_LINALG_INV},
    {"numpy.linalg", "cholesky", "a", plan_call_of_matrix, DYN_LINALG_CHOLESKY},
    {"numpy.linalg", "det", "a", plan_call_of_matrix, DYN_LINALG_DET},
    {"numpy", "trace", "a", plan_call_trace, 0},
    {"numpy", "sum", FOLD, call_fold, PLAN_FOLD_SUM},
    {"numpy", "mean", FOLD, call_fold, PLAN_FOLD_MEAN},
    {"numpy", "prod", FOLD, call_fold, PLAN_FOLD_PROD},
    {"numpy", "max", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_MAX},
    {"numpy", "min", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_MIN},
    {"numpy", "any", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ANY},
    {"numpy", "all", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ALL},
    {"numpy", "argmax", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ARGMAX},
    {"numpy", "argmin", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ARGMIN},
    {"numpy", "count_nonzero", "a", call_count, 0},
    {"numpy", "add", "x y", call_arithmetic, NB_ADD},
    {"numpy", "subtract", "x y", call_arithmetic, NB_SUBTRACT},
    {"numpy", "multiply", "x y", call_arithmetic, NB_MULTIPLY},
    {"numpy", "divide", "x y", call_arithmetic, NB_TRUE_DIVIDE},
    {"numpy", "logical_and", "x y", call_logical, NB_AND},
    {"numpy", "logical_or", "x y", call_logical, NB_OR},
    {"numpy", "logical_xor", "x y", call_logical, NB_XOR},
    {"numpy", "logical_not", "x", call_logical, 0},
};
static const struct Row methods[] = {
    {NULL, "sum", FOLD, call_fold, PLAN_FOLD_SUM},
    {NULL, "mean", FOLD, call_fold, PLAN_FOLD_MEAN},
    {NULL, "max", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_MAX},
    {NULL, "min", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_MIN},
    {NULL, "any", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ANY},
    {NULL, "all", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ALL},
    {NULL, "argmax", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ARGMAX},
    {NULL, "argmin", FOLD_OF_OWN, call_fold_of_own, PLAN_FOLD_ARGMIN},
    {NULL, "prod", FOLD, call_fold, PLAN_FOLD_PROD},
    {NULL, "cumsum", "a axis", plan_call_running, DYN_RO_DADD},
    {NULL, "var", MOMENT, plan_call_variance, 0},
    {NULL, "std", MOMENT, plan_call_variance, 1},
    {NULL, "nonzero", "a", plan_call_nonzero, 0},
    {NULL, "argsort", "a axis", plan_call_argsort, 0},
    {NULL, "searchsorted", "a v side", plan_call_searchsorted, 0},
    {NULL, "dot", "a b", call_dot, 0},
    {NULL, "copy", "a", plan_call_copy, 0},
    {NULL, "astype", "a dtype", plan_call_astype, 0},
    {NULL, "conj", "a", plan_call_conjugate, 0},
    {NULL, "conjugate", "a", plan_call_conjugate, 0},
    {NULL, "ravel", "a", call_ravel, 0},
    {NULL, "flatten", "a", call_ravel, 1},
    {NULL, "reshape", "a - - - -", call_reshape, 0},
    {NULL, "transpose", "a", call_transpose, 0},
};
static PyObject *objects[DYN_COUNTOF(rows)]; /* Strong; NULL where the module has no such name. */

static void fill_table(void) {
    static bool filled_once;
    PyObject *module = NULL;
    for (size_t i = 0; !filled_once && dyn_arrays_loaded() && i < DYN_COUNTOF(rows); i++) {
        if (i == 0 || strcmp(rows[i].module, rows[i - 1].module) != 0) {
            Py_XSETREF(module, dyn_import(rows[i].module));
        }
        objects[i] = module == NULL ? NULL : PyObject_GetAttrString(module, rows[i].name);
        PyErr_Clear();
    }
    Py_XDECREF(module);
    filled_once = dyn_arrays_loaded();
}

/* Arguments in the order of parameters; those that aren't given are NULL. */
static bool call_row(Plan *p, const struct Row *row, const PlanValue *args, uint32_t n, PyObject *names, PlanValue *out) {
    PlanValue placed[MOST_ARGS];
    uint32_t most = (uint32_t)dyn_words_count(row->params), nnames = names == NULL ? 0 : (uint32_t)PyTuple_GET_SIZE(names),
             count = n - nnames;
    if (count > most || most > MOST_ARGS) {
        return no(p, "more arguments than loops in native code know");
    }
    for (uint32_t i = 0; i < MOST_ARGS; i++) {
        placed[i] = i < count ? args[i] : plan_value(DYN_RK_NULL, DYN_NONE);
    }
    for (uint32_t i = 0; i < nnames; i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        int at = name == NULL ? -1 : dyn_words_find(row->params, name);
        PyErr_Clear();
        if (at < 0 || placed[at].v.kind != DYN_RK_NULL) {
            return no(p, "a keyword argument that loops in native code don't know");
        }
        placed[at] = args[n - nnames + i];
        count = (uint32_t)at + 1 > count ? (uint32_t)at + 1 : count;
    }
    return row->handler(p, row->arg, placed, count, out);
}

PlanKnown plan_call_array(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PyObject *names, PlanValue *out) {
    fill_table();
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if (objects[i] == o) {
            return call_row(p, &rows[i], args, n, names, out) ? PLAN_CALLED : PLAN_REFUSED;
        }
    }
    return PLAN_NOT_KNOWN;
}

PyObject *plan_array_method(const char *name) {
    for (size_t i = 0; name != NULL && i < DYN_COUNTOF(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return dyn_cpy_lookup_named(&PyArray_Type, name);
        }
    }
    return NULL;
}

Went plan_call_array_method(Plan *p, PyObject *method, const PlanValue *self, uint32_t n, PyObject *names, uint32_t slots) {
    PlanValue out, args[MOST_ARGS];
    if (n + 1 > MOST_ARGS) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "more arguments than loops in native code know");
    }
    memcpy(args, self, (n + 1) * sizeof *self); /* the arguments lie behind it */
    for (size_t i = 0; i < DYN_COUNTOF(methods); i++) {
        if (dyn_cpy_lookup_named(&PyArray_Type, methods[i].name) == method) {
            if (!call_row(p, &methods[i], args, n + 1, names, &out)) {
                return WENT_NOWHERE;
            }
            p->s.n -= slots;
            plan_push(p, out);
            return WENT_ON;
        }
    }
    return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a method of an array that loops in native code don't have");
}

/* ---- lists that only a function of arrays sees */

/* Is the value in this place of the stack, or that above it, a function that takes a list for an array? */
static bool takes_literal(Plan *p, uint32_t place) {
    static const char *const names[] = {"array", "asarray", "concatenate", "stack", "vstack", "hstack", "column_stack"};
    bool takes = false;
    fill_table();
    for (uint32_t k = 0; k < 2; k++) {
        PyObject *o = plan_object(p, &p->s.values[place + k]);
        for (size_t i = 0; o != NULL && i < DYN_COUNTOF(rows); i++) {
            for (size_t j = 0; j < DYN_COUNTOF(names); j++) {
                takes = takes || (objects[i] == o && strcmp(rows[i].name, names[j]) == 0);
            }
        }
    }
    return takes;
}

/* Is the list of the n topmost values, which is built now, the first argument of such a function, or an item of that? No jump
 * lies between. */
bool plan_is_literal_next(Plan *p, uint32_t n) {
    const PlanFrame *f = plan_frame(p);
    uint32_t height = p->s.n - n + 1, place = p->s.n - n; /* with the list on the stack, which is in this place */
    for (uint32_t at = f->at + 1; at < f->c->v.n && !p->no_literals; at++) {
        const DynInstr *in = &f->c->v.at[at];
        DynStackEffect effect = dyn_stack_effect(in);
        if (in->flags & DYN_IF_TARGET || dyn_flow(in) != DYN_FLOW_NEXT) {
            return false;
        }
        bool taken = height - (uint32_t)effect.pops <= place;
        uint32_t names = in->op == DYN_I_CALL_KW ? 1 : 0;
        if (taken && (in->op == DYN_I_CALL || in->op == DYN_I_CALL_KW)) {
            uint32_t first = height - in->arg - names;
            return place == first && first >= 2 && takes_literal(p, first - 2);
        }
        if (taken && in->op == DYN_I_BUILD_LIST) {
            place = height - in->arg;
        } else if (taken && in->op != DYN_I_LIST_EXTEND) {
            return false;
        }
        height += (uint32_t)effect.pushes - (uint32_t)effect.pops;
    }
    return false;
}

Went plan_literal(Plan *p, const PlanValue *values, uint32_t n) {
    PlanValue v = plan_value(DYN_RK_LITERAL, DYN_NONE), *items = DYN_NEW_N(&p->arena, PlanValue, n + 1);
    if (items == NULL || n > UINT8_MAX) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a long list");
    }
    memcpy(items, values, n * sizeof *items);
    v.v.n = (uint8_t)n;
    v.items = items;
    plan_push(p, v);
    return WENT_ON;
}
