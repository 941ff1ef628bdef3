/* rec_call.c: handlers for calls. A call is laid out once (RecCall), then tried in order: dynoc's own functions, NumPy callables
 * and array methods (bound to operators), modelled builtins and container methods, Python functions (recorded into, through the
 * hook), and what is left is opaque: run for real, a graph break.
 *
 * Called from record.c's table. The callee's frame comes back in through dyn_record_inlined. */
#include "tracer/rec_state.h"

PyObject *rec_call_real(const RecCall *c) {
    PyObject *space[16], **args = space;
    uint32_t n = c->npos + c->nkw;
    if (n + 1 > DYN_COUNTOF(space) && (args = PyMem_New(PyObject *, n + 1)) == NULL) {
        return PyErr_NoMemory();
    }
    args[0] = NULL;
    for (uint32_t i = 0; i < n; i++) {
        args[i + 1] = c->args[i].real;
    }
    PyObject *result =
        PyObject_Vectorcall(c->callable.real, args + 1, c->npos | PY_VECTORCALL_ARGUMENTS_OFFSET, c->nkw ? c->kwnames : NULL);
    if (args != space) {
        PyMem_Free(args);
    }
    return result;
}

/* ---- Python functions: shadows for the callee's slots by the binding rules */

static DynVal *default_value(DynRec *r, DynVal *func, uint32_t func_source, PyObject *real, Py_ssize_t i, PyObject *kwname) {
    if (func->kind == DV_FUNC) {
        DynVal *from = func->items[kwname ? 2 : 1];
        return from == NULL ? NULL : kwname ? rec_dict_find(from, kwname, NULL) : i < (Py_ssize_t)from->n ? from->items[i] : NULL;
    }
    (void)real;
    uint32_t s = kwname ? dyn_source_intern(&r->cap->sources, DYN_SRC_FKWDEFAULT, func_source, 0, NULL, kwname)
                        : dyn_source_intern(&r->cap->sources, DYN_SRC_FDEFAULT, func_source, (uint32_t)i, NULL, NULL);
    return s == DYN_NONE ? NULL : rec_source(r, s);
}

