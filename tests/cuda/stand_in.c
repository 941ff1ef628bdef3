/* stand_in.c: a driver and an NVRTC that are none: text is compiled by the machine's C++ compiler, kernels run on its processor,
 * and the memory of "device 0" is this machine's. tests/py/test_cuda.py builds it and has dynoc open it.
 *
 * Only what dynoc calls is there (base/cuda.h, codegen/cuda/nvrtc.c). stand_in_fail lets a function fail; stand_in_count says how
 * often one was called. A "cubin" is 64 bytes that look like the head of one, with a size, and a shared object of that size. */
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define HEAD 64
#define ASSERT 710 /* CUDA_ERROR_ASSERT, which a device tells later */
#define SIZE_AT 56

typedef struct Library {
    void *handle;
} Library;
typedef struct Kernel {
    void (*function)(const void *);
    int (*run)(void (*kernel)(const void *), const void *argument, const unsigned *grid, const unsigned *block, int barriers);
    int barriers;
} Kernel;
typedef struct Program {
    char *source, log[4096], path[256];
    int (*asks)(void *, void *);
    void *payload;
} Program;

/* ---- calls that fail, and how many there were */

static char failing[64];
static int failing_error, failing_after;
static struct {
    char name[64];
    long n;
} counts[32];

API void stand_in_fail(const char *function, int error, int after) {
    snprintf(failing, sizeof(failing), "%s", function);
    failing_error = error;
    failing_after = after;
}

API long stand_in_count(const char *function) {
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (strcmp(counts[i].name, function) == 0) {
            return counts[i].n;
        }
    }
    return 0;
}

static int enter(const char *function) {
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (counts[i].n == 0 || strcmp(counts[i].name, function) == 0) {
            snprintf(counts[i].name, sizeof(counts[i].name), "%s", function);
            counts[i].n++;
            break;
        }
    }
    return strcmp(failing, function) == 0 && failing_after-- <= 0 ? failing_error : 0;
}

/* ---- CUDA graphs: what is launched while a graph is captured, in order */

#define MOST_ARGUMENT 4000 /* bytes of what a kernel is handed: dynoc's own buffers are as long */
typedef struct Node {
    const Kernel *kernel; /* NULL: `host` is called */
    unsigned grid[3], block[3];
    const void *argument;
    void (*host)(void);
    struct Node *next;
} Node;
typedef struct Graph {
    Node *first, *last;
} Graph;
static Graph *captured; /* now; NULL: nothing is */

API void *stand_in_capture(int begins) {
    Graph *ended = captured;
    captured = begins ? calloc(1, sizeof(*captured)) : NULL;
    return ended;
}

static void add_node(Node *n) {
    *(captured->last == NULL ? &captured->first : &captured->last->next) = n;
    captured->last = n;
}

API int stand_in_host(void (*host)(void)) {
    Node *n = captured == NULL ? NULL : calloc(1, sizeof(*n));
    if (n != NULL) {
        n->host = host;
        add_node(n);
    }
    return n != NULL;
}

/* ---- the driver */

API int cuInit(unsigned flags) { return enter("cuInit"); }
API int cuDriverGetVersion(int *version) {
    *version = 13000;
    return enter("cuDriverGetVersion");
}
API int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal == 0 ? enter("cuDeviceGet") : 101;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 16 ? 4 : 100000;
    return enter("cuDeviceGetAttribute");
}
API int cuDevicePrimaryCtxRetain(void **context, int device) {
    *context = counts;
    return enter("cuDevicePrimaryCtxRetain");
}
static void *current = counts; /* the device's own, as it is where PyTorch has worked */
API int cuCtxGetCurrent(void **context) {
    *context = current;
    return enter("cuCtxGetCurrent");
}
API int cuCtxSetCurrent(void *context) {
    current = context;
    return enter("cuCtxSetCurrent");
}

API int cuLibraryLoadData(void **library, const void *code, int *o, void **v, unsigned n, int *lo, void **lv, unsigned m) {
    Library *l = calloc(1, sizeof(*l));
    long size;
    char path[64];
    memcpy(&size, (const char *)code + SIZE_AT, sizeof(size));
    int fd = memfd_create("stand-in", 0);
    if (write(fd, (const char *)code + HEAD, (size_t)size) == size) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd); /* left open: another one would have the same name */
        l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    *library = l;
    return l->handle == NULL ? 200 : enter("cuLibraryLoadData");
}

