/* LU and Cholesky decompositions and triangular systems of small matrices, called from compiled programs as the functions in
   sort.c are. Matrices are by rows, one after another. LAPACK takes 100 nanoseconds to begin with each of them, and has to have
   them transposed. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "processors.h"
#include "text.h"
#include "threads.h"

#define INLINE static inline __attribute__((always_inline))

struct call {
    void *results[3];
    const void *operands[2];
    long long sizes[2], flags[4];
};

/* The LU decomposition of an m x n matrix in place, the rows that rows were exchanged with, and the order that these are in.
   A row is exchanged for the first one with the largest number in its column. */
#define DEFINE_LU(number, fabs)                                                                                          \
    INLINE void lu_of_##number(number *x, int32_t *pivots, int32_t *order, long long m, long long n) {                   \
        for (long long i = 0; i < m; i++) order[i] = (int32_t)i;                                                         \
        for (long long k = 0; k < m && k < n; k++) {                                                                     \
            long long chosen = k;                                                                                        \
            number largest = fabs(x[k * n + k]);                                                                         \
            for (long long i = k + 1; i < m; i++)                                                                        \
                if (fabs(x[i * n + k]) > largest) largest = fabs(x[i * n + k]), chosen = i;                              \
            pivots[k] = (int32_t)chosen;                                                                                 \
            if (chosen != k) {                                                                                           \
                int32_t moved = order[k];                                                                                \
                order[k] = order[chosen], order[chosen] = moved;                                                         \
                for (long long j = 0; j < n; j++) {                                                                      \
                    number element = x[k * n + j];                                                                       \
                    x[k * n + j] = x[chosen * n + j], x[chosen * n + j] = element;                                       \
                }                                                                                                        \
            }                                                                                                            \
            number pivot = x[k * n + k];                                                                                 \
            for (long long i = k + 1; i < m; i++) {                                                                      \
                number factor = pivot == 0 ? x[i * n + k] : x[i * n + k] / pivot;                                        \
                x[i * n + k] = factor;                                                                                   \
                for (long long j = k + 1; j < n; j++) x[i * n + j] -= factor * x[k * n + j];                             \
            }                                                                                                            \
        }                                                                                                                \
    }                                                                                                                    \
    FOR_EACH_PROCESSOR static void lu_of_##number##s(void *argument, long long from, long long to) {                         \
        const struct call *call = argument;                                                                              \
        long long m = call->sizes[0], n = call->sizes[1], k = m < n ? m : n;                                             \
        number *x = (number *)call->results[0] + from * m * n;                                                           \
        int32_t *pivots = (int32_t *)call->results[1] + from * k, *order = (int32_t *)call->results[2] + from * m;       \
        memcpy(x, (const number *)call->operands[0] + from * m * n, (to - from) * m * n * sizeof(number));               \
        for (; from < to; from++, x += m * n, pivots += k, order += m)                                                   \
            if (m == 2 && n == 2)                                                                                        \
                lu_of_##number(x, pivots, order, 2, 2);                                                                  \
            else if (m == 3 && n == 3)                                                                                   \
                lu_of_##number(x, pivots, order, 3, 3);                                                                  \
            else if (m == 4 && n == 4)                                                                                   \
                lu_of_##number(x, pivots, order, 4, 4);                                                                  \
            else                                                                                                         \
                lu_of_##number(x, pivots, order, m, n);                                                                  \
    }

/* The lower triangular L of A = L L^T, of which the lower triangle is read; nan where A isn't positive definite. */
#define DEFINE_CHOLESKY(number, sqrt)                                                                                    \
    INLINE void cholesky_of_##number(number *x, const number *a, long long n) {                                          \
        int is_positive = 1;                                                                                             \
        for (long long i = 0; i < n; i++) {                                                                              \
            for (long long j = 0; j <= i; j++) {                                                                         \
                number rest = a[i * n + j];                                                                              \
                for (long long k = 0; k < j; k++) rest -= x[i * n + k] * x[j * n + k];                                   \
                is_positive &= j < i || !(rest <= 0); /* nan counts as positive, as it does to OpenBLAS */               \
                x[i * n + j] = j < i ? rest / x[j * n + j] : sqrt(rest);                                                 \
            }                                                                                                            \
            for (long long j = i + 1; j < n; j++) x[i * n + j] = 0;                                                      \
        }                                                                                                                \
        for (long long i = 0; i < n && !is_positive; i++)                                                                \
            for (long long j = 0; j <= i; j++) x[i * n + j] = NAN;                                                       \
    }                                                                                                                    \
    FOR_EACH_PROCESSOR static void cholesky_of_##number##s(void *argument, long long from, long long to) {                   \
        const struct call *call = argument;                                                                              \
        long long n = call->sizes[0];                                                                                    \
        number *x = (number *)call->results[0] + from * n * n;                                                           \
        const number *a = (const number *)call->operands[0] + from * n * n;                                              \
        for (; from < to; from++, x += n * n, a += n * n)                                                                \
            if (n == 2)                                                                                                  \
                cholesky_of_##number(x, a, 2);                                                                           \
            else if (n == 3)                                                                                             \
                cholesky_of_##number(x, a, 3);                                                                           \
            else if (n == 4)                                                                                             \
                cholesky_of_##number(x, a, 4);                                                                           \
            else                                                                                                         \
                cholesky_of_##number(x, a, n);                                                                           \
    }

