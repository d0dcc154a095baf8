/* Sizes, which XLA:CPU passes to a function as text, numbers with a space between two. */

#include <stddef.h>

static inline void read_numbers(const char *text, size_t length, long long *numbers, int count) {
    for (int i = 0; i < count; i++) numbers[i] = 0;
    for (size_t i = 0; i < length; i++)
        if (text[i] == ' ')
            numbers++;
        else
            *numbers = *numbers * 10 + (text[i] - '0');
}
