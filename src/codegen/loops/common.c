/* common.c: values that are computed twice are computed once: who reads the second reads the first.
 *
 * Called before lower.c; changes operands of the graph's nodes and no node, so that whoever leaves the graph finds all of them.
 * Two nodes have the same value when they are the same operation of the same values, and nothing that they read was written
 * between. The second is left alone where somebody sees its array (Python, an extern call), or may write into it, and where the
 * first's would have to be kept for longer than eager keeps it, unless it is a reduction's, which is small. Floating-point flags
 * are the first's, so the second isn't computed for them (DYN_NODE_TWIN). Inside one kernel kernels.c does the same for
 * instructions. */
#include "base/log.h"
#include "codegen/loops/loops.h"

typedef struct Common {
    DynGraph *g;
    uint32_t *first;   /* of nodes with the same value; or the node itself */
    uint32_t *written; /* storages: how many times, up to now */
    uint32_t *stamp;   /* how many times what a node reads had been written */
    uint32_t *last;    /* storages: the last node that reads it */
    bool *changes;     /* storages: written at some time, or maybe */
    bool *touched;     /* storages: by an extern call, or written, at some time */
    bool *shown;       /* storages: Python gets it */
    uint32_t *slots, mask;
} Common;

static DynNode *node_at(const Common *c, uint32_t id) { return dyn_graph_node(c->g, id); }

/* A value that is nothing but its operands', and costs nothing but time. What lies in memory that is written later is another
 * value from then on, and so nobody's twin; of views the stamp says whether they are still the same. */
static bool is_value(const Common *c, const DynNode *n) {
    switch (dyn_ops[n->op].kind) {
    case DYN_K_ELEMENTWISE:
    case DYN_K_REDUCE:
    case DYN_K_COPY:
    case DYN_K_SCAN: return !c->changes[n->storage];
    case DYN_K_VIEW: return true;
    default: return false;
    }
}

/* Might a node write into what it takes? Of extern calls only products are sure not to. */
static bool may_write(const DynNode *n) { return dyn_node_calls(n) && !(dyn_ops[n->op].flags & DYN_OPF_PRODUCT); }

/* What is known of storages before the walk. */
static void look_ahead(Common *c) {
    for (uint32_t i = 0; i < c->g->nodes.n; i++) {
        const DynNode *n = node_at(c, i);
        uint32_t into = dyn_graph_written(c->g, i);
        if (into != DYN_NONE) {
            c->changes[into] = c->touched[into] = true;
        }
        for (uint32_t k = 0; k < c->g->inputs.n; k++) {
            c->changes[c->g->inputs.at[k]] |= dyn_graph_opens(c->g, i, c->g->inputs.at[k]);
        }
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                uint32_t storage = node_at(c, n->args[k].id)->storage;
                c->last[storage] = i;
                c->touched[storage] |= dyn_node_calls(n);
                c->changes[storage] |= may_write(n);
            }
        }
    }
    for (uint32_t i = 0; i < c->g->outputs.n; i++) {
        c->shown[node_at(c, c->g->outputs.at[i])->storage] = true;
    }
}

static uint64_t hash_of(const Common *c, const DynNode *n) {
    const uint32_t head[] = {n->op, n->dtype, n->compute, n->ndim, n->flags, n->nargs, n->naux};
    uint64_t h = dyn_hash64(head, sizeof(head), 1);
    h = dyn_hash64(n->aux, sizeof(*n->aux) * n->naux, h);
    h = dyn_hash64(n->shape, sizeof(*n->shape) * n->ndim, h);
    for (uint32_t k = 0; k < n->nargs; k++) {
        bool node = n->args[k].kind == DYN_ARG_NODE;
        const uint32_t arg[] = {n->args[k].kind, node ? c->first[n->args[k].id] : n->args[k].id};
        h = dyn_hash64(arg, sizeof(arg), h);
    }
    return h;
}

static bool same_layout(const DynNode *x, const DynNode *y) {
    return x->layout.kind == y->layout.kind &&
           (x->layout.kind == DYN_LAYOUT_C || !memcmp(x->layout.perm, y->layout.perm, sizeof(x->layout.perm)));
}

static bool same_value(const Common *c, uint32_t i, uint32_t j) {
    const DynNode *x = node_at(c, i), *y = node_at(c, j);
    bool same_types = x->dtype == y->dtype && x->compute == y->compute && x->flags == y->flags;
    bool same_time = c->stamp[i] == c->stamp[j];
    bool same = same_types && same_time && dyn_node_same_form(x, y) && same_layout(x, y);
    for (uint32_t k = 0; k < x->nargs && same; k++) {
        bool node = x->args[k].kind == DYN_ARG_NODE;
        same = x->args[k].kind == y->args[k].kind &&
               (node ? c->first[x->args[k].id] == c->first[y->args[k].id] : x->args[k].id == y->args[k].id);
    }
    return same;
}

