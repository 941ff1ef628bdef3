/* rec_pure.c: Python functions that NumPy calls for each element or line (np.vectorize, np.apply_along_axis). Such a call can be
 * a node of the graph where the function has no effect but its result: then it doesn't matter how often it is called, nor that
 * the call is made again where the graph is left.
 *
 * What a function may do is read off its code. It may compute with its arguments (NumPy scalars and lines of arrays), with what
 * it makes of them, with numbers and arrays from outside, and call builtins, math, NumPy's functions without effects, methods
 * that change nothing, and Python functions of which the same holds. What its names stand for is guarded. Called by the rule of
 * those functions. */
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"

#define MAX_PURE_DEPTH 4

typedef struct Pure {
    DynRec *r;
    bool scalars; /* the arguments are numbers, so that x += 1 changes no array of anybody's */
    int depth;
    bool arrays; /* one of the names is an array */
    bool inplace;
} Pure;

static bool pure_function(Pure *p, DynVal *v, PyObject *func);

static bool named(PyObject *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static bool plain_data(PyObject *o) {
    PyTypeObject *const types[] = {Py_TYPE(Py_None), &PyBool_Type,    &PyLong_Type, &PyFloat_Type,
                                   &PyComplex_Type,  &PyUnicode_Type, &PyArray_Type};
    return rec_has_type_of(o, types, DYN_COUNTOF(types)) || PyArray_CheckScalar(o) || PyArray_DescrCheck(o);
}

/* Is it a module, or a callable whose calls have no effect but their result? */
static bool has_no_effect(PyObject *o) {
    const DynBinding *b = dyn_np_find(o);
    if (PyModule_CheckExact(o) || Py_TYPE(o) == &PyUFunc_Type) {
        return true;
    }
    return rec_has_flag(o, REC_PURE) || (b != NULL && dyn_np_is_pure(b));
}

/* What a name from outside stands for: is that data, or something whose calls have no effect? v is its shadow, which makes the
 * guards. */
static bool pure_object(Pure *p, DynVal *v, PyObject *o) {
    if (v == NULL) {
        return false;
    }
    if (PyFunction_Check(o)) {
        return dyn_rec_resolve(p->r, v, o) == 0 && pure_function(p, v, o);
    }
    if (plain_data(o)) {
        p->arrays |= PyArray_CheckExact(o);
        return v->source == DYN_NONE || rec_guard(p->r, DYN_GUARD_TYPE, v->source, DYN_NONE, 0, (PyObject *)Py_TYPE(o)) == 0;
    }
    return has_no_effect(o) && dyn_rec_resolve(p->r, v, o) == 0;
}

/* In the function's globals or the builtins, with a guard that it stays there. Borrowed. */
static PyObject *global_of(Pure *p, PyObject *globals, PyObject *name, DynVal **v) {
    PyObject *o = PyDict_GetItemWithError(globals, name), *builtins = PyEval_GetBuiltins();
    if (o != NULL) {
        *v = rec_source_dict(p->r, globals, name);
        return o;
    }
    DynVal *missing = rec_source_dict(p->r, globals, name);
    if (missing == NULL || rec_guard(p->r, DYN_GUARD_MISSING, missing->source, DYN_NONE, 0, NULL) < 0) {
        return NULL;
    }
    *v = rec_source_dict(p->r, builtins, name);
    return PyDict_GetItemWithError(builtins, name);
}

/* module.name.name: the instructions behind the load of a module are followed to what is used of it. */
static bool pure_path(Pure *p, const DynCode *c, uint32_t *at, DynVal *v, PyObject *o) {
    while (PyModule_CheckExact(o)) {
        const DynInstr *next = *at + 1 < c->v.n ? &c->v.at[*at + 1] : NULL;
        bool loads = next != NULL && (next->op == DYN_I_LOAD_ATTR || next->op == DYN_I_LOAD_METHOD);
        if (!loads || dyn_rec_resolve(p->r, v, o) < 0) {
            return false;
        }
        PyObject *name = PyTuple_GET_ITEM(c->code->co_names, next->arg), *attr = PyObject_GetAttr(o, name);
        bool kept = attr != NULL && rec_keep(p->r, attr) == 0; /* the module's __getattr__ may have made it for this call only */
        v = kept ? rec_attr(p->r, (DynOperand){v, o}, name, attr) : NULL;
        PyErr_Clear();
        Py_XDECREF(attr);
        if (v == NULL) {
            return false;
        }
        o = attr;
        ++*at;
    }
    return pure_object(p, v, o);
}

/* Attributes and methods of numbers, arrays and containers that change nothing that comes from outside: lists can only be made
 * inside. */
static bool pure_attribute(PyObject *name) {
    static const char *const names[] = {
        "T",         "all",  "any",      "append",  "argmax",  "argmin",       "argsort",   "astype", "clip",    "conj",
        "conjugate", "copy", "count",    "cumsum",  "cumprod", "diagonal",     "dot",       "dtype",  "flatten", "imag",
        "index",     "item", "itemsize", "max",     "mean",    "min",          "nbytes",    "ndim",   "nonzero", "prod",
        "ravel",     "real", "repeat",   "reshape", "round",   "searchsorted", "shape",     "size",   "squeeze", "std",
        "strides",   "sum",  "swapaxes", "take",    "tolist",  "trace",        "transpose", "var"};
    return named(name, names, DYN_COUNTOF(names));
}

/* A free variable: what its cell holds. */
static bool pure_cell(Pure *p, const DynCode *c, uint32_t *at, DynVal *fv, PyObject *func) {
    uint32_t k = c->v.at[*at].arg - ((uint32_t)dyn_code_nlocalsplus(c->code) - (uint32_t)dyn_code_nfree(c->code));
    PyObject *closure = PyFunction_GET_CLOSURE(func);
    PyObject *o = closure != NULL && k < (uint32_t)PyTuple_GET_SIZE(closure) ? PyCell_GET(PyTuple_GET_ITEM(closure, k)) : NULL;
    DynVal *v = NULL;
    if (o != NULL && fv->kind == DV_FUNC) {
        const DynVal *cells = fv->function.closure, *cell = cells != NULL && k < cells->n ? cells->items[k] : NULL;
        v = cell != NULL && cell->kind == DV_CELL ? cell->cell.content : NULL;
    } else if (o != NULL && fv->source != DYN_NONE) {
        uint32_t s = dyn_source_intern(&p->r->cap->sources, DYN_SRC_FCLOSURE, fv->source, k, NULL, NULL);
        v = s == DYN_NONE ? NULL : rec_source(p->r, s);
    }
    return o != NULL && v != NULL && pure_path(p, c, at, v, o);
}

/* The names of a call's keywords: is out= among them? */
static bool writes_nothing(PyObject *kwnames) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++) {
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "out") == 0) {
            return false;
        }
    }
    return true;
}

