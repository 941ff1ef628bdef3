/* lines.c: follows the addresses of loads and stores through a trip of a loop without checks of indices (lines.h).
 *
 * Of each register that depends on the counter in a line it is computed in front of the trips what it is in the first one, and
 * how much more in each later one. An index that is checked in its trip may be any of its axis. Indices that aren't have been
 * checked for all trips by then. The blocks of a loop stand in such an order that each is behind those that come before it in a
 * trip. Memory is raw and lasts as long as the call. */
#include "codegen/region/lines.h"

typedef struct Lines {
    DynRegion *r;
    const DynRegionQuick *q;
    uint32_t front, from, nregs; /* Instructions of `front` from that one on are of this file. */
    DynLine *at;                 /* For each block of the loop, at its beginning, and each register; and room for one more. */
    uint8_t *seen;               /* For each block of the loop: `at` holds something. */
    bool failed;
} Lines;

uint32_t dyn_region_stored(uint16_t op) {
    switch (op) {
    case DYN_RO_STBOOL:
    case DYN_RO_STI8:
    case DYN_RO_STU8: return 1;
    case DYN_RO_STI16:
    case DYN_RO_STU16: return 2;
    case DYN_RO_STI32:
    case DYN_RO_STU32:
    case DYN_RO_STF32: return 4;
    case DYN_RO_STI64:
    case DYN_RO_STF64: return 8;
    default: return 0;
    }
}

uint32_t dyn_region_accessed(uint16_t op) {
    switch (op) {
    case DYN_RO_LDBOOL:
    case DYN_RO_LDI8:
    case DYN_RO_LDU8: return 1;
    case DYN_RO_LDI16:
    case DYN_RO_LDU16: return 2;
    case DYN_RO_LDI32:
    case DYN_RO_LDU32:
    case DYN_RO_LDF32: return 4;
    case DYN_RO_LDI64:
    case DYN_RO_LDF64: return 8;
    default: return dyn_region_stored(op);
    }
}

uint32_t dyn_region_add_once(DynRegion *r, uint32_t front, uint32_t from, DynRegionInstr in, bool *failed) {
    const DynRegionBlock *b = &r->blocks.at[front];
    for (uint32_t k = from; k < b->v.n; k++) {
        const DynRegionInstr *has = &b->v.at[k];
        if (has->op == in.op && has->imm.i == in.imm.i && memcmp(has->arg, in.arg, sizeof in.arg) == 0) {
            return has->dst;
        }
    }
    in.dst = dyn_region_reg(r, dyn_region_ops[in.op].result);
    *failed = in.dst == DYN_NONE || dyn_vec_push(&r->blocks.at[front].v, in) < 0 || *failed;
    return in.dst;
}

static uint32_t add(Lines *s, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm) {
    return dyn_region_add_once(s->r, s->front, s->from, dyn_region_instr(op, a, b, DYN_NONE, imm), &s->failed);
}

static uint32_t number(Lines *s, int64_t i) { return add(s, DYN_RO_ICONST, DYN_NONE, DYN_NONE, i); }

/* a + b, or a - b, of which either may be nothing. */
static uint32_t sum_of(Lines *s, DynRegionOp op, uint32_t a, uint32_t b) {
    return b == DYN_NONE ? a : add(s, op, a == DYN_NONE ? number(s, 0) : a, b, 0);
}

static DynLine sum(Lines *s, DynRegionOp op, DynLine a, DynLine b) {
    DynLine out = {.known = a.known && b.known && (a.width == DYN_NONE || b.width == DYN_NONE)};
    if (out.known) {
        DynRegionOp more = op == DYN_RO_PADD ? DYN_RO_IADDW : op;
        out.first = add(s, op, a.first, b.first, 0);
        out.more = sum_of(s, more, a.more, b.more);
        out.width = sum_of(s, more, a.width, b.width);
    }
    return out;
}

static DynLine product(Lines *s, DynLine a, DynLine b) {
    if (!dyn_line_stays(&b)) {
        DynLine other = a;
        a = b;
        b = other;
    }
    DynLine out = {.known = a.known && dyn_line_stays(&b)};
    if (out.known) {
        out.first = add(s, DYN_RO_IMULW, a.first, b.first, 0);
        out.more = a.more == DYN_NONE ? DYN_NONE : add(s, DYN_RO_IMULW, a.more, b.first, 0);
        out.width = a.width == DYN_NONE ? DYN_NONE : add(s, DYN_RO_IMULW, a.width, b.first, 0);
    }
    return out;
}

