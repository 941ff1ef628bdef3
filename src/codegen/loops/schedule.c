/* schedule.c: which kernels run row by row together, what a kernel costs, how many lanes it takes at a time, and its number.
 *
 * Called after fuse.c. A group is a run of kernels whose leading axes are the same and of which at least one reduces exactly the
 * other axes: softmax is max, then exp and sum, then divide, for one row after the other while the row is in the cache. What only
 * the group reads becomes memory for one row. */
#include "base/log.h"
#include "codegen/loops/loops.h"

#define DYN_DEVICE_ROWS 128
#define DYN_DEVICE_ROW 32768

/* The axis of its operand that an axis of a view walks in full and in order; -1: none. */
static int operand_axis(const DynLoops *p, const DynNode *view, const DynNode *base, int axis) {
    const DynGraph *g = p->graph;
    int at = 0, from = 0, arg = 1;
    switch (view->op) {
    case DYN_OP_PERMUTE: return (int)view->aux[axis];
    case DYN_OP_AS_DTYPE: return dyn_graph_detaches(g, view) ? axis : -1;
    case DYN_OP_BROADCAST: return axis - (view->ndim - base->ndim);
    case DYN_OP_SLICE:
        for (uint32_t i = 0; i < view->naux; i++) {
            if (view->aux[i] == 1) {
                from++;
                arg++;
                continue;
            }
            if (at == axis) {
                bool whole = view->aux[i] == 0 && dyn_sym_is_const(g->syms, view->args[arg].id) &&
                             dyn_sym_at(g->syms, view->args[arg].id)->value.i == 0;
                return whole ? from : -1;
            }
            from += view->aux[i] == 0;
            arg += view->aux[i] == 0 ? 3 : 0;
            at++;
        }
        return from + axis - at;
    default: return -1;
    }
}

int dyn_loops_owner_axis(const DynLoops *p, uint32_t place, int axis) {
    while (axis >= 0 && place < p->nnodes && (dyn_graph_node(p->graph, place)->flags & DYN_NODE_VIEW)) {
        const DynNode *n = dyn_graph_node(p->graph, place), *base = dyn_graph_node(p->graph, n->args[0].id);
        int below = operand_axis(p, n, base, axis);
        if (below < 0 || below >= base->ndim || base->shape[below] != n->shape[axis]) {
            return -1;
        }
        axis = below;
        place = n->args[0].id;
    }
    return axis;
}

int dyn_loops_row_axis(const DynLoops *p, const DynOperand *o, int k) {
    return o->window ? -1 : dyn_loops_owner_axis(p, o->place, o->axis[k]);
}

/* In each row, two operands that share bytes stay within the same row of them. */
static bool rows_agree(const DynLoops *p, const DynKernel *a, const DynOperand *x, const DynOperand *y, int outer) {
    for (int k = 0; k < outer; k++) {
        int i = dyn_loops_row_axis(p, x, k), j = dyn_loops_row_axis(p, y, k);
        if ((i < 0 || i != j) && !dyn_sym_is_one(p->graph->syms, a->shape[k])) {
            return false;
        }
    }
    return true;
}

static bool can_share_rows(const DynLoops *p, const DynKernel *a, const DynKernel *b, int outer) {
    for (uint32_t i = 0; i < a->operands.n; i++) {
        for (uint32_t j = 0; j < b->operands.n; j++) {
            const DynOperand *x = &a->operands.at[i], *y = &b->operands.at[j];
            bool written = (x->out || y->out) && dyn_loops_storage(p, x->place) == dyn_loops_storage(p, y->place);
            if (written && !rows_agree(p, a, x, y, outer)) {
                return false;
            }
        }
    }
    return true;
}

/* Why a kernel doesn't go over the rows of another; NULL: it does. */
static const char *other_rows(const DynKernel *k, const DynKernel *like, int outer) {
    uint32_t inner = ((1u << k->ndim) - 1) & ~((1u << outer) - 1);
    if (k->group != DYN_NONE) {
        return "it runs row by row with others";
    }
    if (k->margin) {
        return "it computes the margin of what other kernels compute";
    }
    if (k->ndim < outer || memcmp(k->shape, like->shape, sizeof(*k->shape) * outer) != 0) {
        return "its leading axes are others than the rows";
    }
    return k->reduced == 0 || k->reduced == inner ? NULL : "it reduces other axes than those of a row";
}

