/* fuse.c: merges kernels over the same space, hands values on in registers, and drops memory that nobody reads any more.
 *
 * Called after lower.c. Merging keeps what can be seen of program order: two kernels change places only when neither writes what
 * the other touches, and nothing moves across an extern call (it can be left there, and it sees the arrays). */
#include "base/log.h"
#include "codegen/loops/loops.h"

static bool same_space(const DynKernel *a, const DynKernel *b) {
    return a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim);
}

static const DynNode *base_of(const DynLoops *p, const DynNode *view) { return dyn_graph_node(p->graph, view->args[0].id); }

/* Is each element of it a piece of memory of its own? */
static bool has_own_elements(const DynLoops *p, const DynNode *n) {
    for (; n->flags & DYN_NODE_VIEW; n = base_of(p, n)) {
        bool picks = n->op == DYN_OP_SLICE || n->op == DYN_OP_PERMUTE || n->op == DYN_OP_RESHAPE;
        if (!picks && !dyn_graph_detaches(p->graph, n)) {
            return false;
        }
    }
    return n->layout.kind == DYN_LAYOUT_C && !dyn_node_calls(n) && n->op != DYN_OP_RESULT;
}

/* The constant at which a slice stands on an axis of its base that it doesn't have, or -1. */
static int64_t stands_at(const DynLoops *p, const DynNode *slice, int axis) {
    int arg = 1;
    for (uint32_t i = 0; i < slice->naux; i++) {
        if (slice->aux[i] == 1 && axis == 0) {
            bool fixed = dyn_sym_is_const(p->graph->syms, slice->args[arg].id);
            return fixed ? dyn_sym_at(p->graph->syms, slice->args[arg].id)->value.i : -1;
        }
        axis -= slice->aux[i] != 2;
        arg += slice->aux[i] == 0 ? 3 : slice->aux[i] == 1;
    }
    return -1;
}

/* f[..., 0] and f[..., 1] */
static bool are_apart(const DynLoops *p, const DynNode *x, const DynNode *y) {
    bool slices = x->op == DYN_OP_SLICE && y->op == DYN_OP_SLICE;
    bool alike = slices && dyn_loops_same_access(p->graph, x->args[0].id, y->args[0].id) && has_own_elements(p, base_of(p, x));
    for (int axis = 0; alike && axis < base_of(p, x)->ndim; axis++) {
        int64_t i = stands_at(p, x, axis), j = stands_at(p, y, axis);
        if (i >= 0 && j >= 0 && i != j) {
            return true;
        }
    }
    return false;
}

/* Have two operands no element in common, or parts of them, or what they are parts of? */
static bool have_none_in_common(const DynLoops *p, const DynOperand *a, const DynOperand *b) {
    if (dyn_loops_storage(p, a->place) != dyn_loops_storage(p, b->place)) {
        return true;
    }
    if (a->place >= p->nnodes || b->place >= p->nnodes) {
        return false;
    }
    const DynNode *from = dyn_graph_node(p->graph, b->place);
    for (const DynNode *x = dyn_graph_node(p->graph, a->place); x->flags & DYN_NODE_VIEW; x = base_of(p, x)) {
        for (const DynNode *y = from; y->flags & DYN_NODE_VIEW; y = base_of(p, y)) {
            if (are_apart(p, x, y)) {
                return true;
            }
        }
    }
    return false;
}

static bool conflict(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    for (uint32_t i = 0; i < a->operands.n; i++) {
        for (uint32_t j = 0; j < b->operands.n; j++) {
            const DynOperand *x = &a->operands.at[i], *y = &b->operands.at[j];
            if ((x->out || y->out) && !have_none_in_common(p, x, y)) {
                return true;
            }
        }
    }
    return false;
}

/* Elements that one writes and the other touches are the same at each point of the space. */
static bool pointwise(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    for (uint32_t i = 0; i < a->operands.n; i++) {
        for (uint32_t j = 0; j < b->operands.n; j++) {
            const DynOperand *x = &a->operands.at[i], *y = &b->operands.at[j];
            if (!(x->out || y->out) || have_none_in_common(p, x, y)) {
                continue;
            }
            bool index = dyn_kernel_is_index(a, i) || dyn_kernel_is_index(b, j); /* lies in memory before the others are read */
            bool by_element = !index && !x->result && !y->result;
            if (!by_element || !dyn_operands_same(p, x, y)) {
                return false;
            }
        }
    }
    return true;
}

