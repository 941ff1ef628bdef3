/* emit_expr.c: C text of single instructions, and of the functions that they call.
 *
 * Called by emit_c.c. Expressions come from ops.def, helper functions from ops_c.def; mathematics is declared here without a
 * header (headers cost more to compile than the kernels). A function of the C library is declared under a name of our own with
 * its real one as assembler name: the compiler then knows nothing of it but that vector versions exist, and can neither fold it
 * nor merge sin and cos of one argument into a call that has no vector version. */
#include "codegen/loops/loops.h"
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>

#define PROLOGUE                                                                                      \
    "#define DYN_INF __builtin_inf()\n"                                                               \
    "#ifdef __FMA__\n#define DYN_FMA(a, b, c, f) __builtin_fma##f(a, b, c)\n"                         \
    "#else\n#define DYN_FMA(a, b, c, f) ((a) * (b) + (c))\n#endif\n"                                  \
    "#define DYN_FN static inline __attribute__((always_inline))\n"                                   \
    "#define DYN_DIVBYZERO() ((void)({ volatile double dyn_z = 0; dyn_z = 1 / dyn_z; }))\n"           \
    "#define DYN_OVERFLOW() ((void)({ volatile double dyn_h = 0x1p1023; dyn_h = dyn_h * dyn_h; }))\n" \
    "#define DYN_INVALID() ((void)({ volatile double dyn_i = DYN_INF; dyn_i = dyn_i - dyn_i; }))\n"

/* Vector functions go by names of our own, dynv_sin: their vector forms are libmvec's, and the scalar form, which is called from
 * loops that could not be vectorised, is one lane of a vector: so a function gives the same bits in every loop. DYN_V1 and DYN_V2
 * are functions of one and two arguments. DYN_VL is one with limits: `out` says of the bits m of a magnitude which lanes of the
 * widest vectors are sent to the scalar function, for libmvec raises flags for nothing there, and `calm` goes in their place;
 * DYN_VN is the same where AVX-512 is missing, whose own function needs no limits. DYN_NARROW: narrower vectors, which compilers
 * may take where they can't fill the widest. DYN_VM is DYN_VL for two arguments: `out` knows the bits x and y of their magnitudes
 * and the greater m of them, and narrower vectors are the first lanes of a wide one (DYN_PARTS). */
#if defined(__x86_64__) && defined(__GLIBC__)
/* DYN_OF_TWO: what every function of two arguments has besides its vector form, which follows: one of a single element and those
 * of narrower vectors, the first lanes of a wide one. DYN_BY_LANE: lanes that are sent elsewhere, and the result. */
#define PARTS                                                                                                                    \
    "#define DYN_PART(T, f, n, symbol, v) typedef T dyn_p##v##T __attribute__((vector_size(n * sizeof(T)))); "                   \
    "dyn_p##v##T dyn_part_##v##_##f(dyn_p##v##T, dyn_p##v##T) __asm__(symbol); "                                                 \
    "__attribute__((used, visibility(\"hidden\"))) dyn_p##v##T dyn_part_##v##_##f(dyn_p##v##T a, dyn_p##v##T b) { dyn_v##T y = " \
    "(dyn_v##T){0} + 1, x = y; "                                                                                                 \
    "for (int i = 0; i < n; i++) x[i] = a[i], y[i] = b[i]; x = dyn_v_##f(x, y); for (int i = 0; i < n; i++) a[i] = x[i]; "       \
    "return a; }\n"                                                                                                              \
    "#if DYN_WIDE == 64\n#define DYN_PARTS(T, f) DYN_PART(T, f, (int)(32 / sizeof(T)), \"_ZGVd\" DYN_D_##T \"vv_dynv_\" #f, d) " \
    "DYN_PART(T, f, (int)(32 / sizeof(T)), \"_ZGVc\" DYN_D_##T \"vv_dynv_\" #f, c) "                                             \
    "DYN_PART(T, f, (int)(16 / sizeof(T)), \"_ZGVb\" DYN_B_##T \"vv_dynv_\" #f, b)\n#elif DYN_WIDE == 32\n"                      \
    "#define DYN_PARTS(T, f) DYN_PART(T, f, (int)(32 / sizeof(T)), \"_ZGVc\" DYN_D_##T \"vv_dynv_\" #f, c) "                     \
    "DYN_PART(T, f, (int)(16 / sizeof(T)), \"_ZGVb\" DYN_B_##T \"vv_dynv_\" #f, b)\n#else\n#define DYN_PARTS(T, f)\n#endif\n"    \
    "#define DYN_D_double \"N4\"\n#define DYN_D_float \"N8\"\n#define DYN_B_double \"N2\"\n#define DYN_B_float \"N4\"\n"         \
    "#define DYN_BY_LANE(T, f) for (int i = 0; i < DYN_LANES(T); i++) if (o[i]) r[i] = dyn_c_##f(a[i], b[i]); return r;\n"       \
    "#define DYN_OF_TWO(T, f) T dyn_##f(T, T) __asm__(\"dynv_\" #f) __attribute__((DYN_CALLED)); T dyn_c_##f(T, T) "             \
    "__asm__(#f); "                                                                                                              \
    "__attribute__((used, visibility(\"hidden\"))) dyn_v##T dyn_v_##f(dyn_v##T, dyn_v##T) "                                      \
    "__asm__(DYN_P DYN_N_##T \"vv_dynv_\" #f); static __attribute__((used)) T dyn_1_##f(T, T) __asm__(\"dynv_\" #f); "           \
    "static T dyn_1_##f(T a, T b) { DYN_ALL(T, v, a); DYN_ALL(T, w, b); return dyn_v_##f(v, w)[0]; } DYN_PARTS(T, f)\n"
