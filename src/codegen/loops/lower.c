/* lower.c: graph → loop IR. Decides which values get memory, then makes one kernel for each value that has it (and for each
 * STORE).
 *
 * Called by evalframe/compile.c through dyn_lower. Everything is in the capture's arena.
 *
 * A value without memory is recomputed where it is used, at the position of the kernel that uses it. So a value gets memory when
 * Python or an extern call needs it, when a view or a STORE addresses its bytes, when what it reads is overwritten before its
 * last use, when it is spread over a larger space, and when it is dear and used by kernels that can't become one. */
#include "base/log.h"
#include "codegen/loops/loops.h"
#include "ir/extern.h"

typedef struct Lower {
    DynLoops *p;
    const DynGraph *g;
    bool *live, *memory, *object; /* by node: needed; has memory of its own; an ndarray of it is needed */
    bool *after_extern;           /* geometry is known only after an extern call */
    bool *part;         /* REAL or IMAG of which only the numbers are needed: taken of the complex number in the kernel */
    bool *written;      /* by storage: some node writes it */
    bool *looks;        /* computing it looks places up */
    uint32_t *last_use; /* last position of a kernel that evaluates it */
    uint32_t *depth;    /* number of kernels that have to run before */
    bool *for_flags;    /* by node: nobody reads it, but computing it may give a warning */
    uint64_t *used_by;  /* signature of the kernels that use it: 0 none, 1 several */
    uint32_t *cost;
    uint32_t *memo, *stamp; /* build: node → instruction of the kernel with this stamp */
    uint32_t now;
    uint32_t last_snapshot; /* position of the last node that can be left at, or 0 */
    DynStr *error;
} Lower;

static const DynOpInfo *info(const DynNode *n) { return &dyn_ops[n->op]; }

static bool is_inline(const DynNode *n) {
    switch (info(n)->kind) {
    case DYN_K_ELEMENTWISE:
    case DYN_K_GATHER:
    case DYN_K_COPY: return true;
    case DYN_K_CREATE: return n->nargs && n->args[0].kind == DYN_ARG_SYM;
    default: return false;
    }
}

static bool is_view(const DynNode *n) { return n->flags & DYN_NODE_VIEW; }

uint32_t dyn_op_cost(uint16_t op, uint8_t dtype) {
    uint32_t unit = dyn_dtypes[dtype].size > 4 ? 2 : 1;
    if (dyn_dtypes[dtype].kind == 'c' && (dyn_ops[op].flags & DYN_OPF_VECTOR_CALL)) {
        return 200; /* a call for each element */
    }
    if (dyn_ops[op].flags & (DYN_OPF_VECTOR_CALL | DYN_OPF_EXPENSIVE)) {
        return 8 * unit;
    }
    return op == DYN_OP_DIVIDE || op == DYN_OP_SQRT || op == DYN_OP_RECIPROCAL ? 3 * unit : unit;
}

/* ---- what is needed */

static void mark_args_live(Lower *L, const DynNode *n, bool *read) {
    for (uint32_t i = 0; i < n->nargs; i++) {
        if (n->args[i].kind == DYN_ARG_NODE) {
            L->live[n->args[i].id] = true;
            read[dyn_graph_node(L->g, n->args[i].id)->storage] = true;
        }
    }
}

/* May a conversion raise a flag that NumPy speaks of? */
bool dyn_loops_cast_warns(uint8_t from, uint8_t to) {
    char a = dyn_dtypes[from].kind, b = dyn_dtypes[to].kind;
    int width_a = dyn_dtypes[from].size / (a == 'c' ? 2 : 1), width_b = dyn_dtypes[to].size / (b == 'c' ? 2 : 1);
    bool floats = b == 'f' || b == 'c';
    return a == 'f' || a == 'c' ? b == 'i' || b == 'u' || (floats && width_b < width_a)
                                : dyn_dtype_is_half((DynDtype)to) && width_a >= 2;
}

static bool arg_may_warn(const DynGraph *g, DynArg arg, uint8_t to) {
    if (arg.kind == DYN_ARG_SYM) {
        return dyn_dtype_is_half((DynDtype)to) || (to == DYN_F32 && dyn_sym_at(g->syms, arg.id)->type == DYN_T_FLOAT);
    }
    return arg.kind == DYN_ARG_NODE && dyn_loops_cast_warns(dyn_graph_node(g, arg.id)->dtype, to);
}

bool dyn_loops_op_warns(uint16_t op, uint8_t compute) {
    char kind = dyn_dtypes[compute].kind;
    const char *fpe = kind == 'c' && dyn_complex_ops[op].fpe ? dyn_complex_ops[op].fpe : dyn_ops[op].fpe;
    bool scalar = strncmp(dyn_ops[op].text, "scalar_", 7) == 0; /* of integers these overflow */
    return strpbrk(fpe, kind == 'f' || kind == 'c' || scalar ? "dio" : "d") != NULL;
}

/* May eager give a floating-point warning, or raise, at this node? Underflow is not spoken of unless asked for. */
static bool may_warn(const DynGraph *g, const DynNode *n) {
    const DynOpInfo *op = info(n);
    if (n->op == DYN_OP_SCATTER) {
        return n->aux[0] >= 0 && (dyn_dtypes[n->dtype].kind == 'f' || dyn_dtypes[n->dtype].kind == 'c');
    }
    if (op->kind == DYN_K_STORE) {
        return arg_may_warn(g, n->args[1], dyn_graph_node(g, n->args[0].id)->dtype);
    }
    if (op->kind == DYN_K_COPY) {
        return arg_may_warn(g, n->args[0], n->dtype);
    }
    if (op->kind != DYN_K_ELEMENTWISE && op->kind != DYN_K_REDUCE && op->kind != DYN_K_SCAN) {
        return false;
    }
    bool warns = dyn_loops_op_warns(n->op, n->compute) || dyn_loops_cast_warns(n->compute, n->dtype);
    for (uint32_t i = 0; i < n->nargs && !warns; i++) {
        warns = arg_may_warn(g, n->args[i], n->compute);
    }
    return warns;
}

