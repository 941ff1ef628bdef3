/* follow_part.c: a part of a graph that autograd follows: code for its values, and graphs for its gradients.
 *
 * Made by follow.c, called by hit_follow.c and by the autograd function of src/dynoc/_autograd.py, which has it as a Python
 * object. A part owns its graph and its artifacts; symbols are shared by the parts of one graph, and by the graphs of their
 * gradients, which are parts again: so a gradient of a gradient is nothing new. What backward reads of the forward nodes is
 * saved: inputs and outputs as they are, other values as further outputs, unless they are cheap to compute again from what is
 * saved anyway. No input or output is saved but where a derivative reads it, as PyTorch's would: so changing another one in place
 * is no error. */
#include "base/torch.h"
#include "codegen/target.h"
#include "evalframe/follow.h"

#define MOST_COMPUTED_AGAIN 8 /* operators between a saved value and one that backward computes again */

struct DynPartShare {
    Py_ssize_t refs;
    DynSyms syms;
    uint32_t known; /* so many symbols have values when a part is called; those behind them are computed of these */
    DynSources sources;
    DynConfig config;
    bool wait, compiles;
};

typedef struct Unit { /* a graph and its code */
    DynGraph graph;
    DynArtifact *artifact; /* NULL: not compiled (yet) */
    DynReason failed;
} Unit;

struct DynPart {
    PyObject_HEAD DynPartShare *share;
    DynArena arena;
    DynGraph graph;
    Unit plain, saving; /* copies that are compiled; saving: with what backward reads as further outputs */
    PyObject *known;    /* a dict: plans and gradients that were made */
    bool *wanted;       /* inputs: gradients may be wanted */
    bool prepared;      /* what is below is known */
    uint32_t nout;      /* outputs; behind them in saving.graph.outputs what else is saved */
    DynList saves;      /* nodes of the graph that backward reads: inputs, outputs and others */
};
static PyTypeObject Part_Type;

/* ---- what parts share */

DynPartShare *dyn_part_share_new(const DynSyms *syms, const DynOptions *options) {
    DynPartShare *s = PyMem_RawCalloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->refs = 1;
    s->config = options == NULL ? dyn_config : dyn_options_config(options);
    s->wait = options != NULL && dyn_options_wait(options);
    s->compiles = options != NULL && !options->eager;
    s->known = syms->v.n;
    bool room = dyn_vec_reserve(&s->syms.v, syms->v.n + 1) == 0 && dyn_vec_reserve(&s->syms.index, syms->index.n + 1) == 0 &&
                dyn_vec_reserve(&s->syms.same, syms->same.n + 1) == 0;
    if (!room) {
        dyn_part_share_drop(s);
        return NULL;
    }
    memcpy(s->syms.v.at, syms->v.at, sizeof(*syms->v.at) * syms->v.n);
    memcpy(s->syms.index.at, syms->index.at, sizeof(*syms->index.at) * syms->index.n);
    memcpy(s->syms.same.at, syms->same.at, sizeof(*syms->same.at) * syms->same.n);
    s->syms.v.n = syms->v.n;
    s->syms.index.n = syms->index.n;
    s->syms.same.n = syms->same.n;
    for (uint32_t i = 0; i < s->known; i++) { /* when a part is called, it is behind the call that tells */
        s->syms.v.at[i].after = 0;
    }
    return s;
}

void dyn_part_share_drop(DynPartShare *s) {
    if (--s->refs == 0) {
        dyn_syms_free(&s->syms);
        dyn_sources_free(&s->sources);
        PyMem_RawFree(s);
    }
}

/* Sources for so many inputs: locals in their order. */
static int name_sources(DynPartShare *s, uint32_t n) {
    while (s->sources.v.n < n) {
        PyObject *name = PyUnicode_FromFormat("x%u", s->sources.v.n);
        uint32_t id =
            name == NULL ? DYN_NONE : dyn_source_intern(&s->sources, DYN_SRC_LOCAL, DYN_NONE, s->sources.v.n, name, NULL);
        Py_XDECREF(name);
        if (id == DYN_NONE) {
            return -1;
        }
    }
    return 0;
}

/* ---- making parts */

static DynPart *new_part(DynPartShare *s) {
    DynPart *p = PyObject_New(DynPart, &Part_Type);
    if (p != NULL) {
        memset((char *)p + sizeof(PyObject), 0, sizeof(*p) - sizeof(PyObject));
        s->refs++;
        p->share = s;
        dyn_arena_init(&p->arena);
    }
    return p;
}