/* DYN_STEEP: is y times log2 of x, as a magnitude, more than `steep`, or y more than `far`? The logarithm is the number that the
 * bits of x are, which is at most 1.45 times too small; y is bounded first, for the product to raise nothing. */
#define POWERS                                                                                                              \
    "#define DYN_LOG_double(x) (((dyn_vdouble)(x >> 20 | 0x4330000000000000L) - 0x1p52) * 0x1p-32 - 1023)\n"                \
    "#define DYN_LOG_float(x) (__builtin_convertvector(x, dyn_vfloat) * 0x1p-23f - 127)\n"                                  \
    "#define DYN_STEEP(T, most, steep, far) ({ dyn_i##T h = y > far, p = (dyn_i##T)((dyn_v##T)(y & ~h) * DYN_LOG_##T(x)); " \
    "h | ((p & most) > steep); })\n"
/* DYN_VQ: the rest of a division, a - trunc(a / b) * b, which is exact as fmod's is: by one fused product where the quotient is a
 * whole number that the format holds (it can be one too large, not too small), and zero where a is the smaller. Other lanes, nan
 * and infinities among them, are the C library's, and numbers for which nothing is raised go in their place. Exponents say which
 * they are. Narrower vectors are the first lanes of a wide one. */
#define REST                                                                                                                     \
    "#ifdef __FMA__\n#if DYN_WIDE == 64\n"                                                                                       \
    "#define DYN_TRUNC_double(q) __builtin_ia32_rndscalepd_mask(q, 11, q, (unsigned char)-1, 4)\n"                               \
    "#define DYN_TRUNC_float(q) __builtin_ia32_rndscaleps_mask(q, 11, q, (unsigned short)-1, 4)\n"                               \
    "#define DYN_FUSED_double(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4)\n"                         \
    "#define DYN_FUSED_float(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4)\n#else\n"                  \
    "#define DYN_TRUNC_double(q) __builtin_ia32_roundpd256(q, 11)\n#define DYN_TRUNC_float(q) __builtin_ia32_roundps256(q, "     \
    "11)\n"                                                                                                                      \
    "#define DYN_FUSED_double(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)\n"                                                    \
    "#define DYN_FUSED_float(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)\n#endif\n"                                             \
    "#define DYN_BITS_double 52, 0x7ffL, 50\n#define DYN_BITS_float 23, 0xff, 21\n"                                              \
    "#define DYN_VQ(T, f) DYN_REST(T, f, DYN_BITS_##T)\n#define DYN_REST(...) DYN_REST_(__VA_ARGS__)\n"                          \
    "#define DYN_REST_(T, f, bits, most, far) DYN_OF_TWO(T, f) "                                                                 \
    "static __attribute__((noinline, cold)) dyn_v##T dyn_b_##f(dyn_v##T a, dyn_v##T b, dyn_v##T r, dyn_i##T o) { "               \
    "DYN_BY_LANE(T, f) } dyn_v##T dyn_v_##f(dyn_v##T a, dyn_v##T b) { "                                                          \
    "dyn_i##T x = (dyn_i##T)a >> bits & most, y = (dyn_i##T)b >> bits & most, "                                                  \
    "top = ((dyn_i##T){0} + 1) << (8 * sizeof(T) - 1), sign = (dyn_i##T)a & top; dyn_i##T less = x < y, o = (x - y > far) | (y " \
    "== 0) | (x == most) | (y == most); "                                                                                        \
    "dyn_v##T n = (dyn_v##T)((dyn_i##T)a & ~(less | o)), d = (dyn_v##T)(((dyn_i##T)b & ~o) | ((dyn_i##T)((dyn_v##T){0} + 1) & "  \
    "o)); "                                                                                                                      \
    "dyn_v##T q = DYN_TRUNC_##T(n / d), r = DYN_FUSED_##T(-q, d, n); "                                                           \
    "dyn_i##T over = (r != 0) & (((dyn_i##T)r ^ (dyn_i##T)n) < 0); "                                                             \
    "dyn_v##T back = (dyn_v##T)(((dyn_i##T)d & ~top | (dyn_i##T)n & top) & over); r = r + back; "                                \
    "r = (dyn_v##T)(((dyn_i##T)r & ~top) | sign); r = (dyn_v##T)(((dyn_i##T)r & ~less) | ((dyn_i##T)a & less)); "                \
    "return __builtin_expect(DYN_ANY_##T(o) != 0, 0) ? dyn_b_##f(a, b, r, o) : r; }\n"                                           \
    "#else\n" SCALAR_REST "#endif\n"
