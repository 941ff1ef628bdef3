/* rec_recipe.c: shadows turned into recipes: how later calls make the value anew behind the graph, where it is still wanted.
 *
 * Called at the ends of segments and for snapshots (rec_segment.c, rec_effects.c). One value has one recipe in one rebuild
 * (DynRec.stamp), so that identity holds. */
#include "tracer/record/rec_state.h"

static uint32_t output_of(DynRec *r, uint32_t node) {
    DynGraph *g = &r->cap->graph;
    if (r->stamp_nodes) { /* wanted where the graph is left in front of the calls that are about to get the snapshot */
        dyn_graph_node(g, node)->left = g->nodes.n;
        return node;
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        if (g->outputs.at[i] == node) {
            return i;
        }
    }
    return dyn_vec_push(&g->outputs, node) < 0 ? DYN_NONE : g->outputs.n - 1;
}

/* Recipe `kind` of n parts; `at` and `obj` as that kind has them. */
static uint32_t recipe_of(DynRec *r, DynRecipeKind kind, uint32_t at, PyObject *obj, uint32_t n, DynVal *const *parts) {
    uint32_t *items = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1);
    if (items == NULL) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        items[i] = rec_recipe(r, parts[i]);
        if (items[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return dyn_capture_recipe(r->cap, kind, at, obj, n, items);
}

static uint32_t recipe_of_items(DynRec *r, DynVal *v, DynRecipeKind kind) { return recipe_of(r, kind, 0, NULL, v->n, v->items); }

/* One that was only made: of its arguments. What raising it did, its traceback and context, can't be told: another recording is
 * asked for, in which it is raised for real. */
static uint32_t recipe_of_exception(DynRec *r, DynVal *v) {
    PyTypeObject *type = (PyTypeObject *)v->type;
    DynVal *args = v->n == 2 && v->items[1] != NULL && v->items[1]->kind == DV_TUPLE ? v->items[1] : NULL;
    bool own_init = type->tp_init != ((PyTypeObject *)PyExc_BaseException)->tp_init;
    uint32_t *items = args == NULL || own_init || v->raised ? NULL : DYN_NEW_N(&r->cap->arena, uint32_t, args->n + 1);
    for (uint32_t i = 0; items != NULL && i < args->n; i++) {
        if ((items[i] = rec_recipe(r, args->items[i])) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    r->req->raises = r->req->raises || items == NULL;
    return items == NULL ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, v->type, args->n, items);
}

static uint32_t recipe_of_object(DynRec *r, DynVal *v) {
    uint32_t n = v->contents != NULL, *items = DYN_NEW_N(&r->cap->arena, uint32_t, v->n + 2);
    if (items == NULL || v->type == NULL) {
        return DYN_NONE;
    }
    if (n > 0 && (items[0] = recipe_of_items(r, v->contents, DYN_RC_DICT)) == DYN_NONE) {
        return DYN_NONE;
    }
    if (PyExceptionClass_Check(v->type)) {
        return recipe_of_exception(r, v);
    }
    for (uint32_t i = 0; i < v->n; i += 2) {
        if (v->items[i + 1] != NULL) {
            items[n] = rec_recipe(r, v->items[i]);
            items[n + 1] = rec_recipe(r, v->items[i + 1]);
            if (items[n] == DYN_NONE || items[n + 1] == DYN_NONE) {
                return DYN_NONE;
            }
            n += 2;
        }
    }
    return dyn_capture_recipe(r->cap, v->contents != NULL ? DYN_RC_INSTANCE : DYN_RC_OBJECT, 0, v->type, n, items);
}

static uint32_t recipe_of_view(DynRec *r, DynVal *v) {
    static const char *const names[] = {"keys", "values", "items"};
    DynVal *dict = v->view.dict;
    PyTypeObject *type = dict->type ? (PyTypeObject *)dict->type : &PyDict_Type;
    PyObject *name = PyUnicode_InternFromString(names[v->view.shows]), *method = name ? dyn_cpy_lookup_special(type, name) : NULL;
    uint32_t *item = DYN_NEW(&r->cap->arena, uint32_t);
    Py_XDECREF(name);
    PyErr_Clear();
    if (method == NULL || item == NULL || (*item = rec_recipe(r, dict)) == DYN_NONE) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, method, 1, item);
}

/* Is the container still as the iterator found it, also when it is rebuilt: what is changed of one that came in is changed behind
 * that. */
static bool stands_still(DynVal *it) {
    DynVal *c = rec_live_container(it);
    return c != NULL && c->state == it->state && (c->fresh || c->state == 0);
}

/* Its constants, in the order in which they have to be added. */
static uint32_t recipe_of_set(DynRec *r, DynVal *v) {
    PyObject *listed = PyTuple_New(v->n), *order;
    for (uint32_t i = 0; listed != NULL && i < v->n; i++) {
        PyTuple_SET_ITEM(listed, i, Py_NewRef(rec_constant_of(v->items[i])));
    }
    order = listed ? rec_set_order(listed) : NULL;
    uint32_t *items = order ? DYN_NEW_N(&r->cap->arena, uint32_t, v->n + 1) : NULL, recipe = DYN_NONE;
    bool known = items != NULL;
    for (uint32_t i = 0; known && i < v->n; i++) {
        items[i] = dyn_capture_constant(r->cap, PyTuple_GET_ITEM(order, i));
        known = items[i] != DYN_NONE;
    }
    if (known) {
        recipe = dyn_capture_recipe(r->cap, v->type == NULL ? DYN_RC_SET : DYN_RC_FROZENSET, 0, NULL, v->n, items);
    }
    PyErr_Clear();
    Py_XDECREF(listed);
    Py_XDECREF(order);
    return recipe;
}

/* A subclass of dict, filled as a dict is; a deque, of its items. */
static uint32_t recipe_of_collection(DynRec *r, DynVal *v, DynRecipeKind kind) {
    uint32_t *items = DYN_NEW_N(&r->cap->arena, uint32_t, 2), content = items ? recipe_of_items(r, v, kind) : DYN_NONE;
    bool dict = kind == DYN_RC_DICT;
    DynVal *with = dict ? v->factory : v->maxlen;
    uint32_t argument = with == NULL ? dyn_capture_recipe(r->cap, DYN_RC_NULL, 0, NULL, 0, NULL) : rec_recipe(r, with);
    if (content == DYN_NONE || argument == DYN_NONE) {
        return DYN_NONE;
    }
    items[0] = dict ? argument : content;
    items[1] = dict ? content : argument;
    return dict ? dyn_capture_recipe(r->cap, DYN_RC_MAPPING, 0, v->type, 2, items)
                : dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, (PyObject *)dyn_deque_type, 2, items);
}

