/* graph.h: the captured graph: what a function did to arrays, in program order.
 *
 * Nodes are an array in an arena, indexed by uint32_t; an operand is an earlier node or a symbol. Only arrays (and NumPy scalars,
 * which are rank-0 values) are nodes; Python numbers are symbols (sym.h). A node's shape is a list of symbols.
 *
 * Memory. Every node has a storage: the node that owns the bytes. A view node shares its operand's storage; every other node owns
 * a fresh one; an input owns its own. DYN_OP_STORE(dst, value) writes value into the elements of dst (an input, a fresh
 * array or a view of one) and yields no new value: reads of that storage that stand later in the node order see the written
 * elements, earlier ones the old ones. Node order is program order, and codegen must keep what can be seen of it. An in-place
 * operator x += y is recorded as t = add(x, y) and STORE(x, t). The value of STORE is cast to dst's dtype and broadcast. SCATTER
 * writes elements of dst that an array of integers names, and is all that is said of STORE here.
 *
 * The recorder makes graphs, the verifier (dyn_graph_verify) holds them to this, codegen reads them. */
#ifndef DYN_GRAPH_H
#define DYN_GRAPH_H
#include "base/arrays.h"
#include "ir/ops.h"
#include "ir/sym.h"

typedef enum DynArgKind {
    DYN_ARG_NODE,   /* id: a node */
    DYN_ARG_SYM,    /* id: a symbol: a Python number. As an operand of an elementwise operator it is weak (NEP 50) */
    DYN_ARG_SOURCE, /* id: an object found there, for an extern call */
    DYN_ARG_NONE    /* absent */
} DynArgKind;
typedef struct DynArg {
    uint8_t kind;
    uint32_t id;
} DynArg;

#define DYN_NODE_NPSCALAR 1u    /* eager's value is a NumPy scalar (np.float64), not an array */
#define DYN_NODE_VIEW 2u        /* shares storage with args[0] */
#define DYN_NODE_CONTIG_COPY 4u /* reshape/ravel that was a copy when recorded */
#define DYN_NODE_WARNS 8u       /* where it divides by zero eager warns or raises, whatever np.errstate says */
#define DYN_NODE_READONLY 16u   /* diagonals, windows, x.imag of a real array: can't be written (a BROADCAST never can) */
#define DYN_NODE_OBJECT 64u     /* no array: an object that an extern call made (a random generator, a list), of rank 0 */
#define DYN_NODE_TENSOR 128u    /* eager's value is a tensor: base/tensors.h */
#define DYN_NODE_DENSE                                                                                                          \
    256u                     /* of a call: elements lie densely, in the layout's order; looked at behind it. Of a part's input: \
                                they lie in C order, or a copy does: evalframe/follow_part.c */
#define DYN_NODE_TURNED 512u /* of a GATHER: eager's value is a view of what it found, which has its axes in another order */
#define DYN_NODE_OR_NOTHING 2048u /* a MAX or MIN that may be of nothing, and is its identity then: `initial=` follows */
#define DYN_NODE_TWIN 1024u       /* an earlier node has its value, and whoever reads it reads that: codegen/loops/common.c */
#define DYN_NODE_WRITE_WARNS 32u  /* a BROADCAST that can be written, with a warning: np.broadcast_arrays */
#define DYN_NODE_GRAD 4096u       /* eager's value is a tensor that requires gradients */
#define DYN_NODE_UNFOLLOWED 8192u /* gradients weren't recorded when it was made */
#define DYN_NODE_APART 16384u /* a STORE that is made for its own sake, in a part of the graph of its own: evalframe/follow.c */
#define DYN_NODE_GRAD_LATER 32768u /* it requires gradients from a change in place on that a call makes */

