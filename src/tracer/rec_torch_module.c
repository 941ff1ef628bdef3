/* rec_torch_module.c: torch.nn.Module: what its attributes are. Called by rec_object.c.
 *
 * A module keeps parameters, buffers and modules in three dicts of its own, and its __getattr__ looks there for what is found
 * nowhere else. torch keeps a name in one of the three alone. So such an attribute is an item of one of them, at a source of its
 * own, without a look at the others. */
#include "tracer/rec_torch.h"
#include "tracer/rec_state.h"

static PyObject *module_type(void) { /* borrowed for ever; NULL: no torch */
    static PyObject *type;
    if (type == NULL && dyn_torch_module != NULL) {
        PyObject *nn = PyObject_GetAttrString(dyn_torch_module, "nn");
        type = nn == NULL ? NULL : PyObject_GetAttrString(nn, "Module");
        PyErr_Clear();
        Py_XDECREF(nn);
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
        function = PyObject_GetAttrString(module_type(), "__getattr__");
        PyErr_Clear();
    }
    return function;
}

DynVal *rec_torch_module_attr(DynRec *r, PyObject *getattr, DynOperand module, PyObject *name) {
    static const char *const dicts[] = {"_parameters", "_buffers", "_modules"};
    PyObject **own = getattr == own_getattr() ? _PyObject_GetDictPtr(module.real) : NULL;
    for (size_t i = 0; i < DYN_COUNTOF(dicts) && own != NULL && *own != NULL; i++) {
        PyObject *dict = PyDict_GetItemString(*own, dicts[i]);
        if (dict == NULL || !PyDict_CheckExact(dict) || PyDict_GetItemWithError(dict, name) == NULL)
            continue;
        PyObject *key = PyUnicode_InternFromString(dicts[i]);
        uint32_t s = key == NULL ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_OWN, module.v->source, 0, NULL, key);
        Py_XDECREF(key);
        bool changed = s != DYN_NONE && s < r->by_source.n && r->by_source.at[s] != NULL && r->by_source.at[s]->touched;
        s = s == DYN_NONE || changed ? DYN_NONE : dyn_source_intern(&r->cap->sources, DYN_SRC_KEY, s, 0, NULL, name);
        return s == DYN_NONE ? NULL : rec_source(r, s);
    }
    return NULL;
}
