/* derive_past.c: values of memory that is written later: what a node read, when backward has come to it.
 *
 * Called by derive.c and derive_arrays.c. A value that was overwritten is what was last stored where the node read; or, where
 * nothing was stored there before, what the memory was made with, made again; or all of the memory, written again as far as that
 * node. Where it was made with something else than operators there is none, and the gradient fails. */
#include "ir/derive_part.h"
#include "ir/extern.h"

static bool same_operand(const Derive *d, DynArg a, DynArg b) {
    if (a.kind != b.kind || a.kind == DYN_ARG_NODE) {
        return a.kind == b.kind && a.id == b.id;
    }
    return a.id == b.id || (a.kind == DYN_ARG_SYM && dyn_sym_root(d->g->syms, a.id) == dyn_sym_root(d->g->syms, b.id));
}

/* Are they the same elements of the same memory? */
static bool is_same_window(const Derive *d, uint32_t a, uint32_t b) {
    const DynNode *x = node_at(d, a), *y = node_at(d, b);
    if (a == b) {
        return true;
    }
    bool views = (x->flags & DYN_NODE_VIEW) && (y->flags & DYN_NODE_VIEW) && x->op == y->op && x->dtype == y->dtype;
    bool same = views && x->nargs == y->nargs && x->naux == y->naux && x->ndim == y->ndim;
    for (int i = 0; same && i < x->naux; i++) {
        same = x->aux[i] == y->aux[i];
    }
    for (int i = 1; same && i < x->nargs; i++) {
        same = same_operand(d, x->args[i], y->args[i]);
    }
    for (int i = 0; same && i < x->ndim; i++) {
        same = dyn_sym_root(d->g->syms, x->shape[i]) == dyn_sym_root(d->g->syms, y->shape[i]);
    }
    return same && is_same_window(d, x->args[0].id, y->args[0].id);
}

/* The constant range that an item of an index names along its axis; false: it isn't known. Goes on to the next item. */
static bool range_of(const Derive *d, const DynNode *n, int item, int *arg, int64_t *from, int64_t *to) {
    bool known = true;
    int64_t at[3] = {0, 0, 1};
    int count = n->aux[item] == 0 ? 3 : 1;
    for (int i = 0; i < count; i++) {
        uint32_t sym = n->args[*arg + i].id;
        known = known && dyn_sym_is_const(d->g->syms, sym);
        at[i] = known ? dyn_sym_at(d->g->syms, sym)->value.i : 0;
    }
    *arg += count;
    *from = at[0];
    *to = count == 3 ? at[1] : at[0] + 1;
    return known && at[2] == 1;
}

/* Do two indices of the same array name nothing in common, at every call? */
static bool lie_apart(const Derive *d, uint32_t a, uint32_t b) {
    const DynNode *x = node_at(d, a), *y = node_at(d, b);
    bool slices = x->op == DYN_OP_SLICE && y->op == DYN_OP_SLICE && is_same_window(d, x->args[0].id, y->args[0].id);
    int i = 0, j = 0, of_x = 1, of_y = 1;
    while (slices) {
        int64_t from_x, to_x, from_y, to_y;
        while (i < x->naux && x->aux[i] == 2) {
            i++;
        }
        while (j < y->naux && y->aux[j] == 2) {
            j++;
        }
        if (i == x->naux || j == y->naux) {
            return false;
        }
        bool known_x = range_of(d, x, i++, &of_x, &from_x, &to_x), known_y = range_of(d, y, j++, &of_y, &from_y, &to_y);
        if (known_x && known_y && (to_x <= from_y || to_y <= from_x)) {
            return true;
        }
    }
    return false;
}

/* The last write before node `id` that may have changed what `read` shows; DYN_NONE: there was none. */
static uint32_t last_write(const Derive *d, uint32_t id, uint32_t read) {
    uint32_t storage = node_at(d, read)->storage;
    for (uint32_t i = id; i-- > 0;) {
        if (dyn_graph_written(d->g, i) != storage) {
            continue;
        }
        bool store = node_at(d, i)->op == DYN_OP_STORE;
        if (!store || !lie_apart(d, node_at(d, i)->args[0].id, read)) {
            return i;
        }
    }
    return DYN_NONE;
}

