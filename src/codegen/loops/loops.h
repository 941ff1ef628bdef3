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

/* Memory as a kernel reads or writes it: a place, and which of its axes each axis of the space walks. */
typedef struct DynOperand {
    uint32_t place; /* The memory. */
    uint8_t dtype;  /* The dtype of the place. */
    bool out;       /* The kernel writes it. */
    bool result;    /* A REDUCE writes it: it has one element for all that is reduced. */
    bool scalar; /* It has one element for a whole stretch of lanes, loaded before the loop, or is only an index (schedule.c). */
    bool still;  /* It has one element for each row of the last axis; form ROW_CONSTANT takes it as one element. */
    bool window; /* It is a part of the place, which begins at `at`. */
    bool indirect; /* Another operand, an array of integers, says where on axis `along` of the place each element is. */
    uint8_t along; /* That axis, which no axis of the space walks; negative integers count from its end. */
    uint16_t by;   /* The operand with the integers. */
    int8_t axis[DYN_MAX_NDIM]; /* For each axis of the space: the place's axis that it walks, or -1. */
    int32_t at[DYN_MAX_NDIM];  /* For each axis of the space: where on the place's axis a window begins. */
} DynOperand;
/* A Python number as a kernel sees it. */
typedef struct DynParam {
    uint32_t sym;  /* The symbol whose value it is. */
    uint8_t dtype; /* The dtype that the kernel takes it in. */
    bool is_float; /* The symbol's own type is float. */
} DynParam;

typedef struct DynBuiltinPlan DynBuiltinPlan; /* builtin.h */
/* What is computed for each point of a space, in one pass over memory. */
typedef struct DynKernel {
    uint32_t at;                      /* The node at whose place in program order it runs. */
    uint8_t ndim;                     /* The rank of the space. */
    uint32_t shape[DYN_MAX_NDIM];     /* The sizes of the space: symbols. */
    uint32_t reduced;                 /* Bit k says that axis k is reduced; 0 is an elementwise kernel. */
    bool ordered;                     /* Floats are added or multiplied in NumPy's order, for the array of node `like`. */
    uint32_t like;                    /* The node that eager reduces; its axes are those of the space. */
    bool in_place;                    /* It reads a storage that it writes, so tails must not be computed twice. */
    bool dead;                        /* It has been merged into another kernel. */
    bool silent;                      /* PyTorch's: nobody hears of floating-point flags. */
    bool margin;                      /* It runs only outside of a box of its space; other kernels compute the rest. */
    int32_t box_at[DYN_MAX_NDIM];     /* Where the box of a margin begins on each axis. */
    uint32_t box_shape[DYN_MAX_NDIM]; /* The sizes of the box: symbols. */
    uint8_t lanes;                    /* Elementwise functions take a multiple of so many lanes. */
    uint32_t cost;                    /* What one point costs, roughly, in tenths of a nanosecond. */
    int16_t number;                   /* Its number in the compiled object. */
    uint8_t first;                 /* Of a reduction that is kept (keep.c): the form that a call like the recorded one needs. */
    const DynBuiltinPlan *builtin; /* How the built-in tier runs it; NULL where that can't. */
    uint32_t group;                /* Kernels with one group number run row by row together; DYN_NONE runs alone. */
    uint8_t outer;                 /* In a group: so many leading axes of the space are the rows. */
    bool has_still;                /* Some of its operands are `still`. */
    bool across;                   /* In a group: it has one element in a row, and the rows are its lanes. */
    DYN_LIST(DynInsn)
    insns; /* What is computed, in SSA form. */
    DYN_LIST(DynOperand)
    operands; /* The memory that it reads and writes. */
    DYN_LIST(DynParam)
    params; /* The Python numbers that it takes. */
} DynKernel;

