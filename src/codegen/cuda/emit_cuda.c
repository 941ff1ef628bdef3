/* emit_cuda.c: loop IR → CUDA C++: the functions of each kernel (cuda.h), behind the prologue.
 *
 * Called by evalframe/compile.c through the target. The text is the same for the same loop IR and the same kind of device, which
 * its first line names. Values are computed as the C of codegen/c computes them, from the same expressions; what an operator of
 * PyTorch's rounds is rounded (NVRTC is told to fuse no product and sum). A reduction's order is the device's: each thread adds
 * what it walks over, and threads are combined as a tree. */
#include "codegen/cuda/cuda.h"

const char dyn_cuda_prologue[] =
#define LINE(text) text "\n"
#include "codegen/cuda/prologue.def"
    ;
const char dyn_cuda_complex[] =
#include "codegen/cuda/complex.def"
#undef LINE
    ;

const char *const dyn_cuda_form_names[DYN_CUDA_FORM_COUNT] = {
#define FORM(NAME, name, speed) [DYN_CUDA_##NAME] = name,
    DYN_CUDA_FORMS(FORM)
#undef FORM
};

static const uint8_t speed_of[DYN_CUDA_FORM_COUNT] = {
#define FORM(NAME, name, speed) [DYN_CUDA_##NAME] = DYN_CUDA_##speed,
    DYN_CUDA_FORMS(FORM)
#undef FORM
};

static const DynInsn *at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

int dyn_cuda_rank(const DynKernel *k) {
    bool grouped = k->group != DYN_NONE, patches = k->ndim > 1 && !k->reduced && !grouped;
    int more = patches ? 2 : grouped && k->outer == k->ndim;
    return k->ndim > 0 ? k->ndim + more : 1;
}

/* Numbers by value: the kernel's own, and two for each operand that is looked up (cuda.h). */
static int nscalars(const DynKernel *k) {
    int n = (int)k->params.n;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        n += k->operands.at[i].indirect ? 2 : 0;
    }
    return n > 0 ? n : 1;
}

int dyn_cuda_words(const DynKernel *k) {
    int rank = dyn_cuda_rank(k), nops = (int)k->operands.n;
    return DYN_CUDA_HEAD + 2 * rank + nops + nops * rank + nscalars(k);
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

int dyn_cuda_part_size(const DynKernel *k) {
    const DynInsn *results[DYN_MAX_RESULTS];
    int size = 8;
    for (int n = dyn_cuda_results(k, results), r = 0; r < n; r++) {
        size = dyn_dtypes[results[r]->compute].size > size ? dyn_dtypes[results[r]->compute].size : size;
    }
    return size;
}

uint32_t dyn_cuda_inner(const DynKernel *k) {
    uint32_t all = (1u << k->ndim) - 1;
    if (k->group != DYN_NONE) {
        return all & ~((1u << k->outer) - 1);
    }
    return k->reduced ? k->reduced : all;
}

/* Has a group's kernel one element for each row? */
static bool is_one_of_group(const DynLoops *p, const DynKernel *k) {
    return k->group != DYN_NONE && dyn_kernel_is_one(p, k, k->outer);
}

/* Does an operand lie in the memory of a row? */
static bool is_in_row(const DynLoops *p, const DynKernel *k, uint32_t operand) {
    return p->places[dyn_loops_storage(p, k->operands.at[operand].place)].kind == DYN_P_ROW;
}

/* Does an operand's size count for V? What stands still along the last axis is read once for a group, as is what says where a row
 * is looked up. Which axis comes last in a reduction nobody knows yet. */
static bool counts_for_lanes(const DynLoops *p, const DynKernel *k, uint32_t operand) {
    bool lone = k->group == DYN_NONE, map = lone && !k->reduced;
    uint32_t last = map && k->ndim > 0 ? 1u << (k->ndim - 1) : dyn_cuda_inner(k);
    return (lone && !map) || dyn_cuda_walks(p, k, operand, last);
}

/* So many elements are 16 bytes of the largest operand; of long kernels fewer, as each is held in registers, and of a group's
 * rows four halves at the most, which are computed as floats. Rows of a group that have one element have one. */
int dyn_cuda_lanes(const DynLoops *p, const DynKernel *k) {
    bool grouped = k->group != DYN_NONE;
    int largest = grouped ? dyn_dtypes[DYN_F32].size : 1;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        int size = dyn_dtypes[k->operands.at[i].dtype].size;
        largest = size > largest && counts_for_lanes(p, k, i) ? size : largest;
    }
    int lanes = 16 / largest, most = k->insns.n > 60 || k->operands.n > 8 ? 2 : 8;
    lanes = lanes < most ? lanes : most;
    return is_one_of_group(p, k) ? 1 : lanes;
}

bool dyn_cuda_walks(const DynLoops *p, const DynKernel *k, uint32_t operand, uint32_t among) {
    const DynOperand *o = &k->operands.at[operand];
    bool walks = false;
    for (int d = 0; d < k->ndim; d++) {
        bool stands = o->axis[d] < 0 || dyn_sym_is_one(p->graph->syms, p->places[o->place].shape[o->axis[d]]);
        walks = walks || ((among >> d & 1) && !stands);
    }
    return walks;
}

