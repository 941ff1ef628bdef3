/* rec_numpy_extern.c: NumPy functions that stay calls of NumPy's own: products, linear algebra, sorting, sets, statistics. Only
 * those that are listed in bind.def, which have no effect but their result (or what they write into one operand). A rule may know
 * the sizes of the result; where none does they are late symbols (sym.h), and what is taken for granted of them is checked behind
 * the call. Called through the binding table, and by rules that have no kernel for a form. */
#include "base/cpy.h"
#include "ir/extern.h"
#include "base/torch.h"
#include "tracer/numpy/rec_np.h"

#define MAX_FORMS 160
#define MAX_OPERANDS 120

typedef struct Forms { /* a tree being written down */
    DynForm form[MAX_FORMS];
    DynArg arg[MAX_OPERANDS];
    uint32_t n, nargs;
    bool objects;   /* arguments may be objects of any type, as they are found at each call */
    bool functions; /* arguments may be Python functions too, which have no effects */
} Forms;

static int put_form(DynRec *r, Forms *f, DynFormKind kind, uint32_t n, PyObject *obj) {
    if (f->n == MAX_FORMS) {
        return dyn_np_unsupported(r), -1;
    }
    f->form[f->n++] = (DynForm){kind, n, obj}; /* borrowed till the row takes it */
    return 0;
}

/* ---- arguments */

static int put_operand(DynRec *r, Forms *f, DynFormKind kind, DynArg arg) {
    if (f->nargs == MAX_OPERANDS) {
        return dyn_np_unsupported(r), -1;
    }
    f->arg[f->nargs++] = arg;
    return put_form(r, f, kind, 0, NULL);
}

static bool is_scalar_or_dtype(PyObject *o) { return PyArray_CheckScalar(o) || PyArray_DescrCheck(o); }

/* Is it of a type whose values nobody can change? */
static bool has_unchangeable_type(PyObject *o) {
    PyTypeObject *const types[] = {&PyUnicode_Type, &PyBytes_Type, &PyLong_Type,  &PyFloat_Type,    &PyComplex_Type,
                                   &PyBool_Type,    &PySlice_Type, &PyUFunc_Type, Py_TYPE(Py_None), &PyEllipsis_Type};
    return rec_has_type_of(o, types, DYN_COUNTOF(types)) || PyType_Check(o) || is_scalar_or_dtype(o);
}

/* Is it the same at every call, and nothing that anybody can change? */
static bool is_plain_constant(PyObject *o) {
    if (PyTuple_CheckExact(o)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); i++) {
            if (!is_plain_constant(PyTuple_GET_ITEM(o, i))) {
                return false;
            }
        }
        return true;
    }
    if (PyCFunction_Check(o) && PyCFunction_GET_SELF(o) == NULL) {
        return true;
    }
    return has_unchangeable_type(o) || dyn_torch_is_constant(o) || dyn_np_is_no_value(o);
}

