/* loops_verify.c: holds loop IR to its rules. Called after each stage in debug builds, and by tests.
 *
 *   1. A kernel has at most DYN_MAX_OPERANDS operands, DYN_MAX_INSNS instructions, DYN_MAX_RESULTS reductions.
 *   2. An operand's place exists and, once planned, has memory; its axes exist, and no axis is walked twice; dtypes agree.
 *   3. Instructions use earlier ones; operands of a CAST differ in dtype, of a STORE or REDUCE agree with the memory.
 *   4. A kernel with `reduced` axes has a REDUCE and the other way round, and one that is `ordered` a REDUCE that rounds; a
 * result does not walk reduced axes, a stored operand walks all.
 *   5. Each kernel that is not dead is one step; a view step comes before the kernels that use the view.
 *   6. An indirect operand is read, not written; no axis of the space walks what it is looked up along, and what it stands by is
 * an operand of integers.
 *   7. A kernel whose lanes are rows is in a group, reduces nothing, and has one element in each row.
 *   8. A window is only read; it begins at 0 or behind, and where sizes tell, ends within its place. So does the box outside of
 * which a kernel runs; that kernel reduces nothing, is in no group, and what it writes is read by no kernel.
 *   9. Steps of one chain lie one behind the other: views, products, and kernels that are alone and don't reduce their first
 * axis.
 *   10. Two steps have one number of a pair, and are what pair.c makes one of.
 *   11. Two temporaries with one slot don't live at the same time. */
#include "codegen/loops/loops.h"

typedef struct Check {
    const DynLoops *p;
    DynStr *error;
} Check;

static int bad(Check *c, uint32_t kernel, const char *what) {
    dyn_str_printf(c->error, "kernel %u: %s", kernel, what);
    return -1;
}

static bool is_const(const DynLoops *p, uint32_t sym) { return dyn_sym_is_const(p->graph->syms, sym); }
static int64_t value_of(const DynLoops *p, uint32_t sym) { return dyn_sym_at(p->graph->syms, sym)->value.i; }

/* Can `size` elements from `at` on be part of `whole`? Sizes are symbols: what they don't tell is seen at run time. */
static bool is_within(const DynLoops *p, int32_t at, uint32_t size, uint32_t whole) {
    if (at < 0 || (size == whole && at != 0)) {
        return false;
    }
    bool known = is_const(p, size) && is_const(p, whole);
    return !known || value_of(p, size) == 0 || at + value_of(p, size) <= value_of(p, whole);
}

static int check_window(Check *c, uint32_t kernel, const DynKernel *k, const DynOperand *o) {
    const DynMem *m = &c->p->places[o->place];
    if (o->window && (o->out || o->result)) {
        return bad(c, kernel, "a window is written");
    }
    for (int d = 0; d < k->ndim; d++) {
        if (o->at[d] != 0 && (!o->window || o->axis[d] < 0)) {
            return bad(c, kernel, "an operand begins somewhere along an axis that it doesn't walk");
        }
        if (o->window && o->axis[d] >= 0 && !is_within(c->p, o->at[d], k->shape[d], m->shape[o->axis[d]])) {
            return bad(c, kernel, "a window lies outside of its place");
        }
    }
    return 0;
}

static bool reads(const DynLoops *p, const DynKernel *k, uint32_t storage) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (!k->operands.at[i].out && dyn_loops_storage(p, k->operands.at[i].place) == storage) {
            return true;
        }
    }
    return false;
}

static int check_margin(Check *c, uint32_t kernel, const DynKernel *k) {
    const DynLoops *p = c->p;
    if (k->reduced || k->group != DYN_NONE) {
        return bad(c, kernel, "runs outside of a box, and reduces or is in a group");
    }
    for (int d = 0; d < k->ndim; d++) {
        if (!is_within(p, k->box_at[d], k->box_shape[d], k->shape[d])) {
            return bad(c, kernel, "its box lies outside of its space");
        }
    }
    for (uint32_t o = 0; o < k->operands.n; o++) {
        for (uint32_t i = 0; i < p->kernels.n && k->operands.at[o].out; i++) {
            if (!p->kernels.at[i].dead && reads(p, &p->kernels.at[i], dyn_loops_storage(p, k->operands.at[o].place))) {
                return bad(c, kernel, "runs outside of a box only, and what it writes is read");
            }
        }
    }
    return 0;
}

/* Are the places of an indirect operand integers that are read from memory as they lie? */
static bool has_index(const DynKernel *k, const DynOperand *o) {
    const DynOperand *by = o->by < k->operands.n ? &k->operands.at[o->by] : NULL;
    return by != NULL && !by->out && !by->indirect && dyn_dtype_is_integer((DynDtype)by->dtype);
}

