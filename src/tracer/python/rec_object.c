/* rec_object.c: instances of user's classes: their attributes, properties and other descriptors, super(). rec_new.c makes them.
 *
 * An instance made while recording is a shadow with its attributes; it is made at later calls only where it escapes. An instance
 * that came in is found at its source; what was stored in it since lies in its shadow and is an effect. What a class says is
 * guarded by its version tag, which CPython changes whenever the class or one of its bases changes. Called by the attribute and
 * call handlers. */
#include "tracer/python/rec_object.h"
#include "tracer/numpy/rec_types.h"
#include "tracer/record/rec_callables.h"

static PyObject *s_init, *s_class, *s_getattr, *s_getattribute, *s_setattr, *s_delattr, *s_get, *s_set, *s_self, *s_fget, *s_fset,
    *s_fdel, *s_func;
static struct Name {
    PyObject **at;
    const char *text;
} names[] = {
    {&s_init, "__init__"},       {&s_class, "__class__"},     {&s_getattr, "__getattr__"}, {&s_getattribute, "__getattribute__"},
    {&s_setattr, "__setattr__"}, {&s_delattr, "__delattr__"}, {&s_get, "__get__"},         {&s_set, "__set__"},
    {&s_self, "__self__"},       {&s_fget, "fget"},           {&s_fset, "fset"},           {&s_fdel, "fdel"},
    {&s_func, "__func__"}};

int rec_object_init(void) {
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if ((*names[i].at = PyUnicode_InternFromString(names[i].text)) == NULL) {
            return -1;
        }
    }
    return 0;
}

/* ---- what a class says */

/* What the class has for a name, guarded. Borrowed; NULL: nothing, or (-1 in *status) unknown. */
static PyObject *class_has(DynRec *r, PyTypeObject *type, PyObject *name, int *status) {
    *status = rec_guard_class(r, type, name);
    return *status < 0 ? NULL : dyn_cpy_lookup_special(type, name);
}

static bool is_data(PyObject *descr) { return descr != NULL && Py_TYPE(descr)->tp_descr_set != NULL; }

PyObject *rec_part(PyObject *o, PyObject *name) {
    PyObject *value = PyObject_GetAttr(o, name);
    PyErr_Clear();
    Py_XDECREF(value);
    return value;
}

PyObject *rec_function_of(PyObject *method) { return rec_part(method, s_func); }

/* The Python function that a descriptor's class has for __get__ or __set__; NULL. */
static PyObject *descriptor_function(DynRec *r, PyObject *descr, PyObject *name) {
    int status;
    PyObject *f = Py_TYPE(descr)->tp_flags & Py_TPFLAGS_HEAPTYPE ? class_has(r, Py_TYPE(descr), name, &status) : NULL;
    return f != NULL && PyFunction_Check(f) ? f : NULL;
}

/* The descriptor of __dict__ that CPython gives each class whose instances have one. */
static bool is_vars(PyObject *descr) {
    return descr != NULL && Py_TYPE(descr) == &PyGetSetDescr_Type &&
           PyUnicode_CompareWithASCIIString(((PyDescrObject *)descr)->d_name, "__dict__") == 0;
}

/* ---- attributes that a shadow knows */

static uint32_t own_index(const DynVal *v, PyObject *name) {
    rec_has(v, v->kind == DV_OBJECT, "attributes");
    for (uint32_t i = 0; i + 1 < v->n; i += 2) {
        if (rec_constant_of(v->items[i]) == name || PyUnicode_Compare(rec_constant_of(v->items[i]), name) == 0) {
            return i;
        }
    }
    return DYN_NONE;
}

int rec_set_own(DynRec *r, DynVal *v, PyObject *name, DynVal *value) {
    uint32_t at = own_index(v, name);
    if (at != DYN_NONE && v->fresh && value == NULL) {
        rec_dict_drop(v, at);
        return 0;
    }
    if (at != DYN_NONE && (v->fresh ? v->items[at + 1] != NULL : true)) {
        v->items[at + 1] = value;
        return 0;
    }
    DynVal *key = rec_object(r, name);
    return key == NULL || rec_push_item(r, v, key) < 0 || rec_push_item(r, v, value) < 0 ? -1 : 0;
}

static bool is_fresh_exception(DynOperand o) { return o.v->fresh && PyExceptionInstance_Check(o.real); }

/* An array, a class or a plain module: its attributes have rules of their own. */
static bool has_other_attributes(PyObject *o) { return PyArray_Check(o) || PyType_Check(o) || PyModule_CheckExact(o); }

