/* cpy_class.c: what was read of a class, so that a class that changed in something else counts as unchanged. A version tag tells
 * that nothing changed; a class that counts its instances, or that says which of them is active, has a new one at each call.
 *
 * Facts are the bases in order, what each of them has under a special name (CPython and the recorder look those up by
 * themselves), and under the names that were noted. They keep nothing alive that the class has: functions, classes and other
 * objects with weak references are known by those, a property or a bound kind of function by its parts, a descriptor by the
 * class that it was made for, and only numbers, text and tuples of these are held. Called by the recorder, which makes them, and
 * by guards, with the GIL. The capsule owns the facts. */
#include "base/cpy_internal.h"
#include "base/cpy_region.h"

typedef enum Way {
    ABSENT,
    ATOM,       /* part 0 is the object */
    WEAK,       /* part 0 is a weak reference to the object */
    WRAPPER,    /* a property, staticmethod or classmethod of type `of`: its parts are these, as ATOM or WEAK say */
    DESCRIPTOR, /* at this address, of type `of`, made for the class */
    DATA        /* a list, a dict …, of which nothing but the type is known: under a special name nobody calls it */
} Way;
enum { PARTS = 3 };

typedef struct Row {
    PyObject *name;
    uint32_t base; /* Which row of `bases` has it, or hasn't. */
    Way way;
    PyObject *address; /* Of a DESCRIPTOR; borrowed, and never looked into. */
    PyTypeObject *of;  /* Borrowed; one of CPython's own. */
    PyObject *parts[PARTS];
} Row;

typedef struct Base {
    PyObject *ref;     /* A weak reference to the class. */
    uint32_t nspecial; /* How many special names its dict has. */
    bool fixed;        /* Nobody can change it. */
} Base;

typedef struct Facts {
    uint32_t version; /* The version tag for which they were last found to hold; 0: CPython gave the class none. */
    DYN_VEC(Base)
    bases;
    DYN_VEC(Row)
    rows;
} Facts;

static const char capsule_name[] = "dynoc.class";

bool dyn_cpy_is_class_facts(PyObject *o) { return PyCapsule_IsValid(o, capsule_name); }

static Facts *facts_of(PyObject *capsule) { return PyCapsule_GetPointer(capsule, capsule_name); }

static void free_facts(PyObject *capsule) {
    Facts *f = facts_of(capsule);
    for (uint32_t i = 0; i < f->bases.n; i++) {
        Py_XDECREF(f->bases.at[i].ref);
    }
    for (uint32_t i = 0; i < f->rows.n; i++) {
        Py_XDECREF(f->rows.at[i].name);
        for (int k = 0; k < PARTS; k++) {
            Py_XDECREF(f->rows.at[i].parts[k]);
        }
    }
    dyn_vec_free(&f->bases);
    dyn_vec_free(&f->rows);
    PyMem_RawFree(f);
}

bool dyn_cpy_is_special_name(PyObject *name) {
    Py_ssize_t n = PyUnicode_CheckExact(name) && PyUnicode_IS_ASCII(name) ? PyUnicode_GET_LENGTH(name) : 0;
    const char *text = n > 4 ? PyUnicode_DATA(name) : "";
    return n > 4 && text[0] == '_' && text[1] == '_' && text[n - 1] == '_' && text[n - 2] == '_';
}

static uint32_t count_special(PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    uint32_t n = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        n += dyn_cpy_is_special_name(key);
    }
    return n;
}

/* ---- single objects */

static bool is_atom(PyObject *o) {
    for (Py_ssize_t i = 0; PyTuple_CheckExact(o) && i < PyTuple_GET_SIZE(o); i++) {
        PyObject *item = PyTuple_GET_ITEM(o, i);
        if (PyTuple_CheckExact(item) || !is_atom(item)) {
            return false;
        }
    }
    bool number = PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyComplex_CheckExact(o);
    bool text = PyUnicode_CheckExact(o) || PyBytes_CheckExact(o);
    return number || text || o == Py_None || o == Py_Ellipsis || o == Py_NotImplemented || PyTuple_CheckExact(o);
}

/* Borrowed: whoever compares it has a reference of its own. */
static PyObject *referent(PyObject *ref) {
#if DYN_PY >= 313
    PyObject *o = NULL;
    (void)PyWeakref_GetRef(ref, &o);
    Py_XDECREF(o);
    return o;
#else
    return PyWeakref_GET_OBJECT(ref);
#endif
}

static bool has_weak_references(PyObject *o) { return PyType_SUPPORTS_WEAKREFS(Py_TYPE(o)); }

