/* stores.c: what a loop that writes to arrays needs so that its trips can be done again. Called by trips.c.
 *
 * Where each store of a loop without checks of indices writes at places that lie evenly apart, what it finds there is saved in
 * front of so many trips, all of it before anything is written, and is put back in front of doing those trips again. Which
 * places those are is followed through a trip: of each register that depends on the counter in a line, a register for what it
 * is in the first trip, and one for how much more it is in each later one, are computed in front of the trips. Indices have
 * been checked for all trips by then, be the store made in each of them or not. Memory is raw and lasts as long as the call. */
#include "codegen/region/region_code.h"
#include "ir/region_flags.h"

/* Of a register: registers that hold what it is in the first trip, and how much more it is in each later one; DYN_NONE: it is
 * the same in all of them. */
typedef struct Line {
    bool known;
    uint32_t first, more;
} Line;

typedef struct Stores {
    DynRegion *r;
    const DynRegionQuick *q;
    uint32_t begin, nregs;
    Line *at;      /* For each block of the loop, at its beginning, and each register; and room for one more. */
    uint8_t *seen; /* For each block of the loop: `at` holds something. */
    Line places[DYN_REGION_STORES];
    uint32_t sizes[DYN_REGION_STORES], n;
    bool failed;
} Stores;

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

static uint32_t add(Stores *s, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm) {
    return dyn_region_add(s->r, s->begin, op, a, b, imm, &s->failed);
}

static uint32_t number(Stores *s, int64_t i) { return add(s, DYN_RO_ICONST, DYN_NONE, DYN_NONE, i); }

static Line sum(Stores *s, DynRegionOp op, Line a, Line b) {
    Line out = {.known = a.known && b.known, .more = a.more};
    if (out.known) {
        DynRegionOp more = op == DYN_RO_PADD ? DYN_RO_IADDW : op;
        out.first = add(s, op, a.first, b.first, 0);
        if (b.more != DYN_NONE) {
            out.more = add(s, more, a.more == DYN_NONE ? number(s, 0) : a.more, b.more, 0);
        }
    }
    return out;
}

static Line product(Stores *s, Line a, Line b) {
    Line out = {.known = a.known && b.known && (a.more == DYN_NONE || b.more == DYN_NONE), .more = DYN_NONE};
    if (out.known) {
        out.first = add(s, DYN_RO_IMULW, a.first, b.first, 0);
        if (a.more != DYN_NONE || b.more != DYN_NONE) {
            out.more = a.more == DYN_NONE ? add(s, DYN_RO_IMULW, a.first, b.more, 0) : add(s, DYN_RO_IMULW, a.more, b.first, 0);
        }
    }
    return out;
}

/* What an instruction makes of lines. Numbers that overflow make a trip that is done again, so nothing is told of what its store
 * would write then: those come from indices alone, which don't. */
static void follow(Stores *s, const DynRegionInstr *in, Line *regs) {
    Line out = {.known = false};
    switch (in->op) {
    case DYN_RO_ICONST: out = (Line){true, number(s, in->imm.i), DYN_NONE}; break;
    case DYN_RO_IMOV:
    case DYN_RO_PMOV: out = regs[in->arg[0]]; break;
    case DYN_RO_IADDW:
    case DYN_RO_ISUBW:
    case DYN_RO_PADD: out = sum(s, (DynRegionOp)in->op, regs[in->arg[0]], regs[in->arg[1]]); break;
    case DYN_RO_IMULW: out = product(s, regs[in->arg[0]], regs[in->arg[1]]); break;
    default: break;
    }
    if (in->dst != DYN_NONE) {
        regs[in->dst] = out;
    }
}

static void see_store(Stores *s, DynRegionInstr *in, const Line *regs) {
    Line place = sum(s, DYN_RO_PADD, regs[in->arg[0]], regs[in->arg[1]]);
    if (!place.known || s->n == DYN_REGION_STORES) {
        s->failed = true;
        return;
    }
    in->imm.i = place.more == DYN_NONE;
    s->sizes[s->n] = dyn_region_stored(in->op);
    s->places[s->n++] = place;
}

