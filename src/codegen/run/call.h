/* call.h: one call of an artifact, for the files that make it: run.c drives it, call_memory.c gives it memory, undo.c keeps what
 * inputs held, and task_*.c run its steps. Nobody else includes it. All of it needs the GIL but for the `work` of a task. */
#ifndef DYN_CALL_H
#define DYN_CALL_H
#include "codegen/run/exec_chain.h"
#include "codegen/run/run.h"

typedef struct DynUndo DynUndo;

typedef struct DynCall {
    DynArtifact *a;                     /* What runs. */
    const DynLoops *p;                  /* Its loop IR. */
    DynRun *run;                        /* What the caller hands in, and gets. */
    const DynNativeTable *table;        /* The compiled kernels; NULL: the built-in tier runs them. */
    DynGeom *geoms;                     /* By place: where its elements lie. */
    PyObject **objects;                 /* By place: the array, an owned reference; NULL: not made yet, or dropped. */
    char *temps;                        /* Memory of temporaries, from the pool; what groups need for one row comes first. */
    size_t row_size;                    /* Bytes of that row. */
    PyObject *held;                     /* What holds that memory, where it isn't the pool; owned. */
    atomic_bool missed;                 /* An index named a place that isn't there. */
    bool wrote;                         /* A kernel, or a call that can be undone, has written into an input. */
    bool acted;                         /* An extern call has done something that can't be undone. */
    bool ranged;                        /* A profiler of PyTorch's wants to know the steps. */
    bool grad;                          /* PyTorch's recording of gradients was on, and is off during the call. */
    struct DynCudaRecording *recording; /* What the call is recorded into (cuda/replay.h); NULL: it runs. */
    DynUndo *undo;                      /* What the inputs held that kernels write; NULL: it isn't kept. */
    uint32_t made;                      /* How many rows of DynLoops.makes are done. */
    uint32_t dropped;                   /* How many rows of DynLoops.drops are done. */
    uint32_t paired;                    /* The last pair that has run as one; its second kernel is made. */
    uint32_t chained;                   /* The last chain that was tried. */
    uint32_t asked;                     /* The step in front of which flags were asked for last. */
    uint32_t arrived;                   /* 1 + the extern step whose call has begun (dyn_call_arrive). */
    int64_t reached;                    /* How many snapshots the call has come to. */
    int64_t leave_at;                   /* The snapshot at which config.force_leave has it leave the graph; < 0: none. */
    int flags;                          /* Floating-point flags of earlier steps. */
    PyObject *strict;                   /* Token of dyn_flags_strict; NULL: nothing was changed. */
    bool is_strict;                     /* NumPy raises where it would warn. */
    DynRunStatus status;                /* How the call ended, where a task says DYN_TASK_ENDED. */
} DynCall;

/* ---- tasks: steps as they run */

typedef enum DynTaskEnd {
    DYN_TASK_DONE,      /* The call goes on behind the task. */
    DYN_TASK_OTHERWISE, /* Nothing was done; another kind of task has to run the step. */
    DYN_TASK_REFUSED,   /* A size, a stride or a place isn't what the guards promised, or memory ran out. */
    DYN_TASK_ENDED      /* The call is over, as its `status` says. */
} DynTaskEnd;

typedef enum DynTaskId {
#define TASK(name, kind) DYN_TASK_##name,
#include "codegen/run/tasks.def"
#undef TASK
    DYN_TASK_COUNT
} DynTaskId;

/* A task between bind and finish. */
typedef struct DynTask {
    uint32_t first; /* The first step that it runs. */
    uint32_t last;  /* The last one. */
    double cost;    /* An estimate in tenths of a nanosecond, by which the GIL is given up. */
    union {
        DynBound bound; /* KERNEL */
        struct {
            DynBound *bounds; /* One for each kernel; owned. */
            int n;            /* How many they are. */
        } group;
        struct {
            DynBound a;      /* The first kernel. */
            DynBound b;      /* The second. */
            DynPair pair;    /* How their operands belong together. */
            int64_t divisor; /* What the sum of the first is divided by. */
        } pair;
        struct {
            DynLink *links; /* One for each product and kernel; owned. */
            int n;          /* How many they are. */
            int64_t rows;   /* Rows of all of them. */
            int64_t cost;   /* As the task's. */
        } chain;
        struct {
            DynLink link;    /* How the product is made. */
            PyObject *array; /* Where; owned. */
        } product;
    };
} DynTask;

