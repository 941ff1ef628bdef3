/* rec_members.c: sets of objects that are hashed by which object they are: modules, tensors, instances of classes without an
 * equality of their own. One that is made while recording is known by its members (DV_MEMBERS): objects are added to it, and it
 * is asked whether one is among them. The order in which it lists them hangs on their addresses: listing it is a break.
 *
 * Called by the handlers of `in` and of set.add, and for recipes. Owns nothing: members are kept by the recording. */
#include "base/torch.h"
#include "tracer/record/rec_state.h"

#define MAX_MEMBERS 64 /* each is compared with each */

/* Equal to nothing but itself, now and at every call under the guards. */
static bool by_identity(DynRec *r, DynOperand o) {
    PyTypeObject *type = Py_TYPE(o.real);
    if (o.v->kind == DV_ARRAY) {
        return dyn_torch_is(o.real);
    }
    bool object = o.v->kind == DV_OBJECT || o.v->kind == DV_CONST;
    if (!object || PyType_Check(o.real)) {
        return false;
    }
    bool as_object = type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
    return as_object && rec_guard_class(r, type, NULL) == 0;
}

int rec_has_member(DynRec *r, DynOperand o, DynOperand set) {
    bool members = set.v->kind == DV_MEMBERS || (set.v->kind == DV_SET && set.v->n == 0);
    int same = members && by_identity(r, o) ? 0 : -1;
    for (uint32_t i = 0; same == 0 && i < set.v->n; i += 2) {
        same = rec_identity(r, o, (DynOperand){set.v->items[i], rec_constant_of(set.v->items[i + 1])});
    }
    return same;
}

int rec_add_member(DynRec *r, DynOperand set, DynOperand o) {
    int has = set.v->fresh && set.v->type == NULL && set.v->n < 2 * MAX_MEMBERS ? rec_has_member(r, o, set) : -1;
    DynVal *real = has == 0 ? rec_object(r, o.real) : NULL;
    if (has == 0 && (real == NULL || rec_push_item(r, set.v, o.v) < 0 || rec_push_item(r, set.v, real) < 0)) {
        return -1;
    }
    set.v->kind = has < 0 ? set.v->kind : DV_MEMBERS;
    return has < 0 ? -1 : 0;
}

uint32_t rec_members_recipe(DynRec *r, DynVal *v) {
    uint32_t n = v->n / 2, *items = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1), list;
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        if ((items[i] = rec_recipe(r, v->items[2 * i])) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    list = items == NULL ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_LIST, 0, NULL, n, items);
    uint32_t *args = list == DYN_NONE ? NULL : DYN_NEW(&r->cap->arena, uint32_t);
    if (args == NULL) {
        return DYN_NONE;
    }
    *args = list;
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, (PyObject *)&PySet_Type, 1, args);
}
