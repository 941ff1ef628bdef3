/* region_math.h: the functions of region_math.def, for the C files of this folder that compute what regions do. */
#ifndef DYN_REGION_MATH_H
#define DYN_REGION_MATH_H
#include <stdint.h>

#undef I /* <complex.h> has one */
typedef int64_t I;
typedef double D;
typedef float S;
typedef char *P;
typedef short M_I16 __attribute__((may_alias)); /* as what lies in memory */
typedef unsigned short M_U16 __attribute__((may_alias));
typedef int M_I32 __attribute__((may_alias));
typedef unsigned int M_U32 __attribute__((may_alias));
typedef int64_t M_I64 __attribute__((may_alias));
typedef float M_F32 __attribute__((may_alias));
typedef double M_F64 __attribute__((may_alias));
typedef char *M_P __attribute__((may_alias));

#define LIBM(name, arity) LIBM_##arity(name)
#define LIBM_1(name) extern D rg_##name(D) __asm__(#name) __attribute__((const, nothrow));
#define LIBM_2(name) extern D rg_##name(D, D) __asm__(#name) __attribute__((const, nothrow));
#define MATH(name, type, args, ...) static inline type name args __VA_ARGS__
#include "ir/region_math.def"
#undef LIBM
#undef LIBM_1
#undef LIBM_2
#undef MATH
#endif
