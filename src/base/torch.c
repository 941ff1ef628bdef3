/* torch.c: PyTorch by its C door: what a tensor is, new tensors and views, and the state that operators depend on.
 *
 * Called by arrays.c (views), the recorder, guards and the artifact, with the GIL. What is looked up in torch (types, getters,
 * functions) is kept for the life of the process. The getter and functions in C are called by their C addresses: that costs
 * a tenth of what the interpreter's attribute does. */
#include "base/cpy.h"
#include "base/torch.h"
#include "base/cuda.h"

/* DLPack 1.x, the parts of it that are needed: https://github.com/dmlc/dlpack, include/dlpack/dlpack.h. */
typedef struct DLTensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides; /* strides in elements; NULL: C-contiguous */
    uint64_t byte_offset;
} DLTensor;
typedef struct ExchangeApi {
    uint32_t major, minor;
    void *older;
    void *allocate, *from_object, *to_object;
    int (*view)(void *object, DLTensor *out);
    int (*stream)(int32_t device_type, int32_t device, void **stream);
} ExchangeApi;
enum { DEVICE_CPU = 1, DEVICE_CUDA = 2, MAJOR = 1 };

static const struct TorchType { /* how torch and DLPack call an element type */
    const char *name;
    uint8_t code;
} types[DYN_DTYPE_COUNT] = {
    [DYN_BOOL] = {"bool", 6},   [DYN_I8] = {"int8", 0},       [DYN_I16] = {"int16", 0},      [DYN_I32] = {"int32", 0},
    [DYN_I64] = {"int64", 0},   [DYN_U8] = {"uint8", 1},      [DYN_U16] = {"uint16", 1},     [DYN_U32] = {"uint32", 1},
    [DYN_U64] = {"uint64", 1},  [DYN_F16] = {"float16", 2},   [DYN_BF16] = {"bfloat16", 4},  [DYN_F32] = {"float32", 2},
    [DYN_F64] = {"float64", 2}, [DYN_C64] = {"complex64", 5}, [DYN_C128] = {"complex128", 5}};

PyTypeObject *dyn_torch_tensor, *dyn_torch_parameter, *dyn_torch_size, *dyn_torch_dtype, *dyn_torch_device;
static PyObject *named_results; /* a set of types */
PyObject *dyn_torch_module;
static const ExchangeApi *api;
static PyObject *dtypes[DYN_DTYPE_COUNT];

/* X(name here, path below torch) */
#define OBJECTS(X)                                         \
    X(grad_enabled, "is_grad_enabled")                     \
    X(inference, "is_inference_mode_enabled")              \
    X(function_mode, "_C._is_torch_function_mode_enabled") \
    X(function_modes, "_C._len_torch_function_stack")      \
    X(function_mode_at, "_C._get_function_stack_at")       \
    X(dispatch_modes, "_C._len_torch_dispatch_stack")      \
    X(transformed, "_C._are_functorch_transforms_active")  \
    X(any_autocast, "_C._is_any_autocast_enabled")         \
    X(autocast, "is_autocast_enabled")                     \
    X(autocast_dtype, "get_autocast_dtype")                \
    X(autocast_cache, "is_autocast_cache_enabled")         \
    X(autocast_enter, "autocast_increment_nesting")        \
    X(autocast_leave, "autocast_decrement_nesting")        \
    X(tracing, "_C._get_tracing_state")                    \
    X(forward_mode, "autograd.forward_ad.__dict__")        \
    X(default_dtype, "get_default_dtype")                  \
    X(set_grad, "_C._set_grad_enabled")                    \
    X(empty_strided, "empty_strided")                      \
    X(as_strided, "as_strided")                            \
    X(view_as_real, "view_as_real")                        \
    X(view_as_complex, "view_as_complex")                  \
    X(from_numpy, "from_numpy")                            \
    X(dispatch_keys, "_C._dispatch_keys")                  \
    X(key_set, "_C.DispatchKeySet")                        \
    X(key_bits, "_C.DispatchKeySet.raw_repr")              \
    X(negative, "_C.DispatchKey.Negative")                 \
    X(conjugate, "_C.DispatchKey.Conjugate")               \
    X(increment_version, "_C._increment_version")          \
    X(finfo, "finfo")                                      \
    X(iinfo, "iinfo")                                      \
    X(layout, "layout")                                    \
    X(memory_format, "memory_format")
