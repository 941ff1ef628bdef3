/* region.h: a loop with all that is nested in it, compiled as a whole from bytecode (docs: LOOPS). This is what a region looks
 * like to whoever runs one; region_ir.h has what is in it. tracer/region makes regions, codegen/region builds and runs them. All
 * of it with the GIL held. */
#ifndef DYN_REGION_IR_API_H
#define DYN_REGION_IR_API_H
#include "base/base.h"

typedef struct DynRegion DynRegion;

/* What became of a region's native code. */
typedef enum DynRegionState {
    DYN_REGION_WAITING, /* It was not asked for yet, or the compiler works on it. */
    DYN_REGION_READY,   /* It is loaded. */
    DYN_REGION_FAILED   /* There will be none: dyn_region_failure says why. */
} DynRegionState;

typedef enum DynRegionEnd {
    DYN_REGION_LEFT,       /* It ran; CPython goes on where `exit` says. */
    DYN_REGION_NOT_ENTERED /* A guard fails, or there is no native code. Nothing was touched, nothing is set. */
} DynRegionEnd;

/* Why functions that a region calls, and that call each other, have given up: CPython's eval breaker wanted something, there are
 * too many in one another, or what one of them came to. */
enum { DYN_GAVE_UP_NOT, DYN_GAVE_UP_FOR_BREAKER, DYN_GAVE_UP_FOR_DEPTH, DYN_GAVE_UP };

/* Where CPython goes on behind a region. */
typedef struct DynRegionExit {
    uint32_t at;      /* The code unit, which is a canonical instruction's `start`. */
    uint32_t nstack;  /* The number of stack values that belong there. */
    PyObject **stack; /* They, from the lowest: new references that the caller takes over; NULL stands for CPython's NULL. The
                       * memory itself is the region's, and good until it runs again. */
    uint32_t exit;    /* Which of the region's exits it was, for counts. */
    DynReason why;    /* OK: the loop is over, or was broken out of. Else what CPython has to do there. */
    uint8_t gave_up;  /* DYN_GAVE_UP_*: it was left because of what is called in it. */
} DynRegionExit;

/* Hands its C to the build queue. wait: the code is there on return, or has failed (the GIL is released meanwhile). 0, or -1:
 * memory is out, without an exception. */
DYN_HIDDEN int dyn_region_build(DynRegion *r, bool wait);
DYN_HIDDEN DynRegionState dyn_region_state(DynRegion *r);
DYN_HIDDEN DynReason dyn_region_failure(DynRegion *r, const char **detail); /* DYN_R_OK: none is known */

/* Runs the loop from its header. `slots` are locals, cells and free variables, which are changed in place (owned references), and
 * behind them the `nstack` stack values at the header, which stay as they are, but for iterators, which are advanced in place: on
 * LEFT the caller drops them and takes exit->stack in their place. No exception is set: what is due is raised by the instruction
 * at exit->at, which has not been executed. What it leaves to do on its way out is dropping numbers and arrays, so no Python code
 * runs. */
DYN_HIDDEN DynRegionEnd dyn_region_run(DynRegion *r, PyObject **slots, uint32_t nstack, DynRegionExit *exit);
/* The places where it may be left: code unit and depth of the stack of the i-th, without repetitions. false: there are fewer. */
DYN_HIDDEN bool dyn_region_exit(const DynRegion *r, uint32_t i, uint32_t *at, uint32_t *nstack);
DYN_HIDDEN void dyn_region_source(const DynRegion *r, DynStr *out);       /* The generated C. */
DYN_HIDDEN void dyn_region_print_source(const DynRegion *r, DynStr *out); /* The same, unless the build thread is at it. */
DYN_HIDDEN int dyn_region_traverse(const DynRegion *r, visitproc visit, void *arg); /* its references, for the collector */
DYN_HIDDEN void dyn_region_free(DynRegion *r);
#endif
