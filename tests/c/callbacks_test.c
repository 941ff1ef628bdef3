/* callbacks_test.c: makes CPython and NumPy call back into dynoc while an exception is set, for test_callbacks.py.
 *
 * Each action sets KeyError("kept"), does one thing that may call back, and tells what came of it and which exception is set
 * then. Built by the test alone; nothing of dynoc is linked. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <frameobject.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

static void raise_one(void) { PyErr_SetString(PyExc_KeyError, "kept"); }

/* (what came, repr of the exception that is set); `came` is taken over and may be NULL. */
static PyObject *told(PyObject *came) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value == NULL ? PyUnicode_FromString("nothing") : PyObject_Repr(value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return Py_BuildValue("(NN)", came == NULL ? Py_NewRef(Py_None) : came, text);
}

static PyObject *make_function(PyObject *module, PyObject *function) {
    raise_one();
    PyObject *made = PyFunction_New(PyFunction_GET_CODE(function), PyFunction_GET_GLOBALS(function));
    PyObject *type = made == NULL ? NULL : Py_NewRef((PyObject *)Py_TYPE(made));
    Py_XDECREF(made);
    return told(type);
}

static PyObject *make_arrays(PyObject *module, PyObject *count) {
    npy_intp n = PyLong_AsLong(count);
    PyObject *last = NULL;
    raise_one();
    for (npy_intp i = 0; i < n; i++) {
        npy_intp shape[1] = {i};
        Py_XSETREF(last, PyArray_ZEROS(1, shape, NPY_DOUBLE, 0));
    }
    return told(last);
}

/* callable, arguments */
static PyObject *call(PyObject *module, PyObject *args) {
    PyObject *callable, *tuple;
    if (!PyArg_ParseTuple(args, "OO!", &callable, &PyTuple_Type, &tuple)) {
        return NULL;
    }
    raise_one();
    return told(PyObject_Vectorcall(callable, ((PyTupleObject *)tuple)->ob_item, (size_t)PyTuple_GET_SIZE(tuple), NULL));
}

/* dict, key, value */
static PyObject *set_item(PyObject *module, PyObject *args) {
    PyObject *dict, *key, *value;
    if (!PyArg_ParseTuple(args, "O!OO", &PyDict_Type, &dict, &key, &value)) {
        return NULL;
    }
    raise_one();
    return told(PyBool_FromLong(PyDict_SetItem(dict, key, value) == 0));
}

/* The items of the list die, if nobody else has them. */
static PyObject *let_die(PyObject *module, PyObject *list) {
    raise_one();
    return told(PyBool_FromLong(PyList_SetSlice(list, 0, PyList_GET_SIZE(list), NULL) == 0));
}

/* globals: a frame object of code without instructions is made in them, as Cython does for its tracebacks. */
static PyObject *make_frame(PyObject *module, PyObject *globals) {
    PyCodeObject *code = PyCode_NewEmpty("module.pyx", "function", 1);
    if (code == NULL) {
        return NULL;
    }
    raise_one();
    PyObject *frame = (PyObject *)PyFrame_New(PyThreadState_Get(), code, globals, NULL);
    PyObject *type = frame == NULL ? NULL : Py_NewRef((PyObject *)Py_TYPE(frame));
    Py_XDECREF(frame);
    Py_DECREF(code);
    return told(type);
}

static PyMethodDef functions[] = {{"make_function", make_function, METH_O, NULL},
                                  {"make_arrays", make_arrays, METH_O, NULL},
                                  {"call", call, METH_VARARGS, NULL},
                                  {"set_item", set_item, METH_VARARGS, NULL},
                                  {"let_die", let_die, METH_O, NULL},
                                  {"make_frame", make_frame, METH_O, NULL},
                                  {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "callbacks", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_callbacks(void) {
    import_array();
    return PyModule_Create(&definition);
}
