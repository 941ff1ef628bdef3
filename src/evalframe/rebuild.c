/* rebuild.c: recipes turned into Python objects. Called by the runner after a hit and by the code that leaves a graph in the
 * middle.
 *
 * Recipes are in the order in which their items come first, so one pass down marks what is needed and one pass up makes it;
 * nothing recurses. The memo holds a reference to each object until the end. */
#include "evalframe/hook.h"
#include "evalframe/rebuild.h"

enum { SMALL = 64 };
const DynEffects dyn_no_effects = {0, 0};

typedef struct Build {
    const DynCapture *c;
    const DynEnv *env;
    PyObject *const *outputs;
    PyObject **made; /* by recipe */
} Build;

/* ---- one recipe: new reference, or NULL with an exception set */

static PyObject *item(const Build *b, const DynRecipe *r, uint32_t k) {
    PyObject *o = b->made[r->items[k]];
    if (o == NULL) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a recipe's item is empty");
    }
    return o;
}

/* The first n items. */
static PyObject *make_items(const Build *b, const DynRecipe *r, uint32_t n, bool list) {
    PyObject *o = list ? PyList_New(n) : PyTuple_New(n);
    for (uint32_t k = 0; o != NULL && k < n; k++) {
        PyObject *x = item(b, r, k);
        if (x == NULL) {
            Py_CLEAR(o);
        } else if (list) {
            PyList_SET_ITEM(o, k, Py_NewRef(x));
        } else {
            PyTuple_SET_ITEM(o, k, Py_NewRef(x));
        }
    }
    if (o != NULL && !list) {
        dyn_cpy_tuple_filled(o);
    }
    return o;
}

static PyObject *make_dict(const Build *b, const DynRecipe *r) {
    PyObject *o = PyDict_New();
    for (uint32_t k = 0; o != NULL && k < r->n; k += 2) {
        PyObject *key = item(b, r, k), *value = item(b, r, k + 1);
        if (key == NULL || value == NULL || PyDict_SetItem(o, key, value) < 0) {
            Py_CLEAR(o);
        }
    }
    return o;
}

static PyObject *make_set(const Build *b, const DynRecipe *r) {
    PyObject *o = r->kind == DYN_RC_SET ? PySet_New(NULL) : PyFrozenSet_New(NULL); /* new: still to be filled */
    for (uint32_t k = 0; o != NULL && k < r->n; k++) {
        PyObject *x = item(b, r, k);
        if (x == NULL || PySet_Add(o, x) < 0) {
            Py_CLEAR(o);
        }
    }
    return o;
}

/* As the class's builtin base makes it, then its attributes from item `first` on, by no other code than object's. */
static PyObject *with_attributes(const Build *b, const DynRecipe *r, newfunc new, uint32_t first) {
    PyObject *none = PyTuple_New(0), *o = none == NULL ? NULL : new ((PyTypeObject *)r->obj, none, NULL);
    for (uint32_t k = first; o != NULL && k < r->n; k += 2) {
        PyObject *name = item(b, r, k), *value = item(b, r, k + 1);
        if (name == NULL || value == NULL || PyObject_GenericSetAttr(o, name, value) < 0) {
            Py_CLEAR(o);
        }
    }
    Py_XDECREF(none);
    return o;
}

static PyObject *make_object(const Build *b, const DynRecipe *r) { return with_attributes(b, r, PyBaseObject_Type.tp_new, 0); }

/* An instance that is a dict: filled by the base's own code. */
static PyObject *make_instance(const Build *b, const DynRecipe *r) {
    PyTypeObject *type = (PyTypeObject *)r->obj;
    PyObject *content = item(b, r, 0), *key, *value;
    PyObject *o = content == NULL ? NULL : with_attributes(b, r, type->tp_new, 1);
    Py_ssize_t pos = 0;
    while (o != NULL && PyDict_Next(content, &pos, &key, &value)) {
        int status = PyODict_Check(o) ? PyODict_SetItem(o, key, value) : PyDict_SetItem(o, key, value);
        if (status < 0) {
            Py_CLEAR(o);
        }
    }
    return o;
}

