/* The random number generator Threefry-2x32 on CPU, called from compiled programs as the functions in sort.c are. */

#include <stdint.h>
#include <string.h>

#include "processors.h"
#include "text.h"

enum { BLOCK = 64 };
enum { COUNTS, ARRAY, ONE }; /* kinds of operands */

static inline uint32_t rotated(uint32_t x, int bits) {
    return x << bits | x >> (32 - bits);
}

#define ROUND(bits) (x0 += x1, x1 = x0 ^ rotated(x1, bits))
#define FOUR_ROUNDS(a, b, c, d) (ROUND(a), ROUND(b), ROUND(c), ROUND(d))
#define ADD_KEY(first, second, number) (x0 += first, x1 += second + number)

FOR_EACH_PROCESSOR void xpr_scramble(const uint32_t *keys0, const uint32_t *keys1, uint32_t *words0, uint32_t *words1) {
    for (int i = 0; i < BLOCK; i++) {
        uint32_t k0 = keys0[i], k1 = keys1[i], k2 = k0 ^ k1 ^ 0x1BD11BDA;
        uint32_t x0 = words0[i] + k0, x1 = words1[i] + k1;
        FOUR_ROUNDS(13, 15, 26, 6), ADD_KEY(k1, k2, 1);
        FOUR_ROUNDS(17, 29, 16, 24), ADD_KEY(k2, k0, 2);
        FOUR_ROUNDS(13, 15, 26, 6), ADD_KEY(k0, k1, 3);
        FOUR_ROUNDS(17, 29, 16, 24), ADD_KEY(k1, k2, 4);
        FOUR_ROUNDS(13, 15, 26, 6), ADD_KEY(k2, k0, 5);
        words0[i] = x0, words1[i] = x1;
    }
}

/* "n kind kind kind kind": the two words for each of n elements, of the words of the keys and of the counters. Their kinds are
   0 for the counts 0, 1, 2 ..., for which there is no operand, 1 for an array of n, and 2 + i for the element i of an array. */
void xpr_threefry(void *result, const void **operands, const char *text, size_t length, void *status) {
    long long numbers[5];
    uint32_t words[4][BLOCK], **results = result;
    (void)status;
    read_numbers(text, length, numbers, 5);
    memset(words, 0, sizeof words);
    for (long long start = 0; start < numbers[0]; start += BLOCK) {
        size_t count = numbers[0] - start < BLOCK ? numbers[0] - start : BLOCK;
        const uint32_t *const *operand = (const uint32_t *const *)operands;
        for (int i = 0; i < 4; i++) {
            long long kind = numbers[1 + i];
            if (kind == COUNTS)
                for (int j = 0; j < BLOCK; j++) words[i][j] = start + j;
            else if (kind == ARRAY)
                memcpy(words[i], *operand++ + start, count * sizeof(uint32_t));
            else {
                uint32_t word = (*operand++)[kind - ONE];
                for (int j = 0; j < BLOCK; j++) words[i][j] = word;
            }
        }
        xpr_scramble(words[0], words[1], words[2], words[3]);
        for (int i = 0; i < 2; i++) memcpy(results[i] + start, words[2 + i], count * sizeof(uint32_t));
    }
}
