/* loops.c: which blocks of a region form a loop, and changes of the ways to one and of its copy, for the passes that copy loops.
 * Called by hoist.c, ahead.c and nest.c. Nothing is owned. */
#include "codegen/region/region_code.h"

static void see(uint32_t head, uint32_t block, uint8_t *seen, uint32_t *work, uint32_t *n) {
    if (block != head && !seen[block]) {
        seen[block] = 1;
        work[(*n)++] = block;
    }
}

/* `seen`: all that is reached from an entry or a routine's beginning without coming to the head. `work` has the blocks whose ways
 * aren't gone yet. */
static void reach_past_head(const DynRegion *r, uint32_t head, uint8_t *seen, uint32_t *work) {
    uint32_t waiting = 0;
    memset(seen, 0, r->blocks.n);
    for (uint32_t i = 0; i < r->entries.n; i++) {
        see(head, r->entries.at[i].block, seen, work, &waiting);
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        see(head, r->routines.at[i].block, seen, work, &waiting);
    }
    while (waiting > 0) {
        const DynRegionBlock *b = &r->blocks.at[work[--waiting]];
        uint32_t to[2], n = dyn_region_ways(b, to);
        for (uint32_t k = 0; k < n; k++) {
            see(head, to[k], seen, work, &waiting);
        }
        for (uint32_t k = 0; k < b->v.n; k++) {
            uint32_t other = dyn_region_else(&b->v.at[k]);
            see(head, other == DYN_NONE ? head : other, seen, work, &waiting);
        }
    }
}

/* Backwards from the jumps to the head. What is reached past the head is outside, and jumps in. */
bool dyn_region_loop(const DynRegion *r, uint32_t head, uint8_t *in, uint8_t *seen, uint32_t *work) {
    bool changed = true, found = false;
    reach_past_head(r, head, seen, work);
    memset(in, 0, r->blocks.n);
    while (changed) {
        changed = false;
        for (uint32_t i = r->blocks.n; i-- > 1;) { /* 0 is no block of any way */
            uint32_t to[2], n = seen[i] ? 0 : dyn_region_ways(&r->blocks.at[i], to);
            for (uint32_t k = 0; k < n && !in[i]; k++) {
                if (to[k] == head || in[to[k]]) {
                    in[i] = 1;
                    changed = found = true;
                }
            }
        }
    }
    bool comes_back = in[head];
    return found && comes_back;
}

void dyn_region_redirect(DynRegion *r, uint32_t from, uint32_t to, const uint8_t *in, uint32_t nblocks) {
    for (uint32_t i = 0; i < nblocks; i++) {
        DynRegionBlock *b = &r->blocks.at[i];
        for (int w = 0; w < 2 && !in[i] && b->v.n > 0; w++) {
            DynRegionInstr *end = &b->v.at[b->v.n - 1];
            end->to[w] = end->to[w] == from ? to : end->to[w];
        }
    }
    for (uint32_t i = 0; i < r->entries.n; i++) {
        uint32_t *block = &r->entries.at[i].block;
        *block = *block == from ? to : *block;
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        uint32_t *block = &r->routines.at[i].block;
        *block = *block == from ? to : *block;
    }
}

void dyn_region_copy_block(DynRegion *r, uint32_t from, uint32_t to, const uint32_t *copies, bool *failed) {
    for (uint32_t k = 0; k < r->blocks.at[from].v.n && !*failed; k++) {
        DynRegionInstr in = r->blocks.at[from].v.at[k];
        for (int w = 0; w < 2; w++) {
            in.to[w] = in.to[w] != DYN_NONE && copies[in.to[w]] != DYN_NONE ? copies[in.to[w]] : in.to[w];
        }
        *failed = dyn_vec_push(&r->blocks.at[to].v, in) < 0;
    }
}

void dyn_region_copy_blocks(DynRegion *r, const uint32_t *blocks, uint32_t n, uint32_t *copies, uint32_t room, bool *failed) {
    memset(copies, 0xff, room * sizeof *copies); /* DYN_NONE */
    for (uint32_t i = 0; i < n; i++) {
        copies[blocks[i]] = dyn_region_add_block(r, r->blocks.at[blocks[i]].at, failed);
    }
    for (uint32_t i = 0; i < n && !*failed; i++) {
        dyn_region_copy_block(r, blocks[i], copies[blocks[i]], copies, failed);
    }
}

static void set_constant(DynRegionConstant *c, bool known, int64_t i) {
    c->other = c->other || !known || (c->some && c->i != i);
    c->some = true;
    c->i = i;
}

/* What comes in with an entry, or is a routine's parameter, isn't written by an instruction. */
static void set_from_outside(const DynRegion *r, DynRegionConstant *out) {
    for (uint32_t i = 0; i < r->entries.n; i++) {
        const DynRegionValues *values = &r->entries.at[i].values;
        for (uint32_t k = 0; k < values->n; k++) {
            for (uint32_t m = 0; m < values->at[k].nregs; m++) {
                set_constant(&out[values->at[k].regs[m]], false, 0);
            }
        }
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        for (uint32_t k = 0; k < r->routines.at[i].nparams; k++) {
            set_constant(&out[r->routines.at[i].params[k]], false, 0);
        }
    }
}

void dyn_region_constants(const DynRegion *r, DynRegionConstant *out) {
    memset(out, 0, r->regs.n * sizeof *out);
    set_from_outside(r, out);
    for (int pass = 0; pass < 2; pass++) { /* the second one for what is moved */
        for (uint32_t i = 0; i < r->blocks.n; i++) {
            for (uint32_t k = 0; k < r->blocks.at[i].v.n; k++) {
                const DynRegionInstr *in = &r->blocks.at[i].v.at[k];
                DynRegionConstant *to = in->dst == DYN_NONE ? NULL : &out[in->dst];
                if (to != NULL && in->op != DYN_RO_IMOV && pass == 0) {
                    set_constant(to, in->op == DYN_RO_ICONST, in->imm.i);
                } else if (to != NULL && in->op == DYN_RO_IMOV && pass == 0) {
                    to->moved = true;
                } else if (to != NULL && in->op == DYN_RO_IMOV) {
                    DynRegionConstant from = out[in->arg[0]];
                    set_constant(to, from.some && !from.other && !from.moved, from.i);
                }
            }
        }
    }
}

void dyn_region_drop_check(DynRegionInstr *in) {
    switch (in->op) {
    case DYN_RO_IADD: in->op = DYN_RO_IADDW; break;
    case DYN_RO_ISUB: in->op = DYN_RO_ISUBW; break;
    case DYN_RO_IMUL: in->op = DYN_RO_IMULW; break;
    case DYN_RO_I2DX: in->op = DYN_RO_I2D; break;
    default: in->op = DYN_RO_IMOV; in->arg[1] = DYN_NONE;
    }
    in->exit = in->to[0] = DYN_NONE;
}

void dyn_region_empty_unreached(DynRegion *r, uint8_t *seen) {
    memset(seen, 0, r->blocks.n);
    dyn_region_reach(r, 0, seen);
    for (uint32_t i = 0; i < r->entries.n; i++) {
        dyn_region_reach(r, r->entries.at[i].block, seen);
    }
    for (uint32_t i = 0; i < r->routines.n; i++) {
        dyn_region_reach(r, r->routines.at[i].block, seen);
    }
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        r->blocks.at[i].v.n = seen[i] ? r->blocks.at[i].v.n : 0;
    }
}