static unsigned long long marked; /* the bits of the negative and the conjugate key */
static getter requires_grad;      /* of a tensor, as C calls it */
static void *requires_grad_closure;
static struct { /* strong */
#define X(name, path) PyObject *name;
    OBJECTS(X)
#undef X
} ob;

/* ---- finding it */

PyObject *dyn_torch_lookup(PyObject *base, const char *path) {
    PyObject *o = Py_NewRef(base);
    while (o != NULL && *path != 0) {
        size_t n = strcspn(path, ".");
        PyObject *name = PyUnicode_FromStringAndSize(path, (Py_ssize_t)n);
        Py_SETREF(o, name == NULL ? NULL : PyObject_GetAttr(o, name));
        Py_XDECREF(name);
        path += n + (path[n] == '.');
    }
    PyErr_Clear();
    return o;
}

static PyTypeObject *lookup_type(PyObject *torch, const char *path) {
    PyObject *o = dyn_torch_lookup(torch, path);
    if (o != NULL && !PyType_Check(o)) {
        Py_CLEAR(o);
    }
    return (PyTypeObject *)o;
}

static bool find_getter(void) {
    PyObject *descr = dyn_torch_lookup((PyObject *)dyn_torch_tensor, "requires_grad");
    if (descr != NULL && Py_IS_TYPE(descr, &PyGetSetDescr_Type)) {
        requires_grad = ((PyGetSetDescrObject *)descr)->d_getset->get;
        requires_grad_closure = ((PyGetSetDescrObject *)descr)->d_getset->closure;
    }
    Py_XDECREF(descr); /* the type has it */
    return requires_grad != NULL;
}

static bool find_api(void) {
    PyObject *capsule = dyn_torch_lookup((PyObject *)dyn_torch_tensor, "__dlpack_c_exchange_api__");
    const ExchangeApi *found = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    PyErr_Clear();
    Py_XDECREF(capsule); /* the class has it */
    if (found == NULL || found->major != MAJOR || found->view == NULL) {
        return false;
    }
    api = found;
    return true;
}

/* A set of dispatch keys as bits; takes the reference. False, without an exception: it is none. */
static bool key_bits(PyObject *keys, unsigned long long *bits) {
    PyObject *number = keys == NULL ? NULL : PyObject_CallOneArg(ob.key_bits, keys);
    bool ok = number != NULL && PyLong_Check(number);
    *bits = ok ? PyLong_AsUnsignedLongLongMask(number) : 0;
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(keys);
    return ok;
}

static bool find_marks(void) {
    unsigned long long negative, conjugate;
    bool ok = key_bits(PyObject_CallOneArg(ob.key_set, ob.negative), &negative) &&
              key_bits(PyObject_CallOneArg(ob.key_set, ob.conjugate), &conjugate);
    marked = ok ? negative | conjugate : 0;
    return ok && negative != 0 && conjugate != 0;
}

/* The types in torch.return_types. */
static bool find_named(PyObject *torch) {
    PyObject *module = dyn_torch_lookup(torch, "return_types"), *space = module == NULL ? NULL : PyModule_GetDict(module);
    Py_ssize_t at = 0;
    named_results = space == NULL ? NULL : PySet_New(NULL);
    for (PyObject *o; named_results != NULL && PyDict_Next(space, &at, NULL, &o);) {
        if (PyType_Check(o) && PySet_Add(named_results, o) < 0) {
            Py_CLEAR(named_results);
        }
    }
    PyErr_Clear();
    Py_XDECREF(module);
    return named_results != NULL;
}

/* A class with a metaclass of its own isn't asked, whose hash may be Python code. */
bool dyn_torch_is_named(PyTypeObject *type) {
    return named_results != NULL && Py_IS_TYPE(type, &PyType_Type) && PySet_Contains(named_results, (PyObject *)type) == 1;
}

static bool find_all(PyObject *torch) {
    bool ok = find_api() && find_getter() && find_named(torch);
#define X(name, path) ok = ok && (ob.name = dyn_torch_lookup(torch, path)) != NULL;
    OBJECTS(X)
#undef X
    ok = ok && find_marks();
    for (int i = 0; i < DYN_DTYPE_COUNT && ok; i++) {
        dtypes[i] = types[i].name == NULL ? NULL : dyn_torch_lookup(torch, types[i].name);
    }
    return ok;
}

