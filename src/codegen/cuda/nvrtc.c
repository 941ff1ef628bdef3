/* nvrtc.c: CUDA's run-time compiler as a toolchain (build/build.h): it is found, makes a cubin of generated text, and the driver
 * loads that.
 *
 * Called by build.c in the build thread, without the GIL. NVRTC is opened when the first text has to be compiled that the disk
 * cache doesn't have, and stays. Where it may be, in this order: beside the CUDA libraries that the process has loaded (PyTorch's
 * wheels, and CuPy's), in a toolkit that CUDA_HOME or CUDA_PATH names or that stands in /usr/local/cuda, and where the system's
 * linker looks. https://docs.nvidia.com/cuda/nvrtc */
#define _GNU_SOURCE 1
#include "codegen/cuda/target.h"
#include "codegen/build/build.h"
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

typedef void *Program;
static struct {
    int (*Version)(int *major, int *minor);
    int (*CreateProgram)(Program *program, const char *source, const char *name, int n, const char *const *headers,
                         const char *const *names);
    int (*DestroyProgram)(Program *program);
    int (*CompileProgram)(Program program, int n, const char *const *options);
    int (*GetProgramLogSize)(Program program, size_t *size);
    int (*GetProgramLog)(Program program, char *log);
    int (*GetCUBINSize)(Program program, size_t *size);
    int (*GetCUBIN)(Program program, char *cubin);
    const char *(*GetErrorString)(int error);
    int (*SetFlowCallback)(Program program, int (*callback)(void *payload, void *unused), void *payload); /* NULL before 12.9 */
} nvrtc;
static const struct {
    const char *symbol;
    void *to;
} functions[] = {
    {"nvrtcVersion", &nvrtc.Version},
    {"nvrtcCreateProgram", &nvrtc.CreateProgram},
    {"nvrtcDestroyProgram", &nvrtc.DestroyProgram},
    {"nvrtcCompileProgram", &nvrtc.CompileProgram},
    {"nvrtcGetProgramLogSize", &nvrtc.GetProgramLogSize},
    {"nvrtcGetProgramLog", &nvrtc.GetProgramLog},
    {"nvrtcGetCUBINSize", &nvrtc.GetCUBINSize},
    {"nvrtcGetCUBIN", &nvrtc.GetCUBIN},
    {"nvrtcGetErrorString", &nvrtc.GetErrorString},
};
static void *library;
static char where[512];

/* ---- finding it */

static bool take_functions(void *from) {
    for (size_t i = 0; i < DYN_COUNTOF(functions); i++) {
        void *f = dlsym(from, functions[i].symbol);
        if (f == NULL) {
            return false;
        }
        memcpy(functions[i].to, &f, sizeof(f));
    }
    void *f = dlsym(from, "nvrtcSetFlowCallback");
    memcpy(&nvrtc.SetFlowCallback, &f, sizeof(f));
    library = from;
    return true;
}

static bool open_at(const char *path) {
    void *opened = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    if (opened == NULL || !take_functions(opened)) {
        return false;
    }
    snprintf(where, sizeof(where), "%s", path);
    return true;
}

/* libnvrtc.so.<number> in a folder; those of its builtins and its static forms have other names. */
static bool open_in(const char *folder) {
    DIR *d = opendir(folder);
    char path[512];
    bool found = false;
    for (struct dirent *e; d != NULL && !found && (e = readdir(d)) != NULL;) {
        bool fits = strncmp(e->d_name, "libnvrtc.so", 11) == 0;
        if (fits && snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) < (int)sizeof(path)) {
            found = open_at(path);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return found;
}

/* Folders of CUDA libraries that are loaded: the folder itself, and its neighbour where each library is a package. */
static int look_beside(struct dl_phdr_info *info, size_t size, void *found) {
    const char *end = strrchr(info->dlpi_name, '/');
    char folder[512], neighbour[600];
    (void)size;
    if (end == NULL || strstr(end, "/libcu") != end || (size_t)(end - info->dlpi_name) >= sizeof(folder)) {
        return 0;
    }
    snprintf(folder, sizeof(folder), "%.*s", (int)(end - info->dlpi_name), info->dlpi_name);
    snprintf(neighbour, sizeof(neighbour), "%s/../../cuda_nvrtc/lib", folder);
    char(*to)[600] = found;
    for (int i = 0; i < 16; i += 2) {
        if (to[i][0] == 0 || strcmp(to[i], folder) == 0) {
            snprintf(to[i], sizeof(to[i]), "%s", folder);
            snprintf(to[i + 1], sizeof(to[i + 1]), "%s", neighbour);
            break;
        }
    }
    return 0;
}

static bool open_toolkit(const DynBuildEnv *env) {
    static const char *const names[] = {"CUDA_HOME", "CUDA_PATH"};
    char folder[512];
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        const char *home = dyn_compiler_env_get(env, names[i]);
        if (home != NULL && snprintf(folder, sizeof(folder), "%s/lib64", home) < (int)sizeof(folder) && open_in(folder)) {
            return true;
        }
    }
    return open_in("/usr/local/cuda/lib64");
}

