/* cupy.c: CuPy by the attributes of its arrays: where elements lie, new arrays, and the current stream.
 *
 * Called by arrays.c (views), the recorder, guards and the target of CUDA devices, with the GIL. What is looked up in cupy is
 * kept for the life of the process. CuPy gives no DLPack exchange API, so that its getters are asked, which are in C. */
#include "base/cupy.h"
#include "base/cuda.h"
#include "base/torch.h"

PyTypeObject *dyn_cupy_array;
PyObject *dyn_cupy_module;

/* X(name here, path below cupy) */
#define OBJECTS(X)         \
    X(alloc, "cuda.alloc") \
    X(stream, "cuda.get_current_stream")
static struct {
#define X(name, path) PyObject *name;
    OBJECTS(X)
#undef X
} ob;

/* Names of attributes, interned. */
#define NAMES(X) X(data) X(ptr) X(device_id) X(shape) X(strides) X(dtype)
static struct {
#define X(name) PyObject *name;
    NAMES(X)
#undef X
} names;

static bool find_all(PyObject *cupy) {
    bool ok = true;
#define X(name, path) ok = ok && (ob.name = dyn_torch_lookup(cupy, path)) != NULL;
    OBJECTS(X)
#undef X
#define X(name) ok = ok && (names.name = PyUnicode_InternFromString(#name)) != NULL;
    NAMES(X)
#undef X
    return ok;
}

bool dyn_cupy_find(void) {
    static bool refused;
    if (dyn_cupy_array != NULL || refused) {
        return dyn_cupy_array != NULL;
    }
    PyObject *cupy = PyDict_GetItemString(PyImport_GetModuleDict(), "cupy");
    PyObject *whole = cupy == NULL ? NULL : dyn_torch_lookup(cupy, "show_config"); /* its import is under way until then */
    if (whole == NULL) {
        return false;
    }
    Py_DECREF(whole);
    PyObject *type = dyn_torch_lookup(cupy, "ndarray");
    refused = type == NULL || !PyType_Check(type) || !find_all(cupy);
    PyErr_Clear();
    if (refused) {
        Py_XDECREF(type);
        return false;
    }
    dyn_cupy_module = Py_NewRef(cupy);
    dyn_cupy_array = (PyTypeObject *)type;
    return true;
}

/* ---- what an array is */

/* An attribute that is an integer; false with an exception. */
static bool integer(PyObject *o, PyObject *name, long long *out) {
    PyObject *value = PyObject_GetAttr(o, name);
    *out = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return !PyErr_Occurred();
}

