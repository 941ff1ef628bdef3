/* nest.c: a pass over region IR that asks in front of a nest of loops what hoist.c asks in front of each inner one. Called by
 * run.c before hoist.c.
 *
 * Of each int all over the nest it is followed what it is, as a form (nest_forms.h) of how many trips each loop around has made.
 * Where that tells for all trips of all loops that an index lies inside, or an int doesn't overflow, the nest gets a copy in
 * which that isn't checked, and a block in front that asks, and chooses. An innermost loop in which nothing of the kind is left,
 * and that has few trips, is one simple loop there: nothing is asked in front of it, and the eval breaker not before the loop
 * around goes on; trips.c has it asked behind the trips whether NumPy would warn. Loops in which something is left are copied by
 * hoist.c, as ever. Registers and exits are the same in both, so that the copy may be left at any instruction, and goes over to
 * the loops with checks where trips have to be done again. Memory is raw and lasts as long as the call; where it is out, the nest
 * stays as it is. */
#include "codegen/region/nest_forms.h"
#include "ir/region_flags.h"

enum { MOST_LOOPS = DYN_NEST_LOOPS, MOST_BLOCKS = 80, MOST_CODE = 360, MOST_BODY = 100, MOST_REGION = 700, MOST_ROWS = 100000 };
enum { LEAST_TRIPS = 4 };   /* Fewer trips of the outer loop aren't worth the questions. */
enum { MOST_TRIPS = 1024 }; /* Between two questions for the eval breaker. */
#define NO_STEP INT64_MIN
#define NEAR 0x1p30   /* What isn't known is asked to be nearer to 0; */
#define NEARER 0x1p20 /* … or than this, where products of three such numbers tell something. */

/* What is done with instructions: their forms are found, or what they have to hold is asked, or the copy is changed. */
typedef enum Stage { FIND_STEPS, ASK, CHANGE } Stage;

typedef struct NestLoop {
    uint32_t head, left, size; /* Its head, the register that ends it at 0, and so many blocks. */
    uint32_t first;            /* The loop around that counts with it, of which it is a version for other types; or itself. */
    uint8_t *in;               /* For each block: it belongs to the loop. */
    int64_t *step;             /* For each register: what each trip adds to it, or NO_STEP. */
    DynNestForm trips;         /* How many it has. */
    bool inner;                /* There is no loop in it. */
    bool clean;                /* Nothing has to be checked in its trips but numbers; */
    bool saves;                /* which would be otherwise. */
    bool demands;              /* Ints that come out of memory are checked. */
    uint8_t *data; /* For each register: the loop makes it of those, or of what it changes otherwise than by counting. */
} NestLoop;

typedef struct Nest {
    DynRegion *r;
    uint32_t nblocks, nregs, n; /* So many blocks and registers there were; blocks of the nest. */
    NestLoop loops[MOST_LOOPS]; /* The outer one first, and each in front of those in it. */
    uint32_t nloops;
    uint32_t *order;  /* The blocks of the nest, each behind those that come before it in a trip. */
    uint32_t *place;  /* For each block of the nest: where it is in `order`. */
    uint32_t *ahead;  /* For each block: from how many places that aren't in `order` yet it is jumped to. */
    uint32_t *copies; /* For each block: its copy, or DYN_NONE. */
    uint32_t *within; /* For each block of the nest: the innermost loop. */
    uint8_t *seen;    /* For each block: `at` has something. */
    uint8_t *used;    /* For each register: an operand of something in the nest. */
    DynNestForm *at;  /* For each block of `order` and each register, at its beginning; and room for two more. */
    DynNestForms *forms;
    bool failed;
} Nest;

static bool counts(const DynRegionBlock *b) { return b->v.n == 1 && b->v.at[0].op == DYN_RO_BR; }

/* ---- the loops of a nest */

static bool comes_back(const Nest *s, uint32_t from, uint32_t to) {
    for (uint32_t i = 0; i < s->nloops; i++) {
        if (s->loops[i].head == to && s->loops[i].in[from]) {
            return true;
        }
    }
    return false;
}