static int check_operand(Check *c, uint32_t kernel, const DynKernel *k, const DynOperand *o) {
    uint32_t seen = 0;
    if (o->place >= c->p->nplaces) {
        return bad(c, kernel, "an operand names no place");
    }
    const DynMem *m = &c->p->places[o->place];
    if (m->kind == DYN_P_NONE) {
        return bad(c, kernel, "an operand has no memory");
    }
    if (m->dtype != o->dtype) {
        return bad(c, kernel, "an operand has another dtype than its place");
    }
    if (o->indirect) {
        if (o->out || o->window || o->along >= m->ndim) {
            return bad(c, kernel, "an indirect operand is wrong");
        }
        if (!has_index(k, o)) {
            return bad(c, kernel, "an indirect operand is wrong");
        }
        seen = 1u << o->along;
    }
    for (int d = 0; d < k->ndim; d++) {
        bool again = o->axis[d] >= 0 && (seen >> o->axis[d] & 1);
        if (again || o->axis[d] < -1 || o->axis[d] >= m->ndim) {
            return bad(c, kernel, "an operand's axes are wrong");
        }
        seen |= o->axis[d] >= 0 ? 1u << o->axis[d] : 0;
    }
    return check_window(c, kernel, k, o);
}

static int check_insn(Check *c, uint32_t kernel, const DynKernel *k, uint32_t i) {
    const DynInsn *n = &k->insns.at[i];
    bool memory = n->kind == DYN_L_LOAD || n->kind == DYN_L_STORE || n->kind == DYN_L_REDUCE;
    if (memory) {
        if (n->a[0] >= k->operands.n) {
            return bad(c, kernel, "an instruction names no operand");
        }
        const DynOperand *o = &k->operands.at[n->a[0]];
        if (o->out == (n->kind == DYN_L_LOAD) || o->dtype != n->dtype || o->result != (n->kind == DYN_L_REDUCE)) {
            return bad(c, kernel, "a load or store does not fit its operand");
        }
        for (int d = 0; d < k->ndim && n->kind == DYN_L_REDUCE; d++) {
            if (o->axis[d] >= 0 && (k->reduced >> d & 1)) {
                return bad(c, kernel, "a result walks a reduced axis");
            }
        }
    }
    if (n->kind == DYN_L_SCALAR && n->a[0] >= k->params.n) {
        return bad(c, kernel, "an instruction names no param");
    }
    if (n->kind == DYN_L_STORE || n->kind == DYN_L_REDUCE) {
        uint8_t dtype = n->kind == DYN_L_STORE ? n->dtype : n->compute;
        bool earlier = n->a[1] < i && k->insns.at[n->a[1]].dtype == dtype;
        return earlier ? 0 : bad(c, kernel, "what is written is no earlier value of that dtype");
    }
    for (int a = 0; (n->kind == DYN_L_OP || n->kind == DYN_L_CAST) && a < n->nargs; a++) {
        if (n->a[a] >= i || k->insns.at[n->a[a]].kind == DYN_L_STORE || k->insns.at[n->a[a]].kind == DYN_L_REDUCE) {
            return bad(c, kernel, "an operand is no earlier value");
        }
    }
    if (n->kind == DYN_L_OP && n->nargs != dyn_ops[n->op].arity) {
        return bad(c, kernel, "an operator has the wrong number of operands");
    }
    return n->kind == DYN_L_CAST && k->insns.at[n->a[0]].dtype == n->dtype ? bad(c, kernel, "a cast changes nothing") : 0;
}

static int check_kernel(Check *c, uint32_t id) {
    const DynKernel *k = &c->p->kernels.at[id];
    uint32_t nreduces = 0;
    if (k->operands.n > DYN_MAX_OPERANDS || k->insns.n > DYN_MAX_INSNS || k->params.n > DYN_MAX_PARAMS ||
        k->ndim > DYN_MAX_NDIM) {
        return bad(c, id, "too large");
    }
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (check_operand(c, id, k, &k->operands.at[i]) < 0) {
            return -1;
        }
    }
    for (uint32_t i = 0; i < k->insns.n; i++) {
        nreduces += k->insns.at[i].kind == DYN_L_REDUCE;
        if (check_insn(c, id, k, i) < 0) {
            return -1;
        }
    }
    if (k->margin && check_margin(c, id, k) < 0) {
        return -1;
    }
    if (k->across && (k->reduced || k->group == DYN_NONE || k->outer == 0 || !dyn_kernel_is_one(c->p, k, k->outer))) {
        return bad(c, id, "rows can't be its lanes");
    }
    if (nreduces > DYN_MAX_RESULTS || (k->reduced && !nreduces) || k->reduced >> k->ndim) {
        return bad(c, id, "its reduced axes and its reductions disagree");
    }
    if (k->ordered &&
        (dyn_kernel_any_order(k) || k->like >= c->p->nnodes || dyn_graph_node(c->p->graph, k->like)->ndim != k->ndim)) {
        return bad(c, id, "what its order is like is no node of its space, or nothing in it has an order");
    }
    return 0;
}

