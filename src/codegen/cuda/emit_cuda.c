/* emit_cuda.c: loop IR → CUDA C++: the functions of each kernel (cuda.h), behind the prologue.
 *
 * Called by evalframe/compile.c through the target. The text is the same for the same loop IR and the same kind of device, which
 * its first line names. Values are computed as the C of codegen/c computes them, from the same expressions; what an operator of
 * PyTorch's rounds is rounded (NVRTC is told to fuse no product and sum). A reduction's order is the device's: each thread adds
 * what it walks over, and threads are combined as a tree. */
#include "codegen/cuda/cuda.h"

static const char prologue[] =
#define LINE(text) text "\n"
#include "codegen/cuda/prologue.def"
#undef LINE
    ;

const char *const dyn_cuda_form_names[DYN_CUDA_FORM_COUNT] = {
#define FORM(NAME, name) [DYN_CUDA_##NAME] = name,
    DYN_CUDA_FORMS(FORM)
#undef FORM
};

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

int dyn_cuda_rank(const DynKernel *k) { return k->ndim > 0 ? k->ndim : 1; }

static int nparams(const DynKernel *k) { return k->params.n > 0 ? (int)k->params.n : 1; }

int dyn_cuda_words(const DynKernel *k) {
    int rank = dyn_cuda_rank(k), nops = (int)k->operands.n;
    return DYN_CUDA_HEAD + 2 * rank + nops + nops * rank + nparams(k);
}

int dyn_cuda_results(const DynKernel *k, const DynInsn **results) {
    int n = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (at(k, i)->kind == DYN_L_REDUCE) {
            results[n++] = at(k, i);
        }
    }
    return n;
}

int64_t dyn_cuda_result_size(const DynInsn *insn) { return dyn_dtypes[insn->compute].size; }

/* So many elements are 16 bytes of the largest operand; of long kernels fewer, as each is held in registers. */
int dyn_cuda_lanes(const DynKernel *k) {
    int largest = 1;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        int size = dyn_dtypes[k->operands.at[i].dtype].size;
        largest = size > largest ? size : largest;
    }
    int lanes = 16 / largest, most = k->insns.n > 60 || k->operands.n > 8 ? 2 : 8;
    return lanes < most ? lanes : most;
}

/* ---- expressions */

static const char *type_of(DynDtype dt) { return dt == DYN_BOOL ? "bool" : dyn_emit_type(dt); }

static const char *wrapping_type(DynDtype dt) {
    if (dyn_dtypes[dt].kind == 'f') {
        return type_of(dt);
    }
    return dyn_dtypes[dt].size == 8 ? "unsigned long" : "unsigned";
}

/* As PyTorch's kernels convert: floats to narrow integers by way of a wide one. */
static void put_cast(DynStr *out, DynDtype to, DynDtype from, const char *value) {
    if (to == DYN_BOOL) {
        dyn_str_printf(out, "%s != 0", value);
    } else if (dyn_dtype_is_half(to)) {
        dyn_str_printf(out, to == DYN_F16 ? "dyn_half((float)%s)" : "dyn_bf16((float)%s)", value);
    } else if (dyn_dtypes[from].kind == 'f' && strchr("iu", dyn_dtypes[to].kind) != NULL && dyn_dtypes[to].size < 4) {
        dyn_str_printf(out, "(%s)(long)%s", type_of(to), value);
    } else {
        dyn_str_printf(out, "(%s)%s", type_of(to), value);
    }
}

/* The expression of ops.def: {0} … are operands, {T} the type, {U} the one that it wraps in, {s} a template's argument. */
static int put_operator(DynStr *out, const DynInsn *insn, const char *const *args) {
    DynDtype t = dyn_dtype_is_half((DynDtype)insn->compute) ? DYN_F32 : (DynDtype)insn->compute;
    for (const char *c = dyn_ops[insn->op].c; *c != 0; c++) {
        if (c[0] != '{' || c[1] == 0 || c[2] != '}') {
            dyn_str_putc(out, *c);
            continue;
        }
        switch (c[1]) {
        case 'T': dyn_str_puts(out, type_of(t)); break;
        case 'U': dyn_str_puts(out, wrapping_type(t)); break;
        case 's': dyn_str_printf(out, "t<%s>", type_of(t)); break;
        case 'f': dyn_str_puts(out, t == DYN_F32 ? "f" : ""); break;
        default:
            if (c[1] < '0' || c[1] > '2' || args[c[1] - '0'] == NULL) {
                return -1;
            }
            dyn_str_puts(out, args[c[1] - '0']);
        }
        c += 2;
    }
    return 0;
}

