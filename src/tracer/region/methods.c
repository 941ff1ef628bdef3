/* methods.c: methods of lists, dicts, sets and deques. Called by step.c and calls.c. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

static Went done(Plan *p, uint32_t slots, PlanValue result) {
    p->s.n -= slots;
    plan_push(p, result);
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

/* Within an inlined call it is noted, and undone where the region is left before that call has ended. */
static Went append(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    if (plan_undoes(p)) {
        plan_emit_or(p, DYN_RO_NOTEAPPEND, self.v.regs[0], DYN_NONE, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
        plan_log(p);
        if (!plan_append(p, self, args[0])) {
            return WENT_NOWHERE;
        }
        p->s.n -= slots;
        plan_push(p, plan_const(p, Py_None));
        return WENT_ON;
    }
    return plan_append(p, self, args[0]) ? done(p, slots, plan_const(p, Py_None)) : WENT_NOWHERE;
}

static Went pop(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanItem item;
    if (!plan_list_item(p, self, n > 0 ? args[0] : plan_int(-1), &item)) {
        return WENT_NOWHERE;
    }
    item.list = self.v.regs[0];
    item.last = n == 0;
    return plan_push_item(p, &item, slots);
}

/* As list.insert: places beyond its ends are the ends. */
static Went insert(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    PlanValue index = args[0];
    if (index.v.kind != DYN_RK_INT) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "an index of a list that is no int");
    }
    uint32_t size = plan_list_size(p, &self), zero = plan_iconst(p, 0), i = plan_reg(p, &index);
    uint32_t from_end = plan_emit(p, DYN_RO_IADDW, i, size, DYN_NONE);
    i = plan_emit(p, DYN_RO_ISELECT, plan_emit(p, DYN_RO_ILT, i, zero, DYN_NONE), from_end, i);
    i = plan_emit(p, DYN_RO_IMAX0, i, DYN_NONE, DYN_NONE);
    i = plan_emit(p, DYN_RO_ISELECT, plan_emit(p, DYN_RO_ILT, size, i, DYN_NONE), size, i);
    if (!plan_append(p, self, args[1])) {
        return WENT_NOWHERE;
    }
    plan_emit(p, DYN_RO_LROTATE, self.v.regs[0], i, DYN_NONE);
    return done(p, slots, plan_const(p, Py_None));
}

static Went reverse(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)args;
    (void)n;
    plan_settle_doubts(p);
    plan_emit(p, DYN_RO_LREVERSE, self.v.regs[0], DYN_NONE, DYN_NONE);
    return done(p, slots, plan_const(p, Py_None));
}

static Went answer(Plan *p, int64_t what, PlanValue self, PlanValue value, uint32_t slots) {
    uint32_t reg;
    if (!plan_ask_list(p, what, self, value, &reg)) {
        return WENT_NOWHERE;
    }
    p->s.n -= slots;
    plan_push(p, plan_value(DYN_RK_INT, reg));
    return WENT_ON;
}

static Went remove_item(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    uint32_t at;
    (void)n;
    if (!plan_ask_list(p, DYN_LIST_INDEX, self, args[0], &at)) {
        return WENT_NOWHERE;
    }
    plan_settle_doubts(p);
    plan_emit_or(p, DYN_RO_LREMOVE, self.v.regs[0], at, DYN_NONE, DYN_R_UNSUPPORTED_VALUE);
    return done(p, slots, plan_const(p, Py_None));
}

static Went sort(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    return plan_sort_list(p, self, args, NULL, slots);
}

Went plan_call_method_with_names(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, PyObject *names,
                                 uint32_t slots) {
    const bool list = self.v.kind == DYN_RK_LIST && (self.v.flags & DYN_RF_TUPLE) == 0;
    if (list && n == (uint32_t)PyTuple_GET_SIZE(names) && dyn_cpy_lookup_named(&PyList_Type, "sort") == method) {
        return plan_sort_list(p, self, args, names, slots);
    }
    return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "keyword arguments");
}

static bool all_of(Plan *p, PlanValue self, PlanValue *out) {
    PlanValue none = plan_const(p, Py_None);
    return plan_slice_item(p, self, plan_slice(p, none, none, none), out);
}

