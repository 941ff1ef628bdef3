/* follow_node.c: the node of autograd's that a part of a graph is, while gradients are recorded.
 *
 * PyTorch makes a node by the `apply` of a torch.autograd.Function, which src/dynoc/_autograd.py has; its `forward` and
 * `backward` are the functions here, so that no Python code runs between PyTorch and a part. So hooks, `retain_graph`,
 * `create_graph`, saved tensors and their versions are PyTorch's own. `apply` is called with the part's inputs alone: part and
 * numbers are handed to `forward` past it. The node keeps both in its attribute `captured`. */
#include "base/torch.h"
#include "evalframe/follow_part.h"

static PyObject *apply; /* of the autograd function; NULL: not looked up yet */
static PyObject *anomaly, *hooks, *by_plain;
static _Thread_local PyObject *handed; /* (part, numbers) of the call that is under way; `forward` takes it */
static struct Names {
    PyObject *captured, *needs_input_grad, *materialize_grads, *to_save, *non_differentiable, *saved_tensors;
} names;

static int find_face(void) {
    if (apply == NULL) {
        PyObject *face = PyImport_ImportModule("dynoc._autograd");
        PyObject *all = face == NULL ? NULL : PyObject_CallMethod(face, "bind", NULL);
        if (all != NULL && PyArg_ParseTuple(all, "OOOO", &apply, &anomaly, &hooks, &by_plain)) {
            Py_INCREF(apply);
            Py_INCREF(anomaly);
            Py_INCREF(hooks);
            Py_INCREF(by_plain);
        }
        Py_XDECREF(all);
        Py_XDECREF(face);
    }
    return apply == NULL ? -1 : 0;
}

bool dyn_follow_may_run(void) {
    if (find_face() < 0) {
        PyErr_Clear();
        return false;
    }
    PyObject *detects = PyObject_CallNoArgs(anomaly), *saves = PyObject_CallFunctionObjArgs(hooks, Py_False, NULL);
    bool may = detects == Py_False && saves == Py_None;
    PyErr_Clear();
    Py_XDECREF(detects);
    Py_XDECREF(saves);
    return may;
}

static PyObject *call_apply(DynPart *p, PyObject *numbers, PyObject *const *inputs) {
    if (numbers == NULL || find_face() < 0) {
        return NULL;
    }
    handed = PyTuple_Pack(2, (PyObject *)p, numbers);
    PyObject *made = handed == NULL ? NULL : PyObject_Vectorcall(apply, inputs, p->graph.inputs.n, NULL);
    Py_CLEAR(handed);
    if (made != NULL && !PyTuple_Check(made)) {
        Py_CLEAR(made);
        PyErr_SetString(PyExc_SystemError, "dynoc: an autograd function gave no tuple");
    }
    return made;
}

PyObject *dyn_follow_node_apply(DynPart *p, const DynScalar *sym, PyObject *const *inputs) {
    PyObject *numbers = PyBytes_FromStringAndSize((const char *)sym, (Py_ssize_t)(sizeof(*sym) * p->share->known));
    PyObject *made = call_apply(p, numbers, inputs);
    Py_XDECREF(numbers);
    return made;
}

/* The part of (part, numbers), if that is what `captured` is. NULL with an exception. */
static DynPart *part_of(PyObject *captured) {
    PyObject *p =
        captured != NULL && PyTuple_Check(captured) && PyTuple_GET_SIZE(captured) == 2 ? PyTuple_GET_ITEM(captured, 0) : NULL;
    if (p == NULL || !Py_IS_TYPE(p, &dyn_follow_part_type) || !PyBytes_Check(PyTuple_GET_ITEM(captured, 1))) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "a node that dynoc hasn't made");
        }
        return NULL;
    }
    return (DynPart *)p;
}

static const DynScalar *numbers_of(PyObject *captured) {
    return (const DynScalar *)(const void *)PyBytes_AS_STRING(PyTuple_GET_ITEM(captured, 1));
}

/* Are these tensors, as many as the part takes? */
static bool fit(const DynPart *p, PyObject *const *tensors, Py_ssize_t n) {
    bool fits = n == (Py_ssize_t)p->graph.inputs.n;
    for (Py_ssize_t i = 0; fits && i < n; i++) {
        fits = dyn_torch_is(tensors[i]);
    }
    if (!fits) {
        PyErr_SetString(PyExc_TypeError, "not what this part of a graph takes");
    }
    return fits;
}

