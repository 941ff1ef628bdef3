/* extern.c: makes the call of an EXTERN node and looks at what came out. Called by codegen/run/run.c and by the reference
 * interpreter, with the GIL; the recorder (rec_numpy_extern.c) makes the rows. The graph owns the references in them. */
#include "ir/extern.h"
#include "base/cpy.h"
#include "base/tensors.h"

void dyn_extern_drop(DynExtern *x) {
    Py_CLEAR(x->callable);
    Py_CLEAR(x->kwnames);
    Py_CLEAR(x->frame);
    for (uint32_t i = 0; i < x->nargs; i++) {
        Py_CLEAR(x->args[i].obj);
    }
    for (uint32_t i = 0; i < x->nresults; i++) {
        Py_CLEAR(x->results[i].obj);
    }
    x->nargs = x->nresults = 0;
}

static DynForm *copied_forms(const DynForm *forms, uint32_t n, DynArena *arena) {
    DynForm *copy = DYN_NEW_N(arena, DynForm, n + 1);
    for (uint32_t i = 0; copy != NULL && i < n; i++) {
        copy[i] = forms[i];
        Py_XINCREF(copy[i].obj);
    }
    return copy;
}

uint32_t dyn_extern_copy(const DynExtern *x, DynGraph *to) {
    DynExtern copy = *x;
    copy.name = dyn_arena_strdup(to->arena, x->name);
    copy.args = copied_forms(x->args, x->nargs, to->arena);
    copy.results = copied_forms(x->results, x->nresults, to->arena);
    copy.nargs = copy.args == NULL ? 0 : x->nargs;
    copy.nresults = copy.results == NULL ? 0 : x->nresults;
    Py_XINCREF(copy.callable);
    Py_XINCREF(copy.kwnames);
    Py_XINCREF(copy.frame);
    if (!DYN_ALLOCATED(copy.name, copy.args, copy.results) || dyn_vec_push(&to->externs, copy) < 0) {
        dyn_extern_drop(&copy);
        return DYN_NONE;
    }
    return to->externs.n - 1;
}

uint32_t dyn_graph_written(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    if (dyn_node_stores(n)) {
        return n->storage;
    }
    const DynExtern *x = dyn_graph_extern(g, n);
    int at = x != NULL ? x->writes : -1;
    return at < 0 ? DYN_NONE : dyn_graph_node(g, n->args[at].id)->storage;
}

bool dyn_graph_opens(const DynGraph *g, uint32_t id, uint32_t storage) {
    const DynNode *n = dyn_graph_node(g, id);
    const DynExtern *x = dyn_graph_extern(g, n);
    bool opens = x != NULL && x->opens, within = opens && dyn_ops[dyn_graph_node(g, storage)->op].kind == DYN_K_INPUT;
    for (uint32_t i = 0; opens && !within && i < n->nargs; i++) {
        within = n->args[i].kind == DYN_ARG_NODE && dyn_graph_node(g, n->args[i].id)->storage == storage;
    }
    return within;
}

uint32_t dyn_graph_counter(const DynGraph *g, const DynNode *store) {
    uint32_t at = store->args[0].id;
    while (dyn_graph_node(g, at)->flags & DYN_NODE_VIEW && !dyn_graph_is_data(dyn_graph_node(g, at))) {
        at = dyn_graph_node(g, at)->args[0].id;
    }
    return dyn_graph_is_data(dyn_graph_node(g, at)) ? at : store->storage;
}

/* ---- arguments */

typedef struct Builder {
    const DynForm *form; /* the next item */
    const DynArg *arg;   /* the next operand */
    DynExternValue value;
    void *ctx;
} Builder;

static PyObject *build(Builder *b);

static PyObject *build_function(Builder *b, PyObject *code) {
    PyObject *part[4] = {NULL}, *f = NULL;
    int n = 0;
    while (n < 4 && (part[n] = build(b)) != NULL) {
        n++;
    }
    if (n == 4) {
        f = PyFunction_New(code, part[0]);
    }
    if (f != NULL && (PyFunction_SetClosure(f, part[1]) < 0 || PyFunction_SetDefaults(f, part[2]) < 0 ||
                      PyFunction_SetKwDefaults(f, part[3]) < 0)) {
        Py_CLEAR(f);
    }
    for (int i = 0; i < 4; i++) {
        Py_XDECREF(part[i]);
    }
    return f;
}

