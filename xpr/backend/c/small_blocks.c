/* Small aligned blocks of memory that XLA has freed, which each thread keeps for its next ones.

   XLA allocates six for each run of a program. For malloc glibc has such lists, but (in version 2.36) none for aligned blocks: it
   splits larger ones, and joins what is left with what was freed, which takes a fifth of the time of a short call. */

#include "blocks.h"

#ifdef KEEPS_BLOCKS

#include <pthread.h>
#include <stdlib.h>

enum { CLASSES = 128 };   /* blocks with room for 64 bytes, 128, and so on up to 8 KiB */
enum { BYTES = 1 << 14 }; /* that a thread keeps of each class */

struct small {
    struct small *next;
};

static __thread struct {
    struct small *first[CLASSES];
    unsigned short count[CLASSES];
    char will_be_freed; /* `key` has free_all called when the thread ends */
    char were_freed;
} kept;

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_key;

/* For a thread that ends. */
static void free_all(void *unused) {
    (void)unused;
    kept.were_freed = 1;
    for (int i = 0; i < CLASSES; i++)
        for (struct small *block; (block = kept.first[i]); free(block)) kept.first[i] = block->next;
}

static void make_key(void) { has_key = !pthread_key_create(&key, free_all); }

size_t xpr_rounded(size_t size) {
    return size <= CLASSES * ALIGNMENT ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : size;
}

void *xpr_take_small(size_t size) {
    if (!size || size > CLASSES * ALIGNMENT) return NULL;
    size_t class = (size - 1) / ALIGNMENT;
    struct small *block = kept.first[class];
    if (block) kept.first[class] = block->next, kept.count[class]--;
    return block;
}

int xpr_keep_small(void *start, size_t size) {
    if (size < ALIGNMENT || size >= (CLASSES + 1) * ALIGNMENT || (uintptr_t)start % ALIGNMENT || kept.were_freed) return 0;
    size_t class = size / ALIGNMENT - 1;
    if (kept.count[class] >= BYTES / ((class + 1) * ALIGNMENT)) return 0;
    if (!kept.will_be_freed) {
        pthread_once(&once, make_key);
        if (!has_key || pthread_setspecific(key, &kept)) return 0;
        kept.will_be_freed = 1;
    }
    struct small *block = start;
    block->next = kept.first[class];
    kept.first[class] = block;
    kept.count[class]++;
    return 1;
}

#endif
