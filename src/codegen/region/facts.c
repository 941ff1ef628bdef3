/* facts.c: the last pass over region IR takes out checks, or parts of them, that what came before on every way makes needless.
 * Called by run.c.
 *
 * Of each int it is followed through all blocks how small it can be at least, and which register it is smaller than: a branch
 * (`while j >= 0`, `if i < n`), an index that was inside, a remainder or a mask tell it. So an int that is smaller than another
 * one doesn't overflow when 1 is added, an index that isn't negative need not be counted from the end, and one that is known to
 * lie inside isn't looked at. hoist.c and ranges.c do that for whole loops, by asking in front of them; here nothing is asked,
 * and `while` loops have it too. It is followed as well which ints are near to 0: constants, indices, sizes, and what is counted
 * from those by ones and twos, which takes longer to leave that range than any program runs. Sums of two of them don't overflow
 * (`steps += 1`, `(low + high) // 2`). Memory is raw and lasts as long as the call; where it is out, or a region is too large,
 * nothing changes. */
#include "codegen/region/region_code.h"

enum { UNKNOWN = -100, MOST = 100, MOST_ROWS = 1000000, MOST_PASSES = 30 };

/* How large a value is, whatever its sign. What was smaller than 2 to the power of NEAR_BITS, and is counted on by MOST_COUNTED
 * at most, is smaller than twice that for days: the eval breaker is asked in 1024 trips at least, and questions take time. */
typedef enum Size { FAR, WIDE /* a sum of two that are near */, NEAR } Size;
enum { MOST_COUNTED = 2 };

/* low <= value <= below - gap. */
typedef struct Fact {
    int8_t low; /* UNKNOWN: anything */
    int8_t gap;
    bool exact;     /* The value is `low`. */
    uint8_t size;   /* Size */
    uint32_t below; /* Or DYN_NONE. */
} Fact;

typedef struct Facts {
    DynRegion *r;
    uint32_t nregs;
    Fact *at;       /* For each block, at its beginning, and each register; and room for four more. */
    uint8_t *seen;  /* For each block: control comes to it. */
    uint8_t *bound; /* For each register: some other one is known to be smaller. */
    bool changed;   /* Less is known at some block than before. */
} Facts;

static const Fact nothing = {UNKNOWN, 0, false, FAR, DYN_NONE};

static int8_t limited(int64_t low) { return (int8_t)(low > MOST ? MOST : low < UNKNOWN ? UNKNOWN : low); }

static void put_below(Facts *s, Fact *x, uint32_t reg, int8_t gap) {
    s->bound[reg] = 1;
    x->below = reg;
    x->gap = gap;
}

const DynRegionInstr *dyn_region_condition(const DynRegionBlock *b, uint32_t reg) {
    for (uint32_t k = b->v.n - 1; k-- > 0;) {
        const DynRegionInstr *in = &b->v.at[k];
        if (in->dst == reg) {
            for (uint32_t m = k; m < b->v.n; m++) {
                uint32_t dst = b->v.at[m].dst;
                if (dst != DYN_NONE && (dst == in->arg[0] || dst == in->arg[1])) {
                    return NULL;
                }
            }
            return in;
        }
    }
    return NULL;
}

/* ---- instructions */

/* a + c without an overflow. */
static Fact moved(Fact a, int64_t c) {
    Fact out = nothing;
    out.low = a.low == UNKNOWN ? UNKNOWN : limited(a.low + c);
    out.exact = a.exact && out.low == a.low + c && out.low > UNKNOWN && out.low < MOST;
    if (a.below != DYN_NONE && a.gap - c > UNKNOWN && a.gap - c < MOST) {
        out.below = a.below;
        out.gap = (int8_t)(a.gap - c);
    }
    return out;
}

/* Does adding c to it never overflow? */
static bool stays_small(Fact a, int64_t c) { return c > 0 ? a.below != DYN_NONE && a.gap >= c : a.low != UNKNOWN || c == 0; }

