/* lists.c: lists, and tuples that are objects (made by tuples.c): their items, read, written and appended, and loops over them.
 * Called by the other files of this folder.
 *
 * A list stays an object, whose items are looked at where they are read: each is of one of the kinds that its shape names, or the
 * region is left. A shape has the kinds that were in the list when the loop was planned, and those that the loop itself stores;
 * where a store turns out to bring another kind, the loop is planned anew. Items of several kinds have a way each. Nothing but
 * plain numbers is ever dropped from a list here, so lists within lists live as long as the region runs. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"
#include <opcode.h>

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

static const struct Kind {
    uint32_t bit;
    DynRegionKind kind;
    DynRegionOp is, as, storing[8]; /* DYN_RO_COUNT: there is none; by PlanStoring. */
} kinds[] = {
    {DYN_RL_FLOAT,
     DYN_RK_FLOAT,
     DYN_RO_ISFLOAT,
     DYN_RO_ASFLOAT,
     {DYN_RO_SETFLOAT, DYN_RO_APPFLOAT, DYN_RO_PUTFLOAT, DYN_RO_DISETFLOAT, DYN_RO_DPSETFLOAT, DYN_RO_NAMEFLOAT, DYN_RO_BOXFLOAT,
      DYN_RO_KEYFLOAT}},
    {DYN_RL_INT,
     DYN_RK_INT,
     DYN_RO_ISINT,
     DYN_RO_ASINT,
     {DYN_RO_SETINT, DYN_RO_APPINT, DYN_RO_PUTINT, DYN_RO_DISETINT, DYN_RO_DPSETINT, DYN_RO_NAMEINT, DYN_RO_BOXINT,
      DYN_RO_KEYINT}},
    {DYN_RL_BOOL,
     DYN_RK_BOOL,
     DYN_RO_ISBOOL,
     DYN_RO_ASBOOL,
     {DYN_RO_SETBOOL, DYN_RO_APPBOOL, DYN_RO_PUTBOOL, DYN_RO_DISETBOOL, DYN_RO_DPSETBOOL, DYN_RO_NAMEBOOL, DYN_RO_BOXBOOL,
      DYN_RO_KEYBOOL}},
#define OBJECTS                                                                                                      \
    {                                                                                                                \
        DYN_RO_COUNT, DYN_RO_APPOBJECT, DYN_RO_PUTOBJECT, DYN_RO_DISETOBJECT, DYN_RO_DPSETOBJECT, DYN_RO_NAMEOBJECT, \
            DYN_RO_PMOV, DYN_RO_KEYOBJECT                                                                            \
    }
    {DYN_RL_COMPLEX, DYN_RK_COMPLEX, DYN_RO_ISCOMPLEX, DYN_RO_ASREAL, OBJECTS},
    {DYN_RL_NP_F64, DYN_RK_NP, DYN_RO_ISNPF64, DYN_RO_ASNPF64, OBJECTS},
    {DYN_RL_NP_I64, DYN_RK_NP, DYN_RO_ISNPI64, DYN_RO_ASNPI64, OBJECTS},
    {DYN_RL_LIST, DYN_RK_LIST, DYN_RO_ISLIST, DYN_RO_ASLIST, OBJECTS},
    {DYN_RL_TUPLE, DYN_RK_LIST, DYN_RO_ISTUPLE, DYN_RO_ASTUPLE, OBJECTS},
    {DYN_RL_INST, DYN_RK_INST, DYN_RO_ISCLASS, DYN_RO_ASCLASS, OBJECTS},
    {DYN_RL_DICT, DYN_RK_DICT, DYN_RO_ISDICT, DYN_RO_ASDICT, OBJECTS},
    {DYN_RL_SET, DYN_RK_SET, DYN_RO_ISSET, DYN_RO_ASSET, OBJECTS},
    {DYN_RL_STR, DYN_RK_TEXT, DYN_RO_ISSTR, DYN_RO_ASSTR, OBJECTS},
    {DYN_RL_NONE,
     DYN_RK_CONST,
     DYN_RO_ISNONE,
     DYN_RO_ASNONE,
     {DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT, DYN_RO_COUNT}},
#undef OBJECTS
};

