/* recompute.c: values that are only read through windows (slices with step 1, in any order of axes) are computed where they are
 * read, again for each window: a stencil of stencils becomes one kernel over its inputs, without memory between.
 *
 * Called after lower.c, before fuse.c. A value stays as it is when Python or an extern call needs it, when one of its readers
 * can't say which elements it reads, when what it reads is written before its last reader, or when computing it again costs more
 * than keeping it. Elements that no window holds may still be due a floating-point warning, so the kernel that made the value
 * goes on computing what lies outside of one of the windows (`margin`). */
#include "base/log.h"
#include "codegen/loops/loops.h"

static bool is_const(const DynLoops *p, uint32_t sym, int64_t value) {
    return dyn_sym_is_const(p->graph->syms, sym) && dyn_sym_at(p->graph->syms, sym)->value.i == value;
}

/* ---- windows: which elements of a place an operand reads */

/* Does the operand, of ndim axes, walk along an axis of its place? One of size 1 may be spread instead. */
static bool walks(const DynOperand *o, int ndim, int axis) {
    for (int d = 0; d < ndim; d++) {
        if (o->axis[d] == axis) {
            return true;
        }
    }
    return false;
}

/* From a view to what it is a view of. false: it is no window of it. */
static bool step_down(const DynLoops *p, DynOperand *o, int ndim) {
    const DynNode *n = dyn_graph_node(p->graph, o->place);
    int8_t axis[DYN_MAX_NDIM];
    int32_t at[DYN_MAX_NDIM] = {0};
    bool same = dyn_graph_detaches(p->graph, n);
    if (n->op != DYN_OP_PERMUTE && n->op != DYN_OP_SLICE && !same) {
        return false;
    }
    int to = 0, from = 0, arg = 1;
    for (int i = 0; same && i < n->ndim; i++) {
        axis[i] = (int8_t)i;
    }
    for (uint32_t i = 0; !same && i < n->naux; i++) {
        if (n->op == DYN_OP_PERMUTE) {
            axis[i] = (int8_t)n->aux[i];
            continue;
        }
        if (n->aux[i] == 2) {
            axis[to++] = -1;
            continue;
        }
        const DynSym *start = dyn_sym_at(p->graph->syms, n->args[arg].id);
        bool starts_at = dyn_sym_is_const(p->graph->syms, n->args[arg].id) && start->value.i >= 0 && start->value.i <= INT16_MAX;
        if (n->aux[i] != 0 || !starts_at || !is_const(p, n->args[arg + 2].id, 1)) {
            return false;
        }
        if (start->value.i != 0 && !walks(o, ndim, to)) { /* nothing says where along that axis the operand stands */
            return false;
        }
        at[to] = (int32_t)start->value.i;
        axis[to++] = (int8_t)from++;
        arg += 3;
    }
    for (; n->op == DYN_OP_SLICE && to < n->ndim; to++) {
        axis[to] = (int8_t)from++;
    }
    for (int d = 0; d < ndim; d++) {
        int below = o->axis[d] < 0 ? -1 : axis[o->axis[d]];
        o->at[d] = below < 0 ? 0 : o->at[d] + at[o->axis[d]];
        o->axis[d] = (int8_t)below;
    }
    o->window = true;
    o->place = n->args[0].id;
    return true;
}

/* Does every axis that the operand walks have the size of the space? An axis of size 1 is spread over it. */
static bool walks_whole(const DynLoops *p, const DynKernel *k, const DynOperand *o) {
    for (int d = 0; d < k->ndim && !o->window; d++) {
        if (o->axis[d] >= 0 && p->places[o->place].shape[o->axis[d]] != k->shape[d]) {
            return false;
        }
    }
    return true;
}

static bool is_view(const DynLoops *p, uint32_t place) {
    return place < p->nnodes && (dyn_graph_node(p->graph, place)->flags & DYN_NODE_VIEW);
}

/* The operand as a window of `place`, which it is a view of. */
static bool window_of(const DynLoops *p, const DynKernel *k, const DynOperand *o, uint32_t place, DynOperand *out) {
    *out = *o;
    bool found = walks_whole(p, k, o);
    while (found && out->place != place) {
        found = is_view(p, out->place) && step_down(p, out, k->ndim);
    }
    for (int d = 0; d < k->ndim && found; d++) {
        found = out->axis[d] >= 0 || is_const(p, k->shape[d], 1);
    }
    return found;
}