static PyObject *build(Builder *b) {
    const DynForm *form = b->form++;
    PyObject *o;
    switch (form->kind) {
    case DYN_F_NODE:
    case DYN_F_NUMBER: return b->value(b->ctx, *b->arg++);
    case DYN_F_CONST: return Py_NewRef(form->obj);
    case DYN_F_ATTR: {
        PyObject *of = build(b);
        o = of == NULL ? NULL : PyObject_GetAttr(of, form->obj);
        Py_XDECREF(of);
        return o;
    }
    case DYN_F_CELL: {
        PyObject *content = build(b);
        o = content == NULL ? NULL : PyCell_New(content);
        Py_XDECREF(content);
        return o;
    }
    case DYN_F_FUNCTION: return build_function(b, form->obj);
    case DYN_F_COMPLEX: {
        PyObject *real = build(b), *imag = build(b);
        o = real == NULL || imag == NULL ? NULL : PyComplex_FromDoubles(PyFloat_AsDouble(real), PyFloat_AsDouble(imag));
        Py_XDECREF(real);
        Py_XDECREF(imag);
        return o;
    }
    case DYN_F_SLICE: {
        PyObject *part[3] = {NULL, NULL, NULL};
        for (int i = 0; i < 3 && (i == 0 || part[i - 1] != NULL); i++) {
            part[i] = build(b);
        }
        o = part[2] == NULL ? NULL : PySlice_New(part[0], part[1], part[2]);
        for (int i = 0; i < 3; i++) {
            Py_XDECREF(part[i]);
        }
        return o;
    }
    default: {
        bool list = form->kind == DYN_F_LIST;
        o = list ? PyList_New(form->n) : PyTuple_New(form->n);
        for (uint32_t i = 0; i < form->n && o != NULL; i++) {
            PyObject *item = build(b);
            if (item == NULL) {
                Py_CLEAR(o);
            } else if (list) {
                PyList_SET_ITEM(o, i, item);
            } else {
                PyTuple_SET_ITEM(o, i, item);
            }
        }
        return o;
    }
    }
}

/* ---- the call
 *
 * Who warns, looks at its caller's file, line and module; so the call is made in a frame that has the name, file, globals and
 * line of the function's own: that of a small function which calls on. */

_Thread_local PyObject *dyn_extern_calling;

/* A function that calls its first argument, with or without keywords. Borrowed, or NULL. */
static PyObject *template(bool keywords) {
    static PyObject *made[2];
    if (made[keywords] == NULL) {
        const char *text = keywords ? "lambda f, args, kwargs: f(*args, **kwargs)" : "lambda f, args: f(*args)";
        PyObject *code = Py_CompileString(text, "dynoc", Py_eval_input), *globals = code == NULL ? NULL : PyDict_New();
        made[keywords] = globals == NULL ? NULL : PyEval_EvalCode(code, globals, globals);
        Py_XDECREF(code);
        Py_XDECREF(globals);
    }
    return made[keywords];
}

/* A function that calls on from there, with or without keywords; NULL where nobody knows the place, or with an exception. */
static PyObject *make_frame(const DynPlace *at, bool keywords) {
    PyObject *from = template(keywords), *code = NULL, *frame = NULL;
    if (from == NULL || at == NULL || at->globals == NULL) {
        return NULL;
    }
    PyCodeObject *c = (PyCodeObject *)at->code;
    PyObject *replace = PyObject_GetAttrString(PyFunction_GET_CODE(from), "replace"), *none = PyTuple_New(0);
    PyObject *how = Py_BuildValue("{sOsOsOsi}", "co_name", c->co_name, "co_qualname", c->co_qualname, "co_filename",
                                  c->co_filename, "co_firstlineno", (int)at->line);
    if (replace != NULL && none != NULL && how != NULL) {
        code = PyObject_Call(replace, none, how);
    }
    if (code != NULL) {
        dyn_code_set_word((PyCodeObject *)code, DYN_CODE_OWN);
        frame = PyFunction_New(code, at->globals);
    }
    Py_XDECREF(replace);
    Py_XDECREF(none);
    Py_XDECREF(how);
    Py_XDECREF(code);
    return frame;
}

