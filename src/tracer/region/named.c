/* named.c: named tuples: classes that collections.namedtuple or typing.NamedTuple made, or that derive from such without saying
 * more. Their fields are read where they lie; C(…) follows the class's own __new__, which calls tuple.__new__. Called by
 * objects.c and calls.c. */
#include "base/cpy_region.h"
#include "tracer/region/plan.h"

bool plan_named_field(const PyTypeObject *t, PyObject *name, int64_t *index) {
    static PyObject *getter; /* the class of their descriptors, strong */
    if (!PyType_IsSubtype((PyTypeObject *)(uintptr_t)t, &PyTuple_Type)) {
        return false;
    }
    if (getter == NULL) {
        getter = dyn_module_attr("_collections", "_tuplegetter");
        PyErr_Clear();
    }
    PyObject *found = dyn_cpy_lookup_special((PyTypeObject *)(uintptr_t)t, name);
    bool is = found != NULL && (PyObject *)Py_TYPE(found) == getter && t->tp_getattro == PyObject_GenericGetAttr;
    PyObject *made = is ? PyObject_CallMethod(found, "__reduce__", NULL) : NULL; /* (its class, (index, doc)) */
    is = made != NULL && PyArg_ParseTuple(PyTuple_GET_ITEM(made, 1), "LO", (long long *)index, &found) != 0;
    Py_XDECREF(made);
    PyErr_Clear();
    return is && *index >= 0 && *index < PLAN_PARTS;
}

/* An instance that tuple.__new__ was given other items for may be too short. */
uint32_t plan_named_place(Plan *p, const PlanValue *o, int64_t index) {
    uint32_t size = plan_emit(p, DYN_RO_OSIZE, o->v.regs[0], DYN_NONE, DYN_NONE);
    plan_leave_unless(p, plan_emit(p, DYN_RO_ILT, plan_iconst(p, index), size, DYN_NONE), DYN_R_EXCEPTION);
    return plan_emit(p, DYN_RO_PADD, o->v.regs[0], plan_iconst(p, DYN_CPY_TUPLE_ITEMS + 8 * index), DYN_NONE);
}

/* A class of tuples whose instances are made by its __new__, a Python function, and nothing behind that. */
bool plan_is_named(PyTypeObject *t) {
    PyObject *made_by = PyType_IsSubtype(t, &PyTuple_Type) ? dyn_cpy_lookup_named(t, "__new__") : NULL;
    PyObject *function =
        made_by != NULL && Py_IS_TYPE(made_by, &PyStaticMethod_Type) ? PyObject_GetAttrString(made_by, "__func__") : NULL;
    Py_XDECREF(function); /* the static method has it */
    PyErr_Clear();
    return function != NULL && PyFunction_Check(function) && Py_IS_TYPE(t, &PyType_Type) &&
           t->tp_init == PyBaseObject_Type.tp_init && t->tp_alloc == PyType_GenericAlloc && t->tp_finalize == NULL &&
           t->tp_del == NULL;
}

Went plan_construct_named(Plan *p, PyTypeObject *t, const PlanValue *args, uint32_t n, uint32_t slots) {
    uint32_t class = plan_class_of_type(p, t);
    PyObject *function = PyObject_GetAttrString((PyObject *)t, "__new__");
    PlanValue passed[16];
    Py_XDECREF(function); /* the class has it */
    if (class == DYN_NONE || function == NULL || n + 1 > DYN_COUNTOF(passed)) {
        PyErr_Clear();
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a class that loops in native code make no instances of");
    }
    plan_class_reg(p, class);
    passed[0] = plan_const(p, (PyObject *)t);
    memcpy(passed + 1, args, n * sizeof *args);
    return plan_call_function(p, (PyFunctionObject *)function, passed, n + 1, slots);
}

bool plan_is_tuple_new(PyObject *o) {
    return PyCFunction_CheckExact(o) && PyCFunction_GET_SELF(o) == (PyObject *)&PyTuple_Type &&
           strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, "__new__") == 0;
}

/* The name of the field with that index; NULL: there is none. Borrowed: the class keeps it. */
static PyObject *field_name(PyTypeObject *t, uint32_t index) {
    PyObject *names = dyn_cpy_lookup_named(t, "_fields");
    bool is = names != NULL && PyTuple_CheckExact(names) && PyTuple_GET_SIZE(names) > (Py_ssize_t)index;
    return is ? PyTuple_GET_ITEM(names, index) : NULL;
}

/* tuple.__new__(class, items) */
Went plan_new_named(Plan *p, const PlanValue *args, uint32_t n, uint32_t slots) {
    PyObject *type = n == 2 ? plan_object(p, &args[0]) : NULL;
    bool known = type != NULL && PyType_Check(type) && plan_is_named((PyTypeObject *)type) && args[1].v.kind == DYN_RK_TUPLE;
    uint32_t class = known ? plan_class_of_type(p, (PyTypeObject *)type) : DYN_NONE;
    if (class == DYN_NONE || args[1].v.n > PLAN_PARTS) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "tuple.__new__ of something else than a named tuple");
    }
    PlanValue items = args[1];
    plan_settle_doubts(p);
    plan_makes(p);
    uint32_t reg =
        plan_emit_or(p, DYN_RO_NEWNAMED, plan_class_reg(p, class), plan_iconst(p, items.v.n), DYN_NONE, DYN_R_NO_MEMORY);
    for (uint32_t k = 0; k < items.v.n; k++) {
        PlanShape of;
        PyObject *name = field_name((PyTypeObject *)type, k);
        uint32_t shape = name == NULL ? 0 : plan_attribute_shape(p, class, name, false);
        if (!plan_store_part(p, items.items[k], reg, k, false, &of)) {
            return WENT_NOWHERE;
        }
        p->again = (shape != 0 && plan_join(p, shape, &of)) || p->again;
    }
    p->s.n -= slots;
    plan_push(p, plan_instance(p, class, reg));
    return WENT_ON;
}
