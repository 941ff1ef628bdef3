/* stores.c: what a loop that writes to arrays needs so that its trips can be done again. Called by trips.c.
 *
 * Where each store of a loop without checks of indices writes at places that lie evenly apart (lines.h), what it finds there is
 * saved in front of so many trips, all of it before anything is written, and is put back in front of doing those trips again.
 * Indices have been checked for all trips by then, be the store made in each of them or not. Memory is raw and lasts as long as
 * the call. */
#include "codegen/region/lines.h"
#include "ir/region_flags.h"

typedef struct Stores {
    DynRegion *r;
    uint32_t begin, again, from; /* Instructions of `begin` from that one on are of this file. */
    bool failed;
} Stores;

static uint32_t add(Stores *s, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm) {
    return dyn_region_add_once(s->r, s->begin, s->from, dyn_region_instr(op, a, b, DYN_NONE, imm), &s->failed);
}

static uint32_t number(Stores *s, int64_t i) { return add(s, DYN_RO_ICONST, DYN_NONE, DYN_NONE, i); }

/* The same operands for both ways, and all that a store finds in n trips. */
static void save(Stores *s, const DynLine *place, uint32_t size, uint32_t i, uint32_t trips) {
    bool still = place->more == DYN_NONE;
    uint32_t more = still ? number(s, size) : place->more, n = still ? number(s, 1) : trips;
    DynRegionInstr in = dyn_region_instr(DYN_RO_SAVE, place->first, more, n, (int64_t)(16 * i + size));
    s->failed = dyn_vec_push(&s->r->blocks.at[s->begin].v, in) < 0 || s->failed;
    in.op = DYN_RO_RESTORE;
    s->failed = dyn_vec_push(&s->r->blocks.at[s->again].v, in) < 0 || s->failed;
}

bool dyn_region_save_stores(DynRegion *r, const DynRegionQuick *q, uint32_t begin, uint32_t again, uint32_t until) {
    Stores s = {.r = r, .begin = begin, .again = again, .from = r->blocks.at[begin].v.n};
    DynAccesses all = {0};
    s.failed = !dyn_region_accesses(r, q, begin, false, &all) || all.n > DYN_REGION_STORES;
    for (uint32_t i = 0; i < all.n && !s.failed; i++) {
        const DynLine *place = &all.at[i].place;
        s.failed = !place->known || place->width != DYN_NONE;
        r->blocks.at[all.at[i].block].v.at[all.at[i].at].imm.i = !s.failed && place->more == DYN_NONE;
    }
    uint32_t trips = s.failed ? DYN_NONE : add(&s, DYN_RO_ISUBW, q->left, until, 0);
    for (uint32_t i = 0; i < all.n && !s.failed; i++) {
        save(&s, &all.at[i].place, dyn_region_stored(r->blocks.at[all.at[i].block].v.at[all.at[i].at].op), i, trips);
    }
    dyn_vec_free(&all);
    return !s.failed;
}
