/* ahead.c: recurrences modulo a power of two (`x = (a * x + c) % 2**31`) without waiting for one trip after the other. Called by
 * hoist.c for the copy of a loop that it has made, when trips.c is done with it.
 *
 * Where a trip multiplies such a number and adds to it, by constants, what it is some trips later is a product and a sum of what
 * it is now as well, as only the low bits count. So a loop of several trips at once is put in front: the blocks of a trip are
 * copied a few times, one trip behind the other, and in each of them the number is computed from what it was in front of the
 * first: the multiplications don't depend on each other any more. Everything else in a trip, checks too, stays what it is. The
 * loop itself makes what trips are left then. Memory is raw and lasts as long as the call. */
#include "codegen/region/region_code.h"

enum { MOST_TRIPS = 8, MOST_CODE = 200, MOST_BLOCKS = 600 };

/* What an int is, but for what lies above the lowest `bits` bits: a * base + c, with base as it was at the head of the first
 * trip. DYN_NONE as base: it is c. */
typedef struct Linear {
    bool known;
    uint8_t bits;
    uint8_t cuts; /* So often, and not more than twice, its low bits alone went on since the head. */
    uint32_t base;
    uint64_t a, c;
} Linear;

typedef struct Ahead {
    DynRegion *r;
    const DynRegionQuick *q;
    uint32_t nregs, trips; /* So many registers there were. */
    uint32_t size;         /* So many blocks has a trip, its head not among them; */
    uint32_t *blocks;      /* those of each trip, one behind the other. */
    uint32_t head;         /* Where the last trip goes back to. */
    Linear *at;            /* For each of them, at its beginning, and each register; and room for one more. */
    uint8_t *seen;         /* For each of them: `at` holds something. */
    uint32_t *first;       /* For each register: another one that holds what it is at the head of the first trip; or DYN_NONE. */
    bool failed;
} Ahead;

static uint32_t place_of(const Ahead *s, uint32_t block) {
    for (uint32_t i = 0; i < s->size * s->trips; i++) {
        if (s->blocks[i] == block) {
            return i;
        }
    }
    return DYN_NONE;
}

/* ---- what ints are */

static uint64_t ones(uint8_t bits) { return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1; }

static Linear sum(Linear a, Linear b, bool minus) {
    Linear out = {.known = a.known && b.known && (a.base == DYN_NONE || b.base == DYN_NONE || a.base == b.base)};
    out.bits = a.bits < b.bits ? a.bits : b.bits;
    out.cuts = a.cuts > b.cuts ? a.cuts : b.cuts;
    out.base = a.base == DYN_NONE ? b.base : a.base;
    out.a = minus ? a.a - b.a : a.a + b.a;
    out.c = minus ? a.c - b.c : a.c + b.c;
    return out;
}

static Linear product(Linear a, Linear b) {
    Linear n = a.base == DYN_NONE ? a : b, x = a.base == DYN_NONE ? b : a;
    x.known = a.known && b.known && n.base == DYN_NONE && n.bits == 64;
    x.a *= n.c;
    x.c *= n.c;
    return x;
}

/* The operand of an instruction that cuts an int off, and how many bits are left; DYN_NONE: it doesn't. */
static int cut_operand(const DynRegionInstr *in, const Linear *regs, uint8_t *bits) {
    *bits = in->op == DYN_RO_WRAP ? (uint8_t)(in->imm.i < 0 ? -in->imm.i : in->imm.i) : 0;
    for (int a = 0; a < 2 && in->op == DYN_RO_IAND && *bits == 0; a++) {
        const Linear *mask = &regs[in->arg[a]];
        bool cuts = mask->known && mask->base == DYN_NONE && mask->bits == 64 && mask->c != 0 && (mask->c & (mask->c + 1)) == 0;
        *bits = cuts && mask->c != UINT64_MAX ? (uint8_t)__builtin_popcountll(mask->c) : 0;
        if (*bits > 0) {
            return 1 - a;
        }
    }
    return *bits > 0 ? 0 : -1;
}

static Linear compute(const DynRegionInstr *in, const Linear *regs) {
    Linear out = {.known = false};
    uint8_t bits;
    int cut = cut_operand(in, regs, &bits);
    switch (in->op) {
    case DYN_RO_ICONST: return (Linear){true, 64, 0, DYN_NONE, 0, (uint64_t)in->imm.i};
    case DYN_RO_IMOV: return regs[in->arg[0]];
    case DYN_RO_IADD:
    case DYN_RO_IADDW: return sum(regs[in->arg[0]], regs[in->arg[1]], false);
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW: return sum(regs[in->arg[0]], regs[in->arg[1]], true);
    case DYN_RO_IMUL:
    case DYN_RO_IMULW: return product(regs[in->arg[0]], regs[in->arg[1]]);
    default: break;
    }
    if (cut >= 0) {
        out = regs[in->arg[cut]];
        out.known = out.known && out.bits >= bits;
        out.cuts = out.cuts < 2 ? out.cuts + 1 : 2;
        out.bits = bits;
        out.a &= ones(bits);
        out.c &= ones(bits);
    }
    return out;
}

