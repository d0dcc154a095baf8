/* Products of matrices of moderate size on CPU, called from compiled programs as the functions in sort.c are. */

#include <stddef.h>
#include <stdint.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

enum { TERMS = 64 };       /* of the sums, that are computed together */
enum { PACKED = 1 << 16 }; /* bytes of the right matrix that are packed at a time */

/* A matrix: how far its next term is, of the sums, and its next row or column, of the result. */
typedef struct {
    const void *start;
    long long term, next;
} operand;

/* The numbers at four places, of type `index`, of two vectors one behind the other. */
#ifdef __clang__
#define SHUFFLED(index, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLED(index, a, b, ...) __builtin_shuffle(a, b, (index){__VA_ARGS__})
#endif

/* A function that copies four numbers from each of four rows, `step` apart, to columns of rows that are `width` apart. */
#define TRANSPOSED(number, index)                                                                                \
    typedef number four_##number##s __attribute__((vector_size(4 * sizeof(number)), aligned(sizeof(number))));   \
    typedef index four_of_##number##s __attribute__((vector_size(4 * sizeof(number))));                          \
    static inline __attribute__((always_inline)) void transposed_##number(                                       \
        number *to, long long width, const number *from, long long step) {                                       \
        typedef four_##number##s four;                                                                           \
        typedef four_of_##number##s places;                                                                      \
        four a = *(four *)from, b = *(four *)(from + step), c = *(four *)(from + 2 * step), d = *(four *)(from + 3 * step);\
        four of_ab = SHUFFLED(places, a, b, 0, 4, 1, 5), of_cd = SHUFFLED(places, c, d, 0, 4, 1, 5);             \
        *(four *)to = SHUFFLED(places, of_ab, of_cd, 0, 1, 4, 5);                                                \
        *(four *)(to + width) = SHUFFLED(places, of_ab, of_cd, 2, 3, 6, 7);                                      \
        of_ab = SHUFFLED(places, a, b, 2, 6, 3, 7), of_cd = SHUFFLED(places, c, d, 2, 6, 3, 7);                  \
        *(four *)(to + 2 * width) = SHUFFLED(places, of_ab, of_cd, 0, 1, 4, 5);                                  \
        *(four *)(to + 3 * width) = SHUFFLED(places, of_ab, of_cd, 2, 3, 6, 7);                                  \
    }

TRANSPOSED(float, int32_t)
TRANSPOSED(double, int64_t)

/* A function that copies some terms of the columns of a panel from an operand, where there are so many, and else zeros. */
#define PACK(number)                                                                                             \
    static inline __attribute__((always_inline)) void pack_##number(                                             \
        number *to, const int width, const number *from, operand right, int terms, int columns) {                \
        if (right.next == 1 && columns >= width) {                                                               \
            for (int t = 0; t < terms; t++)                                                                      \
                for (int c = 0; c < width; c++) to[t * width + c] = from[t * right.term + c];                    \
            return;                                                                                              \
        }                                                                                                        \
        for (int c = 0; c < width; c += 4) {                                                                     \
            int t = 0;                                                                                           \
            if (right.term == 1 && c + 4 <= columns)                                                             \
                for (; t + 4 <= terms; t += 4)                                                                   \
                    transposed_##number(to + t * width + c, width, from + c * right.next + t, right.next);       \
            for (; t < terms; t++)                                                                               \
                for (int k = c; k < c + 4; k++)                                                                  \
                    to[t * width + k] = k < columns ? from[t * right.term + k * right.next] : 0;                 \
        }                                                                                                        \
    }

PACK(float)
PACK(double)

/* A function of operands, and vectors of so many bytes. It packs a part of the right one into panels of two vectors' columns,
   with zeros beyond the last one. The sums of ROWS rows of a panel are in registers; of fewer, the last is computed again.

   `block` computes those sums for `height` rows, and adds them to the result if some of its terms are there already. Where they
   are `whole`, all lanes of its `vectors`, one or two, are written: those beyond the end of a row are in the next rows, which are
   written later (`overlaps`). */
