/* cpy_over.h: a call that runs goes over to another code object in the midst of a loop. Used by evalframe/loops_over.c. */
#ifndef DYN_CPY_OVER_H
#define DYN_CPY_OVER_H
#include "base/cpy.h"

/* Where a frame goes on: unit `at` of `code` (borrowed); code NULL: where it is. */
typedef struct DynOver {
    PyCodeObject *code;
    uint32_t at;
} DynOver;
/* A frame is about to jump back to unit `at` of its code, with `depth` values on its stack. Runs no Python code. */
typedef DynOver DynJumpsBack(DynFrame *f, uint32_t at, uint32_t depth);

/* `ask` is called where frames of f's code jump back; for one code object at a time. On 3.11 only f itself, which has to be the
 * frame that runs, is asked about, and only a few hundred lines are waited for. false: there is no way to be told. */
DYN_HIDDEN bool dyn_cpy_watch_jumps(DynFrame *f, DynJumpsBack *ask);
DYN_HIDDEN void dyn_cpy_watch_no_jumps(void);
/* May f go over at all? Not where somebody holds its frame object, as tracebacks do, which have places in its code. */
DYN_HIDDEN bool dyn_frame_may_go_over(DynFrame *f);
/* Before 3.12 CPython reads a code's constants anew only behind a call: a frame goes over to a unit where one without arguments
 * stands, for which two values are put on the stack. Is that so? */
DYN_HIDDEN bool dyn_cpy_over_by_call(void);
DYN_HIDDEN bool dyn_cpy_is_own_tool(PyObject *name); /* of a monitoring tool: it is the one that tells of jumps */
#endif