static int bind_keywords(DynRec *r, PyCodeObject *code, const RecCall *c, DynVal **slots, DynVal *extra) {
    int named = code->co_argcount + code->co_kwonlyargcount;
    for (uint32_t k = 0; k < c->nkw; k++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, k);
        int slot = code->co_posonlyargcount;
        while (slot < named && PyUnicode_Compare(dyn_code_local_name(code, slot), name) != 0) {
            slot++;
        }
        DynVal *v = c->args[c->npos + k].v;
        if (slot < named) {
            if (slots[slot] != NULL) {
                return -1;
            }
            slots[slot] = v;
        } else {
            DynVal *key = extra ? rec_object(r, name) : NULL;
            if (key == NULL || rec_push_item(r, extra, key) < 0 || rec_push_item(r, extra, v) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* -1: the call doesn't fit the signature (CPython will raise), or a default isn't known. */
static int bind_slots(DynRec *r, PyObject *func, DynVal *fv, uint32_t func_source, const RecCall *c, DynVal **slots) {
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    int nargs = code->co_argcount, nkwonly = code->co_kwonlyargcount, next = nargs + nkwonly;
    PyObject *defaults = PyFunction_GET_DEFAULTS(func), *kwdefaults = PyFunction_GET_KW_DEFAULTS(func);
    uint32_t given = c->npos < (uint32_t)nargs ? c->npos : (uint32_t)nargs;
    DynVal *extra = NULL;
    for (uint32_t i = 0; i < given; i++) {
        slots[i] = c->args[i].v;
    }
    if (code->co_flags & CO_VARARGS) {
        DynVal **rest = DYN_NEW_N(&r->arena, DynVal *, c->npos + 1);
        for (uint32_t i = given; rest != NULL && i < c->npos; i++) {
            rest[i - given] = c->args[i].v;
        }
        if (rest == NULL || (slots[next++] = dyn_rec_seq(r, DV_TUPLE, c->npos - given, rest, NULL)) == NULL) {
            return -1;
        }
    } else if (c->npos > given) {
        return -1;
    }
    if (code->co_flags & CO_VARKEYWORDS && (slots[next] = extra = dyn_rec_seq(r, DV_DICT, 0, NULL, NULL)) == NULL) {
        return -1;
    }
    if (bind_keywords(r, code, c, slots, extra) < 0) {
        return -1;
    }
    Py_ssize_t ndefaults = defaults ? PyTuple_GET_SIZE(defaults) : 0;
    for (int i = 0; i < nargs + nkwonly; i++) {
        if (slots[i] == NULL) {
            Py_ssize_t d = i - (nargs - ndefaults);
            PyObject *name = i < nargs ? NULL : dyn_code_local_name(code, i);
            bool there =
                name ? kwdefaults != NULL && PyDict_GetItemWithError(kwdefaults, name) != NULL : d >= 0 && defaults != NULL;
            if (!there || (slots[i] = default_value(r, fv, func_source, func, d, name)) == NULL) {
                PyErr_Clear();
                return -1;
            }
        }
    }
    return 0;
}

static uint32_t function_source(DynRec *r, DynVal *v, PyObject *func) {
    if (v->kind == DV_FUNC) {
        return DYN_NONE;
    }
    uint32_t s = v->source != DYN_NONE ? v->source : dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, func, NULL);
    if (s != DYN_NONE && rec_guard(r, DYN_GUARD_CODE, s, DYN_NONE, 0, PyFunction_GET_CODE(func)) < 0) {
        return DYN_NONE;
    }
    return s;
}

/* Call a Python function: the hook hands its frame to dyn_record_inlined. NULL with *result set: the callee bailed out. */
static DynVal *call_inlined(DynRec *r, const RecCall *c, PyObject **result) {
    PyObject *func = c->callable.real;
    DynVal *fv = c->callable.v;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(code), nodes = r->cap->graph.nodes.n;
    DynVal **slots = DYN_NEW_N(&r->arena, DynVal *, nslots + 1);
    uint32_t source = function_source(r, fv, func);
    DynReason refuse = r->req->may_inline(r->req, func);
    if (refuse != DYN_R_OK || slots == NULL || (source == DYN_NONE && fv->kind != DV_FUNC) || dyn_recursion_near_limit(r->ts) ||
        (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) ||
        bind_slots(r, func, fv, source, c, slots) < 0) {
        r->pending.func = NULL;
        *result = rec_call_real(c);
        return rec_fail(r, refuse != DYN_R_OK ? refuse : DYN_R_OPAQUE_CALL, PyUnicode_AsUTF8(code->co_name));
    }
    uint64_t mutations = r->mutations;
    r->pending = (RecPending){func, fv, source, slots, nslots};
    r->callee_bailed = false;
    r->callee_why = NULL;
    r->result = NULL;
    *result = rec_call_real(c);
    bool entered = r->pending.func == NULL;
    r->pending.func = NULL;
    if (*result == NULL) {
        return NULL;
    }
    if (!entered || r->callee_bailed || r->result == NULL || r->cap == NULL) {
        rec_rollback(r, nodes);
        r->callee_bailed = false;
        if (mutations != r->mutations) { /* what the callee did to containers of ours can't be undone in their shadows */
            r->spoiled = true;
        }
        return rec_fail(r, DYN_R_CALLEE_BAILED, PyUnicode_AsUTF8(code->co_name));
    }
    return r->result;
}

/* ---- one call */

static bool is_array_method(const RecCall *c) {
    PyObject *f = c->callable.real;
    return Py_TYPE(f) == &PyMethodDescr_Type && c->npos > 0 && rec_is_array(c->args[0].v);
}

static DynVal *call_special(DynRec *r, const RecCall *c, PyObject **result) {
    *result = rec_call_real(c);
    if (c->callable.real == dyn_special[DYN_SPECIAL_GRAPH_BREAK]) {
        return rec_fail(r, DYN_R_USER_BREAK, NULL);
    }
    return rec_fail(r, DYN_R_OPAQUE_CALL, NULL);
}

static const char *callable_name(DynRec *r, PyObject *f) {
    PyObject *name = PyObject_GetAttrString(f, "__qualname__");
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    text = text ? dyn_arena_strdup(&r->arena, text) : NULL;
    Py_XDECREF(name);
    PyErr_Clear();
    return text ? text : Py_TYPE(f)->tp_name;
}

/* Look at every argument before the call runs: it may change them. */
static int resolve_args(DynRec *r, const RecCall *c) {
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        if (dyn_rec_resolve(r, c->args[i].v, c->args[i].real) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool wrapped_function(RecCall *c, DynRec *r) {
    if (strcmp(Py_TYPE(c->callable.real)->tp_name, "dynoc.OptimizedFunction") != 0 &&
        strcmp(Py_TYPE(c->callable.real)->tp_name, "dynoc._dynoc.OptimizedFunction") != 0) {
        return false;
    }
    PyObject *inner = PyObject_GetAttrString(c->callable.real, "__wrapped__");
    if (inner == NULL || !PyFunction_Check(inner)) {
        PyErr_Clear();
        Py_XDECREF(inner);
        return false;
    }
    DynVal *v = dyn_rec_const(r, inner);
    Py_DECREF(inner); /* dyn_rec_const keeps it */
    if (v == NULL) {
        return false;
    }
    c->callable = (DynOperand){v, inner};
    return true;
}

static DynVal *call(DynRec *r, RecCall *c, PyObject **result) {
    PyObject *f = c->callable.real;
    DynVal *v;
    bool handled = false;
    if (dyn_rec_resolve(r, c->callable.v, f) < 0 || (c->callable.v->kind != DV_CONST && c->callable.v->kind != DV_FUNC)) {
        *result = rec_call_real(c);
        return *result ? rec_fail(r, DYN_R_OPAQUE_CALL, callable_name(r, f)) : NULL;
    }
    for (int i = 0; i < DYN_SPECIAL_COUNT; i++) {
        if (f == dyn_special[i]) {
            return call_special(r, c, result);
        }
    }
    if (PyFunction_Check(f) && dyn_np_find(f) == NULL) {
        return call_inlined(r, c, result);
    }
    if (wrapped_function(c, r)) {
        return call_inlined(r, c, result);
    }
    int known = resolve_args(r, c);
    const DynBinding *b = dyn_np_find(f);
    if (b == NULL && known == 0 && is_array_method(c)) {
        b = dyn_np_find_method(((PyDescrObject *)f)->d_name);
    }
    if (known == 0 && b != NULL) {
        *result = rec_call_real(c);
        v = *result ? dyn_np_call(r, b, c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result) : NULL;
        if (*result != NULL && v == NULL) {
            PyErr_Clear();
            r->detail = r->detail ? r->detail : callable_name(r, f);
        }
        return v;
    }
    if (known == 0 && (v = rec_call_builtin(r, c, result, &handled), handled)) {
        return v;
    }
    if (known == 0 && (v = rec_call_method(r, c, result, &handled), handled)) {
        return v;
    }
    *result = rec_call_real(c);
    return *result ? rec_fail(r, DYN_R_OPAQUE_CALL, callable_name(r, f)) : NULL;
}

/* Bound methods and callable instances become a function with self in front. */
static int unwrap(DynRec *r, RecCall *c) {
    DynOperand *f = &c->callable;
    DynOperand func, self;
    if (dyn_rec_resolve(r, f->v, f->real) < 0) {
        return 0;
    }
    if (f->v->kind == DV_METHOD && PyMethod_Check(f->real)) {
        func = (DynOperand){f->v->items[0], PyMethod_GET_FUNCTION(f->real)};
        self = (DynOperand){f->v->items[1], PyMethod_GET_SELF(f->real)};
    } else if (f->v->kind == DV_OBJECT && f->v->source != DYN_NONE && !PyArray_Check(f->real)) {
        PyTypeObject *type = Py_TYPE(f->real);
        PyObject *name = PyUnicode_InternFromString("__call__");
        PyObject *call = name ? dyn_cpy_lookup_special(type, name) : NULL;
        uint32_t s = call == NULL || !PyFunction_Check(call)
                         ? DYN_NONE
                         : dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, (PyObject *)type, NULL);
        s = s == DYN_NONE ? s : dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, s, 0, NULL, name);
        Py_XDECREF(name);
        if (s == DYN_NONE) {
            return 0;
        }
        self = *f;
        func = (DynOperand){rec_source(r, s), call};
        if (func.v == NULL) {
            return 0;
        }
    } else if (f->v->kind == DV_CONST && PyCFunction_Check(f->real) && PyCFunction_GET_SELF(f->real) != NULL &&
               Py_TYPE(PyCFunction_GET_SELF(f->real)) == &PyUFunc_Type) { /* add_reduce = np.add.reduce */
        PyObject *name = PyUnicode_InternFromString(((PyCFunctionObject *)f->real)->m_ml->ml_name);
        PyObject *method = name ? dyn_cpy_lookup_special(&PyUFunc_Type, name) : NULL;
        Py_XDECREF(name);
        if (method == NULL || Py_TYPE(method) != &PyMethodDescr_Type) {
            return 0;
        }
        self = (DynOperand){dyn_rec_const(r, PyCFunction_GET_SELF(f->real)), PyCFunction_GET_SELF(f->real)};
        func = (DynOperand){dyn_rec_const(r, method), method};
        if (self.v == NULL || func.v == NULL) {
            return 0;
        }
    } else {
        return 0;
    }
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw + 1);
    if (args == NULL) {
        return 0;
    }
    args[0] = self;
    if (c->npos + c->nkw > 0) {
        memcpy(args + 1, c->args, (c->npos + c->nkw) * sizeof *args);
    }
    c->args = args;
    c->npos++;
    c->callable = func;
    return 1;
}

static Step finish_call(DynRec *r, RecFrame *f, RecCall *c, uint32_t npop) {
    PyObject *result = NULL;
    for (int i = 0; i < 4 && unwrap(r, c); i++) {
    }
    DynVal *v = call(r, c, &result);
    if (result == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "call failed without an exception");
    }
    return rec_commit(r, f, npop, result, v);
}

