/* values.c: values of the planner, the registers they lie in, and the instructions that are written down. Called by all files of
 * this folder. Memory is the plan's arena and the region's own vectors. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include "ir/region_foreign.h"

void plan_stop(Plan *p, DynReason why) { p->stop = p->stop == DYN_R_OK ? why : p->stop; }

/* ---- the stack */

PlanValue *plan_top(Plan *p, uint32_t below) { return &p->s.values[p->s.n - 1 - below]; }

PlanValue plan_pop(Plan *p) {
    uint32_t floor = plan_frame(p)->base + (uint32_t)dyn_code_nlocalsplus(plan_frame(p)->c->code);
    if (p->s.n <= floor) {
        plan_stop(p, DYN_R_INTERNAL);
        return plan_value(DYN_RK_NULL, DYN_NONE);
    }
    return p->s.values[--p->s.n];
}

void plan_push(Plan *p, PlanValue v) {
    if (p->s.n == PLAN_VALUES) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
        return;
    }
    p->s.values[p->s.n++] = v;
}

/* Is it an operation on an array that CPython has to execute? A call has its callable and arguments on the stack, others less. */
bool plan_takes_array(Plan *p) {
    const PlanFrame *f = plan_frame(p);
    const DynInstr *in = plan_instr(p);
    uint32_t floor = f->base + (uint32_t)dyn_code_nlocalsplus(f->c->code), n = in->op == DYN_I_CALL ? in->arg + 2 : 2;
    for (uint32_t i = 0; i < n && p->s.n > floor + i; i++) {
        if (plan_is_whole(plan_top(p, i))) {
            return true;
        }
    }
    return false;
}

/* ---- values */

PlanValue plan_value(DynRegionKind kind, uint32_t reg) {
    PlanValue v = {.v = {.kind = (uint8_t)kind, .ref = DYN_NONE, .nregs = reg != DYN_NONE}};
    v.v.regs[0] = reg;
    return v;
}

PlanValue *plan_new_tuple(Plan *p, uint32_t n, PlanValue *out) {
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, n);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    *out = plan_value(DYN_RK_TUPLE, DYN_NONE);
    out->v.n = (uint8_t)n;
    out->items = items;
    return items;
}

PlanValue plan_np(DynDtype dt, uint32_t reg) {
    PlanValue v = plan_value(DYN_RK_NP, reg);
    v.v.dtype = (uint8_t)dt;
    return v;
}

static PlanValue known(DynRegionKind kind, DynScalar number) {
    PlanValue v = plan_value(kind, DYN_NONE);
    v.known = true;
    v.number = number;
    return v;
}
PlanValue plan_int(int64_t number) { return known(DYN_RK_INT, (DynScalar){.i = number}); }
PlanValue plan_bool(bool number) { return known(DYN_RK_BOOL, (DynScalar){.i = number}); }
PlanValue plan_float(double number) { return known(DYN_RK_FLOAT, (DynScalar){.f = number}); }

static uint32_t object_index(Plan *p, PyObject *o) {
    for (uint32_t i = 0; i < p->r->objects.n; i++) {
        if (p->r->objects.at[i] == o) {
            return i;
        }
    }
    if (dyn_vec_push(&p->r->objects, o) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return 0;
    }
    Py_INCREF(o);
    return p->r->objects.n - 1;
}

static PlanValue const_object(Plan *p, PyObject *o) {
    PlanValue v = plan_value(DYN_RK_CONST, DYN_NONE);
    v.v.ref = object_index(p, o);
    return v;
}

PlanValue plan_const(Plan *p, PyObject *o) {
    int overflow = 0;
    if (PyBool_Check(o)) {
        return plan_bool(o == Py_True);
    }
    if (PyFloat_CheckExact(o)) {
        return plan_float(PyFloat_AS_DOUBLE(o));
    }
    if (PyComplex_CheckExact(o)) {
        uint32_t real = plan_dconst(p, PyComplex_RealAsDouble(o));
        return plan_complex(real, plan_dconst(p, PyComplex_ImagAsDouble(o)));
    }
    if (PyLong_CheckExact(o)) {
        int64_t i = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow == 0) {
            return plan_int(i);
        }
    }
    return const_object(p, o);
}

PyObject *plan_object(Plan *p, const PlanValue *v) { return v->v.kind == DYN_RK_CONST ? p->r->objects.at[v->v.ref] : NULL; }

