/* part.c: the nodes that some values of a graph need, as a graph of their own.
 *
 * Called by evalframe/follow.c. The parts share the symbols of the graph that they are cut from, so that an array of symbols'
 * values serves all of them. Sources of a part's inputs are its own: locals in their order. */
#include "ir/derive.h"
#include "ir/extern.h"

static bool marks_operands(const DynGraph *g, uint32_t id, const bool *stops, bool *needed) {
    const DynNode *n = dyn_graph_node(g, id);
    bool more = false;
    const DynFormula *f = stops[id] ? NULL : dyn_graph_formula_of(g, id);
    if (f != NULL) {
        needed[f->operands[0].id] = true;
    }
    for (int k = 0; k < n->nargs && !stops[id]; k++) {
        if (n->args[k].kind == DYN_ARG_NODE && !needed[n->args[k].id]) {
            needed[n->args[k].id] = true;
            more |= n->args[k].id > id;
        }
    }
    return more;
}

/* Stores into what is needed; operands of stores stand before them, and may be written before that. */
static bool marks_stores(const DynGraph *g, const bool *stops, bool *needed) {
    bool more = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        bool own = dyn_node_stores(n) && !(n->flags & DYN_NODE_APART);
        if (own && !needed[i] && needed[n->storage] && !stops[n->storage]) {
            needed[i] = more = true;
        }
    }
    return more;
}

void dyn_part_mark(const DynGraph *g, const bool *stops, bool *needed) {
    do {
        for (uint32_t i = g->nodes.n; i-- > 0;) {
            if (needed[i]) {
                marks_operands(g, i, stops, needed);
            }
        }
    } while (marks_stores(g, stops, needed));
}

static int fail(DynStr *error, const char *what) {
    dyn_str_puts(error, what);
    return -1;
}

static int copy_input(const DynGraph *g, DynGraph *out, uint32_t id, uint32_t *map) {
    const DynNode *n = dyn_graph_node(g, id);
    uint32_t at = dyn_graph_add(out, DYN_OP_INPUT, (DynDtype)n->dtype, n->ndim, 0, 0);
    if (at == DYN_NONE || dyn_vec_push(&out->inputs, at) < 0) {
        return -1;
    }
    DynNode *copy = dyn_graph_node(out, at);
    memcpy(copy->shape, n->shape, sizeof(*n->shape) * n->ndim);
    copy->layout = n->layout;
    copy->flags = n->flags & (DYN_NODE_TENSOR | DYN_NODE_GRAD | (n->op == DYN_OP_INPUT ? DYN_NODE_DENSE : 0));
    copy->source = out->inputs.n - 1;
    map[id] = at;
    return 0;
}

/* Without memory the node has no place, and nobody minds. */
static uint32_t copy_place(const DynGraph *g, DynGraph *out, uint32_t where) {
    const char *file = dyn_graph_file_at(g, where);
    if (file == NULL) {
        return DYN_NONE;
    }
    DynPlace place = g->places.at[where];
    for (uint32_t i = 0; i < out->places.n; i++) {
        if (out->places.at[i].line == place.line && !strcmp(out->places.at[i].file, file)) {
            return i;
        }
    }
    place.code = place.globals = NULL;
    place.file = dyn_arena_strdup(out->arena, file);
    return place.file == NULL || dyn_vec_push(&out->places, place) < 0 ? DYN_NONE : out->places.n - 1;
}

