/* graph_python_calls.c: extern calls in the Python program that graph_python.c writes of a graph.
 *
 * Called by graph_python.c for each extern node, with the GIL. Owns nothing. A call that has no text is stood for by random
 * arrays of the recorded shape, and the program says so. */
#include "base/cpy.h"
#include "ir/graph_python.h"

/* Is what is called the attribute of that name? */
static bool is_called(const DynExtern *x, PyObject *of) {
    PyObject *o = Py_XNewRef(of);
    char part[64];
    for (const char *c = x->name; o != NULL && *c != 0;) {
        size_t n = strcspn(c, ".");
        snprintf(part, sizeof part, "%.*s", (int)n, c);
        Py_SETREF(o, PyObject_GetAttrString(o, part));
        c += n + (c[n] == '.');
    }
    bool same = o != NULL && PyObject_RichCompareBool(o, x->callable, Py_EQ) == 1;
    Py_XDECREF(o);
    PyErr_Clear();
    return same;
}

/* Where NumPy has it; NULL: nowhere. */
static const char *home_of(const DynExtern *x) {
    PyObject *numpy = dyn_import("numpy");
    const char *home = NULL;
    if (is_called(x, numpy)) {
        home = "np.";
    } else if (is_called(x, (PyObject *)&PyArray_Type)) {
        home = "np.ndarray.";
    }
    Py_XDECREF(numpy);
    PyErr_Clear();
    return home;
}

/* Is its repr an expression that gives it again? */
static bool has_literal(PyObject *o) {
    PyTypeObject *t = Py_TYPE(o);
    if (t == &PyFloat_Type) {
        return PyFloat_AS_DOUBLE(o) - PyFloat_AS_DOUBLE(o) == 0; /* not of nan and infinities */
    }
    return o == Py_None || t == &PyBool_Type || t == &PyLong_Type || t == &PyUnicode_Type;
}

/* Does the program know this type by its bare name? */
static bool is_type_of_numbers(PyObject *o) {
    const PyTypeObject *const known[] = {&PyBool_Type, &PyLong_Type, &PyFloat_Type, &PyComplex_Type};
    bool found = false;
    for (size_t i = 0; i < DYN_COUNTOF(known); i++) {
        found = found || o == (const PyObject *)known[i];
    }
    return found;
}

/* Text that gives the same object again; false: there is none. */
static bool put_constant(DynStr *out, PyObject *o) {
    bool plain = o == Py_Ellipsis || has_literal(o);
    if (o == Py_Ellipsis) {
        dyn_str_puts(out, "...");
    } else if (PyArray_DescrCheck(o)) {
        PyObject *text = PyObject_GetAttrString(o, "str");
        dyn_str_printf(out, "np.dtype(\"%s\")", text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : "");
        plain = text != NULL && ((PyArray_Descr *)o)->type_num < NPY_OBJECT;
        Py_XDECREF(text);
    } else if (PyType_Check(o)) {
        const char *name = ((PyTypeObject *)o)->tp_name;
        bool numpy = strncmp(name, "numpy.", 6) == 0;
        plain = numpy || is_type_of_numbers(o);
        dyn_str_puts(out, numpy ? "np." : "");
        dyn_str_puts(out, numpy ? name + 6 : name);
    } else if (plain) {
        PyObject *text = PyObject_Repr(o);
        const char *c = text == NULL ? NULL : PyUnicode_AsUTF8(text);
        plain = c != NULL;
        dyn_str_puts(out, plain ? c : "");
        Py_XDECREF(text);
    }
    PyErr_Clear();
    return plain;
}

typedef struct Form { /* being walked */
    const DynPythonWriter *w;
    const DynForm *at;
    const DynArg *arg;
    uint32_t next; /* results: the node that the next array is */
} Form;

/* How an object made of the items that follow begins; NULL: the program has no text for such a form. */
static const char *beginning_of(const DynForm *form) {
    switch (form->kind) {
    case DYN_F_TUPLE: return "(";
    case DYN_F_LIST: return "[";
    case DYN_F_SLICE: return "slice(";
    case DYN_F_COMPLEX: return "complex(";
    default: return NULL;
    }
}

static uint32_t items_of(const DynForm *form) {
    switch (form->kind) {
    case DYN_F_SLICE: return 3;
    case DYN_F_COMPLEX: return 2;
    default: return form->n;
    }
}

