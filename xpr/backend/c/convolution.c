/* Convolutions of each feature by itself, on CPU, called from compiled programs as the functions in sort.c are.

   At each position p of a grid of rows, whose elements are (column, feature), and for each offset d of a window:

     results of positions: y[p] is the sum over d of x[p + d] w[d], where w has a number for each offset and feature;
     results of offsets:   w[d] is the sum over p of x[p + d] y[p], for each feature.

   So the second are gradients of the first to the window. A row is cut into blocks of a few vectors; each is read once for each
   offset. A block begins at some feature and goes on with the next column, so numbers by feature are repeated until a block
   can begin at any of them. */

#include <stdint.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

/* Of a call: what is computed; its dtype; how many images have results of their own, and how many are summed; rows and columns
   of positions; features; rows and columns of an image, of which each has all that is read; rows and columns of offsets; rows of
   an image from one position to the next; rows and columns from one offset to the next. */
struct sizes {
    long long of_offsets, dtype, images, summed, rows, columns, features, image_rows, image_columns, window_rows, window_columns,
        row_step, row_offset, column_offset;
};

struct call {
    const void *x, *repeated;
    void *y;
    const struct sizes *s;
    long long segments; /* of a row */
};

#define NANOSECONDS 0.6 /* for a vector of products */

enum { SIZES = sizeof(struct sizes) / sizeof(long long), VECTORS = 4, BYTES = 64 };

