/* region_code.h: what the files of this folder share: emit.c writes a region as C, run.c builds that and runs it on a
 * frame's slots, leave.c has what an exit writes back, and spare.c the objects for when memory is out. Nobody else includes it.
 */
#ifndef DYN_REGION_CODE_H
#define DYN_REGION_CODE_H
#include "base/cpy_region.h"
#include "codegen/native.h"
#include "ir/region_ir.h"

/* What generated code gets; emit.c writes the same as text. */
typedef struct DynRegionArgs {
    DynScalar *values; /* For each register: those of the entry on the way in, those of the exit on the way out. */
    const volatile unsigned char *breaker;
    const void *const *world; /* dyn_region_world */
    long block;               /* Where it begins: the block of an entry. */
    long force;               /* Test: leave at this exit, */
    long *after;              /* when it was passed so many times. */
    long left, floor;         /* So many calls of routines in one another are allowed, and how far the C stack may reach; */
    long gave_up;             /* DYN_GAVE_UP_*; */
    DynScalar *results;       /* those of a routine, but for the first. */
} DynRegionArgs;
typedef long (*DynRegionFunction)(DynRegionArgs *args); /* the exit */
#define DYN_REGION_SYMBOL "dyn_region"
#define DYN_REGION_LONG 700u       /* Instructions above which a region is compiled with -O2, */
#define DYN_REGION_VERY_LONG 2000u /* or -O1: three instructions are about a line; 300 take 0.13 s with -O3. */

struct DynRegionCode {
    DynBuildText *text;
    DynRegionFunction function; /* NULL: not loaded (yet). */
};

#define DYN_REGION_NEAR_BITS 60 /* No axis of an array that a region reads has 2 to that power of elements. */

#define DYN_REGION_SLOTS 256                            /* The most slots of a frame that a region runs on, */
#define DYN_REGION_STACK 64                             /* and stack values at an exit. */
#define DYN_REGION_DROPPED (DYN_REGION_SLOTS + 64 * 24) /* What is in its cells, and what frames of generators hold. */

/* While a region runs. */
typedef struct DynRegionRun {
    DynRegion *r;
    PyObject **slots;
    DynScalar *values; /* For each register. */
    PyObject *extras[DYN_REGION_EXTRAS];
    PyObject **dropped; /* On the way out: what was in cells and in frames of generators, owned; so many. */
    uint32_t ndropped;
    struct {
        PyObject *o; /* Borrowed of what it has been put into. */
        uint32_t number;
    } instances[DYN_REGION_INSTANCES]; /* On the way out: those that were values in parts. */
    uint32_t ninstances;
    /* Of a region beside which other code may run: the way in that was taken, its registers as they were then, and memory to read
     * them again. */
    const DynRegionEntry *entry;
    DynScalar *entered, *again;
    DynRegionSpares *spares; /* The region's; another run of it, from within, has some of its own. */
} DynRegionRun;
static inline bool dyn_region_read_int(PyObject *o, int64_t *out) {
    int overflow = 0;
    if (!PyLong_CheckExact(o)) {
        return false;
    }
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    return overflow == 0;
}

/* What the iterator goes over, as a DYN_OVER_*. */
static inline uint8_t dyn_region_over(const DynRegionValue *v) {
    if (v->kind == DYN_RK_LIST) {
        return v->flags & DYN_RF_TUPLE ? DYN_OVER_TUPLE : DYN_OVER_LIST;
    }
    return (uint8_t)(DYN_OVER_STR + v->n);
}

/* leave.c: what the exit says of slots and stack takes place. Nothing is needed for it that can't be had. */
DYN_HIDDEN void dyn_region_write_back(DynRegionRun *run, const DynRegionOut *x);

/* spare.c: objects of each shape that an exit may have to make, as many as the exit with the most of them makes, made before the
 * region is entered. They are taken where memory is out. */
