/* foreign.c: calls of functions reached through ctypes and cffi, and of scipy.special.cython_special's. Called by calls.c.
 *
 * The address is data that comes in at each entry, which also asks whether the function still says what it said (run.c); its
 * signature is part of the code. Arguments are what ctypes takes for a type: what it doesn't take, CPython gets to see. Functions
 * of the C library's mathematics are instructions like any other. Beside every other one the GIL is released, as ctypes does:
 * other threads run then, and the function may call Python code back. So such a call is an effect, what is at hand is kept in
 * front of it, and behind it the region asks whether anything that it takes for granted has changed. */
#include "ir/region_foreign.h"
#include "tracer/region/plan.h"

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_OPAQUE_CALL, what);
    return false;
}

static DynRegionFact *fact_of(Plan *p, PyObject *o) {
    for (uint32_t i = 0; i < p->r->facts.n; i++) {
        DynRegionFact *f = &p->r->facts.at[i];
        if (f->object && f->value == o && f->name != NULL) {
            return f;
        }
    }
    PyObject *refers_to, *snapshot = dyn_foreign_snapshot(o, &refers_to);
    if (snapshot == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    DynRegionFact *fact = plan_fact(p, (DynRegionFact){.dict = refers_to, .name = snapshot, .value = o, .object = true});
    Py_DECREF(refers_to);
    Py_DECREF(snapshot);
    return fact;
}

/* The register with its address. */
static uint32_t address_of(Plan *p, PyObject *o, const DynForeign *f) {
    DynRegionFact *fact = f->place != 0 ? fact_of(p, o) : plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (fact != NULL && fact->extra == DYN_NONE) {
        PlanValue v = plan_value(DYN_RK_FOREIGN, dyn_region_reg(p->r, 'P'));
        v.v.ref = f->signature;
        v.v.n = (uint8_t)f->place;
        fact->extra = plan_extra(p, &v);
    }
    return fact == NULL || p->stop != DYN_R_OK ? 0 : p->extras.at[fact->extra].regs[0];
}

/* cffi takes what fits. An int that is larger than any of C's with a sign comes in no register. */
static void check_int(Plan *p, DynForeignType type, uint32_t reg) {
    static const signed char bits[DYN_FT_COUNT] = {[DYN_FT_I8] = 8,   [DYN_FT_U8] = -8,   [DYN_FT_I16] = 16, [DYN_FT_U16] = -16,
                                                   [DYN_FT_I32] = 32, [DYN_FT_U32] = -32, [DYN_FT_U64] = -63};
    if (bits[type] != 0) {
        plan_emit_or(p, DYN_RO_IFITS, reg, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION);
        plan_last(p)->imm.i = bits[type];
    }
}

/* ---- addresses of arrays */

static bool address(Plan *p, const PlanValue *array, uint32_t type, PlanValue *out) {
    *out = plan_value(DYN_RK_ADDRESS, DYN_NONE);
    out->v.n = 1;
    out->v.ref = type;
    PlanValue *items = DYN_NEW(&p->arena, PlanValue);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    items[0] = *array;
    out->items = items;
    return true;
}

bool plan_ctypes(Plan *p, const PlanValue *array, PlanValue *out) { return address(p, array, DYN_NONE, out); }

static bool is_ctypes(const PlanValue *o) { return o->v.kind == DYN_RK_ADDRESS && o->v.ref == DYN_NONE; }

bool plan_ctypes_attribute(Plan *p, const PlanValue *o, const char *name, PlanValue *out) {
    if (!is_ctypes(o) || strcmp(name, "data") != 0) {
        return no(p, "an attribute of a pointer");
    }
    *out = plan_value(DYN_RK_INT, plan_emit(p, DYN_RO_ADDRESS, o->items[0].v.regs[1], DYN_NONE, DYN_NONE));
    return true;
}

PyObject *plan_ctypes_method(PyObject *name) {
    return PyUnicode_CompareWithASCIIString(name, "data_as") == 0 ? dyn_foreign_pointer_method() : NULL;
}

Went plan_call_pointer(Plan *p, const PlanValue *o, const PlanValue *args, uint32_t n, uint32_t slots) {
    PyObject *type = n == 1 ? plan_object(p, &args[0]) : NULL;
    PlanValue out;
    if (!is_ctypes(o) || type == NULL || !dyn_foreign_is_pointer_type(type)) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a pointer of a type that isn't known");
    }
    if (!address(p, &o->items[0], plan_const(p, type).v.ref, &out)) {
        return WENT_NOWHERE;
    }
    p->s.n -= slots;
    plan_push(p, out);
    return WENT_ON;
}