static bool stores(const DynKernel *k) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (k->insns.at[i].kind == DYN_L_STORE) {
            return true;
        }
    }
    return false;
}

static int count_reduces(const DynKernel *k) {
    int n = 0;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        n += k->insns.at[i].kind == DYN_L_REDUCE;
    }
    return n;
}

static bool is_trailing(const DynKernel *k) {
    uint32_t kept = k->reduced ^ ((1u << k->ndim) - 1);
    return (kept & (kept + 1)) == 0;
}

static bool is_temporary(const DynMem *m) { return m->kind == DYN_P_TEMP || (m->kind == DYN_P_ARRAY && !m->wants_object); }

static bool reads(const DynKernel *k, uint32_t place) {
    for (uint32_t o = 0; !k->dead && o < k->operands.n; o++) {
        if (!k->operands.at[o].out && k->operands.at[o].place == place) {
            return true;
        }
    }
    return false;
}

/* By a step that is no kernel. */
static bool is_viewed(const DynLoops *p, uint32_t place) {
    for (uint32_t i = 0; i < p->steps.n; i++) {
        const DynStep *step = &p->steps.at[i];
        if ((step->kind == DYN_STEP_VIEW && dyn_loops_storage(p, step->id) == place) || dyn_step_scans(p, step, place)) {
            return true;
        }
    }
    return false;
}

static bool is_read(const DynLoops *p, uint32_t place) {
    bool read = is_viewed(p, place);
    for (uint32_t i = 0; i < p->kernels.n && !read; i++) {
        read = reads(&p->kernels.at[i], place);
    }
    return read;
}

/* Does anybody but a and b see what one of them stores? */
static bool is_seen(const DynLoops *p, const DynKernel *a, const DynKernel *b, uint32_t place) {
    bool seen = !is_temporary(&p->places[place]) || p->places[place].for_flags || is_viewed(p, place);
    for (uint32_t i = 0; i < p->kernels.n && !seen; i++) {
        const DynKernel *k = &p->kernels.at[i];
        seen = k != a && k != b && reads(k, place);
    }
    return seen;
}

static bool leaves_elements(const DynLoops *p, const DynKernel *a, const DynKernel *b, const DynKernel *which) {
    for (uint32_t i = 0; i < which->insns.n; i++) {
        const DynInsn *insn = &which->insns.at[i];
        if (insn->kind == DYN_L_STORE && is_seen(p, a, b, which->operands.at[insn->a[0]].place)) {
            return true;
        }
    }
    return false;
}

/* Operands of b that a doesn't have. */
static uint32_t count_new(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < b->operands.n; j++) {
        bool old = false;
        for (uint32_t i = 0; i < a->operands.n && !old; i++) {
            old = a->operands.at[i].out == b->operands.at[j].out && dyn_operands_same(p, &a->operands.at[i], &b->operands.at[j]);
        }
        n += !old;
    }
    return n;
}

/* The reduction of an ordered kernel that says in which way elements are added: products are taken in turn, complex numbers in
 * shorter blocks. */
static const DynInsn *first_inexact(const DynKernel *k) {
    uint32_t i = 0;
    while (!dyn_insn_is_inexact(&k->insns.at[i])) {
        i++;
    }
    return &k->insns.at[i];
}

/* Are the elements of two nodes known to lie in the same order, and what can be walked as one axis in one of them in the other
 * too? */
static bool lie_alike(const DynLoops *p, const DynKernel *a, uint32_t x, uint32_t y) {
    const DynNode *n = dyn_graph_node(p->graph, x), *m = dyn_graph_node(p->graph, y);
    bool one_axis = (a->reduced & (a->reduced - 1)) == 0;
    bool dense = n->layout.kind == DYN_LAYOUT_C && m->layout.kind == DYN_LAYOUT_C;
    if (x == y) {
        return true;
    }
    bool turned = (n->flags | m->flags) & DYN_NODE_TURNED;
    bool same_layout = dyn_layout_same(&n->layout, &m->layout, a->ndim) && !turned && !n->layout.still;
    return same_layout && (dense || one_axis);
}

