/* unroll.c: a pass over region IR that makes loops of a few trips straight code. Called by run.c before hoist.c.
 *
 * Where a jump comes to the head of a loop, and a constant is in the register that counts its trips down, or up to the size of a
 * tuple that the region takes for granted, the jump goes to a copy instead: all blocks in which that register is needed are
 * copied once for each number that may be in it, be they one loop or several versions of it. What is known of ints on the way is
 * folded, branches and items of such tuples too, so the copy has no way back, the loop around it becomes an innermost one, which
 * hoist.c then looks at, and a compiler sees which elements each trip takes. Exits stay what they are, since a copy works on the
 * same registers. Loops within others come first. Memory is raw and lasts as long as the call; where it is out, or a loop is too
 * long, it stays a loop. */
#include "codegen/region/region_code.h"

enum { MOST_TRIPS = 8, MOST_COPIES = 160, MOST_INSTRUCTIONS = 480, MOST_ADDED = 500, MOST_BLOCKS = 600, MOST_REGISTERS = 2000 };
enum { ROOM = MOST_BLOCKS + MOST_COPIES };

/* What is known of an int at some place; or that a register has a part of a tuple. */
typedef struct Known {
    bool known;
    uint32_t part; /* Its number, from 1 on; 0: it is an int. */
    int64_t i;
} Known;

/* A block as it is while that many trips are left. */
typedef struct Copy {
    uint32_t block, to; /* `to`: the new block. */
    int64_t trips;
    Known *at; /* For each register, at its beginning. */
} Copy;

typedef struct Unrolled {
    DynRegion *r;
    uint32_t nregs, left;
    uint8_t *counts;  /* For each register: it tells how many trips are left, or were. */
    uint8_t *needed;  /* For each block: one of those is needed at its beginning. */
    uint8_t *refused; /* For each block: a head whose loop stays. */
    Known *regs;      /* While a block is followed, */
    Known *alone;     /* and what is known at its end whatever was before. */
    Copy copies[MOST_COPIES];
    uint32_t n, instructions, added;
    bool failed;
} Unrolled;

/* ---- what is known of ints */

static bool compute_int(const DynRegionInstr *in, int64_t a, int64_t b, int64_t *d) {
    switch (in->op) {
    case DYN_RO_ICONST: *d = in->imm.i; return true;
    case DYN_RO_IMOV: *d = a; return true;
    case DYN_RO_IADD:
    case DYN_RO_IADDW: return !__builtin_add_overflow(a, b, d);
    case DYN_RO_ISUB:
    case DYN_RO_ISUBW: return !__builtin_sub_overflow(a, b, d);
    case DYN_RO_IMUL:
    case DYN_RO_IMULW: return !__builtin_mul_overflow(a, b, d);
    case DYN_RO_IAND: *d = a & b; return true;
    case DYN_RO_IMAX0: *d = a < 0 ? 0 : a; return true;
    case DYN_RO_ILT: *d = a < b; return true;
    case DYN_RO_ILE: *d = a <= b; return true;
    case DYN_RO_IEQ: *d = a == b; return true;
    case DYN_RO_INE: *d = a != b; return true;
    case DYN_RO_NOT: *d = !a; return true;
    case DYN_RO_IDX: *d = a < 0 && b >= 0 ? a + b : a; return *d >= 0 && *d < b;
    default: return false;
    }
}

/* a has a part of a tuple. */
static bool compute_part(const Unrolled *u, const DynRegionInstr *in, Known a, Known b, Known *d) {
    const DynRegionPart *part = &u->r->parts.at[a.part - 1];
    bool tuple = part->kind == DYN_PART_TUPLE;
    switch (in->op) {
    case DYN_RO_PMOV: *d = a; return true;
    case DYN_RO_ASTUPLE: *d = a; return tuple;
    case DYN_RO_OSIZE: *d = (Known){true, 0, part->n}; return tuple;
    case DYN_RO_ASINT: *d = (Known){true, 0, part->i}; return part->kind == DYN_PART_INT;
    case DYN_RO_TITEM:
        *d = (Known){.known = true};
        d->part = part->first + (uint32_t)b.i + 1;
        return tuple && b.known && b.i >= 0 && b.i < part->n;
    default: return false;
    }
}

