/* step.c: the instructions of bytecode that move values, jump and build tuples; the rest is handed on to the file of its family.
 * Called by plan.c for one instruction after the other. */
#include "tracer/region/plan.h"
#include "base/cpy.h"
#include <opcode.h>

static PyObject *const_of(Plan *p, uint32_t index) { return PyTuple_GET_ITEM(plan_frame(p)->c->code->co_consts, index); }
static PyObject *name_of(Plan *p, uint32_t index) { return PyTuple_GET_ITEM(plan_frame(p)->c->code->co_names, index); }

static bool is_object(const PlanValue *v) {
    return v->v.kind == DYN_RK_LIST || v->v.kind == DYN_RK_INST || v->v.kind == DYN_RK_DICT || v->v.kind == DYN_RK_SET ||
           v->v.kind == DYN_RK_DEQUE;
}

static Went load_fast(Plan *p, const DynInstr *in) {
    PlanValue *slot = &p->s.values[plan_frame(p)->base + in->arg];
    if (plan_is_own_cell(p, in->arg)) { /* for a function that is made */
        plan_push(p, plan_own_cell(p, in->arg));
        return WENT_ON;
    }
    if (slot->v.kind == DYN_RK_NULL || slot->v.flags & DYN_RF_MAYBE) {
        return plan_unknown(p, DYN_R_EXCEPTION, "the variable has no value");
    }
    if (slot->v.kind == DYN_RK_CELL) { /* the cell itself */
        PlanValue cell = plan_value(DYN_RK_ENTRY, DYN_NONE);
        cell.v.ref = slot->v.ref;
        plan_push(p, cell);
        return WENT_ON;
    }
    plan_push(p, *slot);
    return WENT_ON;
}

/* A comprehension's variable: what it was is put back behind it. */
static Went load_and_clear(Plan *p, const DynInstr *in) {
    PlanValue *slot = &p->s.values[plan_frame(p)->base + in->arg], v = *slot;
    if (v.v.flags & DYN_RF_MAYBE || v.v.kind == DYN_RK_CELL) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a variable that is one of several things, or shared");
    }
    *slot = plan_value(DYN_RK_NULL, DYN_NONE);
    plan_push(p, v);
    return WENT_ON;
}

/* What the slot held is dropped. Where that could run code, or is an object that nobody has looked at, CPython does it. */
static Went store_fast(Plan *p, const DynInstr *in, PlanValue v) {
    PlanValue *slot = &p->s.values[plan_frame(p)->base + in->arg];
    bool kept_alive = slot->v.kind == DYN_RK_CONST;
    bool whole_object = slot->v.kind == DYN_RK_RECORDS || (slot->v.kind == DYN_RK_COLUMN && !(slot->v.flags & DYN_RF_FRESH));
    bool may_be_last = slot->v.kind == DYN_RK_ENTRY || slot->v.kind == DYN_RK_ARRAY || whole_object;
    bool holds = is_object(slot);
    bool of_slot = holds && p->s.nframes == 1 && plan_which(p, slot) == plan_frame(p)->base + in->arg + 1;
    if (of_slot && !plan_may_end(p, slot)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an object is dropped that may be the last to hold something");
    }
    if (plan_has_paused(&v)) {
        return plan_unknown(p, DYN_R_GENERATOR, "a generator that a variable holds");
    }
    if (v.v.kind == DYN_RK_EXPR && !plan_make_array(p, &v, &v)) {
        return WENT_NOWHERE;
    }
    may_be_last = may_be_last && !(plan_is_array(&v) && v.v.kind == slot->v.kind && v.v.regs[0] == slot->v.regs[0]);
    may_be_last = may_be_last || slot->v.kind == DYN_RK_METHOD || slot->v.kind == DYN_RK_RNG || slot->v.kind == DYN_RK_MADE;
    if (may_be_last && !(slot->v.flags & DYN_RF_DROPPABLE)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an object is dropped whose end may be seen");
    }
    if (kept_alive && slot->v.ref != DYN_NONE && v.v.kind != DYN_RK_CONST && PyFunction_Check(plan_object(p, slot))) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a function is dropped");
    }
    *slot = v;
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

