/* hit_eager.c: the back end "eager": a hit runs the graph node by node, through NumPy, in place of an artifact.
 *
 * Called by hit.c. A floating-point warning names the line of the code that it comes from; here that is dynoc's. So where nothing
 * that can be seen was written, a warning that is due ends the run, and the call is made again in CPython. */
#include "evalframe/door.h"

/* Put NumPy's handling of floating-point errors to "raise" where it would say something. New reference to what it was (a dict for
 * seterr), or NULL with no exception where it is as it should be, or can't be changed. */
static PyObject *raise_for_warnings(PyObject *numpy) {
    PyObject *old = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "geterr", NULL),
             *wanted = old == NULL ? NULL : PyDict_New();
    PyObject *key, *how, *seterr = NULL, *none = NULL;
    Py_ssize_t at = 0;
    while (wanted != NULL && PyDict_Next(old, &at, &key, &how)) {
        if (PyUnicode_CompareWithASCIIString(how, "ignore") != 0) {
            PyObject *raise = PyUnicode_FromString("raise");
            int done = raise == NULL ? -1 : PyDict_SetItem(wanted, key, raise);
            Py_XDECREF(raise);
            if (done < 0) {
                Py_CLEAR(wanted);
            }
        }
    }
    if (wanted != NULL && PyDict_GET_SIZE(wanted) > 0) {
        seterr = PyObject_GetAttrString(numpy, "seterr");
        none = PyTuple_New(0);
    }
    PyObject *done = seterr == NULL || none == NULL ? NULL : PyObject_Call(seterr, none, wanted);
    PyErr_Clear();
    Py_XDECREF(wanted);
    Py_XDECREF(seterr);
    Py_XDECREF(none);
    if (done == NULL) {
        Py_CLEAR(old);
    }
    Py_XDECREF(done);
    return old;
}

static void put_back(PyObject *numpy, PyObject *old) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *seterr = PyObject_GetAttrString(numpy, "seterr"), *none = PyTuple_New(0);
    PyObject *done = seterr == NULL || none == NULL ? NULL : PyObject_Call(seterr, none, old);
    Py_XDECREF(done);
    Py_XDECREF(seterr);
    Py_XDECREF(none);
    Py_DECREF(old);
    PyErr_Restore(type, value, tb);
}

static DynRunStatus run_nodes(const DynGraph *g, DynRun *run, PyObject **values) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        values[i] = dyn_interp_node(g, run, values, i);
        if (values[i] == NULL) {
            return DYN_RUN_ERROR;
        }
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        run->outputs[i] = Py_NewRef(values[g->outputs.at[i]]);
    }
    return DYN_RUN_OK;
}

DynRunStatus dyn_hit_eager(const DynGraph *g, DynRun *run, bool writes) {
    PyObject **values = PyMem_Calloc(g->nodes.n + 1, sizeof *values);
    PyObject *numpy = values == NULL || writes ? NULL : PyImport_ImportModule("numpy"), *old = raise_for_warnings(numpy);
    DynRunStatus status = DYN_RUN_ERROR;
    if (values == NULL) {
        PyErr_NoMemory();
    } else {
        status = run_nodes(g, run, values);
    }
    if (old != NULL) {
        put_back(numpy, old);
    }
    Py_XDECREF(numpy);
    for (uint32_t i = 0; values != NULL && i < g->nodes.n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    if (status == DYN_RUN_ERROR && !writes) { /* eager makes the call, and its exception */
        PyErr_Clear();
        return DYN_RUN_AGAIN;
    }
    return status;
}
