/* follow.c: a graph whose values require gradients as a list of steps.
 *
 * Called by compile.c in place of the stages of the back end. What Python sees, what a call takes, and what these are views of,
 * is a tensor of autograd's own, so that hooks on it, and gradients with regard to it, are as in eager: nodes behind it take it
 * from there. Nodes are given levels: a part is what has one level, calls and views stand between; calls keep their order. A
 * small product (dyn_derive_is_product) is computed in its part, which the graph can't be left in.
 *
 * What is changed in place is such a tensor, too. A change that autograd has to see is a call; another is a STORE, and those of
 * one level are a part of their own, behind the part of that level: so there is a moment for each change, and what reads the
 * memory before or behind it has a level that says so. */
#include "evalframe/follow.h"

typedef struct Split {
    DynGraph *g;
    DynArena *arena;
    uint32_t *level;
    bool *shown;       /* it is a tensor of its own between the steps */
    bool *stored;      /* storages that are written before anybody reads them */
    uint32_t *changed; /* storages: 1 + the last node that changes them in place; 0: none does */
    uint32_t *read;    /* storages: the moment of the last that read them … */
    uint32_t *wrote;   /* … and that changed them */
    uint32_t *left;    /* 1 + the last call in front of which the graph may be left and the node is needed; 0: none */
    DynReason *why;
    DynStr *error;
} Split;

static const DynNode *node_at(const Split *s, uint32_t id) { return dyn_graph_node(s->g, id); }
static bool is_view(const DynNode *n) { return (n->flags & DYN_NODE_VIEW) != 0; }
static bool is_change(const DynNode *n) { return (n->flags & DYN_NODE_APART) != 0; }

/* A call of PyTorch's that is a step of its own; a small product is made within a part. */
static bool calls(const Split *s, const DynNode *n) {
    return dyn_node_calls(n) && !dyn_derive_is_product(s->g, (uint32_t)(n - s->g->nodes.at));
}

static bool is_call(const Split *s, const DynNode *n) { return calls(s, n) || n->op == DYN_OP_RESULT; }

static bool is_computed(const Split *s, const DynNode *n) { return n->op != DYN_OP_INPUT && !is_call(s, n) && !is_view(n); }

/* A complex number of the program's: the parts that compute with it make it. */
static bool is_number(const DynNode *n) { return n->op == DYN_OP_COMPLEX; }

static uint32_t max_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

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

/* Is it into memory that was made here, and that nobody has read or changed? Autograd sees no change in place then. */
static bool fills(const Split *s, uint32_t id) {
    uint32_t storage = node_at(s, id)->storage;
    if (dyn_ops[node_at(s, storage)->op].kind != DYN_K_CREATE || s->changed[storage] != 0) {
        return false;
    }
    for (uint32_t i = storage + 1; i < id; i++) {
        const DynNode *n = node_at(s, i);
        for (int k = dyn_node_stores(n); k < n->nargs && !is_view(n); k++) {
            if (n->args[k].kind == DYN_ARG_NODE && node_at(s, n->args[k].id)->storage == storage) {
                return false;
            }
        }
    }
    return true;
}

static int look_at_store(Split *s, uint32_t id) {
    DynNode *n = dyn_graph_node(s->g, id);
    if (fills(s, id)) {
        s->stored[n->storage] = true;
        return 0;
    }
    if (n->flags & DYN_NODE_GRAD) {
        return refuse(s, id, "a tensor is changed in place");
    }
    n->flags |= DYN_NODE_APART;
    s->changed[n->storage] = id + 1;
    return 0;
}

/* What a call with an effect changes: what is known of it, or else any of its operands. */
static void look_at_call(Split *s, uint32_t id) {
    const DynNode *n = node_at(s, id);
    const DynExtern *x = &s->g->externs.at[n->extern_index];
    for (int k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE && (k == x->writes || (x->once && x->writes < 0))) {
            s->changed[node_at(s, n->args[k].id)->storage] = id + 1;
        }
    }
}

