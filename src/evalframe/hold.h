/* hold.h: families of functions that nobody asked for don't keep alive what the program drops: hold.c. */
#ifndef DYN_HOLD_H
#define DYN_HOLD_H
#include "evalframe/door.h"

DYN_HIDDEN void dyn_hold_tighten(DynCache *root); /* a loose family is about to be used. The caller has a reference to it */
DYN_HIDDEN void dyn_hold_forget(DynCache *c);     /* the cache is being freed */
/* known.c is told (dyn_known_died) when the code object dies. -1: memory. */
DYN_HIDDEN int dyn_hold_watch(PyObject *code);
DYN_HIDDEN void dyn_hold_unwatch(PyObject *code);
DYN_HIDDEN void dyn_hold_start(void); /* the collector tells of its full collections from now on */
DYN_HIDDEN void dyn_hold_stop(void);
DYN_HIDDEN int dyn_hold_init(void); /* -1 with an exception */
/* A reference that is not counted, in the place of one that was. */
static inline bool dyn_hold_is_loose(const PyObject *o) { return ((uintptr_t)o & 1) != 0; }
#endif
