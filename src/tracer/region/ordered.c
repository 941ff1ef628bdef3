/* ordered.c: min, max, sorted and list.sort with a key, a default or reverse, and of items of any kind. They are calls of Python
 * functions of dynoc.polyfills.ordered, which are followed in place: so keys are, and where one isn't known, or raises, the
 * statement is CPython's from its beginning. The sort itself is CPython's, by one instruction. Called by calls.c, methods.c and
 * step.c. */
#include "tracer/region/plan.h"

enum { LEAST, GREATEST, SORTED, LISTED, SORT_BY, ARRANGE, GETTER, LEAST_BY, GREATEST_BY, SORTED_BY, FUNCTIONS };

static PyObject *functions[FUNCTIONS]; /* Strong; NULL until one of them is called. */

static void load(void) {
    static const char *const names[FUNCTIONS] = {"least",   "greatest", "in_order", "listed",      "sort_by",
                                                 "arrange", "getter",   "least_by", "greatest_by", "in_order_by"};
    PyObject *module = functions[0] == NULL ? dyn_import("dynoc.polyfills.ordered") : NULL;
    for (int i = 0; module != NULL && i < FUNCTIONS; i++) {
        functions[i] = PyObject_GetAttrString(module, names[i]);
    }
    Py_XDECREF(module);
    PyErr_Clear();
}

static Went call(Plan *p, int which, const PlanValue *args, uint32_t n, uint32_t slots) {
    load();
    PyObject *f = functions[which];
    if (f == NULL || !PyFunction_Check(f)) {
        return plan_unknown(p, DYN_R_INTERNAL, "dynoc.polyfills.ordered has no such function");
    }
    return plan_call_function(p, (PyFunctionObject *)f, args, n, slots);
}

/* ---- the calls */

static int builtin_of(PyObject *o) {
    static const char *const names[] = {"min", "max", "sorted"};
    PyObject *module = PyCFunction_CheckExact(o) ? ((PyCFunctionObject *)o)->m_module : NULL;
    bool of_builtins = module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "builtins") == 0;
    for (int i = 0; of_builtins && i < (int)DYN_COUNTOF(names); i++) {
        if (strcmp(((PyCFunctionObject *)o)->m_ml->ml_name, names[i]) == 0) {
            return i;
        }
    }
    return o == (PyObject *)&PyList_Type ? LISTED : FUNCTIONS;
}

/* The arguments by name, without those that are None where that says nothing. */
typedef struct Options {
    PlanValue key, fallback, reverse;
    bool has_key, has_default;
} Options;

static bool read_options(Plan *p, const PlanValue *args, PyObject *names, bool sorts, Options *out) {
    *out = (Options){.reverse = plan_bool(false)};
    for (Py_ssize_t i = 0; names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        const char *name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        bool is_key = name != NULL && strcmp(name, "key") == 0;
        if (is_key) {
            out->key = args[i];
            out->has_key = plan_object(p, &args[i]) != Py_None;
        } else if (name != NULL && !sorts && strcmp(name, "default") == 0) {
            out->fallback = args[i];
            out->has_default = true;
        } else if (name != NULL && sorts && strcmp(name, "reverse") == 0 && args[i].v.kind == DYN_RK_BOOL) {
            out->reverse = args[i];
        } else {
            PyErr_Clear();
            plan_unknown(p, DYN_R_UNSUPPORTED_OP, "such arguments by name");
            return false;
        }
    }
    return true;
}

bool plan_is_ordered(Plan *p, PyObject *o, const PlanValue *args, uint32_t n, PyObject *names) {
    const int which = builtin_of(o);
    if (which == FUNCTIONS || n == 0) {
        return false;
    }
    if (names != NULL) {
        return which != LISTED && n - (uint32_t)PyTuple_GET_SIZE(names) == 1;
    }
    if (which == SORTED && n == 1 && args[0].v.kind == DYN_RK_GEN) {
        return true;
    }
    const PlanValue items = plan_tuple_object(p, &args[0]);
    const bool list = items.v.kind == DYN_RK_LIST, tuple = (items.v.flags & DYN_RF_TUPLE) != 0;
    if (n != 1 || plan_generates(&args[0]) || plan_is_whole(&args[0])) {
        return false;
    }
    if (which == LEAST || which == GREATEST) {
        const uint32_t bits = list ? plan_shape(p, plan_contents(&items))->bits : 0;
        return bits != DYN_RL_INT && bits != DYN_RL_FLOAT;
    }
    return !(list && !tuple) && items.v.kind != DYN_RK_RANGE && !plan_is_str(p, &items);
}

