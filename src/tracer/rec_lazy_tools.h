/* rec_lazy_tools.h: what rec_lazy.c and rec_itertools.c share. */
#ifndef DYN_REC_LAZY_TOOLS_H
#define DYN_REC_LAZY_TOOLS_H
#include "tracer/rec_state.h"

DYN_HIDDEN PyObject *rec_new_feeder(PyObject *source); /* an iterator that gives what it is fed, and then what its source gives */
DYN_HIDDEN int rec_feed(PyObject *feeder, PyObject *item);
/* An item of an iterator that this one takes from; kept by the recording. real NULL: the end, or an exception. */
DYN_HIDDEN DynOperand rec_lazy_take(DynRec *r, const RecLazy *z, uint32_t i);
DYN_HIDDEN int rec_lazy_sources(DynRec *r, RecLazy *z, const RecCall *c, uint32_t first, uint32_t n); /* -1: nothing happened */
/* The iterator whose steps z makes: v; z->object is there. */
DYN_HIDDEN DynVal *rec_lazy_made(DynRec *r, RecLazy *z, PyObject *type, RecLazyStep step, PyObject *object);
/* ---- rec_itertools.c */
DYN_HIDDEN DynVal *rec_new_itertool(DynRec *r, const RecCall *c, PyObject **result, bool *handled); /* as rec_call_builtin */
DYN_HIDDEN bool rec_is_itertool(const RecLazy *z);
DYN_HIDDEN uint32_t rec_itertool_recipe(DynRec *r, DynVal *v);
DYN_HIDDEN int rec_itertools_init(void);
#endif
