/* names.c: globals, builtins, attributes of modules and arrays. Called by step.c. What a name stands for is taken for granted,
 * and becomes a fact of the region that is looked at each time it is entered. */
#include "ir/region_foreign.h"
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

enum { EXTRA_SLOT = PLAN_VALUES }; /* the numbers of lists that come in beside the slots begin here */

static bool no(Plan *p, const char *what) {
    plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, what);
    return false;
}

DynRegionFact *plan_fact(Plan *p, DynRegionFact f) {
    for (uint32_t i = 0; i < p->r->facts.n; i++) {
        DynRegionFact *old = &p->r->facts.at[i];
        bool of_kind = old->function == f.function && old->cell == f.cell && old->object == f.object &&
                       old->attribute == f.attribute && old->closure == f.closure;
        bool same = old->dict == f.dict && old->name == f.name && old->slot == f.slot && old->of == f.of && old->index == f.index;
        if (of_kind && same && (!f.object || old->value == f.value)) {
            return old;
        }
    }
    f.extra = DYN_NONE;
    if (dyn_vec_push(&p->r->facts, f) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return NULL;
    }
    Py_XINCREF(f.dict);
    Py_XINCREF(f.name);
    Py_XINCREF(f.value);
    return &p->r->facts.at[p->r->facts.n - 1];
}

/* The fact about an item of a dict. */
static DynRegionFact *fact_of(Plan *p, PyObject *dict, PyObject *name, PyObject *value) {
    return plan_fact(p, (DynRegionFact){.dict = dict, .name = name, .value = value});
}

static PyObject *item_of(PyObject *dict, PyObject *name) {
    if (!PyDict_CheckExact(dict)) {
        return NULL;
    }
    PyObject *found = PyDict_GetItemWithError(dict, name);
    if (found == NULL && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return found;
}

uint32_t plan_extra(Plan *p, const PlanValue *v) {
    if (p->extras.n == DYN_REGION_EXTRAS || dyn_vec_push(&p->extras, v->v) < 0) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
    }
    return p->extras.n - 1;
}

/* What a name that is taken for granted stands for: a number, an array that comes in beside the slots, or the object itself. */
static PlanValue value_of(Plan *p, DynRegionFact *f, PyObject *o) {
    if (f != NULL && f->extra != DYN_NONE) {
        PlanValue v = {.v = p->extras.at[f->extra]};
        return v;
    }
    bool looked_into = PyArray_CheckExact(o) || PyList_CheckExact(o) || PyByteArray_CheckExact(o) || PyDict_CheckExact(o) ||
                       PySet_CheckExact(o) || plan_is_rng(o) ||
                       (!PyType_Check(o) && !PyFunction_Check(o) && plan_class_of(p, o) != DYN_NONE);
    if (f != NULL && looked_into) {
        PlanValue v = plan_of_object(p, o, EXTRA_SLOT + p->extras.n, true, false);
        if (v.v.kind != DYN_RK_ENTRY && v.v.kind != DYN_RK_CONST) {
            f->extra = plan_extra(p, &v);
            Py_CLEAR(f->value);
            return v;
        }
    }
    return plan_const(p, o);
}

uint32_t plan_object_reg(Plan *p, PyObject *o) {
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v = plan_value(DYN_RK_CLASS, dyn_region_reg(p->r, 'P'));
        f->extra = plan_extra(p, &v);
    }
    return f == NULL || p->stop != DYN_R_OK ? 0 : p->extras.at[f->extra].regs[0];
}

/* What dynoc.optimize gave stands for the function inside. Borrowed; NULL: it is something else. */
PyObject *plan_inside(PyObject *o) {
    static PyObject *type; /* strong */
    if (type == NULL) {
        type = dyn_module_attr("dynoc._dynoc", "OptimizedFunction");
    }
    PyObject *function = type != NULL && Py_IS_TYPE(o, (PyTypeObject *)type) ? PyObject_GetAttrString(o, "__wrapped__") : NULL;
    PyErr_Clear();
    Py_XDECREF(function); /* the object keeps it */
    return function != NULL && PyFunction_Check(function) ? function : NULL;
}

void plan_describe(Plan *p, PyObject *globals, uint32_t nstack) {
    DynRegion *r = p->r;
    r->code = Py_NewRef(p->c->code);
    r->header = p->c->v.at[p->header].start;
    r->nslots = (uint32_t)dyn_code_nlocalsplus(p->c->code);
    r->nstack = nstack;
    r->namespace = p->c->nnamed > 0 ? globals : NULL;
}

