/* Sums, products, maxima and minima on CPU, called from compiled programs as the functions in sort.c are. */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

enum { WIDTH = 128 };                 /* partial results, which don't wait for each other */
enum { TOGETHER = 32, TILE = 1024 }; /* rows, and numbers of each, that are summed before they are added to all, as doubles */

#define SUM(x, y) ((x) + (y))
#define PRODUCT(x, y) ((x) * (y))
#define MAXIMUM(x, y) ((y) > (x) | (y) != (y) ? (y) : (x)) /* nan where there is one; `||` would be a branch */
#define MINIMUM(x, y) ((y) < (x) | (y) != (y) ? (y) : (x))

/* The same of five numbers, in fewer instructions; of maxima and minima only if none of the last four is nan. Of equal ones,
   which may be zeros, it is the first. */
#define SUM_OF_FIVE(v, a, b, c, d) ((((v) + (a)) + (b)) + (c)) + (d)
#define PRODUCT_OF_FIVE(v, a, b, c, d) ((((v) * (a)) * (b)) * (c)) * (d)
#define GREATER(x, y) ((y) > (x) ? (y) : (x))
#define LESSER(x, y) ((y) < (x) ? (y) : (x))
#define MAXIMUM_OF_FIVE(v, a, b, c, d) GREATER(v, GREATER(GREATER(a, b), GREATER(c, d)))
#define MINIMUM_OF_FIVE(v, a, b, c, d) LESSER(v, LESSER(LESSER(a, b), LESSER(c, d)))
#define ARE_NAN(a, b, c, d) (__builtin_isunordered(a, b) | __builtin_isunordered(c, d))
#define NEVER(a, b, c, d) 0

/* 64 bytes of numbers, wherever they are in memory, and as many integers of that size. */
typedef float floats __attribute__((vector_size(64), aligned(4), may_alias));
typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
typedef uint32_t integers __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t masks_of_4_bytes __attribute__((vector_size(64)));
typedef int64_t masks_of_8_bytes __attribute__((vector_size(64)));
#define LOAD(vector, x) (*(const vector *)(x))

/* The greatest (or least) of n numbers, several at a time; returns 0 if there may be a nan among them, since their sum is one.
   Many numbers are taken by loops that the compiler vectorizes; of fewer, the last vector overlaps the one before. */
#define DEFINE_EXTREME(name, number, vector, mask, IS_BETTER, start)                                                     \
    static inline __attribute__((always_inline)) int name(const number *x, long long n, number *result) {                \
        enum { FEW = sizeof(vector) / sizeof(number), MANY = 4 * FEW };                                                  \
        if (n < FEW) {                                                                                                   \
            number best = start, sum = 0;                                                                                \
            for (long long i = 0; i < n; i++) best = IS_BETTER(x[i], best) ? x[i] : best, sum += x[i];                   \
            *result = best;                                                                                              \
            return sum == sum;                                                                                           \
        }                                                                                                                \
        vector best = LOAD(vector, x + n - FEW), sum = best;                                                             \
        if (n < 4 * MANY)                                                                                                \
            for (long long i = 0; i + FEW <= n; i += FEW) {                                                              \
                vector v = LOAD(vector, x + i);                                                                          \
                mask wins = IS_BETTER(v, best);                                                                          \
                best = (vector)((mask)best ^ (((mask)best ^ (mask)v) & wins));                                           \
                sum += v;                                                                                                \
            }                                                                                                            \
        else {                                                                                                           \
            number bests[MANY], sums[MANY];                                                                              \
            long long i = 0;                                                                                             \
            for (int j = 0; j < MANY; j++) bests[j] = x[n - MANY + j], sums[j] = bests[j];                               \
            for (; i + MANY <= n; i += MANY)                                                                             \
                for (int j = 0; j < MANY; j++) {                                                                         \
                    bests[j] = IS_BETTER(x[i + j], bests[j]) ? x[i + j] : bests[j];                                      \
                    sums[j] += x[i + j];                                                                                 \
                }                                                                                                        \
            for (int half = MANY / 2; half >= FEW; half /= 2)                                                            \
                for (int j = 0; j < half; j++) {                                                                         \
                    bests[j] = IS_BETTER(bests[j + half], bests[j]) ? bests[j + half] : bests[j];                        \
                    sums[j] += sums[j + half];                                                                           \
                }                                                                                                        \
            best = LOAD(vector, bests), sum = LOAD(vector, sums);                                                        \
        }                                                                                                                \
        number first = best[0], total = sum[0];                                                                          \
        for (int j = 1; j < FEW; j++) first = IS_BETTER(best[j], first) ? best[j] : first, total += sum[j];              \
        *result = first;                                                                                                 \
        return total == total;                                                                                           \
    }

