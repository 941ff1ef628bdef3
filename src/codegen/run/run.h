/* run.h: an artifact's inside, shared by artifact.c (life) and run.c (calls). */
#ifndef DYN_RUN_H
#define DYN_RUN_H
#include "codegen/run/exec.h"
#include "ir/extern.h"
#include <stdatomic.h>

/* tune.c */
typedef struct DynTune DynTune;
typedef struct DynTrial { /* of one call */
    const DynNativeTable *table;
    int way; /* -1: it isn't timed */
    int64_t start;
} DynTrial;
DYN_HIDDEN DynTrial dyn_tune_start(DynArtifact *a, const DynRun *run);
DYN_HIDDEN void dyn_tune_end(DynArtifact *a, const DynTrial *trial); /* the call has gone through */
DYN_HIDDEN void dyn_tune_free(DynTune *t);

/* parts.c */
DYN_HIDDEN void dyn_parts_split(DynArtifact *a); /* what has been written, where it is much; before it is submitted */
DYN_HIDDEN void dyn_parts_join(DynArtifact *a);  /* before a call, where there is a rest that hasn't come yet */

/* sizes.c */
typedef struct DynSizes DynSizes;
DYN_HIDDEN void dyn_sizes_bind(DynArtifact *a, DynBound *b); /* of a kernel that reduces */
DYN_HIDDEN void dyn_sizes_submit(DynArtifact *a);            /* before a call, if there are some */
DYN_HIDDEN void dyn_sizes_free(DynSizes *s, long nkernels);

struct DynArtifact {
    Py_ssize_t refs; /* under the GIL */
    const DynTarget *target;
    const DynLoops *loops;
    const DynGraph *graph;
    long nnative;           /* kernels that the object has to have */
    DynStr source;          /* empty when it is settled … */
    const char *line;       /* … and written again behind this, NULL: nothing */
    DynStr first;           /* what is built of it, if not all … */
    DynArtifact *rest;      /* … and what has the rest, NULL; */
    DynNativeTable *joined; /* both in one table, once both are there */
    bool later;             /* it is built when nobody waits for anything else */
    DynConfig config;       /* with which it was made */
    DynTune *tune;          /* NULL: nothing to find out */
    DynSizes *sizes;        /* NULL: no rows were counted yet */
    bool built_in;          /* it has run in the built-in tier */
    atomic_int state;       /* 0 not asked, 1 queued, 2 done */
    DynLoaded *loaded;      /* written before table, which is in it */
    _Atomic(const DynNativeTable *) table;
    atomic_int failure; /* DynReason */
    char *detail;       /* written before failure */
};
#endif
