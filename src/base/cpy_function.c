/* cpy_function.c: CPython's functions and code objects as the finder needs them: a function's own way of being called (its door),
 * notice of new functions, and a word that is kept on a code object.
 *
 * Called by evalframe/finder.c, by native loops, and by whoever calls a function that may have a door. Owns one co_extra index
 * and one function watcher of the process; what is kept on a code object is a number and dies with it. */
#include "base/cpy_internal.h"
#include "base/cpy_region.h"

/* ---- doors ----
 * CPython 3.11 calls Python functions from Python code without asking their vectorcall, so a door there would be passed by. */

bool dyn_func_has_doors(void) { return DYN_PY >= 312; }

static vectorcallfunc own_vectorcall; /* CPython's, of every function that nobody has changed */

/* Taken from a new function: 3.13 doesn't export it. */
static int learn_own_vectorcall(void) {
    PyObject *globals = PyDict_New();
    PyObject *code = (PyObject *)PyCode_NewEmpty("dynoc", "f", 1);
    PyObject *f = globals == NULL || code == NULL ? NULL : PyFunction_New(code, globals);
    own_vectorcall = f == NULL ? NULL : ((PyFunctionObject *)f)->vectorcall;
    Py_XDECREF(f);
    Py_XDECREF(code);
    Py_XDECREF(globals);
    return own_vectorcall == NULL ? -1 : 0;
}

bool dyn_func_has_door(PyObject *func, vectorcallfunc door) { return ((PyFunctionObject *)func)->vectorcall == door; }

bool dyn_func_set_door(PyObject *func, vectorcallfunc door) {
#if DYN_PY >= 312
    if (((PyFunctionObject *)func)->vectorcall != own_vectorcall) {
        return false;
    }
    PyFunction_SetVectorcall((PyFunctionObject *)func, door);
    return true;
#else
    return false;
#endif
}

void dyn_func_take_door(PyObject *func, vectorcallfunc door, uint32_t version) {
#if DYN_PY >= 312
    if (((PyFunctionObject *)func)->vectorcall == door) {
        PyFunction_SetVectorcall((PyFunctionObject *)func, own_vectorcall);
        dyn_func_give_version(func, version);
    }
#endif
}

PyObject *dyn_func_call(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames) {
    PyFunctionObject *f = (PyFunctionObject *)func;
    if (DYN_LIKELY(f->vectorcall == own_vectorcall || DYN_PY < 312)) {
        return f->vectorcall(func, args, nargsf, kwnames);
    }
    PyThreadState *ts = PyThreadState_Get();
    int lent = dyn_cpy_lend_stack(ts);
    PyObject *result = own_vectorcall(func, args, nargsf, kwnames);
    dyn_cpy_return_stack(ts, lent);
    return result;
}

void dyn_func_set_annotations(PyObject *func, PyObject *annotations) {
    PyFunctionObject *f = (PyFunctionObject *)func;
#if DYN_PY >= 314
    if (annotations != NULL && PyFunction_Check(annotations)) {
        Py_XSETREF(f->func_annotate, Py_NewRef(annotations));
        return;
    }
#endif
    Py_XSETREF(f->func_annotations, Py_XNewRef(annotations));
}

/* ---- new functions ---- */

#if DYN_PY >= 312
static void (*told)(PyObject *func);
static int watcher = -1;

static int on_event(PyFunction_WatchEvent event, PyFunctionObject *func, PyObject *value) {
    if (event == PyFunction_EVENT_CREATE && told) {
        told((PyObject *)func);
    }
    return 0;
}
#endif

bool dyn_func_watch(void (*made)(PyObject *func)) {
#if DYN_PY >= 312
    told = made;
    if (made && watcher < 0) {
        watcher = PyFunction_AddWatcher(on_event);
        if (watcher < 0) {
            PyErr_Clear();
        }
    } else if (!made && watcher >= 0) {
        if (PyFunction_ClearWatcher(watcher) < 0) {
            PyErr_Clear();
        }
        watcher = -1;
    }
    return watcher >= 0;
#else
    return false;
#endif
}