/* An iterator that can't be told where it stands. */
static PyObject *step_forward(PyObject *iterator, uint32_t n) {
    PyObject *item = NULL;
    for (uint32_t k = 0; k < n && (item = PyIter_Next(iterator)) != NULL; k++) {
        Py_DECREF(item);
    }
    if (item == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "dynoc: an iterator ends before its place");
    }
    if (item == NULL) {
        Py_CLEAR(iterator);
    }
    return iterator;
}

/* Do its iterators keep a position that can be set? */
static bool is_indexed(PyObject *container) {
    if (PyDict_Check(container) || PyAnySet_Check(container)) {
        return false;
    }
    return PySequence_Check(container) && !Py_IS_TYPE(container, dyn_deque_type);
}

/* obj: reversed, whose position counts down. */
static PyObject *make_iterator(const Build *b, const DynRecipe *r) {
    PyObject *container = item(b, r, 0);
    if (container == NULL) {
        return NULL;
    }
    PyObject *o = r->obj != NULL ? PyObject_CallOneArg(r->obj, container) : PyObject_GetIter(container);
    if (o == NULL || (r->id == 0 && r->obj == NULL)) {
        return o;
    }
    if (!is_indexed(container)) {
        return step_forward(o, r->id);
    }
    static PyObject *name;
    if (name == NULL) {
        name = PyUnicode_InternFromString("__setstate__");
    }
    PyObject *taken = PyLong_FromUnsignedLong(r->id);
    PyObject *done = name == NULL || taken == NULL ? NULL : PyObject_CallMethodOneArg(o, name, taken);
    if (done == NULL) {
        Py_CLEAR(o);
    }
    Py_XDECREF(done);
    Py_XDECREF(taken);
    return o;
}

static PyObject *make_range(const Build *b, const DynRecipe *r) {
    PyObject *start = item(b, r, 0), *stop = item(b, r, 1), *step = item(b, r, 2);
    if (start == NULL || stop == NULL || step == NULL) {
        return NULL;
    }
    PyObject *range = PyObject_Vectorcall((PyObject *)&PyRange_Type, (PyObject *[]){start, stop, step}, 3, NULL);
    if (range == NULL || r->kind == DYN_RC_RANGE) {
        return range;
    }
    PyObject *o = PyObject_GetIter(range);
    Py_DECREF(range);
    return o;
}

/* What a namedtuple's _make does: tuple.__new__(cls, items). */
static PyObject *make_named(const Build *b, const DynRecipe *r) {
    PyObject *items = item(b, r, 0), *args = items == NULL ? NULL : PyTuple_Pack(1, items);
    if (args == NULL) {
        return NULL;
    }
    PyObject *o = NULL;
    if (PyType_Check(r->obj) && PyType_IsSubtype((PyTypeObject *)r->obj, &PyTuple_Type)) {
        o = PyTuple_Type.tp_new((PyTypeObject *)r->obj, args, NULL);
    } else {
        PyErr_SetString(PyExc_SystemError, "dynoc: a NAMED recipe without a tuple type");
    }
    Py_DECREF(args);
    return o;
}

static PyObject *make_pair(const Build *b, const DynRecipe *r) {
    PyObject *function = item(b, r, 0), *self = function == NULL ? NULL : item(b, r, 1);
    if (self == NULL || Py_TYPE(function) != &PyMethodDescr_Type) {
        return self == NULL ? NULL : PyMethod_New(function, self);
    }
    return Py_TYPE(function)->tp_descr_get(function, self, (PyObject *)Py_TYPE(self));
}

static PyObject *make_slice(const Build *b, const DynRecipe *r) {
    PyObject *start = item(b, r, 0), *stop = item(b, r, 1), *step = item(b, r, 2);
    return start == NULL || stop == NULL || step == NULL ? NULL : PySlice_New(start, stop, step);
}

