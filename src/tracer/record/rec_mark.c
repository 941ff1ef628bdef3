/* rec_mark.c: what was recorded is taken back. A mark says how far the recording was; rolling back to it undoes all that came
 * since, and the changes of shadows of containers, which can't be undone, are looked up by it. Sealed calls are a mark, too: a
 * graph that is left in one of them is left in front of the instruction that makes them.
 *
 * Called by record.c for each instruction, by rec_call.c where an inlined call comes to nothing, by rec_take.c where an item
 * isn't known, and by rec_break.c and rec_references.c. A mark is a value: who takes it keeps it, and none has to be given back.
 */
#include "tracer/record/rec_segment.h"

RecMark rec_mark(const DynRec *r) {
    return (RecMark){
        .nodes = r->cap != NULL ? r->cap->graph.nodes.n : 0,
        .guards = r->cap != NULL ? r->cap->guards.n : 0,
        .effects = r->effects.n,
        .born = r->nvals,
        .mutations = r->mutations,
        .handled = r->handled,
    };
}

/* ---- changes of shadows: for each time, the oldest shadow that was changed since has to be found. A change makes those before
 * it that are of younger shadows, or of the same, superfluous; so the list grows with the age of what it names. */

void rec_note_change(DynRec *r, const DynVal *v) {
    while (r->changes.n > 0 && r->changes.at[r->changes.n - 1].born >= v->born) {
        r->changes.n--;
    }
    RecChange change = {r->mutations, v->born};
    if (dyn_vec_push(&r->changes, change) < 0) {
        r->spoiled = true;
    }
}

bool rec_changed_since(const DynRec *r, const RecMark *m) {
    uint32_t first = r->changes.n;
    while (first > 0 && r->changes.at[first - 1].at > m->mutations) {
        first--;
    }
    return first < r->changes.n && r->changes.at[first].born < m->born;
}

/* ---- rolling back */

/* A node that stands for what came in: it is known by its source from then on, so it outlives a callee that bailed out. */
static bool came_in(const DynRec *r, const DynNode *n) {
    if (n->op != DYN_OP_SCALAR || !(n->flags & DYN_NODE_NPSCALAR)) {
        return n->op == DYN_OP_INPUT;
    }
    return n->args[0].kind == DYN_ARG_SYM && dyn_sym_at(&r->cap->syms, n->args[0].id)->op == DYN_S_VAR;
}

/* Node `from` is node `to` from now on, for all that know it by number. */
static void renumber(DynRec *r, uint32_t from, uint32_t to) {
    DynGraph *g = &r->cap->graph;
    g->nodes.at[to] = g->nodes.at[from];
    g->nodes.at[to].storage = to;
    if (to < r->by_node.n) {
        r->by_node.at[to] = from < r->by_node.n ? r->by_node.at[from] : NULL;
    }
    for (uint32_t k = 0; k < r->by_source.n; k++) { /* one object may have been met in several ways */
        DynVal *v = r->by_source.at[k];
        if (v != NULL && rec_is_array(v) && rec_node_of(v) == from) {
            v->node = to;
        }
    }
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        g->inputs.at[k] = g->inputs.at[k] == from ? to : g->inputs.at[k];
    }
    for (uint32_t k = 0; k < r->written.n; k++) {
        r->written.at[k] = r->written.at[k] == from ? to : r->written.at[k];
    }
}

/* Nodes from number `nnodes` on go, but for what came in. */
static void forget_nodes(DynRec *r, uint32_t nnodes) {
    DynGraph *g = &r->cap->graph;
    uint32_t to = nnodes;
    for (uint32_t i = nnodes; i < g->nodes.n; i++) {
        if (came_in(r, &g->nodes.at[i])) {
            renumber(r, i, to++);
        }
    }
    while (r->cap->snapshots.n > 0 && r->cap->snapshots.at[r->cap->snapshots.n - 1].nnodes >= nnodes) {
        dyn_capture_forget_snapshots(r->cap, r->cap->snapshots.n - 1);
    }
    dyn_syms_forget(&r->cap->syms, nnodes); /* also of calls whose place is taken by a node that came in */
    dyn_graph_truncate(g, to);
    r->by_node.n = r->by_node.n < to ? r->by_node.n : to;
    r->nnodes_seen = to;
}

void rec_rollback(DynRec *r, const RecMark *m) {
    rec_forget_effects(r, m->effects);
    if (r->cap == NULL) {
        return;
    }
    forget_nodes(r, m->nodes);
    dyn_capture_forget_guards(r->cap, m->guards);
    r->handled = m->handled;
}

void rec_spoil(DynRec *r, const RecMark *m) {
    r->behind = r->behind || r->effects.n > m->effects;
    r->spoiled = r->spoiled || rec_changed_since(r, m);
    r->handled = r->cap != NULL ? m->handled : r->handled;
}

/* ---- sealed calls */

RecSeal rec_seal(DynRec *r) {
    RecSeal outer = r->seal;
    if (r->seal.frame == NULL && r->cap != NULL) {
        r->seal = (RecSeal){r->top, rec_mark(r)};
    }
    return outer;
}

void rec_unseal(DynRec *r, RecSeal outer) { r->seal = outer; }
