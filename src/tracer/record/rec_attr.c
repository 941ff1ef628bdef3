/* rec_attr.c: handlers that read attributes, call methods by name and import: of instances by rec_object.c, of everything else
 * what the kind of the value says.
 *
 * Called from record.c's table and by builtins that ask for attributes. */
#include "base/tensors.h"
#include "tracer/record/rec_state.h"

/* Is `name` in the instance's own dict? Instances without a dict have none. */
static bool in_instance(PyObject *o, PyObject *name) { return dyn_cpy_own_value(o, name) != NULL; }

static DynVal *attr_source(DynRec *r, uint32_t base, PyObject *name) {
    uint32_t s = base == DYN_NONE ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, base, 0, NULL, name);
    return s == DYN_NONE ? rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute") : rec_source(r, s);
}

static uint32_t const_source(DynRec *r, DynVal *v, PyObject *o) {
    return v != NULL && v->source != DYN_NONE ? v->source
                                              : dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, o, NULL);
}

/* The function behind a method of an instance: reached through the bound method, so that the guards see an instance attribute of
 * that name too. */
static DynVal *method_function(DynRec *r, DynOperand o, PyObject *name) {
    DynVal *method = attr_source(r, o.v->source, name);
    uint32_t s = method == NULL ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_FUNC, method->source, 0, NULL, NULL);
    if (s == DYN_NONE || rec_guard(r, DYN_GUARD_TYPE, method->source, DYN_NONE, 0, (PyObject *)&PyMethod_Type) < 0) {
        return NULL;
    }
    return rec_source(r, s);
}

/* Bound where it is found in a class. */
static bool is_function(PyObject *o) { return PyFunction_Check(o) || Py_IS_TYPE(o, dyn_cached_type); }

static DynVal *instance_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    PyTypeObject *type = Py_TYPE(o.real);
    if (type->tp_getattro != PyObject_GenericGetAttr && !dyn_source_adds_getattr(type)) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute of an object with its own __getattribute__");
    }
    PyObject *descr = dyn_cpy_lookup_special(type, name);
    bool data = descr != NULL && Py_TYPE(descr)->tp_descr_set != NULL;
    int status;
    if (rec_stored_class_attr(r, type, name, &status) != NULL || status < 0) {
        return rec_fail(r, DYN_R_SIDE_EFFECT, "attribute of a class that was changed");
    }
    if (data && !dyn_source_is_field(descr)) {
        return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "property or data descriptor");
    }
    if (data || in_instance(o.real, name)) {
        return attr_source(r, o.v->source, name);
    }
    if (descr != NULL && is_function(descr) && PyMethod_Check(result)) {
        return rec_new_method(r, method_function(r, o, name), o.v);
    }
    if (descr != NULL && Py_TYPE(descr) == &PyStaticMethod_Type && type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return dyn_rec_const(r, result); /* the type is guarded, and nobody can change it */
    }
    if (descr != NULL && Py_TYPE(descr)->tp_descr_get == NULL && descr == result) {
        return attr_source(r, o.v->source, name);
    }
    return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute");
}

/* A method of a builtin type, bound to o. */
static DynVal *builtin_method(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    PyTypeObject *type = Py_TYPE(o.real);
    PyObject *descr = type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE ? dyn_cpy_lookup_special(type, name) : NULL;
    if (descr == NULL || Py_TYPE(descr) != &PyMethodDescr_Type || PyCFunction_GET_SELF(result) != o.real) {
        return NULL;
    }
    return rec_new_method(r, dyn_rec_const(r, descr), o.v);
}

/* ---- the column `attribute`: the shadow of `result`, which reading the attribute gave; NULL: unknown, and why is set. What a
 * method of a builtin type is, rec_attr says for every kind. */

static DynVal *no_attribute(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    (void)o, (void)name, (void)result;
    return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "attribute");
}

static bool is_called(PyObject *name, const char *attribute) { return PyUnicode_CompareWithASCIIString(name, attribute) == 0; }