/* Those of two rows of objects, one behind the other, that have these positions: a new tuple. */
static PyObject *picked(PyObject *positions, PyObject *const *first, Py_ssize_t nfirst, PyObject *second) {
    PyObject *t = PyTuple_New(PyTuple_GET_SIZE(positions));
    for (Py_ssize_t i = 0; t != NULL && i < PyTuple_GET_SIZE(positions); i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(positions, i));
        PyTuple_SET_ITEM(t, i, Py_NewRef(at < nfirst ? first[at] : PyTuple_GET_ITEM(second, at - nfirst)));
    }
    return t;
}

/* Sets an attribute of the node. Takes the value; -1 with an exception. */
static int set(PyObject *ctx, PyObject *name, PyObject *value) {
    int done = value == NULL ? -1 : PyObject_SetAttr(ctx, name, value);
    Py_XDECREF(value);
    return done;
}

/* What autograd has to know of what was made: which of it requires no gradients, and what backward reads. */
static int describe(PyObject *ctx, DynPart *p, PyObject *const *tensors, PyObject *made) {
    PyObject *needs = PyObject_GetAttr(ctx, names.needs_input_grad);
    PyObject *plan = needs == NULL ? NULL : dyn_follow_part_plan(p, needs);
    Py_XDECREF(needs);
    if (plan == NULL || set(ctx, names.materialize_grads, Py_NewRef(Py_False)) < 0) {
        return -1;
    }
    PyObject *fixed = PyTuple_GET_ITEM(plan, 0), *saved = PyTuple_GET_ITEM(plan, 1);
    if (PyTuple_GET_SIZE(fixed) > 0 && set(ctx, names.non_differentiable, picked(fixed, NULL, 0, made)) < 0) {
        return -1;
    }
    return set(ctx, names.to_save, picked(saved, tensors, (Py_ssize_t)p->graph.inputs.n, made));
}

/* forward(ctx, *tensors): what the part makes, and what else of it backward reads. */
static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    PyObject *captured = handed;
    handed = NULL;
    DynPart *p = n < 1 ? NULL : part_of(captured);
    if (p == NULL || !fit(p, args + 1, n - 1) || dyn_follow_part_prepare(p) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_SetString(PyExc_TypeError, "forward() takes a node and tensors");
        }
        Py_XDECREF(captured);
        return NULL;
    }
    PyObject *made = dyn_follow_part_run(p, &p->saving, numbers_of(captured), args + 1);
    if (made != NULL && (describe(args[0], p, args + 1, made) < 0 || set(args[0], names.captured, Py_NewRef(captured)) < 0)) {
        Py_CLEAR(made);
    }
    Py_DECREF(captured);
    return made;
}

/* (given, needs): which gradients are given, and which are wanted. */
static PyObject *pattern(PyObject *ctx, PyObject *const *gradients, Py_ssize_t n) {
    PyObject *given = PyTuple_New(n), *needs = PyObject_GetAttr(ctx, names.needs_input_grad);
    for (Py_ssize_t i = 0; given != NULL && i < n; i++) {
        PyTuple_SET_ITEM(given, i, Py_NewRef(gradients[i] == Py_None ? Py_False : Py_True));
    }
    PyObject *key = given == NULL || needs == NULL ? NULL : PyTuple_Pack(2, given, needs);
    Py_XDECREF(given);
    Py_XDECREF(needs);
    return key;
}

/* Runs the part that computes gradients, as a node of its own where gradients of these are recorded. Inputs are the gradients
 * that are given, and saved values at these positions. */
static PyObject *run_gradient(DynPart *p, PyObject *reads, PyObject *numbers, PyObject *const *gradients, Py_ssize_t n,
                              PyObject *saved) {
    Py_ssize_t nreads = PyTuple_GET_SIZE(reads), nin = 0;
    PyObject **inputs = PyMem_Malloc(sizeof(*inputs) * (size_t)(n + nreads + 1)), *made = NULL;
    bool requires = false;
    if (inputs == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (gradients[i] != Py_None) {
            inputs[nin++] = gradients[i];
        }
    }
    for (Py_ssize_t i = 0; i < nreads; i++) {
        inputs[nin++] = PyTuple_GET_ITEM(saved, PyLong_AsSsize_t(PyTuple_GET_ITEM(reads, i)));
    }
    bool fits = fit(p, inputs, nin), recorded = fits && dyn_torch_records_gradients();
    for (Py_ssize_t i = 0; i < nin && recorded && !requires; i++) {
        requires = dyn_torch_requires_grad(inputs[i]);
    }
    if (requires) {
        made = call_apply(p, numbers, inputs);
    } else if (fits) {
        made = dyn_follow_part_run(p, &p->plain, (const DynScalar *)(const void *)PyBytes_AS_STRING(numbers), inputs);
    }
    PyMem_Free(inputs);
    return made;
}