static int check_steps(Check *c) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        uint32_t n = 0;
        for (uint32_t s = 0; s < p->steps.n; s++) {
            n += p->steps.at[s].kind == DYN_STEP_KERNEL && p->steps.at[s].id == i;
        }
        if (n != !p->kernels.at[i].dead) {
            return bad(c, i, "is not one step");
        }
    }
    for (uint32_t s = 0; s < p->steps.n; s++) {
        const DynStep *view = &p->steps.at[s];
        for (uint32_t t = 0; view->kind == DYN_STEP_VIEW && t < s; t++) {
            bool scan = p->steps.at[t].kind == DYN_STEP_SCAN, check = p->steps.at[t].kind == DYN_STEP_CHECK;
            const DynNode *n = scan || check ? dyn_graph_node(p->graph, p->steps.at[t].id) : NULL;
            bool uses = check && n->args[dyn_node_index(n)].id == view->id;
            for (int k = 0; scan && k < n->nargs; k++) {
                uses |= n->args[k].id == view->id;
            }
            if (uses) {
                dyn_str_printf(c->error, "%s %%%u uses a view before it is made", scan ? "scan" : "check", p->steps.at[t].id);
                return -1;
            }
            const DynKernel *k = p->steps.at[t].kind == DYN_STEP_KERNEL ? &p->kernels.at[p->steps.at[t].id] : NULL;
            for (uint32_t o = 0; k && o < k->operands.n; o++) {
                if (k->operands.at[o].place == view->id) {
                    return bad(c, p->steps.at[t].id, "uses a view before it is made");
                }
            }
        }
    }
    return 0;
}

static int check_chains(Check *c) {
    const DynLoops *p = c->p;
    uint32_t last = 0;
    for (uint32_t s = 0; s < p->steps.n; s++) {
        uint32_t chain = p->steps.at[s].chain;
        bool goes_on = s > 0 && chain == p->steps.at[s - 1].chain;
        bool in_order = goes_on || chain == last + 1;
        if (chain != 0 && (!in_order || !dyn_chain_takes(p, &p->steps.at[s]))) {
            dyn_str_printf(c->error, "step %u can't be in chain %u", s, chain);
            return -1;
        }
        last = chain > last ? chain : last;
    }
    return 0;
}

static int check_pairs(Check *c) {
    const DynLoops *p = c->p;
    DynPair pair;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        uint32_t others = 0;
        for (uint32_t j = 0; j < p->steps.n && p->steps.at[i].pair != 0; j++) {
            bool other = i != j && p->steps.at[i].pair == p->steps.at[j].pair;
            uint32_t first = i < j ? i : j;
            others += other && dyn_pair_find(p, first, i + j - first, &pair);
        }
        if (p->steps.at[i].pair != 0 && others != 1) {
            dyn_str_printf(c->error, "step %u can't be in pair %u", i, p->steps.at[i].pair);
            return -1;
        }
    }
    return 0;
}

static int check_slots(Check *c) {
    const DynLoops *p = c->p;
    for (uint32_t i = 0; i < p->nplaces; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const DynMem *a = &p->places[i], *b = &p->places[j];
            bool temporaries = a->kind == DYN_P_TEMP && b->kind == DYN_P_TEMP;
            bool share = temporaries && a->slot == b->slot && a->slot != DYN_NONE;
            if (share && a->last >= b->first && b->last >= a->first) {
                dyn_str_printf(c->error, "places %u and %u share slot %u while both live", j, i, a->slot);
                return -1;
            }
        }
    }
    return 0;
}

int dyn_loops_verify(const DynLoops *p, DynStr *error) {
    Check c = {.p = p, .error = error};
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        if (!p->kernels.at[i].dead && check_kernel(&c, i) < 0) {
            return -1;
        }
    }
    return check_steps(&c) < 0 || check_chains(&c) < 0 || check_pairs(&c) < 0 || (p->nslots && check_slots(&c) < 0) ? -1 : 0;
}
