/* follow_part.c: a part of a graph that autograd follows, and code for its values.
 *
 * Made by follow.c, called by hit_follow.c, and by follow_node.c through the node of autograd's that it is. A part owns its graph
 * and its artifacts; symbols are shared by the parts of one graph, and by the graphs of their gradients (follow_gradient.c),
 * which are parts again: so a gradient of a gradient is nothing new. A part that only changes its inputs in place has no outputs.
 */
#include "evalframe/follow_part.h"
#include "base/torch.h"
#include "codegen/run/flags.h"

/* ---- what parts share */

DynPartShare *dyn_part_share_new(const DynSyms *syms, const DynOptions *options) {
    DynPartShare *s = PyMem_RawCalloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->refs = 1;
    s->config = options == NULL ? dyn_config : dyn_options_config(options);
    s->wait = options != NULL && dyn_options_wait(options);
    s->replay = options != NULL && options->replay;
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
        dyn_str_free(&s->timing);
        dyn_str_free(&s->story);
        PyMem_RawFree(s->folder);
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
    DynPart *p = PyObject_New(DynPart, &dyn_follow_part_type);
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

int dyn_follow_part_cut(DynPart *p, const DynGraph *g, DynGraph *out, DynList inputs, DynList outputs, DynStr *error) {
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

bool *dyn_follow_part_reach(DynPart *p, const DynGraph *g, const bool *wanted) {
    bool *reached = DYN_NEW_N(&p->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; reached != NULL && i < g->inputs.n; i++) {
        reached[g->inputs.at[i]] = wanted[i];
    }
    if (reached != NULL) {
        dyn_derive_reach(g, g->nodes.n, reached);
    }
    return reached;
}

/* What autograd follows in eager has to be followed here: an output that requires gradients gets them from an input. */
static int look_at_outputs(DynPart *p, DynStr *error) {
    const DynGraph *g = &p->graph;
    const bool *reached = dyn_follow_part_reach(p, g, p->wanted);
    if (reached == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const DynNode *n = dyn_graph_node(g, g->outputs.at[i]);
        bool requires = n->flags & DYN_NODE_GRAD && !(n->flags & DYN_NODE_GRAD_LATER);
        if (requires && !reached[g->outputs.at[i]]) {
            dyn_str_printf(error, "%s: its gradient would be lost", dyn_ops[n->op].text);
            return -1;
        }
    }
    return 0;
}

static int describe(DynPart *p, DynStr *error) {
    const DynGraph *g = &p->graph;
    uint32_t *changes = DYN_NEW_N(&p->arena, uint32_t, g->nodes.n + 1);
    p->wanted = DYN_NEW_N(&p->arena, bool, g->inputs.n + 1);
    if (!DYN_ALLOCATED(changes, p->wanted)) {
        return -1;
    }
    p->nout = g->outputs.n;
    p->changes.at = changes;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_graph_node(g, i)->flags & DYN_NODE_APART) {
            changes[p->changes.n++] = i;
        }
    }
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        p->wanted[i] = (dyn_graph_node(g, g->inputs.at[i])->flags & DYN_NODE_GRAD) != 0;
    }
    return look_at_outputs(p, error);
}