static bool is_same(const Linear *a, const Linear *b) {
    return a->known && b->known && a->bits == b->bits && a->base == b->base && a->a == b->a && a->c == b->c;
}

static void merge(Ahead *s, uint32_t to, const Linear *regs) {
    Linear *at = s->at + (size_t)to * s->nregs;
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool known = !s->seen[to] || is_same(&at[i], &regs[i]);
        at[i] = known ? regs[i] : (Linear){.known = false};
    }
    s->seen[to] = 1;
}

/* ---- trips */

static uint32_t add(Ahead *s, uint32_t block, DynRegionOp op, uint32_t a, uint32_t b, uint64_t imm) {
    return dyn_region_add(s->r, block, op, a, b, (int64_t)imm, &s->failed);
}

/* The number that is cut off is made of what there is in the first trip, where there is a cut on the way from there. */
static void compute_ahead(Ahead *s, uint32_t block, DynRegionInstr *in, const Linear *regs) {
    uint8_t bits;
    int cut = cut_operand(in, regs, &bits);
    const Linear *x = cut < 0 ? NULL : &regs[in->arg[cut]];
    if (x != NULL && x->known && x->base != DYN_NONE && x->cuts > 0 && x->bits >= bits) {
        uint32_t a = add(s, block, DYN_RO_ICONST, DYN_NONE, DYN_NONE, x->a),
                 c = add(s, block, DYN_RO_ICONST, DYN_NONE, DYN_NONE, x->c);
        in->arg[cut] = add(s, block, DYN_RO_IADDW, add(s, block, DYN_RO_IMULW, s->first[x->base], a, 0), c, 0);
    }
}

/* `regs` has what is known at the block's beginning, and then at its end. */
static void follow_block(Ahead *s, uint32_t block, Linear *regs, bool change) {
    DynRegionBlock *b = &s->r->blocks.at[block];
    DynRegionBlock old = *b;
    if (change) {
        memset(&b->v, 0, sizeof b->v);
    }
    for (uint32_t k = 0; k < old.v.n && !s->failed; k++) {
        DynRegionInstr in = old.v.at[k];
        Linear out = in.dst == DYN_NONE ? (Linear){.known = false} : compute(&in, regs);
        if (change) {
            compute_ahead(s, block, &in, regs);
            s->failed = dyn_vec_push(&b->v, in) < 0 || s->failed;
        }
        if (in.dst != DYN_NONE) {
            regs[in.dst] = out;
        }
    }
    if (change) {
        dyn_vec_free(&old.v);
    }
}

/* The row behind those of all blocks gets what is known where the last trip is over. */
static void follow_trips(Ahead *s, bool change) {
    uint32_t n = s->size * s->trips;
    Linear *regs = s->at + (size_t)(n + 1) * s->nregs;
    memset(s->seen, 0, n + 1);
    for (uint32_t i = 0; i < s->nregs; i++) {
        s->at[i] = (Linear){s->r->regs.at[i] == 'I' && (!change || s->first[i] != DYN_NONE), 64, 0, i, 1, 0};
    }
    for (uint32_t i = 0; i < n && !s->failed; i++) {
        uint32_t to[2], ways = dyn_region_ways(&s->r->blocks.at[s->blocks[i]], to);
        memcpy(regs, s->at + (size_t)i * s->nregs, s->nregs * sizeof(Linear));
        follow_block(s, s->blocks[i], regs, change);
        for (uint32_t w = 0; w < ways; w++) {
            uint32_t place = to[w] == s->head ? n : place_of(s, to[w]);
            if (place != DYN_NONE) {
                merge(s, place, regs);
            }
        }
    }
}

/* Rows for so many trips. */
static bool make_rows(Ahead *s, uint32_t trips) {
    uint32_t n = s->size * trips;
    PyMem_RawFree(s->at);
    PyMem_RawFree(s->seen);
    s->trips = trips;
    s->at = PyMem_RawCalloc((size_t)(n + 2) * s->nregs, sizeof(Linear));
    s->seen = PyMem_RawCalloc(n + 1, 1);
    return s->at != NULL && s->seen != NULL;
}

static uint32_t add_block(Ahead *s) { return dyn_region_add_block(s->r, s->r->blocks.at[s->q->head].at, &s->failed); }

