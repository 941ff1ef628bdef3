/* lists.c: lists, and tuples that are objects: their items, read, written and appended, and loops over them. Called by the other
 * files of this folder.
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
    DynRegionOp is, as, set, append;
} kinds[] = {
    {DYN_RL_FLOAT, DYN_RK_FLOAT, DYN_RO_ISFLOAT, DYN_RO_ASFLOAT, DYN_RO_SETFLOAT, DYN_RO_APPFLOAT},
    {DYN_RL_INT, DYN_RK_INT, DYN_RO_ISINT, DYN_RO_ASINT, DYN_RO_SETINT, DYN_RO_APPINT},
    {DYN_RL_BOOL, DYN_RK_BOOL, DYN_RO_ISBOOL, DYN_RO_ASBOOL, DYN_RO_SETBOOL, DYN_RO_APPBOOL},
    {DYN_RL_LIST, DYN_RK_LIST, DYN_RO_ISLIST, DYN_RO_ASLIST, DYN_RO_COUNT, DYN_RO_APPOBJECT},
    {DYN_RL_TUPLE, DYN_RK_LIST, DYN_RO_ISTUPLE, DYN_RO_ASTUPLE, DYN_RO_COUNT, DYN_RO_APPOBJECT},
};

bool plan_of_list(Plan *p, PyObject *o, uint32_t which, PlanValue *v) {
    bool tuple = PyTuple_CheckExact(o);
    if (!PyList_CheckExact(o) && !tuple) {
        return false;
    }
    uint32_t reg = dyn_region_reg(p->r, 'P');
    if (reg == DYN_NONE) {
        plan_stop(p, DYN_R_NO_MEMORY);
        return false;
    }
    *v = plan_value(DYN_RK_LIST, reg);
    v->v.flags = tuple ? DYN_RF_TUPLE : 0;
    v->v.n = (uint8_t)which;
    v->v.ref = dyn_region_shape(o, PLAN_SAMPLE, DYN_RL_DEPTH) | p->stored[which];
    if (p->ends[which]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

/* Its variable gets another value, and the list may end with the loop: only lists of numbers, so that nobody sees that. */
bool plan_may_end(Plan *p, const PlanValue *v) {
    if (!p->ends[v->v.n]) {
        p->ends[v->v.n] = true;
        p->again = true;
    }
    return (v->v.flags & DYN_RF_DROPPABLE) != 0;
}

PlanValue plan_tuple_object(Plan *p, const PlanValue *v) {
    PyObject *o = plan_object(p, v);
    PlanValue out = *v;
    if (o == NULL || !PyTuple_CheckExact(o)) {
        return out;
    }
    DynRegionFact *f = plan_fact(p, (DynRegionFact){.value = o, .object = true});
    if (f != NULL && f->extra == DYN_NONE && plan_of_list(p, o, 0, &out)) {
        f->extra = plan_extra(p, &out);
    }
    return f == NULL || f->extra == DYN_NONE ? *v : (PlanValue){.v = p->extras.at[f->extra]};
}

uint32_t plan_list_size(Plan *p, const PlanValue *v) { return plan_emit(p, DYN_RO_OSIZE, v->v.regs[0], DYN_NONE, DYN_NONE); }

/* ---- items */

/* The item, of this kind: left where it isn't. */
static PlanValue item_as(Plan *p, const PlanValue *list, uint32_t item, const struct Kind *k) {
    PlanValue v = plan_value(k->kind, plan_emit_or(p, k->as, item, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE));
    if (k->kind == DYN_RK_LIST) {
        v.v.ref = list->v.ref >> 8;
        v.v.n = list->v.n;
        v.v.dtype = list->v.dtype + 1;
        v.v.flags = k->bit == DYN_RL_TUPLE ? DYN_RF_TUPLE : 0;
    }
    return v;
}

static uint32_t kinds_of(const PlanValue *list, const struct Kind *out[DYN_COUNTOF(kinds)]) {
    uint32_t n = 0;
    for (size_t i = 0; i < DYN_COUNTOF(kinds); i++) {
        if (list->v.ref & kinds[i].bit) {
            out[n++] = &kinds[i];
        }
    }
    return n;
}

static uint32_t item_at(Plan *p, const PlanValue *list, uint32_t index) {
    bool tuple = (list->v.flags & DYN_RF_TUPLE) != 0;
    return plan_emit(p, tuple ? DYN_RO_TITEM : DYN_RO_LITEM, list->v.regs[0], index, DYN_NONE);
}