/* The call of `frame`, which make_frame made. */
static PyObject *call_from(PyObject *frame, PyObject *callable, PyObject *args, PyObject *keywords) {
    PyObject *stack[3] = {callable, args, keywords}, *result;
    Py_INCREF(frame); /* what is called may drop the graph */
    dyn_extern_calling = frame;
    result = PyObject_Vectorcall(frame, stack, keywords == NULL ? 2 : 3, NULL);
    dyn_extern_calling = NULL;
    Py_DECREF(frame);
    return result;
}

PyObject *dyn_extern_call_from(const DynPlace *at, PyObject *callable, PyObject *args) {
    PyObject *frame = make_frame(at, false), *result = NULL;
    if (frame != NULL) {
        result = call_from(frame, callable, args, NULL);
        Py_DECREF(frame);
    } else if (!PyErr_Occurred()) {
        result = PyObject_Call(callable, args, NULL);
    }
    return result;
}

/* Is it a method of ufuncs or of tensors that is written in C? */
static bool is_framework_method(PyObject *f) {
    if (Py_TYPE(f) != &PyMethodDescr_Type) {
        return false;
    }
    PyTypeObject *of = ((PyDescrObject *)f)->d_type;
    return of == &PyUFunc_Type || (dyn_torch_tensor != NULL && PyType_IsSubtype(dyn_torch_tensor, of)) ||
           (dyn_cupy_array != NULL && PyType_IsSubtype(dyn_cupy_array, of));
}

/* Is it an operator of arrays themselves, such as the one that stores items? */
static bool is_array_slot(PyObject *f) {
    return Py_TYPE(f) == &PyWrapperDescr_Type && dyn_arrays_loaded() && ((PyDescrObject *)f)->d_type == &PyArray_Type;
}

bool dyn_extern_stores_item(const DynExtern *x) {
    return is_array_slot(x->callable) &&
           ((PyWrapperDescrObject *)x->callable)->d_wrapped == (void *)PyArray_Type.tp_as_mapping->mp_ass_subscript;
}

static bool is_compiled(PyObject *callable) {
    PyObject *f = Py_NewRef(callable), *inner = PyObject_GetAttrString(f, "_implementation"); /* of a dispatcher */
    if (inner != NULL) {
        Py_SETREF(f, inner);
    }
    PyErr_Clear();
    bool compiled = Py_TYPE(f) == &PyUFunc_Type || PyCFunction_CheckExact(f) || is_framework_method(f) || is_array_slot(f);
    Py_DECREF(f);
    return compiled;
}

/* Complex numbers become real ones, which NumPy warns of by a ComplexWarning. */
static bool may_discard_parts(const DynGraph *g, const DynNode *n) {
    bool given = false;
    for (int i = 0; i < n->nargs; i++) {
        given |= n->args[i].kind == DYN_ARG_NODE && dyn_dtype_is_complex((DynDtype)dyn_graph_node(g, n->args[i].id)->dtype);
    }
    return given && !dyn_dtype_is_complex((DynDtype)n->dtype);
}

bool dyn_extern_warns_by_flags(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    DynExtern *x = &g->externs.at[n->extern_index];
    if (x->by_flags == 0) {
        x->by_flags = is_compiled(x->callable) && !may_discard_parts(g, n) ? 1 : 2;
    }
    return x->by_flags == 1;
}

static PyObject *keyword_dict(PyObject *names, PyObject *args, Py_ssize_t npos) {
    PyObject *d = PyDict_New();
    for (Py_ssize_t i = 0; d != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (PyDict_SetItem(d, PyTuple_GET_ITEM(names, i), PyTuple_GET_ITEM(args, npos + i)) < 0) {
            Py_CLEAR(d);
        }
    }
    return d;
}

