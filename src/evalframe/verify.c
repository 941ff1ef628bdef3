/* verify.c: the setting `verify`: the first calls of compiled code are compared with what eager gives.
 *
 * Called by hit.c and follow_part.c in place of dyn_artifact_run, with the GIL. The reference interpreter runs the graph on
 * copies of its inputs, node by node; then compiled code runs on the inputs themselves. Where the results differ, the inputs get
 * back what they held, the call is CPython's, and whoever called runs no compiled code of this graph any more. The node that is
 * to blame is found by compiling the graph once more with every value as an output: it is the first whose value differs. Copies
 * are made and results are compared in Python (src/dynoc/_verify.py). Graphs with calls that may have effects aren't looked at:
 * nothing runs twice that the program could see. */
#include "evalframe/verify.h"
#include "base/torch.h"
#include "codegen/run/flags.h"
#include "codegen/target.h"
#include "evalframe/door.h"
#include "ir/place.h"

#define CALLS 3 /* of each tier that are compared */

typedef struct Check {
    DynArtifact *artifact;
    const DynGraph *graph;
    DynRun *run;          /* of the program's call */
    PyObject *face;       /* dynoc._verify */
    PyObject *before;     /* copies of the inputs as they were */
    PyObject *inputs;     /* those that the reference interpreter works on */
    DynScalar *sym;       /* … and its symbols */
    PyObject **values;    /* … and what it gives: by node */
    bool writes, inexact; /* the graph writes into inputs; its values may differ from eager's in their last bits */
    DynStr difference;    /* what is different in the first value that is; empty: nothing */
} Check;

/* ---- which graphs and calls */

/* Does a call in the graph do something that can be seen, or might it: code of the program's own? */
static bool has_effects(const DynGraph *g) {
    for (uint32_t i = 0; i < g->externs.n; i++) {
        if (g->externs.at[i].once || g->externs.at[i].marked) {
            return true;
        }
    }
    return false;
}

static bool writes_inputs(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint32_t storage = dyn_graph_written(g, i);
        if (storage != DYN_NONE && dyn_graph_node(g, storage)->op == DYN_OP_INPUT) {
            return true;
        }
    }
    return false;
}

static bool is_of_tensors(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_graph_node(g, i)->flags & DYN_NODE_TENSOR) {
            return true;
        }
    }
    return false;
}

bool dyn_verify_is_due(DynVerify *v, const DynArtifact *a, const DynGraph *g) {
    int tier = (int)dyn_artifact_tier(a);
    if (v->effects) {
        return false;
    }
    if (v->tier != tier) {
        v->tier = tier;
        v->calls = 0;
    }
    if (v->calls == 0 && (g->device != 0 || has_effects(g))) { /* the reference interpreter is this machine's */
        v->effects = true;
        dyn_count("verify", "skipped");
        return false;
    }
    return v->calls < CALLS;
}

/* ---- the reference */

static PyObject *tuple_of(PyObject *const *objects, uint32_t n) {
    PyObject *tuple = PyTuple_New(n);
    for (uint32_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(objects[i]));
    }
    return tuple;
}

/* What the graph is run on beside the program's call: the inputs themselves where they are only read. */
static PyObject *copies(const Check *c) {
    PyObject *inputs = tuple_of(c->run->inputs, c->graph->inputs.n);
    if (inputs != NULL && c->writes) {
        Py_SETREF(inputs, PyObject_CallMethod(c->face, "copies", "(O)", inputs));
    }
    return inputs;
}

/* A run of the graph on copies, with symbols of its own. */
static DynRun run_on(const Check *c, PyObject *inputs, PyObject **outputs) {
    DynRun run = *c->run;
    memcpy(c->sym, c->run->sym, sizeof(*c->sym) * c->graph->syms->v.n);
    run.inputs = ((PyTupleObject *)inputs)->ob_item;
    run.views = (DynViews){0};
    run.sym = c->sym;
    run.outputs = outputs;
    return run;
}

static int run_reference(Check *c) {
    DynRun run = run_on(c, c->inputs, NULL);
    bool grad = is_of_tensors(c->graph) && dyn_torch_grad_off();
    PyObject *silent = dyn_flags_silent();
    int done = 0;
    for (uint32_t i = 0; i < c->graph->nodes.n && done == 0; i++) {
        if (c->values[i] == NULL) {
            c->values[i] = dyn_interp_node(c->graph, &run, c->values, i);
            done = c->values[i] == NULL ? -1 : 0;
        }
    }
    dyn_flags_lenient(silent);
    dyn_torch_grad_back(grad);
    return done;
}

/* ---- comparing */