#define IS_GREATER(x, y) ((x) > (y))
#define IS_LESS(x, y) ((x) < (y))
#define NONE(x, n, result) 0
DEFINE_EXTREME(greatest_float, float, floats, masks_of_4_bytes, IS_GREATER, -INFINITY)
DEFINE_EXTREME(greatest_double, double, doubles, masks_of_8_bytes, IS_GREATER, -INFINITY)
DEFINE_EXTREME(least_float, float, floats, masks_of_4_bytes, IS_LESS, INFINITY)
DEFINE_EXTREME(least_double, double, doubles, masks_of_8_bytes, IS_LESS, INFINITY)

/* The sum of n numbers, four vectors at a time: partial sums of 32 numbers each are added to totals. The last vector overlaps
   the one before, and what that has added is masked. */
#define DEFINE_SUM(name, number, vector, mask)                                                                           \
    static inline __attribute__((always_inline)) int name(const number *x, long long n, number *result) {                \
        enum { LANES = sizeof(vector) / sizeof(number) };                                                                \
        number sum = 0;                                                                                                  \
        if (n < LANES) {                                                                                                 \
            for (long long i = 0; i < n; i++) sum += x[i];                                                               \
            *result = sum;                                                                                               \
            return 1;                                                                                                    \
        }                                                                                                                \
        vector total = {0};                                                                                              \
        long long i = 0;                                                                                                 \
        while (i + 4 * LANES <= n) {                                                                                     \
            vector sums[4] = {{0}};                                                                                      \
            for (int times = 0; times < 32 && i + 4 * LANES <= n; times++, i += 4 * LANES)                               \
                for (int k = 0; k < 4; k++) sums[k] += LOAD(vector, x + i + k * LANES);                                  \
            total += (sums[0] + sums[1]) + (sums[2] + sums[3]);                                                          \
        }                                                                                                                \
        for (; i + LANES <= n; i += LANES) total += LOAD(vector, x + i);                                                 \
        mask index;                                                                                                      \
        for (int j = 0; j < LANES; j++) index[j] = j;                                                                    \
        total += (vector)((mask)LOAD(vector, x + n - LANES) & (index >= (int)(LANES - (n - i))));                        \
        for (int half = LANES / 2; half; half /= 2)                                                                      \
            for (int j = 0; j < half; j++) total[j] += total[j + half];                                                  \
        *result = total[0];                                                                                              \
        return 1;                                                                                                        \
    }

DEFINE_SUM(sum_of_floats, float, floats, masks_of_4_bytes)
DEFINE_SUM(sum_of_doubles, double, doubles, masks_of_8_bytes)
DEFINE_SUM(sum_of_integers, uint32_t, integers, masks_of_4_bytes) /* modulo 2^32 */

/* For each of `outer` blocks: its `n` rows of `inner` numbers are combined to one, several short rows at a time. Long ones may be
   parts of rows of `whole` numbers. Where there is one number in a row, OF_NUMBERS may find the result, and returns whether it
   has. */