bool dyn_torch_find(void) {
    static bool refused;
    if (DYN_LIKELY(dyn_torch_tensor != NULL)) {
        return true;
    }
    PyObject *torch = refused || !dyn_arrays_loaded() ? NULL : PyDict_GetItemString(PyImport_GetModuleDict(), "torch");
    PyObject *whole =
        torch == NULL ? NULL : dyn_torch_lookup(torch, "nn.functional.linear"); /* its import is under way until then */
    if (whole == NULL) {
        return false;
    }
    Py_DECREF(whole);
    dyn_torch_tensor = lookup_type(torch, "Tensor");
    dyn_torch_parameter = lookup_type(torch, "nn.Parameter");
    dyn_torch_size = lookup_type(torch, "Size");
    dyn_torch_dtype = lookup_type(torch, "dtype");
    dyn_torch_device = lookup_type(torch, "device");
    dyn_torch_module = Py_NewRef(torch);
    const void *const types_found[] = {dyn_torch_tensor, dyn_torch_parameter, dyn_torch_size, dyn_torch_dtype, dyn_torch_device};
    if (!dyn_all_there(types_found, DYN_COUNTOF(types_found)) || !find_all(torch)) {
        refused = true; /* older than 2.10, or not the torch that we know */
        dyn_torch_tensor = dyn_torch_parameter = dyn_torch_size = NULL;
    }
    return !refused;
}

void *dyn_torch_address(void) {
    void *at = NULL;
    if (api != NULL) {
        memcpy(&at, &api->view, sizeof(at));
    }
    return at;
}

/* ---- what a tensor is */

