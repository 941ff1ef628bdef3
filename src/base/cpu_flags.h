/* cpu_flags.h: the floating-point flags of the processor. Used by ir (region_arrays.c) and codegen/run (flags.h). */
#ifndef DYN_CPU_FLAGS_H
#define DYN_CPU_FLAGS_H
#include <fenv.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
static inline void dyn_flags_clear(void) { _mm_setcsr(_mm_getcsr() & ~0x3fu); }
static inline int dyn_flags_get(void) { return (int)(_mm_getcsr() & 0x3f); } /* the bits of FE_INVALID and so on */
#else
static inline void dyn_flags_clear(void) { feclearexcept(FE_ALL_EXCEPT); }
static inline int dyn_flags_get(void) { return fetestexcept(FE_ALL_EXCEPT); }
#endif
#endif