static bool is_stored_in_loop(const Plan *p, uint32_t slot) {
    bool stored = slot >= p->r->nslots - p->c->nshared;
    for (uint32_t i = 0; i < p->c->v.n && !stored; i++) {
        stored = p->in_loop[i] && p->c->v.at[i].op == DYN_I_STORE_FAST && p->c->v.at[i].arg == slot;
    }
    return stored;
}

/* The slot of a variable of the module whose loop this is, which the loop may store; or DYN_NONE. */
static uint32_t slot_of(const Plan *p, PyObject *dict, PyObject *name) {
    uint32_t nslots = p->r->nslots;
    for (uint32_t slot = nslots - p->c->nnamed; dict == p->s.frames[0].globals && slot < nslots; slot++) {
        if (dyn_code_local_name(p->c->code, (int)slot) == name && is_stored_in_loop(p, slot)) {
            return slot;
        }
    }
    return DYN_NONE;
}

/* Such a variable: *out, the value that it has now, or one that has none. */
static bool module_variable(const Plan *p, PyObject *dict, PyObject *name, PlanValue *out) {
    uint32_t slot = slot_of(p, dict, name);
    if (slot != DYN_NONE) {
        bool known = p->s.routine == 0 && (p->s.values[slot].v.flags & DYN_RF_MAYBE) == 0;
        *out = known ? p->s.values[slot] : plan_value(DYN_RK_NULL, DYN_NONE);
    }
    return slot != DYN_NONE;
}

/* A function that is followed into stores a number. Where the region is left before the call is over, all of it is done again
 * with what the slot held before. */
Went plan_store_global(Plan *p) {
    const DynInstr *in = plan_instr(p);
    PyObject *name = PyTuple_GET_ITEM(plan_frame(p)->c->code->co_names, in->arg);
    uint32_t slot = p->s.routine == 0 ? slot_of(p, plan_frame(p)->globals, name) : DYN_NONE;
    bool number = slot != DYN_NONE && plan_is_number(plan_top(p, 0)) && plan_is_number(&p->s.values[slot]);
    if (!number || ((plan_top(p, 0)->v.flags | p->s.values[slot].v.flags) & DYN_RF_MAYBE) != 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OPCODE, "a global that is stored, but a number of a module whose loop it is");
    }
    p->s.values[slot] = plan_pop(p);
    return WENT_ON;
}

static void push_global(Plan *p, const DynInstr *in, PlanValue v) {
    PlanValue none = plan_value(DYN_RK_NULL, DYN_NONE);
    if (in->sub != 0 && dyn_call_null_first()) {
        plan_push(p, none);
    }
    plan_push(p, v);
    if (in->sub != 0 && !dyn_call_null_first()) {
        plan_push(p, none);
    }
}

Went plan_global(Plan *p, const DynInstr *in) {
    const PlanFrame *frame = plan_frame(p);
    PyObject *name = PyTuple_GET_ITEM(frame->c->code->co_names, in->arg);
    PyObject *o = item_of(frame->globals, name), *dict = frame->globals;
    PlanValue variable;
    if (module_variable(p, dict, name, &variable)) {
        if (variable.v.kind == DYN_RK_NULL) {
            return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a variable of the module that may have no value");
        }
        push_global(p, in, variable);
        return WENT_ON;
    }
    if (!PyDict_CheckExact(frame->globals) || !PyDict_CheckExact(frame->builtins)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a namespace that is no dict");
    }
    if (o == NULL) {
        fact_of(p, frame->globals, name, NULL);
        o = item_of(frame->builtins, name);
        dict = frame->builtins;
    }
    if (o == NULL) {
        return plan_unknown(p, DYN_R_EXCEPTION, "no such name");
    }
    DynRegionFact *f = fact_of(p, dict, name, o);
    push_global(p, in, value_of(p, f, o));
    return WENT_ON;
}

bool plan_ufunc(Plan *p, PyObject *o, uint32_t n, uint32_t loop, PlanValue *out) {
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true, .slot = loop});
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v = plan_value(DYN_RK_UFUNC, dyn_region_reg(p->r, 'P'));
        v.v.n = (uint8_t)n;
        v.v.shape = (uint16_t)loop;
        v.v.regs[v.v.nregs++] = dyn_region_reg(p->r, 'P');
        f->extra = plan_extra(p, &v);
    }
    if (p->stop != DYN_R_OK) {
        return false;
    }
    *out = (PlanValue){.v = p->extras.at[f->extra]};
    return true;
}

