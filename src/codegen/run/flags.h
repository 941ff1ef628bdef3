/* flags.h: floating-point flags of the hardware and what np.errstate says of them. Used by run.c and hit_eager.c. With the GIL.
 */
#ifndef DYN_FLAGS_H
#define DYN_FLAGS_H
#include "base/cpu_flags.h"
#include "ir/graph.h"

#define DYN_FLAGS_SEEN (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW)

DYN_HIDDEN int dyn_flags_wanted(int flags); /* those that np.errstate doesn't ignore; -1 with an exception */
DYN_HIDDEN bool dyn_flags_ignored(void);    /* np.errstate ignores all of them */
/* What ran since flags were asked for. */
typedef struct DynFlagsRan {
    uint32_t from, to;            /* nodes between two calls: from < id < to */
    uint32_t n;                   /* operators that ran … */
    uint32_t order[DYN_OP_COUNT]; /* … each the how manyth, from 1 on; 0: it didn't */
} DynFlagsRan;
/* The call can't be made again: the warning is given in the name of the first operator that can have raised the flag, from its
 * line; of one that ran, and stands where it ran, if there is one. -1 with an exception where np.errstate asks for one. */
DYN_HIDDEN int dyn_flags_warn(const DynGraph *g, int flags, const DynFlagsRan *ran);
/* From here on NumPy raises FloatingPointError where it would warn, in this thread: new token for dyn_flags_lenient, or NULL
 * where nothing was changed. */
DYN_HIDDEN PyObject *dyn_flags_strict(void);
/* From here on NumPy gives no floating-point warnings in this thread: as above. */
DYN_HIDDEN PyObject *dyn_flags_silent(void);
DYN_HIDDEN void dyn_flags_lenient(PyObject *token); /* takes the token; keeps the current exception */
#endif
