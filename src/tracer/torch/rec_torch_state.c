/* rec_torch_state.c: torch's state while a segment is recorded: gradients on or off, modes, the default dtype.
 *
 * The state at the segment's beginning is guarded; what it is later follows from that and from the calls that were recorded.
 * Nodes say whether eager's value requires gradients (DYN_NODE_GRAD) and whether they were made while none were recorded
 * (DYN_NODE_UNFOLLOWED); such a graph is run in parts that autograd follows (evalframe/follow.c), any other with gradients off.
 * What a node is made of has to have a gradient that is PyTorch's: else the rule's nodes are taken back, and the call stays one,
 * with PyTorch's own derivative. A change in place that autograd follows is such a call, too. In graphs that are handed on
 * gradients are not followed: the operation is a break, and autograd sees it as it would without dynoc. */
#include "base/cupy.h"
#include "ir/derive.h"
#include "tracer/torch/rec_torch.h"
#include "tracer/record/rec_state.h"

int rec_torch_begin(DynRec *r) { return r->torch; }

void rec_torch_segment(DynRec *r) {
    (void)dyn_cupy_find();
    r->torch = dyn_torch_find() ? dyn_torch_state() : -1;
    r->torch_casts = r->torch & DYN_TORCH_CASTS;
    r->torch_autocasts = r->torch < 0 ? -1 : dyn_torch_autocasts();
}

static bool is_followed(int state, PyObject *tensor) { return (state & DYN_TORCH_GRAD) && dyn_torch_requires_grad(tensor); }

bool rec_torch_allows(DynRec *r, PyObject *tensor) {
    int now = r->torch < 0 ? -1 : dyn_torch_state();
    if (now < 0 || ((now ^ r->torch) & DYN_TORCH_INFERENCE) != 0 || (now & DYN_TORCH_CASTS) != r->torch_casts) {
        return false;
    }
    bool as_before = DYN_TORCH_DEFAULT(now) == DYN_TORCH_DEFAULT(r->torch) && DYN_TORCH_DEVICE(now) == DYN_TORCH_DEVICE(r->torch);
    return as_before && !(r->req->whole && is_followed(now, tensor));
}

bool rec_torch_follows(PyObject *tensor) { return dyn_torch_requires_grad(tensor) && dyn_torch_records_gradients(); }

/* x.detach(), x.view(dtype): a view that autograd doesn't follow. */
static bool cuts_off(const DynGraph *g, const DynNode *n) { return n->op == DYN_OP_AS_DTYPE && !dyn_graph_pairs(g, n); }

/* Is there such a view among those from the node to its memory? */
static bool is_cut_off(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    while (n->flags & DYN_NODE_VIEW && !cuts_off(g, n)) {
        n = dyn_graph_node(g, n->args[0].id);
    }
    return cuts_off(g, n);
}

/* Does the value of a node that a rule has made require gradients? */
static bool grade(DynGraph *g, uint32_t id, bool recorded) {
    DynNode *n = dyn_graph_node(g, id);
    bool follows = false;
    if (n->op == DYN_OP_INPUT) {
        return false;
    }
    for (int k = dyn_node_stores(n); k < n->nargs; k++) {
        follows = follows || (n->args[k].kind == DYN_ARG_NODE && (dyn_graph_node(g, n->args[k].id)->flags & DYN_NODE_GRAD));
    }
    bool of_other = n->storage != id && n->storage < g->nodes.n && (n->flags & DYN_NODE_VIEW);
    follows = follows || (of_other && (dyn_graph_node(g, n->storage)->flags & DYN_NODE_GRAD) && !is_cut_off(g, id));
    if (follows && !recorded) {
        n->flags |= DYN_NODE_UNFOLLOWED;
    }
    bool grad = follows && recorded && !cuts_off(g, n) && dyn_dtype_is_inexact((DynDtype)n->dtype);
    if (grad) {
        n->flags |= DYN_NODE_GRAD;
        if (dyn_node_stores(n)) { /* what stands there from now on */
            dyn_graph_node(g, n->storage)->flags |= DYN_NODE_GRAD;
        }
    }
    return grad;
}

/* Are the gradients of these nodes, those of one call's rule, PyTorch's own? One operator by its row in ops.def; several by a
 * formula of the whole, or where nothing is lost in going from one to the other. */
