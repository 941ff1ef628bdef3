/* shapes.c: shapes: what is known of the values in places within objects. Called by the other files of this folder. Shapes belong
 * to the plan, and outlive its attempts; the objects that are looked at are reached from the loop's slots, and nothing runs while
 * they are.
 *
 * A shape says what was found where somebody looked: each value is looked at again where it is read. So a shape that says too
 * little costs an exit, and never a wrong result. */
#include "tracer/region/plan.h"
#include "base/cpy_region.h"

PlanShape *plan_shape(Plan *p, uint32_t shape) { return &p->shapes.at[shape < p->shapes.n ? shape : 0]; }

uint32_t plan_new_shape(Plan *p) {
    PlanShape nothing = {0};
    bool room = p->shapes.n < PLAN_SHAPES;
    while (room && p->shapes.n < 2) { /* the first is nobody's */
        room = dyn_vec_push(&p->shapes, nothing) == 0;
        if (p->shapes.n == 2) {
            return room ? 1 : 0;
        }
    }
    if (!room || dyn_vec_push(&p->shapes, nothing) < 0) {
        plan_stop(p, DYN_R_GRAPH_SIZE);
        return 0;
    }
    return p->shapes.n - 1;
}

uint32_t plan_root(Plan *p, uint32_t which) {
    if (p->roots[which] == 0) {
        p->roots[which] = (uint16_t)plan_new_shape(p);
        if (p->roots[which] != 0) {
            plan_shape(p, p->roots[which])->which = (uint8_t)which;
        }
    }
    return p->roots[which];
}

uint32_t plan_root_of(Plan *p, PyObject *o) {
    for (uint32_t i = 0; i < p->r->nslots; i++) {
        if (p->slots[i] == o) {
            return plan_root(p, i + 1);
        }
    }
    for (uint32_t i = 0; i < p->known.n; i++) {
        if (p->known.at[i] == o) {
            return p->known_shapes.at[i];
        }
    }
    uint32_t shape = plan_new_shape(p);
    if (dyn_vec_push(&p->known, o) < 0 || dyn_vec_push(&p->known_shapes, shape) < 0) {
        plan_stop(p, DYN_R_NO_MEMORY);
    }
    return shape;
}

/* ---- joining */

static void add_class(PlanShape *s, uint8_t class) {
    for (uint32_t i = 0; i < s->nclasses; i++) {
        if (s->classes[i] == class) {
            return;
        }
    }
    if (s->nclasses < DYN_COUNTOF(s->classes)) {
        s->classes[s->nclasses++] = class;
    }
}

/* Items of tuples of several lengths are all alike. */
static void join_parts(Plan *p, uint32_t shape, const PlanShape *more) {
    PlanShape *s = plan_shape(p, shape);
    if (s->bits == 0 && s->nparts == 0) {
        s->nparts = more->nparts;
        memcpy(s->parts, more->parts, sizeof s->parts);
    } else if (s->nparts == more->nparts) {
        for (uint32_t k = 0; k < s->nparts; k++) {
            const PlanShape part = *plan_shape(p, more->parts[k]);
            plan_join(p, s->parts[k], &part);
            s = plan_shape(p, shape);
        }
    } else {
        s->nparts = 0;
    }
}

bool plan_join(Plan *p, uint32_t shape, const PlanShape *more) {
    PlanShape *s = plan_shape(p, shape);
    uint16_t bits = s->bits;
    uint8_t nclasses = s->nclasses;
    if (shape == 0) {
        return false;
    }
    join_parts(p, shape, more);
    s = plan_shape(p, shape);
    s->bits |= more->bits;
    for (uint32_t i = 0; i < more->nclasses; i++) {
        add_class(s, more->classes[i]);
    }
    bool grown = s->bits != bits || s->nclasses != nclasses;
    const uint16_t inner[] = {more->list, more->tuple, more->dict, more->keys};
    for (int k = 0; k < 4; k++) {
        uint16_t *own = k == 0 ? &s->list : k == 1 ? &s->tuple : k == 2 ? &s->dict : &s->keys;
        if (*own == 0) {
            grown = grown || inner[k] != 0;
            *own = inner[k];
        } else if (inner[k] != 0 && inner[k] != *own) {
            const PlanShape there = *plan_shape(p, inner[k]);
            bool same = there.bits == plan_shape(p, *own)->bits; /* which is looked at no further: shapes may hold themselves */
            grown = (!same && plan_join(p, *own, &there)) || grown;
            s = plan_shape(p, shape);
        }
    }
    return grown;
}

void plan_add_to(Plan *p, PlanShape *all, const PlanShape *more) {
    uint16_t *const own[] = {&all->list, &all->tuple, &all->dict};
    const uint16_t inner[] = {more->list, more->tuple, more->dict};
    all->bits |= more->bits;
    for (uint32_t i = 0; i < more->nclasses; i++) {
        add_class(all, more->classes[i]);
    }
    for (int k = 0; k < 3; k++) {
        const PlanShape there = *plan_shape(p, inner[k]);
        if (*own[k] == 0) {
            *own[k] = inner[k];
        } else if (inner[k] != 0 && inner[k] != *own[k] && plan_join(p, *own[k], &there)) {
            p->again = true;
        }
    }
}