#define REDUCE(name, number, wide, COMBINED, OF_FIVE, UNLESS, start, OF_NUMBERS)                                         \
    FOR_EACH_PROCESSOR void xpr_##name(void *results, const void *numbers, const long long *sizes) {                     \
        number *restrict result = results;                                                                               \
        const number *x = numbers;                                                                                       \
        long long outer = sizes[0], n = sizes[1], inner = sizes[2], whole = sizes[3];                                    \
        for (long long block = 0; block < outer; block++, x += n * whole, result += whole) {                             \
            for (long long at = 0; inner > WIDTH / 2 && at < inner; at += TILE) {                                        \
                wide all[TILE];                                                                                          \
                number some[TILE];                                                                                       \
                int width = inner - at < TILE ? inner - at : TILE;                                                       \
                for (int j = 0; j < width; j++) all[j] = start;                                                          \
                for (long long first = 0, end; first < n; first = end) {                                                 \
                    end = n - first < TOGETHER ? n : first + TOGETHER;                                                   \
                    for (int j = 0; j < width; j++) some[j] = x[first * whole + at + j];                                 \
                    long long i = first + 1;                                                                             \
                    int is_undone = 0;                                                                                   \
                    for (; i + 4 <= end; i += 4) {                                                                       \
                        const number *a = x + i * whole + at, *b = a + whole, *c = b + whole, *d = c + whole;            \
                        for (int j = 0; j < width; j++) {                                                                \
                            some[j] = OF_FIVE(some[j], a[j], b[j], c[j], d[j]);                                          \
                            is_undone |= UNLESS(a[j], b[j], c[j], d[j]);                                                 \
                        }                                                                                                \
                    }                                                                                                    \
                    if (is_undone) i = first + 1;                                                                        \
                    for (; i < end; i++)                                                                                 \
                        for (int j = 0; j < width; j++) some[j] = COMBINED(some[j], x[i * whole + at + j]);              \
                    for (int j = 0; j < width; j++) all[j] = COMBINED(all[j], (wide)some[j]);                            \
                }                                                                                                        \
                for (int j = 0; j < width; j++) result[at + j] = (number)all[j];                                         \
            }                                                                                                            \
            if (inner > WIDTH / 2 || (inner == 1 && OF_NUMBERS(x, n, result))) continue;                                 \
            wide all[WIDTH];                                                                                             \
            number some[WIDTH];                                                                                          \
            long long rows = n < WIDTH / inner ? n : WIDTH / inner, width = rows * inner, i = 0;                         \
            for (long long j = 0; j < width; j++) all[j] = start;                                                        \
            while (i + width <= n * inner) {                                                                             \
                for (long long j = 0; j < width; j++) some[j] = x[i + j];                                                \
                i += width;                                                                                              \
                for (int times = 1; times < TOGETHER && i + width <= n * inner; times++, i += width)                     \
                    for (long long j = 0; j < width; j++) some[j] = COMBINED(some[j], x[i + j]);                         \
                for (long long j = 0; j < width; j++) all[j] = COMBINED(all[j], (wide)some[j]);                          \
            }                                                                                                            \
            for (long long j = 0; i + j < n * inner; j++) all[j] = COMBINED(all[j], (wide)x[i + j]);                     \
            while (rows > 1) {                                                                                           \
                long long half = (rows + 1) / 2 * inner;                                                                 \
                for (long long j = 0; j < rows * inner - half; j++) all[j] = COMBINED(all[j], all[half + j]);            \
                rows = (rows + 1) / 2;                                                                                   \
            }                                                                                                            \
            for (long long j = 0; j < inner; j++) result[j] = (number)all[j];                                            \
        }                                                                                                                \
    }

REDUCE(sum_float, float, double, SUM, SUM_OF_FIVE, NEVER, 0, sum_of_floats)
REDUCE(sum_double, double, double, SUM, SUM_OF_FIVE, NEVER, 0, sum_of_doubles)
REDUCE(sum_integer, uint32_t, uint32_t, SUM, SUM_OF_FIVE, NEVER, 0, sum_of_integers)
REDUCE(max_float, float, float, MAXIMUM, MAXIMUM_OF_FIVE, ARE_NAN, -INFINITY, greatest_float)
REDUCE(max_double, double, double, MAXIMUM, MAXIMUM_OF_FIVE, ARE_NAN, -INFINITY, greatest_double)
REDUCE(max_integer, int32_t, int32_t, MAXIMUM, MAXIMUM_OF_FIVE, NEVER, INT32_MIN, NONE)
REDUCE(min_float, float, float, MINIMUM, MINIMUM_OF_FIVE, ARE_NAN, INFINITY, least_float)
REDUCE(min_double, double, double, MINIMUM, MINIMUM_OF_FIVE, ARE_NAN, INFINITY, least_double)
REDUCE(min_integer, int32_t, int32_t, MINIMUM, MINIMUM_OF_FIVE, NEVER, INT32_MAX, NONE)
REDUCE(product_float, float, float, PRODUCT, PRODUCT_OF_FIVE, NEVER, 1, NONE)
REDUCE(product_double, double, double, PRODUCT, PRODUCT_OF_FIVE, NEVER, 1, NONE)
REDUCE(product_integer, uint32_t, uint32_t, PRODUCT, PRODUCT_OF_FIVE, NEVER, 1, NONE)

