/* watched.h: what calls of functions and entries take while somebody watches (base/watch.h). */
#ifndef DYN_WATCHED_H
#define DYN_WATCHED_H
#include "base/watch.h"

struct DynCache;
struct DynEntry;
struct DynGraph;
/* Beside a cache and beside an entry: set to zero when that is made. */
typedef struct DynWatched {
    uint32_t round;   /* dyn_watch_round of what was added up */
    int64_t missed;   /* of a cache: calls that no entry served */
    int64_t guard_ns; /* until it was known which entry serves the call */
    DynTimes run;     /* what entries did behind that: graph, and values made anew */
} DynWatched;
/* A call that began then; its guards were done at `checked`. e: the entry that served it, NULL: none. */
DYN_HIDDEN void dyn_watched_call(struct DynCache *c, struct DynEntry *e, int64_t began, int64_t checked);
/* The call of an extern node, in a graph that autograd follows. */
DYN_HIDDEN void dyn_watched_extern(DynWatched *w, const struct DynGraph *g, uint32_t node, int64_t began);
/* A native loop of the cache's function (NULL: it is gone) ran since then. */
DYN_HIDDEN void dyn_watched_loop(struct DynCache *c, DynWatched *w, int64_t began);
DYN_HIDDEN int dyn_watched_init(PyObject *module); /* adds _watched() */
#endif
