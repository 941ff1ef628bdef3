/* descent.c: steps of PyTorch's optimisers on CUDA devices: the parameters of one kind by one launch, or by a few.
 *
 * Called by evalframe/optimizers.c through the target. The step of each rule, form and dtype is a function of its own, from the
 * same lines as the processor's (run/descent_steps.h); its text is written and built when such a step is first asked for, and
 * until it is there steps are PyTorch's. Operators are computed as PyTorch's kernels for lists of tensors (foreach) compute them,
 * whose compiler makes one operation of a product and the sum that takes it. Functions, once built, stay. */
#include "base/torch.h"
#include "codegen/cuda/target.h"
#include "codegen/run/descent.h"
#include "codegen/run/descent_steps.h"

#define THREADS 256
#define PIECE 4096    /* elements of a tensor that a block goes through */
#define MOST_STEPS 75 /* tensors of one launch: what its arguments, 4 KB, have room for */

#define TEXT(...) TEXT_OF(__VA_ARGS__)
#define TEXT_OF(...) #__VA_ARGS__

/* What a function is handed. */
typedef struct Tensors {
    char *parameter;
    const char *gradient;
    char *states[DYN_STEP_STATES];
    int64_t n;
} Tensors;
typedef struct Handed {
    double numbers[DYN_STEP_NUMBERS];
    uint32_t n, first[MOST_STEPS]; /* the first block of each */
    Tensors at[MOST_STEPS];
} Handed;
_Static_assert(sizeof(Handed) <= 4096, "arguments of a kernel");

/* ---- text */

static const struct {
    const char *before, *behind; /* behind: of the root; NULL: it takes none */
} bodies[DYN_DESCENT_RULES] = {
    [DYN_SGD] = {TEXT(DYN_SGD_STEP), NULL},
    [DYN_ADAM] = {TEXT(DYN_ADAM_BEFORE), TEXT(DYN_ADAM_BEHIND)},
    [DYN_ADAGRAD] = {TEXT(DYN_ADAGRAD_BEFORE), TEXT(DYN_ADAGRAD_BEHIND)},
    [DYN_RMSPROP] = {TEXT(DYN_RMSPROP_BEFORE), TEXT(DYN_RMSPROP_BEHIND)},
    [DYN_SHRINK] = {TEXT(DYN_SHRINK_STEP), NULL},
};

/* M is an element in memory, T as it is computed with, S the numbers' type. */
static const char types_of_halves[] = "typedef unsigned short M; typedef float S;\n"
                                      "struct T { float v; __device__ T() {} __device__ T(float a) : v(dyn_%s(a)) {} __device__ "
                                      "operator float() const { return v; } };\n"
                                      "__device__ __forceinline__ T loaded(M m) { return dyn_%s_load(m); }\n"
                                      "__device__ __forceinline__ M stored(T t) { return dyn_%s_store(t); }\n";
static const char types_of_floats[] = "typedef %s M, S, T;\n"
                                      "__device__ __forceinline__ T loaded(M m) { return m; }\n"
                                      "__device__ __forceinline__ M stored(T t) { return t; }\n";
static const char operators[] =
    "#define FN __device__ __forceinline__ S\n"
    "FN root(S a) { return sqrt%s(a); }\n"
    "FN fused(S a, S b, S c) { return fma%s(a, b, c); }\n"
    "FN ADD(S x, S y, S alpha) { return fused(y, alpha, x); }\n"
    "FN LERP(S x, S y, S w) { return w < (S)0.5 ? fused(w, y - x, x) : fused(w - 1, y - x, y); }\n"
    "FN ADDCMUL_1(S x, S y, S z) { return fused(y, z, x); }\n"
    "FN ADDCMUL(S x, S y, S z, S value) { return value == 1 ? fused(y, z, x) : fused(value, y * z, x); }\n"
    "FN ADDCDIV_1(S x, S y, S z) { return x + y / z; }\n"
    "FN ADDCDIV(S x, S y, S z, S value) { return fused(value, y / z, x); }\n"
    "template<int V> __device__ __forceinline__ void fetch(T *x, const char *from, i64 at, int m) { M held[V]; "
    "dyn_take_some<V, true>(held, from + at * sizeof(M), m); "
    "_Pragma(\"unroll\") for (int j = 0; j < V; j++) x[j] = loaded(held[j]); }\n"
    "template<int V> __device__ __forceinline__ void put(const T *x, char *to, i64 at, int m) { M held[V]; "
    "_Pragma(\"unroll\") for (int j = 0; j < V; j++) held[j] = stored(x[j]); "
    "dyn_put_some<V>(held, to + at * sizeof(M), m); }\n";
