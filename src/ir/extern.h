/* extern.h: calls of NumPy's own functions as nodes of a graph: how the arguments are put together, what the result has to look
 * like, and the sizes and numbers that are known only when the call has been made ("late" symbols, sym.h). */
#ifndef DYN_EXTERN_H
#define DYN_EXTERN_H
#include "ir/graph.h"

/* An operand of the node as a Python object: new reference, or NULL with an exception. */
typedef PyObject *(*DynExternValue)(void *ctx, DynArg arg);

typedef enum DynExternStatus {
    DYN_EXTERN_OK = 0,
    DYN_EXTERN_ERROR = -1, /* the call raised */
    DYN_EXTERN_OTHER = 1   /* the call gave something else than what was recorded, or a check on its results fails */
} DynExternStatus;
/* Makes the call of EXTERN node `id`. OK: arrays[id] and the places of the RESULT nodes behind it hold new references (a NumPy
 * scalar as an array of rank 0), and sym has the symbols that were waiting for this call. Not OK: nothing is kept, but what a
 * call that `opens` gave is new in *given, OTHER or not. silent: nobody will see a warning or an exception of it, so no frame has
 * to stand for the caller's. */
DYN_HIDDEN DynExternStatus dyn_extern_run(const DynGraph *g, uint32_t id, DynExternValue value, void *ctx, PyObject **arrays,
                                          DynScalar *sym, bool silent, PyObject **given);
/* May code that the node's call runs read and write the storage, whatever the call is given? What was shown to such code before
 * is an operand of the call. */
DYN_HIDDEN bool dyn_graph_opens(const DynGraph *g, uint32_t id, uint32_t storage);
/* A result that somebody else has made in place of the call goes where that of the call would. false: it is of another kind. */
DYN_HIDDEN bool dyn_extern_take(const DynGraph *g, uint32_t id, PyObject *result, PyObject **arrays, DynScalar *sym);
/* The exception that the call raised, without the frame that stood for the caller's; no longer set. */
DYN_HIDDEN PyObject *dyn_extern_raised(const DynExtern *x);
DYN_HIDDEN PyObject *dyn_extern_owner(PyObject *array); /* who owns its bytes; borrowed */
/* Is it known of the EXTERN node's call that it gives floating-point warnings and no others? No Python code runs in it. */
DYN_HIDDEN bool dyn_extern_warns_by_flags(const DynGraph *g, uint32_t id);
DYN_HIDDEN bool dyn_extern_stores_item(const DynExtern *x);      /* Is it what x[i] = v calls of arrays? */
DYN_HIDDEN bool dyn_extern_overlap(PyObject *a, PyObject *b);    /* do the bytes overlap in which two arrays may lie? */
DYN_HIDDEN bool dyn_extern_one_memory(PyObject *a, PyObject *b); /* are two results of one call parts of one piece of it? */
/* Does a result share memory with an argument? Both may be tuples and lists of arrays. */
DYN_HIDDEN bool dyn_extern_shares(PyObject *result, PyObject *arg);
/* The function whose frame stands for the caller's is being called: the hook leaves its frame alone. */
extern DYN_HIDDEN _Thread_local PyObject *dyn_extern_calling;
/* callable(*args), called by a frame that looks like the function's own at that place, for what asks for its caller's line and
 * module; NULL: by nobody in particular. New reference. */
DYN_HIDDEN PyObject *dyn_extern_call_from(const DynPlace *at, PyObject *callable, PyObject *args);
DYN_HIDDEN void dyn_extern_drop(DynExtern *x); /* its references */
/* A row of its own for a call in another graph, which may outlive the first: its place there, or DYN_NONE. */
DYN_HIDDEN uint32_t dyn_extern_copy(const DynExtern *x, DynGraph *to);
/* The storage that a node writes into (STORE, or an extern call that changes an operand), or DYN_NONE. */
DYN_HIDDEN uint32_t dyn_graph_written(const DynGraph *g, uint32_t id);
/* Whose version counts what a STORE changes: the x.data that it is made through, or the storage. */
DYN_HIDDEN uint32_t dyn_graph_counter(const DynGraph *g, const DynNode *store);
#endif