/* ---- the body for one group of lanes */

static bool is_stored(const DynKernel *k, uint32_t operand) {
    return k->operands.at[operand].out && !k->operands.at[operand].result;
}

/* How far an operand's group is from the line's first, where FAST: that is known, or a step for each element of a column. */
static void put_distance(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    bool along = dyn_cuda_walks(p, k, i, dyn_cuda_inner(k));
    int step = along ? dyn_dtypes[k->operands.at[i].dtype].size : 0, rank = dyn_cuda_rank(k);
    if (k->reduced && k->group == DYN_NONE && rank > 1) {
        dyn_str_printf(out, "(COLUMNS ? g * a.step[%u][%d] : g * (V * %d))", i, rank - 2, step);
    } else {
        dyn_str_printf(out, "g * (V * %d)", step);
    }
}

/* A map: its last group may have fewer elements than V, m of them. */
static bool is_map(const DynKernel *k) { return !k->reduced && k->group == DYN_NONE; }

/* Is it read? What says where others stand is, too. */
static bool is_fetched(const DynKernel *k, uint32_t operand) {
    return dyn_kernel_is_loaded(k, operand) || dyn_kernel_is_index(k, operand);
}

bool dyn_cuda_stands_in_row(const DynLoops *p, const DynKernel *k, uint32_t operand) {
    bool fetched = k->group != DYN_NONE && is_fetched(k, operand) && !k->operands.at[operand].indirect;
    return fetched && !is_stored(k, operand) && !dyn_cuda_walks(p, k, operand, dyn_cuda_inner(k));
}

/* How an operand is read: positions of an IOTA are made of addresses, which nothing lies at. */
static const char *taken(const DynLoops *p, const DynOperand *o) {
    return p->places[dyn_loops_storage(p, o->place)].kind == DYN_P_COUNT ? "dyn_count" : "dyn_take";
}

/* A kernel of one element is one thread's, which needn't have waited for others. */
static void put_row_elements(DynStr *out, const DynLoops *p, const DynKernel *k) {
    const char *reader = is_one_of_group(p, k) ? "lane" : "0";
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (dyn_cuda_stands_in_row(p, k, i)) {
            dyn_str_printf(out, "    %s c%u[1] = {}; if (FAST && %s < groups) %s<1, 0>(c%u, b%u);\n",
                           dyn_cuda_memory_type((DynDtype)o->dtype), i, reader, taken(p, o), i, i);
            dyn_cuda_put_divisor(out, p, k, i);
        }
    }
}

/* Does an operand have an element for each of V lanes? In columns those lie along other axes. */
static void put_walks(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    uint32_t inner = dyn_cuda_inner(k);
    bool along = dyn_cuda_walks(p, k, i, inner), across = dyn_cuda_walks(p, k, i, ~inner);
    bool differs = along != across && k->reduced && k->group == DYN_NONE;
    if (differs) {
        dyn_str_printf(out, "(COLUMNS ? %d : %d)", across, along);
    } else {
        dyn_str_printf(out, "%d", along);
    }
}

/* The elements of a group as they lie: x<i>. */
static void put_load(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    const DynOperand *o = &k->operands.at[i];
    const char *take = taken(p, o);
    dyn_str_printf(out, "        %s x%u[V]; ", dyn_cuda_memory_type((DynDtype)o->dtype), i);
    if (dyn_cuda_holds(p, k, i)) {
        dyn_str_printf(out, "if (HELD) dyn_copy<V>(x%u, held.h%d[h]); else ", i, dyn_cuda_row_number(p, k->group, o->place));
    }
    if (dyn_cuda_stands_in_row(p, k, i)) {
        dyn_str_printf(out, "if (FAST) dyn_spread<V>(x%u, c%u[0]); else ", i, i);
    } else {
        dyn_str_printf(out, is_map(k) ? "if (FAST) %s_some<V, " : "if (FAST) %s<V, ", take);
        put_walks(out, p, k, i);
        dyn_str_printf(out, ">(x%u, b%u + ", i, i);
        put_distance(out, p, k, i);
        dyn_str_puts(out, is_map(k) ? ", m); else " : "); else ");
    }
    dyn_str_printf(out, "%s_any<PACKED, V>(x%u, b%u + off[%u], apart%u, m);\n", take, i, i, i, i);
}

