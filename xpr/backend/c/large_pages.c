/* Large pages for the large blocks that XLA allocates on CPU, all of them by posix_memalign. */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

#ifdef __linux__
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#endif

#if defined(__linux__) && defined(__LP64__) && defined(MADV_HUGEPAGE)

#define PAGE ((uintptr_t)4096)
#define LARGE ((size_t)4 << 20) /* bytes from which on NumPy asks for large pages, too */

static int allocate(void **block, size_t alignment, size_t size) {
    int error = posix_memalign(block, alignment, size);
    if (!error && size >= LARGE) {
        uintptr_t start = ((uintptr_t)*block + PAGE - 1) / PAGE * PAGE, end = ((uintptr_t)*block + size) / PAGE * PAGE;
        madvise((void *)start, end - start, MADV_HUGEPAGE); /* an error changes nothing: there are none, say */
    }
    return error;
}

/* A library's addresses of functions that others define: `entries` say where each is, and of which symbol. */
struct imports {
    const ElfW(Rela) *entries;
    size_t size;
    const ElfW(Sym) *symbols;
    const char *names;
};

static struct imports imports_of(const struct dl_phdr_info *library, const ElfW(Dyn) *entry) {
    struct imports imports = {0};
    for (; entry->d_tag != DT_NULL; entry++) {
        uintptr_t value = entry->d_un.d_ptr; /* an address, which glibc has added the library's to, or a number */
        const char *address = (const char *)(value < library->dlpi_addr ? library->dlpi_addr + value : value);
        if (entry->d_tag == DT_JMPREL) imports.entries = (const ElfW(Rela) *)address;
        if (entry->d_tag == DT_PLTRELSZ) imports.size = value / sizeof(ElfW(Rela));
        if (entry->d_tag == DT_SYMTAB) imports.symbols = (const ElfW(Sym) *)address;
        if (entry->d_tag == DT_STRTAB) imports.names = address;
    }
    return imports;
}

static int replace_in(struct dl_phdr_info *library, size_t size, void *name) {
    const ElfW(Phdr) *dynamic = NULL, *constant = NULL;
    (void)size;
    if (!strstr(library->dlpi_name, name)) return 0;
    for (int i = 0; i < library->dlpi_phnum; i++) {
        if (library->dlpi_phdr[i].p_type == PT_DYNAMIC) dynamic = &library->dlpi_phdr[i];
        if (library->dlpi_phdr[i].p_type == PT_GNU_RELRO) constant = &library->dlpi_phdr[i];
    }
    if (!dynamic) return 0;
    struct imports imports = imports_of(library, (const ElfW(Dyn) *)(library->dlpi_addr + dynamic->p_vaddr));
    for (size_t i = 0; i < imports.size; i++) {
        uintptr_t place = imports.entries[i].r_offset;
        const ElfW(Sym) *symbol = &imports.symbols[imports.entries[i].r_info >> 32];
        if (strcmp(imports.names + symbol->st_name, "posix_memalign")) continue;
        if (constant && place >= constant->p_vaddr && place < constant->p_vaddr + constant->p_memsz) return 0;
        *(void **)(library->dlpi_addr + place) = (void *)allocate;
        return 1;
    }
    return 0;
}

/* Has a loaded library, of which a part of the path is given, allocate so from now on; returns whether it will. */
int xpr_allocate_large_pages(const char *name) { return dl_iterate_phdr(replace_in, (void *)name); }

#else

int xpr_allocate_large_pages(const char *name) {
    (void)name;
    return 0;
}

#endif
