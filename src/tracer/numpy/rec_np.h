/* rec_np.h: what the NumPy rules (rec_numpy*.c) share, and nobody else sees.
 *
 * Rules predict a node's dtype and sizes from the operands; dyn_np_result compares them with what eager gave. A rule that fails
 * returns NULL, DYN_NONE or -1 with the reason set; the entry points then take back the nodes it made. */
#ifndef DYN_REC_NP_H
#define DYN_REC_NP_H
#include "base/arrays.h"
#include "tracer/numpy/rec_types.h"
#include "tracer/record/rec.h"

#define NP_MAX_SLOTS 10
#define NP_MAX_JOINED 64 /* parts of one array */
/* What an operand is for type resolution: a DynDtype, or a weak Python number (NEP 50). */
#define NP_WEAK_INT DYN_DTYPE_COUNT
#define NP_WEAK_FLOAT (DYN_DTYPE_COUNT + 1)
#define NP_WEAK_COMPLEX (DYN_DTYPE_COUNT + 2) /* a constant: its arg is a COMPLEX node */
#define NP_CODES (DYN_DTYPE_COUNT + 3)

typedef struct NpArg { /* an operand of an elementwise operator */
    DynArg arg;
    uint8_t code;
} NpArg;

static inline DynNode *dyn_np_node_at(DynRec *r, uint32_t id) { return dyn_graph_node(dyn_rec_graph(r), id); }

typedef struct NpCall NpCall;
typedef DynVal *(*NpRule)(DynRec *r, NpCall *c);
enum { /* what a call does besides giving a result; dynoc/_torch.py knows the numbers */
       DYN_BIND_PURE,
       DYN_BIND_IN_PLACE, /* it changes its first argument, and gives it back */
       DYN_BIND_RANDOM,   /* it draws random numbers */
       DYN_BIND_UNKNOWN,
       DYN_BIND_POINTWISE, /* nothing, and the result has the sizes its tensors broadcast to */
       DYN_BIND_BY_RULE,   /* what its rule doesn't know may have effects: no call in a graph */
       DYN_BIND_EFFECTS
};
struct DynBinding {
    const char *path; /* "linalg.solve" below numpy, or a method's name */
    const char *sig;  /* parameters in order, by blanks; "" : the rule looks at the arguments itself */
    NpRule rule;
    int op;             /* DynOp, or the rule's own number */
    PyObject *callable; /* strong; for methods ndarray's method descriptor */
    uint8_t effect;     /* DYN_BIND_*: of rows of bind_torch.def */
};
/* bindings.c: bindings by the address of the callable. find: NULL: it has none. add: the table's binding of row.callable, to
 * which it takes a reference; what has one already keeps it. NULL: memory ran out. */
typedef struct DynBindings {
    DynBinding **at;
    uint32_t n, cap;
} DynBindings;
DYN_HIDDEN const DynBinding *dyn_bindings_find(const DynBindings *t, PyObject *callable);
DYN_HIDDEN const DynBinding *dyn_bindings_add(DynBindings *t, DynBinding row);
struct NpCall {
    const DynBinding *b;
    const DynOperand *args; /* as called: positional, then keyword values */
    int npos, nkw;
    PyObject *kwnames, *result;
    DynOperand out; /* of a call of torch's: the tensor given as out=, which is the result; v is NULL where there is none */
    int out_at;     /* which of args that is */
    DynOperand slot[NP_MAX_SLOTS]; /* by the signature; v is NULL where not given (or given as None or NumPy's _NoValue) */
};