static int put_expression(DynStr *out, const DynKernel *k, const DynInsn *insn) {
    char names[3][24];
    const char *args[3] = {NULL, NULL, NULL};
    for (int a = 0; a < insn->nargs; a++) {
        snprintf(names[a], sizeof(names[a]), "v%u", insn->a[a]);
        args[a] = names[a];
    }
    if (insn->kind == DYN_L_CAST) {
        put_cast(out, (DynDtype)insn->dtype, (DynDtype)at(k, insn->a[0])->dtype, args[0]);
        return 0;
    }
    bool rounds = dyn_emit_rounds(insn);
    if (rounds) {
        dyn_str_puts(out, insn->dtype == DYN_F16 ? "dyn_half(" : "dyn_bf16(");
    }
    int failed = put_operator(out, insn, args);
    dyn_str_puts(out, rounds ? ")" : "");
    return failed;
}

/* An element in memory as the value that kernels compute with. */
static void put_loaded(DynStr *out, DynDtype dt, uint32_t operand) {
    if (dyn_dtype_is_half(dt)) {
        dyn_str_printf(out, dt == DYN_F16 ? "dyn_half_load(x%u[j])" : "dyn_bf16_load(x%u[j])", operand);
    } else {
        dyn_str_printf(out, dt == DYN_BOOL ? "x%u[j] != 0" : "x%u[j]", operand);
    }
}

static void put_stored(DynStr *out, DynDtype dt, uint32_t operand, uint32_t value) {
    const char *store = "";
    if (dyn_dtype_is_half(dt)) {
        store = dt == DYN_F16 ? "dyn_half_store" : "dyn_bf16_store";
    }
    dyn_str_printf(out, "            y%u[j] = %s(v%u);\n", operand, store, value);
}

/* Of a reduction: its values combined, "(a, b) → expression". */
static int put_join(DynStr *out, const DynInsn *insn, const char *a, const char *b) {
    const char *args[3] = {a, b, NULL};
    dyn_str_printf(out, "(%s)(", type_of((DynDtype)insn->compute));
    int failed = put_operator(out, insn, args);
    dyn_str_puts(out, ")");
    return failed;
}

/* What a reduction begins with. */
static void put_identity(DynStr *out, const DynInsn *insn) {
    DynDtype dt = (DynDtype)insn->compute;
    bool max = insn->op == DYN_OP_MAX, is_float = dyn_dtypes[dt].kind == 'f', is_signed = dyn_dtypes[dt].kind == 'i';
    const char *type = type_of(dt);
    int bits = dyn_dtypes[dt].size * 8 - 1;
    if (insn->op != DYN_OP_MAX && insn->op != DYN_OP_MIN) {
        dyn_str_printf(out, "(%s)%d", type, insn->op == DYN_OP_PROD || insn->op == DYN_OP_ALL);
    } else if (is_float) {
        dyn_str_printf(out, "(%s)%sDYN_INF", type, max ? "-" : "");
    } else if (is_signed) {
        dyn_str_printf(out, "(%s)%s(~0ul << %d)", type, max ? "" : "~", bits);
    } else {
        dyn_str_printf(out, "(%s)%s", type, max ? "0" : "~0ul");
    }
}

/* ---- the body for one group of lanes */

static bool is_loaded(const DynKernel *k, uint32_t operand) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (at(k, i)->kind == DYN_L_LOAD && at(k, i)->a[0] == operand) {
            return true;
        }
    }
    return false;
}

static bool is_stored(const DynKernel *k, uint32_t operand) { return k->operands.at[operand].out && !k->operands.at[operand].result; }

static void put_loads(DynStr *out, const DynKernel *k) {
    int rank = dyn_cuda_rank(k);
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const char *type = dyn_emit_memory_type((DynDtype)k->operands.at[i].dtype);
        if (is_loaded(k, i)) {
            dyn_str_printf(out, "        %s x%u[V]; dyn_take<V>(x%u, a.at[%u] + off[%u], a.step[%u][%d], a.aligned >> %u & 1, m);\n", type, i, i,
                           i, i, i, rank - 1, i);
        }
        if (is_stored(k, i)) {
            dyn_str_printf(out, "        %s y%u[V];\n", type, i);
        }
    }
}

