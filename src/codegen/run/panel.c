/* panel.c: products of float32 matrices that fit the caches, by one thread, with AVX-512.
 *
 * Called by task_product.c in place of the routine of PyTorch's library that blas.c has found. That packs both matrices and then
 * writes the result twice, which for a network's small layers takes a third of the time. Here the sums of a block of the result
 * stay in registers and the matrices are read where they lie. A library for AVX2 and AVX-512 adds the terms of an element in
 * their order, each by a fused multiplication, but begins anew after so many terms: how many isn't told, so it is tried. When a
 * product of these sizes is first asked for, the library and the loops here make one of random numbers; where no order of sums
 * has the library's bits, or the library is faster, products of these sizes are the library's for good. Owns the table of these
 * verdicts. */
#include "codegen/run/panel.h"
#include "codegen/run/isa.h"
#include "codegen/run/par.h"

#define LANES 16
#define ROWS 8                /* of a block in registers, two vectors each; or columns, one vector each */
#define MOST_TERMS 512        /* of what is packed, on the stack */
#define MOST_BYTES 1048576    /* of the three matrices: a second-level cache */
#define MOST_PRODUCTS 4194304 /* of two numbers: trying longer ones would be felt, and packing is a small part of them */

#if defined(__x86_64__)
#include <immintrin.h>
#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq")))
#define INLINED static inline __attribute__((always_inline))
#define EACH _Pragma("GCC unroll 8")

/* ---- The right matrix lies by rows: vectors are of its columns. */

/* rows x vectors of the result, of some terms. Lanes that `last` leaves out of the last vector are neither read nor written.
 * more: the sums are added to what is there; else to zero, as the library adds them: a sum of -0 is 0. */
TARGET INLINED void block_by_rows(const DynPanel *p, const float *a, const float *b, float *out, int64_t terms, __mmask16 last,
                                  bool more, const int rows, const int vectors) {
    __m512 sum[ROWS][2], right[2];
    const int64_t a_down = p->a_down, a_along = p->a_along, b_down = p->b_down;
    EACH for (int i = 0; i < rows; i++) { sum[i][0] = sum[i][1] = _mm512_setzero_ps(); }
    for (int64_t k = 0; k < terms; k++, a += a_along, b += b_down) {
        EACH for (int v = 0; v < vectors; v++) {
            right[v] = v + 1 < vectors ? _mm512_loadu_ps(b) : _mm512_maskz_loadu_ps(last, b + v * LANES);
        }
        EACH for (int i = 0; i < rows; i++) {
            __m512 left = _mm512_set1_ps(a[i * a_down]);
            EACH for (int v = 0; v < vectors; v++) { sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]); }
        }
    }
    EACH for (int i = 0; i < rows; i++, out += p->columns) {
        EACH for (int v = 0; v < vectors; v++) {
            __mmask16 lanes = v + 1 < vectors ? (__mmask16)0xFFFF : last;
            __m512 before = more ? _mm512_maskz_loadu_ps(lanes, out + v * LANES) : _mm512_setzero_ps();
            _mm512_mask_storeu_ps(out + v * LANES, lanes, _mm512_add_ps(before, sum[i][v]));
        }
    }
}

/* Counts that the compiler knows: sums in registers. */
#define CASE(N)                                                   \
    if (rows >= N) {                                              \
        if (wide) {                                               \
            block_by_rows(p, a, b, out, terms, last, more, N, 2); \
        } else {                                                  \
            block_by_rows(p, a, b, out, terms, last, more, N, 1); \
        }                                                         \
        return N;                                                 \
    }
/* A block of as many rows as there are, and how many these are. */
TARGET static int64_t some_rows(const DynPanel *p, const float *a, const float *b, float *out, int64_t terms, __mmask16 last,
                                bool more, int64_t rows, bool wide) {
    CASE(ROWS)
    CASE(4)
    CASE(2)
    CASE(1)
    return 0;
}
#undef CASE

TARGET static void by_rows(const DynPanel *p, float *out) {
    for (int64_t k = 0; k < p->terms; k += p->run) {
        int64_t terms = p->terms - k < p->run ? p->terms - k : p->run;
        for (int64_t j = 0; j < p->columns; j += 2 * LANES) {
            int64_t columns = p->columns - j, of_last = columns > LANES ? columns - LANES : columns;
            __mmask16 last = of_last >= LANES ? (__mmask16)0xFFFF : (__mmask16)((1U << of_last) - 1);
            const float *b = p->right + k * p->b_down + j;
            for (int64_t i = 0; i < p->rows;) {
                const float *a = p->left + i * p->a_down + k * p->a_along;
                i += some_rows(p, a, b, out + i * p->columns + j, terms, last, k > 0, p->rows - i, columns > LANES);
            }
        }
    }
}

/* ---- It lies by columns: vectors are of the left matrix's rows, which are packed. */

