/* element.c: an element of an array of floats that stays the same in a loop (`c[i, j] += a[i, k] * b[k, j]`) is held in a
 * register. Called by trips.c for loops without checks of indices.
 *
 * Such a loop gets a copy, and a block in front of both asks whether any other load or store of the loop may be in that place, in
 * all trips that are left. What another one touches is told by lines.h: where its address isn't known, no element is held. The
 * element is loaded in front of the trips and stored behind them, by trips.c, so trips of the copy that have to be done again
 * have written nothing. Memory is raw and lasts as long as the call, but for the list of the copy's blocks. */
#include "codegen/region/lines.h"

enum { MOST_OTHERS = 8 };

typedef struct Element {
    DynRegion *r;
    DynRegionElement *e;
    bool failed;
} Element;

static DynRegionInstr *instruction(const DynRegion *r, const DynAccess *a) { return &r->blocks.at[a->block].v.at[a->at]; }

/* The load of a float that the instruction stores; ICONST: none. Ints gain nothing, as no trip asks about them. */
static uint16_t load_of(uint16_t store) {
    switch (store) {
    case DYN_RO_STF32: return DYN_RO_LDF32;
    case DYN_RO_STF64: return DYN_RO_LDF64;
    default: return DYN_RO_ICONST;
    }
}

/* Does the loop do nothing with pointers but loads and stores of elements, and store what it could load? */
static bool is_plain(const DynRegion *r, const DynRegionQuick *q) {
    bool stores = false;
    for (uint32_t i = 0; i < q->n; i++) {
        const DynRegionBlock *b = &r->blocks.at[q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            const DynRegionOpInfo *op = &dyn_region_ops[b->v.at[k].op];
            bool pointers = op->result == 'P';
            for (int a = 0; a < 3 && op->args[a] != 'N'; a++) {
                pointers = pointers || op->args[a] == 'P';
            }
            bool moves = b->v.at[k].op == DYN_RO_PADD || b->v.at[k].op == DYN_RO_PMOV;
            if (pointers && !moves && dyn_region_accessed(b->v.at[k].op) == 0) {
                return false;
            }
            stores = stores || load_of(b->v.at[k].op) != DYN_RO_ICONST;
        }
    }
    return stores;
}

/* A store in one place, which is loaded, too: its number; DYN_NONE: there is none. */
static uint32_t find_store(const DynRegion *r, const DynAccesses *all) {
    for (uint32_t i = 0; i < all->n; i++) {
        const DynAccess *a = &all->at[i];
        uint16_t load = load_of(instruction(r, a)->op);
        bool loaded = false;
        for (uint32_t k = 0; k < all->n && load != DYN_RO_ICONST && dyn_line_stays(&a->place); k++) {
            loaded = loaded || (all->at[k].place.first == a->place.first && instruction(r, &all->at[k])->op == load);
        }
        if (loaded) {
            return i;
        }
    }
    return DYN_NONE;
}

/* Are all others somewhere that is known, and those in its place of its type? */
static bool is_alone(const DynRegion *r, const DynAccesses *all, const DynLine *place, const DynRegionElement *e) {
    uint32_t others = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const DynAccess *a = &all->at[i];
        bool same = dyn_line_stays(&a->place) && a->place.first == place->first;
        uint16_t op = instruction(r, a)->op;
        if (!a->place.known || (same && op != e->load && op != e->store)) {
            return false;
        }
        others += !same;
    }
    return others <= MOST_OTHERS;
}

/* ---- the question */

static uint32_t put(Element *s, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, int64_t imm) {
    return dyn_region_add_once(s->r, s->e->q.front, 0, dyn_region_instr(op, a, b, c, imm), &s->failed);
}

static uint32_t number(Element *s, int64_t i) { return put(s, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, i); }

static void hold_too(Element *s, uint32_t condition) { s->e->q.all = put(s, DYN_RO_IAND, s->e->q.all, condition, DYN_NONE, 0); }

/* `first` and `length` become those of a stretch of memory that is longer by `more`, which may be below 0. */
static void widen(Element *s, uint32_t *first, uint32_t *length, uint32_t more) {
    uint32_t down = put(s, DYN_RO_IMAX0, put(s, DYN_RO_ISUBW, number(s, 0), more, DYN_NONE, 0), DYN_NONE, DYN_NONE, 0);
    uint32_t up = put(s, DYN_RO_IMAX0, more, DYN_NONE, DYN_NONE, 0);
    *first = put(s, DYN_RO_PADD, *first, put(s, DYN_RO_ISUBW, number(s, 0), down, DYN_NONE, 0), DYN_NONE, 0);
    *length = put(s, DYN_RO_IADDW, *length, put(s, DYN_RO_IADDW, up, down, DYN_NONE, 0), DYN_NONE, 0);
}

