/* dicts.c: dicts with ints, strings, characters and tuples of plain values as keys, defaultdicts and Counters among them, and
 * sets: looked up, stored, asked, and made. Called by step.c and methods.c. Looking a key up runs no code: where that can't be
 * said of the keys that are there, the region is left (base/cpy_lookup.c). A dict's values are items as those of lists are. */
#include "tracer/region/plan.h"

static bool no(Plan *p, DynReason why, const char *what) {
    plan_unknown(p, why, what);
    return false;
}

bool plan_of_dict(Plan *p, PyObject *o, uint32_t which, PlanValue *v) {
    const int64_t kind = dyn_region_dict_kind(o);
    const bool dict = kind >= 0;
    uint32_t reg = o != p->r->namespace && (dict || PySet_CheckExact(o)) ? dyn_region_reg(p->r, 'P') : DYN_NONE;
    if (reg == DYN_NONE) {
        return false;
    }
    *v = plan_value(dict ? DYN_RK_DICT : DYN_RK_SET, reg);
    v->v.n = dict ? (uint8_t)kind : 0;
    uint32_t shape = which == PLAN_INNER ? plan_root_of(p, o) : plan_root(p, which);
    v->v.shape = (uint16_t)shape;
    plan_look_into(p, shape, o, 4);
    if (p->ends[which]) {
        v->v.flags |= dyn_region_is_droppable(o) ? DYN_RF_DROPPABLE : 0;
    }
    return true;
}

/* A key as an int (*is_int), or as an object. */
static bool key_of(Plan *p, PlanValue *key, bool *is_int, uint32_t *reg) {
    PlanValue text = plan_text(p, key);
    *is_int = key->v.kind == DYN_RK_INT || key->v.kind == DYN_RK_BOOL;
    if (*is_int) {
        *reg = plan_reg(p, key);
    } else if (key->v.kind == DYN_RK_CHAR) {
        *reg = plan_emit(p, DYN_RO_CHAROBJECT, key->v.regs[0], DYN_NONE, DYN_NONE);
    } else if (text.v.kind == DYN_RK_TEXT && text.v.n == DYN_TEXT_STR) {
        *reg = text.v.regs[0];
    } else {
        return plan_key_tuple(p, key, reg);
    }
    return true;
}

