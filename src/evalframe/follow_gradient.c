/* follow_gradient.c: gradients of a part: what backward reads of the forward nodes, and parts that compute gradients.
 *
 * Called by follow_part.c when a part is compiled, and by the node of autograd's that it is (follow_node.c). What backward reads
 * is saved: inputs and outputs as they are, other values as further outputs, unless they are cheap to compute again from what is
 * saved anyway. No input or output is saved but where a derivative reads it, as PyTorch's would: so changing another one in place
 * is no error. Which outputs have a gradient and which inputs want one is a pattern, and each has a graph of its own. */
#include "evalframe/follow_part.h"

#define MOST_COMPUTED_AGAIN 8 /* operators between a saved value and one that backward computes again */

typedef struct Gradients {
    DynGraph graph;
    uint32_t n; /* its nodes before gradients were added */
    bool *reached;
    uint32_t *of;    /* of each of these */
    uint32_t *seeds; /* of given outputs, in order; DYN_NONE: not given */
    uint32_t nseeds;
} Gradients;

/* The graph with gradients of wanted inputs, as far as those depend on given outputs (the first ones; NULL: all that depend). */
static int derive(DynPart *p, const uint32_t *outputs, uint32_t n, const bool *given, const bool *wanted, Gradients *x,
                  DynStr *error) {
    if (dyn_follow_part_copy(p, &x->graph, error) < 0) {
        return -1;
    }
    DynGraph *g = &x->graph;
    x->n = g->nodes.n;
    x->nseeds = n;
    x->reached = dyn_follow_part_reach(p, g, wanted);
    x->of = DYN_NEW_N(&p->arena, uint32_t, x->n + 1);
    x->seeds = DYN_NEW_N(&p->arena, uint32_t, n + 1);
    if (!DYN_ALLOCATED(x->reached, x->of, x->seeds)) {
        return -1;
    }
    memset(x->of, 0xFF, sizeof(*x->of) * x->n); /* DYN_NONE */
    for (uint32_t i = 0; i < n; i++) {
        const DynNode of = *dyn_graph_node(g, outputs[i]);
        x->seeds[i] = DYN_NONE;
        if (!(given == NULL ? x->reached[outputs[i]] : given[i])) {
            continue;
        }
        uint32_t at = dyn_graph_add(g, DYN_OP_INPUT, (DynDtype)of.dtype, of.ndim, 0, 0);
        if (at == DYN_NONE) {
            return -1;
        }
        memcpy(dyn_graph_node(g, at)->shape, of.shape, sizeof(*of.shape) * of.ndim);
        dyn_graph_node(g, at)->flags = DYN_NODE_TENSOR;
        dyn_graph_node(g, at)->layout.kind = DYN_LAYOUT_STRIDED;
        x->seeds[i] = at;
        if (!x->reached[outputs[i]]) { /* a piece of a block that has a gradient */
            continue;
        }
        x->of[outputs[i]] = x->of[outputs[i]] == DYN_NONE ? at : dyn_derive_sum(g, x->of[outputs[i]], at);
        if (x->of[outputs[i]] == DYN_NONE) {
            return -1;
        }
    }
    return dyn_derive(g, x->n, x->reached, x->of, NULL, error);
}

/* Is it dear enough to be kept? */
static bool is_dear(const DynNode *n) {
    const DynOpInfo *op = &dyn_ops[n->op];
    if (op->kind == DYN_K_CREATE) {
        return false;
    }
    bool cheap = op->kind == DYN_K_ELEMENTWISE || op->kind == DYN_K_VIEW || op->kind == DYN_K_COPY;
    return !cheap || n->flags & DYN_NODE_CONTIG_COPY || op->flags & (DYN_OPF_EXPENSIVE | DYN_OPF_VECTOR_CALL);
}

bool dyn_follow_is_written(const DynGraph *g, uint32_t id) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (dyn_node_stores(&g->nodes.at[i]) && g->nodes.at[i].storage == dyn_graph_node(g, id)->storage) {
            return true;
        }
    }
    return false;
}

