/* lower_memory.c: which values of a graph are needed, and which of them get memory. The others are computed where they are used.
 *
 * Called by lower.c, before any kernel is made. Everything is in the arena of the stages. */
#include "codegen/loops/lower.h"

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

static void mark_args_live(DynLower *L, const DynNode *n, bool *read) {
    for (uint32_t i = 0; i < n->nargs; i++) {
        if (n->args[i].kind == DYN_ARG_NODE) {
            L->live[n->args[i].id] = true;
            read[dyn_graph_node(L->g, n->args[i].id)->storage] = true;
        }
    }
}

/* May a conversion raise a flag that NumPy speaks of? */
bool dyn_loops_cast_warns(uint8_t from, uint8_t to) {
    DynDtype a = (DynDtype)from, b = (DynDtype)to;
    uint8_t part_a = dyn_dtypes[dyn_dtype_real(a)].size, part_b = dyn_dtypes[dyn_dtype_real(b)].size;
    if (!dyn_dtype_is_inexact(a)) {
        return dyn_dtype_is_half(b) && part_a >= 2;
    }
    return dyn_dtype_is_integer(b) || (dyn_dtype_is_inexact(b) && part_b < part_a);
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
    bool scalar = dyn_ops[op].flags & DYN_OPF_SCALAR;
    return strpbrk(fpe, kind == 'f' || kind == 'c' || scalar ? "dio" : "d") != NULL;
}

