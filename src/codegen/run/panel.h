/* panel.h: products of float32 matrices that fit the caches, with PyTorch's bits, for run.c. */
#ifndef DYN_PANEL_H
#define DYN_PANEL_H
#include "codegen/run/blas.h"

typedef struct DynPanel {
    const float *left, *right;
    int64_t rows, terms, columns;
    int64_t a_down, a_along, b_down, b_along; /* in elements, from row to row and from column to column */
    int64_t run;                              /* so many terms are summed before they are added to the sum of those before them */
} DynPanel;

/* Has the product by PyTorch's library that *as is (dyn_blas_torch) the bits of one that is made here, in less time? With the
 * GIL. */
DYN_HIDDEN bool dyn_panel_find(DynPanel *p, const DynBlas *as);
/* After how many terms PyTorch's library begins a new sum of a product of these sizes; 0: in no order that is known; -1: such
 * products aren't made here. */
DYN_HIDDEN int64_t dyn_panel_order(const DynBlas *of, bool *faster);
/* If so, into memory in C order. No GIL needed. */
DYN_HIDDEN void dyn_panel_run(const DynPanel *p, char *out);
#endif
