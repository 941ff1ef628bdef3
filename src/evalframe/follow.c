/* follow.c: a graph whose values require gradients as a list of steps.
 *
 * Called by compile.c in place of the stages of the back end. What Python sees, what a call takes, and what these are views of,
 * is a tensor of autograd's own, so that hooks on it, and gradients with regard to it, are as in eager: nodes behind it take it
 * from there. Nodes are given levels: a part is what has one level, calls and views stand between; calls keep their order. */
#include "evalframe/follow.h"

typedef struct Split {
    const DynGraph *g;
    DynArena *arena;
    uint32_t *level;
    bool *shown;  /* it is a tensor of its own between the steps */
    bool *stored; /* storages that are written */
    DynReason *why;
    DynStr *error;
} Split;

static const DynNode *node_at(const Split *s, uint32_t id) { return dyn_graph_node(s->g, id); }
static bool is_call(const DynNode *n) { return dyn_node_calls(n) || n->op == DYN_OP_RESULT; }
static bool is_view(const DynNode *n) { return (n->flags & DYN_NODE_VIEW) != 0; }
static bool is_computed(const DynNode *n) { return n->op != DYN_OP_INPUT && !is_call(n) && !is_view(n); }

bool dyn_follow_wanted(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        if (n->op != DYN_OP_INPUT && n->flags & DYN_NODE_GRAD) {
            return true;
        }
    }
    return false;
}

/* ---- what can't be done right */

static int refuse(Split *s, uint32_t id, const char *what) {
    *s->why = DYN_R_REQUIRES_GRAD;
    dyn_str_printf(s->error, "%%%u (%s): %s", id, dyn_ops[node_at(s, id)->op].text, what);
    return -1;
}

/* A store is one that a rule made, into memory that nobody has read: autograd sees no change in place then. */
static int look_at_store(Split *s, uint32_t id) {
    uint32_t storage = node_at(s, id)->storage;
    if (dyn_ops[node_at(s, storage)->op].kind != DYN_K_CREATE) {
        return refuse(s, id, "a tensor is changed in place");
    }
    for (uint32_t i = storage + 1; i < id; i++) {
        const DynNode *n = node_at(s, i);
        for (int k = dyn_node_stores(n); k < n->nargs && !is_view(n); k++) {
            if (n->args[k].kind == DYN_ARG_NODE && node_at(s, n->args[k].id)->storage == storage) {
                return refuse(s, id, "a tensor is changed in place that was used before");
            }
        }
    }
    s->stored[storage] = true;
    return 0;
}

static int look(Split *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        if (n->op == DYN_OP_INPUT && !(n->flags & DYN_NODE_TENSOR)) {
            return refuse(s, i, "an array beside tensors that require gradients");
        }
        if (n->flags & (DYN_NODE_NPSCALAR | DYN_NODE_OBJECT)) {
            return refuse(s, i, "no tensor");
        }
        if (dyn_node_calls(n) && s->g->externs.at[n->extern_index].writes >= 0) {
            return refuse(s, i, "a tensor is changed in place");
        }
        if (dyn_node_stores(n) && look_at_store(s, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- what is shown */

static void show(Split *s, uint32_t id) {
    while (!s->shown[id]) {
        s->shown[id] = true;
        if (!is_view(node_at(s, id))) {
            return;
        }
        id = node_at(s, id)->args[0].id;
    }
}

static void show_all(Split *s) {
    for (uint32_t i = 0; i < s->g->outputs.n; i++) {
        show(s, s->g->outputs.at[i]);
    }
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        for (int k = 0; k < n->nargs && is_call(n); k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                show(s, n->args[k].id);
            }
        }
        bool by_torch = is_view(n) && n->flags & DYN_NODE_GRAD && !dyn_derive_knows(s->g, i);
        if (is_call(n) || n->op == DYN_OP_INPUT || by_torch) {
            show(s, i);
        }
    }
}

/* ---- levels */

/* The level at which a symbol is known. */
static uint32_t level_of_symbol(const Split *s, uint32_t sym) {
    uint32_t after = dyn_sym_at(s->g->syms, sym)->after;
    return after == 0 || after == DYN_NONE ? 0 : s->level[after - 1];
}

/* The level at which node `by` can take node `id`. */
static uint32_t level_for(const Split *s, uint32_t id, const DynNode *by) {
    const DynNode *n = node_at(s, id);
    uint32_t at = s->stored[n->storage] && !s->shown[id] ? s->level[n->storage] : s->level[id];
    bool outside = is_call(by) || (is_view(by) && s->shown[by - s->g->nodes.at]);
    bool apart = is_computed(n) && s->shown[id] && (outside || n->flags & DYN_NODE_GRAD);
    return at + apart;
}

static uint32_t max_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

static uint32_t level_of(const Split *s, uint32_t id) {
    const DynNode *n = node_at(s, id);
    uint32_t level = 0;
    for (int k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            level = max_of(level, level_for(s, n->args[k].id, n));
        } else if (n->args[k].kind == DYN_ARG_SYM) {
            level = max_of(level, level_of_symbol(s, n->args[k].id));
        }
    }
    for (int i = 0; i < n->ndim && !is_call(n); i++) {
        level = max_of(level, level_of_symbol(s, n->shape[i]));
    }
    return level;
}

