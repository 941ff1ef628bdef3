/* scalar.h: a number at run time: what a symbol evaluates to, what kernels get. */
#ifndef DYN_SCALAR_H
#define DYN_SCALAR_H
#include <stdint.h>
typedef union DynScalar {
    int64_t i; /* int and bool */
    double f;
} DynScalar;
#endif