/* The blocks of all trips: each trip goes on with the next one, and the last to the head. `copies`: for each block of the region.
 */
static void copy_trips(Ahead *s, uint32_t *copies) {
    uint32_t n = s->size;
    for (uint32_t trip = 0; trip < s->trips; trip++) {
        copies[s->q->head] = trip + 1 < s->trips ? s->blocks[(trip + 1) * n] : s->head;
        for (uint32_t i = 0; i < n; i++) {
            copies[s->q->blocks[1 + i]] = s->blocks[trip * n + i];
        }
        for (uint32_t i = 0; i < n && !s->failed; i++) {
            dyn_region_copy_block(s->r, s->q->blocks[1 + i], s->blocks[trip * n + i], copies, &s->failed);
        }
    }
}

/* All that came to the loop's head from outside comes to the new one. */
static void redirect(Ahead *s) {
    uint8_t *in = PyMem_RawCalloc(s->r->blocks.n, 1);
    s->failed = s->failed || in == NULL;
    for (uint32_t i = 0; i < s->r->blocks.n && !s->failed; i++) {
        in[i] = place_of(s, i) != DYN_NONE || i == s->head;
    }
    for (uint32_t k = 0; k < s->q->n && !s->failed; k++) {
        in[s->q->blocks[k]] = 1;
    }
    if (!s->failed) {
        dyn_region_redirect(s->r, s->q->head, s->head, in, s->r->blocks.n);
    }
    PyMem_RawFree(in);
}

static void make_trips(Ahead *s) {
    s->head = add_block(s);
    for (uint32_t i = 0; i < s->size * s->trips; i++) {
        s->blocks[i] = add_block(s);
    }
    uint32_t *copies = PyMem_RawMalloc(s->r->blocks.n * sizeof(uint32_t));
    s->failed = s->failed || copies == NULL;
    if (!s->failed) {
        memset(copies, 0xff, s->r->blocks.n * sizeof(uint32_t));
        copy_trips(s, copies);
    }
    PyMem_RawFree(copies);
    for (uint32_t i = 0; i < s->nregs && !s->failed; i++) {
        if (s->first[i] != DYN_NONE) {
            s->first[i] = add(s, s->head, DYN_RO_IMOV, i, DYN_NONE, 0);
        }
    }
    uint32_t most = add(s, s->head, DYN_RO_ICONST, DYN_NONE, DYN_NONE, s->trips);
    uint32_t left = add(s, s->head, DYN_RO_ISUBW, s->q->left, s->q->until, 0);
    uint32_t enough = add(s, s->head, DYN_RO_ILE, most, left, 0);
    dyn_region_add_end(s->r, s->head, enough, s->blocks[0], s->q->head, &s->failed);
}

/* Registers that a trip multiplies and cuts off, and adds to. */
static bool find_recurrences(Ahead *s) {
    const Linear *end = s->at + (size_t)s->size * s->nregs;
    bool any = false;
    memcpy(s->blocks, s->q->blocks + 1, s->size * sizeof(uint32_t));
    s->head = s->q->head;
    follow_trips(s, false);
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool recurs = s->seen[s->size] && end[i].known && end[i].base == i && end[i].cuts > 0 && end[i].a > 1;
        s->first[i] = recurs ? i : DYN_NONE;
        any = any || recurs;
    }
    return any;
}

bool dyn_region_ahead(DynRegion *r, const DynRegionQuick *q) {
    uint32_t trips = MOST_TRIPS, code = 0;
    for (uint32_t i = 0; i < q->n; i++) {
        code += r->blocks.at[q->blocks[i]].v.n;
    }
    while (trips > 1 && (code * trips > MOST_CODE || r->blocks.n + q->n * trips > MOST_BLOCKS)) {
        trips /= 2;
    }
    Ahead s = {.r = r, .q = q, .nregs = r->regs.n, .size = q->n - 1};
    s.blocks = PyMem_RawCalloc((size_t)q->n * MOST_TRIPS, sizeof(uint32_t));
    s.first = PyMem_RawCalloc(s.nregs, sizeof(uint32_t));
    s.failed = s.blocks == NULL || s.first == NULL || !make_rows(&s, 1);
    if (!s.failed && trips > 1 && find_recurrences(&s) && !s.failed) {
        s.failed = !make_rows(&s, trips);
        if (!s.failed) {
            make_trips(&s);
        }
        if (!s.failed) {
            follow_trips(&s, true);
            redirect(&s);
        }
    }
    PyMem_RawFree(s.blocks);
    PyMem_RawFree(s.first);
    PyMem_RawFree(s.seen);
    PyMem_RawFree(s.at);
    return !s.failed;
}