static void give_levels(Split *s) {
    uint32_t of_call = 0;
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        s->level[i] = n->op == DYN_OP_RESULT ? s->level[n->args[0].id] : level_of(s, i);
        if (dyn_node_calls(n)) {
            s->level[i] = of_call = max_of(of_call, s->level[i]);
        }
        if (dyn_node_stores(n)) {
            s->level[n->storage] = max_of(s->level[n->storage], s->level[i]);
        }
    }
}

/* What a later level takes is shown, too: it is computed once. Of a view its base, as views cost nothing. */
static void show_across(Split *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        for (int k = 0; k < n->nargs; k++) {
            if (n->args[k].kind != DYN_ARG_NODE) {
                continue;
            }
            uint32_t of = n->args[k].id;
            while (is_view(node_at(s, of)) && !s->shown[of]) {
                of = node_at(s, of)->args[0].id;
            }
            uint32_t level = s->stored[n->storage] ? s->level[n->storage] : s->level[i];
            bool is_made_again = dyn_ops[node_at(s, of)->op].kind == DYN_K_CREATE && !s->stored[of];
            if (is_computed(node_at(s, of)) && !is_made_again && s->level[of] < level) {
                s->shown[of] = true;
            }
        }
    }
}

/* ---- steps */

static DynList copied(Split *s, const uint32_t *at, uint32_t n) {
    uint32_t *kept = DYN_NEW_N(s->arena, uint32_t, n + 1);
    if (kept != NULL) {
        memcpy(kept, at, sizeof(*at) * n);
    }
    return (DynList){kept, kept == NULL ? 0 : n};
}

/* The nodes that a part with these outputs takes from outside: what is shown, and isn't of its own level and computed. */
static uint32_t find_inputs(Split *s, uint32_t level, const uint32_t *outputs, uint32_t noutputs, uint32_t *inputs) {
    uint32_t n = 0, total = s->g->nodes.n;
    bool *stops = DYN_NEW_N(s->arena, bool, total + 1), *needed = DYN_NEW_N(s->arena, bool, total + 1);
    if (!DYN_ALLOCATED(stops, needed)) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < total; i++) {
        stops[i] = s->shown[i] && !(is_computed(node_at(s, i)) && s->level[i] == level);
    }
    for (uint32_t i = 0; i < noutputs; i++) {
        needed[outputs[i]] = true;
    }
    dyn_part_mark(s->g, stops, needed);
    for (uint32_t i = 0; i < total; i++) {
        if (needed[i] && stops[i]) {
            inputs[n++] = i;
        }
    }
    return n;
}

static int add_part(Split *s, DynFollow *f, DynPartShare *share, uint32_t level, uint32_t *room) {
    uint32_t n = 0, total = s->g->nodes.n;
    for (uint32_t i = 0; i < total; i++) {
        if (s->shown[i] && is_computed(node_at(s, i)) && s->level[i] == level) {
            room[n++] = i;
        }
    }
    if (n == 0) {
        return 0;
    }
    uint32_t ninputs = find_inputs(s, level, room, n, room + total);
    if (ninputs == DYN_NONE) {
        return -1;
    }
    DynFollowStep step = {.kind = DYN_FOLLOW_PART};
    step.outputs = copied(s, room, n);
    step.inputs = copied(s, room + total, ninputs);
    if (!DYN_ALLOCATED(step.outputs.at, step.inputs.at)) {
        return -1;
    }
    step.part = dyn_follow_part(share, s->g, step.inputs, step.outputs, s->error);
    if (step.part == NULL) {
        *s->why = s->error->n > 0 ? DYN_R_REQUIRES_GRAD : DYN_R_NO_MEMORY;
        PyErr_Clear();
        return -1;
    }
    if (dyn_vec_push(&f->steps, step) < 0) {
        Py_DECREF((PyObject *)step.part);
        return -1;
    }
    return dyn_follow_part_compile(step.part);
}

static int add_steps(Split *s, DynFollow *f, DynPartShare *share) {
    uint32_t total = s->g->nodes.n, last = 0, *room = DYN_NEW_N(s->arena, uint32_t, 2 * total + 2);
    for (uint32_t i = 0; i < total; i++) {
        last = max_of(last, s->level[i]);
    }
    for (uint32_t level = 0; room != NULL && level <= last; level++) {
        for (uint32_t i = 0; i < total; i++) {
            const DynNode *n = node_at(s, i);
            bool view = is_view(n) && s->shown[i];
            if (s->level[i] != level || (!dyn_node_calls(n) && !view)) {
                continue;
            }
            DynFollowStep step = {.kind = view ? DYN_FOLLOW_VIEW : DYN_FOLLOW_CALL, .node = i};
            if (dyn_vec_push(&f->steps, step) < 0) {
                return -1;
            }
        }
        if (add_part(s, f, share, level, room) < 0) {
            return -1;
        }
    }
    return room == NULL ? -1 : 0;
}