#define VECTORS                                                                                                                 \
    "#ifdef __clang__\n" PLAIN "#else\n"                                                                                        \
    "#if defined(__AVX512F__)\n#define DYN_WIDE 64\n#define DYN_P \"_ZGVe\"\n#define DYN_N_double \"N8\"\n"                     \
    "#define DYN_N_float \"N16\"\n#define DYN_ANY_double(o) __builtin_ia32_ptestmq512(o, o, (unsigned char)-1)\n"               \
    "#define DYN_ANY_float(o) __builtin_ia32_ptestmd512(o, o, (unsigned short)-1)\n"                                            \
    "#elif defined(__AVX2__)\n#define DYN_WIDE 32\n#define DYN_P \"_ZGVd\"\n#define DYN_N_double \"N4\"\n"                      \
    "#define DYN_N_float \"N8\"\n#define DYN_ANY_double(o) __builtin_ia32_movmskpd256((dyn_vdouble)(o))\n"                      \
    "#define DYN_ANY_float(o) __builtin_ia32_movmskps256((dyn_vfloat)(o))\n"                                                    \
    "#else\n#define DYN_WIDE 16\n#define DYN_P \"_ZGVb\"\n#define DYN_N_double \"N2\"\n#define DYN_N_float \"N4\"\n"            \
    "#define DYN_ANY_double(o) __builtin_ia32_movmskpd((dyn_vdouble)(o))\n"                                                     \
    "#define DYN_ANY_float(o) __builtin_ia32_movmskps((dyn_vfloat)(o))\n#endif\n"                                               \
    "#define DYN_SET(v, f) __asm__(\".set \" v \"_dynv_\" f \", \" v \"_\" f);\n#define DYN_NO(v, f)\n"                         \
    "#if DYN_WIDE > 16\n#define DYN_SET_B DYN_SET\n#else\n#define DYN_SET_B DYN_NO\n#endif\n"                                   \
    "#ifdef __AVX__\n#define DYN_SET_C DYN_SET\n#else\n#define DYN_SET_C DYN_NO\n#endif\n"                                      \
    "#if DYN_WIDE > 32\n#define DYN_SET_D DYN_SET\n#else\n#define DYN_SET_D DYN_NO\n#endif\n"                                   \
    "#define DYN_NARROW_double(v, f) DYN_SET_B(\"_ZGVbN2\" v, f) DYN_SET_C(\"_ZGVcN4\" v, f) DYN_SET_D(\"_ZGVdN4\" v, f)\n"     \
    "#define DYN_NARROW_float(v, f) DYN_SET_B(\"_ZGVbN4\" v, f) DYN_SET_C(\"_ZGVcN8\" v, f) DYN_SET_D(\"_ZGVdN8\" v, f)\n"      \
    "typedef double dyn_vdouble __attribute__((vector_size(DYN_WIDE)));\n"                                                      \
    "typedef float dyn_vfloat __attribute__((vector_size(DYN_WIDE)));\n"                                                        \
    "typedef long long dyn_idouble __attribute__((vector_size(DYN_WIDE)));\n"                                                   \
    "typedef int dyn_ifloat __attribute__((vector_size(DYN_WIDE)));\n"                                                          \
    "#define DYN_CALLED const, nothrow, simd(\"notinbranch\")\n#define DYN_LANES(T) (int)(DYN_WIDE / sizeof(T))\n"              \
    "#define DYN_ALL(T, v, a) dyn_v##T v; for (int i = 0; i < DYN_LANES(T); i++) v[i] = a\n"                                    \
    "#define DYN_V1(T, f) T dyn_##f(T) __asm__(\"dynv_\" #f) __attribute__((DYN_CALLED)); DYN_NARROW_##T(\"v\", #f) "           \
    "DYN_SET(DYN_P DYN_N_##T \"v\", #f) DYN_ONE(T, f, DYN_P DYN_N_##T \"v_\" #f)\n"                                             \
    "#define DYN_ONE(T, f, symbol) dyn_v##T dyn_v_##f(dyn_v##T) __asm__(symbol); "                                              \
    "static __attribute__((used)) T dyn_1_##f(T) __asm__(\"dynv_\" #f); "                                                       \
    "static T dyn_1_##f(T a) { DYN_ALL(T, v, a); return dyn_v_##f(v)[0]; }\n"                                                   \
    "#define DYN_VM(T, f, most, out) DYN_OF_TWO(T, f) dyn_v##T dyn_l_##f(dyn_v##T, dyn_v##T) __asm__(DYN_P DYN_N_##T \"vv_\" "  \
    "#f); "                                                                                                                     \
    "static __attribute__((noinline, cold)) dyn_v##T dyn_b_##f(dyn_v##T a, dyn_v##T b, dyn_i##T o) { "                          \
    "dyn_i##T one = (dyn_i##T)((dyn_v##T){0} + 1) & o; "                                                                        \
    "dyn_v##T r = dyn_l_##f((dyn_v##T)((dyn_i##T)a & ~o | one), (dyn_v##T)((dyn_i##T)b & ~o | one)); DYN_BY_LANE(T, f) } "      \
    "dyn_v##T dyn_v_##f(dyn_v##T a, dyn_v##T b) { "                                                                             \
    "dyn_i##T x = (dyn_i##T)a & most, y = (dyn_i##T)b & most, g = x > y, m = x & g | y & ~g, o = out; "                         \
    "return __builtin_expect(DYN_ANY_##T(o) != 0, 0) ? dyn_b_##f(a, b, o) : dyn_l_##f(a, b); }\n"                               \
    "#define DYN_VL(T, f, most, out, calm) T dyn_##f(T) __asm__(\"dynv_\" #f) __attribute__((DYN_CALLED)); "                    \
    "DYN_NARROW_##T(\"v\", #f) T dyn_c_##f(T) __asm__(#f); dyn_v##T dyn_l_##f(dyn_v##T) __asm__(DYN_P DYN_N_##T \"v_\" #f); "   \
    "DYN_ONE(T, f, DYN_P DYN_N_##T \"v_dynv_\" #f) static __attribute__((noinline, cold)) dyn_v##T dyn_b_##f(dyn_v##T a) { "    \
    "dyn_i##T x = (dyn_i##T)a, m = x & most, o = out, in = (dyn_i##T)((dyn_v##T){0} + calm) & o; dyn_v##T r = "                 \
    "dyn_l_##f((dyn_v##T)(x & ~o | in)); "                                                                                      \
    "for (int i = 0; i < DYN_LANES(T); i++) if (o[i]) r[i] = dyn_c_##f(a[i]); return r; } "                                     \
    "__attribute__((used, visibility(\"hidden\"))) dyn_v##T dyn_v_##f(dyn_v##T a) { dyn_i##T m = (dyn_i##T)a & most, o = out; " \
    "return __builtin_expect(DYN_ANY_##T(o) != 0, 0) ? dyn_b_##f(a) : dyn_l_##f(a); }\n"                                        \
    "#ifdef __AVX512F__\n#define DYN_VN(T, f, most, out, calm) DYN_V1(T, f)\n#else\n#define DYN_VN DYN_VL\n#endif\n" PARTS      \
        POWERS REST "#endif\n"
