/* region_cython.c: the functions of scipy.special.cython_special: of C without Python, and with addresses that the module hands
 * out (`__pyx_capi__`). Called by region_foreign.c, with the GIL. The module is never imported here.
 *
 * Other modules of Cython hand out addresses too, but their functions may run Python code, raise, and need the GIL; nothing that
 * they say tells. Those of this module do neither, as long as scipy.special.errstate has nothing warned of or raised: what isn't
 * defined is nan. */
#include "base/cpy.h"
#include "ir/region_foreign.h"

#define MODULE "scipy.special.cython_special"

/* New reference, or NULL without an exception. */
static PyObject *attribute(PyObject *o, const char *name) {
    PyObject *found = PyObject_GetAttrString(o, name);
    PyErr_Clear();
    return found;
}

static PyObject *module_dict(void) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), MODULE);
    return module != NULL && PyModule_Check(module) ? PyModule_GetDict(module) : NULL;
}

static bool is_of_cython(PyObject *o) {
    return (Py_TYPE(o)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && strstr(Py_TYPE(o)->tp_name, "cython_function") != NULL;
}

/* Is it the module's own attribute of the name that it has? */
bool dyn_foreign_is_special(PyObject *o) {
    PyObject *dict = is_of_cython(o) ? module_dict() : NULL, *name = dict == NULL ? NULL : attribute(o, "__name__");
    bool own = name != NULL && PyUnicode_CheckExact(name) && PyDict_GetItemWithError(dict, name) == o;
    PyErr_Clear();
    Py_XDECREF(name);
    return own;
}

/* Does scipy.special leave errors alone? But that memory is out, which it raises. */
static bool ignores_errors(void) {
    PyObject *module = PyDict_GetItemString(PyImport_GetModuleDict(), "scipy.special._ufuncs");
    PyObject *geterr = module != NULL && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "geterr") : NULL;
    dyn_cpy_hold_signals();
    PyObject *all = geterr == NULL ? NULL : PyObject_CallNoArgs(geterr), *name, *action;
    dyn_cpy_release_signals();
    Py_ssize_t at = 0;
    bool ignores = all != NULL && PyDict_CheckExact(all);
    while (ignores && PyDict_Next(all, &at, &name, &action)) {
        ignores =
            PyUnicode_CompareWithASCIIString(action, "ignore") == 0 || PyUnicode_CompareWithASCIIString(name, "memory") == 0;
    }
    PyErr_Clear();
    Py_XDECREF(all);
    return ignores;
}

/* The function for doubles of one for several types; of another one itself. New reference. */
static PyObject *for_doubles(PyObject *o, DynForeign *f) {
    PyObject *all = attribute(o, "__signatures__"), *one = NULL;
    f->floats_only = all != NULL;
    if (all == NULL) {
        return Py_NewRef(o);
    }
    if (PyDict_CheckExact(all)) {
        one = Py_XNewRef(PyDict_GetItemString(all, "double"));
    }
    Py_DECREF(all);
    return one;
}

static bool take(const char **at, const char *text) {
    size_t n = strlen(text);
    bool is = strncmp(*at, text, n) == 0;
    *at += is ? n : 0;
    return is;
}

/* "double (double, long, int __pyx_skip_dispatch)" */
static uint32_t signature_of(const char *at) {
    uint32_t signature = DYN_FT_F64;
    if (!take(&at, "double (")) {
        return 0;
    }
    for (uint32_t i = 0; i < DYN_FOREIGN_ARGS; i++) {
        if (take(&at, "int __pyx_skip_dispatch)")) {
            return *at == 0 ? signature | (uint32_t)DYN_FT_I32 << (4 * i + 4) : 0;
        }
        bool integer = take(&at, "long, ") || take(&at, "Py_ssize_t, ");
        DynForeignType type = integer ? DYN_FT_I64 : take(&at, "double, ") ? DYN_FT_F64 : DYN_FT_END;
        if (type == DYN_FT_END) {
            return 0;
        }
        signature |= (uint32_t)type << (4 * i + 4);
    }
    return 0;
}

bool dyn_foreign_of_special(PyObject *o, DynForeign *f) {
    PyObject *dict = module_dict(), *all = dict == NULL ? NULL : PyDict_GetItemString(dict, "__pyx_capi__");
    PyObject *one = for_doubles(o, f), *name = one == NULL ? NULL : attribute(one, "__name__");
    PyObject *capsule = all != NULL && PyDict_CheckExact(all) && name != NULL ? PyDict_GetItemWithError(all, name) : NULL;
    const char *said = capsule != NULL && PyCapsule_CheckExact(capsule) ? PyCapsule_GetName(capsule) : NULL;
    f->signature = said == NULL ? 0 : signature_of(said);
    f->address = f->signature == 0 ? NULL : PyCapsule_GetPointer(capsule, said);
    f->pure = f->skips = f->address != NULL;
    f->why = f->address == NULL  ? "a function of " MODULE " that isn't of doubles and longs alone"
             : !ignores_errors() ? "a function of " MODULE ", while scipy.special.errstate has errors reported"
                                 : NULL;
    PyErr_Clear();
    Py_XDECREF(name);
    Py_XDECREF(one);
    return f->why == NULL;
}
