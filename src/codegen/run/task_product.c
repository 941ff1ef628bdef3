/* task_product.c: the tasks of products of matrices that are made without NumPy's call of them: PRODUCT (one of them, by
 * product.c, panel.c or blas.c), and CHAIN (several of them with the kernels between, a block of rows at a time, by
 * exec_chain.c).
 *
 * Called by run.c through tasks.def. Where a product isn't made here, or a chain isn't worth it or raises a flag, the answer is
 * DYN_TASK_OTHERWISE, and nothing of it is left behind. */
#include "base/torch.h"
#include "codegen/run/call.h"
#include "codegen/run/flags.h"

/* How a product is made without NumPy's call of it. False: NumPy's loops make it. */
static bool find_product(DynCall *c, uint32_t node, DynLink *l) {
    const DynGraph *g = c->p->graph;
    const DynNode *n = dyn_graph_node(g, node), *a = dyn_graph_node(g, n->args[0].id), *b = dyn_graph_node(g, n->args[1].id);
    const DynGeom *x = &c->geoms[n->args[0].id], *y = &c->geoms[n->args[1].id];
    DynGeom turned;
    DynDtype dtype = (DynDtype)n->dtype;
    if (n->layout.kind != DYN_LAYOUT_C || a->dtype != dtype || b->dtype != dtype) {
        return false;
    }
    if (n->op == DYN_OP_LINEAR) {
        turned = (DynGeom){y->data, {y->dims[1], y->dims[0]}, {y->strides[1], y->strides[0]}};
        y = &turned;
    }
    l->kind = DYN_LINK_SMALL;
    if (a->ndim > 1 && b->ndim > 1 && dyn_product_find(&l->product, dtype, x, a->ndim, y, b->ndim)) {
        return true;
    }
    l->kind = DYN_LINK_BLAS;
    return dyn_blas_find(&l->blas, dtype, x, a->ndim, y, b->ndim);
}

/* How many products of numbers it is. */
static int64_t terms_of(const DynCall *c, uint32_t node) {
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    uint32_t left = n->args[0].id;
    int64_t terms = c->geoms[left].dims[dyn_graph_node(c->p->graph, left)->ndim - 1];
    for (int d = 0; d < n->ndim; d++) {
        terms *= c->run->sym[n->shape[d]].i;
    }
    return terms;
}

/* A large product of tensors, which PyTorch's library makes. */
static bool by_torch(const DynCall *c, uint32_t node, DynLink *l) {
    return dyn_graph_node(c->p->graph, node)->flags & DYN_NODE_TENSOR && dyn_blas_torch(&l->blas);
}

/* A product by PyTorch's library that is made here with the same bits in less time. */
static void choose_panel(DynLink *l) {
    DynPanel panel;
    if (l->kind == DYN_LINK_BLAS && dyn_panel_find(&panel, &l->blas)) {
        l->kind = DYN_LINK_PANEL;
        l->panel = panel;
    }
}

static DynTaskEnd bind_product(DynCall *c, DynTask *t) {
    uint32_t node = c->p->steps.at[t->first].id;
    DynLink *l = &t->product.link;
    DynGeom out;
    DynTaskEnd end = dyn_call_arrive(c, t->first);
    if (end != DYN_TASK_DONE) {
        return end;
    }
    if (!find_product(c, node, l)) {
        return DYN_TASK_OTHERWISE;
    }
    bool by_numpy = l->kind == DYN_LINK_BLAS && c->p->tensors && !by_torch(c, node, l);
    if (by_numpy && dyn_blas_terms(&l->blas) > DYN_TENSOR_TERMS) {
        return DYN_TASK_OTHERWISE;
    }
    choose_panel(l);
    t->product.array = dyn_call_new_result(c, node);
    if (t->product.array == NULL) {
        return DYN_TASK_OTHERWISE;
    }
    if (dyn_call_geom(t->product.array, &out) < 0) {
        PyErr_Clear();
        Py_DECREF(t->product.array);
        return DYN_TASK_OTHERWISE;
    }
    l->out = out.data;
    t->cost = 2 * (double)terms_of(c, node);
    return DYN_TASK_DONE;
}

static int work_product(DynCall *c, DynTask *t) {
    const DynLink *l = &t->product.link;
    if (l->kind == DYN_LINK_SMALL) {
        dyn_product_run(&l->product, l->out);
    } else if (l->kind == DYN_LINK_PANEL) {
        dyn_panel_run(&l->panel, l->out);
    } else {
        dyn_blas_run(&l->blas, l->out);
    }
    return 0;
}

