/* base_test.c: what is under src/base as Python functions, for test_base.py. Built by the test together with the files it tests.
 */
#include "base/arrays.h"
#include "base/log.h"

/* Allocate blocks of the given sizes; (blocks that came, all aligned and zero and apart, bytes used). */
static PyObject *arena(PyObject *module, PyObject *sizes) {
    DynArena a;
    DynArena *const at = &a;
    dyn_arena_init(at);
    Py_ssize_t n = PyList_GET_SIZE(sizes), came = 0;
    bool sound = true;
    for (Py_ssize_t i = 0; i < n; i++) {
        size_t size = PyLong_AsSize_t(PyList_GET_ITEM(sizes, i));
        unsigned char *block = dyn_arena_alloc(at, size);
        if (block == NULL)
            break;
        came++;
        sound = sound && (uintptr_t)block % 16 == 0;
        for (size_t j = 0; j < size; j++) {
            sound = sound && block[j] == 0; /* a block that overlaps an earlier one shows it here */
            block[j] = 0xff;
        }
    }
    size_t used = a.used;
    dyn_arena_free(at);
    return Py_BuildValue("nOn", came, sound && a.head == NULL ? Py_True : Py_False, (Py_ssize_t)used);
}

static PyObject *fail_after(PyObject *module, PyObject *n) {
    dyn_arena_fail_after = PyLong_AsLong(n);
    Py_RETURN_NONE;
}

static PyObject *vec(PyObject *module, PyObject *n) {
    DYN_VEC(uint32_t) v = {0};
    uint32_t count = (uint32_t)PyLong_AsUnsignedLong(n), wrong = 0;
    for (uint32_t i = 0; i < count; i++)
        if (dyn_vec_push(&v, i * 3) < 0)
            return PyErr_NoMemory();
    for (uint32_t i = 0; i < v.n; i++)
        wrong += v.at[i] != i * 3;
    uint32_t length = v.n;
    bool refused = dyn_vec_grow((void **)&v.at, &v.cap, UINT32_MAX, sizeof(uint32_t)) < 0;
    dyn_vec_free(&v);
    return Py_BuildValue("IIO", length, wrong, refused ? Py_True : Py_False);
}

static PyObject *str(PyObject *module, PyObject *args) {
    const char *text;
    int times;
    if (!PyArg_ParseTuple(args, "si", &text, &times))
        return NULL;
    DynStr s = {0};
    for (int i = 0; i < times; i++) {
        dyn_str_puts(&s, text);
        dyn_str_putc(&s, '-');
        dyn_str_printf(&s, "%d%s", i, text);
    }
    PyObject *result = PyUnicode_FromString(dyn_str_at(&s));
    dyn_str_free(&s);
    return result;
}

/* (as dyn_str_printf has them, and as dyn_format has them in so much room) */
static PyObject *numbers(PyObject *module, PyObject *args) {
    int i, room;
    long long wide;
    const char *text;
    char fixed[64];
    DynStr s = {0};
    if (!PyArg_ParseTuple(args, "iLsi", &i, &wide, &text, &room))
        return NULL;
    const char format[] = "%d|%u|%lld|%c|%%|%s|";
    dyn_str_printf(&s, format, i, (unsigned)i, wide, 'c', text);
    dyn_str_printf(&s, "%5d|%.2s", i, text); /* of these the C library knows more */
    dyn_format(fixed, (size_t)room, format, i, (unsigned)i, wide, 'c', text);
    PyObject *result = Py_BuildValue("ss", dyn_str_at(&s), fixed);
    dyn_str_free(&s);
    return result;
}

static PyObject *putd(PyObject *module, PyObject *bits) {
    unsigned long long n = PyLong_AsUnsignedLongLong(bits);
    double value;
    memcpy(&value, &n, sizeof(value));
    DynStr s = {0};
    dyn_str_putd(&s, value);
    PyObject *result = PyUnicode_FromString(dyn_str_at(&s));
    dyn_str_free(&s);
    return result;
}

