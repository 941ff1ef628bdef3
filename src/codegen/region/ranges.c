/* ranges.c: checks that hoist.c left in its copy of a loop, as they aren't of sums of the counter, are taken out by ranges of
 * values. Called by hoist.c.
 *
 * Of each int in a trip the smallest and the largest that it can be in any trip are computed in front of the loop: of the counter
 * and of what the loop doesn't assign they are known there, of elements of small ints by their type, of what is made of them by
 * doing the same with the ends of ranges. What each trip cuts off (`x = (x * a + c) % m`, `& 255`) lies in that range at the
 * head, too, if it does so at first. Where ranges show that an index lies inside, that an int doesn't outgrow 64 bits, that a
 * divisor isn't 0, the check goes; the loop without is chosen only where all of that holds. What a trip adds something to
 * (`count += 1`) is bounded by the number of trips. Memory is raw and lasts as long as the call. */
#include "codegen/region/region_code.h"

enum { BITS = 63, FACTOR = 31, TERM = 62, NEAR = 61, EXACT = 53, MOST_CODE = 400, MOST_MOVES = 4 };

/* low <= value <= high, both registers in front of the loop; their sizes are below 2 to the power of `bits`. With a base, the
 * value is what that register was at the head of the trip, plus something of that range. */
typedef struct Range {
    bool known;
    bool loose;   /* Not each number of the range may come up. */
    uint8_t bits; /* 64: anything */
    uint32_t base, low, high;
} Range;

typedef struct Ranges {
    DynRegion *r;
    DynRegionQuick *q;
    uint32_t nregs;
    Range *at;         /* For each block of the loop, at its beginning, and each register; and room for one more. */
    uint8_t *seen;     /* For each block of the loop: `at` holds something. */
    uint8_t *adds;     /* For each register: trips add to it, and do nothing else to it. */
    uint8_t *assigned; /* For each register: the loop does. */
    uint8_t *wanted;   /* For each register: some check depends on it. */
    uint8_t *always;   /* For each block of the loop: each trip comes to it. */
    uint8_t *counted;  /* For each block of the loop: some trips have counted when they come to it. */
    DynRegionLive live;
    uint32_t code; /* So many instructions were added in front. */
    bool trial;    /* Nothing is changed: it is found out which registers are added to. */
    bool found;    /* One of them isn't. */
    bool failed;
} Ranges;

static uint32_t add(Ranges *s, DynRegionOp op, uint32_t a, uint32_t b, uint32_t c, DynScalar imm) {
    DynRegionInstr in = dyn_region_instr(op, a, b, c, 0);
    in.imm = imm;
    s->code++;
    if (s->trial || s->failed) {
        return 0;
    }
    s->r->in_front++;
    in.dst = dyn_region_reg(s->r, dyn_region_ops[op].result);
    s->failed = in.dst == DYN_NONE || dyn_vec_push(&s->r->blocks.at[s->q->front].v, in) < 0;
    return in.dst;
}

static uint32_t add2(Ranges *s, DynRegionOp op, uint32_t a, uint32_t b) {
    return add(s, op, a, b, DYN_NONE, (DynScalar){.i = 0});
}

static uint32_t number(Ranges *s, int64_t i) { return add(s, DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, (DynScalar){.i = i}); }

/* The loop without checks is chosen only where this holds, too. */
static void demand(Ranges *s, uint32_t condition) {
    s->q->all = s->trial ? s->q->all : add2(s, DYN_RO_IAND, s->q->all, condition);
}

static uint8_t bits_of(int64_t i) {
    uint64_t size = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    return (uint8_t)(size == 0 ? 0 : 64 - __builtin_clzll(size));
}

static Range constants(Ranges *s, int64_t low, int64_t high) {
    uint8_t a = bits_of(low), b = bits_of(high);
    return (Range){true, false, a > b ? a : b, DYN_NONE, number(s, low), number(s, high)};
}

