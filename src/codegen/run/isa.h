/* isa.h: the instruction set that this processor and operating system have, for what is compiled for each of them. */
#ifndef DYN_ISA_H
#define DYN_ISA_H
#include "base/base.h"

typedef struct DynIsa {
    const char *name;  /* "x86-64-v3" */
    const char *flags; /* compiler flags, spelled out feature by feature, since older compilers don't know the levels */
} DynIsa;
DYN_HIDDEN const DynIsa *dyn_isa_get(void);
DYN_HIDDEN size_t dyn_isa_number(void);           /* its level */
DYN_HIDDEN const DynIsa *dyn_isa_level(size_t i); /* those that the package is built for, from the lowest; NULL behind the last */
#endif