DYN_HIDDEN bool dyn_region_take_spares(DynRegion *r, DynRegionRun *run); /* false: memory is out, and there are none */
DYN_HIDDEN void dyn_region_return_spares(DynRegion *r, DynRegionRun *run);
DYN_HIDDEN void dyn_region_free_spares(DynRegionSpares *spares);
/* A new object of a shape (kind, dtype, n of DynRegionValue), whose contents the caller sets; never NULL. */
DYN_HIDDEN PyObject *dyn_region_blank(DynRegionRun *run, DynRegionKind kind, uint8_t dtype, uint32_t n);
/* Is memory out for the next object of the way out? Test: dyn_region_starve says when. */
DYN_HIDDEN bool dyn_region_is_starved(void);
/* write.c: a block, the one that is added, at that instruction of the bytecode; an instruction of up to two operands, whose
 * result is a new register (DYN_NONE: it has none); and a block's end, with DYN_NONE as condition a jump to `yes`. */
DYN_HIDDEN uint32_t dyn_region_add_block(DynRegion *r, uint32_t at, bool *failed);
DYN_HIDDEN uint32_t dyn_region_add(DynRegion *r, uint32_t block, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm,
                                   bool *failed);
DYN_HIDDEN void dyn_region_add_end(DynRegion *r, uint32_t block, uint32_t condition, uint32_t yes, uint32_t no, bool *failed);
/* live.c: the registers that are needed at the beginning of each block. The caller frees `rows` (PyMem_RawFree); false: memory is
 * out. */
typedef struct DynRegionLive {
    uint64_t *rows; /* For each block so many words, a bit for each register. */
    uint32_t nwords;
} DynRegionLive;
DYN_HIDDEN bool dyn_region_find_live(const DynRegion *r, DynRegionLive *live);
static inline bool dyn_region_is_live(const DynRegionLive *live, uint32_t block, uint32_t reg) {
    return (live->rows[(size_t)block * live->nwords + reg / 64] >> reg % 64 & 1) != 0;
}
/* loops.c: `in` gets 1 for each block of the loop with that head; false: it is no loop's. `seen` and `work` are room; all have as
 * many as there are blocks. */
DYN_HIDDEN bool dyn_region_loop(const DynRegion *r, uint32_t head, uint8_t *in, uint8_t *seen, uint32_t *work);
/* For each register, of which `out` has as many: wherever it is assigned it gets the number i (some && !other), by itself, or
 * moved from a register that nothing is moved to. */
typedef struct DynRegionConstant {
    bool some, other, moved;
    int64_t i;
} DynRegionConstant;
DYN_HIDDEN void dyn_region_constants(const DynRegion *r, DynRegionConstant *out);
/* All that came to block `from` comes to `to`, but from blocks that are `in`, and those from the number nblocks on. */
DYN_HIDDEN void dyn_region_redirect(DynRegion *r, uint32_t from, uint32_t to, const uint8_t *in, uint32_t nblocks);
/* Block `to` gets the instructions of `from`, and goes to the copies of those blocks that have one (else DYN_NONE). */
DYN_HIDDEN void dyn_region_copy_block(DynRegion *r, uint32_t from, uint32_t to, const uint32_t *copies, bool *failed);
/* A copy of n blocks that go to each other; `copies` has room for that many blocks, all that these go to among them, and tells
 * for each its copy, or DYN_NONE. */
DYN_HIDDEN void dyn_region_copy_blocks(DynRegion *r, const uint32_t *blocks, uint32_t n, uint32_t *copies, uint32_t room,
                                       bool *failed);