/* May eager give a floating-point warning, or raise, at this node? Underflow is not spoken of unless asked for. */
bool dyn_lower_may_warn(const DynGraph *g, const DynNode *n) {
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

int dyn_lower_mark_live(DynLower *L) {
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
        if (dyn_node_calls(n)) {
            L->live[i] = true;
            L->last_snapshot = L->last_snapshot || n->snapshot == DYN_NONE ? L->last_snapshot : i;
        } else if (dyn_node_stores(n)) {
            const DynNode *owner = dyn_graph_node(g, n->storage);
            bool seen = owner->op == DYN_OP_INPUT || read[n->storage] || i < L->last_snapshot;
            L->live[i] = seen || n->op == DYN_OP_SCATTER;
            if (L->live[i] && i < L->last_snapshot) {
                L->object[n->storage] = true; /* whoever leaves needs its bytes */
            }
        }
        if (!L->live[i] && n->op == DYN_OP_GATHER) { /* nobody needs the value, but the places are looked at */
            L->live[n->args[1].id] = true;
            read[dyn_graph_node(g, n->args[1].id)->storage] = true;
        }
        if (!L->live[i]) {
            if ((n->flags & DYN_NODE_TWIN) || !dyn_lower_may_warn(g, n)) {
                continue;
            }
            L->live[i] = true; /* nobody needs the value, but the warning */
            L->for_flags[dyn_node_stores(n) ? n->storage : i] = true;
            L->memory[i] = !dyn_node_stores(n);
        }
        L->object[i] |= n->op == DYN_OP_IOTA && !L->p->device; /* run.c fills it where it makes arrays */
        mark_args_live(L, n, read);
        for (uint32_t k = 0; dyn_node_calls(n) && k < n->nargs; k++) {
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

/* Does a node call code that may touch memory that it isn't given? */
static bool opens_any(const DynGraph *g, uint32_t id) {
    const DynExtern *x = dyn_graph_extern(g, dyn_graph_node(g, id));
    return x != NULL && x->opens;
}

/* What a node reads is overwritten by a STORE, or a call, strictly between two positions. */
static bool overwritten(const DynLower *L, const DynNode *n, uint32_t from, uint32_t to) {
    for (uint32_t s = from + 1; s < to; s++) {
        uint32_t written = dyn_graph_written(L->g, s);
        bool opens = opens_any(L->g, s);
        for (uint32_t i = 0; (opens || written != DYN_NONE) && i < n->nargs; i++) {
            uint32_t read = n->args[i].kind == DYN_ARG_NODE ? dyn_graph_node(L->g, n->args[i].id)->storage : DYN_NONE;
            if (read != DYN_NONE && (read == written || (opens && dyn_graph_opens(L->g, s, read)))) {
                return true;
            }
        }
    }
    return false;
}

/* Is it a value that is computed anew where it isn't kept? */
static bool is_computed(DynOpKind kind) {
    switch (kind) {
    case DYN_K_ELEMENTWISE:
    case DYN_K_COPY:
    case DYN_K_REDUCE:
    case DYN_K_SCAN:
    case DYN_K_GATHER: return true;
    default: return false;
    }
}

/* Has a node an effect that isn't made twice? What the graph's own stores write into arrays of its own is made anew with these.
 */
static bool acts(const DynGraph *g, uint32_t id) {
    const DynNode *n = dyn_graph_node(g, id);
    uint32_t written = dyn_graph_written(g, id);
    if (dyn_node_calls(n)) {
        return written != DYN_NONE || g->externs.at[n->extern_index].once;
    }
    const DynNode *owner = written == DYN_NONE ? NULL : dyn_graph_node(g, written);
    return owner != NULL && (owner->op == DYN_OP_INPUT || owner->op == DYN_OP_RESULT || dyn_node_calls(owner));
}

/* Does a snapshot need a value that can't be computed again? What it needs of one that can be are the operands. left: as
 * DynNode.left, by node, for operands too. */
static bool is_kept_for_snapshots(const DynLower *L, uint32_t *left, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    bool computed = left[id] > 0 && is_computed((DynOpKind)info(n)->kind);
    if (computed && (L->p->device || overwritten(L, n, id, left[id]))) {
        return true;
    }
    for (uint32_t k = 0; left[id] > 0 && !L->object[id] && k <= n->nargs; k++) {
        bool storage = k == n->nargs;
        if (storage || n->args[k].kind == DYN_ARG_NODE) {
            uint32_t *of = &left[storage ? n->storage : n->args[k].id];
            *of = *of > left[id] ? *of : left[id];
        }
    }
    return false;
}

/* What snapshots need and can't be computed again: what is overwritten by then, or by the call that a snapshot stands at, which
 * the graph is left behind when it raised or changed what was guarded; on a device, where there is no interpreter that could,
 * everything that they need of a graph whose call can't be repeated as a whole. */
int dyn_lower_keep_for_snapshots(DynLower *L) {
    uint32_t *left = DYN_NEW_N(L->p->arena, uint32_t, L->g->nodes.n + 1);
    bool writes = false, device = L->p->device;
    uint32_t end = L->last_snapshot > 0 ? L->last_snapshot + 1 : 0;
    for (uint32_t i = 0; i < end && !writes; i++) {
        writes = device ? acts(L->g, i) : dyn_graph_written(L->g, i) != DYN_NONE || opens_any(L->g, i);
    }
    for (uint32_t i = 0; left != NULL && i < L->last_snapshot; i++) {
        left[i] = dyn_graph_node(L->g, i)->left;
    }
    for (uint32_t i = L->last_snapshot; left != NULL && writes && i-- > 0;) {
        if (is_kept_for_snapshots(L, left, i)) {
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
    return left == NULL ? -1 : 0;
}

static bool same_shape(const DynNode *a, const DynNode *b) {
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim);
}

uint32_t dyn_lower_reduce_mask(const DynNode *n, const DynNode *arg) {
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
static uint64_t signature(const DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    const DynNode *space = n;
    uint64_t depth = L->depth[id], mask = 0;
    if (info(n)->kind == DYN_K_REDUCE) {
        space = dyn_graph_node(L->g, n->args[0].id);
        depth = L->depth[n->args[0].id];
        mask = dyn_lower_reduce_mask(n, space);
        bool rows = is_trailing(mask, space->ndim) && !dyn_short_rows(L->g, space->shape, space->ndim, (uint32_t)mask);
        mask = rows ? 0 : mask;
    }
    uint64_t h = dyn_hash64(space->shape, sizeof(*space->shape) * space->ndim, depth * 64 + mask * 8192 + space->ndim);
    return h < 2 ? h + 2 : h;
}

/* The extern call behind which a list of symbols is known: 1 + its node, or 0. */
uint32_t dyn_lower_known_after(const DynLower *L, const uint32_t *syms, int n) {
    uint32_t after = 0;
    for (int i = 0; i < n; i++) {
        uint32_t one = dyn_sym_at(L->g->syms, syms[i])->after;
        after = after > one ? after : one;
    }
    return after;
}

static bool is_late_view(const DynLower *L, const DynNode *n) {
    bool late = is_view(n) && (L->after_extern[n->args[0].id] || dyn_lower_known_after(L, n->shape, n->ndim));
    for (uint32_t k = 1; is_view(n) && k < n->nargs; k++) {
        late |= n->args[k].kind == DYN_ARG_SYM && dyn_sym_is_late(L->g->syms, n->args[k].id);
    }
    return late;
}

/* z.real and z.imag that are computed with only: not handed out, not looked at through another view, of memory that nobody
 * writes. */
static void find_parts(DynLower *L) {
    const DynGraph *g = L->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        uint8_t kind = info(n)->kind;
        bool computes = kind == DYN_K_ELEMENTWISE || kind == DYN_K_COPY || kind == DYN_K_REDUCE;
        uint32_t written = L->live[i] ? dyn_graph_written(g, i) : DYN_NONE;
        if (written != DYN_NONE) {
            L->written[written] = true;
        }
        for (uint32_t k = 0; L->live[i] && opens_any(g, i) && k < g->nodes.n; k++) {
            L->written[k] |= dyn_graph_opens(g, i, k);
        }
        bool takes_part = n->op == DYN_OP_REAL || n->op == DYN_OP_IMAG;
        L->part[i] = takes_part && L->live[i] && !L->object[i];
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

static void measure(DynLower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        uint32_t depth = 0, cost = info(n)->kind == DYN_K_ELEMENTWISE ? dyn_op_cost(n->op, n->compute) : 0;
        cost = n->op == DYN_OP_GATHER ? DYN_GATHER_COST : cost;
        bool heavy = false;
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (n->args[k].kind != DYN_ARG_NODE) {
                continue;
            }
            uint32_t a = n->args[k].id;
            const DynNode *arg = dyn_graph_node(L->g, a);
            depth = depth > L->depth[a] ? depth : L->depth[a];
            L->looks[i] |= is_inline(n) && L->looks[a];
            L->of_rows[i] |= is_inline(n) && L->of_rows[a];
            bool within = (is_inline(arg) || L->part[a]) && n->op != DYN_OP_GATHER;
            cost += within && cost < 100000 ? L->cost[a] : 0;
            bool addresses = n->op == DYN_OP_GATHER || (is_view(n) && !L->part[i]);
            heavy |= addresses && is_inline(arg);
        }
        uint8_t kind = info(n)->kind;
        bool known_late = kind == DYN_K_EXTERN || kind == DYN_K_RESULT;
        L->looks[i] |= n->op == DYN_OP_GATHER;
        L->of_rows[i] |= kind == DYN_K_REDUCE;
        bool ends_kernel = kind == DYN_K_REDUCE || kind == DYN_K_SCAN;
        L->depth[i] = depth + (ends_kernel || known_late || heavy);
        L->cost[i] = cost;
        L->after_extern[i] = known_late || dyn_lower_known_after(L, n->shape, n->ndim) || is_late_view(L, n);
    }
}

/* Does operand k of a node have to lie in memory, whatever it costs to compute? */
static bool reads_memory(const DynNode *n, uint32_t k) {
    switch (info(n)->kind) {
    case DYN_K_EXTERN:
    case DYN_K_SCAN:
    case DYN_K_GATHER: return true;
    case DYN_K_STORE: return k == 0 || n->op == DYN_OP_SCATTER;
    default: return n->op == DYN_OP_SCATTER;
    }
}

/* What a kernel of its own costs on a device, in units of dyn_op_cost: 5 us of an H100's arithmetic, of which half is never free.
 */
#define LAUNCH_COST (1 << 24)

/* Is a value on a device better computed anew for each element of its reader, by the sizes seen first? What is made of reductions
 * is one thread's in a group of rows. */
static bool is_cheaper_anew(const DynLower *L, uint32_t id, const DynNode *reader) {
    int64_t cost = L->cost[id];
    for (int d = 0; d < reader->ndim && cost <= LAUNCH_COST; d++) {
        cost *= dyn_sym_at(L->g->syms, reader->shape[d])->hint.i;
    }
    return L->p->device && cost <= LAUNCH_COST && !L->of_rows[id];
}

/* Tell the operands of a live node by whom, when and over which space they are evaluated. */
static void tell_operands(DynLower *L, uint32_t id) {
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
        if (reads_memory(n, k) || (is_view(n) && !L->part[id])) {
            L->memory[a] |= is_inline(arg);
            continue;
        }
        L->last_use[a] = L->last_use[a] > at ? L->last_use[a] : at;
        L->used_by[a] = L->used_by[a] == 0 || L->used_by[a] == sig ? sig : 1;
        bool spread = kind != DYN_K_REDUCE && !same_shape(arg, n);
        /* where lanes are neighbouring results they have to lie side by side */
        bool columns = kind == DYN_K_REDUCE && !is_trailing(dyn_lower_reduce_mask(n, arg), arg->ndim);
        L->memory[a] |= columns && L->looks[a] && is_inline(arg);
        L->by_columns[a] |= columns;
        uint32_t made = L->part[a] ? arg->args[0].id : a;
        bool dear = spread && is_inline(dyn_graph_node(L->g, made)) && L->cost[made] >= 2;
        L->memory[made] |= dear && !is_cheaper_anew(L, made, n);
    }
}

#define DEAR 8            /* of dyn_op_cost, from which on what several kernels use is kept */
#define DEAR_ON_DEVICE 32 /* … through memory that is as dear as three exponentials */

/* Are a value's readers kernels that have nothing but memory in common? */
static bool goes_through_memory(const DynLower *L, uint32_t id) { return L->p->device && L->by_columns[id]; }

static void choose_memory(DynLower *L) {
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
            bool dear = L->used_by[i] == 1 && L->cost[i] >= (goes_through_memory(L, i) ? DEAR_ON_DEVICE : DEAR),
                 needed = !is_inline(n) || L->object[i];
            L->memory[i] |= needed || dear || overwritten(L, n, i, L->last_use[i]);
        }
        tell_operands(L, i);
    }
}

/* ---- kernels that would grow too large */

#define MOST_LOADS (DYN_MAX_OPERANDS - 2)   /* room for what the kernel gives */
#define MOST_VALUES (DYN_MAX_INSNS / 3 - 4) /* a value is an instruction, and conversions */
#define MOST_NUMBERS (DYN_MAX_PARAMS - 4)   /* room for those of the operation itself */

typedef struct Extent { /* of what one kernel computes for a value */
    uint32_t loads[MOST_LOADS + 1];
    struct {
        uint32_t sym;
        uint8_t dtype;
    } numbers[MOST_NUMBERS + 1];
    uint32_t nloads, nnumbers, nvalues;
} Extent;

static bool in_kernel(const DynLower *L, uint32_t id) {
    return (is_inline(dyn_graph_node(L->g, id)) && !L->memory[id]) || L->part[id];
}

static void extend_load(DynLower *L, uint32_t id, Extent *x) {
    for (uint32_t i = 0; i < x->nloads; i++) {
        if (dyn_loops_same_access(L->g, x->loads[i], id)) {
            return;
        }
    }
    x->loads[x->nloads++] = id;
}

static void extend_number(uint32_t sym, uint8_t dtype, Extent *x) {
    for (uint32_t i = 0; i < x->nnumbers; i++) {
        if (x->numbers[i].sym == sym && x->numbers[i].dtype == dtype) {
            return;
        }
    }
    x->numbers[x->nnumbers].sym = sym;
    x->numbers[x->nnumbers++].dtype = dtype;
}

static bool is_too_large(const Extent *x) {
    return x->nloads > MOST_LOADS || x->nvalues > MOST_VALUES || x->nnumbers > MOST_NUMBERS;
}

static void extend(DynLower *L, uint32_t id, Extent *x) {
    if (L->stamp[id] == L->now || is_too_large(x)) {
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
    for (uint32_t k = n->op == DYN_OP_GATHER; k < n->nargs && !is_too_large(x); k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            extend(L, n->args[k].id, x);
        } else if (n->args[k].kind == DYN_ARG_SYM) {
            extend_number(n->args[k].id, n->compute, x);
        }
    }
}

static Extent extent_of(DynLower *L, const DynNode *n) {
    Extent x = {.nloads = 0};
    L->now++;
    for (uint32_t k = 0; k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE) {
            extend(L, n->args[k].id, &x);
        }
    }
    return x;
}

