/* objects.c: instances of Python classes: their attributes, read and stored where they lie, and the methods of their classes.
 * Called by step.c, calls.c and values.c.
 *
 * A class is taken for granted in the version that it has (a fact), and with it where its instances have each attribute; whether
 * an object is an instance is looked at where it is read. An attribute that the loop doesn't store, of an object that came in a
 * slot, is names.c's: it is read once, when the region is entered. Not so where all of a function is the region, which is called
 * with other objects each time. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include <opcode.h>

uint32_t plan_class_number(Plan *p, const PlanValue *v) {
    for (uint32_t i = 0; i < p->nclasses; i++) {
        if (p->classes[i].type == plan_type_of_instance(p, v)) {
            return i;
        }
    }
    return 0;
}

PlanValue plan_instance(Plan *p, uint32_t class, uint32_t reg) {
    PlanValue v = plan_const(p, (PyObject *)p->classes[class].type); /* for its number */
    v.v.kind = DYN_RK_INST;
    v.v.nregs = 1;
    v.v.regs[0] = reg;
    return v;
}

bool plan_of_instance(Plan *p, PyObject *o, uint32_t slot, PlanValue *v) {
    uint32_t class = plan_is_getter(o) ? DYN_NONE : plan_class_of(p, o),
             reg = class == DYN_NONE ? DYN_NONE : dyn_region_reg(p->r, 'P');
    if (reg == DYN_NONE) {
        return false;
    }
    *v = plan_instance(p, class, reg);
    v->v.n = slot < PLAN_VALUES && !p->whole ? (uint8_t)(slot + 1) : 0;
    if (slot < PLAN_VALUES && p->ends[slot + 1]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

uint32_t plan_class_reg(Plan *p, uint32_t class) {
    PyTypeObject *t = p->classes[class].type;
    DynRegionFact fact = {.value = (PyObject *)t, .object = true, .class = true};
    fact.slot = dyn_cpy_class_version(t, &fact.nkeys);
    DynRegionFact *f = plan_fact(p, fact);
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v = plan_value(DYN_RK_CLASS, dyn_region_reg(p->r, 'P'));
        f->extra = plan_extra(p, &v);
    }
    return f == NULL || p->stop != DYN_R_OK ? 0 : p->extras.at[f->extra].regs[0];
}

/* The place of an attribute: left where the instance has a dict, in which it then lies. */
static bool place_of(Plan *p, const PlanValue *o, PyObject *name, uint32_t *place) {
    uint32_t class = plan_class_number(p, o);
    bool direct;
    int64_t at;
    if (plan_named_field(p->classes[class].type, name, &at)) {
        plan_class_reg(p, class);
        *place = plan_named_place(p, o, at);
        return true;
    }
    if (!dyn_cpy_field(p->classes[class].type, name, &direct, &at)) {
        plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute of an object that loops in native code don't know");
        return false;
    }
    plan_class_reg(p, class);
    uint32_t number = plan_iconst(p, at);
    *place = direct ? plan_emit(p, DYN_RO_PADD, o->v.regs[0], number, DYN_NONE)
                    : plan_emit_or(p, DYN_RO_FIELD, o->v.regs[0], number, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

bool plan_is_field(Plan *p, const PlanValue *o, PyObject *name) {
    bool direct;
    int64_t at;
    PlanValue part;
    if (plan_load_from_parts(p, o, name, &part)) {
        return true;
    }
    const PlanClass *c = o->v.kind == DYN_RK_INST ? &p->classes[plan_class_number(p, o)] : NULL;
    if (c != NULL && plan_named_field(c->type, name, &at)) {
        return true;
    }
    if (c == NULL || !dyn_cpy_field(c->type, name, &direct, &at)) {
        return false;
    }
    bool fixed = o->v.n > 0;
    for (uint32_t i = 0; i < c->nnames && fixed; i++) {
        fixed = c->names[i] != name || !c->stored[i];
    }
    return !fixed;
}

Went plan_load_field(Plan *p, PlanValue o, PyObject *name) {
    PlanValue part;
    if (plan_load_from_parts(p, &o, name, &part)) {
        p->s.n--;
        plan_push(p, part);
        return WENT_ON;
    }
    uint32_t place, class = plan_class_number(p, &o), shape = plan_attribute_shape(p, class, name, false);
    if (shape == 0 || plan_shape(p, shape)->bits == 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute that no instance had");
    }
    if (!place_of(p, &o, name, &place)) {
        return WENT_NOWHERE;
    }
    PlanItem item = {plan_emit_or(p, DYN_RO_LDOBJECT, place, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION), shape, DYN_NONE, DYN_NONE};
    return plan_push_item(p, &item, 1);
}

/* The Python function by which a property gets or sets its value; borrowed, or NULL. */
static PyObject *function_of_property(PyTypeObject *t, PyObject *name, const char *which) {
    PyObject *found = dyn_cpy_lookup_special(t, name), *function = NULL;
    if (found != NULL && Py_IS_TYPE(found, &PyProperty_Type)) {
        function = PyObject_GetAttrString(found, which);
        Py_XDECREF(function); /* the property has it */
    }
    PyErr_Clear();
    return function != NULL && PyFunction_Check(function) ? function : NULL;
}

/* In an inlined call what was there is noted, so that the call can be left in its middle and done anew. */
Went plan_store_field(Plan *p, PlanValue o, PyObject *name, PlanValue v) {
    DynRegionOp op;
    int64_t index;
    PyObject *set = function_of_property(plan_type_of_instance(p, &o), name, "fset");
    if (set != NULL) {
        plan_class_reg(p, plan_class_number(p, &o));
        const PlanValue passed[2] = {o, v};
        Went went = plan_call_function(p, (PyFunctionObject *)set, passed, 2, 2);
        if (went == WENT_ON) {
            plan_frame(p)->returns = PLAN_NOTHING;
        }
        return went;
    }
    if (plan_is_parts(&o) && plan_store_in_parts(p, &o, name, v)) {
        p->s.n -= 2;
        return WENT_ON;
    }
    if (!plan_whole(p, &o) || !plan_whole(p, &v)) {
        return WENT_NOWHERE;
    }
    if (plan_named_field(p->classes[plan_class_number(p, &o)].type, name, &index)) {
        return plan_unknown(p, DYN_R_EXCEPTION, "a field of a named tuple is stored");
    }
    uint32_t place, reg, class = plan_class_number(p, &o), shape = plan_attribute_shape(p, class, name, true);
    if (shape == 0 || !plan_storing(p, &v, PLAN_PUT, &op, &reg)) {
        return shape == 0 ? plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute of a class with many") : WENT_NOWHERE;
    }
    if (!place_of(p, &o, name, &place)) {
        return WENT_NOWHERE;
    }
    plan_settle_doubts(p);
    plan_holds(p, shape, &v);
    plan_emit_or(p, DYN_RO_LDOBJECT, place, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    if (p->s.nframes > 1) {
        plan_emit_or(p, v.v.kind == DYN_RK_FLOAT ? DYN_RO_NOTE : DYN_RO_NOTEOBJECT, place, DYN_NONE, DYN_NONE,
                     DYN_R_UNSUPPORTED_VALUE);
        plan_log(p);
    }
    plan_emit_or(p, op, place, reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    p->s.n -= 2;
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

bool plan_class_method(Plan *p, const PlanValue *o, PyObject *name, PlanValue *function) {
    PlanClass *c = &p->classes[plan_class_number(p, o)];
    PyObject *found = dyn_cpy_lookup_special(c->type, name);
    uint32_t nkeys = 0;
    bool known = found != NULL && PyFunction_Check(found) && dyn_cpy_class_version(c->type, &nkeys) != 0;
    if (!known || (!plan_is_parts(o) && dyn_cpy_shares_key(c->type, name))) {
        return false;
    }
    plan_class_reg(p, plan_class_number(p, o));
    if (!plan_is_parts(o) && !dyn_cpy_has_no_dict(c->type)) {
        plan_emit_or(p, DYN_RO_FIELDS, o->v.regs[0], DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    *function = plan_const(p, found);
    return true;
}

/* ---- instances that are made */

static bool is_plain_class(PyTypeObject *t) {
    bool finalized = t->tp_finalize != NULL || t->tp_del != NULL;
    bool plain = Py_IS_TYPE(t, &PyType_Type) && t->tp_new == PyBaseObject_Type.tp_new && t->tp_alloc == PyType_GenericAlloc;
    return plain && !finalized && (t->tp_flags & Py_TPFLAGS_IS_ABSTRACT) == 0;
}

/* C(…): an empty instance, and its class's __init__ in place, if it has one. */
Went plan_construct(Plan *p, PyObject *type, const PlanValue *args, uint32_t n, uint32_t slots) {
    PyTypeObject *t = (PyTypeObject *)type;
    if (plan_is_named(t)) {
        return plan_construct_named(p, t, args, n, slots);
    }
    uint32_t class = is_plain_class(t) ? plan_class_of_type(p, t) : DYN_NONE;
    PyObject *init = dyn_cpy_lookup_named(t, "__init__");
    PlanValue passed[16];
    bool bare = t->tp_init == PyBaseObject_Type.tp_init && n == 0, fits = n + 1 <= DYN_COUNTOF(passed);
    if (class == DYN_NONE || !(bare || (init != NULL && PyFunction_Check(init) && fits))) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a class that loops in native code make no instances of");
    }
    PlanValue o;
    if (!plan_new_parts(p, t, &o)) {
        return plan_unknown(p, DYN_R_GRAPH_SIZE, "one instance too many");
    }
    plan_class_reg(p, class);
    if (bare) {
        p->s.n -= slots;
        plan_push(p, o);
        return WENT_ON;
    }
    passed[0] = o;
    memcpy(passed + 1, args, n * sizeof *args);
    plan_push(p, o);
    Went went = plan_call_function(p, (PyFunctionObject *)init, passed, n + 1, slots + 1);
    if (went == WENT_ON) {
        plan_frame(p)->returns = PLAN_INSTANCE;
    }
    return went;
}

/* ---- what classes say of their instances */

Went plan_special(Plan *p, const char *name, const PlanValue *passed, uint32_t n, uint32_t slots, PlanReturns returns) {
    PyObject *interned = PyUnicode_InternFromString(name);
    PlanValue function;
    bool found = interned != NULL && plan_class_method(p, &passed[0], interned, &function);
    PyErr_Clear();
    Py_XDECREF(interned);
    if (!found) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a special method that is no function of the object's class");
    }
    Went went = plan_call_function(p, (PyFunctionObject *)plan_object(p, &function), passed, n, slots);
    if (went == WENT_ON) {
        plan_frame(p)->returns = (uint8_t)returns;
    }
    return went;
}

static const char *const operators[][2] = {
    [NB_ADD] = {"__add__", "__radd__"},
    [NB_SUBTRACT] = {"__sub__", "__rsub__"},
    [NB_MULTIPLY] = {"__mul__", "__rmul__"},
    [NB_TRUE_DIVIDE] = {"__truediv__", "__rtruediv__"},
    [NB_FLOOR_DIVIDE] = {"__floordiv__", "__rfloordiv__"},
    [NB_REMAINDER] = {"__mod__", "__rmod__"},
    [NB_POWER] = {"__pow__", "__rpow__"},
    [NB_MATRIX_MULTIPLY] = {"__matmul__", "__rmatmul__"},
};

/* The method of the left operand; of the right one where the left is a number. */
Went plan_operator(Plan *p, int op, PlanValue a, PlanValue b) {
    bool left = plan_is_instance(&a), known = op >= 0 && (size_t)op < DYN_COUNTOF(operators) && operators[op][0] != NULL;
    PyTypeObject *t = left ? p->classes[plan_class_number(p, &a)].type : NULL;
    PyTypeObject *other = plan_is_instance(&b) ? p->classes[plan_class_number(p, &b)].type : NULL;
    known = known && (left || plan_is_number(&a)) && (t == NULL || other == NULL || t == other || !PyType_IsSubtype(other, t));
    const PlanValue passed[2] = {left ? a : b, left ? b : a};
    return known ? plan_special(p, operators[op][!left], passed, 2, 2, PLAN_RESULT)
                 : plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an operator of objects that loops in native code don't know");
}

Went plan_of_class(Plan *p, PlanValue o, PyObject *name) {
    PyTypeObject *t = p->classes[plan_class_number(p, &o)].type;
    PyObject *found = dyn_cpy_lookup_special(t, name), *get = function_of_property(t, name, "fget");
    bool number = found != NULL && (PyLong_CheckExact(found) || PyFloat_CheckExact(found) || PyBool_Check(found));
    bool shares = !plan_is_parts(&o) && dyn_cpy_shares_key(t, name); /* an instance may have such an attribute of its own */
    if (get == NULL && (!number || shares)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute of an object that loops in native code don't know");
    }
    plan_class_reg(p, plan_class_number(p, &o));
    if (!number) {
        return plan_call_function(p, (PyFunctionObject *)get, &o, 1, 1);
    }
    if (!plan_is_parts(&o) && !dyn_cpy_has_no_dict(t)) {
        plan_emit_or(p, DYN_RO_FIELDS, o.v.regs[0], DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    p->s.n--;
    plan_push(p, plan_const(p, found));
    return WENT_ON;
}

static PyTypeObject *type_of(Plan *p, const PlanValue *v) {
    switch (v->v.kind) {
    case DYN_RK_PARTS:
    case DYN_RK_INST: return plan_type_of_instance(p, v);
    case DYN_RK_BOOL: return &PyBool_Type;
    case DYN_RK_INT: return &PyLong_Type;
    case DYN_RK_FLOAT: return &PyFloat_Type;
    case DYN_RK_COMPLEX: return plan_is_np_complex(v) ? &PyCDoubleArrType_Type : &PyComplex_Type;
    case DYN_RK_TUPLE: return &PyTuple_Type;
    case DYN_RK_LIST: return v->v.flags & DYN_RF_TUPLE ? &PyTuple_Type : &PyList_Type;
    case DYN_RK_DICT: return &PyDict_Type;
    case DYN_RK_SET: return &PySet_Type;
    case DYN_RK_DEQUE: return dyn_cpy_deque_type();
    case DYN_RK_CONST: return Py_TYPE(plan_object(p, v));
    default: return NULL;
    }
}

static bool is_instance(Plan *p, const PlanValue *o, const PlanValue *of, bool *is) {
    PyTypeObject *t = type_of(p, o);
    PyObject *class = plan_object(p, of);
    if (t == NULL || class == NULL || !Py_IS_TYPE(class, &PyType_Type)) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "isinstance of something that isn't known");
        return false;
    }
    *is = PyType_IsSubtype(t, (PyTypeObject *)class) != 0;
    return true;
}

bool plan_call_isinstance(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    bool is;
    if (n != 2 || !is_instance(p, &args[0], &args[1], &is)) {
        if (n != 2) {
            plan_unknown(p, DYN_R_UNSUPPORTED_OP, "another number of arguments");
        }
        return false;
    }
    *out = plan_bool(is);
    return true;
}
