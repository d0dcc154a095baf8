/* Where booleans are true, on CPU, called from compiled programs as the functions in sort.c are. */

#include <stdint.h>
#include <string.h>

#include "text.h"

enum { WORD = 8 };

/* "rows n size fill": for each row of n booleans the first `size` int32 indices of true ones; `fill` where there are fewer. */
void xpr_true_indices(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[4];
    (void)status;
    read_numbers(text, length, numbers, 4);
    long long rows = numbers[0], n = numbers[1], size = numbers[2];
    for (long long row = 0; row < rows; row++) {
        const uint8_t *flags = (const uint8_t *)operands[0] + row * n;
        int32_t *indices = (int32_t *)result + row * size;
        long long count = 0, i = 0;
        for (; i + WORD <= n && count + WORD <= size; i += WORD) {
            uint64_t word;
            memcpy(&word, flags + i, WORD);
            if (!word) continue;
            for (int j = 0; j < WORD; j++) indices[count] = (int32_t)(i + j), count += flags[i + j]; /* kept if it is true */
        }
        for (; i < n && count < size; i++)
            if (flags[i]) indices[count++] = (int32_t)i;
        for (; count < size; count++) indices[count] = (int32_t)numbers[3];
    }
}