/* Those of an operand that stand where another one says, which has been read: x<i>. */
static void put_lookup(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t i) {
    const DynOperand *o = &k->operands.at[i];
    int size = dyn_dtypes[o->dtype].size;
    uint32_t scalar = k->params.n;
    for (uint32_t before = 0; before < i; before++) {
        scalar += k->operands.at[before].indirect ? 2 : 0;
    }
    dyn_str_printf(out, "        %s x%u[V]; if (FAST) dyn_find<V, ", dyn_cuda_memory_type((DynDtype)o->dtype), i);
    put_walks(out, p, k, i);
    dyn_str_puts(out, " && !");
    put_walks(out, p, k, o->by);
    dyn_str_printf(out, ">(x%u, b%u + ", i, i);
    put_distance(out, p, k, i);
    dyn_str_printf(out, ", %d * ", size);
    put_walks(out, p, k, i);
    dyn_str_printf(out, ", x%u, a.scalar[%u].i, a.scalar[%u].i, m); else ", o->by, scalar, scalar + 1);
    dyn_str_printf(out,
                   "if (PACKED && apart%u == 0 && apart%u != 0) dyn_find<V, true>(x%u, b%u + off[%u], apart%u, x%u, "
                   "a.scalar[%u].i, a.scalar[%u].i, m); else ",
                   o->by, i, i, i, i, i, o->by, scalar, scalar + 1);
    dyn_str_printf(out, "dyn_find<V, false>(x%u, b%u + off[%u], apart%u, x%u, a.scalar[%u].i, a.scalar[%u].i, m);\n", i, i, i, i,
                   o->by, scalar, scalar + 1);
}

static void put_loads(DynStr *out, const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_fetched(k, i) && !k->operands.at[i].indirect) {
            put_load(out, p, k, i);
        }
        if (is_stored(k, i)) {
            dyn_str_printf(out, "        %s y%u[V];\n", dyn_cuda_memory_type((DynDtype)k->operands.at[i].dtype), i);
        }
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].indirect) {
            put_lookup(out, p, k, i);
        }
    }
}

static void put_stores(DynStr *out, const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (is_stored(k, i)) {
            dyn_str_puts(out, "        ");
            if (dyn_cuda_holds(p, k, i)) {
                dyn_str_printf(out, "if (HELD) dyn_copy<V>(held.h%d[h], y%u); else ",
                               dyn_cuda_row_number(p, k->group, k->operands.at[i].place), i);
            } else if (k->group != DYN_NONE) {
                dyn_str_puts(out, "if (!here) {} else ");
            }
            dyn_str_printf(out, is_map(k) ? "if (FAST) dyn_put_some<V>(y%u, b%u + " : "if (FAST) dyn_put<V>(y%u, b%u + ", i, i);
            put_distance(out, p, k, i);
            dyn_str_puts(out, is_map(k) ? ", m); else " : "); else ");
            dyn_str_printf(out, "dyn_put_any<PACKED, V>(y%u, b%u + off[%u], apart%u, m);\n", i, i, i, i);
        }
    }
}

static int put_group(DynStr *out, const DynLoops *p, const DynKernel *k) {
    int failed = 0, result = 0;
    put_loads(out, p, k);
    failed |= dyn_cuda_put_quotients(out, p, k);
    dyn_str_puts(out, "        _Pragma(\"unroll\") for (int j = 0; j < V; j++) {\n");
    for (uint32_t i = 0; i < k->insns.n; i++) {
        failed |= dyn_cuda_put_insn(out, p, k, i, &result);
    }
    dyn_str_puts(out, "        }\n");
    put_stores(out, p, k);
    return failed;
}

/* Where operands lie: in a group some in the memory of the row. Which those are is known here, so that the others' pointers are
 * known to be the device's memory. */
static void put_pointers(DynStr *out, const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_printf(out, is_in_row(p, k, i) ? "    char *b%u = memory + (i64)a.at[%u];\n" : "    char *b%u = a.at[%u];\n", i,
                       i);
    }
}

static void put_scalars(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        DynDtype dt = (DynDtype)k->params.at[i].dtype;
        dyn_str_printf(out, "    const %s s%u = (%s)a.scalar[%u].%c;\n", dyn_cuda_type(dt), i, dyn_cuda_type(dt), i,
                       dyn_dtypes[dt].kind == 'f' ? 'f' : 'i');
    }
}

/* ---- functions */

static void put_args(DynStr *out, const DynKernel *k) {
    dyn_str_printf(out, "Args<%d, %u, %d>", dyn_cuda_rank(k), k->operands.n, nscalars(k));
}

/* The head of a function: k3_rows of Args<…>, or of a struct of its own where it has tails. */
static void put_entry(DynStr *out, const DynKernel *k, DynCudaForm form, bool has_tails) {
    dyn_str_printf(out, "DYN_KERNEL(%d, k%d_%s, ", DYN_CUDA_THREADS, k->number, dyn_cuda_form_names[form]);
    if (has_tails) {
        dyn_str_printf(out, "T%d", k->number);
    } else {
        put_args(out, k);
    }
    dyn_str_puts(out, ") {\n");
}

static bool has(uint32_t forms, DynCudaForm form) { return forms >> form & 1; }

/* Of a function, as its text has them: is there one axis of either kind, and does it take aligned groups? */
static const char *fast_in(DynCudaForm form) { return speed_of[form] & DYN_CUDA_SINGLE ? "true" : "false"; }

