/* kernels.c: what every pass over loop IR uses: lists, the storage of places, instructions and operands of a kernel (each there
 * once), and what a kernel or another step touches. Everything is in the capture's arena. */
#include "codegen/loops/loops.h"

static bool is_view(const DynNode *n) { return n->flags & DYN_NODE_VIEW; }

int dyn_loops_grow(DynArena *arena, void **at, uint32_t *cap, uint32_t n, size_t item) {
    uint32_t more = *cap ? *cap * 2 : 8;
    void *grown = dyn_arena_alloc(arena, item * more);
    if (!grown) {
        return -1;
    }
    if (n) {
        memcpy(grown, *at, item * n);
    }
    *at = grown;
    *cap = more;
    return 0;
}

uint32_t dyn_loops_storage(const DynLoops *p, uint32_t place) {
    return place < p->nnodes ? dyn_graph_node(p->graph, place)->storage : p->places[place].of;
}

static bool same_args(const DynNode *x, const DynNode *y, uint32_t from) {
    for (uint32_t i = from; i < x->nargs; i++) {
        if (x->args[i].kind != y->args[i].kind || x->args[i].id != y->args[i].id) {
            return false;
        }
    }
    return true;
}

bool dyn_node_same_form(const DynNode *x, const DynNode *y) {
    if (x->op != y->op || x->nargs != y->nargs) {
        return false;
    }
    bool same_aux = x->naux == y->naux && !memcmp(x->aux, y->aux, sizeof(*x->aux) * x->naux);
    bool same_shape = x->ndim == y->ndim && !memcmp(x->shape, y->shape, sizeof(*x->shape) * x->ndim);
    return same_aux && same_shape;
}

bool dyn_loops_same_access(const DynGraph *g, uint32_t a, uint32_t b) {
    while (a != b) {
        const DynNode *x = dyn_graph_node(g, a), *y = dyn_graph_node(g, b);
        bool views = is_view(x) && is_view(y);
        if (!views || !dyn_node_same_form(x, y) || !same_args(x, y, 1)) {
            return false;
        }
        a = x->args[0].id;
        b = y->args[0].id;
    }
    return true;
}

bool dyn_loops_same_place(const DynLoops *p, uint32_t a, uint32_t b) {
    bool nodes = a < p->nnodes && b < p->nnodes;
    return a == b || (nodes && dyn_loops_same_access(p->graph, a, b));
}

/* Do two operands take the same part of their places, along the same axes? */
static bool same_part(const DynOperand *a, const DynOperand *b) {
    return a->window == b->window && !memcmp(a->axis, b->axis, sizeof(a->axis)) && !memcmp(a->at, b->at, sizeof(a->at));
}

bool dyn_operands_same(const DynLoops *p, const DynOperand *a, const DynOperand *b) {
    bool direct = !a->indirect && !b->indirect;
    return direct && dyn_loops_same_place(p, a->place, b->place) && same_part(a, b);
}

bool dyn_insns_same_operation(const DynInsn *x, const DynInsn *y) {
    bool same_operator = x->kind == y->kind && x->op == y->op && x->nargs == y->nargs;
    return same_operator && x->dtype == y->dtype && x->compute == y->compute;
}

static bool same_insn(const DynInsn *x, const DynInsn *y) {
    return dyn_insns_same_operation(x, y) && !memcmp(x->a, y->a, sizeof(x->a));
}

uint32_t dyn_kernel_insn(DynLoops *p, DynKernel *k, DynInsn insn) {
    bool pure = insn.kind != DYN_L_STORE && insn.kind != DYN_L_REDUCE;
    for (uint32_t i = k->insns.n; pure && i-- > 0;) {
        const DynInsn *old = &k->insns.at[i];
        if (same_insn(old, &insn)) {
            return i;
        }
        if (insn.kind == DYN_L_LOAD && old->kind == DYN_L_STORE &&
            dyn_loops_storage(p, k->operands.at[old->a[0]].place) == dyn_loops_storage(p, k->operands.at[insn.a[0]].place)) {
            break; /* written since */
        }
    }
    if (k->insns.n >= DYN_MAX_INSNS || dyn_list_push(p->arena, &k->insns, insn) < 0) {
        return DYN_NONE;
    }
    return k->insns.n - 1;
}

uint32_t dyn_kernel_operand(DynLoops *p, DynKernel *k, DynOperand operand) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        bool same_place = o->out == operand.out && dyn_loops_same_place(p, o->place, operand.place);
        bool same_look_up = o->indirect == operand.indirect && o->along == operand.along && o->by == operand.by;
        if (same_place && same_look_up && same_part(o, &operand)) {
            return i;
        }
    }
    if (k->operands.n >= DYN_MAX_OPERANDS || dyn_list_push(p->arena, &k->operands, operand) < 0) {
        return DYN_NONE;
    }
    return k->operands.n - 1;
}