/* ---- rec_numpy.c: operands, results, failing */
/* Looks at a value and at what is in it (depth 0), before a rule makes nodes: what is found now outlives a rule that fails. */
DYN_HIDDEN int dyn_np_resolve(DynRec *r, DynOperand o, int depth);
DYN_HIDDEN const DynBinding *dyn_np_binding(const char *path, bool method); /* by its name in bind.def */
/* NumPy's ufuncs that are operators, counted from 0: NULL: there is no more. */
DYN_HIDDEN const DynBinding *dyn_np_nth_ufunc(int n);
/* Gives v. Where it is NULL, the nodes from `nnodes` on are taken back. */
DYN_HIDDEN DynVal *dyn_np_take_back(DynRec *r, uint32_t nnodes, DynVal *v);
DYN_HIDDEN bool dyn_np_is_no_value(PyObject *o);            /* what NumPy's functions take for "not given" */
DYN_HIDDEN DynVal *dyn_np_refuse(DynRec *r, DynReason why); /* NULL */
/* The same, for a form of an operation that there is no row for: no shadow, no node. */
static inline DynVal *dyn_np_unsupported(DynRec *r) { return dyn_np_refuse(r, DYN_R_UNSUPPORTED_OP); }
static inline uint32_t dyn_np_no_node(DynRec *r) { return dyn_np_unsupported(r), DYN_NONE; }
DYN_HIDDEN int dyn_np_assume(DynRec *r, uint32_t sym); /* the bool symbol is true at every call; -1 where it is false now */
/* 1: the exponent is `value` and guarded to be; 0: it is not, and guarded not to be; -1: failed. */
DYN_HIDDEN int dyn_np_exponent_is(DynRec *r, uint32_t sym, double value);
DYN_HIDDEN int dyn_np_assume_op(DynRec *r, DynSymOp op, uint32_t a, int64_t b); /* the relation of a with a plain int */
DYN_HIDDEN uint32_t dyn_np_int(DynRec *r, int64_t value);
DYN_HIDDEN uint32_t dyn_np_op(DynRec *r, DynSymOp op, uint32_t a, uint32_t b);
DYN_HIDDEN int64_t dyn_np_hint(DynRec *r, uint32_t sym);
/* A node of the running instruction. compute is the dtype till the rule says otherwise. */
DYN_HIDDEN uint32_t dyn_np_add(DynRec *r, DynOp op, DynDtype dtype, int ndim, int nargs, int naux);
/* Is it an operator that kernels on the graph's device haven't, of that dtype? The call stays one. */
DYN_HIDDEN bool dyn_np_stays_call(DynRec *r, DynOp op, DynDtype compute);
DYN_HIDDEN uint32_t dyn_np_unary_node(DynRec *r, DynOp op, DynDtype dtype, uint32_t operand, int ndim,
                                      int naux);                    /* views, copies, reductions */
DYN_HIDDEN uint32_t dyn_np_node(DynRec *r, DynOperand o);           /* the node of an array or NumPy scalar */
DYN_HIDDEN int dyn_np_operand(DynRec *r, DynOperand o, NpArg *out); /* that, or a Python number */
DYN_HIDDEN NpArg dyn_np_node_arg(DynRec *r, uint32_t node);
DYN_HIDDEN uint32_t dyn_np_int_sym(DynRec *r, DynOperand o); /* symbol of a Python int (or constant with __index__) */
/* What a tuple, list or slice is made of: their number, or -1 when it is none. A lone value is not. */
/* rec_torch_whole.c: notes a call of tensors, of which the nodes from `first` on were made, if it gave one that requires
 * gradients. */
DYN_HIDDEN void rec_torch_note_whole(DynRec *r, const NpCall *c, uint32_t first, const DynVal *v);
DYN_HIDDEN int dyn_np_items(DynRec *r, DynOperand o, DynOperand *items, int max);
DYN_HIDDEN int dyn_np_flag(DynRec *r, DynOperand o, bool *value); /* a burnt-in bool; not given: *value stays */
/* Burnt-in axes: one int, or a tuple of them, of an operand of that rank. A bit mask, sorted list in axes; count, or -1. */
DYN_HIDDEN int dyn_np_axes(DynRec *r, DynOperand o, int ndim, int *axes);
/* The shadow of what `node` gives, checked against eager's result. */
DYN_HIDDEN DynVal *dyn_np_result(DynRec *r, uint32_t node, PyObject *result);
DYN_HIDDEN DynDtype dyn_np_dtype_of(PyObject *o); /* of an exact ndarray or NumPy scalar that is captured, else DYN_NO_DTYPE */

/* ---- rec_gradient.c: a node has its value; where the segment derives what a call gave is kept. -1: no memory */
DYN_HIDDEN int dyn_rec_call_gave(DynRec *r, uint32_t node, PyObject *result);

