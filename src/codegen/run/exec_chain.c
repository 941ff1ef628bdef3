/* exec_chain.c: runs a chain (chain.c): products and kernels, a block of rows after the other, all of them in each block.
 *
 * Called by run.c, which finds the links. A block is made by one thread, the same way whichever it is. Owns nothing. */
#include "codegen/run/exec_chain.h"
#include "codegen/run/par.h"

typedef struct Chain {
    const DynLink *links;
    int n;
    int64_t rows, block;
    atomic_bool *failed;
} Chain;

/* Rows of a kernel, which walks them along its first axis. What isn't used of a binding isn't copied. */
static int run_kernel(const DynBound *whole, int64_t row, int64_t rows) {
    DynBound b;
    memcpy(&b, whole, offsetof(DynBound, strides));
    b.dims[0] = rows;
    b.missed = whole->missed;
    b.indirect = whole->indirect;
    for (int i = 0; i < b.nops; i++) {
        memcpy(b.strides[i], whole->strides[i], sizeof(b.strides[i][0]) * (size_t)b.ndim);
        b.base[i] = whole->base[i] + row * b.strides[i][0];
        b.size[i] = whole->size[i];
        b.extent[i] = whole->extent[i];
        b.step[i] = whole->step[i];
    }
    memcpy(b.params, whole->params, sizeof(b.params[0]) * b.k->params.n);
    return b.k->reduced ? dyn_exec_reduce(&b) : dyn_exec_elementwise(&b);
}

static void run_small(const DynLink *l, int64_t row, int64_t rows) {
    DynProduct p = l->product;
    p.a += row * p.terms * p.size;
    p.out = l->out + row * p.columns * p.size;
    p.rows = rows;
    p.loop(&p, 0, 1);
}

static void chain_block(void *ctx, int64_t block) {
    const Chain *c = ctx;
    int64_t row = block * c->block, rows = c->rows - row < c->block ? c->rows - row : c->block;
    for (int i = 0; i < c->n; i++) {
        const DynLink *l = &c->links[i];
        if (l->kind == DYN_LINK_KERNEL) {
            if (run_kernel(&l->bound, row, rows) < 0) {
                atomic_store_explicit(c->failed, true, memory_order_relaxed);
            }
        } else if (l->kind == DYN_LINK_SMALL) {
            run_small(l, row, rows);
        } else {
            dyn_blas_block(&l->blas, row, rows, l->out + row * l->blas.columns * l->blas.size);
        }
    }
}

int dyn_exec_chain(const DynLink *links, int n, int64_t rows, int64_t cost) {
    atomic_bool failed = false;
    int64_t blocks = (rows + DYN_BLAS_ROWS - 1) / DYN_BLAS_ROWS, even = ((rows + blocks - 1) / blocks + 7) & -8;
    Chain c = {.links = links, .n = n, .rows = rows, .block = even, .failed = &failed};
    blocks = (rows + even - 1) / even;
    if (cost >= DYN_PARALLEL_COST && dyn_par_threads() > 1) {
        dyn_par_for(chain_block, &c, blocks);
    } else {
        for (int64_t i = 0; i < blocks; i++) {
            chain_block(&c, i);
        }
    }
    return failed ? -1 : 0;
}