/* The range is smaller than that, or the loop with checks runs. */
static void tighten(Ranges *s, Range *x, uint8_t bits) {
    if (x->bits > bits) {
        int64_t end = INT64_C(1) << bits;
        demand(s, add2(s, DYN_RO_ILT, number(s, -end), x->low));
        demand(s, add2(s, DYN_RO_ILT, x->high, number(s, end)));
        x->bits = bits;
    }
}

static uint32_t choose(Ranges *s, bool larger, uint32_t a, uint32_t b) {
    bool same = a == b && !s->trial;
    return same ? a : add(s, DYN_RO_ISELECT, add2(s, DYN_RO_ILT, a, b), larger ? b : a, larger ? a : b, (DynScalar){.i = 0});
}

/* Operands become as small as is demanded of them. */
static Range sum(Ranges *s, Range *a, Range *b, bool minus) {
    DynRegionOp op = minus ? DYN_RO_ISUBW : DYN_RO_IADDW;
    Range out = {.known = a->known && b->known && (b->base == DYN_NONE || (a->base == DYN_NONE && !minus))};
    if (!out.known) {
        return out;
    }
    uint8_t most = a->base != DYN_NONE || b->base != DYN_NONE ? NEAR : TERM; /* the base is added, too */
    tighten(s, a, most);
    tighten(s, b, most);
    out.base = a->base != DYN_NONE ? a->base : b->base;
    out.low = add2(s, op, a->low, minus ? b->high : b->low);
    out.high = add2(s, op, a->high, minus ? b->low : b->high);
    out.bits = (uint8_t)((a->bits > b->bits ? a->bits : b->bits) + 1);
    return out;
}

static Range product(Ranges *s, Range *a, Range *b) {
    Range out = {.known = a->known && b->known && a->base == DYN_NONE && b->base == DYN_NONE, .base = DYN_NONE};
    if (!out.known) {
        return out;
    }
    for (int i = 0; i < 2 && a->bits + b->bits > BITS; i++) {
        tighten(s, a->bits > b->bits ? a : b, FACTOR);
    }
    uint32_t ends[4];
    for (int i = 0; i < 4; i++) {
        ends[i] = add2(s, DYN_RO_IMULW, i < 2 ? a->low : a->high, i % 2 == 0 ? b->low : b->high);
    }
    out.low = choose(s, false, choose(s, false, ends[0], ends[1]), choose(s, false, ends[2], ends[3]));
    out.high = choose(s, true, choose(s, true, ends[0], ends[1]), choose(s, true, ends[2], ends[3]));
    out.bits = (uint8_t)(a->bits + b->bits);
    return out;
}

/* What is left of a number that is divided by one above 0. */
static Range rest(Ranges *s, Range *b) {
    Range out = {.known = b->known && b->base == DYN_NONE && !b->loose, .base = DYN_NONE};
    if (out.known) {
        tighten(s, b, TERM);
        demand(s, add2(s, DYN_RO_ILT, number(s, 0), b->low));
        out.bits = b->bits;
        out.low = number(s, 0);
        out.high = add2(s, DYN_RO_ISUBW, b->high, number(s, 1));
    }
    return out;
}

static Range join(Ranges *s, Range a, Range b) {
    Range out = {.known = a.known && b.known && a.base == b.base && s->code < MOST_CODE, .base = a.base};
    out.bits = a.bits > b.bits ? a.bits : b.bits;
    out.loose = a.loose || b.loose;
    if (out.known) {
        out.low = choose(s, false, a.low, b.low);
        out.high = choose(s, true, a.high, b.high);
    }
    return out;
}

/* ---- doubles that are made of ints: their ends are doubles */

static Range to_double(Ranges *s, Range *a) {
    Range out = {.known = a->known && a->base == DYN_NONE, .base = DYN_NONE};
    if (out.known) {
        tighten(s, a, EXACT);
        out.bits = a->bits;
        out.low = add2(s, DYN_RO_I2D, a->low, DYN_NONE);
        out.high = add2(s, DYN_RO_I2D, a->high, DYN_NONE);
    }
    return out;
}

