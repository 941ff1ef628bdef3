/* chain.c: products of matrices and the kernels around them that go row by row: which of them run a block of rows at a time, all
 * of them in the block before any of them in the next.
 *
 * Called by schedule.c when kernels are in their order. A chain is a run of steps that begins and ends with a product or a kernel
 * and has a product: for each row of the result a product reads one row of its left operand, a kernel of the same leading axis
 * that row of what others in the chain write. So what one of them leaves in the cache is there for the next, and blocks are
 * work for threads, of which the library then starts none. run.c takes the steps one by one where the library, sizes or
 * floating-point flags ask for it, also when some of the chain has run: so nothing may be read that the chain writes over. */
#include "codegen/loops/loops.h"

typedef struct Access {
    uint32_t storage;
    int axis; /* of the storage, along which it goes from row to row; -1: otherwise */
    bool written;
} Access;

static const DynNode *node_of(const DynLoops *p, const DynStep *step) { return dyn_graph_node(p->graph, step->id); }

static Access access_of_node(const DynLoops *p, uint32_t node, int axis, bool written) {
    return (Access){dyn_loops_storage(p, node), axis < 0 ? -1 : dyn_loops_owner_axis(p, node, axis), written};
}

/* What a step reads and writes, one after the other; false: no more. Views do neither. */
static bool access_at(const DynLoops *p, const DynStep *step, uint32_t i, Access *out) {
    if (step->kind == DYN_STEP_EXTERN && i < 3) {
        const DynNode *n = node_of(p, step);
        if (i == 2) {
            *out = access_of_node(p, step->id, 0, true);
        } else { /* of the right operand all rows are read for each of the result */
            *out = access_of_node(p, n->args[i].id, i == 0 ? 0 : -1, false);
        }
        return true;
    }
    const DynKernel *k = step->kind == DYN_STEP_KERNEL ? &p->kernels.at[step->id] : NULL;
    if (k == NULL || i >= k->operands.n) {
        return false;
    }
    const DynOperand *o = &k->operands.at[i];
    bool dense = p->places[o->place].kind == DYN_P_DENSE; /* of another shape than its storage */
    *out = (Access){dyn_loops_storage(p, o->place), dense ? -1 : dyn_loops_row_axis(p, o, 0), o->out};
    return true;
}

/* Do two steps, or one, stay within the same row of what one of them writes? */
static bool rows_agree(const DynLoops *p, const DynStep *s, const DynStep *t) {
    Access x, y;
    for (uint32_t i = 0; access_at(p, s, i, &x); i++) {
        for (uint32_t j = 0; access_at(p, t, j, &y); j++) {
            bool same_row = x.axis >= 0 && x.axis == y.axis;
            bool depends = x.storage == y.storage && (x.written || y.written);
            if (depends && !same_row) {
                return false;
            }
        }
    }
    return true;
}

static bool is_product(const DynLoops *p, const DynStep *step) {
    const DynNode *n = step->kind == DYN_STEP_EXTERN ? node_of(p, step) : NULL;
    bool product = n != NULL && (dyn_ops[n->op].flags & DYN_OPF_PRODUCT);
    if (!product || n->ndim != 2 || n->layout.kind != DYN_LAYOUT_C) {
        return false;
    }
    const DynNode *a = dyn_graph_node(p->graph, n->args[0].id), *b = dyn_graph_node(p->graph, n->args[1].id);
    bool matrices = a->ndim == 2 && b->ndim == 2, same_dtypes = a->dtype == n->dtype && b->dtype == n->dtype;
    bool fits = matrices && same_dtypes && a->shape[0] == n->shape[0];
    for (uint32_t i = 0; i < p->nplaces && fits; i++) {
        fits = p->places[i].after != step->id + 1; /* arrays that are made behind it */
    }
    return fits;
}

static bool is_member(const DynLoops *p, const DynStep *step, uint32_t rows) {
    const DynKernel *k = step->kind == DYN_STEP_KERNEL ? &p->kernels.at[step->id] : NULL;
    if (k == NULL) {
        return step->kind == DYN_STEP_VIEW || (is_product(p, step) && node_of(p, step)->shape[0] == rows);
    }
    bool alone = k->group == DYN_NONE && !k->margin;
    bool by_rows = k->ndim > 0 && k->shape[0] == rows && !(k->reduced & 1);
    return alone && by_rows;
}

/* Is what step s writes written by the chain before anybody reads it, from `first` on or in s itself? */
static bool begins_here(const DynLoops *p, uint32_t s, uint32_t first, uint32_t storage) {
    uint8_t kind = p->places[storage].kind;
    bool found = false;
    Access x;
    for (uint32_t t = 0; t <= s && !found; t++) {
        const DynStep *step = &p->steps.at[t];
        if (step->kind == DYN_STEP_EXTERN && !is_product(p, step)) {
            continue; /* what it gives is of another kind, what it takes was written before */
        }
        found = dyn_step_scans(p, step, storage);
        for (uint32_t i = 0; access_at(p, step, i, &x); i++) {
            if (x.storage == storage) {
                found = true;
                if (!x.written) {
                    return false;
                }
            }
        }
        if (found && t < first) {
            return false;
        }
    }
    bool made_here = kind == DYN_P_TEMP || kind == DYN_P_ARRAY;
    return made_here || (kind == DYN_P_EXTERN && found);
}

static bool may_join(const DynLoops *p, uint32_t s, uint32_t first, uint32_t last, uint32_t rows) {
    const DynStep *step = &p->steps.at[s];
    Access x;
    if (step->chain != 0 || !is_member(p, step, rows) || !rows_agree(p, step, step)) {
        return false;
    }
    for (uint32_t t = first; t <= last; t++) {
        if (!rows_agree(p, step, &p->steps.at[t])) {
            return false;
        }
    }
    for (uint32_t i = 0; access_at(p, step, i, &x); i++) {
        if (x.written && !begins_here(p, s, s < first ? s : first, x.storage)) {
            return false;
        }
    }
    return true;
}

static bool is_view(const DynLoops *p, uint32_t s) { return p->steps.at[s].kind == DYN_STEP_VIEW; }

static void make_chain(DynLoops *p, uint32_t step) {
    uint32_t rows = node_of(p, &p->steps.at[step])->shape[0], first = step, last = step;
    if (!may_join(p, step, step, step, rows)) {
        return;
    }
    while (first > 0 && may_join(p, first - 1, first, last, rows)) {
        first--;
    }
    while (last + 1 < p->steps.n && may_join(p, last + 1, first, last, rows)) {
        last++;
    }
    while (is_view(p, first)) {
        first++;
    }
    while (is_view(p, last)) {
        last--;
    }
    p->nchains += first < last;
    for (uint32_t s = first; s <= last && first < last; s++) {
        p->steps.at[s].chain = p->nchains;
    }
}

bool dyn_chain_takes(const DynLoops *p, const DynStep *step) {
    uint32_t rows = 0;
    if (step->kind == DYN_STEP_EXTERN) {
        rows = node_of(p, step)->shape[0];
    } else if (step->kind == DYN_STEP_KERNEL && p->kernels.at[step->id].ndim > 0) {
        rows = p->kernels.at[step->id].shape[0];
    }
    return is_member(p, step, rows);
}

void dyn_chains_make(DynLoops *p) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].chain == 0 && is_product(p, &p->steps.at[s])) {
            make_chain(p, s);
        }
    }
}