/* A block finds its tensor among `first`; V elements for each thread where the tensors are aligned. */
static const char entry[] =
    "DYN_KERNEL(%d, dyn_descend, Handed) {\n"
    "    u32 low = 0, high = a.n;\n"
    "    while (high - low > 1) { u32 mid = (low + high) / 2; if (a.first[mid] <= blockIdx.x) low = mid; else high = mid; }\n"
    "    const Tensors &t = a.at[low];\n"
    "    S k[DYN_STEP_NUMBERS];\n"
    "    _Pragma(\"unroll\") for (int i = 0; i < DYN_STEP_NUMBERS; i++) k[i] = (S)a.numbers[i];\n"
    "    const i64 from = (i64)(blockIdx.x - a.first[low]) * %d, to = from + %d < t.n ? from + %d : t.n;\n"
    "    const int V = 16 / sizeof(M);\n"
    "    if ((((u64)t.p | (u64)t.g | (u64)t.s[0] | (u64)t.s[1] | (u64)t.s[2]) & 15) == 0) {\n"
    "        for (i64 at = from + threadIdx.x * V; at < to; at += blockDim.x * V) step<V>(t, k, at, to - at < V ? (int)(to - at) "
    ": V);\n"
    "    } else {\n"
    "        for (i64 at = from + threadIdx.x; at < to; at += blockDim.x) step<1>(t, k, at, 1);\n"
    "    }\n}\n";

static const char *const suffixes[] = {"f", ""};
static const char states[DYN_STEP_STATES + 1] = "abc";

static void put_types(DynDtype dtype, DynStr *out) {
    if (dyn_dtype_is_half(dtype)) {
        const char *name = dtype == DYN_F16 ? "half" : "bf16";
        dyn_str_printf(out, types_of_halves, name, name, name);
    } else {
        dyn_str_printf(out, types_of_floats, dtype == DYN_F64 ? "double" : "float");
    }
    const char *suffix = suffixes[dtype == DYN_F64];
    dyn_str_printf(out, operators, suffix, suffix);
    dyn_str_puts(out, "enum { ");
#define NUMBER(name) dyn_str_puts(out, #name ", ");
    DYN_EACH_STEP_NUMBER(NUMBER)
#undef NUMBER
    dyn_str_puts(out, "DYN_STEP_NUMBERS };\n");
    dyn_str_printf(out,
                   "struct Tensors { char *p; const char *g; char *s[%d]; i64 n; };\n"
                   "struct Handed { double numbers[DYN_STEP_NUMBERS]; u32 n, first[%d]; Tensors at[%d]; };\n",
                   DYN_STEP_STATES, MOST_STEPS, MOST_STEPS);
}

/* What is done with each tensor of state: fetch or put. */
static void put_states(DynStr *out, DynDescentRule rule, uint8_t form, const char *what) {
    for (int i = 0; i < DYN_STEP_STATES; i++) {
        if (dyn_descent_has_state(rule, form, i)) {
            dyn_str_printf(out, "    %s<V>(%c, t.s[%d], at, m);\n", what, states[i], i);
        }
    }
}

static void put_loop(DynStr *out, const char *body) {
    dyn_str_printf(out, "    _Pragma(\"unroll\") for (int i = 0; i < V; i++) { %s }\n", body);
}

/* V elements of a tensor, of which there are m. */
static void put_step(DynDescentRule rule, uint8_t form, DynStr *out) {
    dyn_str_printf(out,
                   "template<int V> __device__ __forceinline__ void step(const Tensors &t, const S *k, i64 at, int m) {\n"
                   "    const unsigned form = %u;\n    T p[V], g[V], a[V], b[V], c[V], roots[V];\n"
                   "    fetch<V>(p, t.p, at, m); fetch<V>(g, t.g, at, m);\n",
                   form);
    put_states(out, rule, form, "fetch");
    put_loop(out, bodies[rule].before);
    if (bodies[rule].behind != NULL) {
        put_loop(out, "roots[i] = root(roots[i]);");
        put_loop(out, bodies[rule].behind);
    }
    dyn_str_puts(out, "    put<V>(p, t.p, at, m);\n");
    put_states(out, rule, form, "put");
    dyn_str_puts(out, "}\n");
}

/* ---- functions */

/* A kind of step on a kind of device, and its function. */
typedef struct Kind {
    struct Kind *next;
    int capability;
    DynDescentRule rule;
    uint8_t form, dtype;
    DynBuildText *text;      /* NULL: it isn't asked for, or a fork has dropped it */
    DynCudaKernel *function; /* NULL: not there yet */
} Kind;
static Kind *kinds; /* under the GIL; what was made stays */

static DynReason write_kind(void *what, DynStr *out) {
    const Kind *kind = what;
    dyn_str_printf(out, "// sm_%d\n%s", kind->capability, dyn_cuda_prologue);
    put_types((DynDtype)kind->dtype, out);
    put_step(kind->rule, kind->form, out);
    dyn_str_printf(out, entry, THREADS, PIECE, PIECE, PIECE);
    return DYN_R_OK;
}