static void put_stores(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_stored(k, i)) {
            dyn_str_printf(out, "        dyn_put<V>(y%u, a.at[%u] + off[%u], a.step[%u][%d], a.aligned >> %u & 1, m);\n", i, i, i, i,
                           dyn_cuda_rank(k) - 1, i);
        }
    }
}

static int put_insn(DynStr *out, const DynKernel *k, uint32_t i, int *result) {
    const DynInsn *insn = at(k, i);
    int failed = 0;
    char a[32], b[32];
    switch ((DynInsnKind)insn->kind) {
    case DYN_L_STORE: put_stored(out, (DynDtype)k->operands.at[insn->a[0]].dtype, insn->a[0], insn->a[1]); return 0;
    case DYN_L_REDUCE:
        snprintf(a, sizeof(a), "r%d[j]", *result);
        snprintf(b, sizeof(b), "v%u", insn->a[1]);
        dyn_str_printf(out, "            if (V == 1 || j < m) r%d[j] = ", (*result)++);
        failed = put_join(out, insn, a, b);
        dyn_str_puts(out, ";\n");
        return failed;
    default: break;
    }
    dyn_str_printf(out, "            const %s v%u = ", type_of((DynDtype)insn->dtype), i);
    if (insn->kind == DYN_L_LOAD) {
        put_loaded(out, (DynDtype)insn->dtype, insn->a[0]);
    } else if (insn->kind == DYN_L_SCALAR) {
        dyn_str_printf(out, "s%u", insn->a[0]);
    } else {
        failed = put_expression(out, k, insn);
    }
    dyn_str_puts(out, ";\n");
    return failed;
}

static int put_group(DynStr *out, const DynKernel *k) {
    int failed = 0, result = 0;
    put_loads(out, k);
    dyn_str_puts(out, "        _Pragma(\"unroll\") for (int j = 0; j < V; j++) {\n");
    for (uint32_t i = 0; i < k->insns.n; i++) {
        failed |= put_insn(out, k, i, &result);
    }
    dyn_str_puts(out, "        }\n");
    put_stores(out, k);
    return failed;
}

static void put_scalars(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynDtype dt = (DynDtype)k->params.at[i].dtype;
        dyn_str_printf(out, "    const %s s%u = (%s)a.scalar[%u].%c;\n", type_of(dt), i, type_of(dt), i,
                       dyn_dtypes[dt].kind == 'f' ? 'f' : 'i');
    }
}

/* ---- functions */

static void put_args(DynStr *out, const DynKernel *k) {
    dyn_str_printf(out, "Args<%d, %u, %d>", dyn_cuda_rank(k), k->operands.n, nparams(k));
}

static void put_entry(DynStr *out, const DynKernel *k, DynCudaForm form, const char *call) {
    dyn_str_printf(out, "DYN_KERNEL(%d, k%d_%s, ", DYN_CUDA_THREADS, k->number, dyn_cuda_form_names[form]);
    put_args(out, k);
    dyn_str_printf(out, ") { k%d_%s(a); }\n", k->number, call);
}

static int put_elementwise(DynStr *out, const DynKernel *k) {
    int rank = dyn_cuda_rank(k);
    dyn_str_printf(out, "DYN_KERNEL(%d, k%d_%s, ", DYN_CUDA_THREADS, k->number, dyn_cuda_form_names[DYN_CUDA_MAP]);
    put_args(out, k);
    dyn_str_printf(out, ") {\n    const int V = %d;\n", dyn_cuda_lanes(k));
    put_scalars(out, k);
    dyn_str_printf(out,
                   "    for (i64 g = (i64)blockIdx.x * blockDim.x + threadIdx.x; g < a.count; g += (i64)gridDim.x * blockDim.x) {\n"
                   "        i64 off[%u] = {};\n"
                   "        i64 last = dyn_place<%d, %u>(a.size, a.magic, a.step, %d - DYN_KEPT(a), %d, DYN_WIDE(a), g, off);\n"
                   "        const int m = (last + 1) * V > a.inner ? (int)(a.inner - last * V) : V;\n",
                   k->operands.n, rank, k->operands.n, rank, rank);
    int failed = put_group(out, k);
    dyn_str_puts(out, "    }\n}\n");
    return failed;
}

