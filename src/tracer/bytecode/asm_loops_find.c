/* asm_loops_find.c: where a code's loops are, by bytecode alone: their headers, what is in them, and how many values the stack
 * holds in front of each instruction.
 *
 * Called by asm_loops.c and evalframe/loops*.c. What is returned belongs to who asked. */
#include "base/cpy_internal.h"
#include "tracer/bytecode/asm_loops.h"
#include "tracer/bytecode/asm_internal.h"

/* ---- the stack in front of each instruction */

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

/* ---- loops */

static bool goes_into(const DynCode *c, const bool *in_loop, uint32_t i) {
    const DynInstr *in = &c->v.at[i];
    return (dyn_falls_through(in) && i + 1 < c->v.n && in_loop[i + 1]) || (dyn_has_target(in) && in_loop[in->target]);
}

/* Marks what can come to the jump back at `from` without passing the header. Does the header itself come to it? */
static bool mark_back_from(const DynCode *c, uint32_t header, uint32_t from, bool *in_loop) {
    bool comes = from == header;
    in_loop[from] = true;
    for (bool more = true; more;) {
        more = false;
        for (uint32_t i = c->v.n; i--;) {
            if (in_loop[i] || !goes_into(c, in_loop, i)) {
                continue;
            }
            if (i == header) {
                comes = true;
                continue;
            }
            in_loop[i] = more = true;
        }
    }
    return comes;
}

/* The natural loop of the canonical instruction `header`, in `in_loop` (as many as there are instructions, false); room likewise.
 * false: it has none. Exceptions' ways aren't followed. */
static bool find_loop(const DynCode *c, uint32_t header, bool *in_loop, bool *room) {
    bool found = false;
    if (header == c->head) {
        memset(in_loop + header, true, c->v.n - header);
        return true;
    }
    for (uint32_t i = header; i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        if (!dyn_has_target(in) || in->target != header || dyn_flow(in) == DYN_FLOW_SEND || in_loop[i]) {
            continue;
        }
        memset(room, 0, c->v.n);
        if (!mark_back_from(c, header, i, room)) {
            continue; /* out of a handler */
        }
        if (room[0] || header == 0) {
            return false;
        }
        for (uint32_t k = 0; k < c->v.n; k++) {
            in_loop[k] |= room[k];
        }
        in_loop[header] = found = true;
    }
    return found;
}

uint32_t dyn_loop_headers(const DynCode *c, uint32_t *at, uint32_t room) {
    uint32_t n = 0;
    bool *marks = c->generator || c->nunits > DYN_LOOP_UNITS ? NULL : PyMem_RawMalloc(2 * (size_t)c->v.n + 1);
    for (uint32_t i = 0; marks != NULL && i < c->v.n; i++) {
        const DynInstr *in = &c->v.at[i];
        bool may = ((in->flags & DYN_IF_TARGET) && (in->flags & DYN_IF_FIRST)) || i == c->head;
        memset(marks, 0, c->v.n);
        if (may && find_loop(c, i, marks, marks + c->v.n)) {
            if (n < room) {
                at[n] = in->start;
            }
            n++;
        }
    }
    PyMem_RawFree(marks);
    return n;
}

bool *dyn_loop_members(const DynCode *c, uint32_t header) {
    uint32_t i = header < c->nunits ? c->at_unit[header] : DYN_NONE;
    bool *marks = i == DYN_NONE ? NULL : PyMem_RawCalloc(2 * (size_t)c->v.n + 1, sizeof *marks);
    if (marks != NULL && !find_loop(c, i, marks, marks + c->v.n)) {
        PyMem_RawFree(marks);
        marks = NULL;
    }
    return marks;
}
