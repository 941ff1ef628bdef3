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

/* times.c */
typedef struct DynStepTimes DynStepTimes;

/* parts.c */
DYN_HIDDEN void dyn_parts_split(DynArtifact *a); /* what has been written, where it is much; before it is submitted */
/* Any thread: the text, which has `whole` characters, in two parts; false: it is one, and nothing is written. */
DYN_HIDDEN bool dyn_parts_write(const DynTarget *target, const DynLoops *p, int64_t whole, DynStr *first, DynStr *rest);
DYN_HIDDEN void dyn_parts_add_rest(DynArtifact *a, DynStr *rest); /* where it has none; the text is taken over */
DYN_HIDDEN void dyn_parts_join(DynArtifact *a);                   /* before a call, where there is a rest that hasn't come yet */

/* sizes.c */
typedef struct DynSizes DynSizes;
DYN_HIDDEN void dyn_sizes_bind(DynArtifact *a, DynBound *b); /* of a kernel that reduces */
DYN_HIDDEN void dyn_sizes_submit(DynArtifact *a);            /* before a call, if there are some */
DYN_HIDDEN void dyn_sizes_free(DynSizes *s, long nkernels);

/* What a graph became: what runs it, until there is native code and from then on. */
struct DynArtifact {
    Py_ssize_t refs;                       /* How many hold it; changed under the GIL. */
    const DynTarget *target;               /* The device that runs it. */
    const DynLoops *loops;                 /* The graph as kernels and steps. */
    const DynGraph *graph;                 /* The graph. */
    long nnative;                          /* So many kernels the compiled object has to have. */
    DynStr source;                         /* The generated C, emptied once it is built or has failed. */
    const char *line;                      /* A line in front of the C when it is written again; NULL: none. */
    DynStr first;                          /* The part of the C that is built first, where it isn't built as one. */
    DynArtifact *rest;                     /* The artifact that has the rest of the C, or NULL. */
    DynNativeTable *joined;                /* The functions of both parts, once both are built. */
    bool later;                            /* It is built when nobody waits for anything else. */
    DynConfig config;                      /* The configuration that it was made with. */
    DynTune *tune;                         /* The trials of mode="max-autotune", or NULL. */
    bool asks_replay;                      /* mode="reduce-overhead". */
    struct DynReplays *replays;            /* What the target keeps for it, or NULL. */
    DynSizes *sizes;                       /* The lengths of rows that came, or NULL where none were counted yet. */
    DynStepTimes *times;                   /* What its steps took while somebody watched, or NULL. */
    DynStr builds;                         /* setting debug: a line for each build that nobody has written down yet. */
    char *builds_file;                     /* Where they are written, or NULL while it isn't known. */
    const char *builds_of;                 /* What is built, for people. */
    bool built_in;                         /* It has run in the built-in tier. */
    atomic_int state;                      /* 0: native code wasn't asked for. 1: it is queued. 2: it is built, or failed. */
    DynLoaded *loaded;                     /* The compiled object; written before `table`, which lies in it. */
    _Atomic(const DynNativeTable *) table; /* The native functions, or NULL. */
    atomic_int failure;                    /* DynReason: why there will be no native code. */
    char *detail;                          /* A sentence about that; written before `failure`. */
};
#endif