char plan_np_type(DynDtype dt) {
    switch (dt) {
    case DYN_BOOL:
    case DYN_I8:
    case DYN_I16:
    case DYN_I32:
    case DYN_I64:
    case DYN_U8:
    case DYN_U16:
    case DYN_U32: return 'I';
    case DYN_F32: return 'S';
    case DYN_F64: return 'D';
    default: return 0;
    }
}

bool plan_is_element(DynDtype dt) { return dt == DYN_C128 || (dt != DYN_NO_DTYPE && plan_np_type(dt) != 0); }

/* ---- instructions */

static void put(Plan *p, DynRegionInstr in) {
    if (p->ninstrs++ > PLAN_INSTRS) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
    } else if (dyn_vec_push(&p->r->blocks.at[p->block].v, in) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
}

static DynRegionInstr instr(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c) {
    DynRegionInstr in = dyn_region_instr(op, a, b, c, 0);
    char result = dyn_region_ops[op].result;
    if (result != 'N') {
        in.dst = dyn_region_reg(p->r, result);
        if (in.dst == DYN_NONE) {
            plan_stop(p, DYN_R_NO_MEMORY);
            in.dst = 0;
        }
    }
    return in;
}

uint32_t plan_emit(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c) {
    DynRegionInstr in = instr(p, op, a, b, c);
    put(p, in);
    return in.dst;
}

DynRegionInstr *plan_last(Plan *p) {
    static DynRegionInstr nowhere; /* planning has stopped */
    DynRegionBlock *b = &p->r->blocks.at[p->block];
    return b->v.n > 0 ? &b->v.at[b->v.n - 1] : &nowhere;
}

uint32_t plan_emit_or(Plan *p, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, DynReason why) {
    DynRegionInstr in = instr(p, op, a, b, c);
    in.exit = plan_exit(p, why);
    put(p, in);
    return in.dst;
}

void plan_end(Plan *p, DynRegionOp op, uint32_t a, uint32_t to, uint32_t other, uint32_t exit) {
    DynRegionInstr in = instr(p, op, a, DYN_NONE, DYN_NONE);
    in.to[0] = to;
    in.to[1] = other;
    in.exit = exit;
    put(p, in);
}

uint32_t plan_iconst(Plan *p, int64_t number) {
    DynRegionInstr in = instr(p, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE);
    in.imm.i = number;
    put(p, in);
    return in.dst;
}

uint32_t plan_dconst(Plan *p, double number) {
    DynRegionInstr in = instr(p, DYN_RO_DCONST, DYN_NONE, DYN_NONE, DYN_NONE);
    in.imm.f = number;
    put(p, in);
    return in.dst;
}

uint32_t plan_reg(Plan *p, PlanValue *v) {
    if (v->v.nregs == 0 && v->known) {
        v->v.regs[0] = v->v.kind == DYN_RK_FLOAT ? plan_dconst(p, v->number.f) : plan_iconst(p, v->number.i);
        v->v.nregs = 1;
    }
    return v->v.regs[0];
}

/* ---- places: between blocks a value lies in a register that belongs to its place among the values, the part of it, and the
 * type: rows of four in p->places, kept in a list, since a region has some dozens. */

uint32_t plan_place(Plan *p, uint32_t place, uint32_t part, char type) {
    for (uint32_t i = 0; i < p->places.n; i += 4) {
        const uint32_t *row = p->places.at + i;
        if (row[0] == place && row[1] == part && row[2] == (uint32_t)type) {
            return row[3];
        }
    }
    uint32_t reg = dyn_region_reg(p->r, type);
    const uint32_t row[4] = {place, part, (uint32_t)type, reg};
    for (int k = 0; k < 4; k++) {
        if (reg == DYN_NONE || dyn_vec_push(&p->places, row[k]) < 0) {
            plan_stop(p, DYN_R_NO_MEMORY);
            return 0;
        }
    }
    return reg;
}

/* ---- objects */

static uint32_t new_reg(Plan *p, PlanValue *v, char type) {
    uint32_t reg = dyn_region_reg(p->r, type);
    if (reg == DYN_NONE) {
        plan_stop(p, DYN_R_NO_MEMORY);
        reg = 0;
    }
    v->v.regs[v->v.nregs++] = reg;
    return reg;
}