#define MATMUL(number, processor, bytes, ROWS, attribute)                                                        \
    typedef number number##s##processor __attribute__((vector_size(bytes), aligned(sizeof(number))));            \
    attribute static inline __attribute__((always_inline)) void block_##number##processor(                       \
        number *restrict result, const number *left, long long term, const long long *rows, long long n,         \
        const number##s##processor *panel, int count, int columns, int height, int is_first, int whole, int vectors) { \
        enum { WIDTH = bytes / sizeof(number) };                                                                 \
        number##s##processor sums[ROWS][2] = {{{0}}};                                                            \
        for (int t = 0; t < count; t++) {                                                                        \
            number##s##processor x = panel[t * 2], y = panel[t * 2 + 1];                                         \
            const number *of_term = left + t * term;                                                             \
            _Pragma("GCC unroll 16") for (int r = 0; r < ROWS; r++) {                                            \
                sums[r][0] += of_term[rows[r]] * x;                                                              \
                if (vectors > 1) sums[r][1] += of_term[rows[r]] * y;                                             \
            }                                                                                                    \
        }                                                                                                        \
        for (int r = 0; r < height; r++) {                                                                       \
            number *to = result + r * n;                                                                         \
            number##s##processor *vector = (number##s##processor *)to;                                           \
            if (whole) {                                                                                         \
                vector[0] = is_first ? sums[r][0] : vector[0] + sums[r][0];                                      \
                if (vectors > 1) vector[1] = is_first ? sums[r][1] : vector[1] + sums[r][1];                     \
            } else                                                                                               \
                for (int k = 0; k < columns; k++) {                                                              \
                    number sum = sums[r][k / WIDTH][k % WIDTH];                                                  \
                    to[k] = is_first ? sum : to[k] + sum;                                                        \
                }                                                                                                \
        }                                                                                                        \
    }                                                                                                            \
    attribute static void matmul_##number##processor(                                                            \
        void *results, operand left, operand right, long long terms, long long m, long long n) {                 \
        enum { WIDTH = bytes / sizeof(number), COLUMNS = 2 * WIDTH, PANELS = PACKED / bytes / 2 / TERMS };       \
        typedef number##s##processor lanes;                                                                      \
        number *restrict result = results;                                                                       \
        lanes packed[PANELS * TERMS * 2];                                                                        \
        for (long long start = 0; start < terms; start += TERMS) {                                               \
            int count = terms - start < TERMS ? terms - start : TERMS;                                           \
            for (long long first = 0; first < n; first += PANELS * COLUMNS) {                                    \
                int width = n - first < PANELS * COLUMNS ? n - first : PANELS * COLUMNS;                         \
                for (int j = 0; j < width; j += COLUMNS) {                                                       \
                    const number *from = right.start;                                                            \
                    from += start * right.term + (first + j) * right.next;                                       \
                    pack_##number((number *)(packed + j / WIDTH * TERMS), COLUMNS, from, right, count, width - j); \
                }                                                                                                \
                for (long long i = 0; i < m; i += ROWS) {                                                        \
                    int height = m - i < ROWS ? m - i : ROWS;                                                    \
                    const number *a = (const number *)left.start + start * left.term + i * left.next;            \
                    long long rows[ROWS];                                                                        \
                    for (int r = 0; r < ROWS; r++) rows[r] = (r < height ? r : height - 1) * left.next;          \
                    for (int j = 0; j < width; j += COLUMNS) {                                                   \
                        const lanes *panel = packed + j / WIDTH * TERMS;                                         \
                        number *to = result + i * n + first + j;                                                 \
                        int columns = width - j < COLUMNS ? width - j : COLUMNS, is_first = start == 0;          \
                        int overlaps = n < COLUMNS && terms <= TERMS && (i + ROWS) * n + COLUMNS <= m * n;       \
                        if (columns > WIDTH)                                                                     \
                            block_##number##processor(to, a, left.term, rows, n, panel, count, columns, height, is_first, \
                                                      columns == COLUMNS || overlaps, 2);                        \
                        else                                                                                     \
                            block_##number##processor(to, a, left.term, rows, n, panel, count, columns, height, is_first, \
                                                      columns == WIDTH || overlaps, 1);                          \
                    }                                                                                            \
                }                                                                                                \
            }                                                                                                    \
        }                                                                                                        \
    }

MATMUL(float, , 16, 4, )
MATMUL(double, , 16, 4, )
MATMUL(float, _avx2, 32, 6, WITH_AVX2)
MATMUL(double, _avx2, 32, 6, WITH_AVX2)
MATMUL(float, _avx512, 64, 8, WITH_AVX512)
MATMUL(double, _avx512, 64, 8, WITH_AVX512)

typedef void (*product)(void *result, operand left, operand right, long long terms, long long m, long long n);
static product for_processor(int is_double, int is_narrow) {
    if (has_avx512() && !is_narrow) return is_double ? matmul_double_avx512 : matmul_float_avx512;
    if (has_avx2()) return is_double ? matmul_double_avx2 : matmul_float_avx2;
    return is_double ? matmul_double : matmul_float;
}

enum { ROWS_TOGETHER = 48 }; /* a multiple of all ROWS; for fewer, packing is not worth it */
static const double NANOSECONDS_A_PRODUCT = 0.014;

struct call {
    product multiply;
    char *result;
    operand left, right;
    long long bytes, terms, m, n;
};

static void multiply_rows(void *argument, long long from, long long to) { /* ROWS_TOGETHER of them each, or the last ones */
    struct call *call = argument;
    long long first = from * ROWS_TOGETHER, end = to * ROWS_TOGETHER < call->m ? to * ROWS_TOGETHER : call->m;
    operand left = call->left;
    left.start = (const char *)left.start + first * left.next * call->bytes;
    call->multiply(call->result + first * call->n * call->bytes, left, call->right, call->terms, end - first, call->n);
}

/* "bytes terms m n term next term next": the product [m, n] of a left and a right operand. Numbers have so many bytes. */
void xpr_matmul(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[8];
    (void)status;
    read_numbers(text, length, numbers, 8);
    long long bytes = numbers[0], terms = numbers[1], m = numbers[2], n = numbers[3];
    int is_narrow = bytes * n <= 32; /* a row of the result is no longer than a vector of AVX2 */
    struct call call = {
        .multiply = for_processor(bytes == sizeof(double), is_narrow),
        .result = result,
        .left = {operands[0], numbers[4], numbers[5]},
        .right = {operands[1], numbers[6], numbers[7]},
        .bytes = bytes,
        .terms = terms,
        .m = m,
        .n = n,
    };
    double nanoseconds = NANOSECONDS_A_PRODUCT * bytes / sizeof(float) * terms * n; /* for a row */
    xpr_parallel_for(multiply_rows, &call, (m + ROWS_TOGETHER - 1) / ROWS_TOGETHER, nanoseconds * ROWS_TOGETHER);
}