static void part_dealloc(PyObject *self) {
    DynPart *p = (DynPart *)self;
    Unit *units[2] = {&p->plain, &p->saving};
    Py_XDECREF(p->known);
    for (int i = 0; i < 2; i++) {
        if (units[i]->artifact != NULL) {
            dyn_artifact_decref(units[i]->artifact);
        }
        if (units[i]->graph.arena != NULL) {
            dyn_graph_free(&units[i]->graph);
        }
    }
    if (p->graph.arena != NULL) {
        dyn_graph_free(&p->graph);
    }
    dyn_arena_free(&p->arena);
    dyn_part_share_drop(p->share);
    PyObject_Free(self);
}

static int verified(const DynGraph *g, DynStr *error) {
#ifdef DYN_DEBUG
    return dyn_graph_verify(g, error);
#else
    return 0;
#endif
}

static int cut_out(DynPart *p, const DynGraph *g, DynGraph *out, DynList inputs, DynList outputs, DynStr *error) {
    uint32_t *map = DYN_NEW_N(&p->arena, uint32_t, g->nodes.n + 1);
    if (map == NULL || name_sources(p->share, inputs.n) < 0 ||
        dyn_graph_init(out, &p->arena, g->name, &p->share->sources, &p->share->syms) < 0) {
        return -1;
    }
    if (dyn_part_copy(g, out, inputs, outputs, map, error) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < out->nodes.n; i++) { /* all its values are tensors */
        DynNode *n = &out->nodes.at[i];
        n->flags |= dyn_node_stores(n) ? 0 : DYN_NODE_TENSOR;
    }
    return verified(out, error);
}

DynPart *dyn_follow_part(DynPartShare *s, const DynGraph *g, DynList inputs, DynList outputs, DynStr *error) {
    DynPart *p = new_part(s);
    if (p == NULL) {
        return NULL;
    }
    p->known = PyDict_New();
    if (p->known == NULL || cut_out(p, g, &p->graph, inputs, outputs, error) < 0) {
        Py_DECREF((PyObject *)p);
        return NULL;
    }
    const DynGraph *own = &p->graph;
    p->nout = own->outputs.n;
    p->wanted = DYN_NEW_N(&p->arena, bool, own->inputs.n + 1);
    for (uint32_t i = 0; p->wanted != NULL && i < own->inputs.n; i++) {
        p->wanted[i] = (dyn_graph_node(own, own->inputs.at[i])->flags & DYN_NODE_GRAD) != 0;
    }
    if (p->wanted == NULL) {
        Py_DECREF((PyObject *)p);
        PyErr_NoMemory();
        return NULL;
    }
    return p;
}

/* ---- its code */

static DynLoops *stages(DynPartShare *s, Unit *u, DynArena *scratch, DynStr *source, DynStr *error) {
    const DynTarget *target = dyn_target_of(&u->graph);
    u->failed = DYN_R_NO_MEMORY;
    DynLoops *p = dyn_common(&u->graph, scratch) < 0 ? NULL : dyn_lower(&u->graph, &s->config, scratch, &u->failed, error);
    bool done = p != NULL && dyn_recompute(p, &u->failed, error) == 0 && dyn_fuse(p, &u->failed, error) == 0 &&
                dyn_schedule(p, &u->failed, error) == 0 && dyn_plan(p, &u->failed, error) == 0;
#ifdef DYN_DEBUG
    done = done && dyn_loops_verify(p, error) == 0;
#endif
    return done && target->emit(p, source, &u->failed, error) == 0 ? p : NULL;
}

static int copy_graph(DynPart *p, DynGraph *out, DynStr *error) {
    DynList inputs = {p->graph.inputs.at, p->graph.inputs.n}, outputs = {p->graph.outputs.at, p->graph.outputs.n};
    return cut_out(p, &p->graph, out, inputs, outputs, error);
}

