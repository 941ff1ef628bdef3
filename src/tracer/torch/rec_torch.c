/* rec_torch.c: from PyTorch's callables and operators to rules: the table made from bind_torch.def, PyTorch's promotion of
 * dtypes, and what all its rules need; elementwise ones are in rec_torch_elementwise.c. Called through the bindings
 * (rec_numpy.c:dyn_np_find) and, for operators, from rec_numpy.c where an operand is a tensor. The table lives as long as the
 * process; rows get their callables when one of their name is first met, as most programs meet few of them. */
#include "tracer/torch/rec_torch.h"
#include "tracer/bytecode/decode.h"
#include <math.h>

/* ---- the table */

static const struct Row {
    const char *scopes, *name, *sig;
    NpRule rule;
    int op;
} rows[] = {
#define TORCH(name, scopes, sig, rule, op) {scopes, name, sig, tt_rule_##rule, op},
#include "tracer/torch/bind_torch.def"
#undef TORCH
};
static DynBindings bindings;
static PyObject *classify; /* dynoc._torch.classify, or None; NULL: not asked for yet */

/* Takes the reference. What has a binding already keeps it: its row stands higher in the table. */
static int add_binding(PyObject *callable, const char *path, const char *sig, NpRule rule, int op, uint8_t effect) {
    DynBinding row = {.path = path, .sig = sig, .rule = rule, .op = op, .callable = callable, .effect = effect};
    const DynBinding *b = dyn_bindings_add(&bindings, row);
    Py_DECREF(callable);
    return b == NULL ? -1 : 0;
}

/* What calls of a row do besides giving a result. */
static uint8_t effect_of(const struct Row *row, char scope) {
    if (strchr(row->scopes, '!') != NULL) {
        return DYN_BIND_BY_RULE;
    }
    if (row->name[strlen(row->name) - 1] == '_' || scope == 'i') {
        return DYN_BIND_IN_PLACE;
    }
    return strchr(row->scopes, '?') != NULL ? DYN_BIND_RANDOM : DYN_BIND_PURE;
}

/* In builds without devices some functions of torch._C are classes in Python, which raise when they are called. */
static bool is_dummy(const struct Row *row, PyObject *callable) {
    return PyType_Check(callable) && strncmp(row->name, "_C.", 3) == 0;
}

/* Has the program put a function of its own in the place of torch's? */
static bool is_replaced(PyObject *callable) {
    PyObject *module = PyFunction_Check(callable) ? PyDict_GetItemString(PyFunction_GET_GLOBALS(callable), "__name__") : NULL;
    const char *name = module != NULL && PyUnicode_Check(module) ? PyUnicode_AsUTF8(module) : NULL;
    return PyFunction_Check(callable) && (name == NULL || (strcmp(name, "torch") != 0 && strncmp(name, "torch.", 6) != 0));
}

/* What PyTorch 2.15 and later have for an operator that Python code implements. */
static bool is_dispatcher(PyObject *o) { return strcmp(Py_TYPE(o)->tp_name, "torch._C._PyObjectDispatchFunc") == 0; }

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot == NULL ? name : dot + 1;
}

/* The name that a callable has of itself, as long as the callable lives; NULL: it is none that rows have. */
static const char *name_of(PyObject *callable) {
    if (PyCFunction_Check(callable)) {
        return ((PyCFunctionObject *)callable)->m_ml->ml_name;
    }
    if (PyType_Check(callable)) {
        return last_part(((PyTypeObject *)callable)->tp_name);
    }
    bool is_descr = Py_IS_TYPE(callable, &PyMethodDescr_Type) || Py_IS_TYPE(callable, &PyWrapperDescr_Type);
    PyObject *name = is_descr ? ((PyDescrObject *)callable)->d_name : NULL;
    name = PyFunction_Check(callable) ? ((PyFunctionObject *)callable)->func_name : name;
    return name == NULL ? NULL : PyUnicode_AsUTF8(name);
}

