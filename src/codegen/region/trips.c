/* trips.c: what loops without checks of indices ask only once in many trips. Called by hoist.c for each copy that it has made.
 *
 * Whether CPython's eval breaker wants something is asked in front of every 1024 trips; where it does, the loop with checks runs,
 * which asks on each trip and can be left there. A loop that calls functions goes on asking on each trip, as nobody knows how
 * long those take. Where what is written in the loop are registers, and arrays in a way that can be undone (stores.c), numbers
 * aren't looked at either for whether NumPy would warn: behind the trips, and on every way out of them, the processor's
 * floating-point flags tell whether any of them could. If so, or if something in a trip can't be done, registers and arrays are
 * as they were in front of those trips again, and the loop with checks does them anew and is left at the right place. The flags
 * aren't asked where all such numbers end up in sums that are finite behind the trips. Flags are cleared only when a region is
 * entered, so a compiler may move arithmetic out of the loop; once they tell of something, and in front of calls that may clear
 * them, that is noted, and the rest of the run goes through loops with checks. Memory is raw and lasts as long as the call. */
#include "codegen/region/region_code.h"
#include "ir/region_flags.h"

enum { TRIPS = 1024, LEAST = 16 }; /* fewer trips than LEAST take less time than saving, and asking about flags */
enum { LEAST_ADDED = 8 };          /* … or than the checks in front, where flags aren't asked */

typedef struct Trips {
    DynRegion *r;
    DynRegionQuick *q;
    const DynRegionElement *e; /* Of an array, which is held in a register; or NULL. */
    uint32_t begin, other;     /* Where the trips begin, and where they do instead: without the element, or with it. */
    uint8_t *carried;          /* For each register: the loop assigns it, and the loop with checks needs it at its head. */
    uint8_t *assigned;         /* For each register: the loop assigns it. */
    uint8_t *told;             /* For each register: what isn't finite makes it so, too, behind the trips. */
    DynRegionLive live;        /* No rows: not found yet. */
    uint32_t nstores;          /* So many instructions of the loop store in arrays. */
    bool asks;                 /* Some number is doubtful, or something may fail. */
    bool doubts;               /* Some number is doubtful: flags are asked. */
    bool telling;              /* All doubtful numbers make some register that is `told` one that isn't finite. */
    uint32_t nregs;            /* So many registers there were. */
    uint32_t first;            /* The block by which all of this is entered. */
    bool failed;
} Trips;

static uint32_t add(Trips *t, uint32_t block, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm) {
    return dyn_region_add(t->r, block, op, a, b, imm, &t->failed);
}

static void add_move(Trips *t, uint32_t block, uint32_t to, uint32_t from) {
    char type = t->r->regs.at[from];
    DynRegionOp op = type == 'D' ? DYN_RO_DMOV : type == 'S' ? DYN_RO_SMOV : type == 'P' ? DYN_RO_PMOV : DYN_RO_IMOV;
    DynRegionInstr in = dyn_region_instr(op, from, DYN_NONE, DYN_NONE, 0);
    in.dst = to;
    t->failed = dyn_vec_push(&t->r->blocks.at[block].v, in) < 0 || t->failed;
}

static void add_end(Trips *t, uint32_t block, uint32_t condition, uint32_t yes, uint32_t no) {
    dyn_region_add_end(t->r, block, condition, yes, no, &t->failed);
}

static uint32_t add_block(Trips *t) { return dyn_region_add_block(t->r, t->r->blocks.at[t->q->head].at, &t->failed); }

/* The block's place in the loop, the head's is 0; DYN_NONE: it isn't in it. */
static uint32_t place_of(const Trips *t, uint32_t block) {
    for (uint32_t i = 0; i < t->q->n; i++) {
        if (t->q->blocks[i] == block) {
            return i;
        }
    }
    return DYN_NONE;
}

static bool is_doubt(uint16_t op) {
    return op == DYN_RO_DFINITE || op == DYN_RO_SFINITE || op == DYN_RO_DWARN || op == DYN_RO_SWARN;
}

/* The number that may be one of which NumPy warns, or whose root Python refuses; or DYN_NONE. */
static uint32_t doubted(const DynRegionInstr *in) {
    bool root = in->op == DYN_RO_SQRT || in->op == DYN_RO_SSQRT;
    return is_doubt(in->op) ? in->arg[0] : root ? in->dst : DYN_NONE;
}