/* Functions that MAKE_FUNCTION makes get their code's version, and call sites that have seen the version pass doors by. Without
 * a version they ask. */
uint32_t dyn_code_swap_version(PyCodeObject *code, uint32_t version) {
#if DYN_PY >= 312
    uint32_t before = code->co_version;
    code->co_version = version;
    return before;
#else
    return version;
#endif
}

/* From 3.13 on a function that PyFunction_New made, or whose way of being called was changed, has no version for good, and sites
 * that call it aren't specialised. What they take from the version is which code it has. */
void dyn_func_give_version(PyObject *func, uint32_t version) {
#if DYN_PY >= 313
    uint32_t own = ((PyCodeObject *)PyFunction_GET_CODE(func))->co_version;
    ((PyFunctionObject *)func)->func_version = own != 0 ? own : version;
#endif
}

/* ---- a word on a code object ---- */

#if DYN_PY < 312 /* the names that they have from 3.12 on */
#define PyUnstable_Code_GetExtra _PyCode_GetExtra
#define PyUnstable_Code_SetExtra _PyCode_SetExtra
#endif

static Py_ssize_t word_index = -1;

uintptr_t dyn_code_word(PyCodeObject *code) {
    void *word = NULL;
    if (PyUnstable_Code_GetExtra((PyObject *)code, word_index, &word) < 0) {
        PyErr_Clear();
    }
    return (uintptr_t)word;
}

void dyn_code_set_word(PyCodeObject *code, uintptr_t word) {
    if (PyUnstable_Code_SetExtra((PyObject *)code, word_index, (void *)word) < 0) {
        PyErr_Clear();
    }
}

size_t dyn_code_bytes(const PyCodeObject *code) {
    Py_ssize_t items =
        PyTuple_GET_SIZE(code->co_consts) + PyTuple_GET_SIZE(code->co_names) + PyTuple_GET_SIZE(code->co_localsplusnames);
    Py_ssize_t tables = PyBytes_GET_SIZE(code->co_linetable) + PyBytes_GET_SIZE(code->co_exceptiontable);
    return (size_t)(PyCode_Type.tp_basicsize + Py_SIZE(code) * PyCode_Type.tp_itemsize + tables) +
           (size_t)items * sizeof(PyObject *);
}

int dyn_cpy_function_init(void) {
    word_index = _PyEval_RequestCodeExtraIndex(NULL);
    return word_index < 0 ? -1 : learn_own_vectorcall();
}

/* ---- functions that one `def` makes ---- */

PyObject *dyn_cpy_function_facts(PyObject *function) {
    PyFunctionObject *f = (PyFunctionObject *)function;
    PyObject *defaults = f->func_defaults == NULL ? Py_None : f->func_defaults;
    return PyTuple_Pack(4, f->func_code, f->func_globals, f->func_builtins, defaults);
}

static bool are_the_same(PyObject *defaults, PyObject *then) {
    if (defaults == NULL || then == Py_None) {
        return defaults == NULL && then == Py_None;
    }
    bool same = PyTuple_GET_SIZE(defaults) == PyTuple_GET_SIZE(then);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(then); i++) {
        same = PyTuple_GET_ITEM(defaults, i) == PyTuple_GET_ITEM(then, i);
    }
    return same;
}

bool dyn_cpy_function_is(PyObject *o, PyObject *facts) {
    if (!PyFunction_Check(o)) {
        return false;
    }
    PyFunctionObject *f = (PyFunctionObject *)o;
    bool same = f->func_code == PyTuple_GET_ITEM(facts, 0) && f->func_globals == PyTuple_GET_ITEM(facts, 1) &&
                f->func_builtins == PyTuple_GET_ITEM(facts, 2);
    return same && are_the_same(f->func_defaults, PyTuple_GET_ITEM(facts, 3));
}
