/* Large blocks of memory that XLA allocates on CPU: their pages are large ones, and blocks that were freed are kept for
   the next of their size, whose pages the system needn't clear.

   XLA calls posix_memalign and free. The addresses that its library calls for these are replaced by those of functions
   here. The blocks are glibc's all the same, so that it does no harm where XLA frees one in another way. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#ifdef __linux__
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#if defined(__linux__) && defined(__GLIBC__) && defined(__LP64__) && defined(MADV_HUGEPAGE) && defined(MADV_FREE)

#define MEGABYTE ((size_t)1 << 20)
#define LARGE (4 * MEGABYTE) /* blocks with large pages, as in NumPy */
#define KEPT (32 * MEGABYTE) /* blocks that are kept; smaller ones glibc keeps by itself */
#define ALIGNMENT ((uintptr_t)64)
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

/* In place of posix_memalign. */
static int allocate(void **block, size_t alignment, size_t size) {
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

/* In place of free. The system takes pages of a kept block when it is short of memory. */
static void give_back(void *start) {
    size_t size = start ? malloc_usable_size(start) : 0;
    int error = errno;
    if (size >= KEPT && size <= limit && (uintptr_t)start % ALIGNMENT == 0) {
        advise(start, size, 2 * MEGABYTE, MADV_FREE);
        free_oldest(limit - size);
        start = keep(start, size);
    }
    free(start);
    errno = error;
}

/* Where a library has addresses of what others define: `entries` say each place, and the symbol. */
struct imports {
    const ElfW(Rela) *entries;
    size_t count;
};

struct loaded {
    const struct dl_phdr_info *library;
    struct imports imports[2];
    const ElfW(Sym) *symbols;
    const char *names;
    char *constant, *variable; /* the pages from the first to the second are read-only */
};

static char *page_of(char *place) { return place - (uintptr_t)place % sysconf(_SC_PAGESIZE); }

static struct loaded read_tables(const struct dl_phdr_info *library) {
    struct loaded loaded = {.library = library};
    const ElfW(Dyn) *entry = NULL;
    size_t relative = 0; /* so many entries come first that have no symbol */
    for (int i = 0; i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &library->dlpi_phdr[i];
        char *start = (char *)library->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_DYNAMIC && part->p_flags & PF_W) entry = (void *)start; /* glibc has made addresses of it */
        if (part->p_type == PT_GNU_RELRO) loaded.constant = start, loaded.variable = page_of(start + part->p_memsz);
    }
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        const void *address = (void *)entry->d_un.d_ptr;
        size_t number = entry->d_un.d_val;
        if (entry->d_tag == DT_JMPREL) loaded.imports[0].entries = address;
        if (entry->d_tag == DT_PLTRELSZ) loaded.imports[0].count = number / sizeof(ElfW(Rela));
        if (entry->d_tag == DT_RELA) loaded.imports[1].entries = address;
        if (entry->d_tag == DT_RELASZ) loaded.imports[1].count = number / sizeof(ElfW(Rela));
        if (entry->d_tag == DT_RELACOUNT) relative = number;
        if (entry->d_tag == DT_SYMTAB) loaded.symbols = address;
        if (entry->d_tag == DT_STRTAB) loaded.names = address;
    }
    loaded.imports[1].entries += relative, loaded.imports[1].count -= relative;
    return loaded;
}

/* Writes an address over each that the library has of a function of glibc; returns how many these are. */
static int replace(const struct loaded *loaded, const char *name, void *function, void *address) {
    int count = 0;
    for (const struct imports *imports = loaded->imports; imports < loaded->imports + 2; imports++)
        for (size_t i = 0; i < imports->count; i++) {
            const ElfW(Rela) *entry = &imports->entries[i];
            const ElfW(Sym) *symbol = &loaded->symbols[entry->r_info >> 32];
            if (symbol->st_shndx != SHN_UNDEF || strcmp(loaded->names + symbol->st_name, name)) continue;
            char *place = (char *)loaded->library->dlpi_addr + entry->r_offset;
            int is_function = imports == loaded->imports || *(void **)place == function; /* calls are perhaps not bound yet */
            int is_constant = place >= loaded->constant && place < loaded->variable;
            size_t size = sysconf(_SC_PAGESIZE);
            if (!is_function || (is_constant && mprotect(page_of(place), size, PROT_READ | PROT_WRITE))) continue;
            *(void **)place = address;
            if (is_constant) mprotect(page_of(place), size, PROT_READ);
            count++;
        }
    return count;
}

static int replace_both(struct dl_phdr_info *library, size_t size, void *name) {
    (void)size;
    if (!strstr(library->dlpi_name, name)) return 0;
    struct loaded loaded = read_tables(library);
    return replace(&loaded, "posix_memalign", (void *)posix_memalign, (void *)allocate) &&
           replace(&loaded, "free", (void *)free, (void *)give_back);
}

/* Has a loaded library allocate so from now on, and keep at most `most` bytes; returns whether it will. `name` is a part
   of the library's path. */
int xpr_keep_large_blocks(const char *name, size_t most) {
    Dl_info of_free, of_size; /* the process may have an allocator of its own, without a function for sizes */
    limit = most;
    if (!dladdr((void *)free, &of_free) || !dladdr((void *)malloc_usable_size, &of_size)) return 0;
    return of_free.dli_fbase == of_size.dli_fbase && dl_iterate_phdr(replace_both, (void *)name);
}

void xpr_free_large_blocks(void) { free_oldest(0); }

#else

int xpr_keep_large_blocks(const char *name, size_t most) {
    (void)name, (void)most;
    return 0;
}

void xpr_free_large_blocks(void) {}

#endif