static void join(uint8_t *to, const uint8_t *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        to[i] |= from[i];
    }
}

/* `carried`: all that is needed at the head of the loop with checks, and assigned in the one without. */
static void find_carried(Trips *t) {
    for (uint32_t i = 0; i < t->q->n; i++) {
        const DynRegionBlock *b = &t->r->blocks.at[t->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            uint32_t dst = b->v.at[k].dst;
            if (dst != DYN_NONE) {
                t->assigned[dst] = 1;
                t->carried[dst] = dyn_region_is_live(&t->live, t->q->slow, dst) || (t->e != NULL && dst == t->e->reg);
            }
        }
    }
}

/* ---- can warnings be asked about behind the trips? */

/* Does what isn't finite, in operand `a`, make the result so? */
static bool passes_on(uint16_t op, int a) {
    switch (op) {
    case DYN_RO_DMOV:
    case DYN_RO_SMOV:
    case DYN_RO_DADD:
    case DYN_RO_DSUB:
    case DYN_RO_DMUL:
    case DYN_RO_DNEG:
    case DYN_RO_DABS:
    case DYN_RO_DPOWN:
    case DYN_RO_SADD:
    case DYN_RO_SSUB:
    case DYN_RO_SMUL:
    case DYN_RO_SNEG:
    case DYN_RO_SABS:
    case DYN_RO_S2D:
    case DYN_RO_D2S:
    case DYN_RO_SQRT:
    case DYN_RO_SSQRT:
    case DYN_RO_ROOT: return true;
    case DYN_RO_CDIV:
    case DYN_RO_DDIV:
    case DYN_RO_SDIV: return a == 0;
    default: return false;
    }
}

/* Of a register, going back through a trip: what is in it counts, or tells; and it is doubted, later on. */
enum { COUNTS = 1, DOUBTED = 2 };

/* Do the operands of an instruction count? */
static bool counts_too(const Trips *t, const DynRegionInstr *in, bool counts) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    bool stored = t->nstores == 1 && dyn_region_stored(in->op) > 0 && in->imm.i == 0;
    return !is_doubt(in->op) && (counts || op->flow || op->fails || stored);
}

/* `now` has what is at the block's end, and then at its beginning. Does each number that is doubted count, or tell? */
static bool go_back(const Trips *t, uint32_t block, uint8_t *now, bool telling) {
    const DynRegionBlock *b = &t->r->blocks.at[block];
    bool all = true;
    for (uint32_t k = b->v.n; k-- > 0;) {
        const DynRegionInstr *in = &b->v.at[k];
        bool counts = in->dst != DYN_NONE && (now[in->dst] & COUNTS) != 0;
        uint32_t doubt = doubted(in);
        if (doubt != DYN_NONE) {
            now[doubt] |= DOUBTED;
        }
        if (in->dst != DYN_NONE) {
            all = all && now[in->dst] != DOUBTED;
            now[in->dst] = 0;
        }
        for (int a = 0; a < 3 && dyn_region_ops[in->op].args[a] != 'N'; a++) {
            bool too = telling ? counts && passes_on(in->op, a) : counts_too(t, in, counts);
            now[in->arg[a]] |= too ? COUNTS : 0;
        }
    }
    return all;
}

/* A number counts if a later trip, a branch, a check or the only store of the loop depends on it: whatever a compiler could
 * compute behind the loop for the last trip alone, or leave out because something else is stored there later, doesn't. All that
 * is there at the head counts at first, until nothing more turns out not to. */
static bool all_doubts_count(const Trips *t) {
    uint32_t n = t->nregs, nblocks = t->q->n;
    uint8_t *rows = PyMem_RawCalloc(nblocks + 1, n), *back = rows == NULL ? NULL : rows + (size_t)nblocks * n;
    bool all = false, again = rows != NULL;
    if (again) {
        memset(back, COUNTS, n);
    }
    while (again) {
        all = true;
        for (uint32_t i = nblocks; i-- > 0;) {
            uint8_t *now = rows + (size_t)i * n;
            uint32_t to[2], ways = dyn_region_ways(&t->r->blocks.at[t->q->blocks[i]], to);
            memset(now, 0, n);
            for (uint32_t w = 0; w < ways; w++) {
                uint32_t place = place_of(t, to[w]);
                join(now, place == DYN_NONE ? now : place == 0 ? back : rows + (size_t)place * n, n);
            }
            all = go_back(t, t->q->blocks[i], now, false) && all;
        }
        again = memcmp(rows, back, n) != 0;
        memcpy(back, rows, n);
    }
    PyMem_RawFree(rows);
    return all;
}

