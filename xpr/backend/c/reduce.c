/* Sums, maxima and minima of small arrays on CPU, called from compiled programs as the functions in sort.c are. */

#include <math.h>
#include <stddef.h>

#include "processors.h"
#include "text.h"

enum { LANES = 16 }; /* partial results, which don't wait for each other */

#define SUM(x, y) ((x) + (y))
#define MAXIMUM(x, y) ((y) > (x) | (y) != (y) ? (y) : (x)) /* nan where there is one; `||` would be a branch */
#define MINIMUM(x, y) ((y) < (x) | (y) != (y) ? (y) : (x))

/* For each of `outer` blocks: its `n` rows of `inner` numbers are combined to one. */
#define REDUCE(name, number, COMBINED, start)                                                                    \
    FOR_EACH_PROCESSOR void xpr_##name(number *restrict result, const number *x, const long long *sizes) {       \
        long long outer = sizes[0], n = sizes[1], inner = sizes[2];                                              \
        for (long long block = 0; block < outer; block++, x += n * inner, result += inner) {                     \
            if (inner > 1) {                                                                                     \
                for (long long j = 0; j < inner; j++) result[j] = start;                                         \
                for (long long i = 0; i < n; i++)                                                                \
                    for (long long j = 0; j < inner; j++) result[j] = COMBINED(result[j], x[i * inner + j]);     \
                continue;                                                                                        \
            }                                                                                                    \
            number lanes[LANES];                                                                                 \
            long long i = 0;                                                                                     \
            for (int j = 0; j < LANES; j++) lanes[j] = start;                                                    \
            for (; i + LANES <= n; i += LANES)                                                                   \
                for (int j = 0; j < LANES; j++) lanes[j] = COMBINED(lanes[j], x[i + j]);                         \
            for (; i < n; i++) lanes[i % LANES] = COMBINED(lanes[i % LANES], x[i]);                              \
            for (int width = LANES / 2; width; width /= 2)                                                       \
                for (int j = 0; j < width; j++) lanes[j] = COMBINED(lanes[j], lanes[j + width]);                 \
            *result = lanes[0];                                                                                  \
        }                                                                                                        \
    }

REDUCE(sum_float, float, SUM, 0)
REDUCE(sum_double, double, SUM, 0)
REDUCE(max_float, float, MAXIMUM, -INFINITY)
REDUCE(max_double, double, MAXIMUM, -INFINITY)
REDUCE(min_float, float, MINIMUM, INFINITY)
REDUCE(min_double, double, MINIMUM, INFINITY)

/* "bytes operation outer n inner": the sums (0), maxima (1) or minima (2) over the middle one of three axes, of numbers of
   so many bytes. */
void xpr_reduce(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5], *sizes = numbers + 2;
    (void)status;
    read_numbers(text, length, numbers, 5);
    if (numbers[0] == sizeof(float))
        (numbers[1] == 0 ? xpr_sum_float : numbers[1] == 1 ? xpr_max_float : xpr_min_float)(result, operands[0], sizes);
    else
        (numbers[1] == 0 ? xpr_sum_double : numbers[1] == 1 ? xpr_max_double : xpr_min_double)(result, operands[0], sizes);
}
