/* isa.c: which instruction set kernels are built for: the best level that this processor and operating system have.
 *
 * Called by compiler.c (flags), diskcache.c (key) and doctor.c (name). The answer is the same for the life of the process.
 * Objects of one level give the same bits on every machine that has it; a cache folder that machines share holds one object a
 * level. */
#include "codegen/run/isa.h"
#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>

#define FLAGS_V2 "-mcx16 -msahf -mpopcnt -msse3 -mssse3 -msse4.1 -msse4.2"
#define FLAGS_V3 FLAGS_V2 " -mavx -mavx2 -mfma -mbmi -mbmi2 -mf16c -mlzcnt -mmovbe"
#define FLAGS_V4 FLAGS_V3 " -mavx512f -mavx512bw -mavx512cd -mavx512dq -mavx512vl"
static const DynIsa levels[] = {{"x86-64", ""}, {"x86-64-v3", FLAGS_V3}, {"x86-64-v4", FLAGS_V4}};

/* The features of level 3 that not every compiler's __builtin_cpu_supports knows by name. */
static bool has_small_v3(void) {
    unsigned a, b, c, d, extended;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !__get_cpuid(0x80000001, &a, &b, &extended, &d)) {
        return false;
    }
    const unsigned basic = bit_F16C | bit_MOVBE | bit_CMPXCHG16B, more = bit_LZCNT | bit_LAHF_LM;
    return (c & basic) == basic && (extended & more) == more;
}

static const DynIsa *detect(void) {
    __builtin_cpu_init();
    bool has_v3 = has_small_v3(), has_v4;
    has_v3 = has_v3 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    has_v3 = has_v3 && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    has_v3 = has_v3 && __builtin_cpu_supports("popcnt");
    has_v4 = has_v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    has_v4 = has_v4 && __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq");
    has_v4 = has_v4 && __builtin_cpu_supports("avx512vl");
    return &levels[has_v4 ? 2 : has_v3];
}
#else
#if defined(__aarch64__)
static const DynIsa levels[] = {{"aarch64", ""}};
#else
static const DynIsa levels[] = {{"generic", ""}};
#endif
static const DynIsa *detect(void) { return levels; }
#endif

const DynIsa *dyn_isa_get(void) {
    static _Atomic(const DynIsa *) found;
    const DynIsa *isa = atomic_load_explicit(&found, memory_order_acquire);
    if (isa == NULL) { /* two threads may both look: they find the same */
        isa = detect();
        atomic_store_explicit(&found, isa, memory_order_release);
    }
    return isa;
}

size_t dyn_isa_number(void) { return (size_t)(dyn_isa_get() - levels); }
const DynIsa *dyn_isa_level(size_t i) { return i < DYN_COUNTOF(levels) ? &levels[i] : NULL; }