/* The function is called, which makes a generator that hasn't begun, and its frame is filled. */
static PyObject *make_generator(const Build *b, const DynRecipe *r) {
    PyObject *func = item(b, r, 0), *o = func == NULL ? NULL : dyn_call_with_nothing(func);
    if (o == NULL || !PyGen_CheckExact(o)) {
        if (o != NULL) {
            PyErr_SetString(PyExc_SystemError, "dynoc: a GENERATOR recipe whose function gives none");
        }
        Py_XDECREF(o);
        return NULL;
    }
    if (r->id == DYN_NONE) {
        PyObject *none = PyObject_CallMethod(o, "close", NULL);
        if (none == NULL) {
            Py_CLEAR(o);
        }
        Py_XDECREF(none);
        return o;
    }
    DynFrame *f = dyn_frame_of_generator(o);
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(dyn_frame_code(f)), n = r->n - 1;
    uint32_t nfilled = nslots + (uint32_t)dyn_frame_depth(f);
    bool begun = dyn_frame_position(f) != r->id;
    if (!dyn_frame_settle(f, dyn_frame_depth(f))) {
        Py_DECREF(o);
        return PyErr_NoMemory();
    }
    for (uint32_t i = 0; i < n; i++) {
        PyObject *value = Py_XNewRef(b->made[r->items[1 + i]]);
        PyObject *old = i < nfilled ? dyn_frame_take(f, i) : NULL;
        dyn_frame_put(f, i, value);
        Py_XDECREF(old);
    }
    if (begun) {
        dyn_generator_suspend(o, r->id, (int)(n - nslots));
    }
    return o;
}

static PyObject *make_complex(const Build *b, const DynRecipe *r) {
    PyObject *real = item(b, r, 0), *imag = real == NULL ? NULL : item(b, r, 1);
    return imag == NULL ? NULL : PyComplex_FromDoubles(PyFloat_AS_DOUBLE(real), PyFloat_AS_DOUBLE(imag));
}

/* Each of what a function is given may be NULL, which leaves it without. */
static int fill_function(PyObject *f, PyObject *closure, PyObject *defaults, PyObject *keywords) {
    if (closure != NULL && PyFunction_SetClosure(f, closure) < 0) {
        return -1;
    }
    if (defaults != NULL && PyFunction_SetDefaults(f, defaults) < 0) {
        return -1;
    }
    return keywords != NULL && PyFunction_SetKwDefaults(f, keywords) < 0 ? -1 : 0;
}

/* As MAKE_FUNCTION does. */
static PyObject *make_function(const Build *b, const DynRecipe *r) {
    PyObject *globals = item(b, r, 0), *f = globals == NULL ? NULL : PyFunction_New(r->obj, globals);
    if (f != NULL && fill_function(f, b->made[r->items[1]], b->made[r->items[2]], b->made[r->items[3]]) < 0) {
        Py_CLEAR(f);
    }
    if (f != NULL) {
        dyn_func_set_annotations(f, b->made[r->items[4]]);
    }
    return f;
}

static PyObject *make_call(const Build *b, const DynRecipe *r) {
    PyObject *args = make_items(b, r, r->n, false), *o = args == NULL ? NULL : PyObject_CallObject(r->obj, args);
    Py_XDECREF(args);
    for (uint32_t i = 0; o != NULL && i < r->id; i++) {
        PyObject *taken = PyIter_Next(o);
        if (taken == NULL && PyErr_Occurred()) {
            Py_CLEAR(o);
        }
        Py_XDECREF(taken);
    }
    return o;
}

static PyObject *make_attr(const Build *b, const DynRecipe *r) {
    PyObject *o = item(b, r, 0);
    return o == NULL ? NULL : PyObject_GetAttr(o, r->obj);
}

/* obj is the door by now (compile.c). */
static PyObject *make_inner(const Build *b, const DynRecipe *r) {
    PyObject *args = make_items(b, r, r->n - r->id, false), *more = args != NULL && r->id ? item(b, r, r->n - 1) : NULL;
    if (args != NULL && r->id && more == NULL) {
        Py_CLEAR(args);
    }
    return args == NULL ? NULL : dyn_inner_new(r->obj, args, more);
}

/* As dict.__new__ makes it, then its items one by one; no __init__ runs. */
static PyObject *make_mapping(const Build *b, const DynRecipe *r) {
    PyTypeObject *type = (PyTypeObject *)r->obj;
    PyObject *factory = b->made[r->items[0]], *content = item(b, r, 1), *none = content ? PyTuple_New(0) : NULL;
    PyObject *o = none ? type->tp_new(type, none, NULL) : NULL, *key, *value;
    Py_ssize_t pos = 0;
    if (o != NULL && factory != NULL && PyObject_SetAttrString(o, "default_factory", factory) < 0) {
        Py_CLEAR(o);
    }
    while (o != NULL && PyDict_Next(content, &pos, &key, &value)) {
        if (PyObject_SetItem(o, key, value) < 0) {
            Py_CLEAR(o);
        }
    }
    Py_XDECREF(none);
    return o;
}