API int cuLibraryUnload(void *library) {
    dlclose(((Library *)library)->handle);
    free(library);
    return enter("cuLibraryUnload");
}

API int cuLibraryGetKernel(void **kernel, void *library, const char *name) {
    void *handle = ((Library *)library)->handle, *f = dlsym(handle, name), *run = dlsym(handle, "stand_in_run");
    if (f == NULL || run == NULL) {
        return 500;
    }
    Kernel *k = calloc(1, sizeof(*k));
    memcpy(&k->function, &f, sizeof(f));
    memcpy(&k->run, &run, sizeof(run));
    k->barriers = strstr(name, "map") == NULL;
    *kernel = k;
    return enter("cuLibraryGetKernel");
}

API int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) { return enter("cuKernelSetAttribute"); }

API int cuLaunchKernel(void *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **parameters, void **extra) {
    const Kernel *k = kernel;
    unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
    int error = enter("cuLaunchKernel");
    if (error != 0) {
        return error;
    }
    if (gx == 0 || gy == 0 || gz == 0 || bx * by * bz == 0 || bx * by * bz > 1024) {
        return 1; /* CUDA_ERROR_INVALID_VALUE */
    }
    if (captured != NULL) {
        Node *n = calloc(1, sizeof(*n));
        *n = (Node){.kernel = k, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
        n->argument = memcpy(malloc(MOST_ARGUMENT), parameters[0], MOST_ARGUMENT);
        add_node(n);
        return 0;
    }
    return k->run(k->function, parameters[0], grid, block, k->barriers) ? ASSERT : 0;
}

/* cuBLAS, in so far. What is captured is left to the caller. */
API int cublasDgemm_v2(void *handle, int trans_a, int trans_b, int m, int n, int k, const double *alpha, const double *a,
                       int a_step, const double *b, int b_step, const double *beta, double *c, int c_step) {
    int error = enter("cublasDgemm_v2");
    if (error != 0 || captured != NULL) {
        return error != 0 ? error : 15; /* CUBLAS_STATUS_NOT_SUPPORTED */
    }
    for (long i = 0; i < (long)m * n; i++) {
        long row = i % m, column = i / m;
        double sum = 0;
        for (int j = 0; j < k; j++) {
            double x = trans_a ? a[row * a_step + j] : a[row + (long)j * a_step];
            sum += x * (trans_b ? b[column + (long)j * b_step] : b[column * b_step + j]);
        }
        c[row + column * c_step] = *alpha * sum;
    }
    return 0;
}
/* … and its light interface: products of float, summed up in double precision, with a bias or without. */
typedef struct Product {
    int turns[2], adds; /* transposes; CUBLASLT_EPILOGUE_BIAS */
    const float *bias;
} Product;
typedef struct Layout {
    int type;
    long rows, columns, step;
} Layout;
typedef struct Choice {
    unsigned long algorithm[8], workspace;
    int status;
    float waves;
    int reserved[4];
} Choice;
API int cublasLtMatmulDescCreate(Product **out, int computes, int scales) {
    *out = calloc(1, sizeof(**out));
    return enter("cublasLtMatmulDescCreate");
}
API int cublasLtMatmulDescSetAttribute(Product *of, int attribute, const void *at, size_t size) {
    void *const places[] = {[3] = &of->turns[0], [4] = &of->turns[1], [7] = &of->adds, [8] = &of->bias};
    memcpy(places[attribute], at, size);
    return enter("cublasLtMatmulDescSetAttribute");
}
API int cublasLtMatmulDescDestroy(Product *of) {
    free(of);
    return enter("cublasLtMatmulDescDestroy");
}
API int cublasLtMatrixLayoutCreate(Layout **out, int type, unsigned long rows, unsigned long columns, long step) {
    *out = malloc(sizeof(**out));
    **out = (Layout){type, (long)rows, (long)columns, step};
    return enter("cublasLtMatrixLayoutCreate");
}
API int cublasLtMatrixLayoutDestroy(Layout *of) {
    free(of);
    return enter("cublasLtMatrixLayoutDestroy");
}
API int cublasLtMatmulPreferenceCreate(void **out) {
    *out = malloc(1);
    return enter("cublasLtMatmulPreferenceCreate");
}
API int cublasLtMatmulPreferenceSetAttribute(void *of, int attribute, const void *at, size_t size) {
    return enter("cublasLtMatmulPreferenceSetAttribute");
}
API int cublasLtMatmulPreferenceDestroy(void *of) {
    free(of);
    return enter("cublasLtMatmulPreferenceDestroy");
}
API int cublasLtMatmulAlgoGetHeuristic(void *handle, const Product *of, const Layout *a, const Layout *b, const Layout *c,
                                       const Layout *out, void *preference, int most, Choice *choices, int *found) {
    choices[0] = (Choice){.workspace = out->columns > 32 ? 64 : 0};
    *found = out->type == 0;
    return enter("cublasLtMatmulAlgoGetHeuristic");
}
API int cublasGetMathMode(void *handle, int *mode) {
    *mode = 0;
    return enter("cublasGetMathMode");
}
static double element(const Layout *l, const float *data, int turned, long row, long column) {
    return data[turned ? row * l->step + column : row + column * l->step];
}
API int cublasLtMatmul(void *handle, const Product *of, const float *alpha, const float *a, const Layout *al, const float *b,
                       const Layout *bl, const void *beta, const float *c, const Layout *cl, float *out, const Layout *l,
                       const void *algorithm, void *work, size_t size, void *stream) {
    int error = enter("cublasLtMatmul");
    if (error != 0 || captured != NULL || (size == 0) != (work == NULL)) {
        return error != 0 ? error : 15; /* CUBLAS_STATUS_NOT_SUPPORTED */
    }
    for (long i = 0; i < l->rows * l->columns; i++) {
        long row = i % l->rows, column = i / l->rows;
        double sum = of->adds == 4 ? element(l, of->bias, 0, row, 0) : 0;
        for (long j = 0; j < (of->turns[0] ? al->rows : al->columns); j++) {
            sum += element(al, a, of->turns[0], row, j) * element(bl, b, of->turns[1], j, column);
        }
        out[row + column * l->step] = (float)sum;
    }
    return 0;
}

API int cuMemsetD32Async(void *at, unsigned value, size_t n, void *stream) {
    for (size_t i = 0; i < n; i++) {
        ((unsigned *)at)[i] = value;
    }
    return enter("cuMemsetD32Async");
}
API int cuStreamIsCapturing(void *stream, int *status) {
    *status = captured != NULL;
    return enter("cuStreamIsCapturing");
}
API int cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, void **graph, Node *const **last,
                                  size_t *n) {
    *status = captured != NULL;
    *last = captured == NULL ? NULL : &captured->last;
    *n = captured != NULL && captured->last != NULL;
    return enter("cuStreamGetCaptureInfo_v2");
}
/* CUDA_KERNEL_NODE_PARAMS, as far as it is read here. */
typedef struct NodeParams {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    const Kernel *kernel;
    void *context;
} NodeParams;
API int cuGraphExecKernelNodeSetParams_v2(void *exec, Node *n, const NodeParams *params) {
    int error = enter("cuGraphExecKernelNodeSetParams_v2");
    int other = params->kernel != n->kernel || memcmp(params->grid, n->grid, sizeof(n->grid)) != 0;
    n->argument = params->parameters[0]; /* how long it is nobody says: it isn't copied */
    return error != 0 ? error : other;
}
API int cuGraphLaunch(const Graph *exec, void *stream) {
    int error = enter("cuGraphLaunch");
    for (const Node *n = error != 0 ? NULL : exec->first; n != NULL; n = n->next) {
        if (n->kernel == NULL) {
            n->host();
        } else {
            error |= n->kernel->run(n->kernel->function, n->argument, n->grid, n->block, n->kernel->barriers) ? ASSERT : 0;
        }
    }
    return error;
}