typedef struct DynNode {
    uint16_t op;     /* DynOp: row of ops.def */
    uint8_t dtype;   /* DynDtype of the result (of dst for STORE) */
    uint8_t compute; /* elementwise and reduce: DynDtype in which operands are computed (comparison of f32 and f64: F64) */
    uint8_t ndim;
    uint16_t flags; /* DYN_NODE_* */
    uint8_t nargs;
    uint8_t naux;
    DynArg *args;
    int64_t *aux;          /* per op kind, see ops.h: axes, permutation, keepdims… (plain numbers) */
    uint32_t *shape;       /* ndim symbols */
    DynLayout layout;      /* memory order that eager gave the result */
    uint32_t storage;      /* node that owns the bytes */
    uint32_t source;       /* INPUT: source id of the array */
    uint32_t extern_index; /* EXTERN: row of DynGraph.externs */
    uint32_t left;         /* 1 + the last call in front of which the graph may be left and somebody wants the value; 0: none */
    uint32_t snapshot;     /* index into the capture's snapshots, or DYN_NONE: cannot leave here */
    int32_t line;          /* source line, and the code's position: file is the capture's */
    uint32_t where;        /* index into DynGraph.places */
} DynNode;

/* What the arguments and the result of an extern call look like: a tree, written down in the order of a walk. */
typedef enum DynFormKind {
    DYN_F_NODE,   /* an array, or a NumPy scalar */
    DYN_F_NUMBER, /* a Python number; in a result, n: its symbol */
    DYN_F_CONST,  /* obj */
    DYN_F_TUPLE,  /* the n items that follow */
    DYN_F_LIST,
    DYN_F_NAMED,    /* a tuple of type obj */
    DYN_F_SLICE,    /* 3 items */
    DYN_F_COMPLEX,  /* 2 items: a Python complex number of these parts */
    DYN_F_ATTR,     /* 1 item: its attribute obj */
    DYN_F_FUNCTION, /* 4 items: globals, closure, defaults, keyword defaults (each or None): a Python function with the code obj
                     */
    DYN_F_CELL,     /* 1 item: a new cell with it */
    DYN_F_SAME,     /* in a result: the very object of argument n (out=) */
    DYN_F_OBJECT    /* in a result: an object of exactly the type obj */
} DynFormKind;
typedef struct DynForm {
    uint8_t kind;
    uint32_t n;
    PyObject *obj; /* strong or NULL */
} DynForm;
/* One call of a framework function that runs as it is: np.linalg.solve(a, b). Its operands (nodes and symbols in the order of the
 * form) are the EXTERN node's; its first array is the EXTERN node itself, the others are the RESULT nodes behind it. A call that
 * gives no array has a node of rank 0 that nobody reads. */
typedef struct DynExtern {
    PyObject *callable; /* strong */
    PyObject *kwnames;  /* strong or NULL: the names of the last arguments */
    PyObject *frame;    /* strong or NULL: a function whose frame stands for that function's during the call (extern.c) */
    const char *name;   /* "linalg.solve" */
    DynForm *args, *results;
    uint32_t nargs, nresults; /* items of the forms; args is one tuple */
    int writes;               /* which operand's memory the call changes, or -1 */
    bool once;                /* the call has an effect (a random generator goes on): once made it is never made again */
    bool inside;              /* … on an object that the graph made, so nobody outside sees it */
    bool shows;               /* what it gives tells where an operand's memory is */
    bool opens;               /* other code runs in it, which may touch all memory that came in or was shown (dyn_graph_opens) */
    bool marked;              /* by dynoc.allow_in_graph: the program's own code, which gradients are recorded of as it likes */
    uint8_t by_flags;         /* dyn_extern_warns_by_flags: 0 not looked at, 1 yes, 2 no */
} DynExtern;
/* Where in the source a node comes from: file, function and position (columns as in co_positions, -1 unknown). */
typedef struct DynPlace {
    PyObject *code;    /* strong; NULL in a part of a graph (part.c), which has no references */
    PyObject *globals; /* strong: those of the function; NULL where code is, and where nobody knows them */
    int32_t line, end_line, col, end_col;
    const char *file; /* … but the file's name, in the arena */
} DynPlace;

/* Where the gradient of a node that several make together is known as a whole: torch.sigmoid's. */
typedef struct DynFormula {
    uint32_t node;
    DynArg operands[3]; /* what it is a function of, a node, and numbers */
    const char *text;   /* as a row's derivative in ops.def, in g, these (a, b and c) and r (the node) */
} DynFormula;