/* The same elements, said in one way only: as a window of what is no window itself. */
static DynOperand settled(const DynLoops *p, const DynKernel *k, DynOperand o) {
    if (walks_whole(p, k, &o)) {
        while (is_view(p, o.place) && step_down(p, &o, k->ndim)) {
        }
    }
    return o;
}

/* What an operand of the kernel that made a value is for a kernel that reads a window of the value. */
static bool through(const DynLoops *p, const DynKernel *maker, const DynOperand *o, const DynKernel *reader,
                    const DynOperand *window, DynOperand *out) {
    *out = *o;
    out->window = true;
    for (int d = 0; d < DYN_MAX_NDIM; d++) {
        int t = d < reader->ndim ? window->axis[d] : -1;
        int axis = t < 0 ? -1 : o->axis[t];
        bool whole = axis < 0 || o->window || p->places[o->place].shape[axis] == maker->shape[t];
        if (!whole && !is_const(p, p->places[o->place].shape[axis], 1)) {
            return false;
        }
        out->axis[d] = (int8_t)(whole ? axis : -1);
        out->at[d] = out->axis[d] < 0 ? 0 : window->at[d] + o->at[t];
    }
    *out = settled(p, reader, *out);
    return true;
}

/* ---- a value, its maker and its readers */

#define MOST_READERS 16

typedef struct Value {
    uint32_t place, made, last; /* steps: of its kernel, of its last reader */
    const DynKernel *maker;
    uint32_t readers[MOST_READERS]; /* kernels */
    DynKernel rebuilt[MOST_READERS];
    uint32_t nreaders, nwindows;
    DynOperand windows[DYN_MAX_OPERANDS];      /* those of one reader are distinct */
    const DynKernel *spaces[DYN_MAX_OPERANDS]; /* the readers */
} Value;

/* The kernel at a step makes a value that lives in a temporary, all of it, and nothing else. */
static bool find_value(const DynLoops *p, uint32_t step, Value *v) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    uint32_t nstores = 0;
    if (k == NULL || k->dead) {
        return false;
    }
    if (k->reduced || k->margin) {
        return false;
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (o->indirect) {
            return false; /* dear */
        }
        if (o->out) {
            *v = (Value){.place = o->place, .made = step, .maker = k};
            nstores++;
        }
    }
    if (nstores != 1 || v->place >= p->nnodes) {
        return false;
    }
    const DynMem *m = &p->places[v->place];
    bool whole = m->ndim == k->ndim && !memcmp(m->shape, k->shape, sizeof(*k->shape) * k->ndim);
    return whole && m->kind == DYN_P_TEMP && !m->for_flags;
}

/* false: no room, or the reader goes through the value as its maker does: fuse.c makes one kernel of the two. */
static bool add_window(Value *v, const DynKernel *reader, const DynOperand *window) {
    bool whole = !window->window && reader->ndim == v->maker->ndim;
    for (uint32_t i = 0; i < v->nwindows; i++) {
        if (v->spaces[i] == reader && !memcmp(v->windows[i].axis, window->axis, sizeof(window->axis)) &&
            !memcmp(v->windows[i].at, window->at, sizeof(window->at))) {
            return true;
        }
    }
    for (int d = 0; d < reader->ndim; d++) {
        whole = whole && window->axis[d] == d;
    }
    if (whole || v->nwindows == DYN_MAX_OPERANDS) {
        return false;
    }
    v->spaces[v->nwindows] = reader;
    v->windows[v->nwindows++] = *window;
    return true;
}

static bool add_reader(const DynLoops *p, Value *v, uint32_t step) {
    const DynKernel *k = dyn_loops_kernel_at(p, step);
    bool reads = false;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        DynOperand window;
        if (dyn_loops_storage(p, o->place) != v->place) {
            continue;
        }
        if (o->out || o->indirect || dyn_kernel_is_index(k, i)) {
            return false;
        }
        if (!window_of(p, k, o, v->place, &window) || !add_window(v, k, &window)) {
            return false;
        }
        reads = true;
    }
    if (reads && (v->nreaders == MOST_READERS || k->margin)) {
        return false;
    }
    if (reads) {
        v->readers[v->nreaders++] = p->steps.at[step].id;
        v->last = step;
    }
    return true;
}

