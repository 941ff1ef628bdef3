/* rec_torch_state.c: torch's state while a segment is recorded: gradients on or off, modes, the default dtype.
 *
 * The state at the segment's beginning is guarded; what it is later follows from that and from the calls that were recorded.
 * Where gradients would be recorded (they are on, and a tensor requires them) nothing is captured: the operation is a break, and
 * autograd sees it as it would without dynoc. A graph runs with gradients off. */
#include "tracer/torch/rec_torch.h"
#include "tracer/record/rec_state.h"

int rec_torch_begin(DynRec *r) { return r->torch; }

void rec_torch_segment(DynRec *r) { r->torch = dyn_torch_find() ? dyn_torch_state() : -1; }

static bool is_followed(int state, PyObject *tensor) { return (state & DYN_TORCH_GRAD) && dyn_torch_requires_grad(tensor); }

bool rec_torch_allows(DynRec *r, PyObject *tensor) {
    int now = r->torch < 0 ? -1 : dyn_torch_state();
    if (now < 0 || ((now ^ r->torch) & DYN_TORCH_INFERENCE) != 0) {
        return false;
    }
    return DYN_TORCH_DEFAULT(now) == DYN_TORCH_DEFAULT(r->torch) && !is_followed(now, tensor);
}

static bool is_elsewhere(PyObject *tensor) {
    PyObject *name = dyn_torch_lookup(tensor, "device.type");
    bool elsewhere = name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "cpu") != 0;
    Py_XDECREF(name);
    return elsewhere;
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
    return is_followed(state, tensor) ? DYN_R_REQUIRES_GRAD : DYN_R_LAYOUT;
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
 * torch.finfo and the like, for which of tensors the dtype counts and of numbers the kind. */
DynVal *tt_rule_state(DynRec *r, NpCall *c) {
    if (r->torch < 0 || rec_torch_guard(r) < 0) {
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
