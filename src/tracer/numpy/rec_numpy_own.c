/* rec_numpy_own.c: which calls of NumPy's own functions the back end makes itself, to the same bits (codegen/run/exec_own.c):
 * a[mask], a[mask] = values of the same dtype, np.bincount of integers, with weights in float64 or none. Called by
 * rec_numpy_extern.c for each call. What is known here holds at every call; sizes, overlaps and values are looked at where the
 * call is made. */
#include "tracer/numpy/rec_np.h"

/* Operand i as an array with axes, or NULL: it is another thing. */
static const DynNode *array_of(DynRec *r, const DynNode *call, int i) {
    const DynNode *n = i < call->nargs && call->args[i].kind == DYN_ARG_NODE ? dyn_np_node_at(r, call->args[i].id) : NULL;
    bool array = n != NULL && n->ndim > 0 && (n->flags & (DYN_NODE_NPSCALAR | DYN_NODE_OBJECT | DYN_NODE_TENSOR)) == 0;
    return array ? n : NULL;
}

/* Are the arguments arrays, so many, and nothing else? */
static bool only_arrays(const DynExtern *x, uint32_t n) {
    bool only = x->kwnames == NULL && x->nargs == n + 1;
    for (uint32_t i = 1; i <= n && only; i++) {
        only = x->args[i].kind == DYN_F_NODE;
    }
    return only;
}

/* Is it a call of this row of bind.def? */
static bool calls(const DynExtern *x, const char *path, bool method) {
    const DynBinding *b = dyn_np_binding(path, method);
    return b != NULL && b->callable == x->callable;
}

static DynOp masked(DynRec *r, const DynNode *call, const DynExtern *x) {
    const DynNode *a = array_of(r, call, 0), *mask = array_of(r, call, 1), *value = array_of(r, call, 2);
    bool masks = mask != NULL && mask->dtype == DYN_BOOL;
    bool found = a != NULL && masks && mask->ndim <= a->ndim;
    int ndim = found ? a->ndim - mask->ndim + 1 : 0;
    if (found && calls(x, "__getitem__", true) && only_arrays(x, 2)) {
        return call->ndim == ndim && call->layout.kind == DYN_LAYOUT_C ? DYN_OP_MASKED : DYN_OP_EXTERN;
    }
    bool puts = calls(x, "__setitem__", true) && x->writes == 0 && only_arrays(x, 3);
    bool fits = value != NULL && value->ndim == ndim;
    bool same = found && fits && value->dtype == a->dtype;
    return puts && same ? DYN_OP_PUT_MASKED : DYN_OP_EXTERN;
}

static bool is_vector(const DynNode *n) { return n != NULL && n->ndim == 1; }

/* Are they integers that are int64 without a loss? */
static bool are_int64(DynDtype dt) { return dyn_dtype_is_integer(dt) && dt != DYN_U64; }

/* An array, a number or None: no tuple, and no other constant. */
static bool is_plain_form(const DynForm *form) {
    bool none = form->kind == DYN_F_CONST && form->obj == Py_None;
    return form->kind == DYN_F_NODE || form->kind == DYN_F_NUMBER || none;
}

static DynOp counted(DynRec *r, const DynNode *call, const DynExtern *x) {
    const DynNode *a = array_of(r, call, 0);
    bool found = is_vector(a) && are_int64((DynDtype)a->dtype) && x->args[1].kind == DYN_F_NODE;
    int weights = 0, numbers = 0;
    for (int i = 1; i < call->nargs && found; i++) {
        const DynNode *w = array_of(r, call, i);
        bool number = call->args[i].kind == DYN_ARG_SYM && dyn_sym_at(dyn_rec_syms(r), call->args[i].id)->type == DYN_T_INT;
        found = number || (is_vector(w) && w->dtype == DYN_F64);
        weights += w != NULL;
        numbers += number;
    }
    for (uint32_t i = 2; i < x->nargs && found; i++) {
        found = is_plain_form(&x->args[i]);
    }
    bool first = x->kwnames == NULL || (uint32_t)PyTuple_GET_SIZE(x->kwnames) < x->nargs - 1; /* x isn't given by name */
    bool once = weights <= 1 && numbers <= 1;
    return found && first && once ? DYN_OP_BINCOUNT : DYN_OP_EXTERN;
}

DynOp dyn_np_call_operator(DynRec *r, uint32_t call, const DynExtern *x) {
    const DynNode *n = dyn_np_node_at(r, call);
    return calls(x, "bincount", false) ? counted(r, n, x) : masked(r, n, x);
}
