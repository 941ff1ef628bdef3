/* rec_dispatch.c: what functools does in Python between a call and the user's function that it comes to: singledispatch and
 * cached_property. The library's code runs for real and is not recorded; the function that it calls is, in its place.
 *
 * Called by rec_call.c and rec_object.c. What the choice of the function depends on is guarded. */
#include "tracer/record/rec_callables.h"

static PyObject *globals; /* of functools */
static PyTypeObject *cached_property, *weak_dict;
static PyObject *s_func, *s_attrname, *get_attr; /* get_attr: the builtin */

/* ---- singledispatch */

/* What a free variable of a function of functools holds, borrowed; and where it is. */
static PyObject *free_variable(PyObject *f, const char *name, uint32_t *at) {
    PyObject *closure = PyFunction_GET_CLOSURE(f);
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(f);
    int first = dyn_code_nlocalsplus(code) - (closure ? (int)PyTuple_GET_SIZE(closure) : 0);
    for (Py_ssize_t i = 0; closure != NULL && i < PyTuple_GET_SIZE(closure); i++) {
        PyObject *cell = PyTuple_GET_ITEM(closure, i);
        if (PyUnicode_CompareWithASCIIString(dyn_code_local_name(code, first + (int)i), name) == 0) {
            *at = (uint32_t)i;
            return PyCell_Check(cell) ? PyCell_GET(cell) : NULL;
        }
    }
    return NULL;
}

static bool of_functools(PyObject *o) { return o != NULL && PyFunction_Check(o) && PyFunction_GET_GLOBALS(o) == globals; }

static uint32_t constant(DynRec *r, PyObject *o) {
    return dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, o, NULL);
}

/* The class of the argument is what its __class__ says. */
static PyTypeObject *class_of(DynRec *r, DynOperand o) {
    PyTypeObject *type = Py_TYPE(o.real);
    bool plain = dyn_cpy_lookup_named(type, "__class__") == dyn_cpy_lookup_named(&PyBaseObject_Type, "__class__");
    bool seen = dyn_rec_resolve(r, o.v, o.real) == 0 && o.v->kind != DV_OPAQUE && o.v->kind != DV_MADE;
    return seen && plain && rec_guard_class(r, type, NULL) == 0 ? type : NULL;
}

/* The entry of the registry that counts for the class: no abstract class is in there, so it is the first of its bases. */
static DynOperand chosen(DynRec *r, PyObject *registry, PyTypeObject *type) {
    PyObject *mro = type->tp_mro;
    uint32_t base = constant(r, registry);
    for (Py_ssize_t i = 0; base != DYN_NONE && i < PyTuple_GET_SIZE(mro); i++) {
        PyObject *cls = PyTuple_GET_ITEM(mro, i);
        if (Py_TYPE(cls)->tp_hash != PyType_Type.tp_hash || Py_TYPE(cls)->tp_richcompare != PyType_Type.tp_richcompare) {
            break;
        }
        uint32_t s = dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, base, 0, NULL, cls);
        PyObject *f = s == DYN_NONE ? NULL : PyDict_GetItemWithError(registry, cls);
        if (f != NULL) {
            return (DynOperand){PyFunction_Check(f) ? rec_source(r, s) : NULL, f};
        }
        if (s == DYN_NONE || PyErr_Occurred() || rec_guard(r, DYN_GUARD_MISSING, s, DYN_NONE, 0, NULL) < 0) {
            break;
        }
    }
    PyErr_Clear();
    return (DynOperand){0};
}

