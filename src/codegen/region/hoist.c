/* hoist.c: a pass over region IR that takes checks out of innermost loops that count. Called by run.c before C is written.
 *
 * Such a loop gets a copy in which indices aren't checked any more, and sums of the counter don't either. In front of both a
 * block finds out, for all trips that are left, whether each of those checks would pass, and chooses. Where one wouldn't, the
 * loop runs as it was, and is left at the very trip. What counts is read off the instructions: a register that goes up or down by
 * a number on each trip, if there is one, and one that goes down by one and ends the loop at 0. Memory is raw and lasts as long
 * as the call. */
#include "codegen/region/region_code.h"

enum { MOST_CHECKS = 48, FAR = 60, MOST_TRIPS = 40, MOST_STEP = 20, MOST_BLOCKS = 600, MOVED = 2 };

/* What a register holds at some place of the loop: base + fixed - minus + c, with base as it was at the head of the trip. */
typedef struct Affine {
    bool known;
    uint32_t base;         /* The counter or `left`; or DYN_NONE. */
    uint32_t fixed, minus; /* Registers that the loop doesn't assign; or DYN_NONE. */
    int64_t c;
} Affine;

/* fixed + c; or nothing is known. */
typedef struct Bound {
    bool known;
    uint32_t fixed;
    int64_t c;
} Bound;

/* Between which numbers the counter was at the head of a trip that comes to some place, and which one it wasn't: branches
 * (`if i > 0`, `if i == 0: … else`) tell. */
typedef struct Guard {
    Bound low, high, other;
} Guard;

/* base + fixed - minus + c is an index of an axis with `size` elements; without a size: it is far from overflow. */
typedef struct Check {
    uint32_t base, fixed, minus, size;
    int64_t c;
    Guard guard; /* Of the trips that come to the check. */
} Check;

typedef struct Loop {
    DynRegion *r;
    uint32_t head, nblocks, nregs;
    uint8_t *in;       /* For each block: it belongs to the loop. */
    uint8_t *assigned; /* For each register: the loop assigns it; MOVED: by a move. */
    uint8_t *stored;   /* For each register: it may tell where something is stored. */
    uint32_t *order;   /* The blocks of the loop, each behind those that come before it in a trip. */
    uint32_t *ahead;   /* For each block: from how many places of the loop that aren't in `order` yet it is jumped to. */
    uint32_t *place;   /* For each block of the loop: where it is in `order`. */
    uint32_t n;
    Affine *at;    /* For each block of `order` and each register, at its beginning; behind them there is room for one more. */
    Guard *guards; /* For each block of `order`. */
    uint8_t *seen; /* For each block: `at` and `guards` hold something. */
    DynRegionConstant *constants;
    uint32_t next, left;
    int64_t step; /* Of `next`, in each trip. */
    Check checks[MOST_CHECKS];
    uint32_t nchecks;
    bool crowded; /* There are more checks than that: the loop keeps all of them. */
    bool failed;  /* Memory is out. */
} Loop;

/* Every block behind those that lead to it; false where that can't be: there is a loop in it. */
static bool order_blocks(Loop *l) {
    uint32_t to[2], done = 0;
    l->n = 0;
    memset(l->ahead, 0, l->nblocks * sizeof(uint32_t));
    for (uint32_t i = 0; i < l->nblocks; i++) {
        l->n += l->in[i];
        for (uint32_t w = 0, n = l->in[i] ? dyn_region_ways(&l->r->blocks.at[i], to) : 0; w < n; w++) {
            l->ahead[to[w]]++;
        }
    }
    l->order[done++] = l->head;
    for (uint32_t at = 0; at < done; at++) {
        for (uint32_t w = 0, n = dyn_region_ways(&l->r->blocks.at[l->order[at]], to); w < n; w++) {
            if (to[w] != l->head && l->in[to[w]] && --l->ahead[to[w]] == 0) {
                l->order[done++] = to[w];
            }
        }
    }
    for (uint32_t i = 0; i < done; i++) {
        l->place[l->order[i]] = i;
    }
    memset(l->seen, 0, l->nblocks);
    return done == l->n;
}

static Affine *state_of(const Loop *l, uint32_t block) { return l->at + (size_t)l->place[block] * l->nregs; }

static void find_assigned(Loop *l) {
    memset(l->assigned, 0, l->nregs);
    for (uint32_t i = 0; i < l->n; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            if (b->v.at[k].dst != DYN_NONE) {
                l->assigned[b->v.at[k].dst] = b->v.at[k].op == DYN_RO_IMOV ? MOVED : 1;
            }
        }
    }
}