/* Does the array look as the class of ndpointer's says? */
static bool fits(Plan *p, PyObject *class, const PlanValue *a) {
    PyObject *dtype;
    long ndim, flags;
    enum { KNOWN = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE };
    if (!plan_is_array(a) || !dyn_foreign_ndpointer(class, &dtype, &ndim, &flags) || (flags & ~(long)KNOWN) != 0) {
        return false;
    }
    PyArray_Descr *own = PyArray_DescrFromType(dyn_dtypes[a->v.dtype].npy);
    bool same = dtype == Py_None || (PyArray_DescrCheck(dtype) && PyArray_EquivTypes(own, (PyArray_Descr *)dtype));
    Py_DECREF(own);
    bool writeable = !(flags & NPY_ARRAY_WRITEABLE) || a->v.flags & DYN_RF_WRITEABLE;
    bool in_order = !(flags & NPY_ARRAY_C_CONTIGUOUS) || a->v.flags & DYN_RF_CONTIGUOUS;
    bool fits = same && writeable && in_order && (ndim < 0 || ndim == a->v.n);
    if (fits && flags & NPY_ARRAY_C_CONTIGUOUS) {
        plan_leave_unless_dense(p, a);
    }
    return fits;
}

/* The address that a parameter gets which takes no number. */
static bool pointer(Plan *p, PyObject *accepts, const PlanValue *v, uint32_t *reg) {
    bool typed = v->v.kind == DYN_RK_ADDRESS && v->v.ref != DYN_NONE;
    bool of_type = accepts == NULL ? v->v.kind == DYN_RK_ADDRESS : typed && p->r->objects.at[v->v.ref] == accepts;
    bool as_array = accepts != NULL && !dyn_foreign_is_pointer_type(accepts) && fits(p, accepts, v);
    if (!of_type && !as_array) {
        return no(p, "an argument that ctypes takes for no pointer");
    }
    *reg = as_array ? v->v.regs[1] : v->items[0].v.regs[1];
    return true;
}

/* The argument in a register of the type's kind, as ctypes makes it of a number; narrowing is the call's. */
static bool argument(Plan *p, DynForeignType type, PlanValue v, uint32_t *reg) {
    int known;
    bool integer = plan_is_integer(&v) || v.v.kind == DYN_RK_BOOL;
    if (type == DYN_FT_BOOL) {
        if (!plan_truth(p, &v, &known, reg)) {
            return false;
        }
        *reg = known >= 0 ? plan_iconst(p, known) : *reg;
        return true;
    }
    if (dyn_foreign_types[type].by == 'D') {
        return plan_is_number(&v) ? plan_double(p, v, reg) : no(p, "an argument that ctypes takes for no float");
    }
    if (!integer || (type == DYN_FT_PTR && v.v.kind == DYN_RK_NP)) {
        return no(p, "an argument that ctypes takes for no int");
    }
    *reg = plan_reg(p, &v);
    return true;
}

static void keep(Plan *p, const PlanValue *v) {
    uint32_t objects = 0;
    switch ((DynRegionKind)v->v.kind) {
    case DYN_RK_ARRAY:
    case DYN_RK_VIEW:
    case DYN_RK_SEQ:
    case DYN_RK_LIST:
    case DYN_RK_TEXT:
    case DYN_RK_INST:
    case DYN_RK_DICT:
    case DYN_RK_SET:
    case DYN_RK_DEQUE:
    case DYN_RK_MADE:
    case DYN_RK_RNG: objects = 1; break;
    case DYN_RK_METHOD: objects = 2; break;
    default: break;
    }
    for (uint32_t i = 0; i < objects; i++) {
        plan_emit_or(p, DYN_RO_KEEP, v->v.regs[i], DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY);
    }
    for (uint32_t i = 0; dyn_region_has_items(v->v.kind) && i < v->v.n; i++) {
        keep(p, &v->items[i]);
    }
}

/* Can other code run here? What others see has to be as CPython would have it. */
static bool may_release(Plan *p, const DynForeign *f) {
    if (dyn_foreign_result(f->signature) == DYN_FT_U64) {
        return no(p, "a function of ctypes whose result may not fit in 64 bits with a sign");
    }
    if (p->c->nnamed > 0) {
        return no(p, "a function of ctypes beside variables of a module");
    }
    if (p->s.nframes > 1) {
        return no(p, "a function of ctypes within a function that is followed into");
    }
    for (uint32_t i = 0; i < p->r->nslots; i++) {
        if (p->s.values[i].v.kind == DYN_RK_CELL) {
            return no(p, "a function of ctypes beside a variable that inner functions share, and that is stored");
        }
    }
    return true;
}