/* Every block behind those that lead to it, ways back to a head not counted; false where that can't be. */
static bool order_blocks(Nest *s) {
    const uint8_t *in = s->loops[0].in;
    uint32_t to[2], done = 0;
    s->n = 0;
    memset(s->ahead, 0, s->nblocks * sizeof(uint32_t));
    for (uint32_t i = 0; i < s->nblocks; i++) {
        s->n += in[i];
        for (uint32_t w = 0, n = in[i] ? dyn_region_ways(&s->r->blocks.at[i], to) : 0; w < n; w++) {
            s->ahead[to[w]] += !comes_back(s, i, to[w]);
        }
    }
    s->order[done++] = s->loops[0].head;
    for (uint32_t at = 0; at < done; at++) {
        for (uint32_t w = 0, n = dyn_region_ways(&s->r->blocks.at[s->order[at]], to); w < n; w++) {
            if (in[to[w]] && !comes_back(s, s->order[at], to[w]) && --s->ahead[to[w]] == 0) {
                s->order[done++] = to[w];
            }
        }
    }
    for (uint32_t i = 0; i < done; i++) {
        s->place[s->order[i]] = i;
    }
    return done == s->n;
}

/* Room for one more loop. */
static NestLoop *new_loop(Nest *s, uint32_t head) {
    NestLoop *l = &s->loops[s->nloops];
    *l = (NestLoop){.head = head, .left = DYN_NONE, .inner = true};
    l->in = PyMem_RawMalloc(s->nblocks);
    l->step = PyMem_RawMalloc(s->nregs * sizeof(int64_t));
    l->data = PyMem_RawCalloc(s->nregs, 1);
    s->nloops++;
    s->failed = l->in == NULL || l->step == NULL || l->data == NULL || s->failed;
    return l;
}

static bool fill_loop(Nest *s, NestLoop *l) {
    const DynRegionBlock *head = &s->r->blocks.at[l->head];
    if (s->failed || !dyn_region_loop(s->r, l->head, l->in, s->seen, s->order)) {
        return false;
    }
    l->left = counts(head) && !l->in[head->v.at[0].to[1]] ? head->v.at[0].arg[0] : DYN_NONE;
    for (uint32_t i = 0; i < s->nblocks; i++) {
        l->size += l->in[i];
    }
    return true;
}

static void drop_last_loop(Nest *s) {
    NestLoop *l = &s->loops[--s->nloops];
    PyMem_RawFree(l->in);
    PyMem_RawFree(l->step);
    PyMem_RawFree(l->data);
}

/* All loops in the outer one; false: none, or too many. */
static bool find_inner_loops(Nest *s) {
    const uint8_t *in = s->loops[0].in;
    for (uint32_t i = 0; i < s->nblocks; i++) {
        if (!in[i] || i == s->loops[0].head) {
            continue;
        }
        if (s->nloops == MOST_LOOPS) {
            return false;
        }
        if (!fill_loop(s, new_loop(s, i))) {
            drop_last_loop(s);
        }
    }
    return s->nloops > 1 && !s->failed;
}

/* Each loop in front of those that it is entered before. */
static void order_loops(Nest *s) {
    for (uint32_t i = 1; i < s->nloops; i++) {
        for (uint32_t k = i; k > 1 && s->place[s->loops[k].head] < s->place[s->loops[k - 1].head]; k--) {
            NestLoop other = s->loops[k];
            s->loops[k] = s->loops[k - 1];
            s->loops[k - 1] = other;
        }
    }
    for (uint32_t i = 0; i < s->nloops; i++) {
        s->loops[i].first = i;
        for (uint32_t k = i; k-- > 0;) {
            bool counts_too = s->loops[k].left == s->loops[i].left && s->loops[k].left != DYN_NONE;
            bool version = counts_too && s->loops[k].in[s->loops[i].head];
            s->loops[i].first = version ? k : s->loops[i].first;
            s->loops[k].inner = s->loops[k].inner && !s->loops[k].in[s->loops[i].head];
        }
        for (uint32_t k = 0; k < s->nblocks; k++) {
            s->within[k] = s->loops[i].in[k] ? i : s->within[k];
        }
    }
}