/* What a row may be called whose callable has a name: the same, or without the underscore at its end (`mul_`), or what is behind
 * an underscore (`special_erf`). One after the other, from {.rest = the callable's name} on. */
typedef struct RowName {
    const char *text, *rest;
    size_t length;
} RowName;

static bool next_row_name(RowName *n) {
    bool shorter = n->text != NULL && n->text[n->length] == 0 && n->text[n->length - 1] == '_';
    if (shorter) {
        n->length--;
        return true;
    }
    n->text = n->rest;
    if (n->text == NULL || *n->text == 0) {
        return false;
    }
    const char *underscore = strchr(n->text, '_');
    n->length = strlen(n->text);
    n->rest = underscore == NULL ? NULL : underscore + 1;
    return true;
}

static bool is_named(const char *row, const RowName *n) {
    const char *own = last_part(row);
    return strncmp(own, n->text, n->length) == 0 && own[n->length] == 0;
}

/* Has the program put another function of torch's in the place of the row's? That has its own name. */
static bool is_exchanged(const struct Row *row, PyObject *callable) {
    RowName name = {.rest = name_of(callable)};
    bool known = is_dispatcher(callable);
    while (!known && next_row_name(&name)) {
        known = is_named(row->name, &name);
    }
    PyErr_Clear(); /* of a name that isn't text */
    return !known;
}

/* Where callables of a scope are. The objects are found when the first callable is asked for. */
static struct Scope {
    char scope;
    const char *path;
    PyObject *owner;
} scopes[] = {{'t', "", NULL},       {'m', "Tensor", NULL},  {'i', "Tensor", NULL}, {'i', "", NULL}, {'f', "nn.functional", NULL},
              {'n', "_C._nn", NULL}, {'s', "special", NULL}, {'l', "linalg", NULL}};

/* A new reference; NULL, without an exception, where there is none. A module's dictionary is asked, as torch's `__getattr__` is
 * Python code that raises for each name that is missing. */
static PyObject *member(PyObject *owner, const char *name) {
    if (owner == NULL || !PyModule_Check(owner) || strchr(name, '.') != NULL) {
        return owner == NULL ? NULL : dyn_torch_lookup(owner, name);
    }
    return Py_XNewRef(PyDict_GetItemString(PyModule_GetDict(owner), name));
}