static Fact sum(DynRegionInstr *in, Fact a, Fact b) {
    bool minus = in->op == DYN_RO_ISUB || in->op == DYN_RO_ISUBW, checked = in->op == DYN_RO_IADD || in->op == DYN_RO_ISUB;
    bool near = a.size == NEAR && b.size == NEAR, small = near;
    Fact out = nothing;
    if (a.exact && !minus) { /* the number behind the other */
        Fact c = a;
        a = b;
        b = c;
    }
    int64_t c = minus ? -(int64_t)b.low : b.low;
    if (b.exact) {
        small = near || stays_small(a, c);
        out = small || checked ? moved(a, c) : nothing;
    } else if ((checked || near) && !minus && a.low >= 0 && b.low >= 0) {
        out.low = limited(a.low + b.low);
    }
    if (small && checked) {
        dyn_region_drop_check(in);
    }
    out.size = !near ? FAR : b.exact && c >= -MOST_COUNTED && c <= MOST_COUNTED ? NEAR : WIDE;
    return out;
}

/* Of the index, too, it is known behind the check where it lies. */
static Fact check_index(Facts *s, DynRegionInstr *in, Fact *regs) {
    Fact *a = &regs[in->arg[0]], out = nothing;
    uint32_t size = in->arg[1];
    if (a->low >= 0 && a->below == size && a->gap > 0) {
        in->op = DYN_RO_IMOV;
        in->arg[1] = in->exit = in->to[0] = DYN_NONE;
        return *a;
    }
    out.low = a->low > 0 ? a->low : 0;
    out.size = a->size = regs[size].size == NEAR ? NEAR : a->size;
    put_below(s, &out, size, 1);
    if (a->low >= 0 && !a->exact) { /* a compiler knows of numbers itself */
        in->op = DYN_RO_IDXLOW;
        put_below(s, a, size, 1);
    }
    return out;
}

/* Is the result near, since it isn't larger than what it is made of? */
static bool stays_near(const DynRegionInstr *in, Fact a, Fact b, const Fact *regs) {
    bool positive = (a.size == NEAR && a.low >= 0) || (b.size == NEAR && b.low >= 0);
    int64_t low, high;
    switch (in->op) {
    case DYN_RO_ICONST:
        return in->imm.i < INT64_C(1) << DYN_REGION_NEAR_BITS && in->imm.i > -(INT64_C(1) << DYN_REGION_NEAR_BITS);
    case DYN_RO_IABS:
    case DYN_RO_INEG:
    case DYN_RO_IMAX0: return a.size == NEAR;
    case DYN_RO_ISELECT: return b.size == NEAR && regs[in->arg[2]].size == NEAR;
    case DYN_RO_IAND: return positive || (a.size == NEAR && b.size == NEAR);
    case DYN_RO_ISHR:
    case DYN_RO_ISHRW: return b.low >= 0 && a.size >= (b.low > 0 ? WIDE : NEAR);
    case DYN_RO_IFLOORDIV: return b.low > 0 && a.size == NEAR;
    case DYN_RO_IMOD: return b.low > 0 && b.size == NEAR;
    case DYN_RO_OSIZE: return true;
    default: return dyn_region_bounds(in->op, &low, &high);
    }
}