static int mark_live(Lower *L) {
    const DynGraph *g = L->g;
    bool *read = DYN_NEW_N(L->p->arena, bool, g->nodes.n + 1);
    if (!read) {
        return -1;
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        uint32_t id = g->outputs.at[i];
        L->live[id] = L->object[id] = true;
        read[dyn_graph_node(g, id)->storage] = true;
    }
    for (uint32_t i = g->nodes.n; i-- > 0;) {
        const DynNode *n = dyn_graph_node(g, i);
        L->live[i] |= n->op == DYN_OP_HISTOGRAM; /* its edges may be none */
        if (n->op == DYN_OP_EXTERN) {
            L->live[i] = true;
            L->last_snapshot = L->last_snapshot || n->snapshot == DYN_NONE ? L->last_snapshot : i;
        } else if (dyn_node_stores(n)) {
            const DynNode *owner = dyn_graph_node(g, n->storage);
            L->live[i] = owner->op == DYN_OP_INPUT || read[n->storage] || i < L->last_snapshot || n->op == DYN_OP_SCATTER;
            if (L->live[i] && i < L->last_snapshot) {
                L->object[n->storage] = true; /* whoever leaves needs its bytes */
            }
        }
        if (!L->live[i] && n->op == DYN_OP_GATHER) { /* nobody needs the value, but the places are looked at */
            L->live[n->args[1].id] = true;
            read[dyn_graph_node(g, n->args[1].id)->storage] = true;
        }
        if (!L->live[i]) {
            if ((n->flags & DYN_NODE_TWIN) || !may_warn(g, n)) {
                continue;
            }
            L->live[i] = true; /* nobody needs the value, but the warning */
            L->for_flags[dyn_node_stores(n) ? n->storage : i] = true;
            L->memory[i] = !dyn_node_stores(n);
        }
        L->object[i] |= n->op == DYN_OP_IOTA; /* run.c fills it where it makes arrays */
        mark_args_live(L, n, read);
        for (uint32_t k = 0; n->op == DYN_OP_EXTERN && k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                L->object[n->args[k].id] = true;
            }
        }
        if (is_view(n)) {
            L->live[n->storage] = true;
            L->object[n->storage] |= L->object[i];
        } else if (dyn_node_stores(n)) {
            L->live[n->storage] = true;
        }
    }
    return 0;
}

/* A read of node `id` is overwritten by a STORE strictly between two positions. */
static bool overwritten(const Lower *L, const DynNode *n, uint32_t from, uint32_t to) {
    for (uint32_t s = from + 1; s < to; s++) {
        uint32_t written = dyn_graph_written(L->g, s);
        if (written == DYN_NONE) {
            continue;
        }
        for (uint32_t i = 0; i < n->nargs; i++) {
            if (n->args[i].kind == DYN_ARG_NODE && dyn_graph_node(L->g, n->args[i].id)->storage == written) {
                return true;
            }
        }
    }
    return false;
}

/* Values that someone who leaves could no longer compute, since what they read has been written: kept as arrays. */
static void keep_for_snapshots(Lower *L) {
    bool writes = false;
    for (uint32_t i = 0; i < L->last_snapshot && !writes; i++) {
        writes = dyn_graph_written(L->g, i) != DYN_NONE;
    }
    for (uint32_t i = 0; writes && i < L->last_snapshot; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        uint8_t kind = info(n)->kind;
        if ((kind == DYN_K_ELEMENTWISE || kind == DYN_K_COPY || kind == DYN_K_REDUCE || kind == DYN_K_SCAN ||
             kind == DYN_K_GATHER) &&
            overwritten(L, n, i, L->last_snapshot)) {
            L->live[i] = L->object[i] = true;
        }
    }
    for (uint32_t i = L->last_snapshot; writes && i-- > 0;) { /* and all that they are made of */
        const DynNode *n = dyn_graph_node(L->g, i);
        for (uint32_t k = 0; L->live[i] && k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE) {
                L->live[n->args[k].id] = true;
            }
        }
        L->live[n->storage] |= L->live[i] && is_view(n);
    }
}

static bool same_shape(const DynNode *a, const DynNode *b) {
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim);
}

static uint32_t reduce_mask(const DynNode *n, const DynNode *arg) {
    uint32_t mask = 0;
    for (uint32_t i = 1; i < n->naux; i++) {
        mask |= 1u << n->aux[i];
    }
    return n->naux == 1 ? (1u << arg->ndim) - 1 : mask;
}

static bool is_trailing(uint32_t mask, uint32_t ndim) {
    uint32_t full = (1u << ndim) - 1;
    return ((mask ^ full) & ((mask ^ full) + 1)) == 0;
}

/* Which kernels could become one: the same space at the same depth. */
static uint64_t signature(const Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    const DynNode *space = n;
    uint64_t depth = L->depth[id], mask = 0;
    if (info(n)->kind == DYN_K_REDUCE) {
        space = dyn_graph_node(L->g, n->args[0].id);
        depth = L->depth[n->args[0].id];
        mask = reduce_mask(n, space);
        bool rows = is_trailing(mask, space->ndim) && !dyn_short_rows(L->g, space->shape, space->ndim, (uint32_t)mask);
        mask = rows ? 0 : mask;
    }
    uint64_t h = dyn_hash64(space->shape, sizeof(*space->shape) * space->ndim, depth * 64 + mask * 8192 + space->ndim);
    return h < 2 ? h + 2 : h;
}

