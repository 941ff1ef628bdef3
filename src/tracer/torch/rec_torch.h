/* rec_torch.h: what the PyTorch rules (rec_torch*.c) share, and nobody else sees. They make nodes with the helpers of rec_np.h;
 * which dtypes operands meet in, and what is not given, is PyTorch's. As NumPy's rules they predict, and dyn_np_result compares
 * with what eager gave. */
#ifndef DYN_REC_TORCH_H
#define DYN_REC_TORCH_H
#include "base/torch.h"
#include "tracer/numpy/rec_np.h"

/* ---- rec_torch.c */
DYN_HIDDEN DynDtype dyn_tt_default(DynRec *r); /* torch.get_default_dtype(), which the guards hold */
/* What a dtype becomes where an operator computes in floats: integers go to the default dtype. */
DYN_HIDDEN DynDtype dyn_tt_float(DynRec *r, DynDtype dt);
/* The dtype that n operands meet in, by torch's categories: tensors of a rank, those of rank 0, Python numbers. */
DYN_HIDDEN DynDtype dyn_tt_result_type(DynRec *r, const NpArg *args, int n);
DYN_HIDDEN DynDtype dyn_tt_promote(DynDtype a, DynDtype b);
/* One elementwise node, of operands converted to `compute`. */
/* Of halves a product with a number, a quotient by one, or either with a tensor of rank 0 behind the operator, is computed in
 * float with the number as it is; other operators round numbers to halves first: aten/src/ATen/native/cpu/BinaryOpsKernel.cpp. */
DYN_HIDDEN bool dyn_tt_goes_by_float(DynRec *r, DynOp op, DynDtype compute, const NpArg *args);
DYN_HIDDEN uint32_t dyn_tt_elementwise(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n);
DYN_HIDDEN uint32_t dyn_tt_unary(DynRec *r, DynOp op, uint32_t a);           /* of a's dtype */
DYN_HIDDEN uint32_t dyn_tt_binary(DynRec *r, DynOp op, uint32_t a, NpArg b); /* of a's dtype */
/* MAXIMUM or MINIMUM of a and a bound, of a's dtype. */
DYN_HIDDEN uint32_t dyn_tt_bounded(DynRec *r, DynOp op, uint32_t a, NpArg bound);
/* An element and its bound in the order in which MAXIMUM and MINIMUM in dt give of equal zeros what PyTorch does: the element
 * where the bound is a number, and on devices the number. */
DYN_HIDDEN const NpArg *dyn_tt_stays(DynRec *r, NpArg *args, DynDtype dt);
DYN_HIDDEN uint32_t dyn_tt_compare(DynRec *r, DynOp op, uint32_t a, NpArg b);      /* in a's dtype; a truth */
DYN_HIDDEN uint32_t dyn_tt_choose(DynRec *r, uint32_t truth, uint32_t a, NpArg b); /* where(truth, a, b), of a's dtype */
DYN_HIDDEN uint32_t dyn_tt_cast(DynRec *r, uint32_t a, DynDtype dt);               /* a itself where it is of that dtype */
/* Formulas of several operators on halves go by float, and are rounded at the end, as torch's are. */
DYN_HIDDEN DynDtype dyn_tt_wide(DynDtype dt);
DYN_HIDDEN double dyn_tt_as_half(double x, DynDtype dt); /* a number as such a half, to which PyTorch rounds many */
DYN_HIDDEN NpArg dyn_tt_number(DynRec *r, double value); /* a constant */
DYN_HIDDEN NpArg dyn_tt_int(DynRec *r, int64_t value);
/* Is it a node that could not be made? */
static inline bool dyn_tt_is_missing(NpArg a) { return a.arg.kind == DYN_ARG_NODE && a.arg.id == DYN_NONE; }
/* Two nodes, or a node and a constant, in the dtype of the first. */
static inline uint32_t dyn_tt_nodes(DynRec *r, DynOp op, uint32_t a, uint32_t b) {
    return a == DYN_NONE || b == DYN_NONE ? DYN_NONE : dyn_tt_binary(r, op, a, dyn_np_node_arg(r, b));
}
static inline uint32_t dyn_tt_by(DynRec *r, DynOp op, uint32_t a, double b) {
    return a == DYN_NONE ? a : dyn_tt_binary(r, op, a, dyn_tt_number(r, b));
}
DYN_HIDDEN int dyn_tt_operand(DynRec *r, const NpCall *c, const char *name, NpArg *out); /* 0; -1: not given, or none of these */
DYN_HIDDEN int dyn_tt_dtype(DynRec *r, const NpCall *c, DynDtype *out);   /* dtype=, burnt in; not given: *out stays */
DYN_HIDDEN int dyn_tt_axis(DynRec *r, DynOperand o, int ndim, int *axis); /* one burnt axis; -1 */
/* The same; not given: *axis stays. */
DYN_HIDDEN int dyn_tt_optional_axis(DynRec *r, DynOperand o, int ndim, int *axis);
/* A float that is the same at every call; not given: *out stays. */
DYN_HIDDEN int dyn_tt_burnt_float(DynRec *r, DynOperand o, double *out);
typedef struct TtFloat { /* a parameter that is such a float */
    const char *name;
    double *out;
} TtFloat;
DYN_HIDDEN int dyn_tt_burnt_floats(DynRec *r, const NpCall *c, const TtFloat *floats, int n); /* in turn; -1 */
DYN_HIDDEN bool dyn_tt_is_str(DynRec *r, DynOperand o, const char *text);                     /* is it this str, at every call */
DYN_HIDDEN uint32_t dyn_tt_tensor_of(DynRec *r, DynOperand o);                                /* a tensor's node, or DYN_NONE */
DYN_HIDDEN uint32_t dyn_tt_tensor(DynRec *r, const NpCall *c, const char *name);
DYN_HIDDEN int dyn_tt_two(DynRec *r, const NpCall *c, NpArg *args); /* the first two parameters; -1: one is not given, or none */
DYN_HIDDEN uint32_t dyn_tt_integers(DynRec *r, DynOp op, const NpArg *args); /* of two, in the integers in which they meet */
/* The node as the call's result: stored into the operand that is changed in place or `out`, else a new tensor. */
DYN_HIDDEN DynVal *dyn_tt_finish(DynRec *r, NpCall *c, uint32_t node);

