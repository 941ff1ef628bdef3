/* torch_new.c: memory for new tensors, past the parser of Python's arguments and the dispatcher.
 *
 * PyTorch's interface for compiled models (`aoti_torch_empty_strided`, plain C) makes the tensor, and `THPVariable_Wrap` the
 * Python object, which nothing in C does: it is looked up by the name that C++ gives it. What the first call makes is compared
 * with what was asked for; where that differs, or a function isn't there, tensors are made by `torch.empty_strided`: the log
 * `perf` says why, and counters["tensors"] how many. Called by torch.c, with the GIL. The doors stay open as long as the process
 * lives. */
#include <dlfcn.h>

#include "base/log.h"
#include "base/torch.h"

static struct Doors {
    int32_t (*make)(int64_t ndim, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device, int32_t index,
                    void **made);
    int32_t (*drop)(void *made);
    PyObject *(*wrap)(const void *made);
} doors;
static int32_t codes[DYN_DTYPE_COUNT]; /* PyTorch's numbers of dtypes; -1: it has none that is known here */
static enum { UNKNOWN, OPEN, CLOSED } state;

static bool find(void *library, const char *name, void *at) {
    void *f = library == NULL ? NULL : dlsym(library, name);
    memcpy(at, &f, sizeof(f));
    return f != NULL;
}

static void find_codes(void *library) {
    for (int i = 0; i < DYN_DTYPE_COUNT; i++) {
        const char *dtype = dyn_torch_dtype_name((DynDtype)i);
        char name[64] = "";
        int32_t (*code)(void) = NULL;
        if (dtype != NULL) {
            snprintf(name, sizeof(name), "aoti_torch_dtype_%s", dtype);
        }
        codes[i] = dtype != NULL && find(library, name, &code) ? code() : -1;
    }
}

/* PyTorch's extension module, by which its libraries are found, too: dlopen of one of these by its name compares that with all
 * the names that the process has. */
static void *open_extension(void) {
    PyObject *file = dyn_torch_lookup(dyn_torch_module, "_C.__file__");
    const char *path = file != NULL && PyUnicode_Check(file) ? PyUnicode_AsUTF8(file) : NULL;
    void *library = path == NULL ? NULL : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    PyErr_Clear();
    Py_XDECREF(file);
    return library;
}

/* In the libraries that are loaded already. What isn't there, or NULL. */
static const char *find_doors(void) {
    static const char *const names[] = {"aoti_torch_empty_strided", "aoti_torch_delete_tensor_object",
                                        "_Z16THPVariable_WrapRKN2at10TensorBaseE"};
    void *library = open_extension();
    void *const at[] = {&doors.make, &doors.drop, &doors.wrap};
    for (int i = 0; i < 3; i++) {
        if (!find(library, names[i], at[i])) {
            return names[i];
        }
    }
    find_codes(library);
    return NULL;
}

/* device: as DynArrayView has it; those that aren't this machine's memory are CUDA's, 1 among PyTorch's kinds. */
static PyObject *make(DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides, uint8_t device) {
    void *made = NULL;
    int32_t kind = device != 0, index = device != 0 ? device - 1 : 0;
    if (codes[dt] < 0 || doors.make(ndim, dims, strides, codes[dt], kind, index, &made) != 0) {
        return NULL; /* of memory that isn't there empty_strided says how much it is */
    }
    PyObject *t = doors.wrap(made);
    doors.drop(made);
    return t;
}

/* Does what the doors make look like what was asked for? */
static bool is_right(PyObject *t, DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides) {
    DynArrayView v;
    bool right = t != NULL && (PyObject *)Py_TYPE(t) == (PyObject *)dyn_torch_tensor && dyn_torch_look(t, &v) && v.device == 0;
    right = right && v.dtype == dt && v.ndim == ndim && Py_REFCNT(t) == 1;
    for (int i = 0; right && i < ndim; i++) {
        right = v.dims[i] == dims[i] && v.strides[i] == strides[i] * dyn_dtypes[dt].size;
    }
    return right;
}

/* Looks for the doors, and tries them. */
static void open_doors(void) {
    const int64_t few[2] = {3, 2}, apart[2] = {2, 1};
    const char *missing = find_doors();
    PyObject *t = missing == NULL ? make(DYN_F32, 2, few, apart, 0) : NULL;
    state = is_right(t, DYN_F32, 2, few, apart) ? OPEN : CLOSED;
    Py_XDECREF(t);
    if (state == CLOSED && dyn_log_on(DYN_LOG_perf)) {
        dyn_log(DYN_LOG_perf, "%s: %s%s: tensors are made by torch.empty_strided", dyn_reason_code(DYN_R_TORCH_INTERFACE),
                missing == NULL ? "aoti_torch_empty_strided makes something else" : "there is no ",
                missing == NULL ? "" : missing);
    }
}

PyObject *dyn_torch_new_past(DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides, uint8_t device) {
    int64_t steps[DYN_MAX_NDIM];
    for (int i = 0; i < ndim; i++) {
        steps[i] = strides[i] / dyn_dtypes[dt].size;
    }
    if (DYN_UNLIKELY(state == UNKNOWN)) {
        open_doors();
    }
    PyObject *t = DYN_LIKELY(state == OPEN) ? make(dt, ndim, dims, steps, device) : NULL;
    if (DYN_UNLIKELY(t == NULL)) {
        dyn_count_reason("tensors", DYN_R_TORCH_INTERFACE);
    }
    return t;
}
