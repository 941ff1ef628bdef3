/* hit_handed.c: back ends that get the graph (dynoc.optimize(fn, backend=callable)): the graph is handed on when the call that
 * recorded it is through, and a hit calls what came back.
 *
 * Called by hook.c and hit.c, with the GIL. src/dynoc/_backends.py makes the graph's nodes and calls the back end; it gives a
 * tuple (callable, ids of symbols, ids of sources, suppress): the callable takes the symbols' values, the graph's inputs and the
 * objects at the sources, and returns the outputs. */
#include "base/cpy.h"
#include "base/tensors.h"
#include "codegen/run/flags.h"
#include "evalframe/door.h"

/* ---- handing on */

int dyn_hand_on(DynEntry *e, const DynOptions *o) {
    PyObject *examples = e->capture->examples != NULL ? e->capture->examples : PyTuple_New(0);
    e->capture->examples = NULL;
    PyObject *face = dyn_import("dynoc._backends"), *entry = dyn_pyentry_new(e), *handed = NULL;
    bool suppress = dyn_options_config(o).suppress_errors;
    if (face != NULL && entry != NULL && examples != NULL) {
        handed = PyObject_CallMethod(face, "hand_on", "OOOi", entry, o->dict, examples, (int)suppress);
    }
    Py_XDECREF(examples);
    Py_XDECREF(entry);
    Py_XDECREF(face);
    if (handed != NULL) {
        e->handed = handed;
        dyn_count("graphs", "handed_on");
        return 0;
    }
    e->plain = DYN_R_BACKEND_FAILED;
    dyn_count_reason("graphs_failed", e->plain);
    if (!suppress) {
        return -1;
    }
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyObject *text = value == NULL ? NULL : PyObject_Str(value);
    const char *words = text == NULL ? NULL : PyUnicode_AsUTF8(text);
    dyn_warn_once(e->plain, "%s: %s", e->capture->graph.name, words == NULL ? "" : words);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    PyErr_Clear();
    return 0;
}

/* ---- a hit */

static PyObject *arguments(const DynGraph *g, PyObject *symbols, PyObject *sources, const DynRun *run) {
    Py_ssize_t n = PyTuple_GET_SIZE(symbols), m = PyTuple_GET_SIZE(sources), at = 0;
    PyObject *args = PyTuple_New(n + (Py_ssize_t)g->inputs.n + m);
    for (Py_ssize_t i = 0; args != NULL && i < n; i++) {
        uint32_t id = (uint32_t)PyLong_AsUnsignedLong(PyTuple_GET_ITEM(symbols, i));
        PyObject *number = dyn_sym_object(g->syms, id, run->sym[id]);
        if (number == NULL) {
            Py_CLEAR(args);
        } else {
            PyTuple_SET_ITEM(args, at++, number);
        }
    }
    for (uint32_t i = 0; args != NULL && i < g->inputs.n; i++) {
        PyTuple_SET_ITEM(args, at++, Py_NewRef(run->inputs[i]));
    }
    for (Py_ssize_t i = 0; args != NULL && i < m; i++) {
        PyTuple_SET_ITEM(args, at++, Py_NewRef(run->sources[PyLong_AsUnsignedLong(PyTuple_GET_ITEM(sources, i))]));
    }
    return args;
}

/* Is the object of the kind that the node says, so that Python gets it as it is? */
static bool is_as_wanted(const DynNode *n, PyObject *o) {
    bool scalar = n->flags & DYN_NODE_NPSCALAR, tensor = n->flags & DYN_NODE_TENSOR;
    if (n->flags & DYN_NODE_OBJECT || (tensor && dyn_tensor_is(o))) {
        return true;
    }
    if (scalar) {
        return !PyArray_Check(o) && PyArray_CheckScalar(o);
    }
    return !tensor && PyArray_CheckExact(o);
}

/* The value of a node as Python is to get it; new reference, or NULL with an exception. */
static PyObject *value_of(const DynGraph *g, uint32_t id, PyObject *o, const DynRun *run) {
    const DynNode *n = dyn_graph_node(g, id);
    for (uint32_t k = 0; k < g->inputs.n; k++) {
        if (g->inputs.at[k] == id) {
            return Py_NewRef(run->inputs[k]); /* the very object */
        }
    }
    bool scalar = n->flags & DYN_NODE_NPSCALAR, tensor = n->flags & DYN_NODE_TENSOR;
    if (is_as_wanted(n, o)) {
        return Py_NewRef(o);
    }
    bool flat = PyArray_CheckExact(o) && PyArray_NDIM((PyArrayObject *)o) == 0;
    if (!tensor && scalar && flat) {
        return PyArray_ToScalar(PyArray_DATA((PyArrayObject *)o), (PyArrayObject *)o);
    }
    if (!tensor && !scalar && PyArray_CheckScalar(o)) {
        return PyArray_FromScalar(o, NULL);
    }
    const char *wanted = scalar ? "a NumPy scalar" : "an array";
    PyErr_Format(PyExc_TypeError, "a back end's callable gave a %.100s where the graph has %s", Py_TYPE(o)->tp_name,
                 tensor ? "a tensor" : wanted);
    return NULL;
}

static int take_outputs(const DynGraph *g, PyObject *result, DynRun *run) {
    bool items = PyTuple_Check(result) || PyList_Check(result);
    if (!items || PySequence_Fast_GET_SIZE(result) != (Py_ssize_t)g->outputs.n) {
        PyErr_Format(PyExc_TypeError, "a back end's callable returns a tuple of the graph's %u outputs, not %.200R", g->outputs.n,
                     items ? result : (PyObject *)Py_TYPE(result));
        return -1;
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        run->outputs[i] = value_of(g, g->outputs.at[i], PySequence_Fast_GET_ITEM(result, i), run);
        if (run->outputs[i] == NULL) {
            return -1;
        }
    }
    return 0;
}

/* Eager makes the call again, and its exception, where nothing was written. */
static DynRunStatus failed(const DynEntry *e, DynRun *run, bool strict) {
    bool again = !e->capture->writes && (strict || PyErr_ExceptionMatches(PyExc_FloatingPointError));
    if (again) {
        PyErr_Clear();
        for (uint32_t i = 0; i < e->capture->graph.outputs.n; i++) {
            Py_CLEAR(run->outputs[i]);
        }
    }
    return again ? DYN_RUN_AGAIN : DYN_RUN_ERROR;
}

DynRunStatus dyn_hit_handed(const DynEntry *e, DynRun *run) {
    const DynGraph *g = &e->capture->graph;
    PyObject *handed = Py_NewRef(e->handed);
    bool suppress = PyObject_IsTrue(PyTuple_GET_ITEM(handed, 3));
    PyObject *args = arguments(g, PyTuple_GET_ITEM(handed, 1), PyTuple_GET_ITEM(handed, 2), run);
    PyObject *strict = args == NULL || e->capture->writes ? NULL : dyn_flags_strict();
    bool grad = dyn_torch_tensor != NULL && dyn_torch_grad_off();
    PyObject *result = args == NULL ? NULL : PyObject_Call(PyTuple_GET_ITEM(handed, 0), args, NULL);
    dyn_torch_grad_back(grad);
    dyn_flags_lenient(strict);
    int done = result == NULL ? -1 : take_outputs(g, result, run);
    DynRunStatus status = done == 0 ? DYN_RUN_OK : failed(e, run, suppress);
    Py_XDECREF(result);
    Py_XDECREF(args);
    Py_DECREF(handed);
    return status;
}
