/* rec_lazy_tools.h: what rec_lazy.c, rec_itertools.c, rec_shared.c, rec_polyfill.c and rec_tap.c share. */
#ifndef DYN_REC_LAZY_TOOLS_H
#define DYN_REC_LAZY_TOOLS_H
#include "tracer/record/rec_state.h"

DYN_HIDDEN PyObject *rec_new_feeder(PyObject *source); /* an iterator that gives what it is fed, and then what its source gives */
DYN_HIDDEN int rec_feed(PyObject *feeder, PyObject *item); /* NULL: its end */
/* An item of an iterator that this one takes from; kept by the recording. real NULL: the end, or an exception. */
DYN_HIDDEN DynOperand rec_lazy_take(DynRec *r, const RecLazy *z, uint32_t i);
DYN_HIDDEN int rec_lazy_sources(DynRec *r, RecLazy *z, const RecCall *c, uint32_t first, uint32_t n); /* -1: nothing happened */
/* The iterator whose steps z makes: v; z->object is there. */
DYN_HIDDEN DynVal *rec_lazy_made(DynRec *r, RecLazy *z, PyObject *type, RecLazyStep step, PyObject *object);
/* ---- rec_tap.c */
/* What an argument of a polyfilled iterator is: a value, a function (which is operator.add where it is left out), one of which
 * the truth is asked, an iterable, one whose items' truth is asked, one of iterables. */
enum { REC_VALUE = 'v', REC_ADDITION = '+', REC_PREDICATE = 'p', REC_ITERABLE = 'i', REC_TRUTHS = 'b', REC_NESTED = 'n' };
DYN_HIDDEN int rec_tap_init(void);
DYN_HIDDEN PyObject *rec_new_tap(PyObject *source, char role, PyObject **feeder); /* new references, or NULL and NULL */
DYN_HIDDEN PyObject *rec_new_function_tap(DynRec *r, DynOperand func, char role, PyObject **feeder);
DYN_HIDDEN DynVal *rec_tapped(DynRec *r, DynOperand it, PyObject *real); /* the shadow of a tap of an iterator */
DYN_HIDDEN DynVal *rec_step_tap(DynRec *r, DynVal *v, PyObject **item);
DYN_HIDDEN PyObject *rec_fed_function(void); /* makes of a function and values one that gives these first; borrowed, or NULL */
/* ---- rec_polyfill.c */
DYN_HIDDEN bool rec_is_polyfilled(const RecLazy *z);
DYN_HIDDEN uint32_t rec_polyfill_recipe(DynRec *r, DynVal *v);
/* ---- rec_itertools.c */
DYN_HIDDEN bool rec_is_itertool(const RecLazy *z);
DYN_HIDDEN uint32_t rec_itertool_recipe(DynRec *r, DynVal *v);
DYN_HIDDEN bool rec_whole_number(DynRec *r, DynOperand o, int64_t *out); /* a small int, which is burnt in */
/* ---- rec_shared.c */
DYN_HIDDEN bool rec_is_shared(const RecLazy *z);
DYN_HIDDEN uint32_t rec_shared_recipe(DynRec *r, DynVal *v);
#endif
