/* rec_effects.c: changes of objects that outlive the call: lists, dicts, sets, deques, attributes, globals and cells. Each ran
 * for real while recording; here it is written down, to be made again behind the graph at later calls (capture.h: DynEffect).
 *
 * Called by the handlers after the real operation, when the shadow shows the new state. What was read from such an object before
 * came from its sources, what is read later comes from its shadow. So no other object of its type that came in may be the same at
 * a later call: that is guarded for each pair of a changed object and one that was looked at. Rows live in the recording's arena
 * until the segment ends. What is written into arrays is part of the graph; what that takes for granted is guarded here. */
#include "base/torch.h"
#include "tracer/record/rec_state.h"

#define MAX_PAIRS 4000 /* of objects that have to be different */

/* A cell's shadow is reached through its own source where the cell itself is no value of the frame's (a closure's). */
uint32_t rec_found_at(const DynVal *v) { return v->kind == DV_CELL && v->source == DYN_NONE ? v->cell.found : v->source; }

int rec_same_object(DynRec *r, DynVal *v, DynVal *other) {
    (void)r;
    v->kind = other->kind;
    v->whole = other->whole;
    v->state = other->state;
    v->touched = other->touched;
    v->twin = other->twin != NULL ? other->twin : other;
    other->twin = v;
    return 0;
}

static bool are_twins(const DynVal *a, const DynVal *b) {
    const DynVal *t = a->twin;
    while (t != NULL && t != a && t != b) {
        t = t->twin;
    }
    return t == b;
}

static int differ(DynRec *r, const RecSeen *a, const RecSeen *b) {
    if (Py_TYPE(a->real) != Py_TYPE(b->real) || dyn_array_is(a->real)) {
        return 0; /* the types are guarded */
    }
    if (a->real == b->real) { /* one object in two ways: where nobody knew, it is too late */
        return rec_found_at(a->v) == rec_found_at(b->v) || are_twins(a->v, b->v) ? 0 : -1;
    }
    uint32_t one = rec_found_at(a->v),
             other = rec_found_at(b->v); /* NONE: an object that is not found at a later call, a cell as a value */
    return one == DYN_NONE || other == DYN_NONE ? -1 : rec_guard(r, DYN_GUARD_DIFFERENT, one, other, 0, NULL);
}

int rec_saw(DynRec *r, PyObject *real, DynVal *v) {
    RecSeen seen = {real, v};
    for (uint32_t i = 0; i < r->touched.n; i++) {
        if (differ(r, &r->touched.at[i], &seen) < 0) {
            r->why = DYN_R_ALIASING;
            return -1;
        }
    }
    return rec_keep(r, real) < 0 || dyn_vec_push(&r->seen, seen) < 0 ? -1 : 0;
}

int rec_saw_part(DynRec *r, DynOperand o, PyTypeObject *type) {
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (r->seen.at[i].v == o.v) {
            return 0;
        }
    }
    bool is_of_type = rec_guard(r, DYN_GUARD_TYPE, o.v->source, DYN_NONE, 0, (PyObject *)type) == 0;
    return is_of_type ? rec_saw(r, o.real, o.v) : -1;
}

static int touch(DynRec *r, DynOperand o) {
    RecSeen row = {o.real, o.v};
    if (o.v->touched) {
        return 0;
    }
    if ((uint64_t)(r->touched.n + 1) * (r->seen.n + 1) > MAX_PAIRS) {
        r->why = DYN_R_SIDE_EFFECT;
        return -1;
    }
    for (uint32_t i = 0; i < r->seen.n; i++) {
        if (differ(r, &row, &r->seen.at[i]) < 0) {
            r->why = DYN_R_ALIASING;
            return -1;
        }
    }
    o.v->touched = true;
    for (DynVal *t = o.v->twin; t != NULL && t != o.v; t = t->twin) {
        t->touched = true;
    }
    return rec_keep(r, o.real) < 0 || dyn_vec_push(&r->touched, row) < 0 ? -1 : 0;
}

/* Has the value a recipe, as things are now? A rebuild of its own, which leaves nothing behind. */
bool rec_has_recipe(DynRec *r, DynVal *v) {
    uint32_t n = r->cap->recipes.n;
    bool nodes = r->stamp_nodes, on_stack = r->on_stack;
    r->stamp++;
    r->stamp_nodes = true;
    r->on_stack = false;
    bool can = rec_recipe(r, v) != DYN_NONE;
    dyn_capture_forget_recipes(r->cap, n);
    r->stamp++;
    r->stamp_nodes = nodes;
    r->on_stack = on_stack;
    return can;
}

static int push_effect(DynRec *r, DynEffectKind kind, PyObject *obj, uint32_t n, DynVal *const *items) {
    RecEffect e = {.kind = (uint8_t)kind, .obj = obj, .n = n, .items = DYN_NEW_N(&r->arena, DynVal *, n + 1)};
    if (e.items == NULL || (obj != NULL && rec_keep(r, obj) < 0)) {
        return -1;
    }
    memcpy(e.items, items, n * sizeof *items);
    return dyn_vec_push(&r->effects, e);
}

int rec_effect(DynRec *r, DynOperand target, DynEffectKind kind, PyObject *obj, uint32_t n, DynVal *const *items) {
    if (target.v->fresh) {
        rec_changed(r, target.v);
        return 0;
    }
    r->why = DYN_R_SIDE_EFFECT;
    if (rec_found_at(target.v) == DYN_NONE || touch(r, target) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!(items[i]->kind == DV_CELL && items[i] == target.v) && !rec_has_recipe(r, items[i])) {
            return -1;
        }
    }
    if (push_effect(r, kind, obj, n, items) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    rec_changed(r, target.v);
    return 0;
}