typedef enum DynPlaceKind {
    DYN_P_NONE,   /* has no memory, or is not needed */
    DYN_P_INPUT,  /* the ndarray handed in */
    DYN_P_ARRAY,  /* a fresh ndarray: it is an output, an extern call takes it, or its sizes are not known from the start */
    DYN_P_TEMP,   /* memory of the plan */
    DYN_P_ROW,    /* memory of the plan for one row of a group, one for each thread */
    DYN_P_EXTERN, /* what the extern call returned */
    DYN_P_VIEW,   /* another place's memory */
    DYN_P_DENSE,  /* the bytes of place `of` under another shape, C order: where a reshape that copies is written */
    DYN_P_COUNT   /* nothing, on a device: 0, 1, 2 … of an IOTA, each of which is an eighth of the address that it would have */
} DynPlaceKind;
/* A place: where the elements of a value lie, if anywhere. */
typedef struct DynMem {
    uint8_t kind;            /* DynPlaceKind */
    uint8_t dtype;           /* DynDtype of the elements. */
    uint8_t ndim;            /* The rank. */
    bool wants_object;       /* VIEW: an array of it is needed, by Python or by an extern call. */
    bool waits;              /* ARRAY: it is made in front of the first step that touches it, not when the graph begins. */
    bool for_flags;          /* Nobody reads it: it is computed for the floating-point flags alone. */
    uint32_t *shape;         /* The sizes: symbols. */
    const DynLayout *layout; /* In which order the elements lie. */
    uint32_t after;          /* 1 + the extern call behind which its sizes are known; 0: they are known from the start. */
    uint32_t of;             /* The place that owns the bytes, for places behind the nodes. */
    uint32_t group;          /* ROW: its group. */
    uint32_t row_axes;       /* ROW: bit k says that the rows walk its axis k. */
    uint32_t first;          /* TEMP: the step that writes it first. */
    uint32_t last;           /* TEMP: the step that uses it last. */
    uint32_t slot;           /* TEMP, ROW: its slot in the memory plan. */
} DynMem;

typedef enum DynStepKind {
    DYN_STEP_VIEW,
    DYN_STEP_KERNEL,
    DYN_STEP_EXTERN,
    DYN_STEP_SCAN,
    DYN_STEP_CHECK /* do all places that a GATHER node names exist? Otherwise the call is eager's, which raises */
} DynStepKind;
/* One thing that a call of the graph does; the steps run in their order. */
typedef struct DynStep {
    uint8_t kind;   /* DynStepKind */
    uint32_t id;    /* VIEW, EXTERN, SCAN, CHECK: the node. KERNEL: the kernel, the first of a group; the others follow. */
    uint32_t chain; /* Steps with one number run a block of rows at a time where BLAS does (chain.c); 0 runs alone. */
    uint32_t pair;  /* Two reductions with one number go over large memory once, at the first (pair.c); 0 runs alone. */
} DynStep;

/* A step in front of which the array of a place is made, or behind which it isn't needed any more. */
typedef struct DynDrop {
    uint32_t step;  /* The step. */
    uint32_t place; /* The place. */
} DynDrop;

