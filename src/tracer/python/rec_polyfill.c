/* rec_polyfill.c: what stands in dynoc.polyfills. An iterator in C that is made while recording is followed by way of the Python
 * generator that stands there for it: each step is made by both, the generator first, which is recorded, and then the real
 * one, which finds what the generator took, and what functions gave it (rec_tap.c). So the program has the real object, with the
 * real result or exception; the generator says what that is made of. Where they differ the step isn't known.
 *
 * Called by rec_call.c and rec_lazy.c. A module of dynoc.polyfills is imported when a recording wants something of it. */
#include "tracer/python/rec_lazy_tools.h"
#include "tracer/record/rec_callables.h"

typedef struct Polyfill {
    const char *module, *name; /* where it stands in dynoc.polyfills */
    const char *roles;         /* of its parameters, in the order of its locals: REC_ITERABLE … */
} Polyfill;
static const Polyfill polyfills[] = {
    [REC_ACCUMULATE] = {"itertools", "accumulate", "i+v"},  [REC_BATCHED] = {"itertools", "batched", "ivv"},
    [REC_COMPRESS] = {"itertools", "compress", "ib"},       [REC_CYCLE] = {"itertools", "cycle", "i"},
    [REC_DROPWHILE] = {"itertools", "dropwhile", "pi"},     [REC_FROM_ITERABLE] = {"itertools", "from_iterable", "n"},
    [REC_PAIRWISE] = {"itertools", "pairwise", "i"},        [REC_TAKEWHILE] = {"itertools", "takewhile", "pi"},
    [REC_ZIP_LONGEST] = {"itertools", "zip_longest", "vi"},
};
static PyObject *add; /* operator.add */

PyObject *rec_polyfill(const char *module, const char *name) {
    char path[64];
    PyObject *type, *value, *tb, *found = NULL;
    PyErr_Fetch(&type, &value, &tb);
    int n = snprintf(path, sizeof path, "dynoc.polyfills.%s", module);
    PyObject *m = n > 0 && n < (int)sizeof path ? dyn_import(path) : NULL;
    found = m ? PyObject_GetAttrString(m, name) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(found); /* the module has it */
    PyErr_Clear();
    PyErr_Restore(type, value, tb);
    return found;
}

static int find_add(void) {
    PyObject *module = add == NULL ? dyn_import("operator") : NULL;
    if (module != NULL) {
        add = PyObject_GetAttrString(module, "add");
        Py_DECREF(module);
    }
    PyErr_Clear();
    return add == NULL ? -1 : 0;
}

/* ---- arguments: by the polyfill's parameters */

typedef struct Bound {
    PyCodeObject *code;
    uint32_t nnamed, n; /* parameters with names, and arguments in all: those of *args lie behind */
    DynOperand *given;  /* v NULL: left out */
    char *roles;
} Bound;

static int bind(DynRec *r, const Polyfill *p, PyObject *func, const RecCall *c, Bound *b) {
    PyCodeObject *code = b->code = (PyCodeObject *)PyFunction_GET_CODE(func);
    uint32_t npos = (uint32_t)code->co_argcount, rest = c->npos > npos ? c->npos - npos : 0;
    b->nnamed = npos + (uint32_t)code->co_kwonlyargcount;
    b->n = b->nnamed + rest;
    b->given = DYN_NEW_N(&r->arena, DynOperand, b->n + 1);
    b->roles = DYN_NEW_N(&r->arena, char, b->n + 1);
    if (b->given == NULL || b->roles == NULL) {
        return -1;
    }
    if (rest > 0 && !(code->co_flags & CO_VARARGS)) {
        return -1;
    }
    for (uint32_t i = 0; i < b->n; i++) {
        b->roles[i] = p->roles[i < b->nnamed ? i : b->nnamed];
    }
    for (uint32_t i = 0; i < c->npos; i++) {
        b->given[i < npos ? i : b->nnamed + i - npos] = c->args[i];
    }
    for (uint32_t k = 0; k < c->nkw; k++) {
        uint32_t i = (uint32_t)code->co_posonlyargcount;
        while (i < b->nnamed && PyUnicode_Compare(dyn_code_local_name(code, (int)i), PyTuple_GET_ITEM(c->kwnames, k)) != 0) {
            i++;
        }
        if (i == b->nnamed || b->given[i].v != NULL) {
            return -1;
        }
        b->given[i] = c->args[c->npos + k];
    }
    for (uint32_t i = 0; i < b->nnamed; i++) {
        DynOperand *o = &b->given[i];
        if (b->roles[i] == REC_ADDITION && (o->v == NULL || o->real == Py_None)) {
            *o = (DynOperand){dyn_rec_const(r, add), add};
        }
    }
    return 0;
}