static Went store(Plan *p, const DynInstr *in) {
    PlanValue v = plan_pop(p);
    Went went = store_fast(p, in, v);
    if (went == WENT_NOWHERE) {
        plan_push(p, v);
    }
    return went;
}

static Went delete_fast(Plan *p, const DynInstr *in) {
    if (p->s.values[plan_frame(p)->base + in->arg].v.kind == DYN_RK_NULL) {
        return plan_unknown(p, DYN_R_EXCEPTION, "the variable has no value");
    }
    return store_fast(p, in, plan_value(DYN_RK_NULL, DYN_NONE));
}

static Went build_tuple(Plan *p, uint32_t n) {
    PlanValue v = plan_value(DYN_RK_TUPLE, DYN_NONE);
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, n + 1);
    if (n > PLAN_ITEMS) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a long tuple");
    }
    if (n > 0 && plan_any_paused(p, plan_top(p, n - 1), n)) {
        return WENT_NOWHERE;
    }
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return WENT_AWAY;
    }
    for (uint32_t i = n; i-- > 0;) {
        items[i] = plan_pop(p);
        plan_reg(p, &items[i]);
    }
    v.v.n = (uint8_t)n;
    v.items = items;
    plan_push(p, v);
    return WENT_ON;
}

static Went build_list(Plan *p, uint32_t n) {
    if (!plan_is_literal_next(p, n)) {
        return plan_build_list(p, n);
    }
    p->s.n -= n;
    return plan_literal(p, &p->s.values[p->s.n], n);
}

/* [1, 2, 3]: a constant tuple is added to a new list. */
static Went list_extend(Plan *p, uint32_t below) {
    PyObject *o = plan_object(p, plan_top(p, 0));
    PlanValue items[PLAN_LITERAL];
    if (!plan_is_literal(plan_top(p, below)) || o == NULL || !PyTuple_CheckExact(o)) {
        return plan_list_extend(p, below);
    }
    uint32_t n = (uint32_t)PyTuple_GET_SIZE(o);
    if (plan_top(p, below)->v.n > 0 || n > PLAN_LITERAL) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a long list");
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = plan_const(p, PyTuple_GET_ITEM(o, i));
    }
    p->s.n -= 2;
    return plan_literal(p, items, n);
}

/* a, b = row: as many elements as there are names. */
static Went unpack_row(Plan *p, PlanValue row, uint32_t n) {
    uint32_t fits = plan_emit(p, DYN_RO_IEQ, row.v.regs[2], plan_iconst(p, n), DYN_NONE);
    plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), fits, DYN_NONE, DYN_R_EXCEPTION); /* leaves where `fits` is 0 */
    plan_pop(p);
    for (uint32_t i = n; i-- > 0;) {
        PlanValue item;
        if (!plan_row(p, &row, plan_iconst(p, i), &item)) {
            return WENT_NOWHERE;
        }
        plan_push(p, item);
    }
    return WENT_ON;
}

static Went unpack(Plan *p, uint32_t n) {
    PlanValue v = *plan_top(p, 0);
    if (plan_is_array(&v) && v.v.n == 1 && n <= PLAN_ITEMS) {
        return unpack_row(p, v, n);
    }
    PyObject *o = plan_object(p, &v);
    if (o != NULL && PyTuple_CheckExact(o) && PyTuple_GET_SIZE(o) == (Py_ssize_t)n) {
        plan_pop(p);
        for (uint32_t i = n; i-- > 0;) {
            plan_push(p, plan_const(p, PyTuple_GET_ITEM(o, i)));
        }
        return WENT_ON;
    }
    if (v.v.kind == DYN_RK_LIST) {
        return plan_unpack_list(p, v, n) ? WENT_ON : WENT_NOWHERE;
    }
    if (v.v.kind != DYN_RK_TUPLE || v.v.n != n) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "it isn't a tuple that was made here");
    }
    plan_pop(p);
    for (uint32_t i = n; i-- > 0;) {
        plan_push(p, v.items[i]);
    }
    return WENT_ON;
}

/* object() is none of the values that loops in native code know by their kind. */
static bool is_mark(PyObject *o, const PlanValue *other) {
    return o != NULL && Py_IS_TYPE(o, &PyBaseObject_Type) && other->v.kind != DYN_RK_ENTRY && other->v.kind != DYN_RK_CONST;
}

