/* product.c: products of small matrices, where the call of a library for each costs many times the product: stacks of them, and
 * long thin ones times a small one.
 *
 * Called by run.c in place of an extern call that is marked as a product (graph.h). A row of the result is one vector: the sum of
 * the right matrix's rows, each times one element of the left row, by fused multiplications in order of k, as the loops of BLAS
 * go. What isn't done here is told, and blas.c or NumPy's own function does it; the latter also what raises a floating-point
 * flag, which lanes behind the last column may do for nothing. Owns nothing. */
#include "codegen/run/product.h"
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#include "codegen/run/exec.h"
#include <fenv.h>

#define MOST 16 /* columns, and terms of a sum */

#if defined(__x86_64__)
#include <immintrin.h>

/* Rows of one stack. A whole vector is stored where the next row of the same stack is written later. */
#define LOOP(NAME, TARGET, T, V, LANES, SET, LOAD, STORE, MUL, FMA)                                                       \
    TARGET static inline __attribute__((always_inline)) void rows_##NAME(const T *a, const T *b, T *out, int64_t rows,    \
                                                                         int64_t terms, int64_t columns, V *strange) {    \
        V right[MOST] = {{0}};                                                                                            \
        T padded[LANES] = {0};                                                                                            \
        _Pragma("GCC unroll 16") for (int64_t k = 0; k < terms; k++, b += columns) {                                      \
            if ((terms - k) * columns >= LANES) { /* with some of the next row: its lanes go nowhere */                   \
                right[k] = LOAD(b);                                                                                       \
                continue;                                                                                                 \
            }                                                                                                             \
            for (int64_t j = 0; j < LANES; j++) {                                                                         \
                padded[j] = b[j < columns ? j : 0];                                                                       \
            }                                                                                                             \
            right[k] = LOAD(padded);                                                                                      \
        }                                                                                                                 \
        for (int64_t i = 0; i < rows; i++, a += terms, out += columns) {                                                  \
            V sum = MUL(SET(a[0]), right[0]);                                                                             \
            _Pragma("GCC unroll 16") for (int64_t k = 1; k < terms; k++) { sum = FMA(SET(a[k]), right[k], sum); }         \
            *strange = FMA(sum, SET(0), *strange); /* nan where one is infinite or nan */                                 \
            if ((rows - i) * columns >= LANES) {                                                                          \
                STORE(out, sum);                                                                                          \
            } else {                                                                                                      \
                STORE(padded, sum);                                                                                       \
                memcpy(out, padded, sizeof(T) * (size_t)columns);                                                         \
            }                                                                                                             \
        }                                                                                                                 \
    }                                                                                                                     \
    TARGET static void NAME(const DynProduct *p, int64_t from, int64_t to) {                                              \
        int64_t left = p->rows * p->terms, right = p->one_right ? 0 : p->terms * p->columns, made = p->rows * p->columns; \
        const T *a = (const T *)p->a + from * left, *b = (const T *)p->b + from * right;                                  \
        V strange = SET(0);                                                                                               \
        T each[LANES];                                                                                                    \
        T *out = (T *)p->out + from * made;                                                                               \
        for (int64_t s = from; s < to; s++, a += left, b += right, out += made) {                                         \
            switch (p->terms) { /* counts that the compiler knows: sums without loops */                                  \
            case 2: rows_##NAME(a, b, out, p->rows, 2, p->columns, &strange); break;                                      \
            case 3:                                                                                                       \
                if (p->columns == 3) {                                                                                    \
                    rows_##NAME(a, b, out, p->rows, 3, 3, &strange);                                                      \
                } else {                                                                                                  \
                    rows_##NAME(a, b, out, p->rows, 3, p->columns, &strange);                                             \
                }                                                                                                         \
                break;                                                                                                    \
            case 4: rows_##NAME(a, b, out, p->rows, 4, p->columns, &strange); break;                                      \
            case 8: rows_##NAME(a, b, out, p->rows, 8, p->columns, &strange); break;                                      \
            case 16: rows_##NAME(a, b, out, p->rows, 16, p->columns, &strange); break;                                    \
            default: rows_##NAME(a, b, out, p->rows, p->terms, p->columns, &strange);                                     \
            }                                                                                                             \
        }                                                                                                                 \
        STORE(each, strange);                                                                                             \
        for (int64_t j = 0; j < LANES; j++) {                                                                             \
            if (each[j] != each[j]) {                                                                                     \
                feraiseexcept(FE_INVALID);                                                                                \
                return;                                                                                                   \
            }                                                                                                             \
        }                                                                                                                 \
    }
