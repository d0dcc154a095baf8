/* argmax and argmin on CPU, called from compiled programs as the functions in sort.c are. */

#include <stdint.h>
#include <string.h>

#include "text.h"
#include "threads.h"

typedef int (*index_function)(void *start, intptr_t n, intptr_t *index, void *unused); /* as NumPy declares them */

enum { FUNCTIONS = 32 };
static index_function functions[FUNCTIONS];

void xpr_set_index_function(int number, void *function) {
    functions[number] = (index_function)function;
}

struct call {
    index_function function;
    void *result;
    const char *x;
    long long n, bytes, wide;
};

static void find_in_rows(void *argument, long long from, long long to) {
    struct call *call = argument;
    for (long long row = from; row < to; row++) {
        intptr_t index = 0;
        call->function((void *)(call->x + row * call->n * call->bytes), call->n, &index, NULL);
        if (call->wide)
            ((int64_t *)call->result)[row] = index;
        else
            ((int32_t *)call->result)[row] = (int32_t)index;
    }
}

enum { PIECES = 64, BYTES = 8 }; /* the most bytes that an element has */

/* Of one row: the best of each piece, and the best of these. */
static void find_in_pieces(void *argument, long long from, long long to) {
    struct call *call = argument;
    for (long long piece = from; piece < to; piece++) {
        long long first = call->n * piece / PIECES, end = call->n * (piece + 1) / PIECES;
        intptr_t index = 0;
        call->function((void *)(call->x + first * call->bytes), end - first, &index, NULL);
        ((int64_t *)call->result)[piece] = first + index;
    }
}

/* "rows n bytes number wide": for each row of n elements of so many bytes, the index that the function of this number finds,
   as int64 where `wide` is 1, as int32 where it is 0. */
void xpr_index(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5];
    (void)status;
    read_numbers(text, length, numbers, 5);
    long long rows = numbers[0], n = numbers[1], bytes = numbers[2];
    struct call call = {functions[numbers[3]], result, operands[0], n, bytes, numbers[4]};
    double nanoseconds = NANOSECONDS_A_BYTE * n * bytes;
    if (rows > 1 || nanoseconds < WORTH_A_THREAD) {
        xpr_parallel_for(find_in_rows, &call, rows, nanoseconds);
        return;
    }
    int64_t indices[PIECES], elements[PIECES * BYTES / sizeof(int64_t)];
    call.result = indices;
    xpr_parallel_for(find_in_pieces, &call, PIECES, nanoseconds / PIECES);
    for (int piece = 0; piece < PIECES; piece++)
        memcpy((char *)elements + piece * bytes, call.x + indices[piece] * bytes, bytes);
    intptr_t best = 0;
    call.function(elements, PIECES, &best, NULL);
    if (numbers[4])
        *(int64_t *)result = indices[best];
    else
        *(int32_t *)result = (int32_t)indices[best];
}
