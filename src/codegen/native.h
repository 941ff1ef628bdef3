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

#define DYN_NATIVE_ABI 7
#define DYN_NATIVE_SYMBOL "dyn_kernels"

/* A kernel runs over n lanes. p: one pointer an operand, all contiguous; s: the graph's scalars that the kernel uses.
 * n is a multiple of the kernel's lanes; for a reduction of DYN_REDUCE_LANES. A reduction has more behind the pointers:
 *   for each operand the step in bytes from one row of DYN_REDUCE_LANES lanes to the next; for each result, which is as many
 *   accumulators, what they start from, or NULL: they go on with what they hold;
 *   how many groups of such rows, and of accumulators, lie side by side;
 *   DYN_START_WALKS: what accumulators start from is lanes for each group, not the same for all; DYN_COMBINE: they are combined
 *   with what they held before (n may be 0);
 *   by how many lanes the last group's rows lie before their place.
 *
 * A reduction has a second function, for rows of lanes that each belong to one result: how many rows, and lanes of a row, any
 * number above 0; step: for each operand the bytes from row to row. Results are one element each; behind the pointers, at the
 * places of results, is what a reduction begins with.
 *
 * And it may have another, for at most DYN_BLOCK rows of lanes that are results. Behind the pointers are, for each operand, the
 * step in bytes from row to row, at the places of results what they begin with; then groups, the order of accumulators (pairs of
 * which one and with how many of those before it is combined then; -1 ends), by how many lanes the last group lies before its
 * place, and the bytes between accumulators: a result's pointer says where the first is, which gets what is reduced.
 *
 * An elementwise kernel with indirect operands may have another function too, which looks them up itself: their pointers are
 * those of the tables, the elements of which lie side by side. Behind the pointers it has for each operand how many elements
 * there are, and where a long lies whose sign is set if an index says a place that isn't there.
 *
 * Or, where some operands stand still along the rows that it is called for, one that takes those as one element, not as lanes.
 *
 * Some reductions (dyn_kernel_has_few) have one more, for n elements of each of DYN_REDUCE_LANES results, which are the lanes,
 * group after group. Behind the pointers: for each operand the step in bytes from one element to the next, for each result what a
 * reduction begins with, one element; for each operand the step from one group to the next; how many groups; and the order, n
 * pairs of bytes: which element comes next, and how many times the last two partial results, of at most DYN_FEW_PARTS, then
 * become one. */
typedef void (*DynKernelFn)(char *const *p, long n, const DynScalar *s);
typedef void (*DynRowsFn)(char *const *p, const int64_t *step, long rows, long n, const DynScalar *s);
#define DYN_REDUCE_TAIL 4
#define DYN_FEW_PARTS 6
#define DYN_FEW_ALONG 17 /* elements: as many that lie side by side are quicker taken where they are, a result at a time */
#define DYN_START_WALKS 1
#define DYN_COMBINE 2
#define DYN_REDUCE_LANES 32 /* accumulators of a block */
#define DYN_BLOCK 512       /* elements of a block: its partial sums are combined pairwise by the caller */

typedef struct DynNativeTable {
    long abi;   /* DYN_NATIVE_ABI */
    long count; /* of kernels */
    struct {
        DynKernelFn lanes;
        DynRowsFn rows;         /* NULL where nothing is reduced */
        DynKernelFn other, few; /* NULL: there is none */
    } kernels[1];               /* count entries */
} DynNativeTable;

/* ---- load.c offers to build.c and artifact.c: an object that is loaded for as long as somebody uses it. Any thread. */
typedef struct DynLoaded DynLoaded;
DYN_HIDDEN const DynNativeTable *dyn_load_table(const DynLoaded *l);
DYN_HIDDEN void dyn_load_retain(DynLoaded *l);
DYN_HIDDEN void dyn_load_release(DynLoaded *l);
DYN_HIDDEN void dyn_load_lock(bool take); /* around dlopen, and around fork: nothing is being loaded */

/* ---- artifact.c offers to build.c. Thread safe, no GIL needed, unless said. */
/* The generated C that is to be built (never NULL; valid until the artifact is settled). "" when the graph has no kernel, so
 * there is nothing to build, or when it is built. */
DYN_HIDDEN const char *dyn_artifact_text(const DynArtifact *a);
DYN_HIDDEN bool dyn_artifact_is_later(const DynArtifact *a);           /* behind all that are not */
DYN_HIDDEN const DynConfig *dyn_artifact_config(const DynArtifact *a); /* that it was made with, and is built with */
DYN_HIDDEN long dyn_artifact_kernel_count(const DynArtifact *a);
/* build.c's mark: 0 not asked, 1 queued, 2 done (published or failed). claim is true for the one caller that moved it from 0
 * to 1. */
DYN_HIDDEN bool dyn_artifact_claim(DynArtifact *a);
DYN_HIDDEN int dyn_artifact_state(const DynArtifact *a);
DYN_HIDDEN void dyn_artifact_unclaim(DynArtifact *a); /* back to 0: a fork dropped the queue */
/* Swap in loaded code: the artifact has a use of it for as long as it lives. */
DYN_HIDDEN void dyn_artifact_publish(DynArtifact *a, DynLoaded *loaded);
/* There will be no native code. detail is copied (may be NULL). */
DYN_HIDDEN void dyn_artifact_fail(DynArtifact *a, DynReason why, const char *detail);
/* One of both has happened, with the GIL: nobody builds it again, and its text goes. */
DYN_HIDDEN void dyn_artifact_settle(DynArtifact *a);

/* ---- build/ offers to artifact.c: fork handlers and module functions, once. -1: exception set. */
DYN_HIDDEN int dyn_build_init_module(PyObject *module);
#endif