/* The same node again, of what its operands were. */
static uint32_t made_again(Derive *d, uint32_t id) {
    const DynNode n = *node_at(d, id);
    DynArg args[3] = {nothing, nothing, nothing};
    uint32_t again = DYN_NONE;
    for (int k = 0; k < n.nargs && k < 3; k++) {
        args[k] = n.args[k];
        if (args[k].kind == DYN_ARG_NODE && (args[k].id = dyn_derive_value_at(d, id, args[k].id)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    uint8_t kind = dyn_ops[n.op].kind;
    bool known = kind == DYN_K_ELEMENTWISE || kind == DYN_K_COPY || n.op == DYN_OP_FULL;
    if (known && n.nargs <= 3) {
        again = dyn_derive_like(d, (DynOp)n.op, &n, n.nargs, 0);
    }
    if (again != DYN_NONE) {
        memcpy(dyn_graph_node(d->g, again)->args, args, sizeof(*args) * n.nargs);
        dyn_graph_node(d->g, again)->compute = n.compute;
        dyn_graph_node(d->g, again)->layout = n.layout;
    }
    return again;
}

/* The view of `base` that `view` is of the node that owns its memory. */
static uint32_t seen_in(Derive *d, uint32_t view, uint32_t base) {
    if (!(node_at(d, view)->flags & DYN_NODE_VIEW)) {
        return base;
    }
    uint32_t of = seen_in(d, node_at(d, view)->args[0].id, base);
    return of == DYN_NONE ? of : dyn_derive_same_view(d, view, of);
}

/* The memory as it was before node `id`: made anew, with everything written into it again. */
static uint32_t written_again(Derive *d, uint32_t id, uint32_t storage) {
    uint32_t owner = made_again(d, storage);
    for (uint32_t i = storage; i < id && owner != DYN_NONE; i++) {
        if (dyn_graph_written(d->g, i) != storage) {
            continue;
        }
        const DynNode n = *node_at(d, i);
        bool known = dyn_node_stores(&n) && n.nargs <= 3;
        DynArg args[3] = {nothing, nothing, nothing};
        for (int k = 0; k < n.nargs && known; k++) {
            args[k] = n.args[k];
            if (k > 0 && args[k].kind == DYN_ARG_NODE) {
                args[k].id = dyn_derive_value_at(d, i, args[k].id);
                known = args[k].id != DYN_NONE;
            }
        }
        args[0].id = known ? seen_in(d, n.args[0].id, owner) : DYN_NONE;
        uint32_t store = args[0].id == DYN_NONE ? DYN_NONE : dyn_derive_like(d, (DynOp)n.op, &n, n.nargs, n.naux);
        if (store == DYN_NONE) {
            return DYN_NONE;
        }
        DynNode *again = dyn_graph_node(d->g, store);
        memcpy(again->args, args, sizeof(*args) * n.nargs);
        memcpy(again->aux, n.aux, sizeof(*n.aux) * n.naux);
        again->storage = owner;
        again->flags = 0;
    }
    return owner;
}

/* Has the node stored what `read` shows then, in a node of the same kind? That, or DYN_NONE. */
static uint32_t stored_as(const Derive *d, uint32_t write, uint32_t read) {
    const DynNode *n = node_at(d, write), *is = node_at(d, read);
    bool whole = n->op == DYN_OP_STORE && n->args[1].kind == DYN_ARG_NODE && is_same_window(d, n->args[0].id, read);
    const DynNode *of = whole ? node_at(d, n->args[1].id) : NULL;
    bool same = of != NULL && of->dtype == is->dtype && of->ndim == is->ndim;
    for (int i = 0; same && i < is->ndim; i++) {
        same = dyn_sym_root(d->g->syms, of->shape[i]) == dyn_sym_root(d->g->syms, is->shape[i]);
    }
    return same ? n->args[1].id : DYN_NONE;
}

uint32_t dyn_derive_value_at(Derive *d, uint32_t id, uint32_t read) {
    uint32_t storage = node_at(d, read)->storage;
    if (d->last_store[storage] <= id) {
        return read;
    }
    uint32_t write = last_write(d, id, read), stored = write == DYN_NONE ? DYN_NONE : stored_as(d, write, read);
    uint32_t value = stored == DYN_NONE ? DYN_NONE : dyn_derive_value_at(d, write, stored);
    if (stored == DYN_NONE) {
        uint32_t owner = write == DYN_NONE ? made_again(d, storage) : written_again(d, id, storage);
        value = owner == DYN_NONE ? owner : seen_in(d, read, owner);
    }
    return value != DYN_NONE ? value : (dyn_derive_fail(d, id, "its derivative needs a value that was overwritten"), DYN_NONE);
}
