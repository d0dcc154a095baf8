/* Products of small matrices on CPU, called from compiled programs as the functions in sort.c are. */

#include <stddef.h>

#include "processors.h"
#include "text.h"

enum { ROWS = 4, TERMS = 64 }; /* of the result, and of its sums, that are computed together */
enum { PACKED = 1 << 16 };      /* bytes of the right matrix that are packed at a time */

/* A matrix: how far its next term is, of the sums, and its next row or column, of the result. */
typedef struct {
    const void *start;
    long long term, next;
} operand;

/* A function of operands, and vectors of so many bytes. It packs a part of the right one into panels of two vectors' columns,
   with zeros beyond the last one. Eight sums, of four rows, don't wait for each other. */
#define MATMUL(number, processor, bytes, attribute)                                                              \
    typedef number number##s##processor __attribute__((vector_size(bytes), aligned(sizeof(number))));            \
    attribute static void matmul_##number##processor(                                                            \
        number *restrict result, operand left, operand right, long long terms, long long m, long long n) {       \
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
                        const number *from = right.start;                                                        \
                        from += (start + t) * right.term + (first + j) * right.next;                             \
                        if (right.next == 1)                                                                     \
                            for (int c = 0; c < COLUMNS; c++) to[c] = j + c < width ? from[c] : 0;               \
                        else                                                                                     \
                            for (int c = 0; c < COLUMNS; c++) to[c] = j + c < width ? from[c * right.next] : 0;  \
                    }                                                                                            \
                for (long long i = 0; i < m; i += ROWS) {                                                        \
                    int rows = m - i < ROWS ? m - i : ROWS;                                                      \
                    const number *a = (const number *)left.start + start * left.term + i * left.next,            \
                                 *b = rows > 1 ? a + left.next : a, *c = rows > 2 ? b + left.next : a,           \
                                 *d = rows > 3 ? c + left.next : a;                                              \
                    for (int j = 0; j < width; j += COLUMNS) {                                                   \
                        const lanes *panel = packed + j / WIDTH * TERMS;                                         \
                        lanes sums[ROWS][2] = {{{0}}};                                                           \
                        for (int t = 0; t < count; t++) {                                                        \
                            lanes x = panel[t * 2], y = panel[t * 2 + 1];                                        \
                            long long at = t * left.term;                                                         \
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
    numbers[0] == sizeof(double) ? matmul_double##processor(result, left, right, numbers[1], numbers[2], numbers[3]) \
                                 : matmul_float##processor(result, left, right, numbers[1], numbers[2], numbers[3])

/* "bytes terms m n term next term next": the product [m, n] of a left and a right operand. Numbers have so many bytes. */
void xpr_matmul(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[8];
    (void)status;
    read_numbers(text, length, numbers, 8);
    operand left = {operands[0], numbers[4], numbers[5]}, right = {operands[1], numbers[6], numbers[7]};
    if (has_avx512())
        MULTIPLY(_avx512);
    else if (has_avx2())
        MULTIPLY(_avx2);
    else
        MULTIPLY();
}