/* The extern call behind which a list of symbols is known: 1 + its node, or 0. */
static uint32_t known_after(const Lower *L, const uint32_t *syms, int n) {
    uint32_t after = 0;
    for (int i = 0; i < n; i++) {
        uint32_t one = dyn_sym_at(L->g->syms, syms[i])->after;
        after = after > one ? after : one;
    }
    return after;
}

static bool is_late_view(const Lower *L, const DynNode *n) {
    bool late = is_view(n) && (L->after_extern[n->args[0].id] || known_after(L, n->shape, n->ndim));
    for (uint32_t k = 1; is_view(n) && k < n->nargs; k++) {
        late |= n->args[k].kind == DYN_ARG_SYM && dyn_sym_is_late(L->g->syms, n->args[k].id);
    }
    return late;
}

/* z.real and z.imag that are computed with only: not handed out, not looked at through another view, of memory that nobody
 * writes. */
static void find_parts(Lower *L) {
    const DynGraph *g = L->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        uint8_t kind = info(n)->kind;
        bool computes = kind == DYN_K_ELEMENTWISE || kind == DYN_K_COPY || kind == DYN_K_REDUCE;
        uint32_t written = L->live[i] ? dyn_graph_written(g, i) : DYN_NONE;
        if (written != DYN_NONE) {
            L->written[written] = true;
        }
        L->part[i] = L->live[i] && !L->object[i] && (n->op == DYN_OP_REAL || n->op == DYN_OP_IMAG);
        for (uint32_t k = 0; L->live[i] && !computes && k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE && !(kind == DYN_K_STORE && k == 1)) {
                L->part[n->args[k].id] = false;
            }
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        L->part[i] = L->part[i] && !L->written[dyn_graph_node(g, i)->storage];
    }
}

#define GATHER_COST 8 /* as dyn_op_cost counts */

static void measure(Lower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        uint32_t depth = 0, cost = info(n)->kind == DYN_K_ELEMENTWISE ? dyn_op_cost(n->op, n->compute) : 0;
        cost = n->op == DYN_OP_GATHER ? GATHER_COST : cost;
        bool heavy = false;
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->args[k].kind != DYN_ARG_NODE) {
                continue;
            }
            uint32_t a = n->args[k].id;
            const DynNode *arg = dyn_graph_node(L->g, a);
            depth = depth > L->depth[a] ? depth : L->depth[a];
            L->looks[i] |= is_inline(n) && L->looks[a];
            cost += (is_inline(arg) || L->part[a]) && n->op != DYN_OP_GATHER && cost < 100000 ? L->cost[a] : 0;
            heavy |= ((is_view(n) && !L->part[i]) || n->op == DYN_OP_GATHER) && is_inline(arg);
        }
        uint8_t kind = info(n)->kind;
        bool known_late = kind == DYN_K_EXTERN || kind == DYN_K_RESULT;
        L->looks[i] |= n->op == DYN_OP_GATHER;
        L->depth[i] = depth + (kind == DYN_K_REDUCE || kind == DYN_K_SCAN || known_late || heavy);
        L->cost[i] = cost;
        L->after_extern[i] = known_late || known_after(L, n->shape, n->ndim) || is_late_view(L, n);
    }
}

/* Tell the operands of a live node by whom, when and over which space they are evaluated. */
static void tell_operands(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    bool root = (!is_inline(n) && !L->part[id]) || L->memory[id];
    uint64_t sig = root ? signature(L, id) : L->used_by[id];
    uint32_t at = root ? id : L->last_use[id];
    uint8_t kind = info(n)->kind;
    if (kind == DYN_K_INPUT || kind == DYN_K_CREATE || kind == DYN_K_RESULT) {
        return;
    }
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (n->args[k].kind != DYN_ARG_NODE) {
            continue;
        }
        uint32_t a = n->args[k].id;
        const DynNode *arg = dyn_graph_node(L->g, a);
        bool memory = kind == DYN_K_EXTERN || kind == DYN_K_SCAN || kind == DYN_K_GATHER || n->op == DYN_OP_SCATTER ||
                      (kind == DYN_K_STORE && k == 0);
        if (memory || (is_view(n) && !L->part[id])) {
            L->memory[a] |= is_inline(arg);
            continue;
        }
        L->last_use[a] = L->last_use[a] > at ? L->last_use[a] : at;
        L->used_by[a] = L->used_by[a] == 0 || L->used_by[a] == sig ? sig : 1;
        bool spread = kind != DYN_K_REDUCE && !same_shape(arg, n);
        /* where lanes are neighbouring results they have to lie side by side */
        L->memory[a] |= kind == DYN_K_REDUCE && L->looks[a] && is_inline(arg) && !is_trailing(reduce_mask(n, arg), arg->ndim);
        uint32_t made = L->part[a] ? arg->args[0].id : a;
        L->memory[made] |= is_inline(dyn_graph_node(L->g, made)) && spread && L->cost[made] >= 2;
    }
}

static void choose_memory(Lower *L) {
    for (uint32_t i = L->g->nodes.n; i-- > 0;) {
        const DynNode *n = dyn_graph_node(L->g, i);
        if (dyn_node_stores(n) && L->live[i]) {
            L->memory[n->storage] = true;
        }
        if (n->op == DYN_OP_GATHER) {
            L->memory[n->args[1].id] |= is_inline(dyn_graph_node(L->g, n->args[1].id));
        }
        if (!L->live[i]) {
            continue;
        }
        if (!is_view(n) && !dyn_node_stores(n)) {
            bool dear = L->used_by[i] == 1 && L->cost[i] >= 8;
            L->memory[i] |= !is_inline(n) || L->object[i] || dear || overwritten(L, n, i, L->last_use[i]);
        }
        tell_operands(L, i);
    }
}

/* ---- kernels that would grow too large */

