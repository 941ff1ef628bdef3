/* rec_marked.c: calls that are one node, whatever is in them: of what dynoc.allow_in_graph marked, of functions and modules
 * of TorchScript whose graph says what they do, and of torch.autograd.Function's subclasses, which have a backward of their own.
 * Calls of what dynoc.disallow_in_graph marked are breaks. Asked by rec_call.c before it looks into a callable.
 *
 * Marks are kept by identity for as long as the callable lives: `marks` has for its address a pair of a weak reference to it, or
 * where it can have none the callable itself, and the mark. */
#include "base/torch.h"
#include "tracer/numpy/rec_np.h"
#include "tracer/record/rec_callables.h"
#include "tracer/record/rec_segment.h"

static PyObject *marks; /* dict: int -> (reference, DynMark) */

static PyObject *function_of(PyObject *callable) { return PyMethod_Check(callable) ? PyMethod_GET_FUNCTION(callable) : callable; }

int dyn_record_mark(PyObject *callable, DynMark mark) {
    callable = function_of(callable);
    if (marks == NULL && (marks = PyDict_New()) == NULL) {
        return -1;
    }
    PyObject *key = PyLong_FromVoidPtr(callable), *ref = key ? PyWeakref_NewRef(callable, NULL) : NULL;
    if (key != NULL && ref == NULL) {
        PyErr_Clear();
        ref = Py_NewRef(callable);
    }
    PyObject *row = ref ? Py_BuildValue("(Ni)", ref, (int)mark) : NULL;
    int done = row ? PyDict_SetItem(marks, key, row) : -1;
    Py_XDECREF(row);
    Py_XDECREF(key);
    return done;
}

static bool refers_to(PyObject *ref, PyObject *callable) {
    PyObject *alive = ref != callable && PyWeakref_CheckRef(ref) ? PyObject_CallNoArgs(ref) : Py_NewRef(ref);
    Py_XDECREF(alive); /* the caller has it, if it is the one */
    return alive == callable;
}

static DynMark mark_of(PyObject *callable) {
    if (marks == NULL) {
        return DYN_MARK_NONE;
    }
    PyObject *key = PyLong_FromVoidPtr(callable), *row = key ? PyDict_GetItem(marks, key) : NULL;
    bool known = row != NULL && refers_to(PyTuple_GET_ITEM(row, 0), callable);
    Py_XDECREF(key);
    return known ? (DynMark)PyLong_AsLong(PyTuple_GET_ITEM(row, 1)) : DYN_MARK_NONE;
}

/* ---- TorchScript */

static bool is_scripted(PyObject *callable) {
    static PyObject *function, *module;
    if (dyn_torch_tensor == NULL) {
        return false;
    }
    if (module == NULL) {
        function = dyn_torch_lookup(dyn_torch_module, "jit.ScriptFunction");
        module = dyn_torch_lookup(dyn_torch_module, "jit.ScriptModule");
    }
    if (function != NULL && (PyObject *)Py_TYPE(callable) == function) {
        return true;
    }
    return module != NULL && PyType_Check(module) && PyType_IsSubtype(Py_TYPE(callable), (PyTypeObject *)module);
}

/* What its graph does besides giving a result: a DYN_BIND_*. */
static int effect_of(PyObject *scripted) {
    PyObject *module = dyn_import("dynoc._torch"), *f = module ? PyObject_GetAttrString(module, "classify_script") : NULL;
    PyObject *kind = f ? PyObject_CallOneArg(f, scripted) : NULL;
    long effect = kind ? PyLong_AsLong(kind) : -1;
    PyErr_Clear();
    Py_XDECREF(kind);
    Py_XDECREF(f);
    Py_XDECREF(module);
    return effect < 0 ? DYN_BIND_UNKNOWN : (int)effect;
}

/* ---- torch.autograd.Function: its apply, once it has become a function that takes the class first (rec_call.c:unwrap) */

bool rec_is_autograd_class(PyObject *o) {
    static PyObject *class;
    if (class == NULL && dyn_torch_tensor != NULL) {
        class = dyn_torch_lookup(dyn_torch_module, "autograd.Function");
        class = class == NULL ? Py_NewRef(Py_None) : class;
    }
    return class != NULL && PyType_Check(class) && PyType_Check(o) && PyType_IsSubtype((PyTypeObject *)o, (PyTypeObject *)class);
}

/* The class whose apply it is: a function of Python's, which gets the class, or from PyTorch 2.15 on a method in C, which has it.
 * NULL: another call. */
static PyTypeObject *autograd_function_of(const RecCall *c) {
    static PyObject *apply;
    PyObject *f = c->callable.real, *own = NULL;
    bool may = PyFunction_Check(f) ? c->npos > 0 : PyCFunction_Check(f) != 0;
    if (dyn_torch_tensor == NULL || !may) {
        return NULL;
    }
    if (apply == NULL) {
        apply = dyn_torch_lookup(dyn_torch_module, "autograd.Function.apply");
        apply = apply == NULL ? Py_NewRef(Py_None) : apply;
    }
    if (PyMethod_Check(apply) && f == PyMethod_GET_FUNCTION(apply)) {
        own = c->args[0].real;
    } else if (PyCFunction_Check(apply) && PyCFunction_Check(f) &&
               PyCFunction_GET_FUNCTION(f) == PyCFunction_GET_FUNCTION(apply)) {
        own = PyCFunction_GET_SELF(f);
    }
    return own != NULL && rec_is_autograd_class(own) ? (PyTypeObject *)own : NULL;
}