/* The names of the keywords of a CALL_KW, which the instruction before it loads. */
static bool pure_call_kw(const DynCode *c, uint32_t at) {
    const DynInstr *before = at > 0 ? &c->v.at[at - 1] : NULL;
    bool names = before != NULL && before->op == DYN_I_LOAD_CONST;
    return names && writes_nothing(PyTuple_GET_ITEM(c->code->co_consts, before->arg));
}

static bool pure_global(Pure *p, const DynCode *c, uint32_t *at, PyObject *globals) {
    DynVal *v = NULL;
    PyObject *o = global_of(p, globals, PyTuple_GET_ITEM(c->code->co_names, c->v.at[*at].arg), &v);
    return o != NULL && pure_path(p, c, at, v, o);
}

/* The instruction *at, and what follows of module.name, has no effect: as opcodes.def says, or as what it works on says. */
static bool pure_instr(Pure *p, const DynCode *c, uint32_t *at, PyObject *globals, DynVal *fv, PyObject *func) {
    const DynInstr *in = &c->v.at[*at];
    switch ((DynEffectOf)dyn_opcodes[in->op].effects) {
    case DYN_EFFECT_OF_NONE: return true;
    case DYN_EFFECT_OF_SOME: return false;
    case DYN_EFFECT_OF_NAME: return pure_global(p, c, at, globals);
    case DYN_EFFECT_OF_CELL: return pure_cell(p, c, at, fv, func);
    case DYN_EFFECT_OF_ATTRIBUTE: return pure_attribute(PyTuple_GET_ITEM(c->code->co_names, in->arg));
    case DYN_EFFECT_OF_OPERATOR: p->inplace |= in->arg != 0; return in->arg == 0 || p->scalars;
    case DYN_EFFECT_OF_CALL: return in->target == DYN_NONE || writes_nothing(PyTuple_GET_ITEM(c->code->co_consts, in->target));
    case DYN_EFFECT_OF_CALL_KW: return pure_call_kw(c, *at);
    }
    return false;
}

static bool pure_defaults(PyObject *func) {
    PyObject *defaults = PyFunction_GET_DEFAULTS(func), *keywords = PyFunction_GET_KW_DEFAULTS(func);
    bool plain = keywords == NULL || PyDict_GET_SIZE(keywords) == 0;
    for (Py_ssize_t i = 0; plain && defaults != NULL && i < PyTuple_GET_SIZE(defaults); i++) {
        plain = plain_data(PyTuple_GET_ITEM(defaults, i)) && !PyArray_Check(PyTuple_GET_ITEM(defaults, i));
    }
    return plain;
}

static bool pure_function(Pure *p, DynVal *v, PyObject *func) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    DynCode *c = p->depth < MAX_PURE_DEPTH ? rec_code(p->r, code) : NULL;
    bool ours = v->kind == DV_FUNC;
    if (v->kind == DV_PYFUNC && rec_guard_id(p->r, v, func) < 0) {
        return false;
    }
    if (c == NULL || c->generator || !pure_defaults(func)) {
        return false;
    }
    if (!ours && v->kind != DV_CONST) {
        return false;
    }
    if (!ours) { /* its code and its closure stay what they are */
        uint32_t s =
            v->source != DYN_NONE ? v->source : dyn_source_intern(&p->r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, func, NULL);
        if (s == DYN_NONE || rec_guard(p->r, DYN_GUARD_CODE, s, DYN_NONE, 0, (PyObject *)code) < 0) {
            return false;
        }
        v->source = s;
    }
    p->depth++;
    bool pure = true;
    for (uint32_t i = 0; pure && i < c->v.n; i++) {
        bool after_jump = i > 0 && c->v.at[i - 1].op == DYN_I_JUMP && !(c->v.at[i].flags & DYN_IF_TARGET);
        if (after_jump && c->v.at[i].op == DYN_I_UNSUPPORTED) { /* END_FOR, which nothing runs */
            continue;
        }
        pure = pure_instr(p, c, &i, PyFunction_GET_GLOBALS(func), v, func);
    }
    p->depth--;
    return pure;
}

bool rec_is_pure(DynRec *r, DynOperand func, bool scalars) {
    Pure p = {.r = r, .scalars = scalars};
    bool callable = !plain_data(func.real) && !PyModule_CheckExact(func.real);
    bool pure = dyn_rec_resolve(r, func.v, func.real) == 0 && pure_object(&p, func.v, func.real) && callable;
    return pure && !(p.arrays && p.inplace); /* y = ARRAY; y += 1 */
}
