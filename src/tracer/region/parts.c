/* parts.c: instances that the loop makes and that are no objects yet: values of a class with those of its attributes
 * (DYN_RK_PARTS). Called by objects.c, lists.c and step.c.
 *
 * What is made and forgotten in one trip, as results of vectors' operators are, never becomes an object. Several values of a
 * state may be the same instance: they carry one number, and what is stored in one of them is stored in all. An instance becomes
 * an object (plan_whole) where it is stored in another object, or where something is asked about it that only objects know; all
 * values that are this instance become that object. On the way out of a region leave.c makes one object of all of them. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

/* ---- layouts: tuples of a class and the names of attributes, in the order in which they were stored */

static PyObject *layout_of(Plan *p, const PlanValue *v) { return p->r->objects.at[v->v.ref]; }

static bool is_same_layout(PyObject *a, PyObject *b) {
    bool same = PyTuple_CheckExact(a) && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(b); i++) {
        same = PyTuple_GET_ITEM(a, i) == PyTuple_GET_ITEM(b, i);
    }
    return same;
}

/* The number of the layout among the region's objects: `before` (or NULL) with one more item. */
static uint32_t longer_layout(Plan *p, PyObject *before, PyObject *item) {
    Py_ssize_t n = before == NULL ? 0 : PyTuple_GET_SIZE(before);
    PyObject *made = PyTuple_New(n + 1);
    if (made == NULL) {
        PyErr_Clear();
        plan_stop(p, DYN_R_NO_MEMORY);
        return 0;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyTuple_SET_ITEM(made, i, Py_NewRef(PyTuple_GET_ITEM(before, i)));
    }
    PyTuple_SET_ITEM(made, n, Py_NewRef(item));
    uint32_t found = DYN_NONE;
    for (uint32_t i = 0; i < p->r->objects.n && found == DYN_NONE; i++) {
        found = is_same_layout(p->r->objects.at[i], made) ? i : DYN_NONE;
    }
    if (found == DYN_NONE) {
        PlanValue v = plan_const(p, made);
        found = v.v.ref;
    }
    Py_DECREF(made);
    return found;
}

PyTypeObject *plan_type_of_instance(Plan *p, const PlanValue *v) {
    PyObject *o = p->r->objects.at[v->v.ref];
    return (PyTypeObject *)(plan_is_parts(v) ? PyTuple_GET_ITEM(o, 0) : o);
}

/* The place of an attribute among the items, or -1. */
static Py_ssize_t place_of(Plan *p, const PlanValue *v, PyObject *name) {
    PyObject *layout = layout_of(p, v);
    Py_ssize_t i = PyTuple_GET_SIZE(layout) - 1;
    while (i > 0 && PyTuple_GET_ITEM(layout, i) != name) {
        i--;
    }
    return i - 1;
}

/* ---- values that are the same instance */

/* Those in *v become *with. */
static void replace_in(Plan *p, PlanValue *v, uint32_t number, const PlanValue *with) {
    if (plan_is_parts(v) && v->v.shape == number) {
        *v = *with;
        return;
    }
    if (!plan_has_parts(v, number)) {
        return;
    }
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, v->v.n);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return;
    }
    for (uint32_t i = 0; i < v->v.n; i++) {
        items[i] = v->items[i];
        replace_in(p, &items[i], number, with);
    }
    v->items = items;
}

bool plan_has_parts(const PlanValue *v, uint32_t number) {
    bool has = plan_is_parts(v) && v->v.shape == number;
    for (uint32_t i = 0; !has && dyn_region_has_items(v->v.kind) && v->items != NULL && i < v->v.n; i++) {
        has = plan_has_parts(&v->items[i], number);
    }
    return has;
}

