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
} DynRegionRefusal;

/* Code units of the headers that could have a region, by bytecode alone: targets of jumps back that dominate the jump, with no
 * yield in between. Outer loops stand before those nested in them. Returns how many there are; `at` gets the first `room`. */
DYN_HIDDEN uint32_t dyn_region_headers(const DynCode *c, uint32_t *at, uint32_t room);

/* A region for the loop at code unit `header` with what is in the slots now (dyn_region_run has their order; NULL: unbound).
 * NULL with *why filled in, and no exception: the loop has none with these. Borrows nothing: what it needs of `c`, globals and
 * builtins it holds. Asks for no compiler. */
DYN_HIDDEN DynRegion *dyn_region_plan(const DynCode *c, uint32_t header, PyObject *const *slots, uint32_t nstack,
                                      PyObject *globals, PyObject *builtins, DynRegionRefusal *why);
#endif