DynRegionFact plan_fact_of_made(Plan *p, uint32_t variable) {
    const PlanFrame *frame = plan_frame(p);
    uint32_t first = (uint32_t)(dyn_code_nlocalsplus(frame->c->code) - dyn_code_nfree(frame->c->code));
    return (DynRegionFact){.closure = true, .of = p->made.at[frame->made - 1].of, .index = variable - first, .slot = DYN_NONE};
}

/* A variable of an enclosing function, or of this one that inner functions share: nobody else runs meanwhile. */
Went plan_deref(Plan *p, const DynInstr *in, uint32_t slot) {
    const PlanFrame *frame = plan_frame(p);
    PyObject *cell = NULL, *held = NULL;
    DynRegionFact fact = {.cell = true, .slot = DYN_NONE};
    if (p->s.nframes == 1 || frame->cells != NULL) {
        held = slot == DYN_NONE ? NULL : p->slots[slot];
        fact.slot = slot;
    } else if (frame->closure != NULL) {
        uint32_t first = (uint32_t)(dyn_code_nlocalsplus(frame->c->code) - dyn_code_nfree(frame->c->code));
        held = cell = in->arg >= first ? PyTuple_GET_ITEM(frame->closure, in->arg - first) : NULL;
        fact.dict = cell;
    }
    if (cell != NULL && frame->made != 0) { /* of the frame's own cells it is a fact already which one it is */
        fact = slot == DYN_NONE ? plan_fact_of_made(p, in->arg) : (DynRegionFact){.cell = true, .slot = slot};
    }
    PyObject *o = held != NULL && PyCell_Check(held) ? PyCell_GET(held) : NULL;
    if (o == NULL) {
        return plan_unknown(p, DYN_R_EXCEPTION, "the variable has no value");
    }
    DynRegionFact *f = plan_fact(p, fact);
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v = plan_of_object(p, o, EXTRA_SLOT + p->extras.n, true, false);
        f->extra = plan_extra(p, &v);
    }
    if (f == NULL || p->stop != DYN_R_OK) {
        return WENT_AWAY;
    }
    PlanValue v = {.v = p->extras.at[f->extra]};
    if (v.v.kind == DYN_RK_ENTRY) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a variable with an object that loops in native code don't know");
    }
    plan_push(p, v);
    return WENT_ON;
}

static bool module_attribute(Plan *p, PyObject *module, PyObject *name, PlanValue *out) {
    PyObject *dict = PyModule_GetDict(module), *o = item_of(dict, name);
    if (module_variable(p, dict, name, out)) {
        return out->v.kind != DYN_RK_NULL || no(p, "a variable of the module that may have no value");
    }
    if (o == NULL) {
        return no(p, "a module that doesn't have this attribute itself");
    }
    *out = value_of(p, fact_of(p, dict, name, o), o);
    return true;
}

bool plan_transposed(Plan *p, const PlanValue *a, PlanValue *out) {
    int64_t *sizes = DYN_NEW_N(&p->arena, int64_t, 2);
    for (uint32_t k = 0; k < a->v.n && sizes != NULL; k++) {
        sizes[k] = plan_sampled(a, k);
    }
    *out = *a;
    out->v.kind = DYN_RK_VIEW;
    out->sizes = sizes;
    out->v.flags &= (uint8_t) ~(a->v.n == 2 ? DYN_RF_CONTIGUOUS : 0);
    for (uint32_t k = 0; k < a->v.n; k++) {
        out->v.regs[2 + k] = a->v.regs[1 + a->v.n - k];
        out->v.regs[2 + a->v.n + k] = a->v.regs[1 + 2 * a->v.n - k];
    }
    return true;
}