/* stores.c saves what is at those places in all trips, also in those that store nothing, so they have to lie inside then, too. */
static void find_stored(Loop *l) {
    memset(l->stored, 0, l->nregs);
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < l->n; i++) {
            const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
            for (uint32_t k = b->v.n; k-- > 0;) {
                const DynRegionInstr *in = &b->v.at[k];
                bool store = dyn_region_stored(in->op) > 0, makes = in->dst != DYN_NONE && l->stored[in->dst];
                for (int a = 0; a < (store ? 2 : 3) && dyn_region_ops[in->op].args[a] != 'N' && (store || makes); a++) {
                    again = again || !l->stored[in->arg[a]];
                    l->stored[in->arg[a]] = 1;
                }
            }
        }
    }
}

/* ---- what registers hold */

/* One of two registers, where no more than one is there. */
static uint32_t one_of(uint32_t a, uint32_t b, bool *known) {
    *known = *known && (a == DYN_NONE || b == DYN_NONE);
    return a == DYN_NONE ? b : a;
}

static Affine sum(Affine a, Affine b, bool minus) {
    Affine out = {.known = a.known && b.known && (b.base == DYN_NONE || !minus)};
    out.base = one_of(a.base, b.base, &out.known);
    out.fixed = one_of(a.fixed, minus ? b.minus : b.fixed, &out.known);
    out.minus = one_of(a.minus, minus ? b.fixed : b.minus, &out.known);
    bool overflows = minus ? __builtin_sub_overflow(a.c, b.c, &out.c) : __builtin_add_overflow(a.c, b.c, &out.c);
    out.known = out.known && !overflows;
    return out;
}

static bool is_alone(Affine x) { return x.fixed == DYN_NONE && x.minus == DYN_NONE; }

static void follow(const DynRegionInstr *in, Affine *regs) {
    if (in->dst == DYN_NONE) {
        return;
    }
    Affine out = {.known = false};
    switch (in->op) {
    case DYN_RO_ICONST: out = (Affine){true, DYN_NONE, DYN_NONE, DYN_NONE, in->imm.i}; break;
    case DYN_RO_IMOV: out = regs[in->arg[0]]; break;
    case DYN_RO_IADD:
    case DYN_RO_IADDW: out = sum(regs[in->arg[0]], regs[in->arg[1]], false); break;
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW: out = sum(regs[in->arg[0]], regs[in->arg[1]], true); break;
    default: break;
    }
    regs[in->dst] = out;
}

static bool is_same(Bound a, Bound b) { return a.known == b.known && (!a.known || (a.fixed == b.fixed && a.c == b.c)); }

static void merge(Loop *l, uint32_t to, const Affine *regs, Guard guard) {
    Affine *at = state_of(l, to);
    Guard *has = &l->guards[l->place[to]];
    if (!l->seen[to]) {
        memcpy(at, regs, l->nregs * sizeof *at);
        *has = guard;
        l->seen[to] = 1;
        return;
    }
    has->low.known = has->low.known && is_same(has->low, guard.low);
    has->high.known = has->high.known && is_same(has->high, guard.high);
    has->other.known = has->other.known && is_same(has->other, guard.other);
    for (uint32_t i = 0; i < l->nregs; i++) {
        bool same = at[i].known && regs[i].known && at[i].base == regs[i].base && at[i].fixed == regs[i].fixed;
        same = same && at[i].minus == regs[i].minus && at[i].c == regs[i].c;
        at[i].known = at[i].known && same;
    }
}

static void add_check(Loop *l, Check c) {
    bool near = c.c < (INT64_C(1) << FAR) && c.c > -(INT64_C(1) << FAR);
    for (uint32_t i = 0; i < l->nchecks; i++) {
        const Check *has = &l->checks[i];
        bool same = has->base == c.base && has->fixed == c.fixed && has->minus == c.minus && has->size == c.size && has->c == c.c;
        same = same && is_same(has->guard.low, c.guard.low) && is_same(has->guard.high, c.guard.high);
        if (same && is_same(has->guard.other, c.guard.other)) {
            return;
        }
    }
    if (l->nchecks == MOST_CHECKS || !near) {
        l->crowded = true;
        return;
    }
    l->checks[l->nchecks++] = c;
}

