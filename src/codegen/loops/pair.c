/* pair.c: two reductions over the same elements, the second of which needs what the first gives: which of them can go over memory
 * once.
 *
 * Called by schedule.c when groups and chains are made; by exec_pair.c's caller for what a pair is. Such are squares of how far
 * elements are from their mean (a variance), and exponentials of how far they are from their maximum (softmax, log-sum-exp). A
 * piece of the elements has a mean, or a maximum, of its own; what is summed up about that says, when the pieces are put
 * together, what the sum about that of all is (exec_pair.c). So both kernels take a piece while it is in the cache.
 *
 * Neither kernel stores elements or stands in a group, whose rows stay in the cache anyway; between them are the kernel that
 * makes the mean of the sum, and kernels that have nothing to do with them. */
#include "codegen/loops/loops.h"

static const DynInsn *insn_at(const DynKernel *k, uint32_t i) { return &k->insns.at[i]; }

/* The one reduction of a kernel that does nothing else, of floats that are reduced as what they are. */
static const DynInsn *only_reduction(const DynLoops *p, const DynKernel *k) {
    const DynInsn *found = NULL;
    bool alone = k != NULL && k->group == DYN_NONE && !k->margin;
    if (!alone || !k->reduced || k->ordered) {
        return NULL;
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = insn_at(k, i);
        if (insn->kind == DYN_L_STORE || (insn->kind == DYN_L_REDUCE && found != NULL)) {
            return NULL;
        }
        found = insn->kind == DYN_L_REDUCE ? insn : found;
    }
    if (found == NULL) {
        return NULL;
    }
    const DynOperand *o = &k->operands.at[found->a[0]];
    bool floats = found->compute == DYN_F32 || found->compute == DYN_F64;
    bool temporary = p->places[dyn_loops_storage(p, o->place)].kind == DYN_P_TEMP;
    return floats && temporary && o->dtype == found->compute ? found : NULL;
}

static bool same_operand(const DynLoops *p, const DynOperand *a, const DynOperand *b) {
    return a->dtype == b->dtype && dyn_operands_same(p, a, b);
}

/* Is value x of kernel a the same as value y of kernel b? */
static bool same_value(const DynLoops *p, const DynKernel *a, uint32_t x, const DynKernel *b, uint32_t y) {
    const DynInsn *m = insn_at(a, x), *n = insn_at(b, y);
    if (!dyn_insns_same_operation(m, n)) {
        return false;
    }
    if (m->kind == DYN_L_LOAD) {
        return same_operand(p, &a->operands.at[m->a[0]], &b->operands.at[n->a[0]]);
    }
    if (m->kind == DYN_L_SCALAR) {
        const DynParam *u = &a->params.at[m->a[0]], *v = &b->params.at[n->a[0]];
        return u->sym == v->sym && u->dtype == v->dtype;
    }
    bool same = true;
    for (uint32_t i = 0; i < (m->kind == DYN_L_CAST ? 1u : m->nargs) && same; i++) {
        same = same_value(p, a, m->a[i], b, n->a[i]);
    }
    return same;
}

static const DynInsn *past_casts(const DynKernel *k, const DynInsn *n) {
    while (n->kind == DYN_L_CAST) {
        n = insn_at(k, n->a[0]);
    }
    return n;
}

/* The value that a kernel stores in a place, if it stores one there and nothing else in its memory; NULL: it doesn't. */
static const DynInsn *only_store(const DynLoops *p, const DynKernel *k, uint32_t place) {
    const DynInsn *found = NULL;
    for (uint32_t i = 0; !k->reduced && !k->margin && i < k->insns.n; i++) {
        const DynInsn *n = insn_at(k, i);
        bool there = n->kind == DYN_L_STORE && dyn_loops_storage(p, k->operands.at[n->a[0]].place) == dyn_loops_storage(p, place);
        if (there && (found != NULL || k->operands.at[n->a[0]].place != place)) {
            return NULL;
        }
        found = there ? n : found;
    }
    return found;
}

/* The symbol that a kernel divides by what it loads from one place, for another, element by element; DYN_NONE: it does else. */
static uint32_t divisor_of(const DynLoops *p, const DynKernel *k, uint32_t from, uint32_t to) {
    const DynInsn *store = only_store(p, k, to);
    const DynInsn *quotient = store == NULL ? NULL : past_casts(k, insn_at(k, store->a[1]));
    if (quotient == NULL || quotient->kind != DYN_L_OP || quotient->op != DYN_OP_DIVIDE) {
        return DYN_NONE;
    }
    const DynInsn *sum = past_casts(k, insn_at(k, quotient->a[0])), *by = past_casts(k, insn_at(k, quotient->a[1]));
    const DynOperand *x = sum->kind == DYN_L_LOAD ? &k->operands.at[sum->a[0]] : NULL, *y = &k->operands.at[store->a[0]];
    bool loads = x != NULL && x->place == from && !x->indirect;
    if (!loads || by->kind != DYN_L_SCALAR) {
        return DYN_NONE;
    }
    bool same_axes = p->places[from].ndim == p->places[to].ndim && !memcmp(x->axis, y->axis, sizeof(x->axis));
    return same_axes ? k->params.at[by->a[0]].sym : DYN_NONE;
}

