/* follow_part.h: parts of graphs that autograd follows, for the files that make them up: follow_part.c (code for the values),
 * follow_gradient.c (what backward reads, and parts that compute gradients), follow_block.c (what is only saved, as one tensor),
 * follow_node.c (the node of autograd's) and follow_hooks.c (hooks that a program hangs on that). */
#ifndef DYN_FOLLOW_PART_H
#define DYN_FOLLOW_PART_H
#include "codegen/target.h"
#include "evalframe/follow.h"

struct DynPartShare { /* what the parts of one graph share */
    Py_ssize_t refs;
    DynSyms syms;
    uint32_t known; /* so many symbols have values when a part is called; those behind them are computed of these */
    DynSources sources;
    DynConfig config;
    bool wait, compiles;
    bool replay;          /* mode="reduce-overhead" */
    uint32_t nparts;      /* so many parts have a number */
    char *folder;         /* the debug folder, or NULL while it isn't known (follow_notes.c) … */
    DynStr timing, story; /* … and what is still to be written there */
};

typedef struct Unit { /* a graph and its code */
    DynGraph graph;
    DynArtifact *artifact; /* NULL: not compiled (yet) */
    DynReason failed;
    DynVerify verify;
    char name[48]; /* setting debug: what it is, for people */
} Unit;

struct DynPart {
    PyObject_HEAD DynPartShare *share;
    DynArena arena;
    DynGraph graph;
    Unit plain, saving; /* copies that are compiled; saving: with what backward reads as further outputs */
    PyObject *known;    /* a dict: plans and gradients that were made */
    uint32_t number;    /* among the parts of a graph; that of gradients is the part's that they are of … */
    uint32_t order;     /* … and it computes gradients of this order: 0, values */
    bool *wanted;       /* inputs: gradients may be wanted */
    bool prepared;      /* what is below is known */
    uint32_t nout;      /* outputs; behind them in saving.graph.outputs what else is saved */
    DynList saves;      /* nodes of the graph that backward reads: inputs, outputs and others */
    uint32_t
        npacked; /* the last of saves, and of saving.graph.outputs, that are pieces of one tensor, the block (follow_block.c) */
    DynPart *expected; /* the gradients that backward mostly asks for, where their code was asked for; `known` has it */
    DynList changes;   /* nodes that change inputs in place: what the part is for, where there are any */
};

/* ---- follow_part.c */
extern DYN_HIDDEN PyTypeObject dyn_follow_part_type;
/* The part's graph between these nodes, or a copy of all of it, as a graph in the part's arena. 0, or -1. */
DYN_HIDDEN int dyn_follow_part_cut(DynPart *p, const DynGraph *g, DynGraph *out, DynList inputs, DynList outputs, DynStr *error);
DYN_HIDDEN int dyn_follow_part_copy(DynPart *p, DynGraph *out, DynStr *error);
/* Which nodes of a graph of the part's depend on inputs whose gradients are wanted, in its arena; NULL: no memory. */
DYN_HIDDEN bool *dyn_follow_part_reach(DynPart *p, const DynGraph *g, const bool *wanted);
/* Runs the graph of a unit of the part: a new tuple of its outputs, or NULL with an exception. pieces: inputs that are NULL, or
 * outputs that may be None in the tuple then; NULL: there are none. */
DYN_HIDDEN PyObject *dyn_follow_part_run(DynPart *p, Unit *u, const DynScalar *known, PyObject *const *inputs,
                                         const DynPieces *pieces);
DYN_HIDDEN int dyn_follow_part_make(DynPart *p, Unit *u); /* its graph, and code for it if there can be; -1 with an exception */

/* ---- follow_block.c: what is only saved as one tensor, as each that a node gives or saves costs as much as a small kernel. */
#define DYN_MOST_PIECES 16
/* Is the node one that can be a piece, beside one of that type? */
DYN_HIDDEN bool dyn_follow_block_fits(const DynGraph *g, uint32_t id, DynDtype dtype);
/* p->npacked may be so many; it becomes 0 where the code doesn't make them as pieces. 0, or -1 with an exception. */
DYN_HIDDEN int dyn_follow_block_choose(DynPart *p, uint32_t npacked);
DYN_HIDDEN uint32_t dyn_follow_block_width(const DynPart *p); /* how many tensors the node gives */
/* Runs the part with what is saved: a new tuple of what the node gives, or NULL with an exception. */
DYN_HIDDEN PyObject *dyn_follow_block_run(DynPart *p, const DynScalar *known, PyObject *const *inputs);
/* Where the pieces lie in a block with these numbers: p->npacked of them. Bytes of the block, or -1 with an exception. */
DYN_HIDDEN int64_t dyn_follow_block_lay(const DynPart *p, const DynScalar *known, DynPiece *pieces);
DYN_HIDDEN int dyn_follow_block_place(PyObject *block, DynPiece *pieces, uint32_t n); /* … in the memory of that one */
/* A piece of a block, or of a block's gradient, as a tensor that autograd follows. New reference. */
DYN_HIDDEN PyObject *dyn_follow_block_piece(PyObject *block, const DynPiece *piece);

/* ---- follow_notes.c: for the debug folder, where it is wanted: what a unit is called, and what came of compiling it. */
DYN_HIDDEN void dyn_follow_name(const DynPart *p, Unit *u);
DYN_HIDDEN void dyn_follow_note(const DynPart *p, Unit *u, int64_t ns);

/* ---- follow_gradient.c */
DYN_HIDDEN bool dyn_follow_is_written(const DynGraph *g, uint32_t id); /* is its memory changed by some node? */
/* Finds out what backward reads, where all outputs are given and all gradients wanted. 0, or -1 with an exception. */
DYN_HIDDEN int dyn_follow_part_prepare(DynPart *p);
/* needs: a tuple of bools, which inputs want gradients. A tuple (positions of outputs that require no gradients, positions of
 * what is saved among inputs and outputs). Borrowed, NULL with an exception. */
DYN_HIDDEN PyObject *dyn_follow_part_plan(DynPart *p, PyObject *needs);
/* key: (given, needs), tuples of bools: which outputs' gradients are given. A tuple (part, positions of saved values that it
 * takes behind the given gradients, which of its outputs is the gradient of each input or None). Borrowed, NULL with an
 * exception. */
DYN_HIDDEN PyObject *dyn_follow_part_gradient(DynPart *p, PyObject *key);
/* The part of the gradients that backward asks for where all outputs have gradients, and all inputs that may want some do.
 * Borrowed, NULL with an exception. */
DYN_HIDDEN DynPart *dyn_follow_part_expected(DynPart *p);

/* ---- follow_node.c */
/* Calls the part as a node of autograd's: a new tuple of its outputs, or NULL with an exception. */
DYN_HIDDEN PyObject *dyn_follow_node_apply(DynPart *p, const DynScalar *sym, PyObject *const *inputs);
DYN_HIDDEN DynPart *dyn_follow_node_part(PyObject *node); /* borrowed; NULL with an exception: not a node of a part */
DYN_HIDDEN int dyn_follow_node_init(PyObject *module);

/* ---- follow_hooks.c */
DYN_HIDDEN int dyn_follow_hooks_set(PyObject *nodes); /* gives the class of nodes its methods; -1 with an exception */
#endif
