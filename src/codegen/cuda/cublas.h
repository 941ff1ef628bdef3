/* cublas.h: products of two matrices by the library that PyTorch has loaded. Read by products.c. */
#ifndef DYN_CUBLAS_H
#define DYN_CUBLAS_H
#include "codegen/cuda/target.h"

/* A product by columns, as BLAS has it: out (m × n, which lies densely) = op(a) op(b), with `bias` (m, or NULL) added to each
 * column. What a plan depends on, and nothing else: it is compared byte by byte. */
typedef struct DynCublasShape {
    int64_t m, n, k, a_step, b_step; /* steps: elements from one column, as it lies, to the next */
    uint8_t device, dtype, a_turned, b_turned, biased;
    uint8_t rounds;  /* single precision may be rounded for tensor cores (TF32) */
    uint8_t aligned; /* all operands lie at multiples of 1 << aligned bytes */
    uint8_t unused;
} DynCublasShape;

/* How products of a call are made now. */
typedef struct DynCublas {
    void *handle; /* PyTorch's, of the calling thread */
    DynCublasShape shape;
} DynCublas;

typedef struct DynCublasData {
    const char *a, *b, *bias;
    char *out;
} DynCublasData;

/* May a product of that dtype be made here for the call: is the library there, and the program's settings such that PyTorch's
 * call would do nothing else? *out: the handle, and of the shape device, dtype and `rounds`, the rest being zero. With the GIL.
 */
DYN_HIDDEN bool dyn_cublas_ready(const DynCall *c, DynDtype dtype, DynCublas *out);
/* false: cuBLAS has no such product, or refuses it; nothing is written. With the GIL. */
DYN_HIDDEN bool dyn_cublas_multiply(const DynCall *c, const DynCublas *by, const DynCublasData *data);
#endif
