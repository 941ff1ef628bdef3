/* par.h: threads that run kernels. par.c has them; without the GIL. */
#ifndef DYN_PAR_H
#define DYN_PAR_H
#include "base/base.h"

/* fn(ctx, 0) … fn(ctx, nchunks - 1), each once, on any thread, returns when all are done. No GIL needed. Serial after a fork and
 * where there is one thread. A worker runs with the caller's MXCSR (rounding, flush bits) with the exception flags cleared; flags
 * that workers raised are or-ed into the caller's MXCSR. fn must not call Python. */
DYN_HIDDEN void dyn_par_for(void (*fn)(void *ctx, int64_t chunk), void *ctx, int64_t nchunks);
/* How many threads this thread's regions may have from now on (config.threads); 0: as many as there are processors for. */
DYN_HIDDEN void dyn_par_limit(int64_t threads);
DYN_HIDDEN int dyn_par_threads(void); /* how many threads dyn_par_for may use: 1 is serial; cheap */
/* … and how many would run a region of so many chunks now, where the compiler may have one of the processors. */
DYN_HIDDEN int dyn_par_team(int64_t nchunks);
DYN_HIDDEN void dyn_par_refresh(void);        /* look again for the process's OpenMP runtime */
DYN_HIDDEN void dyn_par_forked(void);         /* in the child: serial from now on */
DYN_HIDDEN const char *dyn_par_runtime(void); /* path of the OpenMP runtime in use, or NULL */
typedef struct DynRest {
    int64_t until_ns; /* no threads before; 0: now */
    int times;        /* the last rest was so many times what was lost; halved by each region in time */
} DynRest;
/* After a region that ended now. */
DYN_HIDDEN void dyn_rest_learn(DynRest *r, int64_t now_ns, int64_t worked_ns, int64_t waited_ns);
#endif