static int look(Split *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        if (n->op == DYN_OP_INPUT && !(n->flags & DYN_NODE_TENSOR)) {
            return refuse(s, i, "an array beside tensors that require gradients");
        }
        if (n->flags & (DYN_NODE_NPSCALAR | DYN_NODE_OBJECT) && !is_number(n)) {
            return refuse(s, i, "no tensor");
        }
        if (calls(s, n)) {
            look_at_call(s, i);
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

/* What a change in place is computed from, as far as autograd follows it, is computed where that is, and no second time. */
static void show_followed(Split *s, const DynNode *n) {
    for (int k = 0; k < n->nargs; k++) {
        const DynNode *of = n->args[k].kind == DYN_ARG_NODE ? node_at(s, n->args[k].id) : NULL;
        if (of == NULL || s->shown[n->args[k].id]) {
            continue;
        }
        if (is_computed(s, of) && of->flags & DYN_NODE_GRAD) {
            show(s, n->args[k].id);
        } else {
            show_followed(s, of);
        }
    }
}

static void show_all(Split *s) {
    for (uint32_t i = 0; i < s->g->outputs.n; i++) {
        show(s, s->g->outputs.at[i]);
    }
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        for (int k = 0; k < n->nargs && is_call(s, n); k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                show(s, n->args[k].id);
            }
        }
        bool by_torch = is_view(n) && n->flags & DYN_NODE_GRAD && !dyn_derive_knows(s->g, i);
        if (is_call(s, n) || n->op == DYN_OP_INPUT || by_torch) {
            show(s, i);
        }
        if (is_change(n)) {
            show(s, n->storage);
            show_followed(s, n);
        }
    }
}

/* Does the node read memory that is changed behind it, by the time that the graph is left in front of call `left` - 1? */
static bool is_lost(const Split *s, uint32_t id, uint32_t left) {
    const DynNode *n = node_at(s, id);
    bool lost = s->stored[n->storage];
    for (int k = 0; k < n->nargs && !lost; k++) {
        uint32_t changed = n->args[k].kind == DYN_ARG_NODE ? s->changed[node_at(s, n->args[k].id)->storage] : 0;
        lost = changed > id + 1 && changed < left;
    }
    return lost;
}

/* 1 + the last call, behind node `id` and up to `left` - 1, in front of which the graph may be left: that isn't done in a part,
 * so a product there counts for the call before it. 0: there is none. */
static uint32_t last_leaving(const Split *s, uint32_t id, uint32_t left) {
    while (left > id + 1 && !calls(s, node_at(s, left - 1))) {
        left--;
    }
    return left > id + 1 ? left : 0;
}