static void kind_is_written(void *what, bool torn) { (void)what, (void)torn; }

static bool is_kind(const Kind *kind, const DynDescent *d, int capability) {
    return kind->capability == capability && kind->rule == d->rule && kind->form == d->form && kind->dtype == d->dtype;
}

static Kind *kind_of(const DynDescent *d, const DynCudaInfo *info) {
    Kind *kind = kinds;
    while (kind != NULL && !is_kind(kind, d, info->capability)) {
        kind = kind->next;
    }
    if (kind == NULL && (kind = PyMem_RawCalloc(1, sizeof(*kind))) != NULL) {
        *kind = (Kind){.next = kinds, .capability = info->capability, .rule = d->rule, .form = d->form, .dtype = d->dtype};
        kinds = kind;
    }
    return kind;
}

/* NULL: it isn't built yet, or never will be; that is told where builds are (build.c). */
static DynCudaKernel *function_of(Kind *kind) {
    static const DynBuildWriter writer = {write_kind, kind_is_written, &dyn_toolchain_cuda};
    if (kind->function != NULL) {
        return kind->function;
    }
    if (kind->text != NULL && dyn_build_text_state(kind->text) == DYN_TEXT_DROPPED) {
        dyn_build_text_free(kind->text);
        kind->text = NULL;
    }
    if (kind->text == NULL) {
        kind->text = dyn_build_text(&writer, kind, dyn_config.wait);
    }
    if (kind->text != NULL && dyn_config.wait) {
        dyn_build_text_wait(kind->text);
    }
    DynLoaded *loaded = kind->text == NULL ? NULL : dyn_build_text_loaded(kind->text);
    kind->function = loaded == NULL ? NULL : dyn_cuda_function(loaded, "dyn_descend");
    return kind->function;
}

static const DynCudaInfo *info_of(const DynDescent *d) { return dyn_cuda_info(d->device - 1); }

/* While the program records a graph of the stream's work, steps are PyTorch's, which has something to say about that. */
bool dyn_cuda_can_descend(const DynDescent *steps, int64_t n, bool fused) {
    (void)fused;
    const DynCudaInfo *info = n > 0 ? info_of(&steps[0]) : NULL;
    void *stream;
    int capturing = 0;
    bool possible = info != NULL && dyn_torch_stream(steps[0].device, &stream) &&
                    dyn_cuda.StreamIsCapturing(stream, &capturing) == 0 && capturing == 0;
    for (int64_t i = 0; i < n && possible; i++) {
        Kind *kind = kind_of(&steps[i], info);
        possible = kind != NULL && function_of(kind) != NULL;
    }
    return possible;
}

/* ---- launching */

static bool go_together(const DynDescent *a, const DynDescent *b) {
    bool alike = a->rule == b->rule && a->form == b->form && a->dtype == b->dtype;
    return alike && memcmp(a->numbers, b->numbers, sizeof(a->numbers)) == 0;
}

/* Fills in steps of one kind, from the first on; how many they are. `blocks`: what they take. */
static int64_t hand(const DynDescent *steps, int64_t n, Handed *h, int64_t *blocks) {
    memcpy(h->numbers, steps[0].numbers, sizeof(h->numbers));
    h->n = 0;
    *blocks = 0;
    while (h->n < n && h->n < MOST_STEPS && go_together(&steps[0], &steps[h->n])) {
        const DynDescent *d = &steps[h->n];
        int64_t more = dyn_cuda_blocks(d->n, PIECE);
        if (h->n > 0 && *blocks + more > INT32_MAX) {
            break;
        }
        h->first[h->n] = (uint32_t)*blocks;
        h->at[h->n] = (Tensors){.parameter = d->parameter, .gradient = d->gradient, .n = d->n};
        memcpy(h->at[h->n].states, d->states, sizeof(d->states));
        *blocks += more;
        h->n++;
    }
    return h->n;
}

int dyn_cuda_descend(const DynDescent *steps, int64_t n, bool fused) {
    (void)fused;
    const DynCudaInfo *info = info_of(&steps[0]);
    DynCudaContext *before;
    void *stream = NULL;
    Handed handed;
    void *parameters[] = {&handed};
    DynCudaError error = dyn_cuda_enter(info, &before);
    dyn_torch_stream(steps[0].device, &stream);
    for (int64_t i = 0; i < n && error == 0;) {
        int64_t blocks;
        DynCudaKernel *function = function_of(kind_of(&steps[i], info));
        i += hand(&steps[i], n - i, &handed, &blocks);
        error = dyn_cuda.LaunchKernel(function, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL);
    }
    dyn_cuda_leave(info, before);
    if (error != 0) {
        dyn_cuda_raise(error, "launching a step of an optimiser");
    }
    return error == 0 ? 0 : -1;
}