/* a.shape, a.size, a.ndim of an array. */
static bool array_attribute(Plan *p, const PlanValue *a, const char *name, PlanValue *out) {
    if (strcmp(name, "ndim") == 0) {
        *out = plan_int(a->v.n);
        return true;
    }
    if (strcmp(name, "size") == 0) {
        uint32_t all = a->v.regs[2];
        for (uint32_t k = 1; k < a->v.n; k++) {
            all = plan_emit(p, DYN_RO_IMULW, all, a->v.regs[2 + k], DYN_NONE);
        }
        *out = plan_value(DYN_RK_INT, all);
        return true;
    }
    if (a->v.dtype == DYN_C128 && (strcmp(name, "real") == 0 || strcmp(name, "imag") == 0)) {
        *out = plan_part(p, a, name[0] == 'i');
        return true;
    }
    if (strcmp(name, "T") == 0 && a->v.n <= 2) {
        return plan_transposed(p, a, out);
    }
    if (strcmp(name, "ctypes") == 0) {
        return plan_ctypes(p, a, out);
    }
    if (strcmp(name, "shape") != 0) {
        return no(p, "an attribute of an array");
    }
    PlanValue shape, *items = plan_new_tuple(p, a->v.n, &shape);
    if (items == NULL) {
        return no(p, "memory");
    }
    for (uint32_t k = 0; k < a->v.n; k++) {
        items[k] = plan_value(DYN_RK_INT, a->v.regs[2 + k]);
    }
    *out = shape;
    return true;
}

/* The object of which something is taken for granted: itself, or the slot that it comes in. */
static bool is_fixed(Plan *p, const PlanValue *o, PyObject **object, DynRegionFact *f) {
    *object = plan_object(p, o);
    if (o->v.kind == DYN_RK_ENTRY || (o->v.kind == DYN_RK_INST && o->v.n > 0)) {
        f->slot = o->v.kind == DYN_RK_ENTRY ? o->v.ref : o->v.n - 1u;
        *object = p->slots[f->slot];
    } else {
        f->dict = *object;
        f->slot = DYN_NONE;
    }
    f->attribute = true;
    return *object != NULL;
}

/* An attribute of an object's own: what the loop doesn't store, it may take for granted until CPython runs again. */
static bool own_attribute(Plan *p, const PlanValue *o, PyObject *name, PlanValue *out) {
    DynRegionFact f = {.name = name};
    PyObject *object, *value = is_fixed(p, o, &object, &f) ? dyn_cpy_own_attribute(object, name) : NULL;
    if (value == NULL) {
        return no(p, "an attribute of an object that loops in native code don't know");
    }
    DynRegionFact *fact = plan_fact(p, f);
    if (fact != NULL && fact->extra == DYN_NONE) {
        PlanValue v = plan_of_object(p, value, EXTRA_SLOT + p->extras.n, true, false);
        v.v.ref = v.v.kind == DYN_RK_ENTRY ? DYN_NONE : v.v.ref;
        fact->extra = plan_extra(p, &v);
    }
    if (fact == NULL || p->stop != DYN_R_OK) {
        return false;
    }
    *out = (PlanValue){.v = p->extras.at[fact->extra]};
    return out->v.kind != DYN_RK_ENTRY || no(p, "an attribute with an object that loops in native code don't know");
}

bool plan_method(Plan *p, const PlanValue *o, PyObject *name, PlanValue *function) {
    DynRegionFact f = {.name = name};
    PyObject *object;
    f.value = is_fixed(p, o, &object, &f) ? dyn_cpy_method_of(object, name) : NULL;
    if (f.value == NULL || plan_fact(p, f) == NULL) {
        return false;
    }
    *function = plan_const(p, f.value);
    return true;
}

static bool is_measure(const char *name) {
    return strcmp(name, "shape") == 0 || strcmp(name, "size") == 0 || strcmp(name, "ndim") == 0;
}

bool plan_attribute(Plan *p, PlanValue o, PyObject *name, PlanValue *out) {
    PyObject *object = plan_object(p, &o);
    if (object != NULL && PyModule_CheckExact(object)) {
        return module_attribute(p, object, name, out);
    }
    PyObject *function = object == NULL ? NULL : dyn_foreign_of_cffi_library(object, name);
    if (function != NULL) {
        *out = plan_const(p, function);
        return true;
    }
    const char *text = PyUnicode_AsUTF8(name);
    if (text == NULL) {
        PyErr_Clear();
    } else if (o.v.kind == DYN_RK_COMPLEX && (strcmp(text, "real") == 0 || strcmp(text, "imag") == 0)) {
        uint32_t part = o.v.regs[text[0] == 'i'];
        *out = plan_is_np_complex(&o) ? plan_np(DYN_F64, part) : plan_value(DYN_RK_FLOAT, part);
        return true;
    } else if (plan_is_array(&o) || (plan_is_column(&o) && is_measure(text))) {
        return array_attribute(p, &o, text, out);
    } else if (o.v.kind == DYN_RK_ADDRESS) {
        return plan_ctypes_attribute(p, &o, text, out);
    }
    return own_attribute(p, &o, name, out);
}
