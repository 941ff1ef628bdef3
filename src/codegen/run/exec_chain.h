/* exec_chain.h: chains of products and kernels, for run.c. */
#ifndef DYN_EXEC_CHAIN_H
#define DYN_EXEC_CHAIN_H
#include "codegen/run/panel.h"
#include "codegen/run/product.h"

typedef enum DynLinkKind { DYN_LINK_KERNEL, DYN_LINK_SMALL, DYN_LINK_BLAS, DYN_LINK_PANEL } DynLinkKind;
typedef struct DynLink {
    DynLinkKind kind;
    char *out; /* of a product: all of its rows */
    union {
        DynBound bound;
        DynProduct product; /* of one long matrix */
        DynBlas blas;       /* that has blocks */
        DynPanel panel;     /* never in a chain */
    };
} DynLink;
/* cost: of all, in tenths of a nanosecond. No GIL needed. -1: memory. */
DYN_HIDDEN int dyn_exec_chain(const DynLink *links, int n, int64_t rows, int64_t cost);
#endif