static bool same_order(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    if (!a->ordered || !b->ordered) {
        return a->ordered == b->ordered || dyn_kernel_any_order(a->ordered ? b : a);
    }
    const DynInsn *x = first_inexact(a), *y = first_inexact(b);
    bool casts = dyn_graph_node(p->graph, a->like)->dtype != x->compute || dyn_graph_node(p->graph, b->like)->dtype != y->compute;
    bool both_complex = dyn_dtype_is_complex((DynDtype)x->compute) == dyn_dtype_is_complex((DynDtype)y->compute);
    if (x->op != y->op || !both_complex) {
        return false;
    }
    return (!casts || a->like == b->like) && lie_alike(p, a, a->like, b->like);
}

/* Do two kernels reduce the same axes in the same order, as far as both reduce? */
static bool reduce_alike(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    if (a->reduced == 0 || b->reduced == 0) {
        return true;
    }
    return a->reduced == b->reduced && same_order(p, a, b);
}

/* Does one kernel hold what two have? */
static bool fit_together(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    bool operands = a->operands.n + count_new(p, a, b) <= DYN_MAX_OPERANDS;
    bool insns = a->insns.n + b->insns.n <= DYN_MAX_INSNS, params = a->params.n + b->params.n <= DYN_MAX_PARAMS;
    return operands && insns && params && count_reduces(a) + count_reduces(b) <= DYN_MAX_RESULTS;
}

static void mark_used(const DynInsn *insn, bool *used) {
    bool first_is_value = insn->kind == DYN_L_CAST || insn->kind == DYN_L_OP;
    for (uint32_t k = 0; first_is_value && k < insn->nargs; k++) {
        used[insn->a[k]] = true;
    }
    if (insn->kind == DYN_L_STORE || insn->kind == DYN_L_REDUCE) {
        used[insn->a[1]] = true;
    }
}

/* The value that `operand` of b holds by now in a, or DYN_NONE: stored by an instruction of a. */
static uint32_t stored_value(const DynLoops *p, const DynKernel *a, const DynOperand *operand) {
    for (uint32_t i = a->insns.n; i-- > 0;) {
        const DynInsn *s = &a->insns.at[i];
        if (s->kind == DYN_L_STORE && dyn_operands_same(p, &a->operands.at[s->a[0]], operand)) {
            return s->a[1];
        }
    }
    return DYN_NONE;
}

/* Does b write there without having read it? */
static bool overwrites(const DynLoops *p, const DynKernel *b, const DynOperand *operand) {
    bool writes = false, reads = false;
    for (uint32_t i = 0; i < b->operands.n; i++) {
        const DynOperand *o = &b->operands.at[i];
        bool same = dyn_operands_same(p, o, operand);
        writes = writes || (same && o->out);
        reads = reads || (same && !o->out);
    }
    return writes && !reads;
}

/* In one kernel an instruction of a goes whose value nobody reads before b overwrites it. Would a warning go with it, or with
 * what has made a temporary for it? */
static bool hides_warnings(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    bool used[DYN_MAX_INSNS] = {false};
    for (uint32_t i = 0; i < b->operands.n; i++) {
        uint32_t value = b->operands.at[i].out ? DYN_NONE : stored_value(p, a, &b->operands.at[i]);
        if (value != DYN_NONE) {
            used[value] = true;
        }
    }
    for (uint32_t i = a->insns.n; i-- > 0 && !p->tensors;) {
        const DynInsn *n = &a->insns.at[i];
        bool stores = n->kind == DYN_L_STORE && n->nargs && !overwrites(p, b, &a->operands.at[n->a[0]]);
        if (used[i] || stores || n->kind == DYN_L_REDUCE) {
            mark_used(n, used);
        } else if (dyn_insn_may_warn(a, n) ||
                   (n->kind == DYN_L_LOAD && is_temporary(&p->places[a->operands.at[n->a[0]].place]))) {
            return true;
        }
    }
    return false;
}