static void find_used(Nest *s) {
    memset(s->used, 0, s->nregs);
    for (uint32_t i = 0; i < s->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->order[i]];
        for (uint32_t k = 0; k < b->v.n; k++) {
            for (int a = 0; a < 3 && dyn_region_ops[b->v.at[k].op].args[a] != 'N'; a++) {
                s->used[b->v.at[k].arg[a]] = 1;
            }
        }
    }
}

/* ---- what registers hold */

static DynNestForm *state_of(const Nest *s, uint32_t block) { return s->at + (size_t)s->place[block] * s->nregs; }

static void merge(Nest *s, uint32_t to, const DynNestForm *regs) {
    DynNestForm *at = state_of(s, to);
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool same = !s->seen[to] || (at[i].known && dyn_nest_form_is_same(&at[i], &regs[i]));
        at[i] = regs[i];
        at[i].known = regs[i].known && same;
    }
    s->seen[to] = 1;
}

/* Where a loop has ended, its counters are one trip further than in any. */
static void end_loop(Nest *s, uint32_t loop, DynNestForm *regs) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        regs[i].known = regs[i].known && regs[i].step[loop] == DYN_NODE_ZERO;
    }
}

/* The head's registers become those of some trip of the loop. */
static void enter_loop(Nest *s, uint32_t loop) {
    NestLoop *l = &s->loops[loop];
    DynNestForm *at = state_of(s, l->head);
    DynNestForm trips = l->left == DYN_NONE || l->step[l->left] != -1 ? (DynNestForm){.known = false} : at[l->left];
    bool known = dyn_nest_forms_enter(s->forms, loop, trips);
    l->trips = s->forms->trips[loop];
    if (known) {
        at[l->left].clamped = false;
    }
    for (uint32_t i = 0; i < s->nregs; i++) {
        if (l->step[i] != 0) {
            at[i] = known && l->step[i] != NO_STEP ? dyn_nest_form_counter(s->forms, at[i], loop, l->step[i])
                                                   : (DynNestForm){.known = false};
        }
    }
}

/* The trips that were made in the other version count. */
static void enter_version(Nest *s, NestLoop *l, uint32_t root) {
    const NestLoop *first = &s->loops[l->first];
    DynNestForm *at = state_of(s, l->head);
    if (s->loops[root].in[first->head]) {
        memcpy(at, state_of(s, first->head), s->nregs * sizeof(DynNestForm));
        l->trips = first->trips;
    } else {
        memset(at, 0, s->nregs * sizeof(DynNestForm));
    }
}

static bool is_check(uint16_t op) {
    return op == DYN_RO_IADD || op == DYN_RO_ISUB || op == DYN_RO_IMUL || op == DYN_RO_IDX || op == DYN_RO_I2DX;
}

/* Gives whether the check of an instruction passes where all holds that is asked; `out` is what it makes. */
static bool follow(Nest *s, const DynRegionInstr *in, const DynNestForm *regs, Stage stage, DynNestForm *out) {
    DynNestForm args[3] = {{.known = false}, {.known = false}, {.known = false}};
    for (int a = 0; a < 3 && dyn_region_ops[in->op].args[a] != 'N'; a++) {
        args[a] = regs[in->arg[a]];
    }
    *out = in->dst == DYN_NONE ? args[2] : dyn_nest_form_compute(s->forms, in, args);
    bool passes = out->known && is_check(in->op);
    if (in->op == DYN_RO_IDX) {
        passes = args[0].known && !args[0].clamped && dyn_nest_form_stays(&args[1]);
        *out = passes ? args[0] : *out;
        if (passes && stage == ASK) {
            dyn_nest_form_demand_low(s->forms, &args[0]);
            dyn_nest_form_demand_high(s->forms, &args[0], dyn_nest_form_last(s->forms, &args[1]));
        }
    } else if (in->op == DYN_RO_I2DX) {
        passes = args[0].known && !args[0].clamped && dyn_nest_form_most(s->forms, &args[0]) < 0x1p53;
        *out = (DynNestForm){.known = false};
    }
    if (passes && stage == ASK) {
        dyn_nest_form_use(s->forms, in->op == DYN_RO_I2DX ? &args[0] : out);
    }
    return passes;
}