static int put_complex(DynRec *r, Forms *f, DynOperand o) {
    uint32_t parts[2];
    if (dyn_rec_complex(r, o.v, o.real, parts) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    return put_form(r, f, DYN_F_COMPLEX, 2, NULL) < 0 || put_operand(r, f, DYN_F_NUMBER, (DynArg){DYN_ARG_SYM, parts[0]}) < 0
               ? -1
               : put_operand(r, f, DYN_F_NUMBER, (DynArg){DYN_ARG_SYM, parts[1]});
}

static int put_argument(DynRec *r, Forms *f, DynOperand o);

/* The head of a tuple with n items, or None where there is no tuple. */
static int put_optional_tuple(DynRec *r, Forms *f, PyObject *tuple, uint32_t n) {
    DynFormKind kind = tuple == NULL ? DYN_F_CONST : DYN_F_TUPLE;
    return put_form(r, f, kind, n, tuple == NULL ? Py_None : NULL);
}

/* A cell of a closure, with what is in it. */
static int put_cell(DynRec *r, Forms *f, PyObject *cell, const DynVal *shadow) {
    PyObject *content = PyCell_GET(cell);
    DynVal *v = shadow->kind == DV_CELL ? shadow->cell.content : NULL;
    if (content == NULL || v == NULL || dyn_rec_resolve(r, v, content) < 0) {
        return -1;
    }
    return put_form(r, f, DYN_F_CELL, 1, NULL) < 0 ? -1 : put_argument(r, f, (DynOperand){v, content});
}

/* A function made while recording: made again for the call. The real ones of its parts are only looked at for constants. */
static int put_function(DynRec *r, Forms *f, DynOperand o) {
    PyObject *closure = PyFunction_GET_CLOSURE(o.real), *defaults = PyFunction_GET_DEFAULTS(o.real);
    DynVal *cells = o.v->function.closure, *values = o.v->function.defaults;
    if (o.v->function.globals == NULL || PyFunction_GET_KW_DEFAULTS(o.real) != NULL) {
        return dyn_np_unsupported(r), -1;
    }
    if (put_form(r, f, DYN_F_FUNCTION, 4, o.v->function.code) < 0 || put_form(r, f, DYN_F_CONST, 0, o.v->function.globals) < 0) {
        return -1;
    }
    if (put_optional_tuple(r, f, closure, cells == NULL ? 0 : cells->n) < 0) {
        return -1;
    }
    for (uint32_t i = 0; closure != NULL && i < cells->n; i++) {
        if (put_cell(r, f, PyTuple_GET_ITEM(closure, i), cells->items[i]) < 0) {
            return dyn_np_unsupported(r), -1;
        }
    }
    if (put_optional_tuple(r, f, defaults, defaults == NULL ? 0 : values->n) < 0) {
        return -1;
    }
    for (uint32_t i = 0; defaults != NULL && i < values->n; i++) {
        if (put_argument(r, f, (DynOperand){values->items[i], PyTuple_GET_ITEM(defaults, i)}) < 0) {
            return -1;
        }
    }
    return put_form(r, f, DYN_F_CONST, 0, Py_None);
}

static DynFormKind form_of_items(const DynVal *v) {
    if (v->kind == DV_TUPLE) {
        return DYN_F_TUPLE;
    }
    return v->kind == DV_LIST ? DYN_F_LIST : DYN_F_SLICE;
}

static int put_argument(DynRec *r, Forms *f, DynOperand o) {
    DynOperand items[64];
    uint32_t s;
    if (o.v->kind == DV_ARRAY || o.v->kind == DV_NPSCALAR || o.v->kind == DV_MADE) {
        return put_operand(r, f, DYN_F_NODE, (DynArg){DYN_ARG_NODE, rec_node_of(o.v)});
    }
    if (o.v->kind == DV_ATTR) {
        return put_form(r, f, DYN_F_ATTR, 1, o.v->attribute.name) < 0
                   ? -1
                   : put_operand(r, f, DYN_F_NODE, (DynArg){DYN_ARG_NODE, rec_node_of(o.v->attribute.of)});
    }
    if (PyComplex_CheckExact(o.real) && o.v->kind != DV_CONST) {
        return put_complex(r, f, o);
    }
    if ((s = dyn_rec_number(r, o.v, o.real)) != DYN_NONE) {
        return put_operand(r, f, DYN_F_NUMBER, (DynArg){DYN_ARG_SYM, s});
    }
    if (o.v->kind == DV_TUPLE || o.v->kind == DV_LIST || o.v->kind == DV_SLICE) {
        bool named = o.v->kind == DV_TUPLE && o.v->type != NULL && !dyn_is_tuple(o.real);
        int n = named ? -1 : dyn_np_items(r, o, items, (int)DYN_COUNTOF(items));
        if (n < 0 || put_form(r, f, form_of_items(o.v), (uint32_t)n, NULL) < 0) {
            return dyn_np_unsupported(r), -1;
        }
        for (int i = 0; i < n; i++) {
            if (put_argument(r, f, items[i]) < 0) {
                return -1;
            }
        }
        return 0;
    }
    if (f->functions && o.v->kind == DV_FUNC) {
        return put_function(r, f, o);
    }
    if (f->functions && o.v->kind == DV_CONST && PyCallable_Check(o.real)) {
        return put_form(r, f, DYN_F_CONST, 0, o.real);
    }
    if (f->objects && o.v->kind == DV_OBJECT && o.v->source != DYN_NONE) {
        return put_operand(r, f, DYN_F_NODE, (DynArg){DYN_ARG_SOURCE, o.v->source});
    }
    if (f->objects && o.v->kind == DV_CONST && !PyCallable_Check(o.real)) {
        return put_form(r, f, DYN_F_CONST, 0, o.real);
    }
    if (!is_plain_constant(o.real) || dyn_rec_burn(r, o.v, o.real) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    return put_form(r, f, DYN_F_CONST, 0, o.real);
}

/* ---- results */

static bool is_array_value(PyObject *o) { return dyn_array_is(o) || (PyArray_CheckScalar(o) && !PyArray_Check(o)); }

/* The first array in a result, in the order of a walk; NULL: there is none. Borrowed. */
static PyObject *first_array(PyObject *o) {
    PyObject *found = is_array_value(o) ? o : NULL;
    bool items = PyTuple_Check(o) || PyList_CheckExact(o);
    for (Py_ssize_t i = 0; items && found == NULL && i < PySequence_Fast_GET_SIZE(o); i++) {
        found = first_array(PySequence_Fast_GET_ITEM(o, i));
    }
    return found;
}

typedef struct Results {
    Forms *f;
    uint32_t call;
    PyObject *arrays[32]; /* so far: of the call's own node and those behind it */
    uint32_t narrays;
    const uint32_t *shape; /* sizes that a rule knows, of the arrays that come, or NULL */
    bool object;           /* the call makes an object */
} Results;

/* The rank of an array value; 0 of a NumPy scalar. */
static int rank_of(PyObject *o, DynArrayView *view) { return dyn_array_look(o, view) ? view->ndim : 0; }

static int late_shape(DynRec *r, uint32_t call, uint32_t node, PyObject *array) {
    DynArrayView view;
    for (int d = 0, n = rank_of(array, &view); d < n; d++) {
        DynScalar hint = {.i = view.dims[d]};
        uint32_t s = dyn_sym_late(dyn_rec_syms(r), DYN_T_INT, call, DYN_LATE_SIZE, node, d, hint);
        if (s == DYN_NONE) {
            return -1;
        }
        dyn_np_node_at(r, node)->shape[d] = s;
    }
    return 0;
}

/* Arrays that are parts of one piece of memory (the columns that nonzero gives) have one storage. */
static void share_storage(DynRec *r, Results *x, uint32_t node, PyObject *array) {
    for (uint32_t i = 0; i < x->narrays; i++) {
        if (dyn_extern_one_memory(x->arrays[i], array)) {
            dyn_np_node_at(r, node)->storage = dyn_np_node_at(r, x->call + i)->storage;
            return;
        }
    }
}

/* Is it a tensor whose elements lie in that layout, without gaps? */
static bool is_dense_tensor(PyObject *o, const DynLayout *layout) {
    DynArrayView view;
    return dyn_torch_is(o) && dyn_array_look(o, &view) && dyn_layout_is_dense(layout, &view);
}

static DynVal *array_result(DynRec *r, Results *x, PyObject *o) {
    uint32_t node = x->call;
    DynDtype dt = dyn_np_dtype_of(o);
    DynArrayView view;
    if (x->narrays == DYN_COUNTOF(x->arrays)) {
        return dyn_np_unsupported(r);
    }
    if (x->narrays > 0) {
        node = dt == DYN_NO_DTYPE ? DYN_NONE : dyn_np_add(r, DYN_OP_RESULT, dt, rank_of(o, &view), 1, 0);
        if (node == DYN_NONE) {
            return dyn_np_unsupported(r);
        }
        dyn_np_node_at(r, node)->args[0] = (DynArg){DYN_ARG_NODE, x->call};
    }
    share_storage(r, x, node, o);
    x->arrays[x->narrays++] = o;
    if (x->shape != NULL) {
        memcpy(dyn_np_node_at(r, node)->shape, x->shape, sizeof(*x->shape) * dyn_np_node_at(r, node)->ndim);
        x->shape += dyn_np_node_at(r, node)->ndim;
    } else if (late_shape(r, x->call, node, o) < 0) {
        return dyn_np_refuse(r, DYN_R_NO_MEMORY);
    }
    DynVal *v = put_form(r, x->f, DYN_F_NODE, 0, NULL) < 0 ? NULL : dyn_np_result(r, node, o);
    if (v != NULL && is_dense_tensor(o, &dyn_np_node_at(r, node)->layout)) {
        dyn_np_node_at(r, node)->flags |= DYN_NODE_DENSE;
    }
    return v;
}

static bool is_number(PyObject *o) { return PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o); }

static DynSymType type_of_number(PyObject *o) {
    if (PyBool_Check(o)) {
        return DYN_T_BOOL;
    }
    return PyFloat_CheckExact(o) ? DYN_T_FLOAT : DYN_T_INT;
}

static int numbers_so_far(const Forms *f) {
    int n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        n += f->form[i].kind == DYN_F_NUMBER;
    }
    return n;
}

