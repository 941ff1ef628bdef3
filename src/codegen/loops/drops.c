/* drops.c: when the arrays of a graph with calls are made, and when they may go: from the first step to the last that touches
 * their memory, and what calls return likewise. Eager's die when the program's last name for them does, so a graph that had them
 * all from beginning to end would need the memory of all its layers at once.
 *
 * Called at the end of plan.c, when the steps and their order are final. What is handed out stays, and what someone needs who
 * goes on where the graph is left: DynNode.left is the last call in front of which that may be, of a node and of all that values
 * are made of which have no array of their own. run.c drops what the list says behind each step. */
#include "codegen/loops/loops.h"
#include <stdlib.h>

#define NEVER DYN_NONE

typedef struct Lives {
    DynLoops *p;
    uint32_t *first, *last; /* by place that owns memory: the steps that touch it */
    uint32_t begins;        /* where the step that is being looked at does, with those that it runs interleaved with */
    uint32_t *left;         /* by node: 1 + the call up to which it is wanted by who leaves; 0: by nobody */
    uint32_t *call;         /* by node: the step of the last call up to there, NEVER: none */
} Lives;

static void touch(Lives *l, uint32_t place, uint32_t step) {
    uint32_t owner = dyn_loops_storage(l->p, place);
    if (step == NEVER || l->last[owner] < step) { /* NEVER is the greatest */
        l->last[owner] = step;
    }
    l->first[owner] = l->begins < l->first[owner] ? l->begins : l->first[owner];
}

static void touch_args(Lives *l, uint32_t node, uint32_t step) {
    const DynNode *n = dyn_graph_node(l->p->graph, node);
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            touch(l, n->args[k].id, step);
        }
    }
    touch(l, n->storage, step);
    touch(l, node, step);
}

static void touch_step(Lives *l, uint32_t s, uint32_t end) {
    const DynStep *step = &l->p->steps.at[s];
    const DynKernel *k = step->kind == DYN_STEP_KERNEL ? &l->p->kernels.at[step->id] : NULL;
    for (uint32_t o = 0; k && o < k->operands.n; o++) {
        touch(l, k->operands.at[o].place, end);
    }
    if (step->kind == DYN_STEP_VIEW) {
        touch(l, step->id, end);
    } else if (!k) {
        touch_args(l, step->id, end);
    }
    const DynGraph *g = l->p->graph;
    for (uint32_t i = step->id + 1; step->kind == DYN_STEP_EXTERN && i < g->nodes.n && dyn_graph_node(g, i)->op == DYN_OP_RESULT;
         i++) {
        touch(l, i, end);
    }
}

/* Has a node's value memory that stays as it is until it is dropped? */
static bool has_array(const Lives *l, uint32_t node) {
    uint8_t kind = l->p->places[node].kind;
    return kind == DYN_P_ARRAY || kind == DYN_P_EXTERN || kind == DYN_P_INPUT;
}

static bool want(Lives *l, uint32_t node, uint32_t left) {
    bool more = l->left[node] < left;
    l->left[node] = more ? left : l->left[node];
    return more;
}

/* Who leaves computes what has no array from what it is made of, and what was stored in it since. */
static void spread(Lives *l) {
    const DynGraph *g = l->p->graph;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = g->nodes.n; i-- > 0;) {
            const DynNode *n = dyn_graph_node(g, i);
            uint32_t left = l->left[i];
            if (dyn_node_stores(n) && l->left[n->storage] > i) {
                more |= want(l, i, l->left[n->storage]);
            }
            for (uint32_t k = 0; left > 0 && !has_array(l, i) && k < n->nargs; k++) {
                more |= n->args[k].kind == DYN_ARG_NODE && want(l, n->args[k].id, left);
            }
            more |= left > 0 && want(l, n->storage, left);
        }
    }
}

static int by_step(const void *x, const void *y) {
    const DynDrop *a = x, *b = y;
    if (a->step != b->step) {
        return a->step < b->step ? -1 : 1;
    }
    return (a->place > b->place) - (a->place < b->place);
}

static void sort(DynDrop *rows, uint32_t n) {
    if (n > 1) {
        qsort(rows, n, sizeof(*rows), by_step);
    }
}

static int push_makes(Lives *l) {
    DynLoops *p = l->p;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        DynDrop make = {l->first[i], i};
        DynMem *m = &p->places[i];
        m->waits = m->kind == DYN_P_ARRAY && make.step < p->steps.n;
        bool late = m->kind == DYN_P_ARRAY && !m->waits && m->after != 0;
        if (m->waits && dyn_list_push(p->arena, &p->makes, make) < 0) {
            return -1;
        }
        if (late && dyn_list_push(p->arena, &p->late, ((DynDrop){m->after, i})) < 0) {
            return -1;
        }
    }
    sort(p->makes.at, p->makes.n);
    sort(p->late.at, p->late.n);
    return 0;
}

/* Has a place an array that the graph makes, rather than one that is handed in? */
static bool has_made_array(const DynLoops *p, uint32_t place) {
    if (place < p->nnodes && dyn_graph_node(p->graph, place)->flags & DYN_NODE_OBJECT) {
        return false;
    }
    if (p->places[dyn_loops_storage(p, place)].kind == DYN_P_INPUT) {
        return false;
    }
    uint8_t kind = p->places[place].kind;
    return kind == DYN_P_ARRAY || kind == DYN_P_EXTERN || kind == DYN_P_VIEW;
}

static int push_drops(Lives *l) {
    DynLoops *p = l->p;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        DynDrop drop = {l->last[dyn_loops_storage(p, i)], i};
        bool drops = drop.step < p->steps.n && has_made_array(p, i);
        if (drops && dyn_list_push(p->arena, &p->drops, drop) < 0) {
            return -1;
        }
    }
    sort(p->drops.at, p->drops.n);
    return 0;
}

int dyn_drops(DynLoops *p) {
    const DynGraph *g = p->graph;
    Lives l = {.p = p,
               .first = DYN_NEW_N(p->arena, uint32_t, p->nplaces + 1),
               .last = DYN_NEW_N(p->arena, uint32_t, p->nplaces + 1),
               .left = DYN_NEW_N(p->arena, uint32_t, g->nodes.n + 1),
               .call = DYN_NEW_N(p->arena, uint32_t, g->nodes.n + 1)};
    if (!DYN_ALLOCATED(l.first, l.last, l.left, l.call)) {
        return -1;
    }
    memset(l.call, 0xFF, sizeof(*l.call) * (g->nodes.n + 1));
    memset(l.first, 0xFF, sizeof(*l.first) * (p->nplaces + 1));
    bool calls = false;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        uint32_t last;
        dyn_steps_together(p, s, &l.begins, &last);
        touch_step(&l, s, last);
        if (p->steps.at[s].kind == DYN_STEP_EXTERN) {
            calls = true;
            l.call[p->steps.at[s].id] = last;
        }
    }
    if (!calls) { /* nothing but kernels: a few arrays, all handed out */
        return 0;
    }
    l.begins = NEVER;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        l.left[i] = dyn_graph_node(g, i)->left;
        l.call[i] = l.call[i] == NEVER && i > 0 ? l.call[i - 1] : l.call[i];
    }
    spread(&l);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        uint32_t call = l.left[i] > 0 && l.left[i] <= g->nodes.n ? l.call[l.left[i] - 1] : NEVER;
        if (call != NEVER) {
            touch(&l, i, call);
        }
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        touch(&l, g->outputs.at[i], NEVER);
    }
    return push_makes(&l) < 0 ? -1 : push_drops(&l);
}
