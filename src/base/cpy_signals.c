/* cpy_signals.c: the thread in which CPython runs handlers of signals, and for how long none runs there.
 *
 * Called with the GIL by whoever runs Python code of dynoc's own (imports, logs, ticks) and by native loops, which look for
 * signals themselves. Owns nothing; what CPython's record of its main thread says is changed and put back. */
#include "base/cpy_internal.h"

static unsigned holds;            /* in the main thread; that many */
static unsigned long main_thread; /* CPython's own, while there are some */

bool dyn_cpy_is_main_thread(void) { return PyThread_get_thread_ident() == (holds > 0 ? main_thread : _PyRuntime.main_thread); }

void dyn_cpy_notice_signals(void) {
#if DYN_PY < 313
    if (DYN_UNLIKELY(_Py_atomic_load_relaxed(&_PyRuntime.ceval.signals_pending)) && dyn_cpy_is_main_thread()) {
        _Py_atomic_store_relaxed(&PyInterpreterState_Get()->ceval.eval_breaker, 1);
    }
#endif
}

/* CPython runs handlers in the main thread alone: for the moment there is none. */
void dyn_cpy_hold_signals(void) {
    if (dyn_cpy_is_main_thread() && holds++ == 0) {
        main_thread = _PyRuntime.main_thread;
        _PyRuntime.main_thread = 0;
    }
}

void dyn_cpy_release_signals(void) {
    if (!dyn_cpy_is_main_thread() || --holds > 0) {
        return;
    }
    _PyRuntime.main_thread = main_thread;
    dyn_cpy_notice_signals();
#if DYN_PY >= 313
    if (_Py_atomic_load_int_relaxed(&_PyRuntime.signals.is_tripped)) {
        _Py_set_eval_breaker_bit(PyThreadState_Get(), _PY_SIGNALS_PENDING_BIT);
    }
#endif
}

static const char *refused;

void dyn_import_refuse(const char *package) { refused = package; }

static bool is_refused(const char *module) {
    size_t n = refused == NULL ? 0 : strlen(refused);
    return n > 0 && strncmp(module, refused, n) == 0 && (module[n] == '\0' || module[n] == '.');
}

PyObject *dyn_import(const char *module) {
    if (is_refused(module)) {
        PyErr_Format(PyExc_ImportError, "dynoc: the program hasn't imported %s, so %s isn't used", refused, module);
        return NULL;
    }
    dyn_cpy_hold_signals();
    PyObject *imported = PyImport_ImportModule(module);
    dyn_cpy_release_signals();
    return imported;
}