#else
#define VECTORS PLAIN
#endif
#define SCALAR_REST "#define DYN_VQ(T, f) T dyn_##f(T, T) __asm__(#f) __attribute__((const, nothrow))\n"
#define PLAIN                                                                                       \
    "#define DYN_V1(T, f) T dyn_##f(T) __asm__(#f) __attribute__((const, nothrow))\n"               \
    "#define DYN_VM(T, f, most, out) T dyn_##f(T, T) __asm__(#f) __attribute__((const, nothrow))\n" \
    "#define DYN_VL(T, f, most, out, calm) DYN_V1(T, f)\n#define DYN_VN DYN_VL\n" SCALAR_REST

/* Which lanes the C library's vector function raises flags for that nothing asks for, of double and of float: conditions on bits
 * of magnitudes (DYN_VL, DYN_VM), and whether they are those of vectors below the widest alone (DYN_VN). */
#define ABOVE(d, f) \
    { "m > " d, "m > " f }
#define FAR ABOVE("0x4160000000000000L", "0x461c4000"), false    /* 2^23 and 10000 */
#define NUMBERS ABOVE("0x7ff0000000000000L", "0x7f800000"), true /* all but nan */
#define FINITE ABOVE("0x7fefffffffffffffL", "0x7f7fffff"), true
#define STEEP ABOVE("0x4080000000000000L", "0x42800000"), true /* 2^9 and 2^6: exponentials overflow somewhat later */
#define VAST ABOVE("0x4630000000000000L", "0x7f7fffff"), true  /* 2^100, and what is finite */
#define HIGH ABOVE("0x4630000000000000L", "0x58000000"), true  /* 2^100 and 2^49 */
#define ROOT ABOVE("0x43b0000000000000L", "0x46000000"), true  /* 2^60 and 2^13: the square is exact no longer */
#define FROM_ONE {"(m > 0x43b0000000000000L) | (m <= 0x3ff0000000000000L)", "(m > 0x5d800000) | (m <= 0x3f800000)"}, true, "2"
#define ANGLE {"(m > 0x7fefffffffffffffL) | (m == 0)", "(m > 0x7f7fffff) | (m == 0)"}, false /* both zero, or infinite */
/* The square of the greater is neither subnormal nor huge: it is from 2^-530 or 2^-60 to 2^60. */
#define SQUARES {"(m > 0x43b0000000000000L) | (m < 0x1ed0000000000000L)", "(m > 0x5d800000) | (m < 0x21800000)"}, false
/* The power is far from the limits of the format (2^1000 and 2^120), and its base a normal number. */
#define POWER                                                                                                             \
    {"(x < 0x10000000000000L) | (x > 0x7fefffffffffffffL) | DYN_STEEP(double, 0x7fffffffffffffffL, 0x4085900000000000L, " \
     "0x43b0000000000000L)",                                                                                              \
     "(x < 0x800000) | (x > 0x7f7fffff) | DYN_STEEP(float, 0x7fffffff, 0x42a60000, 0x5d800000)"},                         \
        false