#define MOST_LOADS (DYN_MAX_OPERANDS - 2)   /* room for what the kernel gives */
#define MOST_VALUES (DYN_MAX_INSNS / 3 - 4) /* a value is an instruction, and conversions */

typedef struct Extent { /* of what one kernel computes for a value */
    uint32_t loads[MOST_LOADS + 1];
    uint32_t nloads, nvalues;
} Extent;

static bool in_kernel(const Lower *L, uint32_t id) {
    return (is_inline(dyn_graph_node(L->g, id)) && !L->memory[id]) || L->part[id];
}

static void extend_load(Lower *L, uint32_t id, Extent *x) {
    for (uint32_t i = 0; i < x->nloads; i++) {
        if (dyn_loops_same_access(L->g, x->loads[i], id)) {
            return;
        }
    }
    x->loads[x->nloads++] = id;
}

static void extend(Lower *L, uint32_t id, Extent *x) {
    if (L->stamp[id] == L->now || x->nloads > MOST_LOADS || x->nvalues > MOST_VALUES) {
        return;
    }
    L->stamp[id] = L->now;
    const DynNode *n = dyn_graph_node(L->g, id);
    if (!in_kernel(L, id)) {
        extend_load(L, id, x);
        return;
    }
    x->nvalues++;
    if (n->op == DYN_OP_GATHER) { /* the table, as this index stands in it, and the index */
        extend_load(L, id, x);
    }
    for (uint32_t k = n->op == DYN_OP_GATHER; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            extend(L, n->args[k].id, x);
        }
    }
}

static Extent extent_of(Lower *L, const DynNode *n) {
    Extent x = {.nloads = 0};
    L->now++;
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            extend(L, n->args[k].id, &x);
        }
    }
    return x;
}

/* Operands of values for which one kernel would need more than it can have get memory, the largest first. */
static void split_kernels(Lower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        if (!L->live[i] || !is_inline(n)) {
            continue;
        }
        for (Extent x = extent_of(L, n); x.nloads > MOST_LOADS || x.nvalues > MOST_VALUES; x = extent_of(L, n)) {
            uint32_t largest = DYN_NONE, most = 0;
            for (uint32_t k = 0; k < n->nargs; k++) {
                uint32_t a = n->args[k].kind == DYN_ARG_NODE ? n->args[k].id : DYN_NONE;
                a = a != DYN_NONE && L->part[a] ? dyn_graph_node(L->g, a)->args[0].id : a;
                if (a == DYN_NONE || !in_kernel(L, a)) {
                    continue;
                }
                Extent of = extent_of(L, dyn_graph_node(L->g, a));
                uint32_t size = of.nloads * MOST_VALUES + of.nvalues * MOST_LOADS + 1;
                largest = size > most ? a : largest;
                most = size > most ? size : most;
            }
            if (largest == DYN_NONE) {
                break;
            }
            L->memory[largest] = true;
        }
    }
}

/* ---- building kernels */

static DynOperand operand_of(Lower *L, const DynKernel *k, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    DynOperand o = {.place = id, .dtype = n->dtype};
    for (int i = 0; i < DYN_MAX_NDIM; i++) {
        int axis = i - (k->ndim - n->ndim);
        o.axis[i] = i < k->ndim && axis >= 0 ? (int8_t)axis : -1;
    }
    return o;
}

static uint32_t build_cast(Lower *L, DynKernel *k, uint32_t value, uint8_t dtype) {
    if (value == DYN_NONE || k->insns.at[value].dtype == dtype) {
        return value;
    }
    return dyn_kernel_insn(L->p, k, (DynInsn){.kind = DYN_L_CAST, .dtype = dtype, .nargs = 1, .a = {value}});
}

/* Numbers come as integers, float or double; others are converted from double in the kernel, as NumPy converts Python's. */
static uint32_t build_scalar(Lower *L, DynKernel *k, uint32_t sym, uint8_t dtype) {
    uint8_t as = dyn_dtype_is_half((DynDtype)dtype) || dyn_dtypes[dtype].kind == 'c' ? DYN_F64 : dtype;
    uint32_t param = dyn_kernel_param(L->p, k, sym, (DynDtype)as);
    DynInsn insn = {.kind = DYN_L_SCALAR, .dtype = as, .a = {param}};
    return param == DYN_NONE ? DYN_NONE : build_cast(L, k, dyn_kernel_insn(L->p, k, insn), dtype);
}

static uint32_t build_value(Lower *L, DynKernel *k, uint32_t id);

static uint32_t build_arg(Lower *L, DynKernel *k, DynArg arg, uint8_t dtype) {
    if (arg.kind == DYN_ARG_SYM) {
        return build_scalar(L, k, arg.id, dtype);
    }
    return build_cast(L, k, build_value(L, k, arg.id), dtype);
}

static uint32_t build_load(Lower *L, DynKernel *k, uint32_t id) {
    DynOperand operand = operand_of(L, k, id);
    return dyn_kernel_load(L->p, k, &operand);
}

/* The table's axes but the one that is looked up along are the space's, and the index's stand together in its place. */
static uint32_t build_gather(Lower *L, DynKernel *k, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *a = dyn_graph_node(L->g, n->args[0].id);
    const DynNode *at = dyn_graph_node(L->g, n->args[1].id);
    DynOperand whole = operand_of(L, k, id), table = {.place = n->args[0].id, .dtype = a->dtype, .indirect = true};
    DynOperand index = {.place = n->args[1].id, .dtype = at->dtype};
    int along = (int)n->aux[0];
    table.along = (uint8_t)along;
    for (int d = 0; d < DYN_MAX_NDIM; d++) {
        int axis = whole.axis[d], placed = axis - along;
        bool inside = axis >= 0 && placed >= 0 && placed < at->ndim;
        index.axis[d] = (int8_t)(inside ? placed : -1);
        table.axis[d] = (int8_t)(axis < 0 || inside ? -1 : axis < along ? axis : axis - at->ndim + 1);
    }
    uint32_t by = dyn_kernel_operand(L->p, k, index);
    table.by = (uint16_t)by;
    return by == DYN_NONE ? DYN_NONE : build_cast(L, k, dyn_kernel_load(L->p, k, &table), n->dtype);
}