static void merge(Stores *s, uint32_t to, const Line *regs) {
    Line *at = s->at + (size_t)to * s->nregs;
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool same = regs[i].known && at[i].known && at[i].first == regs[i].first && at[i].more == regs[i].more;
        at[i] = s->seen[to] && !same ? (Line){.known = false} : regs[i];
    }
    s->seen[to] = 1;
}

/* At the head nothing is known of what a trip assigns but the counters. */
static void begin_trip(Stores *s) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        char type = s->r->regs.at[i];
        s->at[i] = (Line){type == 'I' || type == 'P', i, DYN_NONE};
    }
    for (uint32_t i = 0; i < s->q->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            if (b->v.at[k].dst != DYN_NONE && b->v.at[k].dst < s->nregs) {
                s->at[b->v.at[k].dst].known = false;
            }
        }
    }
    s->at[s->q->left] = (Line){true, s->q->left, number(s, -1)};
    if (s->q->next != DYN_NONE) {
        s->at[s->q->next] = (Line){true, s->q->next, number(s, s->q->step)};
    }
}

/* The blocks stand in such an order that each is behind those that come before it in a trip. */
static void follow_trip(Stores *s) {
    Line *regs = s->at + (size_t)s->q->n * s->nregs;
    begin_trip(s);
    s->seen[0] = 1;
    for (uint32_t i = 0; i < s->q->n && !s->failed; i++) {
        uint32_t block = s->q->blocks[i], to[2], ways = dyn_region_ways(&s->r->blocks.at[block], to);
        memcpy(regs, s->at + (size_t)i * s->nregs, s->nregs * sizeof(Line));
        for (uint32_t k = 0; k < s->r->blocks.at[block].v.n && !s->failed; k++) {
            DynRegionInstr *in = &s->r->blocks.at[block].v.at[k];
            if (dyn_region_stored(in->op) > 0) {
                see_store(s, in, regs);
            } else {
                follow(s, in, regs);
            }
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

/* The same operands for both ways, and all that a store finds in n trips. */
static void save(Stores *s, const Line *place, uint32_t i, uint32_t trips, uint32_t again) {
    bool still = place->more == DYN_NONE;
    uint32_t more = still ? number(s, s->sizes[i]) : place->more, n = still ? number(s, 1) : trips;
    DynRegionInstr in = {.op = DYN_RO_SAVE,
                         .dst = DYN_NONE,
                         .arg = {place->first, more, n},
                         .exit = DYN_NONE,
                         .to = {DYN_NONE, DYN_NONE},
                         .imm = {.i = (int64_t)(16 * i + s->sizes[i])}};
    s->failed = dyn_vec_push(&s->r->blocks.at[s->begin].v, in) < 0 || s->failed;
    in.op = DYN_RO_RESTORE;
    s->failed = dyn_vec_push(&s->r->blocks.at[again].v, in) < 0 || s->failed;
}

bool dyn_region_save_stores(DynRegion *r, const DynRegionQuick *q, uint32_t begin, uint32_t again, uint32_t until) {
    Stores s = {.r = r, .q = q, .begin = begin, .nregs = r->regs.n};
    s.at = PyMem_RawCalloc((size_t)(q->n + 1) * s.nregs, sizeof(Line));
    s.seen = PyMem_RawCalloc(q->n, 1);
    s.failed = s.at == NULL || s.seen == NULL;
    if (!s.failed) {
        follow_trip(&s);
    }
    uint32_t trips = s.failed ? DYN_NONE : add(&s, DYN_RO_ISUBW, q->left, until, 0);
    for (uint32_t i = 0; i < s.n && !s.failed; i++) {
        save(&s, &s.places[i], i, trips, again);
    }
    PyMem_RawFree(s.seen);
    PyMem_RawFree(s.at);
    return !s.failed;
}