/* Can the check be made in front of the loop? */
static bool is_hoisted(const Loop *l, const DynRegionInstr *in, const Affine *regs, Check *c) {
    if (in->op == DYN_RO_IDX) {
        Affine i = regs[in->arg[0]], n = regs[in->arg[1]];
        bool size = n.known && n.c == 0 && n.base == DYN_NONE && n.fixed != DYN_NONE && n.minus == DYN_NONE;
        *c = (Check){.base = i.base, .fixed = i.fixed, .minus = i.minus, .size = n.fixed, .c = i.c};
        return i.known && (i.base != DYN_NONE || !is_alone(i)) && i.base != l->left && size;
    }
    if (in->op == DYN_RO_IADD || in->op == DYN_RO_ISUB) {
        Affine out = sum(regs[in->arg[0]], regs[in->arg[1]], in->op == DYN_RO_ISUB);
        *c = (Check){.base = out.base, .fixed = out.fixed, .minus = out.minus, .size = DYN_NONE, .c = out.c};
        return out.known && (out.base != DYN_NONE || !is_alone(out)) && out.base != l->left;
    }
    return false;
}

/* a is the counter and something, and isn't b, which stays: which number the counter isn't. */
static Bound unequal(const Loop *l, Affine a, Affine b) {
    Bound out = {.known = false};
    bool compared = a.known && b.known && a.base == l->next && a.base != DYN_NONE && is_alone(a) && b.base == DYN_NONE;
    compared = compared && b.minus == DYN_NONE;
    if (compared && !__builtin_sub_overflow(b.c, a.c, &out.c)) {
        out.fixed = b.fixed;
        out.known = out.c < (INT64_C(1) << (FAR - 1)) && out.c > -(INT64_C(1) << (FAR - 1));
    }
    return out;
}

/* The block's end, where the condition holds or doesn't: what it tells of the counter, which is compared with what stays. */
static Guard guarded(const Loop *l, const DynRegionBlock *b, const Affine *regs, bool holds, Guard guard) {
    const DynRegionInstr *in = dyn_region_condition(b, b->v.at[b->v.n - 1].arg[0]);
    if (in != NULL && (in->op == DYN_RO_IEQ || in->op == DYN_RO_INE) && (in->op == DYN_RO_INE) == holds) {
        Bound one = unequal(l, regs[in->arg[0]], regs[in->arg[1]]), two = unequal(l, regs[in->arg[1]], regs[in->arg[0]]);
        guard.other = one.known ? one : two.known ? two : guard.other;
    }
    if (in == NULL || (in->op != DYN_RO_ILT && in->op != DYN_RO_ILE)) {
        return guard;
    }
    Affine low = regs[in->arg[holds ? 0 : 1]], high = regs[in->arg[holds ? 1 : 0]];
    int64_t c, more = (in->op == DYN_RO_ILT) == holds; /* low + more <= high */
    bool near = low.known && high.known && !__builtin_sub_overflow(high.c, low.c, &c);
    near = near && c < (INT64_C(1) << (FAR - 1)) && c > -(INT64_C(1) << (FAR - 1)) && l->next != DYN_NONE;
    near = near && low.minus == DYN_NONE && high.minus == DYN_NONE;
    if (near && low.base == l->next && low.fixed == DYN_NONE && high.base == DYN_NONE) {
        guard.high = (Bound){true, high.fixed, c - more};
    } else if (near && high.base == l->next && high.fixed == DYN_NONE && low.base == DYN_NONE) {
        guard.low = (Bound){true, low.fixed, more - c};
    }
    return guard;
}

/* What the counter has become: the same in all ways of a trip. */
static bool is_step(Loop *l, Affine next) {
    bool some = next.known && next.base == l->next && is_alone(next) && next.c != 0;
    bool small = next.c < (INT64_C(1) << MOST_STEP) && next.c > -(INT64_C(1) << MOST_STEP);
    bool same = l->step == 0 || l->step == next.c;
    l->step = next.c;
    return some && small && same;
}

static bool goes_down(const Loop *l, Affine left) { return left.known && left.base == l->left && is_alone(left) && left.c == -1; }

/* What a register holds at the head of a trip. */
static Affine at_head(const Loop *l, uint32_t reg) {
    bool is_int = l->r->regs.at[reg] == 'I';
    if (l->constants[reg].some && !l->constants[reg].other) {
        return (Affine){true, DYN_NONE, DYN_NONE, DYN_NONE, l->constants[reg].i};
    }
    if (reg == l->next || reg == l->left) {
        return (Affine){is_int, reg, DYN_NONE, DYN_NONE, 0};
    }
    return (Affine){is_int && !l->assigned[reg], DYN_NONE, reg, DYN_NONE, 0};
}