/* An iterator that a variable has: that would have to come on, too. */
static bool is_held(const Plan *p, const PlanValue *v, uint32_t slots) {
    for (uint32_t i = 0; plan_iterates(v) && i + slots < p->s.n; i++) {
        if (plan_is_same(v, &p->s.values[i])) {
            return true;
        }
    }
    return false;
}

/* args: the items, and what has names. */
Went plan_call_ordered(Plan *p, PyObject *o, const PlanValue *args, PyObject *names, uint32_t slots) {
    const int which = builtin_of(o);
    const bool sorts = which == SORTED;
    PlanValue passed[3] = {args[0]};
    uint32_t n = 1;
    Options options;
    if (is_held(p, &args[0], slots)) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_VALUE, "an iterator that a variable holds");
    }
    if (!read_options(p, args + 1, names, sorts, &options)) {
        return WENT_NOWHERE;
    }
    if (options.has_key) {
        passed[n++] = options.key;
    }
    if (sorts || options.has_default) {
        passed[n++] = sorts ? options.reverse : options.fallback;
    }
    return call(p, options.has_key ? which + LEAST_BY - LEAST : which, passed, n, slots);
}

/* list.sort; args: of its names */
Went plan_sort_list(Plan *p, PlanValue list, const PlanValue *args, PyObject *names, uint32_t slots) {
    PlanValue none = plan_const(p, Py_None);
    Options options;
    if (!read_options(p, args, names, true, &options)) {
        return WENT_NOWHERE;
    }
    if (options.has_key) {
        return call(p, SORT_BY, (PlanValue[]){list, options.key, options.reverse}, 3, slots);
    }
    plan_arrange(p, list, list, options.reverse);
    p->s.n -= slots;
    plan_push(p, none);
    plan_effect(p, plan_frame(p)->at + 1);
    return WENT_ON;
}

/* ---- the sort */

void plan_arrange(Plan *p, PlanValue list, PlanValue keys, PlanValue reverse) {
    plan_settle_doubts(p);
    plan_emit_or(p, DYN_RO_LSORT, list.v.regs[0], keys.v.regs[0], plan_reg(p, &reverse), DYN_R_UNSUPPORTED_VALUE);
}

bool plan_is_arrange(PyObject *o) { return o == functions[ARRANGE]; }

/* Its list is seen by others where a program's list is sorted in place. */
Went plan_call_arrange(Plan *p, const PlanValue *args, uint32_t slots) {
    const bool made = args[0].v.kind == DYN_RK_LIST && plan_shape(p, plan_contents(&args[0]))->which >= PLAN_LISTS - PLAN_SITES;
    if (args[0].v.kind != DYN_RK_LIST || args[1].v.kind != DYN_RK_LIST) {
        return plan_unknown(p, DYN_R_UNSUPPORTED_OP, "something else than a list is sorted");
    }
    plan_arrange(p, args[0], args[1], args[2]);
    p->s.n -= slots;
    plan_push(p, plan_const(p, Py_None));
    if (!made) {
        plan_effect(p, plan_frame(p)->at + 1);
    }
    return WENT_ON;
}

/* The list that such a value is, or that it is a method of; DYN_NONE. */
static uint32_t list_in(const PlanValue *v) {
    const bool list = v->v.kind == DYN_RK_LIST && (v->v.flags & DYN_RF_TUPLE) == 0;
    return list ? v->v.regs[0] : v->v.kind == DYN_RK_METHOD ? v->v.regs[1] : DYN_NONE;
}

/* Within the keys of a list that is sorted in place: a list that is loaded isn't that one. sort_by itself loads it, but no method
 * of it. */
void plan_leave_at_sorted(Plan *p) {
    const PlanFrame *frame = plan_frame(p);
    const uint32_t first = frame->base + (uint32_t)dyn_code_nlocalsplus(frame->c->code);
    const PlanValue *top = p->s.nframes > 1 && p->s.n > first ? plan_top(p, 0) : NULL;
    const uint32_t reg = top == NULL ? DYN_NONE : list_in(top);
    PyObject *sort_by = reg == DYN_NONE ? NULL : functions[SORT_BY];
    const uint32_t n = p->s.nframes - (top != NULL && top->v.kind == DYN_RK_LIST);
    for (uint32_t i = 1; sort_by != NULL && i < n; i++) {
        if ((PyObject *)p->s.frames[i].c->code == ((PyFunctionObject *)sort_by)->func_code) {
            uint32_t same = plan_emit(p, DYN_RO_PEQ, reg, p->s.values[p->s.frames[i].base].v.regs[0], DYN_NONE);
            plan_leave_unless(p, plan_emit(p, DYN_RO_NOT, same, DYN_NONE, DYN_NONE), DYN_R_UNSUPPORTED_VALUE);
        }
    }
}