/* Functions of the C library: name, number of arguments, and what they are in generated text. BUILTIN: an instruction, by the
 * compiler's own name; VECTOR: the C library may have it for vectors too (libmvec), and where it doesn't it is a SCALAR_CALL;
 * REST_OF: the remainder of a division, in vectors of our own where that is exact; SCALAR_CALL: a call for each element;
 * COMPLEX_CALL, MAGNITUDE: the same of a complex number, giving a complex or a real one. */
static const struct Function {
    const char *name;
    int nargs;
    enum { BUILTIN, VECTOR, REST_OF, SCALAR_CALL, COMPLEX_CALL, MAGNITUDE } kind;
    const char *out[2]; /* of VECTOR: lanes that are sent elsewhere, see DYN_VL */
    bool narrow;
    const char *calm; /* another number than 1/2 for which nothing is raised */
} functions[] = {
    {"sqrt", 1, BUILTIN},           {"fabs", 1, BUILTIN},          {"floor", 1, BUILTIN},         {"ceil", 1, BUILTIN},
    {"trunc", 1, BUILTIN},          {"rint", 1, BUILTIN},          {"copysign", 2, BUILTIN},      {"exp", 1, VECTOR},
    {"exp2", 1, VECTOR, FINITE},    {"expm1", 1, VECTOR, STEEP},   {"log", 1, VECTOR, NUMBERS},   {"log2", 1, VECTOR, NUMBERS},
    {"log10", 1, VECTOR, NUMBERS},  {"log1p", 1, VECTOR, VAST},    {"sin", 1, VECTOR, FAR},       {"cos", 1, VECTOR, FAR},
    {"tan", 1, VECTOR, HIGH},       {"asin", 1, VECTOR, NUMBERS},  {"acos", 1, VECTOR, NUMBERS},  {"atan", 1, VECTOR, VAST},
    {"sinh", 1, VECTOR, STEEP},     {"cosh", 1, VECTOR, STEEP},    {"tanh", 1, VECTOR},           {"asinh", 1, VECTOR, ROOT},
    {"acosh", 1, VECTOR, FROM_ONE}, {"atanh", 1, VECTOR, NUMBERS}, {"cbrt", 1, VECTOR},           {"erf", 1, VECTOR, NUMBERS},
    {"erfc", 1, VECTOR, NUMBERS},   {"atan2", 2, VECTOR, ANGLE},   {"hypot", 2, VECTOR, SQUARES}, {"pow", 2, VECTOR, POWER},
    {"fmod", 2, REST_OF},           {"nextafter", 2, SCALAR_CALL}, {"csqrt", 1, COMPLEX_CALL},    {"cexp", 1, COMPLEX_CALL},
    {"clog", 1, COMPLEX_CALL},      {"csin", 1, COMPLEX_CALL},     {"ccos", 1, COMPLEX_CALL},     {"ctan", 1, COMPLEX_CALL},
    {"casin", 1, COMPLEX_CALL},     {"cacos", 1, COMPLEX_CALL},    {"catan", 1, COMPLEX_CALL},    {"csinh", 1, COMPLEX_CALL},
    {"ccosh", 1, COMPLEX_CALL},     {"ctanh", 1, COMPLEX_CALL},    {"casinh", 1, COMPLEX_CALL},   {"cacosh", 1, COMPLEX_CALL},
    {"catanh", 1, COMPLEX_CALL},    {"cpow", 2, COMPLEX_CALL},     {"cabs", 1, MAGNITUDE},
};