/* A call with these values for the arguments: by position as far as that goes. */
static RecCall call_with(DynRec *r, const Bound *b, DynOperand callable, const DynOperand *values) {
    RecCall c = {.callable = callable, .args = DYN_NEW_N(&r->arena, DynOperand, b->n + 1)};
    PyObject *names = PyList_New(0);
    uint32_t npos = (uint32_t)b->code->co_argcount;
    bool gap = c.args == NULL || names == NULL;
    for (uint32_t i = 0; c.args != NULL && i < npos && !gap; i++) {
        gap = b->given[i].v == NULL;
        if (!gap) {
            c.args[c.npos++] = values[i];
        }
    }
    for (uint32_t i = b->nnamed; !gap && i < b->n; i++) {
        c.args[c.npos++] = values[i];
    }
    for (uint32_t i = c.npos < npos ? c.npos : npos; c.args != NULL && names != NULL && i < b->nnamed; i++) {
        if (b->given[i].v != NULL && PyList_Append(names, dyn_code_local_name(b->code, (int)i)) == 0) {
            c.args[c.npos + c.nkw++] = values[i];
        }
    }
    c.kwnames = c.nkw > 0 ? PyList_AsTuple(names) : NULL;
    if (c.kwnames != NULL) {
        rec_keep(r, c.kwnames);
        Py_DECREF(c.kwnames);
    }
    Py_XDECREF(names);
    PyErr_Clear();
    return c;
}

/* What the polyfill and what the original gets for one argument. */
static int tap(DynRec *r, char role, DynOperand *o, DynOperand *tapped, DynOperand *fed) {
    *tapped = *fed = *o;
    PyObject *feeder = NULL, *real;
    if (role == REC_VALUE) {
        return rec_keep(r, o->real);
    }
    if (role == REC_PREDICATE || role == REC_ADDITION) {
        real = rec_new_function_tap(r, *o, role, &feeder);
        tapped->v = real != NULL && rec_keep(r, o->real) == 0 ? rec_object(r, real) : NULL;
    } else {
        bool constant = o->v->kind == DV_CONST;
        *o = rec_get_iter_to_hold(r, *o);
        if (o->v == NULL) {
            return -1;
        }
        o->v->hidden = o->v->hidden || (constant && o->v->kind == DV_ITER);
        real = rec_new_tap(o->real, role, &feeder);
        tapped->v = real != NULL ? rec_tapped(r, *o, real) : NULL;
    }
    tapped->real = real;
    fed->real = feeder;
    bool made = feeder != NULL && tapped->v != NULL;
    int status = made && rec_keep(r, feeder) == 0 && rec_keep(r, real) == 0 ? 0 : -1;
    Py_XDECREF(real);
    Py_XDECREF(feeder);
    PyErr_Clear();
    return status;
}

/* ---- steps */

static bool same(PyObject *a, PyObject *b) {
    bool tuples = PyTuple_CheckExact(a) && PyTuple_CheckExact(b) && PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; tuples && i < PyTuple_GET_SIZE(a); i++) {
        tuples = PyTuple_GET_ITEM(a, i) == PyTuple_GET_ITEM(b, i);
    }
    return a == b || tuples;
}

/* The generator's step, and then the real one's, whose outcome it is. */
static DynVal *step(DynRec *r, DynVal *v, PyObject **item) {
    RecLazy *z = v->iter.lazy;
    DynVal *gave = NULL;
    PyObject *got = rec_generator_take(r, z->func, (DynOperand){dyn_rec_const(r, Py_None), Py_None}, &gave);
    PyErr_Clear();
    *item = Py_TYPE(z->object)->tp_iternext(z->object);
    bool raised = *item == NULL && PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_StopIteration);
    if (*item == NULL && !raised) {
        PyErr_Clear();
    }
    bool agree = !raised && (got == NULL) == (*item == NULL);
    agree = agree && (got == NULL || same(got, *item));
    Py_XDECREF(got);
    if (raised) {
        r->error = NULL;
    }
    return agree && gave != NULL && !r->take_lost ? gave : rec_take_failed(r, DYN_R_UNSUPPORTED_VALUE, "itertools");
}

