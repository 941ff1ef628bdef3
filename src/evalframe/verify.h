/* verify.h: the setting `verify` (verify.c), for those who run artifacts: hit.c and follow_part.c. */
#ifndef DYN_VERIFY_H
#define DYN_VERIFY_H
#include "codegen/codegen.h"

/* What is known of one artifact: beside it, set to zero when it is made. */
typedef struct DynVerify {
    int tier;      /* the one whose calls were counted */
    uint8_t calls; /* that were compared */
    bool effects;  /* its graph has calls that may have effects: none is compared */
    bool differs;  /* it gave something else than eager */
    uint32_t node; /* … first at this node */
} DynVerify;
/* Is this call to be compared? */
DYN_HIDDEN bool dyn_verify_is_due(DynVerify *v, const DynArtifact *a, const DynGraph *g);
/* As dyn_artifact_run, and compares. Where compiled code gave something else, v->differs is set, and the answer is DYN_RUN_AGAIN.
 * arena: lives as long as the graph. */
DYN_HIDDEN DynRunStatus dyn_verify_run(DynVerify *v, DynArtifact *a, const DynGraph *g, DynRun *run, DynArena *arena);
#endif