DynPart *dyn_follow_part(DynPartShare *s, const DynGraph *g, DynList inputs, DynList outputs, const DynPart *of, DynStr *error) {
    DynPart *p = new_part(s);
    if (p == NULL) {
        return NULL;
    }
    p->number = of != NULL ? of->number : s->nparts++;
    p->order = of != NULL ? of->order + 1 : 0;
    p->known = PyDict_New();
    if (p->known == NULL || dyn_follow_part_cut(p, g, &p->graph, inputs, outputs, error) < 0 || describe(p, error) < 0) {
        if (error->n == 0 && !PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        Py_DECREF((PyObject *)p);
        return NULL;
    }
    return p;
}

/* ---- its code */

static DynLoops *stages(DynPartShare *s, Unit *u, DynArena *scratch, DynStr *source, DynStr *error) {
    const DynTarget *target = dyn_target_of(&u->graph);
    u->failed = DYN_R_NO_MEMORY;
    DynLoops *p = dyn_common(&u->graph, scratch) < 0 ? NULL : dyn_lower(&u->graph, &s->config, scratch, &u->failed, error);
    if (p != NULL && s->config.debug) {
        dyn_str_printf(&s->story, "\n# %s\n", u->name);
        dyn_loops_tell(p, &s->story);
    }
    bool done = p != NULL && dyn_recompute(p, &u->failed, error) == 0 && dyn_fuse(p, &u->failed, error) == 0 &&
                dyn_schedule(p, &u->failed, error) == 0 && dyn_plan(p, &u->failed, error) == 0;
#ifdef DYN_DEBUG
    done = done && dyn_loops_verify(p, error) == 0;
#endif
    return done && target->emit(p, source, &u->failed, error) == 0 ? p : NULL;
}

int dyn_follow_part_copy(DynPart *p, DynGraph *out, DynStr *error) {
    DynList inputs = {p->graph.inputs.at, p->graph.inputs.n}, outputs = {p->graph.outputs.at, p->graph.outputs.n};
    return dyn_follow_part_cut(p, &p->graph, out, inputs, p->changes.n > 0 ? p->changes : outputs, error);
}

static void compile(DynPart *p, Unit *u) {
    DynArena scratch;
    DynStr source = {0}, error = {0};
    if (u->artifact != NULL || u->failed != DYN_R_OK || !p->share->compiles) {
        return;
    }
    int64_t began = dyn_now_ns();
    dyn_arena_init(&scratch);
    dyn_follow_name(p, u);
    DynLoops *loops = stages(p->share, u, &scratch, &source, &error);
    const DynLoops *kept = loops == NULL ? NULL : dyn_loops_keep(loops, &p->arena);
    if (kept != NULL) {
        u->artifact = dyn_artifact_new(dyn_target_of(&u->graph), kept, &source, &u->graph, &p->share->config);
    }
    if (u->artifact != NULL && p->share->replay) {
        dyn_artifact_replay(u->artifact);
    }
    dyn_follow_note(p, u, dyn_now_ns() - began);
    if (u->artifact == NULL) {
        dyn_count_reason("graphs_failed", u->failed == DYN_R_OK ? DYN_R_LOWERING : u->failed);
        if (u->graph.device == 0) { /* there such a graph is left to eager: follow.c says so */
            dyn_warn_once(u->failed, "a part of %s: %s", u->graph.name, dyn_str_at(&error));
        }
    } else {
        u->failed = DYN_R_OK;
        dyn_artifact_build(u->artifact, p->share->wait);
    }
    dyn_arena_free(&scratch);
    dyn_str_free(&source);
    dyn_str_free(&error);
}

/* The plain graph is copied when it is first needed, and each is compiled then. */
int dyn_follow_part_make(DynPart *p, Unit *u) {
    DynStr error = {0};
    bool made = u->graph.arena != NULL || dyn_follow_part_copy(p, &u->graph, &error) == 0;
    if (made) {
        compile(p, u);
    } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: a part of %s: %s", p->graph.name, dyn_str_at(&error));
    }
    dyn_str_free(&error);
    return made ? 0 : -1;
}

/* Is there code for it, or will there be none, so that it is run node by node? That isn't done for tensors on a device but where
 * autograd has no other way. */
static bool is_ready(Unit *u) {
    const char *detail;
    if (u->artifact == NULL) {
        return u->graph.device == 0;
    }
    if (dyn_artifact_tier(u->artifact) != DYN_TIER_EAGER) {
        return true;
    }
    dyn_build_poll();
    return u->graph.device == 0 && dyn_artifact_failure(u->artifact, &detail) != DYN_R_OK;
}

/* ---- running it */

