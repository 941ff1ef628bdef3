/* product.h: products of small matrices, for run.c. */
#ifndef DYN_PRODUCT_H
#define DYN_PRODUCT_H
#include "codegen/run/exec.h"

typedef struct DynProduct {
    const char *a, *b;
    char *out;
    int64_t stacks, rows, terms, columns; /* rows of the left matrix of one stack */
    bool one_right;                       /* all stacks have the same right matrix */
    int64_t chunk;                        /* stacks */
    int64_t size;
    void (*loop)(const struct DynProduct *p, int64_t from, int64_t to);
} DynProduct;

/* Is a @ b, both of that dtype, done here? Ranks are 2 or more. */
DYN_HIDDEN bool dyn_product_find(DynProduct *p, DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim);
/* If so, into memory in C order. No GIL needed. Floating-point flags are those of the product. */
DYN_HIDDEN void dyn_product_run(const DynProduct *found, char *out);
#endif
