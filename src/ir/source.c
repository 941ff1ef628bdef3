/* source.c: the table of sources (interning, printing) and how people see an object in logs.
 *
 * The recorder makes sources, a capture owns the table, guards read it. Rows hold strong references to obj and key. */
#include "ir/source.h"

PyTypeObject *dyn_deque_type;
enum { MAX_REPR = 120, MAX_MODULES = 4 };

const DynSourceRow dyn_source_rows[DYN_SRC_COUNT] = {
#define ROOT false
#define BASED true
#define PLAIN false
#define KEYED true
#define SOURCE(kind, base, key, cost, absence) [DYN_SRC_##kind] = {#kind, base, key, cost, DYN_ABSENCE_##absence},
#include "ir/sources.def"
#undef SOURCE
#undef ROOT
#undef BASED
#undef PLAIN
#undef KEYED
};

/* ---- interning */

static bool is_plain_constant(PyObject *o) { return PyUnicode_CheckExact(o) || PyLong_CheckExact(o) || PyBytes_CheckExact(o); }

/* Keys are the same when they are one object, or equal constants of one plain type. */
static bool same_key(PyObject *a, PyObject *b) {
    if (a == b) {
        return true;
    }
    bool alike = a != NULL && b != NULL && Py_TYPE(a) == Py_TYPE(b);
    if (!alike || !is_plain_constant(a)) {
        return false;
    }
    int r = PyObject_RichCompareBool(a, b, Py_EQ);
    if (r < 0) {
        PyErr_Clear();
    }
    return r == 1;
}

/* For LOCAL and CLOSURE obj is a name, which the index says already. */
static bool obj_is_name(DynSourceKind kind) {
    switch (kind) {
    case DYN_SRC_LOCAL:
    case DYN_SRC_CLOSURE:
    case DYN_SRC_OWNCELL:
    case DYN_SRC_FUNCTION:
    case DYN_SRC_HANDLED: return true;
    default: return false;
    }
}

static bool same_source(const DynSource *a, const DynSource *b) {
    if (a->kind != b->kind || a->base != b->base || a->index != b->index) {
        return false;
    }
    return (obj_is_name(a->kind) || a->obj == b->obj) && same_key(a->key, b->key);
}

static uint64_t hash_key(const DynSource *s) {
    if (s->key == NULL) {
        return 0;
    }
    return is_plain_constant(s->key) ? (uint64_t)s->hash : (uint64_t)(uintptr_t)s->key;
}

uint64_t dyn_words_hash(const uint64_t *words, size_t n) {
    uint64_t h = 0;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ words[i]) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 32;
    }
    return h;
}

/* Rows that are the same have the same hash; no Python code runs. */
static uint64_t hash_source(const DynSource *s) {
    uint64_t words[4] = {(uint64_t)s->kind | (uint64_t)s->index << 32, s->base,
                         obj_is_name(s->kind) ? 0 : (uint64_t)(uintptr_t)s->obj, hash_key(s)};
    return dyn_words_hash(words, DYN_COUNTOF(words));
}

#define FEW 16 /* rows are looked at one by one */

static bool is_source(const void *t, uint32_t id, const void *s) { return same_source(&((const DynSources *)t)->v.at[id], s); }

static uint32_t *find_slot(const DynSources *t, const DynSource *s) {
    return dyn_index_slot(&t->index, (uint32_t)hash_source(s), is_source, t, s);
}

static int grow_index(DynSources *t) {
    if (dyn_index_empty(&t->index, t->index.n == 0 ? 4 * FEW : t->index.n * 2) < 0) {
        return -1;
    }
    for (uint32_t id = 0; id < t->v.n; id++) {
        *find_slot(t, &t->v.at[id]) = id;
    }
    return 0;
}

static uint32_t find(const DynSources *t, const DynSource *s) {
    if (t->index.n > 0) {
        return *find_slot(t, s);
    }
    for (uint32_t id = t->v.n; id-- > 0;) {
        if (same_source(&t->v.at[id], s)) {
            return id;
        }
    }
    return DYN_NONE;
}

uint32_t dyn_source_intern(DynSources *t, DynSourceKind kind, uint32_t base, uint32_t index, PyObject *obj, PyObject *key) {
    DynSource s = {.kind = kind, .base = base, .index = index, .obj = obj, .key = key};
    if (key != NULL && is_plain_constant(key)) {
        s.hash = PyObject_Hash(key);
    }
    if (t->v.n >= FEW && (t->v.n + 1) * 2 > t->index.n && grow_index(t) < 0) {
        return DYN_NONE;
    }
    uint32_t id = find(t, &s);
    if (id != DYN_NONE) {
        return id;
    }
    if (key != NULL && !is_plain_constant(key) && (s.hash = PyObject_Hash(key)) == -1) {
        PyErr_Clear();
        return DYN_NONE;
    }
    if (dyn_vec_push(&t->v, s) < 0) {
        return DYN_NONE;
    }
    Py_XINCREF(obj);
    Py_XINCREF(key);
    if (t->index.n > 0) {
        *find_slot(t, &s) = t->v.n - 1;
    }
    return t->v.n - 1;
}

