/* finder.h: functions that work on arrays are found without a hook, and served from then on. */
#ifndef DYN_FINDER_H
#define DYN_FINDER_H
#include "evalframe/known.h"

DYN_HIDDEN void dyn_finder_start(DynOptions *options); /* borrowed until stop */
DYN_HIDDEN void dyn_finder_meet_arrays(void);          /* NumPy is there: arrays tell who makes them from now on */
DYN_HIDDEN void dyn_finder_stop(void);                 /* does nothing where it was not started */
DYN_HIDDEN void dyn_finder_forget(void);               /* evidence so far; called when the rows of known.c go */
/* The code was met for so long before the finder was started that a tick which meets it once more finds it. */
DYN_HIDDEN void dyn_finder_expect(PyCodeObject *code);
/* The hook met a function that is not known: has it a row now? */
DYN_HIDDEN bool dyn_finder_looks_at(PyObject *func);
/* The hook serves the frames of found functions (where functions have no doors) and tells of each frame: is it one of those? */
DYN_HIDDEN void dyn_finder_saw_frame(bool useful);
/* Test: the function that calls this is found now, and goes over to loop code where it jumps back next. Is it asked to? */
DYN_HIDDEN PyObject *dyn_finder_go_over(PyObject *module, PyObject *none);
#endif
