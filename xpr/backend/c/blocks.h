/* Blocks of memory that XLA has freed, and that are kept for the next of their size: see allocator.c. */

#include "imports.h"

#ifdef REPLACES_IMPORTS
#include <sys/mman.h>
#endif
#if defined(REPLACES_IMPORTS) && defined(MADV_HUGEPAGE) && defined(MADV_FREE)
#define KEEPS_BLOCKS

#define ALIGNMENT ((uintptr_t)64) /* of all that are kept */

/* As posix_memalign and free, for blocks that are not small; `size` is the block's. */
int xpr_allocate_large(void **block, size_t alignment, size_t size);
void xpr_free_large(void *start, size_t size);
void xpr_limit_large_blocks(size_t most); /* bytes that are kept */
void xpr_free_large_blocks(void);

/* A kept block of this thread for `size` bytes; NULL if there is none. */
void *xpr_take_small(size_t size);

/* The size to allocate for `size` bytes, so that the block fits all for which it may be taken. */
size_t xpr_rounded(size_t size);

/* Keeps a block with room for `size` bytes; returns 0 if it is not small, or there are enough. */
int xpr_keep_small(void *start, size_t size);

#endif
