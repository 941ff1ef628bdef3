/* derive_part.h: what derive.c and derive_arrays.c share, and nobody else sees: the walk's state, and makers of nodes.
 *
 * Makers give DYN_NONE (or an operand of kind DYN_ARG_NONE) where memory is out, and take DYN_NONE for an operand so that calls
 * of them can be put into one another. */
#ifndef DYN_DERIVE_PART_H
#define DYN_DERIVE_PART_H
#include "ir/derive.h"

typedef struct Derive {
    DynGraph *g;
    uint32_t n;           /* the nodes that are derived */
    const bool *reached;  /* of these: what depends on something wanted */
    uint32_t *gradients;  /* of these: by what it is used for as a whole */
    uint32_t *buffers;    /* of these: a buffer in which parts meet, DYN_NONE: none */
    uint32_t *last_store; /* of storages: 1 + the last node that writes there, 0: none */
    DynStr *error;
    uint32_t failed; /* the node that `error` is about; DYN_NONE: none so far */
} Derive;

typedef struct Emit {
    Derive *d;
    uint32_t id; /* the node whose gradient goes on */
    DynArg g, operands[3];
    uint32_t result; /* what the node gave: itself, unless that was overwritten; only looked at where an expression names it */
    uint8_t compute;
    const char *at;
} Emit;

static const DynArg nothing = {DYN_ARG_NONE, DYN_NONE};

static inline const DynNode *node_at(const Derive *d, uint32_t id) { return dyn_graph_node(d->g, id); }
static inline bool is_wanted(const Derive *d, DynArg arg) { return arg.kind == DYN_ARG_NODE && d->reached[arg.id]; }

/* -1, with a sentence about node `id` in d->error. */
DYN_HIDDEN int dyn_derive_fail(Derive *d, uint32_t id, const char *what);
/* Of derive_past.c: a node with the value that node `read` had when node `id` came. DYN_NONE: it is gone, and d->error says so,
 * or memory is out. */
DYN_HIDDEN uint32_t dyn_derive_value_at(Derive *d, uint32_t id, uint32_t read);
/* More gradient of node `id`, of its sizes or larger ones. */
DYN_HIDDEN int dyn_derive_contribute(Derive *d, uint32_t id, uint32_t gradient);
/* The buffer of zeros of a node that owns its memory, made when it is first needed; and more gradient for a view of it. */
DYN_HIDDEN uint32_t dyn_derive_buffer(Derive *d, uint32_t id);
DYN_HIDDEN int dyn_derive_add_into(Derive *d, uint32_t window, uint32_t gradient);

/* An elementwise operator in e->compute. */
DYN_HIDDEN DynArg dyn_derive_apply(Emit *e, DynOp op, const DynArg *args, int n);
/* A node of `like`'s dtype and sizes; its operands are the caller's to set. */
DYN_HIDDEN uint32_t dyn_derive_like(Derive *d, DynOp op, const DynNode *like, int nargs, int naux);
DYN_HIDDEN uint32_t dyn_derive_unary(Derive *d, DynOp op, DynDtype dtype, uint32_t of, int ndim, int naux);
DYN_HIDDEN uint32_t dyn_derive_view(Derive *d, DynOp op, uint32_t of, int ndim, const uint32_t *shape, int naux);
/* A view of `base` that is to `base` what the view node `like` is to its own. */
DYN_HIDDEN uint32_t dyn_derive_same_view(Derive *d, uint32_t like, uint32_t base);
DYN_HIDDEN uint32_t dyn_derive_reshaped(Derive *d, uint32_t of, const DynNode *to); /* a copy in other sizes, in C order */
DYN_HIDDEN uint32_t dyn_derive_converted(Derive *d, uint32_t of, uint8_t dtype);
DYN_HIDDEN uint32_t dyn_derive_reduce(Derive *d, DynOp op, uint32_t of, int naxes, const int *axes, bool keepdims);
/* What an operand of node `to`'s sizes gets of `gradient`: summed over the axes along which it was broadcast. */
DYN_HIDDEN uint32_t dyn_derive_summed_to(Derive *d, uint32_t gradient, uint32_t to);

/* Of derive_arrays.c: the gradient of a reduction, a running sum, a product of matrices or a lookup goes to its operands. */
DYN_HIDDEN int dyn_derive_through_array(Derive *d, uint32_t id, uint32_t gradient);
/* The same for a SCATTER: `window` is its destination's gradient. */
DYN_HIDDEN int dyn_derive_through_scatter(Derive *d, uint32_t id, uint32_t window);
#endif