/* Not 0; what fills a kernel's room counts alike, whichever room it is. */
static uint32_t size_of(const Extent *x) {
    return x->nloads * MOST_VALUES * MOST_NUMBERS + x->nvalues * MOST_LOADS * MOST_NUMBERS +
           x->nnumbers * MOST_LOADS * MOST_VALUES + 1;
}

/* Operands of values for which one kernel would need more than it can have get memory, the largest first. */
static void split_kernels(DynLower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        if (!L->live[i] || !is_inline(n)) {
            continue;
        }
        for (Extent x = extent_of(L, n); is_too_large(&x); x = extent_of(L, n)) {
            uint32_t largest = DYN_NONE, most = 0;
            for (uint32_t k = 0; k < n->nargs; k++) {
                uint32_t a = n->args[k].kind == DYN_ARG_NODE ? n->args[k].id : DYN_NONE;
                a = a != DYN_NONE && L->part[a] ? dyn_graph_node(L->g, a)->args[0].id : a;
                if (a == DYN_NONE || !in_kernel(L, a)) {
                    continue;
                }
                Extent of = extent_of(L, dyn_graph_node(L->g, a));
                uint32_t size = size_of(&of);
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

void dyn_lower_choose_memory(DynLower *L) {
    find_parts(L);
    measure(L);
    choose_memory(L);
    split_kernels(L);
}