static DynTaskEnd finish_product(DynCall *c, DynTask *t, int failed) {
    if (!c->p->tensors && dyn_flags_get() & DYN_FLAGS_SEEN) {
        dyn_flags_clear();
        Py_DECREF(t->product.array);
        return DYN_TASK_OTHERWISE;
    }
    c->objects[c->p->steps.at[t->first].id] = t->product.array;
    return dyn_call_depart(c, t->first);
}

const DynTaskKind dyn_task_product = {.bind = bind_product, .work = work_product, .finish = finish_product};

/* ---- CHAIN */

/* Is a product by BLAS worth being made a block of rows at a time? PyTorch's own is faster for short ones. */
static bool runs_by_blocks(DynCall *c, uint32_t node, DynLink *l) {
    if (!dyn_blas_has_blocks(&l->blas)) {
        return false;
    }
    return dyn_blas_terms(&l->blas) >= DYN_CHAIN_TERMS || !by_torch(c, node, l);
}

/* One step of a chain, bound. False: it has to be done alone. */
static bool bind_link(DynCall *c, const DynStep *step, DynLink *l, int64_t *cost) {
    if (step->kind == DYN_STEP_KERNEL) {
        l->kind = DYN_LINK_KERNEL;
        if (dyn_call_bind(c, &c->p->kernels.at[step->id], &l->bound) < 0) {
            return false;
        }
        *cost += dyn_exec_cost(&l->bound);
        return true;
    }
    if (!find_product(c, step->id, l) || (l->kind == DYN_LINK_BLAS && !runs_by_blocks(c, step->id, l))) {
        return false;
    }
    c->objects[step->id] = dyn_call_new_result(c, step->id);
    if (c->objects[step->id] == NULL) {
        return false;
    }
    dyn_call_geom(c->objects[step->id], &c->geoms[step->id]);
    l->out = c->geoms[step->id].data;
    *cost += terms_of(c, step->id) / DYN_BLAS_TERMS;
    return true;
}

/* Bind the steps of a chain; how many links they are, or -1: they have to be done one by one. */
static int bind_links(DynCall *c, DynTask *t, int64_t *cost) {
    int n = 0;
    for (uint32_t s = t->first; s <= t->last; s++) {
        const DynStep *step = &c->p->steps.at[s];
        if (step->kind == DYN_STEP_VIEW ? dyn_call_view(c, step->id) < 0 : !bind_link(c, step, &t->chain.links[n++], cost)) {
            return -1;
        }
    }
    return n;
}

static DynTaskEnd finish_chain(DynCall *c, DynTask *t, int failed) {
    PyMem_Free(t->chain.links);
    int flags = dyn_flags_get() & DYN_FLAGS_SEEN, due = flags == 0 ? 0 : dyn_call_flags_due(c, flags);
    dyn_flags_clear();
    if (due < 0) {
        PyErr_Clear();
    }
    if (failed == 0 && due == 0 && !atomic_load_explicit(&c->missed, memory_order_relaxed)) {
        return DYN_TASK_DONE;
    }
    for (uint32_t s = t->first; s <= t->last; s++) {
        if (c->p->steps.at[s].kind == DYN_STEP_EXTERN) {
            Py_CLEAR(c->objects[c->p->steps.at[s].id]);
        }
    }
    atomic_store(&c->missed, false);
    return DYN_TASK_OTHERWISE;
}

static DynTaskEnd bind_chain(DynCall *c, DynTask *t) {
    const DynLoops *p = c->p;
    int64_t rows = 0, cost = 0;
    c->chained = p->steps.at[t->first].chain;
    while (t->last + 1 < p->steps.n && p->steps.at[t->last + 1].chain == c->chained) {
        t->last++;
    }
    for (uint32_t s = t->first; s <= t->last; s++) {
        const DynStep *step = &p->steps.at[s];
        rows = step->kind == DYN_STEP_EXTERN ? c->run->sym[dyn_graph_node(p->graph, step->id)->shape[0]].i : rows;
    }
    if (rows <= DYN_BLAS_ROWS || c->leave_at >= 0 || ((c->flags | dyn_flags_get()) & DYN_FLAGS_SEEN)) {
        return DYN_TASK_OTHERWISE;
    }
    t->chain.rows = rows;
    t->chain.links = PyMem_Malloc(sizeof(*t->chain.links) * (t->last - t->first + 1));
    t->chain.n = t->chain.links == NULL ? -1 : bind_links(c, t, &cost);
    t->chain.cost = cost;
    t->cost = (double)cost;
    return t->chain.n < 0 ? finish_chain(c, t, -1) : DYN_TASK_DONE;
}

static int work_chain(DynCall *c, DynTask *t) { return dyn_exec_chain(t->chain.links, t->chain.n, t->chain.rows, t->chain.cost); }

const DynTaskKind dyn_task_chain = {.bind = bind_chain, .work = work_chain, .finish = finish_chain};