static bool index_of(Plan *p, const PlanValue *list, PlanValue *index, uint32_t *reg) {
    bool integer = index->v.kind == DYN_RK_INT || index->v.kind == DYN_RK_BOOL ||
                   (index->v.kind == DYN_RK_NP && dyn_dtype_is_integer((DynDtype)index->v.dtype));
    if (!integer) {
        return no(p, DYN_R_UNSUPPORTED_OP, "an index of a list that is no int");
    }
    uint32_t i = plan_reg(p, index);
    *reg = plan_emit_or(p, DYN_RO_IDX, i, plan_list_size(p, list), DYN_NONE, DYN_R_EXCEPTION);
    return true;
}

bool plan_list_item(Plan *p, PlanValue list, PlanValue index, uint32_t *item) {
    uint32_t at;
    const struct Kind *of[DYN_COUNTOF(kinds)];
    if (kinds_of(&list, of) == 0) {
        return no(p, DYN_R_UNSUPPORTED_VALUE, "an item of a list that held none that loops in native code know");
    }
    if (!index_of(p, &list, &index, &at)) {
        return false;
    }
    *item = item_at(p, &list, at);
    return true;
}

/* Takes `drop` values from the stack, puts the item there, and goes on behind the instruction. The last of its kinds goes on in
 * the block itself. */
Went plan_push_item(Plan *p, const PlanValue *list, uint32_t item, uint32_t drop) {
    const struct Kind *of[DYN_COUNTOF(kinds)];
    uint32_t n = kinds_of(list, of);
    for (uint32_t i = 0; i + 1 < n; i++) {
        PlanWays ways;
        if (!plan_two_ways(p, plan_emit(p, of[i]->is, item, DYN_NONE, DYN_NONE), &ways)) {
            return WENT_AWAY;
        }
        PlanValue v = item_as(p, list, item, of[i]);
        p->s.n -= drop;
        plan_push(p, v);
        plan_go(p, plan_frame(p)->at + 1);
        plan_other_way(p, &ways);
    }
    PlanValue v = item_as(p, list, item, of[n - 1]);
    p->s.n -= drop;
    plan_push(p, v);
    return WENT_ON;
}

/* ---- stores */

/* The list may hold such items from here on: where that is new, all is planned anew. */
static bool holds(Plan *p, const PlanValue *list, const struct Kind *k, const PlanValue *v) {
    uint32_t shape = k->bit | (k->kind == DYN_RK_LIST ? v->v.ref << 8 : 0);
    if ((shape & ~list->v.ref) != 0 && list->v.n != 0 && list->v.dtype < DYN_RL_DEPTH) {
        p->stored[list->v.n] |= shape << (8 * list->v.dtype);
        p->again = true;
        return false;
    }
    return true;
}

static const struct Kind *kind_of(Plan *p, const PlanValue *v, bool appended) {
    bool tuple = v->v.kind == DYN_RK_LIST && v->v.flags & DYN_RF_TUPLE;
    for (size_t i = 0; i < DYN_COUNTOF(kinds); i++) {
        bool may = appended || kinds[i].set != DYN_RO_COUNT;
        if (kinds[i].kind == (DynRegionKind)v->v.kind && may && (kinds[i].bit == DYN_RL_TUPLE) == tuple) {
            return &kinds[i];
        }
    }
    no(p, DYN_R_UNSUPPORTED_VALUE, "something is stored in a list that is no number of Python's");
    return NULL;
}

bool plan_store_in_list(Plan *p, PlanValue list, PlanValue index, PlanValue v) {
    const struct Kind *k = kind_of(p, &v, false);
    uint32_t at;
    if (list.v.flags & DYN_RF_TUPLE) {
        return no(p, DYN_R_EXCEPTION, "a tuple can't be written");
    }
    if (k == NULL || !index_of(p, &list, &index, &at)) {
        return false;
    }
    uint32_t reg = plan_reg(p, &v);
    plan_settle_doubts(p);
    holds(p, &list, k, &v);
    uint32_t exit = plan_exit(p, DYN_R_UNSUPPORTED_VALUE);
    plan_emit(p, k->set, list.v.regs[0], at, reg);
    plan_last(p)->exit = exit;
    return true;
}