static DynVal *number_result(DynRec *r, Results *x, PyObject *o) {
    int overflow = 0, place = numbers_so_far(x->f);
    DynSymType type = type_of_number(o);
    DynScalar hint;
    if (type == DYN_T_FLOAT) {
        hint.f = PyFloat_AS_DOUBLE(o);
    } else {
        hint.i = PyLong_AsLongLongAndOverflow(o, &overflow);
    }
    uint32_t s = overflow ? DYN_NONE : dyn_sym_late(dyn_rec_syms(r), type, x->call, DYN_LATE_NUMBER, x->call, place, hint);
    return s == DYN_NONE || put_form(r, x->f, DYN_F_NUMBER, s, NULL) < 0 ? dyn_np_unsupported(r) : dyn_rec_sym(r, s);
}

static DynVal *object_result(DynRec *r, Results *x, PyObject *o) {
    DynVal *v = put_form(r, x->f, DYN_F_OBJECT, 0, (PyObject *)Py_TYPE(o)) < 0 ? NULL : dyn_rec_made(r, x->call);
    dyn_np_node_at(r, x->call)->flags |= DYN_NODE_OBJECT;
    return v;
}

static DynVal *put_result(DynRec *r, Results *x, PyObject *o) {
    DynVal *items[32];
    if (x->object) {
        return object_result(r, x, o);
    }
    if (is_array_value(o)) {
        return array_result(r, x, o);
    }
    if (is_number(o)) {
        return number_result(r, x, o);
    }
    if (o == Py_None) {
        return put_form(r, x->f, DYN_F_CONST, 0, o) < 0 ? NULL : dyn_rec_const(r, o);
    }
    bool list = PyList_CheckExact(o),
         named = PyTuple_Check(o) && (PyObject_HasAttrString((PyObject *)Py_TYPE(o), "_make") || dyn_torch_is_named(Py_TYPE(o)));
    if (!list && !named && !PyTuple_CheckExact(o)) {
        return dyn_np_unsupported(r);
    }
    Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
    DynFormKind kind = list ? DYN_F_LIST : DYN_F_TUPLE;
    if (named) {
        kind = DYN_F_NAMED;
    }
    if (n > (Py_ssize_t)DYN_COUNTOF(items) || put_form(r, x->f, kind, (uint32_t)n, named ? (PyObject *)Py_TYPE(o) : NULL) < 0) {
        return dyn_np_unsupported(r);
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if ((items[i] = put_result(r, x, PySequence_Fast_GET_ITEM(o, i))) == NULL) {
            return NULL;
        }
    }
    DynVal *v = dyn_rec_seq(r, list ? DV_LIST : DV_TUPLE, (uint32_t)n, items, o);
    if (v != NULL && named) {
        v->type = (PyObject *)Py_TYPE(o); /* the row holds it */
    }
    return v;
}

