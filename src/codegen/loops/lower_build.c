/* lower_build.c: the kernels that lowering makes, one for each value that has memory and for each STORE, with the values that
 * have none computed within.
 *
 * Called by lower.c in program order, which has chosen what gets memory. An answer of -1 or DYN_NONE means that memory ran out
 * or that a kernel has no room, of which only the latter has a sentence in DynLower.error. Everything is in the arena of the
 * stages. */
#include "codegen/loops/lower.h"

/* ---- building kernels */

static DynOperand operand_of(DynLower *L, const DynKernel *k, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    DynOperand o = {.place = id, .dtype = n->dtype};
    for (int i = 0; i < DYN_MAX_NDIM; i++) {
        int axis = i - (k->ndim - n->ndim);
        o.axis[i] = i < k->ndim && axis >= 0 ? (int8_t)axis : -1;
    }
    return o;
}

static uint32_t build_cast(DynLower *L, DynKernel *k, uint32_t value, uint8_t dtype) {
    if (value == DYN_NONE || k->insns.at[value].dtype == dtype) {
        return value;
    }
    return dyn_kernel_insn(L->p, k, (DynInsn){.kind = DYN_L_CAST, .dtype = dtype, .nargs = 1, .a = {value}});
}

/* Numbers come as integers, float or double; others are converted from double in the kernel, as NumPy converts Python's. */
static uint32_t build_scalar(DynLower *L, DynKernel *k, uint32_t sym, uint8_t dtype) {
    uint8_t as = dyn_dtype_is_half((DynDtype)dtype) || dyn_dtypes[dtype].kind == 'c' ? DYN_F64 : dtype;
    uint32_t param = dyn_kernel_param(L->p, k, sym, (DynDtype)as);
    DynInsn insn = {.kind = DYN_L_SCALAR, .dtype = as, .a = {param}};
    return param == DYN_NONE ? DYN_NONE : build_cast(L, k, dyn_kernel_insn(L->p, k, insn), dtype);
}

static uint32_t build_value(DynLower *L, DynKernel *k, uint32_t id);

static uint32_t build_arg(DynLower *L, DynKernel *k, DynArg arg, uint8_t dtype) {
    if (arg.kind == DYN_ARG_SYM) {
        return build_scalar(L, k, arg.id, dtype);
    }
    return build_cast(L, k, build_value(L, k, arg.id), dtype);
}

static uint32_t build_load(DynLower *L, DynKernel *k, uint32_t id) {
    DynOperand operand = operand_of(L, k, id);
    return dyn_kernel_load(L->p, k, &operand);
}

/* The table's axes but the one that is looked up along are the space's, and the index's stand together in its place. */
static uint32_t build_gather(DynLower *L, DynKernel *k, uint32_t id) {
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
        table.axis[d] = -1;
        if (axis >= 0 && !inside) {
            table.axis[d] = (int8_t)(axis < along ? axis : axis - at->ndim + 1);
        }
    }
    uint32_t by = dyn_kernel_operand(L->p, k, index);
    table.by = (uint16_t)by;
    return by == DYN_NONE ? DYN_NONE : build_cast(L, k, dyn_kernel_load(L->p, k, &table), n->dtype);
}

/* x ** 2, x ** 3 and x ** 4 are products: within 2 ULP, and far cheaper than pow. (Squares of arrays are a row of their own, as
 * NumPy's are; of a scalar, and for float_power on some processors, NumPy takes pow, which all but always gives the rounded
 * product.) */
