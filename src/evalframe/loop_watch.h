/* loop_watch.h: what enable() does in a program without arrays. */
#ifndef DYN_LOOP_WATCH_H
#define DYN_LOOP_WATCH_H
#include "base/cpy.h"

/* _dynoc.watch_loops(callable or None): call it, once, when a loop has run for long; None: never mind. */
DYN_HIDDEN PyObject *dyn_loop_watch(PyObject *module, PyObject *what);
#endif