/* Does an operand give each result of the first kernel's what belongs to it? */
static bool stands_by(const DynLoops *p, const DynKernel *k, const DynOperand *o, const DynOperand *result) {
    for (int d = 0; d < k->ndim; d++) {
        bool one = o->axis[d] < 0 || dyn_sym_is_one(p->graph->syms, p->places[o->place].shape[o->axis[d]]);
        if (k->reduced >> d & 1 ? !one : o->axis[d] != result->axis[d]) {
            return false;
        }
    }
    return !o->indirect && !o->window;
}

/* What is between two steps leaves alone what the second reads and writes, and what the first gives; but for the step `maker`,
 * which stores the mean once (DYN_NONE: there is none). */
static bool may_come_first(const DynLoops *p, uint32_t first, uint32_t second, uint32_t result, uint32_t mean, uint32_t maker) {
    const DynKernel *b = dyn_loops_kernel_at(p, second);
    for (uint32_t s = first + 1; s < second; s++) {
        const DynKernel *k = dyn_loops_kernel_at(p, s);
        if (p->steps.at[s].kind != DYN_STEP_KERNEL || p->steps.at[s].pair != 0 ||
            dyn_kernel_touches(p, k, dyn_loops_storage(p, result), true)) {
            return false;
        }
        for (uint32_t i = 0; i < b->operands.n; i++) {
            const DynOperand *o = &b->operands.at[i];
            bool made = s == maker && o->place == mean && !k->in_place;
            if (!made && dyn_kernel_touches(p, k, dyn_loops_storage(p, o->place), !o->out)) {
                return false;
            }
        }
    }
    return true;
}

/* value = v - shift, where v is what the first kernel reduces: the operand that is `shift`. */
static bool find_shift(const DynLoops *p, uint32_t first, uint32_t second, const DynInsn *value, uint32_t *shift) {
    const DynKernel *a = dyn_loops_kernel_at(p, first), *b = dyn_loops_kernel_at(p, second);
    const DynInsn *sum = only_reduction(p, a);
    if (value->kind != DYN_L_OP || value->op != DYN_OP_SUBTRACT || value->compute != sum->compute) {
        return false;
    }
    const DynInsn *by = insn_at(b, value->a[1]);
    if (by->kind != DYN_L_LOAD || !same_value(p, a, sum->a[1], b, value->a[0])) {
        return false;
    }
    *shift = by->a[0];
    return stands_by(p, b, &b->operands.at[*shift], &a->operands.at[sum->a[0]]);
}

static bool same_space(const DynKernel *a, const DynKernel *b) {
    bool same_shape = a->ndim == b->ndim && !memcmp(a->shape, b->shape, sizeof(*a->shape) * a->ndim);
    return same_shape && a->reduced == b->reduced;
}

bool dyn_pair_find(const DynLoops *p, uint32_t first, uint32_t second, DynPair *out) {
    const DynKernel *a = dyn_loops_kernel_at(p, first), *b = dyn_loops_kernel_at(p, second);
    const DynInsn *x = only_reduction(p, a), *y = only_reduction(p, b);
    if (x == NULL || y == NULL || !same_space(a, b)) {
        return false;
    }
    bool chained = p->steps.at[first].chain != 0 || p->steps.at[second].chain != 0;
    if (chained || y->op != DYN_OP_SUM || x->compute != y->compute) {
        return false;
    }
    const DynInsn *value = insn_at(b, y->a[1]);
    if (value->kind != DYN_L_OP) {
        return false;
    }
    bool squares = value->op == DYN_OP_SQUARE || (value->op == DYN_OP_MULTIPLY && value->a[0] == value->a[1]);
    bool of_exponentials = x->op == DYN_OP_MAX && value->op == DYN_OP_EXP;
    if (!of_exponentials && !(x->op == DYN_OP_SUM && squares)) {
        return false;
    }
    if (!find_shift(p, first, second, insn_at(b, value->a[0]), &out->shift)) {
        return false;
    }
    uint32_t result = a->operands.at[x->a[0]].place, mean = b->operands.at[out->shift].place;
    out->first = x->a[0];
    out->second = y->a[0];
    out->divisor = DYN_NONE;
    uint32_t maker = DYN_NONE;
    for (uint32_t s = first + 1; squares && s < second && out->divisor == DYN_NONE; s++) {
        out->divisor = dyn_loops_kernel_at(p, s) == NULL ? DYN_NONE : divisor_of(p, dyn_loops_kernel_at(p, s), result, mean);
        maker = s;
    }
    bool made = p->places[mean].kind == DYN_P_TEMP && (squares ? out->divisor != DYN_NONE : mean == result);
    return made && may_come_first(p, first, second, result, mean, out->divisor == DYN_NONE ? DYN_NONE : maker);
}

void dyn_pairs_make(DynLoops *p) {
    DynPair pair;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        for (uint32_t j = i + 1; j < p->steps.n && p->steps.at[j].kind == DYN_STEP_KERNEL && p->steps.at[i].pair == 0; j++) {
            if (p->steps.at[j].pair == 0 && dyn_pair_find(p, i, j, &pair)) {
                p->steps.at[i].pair = p->steps.at[j].pair = ++p->npairs;
            }
        }
    }
}