static void meet(uint8_t *to, const uint8_t *from, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        to[i] = (uint8_t)((to[i] & from[i] & COUNTS) | ((to[i] | from[i]) & DOUBTED));
    }
}

/* `told`: of the registers that a trip changes those that stay nan or infinite from one trip to the next, once they are. Numbers
 * that aren't finite have to end up in one of them on every way through a trip; loops that are left in the middle ask the flags
 * there. */
static void find_telling(Trips *t) {
    uint32_t n = t->nregs, nblocks = t->q->n;
    uint8_t *rows = PyMem_RawMalloc((size_t)(nblocks + 2) * n), *head = rows == NULL ? NULL : rows + (size_t)nblocks * n;
    bool again = rows != NULL;
    for (uint32_t i = 0; i < n && again; i++) {
        head[i] = t->carried[i] && (t->r->regs.at[i] == 'D' || t->r->regs.at[i] == 'S') ? COUNTS : 0;
    }
    while (again) {
        t->telling = true;
        for (uint32_t i = nblocks; i-- > 0;) {
            uint8_t *now = rows + (size_t)i * n;
            uint32_t to[2], ways = dyn_region_ways(&t->r->blocks.at[t->q->blocks[i]], to);
            memset(now, COUNTS, n);
            for (uint32_t w = 0; w < ways; w++) {
                uint32_t place = place_of(t, to[w]);
                if (place != DYN_NONE) {
                    meet(now, place == 0 ? head : rows + (size_t)place * n, n);
                }
            }
            t->telling = go_back(t, t->q->blocks[i], now, true) && t->telling;
        }
        memcpy(head + n, head, n);
        meet(head, rows, n);
        again = memcmp(head + n, head, n) != 0;
    }
    for (uint32_t i = 0; i < n && rows != NULL; i++) {
        t->told[i] = (head[i] & COUNTS) != 0;
    }
    PyMem_RawFree(rows);
}

/* Nothing is written in the loop but registers, and arrays by as few stores as can be undone. */
static bool is_repeatable(Trips *t) {
    t->nstores = 0;
    t->asks = t->doubts = false;
    for (uint32_t i = 0; i < t->q->n; i++) {
        const DynRegionBlock *b = &t->r->blocks.at[t->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            const DynRegionInstr *in = &b->v.at[k];
            bool known = in->op < DYN_RO_PURE || in->op == DYN_RO_JMP || in->op == DYN_RO_BR || in->op == DYN_RO_LEAVE ||
                         in->op == DYN_RO_POLL || in->op == DYN_RO_CDIV || in->op == DYN_RO_ROOT || dyn_region_stored(in->op) > 0;
            if (!known) {
                return false;
            }
            t->nstores += dyn_region_stored(in->op) > 0;
            t->doubts = t->doubts || doubted(in) != DYN_NONE;
            t->asks = t->asks || t->doubts || (dyn_region_ops[in->op].fails && in->op != DYN_RO_POLL);
        }
    }
    return t->nstores <= DYN_REGION_STORES;
}

/* ---- the loop's blocks */

/* What may fail goes to `again` in place of an exit, and nothing is doubtful. */
static void make_repeatable(DynRegionInstr *in, uint32_t again) {
    const DynRegionOpInfo *op = &dyn_region_ops[in->op];
    switch (in->op) {
    case DYN_RO_DFINITE:
    case DYN_RO_SFINITE:
        in->op = DYN_RO_ICONST;
        in->arg[0] = DYN_NONE;
        in->imm.i = 1;
        break;
    case DYN_RO_SQRT: in->op = DYN_RO_ROOT; break;
    case DYN_RO_SSQRT: in->op = DYN_RO_SROOT; break;
    case DYN_RO_LEAVE:
        in->op = DYN_RO_JMP;
        in->to[0] = again;
        break;
    default: in->to[0] = op->fails ? again : in->to[0];
    }
    if (!dyn_region_ops[in->op].fails || in->to[0] == again) {
        in->exit = DYN_NONE;
    }
}