const char *dyn_emit_memory_type(DynDtype dt) { return dyn_dtypes[dt].ctype; }
const char *dyn_emit_type(DynDtype dt) {
    if (dt == DYN_BOOL) {
        return "_Bool";
    }
    return dyn_dtype_is_half(dt) ? "float" : dyn_dtypes[dt].ctype;
}

static const char *wrapping_type(DynDtype dt) {
    if (dyn_dtypes[dt].kind == 'f' || dyn_dtypes[dt].kind == 'c') {
        return dyn_emit_type(dt);
    }
    return dyn_dtypes[dt].size == 8 ? "unsigned long" : "unsigned int";
}

/* Out of range, conversion to a narrow integer goes by a wide one, as the processor's scalar instruction does. */
static void put_float_to_integer(DynStr *out, DynDtype to, DynDtype from, const char *value) {
    switch (to) {
    case DYN_U64: dyn_str_printf(out, from == DYN_F64 ? "dyn_whole_f64(%s)" : "dyn_whole_f32(%s)", value); break;
    case DYN_I64: dyn_str_printf(out, "dyn_made_i64(%s)", value); break;
    case DYN_I32: dyn_str_printf(out, "dyn_made_i32(%s)", value); break;
    case DYN_U32: dyn_str_printf(out, "(%s)(long)%s", dyn_emit_type(to), value); break;
    default: dyn_str_printf(out, "(%s)(int)%s", dyn_emit_type(to), value);
    }
}

/* Truth goes by int: gcc has no vectors for it else. Were it a choice of 1 and 0, the compiler would compute with both, and flags
 * would be lost. */
static void put_cast(DynStr *out, DynDtype to, DynDtype from, const char *value) {
    if (to == DYN_BOOL) {
        dyn_str_printf(out, "%s != 0", value);
    } else if (to == DYN_F16) { /* integers go by float, as NumPy's */
        if (from == DYN_F64) {
            dyn_str_printf(out, "dyn_half_d(%s)", value);
        } else {
            dyn_str_printf(out, from == DYN_BOOL ? "(float)(int)%s" : "dyn_half((float)%s)", value);
        }
    } else if (to == DYN_BF16) {
        dyn_str_printf(out, from == DYN_BOOL ? "(float)(int)%s" : "dyn_bf16((float)%s)", value);
    } else if (dyn_dtypes[from].kind == 'f' && dyn_dtype_is_integer(to)) {
        put_float_to_integer(out, to, from, value);
    } else {
        dyn_str_printf(out, "(%s)%s%s", dyn_emit_type(to), from == DYN_BOOL ? "(int)" : "", value);
    }
}

bool dyn_emit_rounds(const DynInsn *insn) {
    const DynOpInfo *op = &dyn_ops[insn->op];
    if (insn->kind != DYN_L_OP && insn->kind != DYN_L_REDUCE) {
        return false;
    }
    bool inexact = *op->fpe || (op->flags & DYN_OPF_VECTOR_CALL);
    return inexact && dyn_dtype_is_half((DynDtype)insn->dtype);
}

bool dyn_emit_raises(const DynInsn *insn) {
    const DynOpInfo *op = &dyn_ops[insn->op];
    return insn->kind == DYN_L_OP && (*op->fpe || (op->flags & DYN_OPF_VECTOR_CALL));
}

