/* XLA's memory on CPU: blocks that it has freed are kept for the next of their size, small ones by each thread
   (small_blocks.c), large ones by the process (large_blocks.c).

   XLA calls posix_memalign and free, and C++'s operators for aligned objects. The addresses that its library calls for these
   are replaced by those of functions here. The blocks are glibc's all the same, so that it does no harm where they are freed in
   another way. */

#define _GNU_SOURCE
#include "blocks.h"

#ifdef KEEPS_BLOCKS

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>

static void *(*new_aligned)(size_t, size_t), (*delete_aligned)(void *, size_t);

/* In place of posix_memalign. */
static int allocate(void **block, size_t alignment, size_t size) {
    if (alignment > ALIGNMENT) return xpr_allocate_large(block, alignment, size);
    if ((*block = xpr_take_small(size))) return 0;
    return xpr_allocate_large(block, alignment, xpr_rounded(size));
}

/* In place of free. */
static void give_back(void *start) {
    size_t size = start ? malloc_usable_size(start) : 0;
    if (!start || xpr_keep_small(start, size)) return;
    xpr_free_large(start, size);
}

/* In place of `operator new(size_t, std::align_val_t)`. */
static void *make_object(size_t size, size_t alignment) {
    if (alignment > ALIGNMENT) return new_aligned(size, alignment);
    void *object = xpr_take_small(size);
    return object ? object : new_aligned(xpr_rounded(size), alignment);
}

/* In place of `operator delete(void *, std::align_val_t)`. */
static void remove_object(void *object, size_t alignment) {
    if (object && !xpr_keep_small(object, malloc_usable_size(object))) delete_aligned(object, alignment);
}

/* Has a loaded library keep blocks from now on, large ones of at most `most` bytes together; returns whether it will. `path` is
   a part of the library's. */
int xpr_keep_blocks(const char *path, size_t most) {
    static const struct replacement of_blocks[] = {
        {"posix_memalign", (void *)allocate, NULL}, {"free", (void *)give_back, NULL},
    }, of_objects[] = {
        {"_ZnwmSt11align_val_t", (void *)make_object, (void **)&new_aligned},
        {"_ZdlPvSt11align_val_t", (void *)remove_object, (void **)&delete_aligned},
    };
    Dl_info of_free, of_size; /* the process may have an allocator of its own, without a function for sizes */
    if (!dladdr((void *)free, &of_free) || !dladdr((void *)malloc_usable_size, &of_size)) return 0;
    if (of_free.dli_fbase != of_size.dli_fbase) return 0;
    xpr_limit_large_blocks(most);
    if (xpr_replace_imports(path, of_blocks, 2) < 2) return 0;
    xpr_replace_imports(path, of_objects, 2);
    return 1;
}

/* Frees the large blocks that are kept. */
void xpr_free_blocks(void) { xpr_free_large_blocks(); }

#else

int xpr_keep_blocks(const char *path, size_t most) {
    (void)path, (void)most;
    return 0;
}

void xpr_free_blocks(void) {}

#endif
