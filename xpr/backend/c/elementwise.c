/* Elementwise functions on CPU, called from compiled programs as the functions in sort.c are.

   The formulas are those that XLA is given for many elements (xpr/primitives/vectorized/), which takes longer to compile them
   than to compute them for few. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "formulas.h"
#include "processors.h"
#include "text.h"
#include "threads.h"

struct call {
    void *result;
    const void *x, *y;
};

#define NEVER(...) 0

/* "n": the results for n elements, which take about so many nanoseconds each; by `exact` where the formula doesn't hold. */
#define DEFINE(name, number, count, arguments, nanoseconds, is_beyond, exact)                                            \
    FOR_EACH_PROCESSOR static void name##_of_all(                                                                        \
        number *restrict result, const number *restrict x, const number *restrict y, long long n) {                      \
        int64_t any = 0;                                                                                                 \
        (void)y;                                                                                                         \
        for (long long i = 0; i < n; i++) {                                                                              \
            result[i] = name arguments;                                                                                  \
            any |= is_beyond arguments;                                                                                  \
        }                                                                                                                \
        for (long long i = 0; any && i < n; i++)                                                                         \
            if (is_beyond arguments) result[i] = exact arguments;                                                        \
    }                                                                                                                    \
    static void name##_of_some(void *argument, long long from, long long to) {                                           \
        const struct call *call = argument;                                                                              \
        const number *x = call->x, *y = call->y;                                                                         \
        name##_of_all((number *)call->result + from, x + from, y + from, to - from);                                     \
    }                                                                                                                    \
    void xpr_##name(void *result, const void **operands, const char *text, size_t length, void *status) {                \
        struct call call = {result, operands[0], operands[count - 1]};                                                   \
        long long n;                                                                                                     \
        (void)status;                                                                                                    \
        read_numbers(text, length, &n, 1);                                                                               \
        xpr_parallel_for(name##_of_some, &call, n, nanoseconds);                                                         \
    }
#define DEFINE_BOTH(name, for_float, for_double)                                                                         \
    DEFINE(name##_float32, float, 1, (x[i]), for_float, NEVER, NEVER)                                                    \
    DEFINE(name##_float64, double, 1, (x[i]), for_double, NEVER, NEVER)
#define DEFINE_CIRCULAR(name, for_float, for_double)                                                                     \
    DEFINE(name##_float32, float, 1, (x[i]), for_float, NEVER, NEVER)                                                    \
    DEFINE(name##_float64, double, 1, (x[i]), for_double, name##_is_beyond_float64, name)

DEFINE_CIRCULAR(sin, 1.2, 1.8)
DEFINE_CIRCULAR(cos, 1.3, 1.8)
DEFINE_CIRCULAR(tan, 1.4, 2.5)
DEFINE_BOTH(asin, 0.5, 1.2)
DEFINE_BOTH(acos, 0.5, 1.2)
DEFINE_BOTH(atan, 0.5, 1.3)
DEFINE_BOTH(sinh, 0.5, 1.5)
DEFINE_BOTH(cosh, 0.5, 1.2)
DEFINE_BOTH(asinh, 1.3, 2.5)
DEFINE_BOTH(acosh, 1.3, 2.2)
DEFINE_BOTH(atanh, 1.2, 2.2)
DEFINE_BOTH(expm1, 0.6, 1.2)
DEFINE_BOTH(log1p, 0.8, 1.5)
DEFINE(log_float64, double, 1, (x[i]), 1.4, NEVER, NEVER)
DEFINE_BOTH(cbrt, 0.9, 1.5)
DEFINE_BOTH(lgamma, 9, 10)
DEFINE_BOTH(digamma, 5, 6)
DEFINE_BOTH(erf_inv, 1.8, 5)
DEFINE(atan2_float32, float, 2, (x[i], y[i]), 1.2, NEVER, NEVER)
DEFINE(atan2_float64, double, 2, (x[i], y[i]), 2.5, NEVER, NEVER)
DEFINE(pow_float32, float, 2, (x[i], y[i]), 2.5, NEVER, NEVER)
DEFINE(pow_float64, double, 2, (x[i], y[i]), 7, NEVER, NEVER)
DEFINE(rem_float32, float, 2, (x[i], y[i]), 3, NEVER, NEVER)
DEFINE(rem_float64, double, 2, (x[i], y[i]), 1, rem_is_beyond_float64, fmod)