/* Lay out a call whose two slots start at stack position `base` (from the bottom of the operands). */
static int lay_out(DynRec *r, RecFrame *f, RecCall *c, uint32_t nargs, uint32_t npop, PyObject *kwnames) {
    PyObject **real = &f->real[f->sp - npop];
    DynVal **shadow = &f->shadow[f->ssp - npop];
    uint32_t nkw = kwnames ? (uint32_t)PyTuple_GET_SIZE(kwnames) : 0;
    bool null_first = dyn_call_null_first();
    bool self = null_first ? real[0] != NULL : real[1] != NULL;
    uint32_t func = null_first ? (self ? 0 : 1) : 0, first = self ? 1 : 2;
    c->callable = (DynOperand){shadow[func], real[func]};
    c->npos = nargs - nkw + (self ? 1 : 0);
    c->nkw = nkw;
    c->kwnames = kwnames;
    c->args = DYN_NEW_N(&r->arena, DynOperand, c->npos + nkw + 1);
    if (c->args == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < c->npos + nkw; i++) {
        c->args[i] = (DynOperand){shadow[first + i], real[first + i]};
    }
    return 0;
}

Step rec_CALL(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecCall c;
    PyObject *kwnames = in->target == DYN_NONE ? NULL : PyTuple_GET_ITEM(f->code->code->co_consts, in->target);
    if (lay_out(r, f, &c, in->arg, in->arg + 2, kwnames) < 0) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    return finish_call(r, f, &c, in->arg + 2);
}