/* A graph as kernels and steps. */
struct DynLoops {
    const DynGraph *graph; /* The graph that it was made from. */
    DynArena *arena;       /* The memory of all lists. */
    uint32_t nnodes;       /* The number of nodes, which are the first places. */
    uint32_t nplaces;      /* The number of places. */
    DynMem *places;        /* The places. */
    uint32_t cap_places;   /* How many places there is room for. */
    DYN_LIST(DynKernel)
    kernels; /* The kernels, in no order. */
    DYN_LIST(DynStep)
    steps; /* What a call does, in order. */
    DYN_LIST(DynDrop)
    makes; /* The ARRAY places that wait for their step, in the order of steps. */
    DYN_LIST(DynDrop)
    late; /* The others whose sizes are known only behind an extern call: step is 1 + its node, by which they are ordered. */
    DYN_LIST(DynDrop)
    drops;               /* The arrays that are dropped before the graph ends, in the order of steps. */
    uint32_t nslots;     /* The number of slots in the memory plan. */
    uint32_t nrow_slots; /* So many slots, the first ones, hold one row for each thread. */
    uint32_t nnative;    /* The number of kernels that have native code. */
    uint32_t ngroups;    /* The number of groups. */
    uint32_t nchains;    /* The number of chains. */
    uint32_t npairs;     /* The number of pairs. */
    DYN_LIST(uint32_t)
    written; /* Inputs (by position) that are written, where eager may have to make the call again or has tensors, of which
              * each stands as often as it is written. */
    DYN_LIST(uint32_t) writers; /* The nodes that write inputs, where eager may have to make the call again. */
    DYN_LIST(uint32_t)
    renewed;            /* What Python gets of x.data (nodes), as often as it is written: each has versions of its own. */
    bool writes_inputs; /* The call writes inputs, or has another effect. */
    bool builtin;       /* All kernels have a plan for the built-in tier. */
    bool *handed;       /* By node: its array goes to somebody else than kernels and products. */
    bool asks_torch;    /* Functions of PyTorch are called that gradients would follow. */
    bool tensors;       /* A part of the graph is PyTorch's, which gives no floating-point warnings. */
    bool warns;         /* Invalid values and divisions by zero are eager's to report, even where np.errstate ignores them. */
    bool fast_math;     /* Reductions may add in any order. */
    bool device;        /* It runs on a device: no kernel of it has C, and calls are the framework's own. */
    bool lanes_only;    /* Kernels have only the forms LANES, LOOKUP and COLUMNS, as in the built-in tier (native.def). */
    DynStr *story;      /* Where story.c writes what was merged and what wasn't; NULL: nobody wants to know. */
};

/* kernels.c; of lower.c the cost of an operator and what may warn */
DYN_HIDDEN uint32_t dyn_loops_storage(const DynLoops *p, uint32_t place); /* the place that owns the bytes */
/* plan.c: the first and the last step that run interleaved with step s. */
DYN_HIDDEN void dyn_steps_together(const DynLoops *p, uint32_t s, uint32_t *first, uint32_t *last);
/* kernels.c: the operators of a kernel, each once, with this between them: "multiply, add"; and the symbol of its function in one
 * of the forms of native.def. */
DYN_HIDDEN void dyn_kernel_name(const DynKernel *k, const char *between, DynStr *out);
DYN_HIDDEN void dyn_kernel_symbol(const DynKernel *k, const char *form, DynStr *out);
/* story.c: nothing where nobody wants to know. apart: why two kernels stay two; NULL: they become one. step: no kernel's. */
DYN_HIDDEN void dyn_story_of_pair(const DynLoops *p, const DynKernel *a, const DynKernel *b, const char *apart);
DYN_HIDDEN void dyn_story_of_call(const DynLoops *p, const DynKernel *k, uint32_t step);
DYN_HIDDEN void dyn_story_of_window(const DynLoops *p, const DynKernel *maker);
/* Of a reduction: the steps that run row by row with it, and why those before and behind them don't; behind: NULL: `before` says
 * why there are none. */
DYN_HIDDEN void dyn_story_of_rows(const DynLoops *p, uint32_t first, uint32_t last, const char *before, const char *behind);
DYN_HIDDEN void dyn_story_of_steps(const DynLoops *p); /* in which order what runs, and how kernels go together */
DYN_HIDDEN int dyn_drops(DynLoops *p);                 /* drops.c; -1: memory */
/* Have two nodes the same operator, numbers (aux) and shape, and as many operands? */
DYN_HIDDEN bool dyn_node_same_form(const DynNode *x, const DynNode *y);
DYN_HIDDEN bool dyn_loops_same_access(const DynGraph *g, uint32_t a,
                                      uint32_t b); /* two nodes that address the same elements in the same order */
