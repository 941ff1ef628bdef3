/* rec_items.c: what an iteration over a value gives: what an iterator is made over, and the list of all items where there is one.
 * Both are columns of shadow.def.
 *
 * Called by loops (rec_flow.c) and by rules that take an iterable apart. Lists of items live in the recording's arena. */
#include "tracer/record/rec_state.h"

#define MOST_ITEMS 4096 /* of a range, a string or a tuple that is a constant */

/* ---- the column `items`: 0 with the list of items; -1: there is none, and why is set */

static int no_items(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    (void)v, (void)real, (void)items, (void)n;
    r->why = DYN_R_UNSUPPORTED_VALUE;
    return -1;
}

static int own_items(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    (void)r, (void)real;
    *items = v->items;
    *n = v->n;
    return 0;
}

static int items_of_list_of_items(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    return v->items != NULL ? own_items(r, v, real, items, n) : no_items(r, v, real, items, n);
}

uint32_t rec_live_count(DynVal *v) {
    const DynVal *live = rec_live_container(v);
    return live->kind == DV_DICT ? live->n / 2 : live->n;
}

DynVal *rec_live_item(DynRec *r, DynVal *v, uint32_t i) {
    if (v->kind == DV_VIEW) {
        return rec_view_item(r, v, i);
    }
    return v->kind == DV_DICT ? rec_key_of(r, v, i) : v->items[i];
}

static int items_of_live(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    (void)real;
    *n = rec_live_count(v);
    *items = DYN_NEW_N(&r->arena, DynVal *, *n + 1);
    for (uint32_t i = 0; *items != NULL && i < *n; i++) {
        if (((*items)[i] = rec_live_item(r, v, i)) == NULL) {
            return -1;
        }
    }
    return *items == NULL ? -1 : 0;
}

/* Of a sequence whose items are constants. */
static int constant_items(DynRec *r, PyObject *real, DynVal ***items, uint32_t *n) {
    Py_ssize_t size = PyObject_Size(real);
    if (size < 0 || size > MOST_ITEMS || (*items = DYN_NEW_N(&r->arena, DynVal *, size + 1)) == NULL) {
        PyErr_Clear();
        r->why = DYN_R_BUDGET;
        return -1;
    }
    for (Py_ssize_t i = 0; i < size; i++) {
        PyObject *o = PySequence_GetItem(real, i);
        (*items)[i] = o ? dyn_rec_const(r, o) : NULL;
        Py_XDECREF(o);
        if ((*items)[i] == NULL) {
            PyErr_Clear();
            return -1;
        }
    }
    *n = (uint32_t)size;
    return 0;
}

static int items_of_range(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    return dyn_rec_burn(r, v, real) < 0 ? -1 : constant_items(r, real, items, n);
}

static int items_of_constant(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    if (rec_is_enum_class((DynOperand){v, real})) {
        return rec_enum_members(r, (DynOperand){v, real}, items, n);
    }
    bool listed = PyTuple_CheckExact(real) || PyUnicode_CheckExact(real);
    return listed ? constant_items(r, real, items, n) : no_items(r, v, real, items, n);
}

static int (*const items_as[DV_COUNT])(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = items,
#include "tracer/record/shadow.def"
#undef SHADOW
};

int rec_items(DynRec *r, DynVal *v, PyObject *real, DynVal ***items, uint32_t *n) {
    return rec_resolve_walked(r, v, real) < 0 ? -1 : items_as[v->kind](r, v, real, items, n);
}

/* ---- the column `iterate`: the shadow that an iterator is made over; NULL: none, and why is set */

static DynVal *no_iteration(DynRec *r, DynVal *v, PyObject *real) {
    (void)v, (void)real;
    return rec_fail(r, DYN_R_UNSUPPORTED_VALUE, "iteration over an object of this kind");
}

static DynVal *iterate_itself(DynRec *r, DynVal *v, PyObject *real) {
    (void)r, (void)real;
    return v;
}

static DynVal *iterate_list_of_items(DynRec *r, DynVal *v, PyObject *real) {
    return v->items != NULL ? v : no_iteration(r, v, real);
}

static DynVal *iterate_constant(DynRec *r, DynVal *v, PyObject *real) {
    DynVal **items;
    uint32_t n;
    if (!PyTuple_CheckExact(real) && !PyUnicode_CheckExact(real) && !rec_is_enum_class((DynOperand){v, real})) {
        return no_iteration(r, v, real);
    }
    return rec_items(r, v, real, &items, &n) < 0 ? NULL : dyn_rec_seq(r, DV_OPAQUE, n, items, real);
}

static DynVal *iterate_range(DynRec *r, DynVal *v, PyObject *real) {
    (void)real;
    return dyn_rec_burn(r, v->slice.step, Py_None) < 0 ? NULL : v;
}

/* An instance that is a dict, whose class has no iteration of its own. */
static DynVal *iterate_object(DynRec *r, DynVal *v, PyObject *real) {
    bool as_dict = v->contents != NULL && rec_type_method(r, (DynOperand){v, real}, "__iter__").v == NULL;
    return as_dict ? v->contents : no_iteration(r, v, real);
}

static DynVal *(*const iterate_as[DV_COUNT])(DynRec *r, DynVal *v, PyObject *real) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = iterate,
#include "tracer/record/shadow.def"
#undef SHADOW
};

DynVal *rec_iterate(DynRec *r, DynVal *v, PyObject *real) {
    return rec_resolve_walked(r, v, real) < 0 ? NULL : iterate_as[v->kind](r, v, real);
}
