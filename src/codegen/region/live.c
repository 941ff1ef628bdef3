/* live.c: which registers are needed at the beginning of each block of a region: on some way from there one is an operand, or
 * shown by an exit, before anything is assigned to it. Called by unroll.c and trips.c. Memory is raw. */
#include "codegen/region/region_code.h"

enum { WORD = 64 };

static void need(uint64_t *row, uint32_t reg) { row[reg / WORD] |= UINT64_C(1) << reg % WORD; }

static void see_exit(const DynRegion *r, uint32_t exit, uint64_t *row) {
    const DynRegionValues *values = &r->exits.at[exit].values;
    for (uint32_t i = 0; i < values->n && !r->exits.at[exit].gives_up; i++) {
        for (uint32_t k = 0; k < values->at[i].nregs; k++) {
            need(row, values->at[i].regs[k]);
        }
    }
}

/* What is needed at the block's beginning; `row` has what is at its end. */
static void see_block(const DynRegion *r, uint32_t block, const DynRegionLive *live, uint64_t *row) {
    const DynRegionBlock *b = &r->blocks.at[block];
    for (uint32_t i = b->v.n; i-- > 0;) {
        const DynRegionInstr *in = &b->v.at[i];
        const DynRegionOpInfo *op = &dyn_region_ops[in->op];
        if (op->result != 'N') {
            row[in->dst / WORD] &= ~(UINT64_C(1) << in->dst % WORD);
        }
        for (int a = 0; a < 3 && op->args[a] != 'N'; a++) {
            need(row, in->arg[a]);
        }
        uint32_t other = dyn_region_else(in);
        if (op->fails && in->exit != DYN_NONE) {
            see_exit(r, in->exit, row);
        }
        for (uint32_t k = 0; k < live->nwords && other != DYN_NONE; k++) {
            row[k] |= live->rows[(size_t)other * live->nwords + k];
        }
    }
}

bool dyn_region_find_live(const DynRegion *r, DynRegionLive *live) {
    uint32_t nblocks = r->blocks.n, nwords = r->regs.n / WORD + 1, to[2];
    live->nwords = nwords;
    live->rows = PyMem_RawCalloc((size_t)(nblocks + 1) * nwords, sizeof(uint64_t)); /* room for one more */
    uint64_t *now = live->rows == NULL ? NULL : live->rows + (size_t)nblocks * nwords;
    for (bool again = live->rows != NULL; again;) {
        again = false;
        for (uint32_t i = nblocks; i-- > 0;) {
            uint64_t *row = live->rows + (size_t)i * nwords;
            memset(now, 0, nwords * sizeof(uint64_t));
            for (uint32_t w = 0, ways = dyn_region_ways(&r->blocks.at[i], to); w < ways; w++) {
                for (uint32_t k = 0; k < nwords; k++) {
                    now[k] |= live->rows[(size_t)to[w] * nwords + k];
                }
            }
            see_block(r, i, live, now);
            again = again || memcmp(now, row, nwords * sizeof(uint64_t)) != 0;
            memcpy(row, now, nwords * sizeof(uint64_t));
        }
    }
    return live->rows != NULL;
}