DynFollow *dyn_follow_new(const DynGraph *g, const DynOptions *options, DynReason *why, DynStr *error) {
    DynFollow *f = PyMem_RawCalloc(1, sizeof(*f));
    DynPartShare *share = dyn_part_share_new(g->syms, options);
    *why = DYN_R_NO_MEMORY;
    int done = -1;
    if (f != NULL && share != NULL) {
        dyn_arena_init(&f->arena);
        Split s = {.g = g, .arena = &f->arena, .why = why, .error = error};
        s.level = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        s.shown = DYN_NEW_N(s.arena, bool, g->nodes.n + 1);
        s.stored = DYN_NEW_N(s.arena, bool, g->nodes.n + 1);
        if (DYN_ALLOCATED(s.level, s.shown, s.stored) && look(&s) == 0) {
            show_all(&s);
            give_levels(&s);
            show_across(&s);
            done = add_steps(&s, f, share);
        }
    }
    if (share != NULL) {
        dyn_part_share_drop(share);
    }
    if (done < 0 && f != NULL) {
        dyn_follow_free(f);
    }
    return done < 0 ? NULL : f;
}

void dyn_follow_free(DynFollow *f) {
    for (uint32_t i = 0; i < f->steps.n; i++) {
        Py_XDECREF((PyObject *)f->steps.at[i].part);
    }
    dyn_vec_free(&f->steps);
    dyn_arena_free(&f->arena);
    PyMem_RawFree(f);
}

bool dyn_follow_is_ready(const DynFollow *f) {
    bool ready = true;
    for (uint32_t i = 0; i < f->steps.n; i++) {
        ready = ready && (f->steps.at[i].part == NULL || dyn_follow_part_is_ready(f->steps.at[i].part));
    }
    return ready;
}

/* ---- values of a graph that was left */

typedef struct Ends {
    DYN_VEC(uint32_t)
    inputs;
    DYN_VEC(uint32_t)
    outputs;
    DYN_VEC(PyObject *)
    tensors; /* what the inputs are now; borrowed */
} Ends;

/* Lists the nodes that are needed and aren't there, and those among the others that they are computed from. */
static int find_ends(const DynGraph *g, const DynRun *run, const bool *need, Ends *e) {
    DynArena arena;
    dyn_arena_init(&arena);
    bool *stops = DYN_NEW_N(&arena, bool, g->nodes.n + 1), *needed = DYN_NEW_N(&arena, bool, g->nodes.n + 1);
    int done = DYN_ALLOCATED(stops, needed) ? 0 : -1;
    for (uint32_t i = 0; i < g->nodes.n && done == 0; i++) {
        stops[i] = run->values[i] != NULL;
        needed[i] = need[i] && !stops[i];
        done = needed[i] ? dyn_vec_push(&e->outputs, i) : 0;
    }
    if (done == 0) {
        dyn_part_mark(g, stops, needed);
    }
    for (uint32_t i = 0; i < g->nodes.n && done == 0; i++) {
        if (needed[i] && stops[i]) {
            done = dyn_vec_push(&e->inputs, i) < 0 || dyn_vec_push(&e->tensors, run->values[i]) < 0 ? -1 : 0;
        }
    }
    dyn_arena_free(&arena);
    return done;
}

int dyn_follow_complete(const DynGraph *g, DynRun *run, const bool *need) {
    Ends e = {{0}};
    DynStr error = {0};
    DynPart *part = NULL;
    PyObject *made = NULL;
    int done = find_ends(g, run, need, &e);
    if (done == 0 && e.outputs.n > 0) {
        DynPartShare *share = dyn_part_share_new(g->syms, NULL);
        DynList inputs = {e.inputs.at, e.inputs.n}, outputs = {e.outputs.at, e.outputs.n};
        part = share == NULL ? NULL : dyn_follow_part(share, g, inputs, outputs, &error);
        made = part == NULL ? NULL : dyn_follow_part_call(part, run->sym, e.tensors.at);
        for (uint32_t i = 0; made != NULL && i < outputs.n; i++) {
            run->values[outputs.at[i]] = Py_NewRef(PyTuple_GET_ITEM(made, i));
        }
        done = made == NULL ? -1 : 0;
        if (share != NULL) {
            dyn_part_share_drop(share);
        }
    }
    if (done < 0 && !PyErr_Occurred()) {
        PyErr_Format(PyExc_SystemError, "dynoc: values of a graph that was left: %s", dyn_str_at(&error));
    }
    Py_XDECREF(made);
    Py_XDECREF((PyObject *)part);
    dyn_vec_free(&e.inputs);
    dyn_vec_free(&e.outputs);
    dyn_vec_free(&e.tensors);
    dyn_str_free(&error);
    return done;
}