static PyObject *call(const DynGraph *g, const DynNode *n, DynExtern *x, PyObject *args, bool silent) {
    Py_ssize_t npos = PyTuple_GET_SIZE(args) - (x->kwnames == NULL ? 0 : PyTuple_GET_SIZE(x->kwnames));
    if (silent) {
        return PyObject_Vectorcall(x->callable, &PyTuple_GET_ITEM(args, 0), (size_t)npos, x->kwnames);
    }
    if (x->frame == NULL && (x->frame = make_frame(dyn_graph_place_at(g, n->where), x->kwnames != NULL)) == NULL) {
        if (PyErr_Occurred()) {
            return NULL;
        }
        return PyObject_Vectorcall(x->callable, &PyTuple_GET_ITEM(args, 0), (size_t)npos, x->kwnames);
    }
    PyObject *positional = x->kwnames == NULL ? Py_NewRef(args) : PyTuple_GetSlice(args, 0, npos);
    PyObject *keywords = x->kwnames == NULL ? NULL : keyword_dict(x->kwnames, args, npos), *result = NULL;
    if (positional != NULL && (x->kwnames == NULL || keywords != NULL)) {
        result = call_from(x->frame, x->callable, positional, keywords);
    }
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return result;
}

/* ---- memory */

PyObject *dyn_extern_owner(PyObject *array) {
    while (PyArray_Check(array) && PyArray_BASE((PyArrayObject *)array) != NULL) {
        array = PyArray_BASE((PyArrayObject *)array);
    }
    return array;
}

/* Where the elements of an array or tensor lie, whatever else it is. */
static bool place_of(PyObject *o, DynArrayView *v) { return dyn_tensor_is(o) ? dyn_tensor_place(o, v) : dyn_array_view(o, v); }

bool dyn_extern_overlap(PyObject *a, PyObject *b) {
    DynArrayView v, w;
    return place_of(a, &v) && place_of(b, &w) ? dyn_views_overlap(&v, &w) : a == b;
}

bool dyn_extern_one_memory(PyObject *a, PyObject *b) {
    return dyn_tensor_is(a) || dyn_tensor_is(b) ? dyn_extern_overlap(a, b) : dyn_extern_owner(a) == dyn_extern_owner(b);
}

/* A result, and where it lies, which is asked once for all arguments. */
typedef struct Sharer {
    PyObject *result;
    bool viewed, known; /* somebody asked where it lies; it can be looked at */
    DynArrayView view;
} Sharer;

static bool overlaps(Sharer *s, PyObject *arg) {
    DynArrayView v;
    if (!s->viewed) {
        s->viewed = true;
        s->known = place_of(s->result, &s->view);
    }
    return s->known && place_of(arg, &v) ? dyn_views_overlap(&s->view, &v) : s->result == arg;
}

static bool shares(Sharer *s, PyObject *arg) {
    if (PyTuple_Check(arg) || PyList_Check(arg)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(arg); i++) {
            if (shares(s, PySequence_Fast_GET_ITEM(arg, i))) {
                return true;
            }
        }
        return false;
    }
    if (dyn_tensor_is(s->result) || dyn_tensor_is(arg)) {
        return overlaps(s, arg);
    }
    if (!PyArray_Check(s->result) || !PyArray_Check(arg)) {
        return false;
    }
    return PyArray_SIZE((PyArrayObject *)s->result) > 0 && dyn_extern_owner(s->result) == dyn_extern_owner(arg);
}

bool dyn_extern_shares(PyObject *result, PyObject *arg) {
    if (PyTuple_Check(result) || PyList_Check(result)) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(result); i++) {
            if (dyn_extern_shares(PySequence_Fast_GET_ITEM(result, i), arg)) {
                return true;
            }
        }
        return false;
    }
    Sharer s;
    s.result = result, s.viewed = false;
    return shares(&s, arg);
}

/* ---- results */

typedef struct Reader {
    const DynGraph *g;
    const DynForm *form;
    uint32_t first, node; /* the call's first array, and the next */
    PyObject **arrays;
    DynScalar *sym;
    PyObject *args;
    uint32_t viewed;   /* this node's array was looked at last, DYN_NONE: none was, */
    DynArrayView view; /* … and lies so */
} Reader;

/* Where the array of a node lies, which is asked of a tensor once, as mostly a call has one result; NULL: it can't be looked at.
 */
static const DynArrayView *view_of(Reader *r, uint32_t node) {
    if (r->viewed != node) {
        bool ok = place_of(r->arrays[node], &r->view);
        r->viewed = ok ? node : DYN_NONE;
    }
    return r->viewed == node ? &r->view : NULL;
}

/* Does a tensor require gradients as it did? A product in a part of a graph doesn't: the part has them (evalframe/follow.c). */
static bool requires_as_recorded(const DynNode *n, PyObject *tensor) {
    bool requires = dyn_tensor_requires_grad(tensor), in_part = dyn_ops[n->op].flags & DYN_OPF_PRODUCT && !requires;
    return in_part || requires == ((n->flags & DYN_NODE_GRAD) != 0);
}

