/* Functions that are compiled several times, for processors with more instructions and with fewer. */

#include <stdint.h> /* where the C library is glibc, it says so */

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f"))) /* loops, which GCC vectorizes */
#else
#define FOR_EACH_PROCESSOR
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define WITH_AVX2 __attribute__((target("avx2,fma")))
static inline int has_avx2(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
#define WITH_AVX2
static inline int has_avx2(void) {
    return 0;
}
#endif
