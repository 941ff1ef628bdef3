/* lower.c: graph → loop IR. Decides which values get memory, then makes one kernel for each value that has it (and for each
 * STORE).
 *
 * Called by evalframe/compile.c through dyn_lower. lower_memory.c chooses what gets memory and lower_build.c makes the kernels;
 * here are the places, the steps and their order. Everything is in the arena of the stages. Whoever refuses a graph says why
 * in DynLower.error; where nobody has, memory ran out.
 *
 * A value without memory is recomputed where it is used, at the position of the kernel that uses it. So a value gets memory when
 * Python or an extern call needs it, when a view or a STORE addresses its bytes, when what it reads is overwritten before its
 * last use, when it is spread over a larger space, and when it is dear and used by kernels that can't become one. */
#include "codegen/loops/lower.h"
#include "ir/extern.h"

/* Are positions read as such alone? Nobody writes there, or looks at their bytes. */
static bool only_counts(const DynLower *L, uint32_t iota) {
    bool only = !L->written[iota];
    for (uint32_t i = iota; i < L->g->nodes.n && only; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        only = n->storage != iota || n->op != DYN_OP_AS_DTYPE || n->dtype == DYN_I64;
    }
    return only;
}

static void describe_place(DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    DynMem *m = &L->p->places[id];
    *m = (DynMem){.kind = DYN_P_NONE, .dtype = n->dtype, .ndim = n->ndim, .shape = n->shape, .layout = &n->layout};
    m->group = m->slot = DYN_NONE;
    m->of = n->storage;
    m->wants_object = L->object[id];
    m->for_flags = L->for_flags[id];
    m->after = dyn_lower_known_after(L, n->shape, n->ndim);
    if (n->op == DYN_OP_INPUT) {
        m->kind = DYN_P_INPUT;
    } else if (L->live[id] && (dyn_node_calls(n) || n->op == DYN_OP_RESULT)) {
        m->kind = DYN_P_EXTERN;
    } else if (L->live[id] && is_view(n)) {
        m->kind = L->part[id] ? DYN_P_NONE : DYN_P_VIEW;
    } else if (L->live[id] && L->memory[id] && !dyn_node_stores(n)) {
        m->kind = L->object[id] || m->after ? DYN_P_ARRAY : DYN_P_TEMP;
    }
    if (m->kind == DYN_P_TEMP && L->p->device && n->op == DYN_OP_IOTA && only_counts(L, id)) {
        m->kind = DYN_P_COUNT;
    }
}

/* Something that can be seen from outside happens there. */
static bool writes_input(const DynGraph *g, uint32_t id) {
    uint32_t written = dyn_graph_written(g, id);
    const DynNode *n = dyn_graph_node(g, id);
    const DynExtern *x = dyn_graph_extern(g, n);
    bool once = x != NULL && x->once && !x->inside;
    return once || (written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT);
}

/* The places of a gather are looked at by the kernel that looks up, where by then nothing has been done that eager can't do
 * again, nor anything behind it been asked that may raise: such checks stand at the end, and fuse.c takes them away where there
 * is such a kernel. Otherwise in its place in the program, or, where they came in and nobody has written them by then, before
 * anything else: kernels don't move across a check. */
static bool can_check_late(const DynLower *L, uint32_t id) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        if ((i > id && dyn_node_calls(dyn_graph_node(L->g, i))) || writes_input(L->g, i)) {
            return false;
        }
    }
    return true;
}

static bool can_check_first(const DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *table = dyn_graph_node(L->g, n->args[0].id);
    uint32_t index = n->args[dyn_node_index(n)].id, storage = dyn_graph_node(L->g, index)->storage;
    bool came_in = dyn_graph_node(L->g, storage)->op == DYN_OP_INPUT && !L->after_extern[index];
    for (uint32_t i = 0; i < id && came_in; i++) {
        came_in = dyn_graph_written(L->g, i) != storage && !dyn_graph_opens(L->g, i, storage);
    }
    return came_in && dyn_lower_known_after(L, &table->shape[n->op == DYN_OP_GATHER ? n->aux[0] : 0], 1) == 0;
}