/* ---- rec_numpy_attr.c: what a module has under a name; borrowed for ever. NULL, without an exception: nothing. */
DYN_HIDDEN PyObject *dyn_np_function(const char *module, const char *name);

/* ---- rec_numpy_elem.c */
DYN_HIDDEN int dyn_np_elem_init(PyObject *numpy);
/* Which loop NumPy takes for operands of these codes: nin + nout dtypes. wanted: dtype= of the call, or DYN_NO_DTYPE; casting:
 * casting= of the call, or NULL. -1: none, or one that isn't captured. */
DYN_HIDDEN int dyn_np_loop(PyObject *ufunc, const int *codes, int nin, int nout, DynDtype wanted, PyObject *casting,
                           DynDtype *loop);
DYN_HIDDEN int dyn_np_types(DynRec *r, DynOp op, int a, int b, DynDtype *compute, DynDtype *result); /* b: -1 for one operand */
/* Eager called the ufunc itself, or by an operator of arrays (power differs), or it used the operators of NumPy scalars. */
typedef enum NpForm { NP_UFUNC, NP_OPERATOR, NP_SCALARS } NpForm;
DYN_HIDDEN uint32_t dyn_np_elementwise(DynRec *r, DynOp op, const NpArg *args, int n, NpForm form);
/* The same with the loop's dtypes known. */
DYN_HIDDEN uint32_t dyn_np_elementwise_in(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n,
                                          NpForm form);
DYN_HIDDEN uint32_t dyn_np_elementwise_as(DynRec *r, DynOp op, DynDtype compute, DynDtype result, const NpArg *args, int n);
/* A Python number that is converted to dtype dt (assigned or computed with): guards that the conversion is exact and doesn't
 * raise. */
DYN_HIDDEN int dyn_np_convert_guard(DynRec *r, uint32_t sym, DynDtype dt);
DYN_HIDDEN int dyn_np_broadcast(DynRec *r, const uint32_t *nodes, int n, uint32_t *shape); /* rank, or -1 */
/* `node` is written into the array `dst` (out=, in-place operators); gives dst's own shadow. */
DYN_HIDDEN DynVal *dyn_np_store_into(DynRec *r, DynOperand dst, NpArg value);
DYN_HIDDEN uint32_t dyn_np_copy(DynRec *r, uint32_t a, DynDtype dt); /* a COPY of a whole node */
/* Does a conversion drop imaginary parts? Eager warns of it. */
static inline bool dyn_np_drops(DynDtype from, DynDtype to) {
    return dyn_dtypes[from].kind == 'c' && dyn_dtypes[to].kind != 'c' && to != DYN_BOOL;
}
DYN_HIDDEN int dyn_np_store(DynRec *r, uint32_t dst, NpArg value);
/* Is `value`, of dtype `from`, a NumPy scalar that NumPy takes for a Python number where it is stored in an element of dtype
 * `to`, which then may raise where a conversion would give another number? */
DYN_HIDDEN bool dyn_np_may_not_fit(PyObject *value, int from, DynDtype to);
DYN_HIDDEN bool dyn_np_overlaps_itself(DynRec *r, uint32_t node); /* can two of its elements be one piece of memory? */
/* Of rec_numpy_gather.c: the places are an input's that nobody has written so far, and so is the size they have to be below. */
DYN_HIDDEN bool dyn_np_known_from_the_start(DynRec *r, uint32_t index, uint32_t size);
/* A lookup along an axis, whose result has these sizes. DYN_NONE: it has to be a call. */
DYN_HIDDEN uint32_t dyn_np_gather(DynRec *r, uint32_t a, uint32_t index, int axis, const uint32_t *shape, int ndim);
/* Where an index with arrays of integers, or of one, names elements: at `places` along an axis of `table`, which is the array or
 * a view of it: what slices and numbers leave of it, with axes that several arrays name as one. */