static int bind_row(const struct Row *row, char scope) {
    for (size_t i = 0; i < DYN_COUNTOF(scopes); i++) {
        char name[64];
        if (scopes[i].scope != scope) {
            continue;
        }
        size_t n = strlen(row->name);
        memcpy(name, row->name, n + 1);
        memcpy(name + n, scope == 'i' ? "_" : "", scope == 'i' ? 2 : 1);
        PyObject *callable = member(scopes[i].owner, name);
        uint8_t effect = effect_of(row, scope);
        if (callable != NULL && (is_dummy(row, callable) || is_replaced(callable) || is_exchanged(row, callable))) {
            Py_CLEAR(callable);
        }
        if (callable != NULL && add_binding(callable, row->name, row->sig, row->rule, row->op, effect) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The name of the type or module that a function in C belongs to; NULL with an exception. */
static const char *name_of_owner(PyObject *owner) {
    if (PyType_Check(owner)) {
        return ((PyTypeObject *)owner)->tp_name;
    }
    return PyModule_CheckExact(owner) ? PyModule_GetName(owner) : "";
}

/* Is it a method of a tensor's own types, or a function of torch's modules in C? */
static bool is_torch_c(PyObject *o) {
    if (is_dispatcher(o)) {
        return true;
    }
    if (Py_IS_TYPE(o, &PyMethodDescr_Type)) {
        return ((PyDescrObject *)o)->d_type != &PyBaseObject_Type &&
               PyType_IsSubtype(dyn_torch_tensor, ((PyDescrObject *)o)->d_type);
    }
    PyObject *self = PyCFunction_Check(o) ? ((PyCFunctionObject *)o)->m_self : NULL; /* also of static ones */
    if (self == NULL) {
        return false;
    }
    if (PyCapsule_CheckExact(self) || strstr(Py_TYPE(self)->tp_name, "pybind11_detail_function_record") != NULL) {
        return true; /* pybind's: maybe an operator of torch.ops; who has to say is classify */
    }
    const char *name = name_of_owner(self);
    if (name == NULL) {
        PyErr_Clear();
    }
    return name != NULL && strncmp(name, "torch.", 6) == 0;
}

/* A callable without a row, by its schema. */
static const DynBinding *bind_by_schema(PyObject *callable) {
    if (classify == NULL) {
        PyObject *module = dyn_import("dynoc._torch");
        classify = module == NULL ? NULL : dyn_torch_lookup(module, "classify");
        classify = classify == NULL ? Py_NewRef(Py_None) : classify;
        PyErr_Clear();
        Py_XDECREF(module);
    }
    PyObject *kind = PyObject_CallOneArg(classify, callable);
    long n = kind == NULL ? -1 : PyLong_AsLong(kind);
    PyErr_Clear();
    Py_XDECREF(kind);
    const char *name = "operator";
    if (!is_dispatcher(callable)) {
        name = PyCFunction_Check(callable) ? ((PyCFunctionObject *)callable)->m_ml->ml_name
                                           : ((PyMethodDescrObject *)callable)->d_method->ml_name;
    }
    uint8_t effect = n < 0 || n >= DYN_BIND_EFFECTS ? DYN_BIND_UNKNOWN : (uint8_t)n;
    NpRule rule = effect == DYN_BIND_POINTWISE ? tt_rule_pointwise : tt_rule_call;
    effect = effect == DYN_BIND_POINTWISE ? DYN_BIND_PURE : effect;
    if (add_binding(Py_NewRef(callable), name, "", rule, 0, effect) < 0) {
        return NULL;
    }
    return dyn_bindings_find(&bindings, callable);
}

/* Rows by the last part of their names: heads of chains of rows that share a place, each numbered from 1 in the order of the
 * table. */
#define PLACES 1024
static uint16_t row_at[PLACES], row_behind[DYN_COUNTOF(rows) + 1];
static bool is_bound[DYN_COUNTOF(rows)];

static uint32_t place_of(const char *name, size_t length) { return (uint32_t)dyn_hash64(name, length, 0) % PLACES; }

static void make_places(void) {
    static bool made;
    if (made) {
        return;
    }
    made = true;
    for (size_t i = 0; i < DYN_COUNTOF(scopes); i++) {
        scopes[i].owner = dyn_torch_lookup(dyn_torch_module, scopes[i].path);
    }
    for (size_t i = DYN_COUNTOF(rows); i > 0; i--) {
        const char *name = last_part(rows[i - 1].name);
        uint32_t place = place_of(name, strlen(name));
        row_behind[i] = row_at[place];
        row_at[place] = (uint16_t)i;
    }
}

/* The i-th row, in all its scopes. */
static int bind_once(size_t i) {
    bool was = is_bound[i];
    is_bound[i] = true;
    for (const char *s = rows[i].scopes; !was && *s != 0; s++) {
        if (bind_row(&rows[i], *s) < 0) {
            return -1;
        }
    }
    return 0;
}

static int bind_rows_of(const RowName *name) {
    for (uint16_t i = row_at[place_of(name->text, name->length)]; i != 0; i = row_behind[i]) {
        if (is_named(rows[i - 1].name, name) && bind_once(i - 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static int bind_all(void) {
    int status = 0;
    for (size_t i = 0; i < DYN_COUNTOF(rows) && status == 0; i++) {
        status = bind_once(i);
    }
    return status;
}

/* The rows that may be the callable's. What PyTorch 2.15 and later dispatch in Python may have another name. */
static int bind_alike(PyObject *callable) {
    if (is_dispatcher(callable)) {
        return bind_all();
    }
    RowName name = {.rest = name_of(callable)};
    PyErr_Clear(); /* of a name that isn't text */
    int status = 0;
    while (status == 0 && next_row_name(&name)) {
        status = bind_rows_of(&name);
    }
    return status;
}

const DynBinding *dyn_torch_binding(PyObject *callable) {
    if (dyn_torch_tensor == NULL) {
        return NULL;
    }
    const DynBinding *b = dyn_bindings_find(&bindings, callable);
    if (b == NULL) {
        make_places();
        b = bind_alike(callable) < 0 ? NULL : dyn_bindings_find(&bindings, callable);
    }
    if (b == NULL && is_torch_c(callable)) {
        b = bind_by_schema(callable);
    }
    return b == NULL || b->effect == DYN_BIND_UNKNOWN ? NULL : b;
}

/* ---- dtypes: c10/core/ScalarType.h and TensorIterator's categories, https://pytorch.org/docs/stable/tensor_attributes.html */

DynDtype dyn_tt_default(DynRec *r) { return DYN_TORCH_DEFAULT(rec_torch_begin(r)); }

static char kind_of(DynDtype dt) { return dyn_dtypes[dt].kind; }

DynDtype dyn_tt_float(DynRec *r, DynDtype dt) { return dyn_dtype_is_inexact(dt) ? dt : dyn_tt_default(r); }

static DynDtype complex_of(DynDtype dt) { return dt == DYN_F64 || dt == DYN_C128 ? DYN_C128 : DYN_C64; }

DynDtype dyn_tt_promote(DynDtype a, DynDtype b) {
    static const char order[] = "biufc";
    if (a == b) {
        return a;
    }
    char ka = kind_of(a), kb = kind_of(b);
    if (ka == 'c' || kb == 'c') {
        DynDtype x = dyn_dtype_is_inexact(a) ? complex_of(a) : DYN_C64;
        DynDtype y = dyn_dtype_is_inexact(b) ? complex_of(b) : DYN_C64;
        return x == DYN_C128 || y == DYN_C128 ? DYN_C128 : DYN_C64;
    }
    if (ka == 'b' || kb == 'b') {
        return ka == 'b' ? b : a;
    }
    if (dyn_dtype_is_half(a) && dyn_dtype_is_half(b)) {
        return DYN_F32;
    }
    if (ka == kb) {
        return dyn_dtypes[a].size >= dyn_dtypes[b].size ? a : b;
    }
    if (ka == 'f' || kb == 'f') {
        return ka == 'f' ? a : b;
    }
    DynDtype wide = strchr(order, ka) < strchr(order, kb) ? b : a; /* the unsigned one */
    DynDtype other = wide == a ? b : a;
    if (wide != DYN_U8) {
        return DYN_NO_DTYPE; /* torch has no promotion of its larger unsigned types */
    }
    return other == DYN_I8 ? DYN_I16 : other;
}

static DynDtype of_number(DynRec *r, uint8_t code) {
    switch (code) {
    case NP_WEAK_INT: return DYN_I64;
    case NP_WEAK_FLOAT: return dyn_tt_default(r);
    case NP_WEAK_COMPLEX: return complex_of(dyn_tt_default(r));
    default: return (DynDtype)code;
    }
}

/* DYN_NO_DTYPE: nothing of that category yet. */
static DynDtype combine(DynDtype higher, DynDtype lower) {
    if (higher == DYN_NO_DTYPE || lower == DYN_NO_DTYPE) {
        return higher == DYN_NO_DTYPE ? lower : higher;
    }
    if (kind_of(higher) == 'c') {
        return higher;
    }
    if (kind_of(higher) == 'f') {
        return kind_of(lower) == 'c' ? complex_of(higher) : higher;
    }
    return higher == DYN_BOOL || dyn_dtype_is_inexact(lower) ? dyn_tt_promote(higher, lower) : higher;
}

DynDtype dyn_tt_result_type(DynRec *r, const NpArg *args, int n) {
    DynDtype of[3] = {DYN_NO_DTYPE, DYN_NO_DTYPE, DYN_NO_DTYPE}; /* tensors of a rank, of rank 0, numbers */
    for (int i = 0; i < n; i++) {
        bool number = args[i].arg.kind == DYN_ARG_SYM || args[i].code == NP_WEAK_COMPLEX;
        DynDtype *to = &of[number ? 2 : dyn_np_node_at(r, args[i].arg.id)->ndim == 0];
        DynDtype dt = number ? of_number(r, args[i].code) : (DynDtype)args[i].code;
        *to = *to == DYN_NO_DTYPE ? dt : dyn_tt_promote(*to, dt);
        if (*to == DYN_NO_DTYPE) {
            return dyn_np_unsupported(r), DYN_NO_DTYPE;
        }
    }
    return combine(of[0], combine(of[1], of[2]));
}

/* ---- arguments */

NpArg dyn_tt_number(DynRec *r, double value) {
    return (NpArg){{DYN_ARG_SYM, dyn_sym_float(dyn_rec_syms(r), value)}, NP_WEAK_FLOAT};
}
NpArg dyn_tt_int(DynRec *r, int64_t value) { return (NpArg){{DYN_ARG_SYM, dyn_np_int(r, value)}, NP_WEAK_INT}; }

int dyn_tt_operand(DynRec *r, const NpCall *c, const char *name, NpArg *out) {
    DynOperand o = dyn_np_slot(c, name);
    return o.v == NULL ? (dyn_np_unsupported(r), -1) : dyn_np_operand(r, o, out);
}

int dyn_tt_dtype(DynRec *r, const NpCall *c, DynDtype *out) {
    DynOperand o = dyn_np_slot(c, "dtype");
    if (o.v == NULL) {
        return 0;
    }
    *out = dyn_rec_burn(r, o.v, o.real) < 0 ? DYN_NO_DTYPE : dyn_torch_dtype_parse(o.real);
    return *out == DYN_NO_DTYPE ? (dyn_np_unsupported(r), -1) : 0;
}

int dyn_tt_axis(DynRec *r, DynOperand o, int ndim, int *axis) {
    int n = ndim == 0 ? 1 : ndim; /* torch takes 0 and -1 of a tensor of rank 0 */
    Py_ssize_t at = o.v != NULL && PyLong_CheckExact(o.real) && dyn_rec_burn(r, o.v, o.real) == 0 ? PyLong_AsSsize_t(o.real) : n;
    if (at < -n || at >= n) {
        PyErr_Clear();
        return dyn_np_unsupported(r), -1;
    }
    *axis = (int)(at < 0 ? at + n : at);
    return 0;
}

int dyn_tt_optional_axis(DynRec *r, DynOperand o, int ndim, int *axis) { return o.v == NULL ? 0 : dyn_tt_axis(r, o, ndim, axis); }

int dyn_tt_burnt_floats(DynRec *r, const NpCall *c, const TtFloat *floats, int n) {
    for (int i = 0; i < n; i++) {
        if (dyn_tt_burnt_float(r, dyn_np_slot(c, floats[i].name), floats[i].out) < 0) {
            return -1;
        }
    }
    return 0;
}

int dyn_tt_burnt_float(DynRec *r, DynOperand o, double *out) {
    if (o.v == NULL) {
        return 0;
    }
    if ((!PyFloat_CheckExact(o.real) && !PyLong_CheckExact(o.real)) || dyn_rec_burn(r, o.v, o.real) < 0) {
        return dyn_np_unsupported(r), -1;
    }
    *out = PyFloat_AsDouble(o.real);
    return PyErr_Occurred() ? (PyErr_Clear(), dyn_np_unsupported(r), -1) : 0;
}

bool dyn_tt_is_str(DynRec *r, DynOperand o, const char *text) {
    if (o.v == NULL || !PyUnicode_CheckExact(o.real)) {
        return false;
    }
    return dyn_rec_burn(r, o.v, o.real) == 0 && PyUnicode_CompareWithASCIIString(o.real, text) == 0;
}

/* ---- results */

/* Are they the same view of the same array? */
static bool are_one_look(const DynNode *a, const DynNode *b) {
    if (a->op != b->op || a->ndim != b->ndim || a->dtype != b->dtype) {
        return false;
    }
    if (a->nargs != b->nargs || a->naux != b->naux) {
        return false;
    }
    bool same_args = memcmp(a->args, b->args, sizeof(*a->args) * a->nargs) == 0;
    bool same_aux = memcmp(a->aux, b->aux, sizeof(*a->aux) * a->naux) == 0;
    return same_args && same_aux && memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim) == 0;
}

bool dyn_torch_looks_elsewhere(DynRec *r, uint32_t dst, uint32_t node) {
    const DynNode *a = dyn_np_node_at(r, dst), *b = dyn_np_node_at(r, node);
    return dst != node && a->storage == b->storage && !are_one_look(a, b);
}

DynVal *dyn_tt_finish(DynRec *r, NpCall *c, uint32_t node) {
    DynOperand to = c->b->effect == DYN_BIND_IN_PLACE ? c->args[0] : c->out;
    if (node == DYN_NONE || to.v == NULL) {
        return dyn_np_result(r, node, c->result);
    }
    for (int i = 0; i < c->npos + c->nkw && to.v->kind == DV_ARRAY; i++) {
        if (c->args[i].v->kind == DV_ARRAY && dyn_torch_looks_elsewhere(r, rec_node_of(to.v), rec_node_of(c->args[i].v))) {
            return dyn_np_unsupported(r);
        }
    }
    const DynNode *n = dyn_np_node_at(r, node), *d = to.v->kind == DV_ARRAY ? dyn_np_node_at(r, rec_node_of(to.v)) : NULL;
    if (to.real != c->result || d == NULL || n->ndim != d->ndim) {
        return dyn_np_unsupported(r);
    }
    bool drops = dyn_dtype_is_inexact((DynDtype)n->dtype) &&
                 !dyn_dtype_is_inexact((DynDtype)d->dtype);                              /* torch refuses what C leaves open */
    if (to.v == c->out.v && c->b->effect != DYN_BIND_IN_PLACE && n->dtype != d->dtype) { /* reductions compute in out's dtype */
        return dyn_np_unsupported(r);
    }
    for (int i = 0; i < n->ndim; i++) { /* out= of another size would be resized */
        if (dyn_np_hint(r, n->shape[i]) != dyn_np_hint(r, d->shape[i]) || dyn_rec_assume_equal(r, n->shape[i], d->shape[i]) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    return drops ? dyn_np_unsupported(r) : dyn_np_store_into(r, to, dyn_np_node_arg(r, node));
}

bool dyn_tt_goes_by_float(DynRec *r, DynOp op, DynDtype compute, const NpArg *args) {
    bool quotient = op == DYN_OP_DIVIDE || op == DYN_OP_FLOOR_DIVIDE;
    if (!dyn_dtype_is_half(compute) || (op != DYN_OP_MULTIPLY && !quotient)) {
        return false;
    }
    bool by_number = args[1].arg.kind == DYN_ARG_SYM || dyn_np_node_at(r, args[1].arg.id)->ndim == 0;
    return by_number || (op == DYN_OP_MULTIPLY && args[0].arg.kind == DYN_ARG_SYM);
}

uint32_t dyn_tt_elementwise(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n) {
    if (n == 2 && dyn_tt_goes_by_float(r, op, compute, args)) {
        compute = DYN_F32;
    }
    return compute == DYN_NO_DTYPE ? DYN_NONE : dyn_np_elementwise_in(r, op, compute, result, args, n, NP_UFUNC);
}

uint32_t dyn_tt_unary(DynRec *r, DynOp op, uint32_t a) {
    NpArg arg = a == DYN_NONE ? (NpArg){0} : dyn_np_node_arg(r, a);
    return a == DYN_NONE ? a : dyn_tt_elementwise(r, op, (DynDtype)arg.code, (DynDtype)arg.code, &arg, 1);
}

uint32_t dyn_tt_binary(DynRec *r, DynOp op, uint32_t a, NpArg b) {
    if (a == DYN_NONE || dyn_tt_is_missing(b)) {
        return DYN_NONE;
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), b};
    return dyn_tt_elementwise(r, op, (DynDtype)args[0].code, (DynDtype)args[0].code, args, 2);
}

uint32_t dyn_tt_bounded(DynRec *r, DynOp op, uint32_t a, NpArg bound) {
    if (a == DYN_NONE || dyn_tt_is_missing(bound)) {
        return DYN_NONE;
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), bound};
    DynDtype dt = (DynDtype)args[0].code;
    return dyn_tt_elementwise(r, op, dt, dt, dyn_tt_stays(r, args, dt), 2);
}

const NpArg *dyn_tt_stays(DynRec *r, NpArg *args, DynDtype dt) {
    bool second = dt != DYN_F16; /* what the operators give of equals, NumPy's loops over halves the first */
    if (args[1].arg.kind == DYN_ARG_SYM && second && !dyn_tt_has_own_kernel(r)) {
        NpArg element = args[0];
        args[0] = args[1];
        args[1] = element;
    }
    return args;
}

uint32_t dyn_tt_compare(DynRec *r, DynOp op, uint32_t a, NpArg b) {
    if (a == DYN_NONE) {
        return a;
    }
    NpArg args[2] = {dyn_np_node_arg(r, a), b};
    return dyn_tt_elementwise(r, op, (DynDtype)args[0].code, DYN_BOOL, args, 2);
}

uint32_t dyn_tt_choose(DynRec *r, uint32_t truth, uint32_t a, NpArg b) {
    if (truth == DYN_NONE || a == DYN_NONE || dyn_tt_is_missing(b)) {
        return DYN_NONE;
    }
    NpArg args[3] = {dyn_np_node_arg(r, truth), dyn_np_node_arg(r, a), b};
    return dyn_tt_elementwise(r, DYN_OP_WHERE, (DynDtype)args[1].code, (DynDtype)args[1].code, args, 3);
}

uint32_t dyn_tt_cast(DynRec *r, uint32_t a, DynDtype dt) {
    return a == DYN_NONE || dyn_np_node_at(r, a)->dtype == dt ? a : dyn_np_copy(r, a, dt);
}

DynDtype dyn_tt_wide(DynDtype dt) { return dyn_dtype_is_half(dt) ? DYN_F32 : dt; }

uint32_t dyn_tt_tensor_of(DynRec *r, DynOperand o) {
    return o.v == NULL || o.v->kind != DV_ARRAY ? dyn_np_no_node(r) : dyn_np_node(r, o);
}

uint32_t dyn_tt_tensor(DynRec *r, const NpCall *c, const char *name) { return dyn_tt_tensor_of(r, dyn_np_slot(c, name)); }

/* ---- calls without a rule */

DynVal *tt_rule_call(DynRec *r, NpCall *c) {
    if (c->b->effect == DYN_BIND_IN_PLACE) {
        return dyn_np_extern_in_place(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
    }
    if (c->b->effect == DYN_BIND_RANDOM) {
        return dyn_np_extern_once(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
    }
    return dyn_np_extern(r, c->b->callable, c->b->path, c->args, c->npos, c->kwnames, c->result);
}