typedef void (*reduction)(void *result, const void *x, const long long *sizes);
static const reduction reductions[4][3] = {
    {xpr_sum_float, xpr_sum_double, xpr_sum_integer},
    {xpr_max_float, xpr_max_double, xpr_max_integer},
    {xpr_min_float, xpr_min_double, xpr_min_integer},
    {xpr_product_float, xpr_product_double, xpr_product_integer},
};

enum { PIECES = 32, MANY_ROWS = 8 * PIECES, LONG_ROW = 1 << 15, FEW_BLOCKS = 8 }; /* of few or long rows columns are divided */

struct call {
    reduction of_processor;
    char *result;
    const char *x;
    long long bytes, n, inner;
};

static void reduce_blocks(void *argument, long long from, long long to) {
    struct call *call = argument;
    long long sizes[] = {to - from, call->n, call->inner, call->inner};
    long long row = call->inner * call->bytes;
    call->of_processor(call->result + from * row, call->x + from * call->n * row, sizes);
}

/* Of a block: WIDTH columns each, and the rest with the last. */
static void reduce_columns(void *argument, long long from, long long to) {
    struct call *call = argument;
    long long first = from * WIDTH, end = to == call->inner / WIDTH ? call->inner : to * WIDTH;
    long long sizes[] = {1, call->n, end - first, call->inner};
    call->of_processor(call->result + first * call->bytes, call->x + first * call->bytes, sizes);
}

/* Of a block: some of its rows each. */
static void reduce_pieces(void *argument, long long from, long long to) {
    struct call *call = argument;
    for (long long piece = from; piece < to; piece++) {
        long long first = call->n * piece / PIECES, end = call->n * (piece + 1) / PIECES, row = call->inner * call->bytes;
        long long sizes[] = {1, end - first, call->inner, call->inner};
        call->of_processor(call->result + piece * row, call->x + first * row, sizes);
    }
}

static void reduce_block(struct call call, double nanoseconds) {
    int is_divided = call.n >= MANY_ROWS && call.inner <= LONG_ROW;
    void *of_pieces = is_divided ? malloc(PIECES * call.inner * call.bytes) : NULL;
    if (of_pieces) { /* so many whatever threads there are, for equal sums */
        void *result = call.result;
        long long sizes[] = {1, PIECES, call.inner, call.inner};
        call.result = of_pieces;
        xpr_parallel_for(reduce_pieces, &call, PIECES, nanoseconds / PIECES);
        call.of_processor(result, of_pieces, sizes);
        free(of_pieces);
    } else if (call.inner > WIDTH)
        xpr_parallel_for(reduce_columns, &call, call.inner / WIDTH, nanoseconds * WIDTH / call.inner);
    else
        reduce_blocks(&call, 0, 1);
}

/* "operation dtype outer n inner": the sums (0), maxima (1), minima (2) or products (3) over the middle one of three axes of
   float32 (0), float64 (1) or int32 (2). */
void xpr_reduce(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5];
    (void)status;
    read_numbers(text, length, numbers, 5);
    long long operation = numbers[0], dtype = numbers[1], outer = numbers[2], n = numbers[3], inner = numbers[4];
    struct call call = {reductions[operation][dtype], result, operands[0], dtype == 1 ? 8 : 4, n, inner};
    double nanoseconds = NANOSECONDS_A_BYTE * n * inner * call.bytes; /* for a block */
    if (outer > FEW_BLOCKS || nanoseconds < WORTH_A_THREAD) {
        xpr_parallel_for(reduce_blocks, &call, outer, nanoseconds);
        return;
    }
    for (; outer; outer--, call.x += n * inner * call.bytes, call.result += inner * call.bytes) reduce_block(call, nanoseconds);
}
