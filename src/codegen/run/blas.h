/* blas.h: products by NumPy's own BLAS, or by PyTorch's, for run.c. */
#ifndef DYN_BLAS_H
#define DYN_BLAS_H
#include "codegen/run/exec.h"

typedef enum DynBlasRoutine { DYN_BLAS_DOT, DYN_BLAS_GEMV, DYN_BLAS_GEMM } DynBlasRoutine;
enum { DYN_BLAS_NO_TRANS = 111, DYN_BLAS_TRANS = 112 }; /* as CBLAS has them: a matrix lies by rows, or by columns */
typedef struct DynBlas {
    DynBlasRoutine routine;
    bool single;                              /* float32 */
    int64_t rows, terms, columns;             /* of one product */
    int order, trans_a, trans_b;              /* as CBLAS has them; GEMV: a is the matrix, b the vector */
    int64_t a_step, b_step;                   /* elements from row to row as they lie, or from one to the next of a vector */
    int nstack;                               /* axes of the stack */
    int64_t stacks, size;                     /* how many products, bytes of an element */
    int64_t dims[DYN_MAX_NDIM];               /* of the stack */
    int64_t a[DYN_MAX_NDIM], b[DYN_MAX_NDIM]; /* its strides */
    const char *left, *right;
    bool torch; /* by PyTorch's library */
} DynBlas;

/* How a matrix lies, `down` and `along` being bytes: by rows, or by columns (it is the transpose of one by rows), and `step`
 * elements from one to the next. False: otherwise. */
DYN_HIDDEN bool dyn_blas_lies(int64_t down, int64_t along, int64_t rows, int64_t columns, int64_t size, int *trans,
                              int64_t *step);
/* Is a @ b, both of that dtype and of rank 1 or more, a call of BLAS in NumPy? Then it is the same one here. False too where
 * NumPy has a BLAS that can't be found. With the GIL. */
DYN_HIDDEN bool dyn_blas_find(DynBlas *p, DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim);
/* Has PyTorch's library a routine that makes it, as PyTorch would, and is it better than NumPy's for so large a product? Then *p
 * is that. With the GIL. */
DYN_HIDDEN bool dyn_blas_torch(DynBlas *p);
/* If so, into memory in C order. No GIL needed. Floating-point flags are those of the product. */
DYN_HIDDEN void dyn_blas_run(const DynBlas *p, char *out);
static inline int64_t dyn_blas_terms(const DynBlas *p) { return p->rows * p->terms * p->columns * p->stacks; }
/* Is it worth while to make it by blocks of at most DYN_BLAS_ROWS rows, each by the thread that asks for it, with no others of
 * the library's? The last bits may differ from those of the product made at once. */
DYN_HIDDEN bool dyn_blas_has_blocks(const DynBlas *p);
DYN_HIDDEN void dyn_blas_block(const DynBlas *p, int64_t row, int64_t rows, char *out); /* out: of the first of these rows */
#endif
