/* lines.h: which places of arrays the trips of a loop without checks of indices read and write, as far as that can be told in
 * front of them; lines.c follows a trip. stores.c and element.c include it. Nothing is owned but the list of accesses. */
#ifndef DYN_REGION_LINES_H
#define DYN_REGION_LINES_H
#include "codegen/region/region_code.h"

/* Of a register: registers that hold what it is in the first trip, how much more it is in each later one (DYN_NONE: it is the
 * same in all of them), and how much more it may be beside that in any trip (DYN_NONE: nothing). */
typedef struct DynLine {
    bool known;
    uint32_t first, more, width;
} DynLine;
/* The same in all trips. */
static inline bool dyn_line_stays(const DynLine *a) { return a->known && a->more == DYN_NONE && a->width == DYN_NONE; }

/* A load or store of an array's element: an instruction of the loop, and its address. */
typedef struct DynAccess {
    uint32_t block, at;
    DynLine place;
} DynAccess;
typedef DYN_VEC(DynAccess) DynAccesses;

/* All stores of the loop, and its loads, too, if they are wanted, in their order; what their lines need is computed at the end of
 * block `front`. The caller frees them. false: memory is out. */
DYN_HIDDEN bool dyn_region_accesses(DynRegion *r, const DynRegionQuick *q, uint32_t front, bool loads, DynAccesses *all);
/* An instruction in `front`, or one behind the first `from` of that block that computes the same of the same. */
DYN_HIDDEN uint32_t dyn_region_add_once(DynRegion *r, uint32_t front, uint32_t from, DynRegionInstr in, bool *failed);
/* Bytes of the array's element that the instruction loads or stores; 0: it does neither. */
DYN_HIDDEN uint32_t dyn_region_accessed(uint16_t op);
#endif