/* ---- the node */

static int take_forms(DynRec *r, const Forms *f, DynForm **at, uint32_t *n) {
    *at = DYN_NEW_N(dyn_rec_graph(r)->arena, DynForm, f->n + 1);
    if (*at == NULL) {
        return dyn_np_refuse(r, DYN_R_NO_MEMORY), -1;
    }
    memcpy(*at, f->form, sizeof(*f->form) * f->n);
    *n = f->n;
    for (uint32_t i = 0; i < f->n; i++) {
        Py_XINCREF(f->form[i].obj);
    }
    return 0;
}

/* The row of a call that was made; the graph drops its references from then on. */
static DynExtern *new_row(DynRec *r, uint32_t call, PyObject *callable, const char *name, PyObject *kwnames, const Forms *args) {
    DynGraph *g = dyn_rec_graph(r);
    DynExtern x = {.name = dyn_arena_strdup(g->arena, name), .writes = -1};
    if (x.name == NULL || dyn_vec_push(&g->externs, x) < 0) {
        dyn_np_refuse(r, DYN_R_NO_MEMORY);
        return NULL;
    }
    dyn_np_node_at(r, call)->extern_index = g->externs.n - 1;
    DynExtern *row = &g->externs.at[g->externs.n - 1];
    row->callable = Py_NewRef(callable);
    row->kwnames = kwnames == NULL || PyTuple_GET_SIZE(kwnames) == 0 ? NULL : Py_NewRef(kwnames);
    return take_forms(r, args, &row->args, &row->nargs) < 0 ? NULL : row;
}

/* Which operand of the node is graph node `id`? */
static int operand_number(const Forms *f, uint32_t id) {
    uint32_t i = 0;
    while (i < f->nargs && (f->arg[i].kind != DYN_ARG_NODE || f->arg[i].id != id)) {
        i++;
    }
    return (int)i;
}

typedef struct Effect {
    int writes; /* the argument whose memory the call changes (its result is None), or -1 */
    bool once;
    bool makes;    /* the result is an object that nobody else has */
    bool maps;     /* it calls a function that it is given, which has no effects */
    bool launches; /* what it is given may be any constant, and functions that look at the numbers of the call */
    bool out;      /* the argument that it writes is its result */
    bool in_place; /* the argument that it writes is its result and its first argument */
    bool opens;    /* other code runs in it (DynExtern) */
} Effect;
static const Effect none = {.writes = -1};

static bool is_one_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Is it an array, and what the call gave? */
static bool is_result(DynOperand o, PyObject *result) { return o.real == result && o.v->kind == DV_ARRAY; }

