/* exec_histogram.c: HISTOGRAM nodes: how many elements lie in each of many bins of one width, or the sum of their weights, as
 * np.histogram finds it out.
 *
 * Called by run.c. An element's bin is (x - first) / (last - first) * n, set right by one where the edges say so; what lies
 * outside and nan is in none. Of what is not close to an edge a product tells the bin: it is found for a block at a time by
 * vectors, compiled for each instruction set, and only where an element of a block is close are its bins found as NumPy does.
 * They are counted one by one, in several tables in turn, as the next element often falls into the bin of the last. Counts don't
 * depend on the order, so threads have tables of their own. Weights are added up in eager's order, which has a table for each
 * stretch of so many elements, and adds those up. Floats are floats where eager has them: in differences, and as edges. */
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include "codegen/run/exec.h"
#include <fenv.h>
#include <float.h>
#include <math.h>

#define TABLES 4
#define STRETCH 65536 /* elements, of which eager adds up the weights by themselves */

typedef struct Bins {
    const double *edges;
    double first, last, width, n; /* width: of all bins together */
    double scale, close;          /* n / width; how near to a whole number of bins an element is asked what the edges say */
    int32_t count;
    bool single; /* elements and edges are floats */
} Bins;

/* The bin of each element, count: it is in none. Is one of them close to an edge? */
#define FIND(isa, target)                                                                                \
    target static bool find_##isa(const Bins *b, const double *restrict from, int32_t *restrict bin) {   \
        const double first = b->first, last = b->last, scale = b->scale, low = b->close, high = 1 - low; \
        const int32_t count = b->count;                                                                  \
        int32_t close = 0;                                                                               \
        for (int i = 0; i < DYN_SCRATCH_LANES; i++) {                                                    \
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
    const char *from, *weights;
    int64_t n, step, weight_step, chunk; /* elements, bytes from one to the next, elements of a chunk */
    int64_t *tables;                     /* of all chunks: TABLES times count and one for what is in no bin */
    double *sums;                        /* of weights: of all chunks, so many */
    bool single_weights;
} Histogram;

/* As NumPy finds them, of a block in which something is close to an edge. */
static void find_closely(const Bins *b, const double *from, int64_t n, int32_t *bin) {
    const int32_t count = b->count;
    for (int64_t i = 0; i < n; i++) {
        double x = from[i];
        if (!(__builtin_isgreaterequal(x, b->first) & __builtin_islessequal(x, b->last))) {
            continue;
        }
        double away = b->single ? (double)((float)x - (float)b->first) : x - b->first;
        int32_t at = (int32_t)(away / b->width * b->n);
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

DYN_VECTORS static void widen(double *restrict to, const float *restrict from, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        to[i] = from[i];
    }
}

/* n elements, a block at most, as doubles, side by side: where they lie, or in `room`. */
static const double *doubles(const char *from, int64_t step, int64_t n, bool single, double *room) {
    if (!single && step == sizeof(double) && n == DYN_SCRATCH_LANES) {
        return (const double *)from;
    }
    if (single) {
        float floats[DYN_SCRATCH_LANES];
        dyn_lanes_copy((char *)floats, from, sizeof(float), step, n, sizeof(float));
        widen(room, floats, n);
    } else {
        dyn_lanes_copy((char *)room, from, sizeof(double), step, n, sizeof(double));
    }
    dyn_lanes_pad((char *)room, sizeof(double), n, DYN_SCRATCH_LANES);
    return room;
}

/* Bins of n elements from `pos` on. */
static void find_block(const Histogram *h, int64_t pos, int64_t n, int32_t *bin) {
    _Alignas(64) double room[DYN_SCRATCH_LANES];
    const double *x = doubles(h->from + pos * h->step, h->step, n, h->bins.single, room);
    bool was = fetestexcept(FE_INVALID) != 0; /* vectors of quiet comparisons are not: gcc 12 */
    if (find_fn()(&h->bins, x, bin)) {
        find_closely(&h->bins, x, n, bin);
    }
    if (!was && fetestexcept(FE_INVALID)) {
        feclearexcept(FE_INVALID);
    }
}

static void weigh_block(const Histogram *h, int64_t pos, int64_t n, const int32_t *bin, double *sums) {
    _Alignas(64) double room[DYN_SCRATCH_LANES];
    const double *weights = doubles(h->weights + pos * h->weight_step, h->weight_step, n, h->single_weights, room);
    for (int64_t i = 0; i < n; i++) {
        sums[bin[i]] += weights[i];
    }
}

static void chunk_of(void *ctx, int64_t chunk) {
    const Histogram *h = ctx;
    int64_t to = (chunk + 1) * h->chunk < h->n ? (chunk + 1) * h->chunk : h->n, bins = h->bins.count + 1;
    _Alignas(64) int32_t bin[DYN_SCRATCH_LANES];
    for (int64_t pos = chunk * h->chunk; pos < to; pos += DYN_SCRATCH_LANES) {
        int64_t n = to - pos < DYN_SCRATCH_LANES ? to - pos : DYN_SCRATCH_LANES;
        find_block(h, pos, n, bin);
        if (h->weights != NULL) {
            weigh_block(h, pos, n, bin, h->sums + chunk * bins);
        } else {
            count_block(bin, n, bins, h->tables + chunk * TABLES * bins);
        }
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
    b->close = (b->single ? 4 * FLT_EPSILON : 16 * DBL_EPSILON) * b->n + 4 * most;
    if (!isnormal(b->scale) || !isnormal(b->width) || !(b->close < 0.25)) {
        b->scale = 0;
        b->close = 1;
    }
}

static void run_chunks(Histogram *h, int64_t n) {
    if (n > 1) {
        dyn_par_for(chunk_of, h, n);
    } else {
        chunk_of(h, 0);
    }
}

static int count(Histogram *h, const DynGeom *to) {
    int64_t bins = h->bins.count + 1, nchunks = 1;
    if (dyn_par_threads() > 1 && bins <= DYN_HISTOGRAM_CHUNK) {
        nchunks = dyn_clamp(h->n / DYN_HISTOGRAM_CHUNK, 1, DYN_HISTOGRAM_CHUNKS);
    }
    h->chunk = ((h->n + nchunks - 1) / nchunks + DYN_SCRATCH_LANES - 1) / DYN_SCRATCH_LANES * DYN_SCRATCH_LANES;
    h->tables = PyMem_RawCalloc((size_t)(nchunks * TABLES * bins), sizeof(*h->tables));
    if (h->tables == NULL) {
        return -1;
    }
    run_chunks(h, nchunks);
    for (int64_t i = 0; i + 1 < bins; i++) {
        int64_t sum = 0;
        for (int64_t t = 0; t < nchunks * TABLES; t++) {
            sum += h->tables[t * bins + i];
        }
        memcpy(to->data + i * to->strides[0], &sum, sizeof(sum));
    }
    PyMem_RawFree(h->tables);
    return 0;
}

/* The sums of n stretches, one after the other, onto those of the stretches before. */
static void add_up(const Histogram *h, int64_t n, const DynGeom *to) {
    int64_t bins = h->bins.count + 1;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t i = 0; i + 1 < bins; i++) { /* the last are in no bin */
            char *at = to->data + i * to->strides[0];
            if (h->single_weights) {
                *(float *)at += (float)h->sums[k * bins + i];
            } else {
                *(double *)at += h->sums[k * bins + i];
            }
        }
    }
}

