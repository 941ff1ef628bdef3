/* region_flags.h: functions of region IR for the processor's floating-point flags. As those of region_math.def they are compiled
 * into the interpreter (region_interp.c), and are in the head of the text of every region: each X is one of them.
 *
 * rg_trouble: could NumPy have warned of what was computed since rg_quiet? rg_spoilt: it could in this run, so trips are done
 * with checks at once; a region to which that has happened often tries now and then. rg_iused, rg_dused and rg_sused: the
 * number is computed before any later question. rg_save and rg_restore: what `n` stores of a loop find where they write, `step`
 * bytes apart, and how it comes back there. No function is called between the two, so all regions of an object have one room. */
#ifndef DYN_REGION_FLAGS_H
#define DYN_REGION_FLAGS_H

#if defined(__x86_64__)
#define DYN_REGION_MACHINE_FLAGS(X)                                                                      \
    X(static inline unsigned rg_mxcsr(void) {                                                            \
        unsigned x;                                                                                      \
        __asm__ volatile("stmxcsr %0" : "=m"(x) : : "memory");                                           \
        return x;                                                                                        \
    })                                                                                                   \
    X(static inline int rg_trouble(void) { return (rg_mxcsr() & 13) != 0; })                             \
    X(static inline void rg_clear(unsigned x) { __asm__ volatile("ldmxcsr %0" : : "m"(x) : "memory"); }) \
    X(static inline void rg_quiet(void) {                                                                \
        if (rg_trouble()) {                                                                              \
            rg_clear(rg_mxcsr() & ~63u);                                                                 \
        }                                                                                                \
    })                                                                                                   \
    X(static inline int rg_dused(D x) {                                                                  \
        __asm__ volatile("" : : "x"(x));                                                                 \
        return 0;                                                                                        \
    })                                                                                                   \
    X(static inline int rg_sused(S x) {                                                                  \
        __asm__ volatile("" : : "x"(x));                                                                 \
        return 0;                                                                                        \
    })
#else
#define DYN_REGION_MACHINE_FLAGS(X)                                        \
    X(extern int fetestexcept(int);)                                       \
    X(extern int feclearexcept(int);)                                      \
    X(static inline int rg_trouble(void) { return fetestexcept(7) != 0; }) \
    X(static inline void rg_quiet(void) { feclearexcept(7); })             \
    X(static inline int rg_dused(D x) {                                    \
        __asm__ volatile("" : : "m"(x));                                   \
        return 0;                                                          \
    })                                                                     \
    X(static inline int rg_sused(S x) {                                    \
        __asm__ volatile("" : : "m"(x));                                   \
        return 0;                                                          \
    })
#endif

/* There is room for what so many stores of a loop find in so many trips; `what` is the number of the store, from the fourth bit
 * on, and the size of an element. */
enum { DYN_REGION_STORES = 4, DYN_REGION_SAVED = 256 };
#define DYN_REGION_SAVING(X)                                                          \
    X(static long long rg_saved[4][256];)                                             \
    X(static inline void rg_move(P to, P from, I to_step, I from_step, I n, I size) { \
        for (I k = 0; size == 8 && k < n; k++) {                                      \
            *(M_I64 *)(to + k * to_step) = *(M_I64 *)(from + k * from_step);          \
        }                                                                             \
        for (I k = 0; size == 4 && k < n; k++) {                                      \
            *(M_I32 *)(to + k * to_step) = *(M_I32 *)(from + k * from_step);          \
        }                                                                             \
        for (I k = 0; size == 2 && k < n; k++) {                                      \
            *(M_I16 *)(to + k * to_step) = *(M_I16 *)(from + k * from_step);          \
        }                                                                             \
        for (I k = 0; size == 1 && k < n; k++) {                                      \
            to[k * to_step] = from[k * from_step];                                    \
        }                                                                             \
    })                                                                                \
    X(static inline int rg_save(P a, I step, I n, I what) {                           \
        if (step == (what & 15)) {                                                    \
            rg_move((P)rg_saved[what >> 4], a, what & 15, what & 15, n, what & 15);   \
        } else {                                                                      \
            rg_move((P)rg_saved[what >> 4], a, what & 15, step, n, what & 15);        \
        }                                                                             \
        return 0;                                                                     \
    })                                                                                \
    X(static inline int rg_restore(P a, I step, I n, I what) {                        \
        rg_move(a, (P)rg_saved[what >> 4], step, what & 15, n, what & 15);            \
        return 0;                                                                     \
    })

#define DYN_REGION_FLAGS(X)                            \
    DYN_REGION_MACHINE_FLAGS(X)                        \
    X(static inline int rg_iused(I x) {                \
        __asm__ volatile("" : : "r"(x));               \
        return 0;                                      \
    })                                                 \
    X(static unsigned rg_spoilt;)                      \
    X(static unsigned rg_bad;)                         \
    X(static unsigned rg_runs;)                        \
    X(static inline void rg_begin(void) {              \
        rg_runs++;                                     \
        rg_spoilt = rg_bad >= 16 && rg_runs % 64 != 0; \
        if (!rg_spoilt) {                              \
            rg_bad -= rg_bad > 0;                      \
            rg_quiet();                                \
        }                                              \
    })                                                 \
    X(static inline int rg_again(void) {               \
        rg_bad += 2;                                   \
        rg_spoilt = 1;                                 \
        return 0;                                      \
    })                                                 \
    DYN_REGION_SAVING(X)
#endif