/* A call of a few tensors that a row of a binding table made nodes of: where nothing is fused with them, it may be made as
 * it was. */
#define DYN_MOST_WHOLE_ARGS 9 /* torch.batch_norm has as many */
typedef struct DynWhole {
    uint32_t node, first, last;          /* what it gives, and its nodes */
    PyObject *callable;                  /* borrowed: the table has it */
    PyObject *kwnames;                   /* strong or NULL: the names of the last arguments */
    PyObject *args[DYN_MOST_WHOLE_ARGS]; /* strong: True, False, None and numbers; NULL: an operand */
    uint32_t operands[DYN_MOST_WHOLE_ARGS];
    int n;     /* of both */
    int nlist; /* so many of them are items of a list, the first argument; 0: there is none */
} DynWhole;

/* Views that one call of PyTorch's gives, of tensors that require gradients: the SLICE nodes first … first + n - 1, parts of the
 * first one's base along an axis, one behind the other. Backward joins their gradients once, where views that are made one by one
 * have a tensor of the base's sizes each. */
typedef enum DynSplitKind {
    DYN_SPLIT_ONE_BY_ONE /* of no split */,
    DYN_SPLIT_EVENLY,
    DYN_SPLIT_BY_SIZES,
    DYN_SPLIT_UNBIND
} DynSplitKind;
typedef struct DynSplit {
    uint32_t first, n;
    int axis;
    uint8_t kind; /* DynSplitKind: which call it was */
} DynSplit;

typedef struct DynGraph {
    DynArena *arena;
    const char *name; /* of the function */
    DynSources *sources;
    DynSyms *syms;
    DYN_VEC(DynNode)
    nodes;
    DYN_VEC(uint32_t)
    inputs; /* INPUT nodes in order: the artifact's array arguments */
    DYN_VEC(uint32_t)
    outputs; /* nodes whose value Python needs after the graph, in order. A node may be a view, an input, or a
              * storage that was written: the value is what it holds at the end of the graph */
    DYN_VEC(DynExtern)
    externs;
    DYN_VEC(uint32_t)
    checks; /* late symbols (bool) that have to be true: looked at behind the extern call that gives them */
    DYN_VEC(DynPlace)
    places;
    DYN_VEC(DynFormula)
    formulas; /* by node, in order */
    DYN_VEC(DynWhole)
    wholes; /* by node, in order: of tensors that require gradients */
    DYN_VEC(DynSplit)
    splits;          /* by node, in order */
    bool derived;    /* gradients are among its nodes, which CPython can't compute: the call isn't made again for a warning */
    bool sets_casts; /* calls in it set autocast: what is made of other nodes in their midst isn't to be a call of PyTorch's */
    uint32_t graded; /* so many nodes say whether they require gradients: DYN_NODE_GRAD */
    uint8_t device;  /* Where its arrays and tensors lie, all of them, as DynArrayView says it … */
    bool cupy;       /* … which are CuPy's, all of them … */
    bool placed;     /* … once there is one. */
} DynGraph;

DYN_HIDDEN int dyn_graph_init(DynGraph *g, DynArena *arena, const char *name, DynSources *sources, DynSyms *syms);
DYN_HIDDEN void dyn_graph_free(DynGraph *g); /* drops references; arena memory is the owner's */
DYN_HIDDEN void dyn_graph_trim(DynGraph *g); /* nothing more is added: room that it doesn't need is given back */
/* A new node with room for nargs operands, naux numbers and ndim sizes; id or DYN_NONE. storage is set to the node itself.
 * The pointer dyn_graph_node() gives is valid until the next node is added. */
