/* derive.h: gradients of a graph, and graphs cut out of one another: what reverse mode is made of.
 *
 * derive.c adds to a graph the nodes that compute gradients of its inputs; part.c copies the nodes that some values need into a
 * graph of their own. evalframe/follow.c makes graphs of both that autograd runs. Neither touches a Python object. */
#ifndef DYN_DERIVE_H
#define DYN_DERIVE_H
#include "ir/graph.h"

/* Can a gradient be found for each operand of node `id` that may want one? */
DYN_HIDDEN bool dyn_derive_knows(const DynGraph *g, uint32_t id);
/* Is the chain rule through the node as good as any formula of the whole: nothing in it overflows that the value doesn't? */
DYN_HIDDEN bool dyn_derive_chains(const DynGraph *g, uint32_t id);
/* Is the product of two matrices so small that autograd needs no call of its own for it? A larger one is a call, so that its node
 * of autograd's frees what it saved, and gives the gradient of its weight away, as soon as in eager; so is one in a graph that
 * sets autocast, which calls are to see. */
DYN_HIDDEN bool dyn_derive_is_small(const DynGraph *g, DynOp op, uint32_t rows, uint32_t weight); /* LINEAR or MATMUL */
DYN_HIDDEN bool dyn_derive_is_product(const DynGraph *g, uint32_t id);
/* Does a matrix lie by columns, or else by rows, without gaps? */
DYN_HIDDEN bool dyn_derive_lies(const DynGraph *g, uint32_t id, bool by_columns);
/* May gradients flow through the node? A float that was made while they were recorded. */
DYN_HIDDEN bool dyn_derive_follows(const DynNode *n);
/* Adds gradient nodes behind the first n nodes of g. gradients[i], for each of these: in, the node that is the gradient of what
 * node i is used for elsewhere (DYN_NONE: nothing); out, the whole gradient of node i, DYN_NONE where there is none. reached[i]:
 * node i depends on a value whose gradient is wanted. 0, or -1 with a sentence in `error`, and the node that it is about in
 * *failed, which may be DYN_NONE (failed NULL: nobody asks). */
DYN_HIDDEN int dyn_derive(DynGraph *g, uint32_t n, const bool *reached, uint32_t *gradients, uint32_t *failed, DynStr *error);
DYN_HIDDEN uint32_t dyn_derive_sum(DynGraph *g, uint32_t a, uint32_t b); /* of two gradients of one node; DYN_NONE: no memory */
/* For the first n nodes: reached[i] becomes true where node i depends on one whose place is true already. */
DYN_HIDDEN void dyn_derive_reach(const DynGraph *g, uint32_t n, bool *reached);
/* The gradient of a node is by a formula in terms of up to three operands, whatever the node is computed by. -1: no memory. */
DYN_HIDDEN int dyn_graph_formula(DynGraph *g, uint32_t node, const DynArg *operands, const char *text);
DYN_HIDDEN const DynFormula *dyn_graph_formula_of(const DynGraph *g, uint32_t node); /* or NULL */

/* part.c: the nodes of g that `outputs` need, cut off at `inputs`, which become INPUT nodes in that order, as a graph of their
 * own in `out` (initialised, with the same symbols). map[i]: the copy of node i, DYN_NONE where it has none. What is written
 * into the storage of a copied node is copied too, but for changes that are APART: those are among `outputs`, or in no part. 0,
 * or -1 with a sentence in `error`. */
typedef struct DynList {
    const uint32_t *at;
    uint32_t n;
} DynList;
DYN_HIDDEN int dyn_part_copy(const DynGraph *g, DynGraph *out, DynList inputs, DynList outputs, uint32_t *map, DynStr *error);
/* needed[i] becomes true for the nodes of g that those need whose place is true already; it stops at nodes with stops[i]. */
DYN_HIDDEN void dyn_part_mark(const DynGraph *g, const bool *stops, bool *needed);
DYN_HIDDEN int dyn_part_init_module(PyObject *module); /* adds _derive_text for tests */
#endif
