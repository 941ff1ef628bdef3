/* loops.h: loop IR, private to codegen: the graph as kernels over iteration spaces, in the order in which they run.
 *
 *     steps = kernel | scan | extern call | geometry of a view | check of the places of a gather
 *     kernel = a space (list of size symbols), operands (memory seen through a map of axes), and SSA instructions for one point
 *              of the space. Instructions refer to earlier ones.
 *
 * lower.c makes them, recompute.c takes values into the kernels that read them, fuse.c merges kernels, schedule.c groups them.
 *
 * Memory is named by "places": place i < graph nodes is the memory of node i (a view has its owner's bytes under its own
 * geometry); places behind those are temporaries that have no node (extras). Everything lives in the capture's arena; run.c reads
 * it at every call. Values that have no place are recomputed where they are used. */
#ifndef DYN_LOOPS_H
#define DYN_LOOPS_H
#include "codegen/codegen.h"
#include "codegen/native.h"

#define DYN_MAX_OPERANDS 20 /* of one kernel: what its pointers and scratch blocks are sized for */
#define DYN_MAX_INSNS 400
#define DYN_MAX_RESULTS 4    /* reductions in one kernel */
#define DYN_MAX_PARAMS 64    /* numbers that one kernel takes by value: what its arguments have room for */
#define DYN_MAX_KERNELS 2000 /* of one graph; a graph of more runs as plain Python */

/* Lists grow in the arena, so that nobody has to free a DynLoops. */
#define DYN_LIST(T) DYN_VEC(T)
DYN_HIDDEN int dyn_loops_grow(DynArena *arena, void **at, uint32_t *cap, uint32_t n, size_t item);
#define dyn_list_push(arena, l, x)                                                                               \
    (((l)->n < (l)->cap || dyn_loops_grow((arena), (void **)&(l)->at, &(l)->cap, (l)->n, sizeof(*(l)->at)) == 0) \
         ? ((l)->at[(l)->n++] = (x), 0)                                                                          \
         : -1)

typedef enum DynInsnKind {
    DYN_L_LOAD,   /* a[0]: operand */
    DYN_L_SCALAR, /* a[0]: param */
    DYN_L_CAST,   /* a[0]: instruction, to dtype */
    DYN_L_OP,     /* op over a[0..nargs): instructions, computed in `compute`; value has dtype */
    DYN_L_STORE,  /* a[0]: operand, a[1]: instruction of the operand's dtype */
    DYN_L_REDUCE  /* a[0]: operand, a[1]: instruction of dtype compute; op combines over the kernel's reduced axes */
} DynInsnKind;
typedef struct DynInsn {
    uint8_t kind, dtype, compute, nargs;
    uint16_t op; /* OP, REDUCE: row of ops.def */
    uint32_t a[3];
} DynInsn;

typedef struct DynOperand {
    uint32_t place;
    uint8_t dtype;
    bool out;
    bool result;   /* of a REDUCE: one element for all that is reduced */
    bool scalar;   /* one element for a whole stretch of lanes, loaded before the loop, or none: it says where others stand
          (schedule.c) */
    bool still;    /* one element for each row of the last axis: a kernel has a second function that takes it as one element */
    bool window;   /* part of the place: */
    bool indirect; /* `along`, an axis of the place that no axis of the space walks, is stood at where another operand */
    uint8_t along; /* says, an array of integers of which each is in range, negative ones counted from the end */
    uint16_t by;   /* that operand */
    int8_t axis[DYN_MAX_NDIM]; /* for each axis of the space: the place's axis that it walks, or -1 */
    int32_t at[DYN_MAX_NDIM];  /* window: for each axis of the space, where on the place's axis it begins */
} DynOperand;
typedef struct DynParam { /* a Python number as the kernel sees it */
    uint32_t sym;
    uint8_t dtype;
    bool is_float; /* the symbol's own type */
} DynParam;

