/* products.c: products of matrices on a CUDA device, with a bias or without, past PyTorch's dispatcher: cublas.c makes them with
 * PyTorch's own handle, stream and precision.
 *
 * Called by run.c through the target's tasks, with the GIL, in place of an extern call that is marked as a product. What isn't a
 * plain product of two matrices (or of rows that lie one behind the other), and what cuBLAS refuses, is answered with OTHERWISE:
 * PyTorch's own call makes it, and says what is wrong. Owns nothing. */
#include "base/torch.h"
#include "codegen/cuda/cublas.h"
#include "codegen/native.h"

#define MOST ((int64_t)1 << 31) /* PyTorch's calls take sizes that are int */

/* A matrix by rows, or the transpose of one. */
typedef struct Matrix {
    char *data;
    int64_t rows, columns, step; /* step: elements from one row as it lies to the next */
    bool turned;                 /* it lies by columns */
} Matrix;

/* Leading axes that lie one behind the other are one. */
static bool fold(const DynGeom *g, int ndim, Matrix *m) {
    m->data = g->data;
    m->rows = g->dims[ndim - 2];
    m->columns = g->dims[ndim - 1];
    for (int i = ndim - 3; i >= 0; i--) {
        if (g->strides[i] != g->strides[i + 1] * g->dims[i + 1]) {
            return false;
        }
        m->rows *= g->dims[i];
    }
    return true;
}

/* Of a row or a column it isn't told which of the two it is: a row whose elements lie one behind the other is one, and the rest
 * is PyTorch's, which has rules of its own. */
static bool find_matrix(const DynGeom *g, int ndim, int64_t size, Matrix *m) {
    int trans;
    if (ndim < 2 || !fold(g, ndim, m) || m->rows < 1 || m->columns < 2 || m->rows >= MOST || m->columns >= MOST) {
        return false;
    }
    if (m->rows == 1) {
        m->step = m->columns;
        m->turned = false;
        return g->strides[ndim - 1] == size;
    }
    bool lies = dyn_blas_lies(g->strides[ndim - 2], g->strides[ndim - 1], m->rows, m->columns, size, &trans, &m->step);
    m->turned = trans == DYN_BLAS_TRANS;
    return lies && (!m->turned || ndim == 2);
}

/* The operands' places among the node's: rows, matrix, bias (-1: none). */
typedef struct Operands {
    int rows, matrix, bias;
} Operands;

static Operands operands_of(const DynNode *n) {
    if (n->op == DYN_OP_ADDMM) {
        return (Operands){1, 2, 0};
    }
    return (Operands){0, 1, n->nargs > 2 ? 2 : -1};
}

/* A bias that stands in each row: one number for each column, one behind the other. */
static bool find_bias(const DynCall *c, const DynNode *n, uint32_t id, int64_t columns, const char **data) {
    const DynNode *bias = dyn_graph_node(c->p->graph, id);
    const DynGeom *g = &c->geoms[id];
    *data = g->data;
    return bias->ndim == 1 && bias->dtype == n->dtype && g->dims[0] == columns && g->strides[0] == dyn_dtypes[n->dtype].size;
}

static bool are_nodes(const DynNode *n) {
    bool all = true;
    for (int i = 0; i < n->nargs; i++) {
        all = all && n->args[i].kind == DYN_ARG_NODE;
    }
    return all;
}

static bool find_operands(const DynCall *c, const DynNode *n, Matrix *a, Matrix *b, const char **bias) {
    const DynGraph *g = c->p->graph;
    Operands at = operands_of(n);
    if (!are_nodes(n)) {
        return false;
    }
    uint32_t left = n->args[at.rows].id, right = n->args[at.matrix].id;
    const DynNode *x = dyn_graph_node(g, left), *y = dyn_graph_node(g, right);
    bool same = x->dtype == n->dtype && y->dtype == n->dtype && y->ndim == 2 && n->layout.kind == DYN_LAYOUT_C;
    bool plain = n->dtype == DYN_F32 || n->dtype == DYN_F64 || n->dtype == DYN_F16 || n->dtype == DYN_BF16;
    int64_t size = dyn_dtypes[n->dtype].size;
    if (!same || !plain || !find_matrix(&c->geoms[left], x->ndim, size, a) || !find_matrix(&c->geoms[right], 2, size, b)) {
        return false;
    }
    if (n->op == DYN_OP_LINEAR) {
        *b = (Matrix){b->data, b->columns, b->rows, b->step, !b->turned};
    }
    *bias = NULL;
    return a->columns == b->rows && (at.bias < 0 || find_bias(c, n, n->args[at.bias].id, b->columns, bias));
}

/* To how many bits are all of these places multiples? Those that cuBLAS asks for end at 256 bytes. */
static uint8_t alignment_of(const DynCublasData *d) {
    uintptr_t bits = (uintptr_t)d->a | (uintptr_t)d->b | (uintptr_t)d->bias | (uintptr_t)d->out | 256;
    return (uint8_t)__builtin_ctzll(bits);
}

/* What lies by rows is, by columns, its transpose: c' = b' a'. */
static bool multiply(const DynCall *c, DynCublas *by, const Matrix *a, const Matrix *b, const char *bias, char *out) {
    DynCublasData data = {b->data, a->data, bias, out};
    DynCublasShape *shape = &by->shape;
    shape->m = b->columns;
    shape->n = a->rows;
    shape->k = a->columns;
    shape->a_step = b->step;
    shape->b_step = a->step;
    shape->a_turned = b->turned;
    shape->b_turned = a->turned;
    shape->biased = bias != NULL;
    shape->aligned = alignment_of(&data);
    return dyn_cublas_multiply(c, by, &data);
}

static DynTaskEnd bind_product(DynCall *c, DynTask *t) {
    uint32_t node = c->p->steps.at[t->first].id;
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    const char *bias;
    Matrix a, b;
    DynCublas by;
    DynGeom out;
    DynTaskEnd end = dyn_call_arrive(c, t->first);
    if (end != DYN_TASK_DONE) {
        return end;
    }
    bool plain = !c->ranged && !c->p->graph->cupy && find_operands(c, n, &a, &b, &bias);
    if (!plain || !dyn_cublas_ready(c, (DynDtype)n->dtype, &by)) {
        return DYN_TASK_OTHERWISE;
    }
    PyObject *array = dyn_call_new_result(c, node);
    if (array == NULL || dyn_call_geom(array, &out) < 0 || !multiply(c, &by, &a, &b, bias, out.data)) {
        PyErr_Clear();
        Py_XDECREF(array);
        return DYN_TASK_OTHERWISE;
    }
    c->objects[node] = array;
    return dyn_call_depart(c, t->first);
}

const DynTaskKind dyn_cuda_task_product = {.bind = bind_product};