static bool derives(const DynGraph *g, uint32_t first, uint32_t node) {
    const DynFormula *f = dyn_graph_formula_of(g, node);
    uint32_t operators = 0;
    bool known = true, chains = true;
    for (uint32_t i = first; i <= node; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        bool is_given = n->op == DYN_OP_INPUT || dyn_node_calls(n) || n->op == DYN_OP_RESULT;
        if (!(n->flags & DYN_NODE_GRAD) || is_given) {
            continue;
        }
        bool view = (n->flags & DYN_NODE_VIEW) != 0;
        bool windows = view && (i == node || dyn_graph_pairs(g, n)); /* made by PyTorch, where it is asked for */
        uint8_t kind = dyn_ops[n->op].kind;
        operators += !view && !dyn_node_stores(n) && kind != DYN_K_CREATE && kind != DYN_K_COPY;
        known = known && (windows || dyn_ops[n->op].kind == DYN_K_CREATE || dyn_derive_knows(g, i));
        chains = chains && (windows || dyn_node_stores(n) || dyn_ops[n->op].kind == DYN_K_CREATE || dyn_derive_chains(g, i));
    }
    const DynNode *result = dyn_graph_node(g, node);
    bool real = dyn_dtypes[result->dtype].kind == 'f', half = dyn_dtype_is_half((DynDtype)result->dtype);
    bool by_formula = dyn_derive_follows(result) && real && !(half && g->device != 0);
    return f != NULL ? by_formula : known && (operators <= 1 || chains);
}

static void grade_all(DynGraph *g, bool recorded) {
    for (; g->graded < g->nodes.n; g->graded++) {
        grade(g, g->graded, recorded);
    }
}

void rec_torch_noted(DynRec *r) {
    if (r->torch >= 0) {
        grade_all(&r->cap->graph, dyn_torch_records_gradients());
    }
}

void rec_torch_changed(DynRec *r, uint32_t call, uint32_t node, PyObject *tensor) {
    DynGraph *g = &r->cap->graph;
    grade_all(g, dyn_torch_records_gradients());
    if (!rec_torch_follows(tensor)) {
        return;
    }
    DynNode *changed[2] = {dyn_graph_node(g, node), dyn_graph_node(g, dyn_graph_node(g, node)->storage)};
    dyn_graph_node(g, call)->flags |= DYN_NODE_GRAD;
    for (int i = 0; i < 2; i++) {
        changed[i]->flags |= changed[i]->flags & DYN_NODE_GRAD ? 0 : DYN_NODE_GRAD | DYN_NODE_GRAD_LATER;
    }
}

int rec_torch_grade(DynRec *r, uint32_t node, PyObject *result) {
    DynGraph *g = &r->cap->graph;
    uint32_t first = g->graded;
    bool recorded = dyn_torch_records_gradients(), requires = dyn_torch_requires_grad(result);
    grade_all(g, recorded);
    for (uint32_t i = first; i <= node && !recorded; i++) { /* a view that is made now may not be changed where they are */
        dyn_graph_node(g, i)->flags |= dyn_graph_node(g, i)->flags & DYN_NODE_VIEW ? DYN_NODE_UNFOLLOWED : 0;
    }
    DynNode *n = dyn_graph_node(g, node);
    if (dyn_node_calls(n) || n->op == DYN_OP_RESULT) {
        n->flags = (uint16_t)(requires ? n->flags | DYN_NODE_GRAD : n->flags & ~DYN_NODE_GRAD);
        return requires && r->req->whole ? -1 : 0;
    }
    if (!recorded) { /* views of what requires gradients still say that they do */
        return requires && !(n->flags & DYN_NODE_VIEW) ? -1 : 0;
    }
    if (requires != ((n->flags & DYN_NODE_GRAD) != 0)) {
        return -1;
    }
    return !requires || first > node || derives(g, first, node) ? 0 : -1;
}

int rec_torch_formula(DynRec *r, uint32_t node, const DynArg *operands, const char *text) {
    bool follows = node != DYN_NONE && (dyn_graph_node(&r->cap->graph, operands[0].id)->flags & DYN_NODE_GRAD);
    return follows ? dyn_graph_formula(&r->cap->graph, node, operands, text) : 0;
}

/* Is it on a device that there are no kernels for? */
static bool is_elsewhere(PyObject *tensor) {
    PyObject *name = dyn_torch_lookup(tensor, "device.type");
    bool elsewhere = name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "cpu") != 0;
    DynArrayView view;
    Py_XDECREF(name);
    return elsewhere && !dyn_torch_look(tensor, &view);
}

static bool has_known_dtype(PyObject *tensor) {
    PyObject *dtype = dyn_torch_lookup(tensor, "dtype");
    bool known = dtype != NULL && dyn_torch_dtype_parse(dtype) != DYN_NO_DTYPE;
    Py_XDECREF(dtype);
    return known;
}

DynReason rec_torch_why_none(PyObject *tensor) {
    if (!dyn_torch_is(tensor)) {
        return DYN_R_SUBCLASS;
    }
    if (is_elsewhere(tensor)) {
        return DYN_R_DEVICE;
    }
    if (!has_known_dtype(tensor)) {
        return DYN_R_DTYPE;
    }
    int state = dyn_torch_state();
    if (state < 0) {
        return DYN_R_UNSUPPORTED_VALUE;
    }
    DynArrayView view;
    bool lies = dyn_torch_look(tensor, &view) && view.aligned;
    if (!lies) {
        return DYN_R_LAYOUT;
    }
    return is_followed(state, tensor) ? DYN_R_REQUIRES_GRAD : DYN_R_DEVICE; /* the graph's arrays are elsewhere */
}