/* "[](T a, T b) { return a + b; }" */
static int put_lambda(DynStr *out, const DynInsn *insn) {
    const char *type = type_of((DynDtype)insn->compute);
    dyn_str_printf(out, "[](%s a, %s b) { return ", type, type);
    int failed = put_join(out, insn, "a", "b");
    dyn_str_puts(out, "; }");
    return failed;
}

/* The accumulators of all lanes become one, and that goes to its result, or to the parts of it. */
static int put_results(DynStr *out, const DynInsn *const *results, int n, const char *lanes, const char *apart) {
    int failed = 0;
    for (int r = 0; r < n; r++) {
        const char *type = type_of((DynDtype)results[r]->compute);
        dyn_str_printf(out, "    %s t%d = dyn_across(q%d, ", type, r, r);
        failed |= put_lambda(out, results[r]);
        dyn_str_printf(out, ", lane, %s, %s, (char *)shared);\n", lanes, apart);
    }
    return failed;
}

static void put_result_store(DynStr *out, const DynInsn *insn, int r) {
    dyn_str_printf(out, "*(%s *)(a.at[%u] + off[%u]) = t%d;", type_of((DynDtype)insn->compute), insn->a[0], insn->a[0], r);
}

static int put_reduce(DynStr *out, const DynKernel *k) {
    const DynInsn *results[DYN_MAX_RESULTS];
    int rank = dyn_cuda_rank(k), n = dyn_cuda_results(k, results), failed = 0;
    uint32_t nops = k->operands.n;
    dyn_str_printf(out, "template<int V, bool COLUMNS> __device__ __forceinline__ void k%d_reduce(const ", k->number);
    put_args(out, k);
    dyn_str_printf(out,
                   " &a) {\n    __shared__ double shared[%d];\n"
                   "    const int kept = DYN_KEPT(a), reduced = DYN_REDUCED(a);\n"
                   "    const int lane = COLUMNS ? threadIdx.y : threadIdx.x, lanes = COLUMNS ? blockDim.y : blockDim.x;\n"
                   "    const i64 row = (i64)blockIdx.x * (COLUMNS ? blockDim.x : blockDim.y) + (COLUMNS ? threadIdx.x : threadIdx.y);\n"
                   "    i64 base[%u] = {};\n",
                   DYN_CUDA_THREADS, nops);
    put_scalars(out, k);
    dyn_str_printf(out,
                   "    if (row < a.count) dyn_place<%d, %u>(a.size, a.magic, a.step, %d - reduced - kept, %d - reduced, DYN_WIDE(a), row, base);\n",
                   rank, nops, rank, rank);
    for (int r = 0; r < n; r++) {
        dyn_str_printf(out, "    %s r%d[V]; for (int j = 0; j < V; j++) r%d[j] = ", type_of((DynDtype)results[r]->compute), r, r);
        put_identity(out, results[r]);
        dyn_str_puts(out, ";\n");
    }
    dyn_str_printf(out,
                   "    const i64 groups = row < a.count ? a.groups : 0;\n"
                   "    _Pragma(\"unroll 2\") for (i64 g = lane + (i64)lanes * blockIdx.y; g < groups; g += lanes * a.splits) {\n"
                   "        i64 off[%u]; for (int j = 0; j < %u; j++) off[j] = base[j];\n"
                   "        i64 last = dyn_place<%d, %u>(a.size, a.magic, a.step, %d - reduced, %d, DYN_WIDE(a), g, off);\n"
                   "        const int m = V > 1 && (last + 1) * V > a.inner ? (int)(a.inner - last * V) : V;\n",
                   nops, nops, rank, nops, rank, rank);
    failed |= put_group(out, k);
    dyn_str_puts(out, "    }\n");
    for (int r = 0; r < n; r++) {
        char x[16], y[16];
        snprintf(x, sizeof(x), "q%d", r);
        snprintf(y, sizeof(y), "r%d[j]", r);
        dyn_str_printf(out, "    %s q%d = r%d[0]; for (int j = 1; j < V; j++) q%d = ", type_of((DynDtype)results[r]->compute), r, r, r);
        failed |= put_join(out, results[r], x, y);
        dyn_str_puts(out, ";\n");
    }
    failed |= put_results(out, results, n, "lanes", "COLUMNS ? blockDim.x : 1");
    dyn_str_printf(out, "    if (lane != 0 || row >= a.count) return;\n    i64 *off = base;\n");
    for (int r = 0; r < n; r++) {
        dyn_str_puts(out, "    if (a.splits == 1) ");
        put_result_store(out, results[r], r);
        dyn_str_printf(out, " else ((%s *)(a.parts + %d * a.count * a.splits))[blockIdx.y * a.count + row] = t%d;\n",
                       type_of((DynDtype)results[r]->compute), r * 8, r);
    }
    dyn_str_puts(out, "}\n");
    return failed;
}