/* Where a register isn't 0, what it was cut off of isn't either, and all that was made of it. */
static void learn(Nest *s, DynNestForm *regs, uint32_t reg) {
    DynNestForm cut = regs[reg];
    for (uint32_t i = 0; i < s->nregs && cut.known && cut.clamped && cut.more == 0; i++) {
        DynNestForm a = regs[i], same = a;
        same.more = 0;
        if (a.known && dyn_nest_form_is_same(&same, &cut)) {
            DynNestForm more = dyn_nest_form_number(s->forms, a.more), plain = a;
            plain.clamped = false;
            plain.more = 0;
            DynRegionInstr add = {.op = DYN_RO_IADDW};
            regs[i] = dyn_nest_form_compute(s->forms, &add, (const DynNestForm[]){plain, more, {.known = false}});
        }
    }
}

/* What a trip of the loop has added to each register where it goes back to its head. */
static void see_steps(Nest *s, NestLoop *l, const DynNestForm *regs, bool first) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        DynRegionInstr minus = {.op = DYN_RO_ISUBW};
        bool used = s->used[i] && s->r->regs.at[i] == 'I';
        DynNestForm before = used ? dyn_nest_form_register(s->forms, i) : (DynNestForm){.known = false};
        DynNestForm more = used
                               ? dyn_nest_form_compute(s->forms, &minus, (const DynNestForm[]){regs[i], before, {.known = false}})
                               : (DynNestForm){.known = false};
        const DynNestNode *node = &s->forms->nodes[more.at];
        bool number = dyn_nest_form_stays(&more) && node->op == DYN_RO_ICONST;
        int64_t step = number ? node->imm : NO_STEP;
        l->step[i] = first || l->step[i] == step ? step : NO_STEP;
    }
}

/* hoist.c can't ask about such ints either. */
static void find_data(Nest *s, const DynRegionLive *live, NestLoop *l) {
    for (uint32_t i = 0; i < s->nregs; i++) {
        l->data[i] = l->step[i] == NO_STEP && dyn_region_is_live(live, l->head, i);
    }
    for (bool again = true; again;) {
        again = false;
        for (uint32_t i = 0; i < s->n; i++) {
            const DynRegionBlock *b = &s->r->blocks.at[s->order[i]];
            for (uint32_t k = 0; k < b->v.n && l->in[s->order[i]]; k++) {
                const DynRegionInstr *in = &b->v.at[k];
                bool data = false;
                for (int a = 0; a < 3 && dyn_region_ops[in->op].args[a] != 'N'; a++) {
                    data = data || dyn_region_ops[in->op].args[a] == 'P' || l->data[in->arg[a]];
                }
                if (in->dst != DYN_NONE && data && !l->data[in->dst]) {
                    l->data[in->dst] = 1;
                    again = true;
                }
            }
        }
    }
}

static bool is_of_data(const NestLoop *l, const DynRegionInstr *in) {
    bool second = dyn_region_ops[in->op].args[1] != 'N' && in->op != DYN_RO_IDX;
    return l->data[in->arg[0]] || (second && l->data[in->arg[1]]);
}