/* The method of this class, new; NULL: it isn't known to be the same at the next call. */
static PyObject *apply_of(DynRec *r, const RecCall *c, PyTypeObject *class) {
    DynOperand f = c->callable;
    if (PyCFunction_Check(f.real)) { /* made anew whenever it is looked up in the class, which is then guarded */
        return f.v->kind == DV_CONST ? Py_NewRef(f.real) : NULL;
    }
    bool same = rec_guard_id(r, f.v, f.real) == 0 && rec_guard_id(r, c->args[0].v, c->args[0].real) == 0;
    return same ? PyMethod_New(f.real, (PyObject *)class) : NULL;
}

/* forward and backward are the program's: the call is made in its place, each time, by the class's own apply. */
static DynVal *call_autograd_function(DynRec *r, const RecCall *c, PyTypeObject *class, PyObject **result) {
    uint32_t first = PyFunction_Check(c->callable.real);
    bool known = r->effects.n == 0 && r->torch >= 0 && rec_torch_guard(r) == 0 && rec_resolve_args(r, c) == 0;
    PyObject *bound = known ? apply_of(r, c, class) : NULL;
    known = bound != NULL;
    DynVal *v = NULL;
    *result = rec_call_real(c);
    if (*result != NULL && known) {
        v = dyn_np_extern_once(r, bound, "Function.apply", c->args + first, (int)(c->npos - first), c->nkw ? c->kwnames : NULL,
                               *result);
        PyErr_Clear();
    }
    Py_XDECREF(bound);
    if (v != NULL) {
        r->cap->graph.externs.at[r->cap->graph.externs.n - 1].marked = true;
    }
    return v != NULL || *result == NULL ? v : rec_fail(r, known ? r->why : DYN_R_OPAQUE_CALL, class->tp_name);
}

/* ---- calls */

bool rec_is_marked(PyObject *callable) { return mark_of(callable) != DYN_MARK_NONE || is_scripted(callable); }

/* Where it was found, as a node is called; what has a name goes by that. */
static const char *name_of(DynRec *r, DynOperand f) {
    DynStr path = {0};
    bool named = f.v->source == DYN_NONE || PyObject_HasAttrString(f.real, "__qualname__");
    if (!named) {
        dyn_source_print(&r->cap->sources, f.v->source, &path);
    }
    const char *kept = named ? NULL : dyn_arena_strdup(&r->arena, dyn_str_at(&path));
    dyn_str_free(&path);
    return kept ? kept : rec_callable_name(r, f.real);
}

DynVal *rec_call_marked(DynRec *r, const RecCall *c, PyObject **result) {
    DynOperand f = c->callable;
    PyTypeObject *class = autograd_function_of(c);
    if (class != NULL) {
        return call_autograd_function(r, c, class, result);
    }
    DynMark mark = mark_of(f.real);
    bool scripted = mark == DYN_MARK_NONE && is_scripted(f.real);
    int effect = DYN_BIND_UNKNOWN;
    if (mark == DYN_MARK_ALLOW) {
        effect = DYN_BIND_RANDOM;
    } else if (scripted) {
        effect = effect_of(f.real);
    }
    if (mark == DYN_MARK_NONE && !scripted) {
        return REC_DECLINED;
    }
    const char *name = name_of(r, f);
    /* what the program changed before is changed behind the graph, and the program's own code may look at it */
    bool ordered = scripted || r->effects.n == 0;
    bool known = effect != DYN_BIND_UNKNOWN && ordered && rec_guard_id(r, f.v, f.real) == 0;
    known = known && rec_resolve_args(r, c) == 0;
    if (known && scripted) {
        known = r->torch >= 0 && rec_torch_guard(r) == 0;
    }
    *result = rec_call_real(c);
    if (*result == NULL) {
        return NULL;
    }
    if (!known) {
        return rec_fail(r, mark == DYN_MARK_DISALLOW ? DYN_R_SKIPPED_CALL : DYN_R_OPAQUE_CALL, name);
    }
    PyObject *kwnames = c->nkw ? c->kwnames : NULL;
    /* what is marked may do what it likes besides, in its place and as often as it is called */
    DynVal *v = effect == DYN_BIND_PURE ? dyn_np_extern(r, f.real, name, c->args, (int)c->npos, kwnames, *result)
                                        : dyn_np_extern_once(r, f.real, name, c->args, (int)c->npos, kwnames, *result);
    PyErr_Clear();
    if (v != NULL && !scripted) {
        r->cap->graph.externs.at[r->cap->graph.externs.n - 1].marked = true;
    }
    return v != NULL ? v : rec_fail(r, r->why, name);
}
