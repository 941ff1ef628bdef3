/* ticks.h: asks for a call between two instructions of the main thread, again and again, for as long as somebody wants that. */
#ifndef DYN_TICKS_H
#define DYN_TICKS_H
#include "base/cpy.h"

/* What was a call good for: the next one comes as soon as the first, or later, or there is none. */
typedef enum DynTick { DYN_TICK_USEFUL, DYN_TICK_USELESS, DYN_TICK_LAST } DynTick;
typedef DynTick DynTicked(unsigned ms); /* so long after the call before */
/* Of three callers at most; nothing where there can be no thread. */
DYN_HIDDEN bool dyn_ticks_prepare(void); /* false, or true once and for all: there can be such calls */
DYN_HIDDEN void dyn_ticks_start(DynTicked *call);
DYN_HIDDEN bool dyn_ticks_come(DynTicked *call); /* … to this caller */
DYN_HIDDEN void dyn_ticks_stop(DynTicked *call);
/* A native loop runs, which a call would interrupt: there are fewer until it has ended. With the GIL. */
DYN_HIDDEN void dyn_ticks_native_begins(void);
DYN_HIDDEN void dyn_ticks_native_ends(void);
/* In front of Python's fork, by a function that it calls then. And behind a fork, which has ended the thread that asks: it begins
 * again when fork has returned. */
DYN_HIDDEN void dyn_ticks_fork_begins(void);
DYN_HIDDEN void dyn_ticks_go_on(void);
#endif
