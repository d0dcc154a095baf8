/* Functions that are compiled several times, for processors with more instructions and with fewer. */

#include <stdint.h> /* where the C library is glibc, it says so */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f"))) /* loops, which GCC vectorizes */
#else
#define FOR_EACH_PROCESSOR
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX2 __attribute__((target("avx2,fma")))
#define WITH_AVX512 __attribute__((target("avx512f,avx512vl,avx512dq")))
static inline int has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static inline int has_avx512(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#else
#define WITH_AVX2
#define WITH_AVX512
static inline int has_avx2(void) {
    return 0;
}
static inline int has_avx512(void) {
    return 0;
}
#endif
