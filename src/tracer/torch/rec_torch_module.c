/* rec_torch_module.c: torch.nn.Module: what its attributes are. Called by rec_object.c.
 *
 * A module keeps parameters, buffers and modules in three dicts of its own, and its __getattr__ looks there for what is found
 * nowhere else. torch keeps a name in one of the three alone. So such an attribute is an item of one of them, at a source of its
 * own, without a look at the others. */
#include "tracer/torch/rec_torch.h"
#include "tracer/record/rec_state.h"

static PyObject *module_type(void) { /* borrowed for ever; NULL: no torch */
    static PyObject *type;
    if (type == NULL && dyn_torch_module != NULL) {
        type = dyn_torch_lookup(dyn_torch_module, "nn.Module");
    }
    return type;
}

bool rec_torch_is_module(PyObject *o) {
    PyObject *type = module_type();
    return type != NULL && PyType_Check(type) && PyType_IsSubtype(Py_TYPE(o), (PyTypeObject *)type);
}

DynOperand rec_torch_container_iter(DynRec *r, DynOperand o) {
    DynOperand none = {0};
    DynOperand f = o.v->kind == DV_OBJECT && rec_torch_is_module(o.real) ? rec_type_method(r, o, "__iter__") : none;
    PyObject *module = f.v != NULL && PyFunction_Check(f.real) ? PyFunction_GET_MODULE(f.real) : NULL;
    bool known =
        module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "torch.nn.modules.container") == 0;
    return known ? f : none;
}

/* torch.nn.Module.__getattr__ as it was when first asked for; borrowed for ever. */
static PyObject *own_getattr(void) {
    static PyObject *function;
    if (function == NULL && module_type() != NULL) {
        function = dyn_torch_lookup(module_type(), "__getattr__");
    }
    return function;
}

static const char *const dicts[] = {"_parameters", "_buffers", "_modules"};

/* What the module's own dict has for a name (borrowed; NULL: nothing), and the source of that. */
static PyObject *own_value(DynRec *r, DynOperand module, const char *name, uint32_t *source) {
    PyObject *key = PyUnicode_InternFromString(name);
    PyObject *value = key == NULL ? NULL : dyn_cpy_own_value(module.real, key);
    *source = value == NULL ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_OWN, module.v->source, 0, NULL, key);
    Py_XDECREF(key);
    return value;
}

/* The dict of a module by that name (borrowed; NULL: none), and its source; DYN_NONE where its shadow has been changed. */
static PyObject *dict_of(DynRec *r, DynOperand module, const char *name, uint32_t *source) {
    PyObject *dict = own_value(r, module, name, source);
    uint32_t s = *source;
    const DynVal *shadow = s != DYN_NONE && s < r->by_source.n ? r->by_source.at[s] : NULL;
    bool changed = shadow != NULL && shadow->touched;
    *source = changed ? DYN_NONE : s;
    return dict != NULL && PyDict_CheckExact(dict) ? dict : NULL;
}

DynVal *rec_torch_module_attr(DynRec *r, PyObject *getattr, DynOperand module, PyObject *name) {
    for (size_t i = 0; i < DYN_COUNTOF(dicts) && getattr == own_getattr(); i++) {
        uint32_t s;
        PyObject *dict = dict_of(r, module, dicts[i], &s);
        if (dict == NULL || PyDict_GetItemWithError(dict, name) == NULL) {
            continue;
        }
        s = s == DYN_NONE ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, s, 0, NULL, name);
        return s == DYN_NONE ? NULL : rec_source(r, s);
    }
    return NULL;
}

/* Is it guarded now that the dict at that source has no such key? */
static bool stays_missing(DynRec *r, uint32_t dict, PyObject *name) {
    uint32_t key = dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, dict, 0, NULL, name);
    return key != DYN_NONE && rec_guard(r, DYN_GUARD_MISSING, key, DYN_NONE, 0, NULL) == 0;
}

bool rec_torch_module_lacks(DynRec *r, PyObject *getattr, DynOperand module, PyObject *name) {
    bool lacks = getattr == own_getattr();
    for (size_t i = 0; i < DYN_COUNTOF(dicts) && lacks; i++) {
        uint32_t s;
        PyObject *dict = dict_of(r, module, dicts[i], &s);
        bool absent = dict != NULL && s != DYN_NONE && PyDict_GetItemWithError(dict, name) == NULL;
        lacks = absent && stays_missing(r, s, name);
    }
    return lacks;
}