/* Gives what the result is known to be, and has it in `regs`. */
static Known follow(const Unrolled *u, const DynRegionInstr *in, Known *regs) {
    Known out = {.known = in->dst != DYN_NONE}, given[2] = {{.known = true}, {.known = true}};
    for (int a = 0; a < 2 && out.known && dyn_region_ops[in->op].args[a] != 'N'; a++) {
        given[a] = regs[in->arg[a]];
        out.known = given[a].known;
    }
    bool part = given[0].part != 0, int_beside = given[1].part == 0;
    out.known = out.known && int_beside &&
                (part ? compute_part(u, in, given[0], given[1], &out) : compute_int(in, given[0].i, given[1].i, &out.i));
    if (in->dst != DYN_NONE) {
        regs[in->dst] = out;
    }
    return out;
}

/* At the beginning of a way of which nothing else is known. */
static void know_tuples(const Unrolled *u, Known *regs) {
    memset(regs, 0, u->nregs * sizeof(Known));
    for (uint32_t i = 0; i < u->r->parts.n; i++) {
        if (u->r->parts.at[i].reg != DYN_NONE) {
            regs[u->r->parts.at[i].reg] = (Known){.known = true, .part = i + 1};
        }
    }
}

/* ---- where the number of trips that are left is needed */

/* `counts`: `left`, and what is moved from it, or made of it by counting. */
static void find_counts(Unrolled *u) {
    memset(u->counts, 0, u->nregs);
    u->counts[u->left] = 1;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < u->r->blocks.n; i++) {
            for (uint32_t k = 0; k < u->r->blocks.at[i].v.n; k++) {
                const DynRegionInstr *in = &u->r->blocks.at[i].v.at[k];
                bool count = in->op == DYN_RO_IMOV || in->op == DYN_RO_IADDW || in->op == DYN_RO_ISUBW;
                count = count && u->counts[in->arg[0]] && !u->counts[in->dst];
                u->counts[in->dst == DYN_NONE ? 0 : in->dst] |= count;
                again = again || count;
            }
        }
    }
}

static void find_needed(Unrolled *u) {
    DynRegionLive live;
    find_counts(u);
    memset(u->needed, 0, u->r->blocks.n);
    u->failed = !dyn_region_find_live(u->r, &live);
    for (uint32_t i = 0; i < u->r->blocks.n && !u->failed; i++) {
        for (uint32_t reg = 0; reg < u->nregs && !u->needed[i]; reg++) {
            u->needed[i] = u->counts[reg] && dyn_region_is_live(&live, i, reg);
        }
    }
    PyMem_RawFree(live.rows);
}

/* ---- the copies */

/* Comes to a block with what is in `regs`: gives its copy, or DYN_NONE where that can't be. `changed`: less is known in it. */
static uint32_t come_to(Unrolled *u, uint32_t block, bool *changed) {
    Known left = u->regs[u->left];
    for (uint32_t i = 0; i < u->n; i++) {
        Copy *c = &u->copies[i];
        if (c->block == block && left.known && c->trips == left.i) {
            for (uint32_t k = 0; k < u->nregs; k++) {
                const Known *has = &c->at[k], *comes = &u->regs[k];
                bool lost = has->known && !(comes->known && comes->i == has->i && comes->part == has->part);
                c->at[k].known = c->at[k].known && !lost;
                *changed = *changed || lost;
            }
            return i;
        }
    }
    u->instructions += u->r->blocks.at[block].v.n;
    Known *at = !left.known || u->n == MOST_COPIES || u->instructions > MOST_INSTRUCTIONS
                    ? NULL
                    : PyMem_RawMalloc(u->nregs * sizeof(Known));
    if (at == NULL) {
        return DYN_NONE;
    }
    memcpy(at, u->regs, u->nregs * sizeof(Known));
    u->copies[u->n] = (Copy){.block = block, .to = DYN_NONE, .trips = left.i, .at = at};
    *changed = true;
    return u->n++;
}