static bool find_readers(const DynLoops *p, Value *v) {
    for (uint32_t i = 0; i < p->nnodes; i++) {
        if (p->places[i].wants_object && dyn_loops_storage(p, i) == v->place) {
            return false;
        }
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        bool other_kernel = k != NULL && !k->dead && s != v->made;
        if (dyn_step_scans(p, &p->steps.at[s], v->place) || (other_kernel && !add_reader(p, v, s))) {
            return false;
        }
    }
    return v->nreaders > 0 && v->last > v->made;
}

/* What the maker reads is at its last reader what it was; nor has anything happened by then, or with it, that eager could not do
 * again where a warning is due. */
static bool may_move(const DynLoops *p, const Value *v) {
    for (uint32_t s = v->made + 1; s <= v->last; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (p->steps.at[s].kind == DYN_STEP_EXTERN) {
            return false;
        }
        for (uint32_t i = 0; k != NULL && !k->dead && i < k->operands.n; i++) {
            uint32_t storage = dyn_loops_storage(p, k->operands.at[i].place);
            bool seen = p->places[storage].kind == DYN_P_INPUT && (s < v->last || dyn_kernel_may_warn(v->maker));
            if (k->operands.at[i].out && (seen || dyn_kernel_touches(p, v->maker, storage, false))) {
                return false;
            }
        }
    }
    return true;
}

/* Do neighbours along the last axis lie side by side, as far as the graph tells? */
static bool is_dense(const DynLoops *p, const DynKernel *k, const DynOperand *o) {
    DynOperand base = settled(p, k, *o);
    int axis = k->ndim > 0 ? base.axis[k->ndim - 1] : -1;
    const DynMem *m = &p->places[base.place];
    bool in_c_order = !is_view(p, base.place) && m->layout->kind == DYN_LAYOUT_C;
    return axis < 0 || (in_c_order && axis == m->ndim - 1);
}

static bool is_cheap(const DynLoops *p, const Value *v) {
    uint32_t cost = 0;
    bool calls = false;
    for (uint32_t i = 0; i < v->maker->operands.n; i++) {
        cost += v->maker->operands.at[i].out || is_dense(p, v->maker, &v->maker->operands.at[i]) ? 0 : DYN_APART_COST;
    }
    for (uint32_t i = 0; i < v->maker->insns.n; i++) {
        const DynInsn *n = &v->maker->insns.at[i];
        cost += n->kind == DYN_L_OP ? dyn_op_cost(n->op, n->compute) : 0;
        calls |= n->kind == DYN_L_OP && dyn_ops[n->op].flags & DYN_OPF_VECTOR_CALL;
    }
    return v->nwindows == 1 || ((p->device || !calls) && (v->nwindows - 1) * cost <= DYN_AGAIN_COST);
}

/* ---- a reader, built anew */

typedef struct Rebuild {
    const Value *v;
    const DynKernel *reader;
    DynOperand window; /* of the maker's copy that is being made */
} Rebuild;

static uint32_t load_settled(DynLoops *p, DynKernel *to, const DynOperand *o, void *ctx) {
    const Rebuild *r = ctx;
    DynOperand seen;
    return through(p, r->v->maker, o, r->reader, &r->window, &seen) ? dyn_kernel_load(p, to, &seen) : DYN_NONE;
}

static uint32_t load_computed(DynLoops *p, DynKernel *to, const DynOperand *o, void *ctx) {
    Rebuild *r = ctx;
    uint32_t value;
    if (dyn_loops_storage(p, o->place) != r->v->place) {
        DynOperand seen = o->indirect ? *o : settled(p, r->reader, *o);
        return dyn_kernel_load(p, to, &seen);
    }
    bool made =
        window_of(p, r->reader, o, r->v->place, &r->window) && dyn_kernel_copy(p, to, r->v->maker, load_settled, r, &value) == 0;
    return made ? value : DYN_NONE;
}

