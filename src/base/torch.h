/* torch.h: PyTorch through its C door: DLPack's exchange API for what a tensor's elements are, and the getters of its own Python
 * type for what DLPack doesn't tell. Nothing is linked, and torch is never imported: dyn_torch_find looks whether the program
 * has.
 *
 * A captured tensor is exactly a torch.Tensor or torch.nn.Parameter, strided, on the CPU or a CUDA device, of one of dynoc's
 * element types, without the conjugate or negative bit; and no mode of torch's that changes what operators do is on
 * (dyn_torch_state). */
#ifndef DYN_TORCH_H
#define DYN_TORCH_H
#include "base/arrays.h"

/* Has the program imported torch, and is it one that dynoc can use? Looked up anew while it isn't there. Leaves no exception. */
DYN_HIDDEN bool dyn_torch_find(void);
extern DYN_HIDDEN PyTypeObject *dyn_torch_tensor, *dyn_torch_parameter, *dyn_torch_size; /* NULL: no torch yet */
extern DYN_HIDDEN PyTypeObject *dyn_torch_dtype, *dyn_torch_device;
extern DYN_HIDDEN PyObject *dyn_torch_module; /* the module torch itself */

/* The object at a dotted path below another: new reference, or NULL without an exception. */
DYN_HIDDEN PyObject *dyn_torch_lookup(PyObject *base, const char *path);
/* One of the types of PyTorch's named results, torch.return_types.max and the like: tuples whose fields are members. */
DYN_HIDDEN bool dyn_torch_is_named(PyTypeObject *type);
/* Exactly a tuple, or the tuple of sizes that a tensor's shape is. */
static inline bool dyn_is_tuple(PyObject *o) {
    return PyTuple_CheckExact(o) || (dyn_torch_size != NULL && Py_IS_TYPE(o, dyn_torch_size));
}
/* Exactly a tensor or a parameter: what may be captured, and what dyn_torch_view is for. */
static inline bool dyn_torch_is(PyObject *o) {
    return dyn_torch_tensor != NULL && (Py_IS_TYPE(o, dyn_torch_tensor) || Py_IS_TYPE(o, dyn_torch_parameter));
}
/* Where its elements lie; false (without an exception): it is no tensor of the kind above. */
DYN_HIDDEN bool dyn_torch_view(PyObject *tensor, DynArrayView *out);
/* The same of one that lies in this machine's memory or on a device that there are kernels for (base/cuda.h). */
DYN_HIDDEN bool dyn_torch_look(PyObject *tensor, DynArrayView *out);
/* The same of one that was looked at before: where it lies now. */
DYN_HIDDEN bool dyn_torch_place(PyObject *tensor, DynArrayView *out);
DYN_HIDDEN bool dyn_torch_requires_grad(PyObject *tensor);
DYN_HIDDEN bool dyn_torch_is_device(PyObject *o);   /* a torch.device: equal ones are one as good as the other */
DYN_HIDDEN bool dyn_torch_is_constant(PyObject *o); /* a dtype, device, layout, memory format, or what finfo and iinfo give */

/* What of torch's state a graph rests on, as one number; -1: a mode is on under which nothing may be captured. */
#define DYN_TORCH_GRAD 1               /* gradients are recorded */
#define DYN_TORCH_INFERENCE 2          /* … and tensors made are of inference mode */
#define DYN_TORCH_AUTOCAST 4           /* Operators on the CPU take bfloat16 where autocast has it so. */
#define DYN_TORCH_AUTOCAST_F16 8       /* … or float16 */
#define DYN_TORCH_AUTOCAST_CACHE 16    /* … and parameters that were cast are kept */
#define DYN_TORCH_AUTOCAST_CUDA 32     /* Those on CUDA's devices take bfloat16 … */
#define DYN_TORCH_AUTOCAST_CUDA_F16 64 /* … or float16 */
#define DYN_TORCH_CASTS                                                                                 \
    (DYN_TORCH_AUTOCAST | DYN_TORCH_AUTOCAST_F16 | DYN_TORCH_AUTOCAST_CACHE | DYN_TORCH_AUTOCAST_CUDA | \
     DYN_TORCH_AUTOCAST_CUDA_F16)
#define DYN_TORCH_DEFAULT(state) ((DynDtype)((state) >> 8 & 255)) /* default dtype */
/* torch.set_default_device, or `with torch.device(…)`: 0: none was set; 1: the CPU; 2: CUDA's current one; 3 + i: CUDA's device
 * i. */