static Went is_op(Plan *p, const DynInstr *in) {
    PlanValue b = *plan_top(p, 0), a = *plan_top(p, 1);
    PyObject *x = plan_object(p, &a), *y = plan_object(p, &b);
    bool same;
    if (plan_is_parts(&a) || plan_is_parts(&b)) { /* an instance that is no object yet is nothing else */
        same = plan_is_parts(&a) && plan_has_parts(&b, a.v.shape) && plan_is_parts(&b);
        p->s.n -= 2;
        plan_push(p, plan_bool(same != (in->arg != 0)));
        return WENT_ON;
    }
    if (is_object(&a) && is_object(&b)) {
        uint32_t reg = plan_emit(p, DYN_RO_PEQ, a.v.regs[0], b.v.regs[0], DYN_NONE);
        reg = in->arg != 0 ? plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE) : reg;
        p->s.n -= 2;
        plan_push(p, plan_value(DYN_RK_BOOL, reg));
        return WENT_ON;
    }
    if (x != NULL && y != NULL) {
        same = x == y;
    } else if ((x == Py_None && b.v.kind != DYN_RK_ENTRY) || (y == Py_None && a.v.kind != DYN_RK_ENTRY)) {
        same = false;
    } else if (is_mark(x, &b) || is_mark(y, &a)) {
        same = false;
    } else {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "the identity of a value that is no object here");
    }
    p->s.n -= 2;
    plan_push(p, plan_bool(same != (in->arg != 0)));
    return WENT_ON;
}

/* ---- jumps */

static Went conditional(Plan *p, const DynInstr *in) {
    uint32_t next = plan_frame(p)->at + 1, reg = DYN_NONE;
    bool keeps = in->op == DYN_I_JUMP_IF_TRUE_OR_POP || in->op == DYN_I_JUMP_IF_FALSE_OR_POP;
    bool on_true = in->op == DYN_I_POP_JUMP_IF_TRUE || in->op == DYN_I_JUMP_IF_TRUE_OR_POP;
    bool none = in->op == DYN_I_POP_JUMP_IF_NONE || in->op == DYN_I_POP_JUMP_IF_NOT_NONE;
    int known = -1;
    if (in->flags & DYN_IF_BACKWARD) {
        plan_poll(p);
    }
    PlanValue v = *plan_top(p, 0);
    if (none) {
        if (v.v.kind == DYN_RK_ENTRY) {
            return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an object that isn't known");
        }
        known = plan_object(p, &v) == Py_None;
        on_true = in->op == DYN_I_POP_JUMP_IF_NONE;
    } else if (!plan_truth(p, &v, &known, &reg)) {
        return WENT_NOWHERE;
    }
    if (known >= 0) {
        bool jumps = (known != 0) == on_true;
        p->s.n -= keeps && jumps ? 0 : 1;
        return plan_go(p, jumps ? in->target : next);
    }
    PlanWays ways;
    if (!plan_two_ways(p, reg, &ways)) {
        return WENT_AWAY;
    }
    p->s.n -= keeps && on_true ? 0 : 1;
    plan_go(p, on_true ? in->target : next);
    plan_other_way(p, &ways);
    p->s.n -= keeps && !on_true ? 0 : 1;
    plan_go(p, on_true ? next : in->target);
    return WENT_AWAY;
}

/* The eval breaker is looked at where CPython would: CPython then executes the jump itself, and serves it there. */
void plan_poll(Plan *p) {
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at);
    }
    plan_emit_or(p, DYN_RO_POLL, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_OK);
    plan_sweep(p, plan_instr(p)->target);
}

static Went jump(Plan *p, const DynInstr *in) {
    if (in->flags & DYN_IF_BACKWARD) {
        plan_poll(p);
    }
    return plan_go(p, in->target);
}

/* ---- operators */

static Went result(Plan *p, bool done, uint32_t operands, PlanValue out) {
    if (!done) {
        return WENT_NOWHERE;
    }
    p->s.n -= operands;
    plan_push(p, out);
    return WENT_ON;
}

/* list += other */
static Went change_list(Plan *p, int op) {
    PlanValue list = *plan_top(p, 1), none = plan_const(p, Py_None);
    if (op != NB_ADD) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a list that an operator changes in place");
    }
    if (!plan_store_slice(p, list, plan_slice(p, plan_int(INT64_MAX), none, none), *plan_top(p, 0))) {
        return WENT_NOWHERE;
    }
    p->s.n--;
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

