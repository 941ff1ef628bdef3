/* cuda.c: CUDA's driver: finding it, what it says of devices, its errors in words.
 *
 * Called by torch.c when the first tensor on a CUDA device is looked at, by codegen/build and codegen/cuda behind that. The
 * driver is opened once and stays for the life of the process; so do the primary contexts, which are the framework's too. */
#define _GNU_SOURCE 1
#include "base/cuda.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

/* Attributes of devices, by the driver's numbers. */
enum { PROCESSORS = 16, MAJOR = 75, MINOR = 76, SHARED_OPT_IN = 97 };

DynCuda dyn_cuda;
bool dyn_cuda_stands_in;
static void *library, *stand_in;
static bool looked;
static int version;

static const struct {
    const char *symbol;
    size_t offset;
} driver[] = {
#define DRIVER(name, symbol, parameters) {symbol, offsetof(DynCuda, name)},
    DYN_CUDA_DRIVER(DRIVER)
#undef DRIVER
};

/* All functions of it. false: one is missing, as in drivers older than CUDA 12. */
static bool take_functions(void *from) {
    for (size_t i = 0; i < DYN_COUNTOF(driver); i++) {
        void *f = dlsym(from, driver[i].symbol);
        if (f == NULL) {
            return false;
        }
        memcpy((char *)&dyn_cuda + driver[i].offset, &f, sizeof(f));
    }
    return true;
}

static bool begin(void *from) {
    bool starts = take_functions(from) && dyn_cuda.Init(0) == 0 && dyn_cuda.DriverGetVersion(&version) == 0;
    return starts && version >= DYN_CUDA_OLDEST;
}

#define DRIVER_NAME "libcuda.so.1"

bool dyn_cuda_find(void) {
    static bool found;
    if (stand_in != NULL) {
        return true;
    }
    if (!looked) {
        looked = true;
        library = dlopen(DRIVER_NAME, RTLD_LAZY | RTLD_LOCAL);
        found = library != NULL && begin(library);
    }
    return found;
}

int dyn_cuda_version(void) { return version; }

/* ---- devices */

static DynCudaInfo infos[DYN_MOST_DEVICES];
static atomic_bool known[DYN_MOST_DEVICES];

static bool ask(int i, DynCudaInfo *info) {
    int major = 0, minor = 0;
    if (dyn_cuda.DeviceGet(&info->device, i) != 0 || dyn_cuda.PrimaryCtxRetain(&info->context, info->device) != 0) {
        return false;
    }
    const struct {
        int attribute, *to;
    } wanted[] = {{MAJOR, &major}, {MINOR, &minor}, {PROCESSORS, &info->processors}, {SHARED_OPT_IN, &info->shared}};
    for (size_t k = 0; k < DYN_COUNTOF(wanted); k++) {
        if (dyn_cuda.DeviceGetAttribute(wanted[k].to, wanted[k].attribute, info->device) != 0) {
            return false;
        }
    }
    info->capability = 10 * major + minor;
    return true;
}

const DynCudaInfo *dyn_cuda_info(int i) {
    static pthread_mutex_t asking = PTHREAD_MUTEX_INITIALIZER;
    if (i < 0 || i >= DYN_MOST_DEVICES) {
        return NULL;
    }
    if (DYN_LIKELY(atomic_load_explicit(&known[i], memory_order_acquire))) {
        return &infos[i];
    }
    pthread_mutex_lock(&asking);
    bool ok = atomic_load(&known[i]) || ask(i, &infos[i]);
    atomic_store(&known[i], ok);
    pthread_mutex_unlock(&asking);
    return ok ? &infos[i] : NULL;
}

DynCudaError dyn_cuda_enter(const DynCudaInfo *info, DynCudaContext **before) {
    *before = NULL;
    DynCudaError error = dyn_cuda.CtxGetCurrent(before);
    return error == 0 && *before != info->context ? dyn_cuda.CtxSetCurrent(info->context) : error;
}

void dyn_cuda_leave(const DynCudaInfo *info, DynCudaContext *before) {
    if (before != NULL && before != info->context) {
        dyn_cuda.CtxSetCurrent(before);
    }
}

void dyn_cuda_say(DynCudaError error, DynStr *out) {
    const char *name = NULL, *text = NULL;
    dyn_cuda.GetErrorName(error, &name);
    dyn_cuda.GetErrorString(error, &text);
    dyn_str_printf(out, "%s: %s", name == NULL ? "CUDA_ERROR_UNKNOWN" : name, text == NULL ? "unknown error" : text);
}

void dyn_cuda_raise(DynCudaError error, const char *doing, ...) {
    DynStr text = {0};
    va_list args;
    va_start(args, doing);
    PyObject *what = PyUnicode_FromFormatV(doing, args);
    va_end(args);
    dyn_cuda_say(error, &text);
    if (what != NULL) {
        PyErr_Format(PyExc_RuntimeError, "CUDA error: %s (dynoc: %U)", dyn_str_at(&text), what);
    }
    Py_XDECREF(what);
    dyn_str_free(&text);
}

/* ---- for people */

/* The functions of the driver that are asked, which older ones have too; NULL where it lacks one. */
typedef struct Asked {
    DynCudaError (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, DynCudaDevice);
    DynCudaError (*error_name)(DynCudaError, const char **), (*error_text)(DynCudaError, const char **);
} Asked;

static bool take_asked(void *from, Asked *out) {
    static const char *const names[] = {"cuInit",          "cuDriverGetVersion", "cuDeviceGetCount",
                                        "cuDeviceGetName", "cuGetErrorName",     "cuGetErrorString"};
    void *found[DYN_COUNTOF(names)];
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if ((found[i] = dlsym(from, names[i])) == NULL) {
            return false;
        }
    }
    memcpy(out, found, sizeof(found));
    return true;
}

void dyn_cuda_look(DynCudaLook *out) {
    Asked ask;
    void *driver = dlopen(DRIVER_NAME, RTLD_LAZY | RTLD_LOCAL);
    if (driver == NULL || !take_asked(driver, &ask)) {
        const char *error = dlerror();
        out->missing = driver == NULL && error != NULL && strstr(error, "No such file") != NULL;
        dyn_str_puts(&out->problem, error == NULL ? DRIVER_NAME " can't be opened" : error);
        return;
    }
    out->error = ask.init(0);
    if (out->error != 0) {
        const char *name = NULL, *text = NULL;
        ask.error_name(out->error, &name);
        ask.error_text(out->error, &text);
        dyn_str_printf(&out->problem, DRIVER_NAME ": %s: %s", name == NULL ? "unknown" : name, text == NULL ? "unknown" : text);
        return;
    }
    ask.version(&out->version);
    ask.count(&out->devices);
    if (out->devices > 0) {
        ask.name(out->name, sizeof(out->name) - 1, 0);
    }
    if (out->version >= DYN_CUDA_OLDEST && !take_functions(driver)) {
        dyn_str_puts(&out->problem, DRIVER_NAME " lacks functions of CUDA 12");
    }
}

/* ---- tests */

void *dyn_cuda_stand_in_library(void) { return stand_in; }

int dyn_cuda_stand_in(const char *path) {
    dyn_cuda_stands_in = false;
    stand_in = NULL;
    for (int i = 0; i < DYN_MOST_DEVICES; i++) {
        atomic_store(&known[i], false);
    }
    if (path == NULL) {
        return library == NULL || take_functions(library) ? 0 : -1;
    }
    void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL || !begin(opened)) {
        return -1;
    }
    stand_in = opened;
    dyn_cuda_stands_in = true;
    return 0;
}
