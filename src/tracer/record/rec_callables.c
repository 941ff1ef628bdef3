/* rec_callables.c: callables.def as a table, found by address.
 *
 * A row is bound when its module is there: at start, or at the first question behind the import of other modules. It holds a
 * strong reference to its callable for the life of the process, so that no other object gets the address. What somebody put in
 * the place of a library's function before that isn't taken for it: its own name has to be the row's. Called by rec_call.c and by
 * whoever asks for a flag. The GIL serialises it. */
#include "tracer/record/rec_callables.h"

DynVal rec_declined;

/* What the address in a key is: the callable; its definition, for methods that are bound anew each time; the owner of members;
 * the type of instances. */
typedef enum KeyKind { KEY_OBJECT, KEY_DEFINITION, KEY_OWNER, KEY_TYPE } KeyKind;
typedef struct Row {
    const char *module, *path;
    RecCallHandler handler;
    int arg;
    unsigned flags;
    KeyKind kind;     /* KEY_OBJECT, KEY_OWNER or KEY_TYPE: as the row is written */
    PyObject *object; /* NULL: not bound yet */
} Row;
typedef struct Key {
    const void *address;
    KeyKind kind;
    uint32_t row;
} Key;

enum {
    EARLY = REC_EARLY,
    ANY_SELF = REC_ANY_SELF,
    TAKES_ALL = REC_TAKES_ALL,
    LISTS = REC_LISTS,
    ALONE = REC_ALONE,
    EACH = REC_EACH,
    OF_ARRAY = REC_OF_ARRAY,
    PURE = REC_PURE,
    WALKS = REC_WALKS,
    LEAVES = REC_LEAVES,
    SEES_REFERENCES = REC_SEES_REFERENCES,
    NEVER_CHANGE = REC_NEVER_CHANGE,
    FIXED = REC_FIXED
};
static Row rows[] = {
#define CALLABLE(module, path, handler, arg, flags) {module, path, rec_on_##handler, arg, flags, KEY_OBJECT, NULL},
#define MEMBERS(module, path, handler, arg, flags) {module, path, rec_on_##handler, arg, flags, KEY_OWNER, NULL},
#define INSTANCES(module, path, handler, arg, flags) {module, path, rec_on_##handler, arg, flags, KEY_TYPE, NULL},
#include "tracer/record/callables.def"
#undef CALLABLE
#undef MEMBERS
#undef INSTANCES
};
static Key keys[2 * DYN_COUNTOF(rows)]; /* sorted; rows of one callable in the order of the table */
static size_t nkeys;
static Py_ssize_t nmodules; /* in sys.modules when rows were bound last */
static bool all_bound;

/* ---- binding */

static int by_address(const void *a, const void *b) {
    const Key *x = a, *y = b;
    if (x->address != y->address) {
        return (uintptr_t)x->address < (uintptr_t)y->address ? -1 : 1;
    }
    return x->kind != y->kind ? (int)x->kind - (int)y->kind : (int)x->row - (int)y->row;
}

static const char *last_name(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

/* Something else may have been put in the place of what the row means. */
static bool is_genuine(PyObject *o, const char *path) {
    const char *name = last_name(path);
    if (PyCFunction_Check(o)) {
        return strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, name) == 0;
    }
    if (PyType_Check(o)) {
        return strcmp(last_name(((PyTypeObject *)o)->tp_name), name) == 0;
    }
    if (PyFunction_Check(o)) {
        return PyUnicode_CompareWithASCIIString(((PyCodeObject *)PyFunction_GET_CODE(o))->co_name, name) == 0;
    }
    return true;
}

/* One name of a path, without running code of a module: a new reference, or NULL without an exception. */
static PyObject *named_in(PyObject *holder, const char *name) {
    PyObject *dict = PyModule_Check(holder) ? PyModule_GetDict(holder) : NULL, *found = NULL;
    if (dict != NULL) {
        found = Py_XNewRef(PyDict_GetItemString(dict, name));
    } else if (PyType_Check(holder)) {
        found = PyObject_GetAttrString(holder, name);
    }
    PyErr_Clear();
    return found;
}

static PyObject *find_path(PyObject *module, const char *path) {
    PyObject *o = Py_NewRef(module);
    while (o != NULL && *path != '\0') {
        char name[48];
        size_t n = strcspn(path, ".");
        if (n >= sizeof name) {
            Py_CLEAR(o);
            break;
        }
        memcpy(name, path, n);
        name[n] = '\0';
        Py_SETREF(o, named_in(o, name));
        path += n + (path[n] == '.');
    }
    return o;
}

