/* task_node.c: the tasks of nodes that have no kernel and are no calls: NODE (scans, histograms, scatters), CHECK (are the places
 * there that an index names?) and VIEW (the geometry of a view).
 *
 * Called by run.c through tasks.def. Owns nothing. */
#include "codegen/run/call.h"

static const DynNode *index_of(const DynGraph *g, const DynNode *n) { return dyn_graph_node(g, n->args[dyn_node_index(n)].id); }

static double all_elements(const DynNode *n, const DynGeom *at, int from) {
    double all = 1;
    for (int d = from; d < n->ndim; d++) {
        all *= (double)at->dims[d];
    }
    return all;
}

/* A check: as long as its places; a scan, a histogram or a scatter: as its first operand, or its places with a row each. */
static double node_cost(const DynGraph *g, const DynStep *step, const DynGeom *geoms) {
    const DynNode *n = dyn_graph_node(g, step->id), *arg = dyn_graph_node(g, n->args[0].id);
    bool scatter = n->op == DYN_OP_SCATTER;
    double places = dyn_node_index(n) == 0 ? 1 : all_elements(index_of(g, n), &geoms[n->args[dyn_node_index(n)].id], 0);
    if (step->kind == DYN_STEP_CHECK) {
        return 5 * places;
    }
    double each = n->op == DYN_OP_HISTOGRAM ? 30 : 10;
    return each * all_elements(arg, &geoms[n->args[0].id], scatter) * (scatter ? places : 1);
}

static int run_scatter(const DynLoops *p, const DynNode *n, const DynGeom *geoms) {
    const DynNode *value = dyn_graph_node(p->graph, n->args[1].id), *index = index_of(p->graph, n);
    DynScatter x = {.op = n->aux[0], .dtype = n->dtype, .index_dtype = index->dtype};
    x.look = p->places[n->storage].kind == DYN_P_INPUT;
    x.ndim = n->ndim;
    x.value_ndim = value->ndim;
    x.index_ndim = index->ndim;
    x.to = &geoms[n->args[0].id];
    x.value = &geoms[n->args[1].id];
    x.index = &geoms[n->args[2].id];
    return dyn_exec_scatter(&x);
}

static int run_histogram(const DynGraph *g, uint32_t node, const DynGeom *geoms) {
    const DynNode *n = dyn_graph_node(g, node);
    DynHistogram x = {.from = &geoms[n->args[0].id], .edges = &geoms[n->args[1].id], .to = &geoms[node]};
    x.weights = n->nargs > 2 ? &geoms[n->args[2].id] : NULL;
    x.single = dyn_graph_node(g, n->args[0].id)->dtype == DYN_F32;
    x.single_weights = n->dtype == DYN_F32;
    return dyn_exec_histogram(&x);
}

static int run_check(const DynGraph *g, const DynNode *n, const DynGeom *geoms, const DynScalar *sym) {
    int axis = n->op == DYN_OP_GATHER ? (int)n->aux[0] : 0;
    uint32_t size = dyn_graph_node(g, n->args[0].id)->shape[axis]; /* of a table that there need not be */
    const DynNode *index = index_of(g, n);
    return dyn_exec_check(&geoms[n->args[dyn_node_index(n)].id], index->ndim, index->dtype, sym[size].i) ? 0 : -1;
}

static int run_node(const DynLoops *p, const DynStep *step, const DynGeom *geoms, const DynScalar *sym) {
    const DynGraph *g = p->graph;
    const DynNode *n = dyn_graph_node(g, step->id);
    if (step->kind == DYN_STEP_CHECK) {
        return run_check(g, n, geoms, sym);
    }
    switch (n->op) {
    case DYN_OP_SCATTER: return run_scatter(p, n, geoms);
    case DYN_OP_HISTOGRAM: return run_histogram(g, step->id, geoms);
    default: return dyn_exec_scan(n, &geoms[n->args[0].id], dyn_graph_node(g, n->args[0].id)->ndim, &geoms[step->id]);
    }
}

static DynTaskEnd bind_node(DynCall *c, DynTask *t) {
    t->cost = node_cost(c->p->graph, &c->p->steps.at[t->first], c->geoms);
    return DYN_TASK_DONE;
}

static int work_node(DynCall *c, DynTask *t) { return run_node(c->p, &c->p->steps.at[t->first], c->geoms, c->run->sym); }

static DynTaskEnd finish_check(DynCall *c, DynTask *t, int failed) { return failed ? DYN_TASK_REFUSED : DYN_TASK_DONE; }

static DynTaskEnd finish_node(DynCall *c, DynTask *t, int failed) {
    const DynNode *n = dyn_graph_node(c->p->graph, c->p->steps.at[t->first].id);
    c->wrote |= n->op == DYN_OP_SCATTER && !failed && c->p->places[n->storage].kind == DYN_P_INPUT;
    return finish_check(c, t, failed);
}

static DynTaskEnd bind_view(DynCall *c, DynTask *t) {
    return dyn_call_view(c, c->p->steps.at[t->first].id) < 0 ? DYN_TASK_REFUSED : DYN_TASK_DONE;
}

const DynTaskKind dyn_task_node = {.bind = bind_node, .work = work_node, .finish = finish_node};
const DynTaskKind dyn_task_check = {.bind = bind_node, .work = work_node, .finish = finish_check};
const DynTaskKind dyn_task_view = {.bind = bind_view};
