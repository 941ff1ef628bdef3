/* cublas.c: cuBLAS, and its light interface cublasLt, in the libraries that PyTorch has loaded,
 * https://docs.nvidia.com/cuda/cublas.
 *
 * Called by products.c, with the GIL. How cublasLt makes a product of some sizes is its own choice; it is asked once, and the
 * answer, a plan, is kept in a table that this file owns, as are the descriptions in it. Double precision goes by cuBLAS itself,
 * whose routine has the faster kernels. */
#include <dlfcn.h>

#include "base/torch.h"
#include "codegen/cuda/cublas.h"

#define DEFAULT_MATH 0 /* cublasMath_t: of single precision nothing is rounded */
#define TF32_MATH 3
#define COMPUTES_SINGLE 68 /* cublasComputeType_t */
#define COMPUTES_TF32 77
#define TURNS_A 3 /* cublasLtMatmulDescAttributes_t */
#define TURNS_B 4
#define EPILOGUE 7
#define BIAS_AT 8
#define ADDS_BIAS 4  /* cublasLtEpilogue_t */
#define MOST_BYTES 1 /* cublasLtMatmulPreferenceAttributes_t: of memory to work in; … */
#define ALIGNMENTS 5 /* … of a, b, c and out, four attributes */

/* With memory to work in cublasLt parts the sums, which for few rows in single precision takes longer (docs/lab/cuda.md). */
#define FEW_ROWS 16
#define WORKSPACE ((size_t)32 << 20)

/* cublasLtMatmulAlgo_t and cublasLtMatmulHeuristicResult_t. */
typedef struct Algorithm {
    uint64_t opaque[8];
} Algorithm;
typedef struct Choice {
    Algorithm algorithm;
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} Choice;

#define ROUTINES(R)                                                                                                          \
    R(describe, "cublasLtMatmulDescCreate", (void **out, int computes, int scales))                                          \
    R(describe_set, "cublasLtMatmulDescSetAttribute", (void *of, int attribute, const void *at, size_t size))                \
    R(describe_end, "cublasLtMatmulDescDestroy", (void *of))                                                                 \
    R(layout, "cublasLtMatrixLayoutCreate", (void **out, int type, uint64_t rows, uint64_t columns, int64_t step))           \
    R(layout_end, "cublasLtMatrixLayoutDestroy", (void *of))                                                                 \
    R(prefer, "cublasLtMatmulPreferenceCreate", (void **out))                                                                \
    R(prefer_set, "cublasLtMatmulPreferenceSetAttribute", (void *of, int attribute, const void *at, size_t size))            \
    R(prefer_end, "cublasLtMatmulPreferenceDestroy", (void *of))                                                             \
    R(choose, "cublasLtMatmulAlgoGetHeuristic",                                                                              \
      (void *handle, void *description, void *a, void *b, void *c, void *out, void *preference, int most, Choice *choices,   \
       int *found))                                                                                                          \
    R(multiply, "cublasLtMatmul",                                                                                            \
      (void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b, void *b_layout,     \
       const void *beta, const void *c, void *c_layout, void *out, void *out_layout, const Algorithm *algorithm, void *work, \
       size_t size, void *stream))                                                                                           \
    R(math_mode, "cublasGetMathMode", (void *handle, int *mode))                                                             \
    R(twice, "cublasDgemm_v2",                                                                                               \
      (void *handle, int a_turned, int b_turned, int m, int n, int k, const double *alpha, const void *a, int a_step,        \
       const void *b, int b_step, const double *beta, void *out, int out_step))

/* PyTorch's: the current handle (which cublasLt takes too), and what its calls look into before they choose an algorithm, with
 * what is said where nobody has set anything. */
#define ASKED(A)                                                                   \
    A(handle, "_C._cuda_getCurrentBlasHandle", true)                               \
    A(deterministic, "_C._get_deterministic_algorithms", false)                    \
    A(reduces_f16, "_C._get_cublas_allow_fp16_reduced_precision_reduction", true)  \
    A(reduces_bf16, "_C._get_cublas_allow_bf16_reduced_precision_reduction", true) \
    A(accumulates_f16, "_C._get_cublas_allow_fp16_accumulation", false)

static struct {
#define R(name, symbol, parameters) int(*name) parameters;
    ROUTINES(R)
#undef R
} blas;
static struct {
#define A(name, path, usual) PyObject *name;
    ASKED(A)
#undef A
} torch;
static enum { UNKNOWN, OPEN, CLOSED } state;
static void *stand_in; /* whose routines they are, in tests; NULL: PyTorch's */

/* ---- finding them */

