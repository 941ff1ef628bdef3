/* looks.h: what a function with a loop is likely to be, by what it works on. */
#ifndef DYN_LOOKS_H
#define DYN_LOOKS_H
#include "base/cpy.h"

/* What the loops of a function come to, the worst thing of all that is seen. */
typedef enum DynLooks {
    DYN_LOOKS_LIKE_NUMBERS, /* numbers, texts, lists of them, instances whose attributes are such */
    DYN_LOOKS_LIKE_OBJECTS, /* instances that refer to others, dicts and sets too */
    DYN_LOOKS_LIKE_NOTHING  /* something that native loops don't know */
} DynLooks;
/* Of the function that runs in this frame: its variables, and what the names in it stand for; where these look like nothing, and
 * the function has no arrays, those of the outermost loop that it is in. No Python code runs. */
DYN_HIDDEN DynLooks dyn_looks_of_frame(DynFrame *f);
/* … and of a call of the function that is to begin, with arguments in n slots (NULL: none). */
DYN_HIDDEN DynLooks dyn_looks_of_call(PyObject *function, PyObject *const *slots, size_t n);
/* Does each trip of the innermost loop that the frame is in, in front of its first branch, come to something that native loops
 * don't know, or gain nothing by: print(), join(), a method of str that has no row? What its names stand for now is looked at; it
 * is decoded for that. */
DYN_HIDDEN bool dyn_looks_refused(DynFrame *f);
/* The outermost loop around the place where a frame is. */
typedef struct DynLoopAhead {
    PyObject *over;  /* borrowed, to be compared with that of another time: its iterator, if it is a for loop */
    Py_ssize_t left; /* trips that it has left, if it goes over a range, list or tuple; -1: it doesn't tell */
    int64_t cost_ns; /* what a compiler is likely to take for it, and more where little is gained by that */
} DynLoopAhead;
/* … which is decoded for that. */
DYN_HIDDEN DynLoopAhead dyn_looks_ahead(DynFrame *f);
/* Is this a module of which a function with native loops may use something? */
DYN_HIDDEN bool dyn_looks_at_known_module(PyObject *o);
#endif