/* 1: they differ, and `difference` says how. 0: they don't. -1: an exception. */
static int differ(Check *c, PyObject *eager, PyObject *compiled) {
    PyObject *said = PyObject_CallMethod(c->face, "difference", "OOO", eager, compiled, c->inexact ? Py_False : Py_True);
    const char *text = said == NULL || said == Py_None ? NULL : PyUnicode_AsUTF8(said);
    if (text != NULL) {
        c->difference.n = 0;
        dyn_str_puts(&c->difference, text);
    }
    int found = said == NULL ? -1 : text != NULL;
    Py_XDECREF(said);
    return found;
}

/* Does the value lie in memory of which some elements may never have been written, np.empty's? Those are whatever was there. */
static bool may_be_unwritten(const DynGraph *g, uint32_t id) {
    uint32_t storage = dyn_graph_node(g, id)->storage;
    const DynNode *made = dyn_graph_node(g, storage);
    bool empty = made->op == DYN_OP_FULL && (made->nargs == 0 || made->args[0].kind == DYN_ARG_NONE);
    for (uint32_t i = 0; empty && i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        empty = n->op != DYN_OP_STORE || n->args[0].id != storage; /* a store into all of it */
    }
    return empty;
}

/* The first output, or else the first input, in which the results differ: *node. As `differ`. */
static int compare(Check *c, uint32_t *node) {
    const DynGraph *g = c->graph;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        bool known = !may_be_unwritten(g, g->outputs.at[i]);
        int found = known ? differ(c, c->values[g->outputs.at[i]], c->run->outputs[i]) : 0;
        if (found != 0) {
            *node = g->outputs.at[i];
            return found;
        }
    }
    for (uint32_t i = 0; c->writes && i < g->inputs.n; i++) {
        int found = differ(c, PyTuple_GET_ITEM(c->inputs, i), c->run->inputs[i]);
        if (found != 0) {
            *node = g->inputs.at[i];
            return found;
        }
    }
    return 0;
}

/* ---- which node it was */

/* Is the node's value an array that can be handed out? */
static bool has_value(const DynNode *n) {
    bool made = n->op != DYN_OP_INPUT && !dyn_node_stores(n);
    return made && !(n->flags & (DYN_NODE_OBJECT | DYN_NODE_TWIN | DYN_NODE_VIEW));
}

/* The graph with every value as an output, in `arena`, which outlives code that is made of it; NULL: no memory. */
static DynGraph *telling(const DynGraph *g, DynArena *arena) {
    DynGraph *all = DYN_NEW_N(arena, DynGraph, 1);
    uint32_t *outputs = DYN_NEW_N(arena, uint32_t, g->nodes.n + 1);
    if (!DYN_ALLOCATED(all, outputs)) {
        return NULL;
    }
    *all = *g;
    all->outputs.at = outputs;
    all->outputs.n = 0;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (has_value(dyn_graph_node(g, i))) {
            outputs[all->outputs.n++] = i;
        }
    }
    return all;
}

static DynArtifact *compile(const DynGraph *g, const DynConfig *config, DynArena *arena) {
    DynArena scratch;
    DynStr source = {0}, error = {0};
    DynReason why = DYN_R_OK;
    const DynTarget *target = dyn_target_of(g);
    dyn_arena_init(&scratch);
    DynLoops *p = dyn_lower(g, config, &scratch, &why, &error);
    bool done = p != NULL && dyn_recompute(p, &why, &error) == 0 && dyn_fuse(p, &why, &error) == 0 &&
                dyn_schedule(p, &why, &error) == 0 && dyn_plan(p, &why, &error) == 0 &&
                target->emit(p, &source, &why, &error) == 0;
    const DynLoops *kept = done ? dyn_loops_keep(p, arena) : NULL;
    DynArtifact *a = kept == NULL ? NULL : dyn_artifact_new(target, kept, &source, g, config);
    dyn_arena_free(&scratch);
    dyn_str_free(&source);
    dyn_str_free(&error);
    return a;
}

/* Compares every value that `a` gives; *node is the first that differs, and stays where none does. */
static void look_through(Check *c, DynArtifact *a, const DynGraph *all, PyObject **outputs, uint32_t *node) {
    PyObject *inputs = c->writes ? PyObject_CallMethod(c->face, "copies", "(O)", c->before) : Py_NewRef(c->inputs);
    if (inputs == NULL) {
        return;
    }
    DynRun run = run_on(c, inputs, outputs);
    PyObject *silent = dyn_flags_silent();
    DynRunStatus status = dyn_artifact_run(a, &run);
    dyn_flags_lenient(silent);
    for (uint32_t i = 0, found = 0; status == DYN_RUN_OK && i < all->outputs.n; i++) {
        uint32_t id = all->outputs.at[i];
        if (!found && differ(c, c->values[id], outputs[i]) > 0) {
            *node = id;
            found = 1;
        }
        Py_XDECREF(outputs[i]);
    }
    if (status == DYN_RUN_LEFT) {
        for (uint32_t i = 0; i < all->nodes.n; i++) {
            Py_XDECREF(run.values[i]);
        }
        PyMem_Free(run.values);
        Py_XDECREF(run.error);
    }
    Py_DECREF(inputs);
}

