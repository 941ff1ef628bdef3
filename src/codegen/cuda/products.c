/* products.c: products of matrices on a CUDA device, past PyTorch's dispatcher: its own cuBLAS handle, which has its stream, its
 * workspace and its precision, is called with what PyTorch would call it with, so that the bits are the same.
 *
 * Called by run.c through the target's tasks, with the GIL, in place of an extern call that is marked as a product. What isn't a
 * plain product of two matrices in single or double precision (or of rows that lie one behind the other), and what cuBLAS
 * refuses, is answered with OTHERWISE: PyTorch's own call makes it, and says what is wrong. Owns nothing but the routines'
 * addresses, which stay valid as long as the process lives. */
#include <dlfcn.h>

#include "base/torch.h"
#include "codegen/cuda/target.h"
#include "codegen/native.h"

#define MOST ((int64_t)1 << 31) /* sizes are int */

/* By columns, as BLAS has it: c (m × n) = alpha op(a) op(b) + beta c. 0, or a status. */
typedef int Gemm(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha, const void *a, int a_step,
                 const void *b, int b_step, const void *beta, void *c, int c_step);
static struct {
    Gemm *single, *twice; /* of float32, and of float64 */
    PyObject *handle;     /* PyTorch's function that gives the current one; NULL: the stand-in of tests, which has none */
    PyObject *strict;     /* … and the one that says whether only deterministic algorithms may run, which its calls look into */
} blas;
static enum { UNKNOWN, OPEN, CLOSED } state;
static void *stand_in; /* whose routines they are, in tests; NULL: PyTorch's */

/* ---- finding cuBLAS */

/* PyTorch has loaded it, under the name of its own CUDA's. */
static void *library_of_torch(void) {
    static const char *const names[] = {"libcublas.so.14", "libcublas.so.13", "libcublas.so.12"};
    void *library = NULL;
    for (size_t i = 0; i < DYN_COUNTOF(names) && library == NULL; i++) {
        library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    }
    return library;
}

static void *symbol(void *library, const char *name) { return library == NULL ? NULL : dlsym(library, name); }

static void look_up(void) {
    dyn_load_lock(true);
    void *library = stand_in != NULL ? stand_in : library_of_torch();
    void *single = symbol(library, "cublasSgemm_v2"), *twice = symbol(library, "cublasDgemm_v2");
    dyn_load_lock(false);
    memcpy(&blas.single, &single, sizeof(single));
    memcpy(&blas.twice, &twice, sizeof(twice));
    Py_CLEAR(blas.handle);
    Py_XSETREF(blas.strict, dyn_torch_lookup(dyn_torch_module, "_C._get_deterministic_algorithms"));
    blas.handle = stand_in != NULL ? NULL : dyn_torch_lookup(dyn_torch_module, "_C._cuda_getCurrentBlasHandle");
    PyErr_Clear();
    bool found = single != NULL && twice != NULL && blas.strict != NULL && (stand_in != NULL || blas.handle != NULL);
    state = found ? OPEN : CLOSED;
}

static bool is_there(void) {
    if (DYN_UNLIKELY(state == UNKNOWN || stand_in != dyn_cuda_stand_in_library())) {
        stand_in = dyn_cuda_stand_in_library();
        look_up();
    }
    return state == OPEN;
}

/* The calling thread's for the current device, with its stream. false: it can't be had. */
static bool handle_of(void **handle) {
    *handle = NULL;
    if (blas.handle == NULL) {
        return true; /* the stand-in has none */
    }
    PyObject *number = PyObject_CallNoArgs(blas.handle);
    *handle = number == NULL ? NULL : PyLong_AsVoidPtr(number);
    Py_XDECREF(number);
    PyErr_Clear();
    return *handle != NULL;
}

/* PyTorch's own call raises then where the workspace isn't configured for it. */
static bool is_strict(void) {
    PyObject *strict = PyObject_CallNoArgs(blas.strict);
    bool so = strict != Py_False;
    Py_XDECREF(strict);
    PyErr_Clear();
    return so;
}

