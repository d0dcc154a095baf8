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
#include <string.h>

static void *(*new_aligned)(size_t, size_t);
static void (*delete_aligned)(void *, size_t);

/* In place of posix_memalign. */
static int allocate(void **block, size_t alignment, size_t size) {
    void *kept = alignment <= ALIGNMENT ? xpr_take_small(size) : NULL;
    if (!kept) return xpr_allocate(block, alignment, alignment <= ALIGNMENT ? xpr_rounded(size) : size);
    *block = kept;
    return 0;
}

/* In place of free. */
static void give_back(void *start) {
    size_t size = start ? malloc_usable_size(start) : 0;
    if (start && !xpr_keep_small(start, size)) xpr_free(start, size);
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

/* Whether two functions are of one library, whose path has a part. */
static int are_together(void *one, void *other, const char *path) {
    Dl_info of_one, of_other;
    if (!one || !other || !dladdr(one, &of_one) || !dladdr(other, &of_other)) return 0;
    return of_one.dli_fbase == of_other.dli_fbase && strstr(of_one.dli_fname, path);
}

/* Has a loaded library keep blocks from now on, large ones of at most `most` bytes together; returns whether it will. `path` is
   a part of the library's. Where the process has an allocator of its own, what frees a block need not know its size. */
int xpr_keep_blocks(const char *path, size_t most) {
    static const struct replacement of_blocks[] = {{"posix_memalign", (void *)allocate}, {"free", (void *)give_back}};
    static const struct replacement of_objects[] = {
        {"_ZnwmSt11align_val_t", (void *)make_object}, {"_ZdlPvSt11align_val_t", (void *)remove_object}};
    if (!are_together((void *)free, (void *)malloc_usable_size, "")) return 0;
    xpr_limit_large_blocks(most);
    if (xpr_replace_imports(path, of_blocks, 2) < 2) return 0;
    void *makes = xpr_import(path, of_objects[0].name), *removes = xpr_import(path, of_objects[1].name);
    if (are_together(makes, removes, "libstdc++")) { /* which calls aligned_alloc and free */
        new_aligned = (void *(*)(size_t, size_t))makes, delete_aligned = (void (*)(void *, size_t))removes;
        xpr_replace_imports(path, of_objects, 2);
    }
    return 1;
}

#else

int xpr_keep_blocks(const char *path, size_t most) {
    (void)path, (void)most;
    return 0;
}

void xpr_free_large_blocks(void) {}

#endif