/* An attribute that is a tuple of integers; its length, -1: it is something else. */
static int integers(PyObject *o, PyObject *name, int64_t *out) {
    PyObject *tuple = PyObject_GetAttr(o, name);
    Py_ssize_t n = tuple != NULL && PyTuple_CheckExact(tuple) ? PyTuple_GET_SIZE(tuple) : -1;
    n = n > DYN_MAX_NDIM ? -1 : n;
    for (Py_ssize_t i = 0; i < n; i++) {
        out[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    }
    Py_XDECREF(tuple);
    return PyErr_Occurred() ? -1 : (int)n;
}

static DynDtype dtype_of(PyObject *array) {
    PyObject *dtype = PyObject_GetAttr(array, names.dtype);
    DynDtype dt = dtype != NULL && PyArray_DescrCheck(dtype) ? dyn_dtype_of((PyArray_Descr *)dtype) : DYN_NO_DTYPE;
    Py_XDECREF(dtype);
    return dt;
}

static bool find_data(PyObject *array, DynArrayView *out) {
    long long at = 0, device = -1;
    PyObject *data = PyObject_GetAttr(array, names.data);
    bool found = data != NULL && integer(data, names.ptr, &at) && integer(data, names.device_id, &device);
    Py_XDECREF(data);
    out->data = (char *)(uintptr_t)at;
    out->device = (uint8_t)(1 + device);
    return found && device >= 0 && device < DYN_MOST_DEVICES;
}

/* Is the device the current one of this thread, whose memory CuPy's functions work in? */
static bool is_current(uint8_t device) {
    DynCudaContext *current = NULL;
    if (dyn_cuda_stands_in) {
        return true;
    }
    const DynCudaInfo *info = dyn_cuda_find() ? dyn_cuda_info(device - 1) : NULL;
    return info != NULL && dyn_cuda.CtxGetCurrent(&current) == 0 && current == info->context;
}

bool dyn_cupy_look(PyObject *array, DynArrayView *out) {
    *out = (DynArrayView){.writeable = true};
    DynDtype dt = dtype_of(array);
    int ndim = integers(array, names.shape, out->dims), same = integers(array, names.strides, out->strides);
    bool known = dt != DYN_NO_DTYPE && ndim >= 0 && ndim == same && find_data(array, out);
    PyErr_Clear();
    if (!known || !is_current(out->device)) {
        return false;
    }
    out->ndim = (uint8_t)ndim;
    out->dtype = (uint8_t)dt;
    out->aligned = (uintptr_t)out->data % dyn_dtypes[dt].size == 0; /* complex numbers too: kernels read them at once */
    return true;
}

PyObject *dyn_cupy_dtype_object(DynDtype dt) {
    PyObject *dtype = (PyObject *)PyArray_DescrFromType(dyn_dtypes[dt].npy); /* NumPy's one descriptor of the type, never freed */
    Py_XDECREF(dtype);
    return dtype;
}

/* ---- new arrays */

/* cupy.ndarray(shape, dtype, memory, strides); takes the reference to the memory, which may be NULL with an exception. */
static PyObject *array_of(PyObject *memory, DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides) {
    PyObject *shape = dyn_int_tuple(ndim, dims, 1), *steps = dyn_int_tuple(ndim, strides, 1), *array = NULL;
    PyObject *dtype = dyn_cupy_dtype_object(dt);
    if (memory != NULL && shape != NULL && steps != NULL) {
        PyObject *args[] = {shape, dtype, memory, steps};
        array = PyObject_Vectorcall((PyObject *)dyn_cupy_array, args, DYN_COUNTOF(args), NULL);
    }
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    return array;
}

PyObject *dyn_cupy_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout) {
    int64_t strides[DYN_MAX_NDIM], bytes = dyn_dtypes[dt].size;
    if (!dyn_layout_dense(layout, dt, ndim, dims, strides)) {
        return PyErr_NoMemory();
    }
    for (int i = 0; i < ndim; i++) {
        bytes *= dims[i];
    }
    PyObject *size = PyLong_FromLongLong(bytes), *memory = size == NULL ? NULL : PyObject_CallOneArg(ob.alloc, size);
    Py_XDECREF(size);
    return array_of(memory, dt, ndim, dims, strides);
}

PyObject *dyn_cupy_window(PyObject *base, const DynArrayView *view) {
    DynArrayView of_base;
    if (!dyn_cupy_look(base, &of_base)) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a view of an array that can't be looked at");
        return NULL;
    }
    PyObject *data = PyObject_GetAttr(base, names.data);
    PyObject *offset = PyLong_FromLongLong(dyn_view_empty(view) ? 0 : view->data - of_base.data);
    PyObject *memory = data == NULL || offset == NULL ? NULL : PyNumber_Add(data, offset);
    Py_XDECREF(data);
    Py_XDECREF(offset);
    return array_of(memory, (DynDtype)view->dtype, view->ndim, view->dims, view->strides);
}

bool dyn_cupy_stream(void **stream) {
    long long at = 0;
    PyObject *current = dyn_cuda_stands_in ? NULL : PyObject_CallNoArgs(ob.stream);
    bool found = dyn_cuda_stands_in || (current != NULL && integer(current, names.ptr, &at));
    Py_XDECREF(current);
    PyErr_Clear();
    *stream = (void *)(uintptr_t)at;
    return found;
}