/* Where a method is defined: the same for its descriptor and for each object that it is bound to. All __new__ have one. */
static const void *definition_of(PyObject *o) {
    const PyMethodDef *def = PyCFunction_Check(o) ? ((PyCFunctionObject *)o)->m_ml : NULL;
    if (Py_TYPE(o) == &PyMethodDescr_Type) {
        def = ((PyMethodDescrObject *)o)->d_method;
    }
    return def != NULL && strcmp(def->ml_name, "__new__") != 0 ? def : NULL;
}

static void add_keys(uint32_t at) {
    const Row *row = &rows[at];
    keys[nkeys++] = (Key){row->object, row->kind, at};
    const void *definition = row->kind == KEY_OBJECT ? definition_of(row->object) : NULL;
    if (definition != NULL) {
        keys[nkeys++] = (Key){definition, KEY_DEFINITION, at};
    }
}

static void bind_row(Row *row, PyObject *modules) {
    PyObject *module = PyDict_GetItemString(modules, row->module);
    PyObject *o = module != NULL ? find_path(module, row->path) : NULL;
    bool whole = o != NULL && (*row->path == '\0' || is_genuine(o, row->path));
    if (whole && (row->kind != KEY_TYPE || PyType_Check(o))) {
        row->object = o;
        add_keys((uint32_t)(row - rows));
    } else {
        Py_XDECREF(o);
    }
}

/* Binds the rows of modules that were imported since the last time. */
static void bind_rows(void) {
    PyObject *modules = PyImport_GetModuleDict();
    if (all_bound || PyDict_GET_SIZE(modules) == nmodules) {
        return;
    }
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    nmodules = PyDict_GET_SIZE(modules);
    all_bound = true;
    size_t before = nkeys;
    for (size_t i = 0; i < DYN_COUNTOF(rows); i++) {
        if (rows[i].object == NULL) {
            bind_row(&rows[i], modules);
        }
        all_bound = all_bound && rows[i].object != NULL;
    }
    if (nkeys > before) {
        qsort(keys, nkeys, sizeof *keys, by_address);
    }
    PyErr_Restore(type, value, tb);
}

int rec_callables_init(void) {
    bind_rows();
    return 0;
}

/* ---- finding */

/* The first key of this address and kind, or NULL. */
static const Key *find(const void *address, KeyKind kind) {
    bind_rows();
    size_t low = 0, high = nkeys;
    const Key want = {address, kind, 0};
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (by_address(&keys[mid], &want) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < nkeys && keys[low].address == address && keys[low].kind == kind ? &keys[low] : NULL;
}

/* The key behind it, where that is of the same callable. */
static const Key *next_key(const Key *key) {
    const Key *next = key + 1;
    return next < keys + nkeys && next->address == key->address && next->kind == key->kind ? next : NULL;
}

/* The type whose method, or the module whose function, f is. */
static const void *owner_of(PyObject *f) {
    if (Py_TYPE(f) == &PyMethodDescr_Type) {
        return ((PyDescrObject *)f)->d_type;
    }
    return PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : NULL;
}

/* A class method, which is another object each time; not a method bound to an instance. */
static bool is_class_method(PyObject *f) {
    return PyCFunction_Check(f) && PyCFunction_GET_SELF(f) != NULL && PyType_Check(PyCFunction_GET_SELF(f));
}

static const Key *find_callable(PyObject *f) {
    const Key *key = find(f, KEY_OBJECT);
    if (key == NULL && is_class_method(f) && definition_of(f) != NULL) {
        key = find(definition_of(f), KEY_DEFINITION);
        key = key != NULL && PyCFunction_GET_SELF(rows[key->row].object) == PyCFunction_GET_SELF(f) ? key : NULL;
    }
    return key != NULL || owner_of(f) == NULL ? key : find(owner_of(f), KEY_OWNER);
}

static bool any_has_flag(const Key *key, RecCallableFlag flag) {
    bool has = false;
    for (; key != NULL && !has; key = next_key(key)) {
        has = (rows[key->row].flags & flag) != 0;
    }
    return has;
}

bool rec_has_flag(PyObject *f, RecCallableFlag flag) {
    const Key *key = find_callable(f);
    if (key == NULL && definition_of(f) != NULL) {
        key = find(definition_of(f), KEY_DEFINITION);
    }
    return any_has_flag(key, flag);
}

bool rec_instance_has_flag(PyObject *o, RecCallableFlag flag) { return any_has_flag(find(Py_TYPE(o), KEY_TYPE), flag); }

bool rec_is_known_instance(PyObject *o) {
    const Key *key = find(Py_TYPE(o), KEY_TYPE);
    return key != NULL && rows[key->row].handler != rec_on_nobody;
}

int rec_callable_argument(PyObject *f, RecCallHandler handler) {
    for (const Key *key = find(f, KEY_OBJECT); key != NULL; key = next_key(key)) {
        if (rows[key->row].handler == handler) {
            return rows[key->row].arg;
        }
    }
    return -1;
}

PyObject *rec_known_object(PyObject *f) {
    const Key *key = find_callable(f);
    return key != NULL && key->kind != KEY_OWNER ? rows[key->row].object : f;
}

/* ---- calls */

static bool has_operators_in_python(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o), *base = type;
    while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        base = base->tp_base;
    }
    if (base == type) {
        return false;
    }
    PyNumberMethods *own = type->tp_as_number, *known = base->tp_as_number;
    binaryfunc add = known == NULL ? NULL : known->nb_add, multiply = known == NULL ? NULL : known->nb_multiply;
    bool reckons = own != NULL && (own->nb_add != add || own->nb_multiply != multiply);
    return reckons || type->tp_richcompare != base->tp_richcompare || type->tp_hash != base->tp_hash;
}

