/* frame.h: what a frame looks like between two instructions, and where an instruction may go on from. Captures have it, and the
 * assembler makes code of it. */
#ifndef DYN_FRAME_H
#define DYN_FRAME_H
#include "base/base.h"

typedef struct DynFrameShape {
    uint32_t at; /* code unit */
    uint32_t nstack;
    const bool *bound;      /* for each slot of the original: is it bound */
    const bool *null_stack; /* for each stack value: is it NULL */
} DynFrameShape;
typedef enum DynWayOn { /* where it falls through, where it jumps, and where the handler begins that covers it */
                        DYN_WAY_NEXT,
                        DYN_WAY_JUMP,
                        DYN_WAY_CAUGHT,
                        DYN_WAYS
} DynWayOn;
#endif