static bool is_computed_again(const DynGraph *g, uint32_t id, const bool *saved, int depth) {
    const DynNode *n = dyn_graph_node(g, id);
    if (saved[id]) {
        return true;
    }
    bool possible = n->op != DYN_OP_INPUT && depth < MOST_COMPUTED_AGAIN && !is_dear(n) && !dyn_follow_is_written(g, id);
    for (int k = 0; k < n->nargs && possible; k++) {
        possible = n->args[k].kind != DYN_ARG_NODE || is_computed_again(g, n->args[k].id, saved, depth + 1);
    }
    return possible;
}

/* Of the nodes that gradients read, the ones that are saved. */
static int choose_saved(DynPart *p, const Gradients *x, const bool *read) {
    const DynGraph *g = &p->graph;
    bool *saved = DYN_NEW_N(&p->arena, bool, x->n + 1);
    uint32_t *list = DYN_NEW_N(&p->arena, uint32_t, x->n + 1), n = 0;
    if (!DYN_ALLOCATED(saved, list)) {
        return -1;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        uint32_t of = i;
        const DynNode *node = dyn_graph_node(g, i);
        bool blank = dyn_node_stores(node) || dyn_ops[node->op].kind == DYN_K_CREATE; /* what matters of it is what is written */
        if (!read[i] || (blank && !dyn_follow_is_written(g, i))) {
            continue;
        }
        while (dyn_graph_node(g, of)->flags & DYN_NODE_VIEW) { /* of a view its base */
            of = dyn_graph_node(g, of)->args[0].id;
        }
        bool outside = dyn_graph_node(g, of)->op == DYN_OP_INPUT;
        for (uint32_t k = 0; k < p->nout; k++) {
            outside = outside || g->outputs.at[k] == of;
        }
        if (outside || !is_computed_again(g, of, saved, 0)) {
            saved[of] = true;
        }
    }
    for (uint32_t i = 0; i < x->n; i++) {
        if (saved[i]) {
            list[n++] = i;
        }
    }
    p->saves = (DynList){list, n};
    return 0;
}

/* Those that can be pieces of a block go behind the others; how many they are. */
static uint32_t sort_pieces(DynPart *p, uint32_t *at, uint32_t n, uint32_t *room) {
    uint32_t kept = 0, packed = 0;
    int dtype = -1;
    for (uint32_t i = 0; i < n; i++) {
        const DynNode *node = dyn_graph_node(&p->graph, at[i]);
        if (dyn_follow_block_fits(&p->graph, at[i], dtype < 0 ? (DynDtype)node->dtype : (DynDtype)dtype)) {
            dtype = node->dtype;
            room[packed++] = at[i];
        } else {
            at[kept++] = at[i];
        }
    }
    memcpy(at + kept, room, sizeof(*at) * packed);
    return packed;
}

/* The nodes behind the first `own` of `outputs` are saved ones that are no outputs of the part: they are the last of p->saves, in
 * the same order. */
static void put_last(DynPart *p, const uint32_t *outputs, uint32_t own, uint32_t n, uint32_t *room) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->saves.n; i++) {
        bool last = false;
        for (uint32_t k = own; k < n; k++) {
            last = last || outputs[k] == p->saves.at[i];
        }
        if (!last) {
            room[kept++] = p->saves.at[i];
        }
    }
    memcpy(room + kept, outputs + own, sizeof(*room) * (n - own));
    p->saves.at = room;
}