void dyn_sources_free(DynSources *t) {
    for (uint32_t id = 0; id < t->v.n; id++) {
        Py_XDECREF(t->v.at[id].obj);
        Py_XDECREF(t->v.at[id].key);
    }
    dyn_vec_free(&t->v);
    dyn_vec_free(&t->index);
}

/* ---- printing */

static void print_text(PyObject *str, DynStr *out) {
    const char *text = str == NULL || !PyUnicode_Check(str) ? NULL : PyUnicode_AsUTF8(str);
    if (text == NULL) {
        PyErr_Clear();
    }
    dyn_str_puts(out, text == NULL ? "?" : text);
}

static void print_tuple(PyObject *o, DynStr *out) {
    Py_ssize_t n = PyTuple_GET_SIZE(o);
    dyn_str_putc(out, '(');
    for (Py_ssize_t i = 0; i < n && i < 8; i++) {
        if (i > 0) {
            dyn_str_puts(out, ", ");
        }
        dyn_object_print(PyTuple_GET_ITEM(o, i), out);
    }
    if (n > 8) {
        dyn_str_puts(out, ", ...");
    } else if (n == 1) {
        dyn_str_putc(out, ',');
    }
    dyn_str_putc(out, ')');
}

/* A function by the name that the program calls it; false: it has none that is plain. */
static bool print_function(PyObject *o, DynStr *out) {
    if (PyFunction_Check(o)) {
        print_text(((PyFunctionObject *)o)->func_qualname, out);
        return true;
    }
    const PyCFunctionObject *f = PyCFunction_Check(o) ? (PyCFunctionObject *)o : NULL;
    if (f == NULL || f->m_module == NULL || !PyUnicode_CheckExact(f->m_module)) {
        return false; /* a method of an object */
    }
    if (PyUnicode_CompareWithASCIIString(f->m_module, "builtins") != 0) {
        print_text(f->m_module, out);
        dyn_str_putc(out, '.');
    }
    dyn_str_puts(out, f->m_ml->ml_name);
    return true;
}

static bool has_tame_repr(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    const PyTypeObject *const tame[] = {&PyFloat_Type,    &PyLong_Type,     &PyBool_Type,    &PyUnicode_Type,  &PyBytes_Type,
                                        Py_TYPE(Py_None), &PyEllipsis_Type, &PyComplex_Type, &PyCFunction_Type};
    for (size_t i = 0; i < DYN_COUNTOF(tame); i++) {
        if (t == tame[i]) {
            return true;
        }
    }

    return strcmp(t->tp_name, "numpy.ufunc") == 0 || strcmp(t->tp_name, "torch.dtype") == 0; /* theirs are C and short */
}

void dyn_object_print(PyObject *o, DynStr *out) {
    if (o == NULL) {
        dyn_str_puts(out, "missing");
        return;
    }
    if (PyTuple_CheckExact(o)) {
        print_tuple(o, out);
        return;
    }
    if (PyType_Check(o)) {
        const char *name = ((PyTypeObject *)o)->tp_name, *dot = strrchr(name, '.');
        dyn_str_puts(out, dot == NULL ? name : dot + 1);
        return;
    }
    if (print_function(o, out)) {
        return;
    }
    if (!has_tame_repr(o)) {
        const char *name = PyModule_Check(o) ? PyModule_GetName(o) : NULL;
        if (name != NULL) {
            dyn_str_printf(out, "<module '%s'>", name);
        } else {
            dyn_str_printf(out, "<%s object>", Py_TYPE(o)->tp_name);
        }
        PyErr_Clear();
        return;
    }
    PyObject *text = PyObject_Repr(o);
    const char *utf8 = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    if (utf8 == NULL) {
        dyn_str_printf(out, "<%s object>", Py_TYPE(o)->tp_name);
    } else if (strlen(utf8) <= MAX_REPR) {
        dyn_str_puts(out, utf8);
    } else {
        dyn_str_printf(out, "<%s of length %zu>", Py_TYPE(o)->tp_name, strlen(utf8));
    }
    PyErr_Clear();
    Py_XDECREF(text);
}

/* The source, if there is one, that gives the module whose dict this is: np for numpy's. */
static uint32_t module_of(const DynSources *t, PyObject *dict) {
    for (uint32_t id = 0; id < t->v.n; id++) {
        const DynSource *s = &t->v.at[id];
        PyObject *o = s->kind == DYN_SRC_DICT && s->obj != dict ? PyDict_GetItemWithError(s->obj, s->key) : NULL;
        if (o != NULL && PyModule_Check(o) && PyModule_GetDict(o) == dict) {
            return id;
        }
    }
    PyErr_Clear();
    return DYN_NONE;
}

