/* rec_cached.c: calls of what functools.lru_cache makes. The cache is the program's: it may be cleared or full, and a call that
 * isn't answered by it runs the function. So the graph makes the call where the program makes it, and goes on where it gives the
 * number or truth that it gave while recording; where it doesn't, the graph is left in front of the call, which is then made
 * again, as one more hit. What it gives for numbers that are others at each call is another at each call. A call that gave None
 * is made behind the graph.
 *
 * Called by rec_call.c. */
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"

PyTypeObject *dyn_cached_type;

int rec_cached_init(void) {
    PyObject *module = dyn_import("functools");
    dyn_cached_type = module ? (PyTypeObject *)PyObject_GetAttrString(module, "_lru_cache_wrapper") : NULL;
    Py_XDECREF(module);
    return dyn_cached_type == NULL ? -1 : 0;
}

/* Arguments are looked up in the cache: those that are no numbers are the same at every call. varies: some number is not. */
static int burn_all(DynRec *r, const RecCall *c, bool *varies) {
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        DynOperand o = c->args[i];
        if (dyn_rec_resolve(r, o.v, o.real) < 0) {
            return -1;
        }
        if (o.v->kind == DV_SYM) {
            *varies = *varies || !dyn_sym_is_const(&r->cap->syms, rec_sym_of(o.v));
        } else if ((o.v->kind == DV_OBJECT ? rec_guard_id(r, o.v, o.real) : dyn_rec_burn(r, o.v, o.real)) < 0) {
            return -1;
        }
    }
    return 0;
}

static DynVal *called_behind(DynRec *r, const RecCall *c) {
    DynVal **args = DYN_NEW_N(&r->arena, DynVal *, c->npos + 1);
    for (uint32_t i = 0; args != NULL && i < c->npos; i++) {
        args[i] = c->args[i].v;
    }
    bool known = args != NULL && c->nkw == 0 && rec_global_effect(r, c->callable.real, c->npos, args) == 0;
    return known ? dyn_rec_const(r, Py_None) : rec_fail(r, DYN_R_SIDE_EFFECT, "lru_cache");
}

/* The number that the call in the graph gives is taken for the one that it gave. */
static DynVal *as_it_was(DynRec *r, DynVal *v, PyObject *result) {
    if (v == NULL || v->kind != DV_SYM) {
        return NULL;
    }
    PyObject *number = PyBool_Check(result) ? NULL : result;
    DynVal *want = number != NULL ? dyn_rec_const(r, number) : NULL;
    uint32_t truth = rec_sym_of(v);
    if (number != NULL) {
        truth = want == NULL || want->kind != DV_SYM ? DYN_NONE : dyn_np_op(r, DYN_S_EQ, rec_sym_of(v), rec_sym_of(want));
    }
    return truth == DYN_NONE || dyn_rec_expect(r, truth) < 0 ? NULL : dyn_rec_const(r, result);
}

/* With maxsize=0 it keeps nothing: a call that is made again runs the function again. */
static bool keeps_nothing(PyObject *cached) {
    PyObject *info = PyObject_CallMethod(cached, "cache_info", NULL);
    PyObject *most = info ? PyObject_GetAttrString(info, "maxsize") : NULL;
    bool nothing = most == NULL || (most != Py_None && PyLong_AsLong(most) == 0);
    PyErr_Clear();
    Py_XDECREF(most);
    Py_XDECREF(info);
    return nothing;
}

/* The function runs where the cache has no answer: while what the program changed before is still to be changed, and before what
 * it looks at behind the call. Is that all the same to it? */
static bool runs_anywhere(DynRec *r, PyObject *cached) {
    PyObject *f = PyObject_GetAttrString(cached, "__wrapped__");
    DynVal *v = f ? dyn_rec_const(r, f) : NULL;
    bool first = v != NULL && r->effects.n == 0;
    bool pure = first && PyFunction_Check(f) && rec_is_pure(r, (DynOperand){v, f}, true);
    PyErr_Clear();
    Py_XDECREF(f);
    return pure;
}

DynVal *rec_on_cached(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    PyObject *f = c->callable.real;
    if (r->cap == NULL || keeps_nothing(f)) {
        return REC_DECLINED;
    }
    bool varies = false, known = dyn_rec_resolve(r, c->callable.v, f) == 0 && rec_guard_id(r, c->callable.v, f) == 0;
    known = known && burn_all(r, c, &varies) == 0;
    bool burnt = known && (!varies || runs_anywhere(r, f));
    *result = rec_call_real(c);
    if (*result == NULL || !burnt || r->cap == NULL) {
        return *result == NULL ? NULL : rec_fail(r, DYN_R_OPAQUE_CALL, "lru_cache");
    }
    if (*result == Py_None) {
        return called_behind(r, c);
    }
    DynVal *v = NULL;
    if (PyBool_Check(*result) || PyLong_CheckExact(*result)) {
        v = dyn_np_extern(r, f, "lru_cache", c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result);
    }
    v = varies ? v : as_it_was(r, v, *result);
    return v != NULL ? v : rec_fail(r, DYN_R_OPAQUE_CALL, "lru_cache");
}
