/* task_call.c: the tasks of extern calls: CALL makes NumPy's or PyTorch's own call, OWN makes its result without it (exec_own.c).
 * Here a graph can be left, before the call or because it raised.
 *
 * Called by run.c through tasks.def, with the GIL; task_product.c shares how a call begins and ends. Owns nothing. */
#include "base/cpy.h"
#include "base/pool.h"
#include "base/torch.h"
#include "codegen/run/call.h"
#include "codegen/run/flags.h"

static PyObject *extern_operand(void *ctx, DynArg arg) {
    DynCall *c = ctx;
    if (arg.kind == DYN_ARG_SOURCE) {
        return Py_NewRef(c->run->sources[arg.id]);
    }
    if (arg.kind == DYN_ARG_SYM) {
        return dyn_sym_object(c->p->graph->syms, arg.id, c->run->sym[arg.id]);
    }
    return dyn_call_value(c, arg.id);
}

/* What exists before node `at`. 0, or -1 with an exception. */
static int take_values(DynCall *c, uint32_t at) {
    const DynGraph *g = c->p->graph;
    c->run->snapshot = dyn_graph_node(g, at)->snapshot;
    c->run->values = PyMem_Calloc(g->nodes.n + 1, sizeof(PyObject *));
    if (!c->run->values) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < at; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        bool looks = c->p->device && n->flags & DYN_NODE_VIEW && dyn_call_view(c, i) == 0;
        if ((n->op == DYN_OP_INPUT || c->objects[i] || looks) && !(c->run->values[i] = dyn_call_value(c, i))) {
            return -1;
        }
    }
    return 0;
}

void dyn_call_drop_values(DynCall *c) {
    for (uint32_t i = 0; c->run->values && i < c->p->graph->nodes.n; i++) {
        Py_XDECREF(c->run->values[i]);
    }
    PyMem_Free(c->run->values);
    c->run->values = NULL;
}

/* What whoever goes on before node `at` needs. Values that no kernel made are made by NumPy now. Where one of them warns or
 * raises, eager makes the whole call, and says so in its own words and place. again: the call may be made again. */
static DynRunStatus leave(DynCall *c, uint32_t at, bool again) {
    again = again && dyn_call_can_repeat(c);
    dyn_call_be_strict(c, again && !c->p->tensors);
    if (take_values(c, at) == 0 && c->run->complete(c->run->owner, c->run) == 0) {
        return DYN_RUN_LEFT;
    }
    dyn_call_drop_values(c);
    if (!again) {
        return DYN_RUN_ERROR;
    }
    PyErr_Clear();
    return dyn_call_repeat(c);
}

/* A call that does nothing but write, and says by flags alone what there is to warn of: CPython can make it again, as what it
 * wrote into is new memory, or is put back. */
static bool can_be_undone(const DynCall *c, uint32_t node) {
    const DynExtern *x = &c->p->graph->externs.at[dyn_graph_node(c->p->graph, node)->extern_index];
    bool writes = dyn_graph_written(c->p->graph, node) != DYN_NONE && !x->once && !x->opens && !c->p->tensors && !c->p->device;
    bool kept = writes && (!dyn_call_writes_input(c, node) || c->undo != NULL);
    return kept && dyn_call_can_repeat(c) && dyn_extern_warns_by_flags(c->p->graph, node);
}

/* May the call have something to warn of? Not where it stores a number that the elements can hold. */
static bool may_warn(const DynCall *c, uint32_t node) {
    const DynGraph *g = c->p->graph;
    const DynNode *n = dyn_graph_node(g, node);
    const DynArg *last = &n->args[n->nargs - 1];
    PyObject *v = last->kind == DYN_ARG_NODE ? c->objects[last->id] : NULL;
    if (v == NULL || !PyArray_CheckExact(v) || !dyn_extern_stores_item(&g->externs.at[n->extern_index])) {
        return true;
    }
    const PyArrayObject *a = (const PyArrayObject *)v;
    char kind = dyn_dtypes[dyn_graph_node(g, n->args[0].id)->dtype].kind;
    if (PyArray_NDIM(a) != 0 || PyArray_TYPE(a) != NPY_DOUBLE || (kind != 'i' && kind != 'u')) {
        return true;
    }
    double x = *(const double *)PyArray_DATA((PyArrayObject *)v);
    return !(x < 127 && x > (kind == 'i' ? -127 : -1));
}