/* Finds out up to which call a node is needed by who leaves the graph; what couldn't be computed then is shown. */
static void look_at_leaving(Split *s) {
    for (uint32_t i = s->g->nodes.n; i-- > 0;) {
        const DynNode *n = node_at(s, i);
        uint32_t left = s->left[i] = last_leaving(s, i, max_of(s->left[i], n->left));
        if (left == 0 || n->op == DYN_OP_INPUT || is_call(s, n)) {
            continue;
        }
        if (is_computed(s, n) && !s->shown[i] && is_lost(s, i, left)) {
            show(s, n->storage);
        }
        for (int k = 0; k < n->nargs && !(s->shown[i] && is_computed(s, n)); k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                s->left[n->args[k].id] = max_of(s->left[n->args[k].id], left);
            }
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
    uint32_t written = s->stored[n->storage] && !s->shown[id] ? s->level[n->storage] : 0;
    uint32_t at = max_of(s->level[id], written);
    bool outside = is_call(s, by) || (is_view(by) && s->shown[by - s->g->nodes.at]);
    bool apart = is_computed(s, n) && s->shown[id] && (outside || n->flags & DYN_NODE_GRAD);
    return at + apart;
}

static uint32_t level_of(const Split *s, uint32_t id) {
    const DynNode *n = node_at(s, id);
    uint32_t level = 0;
    for (int k = dyn_node_stores(n) && !is_change(n); k < n->nargs; k++) { /* memory is made with what fills it */
        if (n->args[k].kind == DYN_ARG_NODE) {
            level = max_of(level, level_for(s, n->args[k].id, n));
        } else if (n->args[k].kind == DYN_ARG_SYM) {
            level = max_of(level, level_of_symbol(s, n->args[k].id));
        }
    }
    for (int i = 0; i < n->ndim && !is_call(s, n); i++) {
        level = max_of(level, level_of_symbol(s, n->shape[i]));
    }
    return level;
}

/* When a node of a level runs: calls and views first, then what is computed, then changes in place. */
static uint32_t moment_of(const Split *s, uint32_t id, uint32_t level) {
    const DynNode *n = node_at(s, id);
    return 3 * level + (is_change(n) ? 2 : is_computed(s, n));
}

/* The lowest level from `level` on at which the node runs at that moment, or behind it. */
static uint32_t level_behind(const Split *s, uint32_t id, uint32_t level, uint32_t moment) {
    uint32_t phase = moment_of(s, id, 0);
    return max_of(level, moment > phase ? (moment - phase + 2) / 3 : 0);
}

static bool changes(const Split *s, uint32_t id, uint32_t storage) {
    const DynNode *n = node_at(s, id);
    if (!calls(s, n)) {
        return is_change(n) && n->storage == storage;
    }
    const DynExtern *x = &s->g->externs.at[n->extern_index];
    return x->writes >= 0 ? dyn_graph_written(s->g, id) == storage : x->once;
}

/* Reads and changes of memory that is changed keep their order. */
static uint32_t level_in_order(const Split *s, uint32_t id, uint32_t level) {
    const DynNode *n = node_at(s, id);
    for (int k = 0; k < n->nargs; k++) {
        uint32_t storage = n->args[k].kind == DYN_ARG_NODE ? node_at(s, n->args[k].id)->storage : DYN_NONE;
        if (storage != DYN_NONE && s->changed[storage] != 0) {
            level = level_behind(s, id, level, s->wrote[storage]);
            level = changes(s, id, storage) ? level_behind(s, id, level, s->read[storage]) : level;
        }
    }
    return level;
}

static void note_moments(Split *s, uint32_t id) {
    const DynNode *n = node_at(s, id);
    for (int k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            uint32_t storage = node_at(s, n->args[k].id)->storage, moment = moment_of(s, id, s->level[id]);
            uint32_t *last = changes(s, id, storage) ? &s->wrote[storage] : &s->read[storage];
            *last = max_of(*last, moment);
        }
    }
}

/* Calls and changes in place keep their order among each other: where the graph is left in front of a call, CPython makes the
 * changes that stand behind it, and none of those before it. */
static void give_levels(Split *s) {
    uint32_t of_call = 0, behind_changes = 0;
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const DynNode *n = node_at(s, i);
        s->level[i] = n->op == DYN_OP_RESULT ? s->level[n->args[0].id] : level_of(s, i);
        if (calls(s, n)) {
            s->level[i] = max_of(max_of(of_call, behind_changes), s->level[i]);
        } else if (is_change(n)) {
            s->level[i] = max_of(of_call, s->level[i]);
        }
        if (n->op !=
            DYN_OP_RESULT) { /* a view, too: one that is older than a change is a leaf for autograd, which no call changes */
            s->level[i] = level_in_order(s, i, s->level[i]);
        }
        if (n->op != DYN_OP_RESULT && !is_view(n)) {
            note_moments(s, i);
        }
        of_call = calls(s, n) ? s->level[i] : of_call;
        behind_changes = is_change(n) ? max_of(behind_changes, s->level[i] + 1) : behind_changes;
        if (dyn_node_stores(n) && !is_change(n)) {
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
            uint32_t level = s->stored[n->storage] && !is_change(n) ? s->level[n->storage] : s->level[i];
            bool is_made_again = dyn_ops[node_at(s, of)->op].kind == DYN_K_CREATE && !s->stored[of];
            if (is_computed(s, node_at(s, of)) && !is_made_again && s->level[of] < level) {
                s->shown[of] = true;
            }
        }
    }
}

/* Nobody but parts may take a number: what a call takes, and what Python gets, is a tensor. */
static int look_at_numbers(Split *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        if (s->shown[i] && is_number(node_at(s, i))) {
            return refuse(s, i, "no tensor");
        }
    }
    return 0;
}

/* ---- steps */