/* Is it a tensor, a scalar or an array, as the node was when it was recorded? */
static bool is_of_recorded_kind(const DynNode *n, PyObject *o) {
    if (n->flags & DYN_NODE_TENSOR) {
        return dyn_tensor_is(o) && requires_as_recorded(n, o);
    }
    if (n->flags & DYN_NODE_NPSCALAR) {
        return !PyArray_Check(o) && PyArray_CheckScalar(o);
    }
    return PyArray_CheckExact(o);
}

/* Does an array lie as the next node's was when it was recorded? */
static bool lies_as_recorded(Reader *r, const DynNode *n, PyObject *array) {
    const DynArrayView *v = &r->view;
    r->viewed = dyn_array_look(array, &r->view) ? r->node : DYN_NONE;
    bool same_type = r->viewed != DYN_NONE && v->dtype == n->dtype && v->ndim == n->ndim;
    if (!same_type || !v->aligned || !dyn_layout_fits(&n->layout, v)) {
        return false;
    }
    return !(n->flags & DYN_NODE_DENSE) || dyn_layout_is_dense(&n->layout, v);
}

static bool read_array(Reader *r, PyObject *o) {
    const DynNode *n = dyn_graph_node(r->g, r->node);
    bool scalar = n->flags & DYN_NODE_NPSCALAR;
    if (!is_of_recorded_kind(n, o)) {
        return false;
    }
    PyObject *array = scalar ? PyArray_FromScalar(o, NULL) : Py_NewRef(o);
    if (array == NULL) {
        PyErr_Clear();
        return false;
    }
    bool ok = lies_as_recorded(r, n, array);
    for (uint32_t i = r->first; i < r->node && ok; i++) {
        ok = dyn_graph_node(r->g, i)->storage == n->storage || !dyn_extern_one_memory(r->arrays[i], array);
    }
    if (!ok) {
        Py_DECREF(array);
        return false;
    }
    r->arrays[r->node++] = array;
    return true;
}

static bool read_object(Reader *r, PyObject *type, PyObject *o) {
    if ((PyObject *)Py_TYPE(o) != type) {
        return false;
    }
    r->arrays[r->node++] = Py_NewRef(o);
    return true;
}

static bool read_number(Reader *r, uint32_t sym, PyObject *o) {
    const DynSym *s = dyn_sym_at(r->g->syms, sym);
    DynScalar *out = &r->sym[sym];
    if (s->type == DYN_T_FLOAT) {
        out->f = PyFloat_CheckExact(o) ? PyFloat_AS_DOUBLE(o) : 0;
        return PyFloat_CheckExact(o);
    }
    int overflow = 0;
    if (s->type == DYN_T_BOOL ? !PyBool_Check(o) : !PyLong_CheckExact(o)) {
        return false;
    }
    out->i = PyLong_AsLongLongAndOverflow(o, &overflow);
    return !overflow;
}

/* The exact type of a sequence of this form. */
static PyTypeObject *sequence_type(const DynForm *form) {
    if (form->kind == DYN_F_NAMED) {
        return (PyTypeObject *)form->obj;
    }
    return form->kind == DYN_F_LIST ? &PyList_Type : &PyTuple_Type;
}

static bool read_result(Reader *r, PyObject *o) {
    const DynForm *form = r->form++;
    switch (form->kind) {
    case DYN_F_NODE: return read_array(r, o);
    case DYN_F_NUMBER: return read_number(r, form->n, o);
    case DYN_F_CONST: return o == form->obj;
    case DYN_F_OBJECT: return read_object(r, form->obj, o);
    case DYN_F_SAME: return o == PyTuple_GET_ITEM(r->args, form->n);
    default:
        if (Py_TYPE(o) != sequence_type(form) || PySequence_Fast_GET_SIZE(o) != (Py_ssize_t)form->n) {
            return false;
        }
        for (uint32_t i = 0; i < form->n; i++) {
            if (!read_result(r, PySequence_Fast_GET_ITEM(o, i))) {
                return false;
            }
        }
        return true;
    }
}

