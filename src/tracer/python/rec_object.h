/* rec_object.h: what the files about user's classes (rec_object.c, rec_new.c) share. */
#ifndef DYN_REC_OBJECT_H
#define DYN_REC_OBJECT_H
#include "tracer/record/rec_state.h"

/* ---- rec_object.c */
DYN_HIDDEN bool rec_plain_getattr(PyTypeObject *type);  /* object's own look-up, with or without a __getattr__ behind it */
DYN_HIDDEN PyObject *rec_function_of(PyObject *method); /* the function in a static or class method; borrowed, or NULL */
/* The shadow's own attribute is `value`; NULL: it is deleted. */
DYN_HIDDEN int rec_set_own(DynRec *r, DynVal *v, PyObject *name, DynVal *value);

/* ---- rec_new.c */
#endif