#define V3 __attribute__((target("avx2,fma")))
#define V4 __attribute__((target("avx512f,avx512vl,avx512dq")))
LOOP(f32_4, V3, float, __m128, 4, _mm_set1_ps, _mm_loadu_ps, _mm_storeu_ps, _mm_mul_ps, _mm_fmadd_ps)
LOOP(f32_8, V3, float, __m256, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_mul_ps, _mm256_fmadd_ps)
LOOP(f64_4, V3, double, __m256d, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_mul_pd, _mm256_fmadd_pd)
LOOP(f32_16, V4, float, __m512, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_mul_ps, _mm512_fmadd_ps)
LOOP(f64_8, V4, double, __m512d, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_mul_pd, _mm512_fmadd_pd)

static void find_loop(DynProduct *p, DynDtype dtype) {
    bool best = dyn_isa_number() == 2, has_fma = dyn_isa_number() >= 1;
    p->loop = NULL;
    if (dtype == DYN_F32 && has_fma) {
        if (p->columns <= 8) {
            p->loop = p->columns <= 4 ? f32_4 : f32_8;
        } else if (best) {
            p->loop = f32_16;
        }
    } else if (dtype == DYN_F64 && has_fma) {
        if (p->columns <= 4) {
            p->loop = f64_4;
        } else if (best && p->columns <= 8) {
            p->loop = f64_8;
        }
    }
}
#else
static void find_loop(DynProduct *p, DynDtype dtype) {}
#endif

static void chunk_loop(void *ctx, int64_t chunk) {
    const DynProduct *p = ctx;
    int64_t from = chunk * p->chunk, to = from + p->chunk;
    p->loop(p, from, to < p->stacks ? to : p->stacks);
}

/* Contiguous in C order? */
static bool is_dense(const DynGeom *g, int ndim, int64_t size) {
    for (int d = ndim; d-- > 0; size *= g->dims[d]) {
        if (g->dims[d] != 1 && g->strides[d] != size) {
            return false;
        }
    }
    return true;
}

bool dyn_product_find(DynProduct *p, DynDtype dtype, const DynGeom *a, int a_ndim, const DynGeom *b, int b_ndim) {
    *p = (DynProduct){0};
    p->a = a->data;
    p->b = b->data;
    p->rows = a->dims[a_ndim - 2];
    p->terms = a->dims[a_ndim - 1];
    p->columns = b->dims[b_ndim - 1];
    p->stacks = 1;
    p->one_right = b_ndim == 2;
    p->size = dyn_dtypes[dtype].size;
    bool small = p->terms >= 1 && p->terms <= MOST && p->columns >= 1;
    if (!small || p->columns > MOST || b->dims[b_ndim - 2] != p->terms) {
        return false;
    }
    if (b_ndim != 2 && b_ndim != a_ndim) {
        return false;
    }
    if (!is_dense(a, a_ndim, p->size) || !is_dense(b, b_ndim, p->size)) {
        return false;
    }
    for (int d = 0; d < a_ndim - 2; d++) {
        p->stacks *= a->dims[d];
        if (b_ndim != 2 && a->dims[d] != b->dims[d]) {
            return false;
        }
    }
    find_loop(p, dtype);
    return p->loop != NULL && p->stacks * p->rows > 0;
}

void dyn_product_run(const DynProduct *found, char *out) {
    DynProduct p = *found;
    p.out = out;
    int64_t total = p.stacks * p.rows, rest = 0;
    if (p.one_right) { /* one long matrix, in pieces */
        p.rows = total < DYN_PRODUCT_ROWS ? total : DYN_PRODUCT_ROWS;
        p.stacks = total / p.rows;
        rest = total % p.rows;
    }
    p.chunk = DYN_PRODUCT_CHUNK / (p.rows * p.terms) + 1;
    if (p.stacks > p.chunk && dyn_par_threads() > 1) {
        dyn_par_for(chunk_loop, &p, (p.stacks + p.chunk - 1) / p.chunk);
    } else {
        p.loop(&p, 0, p.stacks);
    }
    if (rest > 0) {
        DynProduct last = p;
        last.a += p.stacks * p.rows * p.terms * p.size;
        last.out += p.stacks * p.rows * p.columns * p.size;
        last.rows = rest;
        last.stacks = 1;
        p.loop(&last, 0, 1);
    }
}