static Range root(Ranges *s, Range a) {
    Range out = {.known = a.known, .base = DYN_NONE, .bits = a.bits};
    if (out.known) {
        uint32_t zero = add(s, DYN_RO_DCONST, DYN_NONE, DYN_NONE, DYN_NONE, (DynScalar){.f = 0.0});
        demand(s, add2(s, DYN_RO_DLE, zero, a.low));
        out.low = add2(s, DYN_RO_ROOT, a.low, DYN_NONE);
        out.high = add2(s, DYN_RO_ROOT, a.high, DYN_NONE);
    }
    return out;
}

static Range to_int(Ranges *s, Range a) {
    Range out = {.known = a.known, .base = DYN_NONE, .bits = a.bits};
    if (out.known) {
        out.low = add2(s, DYN_RO_D2IW, a.low, DYN_NONE);
        out.high = add2(s, DYN_RO_D2IW, a.high, DYN_NONE);
    }
    return out;
}

/* ---- instructions */

bool dyn_region_bounds(uint16_t op, int64_t *low, int64_t *high) {
    int bits = 0;
    switch (op) {
    case DYN_RO_LDBOOL: bits = 1; break;
    case DYN_RO_LDU8: bits = 8; break;
    case DYN_RO_LDU16: bits = 16; break;
    case DYN_RO_LDU32: bits = 32; break;
    case DYN_RO_LDI8: bits = -8; break;
    case DYN_RO_LDI16: bits = -16; break;
    case DYN_RO_LDI32: bits = -32; break;
    case DYN_RO_ILT:
    case DYN_RO_ILE:
    case DYN_RO_IEQ:
    case DYN_RO_INE:
    case DYN_RO_DLT:
    case DYN_RO_DLE:
    case DYN_RO_DEQ:
    case DYN_RO_DNE:
    case DYN_RO_NOT: bits = 1; break;
    default: return false;
    }
    *low = bits < 0 ? -(INT64_C(1) << (-bits - 1)) : 0;
    *high = bits < 0 ? (INT64_C(1) << (-bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
    return true;
}

/* May ranges take its check out? */
static bool is_check(uint16_t op) {
    switch (op) {
    case DYN_RO_IADD:
    case DYN_RO_ISUB:
    case DYN_RO_IMUL:
    case DYN_RO_IDX:
    case DYN_RO_I2DX:
    case DYN_RO_SQRT:
    case DYN_RO_D2I: return true;
    default: return false;
    }
}

/* The index lies inside an axis of that size in all trips. */
static bool is_inside(Ranges *s, Range index, uint32_t size) {
    if (!index.known || index.base != DYN_NONE || index.loose || s->assigned[size]) {
        return false;
    }
    demand(s, add2(s, DYN_RO_ILE, number(s, 0), index.low));
    demand(s, add2(s, DYN_RO_ILT, index.high, size));
    return true;
}

static void replace(Ranges *s, DynRegionInstr *in, DynRegionOp op) {
    if (!s->trial) {
        in->op = (uint16_t)op;
        in->exit = DYN_NONE;
        in->arg[1] = dyn_region_ops[op].args[1] == 'N' ? DYN_NONE : in->arg[1];
    }
}

/* The divisor is the same number in all trips, and isn't 0. */
static void divide(Ranges *s, DynRegionInstr *in) {
    bool single = in->op == DYN_RO_SDIV;
    if (!s->assigned[in->arg[1]] && !single) {
        uint32_t zero = add(s, DYN_RO_DCONST, DYN_NONE, DYN_NONE, DYN_NONE, (DynScalar){.f = 0.0});
        demand(s, add2(s, DYN_RO_DNE, in->arg[1], zero));
        replace(s, in, DYN_RO_CDIV);
    }
}

/* A number that a trip makes itself and is the same in all of them. */
static bool find_constant(const Ranges *s, uint32_t reg, int64_t *i) {
    bool found = false;
    for (uint32_t k = 0; k < s->q->n; k++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[k]];
        for (uint32_t m = 0; m < b->v.n; m++) {
            const DynRegionInstr *in = &b->v.at[m];
            if (in->dst == reg && (in->op != DYN_RO_ICONST || (found && in->imm.i != *i))) {
                return false;
            }
            found = found || in->dst == reg;
            *i = in->dst == reg ? in->imm.i : *i;
        }
    }
    return found;
}

/* `x & i` with such a number i that isn't negative. */
static bool find_mask(const Ranges *s, const DynRegionInstr *in, int64_t *i) {
    return (find_constant(s, in->arg[0], i) && *i >= 0) || (find_constant(s, in->arg[1], i) && *i >= 0);
}

/* Shifted right by such a number. */
static Range shifted(Ranges *s, DynRegionInstr *in, const Range *a) {
    Range out = {.known = false};
    int64_t by;
    if (a->known && a->base == DYN_NONE && find_constant(s, in->arg[1], &by) && by >= 0 && by < 64) {
        uint32_t same = number(s, by);
        out =
            (Range){true, a->loose, a->bits, DYN_NONE, add2(s, DYN_RO_ISHRW, a->low, same), add2(s, DYN_RO_ISHRW, a->high, same)};
        replace(s, in, DYN_RO_ISHRW);
    }
    return out;
}

static Range of_int(Ranges *s, DynRegionInstr *in, Range *a, Range *b, bool always) {
    Range out = {.known = false};
    bool minus = in->op == DYN_RO_ISUB || in->op == DYN_RO_ISUBW;
    int64_t mask;
    switch (in->op) {
    case DYN_RO_ICONST: return constants(s, in->imm.i, in->imm.i);
    case DYN_RO_IMOV: return *a;
    case DYN_RO_IADD:
    case DYN_RO_IADDW:
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW:
        out = sum(s, a, b, minus);
        if (out.known) {
            replace(s, in, minus ? DYN_RO_ISUBW : DYN_RO_IADDW);
        }
        break;
    case DYN_RO_IMUL:
    case DYN_RO_IMULW:
        out = product(s, a, b);
        if (out.known) {
            replace(s, in, DYN_RO_IMULW);
        }
        break;
    case DYN_RO_IMOD: return always ? rest(s, b) : out;
    case DYN_RO_IAND: return find_mask(s, in, &mask) ? constants(s, 0, mask) : out;
    case DYN_RO_ISHR:
    case DYN_RO_ISHRW: return shifted(s, in, a);
    case DYN_RO_IDX:
        if (always && is_inside(s, *a, in->arg[1])) {
            replace(s, in, DYN_RO_IMOV);
            return *a;
        }
        break;
    default: break;
    }
    out.loose = a->loose || b->loose;
    return out;
}

static Range of_double(Ranges *s, DynRegionInstr *in, Range *a, bool always) {
    Range out = {.known = false};
    bool known = a->known && a->base == DYN_NONE;
    switch (in->op) {
    case DYN_RO_I2DX:
    case DYN_RO_I2D:
        out = to_double(s, a);
        if (known) {
            replace(s, in, DYN_RO_I2D);
        }
        break;
    case DYN_RO_SQRT:
        if (always && known) {
            out = root(s, *a);
            replace(s, in, DYN_RO_ROOT);
        }
        break;
    case DYN_RO_D2I:
        out = to_int(s, *a);
        if (known) {
            replace(s, in, DYN_RO_D2IW);
        }
        break;
    default: break;
    }
    out.loose = a->loose;
    return out;
}

static void follow(Ranges *s, DynRegionInstr *in, Range *regs, bool always) {
    Range unknown = {.known = false}, out = unknown;
    Range *a = in->arg[0] != DYN_NONE ? &regs[in->arg[0]] : &unknown, *b = in->arg[1] != DYN_NONE ? &regs[in->arg[1]] : &unknown;
    bool room = s->code < MOST_CODE;
    int64_t low, high;
    if (in->op == DYN_RO_DDIV && always && room) {
        divide(s, in);
    } else if (in->dst != DYN_NONE && (s->wanted[in->dst] || is_check(in->op)) && room) {
        if (dyn_region_bounds(in->op, &low, &high)) {
            out = constants(s, low, high);
            out.loose = true;
        } else {
            bool doubles = in->op == DYN_RO_SQRT || in->op == DYN_RO_D2I || in->op == DYN_RO_I2D || in->op == DYN_RO_I2DX;
            out = doubles ? of_double(s, in, a, always) : of_int(s, in, a, b, always);
        }
    }
    if (in->dst != DYN_NONE) {
        regs[in->dst] = out;
    }
}

/* Whatever a trip assigns to the register lies between 0 and a number: the largest of those. `moves`: so many registers were
 * followed to this one. */
static bool find_bound(const Ranges *s, uint32_t reg, uint32_t moves, int64_t *most) {
    bool found = false;
    for (uint32_t k = 0; k < s->q->n; k++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[k]];
        for (uint32_t m = 0; m < b->v.n; m++) {
            const DynRegionInstr *in = &b->v.at[m];
            int64_t i = -1;
            if (in->dst != reg) {
                continue;
            }
            bool moved = in->op == DYN_RO_IMOV && moves < MOST_MOVES && find_bound(s, in->arg[0], moves + 1, most);
            bool cut = in->op == DYN_RO_IAND && find_mask(s, in, &i);
            bool rest = in->op == DYN_RO_IMOD && find_constant(s, in->arg[1], &i) && i > 0;
            if (!moved && !cut && !rest) {
                return false;
            }
            *most = i > *most ? i : *most;
            found = true;
        }
    }
    return found;
}

