/* undo.c: what the inputs of a call held before it wrote into them.
 *
 * A warning that is due is given by CPython, which makes the whole call again: then it has to find the inputs as they were. Of
 * larger ones the parts alone are kept that are written, such as an element, where these are known when the call begins. Above
 * MOST_BYTES keeping them would cost more than it is worth: the warning is then given in the name of the first operator that can
 * have raised the flag (flags.c). Called by run.c with the GIL; the copies belong to the DynCall. */
#include "codegen/run/call.h"
#include "codegen/run/flags.h"
#include "ir/extern.h"

#define MOST_BYTES ((int64_t)256 << 10)
enum { MOST_PARTS = 64 };

struct DynUndo {
    bool in_parts;           /* What the nodes write is kept, in their order and one behind the other, in place of inputs. */
    uint32_t n;              /* How many of the inputs in DynLoops.written are kept so far. */
    PyArrayObject *copies[]; /* Owned, in that order; NULL: the input lies in one piece, and its bytes follow in order. */
};

static int64_t bytes_of(PyObject *array) { return (int64_t)PyArray_NBYTES((PyArrayObject *)array); }

static bool is_one_piece(PyObject *array) {
    return PyArray_IS_C_CONTIGUOUS((PyArrayObject *)array) || PyArray_IS_F_CONTIGUOUS((PyArrayObject *)array);
}

void dyn_undo_drop(DynCall *c) {
    for (uint32_t i = 0; c->undo != NULL && i < c->undo->n; i++) {
        Py_XDECREF(c->undo->copies[i]);
    }
    PyMem_RawFree(c->undo);
    c->undo = NULL;
}

/* ---- parts of large inputs */

typedef struct Part {
    DynGeom at;
    int ndim;
    int64_t item, bytes;
} Part;

/* Where an input or a view of one lies. false: that isn't known yet; views come first among the steps, but those that a call
 * tells of. */
static bool find_place(DynCall *c, uint32_t place) {
    const DynNode *n = dyn_graph_node(c->p->graph, place);
    if (n->op == DYN_OP_INPUT) {
        return true;
    }
    for (uint32_t s = 0; s < c->p->steps.n && c->p->steps.at[s].kind == DYN_STEP_VIEW; s++) {
        if (c->p->steps.at[s].id == place) {
            return find_place(c, n->args[0].id) && dyn_call_view(c, place) == 0;
        }
    }
    return false;
}

static bool as_index(PyObject *constant, int64_t *at) {
    int overflows = 1;
    *at = PyLong_CheckExact(constant) ? PyLong_AsLongLongAndOverflow(constant, &overflows) : 0;
    return overflows == 0;
}

/* The indices of a call of x[i, j] = v, from the form of the index and its operands. 0: they aren't ints that are known when the
 * call begins, or are more than x has axes. */
static int indices_of(const DynCall *c, const DynForm *index, const DynArg *arg, int ndim, int64_t *at) {
    const DynSyms *syms = c->p->graph->syms;
    PyObject *items = index->kind == DYN_F_CONST && PyTuple_CheckExact(index->obj) ? index->obj : NULL;
    const DynForm *form = index + (index->kind == DYN_F_TUPLE);
    int alone = index->kind == DYN_F_TUPLE ? (int)index->n : 1, n = items != NULL ? (int)PyTuple_GET_SIZE(items) : alone;
    bool known = n <= ndim;
    for (int i = 0; known && i < n; i++) {
        PyObject *constant = items != NULL ? PyTuple_GET_ITEM(items, i) : form[i].kind == DYN_F_CONST ? form[i].obj : NULL;
        if (constant != NULL) {
            known = as_index(constant, &at[i]);
            continue;
        }
        known = form[i].kind == DYN_F_NUMBER && arg->kind == DYN_ARG_SYM && syms->v.at[arg->id].type == DYN_T_INT &&
                !dyn_sym_is_late(syms, arg->id);
        at[i] = known ? c->run->sym[arg++->id].i : 0;
    }
    return known ? n : 0;
}

/* x[i, j] = v by NumPy's own call writes the element alone. Other indices leave the part as it is: all of x. */
static void take_element(const DynCall *c, const DynNode *n, const DynExtern *x, Part *part) {
    int64_t at[DYN_MAX_NDIM]; /* behind the tuple of all, and x: */
    int many = x->args[1].kind == DYN_F_NODE ? indices_of(c, &x->args[2], &n->args[1], part->ndim, at) : 0;
    for (int i = 0; i < many; i++) {
        int64_t size = part->at.dims[i];
        at[i] += at[i] < 0 ? size : 0;
        if (at[i] >= 0 && at[i] < size) { /* else NumPy writes nothing */
            part->at.data += at[i] * part->at.strides[i];
            part->at.dims[i] = 1;
        }
    }
}