static const struct {
    int error;
    const char *name, *text;
} errors[] = {{2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
              {ASSERT, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
              {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
              {0, "CUDA_ERROR_OTHER", "another error"}};
static int row_of(int error) {
    int i = 0;
    while (errors[i].error != error && errors[i].error != 0) {
        i++;
    }
    return i;
}
API int cuGetErrorName(int error, const char **name) {
    *name = errors[row_of(error)].name;
    return 0;
}
API int cuGetErrorString(int error, const char **text) {
    *text = errors[row_of(error)].text;
    return 0;
}

/* ---- NVRTC */

API int nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 0;
    return enter("nvrtcVersion");
}
API int nvrtcCreateProgram(Program **p, const char *source, const char *name, int n, const char *const *h, const char *const *i) {
    *p = calloc(1, sizeof(**p));
    (*p)->source = strdup(source);
    return enter("nvrtcCreateProgram");
}
API int nvrtcDestroyProgram(Program **p) {
    free((*p)->source);
    free(*p);
    return enter("nvrtcDestroyProgram");
}

API int nvrtcSetFlowCallback(Program *p, int (*callback)(void *, void *), void *payload) {
    p->asks = callback;
    p->payload = payload;
    return enter("nvrtcSetFlowCallback");
}

/* A compilation that takes until it is cancelled. */
static int endless(const Program *p) {
    while (!p->asks(p->payload, NULL)) {
        usleep(1000);
    }
    fputs("cancelled\n", stderr);
    return 6;
}

API int nvrtcCompileProgram(Program *p, int n, const char *const *options) {
    const char *folder = getenv("DYN_STAND_IN_FOLDER"), *header = getenv("DYN_STAND_IN_HEADER");
    static int number;
    char text[300], command[1400];
    int error = enter("nvrtcCompileProgram");
    if (error != 0 || folder == NULL || header == NULL) {
        return error != 0 ? error : 6;
    }
    if (getenv("DYN_STAND_IN_ENDLESS") != NULL) {
        return endless(p);
    }
    snprintf(text, sizeof(text), "%s/k%d-%d.cpp", folder, (int)getpid(), number);
    snprintf(p->path, sizeof(p->path), "%s/k%d-%d.so", folder, (int)getpid(), number++);
    FILE *f = fopen(text, "w");
    if (f == NULL) {
        return 6;
    }
    fprintf(f, "#include \"%s\"\n%s", header, p->source);
    fclose(f);
    snprintf(command, sizeof(command),
             "g++ -std=c++17 -O0 -w -fPIC -shared -fno-strict-aliasing -ffp-contract=off -o %s %s 2>%s.log", p->path, text, text);
    int done = system(command);
    snprintf(command, sizeof(command), "%s.log", text);
    f = fopen(command, "r");
    size_t got = f == NULL ? 0 : fread(p->log, 1, sizeof(p->log) - 1, f);
    p->log[got] = 0;
    if (f != NULL) {
        fclose(f);
    }
    return done == 0 ? 0 : 6;
}

API int nvrtcGetProgramLogSize(Program *p, size_t *size) {
    *size = strlen(p->log) + 1;
    return 0;
}
API int nvrtcGetProgramLog(Program *p, char *log) {
    strcpy(log, p->log);
    return 0;
}
static long read_object(const Program *p, char *to) {
    FILE *f = fopen(p->path, "rb");
    if (f == NULL) {
        return 0;
    }
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    size = to == NULL ? size : (long)fread(to, 1, (size_t)size, f);
    fclose(f);
    return size;
}

API int nvrtcGetCUBINSize(Program *p, size_t *size) {
    *size = HEAD + (size_t)read_object(p, NULL);
    return enter("nvrtcGetCUBINSize");
}
API int nvrtcGetCUBIN(Program *p, char *cubin) {
    static const unsigned char head[HEAD] = {0x7f, 'E', 'L', 'F', 2, 1, [16] = 3, [18] = 190};
    memcpy(cubin, head, HEAD);
    long size = read_object(p, cubin + HEAD);
    memcpy(cubin + SIZE_AT, &size, sizeof(size));
    return 0;
}
API const char *nvrtcGetErrorString(int error) { return error == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OTHER"; }