typedef struct NpLookup {
    uint32_t table, places;
    int axis;
    bool c; /* what is found lies in C order at every call */
} NpLookup;
DYN_HIDDEN int dyn_np_places(DynRec *r, uint32_t a, DynOperand index, NpLookup *out);        /* -1: it is another index */
DYN_HIDDEN DynVal *dyn_np_lookup(DynRec *r, uint32_t a, DynOperand index, PyObject *result); /* a[i, j] */
/* rec_numpy_scatter.c: dst[index] = value (op -1), or np.add.at(dst, index, value) and the like. -1: it has to be a call. */
DYN_HIDDEN int dyn_np_scatter(DynRec *r, uint32_t dst, uint32_t index, NpArg value, int op);
DYN_HIDDEN int dyn_np_scatter_at(DynRec *r, const NpLookup *at, NpArg value, int op); /* along any axis */
DYN_HIDDEN bool dyn_np_has_acted(DynRec *r); /* something was recorded that can be seen from outside, and can't be done again */

/* ---- rec_numpy_ufunc.c */
/* Is it the row of one of NumPy's own ufuncs, which have no effect but their result? */
DYN_HIDDEN bool dyn_np_is_ufunc(const DynBinding *b);

/* ---- rec_numpy_layout.c */
/* How NumPy lays out what an operator makes of these operands. */
DYN_HIDDEN DynLayout dyn_np_layout_for(DynRec *r, const uint32_t *nodes, int n, int ndim, const uint32_t *shape);
DYN_HIDDEN bool dyn_np_always_c(DynRec *r, uint32_t node);              /* C-contiguous at every call under the guards */
DYN_HIDDEN int dyn_np_contiguous(DynRec *r, uint32_t a, bool fortran);  /* 1: at every call, 0: at none (makes guards); -1 */
DYN_HIDDEN int dyn_np_strides(DynRec *r, uint32_t node, uint32_t *out); /* bytes, for each axis a symbol */
/* Sizes of 0 and 1 stay what they are, others stay above 1: what a memory order rests on. */
DYN_HIDDEN int dyn_np_hold_sizes(DynRec *r, uint32_t node);
DYN_HIDDEN uint32_t dyn_np_copy_in_order(DynRec *r, uint32_t a, DynDtype dt, bool fortran);
/* As NumPy's: a view, or a view of a copy. A size of DYN_NONE is what is left. */
DYN_HIDDEN uint32_t dyn_np_reshape(DynRec *r, uint32_t a, int ndim, uint32_t *shape, bool fortran);
DYN_HIDDEN uint32_t dyn_np_ravel(DynRec *r, uint32_t a);
DYN_HIDDEN uint32_t dyn_np_flat_copy(DynRec *r, uint32_t a); /* one axis, in C order, owning its bytes */

/* ---- rec_numpy_view.c */
DYN_HIDDEN uint32_t dyn_np_permute(DynRec *r, uint32_t a, const int *perm);
DYN_HIDDEN uint32_t dyn_np_newaxis(DynRec *r, uint32_t a, uint32_t positions, int ndim); /* bit mask of the result's new axes */
DYN_HIDDEN uint32_t dyn_np_reshape_view(DynRec *r, uint32_t a, int ndim, const uint32_t *shape, uint8_t flag);
DYN_HIDDEN uint32_t dyn_np_range_view(DynRec *r, uint32_t a, int axis, uint32_t start,
                                      uint32_t stop);                             /* a[..., start:stop, ...] */
DYN_HIDDEN uint32_t dyn_np_reversed(DynRec *r, uint32_t a, uint32_t mask);        /* a[::-1] along the axes of the mask */
DYN_HIDDEN uint32_t dyn_np_pick(DynRec *r, uint32_t a, int axis, uint32_t index); /* a[..., index, ...] */
DYN_HIDDEN uint32_t dyn_np_broadcast_view(DynRec *r, uint32_t a, int ndim, const uint32_t *shape);
DYN_HIDDEN DynOperand dyn_np_slot(const NpCall *c, const char *name); /* the argument for a parameter; v NULL: not given */
/* Sizes from an argument: an int or a tuple or list of ints, each guarded not to be negative (-1 allowed: one of them stays
 * DYN_NONE). */
DYN_HIDDEN int dyn_np_shape_arg(DynRec *r, DynOperand o, bool minus_one, uint32_t *shape);
DYN_HIDDEN uint32_t dyn_np_product(DynRec *r, int n, const uint32_t *shape);