/* x ** 2, x ** 3 and x ** 4 are products: within 2 ULP, and far cheaper than pow. (Squares of arrays are a row of their own, as
 * NumPy's are; of a scalar NumPy takes pow, which all but always gives the rounded product.) */
static uint32_t build_small_power(Lower *L, DynKernel *k, const DynNode *n) {
    if (n->op != DYN_OP_POWER || n->args[1].kind != DYN_ARG_SYM || !dyn_sym_is_const(L->g->syms, n->args[1].id) ||
        dyn_dtypes[n->compute].kind != 'f' || dyn_dtype_is_half((DynDtype)n->compute)) {
        return DYN_NONE;
    }
    const DynSym *s = dyn_sym_at(L->g->syms, n->args[1].id);
    double exponent = s->type == DYN_T_FLOAT ? s->value.f : (double)s->value.i;
    if (exponent != 2 && exponent != 3 && exponent != 4) {
        return DYN_NONE;
    }
    uint32_t x = build_arg(L, k, n->args[0], n->compute);
    DynInsn square = {
        .kind = DYN_L_OP, .op = DYN_OP_MULTIPLY, .compute = n->compute, .dtype = n->compute, .nargs = 2, .a = {x, x}};
    uint32_t xx = x == DYN_NONE ? DYN_NONE : dyn_kernel_insn(L->p, k, square);
    if (exponent == 2) {
        return xx == DYN_NONE ? DYN_NONE : build_cast(L, k, xx, n->dtype);
    }
    DynInsn last = square;
    last.a[0] = xx;
    last.a[1] = exponent == 3 ? x : xx;
    return xx == DYN_NONE ? DYN_NONE : build_cast(L, k, dyn_kernel_insn(L->p, k, last), n->dtype);
}