DYN_HIDDEN bool dyn_loops_same_place(const DynLoops *p, uint32_t a, uint32_t b); /* so do the nodes of two places */
/* Do two operands take the same elements, in the same order, without looking places up? */
DYN_HIDDEN bool dyn_operands_same(const DynLoops *p, const DynOperand *a, const DynOperand *b);
DYN_HIDDEN bool dyn_insns_same_operation(const DynInsn *x, const DynInsn *y); /* whatever their operands are */
DYN_HIDDEN uint32_t dyn_kernel_insn(DynLoops *p, DynKernel *k,
                                    DynInsn insn); /* finds an equal pure one or appends; DYN_NONE: full */
DYN_HIDDEN uint32_t dyn_kernel_operand(DynLoops *p, DynKernel *k, DynOperand operand);
DYN_HIDDEN uint32_t dyn_kernel_param(DynLoops *p, DynKernel *k, uint32_t sym, DynDtype dt);
DYN_HIDDEN bool dyn_kernel_touches(const DynLoops *p, const DynKernel *k, uint32_t storage, bool written_only);
DYN_HIDDEN bool dyn_step_scans(const DynLoops *p, const DynStep *step, uint32_t storage); /* a scan that reads or writes it, or a
                                                                                             check that reads it */
DYN_HIDDEN bool dyn_kernel_is_index(const DynKernel *k, uint32_t operand); /* it says where another operand stands */
DYN_HIDDEN bool dyn_kernel_is_loaded(const DynKernel *k, uint32_t operand);
DYN_HIDDEN uint32_t dyn_kernel_loaded(const DynKernel *k, uint32_t operand);        /* the value that it loads; DYN_NONE: none */
DYN_HIDDEN bool dyn_kernel_is_one(const DynLoops *p, const DynKernel *k, int from); /* one element along the axes from there on */
DYN_HIDDEN bool dyn_insn_is_inexact(const DynInsn *insn);                   /* a reduction whose bits depend on the order */
DYN_HIDDEN bool dyn_insn_is_taken(const DynKernel *k, const DynInsn *insn); /* it reduces numbers as they lie in memory */
DYN_HIDDEN bool dyn_kernel_only_takes(const DynKernel *k);                  /* and so do all, and it does nothing else */
DYN_HIDDEN bool dyn_kernel_walks(const DynKernel *k, uint32_t operand);     /* has it an element for each lane? */
DYN_HIDDEN bool dyn_insn_may_warn(const DynKernel *k, const DynInsn *insn); /* of a floating-point error */
DYN_HIDDEN bool dyn_kernel_may_warn(const DynKernel *k);
DYN_HIDDEN bool dyn_kernel_any_order(const DynKernel *k); /* its reductions give the same bits in whatever order */
DYN_HIDDEN uint32_t dyn_op_cost(uint16_t op, uint8_t dtype);
DYN_HIDDEN bool dyn_loops_op_warns(uint16_t op, uint8_t compute); /* may eager give a floating-point warning? */
DYN_HIDDEN bool dyn_loops_cast_warns(uint8_t from, uint8_t to);

/* fuse.c. Append the instructions of `from` to `to`. `load` gives the value of an operand in `to`, or DYN_NONE, which fails.
 * Where `stored` isn't NULL it gets the value that `from` would store, and nothing is stored. Returns -1 if `to` has no room. */
typedef uint32_t DynLoad(DynLoops *p, DynKernel *to, const DynOperand *operand, void *ctx);
DYN_HIDDEN int dyn_kernel_copy(DynLoops *p, DynKernel *to, const DynKernel *from, DynLoad *load, void *ctx, uint32_t *stored);
DYN_HIDDEN uint32_t dyn_kernel_load(DynLoops *p, DynKernel *k, const DynOperand *operand); /* DYN_NONE: full */

