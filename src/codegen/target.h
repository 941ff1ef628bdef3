/* target.h: what depends on a device, or on the language of generated code. evalframe/compile.c, artifact.c and run.c know a
 * target by this struct alone; each target is one, made in the folder of its language and listed in run/target.c, which also
 * chooses. */
#ifndef DYN_TARGET_H
#define DYN_TARGET_H
#include "codegen/codegen.h"

struct DynCall;
struct DynTaskKind;
struct DynDescent;
struct DynTarget {
    const char *name;                     /* As logs say it. */
    const struct DynToolchain *toolchain; /* What makes objects of text (build/build.h). */
    /* Loop IR → text. 0, or -1 with a reason and a sentence. With the GIL; the text is the same for the same loop IR.
     * Kernels of a device whose code is the same get one number. */
    int (*emit)(const DynLoops *p, DynStr *source, DynReason *why, DynStr *error);
    /* The text needs nothing but kept loop IR (keep.c), no GIL and nothing that is looked up for the first time: the build thread
     * writes it (draft.c), and its parts. */
    bool written_apart;
    /* That text, of so many characters, in two parts, each compiled by itself: what a call like the recorded one needs, and what
     * it doesn't. -1: it isn't worth it, nobody could do meanwhile what the second does, or there is no memory. */
    int (*part)(const DynLoops *p, bool first, int64_t whole, DynStr *source);
    /* That text as a program of its own, which times its kernels: for debug folders. */
    void (*program)(const DynLoops *p, const DynConfig *config, const char *source, DynStr *out);
    /* Text → loaded object, published into the artifact when it is there. wait: it is there on return, or has failed. */
    void (*build)(DynArtifact *a, bool wait);
    /* Step → what it works on and what it launches: by DynTaskId (run/tasks.def), bind, work and finish. */
    const struct DynTaskKind *const *tasks;
    /* The array of a place, as Python gets it; NULL with an exception. */
    PyObject *(*allocate)(const struct DynCall *c, uint32_t place, uint8_t dtype, int ndim, const int64_t *dims,
                          const DynLayout *layout);
    /* Of a call that writes or has another effect, before anything runs: can each kernel that comes behind another step be
     * launched, by its number of elements? Later eager could not make the call. NULL: any can. */
    bool (*takes)(const struct DynCall *c);
    /* Memory of the call's temporaries: so many bytes, NULL where there are not; and back. */
    char *(*reserve)(struct DynCall *c, size_t bytes);
    void (*release)(struct DynCall *c);
    /* mode="reduce-overhead": the call as a replay of one like it, which status tells of. false: its steps have to run. NULL: the
     * target has nothing of the kind. */
    bool (*replay)(struct DynCall *c, DynRunStatus *status);
    void (*forget)(DynArtifact *a); /* what `replay` keeps with an artifact goes */
    /* Steps of gradient descent (run/descent.h), all on one device. Can they be made, now? And make them; -1 with an exception.
     */
    bool (*can_descend)(const struct DynDescent *steps, int64_t n, bool fused);
    int (*descend)(const struct DynDescent *steps, int64_t n, bool fused);
    /* What was launched is done: the floating-point flags (fenv.h) that it raised. */
    int (*synchronise)(const struct DynCall *c);
};

DYN_HIDDEN extern const DynTarget dyn_target_c;    /* C and OpenMP on this machine's processor, or its built-in tier */
DYN_HIDDEN extern const DynTarget dyn_target_cuda; /* CUDA devices */
/* The target that runs a graph: by where its tensors are. */
DYN_HIDDEN const DynTarget *dyn_target_of(const DynGraph *g);
DYN_HIDDEN const DynTarget *dyn_target_at(uint8_t device);
#endif