/* Is each a tensor whose memory is its elements? Autograd may give conjugate, negative, sparse and batched ones, too. */
static bool are_plain(PyObject *const *gradients, Py_ssize_t n) {
    DynArrayView view;
    bool plain = true;
    for (Py_ssize_t i = 0; i < n && plain; i++) {
        plain = gradients[i] == Py_None || !dyn_torch_is(gradients[i]) || dyn_torch_look(gradients[i], &view);
    }
    return plain;
}

/* backward(ctx, *gradients): a gradient or None for each input. */
static PyObject *backward(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n > 1 && by_plain != NULL && !are_plain(args + 1, n - 1)) {
        return PyObject_Vectorcall(by_plain, args, (size_t)n, NULL);
    }
    PyObject *captured = n < 1 ? NULL : PyObject_GetAttr(args[0], names.captured);
    DynPart *p = part_of(captured);
    PyObject *key = p == NULL ? NULL : pattern(args[0], args + 1, n - 1), *saved = NULL, *made = NULL, *all = NULL;
    PyObject *gradient = key == NULL ? NULL : Py_XNewRef(dyn_follow_part_gradient(p, key)); /* (part, reads, gives) */
    saved = gradient == NULL ? NULL : PyObject_GetAttr(args[0], names.saved_tensors);
    if (saved != NULL) {
        DynPart *of = (DynPart *)PyTuple_GET_ITEM(gradient, 0);
        made = run_gradient(of, PyTuple_GET_ITEM(gradient, 1), PyTuple_GET_ITEM(captured, 1), args + 1, n - 1, saved);
    }
    PyObject *gives = made == NULL ? NULL : PyTuple_GET_ITEM(gradient, 2);
    all = made == NULL ? NULL : PyTuple_New(PyTuple_GET_SIZE(gives));
    for (Py_ssize_t i = 0; all != NULL && i < PyTuple_GET_SIZE(gives); i++) {
        PyObject *at = PyTuple_GET_ITEM(gives, i);
        PyTuple_SET_ITEM(all, i, Py_NewRef(at == Py_None ? at : PyTuple_GET_ITEM(made, PyLong_AsSsize_t(at))));
    }
    Py_XDECREF(made);
    Py_XDECREF(saved);
    Py_XDECREF(gradient);
    Py_XDECREF(key);
    Py_XDECREF(captured);
    return all;
}

static PyMethodDef functions[] = {
    {"_part_forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, "forward of the autograd function of parts."},
    {"_part_backward", (PyCFunction)(void (*)(void))backward, METH_FASTCALL, "backward of the autograd function of parts."},
    {NULL, NULL, 0, NULL}};

int dyn_follow_node_init(PyObject *module) {
    names.captured = PyUnicode_InternFromString("captured");
    names.needs_input_grad = PyUnicode_InternFromString("needs_input_grad");
    names.materialize_grads = PyUnicode_InternFromString("materialize_grads");
    names.to_save = PyUnicode_InternFromString("to_save");
    names.non_differentiable = PyUnicode_InternFromString("non_differentiable");
    names.saved_tensors = PyUnicode_InternFromString("saved_tensors");
    bool made = names.captured != NULL && names.needs_input_grad != NULL && names.materialize_grads != NULL &&
                names.to_save != NULL && names.non_differentiable != NULL && names.saved_tensors != NULL;
    if (!made || PyModule_AddFunctions(module, functions) < 0) {
        return -1;
    }
    PyObject *f = PyObject_GetAttrString(module, "_part_backward"); /* as a method: of the class of nodes */
    PyObject *method = f == NULL ? NULL : PyInstanceMethod_New(f);
    Py_XDECREF(f);
    return method == NULL ? -1 : PyModule_AddObject(module, "_part_backward_method", method);
}