bool plan_append(Plan *p, PlanValue list, PlanValue v) {
    const struct Kind *k = kind_of(p, &v, true);
    if (k == NULL || list.v.flags & DYN_RF_TUPLE) {
        return false;
    }
    uint32_t reg = plan_reg(p, &v);
    plan_settle_doubts(p);
    holds(p, &list, k, &v);
    plan_emit_or(p, k->append, list.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* ---- lists that the loop makes */

/* The number of the list that is made at this place: the same whenever all is planned anew. */
static uint8_t made_here(Plan *p) {
    const PlanFrame *f = plan_frame(p);
    uint32_t i = 0;
    while (i < p->nsites && (p->sites[i].code != f->c->code || p->sites[i].at != f->at)) {
        i++;
    }
    if (i == PLAN_SITES) {
        return 0;
    }
    if (i == p->nsites) {
        p->sites[p->nsites++] = (PlanSite){f->c->code, f->at};
    }
    return (uint8_t)(PLAN_LISTS - PLAN_SITES + i);
}

static PlanValue made(Plan *p, uint32_t reg, uint32_t shape) {
    PlanValue v = plan_value(DYN_RK_LIST, reg);
    v.v.n = made_here(p);
    v.v.ref = shape | p->stored[v.v.n];
    p->r->makes = true;
    return v;
}

Went plan_build_list(Plan *p, uint32_t n) {
    uint32_t reg = plan_emit_or(p, DYN_RO_NEWLIST, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue v = made(p, reg, 0);
    for (uint32_t i = n; i-- > 0;) {
        const struct Kind *k = kind_of(p, plan_top(p, i), true);
        if (k == NULL) {
            return WENT_NOWHERE;
        }
        v.v.ref |= k->bit | (k->kind == DYN_RK_LIST ? plan_top(p, i)->v.ref << 8 : 0);
    }
    for (uint32_t i = n; i-- > 0;) {
        if (!plan_append(p, v, *plan_top(p, i))) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= n;
    plan_push(p, v);
    return WENT_ON;
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
        *out = made(p, reg, list.v.ref);
        return true;
    }
    if (op == NB_ADD && other.v.kind == DYN_RK_LIST) {
        uint32_t reg = plan_emit_or(p, DYN_RO_CONCAT, a.v.regs[0], b.v.regs[0], DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        *out = made(p, reg, a.v.ref | b.v.ref);
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

/* ---- methods */

PyObject *plan_list_method(const char *name) { /* borrowed; of those that are in the language */
    return strcmp(name, "append") == 0 ? dyn_cpy_lookup_named(&PyList_Type, name) : NULL;
}

Went plan_call_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    bool append = method == plan_list_method("append") && self.v.kind == DYN_RK_LIST && n == 1;
    if (!append) {
        return plan_unknown(p, DYN_R_OPAQUE_CALL, "a method that loops in native code don't know");
    }
    if (!plan_append(p, self, args[0])) {
        return WENT_NOWHERE;
    }
    p->s.n -= slots;
    plan_push(p, plan_const(p, Py_None));
    plan_effect(p, plan_frame(p)->at + 1);
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

uint32_t plan_list_next(Plan *p, PlanValue *it) {
    const PlanValue *over = &it->items[0];
    uint32_t item =
        over->v.kind == DYN_RK_TEXT ? plan_text_byte(p, over, it->v.regs[0]).v.regs[0] : item_at(p, over, it->v.regs[0]);
    it->v.regs[0] = plan_emit(p, DYN_RO_IADDW, it->v.regs[0], plan_iconst(p, 1), DYN_NONE);
    return item;
}

bool plan_single_item(Plan *p, const PlanValue *list, uint32_t item, PlanValue *out) {
    const struct Kind *of[DYN_COUNTOF(kinds)];
    if (list->v.kind == DYN_RK_TEXT) {
        *out = plan_value(list->v.n == DYN_TEXT_STR ? DYN_RK_CHAR : DYN_RK_INT, item);
        return true;
    }
    if (kinds_of(list, of) != 1) {
        return no(p, DYN_R_UNSUPPORTED_VALUE, "items of several kinds, or of none that loops in native code know");
    }
    *out = item_as(p, list, item, of[0]);
    return true;
}

/* a, b = list: each item is of the one kind that the shape has. */
bool plan_unpack_list(Plan *p, PlanValue list, uint32_t n) {
    uint32_t size = plan_list_size(p, &list), fits = plan_emit(p, DYN_RO_IEQ, size, plan_iconst(p, n), DYN_NONE);
    PlanValue items[PLAN_ITEMS];
    plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), fits, DYN_NONE, DYN_R_EXCEPTION); /* leaves where `fits` is 0 */
    for (uint32_t i = 0; i < n; i++) {
        if (n > PLAN_ITEMS || !plan_single_item(p, &list, item_at(p, &list, plan_iconst(p, i)), &items[i])) {
            return false;
        }
    }
    p->s.n--;
    for (uint32_t i = n; i-- > 0;) {
        plan_push(p, items[i]);
    }
    return true;
}
