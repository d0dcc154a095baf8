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

enum { BLOCK = 128 }; /* elements that are computed together */

typedef void (*function)(void *result, const void *x, void *other); /* of a block */

struct call {
    function of_block;
    char *result;
    const char *x;
    char *other; /* a second operand, or result */
    enum { NO_OTHER, OTHER_NUMBER, OTHER_OPERAND, OTHER_RESULT } kind_of_other;
    size_t bytes; /* of an element */
    long long n;
};

static void fill(char *to, const void *element, size_t bytes, size_t size) {
    memcpy(to, element, bytes < size ? bytes : size);
    for (size_t known = bytes; known < size; known *= 2) memcpy(to + known, to, known < size - known ? known : size - known);
}

/* In the last block the last element is repeated: an element's result doesn't depend on how threads divide the blocks, or on
   whether the compiler contracts products and sums where there are fewer elements than a vector has. */
static void compute_blocks(void *argument, long long from, long long to) {
    const struct call *call = argument;
    size_t bytes = call->bytes, block = BLOCK * bytes;
    _Alignas(64) char x[BLOCK * sizeof(double)], other[sizeof x], result[sizeof x];
    int is_array = call->kind_of_other == OTHER_OPERAND || call->kind_of_other == OTHER_RESULT;
    if (call->kind_of_other == OTHER_NUMBER) fill(other, call->other, bytes, block);
    for (; from < to && (from + 1) * BLOCK <= call->n; from++)
        call->of_block(call->result + from * block, call->x + from * block, is_array ? call->other + from * block : other);
    if (from == to) return;
    size_t rest = call->n * bytes - from * block;
    memcpy(x, call->x + from * block, rest);
    fill(x + rest, x + rest - bytes, bytes, block - rest);
    if (call->kind_of_other == OTHER_OPERAND) {
        memcpy(other, call->other + from * block, rest);
        fill(other + rest, other + rest - bytes, bytes, block - rest);
    }
    call->of_block(result, x, other);
    memcpy(call->result + from * block, result, rest);
    if (call->kind_of_other == OTHER_RESULT) memcpy(call->other + from * block, other, rest);
}

#define PARAMETERS void *result, const void **operands, const char *text, size_t length, void *status

/* "n": the results for n elements, which take about so many nanoseconds each. Of two operands "n 0"; "n 1" where the second
   one is a number. */
static inline void compute(PARAMETERS, int count, function of_block, size_t bytes, double nanoseconds) {
    long long numbers[2] = {0, 0};
    (void)status;
    read_numbers(text, length, numbers, count);
    int kind_of_other = count == 1 ? NO_OTHER : numbers[1] ? OTHER_NUMBER : OTHER_OPERAND;
    struct call call = {of_block, result, operands[0], (char *)operands[count - 1], kind_of_other, bytes, numbers[0]};
    xpr_parallel_for(compute_blocks, &call, (numbers[0] + BLOCK - 1) / BLOCK, BLOCK * nanoseconds);
}

#define NEVER(...) 0

/* By the formula, and by `exact` where that doesn't hold. */
#define DEFINE_BLOCK(name, formula, number, arguments, is_beyond, exact)                                                 \
    FOR_EACH_PROCESSOR static void name(void *results, const void *of_x, void *of_y) {                                   \
        typedef number __attribute__((may_alias)) element;                                                               \
        element *restrict result = results;                                                                              \
        const element *restrict x = of_x, *restrict y = of_y;                                                            \
        int64_t any = 0;                                                                                                 \
        (void)y;                                                                                                         \
        for (int i = 0; i < BLOCK; i++) {                                                                                \
            result[i] = formula arguments;                                                                               \
            any |= is_beyond arguments;                                                                                  \
        }                                                                                                                \
        for (int i = 0; any && i < BLOCK; i++)                                                                           \
            if (is_beyond arguments) result[i] = exact arguments;                                                        \
    }
#define DEFINE_CALL(name, number, nanoseconds, count)                                                                    \
    void xpr_elementwise_##name(PARAMETERS) {                                                                            \
        compute(result, operands, text, length, status, count, block_of_##name, sizeof(number), nanoseconds);            \
    }