/* A kind of task. */
typedef struct DynTaskKind {
    DynTaskEnd (*bind)(DynCall *c, DynTask *t); /* Finds what the task works on, `last` and `cost`; with the GIL. */
    int (*work)(DynCall *c, DynTask *t); /* Does it, without Python; runs only behind DYN_TASK_DONE. NULL: bind did everything. */
    DynTaskEnd (*finish)(DynCall *c, DynTask *t, int failed); /* Always follows `work`, whose answer `failed` is; with the GIL. */
} DynTaskKind;
#define TASK(name, kind) extern DYN_HIDDEN const DynTaskKind dyn_task_##kind;
#include "codegen/run/tasks.def"
#undef TASK

/* run.c */
DYN_HIDDEN DynRunStatus dyn_call_run(DynCall *c);      /* the call by its steps */
DYN_HIDDEN DynRunStatus dyn_call_hand_out(DynCall *c); /* what it gives, when everything is there */
DYN_HIDDEN void dyn_call_be_strict(DynCall *c,
                                   bool strict);       /* NumPy raises where it would warn; one change serves a row of calls */
DYN_HIDDEN bool dyn_call_can_repeat(const DynCall *c); /* Can CPython make the whole call again? */
DYN_HIDDEN DynRunStatus dyn_call_repeat(DynCall *c);   /* It does: inputs are as they were. */
DYN_HIDDEN int dyn_call_flags_due(const DynCall *c, int flags); /* Those that somebody has to hear of; -1 with an exception. */
/* Gives the warning that is due in front of a step, or has CPython give it. */
DYN_HIDDEN DynRunStatus dyn_call_check_flags(DynCall *c, uint32_t step);

/* call_memory.c. -1 and NULL come with an exception. */
DYN_HIDDEN int dyn_call_geom(PyObject *array, DynGeom *g); /* Where an array or a tensor lies. */
DYN_HIDDEN int dyn_call_find_inputs(DynCall *c);           /* Where inputs lie. */
DYN_HIDDEN int dyn_call_make_memory(DynCall *c);           /* Everything whose size is known when the call begins. */
DYN_HIDDEN int dyn_call_make_late_arrays(DynCall *c,
                                         uint32_t node); /* Those whose sizes extern call `node` told, and no step makes. */
DYN_HIDDEN int dyn_call_make_array(DynCall *c, uint32_t place);
DYN_HIDDEN const DynPiece *dyn_call_piece(const DynCall *c, uint32_t node); /* the piece that the node is, or NULL */
DYN_HIDDEN PyObject *dyn_call_new_array(const DynCall *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims,
                                        const DynLayout *layout);
/* For the result of a call that is made otherwise, in C order. NULL, without an exception: no memory, which the call is to say.
 */
DYN_HIDDEN PyObject *dyn_call_new_result(const DynCall *c, uint32_t node);
DYN_HIDDEN int dyn_call_view(DynCall *c, uint32_t place);       /* The geometry of a view, or of a DENSE place; no exception. */
DYN_HIDDEN PyObject *dyn_call_value(DynCall *c, uint32_t node); /* What Python gets for a node: new reference. */

/* undo.c */
DYN_HIDDEN void dyn_undo_keep(DynCall *c); /* Without memory for it there is no undo, which is no error. */
DYN_HIDDEN void dyn_undo_put_back(DynCall *c);
DYN_HIDDEN bool dyn_call_writes_input(const DynCall *c, uint32_t node); /* Does the node write into memory that came in? */
DYN_HIDDEN void dyn_undo_drop(DynCall *c);

/* task_kernel.c: binds a kernel to the memory of the call; -1: a size isn't what the graph says. */
DYN_HIDDEN int dyn_call_bind(DynCall *c, const DynKernel *k, DynBound *b);
DYN_HIDDEN void dyn_call_note_written(DynCall *c, const DynKernel *k); /* it has run: it may have written into an input */

/* task_call.c: what precedes each extern call, however it is made, and happens once (flags are looked at, and the graph may be
 * left); and what follows where its results are there: their memory, and that of what has sizes only now. */
DYN_HIDDEN DynTaskEnd dyn_call_arrive(DynCall *c, uint32_t step);
DYN_HIDDEN DynTaskEnd dyn_call_depart(DynCall *c, uint32_t step);
DYN_HIDDEN void dyn_call_drop_values(DynCall *c); /* those of a graph that was left */
#endif
