/* capture.c: the life of a capture: making, guards and recipes, the check that it hangs together, freeing.
 *
 * The recorder makes and fills captures, evalframe/compile.c verifies them and hands them to a cache entry, which frees them. A
 * capture owns its arena, its tables and a reference to every Python object in them. */
#include "ir/capture.h"
#include "base/cpy.h"

const DynGuardRow dyn_guard_rows[DYN_GUARD_COUNT] = {
#define GUARD(kind, subject, object, text, was, is, cost, memo, step, flags, group) \
    {#kind, DYN_ABOUT_##subject, DYN_WANTS_##object, cost, flags, DYN_GROUP_##group, text, was, is},
#include "ir/guards.def"
#undef GUARD
};

DynCapture *dyn_capture_new(PyObject *code, const char *name) {
    DynCapture *c = PyMem_RawCalloc(1, sizeof(*c));
    if (c == NULL) {
        return NULL;
    }
    dyn_arena_init(&c->arena);
    c->code = Py_NewRef(code);
    c->result = DYN_NONE;
    c->before.func = DYN_NONE;
    if (dyn_graph_init(&c->graph, &c->arena, name, &c->sources, &c->syms) < 0) {
        dyn_capture_free(c);
        return NULL;
    }
    return c;
}

void dyn_capture_free(DynCapture *c) {
    if (c == NULL) {
        return;
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        Py_XDECREF(c->guards.at[i].obj);
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        Py_XDECREF(c->recipes.at[i].obj);
    }
    for (uint32_t i = 0; i < c->effects.n; i++) {
        Py_XDECREF(c->effects.at[i].obj);
    }
    for (uint32_t i = 0; i < c->snapshots.n; i++) {
        for (uint32_t f = 0; f < c->snapshots.at[i].nframes; f++) {
            Py_XDECREF(c->snapshots.at[i].frames[f].code);
        }
    }
    Py_XDECREF(c->before.code);
    Py_XDECREF(c->end_place.code);
    for (uint32_t i = 0; i < c->inner.n; i++) {
        Py_XDECREF(c->inner.at[i].code);
    }
    dyn_vec_free(&c->inner);
    Py_XDECREF(c->code);
    Py_XDECREF(c->func);
    Py_XDECREF(c->examples);
    dyn_graph_free(&c->graph);
    dyn_sources_free(&c->sources);
    dyn_syms_free(&c->syms);
    dyn_vec_free(&c->guards);
    dyn_vec_free(&c->guard_index);
    dyn_vec_free(&c->recipes);
    dyn_vec_free(&c->snapshots);
    dyn_vec_free(&c->effects);
    dyn_arena_free(&c->arena);
    PyMem_RawFree(c);
}

void dyn_capture_trim(DynCapture *c) {
    dyn_vec_trim(&c->sources.v);
    dyn_vec_free(&c->sources.index); /* as the syms' below */
    dyn_vec_trim(&c->syms.v);
    dyn_vec_trim(&c->syms.same);
    dyn_vec_trim(&c->syms.late);
    dyn_vec_free(&c->syms.index); /* finds rows for those who add some */
    dyn_vec_trim(&c->guards);
    dyn_vec_free(&c->guard_index); /* finds guards for those who add some */
    dyn_vec_trim(&c->recipes);
    dyn_vec_trim(&c->snapshots);
    dyn_vec_trim(&c->effects);
}

size_t dyn_capture_bytes(const DynCapture *c) {
    const DynGraph *g = &c->graph;
    size_t graph = dyn_vec_bytes(&g->nodes) + dyn_vec_bytes(&g->inputs) + dyn_vec_bytes(&g->outputs) +
                   dyn_vec_bytes(&g->externs) + dyn_vec_bytes(&g->checks) + dyn_vec_bytes(&g->places) +
                   dyn_vec_bytes(&g->formulas) + dyn_vec_bytes(&g->wholes) + dyn_vec_bytes(&g->splits);
    size_t syms =
        dyn_vec_bytes(&c->syms.v) + dyn_vec_bytes(&c->syms.index) + dyn_vec_bytes(&c->syms.same) + dyn_vec_bytes(&c->syms.late);
    size_t rest = dyn_vec_bytes(&c->sources.v) + dyn_vec_bytes(&c->guards) + dyn_vec_bytes(&c->guard_index) +
                  dyn_vec_bytes(&c->recipes) + dyn_vec_bytes(&c->snapshots) + dyn_vec_bytes(&c->effects);
    return sizeof *c + dyn_arena_bytes(&c->arena) + graph + syms + rest;
}

/* ---- references */

#define SLOT(place)                                                         \
    do {                                                                    \
        int stop = (place) == NULL ? 0 : visit((PyObject **)&(place), arg); \
        if (stop != 0)                                                      \
            return stop;                                                    \
    } while (0)

static int extern_slots(DynExtern *x, DynVisitSlot *visit, void *arg) {
    SLOT(x->callable);
    SLOT(x->kwnames);
    SLOT(x->frame);
    for (uint32_t i = 0; i < x->nargs; i++) {
        SLOT(x->args[i].obj);
    }
    for (uint32_t i = 0; i < x->nresults; i++) {
        SLOT(x->results[i].obj);
    }
    return 0;
}

static int graph_slots(DynGraph *g, DynVisitSlot *visit, void *arg) {
    int stop = 0;
    for (uint32_t i = 0; i < g->places.n; i++) {
        SLOT(g->places.at[i].code);
        SLOT(g->places.at[i].globals);
    }
    for (uint32_t i = 0; i < g->externs.n && stop == 0; i++) {
        stop = extern_slots(&g->externs.at[i], visit, arg);
    }
    return stop;
}

int dyn_capture_slots(DynCapture *c, DynVisitSlot *visit, void *arg) {
    for (uint32_t i = 0; i < c->sources.v.n; i++) {
        SLOT(c->sources.v.at[i].obj);
        SLOT(c->sources.v.at[i].key);
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        SLOT(c->guards.at[i].obj);
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        SLOT(c->recipes.at[i].obj);
    }
    for (uint32_t i = 0; i < c->effects.n; i++) {
        SLOT(c->effects.at[i].obj);
    }
    for (uint32_t i = 0; i < c->snapshots.n; i++) {
        for (uint32_t f = 0; f < c->snapshots.at[i].nframes; f++) {
            SLOT(c->snapshots.at[i].frames[f].code);
        }
    }
    SLOT(c->before.code);
    SLOT(c->end_place.code);
    for (uint32_t i = 0; i < c->inner.n; i++) {
        SLOT(c->inner.at[i].code);
    }
    SLOT(c->code);
    SLOT(c->func);
    SLOT(c->examples);
    return graph_slots(&c->graph, visit, arg);
}
#undef SLOT

uint32_t dyn_capture_recipe(DynCapture *c, DynRecipeKind kind, uint32_t id, PyObject *obj, uint32_t n, const uint32_t *items) {
    DynRecipe r = {.kind = (uint8_t)kind, .id = id, .obj = obj, .n = n};
    if (n > 0) {
        r.items = DYN_NEW_N(&c->arena, uint32_t, n);
        if (r.items == NULL) {
            return DYN_NONE;
        }
        memcpy(r.items, items, n * sizeof(*items));
    }
    if (dyn_vec_push(&c->recipes, r) < 0) {
        return DYN_NONE;
    }
    Py_XINCREF(obj);
    return c->recipes.n - 1;
}

int dyn_capture_effect(DynCapture *c, DynEffectKind kind, PyObject *obj, uint32_t n, const uint32_t *items) {
    DynEffect e = {.kind = (uint8_t)kind, .obj = obj, .n = n, .items = DYN_NEW_N(&c->arena, uint32_t, n + 1)};
    if (e.items == NULL || dyn_vec_push(&c->effects, e) < 0) {
        return -1;
    }
    if (n > 0) {
        memcpy(e.items, items, n * sizeof(*items));
    }
    Py_XINCREF(obj);
    return 0;
}

void dyn_capture_forget_recipes(DynCapture *c, uint32_t n) {
    while (c->recipes.n > n) {
        Py_XDECREF(c->recipes.at[--c->recipes.n].obj);
    }
}

void dyn_capture_forget_snapshots(DynCapture *c, uint32_t n) {
    while (c->snapshots.n > n) {
        const DynSnapshot *s = &c->snapshots.at[--c->snapshots.n];
        for (uint32_t f = 0; f < s->nframes; f++) {
            Py_XDECREF(s->frames[f].code);
        }
        while (c->effects.n > s->effects.first) {
            Py_XDECREF(c->effects.at[--c->effects.n].obj);
        }
        dyn_capture_forget_recipes(c, s->nrecipes);
    }
}

/* Those from n on were looked at, and so many are left. */
static void keep_guards(DynCapture *c, uint32_t kept) {
    if (kept < c->guards.n) {
        c->guards.n = kept;
        c->guard_index.n = 0;
    }
}

void dyn_capture_forget_guards(DynCapture *c, uint32_t n) {
    uint32_t kept = n;
    for (uint32_t i = n; i < c->guards.n; i++) {
        if (dyn_guard_subject(&c->guards.at[i]) != DYN_ABOUT_SYMBOL || c->guards.at[i].lasting) {
            c->guards.at[kept++] = c->guards.at[i];
        }
    }
    keep_guards(c, kept); /* SYM guards have no object */
}

void dyn_capture_forget_values(DynCapture *c, uint32_t n) {
    uint32_t kept = n;
    for (uint32_t i = n; i < c->guards.n; i++) {
        if (dyn_guard_rows[c->guards.at[i].kind].flags & DYN_GF_SAYS_VALUE) {
            Py_XDECREF(c->guards.at[i].obj);
        } else {
            c->guards.at[kept++] = c->guards.at[i];
        }
    }
    keep_guards(c, kept);
}

static bool same_guard(const DynGuard *a, const DynGuard *b) {
    if (a->kind != b->kind || a->source != b->source || a->source2 != b->source2) {
        return false;
    }
    if (a->number != b->number || a->obj != b->obj) {
        return false;
    }
    return !dyn_guard_has_layout(a) || dyn_layout_same(&a->layout, &b->layout, DYN_MAX_NDIM);
}

static bool is_guard(const void *c, uint32_t id, const void *g) { return same_guard(&((const DynCapture *)c)->guards.at[id], g); }

static uint32_t *guard_slot(const DynCapture *c, const DynGuard *g) {
    const uint64_t words[4] = {(uint64_t)g->kind | (uint64_t)g->source << 32, g->source2, (uint64_t)g->number,
                               (uint64_t)(uintptr_t)g->obj};
    return dyn_index_slot(&c->guard_index, (uint32_t)dyn_words_hash(words, DYN_COUNTOF(words)), is_guard, c, g);
}

/* Makes the index, for all guards that there are and at least as many again. */
static int index_guards(DynCapture *c) {
    uint32_t size = 64;
    while (size <= 4 * c->guards.n) {
        size *= 2;
    }
    if (dyn_index_empty(&c->guard_index, size) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        *guard_slot(c, &c->guards.at[i]) = i;
    }
    return 0;
}

int dyn_capture_guard(DynCapture *c, const DynGuard *g) {
    if (g->kind == DYN_GUARD_SYM && dyn_sym_is_const(&c->syms, g->source) && dyn_sym_at(&c->syms, g->source)->value.i != 0) {
        return 0;
    }
    if (2 * c->guards.n >= c->guard_index.n && index_guards(c) < 0) {
        return -1;
    }
    uint32_t *slot = guard_slot(c, g);
    if (*slot != DYN_NONE) {
        c->guards.at[*slot].lasting |= g->lasting;
        return 0;
    }
    if (c->guards.n >= DYN_MAX_GUARDS || dyn_vec_push(&c->guards, *g) < 0) {
        return -1;
    }
    *slot = c->guards.n - 1;
    Py_XINCREF(g->obj);
    return 0;
}

/* ---- verifying. What holds of every capture:
 *   sources: a base is an earlier row; symbols: operands are earlier rows, VAR and DIM name sources
 *   guards: name rows that exist; SYM guards name bools; kinds that compare with an object have one
 *   recipes: items are earlier recipes; ids name rows that exist; kinds have the number of items that they need
 *   frames: every slot and stack value is a recipe
 *   the graph: dyn_graph_verify */

static int wrong(DynStr *error, const char *what, uint32_t at) {
    dyn_str_printf(error, "capture: %s (row %u)", what, (unsigned)at);
    return -1;
}

static int verify_tables(const DynCapture *c, DynStr *error) {
    for (uint32_t i = 0; i < c->sources.v.n; i++) {
        const DynSource *s = &c->sources.v.at[i];
        const DynSourceRow *row = &dyn_source_rows[s->kind];
        if (row->based ? s->base >= i : s->base != DYN_NONE) {
            return wrong(error, "a source's base isn't an earlier source", i);
        }
        if (s->kind == DYN_SRC_NAMED && s->index >= i) {
            return wrong(error, "the source of a name isn't an earlier source", i);
        }
        if (row->keyed && s->key == NULL) {
            return wrong(error, "a source has no key", i);
        }
        if (s->kind == DYN_SRC_DICT && (s->obj == NULL || !PyDict_CheckExact(s->obj))) {
            return wrong(error, "a DICT source without an exact dict", i);
        }
    }
    for (uint32_t i = 0; i < c->syms.v.n; i++) {
        const DynSym *s = dyn_sym_at(&c->syms, i);
        int arity = dyn_sym_info[s->op].arity;
        if (dyn_sym_is_read((DynSymOp)s->op) && s->a >= c->sources.v.n) {
            return wrong(error, "a symbol's source doesn't exist", i);
        }
        uint32_t operands[3] = {s->a, s->b, s->c};
        for (int k = 0; k < arity; k++) {
            if (operands[k] >= i) {
                return wrong(error, "a symbol's operand isn't an earlier symbol", i);
            }
        }
    }
    return 0;
}

static bool is_wanted_object(DynGuardObject wanted, PyObject *obj) {
    switch (wanted) {
    case DYN_WANTS_NONE: return obj == NULL;
    case DYN_WANTS_ANY: return obj != NULL;
    case DYN_WANTS_TYPE: return obj != NULL && PyType_Check(obj);
    case DYN_WANTS_TUPLE: return obj != NULL && PyTuple_CheckExact(obj);
    case DYN_WANTS_DICT: return obj != NULL && PyDict_Check(obj);
    case DYN_WANTS_CODE: return obj != NULL && PyCode_Check(obj);
    case DYN_WANTS_FACTS: return obj == NULL || dyn_cpy_is_class_facts(obj);
    }
    return false;
}

static int verify_guard(const DynCapture *c, uint32_t i, DynStr *error) {
    const DynGuard *g = &c->guards.at[i];
    bool is_bool = dyn_guard_subject(g) == DYN_ABOUT_SYMBOL && g->source < c->syms.v.n &&
                   dyn_sym_at(&c->syms, g->source)->type == DYN_T_BOOL;
    if (dyn_guard_subject(g) == DYN_ABOUT_SYMBOL && !is_bool) {
        return wrong(error, "a guard's symbol isn't a bool", i);
    }
    if (dyn_guard_has_source(g) && g->source >= c->sources.v.n) {
        return wrong(error, "a guard's source doesn't exist", i);
    }
    if (dyn_guard_subject(g) == DYN_ABOUT_PAIR && g->source2 >= c->sources.v.n) {
        return wrong(error, "a guard's second source doesn't exist", i);
    }
    if (!is_wanted_object((DynGuardObject)dyn_guard_rows[g->kind].object, g->obj)) {
        return wrong(error, "a guard's object isn't of the kind that guards.def says", i);
    }
    if (dyn_guard_has_layout(g) && ((g->number & 255) >= DYN_DTYPE_COUNT || (g->number >> 8 & 255) > DYN_MAX_NDIM)) {
        return wrong(error, "a guard's dtype or rank", i);
    }
    return 0;
}

/* Is `obj` of a recipe of this kind the class of what it makes? */
static bool makes_instance(DynRecipeKind kind) {
    bool of_dict = kind == DYN_RC_INSTANCE || kind == DYN_RC_MAPPING;
    return of_dict || kind == DYN_RC_NAMED || kind == DYN_RC_OBJECT;
}

/* How many items a kind of recipe has; -1: any number, -2: an even number. */
static int items_of(DynRecipeKind kind) {
    switch (kind) {
    case DYN_RC_TUPLE:
    case DYN_RC_LIST:
    case DYN_RC_SET:
    case DYN_RC_CALL:
    case DYN_RC_INNER:
    case DYN_RC_INSTANCE:
    case DYN_RC_FROZENSET: return -1;
    case DYN_RC_OBJECT:
    case DYN_RC_DICT: return -2;
    case DYN_RC_SLICE:
    case DYN_RC_RANGE:
    case DYN_RC_RANGE_ITER: return 3;
    case DYN_RC_FUNCTION: return 5;
    case DYN_RC_GENERATOR: return -1;
    case DYN_RC_METHOD:
    case DYN_RC_MAPPING:
    case DYN_RC_COMPLEX: return 2;
    case DYN_RC_ITER:
    case DYN_RC_ATTR:
    case DYN_RC_NAMED: return 1;
    case DYN_RC_SOURCE:
    case DYN_RC_CONST:
    case DYN_RC_OUTPUT:
    case DYN_RC_SYM:
    case DYN_RC_RESULT:
    case DYN_RC_CELL:
    case DYN_RC_NULL: return 0;
    }
    return 0;
}

static int verify_recipe(const DynCapture *c, uint32_t i, DynStr *error) {
    const DynRecipe *r = &c->recipes.at[i];
    int count = items_of(r->kind);
    bool fits = count >= 0 ? r->n == (uint32_t)count : count == -1 || r->n % 2 == 0;
    if (r->kind == DYN_RC_CELL) {
        fits = r->n <= 1;
    }
    if (!fits) {
        return wrong(error, "a recipe's number of items", i);
    }
    for (uint32_t k = 0; k < r->n; k++) {
        if (r->items[k] >= i) {
            return wrong(error, "a recipe's item isn't an earlier recipe", i);
        }
    }
    if (r->kind == DYN_RC_SOURCE && r->id >= c->sources.v.n) {
        return wrong(error, "a recipe's source doesn't exist", i);
    }
    if (r->kind == DYN_RC_SYM && r->id >= c->syms.v.n) {
        return wrong(error, "a recipe's symbol doesn't exist", i);
    }
    if (r->kind == DYN_RC_OUTPUT && r->id >= c->graph.outputs.n && r->id >= c->graph.nodes.n) {
        return wrong(error, "a recipe's output doesn't exist", i);
    }
    if (r->kind == DYN_RC_CONST && r->obj == NULL) {
        return wrong(error, "a CONST recipe has no object", i);
    }
    if (r->kind == DYN_RC_FUNCTION && (r->obj == NULL || !PyCode_Check(r->obj))) {
        return wrong(error, "a FUNCTION recipe has no code", i);
    }
    if (r->kind == DYN_RC_CALL && (r->obj == NULL || !PyCallable_Check(r->obj))) {
        return wrong(error, "a CALL recipe calls nothing", i);
    }
    if (r->kind == DYN_RC_ATTR && (r->obj == NULL || !PyUnicode_Check(r->obj))) {
        return wrong(error, "an ATTR recipe has no name", i);
    }
    if (makes_instance((DynRecipeKind)r->kind) && (r->obj == NULL || !PyType_Check(r->obj))) {
        return wrong(error, "a NAMED or OBJECT recipe has no type", i);
    }
    return 0;
}

static int verify_frame(const DynCapture *c, const DynFrameState *f, uint32_t at, DynStr *error) {
    if (f->code == NULL || !PyCode_Check(f->code)) {
        return wrong(error, "a frame has no code", at);
    }
    if (f->func != DYN_NONE && f->func >= c->recipes.n) {
        return wrong(error, "a frame's function isn't a recipe", at);
    }
    for (uint32_t i = 0; i < f->nslots + f->nstack; i++) {
        if (f->recipes[i] >= c->recipes.n) {
            return wrong(error, "a frame's slot or stack value isn't a recipe", at);
        }
    }
    return 0;
}

static int verify_effects(const DynCapture *c, DynEffects fx, DynStr *error) {
    static const uint8_t least[] = {[DYN_FX_SETATTR] = 2, [DYN_FX_DELATTR] = 1, [DYN_FX_SETITEM] = 3, [DYN_FX_DELITEM] = 2,
                                    [DYN_FX_SETCELL] = 1, [DYN_FX_CALL] = 1,    [DYN_FX_HANDLED] = 1};
    if (fx.first + fx.n > c->effects.n) {
        return wrong(error, "effects that don't exist", fx.first);
    }
    for (uint32_t i = fx.first; i < fx.first + fx.n; i++) {
        const DynEffect *e = &c->effects.at[i];
        bool named = e->kind == DYN_FX_SETATTR || e->kind == DYN_FX_DELATTR || e->kind == DYN_FX_CALL;
        if (e->n < least[e->kind] || (named && e->obj == NULL)) {
            return wrong(error, "an effect lacks something", i);
        }
        for (uint32_t k = 0; k < e->n; k++) {
            if (e->items[k] >= c->recipes.n) {
                return wrong(error, "an effect's item isn't a recipe", i);
            }
        }
    }
    return 0;
}

int dyn_capture_verify(const DynCapture *c, DynStr *error) {
    if (verify_tables(c, error) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < c->guards.n; i++) {
        if (verify_guard(c, i, error) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < c->recipes.n; i++) {
        if (verify_recipe(c, i, error) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < c->snapshots.n; i++) {
        const DynSnapshot *s = &c->snapshots.at[i];
        if (s->nnodes > c->graph.nodes.n) {
            return wrong(error, "a snapshot is behind the graph's end", i);
        }
        for (uint32_t f = 0; f < s->nframes; f++) {
            if (verify_frame(c, &s->frames[f], i, error) < 0) {
                return -1;
            }
        }
        if (verify_effects(c, s->effects, error) < 0) {
            return -1;
        }
    }
    if (verify_effects(c, c->done, error) < 0) {
        return -1;
    }
    if (c->end == DYN_END_PASS) {
        return c->ways[DYN_WAY_NEXT] ? dyn_graph_verify(&c->graph, error) : wrong(error, "nothing is behind what is passed", 0);
    }
    if (c->end == DYN_END_RETURN ? c->result >= c->recipes.n : verify_frame(c, &c->before, 0, error) < 0) {
        return error->n > 0 ? -1 : wrong(error, "the result isn't a recipe", 0);
    }
    return dyn_graph_verify(&c->graph, error);
}
