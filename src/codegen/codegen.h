/* codegen.h: the stages from graph to running code, as evalframe/compile.c calls them. Loop IR (loops.h) is private to this room.
 *
 *     common → lower → recompute → fuse → schedule → plan → emit → build → load
 *
 * Every stage before build works in an arena that lasts no longer than they do, with the GIL held, and calls no Python. */
#ifndef DYN_CODEGEN_H
#define DYN_CODEGEN_H
#include "base/log.h"
#include "ir/extern.h"
#include <stdatomic.h>

typedef struct DynLoops DynLoops;   /* the graph as kernels over iteration spaces */
typedef struct DynTarget DynTarget; /* a device and the language of its code: target.h */
/* Each stage: 0, or -1 with a reason (and a sentence in error). */
DYN_HIDDEN int dyn_common(DynGraph *g, DynArena *arena); /* -1: no memory */
DYN_HIDDEN DynLoops *dyn_lower(const DynGraph *g, const DynConfig *config, DynArena *arena, DynReason *why, DynStr *error);
/* From now on recompute and fuse write there why they did what they did. */
DYN_HIDDEN void dyn_loops_tell(DynLoops *p, DynStr *story);
DYN_HIDDEN int dyn_recompute(DynLoops *p, DynReason *why, DynStr *error);
DYN_HIDDEN int dyn_fuse(DynLoops *p, DynReason *why, DynStr *error);
DYN_HIDDEN int dyn_schedule(DynLoops *p, DynReason *why, DynStr *error);
DYN_HIDDEN int dyn_plan(DynLoops *p, DynReason *why, DynStr *error);
DYN_HIDDEN int dyn_emit_c(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error);
/* keep.c: a copy of what is still needed when the stages are through; NULL: memory. */
DYN_HIDDEN DynLoops *dyn_loops_keep(const DynLoops *p, DynArena *arena);
/* The source as a program that times its kernels, with the GIL. */
DYN_HIDDEN void dyn_emit_program(const DynLoops *p, const DynConfig *config, const char *source, DynStr *out);
DYN_HIDDEN int dyn_loops_verify(const DynLoops *p, DynStr *error);
DYN_HIDDEN void dyn_loops_print(const DynLoops *p, DynStr *out);

/* An artifact: what a graph became. Reference counted; outlives the capture's stages but borrows the graph, which its entry keeps
 * alive. */
typedef struct DynArtifact DynArtifact;
typedef enum DynTier { DYN_TIER_EAGER, DYN_TIER_BUILTIN, DYN_TIER_NATIVE } DynTier;
/* source is taken over; empty: it is written later. */
DYN_HIDDEN DynArtifact *dyn_artifact_new(const DynTarget *target, const DynLoops *p, DynStr *source, const DynGraph *g,
                                         const DynConfig *config);
/* Before the artifact is built: writes its text if that wasn't done yet, unless the build thread does (draft.c). What is much
 * text is split (parts.c). */
DYN_HIDDEN void dyn_artifact_write(DynArtifact *a);
/* Asks the target for native code. wait: return when it is there, or has failed (the GIL is released meanwhile). */
DYN_HIDDEN void dyn_artifact_build(DynArtifact *a, bool wait);
DYN_HIDDEN size_t dyn_artifact_bytes(const DynArtifact *a); /* that it holds, but for compiled objects; with the GIL */
DYN_HIDDEN void dyn_artifact_incref(DynArtifact *a);
DYN_HIDDEN void dyn_artifact_decref(DynArtifact *a); /* with the GIL */
/* The generated C, which is written again where it isn't kept (any more). */
DYN_HIDDEN void dyn_artifact_source(const DynArtifact *a, DynStr *out);
/* Setting debug, with the GIL: the file gets a line for each build of it, those that have ended and those that will. of: what it
 * is code of, for people; a string that stays. */