/* Why the step's kernel can't run row by row with those of the steps from first to last; NULL: it can. */
static const char *why_apart(const DynLoops *p, uint32_t step, uint32_t first, uint32_t last, int outer) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    if (k == NULL) {
        return "it is no kernel";
    }
    const char *why = other_rows(k, dyn_loops_kernel_at(p, first), outer);
    for (uint32_t s = first; s <= last && why == NULL; s++) {
        bool agree = can_share_rows(p, k, dyn_loops_kernel_at(p, s), outer);
        why = agree ? NULL : "one of them touches elements of another row than the one that the other writes";
    }
    return why;
}

bool dyn_short_rows(const DynGraph *g, const uint32_t *shape, int ndim, uint32_t reduced) {
    int64_t row = 1;
    for (int d = 0; d < ndim; d++) {
        row *= reduced >> d & 1 ? dyn_sym_at(g->syms, shape[d])->hint.i : 1;
    }
    return row < DYN_SHORT_REDUCED && reduced != 0 && reduced != (1u << ndim) - 1;
}

/* On a device a row is one block's: long ones that are few, by the sizes seen first, are for many blocks each. */
static bool is_for_many(const DynLoops *p, const DynKernel *k) {
    int64_t rows = 1, row = 1;
    for (int d = 0; d < k->ndim; d++) {
        *(k->reduced >> d & 1 ? &row : &rows) *= dyn_sym_at(p->graph->syms, k->shape[d])->hint.i;
    }
    return rows < DYN_DEVICE_ROWS && row > DYN_DEVICE_ROW;
}

/* Why no other kernels run row by row with a reduction, whatever they are; NULL: they may. kept: axes that it doesn't reduce. */
static const char *why_alone(const DynLoops *p, const DynKernel *k, uint32_t kept) {
    if (kept == 0) {
        return "it reduces all axes: there are no rows";
    }
    if ((kept & (kept + 1)) != 0) {
        return "the axes that it keeps aren't the leading ones: what it reduces is no row";
    }
    if (p->device) {
        return is_for_many(p, k) ? "its rows are long and few: many blocks work at each" : NULL;
    }
    bool are_short = dyn_short_rows(p->graph, k->shape, k->ndim, k->reduced);
    return are_short ? "its rows are so short that many of them are reduced at one time" : NULL;
}

static void make_group(DynLoops *p, uint32_t step) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    uint32_t kept = k->reduced ^ ((1u << k->ndim) - 1), first = step, last = step;
    if (!k->reduced || k->group != DYN_NONE) {
        return;
    }
    const char *alone = why_alone(p, k, kept);
    if (alone != NULL) {
        dyn_story_of_rows(p, step, step, alone, NULL);
        return;
    }
    int outer = __builtin_popcount(kept);
    const char *before = "nothing comes before it", *behind;
    while (first > 0 && (before = why_apart(p, first - 1, first, last, outer)) == NULL) {
        first--;
        before = "nothing comes before it";
    }
    while ((behind = why_apart(p, last + 1, first, last, outer)) == NULL) {
        last++;
    }
    dyn_story_of_rows(p, first, last, before, behind);
    if (first == last) {
        return;
    }
    for (uint32_t s = first; s <= last; s++) {
        DynKernel *member = dyn_loops_kernel_at(p, s);
        member->group = p->ngroups;
        member->outer = (uint8_t)outer;
    }
    p->ngroups++;
}

static bool is_scanned(const DynLoops *p, uint32_t place) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (dyn_step_scans(p, &p->steps.at[s], place)) {
            return true;
        }
    }
    return false;
}

/* A temporary that only one group touches is kept for one row at a time. */
static void make_row_places(DynLoops *p) {
    for (uint32_t i = 0; i < p->nplaces; i++) {
        DynMem *m = &p->places[i];
        uint32_t group = DYN_NONE, axes = 0;
        bool only = m->kind == DYN_P_TEMP && !is_scanned(p, i);
        for (uint32_t n = 0; n < p->kernels.n && only; n++) {
            const DynKernel *k = &p->kernels.at[n];
            if (k->dead || !dyn_kernel_touches(p, k, i, false)) {
                continue;
            }
            only = k->group != DYN_NONE && (group == DYN_NONE || group == k->group);
            group = k->group;
            for (uint32_t o = 0; o < k->operands.n && only; o++) {
                for (int x = 0; dyn_loops_storage(p, k->operands.at[o].place) == i && x < k->outer; x++) {
                    int axis = dyn_loops_row_axis(p, &k->operands.at[o], x);
                    only = only && (axis >= 0 || dyn_sym_is_one(p->graph->syms, k->shape[x]));
                    axes |= axis >= 0 ? 1u << axis : 0;
                }
            }
        }
        if (only && group != DYN_NONE) {
            m->kind = DYN_P_ROW;
            m->group = group;
            m->row_axes = axes;
        }
    }
}

