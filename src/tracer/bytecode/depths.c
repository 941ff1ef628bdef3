/* depths.c: how many values are on the stack in front of each instruction, by bytecode alone: along all jumps, and into handlers.
 * Called by asm_loops.c and the region's planner; owns nothing. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_loops.h"

typedef struct Depths {
    const DynCode *c;
    int32_t *depth;
    uint32_t *todo, n;
} Depths;

static void reach(Depths *d, uint32_t i, int32_t depth) {
    if (i < d->c->v.n && d->depth[i] < 0 && depth >= 0) {
        d->depth[i] = depth;
        d->todo[d->n++] = i;
    }
}

static void follow_depths(Depths *d) {
    while (d->n > 0) {
        uint32_t i = d->todo[--d->n];
        const DynInstr *in = &d->c->v.at[i];
        if (in->op == DYN_I_UNSUPPORTED) {
            continue;
        }
        DynStackEffect e = dyn_stack_effect(in);
        int32_t below = d->depth[i] - (int32_t)e.pops;
        if (dyn_has_target(in)) {
            reach(d, in->target, below + dyn_opcodes[in->op].jumped);
        }
        if (dyn_falls_through(in)) {
            reach(d, i + 1, below + (int32_t)e.pushes);
        }
    }
}

int32_t *dyn_decode_depths(const DynCode *c) {
    DynHandler h;
    Depths d = {c, PyMem_RawMalloc((c->v.n + 1) * sizeof(int32_t)), PyMem_RawMalloc((c->v.n + 1) * sizeof(uint32_t)), 0};
    if (d.depth == NULL || d.todo == NULL) {
        PyMem_RawFree(d.depth);
        PyMem_RawFree(d.todo);
        return NULL;
    }
    for (uint32_t i = 0; i < c->v.n; i++) {
        d.depth[i] = -1;
    }
    reach(&d, 0, 0);
    follow_depths(&d);
    for (Py_ssize_t cursor = 0; dyn_cpy_next_handler(c->code, &cursor, &h);) {
        uint32_t target = h.target < c->nunits ? c->at_unit[h.target] : DYN_NONE;
        reach(&d, target, (int32_t)h.depth + h.lasti + 1);
        follow_depths(&d);
    }
    PyMem_RawFree(d.todo);
    return d.depth;
}
