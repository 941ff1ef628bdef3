/* tuples.c: tuples that become objects: those that are taken for granted, those that the loop stores, and the keys that are
 * looked up by them; and comparisons of tuples, objects or not. Called by the other files of this folder; lists.c reads their
 * items. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include <opcode.h>

enum { MOST_PARTS = 64 };

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

/* ---- tuples that are taken for granted */

PlanValue plan_tuple_object(Plan *p, const PlanValue *v) {
    PyObject *o = plan_object(p, v);
    PlanValue out = *v;
    if (o == NULL || !PyTuple_CheckExact(o)) {
        return out;
    }
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (f != NULL && f->extra == DYN_NONE && plan_of_list(p, o, PLAN_INNER, &out)) {
        f->extra = plan_extra(p, &out);
    }
    return f == NULL || f->extra == DYN_NONE ? *v : (PlanValue){.v = p->extras.at[f->extra]};
}

/* The object itself is part `at`. */
static void tell_part(Plan *p, PyObject *o, uint32_t at) {
    DynRegionPart part = {.reg = p->r->parts.at[at].reg};
    if (PyLong_CheckExact(o)) {
        int overflow = 0;
        part.i = PyLong_AsLongLongAndOverflow(o, &overflow);
        part.kind = overflow == 0 ? DYN_PART_INT : DYN_PART_OTHER;
    } else if (PyTuple_CheckExact(o) && p->r->parts.n + (size_t)PyTuple_GET_SIZE(o) <= MOST_PARTS) {
        part.kind = DYN_PART_TUPLE;
        part.first = p->r->parts.n;
        part.n = (uint32_t)PyTuple_GET_SIZE(o);
        for (uint32_t i = 0; i < part.n; i++) {
            if (dyn_vec_push(&p->r->parts, ((DynRegionPart){.reg = DYN_NONE})) < 0) {
                plan_stop(p, DYN_R_NO_MEMORY);
                return;
            }
        }
        for (uint32_t i = 0; i < part.n; i++) {
            tell_part(p, PyTuple_GET_ITEM(o, i), part.first + i);
        }
    }
    p->r->parts.at[at] = part;
}

void plan_tell_tuples(Plan *p) {
    for (uint32_t i = 0; i < p->r->facts.n; i++) {
        const DynRegionFact *f = &p->r->facts.at[i];
        if (f->object && f->extra != DYN_NONE && PyTuple_CheckExact(f->value)) {
            if (dyn_vec_push(&p->r->parts, ((DynRegionPart){.reg = p->extras.at[f->extra].regs[0]})) < 0) {
                plan_stop(p, DYN_R_NO_MEMORY);
                return;
            }
            tell_part(p, f->value, p->r->parts.n - 1);
        }
    }
}

/* ---- tuples that become objects */

/* Item k of a tuple that becomes an object is stored in it; the shape of what it is. */
bool plan_store_part(Plan *p, PlanValue item, uint32_t tuple, uint32_t k, bool is_key, PlanShape *of) {
    DynRegionOp op;
    uint32_t at, part = p->part;
    p->part = part * PLAN_PARTS + k + 1;
    bool stored = plan_storing(p, &item, is_key ? PLAN_KEY : PLAN_PUT, &op, &at) && plan_shape_of(p, &item, of);
    p->part = part;
    if (!stored) {
        return false;
    }
    if (is_key) {
        plan_emit_or(p, op, tuple, plan_iconst(p, k), at, DYN_R_UNSUPPORTED_VALUE);
    } else {
        uint32_t place = plan_emit(p, DYN_RO_PADD, tuple, plan_iconst(p, DYN_CPY_TUPLE_ITEMS + 8 * k), DYN_NONE);
        plan_emit_or(p, op, place, at, DYN_NONE, DYN_R_NO_MEMORY);
    }
    return true;
}

bool plan_make_tuple(Plan *p, PlanValue *v, bool is_key) {
    DynRegionOp made = is_key ? DYN_RO_KEYTUPLE : DYN_RO_NEWTUPLE;
    uint32_t reg = plan_emit_or(p, made, plan_iconst(p, v->v.n), DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY);
    PlanValue out = plan_made(p, DYN_RK_LIST, reg);
    PlanShape contents = {.nparts = v->v.n};
    for (uint32_t k = 0; k < v->v.n; k++) {
        PlanShape of;
        if (!plan_store_part(p, v->items[k], reg, k, is_key, &of)) {
            return false;
        }
        contents.parts[k] = plan_shape(p, plan_contents(&out))->nparts == v->v.n ? plan_shape(p, plan_contents(&out))->parts[k]
                                                                                 : (uint16_t)plan_new_shape(p);
        plan_join(p, contents.parts[k], &of);
        plan_add_to(p, &contents, &of);
    }
    plan_join(p, plan_contents(&out), &contents);
    out.v.flags = DYN_RF_TUPLE;
    out.v.ref = plan_bits(p, plan_contents(&out));
    *v = out;
    return true;
}