/* As many stretches side by side as there are tables. */
static int weigh(Histogram *h, const DynGeom *to) {
    int64_t bins = h->bins.count + 1, stretches = (h->n + STRETCH - 1) / STRETCH, total = h->n;
    int64_t most = dyn_par_threads() > 1 && bins <= DYN_HISTOGRAM_CHUNK ? DYN_HISTOGRAM_CHUNKS : 1;
    h->chunk = STRETCH;
    h->sums = PyMem_RawMalloc((size_t)(most * bins) * sizeof(double));
    if (h->sums == NULL) {
        return -1;
    }
    for (int64_t i = 0; i + 1 < bins; i++) {
        memset(to->data + i * to->strides[0], 0, h->single_weights ? sizeof(float) : sizeof(double));
    }
    for (int64_t first = 0; first < stretches; first += most) {
        int64_t n = stretches - first < most ? stretches - first : most;
        h->n = total - first * STRETCH < n * STRETCH ? total - first * STRETCH : n * STRETCH;
        memset(h->sums, 0, (size_t)(n * bins) * sizeof(double));
        run_chunks(h, n);
        add_up(h, n, to);
        h->from += n * STRETCH * h->step;
        h->weights += n * STRETCH * h->weight_step;
    }
    PyMem_RawFree(h->sums);
    return 0;
}

static double rounded(double edge, bool single) { return single ? (double)(float)edge : edge; }

int dyn_exec_histogram(const DynHistogram *x) {
    int64_t n = x->to->dims[0];
    bool dense_edges = x->edges->dims[0] == n + 1 && x->edges->strides[0] == sizeof(double);
    if (n < 1 || n > DYN_HISTOGRAM_BINS || !dense_edges) {
        return -1;
    }
    const double *given = (const double *)x->edges->data;
    double *edges = PyMem_RawMalloc(sizeof(double) * (size_t)(n + 1));
    Histogram h = {.from = x->from->data, .n = x->from->dims[0], .step = x->from->strides[0]};
    for (int64_t i = 0; edges != NULL && i <= n; i++) {
        edges[i] = rounded(given[i], x->single);
    }
    h.bins = (Bins){.edges = edges, .width = given[n] - given[0], .n = (double)n, .count = (int32_t)n, .single = x->single};
    h.bins.first = rounded(given[0], x->single);
    h.bins.last = rounded(given[n], x->single);
    h.weights = x->weights == NULL ? NULL : x->weights->data;
    h.weight_step = x->weights == NULL ? 0 : x->weights->strides[0];
    h.single_weights = x->single_weights;
    int failed = edges == NULL || !are_edges(&h.bins) ? -1 : 0;
    if (!failed) {
        find_close(&h.bins);
        failed = h.weights == NULL ? count(&h, x->to) : weigh(&h, x->to);
    }
    PyMem_RawFree(edges);
    return failed;
}