static Went operation(Plan *p, const DynInstr *in) {
    PlanValue out, top = *plan_top(p, 0);
    switch (in->op) {
    case DYN_I_BINARY_OP:
        if (in->arg != 0 && plan_top(p, 1)->v.kind == DYN_RK_LIST && !(plan_top(p, 1)->v.flags & DYN_RF_TUPLE)) {
            return change_list(p, in->sub);
        }
        if (in->arg != 0 && plan_is_array(plan_top(p, 1))) {
            return plan_array_in_place(p, in->sub);
        }
        if (plan_is_instance(&top) || plan_is_instance(plan_top(p, 1))) {
            return in->arg != 0 ? plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an operator that changes an object in place")
                                : plan_operator(p, in->sub, *plan_top(p, 1), top);
        }
        return result(p, plan_binary(p, in->sub, *plan_top(p, 1), top, &out), 2, out);
    case DYN_I_COMPARE_OP:
        if (!plan_compare(p, in->sub, *plan_top(p, 1), top, &out)) {
            return WENT_NOWHERE;
        }
        if (in->arg != 0 && plan_is_whole(&out)) {
            return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "the truth of an array");
        }
        if (in->arg != 0 && out.v.kind == DYN_RK_NP) {
            out = plan_value(DYN_RK_BOOL, out.v.regs[0]);
        }
        return result(p, true, 2, out);
    case DYN_I_BINARY_SUBSCR:
        top = plan_const_slice(p, top);
        if (top.v.kind == DYN_RK_SLICE && plan_is_moved_next(p, plan_top(p, 1), 2)) {
            return result(p, plan_moved(p, *plan_top(p, 1), top, &out), 2, out);
        }
        if (plan_top(p, 1)->v.kind == DYN_RK_LIST && top.v.kind != DYN_RK_SLICE) {
            PlanItem item;
            return plan_list_item(p, *plan_top(p, 1), top, &item) ? plan_push_item(p, &item, 2) : WENT_NOWHERE;
        }
        if (plan_top(p, 1)->v.kind == DYN_RK_DEQUE) {
            PlanItem item;
            return plan_deque_item(p, *plan_top(p, 1), top, &item) ? plan_push_item(p, &item, 2) : WENT_NOWHERE;
        }
        if (plan_top(p, 1)->v.kind == DYN_RK_DICT) {
            return plan_dict_item(p, *plan_top(p, 1), top);
        }
        if (plan_is_instance(plan_top(p, 1)) && top.v.kind != DYN_RK_SLICE) {
            return plan_special(p, "__getitem__", (const PlanValue[]){*plan_top(p, 1), top}, 2, 2, PLAN_RESULT);
        }
        return result(p, plan_item(p, *plan_top(p, 1), top, &out), 2, out);
    case DYN_I_TO_BOOL: {
        int known;
        uint32_t reg;
        if (!plan_truth(p, &top, &known, &reg)) {
            return WENT_NOWHERE;
        }
        return result(p, true, 1, known >= 0 ? plan_bool(known) : plan_value(DYN_RK_BOOL, reg));
    }
    default: return result(p, plan_unary(p, in->op, top, &out), 1, out);
    }
}

static Went contains(Plan *p, const DynInstr *in) {
    PlanValue out, all = plan_text(p, plan_top(p, 0));
    if (all.v.kind == DYN_RK_DICT || all.v.kind == DYN_RK_SET) {
        return result(p, plan_in_dict(p, *plan_top(p, 1), all, in->arg != 0, &out), 2, out);
    }
    if (all.v.kind != DYN_RK_TEXT) {
        return result(p, plan_in_list(p, *plan_top(p, 1), all, in->arg != 0, &out), 2, out);
    }
    return result(p, plan_in_text(p, *plan_top(p, 1), all, in->arg != 0, &out), 2, out);
}