static void compile(DynPart *p, Unit *u) {
    DynArena scratch;
    DynStr source = {0}, error = {0};
    if (u->artifact != NULL || u->failed != DYN_R_OK || !p->share->compiles) {
        return;
    }
    dyn_arena_init(&scratch);
    DynLoops *loops = stages(p->share, u, &scratch, &source, &error);
    const DynLoops *kept = loops == NULL ? NULL : dyn_loops_keep(loops, &p->arena);
    if (kept != NULL) {
        u->artifact = dyn_artifact_new(dyn_target_of(&u->graph), kept, &source, &u->graph, &p->share->config);
    }
    if (u->artifact == NULL) {
        dyn_count_reason("graphs_failed", u->failed == DYN_R_OK ? DYN_R_LOWERING : u->failed);
        dyn_warn_once(u->failed, "a part of %s: %s", u->graph.name, dyn_str_at(&error));
    } else {
        u->failed = DYN_R_OK;
        dyn_artifact_build(u->artifact, p->share->wait);
    }
    dyn_arena_free(&scratch);
    dyn_str_free(&source);
    dyn_str_free(&error);
}

/* The plain graph is copied when it is first needed, and each is compiled then. */
static int make_unit(DynPart *p, Unit *u) {
    DynStr error = {0};
    bool made = u->graph.arena != NULL || copy_graph(p, &u->graph, &error) == 0;
    if (made) {
        compile(p, u);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: a part of %s: %s", p->graph.name, dyn_str_at(&error));
    }
    dyn_str_free(&error);
    return made ? 0 : -1;
}

/* Is there code for it, or will there be none, so that it is run node by node? */
static bool is_ready(Unit *u) {
    const char *detail;
    if (u->artifact == NULL) {
        return true;
    }
    if (dyn_artifact_tier(u->artifact) != DYN_TIER_EAGER) {
        return true;
    }
    dyn_build_poll();
    return dyn_artifact_failure(u->artifact, &detail) != DYN_R_OK;
}

/* ---- running it */

static PyObject *run_nodes(const DynGraph *g, DynRun *run) {
    PyObject **values = PyMem_Calloc(g->nodes.n + 1, sizeof(*values)), *made = values == NULL ? NULL : PyTuple_New(g->outputs.n);
    for (uint32_t i = 0; made != NULL && i < g->nodes.n; i++) {
        values[i] = dyn_interp_node(g, run, values, i);
        if (values[i] == NULL) {
            Py_CLEAR(made);
        }
    }
    for (uint32_t i = 0; made != NULL && i < g->outputs.n; i++) {
        PyTuple_SET_ITEM(made, i, Py_NewRef(values[g->outputs.at[i]]));
    }
    for (uint32_t i = 0; values != NULL && i < g->nodes.n; i++) {
        Py_XDECREF(values[i]);
    }
    PyMem_Free(values);
    return made;
}

/* Node by node, by NumPy, which doesn't warn meanwhile, as PyTorch doesn't. */
static PyObject *run_by_numpy(const DynGraph *g, DynRun *run) {
    PyObject *numpy = PyImport_ImportModule("numpy"), *made = NULL, *type, *value, *tb;
    PyObject *before = numpy == NULL ? NULL : PyObject_CallMethod(numpy, "seterr", "s", "ignore");
    if (before != NULL) {
        bool grad = dyn_torch_grad_off();
        made = run_nodes(g, run);
        dyn_torch_grad_back(grad);
        PyErr_Fetch(&type, &value, &tb);
        PyObject *back = PyObject_GetAttrString(numpy, "seterr"), *none = PyTuple_New(0);
        PyObject *done = back == NULL || none == NULL ? NULL : PyObject_Call(back, none, before);
        if (done == NULL) {
            PyErr_Clear();
        }
        PyErr_Restore(type, value, tb);
        Py_XDECREF(done);
        Py_XDECREF(none);
        Py_XDECREF(back);
    }
    Py_XDECREF(before);
    Py_XDECREF(numpy);
    return made;
}

/* Symbols that gradients brought with them. Those that can't be computed are of values that aren't there yet. */
static void fill_symbols(const DynPartShare *s, DynScalar *sym) {
    for (uint32_t i = s->known; i < s->syms.v.n; i++) {
        if (dyn_sym_eval_row(&s->syms, i, sym, &sym[i]) < 0) {
            sym[i].i = 0;
        }
    }
}

