/* hit_eager.c: the back end "eager": a hit runs the graph node by node, through NumPy, in place of an artifact.
 *
 * Called by hit.c. A floating-point warning names the line of the code that it comes from; here that is dynoc's. So where nothing
 * that can be seen was written, a warning that is due ends the run, and the call is made again in CPython. */
#include "evalframe/door.h"
#include "codegen/flags.h"

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
    PyObject *strict = values == NULL || writes ? NULL : dyn_flags_strict();
    DynRunStatus status = DYN_RUN_ERROR;
    if (values == NULL) {
        PyErr_NoMemory();
    } else {
        status = run_nodes(g, run, values);
    }
    dyn_flags_lenient(strict);
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