static bool of_scalar(Plan *p, PyObject *o, PlanValue *v) {
    if (dyn_npscalar_is(o, DYN_C128)) {
        *v = plan_value(DYN_RK_COMPLEX, DYN_NONE);
        v->v.dtype = DYN_C128;
        new_reg(p, v, 'D');
        new_reg(p, v, 'D');
        return true;
    }
    for (int dt = 0; dt < DYN_DTYPE_COUNT; dt++) {
        char type = dt == DYN_U64 ? 'I' : plan_np_type((DynDtype)dt);
        if (type != 0 && dyn_npscalar_is(o, dt)) {
            *v = plan_np((DynDtype)dt, DYN_NONE);
            new_reg(p, v, type);
            return true;
        }
    }
    return false;
}

/* An array as it lies. Only native, aligned elements of ranks that fit. Of np.uint64 there are elements and views alone. */
static bool of_array(Plan *p, PyObject *o, PlanValue *v) {
    DynArrayView view;
    if (!PyArray_CheckExact(o) || !dyn_array_view(o, &view) || !view.aligned) {
        return false;
    }
    DynDtype dt = (DynDtype)view.dtype;
    if ((!plan_is_element(dt) && dt != DYN_U64) || view.ndim > DYN_REGION_RANK || view.ndim == 0) {
        return false;
    }
    *v = plan_value(DYN_RK_ARRAY, DYN_NONE);
    v->v.dtype = view.dtype;
    v->v.n = view.ndim;
    bool dense = view.strides[view.ndim - 1] == (int64_t)dyn_dtypes[dt].size;
    bool writeable = view.writeable && !dyn_array_write_warns((PyArrayObject *)o);
    v->v.flags = (uint8_t)((dense ? DYN_RF_CONTIGUOUS : 0) | (writeable ? DYN_RF_WRITEABLE : 0));
    v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    new_reg(p, v, 'P');
    new_reg(p, v, 'P');
    int64_t *sizes = DYN_NEW_N(&p->arena, int64_t, view.ndim);
    for (int k = 0; sizes != NULL && k < view.ndim; k++) {
        sizes[k] = view.dims[k];
    }
    v->sizes = sizes;
    for (int k = 0; k < 2 * view.ndim; k++) {
        new_reg(p, v, 'I');
    }
    return true;
}

static bool of_range_iterator(Plan *p, PyObject *o, PlanValue *v) {
    int64_t state[3];
    if (!dyn_cpy_range_iterator(o, state)) {
        return false;
    }
    *v = plan_value(DYN_RK_ITER, DYN_NONE);
    v->v.n = state[2] == 1;
    for (int k = 0; k < 3; k++) {
        new_reg(p, v, 'I');
    }
    return true;
}

static bool of_array_iterator(Plan *p, PyObject *o, PlanValue *v) {
    int64_t index;
    PyObject *array = dyn_cpy_sequence_iterator(o, &index);
    if (array == NULL || !of_array(p, array, v) || v->v.n == DYN_REGION_RANK) {
        return false;
    }
    v->v.kind = DYN_RK_SEQ;
    new_reg(p, v, 'I');
    return true;
}

static bool of_iterator(Plan *p, PyObject *o, PlanValue *v);

static bool of_one(Plan *p, PyObject *o, PlanValue *v) {
    return of_range_iterator(p, o, v) || of_array_iterator(p, o, v) || plan_of_list_iterator(p, o, PLAN_INNER, v) ||
           plan_of_dict_iterator(p, o, v) || plan_of_generator(p, o, v);
}

/* zip(it, it) takes of one iterator twice. */
static bool is_twice(PyObject *all, uint32_t k) {
    for (uint32_t i = 0; i < k; i++) {
        if (PyTuple_GET_ITEM(all, i) == PyTuple_GET_ITEM(all, k)) {
            return true;
        }
    }
    return false;
}

