/* rec_context.c: context variables that are set and reset while recording: var.set(x), var.get(), var.reset(token).
 *
 * set and reset run for real and are effects (rec_effects.c); a set that the same segment resets again leaves nothing to do at
 * later calls, and neither of the two is made there. What a variable holds is known from the last set of it in the segment; one
 * that was set elsewhere is not followed. NumPy's variable for np.errstate isn't either: kernels and NumPy's own calls look at it
 * while the graph runs, which is before its effects, so that setting it or resetting it is a graph break. Called by rec_call.c.
 */
#include "tracer/record/rec_callables.h"

static PyObject *var_set, *var_reset; /* methods of a builtin type: there for good */

int rec_context_init(void) {
    var_set = dyn_cpy_lookup_named(&PyContextVar_Type, "set");
    var_reset = dyn_cpy_lookup_named(&PyContextVar_Type, "reset");
    return var_set == NULL || var_reset == NULL ? -1 : 0;
}

static bool is_row(const RecEffect *e, PyObject *callable) { return e->kind == DYN_FX_CALL && e->obj == callable; }

static bool was_reset(const DynRec *r, uint32_t at) {
    const RecEffect *e = &r->effects.at[at];
    for (uint32_t i = at + 1; e->gives != NULL && i < r->effects.n; i++) {
        if (is_row(&r->effects.at[i], var_reset) && r->effects.at[i].items[1] == e->gives) {
            return true;
        }
    }
    return false;
}

bool rec_effect_is_undone(const DynRec *r, uint32_t at) {
    const RecEffect *e = &r->effects.at[at];
    if (is_row(e, var_reset) && e->items[1]->kind == DV_RESULT) { /* of a set of the same segment: no other is taken */
        return !e->items[1]->wanted;
    }
    return e->gives != NULL && !e->gives->wanted && was_reset(r, at);
}

/* The last set of the variable that stands; NULL: none, and *touched says whether the segment did anything to it. */
static const RecEffect *last_set(const DynRec *r, PyObject *var, bool *touched) {
    *touched = false;
    for (uint32_t i = r->effects.n; i-- > 0;) {
        const RecEffect *e = &r->effects.at[i];
        bool is_set = is_row(e, var_set);
        if ((!is_set && !is_row(e, var_reset)) || rec_constant_or_null(e->items[0]) != var) {
            continue;
        }
        *touched = true;
        if (is_set ? !was_reset(r, i) : e->items[1]->kind != DV_RESULT) {
            return is_set ? e : NULL;
        }
    }
    return NULL;
}

static DynVal *set(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *items[2] = {c->args[0].v, c->args[1].v}, *token = rec_new(r, DV_RESULT);
    *result = rec_call_real(c);
    if (*result == NULL || token == NULL || rec_keep(r, *result) < 0) {
        return NULL;
    }
    if (!rec_has_recipe(r, c->args[1].v) || rec_global_effect(r, c->callable.real, 2, items) < 0) {
        return NULL;
    }
    r->effects.at[r->effects.n - 1].gives = token;
    return token;
}

static DynVal *reset(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *items[2] = {c->args[0].v, c->args[1].v};
    bool touched;
    const RecEffect *last = last_set(r, c->args[0].real, &touched);
    bool known = c->args[1].v->kind == DV_RESULT ? last != NULL && last->gives == c->args[1].v
                                                 : !touched && rec_has_recipe(r, c->args[1].v);
    *result = rec_call_real(c);
    return *result != NULL && known && rec_global_effect(r, c->callable.real, 2, items) == 0 ? dyn_rec_const(r, *result) : NULL;
}

static DynVal *get(DynRec *r, const RecCall *c, PyObject **result) {
    bool touched;
    const RecEffect *last = last_set(r, c->args[0].real, &touched);
    *result = rec_call_real(c);
    return *result != NULL && last != NULL ? last->items[1] : NULL;
}

/* One of the three, of a variable that is the same at every call. */
static DynVal *of_one(DynRec *r, const RecCall *c, PyObject **result, bool fits,
                      DynVal *(*method)(DynRec *, const RecCall *, PyObject **)) {
    if (c->npos == 0 || c->nkw != 0) {
        return REC_DECLINED;
    }
    bool known = fits && !rec_is_errstate_variable(c->args[0].real) && rec_guard_id(r, c->args[0].v, c->args[0].real) == 0;
    r->why = DYN_R_OPAQUE_CALL;
    r->detail = NULL;
    DynVal *v = known ? method(r, c, result) : NULL;
    if (!known) {
        *result = rec_call_real(c);
    }
    return rec_known_or(r, v, *result, DYN_R_OPAQUE_CALL, "ContextVar");
}

DynVal *rec_on_context_set(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return of_one(r, c, result, c->npos == 2, set);
}

DynVal *rec_on_context_reset(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return of_one(r, c, result, c->npos == 2, reset);
}

DynVal *rec_on_context_get(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    return of_one(r, c, result, c->npos <= 2, get);
}