bool rec_is_instance(DynOperand o) {
    bool found = o.v->fresh || o.v->source != DYN_NONE;
    if (o.v->kind != DV_OBJECT || !found || has_other_attributes(o.real)) {
        return false;
    }
    return (Py_TYPE(o.real)->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_fresh_exception(o);
}

/* ---- reading */

/* object's own look-up, with or without a __getattr__ behind it. */
bool rec_plain_getattr(PyTypeObject *type) {
    PyTypeObject *plain = PyType_IsSubtype(type, &PyModule_Type) ? &PyModule_Type : &PyBaseObject_Type;
    return type->tp_getattro == PyObject_GenericGetAttr ||
           dyn_cpy_lookup_special(type, s_getattribute) == dyn_cpy_lookup_special(plain, s_getattribute);
}

/* A Python function was asked for an attribute and raised: an AttributeError says of what, as PyObject_GetAttr makes it say. */
void rec_attribute_raised(PyObject *o, PyObject *name) {
    PyObject *type, *value, *tb;
    if (!PyErr_Occurred() || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
        return;
    }
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    PyAttributeErrorObject *error = (PyAttributeErrorObject *)value;
    bool of_attribute = value != NULL && PyErr_GivenExceptionMatches(value, PyExc_AttributeError);
    if (of_attribute && error->name == NULL && error->obj == NULL) {
        error->name = Py_NewRef(name);
        error->obj = Py_NewRef(o);
    }
    PyErr_Restore(type, value, tb);
}

static int call_of(DynRec *r, RecCall *c, PyObject *func, uint32_t n, const DynOperand *args) {
    c->args = DYN_NEW_N(&r->arena, DynOperand, n + 1);
    c->callable = (DynOperand){dyn_rec_const(r, func), func};
    c->npos = n;
    c->nkw = 0;
    c->kwnames = NULL;
    if (c->args == NULL || c->callable.v == NULL) {
        return -1;
    }
    memcpy(c->args, args, n * sizeof *args);
    return 0;
}

static DynOperand type_operand(DynRec *r, PyObject *o) {
    return (DynOperand){dyn_rec_const(r, (PyObject *)Py_TYPE(o)), (PyObject *)Py_TYPE(o)};
}

/* What binding a class's attribute to an object (or, o.real NULL, to a class alone) gives, when no Python code runs for it. */
static DynVal *bound(DynRec *r, PyObject *descr, DynOperand self, PyTypeObject *type) {
    PyTypeObject *const functions[] = {&PyFunction_Type, &PyWrapperDescr_Type, &PyMethodDescr_Type, dyn_cached_type};
    if (rec_has_type_of(descr, functions, DYN_COUNTOF(functions))) {
        return rec_new_method(r, dyn_rec_const(r, descr), self.v);
    }
    if (Py_TYPE(descr) == &PyStaticMethod_Type) {
        PyObject *f = rec_function_of(descr);
        return f == NULL ? NULL : dyn_rec_const(r, f);
    }
    if (Py_TYPE(descr) == &PyClassMethod_Type) {
        PyObject *f = rec_function_of(descr);
        bool function = f != NULL && PyFunction_Check(f);
        return function ? rec_new_method(r, dyn_rec_const(r, f), dyn_rec_const(r, (PyObject *)type)) : NULL;
    }
    return Py_TYPE(descr)->tp_descr_get == NULL ? rec_wrap_attr(r, type, descr) : NULL;
}

/* A class attribute that is no descriptor: the class is guarded, so it is this object. */
DynVal *rec_wrap_attr(DynRec *r, PyTypeObject *type, PyObject *value) {
    DynVal *v = rec_wrap_result(r, value);
    (void)type;
    if (v == NULL) { /* an object with contents of its own, found as a constant */
        uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, value, NULL);
        v = s == DYN_NONE ? NULL : rec_source(r, s);
    }
    return v;
}

RecAttr rec_bound_attr(DynRec *r, PyObject *descr, DynOperand o, RecCall *c, DynVal **v) {
    PyObject *f;
    if (Py_TYPE(descr) == &PyProperty_Type) {
        f = rec_part(descr, s_fget);
        return f == NULL || !PyFunction_Check(f) || call_of(r, c, f, 1, &o) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    *v = is_data(descr) ? NULL : bound(r, descr, o, Py_TYPE(o.real));
    return *v ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
}

/* Nothing by that name is in the object's own dict. */
static bool has_none_yet(DynRec *r, DynOperand o, PyObject *name) {
    uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_OWN, o.v->source, 0, NULL, name);
    if (s == DYN_NONE || dyn_cpy_has_no_dict(Py_TYPE(o.real))) {
        return false;
    }
    return dyn_cpy_own_value(o.real, name) == NULL && rec_guard(r, DYN_GUARD_MISSING, s, DYN_NONE, 0, NULL) == 0;
}