static void measure(const DynLoops *p, DynKernel *k) {
    uint8_t smallest = 8;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = &k->insns.at[i];
        k->cost += insn->kind == DYN_L_OP || insn->kind == DYN_L_REDUCE ? dyn_op_cost(insn->op, insn->compute) : 0;
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        uint8_t size = dyn_dtypes[k->operands.at[i].dtype].size;
        smallest = size < smallest ? size : smallest;
        k->cost += size / 4 + 1 + (k->operands.at[i].indirect ? DYN_INDIRECT_COST : 0);
    }
    /* So many that one vector of the smallest elements is never wider: generated loops then have no remainder, which would call
     * other functions than the vector loop does. */
    k->lanes = smallest < 4 ? 64 / smallest : 16;
}

/* One element in each row of a group: several rows are done at one time. */
static bool is_across(const DynLoops *p, const DynKernel *k) {
    bool one = k->group != DYN_NONE && !k->reduced && k->outer > 0;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        one = one && !k->operands.at[i].indirect;
    }
    return one && dyn_kernel_is_one(p, k, k->outer);
}

/* Operands that don't move along the stretches of lanes that exec.c makes: in a group those are the axes behind the rows, or the
 * last axis of the rows. */
static void find_scalars(const DynLoops *p, DynKernel *k) {
    k->across = is_across(p, k);
    int first = k->group == DYN_NONE ? 0 : k->outer - k->across;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        DynOperand *o = &k->operands.at[i];
        o->scalar = !o->out && !o->indirect;
        for (int d = first; d < k->ndim; d++) {
            o->scalar = o->scalar && (o->axis[d] < 0 || dyn_sym_is_one(p->graph->syms, p->places[o->place].shape[o->axis[d]]));
        }
        o->scalar |= dyn_kernel_is_index(k, i) && !dyn_kernel_is_loaded(k, i);
    }
}

/* Operands that stand still along the last axis and move along others, beside some that move along it. Axes can be walked in
 * another order at run time, and rows be too short to be called one by one: then the kernel's first function takes them. */
static void find_still(const DynLoops *p, DynKernel *k) {
    int last = k->ndim - 1;
    bool by_rows = k->ndim > 1 && !k->reduced, alone = k->group == DYN_NONE && !k->margin;
    if (!by_rows || !alone || dyn_sym_is_one(p->graph->syms, k->shape[last])) {
        return;
    }
    bool can = dyn_sym_at(p->graph->syms, k->shape[last])->hint.i >= k->lanes;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        can = can && !k->operands.at[i].indirect;
    }
    for (uint32_t i = 0; i < k->operands.n && can; i++) {
        DynOperand *o = &k->operands.at[i];
        bool stands = o->axis[last] < 0 || dyn_sym_is_one(p->graph->syms, p->places[o->place].shape[o->axis[last]]);
        o->still = stands && !o->out && !o->scalar;
        k->has_still |= o->still;
    }
}

int dyn_schedule(DynLoops *p, DynReason *why, DynStr *error) {
    *why = DYN_R_OK;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        DynKernel *k = dyn_loops_kernel_at(p, s);
        if (k) {
            k->number = (int16_t)p->nnative++;
            measure(p, k);
            make_group(p, s);
        }
    }
    if (p->nnative > DYN_MAX_KERNELS) {
        *why = DYN_R_TOO_MANY_KERNELS;
        dyn_str_printf(error, "%u kernels", p->nnative);
        return -1;
    }
    make_row_places(p);
    if (p->device && dyn_stage_rows(p) < 0) {
        *why = DYN_R_NO_MEMORY;
        dyn_str_puts(error, "not enough memory for rows that are kept");
        return -1;
    }
    if (!p->device) {
        dyn_chains_make(p);
        dyn_pairs_make(p);
    }
    dyn_story_of_steps(p);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        find_scalars(p, &p->kernels.at[i]);
        find_still(p, &p->kernels.at[i]);
    }
    if (dyn_log_on(DYN_LOG_schedule)) {
        dyn_log(DYN_LOG_schedule, "%s: %u kernels, %u groups of rows, %u chains, %u pairs",
                p->graph->name ? p->graph->name : "graph", p->nnative, p->ngroups, p->nchains, p->npairs);
    }
    return 0;
}
