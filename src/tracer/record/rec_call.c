/* rec_call.c: handlers for calls. A call is laid out once (RecCall), then asked of in order: the rules for what an address
 * doesn't tell, callables.def, Python functions (recorded into, through the hook), NumPy's and PyTorch's callables (bound to
 * operators); what is left is opaque: run for real, a graph break. call_any shows the order on one page.
 *
 * Called from record.c's table. The callee's frame comes back in through dyn_record_inlined. */
#include "base/tensors.h"
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

PyObject *rec_call_real(const RecCall *c) {
    PyObject *space[16] = {NULL}, **args = space;
    uint32_t n = c->npos + c->nkw;
    if (c->packed != NULL) {
        return PyObject_Call(c->callable.real, c->packed, c->packed_kw);
    }
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

/* ---- Python functions */

uint32_t rec_function_source(DynRec *r, DynVal *v, PyObject *func) {
    if (v->kind == DV_FUNC) {
        return DYN_NONE;
    }
    DynSources *t = &r->cap->sources;
    PyFunctionObject *f = (PyFunctionObject *)func;
    uint32_t s = v->source != DYN_NONE ? v->source : dyn_source_intern(t, DYN_SRC_CONST, DYN_NONE, 0, func, NULL);
    if (s == DYN_NONE || rec_guard(r, DYN_GUARD_CODE, s, DYN_NONE, 0, f->func_code) < 0) {
        return DYN_NONE;
    }
    if (v->kind == DV_PYFUNC) { /* any function of this code will do, if its names mean the same */
        uint32_t builtins = dyn_source_intern(t, DYN_SRC_CONST, DYN_NONE, 0, f->func_builtins, NULL);
        return builtins == DYN_NONE || rec_guard(r, DYN_GUARD_GLOBALS, s, builtins, 0, f->func_globals) < 0 ? DYN_NONE : s;
    }
    return s;
}

static bool recordable(const PyCodeObject *code) {
    return !(code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE));
}

static bool plain_generator(const PyCodeObject *code) {
    return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE)) == CO_GENERATOR;
}

static bool is_lost(const DynRec *r, const PyCodeObject *code) {
    bool lost = false;
    for (uint32_t i = 0; i < r->lost.n && !lost; i++) {
        lost = r->lost.at[i] == code;
    }
    return lost;
}

/* The frame that a call is about to make can be recorded into: its code, where the function is found, and how deep it is. */
static bool can_enter(DynRec *r, const DynVal *fv, const PyCodeObject *code, uint32_t source) {
    bool found = source != DYN_NONE || fv->kind == DV_FUNC;
    return found && recordable(code) && !dyn_recursion_near_limit(r->ts);
}

/* Is it one of dynoc/_gradient.py's functions, where a gradient is wanted? Elsewhere they are entries of their own. */
static bool is_gradient(const DynRec *r, PyObject *func) {
    PyObject *name = r->derives ? PyDict_GetItemString(PyFunction_GET_GLOBALS(func), "__name__") : NULL;
    return name != NULL && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "dynoc._gradient") == 0;
}

/* The call is one that breaks: is there something that later calls make in its place? */
static void find_stand_in(DynRec *r, const RecCall *c, PyObject *func) {
    RecFrame *f = r->top;
    const DynInstr *in = &f->code->v.at[f->pc];
    if (c->direct && in->op != DYN_I_CALL_FUNCTION_EX) {
        PyObject **slots = &f->real[f->sp - dyn_stack_effect(in).pops];
        r->stand_in = r->req->stand_in(r->req, func, slots[1] != NULL ? slots[1] : slots[0]);
    }
}

static DynVal *call_bound(DynRec *r, const RecCall *c, const RecCall *bound, DynOperand callee, bool whole, PyObject **result);

/* Does it ask for its iterator itself, before it is a generator? Generator expressions do from CPython 3.15 on. */
static bool asks_for_iterator(const PyCodeObject *code) {
    PyObject *first = dyn_iterator_slots() == 2 && code->co_argcount == 1 ? PyTuple_GET_ITEM(code->co_localsplusnames, 0) : NULL;
    return first != NULL && PyUnicode_CompareWithASCIIString(first, ".0") == 0;
}