/* rec_torch_state.c: the gradient of `node` as a whole, by a formula of up to three operands, of which the first is a node
 * (DynFormula). -1: no memory. */
DYN_HIDDEN int rec_torch_formula(DynRec *r, uint32_t node, const DynArg *operands, const char *text);

/* rec_torch_norm.c: on a device, is what normalises along an axis faster as kernels of ours than as PyTorch's call? Where the
 * operand is computed in front of it that is fused, and long rows and axes that aren't the last one are faster anyway. */
DYN_HIDDEN bool dyn_tt_rows_pay(DynRec *r, uint32_t a, int axis);

/* Lie the graph's tensors on a device? PyTorch has kernels of its own there. */
static inline bool dyn_tt_has_own_kernel(DynRec *r) { return dyn_rec_graph(r)->device != 0; }

/* ---- rec_torch_view.c, rec_torch_index.c */
/* Sizes from the positional arguments behind `first`: ints, or one tuple of them. The rank, or -1. */
DYN_HIDDEN int dyn_tt_sizes(DynRec *r, const NpCall *c, int first, bool minus_one, uint32_t *shape);
/* A view as eager gave it: the operand itself where that came back. */
DYN_HIDDEN DynVal *dyn_tt_viewed(DynRec *r, const NpCall *c, uint32_t node);
DYN_HIDDEN uint32_t dyn_tt_same_view(DynRec *r, uint32_t a); /* a tensor of its own over the same memory */
/* x[index] and x[index] = value with tensors in the index. The latter gives -1 where it has to be a call. */
DYN_HIDDEN DynVal *dyn_tt_lookup(DynRec *r, PyObject *getitem, DynOperand a, uint32_t base, DynOperand index, PyObject *result);
DYN_HIDDEN int dyn_tt_store_places(DynRec *r, uint32_t base, DynOperand index, DynOperand value);

/* ---- rec_torch_memory.c */
DYN_HIDDEN uint32_t dyn_tt_as_dtype(DynRec *r, uint32_t a, DynOperand dtype, PyObject *tensor,
                                    PyObject *result); /* tensor.view(dtype): the same bytes */
/* A tensor of its own over the same memory, which requires gradients as eager's result does. */
DYN_HIDDEN uint32_t dyn_tt_detached(DynRec *r, uint32_t a, PyObject *tensor, PyObject *result);
DYN_HIDDEN uint32_t dyn_tt_detach(DynRec *r, uint32_t a, bool data); /* x.detach(); data: x.data */
DYN_HIDDEN DynVal *dyn_tt_part(DynRec *r, DynOperand o, uint32_t a, bool imaginary, PyObject *result); /* x.real, x.imag */

/* ---- rec_torch_sizes.c */
/* Number i of an argument that is one number or one for each axis; not given: `fallback`. DYN_NONE: it is none of these. */
DYN_HIDDEN uint32_t dyn_tt_number_of(DynRec *r, DynOperand o, int i, uint32_t fallback);
/* Sizes of a tensor as a list that a rule changes; the rank, or -1. */
DYN_HIDDEN int dyn_tt_sizes_of(DynRec *r, DynOperand o, uint32_t *shape);

/* ---- rec_torch_reduce.c: of a's dtype; DYN_NONE is passed on */
DYN_HIDDEN uint32_t dyn_tt_reduce(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdim);
DYN_HIDDEN uint32_t dyn_tt_count(DynRec *r, uint32_t a, int naxes, const int *axes); /* elements for each result: an int symbol */
DYN_HIDDEN uint32_t dyn_tt_mean(DynRec *r, uint32_t a, int naxes, const int *axes, bool keepdim);
DYN_HIDDEN uint32_t dyn_tt_norm(DynRec *r, uint32_t a, double p, int naxes, const int *axes, bool keepdim); /* of floats */

#define TORCH(name, scopes, sig, rule, op) DYN_HIDDEN DynVal *tt_rule_##rule(DynRec *r, NpCall *c);
#include "tracer/torch/bind_torch.def"
#undef TORCH
#endif