/* The value of a key, or NULL, and how it is taken out. */
static bool find(Plan *p, PlanValue dict, PlanValue key, PlanItem *item) {
    bool is_int;
    uint32_t reg;
    if (!key_of(p, &key, &is_int, &reg)) {
        return false;
    }
    *item = (PlanItem){.shape = plan_contents(&dict), .list = DYN_NONE, .index = reg};
    item->remove = is_int ? DYN_RO_DIREMOVE : DYN_RO_DPREMOVE;
    item->reg = plan_emit_or(p, is_int ? DYN_RO_DICTI : DYN_RO_DICTP, dict.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

static uint32_t is_there(Plan *p, const PlanItem *item) { return plan_emit(p, DYN_RO_NOTNULL, item->reg, DYN_NONE, DYN_NONE); }

/* One way pushes the item in place of `slots` values, and takes it out if item->list is the dict; the other goes on where the key
 * isn't there. */
static bool begin_absent(Plan *p, const PlanItem *item, uint32_t slots) {
    PlanWays ways;
    if (!plan_two_ways(p, is_there(p, item), &ways)) {
        return false;
    }
    Went went = plan_push_item(p, item, slots);
    if (went == WENT_ON) {
        plan_go(p, plan_frame(p)->at + 1);
    } else if (went == WENT_NOWHERE) { /* it holds nothing that is known: CPython looks it up */
        plan_leave(p);
    }
    plan_other_way(p, &ways);
    return true;
}

static Went push_instead(Plan *p, PlanValue v, uint32_t slots) {
    p->s.n -= slots;
    plan_push(p, v);
    return plan_go(p, plan_frame(p)->at + 1);
}

/* Those that the loop makes. */
static PlanValue new_dict(Plan *p) {
    return plan_made(p, DYN_RK_DICT, plan_emit_or(p, DYN_RO_NEWDICT, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
}

static PlanValue new_set(Plan *p) {
    return plan_made(p, DYN_RK_SET, plan_emit_or(p, DYN_RO_NEWSET, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
}

/* What an item is that isn't there, of a dict that has a default. */
static PlanValue default_of(Plan *p, const PlanValue *dict) {
    switch (dict->v.n) {
    case DYN_DICT_FLOAT: return plan_float(0.0);
    case DYN_DICT_LIST:
        return plan_made(p, DYN_RK_LIST, plan_emit_or(p, DYN_RO_NEWLIST, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
    case DYN_DICT_DICT: return new_dict(p);
    default: return plan_int(0);
    }
}

/* A defaultdict's item, which it has from here on; a Counter's isn't stored. */
static Went item_or_default(Plan *p, PlanValue dict, PlanValue key) {
    PlanItem item;
    PlanValue none = plan_int(0);
    if (dict.v.n == DYN_DICT_COUNTER) {
        plan_holds(p, plan_contents(&dict), &none);
        return !find(p, dict, key, &item) ? WENT_NOWHERE : begin_absent(p, &item, 2) ? push_instead(p, none, 2) : WENT_AWAY;
    }
    if (dict.v.n < DYN_DICT_LIST) {
        none = default_of(p, &dict);
        plan_holds(p, plan_contents(&dict), &none);
    }
    if (!find(p, dict, key, &item)) {
        return WENT_NOWHERE;
    }
    if (!begin_absent(p, &item, 2)) {
        return WENT_AWAY;
    }
    plan_emit_or(p, DYN_RO_DICTKIND, dict.v.regs[0], plan_iconst(p, dict.v.n), DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    PlanValue made = default_of(p, &dict);
    if (!plan_store_in_dict(p, dict, key, made)) {
        plan_leave(p);
        return WENT_AWAY;
    }
    p->s.n -= 2;
    plan_push(p, made);
    plan_effect(p, plan_frame(p)->at + 1);
    return plan_go(p, plan_frame(p)->at + 1);
}

Went plan_dict_item(Plan *p, PlanValue dict, PlanValue key) {
    PlanItem item;
    if (dict.v.n != DYN_DICT_PLAIN) {
        return item_or_default(p, dict, key);
    }
    if (plan_shape(p, plan_contents(&dict))->bits == 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an item of a dict that held none");
    }
    if (!find(p, dict, key, &item)) {
        return WENT_NOWHERE;
    }
    plan_leave_unless(p, is_there(p, &item), DYN_R_EXCEPTION);
    return plan_push_item(p, &item, 2);
}

/* d.get(key), d.get(key, other): the callable, the dict and the arguments are `slots` values on the stack. */
Went plan_dict_get(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanItem item;
    PlanValue other = n > 1 ? args[1] : plan_const(p, Py_None);
    if (!find(p, dict, args[0], &item)) {
        return WENT_NOWHERE;
    }
    return begin_absent(p, &item, slots) ? push_instead(p, other, slots) : WENT_AWAY;
}

/* d.pop(key), d.pop(key, other) */
Went plan_dict_pop(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanItem item;
    PlanValue other = n > 1 ? args[1] : plan_const(p, Py_None);
    if (plan_shape(p, plan_contents(&dict))->bits == 0) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an item of a dict that held none");
    }
    if (!find(p, dict, args[0], &item)) {
        return WENT_NOWHERE;
    }
    item.list = dict.v.regs[0];
    if (n == 1) {
        plan_leave_unless(p, is_there(p, &item), DYN_R_EXCEPTION);
        return plan_push_item(p, &item, slots);
    }
    return begin_absent(p, &item, slots) ? push_instead(p, other, slots) : WENT_AWAY;
}

/* d.setdefault(key, v) */
Went plan_dict_setdefault(Plan *p, PlanValue dict, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanItem item;
    PlanValue v = n > 1 ? args[1] : plan_const(p, Py_None);
    if (!find(p, dict, args[0], &item)) {
        return WENT_NOWHERE;
    }
    if (!begin_absent(p, &item, slots)) {
        return WENT_AWAY;
    }
    if (!plan_store_in_dict(p, dict, args[0], v)) {
        plan_leave(p);
        return WENT_AWAY;
    }
    p->s.n -= slots;
    plan_push(p, v);
    plan_effect(p, plan_frame(p)->at + 1);
    return plan_go(p, plan_frame(p)->at + 1);
}

/* del d[key] */
bool plan_delete_key(Plan *p, PlanValue dict, PlanValue key) {
    PlanItem item;
    if (dict.v.n == DYN_DICT_COUNTER) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a key is deleted of a Counter");
    }
    if (!find(p, dict, key, &item)) {
        return false;
    }
    plan_leave_unless(p, is_there(p, &item), DYN_R_EXCEPTION);
    plan_settle_doubts(p);
    plan_emit_or(p, item.remove, dict.v.regs[0], item.index, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

bool plan_store_in_dict(Plan *p, PlanValue dict, PlanValue key, PlanValue v) {
    bool is_int;
    uint32_t at, reg;
    DynRegionOp op;
    if (key.v.kind == DYN_RK_BOOL) { /* it may become a key */
        return no(p, DYN_R_UNSUPPORTED_VALUE, "a bool as a key that is stored");
    }
    if (!key_of(p, &key, &is_int, &at) || !plan_storing(p, &v, is_int ? PLAN_DICT_INT : PLAN_DICT_OBJECT, &op, &reg)) {
        return false;
    }
    plan_settle_doubts(p);
    plan_holds(p, plan_contents(&dict), &v);
    plan_holds(p, plan_keys(p, plan_contents(&dict)), &key);
    if (p->s.nframes > 1) { /* within a call it is undone where the region is left before that has ended */
        plan_emit_or(p, is_int ? DYN_RO_NOTEINTKEY : DYN_RO_NOTEKEY, dict.v.regs[0], at, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        plan_log(p);
    }
    plan_emit_or(p, op, dict.v.regs[0], at, reg, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

bool plan_in_dict(Plan *p, PlanValue key, PlanValue dict, bool negated, PlanValue *out) {
    bool is_int;
    uint32_t reg;
    if (!key_of(p, &key, &is_int, &reg)) {
        return false;
    }
    if (dict.v.kind == DYN_RK_SET) {
        reg = plan_emit_or(p, is_int ? DYN_RO_SETHASI : DYN_RO_SETHASP, dict.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    } else {
        reg = plan_emit_or(p, is_int ? DYN_RO_DICTI : DYN_RO_DICTP, dict.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        reg = plan_emit(p, DYN_RO_NOTNULL, reg, DYN_NONE, DYN_NONE);
    }
    reg = negated ? plan_emit(p, DYN_RO_NOT, reg, DYN_NONE, DYN_NONE) : reg;
    *out = plan_value(DYN_RK_BOOL, reg);
    return true;
}

bool plan_add_to_set(Plan *p, PlanValue set, PlanValue key) {
    bool is_int;
    uint32_t reg;
    if (key.v.kind == DYN_RK_BOOL || !key_of(p, &key, &is_int, &reg)) {
        return key.v.kind == DYN_RK_BOOL ? no(p, DYN_R_UNSUPPORTED_VALUE, "a bool in a set") : false;
    }
    plan_settle_doubts(p);
    plan_holds(p, plan_keys(p, plan_contents(&set)), &key);
    plan_emit_or(p, is_int ? DYN_RO_SETADDI : DYN_RO_SETADDP, set.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* `raises`: where it isn't there, which CPython says. */
bool plan_take_from_set(Plan *p, PlanValue set, PlanValue key, bool raises) {
    bool is_int;
    uint32_t reg;
    PlanValue has;
    if (raises && !plan_in_dict(p, key, set, false, &has)) {
        return false;
    }
    if (raises) { /* leaves where it is 0 */
        plan_emit_or(p, DYN_RO_IDX, plan_iconst(p, 0), has.v.regs[0], DYN_NONE, DYN_R_EXCEPTION);
    }
    if (!key_of(p, &key, &is_int, &reg)) {
        return false;
    }
    plan_settle_doubts(p);
    DynRegionOp op = is_int ? DYN_RO_SETDISCARDI : DYN_RO_SETDISCARDP;
    plan_emit_or(p, op, set.v.regs[0], reg, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return true;
}

/* ---- dicts and sets that the loop makes */

bool plan_call_dict(Plan *p, bool set, uint32_t n, PlanValue *out) {
    if (n > 0) {
        return no(p, DYN_R_UNSUPPORTED_OP, "a dict or set of something");
    }
    *out = set ? new_set(p) : new_dict(p);
    return true;
}

/* An item of a display: what it is made of is told apart from the dict itself. */
static bool put_pair(Plan *p, PlanValue dict, uint32_t i, PlanValue key, PlanValue v) {
    p->part = PLAN_DISPLAY_PART + i;
    bool put = plan_store_in_dict(p, dict, key, v);
    p->part = 0;
    return put;
}

/* {}, {a: b} */
Went plan_build_map(Plan *p, uint32_t pairs) {
    PlanValue dict = new_dict(p);
    for (uint32_t i = pairs; i-- > 0;) {
        if (!put_pair(p, dict, i, *plan_top(p, 2 * i + 1), *plan_top(p, 2 * i))) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= 2 * pairs;
    plan_push(p, dict);
    return WENT_ON;
}

/* {"a": b}, before CPython 3.14: the keys are a constant tuple on top. */
Went plan_build_const_key_map(Plan *p, uint32_t n) {
    PyObject *keys = plan_object(p, plan_top(p, 0));
    PlanValue dict = new_dict(p);
    if (keys == NULL || !PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != (Py_ssize_t)n) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "a dict whose keys aren't known");
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!put_pair(p, dict, i, plan_const(p, PyTuple_GET_ITEM(keys, i)), *plan_top(p, n - i))) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= n + 1;
    plan_push(p, dict);
    return WENT_ON;
}

Went plan_build_set(Plan *p, uint32_t n) {
    PlanValue set = new_set(p);
    for (uint32_t i = n; i-- > 0;) {
        if (!plan_add_to_set(p, set, *plan_top(p, i))) {
            return WENT_NOWHERE;
        }
    }
    p->s.n -= n;
    plan_push(p, set);
    return WENT_ON;
}

/* In a comprehension: the dict or set is nobody's yet, but in the loop's own function CPython may be in the middle of it. */
static Went added(Plan *p, uint32_t slots) {
    p->s.n -= slots;
    if (p->s.nframes == 1) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

Went plan_map_add(Plan *p, uint32_t below) {
    PlanValue dict = *plan_top(p, below + 1);
    if (dict.v.kind != DYN_RK_DICT) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a dict of a comprehension that isn't known");
    }
    return plan_store_in_dict(p, dict, *plan_top(p, 1), *plan_top(p, 0)) ? added(p, 2) : WENT_NOWHERE;
}

Went plan_set_add(Plan *p, uint32_t below) {
    PlanValue set = *plan_top(p, below);
    if (set.v.kind != DYN_RK_SET) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "a set of a comprehension that isn't known");
    }
    return plan_add_to_set(p, set, *plan_top(p, 0)) ? added(p, 1) : WENT_NOWHERE;
}