/* A scatter looks at its places itself before it writes; behind what eager can't do again that is too late. */
static bool is_behind_acts(const DynLower *L, uint32_t id) {
    for (uint32_t i = 0; i < id; i++) {
        if (writes_input(L->g, i)) {
            return true;
        }
    }
    return false;
}

typedef enum Check { CHECK_NOT, CHECK_FIRST, CHECK_HERE, CHECK_LATE } Check;
static Check check_of(const DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    if (n->op == DYN_OP_SCATTER) {
        return is_behind_acts(L, id) && can_check_first(L, id) ? CHECK_FIRST : CHECK_NOT;
    }
    if (n->op != DYN_OP_GATHER || L->p->device) { /* a device's kernel says itself what isn't there */
        return CHECK_NOT;
    }
    if (can_check_late(L, id)) {
        return CHECK_LATE;
    }
    return can_check_first(L, id) ? CHECK_FIRST : CHECK_HERE;
}

static int lower_node(DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    if (!L->live[id]) {
        return 0;
    }
    if (L->part[id]) {
        return 0;
    }
    if (is_view(n)) {
        return L->after_extern[id] ? dyn_lower_push_step(L, DYN_STEP_VIEW, id) : 0;
    }
    if (n->op == DYN_OP_IOTA && L->p->device && L->p->places[id].kind != DYN_P_COUNT) {
        return dyn_lower_count(L, id);
    }
    switch (info(n)->kind) {
    case DYN_K_REDUCE: return dyn_lower_reduce(L, id);
    case DYN_K_VIEW: return dyn_lower_reshape_copy(L, id);
    case DYN_K_STORE:
        L->p->writes_inputs |= writes_input(L->g, id);
        return n->op == DYN_OP_SCATTER ? dyn_lower_push_step(L, DYN_STEP_SCAN, id) : dyn_lower_store(L, id);
    case DYN_K_RESULT: return 0;
    case DYN_K_EXTERN: L->p->writes_inputs |= writes_input(L->g, id); return dyn_lower_push_step(L, DYN_STEP_EXTERN, id);
    case DYN_K_SCAN: return dyn_lower_push_step(L, DYN_STEP_SCAN, id);
    default: return is_inline(n) && L->memory[id] ? dyn_lower_inline(L, id) : 0;
    }
}

/* Is it an operator of tensors that kernels on a device have? What NumPy's scalars and arrays hold isn't there, but for a scalar
 * that comes in, which is a number as others are. */
static bool runs_on_device(const DynNode *n, bool computes) {
    bool number = n->op == DYN_OP_SCALAR || n->op == DYN_OP_COMPLEX, of_numpy = n->flags & DYN_NODE_NPSCALAR && !number;
    bool computable = !computes || dyn_op_on_device((DynOp)n->op, n->compute);
    return dyn_op_on_device((DynOp)n->op, n->dtype) && computable && !of_numpy;
}