/* Follows a trip: what can be hoisted, and, with `check`, whether it counts as is assumed. */
static bool follow_trip(Loop *l) {
    Affine *regs = l->at + (size_t)l->n * l->nregs;
    bool counts = true;
    l->step = 0;
    l->nchecks = 0;
    l->crowded = false;
    memset(l->seen, 0, l->nblocks);
    l->guards[0] = (Guard){.low = {.known = false}};
    for (uint32_t i = 0; i < l->nregs; i++) {
        state_of(l, l->head)[i] = at_head(l, i);
    }
    for (uint32_t i = 0; i < l->n; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
        memcpy(regs, l->at + (size_t)i * l->nregs, l->nregs * sizeof(Affine));
        for (uint32_t k = 0; k < b->v.n; k++) {
            Check c;
            if (is_hoisted(l, &b->v.at[k], regs, &c)) {
                bool alone = c.size != DYN_NONE && c.base == l->next && !l->stored[b->v.at[k].dst];
                c.guard = alone ? l->guards[i] : (Guard){.low = {.known = false}};
                add_check(l, c);
            }
            follow(&b->v.at[k], regs);
        }
        uint32_t to[2], n = dyn_region_ways(b, to);
        for (uint32_t k = 0; k < n; k++) {
            if (to[k] == l->head) {
                counts = counts && (l->next == DYN_NONE || is_step(l, regs[l->next]));
                counts = counts && (l->left == DYN_NONE || goes_down(l, regs[l->left]));
            } else if (l->in[to[k]]) {
                merge(l, to[k], regs, n == 2 ? guarded(l, b, regs, k == 0, l->guards[i]) : l->guards[i]);
            }
        }
    }
    return counts;
}

/* Something is checked or asked in each trip that a copy of the loop needn't; loops over whole arrays have nothing of the kind.
 */
static bool is_worth(const Loop *l) {
    bool polls = false;
    for (uint32_t i = 0; i < l->n && !polls; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
        for (uint32_t k = 0; k < b->v.n && !polls; k++) {
            polls = b->v.at[k].op == DYN_RO_POLL;
        }
    }
    return polls || l->nchecks > 0;
}

/* The head ends the loop where `left` is 0; the counter is what goes up or down by a number, if anything does. */
static bool find_counter(Loop *l) {
    const DynRegionBlock *head = &l->r->blocks.at[l->head];
    if (head->v.n != 1 || head->v.at[0].op != DYN_RO_BR || l->in[head->v.at[0].to[1]]) {
        return false;
    }
    l->left = head->v.at[0].arg[0];
    for (uint32_t i = 0; i < l->nregs; i++) {
        l->next = i;
        if (i != l->left && l->assigned[i] == MOVED && follow_trip(l)) {
            return is_worth(l);
        }
    }
    l->next = DYN_NONE;
    return follow_trip(l) && is_worth(l);
}

/* ---- the copy, and the block in front */

static uint32_t emit(Loop *l, uint32_t block, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm) {
    DynRegionInstr in = dyn_region_instr(op, a, b, DYN_NONE, imm);
    in.dst = dyn_region_reg(l->r, dyn_region_ops[op].result);
    if (in.dst == DYN_NONE || dyn_vec_push(&l->r->blocks.at[block].v, in) < 0) {
        l->failed = true;
    }
    return in.dst;
}

static uint32_t emit_int(Loop *l, uint32_t block, int64_t i) { return emit(l, block, DYN_RO_ICONST, DYN_NONE, DYN_NONE, i); }

static uint32_t emit_bound(Loop *l, uint32_t block, Bound bound) {
    uint32_t c = emit_int(l, block, bound.c);
    return bound.fixed == DYN_NONE ? c : emit(l, block, DYN_RO_IADDW, bound.fixed, c, 0);
}

static uint32_t emit_select(Loop *l, uint32_t block, uint32_t condition, uint32_t yes, uint32_t no) {
    DynRegionInstr in = dyn_region_instr(DYN_RO_ISELECT, condition, yes, no, 0);
    in.dst = dyn_region_reg(l->r, 'I');
    l->failed = in.dst == DYN_NONE || dyn_vec_push(&l->r->blocks.at[block].v, in) < 0 || l->failed;
    return in.dst;
}

