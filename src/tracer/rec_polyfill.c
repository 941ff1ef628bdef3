/* rec_polyfill.c: finds what stands in dynoc.polyfills. A module of it is imported when the first of its functions is wanted, by a
 * recording: a program that doesn't need it never loads it.
 *
 * Called by the handlers of calls and by recipes. The functions are kept for ever. */
#include "tracer/rec_state.h"

PyObject *rec_polyfill(const char *module, const char *name) {
    char path[64];
    PyObject *type, *value, *tb, *found = NULL;
    PyErr_Fetch(&type, &value, &tb);
    int n = snprintf(path, sizeof path, "dynoc.polyfills.%s", module);
    PyObject *m = n > 0 && n < (int)sizeof path ? PyImport_ImportModule(path) : NULL;
    found = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(found); /* the module has it */
    PyErr_Restore(type, value, tb);
    return found;
}