Step rec_CALL_KW(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecCall c;
    PyObject *kwnames = *real_top(f, 1);
    f->sp--, f->ssp--; /* the names lie above the operands */
    int ok = lay_out(r, f, &c, in->arg, in->arg + 2, kwnames);
    f->sp++, f->ssp++;
    return ok < 0 ? step_bail(r, DYN_R_NO_MEMORY, NULL) : finish_call(r, f, &c, in->arg + 3);
}

static int spread_keywords(DynRec *r, DynOperand kw, RecCall *c) {
    Py_ssize_t pos = 0, i = 0;
    PyObject *key, *value;
    c->nkw = kw.v->n / 2;
    c->kwnames = PyTuple_New(c->nkw);
    if (c->kwnames == NULL) {
        PyErr_Clear();
        return -1;
    }
    while (PyDict_Next(kw.real, &pos, &key, &value)) {
        if (!PyUnicode_CheckExact(key) || i >= (Py_ssize_t)c->nkw) {
            return -1;
        }
        PyTuple_SET_ITEM(c->kwnames, i, Py_NewRef(key));
        c->args[c->npos + i] = (DynOperand){kw.v->items[2 * i + 1], value};
        i++;
    }
    return 0;
}

Step rec_CALL_FUNCTION_EX(DynRec *r, RecFrame *f, const DynInstr *in) {
    bool has_kw = in->arg & 1, null_first = dyn_call_null_first();
    uint32_t npop = has_kw ? 4 : 3, n;
    DynOperand args = operand(f, has_kw ? 2 : 1), kw = has_kw ? operand(f, 1) : (DynOperand){0};
    RecCall c = {.callable = operand(f, npop - (null_first ? 1 : 0))};
    DynVal **items;
    bool fits = (PyTuple_CheckExact(args.real) || PyList_CheckExact(args.real)) &&
                rec_items(r, args.v, args.real, &items, &n) == 0 && n == PySequence_Fast_GET_SIZE(args.real);
    if (has_kw) {
        fits = fits && PyDict_CheckExact(kw.real) && dyn_rec_resolve(r, kw.v, kw.real) == 0 && kw.v->kind == DV_DICT;
    }
    if (!fits || (c.args = DYN_NEW_N(&r->arena, DynOperand, n + (has_kw ? kw.v->n : 0) + 1)) == NULL) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "call with * or ** of something that isn't known");
    }
    c.npos = n;
    for (uint32_t i = 0; i < n; i++) {
        c.args[i] = (DynOperand){items[i], PySequence_Fast_GET_ITEM(args.real, i)};
    }
    if (has_kw && spread_keywords(r, kw, &c) < 0) {
        Py_XDECREF(c.kwnames);
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "keywords");
    }
    PyObject *names = c.kwnames;
    Step s = finish_call(r, f, &c, npop);
    Py_XDECREF(names);
    return s;
}

