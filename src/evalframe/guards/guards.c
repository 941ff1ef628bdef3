/* guards.c: guard programs: made from a capture, run at every call, freed with their entry.
 *
 * The door and the hook call dyn_guards_check with the bound arguments; the program is the entry's. A check runs no Python code,
 * sets no exception and lets nobody else run in between, so what it loads borrowed stays alive until it ends; on a hit it takes
 * references to what the caller will still use and the arguments don't keep alive (dyn_env_clear drops them). */
#include "evalframe/guards/guards.h"

/* ---- making */

static uint32_t find_group(DynGuardProgram *p, PyObject *dict, uint32_t depth) {
    for (uint32_t i = 0; i < p->groups.n; i++) {
        if (p->groups.at[i].dict == dict && p->groups.at[i].depth == depth) {
            return i;
        }
    }
    Group g = {.dict = dict, .depth = depth};
    if (dyn_vec_push(&p->groups, g) < 0) {
        return DYN_NONE;
    }
    Py_INCREF(dict);
    return p->groups.n - 1;
}

/* What the guards say of a source, for those that are looked up in it. */
typedef struct SaidOf {
    PyObject *identity; /* borrowed: it is this object; NULL: nothing is said */
    bool missing;       /* it isn't there */
} SaidOf;

static void collect_said(const DynCapture *c, SaidOf *said) {
    for (uint32_t i = 0; i < c->guards.n; i++) {
        const DynGuard *g = &c->guards.at[i];
        if (g->kind == DYN_GUARD_ID) {
            said[g->source].identity = g->obj;
        } else if (g->kind == DYN_GUARD_MISSING) {
            said[g->source].missing = true;
        }
    }
}

/* The dict that a source is a key of, where a token can stand for the look-up: a DICT source's, or the dict of a plain module for
 * its attribute (the module itself is guarded by identity). */
static PyObject *watched_dict(const DynSource *s, uint32_t id, const SaidOf *said) {
    if (s->key == NULL || !PyUnicode_CheckExact(s->key)) {
        return NULL;
    }
    if (s->kind == DYN_SRC_DICT) {
        return s->obj;
    }
    PyObject *module = s->kind == DYN_SRC_ATTR ? said[s->base].identity : NULL;
    if (module == NULL || said[id].missing || !PyModule_CheckExact(module)) { /* a module's __getattr__ would have its say */
        return NULL;
    }
    if (dyn_cpy_lookup_special(&PyModule_Type, s->key) != NULL) {
        return NULL; /* what every module has */
    }
    return PyModule_GetDict(module);
}

static int make_groups(DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    uint32_t n = c->sources.v.n;
    uint32_t *depth = PyMem_RawCalloc(n + 1, sizeof(uint32_t));
    SaidOf *said = PyMem_RawCalloc(n + 1, sizeof(SaidOf));
    int status = depth == NULL || said == NULL ? -1 : 0;
    if (status == 0) {
        collect_said(c, said);
    }
    for (uint32_t id = 0; status == 0 && id < n; id++) {
        const DynSource *s = &c->sources.v.at[id];
        PyObject *dict = watched_dict(s, id, said);
        p->group_of[id] = DYN_NONE;
        if (s->base != DYN_NONE) {
            depth[id] = depth[s->base] + (dict != NULL ? 1 : 0);
        }
        if (dict == NULL) {
            continue;
        }
        uint32_t at = p->group_of[id] = find_group(p, dict, depth[id]);
        Member m = {.source = id, .key = s->key};
        if (at == DYN_NONE || dyn_vec_push(&p->groups.at[at].members, m) < 0) {
            status = -1;
        }
    }
    for (uint32_t i = 0; status == 0 && i < c->guards.n; i++) {
        const DynGuard *g = &c->guards.at[i];
        uint32_t at = dyn_guard_is_fixed(g) ? p->group_of[g->source] : DYN_NONE;
        if (at != DYN_NONE && dyn_vec_push(&p->groups.at[at].guards, i) < 0) {
            status = -1;
        }
    }
    PyMem_RawFree(depth);
    PyMem_RawFree(said);
    return status;
}