uint32_t dyn_kernel_load(DynLoops *p, DynKernel *k, const DynOperand *operand) {
    DynInsn load = {.kind = DYN_L_LOAD, .dtype = operand->dtype, .a = {dyn_kernel_operand(p, k, *operand)}};
    return load.a[0] == DYN_NONE ? DYN_NONE : dyn_kernel_insn(p, k, load);
}

uint32_t dyn_kernel_param(DynLoops *p, DynKernel *k, uint32_t sym, DynDtype dt) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        if (k->params.at[i].sym == sym && k->params.at[i].dtype == dt) {
            return i;
        }
    }
    DynParam param = {.sym = sym, .dtype = (uint8_t)dt};
    param.is_float = dyn_sym_at(p->graph->syms, sym)->type == DYN_T_FLOAT;
    return k->params.n >= DYN_MAX_PARAMS || dyn_list_push(p->arena, &k->params, param) < 0 ? DYN_NONE : k->params.n - 1;
}

bool dyn_kernel_touches(const DynLoops *p, const DynKernel *k, uint32_t storage, bool written_only) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if ((o->out || !written_only) && dyn_loops_storage(p, o->place) == storage) {
            return true;
        }
    }
    return false;
}

bool dyn_kernel_is_index(const DynKernel *k, uint32_t operand) {
    for (uint32_t i = 0; i < k->operands.n; i++) {
        if (k->operands.at[i].indirect && k->operands.at[i].by == operand) {
            return true;
        }
    }
    return false;
}

uint32_t dyn_kernel_loaded(const DynKernel *k, uint32_t operand) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (k->insns.at[i].kind == DYN_L_LOAD && k->insns.at[i].a[0] == operand) {
            return i;
        }
    }
    return DYN_NONE;
}

bool dyn_kernel_is_loaded(const DynKernel *k, uint32_t operand) { return dyn_kernel_loaded(k, operand) != DYN_NONE; }

bool dyn_kernel_is_one(const DynLoops *p, const DynKernel *k, int from) {
    bool one = true;
    for (int d = from; d < k->ndim; d++) {
        one = one && dyn_sym_is_one(p->graph->syms, k->shape[d]);
    }
    return one;
}

DynKernel *dyn_loops_kernel_at(const DynLoops *p, uint32_t step) {
    return step < p->steps.n && p->steps.at[step].kind == DYN_STEP_KERNEL ? &p->kernels.at[p->steps.at[step].id] : NULL;
}

uint32_t dyn_loops_group_end(const DynLoops *p, uint32_t step) {
    uint32_t group = dyn_loops_kernel_at(p, step)->group, end = step + 1;
    for (const DynKernel *k = dyn_loops_kernel_at(p, end); k != NULL && group != DYN_NONE && k->group == group;
         k = dyn_loops_kernel_at(p, end)) {
        end++;
    }
    return end;
}

/* Does it give one element, made of all that there is? */
static bool reduces_all(const DynLoops *p, const DynKernel *k) {
    bool all = k != NULL && k->reduced && k->group == DYN_NONE;
    for (int d = 0; all && d < k->ndim; d++) {
        all = (k->reduced >> d & 1) || dyn_sym_is_one(p->graph->syms, k->shape[d]);
    }
    return all;
}

static bool may_be_tail(const DynLoops *p, const DynKernel *k) {
    bool elementwise = k != NULL && !k->reduced && k->group == DYN_NONE && !k->margin;
    return elementwise && k->ndim <= DYN_TAIL_RANK && dyn_kernel_is_one(p, k, 0);
}

uint32_t dyn_loops_tails_end(const DynLoops *p, uint32_t step) {
    uint32_t end = step + 1, handed = 0;
    if (!p->device || !reduces_all(p, dyn_loops_kernel_at(p, step))) {
        return end;
    }
    for (const DynKernel *k = dyn_loops_kernel_at(p, end); may_be_tail(p, k); k = dyn_loops_kernel_at(p, end)) {
        handed += k->operands.n + k->params.n;
        if (handed > DYN_TAILS_HANDED || end - step > DYN_MOST_TAILS) {
            break;
        }
        end++;
    }
    return end;
}

