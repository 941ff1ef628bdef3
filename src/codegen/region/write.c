/* write.c: blocks and instructions that passes over region IR add. Called by trips.c, ahead.c, hoist.c, unroll.c and stores.c.
 * What is added is the region's. *failed becomes true where memory is out, and stays so otherwise: a pass asks at its end. */
#include "codegen/region/region_code.h"

static void push(DynRegion *r, uint32_t block, DynRegionInstr in, bool *failed) {
    *failed = dyn_vec_push(&r->blocks.at[block].v, in) < 0 || *failed;
}

uint32_t dyn_region_add_block(DynRegion *r, uint32_t at, bool *failed) {
    DynRegionBlock b = {.at = at};
    *failed = dyn_vec_push(&r->blocks, b) < 0 || *failed;
    return r->blocks.n - 1;
}

uint32_t dyn_region_add(DynRegion *r, uint32_t block, DynRegionOp op, uint32_t a, uint32_t b, int64_t imm, bool *failed) {
    DynRegionInstr in = dyn_region_instr(op, a, b, DYN_NONE, imm);
    char type = dyn_region_ops[op].result;
    in.dst = type == 'N' ? DYN_NONE : dyn_region_reg(r, type);
    *failed = *failed || (type != 'N' && in.dst == DYN_NONE);
    push(r, block, in, failed);
    return in.dst;
}

void dyn_region_add_end(DynRegion *r, uint32_t block, uint32_t condition, uint32_t yes, uint32_t no, bool *failed) {
    DynRegionInstr in = {.op = condition == DYN_NONE ? DYN_RO_JMP : DYN_RO_BR,
                         .dst = DYN_NONE,
                         .arg = {condition, DYN_NONE, DYN_NONE},
                         .exit = DYN_NONE,
                         .to = {yes, no}};
    push(r, block, in, failed);
}