static PyObject *run_unit(DynPart *p, Unit *u, const DynScalar *known, PyObject *const *inputs) {
    DynPartShare *s = p->share;
    if (make_unit(p, u) < 0) {
        return NULL;
    }
    DynScalar *sym = PyMem_Malloc(sizeof(*sym) * (s->syms.v.n + 1));
    PyObject **outputs = PyMem_Calloc(u->graph.outputs.n + 1, sizeof(*outputs)), *made = NULL;
    if (sym == NULL || outputs == NULL) {
        PyMem_Free(sym);
        PyMem_Free(outputs);
        return PyErr_NoMemory();
    }
    memcpy(sym, known, sizeof(*sym) * s->known);
    fill_symbols(s, sym);
    DynRun run = {.inputs = inputs, .config = &s->config, .sym = sym, .outputs = outputs};
    DynRunStatus status = DYN_RUN_AGAIN;
    if (u->artifact != NULL && is_ready(u) && dyn_artifact_tier(u->artifact) != DYN_TIER_EAGER) {
        status = dyn_artifact_run(u->artifact, &run);
    }
    if (status == DYN_RUN_AGAIN) {
        made = run_by_numpy(&u->graph, &run);
    } else if (status == DYN_RUN_OK) {
        made = PyTuple_New(u->graph.outputs.n);
        for (uint32_t i = 0; i < u->graph.outputs.n; i++) {
            if (made == NULL) {
                Py_XDECREF(outputs[i]);
            } else {
                PyTuple_SET_ITEM(made, i, outputs[i]);
            }
        }
    }
    PyMem_Free(sym);
    PyMem_Free(outputs);
    return made;
}

/* ---- what backward reads */

typedef struct Gradients {
    DynGraph graph;
    uint32_t n; /* its nodes before gradients were added */
    bool *reached;
    uint32_t *of;    /* of each of these */
    uint32_t *seeds; /* of given outputs, in order; DYN_NONE: not given */
    uint32_t nseeds;
} Gradients;

/* The graph with gradients of wanted inputs, as far as those depend on given outputs (the first ones; NULL: all that depend). */
static int derive(DynPart *p, const uint32_t *outputs, uint32_t n, const bool *given, const bool *wanted, Gradients *x,
                  DynStr *error) {
    if (copy_graph(p, &x->graph, error) < 0) {
        return -1;
    }
    DynGraph *g = &x->graph;
    x->n = g->nodes.n;
    x->nseeds = n;
    x->reached = DYN_NEW_N(&p->arena, bool, x->n + 1);
    x->of = DYN_NEW_N(&p->arena, uint32_t, x->n + 1);
    x->seeds = DYN_NEW_N(&p->arena, uint32_t, n + 1);
    if (!DYN_ALLOCATED(x->reached, x->of, x->seeds)) {
        return -1;
    }
    memset(x->of, 0xFF, sizeof(*x->of) * x->n); /* DYN_NONE */
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        x->reached[g->inputs.at[i]] = wanted[i];
    }
    dyn_derive_reach(g, x->n, x->reached);
    for (uint32_t i = 0; i < n; i++) {
        const DynNode of = *dyn_graph_node(g, outputs[i]);
        x->seeds[i] = DYN_NONE;
        if (!(given == NULL ? x->reached[outputs[i]] : given[i])) {
            continue;
        }
        uint32_t at = dyn_graph_add(g, DYN_OP_INPUT, (DynDtype)of.dtype, of.ndim, 0, 0);
        if (at == DYN_NONE) {
            return -1;
        }
        memcpy(dyn_graph_node(g, at)->shape, of.shape, sizeof(*of.shape) * of.ndim);
        dyn_graph_node(g, at)->flags = DYN_NODE_TENSOR;
        dyn_graph_node(g, at)->layout.kind = DYN_LAYOUT_STRIDED;
        x->seeds[i] = at;
        x->of[outputs[i]] = x->of[outputs[i]] == DYN_NONE ? at : dyn_derive_sum(g, x->of[outputs[i]], at);
        if (x->of[outputs[i]] == DYN_NONE) {
            return -1;
        }
    }
    return dyn_derive(g, x->n, x->reached, x->of, error);
}

/* Is it dear enough to be kept? */
static bool is_dear(const DynNode *n) {
    const DynOpInfo *op = &dyn_ops[n->op];
    if (op->kind == DYN_K_CREATE) {
        return false;
    }
    bool cheap = op->kind == DYN_K_ELEMENTWISE || op->kind == DYN_K_VIEW || op->kind == DYN_K_COPY;
    return !cheap || n->flags & DYN_NODE_CONTIG_COPY || op->flags & (DYN_OPF_EXPENSIVE | DYN_OPF_VECTOR_CALL);
}

