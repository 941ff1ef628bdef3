/* graph.c: makes, grows, cuts back and frees graphs. Called by the recorder and by graph_text.c; the graph owns its vectors and
 * the references in externs and places, the arena owns everything else. */
#include "ir/extern.h"

int dyn_graph_init(DynGraph *g, DynArena *arena, const char *name, DynSources *sources, DynSyms *syms) {
    memset(g, 0, sizeof(*g));
    g->arena = arena;
    g->sources = sources;
    g->syms = syms;
    g->name = dyn_arena_strdup(arena, name);
    return g->name == NULL ? -1 : 0;
}

/* Those of nodes from nnodes on. */
static void forget_wholes(DynGraph *g, uint32_t nnodes) {
    while (g->wholes.n > 0 && g->wholes.at[g->wholes.n - 1].last >= nnodes) {
        DynWhole *w = &g->wholes.at[--g->wholes.n];
        Py_XDECREF(w->kwnames);
        for (int i = 0; i < w->n; i++) {
            Py_XDECREF(w->args[i]);
        }
    }
}

void dyn_graph_free(DynGraph *g) {
    dyn_graph_truncate(g, 0);
    for (uint32_t i = 0; i < g->places.n; i++) {
        Py_CLEAR(g->places.at[i].code);
        Py_CLEAR(g->places.at[i].globals);
    }
    dyn_vec_free(&g->nodes);
    dyn_vec_free(&g->inputs);
    dyn_vec_free(&g->outputs);
    dyn_vec_free(&g->externs);
    dyn_vec_free(&g->checks);
    dyn_vec_free(&g->places);
    dyn_vec_free(&g->formulas);
    forget_wholes(g, 0);
    dyn_vec_free(&g->wholes);
    dyn_vec_free(&g->splits);
}

static bool has_last_axis(const DynGraph *g, const DynNode *n, int64_t size) {
    uint32_t last = n->ndim == 0 ? DYN_NONE : n->shape[n->ndim - 1];
    return last != DYN_NONE && dyn_sym_is_const(g->syms, last) && dyn_sym_at(g->syms, last)->value.i == size;
}

bool dyn_graph_pairs(const DynGraph *g, const DynNode *n) {
    if (n->op != DYN_OP_AS_DTYPE) {
        return false;
    }
    const DynNode *base = dyn_graph_node(g, n->args[0].id);
    DynDtype to = (DynDtype)n->dtype, from = (DynDtype)base->dtype;
    bool joins = to != from && dyn_dtype_real(to) == from && has_last_axis(g, n, 1);
    bool parts = to != from && dyn_dtype_real(from) == to && has_last_axis(g, n, 2);
    return joins || parts;
}

void dyn_graph_trim(DynGraph *g) {
    dyn_vec_trim(&g->nodes);
    dyn_vec_trim(&g->inputs);
    dyn_vec_trim(&g->outputs);
    dyn_vec_trim(&g->externs);
    dyn_vec_trim(&g->checks);
    dyn_vec_trim(&g->places);
    dyn_vec_trim(&g->formulas);
    dyn_vec_trim(&g->wholes);
    dyn_vec_trim(&g->splits);
}

uint32_t dyn_graph_add(DynGraph *g, DynOp op, DynDtype dtype, int ndim, int nargs, int naux) {
    DynNode n = {.op = (uint16_t)op,
                 .dtype = (uint8_t)dtype,
                 .compute = (uint8_t)dtype,
                 .ndim = (uint8_t)ndim,
                 .nargs = (uint8_t)nargs,
                 .naux = (uint8_t)naux,
                 .storage = g->nodes.n,
                 .source = DYN_NONE,
                 .extern_index = DYN_NONE,
                 .snapshot = DYN_NONE,
                 .line = -1,
                 .where = DYN_NONE};
    bool rank_fits = ndim >= 0 && ndim <= DYN_MAX_NDIM, args_fit = nargs >= 0 && nargs <= UINT8_MAX;
    bool aux_fits = naux >= 0 && naux <= UINT8_MAX;
    if (!rank_fits || !args_fit || !aux_fits) {
        return DYN_NONE;
    }
    n.args = DYN_NEW_N(g->arena, DynArg, nargs + 1);
    n.aux = DYN_NEW_N(g->arena, int64_t, naux + 1);
    n.shape = DYN_NEW_N(g->arena, uint32_t, ndim + 1);
    if (n.args == NULL || n.aux == NULL || n.shape == NULL) {
        return DYN_NONE;
    }
    for (int i = 0; i < nargs; i++) {
        n.args[i] = (DynArg){DYN_ARG_NONE, DYN_NONE};
    }
    for (int i = 0; i < DYN_MAX_NDIM; i++) {
        n.layout.perm[i] = (uint8_t)i;
    }
    if (dyn_vec_push(&g->nodes, n) < 0) {
        return DYN_NONE;
    }
    return g->nodes.n - 1;
}

static void cut(uint32_t *at, uint32_t *n, uint32_t nnodes) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < *n; i++) {
        if (at[i] < nnodes) {
            at[kept++] = at[i];
        }
    }
    *n = kept;
}

/* Symbols of calls that are no longer there have no value, and nothing is checked of them. */
static void cut_late(DynGraph *g, uint32_t nnodes) {
    uint32_t kept = 0;
    dyn_syms_forget(g->syms, nnodes);
    for (uint32_t i = 0; i < g->checks.n; i++) {
        if (dyn_sym_at(g->syms, g->checks.at[i])->after <= nnodes) {
            g->checks.at[kept++] = g->checks.at[i];
        }
    }
    g->checks.n = kept;
}

void dyn_graph_truncate(DynGraph *g, uint32_t nnodes) {
    uint32_t nexterns = g->externs.n;
    for (uint32_t i = nnodes; i < g->nodes.n; i++) {
        const DynNode *n = &g->nodes.at[i];
        if (!dyn_node_calls(n) || n->extern_index >= g->externs.n) {
            continue;
        }
        dyn_extern_drop(&g->externs.at[n->extern_index]);
        if (n->extern_index < nexterns) {
            nexterns = n->extern_index;
        }
    }
    g->externs.n = nexterns;
    if (nnodes < g->nodes.n) {
        g->nodes.n = nnodes;
    }
    if (nnodes == 0) { /* the graph ends: its symbols may be gone */
        g->checks.n = 0;
    } else {
        cut_late(g, nnodes);
    }
    g->graded = g->graded > nnodes ? nnodes : g->graded;
    while (g->formulas.n > 0 && g->formulas.at[g->formulas.n - 1].node >= nnodes) {
        g->formulas.n--;
    }
    forget_wholes(g, nnodes);
    while (g->splits.n > 0 && g->splits.at[g->splits.n - 1].first + g->splits.at[g->splits.n - 1].n > nnodes) {
        g->splits.n--;
    }
    cut(g->inputs.at, &g->inputs.n, nnodes);
    cut(g->outputs.at, &g->outputs.n, nnodes);
}

const char *dyn_graph_file_at(const DynGraph *g, uint32_t where) {
    const DynPlace *p = where < g->places.n ? &g->places.at[where] : NULL;
    if (p == NULL || p->code == NULL) {
        return p == NULL ? NULL : p->file;
    }
    const char *path = PyUnicode_AsUTF8(((PyCodeObject *)p->code)->co_filename);
    if (path == NULL) {
        PyErr_Clear();
        return NULL;
    }
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
