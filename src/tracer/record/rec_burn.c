/* rec_burn.c: burns values in: guards say that a value is at every call what it is now. How is a column of shadow.def, and so is
 * what a shadow that is a constant already consists of.
 *
 * Called by handlers and rules for axes, dtypes, flags, names and whatever else the graph can't take as an input. */
#include "tracer/record/rec_state.h"

static int burn_sym(DynRec *r, uint32_t sym) {
    DynSyms *t = &r->cap->syms;
    const DynSym *s = dyn_sym_at(t, sym);
    if (dyn_sym_is_const(t, sym)) {
        return 0;
    }
    if (s->type == DYN_T_BOOL) {
        return dyn_rec_assume(r, sym);
    }
    DynScalar hint = s->hint;
    bool f = s->type == DYN_T_FLOAT;
    uint32_t c = f ? dyn_sym_float(t, hint.f) : dyn_sym_int(t, hint.i);
    DynSymOp same = f ? DYN_S_SAME_BITS : DYN_S_EQ;
    return c == DYN_NONE ? -1 : dyn_rec_assume(r, dyn_sym_op(t, same, sym, c, DYN_NONE));
}

/* ---- the column `burn`: 0, or -1 */

static int burn_nothing(DynRec *r, DynVal *v, PyObject *real) {
    (void)r, (void)v, (void)real;
    return 0;
}

static int burn_never(DynRec *r, DynVal *v, PyObject *real) {
    (void)v, (void)real;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    return -1;
}

static int burn_constant(DynRec *r, DynVal *v, PyObject *real) {
    (void)real;
    return rec_guard_key_class(r, rec_constant_of(v));
}

static int burn_number(DynRec *r, DynVal *v, PyObject *real) {
    (void)real;
    return burn_sym(r, rec_sym_of(v));
}

static int burn_node(DynRec *r, DynVal *v, PyObject *real) {
    (void)real;
    return rec_burn_node(r, rec_node_of(v));
}

static int burn_object(DynRec *r, DynVal *v, PyObject *real) {
    return rec_is_fixed(real) ? rec_guard_id(r, v, real) : burn_never(r, v, real);
}

static int burn_sequence(DynRec *r, DynVal *v, PyObject *real) {
    for (uint32_t i = 0; i < v->n; i++) {
        if (i >= PySequence_Fast_GET_SIZE(real) || dyn_rec_burn(r, v->items[i], PySequence_Fast_GET_ITEM(real, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int burn_range(DynRec *r, DynVal *v, PyObject *real) {
    (void)real;
    bool ends = dyn_rec_burn(r, v->slice.start, Py_None) == 0 && dyn_rec_burn(r, v->slice.stop, Py_None) == 0;
    return ends && dyn_rec_burn(r, v->slice.step, Py_None) == 0 ? 0 : -1;
}

static int burn_dict(DynRec *r, DynVal *v, PyObject *real) {
    for (uint32_t i = 0; i + 1 < v->n; i += 2) {
        PyObject *value = PyDict_GetItemWithError(real, rec_constant_of(v->items[i]));
        if (value == NULL || dyn_rec_burn(r, v->items[i + 1], value) < 0) {
            PyErr_Clear();
            return -1;
        }
    }
    return 0;
}

static int burn_slice(DynRec *r, DynVal *v, PyObject *real) {
    PySliceObject *s = (PySliceObject *)real;
    bool ends = dyn_rec_burn(r, v->slice.start, s->start) == 0 && dyn_rec_burn(r, v->slice.stop, s->stop) == 0;
    return ends && dyn_rec_burn(r, v->slice.step, s->step) == 0 ? 0 : -1;
}

static int (*const burn_as[DV_COUNT])(DynRec *r, DynVal *v, PyObject *real) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = burn,
#include "tracer/record/shadow.def"
#undef SHADOW
};

int dyn_rec_burn(DynRec *r, DynVal *v, PyObject *real) {
    if (dyn_rec_resolve(r, v, real) < 0) {
        return -1;
    }
    int status = r->nesting < REC_MAX_DEPTH ? 0 : -1; /* it may contain itself */
    r->nesting++;
    status = status < 0 ? status : burn_as[v->kind](r, v, real);
    r->nesting--;
    return status;
}

bool rec_is_constant(DynVal *v) {
    if (v->kind == DV_SLICE) {
        bool ends = rec_is_constant(v->slice.start) && rec_is_constant(v->slice.stop);
        return ends && rec_is_constant(v->slice.step) && v->source == DYN_NONE;
    }
    if (v->kind != DV_TUPLE) {
        return v->kind == DV_NULL || v->kind == DV_CONST;
    }
    for (uint32_t i = 0; i < v->n; i++) {
        if (!rec_is_constant(v->items[i])) {
            return false;
        }
    }
    return true;
}