/* Why two kernels can't be one, as story.c says it; NULL: they can. */
static const char *why_apart(const DynLoops *p, const DynKernel *a, const DynKernel *b) {
    if (a->margin || b->margin) {
        return "one of them computes only what no window holds";
    }
    if (!same_space(a, b)) {
        return "they go over different shapes";
    }
    if (!reduce_alike(p, a, b)) {
        return "they reduce different axes, or add up in different orders";
    }
    const DynKernel *r = a->reduced ? a : b;
    bool across_rows = r->reduced && !is_trailing(r);
    if (across_rows && (stores(a) || stores(b))) {
        return "one of them reduces leading axes, along which the other's stores would be scattered";
    }
    if (dyn_short_rows(p->graph, r->shape, r->ndim, r->reduced) && (leaves_elements(p, a, b, a) || leaves_elements(p, a, b, b))) {
        return "rows are short: their results are computed side by side (exec_few.c), which elements that are kept are not";
    }
    if (hides_warnings(p, a, b)) {
        return "the second overwrites what the first has to compute for its warnings";
    }
    if (!fit_together(p, a, b)) {
        return "they have more operands, instructions, numbers or results than one kernel may have";
    }
    return pointwise(p, a, b) ? NULL : "one of them needs other elements of what the other writes than those at its own point";
}

int dyn_kernel_copy(DynLoops *p, DynKernel *to, const DynKernel *from, DynLoad *load, void *ctx, uint32_t *stored) {
    uint32_t map[DYN_MAX_INSNS];
    for (uint32_t i = 0; i < from->insns.n; i++) {
        DynInsn insn = from->insns.at[i];
        bool first_is_value = insn.kind == DYN_L_CAST || insn.kind == DYN_L_OP;
        if (insn.kind == DYN_L_LOAD) {
            DynOperand o = from->operands.at[insn.a[0]];
            uint32_t by = o.indirect ? dyn_kernel_operand(p, to, from->operands.at[o.by]) : 0;
            if (by == DYN_NONE) {
                return -1;
            }
            o.by = (uint16_t)by;
            map[i] = load(p, to, &o, ctx);
            if (map[i] == DYN_NONE) {
                return -1;
            }
            continue;
        }
        if (insn.kind == DYN_L_STORE && stored != NULL) {
            *stored = map[insn.a[1]];
            continue;
        }
        if (insn.kind == DYN_L_SCALAR) {
            const DynParam *param = &from->params.at[insn.a[0]];
            insn.a[0] = dyn_kernel_param(p, to, param->sym, (DynDtype)param->dtype);
        } else if (!first_is_value) {
            insn.a[0] = dyn_kernel_operand(p, to, from->operands.at[insn.a[0]]);
            insn.a[1] = map[insn.a[1]];
        }
        for (uint32_t k = 0; first_is_value && k < insn.nargs; k++) {
            insn.a[k] = map[insn.a[k]];
        }
        map[i] = insn.a[0] == DYN_NONE ? DYN_NONE : dyn_kernel_insn(p, to, insn);
        if (map[i] == DYN_NONE) {
            return -1;
        }
    }
    return 0;
}

static uint32_t load_merged(DynLoops *p, DynKernel *a, const DynOperand *operand, void *ctx) {
    uint32_t value = stored_value(p, a, operand);
    return value == DYN_NONE ? dyn_kernel_load(p, a, operand) : value;
}

static bool is_barrier(const DynLoops *p, uint32_t step) { return p->steps.at[step].kind != DYN_STEP_KERNEL; }

/* Does kernel k commute with every kernel strictly between two steps? */
static bool commutes(const DynLoops *p, const DynKernel *k, uint32_t from, uint32_t to) {
    for (uint32_t s = from + 1; s < to; s++) {
        if (!dyn_loops_kernel_at(p, s)->dead && conflict(p, k, dyn_loops_kernel_at(p, s))) {
            return false;
        }
    }
    return true;
}

static int merge_steps(DynLoops *p, uint32_t i, uint32_t j, bool up) {
    DynKernel *a = dyn_loops_kernel_at(p, i), *b = dyn_loops_kernel_at(p, j);
    if (dyn_kernel_copy(p, a, b, load_merged, NULL, NULL) < 0) { /* sizes were looked at before: memory */
        return -1;
    }
    a->like = a->ordered ? a->like : b->like;
    a->ordered |= b->ordered;
    a->reduced |= b->reduced;
    a->at = up ? a->at : b->at;
    b->dead = true;
    if (!up) { /* a runs where b was */
        DynStep t = p->steps.at[i];
        p->steps.at[i] = p->steps.at[j];
        p->steps.at[j] = t;
    }
    return 0;
}