static const char *packed_in(DynCudaForm form) { return speed_of[form] & DYN_CUDA_PACKED ? "true" : "false"; }

/* How far the lanes of each operand's group lie apart, where that isn't known. */
static void put_apart(DynStr *out, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_printf(out, "    const i64 apart%u = FAST ? 0 : dyn_apart<PACKED, V>(a.step[%u][%d], DYN_SPREAD(a));\n", i, i,
                       dyn_cuda_rank(k) - 1);
    }
}

/* V of a function of a reduction or a group. */
static int lanes_in(const DynLoops *p, const DynKernel *k, DynCudaForm form) {
    return speed_of[form] & DYN_CUDA_PACKED ? dyn_cuda_lanes(p, k) : 1;
}

/* Of a map: group g of one line. */
static void put_one_group(DynStr *out, const DynKernel *k) {
    dyn_str_printf(out,
                   "        const i64 off[%u] = {};\n"
                   "        const int m = (g + 1) * V <= a.groups ? V : (int)(a.groups - g * V);\n",
                   k->operands.n);
}

/* Where each operand's group x along the last axis lies. */
static void put_along(DynStr *out, const DynKernel *k, const char *x) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        dyn_str_printf(out, "off[%u] = at[%u] + %s * a.step[%u][%d]; ", i, i, x, i, dyn_cuda_rank(k) - 1);
    }
}

/* … visit g of several axes: groups along the last one. */
static void put_visit(DynStr *out, const DynKernel *k) {
    int rank = dyn_cuda_rank(k);
    dyn_str_printf(
        out,
        "        i64 at[%u] = {};\n"
        "        for (u32 x = dyn_place<false>(a.size, a.magic, a.step, %d - DYN_KEPT(a), %d, g, at); x < (u32)a.along; "
        "x += (u32)a.size[%d]) {\n"
        "        const u32 begin = PACKED ? x : dyn_begin<V>(x, DYN_SPREAD(a));\n"
        "        const int m = PACKED ? V : dyn_left<V>(a.groups, x, DYN_SPREAD(a));\n"
        "        i64 off[%u]; ",
        k->operands.n, rank, rank, rank - 1, k->operands.n);
    put_along(out, k, "begin");
    dyn_str_puts(out, "\n");
}

/* A group of lanes for each thread. */
static int put_elementwise(DynStr *out, const DynLoops *p, const DynKernel *k, uint32_t forms) {
    int failed = 0;
    for (DynCudaForm form = DYN_CUDA_MAP; form <= DYN_CUDA_ANY_MAP; form++) {
        if (!has(forms, form)) {
            continue;
        }
        put_entry(out, k, form, false);
        dyn_str_printf(out, "    const int V = %d;\n    const bool FAST = %s, PACKED = %s;\n",
                       form == DYN_CUDA_ANY_MAP ? DYN_CUDA_ANY_LANES : lanes_in(p, k, form), fast_in(form), packed_in(form));
        put_pointers(out, p, k);
        put_scalars(out, k);
        put_apart(out, k);
        dyn_str_puts(out, "    for (i64 g = (i64)blockIdx.x * blockDim.x + threadIdx.x; g < a.count; g += (i64)gridDim.x * "
                          "blockDim.x) {\n");
        if (speed_of[form] & DYN_CUDA_SINGLE) {
            put_one_group(out, k);
        } else {
            put_visit(out, k);
        }
        failed |= put_group(out, p, k);
        dyn_str_puts(out, speed_of[form] & DYN_CUDA_SINGLE ? "    }\n}\n" : "        }\n    }\n}\n");
    }
    return failed;
}

/* What the lanes have in `value` of result r becomes one: t. */
static int put_across(DynStr *out, const DynInsn *insn, const char *value, int r) {
    const char *type = dyn_cuda_type((DynDtype)insn->compute);
    dyn_str_printf(out, "const %s t = dyn_across(%s, [](%s a, %s b) { return ", type, value, type, type);
    int failed = dyn_cuda_put_join(out, insn, "a", "b");
    dyn_str_printf(out, "; }, lane, lanes, COLUMNS ? blockDim.x : 1, (char *)shared, (%d * (COLUMNS ? V : 1) + j) & 1);\n", r);
    return failed;
}

/* Does an operand lie elsewhere for each of a group's rows? What all of them share is known to, so that its address is the
 * launch's and not a thread's. */
static bool moves_with_row(const DynLoops *p, const DynKernel *k, uint32_t operand) {
    return k->group == DYN_NONE || (!is_in_row(p, k, operand) && dyn_cuda_walks(p, k, operand, ~dyn_cuda_inner(k)));
}

/* A reduction over rows or columns, or the part of a group that is one kernel: what one line of threads does, which has a row.
 * FAST: there is one axis of either kind. */