/* packed[term][row], with zeros for rows that there aren't. */
static void pack(const DynPanel *p, int64_t from, int64_t rows, float *packed) {
    for (int64_t r = 0; r < LANES; r++) {
        const float *a = p->left + (r < rows ? from + r : 0) * p->a_down;
        for (int64_t k = 0; k < p->terms; k++) {
            packed[k * LANES + r] = r < rows ? a[k * p->a_along] : 0;
        }
    }
}

/* Some columns of the result, of some terms: made[column][row]. A sum of -0 is 0. */
TARGET INLINED void block_by_columns(const DynPanel *p, const float *packed, const float *b, float *made, int64_t terms,
                                     const int count) {
    __m512 sum[ROWS];
    const int64_t b_along = p->b_along;
    EACH for (int i = 0; i < count; i++) { sum[i] = _mm512_setzero_ps(); }
    for (int64_t k = 0; k < terms; k++, packed += LANES, b++) {
        __m512 left = _mm512_loadu_ps(packed);
        EACH for (int i = 0; i < count; i++) { sum[i] = _mm512_fmadd_ps(left, _mm512_set1_ps(b[i * b_along]), sum[i]); }
    }
    EACH for (int i = 0; i < count; i++) { _mm512_storeu_ps(made + i * LANES, _mm512_add_ps(_mm512_setzero_ps(), sum[i])); }
}

/* Made columns into the rows of the result. more: they are added to what is there. */
static void turn(const DynPanel *p, const float *made, int64_t rows, int64_t count, float *out, bool more) {
    int64_t fours = more || count % 4 != 0 ? 0 : rows & -4;
    for (int64_t r = 0; r < fours; r += 4) {
        for (int64_t c = 0; c < count; c += 4) {
            const float *from = made + c * LANES + r;
            float *to = out + r * p->columns + c;
            __m128 w = _mm_loadu_ps(from), x = _mm_loadu_ps(from + LANES), y = _mm_loadu_ps(from + 2 * LANES),
                   z = _mm_loadu_ps(from + 3 * LANES);
            _MM_TRANSPOSE4_PS(w, x, y, z);
            _mm_storeu_ps(to, w);
            _mm_storeu_ps(to + p->columns, x);
            _mm_storeu_ps(to + 2 * p->columns, y);
            _mm_storeu_ps(to + 3 * p->columns, z);
        }
    }
    for (int64_t r = fours; r < rows; r++) {
        for (int64_t c = 0; c < count; c++) {
            float *to = out + r * p->columns + c;
            *to = more ? *to + made[c * LANES + r] : made[c * LANES + r];
        }
    }
}

TARGET static void by_columns(const DynPanel *p, float *out) {
    float packed[LANES * MOST_TERMS], made[ROWS * LANES];
    for (int64_t i = 0; i < p->rows; i += LANES) {
        int64_t rows = p->rows - i < LANES ? p->rows - i : LANES;
        pack(p, i, rows, packed);
        for (int64_t k = 0; k < p->terms; k += p->run) {
            int64_t terms = p->terms - k < p->run ? p->terms - k : p->run;
            for (int64_t j = 0, count; j < p->columns; j += count) {
                const float *b = p->right + j * p->b_along + k;
                count = p->columns - j >= ROWS ? ROWS : 1;
                if (count == ROWS) {
                    block_by_columns(p, packed + k * LANES, b, made, terms, ROWS);
                } else {
                    block_by_columns(p, packed + k * LANES, b, made, terms, 1);
                }
                turn(p, made, rows, count, out + i * p->columns + j, k > 0);
            }
        }
    }
}

static bool is_possible(const DynPanel *p) {
    return dyn_isa_number() == 2 && (p->b_along == 1 || (p->terms <= MOST_TERMS && p->rows <= LANES));
}

void dyn_panel_run(const DynPanel *p, char *out) {
    if (p->b_along == 1) {
        by_rows(p, (float *)(void *)out);
    } else {
        by_columns(p, (float *)(void *)out);
    }
}
#else
static bool is_possible(const DynPanel *p) { return false; }
void dyn_panel_run(const DynPanel *p, char *out) {}
#endif

/* ---- Whether the library's bits are made here, and faster. */

typedef struct Verdict {
    int64_t rows, terms, columns;
    int trans_a, trans_b, threads;
    bool known;
    int64_t run; /* 0: the library makes it */
} Verdict;
static Verdict verdicts[256]; /* under the GIL */
static uint32_t nverdicts;

static Verdict *find_verdict(const DynBlas *as, int threads) {
    uint64_t at = (uint64_t)as->rows * 0x9E3779B97F4A7C15U + (uint64_t)as->terms * 0xC2B2AE3D27D4EB4FU +
                  (uint64_t)as->columns * 0x165667B19E3779F9U + (uint64_t)(as->trans_a * 2 + as->trans_b);
    for (uint32_t i = (uint32_t)(at >> 40);; i++) {
        Verdict *v = &verdicts[i % DYN_COUNTOF(verdicts)];
        bool same = v->rows == as->rows && v->terms == as->terms && v->columns == as->columns;
        same = same && v->trans_a == as->trans_a && v->trans_b == as->trans_b && v->threads == threads;
        if (!v->known || same) {
            return v;
        }
    }
}

