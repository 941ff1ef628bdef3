/* native.h: what a compiled object exports, and the line between artifact.c (owns artifacts, runs graphs) and build.c (compiles,
 * loads).
 *
 * A compiled object holds only kernels: functions over blocks of lanes, no headers, no libraries but libm and libmvec, no OpenMP,
 * no global state. Views, strides, blocks, threads, allocation and extern calls are the extension's own code (exec.c): the same
 * for every graph, so the generated text is short and compiles in a tenth of a second.
 *
 * The object's one exported symbol is `dyn_kernels`, a DynNativeTable. build.c checks abi and count, then publishes. */
#ifndef DYN_NATIVE_H
#define DYN_NATIVE_H
#include "base/log.h"
#include "codegen/codegen.h"
#include "codegen/machine.h"

#define DYN_NATIVE_ABI 8
#define DYN_COUNT_UNKNOWN (-1) /* of kernels: those of a device are found by name */
#define DYN_NATIVE_SYMBOL "dyn_kernels"

#define DYN_REDUCE_LANES 32    /* The accumulators of a block, which are the lanes of a group. */
#define DYN_BLOCK 512          /* The elements of a block; partial results of blocks are combined pairwise. */
#define DYN_SHORT_AXIS_PARTS 6 /* The partial results that an order of DYN_SHORT_AXIS_MOST elements has at one time. */
#define DYN_SHORT_AXIS_MOST 32 /* The most elements of a result that form SHORT_AXIS takes. */

/* The argument structs of native.def. */
#define FIELD(type, name) type name;
#define DATA(Type, fields) \
    typedef struct Type {  \
        fields             \
    } Type;
#define ARGS(Type, fields) DATA(Type, fields)
#include "codegen/native.def"

/* DYN_FORM_LANES, DYN_FORM_ROW_CONSTANT, …: what kinds of function a kernel may have. */
typedef enum DynNativeForm {
#define FORM(NAME, name, Args) DYN_FORM_##NAME,
#include "codegen/native.def"
    DYN_FORM_COUNT
} DynNativeForm;

/* The functions of one kernel, one for each form; NULL where the object has none. */
typedef struct DynNativeKernel {
#define FORM(NAME, name, Args) void (*name)(const Args *args);
#include "codegen/native.def"
} DynNativeKernel;

typedef struct DynNativeTable {
    long abi;                   /* DYN_NATIVE_ABI of the version that wrote the object. */
    long count;                 /* The number of kernels. */
    DynNativeKernel kernels[1]; /* `count` of them. */
} DynNativeTable;

/* ---- load.c offers to build.c and artifact.c: an object that is loaded for as long as somebody uses it. Any thread. */
typedef struct DynLoaded DynLoaded;
DYN_HIDDEN const DynNativeTable *dyn_load_table(const DynLoaded *l);
DYN_HIDDEN void *dyn_load_of_device(const DynLoaded *l); /* what its kernels are, of an object that isn't this machine's */
DYN_HIDDEN void dyn_load_retain(DynLoaded *l);
DYN_HIDDEN void dyn_load_release(DynLoaded *l);
DYN_HIDDEN void *dyn_load_symbol(const DynLoaded *l,
                                 const char *name); /* of an object that exports more than its table; or NULL */
DYN_HIDDEN void dyn_load_lock(bool take);           /* around dlopen, and around fork: nothing is being loaded */

/* ---- artifact.c offers to build.c. Thread safe, no GIL needed, unless said. */
/* The generated C that is to be built (never NULL; valid until the artifact is settled). "" when the graph has no kernel, so
 * there is nothing to build, or when it is built. */
DYN_HIDDEN const char *dyn_artifact_text(const DynArtifact *a);
DYN_HIDDEN bool dyn_artifact_is_later(const DynArtifact *a); /* behind all that are not */
DYN_HIDDEN const struct DynToolchain *dyn_artifact_toolchain(const DynArtifact *a);
DYN_HIDDEN extern const struct DynToolchain dyn_toolchain_c;           /* build/compiler.c */
DYN_HIDDEN const DynConfig *dyn_artifact_config(const DynArtifact *a); /* that it was made with, and is built with */
/* build.c's mark: 0 not asked, 1 queued, 2 done (published or failed). claim is true for the one caller that moved it from 0
 * to 1. */