/* What stands for the object: itself or a weak reference to it. New reference; NULL, without an exception: nothing does. */
static PyObject *stand_in(PyObject *o) {
    if (is_atom(o)) {
        return Py_NewRef(o);
    }
    PyObject *ref = has_weak_references(o) ? PyWeakref_NewRef(o, NULL) : NULL;
    PyErr_Clear();
    return ref;
}

static bool stands_for(PyObject *part, PyObject *o) { return PyWeakref_Check(part) ? referent(part) == o : part == o; }

static const char *const property_parts[PARTS] = {"fget", "fset", "fdel"}, *const function_parts[PARTS] = {"__func__"};

/* The attributes that a wrapper consists of; NULL: the object is none. */
static const char *const *parts_of(PyTypeObject *type) {
    if (type == &PyProperty_Type) {
        return property_parts;
    }
    return type == &PyStaticMethod_Type || type == &PyClassMethod_Type ? function_parts : NULL;
}

/* Fills or compares the parts; false: one of them can't be remembered, or is another. */
static bool remember_parts(Row *r, PyObject *o) {
    const char *const *names = parts_of(Py_TYPE(o));
    bool all = true;
    for (int k = 0; k < PARTS && names[k] != NULL && all; k++) {
        PyObject *part = PyObject_GetAttrString(o, names[k]);
        r->parts[k] = part != NULL ? stand_in(part) : NULL;
        all = r->parts[k] != NULL;
        Py_XDECREF(part);
    }
    PyErr_Clear();
    return all;
}

static bool has_same_parts(const Row *r, PyObject *o) {
    const char *const *names = parts_of(Py_TYPE(o));
    bool same = true;
    for (int k = 0; k < PARTS && names[k] != NULL && same; k++) {
        PyObject *part = PyObject_GetAttrString(o, names[k]);
        same = part != NULL && stands_for(r->parts[k], part);
        Py_XDECREF(part);
    }
    PyErr_Clear();
    return same;
}

static bool is_descriptor(PyTypeObject *t) {
    bool method = t == &PyMethodDescr_Type || t == &PyWrapperDescr_Type || t == &PyClassMethodDescr_Type;
    return method || t == &PyGetSetDescr_Type || t == &PyMemberDescr_Type;
}

/* A class gets its descriptors when it is made: one that is made for this class, or for one that nobody changes, stays alive. */
static bool stays(PyObject *descr, PyTypeObject *owner) {
    PyTypeObject *made_for = PyDescr_TYPE(descr);
    return made_for == owner || (made_for->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0;
}

/* False: the object can't be remembered, and the row says no more than its type. */
static bool remember(Row *r, PyObject *o, PyTypeObject *owner) {
    r->way = ABSENT;
    if (o == NULL) {
        return true;
    }
    r->of = Py_TYPE(o);
    r->address = o;
    if ((r->parts[0] = stand_in(o)) != NULL) {
        r->way = PyWeakref_Check(r->parts[0]) ? WEAK : ATOM;
        return true;
    }
    if (parts_of(r->of) != NULL && remember_parts(r, o)) {
        r->way = WRAPPER;
        return true;
    }
    bool stays_there = is_descriptor(r->of) && stays(o, owner);
    r->way = stays_there ? DESCRIPTOR : DATA;
    return stays_there;
}

static bool is_as_remembered(const Row *r, PyObject *o, PyTypeObject *owner) {
    if (o == NULL || r->way == ABSENT) {
        return o == NULL && r->way == ABSENT;
    }
    switch (r->way) {
    case ABSENT: break;
    case ATOM: return r->parts[0] == o;
    case WEAK: return referent(r->parts[0]) == o;
    case WRAPPER: return Py_TYPE(o) == r->of && has_same_parts(r, o);
    case DESCRIPTOR: return o == r->address && Py_TYPE(o) == r->of && stays(o, owner);
    case DATA: return Py_TYPE(o) == r->of;
    }
    return false;
}

/* ---- classes */

static PyTypeObject *base_at(PyTypeObject *t, uint32_t i) { return (PyTypeObject *)PyTuple_GET_ITEM(t->tp_mro, i); }

/* How many bases it has, itself among them; 0 while its metaclass still decides that. */
static uint32_t count_bases(PyTypeObject *t) { return t->tp_mro == NULL ? 0 : (uint32_t)PyTuple_GET_SIZE(t->tp_mro); }

static int push_row(Facts *f, Row r) {
    Py_INCREF(r.name);
    if (dyn_vec_push(&f->rows, r) == 0) {
        return 0;
    }
    Py_DECREF(r.name);
    for (int k = 0; k < PARTS; k++) {
        Py_XDECREF(r.parts[k]);
    }
    return -1;
}

/* The special names of a base. -1: memory, or one that is called and can't be remembered. */
static int add_special(Facts *f, uint32_t base, PyTypeObject *owner, PyObject *dict) {
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &key, &value)) {
        Row r = {.name = key, .base = base};
        if (!dyn_cpy_is_special_name(key)) {
            continue;
        }
        bool called = !remember(&r, value, owner) && (Py_TYPE(value)->tp_call != NULL || Py_TYPE(value)->tp_descr_get != NULL);
        if (push_row(f, r) < 0 || called) {
            return -1;
        }
    }
    return 0;
}

