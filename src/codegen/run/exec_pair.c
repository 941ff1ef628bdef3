/* exec_pair.c: runs a pair of reductions (pair.c) over memory once, where that is much.
 *
 * Called by run.c. The longest reduced axis is cut into pieces, and the longest kept one into strips, so that a piece of a strip
 * stays in the second-level cache: there the first kernel reduces it, and then the second, about the piece's own mean or maximum.
 * Sums of squares about two means become one by what Chan, Golub and LeVeque give ("Updating formulae and a pairwise algorithm
 * for computing sample variances", 1979), sums of exponentials by a factor for each; in double precision, pairwise. How it is cut
 * depends on sizes alone, so the bits are the same for any number of threads and in each tier. Owns the pieces' results. */
#include "codegen/run/exec.h"
#include "codegen/run/par.h"
#include <fenv.h>
#include <math.h>

#define LEAST DYN_BLOCK /* elements of a piece along the axis that is cut: it has results for each */

typedef struct Pieces {
    const DynBound *a, *b;
    const DynPair *pair;
    bool squares, single;
    int axis, across;                /* that are cut: reduced, kept (-1: there is one result) */
    int64_t length, npieces;         /* along axis */
    int64_t width, nstrips;          /* along across */
    int64_t kept, inner, count;      /* results; of one place across; elements of each */
    int64_t strides[DYN_MAX_NDIM];   /* of a piece's results: `across` is the slowest */
    char *firsts, *seconds, *shifts; /* of all pieces */
    atomic_bool failed;
} Pieces;

static size_t size_of(const Pieces *p) { return p->single ? sizeof(float) : sizeof(double); }
static double get(const Pieces *p, const char *at, int64_t i) {
    return p->single ? (double)((const float *)at)[i] : ((const double *)at)[i];
}
static void put(const Pieces *p, char *at, int64_t i, double value) {
    if (p->single) {
        ((float *)at)[i] = (float)value;
    } else {
        ((double *)at)[i] = value;
    }
}

/* ---- how it is cut */

static int longest_axis(const DynBound *b, bool reduced) {
    int longest = -1;
    for (int d = 0; d < b->ndim; d++) {
        if ((b->k->reduced >> d & 1) == reduced && (longest < 0 || b->dims[d] > b->dims[longest])) {
            longest = d;
        }
    }
    return longest;
}

/* Bytes of what is read for a point of the space. */
static int64_t point_bytes(const DynBound *b, uint32_t result) {
    int64_t bytes = 0;
    for (int i = 0; i < b->nops; i++) {
        bool moves = false;
        for (int d = 0; d < b->ndim; d++) {
            moves = moves || b->strides[i][d] != 0;
        }
        bytes += moves && (uint32_t)i != result ? b->size[i] : 0;
    }
    return bytes;
}

/* false: it isn't worth it, or rows are too wide. */
static bool cut(Pieces *p) {
    const DynBound *a = p->a;
    int64_t bytes = point_bytes(a, p->pair->first);
    p->kept = p->count = 1;
    for (int d = 0; d < a->ndim; d++) {
        *(a->k->reduced >> d & 1 ? &p->count : &p->kept) *= a->dims[d];
    }
    p->axis = longest_axis(a, true);
    p->across = longest_axis(a, false);
    bool empty = p->kept == 0 || p->count == 0 || bytes == 0;
    if (empty || p->kept * p->count < DYN_PAIR_LEAST_BYTES / bytes) {
        return false;
    }
    int64_t wide = p->across < 0 ? 1 : a->dims[p->across], plane = p->kept * p->count / a->dims[p->axis] * bytes;
    p->width = wide;
    p->length = DYN_PAIR_PIECE_BYTES / plane;
    if (p->length < LEAST) { /* strips */
        p->width = DYN_PAIR_PIECE_BYTES / LEAST / (plane / wide) / DYN_PAIR_STRIP * DYN_PAIR_STRIP;
        p->length = LEAST;
    }
    if (p->width < (wide < DYN_PAIR_STRIP ? wide : DYN_PAIR_STRIP) || p->length >= a->dims[p->axis]) {
        return false;
    }
    p->inner = p->kept / wide;
    p->nstrips = (wide + p->width - 1) / p->width;
    p->npieces = (a->dims[p->axis] + p->length - 1) / p->length;
    int64_t stride = (int64_t)size_of(p);
    for (int d = a->ndim; d-- > 0;) {
        bool kept = !(a->k->reduced >> d & 1) && d != p->across;
        p->strides[d] = kept ? stride : 0;
        stride *= kept ? a->dims[d] : 1;
    }
    if (p->across >= 0) {
        p->strides[p->across] = stride;
    }
    return true;
}

/* ---- a piece of a strip */

/* That part of a kernel's space, with an operand in memory of ours. */
static void part_of(const Pieces *p, const DynBound *whole, int64_t strip, int64_t piece, DynBound *out) {
    const int axes[2] = {p->axis, p->across};
    const int64_t steps[2] = {p->length, p->width}, which[2] = {piece, strip};
    *out = *whole;
    for (int i = 0; i < 2; i++) {
        int64_t from = which[i] * steps[i];
        if (axes[i] < 0) {
            continue;
        }
        out->dims[axes[i]] = whole->dims[axes[i]] - from < steps[i] ? whole->dims[axes[i]] - from : steps[i];
        for (int op = 0; op < out->nops; op++) {
            out->base[op] += from * out->strides[op][axes[i]];
        }
    }
}

static void move_operand(const Pieces *p, DynBound *b, uint32_t op, char *to) {
    b->base[op] = to;
    memcpy(b->strides[op], p->strides, sizeof(p->strides));
}