static Went copy(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    PlanValue out;
    (void)args;
    (void)n;
    if (!all_of(p, self, &out)) {
        return WENT_NOWHERE;
    }
    p->s.n -= slots;
    plan_push(p, out);
    return WENT_ON;
}

static Went store_all(Plan *p, PlanValue self, PlanValue from, PlanValue start, uint32_t slots) {
    PlanValue none = plan_const(p, Py_None);
    if (!plan_store_slice(p, self, plan_slice(p, start, none, none), from)) {
        return WENT_NOWHERE;
    }
    return done(p, slots, none);
}

static Went clear(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)args;
    (void)n;
    PlanValue nothing = plan_value(DYN_RK_LIST, plan_emit_or(p, DYN_RO_NEWLIST, DYN_NONE, DYN_NONE, DYN_NONE, DYN_R_NO_MEMORY));
    p->r->makes = true;
    return store_all(p, self, nothing, plan_const(p, Py_None), slots);
}

static Went extend(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    return store_all(p, self, args[0], plan_int(INT64_MAX), slots);
}

static Went get(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    return plan_dict_get(p, self, args, n, slots);
}

static Went pop_key(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    return plan_dict_pop(p, self, args, n, slots);
}

static Went set_default(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    return plan_dict_setdefault(p, self, args, n, slots);
}

static Went add(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    return plan_add_to_set(p, self, args[0]) ? done(p, slots, plan_const(p, Py_None)) : WENT_NOWHERE;
}

static Went take(Plan *p, PlanValue self, PlanValue key, bool raises, uint32_t slots) {
    return plan_take_from_set(p, self, key, raises) ? done(p, slots, plan_const(p, Py_None)) : WENT_NOWHERE;
}

static Went discard(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    return take(p, self, args[0], false, slots);
}

static Went remove_key(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    (void)n;
    return take(p, self, args[0], true, slots);
}

static Went view(Plan *p, PlanValue self, uint8_t which, uint32_t slots) {
    PlanValue out;
    if (!plan_dict_view(p, self, which, &out)) {
        return WENT_AWAY;
    }
    p->s.n -= slots;
    plan_push(p, out);
    return WENT_ON;
}

#define VIEW(name, which)                                                                          \
    static Went name(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) { \
        (void)args;                                                                                \
        (void)n;                                                                                   \
        return view(p, self, which, slots);                                                        \
    }
VIEW(keys, DYN_CPY_KEYS)
VIEW(values, DYN_CPY_VALUES)
VIEW(items, DYN_CPY_ITEMS)

#define QUEUE(name, call)                                                                          \
    static Went name(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) { \
        (void)args;                                                                                \
        (void)n;                                                                                   \
        return call;                                                                               \
    }
QUEUE(index_of, answer(p, DYN_LIST_INDEX, self, args[0], slots))
QUEUE(count, answer(p, DYN_LIST_COUNT, self, args[0], slots))
QUEUE(append_last, plan_deque_add(p, self, args[0], false, slots))
QUEUE(append_first, plan_deque_add(p, self, args[0], true, slots))
QUEUE(take_last, plan_deque_take(p, self, false, slots))
QUEUE(take_first, plan_deque_take(p, self, true, slots))

static const struct Method {
    const char *name;
    DynRegionKind of;
    Went (*handler)(Plan *p, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots);
    uint32_t least, most;
} methods[] = {{"append", DYN_RK_LIST, append, 1, 1},       {"pop", DYN_RK_LIST, pop, 0, 1},
               {"insert", DYN_RK_LIST, insert, 2, 2},       {"reverse", DYN_RK_LIST, reverse, 0, 0},
               {"sort", DYN_RK_LIST, sort, 0, 0},           {"index", DYN_RK_LIST, index_of, 1, 1},
               {"count", DYN_RK_LIST, count, 1, 1},         {"remove", DYN_RK_LIST, remove_item, 1, 1},
               {"copy", DYN_RK_LIST, copy, 0, 0},           {"clear", DYN_RK_LIST, clear, 0, 0},
               {"extend", DYN_RK_LIST, extend, 1, 1},       {"get", DYN_RK_DICT, get, 1, 2},
               {"pop", DYN_RK_DICT, pop_key, 1, 2},         {"setdefault", DYN_RK_DICT, set_default, 1, 2},
               {"keys", DYN_RK_DICT, keys, 0, 0},           {"values", DYN_RK_DICT, values, 0, 0},
               {"items", DYN_RK_DICT, items, 0, 0},         {"discard", DYN_RK_SET, discard, 1, 1},
               {"remove", DYN_RK_SET, remove_key, 1, 1},    {"add", DYN_RK_SET, add, 1, 1},
               {"append", DYN_RK_DEQUE, append_last, 1, 1}, {"appendleft", DYN_RK_DEQUE, append_first, 1, 1},
               {"pop", DYN_RK_DEQUE, take_last, 0, 0},      {"popleft", DYN_RK_DEQUE, take_first, 0, 0}};