DYN_HIDDEN bool dyn_artifact_claim(DynArtifact *a);
DYN_HIDDEN int dyn_artifact_state(const DynArtifact *a);
DYN_HIDDEN void dyn_artifact_unclaim(DynArtifact *a); /* back to 0: a fork dropped the queue */
/* With the GIL: has it an owner behind so many references? Loop IR and graph are gone with the last of them. */
DYN_HIDDEN bool dyn_artifact_has_owner(const DynArtifact *a, int references);
/* Swap in loaded code: the artifact has a use of it for as long as it lives. */
DYN_HIDDEN void dyn_artifact_publish(DynArtifact *a, DynLoaded *loaded);
/* There will be no native code. detail is copied (may be NULL). */
DYN_HIDDEN void dyn_artifact_fail(DynArtifact *a, DynReason why, const char *detail);
/* One of both has happened, with the GIL: nobody builds it again, and its text goes. */
DYN_HIDDEN void dyn_artifact_settle(DynArtifact *a);
DYN_HIDDEN void dyn_artifact_note_build(DynArtifact *a, const char *line); /* with the GIL; nothing without the setting debug */

/* ---- build.c offers to codegen/region and codegen/cuda: text that belongs to no artifact. With the GIL. */
typedef struct DynBuildText DynBuildText;
/* Who makes the text, from `what`. */
typedef struct DynBuildWriter {
    DynReason (*write)(void *what, DynStr *out); /* in the build thread, without the GIL */
    void (*written)(void *what, bool torn);      /* with it: the job has ended, or a fork has dropped it (torn: in mid-writing) */
    const struct DynToolchain *toolchain;        /* What makes an object of it (build/build.h). */
} DynBuildWriter;
typedef enum DynBuildTextState {
    DYN_TEXT_WAITING,
    DYN_TEXT_LOADED,
    DYN_TEXT_FAILED,
    DYN_TEXT_DROPPED /* by a fork */
} DynBuildTextState;
/* `what` lives until `written` is called, once for each of these. first: before others. NULL: no memory, no thread. */
DYN_HIDDEN DynBuildText *dyn_build_text(const DynBuildWriter *writer, void *what, bool first);
DYN_HIDDEN void dyn_build_text_wait(DynBuildText *t); /* until it is built, or an interrupt; without the GIL */
DYN_HIDDEN bool dyn_build_text_is_written(const DynBuildText *t);
DYN_HIDDEN DynBuildTextState dyn_build_text_state(const DynBuildText *t);
DYN_HIDDEN void *dyn_build_text_symbol(const DynBuildText *t, const char *name); /* where it is loaded, for as long as t lives */
DYN_HIDDEN DynLoaded *dyn_build_text_loaded(const DynBuildText *t); /* … and the object itself; NULL: it isn't loaded */
DYN_HIDDEN DynReason dyn_build_text_failure(const DynBuildText *t, const char **detail);
DYN_HIDDEN void dyn_build_text_free(DynBuildText *t);

/* ---- draft.c, with the GIL: has the artifact no text yet, and is the build thread to write it? And what it writes it from, to
 * be handed on with the writer; NULL: no memory. */
DYN_HIDDEN bool dyn_draft_is_due(const DynArtifact *a);
DYN_HIDDEN void *dyn_draft_new(DynArtifact *a, const DynBuildWriter **writer);

/* ---- build.c offers to par.c, any thread: is something being built, or about to be? */
DYN_HIDDEN bool dyn_build_is_busy(void);

/* ---- build/ offers to artifact.c: fork handlers and module functions, once. -1: exception set. */
DYN_HIDDEN int dyn_build_init_module(PyObject *module);
#endif