/* Of what each trip cuts off: in the first one it isn't larger either, or the loop with checks runs. */
static void begin_cut(Ranges *s, uint32_t reg) {
    int64_t most = 0;
    bool may_be =
        s->assigned[reg] && s->wanted[reg] && s->r->regs.at[reg] == 'I' && dyn_region_is_live(&s->live, s->q->head, reg);
    if (may_be && find_bound(s, reg, 0, &most)) {
        s->adds[reg] = 0;
        s->at[reg] = constants(s, 0, most);
        s->at[reg].loose = true;
        demand(s, add2(s, DYN_RO_ILE, s->at[reg].low, reg));
        demand(s, add2(s, DYN_RO_ILE, reg, s->at[reg].high));
    }
}

/* Whether all that trips assign to the register is the counter, or another such register; `from` gets those, itself too. */
static bool find_sources(const Ranges *s, uint32_t reg, uint32_t *from, uint32_t *n) {
    for (uint32_t i = 0; i < *n; i++) {
        if (from[i] == reg) {
            return true;
        }
    }
    if (*n == MOST_MOVES || s->r->regs.at[reg] != 'I' || !s->assigned[reg]) {
        return false;
    }
    from[(*n)++] = reg;
    for (uint32_t k = 0; k < s->q->n; k++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[k]];
        bool counted = s->counted[k]; /* By then the counter is the next trip's. */
        for (uint32_t m = 0; m < b->v.n; m++) {
            const DynRegionInstr *in = &b->v.at[m];
            counted = counted || in->dst == s->q->next;
            bool counter = in->op == DYN_RO_IMOV && in->arg[0] == s->q->next && !counted;
            if (in->dst == reg && !counter && (in->op != DYN_RO_IMOV || !find_sources(s, in->arg[0], from, n))) {
                return false;
            }
        }
    }
    return true;
}