static int add_base(Facts *f, PyTypeObject *t, uint32_t i) {
    PyTypeObject *base = base_at(t, i);
    Base b = {.ref = PyWeakref_NewRef((PyObject *)base, NULL), .fixed = (base->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) != 0};
    PyObject *dict = b.ref != NULL && !b.fixed ? dyn_cpy_type_dict(base) : NULL;
    b.nspecial = dict != NULL ? count_special(dict) : 0;
    int status = b.ref == NULL ? -1 : dyn_vec_push(&f->bases, b);
    if (status < 0) {
        Py_XDECREF(b.ref);
    } else if (dict != NULL) {
        status = add_special(f, i, base, dict);
    }
    Py_XDECREF(dict);
    PyErr_Clear();
    return status;
}

PyObject *dyn_cpy_class_facts(PyTypeObject *t) {
    Facts *f = count_bases(t) == 0 ? NULL : PyMem_RawCalloc(1, sizeof *f);
    PyObject *capsule = f == NULL ? NULL : PyCapsule_New(f, capsule_name, free_facts);
    if (capsule == NULL) {
        PyMem_RawFree(f);
        PyErr_Clear();
        return NULL;
    }
    f->version = dyn_cpy_type_version(t);
    for (uint32_t i = 0; i < count_bases(t); i++) {
        if (add_base(f, t, i) < 0) {
            Py_DECREF(capsule);
            return NULL;
        }
    }
    return capsule;
}

static bool is_noted(const Facts *f, PyObject *name, uint32_t base) {
    for (uint32_t i = f->rows.n; i-- > 0;) {
        const Row *r = &f->rows.at[i];
        if (r->base == base && dyn_cpy_is_same_text(r->name, name)) {
            return r->way != DATA;
        }
    }
    return false;
}

bool dyn_cpy_class_note(PyObject *capsule, PyTypeObject *t, PyObject *name, uint32_t nbases) {
    Facts *f = facts_of(capsule);
    if (count_bases(t) != f->bases.n) {
        return false;
    }
    for (uint32_t i = 0; i < f->bases.n && i < nbases; i++) {
        PyTypeObject *base = base_at(t, i);
        if (f->bases.at[i].fixed || is_noted(f, name, i)) {
            continue;
        }
        Row r = {.name = name, .base = i};
        PyObject *dict = dyn_cpy_type_dict(base);
        bool known = dict != NULL && remember(&r, PyDict_GetItemWithError(dict, name), base);
        Py_XDECREF(dict);
        if (push_row(f, r) < 0 || !known) {
            return false;
        }
    }
    return true;
}

/* Which name of base i has something else now than its rows say. Borrowed; NULL: none. */
static PyObject *changed_in(const Facts *f, uint32_t i, PyTypeObject *base) {
    PyObject *dict = dyn_cpy_type_dict(base), *changed = NULL;
    for (uint32_t k = 0; dict != NULL && k < f->rows.n && changed == NULL; k++) {
        const Row *r = &f->rows.at[k];
        bool same = r->base != i || is_as_remembered(r, PyDict_GetItemWithError(dict, r->name), base);
        changed = same ? NULL : r->name;
    }
    if (changed == NULL && (dict == NULL || count_special(dict) != f->bases.at[i].nspecial)) {
        changed = Py_None; /* a special name that is new */
    }
    Py_XDECREF(dict);
    return changed;
}

PyObject *dyn_cpy_class_changed(PyObject *capsule, PyTypeObject *t) {
    const Facts *f = facts_of(capsule);
    bool same = count_bases(t) == f->bases.n;
    for (uint32_t i = 0; same && i < f->bases.n; i++) {
        same = referent(f->bases.at[i].ref) == (PyObject *)base_at(t, i);
    }
    PyObject *changed = same ? NULL : Py_None;
    for (uint32_t i = 0; changed == NULL && i < f->bases.n; i++) {
        changed = f->bases.at[i].fixed ? NULL : changed_in(f, i, base_at(t, i));
    }
    return changed;
}

bool dyn_cpy_class_stands(PyObject *capsule, PyTypeObject *t) {
    Facts *f = facts_of(capsule);
    if (DYN_LIKELY(f->version != 0 && (uint32_t)t->tp_version_tag == f->version)) {
        return true;
    }
    if (dyn_cpy_class_changed(capsule, t) != NULL) {
        return false;
    }
    f->version = dyn_cpy_type_version(t);
    return true;
}