static bool is_current(const DynCall *c) {
    const DynCudaInfo *info = dyn_cuda_info(c->p->graph->device - 1);
    DynCudaContext *current = NULL;
    return info != NULL && dyn_cuda.CtxGetCurrent(&current) == 0 && current == info->context;
}

/* ---- the product */

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

/* Of a row or a column it isn't told which of the two it is, and PyTorch has rules of its own. */
static bool find_matrix(const DynGeom *g, int ndim, int64_t size, Matrix *m) {
    int trans;
    if (ndim < 2 || !fold(g, ndim, m) || m->rows < 2 || m->columns < 2) {
        return false;
    }
    bool lies = dyn_blas_lies(g->strides[ndim - 2], g->strides[ndim - 1], m->rows, m->columns, size, &trans, &m->step);
    m->turned = trans == DYN_BLAS_TRANS;
    return lies && (!m->turned || ndim == 2) && m->rows < MOST && m->columns < MOST;
}

static bool find_operands(const DynCall *c, const DynNode *n, Matrix *a, Matrix *b) {
    const DynGraph *g = c->p->graph;
    uint32_t left = n->args[0].id, right = n->args[1].id;
    const DynNode *x = dyn_graph_node(g, left), *y = dyn_graph_node(g, right);
    bool same = x->dtype == n->dtype && y->dtype == n->dtype && y->ndim == 2 && n->layout.kind == DYN_LAYOUT_C;
    bool plain = n->dtype == DYN_F32 || n->dtype == DYN_F64;
    int64_t size = dyn_dtypes[n->dtype].size;
    if (!same || !plain || !find_matrix(&c->geoms[left], x->ndim, size, a) || !find_matrix(&c->geoms[right], 2, size, b)) {
        return false;
    }
    if (n->op == DYN_OP_LINEAR) {
        *b = (Matrix){b->data, b->columns, b->rows, b->step, !b->turned};
    }
    return a->columns == b->rows;
}

/* What lies by rows is, by columns, its transpose: c' = b' a'. */
static int multiply(void *handle, DynDtype dtype, const Matrix *a, const Matrix *b, char *out) {
    static const float one = 1, zero = 0;
    static const double one_twice = 1, zero_twice = 0;
    bool single = dtype == DYN_F32;
    const void *alpha = single ? (const void *)&one : &one_twice, *beta = single ? (const void *)&zero : &zero_twice;
    return (single ? blas.single : blas.twice)(handle, b->turned, a->turned, (int)b->columns, (int)a->rows, (int)a->columns,
                                               alpha, b->data, (int)b->step, a->data, (int)a->step, beta, out, (int)b->columns);
}

static DynTaskEnd bind_product(DynCall *c, DynTask *t) {
    uint32_t node = c->p->steps.at[t->first].id;
    const DynNode *n = dyn_graph_node(c->p->graph, node);
    Matrix a, b;
    void *handle;
    DynGeom out;
    DynTaskEnd end = dyn_call_arrive(c, t->first);
    if (end != DYN_TASK_DONE) {
        return end;
    }
    bool plain = !c->ranged && !c->p->graph->cupy && find_operands(c, n, &a, &b);
    if (!plain || !is_there() || is_strict() || !is_current(c) || !handle_of(&handle)) {
        return DYN_TASK_OTHERWISE;
    }
    PyObject *array = dyn_call_new_result(c, node);
    if (array == NULL || dyn_call_geom(array, &out) < 0 || multiply(handle, (DynDtype)n->dtype, &a, &b, out.data) != 0) {
        PyErr_Clear();
        Py_XDECREF(array);
        return DYN_TASK_OTHERWISE;
    }
    c->objects[node] = array;
    return dyn_call_depart(c, t->first);
}

const DynTaskKind dyn_cuda_task_product = {.bind = bind_product};
