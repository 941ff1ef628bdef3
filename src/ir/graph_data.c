/* graph_data.c: a capture's graph as plain Python data, from which src/dynoc/_capture.py makes nodes of dynoc.Graph; and calls of
 * other functions back from such data into a graph that was read as text (`python -m dynoc minify`).
 *
 * Called by evalframe/pyentry.c, evalframe/debug.c and codegen/build/selftest.c. Everything in it is a new tuple, str or int, or
 * an object that the graph holds anyway. */
#include "ir/capture.h"
#include "ir/extern.h"

static const char *const kinds[] = {[DYN_K_INPUT] = "input",   [DYN_K_ELEMENTWISE] = "elementwise",
                                    [DYN_K_REDUCE] = "reduce", [DYN_K_VIEW] = "view",
                                    [DYN_K_CREATE] = "create", [DYN_K_COPY] = "copy",
                                    [DYN_K_STORE] = "store",   [DYN_K_EXTERN] = "extern",
                                    [DYN_K_RESULT] = "result", [DYN_K_SCAN] = "scan",
                                    [DYN_K_GATHER] = "gather"};

static const char *const forms[] = {
    [DYN_F_NODE] = "node",    [DYN_F_NUMBER] = "number",     [DYN_F_CONST] = "const", [DYN_F_TUPLE] = "tuple",
    [DYN_F_LIST] = "list",    [DYN_F_NAMED] = "named",       [DYN_F_SLICE] = "slice", [DYN_F_COMPLEX] = "complex",
    [DYN_F_ATTR] = "attr",    [DYN_F_FUNCTION] = "function", [DYN_F_CELL] = "cell",   [DYN_F_SAME] = "same",
    [DYN_F_OBJECT] = "object"};

static const char *const recipes[] = {
#define RECIPE(k) [DYN_RC_##k] = #k,
    DYN_RECIPE_KINDS(RECIPE)
#undef RECIPE
};

/* A tuple whose items `item` gives; NULL with an exception. */
static PyObject *tuple_of(uint32_t n, PyObject *(*item)(const void *ctx, uint32_t i), const void *ctx) {
    PyObject *t = PyTuple_New(n);
    for (uint32_t i = 0; t != NULL && i < n; i++) {
        PyObject *o = item(ctx, i);
        if (o == NULL) {
            Py_CLEAR(t);
        } else {
            PyTuple_SET_ITEM(t, i, o);
        }
    }
    return t;
}

static PyObject *one_int(const void *ctx, uint32_t i) { return PyLong_FromLongLong(((const int64_t *)ctx)[i]); }
static PyObject *one_id(const void *ctx, uint32_t i) { return PyLong_FromUnsignedLong(((const uint32_t *)ctx)[i]); }
static PyObject *one_byte(const void *ctx, uint32_t i) { return PyLong_FromLong(((const uint8_t *)ctx)[i]); }

static PyObject *one_arg(const void *ctx, uint32_t i) {
    static const char *const names[] = {
        [DYN_ARG_NODE] = "node", [DYN_ARG_SYM] = "sym", [DYN_ARG_SOURCE] = "source", [DYN_ARG_NONE] = "none"};
    const DynArg *a = (const DynArg *)ctx + i;
    return Py_BuildValue("sI", names[a->kind], a->id);
}

static PyObject *place_of(const DynGraph *g, const DynNode *n) {
    const DynPlace *p = dyn_graph_place_at(g, n->where);
    if (p == NULL) {
        return Py_NewRef(Py_None);
    }
    PyCodeObject *code = (PyCodeObject *)p->code;
    return Py_BuildValue("OiO", code->co_filename, (int)p->line, code->co_name);
}

static PyObject *one_node(const void *ctx, uint32_t i) {
    const DynGraph *g = ctx;
    const DynNode *n = dyn_graph_node(g, i);
    int which;
    const char *at = n->op == DYN_OP_SCATTER && n->aux[0] >= 0 ? dyn_op_function((DynOp)n->aux[0], &which) : "";
    const char *function = dyn_op_function((DynOp)n->op, &which);
    return Py_BuildValue("{sssssssssisssssisNsNsNsNsnsNsIsI}", "op", dyn_ops[n->op].text, "kind", kinds[dyn_ops[n->op].kind],
                         "function", function, "at", at, "which", which, "dtype", dyn_dtypes[n->dtype].name, "compute",
                         dyn_dtypes[n->compute].name, "flags", (int)n->flags, "args", tuple_of(n->nargs, one_arg, n->args), "aux",
                         tuple_of(n->naux, one_int, n->aux), "shape", tuple_of(n->ndim, one_id, n->shape), "order",
                         tuple_of(n->ndim, one_byte, n->layout.perm), "extern",
                         n->extern_index == DYN_NONE ? (Py_ssize_t)-1 : (Py_ssize_t)n->extern_index, "place", place_of(g, n),
                         "source", n->source, "storage", n->storage);
}

