/* Small aligned blocks of memory that XLA has freed, which each thread keeps for its next ones.

   XLA allocates six for each run of a program. For malloc glibc has such lists, but up to 2.40 not for aligned blocks: it splits
   larger ones, and joins what is left with what was freed, which takes a fifth of the time of a short call. */

#include "blocks.h"

#ifdef KEEPS_BLOCKS

#include <pthread.h>
#include <stdlib.h>

enum { SIZES = 128 };        /* those of 64 bytes, 128, and so on */
enum { BYTES = 1 << 14 };    /* that are kept of each size */

struct block {
    struct block *next;
};

static __thread struct {
    struct block *first[SIZES];
    unsigned short count[SIZES];
    char is_known, has_ended; /* whether `key` knows the thread, and whether this has freed its blocks */
} kept;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_key;

/* For a thread that ends. */
static void free_all(void *unused) {
    (void)unused;
    kept.has_ended = 1;
    for (int i = 0; i < SIZES; i++)
        for (struct block *block; (block = kept.first[i]); free(block)) kept.first[i] = block->next;
}

static void make_key(void) { has_key = !pthread_key_create(&key, free_all); }

size_t xpr_rounded(size_t size) {
    return size <= SIZES * ALIGNMENT ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : size;
}

void *xpr_take_small(size_t size) {
    size_t number = xpr_rounded(size) / ALIGNMENT; /* the size's */
    if (!number || number > SIZES || !kept.first[number - 1]) return NULL;
    struct block *block = kept.first[number - 1];
    kept.first[number - 1] = block->next;
    kept.count[number - 1]--;
    return block;
}

int xpr_keep_small(void *start, size_t size) {
    size_t number = size / ALIGNMENT;
    if (!number || number > SIZES || (uintptr_t)start % ALIGNMENT || kept.has_ended) return 0;
    if (kept.count[number - 1] >= BYTES / (number * ALIGNMENT)) return 0;
    if (!kept.is_known) {
        pthread_once(&once, make_key);
        if (!has_key || pthread_setspecific(key, &kept)) return 0;
        kept.is_known = 1;
    }
    struct block *block = start;
    block->next = kept.first[number - 1];
    kept.first[number - 1] = block;
    kept.count[number - 1]++;
    return 1;
}

#endif