static void put_line_head(DynStr *out, const DynLoops *p, const DynKernel *k) {
    bool grouped = k->group != DYN_NONE;
    int rank = dyn_cuda_rank(k);
    uint32_t nops = k->operands.n;
    dyn_str_printf(out, "template<bool FAST, bool PACKED, int V, bool COLUMNS%s> __device__ __forceinline__ %s k%d_line(const ",
                   grouped ? ", int HELD, class Rows" : "", grouped ? "void" : "bool", k->number);
    put_args(out, k);
    dyn_str_printf(out, " &a, i64 row, int lane, int lanes, char *memory, double *shared%s) {\n", grouped ? ", Rows &held" : "");
    dyn_str_printf(out,
                   "    const int kept = DYN_KEPT(a), reduced = DYN_REDUCED(a), R = %d;\n"
                   "    const bool in = row < a.count;\n    i64 base[%u] = {};\n",
                   rank, nops);
    put_pointers(out, p, k);
    put_scalars(out, k);
    put_apart(out, k);
    if (rank > 1) {
        dyn_str_puts(out, "    if (FAST) { ");
        for (uint32_t i = 0; i < nops; i++) {
            if (moves_with_row(p, k, i)) {
                dyn_str_printf(out, "base[%u] = row * a.step[%u][COLUMNS ? R - 1 : R - 2]; ", i, i);
            }
        }
        dyn_str_printf(out,
                       "}\n    else if (in) dyn_place<true>(a.size, a.magic, a.step, COLUMNS ? R - kept : R - reduced - kept, "
                       "COLUMNS ? R : R - reduced, row, base);\n");
    }
    for (uint32_t i = 0; i < nops; i++) {
        dyn_str_printf(out, "    b%u += base[%u];\n", i, i);
    }
}

/* Where rows are held a thread's groups are so many, and each has a number that is known when it is compiled. So that all can be
 * read at once nothing is asked before: where a row has fewer, it is the first again, and what comes of it is thrown away. */
static void put_loop_head(DynStr *out, const DynLoops *p, const DynKernel *k) {
    bool grouped = k->group != DYN_NONE;
    dyn_str_puts(out, grouped ? "    typedef typename GroupNumber<HELD>::type I;\n    const I groups = in ? (I)a.groups : 0;\n"
                              : "    const i64 groups = in ? a.groups : 0;\n");
    put_row_elements(out, p, k);
    if (k->group == DYN_NONE) {
        dyn_str_puts(
            out, "    _Pragma(\"unroll (FAST ? V == 1 ? 8 : 4 : 1)\") for (i64 g = lane + (i64)lanes * blockIdx.y; g < groups; "
                 "g += lanes * a.splits) {\n");
    } else {
        dyn_str_puts(out, "    I next = lane;\n"
                          "    _Pragma(\"unroll (HELD ? HELD : FAST ? V == 1 ? 8 : 2 : 1)\") for (int h = 0; HELD ? h < HELD && "
                          "groups > 0 : next < "
                          "groups; h++, next += lanes) {\n"
                          "        const bool here = !HELD || next < groups;\n        const I g = here ? next : 0;\n");
    }
}

/* Where a group of lanes stands in its row. A row that is held has one axis; of several axes g is a visit. */
static void put_places(DynStr *out, const DynKernel *k) {
    uint32_t nops = k->operands.n;
    dyn_str_printf(
        out,
        "        const bool VISITS = !FAST && !COLUMNS%s;\n"
        "        i64 at[%u] = {};\n"
        "        u32 x = VISITS ? dyn_place<false>(a.size, a.magic, a.step, R - reduced, R, g, at) : (u32)g;\n"
        "        do {\n"
        "        i64 off[%u] = {};\n"
        "        if (!FAST && COLUMNS) dyn_place<true>(a.size, a.magic, a.step, R - kept - reduced, R - kept, g, off);\n"
        "        else if (!FAST) { ",
        k->group != DYN_NONE ? " && !HELD" : "", nops, nops);
    put_along(out, k, "x");
    dyn_str_puts(out, "}\n        const int m = V;\n");
}

static int put_line_loop(DynStr *out, const DynLoops *p, const DynKernel *k) {
    put_loop_head(out, p, k);
    put_places(out, k);
    int failed = put_group(out, p, k);
    dyn_str_puts(out, "        } while (VISITS && (x += (u32)a.size[R - 1]) < (u32)a.along);\n    }\n");
    return failed;
}

/* What the line's threads have becomes one, and goes to its result, or to the parts of it. In columns each of V accumulators is a
 * result of its own. */