/* The call makes a generator. An __iter__ in Python that runs within it is recorded as a call of it would be. */
static DynVal *call_generator(DynRec *r, const RecCall *c, const RecCall *bound, RecPending call, PyObject **result) {
    bool asks = bound->npos == 1 && asks_for_iterator((PyCodeObject *)PyFunction_GET_CODE(call.func));
    DynOperand method = asks ? rec_iter_method(r, bound->args[0]) : (DynOperand){0};
    if (method.v == NULL) {
        *result = rec_call_real(c);
        return *result == NULL ? NULL : rec_new_generator(r, *result, &call);
    }
    if (!PyFunction_Check(method.real) || !recordable((PyCodeObject *)PyFunction_GET_CODE(method.real))) {
        *result = rec_call_real(c);
        return *result == NULL ? NULL : rec_fail(r, DYN_R_GENERATOR, "what it goes over");
    }
    RecCall inner = {.callable = method, .args = bound->args, .npos = 1};
    call.iterator = call_bound(r, c, &inner, method, true, result);
    return call.iterator == NULL ? NULL : rec_new_generator(r, *result, &call);
}

/* By its __name__, to which functools.wraps gives the wrapped function's. No exception is pending. */
static const char *name_of_function(DynRec *r, PyObject *func) {
    const char *name = PyUnicode_AsUTF8(((PyFunctionObject *)func)->func_name);
    name = name == NULL ? NULL : dyn_arena_strdup(&r->arena, name);
    PyErr_Clear();
    return name;
}

/* A call that leads to a frame of the Python function `callee` with the arguments of `bound`: the hook hands that frame to
 * dyn_record_inlined. NULL with *result set: the callee bailed out. */
static DynVal *call_bound(DynRec *r, const RecCall *c, const RecCall *bound, DynOperand callee, bool whole, PyObject **result) {
    PyObject *func = callee.real;
    DynVal *fv = callee.v;
    PyCodeObject *code = (PyCodeObject *)PyFunction_GET_CODE(func);
    uint32_t nslots = (uint32_t)dyn_code_nlocalsplus(code);
    RecMark start = rec_mark(r); /* what binding makes (**kwargs) is the callee's own */
    DynVal **slots = DYN_NEW_N(&r->arena, DynVal *, nslots + 1);
    uint32_t source = rec_function_source(r, fv, func);
    DynReason refuse = is_lost(r, code) ? DYN_R_CALLEE_BAILED : r->req->may_inline(r->req, func);
    refuse = refuse == DYN_R_SKIPPED_CALL && is_gradient(r, func) ? DYN_R_OK : refuse;
    uint32_t ninstrs = r->ninstrs, ninstrs_lost = r->ninstrs_lost;
    bool makes = refuse == DYN_R_GENERATOR && plain_generator(code) && rec_may_make_generator(r, fv, source);
    if (makes && slots != NULL && rec_bind_slots(r, func, fv, source, bound, slots) == 0) {
        return call_generator(r, c, bound, (RecPending){func, fv, source, slots, nslots, whole, NULL}, result);
    }
    bool enters = refuse == DYN_R_OK && slots != NULL && can_enter(r, fv, code, source);
    if (!enters || rec_bind_slots(r, func, fv, source, bound, slots) < 0) {
        if (refuse == DYN_R_OPAQUE_CALL) {
            find_stand_in(r, c, func);
        }
        const char *name = name_of_function(r, func); /* before it can raise */
        r->pending.func = NULL;
        *result = rec_call_real(c);
        return rec_fail(r, refuse != DYN_R_OK ? refuse : DYN_R_OPAQUE_CALL, name);
    }
    r->pending = (RecPending){func, fv, source, slots, nslots, whole, NULL};
    r->callee_bailed = false;
    rec_forget_callee(r);
    r->result = NULL;
    *result = rec_call_real(c);
    bool entered = r->pending.func == NULL;
    r->pending.func = NULL;
    if (*result == NULL && c->of != NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        r->error = NULL;
        *result = rec_ask_again(c);
        r->callee_bailed = true;
    }
    if (*result == NULL) {
        if (r->cap != NULL && r->error == NULL) { /* what it did is not known; the instruction takes its nodes back */
            rec_spoil(r, &start);
        }
        return NULL;
    }
    bool recorded = entered && !r->callee_bailed && r->result != NULL;
    if (!recorded || r->cap == NULL) {
        rec_spoil(r, &start);
        rec_rollback(r, &start);
        r->callee_bailed = false;
        r->ninstrs_lost = ninstrs_lost + r->ninstrs - ninstrs;
        r->ninstrs_node = r->ninstrs;
        return rec_fail(r, DYN_R_CALLEE_BAILED, name_of_function(r, func));
    }
    return r->result;
}