static bool put_argument(Form *f, DynStr *out) {
    const DynForm *form = f->at++;
    bool can = true;
    if (form->kind == DYN_F_NODE || form->kind == DYN_F_NUMBER) {
        DynArg arg = *f->arg++;
        can = arg.kind == DYN_ARG_NODE || arg.kind == DYN_ARG_SYM;
        if (can) {
            dyn_str_puts(out, dyn_str_at(arg.kind == DYN_ARG_NODE ? node_name(f->w, arg.id) : sym_name(f->w, arg.id)));
        }
        return can;
    }
    if (form->kind == DYN_F_CONST) {
        return put_constant(out, form->obj);
    }
    const char *beginning = beginning_of(form);
    if (beginning == NULL) {
        return false;
    }
    uint32_t n = items_of(form);
    dyn_str_puts(out, beginning);
    for (uint32_t i = 0; i < n; i++) {
        dyn_str_puts(out, i > 0 ? ", " : "");
        can = put_argument(f, out) && can;
    }
    dyn_str_puts(out, form->kind == DYN_F_TUPLE && n == 1 ? "," : "");
    dyn_str_putc(out, form->kind == DYN_F_LIST ? ']' : ')');
    return can;
}

/* The arguments are one tuple, of which the last have names. */
static bool put_call(const DynPythonWriter *w, const DynExtern *x, const DynNode *n, DynStr *out) {
    Form f = {.w = w, .at = x->args + 1, .arg = n->args};
    uint32_t count = x->args[0].n, named = x->kwnames == NULL ? 0 : (uint32_t)PyTuple_GET_SIZE(x->kwnames);
    const char *home = home_of(x);
    bool can = x->args[0].kind == DYN_F_TUPLE && home != NULL;
    dyn_str_printf(out, "%s%s(", can ? home : "", x->name);
    for (uint32_t i = 0; can && i < count; i++) {
        dyn_str_puts(out, i > 0 ? ", " : "");
        if (i >= count - named) {
            dyn_str_printf(out, "%s=", PyUnicode_AsUTF8(PyTuple_GET_ITEM(x->kwnames, i - (count - named))));
        }
        can = put_argument(&f, out);
    }
    dyn_str_putc(out, ')');
    return can;
}

/* Arrays and numbers of a result, by where they stand in it. */
static void put_results(Form *f, DynStr *path) {
    const DynPythonWriter *w = f->w;
    const DynForm *form = f->at++;
    if (form->kind == DYN_F_NODE) {
        dyn_str_printf(w->out, "    %s = %s\n", dyn_str_at(node_name(w, f->next)), dyn_str_at(path));
        f->next++;
    } else if (form->kind == DYN_F_NUMBER && sym_name(w, form->n)->n > 0) {
        dyn_str_printf(w->out, "    %s = %s\n", dyn_str_at(sym_name(w, form->n)), dyn_str_at(path));
    } else if (form->kind == DYN_F_TUPLE || form->kind == DYN_F_LIST || form->kind == DYN_F_NAMED) {
        for (uint32_t i = 0; i < form->n; i++) {
            DynStr item = {0};
            dyn_str_printf(&item, "%s[%u]", dyn_str_at(path), i);
            put_results(f, &item);
            dyn_str_free(&item);
        }
    }
}

void dyn_python_put_random(const DynPythonWriter *w, const DynNode *n) {
    dyn_str_puts(w->out, "random((");
    for (int i = 0; i < n->ndim; i++) {
        dyn_sym_print_value(DYN_T_INT, dyn_sym_at(w->g->syms, n->shape[i])->hint, w->out);
        dyn_str_puts(w->out, dyn_python_behind_item(i, n->ndim));
    }
    dyn_str_puts(w->out, "), ");
    dyn_python_put_dtype(w->out, n->dtype);
    for (int i = 0; n->layout.kind != DYN_LAYOUT_C && i < n->ndim; i++) {
        dyn_str_printf(w->out, ", %d", n->layout.perm[i]);
    }
    dyn_str_putc(w->out, ')');
}

static bool is_result_of(const DynNode *n, uint32_t call) { return dyn_ops[n->op].kind == DYN_K_RESULT && n->args[0].id == call; }

void dyn_python_put_extern(const DynPythonWriter *w, uint32_t id) {
    const DynGraph *g = w->g;
    const DynNode *n = dyn_graph_node(g, id);
    const DynExtern *x = &g->externs.at[n->extern_index];
    DynStr call = {0}, path = {0};
    if (put_call(w, x, n, &call)) {
        Form f = {.w = w, .at = x->results, .next = id};
        bool one = x->nresults > 0 && x->results[0].kind == DYN_F_NODE;
        dyn_str_printf(&path, "r%u", id);
        dyn_str_printf(w->out, "    %s = %s", dyn_str_at(one ? node_name(w, id) : &path), dyn_str_at(&call));
        dyn_python_put_comment(w, n);
        if (x->nresults > 0 && !one) {
            put_results(&f, &path);
        }
    } else {
        for (uint32_t i = id; i < g->nodes.n && (i == id || is_result_of(&g->nodes.at[i], id)); i++) {
            dyn_str_printf(w->out, "    %s = ", dyn_str_at(node_name(w, i)));
            dyn_python_put_random(w, &g->nodes.at[i]);
            dyn_str_printf(w->out, "  # stands for what %s gives\n", x->name);
        }
    }
    dyn_str_free(&call);
    dyn_str_free(&path);
}