static DynList copied(Split *s, const uint32_t *at, uint32_t n) {
    uint32_t *kept = DYN_NEW_N(s->arena, uint32_t, n + 1);
    if (kept != NULL) {
        memcpy(kept, at, sizeof(*at) * n);
    }
    return (DynList){kept, kept == NULL ? 0 : n};
}

/* The nodes that a part with these outputs takes from outside: what is shown, and isn't of its own level and computed. Changes
 * in place take whole tensors, and find the views themselves. */
static uint32_t find_inputs(Split *s, uint32_t level, bool changing, const uint32_t *outputs, uint32_t noutputs,
                            uint32_t *inputs) {
    uint32_t n = 0, total = s->g->nodes.n;
    bool *stops = DYN_NEW_N(s->arena, bool, total + 1), *needed = DYN_NEW_N(s->arena, bool, total + 1);
    if (!DYN_ALLOCATED(stops, needed)) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < total; i++) {
        bool own = changing ? is_view(node_at(s, i)) : is_computed(s, node_at(s, i)) && s->level[i] == level;
        stops[i] = s->shown[i] && !own;
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

/* The tensors between the steps that are x.data and that these changes are made through. room: for as many as there are changes.
 */
static DynList find_renewed(Split *s, DynList changes, uint32_t *room) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < changes.n; i++) {
        const DynNode *change = node_at(s, changes.at[i]);
        uint32_t counter = dyn_graph_counter(s->g, change);
        if (counter != change->storage && s->shown[counter]) {
            room[n++] = counter;
        }
    }
    return copied(s, room, n);
}

/* The part with these outputs, of a level. room: for as many nodes as there are. */
static int add_part_of(Split *s, DynFollow *f, DynPartShare *share, uint32_t level, bool changing, DynList outputs,
                       uint32_t *room) {
    uint32_t ninputs = find_inputs(s, level, changing, outputs.at, outputs.n, room);
    if (ninputs == DYN_NONE) {
        return -1;
    }
    DynFollowStep step = {.kind = changing ? DYN_FOLLOW_CHANGES : DYN_FOLLOW_PART};
    step.outputs = copied(s, outputs.at, outputs.n);
    step.inputs = copied(s, room, ninputs);
    step.renewed = find_renewed(s, (DynList){outputs.at, changing ? outputs.n : 0}, room);
    if (!DYN_ALLOCATED(step.outputs.at, step.inputs.at, step.renewed.at)) {
        return -1;
    }
    step.part = dyn_follow_part(share, s->g, step.inputs, step.outputs, NULL, s->error);
    step.outputs.n = changing ? 0 : outputs.n;
    if (step.part == NULL) {
        *s->why = s->error->n > 0 ? DYN_R_REQUIRES_GRAD : DYN_R_NO_MEMORY;
        PyErr_Clear();
        return -1;
    }
    if (!changing) {
        dyn_follow_find_calls(s->g, s->arena, &step);
    }
    if (dyn_vec_push(&f->steps, step) < 0) {
        Py_DECREF((PyObject *)step.part);
        return -1;
    }
    int done = dyn_follow_part_compile(step.part);
    if (done == 0 && s->g->device != 0 && !dyn_follow_part_has_code(step.part)) {
        *s->why = DYN_R_REQUIRES_GRAD;
        dyn_str_puts(s->error, "there are no kernels on a device for a part of the graph, or for its gradients");
        return -1;
    }
    return done;
}

/* Does another node of its level take it? */
static bool is_taken_there(const Split *s, uint32_t id) {
    bool taken = false;
    for (uint32_t i = id + 1; i < s->g->nodes.n && !taken; i++) {
        const DynNode *n = node_at(s, i);
        bool there = s->level[i] == s->level[id] && !is_call(s, n) && !(is_view(n) && s->shown[i]);
        for (int k = 0; k < n->nargs && there; k++) {
            taken = taken || (n->args[k].kind == DYN_ARG_NODE && node_at(s, n->args[k].id)->storage == id && n->storage != id);
        }
    }
    return taken;
}

/* Is the node what one call gives, of nothing that is computed at its own level, and for nothing there? Where such calls are made
 * as they are, it is no part of what else there is. */