/* The graph with everything that is saved as an output, what may be pieces of a block last. */
static int make_saving(DynPart *p, DynStr *error) {
    const DynGraph *g = &p->graph;
    uint32_t *outputs = DYN_NEW_N(&p->arena, uint32_t, g->nodes.n + p->nout + 1), n = p->nout;
    uint32_t *room = DYN_NEW_N(&p->arena, uint32_t, g->nodes.n + 1), *saves = DYN_NEW_N(&p->arena, uint32_t, p->saves.n + 1);
    if (!DYN_ALLOCATED(outputs, room, saves)) {
        return -1;
    }
    memcpy(outputs, g->outputs.at, sizeof(*outputs) * n);
    for (uint32_t i = 0; i < p->saves.n; i++) {
        bool known = dyn_graph_node(g, p->saves.at[i])->op == DYN_OP_INPUT;
        for (uint32_t k = 0; k < n; k++) {
            known = known || outputs[k] == p->saves.at[i];
        }
        if (!known) {
            outputs[n++] = p->saves.at[i];
        }
    }
    uint32_t npacked = sort_pieces(p, outputs + p->nout, n - p->nout, room);
    put_last(p, outputs, p->nout, n, saves);
    DynList inputs = {g->inputs.at, g->inputs.n};
    int done = dyn_follow_part_cut(p, g, &p->saving.graph, inputs, (DynList){outputs, n}, error);
    return done < 0 ? -1 : dyn_follow_block_choose(p, npacked);
}

/* Raises what went wrong, unless that has raised already. Takes the text over. */
static void raise_failure(const DynGraph *g, DynStr *error) {
    if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_RuntimeError, "dynoc: gradients of a part of %s: %s", g->name, dyn_str_at(error));
    }
    dyn_str_free(error);
}

int dyn_follow_part_prepare(DynPart *p) {
    Gradients x = {.n = 0};
    DynStr error = {0};
    const DynGraph *g = &p->graph;
    if (p->prepared) {
        return 0;
    }
    int done = derive(p, g->outputs.at, p->nout, NULL, p->wanted, &x, &error);
    bool *stops = DYN_NEW_N(&p->arena, bool, x.graph.nodes.n + 1), *read = DYN_NEW_N(&p->arena, bool, x.graph.nodes.n + 1);
    done = DYN_ALLOCATED(stops, read) ? done : -1;
    if (done == 0) {
        for (uint32_t i = 0; i < x.n; i++) {
            stops[i] = true;
        }
        for (uint32_t i = 0; i < g->inputs.n; i++) {
            uint32_t gradient = p->wanted[i] ? x.of[x.graph.inputs.at[i]] : DYN_NONE;
            if (gradient != DYN_NONE) {
                read[gradient] = true;
            }
        }
        dyn_part_mark(&x.graph, stops, read);
        done = choose_saved(p, &x, read) < 0 ? -1 : make_saving(p, &error);
    }
    if (x.graph.arena != NULL) {
        dyn_graph_free(&x.graph);
    }
    if (done < 0) {
        raise_failure(g, &error);
    }
    p->prepared = done == 0;
    return done;
}

/* ---- plans and gradients, found by patterns of what is wanted and given */

static int bools_of(DynArena *arena, PyObject *tuple, uint32_t n, bool **out) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != (Py_ssize_t)n) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of bools");
        return -1;
    }
    *out = DYN_NEW_N(arena, bool, n + 1);
    for (uint32_t i = 0; *out != NULL && i < n; i++) {
        (*out)[i] = PyTuple_GET_ITEM(tuple, i) == Py_True;
    }
    return *out == NULL ? (PyErr_NoMemory(), -1) : 0;
}

static PyObject *int_tuple(const uint32_t *at, uint32_t n) {
    PyObject *t = PyTuple_New(n);
    for (uint32_t i = 0; t != NULL && i < n; i++) {
        PyObject *o = at[i] == DYN_NONE ? Py_NewRef(Py_None) : PyLong_FromUnsignedLong(at[i]);
        if (o == NULL) {
            Py_CLEAR(t);
        } else {
            PyTuple_SET_ITEM(t, i, o);
        }
    }
    return t;
}