/* A key of the globals by its name alone, a key of a module's dict as the attribute of what the program calls the module. */
static void print_key(const DynSources *t, const DynSource *s, int depth, DynStr *out) {
    uint32_t module = depth < MAX_MODULES ? module_of(t, s->obj) : DYN_NONE;
    if (module != DYN_NONE) {
        print_key(t, &t->v.at[module], depth + 1, out);
        dyn_str_putc(out, '.');
    }
    print_text(s->key, out);
}

/* The member `key` as it is written behind an object: .name, or [number] of a numbered one. */
static void print_member(PyObject *key, DynStr *out) {
    const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : NULL;
    bool numbered = text != NULL && text[0] != 0 && strspn(text, "0123456789") == strlen(text);
    dyn_str_printf(out, numbered ? "[%s]" : ".%s", text == NULL ? "?" : text);
    PyErr_Clear();
}

/* The module of PyTorch's in whose registry the item is: programs write it as the module's attribute. DYN_NONE: it is in none. */
static uint32_t registry_owner(const DynSources *t, const DynSource *s) {
    static const char *const names[] = {"_modules", "_parameters", "_buffers"};
    const DynSource *registry = s->kind == DYN_SRC_KEY ? &t->v.at[s->base] : NULL;
    bool attribute = registry != NULL && (registry->kind == DYN_SRC_OWN || registry->kind == DYN_SRC_ATTR);
    for (size_t i = 0; attribute && PyUnicode_Check(registry->key) && i < DYN_COUNTOF(names); i++) {
        if (PyUnicode_CompareWithASCIIString(registry->key, names[i]) == 0) {
            return registry->base;
        }
    }
    return DYN_NONE;
}

void dyn_source_print(const DynSources *t, uint32_t id, DynStr *out) {
    const DynSource *s = &t->v.at[id];
    uint32_t owner = registry_owner(t, s);
    if (owner != DYN_NONE) {
        dyn_source_print(t, owner, out);
        print_member(s->key, out);
        return;
    }
    dyn_str_puts(out, s->kind == DYN_SRC_NTH_KEY || s->kind == DYN_SRC_NTH_VALUE ? "list(" : "");
    if (s->base != DYN_NONE) {
        dyn_source_print(t, s->base, out);
    }
    switch ((DynSourceKind)s->kind) {
    case DYN_SRC_LOCAL:
    case DYN_SRC_CLOSURE: print_text(s->obj, out); break;
    case DYN_SRC_OWNCELL:
        dyn_str_puts(out, "<cell ");
        print_text(s->obj, out);
        dyn_str_putc(out, '>');
        break;
    case DYN_SRC_FUNCTION: dyn_str_puts(out, "<function>"); break;
    case DYN_SRC_HANDLED: dyn_str_puts(out, "<handled exception>"); break;
    case DYN_SRC_CONST: dyn_object_print(s->obj, out); break;
    case DYN_SRC_DICT: print_key(t, s, 0, out); break;
    case DYN_SRC_CELL: dyn_str_puts(out, ".cell_contents"); break;
    case DYN_SRC_ATTR:
    case DYN_SRC_OWN:
        dyn_str_putc(out, '.');
        print_text(s->key, out);
        break;
    case DYN_SRC_ITEM: dyn_str_printf(out, "[%u]", (unsigned)s->index); break;
    case DYN_SRC_FROM_END: dyn_str_printf(out, "[-%u]", (unsigned)s->index); break;
    case DYN_SRC_KEY:
        dyn_str_putc(out, '[');
        dyn_object_print(s->key, out);
        dyn_str_putc(out, ']');
        break;
    case DYN_SRC_NAMED:
        dyn_str_putc(out, '[');
        dyn_source_print(t, s->index, out);
        dyn_str_putc(out, ']');
        break;
    case DYN_SRC_NTH_KEY: dyn_str_printf(out, ")[%u]", (unsigned)s->index); break;
    case DYN_SRC_NTH_VALUE: dyn_str_printf(out, ".values())[%u]", (unsigned)s->index); break;
    case DYN_SRC_FCLOSURE: dyn_str_printf(out, ".__closure__[%u].cell_contents", (unsigned)s->index); break;
    case DYN_SRC_FCELL: dyn_str_printf(out, ".__closure__[%u]", (unsigned)s->index); break;
    case DYN_SRC_FDEFAULT: dyn_str_printf(out, ".__defaults__[%u]", (unsigned)s->index); break;
    case DYN_SRC_FKWDEFAULT:
        dyn_str_puts(out, ".__kwdefaults__[");
        dyn_object_print(s->key, out);
        dyn_str_putc(out, ']');
        break;
    case DYN_SRC_SELF: dyn_str_puts(out, ".__self__"); break;
    case DYN_SRC_FUNC: dyn_str_puts(out, ".__func__"); break;
    }
}
