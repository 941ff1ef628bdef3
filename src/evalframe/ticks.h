/* ticks.h: asks for a call between two instructions of the main thread, again and again, for as long as somebody wants that. */
#ifndef DYN_TICKS_H
#define DYN_TICKS_H
#include "base/cpy.h"

DYN_HIDDEN void dyn_ticks_start(int (*call)(void *)); /* by a pending call; nothing where there can be no thread */
DYN_HIDDEN void dyn_ticks_stop(void);
DYN_HIDDEN void dyn_ticks_came(bool useful); /* the call was made: the next comes sooner where it was useful, else later */
#endif
