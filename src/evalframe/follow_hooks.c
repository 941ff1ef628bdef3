/* follow_hooks.c: hooks that a program hangs on the node of a part that autograd follows.
 *
 * What backward reads of a part is saved as further outputs of its node, so that gradients of gradients find their way through
 * them. A program that hangs a hook on the node knows nothing of these: PyTorch's `register_prehook` and `register_hook` are
 * given a function that shows the hook the gradients of the part's own outputs, and puts the others behind what it returns. Where
 * a node runs for what is saved alone, as in the backward of a backward, eager's runs other nodes, and the hook isn't called.
 * Called by follow_node.c when the class of nodes is made. */
#include "evalframe/follow_part.h"

/* Is a gradient given between these places? */
static bool any_given(PyObject *gradients, Py_ssize_t from, Py_ssize_t to) {
    bool given = false;
    for (Py_ssize_t i = from; i < to && !given; i++) {
        given = PyTuple_GET_ITEM(gradients, i) != Py_None;
    }
    return given;
}

/* The gradients of the outputs that the program's hook sees, a new tuple; None where the node runs for what is saved alone. */
static PyObject *own_gradients(PyObject *shown, PyObject *gradients) {
    Py_ssize_t n = PyLong_AsSsize_t(PyTuple_GET_ITEM(shown, 1));
    if (!PyTuple_Check(gradients) || PyTuple_GET_SIZE(gradients) < n) {
        PyErr_SetString(PyExc_TypeError, "a hook on a node takes tuples of gradients");
        return NULL;
    }
    bool runs_for_saved = any_given(gradients, n, PyTuple_GET_SIZE(gradients)) && !any_given(gradients, 0, n);
    return runs_for_saved ? Py_NewRef(Py_None) : PyTuple_GetSlice(gradients, 0, n);
}

/* prehook(gradients of outputs) → what they are to be instead, or None. shown: (the program's hook, how many it sees). */
static PyObject *call_prehook(PyObject *shown, PyObject *gradients) {
    PyObject *own = own_gradients(shown, gradients);
    if (own == NULL || own == Py_None) {
        return own;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(own);
    PyObject *given = PyObject_CallOneArg(PyTuple_GET_ITEM(shown, 0), own);
    Py_DECREF(own);
    if (given == NULL || !PyTuple_Check(given)) {
        return given; /* None, or what PyTorch raises its own error for */
    }
    PyObject *rest = PyTuple_GetSlice(gradients, n, PyTuple_GET_SIZE(gradients)),
             *all = rest == NULL ? NULL : PySequence_Concat(given, rest);
    Py_XDECREF(rest);
    Py_DECREF(given);
    return all;
}

/* hook(gradients of inputs, gradients of outputs) → what the first are to be instead, or None. */
static PyObject *call_hook(PyObject *shown, PyObject *const *args, Py_ssize_t n) {
    if (n != 2) {
        PyErr_SetString(PyExc_TypeError, "a hook on a node takes two tuples of gradients");
        return NULL;
    }
    PyObject *own = own_gradients(shown, args[1]);
    if (own == NULL || own == Py_None) {
        return own;
    }
    PyObject *given = PyObject_CallFunctionObjArgs(PyTuple_GET_ITEM(shown, 0), args[0], own, NULL);
    Py_DECREF(own);
    return given;
}

static PyObject *register_prehook(PyObject *module, PyObject *const *args, Py_ssize_t n);
static PyObject *register_hook(PyObject *module, PyObject *const *args, Py_ssize_t n);

/* The two ways of hanging a hook on a node. */
static struct Way {
    PyMethodDef method; /* as nodes have it */
    PyMethodDef call;   /* what PyTorch calls */
    PyObject *base;     /* PyTorch's own method */
} ways[] = {
    {{"register_prehook", (PyCFunction)(void (*)(void))register_prehook, METH_FASTCALL, NULL},
     {"prehook", call_prehook, METH_O, NULL},
     NULL},
    {{"register_hook", (PyCFunction)(void (*)(void))register_hook, METH_FASTCALL, NULL},
     {"hook", (PyCFunction)(void (*)(void))call_hook, METH_FASTCALL, NULL},
     NULL},
};

/* (node, hook): hangs it on the node, as PyTorch does. */
static PyObject *hang(struct Way *way, PyObject *const *args, Py_ssize_t n) {
    DynPart *p = n == 2 ? dyn_follow_node_part(args[0]) : NULL;
    if (p == NULL || dyn_follow_block_width(p) == p->nout) { /* nothing but the part's outputs, or PyTorch's own error */
        PyErr_Clear();
        return PyObject_Vectorcall(way->base, args, (size_t)n, NULL);
    }
    PyObject *shown = Py_BuildValue("OI", args[1], (unsigned)p->nout);
    PyObject *call = shown == NULL ? NULL : PyCFunction_New(&way->call, shown);
    PyObject *handle = call == NULL ? NULL : PyObject_CallFunctionObjArgs(way->base, args[0], call, NULL);
    Py_XDECREF(shown);
    Py_XDECREF(call);
    return handle;
}

static PyObject *register_prehook(PyObject *module, PyObject *const *args, Py_ssize_t n) { return hang(&ways[0], args, n); }

static PyObject *register_hook(PyObject *module, PyObject *const *args, Py_ssize_t n) { return hang(&ways[1], args, n); }

int dyn_follow_hooks_set(PyObject *nodes) {
    for (size_t i = 0; i < DYN_COUNTOF(ways); i++) {
        struct Way *way = &ways[i];
        if (way->base == NULL && (way->base = PyObject_GetAttrString(nodes, way->method.ml_name)) == NULL) {
            return -1;
        }
        PyObject *own = PyCFunction_New(&way->method, NULL), *method = own == NULL ? NULL : PyInstanceMethod_New(own);
        int done = method == NULL ? -1 : PyObject_SetAttrString(nodes, way->method.ml_name, method);
        Py_XDECREF(own);
        Py_XDECREF(method);
        if (done < 0) {
            return -1;
        }
    }
    return 0;
}
