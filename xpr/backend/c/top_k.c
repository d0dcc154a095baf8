/* The k greatest numbers of each row and their indices, on CPU, called from compiled programs as the functions in sort.c are.

   The best so far are in a heap with the worst of them as its root, each as one integer: the inverse of its key, and its index.
   Numbers that are greater than the root are few, unless the row ascends, and are looked for many at a time. */

#include <stdint.h>

#include "groups.h"
#include "processors.h"
#include "text.h"

enum { BLOCK = 64 };

/* Integers in the order of floats: -0 is less than 0, and nan greater than all. Read as bits, so that subnormal numbers differ. */
static inline int32_t key_float(int32_t bits) {
    return (bits & INT32_MAX) > 0x7F800000 ? INT32_MAX : bits ^ (bits >> 31 & INT32_MAX);
}

static inline int64_t key_double(int64_t bits) {
    return (bits & INT64_MAX) > 0x7FF0000000000000 ? INT64_MAX : bits ^ (bits >> 63 & INT64_MAX);
}

static inline int32_t key_int32(int32_t x) {
    return x;
}

static inline int64_t key_int64(int64_t x) {
    return x;
}

/* `top_NAME(x, n, k, heap, values, indices)`: of equal numbers the first ones. `heap` is memory for k of PAIR, which has twice
   the bits of KEY. */
#define DEFINE_TOP_K(NAME, KEY, PAIR, UNSIGNED_PAIR)                                                                            \
    static inline PAIR pair_##NAME(KEY key, long long i) {                                                                      \
        return (PAIR)((UNSIGNED_PAIR)(PAIR)~key << (8 * sizeof(KEY)) | (UNSIGNED_PAIR)i);                                       \
    }                                                                                                                           \
    static void sift_##NAME(PAIR *heap, long long size, PAIR pair) { /* puts it below a root that is gone */                    \
        long long i = 0, child;                                                                                                 \
        while ((child = 2 * i + 1) < size) {                                                                                    \
            child += child + 1 < size && heap[child + 1] > heap[child];                                                         \
            if (heap[child] <= pair) break;                                                                                     \
            heap[i] = heap[child], i = child;                                                                                   \
        }                                                                                                                       \
        heap[i] = pair;                                                                                                         \
    }                                                                                                                           \
    FOR_EACH_PROCESSOR int xpr_any_greater_##NAME(const KEY *x, KEY least) {                                                    \
        int any = 0;                                                                                                            \
        for (int j = 0; j < BLOCK; j++) any |= key_##NAME(x[j]) > least;                                                        \
        return any;                                                                                                             \
    }                                                                                                                           \
    static void top_##NAME(const KEY *x, long long n, long long k, PAIR *heap, KEY *values, int32_t *indices) {                 \
        for (long long i = 0; i < k; i++) { /* the first k, each moved up to where it belongs */                                \
            PAIR pair = pair_##NAME(key_##NAME(x[i]), i);                                                                       \
            long long at = i;                                                                                                   \
            for (; at && heap[(at - 1) / 2] < pair; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];                           \
            heap[at] = pair;                                                                                                    \
        }                                                                                                                       \
        KEY least = key_##NAME(x[(KEY)heap[0]]);                                                                                \
        for (long long i = k; i < n;) {                                                                                         \
            long long end = i + BLOCK <= n ? i + BLOCK : n;                                                                     \
            if (end == i + BLOCK && !xpr_any_greater_##NAME(x + i, least)) {                                                    \
                i = end;                                                                                                        \
                continue;                                                                                                       \
            }                                                                                                                   \
            for (; i < end; i++) {                                                                                              \
                KEY key = key_##NAME(x[i]);                                                                                     \
                if (key <= least) continue;                                                                                     \
                sift_##NAME(heap, k, pair_##NAME(key, i));                                                                      \
                least = key_##NAME(x[(KEY)heap[0]]);                                                                            \
            }                                                                                                                   \
        }                                                                                                                       \
        for (long long size = k - 1; size >= 0; size--) { /* the worst one goes last */                                         \
            KEY i = (KEY)heap[0];                                                                                               \
            sift_##NAME(heap, size, heap[size]);                                                                                \
            values[size] = x[i], indices[size] = (int32_t)i;                                                                    \
        }                                                                                                                       \
    }

DEFINE_TOP_K(float, int32_t, int64_t, uint64_t)
DEFINE_TOP_K(int32, int32_t, int64_t, uint64_t)
DEFINE_TOP_K(double, int64_t, __int128, unsigned __int128)
DEFINE_TOP_K(int64, int64_t, __int128, unsigned __int128)

static void find_in_rows(struct groups *groups, long long row, long long end, void *heap) {
    long long n = groups->sizes[1], k = groups->sizes[2], dtype = groups->sizes[3];
    for (; row < end; row++) {
        long long from = row * n, to = row * k;
        const int32_t *x32 = (const int32_t *)groups->operands[0] + from;
        const int64_t *x64 = (const int64_t *)groups->operands[0] + from;
        int32_t *values32 = (int32_t *)groups->results[0] + to, *indices = (int32_t *)groups->results[1] + to;
        int64_t *values64 = (int64_t *)groups->results[0] + to;
        if (dtype == 0)
            top_float(x32, n, k, heap, values32, indices);
        else if (dtype == 1)
            top_double(x64, n, k, heap, values64, indices);
        else if (dtype == 2)
            top_int32(x32, n, k, heap, values32, indices);
        else
            top_int64(x64, n, k, heap, values64, indices);
    }
}

/* "rows n k dtype": of rows of n numbers, float32 (0), float64 (1), int32 (2) or int64 (3), the k greatest, and their int32
   indices. The third result is memory for k numbers of 16 bytes. */
void xpr_top_k(void **results, const void **operands, const char *text, size_t length, void *status) {
    struct groups groups = {.results = results, .operands = operands, .compute = find_in_rows};
    (void)status;
    read_numbers(text, length, groups.sizes, 4);
    compute_groups(&groups, results[2], 16 * groups.sizes[2], 0.5 * groups.sizes[1] + 30.0 * groups.sizes[2]);
}
