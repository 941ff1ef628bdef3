/* lower.h: what the files of lowering share: lower.c (places and steps), lower_memory.c (what gets memory) and lower_build.c (the
 * kernels). Nobody else includes it. */
#ifndef DYN_LOWER_H
#define DYN_LOWER_H
#include "base/log.h"
#include "codegen/loops/loops.h"

/* The state of one lowering. Arrays are indexed by node; a storage is the node that owns the bytes. */
typedef struct DynLower {
    DynLoops *p;        /* The loop IR that is made. */
    const DynGraph *g;  /* The graph that is read. */
    bool *live;         /* The value is needed. */
    bool *memory;       /* The value has memory of its own. */
    bool *object;       /* An array of the value is needed: by Python, by an extern call or by a view of it. */
    bool *after_extern; /* Its geometry is known only behind an extern call. */
    bool *part;         /* A REAL or IMAG of which only the numbers are needed: the kernel takes them of the complex number. */
    bool *written;      /* By storage: some node writes it. */
    bool *looks;        /* Computing it looks places up. */
    bool *of_rows;      /* … starts from what a reduction gave. */
    bool *by_columns;   /* A reduction reads it whose lanes are neighbouring results: its readers are no rows of one group. */
    uint32_t *last_use; /* The last position of a kernel that evaluates it. */
    uint32_t *depth;    /* How many kernels have to run before. */
    bool *for_flags;    /* Nobody reads it, but computing it may give a warning. */
    uint64_t *used_by;  /* Signature of the kernels that use it: 0 none, 1 several. */
    uint32_t *cost;     /* What computing one element costs, with all that is computed within, as dyn_op_cost counts. */
    uint32_t *memo;     /* The instruction of the kernel `stamp` that computes it. */
    uint32_t *stamp;    /* The number of the kernel for which `memo` holds. */
    uint32_t now;       /* The number of the kernel that is being made. */
    uint32_t last_snapshot; /* Position of the last node in front of which the graph can be left, or 0. */
    DynStr *error;          /* A sentence, where the graph can't be lowered. */
} DynLower;

static inline const DynOpInfo *info(const DynNode *n) { return &dyn_ops[n->op]; }
static inline bool is_view(const DynNode *n) { return n->flags & DYN_NODE_VIEW; }

/* Can the value be computed within the kernel that uses it? */
static inline bool is_inline(const DynNode *n) {
    uint8_t kind = info(n)->kind;
    bool by_element = kind == DYN_K_ELEMENTWISE || kind == DYN_K_GATHER || kind == DYN_K_COPY;
    bool is_number = kind == DYN_K_CREATE && n->nargs > 0 && n->args[0].kind == DYN_ARG_SYM;
    return by_element || is_number;
}

/* lower_memory.c */
DYN_HIDDEN int dyn_lower_mark_live(DynLower *L); /* -1: memory */
/* Values that whoever leaves the graph could not compute any more, since what they read has been written, are kept as arrays. */
DYN_HIDDEN int dyn_lower_keep_for_snapshots(DynLower *L); /* -1: memory */
DYN_HIDDEN void dyn_lower_choose_memory(DynLower *L);
/* May eager give a floating-point warning, or raise, at this node? */
DYN_HIDDEN bool dyn_lower_may_warn(const DynGraph *g, const DynNode *n);
/* The extern call behind which `n` symbols are known: 1 + its node, or 0. */
DYN_HIDDEN uint32_t dyn_lower_known_after(const DynLower *L, const uint32_t *syms, int n);
DYN_HIDDEN uint32_t dyn_lower_reduce_mask(const DynNode *n, const DynNode *arg); /* bit k: axis k of the operand is reduced */

/* lower_build.c: the kernels of a node, or a step that isn't one. -1: memory, or a kernel has no room. */
DYN_HIDDEN int dyn_lower_inline(DynLower *L, uint32_t id);
DYN_HIDDEN int dyn_lower_reduce(DynLower *L, uint32_t id);
DYN_HIDDEN int dyn_lower_store(DynLower *L, uint32_t id);
DYN_HIDDEN int dyn_lower_count(DynLower *L, uint32_t id);        /* on a device: positions of an IOTA, in memory */
DYN_HIDDEN int dyn_lower_reshape_copy(DynLower *L, uint32_t id); /* the operand is written in C order of its own shape */
DYN_HIDDEN int dyn_lower_push_step(DynLower *L, DynStepKind kind, uint32_t id);
#endif