/* Does a trip call anything? */
static bool calls(const Trips *t) {
    for (uint32_t i = 0; i < t->q->n; i++) {
        const DynRegionBlock *b = &t->r->blocks.at[t->q->blocks[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            if (dyn_region_calls_out((DynRegionOp)b->v.at[k].op)) {
                return true;
            }
        }
    }
    return false;
}

static void rewrite(Trips *t, uint32_t again, bool polls) {
    for (uint32_t i = 0; i < t->q->n; i++) {
        DynRegionBlock *b = &t->r->blocks.at[t->q->blocks[i]];
        uint32_t n = 0;
        for (uint32_t k = 0; k < b->v.n; k++) {
            DynRegionInstr in = b->v.at[k];
            bool doubt = in.op == DYN_RO_DWARN || in.op == DYN_RO_SWARN;
            if ((polls || in.op != DYN_RO_POLL) && !(again != DYN_NONE && doubt)) {
                if (again != DYN_NONE) {
                    make_repeatable(&in, again);
                }
                b->v.at[n++] = in;
            }
        }
        b->v.n = n;
    }
}

/* The head ends the loop where `left` has come to `until`; `done` goes on. */
static void end_at(Trips *t, uint32_t until, uint32_t done) {
    DynRegionBlock *head = &t->r->blocks.at[t->q->head];
    uint32_t body = head->v.at[head->v.n - 1].to[0];
    head->v.n = 0;
    add_end(t, t->q->head, add(t, t->q->head, DYN_RO_INE, t->q->left, until, 0), body, done);
}

/* The registers as they are in front of the trips, and how they become so again. */
static void save(Trips *t, uint32_t begin, uint32_t again) {
    add(t, again, DYN_RO_AGAIN, DYN_NONE, DYN_NONE, 0);
    for (uint32_t i = 0; i < t->nregs && !t->failed; i++) {
        if (t->carried[i]) {
            uint32_t kept = dyn_region_reg(t->r, t->r->regs.at[i]);
            t->failed = kept == DYN_NONE;
            if (!t->failed) {
                add_move(t, begin, kept, i);
                add_move(t, again, i, kept);
            }
        }
    }
    add_end(t, again, DYN_NONE, t->q->slow, DYN_NONE);
}

/* Is the register needed where the block goes, or, of a block that doesn't end yet, at the head of the loop with checks? */
static bool is_needed_behind(const Trips *t, const uint32_t *to, uint32_t reg) {
    if (t->e != NULL && reg == t->e->reg) {
        return true;
    }
    return to == NULL ? t->carried[reg] : dyn_region_is_live(&t->live, to[0], reg) || dyn_region_is_live(&t->live, to[1], reg);
}

/* The element is loaded or stored. */
static void move_element(Trips *t, uint32_t block, bool store) {
    const DynRegionElement *e = t->e;
    if (e != NULL) {
        DynRegionOp op = (DynRegionOp)(store ? e->store : e->load);
        DynRegionInstr in = dyn_region_instr(op, e->place, e->zero, store ? e->reg : DYN_NONE, 0);
        in.dst = store ? DYN_NONE : e->reg;
        t->failed = dyn_vec_push(&t->r->blocks.at[block].v, in) < 0 || t->failed;
    }
}

/* Nothing that is needed behind the question is computed there. `to`: where it goes; NULL: to the head. */
static uint32_t add_question(Trips *t, uint32_t block, const uint32_t *to) {
    for (uint32_t i = 0; i < t->nregs && !t->failed; i++) {
        char type = t->r->regs.at[i];
        if (t->assigned[i] && is_needed_behind(t, to, i) && type != 'P') {
            DynRegionOp op = type == 'D' ? DYN_RO_DUSED : type == 'S' ? DYN_RO_SUSED : DYN_RO_IUSED;
            add(t, block, op, i, DYN_NONE, 0);
        }
    }
    t->r->asks_flags = true;
    return add(t, block, DYN_RO_TROUBLE, DYN_NONE, DYN_NONE, 0);
}

/* Where a trip leaves the loop, what is made of it so far is asked about first, be it needed there or in the rest of the trip. */
static void ask_outside(Trips *t, uint32_t again) {
    for (uint32_t i = 0; i < t->q->n && !t->failed; i++) {
        uint32_t block = t->q->blocks[i], to[2], ways = dyn_region_ways(&t->r->blocks.at[block], to);
        for (uint32_t w = 0; block != t->q->head && ways == 2 && w < 2 && !t->failed; w++) {
            if (place_of(t, to[w]) == DYN_NONE) {
                uint32_t asks = add_block(t), out = t->e == NULL ? to[w] : add_block(t);
                add_end(t, asks, add_question(t, asks, to), again, out);
                if (t->e != NULL) {
                    move_element(t, out, true);
                    add_end(t, out, DYN_NONE, to[w], DYN_NONE);
                }
                DynRegionBlock *b = &t->r->blocks.at[block];
                b->v.at[b->v.n - 1].to[w] = asks;
            }
        }
    }
}

/* Where registers and arrays become again what they are in front of the trips; DYN_NONE: the trips can't be done again. */
static uint32_t make_again(Trips *t, uint32_t begin, uint32_t until, bool polls) {
    if (polls || !is_repeatable(t) || !t->asks || !all_doubts_count(t) || !dyn_region_find_live(t->r, &t->live)) {
        return DYN_NONE;
    }
    uint32_t again = add_block(t);
    if (t->failed || (t->nstores > 0 && !dyn_region_save_stores(t->r, t->q, begin, again, until))) {
        add_end(t, again, DYN_NONE, t->q->slow, DYN_NONE);
        return DYN_NONE;
    }
    find_carried(t);
    if (!all_doubts_count(t)) { /* by now it is known which stores write to one place */
        add_end(t, again, DYN_NONE, t->q->slow, DYN_NONE);
        return DYN_NONE;
    }
    find_telling(t);
    return again;
}

/* Are all registers that tell finite? */
static uint32_t add_finite(Trips *t, uint32_t block) {
    uint32_t all = DYN_NONE;
    for (uint32_t i = 0; i < t->nregs && !t->failed; i++) {
        if (t->told[i]) {
            uint32_t one = add(t, block, t->r->regs.at[i] == 'D' ? DYN_RO_DFINITE : DYN_RO_SFINITE, i, DYN_NONE, 0);
            all = all == DYN_NONE ? one : add(t, block, DYN_RO_IAND, all, one, 0);
        }
    }
    return all == DYN_NONE ? add(t, block, DYN_RO_ICONST, DYN_NONE, DYN_NONE, 1) : all;
}

/* Behind the trips: `next` goes on, or `again` does them once more. */
static void ask_behind(Trips *t, uint32_t done, uint32_t next, uint32_t again) {
    uint32_t asks = done;
    if (t->telling) {
        asks = add_block(t);
        add_end(t, done, add_finite(t, done), next, asks);
    }
    add_end(t, asks, add_question(t, asks, NULL), again, next);
}

/* Loops of fewer trips aren't worth being asked about flags; DYN_NONE: any is. */
static uint32_t add_enough(Trips *t, uint32_t block) {
    if (t->q->short_loop && t->telling) {
        return DYN_NONE;
    }
    uint32_t few = add(t, block, DYN_RO_ICONST, DYN_NONE, DYN_NONE, (t->telling ? LEAST_ADDED : LEAST) - 1);
    return add(t, block, DYN_RO_ILT, few, t->q->left, 0);
}

/* The block in front chooses: the trips that ask less, or the loop with checks, to which a loop of a few trips goes at once. */
static void choose(Trips *t, bool again) {
    const DynRegionQuick *q = t->q;
    uint32_t begin = t->other;
    if (q->short_loop && !again && !q->demands) {
        add_end(t, q->front, DYN_NONE, begin, DYN_NONE);
    } else {
        add_end(t, q->front, q->all, begin, q->slow);
    }
    t->first = q->front;
    if (again && !(q->short_loop && t->telling)) { /* a loop of a few trips isn't asked about anything */
        uint32_t first = add_block(t);
        add_end(t, first, add_enough(t, first), q->front, q->slow);
        t->first = first;
    }
}

/* Where the element can't be held, or too few trips are left, they are made without. */
static void choose_held(Trips *t) {
    uint32_t enough = add_enough(t, t->q->front), all = t->q->all;
    all = enough == DYN_NONE ? all : add(t, t->q->front, DYN_RO_IAND, all, enough, 0);
    add_end(t, t->q->front, all, t->begin, t->other);
    t->first = t->q->front;
}

/* Trips that can't be done again would have to store the element at each exit, so there are none that hold it. */
static void drop_held(Trips *t) {
    for (uint32_t i = 0; i < t->q->n; i++) {
        t->r->blocks.at[t->q->blocks[i]].v.n = 0;
    }
    t->r->blocks.at[t->begin].v.n = t->r->blocks.at[t->q->front].v.n = 0;
    t->first = t->other;
}

/* `front`: where the loop goes on behind the trips. */
static void make_trips(Trips *t, uint32_t front) {
    DynRegionQuick *q = t->q;
    bool polls = calls(t);
    uint32_t begin = t->begin, done = add_block(t), next = done;
    uint32_t most = add(t, begin, DYN_RO_ICONST, DYN_NONE, DYN_NONE, q->short_loop ? 0 : TRIPS), until = most;
    if (!q->short_loop) {
        uint32_t rest = add(t, begin, DYN_RO_ISUBW, q->left, most, 0);
        until = add(t, begin, DYN_RO_IMAX0, rest, DYN_NONE, 0);
    }
    q->until = until;
    move_element(t, begin, false);
    uint32_t again = make_again(t, begin, until, polls);
    if (t->failed || (again == DYN_NONE && t->e != NULL)) {
        drop_held(t);
        return;
    }
    if (again != DYN_NONE && t->nstores > 0 && !q->short_loop) { /* there is room for fewer */
        t->r->blocks.at[begin].v.at[0].imm.i = DYN_REGION_SAVED;
    }
    if (again != DYN_NONE && (t->doubts || t->e != NULL)) {
        ask_outside(t, again);
    }
    rewrite(t, again, polls);
    end_at(t, until, done);
    if (again != DYN_NONE) {
        save(t, begin, again);
        t->r->asks_flags = true; /* the run begins without such trips behind it */
    }
    if (again != DYN_NONE && t->doubts) {
        next = add_block(t);
        ask_behind(t, done, next, again);
    }
    move_element(t, next, true);
    add_end(t, begin, DYN_NONE, q->head, DYN_NONE);
    if (q->short_loop) {
        add_end(t, next, DYN_NONE, q->after, DYN_NONE);
    } else {
        add_end(t, next, q->left, front, q->after);
    }
    if (t->e != NULL) {
        choose_held(t);
    } else {
        choose(t, again != DYN_NONE);
    }
}

/* The loop's trips, which begin at `begin`, and go on at `front`; `other` is where the block in front goes instead. */
static uint32_t trips_of(DynRegion *r, DynRegionQuick *q, const DynRegionElement *e, uint32_t begin, uint32_t other,
                         uint32_t front) {
    uint32_t n = r->regs.n;
    uint8_t *rows = PyMem_RawCalloc(3, n);
    if (rows == NULL) {
        return DYN_NONE;
    }
    Trips t = {.r = r, .q = q, .e = e, .begin = begin, .other = other};
    t.carried = rows;
    t.assigned = rows + n;
    t.told = rows + 2 * (size_t)n;
    t.nregs = n;
    make_trips(&t, front);
    PyMem_RawFree(t.live.rows);
    PyMem_RawFree(rows);
    return t.failed ? DYN_NONE : t.first;
}

uint32_t dyn_region_trips(DynRegion *r, DynRegionQuick *q) {
    bool failed = false;
    DynRegionElement e = {.reg = DYN_NONE};
    uint32_t begin = dyn_region_add_block(r, r->blocks.at[q->head].at, &failed), chosen = begin, first = DYN_NONE;
    failed = failed || !dyn_region_hold_element(r, q, &e);
    if (!failed && e.reg != DYN_NONE) {
        uint32_t held = dyn_region_add_block(r, r->blocks.at[q->head].at, &failed);
        chosen = failed ? DYN_NONE : trips_of(r, &e.q, &e, held, begin, q->front);
    }
    if (!failed && chosen != DYN_NONE) {
        first = trips_of(r, q, NULL, begin, chosen, q->front);
    }
    PyMem_RawFree(e.blocks);
    return first;
}