DYN_HIDDEN void dyn_artifact_tell_builds(DynArtifact *a, const char *path, const char *of);
DYN_HIDDEN long dyn_artifact_kernel_count(const DynArtifact *a);
/* A dict for each step that ran while somebody watched (base/watch.h), appended to the list. -1 with an exception. */
DYN_HIDDEN int dyn_artifact_times(const DynArtifact *a, PyObject *list);
DYN_HIDDEN int dyn_artifact_steps(const DynArtifact *a, PyObject *list); /* … for each step there is, without times */
DYN_HIDDEN DynTier dyn_artifact_tier(const DynArtifact *a);              /* with the GIL */
DYN_HIDDEN DynReason dyn_artifact_failure(const DynArtifact *a,
                                          const char **detail); /* why there will be no native code; DYN_R_OK: none known */

/* mode="max-autotune", before the artifact is submitted: try several ways to compile it, in the calls that come, and keep the
 * fastest; and behind that, so that its own comes first. */
DYN_HIDDEN void dyn_artifact_tune(DynArtifact *a);
DYN_HIDDEN void dyn_artifact_tune_submit(DynArtifact *a);
DYN_HIDDEN bool dyn_replays_always(bool always);     /* test: even where it doesn't pay; what held before */
DYN_HIDDEN void dyn_artifact_replay(DynArtifact *a); /* mode="reduce-overhead", where the target has anything of the kind */

/* parts.c, behind that: what a call like the one that was recorded doesn't need. The built-in tier does it meanwhile. */
DYN_HIDDEN void dyn_artifact_rest_submit(DynArtifact *a);
DYN_HIDDEN int64_t dyn_parts_above(int64_t text); /* test: so much text from now on; how much it was */

/* sizes.c, with the GIL: the i-th of the lengths of rows that a kernel has a function of its own for; false: there are fewer. */
DYN_HIDDEN bool dyn_artifact_length(const DynArtifact *a, long i, int *kernel, int64_t *n);
DYN_HIDDEN int64_t dyn_sizes_often(int64_t rows); /* test: after so many rows from now on; how many it was */

/* Ask for native code: disk cache, else compiler in the background thread (off the GIL). wait: return when done (GIL released
 * meanwhile). */
DYN_HIDDEN void dyn_build_submit(DynArtifact *a, bool wait);
DYN_HIDDEN void dyn_build_wait_all(
    void); /* dynoc.wait(); releases the GIL; interruptible by signals: returns early with an exception set */
/* With the GIL: log, count and warn about builds that have ended since, and drop their artifacts; in a child, submit again what
 * the fork dropped. dyn_build_submit and _wait_all do it too; so does a call that finds no native code yet. */
DYN_HIDDEN void dyn_build_reap(void);
/* `told` is called between two instructions of Python code, in the main thread, behind each build that has ended. */
DYN_HIDDEN void dyn_build_tell(int (*told)(void *));
extern DYN_HIDDEN atomic_bool dyn_build_news; /* there is something to reap */
static inline void dyn_build_poll(void) {
    if (DYN_UNLIKELY(atomic_load_explicit(&dyn_build_news, memory_order_relaxed))) {
        dyn_build_reap();
    }
}
/* load.c, any thread: about how much memory the compiled objects take that are loaded, and how many there are (n; NULL: not
 * asked); those that nobody uses go. */
DYN_HIDDEN size_t dyn_load_bytes(int *n);
DYN_HIDDEN void dyn_load_trim(void);
DYN_HIDDEN int dyn_codegen_init(PyObject *module); /* atfork handlers, test functions for tests/ir */

