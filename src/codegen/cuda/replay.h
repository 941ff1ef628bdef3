/* replay.h: CUDA graphs (mode="reduce-overhead"): a call of a graph recorded once, and replayed by one launch. recording.c makes
 * recordings, replay.c plays them, launch.c tells them of kernels. Read by this room alone. */
#ifndef DYN_CUDA_REPLAY_H
#define DYN_CUDA_REPLAY_H
#include "codegen/cuda/target.h"

/* A word of a kernel's struct that each call has its own of: a number, or an address in the memory of a place. */
typedef struct DynPatch {
    uint32_t word;
    uint32_t place;        /* The one that owns the bytes. */
    int64_t at;            /* What the word was in the recording. */
    const DynParam *param; /* The number; NULL: it is an address. */
} DynPatch;

/* One of dynoc's kernels in a recording: what it was launched with, and what of it follows the memory of a call. */
typedef struct DynReplayed {
    DynCudaNode *node;
    DynCudaNodeParams launch;
    int64_t *words; /* As the executable graph has them. */
    DYN_VEC(DynPatch)
    patches;
} DynReplayed;

/* A recording serves calls with the same sizes, numbers and strides, whose inputs lie where they lay unless their place is
 * patched or copied. Owned by the artifact's DynReplays. */
typedef struct DynCudaRecording {
    struct DynCudaRecording *next;
    uint32_t nplaces, ninputs;
    DynScalar *sym;    /* Of all symbols. */
    DynGeom *geoms;    /* By place, as it was recorded. */
    PyObject **made;   /* By place: the recording's tensor of a call that the graph gives out, owned; NULL: there is none. */
    PyObject **still;  /* By input: the tensor that it is copied to, owned; NULL: it isn't copied. */
    PyObject *graph;   /* torch.cuda.CUDAGraph, which owns memory and nodes. */
    DynCudaExec *exec; /* Its executable form. */
    void *stream;      /* Where it is played: elsewhere two calls could be at work in the same memory. */
    DYN_VEC(DynReplayed)
    kernels;
    DYN_VEC(PyObject *)
    memory;      /* Tests: what has to outlive the recording, owned. */
    bool failed; /* While it is made: a launch couldn't be noted. */
    DynStr why;  /* … and why there is none. */
} DynCudaRecording;

/* Of an artifact. */
typedef struct DynReplays {
    DynCudaRecording *first; /* The one that served last. */
    int n, tries;            /* How many there are, and how many were made. */
    uint32_t nsyms;          /* Symbols that the graph may have: those that came behind them are of other parts. */
    bool *touched;           /* By place that owns bytes: a call that isn't dynoc's kernel reads it. */
    bool *varies;            /* By symbol: only dynoc's kernels read it, as a number. */
    bool *moves;             /* By input: it has been seen in different places. */
    char **last;             /* By input: where it lay last; NULL: it wasn't seen. */
    bool off;                /* Calls are launched as without it: why was said. */
} DynReplays;

/* replay.c */
DYN_HIDDEN bool dyn_cuda_replay(DynCall *c, DynRunStatus *status); /* DynTarget.replay */
DYN_HIDDEN void dyn_cuda_forget(DynArtifact *a);                   /* DynTarget.forget */
DYN_HIDDEN void dyn_recording_free(DynCudaRecording *r);
DYN_HIDDEN int dyn_replay_copy(PyObject *to, PyObject *from); /* elements of a tensor into another one */
/* No recording of this graph will be made: the reason is counted, and logged in "perf". */
DYN_HIDDEN void dyn_replay_refuse(DynReplays *r, const DynLoops *p, const char *why);

/* recording.c: a recording of a call like this one, which has not run behind it; NULL without an exception: there is none, and
 * perhaps never will be. */
DYN_HIDDEN bool dyn_recording_possible(const DynLoops *p, const char **why);
/* Fills DynReplays.touched and .varies, which are zeroed. */
DYN_HIDDEN void dyn_recording_touch(const DynLoops *p, bool *touched, bool *varies);
DYN_HIDDEN DynCudaRecording *dyn_recording_make(DynReplays *all, DynCall *c, void *stream);
DYN_HIDDEN int dyn_recording_keep(DynCudaRecording *r, PyObject *tensor); /* as long as the recording; -1 with an exception */
/* launch.c, of a kernel just launched: its lines' structs lie in `words`, line i from word first[i] on. */
DYN_HIDDEN void dyn_recording_note(DynCudaRecording *r, const DynCudaNodeParams *launch, void *stream, const int64_t *words,
                                   int nwords, const DynCudaLine *lines, const int *first, int nlines);
#endif