static PlanValue result_of(Plan *p, DynForeignType type, uint32_t reg) {
    if (type == DYN_FT_VOID) {
        return plan_const(p, Py_None);
    }
    return plan_value(type == DYN_FT_BOOL ? DYN_RK_BOOL : dyn_foreign_types[type].by == 'D' ? DYN_RK_FLOAT : DYN_RK_INT, reg);
}

static uint32_t call(Plan *p, uint32_t address, uint32_t signature, const DynForeign *f, const uint32_t *regs) {
    if (f->checks || f->swaps) {
        plan_emit(p, f->swaps ? DYN_RO_ERRNOSWAP : DYN_RO_ERRNOBACK, DYN_NONE, DYN_NONE, DYN_NONE);
    }
    for (uint32_t i = 0; i < dyn_foreign_nargs(signature); i++) {
        bool number = dyn_foreign_types[dyn_foreign_arg(signature, i)].by == 'D', pointer = p->r->regs.at[regs[i]] == 'P';
        DynRegionOp integer = pointer ? DYN_RO_ARGP : DYN_RO_ARGI;
        plan_emit(p, number ? DYN_RO_ARGD : integer, regs[i], DYN_NONE, DYN_NONE);
        plan_last(p)->imm.i = i;
    }
    char by = dyn_foreign_types[dyn_foreign_result(signature)].by;
    uint32_t reg = plan_emit(p, by == 'D' ? DYN_RO_CALLD : by == 'I' ? DYN_RO_CALLI : DYN_RO_CALLN, address, DYN_NONE, DYN_NONE);
    plan_last(p)->imm.i = signature;
    if (f->checks || f->swaps) {
        plan_emit(p, f->swaps ? DYN_RO_ERRNOSWAP : DYN_RO_ERRNOKEEP, DYN_NONE, DYN_NONE, DYN_NONE);
    }
    return reg;
}

Went plan_call_foreign(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, uint32_t slots) {
    DynForeign f;
    uint32_t regs[DYN_FOREIGN_ARGS + 1], passed = n;
    if (!dyn_foreign_of(o, &f)) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, f.why);
    }
    if (f.skips && n < DYN_FOREIGN_ARGS) {
        regs[passed++] = plan_iconst(p, 0);
    }
    uint32_t signature = dyn_foreign_with(f.signature, passed);
    if (signature == 0 || n > DYN_FOREIGN_ARGS) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function of ctypes with another number of arguments");
    }
    if (!f.pure && !may_release(p, &f)) {
        return WENT_NOWHERE;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool any_int = args[i].v.kind == DYN_RK_INT || args[i].v.kind == DYN_RK_BOOL;
        if (signature != f.signature && !any_int) {
            return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function of ctypes without argtypes, called with what is no int");
        }
        bool floats = !f.floats_only || args[i].v.kind == DYN_RK_FLOAT;
        bool number = !f.skips || dyn_foreign_arg(signature, i) == DYN_FT_F64 || args[i].v.kind == DYN_RK_INT;
        if (!floats || !number) {
            return plan_unknown(p, DYN_R_OPAQUE_CALL, "a function of Cython that takes numbers of other types");
        }
        bool number_given = f.accepts[i] == NULL && args[i].v.kind != DYN_RK_ADDRESS;
        DynForeignType type = dyn_foreign_arg(signature, i);
        bool addressed = !number_given && type == DYN_FT_PTR;
        if (addressed ? !pointer(p, f.accepts[i], &args[i], &regs[i]) : !argument(p, type, args[i], &regs[i])) {
            return WENT_NOWHERE;
        }
        if (f.checks && p->stop == DYN_R_OK) {
            check_int(p, dyn_foreign_arg(signature, i), regs[i]);
        }
    }
    uint32_t address = address_of(p, o, &f), reg;
    if (f.pure) {
        reg = call(p, address, signature, &f, regs);
        p->s.n -= slots;
        plan_push(p, result_of(p, dyn_foreign_result(signature), reg));
        return WENT_ON;
    }
    p->r->releases = true;
    plan_settle_doubts(p);
    for (uint32_t i = 0; i < p->s.n; i++) {
        keep(p, &p->s.values[i]);
    }
    if (f.swaps) {
        plan_emit_or(p, DYN_RO_ERRNOFIND, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_OPAQUE_CALL);
    }
    uint32_t released = plan_emit(p, DYN_RO_RELEASE, DYN_NONE, DYN_NONE, DYN_NONE);
    reg = call(p, address, signature, &f, regs);
    plan_emit(p, DYN_RO_HOLD, released, DYN_NONE, DYN_NONE);
    p->s.n -= slots;
    plan_push(p, result_of(p, dyn_foreign_result(signature), reg));
    plan_effect(p, plan_frame(p)->at + 1);
    plan_emit_or(p, DYN_RO_UNCHANGED, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_OK);
    return WENT_ON;
}