static bool is_written(const DynGraph *g, uint32_t id) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_node_stores(&g->nodes.at[i]) && g->nodes.at[i].storage == dyn_graph_node(g, id)->storage) {
            return true;
        }
    }
    return false;
}

static bool is_computed_again(const DynGraph *g, uint32_t id, const bool *saved, int depth) {
    const DynNode *n = dyn_graph_node(g, id);
    if (saved[id]) {
        return true;
    }
    bool possible = n->op != DYN_OP_INPUT && depth < MOST_COMPUTED_AGAIN && !is_dear(n) && !is_written(g, id);
    for (int k = 0; k < n->nargs && possible; k++) {
        possible = n->args[k].kind != DYN_ARG_NODE || is_computed_again(g, n->args[k].id, saved, depth + 1);
    }
    return possible;
}

/* Of the nodes that gradients read, the ones that are saved. */
static int choose_saved(DynPart *p, const Gradients *x, const bool *read) {
    const DynGraph *g = &p->graph;
    bool *saved = DYN_NEW_N(&p->arena, bool, x->n + 1);
    uint32_t *list = DYN_NEW_N(&p->arena, uint32_t, x->n + 1), n = 0;
    if (!DYN_ALLOCATED(saved, list)) {
        return -1;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t of = i;
        if (!read[i] || dyn_node_stores(dyn_graph_node(g, i)) || dyn_ops[dyn_graph_node(g, i)->op].kind == DYN_K_CREATE) {
            if (!read[i] || !is_written(g, i)) {
                continue;
            }
        }
        while (dyn_graph_node(g, of)->flags & DYN_NODE_VIEW) { /* of a view its base */
            of = dyn_graph_node(g, of)->args[0].id;
        }
        bool outside = dyn_graph_node(g, of)->op == DYN_OP_INPUT;
        for (uint32_t k = 0; k < p->nout; k++) {
            outside = outside || g->outputs.at[k] == of;
        }
        if (outside || !is_computed_again(g, of, saved, 0)) {
            saved[of] = true;
        }
    }
    for (uint32_t i = 0; i < x->n; i++) {
        if (saved[i]) {
            list[n++] = i;
        }
    }
    p->saves = (DynList){list, n};
    return 0;
}

/* The graph with everything that is saved as an output. */
static int make_saving(DynPart *p, DynStr *error) {
    const DynGraph *g = &p->graph;
    uint32_t *outputs = DYN_NEW_N(&p->arena, uint32_t, g->nodes.n + p->nout + 1), n = p->nout;
    if (outputs == NULL) {
        return -1;
    }
    memcpy(outputs, g->outputs.at, sizeof(*outputs) * n);
    for (uint32_t i = 0; i < p->saves.n; i++) {
        bool known = dyn_graph_node(g, p->saves.at[i])->op == DYN_OP_INPUT;
        for (uint32_t k = 0; k < n; k++) {
            known = known || outputs[k] == p->saves.at[i];
        }
        if (!known) {
            outputs[n++] = p->saves.at[i];
        }
    }
    return cut_out(p, g, &p->saving.graph, (DynList){g->inputs.at, g->inputs.n}, (DynList){outputs, n}, error);
}

/* Finds out what backward reads, where all outputs are given and all gradients wanted. */
static int prepare(DynPart *p) {
    Gradients x = {.n = 0};
    DynStr error = {0};
    const DynGraph *g = &p->graph;
    if (p->prepared) {
        return 0;
    }
    int done = derive(p, g->outputs.at, p->nout, NULL, p->wanted, &x, &error);
    bool *stops = DYN_NEW_N(&p->arena, bool, x.graph.nodes.n + 1), *read = DYN_NEW_N(&p->arena, bool, x.graph.nodes.n + 1);
    done = DYN_ALLOCATED(stops, read) ? done : -1;
    if (done == 0) {
        for (uint32_t i = 0; i < x.n; i++) {
            stops[i] = true;
        }
        for (uint32_t i = 0; i < g->inputs.n; i++) {
            uint32_t gradient = p->wanted[i] ? x.of[x.graph.inputs.at[i]] : DYN_NONE;
            if (gradient != DYN_NONE) {
                read[gradient] = true;
            }
        }
        dyn_part_mark(&x.graph, stops, read);
        done = choose_saved(p, &x, read) < 0 ? -1 : make_saving(p, &error);
    }
    if (x.graph.arena != NULL) {
        dyn_graph_free(&x.graph);
    }
    if (done < 0) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: gradients of a part of %s: %s", g->name, dyn_str_at(&error));
    }
    p->prepared = done == 0;
    dyn_str_free(&error);
    return done;
}