/* A warp for each result. */
static int put_finish(DynStr *out, const DynKernel *k) {
    const DynInsn *results[DYN_MAX_RESULTS];
    int rank = dyn_cuda_rank(k), n = dyn_cuda_results(k, results), failed = 0;
    dyn_str_printf(out, "__device__ __forceinline__ void k%d_finish(const ", k->number);
    put_args(out, k);
    dyn_str_printf(out,
                   " &a) {\n    __shared__ double shared[%d];\n"
                   "    const int kept = DYN_KEPT(a), reduced = DYN_REDUCED(a);\n"
                   "    const int lane = threadIdx.x;\n    const i64 row = (i64)blockIdx.x * blockDim.y + threadIdx.y;\n",
                   DYN_CUDA_THREADS);
    for (int r = 0; r < n; r++) {
        const char *type = type_of((DynDtype)results[r]->compute);
        char x[16];
        snprintf(x, sizeof(x), "q%d", r);
        dyn_str_printf(out, "    %s q%d = ", type, r);
        put_identity(out, results[r]);
        dyn_str_printf(out, ";\n    for (i64 s = lane; row < a.count && s < a.splits; s += 32) { %s p = ((const %s *)(a.parts + %d * a.count * a.splits))[s * a.count + row]; q%d = ",
                       type, type, r * 8, r);
        failed |= put_join(out, results[r], x, "p");
        dyn_str_puts(out, "; }\n");
    }
    failed |= put_results(out, results, n, "32", "1");
    dyn_str_printf(out,
                   "    if (lane != 0 || row >= a.count) return;\n    i64 off[%u] = {};\n"
                   "    dyn_place<%d, %u>(a.size, a.magic, a.step, %d - reduced - kept, %d - reduced, DYN_WIDE(a), row, off);\n",
                   k->operands.n, rank, k->operands.n, rank, rank);
    for (int r = 0; r < n; r++) {
        dyn_str_puts(out, "    ");
        put_result_store(out, results[r], r);
        dyn_str_puts(out, "\n");
    }
    dyn_str_puts(out, "}\n");
    return failed;
}

static int put_reduction(DynStr *out, const DynKernel *k) {
    char call[32];
    int failed = put_reduce(out, k) | put_finish(out, k);
    for (DynCudaForm form = DYN_CUDA_ROWS; form <= DYN_CUDA_COLUMNS; form++) {
        bool columns = form == DYN_CUDA_COLUMNS;
        snprintf(call, sizeof(call), "reduce<%d, %s>", columns ? 1 : dyn_cuda_lanes(k), columns ? "true" : "false");
        put_entry(out, k, form, call);
    }
    put_entry(out, k, DYN_CUDA_FINISH, "finish");
    return failed;
}

static int refuse(DynStr *error, DynReason *why, const char *what) {
    dyn_str_puts(error, what);
    *why = DYN_R_LOWERING;
    return -1;
}

int dyn_cuda_emit(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error) {
    const DynCudaInfo *info = dyn_cuda_info(p->graph->device - 1);
    int failed = 0;
    *why = DYN_R_OK;
    if (p->nnative == 0) {
        dyn_str_puts(source, "");
        return 0;
    }
    if (info == NULL) {
        return refuse(error, why, "the driver doesn't say what the device can do");
    }
    dyn_str_printf(source, "// sm_%d\n%s", info->capability, prologue);
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind != DYN_STEP_KERNEL) {
            continue;
        }
        const DynKernel *k = &p->kernels.at[p->steps.at[s].id];
        if (dyn_cuda_words(k) > DYN_CUDA_MOST_WORDS) {
            return refuse(error, why, "a kernel has more operands and axes than it can be handed");
        }
        failed |= k->reduced ? put_reduction(source, k) : put_elementwise(source, k);
    }
    if (failed || source->failed) {
        refuse(error, why, "an expression of the operator table could not be written");
        *why = source->failed ? DYN_R_NO_MEMORY : *why;
        return -1;
    }
    return 0;
}