/* The registers as they are when the outermost loop that is followed is entered, or in front of one of its trips. */
static void begin(Nest *s, uint32_t root) {
    DynNestForm *at = state_of(s, s->loops[root].head);
    for (uint32_t i = 0; i < s->nregs; i++) {
        bool used = s->used[i] && s->r->regs.at[i] == 'I';
        at[i] = used ? dyn_nest_form_register(s->forms, i) : (DynNestForm){.known = false};
    }
    memset(s->seen, 0, s->nblocks);
    s->seen[s->loops[root].head] = 1;
}

static void follow_ways(Nest *s, uint32_t block, uint32_t root, DynNestForm *regs, bool *first) {
    const DynRegionBlock *b = &s->r->blocks.at[block];
    NestLoop *l = &s->loops[root];
    uint32_t to[2], ways = dyn_region_ways(b, to);
    DynNestForm *other = regs + s->nregs;
    memcpy(other, regs, s->nregs * sizeof *regs);
    for (uint32_t w = 0; w < ways; w++) {
        memcpy(regs, other, s->nregs * sizeof *regs);
        if (ways == 2 && w == 0) {
            learn(s, regs, b->v.at[b->v.n - 1].arg[0]);
        } else if (ways == 2 && s->loops[s->within[block]].head == block) {
            end_loop(s, s->loops[s->within[block]].first, regs);
        }
        const NestLoop *next = &s->loops[s->within[to[w]]];
        bool version = l->in[to[w]] && next->head == to[w] && &s->loops[next->first] != next;
        if (first != NULL && (to[w] == l->head || (version && next->first == root))) {
            see_steps(s, l, regs, *first);
            *first = false;
        } else if (l->in[to[w]] && !version && !comes_back(s, block, to[w])) {
            merge(s, to[w], regs);
        }
    }
}

/* All blocks of the loop. */
static void follow_loop(Nest *s, uint32_t root, Stage stage) {
    DynNestForm *regs = s->at + (size_t)s->n * s->nregs, out;
    bool first = true;
    begin(s, root);
    for (uint32_t i = 0; i < s->n && !s->failed; i++) {
        uint32_t block = s->order[i];
        NestLoop *l = &s->loops[s->within[block]];
        if (!s->loops[root].in[block]) {
            continue;
        }
        if (l->head == block && l != &s->loops[l->first]) {
            enter_version(s, l, root);
        } else if (l->head == block && (stage != FIND_STEPS || l != &s->loops[root])) {
            enter_loop(s, s->within[block]);
        }
        memcpy(regs, state_of(s, block), s->nregs * sizeof(DynNestForm));
        for (uint32_t k = 0; k < s->r->blocks.at[block].v.n; k++) {
            const DynRegionInstr *in = &s->r->blocks.at[block].v.at[k];
            bool passes = follow(s, in, regs, stage, &out);
            l->clean = l->clean && (passes || !is_check(in->op) || is_of_data(l, in));
            l->demands = l->demands || (is_check(in->op) && !passes);
            l->saves = l->saves || passes || in->op == DYN_RO_POLL;
            if (in->dst != DYN_NONE) {
                regs[in->dst] = out;
            }
            if (passes && stage == CHANGE) {
                dyn_region_drop_check(&s->r->blocks.at[s->copies[block]].v.at[k]);
            }
        }
        follow_ways(s, block, root, regs, stage == FIND_STEPS ? &first : NULL);
    }
}

/* A trip does nothing that isn't known here, or may take long. */
static bool is_simple(const Nest *s, const NestLoop *l) {
    for (uint32_t i = 0; i < s->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->order[i]];
        for (uint32_t k = 0; k < b->v.n && l->in[s->order[i]]; k++) {
            uint16_t op = b->v.at[k].op;
            bool flows = op == DYN_RO_JMP || op == DYN_RO_BR || op == DYN_RO_LEAVE || op == DYN_RO_POLL;
            if (!(op < DYN_RO_PURE || flows || dyn_region_stored(op) > 0) || dyn_region_calls_out((DynRegionOp)op)) {
                return false;
            }
        }
    }
    return true;
}

