/* entry.h: cache entries, guard programs, and the door. */
#ifndef DYN_ENTRY_H
#define DYN_ENTRY_H
#include "codegen/codegen.h"
#include "evalframe/verify.h"
#include "evalframe/watched.h"
#include "ir/capture.h"
#include "tracer/record/record.h"

/* guards.c: a capture's guards compiled to one flat program. */
typedef struct DynGuardProgram DynGuardProgram;
typedef struct DynEnv { /* what a hit leaves behind: filled sources and symbols, valid until dyn_env_clear */
    PyObject **src; /* by source id; NULL where not needed. Graph inputs and recipe sources stay alive: arguments by the caller,
                     * all others by references that a hit takes and dyn_env_clear drops */
    DynScalar *sym; /* by symbol id */
    DynViews views;
} DynEnv;
DYN_HIDDEN DynGuardProgram *dyn_guards_compile(const DynCapture *c); /* NULL: memory */
DYN_HIDDEN void dyn_guards_free(DynGuardProgram *p);
DYN_HIDDEN size_t dyn_guards_bytes(const DynGuardProgram *p);
DYN_HIDDEN void dyn_guards_trim(DynGuardProgram *p); /* gives back room that it doesn't need */
DYN_HIDDEN int dyn_guards_slots(DynGuardProgram *p, DynVisitSlot *visit,
                                void *arg);            /* as dyn_capture_slots: what p itself counts */
DYN_HIDDEN void dyn_guards_forget(DynGuardProgram *p); /* whatever was found out by earlier calls is asked again */
/* Slots that an env needs; the caller gives the memory (stack or heap), it is initialised by check. */
DYN_HIDDEN void dyn_guards_sizes(const DynGuardProgram *p, uint32_t *nsrc, uint32_t *nsym);
/* locals: the bound arguments (slots of the function's locals at entry). 1 hit, 0 miss. Never raises, runs no Python code. After
 * a hit the caller has to call dyn_env_clear when it is done with env (with the same program); after a miss there is nothing to
 * clear. */
DYN_HIDDEN int dyn_guards_check(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynEnv *env);
/* In the middle of the call that env is of: would a check hit now, and find the same objects, sizes and numbers? */
DYN_HIDDEN bool dyn_guards_hold(DynGuardProgram *p, PyObject *func, PyObject *const *locals, const DynEnv *env);
DYN_HIDDEN bool dyn_guards_missed_name(const DynGuardProgram *p); /* a call that it didn't fit had another string or other keys */
DYN_HIDDEN void dyn_env_clear(const DynGuardProgram *p, DynEnv *env); /* may run destructors; keeps the current exception */
/* After a miss: how many guards fail, how many things differ (of an array dtype and rank are two), and which guard is the first
 * in recording order that fails; NULL: none does, but something else that the entry needs isn't there. */
typedef struct DynMiss {
    uint32_t failed, differs;
    const DynGuard *first;
} DynMiss;
/* … and that guard as a Python expression with old value → new value. Nothing is added to out when nothing fails (another thread
 * changed something since). Keeps the current exception. */
DYN_HIDDEN DynMiss dyn_guards_explain(DynGuardProgram *p, PyObject *func, PyObject *const *locals, DynStr *out);

/* Stages of the pipeline, in order: STAGE(name). compile.c has one function for each. */
#define DYN_STAGES(STAGE) \
    STAGE(verify)         \
    STAGE(guards)         \
    STAGE(lower)          \
    STAGE(recompute) STAGE(fuse) STAGE(schedule) STAGE(plan) STAGE(emit) STAGE(build) STAGE(rewrite) STAGE(enter)
typedef enum DynStage {
#define STAGE(name) DYN_STAGE_##name,
    DYN_STAGES(STAGE)
#undef STAGE
        DYN_STAGE_COUNT
} DynStage;
extern DYN_HIDDEN const char *const dyn_stage_names[DYN_STAGE_COUNT];

/* CPython's own code for an entry's stretch, with a trap where dynoc goes on. Made when it is first needed. */
typedef struct DynPlain {
    PyObject *code;     /* NULL: there is none (yet) */
    PyObject *function; /* … made of it; NULL: not made yet */
    PyObject *way_out;  /* what its trap asks */
    bool tried;
} DynPlain;

/* One cache entry: a segment of a function under guards. Refcounted under the GIL: the cache has one reference, each call that
 * runs it and each Python-visible Entry another. */
typedef struct DynEntry {
    Py_ssize_t refs;
    DynCapture *capture; /* owned: graph, recipes, snapshots */
    DynGuardProgram *guards;
    DynArtifact *artifact;       /* NULL where the segment has no array work, or where it is run node by node or not at all */
    PyObject *code;              /* BREAK: the rewritten code object; NULL elsewhere until somebody asks for it */
    PyObject *function;          /* BREAK: function made of code; called on a hit; NULL: not made yet */
    PyObject *runner;            /* BREAK: what code calls first */
    DynPlain waiting;            /* BREAK, code with loops: what runs while there is no native code yet */
    DynPlain aside;              /* BREAK, one trip of a for loop: the loop, which is left at its end; PASS: up to the end */
    DynPlain around;             /* BREAK: the stretch, up to the instruction that it ends in front of, where it isn't served */
    PyObject *resume[DYN_WAYS];  /* BREAK, PASS: the doors of the resume functions; NULL: no such way */
    PyObject *goes_on[DYN_WAYS]; /* … and what code calls there: their continuations */
    bool tensors;                /* it has tensors of PyTorch's */
    bool works;                  /* its graph computes something */
    bool rents;                  /* no native code was asked for yet: rent.c */
    uint64_t rent;               /* … cycles spent without it so far */
    bool idles;                  /* one trip of a loop, without array work: `aside` runs all that are left */
    uint32_t trips;              /* … that it was hit for, one after the other */
    bool wrong;                  /* it was left where it had guessed */
    int64_t hits;
    DynWatched watched;         /* what its calls took while somebody watched */
    bool found;                 /* its guards held for a call */
    uint32_t used;              /* dyn_memory_now of the last such call, or when it was made */
    size_t bytes;               /* counted for it in memory.c; 0: it isn't in a cache yet */
    int64_t made_ns;            /* when it was made: dyn_now_ns */
    uint32_t number;            /* in order of making, for logs */
    struct DynOptions *options; /* where they have settings of the function's own, which hold for its runs; else NULL */
    DynVerify verify;           /* what was compared with eager's values */
    DynReason plain;            /* not OK: why a hit runs the function as plain Python */
    uint32_t flagged;           /* so many calls more than were not so were made by CPython too, whose a warning is */
    struct DynFollow *follow;   /* the steps of a graph whose values require gradients; NULL: none do */
    uint32_t declined;          /* … and so many calls, one after the other, didn't look as if following them paid */
    bool interpreted;           /* back end "eager": the graph runs node by node */
    PyObject *handed;           /* what a back end made of the graph: dyn_hit_handed; NULL: nothing (yet) */
    uint32_t nsrc, nsym;        /* what its env needs */
    uint32_t nstate;            /* BREAK: what the runner gives: recipes of bound locals, then of the stack */
    uint32_t *state;            /* in the capture's arena */
    int32_t shift;              /* capture->code is a resume code: units by which the recorded code's positions are moved in it */
    int64_t stage_ns[DYN_STAGE_COUNT];
    struct DynEntry *next; /* hold.c: of those that go */
} DynEntry;
#endif
