/* rec_torch_whole.c: calls that are noted beside the nodes that were made of them.
 *
 * Called for each call by rec_numpy.c. A part of a graph that autograd follows may be nothing but one such call, which costs less
 * as it is than as a node of autograd's of ours (evalframe/follow.c). */
#include "base/torch.h"
#include "ir/derive.h"
#include "tracer/numpy/rec_np.h"

/* Is the first argument a list of tensors, which are joined? */
static bool is_list(const NpCall *c) { return c->npos > 0 && (c->args[0].v->kind == DV_LIST || c->args[0].v->kind == DV_TUPLE); }

/* Do the nodes from `first` on take numbers that only a call tells? `by_sizes`: the views among them go by sizes alone. */
static bool takes_numbers(const DynGraph *g, uint32_t first, bool by_sizes) {
    bool takes = false;
    for (uint32_t i = first; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        for (int k = 0; k < n->nargs && !(by_sizes && n->flags & DYN_NODE_VIEW); k++) {
            takes = takes || (n->args[k].kind == DYN_ARG_SYM && !dyn_sym_is_const(g->syms, n->args[k].id));
        }
    }
    return takes;
}

/* An argument of a call that is noted: a tensor, or a value that the call's nodes rest on as it is. */
static bool note_argument(DynRec *r, DynOperand o, DynWhole *w) {
    bool tensor = o.v->kind == DV_ARRAY && dyn_torch_is(o.real);
    bool value = o.real == Py_None || PyBool_Check(o.real) || PyFloat_CheckExact(o.real) || PyLong_CheckExact(o.real);
    if (w->n == DYN_MOST_WHOLE_ARGS || (!tensor && (!value || dyn_rec_burn(r, o.v, o.real) < 0))) {
        return false;
    }
    w->operands[w->n] = tensor ? rec_node_of(o.v) : DYN_NONE;
    w->args[w->n++] = tensor ? NULL : Py_NewRef(o.real);
    return true;
}

static bool note_arguments(DynRec *r, const NpCall *c, DynWhole *w) {
    DynOperand items[DYN_MOST_WHOLE_ARGS];
    bool fits = c->npos > 0, list = is_list(c);
    if (list) {
        w->nlist = dyn_np_items(r, c->args[0], items, DYN_MOST_WHOLE_ARGS);
        fits = w->nlist > 0;
    }
    for (int i = 0; i < w->nlist && fits; i++) {
        fits = dyn_torch_is(items[i].real) && note_argument(r, items[i], w);
    }
    for (int i = list; i < c->npos + c->nkw && fits; i++) {
        fits = note_argument(r, c->args[i], w);
    }
    return fits;
}

/* Has the call no effect but its result? What its rule alone tells, as of batch_norm, the nodes from `first` on say. */
static bool is_plain(const DynGraph *g, const DynBinding *b, uint32_t first) {
    bool plain = b->effect == DYN_BIND_PURE || b->effect == DYN_BIND_POINTWISE || b->effect == DYN_BIND_BY_RULE;
    for (uint32_t i = first; i < g->nodes.n && b->effect == DYN_BIND_BY_RULE; i++) {
        plain = plain && !dyn_node_stores(dyn_graph_node(g, i));
    }
    return plain;
}

void rec_torch_note_whole(DynRec *r, const NpCall *c, uint32_t first, const DynVal *v) {
    DynGraph *g = dyn_rec_graph(r);
    bool plain = is_plain(g, c->b, first);
    if (v->kind != DV_ARRAY || !plain || !dyn_torch_is(c->result) || !PyCallable_Check(c->b->callable)) {
        return;
    }
    DynWhole w = {.node = rec_node_of(v), .first = first, .last = g->nodes.n - 1, .callable = c->b->callable};
    const DynNode *n = dyn_graph_node(g, w.node);
    bool calls = dyn_node_calls(n) && !dyn_derive_is_product(g, w.node);
    bool by_sizes = is_list(c) || c->b->effect == DYN_BIND_BY_RULE; /* places in what is joined, a norm's channels */
    bool fits = w.node >= first && n->flags & DYN_NODE_GRAD && !(n->flags & DYN_NODE_VIEW) && !calls;
    w.kwnames = Py_XNewRef(c->kwnames);
    fits = fits && !takes_numbers(g, first, by_sizes) && note_arguments(r, c, &w);
    if (!fits || dyn_vec_push(&g->wholes, w) < 0) {
        Py_XDECREF(w.kwnames);
        for (int i = 0; i < w.n; i++) {
            Py_XDECREF(w.args[i]);
        }
        *dyn_rec_why(r) = DYN_R_OK;
    }
}