static Fact compute(Facts *s, DynRegionInstr *in, Fact *regs) {
    Fact a = in->arg[0] == DYN_NONE ? nothing : regs[in->arg[0]], b = in->arg[1] == DYN_NONE ? nothing : regs[in->arg[1]];
    Fact out = nothing;
    bool near = stays_near(in, a, b, regs);
    int64_t low, high;
    switch (in->op) {
    case DYN_RO_ICONST:
        out.low = limited(in->imm.i);
        out.exact = in->imm.i > UNKNOWN && in->imm.i < MOST;
        break;
    case DYN_RO_IMOV: return a;
    case DYN_RO_IADD:
    case DYN_RO_IADDW:
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW: return sum(in, a, b);
    case DYN_RO_IDX:
    case DYN_RO_IDXLOW: return check_index(s, in, regs);
    case DYN_RO_IAND: out.low = a.low >= 0 || b.low >= 0 ? 0 : UNKNOWN; break;
    case DYN_RO_ISHR:
    case DYN_RO_ISHRW:
    case DYN_RO_IFLOORDIV:
        if (a.low >= 0 && b.low >= (in->op == DYN_RO_IFLOORDIV)) { /* not larger than it was */
            out = a;
            out.exact = false;
            out.low = 0;
        }
        break;
    case DYN_RO_IMOD:
        if (b.low > 0) {
            out.low = 0;
            put_below(s, &out, in->arg[1], 1);
        }
        break;
    case DYN_RO_IMAX0: out.low = 0; break;
    default: out.low = dyn_region_bounds(in->op, &low, &high) ? limited(low) : UNKNOWN; break;
    }
    out.size = near ? NEAR : FAR;
    return out;
}

/* What a register is known to be smaller than isn't the same number any more. */
static void forget(Facts *s, Fact *regs, uint32_t reg) {
    for (uint32_t i = 0; i < s->nregs && s->bound[reg]; i++) {
        regs[i].below = regs[i].below == reg ? DYN_NONE : regs[i].below;
    }
}

/* ---- ways from block to block */

static int8_t less(int8_t low, int8_t old) { return low >= old ? old : low > 0 ? 1 : low == 0 ? 0 : UNKNOWN; }

/* Fewer steps than there are numbers lead to what holds on all ways. */
static void merge(Facts *s, uint32_t block, const Fact *regs) {
    Fact *at = s->at + (size_t)block * s->nregs;
    if (!s->seen[block]) {
        memcpy(at, regs, s->nregs * sizeof(Fact));
        s->seen[block] = 1;
        s->changed = true;
        return;
    }
    for (uint32_t i = 0; i < s->nregs; i++) {
        Fact old = at[i], out = old;
        bool same = old.below != DYN_NONE && regs[i].below == old.below;
        out.exact = old.exact && regs[i].exact && regs[i].low == old.low;
        out.low = less(regs[i].low, old.low);
        out.gap = same ? less(regs[i].gap, old.gap) : 0;
        out.below = same && out.gap != UNKNOWN ? old.below : DYN_NONE;
        out.size = regs[i].size < old.size ? regs[i].size : old.size;
        out.gap = out.below == DYN_NONE ? 0 : out.gap;
        bool lost =
            out.low != old.low || out.size != old.size || out.exact != old.exact || out.below != old.below || out.gap != old.gap;
        at[i] = out;
        s->changed = s->changed || lost;
    }
}

/* a + gap <= b */
static void learn_order(Facts *s, Fact *regs, uint32_t a, uint32_t b, int8_t gap) {
    if (regs[a].low != UNKNOWN && regs[b].low < regs[a].low + gap) {
        regs[b].low = limited(regs[a].low + gap);
        regs[b].exact = false;
    }
    if (regs[a].below == DYN_NONE && a != b && !regs[b].exact) {
        put_below(s, &regs[a], b, gap);
    }
}

/* It isn't the number that the other one is. */
static void learn_other(Fact *regs, uint32_t a, uint32_t b) {
    if (regs[b].exact && regs[a].low == regs[b].low && !regs[a].exact) {
        regs[a].low = limited(regs[a].low + 1);
    }
}

/* `regs` at the end of a block that goes on there where the condition holds, or where it doesn't. */
static void learn(Facts *s, const DynRegionBlock *b, bool holds, Fact *regs) {
    const DynRegionInstr *in = dyn_region_condition(b, b->v.at[b->v.n - 1].arg[0]);
    for (uint32_t k = 0; k < 2 && in != NULL && in->op == DYN_RO_NOT; k++) {
        holds = !holds;
        in = dyn_region_condition(b, in->arg[0]);
    }
    if (in == NULL) {
        return;
    }
    uint32_t x = in->arg[0], y = in->arg[1];
    if (in->op == DYN_RO_ILT || in->op == DYN_RO_ILE) {
        bool strict = (in->op == DYN_RO_ILT) == holds;
        learn_order(s, regs, holds ? x : y, holds ? y : x, strict);
    } else if ((in->op == DYN_RO_IEQ && !holds) || (in->op == DYN_RO_INE && holds)) {
        learn_other(regs, x, y);
        learn_other(regs, y, x);
    }
}