#define DEFINE(name, number, nanoseconds, is_beyond, exact)                                                              \
    DEFINE_BLOCK(block_of_##name, name, number, (x[i]), is_beyond, exact)                                                \
    DEFINE_CALL(name, number, nanoseconds, 1)
#define DEFINE_BOTH(name, of_float, of_double)                                                                           \
    DEFINE(name##_float32, float, of_float, NEVER, NEVER)                                                                \
    DEFINE(name##_float64, double, of_double, NEVER, NEVER)
#define DEFINE_CIRCULAR(name, of_float, of_double)                                                                       \
    DEFINE(name##_float32, float, of_float, NEVER, NEVER)                                                                \
    DEFINE(name##_float64, double, of_double, name##_is_beyond_float64, name)
#define DEFINE_OF_TWO(name, number, nanoseconds, is_beyond, exact)                                                       \
    DEFINE_BLOCK(block_of_##name, name, number, (x[i], y[i]), is_beyond, exact)                                          \
    DEFINE_CALL(name, number, nanoseconds, 2)

/* By formulas that take half of the time, for blocks in which they hold for all elements. */
#define DEFINE_GAMMA(name, dtype, number, nanoseconds, FURTHER)                                                          \
    DEFINE_BLOCK(any_of_##name##_##dtype, name##_##dtype, number, (x[i]), NEVER, NEVER)                                  \
    DEFINE_BLOCK(positive_of_##name##_##dtype, name##_of_positive_##dtype, number, (x[i]), NEVER, NEVER)                 \
    FOR_EACH_PROCESSOR static void block_of_##name##_##dtype(void *result, const void *of_x, void *y) {                  \
        const number *x = of_x;                                                                                          \
        int positive = 0;                                                                                                \
        for (int i = 0; i < BLOCK; i++) positive += x[i] > 0;                                                            \
        if (positive == BLOCK)                                                                                           \
            positive_of_##name##_##dtype(result, x, y);                                                                  \
        else if (!FURTHER(result, x))                                                                                    \
            any_of_##name##_##dtype(result, x, y);                                                                       \
    }                                                                                                                    \
    DEFINE_CALL(name##_##dtype, number, nanoseconds, 1)

/* Computes the logarithms of gamma of small numbers, all of them, by a formula that is not exact where a result is near 0;
   returns whether it could. */
FOR_EACH_PROCESSOR static int lgamma_of_all_small(void *results, const void *of_x) {
    typedef float __attribute__((may_alias)) element;
    element *restrict result = results;
    const element *restrict x = of_x;
    int small = 0, near_zero = 0;
    for (int i = 0; i < BLOCK; i++) small += fabsf(x[i]) < 8;
    if (small < BLOCK) return 0;
    for (int i = 0; i < BLOCK; i++) {
        result[i] = lgamma_of_small_float32(x[i]);
        near_zero |= fabsf(result[i]) < 0x1p-14f;
    }
    return !near_zero;
}

DEFINE_BLOCK(rem_of_any_float32, rem_float32, float, (x[i], y[i]), NEVER, NEVER)
DEFINE_BLOCK(rem_of_small_quotients_float32, rem_of_small_quotient_float32, float, (x[i], y[i]), NEVER, NEVER)
FOR_EACH_PROCESSOR static void block_of_rem_float32(void *result, const void *of_x, void *of_y) {
    typedef float __attribute__((may_alias)) element;
    const element *x = of_x, *y = of_y;
    int small = 0;
    for (int i = 0; i < BLOCK; i++) small += fabs((double)x[i]) < 0x1p28 * fabs((double)y[i]);
    (small == BLOCK ? rem_of_small_quotients_float32 : rem_of_any_float32)(result, of_x, of_y);
}

/* "n": sines and cosines. */
#define DEFINE_SIN_COS(dtype, number, nanoseconds, is_beyond)                                                            \
    FOR_EACH_PROCESSOR static void block_of_sin_cos_##dtype(void *of_sin, const void *of_x, void *of_cos) {              \
        typedef number __attribute__((may_alias)) element;                                                               \
        element *restrict sines = of_sin, *restrict cosines = of_cos;                                                    \
        const element *restrict x = of_x;                                                                                \
        int64_t any = 0;                                                                                                 \
        for (int i = 0; i < BLOCK; i++) {                                                                                \
            sines[i] = sin_##dtype(x[i]);                                                                                \
            cosines[i] = cos_##dtype(x[i]);                                                                              \
            any |= is_beyond(x[i]);                                                                                      \
        }                                                                                                                \
        for (int i = 0; any && i < BLOCK; i++)                                                                           \
            if (is_beyond(x[i])) sines[i] = sin(x[i]), cosines[i] = cos(x[i]);                                           \
    }                                                                                                                    \
    void xpr_elementwise_sin_cos_##dtype(PARAMETERS) {                                                                   \
        long long n = 0;                                                                                                 \
        void **results = result;                                                                                         \
        (void)status;                                                                                                    \
        read_numbers(text, length, &n, 1);                                                                               \
        struct call call = {block_of_sin_cos_##dtype, results[0], operands[0], results[1], OTHER_RESULT, sizeof(number), n};   \
        xpr_parallel_for(compute_blocks, &call, (n + BLOCK - 1) / BLOCK, BLOCK * nanoseconds);                           \
    }

DEFINE_CIRCULAR(sin, 1.2, 1.8)
DEFINE_CIRCULAR(cos, 1.3, 1.8)
DEFINE_CIRCULAR(tan, 1.4, 2.5)
DEFINE_SIN_COS(float32, float, 2, NEVER)
DEFINE_SIN_COS(float64, double, 2, sin_is_beyond_float64)
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
DEFINE_GAMMA(lgamma, float32, float, 4, lgamma_of_all_small)
DEFINE_GAMMA(lgamma, float64, double, 5, NEVER)
DEFINE_GAMMA(digamma, float32, float, 3, NEVER)
DEFINE_GAMMA(digamma, float64, double, 4, NEVER)
DEFINE_BOTH(erf_inv, 1.8, 5)
DEFINE_OF_TWO(atan2_float32, float, 1.2, NEVER, NEVER)
DEFINE_OF_TWO(atan2_float64, double, 2.5, NEVER, NEVER)
DEFINE_OF_TWO(pow_float32, float, 2.5, NEVER, NEVER)
DEFINE_OF_TWO(pow_float64, double, 7, NEVER, NEVER)
DEFINE_CALL(rem_float32, float, 1, 2)
DEFINE_OF_TWO(rem_float64, double, 1, rem_is_beyond_float64, fmod)