DYN_HIDDEN uint32_t dyn_np_basic_index(DynRec *r, uint32_t a, DynOperand index); /* a[index] as a SLICE node */
/* Of rec_numpy_own.c: does the back end make the call itself? DynOwnKind. */
DYN_HIDDEN DynOp dyn_np_call_operator(DynRec *r, uint32_t call, const DynExtern *x);
/* What an index names in which arrays of integers stand: their axes are whole in the view. Numbers beside one array are gone from
 * it, beside several they are places as those are. */
typedef struct NpPlace {
    int axis;              /* of the view */
    uint32_t node, number; /* one of them is DYN_NONE */
} NpPlace;
typedef struct NpPlaces {
    int n;
    bool apart; /* something else stands between: what they name comes first in the result */
    NpPlace at[DYN_MAX_NDIM];
} NpPlaces;
DYN_HIDDEN uint32_t dyn_np_index_around(DynRec *r, uint32_t a, DynOperand index, NpPlaces *places);

/* ---- rec_numpy_attr.c */
DYN_HIDDEN uint32_t dyn_np_part(DynRec *r, DynOp op, uint32_t a); /* REAL or IMAG of a complex node: a view */
DYN_HIDDEN DynVal *dyn_np_shape_tuple(DynRec *r, uint32_t a, PyObject *result);
DYN_HIDDEN DynVal *dyn_np_transposed(DynRec *r, uint32_t a, bool matrix, PyObject *result); /* all axes, or the last two */

/* ---- rec_torch*.c */
DYN_HIDDEN DynVal *tt_rule_pointwise(DynRec *r, NpCall *c);         /* the sizes are those to which the tensors broadcast */
DYN_HIDDEN const DynBinding *dyn_torch_binding(PyObject *callable); /* a callable of torch's; NULL: nothing is known of it */
/* The rule of a callable without a row: its schema says what it does (DynBinding.effect). */
DYN_HIDDEN DynVal *tt_rule_call(DynRec *r, NpCall *c);
DYN_HIDDEN uint32_t dyn_torch_operator(DynRec *r, DynOp op, NpArg *args, int n);
/* Are these two looks at one storage that may overlap in part? Where one is written and the other read, torch raises, or what
 * comes out is as its loops go: such a call is torch's own. */
DYN_HIDDEN bool dyn_torch_looks_elsewhere(DynRec *r, uint32_t dst, uint32_t node);
DYN_HIDDEN DynVal *dyn_torch_attr(DynRec *r, DynOperand a, uint32_t node, PyObject *name, PyObject *result);
DYN_HIDDEN DynVal *dyn_torch_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, PyObject *result);
DYN_HIDDEN int dyn_torch_store_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, DynOperand value);
DYN_HIDDEN DynVal *dyn_np_extern_in_place(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                          PyObject *kwnames,
                                          PyObject *result); /* the first argument is changed, and the result */
/* … gives an object of its own, and writes argument `writes`; -1: it has another effect. */
DYN_HIDDEN DynVal *dyn_np_extern_launch(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                        PyObject *kwnames, PyObject *result, int writes);
/* Memory whose address somebody has by now becomes operands too, behind the *n of a call that opens. -1: there is no room. */
DYN_HIDDEN int dyn_np_add_shown(DynRec *r, DynArg *args, uint32_t *n, uint32_t room); /* rec_foreign.c */
/* A call in which any code may run (DynExtern.opens); what it gives is a number, None or a new object. */
DYN_HIDDEN DynVal *dyn_np_extern_open(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                      PyObject *kwnames, PyObject *result);
DYN_HIDDEN DynVal *dyn_np_extern_once(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int npos,
                                      PyObject *kwnames, PyObject *result); /* has an effect: made once, in its place */

/* ---- rec_numpy_launch.c */
typedef struct NpLaunch {
    PyObject *callable;
    const char *name;
    const DynOperand *args;
    int npos;
    PyObject *kwnames, *result;
    int writes; /* the argument that is written; -1: none, or those within arguments */
    const DynOperand *others;
    int nothers; /* … and these arrays */
} NpLaunch;
DYN_HIDDEN DynVal *dyn_np_launch(DynRec *r, const NpLaunch *l);