/* Symbols that are known now, in the table's order, and what was taken for granted of them. */
static bool read_late(Reader *r, uint32_t id) {
    const DynGraph *g = r->g;
    for (uint32_t k = dyn_syms_first_late(g->syms, id); k < g->syms->late.n; k++) {
        uint32_t i = g->syms->late.at[k];
        const DynSym *s = dyn_sym_at(g->syms, i);
        if (s->after != id + 1) {
            break;
        }
        if (s->op != DYN_S_LATE) {
            if (dyn_sym_eval_row(g->syms, i, r->sym, &r->sym[i]) < 0) {
                return false;
            }
        } else if (s->b == DYN_LATE_SIZE) {
            const DynArrayView *v = view_of(r, s->a);
            if (v == NULL) {
                return false;
            }
            r->sym[i].i = v->dims[s->index];
        }
    }
    for (uint32_t i = 0; i < g->checks.n; i++) {
        uint32_t check = g->checks.at[i];
        if (dyn_sym_at(g->syms, check)->after == id + 1 && !r->sym[check].i) {
            return false;
        }
    }
    for (uint32_t k = r->first; k < r->node; k++) {
        const DynNode *n = dyn_graph_node(g, k);
        const DynArrayView *v = n->ndim > 0 ? view_of(r, k) : NULL;
        if (n->ndim > 0 && v == NULL) {
            return false;
        }
        for (int d = 0; d < n->ndim; d++) {
            if (r->sym[n->shape[d]].i != v->dims[d]) {
                return false;
            }
        }
    }
    return true;
}

PyObject *dyn_extern_raised(const DynExtern *x) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    PyTracebackObject *first = (PyTracebackObject *)tb;
    if (first != NULL && x->frame != NULL) { /* the frame that stood for the one which is rebuilt */
        PyCodeObject *code = PyFrame_GetCode(first->tb_frame);
        if ((PyObject *)code == PyFunction_GET_CODE(x->frame)) {
            Py_XINCREF(first->tb_next);
            tb = (PyObject *)first->tb_next;
            Py_DECREF(first);
        }
        Py_DECREF(code);
    }
    if (value != NULL) {
        PyException_SetTraceback(value, tb == NULL ? Py_None : tb);
    }
    Py_XDECREF(type);
    Py_XDECREF(tb);
    return value;
}

static bool take_result(Reader *r, uint32_t id, PyObject *result) {
    bool ok = read_result(r, result) && read_late(r, id);
    for (; !ok && r->node > r->first; r->node--) {
        Py_CLEAR(r->arrays[r->node - 1]);
    }
    return ok;
}

static Reader reader_of(const DynGraph *g, uint32_t id, PyObject **arrays, DynScalar *sym, PyObject *args) {
    Reader r;
    r.g = g, r.form = g->externs.at[dyn_graph_node(g, id)->extern_index].results;
    r.first = r.node = id;
    r.arrays = arrays, r.sym = sym, r.args = args;
    r.viewed = DYN_NONE;
    return r;
}

bool dyn_extern_take(const DynGraph *g, uint32_t id, PyObject *result, PyObject **arrays, DynScalar *sym) {
    Reader r = reader_of(g, id, arrays, sym, NULL);
    return take_result(&r, id, result);
}

DynExternStatus dyn_extern_run(const DynGraph *g, uint32_t id, DynExternValue value, void *ctx, PyObject **arrays, DynScalar *sym,
                               bool silent, PyObject **given) {
    const DynNode *n = dyn_graph_node(g, id);
    DynExtern *x = &g->externs.at[n->extern_index];
    Builder b = {x->args, n->args, value, ctx};
    PyObject *args = build(&b);
    if (args == NULL) {
        return DYN_EXTERN_ERROR;
    }
    PyObject *result = call(g, n, x, args, silent);
    if (result == NULL) {
        Py_DECREF(args);
        return DYN_EXTERN_ERROR;
    }
    Reader r = reader_of(g, id, arrays, sym, args);
    bool out = x->nresults == 1 && x->results[0].kind == DYN_F_SAME;
    bool ok = (out || !dyn_extern_shares(result, args)) && take_result(&r, id, result);
    *given = x->opens ? Py_NewRef(result) : NULL;
    Py_DECREF(result);
    Py_DECREF(args);
    return ok ? DYN_EXTERN_OK : DYN_EXTERN_OTHER;
}