static bool rebuild(DynLoops *p, Value *v, uint32_t i) {
    const DynKernel *reader = &p->kernels.at[v->readers[i]];
    DynKernel *k = &v->rebuilt[i];
    Rebuild r = {.v = v, .reader = reader};
    *k = *reader;
    memset(&k->insns, 0, sizeof(k->insns));
    memset(&k->operands, 0, sizeof(k->operands));
    memset(&k->params, 0, sizeof(k->params));
    return dyn_kernel_copy(p, k, reader, load_computed, &r, NULL) == 0;
}

/* ---- what no window holds */

/* How many axes the window holds in full. */
static int whole_axes(const DynLoops *p, const Value *v, uint32_t window) {
    const DynOperand *w = &v->windows[window];
    int n = 0;
    for (int d = 0; d < v->spaces[window]->ndim; d++) {
        n += w->axis[d] >= 0 && w->at[d] == 0 && v->spaces[window]->shape[d] == p->places[v->place].shape[w->axis[d]];
    }
    return n;
}

/* The maker goes on with what lies outside of the window that leaves the least. Nothing warns on a device. */
static void keep_margin(DynLoops *p, const Value *v) {
    DynKernel *k = dyn_loops_kernel_at(p, v->made);
    uint32_t best = 0;
    for (uint32_t i = 1; i < v->nwindows; i++) {
        best = whole_axes(p, v, i) > whole_axes(p, v, best) ? i : best;
    }
    if (p->device || whole_axes(p, v, best) == k->ndim || !dyn_kernel_may_warn(k)) {
        return; /* nobody reads what it writes: fuse.c takes it away */
    }
    k->margin = true;
    for (int d = 0; d < v->spaces[best]->ndim; d++) {
        int axis = v->windows[best].axis[d];
        if (axis >= 0) {
            k->box_at[axis] = v->windows[best].at[d];
            k->box_shape[axis] = v->spaces[best]->shape[d];
        }
    }
    p->places[v->place].for_flags = true;
}

static bool compute_again(DynLoops *p, Value *v) {
    for (uint32_t i = 0; i < v->nreaders; i++) {
        if (!rebuild(p, v, i)) {
            return false;
        }
    }
    keep_margin(p, v);
    for (uint32_t i = 0; i < v->nreaders; i++) {
        p->kernels.at[v->readers[i]] = v->rebuilt[i];
    }
    return true;
}

/* ---- views that nobody looks through any more */

static bool is_looked_through(const DynLoops *p, uint32_t view) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *step = &p->steps.at[s];
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        const DynNode *n = k == NULL && step->id < p->nnodes ? dyn_graph_node(p->graph, step->id) : NULL;
        for (uint32_t i = 0; k != NULL && i < k->operands.n; i++) {
            if (k->operands.at[i].place == view) {
                return true;
            }
        }
        for (uint32_t i = 0; n != NULL && i < n->nargs; i++) {
            if (n->args[i].kind == DYN_ARG_NODE && n->args[i].id == view) {
                return true;
            }
        }
    }
    return p->places[view].wants_object || p->places[view].kind == DYN_P_DENSE;
}

static void drop_views(DynLoops *p) {
    for (uint32_t s = p->steps.n; s-- > 0;) { /* those that look through others stand behind them */
        if (p->steps.at[s].kind == DYN_STEP_VIEW && !is_looked_through(p, p->steps.at[s].id)) {
            memmove(&p->steps.at[s], &p->steps.at[s + 1], sizeof(*p->steps.at) * (p->steps.n - s - 1));
            p->steps.n--;
        }
    }
}

int dyn_recompute(DynLoops *p, DynReason *why, DynStr *error) {
    uint32_t n = 0;
    Value v;
    *why = DYN_R_OK;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        bool read_by_windows = find_value(p, s, &v) && find_readers(p, &v);
        bool pays = read_by_windows && is_cheap(p, &v) && may_move(p, &v);
        if (pays && compute_again(p, &v)) {
            dyn_story_of_window(p, dyn_loops_kernel_at(p, v.made));
            n++;
        }
    }
    if (n > 0) {
        drop_views(p);
    }
    if (dyn_log_on(DYN_LOG_fusion) && n > 0) {
        dyn_log(DYN_LOG_fusion, "%s: %u values are computed in the windows that read them",
                p->graph->name ? p->graph->name : "graph", n);
    }
    return 0;
}