static bool runs_python(PyObject *o) {
    bool runs = false;
    for (Py_ssize_t i = 0; PyTuple_CheckExact(o) && i < PyTuple_GET_SIZE(o); i++) {
        runs = runs || runs_python(PyTuple_GET_ITEM(o, i));
    }
    return runs || (!rec_plain_key(o) && has_operators_in_python(o));
}

/* Does comparing or hashing the item run code of the program? */
static bool is_seen_by_program(DynOperand item) { return !rec_is_array(item.v) && runs_python(item.real); }

static bool is_hashable(PyObject *o) {
    bool hashable = PyObject_Hash(o) != -1;
    PyErr_Clear();
    return hashable;
}

static bool is_real_number(PyObject *o) {
    bool python = PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o);
    return python || PyArray_IsScalar(o, Integer) || PyArray_IsScalar(o, Floating) || PyArray_IsScalar(o, Bool);
}

/* Can the two be ordered, whatever their values are? */
static bool can_order(PyObject *a, PyObject *b) {
    if (PyTuple_CheckExact(a) && PyTuple_CheckExact(b)) {
        bool can = true;
        for (Py_ssize_t i = 0; can && i < Py_MIN(PyTuple_GET_SIZE(a), PyTuple_GET_SIZE(b)); i++) {
            can = can_order(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i));
        }
        return can;
    }
    bool text = PyUnicode_CheckExact(a) || PyBytes_CheckExact(a);
    return (is_real_number(a) && is_real_number(b)) || (text && Py_TYPE(a) == Py_TYPE(b));
}

/* What stops the taking for a callable that hashes each item, or compares it with those before: what runs code of the program, or
 * fails. */
static bool stops_order(PyObject *first, DynOperand item) {
    return is_seen_by_program(item) || (first != NULL && !can_order(first, item.real));
}

static bool stops_set(PyObject *first, DynOperand item) {
    (void)first;
    return is_seen_by_program(item) || !is_hashable(item.real);
}

static bool stops_dict(PyObject *first, DynOperand pair) {
    (void)first;
    bool fits = PyTuple_CheckExact(pair.real) && PyTuple_GET_SIZE(pair.real) == 2;
    PyObject *key = fits ? PyTuple_GET_ITEM(pair.real, 0) : NULL;
    return !fits || runs_python(key) || !is_hashable(key);
}

static bool stops_always(PyObject *first, DynOperand item) {
    (void)first, (void)item;
    return true;
}

static RecStops find_stops(const RecCall *c) {
    if (c->callable.real == (PyObject *)&PyDict_Type) {
        return stops_dict;
    }
    if (PyType_Check(c->callable.real)) {
        return stops_set;
    }
    bool keyed = false; /* by a key function */
    for (uint32_t i = 0; i < c->nkw; i++) {
        keyed = keyed || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(c->kwnames, i), "key") == 0;
    }
    return keyed ? stops_always : stops_order;
}

PyObject *rec_chained(PyObject *items, PyObject *rest) {
    PyObject *itertools = dyn_import("itertools");
    PyObject *chain = itertools == NULL ? NULL : PyObject_CallMethod(itertools, "chain", "OO", items, rest);
    Py_XDECREF(itertools);
    return chain;
}

/* What an iterator gives to a callable that looks at each item before it takes the next one. *v NULL: an iterator whose rest
 * isn't taken yet, as that could be seen. */