/* The smallest and the largest that the counter is at the head of a trip that comes to the check. */
static void emit_ends(Loop *l, uint32_t block, const Check *c, uint32_t *low, uint32_t *high) {
    uint32_t trips = emit(l, block, DYN_RO_ISUBW, l->left, emit_int(l, block, 1), 0);
    uint32_t way = emit(l, block, DYN_RO_IMULW, trips, emit_int(l, block, l->step), 0);
    uint32_t last = emit(l, block, DYN_RO_IADDW, l->next, way, 0);
    *high = l->step > 0 ? last : l->next;
    *low = l->step > 0 ? l->next : last;
    if (c->guard.low.known) {
        uint32_t bound = emit_bound(l, block, c->guard.low);
        *low = emit_select(l, block, emit(l, block, DYN_RO_ILT, *low, bound, 0), bound, *low);
    }
    if (c->guard.high.known) {
        uint32_t bound = emit_bound(l, block, c->guard.high);
        *high = emit_select(l, block, emit(l, block, DYN_RO_ILT, bound, *high, 0), bound, *high);
    }
    if (c->guard.other.known) {
        uint32_t other = emit_bound(l, block, c->guard.other), one = emit_int(l, block, 1);
        uint32_t up = emit(l, block, DYN_RO_IADDW, *low, one, 0), down = emit(l, block, DYN_RO_ISUBW, *high, one, 0);
        *low = emit_select(l, block, emit(l, block, DYN_RO_IEQ, *low, other, 0), up, *low);
        *high = emit_select(l, block, emit(l, block, DYN_RO_IEQ, *high, other, 0), down, *high);
    }
}

/* low <= value (low < value where it isn't strict) for the value's smallest and largest, as registers. */
static void emit_check(Loop *l, uint32_t block, const Check *c, uint32_t *all) {
    uint32_t more = emit_int(l, block, c->c), low, high, none = DYN_NONE;
    more = c->fixed == DYN_NONE ? more : emit(l, block, DYN_RO_IADDW, c->fixed, more, 0);
    more = c->minus == DYN_NONE ? more : emit(l, block, DYN_RO_ISUBW, more, c->minus, 0);
    low = high = c->base == DYN_NONE ? more : c->base;
    if (c->base == l->next && c->base != DYN_NONE) {
        emit_ends(l, block, c, &low, &high);
        bool guarded = c->guard.low.known || c->guard.high.known || c->guard.other.known;
        none = guarded ? emit(l, block, DYN_RO_ILT, high, low, 0) : DYN_NONE;
    }
    if (c->base != DYN_NONE) {
        low = emit(l, block, DYN_RO_IADDW, low, more, 0);
        high = emit(l, block, DYN_RO_IADDW, high, more, 0);
    }
    int64_t far = INT64_C(1) << FAR;
    uint32_t floor = emit_int(l, block, c->size == DYN_NONE ? -far : 0);
    uint32_t ceiling = c->size == DYN_NONE ? emit_int(l, block, far) : c->size;
    uint32_t above = emit(l, block, DYN_RO_ILE, floor, low, 0), below = emit(l, block, DYN_RO_ILT, high, ceiling, 0);
    uint32_t inside = emit(l, block, DYN_RO_IAND, above, below, 0);
    inside = none == DYN_NONE ? inside : emit(l, block, DYN_RO_IOR, inside, none, 0); /* no trip comes to it */
    *all = emit(l, block, DYN_RO_IAND, *all, inside, 0);
}

/* The register is far from overflow; once for each of them. */
static void emit_near(Loop *l, uint32_t block, uint32_t reg, uint8_t *done, uint32_t *all) {
    int64_t far = INT64_C(1) << FAR;
    if (reg != DYN_NONE && !done[reg]) {
        uint32_t low = emit(l, block, DYN_RO_ILT, emit_int(l, block, -far), reg, 0);
        uint32_t high = emit(l, block, DYN_RO_ILT, reg, emit_int(l, block, far), 0);
        *all = emit(l, block, DYN_RO_IAND, *all, emit(l, block, DYN_RO_IAND, low, high, 0), 0);
        done[reg] = 1;
    }
}

/* What is added up has to be far from overflow itself, or sums of it tell nothing. */
static uint32_t emit_checks(Loop *l, uint32_t block) {
    uint32_t all = emit(l, block, DYN_RO_ILT, l->left, emit_int(l, block, INT64_C(1) << MOST_TRIPS), 0);
    all = emit(l, block, DYN_RO_IAND, all, emit(l, block, DYN_RO_CALM, DYN_NONE, DYN_NONE, 0), 0);
    memset(l->assigned, 0, l->nregs); /* not needed any more */
    for (uint32_t i = 0; i < l->nchecks; i++) {
        emit_near(l, block, l->checks[i].base, l->assigned, &all);
        emit_near(l, block, l->checks[i].fixed, l->assigned, &all);
        emit_near(l, block, l->checks[i].minus, l->assigned, &all);
        emit_near(l, block, l->checks[i].guard.low.known ? l->checks[i].guard.low.fixed : DYN_NONE, l->assigned, &all);
        emit_near(l, block, l->checks[i].guard.high.known ? l->checks[i].guard.high.fixed : DYN_NONE, l->assigned, &all);
        emit_near(l, block, l->checks[i].guard.other.known ? l->checks[i].guard.other.fixed : DYN_NONE, l->assigned, &all);
        emit_check(l, block, &l->checks[i], &all);
    }
    return all;
}