/* Where a class has __getattr__, an AttributeError of what computes an attribute isn't the end of it: CPython asks both. */
static bool asks_again(PyTypeObject *type) { return dyn_cpy_lookup_special(type, s_getattr) != NULL; }

/* A Python function that computes an attribute of an instance. */
static RecAttr computed(DynRec *r, RecCall *c, DynOperand o, PyObject *name, PyObject *func, uint32_t n, const DynOperand *args) {
    PyObject *again = dyn_cpy_lookup_special(Py_TYPE(o.real), s_getattr);
    if (again != NULL && !PyFunction_Check(again)) {
        return REC_ATTR_UNKNOWN;
    }
    if (args[0].v == NULL || args[n - 1].v == NULL || call_of(r, c, func, n, args) < 0) {
        return REC_ATTR_UNKNOWN;
    }
    c->of = again != NULL ? o.real : NULL;
    c->name = name;
    return REC_ATTR_CALL;
}

PyObject *rec_ask_again(const RecCall *c) {
    PyObject *f = dyn_cpy_lookup_special(Py_TYPE(c->of), s_getattr), *args[2] = {c->of, c->name};
    if (f == NULL || !PyFunction_Check(f)) { /* the class is not what it was: the error stands */
        return NULL;
    }
    PyErr_Clear();
    Py_INCREF(f);
    PyObject *result = PyObject_Vectorcall(f, args, 2, NULL);
    Py_DECREF(f);
    return result;
}

/* Neither the class nor the object's own dict has it. */
static bool found_nowhere(PyObject *o, PyObject *name) {
    return dyn_cpy_own_value(o, name) == NULL && dyn_cpy_lookup_special(Py_TYPE(o), name) == NULL;
}

/* The attribute of an object that came in, which its class's __getattr__ gives. torch.nn.Module's reads one of three dicts. */
static RecAttr asked(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    int status;
    PyObject *f = class_has(r, Py_TYPE(o.real), name, &status) == NULL ? class_has(r, Py_TYPE(o.real), s_getattr, &status) : NULL;
    if (f == NULL || !PyFunction_Check(f) || !has_none_yet(r, o, name)) {
        return REC_ATTR_UNKNOWN;
    }
    if (PyModule_Check(o.real) && !has_none_yet(r, o, s_getattr)) { /* a module asks that of its own dict first */
        return REC_ATTR_UNKNOWN;
    }
    if ((*v = rec_torch_module_attr(r, f, o, name)) != NULL) {
        return REC_ATTR_VALUE;
    }
    if (rec_torch_module_lacks(r, f, o, name)) {
        return REC_ATTR_MISSING;
    }
    DynOperand args[2] = {o, {rec_object(r, name), name}};
    return args[1].v == NULL || call_of(r, c, f, 2, args) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
}

/* The class has a __getattribute__ of its own, in Python: that is called. */
static RecAttr by_own_lookup(DynRec *r, DynOperand o, PyObject *name, RecCall *c) {
    int status;
    PyObject *f = class_has(r, Py_TYPE(o.real), s_getattribute, &status);
    DynOperand args[2] = {o, {rec_object(r, name), name}};
    return f != NULL && PyFunction_Check(f) ? computed(r, c, o, name, f, 2, args) : REC_ATTR_UNKNOWN;
}

RecAttr rec_own_attr(DynRec *r, DynOperand o, PyObject *name, DynVal **v) {
    uint32_t own = own_index(o.v, name), s;
    *v = own != DYN_NONE ? o.v->items[own + 1] : NULL;
    if (is_data(dyn_cpy_lookup_special(Py_TYPE(o.real), name))) { /* it may lie in a slot */
        return REC_ATTR_UNKNOWN;
    }
    if (own != DYN_NONE || o.v->fresh) {
        return *v != NULL ? REC_ATTR_VALUE : REC_ATTR_MISSING;
    }
    if (dyn_cpy_own_value(o.real, name) == NULL) {
        return has_none_yet(r, o, name) ? REC_ATTR_MISSING : REC_ATTR_UNKNOWN;
    }
    s = dyn_source_intern(&r->cap->sources, DYN_SRC_OWN, o.v->source, 0, NULL, name);
    *v = s == DYN_NONE ? NULL : rec_source(r, s);
    return *v != NULL ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
}