/* So many instructions has a loop. */
static uint32_t code_of(const Nest *s, const NestLoop *l) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->nblocks; i++) {
        n += l->in[i] ? s->r->blocks.at[i].v.n : 0;
    }
    return n;
}

static bool stores(const Nest *s, const NestLoop *l) {
    bool any = false;
    for (uint32_t i = 0; i < s->n; i++) {
        const DynRegionBlock *b = &s->r->blocks.at[s->order[i]];
        for (uint32_t k = 0; k < b->v.n && l->in[s->order[i]]; k++) {
            any = any || dyn_region_stored(b->v.at[k].op) > 0;
        }
    }
    return any;
}

/* What has to hold in front of the nest; gives how many loops are clean then. */
static uint32_t ask(Nest *s, double near) {
    uint32_t n = 0;
    dyn_nest_forms_begin(s->forms, near);
    for (uint32_t i = 0; i < s->nloops; i++) {
        NestLoop *l = &s->loops[i];
        l->clean = l->inner && l->left != DYN_NONE && is_simple(s, l) && code_of(s, l) <= MOST_BODY;
        l->saves = l->demands = false;
    }
    follow_loop(s, 0, ASK);
    for (uint32_t i = 0; i < s->nloops; i++) {
        NestLoop *l = &s->loops[i];
        l->clean = l->clean && l->saves && l->trips.known && !l->trips.clamped;
        if (l->clean) {
            int64_t most = stores(s, l) ? DYN_REGION_SAVED : MOST_TRIPS;
            dyn_nest_form_demand_high(s->forms, &l->trips, dyn_nest_forms_number(s->forms, most));
            n++;
        }
    }
    if (s->loops[0].trips.known) {
        DynNestForm least = dyn_nest_form_number(s->forms, LEAST_TRIPS);
        dyn_nest_form_demand_high(s->forms, &least, s->loops[0].trips.at);
    }
    return s->forms->never || !s->loops[0].trips.known ? 0 : n;
}

/* ---- the copy */

static void drop_polls(Nest *s, uint32_t block) {
    DynRegionBlock *b = &s->r->blocks.at[block];
    uint32_t n = 0;
    for (uint32_t k = 0; k < b->v.n; k++) {
        if (b->v.at[k].op != DYN_RO_POLL) {
            b->v.at[n++] = b->v.at[k];
        }
    }
    b->v.n = n;
}

static bool has_poll(const DynRegionBlock *b) {
    bool found = false;
    for (uint32_t k = 0; k < b->v.n; k++) {
        found = found || b->v.at[k].op == DYN_RO_POLL;
    }
    return found;
}

/* Where the outer loop polls on each way back to its head, it needn't elsewhere. */
static void drop_outer_polls(Nest *s) {
    bool all = true;
    for (int pass = 0; pass < 2 && all; pass++) {
        for (uint32_t i = 0; i < s->n; i++) {
            uint32_t block = s->order[i], to[2], ways = dyn_region_ways(&s->r->blocks.at[block], to);
            bool back = (ways > 0 && to[0] == s->loops[0].head) || (ways > 1 && to[1] == s->loops[0].head);
            if (pass == 0) {
                all = all && (!back || has_poll(&s->r->blocks.at[block]));
            } else if (!back && s->within[block] == 0) {
                drop_polls(s, s->copies[block]);
            }
        }
    }
}