static PyObject *take(PyObject *o, const char *what) {
    if (o == NULL) {
        PyErr_SetString(PyExc_SystemError, what);
    }
    return Py_XNewRef(o);
}

static PyObject *make(const Build *b, const DynRecipe *r) {
    switch ((DynRecipeKind)r->kind) {
    case DYN_RC_SOURCE: return take(b->env->src[r->id], "dynoc: a recipe's source is empty");
    case DYN_RC_CONST: return Py_NewRef(r->obj);
    case DYN_RC_OUTPUT: return take(b->outputs[r->id], "dynoc: a graph's output isn't there");
    case DYN_RC_SYM: return dyn_sym_object(&b->c->syms, r->id, b->env->sym[r->id]);
    case DYN_RC_TUPLE:
    case DYN_RC_LIST: return make_items(b, r, r->n, r->kind == DYN_RC_LIST);
    case DYN_RC_DICT: return make_dict(b, r);
    case DYN_RC_SET:
    case DYN_RC_FROZENSET: return make_set(b, r);
    case DYN_RC_OBJECT: return make_object(b, r);
    case DYN_RC_INSTANCE: return make_instance(b, r);
    case DYN_RC_SLICE: return make_slice(b, r);
    case DYN_RC_METHOD: return make_pair(b, r);
    case DYN_RC_ITER: return make_iterator(b, r);
    case DYN_RC_RANGE:
    case DYN_RC_RANGE_ITER: return make_range(b, r);
    case DYN_RC_NAMED: return make_named(b, r);
    case DYN_RC_MAPPING: return make_mapping(b, r);
    case DYN_RC_COMPLEX: return make_complex(b, r);
    case DYN_RC_FUNCTION: return make_function(b, r);
    case DYN_RC_CALL: return make_call(b, r);
    case DYN_RC_GENERATOR: return make_generator(b, r);
    case DYN_RC_ATTR: return make_attr(b, r);
    case DYN_RC_CELL: return PyCell_New(r->n == 0 ? NULL : b->made[r->items[0]]);
    case DYN_RC_INNER: return make_inner(b, r);
    case DYN_RC_RESULT: PyErr_SetString(PyExc_SystemError, "dynoc: no effect gave a recipe's value"); return NULL;
    case DYN_RC_NULL: break;
    }
    PyErr_SetString(PyExc_SystemError, "dynoc: an empty recipe has no value");
    return NULL;
}

/* ---- effects */

/* What the effect `at` gave goes to the recipes that ask for it. */
static void give(const Build *b, const uint8_t *need, uint32_t count, uint32_t at, PyObject *result) {
    for (uint32_t i = 0; result != NULL && result != Py_None && i < count; i++) {
        if (need[i] && b->c->recipes.at[i].kind == DYN_RC_RESULT && b->c->recipes.at[i].id == at) {
            Py_XSETREF(b->made[i], Py_NewRef(result));
        }
    }
}

/* A class's goes into its dict too, and the class gets a new version. */
static int set_attribute(PyObject *o, PyObject *name, PyObject *value) {
    return PyType_Check(o) ? PyType_Type.tp_setattro(o, name, value) : PyObject_GenericSetAttr(o, name, value);
}

