/* Large blocks of memory that XLA has freed, kept for the next of their size: the system needn't clear their pages. */

#define _GNU_SOURCE
#include "blocks.h"

#ifdef KEEPS_BLOCKS

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEGABYTE ((size_t)1 << 20)
#define LARGE (4 * MEGABYTE) /* blocks with large pages, as in NumPy */
#define KEPT (32 * MEGABYTE) /* blocks that are kept; smaller ones glibc keeps by itself */
#define BLOCKS 128

static struct block {
    void *start; /* NULL: none */
    size_t size;
    unsigned long when; /* it was freed: as the block of this number */
} blocks[BLOCKS];

static unsigned long count;
static size_t bytes, limit; /* in all these blocks, and how many there may be */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Whether the mutex is this thread's now. Others have it for less than a microsecond; but one that a process was forked
   from never unlocks it there. */
static int locked(void) {
    for (int i = 0; i < 100; i++, sched_yield())
        if (!pthread_mutex_trylock(&mutex)) return 1;
    return 0;
}

static void *take(struct block *block) {
    void *start = block->start;
    bytes -= block->size;
    block->start = NULL;
    return start;
}

/* A kept block for `size` bytes, the smallest that is at most a quarter larger; NULL if there is none. */
static void *kept_for(size_t size) {
    struct block *best = NULL;
    if (!locked()) return NULL;
    for (struct block *block = blocks; block < blocks + BLOCKS; block++)
        if (block->start && block->size >= size && block->size - size <= size / 4 && (!best || block->size < best->size))
            best = block;
    void *start = best ? take(best) : NULL;
    pthread_mutex_unlock(&mutex);
    return start;
}

/* Keeps a block, in place of the oldest one if there are too many; returns the one that is to be freed, or NULL. */
static void *keep(void *start, size_t size) {
    struct block *place = blocks;
    if (!locked()) return start;
    for (struct block *block = blocks; block < blocks + BLOCKS && place->start; block++)
        if (!block->start || block->when < place->when) place = block;
    void *oldest = place->start ? take(place) : NULL;
    *place = (struct block){start, size, count++};
    bytes += size;
    pthread_mutex_unlock(&mutex);
    return oldest;
}

/* Frees blocks, the oldest first, until at most `most` bytes are kept. */
static void free_oldest(size_t most) {
    void *start;
    do {
        struct block *oldest = NULL;
        if (!locked()) return;
        for (struct block *block = blocks; block < blocks + BLOCKS; block++)
            if (block->start && (!oldest || block->when < oldest->when)) oldest = block;
        start = oldest && bytes > most ? take(oldest) : NULL;
        pthread_mutex_unlock(&mutex);
        free(start);
    } while (start);
}

/* Advice on the pages that lie wholly in a block; an error changes nothing. */
static void advise(void *start, size_t size, uintptr_t page, int advice) {
    uintptr_t first = ((uintptr_t)start + page - 1) / page * page, last = ((uintptr_t)start + size) / page * page;
    if (first < last) madvise((void *)first, last - first, advice);
}

int xpr_allocate(void **block, size_t alignment, size_t size) {
    int may_be_kept = size >= KEPT && alignment <= ALIGNMENT;
    if (may_be_kept && (*block = kept_for(size))) return 0;
    int error = posix_memalign(block, alignment, size);
    if (error == ENOMEM) {
        free_oldest(0);
        error = posix_memalign(block, alignment, size);
    }
    if (!error && size >= LARGE) advise(*block, size, sysconf(_SC_PAGESIZE), MADV_HUGEPAGE);
    return error;
}

/* The system takes pages of a kept block when it is short of memory. */
void xpr_free(void *start, size_t size) {
    int error = errno;
    if (size >= KEPT && size <= limit && (uintptr_t)start % ALIGNMENT == 0) {
        advise(start, size, 2 * MEGABYTE, MADV_FREE);
        free_oldest(limit - size);
        start = keep(start, size);
    }
    free(start);
    errno = error;
}

void xpr_limit_large_blocks(size_t most) { limit = most; }

void xpr_free_large_blocks(void) { free_oldest(0); }

#endif
