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

typedef void (*function)(void *result, const void *x, const void *y); /* of a block */

struct call {
    function of_block;
    char *result;
    const char *x, *y;
    size_t bytes; /* of an element */
    long long n;
    int y_is_number;
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
    _Alignas(64) char number[BLOCK * sizeof(double)], x[sizeof number], y[sizeof number], result[sizeof number];
    if (call->y_is_number) fill(number, call->y, bytes, block);
    for (; from < to && (from + 1) * BLOCK <= call->n; from++)
        call->of_block(call->result + from * block, call->x + from * block, call->y_is_number ? number : call->y + from * block);
    if (from == to) return;
    size_t rest = call->n * bytes - from * block;
    memcpy(x, call->x + from * block, rest);
    fill(x + rest, x + rest - bytes, bytes, block - rest);
    if (!call->y_is_number) {
        memcpy(y, call->y + from * block, rest);
        fill(y + rest, y + rest - bytes, bytes, block - rest);
    }
    call->of_block(result, x, call->y_is_number ? number : y);
    memcpy(call->result + from * block, result, rest);
}

#define PARAMETERS void *result, const void **operands, const char *text, size_t length, void *status

/* "n": the results for n elements, which take about so many nanoseconds each. Of two operands "n 0"; "n 1" where the second
   one is a number. */
static inline void compute(PARAMETERS, int count, function of_block, size_t bytes, double nanoseconds) {
    long long numbers[2] = {0, 0};
    (void)status;
    read_numbers(text, length, numbers, count);
    struct call call = {of_block, result, operands[0], operands[count - 1], bytes, numbers[0], numbers[1] != 0};
    xpr_parallel_for(compute_blocks, &call, (numbers[0] + BLOCK - 1) / BLOCK, BLOCK * nanoseconds);
}

#define NEVER(...) 0

/* By the formula, and by `exact` where that doesn't hold. */
#define DEFINE_BLOCK(name, formula, number, arguments, is_beyond, exact)                                                 \
    FOR_EACH_PROCESSOR static void name(void *results, const void *of_x, const void *of_y) {                             \
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

/* Of positive numbers by a shorter formula, which takes half of the time. */
#define DEFINE_GAMMA_OF(name, dtype, number, nanoseconds)                                                                \
    DEFINE_BLOCK(any_of_##name##_##dtype, name##_##dtype, number, (x[i]), NEVER, NEVER)                                  \
    DEFINE_BLOCK(positive_of_##name##_##dtype, name##_of_positive_##dtype, number, (x[i]), NEVER, NEVER)                 \
    FOR_EACH_PROCESSOR static void block_of_##name##_##dtype(void *result, const void *of_x, const void *y) {            \
        const number *x = of_x;                                                                                          \
        int positive = 0;                                                                                                \
        for (int i = 0; i < BLOCK; i++) positive += x[i] > 0;                                                            \
        (positive == BLOCK ? positive_of_##name##_##dtype : any_of_##name##_##dtype)(result, x, y);                      \
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