/* An enumerate or zip object: the numbers and iterators in it. */
static bool of_iterators(Plan *p, PyObject *o, PlanValue *v) {
    int64_t index;
    PyObject *one = dyn_cpy_enumerate(o, &index), *all = one == NULL ? dyn_cpy_zip(o) : NULL;
    uint32_t n = one != NULL ? 2 : all != NULL ? (uint32_t)PyTuple_GET_SIZE(all) : 0;
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, PLAN_ITEMS);
    if (n == 0 || n > PLAN_ITEMS || items == NULL) {
        return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        PyObject *it = one != NULL ? one : PyTuple_GET_ITEM(all, k);
        if (one != NULL && k == 0) {
            items[k] = plan_value(DYN_RK_INT, DYN_NONE);
            new_reg(p, &items[k], 'I');
        } else if (all != NULL ? is_twice(all, k) || !of_one(p, it, &items[k]) : !of_iterator(p, it, &items[k])) {
            return false;
        }
    }
    *v = plan_value(one != NULL ? DYN_RK_ENUM : DYN_RK_ZIP, DYN_NONE);
    v->v.n = (uint8_t)n;
    v->items = items;
    return true;
}

static bool of_iterator(Plan *p, PyObject *o, PlanValue *v) { return of_one(p, o, v) || of_iterators(p, o, v); }

/* Is it one whose identity the region may take for granted: what programs name, and don't compute with? */
static bool is_named(PyObject *o) {
    return o == Py_None || PyFunction_Check(o) || PyCFunction_Check(o) || PyType_Check(o) || PyModule_CheckExact(o) ||
           Py_IS_TYPE(o, &PyUFunc_Type) || dyn_foreign_is(o) || dyn_foreign_is_library(o);
}

/* A function of an inner `def` or lambda is another object at each call. */
static bool of_made(Plan *p, PyObject *o, uint32_t slot, PlanValue *v) {
    if (!PyFunction_Check(o) || (((PyCodeObject *)PyFunction_GET_CODE(o))->co_flags & CO_NESTED) == 0) {
        return false;
    }
    PyObject *facts = dyn_cpy_function_facts(o);
    if (facts == NULL) {
        PyErr_Clear();
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    uint32_t of = slot >= PLAN_VALUES ? DYN_REGION_OF_EXTRA + slot - PLAN_VALUES : slot;
    if (dyn_vec_push(&p->made, ((PlanMade){.function = o, .of = of})) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    *v = plan_value(DYN_RK_MADE, DYN_NONE);
    v->v.ref = object_index(p, facts);
    v->v.shape = (uint16_t)(p->made.n - 1);
    new_reg(p, v, 'P');
    Py_DECREF(facts);
    return true;
}

PlanValue plan_of_object(Plan *p, PyObject *o, uint32_t slot, bool live, bool stack) {
    PlanValue v = plan_value(DYN_RK_ENTRY, DYN_NONE);
    v.v.ref = slot;
    int overflow = 0;
    v.v.flags = dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    if (!live) {
        return v;
    }
    if (o == NULL) {
        return plan_value(DYN_RK_NULL, DYN_NONE);
    }
    if (PyBool_Check(o) || PyFloat_CheckExact(o)) {
        v = plan_value(PyBool_Check(o) ? DYN_RK_BOOL : DYN_RK_FLOAT, DYN_NONE);
        new_reg(p, &v, PyBool_Check(o) ? 'I' : 'D');
    } else if (PyLong_CheckExact(o)) {
        (void)PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow == 0) {
            v = plan_value(DYN_RK_INT, DYN_NONE);
            new_reg(p, &v, 'I');
        }
    } else if (PyComplex_CheckExact(o)) {
        v = plan_value(DYN_RK_COMPLEX, DYN_NONE);
        new_reg(p, &v, 'D');
        new_reg(p, &v, 'D');
    } else if (plan_of_method(p, o, &v)) {
        return v;
    } else if (of_made(p, o, slot, &v)) {
        return v;
    } else if (is_named(o)) {
        v = plan_value(DYN_RK_CONST, DYN_NONE);
        v.v.ref = object_index(p, o);
    } else if (!of_scalar(p, o, &v) && !of_array(p, o, &v) && !plan_of_records(p, o, &v) && !plan_of_list(p, o, slot + 1, &v) &&
               !plan_of_text(p, o, &v) && !plan_of_dict(p, o, slot + 1, &v) && !plan_of_deque(p, o, slot + 1, &v) &&
               !plan_of_rng(p, o, &v) && !plan_of_instance(p, o, slot, &v) && stack) {
        PlanValue iterator;
        if (of_iterator(p, o, &iterator)) {
            iterator.v.ref = slot;
            return iterator;
        }
    }
    return v;
}