static PyObject *taken_by_each(DynRec *r, const RecCall *c, DynVal **v) {
    PyObject *items = rec_take_until(r, c->args[0], v, find_stops(c));
    if (items != NULL && *v == NULL) {
        Py_SETREF(items, rec_chained(items, c->args[0].real));
    }
    return items;
}

/* The call with the list of all that its first argument, an iterator, gives. */
static DynVal *call_on_all(DynRec *r, const RecCall *c, PyObject **result, const Row *row) {
    DynVal *v, *given = NULL;
    PyObject *items = (row->flags & REC_EACH) ? taken_by_each(r, c, &v) : rec_take_all(r, c->args[0], &v);
    RecCall call = *c;
    *result = NULL;
    if (items == NULL || (call.args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw)) == NULL) {
        Py_XDECREF(items);
        return NULL;
    }
    memcpy(call.args, c->args, (c->npos + c->nkw) * sizeof *call.args);
    call.args[0] = (DynOperand){v, items};
    call.packed = NULL;
    if (v == NULL || rec_keep(r, items) < 0) { /* what it gave goes to the callable */
        *result = rec_call_real(&call);
        given = rec_take_failed(r, r->why, r->detail);
    } else if (c->callable.real == (PyObject *)&PyList_Type && c->npos == 1) {
        *result = Py_NewRef(items);
        given = v;
    } else {
        given = row->handler(r, &call, result, row->arg);
    }
    Py_DECREF(items);
    return given;
}

/* What goes through an array and gives a number or something new: a call in the graph, where nothing better is known. */
static DynVal *call_on_array(DynRec *r, const RecCall *c, PyObject *result, const Row *row) {
    if (result == NULL || r->cap == NULL || PyErr_Occurred()) {
        return NULL;
    }
    if (c->npos < 1 || c->args[0].v->kind != DV_ARRAY) {
        return NULL;
    }
    for (uint32_t i = 1; i < c->npos + c->nkw; i++) { /* not key= */
        if (c->args[i].v->kind != DV_SYM) {
            return NULL;
        }
    }
    DynReason why = r->why;
    PyObject *kwnames = c->nkw ? c->kwnames : NULL;
    DynVal *v = dyn_np_extern_made(r, c->callable.real, row->path, c->args, (int)c->npos, kwnames, result);
    r->why = v == NULL ? why : DYN_R_OK;
    return v;
}

/* Does the callable go through its first argument, rather than compare it with the others? */
static bool goes_through_first(const RecCall *c, const Row *row) {
    return c->npos == 1 || (c->npos > 1 && !(row->flags & REC_ALONE));
}

static DynVal *call_row(DynRec *r, const RecCall *c, PyObject **result, const Row *row) {
    RecCall listed;
    PyObject *list = NULL;
    bool through = goes_through_first(c, row);
    if ((row->flags & REC_TAKES_ALL) && through && rec_is_iterator(c->args[0].v)) {
        return call_on_all(r, c, result, row);
    }
    bool other = (row->flags & REC_LISTS) && through && rec_listed_call(r, c, &listed, &list);
    DynVal *v = row->handler(r, other ? &listed : c, result, row->arg);
    Py_XDECREF(list);
    return v == NULL && (row->flags & REC_OF_ARRAY) ? call_on_array(r, c, *result, row) : v;
}

/* Methods are known for the very type that has them: a subclass may see what they do. */
static bool fits_self(const RecCall *c, const Row *row) {
    PyObject *f = c->callable.real;
    if ((row->flags & REC_ANY_SELF) || Py_TYPE(f) != &PyMethodDescr_Type) {
        return true;
    }
    return c->npos > 0 && Py_TYPE(c->args[0].real) == ((PyDescrObject *)f)->d_type;
}

static DynVal *ask(DynRec *r, const RecCall *c, PyObject **result, const Key *key, bool early) {
    DynVal *v = REC_DECLINED;
    for (; key != NULL && v == REC_DECLINED; key = next_key(key)) {
        const Row *row = &rows[key->row];
        if (((row->flags & REC_EARLY) != 0) == early && fits_self(c, row)) {
            v = call_row(r, c, result, row);
        }
    }
    return v;
}

DynVal *rec_call_known(DynRec *r, const RecCall *c, PyObject **result, bool early) {
    return ask(r, c, result, find_callable(c->callable.real), early);
}

DynVal *rec_call_instance(DynRec *r, const RecCall *c, PyObject **result) {
    return ask(r, c, result, find(Py_TYPE(c->callable.real), KEY_TYPE), false);
}

DynVal *rec_on_nobody(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    (void)r, (void)c, (void)result, (void)arg;
    return REC_DECLINED;
}
