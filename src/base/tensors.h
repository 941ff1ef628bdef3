/* tensors.h: arrays that are another framework's than NumPy's: PyTorch's tensors (torch.h) and CuPy's arrays (cupy.h). Nodes of
 * graphs that stand for one are DYN_NODE_TENSOR. All of a graph on a device are one framework's (DynGraph.cupy). */
#ifndef DYN_TENSORS_H
#define DYN_TENSORS_H
#include "base/cupy.h"
#include "base/torch.h"

static inline bool dyn_tensor_is(PyObject *o) { return dyn_torch_is(o) || dyn_cupy_is(o); }
static inline bool dyn_tensor_requires_grad(PyObject *o) { return dyn_torch_is(o) && dyn_torch_requires_grad(o); }
/* Where its elements lie; dyn_tensor_place: of one that was looked at before. false, without an exception: it can't be captured.
 */
static inline bool dyn_tensor_look(PyObject *o, DynArrayView *out) {
    return dyn_cupy_is(o) ? dyn_cupy_look(o, out) : dyn_torch_look(o, out);
}
static inline bool dyn_tensor_place(PyObject *o, DynArrayView *out) {
    return dyn_cupy_is(o) ? dyn_cupy_look(o, out) : dyn_torch_place(o, out);
}
/* How that type's framework calls an element type, for people; borrowed for ever. */
static inline PyObject *dyn_tensor_dtype_name(PyObject *type, DynDtype dt) {
    return type == (PyObject *)dyn_cupy_array ? (PyObject *)((PyArray_Descr *)dyn_cupy_dtype_object(dt))->typeobj
                                              : dyn_torch_dtype_object(dt);
}
#endif