/* ---- itemgetter and attrgetter */

static bool is_getter_type(PyObject *o) {
    static const char *const names[] = {"itemgetter", "attrgetter"};
    static PyObject *types[DYN_COUNTOF(names)]; /* Strong. */
    bool is = false;
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (types[i] == NULL) {
            types[i] = dyn_module_attr("operator", names[i]);
            PyErr_Clear();
        }
        is = is || types[i] == o;
    }
    return is;
}

bool plan_is_getter(PyObject *o) { return is_getter_type((PyObject *)Py_TYPE(o)); }

/* What a call of so many slots gives goes, with what is loaded behind it, to a call that this file knows: no one else sees it. */
static bool goes_to_ordered(Plan *p, uint32_t slots) {
    const PlanFrame *f = plan_frame(p);
    const DynInstr *in = &f->c->v.at[f->at + 1], *end = f->c->v.at + f->c->v.n;
    uint32_t n = p->s.n - slots + 1;
    for (; in < end && (in->op == DYN_I_LOAD_CONST || in->op == DYN_I_LOAD_FAST); in++) {
        n++;
    }
    if (in == end || (in->op != DYN_I_CALL && in->op != DYN_I_CALL_KW)) {
        return false;
    }
    const uint32_t taken = in->arg + 2 + (in->op == DYN_I_CALL_KW);
    if (taken > n || n - taken + 2 > p->s.n) {
        return false;
    }
    const PlanValue *base = &p->s.values[n - taken];
    if (base[0].v.kind == DYN_RK_CONST && base[1].v.kind == DYN_RK_LIST) {
        return plan_object(p, &base[0]) == dyn_cpy_lookup_named(&PyList_Type, "sort");
    }
    PyObject *callee = plan_object(p, &base[dyn_call_null_first() ? 1 : 0]);
    return callee != NULL && builtin_of(callee) != FUNCTIONS;
}

/* One that is made in the loop of constants, as a key: the same on each trip, as nobody sees. */
bool plan_makes_getter(Plan *p, PyObject *type, const PlanValue *args, uint32_t n, PlanValue *out) {
    static PyObject *made; /* Strong: a dict of (type, arguments). */
    const bool is_key = is_getter_type(type) && n > 0 && goes_to_ordered(p, n + 2);
    PyObject *key = is_key ? PyTuple_New(n + 1) : NULL, *getter = NULL;
    bool known = key != NULL;
    for (uint32_t i = 0; i < n && known; i++) {
        PyObject *o = args[i].v.kind == DYN_RK_INT && args[i].known ? PyLong_FromLongLong(args[i].number.i)
                                                                    : Py_XNewRef(plan_object(p, &args[i]));
        known = o != NULL && (PyLong_CheckExact(o) || PyUnicode_CheckExact(o));
        PyTuple_SET_ITEM(key, i + 1, o);
    }
    made = made == NULL ? PyDict_New() : made;
    if (known && made != NULL) {
        PyTuple_SET_ITEM(key, 0, Py_NewRef(type));
        getter = PyDict_GetItemWithError(made, key);
        PyObject *just = PyTuple_GetSlice(key, 1, n + 1), *o = NULL;
        if (getter == NULL && just != NULL && (o = PyObject_CallObject(type, just)) != NULL) {
            getter = PyDict_SetItem(made, key, o) == 0 ? o : NULL;
            Py_DECREF(o);
        }
        Py_XDECREF(just);
    }
    PyErr_Clear();
    Py_XDECREF(key);
    *out = getter == NULL ? plan_value(DYN_RK_NULL, DYN_NONE) : plan_const(p, getter);
    return getter != NULL;
}

/* Borrowed: the function that gives what this object does; NULL: it is no getter. */
PyObject *plan_getter_function(PyObject *o) {
    static PyObject *of_getters; /* Strong: a dict. */
    of_getters = of_getters == NULL ? PyDict_New() : of_getters;
    if (of_getters == NULL || !plan_is_getter(o)) {
        PyErr_Clear();
        return NULL;
    }
    load();
    PyObject *f = PyDict_GetItemWithError(of_getters, o), *make = f == NULL ? functions[GETTER] : NULL;
    if (make != NULL && (f = PyObject_CallOneArg(make, o)) != NULL) {
        int failed = PyDict_SetItem(of_getters, o, f);
        Py_DECREF(f);
        f = failed ? NULL : f;
    }
    PyErr_Clear();
    return f;
}