/* What an item may be. */
typedef struct Alternative {
    const struct Kind *k;
    uint32_t class; /* INST: which. */
} Alternative;
enum { MOST_ALTERNATIVES = 8 };

bool plan_of_list(Plan *p, PyObject *o, uint32_t which, PlanValue *v) {
    bool tuple = PyTuple_CheckExact(o);
    if (!PyList_CheckExact(o) && !tuple) {
        return false;
    }
    uint32_t reg = dyn_region_reg(p->r, 'P'), shape = which == PLAN_INNER ? plan_root_of(p, o) : plan_root(p, which);
    if (reg == DYN_NONE) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    plan_look_into(p, shape, o, 4);
    *v = plan_value(DYN_RK_LIST, reg);
    v->v.flags = tuple ? DYN_RF_TUPLE : 0;
    v->v.shape = (uint16_t)shape;
    v->v.ref = plan_bits(p, shape);
    if (p->ends[which]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

/* The number of the slot (1 …) or place that the object is of, 0: it is within another. */
uint32_t plan_which(Plan *p, const PlanValue *v) {
    return v->v.kind == DYN_RK_INST ? v->v.n : plan_shape(p, plan_contents(v))->which;
}

/* Its variable gets another value, and the object may end with the loop: only where nobody sees that. */
bool plan_may_end(Plan *p, const PlanValue *v) {
    uint32_t which = plan_which(p, v);
    if (!p->ends[which]) {
        p->ends[which] = true;
        p->again = true;
    }
    return (v->v.flags & DYN_RF_DROPPABLE) != 0;
}

uint32_t plan_list_size(Plan *p, const PlanValue *v) { return plan_emit(p, DYN_RO_OSIZE, v->v.regs[0], DYN_NONE, DYN_NONE); }

/* ---- items */

/* A dict out of another object may be the one in which the module's variables lie, which are in registers. */
static void leave_at_namespace(Plan *p, const PlanValue *v) {
    if (v->v.kind == DYN_RK_DICT && p->r->namespace != NULL) {
        uint32_t same = plan_emit(p, DYN_RO_PEQ, v->v.regs[0], plan_object_reg(p, p->r->namespace), DYN_NONE);
        uint32_t another = plan_emit(p, DYN_RO_NOT, same, DYN_NONE, DYN_NONE);
        plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), another, DYN_NONE, DYN_R_UNSUPPORTED_VALUE); /* leaves where it is 0 */
    }
}