static uint32_t build_complex(Lower *L, DynKernel *k, const DynNode *n) {
    DynInsn insn = {.kind = DYN_L_OP, .op = n->op, .compute = DYN_F64, .dtype = DYN_C128, .nargs = 2};
    for (int i = 0; i < 2; i++) {
        insn.a[i] = build_scalar(L, k, n->args[i].id, DYN_F64);
        if (insn.a[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return build_cast(L, k, dyn_kernel_insn(L->p, k, insn), n->dtype);
}

/* The operation of an inline node, whether or not it has memory. */
static uint32_t build_op(Lower *L, DynKernel *k, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    if (n->op == DYN_OP_COMPLEX) {
        return build_complex(L, k, n);
    }
    if (n->op == DYN_OP_GATHER) {
        return build_gather(L, k, id);
    }
    if (L->part[id]) {
        uint8_t from = dyn_graph_node(L->g, n->args[0].id)->dtype;
        DynInsn part = {.kind = DYN_L_OP, .op = n->op, .compute = from, .dtype = n->dtype, .nargs = 1};
        part.a[0] = build_arg(L, k, n->args[0], from);
        return part.a[0] == DYN_NONE ? DYN_NONE : dyn_kernel_insn(L->p, k, part);
    }
    if (info(n)->kind != DYN_K_ELEMENTWISE) {
        return build_arg(L, k, n->args[0], n->dtype);
    }
    uint32_t power = build_small_power(L, k, n);
    if (power != DYN_NONE) {
        return power;
    }
    DynInsn insn = {.kind = DYN_L_OP, .op = n->op, .compute = n->compute, .dtype = n->compute, .nargs = n->nargs};
    uint8_t rule = info(n)->dtype;
    if (rule == DYN_DT_COMPARE || rule == DYN_DT_LOGICAL || rule == DYN_DT_BOOL) {
        insn.dtype = DYN_BOOL;
    } else if (info(n)->flags & DYN_OPF_REAL) {
        insn.dtype = (uint8_t)dyn_dtype_real((DynDtype)n->compute);
    }
    for (uint32_t i = 0; i < n->nargs; i++) {
        bool boolean = rule == DYN_DT_LOGICAL || (rule == DYN_DT_WHERE && i == 0);
        insn.a[i] = build_arg(L, k, n->args[i], boolean ? DYN_BOOL : n->compute);
        if (insn.a[i] == DYN_NONE) {
            return DYN_NONE;
        }
    }
    return build_cast(L, k, dyn_kernel_insn(L->p, k, insn), n->dtype);
}

static uint32_t build_value(Lower *L, DynKernel *k, uint32_t id) {
    if (L->stamp[id] == L->now) {
        return L->memo[id];
    }
    const DynNode *n = dyn_graph_node(L->g, id);
    uint32_t value = (is_inline(n) && !L->memory[id]) || L->part[id] ? build_op(L, k, id) : build_load(L, k, id);
    L->stamp[id] = L->now;
    L->memo[id] = value;
    return value;
}

static int build_store(Lower *L, DynKernel *k, DynOperand to, uint32_t value) {
    to.out = true;
    uint32_t operand = value == DYN_NONE ? DYN_NONE : dyn_kernel_operand(L->p, k, to);
    if (operand == DYN_NONE) {
        return -1;
    }
    DynInsn insn = {.kind = DYN_L_STORE, .dtype = to.dtype, .nargs = 1, .a = {operand, value}};
    return dyn_kernel_insn(L->p, k, insn) == DYN_NONE ? -1 : 0;
}

static void start_kernel(Lower *L, DynKernel *k, uint32_t at, const DynNode *space) {
    memset(k, 0, sizeof(*k));
    k->at = at;
    k->group = DYN_NONE;
    k->ndim = space->ndim;
    memcpy(k->shape, space->shape, sizeof(*k->shape) * space->ndim);
    L->now++;
}

static int push_step(Lower *L, DynStepKind kind, uint32_t id) {
    return dyn_list_push(L->p->arena, &L->p->steps, ((DynStep){.kind = (uint8_t)kind, .id = id}));
}

static int push_kernel(Lower *L, DynKernel *k) {
    if (dyn_list_push(L->p->arena, &L->p->kernels, *k) < 0) {
        return -1;
    }
    return push_step(L, DYN_STEP_KERNEL, L->p->kernels.n - 1);
}

static int lower_inline(Lower *L, uint32_t id) {
    DynKernel k;
    start_kernel(L, &k, id, dyn_graph_node(L->g, id));
    if (build_store(L, &k, operand_of(L, &k, id), build_op(L, &k, id)) < 0) {
        return -1;
    }
    return push_kernel(L, &k);
}

static int lower_reduce(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *arg = dyn_graph_node(L->g, n->args[0].id);
    if (n->dtype != n->compute) {
        return -1;
    }
    DynKernel k;
    start_kernel(L, &k, id, arg);
    k.reduced = reduce_mask(n, arg);
    DynOperand out = {.place = id, .dtype = n->dtype, .out = true, .result = true};
    memset(out.axis, -1, sizeof(out.axis));
    for (int i = 0, kept = 0; i < arg->ndim; i++) {
        bool reduced = k.reduced >> i & 1;
        out.axis[i] = (int8_t)(reduced ? -1 : n->aux[0] ? i : kept);
        kept += !reduced;
    }
    uint32_t value = build_arg(L, &k, n->args[0], n->compute);
    uint32_t operand = value == DYN_NONE ? DYN_NONE : dyn_kernel_operand(L->p, &k, out);
    DynInsn insn = {
        .kind = DYN_L_REDUCE, .dtype = n->dtype, .compute = n->compute, .op = n->op, .nargs = 1, .a = {operand, value}};
    if (operand == DYN_NONE || dyn_kernel_insn(L->p, &k, insn) == DYN_NONE) {
        return -1;
    }
    k.ordered = dyn_insn_is_inexact(&insn) && !L->p->fast_math && !(n->flags & DYN_NODE_TENSOR);
    k.like = n->args[0].id;
    return push_kernel(L, &k);
}

/* Does the kernel read the storage of `dst` anywhere else than at the elements it writes? */
static bool reads_elsewhere(Lower *L, const DynKernel *k, const DynOperand *dst) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (!o->out && dyn_loops_storage(L->p, o->place) == dyn_loops_storage(L->p, dst->place) &&
            (o->indirect || dyn_kernel_is_index(k, i) || !dyn_loops_same_access(L->g, o->place, dst->place) ||
             memcmp(o->axis, dst->axis, sizeof(o->axis)))) {
            return true;
        }
    }
    return false;
}

static uint32_t new_place(Lower *L, const DynNode *like) {
    DynLoops *p = L->p;
    if (p->nplaces == p->cap_places) {
        return DYN_NONE;
    }
    DynMem *m = &p->places[p->nplaces];
    *m = (DynMem){.dtype = like->dtype, .ndim = like->ndim, .shape = like->shape, .layout = &like->layout};
    m->of = p->nplaces;
    m->after = known_after(L, like->shape, like->ndim);
    L->p->late_arrays |= m->after != 0;
    m->kind = m->after ? DYN_P_ARRAY : DYN_P_TEMP;
    m->group = m->slot = DYN_NONE;
    return p->nplaces++;
}

static int lower_store(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *dst = dyn_graph_node(L->g, n->args[0].id);
    DynKernel k, copy;
    start_kernel(L, &k, id, dst);
    uint32_t value = build_arg(L, &k, n->args[1], dst->dtype);
    DynOperand to = operand_of(L, &k, n->args[0].id);
    if (value == DYN_NONE) {
        return -1;
    }
    if (!reads_elsewhere(L, &k, &to)) {
        if (build_store(L, &k, to, value) < 0) {
            return -1;
        }
        return push_kernel(L, &k);
    }
    DynOperand temp = to;
    temp.place = new_place(L, dst);
    if (temp.place == DYN_NONE || build_store(L, &k, temp, value) < 0) {
        return -1;
    }
    if (push_kernel(L, &k) < 0) {
        return -1;
    }
    start_kernel(L, &copy, id, dst);
    if (build_store(L, &copy, to, dyn_kernel_load(L->p, &copy, &temp)) < 0) {
        return -1;
    }
    return push_kernel(L, &copy);
}

/* A reshape that copies: the operand is written in C order of its own shape. */
static int lower_reshape_copy(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *arg = dyn_graph_node(L->g, n->args[0].id);
    DynKernel k;
    start_kernel(L, &k, id, arg);
    DynOperand to = operand_of(L, &k, n->args[0].id);
    to.dtype = n->dtype;
    to.place = new_place(L, arg);
    if (to.place == DYN_NONE) {
        return -1;
    }
    L->p->places[to.place].kind = DYN_P_DENSE;
    L->p->places[to.place].of = id;
    L->p->places[to.place].dtype = n->dtype;
    if (build_store(L, &k, to, build_arg(L, &k, n->args[0], n->dtype)) < 0 || push_step(L, DYN_STEP_VIEW, to.place) < 0) {
        return -1;
    }
    return push_kernel(L, &k);
}

static void describe_place(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    DynMem *m = &L->p->places[id];
    *m = (DynMem){.kind = DYN_P_NONE, .dtype = n->dtype, .ndim = n->ndim, .shape = n->shape, .layout = &n->layout};
    m->group = m->slot = DYN_NONE;
    m->of = n->storage;
    m->wants_object = L->object[id];
    m->for_flags = L->for_flags[id];
    m->after = known_after(L, n->shape, n->ndim);
    L->p->late_arrays |= m->after != 0;
    if (n->op == DYN_OP_INPUT) {
        m->kind = DYN_P_INPUT;
    } else if (L->live[id] && (n->op == DYN_OP_EXTERN || n->op == DYN_OP_RESULT)) {
        m->kind = DYN_P_EXTERN;
    } else if (L->live[id] && is_view(n)) {
        m->kind = L->part[id] ? DYN_P_NONE : DYN_P_VIEW;
    } else if (L->live[id] && L->memory[id] && !dyn_node_stores(n)) {
        m->kind = L->object[id] || m->after ? DYN_P_ARRAY : DYN_P_TEMP;
    }
}

/* Something that can be seen from outside happens there. */
static bool writes_input(const DynGraph *g, uint32_t id) {
    uint32_t written = dyn_graph_written(g, id);
    const DynNode *n = dyn_graph_node(g, id);
    const DynExtern *x = n->op == DYN_OP_EXTERN && n->extern_index < g->externs.n ? &g->externs.at[n->extern_index] : NULL;
    bool once = x != NULL && x->once && !x->inside;
    return once || (written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT);
}

/* The places of a gather are looked at by the kernel that looks up, where by then nothing has been done that eager can't do
 * again, nor anything behind it been asked that may raise: such checks stand at the end, and fuse.c takes them away where there
 * is such a kernel. Otherwise in its place in the program, or, where they came in and nobody has written them by then, before
 * anything else: kernels don't move across a check. */
static bool can_check_late(const Lower *L, uint32_t id) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        if ((i > id && dyn_graph_node(L->g, i)->op == DYN_OP_EXTERN) || writes_input(L->g, i)) {
            return false;
        }
    }
    return true;
}