static int perform(const Build *b, const DynEffect *e, PyObject **given) {
    PyObject *args[8], **at = args, *result;
    int status = -1;
    if (e->n > DYN_COUNTOF(args) && (at = PyMem_New(PyObject *, e->n)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t k = 0; k < e->n; k++) {
        at[k] = b->made[e->items[k]];
    }
    switch ((DynEffectKind)e->kind) {
    case DYN_FX_SETATTR: status = set_attribute(at[0], e->obj, at[1]); break;
    case DYN_FX_DELATTR: status = PyObject_GenericSetAttr(at[0], e->obj, NULL); break;
    case DYN_FX_SETITEM: status = PyObject_SetItem(at[0], at[1], at[2]); break;
    case DYN_FX_DELITEM: status = PyObject_DelItem(at[0], at[1]); break;
    case DYN_FX_SETCELL: status = PyCell_Set(at[0], e->n > 1 ? at[1] : NULL); break;
    case DYN_FX_HANDLED:
        Py_XDECREF(dyn_cpy_swap_handled(PyThreadState_Get(), Py_NewRef(at[0])));
        status = 0;
        break;
    case DYN_FX_CALL:
        result = PyObject_Vectorcall(e->obj, at, e->n, NULL);
        status = result == NULL ? -1 : 0;
        *given = result;
        break;
    }
    if (at != args) {
        PyMem_Free(at);
    }
    return status;
}

/* ---- many */

static uint32_t rows_of(const uint32_t *recipes, uint32_t n, uint32_t count) {
    for (uint32_t i = 0; i < n; i++) {
        count = recipes[i] + 1 > count ? recipes[i] + 1 : count;
    }
    return count;
}

static uint32_t rows_of_effects(const DynCapture *c, DynEffects fx, uint32_t count) {
    for (uint32_t i = fx.first; i < fx.first + fx.n; i++) {
        count = rows_of(c->effects.at[i].items, c->effects.at[i].n, count);
    }
    return count;
}

static void mark_some(const uint32_t *recipes, uint32_t n, uint8_t *need) {
    for (uint32_t i = 0; i < n; i++) {
        need[recipes[i]] = 1;
    }
}

/* What the effects and the recipes that are marked are made of, of the first `count`. */
static void mark(const DynCapture *c, DynEffects fx, uint8_t *need, uint32_t count) {
    for (uint32_t i = fx.first; i < fx.first + fx.n; i++) {
        mark_some(c->effects.at[i].items, c->effects.at[i].n, need);
    }
    for (uint32_t i = count; i-- > 0;) {
        const DynRecipe *r = &c->recipes.at[i];
        for (uint32_t k = 0; need[i] && k < r->n; k++) {
            need[r->items[k]] = 1;
        }
    }
}

enum { NEEDED = 1, LATE = 2 };

/* An iterator over a container that the effects fill can't be made before they did, nor what has it in it. One that stands within
 * its list as it is can: what the effects do to the list, they do behind its back. */
static bool has_to_wait(const Build *b, const DynRecipe *r, const uint8_t *need) {
    for (uint32_t k = 0; k < r->n; k++) {
        if (need[r->items[k]] == LATE) {
            return true;
        }
    }
    if (r->kind != DYN_RC_ITER) {
        return r->kind == DYN_RC_RESULT;
    }
    PyObject *container = b->made[r->items[0]];
    if (PyList_Check(container)) {
        return (size_t)PyList_GET_SIZE(container) < (size_t)r->id + (r->obj != NULL);
    }
    bool text = PyUnicode_Check(container) || PyBytes_Check(container);
    return !text && !PyTuple_Check(container) && !PyRange_Check(container);
}

static int make_one(const Build *b, uint32_t i) {
    const DynRecipe *r = &b->c->recipes.at[i];
    return r->kind == DYN_RC_NULL || b->made[i] != NULL || (b->made[i] = make(b, r)) != NULL ? 0 : -1;
}

/* What is late, and what it is made of. */
static int make_late(const Build *b, const uint8_t *need, uint32_t i) {
    const DynRecipe *r = &b->c->recipes.at[i];
    for (uint32_t k = 0; need[i] == LATE && k < r->n; k++) {
        if (make_late(b, need, r->items[k]) < 0) {
            return -1;
        }
    }
    return need[i] == LATE ? make_one(b, i) : 0;
}

/* Those of the first `count` recipes that are marked in `need`, and the effects. */
static int build(const Build *b, DynEffects fx, uint8_t *need, uint32_t count) {
    int status = 0;
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        if (need[i] && fx.n > 0 && has_to_wait(b, &b->c->recipes.at[i], need)) {
            need[i] = LATE;
        }
        status = need[i] == NEEDED ? make_one(b, i) : 0;
    }
    for (uint32_t i = fx.first; status == 0 && i < fx.first + fx.n; i++) {
        const DynEffect *e = &b->c->effects.at[i];
        for (uint32_t k = 0; status == 0 && k < e->n; k++) {
            status = make_late(b, need, e->items[k]);
        }
        PyObject *given = NULL;
        status = status < 0 ? -1 : perform(b, e, &given);
        give(b, need, count, e->row, given);
        Py_XDECREF(given);
    }
    for (uint32_t i = 0; status == 0 && i < count; i++) {
        status = need[i] == LATE ? make_one(b, i) : 0;
    }
    return status;
}

