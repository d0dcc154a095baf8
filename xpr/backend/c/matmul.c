/* Products of small matrices that are contracted along their rows on CPU, called from programs as the functions in sort.c. */

#include <stddef.h>

#include "processors.h"
#include "text.h"

enum { ROWS = 4, TERMS = 64 }; /* of the result, and of its sums, that are computed together */
enum { PACKED = 1 << 16 };      /* bytes of the right matrix that are packed at a time */

/* A function of matrices with `terms` rows of m and of n numbers, and vectors of so many bytes. It packs a part of the right
   matrix into panels of two vectors' columns, with zeros beyond the last one. Eight sums, of four rows, don't wait for each
   other. */
#define MATMUL(number, processor, bytes, attribute)                                                              \
    typedef number number##s##processor __attribute__((vector_size(bytes), aligned(sizeof(number))));            \
    attribute static void matmul_##number##processor(                                                            \
        number *restrict result, const number *left, const number *right, long long terms, long long m,          \
        long long n) {                                                                                           \
        enum { WIDTH = bytes / sizeof(number), COLUMNS = 2 * WIDTH, PANELS = PACKED / bytes / 2 / TERMS };       \
        typedef number##s##processor lanes;                                                                      \
        lanes packed[PANELS * TERMS * 2];                                                                        \
        for (long long start = 0; start < terms; start += TERMS) {                                               \
            int count = terms - start < TERMS ? terms - start : TERMS;                                           \
            for (long long first = 0; first < n; first += PANELS * COLUMNS) {                                    \
                int width = n - first < PANELS * COLUMNS ? n - first : PANELS * COLUMNS;                         \
                for (int j = 0; j < width; j += COLUMNS)                                                         \
                    for (int t = 0; t < count; t++) {                                                            \
                        number *to = (number *)(packed + j / WIDTH * TERMS + t * 2);                             \
                        const number *from = right + (start + t) * n + first + j;                                \
                        for (int c = 0; c < COLUMNS; c++) to[c] = j + c < width ? from[c] : 0;                   \
                    }                                                                                            \
                for (long long i = 0; i < m; i += ROWS) {                                                        \
                    int rows = m - i < ROWS ? m - i : ROWS;                                                      \
                    const number *a = left + start * m + i, *b = rows > 1 ? a + 1 : a,                           \
                                 *c = rows > 2 ? a + 2 : a, *d = rows > 3 ? a + 3 : a;                           \
                    for (int j = 0; j < width; j += COLUMNS) {                                                   \
                        const lanes *panel = packed + j / WIDTH * TERMS;                                         \
                        lanes sums[ROWS][2] = {{{0}}};                                                           \
                        for (int t = 0; t < count; t++) {                                                        \
                            lanes x = panel[t * 2], y = panel[t * 2 + 1];                                        \
                            long long at = t * m;                                                                \
                            sums[0][0] += a[at] * x, sums[0][1] += a[at] * y;                                    \
                            sums[1][0] += b[at] * x, sums[1][1] += b[at] * y;                                    \
                            sums[2][0] += c[at] * x, sums[2][1] += c[at] * y;                                    \
                            sums[3][0] += d[at] * x, sums[3][1] += d[at] * y;                                    \
                        }                                                                                        \
                        int columns = width - j < COLUMNS ? width - j : COLUMNS;                                 \
                        for (int r = 0; r < rows; r++) {                                                         \
                            number *to = result + (i + r) * n + first + j, *from = (number *)sums[r];            \
                            for (int k = 0; k < columns; k++) to[k] = start ? to[k] + from[k] : from[k];         \
                        }                                                                                        \
                    }                                                                                            \
                }                                                                                                \
            }                                                                                                    \
        }                                                                                                        \
    }

MATMUL(float, , 16, )
MATMUL(double, , 16, )
MATMUL(float, _avx2, 32, WITH_AVX2)
MATMUL(double, _avx2, 32, WITH_AVX2)
MATMUL(float, _avx512, 64, WITH_AVX512)
MATMUL(double, _avx512, 64, WITH_AVX512)

#define MULTIPLY(processor)                                                                                      \
    numbers[0] == sizeof(double)                                                                                 \
        ? matmul_double##processor(result, operands[0], operands[1], numbers[1], numbers[2], numbers[3])         \
        : matmul_float##processor(result, operands[0], operands[1], numbers[1], numbers[2], numbers[3])

/* "bytes terms m n": the transpose of a matrix [terms, m] times a matrix [terms, n]. Numbers have so many bytes. */
void xpr_matmul(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[4];
    (void)status;
    read_numbers(text, length, numbers, 4);
    if (has_avx512())
        MULTIPLY(_avx512);
    else if (has_avx2())
        MULTIPLY(_avx2);
    else
        MULTIPLY();
}