/* Where the results lie, and memory for what has sizes only now. */
static DynRunStatus place_results(DynCall *c, uint32_t node) {
    const DynGraph *g = c->p->graph;
    for (uint32_t i = node; i < g->nodes.n && (i == node || dyn_graph_node(g, i)->op == DYN_OP_RESULT); i++) {
        if (c->objects[i] && !(dyn_graph_node(g, i)->flags & DYN_NODE_OBJECT) && dyn_call_geom(c->objects[i], &c->geoms[i]) < 0) {
            return DYN_RUN_ERROR;
        }
    }
    const DynExtern *x = &g->externs.at[dyn_graph_node(g, node)->extern_index];
    bool writes = dyn_call_writes_input(c, node), undone = writes && can_be_undone(c, node);
    c->wrote |= undone;
    c->acted |= (writes && !undone) || (x->once && !x->inside);
    return dyn_call_make_late_arrays(c, node) < 0 ? DYN_RUN_ERROR : DYN_RUN_OK;
}

/* The call raised, and may have done part of its work or warned: it is not made again, its exception is raised where the graph is
 * left. */
static DynRunStatus leave_raising(DynCall *c, uint32_t node) {
    PyObject *error = dyn_extern_raised(&c->p->graph->externs.at[dyn_graph_node(c->p->graph, node)->extern_index]);
    DynRunStatus status = leave(c, node, false);
    if (status == DYN_RUN_LEFT) {
        c->run->error = error;
    } else {
        Py_XDECREF(error);
    }
    return status;
}

static DynTaskEnd end_with(DynCall *c, DynRunStatus status) {
    c->status = status;
    return status == DYN_RUN_OK ? DYN_TASK_DONE : DYN_TASK_ENDED;
}

DynTaskEnd dyn_call_arrive(DynCall *c, uint32_t step) {
    uint32_t node = c->p->steps.at[step].id;
    if (c->arrived == step + 1) {
        return DYN_TASK_DONE;
    }
    c->arrived = step + 1;
    DynRunStatus due = dyn_call_check_flags(c, step);
    if (due != DYN_RUN_OK) {
        return end_with(c, due);
    }
    bool can_leave = dyn_graph_node(c->p->graph, node)->snapshot != DYN_NONE;
    if (can_leave && c->leave_at >= 0 && c->reached++ == c->leave_at) {
        return end_with(c, leave(c, node, true));
    }
    return DYN_TASK_DONE;
}

DynTaskEnd dyn_call_depart(DynCall *c, uint32_t step) { return end_with(c, place_results(c, c->p->steps.at[step].id)); }

static DynTaskEnd bind_own(DynCall *c, DynTask *t) {
    DynTaskEnd end = dyn_call_arrive(c, t->first);
    if (end != DYN_TASK_DONE) {
        return end;
    }
    bool made = dyn_exec_own(c->p->graph, c->p->steps.at[t->first].id, c->geoms, c->objects, c->run->sym);
    return made ? dyn_call_depart(c, t->first) : DYN_TASK_OTHERWISE;
}

const DynTaskKind dyn_task_own = {.bind = bind_own};

DynExternStatus dyn_run_opened(DynRun *run, DynExternStatus status, PyObject *given) {
    if (given == NULL || (status == DYN_EXTERN_OK && run->holds(run->owner))) {
        Py_XDECREF(given);
        return status;
    }
    run->given = given;
    return DYN_EXTERN_OTHER;
}

