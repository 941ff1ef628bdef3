/* builtin.h: the built-in tier: kernels run at once, instruction by instruction over blocks that stay in the first-level cache,
 * by loops that were compiled with the package. Same bits as native code on the same instruction set. */
#ifndef DYN_BUILTIN_H
#define DYN_BUILTIN_H
#include "codegen/loops/loops.h"

/* builtin_rows.c */
typedef struct DynBuiltinRow { /* of the operator table, as an instruction */
    uint8_t kind;              /* DYN_L_OP, DYN_L_REDUCE, or DYN_L_CAST of `compute` to `dtype` */
    uint8_t compute, dtype;
    uint16_t op;
} DynBuiltinRow;
DYN_HIDDEN int dyn_builtin_count(void);
DYN_HIDDEN const DynBuiltinRow *dyn_builtin_at(int row);
DYN_HIDDEN DynDtype dyn_builtin_operand(const DynBuiltinRow *row, int operand);
DYN_HIDDEN int dyn_builtin_row(DynOp op, uint8_t compute);                /* or -1 */
DYN_HIDDEN int dyn_builtin_find(const DynKernel *k, const DynInsn *insn); /* the row that does it, or -1 */
DYN_HIDDEN int dyn_builtin_source(DynStr *out);                           /* C of all rows; -1: memory */

/* builtin.c. */
/* to[i] = to[i] op from[i], as the reduction does, for a multiple of DYN_REDUCE_LANES lanes; false: it isn't there. */
DYN_HIDDEN bool dyn_builtin_combine(const DynInsn *reduce, void *to, const void *from, int64_t lanes);
extern DYN_HIDDEN bool dyn_builtin_off; /* tests: as if there were none */
/* What a kernel does, in rows: */
typedef struct DynBuiltinStep {
    int16_t row;         /* or -1: a copy */
    int16_t from[3], to; /* a block, or ~operand */
    uint8_t nargs;
    uint8_t size; /* of an element of a copy */
} DynBuiltinStep;
struct DynBuiltinPlan {
    uint16_t nsteps, nblocks;
    uint8_t size;   /* of a block's largest element */
    int16_t *fixed; /* of each instruction: the block that its one value fills, or -1 */
    int16_t *laid;  /* of each operand of a reduction: the block that its rows are laid into where they lie apart, or -1 */
    DynBuiltinStep steps[];
};
#endif
