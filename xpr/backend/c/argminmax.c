/* argmax and argmin on CPU, called from compiled programs as the functions in sort.c are. */

#include <stdint.h>

#include "text.h"

typedef int (*index_function)(void *start, intptr_t n, intptr_t *index, void *unused); /* as NumPy declares them */

enum { FUNCTIONS = 32 };
static index_function functions[FUNCTIONS];

void xpr_set_index_function(int number, void *function) {
    functions[number] = (index_function)function;
}

/* "rows n bytes number wide": for each row of n elements of so many bytes, the index that the function of this number finds,
   as int64 where `wide` is 1, as int32 where it is 0. */
void xpr_index(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5];
    (void)status;
    read_numbers(text, length, numbers, 5);
    long long rows = numbers[0], n = numbers[1], bytes = numbers[2];
    index_function function = functions[numbers[3]];
    for (long long row = 0; row < rows; row++) {
        intptr_t index = 0;
        function((char *)operands[0] + row * n * bytes, n, &index, NULL);
        if (numbers[4])
            ((int64_t *)result)[row] = index;
        else
            ((int32_t *)result)[row] = (int32_t)index;
    }
}