static void fill(float *at, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005U + 1442695040888963407U;
        at[i] = (float)(int32_t)(seed >> 32) * 0x1p-31F;
    }
}

/* The least of three times, in nanoseconds, of a product by the library (p is NULL) or by the loops here. */
static int64_t least_time(const DynBlas *as, const DynPanel *p, char *out) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t began = dyn_now_ns();
        if (p == NULL) {
            dyn_blas_run(as, out);
        } else {
            dyn_panel_run(p, out);
        }
        int64_t took = dyn_now_ns() - began;
        least = took < least ? took : least;
    }
    return least;
}

static DynPanel panel_of(const DynBlas *as, int64_t run) {
    bool a_rows = as->trans_a == DYN_BLAS_NO_TRANS, b_rows = as->trans_b == DYN_BLAS_NO_TRANS;
    return (DynPanel){.left = (const float *)(const void *)as->left,
                      .right = (const float *)(const void *)as->right,
                      .rows = as->rows,
                      .terms = as->terms,
                      .columns = as->columns,
                      .run = run,
                      .a_down = a_rows ? as->a_step : 1,
                      .a_along = a_rows ? 1 : as->a_step,
                      .b_down = b_rows ? as->b_step : 1,
                      .b_along = b_rows ? 1 : as->b_step};
}

/* A product of random numbers of these sizes, and room for two results. NULL: no memory. */
static float *random_product(DynBlas *as) {
    int64_t left = as->rows * as->terms, right = as->terms * as->columns, made = as->rows * as->columns;
    float *memory = PyMem_RawMalloc(sizeof(float) * (size_t)(left + right + 2 * made));
    if (memory != NULL) {
        fill(memory, left + right, 1);
        as->a_step = as->trans_a == DYN_BLAS_NO_TRANS ? as->terms : as->rows;
        as->b_step = as->trans_b == DYN_BLAS_NO_TRANS ? as->columns : as->terms;
        as->left = (const char *)memory;
        as->right = (const char *)(memory + left);
    }
    return memory;
}

/* The first element of the product is a sum of numbers below 0 that all underflow: which sign such a zero has is tried, too. */
static void let_first_underflow(const DynBlas *as, float *memory) {
    DynPanel p = panel_of(as, 0);
    for (int64_t k = 0; k < as->terms; k++) {
        memory[k * p.a_along] = -0x1p-100F;
        memory[as->rows * as->terms + k * p.b_down] = 0x1p-100F;
    }
}

/* After how many terms the library begins a new sum; 0: no order has its bits. */
static int64_t find_order(const DynBlas *as, char *wanted, char *out) {
    const int64_t half = as->terms / 2, orders[] = {as->terms, half, 192, 256, 320, 336, 384};
    dyn_blas_run(as, wanted);
    for (size_t i = 0; i < DYN_COUNTOF(orders); i++) {
        DynPanel p = panel_of(as, orders[i]);
        if (orders[i] < 1 || orders[i] > as->terms) {
            continue;
        }
        dyn_panel_run(&p, out);
        if (memcmp(out, wanted, sizeof(float) * (size_t)(as->rows * as->columns)) == 0) {
            return orders[i];
        }
    }
    return 0;
}

int64_t dyn_panel_order(const DynBlas *of, bool *faster) {
    DynBlas as = *of;
    DynPanel p = panel_of(&as, 0);
    double bytes = 4 * ((double)as.rows * (double)as.terms + (double)as.columns * (double)(as.terms + as.rows));
    double products = (double)as.rows * (double)as.terms * (double)as.columns;
    bool possible = as.torch && as.single && bytes <= MOST_BYTES && products <= MOST_PRODUCTS && is_possible(&p);
    float *memory = possible ? random_product(&as) : NULL;
    if (memory == NULL) {
        return -1;
    }
    char *wanted = (char *)(memory + as.rows * as.terms + as.terms * as.columns);
    char *out = wanted + sizeof(float) * (size_t)(as.rows * as.columns);
    let_first_underflow(&as, memory);
    int64_t order = find_order(&as, wanted, out);
    fill(memory, as.rows * as.terms + as.terms * as.columns, 1); /* numbers that underflow take longer */
    p = panel_of(&as, order);
    *faster = order > 0 && least_time(&as, &p, out) < least_time(&as, NULL, out);
    PyMem_RawFree(memory);
    return order;
}

bool dyn_panel_find(DynPanel *p, const DynBlas *as) {
    bool faster = false;
    int threads = dyn_par_threads();
    if (!as->torch || !as->single) {
        return false;
    }
    Verdict *v = find_verdict(as, threads);
    if (!v->known) {
        if (nverdicts >= DYN_COUNTOF(verdicts) / 2) { /* a program of ever new sizes: the library */
            return false;
        }
        nverdicts++;
        int64_t order = dyn_panel_order(as, &faster);
        *v = (Verdict){as->rows, as->terms, as->columns, as->trans_a, as->trans_b, threads, true, faster ? order : 0};
    }
    *p = panel_of(as, v->run);
    return v->run > 0;
}