static DynVal *call_inlined(DynRec *r, const RecCall *c, DynOperand callee, bool whole, PyObject **result) {
    return call_bound(r, c, c, callee, whole || c->of != NULL, result);
}

DynVal *rec_call_behind(DynRec *r, const RecCall *c, const RecCall *inner, DynOperand func, PyObject **result) {
    return call_bound(r, c, inner, func, true, result);
}

DynVal *rec_call_function(DynRec *r, const RecCall *c, PyObject **result) {
    if (r->cap != NULL && c->leads_to != NULL) {
        return rec_call_dispatched(r, c, result);
    }
    if (r->cap == NULL ||
        dyn_rec_resolve(r, c->callable.v, c->callable.real) < 0) { /* NULL: an earlier call ended the recording */
        *result = rec_call_real(c);
        return NULL;
    }
    return call_inlined(r, c, c->callable, r->top->asks != c->callable.real, result);
}

/* ---- NumPy's public functions: a dispatcher in C that asks a Python function for the arguments that may override it, and, where
 * none does, calls its implementation with the arguments as they came */

static PyTypeObject *dispatcher_type, *method_wrapper;
static PyObject *implementation_name, *override_name;

int rec_call_init(void) {
    PyObject *module = dyn_import("numpy._core._multiarray_umath");
    dispatcher_type = module ? (PyTypeObject *)PyObject_GetAttrString(module, "_ArrayFunctionDispatcher") : NULL;
    implementation_name = PyUnicode_InternFromString("_implementation");
    override_name = PyUnicode_InternFromString("__array_function__");
    Py_XDECREF(module);
    PyObject *wrapper = PyObject_GetAttrString(Py_None, "__str__");
    method_wrapper = wrapper ? Py_TYPE(wrapper) : NULL; /* a builtin type: there for good */
    Py_XDECREF(wrapper);
    bool types = method_wrapper != NULL && dispatcher_type != NULL;
    return types && implementation_name != NULL && override_name != NULL ? 0 : -1;
}

/* The type has no such attribute, and doesn't get one: it can't, or a guard says so. */
static bool never_has(DynRec *r, PyTypeObject *type, PyObject *name) {
    if (dyn_cpy_lookup_special(type, name) != NULL) {
        return false;
    }
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE)) {
        return true;
    }
    DynSources *t = &r->cap->sources;
    uint32_t s =
        Py_TYPE(type) == &PyType_Type ? dyn_source_intern(t, DYN_SRC_CONST, DYN_NONE, 0, (PyObject *)type, NULL) : DYN_NONE;
    s = s == DYN_NONE ? s : dyn_source_intern(t, DYN_SRC_ATTR, s, 0, NULL, name);
    return s != DYN_NONE && rec_guard(r, DYN_GUARD_MISSING, s, DYN_NONE, 0, NULL) == 0;
}

/* Does nothing in this argument override NumPy's functions, now and at every call under the guards? */
static bool overrides_nothing(DynRec *r, DynVal *v, PyObject *o, int depth) {
    if (depth > 3 || dyn_rec_resolve(r, v, o) < 0) {
        return false;
    }
    if (v->kind == DV_OPAQUE || v->kind == DV_ITER) {
        return false;
    }
    if (v->kind == DV_TUPLE || v->kind == DV_LIST) {
        bool plain = (PyTuple_CheckExact(o) || PyList_CheckExact(o)) && PySequence_Fast_GET_SIZE(o) == (Py_ssize_t)v->n;
        for (uint32_t i = 0; plain && i < v->n; i++) {
            plain = overrides_nothing(r, v->items[i], PySequence_Fast_GET_ITEM(o, i), depth + 1);
        }
        return plain;
    }
    return PyArray_CheckExact(o) || never_has(r, Py_TYPE(o), override_name);
}

/* The Python function behind a NumPy function; v is NULL where it isn't one, or may not be reached with these arguments. */
static DynOperand implementation(DynRec *r, const RecCall *c) {
    DynOperand none = {0};
    if (PyFunction_Check(c->callable.real)) {
        return c->callable;
    }
    if (Py_TYPE(c->callable.real) != dispatcher_type) {
        return none;
    }
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        if (!overrides_nothing(r, c->args[i].v, c->args[i].real, 0)) {
            return none;
        }
    }
    PyObject *f = PyObject_GetAttr(c->callable.real, implementation_name);
    DynVal *v = f != NULL && PyFunction_Check(f) ? dyn_rec_const(r, f) : NULL;
    PyErr_Clear();
    Py_XDECREF(f); /* the dispatcher has it, and dyn_rec_const keeps it */
    return v == NULL ? none : (DynOperand){v, f};
}