static Went store_subscr(Plan *p) {
    PlanValue index = plan_const_slice(p, *plan_top(p, 0)), a = *plan_top(p, 1), v = *plan_top(p, 2);
    if (plan_is_instance(&a) && index.v.kind != DYN_RK_SLICE) {
        return plan_special(p, "__setitem__", (const PlanValue[]){a, index, v}, 3, 3, PLAN_NOTHING);
    }
    if (!plan_store_item(p, a, index, v)) {
        return WENT_NOWHERE;
    }
    p->s.n -= 3;
    bool item = (a.v.kind == DYN_RK_LIST && index.v.kind != DYN_RK_SLICE) || a.v.kind == DYN_RK_DICT;
    if (!p->s.logged || !item) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

/* del l[i], del d[key] */
static Went delete_subscr(Plan *p) {
    PlanValue index = plan_const_slice(p, *plan_top(p, 0)), a = *plan_top(p, 1);
    if (a.v.kind == DYN_RK_DICT ? !plan_delete_key(p, a, index) : !plan_delete_item(p, a, index)) {
        return WENT_NOWHERE;
    }
    p->s.n -= 2;
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

static Went store_slice(Plan *p) {
    PlanValue stop = *plan_top(p, 0), start = *plan_top(p, 1), a = *plan_top(p, 2), v = *plan_top(p, 3);
    if (!plan_store_item(p, a, plan_slice(p, start, stop, plan_const(p, Py_None)), v)) {
        return WENT_NOWHERE;
    }
    p->s.n -= 4;
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

static Went binary_slice(Plan *p) {
    PlanValue stop = *plan_top(p, 0), start = *plan_top(p, 1), out;
    if (plan_is_moved_next(p, plan_top(p, 2), 3)) {
        return result(p, plan_moved(p, *plan_top(p, 2), plan_slice(p, start, stop, plan_const(p, Py_None)), &out), 3, out);
    }
    return result(p, plan_item(p, *plan_top(p, 2), plan_slice(p, start, stop, plan_const(p, Py_None)), &out), 3, out);
}

static Went load_attr(Plan *p, const DynInstr *in) {
    PlanValue out, o = *plan_top(p, 0);
    if (plan_is_record_field(p, &o, name_of(p, in->arg))) {
        PlanValue name = plan_const(p, name_of(p, in->arg));
        return result(p, plan_record_item(p, &o, &name, &out), 1, out);
    }
    if (plan_is_field(p, &o, name_of(p, in->arg))) {
        return plan_load_field(p, o, name_of(p, in->arg));
    }
    bool of_class = plan_is_instance(&o) && dyn_cpy_lookup_special(plan_type_of_instance(p, &o), name_of(p, in->arg)) != NULL;
    if (of_class && !plan_attribute(p, o, name_of(p, in->arg), &out)) {
        return plan_of_class(p, o, name_of(p, in->arg));
    }
    return result(p, plan_attribute(p, *plan_top(p, 0), name_of(p, in->arg), &out), 1, out);
}

static Went store_attr(Plan *p, const DynInstr *in) {
    PlanValue o = *plan_top(p, 0), name = plan_const(p, name_of(p, in->arg));
    if (o.v.kind == DYN_RK_RECORD && plan_is_record_field(p, &o, name_of(p, in->arg))) {
        if (!plan_store_record_item(p, &o, &name, *plan_top(p, 1))) {
            return WENT_NOWHERE;
        }
        p->s.n -= 2;
        plan_effect(p, plan_frame(p)->at + 1);
        return WENT_ON;
    }
    if (!plan_is_instance(&o)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE,
                            "an attribute is stored of an object that loops in native code don't know");
    }
    return plan_store_field(p, o, name_of(p, in->arg), *plan_top(p, 1));
}

/* The attribute with a NULL, as CPython has where it is no method: other methods aren't in the language. */
static Went load_method(Plan *p, const DynInstr *in) {
    PlanValue out, none = plan_value(DYN_RK_NULL, DYN_NONE), self = *plan_top(p, 0);
    const char *name = is_object(&self) || self.v.kind == DYN_RK_CHAR ? PyUnicode_AsUTF8(name_of(p, in->arg)) : NULL;
    PyObject *method = name == NULL ? NULL : plan_known_method(&self, name);
    if (plan_is_whole(&self)) {
        method = plan_array_method(PyUnicode_AsUTF8(name_of(p, in->arg)));
        PyErr_Clear();
    }
    if (method == NULL && plan_is_str(p, &self)) {
        name = PyUnicode_AsUTF8(name_of(p, in->arg));
        method = name == NULL ? NULL : plan_string_method(name);
        PyErr_Clear();
    }
    if (self.v.kind == DYN_RK_ADDRESS) {
        method = plan_ctypes_method(name_of(p, in->arg));
    }
    if (self.v.kind == DYN_RK_RNG) {
        name = PyUnicode_AsUTF8(name_of(p, in->arg));
        method = name == NULL ? NULL : plan_rng_method(&self, name);
        PyErr_Clear();
    }
    if (method != NULL) { /* as CPython has a method: it, and what it is called on */
        p->s.n--;
        plan_push(p, plan_const(p, method));
        plan_push(p, self);
        return WENT_ON;
    }
    bool may_have = self.v.kind == DYN_RK_ENTRY || self.v.kind == DYN_RK_CONST;
    bool instance = plan_is_instance(&self) && plan_class_method(p, &self, name_of(p, in->arg), &out);
    if (instance || (may_have && plan_method(p, &self, name_of(p, in->arg), &out))) {
        p->s.n--;
        plan_push(p, out);
        plan_push(p, self);
        return WENT_ON;
    }
    if (!plan_attribute(p, *plan_top(p, 0), name_of(p, in->arg), &out)) {
        return WENT_NOWHERE;
    }
    p->s.n--;
    plan_push(p, dyn_call_null_first() ? none : out);
    plan_push(p, dyn_call_null_first() ? out : none);
    return WENT_ON;
}

/* Where an iterator takes two places the second is NULL, as it is for whatever CPython doesn't walk by an index. */
static Went get_iter(Plan *p) {
    PlanValue out;
    if (!plan_iter(p, *plan_top(p, 0), &out)) {
        return WENT_NOWHERE;
    }
    *plan_top(p, 0) = out;
    for (uint32_t i = 1; i < dyn_iterator_slots(); i++) {
        plan_push(p, plan_value(DYN_RK_NULL, DYN_NONE));
    }
    return WENT_ON;
}

/* What is there twice is computed once. */
static Went copy(Plan *p, uint32_t below) {
    PlanValue *v = plan_top(p, below);
    if (plan_has_paused(v)) {
        return plan_unknown(p, DYN_R_GENERATOR, "a generator that is taken twice");
    }
    if (v->v.kind == DYN_RK_EXPR && !plan_make_array(p, v, v)) {
        return WENT_NOWHERE;
    }
    plan_push(p, *v);
    return WENT_ON;
}

static Went swap(Plan *p, uint32_t n) {
    PlanValue top = *plan_top(p, 0);
    *plan_top(p, 0) = *plan_top(p, n - 1);
    *plan_top(p, n - 1) = top;
    return WENT_ON;
}

static Went push_const(Plan *p, PyObject *o) {
    plan_push(p, plan_const(p, o));
    return WENT_ON;
}

/* 3.13: the closure is given to a function that was made. */
static Went set_function_attribute(Plan *p, const DynInstr *in) {
    enum { CLOSURE = 8 };
    PlanValue function = *plan_top(p, 0);
    if (in->arg != CLOSURE || function.v.kind != DYN_RK_FUNC) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a function with defaults or annotations");
    }
    p->s.n--;
    return plan_give_closure(p, function);
}

/* What instructions take that don't compute: an expression is an array for them. */
static bool make_operand(Plan *p, const DynInstr *in) {
    uint32_t below = in->op == DYN_I_BINARY_SUBSCR ? 1 : in->op == DYN_I_BINARY_SLICE ? 2 : 0;
    bool takes = in->op == DYN_I_BINARY_SUBSCR || in->op == DYN_I_BINARY_SLICE || in->op == DYN_I_GET_ITER ||
                 in->op == DYN_I_LOAD_ATTR || in->op == DYN_I_UNPACK_SEQUENCE;
    PlanValue *v = takes ? plan_top(p, below) : NULL;
    return v == NULL || v->v.kind != DYN_RK_EXPR || plan_make_array(p, v, v);
}

static Went step(Plan *p, const DynInstr *in) {
    if (!make_operand(p, in)) {
        return WENT_NOWHERE;
    }
    switch ((DynOpcode)in->op) {
    case DYN_I_NOP: return WENT_ON;
    case DYN_I_LOAD_FAST: return load_fast(p, in);
    case DYN_I_STORE_FAST: return store(p, in);
    case DYN_I_DELETE_FAST: return delete_fast(p, in);
    case DYN_I_LOAD_CONST: return push_const(p, const_of(p, in->arg));
    case DYN_I_LOAD_COMMON_CONSTANT: return push_const(p, dyn_cpy_common_constant(in->arg));
    case DYN_I_LOAD_SMALL_INT: plan_push(p, plan_int(in->arg)); return WENT_ON;
    case DYN_I_COPY_FREE_VARS: return p->s.nframes > 1 ? WENT_ON : plan_unknown(p, DYN_R_UNSUPPORTED_OPCODE, "in a loop");
    case DYN_I_MAKE_CELL: return p->s.nframes > 1 ? WENT_ON : plan_unknown(p, DYN_R_UNSUPPORTED_OPCODE, "in a loop");
    case DYN_I_LOAD_DEREF: return plan_load_cell(p, in);
    case DYN_I_STORE_DEREF: return plan_store_cell(p, in);
    case DYN_I_MAKE_FUNCTION: return plan_make_function(p, in->arg);
    case DYN_I_SET_FUNCTION_ATTRIBUTE: return set_function_attribute(p, in);
    case DYN_I_YIELD_VALUE: return plan_yield(p);
    case DYN_I_RETURN_GENERATOR: /* of a generator that is gone through in place: what it would return is dropped */
        return p->s.nframes > 1 && plan_frame(p)->driver != PLAN_CALL ? push_const(p, Py_None)
                                                                      : plan_unknown(p, DYN_R_GENERATOR, "a generator");
    case DYN_I_LOAD_GLOBAL:
    case DYN_I_LOAD_NAME: return plan_global(p, in);
    case DYN_I_STORE_GLOBAL: return plan_store_global(p);
    case DYN_I_LOAD_ATTR: return load_attr(p, in);
    case DYN_I_LOAD_METHOD: return load_method(p, in);
    case DYN_I_POP_TOP: p->s.n--; return WENT_ON;
    case DYN_I_COPY: return copy(p, in->arg - 1);
    case DYN_I_SWAP: return swap(p, in->arg);
    case DYN_I_PUSH_NULL: plan_push(p, plan_value(DYN_RK_NULL, DYN_NONE)); return WENT_ON;
    case DYN_I_BUILD_TUPLE: return build_tuple(p, in->arg);
    case DYN_I_BUILD_LIST: return build_list(p, in->arg);
    case DYN_I_LIST_APPEND: return plan_list_append(p, in->arg);
    case DYN_I_LOAD_FAST_AND_CLEAR: return load_and_clear(p, in);
    case DYN_I_UNPACK_SEQUENCE: return unpack(p, in->arg);
    case DYN_I_IS_OP: return is_op(p, in);
    case DYN_I_STORE_SUBSCR: return store_subscr(p);
    case DYN_I_DELETE_SUBSCR: return delete_subscr(p);
    case DYN_I_STORE_SLICE: return store_slice(p);
    case DYN_I_BINARY_SLICE: return binary_slice(p);
    case DYN_I_BUILD_STRING: return plan_build_string(p, in->arg);
    case DYN_I_FORMAT_VALUE: return plan_format_value(p, in->sub, in->arg != 0);
    case DYN_I_CONVERT_VALUE: return plan_convert_value(p, in->sub);
    case DYN_I_BUILD_SLICE: return plan_build_slice(p, in->arg);
    case DYN_I_BUILD_MAP: return plan_build_map(p, in->arg);
    case DYN_I_BUILD_CONST_KEY_MAP: return plan_build_const_key_map(p, in->arg);
    case DYN_I_BUILD_SET: return plan_build_set(p, in->arg);
    case DYN_I_MAP_ADD: return plan_map_add(p, in->arg);
    case DYN_I_SET_ADD: return plan_set_add(p, in->arg);
    case DYN_I_STORE_ATTR: return store_attr(p, in);
    case DYN_I_LIST_EXTEND: return list_extend(p, in->arg);
    case DYN_I_CONTAINS_OP: return contains(p, in);
    case DYN_I_GET_ITER: return get_iter(p);
    case DYN_I_FOR_ITER: return plan_next(p, in);
    case DYN_I_POP_ITER: p->s.n -= dyn_iterator_slots(); return WENT_ON;
    case DYN_I_JUMP: return jump(p, in);
    case DYN_I_CALL:
    case DYN_I_CALL_KW: return plan_call(p, in);
    case DYN_I_RETURN_VALUE: return plan_return(p, *plan_top(p, 0));
    case DYN_I_RETURN_CONST: return plan_return(p, plan_const(p, const_of(p, in->arg)));
    case DYN_I_BINARY_OP:
    case DYN_I_COMPARE_OP:
    case DYN_I_BINARY_SUBSCR:
    case DYN_I_TO_BOOL:
    case DYN_I_UNARY_NEGATIVE:
    case DYN_I_UNARY_POSITIVE:
    case DYN_I_UNARY_INVERT:
    case DYN_I_UNARY_NOT: return operation(p, in);
    default: break;
    }
    if (dyn_is_branch(in)) {
        return conditional(p, in);
    }
    return plan_unknown(p, DYN_R_UNSUPPORTED_OPCODE, "an instruction that loops in native code don't have");
}

/* ---- lists that are made for one instruction alone: they go with it, so that the next ones lie in memory that was just used */

enum { MOST_OPERANDS = 4 };

/* The list is, or may be, this value or in it: at the beginning of a block each value has registers of its own, so that one list
 * may be in several, which have the shape of what was made in that place. */
static bool may_be_list(const PlanValue *v, const PlanValue *list) {
    bool is = v->v.nregs > 0 && (v->v.regs[0] == list->v.regs[0] || (v->v.shape != 0 && v->v.shape == list->v.shape));
    for (uint32_t i = 0; !is && dyn_region_has_items(v->v.kind) && v->items != NULL && i < v->v.n; i++) {
        is = may_be_list(&v->items[i], list);
    }
    return is;
}

static bool is_in_state(const PlanState *s, const PlanValue *list) {
    for (uint32_t i = 0; i < s->n; i++) {
        if (may_be_list(&s->values[i], list)) {
            return true;
        }
    }
    return false;
}

/* Those of lists that the loop has made, among the operands. */
static uint32_t made_operands(Plan *p, const DynInstr *in, PlanValue lists[MOST_OPERANDS]) {
    const PlanFrame *f = plan_frame(p);
    uint32_t n = in->op == DYN_I_BINARY_OP      ? 2
                 : in->op == DYN_I_STORE_SUBSCR ? 3
                 : in->op == DYN_I_STORE_SLICE  ? 4
                                                : 0,
             found = 0;
    n = in->op == DYN_I_CALL && in->arg < MOST_OPERANDS ? in->arg : n;
    uint32_t depth = p->s.n - f->base - (uint32_t)dyn_code_nlocalsplus(f->c->code);
    for (uint32_t i = 0; i < n && i < depth; i++) {
        const PlanValue *v = plan_top(p, i);
        bool list = v->v.kind == DYN_RK_LIST && !(v->v.flags & DYN_RF_TUPLE);
        if (list && plan_shape(p, plan_contents(v))->which >= PLAN_LISTS - PLAN_SITES) {
            lists[found++] = *v;
        }
    }
    return found;
}

/* What a call gives may be a list that it was handed, by another register. */
static bool gives_none_of_them(Plan *p, const DynInstr *in) {
    const PlanValue *given = plan_top(p, 0);
    return in->op != DYN_I_CALL || plan_is_number(given) || plan_object(p, given) == Py_None;
}

Went plan_step(Plan *p, const DynInstr *in) {
    PlanValue lists[MOST_OPERANDS];
    uint32_t n = made_operands(p, in, lists), frames = p->s.nframes, block = p->block;
    plan_leave_at_sorted(p);
    Went went = step(p, in);
    bool behind = n > 0 && went == WENT_ON && p->s.nframes == frames && p->block == block && gives_none_of_them(p, in);
    for (uint32_t i = 0; behind && i < n; i++) {
        if (!is_in_state(&p->s, &lists[i]) && (p->resume_at == DYN_NONE || !is_in_state(&p->resume, &lists[i]))) {
            plan_emit(p, DYN_RO_LDROP, lists[i].v.regs[0], DYN_NONE, DYN_NONE);
        }
    }
    return went;
}