/* A place that the loop keeps (`if a[j] < a[m]: m = j`) lies where it did at first, or where the counter does. */
static void begin_kept(Ranges *s, uint32_t reg, Range next) {
    uint32_t from[MOST_MOVES], n = 0;
    bool live = s->assigned[reg] && s->wanted[reg] && dyn_region_is_live(&s->live, s->q->head, reg);
    if (reg == s->q->next || !live || !find_sources(s, reg, from, &n)) {
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        Range first = {true, false, 64, DYN_NONE, from[i], from[i]};
        if (dyn_region_is_live(&s->live, s->q->head, from[i])) {
            next = join(s, next, first);
        }
    }
    s->adds[reg] = 0;
    s->at[reg] = next;
}

static void begin_trip(Ranges *s) {
    const DynRegionQuick *q = s->q;
    for (uint32_t i = 0; i < s->nregs; i++) {
        s->at[i] = (Range){s->r->regs.at[i] == 'I' && !s->assigned[i], false, 64, DYN_NONE, i, i};
        if (s->adds[i]) {
            s->at[i] = constants(s, 0, 0);
            s->at[i].base = i;
        }
        begin_cut(s, i);
    }
    uint32_t trips = add2(s, DYN_RO_ISUBW, q->left, number(s, 1));
    s->at[q->left] = (Range){true, false, 64, DYN_NONE, number(s, 1), q->left};
    if (q->next != DYN_NONE) { /* it is no number near overflow, and there are fewer than 2 to the 40 trips: hoist.c asks */
        Range next = {true, false, 64, DYN_NONE, q->next, q->next};
        tighten(s, &next, NEAR);
        uint32_t last = add2(s, DYN_RO_IADDW, q->next, add2(s, DYN_RO_IMULW, trips, number(s, q->step)));
        s->at[q->next] = (Range){true, false, BITS, DYN_NONE, q->step > 0 ? q->next : last, q->step > 0 ? last : q->next};
        for (uint32_t i = 0; i < s->nregs; i++) {
            begin_kept(s, i, s->at[q->next]);
        }
    }
}