/* A NumPy function that ran and gave `result`, but was not recorded to its end: one that is listed as free of effects is a node,
 * unless what it did to containers that it was given is unknown. */
static DynVal *fallback_for_numpy(DynRec *r, const RecCall *c, const DynBinding *b, PyObject *result) {
    DynReason why = r->why;
    const char *detail = r->detail;
    DynVal *v = NULL;
    bool known = r->cap != NULL && !r->spoiled && !r->behind;
    if (b != NULL && known) {
        v = dyn_np_call(r, b, c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, result);
        PyErr_Clear();
    }
    return v != NULL ? v : rec_fail(r, why, detail);
}

/* ---- one call */

static bool is_array_method(const RecCall *c) {
    PyObject *f = c->callable.real;
    bool of_array = c->npos > 0 && rec_is_array(c->args[0].v) && !dyn_tensor_is(c->args[0].real);
    return of_array && Py_TYPE(f) == &PyMethodDescr_Type;
}

/* dynoc's own functions. */
static DynVal *call_special(DynRec *r, const RecCall *c, PyObject **result) {
    bool special = false;
    for (int i = 0; i < DYN_SPECIAL_COUNT && !special; i++) {
        special = c->callable.real == dyn_special[i];
    }
    if (!special) {
        return REC_DECLINED;
    }
    *result = rec_call_real(c);
    if (c->callable.real == dyn_special[DYN_SPECIAL_GRAPH_BREAK]) {
        return rec_fail(r, DYN_R_USER_BREAK, NULL);
    }
    return *result == NULL ? NULL : dyn_rec_const(r, *result); /* is_tracing: true in a graph, too */
}

const char *rec_callable_name(DynRec *r, PyObject *f) {
    bool ufunc = Py_TYPE(f) == &PyUFunc_Type;
    PyObject *name = PyObject_GetAttrString(f, ufunc ? "__name__" : "__qualname__");
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    DynStr s = {0};
    if (text != NULL) {
        dyn_str_printf(&s, "%s%s", ufunc ? "ufunc " : "", text);
        text = dyn_arena_strdup(&r->arena, dyn_str_at(&s));
    }
    dyn_str_free(&s);
    Py_XDECREF(name);
    PyErr_Clear();
    return text ? text : Py_TYPE(f)->tp_name;
}

int rec_resolve_args(DynRec *r, const RecCall *c) {
    int (*resolve)(DynRec *, DynVal *, PyObject *) =
        rec_has_flag(c->callable.real, REC_WALKS) ? rec_resolve_walked : dyn_rec_resolve;
    for (uint32_t i = 0; i < c->npos + c->nkw; i++) {
        if (resolve(r, c->args[i].v, c->args[i].real) < 0) {
            return -1;
        }
    }
    return 0;
}

static bool all_constant(DynRec *r, const RecCall *c) {
    bool constant = true;
    for (uint32_t i = 0; constant && i < c->npos + c->nkw; i++) {
        DynVal *v = c->args[i].v;
        constant = v->kind == DV_SYM ? dyn_sym_is_const(&r->cap->syms, rec_sym_of(v)) : v->kind == DV_CONST;
    }
    return constant;
}

/* A function that dynoc.optimize gave: the function inside is recorded into. */
DynVal *rec_on_optimized(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    PyObject *inner = PyObject_GetAttrString(c->callable.real, "__wrapped__");
    bool constant = dyn_rec_resolve(r, c->callable.v, c->callable.real) == 0 && c->callable.v->kind == DV_CONST;
    bool known = constant && inner != NULL && PyFunction_Check(inner);
    DynVal *v = known ? dyn_rec_const(r, inner) : NULL;
    PyErr_Clear();
    Py_XDECREF(inner); /* dyn_rec_const keeps it */
    if (v == NULL) {
        return REC_DECLINED;
    }
    RecCall of_inner = *c;
    of_inner.callable = (DynOperand){v, inner};
    return call_inlined(r, &of_inner, of_inner.callable, false, result);
}