static int put_line_end(DynStr *out, const DynKernel *k, const DynInsn *insn, int r) {
    const char *type = dyn_cuda_type((DynDtype)insn->compute);
    char x[16], y[16];
    uint32_t to = insn->a[0];
    snprintf(x, sizeof(x), "r%d[0]", r);
    snprintf(y, sizeof(y), "r%d[j]", r);
    dyn_str_printf(out, "    if (!COLUMNS) for (int j = 1; j < V; j++) r%d[0] = ", r);
    int failed = dyn_cuda_put_join(out, insn, x, y);
    dyn_str_puts(out, ";\n    _Pragma(\"unroll\") for (int j = 0; j < (COLUMNS ? V : 1); j++) {\n");
    dyn_str_puts(out, "        ");
    failed |= put_across(out, insn, y, r);
    dyn_str_puts(out, "        if (lane != 0 || !in) continue;\n");
    dyn_str_printf(out, "        %s *const to = (%s *)b%u + j;\n", type, type, to);
    if (k->group == DYN_NONE) {
        dyn_str_printf(out,
                       "        const i64 width = COLUMNS ? V : 1, all = a.count * width;\n"
                       "        if (a.splits > 1) ((%s *)(a.parts + %d * all * a.splits))[blockIdx.y * all + row * width + j] = "
                       "t; else *to = t;\n    }\n",
                       type, dyn_cuda_part_size(k) * r);
    } else {
        dyn_str_puts(out, "        *to = t;\n    }\n");
    }
    return failed;
}

/* Where blocks share a result the last of them to be done puts together what all have left. */
static int put_last(DynStr *out, const DynKernel *k, const DynInsn *insn, int r) {
    const char *type = dyn_cuda_type((DynDtype)insn->compute);
    dyn_str_printf(out,
                   "        {\n            const int width = COLUMNS ? V : 1; const i64 all = a.count * width;\n"
                   "            %s q[width]; for (int j = 0; j < width; j++) q[j] = ",
                   type);
    dyn_cuda_put_identity(out, insn);
    dyn_str_printf(out,
                   ";\n            for (u32 s = lane; in && s < a.splits; s += lanes) _Pragma(\"unroll\") for (int j = 0; j < "
                   "width; j++) { const %s p = Left<%s>::at(a.parts + %d * all * a.splits + (s * all + row * width + j) * "
                   "sizeof(%s)); q[j] = ",
                   type, type, dyn_cuda_part_size(k) * r, type);
    int failed = dyn_cuda_put_join(out, insn, "q[j]", "p");
    dyn_str_puts(out, "; }\n            _Pragma(\"unroll\") for (int j = 0; j < width; j++) { ");
    failed |= put_across(out, insn, "q[j]", r);
    dyn_str_printf(out, "            if (lane == 0 && in) ((%s *)b%u)[j] = t; }\n        }\n", type, insn->a[0]);
    return failed;
}

/* The answer of a line that isn't one of a group's: has this thread stored results? */
static int put_line(DynStr *out, const DynLoops *p, const DynKernel *k) {
    const DynInsn *results[DYN_MAX_RESULTS];
    int n = dyn_cuda_results(k, results), failed = 0;
    put_line_head(out, p, k);
    for (int r = 0; r < n; r++) {
        dyn_str_printf(out, "    %s r%d[V]; for (int j = 0; j < V; j++) r%d[j] = ", dyn_cuda_type((DynDtype)results[r]->compute),
                       r, r);
        dyn_cuda_put_identity(out, results[r]);
        dyn_str_puts(out, ";\n");
    }
    failed |= put_line_loop(out, p, k);
    for (int r = 0; r < n; r++) {
        failed |= put_line_end(out, k, results[r], r);
    }
    if (k->group == DYN_NONE) {
        dyn_str_puts(out, "    const bool last = a.splits == 1 || dyn_is_last(a.done + blockIdx.x, a.splits, (int *)shared);\n"
                          "    if (a.splits > 1 && last) {\n");
        for (int r = 0; r < n; r++) {
            failed |= put_last(out, k, results[r], r);
        }
        dyn_str_puts(out, "    }\n    return last && in && lane == 0;\n");
    }
    dyn_str_puts(out, "}\n");
    return failed;
}

/* The thread that has stored a reduction's one result goes on with its tails. */
static void put_tail_calls(DynStr *out, const DynLoops *p, uint32_t step) {
    for (uint32_t s = step + 1; s < dyn_loops_tails_end(p, step); s++) {
        int number = dyn_loops_kernel_at(p, s)->number;
        dyn_str_printf(out, "    if (stored) k%d_tail(a.k%d);\n", number, number);
    }
}

/* Functions of a reduction's tails, and the struct that it is handed with theirs. */
static int put_tails(DynStr *out, const DynLoops *p, uint32_t step) {
    uint32_t end = dyn_loops_tails_end(p, step);
    int failed = 0;
    for (uint32_t s = step + 1; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        dyn_str_printf(out, "__device__ __forceinline__ void k%d_tail(const ", k->number);
        put_args(out, k);
        dyn_str_printf(out,
                       " &a) {\n    const bool FAST = true, PACKED = false; const int V = 1, m = 1; const i64 g = 0;\n"
                       "    i64 off[%u] = {};\n",
                       k->operands.n);
        put_pointers(out, p, k);
        put_scalars(out, k);
        put_apart(out, k);
        failed |= put_group(out, p, k);
        dyn_str_puts(out, "}\n");
    }
    if (end > step + 1) {
        dyn_str_printf(out, "struct T%d : ", dyn_loops_kernel_at(p, step)->number);
        put_args(out, dyn_loops_kernel_at(p, step));
        dyn_str_puts(out, " { ");
        for (uint32_t s = step + 1; s < end; s++) {
            put_args(out, dyn_loops_kernel_at(p, s));
            dyn_str_printf(out, " k%d; ", dyn_loops_kernel_at(p, s)->number);
        }
        dyn_str_puts(out, "};\n");
    }
    return failed;
}