/* ---- looking at objects */

static void look_at(Plan *p, uint32_t shape, PyObject *o, int depth);

/* What the instance, or a named tuple, holds by that name. Properties and methods are no fields: to ask them would run code of
 * the program, or make an object that nobody holds. */
static void look_at_fields(Plan *p, PlanClass *c, uint32_t k, uint32_t name, int depth) {
    bool direct;
    int64_t at;
    PyTypeObject *t = Py_TYPE(c->samples[k]);
    bool field = dyn_cpy_field(t, c->names[name], &direct, &at) || plan_named_field(t, c->names[name], &at);
    PyObject *value = field ? PyObject_GenericGetAttr(c->samples[k], c->names[name]) : NULL;
    if (value == NULL) {
        PyErr_Clear();
        return;
    }
    Py_DECREF(value); /* the instance has it */
    look_at(p, c->shapes[name], value, depth);
}

static void add_sample(Plan *p, PlanClass *c, PyObject *o, int depth) {
    for (uint32_t i = 0; i < c->nsamples; i++) {
        if (c->samples[i] == o) {
            return;
        }
    }
    if (c->nsamples < PLAN_SAMPLES) {
        c->samples[c->nsamples++] = o;
        for (uint32_t i = 0; i < c->nnames && depth > 0; i++) {
            look_at_fields(p, c, c->nsamples - 1, i, depth - 1);
        }
    }
}

uint32_t plan_class_of_type(Plan *p, PyTypeObject *t) {
    uint32_t nkeys;
    for (uint32_t i = 0; i < p->nclasses; i++) {
        if (p->classes[i].type == t) {
            return i;
        }
    }
    if (p->nclasses == PLAN_CLASSES || dyn_cpy_class_version(t, &nkeys) == 0) {
        return DYN_NONE;
    }
    p->classes[p->nclasses] = (PlanClass){.type = t};
    return p->nclasses++;
}

uint32_t plan_class_of(Plan *p, PyObject *o) {
    uint32_t i = plan_class_of_type(p, Py_TYPE(o));
    if (i != DYN_NONE) {
        add_sample(p, &p->classes[i], o, 2);
    }
    return i;
}

uint32_t plan_attribute_shape(Plan *p, uint32_t class, PyObject *name, bool stored) {
    PlanClass *c = &p->classes[class];
    uint32_t i = 0;
    while (i < c->nnames && c->names[i] != name) {
        i++;
    }
    if (i == PLAN_ATTRIBUTES) {
        return 0;
    }
    if (i == c->nnames) {
        c->names[c->nnames++] = name;
        c->shapes[i] = (uint16_t)plan_new_shape(p);
        for (uint32_t k = 0; k < c->nsamples; k++) {
            look_at_fields(p, c, k, i, 3);
        }
    }
    if (stored && !c->stored[i]) {
        c->stored[i] = true;
        p->again = true;
    }
    return c->shapes[i];
}

static uint16_t contents(Plan *p, uint32_t shape, uint32_t bit) {
    PlanShape *s = plan_shape(p, shape);
    uint16_t *inner = bit == DYN_RL_LIST ? &s->list : bit == DYN_RL_TUPLE ? &s->tuple : &s->dict;
    if (*inner == 0) {
        uint16_t made = (uint16_t)plan_new_shape(p);
        s = plan_shape(p, shape);
        inner = bit == DYN_RL_LIST ? &s->list : bit == DYN_RL_TUPLE ? &s->tuple : &s->dict;
        *inner = made;
    }
    return *inner;
}

static void look_at(Plan *p, uint32_t shape, PyObject *o, int depth) {
    uint32_t bits = dyn_region_bits(o), class = bits == DYN_RL_OTHER ? plan_class_of(p, o) : DYN_NONE;
    if (class != DYN_NONE) {
        bits = DYN_RL_INST;
        add_class(plan_shape(p, shape), (uint8_t) class);
    }
    plan_shape(p, shape)->bits |= (uint16_t)bits;
    if (bits & (DYN_RL_LIST | DYN_RL_TUPLE | DYN_RL_DICT | DYN_RL_SET) && depth > 0) {
        plan_look_into(p, contents(p, shape, bits), o, depth - 1);
    }
}

static void look_at_parts(Plan *p, uint32_t shape, PyObject *tuple, int depth) {
    uint32_t n = (uint32_t)PyTuple_GET_SIZE(tuple);
    PlanShape *s = plan_shape(p, shape);
    if (s->bits == 0 && s->nparts == 0 && n > 0 && n <= PLAN_PARTS) {
        for (uint32_t k = 0; k < n; k++) {
            uint16_t part = (uint16_t)plan_new_shape(p);
            s = plan_shape(p, shape);
            s->parts[k] = part;
        }
        s->nparts = (uint8_t)n;
    }
    s->nparts = s->nparts == n ? s->nparts : 0;
    for (uint32_t k = 0; k < n && plan_shape(p, shape)->nparts == n; k++) {
        look_at(p, plan_shape(p, shape)->parts[k], PyTuple_GET_ITEM(tuple, k), depth);
    }
}