/* The class of a kind of object whose methods are known; NULL: there is none. */
static PyTypeObject *type_of_kind(DynRegionKind kind) {
    switch (kind) {
    case DYN_RK_LIST: return &PyList_Type;
    case DYN_RK_DICT: return &PyDict_Type;
    case DYN_RK_SET: return &PySet_Type;
    case DYN_RK_DEQUE: return dyn_cpy_deque_type();
    default: return NULL;
    }
}

static bool is_of(const struct Method *m, const PlanValue *self) {
    return m->of == (DynRegionKind)self->v.kind && (self->v.flags & DYN_RF_TUPLE) == 0;
}

PyObject *plan_known_method(const PlanValue *self, const char *name) {
    if (self->v.kind == DYN_RK_CHAR) {
        return plan_char_method(name);
    }
    for (size_t i = 0; i < DYN_COUNTOF(methods); i++) {
        if (is_of(&methods[i], self) && strcmp(methods[i].name, name) == 0) {
            return dyn_cpy_lookup_named(type_of_kind(methods[i].of), name);
        }
    }
    return NULL;
}

/* out.append in a variable. */
bool plan_of_method(Plan *p, PyObject *o, PlanValue *v) {
    PyObject *self = PyCFunction_CheckExact(o) ? PyCFunction_GET_SELF(o) : NULL;
    PyObject *method = self == NULL ? NULL : dyn_cpy_lookup_named(Py_TYPE(self), ((PyCFunctionObject *)o)->m_ml->ml_name);
    bool known = false;
    for (size_t i = 0; i < DYN_COUNTOF(methods) && method != NULL; i++) {
        known = known || (type_of_kind(methods[i].of) == Py_TYPE(self) &&
                          strcmp(methods[i].name, ((PyCFunctionObject *)o)->m_ml->ml_name) == 0);
    }
    if (!known || dyn_region_bound_to(o, method) != self) {
        PyErr_Clear();
        return false;
    }
    uint32_t shape = plan_root_of(p, self);
    plan_look_into(p, shape, self, 4);
    *v = plan_const(p, method);
    v->v.kind = DYN_RK_METHOD;
    v->v.shape = (uint16_t)shape;
    v->v.nregs = 2;
    v->v.regs[0] = dyn_region_reg(p->r, 'P');
    v->v.regs[1] = dyn_region_reg(p->r, 'P');
    return p->stop == DYN_R_OK;
}

PlanValue plan_bound_to(Plan *p, const PlanValue *method) {
    PyTypeObject *t = PyDescr_TYPE(p->r->objects.at[method->v.ref]);
    size_t i = 0;
    while (type_of_kind(methods[i].of) != t) {
        i++;
    }
    PlanValue self = plan_value(methods[i].of, method->v.regs[1]);
    self.v.shape = method->v.shape;
    return self;
}

Went plan_call_method(Plan *p, PyObject *method, PlanValue self, const PlanValue *args, uint32_t n, uint32_t slots) {
    if (plan_is_str(p, &self)) {
        bool asked = self.v.kind == DYN_RK_CHAR && n == 0 && plan_is_question(method);
        return asked ? plan_ask_char(p, method, self, n, slots) : plan_call_string(p, method, self, args, n, slots);
    }
    for (size_t i = 0; i < DYN_COUNTOF(methods); i++) {
        const struct Method *m = &methods[i];
        bool is = is_of(m, &self) && dyn_cpy_lookup_named(type_of_kind(m->of), m->name) == method;
        if (is && n >= m->least && n <= m->most) {
            return m->handler(p, self, args, n, slots);
        }
    }
    return plan_unknown(p, DYN_R_OPAQUE_CALL, "a method that loops in native code don't know");
}