static int copy_node(const DynGraph *g, DynGraph *out, uint32_t id, uint32_t *map, DynStr *error) {
    const DynNode n = *dyn_graph_node(g, id);
    uint32_t at = dyn_graph_add(out, (DynOp)n.op, (DynDtype)n.dtype, n.ndim, n.nargs, n.naux);
    if (at == DYN_NONE) {
        return -1;
    }
    DynNode *copy = dyn_graph_node(out, at);
    DynNode kept = *copy;
    *copy = n;
    copy->args = kept.args;
    copy->aux = kept.aux;
    copy->shape = kept.shape;
    memcpy(copy->args, n.args, sizeof(*n.args) * n.nargs);
    memcpy(copy->aux, n.aux, sizeof(*n.aux) * n.naux);
    memcpy(copy->shape, n.shape, sizeof(*n.shape) * n.ndim);
    copy->snapshot = DYN_NONE;
    if (dyn_node_calls(&n) && (copy->extern_index = dyn_extern_copy(&g->externs.at[n.extern_index], out)) == DYN_NONE) {
        return fail(error, "memory is out");
    }
    copy->left = 0;
    copy->where = copy_place(g, out, n.where);
    for (int k = 0; k < n.nargs; k++) {
        bool of_node = n.args[k].kind == DYN_ARG_NODE;
        if (of_node) {
            copy->args[k].id = map[n.args[k].id];
        }
        if (n.args[k].kind == DYN_ARG_SOURCE || (of_node && copy->args[k].id == DYN_NONE)) {
            return fail(error, "a part needs what isn't in it");
        }
    }
    bool shares = (n.flags & DYN_NODE_VIEW) != 0 || dyn_node_stores(&n);
    copy->storage = shares ? dyn_graph_node(out, copy->args[0].id)->storage : at;
    map[id] = at;
    const DynFormula *f = dyn_graph_formula_of(g, id);
    if (f == NULL) {
        return 0;
    }
    DynArg operands[3];
    memcpy(operands, f->operands, sizeof(operands));
    operands[0].id = map[operands[0].id];
    return operands[0].id == DYN_NONE ? fail(error, "a part needs what isn't in it")
                                      : dyn_graph_formula(out, at, operands, f->text);
}

int dyn_part_copy(const DynGraph *g, DynGraph *out, DynList inputs, DynList outputs, uint32_t *map, DynStr *error) {
    bool *needed = DYN_NEW_N(out->arena, bool, g->nodes.n + 1), *stops = DYN_NEW_N(out->arena, bool, g->nodes.n + 1);
    out->device = g->device;
    out->cupy = g->cupy;
    if (!DYN_ALLOCATED(needed, stops)) {
        return fail(error, "memory is out");
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        map[i] = DYN_NONE;
    }
    for (uint32_t i = 0; i < inputs.n; i++) {
        stops[inputs.at[i]] = true;
        if (map[inputs.at[i]] == DYN_NONE && copy_input(g, out, inputs.at[i], map) < 0) {
            return fail(error, "memory is out");
        }
    }
    for (uint32_t i = 0; i < outputs.n; i++) {
        needed[outputs.at[i]] = true;
    }
    dyn_part_mark(g, stops, needed);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (!needed[i] || stops[i]) {
            continue;
        }
        uint8_t kind = dyn_ops[dyn_graph_node(g, i)->op].kind;
        bool calls = kind == DYN_K_EXTERN && !(dyn_ops[dyn_graph_node(g, i)->op].flags & DYN_OPF_PRODUCT);
        if (kind == DYN_K_INPUT || calls || kind == DYN_K_RESULT) {
            return fail(error, "a part needs an input or a call that isn't in it");
        }
        if (copy_node(g, out, i, map, error) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < outputs.n; i++) {
        bool value = !dyn_node_stores(dyn_graph_node(g, outputs.at[i]));
        if (value && dyn_vec_push(&out->outputs, map[outputs.at[i]]) < 0) {
            return fail(error, "memory is out");
        }
    }
    return 0;
}

/* ---- tests */

