/* Elementwise functions on CPU, called from compiled programs as the functions in sort.c are.

   The formulas are those that XLA is given for many elements (xpr/primitives/vectorized/), which takes longer to compile them
   than to compute them for few. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "formulas.h"
#include "processors.h"
#include "text.h"
#include "threads.h"

enum { BLOCK = 128 }; /* elements, of which all may be positive, and in which a number is repeated */

typedef void (*function)(void *result, const void *x, const void *y, long long n);

struct call {
    function of_arrays;
    char *result;
    const char *x, *y;
    size_t bytes; /* of an element */
    long long is_number; /* whether `y` is one */
};

static void compute_some(void *argument, long long from, long long to) {
    const struct call *call = argument;
    char *result = call->result + from * call->bytes;
    const char *x = call->x + from * call->bytes;
    if (!call->is_number) {
        call->of_arrays(result, x, call->y + from * call->bytes, to - from);
        return;
    }
    char repeated[BLOCK * sizeof(double)];
    memcpy(repeated, call->y, call->bytes);
    for (size_t known = call->bytes; known < BLOCK * call->bytes; known *= 2) memcpy(repeated + known, repeated, known);
    for (; from < to; from += BLOCK, result += BLOCK * call->bytes, x += BLOCK * call->bytes)
        call->of_arrays(result, x, repeated, to - from < BLOCK ? to - from : BLOCK);
}

#define PARAMETERS void *result, const void **operands, const char *text, size_t length, void *status

/* "n": the results for n elements, which take about so many nanoseconds each. Of two operands "n 0"; "n 1" where the second
   one is a number. */
static inline void compute(PARAMETERS, int count, function of_arrays, size_t bytes, double nanoseconds) {
    long long numbers[2] = {0, 0};
    (void)status;
    read_numbers(text, length, numbers, count);
    struct call call = {of_arrays, result, operands[0], operands[count - 1], bytes, numbers[1]};
    xpr_parallel_for(compute_some, &call, numbers[0], nanoseconds);
}

#define NEVER(...) 0

/* By the formula, and by `exact` where that doesn't hold. */
#define DEFINE_LOOP(name, formula, number, arguments, is_beyond, exact)                                                  \
    FOR_EACH_PROCESSOR static void name(void *results, const void *of_x, const void *of_y, long long n) {                \
        number *restrict result = results;                                                                               \
        const number *restrict x = of_x, *restrict y = of_y;                                                             \
        int64_t any = 0;                                                                                                 \
        (void)y;                                                                                                         \
        for (long long i = 0; i < n; i++) {                                                                              \
            result[i] = formula arguments;                                                                               \
            any |= is_beyond arguments;                                                                                  \
        }                                                                                                                \
        for (long long i = 0; any && i < n; i++)                                                                         \
            if (is_beyond arguments) result[i] = exact arguments;                                                        \
    }
#define DEFINE_CALL(name, number, nanoseconds, count)                                                                    \
    void xpr_##name(PARAMETERS) {                                                                                        \
        compute(result, operands, text, length, status, count, name##_of_arrays, sizeof(number), nanoseconds);           \
    }

#define DEFINE(name, number, nanoseconds, is_beyond, exact)                                                              \
    DEFINE_LOOP(name##_of_arrays, name, number, (x[i]), is_beyond, exact)                                                \
    DEFINE_CALL(name, number, nanoseconds, 1)
#define DEFINE_BOTH(name, of_float, of_double)                                                                           \
    DEFINE(name##_float32, float, of_float, NEVER, NEVER)                                                                \
    DEFINE(name##_float64, double, of_double, NEVER, NEVER)
#define DEFINE_CIRCULAR(name, of_float, of_double)                                                                       \
    DEFINE(name##_float32, float, of_float, NEVER, NEVER)                                                                \
    DEFINE(name##_float64, double, of_double, name##_is_beyond_float64, name)
#define DEFINE_OF_TWO(name, number, nanoseconds, is_beyond, exact)                                                       \
    DEFINE_LOOP(name##_of_arrays, name, number, (x[i], y[i]), is_beyond, exact)                                          \
    DEFINE_CALL(name, number, nanoseconds, 2)

/* Of positive numbers by a shorter formula, which takes half of the time. */
#define DEFINE_GAMMA_OF(name, dtype, number, nanoseconds)                                                                \
    DEFINE_LOOP(name##_##dtype##_of_any, name##_##dtype, number, (x[i]), NEVER, NEVER)                                   \
    DEFINE_LOOP(name##_##dtype##_of_positive, name##_of_positive_##dtype, number, (x[i]), NEVER, NEVER)                  \
    FOR_EACH_PROCESSOR static void name##_##dtype##_of_arrays(                                                           \
        void *result, const void *of_x, const void *y, long long n) {                                                    \
        const number *x = of_x;                                                                                          \
        for (long long i = 0; i < n; i += BLOCK) {                                                                       \
            long long count = n - i < BLOCK ? n - i : BLOCK, positive = 0;                                               \
            for (long long j = 0; j < count; j++) positive += x[i + j] > 0;                                              \
            (positive == count ? name##_##dtype##_of_positive : name##_##dtype##_of_any)(                                \
                (number *)result + i, x + i, y, count);                                                                  \
        }                                                                                                                \
    }                                                                                                                    \
    DEFINE_CALL(name##_##dtype, number, nanoseconds, 1)
#define DEFINE_GAMMA(name, of_float, of_double)                                                                          \
    DEFINE_GAMMA_OF(name, float32, float, of_float)                                                                      \
    DEFINE_GAMMA_OF(name, float64, double, of_double)

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
DEFINE(log_float64, double, 1.4, NEVER, NEVER)
DEFINE_BOTH(cbrt, 0.9, 1.5)
DEFINE_GAMMA(lgamma, 4, 5)
DEFINE_GAMMA(digamma, 3, 4)
DEFINE_BOTH(erf_inv, 1.8, 5)
DEFINE_OF_TWO(atan2_float32, float, 1.2, NEVER, NEVER)
DEFINE_OF_TWO(atan2_float64, double, 2.5, NEVER, NEVER)
DEFINE_OF_TWO(pow_float32, float, 2.5, NEVER, NEVER)
DEFINE_OF_TWO(pow_float64, double, 7, NEVER, NEVER)
DEFINE_OF_TWO(rem_float32, float, 3, NEVER, NEVER)
DEFINE_OF_TWO(rem_float64, double, 1, rem_is_beyond_float64, fmod)