int dyn_emit_expr(DynStr *out, const DynInsn *insn, DynDtype from, const char *const *args) {
    if (insn->kind == DYN_L_CAST) {
        put_cast(out, (DynDtype)insn->dtype, from, args[0]);
        return 0;
    }
    bool rounds = dyn_emit_rounds(insn);
    if (rounds) {
        dyn_str_puts(out, insn->dtype == DYN_F16 ? "dyn_half(" : "dyn_bf16(");
    }
    int failed = dyn_emit_op(out, insn, args);
    dyn_str_puts(out, rounds ? ")" : "");
    return failed;
}

DynDtype dyn_emit_compute(const DynInsn *insn) {
    return dyn_dtype_is_half((DynDtype)insn->compute) ? DYN_F32 : (DynDtype)insn->compute;
}

int dyn_emit_op(DynStr *out, const DynInsn *insn, const char *const *args) {
    DynDtype t = dyn_emit_compute(insn);
    const char *c = dyn_dtypes[t].kind == 'c' ? dyn_complex_ops[insn->op].c : dyn_ops[insn->op].c;
    return dyn_emit_op_as(out, c, t, dyn_emit_type(t), dyn_dtypes[t].name, args);
}

int dyn_emit_op_as(DynStr *out, const char *c, DynDtype t, const char *type, const char *name, const char *const *args) {
    if (!c) {
        return -1;
    }
    for (; *c; c++) {
        if (c[0] != '{' || !c[1] || c[2] != '}') {
            dyn_str_putc(out, *c);
            continue;
        }
        switch (c[1]) {
        case 'T': dyn_str_puts(out, type); break;
        case 'U': dyn_str_puts(out, wrapping_type(t)); break;
        case 's': dyn_str_puts(out, name); break;
        case 'f': dyn_str_puts(out, dyn_dtype_real(t) == DYN_F32 ? "f" : ""); break;
        default:
            if (c[1] < '0' || c[1] > '2' || !args[c[1] - '0']) {
                return -1;
            }
            dyn_str_puts(out, args[c[1] - '0']);
        }
        c += 2;
    }
    return 0;
}

/* ---- ranks of floats: dyn_rank_max_f32 of ops_c.def and its like */

bool dyn_emit_is_ranked(const DynInsn *insn) {
    return (insn->op == DYN_OP_MAX || insn->op == DYN_OP_MIN) && dyn_dtypes[insn->compute].kind == 'f';
}

DynDtype dyn_emit_rank_dtype(const DynInsn *insn) { return insn->compute == DYN_F64 ? DYN_I64 : DYN_I32; }

void dyn_emit_rank(DynStr *out, const DynInsn *insn, bool back, const char *x) {
    if (!dyn_emit_is_ranked(insn)) {
        dyn_str_puts(out, x);
        return;
    }
    const char *which = insn->op == DYN_OP_MAX ? "max" : "min";
    const char *type = insn->compute == DYN_F64 ? "f64" : "f32";
    dyn_str_printf(out, "dyn_%s_%s_%s(%s)", back ? "ranked" : "rank", which, type, x);
}

/* ---- functions that a text calls */

#define MAX_NAMES 2048 /* more than the operator table has */
typedef struct Names { /* what has been written already */
    bool vectors;
    const char *at[MAX_NAMES];
    size_t length[MAX_NAMES];
    int n;
} Names;

static bool is_new(Names *names, const char *name, size_t length) {
    for (int i = 0; i < names->n; i++) {
        if (names->length[i] == length && !memcmp(names->at[i], name, length)) {
            return false;
        }
    }
    if (names->n == MAX_NAMES) {
        return false;
    }
    names->at[names->n] = name;
    names->length[names->n++] = length;
    return true;
}

/* Has this C library the function for vectors? What calls one that it hasn't couldn't be loaded. On x86-64 glibc 2.22 has few,
 * and all from 2.35 on; elsewhere vectors go by names that aren't known here. */
#if defined(__x86_64__) && defined(__GLIBC__)
static void *vector_library;
static void open_vector_library(void) { vector_library = dlopen("libmvec.so.1", RTLD_LAZY); }

static bool has_vectors(const struct Function *f, const char *suffix) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char symbol[40];
    pthread_once(&once, open_vector_library);
    dyn_format(symbol, sizeof symbol, "_ZGVbN%d%s_%s%s", *suffix == 'f' ? 4 : 2, f->nargs == 2 ? "vv" : "v", f->name, suffix);
    return vector_library != NULL && dlsym(vector_library, symbol) != NULL;
}
#else
static bool has_vectors(const struct Function *f, const char *suffix) {
    (void)f, (void)suffix;
    return false;
}
#endif