/* What all trips add is far from overflow, if they add as much as that. */
static void demand_sum(Ranges *s, uint32_t more) {
    uint32_t most = add(s, DYN_RO_DCONST, DYN_NONE, DYN_NONE, DYN_NONE, (DynScalar){.f = 0x1p60});
    uint32_t all = add2(s, DYN_RO_DMUL, add2(s, DYN_RO_I2D, more, DYN_NONE), add2(s, DYN_RO_I2D, s->q->left, DYN_NONE));
    demand(s, add2(s, DYN_RO_DLT, add2(s, DYN_RO_DABS, all, DYN_NONE), most));
}

static void end_trip(Ranges *s, const Range *regs) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool adds = regs[i].known && regs[i].base == i;
        if (s->adds[i] && !adds) {
            s->failed = !s->trial; /* can't be: it was tried */
            s->adds[i] = 0;
            s->found = true; /* one more trial */
        }
        if (s->adds[i]) {
            Range before = {true, false, 64, DYN_NONE, i, i};
            tighten(s, &before, NEAR);
            demand_sum(s, regs[i].low);
            demand_sum(s, regs[i].high);
        }
    }
}

static void merge(Ranges *s, uint32_t to, const Range *regs) {
    Range *at = s->at + (size_t)to * s->nregs;
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool same = memcmp(&at[i], &regs[i], sizeof *at) == 0;
        at[i] = !s->seen[to] || same ? regs[i] : s->r->regs.at[i] == 'I' ? join(s, at[i], regs[i]) : (Range){.known = false};
    }
    s->seen[to] = 1;
}

static void follow_trip(Ranges *s) {
    Range *regs = s->at + (size_t)s->q->n * s->nregs;
    memset(s->seen, 0, s->q->n);
    s->found = false;
    s->code = 0;
    begin_trip(s);
    for (uint32_t i = 0; i < s->q->n && !s->failed; i++) {
        DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
        uint32_t to[2], ways = dyn_region_ways(b, to);
        memcpy(regs, s->at + (size_t)i * s->nregs, s->nregs * sizeof(Range));
        for (uint32_t k = 0; k < b->v.n; k++) {
            follow(s, &b->v.at[k], regs, s->always[i] != 0);
        }
        for (uint32_t w = 0; w < ways; w++) {
            for (uint32_t place = 0; place < s->q->n; place++) {
                if (s->q->blocks[place] == to[w] && place == 0) {
                    end_trip(s, regs);
                } else if (s->q->blocks[place] == to[w]) {
                    merge(s, place, regs);
                }
            }
        }
    }
}