bool dyn_follow_part_follows(const DynPart *p) {
    bool follows = false;
    for (uint32_t i = 0; i < p->graph.inputs.n; i++) {
        follows = follows || p->wanted[i];
    }
    for (uint32_t i = 0; i < p->nout && follows; i++) {
        if (dyn_graph_node(&p->graph, p->graph.outputs.at[i])->flags & DYN_NODE_GRAD) {
            return true;
        }
    }
    return false;
}

int dyn_follow_part_compile(DynPart *p) {
    bool follows = dyn_follow_part_follows(p);
    int done = follows && prepare(p) < 0 ? -1 : make_unit(p, follows ? &p->saving : &p->plain);
    if (done < 0) {
        PyErr_Clear();
    }
    return done;
}

const DynArtifact *dyn_follow_part_artifact(const DynPart *p) { return p->prepared ? p->saving.artifact : p->plain.artifact; }

size_t dyn_follow_part_bytes(const DynPart *p) {
    const Unit *units[2] = {&p->plain, &p->saving};
    PyObject *key, *made;
    Py_ssize_t at = 0;
    size_t bytes = sizeof(*p) + dyn_arena_bytes(&p->arena);
    for (int i = 0; i < 2; i++) {
        bytes += units[i]->artifact == NULL ? 0 : dyn_artifact_bytes(units[i]->artifact);
    }
    while (PyDict_Next(p->known, &at, &key, &made)) { /* gradients begin with their part */
        PyObject *first = PyTuple_Check(made) && PyTuple_GET_SIZE(made) > 0 ? PyTuple_GET_ITEM(made, 0) : Py_None;
        bytes += Py_IS_TYPE(first, &Part_Type) ? dyn_follow_part_bytes((const DynPart *)first) : 0;
    }
    return bytes;
}

bool dyn_follow_part_is_ready(DynPart *p) { return is_ready(p->prepared ? &p->saving : &p->plain); }

/* ---- as Python sees it */

static int bools_of(DynArena *arena, PyObject *tuple, uint32_t n, bool **out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != (Py_ssize_t)n) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of bools");
        return -1;
    }
    *out = DYN_NEW_N(arena, bool, n + 1);
    for (uint32_t i = 0; *out != NULL && i < n; i++) {
        (*out)[i] = PyTuple_GET_ITEM(tuple, i) == Py_True;
    }
    return *out == NULL ? (PyErr_NoMemory(), -1) : 0;
}

static PyObject *int_tuple(const uint32_t *at, uint32_t n) {
    PyObject *t = PyTuple_New(n);
    for (uint32_t i = 0; t != NULL && i < n; i++) {
        PyObject *o = at[i] == DYN_NONE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(at[i]);
        if (o == NULL) {
            Py_CLEAR(t);
        } else {
            PyTuple_SET_ITEM(t, i, o);
        }
    }
    return t;
}

/* run(numbers, tensors, saving) → its outputs, and with `saving` what else backward reads. */
static PyObject *part_run(PyObject *self, PyObject *args) {
    DynPart *p = (DynPart *)self;
    PyObject *numbers, *tensors;
    int saving;
    if (!PyArg_ParseTuple(args, "SO!p", &numbers, &PyTuple_Type, &tensors, &saving)) {
        return NULL;
    }
    bool fits = PyBytes_GET_SIZE(numbers) == (Py_ssize_t)(sizeof(DynScalar) * p->share->known) &&
                PyTuple_GET_SIZE(tensors) == (Py_ssize_t)p->graph.inputs.n;
    for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(tensors); i++) {
        fits = dyn_torch_is(PyTuple_GET_ITEM(tensors, i));
    }
    if (!fits) {
        PyErr_SetString(PyExc_TypeError, "not what this part of a graph takes");
        return NULL;
    }
    if (saving && prepare(p) < 0) {
        return NULL;
    }
    const DynScalar *known = (const DynScalar *)(const void *)PyBytes_AS_STRING(numbers);
    return run_unit(p, saving ? &p->saving : &p->plain, known, ((PyTupleObject *)tensors)->ob_item);
}