/* Merge the kernel at step j with an earlier one. 1: merged, 0: nothing found. */
static int merge_back(DynLoops *p, uint32_t j) {
    uint32_t i = j;
    while (i-- > 0 && !is_barrier(p, i)) {
        DynKernel *a = dyn_loops_kernel_at(p, i), *b = dyn_loops_kernel_at(p, j);
        if (a->dead) {
            continue;
        }
        const char *apart = why_apart(p, a, b);
        bool up = apart == NULL && commutes(p, b, i, j);
        if (apart == NULL && !up && !commutes(p, a, i, j)) {
            apart = "what runs between them needs the one, and is needed by the other";
        }
        dyn_story_of_pair(p, a, b, apart);
        if (apart == NULL) {
            return merge_steps(p, i, j, up) < 0 ? -1 : 1;
        }
    }
    if (i != UINT32_MAX) {
        dyn_story_of_call(p, dyn_loops_kernel_at(p, j), i);
    }
    return 0;
}

/* ---- cleaning up */

static uint32_t take(uint32_t *map, uint32_t *count, uint32_t old) {
    if (map[old] == DYN_NONE) {
        map[old] = (*count)++;
    }
    return map[old];
}

/* Instructions that nobody uses go, operands and params are numbered anew: what is read first, then what is written. */
static void compact(DynKernel *k) {
    bool used[DYN_MAX_INSNS] = {false};
    uint32_t map[DYN_MAX_INSNS], operand[DYN_MAX_OPERANDS], param[DYN_MAX_PARAMS], noperands = 0, nparams = 0, n = 0;
    DynOperand operands[DYN_MAX_OPERANDS];
    DynParam params[DYN_MAX_PARAMS];
    memset(operand, 0xff, sizeof(operand));
    memset(param, 0xff, sizeof(param));
    for (uint32_t i = k->insns.n; i-- > 0;) {
        DynInsn *insn = &k->insns.at[i];
        used[i] |= insn->kind == DYN_L_REDUCE || (insn->kind == DYN_L_STORE && insn->nargs);
        if (used[i]) {
            mark_used(insn, used);
        }
    }
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < k->insns.n; i++) {
            bool writes = k->insns.at[i].kind == DYN_L_STORE || k->insns.at[i].kind == DYN_L_REDUCE;
            bool has_operand = writes || k->insns.at[i].kind == DYN_L_LOAD;
            if (used[i] && has_operand && writes == pass) {
                const DynOperand *o = &k->operands.at[k->insns.at[i].a[0]];
                take(operand, &noperands, k->insns.at[i].a[0]);
                if (o->indirect) {
                    take(operand, &noperands, o->by);
                }
            }
        }
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        DynInsn insn = k->insns.at[i];
        if (!used[i]) {
            continue;
        }
        bool first_is_value = insn.kind == DYN_L_CAST || insn.kind == DYN_L_OP;
        for (uint32_t a = 0; first_is_value && a < insn.nargs; a++) {
            insn.a[a] = map[insn.a[a]];
        }
        if (insn.kind == DYN_L_SCALAR) {
            insn.a[0] = take(param, &nparams, insn.a[0]);
        } else if (!first_is_value) {
            insn.a[0] = operand[insn.a[0]];
            insn.a[1] = insn.kind == DYN_L_LOAD ? 0 : map[insn.a[1]];
        }
        map[i] = n;
        k->insns.at[n++] = insn;
    }
    k->insns.n = n;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (operand[i] != DYN_NONE) {
            operands[operand[i]] = k->operands.at[i];
            operands[operand[i]].by = k->operands.at[i].indirect ? (uint16_t)operand[k->operands.at[i].by] : 0;
        }
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        if (param[i] != DYN_NONE) {
            params[param[i]] = k->params.at[i];
        }
    }
    memcpy(k->operands.at, operands, sizeof(*operands) * noperands);
    if (nparams) {
        memcpy(k->params.at, params, sizeof(*params) * nparams);
    }
    k->operands.n = noperands;
    k->params.n = nparams;
}