/* What an instruction makes of lines. Numbers that overflow make a trip that is done again, so nothing is told of what its store
 * would write then: those come from indices alone, which don't. */
static void follow(Lines *s, const DynRegionInstr *in, DynLine *regs) {
    DynLine out = {.known = false};
    switch (in->op) {
    case DYN_RO_ICONST: out = (DynLine){true, number(s, in->imm.i), DYN_NONE, DYN_NONE}; break;
    case DYN_RO_IMOV:
    case DYN_RO_PMOV: out = regs[in->arg[0]]; break;
    case DYN_RO_IADDW:
    case DYN_RO_ISUBW:
    case DYN_RO_PADD: out = sum(s, (DynRegionOp)in->op, regs[in->arg[0]], regs[in->arg[1]]); break;
    case DYN_RO_IMULW: out = product(s, regs[in->arg[0]], regs[in->arg[1]]); break;
    case DYN_RO_IDX:
        if (dyn_line_stays(&regs[in->arg[1]])) {
            out = (DynLine){true, number(s, 0), DYN_NONE, add(s, DYN_RO_IADDW, regs[in->arg[1]].first, number(s, -1), 0)};
        }
        break;
    default: break;
    }
    if (in->dst != DYN_NONE) {
        regs[in->dst] = out;
    }
}

static void merge(Lines *s, uint32_t to, const DynLine *regs) {
    DynLine *at = s->at + (size_t)to * s->nregs;
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool same = regs[i].known && at[i].known && at[i].first == regs[i].first && at[i].more == regs[i].more;
        at[i] = s->seen[to] && !(same && at[i].width == regs[i].width) ? (DynLine){.known = false} : regs[i];
    }
    s->seen[to] = 1;
}

/* At the head nothing is known of what a trip assigns but the counters. */
static void begin_trip(Lines *s) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        char type = s->r->regs.at[i];
        s->at[i] = (DynLine){type == 'I' || type == 'P', i, DYN_NONE, DYN_NONE};
    }
    for (uint32_t i = 0; i < s->q->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            if (b->v.at[k].dst != DYN_NONE && b->v.at[k].dst < s->nregs) {
                s->at[b->v.at[k].dst].known = false;
            }
        }
    }
    s->at[s->q->left] = (DynLine){true, s->q->left, number(s, -1), DYN_NONE};
    if (s->q->next != DYN_NONE) {
        s->at[s->q->next] = (DynLine){true, s->q->next, number(s, s->q->step), DYN_NONE};
    }
}

static void follow_trip(Lines *s, bool loads, DynAccesses *all) {
    DynLine *regs = s->at + (size_t)s->q->n * s->nregs;
    begin_trip(s);
    s->seen[0] = 1;
    for (uint32_t i = 0; i < s->q->n && !s->failed; i++) {
        uint32_t block = s->q->blocks[i], to[2], ways = dyn_region_ways(&s->r->blocks.at[block], to);
        memcpy(regs, s->at + (size_t)i * s->nregs, s->nregs * sizeof(DynLine));
        for (uint32_t k = 0; k < s->r->blocks.at[block].v.n && !s->failed; k++) {
            const DynRegionInstr *in = &s->r->blocks.at[block].v.at[k];
            if ((loads ? dyn_region_accessed(in->op) : dyn_region_stored(in->op)) > 0) {
                DynAccess one = {block, k, sum(s, DYN_RO_PADD, regs[in->arg[0]], regs[in->arg[1]])};
                s->failed = dyn_vec_push(all, one) < 0 || s->failed;
            }
            follow(s, in, regs);
        }
        for (uint32_t w = 0; w < ways; w++) {
            for (uint32_t place = 1; place < s->q->n; place++) {
                if (s->q->blocks[place] == to[w]) {
                    merge(s, place, regs);
                }
            }
        }
    }
}

bool dyn_region_accesses(DynRegion *r, const DynRegionQuick *q, uint32_t front, bool loads, DynAccesses *all) {
    Lines s = {.r = r, .q = q, .front = front, .from = r->blocks.at[front].v.n, .nregs = r->regs.n};
    s.at = PyMem_RawCalloc((size_t)(q->n + 1) * s.nregs, sizeof(DynLine));
    s.seen = PyMem_RawCalloc(q->n, 1);
    s.failed = s.at == NULL || s.seen == NULL;
    if (!s.failed) {
        follow_trip(&s, loads, all);
    }
    PyMem_RawFree(s.seen);
    PyMem_RawFree(s.at);
    return !s.failed;
}