/* The implementation that a generic function calls; v NULL: it is none, or not known. */
static DynOperand implementation(DynRec *r, const RecCall *c) {
    DynOperand none = {0}, f;
    uint32_t at, s;
    PyObject *dispatch = of_functools(c->callable.real) ? free_variable(c->callable.real, "dispatch", &at) : NULL;
    PyObject *registry = of_functools(dispatch) ? free_variable(dispatch, "registry", &at) : NULL;
    PyObject *cache = registry != NULL ? free_variable(dispatch, "dispatch_cache", &at) : NULL;
    PyObject *token = cache != NULL ? free_variable(dispatch, "cache_token", &at) : NULL;
    if (token != Py_None || c->npos == 0) {
        return none;
    }
    if (!PyDict_CheckExact(registry) || !Py_IS_TYPE(cache, weak_dict)) {
        return none;
    }
    PyTypeObject *type = class_of(r, c->args[0]);
    s = constant(r, dispatch);
    s = s == DYN_NONE ? s : dyn_source_intern(&r->cap->sources, DYN_SRC_FCLOSURE, s, at, NULL, NULL);
    if (type == NULL || s == DYN_NONE) {
        return none;
    }
    if (rec_guard_id(r, c->callable.v, c->callable.real) < 0 || rec_guard(r, DYN_GUARD_ID, s, DYN_NONE, 0, Py_None) < 0) {
        return none;
    }
    f = chosen(r, registry, type);
    return f.v != NULL && dyn_rec_resolve(r, f.v, f.real) == 0 ? f : none;
}

DynVal *rec_call_dispatched(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *v;
    if (c->leads_to == NULL) {
        DynOperand f = PyFunction_Check(c->callable.real) ? implementation(r, c) : (DynOperand){0};
        return f.v != NULL ? rec_call_behind(r, c, c, f, result) : REC_DECLINED;
    }
    RecSeal seal = rec_seal(r);
    v = rec_call_behind(r, c, c->leads_to, c->leads_to->callable, result);
    rec_unseal(r, seal);
    return v != NULL && rec_stored_attr(r, c->args[0], c->args[1].real, v) == 0 ? v : NULL;
}

/* ---- cached_property */

bool rec_is_cached_property(PyObject *descr) { return descr != NULL && Py_IS_TYPE(descr, cached_property); }

int rec_cached_attr(DynRec *r, PyObject *descr, DynOperand o, PyObject *name, RecCall *c) {
    PyObject *func = rec_part(descr, s_func), *own = rec_part(descr, s_attrname);
    bool by_function = func != NULL && PyFunction_Check(func);
    bool same_name = own != NULL && PyUnicode_CheckExact(own) && PyUnicode_Compare(own, name) == 0;
    bool plain = by_function && same_name && rec_guard_class(r, cached_property, NULL) == 0;
    uint32_t s = plain ? constant(r, descr) : DYN_NONE;
    s = s == DYN_NONE ? s : dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, s, 0, NULL, s_func);
    DynOperand f = {s == DYN_NONE ? NULL : rec_source(r, s), func};
    RecCall *behind = DYN_NEW(&r->arena, RecCall);
    *c = (RecCall){.callable = {dyn_rec_const(r, get_attr), get_attr}, .args = DYN_NEW_N(&r->arena, DynOperand, 2), .npos = 2};
    if (behind == NULL || c->callable.v == NULL || c->args == NULL) {
        return -1;
    }
    if (f.v == NULL || dyn_rec_resolve(r, f.v, func) < 0) {
        return -1;
    }
    c->args[0] = o;
    c->args[1] = (DynOperand){rec_object(r, name), name};
    *behind = (RecCall){.callable = f, .args = c->args, .npos = 1};
    c->leads_to = behind;
    return c->args[1].v == NULL ? -1 : 0;
}

int rec_dispatch_init(void) {
    PyObject *module = dyn_import("functools"), *builtins = PyEval_GetBuiltins();
    PyObject *type = module ? PyObject_GetAttrString(module, "cached_property") : NULL;
    PyObject *weakref = dyn_import("weakref");
    PyObject *weak = weakref ? PyObject_GetAttrString(weakref, "WeakKeyDictionary") : NULL;
    Py_XDECREF(weakref);
    weak_dict = weak != NULL && PyType_Check(weak) ? (PyTypeObject *)weak : NULL;
    globals = module ? PyModule_GetDict(module) : NULL; /* the module stays: this keeps it */
    cached_property = type != NULL && PyType_Check(type) ? (PyTypeObject *)type : NULL;
    s_func = PyUnicode_InternFromString("func");
    s_attrname = PyUnicode_InternFromString("attrname");
    get_attr = builtins ? Py_XNewRef(PyDict_GetItemString(builtins, "getattr")) : NULL;
    bool types = cached_property != NULL && weak_dict != NULL, names = s_func != NULL && s_attrname != NULL;
    return types && names && get_attr != NULL ? 0 : -1;
}