/* What there is without being made: the same object however often it is asked for, and whatever the effects do. Borrowed; NULL:
 * it has to be made, or is missing. */
static inline PyObject *there_is(const DynRecipe *r, const DynEnv *env, PyObject *const *outputs) {
    switch (r->kind) {
    case DYN_RC_SOURCE: return env->src[r->id];
    case DYN_RC_CONST: return r->obj;
    case DYN_RC_OUTPUT: return outputs[r->id];
    default: return NULL;
    }
}

/* The recipes at `which`, and the effects, by way of all that they are made of. */
static int rebuild_some(Build *b, DynEffects fx, const uint32_t *recipes, const uint32_t *which, uint32_t n, PyObject **out) {
    PyObject *small[SMALL];
    uint8_t small_need[SMALL];
    uint32_t count = rows_of_effects(b->c, fx, 0);
    int status = -1;
    for (uint32_t i = 0; i < n; i++) {
        count = rows_of(&recipes[which[i]], 1, count);
    }
    b->made = count > SMALL ? PyMem_Malloc(count * sizeof(*b->made)) : small;
    uint8_t *need = count > SMALL ? PyMem_Malloc(count) : small_need;
    if (b->made == NULL || need == NULL) {
        PyErr_NoMemory();
    } else {
        memset(b->made, 0, count * sizeof(*b->made));
        memset(need, 0, count);
        for (uint32_t i = 0; i < n; i++) {
            need[recipes[which[i]]] = 1;
        }
        mark(b->c, fx, need, count);
        status = build(b, fx, need, count);
        for (uint32_t i = 0; status == 0 && i < n; i++) {
            out[which[i]] = Py_XNewRef(b->made[recipes[which[i]]]);
        }
        for (uint32_t i = 0; i < count; i++) {
            Py_XDECREF(b->made[i]);
        }
    }
    if (count > SMALL) {
        PyMem_Free(b->made);
        PyMem_Free(need);
    }
    return status;
}

int dyn_rebuild(const DynCapture *c, const DynEnv *env, PyObject *const *outputs, DynEffects fx, const uint32_t *recipes,
                uint32_t n, PyObject **out) {
    uint32_t small[SMALL], *which = n > SMALL ? PyMem_Malloc(n * sizeof(*which)) : small, left = 0;
    Build b = {.c = c, .env = env, .outputs = outputs};
    int status = 0;
    if (which == NULL) {
        memset(out, 0, n * sizeof(*out));
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        const DynRecipe *r = &c->recipes.at[recipes[i]];
        out[i] = Py_XNewRef(there_is(r, env, outputs));
        if (out[i] == NULL && r->kind != DYN_RC_NULL) {
            which[left++] = i;
        }
    }
    if (left > 0 || fx.n > 0) {
        status = rebuild_some(&b, fx, recipes, which, left, out);
    }
    for (uint32_t i = 0; status < 0 && i < n; i++) {
        Py_CLEAR(out[i]);
    }
    if (n > SMALL) {
        PyMem_Free(which);
    }
    return status;
}

PyObject *dyn_rebuild_one(const DynCapture *c, const DynEnv *env, PyObject *const *outputs, DynEffects fx, uint32_t recipe) {
    const DynRecipe *r = &c->recipes.at[recipe];
    PyObject *out;
    if (r->n == 0 && fx.n == 0) {
        Build b = {.c = c, .env = env, .outputs = outputs};
        return make(&b, r);
    }
    return dyn_rebuild(c, env, outputs, fx, &recipe, 1, &out) < 0 ? NULL : out;
}

int dyn_rebuild_needs(const DynCapture *c, DynEffects fx, const uint32_t *recipes, uint32_t n, bool *need, uint32_t count) {
    uint8_t *marked = PyMem_Calloc(c->recipes.n + 1, 1);
    memset(need, 0, count * sizeof(*need));
    if (marked == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    uint32_t rows = rows_of_effects(c, fx, rows_of(recipes, n, 0));
    mark_some(recipes, n, marked);
    mark(c, fx, marked, rows);
    for (uint32_t i = 0; i < rows; i++) {
        if (marked[i] && c->recipes.at[i].kind == DYN_RC_OUTPUT && c->recipes.at[i].id < count) {
            need[c->recipes.at[i].id] = true;
        }
    }
    PyMem_Free(marked);
    return 0;
}
