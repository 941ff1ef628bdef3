/* sites.h: calls of themselves that methods with a door make don't pass it (sites.c). */
#ifndef DYN_SITES_H
#define DYN_SITES_H
#include "evalframe/door.h"

/* The door is called. Where the caller is left to CPython as well, its sites call the door's function from now on, if that is
 * under way already; or in any case, where the door was passed in vain many times (settled). */
typedef enum DynLooked {
    DYN_LOOKED_TOO_EARLY, /* nothing is known of the function yet */
    DYN_LOOKED_IN_VAIN,
    DYN_LOOKED_AND_REPLACED
} DynLooked;
DYN_HIDDEN DynLooked dyn_sites_look(PyThreadState *ts, PyObject *door, bool settled);
DYN_HIDDEN int dyn_sites_init(PyObject *module);
#endif