/* super() asks the frame, super(C, o) its arguments; either way the object that it is bound to is in the frame or given. */
DynVal *rec_on_super(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    RecFrame *f = r->top;
    DynOperand self = {0};
    if (c->npos == 2) {
        self = c->args[1];
    } else if (c->npos == 0 && f->code->code->co_argcount > 0 && rec_local(f, 0) != NULL) {
        PyObject *first = rec_local(f, 0);
        bool cell = PyCell_Check(first) && f->shadow[0]->kind == DV_CELL;
        self = cell ? (DynOperand){f->shadow[0]->cell.content, PyCell_GET(first)} : (DynOperand){f->shadow[0], first};
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    bool known = self.v != NULL && self.real != NULL && dyn_rec_resolve(r, self.v, self.real) == 0;
    return known ? rec_new_super(r, *result, self) : rec_fail(r, DYN_R_OPAQUE_CALL, "super");
}

/* Of an np.vectorize object that came in: does its function have no effects? */
static bool maps_purely(DynRec *r, DynOperand o) {
    PyObject *name = PyUnicode_InternFromString("pyfunc"), *func = name ? PyObject_GetAttr(o.real, name) : NULL;
    DynVal *v = func ? rec_attr(r, o, name, func) : NULL;
    bool pure = v != NULL && PyFunction_Check(func) && rec_is_pure(r, (DynOperand){v, func}, true);
    PyErr_Clear();
    Py_XDECREF(func);
    Py_XDECREF(name);
    return pure;
}

/* An object of np.vectorize, made by the graph or found, whose function has no effects: a call of its class's __call__. */
DynVal *rec_on_vectorized(DynRec *r, const RecCall *c, PyObject **result, int arg) {
    DynOperand f = c->callable;
    PyObject *method = dyn_cpy_lookup_named(Py_TYPE(f.real), "__call__");
    uint32_t n = c->npos + c->nkw;
    bool known = method != NULL && dyn_rec_resolve(r, f.v, f.real) == 0 && rec_resolve_args(r, c) == 0;
    known = known && (f.v->kind == DV_MADE || (f.v->kind == DV_OBJECT && maps_purely(r, f)));
    DynOperand *args = known ? DYN_NEW_N(&r->arena, DynOperand, n + 1) : NULL;
    if (args == NULL) {
        return REC_DECLINED;
    }
    args[0] = f;
    memcpy(args + 1, c->args, n * sizeof *args);
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    return dyn_np_mapped_call(r, method, args, (int)c->npos + 1, c->nkw ? c->kwnames : NULL, *result);
}

typedef DynVal *(*Rule)(DynRec *r, const RecCall *c, PyObject **result);
/* Asked before the callable is looked at, after it was, and after the arguments were. */
static const Rule of_anything[] = {rec_call_marked, rec_call_triton, rec_call_foreign,   rec_call_quiet_exit,
                                   rec_call_getter, rec_call_tapped, rec_call_dispatched};
static const Rule of_constants[] = {rec_call_enum, rec_call_class, rec_call_exception_init, rec_call_replace};
static const Rule of_values[] = {rec_call_iterator_method};

static DynVal *by_rule(DynRec *r, const RecCall *c, PyObject **result, const Rule *rules, size_t n) {
    DynVal *v = REC_DECLINED;
    for (size_t i = 0; i < n && v == REC_DECLINED; i++) {
        v = rules[i](r, c, result);
    }
    return v;
}

static DynVal *call_opaque(DynRec *r, const RecCall *c, PyObject **result) {
    PyObject *f = c->callable.real;
    *result = rec_call_real(c);
    return *result ? rec_fail(r, DYN_R_OPAQUE_CALL, rec_callable_name(r, f)) : NULL;
}

/* A NumPy or PyTorch function that is bound to an operator, or an array's method. */
static DynVal *call_bound_to_operator(DynRec *r, const RecCall *c, PyObject **result, const DynBinding *b) {
    PyObject *f = c->callable.real;
    *result = rec_torch_asks_by_mode(r, c, b) ? Py_NewRef(Py_False) : rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    bool folds = (Py_TYPE(f) == &PyUFunc_Type || PyType_Check(f)) && all_constant(r, c);
    if (folds && PyArray_CheckScalar(*result) && rec_is_quiet_npscalar(*result)) {
        return dyn_rec_const(r, *result);
    }
    DynVal *v = dyn_np_call(r, b, c->args, (int)c->npos, c->nkw ? c->kwnames : NULL, *result);
    if (v == NULL) {
        PyErr_Clear();
        r->detail = r->detail ? r->detail : rec_callable_name(r, f);
    }
    return v;
}

/* A callable that is the same at every call. */
static DynVal *call_constant(DynRec *r, const RecCall *c, PyObject **result) {
    PyObject *f = c->callable.real;
    const DynBinding *b = dyn_np_find(f);
    DynVal *v = REC_DECLINED;
    if (b == NULL) {
        v = rec_call_known(r, c, result, true);
        v = v != REC_DECLINED ? v : by_rule(r, c, result, of_constants, DYN_COUNTOF(of_constants));
    }
    if (v != REC_DECLINED) {
        return v;
    }
    if (b == NULL && PyFunction_Check(f)) {
        return call_inlined(r, c, c->callable, false, result);
    }
    if (rec_resolve_args(r, c) < 0) {
        return call_opaque(r, c, result);
    }
    bool inside = b == NULL || !dyn_np_has_rule(b) || (r->derives && dyn_np_has_derivative_inside(b));
    DynOperand behind = inside ? implementation(r, c) : (DynOperand){0};
    if (behind.v != NULL) {
        v = call_inlined(r, c, behind, true, result);
        return v != NULL || *result == NULL ? v : fallback_for_numpy(r, c, b, *result);
    }
    if (b == NULL && is_array_method(c)) {
        b = dyn_np_find_method(((PyDescrObject *)f)->d_name);
    }
    if (b != NULL) {
        return call_bound_to_operator(r, c, result, b);
    }
    v = rec_call_known(r, c, result, false);
    v = v != REC_DECLINED ? v : by_rule(r, c, result, of_values, DYN_COUNTOF(of_values));
    return v != REC_DECLINED ? v : call_opaque(r, c, result);
}

/* A callable that is the same at every call, or a function made while recording. */
static DynVal *call_known(DynRec *r, const RecCall *c, PyObject **result) {
    DynVal *v = call_special(r, c, result);
    return v != REC_DECLINED ? v : call_constant(r, c, result);
}

static DynVal *call_pyfunc(DynRec *r, const RecCall *c, PyObject **result) {
    return call_inlined(r, c, c->callable, false, result);
}

/* The column `call`: makes the call, and gives the shadow of the result; NULL: unknown, and why is set, or it raised. */
static DynVal *(*const call_as[DV_COUNT])(DynRec *r, const RecCall *c, PyObject **result) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = call,
#include "tracer/record/shadow.def"
#undef SHADOW
};