/* Which argument is out= (of an in-place operator the first), if the call was given one and it is the result. -1: none. */
static int out_argument(const DynOperand *args, int npos, PyObject *kwnames, PyObject *result, const char *name) {
    static const char *const third[] = {"dot", "matmul", "vecdot", "matvec", "vecmat"};
    static const char *const first[] = {"iadd", "isub", "imul", "itruediv", "ifloordiv", "imod",   "ipow",
                                        "iand", "ior",  "ixor", "ilshift",  "irshift",   "imatmul"};
    if (npos == 3 && is_result(args[2], result) && is_one_of(name, third, DYN_COUNTOF(third))) {
        return 2;
    }
    if (npos == 2 && is_result(args[0], result) && is_one_of(name, first, DYN_COUNTOF(first))) {
        return 0;
    }
    for (int i = 0, n = kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(kwnames); i < n; i++) {
        bool out = PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "out") == 0;
        if (out && is_result(args[npos + i], result)) {
            return npos + i;
        }
    }
    return -1;
}

/* The method that a callable of the tables is for `self`: the tables have the methods of ndarray, and NumPy's scalars have their
 * own of the same names. Borrowed, or NULL. */
static PyObject *method_of(PyObject *callable, PyObject *self) {
    if (Py_TYPE(callable) != &PyMethodDescr_Type || PyObject_TypeCheck(self, ((PyDescrObject *)callable)->d_type)) {
        return callable;
    }
    return dyn_cpy_lookup_special(Py_TYPE(self), ((PyDescrObject *)callable)->d_name);
}

/* The array whose memory a write into v changes: v itself, or what an attribute (x.flat) is of. */
static DynVal *array_behind(DynVal *v) { return v != NULL && v->kind == DV_ATTR ? v->attribute.of : v; }

/* The shadow of what a call gave: the argument that it wrote, where that is its result. */
static DynVal *result_of(DynRec *r, Results *x, const DynOperand *args, PyObject *result, Effect effect) {
    if (!effect.out) {
        return put_result(r, x, result);
    }
    return put_form(r, x->f, DYN_F_SAME, (uint32_t)effect.writes, NULL) < 0 ? NULL : args[effect.writes].v;
}

/* shape: the sizes of the result where a rule knows them, or NULL. */
static DynVal *call_node(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                         PyObject *result, const uint32_t *shape, Effect effect) {
    int n = npos + (kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(kwnames));
    Forms f = {.n = 0, .objects = effect.once || effect.maps || effect.launches}, out = {.n = 0};
    if (put_form(r, &f, DYN_F_TUPLE, (uint32_t)n, NULL) < 0) {
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        f.functions = (effect.maps && i == 0) || effect.launches;
        if (put_argument(r, &f, args[i]) < 0) {
            return NULL;
        }
        if (!effect.out && dyn_extern_shares(result, args[i].real)) { /* a view: only a rule can say of what */
            return dyn_np_unsupported(r);
        }
    }
    if (effect.opens && dyn_np_add_shown(r, f.arg, &f.nargs, MAX_OPERANDS) < 0) {
        return dyn_np_unsupported(r);
    }
    PyObject *first = effect.makes || effect.out ? NULL : first_array(result);
    DynDtype dt = first == NULL ? DYN_BOOL : dyn_np_dtype_of(first);
    DynArrayView view;
    int ndim = first == NULL ? 0 : rank_of(first, &view);
    uint32_t call =
        dt == DYN_NO_DTYPE || ndim > DYN_MAX_NDIM ? DYN_NONE : dyn_np_add(r, DYN_OP_EXTERN, dt, ndim, (int)f.nargs, 0);
    if (call == DYN_NONE) {
        return dyn_np_unsupported(r);
    }
    memcpy(dyn_np_node_at(r, call)->args, f.arg, sizeof(*f.arg) * f.nargs);
    callable = npos > 0 ? method_of(callable, args[0].real) : callable;
    if (callable == NULL) {
        return dyn_np_unsupported(r);
    }
    DynExtern *row = new_row(r, call, callable, name, kwnames, &f);
    if (row == NULL) {
        return NULL;
    }
    const DynVal *written = effect.writes < 0 ? NULL : array_behind(args[effect.writes].v);
    row->writes = written == NULL ? -1 : operand_number(&f, rec_node_of(written));
    row->once = effect.once;
    row->opens = effect.opens;
    row->inside = effect.once && !effect.opens && n > 0 && args[0].v->kind == DV_MADE;
    dyn_rec_capture(r)->writes |= effect.once && !row->inside;
    Results x = {.f = &out, .call = call, .shape = shape, .object = effect.makes};
    DynVal *v = result_of(r, &x, args, result, effect);
    row = &dyn_rec_graph(r)->externs.at[dyn_np_node_at(r, call)->extern_index];
    if (v == NULL || take_forms(r, &out, &row->results, &row->nresults) < 0) {
        return NULL;
    }
    dyn_np_node_at(r, call)->op = dyn_np_call_operator(r, call, row);
    if (written != NULL && dyn_torch_is(args[effect.writes].real)) {
        rec_torch_changed(r, call, rec_node_of(written), args[effect.writes].real);
    }
    return v;
}

