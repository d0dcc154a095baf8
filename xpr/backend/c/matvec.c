/* Products of a matrix and a vector, and of vectors, on CPU, called from compiled programs as the functions in sort.c
   are. */

#include <stddef.h>

#include "processors.h"
#include "text.h"

enum { BYTES = 32 }; /* of a register */
/* Products are summed in blocks of so many, and then the sums of the blocks: less is lost than by adding each to a total. */
enum { BLOCK = 1 << 15 };
typedef float floats __attribute__((vector_size(BYTES), aligned(sizeof(float))));
typedef double doubles __attribute__((vector_size(BYTES), aligned(sizeof(double))));

/* Functions of a matrix of so many rows of n numbers. Four rows are multiplied together: one sum would wait for itself. */
#define PRODUCTS(number, lanes, processor, attribute)                                                            \
    attribute static number vector_vector_##number##processor(const number *x, const number *y, long long n) {   \
        enum { WIDTH = BYTES / sizeof(number), SUMS = 8 };                                                       \
        number total = 0;                                                                                        \
        for (long long start = 0, end; start < n; start = end) {                                                 \
            end = n - start < BLOCK ? n : start + BLOCK;                                                         \
            lanes sums[SUMS] = {0};                                                                              \
            number of_rest = 0;                                                                                  \
            long long i = start;                                                                                 \
            for (; i + SUMS * WIDTH <= end; i += SUMS * WIDTH)                                                   \
                for (int j = 0; j < SUMS; j++)                                                                   \
                    sums[j] += *(const lanes *)(x + i + j * WIDTH) * *(const lanes *)(y + i + j * WIDTH);        \
            for (; i < end; i++) of_rest += x[i] * y[i];                                                         \
            for (int half = SUMS / 2; half; half /= 2)                                                           \
                for (int j = 0; j < half; j++) sums[j] += sums[j + half];                                        \
            for (int j = 0; j < WIDTH; j++) of_rest += sums[0][j];                                               \
            total += of_rest;                                                                                    \
        }                                                                                                        \
        return total;                                                                                            \
    }                                                                                                            \
    attribute static void matrix_vector_##number##processor(                                                     \
        number *restrict result, const number *matrix, const number *vector, long long rows, long long n) {      \
        enum { WIDTH = BYTES / sizeof(number) };                                                                 \
        if (rows == 1) {                                                                                         \
            *result = vector_vector_##number##processor(matrix, vector, n);                                      \
            return;                                                                                              \
        }                                                                                                        \
        for (long long row = 0; row < rows; row += 4) {                                                          \
            int count = rows - row < 4 ? rows - row : 4;                                                         \
            const number *a = matrix + row * n, *b = count > 1 ? a + n : a, *c = count > 2 ? b + n : a,          \
                         *d = count > 3 ? c + n : a;                                                             \
            lanes of_a = {0}, of_b = {0}, of_c = {0}, of_d = {0};                                                \
            number totals[4] = {0};                                                                              \
            long long i = 0;                                                                                     \
            for (; i + WIDTH <= n; i += WIDTH) {                                                                 \
                lanes factors = *(const lanes *)(vector + i);                                                    \
                of_a += *(const lanes *)(a + i) * factors, of_b += *(const lanes *)(b + i) * factors;            \
                of_c += *(const lanes *)(c + i) * factors, of_d += *(const lanes *)(d + i) * factors;            \
            }                                                                                                    \
            for (; i < n; i++) {                                                                                 \
                totals[0] += a[i] * vector[i], totals[1] += b[i] * vector[i];                                    \
                totals[2] += c[i] * vector[i], totals[3] += d[i] * vector[i];                                    \
            }                                                                                                    \
            for (int j = 0; j < WIDTH; j++)                                                                      \
                totals[0] += of_a[j], totals[1] += of_b[j], totals[2] += of_c[j], totals[3] += of_d[j];          \
            for (int r = 0; r < count; r++) result[row + r] = totals[r];                                         \
        }                                                                                                        \
    }                                                                                                            \
    attribute static void vector_matrix_##number##processor(                                                     \
        number *restrict result, const number *matrix, const number *vector, long long rows, long long n) {      \
        for (long long j = 0; j < n; j++) result[j] = 0;                                                         \
        long long row = 0;                                                                                       \
        for (; row + 4 <= rows; row += 4) {                                                                      \
            const number *a = matrix + row * n, *b = a + n, *c = b + n, *d = c + n, *factors = vector + row;     \
            for (long long j = 0; j < n; j++)                                                                    \
                result[j] += (factors[0] * a[j] + factors[1] * b[j]) + (factors[2] * c[j] + factors[3] * d[j]);  \
        }                                                                                                        \
        for (; row < rows; row++)                                                                                \
            for (long long j = 0; j < n; j++) result[j] += vector[row] * matrix[row * n + j];                    \
    }

PRODUCTS(float, floats, , )
PRODUCTS(double, doubles, , )
PRODUCTS(float, floats, _avx2, WITH_AVX2)
PRODUCTS(double, doubles, _avx2, WITH_AVX2)

#define MULTIPLY(number, processor)                                                                              \
    (along_rows ? matrix_vector_##number##processor : vector_matrix_##number##processor)(                        \
        result, operands[0], operands[1], numbers[1], numbers[2])

/* "bytes rows columns along_rows": the matrix times the vector where `along_rows` is 1, the vector times the matrix where
   it is 0. Numbers have so many bytes; the matrix is the first operand. */
void xpr_matvec(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[4];
    (void)status;
    read_numbers(text, length, numbers, 4);
    int along_rows = numbers[3], wide = numbers[0] == sizeof(double);
    if (has_avx2())
        wide ? MULTIPLY(double, _avx2) : MULTIPLY(float, _avx2);
    else
        wide ? MULTIPLY(double, ) : MULTIPLY(float, );
}