static DynVal *call_any(DynRec *r, RecCall *c, PyObject **result) {
    rec_torch_checkpoint(r, c);
    DynVal *v = by_rule(r, c, result, of_anything, DYN_COUNTOF(of_anything));
    v = v != REC_DECLINED ? v : rec_call_instance(r, c, result);
    if (v != REC_DECLINED) {
        return v;
    }
    bool known = dyn_rec_resolve(r, c->callable.v, c->callable.real) == 0;
    return known ? call_as[c->callable.v->kind](r, c, result) : call_opaque(r, c, result);
}

static DynVal *call(DynRec *r, RecCall *c, PyObject **result) {
    DynVal *v = call_any(r, c, result);
    for (uint32_t i = 0; i < c->npos && v != NULL; i++) {
        v = rec_itself(v, *result, c->args[i].real, c->args[i].v);
    }
    return v;
}

DynOperand rec_type_method(DynRec *r, DynOperand o, const char *name) {
    DynOperand none = {0};
    bool there = o.v->source != DYN_NONE || o.v->fresh;
    if (o.v->kind != DV_OBJECT || !there || PyArray_Check(o.real)) {
        return none;
    }
    PyTypeObject *type = Py_TYPE(o.real);
    PyObject *key = PyUnicode_InternFromString(name), *func = key ? dyn_cpy_lookup_special(type, key) : NULL;
    if (func != NULL && PyFunction_Check(func) &&
        !Py_IS_TYPE(type, &PyType_Type)) { /* its attributes aren't read as others' are */
        bool guarded = rec_guard_class(r, type, key) == 0;
        Py_DECREF(key);
        return guarded ? (DynOperand){dyn_rec_const(r, func), func} : none;
    }
    uint32_t s = func == NULL || !PyFunction_Check(func)
                     ? DYN_NONE
                     : dyn_source_intern(&r->cap->sources, DYN_SRC_CONST, DYN_NONE, 0, (PyObject *)type, NULL);
    s = s == DYN_NONE ? s : dyn_source_intern(&r->cap->sources, DYN_SRC_ATTR, s, 0, NULL, key);
    PyErr_Clear();
    Py_XDECREF(key);
    return s == DYN_NONE ? none : (DynOperand){rec_source(r, s), func};
}

