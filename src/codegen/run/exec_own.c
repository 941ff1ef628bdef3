/* exec_own.c: calls of NumPy's own functions that are made without it, to the same bits: what a mask picks (a[mask]), what is
 * written there (a[mask] = values), np.bincount. Their results' sizes are known only when they are there.
 *
 * Called by run.c in place of the call, for what rec_numpy_own.c has marked. Where anything is not as it is here, or an exception
 * is due, nothing is done, and NumPy is called. A mask is gone through in C order, in pieces which are counted first: so each
 * piece knows where its elements go, and threads take pieces. Bytes of the mask are taken eight or 64 at a time: none of them is
 * followed by a branch of its own. Weights are added up in eager's order. */
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include "codegen/run/exec.h"
#include "ir/extern.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define TABLES 4 /* as the next number is often the last once more */

/* ---- masks */

/* n places of a mask, of which the array's elements are a step apart: those that are true, and as many elements side by side,
 * of which there are `left`. How many there were. */
typedef int64_t MoveFn(const uint8_t *mask, int64_t n, char *at, int64_t step, char *packed, int64_t left, int64_t width);

/* fast, sure: the loops' statements where there is room for eight elements more, and where there may be none. */
#define MOVE(NAME, T, fast, sure)                                                                                            \
    static int64_t NAME(const uint8_t *mask, int64_t n, char *at, int64_t step, char *packed, int64_t left, int64_t width) { \
        T *p = (T *)packed;                                                                                                  \
        int64_t k = 0;                                                                                                       \
        for (int64_t i = 0; i < n; i += 8) {                                                                                 \
            int64_t m = n - i < 8 ? n - i : 8;                                                                               \
            uint64_t word = 0;                                                                                               \
            memcpy(&word, mask + i, (size_t)m);                                                                              \
            if (word == 0) {                                                                                                 \
                continue;                                                                                                    \
            }                                                                                                                \
            char *row = at + i * step;                                                                                       \
            if (m == 8 && left - k > 8) {                                                                                    \
                _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++) {                                                        \
                    T *x = (T *)(row + j * step);                                                                            \
                    bool there = mask[i + j] != 0;                                                                           \
                    fast;                                                                                                    \
                    k += there;                                                                                              \
                }                                                                                                            \
            } else {                                                                                                         \
                for (int64_t j = 0; j < m && k < left; j++) {                                                                \
                    T *x = (T *)(row + j * step);                                                                            \
                    if (mask[i + j] != 0) {                                                                                  \
                        sure;                                                                                                \
                        k++;                                                                                                 \
                    }                                                                                                        \
                }                                                                                                            \
            }                                                                                                                \
        }                                                                                                                    \
        return k;                                                                                                            \
    }