uint32_t plan_keys(Plan *p, uint32_t shape) {
    if (shape != 0 && plan_shape(p, shape)->keys == 0) {
        uint16_t made = (uint16_t)plan_new_shape(p);
        plan_shape(p, shape)->keys = made;
    }
    return shape == 0 ? 0 : plan_shape(p, shape)->keys;
}

static void look_into_dict(Plan *p, uint32_t shape, PyObject *o, int depth) {
    PyObject *found[2] = {NULL, NULL};
    uint32_t keys = plan_keys(p, shape);
    int64_t at = dyn_cpy_dict_next(o, 0, found);
    for (uint32_t seen = 0; seen < PLAN_SAMPLE && at != 0; seen++) {
        look_at(p, keys, found[0], depth);
        if (found[1] != NULL) {
            look_at(p, shape, found[1], depth);
        }
        at = dyn_cpy_dict_next(o, at, found);
    }
}

void plan_look_into(Plan *p, uint32_t shape, PyObject *o, int depth) {
    if (PyDict_Check(o) || PySet_CheckExact(o)) {
        look_into_dict(p, shape, o, depth);
        return;
    }
    if (PyTuple_CheckExact(o)) {
        look_at_parts(p, shape, o, depth);
    }
    const bool deque = !PyTuple_CheckExact(o) && !PyList_CheckExact(o);
    Py_ssize_t n = deque ? Py_SIZE(o) : PySequence_Fast_GET_SIZE(o), most = depth > 2 ? PLAN_SAMPLE : 8,
               step = n > most ? n / most : 1;
    for (Py_ssize_t i = 0, seen = 0; i < n && seen < most; i += step, seen++) {
        look_at(p, shape, deque ? dyn_cpy_deque_item(o, i) : PySequence_Fast_GET_ITEM(o, i), depth);
    }
}

/* ---- values */

static uint32_t byte_of(uint32_t bits) { return (bits & DYN_RL_BYTE) | (bits & ~DYN_RL_BYTE ? DYN_RL_OTHER : 0); }

uint32_t plan_bits(Plan *p, uint32_t shape) {
    const PlanShape *s = plan_shape(p, shape);
    uint32_t all = byte_of(s->bits);
    for (int depth = 1; depth < DYN_RL_DEPTH && (s->list | s->tuple) != 0; depth++) {
        const PlanShape *list = plan_shape(p, s->list), *tuple = plan_shape(p, s->tuple);
        all |= (byte_of(list->bits) | byte_of(tuple->bits)) << (8 * depth);
        s = s->list != 0 ? list : tuple;
    }
    return all | ~UINT32_C(0) << (8 * DYN_RL_DEPTH);
}

bool plan_shape_of(Plan *p, const PlanValue *v, PlanShape *out) {
    static const struct {
        DynRegionKind kind;
        uint32_t bit;
    } bits[] = {{DYN_RK_BOOL, DYN_RL_BOOL}, {DYN_RK_INT, DYN_RL_INT},        {DYN_RK_FLOAT, DYN_RL_FLOAT},
                {DYN_RK_LIST, DYN_RL_LIST}, {DYN_RK_DICT, DYN_RL_DICT},      {DYN_RK_INST, DYN_RL_INST},
                {DYN_RK_SET, DYN_RL_SET},   {DYN_RK_COMPLEX, DYN_RL_COMPLEX}};
    *out = (PlanShape){0};
    if (v->v.kind == DYN_RK_DICT && v->v.n != DYN_DICT_PLAIN) {
        return false; /* what reads it there looks for a dict itself */
    }
    for (size_t i = 0; i < DYN_COUNTOF(bits); i++) {
        out->bits |= (uint16_t)(bits[i].kind == (DynRegionKind)v->v.kind && !plan_is_np_complex(v) ? bits[i].bit : 0);
    }
    if (v->v.kind == DYN_RK_NP) {
        out->bits = v->v.dtype == DYN_F64 ? DYN_RL_NP_F64 : v->v.dtype == DYN_I64 ? DYN_RL_NP_I64 : 0;
    } else if (v->v.kind == DYN_RK_LIST && v->v.flags & DYN_RF_TUPLE) {
        out->bits = DYN_RL_TUPLE;
        out->tuple = (uint16_t)plan_contents(v);
    } else if (v->v.kind == DYN_RK_LIST) {
        out->list = (uint16_t)plan_contents(v);
    } else if (v->v.kind == DYN_RK_DICT || v->v.kind == DYN_RK_SET) {
        out->dict = (uint16_t)plan_contents(v);
    } else if (v->v.kind == DYN_RK_INST) {
        out->nclasses = 1;
        out->classes[0] = (uint8_t)plan_class_number(p, v);
    } else if (plan_object(p, v) == Py_None) {
        out->bits = DYN_RL_NONE;
    } else if (v->v.kind == DYN_RK_CHAR || (v->v.kind == DYN_RK_TEXT && v->v.n == DYN_TEXT_STR)) {
        out->bits = DYN_RL_STR;
    }
    return out->bits != 0;
}
