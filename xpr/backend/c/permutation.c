/* The order of rows that exchanges make, on CPU, called from compiled programs as the functions in sort.c are. */

#include <stdint.h>

#include "text.h"

/* "rows size count": for each row of `count` int32 pivots the numbers below `size`, of which number i was exchanged with
   number pivots[i], one after another. Pivots that are out of bounds count as the nearest ones within. */
void xpr_permutation(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[3];
    (void)status;
    read_numbers(text, length, numbers, 3);
    long long rows = numbers[0], size = numbers[1], count = numbers[2];
    for (long long row = 0; row < rows; row++) {
        const int32_t *pivots = (const int32_t *)operands[0] + row * count;
        int32_t *order = (int32_t *)result + row * size;
        for (long long i = 0; i < size; i++) order[i] = (int32_t)i;
        for (long long i = 0; i < count; i++) {
            long long chosen = pivots[i] < 0 ? 0 : pivots[i] < size ? pivots[i] : size - 1;
            int32_t moved = order[i];
            order[i] = order[chosen], order[chosen] = moved;
        }
    }
}