/* The place isn't among those of another load or store, in any trip. */
static void ask(Element *s, const DynLine *other, uint32_t size) {
    uint32_t first = other->first, length = number(s, 0);
    if (other->more != DYN_NONE) {
        uint32_t last = put(s, DYN_RO_IADDW, s->e->q.left, number(s, -1), DYN_NONE, 0);
        widen(s, &first, &length, put(s, DYN_RO_IMULW, other->more, last, DYN_NONE, 0));
    }
    if (other->width != DYN_NONE) {
        widen(s, &first, &length, other->width);
    }
    hold_too(s, put(s, DYN_RO_APART, s->e->place, first, length, size));
}

/* ---- the copy */

static void copy_loop(Element *s, const DynRegionQuick *q) {
    uint32_t nblocks = s->r->blocks.n, *copies = PyMem_RawMalloc(nblocks * sizeof(uint32_t));
    s->failed = s->failed || copies == NULL;
    if (!s->failed) {
        dyn_region_copy_blocks(s->r, q->blocks, q->n, copies, nblocks, &s->failed);
    }
    for (uint32_t i = 0; i < q->n && !s->failed; i++) {
        s->e->blocks[i] = copies[q->blocks[i]];
    }
    s->e->q.head = s->e->blocks[0];
    PyMem_RawFree(copies);
}

/* The copy of a load or store of the element. */
static void hold(Element *s, const DynRegionQuick *q, const DynAccess *a) {
    DynRegionElement *e = s->e;
    uint32_t i = 0;
    while (q->blocks[i] != a->block) {
        i++;
    }
    DynRegionInstr *in = &s->r->blocks.at[e->blocks[i]].v.at[a->at];
    bool stores = in->op == e->store;
    in->arg[0] = stores ? in->arg[2] : e->reg;
    in->arg[1] = in->arg[2] = DYN_NONE;
    in->op = e->load == DYN_RO_LDF32 ? DYN_RO_SMOV : DYN_RO_DMOV;
    in->dst = stores ? e->reg : in->dst;
}

static void make_copy(Element *s, const DynRegionQuick *q, const DynAccesses *all, const DynLine *place) {
    DynRegionElement *e = s->e;
    uint32_t size = dyn_region_stored(e->store);
    e->reg = dyn_region_reg(s->r, dyn_region_ops[e->load].result);
    e->place = place->first;
    e->zero = number(s, 0);
    s->failed = e->reg == DYN_NONE || s->failed;
    hold_too(s, put(s, DYN_RO_ILT, e->zero, q->left, DYN_NONE, 0));
    copy_loop(s, q);
    for (uint32_t i = 0; i < all->n && !s->failed; i++) {
        const DynAccess *a = &all->at[i];
        uint32_t other = dyn_region_accessed(instruction(s->r, a)->op);
        if (dyn_line_stays(&a->place) && a->place.first == place->first) {
            hold(s, q, a);
        } else {
            ask(s, &a->place, other > size ? other : size);
        }
    }
}

bool dyn_region_hold_element(DynRegion *r, const DynRegionQuick *q, DynRegionElement *e) {
    Element s = {.r = r, .e = e};
    DynAccesses all = {0};
    *e = (DynRegionElement){.reg = DYN_NONE, .q = *q};
    if (!r->blocks.at[q->slow].rare && is_plain(r, q)) { /* the nest's copy has it already */
        e->blocks = PyMem_RawCalloc(q->n, sizeof(uint32_t));
        e->q.blocks = e->blocks;
        e->q.front = dyn_region_add_block(r, r->blocks.at[q->head].at, &s.failed);
        s.failed = s.failed || e->blocks == NULL || !dyn_region_accesses(r, q, e->q.front, true, &all);
        uint32_t store = s.failed ? DYN_NONE : find_store(r, &all);
        if (store != DYN_NONE) {
            e->store = instruction(r, &all.at[store])->op;
            e->load = load_of(e->store);
        }
        if (store != DYN_NONE && is_alone(r, &all, &all.at[store].place, e)) {
            make_copy(&s, q, &all, &all.at[store].place);
        } else if (!s.failed) { /* nobody needs the last block, then */
            dyn_vec_free(&r->blocks.at[e->q.front].v);
            r->blocks.n--;
        }
    }
    dyn_vec_free(&all);
    return !s.failed;
}