/* May it be hashed, and compared, without running code? Of a tuple that is an object that is asked when the loop runs. */
static bool is_key_part(Plan *p, const PlanValue *v) {
    bool number = v->v.kind == DYN_RK_INT || v->v.kind == DYN_RK_FLOAT || v->v.kind == DYN_RK_BOOL || v->v.kind == DYN_RK_CHAR;
    bool text = v->v.kind == DYN_RK_TEXT && v->v.n == DYN_TEXT_STR;
    PyObject *o = plan_object(p, v);
    bool known = o == Py_None || (o != NULL && (PyUnicode_CheckExact(o) || PyTuple_CheckExact(o)));
    bool is = number || text || known || v->v.kind == DYN_RK_TUPLE || (v->v.kind == DYN_RK_LIST && v->v.flags & DYN_RF_TUPLE);
    for (uint32_t k = 0; v->v.kind == DYN_RK_TUPLE && k < v->v.n; k++) {
        is = is && is_key_part(p, &v->items[k]);
    }
    return is;
}

bool plan_key_tuple(Plan *p, PlanValue *v, uint32_t *reg) {
    *v = plan_tuple_object(p, v);
    if (!is_key_part(p, v) || (v->v.kind == DYN_RK_TUPLE ? v->v.n == 0 : v->v.kind != DYN_RK_LIST)) {
        return no(p, DYN_R_UNSUPPORTED_VALUE, "a key that is no int, no string and no tuple of such values");
    }
    uint32_t part = p->part;
    p->part = part + PLAN_KEY_PART;
    bool made = v->v.kind != DYN_RK_TUPLE || plan_make_tuple(p, v, true);
    p->part = part;
    if (!made) {
        return false;
    }
    *reg = v->v.regs[0];
    return true;
}

/* Are two parts of tuples the same? A nan is, where it is the same object. */
static bool same_parts(Plan *p, PlanValue a, PlanValue b, uint32_t *reg) {
    PlanValue same;
    int known;
    bool floats = a.v.kind == DYN_RK_FLOAT && b.v.kind == DYN_RK_FLOAT;
    if (!is_key_part(p, &a) || !is_key_part(p, &b)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a comparison of tuples with such items");
    }
    if (floats) {
        uint32_t x = plan_reg(p, &a);
        plan_emit_or(p, DYN_RO_BOTHNAN, x, plan_reg(p, &b), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    if (!plan_compare(p, Py_EQ, a, b, &same) || !plan_truth(p, &same, &known, reg)) {
        return false;
    }
    *reg = known >= 0 ? plan_iconst(p, known) : *reg;
    return true;
}

/* Of two tuples that are no objects all parts are compared, which has no effect. */
static bool same_tuples(Plan *p, PlanValue a, PlanValue b, uint32_t *reg) {
    *reg = plan_iconst(p, a.v.n == b.v.n);
    for (uint32_t k = 0; a.v.n == b.v.n && k < a.v.n; k++) {
        uint32_t same;
        if (!same_parts(p, a.items[k], b.items[k], &same)) {
            return false;
        }
        *reg = plan_emit(p, DYN_RO_IAND, *reg, same, DYN_NONE);
    }
    return true;
}

bool plan_is_tuple(Plan *p, const PlanValue *v) {
    PyObject *o = plan_object(p, v);
    return v->v.kind == DYN_RK_TUPLE || (v->v.kind == DYN_RK_LIST && v->v.flags & DYN_RF_TUPLE) ||
           (o != NULL && PyTuple_CheckExact(o));
}

bool plan_compare_tuples(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t x, y, reg;
    if (op != Py_EQ && op != Py_NE) {
        return plan_compare_lists(p, op, plan_tuple_object(p, &a), plan_tuple_object(p, &b), out);
    }
    if (a.v.kind == DYN_RK_TUPLE && b.v.kind == DYN_RK_TUPLE) {
        if (!same_tuples(p, a, b, &reg)) {
            return false;
        }
    } else { /* there is one tuple that is only looked at */
        if (!plan_key_tuple(p, &a, &x) || !plan_key_tuple(p, &b, &y)) {
            return false;
        }
        reg = plan_emit_or(p, DYN_RO_SAMETUPLE, x, y, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    *out = plan_value(DYN_RK_BOOL, op == Py_EQ ? reg : plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE));
    return true;
}