typedef enum DynRunStatus {
    DYN_RUN_OK = 0,
    DYN_RUN_ERROR = -1, /* Python exception set (memory) */
    DYN_RUN_LEFT = 1,   /* stopped before the node of a snapshot: run->snapshot; what exists by then is in run->values */
    DYN_RUN_AGAIN = 2   /* nothing that can be seen has happened, and eager has to run the call (floating-point warning due) */
} DynRunStatus;
/* Where tensors lie that guards have looked at, by source; valid as long as nobody else has checked the same guards. */
typedef struct DynViews {
    const DynArrayView *at; /* NULL: there are none */
    const uint64_t *checks;
    uint64_t check;
} DynViews;
/* Inputs that are no objects of their own, and outputs for which none is made: their elements lie in the memory of `block`. */
typedef struct DynPiece {
    uint32_t node;  /* of the graph that runs */
    int64_t offset; /* in bytes, from where the block begins */
    DynArrayView at;
} DynPiece;
typedef struct DynPieces {
    const DynPiece *at;
    uint32_t n;
    PyObject *block; /* a tensor; borrowed */
} DynPieces;
typedef struct DynRun DynRun;
struct DynRun {
    PyObject *const *inputs;  /* exact ndarrays that passed their guards, in graph.inputs order, kept alive by the caller; NULL
                               * for one of the pieces */
    PyObject *const *sources; /* the objects at sources, for extern calls that take them */
    DynViews views;
    const DynConfig *config; /* the settings that hold for this call: read at its beginning, with the GIL */
    DynScalar *sym;          /* every symbol's value; those of results of extern calls are filled in */
    DynPieces pieces;        /* only where dyn_artifact_takes_pieces */
    PyObject **outputs;      /* out: new references in graph.outputs order (arrays, NumPy scalars for DYN_NODE_NPSCALAR); NULL for
                              * one of the pieces */
    uint32_t snapshot;       /* LEFT */
    PyObject *error;         /* LEFT: the exception that is to be raised there, or NULL: strong */
    PyObject *given;         /* LEFT: what the call gave that was made there, so that CPython goes on behind it; NULL: strong */
    PyObject **values;       /* LEFT: new array (PyMem) of node values, NULL where nobody needs them; new references */
    /* LEFT: makes those that `snapshot` needs and that the artifact hasn't made. 0, or -1 with an exception: the others stay. */
    int (*complete)(void *owner, DynRun *run);
    bool (*holds)(void *owner); /* Is everything still as the run found it? Asked behind calls that open (DynExtern). */
    void *owner;
};
DYN_HIDDEN DynRunStatus dyn_artifact_run(DynArtifact *a, DynRun *run);
/* call_memory.c: may the next call have pieces? What looks at its arrays as objects takes none. */
DYN_HIDDEN bool dyn_artifact_takes_pieces(const DynArtifact *a);
/* May an output of the graph be a piece? It lies in C order in memory that kernels write. */
DYN_HIDDEN bool dyn_artifact_makes_piece(const DynArtifact *a, uint32_t node);
/* The sizes and strides of such an output, with these symbols' values; `data` says nothing. Its bytes, or -1: too many. */
DYN_HIDDEN int64_t dyn_artifact_lay_piece(const DynArtifact *a, uint32_t node, const DynScalar *sym, DynArrayView *out);

/* The reference interpreter: evaluates graph node by node with NumPy itself (the oracle of tests, DYNOC_CHECK, and what leaving
 * in mid-artifact uses for values that were never materialised). values: nnodes slots; those not NULL are taken as they are.
 * Evaluates the nodes that `wanted` (a node id) needs. New reference or NULL with an exception. */
DYN_HIDDEN PyObject *dyn_interp_node(const DynGraph *g, const DynRun *run, PyObject **values, uint32_t wanted);
/* call_memory.c: the tensor of a view, whose elements lie where `where` says in the memory of `base`. New reference. */
DYN_HIDDEN PyObject *dyn_run_window(const DynGraph *g, const DynNode *n, PyObject *base, const DynArrayView *where);
/* Makes the call of an EXTERN node: values gets it and the RESULT nodes behind it. An exception is set where it isn't OK.
 * given: as dyn_extern_run has it. */
DYN_HIDDEN DynExternStatus dyn_interp_extern(const DynGraph *g, const DynRun *run, PyObject **values, uint32_t call,
                                             PyObject **given);
/* task_call.c: behind a call that gave `given` (taken over; NULL: it doesn't open, or raised). What it gave is the run's, and the
 * graph is left behind it (OTHER), where it isn't what was recorded or anything is no longer as the run found it. */
DYN_HIDDEN DynExternStatus dyn_run_opened(DynRun *run, DynExternStatus status, PyObject *given);
#endif