static uint32_t build_small_power(DynLower *L, DynKernel *k, const DynNode *n) {
    bool of_floats = dyn_dtypes[n->compute].kind == 'f' && !dyn_dtype_is_half((DynDtype)n->compute);
    if ((n->op != DYN_OP_POWER && n->op != DYN_OP_FLOAT_POWER) || !of_floats) {
        return DYN_NONE;
    }
    if (n->args[1].kind != DYN_ARG_SYM || !dyn_sym_is_const(L->g->syms, n->args[1].id)) {
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

static uint32_t build_complex(DynLower *L, DynKernel *k, const DynNode *n) {
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
static uint32_t build_op(DynLower *L, DynKernel *k, uint32_t id) {
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

static uint32_t build_value(DynLower *L, DynKernel *k, uint32_t id) {
    if (L->stamp[id] == L->now) {
        return L->memo[id];
    }
    const DynNode *n = dyn_graph_node(L->g, id);
    uint32_t value = (is_inline(n) && !L->memory[id]) || L->part[id] ? build_op(L, k, id) : build_load(L, k, id);
    L->stamp[id] = L->now;
    L->memo[id] = value;
    return value;
}

static int build_store(DynLower *L, DynKernel *k, DynOperand to, uint32_t value) {
    to.out = true;
    uint32_t operand = value == DYN_NONE ? DYN_NONE : dyn_kernel_operand(L->p, k, to);
    if (operand == DYN_NONE) {
        return -1;
    }
    DynInsn insn = {.kind = DYN_L_STORE, .dtype = to.dtype, .nargs = 1, .a = {operand, value}};
    return dyn_kernel_insn(L->p, k, insn) == DYN_NONE ? -1 : 0;
}

static void start_kernel(DynLower *L, DynKernel *k, uint32_t at, const DynNode *space) {
    memset(k, 0, sizeof(*k));
    k->at = at;
    k->group = DYN_NONE;
    k->silent = L->p->tensors;
    k->ndim = space->ndim;
    memcpy(k->shape, space->shape, sizeof(*k->shape) * space->ndim);
    L->now++;
}

int dyn_lower_push_step(DynLower *L, DynStepKind kind, uint32_t id) {
    return dyn_list_push(L->p->arena, &L->p->steps, ((DynStep){.kind = (uint8_t)kind, .id = id}));
}

static int push_kernel(DynLower *L, DynKernel *k) {
    if (dyn_list_push(L->p->arena, &L->p->kernels, *k) < 0) {
        return -1;
    }
    return dyn_lower_push_step(L, DYN_STEP_KERNEL, L->p->kernels.n - 1);
}

/* The kernel of a node can't be made. Where it is full that is said; else memory ran out. Returns -1. */
static int give_up(DynLower *L, uint32_t id, const DynKernel *k) {
    if (k->insns.n >= DYN_MAX_INSNS || k->operands.n >= DYN_MAX_OPERANDS || k->params.n >= DYN_MAX_PARAMS) {
        dyn_str_printf(L->error, "node %%%u (%s) needs more room than a kernel has", id, info(dyn_graph_node(L->g, id))->text);
    }
    return -1;
}

int dyn_lower_inline(DynLower *L, uint32_t id) {
    DynKernel k;
    start_kernel(L, &k, id, dyn_graph_node(L->g, id));
    if (build_store(L, &k, operand_of(L, &k, id), build_op(L, &k, id)) < 0) {
        return give_up(L, id, &k);
    }
    return push_kernel(L, &k);
}

int dyn_lower_reduce(DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *arg = dyn_graph_node(L->g, n->args[0].id);
    if (n->dtype != n->compute) {
        dyn_str_printf(L->error, "node %%%u (%s) converts its result", id, info(n)->text);
        return -1;
    }
    DynKernel k;
    start_kernel(L, &k, id, arg);
    k.reduced = dyn_lower_reduce_mask(n, arg);
    DynOperand out = {.place = id, .dtype = n->dtype, .out = true, .result = true};
    memset(out.axis, -1, sizeof(out.axis));
    for (int i = 0, kept = 0; i < arg->ndim; i++) {
        bool reduced = k.reduced >> i & 1;
        if (!reduced) {
            out.axis[i] = (int8_t)(n->aux[0] ? i : kept);
        }
        kept += !reduced;
    }
    uint32_t value = build_arg(L, &k, n->args[0], n->compute);
    uint32_t operand = value == DYN_NONE ? DYN_NONE : dyn_kernel_operand(L->p, &k, out);
    DynInsn insn = {
        .kind = DYN_L_REDUCE, .dtype = n->dtype, .compute = n->compute, .op = n->op, .nargs = 1, .a = {operand, value}};
    if (operand == DYN_NONE || dyn_kernel_insn(L->p, &k, insn) == DYN_NONE) {
        return give_up(L, id, &k);
    }
    k.ordered = dyn_insn_is_inexact(&insn) && !L->p->fast_math && !(n->flags & DYN_NODE_TENSOR);
    k.like = n->args[0].id;
    return push_kernel(L, &k);
}

/* Does operand i read the storage of `dst` anywhere else than at the elements that are written? */
static bool reads_elsewhere(const DynLower *L, const DynKernel *k, uint32_t i, const DynOperand *dst) {
    const DynOperand *o = &k->operands.at[i];
    if (o->out || dyn_loops_storage(L->p, o->place) != dyn_loops_storage(L->p, dst->place)) {
        return false;
    }
    bool same_axes = !memcmp(o->axis, dst->axis, sizeof(o->axis));
    bool by_element = !o->indirect && !dyn_kernel_is_index(k, i) && same_axes;
    return !by_element || !dyn_loops_same_access(L->g, o->place, dst->place);
}

static uint32_t count_elsewhere(const DynLower *L, const DynKernel *k, const DynOperand *dst) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->operands.n; i++) {
        n += reads_elsewhere(L, k, i, dst);
    }
    return n;
}

static uint32_t new_place(DynLower *L, const DynNode *like) {
    DynLoops *p = L->p;
    if (p->nplaces == p->cap_places) {
        dyn_str_puts(L->error, "the graph needs too many temporaries");
        return DYN_NONE;
    }
    DynMem *m = &p->places[p->nplaces];
    *m = (DynMem){.dtype = like->dtype, .ndim = like->ndim, .shape = like->shape, .layout = &like->layout};
    m->of = p->nplaces;
    m->after = dyn_lower_known_after(L, like->shape, like->ndim);
    m->kind = m->after ? DYN_P_ARRAY : DYN_P_TEMP;
    m->group = m->slot = DYN_NONE;
    return p->nplaces++;
}

/* Elements of an array of the size seen first. */
static double elements(const DynLower *L, const DynNode *n) {
    double count = 1;
    for (int d = 0; d < n->ndim; d++) {
        count *= (double)dyn_sym_at(L->g->syms, n->shape[d])->hint.i;
    }
    return count;
}

/* What one more kernel costs, in elements that are copied. */
#define COPY_COST 256

/* Is what a kernel reads elsewhere so much smaller than what it writes (a row and a column of the matrix, say) that copies of it
 * are cheaper than one of the result? */
static bool are_small(const DynLower *L, const DynKernel *k, const DynOperand *dst) {
    double copied = 0;
    uint32_t room = L->p->cap_places - L->p->nplaces, left = L->p->nnodes; /* a place for each node that needs one */
    bool possible = !L->p->device; /* where a kernel more costs more than the copy of a result */
    for (uint32_t i = 0; i < k->operands.n; i++) {
        const DynOperand *o = &k->operands.at[i];
        if (reads_elsewhere(L, k, i, dst)) {
            possible = possible && !o->indirect && !dyn_kernel_is_index(k, i) && ++left < room;
            copied += elements(L, dyn_graph_node(L->g, o->place)) + COPY_COST;
        }
    }
    return possible && 2 * copied <= elements(L, dyn_graph_node(L->g, dst->place));
}

/* The operand's elements in memory of their own, which the operand has from then on. */
static int copy_operand(DynLower *L, uint32_t id, DynOperand *o) {
    const DynNode *n = dyn_graph_node(L->g, o->place);
    DynKernel copy;
    start_kernel(L, &copy, id, n);
    DynOperand from = operand_of(L, &copy, o->place), to = from;
    to.place = new_place(L, n);
    if (to.place == DYN_NONE || build_store(L, &copy, to, dyn_kernel_load(L->p, &copy, &from)) < 0) {
        return give_up(L, id, &copy);
    }
    o->place = to.place;
    return push_kernel(L, &copy);
}

/* What `k` has computed is stored by way of memory of its own, since it reads what a store would have changed. */
static int store_by_copy(DynLower *L, uint32_t id, DynKernel *k, uint32_t value, DynOperand to) {
    const DynNode *dst = dyn_graph_node(L->g, to.place);
    DynKernel copy;
    DynOperand temp = to;
    temp.place = new_place(L, dst);
    if (temp.place == DYN_NONE || build_store(L, k, temp, value) < 0) {
        return give_up(L, id, k);
    }
    if (push_kernel(L, k) < 0) {
        return -1;
    }
    start_kernel(L, &copy, id, dst);
    if (build_store(L, &copy, to, dyn_kernel_load(L->p, &copy, &temp)) < 0) {
        return give_up(L, id, &copy);
    }
    return push_kernel(L, &copy);
}

int dyn_lower_store(DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id), *dst = dyn_graph_node(L->g, n->args[0].id);
    DynKernel k;
    start_kernel(L, &k, id, dst);
    uint32_t value = build_arg(L, &k, n->args[1], dst->dtype);
    DynOperand to = operand_of(L, &k, n->args[0].id);
    if (value == DYN_NONE) {
        return give_up(L, id, &k);
    }
    uint32_t elsewhere = count_elsewhere(L, &k, &to);
    if (elsewhere > 0 && !are_small(L, &k, &to)) {
        return store_by_copy(L, id, &k, value, to);
    }
    for (uint32_t i = 0; elsewhere > 0 && i < k.operands.n; i++) {
        if (reads_elsewhere(L, &k, i, &to) && copy_operand(L, id, &k.operands.at[i]) < 0) {
            return -1;
        }
    }
    if (build_store(L, &k, to, value) < 0) {
        return give_up(L, id, &k);
    }
    return push_kernel(L, &k);
}

int dyn_lower_count(DynLower *L, uint32_t id) {
    const DynNode *n = dyn_graph_node(L->g, id);
    DynKernel k;
    start_kernel(L, &k, id, n);
    DynOperand to = operand_of(L, &k, id), from = to;
    from.place = new_place(L, n);
    if (from.place == DYN_NONE) {
        return -1;
    }
    L->p->places[from.place].kind = DYN_P_COUNT;
    return build_store(L, &k, to, dyn_kernel_load(L->p, &k, &from)) < 0 ? give_up(L, id, &k) : push_kernel(L, &k);
}

/* A reshape that copies: the operand is written in C order of its own shape. */
int dyn_lower_reshape_copy(DynLower *L, uint32_t id) {
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
    if (build_store(L, &k, to, build_arg(L, &k, n->args[0], n->dtype)) < 0 ||
        dyn_lower_push_step(L, DYN_STEP_VIEW, to.place) < 0) {
        return give_up(L, id, &k);
    }
    return push_kernel(L, &k);
}