/* The item, of this kind: left where it isn't. */
static PlanValue item_as(Plan *p, const PlanItem *item, Alternative a) {
    const struct Kind *k = a.k;
    const PlanShape s = *plan_shape(p, item->shape);
    uint32_t other = k->kind == DYN_RK_INST ? plan_class_reg(p, a.class) : DYN_NONE;
    uint32_t reg = plan_emit_or(p, k->as, item->reg, other, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue v = plan_value(k->kind, reg);
    if (k->kind == DYN_RK_LIST || k->kind == DYN_RK_DICT || k->kind == DYN_RK_SET) {
        v.v.shape = (uint16_t)(k->bit == DYN_RL_LIST ? s.list : k->bit == DYN_RL_TUPLE ? s.tuple : s.dict);
        v.v.flags = k->bit == DYN_RL_TUPLE ? DYN_RF_TUPLE : 0;
        leave_at_namespace(p, &v);
    } else if (k->kind == DYN_RK_INST) {
        v = plan_instance(p, a.class, reg);
    } else if (k->kind == DYN_RK_TEXT) {
        v = plan_text_at(p, item->reg, reg);
    } else if (k->kind == DYN_RK_NP) {
        v = plan_np(k->bit == DYN_RL_NP_F64 ? DYN_F64 : DYN_I64, reg);
    } else if (k->kind == DYN_RK_COMPLEX) {
        v = plan_complex(reg, plan_emit_or(p, DYN_RO_ASIMAG, item->reg, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
    } else if (k->kind == DYN_RK_CONST) {
        v = plan_const(p, Py_None);
    }
    return v;
}

static uint32_t is_a(Plan *p, const PlanItem *item, Alternative a) {
    uint32_t other = a.k->kind == DYN_RK_INST ? plan_class_reg(p, a.class) : DYN_NONE;
    return plan_emit(p, a.k->is, item->reg, other, DYN_NONE);
}

static uint32_t alternatives(Plan *p, uint32_t shape, Alternative out[MOST_ALTERNATIVES]) {
    const PlanShape s = *plan_shape(p, shape);
    uint32_t n = 0;
    for (size_t i = 0; i < DYN_COUNTOF(kinds); i++) {
        uint32_t classes = kinds[i].kind == DYN_RK_INST ? s.nclasses : 1;
        for (uint32_t k = 0; s.bits & kinds[i].bit && k < classes && n < MOST_ALTERNATIVES; k++) {
            out[n++] = (Alternative){&kinds[i], s.classes[k]};
        }
    }
    return n;
}

static uint32_t item_at(Plan *p, const PlanValue *list, uint32_t index) {
    bool tuple = (list->v.flags & DYN_RF_TUPLE) != 0;
    return plan_emit(p, tuple ? DYN_RO_TITEM : DYN_RO_LITEM, list->v.regs[0], index, DYN_NONE);
}

bool plan_list_index(Plan *p, const PlanValue *list, PlanValue *index, uint32_t *reg) {
    *index = plan_word_as_int(p, *index);
    if (!plan_is_integer(index) && index->v.kind != DYN_RK_BOOL) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an index of a list that is no int");
    }
    uint32_t i = plan_reg(p, index);
    *reg = plan_emit_or(p, DYN_RO_IDX, i, plan_list_size(p, list), DYN_NONE, DYN_R_EXCEPTION);
    return true;
}

/* The shape of the item at an index: of tuples of one length each item has its own. */
static uint32_t shape_at(Plan *p, const PlanValue *list, const PlanValue *index) {
    const PlanShape *s = plan_shape(p, plan_contents(list));
    int64_t i = index->number.i < 0 ? index->number.i + s->nparts : index->number.i;
    return index->known && i >= 0 && i < s->nparts ? s->parts[i] : plan_contents(list);
}

bool plan_list_item(Plan *p, PlanValue list, PlanValue index, PlanItem *item) {
    uint32_t at;
    Alternative of[MOST_ALTERNATIVES];
    if (alternatives(p, plan_contents(&list), of) == 0) {
        return no(p, DYN_R_UNSUPPORTED_VALUE, "an item of a list that held none that loops in native code know");
    }
    if (!plan_list_index(p, &list, &index, &at)) {
        return false;
    }
    *item = (PlanItem){item_at(p, &list, at), shape_at(p, &list, &index), DYN_NONE, at};
    return true;
}

/* The item is taken out of the list or dict: that is an effect. */
static void take_out(Plan *p, const PlanItem *item, bool noted) {
    if (item->list != DYN_NONE) {
        DynRegionOp remove = item->remove != 0 ? item->remove : DYN_RO_LREMOVE;
        plan_settle_doubts(p);
        plan_emit_or(p, remove, item->list, item->index, item->given == 0 ? DYN_NONE : item->given - 1, DYN_R_UNSUPPORTED_VALUE);
        if (item->notes) {
            plan_last(p)->imm.i = noted;
        }
    }
}

static void push_as(Plan *p, const PlanItem *item, Alternative a, uint32_t drop) {
    PlanValue v = item_as(p, item, a);
    bool logs = item->list != DYN_NONE && (item->last || item->notes) && plan_undoes(p);
    if (logs && item->last) {
        plan_settle_doubts(p);
        plan_emit_or(p, DYN_RO_NOTEPOP, item->list, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    }
    if (logs) {
        plan_log(p);
    }
    take_out(p, item, logs);
    if (item->list != DYN_NONE && !plan_is_python_number(&v)) { /* the run has it from here on */
        plan_makes(p);
    }
    p->s.n -= drop;
    plan_push(p, v);
    if (item->list != DYN_NONE && !logs) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
}

bool plan_delete_item(Plan *p, PlanValue list, PlanValue index) {
    uint32_t at;
    if (list.v.kind != DYN_RK_LIST || list.v.flags & DYN_RF_TUPLE) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an item is deleted of something else than a list or dict");
    }
    if (!plan_list_index(p, &list, &index, &at)) {
        return false;
    }
    plan_settle_doubts(p);
    plan_emit_or(p, DYN_RO_LREMOVE, list.v.regs[0], at, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* Takes `drop` values from the stack, puts the item there, and goes on behind the instruction. The last of its kinds goes on in
 * the block itself. */
Went plan_push_item(Plan *p, const PlanItem *item, uint32_t drop) {
    Alternative of[MOST_ALTERNATIVES];
    uint32_t n = alternatives(p, item->shape, of);
    if (n == 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an item of none of the kinds that loops in native code know");
    }
    for (uint32_t i = 0; i + 1 < n; i++) {
        PlanWays ways;
        if (!plan_two_ways(p, is_a(p, item, of[i]), &ways)) {
            return WENT_AWAY;
        }
        push_as(p, item, of[i], drop);
        plan_go(p, plan_frame(p)->at + 1);
        plan_other_way(p, &ways);
    }
    push_as(p, item, of[n - 1], drop);
    return WENT_ON;
}

/* A value as an object that is compared, until the next one is. */
static bool compared_object(Plan *p, PlanValue v, uint32_t *reg) {
    if (plan_is_str(p, &v)) {
        return plan_text_object(p, v, reg);
    }
    if (plan_is_tuple(p, &v)) {
        return plan_key_tuple(p, &v, reg);
    }
    return plan_is_python_number(&v) || plan_object(p, &v) == Py_None
               ? plan_boxed(p, &v, reg)
               : no(p, DYN_R_UNSUPPORTED_OP, "a comparison of such a value with what is in a list");
}

/* A question of DYN_LIST_*. */
static bool ask(Plan *p, int64_t what, const PlanValue *list, uint32_t value, uint32_t *reg) {
    *reg = plan_emit_or(p, DYN_RO_LASK, list->v.regs[0], value, DYN_NONE, DYN_R_EXCEPTION);
    plan_last(p)->imm.i = what;
    return true;
}

/* list.index(value), list.count(value) */
bool plan_ask_list(Plan *p, int64_t what, PlanValue list, PlanValue value, uint32_t *reg) {
    uint32_t object;
    return compared_object(p, value, &object) && ask(p, what, &list, object, reg);
}

/* Two lists, or two tuples that are objects. */
bool plan_compare_lists(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    uint32_t reg;
    if (a.v.kind != DYN_RK_LIST || b.v.kind != DYN_RK_LIST || ((a.v.flags ^ b.v.flags) & DYN_RF_TUPLE) != 0) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a comparison of such objects");
    }
    ask(p, DYN_LIST_ORDER + op, &a, b.v.regs[0], &reg);
    *out = plan_value(DYN_RK_BOOL, reg);
    return true;
}

/* `in` and `not in` of a list or tuple. */
bool plan_in_list(Plan *p, PlanValue item, PlanValue all, bool negated, PlanValue *out) {
    all = plan_tuple_object(p, &all);
    if (all.v.kind != DYN_RK_LIST) {
        return no(p, DYN_R_UNSUPPORTED_OP, "whether something is in such an object");
    }
    uint32_t reg;
    if (item.v.kind == DYN_RK_INT && plan_shape(p, plan_contents(&all))->bits == DYN_RL_INT) {
        reg = plan_reg(p, &item);
        reg = plan_emit_or(p, DYN_RO_HASINT, all.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    } else if (!plan_ask_list(p, DYN_LIST_HAS, all, item, &reg)) {
        return false;
    }
    reg = negated ? plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE) : reg;
    *out = plan_value(DYN_RK_BOOL, reg);
    return true;
}

/* sum, max or min (a PlanDriver) of a list or tuple of ints, or of floats. */
bool plan_call_of_items(Plan *p, int which, PlanValue *args, uint32_t n, PlanValue *out) {
    PlanValue list = n == 1 ? plan_tuple_object(p, &args[0]) : plan_value(DYN_RK_NULL, DYN_NONE);
    uint32_t bits = list.v.kind == DYN_RK_LIST ? plan_shape(p, plan_contents(&list))->bits : 0;
    if (bits != DYN_RL_INT && bits != DYN_RL_FLOAT) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a sum or extreme of something else than a list of ints, or of floats");
    }
    const bool ints = bits == DYN_RL_INT, sum = which == PLAN_SUM;
    DynRegionOp op = sum ? (ints ? DYN_RO_SUMINTS : DYN_RO_SUMFLOATS) : (ints ? DYN_RO_TOPINT : DYN_RO_TOPFLOAT);
    uint32_t largest = sum ? DYN_NONE : plan_iconst(p, which == PLAN_MAX);
    uint32_t reg = plan_emit_or(p, op, list.v.regs[0], largest, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    *out = plan_value(ints ? DYN_RK_INT : DYN_RK_FLOAT, reg);
    return true;
}

/* ---- stores */

/* The place may hold such values from here on: where that is new, all is planned anew. */
bool plan_holds(Plan *p, uint32_t shape, const PlanValue *v) {
    PlanShape of;
    if (!plan_shape_of(p, v, &of)) {
        return false;
    }
    if (shape != 0 && plan_join(p, shape, &of)) {
        p->again = true;
    }
    return true;
}

/* The register of what is stored: a number that is no plain one becomes an object. */
static uint32_t stored_reg(Plan *p, PlanValue *v) {
    if (v->v.kind == DYN_RK_CHAR) {
        return plan_emit(p, DYN_RO_CHAROBJECT, plan_reg(p, v), DYN_NONE, DYN_NONE);
    }
    if (v->v.kind == DYN_RK_COMPLEX) {
        return plan_emit_or(p, DYN_RO_BOXCOMPLEX, v->v.regs[0], v->v.regs[1], DYN_NONE, DYN_R_NO_MEMORY);
    }
    if (v->v.kind == DYN_RK_NP) {
        DynRegionOp box = v->v.dtype == DYN_F64 ? DYN_RO_BOXNPF64 : DYN_RO_BOXNPI64;
        return plan_emit_or(p, box, plan_reg(p, v), DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY);
    }
    return plan_reg(p, v);
}

bool plan_storing(Plan *p, PlanValue *v, PlanStoring how, DynRegionOp *op, uint32_t *reg) {
    if (!plan_whole(p, v)) {
        return false;
    }
    bool other_scalar = plan_is_np_complex(v) || (v->v.kind == DYN_RK_NP && v->v.dtype != DYN_F64 && v->v.dtype != DYN_I64);
    if (v->v.kind == DYN_RK_TUPLE && v->v.n > 0 && !plan_make_tuple(p, v, false)) {
        return false;
    }
    PlanValue text = plan_text(p, v), tuple = plan_tuple_object(p, v);
    *v = text.v.kind == DYN_RK_TEXT && text.v.n == DYN_TEXT_STR ? text : tuple;
    bool is_tuple = v->v.kind == DYN_RK_LIST && v->v.flags & DYN_RF_TUPLE;
    if (plan_object(p, v) == Py_None && how != PLAN_SET) {
        *op = kinds[DYN_COUNTOF(kinds) - 2].storing[how];
        *reg = plan_object_reg(p, Py_None);
        return true;
    }
    DynRegionKind kind = v->v.kind == DYN_RK_CHAR ? DYN_RK_TEXT : (DynRegionKind)v->v.kind;
    for (size_t i = 0; i < DYN_COUNTOF(kinds) && !other_scalar; i++) {
        *op = kinds[i].storing[how];
        if (kinds[i].kind == kind && *op != DYN_RO_COUNT && (kinds[i].bit == DYN_RL_TUPLE) == is_tuple) {
            if (v->v.kind == DYN_RK_NP || v->v.kind == DYN_RK_COMPLEX) {
                plan_settle_doubts(p);
                p->r->makes = true;
            }
            *reg = stored_reg(p, v);
            return true;
        }
    }
    return no(p, DYN_R_UNSUPPORTED_VALUE, "something is stored in an object that is no number of Python's and no known object");
}

bool plan_boxed(Plan *p, PlanValue *v, uint32_t *reg) {
    DynRegionOp op;
    if (!plan_storing(p, v, PLAN_BOX, &op, reg)) {
        return false;
    }
    plan_settle_doubts(p);
    p->r->makes = true;
    *reg = dyn_region_ops[op].fails ? plan_emit_or(p, op, *reg, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY)
                                    : plan_emit(p, op, *reg, DYN_NONE, DYN_NONE);
    return true;
}

bool plan_store_in_list(Plan *p, PlanValue list, PlanValue index, PlanValue v) {
    bool number = plan_is_python_number(&v);
    DynRegionOp op;
    uint32_t at, reg;
    if (list.v.flags & DYN_RF_TUPLE) {
        return no(p, DYN_R_EXCEPTION, "a tuple can't be written");
    }
    if (!plan_storing(p, &v, number ? PLAN_SET : PLAN_PUT, &op, &reg) || !plan_list_index(p, &list, &index, &at)) {
        return false;
    }
    plan_settle_doubts(p);
    plan_holds(p, plan_contents(&list), &v);
    uint32_t exit = plan_exit(p, DYN_R_UNSUPPORTED_VALUE);
    bool logs = p->s.nframes > 1;
    uint32_t place = number && !logs ? DYN_NONE : plan_emit(p, DYN_RO_LPLACE, list.v.regs[0], at, DYN_NONE);
    if (logs) {
        plan_emit_or(p, v.v.kind == DYN_RK_FLOAT ? DYN_RO_NOTE : DYN_RO_NOTEOBJECT, place, DYN_NONE, DYN_NONE,
                     DYN_R_UNSUPPORTED_VALUE);
        plan_log(p);
    }
    plan_emit(p, op, number ? list.v.regs[0] : place, number ? at : reg, number ? reg : DYN_NONE);
    plan_last(p)->exit = exit;
    return true;
}

bool plan_append(Plan *p, PlanValue list, PlanValue v) {
    DynRegionOp op;
    uint32_t reg;
    if (list.v.flags & DYN_RF_TUPLE || !plan_storing(p, &v, PLAN_APPEND, &op, &reg)) {
        return list.v.flags & DYN_RF_TUPLE ? no(p, DYN_R_EXCEPTION, "a tuple can't be written") : false;
    }
    plan_settle_doubts(p);
    plan_holds(p, plan_contents(&list), &v);
    plan_emit_or(p, op, list.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* ---- lists that the loop makes */

/* The number of the list that is made at this place: the same whenever all is planned anew. */
static uint8_t made_here(Plan *p) {
    const PlanFrame *f = plan_frame(p);
    uint32_t i = 0;
    while (i < p->nsites && (p->sites[i].code != f->c->code || p->sites[i].at != f->at || p->sites[i].part != p->part)) {
        i++;
    }
    if (i == PLAN_SITES) {
        return 0;
    }
    if (i == p->nsites) {
        p->sites[p->nsites++] = (PlanSite){f->c->code, f->at, p->part};
    }
    return (uint8_t)(PLAN_LISTS - PLAN_SITES + i);
}

PlanValue plan_made(Plan *p, DynRegionKind kind, uint32_t reg) {
    PlanValue v = plan_value(kind, reg);
    uint32_t shape = plan_root(p, made_here(p));
    v.v.shape = (uint16_t)shape;
    v.v.ref = kind == DYN_RK_LIST ? plan_bits(p, shape) : DYN_NONE;
    plan_makes(p);
    return v;
}

static void may_hold(Plan *p, PlanValue *made, const PlanValue *list) {
    const PlanShape from = *plan_shape(p, plan_contents(list));
    plan_join(p, plan_contents(made), &from);
    made->v.ref = plan_bits(p, plan_contents(made));
}

Went plan_build_list(Plan *p, uint32_t n) {
    uint32_t reg = plan_emit_or(p, DYN_RO_NEWLIST, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue v = plan_made(p, DYN_RK_LIST, reg);
    for (uint32_t i = n; i-- > 0;) {
        PlanShape of;
        if (!plan_whole(p, plan_top(p, i))) {
            return WENT_NOWHERE;
        }
        PlanValue item = *plan_top(p, i);
        if (item.v.kind != DYN_RK_TUPLE && !plan_shape_of(p, &item, &of) && plan_object(p, &item) == NULL) {
            return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a list of something that loops in native code don't know");
        }
        if (item.v.kind != DYN_RK_TUPLE) {
            plan_join(p, plan_contents(&v), &of);
        }
    }
    v.v.ref = plan_bits(p, plan_contents(&v));
    for (uint32_t i = n; i-- > 0;) {
        p->part = PLAN_DISPLAY_PART + i; /* what an item is made of is told apart from the list itself */
        bool appended = plan_append(p, v, *plan_top(p, i));
        p->part = 0;
        if (!appended) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= n;
    plan_push(p, v);
    return WENT_ON;
}

/* [1, 2, 3]: an empty list, extended by a constant tuple. */
Went plan_list_extend(Plan *p, uint32_t below) {
    PlanValue list = *plan_top(p, below), none = plan_const(p, Py_None);
    if (!plan_store_slice(p, list, plan_slice(p, plan_int(INT64_MAX), none, none), *plan_top(p, 0))) {
        return WENT_NOWHERE;
    }
    p->s.n--;
    if (plan_shape(p, plan_contents(&list))->which < PLAN_LISTS - PLAN_SITES) { /* others see it */
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

/* list(), list(range(…)), list(a list) */
bool plan_list_of(Plan *p, const PlanValue *from, PlanValue *out) {
    PlanValue none = plan_const(p, Py_None), number = plan_int(0);
    PlanShape ints;
    if (from == NULL) {
        *out = plan_made(p, DYN_RK_LIST, plan_emit_or(p, DYN_RO_NEWLIST, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
        return true;
    }
    if (from->v.kind == DYN_RK_LIST && !(from->v.flags & DYN_RF_TUPLE)) {
        return plan_slice_item(p, *from, plan_slice(p, none, none, none), out);
    }
    if (plan_is_str(p, from)) {
        return plan_letters(p, *from, out);
    }
    if (from->v.kind != DYN_RK_RANGE || !plan_shape_of(p, &number, &ints)) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a list of something else than a range or a list");
    }
    const uint32_t *r = from->v.regs; /* start, length, step, stop */
    *out = plan_made(p, DYN_RK_LIST, plan_emit_or(p, DYN_RO_LRANGE, r[0], r[1], r[2], DYN_R_UNSUPPORTED_VALUE));
    plan_join(p, plan_contents(out), &ints);
    out->v.ref = plan_bits(p, plan_contents(out));
    return true;
}

/* sorted(…) of what list() takes */
bool plan_call_sorted(Plan *p, int arg, PlanValue *args, uint32_t n, PlanValue *out) {
    (void)arg;
    if (n != 1) {
        return no(p, DYN_R_UNSUPPORTED_OP, "another number of arguments");
    }
    if (!plan_list_of(p, &args[0], out)) {
        return false;
    }
    plan_arrange(p, *out, *out, plan_bool(false));
    return true;
}

/* list * n, n * list, list + list */
bool plan_list_binary(Plan *p, int op, PlanValue a, PlanValue b, PlanValue *out) {
    PlanValue list = a.v.kind == DYN_RK_LIST ? a : b, other = a.v.kind == DYN_RK_LIST ? b : a;
    if ((a.v.flags | b.v.flags) & DYN_RF_TUPLE) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an operator of tuples");
    }
    if (op == NB_MULTIPLY && other.v.kind == DYN_RK_INT) {
        uint32_t n = plan_reg(p, &other);
        uint32_t reg = plan_emit_or(p, DYN_RO_REPEAT, list.v.regs[0], n, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        *out = plan_made(p, DYN_RK_LIST, reg);
        may_hold(p, out, &list);
        return true;
    }
    if (op == NB_ADD && other.v.kind == DYN_RK_LIST) {
        uint32_t reg = plan_emit_or(p, DYN_RO_CONCAT, a.v.regs[0], b.v.regs[0], DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        *out = plan_made(p, DYN_RK_LIST, reg);
        may_hold(p, out, &a);
        may_hold(p, out, &b);
        return true;
    }
    return no(p, DYN_R_UNSUPPORTED_OP, "an operator of lists");
}

/* In a comprehension. Its list is nobody's yet, but in the loop's own function CPython may be in the middle of it. */
Went plan_list_append(Plan *p, uint32_t below) {
    PlanValue v = *plan_top(p, 0), list = *plan_top(p, below);
    if (list.v.kind != DYN_RK_LIST) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a list of a comprehension that isn't known");
    }
    if (!plan_append(p, list, v)) {
        return WENT_NOWHERE;
    }
    p->s.n--;
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

/* ---- loops over them */

bool plan_list_iterator(Plan *p, PlanValue list, PlanValue *out) {
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, 1);
    if (items == NULL) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    items[0] = list;
    *out = plan_value(DYN_RK_LISTITER, plan_iconst(p, 0));
    out->v.n = 1;
    out->items = items;
    return true;
}

bool plan_of_list_iterator(Plan *p, PyObject *o, uint32_t which, PlanValue *v) {
    int64_t index;
    PyObject *list = dyn_cpy_list_iterator(o, &index);
    PlanValue *items = DYN_NEW_N(&p->arena, PlanValue, 1);
    if (list == NULL || items == NULL || (!plan_of_list(p, list, which, &items[0]) && !plan_of_text(p, list, &items[0]))) {
        return false;
    }
    *v = plan_value(DYN_RK_LISTITER, dyn_region_reg(p->r, 'I'));
    v->v.n = 1;
    v->items = items;
    return true;
}

uint32_t plan_list_more(Plan *p, const PlanValue *it) {
    const PlanValue *over = &it->items[0];
    uint32_t size = over->v.kind == DYN_RK_TEXT ? over->v.regs[2] : plan_list_size(p, over);
    return plan_emit(p, DYN_RO_ILT, it->v.regs[0], size, DYN_NONE);
}

PlanItem plan_list_next(Plan *p, PlanValue *it) {
    const PlanValue *over = &it->items[0];
    bool text = over->v.kind == DYN_RK_TEXT;
    uint32_t item = text ? plan_text_byte(p, over, it->v.regs[0]).v.regs[0] : item_at(p, over, it->v.regs[0]);
    it->v.regs[0] = plan_emit(p, DYN_RO_IADDW, it->v.regs[0], plan_iconst(p, 1), DYN_NONE);
    return (PlanItem){item, text ? 0 : plan_contents(over), DYN_NONE, DYN_NONE};
}

bool plan_single_item(Plan *p, const PlanItem *item, PlanValue *out) {
    Alternative of[MOST_ALTERNATIVES];
    if (alternatives(p, item->shape, of) != 1) {
        return no(p, DYN_R_UNSUPPORTED_VALUE, "items of several kinds, or of none that loops in native code know");
    }
    *out = item_as(p, item, of[0]);
    return true;
}

/* a, b = list: each item is of the one kind that its shape has. */
bool plan_unpack_list(Plan *p, PlanValue list, uint32_t n) {
    uint32_t size = plan_list_size(p, &list), fits = plan_emit(p, DYN_RO_IEQ, size, plan_iconst(p, n), DYN_NONE);
    PlanValue items[PLAN_ITEMS];
    plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), fits, DYN_NONE, DYN_R_EXCEPTION); /* leaves where `fits` is 0 */
    for (uint32_t i = 0; i < n; i++) {
        PlanValue index = plan_int(i);
        PlanItem item = {DYN_NONE, shape_at(p, &list, &index), DYN_NONE, DYN_NONE};
        item.reg = n > PLAN_ITEMS ? DYN_NONE : item_at(p, &list, plan_iconst(p, i));
        if (n > PLAN_ITEMS || !plan_single_item(p, &item, &items[i])) {
            return false;
        }
    }
    p->s.n--;
    for (uint32_t i = n; i-- > 0;) {
        plan_push(p, items[i]);
    }
    return true;
}