typedef struct DynBuiltinPlan DynBuiltinPlan; /* builtin.h */
typedef struct DynKernel {
    uint32_t at; /* node at whose place in program order it runs */
    uint8_t ndim;
    uint32_t shape[DYN_MAX_NDIM]; /* symbols */
    uint32_t reduced;             /* bit k: axis k is reduced. 0: elementwise */
    bool ordered;                 /* floats are added or multiplied in NumPy's order, as eager's array of */
    uint32_t like;                /* this node lies, whose axes are those of the space */
    bool in_place;                /* a storage that it writes is also read: tails must not be computed twice */
    bool dead;                    /* merged into another */
    bool margin;                  /* runs outside of a box of its space only: the rest is computed by others (recompute.c) */
    int32_t box_at[DYN_MAX_NDIM];
    uint32_t box_shape[DYN_MAX_NDIM]; /* symbols */
    uint8_t lanes;                    /* granularity of elementwise calls */
    uint32_t cost;                    /* rough cost of one point, in tenths of a nanosecond */
    int16_t number;                   /* in the compiled object */
    const DynBuiltinPlan *builtin;    /* how it runs until there is native code; NULL: not at all */
    uint32_t group;                   /* kernels with one group number run row by row together; DYN_NONE: alone */
    uint8_t outer;                    /* in a group: how many leading axes of the space are the rows */
    bool has_still;                   /* some of its operands are `still` */
    bool across;                      /* in a group: has one element in a row, and rows are its lanes */
    DYN_LIST(DynInsn)
    insns;
    DYN_LIST(DynOperand)
    operands;
    DYN_LIST(DynParam)
    params;
} DynKernel;

typedef enum DynPlaceKind {
    DYN_P_NONE,   /* has no memory, or is not needed */
    DYN_P_INPUT,  /* the ndarray handed in */
    DYN_P_ARRAY,  /* a fresh ndarray: it is an output, an extern call takes it, or its sizes are not known from the start */
    DYN_P_TEMP,   /* memory of the plan */
    DYN_P_ROW,    /* memory of the plan for one row of a group, one for each thread */
    DYN_P_EXTERN, /* what the extern call returned */
    DYN_P_VIEW,   /* another place's memory */
    DYN_P_DENSE   /* the bytes of place `of` under another shape, C order: where a reshape that copies is written */
} DynPlaceKind;
typedef struct DynMem {
    uint8_t kind;
    uint8_t dtype, ndim;
    bool wants_object; /* VIEW: an ndarray of it is needed (output, extern operand) */
    bool waits;        /* ARRAY: made in front of the first step that touches it, not when the graph begins */
    bool for_flags;    /* nobody reads it: it is computed for the floating-point flags alone */
    uint32_t *shape;   /* symbols */
    const DynLayout *layout;
    uint32_t after;       /* its sizes are known behind this extern call: 1 + the node; 0: from the start */
    uint32_t of;          /* the place that owns the bytes, for places behind the nodes */
    uint32_t group;       /* ROW: its group */
    uint32_t row_axes;    /* ROW: bit k: its axis k is walked by the rows */
    uint32_t first, last; /* TEMP: steps of the first write and the last use */
    uint32_t slot;        /* TEMP, ROW: slot of the plan */
} DynMem;

typedef enum DynStepKind {
    DYN_STEP_VIEW,
    DYN_STEP_KERNEL,
    DYN_STEP_EXTERN,
    DYN_STEP_SCAN,
    DYN_STEP_CHECK /* are the places that a GATHER node names all there? Else eager is to say so */
} DynStepKind;
typedef struct DynStep {
    uint8_t kind;
    uint32_t id;    /* VIEW, EXTERN, SCAN, CHECK: node; KERNEL: kernel (of a group: its first; the rest follow) */
    uint32_t chain; /* steps with one number run a block of rows at a time, where the product is made so (chain.c); 0: alone */
    uint32_t pair;  /* two reductions with one number go over large memory once (pair.c), where the first is; 0: alone */
} DynStep;

typedef struct DynDrop { /* in front of the step the array of the place is made; or behind it, it isn't needed any more */
    uint32_t step, place;
} DynDrop;

struct DynLoops {
    const DynGraph *graph;
    DynArena *arena;
    uint32_t nnodes, nplaces;
    DynMem *places;
    uint32_t cap_places;
    DYN_LIST(DynKernel)
    kernels;
    DYN_LIST(DynStep)
    steps;
    DYN_LIST(DynDrop)
    makes; /* in the order of steps: ARRAY places that wait for theirs */
    DYN_LIST(DynDrop)
    drops;
    uint32_t nslots, nrow_slots; /* slots of the memory plan; the first are for one row */
    uint32_t nnative, ngroups, nchains, npairs;
    DYN_LIST(uint32_t)
    written; /* inputs (by position) that are written, where eager may have to make the call again, or tensors are among them */
    bool writes_inputs; /* or has another effect */
    bool builtin;       /* all kernels have a plan for the built-in tier */
    bool *handed;       /* by node: somebody else than kernels and products gets the array */
    bool late_arrays;   /* there are some whose sizes are known behind an extern call */
    bool asks_torch;    /* functions of PyTorch\'s are called that gradients would follow */
    bool tensors;       /* a part of the graph is PyTorch's, which has no floating-point warnings: there are none */
    bool warns; /* what raises a flag for invalid values or division by zero is left to eager even where np.errstate ignores it */
    bool fast_math;
    bool lanes_only; /* kernels have no form but LANES, LOOKUP and COLUMNS (native.def): the built-in tier's */
};