static uint32_t new_block(Loop *l, uint32_t at) { return dyn_region_add_block(l->r, at, &l->failed); }

/* The copy `to` of a block: what is asked in front of the loop isn't asked there. */
static void drop_checks(Loop *l, uint32_t from, uint32_t to) {
    Affine *regs = l->at + (size_t)l->n * l->nregs;
    memcpy(regs, state_of(l, from), l->nregs * sizeof(Affine));
    for (uint32_t k = 0; k < l->r->blocks.at[to].v.n; k++) {
        DynRegionInstr *in = &l->r->blocks.at[to].v.at[k];
        Check c;
        bool hoisted = is_hoisted(l, in, regs, &c);
        follow(in, regs);
        if (hoisted) {
            dyn_region_drop_check(in);
        }
    }
}

/* All that came to the head from outside comes to `front`. */
static void redirect(Loop *l, uint32_t front) { dyn_region_redirect(l->r, l->head, front, l->in, l->nblocks); }

/* ---- loops that count up to a size */

/* The loop writes nothing but registers and elements of arrays, so lists and tuples stay as long as they are. */
static bool keeps_sizes(const Loop *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            uint16_t op = b->v.at[k].op;
            bool flows = op == DYN_RO_JMP || op == DYN_RO_BR || op == DYN_RO_LEAVE || op == DYN_RO_POLL;
            if (op >= DYN_RO_PURE && !flows && dyn_region_stored(op) == 0) {
                return false;
            }
        }
    }
    return true;
}

/* Is the register an operand of anything but the head? */
static bool is_used(const Loop *l, uint32_t reg) {
    bool used = false;
    for (uint32_t i = 0; i < l->nblocks && !used; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[i];
        for (uint32_t k = 0; k < b->v.n && i != l->head; k++) {
            for (int a = 0; a < 3 && dyn_region_ops[b->v.at[k].op].args[a] != 'N'; a++) {
                used = used || b->v.at[k].arg[a] == reg;
            }
        }
    }
    for (uint32_t i = 0; i < l->r->exits.n && !used; i++) {
        const DynRegionValues *values = &l->r->exits.at[i].values;
        for (uint32_t k = 0; k < values->n; k++) {
            for (uint32_t m = 0; m < values->at[k].nregs; m++) {
                used = used || values->at[k].regs[m] == reg;
            }
        }
    }
    return used;
}

/* Does the head do nothing but compare `next`, which each trip adds 1 to, with a size that stays? */
static bool counts_up(Loop *l) {
    const DynRegionBlock *head = &l->r->blocks.at[l->head];
    const DynRegionInstr *v = head->v.at, *less = head->v.n >= 2 ? &v[head->v.n - 2] : NULL;
    bool sized = head->v.n == 3 && v[0].op == DYN_RO_OSIZE;
    if (less == NULL || (head->v.n != 2 && !sized) || less->op != DYN_RO_ILT || less[1].op != DYN_RO_BR) {
        return false;
    }
    bool ends = less[1].arg[0] == less->dst && l->in[less[1].to[0]] && !l->in[less[1].to[1]] && !is_used(l, less->dst);
    bool stays = sized ? less->arg[1] == v[0].dst && !l->assigned[v[0].arg[0]] && !is_used(l, v[0].dst) && keeps_sizes(l)
                       : !l->assigned[less->arg[1]];
    for (uint32_t i = 0; i < l->n && ends; i++) { /* trips end with a jump */
        uint32_t to[2], ways = dyn_region_ways(&l->r->blocks.at[l->order[i]], to);
        ends = ways != 2 || (to[0] != l->head && to[1] != l->head);
    }
    if (!ends || !stays || l->assigned[less->arg[0]] != MOVED) {
        return false;
    }
    l->next = less->arg[0];
    l->left = DYN_NONE;
    return follow_trip(l) && l->step == 1 && is_worth(l) && !l->crowded;
}

