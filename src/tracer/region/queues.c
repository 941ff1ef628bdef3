/* queues.c: heapq's functions on lists, and deques. Called by calls.c, methods.c, step.c and values.c. Items are those of lists
 * (lists.c): an item is looked at where it lies, and taken out when it is known what it is. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

/* ---- heapq */

enum { HEAP_PUSH, HEAP_POP, HEAP_REPLACE, HEAP_PUSHPOP, HEAPIFY, HEAP_FUNCTIONS };

/* Which function of heapq's own C code it is; HEAP_FUNCTIONS: none. */
static int heap_function(PyObject *o) {
    static const char *const names[HEAP_FUNCTIONS] = {"heappush", "heappop", "heapreplace", "heappushpop", "heapify"};
    static PyObject *functions[HEAP_FUNCTIONS]; /* Strong; NULL where they aren't there. */
    static bool looked;
    int which = 0;
    if (!looked) {
        PyObject *module = dyn_import("_heapq");
        looked = true;
        for (int i = 0; module != NULL && i < HEAP_FUNCTIONS; i++) {
            functions[i] = PyObject_GetAttrString(module, names[i]);
        }
        Py_XDECREF(module);
        PyErr_Clear();
    }
    while (which < HEAP_FUNCTIONS && functions[which] != o) {
        which++;
    }
    return which;
}

bool plan_is_heap_function(PyObject *o) { return heap_function(o) < HEAP_FUNCTIONS; }

static Went heap_effect(Plan *p, uint32_t slots) {
    p->s.n -= slots;
    plan_push(p, plan_const(p, Py_None));
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

/* heapreplace, heappushpop: what comes out, which may be what is given, is looked at before anything is moved. */
static Went heap_exchange(Plan *p, int which, PlanValue list, uint32_t given, uint32_t slots) {
    PlanItem item = {.shape = plan_contents(&list), .index = plan_iconst(p, 0)};
    if (which == HEAP_PUSHPOP) {
        item.reg = plan_emit_or(p, DYN_RO_HEAPLEAST, list.v.regs[0], given, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    } else if (!plan_list_item(p, list, plan_int(0), &item)) {
        return WENT_NOWHERE;
    }
    item.list = list.v.regs[0];
    item.notes = true;
    item.remove = which == HEAP_PUSHPOP ? DYN_RO_HEAPPUSHPOP : DYN_RO_HEAPREPLACE;
    item.given = given + 1;
    return plan_push_item(p, &item, slots);
}

static Went heap_with_item(Plan *p, int which, PlanValue list, PlanValue v, uint32_t slots) {
    uint32_t reg;
    if (!plan_boxed(p, &v, &reg)) {
        return WENT_NOWHERE;
    }
    plan_holds(p, plan_contents(&list), &v);
    if (which != HEAP_PUSH) {
        return heap_exchange(p, which, list, reg, slots);
    }
    plan_emit_or(p, DYN_RO_HEAPPUSH, list.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    if (!plan_undoes(p)) {
        return heap_effect(p, slots);
    }
    plan_last(p)->imm.i = 1;
    plan_log(p);
    p->s.n -= slots;
    plan_push(p, plan_const(p, Py_None));
    return WENT_ON;
}

Went plan_call_heap(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, uint32_t slots) {
    const int which = heap_function(o);
    const bool alone = which == HEAP_POP || which == HEAPIFY;
    PlanItem item;
    if (n != (alone ? 1 : 2) || args[0].v.kind != DYN_RK_LIST || (args[0].v.flags & DYN_RF_TUPLE) != 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a heap that is no list");
    }
    if (!alone) {
        return heap_with_item(p, which, args[0], args[1], slots);
    }
    if (which == HEAPIFY) {
        plan_settle_doubts(p);
        plan_emit_or(p, DYN_RO_HEAPIFY, args[0].v.regs[0], DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        return heap_effect(p, slots);
    }
    if (!plan_list_item(p, args[0], plan_int(0), &item)) {
        return WENT_NOWHERE;
    }
    item.list = args[0].v.regs[0];
    item.notes = true;
    item.remove = DYN_RO_HEAPPOP;
    return plan_push_item(p, &item, slots);
}

/* ---- deques */

bool plan_of_deque(Plan *p, PyObject *o, uint32_t which, PlanValue *v) {
    PyTypeObject *type = dyn_cpy_deque_type();
    uint32_t reg = type != NULL && Py_IS_TYPE(o, type) ? dyn_region_reg(p->r, 'P') : DYN_NONE;
    if (reg == DYN_NONE) {
        return false;
    }
    *v = plan_value(DYN_RK_DEQUE, reg);
    uint32_t shape = plan_root(p, which);
    v->v.shape = (uint16_t)shape;
    plan_look_into(p, shape, o, 4);
    if (p->ends[which]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

/* deque(), deque(list) */
bool plan_call_deque(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    PlanValue nothing = plan_value(DYN_RK_TUPLE, DYN_NONE), items = n == 0 ? nothing : plan_tuple_object(p, &args[0]);
    uint32_t reg;
    if (n == 0) {
        PyObject *empty = PyTuple_New(0);
        reg = plan_object_reg(p, empty);
        Py_XDECREF(empty);
    } else if (n > 1 || items.v.kind != DYN_RK_LIST) {
        plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a deque of something else than a list, or with another length");
        return false;
    } else {
        reg = items.v.regs[0];
    }
    *out = plan_made(p, DYN_RK_DEQUE, plan_emit_or(p, DYN_RO_NEWDEQUE, reg, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
    if (n > 0) {
        const PlanShape held = *plan_shape(p, plan_contents(&items));
        plan_join(p, plan_contents(out), &held);
    }
    return true;
}

bool plan_deque_item(Plan *p, PlanValue deque, PlanValue index, PlanItem *item) {
    uint32_t at, shape = plan_contents(&deque);
    if (plan_shape(p, shape)->bits == 0) {
        plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an item of a deque that held none");
        return false;
    }
    if (!plan_list_index(p, &deque, &index, &at)) {
        return false;
    }
    *item = (PlanItem){plan_emit(p, DYN_RO_QITEM, deque.v.regs[0], at, DYN_NONE), shape, DYN_NONE, at, 0};
    return true;
}

Went plan_deque_add(Plan *p, PlanValue deque, PlanValue v, bool left, uint32_t slots) {
    uint32_t reg;
    if (!plan_boxed(p, &v, &reg)) {
        return WENT_NOWHERE;
    }
    plan_holds(p, plan_contents(&deque), &v);
    plan_emit_or(p, left ? DYN_RO_QAPPENDLEFT : DYN_RO_QAPPEND, deque.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    p->s.n -= slots;
    plan_push(p, plan_const(p, Py_None));
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

Went plan_deque_take(Plan *p, PlanValue deque, bool left, uint32_t slots) {
    PlanItem item;
    if (!plan_deque_item(p, deque, plan_int(left ? 0 : -1), &item)) {
        return WENT_NOWHERE;
    }
    item.list = deque.v.regs[0];
    item.remove = DYN_RO_QTAKE;
    return plan_push_item(p, &item, slots);
}