/* ---- rec_cupy.c */
DYN_HIDDEN const DynBinding *dyn_cupy_binding(PyObject *callable); /* a callable of CuPy's; NULL: nothing is known of it */
DYN_HIDDEN bool dyn_cupy_is_bound(const DynBinding *b);            /* is it one of those? */
DYN_HIDDEN bool dyn_cupy_has_rule_for(PyObject *attribute);        /* do NumPy's rules hold for this attribute of an array? */
DYN_HIDDEN DynVal *dyn_cupy_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, PyObject *result);
DYN_HIDDEN int dyn_cupy_store_subscr(DynRec *r, DynOperand a, uint32_t base, DynOperand index, DynOperand value);
/* Does CuPy compute the operator otherwise than NumPy, so that it stays a call of CuPy's? */
DYN_HIDDEN bool dyn_cupy_computes_otherwise(DynOp op, DynDtype compute);
DYN_HIDDEN DynVal *cp_rule_ufunc(DynRec *r, NpCall *c);
DYN_HIDDEN DynVal *cp_rule_kernel(DynRec *r, NpCall *c); /* a call of a kernel that the program wrote */
DYN_HIDDEN DynVal *cp_rule_raw(DynRec *r, NpCall *c);    /* a launch of one in CUDA's language */

/* ---- rec_numpy_shape.c */
/* A view that can't be written by Python (rules may); steps (aux) are 0 yet. */
DYN_HIDDEN uint32_t dyn_np_affine(DynRec *r, uint32_t a, int ndim, const uint32_t *start, const uint32_t *shape);
/* The same; the offset is an int symbol. */
DYN_HIDDEN uint32_t dyn_np_diagonal(DynRec *r, uint32_t a, int axis1, int axis2, uint32_t offset);

/* a[..., from:to, ...], each bound clipped as a slice's is; to: DYN_NONE is the end. */
DYN_HIDDEN uint32_t dyn_np_piece(DynRec *r, uint32_t a, int axis, uint32_t from, uint32_t to);

/* ---- rec_numpy_reduce.c */
typedef struct NpReduction { /* the arguments that all reductions take */
    uint32_t a, where;       /* where: the mask, or DYN_NONE */
    int naxes, axes[DYN_MAX_NDIM];
    bool keepdims;
    DynDtype dtype; /* asked for, or DYN_NO_DTYPE */
    DynOperand out, initial;
} NpReduction;
DYN_HIDDEN int dyn_np_burnt_dtype(DynRec *r, DynOperand o, DynDtype *out); /* dtype=; not given: *out stays */
DYN_HIDDEN int dyn_np_reduce_args(DynRec *r, const NpCall *c, NpReduction *x);
/* The dtype in which an accumulation of `a` by the binary operator goes on where none is asked for. */
DYN_HIDDEN DynDtype dyn_np_accumulator(DynRec *r, DynOp op, uint32_t a, const NpReduction *x);
/* The result, or where there is one `out`, into which `node` is stored. */
DYN_HIDDEN DynVal *dyn_np_finish_out(DynRec *r, uint32_t node, DynOperand out, PyObject *result);
DYN_HIDDEN uint32_t dyn_np_reduce(DynRec *r, DynOp op, uint32_t a, int naxes, const int *axes, bool keepdims, DynDtype dtype);

/* ---- rec_numpy_scan.c */
DYN_HIDDEN uint32_t dyn_np_scan(DynRec *r, DynOp op, uint32_t a, int axis); /* running results along an axis, of a's dtype */
/* Where the extreme lies along an axis, or (-1) among all elements in C order; int64. */
DYN_HIDDEN uint32_t dyn_np_position(DynRec *r, DynOp op, uint32_t a, int axis, bool keepdims);

/* ---- rec_numpy_strided.c */
/* A view by its strides, and by how far from a's first element its own lies, in bytes; all elements are guarded to be a's. */
DYN_HIDDEN uint32_t dyn_np_strided(DynRec *r, uint32_t a, int ndim, const uint32_t *shape, const uint32_t *strides,
                                   uint32_t offset, bool writeable);