static bool is_true(PyObject *o) { /* takes the reference */
    bool yes = o == Py_True;
    if (o == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(o);
    return yes;
}

bool dyn_torch_requires_grad(PyObject *tensor) { return is_true(requires_grad(tensor, requires_grad_closure)); }

static DynDtype dtype_of(const DLTensor *t) {
    for (int i = 0; i < DYN_DTYPE_COUNT && t->lanes == 1; i++) {
        if (types[i].name != NULL && types[i].code == t->code && dyn_dtypes[i].size * 8 == t->bits) {
            return (DynDtype)i;
        }
    }
    return DYN_NO_DTYPE;
}

/* As DynArrayView has it; -1: there are no kernels for it. */
static int device_of(const DLTensor *t) {
    if (t->device_type == DEVICE_CPU) {
        return dyn_cuda_stands_in ? 1 : 0;
    }
    bool known = t->device_type == DEVICE_CUDA && t->device_id >= 0 && t->device_id < DYN_MOST_DEVICES;
    return known && dyn_cuda_find() ? 1 + t->device_id : -1;
}

bool dyn_torch_place(PyObject *tensor, DynArrayView *out) {
    DLTensor t;
    if (api->view(tensor, &t) != 0) {
        PyErr_Clear();
        return false;
    }
    DynDtype dt = dtype_of(&t);
    bool known_rank = t.ndim >= 0 && t.ndim <= DYN_MAX_NDIM;
    int device = device_of(&t);
    if (device < 0 || !known_rank || dt == DYN_NO_DTYPE) {
        return false;
    }
    *out =
        (DynArrayView){.data = (char *)t.data + t.byte_offset, .ndim = (uint8_t)t.ndim, .dtype = (uint8_t)dt, .writeable = true};
    out->device = (uint8_t)device;
    int64_t size = dyn_dtypes[dt].size, step = size;
    for (int i = t.ndim; i-- > 0;) {
        out->dims[i] = t.shape[i];
        out->strides[i] = t.strides == NULL ? step : t.strides[i] * size;
        step *= t.shape[i];
    }
    size_t align = dyn_dtypes[device == 0 ? dyn_dtype_real(dt) : dt].size; /* a device reads a complex number at once */
    out->aligned = (uintptr_t)out->data % align == 0;
    if (t.data == NULL && !dyn_view_empty(out)) { /* a FakeTensor and the like */
        return false;
    }
    return true;
}

/* Has it the conjugate or the negative bit? Asked of its dispatch keys: is_neg and is_conj let other threads run meanwhile, and
 * guards must not. */
static bool has_bits(PyObject *tensor) {
    unsigned long long bits;
    return !key_bits(PyObject_CallOneArg(ob.dispatch_keys, tensor), &bits) || (bits & marked) != 0;
}

bool dyn_torch_view(PyObject *tensor, DynArrayView *out) { return dyn_torch_look(tensor, out) && out->device == 0; }

bool dyn_torch_look(PyObject *tensor, DynArrayView *out) {
    if (!dyn_torch_place(tensor, out)) {
        return false;
    }
    /* Negative tensors are the imaginary parts of conjugate ones: of floats, two elements apart. */
    int last = out->ndim - 1, kind = dyn_dtypes[out->dtype].kind;
    bool apart = last < 0 || out->dims[last] < 2 || out->strides[last] != dyn_dtypes[out->dtype].size;
    bool possible = kind == 'c' || (kind == 'f' && apart);
    return !possible || !has_bits(tensor);
}

/* ---- its state */

static PyObject *call0(PyObject *f) {
    if (PyCFunction_Check(f) && PyCFunction_GET_FLAGS(f) == METH_NOARGS) {
        return PyCFunction_GET_FUNCTION(f)(PyCFunction_GET_SELF(f), NULL);
    }
    return PyObject_CallNoArgs(f);
}

/* The number that `o` is, or 0 for None; what is no number counts as 1. It takes the reference. */
static long number(PyObject *o) {
    long n = 1;
    if (o == NULL) {
        PyErr_Clear();
    } else if (o == Py_None) {
        n = 0;
    } else if (PyLong_Check(o)) {
        n = PyLong_AsLong(o);
    }
    Py_XDECREF(o);
    return n;
}

DynDtype dyn_torch_dtype_parse(PyObject *dtype) {
    for (int i = 0; i < DYN_DTYPE_COUNT; i++) {
        if (dtypes[i] == dtype && dtype != NULL) {
            return (DynDtype)i;
        }
    }
    return DYN_NO_DTYPE;
}

PyObject *dyn_torch_dtype_object(DynDtype dt) { return dtypes[dt]; }

const char *dyn_torch_dtype_name(DynDtype dt) { return types[dt].name; }

/* Are derivatives computed in forward mode? Tensors then have tangents, which their memory doesn't show. */
static bool is_forward_mode(void) {
    static PyObject *name;
    if (name == NULL) {
        name = PyUnicode_InternFromString("_current_level");
    }
    PyObject *level = name == NULL ? NULL : PyDict_GetItemWithError(ob.forward_mode, name);
    return number(Py_XNewRef(level)) >= 0;
}

/* A torch.device as DYN_TORCH_DEVICE has it; -1: it is another kind. */
static int default_device(PyObject *device) {
    PyObject *type = dyn_torch_lookup(device, "type"), *index = dyn_torch_lookup(device, "index");
    bool named = type != NULL && PyUnicode_Check(type) && index != NULL;
    int code = -1;
    if (named && PyUnicode_CompareWithASCIIString(type, "cpu") == 0) {
        code = 1;
    } else if (named && PyUnicode_CompareWithASCIIString(type, "cuda") == 0) {
        long i = index == Py_None ? -1 : number(Py_NewRef(index));
        code = i < DYN_MOST_DEVICES ? 3 + (int)i : -1;
    }
    Py_XDECREF(type);
    Py_XDECREF(index);
    return code;
}

enum { OTHER_MODE = -2 };

/* The code of the device that mode `at` makes tensors on. */
static int device_of_mode(int at) {
    static PyObject *device_mode; /* its type; PyTorch imports the module when it needs it */
    if (device_mode == NULL) {
        device_mode = dyn_torch_lookup(dyn_torch_module, "utils._device.DeviceContext");
    }
    PyObject *mode = PyObject_CallFunction(ob.function_mode_at, "i", at);
    PyObject *device = mode != NULL && (PyObject *)Py_TYPE(mode) == device_mode ? dyn_torch_lookup(mode, "device") : NULL;
    int code = device != NULL ? default_device(device) : OTHER_MODE;
    Py_XDECREF(device);
    Py_XDECREF(mode);
    PyErr_Clear();
    return code;
}

/* The only modes there are may be those that say where tensors are made, which leave all other calls alone; the innermost, which
 * is the last, has its way: DYN_TORCH_DEVICE. -1: there are others. */
static int function_modes(void) {
    int code = 0;
    long n = is_true(call0(ob.function_mode)) ? number(call0(ob.function_modes)) : 0;
    for (int i = 0; i < n && code != OTHER_MODE; i++) {
        code = device_of_mode(i);
    }
    return n < 0 || code < 0 ? -1 : code;
}

/* Does another mode, a transformation or a tracer see the calls of torch's functions, or change what they do? The level of
 * transformations isn't asked for: that makes a thread's state for them, which each of autograd's backward calls then copies. */
static bool is_intercepted(void) {
    if (number(call0(ob.dispatch_modes)) != 0) {
        return true;
    }
    return is_true(call0(ob.transformed)) || number(call0(ob.tracing)) != 0 || is_forward_mode();
}

static PyObject *of_device(PyObject *question, const char *device) { return PyObject_CallFunction(question, "s", device); }

static DynDtype autocast_dtype(const char *device) {
    PyObject *dtype = of_device(ob.autocast_dtype, device);
    DynDtype dt = dyn_torch_dtype_parse(dtype);
    Py_XDECREF(dtype);
    return dt;
}

/* Of autocast; -1: it is on to another type than the two. That of devices of which nothing is captured is nothing to us. */
static int autocast_state(void) {
    static const struct {
        const char *name;
        int on, half;
    } devices[] = {{"cpu", DYN_TORCH_AUTOCAST, DYN_TORCH_AUTOCAST_F16},
                   {"cuda", DYN_TORCH_AUTOCAST_CUDA, DYN_TORCH_AUTOCAST_CUDA_F16}};
    int state = 0;
    if (!is_true(call0(ob.any_autocast))) {
        return 0;
    }
    for (size_t i = 0; i < DYN_COUNTOF(devices) && state >= 0; i++) {
        bool on = is_true(of_device(ob.autocast, devices[i].name));
        DynDtype dt = on ? autocast_dtype(devices[i].name) : DYN_BF16;
        bool known = dt == DYN_BF16 || dt == DYN_F16;
        state = known ? state | (on ? devices[i].on : 0) | (dt == DYN_F16 ? devices[i].half : 0) : -1;
    }
    return state > 0 && is_true(call0(ob.autocast_cache)) ? state | DYN_TORCH_AUTOCAST_CACHE : state;
}

/* How many autocasts are entered in this thread. */
static long autocast_depth(void) {
    long depth = number(call0(ob.autocast_enter));
    (void)number(call0(ob.autocast_leave));
    return depth - 1;
}

int64_t dyn_torch_autocasts(void) {
    static const char *const devices[] = {"cpu", "cuda"};
    int64_t all = 1;
    for (size_t i = 0; i < DYN_COUNTOF(devices); i++) {
        all = all << 1 | is_true(of_device(ob.autocast, devices[i]));
        all = all << 8 | autocast_dtype(devices[i]);
    }
    long depth = autocast_depth();
    bool told = depth >= 0 && depth < 256 && !PyErr_Occurred();
    PyErr_Clear();
    return told ? (all << 1 | is_true(call0(ob.autocast_cache))) << 8 | depth : -1;
}

bool dyn_torch_is_so(int64_t wanted) {
    int64_t autocasts = wanted >> DYN_TORCH_AUTOCASTS;
    return dyn_torch_state() == (int)(wanted & ((INT64_C(1) << DYN_TORCH_AUTOCASTS) - 1)) &&
           (autocasts == 0 || dyn_torch_autocasts() == autocasts);
}

int dyn_torch_state(void) {
    PyObject *dtype = call0(ob.default_dtype);
    DynDtype dt = dyn_torch_dtype_parse(dtype);
    Py_XDECREF(dtype);
    int device = dt == DYN_NO_DTYPE || is_intercepted() ? -1 : function_modes();
    int casts = device < 0 ? -1 : autocast_state();
    if (casts < 0) {
        PyErr_Clear();
        return -1;
    }
    int state = device << 16 | (int)dt << 8 | casts;
    state |= dyn_torch_records_gradients() ? DYN_TORCH_GRAD : 0;
    state |= is_true(call0(ob.inference)) ? DYN_TORCH_INFERENCE : 0;
    return state;
}

static void set_grad(bool on) {
    PyObject *done = PyObject_CallOneArg(ob.set_grad, on ? Py_True : Py_False);
    if (done == NULL) {
        PyErr_Clear(); /* it takes any bool */
    }
    Py_XDECREF(done);
}

bool dyn_torch_is_device(PyObject *o) { return dyn_torch_device != NULL && Py_IS_TYPE(o, dyn_torch_device); }

bool dyn_torch_is_constant(PyObject *o) {
    const void *const types_of_constants[] = {dyn_torch_dtype, dyn_torch_device, ob.finfo, ob.iinfo, ob.layout, ob.memory_format};
    bool found = false;
    for (size_t i = 0; i < DYN_COUNTOF(types_of_constants) && dyn_torch_tensor != NULL; i++) {
        found = found || Py_TYPE(o) == types_of_constants[i];
    }
    return found;
}

bool dyn_torch_records_gradients(void) { return is_true(call0(ob.grad_enabled)); }

bool dyn_torch_grad_off(void) {
    bool on = dyn_torch_records_gradients();
    if (on) {
        set_grad(false);
    }
    return on;
}

bool dyn_torch_grad_on(void) {
    bool off = !dyn_torch_records_gradients();
    if (off) {
        set_grad(true);
    }
    return off;
}

static void set_grad_back(bool change, bool on) {
    PyObject *type, *value, *tb;
    if (!change) {
        return;
    }
    PyErr_Fetch(&type, &value, &tb);
    set_grad(on);
    PyErr_Restore(type, value, tb);
}

void dyn_torch_grad_back(bool was_on) { set_grad_back(was_on, true); }

void dyn_torch_grad_off_again(bool was_off) { set_grad_back(was_off, false); }

/* ---- its profiler */

static PyObject *profiler_names, *profiler_flag, *make_range; /* torch.autograd.profiler's dict, … */

static bool find_profiler(void) {
    static bool tried;
    if (!tried) {
        tried = true;
        PyObject *module = dyn_import("torch.autograd.profiler"), *ranges = dyn_import("torch._C._profiler");
        make_range = ranges == NULL ? NULL : PyObject_GetAttrString(ranges, "_RecordFunctionFast");
        profiler_flag = PyUnicode_InternFromString("_is_profiler_enabled");
        profiler_names =
            module == NULL || make_range == NULL || profiler_flag == NULL ? NULL : PyObject_GetAttrString(module, "__dict__");
        Py_XDECREF(module);
        Py_XDECREF(ranges);
        PyErr_Clear();
    }
    return profiler_names != NULL;
}

bool dyn_torch_profiled;

/* Asked by each call that has tensors: PyDict_GetItem takes twice as long, as it puts aside an exception that there isn't. */
bool dyn_torch_profiling(void) {
    bool known = profiler_names != NULL || find_profiler();
    dyn_torch_profiled = known && PyDict_GetItemWithError(profiler_names, profiler_flag) == Py_True;
    return dyn_torch_profiled;
}

PyObject *dyn_torch_range(const char *name) {
    PyObject *range = PyObject_CallFunction(make_range, "s", name);
    PyObject *begun = range == NULL ? NULL : PyObject_CallMethod(range, "__enter__", NULL);
    if (begun == NULL) {
        PyErr_Clear();
        Py_CLEAR(range);
    }
    Py_XDECREF(begun);
    return range;
}

void dyn_torch_range_end(PyObject *range) {
    PyObject *type, *value, *tb;
    if (range == NULL) {
        return;
    }
    PyErr_Fetch(&type, &value, &tb);
    PyObject *done = PyObject_CallMethod(range, "__exit__", "OOO", Py_None, Py_None, Py_None);
    if (done == NULL) {
        PyErr_Clear();
    }
    Py_XDECREF(done);
    Py_DECREF(range);
    PyErr_Restore(type, value, tb);
}

/* ---- */

int dyn_torch_bump(PyObject *const *tensors, Py_ssize_t n) {
    PyObject *all = PyTuple_New(n), *done = NULL;
    for (Py_ssize_t i = 0; all != NULL && i < n; i++) {
        PyTuple_SET_ITEM(all, i, Py_NewRef(tensors[i]));
    }
    done = all == NULL ? NULL : PyObject_CallOneArg(ob.increment_version, all);
    Py_XDECREF(all);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* ---- new tensors */

/* What empty_strided is called with. Tuples of sizes and strides are kept: of graphs that are called again they are the same. */
#define MOST_KEPT 4 /* axes */
static PyObject *sizes_and_strides(DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides) {
    static struct Kept {
        int64_t dims[MOST_KEPT], strides[MOST_KEPT];
        int ndim;
        int64_t size; /* of an element */
        PyObject *args;
    } kept[64];
    int64_t size = dyn_dtypes[dt].size, hash = ndim;
    for (int i = 0; i < ndim; i++) {
        hash = hash * 31 + dims[i] + strides[i];
    }
    struct Kept *k = &kept[(hash ^ hash >> 6) & 63];
    size_t bytes = sizeof(*dims) * (size_t)ndim;
    bool same_rank = k->args != NULL && k->ndim == ndim && k->size == size;
    if (same_rank && memcmp(k->dims, dims, bytes) == 0 && memcmp(k->strides, strides, bytes) == 0) {
        return Py_NewRef(k->args);
    }
    PyObject *shape = dyn_int_tuple(ndim, dims, 1), *steps = dyn_int_tuple(ndim, strides, size);
    PyObject *args = shape == NULL || steps == NULL ? NULL : PyTuple_Pack(2, shape, steps);
    Py_XDECREF(shape);
    Py_XDECREF(steps);
    if (args != NULL && ndim <= MOST_KEPT) {
        k->ndim = ndim;
        k->size = size;
        memcpy(k->dims, dims, bytes);
        memcpy(k->strides, strides, bytes);
        Py_XSETREF(k->args, Py_NewRef(args));
    }
    return args;
}

PyObject *dyn_torch_device_object(uint8_t device) {
    static PyObject *devices[DYN_MOST_DEVICES];
    PyObject **at = &devices[device - 1];
    if (*at == NULL) {
        PyObject *where = PyUnicode_FromFormat(dyn_cuda_stands_in ? "cpu" : "cuda:%d", device - 1);
        *at = where == NULL ? NULL : PyObject_CallOneArg((PyObject *)dyn_torch_device, where);
        Py_XDECREF(where);
    }
    return *at;
}

/* dtype= and device=, always both, as there is no default for the device; borrowed, NULL: no memory. */
static PyObject *device_keywords(DynDtype dt, uint8_t device) {
    static PyObject *keywords[DYN_MOST_DEVICES][DYN_DTYPE_COUNT];
    PyObject **at = &keywords[device - 1][dt];
    if (*at == NULL) {
        PyObject *d = dyn_torch_device_object(device);
        *at = d == NULL ? NULL : Py_BuildValue("{sOsO}", "dtype", dtypes[dt], "device", d);
    }
    return *at;
}

/* dtype=, where it isn't what PyTorch makes without; borrowed, *failed: no memory. */
static PyObject *dtype_keyword(DynDtype dt, bool *failed) {
    static PyObject *keywords[DYN_DTYPE_COUNT];
    PyObject *usual = call0(ob.default_dtype);
    *failed = usual == NULL;
    Py_XDECREF(usual); /* torch has it */
    if (usual == dtypes[dt] || *failed) {
        return NULL;
    }
    if (keywords[dt] == NULL) {
        keywords[dt] = Py_BuildValue("{sO}", "dtype", dtypes[dt]);
    }
    *failed = keywords[dt] == NULL;
    return keywords[dt];
}

/* Is it C's order but for axes of one element? PyTorch then has C's strides. */
static bool goes_in_c_order(const DynLayout *layout, int ndim, const int64_t *dims) {
    int last = -1;
    for (int i = 0; i < ndim; i++) {
        if (dims[layout->perm[i]] != 1) {
            if (layout->perm[i] < last) {
                return false;
            }
            last = layout->perm[i];
        }
    }
    return true;
}

bool dyn_torch_stream(uint8_t device, void **stream) {
    *stream = NULL;
    return dyn_cuda_stands_in || (api->stream != NULL && api->stream(DEVICE_CUDA, device - 1, stream) == 0);
}

/* What empty_strided is called with besides sizes and strides; borrowed, *failed: no memory. */
static PyObject *keywords_of(DynDtype dt, uint8_t device, bool *failed) {
    if (device == 0) {
        return dtype_keyword(dt, failed);
    }
    PyObject *keywords = device_keywords(dt, device);
    *failed = keywords == NULL;
    return keywords;
}

/* Where memory runs out PyTorch's C function says so in its log before it fails. On a device, where that is common and the
 * program's affair, large tensors go by the function that raises: beside what is done with them its two microseconds are nothing.
 */
#define LARGE_ON_DEVICE (1 << 20)
static bool goes_past(DynDtype dt, int ndim, const int64_t *dims, uint8_t device) {
    int64_t bytes = dyn_dtypes[dt].size;
    for (int i = 0; i < ndim && device != 0 && bytes < LARGE_ON_DEVICE; i++) {
        bytes *= dims[i];
    }
    return bytes < LARGE_ON_DEVICE;
}

PyObject *dyn_torch_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout, uint8_t device) {
    int64_t strides[DYN_MAX_NDIM];
    bool ordered = layout != NULL && layout->kind != DYN_LAYOUT_C && !goes_in_c_order(layout, ndim, dims), failed;
    if (!dyn_layout_dense(ordered ? layout : NULL, dt, ndim, dims, strides)) {
        return PyErr_NoMemory();
    }
    PyObject *past =
        goes_past(dt, ndim, dims, device) ? dyn_torch_new_past(dt, ndim, dims, strides, dyn_cuda_stands_in ? 0 : device) : NULL;
    if (past != NULL) {
        return past;
    }
    PyObject *keywords = keywords_of(dt, device, &failed), *args = failed ? NULL : sizes_and_strides(dt, ndim, dims, strides),
             *t = NULL;
    PyObject *f = ob.empty_strided;
    int how = PyCFunction_Check(f) ? PyCFunction_GET_FLAGS(f) & ~METH_STATIC : 0;
    if (args != NULL && how == (METH_VARARGS | METH_KEYWORDS)) {
        PyCFunctionWithKeywords function;
        PyCFunction plain = PyCFunction_GET_FUNCTION(f);
        memcpy(&function, &plain, sizeof(function));
        t = function(PyCFunction_GET_SELF(f), args, keywords);
    } else if (args != NULL) {
        t = PyObject_Call(f, args, keywords);
    }
    Py_XDECREF(args);
    return t;
}

/* The same memory as elements of another dtype: parts of complex numbers are apart, others lie as in `base`. Pairs and complex
 * numbers are views that autograd follows, others not. */
static PyObject *as_dtype(PyObject *base, const DynArrayView *of_base, DynDtype to) {
    DynDtype from = (DynDtype)of_base->dtype, part = dyn_dtype_real(from);
    if (from == to) {
        return Py_NewRef(base);
    }
    if (from != part && to == part) {
        return PyObject_CallOneArg(ob.view_as_real, base);
    }
    bool has_pairs = of_base->ndim > 0 && of_base->dims[of_base->ndim - 1] == 2;
    return has_pairs && from != to && dyn_dtype_real(to) == from ? PyObject_CallOneArg(ob.view_as_complex, base)
                                                                 : PyObject_CallMethod(base, "view", "O", dtypes[to]);
}

static PyObject *window(PyObject *base, const DynArrayView *of_base, const DynArrayView *view) {
    int64_t size = dyn_dtypes[view->dtype].size;
    PyObject *offset = PyObject_CallMethod(base, "storage_offset", NULL), *t = NULL;
    if (offset == NULL) {
        return NULL;
    }
    long long at = PyLong_AsLongLong(offset) + (dyn_view_empty(view) ? 0 : (view->data - of_base->data) / size);
    Py_DECREF(offset);
    int64_t steps[DYN_MAX_NDIM]; /* a new axis has the stride that torch gives it, where NumPy has 0 */
    for (int i = view->ndim; i-- > 0;) {
        bool fresh = view->dims[i] == 1 && view->strides[i] == 0;
        steps[i] = view->strides[i];
        if (fresh) {
            steps[i] = i + 1 < view->ndim ? view->dims[i + 1] * steps[i + 1] : size;
        }
    }
    PyObject *dims = dyn_int_tuple(view->ndim, view->dims, 1), *strides = dyn_int_tuple(view->ndim, steps, size);
    PyObject *start = PyLong_FromLongLong(at), *args[4] = {base, dims, strides, start};
    if (dims != NULL && strides != NULL && start != NULL) {
        t = PyObject_Vectorcall(ob.as_strided, args, 4, NULL);
    }
    Py_XDECREF(dims);
    Py_XDECREF(strides);
    Py_XDECREF(start);
    return t;
}

PyObject *dyn_torch_window(PyObject *base, const DynArrayView *view, DynTensorLook look) {
    DynArrayView of_base;
    if (!dyn_torch_place(base, &of_base)) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a view of a tensor that can't be looked at");
        return NULL;
    }
    PyObject *elements = as_dtype(base, &of_base, (DynDtype)view->dtype);
    PyObject *t = elements == NULL ? NULL : window(elements, &of_base, view);
    Py_XDECREF(elements);
    if (t != NULL && look != DYN_LOOK_VIEW) {
        Py_SETREF(t, look == DYN_LOOK_DATA ? PyObject_GetAttrString(t, "data") : PyObject_CallMethod(t, "detach", NULL));
    }
    return t;
}

PyObject *dyn_torch_to_numpy(PyObject *tensor) {
    DynArrayView v;
    bool seen = dyn_torch_look(tensor, &v) && (v.device == 0 || dyn_cuda_stands_in);
    if (!seen) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a tensor of another kind than was recorded");
        return NULL;
    }
    return dyn_array_over(tensor, &v, true);
}

PyObject *dyn_torch_from_numpy(PyObject *array, DynDtype dt) {
    PyObject *t = PyObject_CallOneArg(ob.from_numpy, array);
    if (t != NULL && dt == DYN_BF16) {
        Py_SETREF(t, PyObject_CallMethod(t, "view", "O", dtypes[dt]));
    }
    return t;
}