bool rec_tensor_lacks(DynRec *r, DynOperand tensor, PyObject *name) {
    if (dyn_cpy_own_value(tensor.real, name) != NULL || !rec_is_array(tensor.v)) {
        return false;
    }
    if (dyn_cpy_lookup_special(Py_TYPE(tensor.real), name) != NULL || rec_guard_class(r, Py_TYPE(tensor.real), name) < 0) {
        return false;
    }
    const DynNode *n = dyn_graph_node(&r->cap->graph, rec_node_of(tensor.v));
    if (n->op != DYN_OP_INPUT) {
        return true;
    }
    uint32_t s = n->source == DYN_NONE ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_OWN, n->source, 0, NULL, name);
    return s != DYN_NONE && rec_guard(r, DYN_GUARD_MISSING, s, DYN_NONE, 0, NULL) == 0;
}

/* An attribute that is in the module's own dict: its shadow, and the object in *real (borrowed). */
static DynVal *own_attr(DynRec *r, DynOperand module, const char *name, PyObject **real) {
    uint32_t s;
    *real = own_value(r, module, name, &s);
    DynVal *v = s == DYN_NONE ? NULL : rec_source(r, s);
    return v == NULL || dyn_rec_resolve(r, v, *real) < 0 ? NULL : v;
}

static bool is_known_list(const DynVal *v, PyObject *list) {
    return v != NULL && v->kind == DV_LIST && PyList_GET_SIZE(list) == (Py_ssize_t)v->n;
}

/* torch.nn.RNNBase asks whether its parameters are still those that its list of weights was made of, which it knows by weak
 * references: they are, as long as each parameter and each reference is the one that it is now. */
DynVal *tt_rule_weights_same(DynRec *r, NpCall *c) {
    DynOperand module = c->slot[0];
    PyObject *refs, *names;
    bool found = module.v != NULL && module.v->kind == DV_OBJECT && module.v->source != DYN_NONE;
    if (c->result != Py_False || !found) {
        return dyn_np_unsupported(r);
    }
    DynVal *ref = own_attr(r, module, "_flat_weight_refs", &refs), *name = own_attr(r, module, "_flat_weights_names", &names);
    if (!is_known_list(ref, refs) || !is_known_list(name, names)) {
        return dyn_np_unsupported(r);
    }
    if (ref->n != name->n || dyn_rec_burn(r, name, names) < 0) {
        return dyn_np_unsupported(r);
    }
    for (uint32_t i = 0; i < ref->n; i++) {
        PyObject *key = PyList_GET_ITEM(names, i), *value = PyObject_GetAttr(module.real, key);
        DynVal *weight = value == NULL ? NULL : rec_torch_module_attr(r, own_getattr(), module, key);
        int status = weight == NULL || rec_keep(r, value) < 0 ? -1 : 0;
        status = status < 0 ? -1 : rec_guard(r, DYN_GUARD_ID, weight->source, DYN_NONE, 0, value);
        PyErr_Clear();
        Py_XDECREF(value); /* the module has it */
        if (status < 0 || rec_guard_id(r, ref->items[i], PyList_GET_ITEM(refs, i)) < 0) {
            return dyn_np_unsupported(r);
        }
    }
    return dyn_rec_const(r, Py_False);
}

/* ---- torch.utils.checkpoint */

/* Is it checkpoint's use_reentrant=False, at every call? */
static bool forbids_reentrance(DynRec *r, PyObject *name, DynOperand o) {
    if (PyUnicode_CompareWithASCIIString(name, "use_reentrant") != 0) {
        return false;
    }
    return o.real == Py_False && dyn_rec_burn(r, o.v, Py_False) == 0;
}

/* Does a keyword argument of that name change what checkpoint() does while it calls the function? */
static bool changes_checkpoint(PyObject *name) {
    static const char *const names[] = {"context_fn", "debug", "determinism_check"};
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (PyUnicode_CompareWithASCIIString(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Without gradients, and not by reentrance (which warns), checkpoint() calls the function that it is given, and so does what
 * stands for it in dynoc.polyfills. */
void rec_torch_checkpoint(DynRec *r, RecCall *c) {
    static PyObject *checkpoint;
    if (r->torch < 0 || c->nkw == 0 || !PyFunction_Check(c->callable.real)) {
        return;
    }
    if (checkpoint == NULL && (checkpoint = dyn_torch_lookup(dyn_torch_module, "utils.checkpoint.checkpoint")) == NULL) {
        return;
    }
    bool plain = c->callable.real == checkpoint && !(dyn_torch_state() & DYN_TORCH_GRAD), said = false;
    for (uint32_t i = 0; plain && i < c->nkw; i++) {
        PyObject *name = PyTuple_GET_ITEM(c->kwnames, i);
        said = said || forbids_reentrance(r, name, c->args[c->npos + i]);
        plain = !changes_checkpoint(name);
    }
    PyObject *func = plain && said ? rec_polyfill("checkpoint", "checkpoint") : NULL;
    if (func != NULL && rec_guard_id(r, c->callable.v, c->callable.real) == 0 && rec_torch_guard(r) == 0) {
        DynVal *v = dyn_rec_const(r, func);
        c->callable = v != NULL ? (DynOperand){v, func} : c->callable;
    }
}
