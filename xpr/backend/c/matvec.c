/* Products of a matrix and a vector, and of vectors, on CPU, called from compiled programs as the functions in sort.c
   are. */

#include <stddef.h>
#include <stdlib.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

enum { BYTES = 32 }; /* of a register */
/* Products are summed in blocks of so many, and then the sums of the blocks: less is lost than by adding each to a total. The
   blocks are those of two vectors, of rows that are multiplied together, and of a vector times the rows and columns of a tile. */
enum { BLOCK = 1 << 15, SHORT_BLOCK = 1 << 12, SUMMED = 1 << 10, TILE = 1 << 10 };
typedef float floats __attribute__((vector_size(BYTES), aligned(sizeof(float))));
typedef double doubles __attribute__((vector_size(BYTES), aligned(sizeof(double))));

/* The product of two vectors of n numbers, and functions of a matrix of so many rows of n numbers, parts of rows of `whole` ones:
   the matrix times the vector, and the vector times the matrix. Four rows are multiplied together: one sum would wait for
   itself. */
#define PRODUCTS(number, lanes, processor, attribute)                                                                           \
    attribute static double vector_vector_##number##processor(const void *vector, const void *other, long long n) {             \
        enum { WIDTH = BYTES / sizeof(number), SUMS = 8 };                                                                      \
        const number *x = vector, *y = other;                                                                                   \
        lanes sums[SUMS] = {0};                                                                                                 \
        number total = 0;                                                                                                       \
        long long i = 0;                                                                                                        \
        for (; i + SUMS * WIDTH <= n; i += SUMS * WIDTH)                                                                        \
            for (int j = 0; j < SUMS; j++)                                                                                      \
                sums[j] += *(const lanes *)(x + i + j * WIDTH) * *(const lanes *)(y + i + j * WIDTH);                           \
        for (; i < n; i++) total += x[i] * y[i];                                                                                \
        for (int half = SUMS / 2; half; half /= 2)                                                                              \
            for (int j = 0; j < half; j++) sums[j] += sums[j + half];                                                           \
        for (int j = 0; j < WIDTH; j++) total += sums[0][j];                                                                    \
        return total;                                                                                                           \
    }                                                                                                                           \
    attribute static void matrix_vector_##number##processor(                                                                    \
        void *results, const void *matrix, const void *factors, long long rows, long long n, long long whole) {                 \
        enum { WIDTH = BYTES / sizeof(number) };                                                                                \
        number *restrict result = results;                                                                                      \
        const number *vector = factors;                                                                                         \
        for (long long row = 0; row < rows; row += 4) {                                                                         \
            int count = rows - row < 4 ? rows - row : 4;                                                                        \
            const number *a = (const number *)matrix + row * whole, *b = count > 1 ? a + whole : a,                             \
                         *c = count > 2 ? b + whole : a, *d = count > 3 ? c + whole : a;                                        \
            number totals[4] = {0};                                                                                             \
            for (long long start = 0, end; start < n; start = end) {                                                            \
                end = n - start < SHORT_BLOCK ? n : start + SHORT_BLOCK;                                                        \
                lanes of_a = {0}, of_b = {0}, of_c = {0}, of_d = {0};                                                           \
                number rest[4] = {0};                                                                                           \
                long long i = start;                                                                                            \
                for (; i + WIDTH <= end; i += WIDTH) {                                                                          \
                    lanes factor = *(const lanes *)(vector + i);                                                                \
                    of_a += *(const lanes *)(a + i) * factor, of_b += *(const lanes *)(b + i) * factor;                         \
                    of_c += *(const lanes *)(c + i) * factor, of_d += *(const lanes *)(d + i) * factor;                         \
                }                                                                                                               \
                for (; i < end; i++) {                                                                                          \
                    rest[0] += a[i] * vector[i], rest[1] += b[i] * vector[i];                                                   \
                    rest[2] += c[i] * vector[i], rest[3] += d[i] * vector[i];                                                   \
                }                                                                                                               \
                for (int j = 0; j < WIDTH; j++) rest[0] += of_a[j], rest[1] += of_b[j], rest[2] += of_c[j], rest[3] += of_d[j]; \
                for (int r = 0; r < 4; r++) totals[r] += rest[r];                                                               \
            }                                                                                                                   \
            for (int r = 0; r < count; r++) result[row + r] = totals[r];                                                        \
        }                                                                                                                       \
    }                                                                                                                           \
    attribute static void vector_matrix_##number##processor(                                                                    \
        void *results, const void *matrix, const void *factors, long long rows, long long n, long long whole) {                 \
        number *restrict result = results;                                                                                      \
        const number *vector = factors;                                                                                         \
        for (long long j = 0; j < n; j++) result[j] = 0;                                                                        \
        for (long long first = 0, end; first < rows; first = end) {                                                             \
            end = rows - first < SUMMED ? rows : first + SUMMED;                                                                \
            for (long long at = 0; at < n; at += TILE) {                                                                        \
                number tile[TILE] = {0};                                                                                        \
                int width = n - at < TILE ? n - at : TILE;                                                                      \
                long long row = first;                                                                                          \
                for (; row + 4 <= end; row += 4) {                                                                              \
                    const number *a = (const number *)matrix + row * whole + at, *b = a + whole, *c = b + whole,                \
                                 *d = c + whole, *of_rows = vector + row;                                                       \
                    for (int j = 0; j < width; j++)                                                                             \
                        tile[j] += (of_rows[0] * a[j] + of_rows[1] * b[j]) + (of_rows[2] * c[j] + of_rows[3] * d[j]);           \
                }                                                                                                               \
                for (; row < end; row++)                                                                                        \
                    for (int j = 0; j < width; j++)                                                                             \
                        tile[j] += vector[row] * ((const number *)matrix)[row * whole + at + j];                                \
                for (int j = 0; j < width; j++) result[at + j] += tile[j];                                                      \
            }                                                                                                                   \
        }                                                                                                                       \
    }                                                                                                                           \
    static const struct functions functions_##number##processor = {                                                             \
        vector_vector_##number##processor, matrix_vector_##number##processor, vector_matrix_##number##processor,                \
    };