static int make_constants(DynGuardProgram *p) {
    const DynSyms *t = &p->capture->syms;
    for (uint32_t id = 0; id < t->v.n; id++) {
        DynConstSym k = {id, dyn_sym_at(t, id)->value};
        if (dyn_sym_is_const(t, id) && dyn_vec_push(&p->constants, k) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool holds(const DynGuardProgram *p, uint32_t source) {
    for (uint32_t i = 0; i < p->held.n; i++) {
        if (p->held.at[i] == source) {
            return true;
        }
    }
    return false;
}

/* The arguments are alive through the caller, constants through the entry, attributes are loaded as new references. */
static int hold(DynGuardProgram *p, uint32_t source) {
    uint8_t kind = p->capture->sources.v.at[source].kind;
    bool loaded_anew = kind == DYN_SRC_ATTR && p->group_of[source] == DYN_NONE;
    bool alive = loaded_anew || kind == DYN_SRC_LOCAL || kind == DYN_SRC_CONST;
    return alive || holds(p, source) ? 0 : dyn_vec_push(&p->held, source);
}

static int make_held(DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    for (uint32_t i = 0; i < c->graph.inputs.n; i++) {
        if (hold(p, dyn_graph_node(&c->graph, c->graph.inputs.at[i])->source) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        if (c->recipes.at[i].kind == DYN_RC_SOURCE && hold(p, c->recipes.at[i].id) < 0) {
            return -1;
        }
    }
    return 0;
}

/* What the plan is made from. */
static int make_tables(DynGuardProgram *p) {
    if (make_groups(p) < 0 || make_constants(p) < 0) {
        return -1;
    }
    if (make_held(p) < 0 || dyn_apart_new(p) < 0 || dyn_memo_new(p) < 0) {
        return -1;
    }
    dyn_apart_settle(p);
    return 0;
}

DynGuardProgram *dyn_guards_compile(const DynCapture *c) {
    DynGuardProgram *p = PyMem_RawCalloc(1, sizeof(*p));
    if (p == NULL) {
        return NULL;
    }
    p->capture = c;
    p->hot = DYN_NONE;
    p->group_of = PyMem_RawCalloc(c->sources.v.n + 1, sizeof(uint32_t));
    p->fails = PyMem_RawCalloc(c->guards.n + 1, sizeof(uint32_t));
    bool tensors = false;
    for (uint32_t i = 0; i < c->guards.n; i++) {
        tensors = tensors || dyn_guard_subject(&c->guards.at[i]) == DYN_ABOUT_TENSOR;
    }
    p->views = tensors ? PyMem_RawCalloc(c->sources.v.n + 1, sizeof(*p->views)) : NULL;
    bool allocated = p->group_of != NULL && p->fails != NULL && (p->views != NULL || !tensors);
    if (!allocated || make_tables(p) < 0 || dyn_guards_plan(p) < 0) {
        dyn_guards_free(p);
        return NULL;
    }
    return p;
}

void dyn_guards_free(DynGuardProgram *p) {
    if (p == NULL) {
        return;
    }
    for (uint32_t i = 0; i < p->groups.n; i++) {
        dyn_vec_free(&p->groups.at[i].members);
        dyn_vec_free(&p->groups.at[i].guards);
        Py_XDECREF(p->groups.at[i].dict); /* NULL: it was given up (hold.c) */
    }
    dyn_vec_free(&p->groups);
    dyn_vec_free(&p->steps);
    dyn_vec_free(&p->rest);
    dyn_memo_free(p);
    PyMem_RawFree(p->wanted);
    dyn_vec_free(&p->constants);
    dyn_vec_free(&p->attrs);
    dyn_vec_free(&p->locals);
    dyn_vec_free(&p->held);
    PyMem_RawFree(p->views);
    PyMem_RawFree(p->looked);
    dyn_vec_free(&p->inputs);
    PyMem_RawFree(p->group_of);
    PyMem_RawFree(p->fails);
    PyMem_RawFree(p);
}

void dyn_guards_trim(DynGuardProgram *p) {
    for (uint32_t i = 0; i < p->groups.n; i++) {
        dyn_vec_trim(&p->groups.at[i].members);
        dyn_vec_trim(&p->groups.at[i].guards);
    }
    dyn_vec_trim(&p->groups);
    dyn_vec_trim(&p->steps);
    dyn_vec_trim(&p->rest);
    dyn_vec_trim(&p->constants);
    dyn_vec_trim(&p->attrs);
    dyn_vec_trim(&p->held);
}

size_t dyn_guards_bytes(const DynGuardProgram *p) {
    const DynCapture *c = p->capture;
    size_t groups = dyn_vec_bytes(&p->groups),
           lists = dyn_vec_bytes(&p->constants) + dyn_vec_bytes(&p->attrs) + dyn_vec_bytes(&p->held);
    for (uint32_t i = 0; i < p->groups.n; i++) {
        groups += dyn_vec_bytes(&p->groups.at[i].members) + dyn_vec_bytes(&p->groups.at[i].guards);
    }
    size_t by_source = 2 * sizeof(bool) + sizeof(uint32_t) + sizeof(*p->looked) + (p->views == NULL ? 0 : sizeof(*p->views));
    return sizeof(*p) + groups + lists + dyn_vec_bytes(&p->steps) + dyn_vec_bytes(&p->rest) + c->sources.v.n * by_source +
           c->syms.v.n * sizeof(bool) + c->guards.n * (sizeof(bool) + sizeof(uint32_t)) + dyn_memo_bytes(p);
}

int dyn_guards_slots(DynGuardProgram *p, DynVisitSlot *visit, void *arg) {
    int stop = 0;
    for (uint32_t i = 0; i < p->groups.n && stop == 0; i++) {
        stop = visit(&p->groups.at[i].dict, arg);
    }
    return stop;
}

void dyn_guards_forget(DynGuardProgram *p) {
    for (uint32_t i = 0; i < p->groups.n; i++) {
        p->groups.at[i].valid = false;
    }
    dyn_memo_forget(p);
}

void dyn_guards_sizes(const DynGuardProgram *p, uint32_t *nsrc, uint32_t *nsym) {
    *nsrc = p->capture->sources.v.n;
    *nsym = p->capture->syms.v.n;
}

/* ---- running */

static PyObject *cell_of(PyObject *func, uint32_t index) {
    PyObject *closure = func != NULL && PyFunction_Check(func) ? PyFunction_GET_CLOSURE(func) : NULL;
    PyObject *cell = closure != NULL && index < PyTuple_GET_SIZE(closure) ? PyTuple_GET_ITEM(closure, index) : NULL;
    return cell != NULL && PyCell_Check(cell) ? cell : NULL;
}

static PyObject *cell_content(PyObject *func, uint32_t index) {
    PyObject *cell = cell_of(func, index);
    return cell == NULL ? NULL : PyCell_GET(cell);
}

static PyObject *key_of(PyObject *dict, PyObject *key) {
    PyObject *o = PyDict_GetItemWithError(dict, key);
    if (DYN_UNLIKELY(o == NULL) && PyErr_Occurred()) {
        PyErr_Clear();
    }
    return o;
}

static PyObject *item_of_deque(PyObject *deque, uint32_t index) {
    PyObject *o = index < Py_SIZE(deque) ? PySequence_GetItem(deque, index) : NULL;
    Py_XDECREF(o); /* the deque has it */
    return o;
}

/* One step of a path, borrowed; NULL where nothing is there or the base is of another kind. */
static PyObject *load(const DynSource *s, PyObject *base, PyObject *func) {
    switch ((DynSourceKind)s->kind) {
    case DYN_SRC_OWNCELL: return cell_of(func, s->index);
    case DYN_SRC_CLOSURE: return cell_content(func, s->index);
    case DYN_SRC_CELL: return PyCell_Check(base) ? PyCell_GET(base) : NULL;
    case DYN_SRC_FUNCTION: return func;
    case DYN_SRC_HANDLED: return dyn_cpy_handled();
    case DYN_SRC_CONST: return s->obj;
    case DYN_SRC_DICT: return key_of(s->obj, s->key);
    case DYN_SRC_ITEM:
        if (PyTuple_Check(base)) {
            return s->index < PyTuple_GET_SIZE(base) ? PyTuple_GET_ITEM(base, s->index) : NULL;
        }
        if (Py_IS_TYPE(base, dyn_deque_type)) {
            return item_of_deque(base, s->index);
        }
        return PyList_CheckExact(base) && s->index < PyList_GET_SIZE(base) ? PyList_GET_ITEM(base, s->index) : NULL;
    case DYN_SRC_FROM_END: return dyn_source_from_end(base, s->index);
    case DYN_SRC_OWN: return dyn_cpy_own_value(base, s->key);
    case DYN_SRC_KEY: return PyDict_Check(base) ? dyn_cpy_dict_item(base, s->key, s->hash) : NULL;
    case DYN_SRC_FCELL: return cell_of(base, s->index);
    case DYN_SRC_FCLOSURE: return cell_content(base, s->index);
    case DYN_SRC_FDEFAULT: {
        PyObject *defaults = PyFunction_Check(base) ? PyFunction_GET_DEFAULTS(base) : NULL;
        return defaults != NULL && s->index < PyTuple_GET_SIZE(defaults) ? PyTuple_GET_ITEM(defaults, s->index) : NULL;
    }
    case DYN_SRC_FKWDEFAULT: {
        PyObject *defaults = PyFunction_Check(base) ? PyFunction_GET_KW_DEFAULTS(base) : NULL;
        return defaults != NULL && PyDict_CheckExact(defaults) ? key_of(defaults, s->key) : NULL;
    }
    case DYN_SRC_SELF:
        if (PyMethod_Check(base)) {
            return PyMethod_GET_SELF(base);
        }
        return PyCFunction_CheckExact(base) ? PyCFunction_GET_SELF(base) : NULL;
    case DYN_SRC_FUNC: return PyMethod_Check(base) ? PyMethod_GET_FUNCTION(base) : NULL;
    case DYN_SRC_NTH_KEY: return dyn_source_nth(base, s->index, false);
    case DYN_SRC_NTH_VALUE: return dyn_source_nth(base, s->index, true);
    case DYN_SRC_LOCAL:
    case DYN_SRC_NAMED:
    case DYN_SRC_ATTR: break; /* steps of their own */
    }
    return NULL;
}

static const Member *member_of(const Group *g, uint32_t source) {
    for (uint32_t i = 0; i < g->members.n; i++) {
        if (g->members.at[i].source == source) {
            return &g->members.at[i];
        }
    }
    return NULL;
}

/* The dict changed: look again. True with a new token, or false with the guard that fails in *failed. */
static bool group_again(DynGuardProgram *p, Group *g, uint32_t *failed) {
    DynDictToken token;
    g->valid = false;
    dyn_dict_token_get(g->dict, &token);
    for (uint32_t i = 0; i < g->members.n; i++) {
        g->members.at[i].value = key_of(g->dict, g->members.at[i].key);
    }
    for (uint32_t i = 0; i < g->guards.n; i++) {
        const DynGuard *guard = &p->capture->guards.at[g->guards.at[i]];
        PyObject *value = member_of(g, guard->source)->value;
        if (dyn_guard_subject(guard) == DYN_ABOUT_ABSENCE ? value != NULL
                                                          : value == NULL || !dyn_guard_holds(guard, value, NULL)) {
            *failed = g->guards.at[i];
            return false;
        }
    }
    g->token = token;
    g->valid = true;
    return true;
}

static inline bool check_group(DynGuardProgram *p, uint32_t at, PyObject **src, uint32_t *failed) {
    Group *g = &p->groups.at[at];
    if (!(g->valid && dyn_dict_token_same(g->dict, &g->token)) && !group_again(p, g, failed)) {
        return false;
    }
    for (uint32_t i = 0; i < g->members.n; i++) {
        const Member *m = &g->members.at[i];
        if (!m->needed) {
            continue;
        }
        if (m->value == NULL) {
            return false;
        }
        src[m->source] = m->value;
    }
    return true;
}

static inline bool check_array(const Step *s, PyObject *o, const DynCapture *c, PyTypeObject *array_type) {
    if (!Py_IS_TYPE(o, array_type)) {
        return false;
    }
    PyArrayObject *a = (PyArrayObject *)o;
    if (PyArray_NDIM(a) != s->x || (PyArray_FLAGS(a) & (int)s->number) != s->want) {
        return false;
    }
    if ((PyObject *)PyArray_DESCR(a) != s->obj && (uint8_t)dyn_dtype_of(PyArray_DESCR(a)) != s->y) {
        return false;
    }
    if (s->x < 2 || (s->want & NPY_ARRAY_C_CONTIGUOUS) != 0) {
        return true;
    }
    DynArrayView v;
    return dyn_array_look(o, &v) && dyn_layout_fits(&c->guards.at[s->guard].layout, &v);
}

/* Is nothing at source `id`: its base, if it has one, is loaded. */
static bool is_absent(const DynCapture *c, uint32_t id, PyObject *const *src, PyObject *func, PyObject *const *locals) {
    const DynSource *s = &c->sources.v.at[id];
    PyObject *o = NULL;
    PyObject *base = s->base == DYN_NONE ? NULL : src[s->base];
    PyObject *name = s->kind == DYN_SRC_NAMED ? src[s->index] : NULL;
    DynRead r = dyn_source_read(s, base, name, func, locals, &o);
    Py_XDECREF(o);
    return r == DYN_READ_MISSING;
}

static inline bool load_locals(const DynGuardProgram *p, const Step *s, PyObject *const *locals, PyObject **src) {
    for (const Local *l = p->locals.at + s->a, *end = l + s->b; l < end; l++) {
        if ((src[l->source] = locals[l->slot]) == NULL) {
            return false;
        }
    }
    return true;
}

static bool load_any(const DynCapture *c, const Step *st, PyObject **src, PyObject *func) {
    const DynSource *s = &c->sources.v.at[st->dst];
    PyObject *base = s->base == DYN_NONE ? NULL : src[s->base];
    if (st->op == ST_ATTR) {
        return dyn_source_attr(base, s->key, &src[st->dst]) == DYN_READ_FOUND;
    }
    if (s->kind == DYN_SRC_NAMED) {
        return (src[st->dst] = dyn_source_named(base, src[s->index])) != NULL;
    }
    return (src[st->dst] = load(s, base, func)) != NULL;
}

/* Its size or stride (in bytes) along an axis, where it is an array or tensor that has it. */
static bool axis_of_any(const Step *s, PyObject *o, DynScalar *out) {
    DynArrayView v;
    if (!dyn_array_look(o, &v) || v.ndim <= s->x) {
        return false;
    }
    out->i = s->op == ST_STRIDE ? v.strides[s->x] : v.dims[s->x];
    return true;
}

static bool npscalar(PyObject *o, int how, DynScalar *out) {
    if (!dyn_npscalar_is(o, how)) {
        return false;
    }
    dyn_npscalar_value(o, how, out);
    return true;
}

/* Runs the steps up to the first that fails (returned) or the last, ST_HIT. */
static const Step *run(DynGuardProgram *p, const Step *s, PyObject *func, PyObject *const *locals, PyObject **src, DynScalar *sym,
                       uint32_t *failed) {
    const DynCapture *c = p->capture;
    PyTypeObject *array_type = &PyArray_Type;
    bool ok = true;
#define COMPARE(NAME, op)                \
    case ST_##NAME:                      \
        ok = sym[s->a].i op sym[s->b].i; \
        sym[s->dst].i = 1;               \
        break;                           \
    case ST_##NAME##_NUMBER:             \
        ok = sym[s->a].i op s->number;   \
        sym[s->dst].i = 1;               \
        break;
#define ARITHMETIC(NAME, builtin)                                \
    case ST_##NAME:                                              \
        ok = !builtin(sym[s->a].i, sym[s->b].i, &sym[s->dst].i); \
        break;
#define CASE(NAME, test) \
    case ST_##NAME: ok = (test); break;
    for (;; s++) {
        switch ((StepOp)s->op) {
        case ST_HIT:
            return s;
            CASE(LOCAL, (src[s->dst] = locals[s->a]) != NULL)
            CASE(LOCALS, load_locals(p, s, locals, src))
            CASE(LOAD, load_any(c, s, src, func))
            CASE(ATTR, load_any(c, s, src, func))
            CASE(GROUP, check_group(p, s->a, src, failed))
            CASE(TYPE, (PyObject *)Py_TYPE(src[s->a]) == s->obj)
            CASE(ID, src[s->a] == s->obj)
            CASE(ARRAY, check_array(s, src[s->a], c, array_type))
            CASE(TENSOR, dyn_guard_tensor(&c->guards.at[s->guard], src[s->a], &p->views[s->a]))
            CASE(TORCH, dyn_torch_is_so(s->number))
            CASE(APART, dyn_apart_holds(p, s->a, s->x, src))
            CASE(CHECK, dyn_guard_holds(&c->guards.at[s->guard], src[s->a], src[s->b]))
            CASE(ABSENT, is_absent(c, s->a, src, func, locals))
        case ST_DIM: sym[s->dst].i = PyArray_DIM((PyArrayObject *)src[s->a], s->x); break;
        case ST_DIM_OF_TENSOR:
            sym[s->dst].i = p->views[s->a].dims[s->x];
            break;
            CASE(STRIDE, axis_of_any(s, src[s->a], &sym[s->dst]))
            CASE(DIM_OF_ANY, axis_of_any(s, src[s->a], &sym[s->dst]))
            CASE(INT, dyn_guard_number(src[s->a], DYN_T_INT, &sym[s->dst]))
            CASE(FLOAT, dyn_guard_number(src[s->a], DYN_T_FLOAT, &sym[s->dst]))
            CASE(BOOL, dyn_guard_number(src[s->a], DYN_T_BOOL, &sym[s->dst]))
            CASE(NPSCALAR, npscalar(src[s->a], s->x, &sym[s->dst]))
            CASE(EVAL, dyn_sym_eval_row(&c->syms, s->dst, sym, &sym[s->dst]) == 0)
            CASE(TRUE, sym[s->a].i != 0)
            ARITHMETIC(ADD, __builtin_add_overflow)
            ARITHMETIC(SUB, __builtin_sub_overflow)
            ARITHMETIC(MUL, __builtin_mul_overflow)
            COMPARE(EQ, ==)
            COMPARE(NE, !=)
            COMPARE(LT, <)
            COMPARE(LE, <=)
            COMPARE(GT, >)
            COMPARE(GE, >=)
        }
        if (DYN_UNLIKELY(!ok)) {
            return s;
        }
    }
#undef COMPARE
#undef ARITHMETIC
#undef CASE
}

/* A guard that keeps failing is tried first from now on. Counting in powers of two keeps a program whose guards fail in turn from
 * being planned at every miss. */
static void note_failure(DynGuardProgram *p, uint32_t guard) {
    if (guard == DYN_NONE) {
        return;
    }
    uint32_t n = ++p->fails[guard];
    if (guard == p->hot || n < 2 || (n & (n - 1)) != 0) {
        return;
    }
    uint32_t old = p->hot;
    p->hot = guard;
    if (dyn_guards_plan(p) < 0) {
        p->hot = old;
    }
}

int dyn_guards_check(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynEnv *env) {
    PyObject **src = env->src;
    DynScalar *sym = env->sym;
    uint32_t failed = DYN_NONE;
    env->views = (DynViews){p->views, &p->checks, ++p->checks};
    bool settled = p->memo != NULL && dyn_memo_holds(p, func, locals, env);
    if (!settled) {
        for (uint32_t i = 0, n = p->capture->sources.v.n; i < n; i++) {
            src[i] = NULL;
        }
        for (uint32_t i = 0; i < p->constants.n; i++) {
            sym[p->constants.at[i].id] = p->constants.at[i].value;
        }
    }
    const Step *end = run(p, settled ? p->rest.at : p->steps.at, func, locals, src, sym, &failed);
    if (DYN_LIKELY(end->op == ST_HIT)) {
        if (p->memo != NULL && !settled) {
            dyn_memo_note(p, locals, env);
        }
        for (uint32_t i = 0; i < p->held.n; i++) {
            Py_INCREF(src[p->held.at[i]]);
        }
        return 1;
    }
    if (failed == DYN_NONE) {
        failed = end->guard;
    }
    for (uint32_t i = 0; i < p->attrs.n; i++) {
        Py_CLEAR(src[p->attrs.at[i]]);
    }
    note_failure(p, failed);
    return 0;
}

/* Has a check found what another had found: the objects that a call goes on using, and what numbers and sizes come from? */
static bool found_the_same(const DynGuardProgram *p, const DynEnv *then, const DynEnv *now) {
    const DynCapture *c = p->capture;
    bool same = true;
    for (uint32_t i = 0; i < p->held.n && same; i++) {
        same = then->src[p->held.at[i]] == now->src[p->held.at[i]];
    }
    for (uint32_t i = 0; i < c->graph.inputs.n && same; i++) {
        uint32_t source = dyn_graph_node(&c->graph, c->graph.inputs.at[i])->source;
        same = then->src[source] == now->src[source];
    }
    for (uint32_t i = 0; i < c->syms.v.n && same; i++) {
        DynSymOp op = (DynSymOp)dyn_sym_at(&c->syms, i)->op;
        bool read = op == DYN_S_VAR || dyn_sym_of_axis(op);
        same = !read || memcmp(&then->sym[i], &now->sym[i], sizeof(*now->sym)) == 0;
    }
    return same;
}

bool dyn_guards_hold(DynGuardProgram *p, PyObject *func, PyObject *const *locals, const DynEnv *env) {
    uint32_t nsrc, nsym;
    dyn_guards_sizes(p, &nsrc, &nsym);
    DynEnv now = {.src = PyMem_Calloc(nsrc + 1, sizeof *now.src), .sym = PyMem_Calloc(nsym + 1, sizeof *now.sym)};
    bool holds = now.src != NULL && now.sym != NULL && dyn_guards_check(p, func, locals, &now);
    if (holds) {
        holds = found_the_same(p, env, &now);
        dyn_env_clear(p, &now);
    }
    PyMem_Free(now.src);
    PyMem_Free(now.sym);
    return holds;
}

bool dyn_guards_missed_name(const DynGuardProgram *p) {
    bool missed = false;
    for (uint32_t i = 0; i < p->capture->guards.n && !missed; i++) {
        const DynGuard *g = &p->capture->guards.at[i];
        bool of_name = g->kind == DYN_GUARD_KEYS || (g->kind == DYN_GUARD_EQ && PyUnicode_CheckExact(g->obj));
        missed = of_name && p->fails[i] > 0;
    }
    return missed;
}

void dyn_env_clear(const DynGuardProgram *p, DynEnv *env) {
    for (uint32_t i = 0; i < p->attrs.n; i++) {
        Py_CLEAR(env->src[p->attrs.at[i]]);
    }
    for (uint32_t i = 0; i < p->held.n; i++) {
        Py_CLEAR(env->src[p->held.at[i]]);
    }
}