/* ---- rec_numpy_extern.c */
DYN_HIDDEN DynVal *dyn_np_sized_call(DynRec *r, NpCall *c, int ndim, const uint32_t *shape); /* the call as it was made */
/* The same where several arrays come out: their sizes one behind the other, n in all. */
DYN_HIDDEN DynVal *dyn_np_sized_results(DynRec *r, NpCall *c, int n, const uint32_t *shape);
DYN_HIDDEN DynVal *dyn_np_sized_once(DynRec *r, NpCall *c, int ndim, const uint32_t *shape); /* has an effect: in its place */
DYN_HIDDEN DynVal *dyn_np_sized_extern(DynRec *r, PyObject *callable, const char *name, const DynOperand *args, int n,
                                       PyObject *result, const uint32_t *shape); /* another one in its place */

/* ---- rec_numpy_sized.c */
/* The size to which two sizes broadcast: equal ones, or one of them is 1, at every call. DYN_NONE: refused. */
DYN_HIDDEN uint32_t dyn_np_broadcast_size(DynRec *r, uint32_t a, uint32_t b);
/* The node of an array or NumPy scalar that was looked at; DYN_NONE: it is another thing. */
DYN_HIDDEN uint32_t dyn_np_operand_node(DynRec *r, DynOperand o);
DYN_HIDDEN int dyn_np_agree(DynRec *r, uint32_t a, uint32_t b); /* two sizes are equal now, and at every call; -1 */

/* ---- rec_numpy_make.c */
DYN_HIDDEN int dyn_np_burn_rest(DynRec *r, const NpCall *c, int first); /* slots from `first` on are the same at every call */
DYN_HIDDEN uint32_t dyn_np_full(DynRec *r, DynDtype dt, int ndim, const uint32_t *shape, DynArg fill);
DYN_HIDDEN DynArg dyn_np_fill(DynRec *r, DynDtype dt, int what); /* 0 nothing, 1 zero, 2 one, as a number of the dtype's kind */
/* What order= says of new arrays of the operand's sizes (DYN_NONE: of no operand): guards for what the order rests on. */
DYN_HIDDEN int dyn_np_order_guards(DynRec *r, DynOperand order, uint32_t a);

/* ---- rec_numpy_grid.c */
DYN_HIDDEN uint32_t dyn_np_iota(DynRec *r, uint32_t n);                                            /* 0 … n - 1 as int64 */
DYN_HIDDEN uint32_t dyn_np_arange_length(DynRec *r, uint32_t start, uint32_t stop, uint32_t step); /* int symbols, or floats */
DYN_HIDDEN uint32_t dyn_np_arange(DynRec *r, uint32_t n, uint32_t start, uint32_t step);           /* int64: start + i * step */

/* ---- rec_numpy_items.c */
/* np.array of a number or of lists of numbers and arrays. */
DYN_HIDDEN DynVal *dyn_np_from_items(DynRec *r, DynOperand o, PyObject *result);

/* ---- rec_numpy_join.c */
/* One place along an axis of that size, from either end; all: one behind the last counts too. */
DYN_HIDDEN uint32_t dyn_np_place(DynRec *r, DynOperand o, uint32_t size, bool all);
/* A new array of the parts one behind the other along an axis; the layout is the caller's to set. */
DYN_HIDDEN uint32_t dyn_np_join(DynRec *r, const uint32_t *nodes, int n, int axis, DynDtype dt);
DYN_HIDDEN uint32_t dyn_np_one_number(DynRec *r, DynOperand o, DynDtype dt); /* a Python number as an array of one element */
/* Parts joined into eager's result: guards for its memory order. */
DYN_HIDDEN DynVal *dyn_np_joined(DynRec *r, const uint32_t *nodes, int n, int axis, PyObject *result);

/* ---- the rules that bind.def names */
#define FUNC(path, sig, rule, op) DYN_HIDDEN DynVal *np_rule_##rule(DynRec *r, NpCall *c);
#define METHOD(name, sig, rule, op) DYN_HIDDEN DynVal *np_rule_##rule(DynRec *r, NpCall *c);
#include "tracer/numpy/bind.def"
#undef FUNC
#undef METHOD
#endif