/* schedule.c. The axis that `axis` of a place walks, in full and in order, of the storage that owns its bytes; -1: none. */
DYN_HIDDEN int dyn_loops_owner_axis(const DynLoops *p, uint32_t place, int axis);
/* The same for the axis of an operand's place that axis k of its kernel walks. */
DYN_HIDDEN int dyn_loops_row_axis(const DynLoops *p, const DynOperand *o, int k);
/* kernels.c. The kernel that is step `step`; NULL: it is something else, or behind the last. */
DYN_HIDDEN DynKernel *dyn_loops_kernel_at(const DynLoops *p, uint32_t step);
/* The step behind the group of the kernel that is step `step`; behind that step, where it is in none. */
DYN_HIDDEN uint32_t dyn_loops_group_end(const DynLoops *p, uint32_t step);
/* On a device what is computed of a sum of everything alone, an element each, is done by the thread that has the sum: its tails.
 * The step behind those of the reduction that is step `step` (behind that step, where there are none), and the reduction whose
 * tail a step is (itself, where it is none). */
#define DYN_MOST_TAILS 4
#define DYN_TAIL_RANK 2     /* of their spaces, at most */
#define DYN_TAILS_HANDED 16 /* operands and numbers of them all: what a function on a device is handed has an end */
DYN_HIDDEN uint32_t dyn_loops_tails_end(const DynLoops *p, uint32_t step);
DYN_HIDDEN uint32_t dyn_loops_tails_head(const DynLoops *p, uint32_t step);
/* Has a reduction several results, each of so few elements (by the sizes seen first) that a row isn't worth a call? */
DYN_HIDDEN bool dyn_short_rows(const DynGraph *g, const uint32_t *shape, int ndim, uint32_t reduced);
/* pair.c. Operands: `first` of the first kernel is its result, `second` and `shift` of the second its result and what stands
 * for the first's, which is the sum divided by `divisor` (a symbol), or the maximum itself (DYN_NONE). */
typedef struct DynPair {
    uint32_t first, second, shift, divisor;
} DynPair;
DYN_HIDDEN bool dyn_pair_find(const DynLoops *p, uint32_t first, uint32_t second, DynPair *out); /* steps. false: they are none */
DYN_HIDDEN void dyn_pairs_make(DynLoops *p);
DYN_HIDDEN int dyn_stage_rows(DynLoops *p); /* stage.c; -1: no memory */
/* chain.c */
DYN_HIDDEN void dyn_chains_make(DynLoops *p);
DYN_HIDDEN bool dyn_chain_takes(const DynLoops *p, const DynStep *step); /* could it be in one, as far as it is seen alone? */

/* emit_expr.c */
DYN_HIDDEN int dyn_emit_expr(DynStr *out, const DynInsn *insn, DynDtype from,
                             const char *const *args);                                 /* from: dtype of args[0] */
DYN_HIDDEN int dyn_emit_op(DynStr *out, const DynInsn *insn, const char *const *args); /* of an operator; not rounded to half */
DYN_HIDDEN DynDtype dyn_emit_compute(const DynInsn *insn);                             /* what it computes with */
DYN_HIDDEN bool dyn_emit_raises(const DynInsn *insn); /* is it an operator that can raise floating-point flags? */
/* An expression of the operator table that computes in dtype t, where {T} and {s}, the type and the end of a function's name, are
 * as given. */
DYN_HIDDEN int dyn_emit_op_as(DynStr *out, const char *c, DynDtype t, const char *type, const char *name,
                              const char *const *args);
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
/* emit_object.c: which form (a DynNativeForm) of a reduction does a call need whose operands lie in C order? With the GIL. */
DYN_HIDDEN uint8_t dyn_emit_first(const DynLoops *p, const DynKernel *k);
/* As codegen/target.h has it: an object with the functions that a call like the recorded one needs, or with the others. */
DYN_HIDDEN int dyn_emit_c_part(const DynLoops *p, bool first, int64_t whole, DynStr *source);
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
