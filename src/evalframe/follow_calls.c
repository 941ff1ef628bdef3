/* follow_calls.c: parts of a graph that autograd follows, as the calls of PyTorch's that they were recorded from.
 *
 * A part is one node of autograd's, which costs more than those of a few calls on small tensors. Such a part is made as these
 * calls, where they are known as wholes (tracer/torch/rec_torch_whole.c) and nothing but them, and views, is between what it
 * takes and gives. follow.c finds the calls once, in the arena of the steps; hit_follow.c asks in each call. */
#include "evalframe/follow.h"

/* A part takes as long as a call of PyTorch's on so many elements more, forward and back; a second and a third call as long as
 * so many elements each (docs/lab/training.md). Four calls are never better. */
#define MOST_ELEMENTS 8000
#define CALL_ELEMENTS 3000
#define MOST_CALLS 3
#define MOST_VIEWS 8 /* between them */

const DynWhole *dyn_follow_whole(const DynGraph *g, uint32_t node) {
    for (uint32_t i = g->wholes.n; i-- > 0 && g->wholes.at[i].node >= node;) {
        if (g->wholes.at[i].node == node) {
            return &g->wholes.at[i];
        }
    }
    return NULL;
}

bool dyn_follow_is_small(double elements) { return elements < MOST_ELEMENTS; }

static bool is_among(const uint32_t *at, uint32_t n, uint32_t id) {
    bool found = false;
    for (uint32_t i = 0; i < n; i++) {
        found = found || at[i] == id;
    }
    return found;
}

/* Views that PyTorch makes of a tensor whatever its strides are. */
static bool is_plain_view(const DynNode *n) {
    return n->flags & DYN_NODE_VIEW && (n->op == DYN_OP_SLICE || n->op == DYN_OP_PERMUTE || n->op == DYN_OP_BROADCAST);
}

/* Is what the call gives all that is needed of its nodes, and as the call gives it? */
static bool stands_for_all(const DynGraph *g, const DynWhole *w, const bool *needed) {
    bool all = true;
    for (uint32_t i = w->first; i < g->nodes.n && all; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        bool inside = i <= w->last, writes = dyn_node_stores(n) && n->storage == w->node;
        all = inside ? i == w->node || !needed[i] : !writes;
    }
    return all;
}

/* Marks what the node is made from. False: it is neither a call nor a view. */
static bool need_operands(const DynGraph *g, uint32_t id, const DynWhole *w, bool *needed) {
    const DynNode *n = dyn_graph_node(g, id);
    if (w == NULL) {
        if (!is_plain_view(n)) {
            return false;
        }
        needed[n->args[0].id] = true;
        return true;
    }
    for (int i = 0; i < w->n; i++) {
        if (w->args[i] == NULL) {
            needed[w->operands[i]] = true;
        }
    }
    return stands_for_all(g, w, needed);
}

void dyn_follow_find_calls(const DynGraph *g, DynArena *arena, DynFollowStep *step) {
    uint32_t total = g->nodes.n, n = 0, ncalls = 0, nviews = 0;
    bool *needed = DYN_NEW_N(arena, bool, total + 1), fits = dyn_follow_part_follows(step->part) && !g->sets_casts;
    DynFollowCall *calls = DYN_NEW_N(arena, DynFollowCall, MOST_CALLS + MOST_VIEWS);
    if (!DYN_ALLOCATED(needed, calls)) {
        return;
    }
    for (uint32_t i = 0; i < step->outputs.n; i++) {
        needed[step->outputs.at[i]] = true;
    }
    for (uint32_t id = total; id-- > 0 && fits;) {
        if (!needed[id] || is_among(step->inputs.at, step->inputs.n, id)) {
            continue;
        }
        const DynWhole *w = dyn_follow_whole(g, id);
        ncalls += w != NULL;
        nviews += w == NULL;
        fits = need_operands(g, id, w, needed) && ncalls <= MOST_CALLS && nviews <= MOST_VIEWS;
        if (fits) {
            bool passes = !is_among(step->outputs.at, step->outputs.n, id);
            calls[n++] = (DynFollowCall){.node = id, .whole = w, .passes = passes};
        }
    }
    for (uint32_t i = 0; i < step->inputs.n && fits; i++) {
        fits = needed[step->inputs.at[i]];
    }
    for (uint32_t i = 0; i < n / 2; i++) { /* the first comes first */
        DynFollowCall last = calls[n - 1 - i];
        calls[n - 1 - i] = calls[i];
        calls[i] = last;
    }
    if (fits) {
        step->calls = calls;
        step->ncalls = n;
    }
}

static bool has_product(const DynGraph *g, const DynFollowStep *s) {
    bool found = false;
    for (uint32_t i = 0; i < s->ncalls; i++) {
        const DynWhole *w = s->calls[i].whole;
        for (uint32_t k = w == NULL ? 0 : w->first; w != NULL && k <= w->last; k++) {
            found = found || dyn_derive_is_product(g, k);
        }
    }
    return found;
}

static bool is_expensive(const DynGraph *g, const DynWhole *w) {
    bool found = false;
    for (uint32_t k = w->first; k <= w->last; k++) {
        found = found || dyn_ops[dyn_graph_node(g, k)->op].flags & DYN_OPF_EXPENSIVE;
    }
    return found;
}

/* Elements that the calls go over, as far as a part gains by them: beside a product, which it makes as PyTorch does and with more
 * tensors, by what takes long to compute alone. */
static double elements_of(const DynGraph *g, const DynFollowStep *s, const DynScalar *sym) {
    bool first = true, product = has_product(g, s);
    double elements = 0;
    for (uint32_t i = 0; i < s->ncalls; i++) {
        const DynFollowCall *c = &s->calls[i];
        if (c->whole != NULL && (!product || is_expensive(g, c->whole))) {
            elements += dyn_estimate_work(g, dyn_graph_node(g, c->node), sym) + (first || product ? 0 : CALL_ELEMENTS);
            first = false;
        }
    }
    return elements;
}

bool dyn_follow_is_calls(const DynGraph *g, const DynFollow *f, const DynFollowStep *s, const DynScalar *sym) {
    if (!f->plain || s->ncalls == 0) {
        return false;
    }
    return g->device != 0 ? s->ncalls == 1 : dyn_follow_is_small(elements_of(g, s, sym));
}
