/* Sorting, and selecting by rank, on CPU, called from compiled programs.

   XLA:CPU calls `f(result, operands, text, length, status)`; several results are an array of pointers. The text gives
   sizes. Memory to work in is a result, too; threads that divide rows have more, if there is more. */

#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "groups.h"
#include "text.h"

typedef int (*sort_function)(void *start, intptr_t n, void *unused); /* as NumPy declares them */

static sort_function sort_int32, sort_int64;
static long long most_by_numpy; /* rows of up to so many numbers are left to NumPy's sorts */

enum { FEW = 512, MANY = 4096, BITS = 8, BUCKETS = 1 << BITS };

/* Radix sort: `name(from, to, n)` sorts n numbers, whose bits below FIRST it ignores, stably, as if they were signed. Each of
   PASSES moves them between `from` and `to` by a byte, the lowest first, but where it is alike in all numbers.
   Returns where the numbers are in the end. */
#define DEFINE_SORT_BY_BUCKETS(name, TYPE, FIRST, PASSES)                                                               \
    static TYPE *name(TYPE *from, TYPE *to, long long n) {                                                              \
        const int width = 8 * sizeof(TYPE), top = FIRST + BITS * (PASSES - 1);                                          \
        const TYPE sign = (TYPE)1 << (width - 1);                                                                       \
        uint32_t starts[PASSES][BUCKETS] = {{0}};                                                                       \
        for (long long i = 0; i < n; i++) {                                                                             \
            TYPE x = from[i] ^ sign;                                                                                    \
            for (int pass = 0; pass < PASSES; pass++) starts[pass][x >> (FIRST + BITS * pass) & (BUCKETS - 1)]++;       \
        }                                                                                                               \
        for (int shift = FIRST, pass = 0; shift <= top; shift += BITS, pass++) {                                        \
            uint32_t start = 0, *of_pass = starts[pass];                                                                \
            if (of_pass[(from[0] ^ sign) >> shift & (BUCKETS - 1)] == n) continue;                                      \
            for (int i = 0; i < BUCKETS; i++) {                                                                         \
                uint32_t count = of_pass[i];                                                                            \
                of_pass[i] = start, start += count;                                                                     \
            }                                                                                                           \
            for (long long i = 0; i < n; i++) to[of_pass[(from[i] ^ sign) >> shift & (BUCKETS - 1)]++] = from[i];       \
            TYPE *filled = to;                                                                                          \
            to = from, from = filled;                                                                                   \
        }                                                                                                               \
        return from;                                                                                                    \
    }

DEFINE_SORT_BY_BUCKETS(sort_32, uint32_t, 0, 4)
DEFINE_SORT_BY_BUCKETS(sort_64, uint64_t, 0, 8)
DEFINE_SORT_BY_BUCKETS(sort_high_halves, uint64_t, 32, 4)

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* Whether NumPy sorts 2,048 numbers faster than buckets do, which takes about 10 us. It does with vector instructions, and
   then many numbers, too, but for those of AMD's Zen 4, on which storing selected elements of AVX-512's vectors is slow. */
static int numpy_is_faster(void) {
    enum { N = 2048, TIMES = 5 };
    uint32_t numbers[N], work[N];
    double of_numpy = 1, of_buckets = 1;
    for (int time = 0; time < 2 * TIMES; time++) {
        for (uint32_t i = 0; i < N; i++) numbers[i] = i * 2654435769u;
        double start = seconds();
        if (time % 2)
            sort_int32(numbers, N, NULL);
        else
            sort_32(numbers, work, N);
        double passed = seconds() - start, *shortest = time % 2 ? &of_numpy : &of_buckets;
        if (passed < *shortest) *shortest = passed;
    }
    return of_numpy < of_buckets;
}

void xpr_set_sorts(void *of_int32, void *of_int64) {
    sort_int32 = (sort_function)of_int32;
    sort_int64 = (sort_function)of_int64;
    most_by_numpy = numpy_is_faster() ? LLONG_MAX : FEW;
}

/* Sorts a row by NumPy's function or by buckets; returns where its numbers are in the end, in the row or in `work`. */
#define DEFINE_SORT_OF_ROW(name, TYPE, sort_by_numpy, sort_by_buckets)         \
    static TYPE *name(TYPE *row, TYPE *work, long long n) {                    \
        if (n > most_by_numpy) return sort_by_buckets(row, work, n);           \
        sort_by_numpy(row, n, NULL);                                           \
        return row;                                                            \
    }

