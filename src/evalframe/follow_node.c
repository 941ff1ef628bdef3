/* follow_node.c: the node of autograd's that a part of a graph is, while gradients are recorded.
 *
 * PyTorch makes a node by the `apply` of a torch.autograd.Function, a class that is made when the first part is called; its
 * `forward` and `backward` are the functions here, so that no Python code runs between PyTorch and a part. So hooks,
 * `retain_graph`, `create_graph`, saved tensors and their versions are PyTorch's own. `apply` is called with the part's inputs
 * alone: part and numbers are handed to `forward` past it. The node keeps both in its attribute `captured`. Gradients that aren't
 * plain tensors are Python's (src/dynoc/_autograd.py, which is imported when the first of them comes). */
#include "base/torch.h"
#include "evalframe/follow_part.h"

static PyObject *apply; /* of the class of parts; NULL: not made yet */
static PyObject *anomaly, *hooks;
static PyObject *own_forward, *own_backward; /* the functions here, as Python has them */
static _Thread_local PyObject *handed;       /* (part, numbers) of the call that is under way; `forward` takes it */
static struct Names {
    PyObject *captured, *needs_input_grad, *materialize_grads, *to_save, *non_differentiable, *saved_tensors;
} names;

/* What `apply` looks up in the class each time: it is the class's own, and not found behind its bases. */
static int copy_inherited(PyObject *attributes, PyObject *base) {
    static const char *const looked_up[] = {"setup_context", "clear_saved_tensors_on_access", "boxed_grads_call"};
    for (size_t i = 0; i < DYN_COUNTOF(looked_up); i++) {
        PyObject *found = dyn_cpy_lookup_named((PyTypeObject *)base, looked_up[i]);
        if (found != NULL && PyDict_SetItemString(attributes, looked_up[i], found) < 0) {
            return -1;
        }
    }
    return 0;
}

/* The class's attributes: a new dict. */
static PyObject *make_attributes(PyObject *base) {
    PyObject *attributes = PyDict_New(), *first = PyStaticMethod_New(own_forward), *second = PyStaticMethod_New(own_backward);
    PyObject *module = PyUnicode_FromString("dynoc");
    bool made = attributes != NULL && first != NULL && second != NULL && module != NULL &&
                PyDict_SetItemString(attributes, "__module__", module) == 0 &&
                PyDict_SetItemString(attributes, "forward", first) == 0 &&
                PyDict_SetItemString(attributes, "backward", second) == 0 && copy_inherited(attributes, base) == 0;
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(module);
    if (!made) {
        Py_CLEAR(attributes);
    }
    return attributes;
}

/* Nodes get the function here as their `apply`, as PyTorch's would look for it in the class each time, and ways of their own to
 * hang hooks on them. */
static int equip_nodes(PyObject *class) {
    PyObject *nodes = PyObject_GetAttrString(class, "_backward_cls"), *method = PyInstanceMethod_New(own_backward);
    int done = nodes == NULL || method == NULL ? -1 : PyObject_SetAttrString(nodes, "apply", method);
    done = done < 0 ? -1 : dyn_follow_hooks_set(nodes);
    Py_XDECREF(nodes);
    Py_XDECREF(method);
    return done;
}

/* The `apply` of a new class of torch.autograd.Function's: that behind Function's own, which would look for functions, too. */
static PyObject *make_apply(PyObject *base) {
    PyObject *attributes = make_attributes(base), *class = NULL, *behind = NULL, *found = NULL;
    if (attributes != NULL) {
        class = PyObject_CallFunction((PyObject *)Py_TYPE(base), "s(O)O", "Captured", base, attributes);
    }
    if (class != NULL && equip_nodes(class) == 0) {
        behind = PyObject_CallFunctionObjArgs((PyObject *)&PySuper_Type, base, class, NULL);
    }
    if (behind != NULL) {
        found = PyObject_GetAttrString(behind, "apply");
    }
    Py_XDECREF(attributes);
    Py_XDECREF(class);
    Py_XDECREF(behind);
    return found;
}