/* The graph's outputs get gradients g0, g1 …, which become inputs; its inputs' gradients are the outputs of what is printed. */
static int derive_whole(DynGraph *g, DynGraph *out, DynStr *error) {
    uint32_t n = g->nodes.n, *gradients = DYN_NEW_N(g->arena, uint32_t, n + 1), *map;
    bool *reached = DYN_NEW_N(g->arena, bool, n + 1);
    DYN_VEC(uint32_t) inputs = {0};
    DYN_VEC(uint32_t) wanted = {0};
    if (!DYN_ALLOCATED(gradients, reached)) {
        return fail(error, "memory is out");
    }
    for (uint32_t i = 0; i < n; i++) {
        gradients[i] = DYN_NONE;
        reached[i] = dyn_graph_node(g, i)->op == DYN_OP_INPUT && dyn_derive_follows(dyn_graph_node(g, i));
    }
    dyn_derive_reach(g, n, reached);
    int done = 0;
    for (uint32_t i = 0; i < g->inputs.n && done == 0; i++) {
        done = dyn_vec_push(&inputs, g->inputs.at[i]);
    }
    for (uint32_t i = 0; i < g->outputs.n && done == 0; i++) {
        const DynNode of = *dyn_graph_node(g, g->outputs.at[i]);
        uint32_t at = dyn_graph_add(g, DYN_OP_INPUT, (DynDtype)of.dtype, of.ndim, 0, 0);
        done = at == DYN_NONE ? -1 : dyn_vec_push(&inputs, at);
        if (done == 0) {
            memcpy(dyn_graph_node(g, at)->shape, of.shape, sizeof(*of.shape) * of.ndim);
            gradients[g->outputs.at[i]] = at;
        }
    }
    done = done < 0 ? done : dyn_derive(g, n, reached, gradients, NULL, error);
    for (uint32_t i = 0; i < g->inputs.n && done == 0; i++) {
        uint32_t gradient = gradients[g->inputs.at[i]];
        done = gradient == DYN_NONE ? 0 : dyn_vec_push(&wanted, gradient);
    }
    map = DYN_NEW_N(g->arena, uint32_t, g->nodes.n + 1);
    if (done == 0 && map != NULL) {
        done = dyn_part_copy(g, out, (DynList){inputs.at, inputs.n}, (DynList){wanted.at, wanted.n}, map, error);
    }
    dyn_vec_free(&inputs);
    dyn_vec_free(&wanted);
    return done;
}

/* Names for the inputs of a part: those of the graph, then g0, g1 … */
static int name_inputs(const DynGraph *g, DynGraph *out) {
    for (uint32_t i = 0; i < out->inputs.n; i++) {
        PyObject *name = i < g->inputs.n ? NULL : PyUnicode_FromFormat("g%u", i - g->inputs.n);
        uint32_t source = i < g->inputs.n ? dyn_graph_node(g, g->inputs.at[i])->source : DYN_NONE;
        if (name != NULL) {
            source = dyn_source_intern(out->sources, DYN_SRC_LOCAL, DYN_NONE, out->sources->v.n, name, NULL);
            Py_DECREF(name);
        }
        if (source == DYN_NONE) {
            return -1;
        }
        dyn_graph_node(out, out->inputs.at[i])->source = source;
    }
    return 0;
}

static PyObject *derive_text(PyObject *module, PyObject *arg) {
    const char *text = PyUnicode_AsUTF8(arg);
    DynArena arena;
    DynSources sources = {0};
    DynSyms syms = {0};
    DynGraph g = {0}, out = {0};
    DynStr error = {0}, printed = {0};
    PyObject *r = NULL;
    dyn_arena_init(&arena);
    bool made = text != NULL && dyn_graph_init(&g, &arena, "test", &sources, &syms) == 0 &&
                dyn_graph_init(&out, &arena, "gradient", &sources, &syms) == 0;
    bool read = made && dyn_graph_parse(&g, text, &error) == 0 && dyn_graph_verify(&g, &error) == 0;
    bool derived = read && derive_whole(&g, &out, &error) == 0 && name_inputs(&g, &out) == 0;
    if (derived && dyn_graph_verify(&out, &error) == 0) {
        dyn_graph_print(&out, &printed);
        r = PyUnicode_FromString(dyn_str_at(&printed));
    } else if (!PyErr_Occurred()) {
        PyErr_SetString(PyExc_ValueError, dyn_str_at(&error));
    }
    if (made) {
        dyn_graph_free(&out);
        dyn_graph_free(&g);
    }
    dyn_syms_free(&syms);
    dyn_sources_free(&sources);
    dyn_arena_free(&arena);
    dyn_str_free(&error);
    dyn_str_free(&printed);
    return r;
}

static PyMethodDef functions[] = {{"_derive_text", derive_text, METH_O, "The gradient graph of a graph given as text (tests)."},
                                  {NULL, NULL, 0, NULL}};

int dyn_part_init_module(PyObject *module) { return PyModule_AddFunctions(module, functions); }