/* PyTorch has loaded both, under the names of its own CUDA's. */
static void *symbol(const char *name) {
    static const char *const libraries[] = {"libcublasLt.so.14", "libcublasLt.so.13", "libcublasLt.so.12",
                                            "libcublas.so.14",   "libcublas.so.13",   "libcublas.so.12"};
    void *found = stand_in != NULL ? dlsym(stand_in, name) : NULL;
    for (size_t i = 0; i < DYN_COUNTOF(libraries) && found == NULL && stand_in == NULL; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        found = library == NULL ? NULL : dlsym(library, name);
        if (library != NULL) {
            dlclose(library); /* PyTorch keeps it */
        }
    }
    return found;
}

static void look_up(void) {
    bool found = true;
    void *at;
    dyn_load_lock(true);
#define R(name, text, parameters) \
    at = symbol(text);            \
    found = found && at != NULL;  \
    memcpy(&blas.name, &at, sizeof(blas.name));
    ROUTINES(R)
#undef R
    dyn_load_lock(false);
#define A(name, path, usual)                                          \
    Py_XSETREF(torch.name, dyn_torch_lookup(dyn_torch_module, path)); \
    PyErr_Clear();
    ASKED(A)
#undef A
    bool asks = torch.deterministic != NULL && (stand_in != NULL || torch.handle != NULL);
    state = found && asks ? OPEN : CLOSED;
}

/* Does one of PyTorch's settings say what it usually says? A setting of two parts is a tuple; one that this PyTorch hasn't got is
 * as usual. */
static bool is_usual(PyObject *ask, bool usual) {
    PyObject *said = ask == NULL ? NULL : PyObject_CallNoArgs(ask);
    bool same = ask == NULL || said == (usual ? Py_True : Py_False);
    for (Py_ssize_t i = 0; said != NULL && PyTuple_CheckExact(said) && i < PyTuple_GET_SIZE(said); i++) {
        same = (i == 0 || same) && PyTuple_GET_ITEM(said, i) == (usual ? Py_True : Py_False);
    }
    PyErr_Clear();
    Py_XDECREF(said);
    return same;
}

/* The calling thread's for the current device, with the precision that the program has set. */
static bool take_handle(void **handle, int *mode) {
    *handle = NULL;
    *mode = DEFAULT_MATH;
    if (stand_in != NULL) {
        return true; /* it has none */
    }
    PyObject *number = PyObject_CallNoArgs(torch.handle);
    *handle = number == NULL ? NULL : PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    PyErr_Clear();
    return *handle != NULL && blas.math_mode(*handle, mode) == 0 && (*mode == DEFAULT_MATH || *mode == TF32_MATH);
}

static bool is_current(const DynCall *c) {
    const DynCudaInfo *info = dyn_cuda_info(c->p->graph->device - 1);
    DynCudaContext *current = NULL;
    return info != NULL && dyn_cuda.CtxGetCurrent(&current) == 0 && current == info->context;
}

bool dyn_cublas_ready(const DynCall *c, DynDtype dtype, DynCublas *out) {
    int mode;
    if (DYN_UNLIKELY(state == UNKNOWN || stand_in != dyn_cuda_stand_in_library())) {
        stand_in = dyn_cuda_stand_in_library();
        look_up();
    }
    if (state != OPEN || !is_usual(torch.deterministic, false) || !is_current(c)) {
        return false;
    }
    if (dtype == DYN_F16 && !(is_usual(torch.reduces_f16, true) && is_usual(torch.accumulates_f16, false))) {
        return false;
    }
    if (dtype == DYN_BF16 && !is_usual(torch.reduces_bf16, true)) {
        return false;
    }
    memset(out, 0, sizeof(*out)); /* a shape is compared byte by byte */
    if (!take_handle(&out->handle, &mode)) {
        return false;
    }
    out->shape.device = c->p->graph->device;
    out->shape.dtype = (uint8_t)dtype;
    out->shape.rounds = mode == TF32_MATH && dtype == DYN_F32;
    return true;
}

/* ---- plans */

typedef struct Plan {
    DynCublasShape shape;
    bool used, possible;
    void *description, *a, *b, *out;
    Algorithm algorithm;
    size_t workspace;
} Plan;

#define PLANS 512 /* a power of two; each is a kilobyte */
#define TRIED 8   /* places that a shape may have */
static Plan plans[PLANS];

/* cudaDataType_t */
static int type_of(DynDtype dtype) {
    switch ((int)dtype) {
    case DYN_F16: return 2;
    case DYN_BF16: return 14;
    default: return 0;
    }
}

static void drop(Plan *plan) {
    if (plan->description != NULL) {
        blas.describe_end(plan->description);
    }
    void *const layouts[] = {plan->a, plan->b, plan->out};
    for (size_t i = 0; i < DYN_COUNTOF(layouts); i++) {
        if (layouts[i] != NULL) {
            blas.layout_end(layouts[i]);
        }
    }
    *plan = (Plan){0};
}