#define MOVES(T, size)                         \
    MOVE(pick_##size, T, p[k] = *x, p[k] = *x) \
    MOVE(put_##size, T, *x = (T)((p[k] & (T)-there) | (*x & (T)(there - 1))), *x = p[k])
MOVES(uint8_t, 1)
MOVES(uint16_t, 2)
MOVES(uint32_t, 4)
MOVES(uint64_t, 8)
__extension__ typedef unsigned __int128 Pair __attribute__((aligned(1), may_alias)); /* complex doubles, wherever they lie */
MOVES(Pair, 16)

/* Elements side by side, a group of 64 places at a time: as they lie where all are taken, else by compressing vectors, or one by
 * one where they are few, or there may be no room for a vector more. */
#if defined(__x86_64__)
#define WIDE(NAME, T, LANES, group, vector, one, rest)                                                                 \
    DYN_AVX512 static int64_t NAME(const uint8_t *mask, int64_t n, char *at, int64_t step, char *packed, int64_t left, \
                                   int64_t width) {                                                                    \
        T *p = (T *)packed, *x = (T *)at;                                                                              \
        int64_t k = 0, i = 0;                                                                                          \
        for (; step == sizeof(T) && i + 64 <= n; i += 64) {                                                            \
            __m512i bytes = _mm512_loadu_si512(mask + i);                                                              \
            uint64_t bits = _mm512_test_epi8_mask(bytes, bytes);                                                       \
            if (bits == UINT64_MAX && left - k >= 64) {                                                                \
                group;                                                                                                 \
                k += 64;                                                                                               \
                continue;                                                                                              \
            }                                                                                                          \
            bool few = left - k < 64 + (LANES) || __builtin_popcountll(bits) <= DYN_MASK_SPARSE;                       \
            for (; few && bits != 0 && k < left; bits &= bits - 1, k++) {                                              \
                int64_t j = i + __builtin_ctzll(bits);                                                                 \
                one;                                                                                                   \
            }                                                                                                          \
            for (int64_t j = i; !few && j < i + 64; j += (LANES), bits >>= (LANES)) {                                  \
                uint32_t some = (uint32_t)(bits & ((1u << (LANES)) - 1));                                              \
                vector;                                                                                                \
                k += __builtin_popcount(some);                                                                         \
            }                                                                                                          \
        }                                                                                                              \
        return k + rest(mask + i, n - i, at + i * step, step, (char *)(p + k), left - k, width);                       \
    }
#define PICK_GROUP memcpy(p + k, x + i, 64 * sizeof(*p))
#define PUT_GROUP memcpy(x + i, p + k, 64 * sizeof(*p))
WIDE(wide_pick_8, double, 8, PICK_GROUP,
     _mm512_storeu_pd(p + k, _mm512_maskz_compress_pd((__mmask8)some, _mm512_loadu_pd(x + j))), p[k] = x[j], pick_8)
WIDE(wide_put_8, double, 8, PUT_GROUP,
     _mm512_mask_storeu_pd(x + j, (__mmask8)some, _mm512_maskz_expand_pd((__mmask8)some, _mm512_loadu_pd(p + k))), x[j] = p[k],
     put_8)
WIDE(wide_pick_4, float, 16, PICK_GROUP,
     _mm512_storeu_ps(p + k, _mm512_maskz_compress_ps((__mmask16)some, _mm512_loadu_ps(x + j))), p[k] = x[j], pick_4)
WIDE(wide_put_4, float, 16, PUT_GROUP,
     _mm512_mask_storeu_ps(x + j, (__mmask16)some, _mm512_maskz_expand_ps((__mmask16)some, _mm512_loadu_ps(p + k))), x[j] = p[k],
     put_4)

/* Each of four bits twice: an element of 16 bytes is two lanes. */
static const uint8_t twice[16] = {0x00, 0x03, 0x0c, 0x0f, 0x30, 0x33, 0x3c, 0x3f, 0xc0, 0xc3, 0xcc, 0xcf, 0xf0, 0xf3, 0xfc, 0xff};
WIDE(wide_pick_16, Pair, 4, PICK_GROUP, _mm512_storeu_pd(p + k, _mm512_maskz_compress_pd(twice[some], _mm512_loadu_pd(x + j))),
     p[k] = x[j], pick_16)
WIDE(wide_put_16, Pair, 4, PUT_GROUP,
     _mm512_mask_storeu_pd(x + j, twice[some], _mm512_maskz_expand_pd(twice[some], _mm512_loadu_pd(p + k))), x[j] = p[k], put_16)
#define HAS_WIDE (dyn_isa_number() >= 2)
#else
#define HAS_WIDE false
#define wide_pick_8 pick_8
#define wide_put_8 put_8
#define wide_pick_4 pick_4
#define wide_put_4 put_4
#define wide_pick_16 pick_16
#define wide_put_16 put_16
#endif

/* Rows of any width. */
#define ROWS(NAME, to, from)                                                                                                 \
    static int64_t NAME(const uint8_t *mask, int64_t n, char *at, int64_t step, char *packed, int64_t left, int64_t width) { \
        int64_t k = 0;                                                                                                       \
        for (int64_t i = 0; i < n && k < left; i++) {                                                                        \
            if (mask[i] != 0) {                                                                                              \
                char *row = at + i * step, *lain = packed + k++ * width;                                                     \
                memcpy(to, from, (size_t)width);                                                                             \
            }                                                                                                                \
        }                                                                                                                    \
        return k;                                                                                                            \
    }
ROWS(pick_rows, lain, row)
ROWS(put_rows, row, lain)

static MoveFn *move_of(bool put, int64_t width) {
    switch (width) {
    case 1: return put ? put_1 : pick_1;
    case 2: return put ? put_2 : pick_2;
    case 4:
        if (HAS_WIDE) {
            return put ? wide_put_4 : wide_pick_4;
        }
        return put ? put_4 : pick_4;
    case 8:
        if (HAS_WIDE) {
            return put ? wide_put_8 : wide_pick_8;
        }
        return put ? put_8 : pick_8;
    case 16:
        if (HAS_WIDE) {
            return put ? wide_put_16 : wide_pick_16;
        }
        return put ? put_16 : pick_16;
    default: return put ? put_rows : pick_rows;
    }
}

typedef struct Masked {
    char *at, *packed;
    const char *mask;
    int64_t width;              /* bytes that one place of the mask stands for */
    int64_t n, step, mask_step; /* of a line */
    int ndim;                   /* axes of lines */
    int64_t dims[DYN_MAX_NDIM], strides[DYN_MAX_NDIM], mask_strides[DYN_MAX_NDIM];
    int64_t per_line, npieces, *before; /* before: of each piece, and of all together, elements that are picked */
    MoveFn *move;
} Masked;

/* Do the sizes agree, and what a place of the mask stands for lie in one piece? Axes that go on from each other are one line. */
static bool find_masked(Masked *m, const DynNode *a, const DynGeom *from, const DynNode *mask, const DynGeom *by) {
    int last = mask->ndim - 1;
    *m = (Masked){.at = from->data, .mask = by->data, .width = dyn_dtypes[a->dtype].size};
    for (int d = a->ndim; d-- > mask->ndim;) {
        if (from->dims[d] != 1 && from->strides[d] != m->width) {
            return false;
        }
        m->width *= from->dims[d];
    }
    for (int d = 0; d <= last; d++) {
        if (from->dims[d] != by->dims[d] || from->dims[d] == 0) {
            return false;
        }
    }
    m->n = from->dims[last];
    m->step = from->strides[last];
    m->mask_step = by->strides[last];
    for (; last > 0 && from->strides[last - 1] == m->step * m->n && by->strides[last - 1] == m->mask_step * m->n; last--) {
        m->n *= from->dims[last - 1];
    }
    m->ndim = last;
    m->per_line = (m->n + DYN_MASK_PIECE - 1) / DYN_MASK_PIECE;
    m->npieces = m->per_line;
    for (int d = 0; d < last; d++) {
        m->dims[d] = from->dims[d];
        m->strides[d] = from->strides[d];
        m->mask_strides[d] = by->strides[d];
        m->npieces *= from->dims[d];
    }
    return m->width > 0 && (last == 0 || m->n >= DYN_MASK_LEAST);
}

/* Where a piece stands, and its mask side by side: there, or in `room`. */
static const uint8_t *piece_of(const Masked *m, int64_t piece, char **at, int64_t *n, char *room) {
    int64_t first = piece % m->per_line * DYN_MASK_PIECE, line = piece / m->per_line;
    const char *mask = m->mask + first * m->mask_step;
    *at = m->at + first * m->step;
    *n = m->n - first < DYN_MASK_PIECE ? m->n - first : DYN_MASK_PIECE;
    for (int d = m->ndim; d-- > 0; line /= m->dims[d]) {
        *at += line % m->dims[d] * m->strides[d];
        mask += line % m->dims[d] * m->mask_strides[d];
    }
    if (m->mask_step != 1) {
        dyn_lanes_copy(room, mask, 1, m->mask_step, *n, 1);
        mask = room;
    }
    return (const uint8_t *)mask;
}

DYN_VECTORS static int64_t count_true(const uint8_t *mask, int64_t n) {
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += 128) { /* so many that they fit */
        uint8_t some = 0;
        int64_t end = n - i < 128 ? n : i + 128;
        for (int64_t j = i; j < end; j++) {
            some = (uint8_t)(some + (mask[j] != 0));
        }
        count += some;
    }
    return count;
}

static void count_piece(void *ctx, int64_t piece) {
    const Masked *m = ctx;
    _Alignas(64) char room[DYN_MASK_PIECE], *at;
    int64_t n;
    const uint8_t *mask = piece_of(m, piece, &at, &n, room);
    m->before[piece + 1] = count_true(mask, n);
}

static void move_piece(void *ctx, int64_t piece) {
    const Masked *m = ctx;
    _Alignas(64) char room[DYN_MASK_PIECE], *at;
    int64_t n, first = m->before[piece], count = m->before[piece + 1] - first;
    if (count > 0) {
        const uint8_t *mask = piece_of(m, piece, &at, &n, room);
        m->move(mask, n, at, m->step, m->packed + first * m->width, count, m->width);
    }
}

static void for_pieces(Masked *m, void (*fn)(void *ctx, int64_t piece)) {
    if (m->npieces > 1 && m->npieces * (m->n < DYN_MASK_PIECE ? m->n : DYN_MASK_PIECE) >= DYN_MASK_PARALLEL &&
        dyn_par_threads() > 1) {
        dyn_par_for(fn, m, m->npieces);
        return;
    }
    for (int64_t i = 0; i < m->npieces; i++) {
        fn(m, i);
    }
}

static PyThreadState *release(int64_t n) { return n >= DYN_RELEASE_ELEMENTS ? PyEval_SaveThread() : NULL; }
static void hold(PyThreadState *saved) {
    if (saved != NULL) {
        PyEval_RestoreThread(saved);
    }
}

/* How many elements the mask picks; -1: memory. */
static int64_t count_picked(Masked *m) {
    m->before = PyMem_RawMalloc(sizeof(*m->before) * (size_t)(m->npieces + 1));
    if (m->before == NULL) {
        return -1;
    }
    m->before[0] = 0;
    PyThreadState *saved = release(m->npieces * m->n / m->per_line);
    for_pieces(m, count_piece);
    hold(saved);
    for (int64_t i = 0; i < m->npieces; i++) {
        m->before[i + 1] += m->before[i];
    }
    return m->before[m->npieces];
}

static void move_all(Masked *m, bool put, char *packed) {
    m->packed = packed;
    m->move = move_of(put, m->width);
    PyThreadState *saved = release(m->npieces * m->n / m->per_line);
    for_pieces(m, move_piece);
    hold(saved);
}

static PyObject *pick(const DynGraph *g, const DynNode *n, const DynGeom *geoms) {
    const DynNode *a = dyn_graph_node(g, n->args[0].id), *mask = dyn_graph_node(g, n->args[1].id);
    const DynGeom *from = &geoms[n->args[0].id];
    int64_t dims[DYN_MAX_NDIM], rest = a->ndim - mask->ndim;
    Masked m;
    if (!find_masked(&m, a, from, mask, &geoms[n->args[1].id])) {
        return NULL;
    }
    dims[0] = count_picked(&m);
    memcpy(dims + 1, from->dims + mask->ndim, sizeof(*dims) * (size_t)rest);
    PyObject *found = dims[0] < 0 ? NULL : dyn_array_new((DynDtype)n->dtype, (int)rest + 1, dims, NULL);
    if (found != NULL) {
        move_all(&m, false, PyArray_BYTES((PyArrayObject *)found));
    }
    PyMem_RawFree(m.before);
    return found;
}

static DynArrayView view_of(const DynNode *n, const DynGeom *g) {
    DynArrayView v = {.data = g->data, .ndim = n->ndim, .dtype = n->dtype};
    memcpy(v.dims, g->dims, sizeof(*v.dims) * n->ndim);
    memcpy(v.strides, g->strides, sizeof(*v.strides) * n->ndim);
    return v;
}

static bool is_in_one_piece(const DynNode *n, const DynGeom *g) {
    int64_t step = dyn_dtypes[n->dtype].size;
    for (int d = n->ndim; d-- > 0; step *= g->dims[d]) {
        if (g->dims[d] != 1 && g->strides[d] != step) {
            return false;
        }
    }
    return true;
}

static PyObject *put(const DynGraph *g, const DynNode *n, const DynGeom *geoms) {
    const DynNode *a = dyn_graph_node(g, n->args[0].id), *mask = dyn_graph_node(g, n->args[1].id);
    const DynNode *value = dyn_graph_node(g, n->args[2].id);
    const DynGeom *to = &geoms[n->args[0].id], *by = &geoms[n->args[1].id], *from = &geoms[n->args[2].id];
    DynArrayView written = view_of(a, to), read[2] = {view_of(mask, by), view_of(value, from)};
    Masked m;
    bool fits = find_masked(&m, a, to, mask, by) && is_in_one_piece(value, from);
    fits = fits && !dyn_views_overlap(&written, &read[0]) && !dyn_views_overlap(&written, &read[1]);
    for (int d = mask->ndim; d < a->ndim; d++) {
        fits = fits && from->dims[d - mask->ndim + 1] == to->dims[d];
    }
    if (!fits) {
        return NULL;
    }
    fits = count_picked(&m) == from->dims[0];
    if (fits) {
        move_all(&m, true, from->data);
    }
    PyMem_RawFree(m.before);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* ---- np.bincount */

#define COUNTED_NARROW(X) \
    X(I8, int8_t)         \
    X(I16, int16_t)       \
    X(I32, int32_t) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t)
#define COUNTED(X) COUNTED_NARROW(X) X(I64, int64_t)
typedef void ExtremesFn(const void *at, int64_t n, int64_t *extremes);
#define LOOPS "codegen/run/own_loops.h"
#include "codegen/run/each_isa.h"

/* n numbers, a block at most, as places, or as they lie: each was looked at before, and nobody has had the GIL since. */
DYN_VECTORS static const int64_t *places_of(const void *at, int64_t n, uint8_t dtype, int64_t *room) {
    switch (dtype) {
#define WIDEN(N, T)                       \
    case DYN_##N:                         \
        for (int64_t i = 0; i < n; i++) { \
            room[i] = ((const T *)at)[i]; \
        }                                 \
        return room;
        COUNTED_NARROW(WIDEN)
#undef WIDEN
    default: return at;
    }
}

typedef struct Bins {
    const char *at, *weights;
    int64_t n, step, weight_step, nbins;
    uint8_t dtype;
    ExtremesFn *extremes;
} Bins;

/* A block of numbers side by side: where they lie, or in `room`. */
static const char *block_of(const Bins *b, int64_t pos, int64_t n, char *room) {
    uint8_t size = dyn_dtypes[b->dtype].size;
    const char *at = b->at + pos * b->step;
    if (b->step == size) {
        return at;
    }
    dyn_lanes_copy(room, at, size, b->step, n, size);
    return room;
}

/* Into several tables in turn, which are 0. */
static void count_in_turn(const Bins *b, uint32_t *first, int64_t *to) {
    _Alignas(64) char room[DYN_SCRATCH_LANES * sizeof(int64_t)];
    int64_t wide[DYN_SCRATCH_LANES];
    uint32_t *second = first + b->nbins, *third = second + b->nbins, *fourth = third + b->nbins;
    for (int64_t pos = 0; pos < b->n; pos += DYN_SCRATCH_LANES) {
        int64_t n = b->n - pos < DYN_SCRATCH_LANES ? b->n - pos : DYN_SCRATCH_LANES, i = 0;
        const int64_t *place = places_of(block_of(b, pos, n, room), n, b->dtype, wide);
        for (; i + TABLES <= n; i += TABLES) {
            first[place[i]]++;
            second[place[i + 1]]++;
            third[place[i + 2]]++;
            fourth[place[i + 3]]++;
        }
        for (; i < n; i++) {
            first[place[i]]++;
        }
    }
    for (int64_t i = 0; i < b->nbins; i++) {
        to[i] = (int64_t)first[i] + second[i] + third[i] + fourth[i];
    }
}

static void count_up(const Bins *b, int64_t *to) {
    _Alignas(64) char room[DYN_SCRATCH_LANES * sizeof(int64_t)];
    int64_t wide[DYN_SCRATCH_LANES];
    for (int64_t pos = 0; pos < b->n; pos += DYN_SCRATCH_LANES) {
        int64_t n = b->n - pos < DYN_SCRATCH_LANES ? b->n - pos : DYN_SCRATCH_LANES;
        const int64_t *place = places_of(block_of(b, pos, n, room), n, b->dtype, wide);
        for (int64_t i = 0; i < n; i++) {
            to[place[i]]++;
        }
    }
}

static void weigh_up(const Bins *b, double *sums) {
    _Alignas(64) char room[DYN_SCRATCH_LANES * sizeof(int64_t)];
    int64_t wide[DYN_SCRATCH_LANES];
    for (int64_t pos = 0; pos < b->n; pos += DYN_SCRATCH_LANES) {
        int64_t n = b->n - pos < DYN_SCRATCH_LANES ? b->n - pos : DYN_SCRATCH_LANES;
        const char *weight = b->weights + pos * b->weight_step;
        const int64_t *place = places_of(block_of(b, pos, n, room), n, b->dtype, wide);
        for (int64_t i = 0; i < n; i++) {
            sums[place[i]] += *(const double *)(weight + i * b->weight_step);
        }
    }
}

/* How many bins: one more than the largest number; -1: NumPy is to say what is wrong, or has its own way for none. */
static int64_t bins_of(const Bins *b, int64_t least) {
    _Alignas(64) char room[DYN_SCRATCH_LANES * sizeof(int64_t)];
    int64_t extremes[2] = {0, 0};
    for (int64_t pos = 0; pos < b->n; pos += DYN_SCRATCH_LANES) {
        int64_t n = b->n - pos < DYN_SCRATCH_LANES ? b->n - pos : DYN_SCRATCH_LANES;
        b->extremes(block_of(b, pos, n, room), n, extremes);
    }
    if (b->n <= 0 || least < 0) {
        return -1;
    }
    if (extremes[0] < 0 || extremes[1] >= INT64_MAX / (int64_t)sizeof(double)) {
        return -1;
    }
    return extremes[1] + 1 > least ? extremes[1] + 1 : least;
}

static PyObject *bincount(const DynGraph *g, const DynNode *n, const DynGeom *geoms, const DynScalar *sym) {
#define LEVEL(isa, target) extremes_##isa,
    static ExtremesFn *const *const levels[] = {DYN_EACH_ISA(LEVEL)};
#undef LEVEL
    const DynGeom *x = &geoms[n->args[0].id];
    int64_t least = 0;
    Bins b = {.at = x->data, .n = x->dims[0], .step = x->strides[0], .dtype = dyn_graph_node(g, n->args[0].id)->dtype};
    b.extremes = levels[dyn_isa_number()][b.dtype];
    for (int i = 1; i < n->nargs; i++) {
        if (n->args[i].kind == DYN_ARG_SYM) {
            least = sym[n->args[i].id].i;
            continue;
        }
        const DynGeom *w = &geoms[n->args[i].id];
        if (w->dims[0] != b.n) {
            return NULL;
        }
        b.weights = w->data;
        b.weight_step = w->strides[0];
    }
    if ((b.nbins = bins_of(&b, least)) < 0) {
        return NULL;
    }
    PyObject *to = dyn_array_new((DynDtype)n->dtype, 1, &b.nbins, NULL);
    if (to == NULL) {
        return NULL;
    }
    char *data = PyArray_BYTES((PyArrayObject *)to);
    bool counts_fit = b.weights == NULL && b.n <= UINT32_MAX;
    bool turns = counts_fit && b.nbins <= DYN_COUNT_BINS && b.n > TABLES * b.nbins;
    uint32_t *tables = turns ? PyMem_RawCalloc((size_t)(TABLES * b.nbins), sizeof(*tables)) : NULL;
    if (tables != NULL) {
        count_in_turn(&b, tables, (int64_t *)data);
        PyMem_RawFree(tables);
        return to;
    }
    memset(data, 0, sizeof(int64_t) * (size_t)b.nbins);
    if (b.weights != NULL) {
        weigh_up(&b, (double *)data);
    } else {
        count_up(&b, (int64_t *)data);
    }
    return to;
}

bool dyn_exec_own(const DynGraph *g, uint32_t node, const DynGeom *geoms, PyObject **arrays, DynScalar *sym) {
    const DynNode *n = dyn_graph_node(g, node);
    PyObject *result = NULL;
    switch (n->op) {
    case DYN_OP_MASKED: result = pick(g, n, geoms); break;
    case DYN_OP_PUT_MASKED: result = put(g, n, geoms); break;
    case DYN_OP_BINCOUNT: result = bincount(g, n, geoms, sym); break;
    default: break;
    }
    if (result == NULL) {
        PyErr_Clear(); /* no memory, which NumPy is to say */
        return false;
    }
    bool taken = dyn_extern_take(g, node, result, arrays, sym);
    Py_DECREF(result);
    return taken;
}
