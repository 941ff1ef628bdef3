/* cpy_methods.c: call sites of methods. CPython keeps at such a site what the class has by that name, together with the class's
 * version, which changes whenever one of its attributes does. So what is kept may be replaced by something that stands for it:
 * the site itself asks, at no cost, whether the class still has the former.
 *
 * Called by evalframe/sites.c, with the GIL. Owns nothing: what is put there has to live for as long as what it stands for. */
#include "base/cpy_internal.h"
#include <opcode.h>

#if DYN_PY == 311
#define LOADS LOAD_METHOD
static bool keeps_method(uint8_t op) {
    return op == LOAD_METHOD_WITH_VALUES || op == LOAD_METHOD_NO_DICT || op == LOAD_METHOD_WITH_DICT;
}
#elif DYN_PY <= 314
#define LOADS LOAD_ATTR
static bool keeps_method(uint8_t op) {
    return op == LOAD_ATTR_METHOD_WITH_VALUES || op == LOAD_ATTR_METHOD_NO_DICT || op == LOAD_ATTR_METHOD_LAZY_DICT;
}
#endif

#if DYN_PY <= 314
/* The same at one site, whose instruction keeps a method. */
static bool replace_kept(uint8_t *unit, PyObject *method, PyObject *by) {
    _PyLoadMethodCache *kept = (_PyLoadMethodCache *)(unit + 2);
    bool same = memcmp(kept->descr, &method, sizeof method) == 0;
    if (same) {
        memcpy(kept->descr, &by, sizeof by);
    }
    return same;
}

uint32_t dyn_code_replace_method(PyCodeObject *code, PyObject *method, PyObject *by) {
    PyObject *bytes = dyn_cpy_may_patch() ? dyn_cpy_code_bytes(code) : NULL;
    uint32_t n = 0;
    for (Py_ssize_t at = 0; bytes != NULL && at < PyBytes_GET_SIZE(bytes); at += 2) {
        uint8_t *unit = (uint8_t *)_PyCode_CODE(code) + at;
        bool loads = (uint8_t)PyBytes_AS_STRING(bytes)[at] == LOADS && keeps_method(unit[0]);
        n += loads && replace_kept(unit, method, by);
    }
    PyErr_Clear();
    Py_XDECREF(bytes);
    return n;
}
#else
uint32_t dyn_code_replace_method(PyCodeObject *code, PyObject *method, PyObject *by) { return 0; }
#endif
