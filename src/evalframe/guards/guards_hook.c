/* guards_hook.c: captures made by hand, for tests of guards and rebuilding (tests/trace/test_guards.py). The functions are
 * private names of the extension; a capsule owns the capture and its program.
 *
 * A spec is (code, sources, symbols, guards, recipes), each a list of tuples:
 *   source (kind, base or -1, index, obj or None, key or None)
 *   symbol ("CONST", value) ("VAR", source, hint) ("DIM", source, axis, hint) (operator, a, b, c); positions in the list name
 * symbols guard  (kind, source or symbol, source2, number, obj or None, array whose layout is meant or None) recipe (kind, id,
 * obj or None, items) */
#include "evalframe/guards/guards.h"
#include "evalframe/rebuild.h"

static const char NAME[] = "dynoc.guards";
static const char *const recipe_names[] = {
#define RECIPE(k) #k,
    DYN_RECIPE_KINDS(RECIPE)
#undef RECIPE
};

typedef struct Made {
    DynCapture *c;
    DynGuardProgram *p;
    DYN_VEC(uint32_t)
    syms; /* by position in the spec */
} Made;

static void free_made(Made *m) {
    dyn_guards_free(m->p);
    dyn_capture_free(m->c);
    dyn_vec_free(&m->syms);
    PyMem_RawFree(m);
}

static void drop(PyObject *capsule) { free_made(PyCapsule_GetPointer(capsule, NAME)); }

/* The kind of this name, -1 with an exception set where there is none. Names stand `stride` bytes apart from `first` on. */
static int lookup(const char *const *first, size_t stride, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        const char *const *at = (const char *const *)((const char *)first + (size_t)i * stride);
        if (strcmp(*at, name) == 0) {
            return i;
        }
    }
    PyErr_Format(PyExc_ValueError, "no kind %s", name);
    return -1;
}

static int source_kind(const char *name) {
    return lookup(&dyn_source_rows[0].name, sizeof(dyn_source_rows[0]), DYN_SRC_COUNT, name);
}

static int guard_kind(const char *name) {
    return lookup(&dyn_guard_rows[0].name, sizeof(dyn_guard_rows[0]), DYN_GUARD_COUNT, name);
}

static int recipe_kind(const char *name) {
    return lookup(recipe_names, sizeof(recipe_names[0]), (int)DYN_COUNTOF(recipe_names), name);
}

static PyObject *or_null(PyObject *o) { return o == Py_None ? NULL : o; }

static int number(PyObject *o, DynSymType *type, DynScalar *out) {
    if (PyFloat_CheckExact(o)) {
        *type = DYN_T_FLOAT;
    } else {
        *type = PyBool_Check(o) ? DYN_T_BOOL : DYN_T_INT;
    }
    return dyn_guard_number(o, *type, out) ? 0 : (PyErr_SetString(PyExc_TypeError, "number"), -1);
}

static int add_source(Made *m, PyObject *row) {
    const char *kind;
    int base;
    unsigned index;
    PyObject *obj, *key;
    if (!PyArg_ParseTuple(row, "siIOO", &kind, &base, &index, &obj, &key)) {
        return -1;
    }
    int k = source_kind(kind);
    if (k < 0) {
        return -1;
    }
    uint32_t id = dyn_source_intern(&m->c->sources, (DynSourceKind)k, base < 0 ? DYN_NONE : (uint32_t)base, index, or_null(obj),
                                    or_null(key));
    return id == DYN_NONE ? -1 : 0;
}

static uint32_t sym_at(const Made *m, int at) { return at < 0 || (uint32_t)at >= m->syms.n ? DYN_NONE : m->syms.at[at]; }

/* The symbol at the position that the object says; NULL: the operator has no such operand. */
static uint32_t operand(const Made *m, PyObject *o) { return o == NULL ? DYN_NONE : sym_at(m, (int)PyLong_AsLong(o)); }