static DynVal *attribute_of_method(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    bool method = PyMethod_Check(o.real);
    if (method && is_called(name, "__func__")) {
        return o.v->method.function;
    }
    return method && is_called(name, "__self__") ? o.v->method.self : no_attribute(r, o, name, result);
}

/* Of a range too. */
static DynVal *attribute_of_slice(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    if (is_called(name, "start")) {
        return o.v->slice.start;
    }
    if (is_called(name, "stop")) {
        return o.v->slice.stop;
    }
    return is_called(name, "step") ? o.v->slice.step : no_attribute(r, o, name, result);
}

/* Of a dict or a deque. */
static DynVal *attribute_of_collection(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    DynVal *v = rec_collection_attr(o.v, name);
    v = v != NULL ? v : rec_counter_method(r, o, name);
    return v != NULL ? v : no_attribute(r, o, name, result);
}

static DynVal *attribute_of_module(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    PyObject *dict = PyModule_GetDict(o.real);
    bool own = PyDict_GetItemWithError(dict, name) == result;
    return own ? rec_source_dict(r, dict, name) : rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "module attribute");
}

/* Of a class; one that the class itself has as it is, where its metaclass has no say in it, has a source of its own. */
static DynVal *attribute_of_class(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    PyTypeObject *meta = Py_TYPE(o.real);
    int status;
    DynVal *stored = rec_stored_class_attr(r, (PyTypeObject *)o.real, name, &status);
    if (status < 0 || stored != NULL) {
        return stored;
    }
    bool plain = meta->tp_getattro == PyType_Type.tp_getattro && !rec_is_enum_class(o);
    plain = plain && (meta == &PyType_Type || dyn_cpy_lookup_special(meta, name) == NULL);
    bool own = plain && dyn_cpy_lookup_special((PyTypeObject *)o.real, name) == result;
    return own ? attr_source(r, const_source(r, o.v, o.real), name) : rec_class_attr(r, o, name, result);
}

static DynVal *attribute_of_constant(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    if (PyModule_CheckExact(o.real)) {
        return attribute_of_module(r, o, name, result);
    }
    if (PyType_Check(o.real)) {
        return attribute_of_class(r, o, name, result);
    }
    if (rec_is_enum_member(o.real)) {
        return rec_guard_whole_class(r, Py_TYPE(o.real)) < 0 ? NULL : rec_wrap_result(r, result);
    }
    if (dyn_torch_is_constant(o.real)) { /* dtypes, devices: nobody changes them */
        return rec_wrap_result(r, result);
    }
    if (rec_is_fact(o.real)) {
        return rec_wrap_fact(r, result);
    }
    if (PyComplex_CheckExact(o.real)) {
        return rec_complex_attr(r, o, name, result);
    }
    return PyFunction_Check(o.real) ? rec_function_attr(r, o, name, result) : no_attribute(r, o, name, result);
}

static DynVal *attribute_at_source(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    bool found = o.v->source != DYN_NONE && !PyArray_Check(o.real);
    return found ? instance_attr(r, o, name, result) : no_attribute(r, o, name, result);
}

static DynVal *attribute_of_object(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    if (rec_is_fact(o.real) && rec_guard_id(r, o.v, o.real) == 0) {
        return rec_wrap_fact(r, result);
    }
    bool is_complex = PyComplex_CheckExact(o.real);
    return is_complex ? rec_complex_attr(r, o, name, result) : attribute_at_source(r, o, name, result);
}

static DynVal *(*const attribute_as[DV_COUNT])(DynRec *r, DynOperand o, PyObject *name, PyObject *result) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = attribute,
#include "tracer/record/shadow.def"
#undef SHADOW
};

DynVal *rec_attr(DynRec *r, DynOperand o, PyObject *name, PyObject *result) {
    if (dyn_rec_resolve(r, o.v, o.real) < 0) {
        return NULL;
    }
    DynVal *method = PyCFunction_Check(result) && o.v->kind != DV_OPAQUE ? builtin_method(r, o, name, result) : NULL;
    return method != NULL ? method : attribute_as[o.v->kind](r, o, name, result);
}