/* Stores to temporaries without a reader, and stores that a later one in the same kernel overwrites, lose their value. */
static void drop_stores(DynLoops *p, DynKernel *k) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        DynInsn *insn = &k->insns.at[i];
        if (insn->kind != DYN_L_STORE) {
            continue;
        }
        uint32_t place = k->operands.at[insn->a[0]].place;
        bool useless = is_temporary(&p->places[place]) && !p->places[place].for_flags && !is_read(p, place);
        for (uint32_t j = i + 1; j < k->insns.n && !useless; j++) {
            useless = k->insns.at[j].kind == DYN_L_STORE && k->insns.at[j].a[0] == insn->a[0];
        }
        if (useless) {
            insn->nargs = 0;
        }
    }
}

static bool writes_what_it_reads(const DynLoops *p, const DynKernel *k) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        for (uint32_t j = 0; k->operands.at[i].out && j < k->operands.n; j++) {
            if (!k->operands.at[j].out &&
                dyn_loops_storage(p, k->operands.at[i].place) == dyn_loops_storage(p, k->operands.at[j].place)) {
                return true;
            }
        }
    }
    return false;
}

/* Does an operand look up what gather `n` does? */
static bool looks_up(const DynLoops *p, const DynKernel *k, const DynOperand *o, const DynNode *n) {
    if (!o->indirect || o->along != n->aux[0]) {
        return false;
    }
    uint32_t index = k->operands.at[o->by].place;
    return dyn_loops_same_access(p->graph, o->place, n->args[0].id) && dyn_loops_same_access(p->graph, index, n->args[1].id);
}

/* Does a kernel look up what gather `id` does, all of it? Such loads have the gather's space (lower.c). */
static bool is_looked_up(const DynLoops *p, uint32_t id) {
    const DynNode *n = dyn_graph_node(p->graph, id);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        const DynKernel *k = &p->kernels.at[i];
        for (uint32_t o = 0; !k->dead && o < k->operands.n; o++) {
            if (looks_up(p, k, &k->operands.at[o], n)) {
                return true;
            }
        }
    }
    return false;
}

/* Checks behind all kernels, of which one reports by itself. */
static void drop_checks(DynLoops *p) {
    uint32_t last = p->steps.n, n;
    while (last > 0 && p->steps.at[last - 1].kind == DYN_STEP_CHECK) {
        last--;
    }
    n = last;
    for (uint32_t i = last; i < p->steps.n; i++) {
        if (!is_looked_up(p, p->steps.at[i].id)) {
            p->steps.at[n++] = p->steps.at[i];
        }
    }
    p->steps.n = n;
}

static void clean_up(DynLoops *p) {
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t i = 0; i < p->kernels.n; i++) {
            DynKernel *k = &p->kernels.at[i];
            if (k->dead) {
                continue;
            }
            uint32_t before = k->insns.n;
            drop_stores(p, k);
            compact(k);
            again |= k->insns.n != before;
            k->dead = k->insns.n == 0;
            k->in_place = writes_what_it_reads(p, k);
        }
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        if (p->steps.at[i].kind != DYN_STEP_KERNEL || !dyn_loops_kernel_at(p, i)->dead) {
            p->steps.at[n++] = p->steps.at[i];
        }
    }
    p->steps.n = n;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        bool written = false;
        for (uint32_t k = 0; k < p->kernels.n && !written; k++) {
            written = !p->kernels.at[k].dead && dyn_kernel_touches(p, &p->kernels.at[k], i, false);
        }
        if (is_temporary(&p->places[i]) && !written && !is_read(p, i)) {
            p->places[i].kind = DYN_P_NONE;
        }
    }
}

int dyn_fuse(DynLoops *p, DynReason *why, DynStr *error) {
    *why = DYN_R_NO_MEMORY;
    uint32_t before = p->kernels.n, after = 0;
    for (uint32_t j = 0; j < p->steps.n; j++) {
        if (is_barrier(p, j) || dyn_loops_kernel_at(p, j)->dead) {
            continue;
        }
        int merged = merge_back(p, j);
        if (merged < 0) {
            dyn_str_puts(error, "not enough memory for a merged kernel");
            return -1;
        }
        j -= merged && !dyn_loops_kernel_at(p, j)->dead; /* the merged kernel stands here now: look again */
    }
    clean_up(p);
    drop_checks(p);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        after += !p->kernels.at[i].dead;
    }
    if (dyn_log_on(DYN_LOG_fusion)) {
        dyn_log(DYN_LOG_fusion, "%s: %u kernels became %u", p->graph->name ? p->graph->name : "graph", before, after);
    }
    *why = DYN_R_OK;
    return 0;
}