/* plan(needs) → (positions of outputs that require no gradients, positions of what is saved among inputs and outputs). */
static PyObject *new_plan(DynPart *p, PyObject *needs) {
    bool *wanted;
    if (dyn_follow_part_prepare(p) < 0 || bools_of(&p->arena, needs, p->graph.inputs.n, &wanted) < 0) {
        return NULL;
    }
    const DynGraph *g = &p->saving.graph;
    bool *reached = dyn_follow_part_reach(p, g, wanted);
    uint32_t *fixed = DYN_NEW_N(&p->arena, uint32_t, g->outputs.n + 1), n = 0;
    uint32_t *saved = DYN_NEW_N(&p->arena, uint32_t, p->saves.n + 1);
    if (!DYN_ALLOCATED(reached, fixed, saved)) {
        return PyErr_NoMemory();
    }
    uint32_t own = g->outputs.n - p->npacked, nown = p->saves.n - p->npacked;
    bool follows = false;
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        if (i < own && !reached[g->outputs.at[i]]) {
            fixed[n++] = i;
        }
        follows = follows || (i >= own && reached[g->outputs.at[i]]);
    }
    if (p->npacked > 0) {
        fixed[n] = own;
        n += !follows;
        saved[nown] = g->inputs.n + own;
    }
    for (uint32_t k = 0; k < nown; k++) { /* node for node the nodes of the two graphs are the same */
        for (uint32_t i = 0; i < g->outputs.n; i++) {
            saved[k] = g->outputs.at[i] == p->saves.at[k] ? g->inputs.n + i : saved[k];
        }
        for (uint32_t i = 0; i < g->inputs.n; i++) {
            saved[k] = g->inputs.at[i] == p->saves.at[k] ? i : saved[k];
        }
    }
    PyObject *first = int_tuple(fixed, n), *second = int_tuple(saved, nown + (p->npacked > 0));
    return Py_BuildValue("NN", first, second);
}

/* Keeps what was made under a key. Takes `made`, and gives it back borrowed; NULL with an exception. */
static PyObject *kept(DynPart *p, PyObject *key, PyObject *made) {
    bool done = made != NULL && PyDict_SetItem(p->known, key, made) == 0;
    Py_XDECREF(made);
    return done ? made : NULL;
}

PyObject *dyn_follow_part_plan(DynPart *p, PyObject *needs) {
    PyObject *known = PyDict_GetItemWithError(p->known, needs);
    return known != NULL || PyErr_Occurred() ? known : kept(p, needs, new_plan(p, needs));
}

/* What a gradient's part takes, and gives. */
static PyObject *gradient_part(DynPart *p, Gradients *x, const bool *wanted) {
    uint32_t room = x->graph.nodes.n + x->nseeds + p->saves.n + 1;
    uint32_t *inputs = DYN_NEW_N(&p->arena, uint32_t, room), *outputs = DYN_NEW_N(&p->arena, uint32_t, room);
    uint32_t *reads = DYN_NEW_N(&p->arena, uint32_t, room), *gives = DYN_NEW_N(&p->arena, uint32_t, room);
    bool *stops = DYN_NEW_N(&p->arena, bool, room), *needed = DYN_NEW_N(&p->arena, bool, room);
    uint32_t nin = 0, nreads = 0, nout = 0;
    DynStr error = {0};
    DynPart *part = NULL;
    PyObject *made = NULL;
    if (!DYN_ALLOCATED(inputs, outputs, reads, gives, stops, needed)) {
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < x->graph.inputs.n; i++) {
        uint32_t gradient = wanted[i] ? x->of[x->graph.inputs.at[i]] : DYN_NONE;
        gives[i] = gradient == DYN_NONE ? DYN_NONE : nout;
        if (gradient != DYN_NONE) {
            outputs[nout++] = gradient;
            needed[gradient] = true;
        }
    }
    for (uint32_t i = 0; i < x->nseeds; i++) {
        if (x->seeds[i] != DYN_NONE) {
            inputs[nin++] = x->seeds[i];
        }
    }
    for (uint32_t i = 0; i < p->saves.n; i++) {
        stops[p->saves.at[i]] = true;
    }
    dyn_part_mark(&x->graph, stops, needed);
    for (uint32_t i = 0; i < p->saves.n; i++) {
        if (needed[p->saves.at[i]]) {
            reads[nreads++] = i;
            inputs[nin++] = p->saves.at[i];
        }
    }
    part = dyn_follow_part(p->share, &x->graph, (DynList){inputs, nin}, (DynList){outputs, nout}, p, &error);
    for (uint32_t i = 0; part != NULL && i < nin; i++) { /* a gradient of it may be wanted by any */
        part->wanted[i] = dyn_derive_follows(dyn_graph_node(&part->graph, part->graph.inputs.at[i]));
    }
    if (part != NULL) {
        made = Py_BuildValue("NNN", (PyObject *)part, int_tuple(reads, nreads), int_tuple(gives, x->graph.inputs.n));
    } else {
        raise_failure(&p->graph, &error);
    }
    return made;
}