DYN_HIDDEN uint32_t dyn_graph_add(DynGraph *g, DynOp op, DynDtype dtype, int ndim, int nargs, int naux);
static inline DynNode *dyn_graph_node(const DynGraph *g, uint32_t id) { return &g->nodes.at[id]; }
/* Is it the same elements without what autograd knows of them: x.detach()? */
static inline bool dyn_graph_detaches(const DynGraph *g, const DynNode *n) {
    return n->op == DYN_OP_AS_DTYPE && n->dtype == dyn_graph_node(g, n->args[0].id)->dtype;
}
/* Is it x.data of a tensor: the same elements, whose changes the versions of x don't count? */
static inline bool dyn_graph_is_data(const DynNode *n) { return n->op == DYN_OP_AS_DTYPE && n->naux == 2; }
/* Are pairs of real numbers seen as complex ones, or complex ones as pairs, in one axis of 2 or 1 each: what autograd follows? */
DYN_HIDDEN bool dyn_graph_pairs(const DynGraph *g, const DynNode *n);
static inline bool dyn_node_calls(const DynNode *n) { return dyn_ops[n->op].kind == DYN_K_EXTERN; } /* EXTERN, MATMUL … */
/* The row of a call; NULL: it has none. */
static inline DynExtern *dyn_graph_extern(const DynGraph *g, const DynNode *n) {
    return dyn_node_calls(n) && n->extern_index < g->externs.n ? &g->externs.at[n->extern_index] : NULL;
}
static inline bool dyn_graph_has_tensors(const DynGraph *g) {
    bool found = false;
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        found = found || (g->nodes.at[i].flags & DYN_NODE_TENSOR) != 0;
    }
    return found;
}
/* What a node does, as the program calls it. */
static inline const char *dyn_graph_name_of(const DynGraph *g, const DynNode *n) {
    const DynExtern *x = dyn_graph_extern(g, n);
    return x != NULL ? x->name : dyn_ops[n->op].text;
}
/* The place with its code object; NULL: nobody knows, or the graph is a part of another. */
static inline const DynPlace *dyn_graph_place_at(const DynGraph *g, uint32_t where) {
    return where < g->places.n && g->places.at[where].code != NULL ? &g->places.at[where] : NULL;
}
/* The name of the file, without its folder, that the place at `where` or a node is from; NULL: nobody knows. */
DYN_HIDDEN const char *dyn_graph_file_at(const DynGraph *g, uint32_t where);
static inline const char *dyn_graph_file_of(const DynGraph *g, const DynNode *n) { return dyn_graph_file_at(g, n->where); }
/* Is it one that writes into args[0] and has no value? */
static inline bool dyn_node_stores(const DynNode *n) { return dyn_ops[n->op].kind == DYN_K_STORE; }
/* Which operand of a GATHER or SCATTER says where? 0: it is neither. */
static inline int dyn_node_index(const DynNode *n) {
    if (n->op == DYN_OP_GATHER) {
        return 1;
    }
    return n->op == DYN_OP_SCATTER ? 2 : 0;
}
DYN_HIDDEN void dyn_graph_truncate(DynGraph *g, uint32_t nnodes); /* forget the nodes from nnodes on (a callee that bailed out) */
/* 0, or -1 and a sentence in `error`: operand before use, rows' arity, rank = shape list, views share storage, outputs exist… */
DYN_HIDDEN int dyn_graph_verify(const DynGraph *g, DynStr *error);
/* Text form, one node a line; dyn_graph_parse reads it back (tests/ir). Graphs with externs or places parse without them. */
DYN_HIDDEN void dyn_graph_print(const DynGraph *g, DynStr *out);
DYN_HIDDEN void dyn_graph_print_python(const DynGraph *g, DynStr *out); /* graph_python.c; needs the GIL */
DYN_HIDDEN int dyn_graph_parse(DynGraph *g, const char *text, DynStr *error);
/* graph_data.c: gives calls of a graph that was read as text their rows; {node: row of dyn_capture_data's "externs"}, in which a
 * number that comes out has its type (DynSymType) for a symbol. -1 with an exception. */
DYN_HIDDEN int dyn_graph_take_calls(DynGraph *g, PyObject *calls);
DYN_HIDDEN int dyn_graph_init_module(PyObject *module); /* adds _graph_roundtrip, _op_table, _op_helpers for tests */
#endif