static PyObject *one_symbol(const void *ctx, uint32_t i) {
    static const char *const types[] = {[DYN_T_INT] = "int", [DYN_T_FLOAT] = "float", [DYN_T_BOOL] = "bool"};
    const DynSyms *t = ctx;
    const DynSym *s = dyn_sym_at(t, i);
    PyObject *value = dyn_sym_object(t, i, s->op == DYN_S_CONST ? s->value : s->hint);
    uint32_t root = s->type == DYN_T_INT ? dyn_sym_root(t, i) : i;
    return value == NULL ? NULL
                         : Py_BuildValue("{sssssIsIsIsIsIsNsI}", "op", dyn_sym_info[s->op].name, "type", types[s->type], "index",
                                         (unsigned)s->index, "a", s->a, "b", s->b, "c", s->c, "after", s->after, "value", value,
                                         "root", root);
}

static PyObject *one_form(const void *ctx, uint32_t i) {
    const DynForm *f = (const DynForm *)ctx + i;
    return Py_BuildValue("sIO", forms[f->kind], f->n, f->obj == NULL ? Py_None : f->obj);
}

static PyObject *one_extern(const void *ctx, uint32_t i) {
    const DynExtern *x = &((const DynGraph *)ctx)->externs.at[i];
    return Py_BuildValue("{sOsOsssNsNsisisi}", "callable", x->callable, "keywords", x->kwnames == NULL ? Py_None : x->kwnames,
                         "name", x->name, "args", tuple_of(x->nargs, one_form, x->args), "results",
                         tuple_of(x->nresults, one_form, x->results), "acts", (int)(x->once || x->writes >= 0), "writes",
                         x->writes, "once", (int)(x->once && !x->inside));
}

static PyObject *one_source(const void *ctx, uint32_t i) {
    DynStr s = {0};
    dyn_source_print(ctx, i, &s);
    PyObject *text = s.failed ? PyErr_NoMemory() : PyUnicode_DecodeUTF8(dyn_str_at(&s), (Py_ssize_t)s.n, "replace");
    dyn_str_free(&s);
    return text;
}

static PyObject *one_recipe(const void *ctx, uint32_t i) {
    const DynRecipe *r = &((const DynCapture *)ctx)->recipes.at[i];
    return Py_BuildValue("sION", recipes[r->kind], r->id, r->obj == NULL ? Py_None : r->obj, tuple_of(r->n, one_id, r->items));
}

PyObject *dyn_capture_data(const DynCapture *c) {
    const DynGraph *g = &c->graph;
    bool returns = c->end == DYN_END_RETURN && c->done.n == 0;
    return Py_BuildValue("{sssisNsNsNsNsNsNsNsNsN}", "name", g->name, "device", (int)g->device, "nodes",
                         tuple_of(g->nodes.n, one_node, g), "inputs", tuple_of(g->inputs.n, one_id, g->inputs.at), "outputs",
                         tuple_of(g->outputs.n, one_id, g->outputs.at), "symbols", tuple_of(g->syms->v.n, one_symbol, g->syms),
                         "externs", tuple_of(g->externs.n, one_extern, g), "checks", tuple_of(g->checks.n, one_id, g->checks.at),
                         "sources", tuple_of(g->sources->v.n, one_source, g->sources), "recipes",
                         returns ? tuple_of(c->recipes.n, one_recipe, c) : PyTuple_New(0), "result",
                         returns ? PyLong_FromUnsignedLong(c->result) : Py_NewRef(Py_None));
}

/* ---- calls, the other way round */

