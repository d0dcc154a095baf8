/* Running sums, products, maxima and minima, and linear recurrences on CPU, called from compiled programs as the functions in
   sort.c are. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

enum { RECURRENCES = 4 };
enum { ROWS = 4, COLUMNS = 512 }; /* so many are computed together, since each element waits for the one before it */

#define SUM(last, x, factor) ((last) + (x))
#define PRODUCT(last, x, factor) ((last) * (x))
#define MAXIMUM(last, x, factor) ((x) > (last) | (x) != (x) ? (x) : (last)) /* nan from the first one on */
#define MINIMUM(last, x, factor) ((x) < (last) | (x) != (x) ? (x) : (last))
#define RECURRENCE(last, x, factor) ((factor) * (last) + (x))

/* The first function computes `lanes` vectors, whose elements are `apart` from those of the next vector, and `stride` from the
   next ones in the same vector. The second divides the array, or columns of it, into such vectors: rows, or parts of rows that
   are columns. */
#define DEFINE(name, number, carried, COMBINED)                                                                          \
    static inline __attribute__((always_inline)) void name##_vectors(                                                    \
        number *restrict result, const number *restrict x, const number *restrict factors, long long lanes,              \
        long long apart, long long n, long long stride) {                                                                \
        carried last[COLUMNS];                                                                                           \
        for (long long j = 0; j < lanes; j++) last[j] = result[j * apart] = x[j * apart];                                \
        for (long long i = 1; i < n; i++) {                                                                              \
            result += stride, x += stride, factors += stride;                                                            \
            for (long long j = 0, at = 0; j < lanes; j++, at += apart)                                                   \
                result[at] = (number)(last[j] = COMBINED(last[j], (carried)x[at], (carried)factors[at]));                \
        }                                                                                                                \
    }                                                                                                                    \
    FOR_EACH_PROCESSOR void xpr_##name(void *results, const void **operands, const void *last, const long long *sizes) { \
        long long outer = sizes[0], n = sizes[1], inner = sizes[2], block = n * inner;                                   \
        long long first = sizes[3] ? block - inner : 0, stride = sizes[3] ? -inner : inner, i = 0;                       \
        number *result = (number *)results + first;                                                                      \
        const number *x = (const number *)last + first, *factors = (const number *)operands[0] + first;                  \
        if (inner == 1)                                                                                                  \
            for (; i + ROWS <= outer; i += ROWS)                                                                         \
                name##_vectors(result + i * n, x + i * n, factors + i * n, ROWS, n, n, stride);                          \
        for (; i < outer; i++)                                                                                           \
            for (long long j = sizes[4], end = sizes[5]; j < end; j += COLUMNS) {                                        \
                long long at = i * block + j;                                                                            \
                if (inner == 1)                                                                                          \
                    name##_vectors(result + at, x + at, factors + at, 1, 1, n, stride);                                  \
                else                                                                                                     \
                    name##_vectors(                                                                                      \
                        result + at, x + at, factors + at, end - j < COLUMNS ? end - j : COLUMNS, 1, n, stride);         \
            }                                                                                                            \
    }

#define DEFINE_FOR_NUMBERS(name, COMBINED, carried_of_float, integer, long_integer)                                      \
    DEFINE(name##_float, float, carried_of_float, COMBINED)                                                              \
    DEFINE(name##_double, double, double, COMBINED)                                                                      \
    DEFINE(name##_integer, integer, integer, COMBINED)                                                                   \
    DEFINE(name##_long, long_integer, long_integer, COMBINED)

DEFINE_FOR_NUMBERS(cumsum, SUM, double, uint32_t, uint64_t) /* integers modulo 2^32, and 2^64 */
DEFINE_FOR_NUMBERS(cummax, MAXIMUM, float, int32_t, int64_t)
DEFINE_FOR_NUMBERS(cummin, MINIMUM, float, int32_t, int64_t)
DEFINE_FOR_NUMBERS(cumprod, PRODUCT, float, uint32_t, uint64_t)
DEFINE(recurrence_float, float, float, RECURRENCE)
DEFINE(recurrence_double, double, double, RECURRENCE)

typedef void (*cumulative)(void *result, const void **operands, const void *last, const long long *sizes);
static const cumulative functions[5][4] = {
    {xpr_cumsum_float, xpr_cumsum_double, xpr_cumsum_integer, xpr_cumsum_long},
    {xpr_cummax_float, xpr_cummax_double, xpr_cummax_integer, xpr_cummax_long},
    {xpr_cummin_float, xpr_cummin_double, xpr_cummin_integer, xpr_cummin_long},
    {xpr_cumprod_float, xpr_cumprod_double, xpr_cumprod_integer, xpr_cumprod_long},
    {xpr_recurrence_float, xpr_recurrence_double, 0, 0},
};

struct call {
    cumulative function;
    char *result;
    const void **operands;
    long long operands_count, bytes, sizes[4];
};

static void compute_rows(void *argument, long long from, long long to) { /* ROWS of them each, or the last ones */
    struct call *call = argument;
    long long *of_all = call->sizes, end = to * ROWS < of_all[0] ? to * ROWS : of_all[0];
    long long sizes[] = {end - from * ROWS, of_all[1], of_all[2], of_all[3], 0, of_all[2]};
    long long first = from * ROWS * of_all[1] * of_all[2] * call->bytes;
    const void *factors = (const char *)call->operands[0] + first; /* read by recurrences only */
    const char *last = call->operands[call->operands_count - 1];
    call->function(call->result + first, &factors, last + first, sizes);
}

static void compute_columns(void *argument, long long from, long long to) { /* COLUMNS of them each, or the last ones */
    struct call *call = argument;
    long long *of_all = call->sizes, end = to * COLUMNS < of_all[2] ? to * COLUMNS : of_all[2];
    long long sizes[] = {of_all[0], of_all[1], of_all[2], of_all[3], from * COLUMNS, end};
    call->function(call->result, call->operands, call->operands[call->operands_count - 1], sizes);
}

/* "operation dtype outer n inner reverse": the running sums (0), maxima (1), minima (2) or products (3) of the operand along the
   middle one of three axes, or with two operands, a and b, the recurrence h[i] = a[i] h[i-1] + b[i] (4); of float32 (0), whose
   sums are float64 until they are stored, float64 (1), int32 (2) or int64 (3); from the end where `reverse` is 1. */
void xpr_cumulative(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[6];
    (void)status;
    read_numbers(text, length, numbers, 6);
    long long operation = numbers[0], dtype = numbers[1], outer = numbers[2], inner = numbers[4], bytes = dtype % 2 ? 8 : 4;
    struct call call = {functions[operation][dtype], result, operands, operation == RECURRENCES ? 2 : 1, bytes, {0}};
    memcpy(call.sizes, numbers + 2, sizeof call.sizes);
    double nanoseconds = 0.6 * outer * numbers[3] * inner;
    if (outer < 2 * ROWS && inner >= 2 * COLUMNS)
        xpr_parallel_for(compute_columns, &call, (inner + COLUMNS - 1) / COLUMNS, nanoseconds * COLUMNS / inner);
    else
        xpr_parallel_for(compute_rows, &call, (outer + ROWS - 1) / ROWS, nanoseconds * ROWS / outer);
}