#define DEFINE_CONVOLUTION(number, vector)                                                                                      \
    typedef number vector __attribute__((vector_size(BYTES), aligned(sizeof(number)), may_alias));                              \
    enum { LANES_##number = BYTES / sizeof(number), BLOCK_##number = VECTORS * LANES_##number };                                \
                                                                                                                                \
    /* The sums over all offsets in a block of `count` positions, a whole one where that is constant. */                        \
    static inline __attribute__((always_inline)) void block_##number(const number *x, const number *w, number *y,               \
                                                                     long long period, long long count,                         \
                                                                     const struct sizes *s) {                                   \
        long long width = s->image_columns * s->features;                                                                       \
        number sums[BLOCK_##number] = {0};                                                                                      \
        vector v[VECTORS] = {{0}};                                                                                              \
        for (long long i = 0; i < s->window_rows; i++)                                                                          \
            for (long long j = 0; j < s->window_columns; j++, w += period) {                                                    \
                const number *from = x + i * s->row_offset * width + j * s->column_offset * s->features;                        \
                if (count == BLOCK_##number && s->features == 1)                                                                \
                    for (int k = 0; k < VECTORS; k++) v[k] += *(const vector *)(from + k * LANES_##number) * w[0];              \
                else if (count == BLOCK_##number)                                                                               \
                    for (int k = 0; k < VECTORS; k++)                                                                           \
                        v[k] += *(const vector *)(from + k * LANES_##number) * *(const vector *)(w + k * LANES_##number);       \
                else                                                                                                            \
                    for (long long k = 0; k < count; k++) sums[k] += from[k] * w[k];                                            \
            }                                                                                                                   \
        for (long long k = 0; k < count; k++) y[k] = count == BLOCK_##number ? ((number *)v)[k] : sums[k];                      \
    }                                                                                                                           \
                                                                                                                                \
    /* Of segments of the rows: a block each; the last of a row has one more, which overlaps with it. */                        \
    FOR_EACH_PROCESSOR static void positions_##number(void *argument, long long segment, long long to) {                        \
        const struct call *call = argument;                                                                                     \
        const struct sizes *s = call->s;                                                                                        \
        const number *w = call->repeated;                                                                                       \
        long long row = s->columns * s->features, image_row = s->image_columns * s->features;                                   \
        long long period = s->features + BLOCK_##number;                                                                        \
        for (; segment < to; segment++) {                                                                                       \
            long long i = segment / call->segments, last = row - BLOCK_##number;                                                \
            const number *from = (const number *)call->x + (i / s->rows * s->image_rows + i % s->rows * s->row_step) * image_row; \
            number *y = (number *)call->y + i * row;                                                                            \
            long long at = segment % call->segments * BLOCK_##number;                                                           \
            if (last < 0)                                                                                                       \
                block_##number(from, w, y, period, row, s);                                                                     \
            else                                                                                                                \
                block_##number(from + at, w + at % s->features, y + at, period, BLOCK_##number, s);                             \
            if (segment % call->segments == call->segments - 1 && at < last)                                                    \
                block_##number(from + last, w + last % s->features, y + last, period, BLOCK_##number, s);                       \
        }                                                                                                                       \
    }                                                                                                                           \
                                                                                                                                \
    FOR_EACH_PROCESSOR static void repeat_##number(const number *w, number *repeated, const struct sizes *s) {                  \
        long long n = s->features, period = n + BLOCK_##number, offsets = s->window_rows * s->window_columns;                   \
        for (long long d = 0; d < offsets; d++, w += n, repeated += period)                                                     \
            if (n == 1)                                                                                                         \
                for (long long k = 0; k < period; k++) repeated[k] = *w;                                                        \
            else                                                                                                                \
                for (long long k = 0; k < period; k += n)                                                                       \
                    for (long long l = 0; l < n && k + l < period; l++) repeated[k + l] = w[l];                                 \
    }                                                                                                                           \
                                                                                                                                \
    static void xpr_positions_##number(const number *x, const number *w, number *repeated, number *y, const struct sizes *s) {  \
        long long segments = s->columns * s->features / BLOCK_##number, offsets = s->window_rows * s->window_columns;           \
        struct call call = {x, repeated, y, s, segments ? segments : 1};                                                        \
        repeat_##number(w, repeated, s);                                                                                        \
        xpr_parallel_for(positions_##number, &call, s->images * s->rows * call.segments, NANOSECONDS * VECTORS * offsets);      \
    }                                                                                                                           \
                                                                                                                                \
    FOR_EACH_PROCESSOR void xpr_offsets_##number(const number *x, const number *y, number *repeated, number *w,                 \
                                                 const struct sizes *s) {                                                       \
        long long row = s->columns * s->features, image_row = s->image_columns * s->features;                                   \
        long long period = s->features + BLOCK_##number, offsets = s->window_rows * s->window_columns;                          \
        for (long long image = 0; image < s->images; image++, w += offsets * s->features) {                                     \
            const number *factors = y;                                                                                          \
            for (long long k = 0; k < offsets * period; k++) repeated[k] = 0;                                                   \
            for (long long n = 0; n < s->summed; n++)                                                                           \
                for (long long i = 0; i < s->rows; i++, factors += row) {                                                       \
                    const number *rows = x + ((image * s->summed + n) * s->image_rows + i * s->row_step) * image_row;           \
                    for (long long at = 0; at < row; at += BLOCK_##number) {                                                    \
                        long long count = row - at < BLOCK_##number ? row - at : BLOCK_##number;                                \
                        number *sums = repeated + at % s->features;                                                             \
                        for (long long k = 0; k < s->window_rows; k++)                                                          \
                            for (long long l = 0; l < s->window_columns; l++, sums += period) {                                 \
                                const number *from = rows + at + k * s->row_offset * image_row + l * s->column_offset * s->features; \
                                for (long long m = 0; m < count; m++) sums[m] += from[m] * factors[at + m];                     \
                            }                                                                                                   \
                    }                                                                                                           \
                }                                                                                                               \
            for (long long d = 0; d < offsets; d++) {                                                                           \
                for (long long k = 0; k < s->features; k++) w[d * s->features + k] = 0;                                         \
                for (long long k = 0; k < period; k++) w[d * s->features + k % s->features] += repeated[d * period + k];        \
            }                                                                                                                   \
        }                                                                                                                       \
    }

DEFINE_CONVOLUTION(float, floats)
DEFINE_CONVOLUTION(double, doubles)

/* The numbers of `struct sizes` as text; `dtype` is 0 for float32, 1 for float64. The operands are the images [images, summed,
   image_rows, image_columns, features], and the window [window_rows, window_columns, features], or the factors at the positions
   [summed, rows, columns, features]. The first result is [images, rows, columns, features], or [images, window_rows,
   window_columns, features]; the second one memory for features + BLOCK numbers for each offset. */
void xpr_convolution(void **results, const void **operands, const char *text, size_t length, void *status) {
    union {
        long long numbers[SIZES];
        struct sizes sizes;
    } call;
    (void)status;
    read_numbers(text, length, call.numbers, SIZES);
    const struct sizes *s = &call.sizes;
    if (s->of_offsets && s->dtype)
        xpr_offsets_double(operands[0], operands[1], results[1], results[0], s);
    else if (s->of_offsets)
        xpr_offsets_float(operands[0], operands[1], results[1], results[0], s);
    else if (s->dtype)
        xpr_positions_double(operands[0], operands[1], results[1], results[0], s);
    else
        xpr_positions_float(operands[0], operands[1], results[1], results[0], s);
}