static int put_reduction(DynStr *out, const DynLoops *p, uint32_t step, uint32_t forms) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    bool has_tails = dyn_loops_tails_end(p, step) > step + 1;
    int failed = put_line(out, p, k) | put_tails(out, p, step);
    for (DynCudaForm form = DYN_CUDA_ROWS; form <= DYN_CUDA_ANY_COLUMNS; form++) {
        bool columns = form >= DYN_CUDA_COLUMNS;
        if (!has(forms, form)) {
            continue;
        }
        put_entry(out, k, form, has_tails);
        dyn_str_printf(out,
                       "    alignas(16) __shared__ double shared[%d];\n    const bool stored = k%d_line<%s, %s, %d, %s>(a, "
                       "(i64)blockIdx.x * "
                       "blockDim.%c + threadIdx.%c, "
                       "threadIdx.%c, blockDim.%c, nullptr, shared);\n",
                       DYN_CUDA_THREADS * dyn_cuda_part_size(k) / 8, k->number, fast_in(form), packed_in(form),
                       lanes_in(p, k, form), columns ? "true" : "false", columns ? 'x' : 'y', columns ? 'x' : 'y',
                       columns ? 'y' : 'x', columns ? 'y' : 'x');
        put_tail_calls(out, p, step);
        dyn_str_puts(out, "}\n");
    }
    return failed;
}

/* ---- groups */

int dyn_cuda_group_words(const DynLoops *p, uint32_t step) {
    int words = DYN_CUDA_GROUP_HEAD;
    for (uint32_t s = step, end = dyn_loops_group_end(p, step); s < end; s++) {
        words += dyn_cuda_words(dyn_loops_kernel_at(p, s));
    }
    return words;
}

/* Does the kernel read or write rows that threads hold? Any other walks as far as its own row goes: one of an element is one
 * thread's. */
static bool touches_held(const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (dyn_cuda_holds(p, k, i)) {
            return true;
        }
    }
    return false;
}

/* Does one thread do it, with what that thread has? Then the others needn't have come as far. */
static bool is_one_threads(const DynLoops *p, const DynKernel *k, DynCudaHeld h) {
    const DynInsn *results[DYN_MAX_RESULTS];
    return h.small && is_one_of_group(p, k) && dyn_cuda_results(k, results) == 0;
}

static const char walk_over_rows[] =
    "    for (i64 first = (i64)blockIdx.x * blockDim.y; first < a.rows; first += (i64)gridDim.x * blockDim.y) {\n"
    "        char *const block = a.memory != nullptr ? a.memory + (i64)blockIdx.x * blockDim.y * a.bytes : (char *)row_memory;\n";
/* There is a block for every row, or for as many as it has lines: what keeps its place takes a third of the registers. */
static const char take_a_row[] = "    {\n        const i64 first = (i64)blockIdx.x * blockDim.y;\n"
                                 "        char *const block = (char *)row_memory;\n";

static void put_group_entry(DynStr *out, const DynLoops *p, uint32_t step, DynCudaForm form) {
    DynCudaHeld h = form >= DYN_CUDA_HELD_GROUP ? dyn_cuda_held(p, step) : (DynCudaHeld){0};
    int first = dyn_loops_kernel_at(p, step)->number, held = form == DYN_CUDA_SINGLE_HELD_GROUP ? h.singles : h.groups;
    uint32_t end = dyn_loops_group_end(p, step);
    dyn_str_printf(out,
                   "DYN_KERNEL(%d, k%d_%s, G%d) {\n    DYN_ROW_MEMORY;\n    alignas(16) __shared__ double shared[256];\n"
                   "    const int lane = threadIdx.x, lanes = blockDim.x;\n%s"
                   "        const i64 row = first + threadIdx.y;\n        H%d<%d, %d> held;\n"
                   "        char *const memory = block + threadIdx.y * a.bytes;\n",
                   held ? DYN_CUDA_HELD_THREADS : DYN_CUDA_GROUP_THREADS, first, dyn_cuda_form_names[form], first,
                   h.small ? take_a_row : walk_over_rows, first, held ? held : 1, form != DYN_CUDA_SINGLE_HELD_GROUP);
    for (uint32_t s = step; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s), *next = s + 1 < end ? dyn_loops_kernel_at(p, s + 1) : NULL;
        bool waits = next == NULL ? !h.small : !is_one_threads(p, next, h);
        dyn_str_printf(out, "        k%d_line<%s, %s, %d, false, %d>(a.k%d, row, lane, lanes, memory, shared, held);\n%s",
                       k->number, fast_in(form), packed_in(form), lanes_in(p, k, form), held > 0 && touches_held(p, k) ? held : 0,
                       k->number, waits ? "        __syncthreads();\n" : "");
    }
    dyn_str_puts(out, "    }\n}\n");
}