/* ---- the column `unwrap`: bound methods, callable instances and the like become what they call, with what they put in front of
 * the arguments. 1: the call is another one now; 0: it is as it was. */

static int unwrap_nothing(DynRec *r, RecCall *c) {
    (void)r, (void)c;
    return 0;
}

/* The call becomes func(self, …). */
static int call_with_self(DynRec *r, RecCall *c, DynOperand func, DynOperand self) {
    DynOperand *args = DYN_NEW_N(&r->arena, DynOperand, c->npos + c->nkw + 1);
    if (args == NULL) {
        return 0;
    }
    args[0] = self;
    c->packed = NULL;
    if (c->npos + c->nkw > 0) {
        memcpy(args + 1, c->args, (c->npos + c->nkw) * sizeof *args);
    }
    c->args = args;
    c->npos++;
    c->callable = func;
    return 1;
}

static int unwrap_method(DynRec *r, RecCall *c) {
    DynVal *func = c->callable.v->method.function, *self = c->callable.v->method.self;
    PyObject *real = c->callable.real;
    if (PyMethod_Check(real)) {
        return call_with_self(r, c, (DynOperand){func, PyMethod_GET_FUNCTION(real)}, (DynOperand){self, PyMethod_GET_SELF(real)});
    }
    if (PyCFunction_Check(real)) {
        return call_with_self(r, c, (DynOperand){func, rec_constant_of(func)}, (DynOperand){self, PyCFunction_GET_SELF(real)});
    }
    if (Py_TYPE(real) != method_wrapper) {
        return 0;
    }
    PyObject *o = PyObject_GetAttrString(real, "__self__");
    PyErr_Clear();
    Py_XDECREF(o); /* the method holds it */
    return call_with_self(r, c, (DynOperand){func, rec_constant_of(func)}, (DynOperand){self, o});
}

static int unwrap_object(DynRec *r, RecCall *c) {
    DynOperand func = rec_type_method(r, c->callable, "__call__");
    return func.v != NULL ? call_with_self(r, c, func, c->callable) : 0;
}

/* A method of a ufunc: add_reduce = np.add.reduce. */
static int unwrap_constant(DynRec *r, RecCall *c) {
    PyObject *f = c->callable.real, *ufunc = PyCFunction_Check(f) ? PyCFunction_GET_SELF(f) : NULL;
    if (ufunc == NULL || Py_TYPE(ufunc) != &PyUFunc_Type) {
        return 0;
    }
    PyObject *method = dyn_cpy_lookup_named(&PyUFunc_Type, ((PyCFunctionObject *)f)->m_ml->ml_name);
    if (method == NULL || Py_TYPE(method) != &PyMethodDescr_Type) {
        return 0;
    }
    DynOperand self = {dyn_rec_const(r, ufunc), ufunc}, func = {dyn_rec_const(r, method), method};
    return self.v != NULL && func.v != NULL ? call_with_self(r, c, func, self) : 0;
}

