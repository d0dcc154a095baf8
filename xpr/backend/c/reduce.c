/* Sums, products, maxima and minima of small arrays on CPU, called from compiled programs as the functions in sort.c are. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "processors.h"
#include "text.h"

enum { WIDTH = 128 }; /* partial results, which don't wait for each other */

#define SUM(x, y) ((x) + (y))
#define PRODUCT(x, y) ((x) * (y))
#define MAXIMUM(x, y) ((y) > (x) | (y) != (y) ? (y) : (x)) /* nan where there is one; `||` would be a branch */
#define MINIMUM(x, y) ((y) < (x) | (y) != (y) ? (y) : (x))

/* The greatest (or least) of n numbers, several at a time; returns 0 if there may be a nan among them, since their sum is one. */
#define DEFINE_EXTREME(name, number, lanes, IS_BETTER, start)                                                            \
    static inline __attribute__((always_inline)) int name(const number *x, long long n, number *result) {                \
        number best[lanes], sums[lanes];                                                                                 \
        long long i = 0;                                                                                                 \
        for (int j = 0; j < lanes; j++) best[j] = start, sums[j] = 0;                                                    \
        for (; i + lanes <= n; i += lanes)                                                                               \
            for (int j = 0; j < lanes; j++) {                                                                            \
                best[j] = IS_BETTER(x[i + j], best[j]) ? x[i + j] : best[j];                                             \
                sums[j] += x[i + j];                                                                                     \
            }                                                                                                            \
        for (int j = 0; i + j < n; j++) {                                                                                \
            best[j] = IS_BETTER(x[i + j], best[j]) ? x[i + j] : best[j];                                                 \
            sums[j] += x[i + j];                                                                                         \
        }                                                                                                                \
        for (int half = lanes / 2; half; half /= 2)                                                                      \
            for (int j = 0; j < half; j++) {                                                                             \
                best[j] = IS_BETTER(best[j + half], best[j]) ? best[j + half] : best[j];                                 \
                sums[j] += sums[j + half];                                                                               \
            }                                                                                                            \
        *result = best[0];                                                                                               \
        return sums[0] == sums[0];                                                                                       \
    }

#define IS_GREATER(x, y) ((x) > (y))
#define IS_LESS(x, y) ((x) < (y))
#define NONE(x, n, result) 0
DEFINE_EXTREME(greatest_float, float, 64, IS_GREATER, -INFINITY)
DEFINE_EXTREME(greatest_double, double, 32, IS_GREATER, -INFINITY)
DEFINE_EXTREME(least_float, float, 64, IS_LESS, INFINITY)
DEFINE_EXTREME(least_double, double, 32, IS_LESS, INFINITY)

/* For each of `outer` blocks: its `n` rows of `inner` numbers are combined to one, several short rows at a time. Where there is
   one number in a row, OF_NUMBERS may find the result, and returns whether it has. */
#define REDUCE(name, number, COMBINED, start, OF_NUMBERS)                                                                \
    FOR_EACH_PROCESSOR void xpr_##name(void *results, const void *numbers, const long long *sizes) {                     \
        number *restrict result = results;                                                                               \
        const number *x = numbers;                                                                                       \
        long long outer = sizes[0], n = sizes[1], inner = sizes[2];                                                      \
        for (long long block = 0; block < outer; block++, x += n * inner, result += inner) {                             \
            if (inner > WIDTH / 2) {                                                                                     \
                for (long long j = 0; j < inner; j++) result[j] = start;                                                 \
                for (long long i = 0; i < n; i++)                                                                        \
                    for (long long j = 0; j < inner; j++) result[j] = COMBINED(result[j], x[i * inner + j]);             \
                continue;                                                                                                \
            }                                                                                                            \
            if (inner == 1 && OF_NUMBERS(x, n, result)) continue;                                                        \
            number partial[WIDTH];                                                                                       \
            long long rows = n < WIDTH / inner ? n : WIDTH / inner, width = rows * inner, i = 0;                         \
            for (long long j = 0; j < width; j++) partial[j] = start;                                                    \
            for (; i + width <= n * inner; i += width)                                                                   \
                for (long long j = 0; j < width; j++) partial[j] = COMBINED(partial[j], x[i + j]);                       \
            for (long long j = 0; i + j < n * inner; j++) partial[j] = COMBINED(partial[j], x[i + j]);                   \
            while (rows > 1) {                                                                                           \
                long long half = (rows + 1) / 2 * inner;                                                                 \
                for (long long j = 0; j < rows * inner - half; j++) partial[j] = COMBINED(partial[j], partial[half + j]);\
                rows = (rows + 1) / 2;                                                                                   \
            }                                                                                                            \
            for (long long j = 0; j < inner; j++) result[j] = partial[j];                                                \
        }                                                                                                                \
    }

REDUCE(sum_float, float, SUM, 0, NONE)
REDUCE(sum_double, double, SUM, 0, NONE)
REDUCE(sum_integer, uint32_t, SUM, 0, NONE) /* modulo 2^32 */
REDUCE(max_float, float, MAXIMUM, -INFINITY, greatest_float)
REDUCE(max_double, double, MAXIMUM, -INFINITY, greatest_double)
REDUCE(max_integer, int32_t, MAXIMUM, INT32_MIN, NONE)
REDUCE(min_float, float, MINIMUM, INFINITY, least_float)
REDUCE(min_double, double, MINIMUM, INFINITY, least_double)
REDUCE(min_integer, int32_t, MINIMUM, INT32_MAX, NONE)
REDUCE(product_float, float, PRODUCT, 1, NONE)
REDUCE(product_double, double, PRODUCT, 1, NONE)
REDUCE(product_integer, uint32_t, PRODUCT, 1, NONE)

typedef void (*reduction)(void *result, const void *x, const long long *sizes);
static const reduction reductions[4][3] = {
    {xpr_sum_float, xpr_sum_double, xpr_sum_integer},
    {xpr_max_float, xpr_max_double, xpr_max_integer},
    {xpr_min_float, xpr_min_double, xpr_min_integer},
    {xpr_product_float, xpr_product_double, xpr_product_integer},
};

/* "operation dtype outer n inner": the sums (0), maxima (1), minima (2) or products (3) over the middle one of three axes of
   float32 (0), float64 (1) or int32 (2). */
void xpr_reduce(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5];
    (void)status;
    read_numbers(text, length, numbers, 5);
    reductions[numbers[0]][numbers[1]](result, operands[0], numbers + 2);
}