static bool can_check_first(const Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *table = dyn_graph_node(L->g, n->args[0].id);
    uint32_t index = n->args[dyn_node_index(n)].id, storage = dyn_graph_node(L->g, index)->storage;
    bool came_in = dyn_graph_node(L->g, storage)->op == DYN_OP_INPUT && !L->after_extern[index];
    for (uint32_t i = 0; i < id && came_in; i++) {
        came_in = dyn_graph_written(L->g, i) != storage;
    }
    return came_in && known_after(L, &table->shape[n->op == DYN_OP_GATHER ? n->aux[0] : 0], 1) == 0;
}

/* A scatter looks at its places itself before it writes; behind what eager can't do again that is too late. */
static bool is_behind_acts(const Lower *L, uint32_t id) {
    for (uint32_t i = 0; i < id; i++) {
        if (writes_input(L->g, i)) {
            return true;
        }
    }
    return false;
}

typedef enum Check { CHECK_NOT, CHECK_FIRST, CHECK_HERE, CHECK_LATE } Check;
static Check check_of(const Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    if (n->op == DYN_OP_SCATTER) {
        return is_behind_acts(L, id) && can_check_first(L, id) ? CHECK_FIRST : CHECK_NOT;
    }
    return n->op != DYN_OP_GATHER   ? CHECK_NOT
           : can_check_late(L, id)  ? CHECK_LATE
           : can_check_first(L, id) ? CHECK_FIRST
                                    : CHECK_HERE;
}

static int lower_node(Lower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    if (!L->live[id]) {
        return 0;
    }
    if (L->part[id]) {
        return 0;
    }
    if (is_view(n)) {
        return L->after_extern[id] ? push_step(L, DYN_STEP_VIEW, id) : 0;
    }
    switch (info(n)->kind) {
    case DYN_K_REDUCE: return lower_reduce(L, id);
    case DYN_K_VIEW: return lower_reshape_copy(L, id);
    case DYN_K_STORE:
        L->p->writes_inputs |= writes_input(L->g, id);
        return n->op == DYN_OP_SCATTER ? push_step(L, DYN_STEP_SCAN, id) : lower_store(L, id);
    case DYN_K_RESULT: return 0;
    case DYN_K_EXTERN: L->p->writes_inputs |= writes_input(L->g, id); return push_step(L, DYN_STEP_EXTERN, id);
    case DYN_K_SCAN: return push_step(L, DYN_STEP_SCAN, id);
    default: return is_inline(n) && L->memory[id] ? lower_inline(L, id) : 0;
    }
}

/* Half precision is not accumulated in (the recorder reduces in float), and of complex numbers not every operator exists. */
static int supported(Lower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        bool computes = info(n)->kind == DYN_K_REDUCE || info(n)->kind == DYN_K_ELEMENTWISE;
        if (!L->live[i] || !computes) {
            continue;
        }
        if ((info(n)->kind == DYN_K_REDUCE && dyn_dtype_is_half((DynDtype)n->compute)) ||
            (dyn_dtypes[n->compute].kind == 'c' && !dyn_complex_ops[n->op].c)) {
            dyn_str_printf(L->error, "no kernels for %s of %s", info(n)->text, dyn_dtypes[n->compute].name);
            return -1;
        }
    }
    return 0;
}

/* Sizes that guards make equal get one name, so that equal spaces look equal. */
static void unify_sizes(const DynGraph *g) {
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        DynNode *n = dyn_graph_node(g, i);
        for (int d = 0; d < n->ndim; d++) {
            n->shape[d] = dyn_sym_root(g->syms, n->shape[d]);
        }
        for (uint32_t k = 0; k < n->nargs && info(n)->kind == DYN_K_VIEW; k++) {
            n->args[k].id = n->args[k].kind == DYN_ARG_SYM ? dyn_sym_root(g->syms, n->args[k].id) : n->args[k].id;
        }
    }
}