static int find_class(void) {
    if (apply != NULL) {
        return 0;
    }
    PyObject *base = dyn_torch_lookup(dyn_torch_module, "autograd.Function");
    if (base == NULL || !PyType_Check(base)) {
        PyErr_SetString(PyExc_TypeError, "dynoc: torch.autograd.Function is no class");
        Py_XDECREF(base);
        return -1;
    }
    anomaly = anomaly == NULL ? dyn_torch_lookup(dyn_torch_module, "is_anomaly_enabled") : anomaly;
    hooks = hooks == NULL ? dyn_torch_lookup(dyn_torch_module, "_C._autograd._top_saved_tensors_default_hooks") : hooks;
    PyObject *made = anomaly == NULL || hooks == NULL ? NULL : make_apply(base);
    Py_DECREF(base);
    if (made == NULL && !PyErr_Occurred()) {
        PyErr_SetString(PyExc_TypeError, "dynoc: not the autograd that is known");
    }
    if (apply == NULL) {
        apply = made;
    } else {
        Py_XDECREF(made); /* another thread was faster */
    }
    return apply == NULL ? -1 : 0;
}

bool dyn_follow_may_run(void) {
    if (find_class() < 0) {
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
    if (numbers == NULL || find_class() < 0) {
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

DynPart *dyn_follow_node_part(PyObject *node) {
    PyObject *captured = PyObject_GetAttr(node, names.captured);
    DynPart *p = captured == NULL ? NULL : part_of(captured);
    Py_XDECREF(captured); /* the node has it */
    return p;
}

static const DynScalar *numbers_of(PyObject *captured) {
    return (const DynScalar *)(const void *)PyBytes_AS_STRING(PyTuple_GET_ITEM(captured, 1));
}

/* Are these tensors, or pieces of a block, as many as the part takes? */
static bool fit(const DynPart *p, PyObject *const *tensors, Py_ssize_t n) {
    bool fits = n == (Py_ssize_t)p->graph.inputs.n;
    for (Py_ssize_t i = 0; fits && i < n; i++) {
        fits = tensors[i] == NULL || dyn_torch_is(tensors[i]);
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
    PyObject *made = dyn_follow_block_run(p, numbers_of(captured), args + 1);
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

/* What a part that computes gradients takes. */
typedef struct Taken {
    PyObject **inputs; /* owned references; NULL: a piece */
    Py_ssize_t n;
    DynPiece lie[DYN_MOST_PIECES];    /* pieces of the block of the part that the gradients are of */
    DynPiece pieces[DYN_MOST_PIECES]; /* those of them that are inputs, as what they are there */
    uint32_t npieces;
} Taken;

/* Gradients that are given; one of the block is a gradient of each piece. */
static int take_gradients(Taken *t, const DynPart *p, PyObject *const *gradients, Py_ssize_t n) {
    Py_ssize_t own = n - (p->npacked > 0);
    for (Py_ssize_t i = 0; i < own; i++) {
        if (gradients[i] != Py_None) {
            t->inputs[t->n++] = Py_NewRef(gradients[i]);
        }
    }
    if (p->npacked == 0 || gradients[own] == Py_None) {
        return 0;
    }
    PyObject *dense = PyObject_CallMethod(gradients[own], "contiguous", NULL);
    for (uint32_t i = 0; i < p->npacked && dense != NULL; i++) {
        if ((t->inputs[t->n] = dyn_follow_block_piece(dense, &t->lie[i])) == NULL) {
            Py_CLEAR(dense);
        } else {
            t->n++;
        }
    }
    Py_XDECREF(dense);
    return dense == NULL ? -1 : 0;
}

/* Saved values, by their positions among those that backward may read. followed: pieces are tensors. */
static int take_saved(Taken *t, const DynPart *p, const DynPart *gradient, PyObject *reads, PyObject *saved, bool followed) {
    Py_ssize_t own = p->saves.n - p->npacked;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(reads); i++) {
        Py_ssize_t at = PyLong_AsSsize_t(PyTuple_GET_ITEM(reads, i));
        if (at < own) {
            t->inputs[t->n++] = Py_NewRef(PyTuple_GET_ITEM(saved, at));
        } else if (followed) {
            PyObject *piece = dyn_follow_block_piece(PyTuple_GET_ITEM(saved, own), &t->lie[at - own]);
            if (piece == NULL) {
                return -1;
            }
            t->inputs[t->n++] = piece;
        } else {
            DynPiece *x = &t->pieces[t->npieces++];
            *x = t->lie[at - own];
            x->node = gradient->graph.inputs.at[t->n];
            t->inputs[t->n++] = NULL;
        }
    }
    return t->npieces == 0 ? 0 : dyn_follow_block_place(PyTuple_GET_ITEM(saved, own), t->pieces, t->npieces);
}

/* As a node of its own where gradients of these gradients are recorded. */
static PyObject *run_taken(Taken *t, DynPart *gradient, PyObject *numbers, PyObject *block, bool recorded) {
    bool requires = false;
    for (Py_ssize_t i = 0; i < t->n && recorded && !requires; i++) {
        requires = dyn_torch_requires_grad(t->inputs[i]);
    }
    if (requires) {
        return call_apply(gradient, numbers, t->inputs);
    }
    DynPieces pieces = {.at = t->pieces, .n = t->npieces, .block = block};
    const DynScalar *known = (const DynScalar *)(const void *)PyBytes_AS_STRING(numbers);
    return dyn_follow_part_run(gradient, &gradient->plain, known, t->inputs, t->npieces > 0 ? &pieces : NULL);
}

/* Runs the part that computes gradients of p. Inputs are the gradients that are given, and saved values at these positions. */
static PyObject *run_gradient(const DynPart *p, DynPart *gradient, PyObject *reads, PyObject *numbers, PyObject *const *gradients,
                              Py_ssize_t n, PyObject *saved) {
    Taken t;
    bool recorded = dyn_torch_records_gradients();
    t.n = t.npieces = 0;
    t.inputs = PyMem_Malloc(sizeof(*t.inputs) * ((size_t)n + p->npacked + (size_t)PyTuple_GET_SIZE(reads) + 1));
    if (t.inputs == NULL) {
        return PyErr_NoMemory();
    }
    const DynScalar *known = (const DynScalar *)(const void *)PyBytes_AS_STRING(numbers);
    bool taken = p->npacked == 0 || dyn_follow_block_lay(p, known, t.lie) >= 0;
    taken = taken && take_gradients(&t, p, gradients, n) == 0 && take_saved(&t, p, gradient, reads, saved, recorded) == 0;
    PyObject *block = p->npacked == 0 ? NULL : PyTuple_GET_ITEM(saved, PyTuple_GET_SIZE(saved) - 1), *made = NULL;
    if (taken && fit(gradient, t.inputs, t.n)) {
        made = run_taken(&t, gradient, numbers, block, recorded);
    }
    for (Py_ssize_t i = 0; i < t.n; i++) {
        Py_XDECREF(t.inputs[i]);
    }
    PyMem_Free(t.inputs);
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

/* backward(ctx, *gradients) of others. */
static PyObject *backward_by_plain(PyObject *const *args, Py_ssize_t n) {
    PyObject *face = dyn_import("dynoc._autograd"), *f = face == NULL ? NULL : PyObject_GetAttrString(face, "backward");
    PyObject *made = f == NULL ? NULL : PyObject_Vectorcall(f, args, (size_t)n, NULL);
    Py_XDECREF(face);
    Py_XDECREF(f);
    return made;
}

/* backward(ctx, *gradients): a gradient or None for each input. */
static PyObject *backward(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    if (n > 1 && !are_plain(args + 1, n - 1)) {
        return backward_by_plain(args, n);
    }
    PyObject *captured = n < 1 ? NULL : PyObject_GetAttr(args[0], names.captured);
    DynPart *p = part_of(captured);
    PyObject *key = p == NULL ? NULL : pattern(args[0], args + 1, n - 1), *saved = NULL, *made = NULL, *all = NULL;
    PyObject *gradient = key == NULL ? NULL : Py_XNewRef(dyn_follow_part_gradient(p, key)); /* (part, reads, gives) */
    saved = gradient == NULL ? NULL : PyObject_GetAttr(args[0], names.saved_tensors);
    if (saved != NULL) {
        DynPart *of = (DynPart *)PyTuple_GET_ITEM(gradient, 0);
        made = run_gradient(p, of, PyTuple_GET_ITEM(gradient, 1), PyTuple_GET_ITEM(captured, 1), args + 1, n - 1, saved);
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
    own_forward = PyObject_GetAttrString(module, "_part_forward");
    own_backward = PyObject_GetAttrString(module, "_part_backward");
    return own_forward == NULL || own_backward == NULL ? -1 : 0;
}