static void find_node(Check *c, DynArena *arena, uint32_t *node) {
    const DynGraph *all = telling(c->graph, arena);
    PyObject **outputs = all == NULL ? NULL : PyMem_Calloc(all->outputs.n + 1, sizeof(*outputs));
    DynArtifact *a = outputs == NULL ? NULL : compile(all, c->run->config, arena);
    if (a != NULL) {
        if (dyn_artifact_tier(c->artifact) == DYN_TIER_NATIVE) {
            dyn_artifact_build(a, true);
        }
        look_through(c, a, all, outputs, node);
        dyn_artifact_decref(a);
    }
    PyMem_Free(outputs);
    PyErr_Clear();
}

/* ---- */

static void report(const DynGraph *g, uint32_t node, const char *difference) {
    const DynNode *n = dyn_graph_node(g, node);
    DynStr place = {0};
    const DynPlace *at = dyn_graph_place_at(g, n->where);
    if (at != NULL) {
        dyn_str_putc(&place, '\n');
        dyn_report_place(&place, at);
    }
    dyn_count("verify", "differs");
    dyn_warn_once(DYN_R_DIFFERS, "%s: the first is %%%u = %s: %s%s\n", g->name, node, dyn_ops[n->op].text, difference,
                  dyn_str_at(&place));
    dyn_str_free(&place);
}

static bool prepare(Check *c) {
    const DynGraph *g = c->graph;
    c->writes = writes_inputs(g);
    c->inexact = dyn_compile_is_inexact(g);
    c->face = dyn_import("dynoc._verify");
    c->sym = PyMem_Malloc(sizeof(*c->sym) * (g->syms->v.n + 1));
    c->values = PyMem_Calloc(g->nodes.n + 1, sizeof(*c->values));
    bool room = c->face != NULL && c->sym != NULL && c->values != NULL;
    c->before = room ? copies(c) : NULL;
    c->inputs = c->before == NULL ? NULL : copies(c);
    return c->inputs != NULL && run_reference(c) == 0;
}

static void release(Check *c) {
    for (uint32_t i = 0; c->values != NULL && i < c->graph->nodes.n; i++) {
        Py_XDECREF(c->values[i]);
    }
    PyMem_Free(c->values);
    PyMem_Free(c->sym);
    Py_XDECREF(c->before);
    Py_XDECREF(c->inputs);
    Py_XDECREF(c->face);
    dyn_str_free(&c->difference);
}

/* The call is CPython's, as if compiled code hadn't run. */
static DynRunStatus take_back(Check *c) {
    for (uint32_t i = 0; i < c->graph->outputs.n; i++) {
        Py_CLEAR(c->run->outputs[i]);
    }
    if (c->writes) {
        PyObject *inputs = tuple_of(c->run->inputs, c->graph->inputs.n);
        PyObject *done = inputs == NULL ? NULL : PyObject_CallMethod(c->face, "put_back", "OO", inputs, c->before);
        Py_XDECREF(inputs);
        Py_XDECREF(done);
        if (done == NULL) {
            return DYN_RUN_ERROR;
        }
    }
    return DYN_RUN_AGAIN;
}

DynRunStatus dyn_verify_run(DynVerify *v, DynArtifact *a, const DynGraph *g, DynRun *run, DynArena *arena) {
    Check c = {.artifact = a, .graph = g, .run = run};
    uint32_t node = DYN_NONE;
    v->calls++;
    bool prepared = prepare(&c);
    if (!prepared) { /* eager raises: compiled code has to find that out itself */
        PyErr_Clear();
        dyn_count("verify", "skipped");
    }
    DynRunStatus status = dyn_artifact_run(a, run);
    if (prepared && status == DYN_RUN_OK) {
        int found = compare(&c, &node);
        if (found > 0) {
            find_node(&c, arena, &node);
            report(g, node, dyn_str_at(&c.difference));
            v->node = node;
            v->differs = true;
            status = take_back(&c);
        } else {
            PyErr_Clear();
            dyn_count("verify", found == 0 ? "same" : "skipped");
        }
    }
    release(&c);
    return status;
}