DEFINE_SORT_OF_ROW(sorted_32, uint32_t, sort_int32, sort_32)
DEFINE_SORT_OF_ROW(sorted_64, uint64_t, sort_int64, sort_64)

/* A long row is sorted in pieces by several threads, which then merge two of them at a time, chunk by chunk. */
enum { LONG = 1 << 17, CHUNKS = 64, MOST_PIECES = 16 };

#define DEFINE_SORT_OF_LONG_ROW(name, TYPE, SIGNED)                                                                           \
    struct name {                                                                                                             \
        TYPE *row, *work;                                                                                                     \
        long long n, pieces, merged; /* so many pieces are in each of two runs that become one */                             \
        TYPE *(*sort)(TYPE * from, TYPE * work, long long n);                                                                 \
        TYPE *sorted; /* where the pieces go: there, and from one array to the other by each merging, to the row */           \
    };                                                                                                                        \
    static void name##_pieces(void *argument, long long from, long long to) {                                                 \
        struct name *s = argument;                                                                                            \
        for (long long piece = from; piece < to; piece++) {                                                                   \
            long long first = s->n * piece / s->pieces, n = s->n * (piece + 1) / s->pieces - first;                           \
            TYPE *sorted = s->sort(s->row + first, s->work + first, n);                                                       \
            if (sorted != s->sorted + first) memcpy(s->sorted + first, sorted, n * sizeof(TYPE));                             \
        }                                                                                                                     \
    }                                                                                                                         \
    /* Merges two runs, from both ends at once, since each step waits for the one before it. */                               \
    static void name##_merge(const TYPE *a, const TYPE *a_end, const TYPE *b, const TYPE *b_end, TYPE *out) {                 \
        TYPE *out_end = out + (a_end - a) + (b_end - b);                                                                      \
        for (long long steps; (steps = (a_end - a < b_end - b ? a_end - a : b_end - b) / 2) > 0;)                             \
            for (; steps; steps--) {                                                                                          \
                TYPE x = *a, y = *b, last_x = a_end[-1], last_y = b_end[-1];                                                  \
                long long from_b = (SIGNED)y < (SIGNED)x, last_from_b = (SIGNED)last_y >= (SIGNED)last_x;                     \
                *out++ = x ^ ((x ^ y) & -(TYPE)from_b); /* compilers make a branch of `?`, which processors mispredict */     \
                *--out_end = last_x ^ ((last_x ^ last_y) & -(TYPE)last_from_b);                                               \
                b += from_b, a += 1 - from_b;                                                                                 \
                b_end -= last_from_b, a_end -= 1 - last_from_b;                                                               \
            }                                                                                                                 \
        while (a < a_end && b < b_end) *out++ = (SIGNED)*b < (SIGNED)*a ? *b++ : *a++;                                        \
        memcpy(out, a, (a_end - a) * sizeof(TYPE));                                                                           \
        memcpy(out + (a_end - a), b, (b_end - b) * sizeof(TYPE));                                                             \
    }                                                                                                                         \
    /* How many of the first k merged numbers are of the first run. */                                                        \
    static long long name##_of_first(const TYPE *a, long long m, const TYPE *b, long long n, long long k) {                   \
        long long low = k > n ? k - n : 0, high = k < m ? k : m;                                                              \
        while (low < high) {                                                                                                  \
            long long middle = (low + high) / 2;                                                                              \
            if ((SIGNED)a[middle] <= (SIGNED)b[k - middle - 1])                                                               \
                low = middle + 1;                                                                                             \
            else                                                                                                              \
                high = middle;                                                                                                \
        }                                                                                                                     \
        return low;                                                                                                           \
    }                                                                                                                         \
    static void name##_chunks(void *argument, long long from, long long to) {                                                 \
        struct name *s = argument;                                                                                            \
        long long in_run = CHUNKS / s->pieces * s->merged;                                                                    \
        const TYPE *runs = s->sorted;                                                                                         \
        TYPE *merged = s->sorted == s->row ? s->work : s->row;                                                                \
        for (long long chunk = from; chunk < to; chunk++) {                                                                   \
            long long run = chunk / (2 * in_run) * 2 * in_run, start = s->n * run / CHUNKS;                                   \
            long long middle = s->n * (run + in_run) / CHUNKS, end = s->n * (run + 2 * in_run) / CHUNKS;                      \
            const TYPE *first = runs + start, *second = runs + middle;                                                        \
            long long k = s->n * chunk / CHUNKS - start, next_k = s->n * (chunk + 1) / CHUNKS - start;                        \
            long long at = name##_of_first(first, middle - start, second, end - middle, k);                                   \
            long long next = name##_of_first(first, middle - start, second, end - middle, next_k);                            \
            name##_merge(first + at, first + next, second + k - at, second + next_k - next, merged + start + k);              \
        }                                                                                                                     \
    }                                                                                                                         \
    static void name(TYPE *row, TYPE *work, long long n, TYPE *(*sort)(TYPE * from, TYPE * work, long long n), int threads) { \
        struct name s = {.row = row, .work = work, .n = n, .pieces = 1, .merged = 1, .sort = sort, .sorted = row};            \
        while (n >= LONG && s.pieces < MOST_PIECES && 2 * s.pieces <= threads) {                                              \
            s.pieces *= 2;                                                                                                    \
            s.sorted = s.sorted == row ? work : row;                                                                          \
        }                                                                                                                     \
        xpr_parallel_for(name##_pieces, &s, s.pieces, 3.0 * n / s.pieces);                                                          \
        for (; s.merged < s.pieces; s.merged *= 2) {                                                                          \
            xpr_parallel_for(name##_chunks, &s, CHUNKS, 2.0 * n / CHUNKS);                                                          \
            s.sorted = s.sorted == row ? work : row;                                                                          \
        }                                                                                                                     \
    }

DEFINE_SORT_OF_LONG_ROW(sort_long_32, uint32_t, int32_t)
DEFINE_SORT_OF_LONG_ROW(sort_long_64, uint64_t, int64_t)

static void sort_rows(struct groups *groups, long long row, long long end, void *work) {
    long long n = groups->sizes[1], bytes = groups->sizes[2];
    int threads = groups->count > 1 ? 1 : xpr_threads(); /* of several groups each is computed by one */
    for (char *x = (char *)groups->results[0] + row * n * bytes; row < end; row++, x += n * bytes)
        if (bytes == 8)
            sort_long_64((uint64_t *)x, work, n, sorted_64, threads);
        else
            sort_long_32((uint32_t *)x, work, n, sorted_32, threads);
}

/* "rows n bytes": rows of n signed integers of so many bytes, each sorted in place: the first result is the operand. The second
   one is memory for a row. */
void xpr_sort(void **results, const void **operands, const char *text, size_t length, void *status) {
    struct groups groups = {.results = results, .operands = operands, .compute = sort_rows};
    (void)status;
    read_numbers(text, length, groups.sizes, 3);
    groups.divides_rows = groups.sizes[1] >= LONG;
    compute_groups(&groups, results[1], groups.sizes[1] * groups.sizes[2], 2.5 * groups.sizes[1]);
}

static void order_rows(struct groups *groups, long long row, long long end, void *memory) {
    long long n = groups->sizes[1], keys = groups->sizes[2];
    int threads = groups->count > 1 ? 1 : xpr_threads();
    uint64_t *work = memory;
    for (; row < end; row++) {
        uint32_t *order = (uint32_t *)groups->results[0] + row * n;
        for (long long i = 0; i < n; i++) order[i] = i;
        for (long long key = keys - 1; key >= 0; key--) {
            const uint32_t *digits = (const uint32_t *)groups->operands[key] + row * n;
            for (long long i = 0; i < n; i++) work[i] = (uint64_t)digits[order[i]] << 32 | i;
            if (n <= most_by_numpy && n <= MANY)
                sort_int64(work, n, NULL);
            else
                sort_long_64(work, work + n, n, sort_high_halves, threads);
            uint32_t *next = (uint32_t *)(work + n);
            for (long long i = 0; i < n; i++) next[i] = order[(uint32_t)work[i]];
            memcpy(order, next, n * sizeof *order);
        }
    }
}

/* "rows n keys": for each row of n the int32 indices that sort it by as many int32 keys, the first one first, stably. The
   second result is memory for two 64-bit integers for each of n. */
void xpr_order(void **results, const void **operands, const char *text, size_t length, void *status) {
    struct groups groups = {.results = results, .operands = operands, .compute = order_rows};
    (void)status;
    read_numbers(text, length, groups.sizes, 3);
    long long n = groups.sizes[1];
    groups.divides_rows = n >= LONG;
    compute_groups(&groups, results[1], 2 * n * sizeof(uint64_t), 10.0 * n * groups.sizes[2]);
}

/* Radix selection: `name(from, work, n, shift, ranks, count, before, selected)` gives those of n signed numbers that would be
   at the ascending indices `ranks` if they were sorted behind `before` smaller ones. They are alike above the DIGIT bits from
   `shift` on (all of them, if it is negative); only numbers that share these bits with a selected one are looked at again. Both
   arrays are overwritten. */
enum { DIGIT = 11, VALUES = 1 << DIGIT };
#define DEFINE_SELECT(name, TYPE, sorted)                                                                               \
    static void name(TYPE *from, TYPE *work, long long n, int shift, const int64_t *ranks, long long count,             \
                     int64_t before, TYPE *selected) {                                                                  \
        if (shift < 0 || n <= 2 * FEW) {                                                                                \
            TYPE *in_order = shift < 0 ? from : sorted(from, work, n);                                                  \
            for (long long i = 0; i < count; i++) selected[i] = in_order[ranks[i] - before];                            \
            return;                                                                                                     \
        }                                                                                                               \
        const TYPE sign = (TYPE)1 << (8 * sizeof(TYPE) - 1);                                                            \
        const int next_shift = shift > DIGIT ? shift - DIGIT : shift ? 0 : -1;                                          \
        uint32_t sizes[VALUES] = {0}, ends[VALUES], end = 0;                                                            \
        unsigned char is_wanted[VALUES] = {0};                                                                          \
        for (long long i = 0; i < n; i++) sizes[(from[i] ^ sign) >> shift & (VALUES - 1)]++;                            \
        int64_t smaller = before;                                                                                       \
        for (long long digit = 0, i = 0; i < count; smaller += sizes[digit++])                                          \
            for (; i < count && ranks[i] < smaller + sizes[digit]; i++) is_wanted[digit] = 1;                           \
        for (int digit = 0; digit < VALUES; digit++)                                                                    \
            if (is_wanted[digit]) ends[digit] = end, end += sizes[digit];                                               \
        for (int digit = 0; digit < VALUES; digit++)                                                                    \
            if (!is_wanted[digit]) ends[digit] = end; /* the others all go to one place, behind these */                \
        for (long long i = 0; i < n; i++) {                                                                             \
            int digit = (from[i] ^ sign) >> shift & (VALUES - 1);                                                       \
            work[ends[digit]] = from[i];                                                                                \
            ends[digit] += is_wanted[digit];                                                                            \
        }                                                                                                               \
        smaller = before;                                                                                               \
        for (long long digit = 0, i = 0; i < count; smaller += sizes[digit++]) {                                        \
            long long first = i;                                                                                        \
            while (i < count && ranks[i] < smaller + sizes[digit]) i++;                                                 \
            uint32_t start = ends[digit] - sizes[digit];                                                                \
            if (i > first)                                                                                              \
                name(work + start, from + start, sizes[digit], next_shift, ranks + first, i - first, smaller,           \
                     selected + first);                                                                                 \
        }                                                                                                               \
    }

DEFINE_SELECT(select_32, uint32_t, sorted_32)
DEFINE_SELECT(select_64, uint64_t, sorted_64)

static void select_of_rows(struct groups *groups, long long row, long long end, void *work) {
    long long n = groups->sizes[1], bytes = groups->sizes[2], count = groups->sizes[3];
    const int64_t *ranks = groups->operands[1];
    for (; row < end; row++) {
        void *x = (char *)groups->results[0] + row * n * bytes, *selected = (char *)groups->results[2] + row * count * bytes;
        if (bytes == 8)
            select_64(x, work, n, 64 - DIGIT, ranks, count, 0, selected);
        else
            select_32(x, work, n, 32 - DIGIT, ranks, count, 0, selected);
    }
}

/* "rows n bytes count": of each of the rows of n signed integers of so many bytes, those that would be at `count` ascending
   int64 indices, the second operand, if it were sorted. The first result is the first operand, which is overwritten, the
   second one memory for a row, the third one holds rows of what is selected. */
void xpr_select(void **results, const void **operands, const char *text, size_t length, void *status) {
    struct groups groups = {.results = results, .operands = operands, .compute = select_of_rows};
    (void)status;
    read_numbers(text, length, groups.sizes, 4);
    compute_groups(&groups, results[1], groups.sizes[1] * groups.sizes[2], 2.0 * groups.sizes[1]);
}