static PyObject *sha256(PyObject *module, PyObject *bytes) {
    char hex[65];
    dyn_sha256_hex(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), hex);
    return PyUnicode_FromString(hex);
}

static PyObject *hash64(PyObject *module, PyObject *args) {
    Py_buffer data;
    unsigned long long seed;
    if (!PyArg_ParseTuple(args, "y*K", &data, &seed))
        return NULL;
    uint64_t h = dyn_hash64(data.buf, (size_t)data.len, seed);
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLongLong(h);
}

/* (kind, order of the axes, its dtype's short name or None, a new array like it). */
static PyObject *layout(PyObject *module, PyObject *array) {
    PyArrayObject *a = (PyArrayObject *)array;
    int ndim = PyArray_NDIM(a);
    DynArrayView v;
    DynLayout l = {0};
    DynDtype dt = dyn_dtype_of(PyArray_DESCR(a));
    if (dyn_array_view(array, &v))
        dyn_layout_of(&v, &l);
    PyObject *order = PyTuple_New(ndim);
    if (order == NULL)
        return NULL;
    for (int i = 0; i < ndim; i++)
        PyTuple_SET_ITEM(order, i, PyLong_FromLong(l.perm[i]));
    if (dt == DYN_NO_DTYPE)
        return Py_BuildValue("iNOO", l.kind, order, Py_None, Py_None);
    int64_t dims[DYN_MAX_NDIM];
    for (int i = 0; i < ndim; i++)
        dims[i] = PyArray_DIM(a, i);
    return Py_BuildValue("iNsN", l.kind, order, dyn_dtypes[dt].name, dyn_array_new(dt, ndim, dims, &l));
}

static PyObject *say(PyObject *module, PyObject *text) {
    dyn_warn_once(DYN_R_NO_COMPILER, "%s", PyUnicode_AsUTF8(text));
    dyn_log(DYN_LOG_guards, "guard: %s", PyUnicode_AsUTF8(text));
    dyn_count("said", PyUnicode_AsUTF8(text));
    dyn_count_reason("reasons", DYN_R_OPAQUE_CALL);
    return PyBool_FromLong(dyn_log_busy());
}

static PyObject *busy(PyObject *module, PyObject *none) { return PyBool_FromLong(dyn_log_busy()); }

static PyObject *reasons(PyObject *module, PyObject *none) {
    PyObject *rows = PyList_New(0);
    for (int r = 0; rows != NULL && r <= DYN_R_COUNT; r++) {
        PyObject *row = Py_BuildValue("sss", dyn_reason_code(r), dyn_reason_message(r), dyn_reason_hint(r));
        if (row == NULL || PyList_Append(rows, row) < 0)
            Py_CLEAR(rows);
        Py_XDECREF(row);
    }
    return rows;
}

static PyMethodDef functions[] = {{"arena", arena, METH_O, NULL},
                                  {"fail_after", fail_after, METH_O, NULL},
                                  {"vec", vec, METH_O, NULL},
                                  {"str", str, METH_VARARGS, NULL},
                                  {"putd", putd, METH_O, NULL},
                                  {"numbers", numbers, METH_VARARGS, NULL},
                                  {"sha256", sha256, METH_O, NULL},
                                  {"hash64", hash64, METH_VARARGS, NULL},
                                  {"layout", layout, METH_O, NULL},
                                  {"say", say, METH_O, NULL},
                                  {"busy", busy, METH_NOARGS, NULL},
                                  {"reasons", reasons, METH_NOARGS, NULL},
                                  {0}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynoc_base_test", NULL, -1, functions};

PyMODINIT_FUNC PyInit_dynoc_base_test(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || dyn_arrays_init() < 0 || dyn_arrays_load() < 0 || dyn_log_init(module) < 0)
        return NULL;
    return module;
}
