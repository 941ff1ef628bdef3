/* descent.c: steps of gradient descent over memory, for all parameters of an optimiser in one parallel region.
 *
 * Called by evalframe/optimizers.c through the target, which looks whether tensors fit and owns what points to them. Each element
 * of a parameter is read and written once, with its gradient and its state, where PyTorch's operators pass over them up to ten
 * times. Results are those operators' bits: PyTorch's vectors add products by fused operations where the processor has them, and
 * so do these. */
#include "codegen/run/descent.h"
#include "codegen/machine.h"
#include "codegen/run/descent_steps.h"
#include "codegen/run/isa.h"
#include "codegen/run/par.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* X(loop, rule, bits) for each form of a step that there is. */
#define EACH_DECAY(X, name, rule, bits) X(name, rule, bits) X(name, rule, (bits) | DYN_DECAYS)
#define FORMS(X)                                             \
    X(shrink, DYN_SHRINK, 0)                                 \
    EACH_DECAY(X, sgd, DYN_SGD, 0)                           \
    EACH_DECAY(X, sgd, DYN_SGD, DYN_AVERAGES)                \
    EACH_DECAY(X, sgd, DYN_SGD, DYN_AVERAGES | DYN_NESTEROV) \
    EACH_DECAY(X, adam, DYN_ADAM, 0)                         \
    EACH_DECAY(X, adam, DYN_ADAM, DYN_MAXIMA)                \
    X(adam, DYN_ADAM, DYN_DECOUPLED)                         \
    X(adam, DYN_ADAM, DYN_DECOUPLED | DYN_MAXIMA)            \
    EACH_DECAY(X, adagrad, DYN_ADAGRAD, 0)                   \
    EACH_DECAY(X, rmsprop, DYN_RMSPROP, 0)                   \
    EACH_DECAY(X, rmsprop, DYN_RMSPROP, DYN_AVERAGES)        \
    EACH_DECAY(X, rmsprop, DYN_RMSPROP, DYN_CENTERED)        \
    EACH_DECAY(X, rmsprop, DYN_RMSPROP, DYN_CENTERED | DYN_AVERAGES)

#if defined(__clang__)
#define VECTORS
#else
#define VECTORS __attribute__((optimize("O3", "no-trapping-math")))
#endif

/* Elements that a loop makes at once: with their state they stay in the first-level cache from one loop to the next. */
#define BLOCK 128

/* GCC makes no vectors of square roots while they may set errno. */
#define ROOTS_ONE_BY_ONE(name, T, root)        \
    static inline void name(T *x, int64_t n) { \
        for (int64_t i = 0; i < n; i++) {      \
            x[i] = root(x[i]);                 \
        }                                      \
    }
ROOTS_ONE_BY_ONE(roots_f32, float, __builtin_sqrtf)
ROOTS_ONE_BY_ONE(roots_f64, double, __builtin_sqrt)
#define PLAIN(a, b, c) ((a) * (b) + (c))
#define ATTRIBUTES VECTORS
#define LOOP(name) name##_plain_f32
#define T float
#define FMA PLAIN
#define ROOTS roots_f32
#include "codegen/run/descent_loops.h"
#define LOOP(name) name##_plain_f64
#define T double
#define FMA PLAIN
#define ROOTS roots_f64
#include "codegen/run/descent_loops.h"
#undef ATTRIBUTES

#if defined(__x86_64__)
#define HAS_FUSED (dyn_isa_number() >= 1)
#define ATTRIBUTES VECTORS __attribute__((target("avx2,fma")))
#define ROOTS_OF_VECTORS(name, T, lanes, load, store, root, rest) \
    ATTRIBUTES static inline void name(T *x, int64_t n) {         \
        int64_t i = 0;                                            \
        for (; i <= n - (lanes); i += (lanes)) {                  \
            store(x + i, root(load(x + i)));                      \
        }                                                         \
        rest(x + i, n - i);                                       \
    }
ROOTS_OF_VECTORS(roots_8, float, 8, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_sqrt_ps, roots_f32)
ROOTS_OF_VECTORS(roots_4, double, 4, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_sqrt_pd, roots_f64)
#else
#define roots_8 roots_f32
#define roots_4 roots_f64
#define ATTRIBUTES VECTORS
#if defined(__aarch64__)
#define HAS_FUSED true
#else
#define HAS_FUSED false
#endif
#endif
#define LOOP(name) name##_fused_f32
#define T float
#define FMA __builtin_fmaf
#define ROOTS roots_8
#include "codegen/run/descent_loops.h"
#define LOOP(name) name##_fused_f64
#define T double
#define FMA __builtin_fma
#define ROOTS roots_4
#include "codegen/run/descent_loops.h"
#undef ATTRIBUTES

bool dyn_can_descend(const DynDescent *steps, int64_t n, bool fused) {
    bool possible = !fused || HAS_FUSED;
    for (int64_t i = 0; i < n && possible; i++) {
        possible = steps[i].dtype == DYN_F32 || steps[i].dtype == DYN_F64;
    }
    return possible;
}

bool dyn_descent_has_form(DynDescentRule rule, uint8_t form) {
#define FORM(name, rule, bits) \
    case (rule)*DYN_ALL_FORMS + (bits): return true;
    switch (rule * DYN_ALL_FORMS + form) { FORMS(FORM) }
#undef FORM
    return false;
}

bool dyn_descent_has_state(DynDescentRule rule, uint8_t form, int i) {
    switch (rule) {
    case DYN_SGD: return i == 0 && (form & DYN_AVERAGES) != 0;
    case DYN_ADAM: return i < 2 || (form & DYN_MAXIMA) != 0;
    case DYN_ADAGRAD: return i == 0;
    case DYN_RMSPROP: return i == 0 || (form & (i == 1 ? DYN_AVERAGES : DYN_CENTERED)) != 0;
    case DYN_SHRINK:
    case DYN_DESCENT_RULES: break;
    }
    return false;
}

int64_t dyn_descent_elements(const DynDescent *steps, int64_t n) {
    int64_t all = 0;
    for (int64_t i = 0; i < n; i++) {
        all += steps[i].n;
    }
    return all;
}

static void make(const DynDescent *d, int64_t from, int64_t to, bool fused) {
    if (d->dtype == DYN_F32) {
        (fused ? descend_fused_f32 : descend_plain_f32)(d, from, to);
    } else {
        (fused ? descend_fused_f64 : descend_plain_f64)(d, from, to);
    }
}

/* All elements, one step's behind another's, in pieces of one size. */
typedef struct Descents {
    const DynDescent *steps;
    int64_t n;
    bool fused;
} Descents;

static void make_piece(void *ctx, int64_t piece) {
    const Descents *all = ctx;
    int64_t from = piece * DYN_DESCENT_PIECE, to = from + DYN_DESCENT_PIECE, start = 0;
    for (int64_t i = 0; i < all->n && start < to; i++) {
        const DynDescent *d = &all->steps[i];
        int64_t first = from > start ? from - start : 0, last = to - start < d->n ? to - start : d->n;
        if (first < last) {
            make(d, first, last, all->fused);
        }
        start += d->n;
    }
}

int dyn_descend(const DynDescent *steps, int64_t n, bool fused) {
    int64_t elements = dyn_descent_elements(steps, n);
    Descents all = {.steps = steps, .n = n, .fused = fused};
    if (elements >= DYN_DESCENT_PARALLEL && dyn_par_threads() > 1) {
        dyn_par_for(make_piece, &all, (elements + DYN_DESCENT_PIECE - 1) / DYN_DESCENT_PIECE);
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        make(&steps[i], 0, steps[i].n, fused);
    }
    return 0;
}