int rec_torch_guard(DynRec *r) {
    for (uint32_t i = 0; i < r->cap->guards.n; i++) {
        if (r->cap->guards.at[i].kind == DYN_GUARD_TORCH) {
            return 0;
        }
    }
    return rec_guard(r, DYN_GUARD_TORCH, DYN_NONE, DYN_NONE, r->torch, NULL);
}

/* torch.is_grad_enabled() and the like: what they say follows from the state. Operator 1: is there something among the arguments
 * that overrides torch's functions? Not in exact tensors and Python's own values, which are all that is known here. Operator 2:
 * torch.finfo and the like, for which of tensors the dtype counts and of numbers the kind. Operator 3: where tensors are made,
 * which with CUDA's current device isn't in the state. */
DynVal *tt_rule_state(DynRec *r, NpCall *c) {
    bool open = c->b->op == 3 && DYN_TORCH_DEVICE(r->torch) == 2;
    if (r->torch < 0 || open || rec_torch_guard(r) < 0) {
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < c->npos + c->nkw; i++) {
        DynOperand o = c->args[i];
        bool by_kind = c->b->op == 2 && (rec_is_array(o.v) || o.v->kind == DV_SYM);
        if (c->b->op == 1 ? o.v->kind == DV_OPAQUE : !by_kind && dyn_rec_burn(r, o.v, o.real) < 0) {
            return NULL;
        }
    }
    return c->b->op == 1 && c->result != Py_False ? dyn_np_unsupported(r) : dyn_rec_const(r, c->result);
}

/* Does an argument, or an item of one, override torch's functions? */
static bool overrides(PyObject *o) {
    static PyObject *name;
    if (PyTuple_Check(o) || PyList_Check(o)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); i++) {
            if (overrides(PySequence_Fast_GET_ITEM(o, i))) {
                return true;
            }
        }
        return false;
    }
    if (name == NULL) {
        name = PyUnicode_InternFromString("__torch_function__");
    }
    return name == NULL || (!dyn_torch_is(o) && dyn_cpy_lookup_special(Py_TYPE(o), name) != NULL);
}

bool rec_torch_asks_by_mode(DynRec *r, const RecCall *c, const DynBinding *b) {
    bool asks = r->cap != NULL && r->torch >= 0 && DYN_TORCH_DEVICE(r->torch) != 0 && b->rule == tt_rule_state && b->op == 1;
    for (uint32_t i = 0; asks && i < c->npos + c->nkw; i++) {
        asks = !overrides(c->args[i].real);
    }
    return asks;
}

/* The call that torch.no_grad and torch.enable_grad end in: made again behind the graph, which itself runs without gradients. */
DynVal *tt_rule_set_grad(DynRec *r, NpCall *c) {
    if (r->torch < 0 || c->slot[0].v == NULL || dyn_rec_burn(r, c->slot[0].v, c->slot[0].real) < 0) {
        return dyn_np_refuse(r, DYN_R_SIDE_EFFECT);
    }
    if (rec_torch_guard(r) < 0 || rec_global_effect(r, c->b->callable, 1, &c->slot[0].v) < 0) {
        return dyn_np_refuse(r, DYN_R_SIDE_EFFECT);
    }
    return dyn_rec_const(r, Py_None);
}

/* ---- autocast that is entered and left within the function: what its settings are follows from those at the beginning, which
 * are guarded, and from the calls that change them. These are calls in the graph, in their places, so that all that PyTorch is
 * asked for in between is cast as in eager, and an exception finds the settings that it would find. */

static int guard_autocasts(DynRec *r) {
    if (r->torch < 0 || r->torch_autocasts < 0 || rec_torch_guard(r) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < r->cap->guards.n; i++) {
        DynGuard *g = &r->cap->guards.at[i];
        if (g->kind == DYN_GUARD_TORCH) {
            g->number = (g->number & ((INT64_C(1) << DYN_TORCH_AUTOCASTS) - 1)) | r->torch_autocasts << DYN_TORCH_AUTOCASTS;
        }
    }
    return 0;
}

/* What autocast is set to. */
DynVal *tt_rule_autocast(DynRec *r, NpCall *c) { return guard_autocasts(r) < 0 ? dyn_np_unsupported(r) : tt_rule_state(r, c); }

/* It is set, or one is entered or left. */
DynVal *tt_rule_set_autocast(DynRec *r, NpCall *c) {
    int now = dyn_torch_state();
    if (now < 0 || r->req->whole || guard_autocasts(r) < 0) {
        return dyn_np_refuse(r, DYN_R_SIDE_EFFECT);
    }
    for (int i = 0; i < c->npos + c->nkw; i++) {
        if (dyn_rec_burn(r, c->args[i].v, c->args[i].real) < 0) {
            return NULL;
        }
    }
    if (dyn_np_extern_once(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result) == NULL) {
        return NULL;
    }
    r->torch_casts = now & DYN_TORCH_CASTS;
    r->cap->graph.sets_casts = true;
    return dyn_rec_const(r, c->result);
}