/* Half precision is not accumulated in (the recorder reduces in float), and of complex numbers not every operator exists. */
static int supported(DynLower *L) {
    for (uint32_t i = 0; i < L->g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(L->g, i);
        bool computes = info(n)->kind == DYN_K_REDUCE || info(n)->kind == DYN_K_ELEMENTWISE;
        if (!L->live[i] || (!computes && !L->p->device)) {
            continue;
        }
        if (L->p->device && !runs_on_device(n, computes)) {
            dyn_str_printf(L->error, "no kernels on a device for %s of %s", info(n)->text, dyn_dtypes[n->compute].name);
            return -1;
        }
        if (!computes) {
            continue;
        }
        bool reduces_half = info(n)->kind == DYN_K_REDUCE && dyn_dtype_is_half((DynDtype)n->compute);
        bool not_of_complex = dyn_dtype_is_complex((DynDtype)n->compute) && !dyn_complex_ops[n->op].c;
        if (reduces_half || not_of_complex) {
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

/* Does node n run a function of PyTorch's that gradients would follow? That is a view or call that gives a tensor, and a call
 * that is handed one: what fills a parameter in place may give nothing at all. */
static bool may_be_followed(const DynGraph *g, const DynNode *n) {
    if (n->flags & DYN_NODE_TENSOR) {
        return dyn_node_calls(n) || is_view(n);
    }
    for (uint32_t k = 0; dyn_node_calls(n) && k < n->nargs; k++) {
        if (n->args[k].kind == DYN_ARG_NODE && dyn_graph_node(g, n->args[k].id)->flags & DYN_NODE_TENSOR) {
            return true;
        }
    }
    return false;
}

/* Inputs that the graph writes into: their contents have to be kept where a warning may be due afterwards, and tensors get a new
 * version for each change. */
static int find_written(DynLower *L) {
    const DynGraph *g = L->g;
    bool warns = false;
    for (uint32_t i = 0; i < g->nodes.n && !warns; i++) {
        warns = L->live[i] && dyn_lower_may_warn(g, dyn_graph_node(g, i));
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        L->p->tensors |= (n->flags & DYN_NODE_TENSOR) != 0;
        L->p->asks_torch |= !g->cupy && may_be_followed(g, n);
    }
    for (uint32_t i = 0; (warns || L->p->tensors) && i < g->inputs.n; i++) {
        uint32_t writes = 0, most = L->p->tensors ? UINT32_MAX : 1;
        for (uint32_t k = 0; k < g->nodes.n && writes < most; k++) {
            const DynNode *n = dyn_graph_node(g, k);
            bool write = dyn_node_stores(n)
                             ? dyn_graph_counter(g, n) == g->inputs.at[i]
                             : !L->p->tensors && !g->cupy && L->live[k] && dyn_graph_written(g, k) == g->inputs.at[i];
            writes += write;
            if (write && dyn_list_push(L->p->arena, &L->p->written, i) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int find_writers(DynLower *L) {
    const DynGraph *g = L->g;
    bool asked = L->p->written.n > 0 && !L->p->tensors && !g->cupy;
    for (uint32_t i = 0; asked && i < g->nodes.n; i++) {
        uint32_t written = L->live[i] ? dyn_graph_written(g, i) : DYN_NONE;
        bool came_in = written != DYN_NONE && dyn_graph_node(g, written)->op == DYN_OP_INPUT;
        if (came_in && dyn_list_push(L->p->arena, &L->p->writers, i) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Is this x.data, or a view of it, what Python gets? */
static bool is_handed_out(const DynGraph *g, uint32_t data) {
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        uint32_t at = g->outputs.at[i];
        while (at != data && dyn_graph_node(g, at)->flags & DYN_NODE_VIEW) {
            at = dyn_graph_node(g, at)->args[0].id;
        }
        if (at == data) {
            return true;
        }
    }
    return false;
}

static int find_renewed(DynLower *L) {
    const DynGraph *g = L->g;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        uint32_t counter = dyn_node_stores(n) ? dyn_graph_counter(g, n) : DYN_NONE;
        bool data = counter != DYN_NONE && counter != n->storage;
        if (data && is_handed_out(g, counter) && dyn_list_push(L->p->arena, &L->p->renewed, counter) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Outputs, and what functions are called with, are arrays of their framework's. */
static int find_handed(DynLower *L) {
    const DynGraph *g = L->g;
    bool *handed = L->p->handed = DYN_NEW_N(L->p->arena, bool, g->nodes.n + 1);
    for (uint32_t i = 0; handed && i < g->outputs.n; i++) {
        handed[g->outputs.at[i]] = true;
    }
    for (uint32_t i = g->nodes.n; handed && i-- > 0;) {
        const DynNode *n = dyn_graph_node(g, i);
        bool call = dyn_node_calls(n) && !(dyn_ops[n->op].flags & DYN_OPF_PRODUCT);
        bool hands_on = call || (handed[i] && is_view(n));
        for (uint32_t k = 0; k < n->nargs; k++) {
            if (hands_on && n->args[k].kind == DYN_ARG_NODE) {
                handed[n->args[k].id] = true;
            }
        }
    }
    return handed ? 0 : -1;
}

static int lower_all(DynLower *L) {
    const DynGraph *g = L->g;
    DynLoops *p = L->p;
    bool asked = false; /* eager has to be asked, whatever np.errstate says */
    unify_sizes(g);
    if (dyn_lower_mark_live(L) < 0 || find_written(L) < 0 || find_writers(L) < 0 || find_renewed(L) < 0 || find_handed(L) < 0) {
        return -1;
    }
    if (dyn_lower_keep_for_snapshots(L) < 0 || supported(L) < 0) {
        return -1;
    }
    dyn_lower_choose_memory(L);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        describe_place(L, i);
        bool known_first = L->live[i] && !L->part[i] && !L->after_extern[i];
        if (known_first && is_view(n) && dyn_lower_push_step(L, DYN_STEP_VIEW, i) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (check_of(L, i) == CHECK_FIRST && dyn_lower_push_step(L, DYN_STEP_CHECK, i) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const DynNode *n = dyn_graph_node(g, i);
        if (check_of(L, i) == CHECK_HERE && dyn_lower_push_step(L, DYN_STEP_CHECK, i) < 0) {
            return -1;
        }
        asked |= (n->flags & DYN_NODE_WARNS) != 0;
        /* inf * 0: whether a product meets both depends on its order, so nan is not given without eager's word */
        p->warns |= !g->derived && (asked || (n->op == DYN_OP_PROD && dyn_dtype_is_inexact((DynDtype)n->compute)));
        if (lower_node(L, i) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        if (check_of(L, i) == CHECK_LATE && dyn_lower_push_step(L, DYN_STEP_CHECK, i) < 0) {
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
    DynLower L = {.p = p, .g = g, .error = error};
    *why = DYN_R_NO_MEMORY;
    if (!p) {
        return NULL;
    }
    *p = (DynLoops){.graph = g, .arena = arena, .nnodes = g->nodes.n, .nplaces = g->nodes.n, .cap_places = 3 * n};
    p->fast_math = config->fast_math;
    p->device = g->device != 0;
    p->places = DYN_NEW_N(arena, DynMem, p->cap_places);
    L.live = DYN_NEW_N(arena, bool, n);
    L.memory = DYN_NEW_N(arena, bool, n);
    L.object = DYN_NEW_N(arena, bool, n);
    L.for_flags = DYN_NEW_N(arena, bool, n);
    L.after_extern = DYN_NEW_N(arena, bool, n);
    L.part = DYN_NEW_N(arena, bool, n);
    L.looks = DYN_NEW_N(arena, bool, n);
    L.of_rows = DYN_NEW_N(arena, bool, n);
    L.by_columns = DYN_NEW_N(arena, bool, n);
    L.written = DYN_NEW_N(arena, bool, n);
    L.last_use = DYN_NEW_N(arena, uint32_t, n);
    L.depth = DYN_NEW_N(arena, uint32_t, n);
    L.used_by = DYN_NEW_N(arena, uint64_t, n);
    L.cost = DYN_NEW_N(arena, uint32_t, n);
    L.memo = DYN_NEW_N(arena, uint32_t, n);
    L.stamp = DYN_NEW_N(arena, uint32_t, n);
    if (!DYN_ALLOCATED(p->places, L.live, L.memory, L.object, L.for_flags, L.after_extern, L.part, L.looks, L.of_rows,
                       L.by_columns, L.written, L.last_use, L.depth, L.used_by, L.cost, L.memo, L.stamp)) {
        return NULL;
    }
    if (lower_all(&L) < 0) {
        bool refused = dyn_str_at(error)[0] != 0; /* whoever refuses a graph says so in a sentence; what else fails is memory */
        *why = refused ? DYN_R_LOWERING : DYN_R_NO_MEMORY;
        dyn_str_puts(error, refused ? "" : "not enough memory");
        return NULL;
    }
    *why = DYN_R_OK;
    return p;
}