/* The block's end, `regs` having what is known there: where it can go. */
static uint32_t ends_of(const Unrolled *u, const DynRegionBlock *b, uint32_t to[2]) {
    uint32_t ways = dyn_region_ways(b, to);
    const Known *condition = ways == 2 ? &u->regs[b->v.at[b->v.n - 1].arg[0]] : NULL;
    if (condition != NULL && condition->known) {
        to[0] = condition->i != 0 ? to[0] : to[1];
        return 1;
    }
    return ways;
}

/* regs: what is known at the block's beginning, and then at its end. */
static const DynRegionBlock *follow_block(Unrolled *u, uint32_t block, Known *regs) {
    const DynRegionBlock *b = &u->r->blocks.at[block];
    for (uint32_t k = 0; k < b->v.n; k++) {
        (void)follow(u, &b->v.at[k], regs);
        const DynRegionOpInfo *op = &dyn_region_ops[b->v.at[k].op];
        u->failed = u->failed || (op->fails && !op->flow && b->v.at[k].exit == DYN_NONE); /* it goes on elsewhere */
    }
    return b;
}

/* Is the block a head that counts the register down to 0, or (`over`, else DYN_NONE) up to the size of a tuple? */
static bool is_head(const DynRegionBlock *b, uint32_t *left, uint32_t *over) {
    const DynRegionInstr *v = b->v.at;
    bool down = b->v.n == 1 && v[0].op == DYN_RO_BR;
    bool up = b->v.n == 3 && v[0].op == DYN_RO_OSIZE && v[1].op == DYN_RO_ILT && v[2].op == DYN_RO_BR;
    up = up && v[1].arg[1] == v[0].dst && v[2].arg[0] == v[1].dst;
    *left = down || up ? v[up].arg[0] : DYN_NONE;
    *over = up ? v[0].arg[0] : DYN_NONE;
    return down || up;
}

/* The head of a loop of a few trips that the block jumps to, or DYN_NONE: the block itself has to say how many. `alone` has what
 * is known at its end then. */
static uint32_t few_trips(Unrolled *u, uint32_t block, uint32_t *left) {
    uint32_t to[2], over, ways = dyn_region_ways(&u->r->blocks.at[block], to);
    if (ways != 1 || u->refused[to[0]] || !is_head(&u->r->blocks.at[to[0]], left, &over)) {
        return DYN_NONE;
    }
    know_tuples(u, u->alone);
    (void)follow_block(u, block, u->alone);
    Known count = u->alone[*left], tuple = over == DYN_NONE ? count : u->alone[over];
    int64_t trips = count.i;
    if (over != DYN_NONE && tuple.known && tuple.part != 0) {
        const DynRegionPart *part = &u->r->parts.at[tuple.part - 1];
        trips = part->kind == DYN_PART_TUPLE ? part->n - count.i : 0;
    }
    bool known = count.known && count.part == 0 && tuple.known && (over == DYN_NONE) == (tuple.part == 0);
    return known && trips > 0 && trips <= MOST_TRIPS ? to[0] : DYN_NONE;
}

/* All copies of a loop and what is known in them. `within`: there is a loop of a few trips in it. */
static void find_copies(Unrolled *u, uint32_t head, bool *within) {
    bool changed = false;
    u->failed = u->failed || come_to(u, head, &changed) == DYN_NONE;
    while (changed && !u->failed && !*within) {
        changed = false;
        for (uint32_t i = 0; i < u->n && !u->failed && !*within; i++) {
            memcpy(u->regs, u->copies[i].at, u->nregs * sizeof(Known));
            const DynRegionBlock *b = follow_block(u, u->copies[i].block, u->regs);
            uint32_t to[2], ways = ends_of(u, b, to), left;
            *within = few_trips(u, u->copies[i].block, &left) != DYN_NONE && left != u->left;
            for (uint32_t w = 0; w < ways && !u->failed; w++) {
                u->failed = u->needed[to[w]] && come_to(u, to[w], &changed) == DYN_NONE;
            }
        }
    }
}

static uint32_t copy_of(Unrolled *u, uint32_t block) {
    bool changed = false;
    uint32_t i = u->needed[block] ? come_to(u, block, &changed) : DYN_NONE;
    return i == DYN_NONE ? block : u->copies[i].to;
}

