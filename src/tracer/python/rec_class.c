/* rec_class.c: what a class says, guarded, and what a function stores in one.
 *
 * A guard holds what the class and its bases have under the names that were looked up (cpy_class.c), so that a class which
 * changes in something else at each call still fits. A store of plain data is an effect: it is made again behind the graph, and
 * what the same segment reads under that name afterwards is what it stored. Called by rec_object.c, and for guards by whatever
 * looks into classes. It keeps nothing: what was stored is found among the recording's effects. */
#include "tracer/python/rec_object.h"
#include "tracer/record/rec_state.h"

/* ---- guards */

static uint32_t class_source(DynRec *r, PyTypeObject *type) {
    return dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, (PyObject *)type, NULL);
}

/* Did this segment store something under the name (NULL: under any) in the class or a base? What it finds there now isn't what a
 * later call finds before it has stored it. */
static bool was_stored(const DynRec *r, PyTypeObject *type, PyObject *name) {
    PyObject *mro = type->tp_mro;
    bool stored = false;
    for (Py_ssize_t i = 0; mro != NULL && i < PyTuple_GET_SIZE(mro) && !stored; i++) {
        stored = rec_stored_in_class(r, (PyTypeObject *)PyTuple_GET_ITEM(mro, i), name) != NULL;
    }
    return stored;
}

int rec_guard_whole_class(DynRec *r, PyTypeObject *type) {
    if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return 0;
    }
    if (was_stored(r, type, NULL)) {
        r->why = DYN_R_SIDE_EFFECT;
        return -1;
    }
    dyn_cpy_lookup_named(type, "__init__"); /* gives the class a tag where it has none */
    uint32_t tag = type->tp_version_tag, s = class_source(r, type);
    if (tag == 0 || s == DYN_NONE) {
        r->why = DYN_R_UNSUPPORTED_VALUE;
        return -1;
    }
    return rec_guard(r, DYN_GUARD_CLASS, s, DYN_NONE, tag, NULL);
}

/* The facts of the class that this recording has a guard for; borrowed, NULL: none. */
static PyObject *facts_of(DynRec *r, PyTypeObject *type, uint32_t source) {
    for (uint32_t i = r->cap->guards.n; i-- > 0;) {
        const DynGuard *g = &r->cap->guards.at[i];
        if (g->kind == DYN_GUARD_CLASS && g->source == source && g->obj != NULL && dyn_cpy_class_stands(g->obj, type)) {
            return g->obj;
        }
    }
    return NULL;
}

/* What the first bases have under the name is guarded; without a name, that none of them changed in what CPython looks up by
 * itself. */
static int guard_bases(DynRec *r, PyTypeObject *type, PyObject *name, uint32_t nbases) {
    uint32_t s = class_source(r, type);
    PyObject *found = s == DYN_NONE ? NULL : facts_of(r, type, s),
             *facts = found != NULL ? Py_NewRef(found) : dyn_cpy_class_facts(type);
    bool noted = s != DYN_NONE && facts != NULL && (name == NULL || dyn_cpy_class_note(facts, type, name, nbases));
    int status = noted ? rec_guard(r, DYN_GUARD_CLASS, s, DYN_NONE, 0, facts) : rec_guard_whole_class(r, type);
    Py_XDECREF(facts);
    return status;
}

int rec_guard_class(DynRec *r, PyTypeObject *type, PyObject *name) {
    if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) {
        return 0;
    }
    if (name != NULL && was_stored(r, type, name)) {
        r->why = DYN_R_SIDE_EFFECT;
        return -1;
    }
    return guard_bases(r, type, name, DYN_ALL_BASES);
}

/* ---- stores */

DynVal *rec_stored_class_attr(DynRec *r, PyTypeObject *type, PyObject *name, int *status) {
    *status = 0;
    if (r->effects.n == 0 || !was_stored(r, type, name)) {
        return NULL;
    }
    uint32_t n = (uint32_t)PyTuple_GET_SIZE(type->tp_mro), at = 0;
    DynVal *v = NULL;
    for (; at < n && v == NULL; at++) {
        PyTypeObject *base = (PyTypeObject *)PyTuple_GET_ITEM(type->tp_mro, at);
        PyObject *dict = dyn_cpy_type_dict(base);
        v = rec_stored_in_class(r, base, name);
        bool hidden = v == NULL && (dict == NULL || PyDict_GetItemWithError(dict, name) != NULL);
        Py_XDECREF(dict);
        if (hidden) {
            break;
        }
    }
    *status = v == NULL || (at > 1 && guard_bases(r, type, name, at - 1) < 0) ? -1 : 0;
    r->why = *status < 0 ? DYN_R_SIDE_EFFECT : r->why;
    return *status < 0 ? NULL : v;
}

static bool is_descriptor(PyObject *o) { return Py_TYPE(o)->tp_descr_get != NULL || Py_TYPE(o)->tp_descr_set != NULL; }

/* Is the class in a variable of the function's own? It may be one of many that come and go, and guards would keep each. */
static bool is_passing(const DynRec *r, DynOperand o) {
    uint32_t s = o.v->source;
    int kind = s == DYN_NONE ? DYN_SRC_COUNT : (int)r->cap->sources.v.at[s].kind;
    return kind == DYN_SRC_LOCAL || kind == DYN_SRC_OWNCELL;
}

/* May a class's attribute be stored behind the graph: plain data in place of plain data, under a name that neither CPython nor
 * the metaclass has an interest in? Functions and properties are followed by what the class says, and left to CPython. */
bool rec_stores_in_class(DynRec *r, DynOperand o, PyObject *name, PyObject *value) {
    PyTypeObject *type = (PyTypeObject *)o.real, *meta = Py_TYPE(type), *solid = type;
    while (solid->tp_flags & Py_TPFLAGS_HEAPTYPE && solid->tp_base != NULL) {
        solid = solid->tp_base;
    }
    bool instances = solid == &PyBaseObject_Type && !(type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE);
    if (!instances || value == NULL || is_passing(r, o) || rec_is_enum_class(o) || meta->tp_setattro != PyType_Type.tp_setattro) {
        return false;
    }
    if (dyn_cpy_is_special_name(name) || dyn_cpy_lookup_special(meta, name) != NULL || rec_guard_class(r, meta, name) < 0) {
        return false;
    }
    PyObject *old = dyn_cpy_lookup_special(type, name);
    return !is_descriptor(value) && (old == NULL || !is_descriptor(old));
}