/* out=(c,) is out=c: a function that took the tuple and gave c back takes c too. */
static DynOperand without_tuple(DynRec *r, DynOperand o, PyObject *result) {
    DynOperand item;
    bool one = PyTuple_CheckExact(o.real) && PyTuple_GET_SIZE(o.real) == 1 && PyTuple_GET_ITEM(o.real, 0) == result;
    return one && dyn_np_items(r, o, &item, 1) == 1 ? item : o;
}

/* Some in-place functions of torch's give their operand other sizes. */
static bool has_sizes(DynRec *r, DynOperand o) {
    const DynNode *n = dyn_np_node_at(r, rec_node_of(o.v));
    DynArrayView view;
    bool same = dyn_array_look(o.real, &view) && view.ndim == n->ndim;
    for (int i = 0; i < n->ndim && same; i++) {
        same = dyn_np_hint(r, n->shape[i]) == view.dims[i];
    }
    return same;
}

/* Is the result the first argument, an array of the sizes that it had? */
static bool gives_first_back(DynRec *r, const DynOperand *args, int npos, PyObject *result) {
    return npos > 0 && is_result(args[0], result) && has_sizes(r, args[0]);
}

/* A call whose arguments weren't looked at yet. Nodes that it adds are taken back where it fails. */
static DynVal *whole_call(DynRec *r, PyObject *callable, const char *name, const DynOperand *given, int npos, PyObject *kwnames,
                          PyObject *result, Effect effect) {
    int n = npos + (kwnames == NULL ? 0 : (int)PyTuple_GET_SIZE(kwnames));
    DynOperand *args = DYN_NEW_N(dyn_rec_graph(r)->arena, DynOperand, (size_t)n + 1);
    if (args == NULL) {
        return dyn_np_refuse(r, DYN_R_NO_MEMORY);
    }
    for (int i = 0; i < n; i++) {
        bool out = i >= npos && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i - npos), "out") == 0;
        if (dyn_np_resolve(r, given[i], 0) < 0) {
            return NULL;
        }
        args[i] = out ? without_tuple(r, given[i], result) : given[i];
    }
    int to = -1;
    if (effect.in_place) {
        to = 0;
    } else if (effect.writes < 0) {
        to = out_argument(args, npos, kwnames, result, name);
    }
    if (effect.in_place && !gives_first_back(r, args, npos, result)) {
        return dyn_np_unsupported(r);
    }
    if (to >= 0 && !effect.in_place && dyn_torch_is(args[to].real)) { /* PyTorch gives it another size where it doesn't fit */
        return dyn_np_unsupported(r);
    }
    effect.out = to >= 0;
    if (effect.out) {
        effect.writes = to;
        if (dyn_rec_will_write(r, rec_node_of(args[to].v)) < 0) {
            return NULL;
        }
    } else if (effect.writes >= 0) {
        DynVal *w = effect.writes < npos ? array_behind(args[effect.writes].v) : NULL;
        if ((result != Py_None && !effect.makes) || w == NULL || w->kind != DV_ARRAY) {
            return dyn_np_unsupported(r);
        }
        if (dyn_rec_will_write(r, rec_node_of(w)) < 0) {
            return NULL;
        }
    }
    uint32_t nnodes = dyn_rec_graph(r)->nodes.n;
    return dyn_np_take_back(r, nnodes, call_node(r, callable, name, args, npos, kwnames, result, NULL, effect));
}

DynVal *dyn_np_extern(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                      PyObject *result) {
    return whole_call(r, callable, name, args, npos, kwnames, result, none);
}

DynVal *dyn_np_extern_write(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                            PyObject *result) {
    return whole_call(r, callable, name, args, npos, kwnames, result, (Effect){.writes = 0});
}

DynVal *dyn_np_extern_in_place(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                               PyObject *kwnames, PyObject *result) {
    return whole_call(r, callable, name, args, npos, kwnames, result, (Effect){.writes = -1, .in_place = true});
}

DynVal *dyn_np_extern_launch(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                             PyObject *result, int writes) {
    return whole_call(r, callable, name, args, npos, kwnames, result,
                      (Effect){.writes = writes, .once = writes < 0, .makes = true, .launches = true});
}

DynVal *dyn_np_extern_once(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                           PyObject *result) {
    return whole_call(r, callable, name, args, npos, kwnames, result, (Effect){.writes = -1, .once = true});
}

DynVal *dyn_np_extern_made(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                           PyObject *result) {
    bool value = is_number(result) || is_array_value(result);
    return whole_call(r, callable, name, args, npos, kwnames, result, (Effect){.writes = -1, .makes = !value});
}