DynVal *rec_on_polyfilled(DynRec *r, const RecCall *c, PyObject **result, int which) {
    const Polyfill *p = &polyfills[which];
    PyObject *func = rec_polyfill(p->module, p->name), *generator = NULL;
    RecLazy *z = func != NULL && PyFunction_Check(func) ? DYN_NEW(&r->arena, RecLazy) : NULL;
    Bound b;
    if (z == NULL || find_add() < 0 || bind(r, p, func, c, &b) < 0) {
        return REC_DECLINED;
    }
    DynOperand *tapped = DYN_NEW_N(&r->arena, DynOperand, b.n + 1), *fed = DYN_NEW_N(&r->arena, DynOperand, b.n + 1);
    for (uint32_t i = 0; tapped != NULL && fed != NULL && i < b.n; i++) {
        if (b.given[i].v != NULL && tap(r, b.roles[i], &b.given[i], &tapped[i], &fed[i]) < 0) {
            return REC_DECLINED;
        }
    }
    DynVal *fv = dyn_rec_const(r, func);
    z->from = DYN_NEW_N(&r->arena, DynOperand, b.n + 1);
    bool room = z->from != NULL && tapped != NULL && fed != NULL;
    if (!room || fv == NULL) {
        return REC_DECLINED;
    }
    RecCall real = call_with(r, &b, c->callable, fed), made = call_with(r, &b, c->callable, b.given);
    *result = rec_call_real(&real);
    if (*result == NULL) {
        return NULL;
    }
    RecCall inner = call_with(r, &b, (DynOperand){fv, func}, tapped);
    z->func.v = rec_call_function(r, &inner, &generator);
    z->func.real = generator;
    PyErr_Clear();
    bool made_generator = generator != NULL && z->func.v != NULL && z->func.v->kind == DV_GENERATOR;
    bool known = made_generator && rec_keep(r, generator) == 0;
    Py_XDECREF(generator);
    if (!known) {
        return rec_fail(r, DYN_R_OPAQUE_CALL, p->name);
    }
    for (uint32_t i = 0; i < b.n; i++) {
        if (b.roles[i] == REC_ITERABLE || b.roles[i] == REC_TRUTHS) {
            z->from[z->n++] = b.given[i];
        }
    }
    z->pools = made.args;
    z->nargs = made.npos + made.nkw;
    z->kwnames = made.kwnames;
    z->polyfill = p;
    return rec_lazy_made(r, z, rec_known_object(c->callable.real), step, *result);
}

/* ---- as recipes */

bool rec_is_polyfilled(const RecLazy *z) { return z->step == step; }

/* As it was made. */
static uint32_t recipe_at_start(DynRec *r, const RecLazy *z) {
    uint32_t n = 0, *items = DYN_NEW_N(&r->cap->arena, uint32_t, z->nargs + 2);
    PyObject *call = z->kwnames == NULL ? z->type : rec_polyfill("again", "call");
    if (items == NULL || call == NULL) {
        return DYN_NONE;
    }
    if (z->kwnames != NULL) {
        items[n++] = dyn_capture_constant(r->cap, z->type);
        items[n++] = dyn_capture_constant(r->cap, z->kwnames);
    }
    for (uint32_t i = 0; i < z->nargs; i++) {
        if ((items[n++] = rec_recipe(r, z->pools[i].v)) == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, call, n, items);
}

/* By a function beside the polyfill, of some of its locals. */
static uint32_t recipe_of_state(DynRec *r, const RecLazy *z) {
    const Polyfill *p = z->polyfill;
    char name[40];
    bool finished = rec_generator_finished(r, z->func.v);
    snprintf(name, sizeof name, "%s_again", p->name);
    PyObject *make = finished ? rec_polyfill("again", "ended") : rec_polyfill(p->module, name);
    PyCodeObject *code = make != NULL && PyFunction_Check(make) ? (PyCodeObject *)PyFunction_GET_CODE(make) : NULL;
    uint32_t n = code != NULL ? (uint32_t)code->co_argcount : 0, *items = DYN_NEW_N(&r->cap->arena, uint32_t, n + 1);
    if (code == NULL || items == NULL) {
        return DYN_NONE;
    }
    for (uint32_t i = 0; i < n; i++) {
        DynVal *local = finished ? NULL : rec_generator_local(r, z->func.v, dyn_code_local_name(code, (int)i));
        if (finished) {
            items[i] = dyn_capture_constant(r->cap, z->type);
        } else {
            items[i] = local == NULL ? DYN_NONE : rec_recipe(r, local);
        }
        if (items[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return dyn_capture_recipe(r->cap, DYN_RC_CALL, 0, make, n, items);
}

/* One that has given nothing may have ended all the same: a takewhile whose first item isn't taken. */
uint32_t rec_polyfill_recipe(DynRec *r, DynVal *v) {
    const RecLazy *z = v->iter.lazy;
    bool at_start = v->iter.position == 0 && !rec_generator_finished(r, z->func.v);
    return at_start ? recipe_at_start(r, z) : recipe_of_state(r, z);
}
