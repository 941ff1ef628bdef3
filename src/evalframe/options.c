/* options.c: the settings that optimize() and enable() were called with, as C reads them.
 *
 * Made by module.c from the dict that the Python face checked; shared by the caches of a function; freed with the last of them.
 * Texts in them live as long as the process, because the compile thread may still read them. */
#include "evalframe/door.h"

enum {
#define BOOLEAN(name, dflt, what) GIVEN_##name,
#define INTEGER(name, dflt, low, high, what) GIVEN_##name,
#define TEXT(name, dflt, what) GIVEN_##name,
#include "dynoc/settings.def"
};

static int read_bool(PyObject *value, bool *out) {
    int truth = PyObject_IsTrue(value);
    *out = truth > 0;
    return truth < 0 ? -1 : 0;
}

static int read_int(PyObject *value, int64_t *out) {
    *out = PyLong_AsLongLong(value);
    return *out == -1 && PyErr_Occurred() ? -1 : 0;
}

static int read_text(PyObject *value, char **out) {
    const char *text = PyUnicode_AsUTF8(value);
    if (text == NULL) {
        return -1;
    }
    size_t n = strlen(text) + 1;
    char *copy = PyMem_RawMalloc(n);
    if (copy == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *out = memcpy(copy, text, n);
    return 0;
}

/* One setting of `options`; KeyError for an unknown name. */
static int read_setting(DynOptions *o, PyObject *name, PyObject *value) {
#define SETTING(field, read)                                   \
    if (PyUnicode_CompareWithASCIIString(name, #field) == 0) { \
        o->given |= UINT64_C(1) << GIVEN_##field;              \
        return read(value, &o->config.field);                  \
    }
#define BOOLEAN(field, dflt, what) SETTING(field, read_bool)
#define INTEGER(field, dflt, low, high, what) SETTING(field, read_int)
#define TEXT(field, dflt, what) SETTING(field, read_text)
#include "dynoc/settings.def"
#undef SETTING
    PyErr_Format(PyExc_KeyError, "there is no setting %R", name);
    return -1;
}

static int read_settings(DynOptions *o, PyObject *dict) {
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (PyDict_Next(dict, &position, &name, &value)) {
        if (!PyUnicode_Check(name)) {
            PyErr_Format(PyExc_TypeError, "names of settings are strings, not %R", name);
            return -1;
        }
        if (read_setting(o, name, value) < 0) {
            return -1;
        }
    }
    return 0;
}

static int read_flag(PyObject *dict, const char *name, bool *out) {
    PyObject *value = PyDict_GetItemString(dict, name);
    return value == NULL ? 0 : read_bool(value, out);
}

static int read_all(DynOptions *o, PyObject *dict) {
    PyObject *backend = PyDict_GetItemString(dict, "backend"), *wait = PyDict_GetItemString(dict, "wait");
    PyObject *settings = PyDict_GetItemString(dict, "options"), *mode = PyDict_GetItemString(dict, "mode");
    if (backend != NULL && PyUnicode_Check(backend)) {
        o->eager = PyUnicode_CompareWithASCIIString(backend, "eager") == 0;
        o->hands_on = !o->eager && PyUnicode_CompareWithASCIIString(backend, "dynoc") != 0;
    } else {
        o->hands_on = backend != NULL;
    }
    if (mode != NULL && PyUnicode_Check(mode)) {
        o->tune = PyUnicode_CompareWithASCIIString(mode, "max-autotune") == 0;
        o->replay = PyUnicode_CompareWithASCIIString(mode, "reduce-overhead") == 0;
    }
    if (wait != NULL && wait != Py_None) {
        o->wait = PyObject_IsTrue(wait);
        if (o->wait < 0) {
            return -1;
        }
    }
    if (read_flag(dict, "fullgraph", &o->fullgraph) < 0 || read_flag(dict, "dynamic", &o->dynamic) < 0 ||
        read_flag(dict, "exact", &o->exact) < 0) {
        return -1;
    }
    if (settings == NULL || settings == Py_None) {
        return 0;
    }
    if (!PyDict_Check(settings)) {
        PyErr_SetString(PyExc_TypeError, "options has to be a dict");
        return -1;
    }
    return read_settings(o, settings);
}

DynOptions *dyn_options_new(PyObject *dict) {
    DynOptions *o = PyMem_RawCalloc(1, sizeof *o);
    if (o == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    o->refs = 1;
    o->wait = -1;
    o->dynamic = true;
    o->dict = PyDict_Copy(dict);
    if (o->dict == NULL || read_all(o, o->dict) < 0) {
        dyn_options_decref(o);
        return NULL;
    }
    return o;
}

void dyn_options_incref(DynOptions *o) { o->refs++; }

void dyn_options_decref(DynOptions *o) {
    if (--o->refs == 0) {
        Py_XDECREF(o->dict);
        PyMem_RawFree(o);
    }
}

DynConfig dyn_options_config(const DynOptions *o) {
    DynConfig c = dyn_config;
#define TAKE(field)                                \
    if (o->given & UINT64_C(1) << GIVEN_##field) { \
        c.field = o->config.field;                 \
    }
#define BOOLEAN(field, dflt, what) TAKE(field)
#define INTEGER(field, dflt, low, high, what) TAKE(field)
#define TEXT(field, dflt, what) TAKE(field)
#include "dynoc/settings.def"
#undef TAKE
    if (o->wait >= 0) {
        c.wait = o->wait != 0;
    }
    return c;
}

/* Loops ask at each call, which needs no copy of all settings where this one was given. */
bool dyn_options_wait(const DynOptions *o) { return o->wait >= 0 ? o->wait != 0 : dyn_options_config(o).wait; }