/* Backwards from the checks, without a look at the order; false: there are none, and nothing that divides. */
static bool find_wanted(Ranges *s) {
    bool again = true, any = false;
    while (again) {
        again = false;
        for (uint32_t i = s->q->n; i-- > 0;) {
            const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
            for (uint32_t k = b->v.n; k-- > 0;) {
                const DynRegionInstr *in = &b->v.at[k];
                bool check = is_check(in->op), wanted = check || (in->dst != DYN_NONE && s->wanted[in->dst]);
                any = any || check || in->op == DYN_RO_DDIV;
                for (int a = 0; wanted && a < 3 && dyn_region_ops[in->op].args[a] != 'N'; a++) {
                    again = again || !s->wanted[in->arg[a]];
                    s->wanted[in->arg[a]] = 1;
                }
            }
        }
    }
    return any;
}

/* Is the head come to again without coming to that block? */
static bool is_avoided(Ranges *s, uint32_t without) {
    memset(s->seen, 0, s->q->n);
    s->seen[0] = 1;
    for (uint32_t i = 0; i < s->q->n; i++) {
        uint32_t to[2], ways = s->seen[i] && i != without ? dyn_region_ways(&s->r->blocks.at[s->q->blocks[i]], to) : 0;
        for (uint32_t w = 0; w < ways; w++) {
            uint32_t place = 0;
            while (place < s->q->n && s->q->blocks[place] != to[w]) {
                place++;
            }
            if (place == 0) {
                return true;
            }
            if (place < s->q->n) {
                s->seen[place] = 1;
            }
        }
    }
    return false;
}

/* Where a trip counts twice, it has done so at its beginning for all that is asked. */
static void find_counted(Ranges *s) {
    bool twice = false;
    for (uint32_t i = 0; i < s->q->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
        bool counted = s->counted[i];
        for (uint32_t k = 0; k < b->v.n; k++) {
            bool counts = b->v.at[k].dst != DYN_NONE && b->v.at[k].dst == s->q->next;
            twice = twice || (counts && counted);
            counted = counted || counts;
        }
        uint32_t to[2], ways = dyn_region_ways(b, to);
        for (uint32_t w = 0; w < ways; w++) {
            for (uint32_t place = 1; place < s->q->n; place++) {
                s->counted[place] |= s->q->blocks[place] == to[w] && counted;
            }
        }
    }
    memset(s->counted, 1, twice ? s->q->n : 0);
}

static void find_assigned(Ranges *s) {
    for (uint32_t i = 0; i < s->q->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            if (b->v.at[k].dst != DYN_NONE) {
                s->assigned[b->v.at[k].dst] = 1;
            }
        }
    }
    for (uint32_t i = 0; i < s->nregs; i++) {
        s->adds[i] = s->assigned[i] && s->r->regs.at[i] == 'I' && i != s->q->next && i != s->q->left;
    }
}

bool dyn_region_ranges(DynRegion *r, DynRegionQuick *q) {
    uint32_t n = r->regs.n;
    Ranges s = {.r = r, .q = q, .nregs = n, .trial = true};
    s.at = PyMem_RawCalloc((size_t)(q->n + 1) * n, sizeof(Range));
    s.seen = PyMem_RawCalloc(3 * (size_t)q->n + 3 * (size_t)n, 1);
    s.failed = s.at == NULL || s.seen == NULL || !dyn_region_find_live(r, &s.live);
    if (!s.failed) {
        s.always = s.seen + q->n;
        s.counted = s.always + q->n;
        s.adds = s.counted + q->n;
        s.assigned = s.adds + n;
        s.wanted = s.assigned + n;
        find_assigned(&s);
        find_counted(&s);
        s.found = find_wanted(&s);
        for (uint32_t i = 0; i < q->n && s.found; i++) {
            s.always[i] = !is_avoided(&s, i);
        }
        bool any = s.found;
        while (s.found) {
            follow_trip(&s);
        }
        s.trial = false;
        if (any) {
            follow_trip(&s);
        }
    }
    PyMem_RawFree(s.live.rows);
    PyMem_RawFree(s.seen);
    PyMem_RawFree(s.at);
    return !s.failed;
}