DynVal *dyn_np_extern_open(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos, PyObject *kwnames,
                           PyObject *result) {
    bool made = !is_number(result) && result != Py_None;
    return whole_call(r, callable, name, args, npos, kwnames, result,
                      (Effect){.writes = -1, .once = true, .opens = true, .makes = made});
}

static bool is_array_of_rank(DynRec *r, DynOperand o, int ndim) {
    return o.v != NULL && o.v->kind == DV_ARRAY && dyn_np_node_at(r, rec_node_of(o.v))->ndim == ndim;
}

/* Is the result a list of a few numbers from a vector? They are known one by one. */
static bool few_numbers(DynRec *r, const NpCall *c) {
    Py_ssize_t n = PyList_CheckExact(c->result) ? PyList_GET_SIZE(c->result) : 0;
    if (n == 0 || n > 16) {
        return false;
    }
    if (c->npos != 1 || !is_array_of_rank(r, c->args[0], 1)) {
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (!is_number(PyList_GET_ITEM(c->result, i))) {
            return false;
        }
    }
    return dyn_rec_assume_equal(r, dyn_np_node_at(r, rec_node_of(c->args[0].v))->shape[0], dyn_np_int(r, n)) == 0;
}

/* A function that makes an object: np.random.default_rng, x.tolist. */
DynVal *np_rule_make(DynRec *r, NpCall *c) {
    if (few_numbers(r, c)) {
        return dyn_np_extern(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
    }
    return dyn_np_extern_made(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
}

/* A function without a rule of its own. */
DynVal *np_rule_call(DynRec *r, NpCall *c) {
    return dyn_np_extern(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
}

/* The same for one that changes its first operand and returns None. */
DynVal *np_rule_call_write(DynRec *r, NpCall *c) {
    return dyn_np_extern_write(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
}

/* np.apply_along_axis (operator 0) and np.vectorize (1), which makes an object, call the function that they are given. */
DynVal *np_rule_mapped(DynRec *r, NpCall *c) {
    Effect effect = {.writes = -1, .maps = true, .makes = c->b->op == 1};
    if (c->npos < 1 || !rec_is_pure(r, c->args[0], c->b->op == 1)) {
        return dyn_np_unsupported(r);
    }
    return whole_call(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result, effect);
}

DynVal *dyn_np_mapped_call(DynRec *r, PyObject *callable, const DynOperand *args, int npos, PyObject *kwnames, PyObject *result) {
    return whole_call(r, callable, "vectorize.__call__", args, npos, kwnames, result, (Effect){.writes = -1, .maps = true});
}

/* ---- random numbers */

/* A permutation has the sizes of what is permuted; of a number it is that long. */
static int sizes_of_permuted(DynRec *r, DynOperand x, PyObject *result, uint32_t *shape) {
    DynArrayView view;
    int ndim = rank_of(result, &view);
    if (is_array_of_rank(r, x, ndim)) {
        memcpy(shape, dyn_np_node_at(r, rec_node_of(x.v))->shape, sizeof(*shape) * (size_t)ndim);
        return 0;
    }
    uint32_t n = ndim == 1 && PyLong_CheckExact(x.real) ? dyn_np_int_sym(r, x) : DYN_NONE;
    shape[0] = n;
    return n == DYN_NONE ? -1 : dyn_np_assume_op(r, DYN_S_GE, n, 0);
}

/* The sizes of one draw: of a multivariate distribution it is as long as the vector that it is given, of a choice a row. */
static int sizes_of_draw(DynRec *r, NpCall *c, int extra, uint32_t *size) {
    static const char *const names[] = {"mean", "pvals", "alpha"};
    DynOperand a = dyn_np_slot(c, "a");
    bool choice = strstr(c->b->path, "choice") != NULL && dyn_np_slot(c, "axis").v == NULL;
    if (choice && is_array_of_rank(r, a, 1 + extra)) {
        memcpy(size, dyn_np_node_at(r, rec_node_of(a.v))->shape + 1, sizeof(*size) * (size_t)extra);
        return 0;
    }
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        DynOperand o = dyn_np_slot(c, names[i]);
        bool array = is_array_of_rank(r, o, 1);
        bool list = o.v != NULL && (o.v->kind == DV_LIST || o.v->kind == DV_TUPLE);
        if (extra == 1 && (array || list)) {
            *size = array ? dyn_np_node_at(r, rec_node_of(o.v))->shape[0] : dyn_np_int(r, o.v->n);
            return 0;
        }
    }
    return -1;
}

/* The sizes are the arguments from `first` on. 1, or -1: one of them is no int. */
static int sizes_of_arguments(DynRec *r, const NpCall *c, int first, uint32_t *shape) {
    for (int i = first; i < c->npos; i++) {
        if ((shape[i - first] = dyn_np_int_sym(r, c->args[i])) == DYN_NONE) {
            return -1;
        }
    }
    return 1;
}

/* The sizes of an array of random numbers. 1: they are in `shape`; 0: they are known behind the call; -1: failed. */
static int sizes_of_random(DynRec *r, NpCall *c, uint32_t *shape) {
    DynArrayView view;
    DynOperand size = dyn_np_slot(c, "size"), x = dyn_np_slot(c, "x");
    int first = dyn_np_slot(c, "self").v != NULL;
    bool fits = c->npos > first && c->npos - first <= DYN_MAX_NDIM;
    if (c->b->op == 2 && fits && c->nkw == 0) {
        return sizes_of_arguments(r, c, first, shape);
    }
    if (!dyn_array_is(c->result)) {
        return 0;
    }
    if (size.v == NULL) {
        return x.v != NULL && sizes_of_permuted(r, x, c->result, shape) == 0;
    }
    int n = dyn_np_shape_arg(r, size, false, shape);
    if (n < 0) {
        return -1;
    }
    int extra = rank_of(c->result, &view) - n; /* rows of a multivariate distribution and the like */
    return extra == 0 || (extra > 0 && sizes_of_draw(r, c, extra, &shape[n]) == 0);
}

/* Random numbers: the call is made once, in its place in the program. Sizes are those of the parameter `size`; a call without it
 * gives a number, or sizes that are known behind it. Operator 1: the array x is shuffled in place; 2: each argument is a size. */
DynVal *np_rule_random(DynRec *r, NpCall *c) {
    uint32_t shape[DYN_MAX_NDIM];
    Effect effect = {.writes = -1, .once = true};
    if (c->b->op == 1) {
        DynOperand x = dyn_np_slot(c, "x");
        effect.writes = x.v != NULL && x.real == c->args[0].real ? 0 : 1;
        if (x.v == NULL || effect.writes >= c->npos) {
            return dyn_np_unsupported(r);
        }
        return whole_call(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result, effect);
    }
    if (out_argument(c->args, c->npos, c->kwnames, c->result, c->b->path) >= 0) {
        return whole_call(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result, effect);
    }
    int known = sizes_of_random(r, c, shape);
    if (known < 0) {
        return NULL;
    }
    return call_node(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result, known ? shape : NULL, effect);
}

/* ---- calls whose sizes are known */

/* The ranks of all arrays in a result. */
static int ranks_of(PyObject *o) {
    DynArrayView view;
    int n = is_array_value(o) ? rank_of(o, &view) : 0;
    for (Py_ssize_t i = 0; PyTuple_Check(o) && i < PyTuple_GET_SIZE(o); i++) {
        n += ranks_of(PyTuple_GET_ITEM(o, i));
    }
    return n;
}

/* out= of torch's: it has the result's sizes at every call, as torch gives it others where it hasn't. */
static int takes_out(DynRec *r, const NpCall *c, int ndim, const uint32_t *shape, Effect *effect) {
    const DynNode *n = dyn_np_node_at(r, rec_node_of(c->out.v));
    for (int i = 0; i < ndim && n->ndim == ndim; i++) {
        if (dyn_np_agree(r, dyn_np_node_at(r, rec_node_of(c->out.v))->shape[i], shape[i]) < 0) {
            return -1;
        }
    }
    effect->out = true;
    effect->writes = c->out_at;
    return n->ndim == ndim ? dyn_rec_will_write(r, rec_node_of(c->out.v)) : (dyn_np_unsupported(r), -1);
}

static DynVal *sized(DynRec *r, NpCall *c, int n, const uint32_t *shape, Effect effect) {
    bool known = ranks_of(c->result) == n;
    for (int i = 0; i < n; i++) {
        known = known && shape[i] != DYN_NONE;
    }
    if (known && c->out.v != NULL && takes_out(r, c, n, shape, &effect) < 0) {
        return NULL;
    }
    return known ? call_node(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result, shape, effect)
                 : dyn_np_unsupported(r);
}

/* A rule knows the sizes of the one array that comes out; of several, one behind the other. */
DynVal *dyn_np_sized_call(DynRec *r, NpCall *c, int ndim, const uint32_t *shape) {
    return is_array_value(c->result) ? sized(r, c, ndim, shape, none) : dyn_np_unsupported(r);
}

DynVal *dyn_np_sized_results(DynRec *r, NpCall *c, int n, const uint32_t *shape) { return sized(r, c, n, shape, none); }

DynVal *dyn_np_sized_once(DynRec *r, NpCall *c, int ndim, const uint32_t *shape) {
    return is_array_value(c->result) ? sized(r, c, ndim, shape, (Effect){.writes = -1, .once = true}) : dyn_np_unsupported(r);
}

DynVal *dyn_np_sized_extern(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int n, PyObject *result,
                            const uint32_t *shape) {
    return call_node(r, callable, name, args, n, NULL, result, shape, none);
}