#define DYN_TORCH_DEVICE(state) ((int)((state) >> 16 & 255))
#define DYN_TORCH_AUTOCASTS 24 /* Above these bits of a TORCH guard's number, or 0: dyn_torch_autocasts(). */
DYN_HIDDEN int dyn_torch_state(void);
/* What autocast is set to, in all that it has to be set back to: of the CPU and of CUDA whether it is on, and the type, on or
 * not; whether casts are kept; how many are entered. Never 0; -1: it can't be told. */
DYN_HIDDEN int64_t dyn_torch_autocasts(void);
DYN_HIDDEN bool dyn_torch_is_so(int64_t wanted);   /* the number of a TORCH guard */
DYN_HIDDEN bool dyn_torch_records_gradients(void); /* torch.is_grad_enabled() */
/* Gradients off, where they are on: what to hand to dyn_torch_grad_back. No graph of ours is one that autograd follows. */
DYN_HIDDEN bool dyn_torch_grad_off(void);
DYN_HIDDEN void dyn_torch_grad_back(bool was_on);
/* Gradients on, where they are off: what to hand to dyn_torch_grad_off_again. */
DYN_HIDDEN bool dyn_torch_grad_on(void);
DYN_HIDDEN void dyn_torch_grad_off_again(bool was_off);

/* Is a profiler of PyTorch's on? dyn_torch_profiled is what was found last: a call asks once, in front of its graph. */
DYN_HIDDEN bool dyn_torch_profiling(void);
extern DYN_HIDDEN bool dyn_torch_profiled;
/* A range of that profiler, begun: to hand to dyn_torch_range_end, which keeps the current exception. NULL: there is none. */
DYN_HIDDEN PyObject *dyn_torch_range(const char *name);
DYN_HIDDEN void dyn_torch_range_end(PyObject *range);

DYN_HIDDEN PyObject *dyn_torch_dtype_object(DynDtype dt);   /* torch.float32 …; borrowed, NULL: torch has none */
DYN_HIDDEN DynDtype dyn_torch_dtype_parse(PyObject *dtype); /* DYN_NO_DTYPE: not one of ours */
/* Elements of tensors were written: each gets one version more for each time that it stands there; -1. */
DYN_HIDDEN int dyn_torch_bump(PyObject *const *tensors, Py_ssize_t n);
/* A new tensor of these sizes and this memory order (dense); strides in bytes where they are given; in the memory of `device`
 * (DynArrayView). New reference. */
DYN_HIDDEN PyObject *dyn_torch_new(DynDtype dt, int ndim, const int64_t *dims, const DynLayout *layout, uint8_t device);
/* torch_new.c: the same past Python's function, strides in bytes; NULL, without an exception: torch.empty_strided has to make it.
 */
DYN_HIDDEN PyObject *dyn_torch_new_past(DynDtype dt, int ndim, const int64_t *dims, const int64_t *strides, uint8_t device);
DYN_HIDDEN const char *dyn_torch_dtype_name(DynDtype dt); /* float32 …; NULL: torch has none */
/* torch.device of a CUDA device (DynArrayView); borrowed, NULL with an exception. */
DYN_HIDDEN PyObject *dyn_torch_device_object(uint8_t device);
/* The stream on which PyTorch works now on that device. false: it doesn't say. */
DYN_HIDDEN bool dyn_torch_stream(uint8_t device, void **stream);
/* An address in PyTorch's library, of which dladdr says the file. NULL: no torch yet. */
DYN_HIDDEN void *dyn_torch_address(void);
/* A view of `base` on elements that lie where `view` says; as x.detach() or x.data has it where `look` says so. New reference. */
typedef enum DynTensorLook { DYN_LOOK_VIEW, DYN_LOOK_DETACHED, DYN_LOOK_DATA } DynTensorLook;
DYN_HIDDEN PyObject *dyn_torch_window(PyObject *base, const DynArrayView *view, DynTensorLook look);
/* An ndarray over a tensor's elements, which keeps it alive, and a tensor of that type over an ndarray's. Of bfloat16 the ndarray
 * is of its bits. New references. */
DYN_HIDDEN PyObject *dyn_torch_to_numpy(PyObject *tensor);
DYN_HIDDEN PyObject *dyn_torch_from_numpy(PyObject *array, DynDtype dt);
#endif