static bool stands_alone(const Split *s, const DynFollow *f, uint32_t id) {
    const DynWhole *w = f->plain ? dyn_follow_whole(s->g, id) : NULL;
    bool alone = w != NULL;
    for (int i = 0; alone && i < w->n; i++) {
        uint32_t of = w->operands[i];
        alone = w->args[i] != NULL || (s->shown[of] && !(is_computed(s, node_at(s, of)) && s->level[of] == s->level[id]));
    }
    return alone && dyn_follow_is_small(dyn_estimate_work(s->g, node_at(s, id), NULL)) && !is_taken_there(s, id);
}

/* What is computed at a level, or what is changed in place. */
static int add_parts(Split *s, DynFollow *f, DynPartShare *share, uint32_t level, bool changing, uint32_t *room) {
    uint32_t n = 0, total = s->g->nodes.n;
    for (uint32_t i = 0; i < total; i++) {
        bool belongs = changing ? is_change(node_at(s, i)) : s->shown[i] && is_computed(s, node_at(s, i));
        if (!belongs || s->level[i] != level) {
            continue;
        }
        if (!changing && stands_alone(s, f, i)) {
            if (add_part_of(s, f, share, level, false, (DynList){&i, 1}, room + total) < 0) {
                return -1;
            }
        } else {
            room[n++] = i;
        }
    }
    return n == 0 ? 0 : add_part_of(s, f, share, level, changing, (DynList){room, n}, room + total);
}

/* The split that gives a view, of which others are needed too. */
static const DynSplit *split_of(const Split *s, uint32_t id) {
    const DynSplit *found = NULL;
    uint32_t needed = 0;
    for (uint32_t i = 0; i < s->g->splits.n && found == NULL; i++) {
        const DynSplit *at = &s->g->splits.at[i];
        found = id >= at->first && id < at->first + at->n ? at : NULL;
    }
    for (uint32_t i = 0; found != NULL && i < found->n; i++) {
        bool same = ((node_at(s, found->first + i)->flags ^ node_at(s, id)->flags) & DYN_NODE_UNFOLLOWED) == 0;
        needed += same && s->shown[found->first + i];
    }
    return needed > 1 ? found : NULL;
}

/* A view, or a call of PyTorch's. The first step of a split makes all of its views. */
static int add_step(Split *s, DynFollow *f, uint32_t id, bool view, uint32_t *room) {
    DynFollowStep step = {.kind = view ? DYN_FOLLOW_VIEW : DYN_FOLLOW_CALL, .node = id};
    step.split = view ? split_of(s, id) : NULL;
    for (uint32_t i = 0; step.split != NULL && i < f->steps.n; i++) {
        if (f->steps.at[i].split == step.split) { /* it is made there */
            return 0;
        }
    }
    if (step.split != NULL) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < step.split->n; i++) {
            if (s->shown[step.split->first + i]) {
                room[n++] = step.split->first + i;
            }
        }
        step.outputs = copied(s, room, n);
        if (step.outputs.at == NULL) {
            return -1;
        }
    }
    return dyn_vec_push(&f->steps, step);
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
            if (s->level[i] != level || (!calls(s, n) && !view)) {
                continue;
            }
            if (add_step(s, f, i, view, room) < 0) {
                return -1;
            }
        }
        if (add_parts(s, f, share, level, false, room) < 0 || add_parts(s, f, share, level, true, room) < 0) {
            return -1;
        }
    }
    return room == NULL ? -1 : 0;
}

static void taken_by(uint32_t *last, uint32_t node, uint32_t step) { last[node] = max_of(last[node], step + 1); }