DYN_HIDDEN void dyn_region_drop_check(DynRegionInstr *in); /* which is never needed: an index, or an int that may overflow */
/* Blocks that nothing comes to any more aren't looked at, or compiled. `seen` is room for a byte for each block. */
DYN_HIDDEN void dyn_region_empty_unreached(DynRegion *r, uint8_t *seen);
DYN_HIDDEN void dyn_region_unroll(DynRegion *r); /* unroll.c: where memory is out, loops stay loops */
DYN_HIDDEN void dyn_region_nests(DynRegion *r);  /* nest.c: where memory is out, nests stay as they are */
DYN_HIDDEN void dyn_region_hoist(DynRegion *r);  /* hoist.c: where memory is out, checks stay where they are */
DYN_HIDDEN void dyn_region_facts(DynRegion *r);  /* facts.c: … and there, too */
/* ranges.c: the least and the greatest number that a load or a comparison can give; false: its operator tells nothing. */
DYN_HIDDEN bool dyn_region_bounds(uint16_t op, int64_t *low, int64_t *high);
/* facts.c: the instruction of a block that ends with a branch which makes the register, if its operands are still the same at the
 * branch; or NULL. */
DYN_HIDDEN const DynRegionInstr *dyn_region_condition(const DynRegionBlock *b, uint32_t reg);
/* emit.c: `seen` gets the blocks that control comes to from this one. */
DYN_HIDDEN void dyn_region_reach(const DynRegion *r, uint32_t block, uint8_t *seen);
/* emit.c: is a function of others called, which may take long, and clear the processor's flags? */
DYN_HIDDEN bool dyn_region_calls_out(DynRegionOp op);
/* trips.c: a loop that hoist.c or nest.c has copied, without checks. `front` has no end yet, and chooses by register `all`. Gives
 * the block by which the loop is entered; DYN_NONE: memory is out, and nothing may come to any of its blocks. */
typedef struct DynRegionQuick {
    uint32_t front, all;
    bool short_loop;        /* It has so few trips that nothing need be asked between them. */
    bool demands;           /* Of such a loop: trips depend on `all`, and not only the question behind them. */
    uint32_t slow, head;    /* The heads of the loop with checks and of the one without: */
    uint32_t left, after;   /* the register that ends it at 0, and the block behind it. */
    uint32_t next;          /* The counter, or DYN_NONE, */
    int64_t step;           /* and what is added to it in each trip. */
    uint32_t until;         /* The register that ends the loop without when `left` is the same; trips.c makes it. */
    const uint32_t *blocks; /* Those of the loop without, */
    uint32_t n;             /* so many. */
} DynRegionQuick;
DYN_HIDDEN uint32_t dyn_region_trips(DynRegion *r, DynRegionQuick *q);
/* ahead.c: recurrences of such a loop that need not wait for one trip after the other. false: memory is out, as above. */
DYN_HIDDEN bool dyn_region_ahead(DynRegion *r, const DynRegionQuick *q);
/* ranges.c: checks of such a loop that ranges of ints take out; front gets what they take, and `all` asks for more. */
DYN_HIDDEN bool dyn_region_ranges(DynRegion *r, DynRegionQuick *q);
/* element.c: a copy of such a loop in which an element of an array that it loads and stores in its trips is in a register. */
typedef struct DynRegionElement {
    uint32_t reg;         /* The register; DYN_NONE: there is no such element, and no copy. */
    uint32_t place, zero; /* Its address, as operands of a load or store: registers that q.front makes. */
    uint16_t load, store; /* The instructions that do that. */
    DynRegionQuick q;     /* The copy, whose block in front asks, and tells in q.all, whether nothing else is in that place. */
    uint32_t *blocks;     /* Its own, freed by who asked for it (PyMem_RawFree). */
} DynRegionElement;
DYN_HIDDEN bool dyn_region_hold_element(DynRegion *r, const DynRegionQuick *q, DynRegionElement *e); /* false: memory is out */
/* lines.c: how many bytes an instruction stores in an array; 0: it is another one. */
DYN_HIDDEN uint32_t dyn_region_stored(uint16_t op);
/* What the stores of such a loop find is saved in block `begin`, for the trips down to `until`, and put back in block `again`.
 * Stores that write to one place in all trips get imm 1. false: their places can't be told, or memory is out; what was added is
 * harmless, and neither block has an end. */
DYN_HIDDEN bool dyn_region_save_stores(DynRegion *r, const DynRegionQuick *q, uint32_t begin, uint32_t again, uint32_t until);
#endif