int rec_global_effect(DynRec *r, PyObject *callable, uint32_t n, DynVal *const *args) {
    if (push_effect(r, DYN_FX_CALL, callable, n, args) < 0) {
        r->why = DYN_R_NO_MEMORY;
        return -1;
    }
    return 0;
}

/* A class is a constant, which no other object is: nothing has to be told apart from it. */
int rec_class_effect(DynRec *r, PyTypeObject *type, PyObject *name, DynVal *value) {
    DynVal *items[2] = {dyn_rec_const(r, (PyObject *)type), value};
    r->why = DYN_R_SIDE_EFFECT;
    if (items[0] == NULL || !rec_has_recipe(r, value)) {
        return -1;
    }
    return push_effect(r, DYN_FX_SETATTR, name, 2, items);
}

DynVal *rec_stored_in_class(const DynRec *r, PyTypeObject *type, PyObject *name) {
    for (uint32_t i = r->effects.n; i-- > 0;) {
        const RecEffect *e = &r->effects.at[i];
        bool stored = e->kind == DYN_FX_SETATTR && rec_constant_or_null(e->items[0]) == (PyObject *)type;
        if (stored && (name == NULL || PyUnicode_Compare(e->obj, name) == 0)) {
            return e->items[1];
        }
    }
    return NULL;
}

int rec_effects_done(DynRec *r, DynEffects *out) {
    *out = (DynEffects){.first = r->cap->effects.n};
    if (rec_generators_told(r) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < r->effects.n; i++) {
        const RecEffect *e = &r->effects.at[i];
        if (rec_effect_is_undone(r, i)) {
            continue;
        }
        uint32_t *items = DYN_NEW_N(&r->cap->arena, uint32_t, e->n + 1);
        for (uint32_t k = 0; items != NULL && k < e->n; k++) {
            bool cell = e->items[k]->kind == DV_CELL && e->items[k]->source == DYN_NONE && k == 0;
            items[k] = cell ? dyn_capture_recipe(r->cap, DYN_RC_SOURCE, e->items[k]->cell.found, NULL, 0, NULL)
                            : rec_recipe(r, e->items[k]);
            if (items[k] == DYN_NONE) {
                return -1;
            }
        }
        if (items == NULL || dyn_capture_effect(r->cap, (DynEffectKind)e->kind, e->obj, e->n, items) < 0) {
            return -1;
        }
        r->cap->effects.at[r->cap->effects.n - 1].row = i;
    }
    if (r->handled != NULL) { /* last: what makes the values runs as if nothing had been raised */
        uint32_t value = rec_recipe(r, r->handled);
        if (value == DYN_NONE || dyn_capture_effect(r->cap, DYN_FX_HANDLED, NULL, 1, &value) < 0) {
            return -1;
        }
    }
    out->n = r->cap->effects.n - out->first;
    return 0;
}

void rec_forget_effects(DynRec *r, uint32_t n) { r->effects.n = n < r->effects.n ? n : r->effects.n; }

/* ---- writing into arrays */

static void flag_array_guard(DynRec *r, uint32_t source, int64_t flag) {
    for (uint32_t i = 0; i < r->cap->guards.n; i++) {
        DynGuard *guard = &r->cap->guards.at[i];
        if (guard->kind == DYN_GUARD_ARRAY && guard->source == source) {
            guard->number |= flag;
        }
    }
}

/* Is it a view that np.broadcast_arrays made, or one of such a view? NumPy warns when it is written, and when its flags are read;
 * the first time. */
static bool write_warns(DynGraph *g, uint32_t node) {
    const DynNode *n = dyn_graph_node(g, node);
    while (!(n->flags & DYN_NODE_WRITE_WARNS) && dyn_ops[n->op].kind == DYN_K_VIEW) {
        n = dyn_graph_node(g, n->args[0].id);
    }
    return (n->flags & DYN_NODE_WRITE_WARNS) != 0;
}

int dyn_rec_reads_flags(DynRec *r, uint32_t node, PyObject *real) {
    DynGraph *g = &r->cap->graph;
    const DynNode *s = dyn_graph_node(g, dyn_graph_node(g, node)->storage);
    if (write_warns(g, node) || dyn_array_write_warns((PyArrayObject *)real)) {
        r->why = DYN_R_UNSUPPORTED_OP;
        return -1;
    }
    if (dyn_ops[s->op].kind == DYN_K_INPUT) {
        flag_array_guard(r, s->source, DYN_ARRAY_ASKED);
    }
    return 0;
}

int dyn_rec_will_write(DynRec *r, uint32_t node) {
    DynGraph *g = &r->cap->graph;
    uint32_t storage = dyn_graph_node(g, node)->storage;
    DynNode *s = dyn_graph_node(g, storage);
    if (write_warns(g, node)) {
        r->why = DYN_R_UNSUPPORTED_OP;
        return -1;
    }
    if (dyn_ops[s->op].kind != DYN_K_INPUT) {
        return 0; /* fresh memory overlaps nothing that comes in */
    }
    if (r->cap->quiet) {
        r->why = DYN_R_SIDE_EFFECT;
        return -1;
    }
    if (s->layout.folded || s->layout.still != 0) { /* It matters which element is written last, and what is read when. */
        r->why = DYN_R_ALIASING;
        return -1;
    }
    flag_array_guard(r, s->source, DYN_ARRAY_WRITTEN);
    r->cap->writes = true;
    for (uint32_t i = 0; i < r->written.n; i++) {
        if (r->written.at[i] == storage) {
            return 0;
        }
    }
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        if (rec_lie_apart(r, storage, g->inputs.at[i]) < 0) {
            return -1;
        }
    }
    return rec_guard_apart(r, storage) < 0 ? -1 : dyn_vec_push(&r->written, storage);
}
