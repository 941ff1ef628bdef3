/* exec_histogram.c: HISTOGRAM nodes: how many elements lie in each of many bins of one width, as np.histogram finds it out.
 *
 * Called by run.c. An element's bin is (x - first) / (last - first) * n, set right by one where the edges say so; what lies
 * outside and nan is in none. Bins are computed for a block at a time by vectors, compiled for each instruction set; then counted
 * one by one, in several tables in turn, as the next element often falls into the bin of the last. Counts don't depend on the
 * order, so threads have tables of their own. */
#include "codegen/build.h"
#include "codegen/exec.h"
#include <math.h>

#define BLOCK 512
#define TABLES 4
#define MOST_BINS (1 << 20) /* of which there are tables for each thread */
#define CHUNK 65536         /* elements, at least, of a parallel chunk */
#define MOST_CHUNKS 16

typedef struct Bins {
    const double *edges;
    double first, last, width, n; /* width: of all bins together */
    int32_t count;
} Bins;

typedef struct Block {
    _Alignas(64) double x[BLOCK];                   /* what is in no bin is `first` here: nan raises no flag */
    _Alignas(64) int32_t bin[BLOCK], inside[BLOCK]; /* the bin before it is set right; is it in any? */
} Block;

#define FIND(NAME, TARGET)                                                                        \
    TARGET static void NAME(const Bins *b, const double *restrict from, Block *restrict to) {     \
        const double first = b->first, last = b->last, width = b->width, n = b->n;                \
        for (int i = 0; i < BLOCK; i++) {                                                         \
            double x = from[i];                                                                   \
            int32_t inside = __builtin_isgreaterequal(x, first) & __builtin_islessequal(x, last); \
            x = inside ? x : first;                                                               \
            to->x[i] = x;                                                                         \
            to->bin[i] = (int32_t)((x - first) / width * n);                                      \
            to->inside[i] = inside;                                                               \
        }                                                                                         \
    }
FIND(find_base, DYN_VECTORS)
#if defined(__x86_64__)
FIND(find_avx2, DYN_VECTORS __attribute__((target("avx2"))))
FIND(find_avx512, DYN_VECTORS __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))))
#endif

typedef void FindFn(const Bins *b, const double *restrict from, Block *restrict to);

static FindFn *find_fn(void) {
    static FindFn *const levels[] = {
        find_base,
#if defined(__x86_64__)
        find_avx2,
        find_avx512,
#endif
    };
    return levels[dyn_isa_number()];
}

typedef struct Histogram {
    Bins bins;
    const char *from;
    int64_t n, step, chunk; /* elements, bytes from one to the next, elements of a chunk */
    int64_t *tables;        /* of all chunks: TABLES times count and one for what is in no bin */
} Histogram;

static void count_block(const Bins *b, const Block *block, int64_t n, int64_t *tables) {
    const int32_t count = b->count;
    for (int64_t i = 0; i < n; i++) {
        double x = block->x[i];
        int32_t at = block->bin[i];
        at -= at == count;
        at -= x < b->edges[at];
        at += (at != count - 1) & (x >= b->edges[at + 1]);
        at = count + ((at - count) & -block->inside[i]); /* a branch would go the wrong way as often as not */
        tables[(i % TABLES) * (count + 1) + at]++;
    }
}

static void chunk_of(void *ctx, int64_t chunk) {
    const Histogram *h = ctx;
    const Bins *b = &h->bins;
    _Alignas(64) double room[BLOCK];
    Block block;
    int64_t to = (chunk + 1) * h->chunk < h->n ? (chunk + 1) * h->chunk : h->n;
    int64_t *tables = h->tables + chunk * TABLES * (b->count + 1);
    FindFn *find = find_fn();
    for (int64_t pos = chunk * h->chunk; pos < to; pos += BLOCK) {
        int64_t n = to - pos < BLOCK ? to - pos : BLOCK;
        const double *x = (const double *)(h->from + pos * h->step);
        if (n < BLOCK || h->step != sizeof(double)) {
            dyn_lanes_copy((char *)room, (const char *)x, sizeof(double), h->step, n, sizeof(double));
            dyn_lanes_pad((char *)room, sizeof(double), n, BLOCK);
            x = room;
        }
        find(b, x, &block);
        count_block(b, &block, n, tables);
    }
}

/* What eager refuses, or goes about in another way: edges that don't grow, numbers without an end. */
static bool are_edges(const Bins *b) {
    bool grow = isfinite(b->width) && b->width > 0;
    for (int32_t i = 0; i < b->count && grow; i++) {
        grow = b->edges[i] < b->edges[i + 1];
    }
    return grow;
}

int dyn_exec_histogram(const DynGeom *from, const DynGeom *edges, const DynGeom *to) {
    int64_t n = to->dims[0], nchunks = dyn_par_threads() > 1 ? from->dims[0] / CHUNK : 1;
    if (n < 1 || n > MOST_BINS || edges->dims[0] != n + 1 || edges->strides[0] != sizeof(double)) {
        return -1;
    }
    const double *e = (const double *)edges->data;
    Histogram h = {.bins = {e, e[0], e[n], e[n] - e[0], (double)n, (int32_t)n}, .from = from->data, .n = from->dims[0]};
    if (!are_edges(&h.bins)) {
        return -1;
    }
    nchunks = nchunks < 1 || n > CHUNK ? 1 : nchunks > MOST_CHUNKS ? MOST_CHUNKS : nchunks;
    h.step = from->strides[0];
    h.chunk = ((h.n + nchunks - 1) / nchunks + BLOCK - 1) / BLOCK * BLOCK;
    h.tables = PyMem_RawCalloc((size_t)(nchunks * TABLES * (n + 1)), sizeof(*h.tables));
    if (h.tables == NULL) {
        return -1;
    }
    if (nchunks > 1) {
        dyn_par_for(chunk_of, &h, nchunks);
    } else {
        chunk_of(&h, 0);
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int64_t t = 0; t < nchunks * TABLES; t++) {
            sum += h.tables[t * (n + 1) + i];
        }
        memcpy(to->data + i * to->strides[0], &sum, sizeof(sum));
    }
    PyMem_RawFree(h.tables);
    return 0;
}