/* The graph is left behind the call, which has been made. */
static DynRunStatus leave_behind(DynCall *c, uint32_t node) {
    DynRunStatus status = leave(c, node, false);
    if (status != DYN_RUN_LEFT) {
        Py_CLEAR(c->run->given);
    }
    return status;
}

/* The call has failed. `silent`: it raises where it would warn, so nothing of it has been seen. */
static DynRunStatus call_failed(DynCall *c, uint32_t node, DynExternStatus status, bool acts, bool silent) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    const DynExtern *x = &c->p->graph->externs.at[n->extern_index];
    bool can_leave = n->snapshot != DYN_NONE;
    if (c->run->given != NULL) {
        return leave_behind(c, node);
    }
    bool other_after_act = x->once && !x->marked && status == DYN_EXTERN_OTHER;
    if (c->p->device && !acts && dyn_call_can_repeat(c)) { /* nobody else could make the values that are missing */
        PyErr_Clear();
        return dyn_call_repeat(c);
    }
    if (can_leave && !silent && status == DYN_EXTERN_ERROR) {
        return leave_raising(c, node);
    }
    if (can_leave && !other_after_act) { /* whoever goes on makes the call again, and its exception */
        PyErr_Clear();
        return leave(c, node, !acts);
    }
    if (status == DYN_EXTERN_OTHER) {
        PyErr_Format(PyExc_SystemError, "dynoc: %s gave another kind of result than before", x->name);
    }
    return DYN_RUN_ERROR;
}

/* The result is an array for whose memory the C library would ask the kernel, and give it back, at each call. */
static bool is_large(const DynCall *c, const DynNode *n) {
    double bytes = n->flags & DYN_NODE_OBJECT ? 0.0 : dyn_dtypes[n->dtype].size;
    for (int d = 0; d < n->ndim; d++) {
        bytes *= (double)c->run->sym[n->shape[d]].i;
    }
    return bytes >= (double)DYN_POOL_LEAST;
}

/* The call may have raised. */
static void take_pool_back(PyObject *before) {
    if (before != NULL) {
        DynRaised raised = dyn_callback_begin();
        dyn_arrays_own(before);
        dyn_callback_end(raised);
    }
}

static DynTaskEnd bind_call(DynCall *c, DynTask *t) {
    uint32_t node = c->p->steps.at[t->first].id;
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    DynExtern *x = &c->p->graph->externs.at[n->extern_index];
    DynTaskEnd end = dyn_call_arrive(c, t->first);
    if (end != DYN_TASK_DONE) {
        return end;
    }
    /* A call that acts on something isn't made twice; one that runs Python code may have warned before it raises. */
    bool acts = x->once || dyn_graph_written(c->p->graph, node) != DYN_NONE;
    bool silent = n->snapshot != DYN_NONE && !acts && dyn_extern_warns_by_flags(c->p->graph, node);
    bool undone = can_be_undone(c, node);
    dyn_call_be_strict(c, (silent && !c->p->tensors) || (undone && may_warn(c, node)));
    dyn_torch_grad_back(c->grad && x->marked);
    PyObject *given = NULL, *memory = !acts && !c->p->tensors && is_large(c, n) ? dyn_arrays_lend_pool() : NULL;
    DynExternStatus status = dyn_extern_run(c->p->graph, node, extern_operand, c, c->objects, c->run->sym, silent, &given);
    take_pool_back(memory);
    status = dyn_run_opened(c->run, status, given);
    c->grad = (c->grad && x->marked) ? dyn_torch_grad_off() : c->grad;
    dyn_flags_clear();
    if (undone && status == DYN_EXTERN_ERROR && PyErr_ExceptionMatches(PyExc_FloatingPointError)) {
        PyErr_Clear();
        c->wrote |= dyn_call_writes_input(c, node);
        return end_with(c, dyn_call_repeat(c));
    }
    return status == DYN_EXTERN_OK ? dyn_call_depart(c, t->first) : end_with(c, call_failed(c, node, status, acts, silent));
}

const DynTaskKind dyn_task_call = {.bind = bind_call};