/* The struct of rows that are held, for K groups of a thread, or K elements. */
static void put_held(DynStr *out, const DynLoops *p, uint32_t step, uint32_t end) {
    dyn_str_printf(out, "template<int K, bool GROUPED> struct H%d { ", dyn_loops_kernel_at(p, step)->number);
    for (uint32_t s = step; s < end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        for (uint32_t i = 0; i < k->operands.n; i++) {
            const DynOperand *o = &k->operands.at[i];
            if (o->out && dyn_cuda_holds(p, k, i)) {
                const char *type = dyn_cuda_memory_type((DynDtype)o->dtype);
                dyn_str_printf(out, "%s h%d[K][GROUPED ? %d : 1]; ", type, dyn_cuda_row_number(p, k->group, o->place),
                               dyn_cuda_lanes(p, k));
            }
        }
    }
    dyn_str_puts(out, "};\n");
}

/* Lines of threads have a row each, and do all kernels for it, then take the next. */
static int put_rows(DynStr *out, const DynLoops *p, uint32_t step, uint32_t forms) {
    uint32_t end = dyn_loops_group_end(p, step);
    int failed = 0;
    put_held(out, p, step, end);
    for (uint32_t s = step; s < end; s++) {
        failed |= put_line(out, p, dyn_loops_kernel_at(p, s));
    }
    dyn_str_printf(out, "struct G%d { i64 rows, bytes; char *memory; ", dyn_loops_kernel_at(p, step)->number);
    for (uint32_t s = step; s < end; s++) {
        put_args(out, dyn_loops_kernel_at(p, s));
        dyn_str_printf(out, " k%d; ", dyn_loops_kernel_at(p, s)->number);
    }
    dyn_str_puts(out, "};\n");
    uint32_t none = dyn_cuda_held(p, step).groups > 0 ? 1u << DYN_CUDA_GROUP : 7u << DYN_CUDA_HELD_GROUP;
    for (DynCudaForm form = DYN_CUDA_GROUP; form <= DYN_CUDA_SINGLE_HELD_GROUP; form++) {
        if (has(forms & ~none, form)) {
            put_group_entry(out, p, step, form);
        }
    }
    return failed;
}

static int refuse(DynStr *error, DynReason *why, const char *what) {
    dyn_str_puts(error, what);
    *why = DYN_R_LOWERING;
    return -1;
}

int dyn_cuda_emit_step(const DynLoops *p, uint32_t step, uint32_t forms, DynStr *out) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    if (k->group != DYN_NONE) {
        return put_rows(out, p, step, forms);
    }
    return k->reduced ? put_reduction(out, p, step, forms) : put_elementwise(out, p, k, forms);
}

static bool has_complex(const DynLoops *p) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        for (uint32_t i = 0; k != NULL && i < k->insns.n; i++) {
            if (k->insns.at[i].kind != DYN_L_STORE && dyn_dtype_is_complex((DynDtype)k->insns.at[i].dtype)) {
                return true; /* a value that a store or a reduction takes has been made */
            }
        }
    }
    return false;
}

int dyn_cuda_emit_forms(const DynLoops *p, const DynCudaInfo *info, const uint32_t *forms, DynStr *out) {
    int failed = 0, next = 0;
    dyn_str_printf(out, "// sm_%d\n%s%s", info->capability, dyn_cuda_prologue, has_complex(p) ? dyn_cuda_complex : "");
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (k == NULL) {
            continue;
        }
        uint32_t end = dyn_cuda_step_end(p, s);
        if (k->number >= next) { /* else its code is that of one before */
            failed |= dyn_cuda_emit_step(p, s, forms == NULL ? ~0u : forms[k->number], out);
            next = dyn_loops_kernel_at(p, end - 1)->number + 1;
        }
        s = end - 1;
    }
    return failed || out->failed ? -1 : 0;
}

static bool can_be_handed(const DynLoops *p) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (k != NULL && (k->ndim + 2 > DYN_MAX_NDIM || dyn_cuda_group_words(p, s) > DYN_CUDA_MOST_WORDS)) {
            return false; /* arrange.c adds two axes */
        }
    }
    return true;
}

int dyn_cuda_emit(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error) {
    const DynCudaInfo *info = dyn_cuda_info(p->graph->device - 1);
    *why = DYN_R_OK;
    if (p->nnative == 0) {
        dyn_str_puts(source, "");
        return 0;
    }
    if (info == NULL) {
        return refuse(error, why, "the driver doesn't say what the device can do");
    }
    if (!can_be_handed(p)) {
        return refuse(error, why, "kernels have more operands and axes than they can be handed");
    }
    if (dyn_cuda_number_alike(p) < 0 || dyn_cuda_emit_forms(p, info, NULL, source) < 0) {
        refuse(error, why, "an expression of the operator table could not be written");
        *why = source->failed ? DYN_R_NO_MEMORY : *why;
        return -1;
    }
    return 0;
}