/* Inputs that the graph writes into: their contents have to be kept where a warning may be due afterwards, and tensors get a new
 * version. */
static int find_written(Lower *L) {
    const DynGraph *g = L->g;
    bool warns = false;
    for (uint32_t i = 0; i < g->nodes.n && !warns; i++) {
        warns = L->live[i] && may_warn(g, dyn_graph_node(g, i));
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        L->p->tensors |= (n->flags & DYN_NODE_TENSOR) != 0;
        L->p->asks_torch |= (n->flags & DYN_NODE_TENSOR) && (n->op == DYN_OP_EXTERN || is_view(n));
    }
    for (uint32_t i = 0; (warns || L->p->tensors) && i < g->inputs.n; i++) {
        bool written = false;
        for (uint32_t k = 0; k < g->nodes.n && !written; k++) {
            const DynNode *n = dyn_graph_node(g, k);
            written = dyn_node_stores(n) && n->storage == g->inputs.at[i];
        }
        if (written && dyn_list_push(L->p->arena, &L->p->written, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Outputs, and what functions are called with, are arrays of their framework's. */
static int find_handed(Lower *L) {
    const DynGraph *g = L->g;
    bool *handed = L->p->handed = DYN_NEW_N(L->p->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; handed && i < g->outputs.n; i++) {
        handed[g->outputs.at[i]] = true;
    }
    for (uint32_t i = g->nodes.n; handed && i-- > 0;) {
        const DynNode *n = dyn_graph_node(g, i);
        bool call = n->op == DYN_OP_EXTERN && !g->externs.at[n->extern_index].product;
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->args[k].kind == DYN_ARG_NODE && (call || (handed[i] && is_view(n)))) {
                handed[n->args[k].id] = true;
            }
        }
    }
    return handed ? 0 : -1;
}

static int lower_all(Lower *L) {
    const DynGraph *g = L->g;
    DynLoops *p = L->p;
    bool asked = false; /* eager has to be asked, whatever np.errstate says */
    unify_sizes(g);
    if (mark_live(L) < 0 || find_written(L) < 0 || find_handed(L) < 0) {
        return -1;
    }
    keep_for_snapshots(L);
    if (supported(L) < 0) {
        return -1;
    }
    find_parts(L);
    measure(L);
    choose_memory(L);
    split_kernels(L);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        describe_place(L, i);
        if (L->live[i] && is_view(n) && !L->part[i] && !L->after_extern[i] && push_step(L, DYN_STEP_VIEW, i) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (check_of(L, i) == CHECK_FIRST && push_step(L, DYN_STEP_CHECK, i) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        if (check_of(L, i) == CHECK_HERE && push_step(L, DYN_STEP_CHECK, i) < 0) {
            return -1;
        }
        asked |= (n->flags & DYN_NODE_WARNS) != 0;
        /* inf * 0: whether a product meets both depends on its order, so nan is not given without eager's word */
        p->warns |= asked || (n->op == DYN_OP_PROD && (dyn_dtypes[n->compute].kind == 'f' || dyn_dtypes[n->compute].kind == 'c'));
        if (lower_node(L, i) < 0) {
            if (!dyn_str_at(L->error)[0]) {
                dyn_str_printf(L->error, "node %%%u (%s) could not be lowered", i, info(dyn_graph_node(g, i))->text);
            }
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (check_of(L, i) == CHECK_LATE && push_step(L, DYN_STEP_CHECK, i) < 0) {
            return -1;
        }
    }
    if (asked && p->writes_inputs) { /* eager has to run the call again, and could not */
        dyn_str_puts(L->error, "an input is written beside a mean or average that may have to warn or raise");
        return -1;
    }
    return 0;
}

DynLoops *dyn_lower(const DynGraph *g, const DynConfig *config, DynArena *arena, DynReason *why, DynStr *error) {
    uint32_t n = g->nodes.n + 1;
    DynLoops *p = DYN_NEW(arena, DynLoops);
    Lower L = {.p = p, .g = g, .error = error};
    *why = DYN_R_NO_MEMORY;
    if (!p) {
        return NULL;
    }
    *p = (DynLoops){.graph = g, .arena = arena, .nnodes = g->nodes.n, .nplaces = g->nodes.n, .cap_places = 2 * n};
    p->fast_math = config->fast_math;
    p->places = DYN_NEW_N(arena, DynMem, p->cap_places);
    L.live = DYN_NEW_N(arena, bool, n);
    L.memory = DYN_NEW_N(arena, bool, n);
    L.object = DYN_NEW_N(arena, bool, n);
    L.for_flags = DYN_NEW_N(arena, bool, n);
    L.after_extern = DYN_NEW_N(arena, bool, n);
    L.part = DYN_NEW_N(arena, bool, n);
    L.looks = DYN_NEW_N(arena, bool, n);
    L.written = DYN_NEW_N(arena, bool, n);
    L.last_use = DYN_NEW_N(arena, uint32_t, n);
    L.depth = DYN_NEW_N(arena, uint32_t, n);
    L.used_by = DYN_NEW_N(arena, uint64_t, n);
    L.cost = DYN_NEW_N(arena, uint32_t, n);
    L.memo = DYN_NEW_N(arena, uint32_t, n);
    L.stamp = DYN_NEW_N(arena, uint32_t, n);
    if (!p->places || !L.live || !L.memory || !L.object || !L.for_flags || !L.after_extern || !L.part || !L.looks || !L.written ||
        !L.last_use || !L.depth || !L.used_by || !L.cost || !L.memo || !L.stamp) {
        return NULL;
    }
    *why = DYN_R_LOWERING;
    if (lower_all(&L) < 0) {
        return NULL;
    }
    *why = DYN_R_OK;
    return p;
}