/* X of op(A) X = B, where X is n x m, or of X op(A) = B, where it is m x n. In terms of `a` and `x` it is a system of the first
   kind, whose matrices are by rows or by columns. */
#define DEFINE_SOLVE(number)                                                                                             \
    INLINE void solve_##number(                                                                                          \
        number *restrict x, const number *restrict a, long long n, long long m, int on_left, const long long *flags) {   \
        int is_transposed = flags[2] == on_left, is_lower = (flags[1] != 0) != is_transposed;   \
        long long row = is_transposed ? 1 : n, column = is_transposed ? n : 1, of_x = on_left ? m : 1;                   \
        long long next = on_left ? 1 : n;                                                                                \
        for (long long step = 0; step < n; step++) {                                                                     \
            long long i = is_lower ? step : n - 1 - step, k = is_lower ? 0 : n - 1;                                      \
            for (long long done = 0; done < step; done++, k += is_lower ? 1 : -1) {                                      \
                number factor = a[i * row + k * column];                                                                 \
                for (long long c = 0; c < m; c++) x[i * of_x + c * next] -= factor * x[k * of_x + c * next];             \
            }                                                                                                            \
            if (!flags[3])                                                                                               \
                for (long long c = 0; c < m; c++) x[i * of_x + c * next] /= a[i * (n + 1)];                              \
        }                                                                                                                \
    }                                                                                                                    \
    FOR_EACH_PROCESSOR static void solve_##number##s(void *argument, long long from, long long to) {                         \
        const struct call *call = argument;                                                                              \
        long long n = call->sizes[0], m = call->sizes[1];                                                                \
        number *x = (number *)call->results[0] + from * n * m;                                                           \
        const number *a = (const number *)call->operands[0] + from * n * n;                                              \
        memcpy(x, (const number *)call->operands[1] + from * n * m, (to - from) * n * m * sizeof(number));               \
        for (; from < to; from++, x += n * m, a += n * n)                                                                \
            if (!call->flags[0])                                                                                         \
                solve_##number(x, a, n, m, 0, call->flags);                                                              \
            else if (n == 2 && m == 1)                                                                                   \
                solve_##number(x, a, 2, 1, 1, call->flags);                                                              \
            else if (n == 3 && m == 1)                                                                                   \
                solve_##number(x, a, 3, 1, 1, call->flags);                                                              \
            else                                                                                                         \
                solve_##number(x, a, n, m, 1, call->flags);                                                              \
    }

DEFINE_LU(float, fabsf)
DEFINE_LU(double, fabs)
DEFINE_CHOLESKY(float, sqrtf)
DEFINE_CHOLESKY(double, sqrt)
DEFINE_SOLVE(float)
DEFINE_SOLVE(double)

enum { OVERHEAD = 10, OPERATION = 1 }; /* nanoseconds */

/* "count double m n": of so many m x n matrices of float32 (0) or float64 (1). */
void xpr_small_lu(void *results, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[4];
    (void)status;
    read_numbers(text, length, numbers, 4);
    void **result = results;
    struct call call = {{result[0], result[1], result[2]}, {operands[0]}, {numbers[2], numbers[3]}, {0}};
    double nanoseconds = OVERHEAD + OPERATION * (double)numbers[2] * numbers[2] * numbers[3];
    xpr_parallel_for(numbers[1] ? lu_of_doubles : lu_of_floats, &call, numbers[0], nanoseconds);
}

/* "count double n": of so many n x n matrices. */
void xpr_small_cholesky(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[3];
    (void)status;
    read_numbers(text, length, numbers, 3);
    struct call call = {{result}, {operands[0]}, {numbers[2]}, {0}};
    double nanoseconds = OVERHEAD + OPERATION * (double)numbers[2] * numbers[2] * numbers[2];
    xpr_parallel_for(numbers[1] ? cholesky_of_doubles : cholesky_of_floats, &call, numbers[0], nanoseconds);
}

/* "count double n m left lower transpose unit": so many systems of n equations with m right sides, whose matrix is on the left
   (1) or on the right (0), lower triangular or upper, transposed or not, with ones on its diagonal or not. */
void xpr_small_solve(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[8];
    (void)status;
    read_numbers(text, length, numbers, 8);
    struct call call = {{result}, {operands[0], operands[1]}, {numbers[2], numbers[3]}, {0}};
    memcpy(call.flags, numbers + 4, sizeof call.flags);
    double nanoseconds = OVERHEAD + OPERATION * (double)numbers[2] * numbers[2] * numbers[3];
    xpr_parallel_for(numbers[1] ? solve_doubles : solve_floats, &call, numbers[0], nanoseconds);
}
