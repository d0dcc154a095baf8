/* Blocks of memory that XLA has freed, and that are kept for the next of their size: see allocator.c. */

#include "imports.h"

#ifdef REPLACES_IMPORTS
#include <sys/mman.h>
#endif
#if defined(REPLACES_IMPORTS) && defined(MADV_HUGEPAGE) && defined(MADV_FREE)
#define KEEPS_BLOCKS

#define ALIGNMENT ((uintptr_t)64) /* of all that are kept */

/* As posix_memalign and free, but that large blocks are kept; `size` is the block's. */
int xpr_allocate(void **block, size_t alignment, size_t size);
void xpr_free(void *start, size_t size);
void xpr_limit_large_blocks(size_t most); /* bytes that are kept */
void xpr_free_large_blocks(void);         /* those that are kept */

/* A kept block of this thread for `size` bytes; NULL if there is none, or they are not few. */
void *xpr_take_small(size_t size);

/* The size to allocate for `size` bytes, if they are few, so that the block fits all for which it may be taken. */
size_t xpr_rounded(size_t size);

/* Keeps a block with room for `size` bytes. Returns 0 if it is not small or not aligned, there are enough, or the thread ends. */
int xpr_keep_small(void *start, size_t size);

#endif
