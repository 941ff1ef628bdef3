/* stage.c: on a device, rows of inputs that several kernels of a group read are read from far away once.
 *
 * Called by schedule.c behind the groups, for graphs on devices. The first kernel that reads such a row stores it in memory of
 * the row, which is a multiprocessor's own, and the others read it there: mean, deviations and quotients of a layer norm walk
 * over their row three times. Contract: what kernels compute stays as it was; places and one store for each are added. */
#include "codegen/loops/loops.h"

#define MOST_BYTES (64 << 10) /* of a row, of all that is stored so, by the sizes seen first */

typedef struct Group {
    DynLoops *p;
    uint32_t first, end; /* steps */
    int64_t bytes;       /* so far */
} Group;

/* Is it written by one of the group's kernels? */
static bool is_written(const Group *g, uint32_t storage) {
    for (uint32_t s = g->first; s < g->end; s++) {
        if (dyn_kernel_touches(g->p, dyn_loops_kernel_at(g->p, s), storage, true)) {
            return true;
        }
    }
    return false;
}

static int64_t hint_of(const DynLoops *p, uint32_t sym) { return dyn_sym_at(p->graph->syms, sym)->hint.i; }

/* Bytes of its row; 0: it has one element in a row. */
static int64_t row_bytes(const DynLoops *p, const DynKernel *k, const DynOperand *o) {
    int64_t n = dyn_dtypes[o->dtype].size;
    bool walks = false;
    for (int d = k->outer; d < k->ndim; d++) {
        n *= o->axis[d] >= 0 ? hint_of(p, k->shape[d]) : 1;
        walks = walks || (o->axis[d] >= 0 && hint_of(p, p->places[o->place].shape[o->axis[d]]) > 1);
    }
    return walks ? n : 0;
}

static uint32_t reader_of(const Group *g, uint32_t from, const DynOperand *o, uint32_t *operand) {
    for (uint32_t s = from; s < g->end; s++) {
        const DynKernel *k = dyn_loops_kernel_at(g->p, s);
        for (uint32_t i = 0; i < k->operands.n; i++) {
            if (!k->operands.at[i].out && dyn_operands_same(g->p, &k->operands.at[i], o)) {
                *operand = i;
                return s;
            }
        }
    }
    return DYN_NONE;
}

/* Does a row of it come from far away, to several kernels? */
static bool is_worth_it(const Group *g, uint32_t step, const DynOperand *o) {
    const DynLoops *p = g->p;
    const DynMem *m = &p->places[dyn_loops_storage(p, o->place)];
    uint32_t operand;
    int64_t bytes = row_bytes(p, dyn_loops_kernel_at(p, step), o);
    bool is_read = !o->out && !o->indirect && !o->window, is_far = m->kind != DYN_P_ROW && p->places[o->place].after == 0;
    bool fits = bytes > 0 && g->bytes + bytes <= MOST_BYTES && p->nplaces < p->cap_places;
    return is_read && is_far && fits && reader_of(g, step + 1, o, &operand) != DYN_NONE &&
           !is_written(g, dyn_loops_storage(p, o->place));
}

/* A place for one row of what operand `o` walks; *axis: how each axis of the kernel walks it. DYN_NONE: no memory. */
static uint32_t new_place(Group *g, const DynKernel *k, const DynOperand *o, int8_t *axis) {
    static const DynLayout c_order = {.kind = DYN_LAYOUT_C};
    DynLoops *p = g->p;
    DynMem *m = &p->places[p->nplaces];
    uint32_t *shape = DYN_NEW_N(p->graph->arena, uint32_t, k->ndim + 1); /* keep.c copies places, not what they point to */
    if (shape == NULL) {
        return DYN_NONE;
    }
    *m = (DynMem){.kind = DYN_P_ROW, .dtype = o->dtype, .shape = shape, .layout = &c_order, .of = p->nplaces, .group = k->group};
    m->slot = DYN_NONE;
    for (int d = 0; d < k->ndim; d++) {
        axis[d] = -1;
        if (o->axis[d] >= 0) {
            m->row_axes |= d < k->outer ? 1u << m->ndim : 0;
            axis[d] = (int8_t)m->ndim;
            shape[m->ndim++] = k->shape[d];
        }
    }
    return p->nplaces++;
}

/* -1: no memory. */
static int stage(Group *g, uint32_t step, uint32_t operand) {
    DynLoops *p = g->p;
    DynKernel *k = dyn_loops_kernel_at(p, step);
    const DynOperand from = k->operands.at[operand];
    uint32_t value = dyn_kernel_loaded(k, operand), reader = step + 1, at;
    bool room = k->operands.n < DYN_MAX_OPERANDS && k->insns.n < DYN_MAX_INSNS;
    if (value == DYN_NONE || !room) {
        return 0;
    }
    DynOperand to = {.dtype = from.dtype, .out = true};
    to.place = new_place(g, k, &from, to.axis);
    uint32_t out = to.place == DYN_NONE ? DYN_NONE : dyn_kernel_operand(p, k, to);
    DynInsn store = {.kind = DYN_L_STORE, .dtype = from.dtype, .nargs = 1, .a = {out, value}};
    if (out == DYN_NONE || dyn_kernel_insn(p, k, store) == DYN_NONE) {
        return -1;
    }
    to.out = false;
    while ((reader = reader_of(g, reader, &from, &at)) != DYN_NONE) {
        dyn_loops_kernel_at(p, reader)->operands.at[at] = to;
    }
    g->bytes += row_bytes(p, k, &from);
    return 0;
}

int dyn_stage_rows(DynLoops *p) {
    for (uint32_t s = 0; s < p->steps.n; s++) {
        if (p->steps.at[s].kind != DYN_STEP_KERNEL || dyn_loops_kernel_at(p, s)->group == DYN_NONE) {
            continue;
        }
        Group g = {.p = p, .first = s, .end = dyn_loops_group_end(p, s)};
        for (; s < g.end; s++) {
            for (uint32_t i = 0, n = dyn_loops_kernel_at(p, s)->operands.n; i < n; i++) {
                if (is_worth_it(&g, s, &dyn_loops_kernel_at(p, s)->operands.at[i]) && stage(&g, s, i) < 0) {
                    return -1;
                }
            }
        }
        s--;
    }
    return 0;
}