/* How many times what the node reads has been written: it grows, so that equal sums are equal counts. */
static uint32_t stamp_of(const Common *c, const DynNode *n) {
    uint32_t sum = 0;
    for (uint32_t k = 0; k < n->nargs; k++) {
        sum += n->args[k].kind == DYN_ARG_NODE ? c->written[node_at(c, c->first[n->args[k].id])->storage] : 0;
    }
    return sum;
}

static uint32_t find_first(Common *c, uint32_t id) {
    uint32_t at = (uint32_t)hash_of(c, node_at(c, id)) & c->mask;
    for (; c->slots[at] != 0; at = (at + 1) & c->mask) {
        if (same_value(c, c->slots[at] - 1, id)) {
            return c->slots[at] - 1;
        }
    }
    c->slots[at] = id + 1;
    return id;
}

/* Does everybody read the first instead? */
static bool may_replace(const Common *c, uint32_t id) {
    const DynNode *n = node_at(c, id), *first = node_at(c, c->first[id]);
    bool kept = dyn_ops[n->op].kind == DYN_K_REDUCE || c->last[first->storage] > id;
    bool ours = !((n->flags | first->flags) & DYN_NODE_VIEW) && !c->touched[id] && !c->touched[first->storage];
    bool unseen = ours && !c->shown[id];
    return first != n && unseen && kept;
}

/* Whose node it is, operands are those that are kept; a view lies in its operand's memory. */
static void read_first(Common *c, uint32_t id, const bool *replaced) {
    DynNode *n = node_at(c, id);
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE && replaced[n->args[k].id]) {
            n->args[k].id = c->first[n->args[k].id];
            uint32_t storage = node_at(c, n->args[k].id)->storage;
            c->last[storage] = c->last[storage] > id ? c->last[storage] : id;
        }
    }
    if (n->flags & DYN_NODE_VIEW) {
        n->storage = node_at(c, n->args[0].id)->storage;
    }
}

static void count_writes(Common *c, uint32_t id) {
    const DynNode *n = node_at(c, id);
    uint32_t into = dyn_graph_written(c->g, id);
    if (into != DYN_NONE) {
        c->written[into]++;
    }
    for (uint32_t k = 0; k < c->g->inputs.n; k++) {
        c->written[c->g->inputs.at[k]] += dyn_graph_opens(c->g, id, c->g->inputs.at[k]);
    }
    for (uint32_t k = 0; may_write(n) && k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            c->written[node_at(c, n->args[k].id)->storage]++;
        }
    }
}

int dyn_common(DynGraph *g, DynArena *arena) {
    uint32_t n = g->nodes.n, room = 16, count = 0;
    while (room < 2 * n) {
        room *= 2;
    }
    Common c = {.g = g, .mask = room - 1};
    bool *replaced = DYN_NEW_N(arena, bool, n + 1);
    c.first = DYN_NEW_N(arena, uint32_t, n + 1);
    c.written = DYN_NEW_N(arena, uint32_t, n + 1);
    c.stamp = DYN_NEW_N(arena, uint32_t, n + 1);
    c.last = DYN_NEW_N(arena, uint32_t, n + 1);
    c.changes = DYN_NEW_N(arena, bool, n + 1);
    c.touched = DYN_NEW_N(arena, bool, n + 1);
    c.shown = DYN_NEW_N(arena, bool, n + 1);
    c.slots = DYN_NEW_N(arena, uint32_t, room);
    if (!DYN_ALLOCATED(replaced, c.first, c.written, c.stamp, c.last, c.changes, c.touched, c.shown, c.slots)) {
        return -1;
    }
    look_ahead(&c);
    for (uint32_t i = 0; i < n; i++) {
        c.first[i] = i;
        count_writes(&c, i);
        if (!dyn_node_calls(node_at(&c, i))) {
            read_first(&c, i, replaced);
        }
        if (is_value(&c, node_at(&c, i))) {
            c.stamp[i] = stamp_of(&c, node_at(&c, i));
            c.first[i] = find_first(&c, i);
            replaced[i] = may_replace(&c, i);
            node_at(&c, i)->flags |= replaced[i] ? DYN_NODE_TWIN : 0;
            count += replaced[i];
        }
    }
    if (count > 0 && dyn_log_on(DYN_LOG_fusion)) {
        dyn_log(DYN_LOG_fusion, "%s: %u values had been computed before", g->name ? g->name : "graph", count);
    }
    return 0;
}