static uint32_t recipe_of_named(DynRec *r, DynVal *v) {
    uint32_t *item = DYN_NEW(&r->cap->arena, uint32_t);
    if (item == NULL || (*item = recipe_of_items(r, v, DYN_RC_TUPLE)) == DYN_NONE) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_NAMED, 0, v->type, 1, item);
}

/* A function made while recording. */
static uint32_t recipe_of_function(DynRec *r, DynVal *v) {
    uint32_t *items = DYN_NEW_N(&r->cap->arena, uint32_t, 5);
    if (items == NULL || v->function.globals == NULL) {
        return DYN_NONE;
    }
    DynVal *const parts[4] = {v->function.closure, v->function.defaults, v->function.kwdefaults, v->function.annotations};
    items[0] = dyn_capture_constant(r->cap, v->function.globals);
    for (int i = 0; i < 4; i++) {
        items[1 + i] = parts[i] ? rec_recipe(r, parts[i]) : dyn_capture_recipe(r->cap, DYN_RC_NULL, 0, NULL, 0, NULL);
        if (items[1 + i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return items[0] == DYN_NONE ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_FUNCTION, 0, v->function.code, 5, items);
}

static uint32_t recipe_of_range_iter(DynRec *r, DynVal *v) {
    DynSyms *t = &r->cap->syms;
    DynVal *range = v->iter.over;
    uint32_t given = dyn_sym_int(t, v->iter.position);
    uint32_t taken = dyn_sym_op(t, DYN_S_MUL, given, rec_sym_of(range->slice.step), DYN_NONE);
    DynVal start = *range->slice.start, *parts[3] = {&start, range->slice.stop, range->slice.step};
    start.sym = taken == DYN_NONE ? DYN_NONE : dyn_sym_op(t, DYN_S_ADD, rec_sym_of(&start), taken, DYN_NONE);
    start.stamp = 0;
    start.source = DYN_NONE;
    if (start.sym == DYN_NONE) {
        return DYN_NONE;
    }
    return recipe_of(r, DYN_RC_RANGE_ITER, 0, NULL, 3, parts);
}

/* May zip and its like be made of it once more, to be run up to where they stand: a sequence, or a container as it was found. */
static bool can_be_run_again(DynVal *it, DynVal *of) {
    bool sequence = of->kind == DV_ARRAY || of->kind == DV_LIST || of->kind == DV_TUPLE;
    const DynVal *live = of->kind != DV_ITER ? rec_live_container(of) : NULL;
    return sequence || (live != NULL && rec_live_state(it) == it->state && (live->fresh || live->state == 0));
}

/* Containers say so when they are changed while an iterator runs over them; a list of their items doesn't. */
static bool is_over_containers(DynVal *it) {
    bool any = false;
    for (uint32_t i = 0; i < it->n && !any; i++) {
        any = rec_live_container(it->items[i]) != NULL;
    }
    return any;
}

static uint32_t recipe_of_reversed(DynRec *r, DynVal *v) {
    bool again = is_over_containers(v) && can_be_run_again(v, v->items[0]);
    return again ? recipe_of(r, DYN_RC_ITER, v->iter.position, v->iter.maker, 1, v->items) : DYN_NONE;
}

/* zip and enumerate as they stand: of iterators that are as far as they are. */
static uint32_t recipe_of_zip(DynRec *r, DynVal *v) {
    uint32_t n = v->n, *items = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1);
    for (uint32_t i = 0; items != NULL && i < n; i++) {
        DynVal *of = v->items[i];
        uint32_t *own = DYN_NEW(&r->cap->arena, uint32_t);
        bool moves = v->iter.maker == (PyObject *)&PyZip_Type || i == 0;
        bool known = can_be_run_again(v, of);
        DynSyms *t = &r->cap->syms;
        if (moves) {
            items[i] = own == NULL || !known || (*own = rec_recipe(r, of)) == DYN_NONE
                           ? DYN_NONE
                           : dyn_capture_recipe(r->cap, DYN_RC_ITER, v->iter.position, NULL, 1, own);
        } else { /* where enumerate stands */
            uint32_t at = dyn_sym_op(t, DYN_S_ADD, rec_sym_of(of), dyn_sym_int(t, v->iter.position), DYN_NONE);
            items[i] = at == DYN_NONE ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_SYM, at, NULL, 0, NULL);
        }
        if (items[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return items == NULL ? DYN_NONE : dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, v->iter.maker, n, items);
}

static uint32_t recipe_of_vars(DynRec *r, DynVal *v) {
    PyObject *name = PyUnicode_InternFromString("__dict__");
    bool kept = name != NULL && rec_keep(r, name) == 0;
    Py_XDECREF(name); /* the recording keeps it */
    return kept ? recipe_of(r, DYN_RC_ATTR, 0, name, 1, &v->vars.instance) : DYN_NONE;
}

/* By the effect that gives it, which has to be made then. */
static uint32_t recipe_of_result(DynRec *r, DynVal *v) {
    for (uint32_t i = 0; i < r->effects.n; i++) {
        if (r->effects.at[i].gives == v) {
            v->wanted = true;
            return dyn_capture_recipe(r->cap, DYN_RC_RESULT, i, NULL, 0, NULL);
        }
    }
    return DYN_NONE;
}

/* ---- the column `recipe`; DYN_NONE: such a value can't be made anew */

static uint32_t no_recipe(DynRec *r, DynVal *v) {
    (void)r, (void)v;
    return DYN_NONE;
}

static uint32_t recipe_of_null(DynRec *r, DynVal *v) {
    (void)v;
    return dyn_capture_recipe(r->cap, DYN_RC_NULL, 0, NULL, 0, NULL);
}

static uint32_t recipe_of_constant(DynRec *r, DynVal *v) { return dyn_capture_constant(r->cap, rec_constant_of(v)); }

static uint32_t recipe_of_number(DynRec *r, DynVal *v) {
    return dyn_capture_recipe(r->cap, DYN_RC_SYM, rec_sym_of(v), NULL, 0, NULL);
}

static uint32_t recipe_of_output(DynRec *r, DynVal *v) {
    uint32_t o = output_of(r, rec_node_of(v));
    return o == DYN_NONE ? o : dyn_capture_recipe(r->cap, DYN_RC_OUTPUT, o, NULL, 0, NULL);
}

static uint32_t recipe_of_wrapped_function(DynRec *r, DynVal *v) {
    uint32_t function = recipe_of_function(r, v);
    return v->function.wrapped == NULL ? function : rec_wrapper_recipe(r, function, v->function.wrapped);
}

static uint32_t recipe_of_complex(DynRec *r, DynVal *v) {
    return recipe_of(r, DYN_RC_COMPLEX, 0, NULL, 2, (DynVal *[]){v->parts.real, v->parts.imag});
}

static uint32_t recipe_of_attribute(DynRec *r, DynVal *v) {
    return recipe_of(r, DYN_RC_ATTR, 0, v->attribute.name, 1, &v->attribute.of);
}

static uint32_t recipe_of_tuple(DynRec *r, DynVal *v) {
    return v->type == NULL ? recipe_of_items(r, v, DYN_RC_TUPLE) : recipe_of_named(r, v);
}

static uint32_t recipe_of_list(DynRec *r, DynVal *v) { return recipe_of_items(r, v, DYN_RC_LIST); }

static uint32_t recipe_of_fresh_object(DynRec *r, DynVal *v) { return v->fresh || v->raised ? recipe_of_object(r, v) : DYN_NONE; }

static uint32_t recipe_of_dict(DynRec *r, DynVal *v) {
    if (v->hidden) { /* it is its object's alone */
        return DYN_NONE;
    }
    return v->type ? recipe_of_collection(r, v, DYN_RC_DICT) : recipe_of_items(r, v, DYN_RC_DICT);
}

static uint32_t recipe_of_deque(DynRec *r, DynVal *v) { return recipe_of_collection(r, v, DYN_RC_TUPLE); }

static uint32_t recipe_of_slice(DynRec *r, DynVal *v) {
    return recipe_of(r, DYN_RC_SLICE, 0, NULL, 3, (DynVal *[]){v->slice.start, v->slice.stop, v->slice.step});
}

static uint32_t recipe_of_range(DynRec *r, DynVal *v) {
    return recipe_of(r, DYN_RC_RANGE, 0, NULL, 3, (DynVal *[]){v->slice.start, v->slice.stop, v->slice.step});
}

static uint32_t recipe_of_method(DynRec *r, DynVal *v) {
    return recipe_of(r, DYN_RC_METHOD, 0, NULL, 2, (DynVal *[]){v->method.function, v->method.self});
}

static uint32_t recipe_of_cell(DynRec *r, DynVal *v) {
    bool full = v->cell.content != NULL;
    uint32_t *item = DYN_NEW(&r->cap->arena, uint32_t), came_in = v->fresh ? DYN_NONE : rec_found_at(v);
    if (came_in != DYN_NONE) {
        return dyn_capture_recipe(r->cap, DYN_RC_SOURCE, came_in, NULL, 0, NULL);
    }
    if (item == NULL || (full && (*item = rec_recipe(r, v->cell.content)) == DYN_NONE)) {
        return DYN_NONE;
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CELL, 0, NULL, full, item);
}

/* An iterator over the items that are left, listed: nobody can tell it from the one that there was. */
static uint32_t recipe_of_listed_iterator(DynRec *r, DynVal *v) {
    v->iter.over->kind = DV_TUPLE;
    uint32_t recipe = recipe_of(r, DYN_RC_ITER, v->iter.position, NULL, 1, &v->iter.over);
    v->iter.over->kind = DV_OPAQUE;
    return recipe;
}

static uint32_t recipe_of_iterator(DynRec *r, DynVal *v) {
    const DynVal *over = v->iter.over;
    if (over->kind == DV_RANGE) {
        return recipe_of_range_iter(r, v);
    }
    bool reversed = v->iter.maker == (PyObject *)&PyReversed_Type;
    uint32_t recipe = reversed ? recipe_of_reversed(r, v) : v->iter.maker != NULL ? recipe_of_zip(r, v) : DYN_NONE;
    if (recipe != DYN_NONE || is_over_containers(v)) {
        return recipe;
    }
    bool of_loop = v->looped && r->on_stack && r->nesting == 1;
    if (v->hidden || of_loop) {
        return recipe_of_listed_iterator(r, v);
    }
    bool sequence = over->kind == DV_TUPLE || over->kind == DV_LIST || over->kind == DV_ARRAY;
    return sequence || stands_still(v) ? recipe_of(r, DYN_RC_ITER, v->iter.position, NULL, 1, &v->iter.over) : DYN_NONE;
}

/* It has none, and the next recording runs the block aloud. */
static uint32_t recipe_of_quiet(DynRec *r, DynVal *v) {
    (void)v;
    r->req->loud = true;
    return DYN_NONE;
}

static uint32_t (*const recipe_as[DV_COUNT])(DynRec *r, DynVal *v) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = recipe,
#include "tracer/record/shadow.def"
#undef SHADOW
};

static uint32_t new_recipe(DynRec *r, DynVal *v) {
    DynVal *behind = rec_behind_tap(r, v);
    if (behind != v) {
        return rec_recipe(r, behind);
    }
    if (v->source != DYN_NONE && v->kind != DV_CELL && !v->fresh) {
        return dyn_capture_recipe(r->cap, DYN_RC_SOURCE, v->source, NULL, 0, NULL);
    }
    return recipe_as[v->kind](r, v);
}

#define BEING_MADE (DYN_NONE - 1)

uint32_t rec_recipe(DynRec *r, DynVal *v) {
    if (v->stamp == r->stamp) { /* a container that contains itself has no recipe */
        return v->recipe == BEING_MADE ? DYN_NONE : v->recipe;
    }
    v->stamp = r->stamp;
    v->recipe = BEING_MADE;
    if (++r->nesting <= REC_MAX_DEPTH) {
        v->recipe = new_recipe(r, v);
    } else {
        v->recipe = DYN_NONE;
    }
    r->nesting--;
    return v->recipe;
}
