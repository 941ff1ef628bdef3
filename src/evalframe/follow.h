/* follow.h: graphs whose values require gradients: what autograd follows of them.
 *
 * Such a graph is a list of steps, made once for its entry (follow.c). A step is a part: nodes that are compiled together, and
 * one node of autograd's, with a backward graph of its own (part.c); or changes in place that autograd doesn't follow; or a call
 * of PyTorch's, or a view, made by PyTorch itself while gradients are recorded (hit_follow.c). */
#ifndef DYN_FOLLOW_H
#define DYN_FOLLOW_H
#include "evalframe/door.h"
#include "ir/derive.h"

typedef struct DynPart DynPart; /* a Python object, dynoc._dynoc.Part */
typedef enum DynFollowKind { DYN_FOLLOW_PART, DYN_FOLLOW_CHANGES, DYN_FOLLOW_CALL, DYN_FOLLOW_VIEW } DynFollowKind;
/* A call of PyTorch's, or a view. */
typedef struct DynFollowCall {
    uint32_t node;         /* what it gives */
    const DynWhole *whole; /* of the graph; NULL: a view */
    bool passes;           /* nobody outside the part needs it */
} DynFollowCall;
typedef struct DynFollowStep {
    uint8_t kind;          /* DynFollowKind */
    uint32_t node;         /* CALL, VIEW: the node */
    const DynSplit *split; /* VIEW: the call that gives it with others, of the graph; NULL: it is made alone */
    DynPart *part;         /* PART, CHANGES: strong */
    DynList inputs;        /* PART, CHANGES: nodes of the graph that it takes … */
    DynList outputs;       /* … and gives; CHANGES gives nothing; a split: those of its views that are needed */
    DynFollowCall *calls;  /* PART: what it is as calls of PyTorch's, in their order; NULL: it is more than a few calls */
    uint32_t ncalls;
    DynList renewed;    /* CHANGES: what is there of x.data, as often as it is changed, which the versions of x don't count */
    DynWatched watched; /* CALL: what it took while somebody watched */
    DynList drops;      /* nodes that nobody needs behind it */
} DynFollowStep;
/* Which calls of the graph are left to CPython, as they don't look as if they paid. */
typedef enum DynFollowJudged {
    DYN_FOLLOW_TAKES_ALL,    /* none */
    DYN_FOLLOW_JUDGES_CALLS, /* those that are nothing but calls of PyTorch's, which are no faster from the graph */
    DYN_FOLLOW_JUDGES_ALL
} DynFollowJudged;
struct DynFollow {
    DYN_VEC(DynFollowStep)
    steps;
    uint8_t judged; /* DynFollowJudged */
    bool plain;     /* parts that are a few small calls of PyTorch's are those calls */
    DynArena arena;
};

/* ---- follow_part.c: as dyn_artifact_times, of all code of a part and of its gradients. */
DYN_HIDDEN int dyn_follow_part_times(const DynPart *p, PyObject *list);

/* ---- follow.c */
DYN_HIDDEN bool dyn_follow_wanted(const DynGraph *g); /* does anything that the graph computes require gradients? */
/* NULL with a reason and a sentence. It borrows the graph, whose changes in place it marks (DYN_NODE_APART). */
DYN_HIDDEN DynFollow *dyn_follow_new(DynGraph *g, const DynOptions *options, DynReason *why, DynStr *error);
DYN_HIDDEN void dyn_follow_free(DynFollow *f);
/* The nodes of a graph that have been made are `values`; these are needed too: they are made as a part of their own, which
 * autograd follows. 0, or -1 with an exception. */
DYN_HIDDEN int dyn_follow_complete(const DynGraph *g, DynRun *run, const bool *need);
DYN_HIDDEN bool dyn_follow_is_ready(const DynFollow *f);            /* is there code for its parts, or will there be none? */
DYN_HIDDEN DynTier dyn_follow_tier(const DynFollow *f);             /* the lowest of its parts */
DYN_HIDDEN void dyn_follow_source(const DynFollow *f, DynStr *out); /* the generated C of its parts */
DYN_HIDDEN size_t dyn_follow_bytes(const DynFollow *f);

/* ---- follow_calls.c */
DYN_HIDDEN const DynWhole *dyn_follow_whole(const DynGraph *g, uint32_t node); /* the call that gives it, or NULL */
DYN_HIDDEN bool dyn_follow_is_small(double elements); /* is a call of so many better made as it is than as a part? */
DYN_HIDDEN void dyn_follow_find_calls(const DynGraph *g, DynArena *arena, DynFollowStep *step);
/* Is the part made as the calls that it is, as its tensors are small? sym: NULL: with the sizes that it was recorded with. */
DYN_HIDDEN bool dyn_follow_is_calls(const DynGraph *g, const DynFollow *f, const DynFollowStep *s, const DynScalar *sym);

/* estimate.c: elements that a node goes over. */
DYN_HIDDEN double dyn_estimate_work(const DynGraph *g, const DynNode *n, const DynScalar *sym);
/* estimate.c: is a call of the capture's graph to be served, as `judged` has it? sym: NULL: with the sizes that it was recorded
 * with. */
DYN_HIDDEN bool dyn_estimate_followed(const DynCapture *c, const DynFollow *f, const DynScalar *sym);

/* ---- follow_part.c */
/* What parts of one graph share. */
typedef struct DynPartShare DynPartShare;
DYN_HIDDEN DynPartShare *dyn_part_share_new(const DynSyms *syms, const DynOptions *options);
DYN_HIDDEN void dyn_part_share_drop(DynPartShare *s);
/* The part of g between `inputs` and `outputs`. of: the part whose gradients it computes, or NULL. NULL with an exception, or
 * with a sentence in `error` and none. */
DYN_HIDDEN DynPart *dyn_follow_part(DynPartShare *s, const DynGraph *g, DynList inputs, DynList outputs, const DynPart *of,
                                    DynStr *error);
DYN_HIDDEN bool dyn_follow_part_follows(const DynPart *p);
DYN_HIDDEN uint32_t dyn_follow_part_outputs(const DynPart *p); /* how many tensors it gives, with those that are only saved */
DYN_HIDDEN bool dyn_follow_part_is_ready(DynPart *p);
DYN_HIDDEN const DynArtifact *dyn_follow_part_artifact(const DynPart *p); /* of its values; NULL: it has none */
DYN_HIDDEN size_t dyn_follow_part_bytes(const DynPart *p);
/* Runs it: a new tuple of its outputs, or NULL with an exception. sym: values of the symbols that g's table had. */
DYN_HIDDEN PyObject *dyn_follow_part_call(DynPart *p, const DynScalar *sym, PyObject *const *inputs);
DYN_HIDDEN int dyn_follow_part_compile(DynPart *p); /* asks for its code; -1: the parts can't be compiled, with no exception */
DYN_HIDDEN bool dyn_follow_part_has_code(const DynPart *p); /* of its values, and of gradients that are expected; or will have */
DYN_HIDDEN int dyn_follow_init(PyObject *module);

/* ---- follow_notes.c: setting debug: code of parts, forward's and backward's, is told of in this folder, now and when it is made
 */
DYN_HIDDEN void dyn_follow_note_in(const DynFollow *f, const char *folder);

/* ---- follow_node.c */
/* Is autograd in no mode that looks at how it gets to a gradient? */
DYN_HIDDEN bool dyn_follow_may_run(void);

/* ---- hit_follow.c */
DYN_HIDDEN DynRunStatus dyn_hit_followed(const DynEntry *e, DynRun *run);
#endif