/* A matrix of rows × columns behind its operation, as it lies. */
static int lay(void **out, int type, int64_t rows, int64_t columns, bool turned, int64_t step) {
    return blas.layout(out, type, (uint64_t)(turned ? columns : rows), (uint64_t)(turned ? rows : columns), step);
}

static int describe(Plan *plan) {
    const DynCublasShape *s = &plan->shape;
    int type = type_of((DynDtype)s->dtype), single = type_of(DYN_F32);
    const int a_turned = s->a_turned, b_turned = s->b_turned, adds = ADDS_BIAS;
    int failed = blas.describe(&plan->description, s->rounds ? COMPUTES_TF32 : COMPUTES_SINGLE, single);
    if (failed == 0) {
        failed = blas.describe_set(plan->description, TURNS_A, &a_turned, sizeof(a_turned)) ||
                 blas.describe_set(plan->description, TURNS_B, &b_turned, sizeof(b_turned)) ||
                 (s->biased && blas.describe_set(plan->description, EPILOGUE, &adds, sizeof(adds)));
    }
    return failed || lay(&plan->a, type, s->m, s->k, s->a_turned, s->a_step) ||
           lay(&plan->b, type, s->k, s->n, s->b_turned, s->b_step) || lay(&plan->out, type, s->m, s->n, false, s->m);
}

static bool choose(void *handle, Plan *plan) {
    void *preference = NULL;
    bool few = plan->shape.n <= FEW_ROWS && plan->shape.dtype == DYN_F32;
    size_t most = few ? 0 : WORKSPACE;
    uint32_t aligned = 1u << plan->shape.aligned;
    Choice choice = {.status = -1};
    int found = 0, failed = blas.prefer(&preference);
    if (failed == 0) {
        failed = blas.prefer_set(preference, MOST_BYTES, &most, sizeof(most));
        for (int i = 0; i < 4 && failed == 0; i++) {
            failed = blas.prefer_set(preference, ALIGNMENTS + i, &aligned, sizeof(aligned));
        }
        failed = failed ||
                 blas.choose(handle, plan->description, plan->a, plan->b, plan->out, plan->out, preference, 1, &choice, &found);
        blas.prefer_end(preference);
    }
    plan->algorithm = choice.algorithm;
    plan->workspace = choice.workspace;
    return failed == 0 && found > 0 && choice.status == 0;
}

/* The shape's plan, or a place for it: a free one, or the first that it may have, whose plan goes. */
static Plan *place_of(const DynCublasShape *shape) {
    uint64_t hash = dyn_hash64(shape, sizeof(*shape), 1);
    Plan *place = NULL;
    for (unsigned i = 0; i < TRIED; i++) {
        Plan *plan = &plans[(hash + i) % PLANS];
        if (plan->used && memcmp(&plan->shape, shape, sizeof(*shape)) == 0) {
            return plan;
        }
        place = place == NULL && !plan->used ? plan : place;
    }
    place = place == NULL ? &plans[hash % PLANS] : place;
    drop(place);
    return place;
}

static const Plan *plan_of(void *handle, const DynCublasShape *shape) {
    Plan *plan = place_of(shape);
    if (!plan->used) {
        plan->used = true;
        plan->shape = *shape;
        plan->possible = describe(plan) == 0 && choose(handle, plan);
    }
    return plan->possible ? plan : NULL;
}

/* ---- the product */

static bool multiply_by_plan(const DynCall *c, const DynCublas *by, const DynCublasData *data) {
    static const float one = 1, zero = 0;
    const Plan *plan = plan_of(by->handle, &by->shape);
    PyObject *holder = NULL;
    void *stream;
    if (plan == NULL || !dyn_torch_stream(c->p->graph->device, &stream)) {
        return false;
    }
    size_t size = plan->workspace;
    char *work = size == 0 ? NULL : dyn_cuda_workspace(c, stream, (int64_t)size, &holder);
    bool ready = (work != NULL || size == 0) &&
                 (data->bias == NULL || blas.describe_set(plan->description, BIAS_AT, &data->bias, sizeof(data->bias)) == 0);
    bool done = ready && blas.multiply(by->handle, plan->description, &one, data->a, plan->a, data->b, plan->b, &zero, data->out,
                                       plan->out, data->out, plan->out, &plan->algorithm, work, size, stream) == 0;
    PyErr_Clear();
    Py_XDECREF(holder);
    return done;
}

bool dyn_cublas_multiply(const DynCall *c, const DynCublas *by, const DynCublasData *data) {
    static const double one = 1, zero = 0;
    const DynCublasShape *s = &by->shape;
    if (s->dtype != DYN_F64) {
        return multiply_by_plan(c, by, data);
    }
    return !s->biased && blas.twice(by->handle, s->a_turned, s->b_turned, (int)s->m, (int)s->n, (int)s->k, &one, data->a,
                                    (int)s->a_step, data->b, (int)s->b_step, &zero, data->out, (int)s->m) == 0;
}