static void put_vector_function(DynStr *out, Names *names, const struct Function *f, bool single) {
    const char *t = single ? "float" : "double", *s = single ? "f" : "";
    const char *magnitude = single ? "0x7fffffff" : "0x7fffffffffffffffL", *lanes = f->out[single];
    dyn_str_puts(out, names->vectors ? "" : VECTORS);
    names->vectors = true;
    if (f->kind == REST_OF) {
        dyn_str_printf(out, "DYN_VQ(%s, %s%s);\n", t, f->name, s);
    } else if (lanes == NULL) {
        dyn_str_printf(out, "DYN_V1(%s, %s%s);\n", t, f->name, s);
    } else if (f->nargs == 2) {
        dyn_str_printf(out, "DYN_VM(%s, %s%s, %s, %s);\n", t, f->name, s, magnitude, lanes);
    } else {
        const char *macro = f->narrow ? "DYN_VN" : "DYN_VL", *calm = f->calm ? f->calm : "0.5";
        dyn_str_printf(out, "%s(%s, %s%s, %s, %s, %s);\n", macro, t, f->name, s, magnitude, lanes, calm);
    }
}

static void put_function(DynStr *out, Names *names, const char *name, size_t length) {
    bool single = name[length - 1] == 'f' && !(length == 3 && !memcmp(name, "erf", 3));
    for (size_t i = 0; i < DYN_COUNTOF(functions); i++) {
        const struct Function *f = &functions[i];
        size_t base = length - single;
        if (strlen(f->name) != base || memcmp(f->name, name, base)) {
            continue;
        }
        const char *t = single ? "float" : "double";
        const char *s = single ? "f" : "";
        if (f->kind == BUILTIN) {
            dyn_str_printf(out, "#define %s%s __builtin_%s%s\n", f->name, s, f->name, s);
            return;
        }
        if (f->kind == REST_OF || (f->kind == VECTOR && has_vectors(f, s))) {
            put_vector_function(out, names, f, single);
        } else if (f->kind == COMPLEX_CALL || f->kind == MAGNITUDE) {
            dyn_str_printf(out, "%s%s dyn_%s%s(%s _Complex", t, f->kind == MAGNITUDE ? "" : " _Complex", f->name, s, t);
            if (f->nargs == 2) {
                dyn_str_printf(out, ", %s _Complex", t);
            }
            dyn_str_printf(out, ") __asm__(\"%s%s\") __attribute__((const, nothrow));\n", f->name, s);
        } else {
            dyn_str_printf(out, "%s dyn_%s%s(%s", t, f->name, s, t);
            dyn_str_puts(out, f->nargs == 2 ? ", " : "");
            dyn_str_puts(out, f->nargs == 2 ? t : "");
            dyn_str_printf(out, ") __asm__(\"%s%s\") __attribute__((const, nothrow));\n", f->name, s);
        }
        dyn_str_printf(out, "#define %s%s dyn_%s%s\n", f->name, s, f->name, s);
        return;
    }
}

static void put_called(DynStr *out, Names *names, const char *text);

/* A row of ops_c.def, behind what it calls and names. */
static void put_helper(DynStr *out, Names *names, const DynOpHelper *h) {
    for (const char *c = h->needs; *c;) {
        size_t length = strcspn(c, " ");
        const DynOpHelper *needed = is_new(names, c, length) ? dyn_op_helper(c, length) : NULL;
        if (needed) {
            put_helper(out, names, needed);
        }
        c += length + strspn(c + length, " ");
    }
    put_called(out, names, h->text);
    dyn_str_puts(out, h->text);
}

/* What an identifier in front of a parenthesis names. */
static void put_called(DynStr *out, Names *names, const char *text) {
    const char *from = text;
    for (const char *end = strchr(text, '('); end != NULL; end = strchr(from, '(')) {
        const char *c = end;
        while (c > from && (isalnum((unsigned char)c[-1]) || c[-1] == '_')) {
            c--;
        }
        while (isdigit((unsigned char)*c)) {
            c++;
        }
        from = end + 1;
        size_t length = (size_t)(end - c);
        if (length == 0 || !is_new(names, c, length)) {
            continue;
        }
        const DynOpHelper *h = dyn_op_helper(c, length);
        if (h) {
            put_helper(out, names, h);
        } else {
            put_function(out, names, c, length);
        }
    }
}

void dyn_emit_helpers(DynStr *out, const char *body) {
    Names names; /* large, and used from its beginning on: not cleared */
    names.vectors = false;
    names.n = 0;
    dyn_str_puts(out, PROLOGUE);
    put_called(out, &names, body);
}
