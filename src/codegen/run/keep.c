/* keep.c: what calls need of a graph's loop IR, in one block that is no larger than that.
 *
 * The stages from lower to plan work in an arena that evalframe/compile.c frees behind them: lists leave their old selves in it
 * as they grow, kernels that were merged their contents, and each stage its tables. What runs, prints and writes the C again is
 * copied out of it here. */
#include "codegen/run/builtin.h"

/* Copies go behind each other; without memory they are only measured. */
typedef struct Pack {
    char *at;
    size_t n;
} Pack;

static void *put(Pack *k, const void *from, size_t bytes) {
    void *to = k->at == NULL ? NULL : k->at + k->n;
    if (to != NULL && bytes > 0) {
        memcpy(to, from, bytes);
    }
    k->n += (bytes + 7) & ~(size_t)7;
    return to;
}

/* The items of a list: its copy has room for no more. */
#define PUT_LIST(k, to, from)                                               \
    do {                                                                    \
        void *items = put((k), (from)->at, (from)->n * sizeof *(from)->at); \
        if ((to) != NULL) {                                                 \
            (to)->at = items;                                               \
            (to)->n = (to)->cap = (from)->n;                                \
        }                                                                   \
    } while (0)

static const DynBuiltinPlan *put_plan(Pack *k, const DynKernel *from) {
    const DynBuiltinPlan *p = from->builtin;
    DynBuiltinPlan *to = put(k, p, sizeof *p + p->nsteps * sizeof p->steps[0]);
    int16_t *fixed = put(k, p->fixed, from->insns.n * sizeof *fixed), *laid = put(k, p->laid, from->operands.n * sizeof *laid);
    if (to != NULL) {
        to->fixed = fixed;
        to->laid = laid;
    }
    return to;
}

/* to: the kernel's copy, NULL while it is measured. Of a dead kernel nothing is kept but its place among the others. */
static void put_kernel(Pack *k, DynKernel *to, const DynKernel *from) {
    static const DynKernel none;
    const DynKernel *lists = from->dead ? &none : from;
    PUT_LIST(k, to == NULL ? NULL : &to->insns, &lists->insns);
    PUT_LIST(k, to == NULL ? NULL : &to->operands, &lists->operands);
    PUT_LIST(k, to == NULL ? NULL : &to->params, &lists->params);
    const DynBuiltinPlan *plan = lists->builtin == NULL ? NULL : put_plan(k, from);
    if (to != NULL) {
        to->builtin = plan;
    }
}

static DynLoops *put_loops(Pack *k, const DynLoops *p) {
    DynLoops *to = put(k, p, sizeof *p);
    DynMem *places = put(k, p->places, p->nplaces * sizeof *places);
    bool *handed = put(k, p->handed, p->handed == NULL ? 0 : (p->nnodes + 1) * sizeof *handed);
    PUT_LIST(k, to == NULL ? NULL : &to->kernels, &p->kernels);
    PUT_LIST(k, to == NULL ? NULL : &to->steps, &p->steps);
    PUT_LIST(k, to == NULL ? NULL : &to->makes, &p->makes);
    PUT_LIST(k, to == NULL ? NULL : &to->drops, &p->drops);
    PUT_LIST(k, to == NULL ? NULL : &to->written, &p->written);
    PUT_LIST(k, to == NULL ? NULL : &to->writers, &p->writers);
    PUT_LIST(k, to == NULL ? NULL : &to->late, &p->late);
    PUT_LIST(k, to == NULL ? NULL : &to->renewed, &p->renewed);
    for (uint32_t i = 0; i < p->kernels.n; i++) {
        const DynKernel *from = &p->kernels.at[i];
        put_kernel(k, to == NULL ? NULL : &to->kernels.at[i], from);
        if (to != NULL && from->reduced && !from->dead && p->graph != NULL) {
            to->kernels.at[i].first = dyn_emit_first(p, from);
        }
    }
    if (to != NULL) {
        to->places = places;
        to->cap_places = p->nplaces;
        to->handed = p->handed == NULL ? NULL : handed;
    }
    return to;
}

DynLoops *dyn_loops_keep(const DynLoops *p, DynArena *arena) {
    Pack k = {0};
    put_loops(&k, p);
    k = (Pack){.at = dyn_arena_alloc(arena, k.n)};
    DynLoops *kept = k.at == NULL ? NULL : put_loops(&k, p);
    if (kept != NULL) {
        kept->arena = NULL; /* it doesn't grow any more */
        kept->story = NULL;
    }
    return kept;
}