uint32_t dyn_loops_tails_head(const DynLoops *p, uint32_t step) {
    uint32_t head = step;
    while (head > 0 && step - head < DYN_MOST_TAILS && may_be_tail(p, dyn_loops_kernel_at(p, head))) {
        head--;
    }
    return step < dyn_loops_tails_end(p, head) ? head : step;
}

bool dyn_insn_is_inexact(const DynInsn *insn) {
    bool accumulates = insn->op == DYN_OP_SUM || insn->op == DYN_OP_PROD;
    return insn->kind == DYN_L_REDUCE && accumulates && dyn_dtype_is_inexact((DynDtype)insn->compute);
}

bool dyn_kernel_walks(const DynKernel *k, uint32_t operand) {
    return !k->operands.at[operand].result && !k->operands.at[operand].scalar;
}

bool dyn_insn_is_taken(const DynKernel *k, const DynInsn *insn) {
    const DynInsn *value = &k->insns.at[insn->a[1]];
    const DynOperand *o = value->kind == DYN_L_LOAD ? &k->operands.at[value->a[0]] : NULL;
    if (o == NULL || o->dtype != insn->compute) {
        return false;
    }
    return !k->in_place && dyn_kernel_walks(k, value->a[0]);
}

bool dyn_kernel_only_takes(const DynKernel *k) {
    bool only = true;
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *insn = &k->insns.at[i];
        bool takes = dyn_insn_is_inexact(insn) && dyn_insn_is_taken(k, insn);
        only = only && (takes || insn->kind == DYN_L_LOAD);
    }
    return only;
}

bool dyn_kernel_any_order(const DynKernel *k) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        if (dyn_insn_is_inexact(&k->insns.at[i])) {
            return false;
        }
    }
    return true;
}

bool dyn_step_scans(const DynLoops *p, const DynStep *step, uint32_t storage) {
    if (step->kind == DYN_STEP_CHECK) {
        const DynNode *n = dyn_graph_node(p->graph, step->id);
        return dyn_loops_storage(p, n->args[dyn_node_index(n)].id) == storage;
    }
    const DynNode *n = step->kind == DYN_STEP_SCAN ? dyn_graph_node(p->graph, step->id) : NULL;
    bool found = n != NULL && step->id == storage;
    for (uint32_t k = 0; n != NULL && k < n->nargs && !found; k++) {
        found = dyn_loops_storage(p, n->args[k].id) == storage;
    }
    return found;
}

/* ---- names */

static void put_once(DynStr *out, const char *word, const char *between) {
    const char *at = strstr(dyn_str_at(out), word);
    size_t n = strlen(word);
    for (; at != NULL; at = strstr(at + 1, word)) {
        bool begins = at == out->at || !Py_ISALNUM(at[-1]), ends = !Py_ISALNUM(at[n]) && at[n] != '_';
        if (begins && ends) {
            return;
        }
    }
    dyn_str_printf(out, "%s%s", out->n > 0 ? between : "", word);
}

void dyn_kernel_name(const DynKernel *k, const char *between, DynStr *out) {
    for (uint32_t i = 0; i < k->insns.n; i++) {
        const DynInsn *x = &k->insns.at[i];
        if (x->kind == DYN_L_OP || x->kind == DYN_L_REDUCE) {
            put_once(out, dyn_ops[x->op].text, between);
        }
    }
    dyn_str_puts(out, out->n == 0 ? "copy" : "");
}

#define LONGEST_SYMBOL 60

/* The C compiler, perf and gdb know a function of a kernel by this name: its form, its number and what it computes. */
void dyn_kernel_symbol(const DynKernel *k, const char *form, DynStr *out) {
    DynStr name = {0};
    dyn_kernel_name(k, "_", &name);
    dyn_str_printf(out, "%s_%d_", form, k->number);
    dyn_str_put(out, dyn_str_at(&name), name.n < LONGEST_SYMBOL ? name.n : LONGEST_SYMBOL);
    dyn_str_free(&name);
}

bool dyn_insn_may_warn(const DynKernel *k, const DynInsn *insn) {
    switch (insn->kind) {
    case DYN_L_CAST: return dyn_loops_cast_warns(k->insns.at[insn->a[0]].dtype, insn->dtype);
    case DYN_L_OP: return dyn_loops_op_warns(insn->op, insn->compute);
    case DYN_L_SCALAR: return k->params.at[insn->a[0]].is_float && insn->dtype != DYN_F64;
    default: return false;
    }
}

bool dyn_kernel_may_warn(const DynKernel *k) {
    bool may = false;
    for (uint32_t i = 0; i < k->insns.n && !may; i++) {
        may = dyn_insn_may_warn(k, &k->insns.at[i]);
    }
    return may;
}
