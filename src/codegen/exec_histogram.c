/* exec_histogram.c: HISTOGRAM nodes: how many elements lie in each of many bins of one width, as np.histogram finds it out.
 *
 * Called by run.c. An element's bin is (x - first) / (last - first) * n, set right by one where the edges say so; what lies
 * outside and nan is in none. Of what is not close to an edge a product tells the bin: it is found for a block at a time by
 * vectors, compiled for each instruction set, and only where an element of a block is close are its bins found as NumPy does.
 * They are counted one by one, in several tables in turn, as the next element often falls into the bin of the last. Counts don't
 * depend on the order, so threads have tables of their own. */
#include "codegen/build.h"
#include "codegen/exec.h"
#include <fenv.h>
#include <float.h>
#include <math.h>

#define BLOCK 512
#define TABLES 4
#define MOST_BINS (1 << 20) /* of which there are tables for each thread */
#define CHUNK 65536         /* elements, at least, of a parallel chunk */
#define MOST_CHUNKS 16

typedef struct Bins {
    const double *edges;
    double first, last, width, n; /* width: of all bins together */
    double scale, close;          /* n / width; how near to a whole number of bins an element is asked what the edges say */
    int32_t count;
} Bins;

/* The bin of each element, count: it is in none. Is one of them close to an edge? */
#define FIND(isa, target)                                                                                \
    target static bool find_##isa(const Bins *b, const double *restrict from, int32_t *restrict bin) {   \
        const double first = b->first, last = b->last, scale = b->scale, low = b->close, high = 1 - low; \
        const int32_t count = b->count;                                                                  \
        int32_t close = 0;                                                                               \
        for (int i = 0; i < BLOCK; i++) {                                                                \
            double x = from[i];                                                                          \
            int32_t inside = __builtin_isgreaterequal(x, first) & __builtin_islessequal(x, last);        \
            x = inside ? x : first; /* nan raises no flag */                                             \
            double at = (x - first) * scale;                                                             \
            int32_t whole = (int32_t)at;                                                                 \
            double rest = at - whole;                                                                    \
            close |= -inside & ((int32_t)(rest < low) | (int32_t)(rest > high));                         \
            bin[i] = count + ((whole - count) & -inside); /* no branch */                                \
        }                                                                                                \
        return close != 0;                                                                               \
    }
DYN_EACH_ISA(FIND)

typedef bool FindFn(const Bins *b, const double *restrict from, int32_t *restrict bin);

static FindFn *find_fn(void) {
#define LEVEL(isa, target) find_##isa,
    static FindFn *const levels[] = {DYN_EACH_ISA(LEVEL)};
#undef LEVEL
    return levels[dyn_isa_number()];
}

typedef struct Histogram {
    Bins bins;
    const char *from;
    int64_t n, step, chunk; /* elements, bytes from one to the next, elements of a chunk */
    int64_t *tables;        /* of all chunks: TABLES times count and one for what is in no bin */
} Histogram;

/* As NumPy finds them, of a block in which something is close to an edge. */
static void find_closely(const Bins *b, const double *from, int64_t n, int32_t *bin) {
    const int32_t count = b->count;
    for (int64_t i = 0; i < n; i++) {
        double x = from[i];
        if (!(__builtin_isgreaterequal(x, b->first) & __builtin_islessequal(x, b->last))) {
            continue;
        }
        int32_t at = (int32_t)((x - b->first) / b->width * b->n);
        at -= at == count;
        at -= x < b->edges[at];
        at += (at != count - 1) & (x >= b->edges[at + 1]);
        bin[i] = at;
    }
}

static void count_block(const int32_t *bin, int64_t n, int64_t stride, int64_t *tables) {
    int64_t i = 0, *second = tables + stride, *third = second + stride, *fourth = third + stride;
    for (; i + TABLES <= n; i += TABLES) {
        tables[bin[i]]++;
        second[bin[i + 1]]++;
        third[bin[i + 2]]++;
        fourth[bin[i + 3]]++;
    }
    for (; i < n; i++) {
        tables[bin[i]]++;
    }
}

static void chunk_of(void *ctx, int64_t chunk) {
    const Histogram *h = ctx;
    const Bins *b = &h->bins;
    _Alignas(64) double room[BLOCK];
    _Alignas(64) int32_t bin[BLOCK];
    int64_t to = (chunk + 1) * h->chunk < h->n ? (chunk + 1) * h->chunk : h->n;
    int64_t *tables = h->tables + chunk * TABLES * (b->count + 1);
    FindFn *find = find_fn();
    bool was = fetestexcept(FE_INVALID) != 0; /* vectors of quiet comparisons are not: gcc 12 */
    for (int64_t pos = chunk * h->chunk; pos < to; pos += BLOCK) {
        int64_t n = to - pos < BLOCK ? to - pos : BLOCK;
        const double *x = (const double *)(h->from + pos * h->step);
        if (n < BLOCK || h->step != sizeof(double)) {
            dyn_lanes_copy((char *)room, (const char *)x, sizeof(double), h->step, n, sizeof(double));
            dyn_lanes_pad((char *)room, sizeof(double), n, BLOCK);
            x = room;
        }
        if (find(b, x, bin)) {
            find_closely(b, x, n, bin);
        }
        count_block(bin, n, b->count + 1, tables);
    }
    if (!was) {
        feclearexcept(FE_INVALID);
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

/* The product and what NumPy computes differ by a few roundings of n, and edges lie where they are rounded to: an element that is
 * further from all of them has no choice. Where the product says little every element is close. */
static void find_close(Bins *b) {
    double most = 0;
    b->scale = b->n / b->width;
    for (int32_t i = 0; i <= b->count; i++) {
        double away = fabs((b->edges[i] - b->first) * b->scale - i);
        most = away > most ? away : most;
    }
    b->close = 16 * DBL_EPSILON * b->n + 4 * most;
    if (!isnormal(b->scale) || !isnormal(b->width) || !(b->close < 0.25)) {
        b->scale = 0;
        b->close = 1;
    }
}

int dyn_exec_histogram(const DynGeom *from, const DynGeom *edges, const DynGeom *to) {
    int64_t n = to->dims[0], nchunks = dyn_par_threads() > 1 ? from->dims[0] / CHUNK : 1;
    if (n < 1 || n > MOST_BINS || edges->dims[0] != n + 1 || edges->strides[0] != sizeof(double)) {
        return -1;
    }
    const double *e = (const double *)edges->data;
    Histogram h = {.from = from->data, .n = from->dims[0]};
    h.bins = (Bins){.edges = e, .first = e[0], .last = e[n], .width = e[n] - e[0], .n = (double)n, .count = (int32_t)n};
    if (!are_edges(&h.bins)) {
        return -1;
    }
    find_close(&h.bins);
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