/* kernels.c; of lower.c the cost of an operator and what may warn */
DYN_HIDDEN uint32_t dyn_loops_storage(const DynLoops *p, uint32_t place); /* the place that owns the bytes */
/* plan.c: the first and the last step that run interleaved with step s. */
DYN_HIDDEN void dyn_steps_together(const DynLoops *p, uint32_t s, uint32_t *first, uint32_t *last);
DYN_HIDDEN int dyn_drops(DynLoops *p); /* drops.c; -1: memory */
DYN_HIDDEN bool dyn_loops_same_access(const DynGraph *g, uint32_t a,
                                      uint32_t b); /* two nodes that address the same elements in the same order */
DYN_HIDDEN uint32_t dyn_kernel_insn(DynLoops *p, DynKernel *k,
                                    DynInsn insn); /* finds an equal pure one or appends; DYN_NONE: full */
DYN_HIDDEN uint32_t dyn_kernel_operand(DynLoops *p, DynKernel *k, DynOperand operand);
DYN_HIDDEN uint32_t dyn_kernel_param(DynLoops *p, DynKernel *k, uint32_t sym, DynDtype dt);
DYN_HIDDEN bool dyn_kernel_touches(const DynLoops *p, const DynKernel *k, uint32_t storage, bool written_only);
DYN_HIDDEN bool dyn_step_scans(const DynLoops *p, const DynStep *step, uint32_t storage); /* a scan that reads or writes it, or a
                                                                                             check that reads it */
DYN_HIDDEN bool dyn_kernel_is_index(const DynKernel *k, uint32_t operand); /* it says where another operand stands */
DYN_HIDDEN bool dyn_kernel_is_loaded(const DynKernel *k, uint32_t operand);
DYN_HIDDEN bool dyn_insn_is_inexact(const DynInsn *insn);                   /* a reduction whose bits depend on the order */
DYN_HIDDEN bool dyn_insn_is_taken(const DynKernel *k, const DynInsn *insn); /* it reduces numbers as they lie in memory */
DYN_HIDDEN bool dyn_kernel_only_takes(const DynKernel *k);                  /* and so do all, and it does nothing else */
DYN_HIDDEN bool dyn_kernel_walks(const DynKernel *k, uint32_t operand);     /* has it an element for each lane? */
DYN_HIDDEN bool dyn_kernel_any_order(const DynKernel *k); /* its reductions give the same bits in whatever order */
DYN_HIDDEN uint32_t dyn_op_cost(uint16_t op, uint8_t dtype);
DYN_HIDDEN bool dyn_loops_op_warns(uint16_t op, uint8_t compute); /* may eager give a floating-point warning? */
DYN_HIDDEN bool dyn_loops_cast_warns(uint8_t from, uint8_t to);

/* fuse.c. All of one kernel behind what another holds. load gives the value of an operand there, or DYN_NONE, which fails; NULL
 * in place of `stored`: what `from` stores is stored, else it is not, and told. -1: no room. */
typedef uint32_t DynLoad(DynLoops *p, DynKernel *to, const DynOperand *operand, void *ctx);
DYN_HIDDEN int dyn_kernel_copy(DynLoops *p, DynKernel *to, const DynKernel *from, DynLoad *load, void *ctx, uint32_t *stored);
DYN_HIDDEN uint32_t dyn_kernel_load(DynLoops *p, DynKernel *k, const DynOperand *operand); /* DYN_NONE: full */

/* schedule.c. The axis of the owner of the bytes that an axis of a place walks in full and in order; -1: none. That of an operand
 * along axis k of its kernel. */
DYN_HIDDEN int dyn_loops_owner_axis(const DynLoops *p, uint32_t place, int axis);
DYN_HIDDEN int dyn_loops_row_axis(const DynLoops *p, const DynOperand *o, int k);
/* Are these several results, of so few elements each, by the sizes seen first, that a row isn't worth calls of its own? */
DYN_HIDDEN bool dyn_short_rows(const DynGraph *g, const uint32_t *shape, int ndim, uint32_t reduced);
/* pair.c. Operands: `first` of the first kernel is its result, `second` and `shift` of the second its result and what stands
 * for the first's, which is the sum divided by `divisor` (a symbol), or the maximum itself (DYN_NONE). */
typedef struct DynPair {
    uint32_t first, second, shift, divisor;
} DynPair;
DYN_HIDDEN bool dyn_pair_find(const DynLoops *p, uint32_t first, uint32_t second, DynPair *out); /* steps. false: they are none */
DYN_HIDDEN void dyn_pairs_make(DynLoops *p);
/* chain.c */
DYN_HIDDEN void dyn_chains_make(DynLoops *p);
DYN_HIDDEN bool dyn_chain_takes(const DynLoops *p, const DynStep *step); /* could it be in one, as far as it is seen alone? */

