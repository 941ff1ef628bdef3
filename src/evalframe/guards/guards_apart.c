/* guards_apart.c: inputs of a graph that it writes into lie apart from the others that it reads.
 *
 * One guard says it of each input that is written (guards.def: DISJOINT), so that there are as many as such inputs and not as
 * many as pairs, of which a network with batch norms has thousands. Called by guards.c, which runs their steps, and by
 * guards_memo.c. The list of inputs is the program's. */
#include "evalframe/guards/guards.h"

static int look_up_guards(DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    p->looked = PyMem_RawCalloc(c->sources.v.n + 1, sizeof(*p->looked));
    for (uint32_t i = 0; p->looked != NULL && i < c->guards.n; i++) {
        if (dyn_guard_has_layout(&c->guards.at[i])) {
            p->looked[c->guards.at[i].source] = c->guards.at[i].kind;
        }
    }
    return p->looked == NULL ? -1 : 0;
}

/* Inputs that are read or written. One that the recording met, and nothing else, may lie where it will. */
static void mark_used(const DynGraph *g, bool *used) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        for (int k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                used[n->args[k].id] = true;
            }
        }
    }
}

/* The other inputs, behind those that are written. */
static int add_others(DynGuardProgram *p) {
    const DynGraph *g = &p->capture->graph;
    bool *used = PyMem_RawCalloc(g->nodes.n + 1, sizeof(*used));
    int status = used == NULL ? -1 : 0;
    if (used != NULL) {
        mark_used(g, used);
    }
    for (uint32_t i = 0; i < g->inputs.n && status == 0; i++) {
        uint32_t node = g->inputs.at[i], source = dyn_graph_node(g, node)->source;
        bool listed = !used[node] || dyn_apart_row(p, source) < p->inputs.n;
        status = listed ? 0 : dyn_vec_push(&p->inputs, source);
    }
    PyMem_RawFree(used);
    return status;
}

uint32_t dyn_apart_row(const DynGuardProgram *p, uint32_t source) {
    uint32_t at = 0;
    while (at < p->inputs.n && p->inputs.at[at] != source) {
        at++;
    }
    return at;
}

int dyn_apart_new(DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    if (look_up_guards(p) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        if (c->guards.at[i].kind == DYN_GUARD_DISJOINT && dyn_vec_push(&p->inputs, c->guards.at[i].source) < 0) {
            return -1;
        }
    }
    return p->inputs.n == 0 ? 0 : add_others(p);
}

void dyn_apart_settle(DynGuardProgram *p) {
    for (uint32_t i = 0; i < p->inputs.n; i++) {
        p->nopen += !dyn_guard_is_placed(p, p->inputs.at[i]);
    }
}

/* Where an input lies: as a TENSOR guard has seen it in this check, or in *own; NULL: that can't be told. */
static const DynArrayView *place_of(const DynGuardProgram *p, uint32_t source, PyObject *const *src, DynArrayView *own) {
    if (p->looked[source] == DYN_GUARD_TENSOR) {
        return &p->views[source];
    }
    return dyn_guard_place(src[source], own) ? own : NULL;
}

typedef enum Among { ALL_BEHIND, OPEN_ONES, SETTLED_BEHIND } Among;

static bool lies_apart(const DynGuardProgram *p, uint32_t at, Among among, PyObject *const *src) {
    DynArrayView own, others;
    const DynArrayView *v = place_of(p, p->inputs.at[at], src, &own);
    bool apart = v != NULL;
    for (uint32_t i = among == OPEN_ONES ? 0 : at + 1; i < p->inputs.n && apart; i++) {
        uint32_t source = p->inputs.at[i];
        if (i == at || (among != ALL_BEHIND && dyn_guard_is_placed(p, source) != (among == SETTLED_BEHIND))) {
            continue;
        }
        const DynArrayView *w = place_of(p, source, src, &others);
        apart = w != NULL && !dyn_views_overlap(v, w);
    }
    return apart;
}

bool dyn_apart_holds(const DynGuardProgram *p, uint32_t at, bool open, PyObject *const *src) {
    bool settled = open && dyn_guard_is_placed(p, p->inputs.at[at]);
    return lies_apart(p, at, settled ? OPEN_ONES : ALL_BEHIND, src);
}

bool dyn_apart_settled(const DynGuardProgram *p, PyObject *const *src) {
    bool apart = true;
    for (uint32_t i = 0; i < p->capture->guards.n && apart; i++) {
        const DynGuard *g = &p->capture->guards.at[i];
        if (g->kind == DYN_GUARD_DISJOINT && dyn_guard_is_placed(p, g->source)) {
            apart = lies_apart(p, dyn_apart_row(p, g->source), SETTLED_BEHIND, src);
        }
    }
    return apart;
}