/* In front of the jump at the block's end: one trip less is left. */
static void count_down(Loop *l, uint32_t block, uint32_t left) {
    DynRegionBlock *b = &l->r->blocks.at[block];
    DynRegionInstr end = b->v.at[--b->v.n], move = {.op = DYN_RO_IMOV, .dst = left, .exit = DYN_NONE};
    uint32_t one = emit_int(l, block, -1);
    move.arg[0] = emit(l, block, DYN_RO_IADDW, left, one, 0);
    move.arg[1] = move.arg[2] = move.to[0] = move.to[1] = DYN_NONE;
    b = &l->r->blocks.at[block];
    l->failed = dyn_vec_push(&b->v, move) < 0 || dyn_vec_push(&b->v, end) < 0 || l->failed;
}

/* The head asks how many trips are left instead: a block in front computes that. Where there are more than an int holds, nobody
 * sees the last one. */
static void count_trips(Loop *l) {
    uint32_t front = new_block(l, l->r->blocks.at[l->head].at), last = l->failed ? 0 : l->r->blocks.at[l->head].v.n - 1;
    DynRegionInstr size = l->r->blocks.at[l->head].v.at[0], less = l->r->blocks.at[l->head].v.at[last == 0 ? 0 : last - 1];
    if (last == 2) {
        l->failed = dyn_vec_push(&l->r->blocks.at[front].v, size) < 0 || l->failed;
    }
    uint32_t any = emit(l, front, DYN_RO_ILT, less.arg[0], less.arg[1], 0);
    uint32_t n = emit(l, front, DYN_RO_ISUBW, less.arg[1], less.arg[0], 0);
    uint32_t few = emit(l, front, DYN_RO_ILT, emit_int(l, front, 0), n, 0);
    uint32_t most = emit_select(l, front, few, n, emit_int(l, front, INT64_MAX));
    uint32_t left = emit_select(l, front, any, most, emit_int(l, front, 0));
    dyn_region_add_end(l->r, front, DYN_NONE, l->head, DYN_NONE, &l->failed);
    for (uint32_t i = 0; i < l->n && !l->failed; i++) {
        const DynRegionBlock *b = &l->r->blocks.at[l->order[i]];
        if (b->v.at[b->v.n - 1].op == DYN_RO_JMP && b->v.at[b->v.n - 1].to[0] == l->head) {
            count_down(l, l->order[i], left);
        }
    }
    if (!l->failed) {
        DynRegionBlock *head = &l->r->blocks.at[l->head];
        head->v.at[0] = head->v.at[last];
        head->v.at[0].arg[0] = left;
        head->v.n = 1;
        redirect(l, front);
    }
}

/* ---- loops with several counters */

/* Is the register another counter, which goes the same way as `next`, and an index of something? */
static bool goes_along(Loop *l, uint32_t reg, int64_t step) {
    uint32_t left = l->left;
    l->next = reg;
    l->left = DYN_NONE;
    bool along = follow_trip(l) && l->step == step && !l->crowded, index = false;
    for (uint32_t i = 0; i < l->nchecks; i++) {
        index = index || (l->checks[i].base == reg && l->checks[i].size != DYN_NONE);
    }
    l->left = left;
    return along && index;
}

/* Each trip begins by making `reg` of `next` and how far they are apart, which a block in front computes. */
static void tie(Loop *l, uint32_t front, uint32_t reg, uint32_t next) {
    uint32_t body = l->r->blocks.at[l->head].v.at[l->r->blocks.at[l->head].v.n - 1].to[0];
    DynRegionInstr in = dyn_region_instr(DYN_RO_IADDW, next, emit(l, front, DYN_RO_ISUBW, reg, next, 0), DYN_NONE, 0);
    in.dst = reg;
    DynRegionBlock *b = &l->r->blocks.at[body];
    l->failed = dyn_vec_push(&b->v, in) < 0 || l->failed;
    for (uint32_t k = b->v.n - 1; k > 0 && !l->failed; k--) {
        b->v.at[k] = b->v.at[k - 1];
    }
    b->v.at[0] = in;
}

/* `for i, x in enumerate(a)`, or `k += 1` in a loop over a range. False: there is no such counter. */
static bool tie_counters(Loop *l) {
    const DynRegionInstr *end = &l->r->blocks.at[l->head].v.at[l->r->blocks.at[l->head].v.n - 1];
    uint32_t next = l->next, to[2], from = 0, front = DYN_NONE;
    int64_t step = l->step;
    for (uint32_t i = 0; i < l->nblocks; i++) { /* nothing but the head leads to the body's first block */
        uint32_t ways = dyn_region_ways(&l->r->blocks.at[i], to);
        for (uint32_t w = 0; w < ways; w++) {
            from += to[w] == end->to[0];
        }
    }
    for (uint32_t i = 0; i < l->nregs && from == 1 && next != DYN_NONE && !l->failed; i++) {
        if (i != next && i != l->left && l->assigned[i] == MOVED && goes_along(l, i, step)) {
            if (front == DYN_NONE) {
                front = new_block(l, l->r->blocks.at[l->head].at);
            }
            if (!l->failed) {
                tie(l, front, i, next);
            }
        }
    }
    l->next = next;
    if (front != DYN_NONE) {
        dyn_region_add_end(l->r, front, DYN_NONE, l->head, DYN_NONE, &l->failed);
    }
    if (front != DYN_NONE && !l->failed) {
        redirect(l, front);
    }
    return front != DYN_NONE;
}