/* ---- functions made while recording */

static DynVal *new_func(DynRec *r, PyObject *code) {
    DynVal *v = rec_new(r, DV_FUNC);
    if (v == NULL || rec_keep(r, code) < 0 || (v->items = DYN_NEW_N(&r->arena, DynVal *, 3)) == NULL) {
        return NULL;
    }
    v->obj = code;
    v->fresh = true;
    return v; /* items: closure, defaults, keyword defaults; n stays 0, they are no items of a container */
}

static int set_part(DynRec *r, PyObject *func, DynVal *v, int flag, PyObject *o, DynVal *ov) {
    PyFunctionObject *f = (PyFunctionObject *)func;
    switch (flag) {
    case 0x08: v->items[0] = ov; return PyFunction_SetClosure(func, o);
    case 0x04: Py_XSETREF(f->func_annotations, Py_NewRef(o)); return 0;
    case 0x02: v->items[2] = ov; return PyFunction_SetKwDefaults(func, o);
    default:
        if (ov->kind == DV_CONST) {
            DynVal **items;
            uint32_t n;
            ov = rec_items(r, ov, o, &items, &n) < 0 ? NULL : dyn_rec_seq(r, DV_TUPLE, n, items, o);
        }
        v->items[1] = ov;
        return PyFunction_SetDefaults(func, o);
    }
}

Step rec_MAKE_FUNCTION(DynRec *r, RecFrame *f, const DynInstr *in) {
    static const int flags[] = {0x08, 0x04, 0x02, 0x01}; /* as they lie on the stack below the code */
    PyObject *code = *real_top(f, 1), *func = PyFunction_New(code, dyn_frame_globals(f->f));
    DynVal *v = new_func(r, code);
    uint32_t npop = 1;
    if (func == NULL || v == NULL) {
        PyErr_Clear();
        Py_XDECREF(func);
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    for (size_t i = 0; i < DYN_COUNTOF(flags); i++) {
        if (in->arg & (uint32_t)flags[i]) {
            npop++;
            if (set_part(r, func, v, flags[i], *real_top(f, npop), *shadow_top(f, npop)) < 0) {
                Py_DECREF(func);
                return STEP_ERROR;
            }
        }
    }
    return rec_commit(r, f, npop, func, v);
}

Step rec_SET_FUNCTION_ATTRIBUTE(DynRec *r, RecFrame *f, const DynInstr *in) {
    DynOperand func = operand(f, 1), o = operand(f, 2);
    if (func.v->kind != DV_FUNC) {
        return step_bail(r, DYN_R_UNSUPPORTED_VALUE, "function");
    }
    if (set_part(r, func.real, func.v, (int)in->arg, o.real, o.v) < 0) {
        return STEP_ERROR;
    }
    return rec_commit(r, f, 2, Py_NewRef(func.real), func.v);
}