/* Of each node, 1 + the last step that takes it, or in front of which the graph may be left and it is needed; 0: none does. */
static void find_last(const Split *s, const DynFollow *f, uint32_t *last) {
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynFollowStep *step = &f->steps.at[i];
        const DynNode *n = step->part != NULL ? NULL : node_at(s, step->node);
        for (int k = 0; n != NULL && k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                taken_by(last, n->args[k].id, i);
            }
        }
        for (uint32_t k = 0; k < step->inputs.n; k++) {
            taken_by(last, step->inputs.at[k], i);
        }
        for (uint32_t k = 0; k < step->renewed.n; k++) {
            taken_by(last, step->renewed.at[k], i);
        }
        for (uint32_t k = 0; n != NULL && calls(s, n) && k < s->g->nodes.n; k++) {
            if (s->left[k] > step->node) { /* results of a call come behind it, and are counted */
                taken_by(last, k, i);
            }
        }
    }
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        last[i] = node_at(s, i)->op == DYN_OP_INPUT ? 0 : last[i];
    }
    for (uint32_t i = 0; i < s->g->outputs.n; i++) {
        last[s->g->outputs.at[i]] = 0;
    }
}

/* Gives each step the list of nodes that nobody needs behind it. */
static int find_drops(Split *s, DynFollow *f) {
    uint32_t total = s->g->nodes.n, *last = DYN_NEW_N(s->arena, uint32_t, total + 1);
    uint32_t *list = DYN_NEW_N(s->arena, uint32_t, total + 1);
    if (!DYN_ALLOCATED(last, list)) {
        return -1;
    }
    find_last(s, f, last);
    for (uint32_t i = 0; i < f->steps.n; i++) {
        f->steps.at[i].drops.at = list;
        for (uint32_t k = 0; k < total; k++) {
            if (last[k] == i + 1) {
                *list++ = k;
                f->steps.at[i].drops.n++;
            }
        }
    }
    return 0;
}

DynFollow *dyn_follow_new(DynGraph *g, const DynOptions *options, DynReason *why, DynStr *error) {
    DynFollow *f = PyMem_RawCalloc(1, sizeof(*f));
    DynPartShare *share = dyn_part_share_new(g->syms, options);
    *why = DYN_R_NO_MEMORY;
    int done = -1;
    if (f != NULL && share != NULL) {
        dyn_arena_init(&f->arena);
        f->plain = options != NULL && !options->eager && !options->hands_on && dyn_options_config(options).retire;
        Split s = {.g = g, .arena = &f->arena, .why = why, .error = error};
        s.level = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        s.shown = DYN_NEW_N(s.arena, bool, g->nodes.n + 1);
        s.stored = DYN_NEW_N(s.arena, bool, g->nodes.n + 1);
        s.changed = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        s.read = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        s.wrote = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        s.left = DYN_NEW_N(s.arena, uint32_t, g->nodes.n + 1);
        if (DYN_ALLOCATED(s.level, s.shown, s.stored, s.changed, s.read, s.wrote, s.left) && look(&s) == 0) {
            show_all(&s);
            look_at_leaving(&s);
            give_levels(&s);
            show_across(&s);
            done = look_at_numbers(&s) < 0 || add_steps(&s, f, share) < 0 ? -1 : find_drops(&s, f);
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

DynTier dyn_follow_tier(const DynFollow *f) {
    DynTier lowest = DYN_TIER_NATIVE;
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynArtifact *a = f->steps.at[i].part == NULL ? NULL : dyn_follow_part_artifact(f->steps.at[i].part);
        if (f->steps.at[i].part != NULL) {
            DynTier tier = a == NULL ? DYN_TIER_EAGER : dyn_artifact_tier(a);
            lowest = tier < lowest ? tier : lowest;
        }
    }
    return lowest;
}

void dyn_follow_source(const DynFollow *f, DynStr *out) {
    for (uint32_t i = 0; i < f->steps.n; i++) {
        const DynArtifact *a = f->steps.at[i].part == NULL ? NULL : dyn_follow_part_artifact(f->steps.at[i].part);
        if (a != NULL) {
            dyn_artifact_source(a, out);
        }
    }
}

size_t dyn_follow_bytes(const DynFollow *f) {
    size_t bytes = sizeof(*f) + dyn_vec_bytes(&f->steps) + dyn_arena_bytes(&f->arena);
    for (uint32_t i = 0; i < f->steps.n; i++) {
        bytes += f->steps.at[i].part == NULL ? 0 : dyn_follow_part_bytes(f->steps.at[i].part);
    }
    return bytes;
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
        part = share == NULL ? NULL : dyn_follow_part(share, g, inputs, outputs, NULL, &error);
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
