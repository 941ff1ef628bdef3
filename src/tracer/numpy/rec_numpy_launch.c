/* rec_numpy_launch.c: launches of kernels that the program wrote, in Triton or CUDA: one call that writes several arrays.
 *
 * A call's node says of one array that it is written. Of the others nodes before and behind it say so, which do nothing: what
 * reads those arrays keeps its side of the launch. Called by rec_triton.c and rec_cupy.c. Owns nothing. */
#include "tracer/numpy/rec_np.h"

static PyObject *do_nothing(PyObject *module, PyObject *array) {
    (void)module, (void)array;
    Py_RETURN_NONE;
}

/* Nothing is done, but the array counts as written: what reads it keeps its side. false: that can't be said. */
static bool say_written(DynRec *r, DynOperand array) {
    static PyMethodDef method = {"written", do_nothing, METH_O, NULL};
    static PyObject *written;
    if (written == NULL && (written = PyCFunction_New(&method, NULL)) == NULL) {
        PyErr_Clear();
        return false;
    }
    return dyn_np_extern_write(r, written, "written", &array, 1, NULL, Py_None) != NULL;
}

DynVal *dyn_np_launch(DynRec *r, const NpLaunch *l) {
    DynVal *v = NULL;
    bool said = true;
    for (int i = 0; i < l->nothers && said; i++) {
        said = say_written(r, l->others[i]);
    }
    if (said) {
        v = dyn_np_extern_launch(r, l->callable, l->name, l->args, l->npos, l->kwnames, l->result, l->writes);
    }
    for (int i = 0; i < l->nothers && v != NULL; i++) {
        v = say_written(r, l->others[i]) ? v : NULL;
    }
    return v;
}
