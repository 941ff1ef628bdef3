/* known.h: what is known of code objects: functions met or found under enable(), and functions marked with skip(). */
#ifndef DYN_KNOWN_H
#define DYN_KNOWN_H
#include "evalframe/door.h"

typedef struct DynKnown { /* what is known of a code object */
    PyObject *code;       /* borrowed: the row goes when it dies; NULL: free row */
    DynCache *cache;      /* counted, or NULL: leave the function alone */
    PyObject *globals;    /* borrowed, with cache: functions of this code that have others are left alone */
    bool skipped;         /* by skip() */
    bool used;            /* a call was served or looked at since the last sweep */
    /* the finder's, where functions have doors: */
    bool given, taken; /* a function of this code got a door; which was taken from it again */
    bool remade;       /* functions are made of this code all the time: each gets its door when it is made */
    uint32_t version;  /* … the code's own, put back when the row goes */
    uint32_t away;     /* pieces of evidence that are wanted before a door is given again */
    uint32_t patience; /* the next `away` */
    bool for_loop;     /* found for its loop alone; no arrays were seen */
} DynKnown;
/* Rows are good until the next call that makes one. */
DYN_HIDDEN DynKnown *dyn_known_find(PyObject *code); /* NULL: not known */
/* The row of a code object that is not known yet, with a cache where it is worth one. NULL: memory. */
DYN_HIDDEN DynKnown *dyn_known_meet(PyCodeObject *code, PyObject *globals, DynOptions *options);
DYN_HIDDEN int dyn_known_skip(PyObject *code); /* never recorded, never inlined; -1 with MemoryError */
DYN_HIDDEN bool dyn_known_is_skipped(PyObject *code);
DYN_HIDDEN void dyn_known_died(PyObject *code); /* hold.c: the code object is dead */
DYN_HIDDEN void dyn_known_forget_all(void);     /* reset(), disable(): all rows but those of skip() */
#endif