/* plan(needs) → (positions of outputs that require no gradients, positions of what is saved among inputs and outputs). */
static PyObject *new_plan(DynPart *p, PyObject *needs) {
    bool *wanted;
    if (prepare(p) < 0 || bools_of(&p->arena, needs, p->graph.inputs.n, &wanted) < 0) {
        return NULL;
    }
    const DynGraph *g = &p->saving.graph;
    bool *reached = DYN_NEW_N(&p->arena, bool, g->nodes.n + 1);
    uint32_t *fixed = DYN_NEW_N(&p->arena, uint32_t, g->outputs.n + 1), n = 0;
    uint32_t *saved = DYN_NEW_N(&p->arena, uint32_t, p->saves.n + 1);
    if (!DYN_ALLOCATED(reached, fixed, saved)) {
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        reached[g->inputs.at[i]] = wanted[i];
    }
    dyn_derive_reach(g, g->nodes.n, reached);
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        if (!reached[g->outputs.at[i]]) {
            fixed[n++] = i;
        }
    }
    for (uint32_t k = 0; k < p->saves.n; k++) { /* node for node the nodes of the two graphs are the same */
        for (uint32_t i = 0; i < g->outputs.n; i++) {
            saved[k] = g->outputs.at[i] == p->saves.at[k] ? g->inputs.n + i : saved[k];
        }
        for (uint32_t i = 0; i < g->inputs.n; i++) {
            saved[k] = g->inputs.at[i] == p->saves.at[k] ? i : saved[k];
        }
    }
    PyObject *first = int_tuple(fixed, n), *second = int_tuple(saved, p->saves.n);
    return Py_BuildValue("NN", first, second);
}

/* What is known under a key, else what `made` is, which is then kept. Takes `made`; NULL with an exception. */
static PyObject *kept(DynPart *p, PyObject *key, PyObject *made) {
    if (made != NULL && PyDict_SetItem(p->known, key, made) < 0) {
        Py_CLEAR(made);
    }
    return made;
}

static PyObject *part_plan(PyObject *self, PyObject *needs) {
    DynPart *p = (DynPart *)self;
    PyObject *known = PyDict_GetItemWithError(p->known, needs);
    if (known != NULL || PyErr_Occurred()) {
        return Py_XNewRef(known);
    }
    return kept(p, needs, new_plan(p, needs));
}

/* What a gradient's part takes, and gives. */
static PyObject *gradient_part(DynPart *p, Gradients *x, const bool *wanted) {
    uint32_t room = x->graph.nodes.n + x->nseeds + p->saves.n + 1;
    uint32_t *inputs = DYN_NEW_N(&p->arena, uint32_t, room), *outputs = DYN_NEW_N(&p->arena, uint32_t, room);
    uint32_t *reads = DYN_NEW_N(&p->arena, uint32_t, room), *gives = DYN_NEW_N(&p->arena, uint32_t, room);
    bool *stops = DYN_NEW_N(&p->arena, bool, room), *needed = DYN_NEW_N(&p->arena, bool, room);
    uint32_t nin = 0, nreads = 0, nout = 0;
    DynStr error = {0};
    DynPart *part = NULL;
    PyObject *made = NULL;
    if (!DYN_ALLOCATED(inputs, outputs, reads, gives, stops, needed)) {
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < x->graph.inputs.n; i++) {
        uint32_t gradient = wanted[i] ? x->of[x->graph.inputs.at[i]] : DYN_NONE;
        gives[i] = gradient == DYN_NONE ? DYN_NONE : nout;
        if (gradient != DYN_NONE) {
            outputs[nout++] = gradient;
            needed[gradient] = true;
        }
    }
    for (uint32_t i = 0; i < x->nseeds; i++) {
        if (x->seeds[i] != DYN_NONE) {
            inputs[nin++] = x->seeds[i];
        }
    }
    for (uint32_t i = 0; i < p->saves.n; i++) {
        stops[p->saves.at[i]] = true;
    }
    dyn_part_mark(&x->graph, stops, needed);
    for (uint32_t i = 0; i < p->saves.n; i++) {
        if (needed[p->saves.at[i]]) {
            reads[nreads++] = i;
            inputs[nin++] = p->saves.at[i];
        }
    }
    part = dyn_follow_part(p->share, &x->graph, (DynList){inputs, nin}, (DynList){outputs, nout}, &error);
    for (uint32_t i = 0; part != NULL && i < nin; i++) { /* a gradient of it may be wanted by any */
        part->wanted[i] = dyn_derive_follows(dyn_graph_node(&part->graph, part->graph.inputs.at[i]));
    }
    if (part != NULL) {
        made = Py_BuildValue("NNN", (PyObject *)part, int_tuple(reads, nreads), int_tuple(gives, x->graph.inputs.n));
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: gradients of a part of %s: %s", p->graph.name, dyn_str_at(&error));
    }
    dyn_str_free(&error);
    return made;
}