/* emit_expr.c */
DYN_HIDDEN int dyn_emit_expr(DynStr *out, const DynInsn *insn, DynDtype from,
                             const char *const *args);                                 /* from: dtype of args[0] */
DYN_HIDDEN int dyn_emit_op(DynStr *out, const DynInsn *insn, const char *const *args); /* of an operator; not rounded to half */
DYN_HIDDEN bool dyn_emit_rounds(const DynInsn *insn); /* does it give a half that dyn_emit_expr rounds? */
DYN_HIDDEN const char *dyn_emit_type(DynDtype dt);    /* of a value in a kernel: _Bool for BOOL */
DYN_HIDDEN const char *dyn_emit_memory_type(DynDtype dt);
/* Extremes of floats are kept as ranks, whole numbers in the order of the floats with nan beyond all: of those the processor has
 * a maximum, of floats it takes seven instructions, as nan may raise no flag. dyn_emit_rank: what makes a rank of the float x, or
 * a float of the rank x (back); x itself where the reduction keeps none. */
DYN_HIDDEN bool dyn_emit_is_ranked(const DynInsn *insn);
DYN_HIDDEN DynDtype dyn_emit_rank_dtype(const DynInsn *insn);
DYN_HIDDEN void dyn_emit_rank(DynStr *out, const DynInsn *insn, bool back, const char *x);
DYN_HIDDEN void dyn_emit_helpers(DynStr *out, const char *body); /* the functions that a text calls */

/* emit_strips.c: does a function of strips make instruction i? Its call: v<i> and what it is made of are arrays of the kernel's
 * lanes, from lane `from` on, but for a number that is its second operand. */
typedef struct DynStrip {
    char name[24];
    int nargs;      /* arrays that it takes: of one, twice the same */
    bool by_number; /* the second operand is one */
} DynStrip;
DYN_HIDDEN bool dyn_emit_strip(const DynKernel *k, uint32_t i, DynStrip *strip);
DYN_HIDDEN void dyn_emit_strip_call(DynStr *out, const DynKernel *k, uint32_t i, const DynStrip *strip, const char *indent,
                                    const char *from);

DYN_HIDDEN bool dyn_emit_can_reread(const DynKernel *k, const DynInsn *insn);   /* by each loop that uses it */
DYN_HIDDEN bool dyn_emit_strip_rounds(const DynKernel *k, const DynInsn *insn); /* a half, by a function of strips */
DYN_HIDDEN int dyn_emit_unrounded(DynStr *out, const DynInsn *insn, const char *const *args); /* the same before that */

/* emit_c.c: whether a kernel has a function of that form (native.def), and its text. length: of a row, for rows of that length
 * alone; 0: of any. */
DYN_HIDDEN bool dyn_emit_has_form(const DynLoops *p, const DynKernel *k, DynNativeForm form);
DYN_HIDDEN int dyn_emit_form(DynStr *out, const DynKernel *k, DynNativeForm form, int64_t length);
DYN_HIDDEN bool dyn_kernel_has_short_axis(const DynKernel *k);
/* emit_object.c: an object with those functions of all kernels that are picked, or (first: false) with the others; NULL: with
 * all. */
typedef bool DynPick(const DynLoops *p, const DynKernel *k, DynNativeForm form);
DYN_HIDDEN int dyn_emit_part(const DynLoops *p, DynPick *pick, bool first, DynStr *source);
/* An object with one kernel, which has rows of n lanes alone. -1: it can't be written. */
DYN_HIDDEN int dyn_emit_rows(const DynKernel *k, int64_t n, DynStr *source);

/* builtin.c */
DYN_HIDDEN int dyn_builtin_plan(DynLoops *p); /* -1: memory */
DYN_HIDDEN void dyn_builtin_print(const DynLoops *p, DynStr *out);
DYN_HIDDEN bool dyn_builtin_ready(void); /* are the compiled rows there? Loads them when first asked */
/* What form LANES or COLUMNS of the kernel does, by the built-in tier. */
DYN_HIDDEN void dyn_builtin_lanes(const DynKernel *k, const DynLanesArgs *args);
DYN_HIDDEN void dyn_builtin_columns(const DynKernel *k, const DynColumnsArgs *args);

/* loops_text.c */
DYN_HIDDEN DynLoops *dyn_loops_parse(const DynGraph *g, DynArena *arena, const char *text, DynStr *error);
#endif