struct functions {
    double (*vector_vector)(const void *x, const void *y, long long n);
    void (*matrix_vector)(void *result, const void *matrix, const void *vector, long long rows, long long n, long long whole);
    void (*vector_matrix)(void *result, const void *matrix, const void *vector, long long rows, long long n, long long whole);
};
PRODUCTS(float, floats, , )
PRODUCTS(double, doubles, , )
PRODUCTS(float, floats, _avx2, WITH_AVX2)
PRODUCTS(double, doubles, _avx2, WITH_AVX2)

enum { TOGETHER = 4, COLUMNS = 64, FEW_COLUMNS = 4 * COLUMNS, PIECES = 32, MANY_ROWS = 8 * PIECES };

struct call {
    struct functions functions;
    char *result;
    const char *matrix, *vector;
    long long bytes, rows, n;
};

static void multiply_blocks(void *argument, long long from, long long to) { /* of two vectors */
    struct call *call = argument;
    for (long long block = from; block < to; block++) {
        long long first = block * BLOCK, n = call->n - first < BLOCK ? call->n - first : BLOCK;
        ((double *)call->result)[block] =
            call->functions.vector_vector(call->matrix + first * call->bytes, call->vector + first * call->bytes, n);
    }
}

static void multiply_rows(void *argument, long long from, long long to) { /* TOGETHER of them each, or the last ones */
    struct call *call = argument;
    long long first = from * TOGETHER, end = to * TOGETHER < call->rows ? to * TOGETHER : call->rows, bytes = call->bytes;
    const char *matrix = call->matrix + first * call->n * bytes;
    call->functions.matrix_vector(call->result + first * bytes, matrix, call->vector, end - first, call->n, call->n);
}

