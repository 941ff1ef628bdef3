/* region.h: from bytecode to regions: which loops of a function could be one, and the region of a loop with the types that are
 * there when its header is reached. Called by evalframe; ir/region.h has what is done with a region. With the GIL. */
#ifndef DYN_REGION_H
#define DYN_REGION_H
#include "ir/region.h"
#include "tracer/bytecode/decode.h"

/* Why there is no region for a loop. */
typedef struct DynRegionRefusal {
    DynReason reason;
    uint32_t at;      /* The code unit of the instruction that is to blame. */
    char detail[160]; /* What it is, in words. */
    unsigned unless;  /* It is this that the loop does: DYN_UNLESS_*. 0: it is a reason. */
} DynRegionRefusal;

/* What makes a loop that could be a region one that is left to graphs, where the caller says so. */
#define DYN_UNLESS_ARRAYS 1u /* It computes whole arrays, and not their elements alone. */
#define DYN_UNLESS_LEAF 4u   /* Always: of a function that calls itself this call makes no other. */
#define DYN_UNLESS_PATHS 2u  /* It is left on some paths for operations on arrays. */

/* Code units of the headers that could have a region, by bytecode alone: where a function begins that calls itself (all of it is
 * the region then), and targets of jumps back that dominate the jump, with no yield in between. Outer loops stand before those
 * nested in them. Returns how many there are; `at` gets the first `room`. */
DYN_HIDDEN uint32_t dyn_region_headers(const DynCode *c, uint32_t *at, uint32_t room);

/* A region for the loop at code unit `header` with what is in the slots now (dyn_region_run has their order; NULL: unbound).
 * NULL with *why filled in, and no exception: the loop has none with these, or does what it is not to do (`unless`). Borrows
 * nothing: what it needs of `c`, globals and builtins it holds. Asks for no compiler. */
DYN_HIDDEN DynRegion *dyn_region_plan(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack,
                                      PyObject *globals, PyObject *builtins, unsigned unless, DynRegionRefusal *why);
#endif