static void fill_copy(Unrolled *u, const Copy *c) {
    memcpy(u->regs, c->at, u->nregs * sizeof(Known));
    for (uint32_t k = 0; k < u->r->blocks.at[c->block].v.n && !u->failed; k++) {
        DynRegionInstr in = u->r->blocks.at[c->block].v.at[k];
        Known out = follow(u, &in, u->regs);
        if (out.known && out.part != 0) {
            in.op = in.op == DYN_RO_ASTUPLE ? DYN_RO_PMOV : in.op;
            in.exit = in.op == DYN_RO_PMOV ? DYN_NONE : in.exit;
        } else if (out.known) {
            uint32_t dst = in.dst;
            in = dyn_region_instr(DYN_RO_ICONST, DYN_NONE, DYN_NONE, DYN_NONE, out.i);
            in.dst = dst;
        } else if (in.op == DYN_RO_JMP || in.op == DYN_RO_BR) {
            uint32_t to[2] = {DYN_NONE, DYN_NONE}, ways = ends_of(u, &u->r->blocks.at[c->block], to);
            in.op = ways == 1 ? DYN_RO_JMP : DYN_RO_BR;
            in.arg[0] = ways == 1 ? DYN_NONE : in.arg[0];
            in.to[0] = copy_of(u, to[0]);
            in.to[1] = ways == 1 ? DYN_NONE : copy_of(u, to[1]);
        }
        u->added++;
        u->failed = dyn_vec_push(&u->r->blocks.at[c->to].v, in) < 0;
    }
}

static void make_copies(Unrolled *u, uint32_t from) {
    for (uint32_t i = 0; i < u->n && !u->failed; i++) {
        u->copies[i].to = dyn_region_add_block(u->r, u->r->blocks.at[u->copies[i].block].at, &u->failed);
    }
    for (uint32_t i = 0; i < u->n && !u->failed; i++) {
        fill_copy(u, &u->copies[i]);
    }
    if (!u->failed) {
        DynRegionBlock *b = &u->r->blocks.at[from];
        b->v.at[b->v.n - 1].to[0] = u->copies[0].to;
    }
}

/* The jump at the end of a block. false: it stays, or a loop within comes first. */
static bool unroll_behind(Unrolled *u, uint32_t from) {
    bool within = false;
    u->failed = false;
    uint32_t head = few_trips(u, from, &u->left);
    if (head == DYN_NONE || u->r->blocks.n + MOST_COPIES > ROOM || u->added > MOST_ADDED) {
        return false;
    }
    find_needed(u);
    memcpy(u->regs, u->alone, u->nregs * sizeof(Known));
    u->n = u->instructions = 0;
    find_copies(u, head, &within);
    bool made = !u->failed && !within && !u->needed[from];
    if (made) {
        make_copies(u, from);
    }
    u->refused[head] |= !within && (!made || u->failed);
    for (uint32_t i = 0; i < u->n; i++) {
        PyMem_RawFree(u->copies[i].at);
    }
    return made && !u->failed;
}

void dyn_region_unroll(DynRegion *r) {
    Unrolled u = {.r = r, .nregs = r->regs.n};
    bool small = r->blocks.n < MOST_BLOCKS && r->regs.n < MOST_REGISTERS, any = false;
    uint8_t *bytes = small ? PyMem_RawCalloc(2 * (size_t)ROOM + u.nregs, 1) : NULL;
    u.regs = small ? PyMem_RawCalloc(2 * (size_t)u.nregs + 1, sizeof(Known)) : NULL;
    u.alone = u.regs + u.nregs;
    u.needed = bytes;
    u.refused = bytes + ROOM;
    u.counts = u.refused + ROOM;
    for (bool again = bytes != NULL && u.regs != NULL; again;) {
        again = false;
        /* The last ones made are those of later trips, where kinds don't change any more. */
        for (uint32_t i = r->blocks.n; i-- > 1;) {
            again = unroll_behind(&u, i) || again;
        }
        any = any || again;
    }
    if (any) {
        dyn_region_empty_unreached(r, u.needed);
    }
    PyMem_RawFree(bytes);
    PyMem_RawFree(u.regs);
}