static void multiply_columns(void *argument, long long from, long long to) { /* COLUMNS of them each, or the last ones */
    struct call *call = argument;
    long long first = from * COLUMNS, end = to * COLUMNS < call->n ? to * COLUMNS : call->n, at = first * call->bytes;
    call->functions.vector_matrix(call->result + at, call->matrix + at, call->vector, call->rows, end - first, call->n);
}

static void multiply_pieces(void *argument, long long from, long long to) { /* of the vector and of the matrix's rows */
    struct call *call = argument;
    long long n = call->n, bytes = call->bytes;
    for (long long piece = from; piece < to; piece++) {
        long long first = call->rows * piece / PIECES, rows = call->rows * (piece + 1) / PIECES - first;
        const char *matrix = call->matrix + first * n * bytes, *vector = call->vector + first * bytes;
        call->functions.vector_matrix(call->result + piece * n * bytes, matrix, vector, rows, n, n);
    }
}

/* A vector times a matrix of few columns: the sum of the pieces' results. */
static void multiply_many_rows(struct call *call, double nanoseconds) {
    double of_pieces[PIECES * FEW_COLUMNS], ones[PIECES];
    void *result = call->result;
    call->result = (char *)of_pieces;
    xpr_parallel_for(multiply_pieces, call, PIECES, nanoseconds / PIECES);
    for (int i = 0; i < PIECES; i++)
        if (call->bytes == sizeof(double))
            ones[i] = 1;
        else
            ((float *)ones)[i] = 1;
    call->functions.vector_matrix(result, of_pieces, ones, PIECES, call->n, call->n);
}

/* The sum of the blocks' products. */
static double sum_of_blocks(struct call *call, double nanoseconds) {
    enum { FEW = 64 };
    long long blocks = (call->n + BLOCK - 1) / BLOCK;
    double few[FEW], *products = blocks <= FEW ? few : malloc(blocks * sizeof *products), total = 0;
    if (!products) return call->functions.vector_vector(call->matrix, call->vector, call->n);
    call->result = (char *)products;
    xpr_parallel_for(multiply_blocks, call, blocks, nanoseconds / blocks);
    for (long long block = 0; block < blocks; block++) total += products[block];
    if (products != few) free(products);
    return total;
}

/* "bytes rows columns along_rows": the matrix times the vector where `along_rows` is 1, the vector times the matrix where
   it is 0. Numbers have so many bytes; the matrix is the first operand. */
void xpr_matvec(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[4];
    (void)status;
    read_numbers(text, length, numbers, 4);
    long long bytes = numbers[0], rows = numbers[1], n = numbers[2];
    int is_wide = bytes == sizeof(double), along_rows = numbers[3];
    struct functions wide = has_avx2() ? functions_double_avx2 : functions_double;
    struct functions narrow = has_avx2() ? functions_float_avx2 : functions_float;
    struct call call = {is_wide ? wide : narrow, result, operands[0], operands[1], bytes, rows, n};
    double nanoseconds = NANOSECONDS_A_BYTE * rows * n * bytes;
    if (along_rows && (rows == 1 || (rows <= TOGETHER && n > BLOCK))) {
        for (long long row = 0; row < rows; row++, call.matrix += n * bytes) {
            double product = sum_of_blocks(&call, nanoseconds / rows);
            if (is_wide)
                ((double *)result)[row] = product;
            else
                ((float *)result)[row] = (float)product;
        }
    } else if (along_rows)
        xpr_parallel_for(multiply_rows, &call, (rows + TOGETHER - 1) / TOGETHER, nanoseconds * TOGETHER / rows);
    else if (n <= FEW_COLUMNS && rows >= MANY_ROWS)
        multiply_many_rows(&call, nanoseconds);
    else
        xpr_parallel_for(multiply_columns, &call, (n + COLUMNS - 1) / COLUMNS, nanoseconds * COLUMNS / n);
}