static int add_sym(Made *m, PyObject *row) {
    DynSyms *t = &m->c->syms;
    const char *name;
    PyObject *x, *hint = NULL, *z = NULL;
    DynScalar v = {.i = 0};
    DynSymType type;
    uint32_t id = DYN_NONE;
    if (!PyArg_ParseTuple(row, "sO|OO", &name, &x, &hint, &z)) {
        return -1;
    }
    if (strcmp(name, "CONST") == 0) {
        if (number(x, &type, &v) < 0) {
            return -1;
        }
        id = dyn_sym_constant(t, type, v);
    } else if (strcmp(name, "VAR") == 0) {
        if (number(hint, &type, &v) < 0) {
            return -1;
        }
        id = dyn_sym_var(t, type, (uint32_t)PyLong_AsLong(x), v);
    } else if (strcmp(name, "DIM") == 0) {
        id = dyn_sym_dim(t, (uint32_t)PyLong_AsLong(x), (int)PyLong_AsLong(hint), PyLong_AsLong(z));
    } else {
        for (int op = 0; op < DYN_S_COUNT; op++) {
            if (strcmp(dyn_sym_info[op].name, name) == 0) {
                id = dyn_sym_op(t, (DynSymOp)op, operand(m, x), operand(m, hint), operand(m, z));
            }
        }
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (id == DYN_NONE || dyn_vec_push(&m->syms, id) < 0) {
        PyErr_Format(PyExc_ValueError, "symbol %s", name);
        return -1;
    }
    return 0;
}

/* The source as an input that the graph reads. */
static int add_input(Made *m, uint32_t source) {
    DynGraph *g = &m->c->graph;
    uint32_t node = dyn_graph_add(g, DYN_OP_INPUT, DYN_F64, 0, 0, 0);
    if (node == DYN_NONE) {
        return -1;
    }
    dyn_graph_node(g, node)->source = source;
    uint32_t reader = dyn_vec_push(&g->inputs, node) < 0 ? DYN_NONE : dyn_graph_add(g, DYN_OP_NEGATIVE, DYN_F64, 0, 1, 0);
    if (reader == DYN_NONE) {
        return -1;
    }
    dyn_graph_node(g, reader)->args[0] = (DynArg){.kind = DYN_ARG_NODE, .id = node};
    return 0;
}

static int add_guard(Made *m, PyObject *row) {
    DynGuard g = {.place = DYN_NONE};
    const char *kind;
    int source, source2;
    PyObject *obj, *array;
    long long n;
    if (!PyArg_ParseTuple(row, "siiLOO", &kind, &source, &source2, &n, &obj, &array)) {
        return -1;
    }
    int k = guard_kind(kind);
    if (k < 0) {
        return -1;
    }
    g.kind = (uint8_t)k;
    g.source = dyn_guard_subject(&g) == DYN_ABOUT_SYMBOL ? sym_at(m, source) : (uint32_t)source;
    g.source2 = source2 < 0 ? DYN_NONE : (uint32_t)source2;
    g.number = n;
    g.obj = dyn_guard_rows[k].object == DYN_WANTS_ANY ? obj : or_null(obj); /* these may want None itself */
    if (k == DYN_GUARD_DISJOINT) {                                          /* of the inputs that both sources become */
        bool made = add_input(m, g.source) == 0 && add_input(m, g.source2) == 0;
        g.source2 = DYN_NONE;
        if (!made) {
            return -1;
        }
    }
    if (array != Py_None) {
        DynArrayView v;
        if (!dyn_array_view(array, &v)) {
            return -1;
        }
        dyn_layout_of(&v, &g.layout);
        g.number = (int64_t)v.dtype | (int64_t)v.ndim << 8 | n << 16;
    }
    return dyn_capture_guard(m->c, &g);
}

static int add_recipe(Made *m, PyObject *row) {
    const char *kind;
    unsigned id;
    PyObject *obj, *items;
    uint32_t n = 0, at[16];
    if (!PyArg_ParseTuple(row, "sIOO!", &kind, &id, &obj, &PyTuple_Type, &items)) {
        return -1;
    }
    int k = recipe_kind(kind);
    for (; n < PyTuple_GET_SIZE(items) && n < DYN_COUNTOF(at); n++) {
        at[n] = (uint32_t)PyLong_AsLong(PyTuple_GET_ITEM(items, n));
    }
    if (k < 0 || PyErr_Occurred()) {
        return -1;
    }
    if (k == DYN_RC_SYM) {
        id = sym_at(m, (int)id);
    }
    PyObject *held = k == DYN_RC_CONST ? obj : or_null(obj);
    return dyn_capture_recipe(m->c, (DynRecipeKind)k, id, held, n, at) == DYN_NONE ? -1 : 0;
}

static int add_all(Made *m, PyObject *rows, int (*add)(Made *, PyObject *)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        if (add(m, PyList_GET_ITEM(rows, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static PyObject *guards_new(PyObject *module, PyObject *args) {
    PyObject *code, *sources, *syms, *guards, *recipes, *capsule = NULL;
    if (!PyArg_ParseTuple(args, "OO!O!O!O!", &code, &PyList_Type, &sources, &PyList_Type, &syms, &PyList_Type, &guards,
                          &PyList_Type, &recipes)) {
        return NULL;
    }
    Made *m = PyMem_RawCalloc(1, sizeof(*m));
    if (m == NULL) {
        return PyErr_NoMemory();
    }
    m->c = dyn_capture_new(code, "test");
    bool made = m->c != NULL && add_all(m, sources, add_source) == 0 && add_all(m, syms, add_sym) == 0;
    made = made && add_all(m, guards, add_guard) == 0 && add_all(m, recipes, add_recipe) == 0;
    if (made && (m->p = dyn_guards_compile(m->c)) != NULL) {
        capsule = PyCapsule_New(m, NAME, drop);
    }
    if (capsule == NULL) {
        free_made(m);
    }
    return capsule != NULL || PyErr_Occurred() ? capsule : PyErr_NoMemory();
}

/* ---- calls */

typedef struct Call {
    Made *m;
    PyObject *func, *locals[16];
    PyObject *src[64];
    DynScalar sym[64];
    DynEnv env;
} Call;

static int read_call(PyObject *args, Call *call, long *n) {
    PyObject *capsule, *locals;
    if (!PyArg_ParseTuple(args, "OOO!|l", &capsule, &call->func, &PyTuple_Type, &locals, n)) {
        return -1;
    }
    call->m = PyCapsule_GetPointer(capsule, NAME);
    if (call->m == NULL) {
        return -1;
    }
    uint32_t nsrc, nsym;
    dyn_guards_sizes(call->m->p, &nsrc, &nsym);
    if (nsrc > DYN_COUNTOF(call->src) || nsym > DYN_COUNTOF(call->sym) ||
        PyTuple_GET_SIZE(locals) > (Py_ssize_t)DYN_COUNTOF(call->locals)) {
        PyErr_SetString(PyExc_ValueError, "too many");
        return -1;
    }
    memset(call->locals, 0, sizeof(call->locals));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); i++) { /* Ellipsis: an unbound local */
        call->locals[i] = PyTuple_GET_ITEM(locals, i) == Py_Ellipsis ? NULL : PyTuple_GET_ITEM(locals, i);
    }
    call->func = or_null(call->func);
    call->env = (DynEnv){call->src, call->sym};
    return 0;
}

/* The rebuilt recipes, each in a 1-tuple, or an empty tuple where the recipe is NULL. */
static PyObject *rebuilt(const Call *call) {
    uint32_t n = call->m->c->recipes.n, at[64];
    PyObject *out[64], *list = PyList_New(0);
    for (uint32_t i = 0; i < n && i < 64; i++) {
        at[i] = i;
    }
    if (list == NULL || n > 64 || dyn_rebuild(call->m->c, &call->env, NULL, dyn_no_effects, at, n, out) < 0) {
        Py_XDECREF(list);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        PyObject *cell = out[i] == NULL ? PyTuple_New(0) : PyTuple_Pack(1, out[i]);
        if (list != NULL && (cell == NULL || PyList_Append(list, cell) < 0)) {
            Py_CLEAR(list);
        }
        Py_XDECREF(cell);
        Py_XDECREF(out[i]);
    }
    return list;
}

/* None on a miss, else what the recipes give. */
static PyObject *guards_check(PyObject *module, PyObject *args) {
    Call call;
    long n = 0;
    if (read_call(args, &call, &n) < 0) {
        return NULL;
    }
    if (!dyn_guards_check(call.m->p, call.func, call.locals, &call.env)) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    PyObject *result = rebuilt(&call);
    dyn_env_clear(call.m->p, &call.env);
    return result;
}

static PyObject *guards_explain(PyObject *module, PyObject *args) {
    Call call;
    DynStr out = {0};
    long n = 0;
    if (read_call(args, &call, &n) < 0) {
        return NULL;
    }
    dyn_guards_explain(call.m->p, call.func, call.locals, &out);
    PyObject *text = PyUnicode_FromString(dyn_str_at(&out));
    dyn_str_free(&out);
    return text;
}

/* n checks: how many hit. */
static PyObject *guards_repeat(PyObject *module, PyObject *args) {
    Call call;
    long n = 0, hits = 0;
    if (read_call(args, &call, &n) < 0) {
        return NULL;
    }
    for (long i = 0; i < n; i++) {
        if (dyn_guards_check(call.m->p, call.func, call.locals, &call.env)) {
            dyn_env_clear(call.m->p, &call.env);
            hits++;
        }
    }
    return PyLong_FromLong(hits);
}

/* Each guard as text. */
static PyObject *guards_text(PyObject *module, PyObject *capsule) {
    Made *m = PyCapsule_GetPointer(capsule, NAME);
    PyObject *list = m == NULL ? NULL : PyList_New(0);
    for (uint32_t i = 0; list != NULL && i < m->c->guards.n; i++) {
        DynStr out = {0};
        dyn_guard_print(m->c, &m->c->guards.at[i], &out);
        PyObject *text = PyUnicode_FromString(dyn_str_at(&out));
        if (text == NULL || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
        dyn_str_free(&out);
    }
    return list;
}

/* The name of each kind of guard, what it looks at and what its object has to be, for tests of the table. */
static PyObject *guards_rows(PyObject *module, PyObject *unused) {
#define NAME_OF(k) #k,
    static const char *const subjects[] = {DYN_GUARD_SUBJECTS(NAME_OF)}, *const objects[] = {DYN_GUARD_OBJECTS(NAME_OF)};
#undef NAME_OF
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < DYN_GUARD_COUNT; i++) {
        const DynGuardRow *g = &dyn_guard_rows[i];
        PyObject *row = Py_BuildValue("sss", g->name, subjects[g->subject], objects[g->object]);
        if (row == NULL || PyList_Append(list, row) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(row);
    }
    return list;
}

/* The version tag that a CLASS guard on the class has as its number. */
static PyObject *guards_class_version(PyObject *module, PyObject *o) {
    if (!PyType_Check(o)) {
        return PyErr_Format(PyExc_TypeError, "no class");
    }
    PyObject *name = PyUnicode_InternFromString("__init__");
    if (name == NULL) {
        return NULL;
    }
    dyn_cpy_lookup_special((PyTypeObject *)o, name); /* gives it a tag where it has none */
    Py_DECREF(name);
    return PyLong_FromUnsignedLong(((PyTypeObject *)o)->tp_version_tag);
}

/* What the verifier of captures says, or None. */
static PyObject *guards_verify(PyObject *module, PyObject *capsule) {
    Made *m = PyCapsule_GetPointer(capsule, NAME);
    DynStr error = {0};
    if (m == NULL) {
        return NULL;
    }
    int status = dyn_capture_verify(m->c, &error);
    PyObject *text = status < 0 ? PyUnicode_FromString(dyn_str_at(&error)) : Py_NewRef(Py_None);
    dyn_str_free(&error);
    return text;
}

static PyMethodDef methods[] = {{"_guards_rows", guards_rows, METH_NOARGS, NULL},
                                {"_guards_new", guards_new, METH_VARARGS, NULL},
                                {"_guards_check", guards_check, METH_VARARGS, NULL},
                                {"_guards_explain", guards_explain, METH_VARARGS, NULL},
                                {"_guards_repeat", guards_repeat, METH_VARARGS, NULL},
                                {"_guards_verify", guards_verify, METH_O, NULL},
                                {"_guards_text", guards_text, METH_O, NULL},
                                {"_guards_class_version", guards_class_version, METH_O, NULL},
                                {NULL, NULL, 0, NULL}};

int dyn_guards_init_module(PyObject *module) { return PyModule_AddFunctions(module, methods); }