/* ---- all blocks. `change`: what is known is final, and checks go. */

static void follow_block(Facts *s, uint32_t block, bool change) {
    Fact *regs = s->at + (size_t)s->r->blocks.n * s->nregs, *other = regs + s->nregs;
    const DynRegionBlock *b = &s->r->blocks.at[block];
    memcpy(regs, s->at + (size_t)block * s->nregs, s->nregs * sizeof(Fact));
    for (uint32_t k = 0; k < b->v.n; k++) {
        DynRegionInstr in = b->v.at[k];
        if (dyn_region_ops[in.op].fails && in.exit == DYN_NONE && !change) {
            merge(s, in.to[0], regs); /* where it goes if it fails */
        }
        if (in.dst != DYN_NONE) {
            Fact out = compute(s, &in, regs);
            forget(s, regs, in.dst);
            out.below = out.below == in.dst ? DYN_NONE : out.below;
            regs[in.dst] = out;
        }
        if (change) {
            b->v.at[k] = in;
        }
    }
    uint32_t to[2], ways = change ? 0 : dyn_region_ways(b, to);
    for (uint32_t w = 0; w < ways; w++) {
        memcpy(other, regs, s->nregs * sizeof(Fact));
        if (ways == 2) {
            learn(s, b, w == 0, other);
        }
        merge(s, to[w], other);
    }
}

/* run.c takes no array with an axis that is larger. */
static void know_sizes(const DynRegionValues *values, Fact *regs) {
    for (uint32_t i = 0; i < values->n; i++) {
        const DynRegionValue *v = &values->at[i];
        for (uint32_t k = 0; k < v->n && v->kind == DYN_RK_ARRAY; k++) {
            regs[v->regs[2 + k]].size = NEAR;
        }
    }
}

static bool find_facts(Facts *s) {
    Fact *unknown = s->at + (size_t)s->r->blocks.n * s->nregs + 2 * (size_t)s->nregs;
    for (uint32_t i = 0; i < s->nregs; i++) {
        unknown[i] = nothing;
    }
    merge(s, 0, unknown);
    for (uint32_t i = 0; i < s->r->entries.n; i++) {
        Fact *comes = unknown + s->nregs;
        memcpy(comes, unknown, s->nregs * sizeof(Fact));
        know_sizes(&s->r->entries.at[i].values, comes);
        merge(s, s->r->entries.at[i].block, comes);
    }
    for (uint32_t i = 0; i < s->r->routines.n; i++) {
        merge(s, s->r->routines.at[i].block, unknown);
    }
    for (uint32_t passes = 0; passes < MOST_PASSES && s->changed; passes++) {
        s->changed = false;
        for (uint32_t i = 0; i < s->r->blocks.n; i++) {
            if (s->seen[i]) {
                follow_block(s, i, false);
            }
        }
    }
    return !s->changed;
}

void dyn_region_facts(DynRegion *r) {
    Facts s = {.r = r, .nregs = r->regs.n};
    size_t rows = r->blocks.n + 4;
    if (rows * s.nregs > MOST_ROWS) {
        return;
    }
    s.at = PyMem_RawMalloc(rows * s.nregs * sizeof(Fact) + 1);
    s.seen = PyMem_RawCalloc(rows + s.nregs, 1);
    if (s.at != NULL && s.seen != NULL) {
        s.bound = s.seen + rows;
        bool found = find_facts(&s);
        for (uint32_t i = 0; i < r->blocks.n && found; i++) {
            if (s.seen[i]) {
                follow_block(&s, i, true);
            }
        }
    }
    PyMem_RawFree(s.seen);
    PyMem_RawFree(s.at);
}
