/* cupy.h: CuPy's arrays: what their elements are, and new ones. Nothing is linked, and cupy is never imported: dyn_cupy_find
 * looks whether the program has.
 *
 * A captured array is exactly a cupy.ndarray, on the device that is the thread's current one, of one of dynoc's element types. In
 * graphs it is a tensor (DYN_NODE_TENSOR), as PyTorch's are: an array that a framework has made on a device. */
#ifndef DYN_CUPY_H
#define DYN_CUPY_H
#include "base/arrays.h"

extern DYN_HIDDEN PyTypeObject *dyn_cupy_array; /* NULL: no cupy yet */
extern DYN_HIDDEN PyObject *dyn_cupy_module;    /* the module cupy itself */
/* Has the program imported cupy, and is it one that dynoc can use? Looked up anew while it isn't there. Leaves no exception. */
DYN_HIDDEN bool dyn_cupy_find(void);
static inline bool dyn_cupy_is(PyObject *o) { return dyn_cupy_array != NULL && Py_IS_TYPE(o, dyn_cupy_array); }
/* Where its elements lie; false (without an exception): it is none of the kind above. */
DYN_HIDDEN bool dyn_cupy_look(PyObject *array, DynArrayView *out);
DYN_HIDDEN PyObject *dyn_cupy_dtype_object(DynDtype dt); /* NumPy's dtype, which is CuPy's; borrowed for ever */
/* A new array of these sizes and this memory order (dense) on the current device. New reference. */
DYN_HIDDEN PyObject *dyn_cupy_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout);
/* An array of the elements of `base` that lie where `view` says, and keeps its memory. New reference. */
DYN_HIDDEN PyObject *dyn_cupy_window(PyObject *base, const DynArrayView *view);
/* The stream on which CuPy works now. false, without an exception: it doesn't say. */
DYN_HIDDEN bool dyn_cupy_stream(void **stream);
#endif