uint32_t plan_parts_order(Plan *p, uint32_t number) {
    uint32_t i = 0;
    while (i < p->ordered.n && p->ordered.at[i] != number) {
        i++;
    }
    if (i == p->ordered.n && dyn_vec_push(&p->ordered, (uint16_t)number) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    return i;
}

/* ---- they are made, read and stored */

bool plan_new_parts(Plan *p, PyTypeObject *t, PlanValue *out) {
    if (p->nparts == UINT16_MAX) {
        return false;
    }
    *out = plan_value(DYN_RK_PARTS, DYN_NONE);
    out->v.ref = longer_layout(p, NULL, (PyObject *)t);
    out->v.shape = p->nparts++;
    return p->stop == DYN_R_OK;
}

bool plan_load_from_parts(Plan *p, const PlanValue *o, PyObject *name, PlanValue *out) {
    Py_ssize_t i = plan_is_parts(o) ? place_of(p, o, name) : -1;
    if (i >= 0) {
        *out = o->items[i];
    }
    return i >= 0;
}

/* Can CPython be left within an inlined call, before which the instance was there? Its attributes are as they were then, there.
 */
static bool is_seen_before(const Plan *p, uint32_t number) {
    bool seen = false;
    for (uint32_t i = 0; p->s.nframes > 1 && p->resume_at != DYN_NONE && i < p->resume.n && !seen; i++) {
        seen = plan_has_parts(&p->resume.values[i], number);
    }
    return seen;
}

/* Would the attribute be in the instance, and not something that its class says more of? */
static bool can_have(PyTypeObject *t, PyObject *name) {
    bool direct;
    int64_t at;
    PyObject *found = dyn_cpy_lookup_special(t, name);
    bool told = found != NULL && Py_TYPE(found)->tp_descr_set != NULL;
    return dyn_cpy_field(t, name, &direct, &at) || (!told && !dyn_cpy_has_no_dict(t));
}

bool plan_store_in_parts(Plan *p, const PlanValue *o, PyObject *name, PlanValue v) {
    Py_ssize_t at = place_of(p, o, name);
    uint32_t n = o->v.n, i = at < 0 ? n : (uint32_t)at;
    bool odd = v.v.kind == DYN_RK_NULL || v.v.kind == DYN_RK_ENTRY || v.v.flags & DYN_RF_MAYBE || plan_has_paused(&v) ||
               plan_is_no_value(&v) || plan_has_parts(&v, o->v.shape);
    if (odd || is_seen_before(p, o->v.shape) || i == PLAN_ITEMS || (at < 0 && !can_have(plan_type_of_instance(p, o), name))) {
        return false;
    }
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, n + 1), with = *o;
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    if (n > 0) {
        memcpy(items, o->items, n * sizeof *items);
    }
    plan_reg(p, &v);
    items[i] = v;
    if (i == n) {
        with.v.ref = longer_layout(p, layout_of(p, o), name);
        with.v.n++;
    }
    with.items = items;
    const uint32_t number = o->v.shape; /* *o may be one of them */
    for (uint32_t k = 0; k < p->s.n; k++) {
        replace_in(p, &p->s.values[k], number, &with);
    }
    return true;
}

/* ---- they become objects */

/* Also where CPython would go on, as far as nothing has been stored there since. */
static void become(Plan *p, uint32_t number, const PlanValue *made) {
    for (uint32_t i = 0; i < p->s.n; i++) {
        PlanValue *now = &p->s.values[i], *then = i < p->resume.n ? &p->resume.values[i] : NULL;
        bool same = then != NULL && plan_is_same(now, then);
        replace_in(p, now, number, made);
        if (same) {
            *then = *now;
        }
    }
    p->resume_exit = DYN_NONE;
}

/* A float that is known is one object for all instances, as a constant is in CPython. */
static void share_constant(Plan *p, const PlanValue *item, DynRegionOp *op, uint32_t *reg) {
    PyObject *o = item->v.kind == DYN_RK_FLOAT && item->known ? PyFloat_FromDouble(item->number.f) : NULL;
    PyErr_Clear();
    if (o != NULL) {
        *op = DYN_RO_NAMEOBJECT;
        *reg = plan_object_reg(p, o);
        Py_DECREF(o);
    }
}

bool plan_whole(Plan *p, PlanValue *v) {
    if (!plan_is_parts(v)) {
        return true;
    }
    for (uint32_t i = 0; i < p->wholes.n; i++) { /* a copy that lies in no state, of one that this instruction has made before */
        if (p->wholes.at[i].number == v->v.shape && p->wholes.at[i].block == p->block) {
            *v = p->wholes.at[i].made;
            return true;
        }
    }
    uint32_t class = plan_class_of_type(p, plan_type_of_instance(p, v));
    if (class == DYN_NONE) {
        plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an instance of one class too many");
        return false;
    }
    plan_settle_doubts(p);
    PlanValue made =
        plan_instance(p, class, plan_emit_or(p, DYN_RO_NEWINST, plan_class_reg(p, class), DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
    plan_makes(p);
    for (uint32_t i = 0; i < v->v.n; i++) {
        PyObject *name = PyTuple_GET_ITEM(layout_of(p, v), i + 1);
        uint32_t shape = plan_attribute_shape(p, class, name, false), reg, part = p->part;
        PlanValue item = v->items[i];
        DynRegionOp op;
        p->part = part * PLAN_PARTS + i + 1;
        bool stored = shape != 0 && plan_storing(p, &item, PLAN_NAME, &op, &reg);
        p->part = part;
        if (!stored) {
            plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute that loops in native code can't store");
            return false;
        }
        plan_holds(p, shape, &item);
        share_constant(p, &item, &op, &reg);
        plan_emit_or(p, op, made.v.regs[0], plan_object_reg(p, name), reg, DYN_R_NO_MEMORY);
        plan_last(p)->imm.i = dyn_cpy_place_of_name(p->classes[class].type, name);
    }
    const uint32_t number = v->v.shape; /* *v may be one of them */
    become(p, number, &made);
    if (dyn_vec_push(&p->wholes, ((PlanWhole){made, p->block, number})) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    *v = made;
    return true;
}