/* gradient(given, needs) → (part, which saved values it takes behind the given gradients, which of its outputs is the gradient of
 * each input). */
static PyObject *new_gradient(DynPart *p, PyObject *given_object, PyObject *needs) {
    PyObject *made = NULL;
    bool *given, *wanted;
    Gradients x = {.n = 0};
    DynStr error = {0};
    if (prepare(p) < 0) {
        return NULL;
    }
    const DynGraph *g = &p->saving.graph;
    if (bools_of(&p->arena, given_object, g->outputs.n, &given) < 0 || bools_of(&p->arena, needs, g->inputs.n, &wanted) < 0) {
        return NULL;
    }
    if (derive(p, g->outputs.at, g->outputs.n, given, wanted, &x, &error) == 0) {
        made = gradient_part(p, &x, wanted);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: gradients of a part of %s: %s", g->name, dyn_str_at(&error));
    }
    if (x.graph.arena != NULL) {
        dyn_graph_free(&x.graph);
    }
    dyn_str_free(&error);
    return made;
}

static PyObject *part_gradient(PyObject *self, PyObject *args) {
    DynPart *p = (DynPart *)self;
    PyObject *given, *needs, *known = PyDict_GetItemWithError(p->known, args);
    if (known != NULL || PyErr_Occurred()) {
        return Py_XNewRef(known);
    }
    return PyArg_ParseTuple(args, "OO", &given, &needs) ? kept(p, args, new_gradient(p, given, needs)) : NULL;
}

static PyObject *part_text(PyObject *self, void *none) {
    DynStr s = {0};
    dyn_graph_print(&((DynPart *)self)->graph, &s);
    PyObject *text = PyUnicode_FromString(dyn_str_at(&s));
    dyn_str_free(&s);
    return text;
}

static PyMethodDef methods[] = {
    {"run", part_run, METH_VARARGS, "run(numbers, tensors, saving): its outputs."},
    {"plan", part_plan, METH_O, "plan(needs): which outputs require no gradients, and what is saved."},
    {"gradient", part_gradient, METH_VARARGS, "gradient(given, needs): the part that computes gradients of it."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef getters[] = {{"text", part_text, NULL, "The graph as text.", NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyTypeObject Part_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Part",
    .tp_doc = "A part of a graph that autograd follows.",
    .tp_basicsize = sizeof(DynPart),
    .tp_dealloc = part_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_methods = methods,
    .tp_getset = getters,
};

/* ---- calls */

PyObject *dyn_follow_part_call(DynPart *p, const DynScalar *sym, PyObject *const *inputs) {
    uint32_t n = p->graph.inputs.n;
    if (!dyn_follow_part_follows(p)) {
        bool grad = dyn_torch_grad_off();
        PyObject *made = run_unit(p, &p->plain, sym, inputs);
        dyn_torch_grad_back(grad);
        return made;
    }
    PyObject *numbers = PyBytes_FromStringAndSize((const char *)sym, (Py_ssize_t)(sizeof(*sym) * p->share->known));
    PyObject **args = PyMem_Malloc(sizeof(*args) * (n + 2)), *made = NULL, *apply = dyn_follow_apply();
    if (args == NULL) {
        PyErr_NoMemory();
    } else if (numbers != NULL && apply != NULL) {
        args[0] = (PyObject *)p;
        args[1] = numbers;
        memcpy(args + 2, inputs, sizeof(*args) * n);
        made = PyObject_Vectorcall(apply, args, n + 2, NULL);
    }
    if (made != NULL && !PyTuple_Check(made)) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_SystemError, "dynoc: an autograd function gave no tuple");
    }
    PyMem_Free(args);
    Py_XDECREF(numbers);
    return made;
}

int dyn_follow_init(PyObject *module) { return PyModule_AddType(module, &Part_Type); }