/* An object that came in has no attribute of this name, now and under the guards. */
bool rec_attr_is_missing(DynRec *r, DynOperand o, PyObject *name) {
    DynVal *v = rec_is_instance(o) && !o.v->fresh ? attr_source(r, o.v->source, name) : NULL;
    PyObject *there = NULL;
    bool missing = v != NULL && dyn_source_attr(o.real, name, &there) == DYN_READ_MISSING &&
                   rec_guard(r, DYN_GUARD_MISSING, v->source, DYN_NONE, 0, NULL) == 0;
    Py_XDECREF(there);
    return missing;
}

/* ---- the column `find`: as RecAttr says, with the shadow of a value or the call. `attribute` says what REC_ATTR_SOURCE leaves.
 */

static RecAttr find_at_source(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    (void)r, (void)o, (void)name, (void)c, (void)v;
    return REC_ATTR_SOURCE;
}

static RecAttr find_of_super(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    PyObject *type = PyObject_GetAttrString(o.real, "__thisclass__"), *self = PyObject_GetAttrString(o.real, "__self__");
    PyErr_Clear();
    Py_XDECREF(type); /* the super object has both */
    Py_XDECREF(self);
    bool known = type != NULL && self != NULL;
    return known ? rec_super_attr(r, (PyTypeObject *)type, (DynOperand){o.v->bound_to, self}, name, c, v) : REC_ATTR_UNKNOWN;
}

static RecAttr find_of_tuple(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    return o.v->type != NULL ? rec_named_attr(r, o, name, c, v) : REC_ATTR_SOURCE;
}

static RecAttr find_of_constant(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    return rec_is_enum_member(o.real) ? rec_enum_attr(r, o, name, c, v) : REC_ATTR_SOURCE;
}

static RecAttr find_of_object(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    return rec_is_instance(o) ? rec_find_attr(r, o, name, c, v) : REC_ATTR_SOURCE;
}

static RecAttr (*const find_as[DV_COUNT])(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = find,
#include "tracer/record/shadow.def"
#undef SHADOW
};

RecAttr rec_attr_of(DynRec *r, DynOperand o, PyObject *name, RecCall *c, DynVal **v) {
    return find_as[o.v->kind](r, o, name, c, v);
}

