/* region_flags.h: functions of region IR for the processor's floating-point flags. As those of region_math.def they are compiled
 * into the interpreter (region_interp.c), and are in the head of the text of every region: each X is one of them.
 *
 * rg_trouble: could NumPy have warned of what was computed since rg_quiet? rg_spoilt: it could in this run, so trips are done
 * with checks at once; a region to which that has happened often tries now and then. rg_iused, rg_dused and rg_sused: the
 * number is computed before any later question. */
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
    })
#endif