/* A clean loop of the copy: a second copy of it asks behind the trips. */
static void make_simple(Nest *s, const NestLoop *l) {
    uint32_t nblocks = s->r->blocks.n, n = 0, head = s->copies[l->head];
    uint32_t *copies = PyMem_RawMalloc(nblocks * sizeof(uint32_t)), *blocks = PyMem_RawMalloc(l->size * sizeof(uint32_t));
    uint8_t *in = PyMem_RawCalloc(nblocks, 1);
    s->failed = s->failed || copies == NULL || blocks == NULL || in == NULL;
    if (!s->failed) {
        memset(copies, 0xff, nblocks * sizeof(uint32_t));
        for (uint32_t i = 0; i < s->n; i++) {
            uint32_t block = s->order[i];
            if (l->in[block]) {
                in[s->copies[block]] = 1;
                drop_polls(s, s->copies[block]);
                blocks[n] = dyn_region_add_block(s->r, s->r->blocks.at[block].at, &s->failed);
                copies[s->copies[block]] = blocks[n++];
            }
        }
        for (uint32_t i = 0; i < nblocks && !s->failed; i++) {
            if (in[i]) {
                dyn_region_copy_block(s->r, i, copies[i], copies, &s->failed);
            }
        }
    }
    if (!s->failed) {
        DynRegionQuick q = {.slow = head, .head = blocks[0], .left = l->left, .next = DYN_NONE, .short_loop = true};
        q.after = s->r->blocks.at[head].v.at[0].to[1];
        for (uint32_t i = 0; i < s->nregs; i++) {
            bool counter = l->step[i] != NO_STEP && l->step[i] != 0 && i != l->left;
            q.next = counter && q.next == DYN_NONE ? i : q.next;
        }
        q.step = q.next == DYN_NONE ? 0 : l->step[q.next];
        q.blocks = blocks;
        q.n = n;
        q.front = dyn_region_add_block(s->r, s->r->blocks.at[head].at, &s->failed);
        q.all = dyn_region_add(s->r, q.front, DYN_RO_CALM, DYN_NONE, DYN_NONE, 0, &s->failed);
        q.demands = l->demands;
        bool made = !s->failed && (!l->demands || dyn_region_ranges(s->r, &q));
        uint32_t first = made ? dyn_region_trips(s->r, &q) : DYN_NONE;
        s->failed = first == DYN_NONE || !dyn_region_ahead(s->r, &q);
        if (!s->failed) {
            dyn_region_redirect(s->r, head, first, in, nblocks);
        }
    }
    PyMem_RawFree(in);
    PyMem_RawFree(blocks);
    PyMem_RawFree(copies);
}

static void make_copy(Nest *s) {
    uint32_t head = s->loops[0].head, at = s->r->blocks.at[head].at;
    dyn_region_copy_blocks(s->r, s->order, s->n, s->copies, s->nblocks, &s->failed);
    if (!s->failed) {
        follow_loop(s, 0, CHANGE);
        drop_outer_polls(s);
    }
    uint32_t front = dyn_region_add_block(s->r, at, &s->failed);
    for (uint32_t i = 0; i < s->nloops && !s->failed; i++) {
        if (s->loops[i].clean) {
            make_simple(s, &s->loops[i]);
        }
    }
    if (!s->failed) {
        uint32_t all = dyn_nest_forms_emit(s->forms, s->r, front, head, &s->failed);
        dyn_region_add_end(s->r, front, all, s->copies[head], head, &s->failed);
    }
    if (!s->failed) {
        dyn_region_redirect(s->r, head, front, s->loops[0].in, s->nblocks);
    }
}

/* ---- all nests */

static bool make_room(Nest *s) {
    size_t n = s->nblocks;
    uint32_t *numbers = PyMem_RawMalloc(5 * n * sizeof(uint32_t));
    s->seen = PyMem_RawMalloc(n + s->nregs);
    s->forms = PyMem_RawMalloc(sizeof *s->forms);
    s->order = numbers;
    s->place = numbers + n;
    s->ahead = numbers + 2 * n;
    s->copies = numbers + 3 * n;
    s->within = numbers + 4 * n;
    s->used = s->seen + n;
    return numbers != NULL && s->seen != NULL && s->forms != NULL;
}

static void free_room(Nest *s) {
    while (s->nloops > 0) {
        drop_last_loop(s);
    }
    PyMem_RawFree(s->at);
    PyMem_RawFree(s->forms);
    PyMem_RawFree(s->seen);
    PyMem_RawFree(s->order);
}

