/* objects.c: instances of Python classes: their attributes, read and stored where they lie, and the methods of their classes.
 * Called by step.c, calls.c and values.c.
 *
 * A class is taken for granted in the version that it has (a fact), and with it where its instances have each attribute; whether
 * an object is an instance is looked at where it is read. An attribute that the loop doesn't store, of an object that came in a
 * slot, is names.c's: it is read once, when the region is entered. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

uint32_t plan_class_number(Plan *p, const PlanValue *v) {
    for (uint32_t i = 0; i < p->nclasses; i++) {
        if ((PyObject *)p->classes[i].type == p->r->objects.at[v->v.ref]) {
            return i;
        }
    }
    return 0;
}

PlanValue plan_instance(Plan *p, uint32_t class, uint32_t reg) {
    PlanValue v = plan_const(p, (PyObject *)p->classes[class].type); /* for its number */
    v.v.kind = DYN_RK_INST;
    v.v.nregs = 1;
    v.v.regs[0] = reg;
    return v;
}

bool plan_of_instance(Plan *p, PyObject *o, uint32_t slot, PlanValue *v) {
    uint32_t class = plan_class_of(p, o), reg = class == DYN_NONE ? DYN_NONE : dyn_region_reg(p->r, 'P');
    if (reg == DYN_NONE) {
        return false;
    }
    *v = plan_instance(p, class, reg);
    v->v.n = slot < PLAN_VALUES ? (uint8_t)(slot + 1) : 0;
    if (slot < PLAN_VALUES && p->ends[slot + 1]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

uint32_t plan_class_reg(Plan *p, uint32_t class) {
    PyTypeObject *t = p->classes[class].type;
    DynRegionFact fact = {.value = (PyObject *)t, .object = true, .class = true};
    fact.slot = dyn_cpy_class_version(t, &fact.nkeys);
    DynRegionFact *f = plan_fact(p, fact);
    if (f != NULL && f->extra == DYN_NONE) {
        PlanValue v = plan_value(DYN_RK_CLASS, dyn_region_reg(p->r, 'P'));
        f->extra = plan_extra(p, &v);
    }
    return f == NULL || p->stop != DYN_R_OK ? 0 : p->extras.at[f->extra].regs[0];
}

/* The place of an attribute: left where the instance has a dict, in which it then lies. */
static bool place_of(Plan *p, const PlanValue *o, PyObject *name, uint32_t *place) {
    uint32_t class = plan_class_number(p, o);
    bool direct;
    int64_t at;
    if (!dyn_cpy_field(p->classes[class].type, name, &direct, &at)) {
        plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute of an object that loops in native code don't know");
        return false;
    }
    plan_class_reg(p, class);
    uint32_t number = plan_iconst(p, at);
    *place = direct ? plan_emit(p, DYN_RO_PADD, o->v.regs[0], number, DYN_NONE)
                    : plan_emit_or(p, DYN_RO_FIELD, o->v.regs[0], number, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

bool plan_is_field(Plan *p, const PlanValue *o, PyObject *name) {
    bool direct;
    int64_t at;
    const PlanClass *c = o->v.kind == DYN_RK_INST ? &p->classes[plan_class_number(p, o)] : NULL;
    if (c == NULL || !dyn_cpy_field(c->type, name, &direct, &at)) {
        return false;
    }
    bool fixed = o->v.n > 0;
    for (uint32_t i = 0; i < c->nnames && fixed; i++) {
        fixed = c->names[i] != name || !c->stored[i];
    }
    return !fixed;
}

Went plan_load_field(Plan *p, PlanValue o, PyObject *name) {
    uint32_t place, class = plan_class_number(p, &o), shape = plan_attribute_shape(p, class, name, false);
    if (shape == 0 || plan_shape(p, shape)->bits == 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute that no instance had");
    }
    if (!place_of(p, &o, name, &place)) {
        return WENT_NOWHERE;
    }
    PlanItem item = {plan_emit_or(p, DYN_RO_LDOBJECT, place, DYN_NONE, DYN_NONE, DYN_R_EXCEPTION), shape, DYN_NONE, DYN_NONE};
    return plan_push_item(p, &item, 1);
}

/* In an inlined call what was there is noted, so that the call can be left in its middle and done anew. */
Went plan_store_field(Plan *p, PlanValue o, PyObject *name, PlanValue v) {
    DynRegionOp op;
    uint32_t place, reg, class = plan_class_number(p, &o), shape = plan_attribute_shape(p, class, name, true);
    if (shape == 0 || !plan_storing(p, &v, PLAN_PUT, &op, &reg)) {
        return shape == 0 ? plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an attribute of a class with many") : WENT_NOWHERE;
    }
    if (!place_of(p, &o, name, &place)) {
        return WENT_NOWHERE;
    }
    plan_settle_doubts(p);
    plan_holds(p, shape, &v);
    plan_emit_or(p, DYN_RO_LDOBJECT, place, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    if (p->s.nframes > 1) {
        plan_emit_or(p, DYN_RO_NOTE, place, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        p->s.logged = true;
    }
    plan_emit_or(p, op, place, reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    p->s.n -= 2;
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

bool plan_class_method(Plan *p, const PlanValue *o, PyObject *name, PlanValue *function) {
    PlanClass *c = &p->classes[plan_class_number(p, o)];
    PyObject *found = dyn_cpy_lookup_special(c->type, name);
    uint32_t nkeys = 0;
    bool known = found != NULL && PyFunction_Check(found) && dyn_cpy_class_version(c->type, &nkeys) != 0;
    if (!known || dyn_cpy_shares_key(c->type, name)) {
        return false;
    }
    plan_class_reg(p, plan_class_number(p, o));
    if (!dyn_cpy_has_no_dict(c->type)) {
        plan_emit_or(p, DYN_RO_FIELDS, o->v.regs[0], DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    *function = plan_const(p, found);
    return true;
}