static void make_versions(Loop *l, uint32_t *copies) {
    uint32_t at = l->r->blocks.at[l->head].at;
    dyn_region_copy_blocks(l->r, l->order, l->n, copies, l->nblocks, &l->failed);
    for (uint32_t i = 0; i < l->n && !l->failed; i++) {
        drop_checks(l, l->order[i], copies[l->order[i]]);
    }
    uint32_t front = new_block(l, at), all = emit_checks(l, front);
    DynRegionQuick q = {.front = front, .all = all, .slow = l->head, .head = copies[l->head], .left = l->left};
    q.next = l->next;
    q.step = l->step;
    q.after = l->r->blocks.at[l->head].v.at[0].to[1];
    for (uint32_t i = 0; i < l->n; i++) {
        l->place[i] = copies[l->order[i]];
    }
    q.blocks = l->place;
    q.n = l->n;
    bool made = !l->failed && dyn_region_ranges(l->r, &q);
    uint32_t first = made ? dyn_region_trips(l->r, &q) : DYN_NONE;
    l->failed = first == DYN_NONE || !dyn_region_ahead(l->r, &q);
    if (!l->failed) {
        redirect(l, first);
    }
}

/* One head: false where memory is out. What was appended is then not reached by anything. *again: the loop has another form
 * now, and no copy yet. */
static bool hoist_from(DynRegion *r, uint32_t head, uint32_t nblocks, bool *again) {
    uint32_t nregs = r->regs.n;
    Loop l = {.r = r, .head = head, .nblocks = nblocks, .nregs = nregs};
    uint8_t *bytes = PyMem_RawMalloc(2 * (size_t)(nblocks + nregs));
    uint32_t *numbers = PyMem_RawMalloc(4 * (size_t)nblocks * sizeof(uint32_t)); /* `order`, copies, and the others */
    l.in = bytes;
    l.seen = bytes + nblocks;
    l.assigned = bytes + 2 * (size_t)nblocks;
    l.stored = l.assigned + nregs;
    l.order = numbers;
    l.ahead = numbers + 2 * (size_t)nblocks;
    l.place = numbers + 3 * (size_t)nblocks;
    bool there = bytes != NULL && numbers != NULL;
    if (there && dyn_region_loop(r, head, l.in, l.seen, l.order) && order_blocks(&l)) {
        l.at = PyMem_RawMalloc((size_t)(l.n + 1) * nregs * sizeof(Affine));
        l.guards = PyMem_RawCalloc(l.n, sizeof(Guard));
        l.constants = PyMem_RawMalloc(nregs * sizeof(DynRegionConstant));
        bool room = l.at != NULL && l.guards != NULL && l.constants != NULL;
        if (room) {
            dyn_region_constants(r, l.constants);
        }
        find_assigned(&l);
        find_stored(&l);
        if (room && find_counter(&l) && !l.crowded) {
            *again = tie_counters(&l);
            if (!*again) {
                (void)find_counter(&l);
                make_versions(&l, numbers + nblocks);
            }
        } else if (room && counts_up(&l)) {
            count_trips(&l);
            *again = true;
        }
        there = room && !l.failed;
        PyMem_RawFree(l.constants);
        PyMem_RawFree(l.guards);
        PyMem_RawFree(l.at);
    }
    PyMem_RawFree(bytes);
    PyMem_RawFree(numbers);
    return there;
}

void dyn_region_hoist(DynRegion *r) {
    uint32_t nblocks = r->blocks.n;
    for (uint32_t i = 1; i < nblocks && nblocks < MOST_BLOCKS; i++) {
        uint32_t n = r->blocks.at[i].v.n;
        bool may_be = n >= 1 && n <= 3 && r->blocks.at[i].v.at[n - 1].op == DYN_RO_BR;
        for (bool again = may_be; again;) {
            again = false;
            if (!hoist_from(r, i, r->blocks.n, &again)) {
                return;
            }
        }
    }
}