static PyObject *run_nodes(const DynGraph *g, DynRun *run) {
    PyObject **values = PyMem_Calloc(g->nodes.n + 1, sizeof(*values)), *made = values == NULL ? NULL : PyTuple_New(g->outputs.n);
    for (uint32_t i = 0; made != NULL && i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        values[i] = dyn_interp_node(g, run, values, i);
        uint32_t changed = dyn_node_stores(n) ? dyn_graph_counter(g, n) : DYN_NONE;
        bool counts = changed != DYN_NONE && dyn_graph_node(g, changed)->op == DYN_OP_INPUT;
        if (values[i] == NULL || (counts && dyn_torch_bump(&values[changed], 1) < 0)) {
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
    PyObject *silent = dyn_flags_silent();
    bool grad = dyn_torch_grad_off();
    PyObject *made = run_nodes(g, run);
    dyn_torch_grad_back(grad);
    dyn_flags_lenient(silent);
    return made;
}

/* Each tensor becomes what this method of it gives. argument: NULL: it has none. */
static int replace(PyObject **tensors, Py_ssize_t n, const char *method, PyObject *argument) {
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *made = PyObject_CallMethod(tensors[i], method, argument == NULL ? NULL : "O", argument);
        if (made == NULL) {
            return -1;
        }
        Py_SETREF(tensors[i], made);
    }
    return 0;
}

/* Inputs that the part changes in place were changed `here`: that goes to where they lie. */
static int copy_changed(const DynGraph *g, PyObject *const *inputs, PyObject *const *here) {
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        bool changed = here[i] != inputs[i] && dyn_follow_is_written(g, g->inputs.at[i]);
        PyObject *done = changed ? PyObject_CallMethod(inputs[i], "copy_", "O", here[i]) : Py_NewRef(Py_None);
        Py_XDECREF(done);
        if (done == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Tells why the part isn't run by kernels: there is no code, or the device refused it. */
static void tell_here(const Unit *u) {
    const char *detail = NULL;
    DynReason why = u->artifact == NULL ? u->failed : dyn_artifact_failure(u->artifact, &detail);
    why = why == DYN_R_OK ? DYN_R_DEVICE : why;
    dyn_count_reason("graph_breaks", why);
    dyn_warn_once(why, "a part of %s is computed on this machine, not on its device: %s", u->graph.name,
                  detail == NULL ? "there is no code that the device took" : detail);
}

/* In this machine's memory, of a part whose tensors lie on a device: where kernels for it can't be had. */
static PyObject *run_here(const Unit *u, DynRun *run) {
    const DynGraph *g = &u->graph;
    tell_here(u);
    PyObject **here = PyMem_Calloc(g->inputs.n + 1, sizeof(*here)), *made = NULL;
    if (here == NULL) {
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        here[i] = Py_NewRef(run->inputs[i]);
    }
    DynRun there = *run;
    there.inputs = here;
    bool grad = dyn_torch_grad_off();
    made = replace(here, g->inputs.n, "cpu", NULL) < 0 ? NULL : run_by_numpy(g, &there);
    PyObject *device = dyn_torch_device_object(g->device), **outputs = made == NULL ? NULL : PySequence_Fast_ITEMS(made);
    bool back = made != NULL && device != NULL && copy_changed(g, run->inputs, here) == 0;
    if (!back || replace(outputs, g->outputs.n, "to", device) < 0) {
        Py_CLEAR(made);
    }
    dyn_torch_grad_back(grad);
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        Py_DECREF(here[i]);
    }
    PyMem_Free(here);
    return made;
}

/* By compiled code, where there is some that was found to be right. On a device there is nothing better to do meanwhile than to
 * wait for it. */
static DynRunStatus run_compiled(DynPart *p, Unit *u, DynRun *run) {
    if (u->graph.device != 0 && u->artifact != NULL && !is_ready(u)) {
        dyn_artifact_build(u->artifact, true);
    }
    bool there = u->artifact != NULL && is_ready(u) && dyn_artifact_tier(u->artifact) != DYN_TIER_EAGER;
    if (!there || u->verify.differs) {
        return DYN_RUN_AGAIN;
    }
    bool due = run->config->verify && dyn_verify_is_due(&u->verify, u->artifact, &u->graph);
    return due ? dyn_verify_run(&u->verify, u->artifact, &u->graph, run, &p->arena) : dyn_artifact_run(u->artifact, run);
}

/* Symbols that gradients brought with them. Those that can't be computed are of values that aren't there yet. */
static void fill_symbols(const DynPartShare *s, DynScalar *sym) {
    for (uint32_t i = s->known; i < s->syms.v.n; i++) {
        if (dyn_sym_eval_row(&s->syms, i, sym, &sym[i]) < 0) {
            sym[i].i = 0;
        }
    }
}

static void drop_tensors(PyObject **all, uint32_t n) {
    for (uint32_t i = 0; all != NULL && i < n; i++) {
        Py_XDECREF(all[i]);
    }
    PyMem_Free(all);
}

/* Does input i lie otherwise than the graph wants it? */
static bool lies_otherwise(const DynGraph *g, uint32_t i, PyObject *tensor) {
    DynArrayView v;
    DynLayout layout;
    if (!(dyn_graph_node(g, g->inputs.at[i])->flags & DYN_NODE_DENSE) || tensor == NULL || !dyn_array_look(tensor, &v)) {
        return false;
    }
    dyn_layout_of(&v, &layout);
    return layout.kind != DYN_LAYOUT_C;
}

static bool lie_as_wanted(const DynGraph *g, PyObject *const *inputs) {
    bool so = true;
    for (uint32_t i = 0; i < g->inputs.n && so; i++) {
        so = !lies_otherwise(g, i, inputs[i]);
    }
    return so;
}

/* Inputs as tensors that lie as the graph wants it, also those that are pieces: a new array of new references. NULL with an
 * exception. */
static PyObject **as_tensors(const DynGraph *g, const DynRun *run) {
    PyObject **all = PyMem_Calloc(g->inputs.n + 1, sizeof(*all));
    bool made = all != NULL;
    for (uint32_t i = 0, k = 0; i < g->inputs.n && made; i++) {
        bool apart = run->inputs[i] != NULL;
        all[i] = apart ? Py_NewRef(run->inputs[i]) : dyn_torch_window(run->pieces.block, &run->pieces.at[k++].at, DYN_LOOK_VIEW);
        made = all[i] != NULL && (!lies_otherwise(g, i, all[i]) || replace(all + i, 1, "contiguous", NULL) == 0);
    }
    if (all == NULL) {
        PyErr_NoMemory();
    } else if (!made) {
        drop_tensors(all, g->inputs.n);
    }
    return made ? all : NULL;
}

/* By whatever there is. *status: AGAIN: outputs are to be made node by node. */
static int run_with(DynPart *p, Unit *u, DynRun *run, DynRunStatus *status) {
    const DynArtifact *a = u->artifact;
    bool taken = run->pieces.n == 0 || (a != NULL && dyn_artifact_takes_pieces(a) && !run->config->verify);
    bool direct = taken && lie_as_wanted(&u->graph, run->inputs);
    PyObject **all = direct ? NULL : as_tensors(&u->graph, run);
    if (!direct && all == NULL) {
        return -1;
    }
    DynRun there = *run;
    there.inputs = direct ? run->inputs : all;
    there.pieces.n = direct ? run->pieces.n : 0;
    *status = run_compiled(p, u, &there);
    drop_tensors(all, u->graph.inputs.n);
    return 0;
}

/* Node by node: a tuple of all outputs. */
static PyObject *run_without_code(Unit *u, DynRun *run) {
    const DynGraph *g = &u->graph;
    DynRun there = *run;
    PyObject **all = as_tensors(g, run), *made = NULL;
    if (all != NULL) {
        there.inputs = all;
        there.pieces.n = 0;
        made = g->device == 0 ? run_by_numpy(g, &there) : run_here(u, &there);
        drop_tensors(all, g->inputs.n);
    }
    return made;
}

static PyObject *tuple_of(PyObject **outputs, uint32_t n) {
    PyObject *made = PyTuple_New(n);
    for (uint32_t i = 0; i < n; i++) {
        if (made == NULL) {
            Py_XDECREF(outputs[i]);
        } else {
            PyTuple_SET_ITEM(made, i, outputs[i] == NULL ? Py_NewRef(Py_None) : outputs[i]);
        }
    }
    return made;
}

PyObject *dyn_follow_part_run(DynPart *p, Unit *u, const DynScalar *known, PyObject *const *inputs, const DynPieces *pieces) {
    DynPartShare *s = p->share;
    if (dyn_follow_part_make(p, u) < 0) {
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
    run.pieces = pieces == NULL ? run.pieces : *pieces;
    DynRunStatus status = DYN_RUN_ERROR;
    int done = run_with(p, u, &run, &status);
    if (done == 0 && status == DYN_RUN_AGAIN) {
        made = run_without_code(u, &run);
    } else if (done == 0 && status == DYN_RUN_OK) {
        made = tuple_of(outputs, u->graph.outputs.n);
    }
    PyMem_Free(sym);
    PyMem_Free(outputs);
    return made;
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
    bool follows = dyn_follow_part_follows(p), ahead = follows && p->graph.device != 0;
    int done = follows && dyn_follow_part_prepare(p) < 0 ? -1 : dyn_follow_part_make(p, follows ? &p->saving : &p->plain);
    if (done == 0 && ahead) { /* there are no other tiers that could serve until backward's code is there */
        p->expected = dyn_follow_part_expected(p);
        done = p->expected == NULL ? -1 : dyn_follow_part_make(p->expected, &p->expected->plain);
    }
    if (done < 0) {
        PyErr_Clear();
    }
    return done;
}

bool dyn_follow_part_has_code(const DynPart *p) {
    return dyn_follow_part_artifact(p) != NULL && (p->expected == NULL || p->expected->plain.artifact != NULL);
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
        bytes += Py_IS_TYPE(first, &dyn_follow_part_type) ? dyn_follow_part_bytes((const DynPart *)first) : 0;
    }
    return bytes;
}

int dyn_follow_part_times(const DynPart *p, PyObject *list) {
    const Unit *units[2] = {&p->plain, &p->saving};
    PyObject *key, *made;
    Py_ssize_t at = 0;
    int done = 0;
    for (int i = 0; i < 2 && done == 0; i++) {
        done = units[i]->artifact == NULL ? 0 : dyn_artifact_times(units[i]->artifact, list);
    }
    while (done == 0 && PyDict_Next(p->known, &at, &key, &made)) {
        PyObject *first = PyTuple_Check(made) && PyTuple_GET_SIZE(made) > 0 ? PyTuple_GET_ITEM(made, 0) : Py_None;
        done = Py_IS_TYPE(first, &dyn_follow_part_type) ? dyn_follow_part_times((const DynPart *)first, list) : 0;
    }
    return done;
}

uint32_t dyn_follow_part_outputs(const DynPart *p) { return p->prepared ? dyn_follow_block_width(p) : p->nout; }

bool dyn_follow_part_is_ready(DynPart *p) {
    return is_ready(p->prepared ? &p->saving : &p->plain) && (p->expected == NULL || is_ready(&p->expected->plain));
}

PyTypeObject dyn_follow_part_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "dynoc._dynoc.Part",
    .tp_doc = "A part of a graph that autograd follows.",
    .tp_basicsize = sizeof(DynPart),
    .tp_dealloc = part_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* ---- calls */

PyObject *dyn_follow_part_call(DynPart *p, const DynScalar *sym, PyObject *const *inputs) {
    if (dyn_follow_part_follows(p)) {
        return dyn_follow_node_apply(p, sym, inputs);
    }
    bool grad = dyn_torch_grad_off();
    PyObject *made = dyn_follow_part_run(p, &p->plain, sym, inputs, NULL);
    dyn_torch_grad_back(grad);
    return made;
}

int dyn_follow_init(PyObject *module) {
    return PyModule_AddType(module, &dyn_follow_part_type) < 0 ? -1 : dyn_follow_node_init(module);
}