/* Is there a copy of the nest worth making? */
static bool is_worth(Nest *s) {
    if (!fill_loop(s, new_loop(s, s->loops[0].head)) || s->loops[0].left == DYN_NONE || s->loops[0].size > MOST_BLOCKS) {
        return false;
    }
    bool fits = find_inner_loops(s) && order_blocks(s) && code_of(s, &s->loops[0]) <= MOST_CODE && s->n * s->nregs <= MOST_ROWS;
    s->at = fits ? PyMem_RawCalloc((size_t)(s->n + 2) * s->nregs, sizeof(DynNestForm)) : NULL;
    if (s->at == NULL) {
        return false;
    }
    order_loops(s);
    find_used(s);
    for (uint32_t i = s->nloops; i-- > 0;) {
        if (s->loops[i].first == i) {
            dyn_nest_forms_begin(s->forms, NEAR);
            follow_loop(s, i, FIND_STEPS);
        }
    }
    for (uint32_t i = 0; i < s->nloops; i++) {
        if (s->loops[i].first != i) {
            memcpy(s->loops[i].step, s->loops[s->loops[i].first].step, s->nregs * sizeof(int64_t));
        }
    }
    DynRegionLive live;
    if (!dyn_region_find_live(s->r, &live)) {
        return false;
    }
    for (uint32_t i = 0; i < s->nloops; i++) {
        find_data(s, &live, &s->loops[i]);
    }
    PyMem_RawFree(live.rows);
    uint32_t clean = ask(s, NEAR);
    bool large = s->forms->large;
    return (large && ask(s, NEARER) > clean) || (large ? ask(s, NEAR) : clean) > 0;
}

/* `done` gets the first ndone blocks of the nest that was copied. */
static bool copy_nest(DynRegion *r, uint32_t head, uint8_t *done, uint32_t ndone) {
    bool made = false;
    Nest s = {.r = r, .nblocks = r->blocks.n, .nregs = r->regs.n};
    s.loops[0].head = head;
    if (make_room(&s) && is_worth(&s)) {
        make_copy(&s);
        made = true;
    }
    for (uint32_t i = 0; i < ndone && made; i++) {
        done[i] |= s.loops[0].in[i];
        r->blocks.at[i].rare = r->blocks.at[i].rare || s.loops[0].in[i];
    }
    free_room(&s);
    return made;
}

static uint32_t code_of_region(const DynRegion *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->blocks.n; i++) {
        n += r->blocks.at[i].v.n;
    }
    return n;
}

/* Outer loops come first; those in a nest that was copied, or in its copy, aren't looked at again. */
void dyn_region_nests(DynRegion *r) {
    uint32_t nblocks = r->blocks.n;
    uint8_t *bytes = PyMem_RawCalloc(3, nblocks + 1), *done = bytes, *in = bytes + nblocks, *seen = in + nblocks;
    uint32_t *size = PyMem_RawCalloc(2 * (size_t)nblocks + 1, sizeof(uint32_t)), *work = size + nblocks;
    bool any = false;
    for (uint32_t i = 1; i < nblocks && bytes != NULL && size != NULL; i++) {
        bool loop = counts(&r->blocks.at[i]) && dyn_region_loop(r, i, in, seen, work);
        for (uint32_t k = 0; k < nblocks && loop; k++) {
            size[i] += in[k];
        }
    }
    for (uint32_t head = 1; head != 0 && bytes != NULL && size != NULL && code_of_region(r) < MOST_REGION;) {
        head = 0;
        for (uint32_t i = 1; i < nblocks; i++) {
            head = size[i] > size[head] && !done[i] ? i : head;
        }
        any = (head != 0 && copy_nest(r, head, done, nblocks)) || any;
        size[head] = 0;
    }
    uint8_t *reached = any ? PyMem_RawMalloc(r->blocks.n) : NULL;
    if (reached != NULL) {
        dyn_region_empty_unreached(r, reached);
    }
    PyMem_RawFree(reached);
    PyMem_RawFree(size);
    PyMem_RawFree(bytes);
}
