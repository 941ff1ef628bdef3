/* hit_eager.c: the back end "eager": a hit runs the graph node by node, through NumPy, in place of an artifact.
 *
 * Called by hit.c. A floating-point warning names the line of the code that it comes from; here that is dynoc's. So where nothing
 * that can be seen was written, a warning that is due ends the run, and the call is made again in CPython. Where something was,
 * the graph is left at an extern call that raises, or gives something else than it did when it was recorded, as an artifact is.
 *
 * The recorder has gradients computed here the first time (rec_gradient.c). */
#include "evalframe/door.h"
#include "codegen/run/flags.h"

DynRunStatus dyn_hit_leave(const DynGraph *g, DynRun *run, PyObject **values, DynExternStatus status, uint32_t at) {
    const DynNode *n = dyn_graph_node(g, at);
    const DynExtern *x = &g->externs.at[n->extern_index];
    if (n->snapshot == DYN_NONE || (status == DYN_EXTERN_OTHER && x->once && run->given == NULL)) {
        return DYN_RUN_ERROR;
    }
    run->snapshot = n->snapshot;
    if (status == DYN_EXTERN_ERROR) {
        run->error = dyn_extern_raised(x);
    }
    PyErr_Clear();
    run->values = values;
    if (run->complete(run->owner, run) == 0) {
        return DYN_RUN_LEFT;
    }
    Py_CLEAR(run->error);
    Py_CLEAR(run->given);
    return DYN_RUN_ERROR;
}

static DynRunStatus run_nodes(const DynGraph *g, DynRun *run, bool writes, PyObject **values) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (writes && dyn_node_calls(dyn_graph_node(g, i))) {
            PyObject *given = NULL;
            DynExternStatus status = dyn_interp_extern(g, run, values, i, &given);
            status = dyn_run_opened(run, status, given);
            if (status != DYN_EXTERN_OK) {
                return dyn_hit_leave(g, run, values, status, i);
            }
        } else if (values[i] == NULL && (values[i] = dyn_interp_node(g, run, values, i)) == NULL) {
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
        status = run_nodes(g, run, writes, values);
    }
    dyn_flags_lenient(strict);
    if (status == DYN_RUN_LEFT) { /* who goes on there has them */
        return status;
    }
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

int dyn_hit_evaluate(DynRecording *r, const DynGraph *g, const bool *needed, PyObject **values) {
    DynScalar *sym = PyMem_Malloc(sizeof(*sym) * (g->syms->v.n + 1));
    int done = 0;
    if (sym == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < g->syms->v.n; i++) {
        sym[i] = g->syms->v.at[i].hint;
    }
    DynRun run = {.config = &r->config, .sym = sym};
    for (uint32_t i = 0; i < g->nodes.n && done == 0; i++) {
        bool call = dyn_ops[dyn_graph_node(g, i)->op].kind == DYN_K_RESULT; /* comes with the call that it is of */
        if (needed[i] && values[i] == NULL && !call) {
            values[i] = dyn_interp_node(g, &run, values, i);
            done = values[i] == NULL ? -1 : 0;
        }
    }
    PyMem_Free(sym);
    return done;
}