/* What object.__getattribute__ finds: no function of the class has a say but a property's. */
static RecAttr plainly_found(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyTypeObject *type = Py_TYPE(o.real);
    int status;
    PyObject *descr = class_has(r, type, name, &status), *f;
    *v = NULL;
    if (status < 0) {
        return REC_ATTR_UNKNOWN;
    }
    if (is_vars(descr)) {
        *v = rec_vars(r, o);
        return *v != NULL ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    if (is_data(descr)) {
        bool computes = Py_TYPE(descr) == &PyProperty_Type && (f = rec_part(descr, s_fget)) != NULL && PyFunction_Check(f);
        return computes && call_of(r, c, f, 1, &o) == 0 ? REC_ATTR_CALL : REC_ATTR_UNKNOWN;
    }
    RecAttr how = rec_own_attr(r, o, name, v);
    if (how != REC_ATTR_MISSING || descr == NULL) {
        return how;
    }
    *v = bound(r, descr, o, type);
    return *v != NULL ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
}

/* An attribute that a data descriptor of the class gives: a property, __class__, __dict__. */
static RecAttr by_data_descriptor(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyTypeObject *type = Py_TYPE(o.real);
    int status;
    PyObject *descr, *f;
    descr = class_has(r, type, name, &status);
    if (descr == NULL) {
        return REC_ATTR_UNKNOWN;
    }
    if (descr == dyn_cpy_lookup_special(&PyBaseObject_Type, s_class)) { /* a class may have a property of that name */
        *v = dyn_rec_const(r, (PyObject *)type);
        return *v ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    if (is_vars(descr)) {
        *v = rec_vars(r, o);
        return *v ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    if (Py_TYPE(descr) == &PyProperty_Type && (f = rec_part(descr, s_fget)) != NULL && PyFunction_Check(f)) {
        return computed(r, c, o, name, f, 1, &o);
    }
    if ((f = descriptor_function(r, descr, s_get)) != NULL) {
        DynOperand args[3] = {{rec_wrap_attr(r, type, descr), descr}, o, type_operand(r, o.real)};
        return computed(r, c, o, name, f, 3, args);
    }
    return REC_ATTR_UNKNOWN;
}

static bool is_of_class(PyObject *descr) {
    return descr != NULL && (Py_TYPE(descr) == &PyStaticMethod_Type || Py_TYPE(descr) == &PyClassMethod_Type);
}

RecAttr rec_find_attr(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyTypeObject *type = Py_TYPE(o.real);
    int status;
    *v = NULL;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = "attribute";
    if (!rec_plain_getattr(type)) {
        return by_own_lookup(r, o, name, c);
    }
    PyObject *descr = dyn_cpy_lookup_special(type, name), *f;
    uint32_t own = own_index(o.v, name);
    DynVal *stored = rec_stored_class_attr(r, type, name, &status);
    if (status < 0 || stored != NULL) { /* an attribute of the instance's own would hide it */
        bool shown = stored != NULL && own == DYN_NONE && (o.v->fresh || has_none_yet(r, o, name));
        *v = shown ? stored : NULL;
        return shown ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    if (is_fresh_exception(o) && own != DYN_NONE && is_data(descr)) { /* args, __cause__ */
        *v = o.v->items[own + 1];
        return *v != NULL && rec_guard_class(r, type, name) == 0 ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    if (is_data(descr) && Py_TYPE(descr) != &PyMemberDescr_Type) {
        return by_data_descriptor(r, o, name, c, v);
    }
    if (own != DYN_NONE && o.v->items[own + 1] != NULL) {
        *v = o.v->items[own + 1];
        return rec_guard_class(r, type, name) == 0 ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    bool came_in = !o.v->fresh && own == DYN_NONE; /* and nothing was stored under the name */
    if (came_in && rec_is_cached_property(descr) && has_none_yet(r, o, name)) {
        descr = class_has(r, type, name, &status);
        bool known = descr != NULL && !asks_again(type) && rec_cached_attr(r, descr, o, name, c) == 0;
        return known ? REC_ATTR_CALL : REC_ATTR_UNKNOWN;
    }
    if (came_in && asks_again(type) && found_nowhere(o.real, name)) {
        return asked(r, o, name, c, v);
    }
    if (came_in && is_of_class(descr) && has_none_yet(r, o, name)) {
        *v = class_has(r, type, name, &status) != NULL ? bound(r, descr, o, type) : NULL;
        return *v != NULL ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    f = came_in && descr != NULL && !is_data(descr) ? descriptor_function(r, descr, s_get) : NULL;
    if (f != NULL && has_none_yet(r, o, name)) { /* it may store what it gives under the name */
        DynOperand args[3] = {{rec_wrap_attr(r, type, descr), descr}, o, type_operand(r, o.real)};
        return class_has(r, type, name, &status) == NULL ? REC_ATTR_UNKNOWN : computed(r, c, o, name, f, 3, args);
    }
    if (came_in) {
        return REC_ATTR_SOURCE; /* by the object's source: the look-up at a later call says it all */
    }
    descr = class_has(r, type, name, &status);
    if (status < 0 || is_data(descr)) {
        return REC_ATTR_UNKNOWN; /* an empty slot: CPython raises */
    }
    if (descr == NULL) {
        f = class_has(r, type, s_getattr, &status);
        if (f != NULL && PyFunction_Check(f)) {
            DynOperand args[2] = {o, {rec_object(r, name), name}};
            return args[1].v == NULL || call_of(r, c, f, 2, args) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
        }
        return REC_ATTR_MISSING;
    }
    if ((*v = bound(r, descr, o, type)) != NULL) {
        return REC_ATTR_VALUE;
    }
    if (rec_is_cached_property(descr)) {
        return asks_again(type) || rec_cached_attr(r, descr, o, name, c) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    if ((f = descriptor_function(r, descr, s_get)) != NULL) {
        DynOperand args[3] = {{rec_wrap_attr(r, type, descr), descr}, o, type_operand(r, o.real)};
        return computed(r, c, o, name, f, 3, args);
    }
    return REC_ATTR_UNKNOWN;
}

/* ---- storing and deleting: value.real NULL deletes */

/* What the object's own dict has under the name, or its slot. New reference; NULL, perhaps with an exception: nothing. */
static PyObject *held_attribute(PyObject *o, PyObject *name, PyObject *slot) {
    if (slot != NULL) {
        return Py_TYPE(slot)->tp_descr_get(slot, o, (PyObject *)Py_TYPE(o));
    }
    return Py_XNewRef(dyn_cpy_own_value(o, name));
}

/* A deletion is performed again behind the graph, where an AttributeError comes too late: what is deleted has to be there. Where
 * it isn't there now, CPython raises, and nothing is taken for granted. */
static int guard_deletable(DynRec *r, DynOperand o, PyObject *name) {
    if (o.v->fresh || own_index(o.v, name) != DYN_NONE) {
        return 0; /* what this recording stored */
    }
    PyObject *descr = dyn_cpy_lookup_special(Py_TYPE(o.real), name);
    bool slot = descr != NULL && Py_TYPE(descr) == &PyMemberDescr_Type;
    PyObject *held = held_attribute(o.real, name, slot ? descr : NULL);
    if (held == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DECREF(held);
    uint32_t s = dyn_source_intern(&r->cap->sources, slot ? DYN_SRC_ATTR : DYN_SRC_OWN, o.v->source, 0, NULL, name);
    return s == DYN_NONE ? -1 : rec_guard(r, DYN_GUARD_PRESENT, s, DYN_NONE, 0, NULL);
}

/* As object.__setattr__ does, after it ran. */
static int stored_plainly(DynRec *r, DynOperand o, PyObject *name, DynVal *value) {
    DynVal *items[2] = {o.v, value};
    r->why = DYN_R_SIDE_EFFECT;
    if (rec_set_own(r, o.v, name, value) < 0) {
        return -1;
    }
    uint32_t n = value != NULL ? 2 : 1;
    return rec_effect(r, o, value != NULL ? DYN_FX_SETATTR : DYN_FX_DELATTR, name, n, items);
}

static RecAttr find_store(DynRec *r, DynOperand o, PyObject *name, DynOperand value, RecCall *c) {
    PyTypeObject *type = Py_TYPE(o.real);
    int status;
    PyObject *hook = value.real ? s_setattr : s_delattr, *f = class_has(r, type, hook, &status), *descr;
    DynOperand key = {rec_object(r, name), name}, args[3] = {o, key, value};
    r->why = DYN_R_SIDE_EFFECT;
    if (status < 0 || key.v == NULL) {
        return REC_ATTR_UNKNOWN;
    }
    uint32_t nvalues = value.real != NULL ? 1 : 0;
    if (f != NULL && PyFunction_Check(f)) {
        return call_of(r, c, f, 2 + nvalues, args) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    if (type->tp_setattro != PyObject_GenericSetAttr && f != dyn_cpy_lookup_special(&PyBaseObject_Type, hook)) {
        return REC_ATTR_UNKNOWN;
    }
    descr = class_has(r, type, name, &status);
    if (status < 0) {
        return REC_ATTR_UNKNOWN;
    }
    if (!is_data(descr) || Py_TYPE(descr) == &PyMemberDescr_Type) {
        return REC_ATTR_VALUE;
    }
    if (Py_TYPE(descr) == &PyProperty_Type && (f = rec_part(descr, value.real ? s_fset : s_fdel)) != NULL &&
        PyFunction_Check(f)) {
        args[1] = value;
        return call_of(r, c, f, 1 + nvalues, args) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    if (value.real != NULL && (f = descriptor_function(r, descr, s_set)) != NULL) {
        DynOperand given[3] = {{rec_wrap_attr(r, type, descr), descr}, o, value};
        return given[0].v == NULL || call_of(r, c, f, 3, given) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    return REC_ATTR_UNKNOWN;
}

/* Attributes of a plain module are keys of its dict. */
static int stored_in_module(DynRec *r, DynOperand o, PyObject *name, DynVal *value) {
    PyObject *dict = PyModule_GetDict(o.real);
    return value == NULL ? -1 : rec_store_global(r, dict, name, value);
}

static bool is_class(DynOperand o) { return o.v->kind == DV_CONST && PyType_Check(o.real); }

int rec_stored_attr(DynRec *r, DynOperand o, PyObject *name, DynVal *value) {
    r->why = DYN_R_SIDE_EFFECT;
    if (is_class(o)) {
        return rec_class_effect(r, (PyTypeObject *)o.real, name, value);
    }
    if (o.v->kind == DV_CONST && PyModule_CheckExact(o.real)) {
        return stored_in_module(r, o, name, value);
    }
    return rec_is_instance(o) ? stored_plainly(r, o, name, value) : -1;
}

RecAttr rec_way_to_store(DynRec *r, DynOperand o, PyObject *name, DynOperand value, RecCall *c) {
    if (rec_is_instance(o)) {
        bool known = value.real != NULL || guard_deletable(r, o, name) == 0;
        return known ? find_store(r, o, name, value, c) : REC_ATTR_UNKNOWN;
    }
    if (is_class(o)) {
        return rec_stores_in_class(r, o, name, value.real) ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
    }
    return o.v->kind == DV_CONST && PyModule_CheckExact(o.real) ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
}

/* What rec_commit_none is told: -1, it raised; 0, what it did is known; 1, it isn't. */
static int outcome(int status, bool known) {
    if (status < 0) {
        return -1;
    }
    return known ? 0 : 1;
}

/* x.flat = v and z.real = v write into the array; other attributes are changes of objects. */
static Step store(DynRec *r, RecFrame *f, PyObject *name, DynOperand o, DynOperand value, uint32_t npop) {
    bool known = dyn_rec_resolve(r, o.v, o.real) == 0;
    bool array = known && o.v->kind == DV_ARRAY && value.real != NULL;
    if (array && dyn_rec_resolve(r, value.v, value.real) == 0) {
        int status = PyObject_SetAttr(o.real, name, value.real);
        r->why = DYN_R_SIDE_EFFECT;
        return rec_commit_none(r, f, npop, outcome(status, status == 0 && dyn_np_store_attr(r, o, name, value) == 0));
    }
    RecCall c = {0};
    RecAttr how = known ? rec_way_to_store(r, o, name, value, &c) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        Step s = rec_finish_call(r, f, &c, npop);
        if (s == STEP_NEXT || s == STEP_BREAK) { /* what it returned is dropped */
            f->ssp -= s == STEP_NEXT;
            rec_drop(f, 1);
        }
        return s;
    }
    DynReason why = r->why;
    int status = PyObject_SetAttr(o.real, name, value.real);
    r->why = how == REC_ATTR_VALUE ? r->why : why;
    bool stores = status == 0 && how == REC_ATTR_VALUE;
    return rec_commit_none(r, f, npop, outcome(status, stores && rec_stored_attr(r, o, name, value.v) == 0));
}

Step rec_STORE_ATTR(DynRec *r, RecFrame *f, const DynInstr *in) {
    return store(r, f, rec_name(f, in->arg), operand(f, 1), operand(f, 2), 2);
}

Step rec_DELETE_ATTR(DynRec *r, RecFrame *f, const DynInstr *in) {
    return store(r, f, rec_name(f, in->arg), operand(f, 1), (DynOperand){0}, 1);
}

/* ---- methods of object, called by their names */

/* object.__getattribute__(o, name), called by its name. */
static DynVal *call_getattribute(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand o = c->args[0], name = c->npos == 2 ? c->args[1] : (DynOperand){0};
    DynVal *v = NULL;
    RecCall get = {0};
    bool named = name.v != NULL && PyUnicode_CheckExact(name.real);
    bool instance = named && dyn_rec_resolve(r, o.v, o.real) == 0 && rec_is_instance(o);
    bool known = instance && dyn_rec_burn(r, name.v, name.real) == 0;
    RecAttr how = known ? plainly_found(r, o, name.real, &get, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        v = rec_call_function(r, &get, result);
        if (*result == NULL) {
            rec_attribute_raised(o.real, name.real);
        }
        return v;
    }
    *result = rec_call_real(c);
    if (*result == NULL && how == REC_ATTR_MISSING) {
        rec_known_error(r, NULL);
    }
    if (*result == NULL) {
        return NULL;
    }
    return how == REC_ATTR_VALUE ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "__getattribute__");
}

DynVal *rec_on_getattribute(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return c->npos > 0 && c->nkw == 0 ? call_getattribute(r, c, result) : REC_DECLINED;
}

/* May object.__setattr__ or __delattr__ be followed: a plain attribute of an instance, whose name is the same at every call? */
static bool stores_plainly(DynRec *r, const RecCall *c, bool set) {
    DynOperand o = c->args[0];
    PyObject *name = c->npos > 1 ? c->args[1].real : NULL;
    if (name == NULL || !PyUnicode_CheckExact(name)) {
        return false;
    }
    if (dyn_rec_burn(r, c->args[1].v, name) < 0 || rec_guard_class(r, Py_TYPE(o.real), name) < 0) {
        return false;
    }
    PyObject *descr = dyn_cpy_lookup_special(Py_TYPE(o.real), name);
    bool plain = !is_data(descr) || Py_TYPE(descr) == &PyMemberDescr_Type;
    return plain && (set || guard_deletable(r, o, name) == 0);
}

/* object.__setattr__(o, name, value), object.__delattr__(o, name), object.__init__(o) and an exception's __init__, called by
 * their names. */
DynVal *rec_on_slot(DynRec *r, const RecCall *c, PyObject **result, int which) {
    if (c->npos < 1 || c->nkw != 0) {
        return REC_DECLINED;
    }
    DynOperand o = c->args[0];
    bool set = which == REC_SLOT_SET, stores = set || which == REC_SLOT_DELETE;
    bool instance = dyn_rec_resolve(r, o.v, o.real) == 0 && rec_is_instance(o);
    bool known = instance && (!stores || stores_plainly(r, c, set));
    *result = rec_call_real(c);
    if (*result == NULL || !known) {
        return *result ? rec_fail(r, DYN_R_SIDE_EFFECT, "__setattr__") : NULL;
    }
    if (which == REC_SLOT_ERROR && (!o.v->fresh || rec_set_args(r, o.v, c->args + 1, c->npos - 1) < 0)) {
        return NULL;
    }
    if (stores && stored_plainly(r, o, c->args[1].real, set ? c->args[2].v : NULL) < 0) {
        return NULL;
    }
    return dyn_rec_const(r, *result);
}

static bool is_exception_init(PyObject *f) {
    return Py_TYPE(f) == &PyWrapperDescr_Type &&
           ((PyWrapperDescrObject *)f)->d_wrapped == (void *)((PyTypeObject *)PyExc_BaseException)->tp_init;
}

/* Each class of exceptions has an __init__ of its own that does the same. */
DynVal *rec_call_exception_init(DynRec *r, const RecCall *c, PyObject **result) {
    return is_exception_init(c->callable.real) ? rec_on_slot(r, c, result, REC_SLOT_ERROR) : REC_DECLINED;
}

/* ---- super() */

/* super() in a method, super(C, self): real is the super object. */
DynVal *rec_new_super(DynRec *r, PyObject *real, DynOperand self) {
    DynVal *v = self.v->kind == DV_OPAQUE ? NULL : rec_new_fresh(r, DV_SUPER);
    if (v == NULL) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "super");
    }
    v->bound_to = self.v;
    return v;
}

static PyObject *after(PyTypeObject *type, PyTypeObject *start, PyObject *name) {
    PyObject *mro = start->tp_mro;
    Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
    while (i < n && PyTuple_GET_ITEM(mro, i) != (PyObject *)type) {
        i++;
    }
    for (i++; i < n; i++) {
        PyObject *dict = dyn_cpy_type_dict((PyTypeObject *)PyTuple_GET_ITEM(mro, i));
        PyObject *found = dict ? PyDict_GetItemWithError(dict, name) : NULL;
        Py_XDECREF(dict);
        if (found != NULL) {
            return found;
        }
    }
    return NULL;
}

/* An attribute of super(type, self): what the classes behind `type` have for the name, bound to self. */
RecAttr rec_super_attr(DynRec *r, PyTypeObject *type, DynOperand self, PyObject *name, RecCall *c, DynVal **v) {
    bool of_class = PyType_Check(self.real) && self.v->kind == DV_CONST;
    PyTypeObject *start = of_class ? (PyTypeObject *)self.real : Py_TYPE(self.real);
    PyObject *descr = rec_guard_class(r, start, name) < 0 ? NULL : after(type, start, name), *f;
    *v = NULL;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    r->detail = "super";
    if (descr == NULL) {
        return REC_ATTR_UNKNOWN;
    }
    if (Py_TYPE(descr) == &PyProperty_Type && !of_class && (f = rec_part(descr, s_fget)) != NULL && PyFunction_Check(f)) {
        return call_of(r, c, f, 1, &self) < 0 ? REC_ATTR_UNKNOWN : REC_ATTR_CALL;
    }
    if (of_class && (PyFunction_Check(descr) || Py_TYPE(descr) == &PyWrapperDescr_Type)) {
        *v = dyn_rec_const(r, descr);
    } else if (PyCFunction_Check(descr)) { /* object.__new__ */
        *v = dyn_rec_const(r, descr);
    } else {
        *v = bound(r, descr, self, start);
    }
    return *v ? REC_ATTR_VALUE : REC_ATTR_UNKNOWN;
}

/* ---- attributes of classes, enums */

static PyObject *enum_type;

bool rec_is_enum_member(PyObject *o) {
    if (Py_IS_TYPE(Py_TYPE(o), &PyType_Type)) {
        return false;
    }
    if (enum_type == NULL) {
        PyObject *modules = PyImport_GetModuleDict(), *module = modules ? PyDict_GetItemString(modules, "enum") : NULL;
        enum_type = module ? PyObject_GetAttrString(module, "EnumMeta") : NULL;
        PyErr_Clear();
    }
    return enum_type != NULL && PyType_IsSubtype(Py_TYPE(Py_TYPE(o)), (PyTypeObject *)enum_type);
}

DynVal *rec_class_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    PyTypeObject *type = (PyTypeObject *)o.real, *meta = Py_TYPE(type);
    bool plain = meta->tp_getattro == PyType_Type.tp_getattro ||
                 dyn_cpy_lookup_special(meta, s_getattribute) == dyn_cpy_lookup_special(&PyType_Type, s_getattribute);
    if (!plain || rec_guard_class(r, type, name) < 0 || rec_guard_class(r, meta, name) < 0) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "class attribute");
    }
    if (is_data(dyn_cpy_lookup_special(meta, name))) { /* __name__ … */
        return PyUnicode_CheckExact(result) ? dyn_rec_const(r, result) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "class attribute");
    }
    if (rec_is_enum_member(result) && (PyTypeObject *)Py_TYPE(result) == type) {
        return dyn_rec_const(r, result);
    }
    PyObject *descr = dyn_cpy_lookup_special(type, name);
    DynVal *v = NULL;
    if (descr == result) {
        v = rec_wrap_attr(r, type, result);
    } else if (descr != NULL && (Py_TYPE(descr) == &PyStaticMethod_Type || Py_TYPE(descr) == &PyClassMethod_Type)) {
        v = bound(r, descr, (DynOperand){0}, type);
    } else if (descr != NULL && Py_TYPE(descr) == &PyClassMethodDescr_Type &&
               ((type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) || rec_is_autograd_class((PyObject *)type))) {
        v = dyn_rec_const(r, result); /* dict.fromkeys, apply */
    }
    return v != NULL ? v : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "class attribute");
}