static int (*const unwrap_as[DV_COUNT])(DynRec *r, RecCall *c) = {
#define SHADOW(kind, agrees, burn, truth, find, attribute, item, contains, iterate, items, unwrap, call, recipe) \
    [DV_##kind] = unwrap,
#include "tracer/record/shadow.def"
#undef SHADOW
};

static int unwrap(DynRec *r, RecCall *c) {
    DynOperand f = c->callable;
    bool known = dyn_rec_resolve(r, f.v, f.real) == 0 && !rec_is_known_instance(f.real);
    return known ? unwrap_as[f.v->kind](r, c) : 0;
}

/* Up to four in one another. Functions that nobody is to look into stay as they are. */
static void unwrap_all(DynRec *r, RecCall *c) {
    for (int i = 0; i < 4; i++) {
        if (rec_is_marked(c->callable.real) || !unwrap(r, c)) {
            return;
        }
    }
}

DynVal *rec_call_within(DynRec *r, DynOperand f, DynOperand *args, uint32_t npos, PyObject **result) {
    RecCall c = {.callable = f, .args = args, .npos = npos};
    rec_taken_so_far(r);
    bool known = r->cap != NULL && !r->take_lost && !rec_has_flag(f.real, REC_LEAVES);
    if (known) {
        unwrap_all(r, &c);
    }
    known = known && !rec_sees_references(r, c.callable.real);
    DynVal *v = known ? call(r, &c, result) : NULL;
    if (!known) {
        *result = rec_call_real(&c);
        rec_take_failed(r, DYN_R_OPAQUE_CALL, NULL);
    } else if (v == NULL) {
        rec_take_failed(r, r->why, r->detail);
    }
    return v;
}

Step rec_finish_call(DynRec *r, RecFrame *f, RecCall *c, uint32_t npop) {
    PyObject *result = NULL;
    r->stand_in = NULL;
    if (rec_has_flag(c->callable.real, REC_LEAVES)) {
        return step_bail(r, DYN_R_OPAQUE_CALL, rec_callable_name(r, c->callable.real));
    }
    unwrap_all(r, c);
    if (rec_sees_references(r, c->callable.real)) {
        return step_bail(r, DYN_R_REFERENCES, NULL);
    }
    c->direct = rec_is_call(&f->code->v.at[f->pc]);
    if (!c->direct) {
        rec_asks(f, c->callable.real, NULL);
    }
    DynVal *v = call(r, c, &result);
    if (result == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_SystemError, "call failed without an exception");
    }
    if (result != NULL && c->direct && dyn_cpy_serve(r->ts) < 0) { /* a signal's handler raised: CPython asks behind each call */
        Py_CLEAR(result);
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
    uint32_t func = null_first && !self ? 1 : 0;
    uint32_t first = self ? 1 : 2;
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
    RecCall c = {0};
    PyObject *kwnames = in->target == DYN_NONE ? NULL : PyTuple_GET_ITEM(f->code->code->co_consts, in->target);
    if (lay_out(r, f, &c, in->arg, in->arg + 2, kwnames) < 0) {
        return step_bail(r, DYN_R_NO_MEMORY, NULL);
    }
    return rec_finish_call(r, f, &c, in->arg + 2);
}

Step rec_CALL_KW(DynRec *r, RecFrame *f, const DynInstr *in) {
    RecCall c = {0};
    PyObject *kwnames = *real_top(f, 1);
    f->sp--, f->ssp--; /* the names lie above the operands */
    int ok = lay_out(r, f, &c, in->arg, in->arg + 2, kwnames);
    f->sp++, f->ssp++;
    return ok < 0 ? step_bail(r, DYN_R_NO_MEMORY, NULL) : rec_finish_call(r, f, &c, in->arg + 3);
}

/* ---- functions made while recording */

static DynVal *new_func(DynRec *r, PyObject *code) {
    DynVal *v = rec_new_fresh(r, DV_FUNC);
    if (v == NULL || rec_keep(r, code) < 0) {
        return NULL;
    }
    v->function.code = code;
    return v;
}

static int set_part(DynRec *r, PyObject *func, DynVal *v, int flag, PyObject *o, DynVal *ov) {
    switch (flag) {
    case 0x08: v->function.closure = ov; return PyFunction_SetClosure(func, o);
    case 0x10:
    case 0x04:
        v->function.annotations = ov;
        dyn_func_set_annotations(func, o);
        return 0;
    case 0x02: v->function.kwdefaults = ov; return PyFunction_SetKwDefaults(func, o);
    default:
        if (ov->kind == DV_CONST) {
            DynVal **items;
            uint32_t n;
            ov = rec_items(r, ov, o, &items, &n) < 0 ? NULL : dyn_rec_seq(r, DV_TUPLE, n, items, o);
        }
        v->function.defaults = ov;
        return PyFunction_SetDefaults(func, o);
    }
}

Step rec_MAKE_FUNCTION(DynRec *r, RecFrame *f, const DynInstr *in) {
    static const int flags[] = {0x08, 0x04, 0x02, 0x01}; /* as they lie on the stack below the code */
    PyObject *code = *real_top(f, 1), *func = PyFunction_New(code, dyn_frame_globals(f->f));
    DynVal *v = new_func(r, code);
    uint32_t npop = 1;
    if (v != NULL) {
        v->function.globals = dyn_frame_globals(f->f);
    }
    if (func == NULL || v == NULL || rec_keep(r, dyn_frame_globals(f->f)) < 0) {
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