bool rec_has_fixed_attributes(DynOperand o) {
    PyTypeObject *type = Py_TYPE(o.real);
    bool own_dict = type->tp_dictoffset != 0, plain = type->tp_getattro == PyObject_GenericGetAttr;
    return o.v->kind != DV_OPAQUE && plain && !own_dict && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

/* Has the object no attribute of its own by that name? Reading it may run code that gives it one, and the guards are about what
 * there was before. */
static bool lacks(DynOperand o, RecAttr how, PyObject *name) {
    return how == REC_ATTR_SOURCE && o.v->kind == DV_OBJECT && !in_instance(o.real, name);
}

/* Has it no attribute of that name at any call under the guards? Reading it raised. */
static bool lacks_for_sure(DynRec *r, DynOperand o, RecAttr how, PyObject *name) {
    if (rec_is_array(o.v) && dyn_torch_is(o.real)) {
        PyObject *type, *value, *tb;
        PyErr_Fetch(&type, &value, &tb);
        bool sure = rec_tensor_lacks(r, o, name);
        PyErr_Restore(type, value, tb);
        return sure;
    }
    bool missing = how == REC_ATTR_MISSING || rec_has_fixed_attributes(o);
    return missing && dyn_cpy_lookup_special(Py_TYPE(o.real), name) == NULL;
}

Step rec_LOAD_ATTR(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    PyObject *name = rec_name(f, in->arg);
    bool known = rec_resolve_for_attribute(r, o, name) == 0;
    DynVal *v = NULL;
    RecCall c = {0};
    RecAttr how = known ? rec_attr_of(r, o, name, &c, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) {
        Step s = rec_finish_call(r, f, &c, 1);
        if (s == STEP_ERROR) {
            rec_attribute_raised(o.real, name);
        }
        return s;
    }
    bool lacked = lacks(o, how, name);
    PyObject *result = PyObject_GetAttr(o.real, name);
    if (result == NULL && known && lacks_for_sure(r, o, how, name)) {
        rec_known_error(r, NULL);
        return STEP_ERROR;
    }
    bool got = result != NULL && lacked && in_instance(o.real, name);
    v = result && how == REC_ATTR_SOURCE && !got ? rec_attr(r, o, name, result) : v;
    return rec_commit(r, f, 1, result, v);
}

/* The value on top of the stack becomes two call slots. */
static Step with_null(DynRec *r, RecFrame *f, Step s) {
    DynVal *null = rec_new(r, DV_NULL);
    bool null_first = dyn_call_null_first();
    PyObject *real = f->real[f->sp - 1];
    f->real[f->sp - 1] = null_first ? NULL : real;
    push_real(f, null_first ? real : NULL);
    if (s == STEP_NEXT && null != NULL) {
        DynVal *v = f->shadow[f->ssp - 1];
        f->shadow[f->ssp - 1] = null_first ? null : v;
        push_shadow(f, null_first ? v : null);
    }
    return s;
}

static DynVal *counter_function(DynRec *r, DynOperand o, PyObject *name) {
    DynVal *method = rec_counter_method(r, o, name);
    return method != NULL ? method->method.function : NULL;
}

static bool is_append(PyObject *name) { return PyUnicode_CompareWithASCIIString(name, "append") == 0; }

/* The function behind a method that the type gives unbound: o has a source for what is read from it. NULL: unknown. */
static DynVal *unbound_function(DynRec *r, DynOperand o, PyObject *name, PyObject *method) {
    /* The methods of a type that can't change are no attributes of the object's. */
    bool fixed = (Py_TYPE(o.real)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) && !PyFunction_Check(method);
    bool of_tensor = o.v->kind == DV_ARRAY && dyn_tensor_is(o.real);
    bool of_pointer = o.v->kind == DV_ATTR && dyn_np_is_pointer_method(method);
    if (of_pointer) {
        return dyn_rec_const(r, method);
    }
    if (o.v->kind != DV_OPAQUE && (Py_IS_TYPE(method, &PyMethodDescr_Type) || of_tensor || fixed)) {
        return dyn_rec_const(r, method);
    }
    if (o.v->kind == DV_OBJECT && is_function(method) && !in_instance(o.real, name)) {
        return method_function(r, o, name);
    }
    return counter_function(r, o, name);
}

/* The shadow of what LOAD_METHOD read, by how the attribute is found; NULL: unknown. */
static DynVal *method_read(DynRec *r, DynOperand o, PyObject *name, PyObject *method, bool unbound, RecAttr how, DynVal *v) {
    if (how == REC_ATTR_SOURCE) {
        return unbound ? unbound_function(r, o, name, method) : rec_attr(r, o, name, method);
    }
    if (how == REC_ATTR_VALUE && unbound) {
        return v->kind == DV_METHOD ? v->method.function : NULL;
    }
    return v;
}

/* Two call slots for a method: the function itself and the object, when the type gives it so; else the attribute and NULL. */
Step rec_LOAD_METHOD(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    PyObject *name = rec_name(f, in->arg);
    int unbound = 0;
    bool null_first = dyn_call_null_first(), open = is_append(name) && rec_is_open_list(r, o);
    bool known = !open && rec_resolve_for_attribute(r, o, name) == 0;
    DynVal *v = NULL, *second;
    RecCall c = {0};
    RecAttr how = known ? rec_attr_of(r, o, name, &c, &v) : REC_ATTR_UNKNOWN;
    if (how == REC_ATTR_CALL) { /* what it gives, with NULL */
        Step s = rec_finish_call(r, f, &c, 1);
        if (s == STEP_ERROR && Py_TYPE(o.real)->tp_getattro != PyObject_GenericGetAttr) {
            rec_attribute_raised(o.real, name);
        }
        return s == STEP_NEXT || s == STEP_BREAK ? with_null(r, f, s) : s;
    }
    bool lacked = lacks(o, how, name);
    PyObject *method = dyn_cpy_get_method(o.real, name, &unbound);
    if (method == NULL) {
        if (known && lacks_for_sure(r, o, how, name)) {
            rec_known_error(r, NULL);
        }
        return STEP_ERROR;
    }
    how = lacked && in_instance(o.real, name) ? REC_ATTR_UNKNOWN : how;
    second = unbound ? o.v : rec_new(r, DV_NULL);
    v = open && unbound ? dyn_rec_const(r, method) : method_read(r, o, name, method, unbound != 0, how, v);
    if (v == NULL && unbound) { /* a break: the plain attribute lies there, as in rewritten code */
        Py_SETREF(method, Py_TYPE(method)->tp_descr_get(method, o.real, (PyObject *)Py_TYPE(o.real)));
        if (method == NULL) {
            return STEP_ERROR;
        }
        unbound = 0;
    }
    f->sp--;
    if (unbound) { /* (function, self) on every version */
        push_real(f, method);
        push_real(f, o.real);
    } else {
        push_real(f, null_first ? NULL : method);
        push_real(f, null_first ? method : NULL);
        Py_DECREF(o.real);
    }
    if (v == NULL || second == NULL) {
        return STEP_BREAK;
    }
    f->ssp--;
    push_shadow(f, unbound || !null_first ? v : second);
    push_shadow(f, unbound || !null_first ? second : v);
    return STEP_NEXT;
}

/* The operands of LOAD_SUPER_ATTR are super itself, a class that is a constant, and an object of which something is known. */
static bool is_plain_super(DynRec *r, DynOperand super, DynOperand type, DynOperand self) {
    if (!rec_resolve_both(r, super, type) || dyn_rec_resolve(r, self.v, self.real) < 0 || self.v->kind == DV_OPAQUE) {
        return false;
    }
    bool constant = super.v->kind == DV_CONST && type.v->kind == DV_CONST;
    return constant && super.real == (PyObject *)&PySuper_Type && PyType_Check(type.real);
}

/* 3.12+: super().name without a super object: what lies on the stack is super itself, the class and the object. */
Step rec_LOAD_SUPER_ATTR(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand super = operand(f, 3), type = operand(f, 2), self = operand(f, 1);
    PyObject *name = rec_name(f, in->arg), *args[2] = {type.real, self.real}, *object, *result = NULL;
    bool known = is_plain_super(r, super, type, self);
    DynVal *v = NULL;
    RecCall c = {0};
    RecAttr how = known ? rec_super_attr(r, (PyTypeObject *)type.real, self, name, &c, &v) : REC_ATTR_UNKNOWN;
    Step s;
    if (how == REC_ATTR_CALL) {
        s = rec_finish_call(r, f, &c, 3);
    } else {
        object = PyObject_Vectorcall(super.real, args, in->sub & 2 ? 2 : 0, NULL);
        result = object ? PyObject_GetAttr(object, name) : NULL;
        Py_XDECREF(object);
        s = rec_commit(r, f, 3, result, v);
    }
    return in->sub & 1 && (s == STEP_NEXT || s == STEP_BREAK) ? with_null(r, f, s) : s;
}

Step rec_IMPORT_NAME(DynRec *r, RecFrame *f, const DynInstr *in) {
    PyObject *name = rec_name(f, in->arg), *from = *real_top(f, 1), *level = *real_top(f, 2);
    if (in->sub == 1) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "lazy import");
    }
    int l = PyLong_AsLong(level);
    PyObject *module = PyImport_ImportModuleLevelObject(name, dyn_frame_globals(f->f), Py_None, from, l);
    return rec_commit(r, f, 2, module, module ? dyn_rec_const(r, module) : NULL);
}

Step rec_IMPORT_FROM(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand o = operand(f, 1);
    PyObject *name = rec_name(f, in->arg), *result = PyModule_CheckExact(o.real) ? PyObject_GetAttr(o.real, name) : NULL;
    DynVal *v = result ? rec_attr(r, o, name, result) : NULL;
    if (v == NULL) { /* CPython knows better how this fails, or what else it may be */
        PyErr_Clear();
        Py_XDECREF(result);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "import");
    }
    push_real(f, result);
    push_shadow(f, v);
    return STEP_NEXT;
}