static int read_form(PyObject *item, DynForm *out) {
    const char *name;
    unsigned count;
    PyObject *obj;
    uint8_t kind = 0;
    if (!PyArg_ParseTuple(item, "sIO", &name, &count, &obj)) {
        return -1;
    }
    while (kind < DYN_COUNTOF(forms) && strcmp(forms[kind], name) != 0) {
        kind++;
    }
    if (kind == DYN_COUNTOF(forms)) {
        PyErr_Format(PyExc_LookupError, "no such form: %s", name);
        return -1;
    }
    bool has_object = kind == DYN_F_CONST || obj != Py_None;
    *out = (DynForm){kind, count, has_object ? Py_NewRef(obj) : NULL};
    return 0;
}

/* Items of one_form's: their objects are new references. -1 with an exception: *n are there, and dropped with the row. */
static int read_forms(DynGraph *g, PyObject *items, DynForm **at, uint32_t *n) {
    if (items == NULL || !PyTuple_Check(items)) {
        PyErr_SetString(PyExc_LookupError, "a call has no form");
        return -1;
    }
    *at = DYN_NEW_N(g->arena, DynForm, (size_t)PyTuple_GET_SIZE(items) + 1);
    if (*at == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (*n = 0; *n < PyTuple_GET_SIZE(items); ++*n) {
        if (read_form(PyTuple_GET_ITEM(items, *n), &(*at)[*n]) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The numbers that a call gives are late symbols, counted in the order of the form; one that nobody reads is made here. */
static int name_numbers(DynGraph *g, const DynExtern *x, uint32_t id) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < x->nresults; i++) {
        DynForm *f = &x->results[i];
        if (f->kind != DYN_F_NUMBER) {
            continue;
        }
        uint32_t found = 0;
        for (const DynSym *s = g->syms->v.at; found < g->syms->v.n; found++, s++) {
            if (s->op == DYN_S_LATE && s->b == DYN_LATE_NUMBER && s->after == id + 1 && s->index == place) {
                break;
            }
        }
        bool is_read = found < g->syms->v.n;
        f->n =
            is_read ? found : dyn_sym_late(g->syms, (DynSymType)f->n, id, DYN_LATE_NUMBER, id, (int)place, (DynScalar){.i = 0});
        if (f->n == DYN_NONE) {
            PyErr_NoMemory();
            return -1;
        }
        place++;
    }
    return 0;
}

static int take_call(DynGraph *g, uint32_t id, PyObject *row) {
    PyObject *callable = PyDict_GetItemString(row, "callable"), *keywords = PyDict_GetItemString(row, "keywords");
    PyObject *name = PyDict_GetItemString(row, "name"), *writes = PyDict_GetItemString(row, "writes");
    const char *text = name == NULL ? NULL : PyUnicode_AsUTF8(name);
    if (callable == NULL || keywords == NULL || text == NULL || writes == NULL) {
        PyErr_SetString(PyExc_LookupError, "a call isn't whole");
        return -1;
    }
    DynExtern x = {.callable = Py_NewRef(callable), .writes = (int)PyLong_AsLong(writes)};
    x.kwnames = keywords == Py_None ? NULL : Py_NewRef(keywords);
    x.name = dyn_arena_strdup(g->arena, text);
    bool whole = x.name != NULL && x.writes < dyn_graph_node(g, id)->nargs &&
                 read_forms(g, PyDict_GetItemString(row, "args"), &x.args, &x.nargs) == 0 &&
                 read_forms(g, PyDict_GetItemString(row, "results"), &x.results, &x.nresults) == 0 &&
                 name_numbers(g, &x, id) == 0;
    if (!whole || dyn_vec_push(&g->externs, x) < 0) {
        dyn_extern_drop(&x);
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_LookupError, "a call isn't whole");
        }
        return -1;
    }
    dyn_graph_node(g, id)->extern_index = g->externs.n - 1;
    return 0;
}

int dyn_graph_take_calls(DynGraph *g, PyObject *calls) {
    PyObject *key, *row;
    for (Py_ssize_t at = 0; PyDict_Next(calls, &at, &key, &row);) {
        unsigned long id = PyLong_AsUnsignedLong(key);
        if (PyErr_Occurred()) {
            return -1;
        }
        if (id >= g->nodes.n || !dyn_node_calls(dyn_graph_node(g, (uint32_t)id)) || !PyDict_Check(row)) {
            PyErr_SetString(PyExc_LookupError, "that node is no call");
            return -1;
        }
        if (take_call(g, (uint32_t)id, row) < 0) {
            return -1;
        }
    }
    return 0;
}
