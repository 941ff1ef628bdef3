/* product.h: products of small matrices, for run.c. */
#ifndef DYN_PRODUCT_H
#define DYN_PRODUCT_H
#include "codegen/exec.h"

/* Is a @ b, both of that dtype, done here? Ranks are 2 or more. */
DYN_HIDDEN bool dyn_product_fits(DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim);
/* If so, into memory in C order. No GIL needed. Floating-point flags are those of the product. */
DYN_HIDDEN bool dyn_product(DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim, char *out);
#endif
