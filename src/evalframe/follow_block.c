/* follow_block.c: values of a part that are only saved, as pieces of one tensor, which is called the block.
 *
 * Each tensor that a node of autograd's gives and saves is made, wrapped, described to autograd, saved, looked at in backward and
 * freed: as much as a kernel of some thousand elements takes. So what nobody but backward reads lies in one of them. Compiled
 * code is handed addresses within the block; where there is none, and where gradients of gradients are recorded, pieces are views
 * of the block, which autograd follows to the node's output that the block is. Called by follow_gradient.c and follow_node.c. */
#include "base/torch.h"
#include "evalframe/follow_part.h"

#define ALIGNED 64 /* bytes: a piece begins where a vector does */

bool dyn_follow_block_fits(const DynGraph *g, uint32_t id, DynDtype dtype) {
    const DynNode *n = dyn_graph_node(g, id);
    uint8_t kind = dyn_ops[n->op].kind;
    bool computed = kind == DYN_K_ELEMENTWISE || kind == DYN_K_CREATE;
    bool apart = n->flags & (DYN_NODE_VIEW | DYN_NODE_TURNED | DYN_NODE_APART) || dyn_node_stores(n);
    return computed && !apart && n->dtype == dtype && dyn_derive_follows(n);
}

/* The i-th node that is a piece. */
static uint32_t piece_at(const DynPart *p, uint32_t i) {
    const DynGraph *g = &p->saving.graph;
    return g->outputs.at[g->outputs.n - p->npacked + i];
}

int dyn_follow_block_choose(DynPart *p, uint32_t npacked) {
    const DynGraph *g = &p->saving.graph;
    bool may = npacked > 1 && npacked <= DYN_MOST_PIECES && g->device == 0 && p->share->compiles && !p->share->replay;
    if (may && dyn_follow_part_make(p, &p->saving) < 0) {
        return -1;
    }
    const DynArtifact *a = p->saving.artifact;
    may = may && a != NULL;
    for (uint32_t i = 0; i < npacked && may; i++) {
        may = dyn_artifact_makes_piece(a, g->outputs.at[g->outputs.n - npacked + i]);
    }
    p->npacked = may ? npacked : 0;
    return 0;
}

uint32_t dyn_follow_block_width(const DynPart *p) { return p->saving.graph.outputs.n - p->npacked + (p->npacked > 0); }

int64_t dyn_follow_block_lay(const DynPart *p, const DynScalar *known, DynPiece *pieces) {
    int64_t total = 0;
    for (uint32_t i = 0; i < p->npacked; i++) {
        DynPiece *x = &pieces[i];
        x->node = piece_at(p, i);
        x->offset = total;
        int64_t bytes = dyn_artifact_lay_piece(p->saving.artifact, x->node, known, &x->at);
        bool fits = bytes >= 0 && !__builtin_add_overflow(total, (bytes + ALIGNED - 1) / ALIGNED * ALIGNED, &total);
        if (!fits) {
            PyErr_NoMemory();
            return -1;
        }
    }
    return total;
}

int dyn_follow_block_place(PyObject *block, DynPiece *pieces, uint32_t n) {
    DynArrayView v;
    if (!dyn_torch_place(block, &v)) {
        PyErr_SetString(PyExc_SystemError, "dynoc: a tensor without elements in memory");
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        pieces[i].at.data = v.data + pieces[i].offset;
    }
    return 0;
}

/* Puts what was made elsewhere into its place in the block. */
static int copy_piece(PyObject *block, const DynPiece *piece, PyObject *made) {
    PyObject *to = dyn_torch_window(block, &piece->at, DYN_LOOK_VIEW);
    PyObject *done = to == NULL ? NULL : PyObject_CallMethod(to, "copy_", "O", made);
    Py_XDECREF(to);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* What the node gives: what the part made, but the block in place of its pieces. Takes the tuple over. */
static PyObject *gathered(const DynPart *p, PyObject *made, PyObject *block, const DynPiece *pieces) {
    Py_ssize_t first = PyTuple_GET_SIZE(made) - p->npacked;
    for (uint32_t i = 0; i < p->npacked; i++) {
        PyObject *piece = PyTuple_GET_ITEM(made, first + i);
        if (piece != Py_None && copy_piece(block, &pieces[i], piece) < 0) {
            Py_DECREF(made);
            return NULL;
        }
    }
    PyObject *before = PyTuple_GET_ITEM(made, first);
    PyTuple_SET_ITEM(made, first, Py_NewRef(block));
    Py_DECREF(before);
    return _PyTuple_Resize(&made, first + 1) < 0 ? NULL : made;
}

PyObject *dyn_follow_block_run(DynPart *p, const DynScalar *known, PyObject *const *inputs) {
    static const DynLayout c_order = {.kind = DYN_LAYOUT_C};
    DynPiece pieces[DYN_MOST_PIECES];
    if (p->npacked == 0) {
        return dyn_follow_part_run(p, &p->saving, known, inputs, NULL);
    }
    DynDtype dtype = (DynDtype)dyn_graph_node(&p->saving.graph, piece_at(p, 0))->dtype;
    int64_t bytes = dyn_follow_block_lay(p, known, pieces), length = bytes / dyn_dtypes[dtype].size;
    PyObject *block = bytes < 0 ? NULL : dyn_torch_new(dtype, 1, &length, &c_order, 0), *made = NULL;
    if (block != NULL && dyn_follow_block_place(block, pieces, p->npacked) == 0) {
        DynPieces all = {.at = pieces, .n = p->npacked, .block = block};
        made = dyn_follow_part_run(p, &p->saving, known, inputs, &all);
        made = made == NULL ? NULL : gathered(p, made, block, pieces);
    }
    Py_XDECREF(block);
    return made;
}

PyObject *dyn_follow_block_piece(PyObject *block, const DynPiece *piece) {
    int64_t size = dyn_dtypes[piece->at.dtype].size, length = 1;
    PyObject *dims = PyTuple_New(piece->at.ndim);
    for (int i = 0; i < piece->at.ndim && dims != NULL; i++) {
        PyObject *n = PyLong_FromLongLong(piece->at.dims[i]);
        if (n == NULL) {
            Py_CLEAR(dims);
        } else {
            PyTuple_SET_ITEM(dims, i, n);
            length *= piece->at.dims[i];
        }
    }
    long long at = piece->offset / size;
    PyObject *flat = dims == NULL ? NULL : PyObject_CallMethod(block, "narrow", "iLL", 0, at, (long long)length);
    PyObject *made = flat == NULL ? NULL : PyObject_CallMethod(flat, "view", "(O)", dims);
    Py_XDECREF(flat);
    Py_XDECREF(dims);
    return made;
}