static bool open_any(const DynBuildEnv *env) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    char beside[16][600] = {{0}}; /* dlopen isn't called while the linker's list is walked */
    dl_iterate_phdr(look_beside, beside);
    for (int i = 0; i < 16; i++) {
        if (beside[i][0] != 0 && open_in(beside[i])) {
            return true;
        }
    }
    if (open_toolkit(env)) {
        return true;
    }
    for (size_t i = 0; i < DYN_COUNTOF(names); i++) {
        if (open_at(names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_there(const DynBuildEnv *env) {
    void *stand_in = dyn_cuda_stand_in_library();
    if (stand_in != NULL || library == NULL) {
        return stand_in != NULL ? take_functions(stand_in) : open_any(env);
    }
    return true;
}

static int find(const DynBuildEnv *env, DynCompiler *out, DynStr *why) {
    int major = 0, minor = 0;
    *out = (DynCompiler){0};
    if (!is_there(env)) {
        dyn_str_puts(why, "NVRTC isn't there: pip install nvidia-cuda-nvrtc, or let CUDA_HOME name a toolkit");
        return -1;
    }
    nvrtc.Version(&major, &minor);
    dyn_str_printf(&out->identity, "nvrtc %d.%d %s driver %d", major, minor, where, dyn_cuda_version());
    return 0;
}

/* ---- compiling */

static const char *const options[] = {"--std=c++17", "--fmad=false", "--extra-device-vectorization"};
static const char fast_option[] = "--use_fast_math";

static void put_flags(const DynBuildEnv *env, DynStr *out, DynStr *refused) {
    (void)refused;
    for (size_t i = 0; i < DYN_COUNTOF(options); i++) {
        dyn_str_printf(out, "%s ", options[i]);
    }
    dyn_str_puts(out, env->fast_math ? fast_option : "");
}

/* What it wrote while compiling. */
static void put_log(Program program, int error, DynStr *detail) {
    size_t n = 0;
    dyn_str_printf(detail, "NVRTC: %s", nvrtc.GetErrorString(error));
    char *text = nvrtc.GetProgramLogSize(program, &n) == 0 && n > 1 ? PyMem_RawMalloc(n + 1) : NULL;
    if (text != NULL && nvrtc.GetProgramLog(program, text) == 0) {
        text[n] = 0;
        dyn_str_printf(detail, "\n%s", text);
    }
    PyMem_RawFree(text);
}

static DynReason take_cubin(Program program, DynBlob *object, DynStr *detail) {
    size_t n = 0;
    int error = nvrtc.GetCUBINSize(program, &n);
    object->at = error == 0 && n > 0 ? PyMem_RawMalloc(n) : NULL;
    object->n = n;
    if (object->at != NULL && (error = nvrtc.GetCUBIN(program, (char *)object->at)) == 0) {
        return DYN_R_OK;
    }
    dyn_str_printf(detail, "NVRTC gives no cubin: %s", nvrtc.GetErrorString(error));
    return DYN_R_COMPILER_FAILED;
}

/* NVRTC asks now and then: 1 ends the compilation. */
static int is_stopped(void *stop, void *unused) {
    (void)unused;
    return atomic_load((const atomic_bool *)stop);
}

/* The first line of the text says for which devices: "// sm_90". */
static DynReason run(const DynBuildEnv *env, const DynCompiler *c, const char *flags, const char *source, _Atomic(int) *group,
                     const atomic_bool *stop, DynBlob *object, DynStr *detail) {
    (void)c, (void)flags, (void)group;
    const char *all[DYN_COUNTOF(options) + 2];
    char architecture[32];
    int n = 0, capability = 0;
    if (sscanf(source, "// sm_%d", &capability) != 1) {
        dyn_str_puts(detail, "the text doesn't say for which device it is");
        return DYN_R_COMPILER_FAILED;
    }
    snprintf(architecture, sizeof(architecture), "--gpu-architecture=sm_%d", capability);
    all[n++] = architecture;
    for (size_t i = 0; i < DYN_COUNTOF(options); i++) {
        all[n++] = options[i];
    }
    if (env->fast_math) {
        all[n++] = fast_option;
    }
    Program program = NULL;
    int error = nvrtc.CreateProgram(&program, source, "dynoc.cu", 0, NULL, NULL);
    if (error != 0) {
        dyn_str_printf(detail, "NVRTC: %s", nvrtc.GetErrorString(error));
        return DYN_R_COMPILER_FAILED;
    }
    DynReason why = DYN_R_OK;
    if (nvrtc.SetFlowCallback != NULL) {
        nvrtc.SetFlowCallback(program, is_stopped, (void *)(uintptr_t)stop);
    }
    if ((error = nvrtc.CompileProgram(program, n, all)) != 0) {
        put_log(program, error, detail);
        why = DYN_R_COMPILER_FAILED;
    } else {
        why = take_cubin(program, object, detail);
    }
    nvrtc.DestroyProgram(&program);
    return why;
}

/* ---- loading */

/* A loaded object. Kernels are looked up when they are first launched. */
typedef struct Module {
    DynCudaLibrary *library;
    DynNativeTable table;    /* It has no functions. */
    DynCudaKernel **kernels; /* By number and form; NULL: not looked up yet, or not there. */
    int nkernels;            /* How many there is room for. */
    bool told;               /* The object says which there are: those are `there`, or looked up. */
} Module;

static void unload(void *device) {
    Module *m = device;
    dyn_cuda.LibraryUnload(m->library);
    PyMem_RawFree(m->kernels);
    PyMem_RawFree(m);
}

/* Room for kernel `at`. */
static bool make_room(Module *m, int at) {
    int n = m->nkernels > 0 ? m->nkernels : 4 * DYN_CUDA_FORM_COUNT;
    while (n <= at) {
        n *= 2;
    }
    DynCudaKernel **kernels = n == m->nkernels ? m->kernels : PyMem_RawRealloc(m->kernels, sizeof(*kernels) * (size_t)n);
    for (int i = m->nkernels; kernels != NULL && i < n; i++) {
        kernels[i] = NULL;
    }
    if (kernels != NULL) {
        m->kernels = kernels;
        m->nkernels = n;
    }
    return kernels != NULL;
}

/* In place of a kernel: the object has it; or it was looked for, and is in the other part of its graph's kernels. */
static char marks[2];
static DynCudaKernel *const there = (DynCudaKernel *)(void *)&marks[0], *const not_there = (DynCudaKernel *)(void *)&marks[1];

/* Of a function's name what is behind the k: "12_any_rows". */
static void note_function(Module *m, const char *name) {
    char form[32] = "";
    int number = 0;
    if (sscanf(name, "%6d_%31s", &number, form) != 2) {
        return;
    }
    for (int i = 0; i < DYN_CUDA_FORM_COUNT; i++) {
        int at = number * DYN_CUDA_FORM_COUNT + i;
        if (strcmp(form, dyn_cuda_form_names[i]) == 0 && (at < m->nkernels || make_room(m, at))) {
            m->kernels[at] = there;
            m->told = true;
        }
    }
}

/* The names of a cubin's sections say which functions it has, so that the driver isn't asked for one that isn't in this part,
 * which tools that watch the driver take for an error. Where they say nothing it is asked. */
static void note_functions(Module *m, const DynBlob *object) {
    static const char prefix[] = ".text.k";
    const char *at = (const char *)object->at, *end = at + object->n;
    char name[40];
    while ((at = memmem(at, (size_t)(end - at), prefix, sizeof(prefix) - 1)) != NULL) {
        at += sizeof(prefix) - 1;
        size_t n = (size_t)(end - at) < sizeof(name) - 1 ? (size_t)(end - at) : sizeof(name) - 1;
        memcpy(name, at, n);
        name[n] = 0;
        note_function(m, name);
    }
}

static DynLoaded *load(const DynBuildEnv *env, const DynBlob *object, const char *key, DynReason *failure, DynStr *why) {
    (void)env;
    Module *m = PyMem_RawCalloc(1, sizeof(*m));
    if (m == NULL) {
        *failure = DYN_R_NO_MEMORY;
        return NULL;
    }
    DynCudaError error = dyn_cuda.LibraryLoadData(&m->library, object->at, NULL, NULL, 0, NULL, NULL, 0);
    if (error != 0) {
        *failure = DYN_R_LOAD_FAILED;
        dyn_cuda_say(error, why);
        PyMem_RawFree(m);
        return NULL;
    }
    note_functions(m, object);
    m->table = (DynNativeTable){.abi = DYN_NATIVE_ABI, .count = DYN_COUNT_UNKNOWN};
    return dyn_load_device(key, object->n, &m->table, m, unload);
}

DynCudaKernel *dyn_cuda_kernel(const DynLoaded *l, int number, DynCudaForm form) {
    Module *m = dyn_load_of_device(l);
    int at = number * DYN_CUDA_FORM_COUNT + (int)form;
    char name[32];
    if (at >= m->nkernels && !make_room(m, at)) {
        return NULL;
    }
    if (m->kernels[at] == there || (m->kernels[at] == NULL && !m->told)) {
        snprintf(name, sizeof(name), "k%d_%s", number, dyn_cuda_form_names[form]);
        if (dyn_cuda.LibraryGetKernel(&m->kernels[at], m->library, name) != 0) {
            m->kernels[at] = not_there;
        }
    }
    return m->kernels[at] == not_there ? NULL : m->kernels[at];
}

DynCudaKernel *dyn_cuda_function(const DynLoaded *l, const char *name) {
    DynCudaKernel *kernel = NULL;
    return dyn_cuda.LibraryGetKernel(&kernel, ((Module *)dyn_load_of_device(l))->library, name) == 0 ? kernel : NULL;
}

const DynToolchain dyn_toolchain_cuda = {.find = find, .flags = put_flags, .run = run, .load = load};