/* Where a node writes into an input. false: that isn't known yet. */
static bool find_part(DynCall *c, uint32_t node, Part *part) {
    const DynGraph *g = c->p->graph;
    const DynNode *n = dyn_graph_node(g, node);
    const DynExtern *x = dyn_graph_extern(g, n);
    uint32_t to = n->args[x == NULL ? 0 : x->writes].id;
    const DynNode *dest = dyn_graph_node(g, to);
    if (!find_place(c, to)) {
        return false;
    }
    *part = (Part){.at = c->geoms[to], .ndim = dest->ndim, .item = dyn_dtypes[dest->dtype].size};
    if (x != NULL && dyn_extern_stores_item(x)) {
        take_element(c, n, x, part);
    }
    part->bytes = part->item;
    for (int d = 0; d < part->ndim; d++) {
        part->bytes *= part->at.dims[d];
    }
    return true;
}

bool dyn_call_writes_input(const DynCall *c, uint32_t node) {
    uint32_t written = dyn_graph_written(c->p->graph, node);
    return written != DYN_NONE && c->p->places[written].kind == DYN_P_INPUT;
}

/* Returns where the next part's bytes go. */
static char *move_part(const Part *part, char *at, int axis, char *bytes, bool back) {
    if (axis == part->ndim) {
        memcpy(back ? at : bytes, back ? bytes : at, (size_t)part->item);
        return bytes + part->item;
    }
    for (int64_t i = 0; i < part->at.dims[axis]; i++) {
        bytes = move_part(part, at + i * part->at.strides[axis], axis + 1, bytes, back);
    }
    return bytes;
}

static void move_parts(DynCall *c, bool back) {
    char *bytes = (char *)c->undo->copies;
    Part part;
    for (uint32_t i = 0; i < c->p->writers.n; i++) {
        if (find_part(c, c->p->writers.at[i], &part)) {
            bytes = move_part(&part, part.at.data, 0, bytes, back);
        }
    }
}

static void keep_parts(DynCall *c) {
    int64_t total = 0;
    Part part;
    bool few = c->p->writers.n <= MOST_PARTS;
    for (uint32_t i = 0; few && i < c->p->writers.n; i++) {
        few = find_part(c, c->p->writers.at[i], &part) && (total += part.bytes) <= MOST_BYTES;
    }
    if (!few) {
        return;
    }
    c->undo = PyMem_RawMalloc(sizeof(DynUndo) + (size_t)total);
    if (c->undo != NULL) {
        *c->undo = (DynUndo){.in_parts = true};
        move_parts(c, false);
    }
}

/* Keeps them; without memory for it there is no undo, which is no error. */
void dyn_undo_keep(DynCall *c) {
    int64_t total = 0, whole = 0;
    uint32_t n = c->p->written.n;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *a = c->run->inputs[c->p->written.at[i]];
        total += bytes_of(a);
        whole += is_one_piece(a) ? bytes_of(a) : 0;
    }
    if (dyn_flags_ignored()) {
        return;
    }
    if (total > MOST_BYTES) {
        keep_parts(c);
        return;
    }
    c->undo = PyMem_RawMalloc(sizeof(DynUndo) + n * sizeof(PyObject *) + (size_t)whole);
    if (c->undo == NULL) {
        return;
    }
    *c->undo = (DynUndo){.n = 0};
    char *bytes = (char *)(c->undo->copies + n);
    for (; c->undo->n < n; c->undo->n++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[c->undo->n]], **copy = &c->undo->copies[c->undo->n];
        *copy = NULL;
        if (is_one_piece((PyObject *)a)) {
            memcpy(bytes, PyArray_BYTES(a), (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        } else if ((*copy = (PyArrayObject *)PyArray_NewCopy(a, NPY_KEEPORDER)) == NULL) {
            PyErr_Clear();
            dyn_undo_drop(c);
            return;
        }
    }
}

void dyn_undo_put_back(DynCall *c) {
    if (c->undo->in_parts) {
        move_parts(c, true);
        return;
    }
    const char *bytes = (const char *)(c->undo->copies + c->undo->n);
    for (uint32_t i = 0; i < c->undo->n; i++) {
        PyArrayObject *a = (PyArrayObject *)c->run->inputs[c->p->written.at[i]];
        if (c->undo->copies[i] != NULL) {
            if (PyArray_CopyInto(a, c->undo->copies[i]) < 0) {
                PyErr_Clear(); /* of one dtype and shape: nothing can go wrong */
            }
        } else {
            memcpy(PyArray_BYTES(a), bytes, (size_t)PyArray_NBYTES(a));
            bytes += PyArray_NBYTES(a);
        }
    }
}
