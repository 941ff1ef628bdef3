/* hook.h: the frame-evaluation hook, and requests to it: record this call, rebuild this frame. */
#ifndef DYN_HOOK_H
#define DYN_HOOK_H
#include "evalframe/door.h"

/* The hook is installed while it is needed: counted. */
DYN_HIDDEN void dyn_hook_need(void);
DYN_HIDDEN void dyn_hook_release(void);
/* CPython makes calls of Python functions itself for a moment, until step_in. false: somebody else's hook is in, which stays. */
DYN_HIDDEN bool dyn_hook_step_out(void);
DYN_HIDDEN void dyn_hook_step_in(void);

DYN_HIDDEN uint64_t dyn_hook_recordings(void); /* calls of the process that were recorded so far */
/* Call func with these arguments, recording into its cache. */
DYN_HIDDEN PyObject *dyn_hook_record(DynCache *c, PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* Call a resume function, recording into its cache, or (NULL) as plain Python; drops args when the frame is there. */
DYN_HIDDEN PyObject *dyn_hook_resume(DynCache *c, PyObject *func, DynSpent args);
/* Does the hook serve frames of all functions, where it is in? Not where functions have doors. */
extern DYN_HIDDEN bool dyn_hook_serves_frames;
/* Call func as plain Python: under enable() too its frame is left alone. */
DYN_HIDDEN PyObject *dyn_hook_plain(PyObject *func, PyObject *const *args, size_t nargsf, PyObject *kwnames);
/* The same with bound slots of a function like it, whose code is `code`; drops `spent` when the frame is there. */
DYN_HIDDEN PyObject *dyn_hook_plain_bound(const DynSignature *sig, PyCodeObject *code, PyObject *func, PyObject *const *slots,
                                          DynSpent spent);

DYN_HIDDEN void dyn_hook_enable(DynOptions *options); /* takes its own reference */
DYN_HIDDEN void dyn_hook_disable(void);
/* Is this call dynoc's own: a logger's Python code, a frame that is to be recorded into or rebuilt? Then doors step aside. */
DYN_HIDDEN bool dyn_hook_is_ours(PyObject *func);

/* ---- leave.c: frames rebuilt in the middle of a function. */
/* The values of the frames (outermost first), made while env and outputs live. NULL with an exception. */
DYN_HIDDEN DynLeave *dyn_leave_new(const DynEntry *e, const DynEnv *env, PyObject *const *outputs, DynEffects fx,
                                   const DynFrameState *frames, uint32_t nframes);
/* The innermost frame goes on by raising `error` (taken over; NULL: it doesn't). */
DYN_HIDDEN void dyn_leave_raise(DynLeave *l, PyObject *error);
/* … or behind the call that it stands at, which has been made and gave this (taken over; NULL: it goes on at the call). */
DYN_HIDDEN void dyn_leave_give(DynLeave *l, PyObject *given);
DYN_HIDDEN void dyn_leave_free(DynLeave *l);
/* Call func, whose frame goes on as l says. Consumes l. */
/* The call of a function that gets to make its frame, with any arguments: those that bind. */
DYN_HIDDEN PyObject *dyn_call_with_nothing(PyObject *func);
DYN_HIDDEN PyObject *dyn_leave_call(DynLeave *l, PyObject *func);
/* The same in a fresh frame of func that the hook was given. */
DYN_HIDDEN PyObject *dyn_leave_fill(DynLeave *l, PyThreadState *ts, DynFrame *f);
DYN_HIDDEN bool dyn_leave_expects(PyObject *func); /* is the next frame of func to be filled? */
/* Is f a frame that waits to be filled? Then the hook calls dyn_leave_filled in place of evaluating it. */
DYN_HIDDEN bool dyn_leave_wants(DynFrame *f);
DYN_HIDDEN PyObject *dyn_leave_filled(PyThreadState *ts, DynFrame *f);
#endif
