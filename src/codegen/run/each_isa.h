/* each_isa.h: the text that LOOPS names, a file of loops, once for each instruction set: LOOP(name) makes a function's name,
 * TARGET says for what it is compiled. DYN_EACH_ISA (exec.h) makes the table of what came out. Included by exec_gather.c and
 * exec_scan.c, once. */
#define LOOP(name) name##_base
#define TARGET DYN_VECTORS
#include LOOPS
#undef LOOP
#undef TARGET
#if defined(__x86_64__)
#define LOOP(name) name##_avx2
#define TARGET DYN_AVX2
#include LOOPS
#undef LOOP
#undef TARGET
#define LOOP(name) name##_avx512
#define TARGET DYN_AVX512
#include LOOPS
#undef LOOP
#undef TARGET
#endif
