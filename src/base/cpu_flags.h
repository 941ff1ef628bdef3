/* cpu_flags.h: the floating-point flags of the processor. Used by ir (region_arrays.c) and codegen/run (flags.h). */
#ifndef DYN_CPU_FLAGS_H
#define DYN_CPU_FLAGS_H
#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
static inline void dyn_flags_clear(void) { _mm_setcsr(_mm_getcsr() & ~0x3fu); }
static inline int dyn_flags_get(void) { return (int)(_mm_getcsr() & 0x3f); } /* the bits of FE_INVALID and so on */

/* Those of the x87 too: the C library's feraiseexcept, by which NumPy's loops report, raises FE_OVERFLOW and FE_UNDERFLOW there.
 */
static inline int dyn_flags_get_all(void) {
    unsigned short status;
    __asm__ volatile("fnstsw %0" : "=a"(status));
    return dyn_flags_get() | (status & 0x3f);
}
static inline void dyn_flags_clear_all(void) {
    if (dyn_flags_get_all() != 0) {
        dyn_flags_clear();
        __asm__ volatile("fnclex");
    }
}
#else
static inline void dyn_flags_clear(void) { feclearexcept(FE_ALL_EXCEPT); }
static inline int dyn_flags_get(void) { return fetestexcept(FE_ALL_EXCEPT); }
static inline int dyn_flags_get_all(void) { return dyn_flags_get(); }
static inline void dyn_flags_clear_all(void) { dyn_flags_clear(); }
#endif
#endif