/* gradient(given, needs) → (part, which saved values it takes behind the given gradients, which of its outputs is the gradient of
 * each input). */
static PyObject *new_gradient(DynPart *p, PyObject *given_object, PyObject *needs) {
    PyObject *made = NULL;
    bool *given, *wanted;
    Gradients x = {.n = 0};
    DynStr error = {0};
    if (dyn_follow_part_prepare(p) < 0) {
        return NULL;
    }
    const DynGraph *g = &p->saving.graph;
    uint32_t width = dyn_follow_block_width(p);
    bool *all = DYN_NEW_N(&p->arena, bool, g->outputs.n + 1);
    if (bools_of(&p->arena, given_object, width, &given) < 0 || bools_of(&p->arena, needs, g->inputs.n, &wanted) < 0) {
        return NULL;
    }
    for (uint32_t i = 0; all != NULL && i < g->outputs.n; i++) { /* a gradient of the block is one of all its pieces */
        all[i] = given[i < width ? i : width - 1];
    }
    if (all == NULL) {
        return PyErr_NoMemory();
    }
    if (derive(p, g->outputs.at, g->outputs.n, all, wanted, &x, &error) == 0) {
        made = gradient_part(p, &x, wanted);
    } else {
        raise_failure(g, &error);
    }
    if (x.graph.arena != NULL) {
        dyn_graph_free(&x.graph);
    }
    return made;
}

PyObject *dyn_follow_part_gradient(DynPart *p, PyObject *key) {
    PyObject *known = PyDict_GetItemWithError(p->known, key);
    if (known != NULL || PyErr_Occurred()) {
        return known;
    }
    return kept(p, key, new_gradient(p, PyTuple_GET_ITEM(key, 0), PyTuple_GET_ITEM(key, 1)));
}

static PyObject *bool_tuple(const bool *at, uint32_t n) {
    PyObject *t = PyTuple_New(n);
    for (uint32_t i = 0; t != NULL && i < n; i++) {
        PyTuple_SET_ITEM(t, i, Py_NewRef(at[i] ? Py_True : Py_False));
    }
    return t;
}

DynPart *dyn_follow_part_expected(DynPart *p) {
    const DynGraph *g = &p->saving.graph;
    bool *reached = dyn_follow_part_reach(p, g, p->wanted), *given = DYN_NEW_N(&p->arena, bool, g->outputs.n + 1);
    if (!DYN_ALLOCATED(reached, given)) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t i = 0; i < p->nout; i++) { /* those behind them are saved, and nobody else sees them */
        given[i] = reached[g->outputs.at[i]];
    }
    PyObject *first = bool_tuple(given, dyn_follow_block_width(p)), *second = bool_tuple(p->wanted, g->inputs.n);
    PyObject *key = first == NULL || second == NULL ? NULL : PyTuple_Pack(2, first, second);
    PyObject *made = key == NULL ? NULL : dyn_follow_part_gradient(p, key);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(key);
    return made == NULL ? NULL : (DynPart *)PyTuple_GET_ITEM(made, 0);
}
