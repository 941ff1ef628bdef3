/* region_code.h: what the files of this folder share: emit.c writes a region as C, run.c builds that and runs it between a
 * frame's slots. Nobody else includes it. */
#ifndef DYN_REGION_CODE_H
#define DYN_REGION_CODE_H
#include "codegen/native.h"
#include "ir/region_ir.h"

/* What generated code gets; emit.c writes the same as text. */
typedef struct DynRegionArgs {
    DynScalar *values; /* For each register: those of the entry on the way in, those of the exit on the way out. */
    const volatile unsigned char *breaker;
    long block;  /* Where it begins: the block of an entry. */
    long force;  /* Test: leave at this exit, */
    long *after; /* when it was passed so many times. */
} DynRegionArgs;
typedef long (*DynRegionFunction)(const DynRegionArgs *args); /* the exit */
#define DYN_REGION_SYMBOL "dyn_region"
#define DYN_REGION_LONG 700u       /* Instructions above which a region is compiled with -O2, */
#define DYN_REGION_VERY_LONG 2000u /* or -O1: three instructions are about a line; 300 take 0.13 s with -O3. */

struct DynRegionCode {
    DynBuildText *text;
    DynRegionFunction function; /* NULL: not loaded (yet). */
};
DYN_HIDDEN void dyn_region_hoist(DynRegion *r); /* hoist.c: where memory is out, checks stay where they are */
#endif