/* What the second kernel takes elements from: the mean, or the maximum; where all are -inf, a number that leaves them so. */
static void find_shifts(const Pieces *p, const char *firsts, char *shifts, int64_t n, int64_t count) {
    for (int64_t i = 0; i < n; i++) {
        double value = get(p, firsts, i);
        if (p->squares) {
            value /= (double)count;
        } else if (value == -INFINITY) {
            value = 0;
        }
        put(p, shifts, i, value);
    }
}

static void run_unit(void *ctx, int64_t unit) {
    Pieces *p = ctx;
    int64_t strip = unit / p->npieces, piece = unit % p->npieces, first = strip * p->width * p->inner;
    size_t at = (size_t)(piece * p->kept + first) * size_of(p);
    DynBound part;
    part_of(p, p->a, strip, piece, &part);
    int64_t length = part.dims[p->axis], wide = p->across < 0 ? 1 : part.dims[p->across];
    move_operand(p, &part, p->pair->first, p->firsts + at);
    bool failed = dyn_exec_reduce(&part) < 0;
    find_shifts(p, p->firsts + at, p->shifts + at, wide * p->inner, p->count / p->a->dims[p->axis] * length);
    part_of(p, p->b, strip, piece, &part);
    move_operand(p, &part, p->pair->second, p->seconds + at);
    move_operand(p, &part, p->pair->shift, p->shifts + at);
    if (failed || dyn_exec_reduce(&part) < 0) {
        atomic_store(&p->failed, true);
    }
}

/* ---- pieces become one */

typedef struct Moments {
    double n, sum, squares;
} Moments;

static Moments joined(Moments x, Moments y) {
    double apart = y.sum / y.n - x.sum / x.n;
    return (Moments){x.n + y.n, x.sum + y.sum, x.squares + y.squares + apart * apart * (x.n * y.n / (x.n + y.n))};
}

/* Like a binary counter counts: what two of the same size become is one of twice that size. */
static void join_moments(const Pieces *p, int64_t result, double *first, double *second) {
    Moments level[64], now = {0};
    int64_t each = p->count / p->a->dims[p->axis], size = p->a->dims[p->axis];
    int depth = 0;
    for (int64_t piece = 0; piece < p->npieces; piece++) {
        int64_t at = piece * p->kept + result, length = size - piece * p->length;
        length = length < p->length ? length : p->length;
        now = (Moments){(double)(each * length), get(p, p->firsts, at), get(p, p->seconds, at)};
        for (int64_t c = piece; c & 1; c >>= 1) {
            now = joined(level[--depth], now);
        }
        level[depth++] = now;
    }
    for (now = level[--depth]; depth > 0;) {
        now = joined(level[--depth], now);
    }
    *first = now.sum;
    *second = now.squares;
}

static void join_exponentials(const Pieces *p, int64_t result, double *first, double *second) {
    double most = -INFINITY, sum = 0;
    for (int64_t piece = 0; piece < p->npieces; piece++) {
        double value = get(p, p->firsts, piece * p->kept + result);
        most = value > most || isnan(value) ? value : most;
    }
    for (int64_t piece = 0; piece < p->npieces; piece++) {
        int64_t at = piece * p->kept + result;
        double value = get(p, p->firsts, at);
        sum += value == -INFINITY ? 0 : get(p, p->seconds, at) * exp(value - most);
    }
    if (most == -INFINITY) { /* -inf less -inf */
        feraiseexcept(FE_INVALID);
        sum = NAN;
    }
    *first = most;
    *second = sum;
}

/* Where a result is, counted as p->strides lie. */
static char *result_at(const Pieces *p, const DynBound *b, uint32_t op, int64_t result) {
    char *at = b->base[op];
    for (int d = b->ndim; d-- > 0;) {
        if (!(b->k->reduced >> d & 1) && d != p->across) {
            at += result % b->dims[d] * b->strides[op][d];
            result /= b->dims[d];
        }
    }
    return p->across < 0 ? at : at + result * b->strides[op][p->across];
}

static void join_pieces(const Pieces *p) {
    double first, second;
    for (int64_t i = 0; i < p->kept; i++) {
        (p->squares ? join_moments : join_exponentials)(p, i, &first, &second);
        put(p, result_at(p, p->a, p->pair->first, i), 0, first);
        put(p, result_at(p, p->b, p->pair->second, i), 0, second);
    }
}

int dyn_exec_pair(const DynBound *a, const DynBound *b, const DynPair *pair, int64_t divisor) {
    Pieces p = {.a = a, .b = b, .pair = pair, .squares = pair->divisor != DYN_NONE};
    p.single = a->size[pair->first] == sizeof(float);
    if (!cut(&p) || (p.squares && divisor != p.count)) {
        return 0;
    }
    size_t bytes = (size_t)(p.npieces * p.kept) * size_of(&p);
    p.firsts = PyMem_RawMalloc(3 * bytes);
    if (p.firsts == NULL) {
        return 0;
    }
    p.seconds = p.firsts + bytes;
    p.shifts = p.seconds + bytes;
    if (dyn_exec_cost(a) + dyn_exec_cost(b) >= DYN_PARALLEL_COST && dyn_par_threads() > 1) {
        dyn_par_for(run_unit, &p, p.nstrips * p.npieces);
    } else {
        for (int64_t unit = 0; unit < p.nstrips * p.npieces; unit++) {
            run_unit(&p, unit);
        }
    }
    join_pieces(&p);
    PyMem_RawFree(p.firsts);
    return atomic_load(&p.failed) ? -1 : 1;
}
