/* watch.h: what dynoc.profile() and DYNOC_TRACE look at. Off, it costs a call one look at `dyn_watching`. With the GIL. */
#ifndef DYN_WATCH_H
#define DYN_WATCH_H
#include "base/log.h"

#define DYN_WATCH_PROFILE 1u                /* times are added up where they are spent */
#define DYN_WATCH_TRACE 2u                  /* … and each is an event */
extern DYN_HIDDEN uint32_t dyn_watching;    /* bits of these; 0: nobody looks */
extern DYN_HIDDEN uint32_t dyn_watch_round; /* what was added up in an earlier one counts no more */

/* Calls of one kind, and what they took. */
typedef struct DynTimes {
    int64_t calls, ns, bytes;
} DynTimes;
static inline void dyn_times_add(DynTimes *t, int64_t ns, int64_t bytes) {
    t->calls++;
    t->ns += ns;
    t->bytes += bytes;
}
/* The time, where somebody looks; else 0. */
static inline int64_t dyn_watch_now(void) { return DYN_UNLIKELY(dyn_watching != 0) ? dyn_now_ns() : 0; }
/* An event that began at `start`, by this thread. kind: "call", "kernel", "extern", "compile" …; bytes: 0 where none were
 * counted. Keeps the current exception; lost where memory is out. */
DYN_HIDDEN void dyn_watch_event(const char *kind, const char *name, int64_t start, int64_t ns, int64_t bytes);
/* A dict of what _profile.py reads: {kind, name, file, line, calls, seconds, bytes}. file: borrowed; NULL: none, and no line. */
DYN_HIDDEN PyObject *dyn_watch_row(const char *kind, const char *name, PyObject *file, int line, const DynTimes *times);
/* Adds _watch(bits), _events(). */
DYN_HIDDEN int dyn_watch_init(PyObject *module);
#endif
